//! Auto-vacuum: the map from pages to their parents, and pages moved to shorten the file.
//!
//! An entry says what refers to a page: nothing (a root, a free page), the b-tree page of a cell or
//! child pointer, or the page before in an overflow chain. An entry changes only with the page that
//! refers, so a transaction's entries follow from its changed pages. They are brought up to date
//! when they are needed: before pages move, and at the commit.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_format::freelist::Trunk;
use shoal_format::overflow::OverflowPage;
use shoal_format::{Corrupt, PageKind, Pgno};

use crate::{Error, Transaction};

/// The kinds of entries.
const ROOT: u8 = 1;
const FREE: u8 = 2;
const FIRST_OVERFLOW: u8 = 3;
const LATER_OVERFLOW: u8 = 4;
const BTREE: u8 = 5;

/// Bytes of an entry: its kind, and the page that refers to the entry's page.
const ENTRY: usize = 5;

/// What refers to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u8,
    parent: u32,
}

/// Which pages of a file hold its pointer map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapLayout {
    /// Entries of a page.
    each: u32,
    lock_page: u32,
}

impl MapLayout {
    /// The page with the entry of page `pgno`, or `pgno` itself where it is a page of the map.
    fn map_of(self, pgno: u32) -> u32 {
        if pgno < 2 {
            return 0;
        }
        let map = (pgno - 2) / (self.each + 1) * (self.each + 1) + 2;
        if map == self.lock_page { map + 1 } else { map }
    }

    /// True for pages of the map, and for the page of the lock bytes: no tree has them.
    fn is_apart(self, pgno: u32) -> bool {
        pgno == self.lock_page || self.is_map(pgno)
    }

    fn is_map(self, pgno: u32) -> bool {
        pgno >= 2 && self.map_of(pgno) == pgno
    }

    /// Pages of the file of `count` pages once `free` of them are gone.
    fn count_without(self, count: u32, free: u32) -> u32 {
        let (count, free, each) = (i64::from(count), i64::from(free), i64::from(self.each));
        let lock_page = i64::from(self.lock_page);
        let map = u32::try_from(count).map_or(0, |count| i64::from(self.map_of(count)));
        let maps = (free - count + map + each) / each;
        let mut left = count - free - maps;
        if count > lock_page && left < lock_page {
            left -= 1;
        }
        let mut left = u32::try_from(left).unwrap_or(1).max(1);
        while left > 1 && self.is_apart(left) {
            left -= 1;
        }
        left
    }
}

impl Transaction {
    /// The places of the pointer map; `None` in a file without one.
    #[inline]
    pub(crate) fn map_layout(&self) -> Option<MapLayout> {
        if !self.file.header.is_auto_vacuum() {
            return None;
        }
        let each = u32::try_from(self.usable() / ENTRY).unwrap_or(u32::MAX);
        Some(MapLayout { each, lock_page: Pgno::lock_page(self.file.header.page_size).get() })
    }

    /// True for a page that no tree, chain or freelist may have.
    pub(crate) fn is_apart(&self, pgno: Pgno) -> bool {
        let own = pgno != Pgno::FIRST && pgno.get() <= self.store.own_pages() + 1;
        own || self.map_layout().is_some_and(|layout| layout.is_apart(pgno.get()))
    }

    fn entry(&self, layout: MapLayout, pgno: Pgno) -> Result<Entry, Error> {
        let map = layout.map_of(pgno.get());
        let at = ENTRY * pgno.get().saturating_sub(map + 1) as usize;
        let page = Pgno::new(map).filter(|_| map < pgno.get());
        let bytes = match page {
            Some(map) => self.page(map)?.get(at..at + ENTRY),
            None => None,
        };
        match bytes {
            Some(&[kind, a, b, c, d]) if (ROOT..=BTREE).contains(&kind) => {
                Ok(Entry { kind, parent: u32::from_be_bytes([a, b, c, d]) })
            }
            _ => Err(Corrupt::on_page(pgno, "page", "has no entry in the pointer map", 0).into()),
        }
    }

