//! Group commit: many open documents made durable by one transaction; the id of a file, by which
//! peers know the file again.

use shoal_sql::{Value, ValueRef};
use shoal_store::Version;

use crate::layout::Layout;
use crate::{Database, Error, OpenDocument, tables};

/// The key of the file's id in `_shoal_meta`.
const STORAGE_ID: &str = "storage-id";

impl Database {
    /// Makes the edits of several open documents durable, as [`Database::commit`] does of one, in
    /// one transaction: one wait for the disk, whatever the number.
    ///
    /// Cost: what was edited, and what others stored of these documents.
    ///
    /// # Errors
    /// As [`Database::commit`]. Nothing of any of them is stored then.
    pub fn commit_all<'d>(
        &mut self,
        open: impl IntoIterator<Item = &'d mut OpenDocument>,
    ) -> Result<(), Error> {
        let now_ms = self.environment.now_ms();
        let stored = self.write(|database| {
            let mut stored = Vec::new();
            for open in open {
                let state = database.commit_open(open, now_ms)?;
                stored.push((open, state));
            }
            Ok(stored)
        })?;
        for (open, state) in stored {
            self.note_commit(open, state, now_ms);
        }
        Ok(())
    }

    /// True when anybody has committed since `seen` was noted, this connection included; notes the
    /// state of now. True for the first call.
    ///
    /// Cost: a look at the file's version.
    ///
    /// # Errors
    /// The store's.
    pub fn has_changed(&mut self, seen: &mut Option<Version>) -> Result<bool, Error> {
        if let Some(version) = seen
            && !self.connection.is_stale(version)?
        {
            return Ok(false);
        }
        *seen = Some(self.connection.version()?);
        Ok(true)
    }

    /// True when others than this connection have committed since `seen` was noted; notes the state
    /// of now. True for the first call. [`shoal_store::Version::has_commits_of_others_since`] names
    /// the cases that are taken for commits of others.
    ///
    /// Cost: a look at the file's version.
    ///
    /// # Errors
    /// The store's.
    pub fn has_news(&mut self, seen: &mut Option<Version>) -> Result<bool, Error> {
        let now = self.connection.version()?;
        let before = seen.replace(now.clone());
        Ok(before.is_none_or(|before| now.has_commits_of_others_since(&before)))
    }

    /// The id of the file: 16 random bytes, made by the first call and kept in the file.
    ///
    /// # Errors
    /// The store's when the file cannot be written; [`Error::Layout`] for a value that is no id.
    pub fn storage_id(&mut self) -> Result<[u8; 16], Error> {
        let mut fresh = [0; 16];
        self.environment.fill(&mut fresh);
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            let mut id = None;
            let sql = "SELECT value FROM _shoal_meta WHERE key = ?1";
            tables::query(connection, sql, &[Value::text(STORAGE_ID)], |row| {
                let bytes = match row {
                    [ValueRef::Blob(bytes)] => <[u8; 16]>::try_from(*bytes).ok(),
                    _ => None,
                };
                id = Some(bytes.ok_or(Error::Layout { table: "_shoal_meta" })?);
                Ok(())
            })?;
            if let Some(id) = id {
                return Ok(id);
            }
            let values = [Value::text(STORAGE_ID), Value::Blob(fresh.to_vec())];
            tables::write(connection, "INSERT INTO _shoal_meta VALUES (?1, ?2)", &values)?;
            Ok(fresh)
        })
    }
}

#[cfg(test)]
mod tests {
    use shoal_crdt::{CommitOptions, ROOT};

    use super::*;
    use crate::Environment;

    #[test]
    fn many_documents_in_one_transaction() {
        let mut database = Database::memory(Environment::os()).unwrap();
        let mut open: Vec<OpenDocument> =
            (0..5).map(|at| database.open_or_create(&format!("d{at}")).unwrap()).collect();
        for round in 0..3 {
            for document in &mut open {
                let mut transaction = document.transaction();
                transaction.put(&ROOT, "round", round).unwrap();
                transaction.commit(CommitOptions::default());
            }
            database.commit_all(&mut open).unwrap();
            for document in &open {
                assert_eq!(document.stored_heads(), document.heads());
            }
        }
        for document in &open {
            let read = database.load(document.name()).unwrap();
            assert_eq!((read.heads(), read.changes().count()), (document.heads(), 3));
        }
    }

    #[test]
    fn a_document_removed_meanwhile_undoes_the_others() {
        let mut database = Database::memory(Environment::os()).unwrap();
        let mut one = database.open_or_create("one").unwrap();
        let mut two = database.open_or_create("two").unwrap();
        let edit = |document: &mut OpenDocument| {
            let mut transaction = document.transaction();
            transaction.put(&ROOT, "a", 1).unwrap();
            transaction.commit(CommitOptions::default());
        };
        edit(&mut one);
        edit(&mut two);
        database.commit_all([&mut one, &mut two]).unwrap();
        edit(&mut one);
        edit(&mut two);
        database.remove("two").unwrap();
        let before = one.stored_heads().to_vec();
        assert!(database.commit_all([&mut one, &mut two]).is_err());
        assert_eq!(
            (one.stored_heads(), database.load("one").unwrap().heads()),
            (&before[..], before.clone())
        );
        assert_eq!(database.commit(&mut one).unwrap(), one.heads());
    }

    #[test]
    fn commits_of_others_are_told_from_own_ones() {
        for mode in ["WAL", "DELETE"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let open = || Database::open(Environment::os(), &path, shoal_store::Access::Create);
            let (mut one, mut two) = (open().unwrap(), open().unwrap());
            let pragma = format!("PRAGMA journal_mode = {mode}");
            let mut statement = one.sql().prepare(&pragma).unwrap();
            one.sql().query(&mut statement).unwrap().next().unwrap();
            let mut edited = one.open_or_create("d").unwrap();
            let mut edit = |database: &mut Database, value: i64| {
                let mut transaction = edited.transaction();
                transaction.put(&ROOT, "a", value).unwrap();
                transaction.commit(CommitOptions::default());
                database.commit(&mut edited).unwrap();
            };
            edit(&mut one, 0);
            let (mut seen, mut seen_by_two) = (None, None);
            assert!(one.has_news(&mut seen).unwrap() && two.has_news(&mut seen_by_two).unwrap());
            for value in 1..50 {
                edit(&mut one, value);
                assert!(!one.has_news(&mut seen).unwrap(), "{mode}: own commit {value}");
            }
            assert!(two.has_news(&mut seen_by_two).unwrap(), "{mode}");
            assert!(!two.has_news(&mut seen_by_two).unwrap(), "{mode}");
            two.storage_id().unwrap();
            assert!(!two.has_news(&mut seen_by_two).unwrap(), "{mode}");
            edit(&mut one, 50);
            assert!(one.has_news(&mut seen).unwrap(), "{mode}: the other one's, before an own one");
            assert!(!one.has_news(&mut seen).unwrap(), "{mode}");
        }
    }

    #[test]
    fn the_id_of_a_file_stays() {
        let mut database = Database::memory(Environment::os()).unwrap();
        let id = database.storage_id().unwrap();
        assert_eq!(database.storage_id().unwrap(), id);
        assert_ne!(Database::memory(Environment::os()).unwrap().storage_id().unwrap(), id);
    }
}
