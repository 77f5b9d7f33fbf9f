//! Finding rows of a table by rowid, many times.
//!
//! A descent reads a page per level and searches the page cell by cell, each a pointer, a varint, a
//! varint. After a few descents the separators of the whole tree are decoded once, into one array
//! in the order of the leaves: a row's leaf is then found by interpolation and a step or two, and
//! on the leaf the row is where its rowid says, unless rows are missing before. The array belongs
//! to one [`Image`](crate::image::Image) and only tells which page to look at: the page is checked
//! as any other.

use std::sync::Arc;

use shoal_format::{Corrupt, LeafCell, Page, PageKind, Payload, Pgno};

use crate::cursor::MAX_DEPTH;
use crate::{Error, Transaction};

/// The leaves of one table, in order, and the separators between them.
#[derive(Debug)]
pub(crate) struct TableTree {
    leaves: Box<[Pgno]>,
    /// `ends[i]` is the largest rowid possible on leaf `i`; the last leaf has no end.
    ends: Box<[i64]>,
    /// The smallest rowid.
    first: i64,
    /// Leaves per rowid, in units of 2^-64.
    scale: u64,
}

/// Most separators decoded: 8 million leaves, a table of 32 GB in pages of 4 KiB.
const MAX_LEAVES: usize = 1 << 23;

impl TableTree {
    /// Reads the interior pages of the tree at `root`. `None` when one cannot be read or has any
    /// fault: a plain descent will name the fault.
    pub(crate) fn build(txn: &Transaction, root: Pgno) -> Option<TableTree> {
        let mut leaves = Vec::new();
        let mut ends = Vec::new();
        let mut pages_left = u64::from(txn.page_count());
        walk(txn, root, &mut leaves, &mut ends, &mut pages_left)?;
        ends.pop();
        let first = txn.btree_page(*leaves.first()?).ok()?.rowid(0).ok()?;
        let last = txn.btree_page(*leaves.last()?).ok()?;
        let last = last.rowid(last.cell_count().checked_sub(1)?).ok()?;
        if !ends.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let span = last.abs_diff(first).max(1);
        let scale = ((leaves.len() as u128) << 64) / (u128::from(span) + 1);
        let scale = u64::try_from(scale).unwrap_or(u64::MAX);
        Some(TableTree { leaves: leaves.into(), ends: ends.into(), first, scale })
    }

    /// The number of the leaf for the row `rowid`.
    #[inline]
    fn place(&self, rowid: i64) -> usize {
        let count = self.ends.len();
        let distance = if rowid > self.first { rowid.abs_diff(self.first) } else { 0 };
        let guess = (u128::from(distance) * u128::from(self.scale)) >> 64;
        let guess = (guess as usize).min(count);
        if guess < count && self.ends[guess] < rowid {
            // To the right, in growing steps.
            let (mut low, mut step) = (guess + 1, 1);
            while low + step < count && self.ends[low + step] < rowid {
                low += step;
                step *= 2;
            }
            let high = (low + step).min(count);
            low + self.ends[low..high].partition_point(|&end| end < rowid)
        } else {
            let (mut high, mut step) = (guess, 1);
            while high >= step && self.ends[high - step] >= rowid {
                high -= step;
                step *= 2;
            }
            let low = high.saturating_sub(step);
            low + self.ends[low..high].partition_point(|&end| end < rowid)
        }
    }
}

