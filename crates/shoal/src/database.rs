//! The database: a file with tables and documents.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shoal_crdt::Document;
use shoal_history::ChangeHash;
use shoal_sql::Connection;
use shoal_store::{Access, Options, Store, Version};

use crate::layout::{self, Layout};
use crate::open_document::{self, Stored};
use crate::projection::Keeper;
use crate::tables::{self, Size};
use crate::{Environment, Error, modules, past};

/// An open database.
///
/// Documents are opened with [`Database::open_document`], edited in memory, and made durable with
/// [`Database::commit`]; whoever edits once takes [`Database::load`] and [`Database::store`].
/// Tables are read and written with SQL through [`Database::sql`].
pub struct Database {
    pub(crate) environment: Environment,
    pub(crate) connection: Connection,
    /// The state of the file in which no JSON was older than its document.
    settled: Option<Version>,
    pub(crate) keeper: Arc<Keeper>,
}

/// A document of a database, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its name, unique in the database.
    pub name: String,
    /// Its heads, ascending.
    pub heads: Vec<ChangeHash>,
    /// The number of changes.
    pub changes: u64,
    /// The bytes of their chunks.
    pub bytes: u64,
}

impl Database {
    /// Opens the database file at `path`. With [`Access::Create`] a missing file is created, with a
    /// write-ahead log; `PRAGMA journal_mode` before the first table, or later, gives it another
    /// journal.
    ///
    /// # Errors
    /// [`Error::Store`] when the file cannot be opened, [`Error::Sql`] when its schema cannot be
    /// read.
    pub fn open(environment: Environment, path: &Path, access: Access) -> Result<Self, Error> {
        let options = Options { codecs: environment.codecs(), ..Options::new(access) };
        let store = Store::open_named(environment.vfs(), path, options)?;
        let mut settings = store.settings();
        settings.new_file.wal = true;
        store.set_settings(settings);
        Self::over(environment, store)
    }

    /// A database in memory, gone with the value.
    ///
    /// # Errors
    /// None within the caller's reach.
    pub fn memory(environment: Environment) -> Result<Self, Error> {
        Self::over(environment, Store::memory())
    }

    fn over(environment: Environment, store: Store) -> Result<Self, Error> {
        Ok(Self::over_connection(environment, Connection::open(store)?))
    }

    /// A database over a connection, for those who were given its tables by [`Database::into_sql`].
    pub fn over_connection(environment: Environment, mut connection: Connection) -> Self {
        connection.reserve_tables(Some(tables::PREFIX));
        past::register(&mut connection);
        modules::register_modules(&mut connection)
            .expect("the modules of this crate have names of their own");
        shoal_graph::pgq::register(&mut connection);
        // A connection that had been one of a database has the pending edits of its transaction.
        let known =
            connection.keeper().map(|keeper| Arc::clone(keeper) as Arc<dyn Any + Send + Sync>);
        let keeper = match known.map(Arc::downcast::<Keeper>) {
            Some(Ok(keeper)) => keeper,
            _ => Arc::new(Keeper::new(environment.clone())),
        };
        connection.set_keeper(Some(Arc::clone(&keeper) as Arc<dyn shoal_sql::Keeper>));
        Self { environment, connection, settled: None, keeper }
    }

    /// The tables. SQL may read the tables of documents, not change them; what it changes in the
    /// rows of projections becomes changes of documents. JSON that is older than
    /// its document is brought up to date first, where the file can be written
    /// ([`Database::settle`]).
    pub fn sql(&mut self) -> &mut Connection {
        // A reader of JSON sees the heads it is of: older JSON is no reason to refuse the tables.
        let _ = self.settle();
        &mut self.connection
    }

    /// The database as its tables alone, as by [`Database::sql`].
    pub fn into_sql(mut self) -> Connection {
        let _ = self.settle();
        self.connection
    }

    /// Lists the documents by name.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Layout`] when the tables hold something else;
    /// [`Error::Sql`] when they cannot be read.
    pub fn documents(&mut self) -> Result<Vec<StoredDocument>, Error> {
        self.snapshot(|database| {
            let connection = &mut database.connection;
            let first = match Layout::of(connection)? {
                Layout::Absent => return Ok(Vec::new()),
                Layout::First => layout::first_sizes(connection)?,
                Layout::Second => BTreeMap::new(),
            };
            let mut documents = Vec::new();
            for row in tables::docs(connection)? {
                let size = match first.get(&row.id) {
                    Some(&(changes, bytes)) => Size { changes, bytes, heads: row.heads },
                    None if first.is_empty() => tables::size(connection, row.id)?,
                    None => Size::default(),
                };
                let Size { changes, bytes, heads } = size;
                documents.push(StoredDocument { name: row.name, heads, changes, bytes });
            }
            Ok(documents)
        })
    }

