//! A cursor over the entries of an index, in the order of its keys.

use std::cmp::Ordering;

use shoal_format::utf16::Utf16Key;
use shoal_format::{KeyOrder, Page, Payload, Pgno, ValueRef};

use super::{Path, Place, Position, TreeKind};
use crate::{Error, Transaction};

/// A position among the entries of an index (or the rows of a table without rowids).
///
/// Borrows its transaction, so the entries cannot change during the cursor's life. A new cursor
/// stands before the first entry. Steps allocate nothing; a page missing from the cache is read.
#[derive(Debug)]
pub struct IndexCursor<'t> {
    path: Path<'t>,
    position: Position,
    overflow: Vec<u8>,
}

impl<'t> IndexCursor<'t> {
    pub(crate) fn new(txn: &'t Transaction, root: Pgno) -> IndexCursor<'t> {
        IndexCursor {
            path: Path::new(txn, root, TreeKind::Index),
            position: Position::Before,
            overflow: Vec::new(),
        }
    }

    /// The transaction of the cursor.
    pub fn transaction(&self) -> &'t Transaction {
        self.path.txn()
    }

    /// Notes where the cursor is, to go on from there with [`IndexCursor::resume`].
    pub fn place(&self) -> Place {
        self.path.place(self.position)
    }

    /// A cursor where another one was, in the same transaction.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub fn resume(txn: &'t Transaction, place: &Place) -> Result<IndexCursor<'t>, Error> {
        let path = Path::resume(txn, TreeKind::Index, place)?;
        Ok(IndexCursor { path, position: place.position, overflow: Vec::new() })
    }

    /// Moves to the first entry; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn first(&mut self) -> Result<bool, Error> {
        self.position = Position::After;
        self.path.head(true);
        self.path.restart()?;
        self.path.down_first()?;
        Ok(self.land(self.path.cell_count() > 0, Position::After))
    }

    /// Moves to entry `index` of the root page; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub(crate) fn stand_on_root(&mut self, index: usize) -> Result<bool, Error> {
        self.path.head(true);
        self.path.restart()?;
        self.path.index = index;
        Ok(self.land(index < self.path.cell_count(), Position::After))
    }

    /// Moves to the last entry; false when there is none.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn last(&mut self) -> Result<bool, Error> {
        self.position = Position::Before;
        self.path.head(false);
        self.path.restart()?;
        self.path.go_to_end();
        self.path.down_last()?;
        Ok(self.land(self.path.cell_count() > 0, Position::Before))
    }

    /// Moves to the next entry; false when there is none, and then the cursor is after the last.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        match self.position {
            Position::Before => return self.first(),
            Position::After => return Ok(false),
            Position::On => {}
        }
        self.path.index += 1;
        if self.path.is_leaf() && self.path.index < self.path.cell_count() {
            return Ok(true);
        }
        self.position = Position::After;
        self.path.head(true);
        if !self.path.is_leaf() {
            // The cursor was on an interior entry; the next entry is below the next child.
            self.path.down_first()?;
            return Ok(self.land(true, Position::After));
        }
        self.up_to_entry()
    }

    /// The cursor's leaf, and the place there; `None` on no entry and on one between leaves.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<(Page<'t>, usize)> {
        match self.position {
            Position::On if self.path.is_leaf() => Some((self.path.page(), self.path.index)),
            _ => None,
        }
    }

    /// Moves `by` entries forward on the cursor's leaf, to the last entry at most.
    pub(crate) fn move_on_leaf(&mut self, by: usize) {
        if self.leaf().is_some() {
            let last = self.path.cell_count().saturating_sub(1);
            self.path.index = last.min(self.path.index + by);
        }
    }

    /// From the end of a leaf to the next entry, on a page above.
    fn up_to_entry(&mut self) -> Result<bool, Error> {
        while self.path.pop()? {
            if self.path.index < self.path.cell_count() {
                return Ok(self.land(true, Position::After));
            }
        }
        Ok(self.land(false, Position::After))
    }

    /// Moves to the entry before; false when there is none, and then the cursor is before the
    /// first.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn prev(&mut self) -> Result<bool, Error> {
        match self.position {
            Position::Before => return Ok(false),
            Position::After => return self.last(),
            Position::On => {}
        }
        self.path.head(false);
        if !self.path.is_leaf() {
            // The entry before an interior one is the last below the child of the same index.
            self.position = Position::Before;
            self.path.down_last()?;
            return Ok(self.land(true, Position::Before));
        }
        if self.path.index > 0 {
            self.path.index -= 1;
            return Ok(true);
        }
        self.position = Position::Before;
        while self.path.pop()? {
            if self.path.index > 0 {
                self.path.index -= 1;
                return Ok(self.land(true, Position::Before));
            }
        }
        Ok(false)
    }

    /// Moves to the first entry not before `key`, by the first `key.len()` columns in `order`;
    /// after the last entry when there is none. True when the first columns of the entry found
    /// are `key`.
    ///
    /// Cost: a binary search per level; entries continued on overflow pages are put together for
    /// the comparison.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn seek(&mut self, key: &[ValueRef<'_>], order: &KeyOrder) -> Result<bool, Error> {
        if let Some(found) = self.seek_where(key, order, Ordering::Less)? {
            return Ok(found == Ordering::Equal);
        }
        if self.position != Position::On {
            return Ok(false);
        }
        let found = order.compare(self.payload()?, key)?;
        Ok(found == Ordering::Equal)
    }

    /// Moves to the first entry after all entries with `key` as their first columns; after the last
    /// entry when there is none. [`IndexCursor::prev`] then gives the last entry not after `key`.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn seek_after(&mut self, key: &[ValueRef<'_>], order: &KeyOrder) -> Result<bool, Error> {
        self.seek_where(key, order, Ordering::Equal)?;
        Ok(self.position == Position::On)
    }

    /// Moves to the first entry whose order with `key` is greater than `passed`; returns that order
    /// where it is known.
    fn seek_where(
        &mut self,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        passed: Ordering,
    ) -> Result<Option<Ordering>, Error> {
        self.path.head(true);
        let utf16 = self.path.txn().utf16().map(|utf16| Utf16Key::new(key, utf16));
        if utf16.is_none()
            && let Some(found) = self.seek_on_leaf(key, order, passed)?
        {
            return Ok(Some(found));
        }
        self.position = Position::After;
        self.path.restart()?;
        loop {
            let txn = self.path.txn();
            let page = self.path.page();
            let index = partition(&page, txn, &mut self.overflow, |payload| {
                let found = match &utf16 {
                    None => order.compare(payload, key)?,
                    Some(key) => key.compare(payload, order)?,
                };
                Ok(found <= passed)
            })?;
            self.path.index = index;
            if page.kind().is_leaf() {
                if index < page.cell_count() {
                    self.position = Position::On;
                } else {
                    self.up_to_entry()?;
                }
                return Ok(None);
            }
            self.path.push_child()?;
        }
    }

    /// As [`IndexCursor::seek_where`], for targets on the cursor's leaf other than its first entry:
    /// keys are often sought in their order. `None`, with the cursor unmoved, when three
    /// comparisons do not place the target on the leaf.
    fn seek_on_leaf(
        &mut self,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        passed: Ordering,
    ) -> Result<Option<Ordering>, Error> {
        let Some((page, at)) = self.leaf() else { return Ok(None) };
        self.path.txn().check_watch()?;
        // An entry continued on overflow pages is left to the descent from the root.
        let compare = |index: usize| -> Result<Option<Ordering>, Error> {
            let payload = page.index(index)?.payload;
            match payload.overflow {
                None => Ok(Some(order.compare(payload.local, key)?)),
                Some(_) => Ok(None),
            }
        };
        let last = page.cell_count() - 1;
        let Some(here) = compare(at)? else { return Ok(None) };
        let forward = here <= passed;
        if at == if forward { last } else { 0 } {
            return Ok(None);
        }
        let Some(near) = compare(if forward { at + 1 } else { at - 1 })? else { return Ok(None) };
        // The target is behind `low`, a passed entry, and at or before `high`, an entry not passed
        // and with the order `found`.
        let (mut low, mut high, mut found) = match (forward, near <= passed) {
            (true, false) => (at, at + 1, near),
            (false, true) => (at - 1, at, here),
            (true, true) => match compare(last)? {
                Some(end) if end > passed => (at + 1, last, end),
                _ => return Ok(None),
            },
            (false, false) => match compare(0)? {
                Some(first) if first <= passed => (0, at - 1, near),
                _ => return Ok(None),
            },
        };
        let mut step = 1;
        while high - low > 1 {
            // From the cursor in growing steps, then in halves.
            let half = low + (high - low) / 2;
            let middle = match forward {
                true => (low + step).min(half),
                false => high.saturating_sub(step).max(half),
            };
            step *= 2;
            match compare(middle)? {
                Some(order) if order <= passed => low = middle,
                Some(order) => (high, found) = (middle, order),
                None => return Ok(None),
            }
        }
        self.path.index = high;
        self.position = Position::On;
        Ok(Some(found))
    }

    /// True when the cursor is on an entry.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.position == Position::On
    }

    /// Returns the entry's record: borrowed from the page, or put together in the cursor's own
    /// buffer when it continues on overflow pages or has text in UTF-16, converted to UTF-8.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a cursor on no entry; [`Error::Corrupt`]; a page that cannot be read.
    #[inline]
    pub fn payload(&mut self) -> Result<&[u8], Error> {
        if self.position != Position::On {
            return Err(Error::Misuse("a cursor that is on no entry was read"));
        }
        let payload = self.path.page().index(self.path.index)?.payload;
        let txn = self.path.txn();
        if payload.overflow.is_none() && txn.utf16().is_none() {
            return Ok(payload.local);
        }
        txn.read_record(payload, &mut self.overflow)?;
        Ok(&self.overflow)
    }

    /// The cursor's page.
    ///
    /// # Panics
    /// When the cursor was never moved.
    #[inline]
    pub fn page(&self) -> Page<'t> {
        self.path.page()
    }

    /// Returns the entry's payload as stored on its page, in the file's encoding.
    ///
    /// # Errors
    /// As [`IndexCursor::payload`].
    #[inline]
    pub fn cell_payload(&self) -> Result<Payload<'t>, Error> {
        if self.position != Position::On {
            return Err(Error::Misuse("a cursor that is on no entry was read"));
        }
        Ok(self.path.page().index(self.path.index)?.payload)
    }

    fn land(&mut self, on: bool, otherwise: Position) -> bool {
        self.position = if on { Position::On } else { otherwise };
        on
    }
}

/// Returns the first cell of an index page with a record not satisfying `passed`, a predicate true
/// for a prefix of the cells; the number of cells when all satisfy the predicate.
pub(crate) fn partition(
    page: &Page<'_>,
    txn: &Transaction,
    buffer: &mut Vec<u8>,
    mut passed: impl FnMut(&[u8]) -> Result<bool, Error>,
) -> Result<usize, Error> {
    let (mut low, mut high) = (0, page.cell_count());
    while low < high {
        let middle = low + (high - low) / 2;
        let payload = page.index(middle)?.payload;
        let before = if payload.overflow.is_none() {
            passed(payload.local)?
        } else {
            txn.read_payload(payload, buffer)?;
            passed(buffer)?
        };
        if before {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
