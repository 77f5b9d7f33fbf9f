//! Kept tables: their rows stand for something else, which somebody above SQL keeps.
//!
//! A statement of the connection may change such a table. Its keeper is asked row by row, before a
//! row is stored, and says what the row is to be. Programs that know nothing of the keeper are
//! refused by triggers of the file (guards), which the keeper's own connection leaves out.

use std::fmt;

use shoal_store::Transaction;

use crate::Error;
use crate::index_reader::IndexReader;
use crate::reader::TableReader;
use crate::schema::Schema;
use crate::value::Value;

/// Changes the rows of kept tables.
pub trait RowKeeper: Sync {
    /// A row is about to be inserted; one value for each column, as the column's affinity has it,
    /// but for a text in the first, which is as it was given. The keeper fills in what the row
    /// will be, its key above all. False leaves the row as it is where one of that key is there
    /// already: the statement's own clauses decide.
    ///
    /// # Errors
    /// What the row cannot stand for.
    fn insert(&self, reads: &KeptReads<'_>, table: &str, row: &mut [Value]) -> Result<bool, Error>;

    /// A row is about to be replaced; `old` is `None` where it was displaced by an insertion.
    ///
    /// # Errors
    /// As [`RowKeeper::insert`].
    fn update(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        old: Option<&[Value]>,
        new: &mut [Value],
    ) -> Result<(), Error>;

    /// A row is about to be replaced by one who saw the table in another state. Its assigned
    /// columns have values for the row there; `old` is the present row.
    ///
    /// # Errors
    /// As [`RowKeeper::insert`].
    fn update_seen(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        seen: &Seen<'_>,
        old: &[Value],
        new: &mut [Value],
    ) -> Result<(), Error>;

    /// A row is about to be deleted.
    ///
    /// # Errors
    /// As [`RowKeeper::insert`].
    fn delete(&self, reads: &KeptReads<'_>, table: &str, old: &[Value]) -> Result<(), Error>;

    /// A moment to go back to.
    fn moment(&self) -> usize;

    /// Takes back what happened since a moment, which stays one.
    fn rollback_to(&self, moment: usize);

    /// Forgets a moment and those after it.
    fn release(&self, moment: usize);
}

/// The rows seen by the writer of `UPDATE table AT state`.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The state, in words of whoever keeps the past.
    pub state: &'a Value,
    /// The assigned columns, by number.
    pub columns: Vec<usize>,
}

/// A transaction's tables, for a keeper to read.
pub struct KeptReads<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) transaction: &'a Transaction,
}

impl KeptReads<'_> {
    /// Opens a table.
    ///
    /// # Errors
    /// As [`Connection::table_reader`](crate::Connection::table_reader).
    pub fn table_reader(&self, table: &str) -> Result<TableReader<'_>, Error> {
        TableReader::new(self.schema, self.transaction, table)
    }

    /// Opens an index.
    ///
    /// # Errors
    /// As [`Connection::index_reader`](crate::Connection::index_reader).
    pub fn index_reader(&self, index: &str) -> Result<IndexReader<'_>, Error> {
        IndexReader::new(self.schema, self.transaction, index)
    }

    /// The schema of the transaction.
    pub fn schema(&self) -> &Schema {
        self.schema
    }
}

impl fmt::Debug for KeptReads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptReads").finish_non_exhaustive()
    }
}
