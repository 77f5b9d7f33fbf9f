//! Statistics: the number of rows, and of rows with an equal key: from `sqlite_stat1` after an
//! `ANALYZE`, otherwise from a sample in the middle of each tree.
//!
//! The numbers choose plans and nothing else; stale numbers cost time, not truth.

use std::sync::OnceLock;

use shoal_store::{BtreeKind, KeyColumn, KeyOrder, Page, Record, Transaction, ValueRef};

use super::row_sample::RowSample;
use super::{Index, Schema, Table};
use crate::value::Value;

/// The table `ANALYZE` writes statistics to.
const STATISTICS: &str = "sqlite_stat1";

/// Statistics of one tree.
#[derive(Debug, Default)]
pub(crate) struct TreeStats {
    analysed: OnceLock<Keys>,
    /// `None` where the tree could not be looked into.
    sampled: OnceLock<Option<Sampled>>,
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

/// Most marks kept of a tree.
const MARKS_MAX: usize = 64;

impl TreeStats {
    fn keys(&self) -> Option<&Keys> {
        self.analysed().or_else(|| self.sampled.get()?.as_ref().map(|sampled| &sampled.keys))
    }

    /// The numbers of an `ANALYZE`, unless the tree is of another size by now.
    fn analysed(&self) -> Option<&Keys> {
        let analysed = self.analysed.get()?;
        let sampled = self.sampled.get().and_then(Option::as_ref);
        let is_stale = sampled.is_some_and(|sampled| {
            let (now, then) = (sampled.keys.rows.max(1.0), analysed.rows.max(1.0));
            now >= FEW_ROWS && (now / then).max(then / now) >= STALE
        });
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

    fn share(&self, order: &KeyOrder, low: Option<&Value>, high: Option<&Value>) -> Option<f64> {
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

    fn sample(&self, look: impl FnOnce() -> Option<Sampled>) {
        self.sampled.get_or_init(look);
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
        self.stats.sample(|| match self.without_rowid {
            true => look(txn, self.root, BtreeKind::Index, (self.primary_key.len(), false), || {
                self.primary_key_order()
            }),
            false => {
                look(txn, self.root, BtreeKind::Table, (0, false), || KeyOrder::new(Vec::new()))
            }
        });
        for index in &self.indexes {
            index.stats.sample(|| {
                let key = (index.key_columns, !self.without_rowid);
                look(txn, index.root, BtreeKind::Index, key, || index.order())
            });
        }
    }
}

impl Index {
    /// Estimated number of entries with the same first `columns` of the key.
    pub(crate) fn rows_per_key(&self, columns: usize) -> Option<f64> {
        per_key(&self.stats, columns)
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

/// Counts the runs of equal keys on the leaf in the middle of a tree. With true beside the number
/// of columns, an entry's last value is a rowid.
fn look(
    txn: &Transaction,
    root: shoal_store::Pgno,
    kind: BtreeKind,
    (columns, names_rowid): (usize, bool),
    order: impl FnOnce() -> KeyOrder,
) -> Option<Sampled> {
    let sample = txn.sample(root, kind).ok()?;
    let rows = sample.count as f64;
    let pages = sample.leaves as f64;
    let entries = sample.leaf.cell_count();
    let marks = marks(&sample.root, kind);
    if columns == 0 || entries == 0 {
        let keys = Keys { rows, per_key: Vec::new() };
        return Some(Sampled { keys, pages, clustered: None, marks });
    }
    let order = order();
    let mut runs = vec![1_usize; columns];
    let mut before: Vec<ValueRef<'_>> = Vec::new();
    let (mut rowid_before, mut near) = (None, 0_usize);
    for cell in 0..entries {
        let key = match kind {
            BtreeKind::Index => sample.leaf.index(cell).ok()?.payload.local,
            BtreeKind::Table => return None,
        };
        // A key continued on overflow pages is compared by its part on this page.
        let values = Record::new(key).map(|record| record.values()).ok();
        if let (true, Some(values)) = (names_rowid, values.clone()) {
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
            .map(|values| values.take(columns).map_while(Result::ok).collect())
            .unwrap_or_default();
        if cell > 0 {
            let same = key
                .iter()
                .zip(&before)
                .enumerate()
                .take_while(|(place, (a, b))| order.compare_column(*place, **a, **b).is_eq());
            let same = same.count();
            runs[same.min(columns)..].iter_mut().for_each(|runs| *runs += 1);
        }
        before = key;
    }
    let per_key = runs.into_iter().map(|runs| {
        // One value on the whole leaf may go on for long.
        let guess = if runs == 1 && sample.leaves > 1 { rows / 10.0 } else { 0.0 };
        (entries as f64 / runs as f64).max(guess)
    });
    let keys = Keys { rows, per_key: per_key.collect() };
    let clustered = (names_rowid && entries > 1).then(|| near as f64 / (entries - 1) as f64);
    Some(Sampled { keys, pages, clustered, marks })
}

/// Values of the first column, from cells of a tree's root.
fn marks(root: &Page<'_>, kind: BtreeKind) -> Vec<Value> {
    let count = root.cell_count();
    let step = count.div_ceil(MARKS_MAX).max(1);
    let value = |cell: usize| match kind {
        BtreeKind::Table => root.rowid(cell).ok().map(Value::Int),
        BtreeKind::Index => {
            let key = root.index(cell).ok()?.payload.local;
            Record::new(key).ok()?.column(0).ok()?.map(Value::from)
        }
    };
    (0..count).step_by(step).map_while(value).collect()
}

impl Schema {
    /// Reads the statistics of an `ANALYZE`, where there are any. Invalid rows are skipped.
    pub(super) fn read_statistics(&self, txn: &Transaction) {
        let Some(statistics) = self.table(STATISTICS) else { return };
        let Ok(mut cursor) = txn.table(statistics.root) else { return };
        let mut more = cursor.first();
        while let Ok(true) = more {
            if let Ok(payload) = cursor.payload() {
                self.statistics_row(payload);
            }
            more = cursor.next();
        }
    }

    fn statistics_row(&self, payload: &[u8]) -> Option<()> {
        let record = Record::new(payload).ok()?;
        let text = |column| match record.column(column) {
            Ok(Some(ValueRef::Text(bytes))) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let table = self.table(text(0)?)?;
        // Words such as `sz=100` follow the numbers.
        let mut numbers = text(2)?.split_ascii_whitespace().map_while(|word| word.parse().ok());
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
