//! The changes of a transaction so far, and the ways to take part of them back.
//!
//! Changed pages live in memory until the commit. A savepoint costs nothing by itself; the first
//! change of a page after a savepoint keeps the page's older version, shared, not copied twice. So
//! going back costs as much as was changed, whatever the size of the database.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_format::{Corrupt, FileHeader, PageEdit, Pgno};

use crate::header::FileState;
use crate::page::PageRef;
use crate::{Error, SecureDelete, Transaction};

/// A moment of a transaction to go back to; see [`Transaction::savepoint`].
#[derive(Debug)]
#[must_use = "a savepoint is released or gone back to"]
pub struct Savepoint {
    id: u64,
    undo_len: usize,
    file: FileState,
}

/// The changes of a transaction.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The file before the first of them.
    pub(crate) original: FileState,
    dirty: FxHashMap<Pgno, Dirty>,
    /// Older versions of changed pages, oldest first; `None` for pages not changed before.
    undo: Vec<(Pgno, Option<Dirty>)>,
    /// Ids of the open savepoints, oldest first.
    savepoints: Vec<u64>,
    /// Grows with each savepoint and each return to one; a changed page has its own.
    epoch: u64,
    /// A change failed halfway; only going back helps.
    failed: bool,
    /// A buffer for packing pages.
    pub(crate) scratch: Vec<u8>,
    /// A buffer for cells.
    pub(crate) cell: Vec<u8>,
    /// The pages are another file's, with its pointer map.
    pub(crate) is_copy: bool,
    /// A certain page was taken off the freelist: its trunks changed anywhere.
    pub(crate) took_free_page: bool,
    /// The known ends of trees, the latest first.
    tails: Vec<Tail>,
}

/// The rightmost leaf of a tree, the place of rows and entries arriving in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) root: Pgno,
    pub(crate) leaf: Pgno,
    /// The largest rowid; 0 in an index.
    pub(crate) rowid: i64,
}

/// Trees whose ends are known at once.
const TAILS_MAX: usize = 8;

/// The longest page, of zeroes.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

#[derive(Clone, Debug)]
struct Dirty {
    bytes: Arc<[u8]>,
    epoch: u64,
    /// A page of an overflow chain, whose bytes do not tell.
    is_overflow: bool,
}

impl Changes {
    pub(crate) fn new(original: FileState) -> Changes {
        Changes {
            original,
            dirty: FxHashMap::default(),
            undo: Vec::new(),
            savepoints: Vec::new(),
            epoch: 0,
            failed: false,
            scratch: Vec::new(),
            cell: Vec::new(),
            is_copy: false,
            took_free_page: false,
            tails: Vec::new(),
        }
    }

    /// Returns the changed page `pgno`.
    #[inline]
    pub(crate) fn get(&self, pgno: Pgno) -> Option<&[u8]> {
        self.dirty.get(&pgno).map(|dirty| &*dirty.bytes)
    }

    /// Returns the changed pages by ascending number.
    pub(crate) fn pages(&self) -> Vec<PageRef> {
        let mut pages: Vec<PageRef> = self
            .dirty
            .iter()
            .map(|(&pgno, dirty)| PageRef { bytes: Arc::clone(&dirty.bytes), pgno })
            .collect();
        pages.sort_unstable_by_key(|page| page.pgno);
        pages
    }

