//! The ends of trees, the place of rows and entries arriving in order; and rows stored in a table
//! and its indexes as a whole.
//!
//! A transaction remembers the rightmost leaf of each tree it appended to (`Tail`): a row behind
//! all others is written there without a descent. A full leaf stays full, and the row begins a new
//! one.

use std::cmp::Ordering;

use shoal_format::cell::LeafHead;
use shoal_format::overflow::local_len;
use shoal_format::{
    CellExtent, Corrupt, KeyOrder, PageEdit, PageKind, Pgno, TableInteriorCell, ValueRef,
};

use super::Content;
use super::balance::NO_CELLS;
use super::index::with_columns;
use super::trail::{Step, Trail};
use crate::changes::Tail;
use crate::{Error, SecureDelete, Transaction};

/// An entry to be put into an index.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'e> {
    /// The root of the index.
    pub root: Pgno,
    /// The entry's record.
    pub record: &'e [u8],
    /// The order of the index.
    pub order: &'e KeyOrder,
    /// Number of leading columns shared with no other entry, where others are left alone; 0 for
    /// none.
    pub unique: usize,
}

/// The outcome of putting a row in its place at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    Done,
    /// Something is in its place already; nothing changed.
    Taken,
    /// Pages have to be split, or more than pages looked at; nothing changed.
    NoRoom,
}

/// Most trees a row can go into without a savepoint.
pub(super) const TREES_MAX: usize = 12;

impl Transaction {
    /// The largest rowid of the table at `root`, known without a look after rows were appended in
    /// this transaction.
    #[inline]
    pub fn last_rowid(&self, root: Pgno) -> Option<i64> {
        let tail = self.changes.as_deref()?.tail(root)?;
        Some(tail.rowid)
    }

