//! `CREATE INDEX`.

use std::sync::Arc;

use rayon::prelude::*;
use shoal_store::{BtreeKind, ColumnFinder, KeyOrder, Pgno, TableScan, Transaction, ValueRef};

use super::create_table::check_reserved;
use super::row::{Row, RowEnv, compacted};
use super::rows::{IndexWriter, Rows};
use super::schema_rows::SchemaRow;
use super::sorted_entries::{Part, SortedEntries};
use super::target::writable_table;
use super::triggers::Within;
use super::{Context, Done, Kind, text};
use crate::Error;
use crate::error::{ConstraintKind, NameKind};
use crate::parse::ast::{CreateIndex, Expr, ExprKind, Name, ObjectName, Quote};
use crate::schema::{Column, Index, IndexColumn, IndexSource, Schema, Table, build_index};
use crate::session::Session;
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
pub(crate) fn prepare(within: &Within<'_>, create: &CreateIndex, sql: &str) -> Result<Kind, Error> {
    let (whole, schema) = (within.schema, within.own);
    let name = &create.name.name;
    check_reserved(name)?;
    // An index is in its table's database, and SQLite says so when there is no such table.
    let main = Name { text: whole.database_name(within.home).to_owned(), ..create.table.clone() };
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
    Rows::new(whole, &table)?;
    IndexWriter::compile(whole, &table, &index)?;
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
        fill(context.schema, context.transaction, context.session, (&self.table, &index))?;
        context.transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

/// Makes the entries of an empty index.
///
/// Cost: the table is read once, on all cores where the index is of stored columns; the entries are
/// kept in memory as far as a statement's limit allows, and in a temporary file beyond.
///
/// # Errors
/// [`Error::Constraint`] when the index is unique and the rows are not; what its expressions raise;
/// [`Error::Store`].
pub(crate) fn fill(
    schema: &Schema,
    target: &mut Transaction,
    session: &dyn Session,
    (table, index): (&Arc<Table>, &Index),
) -> Result<(), Error> {
    let writer = IndexWriter::compile(schema, table, index)?;
    let transaction = &*target;
    let order = index.order();
    let format = transaction.header().schema_format;
    // The rowid behind one column: rows come in the order of their rowids.
    let is_stable = !table.without_rowid
        && index.columns.len() == 2
        && matches!(index.columns[1].source, IndexSource::Rowid);
    let mut entries = SortedEntries::new(&order, is_stable, format);
    match StoredColumns::of(table, index).filter(|_| transaction.utf16().is_none()) {
        Some(columns) => {
            let parts = transaction.table_parts(table.root)?;
            let collect = |part: &(i64, i64)| {
                columns.entries(transaction, *part, (&order, format, is_stable))
            };
            for wave in parts.chunks(4 * rayon::current_num_threads()) {
                let found: Vec<Result<Part, Error>> = wave.par_iter().map(collect).collect();
                for part in found {
                    entries.add(session, part?)?;
                }
                session.check()?;
            }
        }
        None => {
            let rows = Rows::new(schema, table)?;
            let env = RowEnv { transaction, session };
            Row::each(table, transaction, |mut row| {
                rows.compute(&mut row, &env)?;
                if let Some(entry) = writer.entry(table, index, &row, &env)? {
                    entries.push(session, entry.iter().map(Value::as_ref))?;
                }
                Ok(())
            })?;
        }
    }
    let unique = index.unique.then_some(index.key_columns);
    if entries.fill(session, target, index.root, unique)? {
        return Ok(());
    }
    let column = |column: Option<usize>| {
        column.map(|column| format!("{}.{}", table.name, table.columns[column].name))
    };
    let columns: Option<Vec<String>> = index.key().map(column).collect();
    let place = match columns {
        Some(columns) => columns.join(", "),
        None => format!("index '{}'", index.name),
    };
    Err(Error::Constraint { constraint: ConstraintKind::Unique, place })
}

/// The columns of an index over stored columns of a table with rowids.
pub(super) struct StoredColumns<'t> {
    table: &'t Table,
    columns: Vec<StoredColumn<'t>>,
    /// The columns' places in the record, ascending.
    places: Vec<usize>,
}

/// A column of an entry taken from a row's record as stored there.
enum StoredColumn<'t> {
    Rowid,
    /// The number among the places found.
    Found(usize, &'t Column),
}

/// Most columns of an index whose entries are made without a row in between.
const COLUMNS_MAX: usize = 16;

impl<'t> StoredColumns<'t> {
    /// `None` for an index of something else.
    pub(super) fn of(table: &'t Table, index: &Index) -> Option<StoredColumns<'t>> {
        let is_plain = !table.without_rowid && index.filter.is_none();
        if !is_plain || index.columns.len() > COLUMNS_MAX {
            return None;
        }
        let stored = |column: &IndexColumn| match column.source {
            IndexSource::Rowid => Some(None),
            IndexSource::Column(place) if table.rowid_alias == Some(place) => Some(None),
            IndexSource::Column(place) => {
                let column = table.columns.get(place)?;
                let stored = column.stored.filter(|_| column.generated.is_none())?;
                Some(Some((stored, column)))
            }
            IndexSource::Expr(_) => None,
        };
        let columns: Option<Vec<_>> = index.columns.iter().map(stored).collect();
        let columns = columns?;
        let mut places: Vec<usize> = columns.iter().flatten().map(|(place, _)| *place).collect();
        places.sort_unstable();
        places.dedup();
        let columns = columns.into_iter().map(|column| match column {
            None => StoredColumn::Rowid,
            Some((place, column)) => {
                StoredColumn::Found(places.partition_point(|known| *known < place), column)
            }
        });
        let columns = columns.collect();
        Some(StoredColumns { table, columns, places })
    }

    /// The entries of a range of rows.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn entries(
        &self,
        transaction: &Transaction,
        range: (i64, i64),
        (order, format, is_of_one_column): (&KeyOrder, u32, bool),
    ) -> Result<Part, Error> {
        let cursor = transaction.table(self.table.root)?;
        let mut scan = TableScan::within(cursor, ColumnFinder::new(&self.places), range)?;
        let mut part = Part::new();
        while let Some(row) = scan.next()? {
            let mut values = [ValueRef::Null; COLUMNS_MAX];
            for (value, column) in values.iter_mut().zip(&self.columns) {
                *value = match column {
                    StoredColumn::Rowid => ValueRef::Int(row.rowid()),
                    StoredColumn::Found(number, column) => {
                        let stored = row.value(*number);
                        let value = stored.unwrap_or_else(|| column.missing_value.as_ref());
                        compacted(value, column.affinity)
                    }
                };
            }
            if let (true, ValueRef::Int(int)) = (is_of_one_column, values[0])
                && part.push_pair(int, row.rowid())
            {
                continue;
            }
            part.push(order, format, values[..self.columns.len()].iter().copied());
        }
        Ok(part)
    }
}