    /// Reads a document whole, and compares the hashes of its changes. Its edits will be by a new
    /// actor.
    ///
    /// Cost: every chunk is read; those of compacted documents are one for most of the history.
    /// [`Database::open_document`] hashes what is asked for.
    ///
    /// # Errors
    /// [`Error::NoDocument`]; [`Error::HeadsDiffer`] and others for tables without a sound
    /// document.
    pub fn load(&mut self, name: &str) -> Result<Document, Error> {
        let document = self.open_document(name)?.into_document();
        document.verify()?;
        Ok(document)
    }

    /// Makes a document durable under `name`, in one transaction: changes missing in the database
    /// are appended, waiting ones too, and the JSON is written anew. A new document is created.
    /// Changes of the database missing in `document`, stored meanwhile by another process, are
    /// merged into `document` first, so that afterwards both are the same.
    ///
    /// Returns the heads, durable by then. Cost: the whole document, for its JSON;
    /// [`Database::commit`] costs what was edited.
    ///
    /// # Errors
    /// [`Error::Store`] when the file cannot be written; nothing is stored then.
    pub fn store(&mut self, name: &str, document: &mut Document) -> Result<Vec<ChangeHash>, Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            let Some(row) = tables::find(connection, name)? else {
                database.store_new(name, document, now_ms)?;
                return Ok(document.heads());
            };
            let last = tables::last(connection, row.id)?;
            let mut stored = Stored::nothing();
            if last.waiting == 0 && document.has_heads(&last.heads) {
                stored.last = last;
            } else {
                open_document::read_new(connection, row.id, &mut stored, document)?;
            }
            let before = stored.last.heads.clone();
            open_document::append_new(connection, row.id, &mut stored, document, now_ms)?;
            if stored.last.heads != before {
                database.project(row.id, document, &before)?;
            }
            let connection = &mut database.connection;
            let known = (row.id, name);
            open_document::settle_document(connection, known, document, now_ms)?;
            Ok(stored.last.heads)
        })
    }

    /// Brings the JSON of documents up to date that were committed since it was written, and
    /// compacts those to which much was appended. Gives how many documents were behind.
    ///
    /// Cost: a look at the file's version when nobody wrote; otherwise the documents that are
    /// behind.
    ///
    /// # Errors
    /// The store's when the file cannot be written; what is wrong with the tables.
    pub fn settle(&mut self) -> Result<usize, Error> {
        if self.connection.in_transaction() {
            return Ok(0);
        }
        if let Some(version) = &self.settled
            && !self.connection.is_stale(version)?
        {
            return Ok(0);
        }
        let version = self.connection.version()?;
        let lagging = self.snapshot(|database| match Layout::of(&mut database.connection)? {
            Layout::Second => tables::lagging(&mut database.connection),
            Layout::Absent | Layout::First => Ok(Vec::new()),
        })?;
        if lagging.is_empty() {
            self.settled = Some(version);
            return Ok(0);
        }
        let now_ms = self.environment.now_ms();
        let actor = self.environment.new_actor();
        for &id in &lagging {
            self.write(|database| {
                let connection = &mut database.connection;
                let Some(row) = tables::find_id(connection, id)? else {
                    return tables::set_lagging(connection, id, false);
                };
                let last = tables::last(connection, id)?;
                let settle = |connection: &mut Connection, document: &Document| {
                    open_document::settle_document(connection, (id, &row.name), document, now_ms)
                };
                let keeper = Arc::clone(&database.keeper);
                let at_hand = |document: &Document| settle(&mut database.connection, document);
                if let Some(settled) = keeper.with_document(id, &last, at_hand) {
                    return settled;
                }
                let connection = &mut database.connection;
                let (document, _) = open_document::read_whole(connection, id, &actor)?;
                settle(connection, &document)
            })?;
        }
        Ok(lagging.len())
    }

    /// Runs `read` on one snapshot of the file.
    pub(crate) fn snapshot<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.connection.in_transaction() {
            self.keeper.flush(&mut self.connection)?;
            return read(self);
        }
        self.connection.begin(shoal_store::Mode::Read)?;
        let result = read(self);
        let ended = self.connection.rollback();
        let value = result?;
        ended?;
        Ok(value)
    }

    /// Runs `work` in a transaction that may write: the open one, or one of its own, which is
    /// durable when the call returns.
    pub(crate) fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.connection.in_transaction() {
            self.keeper.flush(&mut self.connection)?;
            return work(self);
        }
        self.connection.begin(shoal_store::Mode::Write)?;
        match work(self) {
            Ok(value) => {
                self.connection.commit()?;
                Ok(value)
            }
            Err(error) => {
                // The first failure is the one for the caller.
                let _ = self.connection.rollback();
                Err(error)
            }
        }
    }
}
