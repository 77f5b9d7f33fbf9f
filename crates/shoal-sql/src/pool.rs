//! A pool of connections to one database: one writer, many readers, for many threads.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use shoal_store::{JournalMode, Mode, Store};

use crate::{Connection, Error};

/// Prepares each connection of a pool.
type Setup = Box<dyn Fn(&mut Connection) -> Result<(), Error> + Send + Sync>;

/// One writer and many readers of a database, shared by threads.
///
/// With a write-ahead log, the default of a pool, readers wait neither for the writer nor for each
/// other, but for a free connection; writers wait for each other. All share one [`Store`], its
/// cache and its locks.
///
/// ```
/// # use shoal_sql::{Error, Pool, ValueRef};
/// # use shoal_store::Store;
/// let pool = Pool::new(Store::memory(), 4)?;
/// pool.write(|connection| {
///     for sql in ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2)"] {
///         let mut statement = connection.prepare(sql)?;
///         connection.execute(&mut statement)?;
///     }
///     Ok(())
/// })?;
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| {
///             let count = pool.read(|connection| {
///                 let mut statement = connection.prepare("SELECT count(*) FROM t")?;
///                 let mut rows = connection.query(&mut statement)?;
///                 Ok(rows.next()?.map(|row| row.get(0) == ValueRef::Int(2)))
///             });
///             assert!(matches!(count, Ok(Some(true))));
///         });
///     }
/// });
/// # Ok::<(), Error>(())
/// ```
pub struct Pool {
    store: Store,
    setup: Setup,
    writer: Mutex<Connection>,
    readers: Mutex<Readers>,
    /// Told of each reader given back.
    freed: Condvar,
}

struct Readers {
    idle: Vec<Connection>,
    /// Connections made so far, idle or not.
    made: usize,
    max: usize,
}

impl Pool {
    /// Opens the database at `path`, made where missing, in write-ahead log mode, with as many
    /// readers as the machine has cores, and four at least.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Pool::new`].
    #[cfg(unix)]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Pool, Error> {
        let vfs = std::sync::Arc::new(shoal_store::vfs::OsVfs);
        let store = Store::open(vfs, path.as_ref(), shoal_store::Access::Create)?;
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        Pool::new(store, cores.max(4))
    }

    /// A pool over an open store, with up to so many readers, made on demand. The database is put
    /// into write-ahead log mode where possible: not in memory, and not when read-only.
    ///
    /// # Errors
    /// When the mode or the schema cannot be read.
    pub fn new(store: Store, readers: usize) -> Result<Pool, Error> {
        Pool::with_setup(store, readers, |_| Ok(()))
    }

    /// As [`Pool::new`], with `setup` called for each new connection: for functions, collations,
    /// limits and modules.
    ///
    /// # Errors
    /// As [`Pool::new`]; errors of `setup`.
    pub fn with_setup(
        store: Store,
        readers: usize,
        setup: impl Fn(&mut Connection) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<Pool, Error> {
        if !store.is_read_only() && store.path() != std::path::Path::new(":memory:") {
            store.set_journal_mode(JournalMode::Wal)?;
        }
        let mut writer = Connection::open(store.clone())?;
        setup(&mut writer)?;
        Ok(Pool {
            store,
            setup: Box::new(setup),
            writer: Mutex::new(writer),
            readers: Mutex::new(Readers { idle: Vec::new(), made: 0, max: readers.max(1) }),
            freed: Condvar::new(),
        })
    }

    /// The store behind all connections.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Runs `work` on a reader, within one read transaction: all of its queries see one state.
    /// Waits while all readers are in use. Statements are refused to write.
    ///
    /// # Errors
    /// Errors of `work`, and of beginning to read.
    pub fn read<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut reader = self.reader()?;
        let connection = reader.connection.as_mut().expect("a reader has one until it is dropped");
        connection.begin(Mode::Read)?;
        work(connection)
    }

    /// Runs `work` on the writer, within one write transaction, committed where `work` succeeds and
    /// taken back where it fails or panics. Waits for the writer before. The changes are durable
    /// when the call returns, and seen by every read begun afterwards.
    ///
    /// # Errors
    /// Errors of `work`, of beginning to write, and of the commit: nothing is changed then.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // A panic in earlier work left no transaction behind.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writing = Writing(writer);
        let connection = &mut *writing.0;
        connection.begin(Mode::Write)?;
        let done = work(connection)?;
        // The work may have ended the transaction itself.
        if connection.in_transaction() {
            connection.commit()?;
        }
        Ok(done)
    }

    fn reader(&self) -> Result<Reader<'_>, Error> {
        let mut readers = self.readers();
        loop {
            if let Some(connection) = readers.idle.pop() {
                return Ok(Reader { pool: self, connection: Some(connection) });
            }
            if readers.made < readers.max {
                readers.made += 1;
                break;
            }
            readers = self.freed.wait(readers).unwrap_or_else(PoisonError::into_inner);
        }
        drop(readers);
        // After a failure the place is free again.
        let mut reader = Reader { pool: self, connection: None };
        let mut connection = Connection::open(self.store.clone())?;
        (self.setup)(&mut connection)?;
        connection.set_read_only(true);
        reader.connection = Some(connection);
        Ok(reader)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("path", &self.store.path()).finish_non_exhaustive()
    }
}

/// The writer at work.
struct Writing<'p>(MutexGuard<'p, Connection>);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.0.in_transaction() {
            // Open only after a failure; the error is told already.
            let _ = self.0.rollback();
        }
    }
}

/// A reader in use; `None` after a failure to open one.
struct Reader<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take().map(|mut connection| {
            if connection.in_transaction() {
                // Nothing was written.
                let _ = connection.rollback();
            }
            connection
        });
        let mut readers = self.pool.readers();
        match connection {
            Some(connection) => readers.idle.push(connection),
            None => readers.made -= 1,
        }
        drop(readers);
        self.pool.freed.notify_one();
    }
}
