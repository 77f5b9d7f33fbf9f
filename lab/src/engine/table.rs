//! Tables: the operations the table rows ask of an engine.

use std::path::Path;

use super::{About, Miss};

/// One value of a row, borrowed from the engine's own memory.
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

/// A row under a cursor.
pub trait Fields {
    /// The value of output column `index`, counted from 0.
    fn cell(&self, index: usize) -> Cell<'_>;
}

/// The purpose of opening a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes, with the engine's full durability: a reported commit survives a power cut.
    Write,
}

/// The part of a statement an engine keeps for preparing the same text again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: the behaviour without a word about keeping.
    Nothing,
    /// Nothing, said aloud: Shoal's `DIRECT`.
    Direct,
    /// The contents of the engine's own cache: a statement, or its plan.
    Cache,
    /// Everything kept by Shoal's `JIT`.
    Jit,
}

/// The rows of one table, in the order of their rowids. Engines with keys and values store the
/// other columns as one value.
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

/// An engine storing rows in tables, or values under keys.
///
/// The SQL rows go through `prepare` and `query`; the keyed rows through `reader`, `seek` and
/// `scan`, answered by a SQL engine with prepared statements and by a key-value store natively.
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

    /// Opens the SQLite file `path`; [`Access::Write`] creates a missing one. An engine of another
    /// format opens an equal copy, made in the folder `scratch` and found there again by later
    /// calls. Opening is not timed.
    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Self::Db, Miss>;

    /// Opens an equal copy of the SQLite file `path` for reading, sealed with a passphrase. The key
    /// costs Argon2id with 64 MiB, 3 passes and 4 lanes each time; engines of plain files make such
    /// a key beside. A first call makes the copy.
    fn open_by_passphrase(&self, _path: &Path, _scratch: &Path) -> Result<Self::Db, Miss> {
        Err(Miss::absent("passphrases with Argon2id"))
    }

    /// False for engines whose file is not the one on disk: the row of short-lived programs (open,
    /// find one row, close) does not apply to them.
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

    /// The word before a statement's text making the engine keep as much as `keeping` says; `None`
    /// where the engine offers no such word.
    fn word(&self, _keeping: Keeping) -> Option<&'static str> {
        None
    }

    /// Prepares a statement whose text begins with its [`Self::word`], runs the statement to its
    /// end and drops the statement; `visit` sees every row.
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

    /// Visits the row with the rowid `rowid`, if there is one.
    fn seek(
        &self,
        db: &mut Self::Db,
        reader: &mut Self::Reader,
        rowid: i64,
        visit: impl FnMut(&Self::Row<'_>),
    ) -> Result<(), Miss>;

    /// Visits the rows with these rowids, at most [`BATCH`], in their order. The default looks up
    /// one after the other; engines looking up several side by side override the default.
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

    /// Runs SQL without a result. Not timed.
    fn execute(&self, _db: &mut Self::Db, _sql: &str) -> Result<(), Miss> {
        Err(Miss::absent("SQL"))
    }

    /// Inserts rows, rowid first, in one transaction, durable on return. The statement is prepared
    /// once.
    fn insert(
        &self,
        _db: &mut Self::Db,
        _table: &TableSpec,
        _rows: &[Vec<Cell<'_>>],
    ) -> Result<(), Miss> {
        Err(Miss::absent("writes"))
    }

    /// Sets column `column` of each rowid to the integer given with the rowid, in one durable
    /// transaction.
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

    /// True for engines with SQLite's statements on whole files: `VACUUM`, `ANALYZE`, `PRAGMA
    /// integrity_check` and `journal_mode`.
    fn maintains(&self) -> bool {
        false
    }

    /// True for engines with `vec0` tables and indexes of their columns.
    fn has_vectors(&self) -> bool {
        false
    }

    /// Runs `work` on so many threads at once, each with its number and a handle of its own of the
    /// file `path`, which is in write-ahead log mode: every commit is synced, and a handle waits
    /// for the others.
    fn on_handles(
        &self,
        _path: &Path,
        _threads: usize,
        _work: HandleWork<'_, Self::Db>,
    ) -> Result<(), Miss> {
        Err(Miss::absent("a write-ahead log of SQLite's"))
    }

    /// Puts the rows of the CSV file into a table made for them in the new file `path`, by the
    /// engine's command.
    fn import(&self, _csv: &Path, _path: &Path, _table: &str) -> Result<(), Miss> {
        Err(Miss::absent("a command that imports"))
    }
}

/// The work of a thread with a handle of its own: its number, from 0, and the handle.
pub type HandleWork<'w, D> = &'w (dyn Fn(usize, &mut D) -> Result<(), Miss> + Sync);

/// Runs `work` on so many threads, each with a handle made by `open` there.
///
/// # Errors
/// The first thread's that failed.
pub fn each_on_a_thread<D>(
    threads: usize,
    open: impl Fn() -> Result<D, Miss> + Sync,
    work: HandleWork<'_, D>,
) -> Result<(), Miss> {
    let open = &open;
    std::thread::scope(|scope| {
        let run = |number| move || open().and_then(|mut db| work(number, &mut db));
        let workers: Vec<_> = (0..threads).map(|number| scope.spawn(run(number))).collect();
        let joined = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(Miss::Failed("a thread panicked".into())))
        });
        joined.collect::<Vec<_>>().into_iter().collect()
    })
}
