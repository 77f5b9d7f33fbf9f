//! Entries of an index read without SQL text, and their rows.

use std::sync::Arc;

use shoal_store::{IndexCursor, KeyOrder, Record, TableCursor, Transaction};

use crate::Error;
use crate::error::NameKind;
use crate::reader::stored_value;
use crate::schema::{IndexSource, Schema, Table};
use crate::value::{Value, ValueRef};

/// A position among the entries of an index, in the order of its keys.
///
/// Borrows the connection's open transaction. Values are compared unconverted: a key is not
/// converted to the affinity of its column. Values borrow from the page until the reader moves;
/// values on overflow pages go through a buffer of the reader's.
#[derive(Debug)]
pub struct IndexReader<'c> {
    table: Arc<Table>,
    /// The index's place among the table's.
    index: usize,
    order: KeyOrder,
    entries: IndexCursor<'c>,
    rows: TableCursor<'c>,
    /// True where `rows` is on the row of the entry.
    on_row: bool,
}

impl<'c> IndexReader<'c> {
    pub(crate) fn new(
        schema: &Schema,
        transaction: &'c Transaction,
        name: &str,
    ) -> Result<IndexReader<'c>, Error> {
        let unsupported = |what: String| Err(Error::Unsupported { what, offset: None });
        let found = schema.index(name).and_then(|(table, _)| {
            let is = |index: &crate::schema::Index| index.name.eq_ignore_ascii_case(name);
            Some((Arc::clone(table), table.indexes.iter().position(is)?))
        });
        let Some((table, index)) = found else {
            let message = format!("no such index: {name}");
            return Err(Error::Name { kind: NameKind::Index, message, offset: None });
        };
        let definition = &table.indexes[index];
        if !definition.has_known_order() {
            return unsupported(format!("a reader of {name}, whose collation is unknown"));
        }
        if table.without_rowid {
            return unsupported(format!("a reader of {name}, whose table has no rowids"));
        }
        let order = definition.order();
        let entries = transaction.index(definition.root)?;
        let rows = transaction.table(table.root)?;
        Ok(IndexReader { table, index, order, entries, rows, on_row: false })
    }

    /// The index's table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Moves to the first entry not before `key`, its first columns; true when the entry's own
    /// first columns are `key`. With no column at all to the first entry.
    ///
    /// Cost: a binary search per level of the tree.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn seek(&mut self, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        self.on_row = false;
        Ok(self.entries.seek(key, &self.order)?)
    }

    /// Moves to the first entry after every one with `key` as its first columns; false when there
    /// is none. [`IndexReader::prev`] then gives the last one not after `key`.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn seek_after(&mut self, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        self.on_row = false;
        Ok(self.entries.seek_after(key, &self.order)?)
    }

    /// Moves to the next entry, to the first at the beginning; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        self.on_row = false;
        Ok(self.entries.next()?)
    }

    /// Moves to the entry before, to the last at the end; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn prev(&mut self) -> Result<bool, Error> {
        self.on_row = false;
        Ok(self.entries.prev()?)
    }

    /// True while the reader is on an entry.
    pub fn is_valid(&self) -> bool {
        self.entries.is_valid()
    }

    /// True where the entry's first columns are `key`: the test of a loop over equal keys.
    ///
    /// # Errors
    /// [`Error::Store`] on no entry.
    pub fn starts_with(&mut self, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        let order = self.order.compare(self.entries.payload()?, key).map_err(Error::corrupt)?;
        Ok(order.is_eq())
    }

    /// The value of a column of the key, by its place in the index.
    ///
    /// # Errors
    /// [`Error::Store`] on no entry and for a broken one; [`Error::Misuse`] for no such column.
    pub fn key(&mut self, place: usize) -> Result<ValueRef<'_>, Error> {
        if place >= self.table.indexes[self.index].key_columns {
            return Err(Error::Misuse { what: "the index has no such column" });
        }
        let record = Record::new(self.entries.payload()?).map_err(Error::corrupt)?;
        let value = record.column(place).map_err(Error::corrupt)?.unwrap_or(ValueRef::Null);
        let column = match self.table.indexes[self.index].columns[place].source {
            IndexSource::Column(column) => self.table.columns.get(column),
            _ => None,
        };
        const NULL: &Value = &Value::Null;
        Ok(match column {
            Some(column) => stored_value(Some(value), column.affinity, NULL),
            None => value,
        })
    }

    /// The rowid of the entry's row.
    ///
    /// # Errors
    /// [`Error::Store`] on no entry and for a broken one.
    pub fn rowid(&mut self) -> Result<i64, Error> {
        let place = self.table.indexes[self.index].columns.len() - 1;
        let record = Record::new(self.entries.payload()?).map_err(Error::corrupt)?;
        match record.column(place).map_err(Error::corrupt)? {
            Some(ValueRef::Int(rowid)) => Ok(rowid),
            _ => Err(Error::names_no_row(0)),
        }
    }

    /// The value of a column of the entry's row, by its place in the table's definition.
    ///
    /// Cost: the first time on an entry a search for the row.
    ///
    /// # Errors
    /// [`Error::Store`] on no entry, for a broken one and one whose row is not there;
    /// [`Error::Misuse`] for no such column; [`Error::Unsupported`] for a virtual one.
    pub fn value(&mut self, column: usize) -> Result<ValueRef<'_>, Error> {
        if !self.on_row {
            let rowid = self.rowid()?;
            if !self.rows.seek(rowid)? {
                return Err(Error::names_no_row(rowid));
            }
            self.on_row = true;
        }
        crate::reader::column_value(&self.table, &mut self.rows, column)
    }
}
