//! `ADD COLUMN` and `DROP COLUMN`, and their effects on the rows of a table.

use std::sync::Arc;

use shoal_store::{KeyOrder, Record, ValueRef, encode_record};

use super::super::Context;
use super::super::constraints::Constraints;
use super::super::row::{Row, RowEnv};
use super::super::rows::Rows;
use super::super::schema_rows::StoredRow;
use super::definitions::{check_all, check_temporary, in_temporary, reread};
use super::{rename, text};
use crate::Error;
use crate::exec::RowExpr;
use crate::parse;
use crate::parse::ast::{ColumnConstraint, ColumnDef, CreateTableBody, Name, Stmt};
use crate::schema::{Table, constant_default};
use crate::value::{Value, truth};

/// Rows written at once while a column is dropped.
const BATCH: usize = 1000;

/// The columns of a table's definition and their place in its text.
fn column_defs(sql: &str) -> Result<Vec<ColumnDef>, Error> {
    match parse::parse(sql)?.stmt {
        Stmt::CreateTable(definition) => match definition.body {
            CreateTableBody::Columns { columns, .. } => Ok(columns),
            CreateTableBody::Select(_) => Err(Error::runtime("database disk image is malformed")),
        },
        _ => Err(Error::runtime("database disk image is malformed")),
    }
}

/// The table's own row in the schema.
fn own_row<'r>(rows: &'r mut [StoredRow], table: &Table) -> Result<&'r mut StoredRow, Error> {
    rows.iter_mut()
        .find(|row| row.kind == "table" && row.name.eq_ignore_ascii_case(&table.name))
        .filter(|row| row.sql.is_some())
        .ok_or_else(|| Error::runtime("database disk image is malformed"))
}

