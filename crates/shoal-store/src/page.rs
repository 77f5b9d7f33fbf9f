//! A page in memory.

use std::sync::Arc;

use shoal_format::{Corrupt, Page, Pgno};

/// A page's bytes, shared: cheap to clone, and unchanged as long as a clone lives.
#[derive(Clone, Debug)]
pub(crate) struct PageRef {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) pgno: Pgno,
}

impl PageRef {
    /// The page as a page of a b-tree.
    #[inline]
    pub(crate) fn btree(&self, usable: usize) -> Result<Page<'_>, Corrupt> {
        Page::new(&self.bytes, self.pgno, usable)
    }
}
