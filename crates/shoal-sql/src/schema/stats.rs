//! Statistics: the number of rows, and of rows with an equal key: from `sqlite_stat1` after an
//! `ANALYZE`, otherwise from a sample in the middle of each tree.
//!
//! The numbers choose plans and nothing else; stale numbers cost time, not truth.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use shoal_store::{BtreeKind, KeyColumn, KeyOrder, Page, Record, Transaction, ValueRef};

use super::key_samples::{KeySample, KeySamples};
use super::row_sample::RowSample;
use super::{Index, Schema, Table};
use crate::value::Value;

/// The tables `ANALYZE` writes statistics to: averages, and samples of keys where SQLite was
/// compiled to take them.
const STATISTICS: &str = "sqlite_stat1";
const SAMPLES: &str = "sqlite_stat4";

/// Statistics of one tree.
#[derive(Debug, Default)]
pub(crate) struct TreeStats {
    analysed: OnceLock<Keys>,
    /// `None` where the tree could not be looked into.
    sampled: OnceLock<Option<Sampled>>,
    /// The key by many leaves, where the numbers of an `ANALYZE` cannot be true of the tree.
    refuted: OnceLock<Keys>,
    /// Samples of the key by an `ANALYZE`, in the tree's order.
    key_samples: OnceLock<KeySamples>,
    /// Rows of a table; `None` where there is no looking at them.
    rows: OnceLock<Option<RowSample>>,
}

/// The number of rows, and the number of rows with equal values in the first columns of the key, by
/// count of columns.
#[derive(Debug)]
struct Keys {
    rows: f64,
    per_key: Vec<f64>,
}

#[derive(Debug)]
struct Sampled {
    keys: Keys,
    pages: f64,
    /// Of an index on a table with rowids, the share of entries whose row is near that of the entry
    /// before.
    clustered: Option<f64>,
    /// Values of the key's first column, in the tree's order, with about as many rows between each
    /// two.
    marks: Vec<Value>,
}

/// Rowids no further apart are taken to lie on one page.
const NEAR_ROWS: u64 = 64;

/// Statistics of a tree of fewer rows are believed: whatever is planned by them is soon done.
const FEW_ROWS: f64 = 20.0;

/// Statistics naming so many times more rows than a look at the tree, or so many times fewer, are
/// of another time.
const STALE: f64 = 10.0;

/// Leaves looked at where one leaf and an `ANALYZE` contradict each other.
const LEAVES_ASKED: usize = 32;

/// Leaves looked at where the one in the middle has few different keys, and nobody ran an
/// `ANALYZE`; and how many different keys are few.
const FURTHER_LEAVES: usize = 32;
const RUNS_FEW: f64 = 8.0;

/// Most rows read of a table of statistics.
const STATISTICS_MAX: usize = 1 << 17;

/// Most marks kept of a tree.
const MARKS_MAX: usize = 64;

impl TreeStats {
    fn keys(&self) -> Option<&Keys> {
        let sampled = || self.sampled.get()?.as_ref().map(|sampled| &sampled.keys);
        self.analysed().or_else(|| self.refuted.get()).or_else(sampled)
    }

    /// The numbers of an `ANALYZE`, unless the tree is of another size by now, or has other keys.
    fn analysed(&self) -> Option<&Keys> {
        let analysed = self.analysed.get().filter(|_| self.refuted.get().is_none())?;
        let sampled = self.sampled.get().and_then(Option::as_ref);
        let is_stale = sampled.is_some_and(|sampled| analysed.is_stale(&sampled.keys));
        (!is_stale).then_some(analysed)
    }

    /// Estimated number of pages read for each row by a walk over the whole tree.
    fn pages_per_row(&self) -> Option<f64> {
        let sampled = self.sampled.get()?.as_ref()?;
        Some(sampled.pages / sampled.keys.rows.max(1.0))
    }

    fn pages(&self) -> Option<f64> {
        Some(self.sampled.get()?.as_ref()?.pages)
    }

    /// The samples of the key, and the averages of the same `ANALYZE`, unless the tree is of
    /// another size by now, or has other keys.
    fn key_samples(&self) -> Option<(&KeySamples, &Keys)> {
        let samples = self.key_samples.get().filter(|samples| !samples.is_empty())?;
        Some((samples, self.analysed()?))
    }

