//! Single rows with their index entries, put, changed and removed where nothing is in their way.
//!
//! Places are found, pages made ready and room made sure of first: what follows cannot fail
//! halfway. What needs more than that (pages split or joined, overflow pages) is done behind a
//! savepoint.

use std::cmp::Ordering;

use shoal_format::cell::{LeafHead, MIN_SIZE};
use shoal_format::overflow::local_len;
use shoal_format::page::Page;
use shoal_format::{
    Corrupt, KeyOrder, PageEdit, PageKind, Pgno, RecordSize, ValueRef, write_record,
};

use super::append::{NewEntry, Placed, TREES_MAX};
use super::index::with_columns;
use super::trail::{Step, Trail};
use crate::changes::Tail;
use crate::{Error, Transaction};

/// Where a row of a table is, as long as nothing changes.
#[derive(Debug)]
pub struct RowPlace {
    root: Pgno,
    rowid: i64,
    /// The leaf and the place there.
    step: Step,
    /// True for a table of one page.
    is_root: bool,
}

/// An entry of an index, and the entry before in its place.
#[derive(Clone, Copy, Debug)]
pub struct ChangedEntry<'e> {
    /// The root of the index.
    pub root: Pgno,
    /// The record of the old entry.
    pub before: &'e [u8],
    /// The record of the new entry.
    pub after: &'e [u8],
    /// The order of the index.
    pub order: &'e KeyOrder,
    /// As of [`NewEntry`].
    pub unique: usize,
}

/// A cell to be removed from a leaf, and where a new one goes once it is gone.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: Step,
    to: Option<Step>,
}

impl Transaction {
    /// Writes the row of `values` behind the last one of the table at `root`, straight onto its
    /// page; false where the end is not known, is not behind all others or has no room, and then
    /// nothing changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    #[inline]
    pub fn append_values(
        &mut self,
        root: Pgno,
        rowid: i64,
        values: &[ValueRef<'_>],
    ) -> Result<bool, Error> {
        let (usable, format) = (self.usable(), self.file.header.schema_format);
        if self.utf16().is_some() {
            return Ok(false);
        }
        let Some(changes) = self.changes.as_deref_mut() else { return Ok(false) };
        let Some(Tail { leaf, rowid: last, .. }) = changes.tail(root) else { return Ok(false) };
        let size = RecordSize::of(values, format);
        if rowid <= last || local_len(PageKind::TableLeaf, usable, size.total()) != size.total() {
            return Ok(false);
        }
        let Some(bytes) = changes.get_mut(leaf) else { return Ok(false) };
        let mut edit = PageEdit::new(bytes, leaf, usable)?;
        if edit.kind() != PageKind::TableLeaf {
            return Ok(false);
        }
        let head = LeafHead::new(size.total(), Some(rowid));
        let head = head.bytes();
        let Some(cell) = edit.push_cell(head.len() + size.total())? else { return Ok(false) };
        let (start, record) = cell.split_at_mut(head.len());
        start.copy_from_slice(head);
        write_record(values, format, size, record);
        changes.set_tail_rowid(root, rowid);
        Ok(true)
    }

    /// Puts a row and its entries into their trees; false where a row or an entry is in the way,
    /// and where only [`Transaction::insert_row`] can tell. Nothing changed then, or after a
    /// failure.
    ///
    /// # Errors
    /// As [`Transaction::insert_row`].
    pub fn insert_new_row<'e>(
        &mut self,
        root: Pgno,
        rowid: i64,
        record: &[u8],
        entries: impl Iterator<Item = NewEntry<'e>> + Clone,
    ) -> Result<bool, Error> {
        Self::check_record(record)?;
        if entries.clone().count() + 2 > TREES_MAX {
            return Ok(false);
        }
        match self.insert_in_place(root, rowid, record, entries.clone())? {
            Placed::Done => Ok(true),
            Placed::Taken => Ok(false),
            Placed::NoRoom => {
                self.whole(|txn| {
                    txn.table_insert(root, rowid, record)?;
                    entries.clone().try_for_each(|entry| {
                        txn.index_insert(entry.root, entry.record, entry.order)
                    })
                })?;
                Ok(true)
            }
        }
    }

    /// The place of a row, whose whole payload is put into `payload`; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; a page that cannot be read.
    pub fn row_place(
        &self,
        root: Pgno,
        rowid: i64,
        payload: &mut Vec<u8>,
    ) -> Result<Option<RowPlace>, Error> {
        let (trail, index, found) = self.find_row(root, rowid)?;
        if !found {
            return Ok(None);
        }
        let step = Step { index, ..trail[trail.len() - 1] };
        let leaf = self.btree_page(step.pgno)?;
        self.read_payload(leaf.table_leaf(index)?.payload, payload)?;
        Ok(Some(RowPlace { root, rowid, step, is_root: trail.len() == 1 }))
    }

