//! Cursors: positions in a b-tree, and the walk from entry to entry.

mod equal;
mod index;
mod table;

pub use index::IndexCursor;
pub(crate) use index::partition;
pub use table::TableCursor;

use std::hint::black_box;

use shoal_format::{Corrupt, Page, Pgno};

use crate::{Error, Transaction};

/// Most pages from a root to a leaf, SQLite's limit. A tree of 20 levels has more pages than a file
/// can have, so a deeper one goes in a circle.
pub(crate) const MAX_DEPTH: usize = 20;

/// The shortest file whose pages are brought into the caches before they are gone through.
const FETCHED_MIN: u64 = 16 << 20;

/// The kind of tree a page must belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeKind {
    Table,
    Index,
}

/// The way from the root to where a cursor is.
///
/// On the last page of the way `index` counts cells; on the pages above it counts children: there,
/// on an index page, cell `index` is the entry right after everything below child `index`.
#[derive(Debug)]
pub(crate) struct Path<'t> {
    txn: &'t Transaction,
    root: Pgno,
    kind: TreeKind,
    /// The pages above the last one, each with the index of the child descended into.
    above: [(Pgno, u16); MAX_DEPTH],
    /// Pages on the way; 0 before the first [`Path::restart`].
    depth: usize,
    page: Option<Page<'t>>,
    pub(crate) index: usize,
    /// Pages entered since the walk last started or turned; more than the file has is a circle.
    entered: u64,
    forward: bool,
}

/// A cursor's position without its transaction, kept by a result set between its batches.
///
/// A place is good for the same transaction, as long as the transaction changes nothing.
#[derive(Clone, Debug)]
pub struct Place {
    root: Pgno,
    above: [(Pgno, u16); MAX_DEPTH],
    depth: usize,
    page: Option<Pgno>,
    index: usize,
    entered: u64,
    forward: bool,
    position: Position,
}

impl Place {
    /// Moves so many cells on, on the same leaf.
    pub(crate) fn move_ahead(&mut self, by: usize) {
        self.index += by;
    }
}

impl<'t> Path<'t> {
    pub(crate) fn new(txn: &'t Transaction, root: Pgno, kind: TreeKind) -> Path<'t> {
        let above = [(Pgno::FIRST, 0); MAX_DEPTH];
        Path { txn, root, kind, above, depth: 0, page: None, index: 0, entered: 0, forward: true }
    }

    pub(crate) fn txn(&self) -> &'t Transaction {
        self.txn
    }

    fn place(&self, position: Position) -> Place {
        Place {
            root: self.root,
            above: self.above,
            depth: self.depth,
            page: self.page.map(|page| page.pgno()),
            index: self.index,
            entered: self.entered,
            forward: self.forward,
            position,
        }
    }

    /// The path to a noted position. The place on the page is checked when read, like
    /// everything else.
    fn resume(txn: &'t Transaction, kind: TreeKind, place: &Place) -> Result<Path<'t>, Error> {
        let page = place.page.map(|pgno| txn.btree_page(pgno)).transpose()?;
        Ok(Path {
            txn,
            root: place.root,
            kind,
            above: place.above,
            depth: place.depth,
            page,
            index: place.index,
            entered: place.entered,
            forward: place.forward,
        })
    }

    /// Goes back to the root alone.
    #[inline]
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.depth = 0;
        self.entered = 0;
        self.enter(self.root)
    }

    /// Notes the direction of the walk. The count of entered pages, the guard against circles of
    /// pages, begins anew when the direction changes.
    #[inline]
    pub(crate) fn head(&mut self, forward: bool) {
        if self.forward != forward {
            self.forward = forward;
            self.entered = 0;
        }
    }

    /// Enters page `pgno`.
    fn enter(&mut self, pgno: Pgno) -> Result<(), Error> {
        self.txn.check_watch()?;
        self.entered += 1;
        if self.depth == MAX_DEPTH || self.entered > u64::from(self.txn.page_count().max(1)) {
            let why = "is deeper or larger than the file, it goes in a circle at depth";
            return Err(Corrupt::on_page(pgno, "b-tree", why, self.depth as u64).into());
        }
        let page = self.txn.btree_page(pgno)?;
        if page.kind().is_table() != (self.kind == TreeKind::Table) {
            let why = "has a page of the wrong kind";
            let kind = u64::from(page.kind().byte());
            return Err(Corrupt::on_page(pgno, "b-tree", why, kind).into());
        }
        if page.cell_count() == 0 && self.depth > 0 {
            let why = "has an empty page at depth";
            return Err(Corrupt::on_page(pgno, "b-tree", why, self.depth as u64).into());
        }
        self.page = Some(page);
        self.index = 0;
        self.depth += 1;
        Ok(())
    }

    /// Enters the child at the current place.
    #[inline]
    pub(crate) fn push_child(&mut self) -> Result<(), Error> {
        let page = self.page();
        let child = page.child(self.index)?;
        // A page has fewer children than bytes.
        self.above[self.depth - 1] = (page.pgno(), self.index as u16);
        self.enter(child)
    }

    /// Leaves the last page; false on the root.
    pub(crate) fn pop(&mut self) -> Result<bool, Error> {
        if self.depth <= 1 {
            return Ok(false);
        }
        self.depth -= 1;
        let (pgno, index) = self.above[self.depth - 1];
        self.page = Some(self.txn.btree_page(pgno)?);
        self.index = usize::from(index);
        Ok(true)
    }

    /// The last page.
    ///
    /// # Panics
    /// Before the first [`Path::restart`].
    #[inline]
    pub(crate) fn page(&self) -> Page<'t> {
        self.page.expect("a walk begins at the root")
    }

    /// Brings the whole last page into the processor's caches at once, for files too large to be
    /// there already: later reads would otherwise miss the cache line by line, and wait for each.
    #[inline]
    pub(crate) fn fetch(&self) {
        const LINE: usize = 64;
        if self.txn.byte_len() >= FETCHED_MIN {
            let lines = self.page().bytes().iter().step_by(LINE);
            black_box(lines.fold(0, |all, byte| all | byte));
        }
    }

    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        self.page().kind().is_leaf()
    }

    #[inline]
    pub(crate) fn cell_count(&self) -> usize {
        self.page().cell_count()
    }

    /// Goes down to the first cell of the leftmost leaf below the current place.
    pub(crate) fn down_first(&mut self) -> Result<(), Error> {
        while !self.is_leaf() {
            self.push_child()?;
        }
        Ok(())
    }

    /// Makes the last cell of a leaf, or the last child, the current place.
    pub(crate) fn go_to_end(&mut self) {
        let count = self.cell_count();
        self.index = if self.is_leaf() { count.saturating_sub(1) } else { count };
    }

    /// Goes down to the last cell of the rightmost leaf below the current place, a child.
    pub(crate) fn down_last(&mut self) -> Result<(), Error> {
        while !self.is_leaf() {
            self.push_child()?;
            self.go_to_end();
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
