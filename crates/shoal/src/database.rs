//! The database: a file with tables and documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use shoal_crdt::{Document, DocumentJson};
use shoal_history::ChangeHash;
use shoal_sql::{Connection, ValueRef};
use shoal_store::{Access, Store};

use crate::tables::{self, DocRow};
use crate::{Environment, Error};

/// An open database.
///
/// Documents are read with [`Database::load`], edited in memory, and made durable with
/// [`Database::store`]; tables are read and written with SQL through [`Database::sql`].
pub struct Database {
    environment: Environment,
    connection: Connection,
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
    /// Opens the database file at `path`. With [`Access::Create`] a missing file is created.
    ///
    /// # Errors
    /// [`Error::Store`] when the file cannot be opened, [`Error::Sql`] when its schema cannot be
    /// read.
    pub fn open(environment: Environment, path: &Path, access: Access) -> Result<Self, Error> {
        Self::over(environment.clone(), Store::open(environment.vfs(), path, access)?)
    }

    /// A database in memory, gone with the value.
    ///
    /// # Errors
    /// None within the caller's reach.
    pub fn memory(environment: Environment) -> Result<Self, Error> {
        Self::over(environment, Store::memory())
    }

    fn over(environment: Environment, store: Store) -> Result<Self, Error> {
        let mut connection = Connection::open(store)?;
        connection.reserve_tables(Some(tables::PREFIX));
        Ok(Self { environment, connection })
    }

    /// The tables. SQL may read the tables of documents, not change them.
    pub fn sql(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The database as its tables alone.
    pub fn into_sql(self) -> Connection {
        self.connection
    }

    /// Lists the documents by name.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Layout`] when the tables hold something else;
    /// [`Error::Sql`] when they cannot be read.
    pub fn documents(&mut self) -> Result<Vec<StoredDocument>, Error> {
        self.snapshot(|connection| {
            if !tables::exist(connection)? {
                return Ok(Vec::new());
            }
            let mut sizes = BTreeMap::new();
            let sql = "SELECT doc, count(*), sum(length(chunk)) FROM _shoal_change GROUP BY doc";
            tables::query(connection, sql, &[], |row| {
                if let &[ValueRef::Int(doc), ValueRef::Int(changes), ValueRef::Int(bytes)] = row {
                    sizes.insert(doc, (changes.unsigned_abs(), bytes.unsigned_abs()));
                }
                Ok(())
            })?;
            let mut documents = Vec::new();
            let sql = "SELECT id, name, heads FROM _shoal_doc ORDER BY name";
            tables::query(connection, sql, &[], |row| {
                let DocRow { id, name, heads } = tables::doc_row(row)?;
                let (changes, bytes) = sizes.get(&id).copied().unwrap_or_default();
                documents.push(StoredDocument { name, heads, changes, bytes });
                Ok(())
            })?;
            Ok(documents)
        })
    }

    /// Reads a document. Its edits will be by a new actor.
    ///
    /// Cost: every change is read and applied.
    ///
    /// # Errors
    /// [`Error::NoDocument`]; [`Error::HeadsDiffer`] and others for tables without a sound
    /// document.
    pub fn load(&mut self, name: &str) -> Result<Document, Error> {
        let (row, changes) = self.snapshot(|connection| {
            let row =
                if tables::exist(connection)? { tables::find(connection, name)? } else { None };
            let row = row.ok_or_else(|| Error::NoDocument { name: name.to_owned() })?;
            let changes = tables::changes(connection, row.id)?;
            Ok((row, changes))
        })?;
        let mut document = Document::new(self.environment.new_actor());
        document.apply_changes(changes)?;
        check_heads(&row, &document)?;
        Ok(document)
    }

    /// Makes a document durable under `name`, in one transaction: changes missing in the database
    /// are appended, waiting ones too, and the JSON is written anew. A new document is created.
    /// Changes of the database missing in `document`, stored meanwhile by another process, are
    /// merged into `document` first, so that afterwards both are the same.
    ///
    /// Returns the heads, durable by then.
    ///
    /// # Errors
    /// [`Error::Store`] when the file cannot be written; nothing is stored then.
    pub fn store(&mut self, name: &str, document: &mut Document) -> Result<Vec<ChangeHash>, Error> {
        self.connection.begin(shoal_store::Mode::Write)?;
        match self.store_in_transaction(name, document) {
            Ok(heads) => {
                self.connection.commit()?;
                Ok(heads)
            }
            Err(error) => {
                // The first failure is the one for the caller.
                let _ = self.connection.rollback();
                Err(error)
            }
        }
    }

    fn store_in_transaction(
        &mut self,
        name: &str,
        document: &mut Document,
    ) -> Result<Vec<ChangeHash>, Error> {
        let connection = &mut self.connection;
        if !tables::exist(connection)? {
            tables::create(connection)?;
        }
        let row = match tables::find(connection, name)? {
            Some(row) => row,
            None => {
                let id = tables::last_doc_id(connection)? + 1;
                DocRow { id, name: name.to_owned(), heads: Vec::new() }
            }
        };
        if row.heads.iter().any(|head| document.change_by_hash(head).is_none()) {
            document.apply_changes(tables::changes(connection, row.id)?)?;
        }
        let stored = tables::change_count(connection, row.id)?;
        let since = document.changes_since(&row.heads);
        let reached = document.changes().len() - since.len();
        // More rows than the heads reach: changes waiting for others are among them, and may have
        // been applied since.
        let waiting = if usize::try_from(stored) == Ok(reached) {
            BTreeSet::new()
        } else {
            tables::hashes(connection, row.id)?
        };
        let new = since
            .into_iter()
            .chain(document.queued_changes())
            .filter(|change| !waiting.contains(&change.hash()));
        tables::append(connection, row.id, stored, new)?;
        let heads = document.heads();
        let json = serde_json::to_string(&DocumentJson::new(document))
            .map_err(|error| Error::Json { name: name.to_owned(), why: error.to_string() })?;
        tables::put_doc(connection, &DocRow { heads: heads.clone(), ..row }, &json)?;
        Ok(heads)
    }

    /// Runs `read` on one snapshot of the file.
    fn snapshot<T>(
        &mut self,
        read: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.connection.in_transaction() {
            return read(&mut self.connection);
        }
        self.connection.begin(shoal_store::Mode::Read)?;
        let result = read(&mut self.connection);
        let ended = self.connection.rollback();
        let value = result?;
        ended?;
        Ok(value)
    }
}

fn check_heads(row: &DocRow, document: &Document) -> Result<(), Error> {
    let heads = document.heads();
    if heads == row.heads {
        return Ok(());
    }
    let missing = row
        .heads
        .iter()
        .find(|head| document.change_by_hash(head).is_none())
        .or(heads.first())
        .copied()
        .unwrap_or(ChangeHash([0; 32]));
    Err(Error::HeadsDiffer { name: row.name.clone(), missing })
}