    /// Makes these pages the only changes.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is a savepoint: older pages may be of another size.
    pub(crate) fn replace(&mut self, pages: Vec<PageRef>) -> Result<(), Error> {
        if !self.savepoints.is_empty() {
            return Err(Error::Misuse("a file was to be replaced within a savepoint"));
        }
        let epoch = self.epoch;
        self.is_copy = true;
        let dirty =
            |page: PageRef| (page.pgno, Dirty { bytes: page.bytes, epoch, is_overflow: false });
        self.dirty = pages.into_iter().map(dirty).collect();
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// The epoch in which the innermost open savepoint began; 0 without one. Versions made since
    /// are gone back to by nobody.
    #[inline]
    fn open_epoch(&self) -> u64 {
        self.savepoints.last().copied().unwrap_or(0)
    }

    /// Keeps the version of `pgno` before its next change, unless made since the innermost open
    /// savepoint began.
    fn keep(&mut self, pgno: Pgno) {
        if self.savepoints.is_empty() {
            return;
        }
        let open = self.open_epoch();
        match self.dirty.get_mut(&pgno) {
            Some(dirty) if dirty.epoch >= open => {}
            Some(dirty) => {
                self.undo.push((pgno, Some(dirty.clone())));
                dirty.epoch = self.epoch;
            }
            None => self.undo.push((pgno, None)),
        }
    }

    /// Drops versions kept since a released savepoint, from the number `first` on, without use to
    /// open savepoints: all versions without an open savepoint, else versions made after the
    /// innermost began. A statement with a savepoint for each row keeps one version of each page.
    fn drop_undo(&mut self, first: usize) {
        let Some(&open) = self.savepoints.last() else {
            self.undo.clear();
            return;
        };
        let mut kept = first;
        for at in first..self.undo.len() {
            // A version of a later epoch has an older one before, kept when that epoch began.
            let is_later = self.undo[at].1.as_ref().is_some_and(|dirty| dirty.epoch >= open);
            if !is_later {
                self.undo.swap(kept, at);
                kept += 1;
            }
        }
        self.undo.truncate(kept);
    }

    /// The end of the tree at `root`, if known.
    #[inline]
    pub(crate) fn tail(&self, root: Pgno) -> Option<Tail> {
        self.tails.iter().find(|tail| tail.root == root).copied()
    }

    /// Notes the end of a tree: `tail.leaf` is its rightmost leaf and was changed.
    pub(crate) fn set_tail(&mut self, tail: Tail) {
        self.tails.retain(|known| known.root != tail.root);
        self.tails.truncate(TAILS_MAX - 1);
        self.tails.insert(0, tail);
    }

    /// Notes a larger rowid at the end of a table.
    #[inline]
    pub(crate) fn set_tail_rowid(&mut self, root: Pgno, rowid: i64) {
        if let Some(tail) = self.tails.iter_mut().find(|tail| tail.root == root) {
            tail.rowid = rowid;
        }
    }

    /// A changing leaf may be the end of its tree no more.
    #[inline]
    fn forget_tail(&mut self, leaf: Pgno) {
        if self.tails.iter().any(|tail| tail.leaf == leaf) {
            self.tails.retain(|tail| tail.leaf != leaf);
        }
    }

    /// A changed page free to change further: no savepoint keeps its present bytes. `None` for any
    /// other page, and after a failed change. The known ends of trees stay known.
    #[inline]
    pub(crate) fn get_mut(&mut self, pgno: Pgno) -> Option<&mut [u8]> {
        if self.failed { None } else { Some(self.within_change(pgno)?.0) }
    }

    /// As [`Changes::get_mut`] within a change, with the buffer for packing.
    #[inline]
    pub(crate) fn within_change(&mut self, pgno: Pgno) -> Option<(&mut [u8], &mut Vec<u8>)> {
        let open = self.open_epoch();
        let dirty = self.dirty.get_mut(&pgno)?;
        if dirty.epoch < open {
            return None;
        }
        Some((Arc::get_mut(&mut dirty.bytes)?, &mut self.scratch))
    }

    /// Makes `bytes` the content of page `pgno`.
    fn put(&mut self, pgno: Pgno, bytes: Arc<[u8]>) {
        self.forget_tail(pgno);
        self.keep(pgno);
        self.dirty.insert(pgno, Dirty { bytes, epoch: self.epoch, is_overflow: false });
    }

    /// Notes whether the changed page `pgno` is one of an overflow chain.
    pub(crate) fn set_overflow(&mut self, pgno: Pgno, is_overflow: bool) {
        if let Some(dirty) = self.dirty.get_mut(&pgno) {
            dirty.is_overflow = is_overflow;
        }
    }

    /// Forgets the ends of all trees.
    pub(crate) fn forget_tails(&mut self) {
        self.tails.clear();
    }

    /// Drops the changes of page `pgno`, whose content no longer matters.
    pub(crate) fn forget(&mut self, pgno: Pgno) {
        self.forget_tail(pgno);
        self.keep(pgno);
        self.dirty.remove(&pgno);
    }
}

impl Transaction {
    /// Marks a moment to return to with [`Transaction::rollback_to`]. Savepoints nest.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write.
    pub fn savepoint(&mut self) -> Result<Savepoint, Error> {
        let file = self.file;
        let changes = self.changes_mut()?;
        changes.epoch += 1;
        changes.savepoints.push(changes.epoch);
        Ok(Savepoint { id: changes.epoch, undo_len: changes.undo.len(), file })
    }

    /// Takes back every change since `savepoint` and drops later savepoints; `savepoint`
    /// stays open.
    ///
    /// Cost: proportional to the pages changed since.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the savepoint is not of this transaction or gone.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        let changes = self.changes_mut()?;
        let place = changes.place_of(savepoint)?;
        changes.savepoints.truncate(place + 1);
        for (pgno, old) in changes.undo.drain(savepoint.undo_len..).rev() {
            match old {
                Some(dirty) => changes.dirty.insert(pgno, dirty),
                None => changes.dirty.remove(&pgno),
            };
        }
        changes.epoch += 1;
        changes.failed = false;
        changes.tails.clear();
        self.file = savepoint.file;
        Ok(())
    }