    /// Estimated number of rows with these first values of the key.
    fn rows_equal(&self, order: impl FnOnce() -> KeyOrder, key: &[Value]) -> Option<f64> {
        let (samples, keys) = self.key_samples()?;
        let per_key = *keys.per_key.get(key.len().checked_sub(1)?)?;
        samples.rows_equal(&order(), key, (keys.rows, per_key))
    }

    /// The share of rows between two values of the first column by the samples of the key.
    fn sampled_share(
        &self,
        order: &KeyOrder,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Option<f64> {
        let (samples, keys) = self.key_samples()?;
        let rows = keys.rows.max(1.0);
        let mut ends = [low, high];
        let descending = order.column(0).descending;
        if descending {
            ends.reverse();
        }
        // NULL is in no range, and stands before all values, or behind them.
        let nulls = samples.nulls();
        let (before, behind) = if descending { (0.0, nulls) } else { (nulls, 0.0) };
        let below = |end: Option<&Value>, inclusive| {
            end.map(|value| samples.rows_below(order, value, (rows, inclusive)))
        };
        let first = below(ends[0], false).unwrap_or(before);
        let last = below(ends[1], true).unwrap_or(rows - behind);
        Some(((last - first) / rows).clamp(0.5 / rows, 1.0))
    }

    fn share(&self, order: &KeyOrder, low: Option<&Value>, high: Option<&Value>) -> Option<f64> {
        if let Some(share) = self.sampled_share(order, low, high) {
            return Some(share);
        }
        let marks = &self.sampled.get()?.as_ref()?.marks;
        if marks.is_empty() {
            return None;
        }
        let before = |value: &Value| {
            marks.partition_point(|mark| {
                order.compare_column(0, mark.as_ref(), value.as_ref()).is_lt()
            })
        };
        let mut ends = [low.map(before), high.map(before)];
        if order.column(0).descending {
            ends.reverse();
        }
        let first = ends[0].unwrap_or(0);
        let last = ends[1].unwrap_or(marks.len());
        // Between two marks lies a part of a piece.
        Some((last.saturating_sub(first) as f64 + 0.5) / (marks.len() as f64 + 1.0))
    }

    /// Looks into the tree, once; where the leaf in the middle and an `ANALYZE` contradict each
    /// other, into more leaves.
    fn sample(&self, tree: &Tree<'_>, order: impl Fn() -> KeyOrder) {
        self.sampled.get_or_init(|| {
            let mut sampled = tree.look(&order)?;
            let is_told =
                self.analysed.get().is_some_and(|analysed| !analysed.is_stale(&sampled.keys));
            let per_leaf = sampled.keys.rows / sampled.pages.max(1.0);
            if !is_told && sampled.pages >= FURTHER_LEAVES as f64 && tree.columns > 0 {
                tree.look_further(&mut sampled.keys, per_leaf, &order());
            }
            if let Some(analysed) = self.analysed.get()
                && !analysed.is_stale(&sampled.keys)
                && analysed.contradicts(&sampled.keys)
                && let Some(keys) = tree.keys_of_leaves(analysed, &order())
            {
                let _ = self.refuted.set(keys);
            }
            Some(sampled)
        });
    }
}

impl Keys {
    /// True where the tree is of another size by now.
    fn is_stale(&self, now: &Keys) -> bool {
        let (now, then) = (now.rows.max(1.0), self.rows.max(1.0));
        now >= FEW_ROWS && (now / then).max(then / now) >= STALE
    }

    /// True where rows with equal keys are ten times as many here as there, or as few, by any
    /// count of columns.
    fn contradicts(&self, other: &Keys) -> bool {
        let is_far = |(a, b): (&f64, &f64)| (a.max(1.0) / b.max(1.0)).ln().abs() >= STALE.ln();
        self.per_key.iter().zip(&other.per_key).any(is_far)
    }
}

impl Table {
    /// Estimated number of rows; `None` where nobody looked.
    pub(crate) fn row_count(&self) -> Option<f64> {
        let analysed = [&self.stats].into_iter().chain(
            self.indexes.iter().filter(|index| !index.is_partial()).map(|index| &index.stats),
        );
        let mut analysed = analysed.filter_map(TreeStats::analysed);
        let keys = analysed.next().or_else(|| self.stats.keys());
        keys.map(|keys| keys.rows)
    }

    /// Takes a sample of the rows, unless there is one.
    pub(crate) fn sample_rows(&self, txn: &Transaction) {
        self.stats.rows.get_or_init(|| RowSample::take(self, txn));
    }

    /// The sample of the rows, where one was taken.
    pub(crate) fn row_sample(&self) -> Option<&RowSample> {
        self.stats.rows.get()?.as_ref()
    }