/// Appends the leaves below the page at `root` and where each ends.
fn walk(
    txn: &Transaction,
    root: Pgno,
    leaves: &mut Vec<Pgno>,
    ends: &mut Vec<i64>,
    pages_left: &mut u64,
) -> Option<()> {
    // Pages to go through, each with the next child and its own end.
    let mut trail: Vec<(Pgno, usize, i64)> = vec![(root, 0, i64::MAX)];
    while let Some((pgno, child, end)) = trail.last_mut() {
        let (pgno, end, index) = (*pgno, *end, *child);
        *child += 1;
        let page = txn.btree_page(pgno).ok()?;
        match page.kind() {
            PageKind::TableLeaf if pgno == root => {
                leaves.push(pgno);
                ends.push(end);
                trail.pop();
            }
            PageKind::TableInterior => {
                if index > page.cell_count() {
                    trail.pop();
                    continue;
                }
                let own = if index < page.cell_count() { page.rowid(index).ok()? } else { end };
                let below = page.child(index).ok()?;
                *pages_left = pages_left.checked_sub(1)?;
                // All children of a page are leaves or none is; the first tells.
                if has_leaves(txn, page)? {
                    if leaves.len() == MAX_LEAVES {
                        return None;
                    }
                    leaves.push(below);
                    ends.push(own);
                } else if trail.len() < MAX_DEPTH {
                    trail.push((below, 0, own));
                } else {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(())
}

/// True when the children of `page` are leaves. Only the first child is read: listing the leaves of
/// a large table must not read them all.
fn has_leaves(txn: &Transaction, page: Page<'_>) -> Option<bool> {
    let first = txn.btree_page(page.child(0).ok()?).ok()?;
    match first.kind() {
        PageKind::TableLeaf => Some(true),
        PageKind::TableInterior => Some(false),
        _ => None,
    }
}

/// Finds rows of one table by rowid. Borrows nothing, so a prepared statement keeps its lookup over
/// transactions and changes of the file.
///
/// Cost of a seek: on the last seek's leaf a few reads; else one step through decoded separators
/// once there are any, and before then a binary search per level. Allocates only for the
/// separators: 12 bytes a leaf, once per state of the file.
#[derive(Clone, Debug)]
pub struct TableLookup {
    root: Pgno,
    /// The image of all fields below.
    image: u64,
    tree: Option<Arc<TableTree>>,
    /// Descents since the image was new.
    descents: u32,
    /// The leaf of the last seek, and the range of rowids possible there.
    leaf: Option<Pgno>,
    low: i64,
    high: i64,
}

impl TableLookup {
    /// For the table at `root`.
    pub fn new(root: Pgno) -> TableLookup {
        TableLookup { root, image: 0, tree: None, descents: 0, leaf: None, low: 0, high: 0 }
    }

    /// Finds the row `rowid`; `None` when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    pub fn seek<'t>(
        &mut self,
        txn: &'t Transaction,
        rowid: i64,
    ) -> Result<Option<Payload<'t>>, Error> {
        Ok(self.find(txn, rowid)?.map(|(_, payload)| payload))
    }

    /// As [`TableLookup::seek`], with the row's leaf.
    ///
    /// # Errors
    /// As [`TableLookup::seek`].
    #[inline(always)]
    pub fn find<'t>(
        &mut self,
        txn: &'t Transaction,
        rowid: i64,
    ) -> Result<Option<(Page<'t>, Payload<'t>)>, Error> {
        match self.locate(txn, rowid)? {
            Some((page, index, cell)) => Ok(Some((page, page.payload(index, cell)?))),
            None => Ok(None),
        }
    }

    /// The leaf of the row `rowid`, the row's place there, and the place of its record.
    ///
    /// # Errors
    /// As [`TableLookup::seek`].
    #[inline(always)]
    pub fn locate<'t>(
        &mut self,
        txn: &'t Transaction,
        rowid: i64,
    ) -> Result<Option<(Page<'t>, usize, LeafCell)>, Error> {
        if self.image != txn.image_id() || txn.is_writer() {
            self.forget(txn);
        }
        let leaf = match self.leaf {
            Some(leaf) if self.low <= rowid && rowid <= self.high => leaf,
            _ => self.find_leaf(txn, rowid)?,
        };
        let page = txn.btree_page(leaf)?;
        let found = find_on_leaf(&page, (self.low, self.high), rowid)?;
        Ok(found.map(|(index, cell)| (page, index, cell)))
    }

    /// Finds many rows, one after the other, and calls `found` for each existing one: with its
    /// number among `rowids`, and the result of [`TableLookup::locate`]. A row on the previous
    /// row's leaf costs no step through the tree and no check of the page.
    ///
    /// For a large table sixteen rows are prefetched side by side before the first is looked at, so
    /// the waits for memory overlap.
    ///
    /// # Errors
    /// As [`TableLookup::seek`], and the errors of `found`.
    #[inline]
    pub fn locate_each<'t>(
        &mut self,
        txn: &'t Transaction,
        rowids: &[i64],
        mut found: impl FnMut(usize, &Page<'t>, usize, LeafCell) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.image != txn.image_id() || txn.is_writer() {
            self.forget(txn);
        }
        let mut known: Option<Page<'t>> = None;
        let mut last: Option<(usize, LeafCell)> = None;
        let large = self.is_large(txn);
        for (number, &rowid) in rowids.iter().enumerate() {
            if large && number.is_multiple_of(BATCH) {
                self.warm(txn, &rowids[number..rowids.len().min(number + BATCH)]);
            }
            // `low` and `high`, set by the last descent, are the range of this page.
            let page = match known {
                Some(page) if self.low <= rowid && rowid <= self.high => page,
                _ => {
                    let leaf = match self.leaf {
                        Some(leaf) if self.low <= rowid && rowid <= self.high => leaf,
                        _ => self.find_leaf(txn, rowid)?,
                    };
                    let page = txn.btree_page(leaf)?;
                    (known, last) = (Some(page), None);
                    page
                }
            };
            // Equal rowids come side by side when many outer rows name the same row.
            if last.is_none_or(|(_, cell)| cell.rowid != rowid) {
                last = find_on_leaf(&page, (self.low, self.high), rowid)?;
            }
            if let Some((index, cell)) = last {
                found(number, &page, index, cell)?;
            }
        }
        Ok(())
    }

    /// Finds up to sixteen rows at once, their payloads in the order of `rowids`. Every step is
    /// made for all of them before the next step, so the waits for memory overlap.
    ///
    /// # Errors
    /// As [`TableLookup::seek`]; [`Error::Misuse`] for more rowids.
    pub fn seek_batch<'t>(
        &mut self,
        txn: &'t Transaction,
        rowids: &[i64],
        found: &mut [Option<Payload<'t>>; BATCH],
    ) -> Result<(), Error> {
        if rowids.len() > BATCH {
            return Err(Error::Misuse("a batch of lookups was larger than sixteen"));
        }
        if self.image != txn.image_id() || txn.is_writer() {
            self.forget(txn);
        }
        let mut leaves = [(Pgno::FIRST, (0_i64, 0_i64)); BATCH];
        for (place, &rowid) in leaves.iter_mut().zip(rowids) {
            let leaf = self.find_leaf(txn, rowid)?;
            *place = (leaf, (self.low, self.high));
        }
        let mut pages = [None; BATCH];
        for (page, (leaf, _)) in pages.iter_mut().zip(&leaves[..rowids.len()]) {
            *page = Some(txn.btree_page(*leaf)?);
        }
        if self.is_large(txn) {
            let lows = leaves.iter().map(|(_, (low, _))| *low);
            let rows = pages.iter().zip(lows).zip(rowids);
            touch(rows.filter_map(|((page, low), &rowid)| Some((page.as_ref()?, low, rowid))));
        }
        for (((page, (_, range)), &rowid), found) in
            pages.iter().zip(&leaves).zip(rowids).zip(found.iter_mut())
        {
            *found = None;
            if let Some(page) = page
                && let Some((index, cell)) = find_on_leaf(page, *range, rowid)?
            {
                *found = Some(page.payload(index, cell)?);
            }
        }
        Ok(())
    }

    /// True when the table is known to be large enough for [`TableLookup::warm`] to pay.
    #[inline]
    pub fn is_large(&self, txn: &Transaction) -> bool {
        let pages = WARM_BYTES_MIN / txn.header().page_size as usize;
        self.image == txn.image_id()
            && self.tree.as_ref().is_some_and(|tree| tree.leaves.len() >= pages)
    }

    /// Prefetches up to sixteen rows about to be sought, side by side, so the waits for memory
    /// overlap. Skips all checks: a fault of a page is found by the seek.
    pub fn warm(&self, txn: &Transaction, rowids: &[i64]) {
        let Some(tree) = self.tree.as_ref().filter(|_| self.image == txn.image_id()) else {
            return;
        };
        let mut pages = [(None, 0_i64); BATCH];
        for ((page, low), &rowid) in pages.iter_mut().zip(rowids) {
            let place = tree.place(rowid);
            *low = place.checked_sub(1).map_or(tree.first, |before| tree.ends[before]);
            *page = txn.btree_page(tree.leaves[place]).ok();
        }
        let rows = pages.iter().zip(rowids);
        touch(rows.filter_map(|((page, low), &rowid)| Some((page.as_ref()?, *low, rowid))));
    }

    #[cold]
    fn forget(&mut self, txn: &Transaction) {
        *self = TableLookup { image: txn.image_id(), ..TableLookup::new(self.root) };
    }

    /// Finds the leaf for `rowid`, and notes the leaf for the next seek.
    fn find_leaf(&mut self, txn: &Transaction, rowid: i64) -> Result<Pgno, Error> {
        let Some(tree) = &self.tree else { return self.descend(txn, rowid) };
        let place = tree.place(rowid);
        let leaf = tree.leaves[place];
        self.low = match place.checked_sub(1) {
            Some(before) => tree.ends[before].saturating_add(1),
            None => tree.first.min(rowid),
        };
        self.high = tree.ends.get(place).copied().unwrap_or(i64::MAX);
        self.leaf = Some(leaf);
        Ok(leaf)
    }

    fn descend(&mut self, txn: &Transaction, rowid: i64) -> Result<Pgno, Error> {
        self.leaf = None;
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        let mut pgno = self.root;
        for depth in 0..MAX_DEPTH {
            let page = txn.btree_page(pgno)?;
            match page.kind() {
                PageKind::TableLeaf => {
                    if low == i64::MIN && page.cell_count() > 0 {
                        low = page.rowid(0)?.min(rowid);
                    }
                    (self.low, self.high) = (low, high);
                    // A writer may change its leaves between two seeks, so none is noted.
                    self.leaf = (!txn.is_writer()).then_some(pgno);
                    return Ok(pgno);
                }
                PageKind::TableInterior => {}
                kind => {
                    let kind = u64::from(kind.byte());
                    let why = "has a page of the wrong kind";
                    return Err(Corrupt::on_page(pgno, "b-tree", why, kind).into());
                }
            }
            if depth == 0 {
                self.learn(txn, page.cell_count());
            }
            let index = page.find_rowid(rowid)?;
            if index < page.cell_count() {
                high = high.min(page.rowid(index)?);
            }
            if index > 0 {
                low = low.max(page.rowid(index - 1)?.saturating_add(1));
            }
            pgno = page.child(index)?;
        }
        let why = "is deeper than a file can be, it goes in a circle at depth";
        Err(Corrupt::on_page(pgno, "b-tree", why, MAX_DEPTH as u64).into())
    }

    /// Decodes the tree's separators once, after enough descents to repay the decoding.
    fn learn(&mut self, txn: &Transaction, root_cells: usize) {
        self.descents = self.descents.saturating_add(1);
        // A descent costs about as much as decoding a dozen separators. A tree of two levels has as
        // many separators as the root has cells, a deeper one as many pages of them.
        let enough = 4 + root_cells / 16;
        if txn.is_writer() || self.descents as usize != enough {
            return;
        }
        self.tree = txn.table_tree(self.root);
    }
}

