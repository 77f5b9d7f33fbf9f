//! The rows of a direct select, given one after the other.

use shoal_store::Transaction;

use super::plan::{Access, Direct, Operand};
use super::run::{Memory, Start};
use super::slots::fixed;
use crate::Error;
use crate::value::{Value, ValueRef};

/// Batches grow up to this many rows.
const BATCH_ROWS_MAX: usize = 128;

/// Rows of the first batch: most lookups by an index find no more, and a scan that is left early
/// has lost little.
const BATCH_ROWS_MIN: usize = 8;

/// Where the giving of rows stands. All that is larger is in the [`Memory`].
#[derive(Debug)]
pub(crate) struct DirectRows {
    /// The row behind the current one, and where those of the batch end that are to be given.
    next: usize,
    end: usize,
    /// Whether rows are given as places on pages.
    lazy: bool,
    /// Whether they are those of a compound whose parts were compared.
    combined: bool,
    /// How many rows the next batch is to have.
    size: usize,
    /// Rows that come after the batch and are to be passed over and to be given.
    offset: u64,
    limit: u64,
}

impl DirectRows {
    /// Begins a run.
    pub(crate) fn start(
        direct: &Direct,
        memory: &mut Memory,
        limit: u64,
        offset: u64,
    ) -> DirectRows {
        memory.start = Start::Fresh;
        memory.clear();
        let lazy = direct.is_lazy();
        let combined = false;
        DirectRows { next: 0, end: 0, lazy, combined, size: BATCH_ROWS_MIN, offset, limit }
    }

    /// Begins the next part, within the same bounds.
    pub(crate) fn start_part(&mut self, direct: &Direct, memory: &mut Memory) {
        *self = DirectRows::start(direct, memory, self.limit, self.offset);
    }

    /// Gives the rows of a compound that was combined; whether those of the first part alone are to be
    /// given, and not then those of the others.
    pub(crate) fn start_combined(&mut self, memory: &Memory) -> bool {
        if memory.start == Start::Kept {
            return false;
        }
        (self.lazy, self.combined) = (false, true);
        self.take(memory.rows);
        true
    }

    /// Begins the next part of a compound that was combined, within the same bounds.
    pub(crate) fn start_kept(&mut self, memory: &mut Memory) {
        let (limit, offset, lazy) = (self.limit, self.offset, self.lazy);
        memory.clear();
        let (next, end, combined, size) = (0, 0, false, BATCH_ROWS_MIN);
        *self = DirectRows { next, end, lazy, combined, size, offset, limit };
    }

    /// Whether the bounds leave room for more rows.
    pub(crate) fn wants_more(&self) -> bool {
        self.limit > 0
    }

    /// Moves to the next row; false when there is none.
    ///
    /// # Errors
    /// What is wrong with the file.
    #[inline]
    pub(crate) fn next(
        &mut self,
        direct: &Direct,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        if self.next >= self.end && !self.fill(direct, txn, parameters, memory)? {
            return Ok(false);
        }
        self.next += 1;
        Ok(true)
    }

    /// Makes a new batch; false when no row is left to be given.
    #[inline(never)]
    fn fill(
        &mut self,
        direct: &Direct,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        loop {
            if memory.start == Start::Done || self.limit == 0 {
                return Ok(false);
            }
            memory.clear();
            let wanted = self.limit.saturating_add(self.offset);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            direct.fill(txn, parameters, memory, self.size.min(wanted))?;
            self.size = (self.size * 8).min(BATCH_ROWS_MAX);
            let places = self.lazy || direct.joins;
            if self.take(if places { memory.leaf.len() } else { memory.rows }) {
                return Ok(true);
            }
        }
    }

    /// Begins a batch of so many rows; false when the bounds leave none of them.
    #[inline]
    fn take(&mut self, rows: usize) -> bool {
        let passed = self.offset.min(rows as u64);
        self.offset -= passed;
        let given = self.limit.min(rows as u64 - passed);
        self.limit -= given;
        // Neither is larger than the number of rows.
        (self.next, self.end) = (passed as usize, (passed + given) as usize);
        given > 0
    }

    /// Moves to the next row of the batch; false when it has no more.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> bool {
        let more = self.next < self.end;
        self.next += usize::from(more);
        more
    }

    /// Where the current row was found, where rows are given as places on pages.
    #[inline(always)]
    pub(crate) fn leaf_bytes<'v>(
        &self,
        txn: &'v Transaction,
        memory: &'v Memory,
    ) -> Option<&'v [u8]> {
        self.lazy.then(|| memory.leaf.bytes(self.next.wrapping_sub(1), txn))
    }

    /// The value of an output of the current row, whose bytes are these.
    #[inline(always)]
    pub(crate) fn get_in<'v>(
        &self,
        outputs: &'v [Operand],
        parameters: &'v [Value],
        memory: &'v Memory,
        bytes: &'v [u8],
        output: usize,
    ) -> ValueRef<'v> {
        match outputs.get(output) {
            Some(operand) => {
                memory.leaf.value(self.next.wrapping_sub(1), bytes, operand, parameters)
            }
            None => ValueRef::Null,
        }
    }

    /// The value of an output of the current row.
    #[inline]
    pub(crate) fn get<'v>(
        &self,
        direct: &'v Direct,
        txn: &'v Transaction,
        parameters: &'v [Value],
        memory: &'v Memory,
        output: usize,
    ) -> ValueRef<'v> {
        if output >= direct.width() {
            return ValueRef::Null;
        }
        if direct.joins && !self.combined {
            let number = self.next.wrapping_sub(1);
            return match direct.outputs.as_ref().and_then(|outputs| outputs.get(output)) {
                Some(operand) => memory.joined_value(direct, number, operand, txn, parameters),
                None => ValueRef::Null,
            };
        }
        let place = self.next.wrapping_sub(1).wrapping_mul(direct.width()).wrapping_add(output);
        let Some(&slot) = memory.slots.slots.get(place) else {
            return ValueRef::Null;
        };
        memory.slots.value(slot, txn, || {
            let operand = direct.outputs.as_ref().and_then(|outputs| outputs.get(output));
            operand.map_or(ValueRef::Null, |operand| fixed(operand, parameters))
        })
    }
}

impl Direct {
    /// How many values a row has.
    #[inline]
    fn width(&self) -> usize {
        self.outputs.as_ref().map_or(0, |outputs| outputs.len())
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
            Access::Rowid { .. } | Access::Any { .. } => return Ok(0),
        };
        Ok(i64::try_from(txn.count_rows(root)?).unwrap_or(i64::MAX))
    }
}
