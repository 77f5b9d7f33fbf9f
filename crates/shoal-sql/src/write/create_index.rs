//! `CREATE INDEX`.

use std::sync::Arc;

use shoal_store::{BtreeKind, Pgno, Transaction, ValueRef, encode_record};

use super::create_table::check_reserved;
use super::row::{Row, RowEnv};
use super::rows::{IndexWriter, Rows};
use super::schema_rows::SchemaRow;
use super::target::{check_database, writable_table};
use super::{Context, Done, Kind, text};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{CreateIndex, Expr, ExprKind, Name, ObjectName, Quote};
use crate::schema::{Index, Schema, Table, build_index};
use crate::value::Value;

/// A prepared `CREATE INDEX`.
#[derive(Debug)]
pub(crate) struct CreateIndexPlan {
    definition: CreateIndex,
    table: Arc<Table>,
    /// What the schema stores.
    sql: String,
}

/// Prepares a `CREATE INDEX`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(schema: &Schema, create: &CreateIndex, sql: &str) -> Result<Kind, Error> {
    check_database(&create.name)?;
    let name = &create.name.name;
    check_reserved(name)?;
    // An index is in its table's database, and SQLite says so when there is no such table.
    let main = Name { text: "main".to_owned(), ..create.table.clone() };
    let on = ObjectName { database: Some(main), name: create.table.clone() };
    let table = writable_table(schema, &on)?;
    if table.name.to_ascii_lowercase().starts_with("sqlite_") {
        let message = format!("table {} may not be indexed", table.name);
        return Err(Error::meaning(message, create.table.offset));
    }
    if schema.object(&name.text).is_some() {
        let message = format!("there is already a table named {}", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    if schema.index(&name.text).is_some() {
        if create.if_not_exists {
            return Ok(Kind::Nothing);
        }
        let message = format!("index {} already exists", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    for term in &create.columns {
        check_column(&table, &term.expr)?;
    }
    let index = build_index(create, Pgno::FIRST, &table)
        .map_err(|message| Error::meaning(message, create.table.offset))?
        .with_own(schema.own());
    if let Some(unknown) = index.columns.iter().find_map(|it| it.collation.as_ref().err()) {
        let message = format!("no such collation sequence: {unknown}");
        return Err(Error::meaning(message, create.offset));
    }
    Rows::new(schema, &table)?;
    IndexWriter::compile(schema, &table, &index)?;
    let sql = stored_text(sql, create);
    Ok(Kind::CreateIndex(Box::new(CreateIndexPlan { definition: create.clone(), table, sql })))
}

/// Refuses a column that the table does not have. In double quotes it would be a text.
fn check_column(table: &Table, expr: &Expr) -> Result<(), Error> {
    match &expr.kind {
        ExprKind::Collate { expr, .. } => check_column(table, expr),
        ExprKind::Column { table: None, column, .. }
            if column.quote != Quote::Double && table.column_index(&column.text).is_none() =>
        {
            Err(Error::no_such(NameKind::Column, &column.text, column.offset))
        }
        _ => Ok(()),
    }
}

/// `CREATE INDEX` and the statement's own text from the index's name on.
fn stored_text(sql: &str, create: &CreateIndex) -> String {
    let start = create.name.name.offset;
    let unique = if create.unique { " UNIQUE" } else { "" };
    let text = sql.get(start..text::semicolon(sql, start)).unwrap_or_default();
    format!("CREATE{unique} INDEX {text}")
}

impl CreateIndexPlan {
    /// Makes the index and its entries.
    ///
    /// # Errors
    /// [`Error::Constraint`] when it is unique and the rows are not; [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let transaction = &mut *context.transaction;
        let root = transaction.create_btree(BtreeKind::Index)?;
        let mut index = build_index(&self.definition, root, &self.table)
            .map_err(|message| Error::meaning(message, self.definition.table.offset))?
            .with_own(context.schema.own());
        if transaction.header().schema_format < 4 {
            // Older formats keep the word DESC and ignore it.
            index.columns.iter_mut().for_each(|column| column.descending = false);
        }
        let name = &self.definition.name.name.text;
        let table = &self.table.name;
        SchemaRow { kind: "index", name, table, root: Some(root), sql: Some(&self.sql) }
            .insert(transaction)?;
        fill(context, &self.table, &index)?;
        context.transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

/// Makes the entries of an empty index.
///
/// # Errors
/// [`Error::Constraint`] when the index is unique and the rows are not; what its expressions raise;
/// [`Error::Store`].
pub(crate) fn fill(
    context: &mut Context<'_>,
    table: &Arc<Table>,
    index: &Index,
) -> Result<(), Error> {
    let rows = Rows::new(context.schema, table)?;
    let writer = IndexWriter::compile(context.schema, table, index)?;
    let env = RowEnv { transaction: context.transaction, session: context.session };
    let mut entries: Vec<Vec<Value>> = Vec::new();
    let add = |mut row: Row| -> Result<(), Error> {
        rows.compute(&mut row, &env)?;
        entries.extend(writer.entry(table, index, &row, &env)?);
        Ok(())
    };
    Row::each(table, context.transaction, add)?;
    put_sorted(context.transaction, table, index, entries)
}

/// Puts the entries into an empty index: sorted, so that each goes to the end.
fn put_sorted(
    transaction: &mut Transaction,
    table: &Table,
    index: &Index,
    mut entries: Vec<Vec<Value>>,
) -> Result<(), Error> {
    let order = index.order();
    let compare = |a: &[Value], b: &[Value]| {
        let columns = a.iter().zip(b).enumerate();
        columns
            .map(|(column, (a, b))| order.compare_column(column, a.as_ref(), b.as_ref()))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    entries.sort_by(|a, b| compare(a, b));
    let key = |entry: &[Value]| entry[..index.key_columns.min(entry.len())].to_vec();
    let same = |pair: &[Vec<Value>]| {
        let (a, b) = (key(&pair[0]), key(&pair[1]));
        !a.iter().any(Value::is_null) && compare(&a, &b).is_eq()
    };
    if index.unique && entries.windows(2).any(same) {
        let column = |column: Option<usize>| {
            column.map(|column| format!("{}.{}", table.name, table.columns[column].name))
        };
        let columns: Option<Vec<String>> = index.key().map(column).collect();
        let place = match columns {
            Some(columns) => columns.join(", "),
            None => format!("index '{}'", index.name),
        };
        return Err(Error::Constraint { constraint: "UNIQUE", place });
    }
    let format = transaction.header().schema_format;
    let mut record = Vec::new();
    for entry in entries {
        let values: Vec<ValueRef<'_>> = entry.iter().map(Value::as_ref).collect();
        record.clear();
        encode_record(&values, format, &mut record);
        transaction.index_insert(index.root, &record, &order)?;
    }
    Ok(())
}
