//! Rows read without SQL text: the path other crates take through a table.

use std::sync::Arc;

use shoal_store::{Record, TableCursor, Transaction};

use crate::Error;
use crate::error::NameKind;
use crate::schema::{Object, Schema, Table};
use crate::value::{Affinity, Value, ValueRef};

/// A position among the rows of one table, in the order of their rowids.
///
/// Borrows the connection's open transaction. Steps and reads allocate nothing, but for values on
/// overflow pages, copied to the cursor's own buffer.
#[derive(Debug)]
pub struct TableReader<'c> {
    table: Arc<Table>,
    cursor: TableCursor<'c>,
}

impl<'c> TableReader<'c> {
    pub(crate) fn new(
        schema: &Schema,
        transaction: &'c Transaction,
        name: &str,
    ) -> Result<TableReader<'c>, Error> {
        let table = readable(schema, name, "a reader of")?;
        if table.without_rowid {
            let what = format!("a reader of {}, which has no rowids", table.name);
            return Err(Error::Unsupported { what, offset: None });
        }
        let cursor = transaction.table(table.root)?;
        Ok(TableReader { table, cursor })
    }

    /// True where anybody has committed since the transaction began: see
    /// [`shoal_store::Transaction::is_stale`].
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn is_stale(&self) -> Result<bool, Error> {
        Ok(self.cursor.transaction().is_stale()?)
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Moves to the row with the rowid, or else to the next one; true when the rowid has a row.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn seek(&mut self, rowid: i64) -> Result<bool, Error> {
        Ok(self.cursor.seek(rowid)?)
    }

    /// Moves to the next row, to the first at the beginning; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        Ok(self.cursor.next()?)
    }

    /// Moves to the row before; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn prev(&mut self) -> Result<bool, Error> {
        Ok(self.cursor.prev()?)
    }

    /// Moves to the last row; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn last(&mut self) -> Result<bool, Error> {
        Ok(self.cursor.last()?)
    }

    /// True while the reader is on a row.
    pub fn is_valid(&self) -> bool {
        self.cursor.is_valid()
    }

    /// The row's rowid.
    ///
    /// # Errors
    /// [`Error::Store`] on no row.
    pub fn rowid(&self) -> Result<i64, Error> {
        Ok(self.cursor.rowid()?)
    }

    /// The value of a column, by its place in the definition.
    ///
    /// Cost: one walk of the record's header up to the column.
    ///
    /// # Errors
    /// [`Error::Store`] on no row and for a broken record; [`Error::Misuse`] for no such column;
    /// [`Error::Unsupported`] for a virtual one.
    pub fn value(&mut self, column: usize) -> Result<ValueRef<'_>, Error> {
        column_value(&self.table, &mut self.cursor, column)
    }
}

/// The table called `name`; `doing` names the access in the error for views and virtual tables.
///
/// # Errors
/// No such table; a damaged one; [`Error::Unsupported`] for anything else.
pub(crate) fn readable(schema: &Schema, name: &str, doing: &str) -> Result<Arc<Table>, Error> {
    match schema.object(name) {
        None => {
            let message = format!("no such table: {name}");
            Err(Error::Name { kind: NameKind::Table, message, offset: None })
        }
        Some(Object::Table(table)) => Ok(Arc::clone(table)),
        Some(Object::Damaged { name, why }) => {
            Err(Error::Schema { object: name.clone(), why: why.clone() })
        }
        Some(object) => {
            let what = format!("{doing} {}", object.name());
            Err(Error::Unsupported { what, offset: None })
        }
    }
}

/// A column's value in the row under a cursor.
pub(crate) fn column_value<'r>(
    table: &'r Table,
    cursor: &'r mut TableCursor<'_>,
    column: usize,
) -> Result<ValueRef<'r>, Error> {
    if table.rowid_alias == Some(column) {
        return Ok(ValueRef::Int(cursor.rowid()?));
    }
    recorded_value(table, || cursor.payload(), column)
}

/// A column's value in a row's record, the record read last.
///
/// # Errors
/// [`Error::Misuse`] for no such column; [`Error::Unsupported`] for a virtual one; errors of
/// reading the record.
#[inline]
pub(crate) fn recorded_value<'r>(
    table: &'r Table,
    record: impl FnOnce() -> Result<&'r [u8], shoal_store::Error>,
    column: usize,
) -> Result<ValueRef<'r>, Error> {
    let Some(known) = table.columns.get(column) else {
        return Err(Error::Misuse { what: "no column has that number" });
    };
    let Some(place) = known.stored else {
        let what = format!("reading virtual column {}", known.name);
        return Err(Error::Unsupported { what, offset: None });
    };
    let record = Record::new(record()?).map_err(Error::corrupt)?;
    let value = record.column(place).map_err(Error::corrupt)?;
    Ok(stored_value(value, known.affinity, &known.missing_value))
}

/// A column's value in SQL, from its value in a record, or from none.
pub(crate) fn stored_value<'r>(
    found: Option<ValueRef<'r>>,
    affinity: Affinity,
    missing: &'r Value,
) -> ValueRef<'r> {
    match found {
        // The record may keep an integral real as an integer, for its shorter form.
        Some(ValueRef::Int(int)) if affinity == Affinity::Real => ValueRef::Real(int as f64),
        Some(value) => value,
        None => missing.as_ref(),
    }
}
