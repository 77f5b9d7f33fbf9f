//! Entries of an index.

use std::cmp::Ordering;

use shoal_format::page::header_start;
use shoal_format::utf16::Utf16Key;
use shoal_format::{Corrupt, IndexCell, KeyOrder, PageKind, Pgno, Record, ValueRef};

use super::Content;
use super::balance::Spread;
use super::trail::{Step, Trail};
use crate::cursor::{TreeKind, partition};
use crate::{Error, Transaction};

impl Transaction {
    /// Puts an entry into the index at `root`, replacing one equal in every column.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the transaction may not write, [`Error::Limit`], [`Error::Corrupt`]
    /// (also for a malformed `record`), a page that cannot be read.
    pub fn index_insert(
        &mut self,
        root: Pgno,
        record: &[u8],
        order: &KeyOrder,
    ) -> Result<(), Error> {
        Self::check_record(record)?;
        with_columns(record, |key| {
            if self.is_behind_tail(root, key, order)? == Some(true)
                && self.push_at_tail(root, None, record)?
            {
                return Ok(());
            }
            self.change(|txn| {
                let mut trail = Trail::new();
                if txn.find_entry((root, order), key, &mut trail)? {
                    // Equal is not identical: 1 and 1.0, or texts differing in case.
                    txn.remove_entry(trail, order)?;
                    trail = Trail::new();
                    if txn.find_entry((root, order), key, &mut trail)? {
                        let why = "has an entry twice, columns";
                        return Err(Corrupt::on_page(root, "index", why, key.len() as u64).into());
                    }
                }
                let index = trail[trail.len() - 1].index;
                txn.put_record(trail, index, None, record)
            })
        })?
    }

    /// Removes the entry equal to `record` in every column from the index at `root`; false when
    /// there is none.
    ///
    /// # Errors
    /// As [`Transaction::index_insert`].
    pub fn index_delete(
        &mut self,
        root: Pgno,
        record: &[u8],
        order: &KeyOrder,
    ) -> Result<bool, Error> {
        with_columns(record, |key| {
            self.change(|txn| {
                let mut trail = Trail::new();
                let found = txn.find_entry((root, order), key, &mut trail)?;
                if found {
                    txn.remove_entry(trail, order)?;
                }
                Ok(found)
            })
        })?
    }