    /// Estimated number of pages read for each row by a walk over the table.
    pub(crate) fn pages_per_row(&self) -> Option<f64> {
        self.stats.pages_per_row()
    }

    /// Estimated number of the table's pages.
    pub(crate) fn page_count(&self) -> Option<f64> {
        self.stats.pages()
    }

    /// Estimated number of rows with the same first `columns` of the key, in a table without rowid.
    pub(crate) fn rows_per_key(&self, columns: usize) -> Option<f64> {
        per_key(&self.stats, columns)
    }

    /// Estimated number of rows with these first values of the key of a table without rowid, where
    /// an `ANALYZE` left samples of the key.
    pub(crate) fn rows_equal(&self, key: &[Value]) -> Option<f64> {
        self.without_rowid.then(|| self.stats.rows_equal(|| self.primary_key_order(), key))?
    }

    /// Estimated share of the rows with a rowid, or a first column of the key, between two values.
    pub(crate) fn share(&self, low: Option<&Value>, high: Option<&Value>) -> Option<f64> {
        match self.without_rowid {
            true => self.stats.share(&self.primary_key_order(), low, high),
            false => self.stats.share(&KeyOrder::new(vec![KeyColumn::default()]), low, high),
        }
    }

    /// Looks into the table's trees, once for as long as the schema stays the same.
    ///
    /// Cost: a page for each level of each tree.
    pub(crate) fn sample(&self, txn: &Transaction) {
        let (kind, columns) = match self.without_rowid {
            true => (BtreeKind::Index, self.primary_key.len()),
            false => (BtreeKind::Table, 0),
        };
        let tree = Tree { txn, root: self.root, kind, columns, names_rowid: false };
        self.stats.sample(&tree, || match self.without_rowid {
            true => self.primary_key_order(),
            false => KeyOrder::new(Vec::new()),
        });
        for index in &self.indexes {
            let tree = Tree {
                txn,
                root: index.root,
                kind: BtreeKind::Index,
                columns: index.key_columns,
                names_rowid: !self.without_rowid,
            };
            index.stats.sample(&tree, || index.order());
        }
    }
}

impl Index {
    /// Estimated number of entries with the same first `columns` of the key.
    pub(crate) fn rows_per_key(&self, columns: usize) -> Option<f64> {
        per_key(&self.stats, columns)
    }

    /// Estimated number of entries with these first values of the key, where an `ANALYZE` left
    /// samples of the key.
    pub(crate) fn rows_equal(&self, key: &[Value]) -> Option<f64> {
        self.stats.rows_equal(|| self.order(), key)
    }

    /// Estimated share of the entries with a first column between two values.
    pub(crate) fn share(&self, low: Option<&Value>, high: Option<&Value>) -> Option<f64> {
        self.stats.share(&self.order(), low, high)
    }

    /// The share of entries whose row is near that of the entry before; `None` where nobody looked.
    pub(crate) fn clustered(&self) -> Option<f64> {
        self.stats.sampled.get()?.as_ref()?.clustered
    }

    /// Estimated number of entries.
    pub(crate) fn entry_count(&self) -> Option<f64> {
        self.stats.keys().map(|keys| keys.rows)
    }

    /// Estimated number of the index's pages.
    pub(crate) fn page_count(&self) -> Option<f64> {
        self.stats.pages()
    }

    /// Estimated number of pages read for each entry by a walk over the index.
    pub(crate) fn pages_per_row(&self) -> Option<f64> {
        self.stats.pages_per_row()
    }
}

fn per_key(stats: &TreeStats, columns: usize) -> Option<f64> {
    let keys = stats.keys()?;
    keys.per_key.get(columns.checked_sub(1)?).copied()
}

/// The tree of an index by its name: its statistics, the number of its key's columns, the
/// index, and its table. A table without rowid is an index of its own.
type NamedTree<'s> = (&'s TreeStats, usize, Option<&'s Index>, &'s Table);

/// Samples by the address of the statistics they belong to.
type Samples<'s> = FxHashMap<*const TreeStats, (NamedTree<'s>, KeySamples)>;

/// A tree to look into.
struct Tree<'t> {
    txn: &'t Transaction,
    root: shoal_store::Pgno,
    kind: BtreeKind,
    /// The number of the key's columns.
    columns: usize,
    /// True where an entry's last value is a rowid.
    names_rowid: bool,
}

