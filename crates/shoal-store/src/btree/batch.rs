//! Many rows or entries of one leaf changed at once, the leaf written once.
//!
//! Statements changing many rows go through them in the order of the tree: one descent finds a
//! leaf, every change of this leaf is merged into its cells, and the pages are settled once. A leaf
//! with one change is edited in place.

use std::cmp::Ordering;

use shoal_format::cell::LeafHead;
use shoal_format::overflow::local_len;
use shoal_format::page::header_start;
use shoal_format::{CellExtent, KeyOrder, Page, PageKind, Pgno, ValueRef};

use super::Content;
use super::balance::Spread;
use super::trail::{Step, Trail};
use crate::{Error, Transaction};

/// What becomes of a row or an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafChange {
    /// The row stays as before, or absent.
    Keep,
    /// The record in the buffer takes its place, or is put where there is none.
    Put,
    /// It goes.
    Remove,
    /// The row is left to the caller, with all rows behind.
    Stop,
}

/// Most columns of a key of [`Transaction::change_entries`].
pub const KEY_MAX: usize = 16;

/// The columns of a key, the first of them in use.
pub type KeyColumns<'k> = [ValueRef<'k>; KEY_MAX];

/// Pages whose cells one leaf takes up in one merge: distributing more at once gains nothing.
const MERGED_PAGES_MAX: usize = 8;

impl Transaction {
    /// Changes rows of the table at `root`, given by ascending rowids, as far as they are on one
    /// leaf: `change` gets the number of a row, its record (`None` where there is no such row) and
    /// a buffer for another record. Returns how many of the rows were dealt with; 0 where the first
    /// is left to single changes: rows with overflow pages, files of UTF-16.
    ///
    /// `change` may have been called for the next row, too.
    ///
    /// # Errors
    /// As [`Transaction::table_insert`]; the errors of `change`, and then nothing changed.
    pub fn change_rows<E: From<Error>>(
        &mut self,
        root: Pgno,
        rowids: &[i64],
        mut change: impl FnMut(usize, Option<&[u8]>, &mut Vec<u8>) -> Result<LeafChange, E>,
    ) -> Result<usize, E> {
        let Some(&first) = rowids.first() else { return Ok(0) };
        if self.utf16().is_some() {
            return Ok(0);
        }
        let (trail, mut index, _) = self.find_row(root, first)?;
        let mut merge = self.merge(&trail)?;
        let page = self.btree_page(trail[trail.len() - 1].pgno)?;
        let is_last = self.is_rightmost(&trail)?;
        let (count, usable) = (page.cell_count(), self.usable());
        let mut dealt = 0;
        let mut before = None;
        for &rowid in rowids {
            if before.replace(rowid) >= Some(rowid) {
                break;
            }
            while index < count && page.rowid(index).map_err(Error::from)? < rowid {
                index += 1;
            }
            // What is behind the leaf is sought anew.
            if dealt > 0 && ((index == count && !is_last) || merge.is_full(usable)) {
                break;
            }
            let mut old = None;
            if index < count && page.rowid(index).map_err(Error::from)? == rowid {
                let payload = page.table_leaf(index).map_err(Error::from)?.payload;
                if payload.overflow.is_some() {
                    break;
                }
                old = Some(payload.local);
            }
            let what = change(dealt, old, &mut merge.record)?;
            if !merge.take(what, (&page, index, old), Some(rowid), usable)? {
                break;
            }
            index += usize::from(old.is_some());
            dealt += 1;
        }
        self.settle_merge(trail, merge)?;
        Ok(dealt)
    }

