//! Rows whose values are computed many at a time.
//!
//! A scan that takes its rows from a pipeline has some of them at hand at any time. What conditions,
//! columns of the result and arguments of aggregates need of those is put into columns, one for each
//! register, and their codes run over the columns (`eval`). Rows that a condition leaves out are gone
//! before the next one is asked, and before the columns are read that no condition needs.

mod column;
mod eval;
mod groups;
mod rows;

pub(super) use column::Column;
use column::RowBits;
use eval::{Rows, list};
pub(crate) use rows::ComputedRow;

use super::Machine;
use super::pipeline::CHUNK;
use crate::Error;
use crate::keep::KeySet;
use crate::plan::{Code, ColumnTable, Op, Reg, When};
use crate::value::{Value, ValueRef};

/// Most rows that are computed together.
pub(crate) const ROWS_MAX: usize = CHUNK;

/// What codes read that is the same for all rows, and what runs their queries.
pub(super) struct World<'w, 'm, 't> {
    pub(super) table: &'w ColumnTable,
    pub(super) machine: &'w mut Machine<'m, 't>,
}

/// Rows that are found and whose columns can be read.
pub(super) trait Readable {
    /// How many they are, at most [`ROWS_MAX`].
    fn len(&self) -> usize;
    /// Appends what an output is of all rows, or of those that `wanted` names.
    fn read(&self, output: usize, wanted: Option<&[u8]>, column: &mut Column);
}

/// The columns of some rows, and what computing them needs and keeps.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// The column that has each one's values: itself, or one that was read and that it is a copy of.
    holders: Vec<usize>,
    /// How many of them are read.
    loaded: usize,
    /// How many rows there are.
    rows: usize,
    /// What failed of the row behind the last.
    failed: Option<Error>,
    /// Which of the rows that were read these are.
    origins: Vec<u8>,
    /// What the operation at hand gives.
    out: Column,
    /// Rows that have jumped, and where to; the numbers of those that are at an operation.
    waiting: Vec<(usize, RowBits)>,
    listed: Vec<u8>,
    arguments: Vec<Value>,
    /// What the query at hand reads of a row: registers and columns.
    read: Vec<(Reg, usize)>,
    converted: Vec<f64>,
    /// The lists of constants that are looked in, by their numbers.
    sets: Vec<(usize, KeySet)>,
}

impl Columns {
    /// Takes rows: those that meet the conditions stay, and `early` of `loaded` columns are read before
    /// those are asked, the others behind them.
    pub(super) fn take(
        &mut self,
        rows: &impl Readable,
        (early, loaded): (usize, usize),
        conditions: &[Code],
        world: &mut World<'_, '_, '_>,
    ) {
        self.begin(rows.len(), loaded, world);
        let early = if conditions.is_empty() { loaded } else { early };
        for output in 0..early {
            rows.read(output, None, &mut self.columns[output]);
        }
        self.ask(conditions, early, world);
        let wanted = (self.rows < rows.len()).then_some(&*self.origins);
        for output in early..loaded {
            rows.read(output, wanted, &mut self.columns[output]);
        }
    }

    /// Makes room for so many rows.
    fn begin(&mut self, rows: usize, loaded: usize, world: &World<'_, '_, '_>) {
        self.columns.resize_with(world.table.count(), Column::default);
        self.columns.iter_mut().for_each(Column::clear);
        self.holders.clear();
        self.holders.extend(0..self.columns.len());
        (self.rows, self.loaded, self.failed) = (rows, loaded, None);
        self.origins.clear();
        // There are no more rows than numbers of this size.
        self.origins.extend((0..=u8::MAX).take(rows));
    }

    /// Leaves the rows that meet conditions, of which so many columns were read.
    fn ask(&mut self, conditions: &[Code], read: usize, world: &mut World<'_, '_, '_>) {
        for condition in conditions {
            if self.rows == 0 && self.failed.is_none() {
                return;
            }
            self.eval(condition, world);
            let mut kept = std::mem::take(&mut self.listed);
            kept.clear();
            list(self.which(When::True, condition.result, Rows::All(self.rows), world), &mut kept);
            if kept.len() < self.origins.len() {
                for column in &mut self.columns[..read] {
                    column.retain(&kept);
                }
                for (to, &from) in kept.iter().enumerate() {
                    self.origins[to] = self.origins[usize::from(from)];
                }
                self.origins.truncate(kept.len());
            }
            self.rows = kept.len();
            self.listed = kept;
        }
    }

    /// Runs codes for the rows.
    pub(super) fn compute<'c>(
        &mut self,
        codes: impl Iterator<Item = &'c Code>,
        world: &mut World<'_, '_, '_>,
    ) {
        for code in codes {
            self.eval(code, world);
        }
    }

    /// How many rows there are.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// What failed of the row behind the last, if something did.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// The value of a row, by the number of its column.
    #[inline(always)]
    pub(super) fn value(&self, column: usize, row: usize) -> ValueRef<'_> {
        self.column(column).value(row)
    }

    #[inline]
    fn column(&self, number: usize) -> &Column {
        &self.columns[self.holders[number]]
    }
}

impl Code {
    /// Whether it runs a query.
    pub(crate) fn runs_query(&self) -> bool {
        self.ops.iter().any(|op| {
            matches!(
                op,
                Op::InQuery { .. } | Op::Exists { .. } | Op::Scalar { .. } | Op::RowInQuery { .. }
            )
        })
    }
}
