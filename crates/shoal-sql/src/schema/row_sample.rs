//! A few hundred rows of a table, from leaves all over the tree: conditions are taken to leave the
//! same share of all rows as of the sample, correlations between columns included.
//!
//! A sample is taken when a join with the table is planned, costs a descent for each leaf, and
//! stays in memory as long as the schema. Samples choose plans and nothing else.

use std::collections::HashMap;
use std::sync::Mutex;

use shoal_store::{BtreeKind, Record, Transaction, ValueRef};

use super::Table;
use crate::value::Value;

/// Leaves to look at.
const LEAVES_MAX: usize = 32;

/// Most rows of a sample: one bit each in [`Rows`].
pub(crate) const SAMPLE_ROWS_MAX: usize = 512;

/// Longest part of a record kept: columns behind are not known.
const RECORD_MAX: usize = 400;

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct RowSample {
    /// The rowid of each row, and the beginning of its record.
    rows: Vec<(i64, Box<[u8]>)>,
    /// True where these are all rows of the table.
    is_whole: bool,
    /// The number of different values of columns, where somebody asked.
    distinct: Mutex<HashMap<usize, Option<f64>>>,
}

/// A set of rows of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows([u64; SAMPLE_ROWS_MAX / 64]);

impl Rows {
    pub(crate) fn insert(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(crate) fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The rows in any of both sets.
    #[must_use]
    pub(crate) fn or(mut self, other: Rows) -> Rows {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }

    /// The rows in both sets.
    #[must_use]
    pub(crate) fn and(mut self, other: Rows) -> Rows {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }
}

impl RowSample {
    /// Looks into the table; `None` where its rows cannot be read, or have texts in UTF-16.
    pub(super) fn take(table: &Table, txn: &Transaction) -> Option<RowSample> {
        if txn.utf16().is_some() {
            return None;
        }
        let kind = if table.without_rowid { BtreeKind::Index } else { BtreeKind::Table };
        let leaves = txn.sample_leaves(table.root, kind, LEAVES_MAX).ok()?;
        let each = SAMPLE_ROWS_MAX / leaves.len().max(1);
        let mut rows = Vec::new();
        let mut is_whole = leaves.len() < LEAVES_MAX;
        for leaf in leaves {
            let count = leaf.cell_count();
            is_whole &= count <= each;
            let step = count.div_ceil(each.max(1)).max(1);
            for cell in (0..count).step_by(step) {
                let (rowid, payload) = match kind {
                    BtreeKind::Table => {
                        let cell = leaf.table_leaf(cell).ok()?;
                        (cell.rowid, cell.payload)
                    }
                    BtreeKind::Index => (0, leaf.index(cell).ok()?.payload),
                };
                let local = payload.local;
                rows.push((rowid, local[..local.len().min(RECORD_MAX)].into()));
            }
        }
        rows.truncate(SAMPLE_ROWS_MAX);
        // Entries of inner pages are rows of a table without rowid as well.
        is_whole &= kind == BtreeKind::Table;
        Some(RowSample { rows, is_whole, distinct: Mutex::default() })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// A column's values by its place in the record, row by row; `None` for unknown values.
    pub(crate) fn column(&self, place: usize) -> impl Iterator<Item = Option<ValueRef<'_>>> {
        self.rows.iter().map(move |(_, record)| Record::new(record).ok()?.column(place).ok()?)
    }

    pub(crate) fn rowids(&self) -> impl Iterator<Item = i64> {
        self.rows.iter().map(|(rowid, _)| *rowid)
    }

    /// About how many different values a column has among `rows` rows, by its place in the record.
    pub(crate) fn distinct(&self, place: usize, rows: f64) -> Option<f64> {
        let mut known = self.distinct.lock().ok()?;
        *known.entry(place).or_insert_with(|| self.count_distinct(place, rows))
    }

    /// Values seen once stand for unseen ones by the square root of the sampled share; values seen
    /// more often are taken to be complete.
    fn count_distinct(&self, place: usize, rows: f64) -> Option<f64> {
        let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut seen = 0_usize;
        for value in self.column(place) {
            let Some(value) = value else { continue };
            let key = match Value::from(value) {
                Value::Null => continue,
                Value::Int(int) => int.to_le_bytes().to_vec(),
                Value::Real(real) => real.to_bits().to_le_bytes().to_vec(),
                Value::Text(bytes) | Value::Blob(bytes) => bytes,
            };
            seen += 1;
            *counts.entry(key).or_default() += 1;
        }
        if seen == 0 {
            return None;
        }
        let once = counts.values().filter(|&&count| count == 1).count() as f64;
        let more = counts.len() as f64 - once;
        let scale = (rows / seen as f64).max(1.0);
        // A column whose values are all different in the sample is likely a key.
        let unseen = if more == 0.0 { scale } else { scale.sqrt() };
        Some((once * unseen + more).clamp(1.0, rows.max(1.0)))
    }
}