/// The keys of one leaf.
struct LeafKeys<'p> {
    /// By count of columns, the number of runs of equal keys.
    runs: Vec<usize>,
    /// Number of entries with a row near the row of the entry before.
    near: usize,
    /// The first entry's key.
    first: Vec<ValueRef<'p>>,
    /// True where no key goes on on overflow pages before its last column.
    are_whole: bool,
}

impl Tree<'_> {
    /// Counts the runs of equal keys on the leaf in the middle.
    fn look(&self, order: impl FnOnce() -> KeyOrder) -> Option<Sampled> {
        let sample = self.txn.sample(self.root, self.kind).ok()?;
        let rows = sample.count as f64;
        let pages = sample.leaves as f64;
        let entries = sample.leaf.cell_count();
        let marks = marks(&sample.root, &sample.children, self.kind);
        if self.columns == 0 || entries == 0 {
            let keys = Keys { rows, per_key: Vec::new() };
            return Some(Sampled { keys, pages, clustered: None, marks });
        }
        let LeafKeys { runs, near, .. } = self.keys_of(&sample.leaf, &order())?;
        let per_key = runs.into_iter().map(|runs| {
            // One value on the whole leaf may go on for long.
            let guess = if runs == 1 && sample.leaves > 1 { rows / 10.0 } else { 0.0 };
            (entries as f64 / runs as f64).max(guess)
        });
        let keys = Keys { rows, per_key: per_key.collect() };
        let clustered =
            (self.names_rowid && entries > 1).then(|| near as f64 / (entries - 1) as f64);
        Some(Sampled { keys, pages, clustered, marks })
    }

    /// Counts the rows of equal keys by the changes from one key to the next on several leaves, for
    /// the first columns with few different keys: a run going on over many leaves has one change.
    fn look_further(&self, keys: &mut Keys, per_leaf: f64, order: &KeyOrder) -> Option<()> {
        let is_few = |rows: &&f64| **rows * RUNS_FEW > per_leaf;
        let mut counted = Changes {
            changes: vec![0; keys.per_key.iter().take_while(is_few).count()],
            steps: 0,
            order,
        };
        if counted.changes.is_empty() {
            return None;
        }
        let leaves = self.txn.sample_leaves(self.root, self.kind, FURTHER_LEAVES).ok()?;
        for leaf in leaves.iter().filter(|leaf| leaf.cell_count() > 1) {
            let last = leaf.cell_count() - 1;
            counted.steps += last;
            let (first, end) = (counted.key(leaf, 0)?, counted.key(leaf, last)?);
            counted.between(leaf, (0, &first), (last, &end))?;
        }
        for (rows, changes) in keys.per_key.iter_mut().zip(&counted.changes) {
            *rows = match changes {
                0 => rows.max(counted.steps as f64),
                changes => (counted.steps as f64 / *changes as f64).max(1.0),
            };
        }
        Some(())
    }

    fn keys_of<'p>(&self, leaf: &Page<'p>, order: &KeyOrder) -> Option<LeafKeys<'p>> {
        let mut runs = vec![1_usize; self.columns];
        let (mut first, mut before): (Vec<ValueRef<'p>>, Vec<ValueRef<'p>>) = Default::default();
        let (mut rowid_before, mut near) = (None, 0_usize);
        let mut are_whole = true;
        for cell in 0..leaf.cell_count() {
            let key = match self.kind {
                BtreeKind::Index => leaf.index(cell).ok()?.payload.local,
                BtreeKind::Table => return None,
            };
            // A key continued on overflow pages is compared by its part on this page.
            let values = Record::new(key).map(|record| record.values()).ok();
            if let (true, Some(values)) = (self.names_rowid, values.clone()) {
                let rowid = match values.last() {
                    Some(Ok(ValueRef::Int(rowid))) => Some(rowid),
                    _ => None,
                };
                if let (Some(rowid), Some(before)) = (rowid, rowid_before) {
                    near += usize::from(rowid.abs_diff(before) <= NEAR_ROWS);
                }
                rowid_before = rowid;
            }
            let key: Vec<ValueRef<'_>> = values
                .map(|values| values.take(self.columns).map_while(Result::ok).collect())
                .unwrap_or_default();
            are_whole &= key.len() == self.columns;
            if cell == 0 {
                first.clone_from(&key);
            } else {
                let same = equal_columns(&key, &before, order);
                runs[same.min(self.columns)..].iter_mut().for_each(|runs| *runs += 1);
            }
            before = key;
        }
        Some(LeafKeys { runs, near, first, are_whole })
    }

    /// The numbers of rows with equal keys by many leaves, where the ones of an `ANALYZE` cannot be
    /// true; `None` where they can, or the leaves do not tell: keys on overflow pages are not read.
    ///
    /// A run going on over several leaves is one for each of them, so the leaves never say more
    /// rows with a key than there are on average. They may say less where few leaves are unlike
    /// the others: fewer rows are believed where half of the leaves have as few.
    fn keys_of_leaves(&self, analysed: &Keys, order: &KeyOrder) -> Option<Keys> {
        let leaves = self.txn.sample_leaves(self.root, self.kind, LEAVES_ASKED).ok()?;
        let mut entries = 0;
        let mut all = Vec::with_capacity(leaves.len());
        for leaf in leaves.iter().filter(|leaf| leaf.cell_count() > 0) {
            let keys = self.keys_of(leaf, order)?;
            if !keys.are_whole {
                return None;
            }
            entries += leaf.cell_count();
            all.push((leaf.cell_count() as f64, keys));
        }
        let half = all.len().div_ceil(2);
        let mut is_refuted = false;
        let mut per_key = Vec::with_capacity(self.columns);
        for column in 0..self.columns {
            let runs: usize = all.iter().map(|(_, keys)| keys.runs[column]).sum();
            let average = entries as f64 / runs.max(1) as f64;
            let analysed = analysed.per_key.get(column).copied().unwrap_or(average).max(1.0);
            let mut of_leaf: Vec<f64> =
                all.iter().map(|(entries, keys)| entries / keys.runs[column] as f64).collect();
            of_leaf.sort_by(f64::total_cmp);
            let median = of_leaf.get(of_leaf.len() / 2).copied()?;
            // A value in most of the leaves says nothing of the others.
            let mut told = 0;
            for (number, (_, keys)) in all.iter().enumerate() {
                let before = number.checked_sub(1).map(|before| &all[before].1.first);
                let goes_on =
                    before.is_some_and(|before| equal_columns(&keys.first, before, order) > column);
                told += usize::from(keys.runs[column] > 1 || !goes_on);
            }
            is_refuted |=
                average >= STALE * analysed && told >= half || analysed >= STALE * 2.0 * median;
            per_key.push(average);
        }
        let rows = analysed.rows;
        is_refuted.then_some(Keys { rows, per_key })
    }
}

