//! A shared page in memory, open to changes.

use std::sync::Arc;

use shoal_format::{Corrupt, Page, Pgno};

use crate::{Error, Transaction};

/// A changed page's bytes, shared: cheap to clone, and unchanged as long as a clone lives.
#[derive(Clone, Debug)]
pub(crate) struct PageRef {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) pgno: Pgno,
}

impl Transaction {
    /// Returns page `pgno` as a page of a b-tree.
    ///
    /// # Errors
    /// When the page cannot be read or is no page of a b-tree.
    #[inline(always)]
    pub fn btree_page(&self, pgno: Pgno) -> Result<Page<'_>, Error> {
        Ok(Page::new(self.page(pgno)?, pgno, self.usable())?)
    }

    /// As [`Transaction::btree_page`], for `bytes` the caller already has.
    #[inline]
    pub(crate) fn view<'b>(&self, bytes: &'b [u8], pgno: Pgno) -> Result<Page<'b>, Corrupt> {
        Page::new(bytes, pgno, self.usable())
    }
}