    /// Forgets `savepoint` and later ones, and keeps the changes.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let changes = self.changes_mut()?;
        let place = changes.place_of(&savepoint)?;
        changes.savepoints.truncate(place);
        changes.drop_undo(savepoint.undo_len);
        Ok(())
    }

    /// True for a page changed in this transaction.
    pub(crate) fn is_changed(&self, pgno: Pgno) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.dirty.contains_key(&pgno))
    }

    /// True for a page of an overflow chain changed in this transaction.
    pub(crate) fn is_overflow(&self, pgno: Pgno) -> bool {
        let dirty = self.changes.as_ref().and_then(|changes| changes.dirty.get(&pgno));
        dirty.is_some_and(|dirty| dirty.is_overflow)
    }

    /// The numbers of all changed pages, in no order.
    pub(crate) fn changed_pages(&self) -> Result<Vec<Pgno>, Error> {
        let changes = self.changes.as_ref();
        let changes = changes.ok_or(Error::Misuse("a transaction that may not write was to"))?;
        Ok(changes.dirty.keys().copied().collect())
    }

    #[inline]
    pub(crate) fn changes_mut(&mut self) -> Result<&mut Changes, Error> {
        let misuse = || Error::Misuse("a transaction that may not write was to");
        self.changes.as_deref_mut().ok_or_else(misuse)
    }

    /// Runs `work`, a change of the database. After a failure halfway the transaction refuses
    /// further changes until a rollback to a savepoint, or of the whole.
    #[inline]
    pub(crate) fn change<T>(
        &mut self,
        work: impl FnOnce(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.begin_change()?;
        let result = work(self)?;
        self.end_change()?;
        Ok(result)
    }

    /// Begins a change: until [`Transaction::end_change`], after a panic too, the transaction
    /// counts as failed.
    #[inline]
    pub(crate) fn begin_change(&mut self) -> Result<(), Error> {
        if self.changes_mut()?.failed {
            return Err(Error::Misuse("a transaction was used after a change in it failed"));
        }
        if self.file.page_count == 0 {
            self.add_first_page()?;
        }
        self.changes_mut()?.failed = true;
        Ok(())
    }

    /// Ends a change made as a whole.
    #[inline]
    pub(crate) fn end_change(&mut self) -> Result<(), Error> {
        self.changes_mut()?.failed = false;
        Ok(())
    }

    /// Adds page 1 to a new file.
    #[cold]
    fn add_first_page(&mut self) -> Result<(), Error> {
        self.file.page_count = 1;
        let first = self.file.first_page();
        self.changes_mut()?.put(Pgno::FIRST, first.bytes);
        self.add_own_pages()
    }

    /// Adds the codec's own pages to a new file.
    fn add_own_pages(&mut self) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let Some(codec) = store.codec() else { return Ok(()) };
        store.check_reserved(&self.file.header)?;
        for pgno in (2..=codec.own_pages() + 1).filter_map(Pgno::new) {
            let content = codec
                .own_page(pgno, self.file.header.page_size)
                .map_err(|refused| store.refused(pgno, refused))?;
            self.file.page_count = pgno.get();
            self.changes_mut()?.put(pgno, content.into());
        }
        Ok(())
    }

    /// Returns page `pgno` to be changed.
    pub(crate) fn edit(&mut self, pgno: Pgno) -> Result<&mut [u8], Error> {
        self.changes_mut()?.forget_tail(pgno);
        self.edit_in_place(pgno)
    }

    /// As [`Transaction::edit`] for a change that leaves the end of a tree where it is.
    fn edit_in_place(&mut self, pgno: Pgno) -> Result<&mut [u8], Error> {
        if !self.changes_mut()?.dirty.contains_key(&pgno) {
            let bytes = self.page(pgno)?.into();
            self.changes_mut()?.put(pgno, bytes);
        }
        let changes = self.changes_mut()?;
        changes.keep(pgno);
        let dirty = changes.dirty.get_mut(&pgno).expect("it was put there above");
        // Copies the page when a savepoint still has the old version.
        Ok(Arc::make_mut(&mut dirty.bytes))
    }

    /// Returns b-tree page `pgno` for changing. A page not changed before is checked as a whole,
    /// unless the process checked or wrote it already.
    pub(crate) fn edit_btree(&mut self, pgno: Pgno) -> Result<PageEdit<'_>, Error> {
        self.changes_mut()?.forget_tail(pgno);
        self.edit_btree_in_place(pgno)
    }

    /// As [`Transaction::edit_btree`] for a change that leaves the end of a tree where it is.
    pub(crate) fn edit_btree_in_place(&mut self, pgno: Pgno) -> Result<PageEdit<'_>, Error> {
        let usable = self.usable();
        self.check_before_change(pgno)?;
        let wipes = self.secure_delete() != SecureDelete::Off;
        Ok(PageEdit::new(self.edit_in_place(pgno)?, pgno, usable)?.wiping(wipes))
    }

    /// Checks b-tree page `pgno` as a whole, unless this transaction changed it or the process
    /// checked or wrote it already.
    pub(crate) fn check_before_change(&mut self, pgno: Pgno) -> Result<(), Error> {
        if !self.changes_mut()?.dirty.contains_key(&pgno) && !self.snapshot.is_checked(pgno) {
            self.btree_page(pgno)?.check()?;
            self.snapshot.note_checked(pgno);
        }
        Ok(())
    }

    /// Replaces the content of page `pgno` by zeroes and lets `fill` write the new content. Unless
    /// the page is `fresh`, its reserved bytes stay.
    pub(crate) fn rewrite(
        &mut self,
        pgno: Pgno,
        fresh: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Corrupt>,
    ) -> Result<(), Error> {
        let size = self.file.header.page_size as usize;
        let mut bytes: Arc<[u8]> = Arc::from(&ZEROES[..size]);
        let target = Arc::get_mut(&mut bytes).expect("nobody else has seen it");
        if !fresh && self.file.header.reserved > 0 {
            let usable = self.usable();
            target[usable..].copy_from_slice(&self.page(pgno)?[usable..]);
        }
        fill(target)?;
        self.changes_mut()?.put(pgno, bytes);
        Ok(())
    }

    /// Makes `content` the usable bytes of a page without content before; its reserved bytes become
    /// zeroes.
    pub(crate) fn put_fresh(&mut self, pgno: Pgno, content: &[u8]) -> Result<(), Error> {
        let size = self.file.header.page_size as usize;
        let bytes = match content.len() == size {
            true => Arc::from(content),
            false => {
                let rest = size.saturating_sub(content.len());
                content.iter().copied().chain(std::iter::repeat_n(0, rest)).collect()
            }
        };
        self.changes_mut()?.put(pgno, bytes);
        Ok(())
    }

    /// Writes the header into page 1 with the fields every commit updates: counters, version,
    /// page count.
    pub(crate) fn seal_header(&mut self) -> Result<(), Error> {
        let page_count = self.file.page_count;
        let header = &mut self.file.header;
        header.change_counter = header.change_counter.wrapping_add(1);
        header.version_valid_for = header.change_counter;
        header.writer_version = FileHeader::WRITER_VERSION;
        header.page_count = page_count;
        let header = *header;
        let bytes = self.edit(Pgno::FIRST)?;
        header.write(bytes.first_chunk_mut().expect("a page is 512 bytes at least"));
        Ok(())
    }
}

