//! The rows of a pipeline, given one after the other.

use std::ops::Range;

use shoal_store::Transaction;

use super::run::{Memory, Start};
use super::slots::fixed;
use crate::Error;
use crate::plan::pipeline::{Access, Operand, OutputPlace, Pipeline, Walk};
use crate::value::{Value, ValueRef};

/// Batches grow up to this many rows.
const BATCH_ROWS_MAX: usize = 128;

/// Rows of the first batch: most lookups by an index find no more, and a scan left early has lost
/// little.
const BATCH_ROWS_MIN: usize = 8;

/// The progress of giving rows. Anything larger is in the [`Memory`].
#[derive(Debug)]
pub(crate) struct PipelineRows {
    /// Number of rows for the next batch.
    size: usize,
    /// Rows behind the batch to be skipped, and to be given.
    offset: u64,
    limit: u64,
    /// True where the rows are a compound's, with its parts compared.
    combined: bool,
}

impl PipelineRows {
    /// The rows behind the first `offset`, at most `limit` of them.
    #[inline]
    pub(crate) fn new(limit: u64, offset: u64) -> PipelineRows {
        PipelineRows { size: BATCH_ROWS_MIN, offset, limit, combined: false }
    }

    /// Begins a part, within the bounds left by the parts before.
    #[inline]
    pub(crate) fn begin(&mut self, memory: &mut Memory) {
        memory.start = Start::Fresh;
        self.begin_batches();
    }

    /// Sets the size of the first batch: all rows at once, where the bounds allow no more than a
    /// batch holds.
    #[inline]
    fn begin_batches(&mut self) {
        let wanted = self.limit.saturating_add(self.offset);
        self.size = if wanted <= BATCH_ROWS_MAX as u64 { wanted as usize } else { BATCH_ROWS_MIN };
    }

    /// Begins the next part of a combined compound, within the bounds left by the parts before.
    pub(crate) fn begin_kept(&mut self, memory: &mut Memory) {
        memory.clear();
        self.begin_batches();
    }

    /// The rows to give of a combined compound; `None` where each part gives its own.
    pub(crate) fn combined(&mut self, memory: &Memory) -> Option<Range<usize>> {
        if memory.start == Start::Kept {
            return None;
        }
        self.combined = true;
        Some(self.take(memory.rows))
    }

    /// True where the rows are several parts', as values.
    #[inline]
    pub(crate) fn are_combined(&self) -> bool {
        self.combined
    }

    /// True where the bounds leave room for more rows.
    pub(crate) fn wants_more(&self) -> bool {
        self.limit > 0
    }

    /// Makes a new batch: the range of its rows to give, empty when no row is left.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        pipeline: &Pipeline,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<Range<usize>, Error> {
        if memory.start == Start::Done || self.limit == 0 {
            return Ok(0..0);
        }
        match &pipeline.walk {
            Walk::Point { key } if memory.start == Start::Fresh => {
                memory.start = Start::Done;
                memory.leaf.clear();
                pipeline.look_up(key, txn, parameters, memory)?;
                return Ok(self.take(memory.leaf.len()));
            }
            Walk::Seek(_) if memory.start == Start::Fresh => {
                memory.leaf.clear();
                memory.sought = pipeline.seek(txn, parameters, memory)?;
                if memory.sought {
                    memory.start = Start::Done;
                    return Ok(self.take(memory.leaf.len()));
                }
            }
            _ => {}
        }
        self.fill_many(pipeline, txn, parameters, memory)
    }

    /// As [`PipelineRows::fill`] for nodes with loops, and for keys with more than a few rows.
    #[inline(never)]
    pub(crate) fn fill_many(
        &mut self,
        pipeline: &Pipeline,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<Range<usize>, Error> {
        while memory.start != Start::Done && self.limit > 0 {
            memory.clear();
            let wanted = self.limit.saturating_add(self.offset);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            let size = pipeline.forced.batch_rows(self.size.min(wanted));
            pipeline.fill(txn, parameters, memory, (size, wanted))?;
            self.size = (self.size * 8).min(BATCH_ROWS_MAX);
            let places = pipeline.is_lazy(memory);
            let given = self.take(if places { memory.leaf.len() } else { memory.rows });
            if !given.is_empty() {
                return Ok(given);
            }
        }
        Ok(0..0)
    }

    /// The rows the bounds leave of a batch of `rows` rows.
    #[inline]
    fn take(&mut self, rows: usize) -> Range<usize> {
        let passed = self.offset.min(rows as u64);
        self.offset -= passed;
        let given = self.limit.min(rows as u64 - passed);
        self.limit -= given;
        // Neither is larger than the number of rows.
        passed as usize..(passed + given) as usize
    }
}

