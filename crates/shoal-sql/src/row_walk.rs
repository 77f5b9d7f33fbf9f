//! Rows of any table in the order of the table's own b-tree, compared with those of another file.

use std::cmp::Ordering;
use std::sync::Arc;

use shoal_store::{IndexCursor, KeyOrder, Record, TableCursor, Transaction};

use crate::Error;
use crate::reader::{column_value, readable, recorded_value};
use crate::schema::{Schema, Table};
use crate::value::ValueRef;

/// A position among the rows of a table, with rowids or without: in the order of rowids, or of the
/// primary key. A new walk stands before the first row.
///
/// Borrows the connection's open transaction. Steps and reads allocate nothing, but for values on
/// overflow pages, copied to the walk's own buffer.
#[derive(Debug)]
pub struct RowWalk<'c> {
    table: Arc<Table>,
    rows: Cursor<'c>,
}

#[derive(Debug)]
enum Cursor<'c> {
    Rowids(TableCursor<'c>),
    Keys(IndexCursor<'c>, KeyOrder),
}

impl<'c> RowWalk<'c> {
    pub(crate) fn new(
        schema: &Schema,
        transaction: &'c Transaction,
        name: &str,
    ) -> Result<RowWalk<'c>, Error> {
        let table = readable(schema, name, "a walk over the rows of")?;
        if table.without_rowid && table.primary_key.iter().any(|part| part.collation.is_err()) {
            let what = format!("a walk over {}, whose collation is unknown", table.name);
            return Err(Error::Unsupported { what, offset: None });
        }
        let rows = match table.without_rowid {
            true => Cursor::Keys(transaction.index(table.root)?, table.primary_key_order()),
            false => Cursor::Rowids(transaction.table(table.root)?),
        };
        Ok(RowWalk { table, rows })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Moves to the next row, to the first at the beginning; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        Ok(match &mut self.rows {
            Cursor::Rowids(rows) => rows.next()?,
            Cursor::Keys(rows, _) => rows.next()?,
        })
    }

    /// Moves to the row with the rowid; false when there is none, and in tables without rowids.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn seek(&mut self, rowid: i64) -> Result<bool, Error> {
        match &mut self.rows {
            Cursor::Rowids(rows) => Ok(rows.seek(rowid)?),
            Cursor::Keys(..) => Ok(false),
        }
    }

    /// True while the walk is on a row.
    pub fn is_valid(&self) -> bool {
        match &self.rows {
            Cursor::Rowids(rows) => rows.is_valid(),
            Cursor::Keys(rows, _) => rows.is_valid(),
        }
    }

    /// The row's rowid; `None` in tables without rowids.
    ///
    /// # Errors
    /// [`Error::Store`] on no row.
    pub fn rowid(&self) -> Result<Option<i64>, Error> {
        match &self.rows {
            Cursor::Rowids(rows) => Ok(Some(rows.rowid()?)),
            Cursor::Keys(..) => Ok(None),
        }
    }

    /// The row's record, in UTF-8: two rows of tables with one definition are the same where their
    /// records are; the rowid is not part of the record.
    ///
    /// # Errors
    /// [`Error::Store`] on no row.
    pub fn record(&mut self) -> Result<&[u8], Error> {
        Ok(match &mut self.rows {
            Cursor::Rowids(rows) => rows.payload()?,
            Cursor::Keys(rows, _) => rows.payload()?,
        })
    }

    /// The value of a column, by its place in the definition.
    ///
    /// # Errors
    /// [`Error::Store`] on no row and for a broken record; [`Error::Misuse`] for no such column;
    /// [`Error::Unsupported`] for a virtual one.
    pub fn value(&mut self, column: usize) -> Result<ValueRef<'_>, Error> {
        let RowWalk { table, rows } = self;
        match rows {
            Cursor::Rowids(rows) => column_value(table, rows, column),
            Cursor::Keys(rows, _) => recorded_value(table, || rows.payload(), column),
        }
    }

    /// The order of this row and another walk's, by rowid or primary key. Both walks are over
    /// tables of one definition.
    ///
    /// # Errors
    /// [`Error::Store`] where either walk is on no row; [`Error::Misuse`] for a table with rowids
    /// beside one without.
    pub fn compare(&mut self, other: &mut RowWalk<'_>) -> Result<Ordering, Error> {
        match (&mut self.rows, &mut other.rows) {
            (Cursor::Rowids(a), Cursor::Rowids(b)) => Ok(a.rowid()?.cmp(&b.rowid()?)),
            (Cursor::Keys(a, order), Cursor::Keys(b, _)) => {
                let record = Record::new(b.payload()?).map_err(Error::corrupt)?;
                let mut key = Vec::with_capacity(order.columns().len());
                for value in record.values().take(order.columns().len()) {
                    key.push(value.map_err(Error::corrupt)?);
                }
                Ok(order.compare(a.payload()?, &key).map_err(Error::corrupt)?)
            }
            _ => Err(Error::Misuse { what: "rows with rowids have no order with those without" }),
        }
    }

    /// Moves both walks behind their pages, provided both stand on the first rows of pages with
    /// equal bytes; false leaves both in place. Both walks are over tables of one definition.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn skip_equal_page(&mut self, other: &mut RowWalk<'_>) -> Result<bool, Error> {
        match (&mut self.rows, &mut other.rows) {
            (Cursor::Rowids(a), Cursor::Rowids(b)) => Ok(a.skip_equal_leaf(b)?),
            (Cursor::Keys(a, _), Cursor::Keys(b, _)) => Ok(a.skip_equal_leaf(b)?),
            _ => Ok(false),
        }
    }
}