/// Adds a column. Rows keep their records, too short for the new column.
///
/// # Errors
/// A column impossible for the rows; a definition without a meaning; rows forbidden by the column's
/// constraints; the store's.
pub(super) fn add(
    context: &mut Context<'_>,
    table: &Arc<Table>,
    column: &ColumnDef,
    definition: &str,
) -> Result<(), Error> {
    check_new(context, table, column)?;
    let mut rows = StoredRow::all(context.transaction)?;
    let row = own_row(&mut rows, table)?;
    let sql = row.sql.take().unwrap_or_default();
    let columns = column_defs(&sql)?;
    let last = columns.last().map_or(0, |column| column.name.offset);
    row.sql = Some(text::add_column(&sql, last, definition));
    row.store(context.transaction)?;
    if context.transaction.header().schema_format < 3 {
        context.transaction.set_schema_format(3)?;
    }
    let schema = reread(context, "add column")?;
    let has = |wanted: fn(&ColumnConstraint) -> bool| column.constraints.iter().any(wanted);
    let is_generated = has(|it| matches!(it, ColumnConstraint::Generated { .. }));
    let is_not_null = has(|it| matches!(it, ColumnConstraint::NotNull { .. }));
    let is_checked = has(|it| matches!(it, ColumnConstraint::Check { .. }));
    if is_checked || is_not_null && is_generated || table.strict {
        let Some(table) = schema.table(&table.name) else {
            return Err(Error::runtime("database disk image is malformed"));
        };
        let rows = Rows::new(&schema, table)?;
        let constraints = Constraints::new(&schema, table)?;
        let env = RowEnv { transaction: context.transaction, session: context.session };
        Row::each(table, context.transaction, |mut row| {
            rows.compute(&mut row, &env)?;
            let null = |(place, column): (usize, &crate::schema::Column)| {
                column.not_null && row.values[place].is_null()
            };
            if table.columns.iter().enumerate().any(null) {
                return Err(Error::runtime("NOT NULL constraint failed"));
            }
            if table.strict && !super::super::constraints::fits_types(table, &row) {
                return Err(Error::runtime("type mismatch on DEFAULT"));
            }
            match constraints.failed_check(&row, &env)? {
                Some(_) => Err(Error::runtime("CHECK constraint failed")),
                None => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Refuses a column if the rows would have to be written again.
fn check_new(context: &Context<'_>, table: &Table, column: &ColumnDef) -> Result<(), Error> {
    let offset = column.name.offset;
    let meaning = |message: String| Err(Error::meaning(message, offset));
    if table.column_index(&column.name.text).is_some() {
        return meaning(format!("duplicate column name: {}", column.name.text));
    }
    let (mut not_null, mut default, mut generated, mut refers, mut unique) =
        (false, None, None, false, false);
    for constraint in &column.constraints {
        match constraint {
            ColumnConstraint::PrimaryKey { .. } => {
                return meaning("Cannot add a PRIMARY KEY column".to_owned());
            }
            ColumnConstraint::Unique { .. } => unique = true,
            ColumnConstraint::ForeignKey(_) => refers = true,
            ColumnConstraint::NotNull { .. } => not_null = true,
            ColumnConstraint::Default { expr, .. } => default = Some(expr),
            ColumnConstraint::Generated { stored, .. } => generated = Some(*stored),
            _ => {}
        }
    }
    if unique {
        return meaning("Cannot add a UNIQUE column".to_owned());
    }
    super::check_rowid(table, &Name { offset, ..column.name.clone() }, "add")?;
    let forbidden = match (generated, default) {
        (Some(true), _) => Some("cannot add a STORED column"),
        (Some(false), _) => None,
        (None, default) => {
            let value = default.map(constant_default);
            let default = default.filter(|expr| !is_null(expr));
            if refers && default.is_some() && context.schema.flags().foreign_keys {
                Some("Cannot add a REFERENCES column with non-NULL default value")
            } else if not_null && default.is_none() {
                Some("Cannot add a NOT NULL column with default value NULL")
            } else if default.is_some() && value == Some(None) {
                Some("Cannot add a column with non-constant default")
            } else {
                None
            }
        }
    };
    match forbidden {
        Some(message) if has_rows(context, table)? => Err(Error::runtime(message)),
        _ => Ok(()),
    }
}

fn is_null(expr: &crate::parse::ast::Expr) -> bool {
    matches!(expr.kind, crate::parse::ast::ExprKind::Literal(Value::Null))
}

fn has_rows(context: &Context<'_>, table: &Table) -> Result<bool, Error> {
    Ok(match table.without_rowid {
        true => context.transaction.index(table.root)?.first()?,
        false => context.transaction.table(table.root)?.first()?,
    })
}

/// Drops a column, and its values from the rows.
///
/// # Errors
/// A column in use; a definition without a meaning, before or after; the store's.
pub(super) fn drop(
    context: &mut Context<'_>,
    table: &Table,
    column: usize,
    name: &str,
) -> Result<(), Error> {
    let mut rows = StoredRow::all(context.transaction)?;
    let sql = own_row(&mut rows, table)?.sql.clone().unwrap_or_default();
    let columns = column_defs(&sql)?;
    let Some(own) = columns.get(column) else {
        return Err(Error::runtime("database disk image is malformed"));
    };
    if own.constraints.iter().any(|it| matches!(it, ColumnConstraint::Unique { .. })) {
        return Err(Error::runtime(format!("cannot drop UNIQUE column: \"{name}\"")));
    }
    if table.columns.len() <= 1 {
        let message = format!("cannot drop column \"{name}\": no other columns exist");
        return Err(Error::runtime(message));
    }
    check_all(context.schema, &rows, "", false)?;
    check_temporary(context, None, "", false)?;
    rename::quote_texts(context, &mut rows)?;
    in_temporary(context, |context| {
        let mut rows = StoredRow::all(context.transaction)?;
        rows.retain(StoredRow::is_view_or_trigger);
        rename::quote_texts(context, &mut rows)?;
        Ok(context.transaction.bump_schema_cookie()?)
    })?;
    let row = own_row(&mut rows, table)?;
    let sql = row.sql.take().unwrap_or_default();
    let names: Vec<usize> = column_defs(&sql)?.iter().map(|it| it.name.offset).collect();
    row.sql = Some(text::drop_column(&sql, &names, column));
    row.store(context.transaction)?;
    let schema = reread(context, "drop column")?;
    let rows = StoredRow::all(context.transaction)?;
    check_all(&schema, &rows, "after drop column", true)?;
    check_temporary(context, Some(schema), "after drop column", true)?;
    match table.columns[column].stored {
        Some(place) if table.without_rowid => drop_from_index(context, table, place),
        Some(place) => drop_from_rows(context, table, place),
        None => Ok(()),
    }
}

/// The values of a record, and defaults for columns behind its end, without one.
fn without<'r>(
    table: &'r Table,
    record: &Record<'r>,
    place: usize,
) -> Result<Vec<ValueRef<'r>>, Error> {
    let mut values = Vec::with_capacity(table.stored_columns);
    for value in record.values().take(table.stored_columns) {
        values.push(value.map_err(Error::corrupt)?);
    }
    for missing in values.len()..table.stored_columns {
        let column = table.columns.iter().find(|column| column.stored == Some(missing));
        values.push(column.map_or(ValueRef::Null, |column| column.missing_value.as_ref()));
    }
    values.remove(place);
    if values.is_empty() {
        values.push(ValueRef::Null);
    }
    Ok(values)
}

fn drop_from_rows(context: &mut Context<'_>, table: &Table, place: usize) -> Result<(), Error> {
    let transaction = &mut *context.transaction;
    let format = transaction.header().schema_format;
    let mut from = Some(i64::MIN);
    while let Some(least) = from.take() {
        let mut batch = Vec::new();
        let mut cursor = transaction.table(table.root)?;
        cursor.seek(least)?;
        while cursor.is_valid() && batch.len() < BATCH {
            let rowid = cursor.rowid()?;
            let record = Record::new(cursor.payload()?).map_err(Error::corrupt)?;
            let mut bytes = Vec::new();
            encode_record(&without(table, &record, place)?, format, &mut bytes);
            batch.push((rowid, bytes));
            from = rowid.checked_add(1);
            cursor.next()?;
        }
        if batch.len() < BATCH {
            from = None;
        }
        for (rowid, record) in batch {
            transaction.table_insert(table.root, rowid, &record)?;
        }
    }
    Ok(())
}

/// The same of a table without rowid: its rows are made again, in their order.
fn drop_from_index(context: &mut Context<'_>, table: &Table, place: usize) -> Result<(), Error> {
    let transaction = &mut *context.transaction;
    let format = transaction.header().schema_format;
    let order: KeyOrder = table.primary_key_order();
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut cursor = transaction.index(table.root)?;
    let mut more = cursor.first()?;
    while more {
        let record = Record::new(cursor.payload()?).map_err(Error::corrupt)?;
        let mut bytes = Vec::new();
        encode_record(&without(table, &record, place)?, format, &mut bytes);
        records.push(bytes);
        more = cursor.next()?;
    }
    transaction.clear_btree(table.root)?;
    for record in records {
        transaction.index_insert(table.root, &record, &order)?;
    }
    Ok(())
}

/// Fails with SQLite's words unless every row of a table is right.
///
/// # Errors
/// `constraint failed`; the store's.
pub(super) fn check_rows(
    context: &Context<'_>,
    table: &Arc<Table>,
    is_right: impl Fn(&Row) -> bool,
) -> Result<(), Error> {
    let rows = Rows::new(context.schema, table)?;
    let env = RowEnv { transaction: context.transaction, session: context.session };
    Row::each(table, context.transaction, |mut row| {
        rows.compute(&mut row, &env)?;
        if is_right(&row) { Ok(()) } else { Err(Error::runtime("constraint failed")) }
    })
}

/// As [`check_rows`], by an expression: true or NULL is right.
///
/// # Errors
/// As [`check_rows`]; the expression's own.
pub(super) fn check_rows_by(
    context: &Context<'_>,
    table: &Arc<Table>,
    check: &RowExpr,
) -> Result<(), Error> {
    let rows = Rows::new(context.schema, table)?;
    let env = RowEnv { transaction: context.transaction, session: context.session };
    Row::each(table, context.transaction, |mut row| {
        rows.compute(&mut row, &env)?;
        match truth(row.eval(check, &env)?.as_ref()) {
            Some(false) => Err(Error::runtime("constraint failed")),
            _ => Ok(()),
        }
    })
}