impl Pipeline {
    /// The place of an output in its row.
    #[inline(always)]
    pub(crate) fn given(&self, output: usize) -> OutputPlace {
        self.given.get(output).copied().unwrap_or(OutputPlace::FIXED)
    }

    /// The value of an output independent of the row; NULL for an unknown output.
    #[inline(never)]
    fn fixed<'v>(&'v self, output: usize, parameters: &'v [Value]) -> ValueRef<'v> {
        let outputs = self.outputs.as_deref().unwrap_or_default();
        outputs.get(output).map_or(ValueRef::Null, |operand| fixed(operand, parameters))
    }

    /// Slow path of `Row::get`: constants and parameters, NULLs of an unmatched outer row, and long
    /// values of joined rows; `fields` is where the row's fields begin.
    #[inline(never)]
    pub(crate) fn slow_value<'v>(
        &'v self,
        memory: &'v Memory,
        (fields, output): (u32, usize),
        txn: &'v Transaction,
        parameters: &'v [Value],
    ) -> ValueRef<'v> {
        let given = self.given(output);
        let joined_value =
            if given.is_of_row() { memory.joined_value(fields, given, txn) } else { None };
        joined_value.unwrap_or_else(|| self.fixed(output, parameters))
    }

    /// A value of a row kept as slots, by the numbers of the row in the batch and of the output.
    pub(crate) fn kept<'v>(
        &'v self,
        memory: &'v Memory,
        (row, output): (usize, usize),
        txn: &'v Transaction,
        parameters: &'v [Value],
    ) -> ValueRef<'v> {
        let outputs = self.outputs.as_deref().unwrap_or_default();
        let Some(operand) = outputs.get(output) else { return ValueRef::Null };
        match memory.slots.slots.get(row * outputs.len() + output) {
            Some(&slot) => memory.slots.value(slot, txn, || fixed(operand, parameters)),
            None => ValueRef::Null,
        }
    }

    /// Calls `each` with the integers of an output in rows of the batch, until `each` is false or
    /// another value comes; gives the rows from there on. The loop may end before an integer.
    pub(crate) fn each_near_int(
        &self,
        (memory, txn, _): (&Memory, &Transaction, &[Value]),
        mut rows: Range<usize>,
        output: usize,
        mut each: impl FnMut(i64) -> bool,
    ) -> Range<usize> {
        let given = self.given(output);
        if self.is_lazy(memory) {
            memory.leaf.each_row_until(rows.clone(), txn, |row| {
                let joined_value = row.near_int(given).is_some_and(&mut each);
                rows.start += usize::from(joined_value);
                joined_value
            });
        }
        rows
    }

    /// Calls `each` with the number and the value of each output of a row of the batch.
    #[inline]
    pub(crate) fn each_output(
        &self,
        (memory, txn, parameters): (&Memory, &Transaction, &[Value]),
        row: usize,
        mut each: impl FnMut(usize, ValueRef<'_>),
    ) {
        let outputs = 0..self.outputs.as_deref().map_or(0, <[Operand]>::len);
        if !self.is_lazy(memory) {
            outputs.for_each(|it| each(it, self.kept(memory, (row, it), txn, parameters)));
            return;
        }
        let row = memory.leaf.row(row, txn);
        for output in outputs {
            let value = row.value(self.given(output)).unwrap_or_else(|| {
                self.slow_value(memory, (row.fields_from(), output), txn, parameters)
            });
            each(output, value);
        }
    }

    /// Calls `each` with an output of rows of the batch, by their numbers.
    pub(crate) fn each_ready(
        &self,
        (memory, txn, parameters): (&Memory, &Transaction, &[Value]),
        rows: impl Iterator<Item = usize>,
        output: usize,
        mut each: impl FnMut(ValueRef<'_>),
    ) {
        if !self.is_lazy(memory) {
            rows.for_each(|row| each(self.kept(memory, (row, output), txn, parameters)));
            return;
        }
        let given = self.given(output);
        memory.leaf.each_row(rows, txn, |row| {
            each(row.value(given).unwrap_or_else(|| {
                self.slow_value(memory, (row.fields_from(), output), txn, parameters)
            }));
        });
    }

    /// The number of rows under a `count(*)`: the sum of the leaves' cell counts.
    pub(crate) fn count_rows(&self, txn: &Transaction) -> Result<i64, Error> {
        let root = match &self.levels[0].access {
            Access::Rows { root, .. } => *root,
            Access::Index(access) => {
                let Some(&root) = self.indexes.get(access.lookup) else { return Ok(0) };
                let count = txn.count_entries(root)?;
                return Ok(i64::try_from(count).unwrap_or(i64::MAX));
            }
            Access::Rowid { .. } | Access::Any { .. } | Access::Common { .. } | Access::Hash(_) => {
                return Ok(0);
            }
        };
        Ok(i64::try_from(txn.count_rows(root)?).unwrap_or(i64::MAX))
    }
}
