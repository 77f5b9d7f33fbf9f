//! An index's tree, decoded: its leaves, the entries separating them, and for often searched leaves
//! the first columns of their entries and the rowids at their ends, where those are integers.
//!
//! All of it belongs to one image of the file, whose pages do not change. The decoded tree only
//! tells which page and entry to look at; a part with a fault counts as not decoded, so that a
//! search of the page finds and names the fault.

use std::cmp::Ordering as Order;
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use shoal_format::{Corrupt, KeyColumn, Page, PageKind, Pgno, Record, ValueRef};

use crate::cursor::MAX_DEPTH;
use crate::{Error, Transaction};

/// The leaves of an index, in order, and the entries between them.
#[derive(Debug)]
pub(crate) struct IndexTree {
    /// The order of the first column; the prefixes depend on the order.
    column: KeyColumn,
    pub(crate) leaves: Box<[Pgno]>,
    /// The prefix of the entry between leaf `i` and leaf `i + 1`, by [`KeyColumn::prefix`].
    pub(crate) prefixes: Box<[u64]>,
    /// The place of the entry between leaf `i` and leaf `i + 1`: an interior page and the
    /// cell there.
    pub(crate) between: Box<[(Pgno, u16)]>,
    /// The first columns of the entries between leaves, if all are integers, as in [`Ints`].
    ints: Option<Ints>,
    /// The decoded columns of each leaf's entries, where `ints` are known.
    known: Box<[KnownLeaf]>,
    /// Bytes of decoded columns of leaves.
    known_bytes: AtomicUsize,
}

/// The first columns of neighbouring entries, all integers. Integers of a descending column are
/// inverted bit by bit, to ascend like the others.
type Ints = Box<[i64]>;

/// The decoded columns of a leaf, once decoding pays; `None` for a leaf with any fault: a reader of
/// the page is told the fault.
#[derive(Debug, Default)]
struct KnownLeaf {
    /// Searches so far.
    visits: AtomicU8,
    ints: OnceLock<Option<Ints>>,
    rowids: OnceLock<Option<Rowids>>,
}

/// The rowids at the ends of a leaf's entries, and their column.
#[derive(Debug)]
struct Rowids {
    column: usize,
    rowids: Box<[i64]>,
}

/// Most leaves decoded: 18 bytes each, about a hundred where keys are integers.
const MAX_LEAVES: usize = 1 << 23;

impl IndexTree {
    /// Reads the interior pages of the tree at `root`. `None` when one cannot be read or has any
    /// fault: a plain descent will name the fault.
    pub(crate) fn build(txn: &Transaction, root: Pgno, column: KeyColumn) -> Option<IndexTree> {
        let mut leaves = Vec::new();
        let mut prefixes = Vec::new();
        let mut ints = Some(Vec::new());
        let mut between = Vec::new();
        let mut buffer = Vec::new();
        let mut pages_left = u64::from(txn.page_count());
        // Interior pages to go through, each with the next child.
        let mut trail: Vec<(Pgno, usize)> = vec![(root, 0)];
        if txn.btree_page(root).ok()?.kind() == PageKind::IndexLeaf {
            leaves.push(root);
            trail.clear();
        }
        while let Some((pgno, child)) = trail.last_mut() {
            let (pgno, index) = (*pgno, *child);
            *child += 1;
            let page = txn.btree_page(pgno).ok()?;
            if page.kind() != PageKind::IndexInterior {
                return None;
            }
            if index > page.cell_count() {
                trail.pop();
                continue;
            }
            if let Some(before) = index.checked_sub(1) {
                let payload = page.index(before).ok()?.payload;
                let record = if payload.overflow.is_none() {
                    payload.local
                } else {
                    txn.read_payload(payload, &mut buffer).ok()?;
                    buffer.as_slice()
                };
                let first = Record::new(record).ok()?.column(0).ok()??;
                prefixes.push(column.prefix(first));
                match (first, &mut ints) {
                    (ValueRef::Int(int), Some(ints)) => ints.push(ascending(column, int)),
                    _ => ints = None,
                }
                between.push((pgno, u16::try_from(before).ok()?));
            }
            let below = page.child(index).ok()?;
            pages_left = pages_left.checked_sub(1)?;
            // All children of a page are leaves or none is; the first tells.
            let first = txn.btree_page(page.child(0).ok()?).ok()?;
            match first.kind() {
                PageKind::IndexLeaf if leaves.len() < MAX_LEAVES => leaves.push(below),
                PageKind::IndexInterior if trail.len() < MAX_DEPTH => trail.push((below, 0)),
                _ => return None,
            }
        }
        if leaves.len() != between.len() + 1 || !prefixes.is_sorted() {
            return None;
        }
        let ints = ints.filter(|ints| ints.is_sorted()).map(Vec::into);
        let known = if ints.is_some() { leaves.len() } else { 0 };
        let known = iter::repeat_with(KnownLeaf::default).take(known).collect();
        let (leaves, prefixes, between) = (leaves.into(), prefixes.into(), between.into());
        let known_bytes = AtomicUsize::new(0);
        Some(IndexTree { column, leaves, prefixes, between, ints, known, known_bytes })
    }