    /// Puts a row into the table at `root` and its entries into indexes, in place of equal ones:
    /// everything or, after a failure, nothing.
    ///
    /// Cost: a descent of each tree, none where the row or entry comes behind all others again and
    /// again. A savepoint is taken only where a page has to be split.
    ///
    /// # Errors
    /// As [`Transaction::table_insert`] and [`Transaction::index_insert`].
    pub fn insert_row<'e>(
        &mut self,
        root: Pgno,
        rowid: i64,
        record: &[u8],
        entries: impl Iterator<Item = NewEntry<'e>> + Clone,
    ) -> Result<(), Error> {
        Self::check_record(record)?;
        let mut others = entries.clone();
        let Some(first) = others.next() else {
            if self.append_row(root, rowid, record)? {
                return Ok(());
            }
            return self.whole(|txn| txn.table_insert(root, rowid, record));
        };
        let count = 2 + others.size_hint().1.unwrap_or(TREES_MAX);
        if count <= TREES_MAX
            && self.insert_in_place(root, rowid, record, entries.clone())? == Placed::Done
        {
            return Ok(());
        }
        self.whole(|txn| {
            txn.table_insert(root, rowid, record)?;
            for entry in std::iter::once(first).chain(others) {
                txn.index_insert(entry.root, entry.record, entry.order)?;
            }
            Ok(())
        })
    }

    /// Does some work as a whole or not at all.
    pub(super) fn whole(
        &mut self,
        work: impl FnOnce(&mut Transaction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let savepoint = self.savepoint()?;
        let done = work(self);
        if done.is_err() {
            self.rollback_to(&savepoint)?;
        }
        self.release(savepoint)?;
        done
    }

    /// Puts the row and the entries where they belong if each has room there and replaces nothing.
    pub(super) fn insert_in_place<'e>(
        &mut self,
        root: Pgno,
        rowid: i64,
        record: &[u8],
        entries: impl Iterator<Item = NewEntry<'e>> + Clone,
    ) -> Result<Placed, Error> {
        if self.changes_mut()?.has_failed() || self.utf16().is_some() {
            // Whoever changes something refuses, or converts the texts.
            return Ok(Placed::Taken);
        }
        let mut places = [Step { pgno: Pgno::FIRST, index: 0 }; TREES_MAX];
        let mut has_room = true;
        let records = std::iter::once((root, Some(rowid), record, None))
            .chain(entries.map(|it| (it.root, None, it.record, Some((it.order, it.unique)))));
        for (number, (root, rowid, record, order)) in records.clone().enumerate() {
            let kind = if order.is_some() { PageKind::IndexLeaf } else { PageKind::TableLeaf };
            has_room &= local_len(kind, self.usable(), record.len()) == record.len();
            let Some(place) = self.place_of(root, rowid, record, order)? else {
                return Ok(Placed::Taken);
            };
            // Two trees share no page, unless the file is damaged.
            has_room &= !places[..number].iter().any(|known| known.pgno == place.pgno);
            let size = LeafHead::new(record.len(), rowid).bytes().len() + record.len();
            has_room = has_room
                && self.edit_leaf(place.pgno, |edit, scratch| edit.reserve(size, scratch))?;
            places[number] = place;
        }
        if !has_room {
            return Ok(Placed::NoRoom);
        }
        self.change(|txn| {
            for ((root, rowid, record, _), place) in records.zip(places) {
                let head = LeafHead::new(record.len(), rowid);
                let fits = txn.edit_leaf(place.pgno, |edit, scratch| {
                    edit.insert_parts(place.index, head.bytes(), record, scratch)
                })?;
                assert!(fits, "room that was found for a cell stays until the cell is there");
                if let Some(rowid) = rowid.filter(|rowid| txn.last_rowid(root) < Some(*rowid)) {
                    txn.changes_mut()?.set_tail_rowid(root, rowid);
                }
            }
            Ok(Placed::Done)
        })
    }

    /// Edits a leaf without moving cells to other pages: the known ends of trees stay known.
    pub(super) fn edit_leaf<T>(
        &mut self,
        leaf: Pgno,
        work: impl FnOnce(&mut PageEdit<'_>, &mut Vec<u8>) -> Result<T, Corrupt>,
    ) -> Result<T, Error> {
        let (usable, wipes) = (self.usable(), self.secure_delete() != SecureDelete::Off);
        let changes = self.changes_mut()?;
        if let Some((bytes, scratch)) = changes.within_change(leaf) {
            let mut edit = PageEdit::new(bytes, leaf, usable)?.wiping(wipes);
            return Ok(work(&mut edit, scratch)?);
        }
        let mut scratch = std::mem::take(&mut changes.scratch);
        let done = self.edit_btree_in_place(leaf).map(|mut edit| work(&mut edit, &mut scratch));
        self.changes_mut()?.scratch = scratch;
        Ok(done??)
    }

    /// Where a row or an entry belongs; `None` where there is an equal one, or one that shares the
    /// columns that no two may. An index has an order, and the number of such columns.
    fn place_of(
        &mut self,
        root: Pgno,
        rowid: Option<i64>,
        record: &[u8],
        order: Option<(&KeyOrder, usize)>,
    ) -> Result<Option<Step>, Error> {
        let tail = self.changes_mut()?.tail(root);
        let (trail, found) = match (rowid, order) {
            (Some(rowid), _) if tail.is_some_and(|tail| rowid > tail.rowid) => (None, false),
            (Some(rowid), _) => {
                let (trail, _, found) = self.find_row(root, rowid)?;
                (Some(trail), found)
            }
            (None, Some((order, unique))) => with_columns(record, |key| {
                let shared = key.get(..unique).filter(|shared| !shared.is_empty());
                if self.is_behind_tail(root, shared.unwrap_or(key), order)? == Some(true) {
                    return Ok((None, false));
                }
                let mut trail = Trail::new();
                let mut found = self.find_entry((root, order), key, &mut trail)?;
                if let Some(shared) = shared {
                    found = found || self.is_beside(&trail, shared, order)?;
                }
                Ok::<_, Error>((Some(trail), found))
            })??,
            (None, None) => return Ok(None),
        };
        let Some(trail) = trail else {
            let Some(Tail { leaf, .. }) = tail else { return Ok(None) };
            let index = self.btree_page(leaf)?.cell_count();
            return Ok(Some(Step { pgno: leaf, index }));
        };
        let Some(&place) = trail.last().filter(|_| !found) else { return Ok(None) };
        if place.index > 0 && place.index == self.btree_page(place.pgno)?.cell_count() {
            self.note_tail(&trail)?;
        }
        Ok(Some(place))
    }

    /// Whether a key comes behind all others of its index; `None` where its end is not known.
    pub(super) fn is_behind_tail(
        &self,
        root: Pgno,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
    ) -> Result<Option<bool>, Error> {
        let tail = self.changes.as_deref().and_then(|changes| changes.tail(root));
        // Keys in UTF-8 are not compared with pages in UTF-16 here.
        let Some(tail) = tail.filter(|_| self.utf16().is_none()) else { return Ok(None) };
        let page = self.btree_page(tail.leaf)?;
        let Some(last) = page.cell_count().checked_sub(1) else { return Ok(None) };
        let payload = page.index(last)?.payload;
        if payload.overflow.is_some() {
            return Ok(None);
        }
        Ok(Some(order.compare(payload.local, key)? == Ordering::Less))
    }

    /// Writes a row behind the last one of its table, where the end is known and has room; false
    /// when not.
    #[inline]
    pub(super) fn append_row(
        &mut self,
        root: Pgno,
        rowid: i64,
        record: &[u8],
    ) -> Result<bool, Error> {
        match self.last_rowid(root) {
            Some(last) if rowid > last => {}
            _ => return Ok(false),
        }
        let is_written = self.push_at_tail(root, Some(rowid), record)?;
        if is_written {
            self.changes_mut()?.set_tail_rowid(root, rowid);
        }
        Ok(is_written)
    }

    /// Writes a row or an entry behind the last one of its tree, where the end is known and has
    /// room; false when not.
    #[inline]
    pub(super) fn push_at_tail(
        &mut self,
        root: Pgno,
        rowid: Option<i64>,
        record: &[u8],
    ) -> Result<bool, Error> {
        let usable = self.usable();
        if self.utf16().is_some() {
            return Ok(false);
        }
        let Some(changes) = self.changes.as_deref_mut() else { return Ok(false) };
        let Some(Tail { leaf, .. }) = changes.tail(root) else { return Ok(false) };
        let kind = if rowid.is_some() { PageKind::TableLeaf } else { PageKind::IndexLeaf };
        if local_len(kind, usable, record.len()) != record.len() {
            return Ok(false);
        }
        let Some(bytes) = changes.get_mut(leaf) else { return Ok(false) };
        let mut edit = PageEdit::new(bytes, leaf, usable)?;
        if edit.kind() != kind {
            return Ok(false);
        }
        Ok(edit.push_parts(LeafHead::new(record.len(), rowid).bytes(), record)?)
    }

    /// Notes the leaf at the end of `trail` as the end of its tree, if no leaf is further right.
    pub(super) fn note_tail(&mut self, trail: &[Step]) -> Result<(), Error> {
        let (Some(first), Some(last)) = (trail.first(), trail.last()) else { return Ok(()) };
        let page = self.btree_page(last.pgno)?;
        if !page.kind().is_leaf() || !self.is_rightmost(trail)? {
            return Ok(());
        }
        let rowid = match page.cell_count().checked_sub(1) {
            Some(last) if page.kind().is_table() => page.rowid(last)?,
            Some(_) => 0,
            None => return Ok(()),
        };
        self.changes_mut()?.set_tail(Tail { root: first.pgno, leaf: last.pgno, rowid });
        Ok(())
    }

    /// Puts `cell` behind all others, on a new page right of the last page of `trail`. The last
    /// page is full and stays full, and is the rightmost of its level. A leaf of a table has one
    /// cell at least; other pages have two, and the last one goes up as divider.
    pub(super) fn append_page(&mut self, mut trail: Trail, cell: &[u8]) -> Result<(), Error> {
        if trail.len() == 1 {
            self.deepen(&mut trail)?;
        }
        let (root, full) = (trail[0].pgno, trail[trail.len() - 1].pgno);
        let new = self.allocate()?;
        self.check_distinct(&[full, new], &trail)?;
        trail.pop();
        let view = self.btree_page(full)?;
        let (kind, last) = (view.kind(), view.cell_count() - 1);
        let mut divider = Vec::with_capacity(16);
        divider.extend_from_slice(&full.get().to_be_bytes());
        let mut right_child = None;
        match kind {
            PageKind::TableLeaf => {
                let mut bytes = [0; 13];
                let size = TableInteriorCell::write(full, view.rowid(last)?, &mut bytes);
                divider.clear();
                divider.extend_from_slice(&bytes[..size]);
            }
            PageKind::IndexLeaf => {
                divider.extend_from_slice(view.cell(last)?);
                self.edit_btree(full)?.remove(last)?;
            }
            PageKind::TableInterior | PageKind::IndexInterior => {
                divider.extend_from_slice(&view.cell(last)?[4..]);
                let (left, right) = (view.child(last)?, view.child(last + 1)?);
                right_child = Some(right);
                let mut edit = self.edit_btree(full)?;
                edit.set_child(last + 1, left)?;
                edit.remove(last)?;
            }
        }
        let only = CellExtent { offset: 0, size: cell.len() as u32 };
        self.rewrite_page(new, kind, right_child, (cell, &[only]))?;
        let parent = *trail.last().expect("a page that is no root has a parent");
        self.edit_btree(parent.pgno)?.set_child(parent.index, new)?;
        self.put_cell(trail, parent.index, &divider)?;
        if kind.is_leaf() {
            let rowid = match kind {
                PageKind::TableLeaf => self.btree_page(new)?.rowid(0)?,
                _ => 0,
            };
            self.changes_mut()?.set_tail(Tail { root, leaf: new, rowid });
        }
        Ok(())
    }

    /// Moves the content of a root down to a new page, its only child.
    fn deepen(&mut self, trail: &mut Trail) -> Result<(), Error> {
        let root = trail[0];
        let content = Content::of(&self.btree_page(root.pgno)?)?;
        let child = self.allocate()?;
        self.check_distinct(&[root.pgno, child], trail)?;
        let cells = content.part(0..content.len());
        self.rewrite_page(child, content.kind, content.right_child, cells)?;
        self.rewrite_page(root.pgno, content.kind.interior(), Some(child), NO_CELLS)?;
        trail[0].index = 0;
        trail.push(Step { pgno: child, index: root.index });
        Ok(())
    }
}
