//! Cursors: positions in a b-tree, and the walk that moves them.

mod index;
mod table;

pub use index::IndexCursor;
pub(crate) use index::partition;
pub use table::TableCursor;
pub(crate) use table::lower_bound;

use shoal_format::{Corrupt, Page, Pgno};

use crate::page::PageRef;
use crate::{Error, Transaction};

/// Most pages from a root to a leaf, SQLite's limit. A tree of 20 levels has more pages than a file
/// can have, so a deeper one goes in a circle.
pub(crate) const MAX_DEPTH: usize = 20;

/// Which tree a page must belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeKind {
    Table,
    Index,
}

/// The pages from the root to where a cursor is, with the place on each.
///
/// `index` counts cells on the last page and children on the ones before; there, on an index page,
/// cell `index` is the entry that follows everything below child `index`.
#[derive(Debug)]
pub(crate) struct Path<'t> {
    txn: &'t Transaction,
    root: Pgno,
    kind: TreeKind,
    frames: [Option<Frame>; MAX_DEPTH],
    depth: usize,
    /// Pages entered since the walk last started or turned; more than the file has is a circle.
    entered: u64,
    forward: bool,
}

#[derive(Debug)]
pub(crate) struct Frame {
    page: PageRef,
    pub(crate) index: usize,
    pub(crate) cell_count: usize,
    pub(crate) is_leaf: bool,
}

impl<'t> Path<'t> {
    pub(crate) fn new(txn: &'t Transaction, root: Pgno, kind: TreeKind) -> Path<'t> {
        let frames = [const { None }; MAX_DEPTH];
        Path { txn, root, kind, frames, depth: 0, entered: 0, forward: true }
    }

    pub(crate) fn txn(&self) -> &'t Transaction {
        self.txn
    }

    /// Goes back to the root alone.
    #[inline]
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.depth = 0;
        self.entered = 0;
        self.push(self.root)
    }

    /// Notes in which direction the walk goes, so that a circle is noticed.
    #[inline]
    pub(crate) fn head(&mut self, forward: bool) {
        if self.forward != forward {
            self.forward = forward;
            self.entered = 0;
        }
    }

    /// Enters page `pgno`.
    #[inline]
    pub(crate) fn push(&mut self, pgno: Pgno) -> Result<(), Error> {
        self.entered += 1;
        if self.depth == MAX_DEPTH || self.entered > u64::from(self.txn.page_count().max(1)) {
            let why = "is deeper or larger than the file, it goes in a circle at depth";
            return Err(Corrupt::on_page(pgno, "b-tree", why, self.depth as u64).into());
        }
        if let Some(frame) = &mut self.frames[self.depth]
            && frame.page.pgno == pgno
        {
            // Left a moment ago, and nothing changes while a cursor lives.
            frame.index = 0;
            self.depth += 1;
            return Ok(());
        }
        let page = self.txn.page(pgno)?;
        let view = page.btree(self.txn.usable())?;
        let (cell_count, is_leaf) = (view.cell_count(), view.kind().is_leaf());
        if view.kind().is_table() != (self.kind == TreeKind::Table) {
            let why = "has a page of the wrong kind";
            let kind = u64::from(view.kind().byte());
            return Err(Corrupt::on_page(pgno, "b-tree", why, kind).into());
        }
        if cell_count == 0 && self.depth > 0 {
            let why = "has an empty page at depth";
            return Err(Corrupt::on_page(pgno, "b-tree", why, self.depth as u64).into());
        }
        self.frames[self.depth] = Some(Frame { page, index: 0, cell_count, is_leaf });
        self.depth += 1;
        Ok(())
    }

    /// Enters the child at the current place.
    #[inline]
    pub(crate) fn push_child(&mut self) -> Result<(), Error> {
        let child = self.view()?.child(self.top().index)?;
        self.push(child)
    }

    /// Leaves the last page; false when it is the root.
    #[inline]
    pub(crate) fn pop(&mut self) -> bool {
        if self.depth <= 1 {
            return false;
        }
        self.depth -= 1;
        true
    }

    /// The last page's place.
    ///
    /// # Panics
    /// Before the first [`Path::restart`].
    #[inline]
    pub(crate) fn top(&self) -> &Frame {
        self.frames[self.depth - 1].as_ref().expect("frames below the depth are filled")
    }

    #[inline]
    pub(crate) fn top_mut(&mut self) -> &mut Frame {
        self.frames[self.depth - 1].as_mut().expect("frames below the depth are filled")
    }

    /// The last page.
    #[inline]
    pub(crate) fn view(&self) -> Result<Page<'_>, Corrupt> {
        self.top().page.btree(self.txn.usable())
    }

    /// Goes down to the first cell of the leaf that is leftmost below the current place.
    pub(crate) fn down_first(&mut self) -> Result<(), Error> {
        while !self.top().is_leaf {
            self.push_child()?;
        }
        Ok(())
    }

    /// Goes down to the last cell of the leaf that is rightmost below the current place, which is
    /// a child.
    pub(crate) fn down_last(&mut self) -> Result<(), Error> {
        while !self.top().is_leaf {
            self.push_child()?;
            let top = self.top_mut();
            top.index = if top.is_leaf { top.cell_count.saturating_sub(1) } else { top.cell_count };
        }
        Ok(())
    }
}

/// Where a cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Before the first entry, or not moved yet.
    Before,
    /// On an entry.
    On,
    /// After the last entry.
    After,
}
