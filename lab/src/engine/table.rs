//! Tables: what the table rows ask of an engine.

use std::path::Path;

use super::{About, Miss};

/// One value of a row, borrowed from wherever the engine keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Real(f64),
    /// Text as UTF-8 bytes.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// A row while a cursor stands on it.
pub trait Fields {
    /// The value of output column `index`, counted from 0.
    fn cell(&self, index: usize) -> Cell<'_>;
}

/// What a database is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes, with the engine's full durability: a commit that was reported survives a
    /// power cut.
    Write,
}

/// What an engine keeps of a statement whose text is prepared again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: what a caller gets who says nothing.
    Nothing,
    /// Nothing, said aloud: Shoal's `DIRECT`.
    Direct,
    /// What the engine's own cache keeps: a statement, or its plan.
    Cache,
    /// What Shoal's `JIT` keeps.
    Jit,
}

/// The rows of one table, in the order of their rowids. Engines that keep keys and values take
/// the other columns as one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// The table's name.
    pub name: &'static str,
    /// Its `CREATE TABLE`, with `IF NOT EXISTS` left out. Column 0 is the INTEGER PRIMARY KEY.
    pub create: &'static str,
    /// All columns.
    pub columns: &'static [&'static str],
}

/// Most rowids of one [`TableEngine::seek_batch`].
pub const BATCH: usize = 16;

/// An engine that keeps rows in tables, or values under keys.
///
/// The SQL rows go through `prepare` and `query`; the keyed rows through `reader`, `seek` and
/// `scan`, which a SQL engine answers with prepared statements and a key-value store natively.
pub trait TableEngine: Send + Sync + 'static {
    /// An open database.
    type Db;
    /// A prepared statement, or its number within the database.
    type Statement;
    /// A table made ready for keyed reads of chosen columns.
    type Reader;
    /// A row under a cursor.
    type Row<'a>: Fields;

    /// Who this is.
    fn about(&self) -> About;

    /// Opens the SQLite file `path`; for [`Access::Write`] it is created when it is not there.
    /// An engine of another format opens an equal copy, which it may make in the folder `scratch`
    /// and find there again: that is not timed.
    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Self::Db, Miss>;

    /// Opens, finds one row, closes: what a short-lived program does. `None` stands for engines
    /// whose file is not the one on disk.
    fn opens_in_place(&self) -> bool {
        true
    }

    /// Compiles one statement with parameters `?1`, `?2` ...
    fn prepare(&self, _db: &mut Self::Db, _sql: &str) -> Result<Self::Statement, Miss> {
        Err(Miss::absent("SQL"))
    }

    /// Runs a prepared statement to its end; `visit` sees every row.
    fn query(
        &self,
        _db: &mut Self::Db,
        _statement: &mut Self::Statement,
        _parameters: &[Cell<'_>],
        _visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss> {
        Err(Miss::absent("SQL"))
    }

    /// What stands before a statement's text so that the engine keeps that much of it; `None` where
    /// it does not offer to.
    fn word(&self, _keeping: Keeping) -> Option<&'static str> {
        None
    }

    /// Prepares a statement whose text begins with its [`Self::word`], runs it to its end and drops
    /// it; `visit` sees every row.
    fn run_text(
        &self,
        _db: &mut Self::Db,
        _sql: &str,
        _keeping: Keeping,
        _parameters: &[Cell<'_>],
        _visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss> {
        Err(Miss::absent("statements from their text"))
    }

    /// Makes ready to read `columns` (counted from 0, the rowid being 0) of a table by rowid.
    fn reader(
        &self,
        db: &mut Self::Db,
        table: &TableSpec,
        columns: &[usize],
    ) -> Result<Self::Reader, Miss>;

    /// Visits the row with that rowid, if there is one.
    fn seek(
        &self,
        db: &mut Self::Db,
        reader: &mut Self::Reader,
        rowid: i64,
        visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss>;

    /// Visits the rows with those rowids, of which there are at most [`BATCH`], in their order. Here
    /// one after the other; an engine that looks them up side by side says so.
    #[inline]
    fn seek_batch(
        &self,
        db: &mut Self::Db,
        reader: &mut Self::Reader,
        rowids: &[i64],
        mut visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss> {
        rowids.iter().try_for_each(|&rowid| self.seek(db, reader, rowid, &mut visit))
    }

    /// Visits every row of the table.
    fn scan(
        &self,
        db: &mut Self::Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss>;

    /// Makes an empty table. Not timed.
    fn create_table(&self, _db: &mut Self::Db, _table: &TableSpec) -> Result<(), Miss> {
        Err(Miss::absent("writes"))
    }

    /// Runs SQL that returns no rows. Not timed.
    fn execute(&self, _db: &mut Self::Db, _sql: &str) -> Result<(), Miss> {
        Err(Miss::absent("SQL"))
    }

    /// Inserts rows, rowid first, in one transaction that is durable when this returns. The
    /// statement is prepared once.
    fn insert(
        &self,
        _db: &mut Self::Db,
        _table: &TableSpec,
        _rows: &[Vec<Cell<'_>>],
    ) -> Result<(), Miss> {
        Err(Miss::absent("writes"))
    }

    /// Sets column `column` of each rowid to the integer beside it, in one durable transaction.
    fn update(
        &self,
        _db: &mut Self::Db,
        _table: &TableSpec,
        _column: usize,
        _rows: &[(i64, i64)],
    ) -> Result<(), Miss> {
        Err(Miss::absent("updates"))
    }

    /// Deletes the rows in one durable transaction.
    fn delete(&self, _db: &mut Self::Db, _table: &TableSpec, _rowids: &[i64]) -> Result<(), Miss> {
        Err(Miss::absent("deletes"))
    }
}