    /// How the index's first column is ordered.
    pub(crate) fn column(&self) -> KeyColumn {
        self.column
    }

    #[inline]
    pub(crate) fn leaf<'t>(&self, txn: &'t Transaction, number: usize) -> Result<Page<'t>, Error> {
        let page = txn.btree_page(self.leaves[number])?;
        if page.kind() != PageKind::IndexLeaf {
            let why = "has a page of the wrong kind";
            let kind = u64::from(page.kind().byte());
            return Err(Corrupt::on_page(page.pgno(), "b-tree", why, kind).into());
        }
        Ok(page)
    }

    /// True where the place of `key` is surely on a leaf, or at its end.
    #[inline]
    pub(crate) fn is_on_leaf(&self, leaf: usize, key: &[ValueRef<'_>]) -> bool {
        let Some(&first) = key.first() else { return false };
        let prefix = self.column.prefix(first);
        leaf.checked_sub(1).is_none_or(|before| self.prefixes[before] < prefix)
            && self.prefixes.get(leaf).is_none_or(|&behind| prefix < behind)
    }

    /// True where the first columns of a leaf's entries are decoded.
    #[inline]
    pub(crate) fn is_decoded(&self, leaf: usize) -> bool {
        self.known.get(leaf).is_some_and(|known| matches!(known.ints.get(), Some(Some(_))))
    }

    /// The leaf with all entries whose first column is the integer `key`, and their numbers on the
    /// leaf. `None` when the leaf is not decoded, and when the entries are on more than one leaf.
    #[inline(always)]
    pub(crate) fn find_int(&self, txn: &Transaction, key: i64) -> Option<(usize, Range<usize>)> {
        let between = self.ints.as_ref()?;
        let key = ascending(self.column, key);
        let leaf = partition_spread(between, key, Order::Less);
        let ints = self.ints(txn, leaf)?;
        let from = partition_spread(ints, key, Order::Less);
        let count = ints[from..].iter().take_while(|&&known| known == key).count();
        let ends = from + count < ints.len() || between.get(leaf) != Some(&key);
        ends.then_some((leaf, from..from + count))
    }

    /// The leaves with entries whose first column is the integer `key`, a few at most and all
    /// decoded; `None` otherwise.
    #[inline]
    pub(crate) fn known_leaves(
        &self,
        txn: &Transaction,
        key: i64,
        column: usize,
    ) -> Option<Range<usize>> {
        let between = self.ints.as_ref()?;
        let key = ascending(self.column, key);
        let first = partition_spread(between, key, Order::Less);
        let more = between[first..].iter().take(KNOWN_LEAVES_MAX);
        let leaves = first..first + 1 + more.take_while(|&&known| known == key).count();
        let is_known =
            |leaf| self.ints(txn, leaf).is_some() && self.rowids(txn, leaf, column).is_some();
        (leaves.len() <= KNOWN_LEAVES_MAX && leaves.clone().all(is_known)).then_some(leaves)
    }

    /// The rowids of a leaf's entries whose first column is the integer `key`; `None` where the
    /// leaf is not decoded.
    #[inline]
    pub(crate) fn rowids_of_int(
        &self,
        txn: &Transaction,
        leaf: usize,
        key: i64,
        column: usize,
    ) -> Option<&[i64]> {
        let key = ascending(self.column, key);
        let ints = self.ints(txn, leaf)?;
        let from = partition_spread(ints, key, Order::Less);
        let count = match ints.get(from..from + FEW) {
            Some(few) if few.last().is_some_and(|&last| last == key) => {
                ints[from..].partition_point(|&known| known == key)
            }
            _ => ints[from..].iter().take_while(|&&known| known == key).count(),
        };
        self.rowids(txn, leaf, column)?.get(from..from + count)
    }

    /// The leaf, and the number there, of the first entry whose order with the integer `key`, by
    /// its first column, is greater than `passed`; when no entry of the leaf is, the number behind
    /// the last one. `None` when the leaf is not decoded.
    #[inline]
    pub(crate) fn place_of_int(
        &self,
        txn: &Transaction,
        key: i64,
        passed: Order,
    ) -> Option<(usize, usize)> {
        let key = ascending(self.column, key);
        let leaf = partition_spread(self.ints.as_ref()?, key, passed);
        Some((leaf, partition_spread(self.ints(txn, leaf)?, key, passed)))
    }

    /// The first columns of a leaf's entries, if they are known.
    #[inline(always)]
    fn ints(&self, txn: &Transaction, leaf: usize) -> Option<&[i64]> {
        let known = self.known.get(leaf)?;
        match known.ints.get() {
            Some(ints) => ints.as_deref(),
            None => self.learn_ints(txn, leaf, known),
        }
    }

    /// Slow path of [`IndexTree::ints`]: counts the first searches of a leaf, then decodes
    /// the leaf.
    #[inline(never)]
    fn learn_ints<'k>(
        &self,
        txn: &Transaction,
        leaf: usize,
        known: &'k KnownLeaf,
    ) -> Option<&'k [i64]> {
        let visits = known.visits.load(Ordering::Relaxed);
        if visits < VISITS_BEFORE {
            // Two threads may count two visits as one, without harm.
            known.visits.store(visits + 1, Ordering::Relaxed);
            return None;
        }
        let decode = || {
            let (page, between) = (self.leaf(txn, leaf).ok()?, self.ints.as_ref()?);
            if !self.has_room(page.cell_count()) {
                return None;
            }
            let mut ints = ints_at(&page, 0)?;
            ints.iter_mut().for_each(|int| *int = ascending(self.column, *int));
            // Entries must be in order, also with the entries before and behind the leaf; a leaf
            // without entries is valid only as the whole tree.
            let before = leaf.checked_sub(1).and_then(|before| between.get(before));
            let all = before.into_iter().chain(&*ints).chain(between.get(leaf));
            let whole = !ints.is_empty() || self.leaves.len() == 1;
            (whole && all.is_sorted()).then_some(ints)
        };
        known.ints.get_or_init(decode).as_deref()
    }

    /// The rowids of a leaf's entries at column `column`, if decoded.
    #[inline(always)]
    pub(crate) fn rowids(&self, txn: &Transaction, leaf: usize, column: usize) -> Option<&[i64]> {
        let known = self.known.get(leaf)?;
        let rowids = match known.rowids.get() {
            Some(rowids) => rowids.as_ref(),
            None => self.learn_rowids(txn, leaf, known, column),
        };
        Some(&rowids.filter(|rowids| rowids.column == column)?.rowids)
    }

    #[inline(never)]
    fn learn_rowids<'k>(
        &self,
        txn: &Transaction,
        leaf: usize,
        known: &'k KnownLeaf,
        column: usize,
    ) -> Option<&'k Rowids> {
        known
            .rowids
            .get_or_init(|| {
                let page =
                    self.leaf(txn, leaf).ok().filter(|page| self.has_room(page.cell_count()))?;
                Some(Rowids { column, rowids: ints_at(&page, column)? })
            })
            .as_ref()
    }

    /// Counts so many numbers, if there may be as many.
    fn has_room(&self, numbers: usize) -> bool {
        let bytes = 8 * numbers;
        let before = self.known_bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = before.saturating_add(bytes) <= KNOWN_BYTES_MAX;
        if !room {
            self.known_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        room
    }
}

