//! Entries of an index equal to a key, when few are expected.
//!
//! A walk suits many entries: its position can be kept, and every entry is compared with the key.
//! The functions here find neighbouring entries at once, when the decoded columns of their leaf
//! already tell the range of equal ones.

use std::cmp::Ordering;

use shoal_format::{Corrupt, KeyOrder, LeafCell, Page, Payload, Record, ValueRef};

use crate::index_tree::IndexTree;
use crate::{Error, IndexLookup, Transaction};

impl IndexLookup {
    /// Puts the rowids of the entries whose first columns are `key` into `out`, in the order of the
    /// entries; the rowid is column `column` of an entry. Returns their number, or `None` when
    /// `out` is too short or an entry continues on overflow pages.
    ///
    /// Cost: two searches among decoded integers, where the key is one integer, its entries are on
    /// one leaf and the leaf was searched a dozen times before; else a [`IndexLookup::seek`] and a
    /// comparison per entry.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt; [`Error::Corrupt`] for an entry without rowid.
    #[inline]
    pub fn rowids(
        &mut self,
        txn: &Transaction,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        column: usize,
        out: &mut [i64],
    ) -> Result<Option<usize>, Error> {
        if let &[ValueRef::Int(int)] = key
            && let Some(tree) = self.known_tree(txn)
            && let Some((leaf, range)) = tree.find_int(txn, int)
            && let Some(rowids) = tree.rowids(txn, leaf, column).and_then(|all| all.get(range))
        {
            let Some(out) = out.get_mut(..rowids.len()) else { return Ok(None) };
            out.copy_from_slice(rowids);
            return Ok(Some(rowids.len()));
        }
        let mut count = 0;
        let fits = self.equal(txn, key, order, |page, payload| {
            let Some(target) = out.get_mut(count) else { return Ok(false) };
            count += 1;
            match Record::new(payload.local)?.column(column)? {
                Some(ValueRef::Int(rowid)) => *target = rowid,
                _ => {
                    let why = "has an entry that names no row, at";
                    let at = page.offset_of(payload.local) as u64;
                    return Err(Corrupt::on_page(page.pgno(), "index", why, at).into());
                }
            }
            Ok(true)
        })?;
        Ok(fits.then_some(count))
    }

    /// Puts the places of the records whose first columns are `key` into `out`, in the order of the
    /// entries, and returns their page and their number. `None` where the entries are not known to
    /// be on one page, when `out` is too short, or an entry continues on overflow pages.
    ///
    /// Cost: as [`IndexLookup::rowids`], and the head of each entry.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    pub fn entries<'t>(
        &self,
        txn: &'t Transaction,
        key: &[ValueRef<'_>],
        out: &mut [LeafCell],
    ) -> Result<Option<(Page<'t>, usize)>, Error> {
        let &[ValueRef::Int(int)] = key else { return Ok(None) };
        let Some(tree) = self.known_tree(txn) else { return Ok(None) };
        let Some((leaf, range)) = tree.find_int(txn, int) else { return Ok(None) };
        let page = tree.leaf(txn, leaf)?;
        let Some(out) = out.get_mut(..range.len()) else { return Ok(None) };
        let (count, goes_on) = page.index_cells(range.start, out)?;
        Ok((!goes_on).then_some((page, count)))
    }

    /// The number of entries with `key` in their first columns, up to `most`; `None` when one of
    /// them continues on overflow pages.
    ///
    /// Cost: as [`IndexLookup::rowids`]; without decoded columns, a [`IndexLookup::seek`] and a
    /// comparison for each of the first entries of a leaf.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    #[inline]
    pub fn count(
        &mut self,
        txn: &Transaction,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        most: usize,
    ) -> Result<Option<usize>, Error> {
        if let &[ValueRef::Int(int)] = key
            && let Some(tree) = self.known_tree(txn)
            && let Some((_, range)) = tree.find_int(txn, int)
        {
            return Ok(Some(range.len().min(most)));
        }
        self.count_by_walk(txn, key, order, most)
    }