impl Changes {
    fn place_of(&self, savepoint: &Savepoint) -> Result<usize, Error> {
        self.savepoints
            .iter()
            .position(|&id| id == savepoint.id)
            .ok_or(Error::Misuse("a savepoint that is gone was used"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{BtreeKind, Mode, Store, Transaction};

    /// A savepoint for each row, within one for the statement, keeps a version of each page, not
    /// one for each row; both go back to where they began.
    #[test]
    fn released_savepoints_keep_one_version_of_a_page() {
        let store = Store::memory();
        let mut txn = store.begin(Mode::Write).unwrap();
        let root = txn.create_btree(BtreeKind::Table).unwrap();
        let row = |txn: &mut Transaction, rowid: i64| {
            // A record of one text of five bytes.
            txn.table_insert(root, rowid, b"\x02\x17abcde")
        };
        let outer = txn.savepoint().unwrap();
        for rowid in 0..2000 {
            let inner = txn.savepoint().unwrap();
            row(&mut txn, rowid).unwrap();
            if rowid % 3 == 0 {
                txn.rollback_to(&inner).unwrap();
            }
            txn.release(inner).unwrap();
        }
        let changes = txn.changes.as_ref().unwrap();
        assert!(changes.undo.len() <= 2 * changes.dirty.len(), "{}", changes.undo.len());
        txn.rollback_to(&outer).unwrap();
        assert!(!txn.table(root).unwrap().first().unwrap());
        txn.release(outer).unwrap();
        assert!(txn.changes.as_ref().unwrap().undo.is_empty());
    }
}