/// Tables of so many bytes do not stay in a core's caches.
const WARM_BYTES_MIN: usize = 4 << 20;

/// Bytes of the leaves of one range of [`Transaction::row_ranges`].
const RANGE_BYTES: usize = 1 << 20;

/// Most rowids of one [`TableLookup::seek_batch`].
pub const BATCH: usize = 16;

/// Reads the heads of rows at the places they have if no row is missing before them. Each row is
/// given by its leaf, the smallest rowid possible there, and its rowid.
#[inline]
fn touch<'p, 't: 'p>(rows: impl Iterator<Item = (&'p Page<'t>, i64, i64)>) {
    let mut sum = 0_i64;
    for (page, low, rowid) in rows {
        let guess = usize::try_from(rowid.wrapping_sub(low)).unwrap_or(0);
        let index = guess.min(page.cell_count().saturating_sub(1));
        sum ^= page.rowid(index).unwrap_or(0);
    }
    std::hint::black_box(sum);
}

/// The row `rowid` of a leaf whose rowids are in a range.
#[inline(always)]
fn find_on_leaf(
    page: &Page<'_>,
    (low, high): (i64, i64),
    rowid: i64,
) -> Result<Option<(usize, LeafCell)>, Error> {
    let count = page.cell_count();
    let guess = usize::try_from(rowid.wrapping_sub(low)).unwrap_or(usize::MAX);
    if guess < count {
        let cell = page.leaf_row(guess)?;
        if cell.rowid == rowid {
            return Ok(Some((guess, cell)));
        }
    }
    find_sparse(page, (low, high), rowid)
}

