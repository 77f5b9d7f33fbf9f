//! A transaction: a snapshot of the database.

use std::sync::Arc;

use shoal_format::{Corrupt, FileHeader, Pgno};

use crate::header::FileState;
use crate::page::PageRef;
use crate::store::Inner;
use crate::{Error, IndexCursor, TableCursor};

/// A snapshot of the database. As long as it lives no other connection can commit.
pub struct Transaction {
    pub(crate) store: Arc<Inner>,
    pub(crate) file: FileState,
}

impl Transaction {
    pub(crate) fn new(store: Arc<Inner>, file: FileState) -> Transaction {
        Transaction { store, file }
    }

    /// Returns the file header.
    pub fn header(&self) -> &FileHeader {
        &self.file.header
    }

    /// Returns the number of pages; 0 in an empty file.
    pub fn page_count(&self) -> u32 {
        self.file.page_count
    }

    /// Returns the number that changes whenever the schema does.
    pub fn schema_cookie(&self) -> u32 {
        self.file.header.schema_cookie
    }

    /// Bytes of a page that the format may use.
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

    /// Returns page `pgno` as this transaction sees it.
    #[inline]
    pub(crate) fn page(&self, pgno: Pgno) -> Result<PageRef, Error> {
        self.check_pgno(pgno)?;
        if self.file.page_count == 0 {
            return Ok(self.file.first_page());
        }
        self.store.page(pgno, self.file.header.page_size)
    }

    /// An error unless the file has a page `pgno` that may hold data. An empty file has page 1.
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

    /// Lets this transaction write.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn upgrade(&mut self) -> Result<(), Error> {
        let what = "writing";
        Err(Error::Unsupported { what, path: self.store.path.clone() })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.store.end();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("file", &self.file).finish_non_exhaustive()
    }
}
