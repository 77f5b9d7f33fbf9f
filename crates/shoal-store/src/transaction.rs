//! A transaction: a snapshot of the database.

use std::sync::Arc;

use shoal_format::{ByteOrder, Corrupt, FileHeader, Pgno};

use crate::changes::Changes;
use crate::header::FileState;
use crate::image::Snapshot;
use crate::store::Inner;
use crate::{Error, IndexCursor, Settings, TableCursor, Watch};

/// A snapshot of the database. With a rollback journal no other connection can commit during its
/// life; with a write-ahead log others go on.
pub struct Transaction {
    pub(crate) store: Arc<Inner>,
    pub(crate) file: FileState,
    pub(crate) snapshot: Snapshot,
    /// `Some` for a writer.
    pub(crate) changes: Option<Box<Changes>>,
    /// The watch able to stop this transaction's cursors.
    pub(crate) watch: Option<Arc<Watch>>,
}

impl Transaction {
    pub(crate) fn new(store: Arc<Inner>, file: FileState, snapshot: Snapshot) -> Transaction {
        Transaction { store, file, snapshot, changes: None, watch: None }
    }

    /// Lets `watch` stop the cursors of this transaction: each looks at the watch on entering a
    /// page. Writing is never stopped halfway.
    pub fn set_watch(&mut self, watch: Option<Arc<Watch>>) {
        self.watch = watch;
    }

    /// # Errors
    /// [`Error::Interrupted`] and [`Error::TimedOut`] when the watch says to stop.
    #[inline]
    pub(crate) fn check_watch(&self) -> Result<(), Error> {
        match &self.watch {
            Some(watch) => watch.enter_page(),
            None => Ok(()),
        }
    }

    /// The store's settings.
    pub fn settings(&self) -> Settings {
        self.store.settings()
    }

    /// Returns the file header.
    pub fn header(&self) -> &FileHeader {
        &self.file.header
    }

    /// Returns the number of pages; 0 in an empty file.
    pub fn page_count(&self) -> u32 {
        self.file.page_count
    }

    /// Bytes of all pages.
    #[inline]
    pub(crate) fn byte_len(&self) -> u64 {
        self.file.byte_len()
    }

    /// Returns the schema cookie: another number after each change of the schema.
    pub fn schema_cookie(&self) -> u32 {
        self.file.header.schema_cookie
    }

    /// The order of bytes of the file's text; `None` for UTF-8. Cursors give records in UTF-8
    /// either way; pages and payloads keep the file's encoding.
    #[inline]
    pub fn utf16(&self) -> Option<ByteOrder> {
        self.file.header.text_encoding.utf16()
    }

    /// Bytes of a page usable by the format, without the reserved ones.
    #[inline]
    pub(crate) fn usable(&self) -> usize {
        self.file.header.usable()
    }

    /// Returns a cursor over the rows of the table at `root`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is no such page.
    pub fn table(&self, root: Pgno) -> Result<TableCursor<'_>, Error> {
        self.check_pgno(root)?;
        Ok(TableCursor::new(self, root))
    }

    /// Returns a cursor over the entries of the index at `root`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is no such page.
    pub fn index(&self, root: Pgno) -> Result<IndexCursor<'_>, Error> {
        self.check_pgno(root)?;
        Ok(IndexCursor::new(self, root))
    }

    /// An error unless the file has a page `pgno` able to hold data. An empty file has page 1.
    #[inline]
    pub(crate) fn check_pgno(&self, pgno: Pgno) -> Result<(), Error> {
        if pgno.get() > self.file.page_count.max(1) {
            let pages = u64::from(self.file.page_count);
            return Err(Corrupt::on_page(pgno, "page", "is past the end, pages", pages).into());
        }
        if pgno == Pgno::lock_page(self.file.header.page_size) {
            let at = Pgno::LOCK_BYTE;
            return Err(Corrupt::on_page(pgno, "page", "is the page of the lock", at).into());
        }
        Ok(())
    }

    /// Lets this transaction write. Other connections may go on reading until its commit.
    ///
    /// # Errors
    /// [`Error::Busy`] when another transaction writes, or with a write-ahead log has committed
    /// since this one began: waiting would not help. [`Error::ReadOnly`],
    /// [`Error::Latched`].
    pub fn upgrade(&mut self) -> Result<(), Error> {
        if self.changes.is_none() {
            self.store.begin_writing(&self.file.header, self.snapshot.log.as_ref())?;
            self.changes = Some(Box::new(Changes::new(self.file)));
        }
        Ok(())
    }

    /// Another reader of the state read here, for another thread: commits of others in between
    /// show in neither. Cost: one lock of the store, no system call.
    ///
    /// # Errors
    /// [`Error::Misuse`] when this transaction may write.
    pub fn reader_beside(&self) -> Result<Transaction, Error> {
        if self.is_writer() {
            return Err(Error::Misuse("a writer's state is not shared"));
        }
        // The locks held for this transaction serve the other one, too: clones hold the log's, and
        // the file's stays while the count is above zero.
        self.store.state().transactions += 1;
        Ok(Transaction::new(Arc::clone(&self.store), self.file, self.snapshot.clone()))
    }

    /// True for a transaction of `store`.
    pub fn is_of(&self, store: &crate::Store) -> bool {
        Arc::ptr_eq(&self.store, &store.inner)
    }

    /// True when the transaction may write.
    pub fn is_writer(&self) -> bool {
        self.changes.is_some()
    }

    /// Notes a change of the schema, for other connections to read the schema again.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn bump_schema_cookie(&mut self) -> Result<(), Error> {
        let cookie = self.file.header.schema_cookie.wrapping_add(1);
        self.change_header(|header| header.schema_cookie = cookie)
    }

    /// Sets the application's number.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn set_user_version(&mut self, version: i32) -> Result<(), Error> {
        self.change_header(|header| header.user_version = version)
    }

    /// Sets the application's file type.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn set_application_id(&mut self, id: u32) -> Result<(), Error> {
        self.change_header(|header| header.application_id = id)
    }

    /// Sets the schema format of records and indexes written from now on.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn set_schema_format(&mut self, format: u32) -> Result<(), Error> {
        self.change_header(|header| header.schema_format = format)
    }

    /// Makes an auto-vacuum file cut itself at each commit, or only when asked to. Other files stay
    /// as they are.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn set_incremental_vacuum(&mut self, incremental: bool) -> Result<(), Error> {
        if !self.file.header.is_auto_vacuum() {
            return Ok(());
        }
        self.change_header(|header| header.incremental_vacuum = incremental.into())
    }

    /// Notes in the header the version of the format for reading and writing: 1 with a rollback
    /// journal, 2 with a write-ahead log.
    pub(crate) fn set_versions(&mut self, version: u8) -> Result<(), Error> {
        self.change_header(|header| {
            header.read_version = version;
            header.write_version = version;
        })
    }

    pub(crate) fn change_header(
        &mut self,
        change: impl FnOnce(&mut FileHeader),
    ) -> Result<(), Error> {
        self.change(|txn| {
            change(&mut txn.file.header);
            // The commit writes the header as part of page 1, and only if page 1 counts as changed.
            txn.edit(Pgno::FIRST).map(drop)
        })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // A mapping keeps the lock about to be released, and the log's lock goes before the file's.
        self.snapshot.mapping = None;
        self.snapshot.log = None;
        self.store.end(self.changes.is_some());
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn stores_and_transactions_cross_threads() {
        fn check<T: Send + Sync>() {}
        check::<Store>();
        check::<Transaction>();
    }
}
