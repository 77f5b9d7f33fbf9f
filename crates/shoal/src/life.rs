//! The life of a document in a file: renamed, copied, removed, compacted.

use shoal_crdt::Document;
use shoal_history::ChangeHash;

use crate::layout::Layout;
use crate::open_document::{self, Stored};
use crate::tables::{self, DocRow, Last, Tombstone};
use crate::{Compacted, Database, Error, compact};

/// A document that was removed, as its tombstone tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedDocument {
    /// The name it had.
    pub name: String,
    /// The heads it had, ascending.
    pub heads: Vec<ChangeHash>,
}

impl Database {
    /// Removes a document: its changes, its JSON. A tombstone stays, by which a later meeting with
    /// a peer can tell a removed document from one never seen. The space is used again.
    ///
    /// # Errors
    /// [`Error::NoDocument`]; the store's. Nothing is removed then.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let row = database.present(name, now_ms)?;
            let connection = &mut database.connection;
            let heads = tables::last(connection, row.id)?.heads;
            tables::delete_chunks(connection, row.id)?;
            tables::delete_doc(connection, row.id)?;
            tables::set_lagging(connection, row.id, false)?;
            tables::bury(connection, &Tombstone { doc: row.id, name: row.name, heads }, now_ms)?;
            database.project_renamed(row.id)
        })
    }

    /// The documents that were removed and not made again.
    ///
    /// # Errors
    /// What is wrong with the tables.
    pub fn removed(&mut self) -> Result<Vec<RemovedDocument>, Error> {
        self.snapshot(|database| {
            if Layout::of(&mut database.connection)? != Layout::Second {
                return Ok(Vec::new());
            }
            let stones = tables::tombstones(&mut database.connection)?;
            let stones = stones.into_iter();
            Ok(stones
                .map(|stone| RemovedDocument { name: stone.name, heads: stone.heads })
                .collect())
        })
    }

    /// Forgets that documents of this name were removed.
    ///
    /// # Errors
    /// The store's.
    pub fn forget_removed(&mut self, name: &str) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            for stone in tables::tombstones(connection)? {
                if stone.name == name {
                    tables::unbury(connection, stone.doc)?;
                }
            }
            Ok(())
        })
    }

    /// Gives a document another name. Whoever has it open goes on writing to it.
    ///
    /// # Errors
    /// [`Error::NoDocument`], [`Error::Exists`]; the store's.
    pub fn rename(&mut self, name: &str, new_name: &str) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let row = database.present(name, now_ms)?;
            database.check_free(new_name)?;
            tables::rename_doc(&mut database.connection, row.id, new_name)?;
            database.project_renamed(row.id)
        })
    }

    /// Stores a copy of a document, its history included, under another name.
    ///
    /// # Errors
    /// As [`Database::rename`].
    pub fn copy(&mut self, name: &str, new_name: &str) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let row = database.present(name, now_ms)?;
            database.check_free(new_name)?;
            let document = database.read_checked(&row)?;
            database.store_new(new_name, &document, now_ms)?;
            Ok(())
        })
    }

    /// Puts the changes of a document into one chunk of Automerge's document format, which takes a
    /// part of their space and time to load. Every change can still be given back byte for byte:
    /// their hashes are compared before the chunks in their place are deleted, in one transaction.
    /// Readers go on.
    ///
    /// Cost: the whole document, saved and loaded once.
    ///
    /// # Errors
    /// As [`Database::load`]; the store's. The document is as before then.
    pub fn compact(&mut self, name: &str) -> Result<Compacted, Error> {
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let row = database.present(name, now_ms)?;
            let document = database.read_checked(&row)?;
            compact::compact(&mut database.connection, row.id, &document, now_ms)
        })
    }

    /// The row of a document in layout 2, to which older files are brought up.
    fn present(&mut self, name: &str, now_ms: i64) -> Result<DocRow, Error> {
        let connection = &mut self.connection;
        let missing = || Error::NoDocument { name: name.to_owned() };
        match Layout::of(connection)? {
            Layout::Absent => return Err(missing()),
            layout => layout.bring_up(connection, now_ms)?,
        }
        tables::find(connection, name)?.ok_or_else(missing)
    }

    /// Reads a document, whose chunks must lead to its heads.
    fn read_checked(&mut self, row: &DocRow) -> Result<Document, Error> {
        let actor = self.environment.new_actor();
        let (document, stored) = open_document::read_whole(&mut self.connection, row.id, &actor)?;
        open_document::check_heads(&row.name, &stored.last.heads, &document)?;
        document.verify()?;
        Ok(document)
    }

    /// Refuses a name that is taken.
    fn check_free(&mut self, name: &str) -> Result<(), Error> {
        match tables::find(&mut self.connection, name)? {
            Some(_) => Err(Error::Exists { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Stores a document under a name that is free, within the open transaction.
    pub(crate) fn store_new(
        &mut self,
        name: &str,
        document: &Document,
        now_ms: i64,
    ) -> Result<Last, Error> {
        let connection = &mut self.connection;
        let id = tables::last_doc_id(connection)? + 1;
        let json = open_document::json_of(name, document)?;
        tables::put_doc(connection, (id, name), &document.heads(), &json)?;
        let mut stored = Stored::nothing();
        open_document::append_new(connection, id, &mut stored, document, now_ms)?;
        if compact::is_due(connection, id)? {
            compact::compact(connection, id, document, now_ms)?;
        }
        self.project(id, document, &[])?;
        Ok(stored.last)
    }
}
