//! `CREATE TABLE`.

use std::sync::Arc;

use shoal_store::{BtreeKind, Pgno};

use super::constraints::Constraints;
use super::insert::Inserter;
use super::plain::{NO_VALUES, PlainTable};
use super::query::{Parts, RowQuery};
use super::row::Row;
use super::rows::Rows;
use super::schema_rows::SchemaRow;
use super::triggers::Within;
use super::{Context, Done, Failure, Kind, sequence, text};
use crate::Error;
use crate::error::NameKind;
use crate::keep::RowValues;
use crate::parse;
use crate::parse::ast::{
    ColumnConstraint, ColumnDef, CreateTable, CreateTableBody, Expr, ExprKind, ForeignKey, Name,
    ObjectName, Stmt, TableConstraint,
};
use crate::resolve::Around;
use crate::schema::{Built, IndexOrigin, Object, Schema, Table, build_table};
use crate::value::{Affinity, ValueRef};

/// A prepared `CREATE TABLE`.
#[derive(Debug)]
pub(crate) struct CreateTablePlan {
    definition: CreateTable,
    /// What the schema stores.
    sql: String,
    /// Where the rows of `AS SELECT` come from.
    source: Option<RowQuery>,
}

/// Prepares a `CREATE TABLE`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &Within<'_>,
    create: &CreateTable,
    sql: &str,
    around: Around<'_>,
) -> Result<Kind, Error> {
    let schema = within.schema;
    let name = &create.name.name;
    if !is_free(within.own, &create.name, create.if_not_exists)? {
        return Ok(Kind::Nothing);
    }
    let plan = match &create.body {
        CreateTableBody::Select(select) => {
            let source = RowQuery::compile(schema, select, around)?;
            let sql = text_for_query(&name.text, &source);
            // The columns are read back from the text, as they will be from the schema.
            let parsed = parse::parse(&sql)?;
            let Stmt::CreateTable(definition) = parsed.stmt else {
                return Err(Error::unsupported(
                    "CREATE TABLE AS with these columns",
                    create.offset,
                ));
            };
            CreateTablePlan { definition: *definition, sql, source: Some(source) }
        }
        CreateTableBody::Columns { .. } => CreateTablePlan {
            definition: create.clone(),
            sql: stored_text(sql, create),
            source: None,
        },
    };
    plan.check(schema, name, sql)?;
    Ok(Kind::CreateTable(Box::new(plan)))
}

/// Checks a stored definition as a new one is checked; gives the table, whose root is not known.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn check_stored(
    schema: &Schema,
    definition: &CreateTable,
    sql: &str,
) -> Result<Table, Error> {
    let plan = CreateTablePlan { definition: definition.clone(), sql: String::new(), source: None };
    plan.check(schema, &definition.name.name, sql)?;
    Ok(plan.build(Pgno::FIRST, schema)?.table)
}

/// Whether a table or index may take a name; false when it exists and that is no error.
///
/// # Errors
/// A reserved name; a table, view or index that has it.
pub(crate) fn is_free(
    schema: &Schema,
    name: &ObjectName,
    if_not_exists: bool,
) -> Result<bool, Error> {
    let (text, offset) = (name.name.text.as_str(), name.name.offset);
    check_reserved(&name.name)?;
    if let Some(object) = schema.object(text) {
        if if_not_exists {
            return Ok(false);
        }
        let kind = if matches!(object, Object::View(_)) { "view" } else { "table" };
        return Err(Error::meaning(format!("{kind} {text} already exists"), offset));
    }
    if schema.index(text).is_some() {
        let message = format!("there is already an index named {text}");
        return Err(Error::meaning(message, offset));
    }
    Ok(true)
}

