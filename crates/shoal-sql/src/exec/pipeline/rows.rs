//! The rows of a pipeline, given one after the other.

use std::ops::Range;

use shoal_store::Transaction;

use super::run::{Memory, Start};
use super::slots::fixed;
use crate::Error;
use crate::plan::node::{Access, Node, OutputPlace, Pipeline};
use crate::value::{Value, ValueRef};

/// Batches grow up to this many rows.
const BATCH_ROWS_MAX: usize = 128;

/// Rows of the first batch: most lookups by an index find no more, and a scan that is left early
/// has lost little.
const BATCH_ROWS_MIN: usize = 8;

/// Where the giving of rows stands. All that is larger is in the [`Memory`].
#[derive(Debug)]
pub(crate) struct PipelineRows {
    /// How many rows the next batch is to have.
    size: usize,
    /// Rows that come after the batch and are to be passed over and to be given.
    offset: u64,
    limit: u64,
    /// Whether they are those of a compound whose parts were compared.
    combined: bool,
}

impl PipelineRows {
    /// The rows behind the first `offset`, at most `limit` of them.
    #[inline]
    pub(crate) fn new(limit: u64, offset: u64) -> PipelineRows {
        PipelineRows { size: BATCH_ROWS_MIN, offset, limit, combined: false }
    }

    /// Begins a part, within what the parts before left of the bounds.
    #[inline]
    pub(crate) fn begin(&mut self, memory: &mut Memory) {
        memory.start = Start::Fresh;
        self.begin_batches();
    }

    /// The size of the first batch: all rows at once, where the bounds leave no more than a batch has.
    #[inline]
    fn begin_batches(&mut self) {
        let wanted = self.limit.saturating_add(self.offset);
        self.size = if wanted <= BATCH_ROWS_MAX as u64 { wanted as usize } else { BATCH_ROWS_MIN };
    }

    /// Begins the next part of a compound that was combined, within what the parts before left of the
    /// bounds.
    pub(crate) fn begin_kept(&mut self, memory: &mut Memory) {
        memory.clear();
        self.begin_batches();
    }

    /// Which of the rows of a compound that was combined are given; `None` where each part gives its own.
    pub(crate) fn combined(&mut self, memory: &Memory) -> Option<Range<usize>> {
        if memory.start == Start::Kept {
            return None;
        }
        self.combined = true;
        Some(self.take(memory.rows))
    }

    /// Whether the rows are those of several parts, as values.
    #[inline]
    pub(crate) fn are_combined(&self) -> bool {
        self.combined
    }

    /// Whether the bounds leave room for more rows.
    pub(crate) fn wants_more(&self) -> bool {
        self.limit > 0
    }

    /// Makes a new batch: which of its rows are given; none when no row is left.
    ///
    /// # Errors
    /// What is wrong with the file.
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
        match &pipeline.node {
            Node::Point { key } if memory.start == Start::Fresh => {
                memory.start = Start::Done;
                memory.leaf.clear();
                pipeline.look_up(key, txn, parameters, memory)?;
                return Ok(self.take(memory.leaf.len()));
            }
            Node::Seek(_) if memory.start == Start::Fresh => {
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

    /// The same for rows that are not looked up one by one.
    #[inline(never)]
    fn fill_many(
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
            pipeline.fill(txn, parameters, memory, size)?;
            self.size = (self.size * 8).min(BATCH_ROWS_MAX);
            let places = pipeline.is_lazy(memory);
            let given = self.take(if places { memory.leaf.len() } else { memory.rows });
            if !given.is_empty() {
                return Ok(given);
            }
        }
        Ok(0..0)
    }

    /// Which rows of a batch of so many the bounds leave.
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
    /// What of a row an output is.
    #[inline(always)]
    pub(crate) fn given(&self, output: usize) -> OutputPlace {
        self.given.get(output).copied().unwrap_or(OutputPlace::FIXED)
    }

    /// The value of an output that is nothing of the row; NULL where there is no such output.
    #[inline(never)]
    fn fixed<'v>(&'v self, output: usize, parameters: &'v [Value]) -> ValueRef<'v> {
        let outputs = self.outputs.as_deref().unwrap_or_default();
        outputs.get(output).map_or(ValueRef::Null, |operand| fixed(operand, parameters))
    }

    /// The value of an output that a row to be given does not tell: nothing of it, NULL of a row that is none,
    /// or a long one of a joined row; `fields` is where the row's fields begin.
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

    /// A value of a row that is kept as slots, by the numbers of the row in the batch and of the output.
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

    /// Calls `each` with the integers that an output is of rows of the batch, until it is false or there is
    /// another value; gives the rows from there on. There may be integers of which it is not told.
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

    /// How many rows the table of a `count(*)` has: its leaves' counts of cells.
    pub(crate) fn count_rows(&self, txn: &Transaction) -> Result<i64, Error> {
        let root = match &self.levels[0].access {
            Access::Rows { root, .. } => *root,
            Access::Index(access) => {
                let Some(&root) = self.indexes.get(access.lookup) else { return Ok(0) };
                let count = txn.count_entries(root)?;
                return Ok(i64::try_from(count).unwrap_or(i64::MAX));
            }
            Access::Rowid { .. } | Access::Any { .. } | Access::Common { .. } => return Ok(0),
        };
        Ok(i64::try_from(txn.count_rows(root)?).unwrap_or(i64::MAX))
    }
}