    #[inline(never)]
    fn count_by_walk(
        &mut self,
        txn: &Transaction,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        most: usize,
    ) -> Result<Option<usize>, Error> {
        let mut walk = self.seek(txn, key, order, Ordering::Less)?;
        let mut more = walk.is_valid();
        let (mut count, mut compared) = (0, 0);
        while more && count < most {
            let payload = walk.payload()?;
            if payload.overflow.is_some() {
                return Ok(None);
            }
            if order.compare(payload.local, key)?.is_ne() {
                break;
            }
            compared += 1;
            let mut within = 1;
            if compared == ENTRIES_BEFORE_LAST {
                compared = 0;
                // When the leaf's last entry equals the key, all entries between do as well.
                if let Some((left, last)) = walk.last_on_leaf()?
                    && last.overflow.is_none()
                    && order.compare(last.local, key)?.is_eq()
                {
                    within = left;
                }
            }
            count += within;
            more = walk.skip(within)?;
        }
        Ok(Some(count.min(most)))
    }

    /// Calls `each` with the rowids of the entries whose first column is the integer `key`, in the
    /// order of the entries, many at a time, until `each` is false; the rowid is column `column` of
    /// an entry. False without a call where the entries' leaves are not decoded.
    ///
    /// Cost: a search among decoded integers for the first entry, and one for the end on each leaf.
    ///
    /// # Errors
    /// [`Corrupt`] for an entry between leaves without a rowid; the errors of `each`.
    #[inline]
    pub fn each_known_rowids<E: From<Error>>(
        &self,
        txn: &Transaction,
        key: i64,
        column: usize,
        mut each: impl FnMut(&[i64]) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let Some(tree) = self.known_tree(txn) else { return Ok(false) };
        let Some(leaves) = tree.known_leaves(txn, key, column) else { return Ok(false) };
        let last = leaves.end;
        for leaf in leaves {
            let Some(rowids) = tree.rowids_of_int(txn, leaf, key, column) else { return Ok(false) };
            if !each(rowids)? {
                return Ok(true);
            }
            if leaf + 1 < last && !each(&[rowid_between(txn, tree, leaf, column)?])? {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// The decoded tree, if it belongs to this transaction's image.
    #[inline(always)]
    fn known_tree(&self, txn: &Transaction) -> Option<&IndexTree> {
        if self.image != txn.image_id() || txn.is_writer() { None } else { self.tree.as_deref() }
    }

    /// Calls `each` with the payloads of the entries whose first columns are `key`, in their
    /// order, and their pages. False when `each` has returned false, or an entry continues on
    /// overflow pages.
    ///
    /// Cost: a [`IndexLookup::seek`] and a comparison per entry.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt, and the errors of `each`.
    #[inline(never)]
    pub fn equal<'t>(
        &mut self,
        txn: &'t Transaction,
        key: &[ValueRef<'_>],
        order: &KeyOrder,
        mut each: impl FnMut(&Page<'t>, Payload<'t>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut walk = self.seek(txn, key, order, Ordering::Less)?;
        let mut more = walk.is_valid();
        while more {
            let payload = walk.payload()?;
            if payload.overflow.is_some() {
                return Ok(false);
            }
            if order.compare(payload.local, key)?.is_ne() {
                break;
            }
            if !each(&walk.page(), payload)? {
                return Ok(false);
            }
            more = walk.next()?;
        }
        Ok(true)
    }
}

/// The rowid of the entry behind a leaf.
#[cold]
fn rowid_between(
    txn: &Transaction,
    tree: &IndexTree,
    leaf: usize,
    column: usize,
) -> Result<i64, Error> {
    let (page, cell) = tree.between[leaf];
    let page = txn.btree_page(page)?;
    let payload = page.index(usize::from(cell))?.payload;
    let mut whole = Vec::new();
    let record = match payload.overflow {
        None => payload.local,
        Some(_) => {
            txn.read_payload(payload, &mut whole)?;
            &whole
        }
    };
    match Record::new(record)?.column(column)? {
        Some(ValueRef::Int(rowid)) => Ok(rowid),
        _ => {
            let why = "has an entry that names no row, cell";
            Err(Corrupt::on_page(page.pgno(), "index", why, cell.into()).into())
        }
    }
}

/// Equal entries compared one by one before the leaf's last entry is compared with the key.
const ENTRIES_BEFORE_LAST: usize = 6;