/// Most leaves with one key that are gone through by their decoded entries.
const KNOWN_LEAVES_MAX: usize = 64;

/// So many equal entries are counted one by one.
const FEW: usize = 16;

/// Searches of a leaf before its entries are decoded. Decoding costs a few dozen searches.
const VISITS_BEFORE: u8 = 12;

/// Most bytes of decoded entries of one index.
const KNOWN_BYTES_MAX: usize = 16 << 20;

/// The number of the first integers whose order with `key` is at most `passed`. The search begins
/// where `key` would be among integers spread evenly: of a long array few cache lines are read.
#[inline]
fn partition_spread(ints: &[i64], key: i64, passed: Order) -> usize {
    let goes_before = |index: usize| ints[index].cmp(&key) <= passed;
    let (Some(&first), Some(&last)) = (ints.first(), ints.last()) else { return 0 };
    let reach = key.saturating_sub(first).max(0) as f64 / last.saturating_sub(first).max(1) as f64;
    let guess = ((reach * ints.len() as f64) as usize).min(ints.len() - 1);
    let (mut low, mut high, mut step) = (0, ints.len(), 1);
    if goes_before(guess) {
        low = guess + 1;
        while low + step <= ints.len() {
            if !goes_before(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess;
        while high >= step {
            if goes_before(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + ints[low..high].partition_point(|known| known.cmp(&key) <= passed)
}

/// An integer of a column, mapped to ascend in the column's order.
#[inline]
fn ascending(column: KeyColumn, int: i64) -> i64 {
    if column.descending { !int } else { int }
}

/// The integers at column `column` of all entries of a page; `None` unless every entry has an
/// integer there and is stored wholly on the page.
fn ints_at(page: &Page<'_>, column: usize) -> Option<Box<[i64]>> {
    let mut ints = Vec::with_capacity(page.cell_count());
    for index in 0..page.cell_count() {
        let payload = page.index(index).ok()?.payload;
        if payload.overflow.is_some() {
            return None;
        }
        match Record::new(payload.local).ok()?.column(column).ok()?? {
            ValueRef::Int(int) => ints.push(int),
            _ => return None,
        }
    }
    Some(ints.into())
}

impl Transaction {
    /// The decoded tree of the index at `root`, whose first column is ordered by `column`; `None`
    /// for a writer, and for a tree with any fault.
    pub(crate) fn index_tree(&self, root: Pgno, column: KeyColumn) -> Option<Arc<IndexTree>> {
        if self.is_writer() {
            return None;
        }
        let tree =
            self.snapshot.image.index_trees.get(root, || IndexTree::build(self, root, column));
        tree.filter(|tree| tree.column() == column)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_search_among_spread_integers_ends_where_a_binary_search_does(
            mut ints in prop::collection::vec((any::<i64>(), 0_u32..64), 0..300),
            keys in prop::collection::vec((any::<i64>(), 0_u32..64), 1..20),
        ) {
            ints.sort_by_key(|(int, shift)| int >> shift);
            let ints: Vec<i64> = ints.into_iter().map(|(int, shift)| int >> shift).collect();
            let keys = keys.into_iter().map(|(int, shift)| int >> shift);
            for key in keys.chain(ints.iter().copied()).chain([i64::MIN, i64::MAX]) {
                for passed in [Order::Less, Order::Equal] {
                    let expect = ints.partition_point(|known| known.cmp(&key) <= passed);
                    prop_assert_eq!(partition_spread(&ints, key, passed), expect);
                }
            }
        }
    }
}