    /// Appends to `trail` the way to the entry beginning with `key`, perhaps on an interior page,
    /// and gives true; or the way to the place on a leaf for such an entry, and false.
    pub(super) fn find_entry(
        &self,
        (root, order): (Pgno, &KeyOrder),
        key: &[ValueRef<'_>],
        trail: &mut Trail,
    ) -> Result<bool, Error> {
        let mut buffer = Vec::new();
        let mut pgno = root;
        let wide = self.utf16().map(|order| Utf16Key::new(key, order));
        loop {
            let view = self.tree_page(pgno, TreeKind::Index, trail.len())?;
            let quick = if wide.is_some() { None } else { view.find_entry(order, key)? };
            let (index, found) = match quick {
                Some(place) => place,
                None => {
                    let mut found = false;
                    let index = partition(&view, self, &mut buffer, |payload| {
                        let side = match &wide {
                            Some(key) => key.compare(payload, order)?,
                            None => order.compare(payload, key)?,
                        };
                        found |= side == Ordering::Equal;
                        Ok(side == Ordering::Less)
                    })?;
                    (index, found)
                }
            };
            trail.push(Step { pgno, index });
            if found || view.kind().is_leaf() {
                return Ok(found);
            }
            pgno = view.child(index)?;
        }
    }

    /// Removes the entry at the end of `trail`, with its overflow pages.
    fn remove_entry(&mut self, mut trail: Trail, order: &KeyOrder) -> Result<(), Error> {
        let Step { pgno, index } = trail[trail.len() - 1];
        let view = self.btree_page(pgno)?;
        let cell = view.index(index)?;
        let (left, chain) = (cell.left, self.overflow_pages(cell.payload)?);
        self.release_chain(chain)?;
        let Some(left) = left else {
            self.edit_btree(pgno)?.remove(index)?;
            return self.settle_if_sparse(trail);
        };
        // An interior entry also divides its neighbours, so its predecessor takes its place: the
        // last entry of the rightmost leaf below its left child.
        let level = trail.len();
        self.down_last(left, &mut trail)?;
        let leaf = trail[trail.len() - 1];
        let before = self.btree_page(leaf.pgno)?.cell(leaf.index)?.to_vec();
        self.edit_btree(leaf.pgno)?.remove(leaf.index)?;
        let mut divider = left.get().to_be_bytes().to_vec();
        divider.extend_from_slice(&before);

        self.edit_btree(pgno)?;
        let mut content = Content::of(&self.btree_page(pgno)?)?;
        content.remove(index);
        content.insert(index, &divider);
        let room = self.usable() - header_start(pgno) - content.kind.header_size();
        if content.size() <= room {
            let cells = content.part(0..content.len());
            self.rewrite_page(pgno, content.kind, content.right_child, cells)?;
            return self.settle_if_sparse(trail);
        }
        // The larger divider splits its page, so the way to the leaf must be found anew.
        trail.truncate(level);
        let root = trail[0].pgno;
        self.settle(trail, content, Spread::Even)?;
        let mut record = Vec::new();
        let cell = IndexCell::parse(&before, PageKind::IndexLeaf, self.usable())?;
        self.read_record(cell.payload, &mut record)?;
        trail = Trail::new();
        let found = with_columns(&record, |key| self.find_entry((root, order), key, &mut trail))??;
        let Step { pgno, index } = trail[trail.len() - 1];
        let left = self.btree_page(pgno)?.index(index).map(|cell| cell.left);
        match left {
            Ok(Some(left)) if found => {
                self.down_last_page(left, &mut trail)?;
                self.settle_if_sparse(trail)
            }
            _ => {
                let why = "is not in the order of its keys, place";
                Err(Corrupt::on_page(pgno, "index", why, index as u64).into())
            }
        }
    }

    /// Appends to `trail` the way from page `pgno` to the last entry of its rightmost leaf.
    fn down_last(&self, pgno: Pgno, trail: &mut Trail) -> Result<(), Error> {
        self.down_last_page(pgno, trail)?;
        let leaf = trail.last_mut().expect("a step was pushed");
        leaf.index = leaf.index.checked_sub(1).ok_or_else(|| {
            let below = u64::from(pgno.get());
            Corrupt::on_page(leaf.pgno, "b-tree page", "is empty, below page", below)
        })?;
        Ok(())
    }

    /// Appends to `trail` the way from page `pgno` to the end of its rightmost leaf.
    pub(super) fn down_last_page(&self, mut pgno: Pgno, trail: &mut Trail) -> Result<(), Error> {
        loop {
            let view = self.tree_page(pgno, TreeKind::Index, trail.len())?;
            let index = view.cell_count();
            trail.push(Step { pgno, index });
            if view.kind().is_leaf() {
                return Ok(());
            }
            pgno = view.child(index)?;
        }
    }
}

/// Calls `work` with the columns of a record. Cost: allocates for more than 8 of them.
///
/// # Errors
/// [`Corrupt`] when `record` is no record.
pub(super) fn with_columns<T>(
    record: &[u8],
    work: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> Result<T, Corrupt> {
    let mut few = [ValueRef::Null; 8];
    let mut count = 0;
    for value in Record::new(record)?.values() {
        let value = value?;
        let Some(place) = few.get_mut(count) else {
            let all: Vec<ValueRef<'_>> = Record::new(record)?.values().collect::<Result<_, _>>()?;
            return Ok(work(&all));
        };
        *place = value;
        count += 1;
    }
    Ok(work(&few[..count]))
}