/// The changes from one key to the next on some leaves.
struct Changes<'o> {
    /// By count of columns.
    changes: Vec<usize>,
    /// Pairs of neighbours looked at.
    steps: usize,
    order: &'o KeyOrder,
}

impl Changes<'_> {
    /// The first columns of an entry's key, without parts on overflow pages.
    fn key<'p>(&self, leaf: &Page<'p>, cell: usize) -> Option<Vec<ValueRef<'p>>> {
        let payload = leaf.index(cell).ok()?.payload.local;
        let values = Record::new(payload).ok()?.values();
        Some(values.take(self.changes.len()).map_while(Result::ok).collect())
    }

    /// Counts the changes between two entries of a leaf. Keys ascend: between equal ones is none.
    fn between(
        &mut self,
        leaf: &Page<'_>,
        (first, low): (usize, &[ValueRef<'_>]),
        (last, high): (usize, &[ValueRef<'_>]),
    ) -> Option<()> {
        let same = equal_columns(low, high, self.order);
        if same >= self.changes.len() {
            return Some(());
        }
        if last == first + 1 {
            self.changes[same..].iter_mut().for_each(|changes| *changes += 1);
            return Some(());
        }
        let middle = first.midpoint(last);
        let key = self.key(leaf, middle)?;
        self.between(leaf, (first, low), (middle, &key))?;
        self.between(leaf, (middle, &key), (last, high))
    }
}

/// The number of first columns two keys have in common.
fn equal_columns(a: &[ValueRef<'_>], b: &[ValueRef<'_>], order: &KeyOrder) -> usize {
    let columns = a.iter().zip(b).enumerate();
    columns.take_while(|(place, (a, b))| order.compare_column(*place, **a, **b).is_eq()).count()
}

/// Values of the first column, from cells of a tree's root, and of its children where the root has
/// few.
fn marks(root: &Page<'_>, children: &[Page<'_>], kind: BtreeKind) -> Vec<Value> {
    let value = |page: &Page<'_>, cell: usize| match kind {
        BtreeKind::Table => page.rowid(cell).ok().map(Value::Int),
        BtreeKind::Index => {
            let key = page.index(cell).ok()?.payload.local;
            Record::new(key).ok()?.column(0).ok()?.map(Value::from)
        }
    };
    let of_root = root.cell_count();
    let mut cells: Vec<(&Page<'_>, usize)> = Vec::new();
    if children.is_empty() {
        cells.extend((0..of_root).map(|cell| (root, cell)));
    }
    for (number, child) in children.iter().enumerate() {
        cells.extend((0..child.cell_count()).map(|cell| (child, cell)));
        cells.extend((number < of_root).then_some((root, number)));
    }
    let step = cells.len().div_ceil(MARKS_MAX).max(1);
    cells.into_iter().step_by(step).map_while(|(page, cell)| value(page, cell)).collect()
}

impl Schema {
    /// Reads the statistics of an `ANALYZE`, where there are any. Invalid rows are skipped.
    pub(super) fn read_statistics(&self, txn: &Transaction) {
        self.each_record(STATISTICS, txn, |payload| self.statistics_row(payload));
        // Texts of samples are compared as stored.
        if txn.utf16().is_some() {
            return;
        }
        let mut samples = Samples::default();
        self.each_record(SAMPLES, txn, |payload| self.samples_row(payload, &mut samples));
        for ((stats, _, index, table), mut of_index) in samples.into_values() {
            let order = index.map_or_else(|| table.primary_key_order(), Index::order);
            of_index.sort(&order);
            let _ = stats.key_samples.set(of_index);
        }
    }

    /// Calls `each` with the records of a table written by `ANALYZE`.
    fn each_record(
        &self,
        table: &str,
        txn: &Transaction,
        mut each: impl FnMut(&[u8]) -> Option<()>,
    ) {
        let Some(statistics) = self.table(table).filter(|table| !table.without_rowid) else {
            return;
        };
        let Ok(mut cursor) = txn.table(statistics.root) else { return };
        let mut more = cursor.first();
        for _ in 0..STATISTICS_MAX {
            let Ok(true) = more else { return };
            if let Ok(payload) = cursor.payload() {
                let _ = each(payload);
            }
            more = cursor.next();
        }
    }

    /// The tree of an index by its names in statistics, with its key.
    fn tree_named(&self, table: &str, index: &str) -> Option<NamedTree<'_>> {
        let table = self.table(table)?;
        let known = table.indexes.iter().find(|known| known.name.eq_ignore_ascii_case(index));
        match known {
            Some(index) if index.has_known_order() => {
                Some((&index.stats, index.key_columns, Some(index), table))
            }
            // The key of a table without rowid goes by the table's name.
            None if table.without_rowid && index.eq_ignore_ascii_case(&table.name) => {
                Some((&table.stats, table.primary_key.len(), None, table))
            }
            _ => None,
        }
    }

    fn samples_row<'s>(&'s self, payload: &[u8], samples: &mut Samples<'s>) -> Option<()> {
        let record = Record::new(payload).ok()?;
        let text = |column| match record.column(column) {
            Ok(Some(ValueRef::Text(bytes))) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let tree = self.tree_named(text(0)?, text(1)?)?;
        let (stats, columns, ..) = tree;
        let Ok(Some(ValueRef::Blob(sample))) = record.column(5) else { return None };
        let sample = KeySample::read([text(2)?, text(3)?, text(4)?], sample, columns)?;
        let slot = samples.entry(std::ptr::from_ref(stats));
        slot.or_insert_with(|| (tree, KeySamples::default())).1.push(sample);
        Some(())
    }

    fn statistics_row(&self, payload: &[u8]) -> Option<()> {
        let record = Record::new(payload).ok()?;
        let text = |column| match record.column(column) {
            Ok(Some(ValueRef::Text(bytes))) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let table = self.table(text(0)?)?;
        // Words such as `sz=100` follow the numbers.
        let mut numbers = text(2)?
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok().filter(|number: &f64| number.is_finite()));
        let rows: f64 = numbers.next()?;
        let keys = Keys { rows, per_key: numbers.collect() };
        let named = text(1);
        let index = named.and_then(|name| {
            table.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name))
        });
        let stats = match index {
            Some(index) => &index.stats,
            // The key of a table without rowid goes by the table's name.
            None if named.is_none_or(|name| name.eq_ignore_ascii_case(&table.name)) => &table.stats,
            None => return None,
        };
        stats.analysed.set(keys).ok()
    }
}