    /// As [`Transaction::change_rows`] for entries of the index at `root`, or rows of a table
    /// without rowids, in the order of their keys. `key` puts the key of the entry of a number into
    /// the columns and gives their count; `None` behind the last. Entries on interior pages are
    /// left to single changes, too.
    ///
    /// # Errors
    /// As [`Transaction::index_insert`]; the errors of `change`, and then nothing changed.
    pub fn change_entries<'k, E: From<Error>>(
        &mut self,
        (root, order): (Pgno, &KeyOrder),
        mut key: impl FnMut(usize, &mut KeyColumns<'k>) -> Option<usize>,
        mut change: impl FnMut(usize, Option<&[u8]>, &mut Vec<u8>) -> Result<LeafChange, E>,
    ) -> Result<usize, E> {
        // The key of this number and the one before, in turn.
        let mut keys: [KeyColumns<'k>; 2] = [[ValueRef::Null; KEY_MAX]; 2];
        let Some(width) = key(0, &mut keys[0]) else { return Ok(0) };
        if self.utf16().is_some() {
            return Ok(0);
        }
        let mut trail = Trail::new();
        let found = self.find_entry((root, order), &keys[0][..width], &mut trail)?;
        let Step { pgno: leaf, mut index } = trail[trail.len() - 1];
        if !self.btree_page(leaf)?.kind().is_leaf() {
            return Ok(0);
        }
        let mut merge = self.merge(&trail)?;
        let page = self.btree_page(leaf)?;
        let is_last = self.is_rightmost(&trail)?;
        let (count, usable) = (page.cell_count(), self.usable());
        let mut dealt = 0;
        let mut is_found = found;
        loop {
            if dealt > 0 {
                if merge.is_full(usable) || key(dealt, &mut keys[dealt & 1]) != Some(width) {
                    break;
                }
                let wanted = &keys[dealt & 1][..width];
                let mut side = Some(Ordering::Greater);
                while index < count {
                    side = compare(&page, index, order, wanted)?;
                    if side != Some(Ordering::Less) {
                        break;
                    }
                    index += 1;
                }
                is_found = index < count && side == Some(Ordering::Equal);
                // A key out of order, one again, and one behind the leaf are sought anew.
                let before = &keys[(dealt + 1) & 1][..width];
                if side.is_none()
                    || (index == count && !is_last)
                    || (!is_found && !is_ascending(order, before, wanted))
                {
                    break;
                }
            }
            let mut old = None;
            if is_found {
                let payload = page.index(index).map_err(Error::from)?.payload;
                if payload.overflow.is_some() {
                    break;
                }
                old = Some(payload.local);
            }
            let what = change(dealt, old, &mut merge.record)?;
            if !merge.take(what, (&page, index, old), None, usable)? {
                break;
            }
            index += usize::from(old.is_some());
            dealt += 1;
        }
        self.settle_merge(trail, merge)?;
        Ok(dealt)
    }

    /// The leaf at the end of `trail`, about to be changed.
    fn merge(&mut self, trail: &Trail) -> Result<LeafMerge, Error> {
        if self.changes_mut()?.has_failed() {
            return Err(Error::Misuse("a transaction was used after a change in it failed"));
        }
        self.check_before_change(trail[trail.len() - 1].pgno)?;
        Ok(LeafMerge::default())
    }

    /// Writes the merged cells; one change alone is made in place.
    fn settle_merge(&mut self, trail: Trail, merge: LeafMerge) -> Result<(), Error> {
        let leaf = trail[trail.len() - 1].pgno;
        if let Some(first) = merge.first {
            return self.change(|txn| txn.make_single(trail, first));
        }
        let Some(content) = merge.into_content() else { return Ok(()) };
        let room = self.usable() - header_start(leaf) - content.kind.header_size();
        let spread = if content.size() > room { Spread::Left } else { Spread::Even };
        self.change(|txn| {
            if content.len() == 0 && content.kind == PageKind::TableLeaf && trail.len() > 1 {
                return txn.drop_leaf(trail);
            }
            txn.settle(trail, content, spread)
        })
    }

    /// Makes the only change of the leaf at the end of `trail`.
    fn make_single(&mut self, trail: Trail, change: Single) -> Result<(), Error> {
        let leaf = trail[trail.len() - 1].pgno;
        let Single { index, is_old, cell, head } = change;
        let Some(cell) = cell else {
            self.edit_btree(leaf)?.remove(index)?;
            return self.settle_if_sparse(trail);
        };
        if is_old {
            if self.edit_leaf(leaf, |edit, _| edit.overwrite(index, &cell[head..]))? {
                return Ok(());
            }
            self.edit_btree(leaf)?.remove(index)?;
        }
        self.put_cell(trail, index, &cell)
    }

    /// Removes the leaf at the end of `trail`, none of whose rows is left, from its table.
    fn drop_leaf(&mut self, mut trail: Trail) -> Result<(), Error> {
        let leaf = trail[trail.len() - 1].pgno;
        let above = trail[trail.len() - 2];
        let count = self.btree_page(above.pgno)?.cell_count();
        self.check_distinct(&[leaf], &trail)?;
        if count == 0 {
            // An only child: the root above takes it, or neighbours of the page above.
            let kind = self.btree_page(leaf)?.kind();
            return self.settle(trail, Content::new(kind), Spread::Even);
        }
        let mut edit = self.edit_btree(above.pgno)?;
        if above.index == count {
            let left = edit.page().child(count - 1)?;
            edit.set_child(count, left)?;
            edit.remove(count - 1)?;
        } else {
            edit.remove(above.index)?;
        }
        self.release_page(leaf)?;
        trail.pop();
        let page = self.btree_page(above.pgno)?;
        if page.cell_count() == 0 && trail.len() == 1 {
            let content = Content::of(&page)?;
            return self.settle(trail, content, Spread::Even);
        }
        self.settle_if_sparse(trail)
    }
}

/// The order of the key of an entry and another; `None` for an entry with overflow pages.
fn compare(
    page: &Page<'_>,
    index: usize,
    order: &KeyOrder,
    key: &[ValueRef<'_>],
) -> Result<Option<Ordering>, Error> {
    let payload = page.index(index)?.payload;
    match payload.overflow {
        None => Ok(Some(order.compare(payload.local, key)?)),
        Some(_) => Ok(None),
    }
}

/// True where a key comes behind another.
fn is_ascending(order: &KeyOrder, before: &[ValueRef<'_>], behind: &[ValueRef<'_>]) -> bool {
    for (place, (&before, &behind)) in before.iter().zip(behind).enumerate() {
        match order.compare_column(place, before, behind) {
            Ordering::Equal => {}
            side => return side == Ordering::Less,
        }
    }
    false
}

/// A change of one cell of a leaf.
struct Single {
    index: usize,
    /// True where the cell is there.
    is_old: bool,
    /// The new cell, and how many bytes come before its record; `None` to remove the old one.
    cell: Option<Vec<u8>>,
    head: usize,
}

/// The changes of a leaf, merged into its cells from the first to the last.
#[derive(Default)]
struct LeafMerge {
    /// The first change, until there is a second.
    first: Option<Single>,
    merged: Option<Merged>,
    record: Vec<u8>,
}

struct Merged {
    /// The page's cells as they were, and the bytes of all cells.
    content: Content,
    /// The cells so far; `taken` of the old ones are among them or gone.
    cells: Vec<CellExtent>,
    taken: usize,
    /// Bytes of new cells.
    added: usize,
}

impl LeafMerge {
    /// True where more cells would make too many pages.
    fn is_full(&self, usable: usize) -> bool {
        self.merged.as_ref().is_some_and(|it| it.added > usable * MERGED_PAGES_MAX)
    }

    /// Takes over a change at cell `index` of a page, where `old` is; false where it is left to the
    /// caller.
    fn take(
        &mut self,
        what: LeafChange,
        (page, index, old): (&Page<'_>, usize, Option<&[u8]>),
        rowid: Option<i64>,
        usable: usize,
    ) -> Result<bool, Error> {
        let is_old = old.is_some();
        let put = match (what, is_old) {
            (LeafChange::Stop, _) => return Ok(false),
            (LeafChange::Keep, _) | (LeafChange::Remove, false) => return Ok(true),
            (LeafChange::Remove, true) => None,
            (LeafChange::Put, _) => {
                if local_len(page.kind(), usable, self.record.len()) != self.record.len() {
                    return Ok(false);
                }
                Some(LeafHead::new(self.record.len(), rowid))
            }
        };
        if self.first.is_none() && self.merged.is_none() {
            let cell = put.as_ref().map(|head| [head.bytes(), &self.record].concat());
            let head = put.as_ref().map_or(0, |head| head.bytes().len());
            self.first = Some(Single { index, is_old, cell, head });
            return Ok(true);
        }
        let merged = match &mut self.merged {
            Some(merged) => merged,
            None => self.merged.insert(Merged::of(page)?),
        };
        if let Some(Single { index, is_old, cell, head }) = self.first.take() {
            let parts = cell.as_ref().map(|cell| cell.split_at(head));
            merged.take(index, is_old, parts);
        }
        merged.take(index, is_old, put.as_ref().map(|head| (head.bytes(), &*self.record)));
        Ok(true)
    }

    /// The merged cells; `None` where nothing changed.
    fn into_content(self) -> Option<Content> {
        let mut merged = self.merged?;
        let count = merged.content.len();
        merged.skip_to(count, count);
        merged.content.set_cells(merged.cells);
        Some(merged.content)
    }
}

impl Merged {
    fn of(page: &Page<'_>) -> Result<Merged, Error> {
        let content = Content::of(page)?;
        let cells = Vec::with_capacity(content.len() + 8);
        Ok(Merged { content, cells, taken: 0, added: 0 })
    }

    /// Removes the old cell `index`, if there is one, and puts the parts of a new one there.
    fn take(&mut self, index: usize, is_old: bool, cell: Option<(&[u8], &[u8])>) {
        self.skip_to(index, index + usize::from(is_old));
        if let Some((head, record)) = cell {
            let cell = self.content.keep_bytes(head, record);
            self.added += cell.size as usize;
            self.cells.push(cell);
        }
    }

    /// Takes the old cells before `index`, and goes on behind `end`.
    fn skip_to(&mut self, index: usize, end: usize) {
        self.cells.extend_from_slice(self.content.cells(self.taken..index));
        self.taken = end;
    }
}
