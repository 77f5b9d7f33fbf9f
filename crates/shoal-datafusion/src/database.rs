//! An open file: connections for many threads, and one state of the file for a query.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::catalog::Session;
use shoal::{Access, Database, Environment};
use shoal_sql::{Connection, Limits};
use shoal_store::{Mode, Store, Transaction};

use crate::catalog::{ShoalCatalog, ShoalSchema};
use crate::columns::Types;
use crate::error::Error;
use crate::table::ShoalTable;

/// Connections kept between scans.
const IDLE_MAX: usize = 32;
/// Rows kept by one scan of a view: beyond, they are spilled to temporary files.
const MEMORY_BYTES: u64 = 256 << 20;

/// A database file, open for reading. Cheap to clone.
#[derive(Clone)]
pub struct ShoalDatabase {
    inner: Arc<Inner>,
    types: Types,
}

struct Inner {
    environment: Environment,
    store: Store,
    idle: Mutex<Vec<Connection>>,
    /// States read by running queries, by session and time of the query's beginning.
    running: Mutex<Vec<(Query, Weak<Snapshot>)>>,
}

/// A query of DataFusion: the name of its session, and the nanosecond of its beginning.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Query {
    session: String,
    begun_ns: i64,
}

impl Query {
    /// The query that a session plans; `None` where nobody says when it began.
    pub(crate) fn of(state: &dyn Session) -> Option<Query> {
        let begun_ns = state.execution_props().query_execution_start_time?.timestamp_nanos_opt()?;
        Some(Query { session: state.session_id().to_owned(), begun_ns })
    }
}

impl ShoalDatabase {
    /// Opens the file at `path`, which is only read.
    ///
    /// # Errors
    /// [`Error::Database`].
    #[cfg(unix)]
    pub fn open(path: impl AsRef<Path>) -> Result<ShoalDatabase, Error> {
        ShoalDatabase::open_with(Environment::os(), path.as_ref())
    }

    /// As [`ShoalDatabase::open`], with files, and with keys for sealed files, of the caller's.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn open_with(environment: Environment, path: &Path) -> Result<ShoalDatabase, Error> {
        let first = Database::open(environment.clone(), path, Access::ReadOnly)?.into_sql();
        let store = first.store().clone();
        let inner =
            Inner { environment, store, idle: Mutex::new(vec![first]), running: Mutex::default() };
        Ok(ShoalDatabase { inner: Arc::new(inner), types: Types::default() })
    }

    /// The same database, whose tables opened from now on have columns of these types.
    #[must_use]
    pub fn with_types(self, types: Types) -> ShoalDatabase {
        ShoalDatabase { types, ..self }
    }

    /// The types of columns.
    pub(crate) fn types(&self) -> Types {
        self.types
    }

    /// A table or a view, its name in any case.
    ///
    /// Cost: a read of the schema; where a column has no telling type, a scan of the table.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::Sql`].
    pub fn table(&self, name: &str) -> Result<ShoalTable, Error> {
        ShoalTable::open(self, name)
    }

    /// All tables and views, for a catalog.
    pub fn schema(&self) -> ShoalSchema {
        ShoalSchema::new(self.clone())
    }

    /// A catalog with one schema, `main`.
    pub fn catalog(&self) -> ShoalCatalog {
        ShoalCatalog::new(self.schema())
    }

    /// The state of the file as of now, for any number of readers.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let transaction = self.inner.store.begin(Mode::Read).map_err(shoal::Error::from)?;
        Ok(Arc::new(Snapshot { inner: Arc::clone(&self.inner), transaction }))
    }

    /// The state of the file read by a query: one for all of its tables.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub(crate) fn snapshot_of(&self, query: Option<Query>) -> Result<Arc<Snapshot>, Error> {
        let Some(query) = query else { return self.snapshot() };
        let mut running = lock(&self.inner.running);
        running.retain(|(_, snapshot)| snapshot.strong_count() > 0);
        let known = running.iter().find(|(known, _)| *known == query);
        if let Some(snapshot) = known.and_then(|(_, snapshot)| snapshot.upgrade()) {
            return Ok(snapshot);
        }
        let snapshot = self.snapshot()?;
        running.push((query, Arc::downgrade(&snapshot)));
        Ok(snapshot)
    }
}

impl fmt::Debug for ShoalDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.inner.store.path();
        f.debug_struct("ShoalDatabase").field("path", &path).finish_non_exhaustive()
    }
}

/// One state of the file. Others may commit to a file in write-ahead log mode meanwhile; a
/// checkpoint waits for the end of the state.
pub(crate) struct Snapshot {
    inner: Arc<Inner>,
    transaction: Transaction,
}

impl Snapshot {
    /// A connection that reads this state.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub(crate) fn reader(&self) -> Result<Reader, Error> {
        let idle = lock(&self.inner.idle).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = Connection::open(self.inner.store.clone());
                let connection = connection.map_err(shoal::Error::from)?;
                let environment = self.inner.environment.clone();
                Database::over_connection(environment, connection).into_sql()
            }
        };
        connection.set_read_only(true);
        let limits = Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() };
        connection.set_limits(limits);
        connection.begin_beside(&self.transaction).map_err(shoal::Error::from)?;
        Ok(Reader { inner: Arc::clone(&self.inner), connection: Some(connection) })
    }

    /// The number of the schema: another one after each change of a definition.
    pub(crate) fn schema_cookie(&self) -> u32 {
        self.transaction.schema_cookie()
    }

    /// True where texts compare by the bytes of UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        self.transaction.utf16().is_none()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("state", &self.transaction.state_id()).finish()
    }
}

/// A connection at work, given back when dropped.
pub(crate) struct Reader {
    inner: Arc<Inner>,
    connection: Option<Connection>,
}

impl Reader {
    /// The connection.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a reader has its connection until it is dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.set_progress_handler(1, None);
        let mut idle = lock(&self.inner.idle);
        // A connection in the middle of something answers nobody else.
        if connection.rollback().is_ok() && idle.len() < IDLE_MAX && !std::thread::panicking() {
            idle.push(connection);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