/// As [`find_on_leaf`] where rowids are missing: sought where the row is if the others are evenly
/// apart.
#[inline(never)]
fn find_sparse(
    page: &Page<'_>,
    (low, high): (i64, i64),
    rowid: i64,
) -> Result<Option<(usize, LeafCell)>, Error> {
    let count = page.cell_count();
    let (passed, span) = (rowid.wrapping_sub(low) as u64, high.wrapping_sub(low) as u64);
    let index = match passed.checked_mul(count as u64) {
        // The last leaf has no end, the first one perhaps no beginning.
        Some(passed) if span < u64::MAX / 2 => {
            page.find_rowid_near(rowid, (passed / (span + 1)) as usize)?
        }
        _ => page.find_rowid(rowid)?,
    };
    if index < count {
        let cell = page.leaf_row(index)?;
        if cell.rowid == rowid {
            return Ok(Some((index, cell)));
        }
    }
    Ok(None)
}

impl Transaction {
    /// The number of the state read, unique among states; a writer has the number of its
    /// first state.
    #[inline]
    pub(crate) fn image_id(&self) -> u64 {
        self.snapshot.image.id
    }

    /// Counts the rows of the table at `root`.
    ///
    /// Cost: the header of every leaf is read, no row.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn count_rows(&self, root: Pgno) -> Result<u64, Error> {
        let mut count = 0;
        if let Some(tree) = self.table_tree(root) {
            // The leaves are known from the array, not one from another: the waits for
            // memory overlap.
            for &leaf in &tree.leaves {
                let page = self.btree_page(leaf)?;
                if page.kind() != PageKind::TableLeaf {
                    let kind = u64::from(page.kind().byte());
                    let why = "has a page of the wrong kind";
                    return Err(Corrupt::on_page(leaf, "b-tree", why, kind).into());
                }
                count += page.cell_count() as u64;
            }
            return Ok(count);
        }
        let mut cursor = self.table(root)?;
        let mut more = cursor.first()?;
        while more {
            count += cursor.leaf().map_or(0, |(page, _)| page.cell_count() as u64);
            more = cursor.next_leaf()?;
        }
        Ok(count)
    }

    /// Divides the rows of the table at `root` into ranges of rowids, from low to high, of about a
    /// megabyte of leaves each: parts to be read side by side. Empty for a table below four
    /// megabytes, for a writer, and for a tree with any fault.
    ///
    /// The ranges depend on the file alone.
    pub fn row_ranges(&self, root: Pgno) -> Vec<(i64, i64)> {
        let each = (RANGE_BYTES / self.header().page_size as usize).max(1);
        if self.page_count() as usize <= 4 * each {
            return Vec::new();
        }
        let Some(tree) = self.table_tree(root).filter(|tree| tree.leaves.len() >= 4 * each) else {
            return Vec::new();
        };
        let mut ranges = Vec::with_capacity(tree.leaves.len() / each + 1);
        let mut low = i64::MIN;
        for &end in tree.ends.iter().skip(each - 1).step_by(each) {
            ranges.push((low, end));
            // The ends ascend, so none but the last can be the largest number.
            low = end.saturating_add(1);
        }
        ranges.push((low, i64::MAX));
        ranges
    }

    /// The decoded tree of the table at `root`; `None` for a writer, and for a tree with any fault.
    pub(crate) fn table_tree(&self, root: Pgno) -> Option<Arc<TableTree>> {
        if self.is_writer() {
            return None;
        }
        self.snapshot.image.table_trees.get(root, || TableTree::build(self, root))
    }
}