/// Refuses the names that SQLite keeps for itself.
///
/// # Errors
/// [`Error::Meaning`].
pub(crate) fn check_reserved(name: &Name) -> Result<(), Error> {
    if name.text.to_ascii_lowercase().starts_with("sqlite_") {
        let message = format!("object name reserved for internal use: {}", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    Ok(())
}

/// `CREATE TABLE` and the statement's own text from the table's name on.
fn stored_text(sql: &str, create: &CreateTable) -> String {
    let start = create.name.name.offset;
    let has_options = matches!(
        &create.body,
        CreateTableBody::Columns { without_rowid, strict, .. } if *without_rowid || *strict
    );
    // With options SQLite keeps everything up to the semicolon.
    let end =
        if has_options { text::semicolon(sql, start) } else { text::past_parenthesis(sql, start) };
    format!("CREATE TABLE {}", sql.get(start..end).unwrap_or_default())
}

/// The definition that SQLite writes for `CREATE TABLE name AS query`.
fn text_for_query(name: &str, query: &RowQuery) -> String {
    let mut columns: Vec<(String, &str)> = Vec::new();
    for (index, (column, affinity)) in query.columns().enumerate() {
        let base =
            if column.is_empty() { format!("column{}", index + 1) } else { column.to_owned() };
        let mut unique = base.clone();
        let mut number = 0;
        while columns.iter().any(|(known, _)| known.eq_ignore_ascii_case(&unique)) {
            number += 1;
            unique = format!("{base}:{number}");
        }
        let declared = match affinity {
            None | Some(Affinity::Blob) => "",
            Some(Affinity::Text) => " TEXT",
            Some(Affinity::Numeric) => " NUM",
            Some(Affinity::Integer) => " INT",
            Some(Affinity::Real) => " REAL",
        };
        columns.push((unique, declared));
    }
    let quoted_length = |text: &str| text.len() + 2 + text.matches('"').count();
    let length: usize = columns.iter().map(|(column, _)| quoted_length(column) + 5).sum();
    let (open, between, close) =
        if length + quoted_length(name) < 50 { ("", ",", ")") } else { ("\n  ", ",\n  ", "\n)") };
    let mut sql = format!("CREATE TABLE {}(", text::quoted(name));
    for (index, (column, declared)) in columns.iter().enumerate() {
        sql.push_str(if index == 0 { open } else { between });
        sql.push_str(&text::quoted(column));
        sql.push_str(declared);
    }
    sql.push_str(close);
    sql
}

impl CreateTablePlan {
    fn parts(&self) -> (&[ColumnDef], &[TableConstraint], bool, bool) {
        match &self.definition.body {
            CreateTableBody::Columns { columns, constraints, without_rowid, strict } => {
                (columns, constraints, *without_rowid, *strict)
            }
            CreateTableBody::Select(_) => (&[], &[], false, false),
        }
    }

    fn build(&self, root: Pgno, schema: &Schema) -> Result<Built, Error> {
        let (columns, constraints, without_rowid, strict) = self.parts();
        let name = &self.definition.name.name;
        build_table(&name.text, root, columns, constraints, without_rowid, strict)
            .map(|built| Built { table: built.table.with_own(schema.own()), ..built })
            .map_err(|message| Error::meaning(message, name.offset))
    }

    /// Refuses a definition that could not be used later.
    fn check(&self, schema: &Schema, name: &Name, sql: &str) -> Result<(), Error> {
        let (columns, constraints, _, strict) = self.parts();
        let table = Arc::new(self.build(Pgno::FIRST, schema)?.table);
        let meaning = |message: String| Err(Error::meaning(message, name.offset));
        if columns.len() > COLUMNS_MAX {
            return meaning(format!("too many columns on {}", name.text));
        }
        if !columns.is_empty() && table.columns.iter().all(|it| it.generated.is_some()) {
            return meaning("must have at least one non-generated column".to_owned());
        }
        for (def, column) in columns.iter().zip(&table.columns) {
            if let Err(unknown) = &column.collation {
                return Err(Error::no_such(NameKind::Collation, unknown, def.name.offset));
            }
            if strict {
                check_strict_type(&table, def)?;
            }
            let mut generated = false;
            let mut default = false;
            for constraint in &def.constraints {
                match constraint {
                    ColumnConstraint::Generated { .. } if default || generated => {
                        return meaning(format!("error in generated column \"{}\"", def.name.text));
                    }
                    ColumnConstraint::Generated { .. } => generated = true,
                    ColumnConstraint::Default { .. } if generated => {
                        return meaning("cannot use DEFAULT on a generated column".to_owned());
                    }
                    ColumnConstraint::Default { expr, .. } => {
                        check_default(def, expr, sql)?;
                        default = true;
                    }
                    ColumnConstraint::ForeignKey(key) if key.columns.len() > 1 => {
                        return meaning(format!(
                            "foreign key on {} should reference only one column of table {}",
                            def.name.text, key.table.text
                        ));
                    }
                    _ => {}
                }
            }
        }
        for constraint in constraints {
            if let TableConstraint::ForeignKey { columns, key } = constraint {
                check_foreign_key(&table, columns, key)?;
            }
        }
        Rows::new(schema, &table)?;
        Constraints::new(schema, &table)?;
        Ok(())
    }

    /// Makes the table, its automatic indexes and, for `AS SELECT`, its rows.
    ///
    /// # Errors
    /// [`Error::Store`]; what the query raises.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        // The rows are of the database as it was before the table.
        let mut rows = match &self.source {
            Some(source) => {
                let is_apart = source.is_apart_from(context.home, None)
                    && context.session.row_hooks().is_none();
                Some(source.parts(context, is_apart)?)
            }
            None => None,
        };
        let name = &self.definition.name.name.text;
        let (_, _, without_rowid, _) = self.parts();
        let own = context.own_schema();
        let transaction = &mut *context.transaction;
        let kind = if without_rowid { BtreeKind::Index } else { BtreeKind::Table };
        let root = transaction.create_btree(kind)?;
        let built = self.build(root, context.schema)?;
        SchemaRow { kind: "table", name, table: name, root: Some(root), sql: Some(&self.sql) }
            .insert(transaction)?;
        for (number, constraint) in built.constraints.iter().enumerate() {
            if without_rowid && constraint.origin == IndexOrigin::PrimaryKey {
                continue;
            }
            let root = transaction.create_btree(BtreeKind::Index)?;
            let index = format!("sqlite_autoindex_{name}_{}", number + 1);
            SchemaRow { kind: "index", name: &index, table: name, root: Some(root), sql: None }
                .insert(transaction)?;
        }
        if built.table.autoincrement && own.table(sequence::NAME).is_none() {
            let root = transaction.create_btree(BtreeKind::Table)?;
            let (name, sql) = (sequence::NAME, Some(sequence::DEFINITION));
            SchemaRow { kind: "table", name, table: name, root: Some(root), sql }
                .insert(transaction)?;
        }
        transaction.bump_schema_cookie()?;
        if let Some(rows) = &mut rows {
            fill(context, &Arc::new(built.table), rows)?;
        }
        Ok(Done::default())
    }
}

fn fill(
    context: &mut Context<'_>,
    table: &Arc<Table>,
    parts: &mut Parts<'_>,
) -> Result<(), Failure> {
    let inserter = Inserter::plain(context.schema, table)?;
    let hooks = context.session.row_hooks();
    let plain = PlainTable::new(&inserter.changer).filter(|_| hooks.is_none());
    let mut row = Row::default();
    let mut put = |context: &mut Context<'_>, values: RowValues<'_>| -> Result<(), Failure> {
        if let Some(plain) = &plain {
            let mut stored = NO_VALUES;
            stored.iter_mut().zip(values.clone()).for_each(|(place, value)| *place = value);
            let records = &mut context.state.scratch.plain;
            let stored = &mut stored[..plain.width()];
            if plain.insert(context.transaction, None, stored, records)?.is_some() {
                return Ok(());
            }
        }
        let values: Vec<ValueRef<'_>> = values.collect();
        inserter.make(context, &mut row, |column| values.get(column).copied())?;
        inserter.insert(context, &mut row, None)?;
        Ok(())
    };
    while let Some(rows) = parts.next(context)? {
        rows.take_each(|values| put(context, values))?;
    }
    Ok(())
}

/// As many as SQLite takes unless built otherwise.
const COLUMNS_MAX: usize = 2000;

fn check_strict_type(table: &Table, def: &ColumnDef) -> Result<(), Error> {
    const TYPES: [&str; 6] = ["INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY"];
    let place = format!("{}.{}", table.name, def.name.text);
    let message = if def.type_name.is_empty() {
        format!("missing datatype for {place}")
    } else if TYPES.iter().any(|known| def.type_name.eq_ignore_ascii_case(known)) {
        return Ok(());
    } else {
        format!("unknown datatype for {place}: \"{}\"", def.type_name)
    };
    Err(Error::meaning(message, def.name.offset))
}

/// A bare word as a default is a text; between parentheses it would be a column.
fn check_default(def: &ColumnDef, expr: &Expr, sql: &str) -> Result<(), Error> {
    let ExprKind::Column { column, .. } = &expr.kind else { return Ok(()) };
    let before = sql.get(..expr.offset).unwrap_or_default().trim_end();
    if !before.ends_with('(') || column.is("true") || column.is("false") {
        return Ok(());
    }
    let message = format!("default value of column [{}] is not constant", def.name.text);
    Err(Error::meaning(message, expr.offset))
}

fn check_foreign_key(table: &Table, columns: &[Name], key: &ForeignKey) -> Result<(), Error> {
    for name in columns {
        if table.column_index(&name.text).is_none() {
            let message = format!("unknown column \"{}\" in foreign key definition", name.text);
            return Err(Error::meaning(message, name.offset));
        }
    }
    if !key.columns.is_empty() && key.columns.len() != columns.len() {
        let message = "number of columns in foreign key does not match the number of columns in \
                       the referenced table";
        return Err(Error::meaning(message, key.table.offset));
    }
    Ok(())
}
