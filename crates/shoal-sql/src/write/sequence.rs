//! `AUTOINCREMENT`: rowids that are never used twice, counted in `sqlite_sequence`.

use shoal_store::{Record, Transaction, ValueRef, encode_record};

use super::Context;
use super::rows::Rows;
use super::schema_rows::is_name;
use crate::Error;
use crate::schema::{Schema, Table};
use crate::value::{Value, to_int};

/// The table's name and its definition.
pub(crate) const NAME: &str = "sqlite_sequence";
pub(crate) const DEFINITION: &str = "CREATE TABLE sqlite_sequence(name,seq)";

/// The row of `sqlite_sequence` for a table.
struct Counter {
    rowid: i64,
    seq: i64,
}

fn table(schema: &Schema) -> Result<&Table, Error> {
    schema.table(NAME).map(|table| &**table).ok_or_else(|| Error::Schema {
        object: NAME.to_owned(),
        why: "a table with AUTOINCREMENT needs it and it is missing".to_owned(),
    })
}

fn find(transaction: &Transaction, schema: &Schema, name: &str) -> Result<Option<Counter>, Error> {
    let mut cursor = transaction.table(table(schema)?.root)?;
    let mut more = cursor.first()?;
    while more {
        let rowid = cursor.rowid()?;
        let record = Record::new(cursor.payload()?).map_err(shoal_store::Error::from)?;
        let column = |index| record.column(index).map_err(shoal_store::Error::from);
        if is_name(column(0)?.as_ref(), name) {
            let seq = column(1)?.map_or(0, to_int);
            return Ok(Some(Counter { rowid, seq }));
        }
        more = cursor.next()?;
    }
    Ok(None)
}

/// A rowid above all that the table has or had.
///
/// # Errors
/// [`Error::Runtime`] `database or disk is full` after the largest rowid.
pub(crate) fn next(context: &Context<'_>, rows: &Rows) -> Result<i64, Error> {
    let counter = find(context.transaction, context.schema, &rows.table.name)?;
    let mut cursor = context.transaction.table(rows.table.root)?;
    let last = if cursor.last()? { cursor.rowid()? } else { 0 };
    let seq = counter.map_or(0, |counter| counter.seq);
    last.max(seq).max(0).checked_add(1).ok_or_else(|| Error::runtime("database or disk is full"))
}

/// Notes that a rowid was used.
///
/// # Errors
/// [`Error::Store`].
pub(crate) fn note(context: &mut Context<'_>, table: &Table, used: i64) -> Result<(), Error> {
    let root = self::table(context.schema)?.root;
    let transaction = &mut *context.transaction;
    let counter = find(transaction, context.schema, &table.name)?;
    let (rowid, seq) = match counter {
        Some(Counter { seq, .. }) if seq >= used => return Ok(()),
        Some(Counter { rowid, .. }) => (rowid, used),
        None => {
            let mut cursor = transaction.table(root)?;
            let last = if cursor.last()? { cursor.rowid()? } else { 0 };
            (last.saturating_add(1), used.max(0))
        }
    };
    let name = Value::text(table.name.as_str());
    let mut record = Vec::new();
    let format = transaction.header().schema_format;
    encode_record(&[name.as_ref(), ValueRef::Int(seq)], format, &mut record);
    Ok(transaction.table_insert(root, rowid, &record)?)
}