    /// Replaces the row at a place and entries of it; false where an entry is in the way of a new
    /// one or is missing, and where only the single changes can tell. Nothing changed then, nor
    /// after a failure.
    ///
    /// # Errors
    /// As [`Transaction::table_insert`].
    pub fn update_row<'e>(
        &mut self,
        place: &RowPlace,
        record: &[u8],
        entries: impl Iterator<Item = ChangedEntry<'e>> + Clone,
    ) -> Result<bool, Error> {
        Self::check_record(record)?;
        if self.changes_mut()?.has_failed() || self.utf16().is_some() {
            return Ok(false);
        }
        let count = entries.clone().count();
        if count > TREES_MAX {
            return Ok(false);
        }
        let mut moves = [None; TREES_MAX];
        let mut is_simple = true;
        for (number, entry) in entries.clone().enumerate() {
            let Some(from) = self.leaving(entry.root, entry.before, entry.order)? else {
                return Ok(false);
            };
            let Some(to) = self.arriving(&entry, from)? else { return Ok(false) };
            match (from, to) {
                (Some(from), Some(to)) => {
                    moves[number] = Some(Move { from, to: Some(to) });
                    is_simple &= !moves[..number].iter().flatten().any(|known: &Move| {
                        let pages = [Some(known.from.pgno), known.to.map(|to| to.pgno)];
                        pages.contains(&Some(from.pgno)) || pages.contains(&Some(to.pgno))
                    });
                }
                _ => is_simple = false,
            }
        }
        let Step { pgno: leaf, index } = place.step;
        if is_simple && self.fits_in_place(leaf, place, record)? {
            self.edit_leaf(leaf, |_, _| Ok(()))?;
            let head = LeafHead::new(record.len(), Some(place.rowid));
            self.change(|txn| {
                for (entry, moved) in entries.zip(moves) {
                    txn.make_move(moved.expect("a simple change knows its places"), entry.after)?;
                }
                let fits = txn.edit_leaf(leaf, |edit, scratch| {
                    if edit.overwrite(index, record)? {
                        return Ok(true);
                    }
                    edit.remove(index)?;
                    edit.insert_parts(index, head.bytes(), record, scratch)
                })?;
                assert!(fits, "room that was found for a cell stays until the cell is there");
                Ok(())
            })?;
            return Ok(true);
        }
        self.whole(|txn| {
            for entry in entries.clone() {
                txn.index_delete(entry.root, entry.before, entry.order)?;
                txn.index_insert(entry.root, entry.after, entry.order)?;
            }
            txn.table_insert(place.root, place.rowid, record)
        })?;
        Ok(true)
    }

    /// Removes the row at a place and its entries; false where an entry is missing, and then
    /// nothing changed, nor after a failure.
    ///
    /// # Errors
    /// As [`Transaction::table_delete`].
    pub fn delete_row<'e>(
        &mut self,
        place: &RowPlace,
        entries: impl Iterator<Item = NewEntry<'e>> + Clone,
    ) -> Result<bool, Error> {
        if self.changes_mut()?.has_failed() || self.utf16().is_some() {
            return Ok(false);
        }
        if entries.clone().count() > TREES_MAX {
            return Ok(false);
        }
        let mut moves = [None; TREES_MAX];
        let mut is_simple = true;
        for (number, entry) in entries.clone().enumerate() {
            let Some(from) = self.leaving(entry.root, entry.record, entry.order)? else {
                return Ok(false);
            };
            moves[number] = from.map(|from| Move { from, to: None });
            is_simple &= from.is_some();
        }
        let step = place.step;
        let leaf = self.btree_page(step.pgno)?;
        let is_whole = leaf.table_leaf(step.index)?.payload.overflow.is_none();
        is_simple &= is_whole && self.stays_filled(&leaf, step.index, place.is_root)?;
        if is_simple {
            self.edit_leaf(step.pgno, |_, _| Ok(()))?;
            self.change(|txn| {
                for moved in moves.into_iter().flatten() {
                    txn.make_move(moved, &[])?;
                }
                Ok(txn.edit_btree(step.pgno)?.remove(step.index)?)
            })?;
            return Ok(true);
        }
        self.whole(|txn| {
            for entry in entries.clone() {
                txn.index_delete(entry.root, entry.record, entry.order)?;
            }
            txn.table_delete(place.root, place.rowid).map(drop)
        })?;
        Ok(true)
    }

    /// Finds an entry to be removed: `None` where there is none, and `Some(None)` where its removal
    /// changes more than its leaf. The leaf is made ready to be changed.
    fn leaving(
        &mut self,
        root: Pgno,
        record: &[u8],
        order: &KeyOrder,
    ) -> Result<Option<Option<Step>>, Error> {
        let mut trail = Trail::new();
        let found = with_columns(record, |key| self.find_entry((root, order), key, &mut trail))??;
        if !found {
            return Ok(None);
        }
        let step = trail[trail.len() - 1];
        let page = self.btree_page(step.pgno)?;
        if !page.kind().is_leaf()
            || page.index(step.index)?.payload.overflow.is_some()
            || !self.stays_filled(&page, step.index, trail.len() == 1)?
        {
            return Ok(Some(None));
        }
        self.edit_leaf(step.pgno, |_, _| Ok(()))?;
        Ok(Some(Some(step)))
    }

    /// Finds the place of an entry that comes once the one at `from` is gone: `None` where another
    /// is in its way, and `Some(None)` where its leaf has no room.
    fn arriving(
        &mut self,
        entry: &ChangedEntry<'_>,
        from: Option<Step>,
    ) -> Result<Option<Option<Step>>, Error> {
        let mut trail = Trail::new();
        let is_taken = with_columns(entry.after, |key| {
            let found = self.find_entry((entry.root, entry.order), key, &mut trail)?;
            let shared = key.get(..entry.unique).filter(|shared| !shared.is_empty());
            match shared {
                Some(shared) if !found => self.is_beside(&trail, shared, entry.order),
                _ => Ok::<_, Error>(found),
            }
        })??;
        if is_taken {
            return Ok(None);
        }
        let Some(from) = from else { return Ok(Some(None)) };
        let mut step = trail[trail.len() - 1];
        let record = entry.after;
        if local_len(PageKind::IndexLeaf, self.usable(), record.len()) != record.len() {
            return Ok(Some(None));
        }
        let size = LeafHead::new(record.len(), None).bytes().len() + record.len();
        if !self.edit_leaf(step.pgno, |edit, scratch| edit.reserve(size, scratch))? {
            return Ok(Some(None));
        }
        if step.pgno == from.pgno && step.index > from.index {
            step.index -= 1;
        }
        Ok(Some(Some(step)))
    }

    /// True where a row's leaf has room for another record of it.
    fn fits_in_place(&self, leaf: Pgno, place: &RowPlace, record: &[u8]) -> Result<bool, Error> {
        let page = self.btree_page(leaf)?;
        let known = page.table_leaf(place.step.index)?;
        if known.payload.overflow.is_some() {
            return Ok(false);
        }
        if known.payload.len == record.len() {
            return Ok(true);
        }
        let head = LeafHead::new(record.len(), Some(place.rowid));
        let free = page.free_bytes()? + known.size.max(MIN_SIZE);
        let size = (head.bytes().len() + record.len()).max(MIN_SIZE);
        Ok(local_len(PageKind::TableLeaf, self.usable(), record.len()) == record.len()
            && free >= size)
    }

    /// Removes one entry, and puts the record of another in its place.
    fn make_move(&mut self, moved: Move, record: &[u8]) -> Result<(), Error> {
        self.edit_leaf(moved.from.pgno, |edit, _| edit.remove(moved.from.index))?;
        let Some(to) = moved.to else { return Ok(()) };
        let head = LeafHead::new(record.len(), None);
        let fits = self.edit_leaf(to.pgno, |edit, scratch| {
            edit.insert_parts(to.index, head.bytes(), record, scratch)
        })?;
        assert!(fits, "room that was found for a cell stays until the cell is there");
        Ok(())
    }

    /// True where a page without cell `index` is joined with no other: it keeps a cell, and a third
    /// of its bytes is used.
    fn stays_filled(&self, page: &Page<'_>, index: usize, is_root: bool) -> Result<bool, Corrupt> {
        if is_root {
            return Ok(true);
        }
        // Many cells take a third of the page at their smallest: no walk of freeblocks.
        if (page.cell_count() - 1) * (MIN_SIZE + 2) * 3 >= self.usable() {
            return Ok(true);
        }
        let free = page.free_bytes()? + page.cell_extent(index)?.1 + 2;
        Ok(page.cell_count() > 1 && free * 3 <= self.usable() * 2)
    }

    /// True where the entry before or behind a place shares the columns of `key`.
    pub(super) fn is_beside(
        &self,
        trail: &[Step],
        key: &[ValueRef<'_>],
        order: &KeyOrder,
    ) -> Result<bool, Error> {
        let (mut before, mut behind) = (None, None);
        for step in trail.iter().rev() {
            let page = self.btree_page(step.pgno)?;
            if before.is_none() && step.index > 0 {
                before = Some((page, step.index - 1));
            }
            if behind.is_none() && step.index < page.cell_count() {
                behind = Some((page, step.index));
            }
            if before.is_some() && behind.is_some() {
                break;
            }
        }
        for (page, index) in [before, behind].into_iter().flatten() {
            let payload = page.index(index)?.payload;
            let side = match payload.overflow {
                None => order.compare(payload.local, key)?,
                Some(_) => {
                    let mut whole = Vec::new();
                    self.read_payload(payload, &mut whole)?;
                    order.compare(&whole, key)?
                }
            };
            if side == Ordering::Equal {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