    fn set_entry(&mut self, layout: MapLayout, pgno: Pgno, entry: Entry) -> Result<(), Error> {
        let map = layout.map_of(pgno.get());
        let at = ENTRY * pgno.get().saturating_sub(map + 1) as usize;
        let apart = || Corrupt::on_page(pgno, "page", "is one of the pointer map", u64::from(map));
        let Some(page) = Pgno::new(map).filter(|_| map < pgno.get()) else {
            return Err(apart().into());
        };
        self.check_pgno(page)?;
        let [a, b, c, d] = entry.parent.to_be_bytes();
        let bytes = [entry.kind, a, b, c, d];
        if self.page(page)?.get(at..at + ENTRY) == Some(&bytes) {
            return Ok(());
        }
        match self.edit(page)?.get_mut(at..at + ENTRY) {
            Some(place) => place.copy_from_slice(&bytes),
            None => return Err(apart().into()),
        }
        Ok(())
    }

    /// Brings the pointer map up to date with the pages changed so far. A file without one has
    /// nothing to do.
    ///
    /// Cost: a look at each changed page.
    pub(crate) fn update_pointer_map(&mut self) -> Result<(), Error> {
        let Some(layout) = self.map_layout() else { return Ok(()) };
        if self.changes_mut()?.is_copy {
            return Ok(());
        }
        let usable = self.usable();
        let mut entries: FxHashMap<Pgno, Entry> = FxHashMap::default();
        // Free pages first: what they held refers to nothing.
        let mut free: FxHashSet<Pgno> = FxHashSet::default();
        let mut trunk = self.file.header.freelist_trunk;
        // Pages are put on the freelist, and taken off it, at its beginning, unless a certain page
        // was taken.
        let whole = self.changes_mut()?.took_free_page;
        while let Some(pgno) = trunk.filter(|pgno| whole || self.is_changed(*pgno)) {
            if !free.insert(pgno) {
                return Err(Corrupt::on_page(pgno, "freelist", "goes in a circle", 0).into());
            }
            let view = Trunk::new(self.page(pgno)?, pgno, usable)?;
            trunk = view.next;
            for index in 0..view.leaf_count() {
                free.insert(view.leaf(index)?);
            }
        }
        let changed = self.changed_pages()?;
        let candidates = changed.iter().copied().filter(|pgno| {
            !free.contains(pgno) && !layout.is_apart(pgno.get()) && pgno.get() <= self.page_count()
        });
        for pgno in candidates {
            if !self.is_overflow(pgno) {
                self.entries_of(pgno, &mut entries)?;
            }
        }
        for pgno in free {
            entries.insert(pgno, Entry { kind: FREE, parent: 0 });
        }
        let mut entries: Vec<(Pgno, Entry)> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|(pgno, _)| *pgno);
        for (pgno, entry) in entries {
            self.set_entry(layout, pgno, entry)?;
        }
        Ok(())
    }

    /// The entries of all pages that b-tree page `pgno` refers to, and of the overflow chains
    /// written in this transaction that begin there.
    fn entries_of(&self, pgno: Pgno, entries: &mut FxHashMap<Pgno, Entry>) -> Result<(), Error> {
        let view = self.btree_page(pgno)?;
        let parent = pgno.get();
        if !view.kind().is_leaf() {
            for index in 0..=view.cell_count() {
                entries.insert(view.child(index)?, Entry { kind: BTREE, parent });
            }
        }
        for index in 0..view.cell_count() {
            let payload = match view.kind() {
                PageKind::TableInterior => break,
                PageKind::TableLeaf => view.table_leaf(index)?.payload,
                _ => view.index(index)?.payload,
            };
            let Some(first) = payload.overflow else { continue };
            entries.insert(first, Entry { kind: FIRST_OVERFLOW, parent });
            let mut page = first;
            // A chain written before this transaction has its entries.
            while self.is_overflow(page) {
                let chain = OverflowPage::new(self.page(page)?, page, self.usable())?;
                let Some(next) = chain.next else { break };
                entries.insert(next, Entry { kind: LATER_OVERFLOW, parent: page.get() });
                page = next;
            }
        }
        Ok(())
    }

    /// Notes that page `root` is one of a tree, the last one of all roots.
    fn note_root(&mut self, layout: MapLayout, root: Pgno) -> Result<(), Error> {
        self.set_entry(layout, root, Entry { kind: ROOT, parent: 0 })?;
        self.file.header.largest_root = root.get();
        self.edit(Pgno::FIRST).map(drop)
    }

    /// A page for the root of a new tree. In a file with a pointer map roots lie before all other
    /// pages: the page behind the last root is taken, and its content moved elsewhere.
    pub(crate) fn allocate_root(&mut self) -> Result<Pgno, Error> {
        let Some(layout) = self.map_layout() else { return self.allocate() };
        let last = self.file.header.largest_root;
        let past = || Corrupt::new("file header", "has a last root past all pages", last.into());
        if last > self.file.page_count {
            return Err(past().into());
        }
        let mut number = last.saturating_add(1);
        while layout.is_apart(number) {
            number = number.checked_add(1).ok_or_else(past)?;
        }
        let root = Pgno::new(number).ok_or_else(past)?;
        if number > self.file.page_count {
            // Every page before is in use or free: the next one of the file is the root.
            while self.file.page_count < number {
                let new = self.extend()?;
                self.rewrite(new, true, |_| Ok(()))?;
            }
        } else {
            self.update_pointer_map()?;
            let entry = self.entry(layout, root)?;
            if entry.kind == FREE {
                self.take_free_page(root)?;
            } else {
                let target = self.allocate()?;
                self.move_page(layout, root, target)?;
            }
        }
        self.rewrite(root, true, |_| Ok(()))?;
        self.note_root(layout, root)?;
        Ok(root)
    }

    /// Gives up the page of a root, the tree's other pages being free. In a file with a pointer map
    /// the last root takes its place: returns the place it came from, and the caller changes its
    /// row of the schema.
    pub(crate) fn release_root(&mut self, root: Pgno) -> Result<Option<Pgno>, Error> {
        let Some(layout) = self.map_layout() else {
            return self.release_page(root).map(|()| None);
        };
        let last = self.file.header.largest_root;
        let last = Pgno::new(last).filter(|last| root <= *last).ok_or_else(|| {
            Corrupt::new("file header", "has a last root before another", u64::from(last))
        })?;
        let mut moved = None;
        if root < last {
            self.update_pointer_map()?;
            self.move_page(layout, last, root)?;
            moved = Some(last);
        }
        self.release_page(last)?;
        let mut largest = last.get() - 1;
        while largest > 1 && layout.is_apart(largest) {
            largest -= 1;
        }
        self.file.header.largest_root = largest.max(1);
        self.edit(Pgno::FIRST)?;
        Ok(moved)
    }

    /// Copies page `from` to `to`, a page of no use, and makes whatever refers to it refer to the
    /// copy. The pointer map is up to date before and after.
    fn move_page(&mut self, layout: MapLayout, from: Pgno, to: Pgno) -> Result<(), Error> {
        let entry = self.entry(layout, from)?;
        let bytes = self.page(from)?.to_vec();
        // Ends of trees may be on the page, and roots are known by their numbers.
        self.changes_mut()?.forget_tails();
        let is_overflow = matches!(entry.kind, FIRST_OVERFLOW | LATER_OVERFLOW);
        self.rewrite(to, true, |page| {
            page.copy_from_slice(&bytes);
            Ok(())
        })?;
        self.changes_mut()?.set_overflow(to, is_overflow);
        self.set_entry(layout, to, entry)?;
        // The pages that the moved one refers to.
        if is_overflow {
            if let Some(next) = OverflowPage::new(&bytes, to, self.usable())?.next {
                self.set_entry(layout, next, Entry { kind: LATER_OVERFLOW, parent: to.get() })?;
            }
        } else {
            let mut entries = FxHashMap::default();
            self.entries_of(to, &mut entries)?;
            for (pgno, entry) in entries {
                self.set_entry(layout, pgno, entry)?;
            }
        }
        // The page that refers to it.
        let wrong = || {
            Corrupt::on_page(from, "page", "is not where the pointer map says, at", {
                u64::from(entry.parent)
            })
        };
        let parent = Pgno::new(entry.parent);
        match (entry.kind, parent) {
            (ROOT, _) => {}
            (LATER_OVERFLOW, Some(parent)) => {
                let page = self.edit(parent)?;
                if page[..4] != from.get().to_be_bytes() {
                    return Err(wrong().into());
                }
                page[..4].copy_from_slice(&to.get().to_be_bytes());
                self.changes_mut()?.set_overflow(parent, true);
            }
            (BTREE | FIRST_OVERFLOW, Some(parent)) => {
                let view = self.btree_page(parent)?;
                let at = match entry.kind {
                    BTREE => view.child_offset(from)?,
                    _ => view.overflow_offset(from)?,
                };
                let at = at.ok_or_else(wrong)?;
                self.edit(parent)?[at..at + 4].copy_from_slice(&to.get().to_be_bytes());
            }
            _ => return Err(wrong().into()),
        }
        Ok(())
    }

    /// Shortens the file by up to `most` pages of the freelist, moving pages from its end into
    /// their places; 0 for all of them. A file without a pointer map stays as it is.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Corrupt`].
    pub fn incremental_vacuum(&mut self, most: u32) -> Result<(), Error> {
        let Some(layout) = self.map_layout() else { return Ok(()) };
        if self.file.header.freelist_count == 0 {
            return Ok(());
        }
        self.change(|txn| {
            txn.update_pointer_map()?;
            let all = txn.file.header.freelist_count;
            if most == 0 || most >= all {
                return txn.drop_free_pages(layout);
            }
            let mut free: BTreeSet<Pgno> = txn.free_pages()?.into_iter().collect();
            for _ in 0..most {
                txn.vacuum_step(layout, &mut free)?;
            }
            txn.edit(Pgno::FIRST).map(drop)
        })
    }

    /// The work of a commit in an auto-vacuum file: the map is brought up to date, and without
    /// incremental vacuum all free pages go.
    pub(crate) fn auto_vacuum(&mut self) -> Result<(), Error> {
        let Some(layout) = self.map_layout() else { return Ok(()) };
        if self.changes_mut()?.is_copy {
            return Ok(());
        }
        self.change(|txn| {
            txn.update_pointer_map()?;
            let header = &txn.file.header;
            if header.incremental_vacuum != 0 || header.freelist_count == 0 {
                return Ok(());
            }
            txn.drop_free_pages(layout)
        })
    }

    /// Cuts the file by its last page: one of the freelist, or one moved to a free place. `free`
    /// are the pages of the freelist.
    fn vacuum_step(&mut self, layout: MapLayout, free: &mut BTreeSet<Pgno>) -> Result<(), Error> {
        let last = Pgno::new(self.file.page_count).expect("an auto-vacuum file has pages");
        if free.remove(&last) {
            self.take_free_page(last)?;
        } else {
            let end = layout.count_without(self.file.page_count, self.file.header.freelist_count);
            let target =
                free.pop_first().filter(|target| target.get() <= end).ok_or_else(|| {
                    Corrupt::new("freelist", "has too few pages before", u64::from(end))
                })?;
            if self.entry(layout, last)?.kind == ROOT {
                let why = "is a root behind the file's end, pages";
                return Err(Corrupt::on_page(last, "page", why, u64::from(end)).into());
            }
            self.take_free_page(target)?;
            self.move_page(layout, last, target)?;
        }
        let mut count = last.get() - 1;
        while count > 1 && layout.is_apart(count) {
            count -= 1;
        }
        self.cut_to(count)
    }

    /// Cuts the file by all of its free pages.
    fn drop_free_pages(&mut self, layout: MapLayout) -> Result<(), Error> {
        let free = self.free_pages()?;
        let count = self.file.page_count;
        let stated = self.file.header.freelist_count;
        if free.len() != stated as usize {
            let why = "states another count of free pages";
            return Err(Corrupt::new("file header", why, u64::from(stated)).into());
        }
        let end = layout.count_without(count, stated);
        let mut targets: Vec<Pgno> = free.iter().copied().filter(|it| it.get() <= end).collect();
        // The least is taken first.
        targets.sort_unstable_by(|a, b| b.cmp(a));
        for number in (end + 1..=count).rev() {
            let pgno = Pgno::new(number).expect("pages are counted from 1");
            if layout.is_apart(number) || free.contains(&pgno) {
                continue;
            }
            let target = targets.pop().ok_or_else(|| {
                Corrupt::on_page(pgno, "freelist", "has too few pages before", u64::from(end))
            })?;
            if self.entry(layout, pgno)?.kind == ROOT {
                let why = "is a root behind the file's end, pages";
                return Err(Corrupt::on_page(pgno, "page", why, u64::from(end)).into());
            }
            self.move_page(layout, pgno, target)?;
        }
        self.file.header.freelist_count = 0;
        self.file.header.freelist_trunk = None;
        self.edit(Pgno::FIRST)?;
        self.cut_to(end)
    }

    /// Makes `count` the number of pages, and forgets the changes of those behind.
    fn cut_to(&mut self, count: u32) -> Result<(), Error> {
        let behind: Vec<Pgno> =
            self.changed_pages()?.into_iter().filter(|pgno| pgno.get() > count).collect();
        for pgno in behind {
            self.changes_mut()?.forget(pgno);
        }
        self.file.page_count = count;
        Ok(())
    }

    /// All pages of the freelist.
    fn free_pages(&self) -> Result<FxHashSet<Pgno>, Error> {
        let mut free = FxHashSet::default();
        let mut trunk = self.file.header.freelist_trunk;
        let twice = |pgno| Corrupt::on_page(pgno, "freelist", "meets a page twice", 0);
        while let Some(pgno) = trunk {
            self.check_free(pgno)?;
            if !free.insert(pgno) {
                return Err(twice(pgno).into());
            }
            let view = Trunk::new(self.page(pgno)?, pgno, self.usable())?;
            trunk = view.next;
            for index in 0..view.leaf_count() {
                let leaf = view.leaf(index)?;
                self.check_free(leaf)?;
                if !free.insert(leaf) {
                    return Err(twice(leaf).into());
                }
            }
        }
        Ok(free)
    }

    /// Takes page `wanted` off the freelist.
    fn take_free_page(&mut self, wanted: Pgno) -> Result<(), Error> {
        let usable = self.usable();
        self.changes_mut()?.took_free_page = true;
        let mut before: Option<Pgno> = None;
        let mut trunk = self.file.header.freelist_trunk;
        // Each step is a trunk, and every trunk is a page of the file.
        for _ in 0..=self.file.page_count {
            let Some(pgno) = trunk else { break };
            self.check_free(pgno)?;
            let view = Trunk::new(self.page(pgno)?, pgno, usable)?;
            let (next, count) = (view.next, view.leaf_count());
            if pgno == wanted {
                // Its first leaf becomes the trunk of the others.
                let heir = match count {
                    0 => next,
                    _ => Some(view.leaf(0)?),
                };
                if let Some(heir) = heir.filter(|_| count > 0) {
                    self.check_free(heir)?;
                    let leaves: Vec<Pgno> =
                        (1..count).map(|index| view.leaf(index)).collect::<Result<_, _>>()?;
                    self.rewrite(heir, true, |bytes| {
                        Trunk::write(&mut bytes[..usable], next);
                        for (place, leaf) in leaves.iter().enumerate() {
                            Trunk::push(bytes, place, *leaf);
                        }
                        Ok(())
                    })?;
                }
                match before {
                    None => self.file.header.freelist_trunk = heir,
                    Some(before) => {
                        let number = heir.map_or(0, Pgno::get).to_be_bytes();
                        self.edit(before)?[..4].copy_from_slice(&number);
                    }
                }
                self.file.header.freelist_count -= 1;
                return Ok(());
            }
            for index in 0..count {
                if view.leaf(index)? != wanted {
                    continue;
                }
                let last = view.leaf(count - 1)?.get().to_be_bytes();
                let bytes = self.edit(pgno)?;
                bytes[8 + 4 * index..12 + 4 * index].copy_from_slice(&last);
                Trunk::set_count(bytes, count - 1);
                self.file.header.freelist_count -= 1;
                return Ok(());
            }
            before = trunk;
            trunk = next;
        }
        let why = "lacks a page that the pointer map calls free";
        Err(Corrupt::new("freelist", why, u64::from(wanted.get())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_a_page_before_those_it_tells_of() {
        let layout = MapLayout { each: 102, lock_page: 0x20_0001 };
        assert_eq!([1, 2, 3, 104, 105, 106].map(|it| layout.map_of(it)), [0, 2, 2, 2, 105, 105]);
        let apart: Vec<u32> = (1..300).filter(|it| layout.is_apart(*it)).collect();
        assert_eq!(apart, [2, 105, 208]);
        // 104 pages with 2 of them free, and the page of the map at the end going with them.
        assert_eq!(layout.count_without(104, 2), 102);
        assert_eq!(layout.count_without(106, 1), 104);
        assert_eq!(layout.count_without(4, 2), 1);
    }
}
