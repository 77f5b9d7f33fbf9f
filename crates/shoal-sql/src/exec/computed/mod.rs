//! Rows whose values are computed many at a time.
//!
//! A scan over a pipeline has a batch of rows at hand at any time. The values needed by conditions,
//! columns of the result and arguments of aggregates are read into columns, one for each register,
//! and codes run over the columns (`eval`). Rows failing a condition are dropped before the next
//! condition is evaluated, and before columns outside of conditions are read.

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

/// Most rows of a batch.
pub(crate) const ROWS_MAX: usize = CHUNK;

/// The context of codes over columns: the columns' registers, and the machine with constants and
/// queries.
pub(super) struct World<'w, 'm, 't> {
    pub(super) table: &'w ColumnTable,
    pub(super) machine: &'w mut Machine<'m, 't>,
}

/// A batch of found rows with readable columns.
pub(super) trait Readable {
    /// The number of rows, at most [`ROWS_MAX`].
    fn len(&self) -> usize;
    /// Appends the values of an output, for all rows or for the rows in `wanted`.
    fn read(&self, output: usize, wanted: Option<&[u8]>, column: &mut Column);
}

/// The columns of a batch of rows, with the buffers for computing on them.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// The column holding each column's values: the column itself, or a read column it is a copy
    /// of.
    holders: Vec<usize>,
    /// Number of columns read from rows.
    loaded: usize,
    /// Number of rows.
    rows: usize,
    /// The error of the row behind the last.
    failed: Option<Error>,
    /// The numbers of the rows among the rows read.
    origins: Vec<u8>,
    /// The result of the current operation.
    out: Column,
    /// Rows waiting behind a jump, with the operation they continue at; the numbers of the rows at
    /// an operation.
    waiting: Vec<(usize, RowBits)>,
    listed: Vec<u8>,
    arguments: Vec<Value>,
    /// The registers and columns of a row read by the current query.
    read: Vec<(Reg, usize)>,
    converted: Vec<f64>,
    /// The lists of constants behind `IN`, by their numbers.
    sets: Vec<(usize, KeySet)>,
}

impl Columns {
    /// Takes rows: the rows meeting the conditions stay. The first `early` of `loaded` columns are
    /// read before the conditions are evaluated, the others for the rows left.
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

    /// Drops the rows failing a condition, with `read` columns read so far.
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

    /// The number of rows.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The error of the row behind the last, if that row failed.
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
    /// True where the code runs a query.
    pub(crate) fn runs_query(&self) -> bool {
        self.ops.iter().any(|op| {
            matches!(
                op,
                Op::InQuery { .. } | Op::Exists { .. } | Op::Scalar { .. } | Op::RowInQuery { .. }
            )
        })
    }
}
