//! The rows of a direct select, given one after the other.

use shoal_store::{ColumnPlace, Transaction};

use super::leaf::{LeafRow, find};
use super::plan::{Access, Direct, Operand};
use super::run::{Memory, Start, parameter};
use super::slots::{Base, fixed};
use crate::Error;
use crate::exec::scan::exact_rowid;
use crate::value::{Value, ValueRef};

/// Batches grow up to this many rows.
const BATCH_ROWS_MAX: usize = 128;

/// Rows of the first batch: most lookups by an index find no more, and a scan that is left early
/// has lost little.
const BATCH_ROWS_MIN: usize = 8;

/// Where the giving of rows stands. All that is larger is in the [`Memory`].
#[derive(Debug)]
pub(crate) struct DirectRows {
    /// The next row of the batch.
    next: usize,
    /// Where the slots of the current row begin.
    slots: usize,
    /// How many rows the next batch is to have.
    size: usize,
    /// Rows still to be passed over and to be given.
    offset: u64,
    limit: u64,
}

impl DirectRows {
    /// Begins a run.
    pub(crate) fn start(memory: &mut Memory, limit: u64, offset: u64) -> DirectRows {
        memory.start = Start::Fresh;
        memory.clear();
        DirectRows { next: 0, slots: 0, size: BATCH_ROWS_MIN, offset, limit }
    }

    /// Begins the next part, within the same bounds.
    pub(crate) fn start_part(&mut self, memory: &mut Memory) {
        *self = DirectRows::start(memory, self.limit, self.offset);
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
        if let Some(key) = &direct.point
            && memory.start == Start::Fresh
            && self.offset == 0
            && self.limit > 0
        {
            return self.point(direct, key, txn, parameters, memory);
        }
        loop {
            if self.next >= memory.rows && !self.fill(direct, txn, parameters, memory)? {
                return Ok(false);
            }
            let row = self.next;
            self.next += 1;
            if self.offset > 0 {
                self.offset -= 1;
                continue;
            }
            if self.limit == 0 {
                return Ok(false);
            }
            self.limit -= 1;
            self.slots = row * direct.width();
            return Ok(true);
        }
    }

    /// The one row of a lookup.
    #[inline]
    fn point(
        &mut self,
        direct: &Direct,
        key: &Operand,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let key = match key {
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(parameters, *number),
            Operand::Field { .. } | Operand::Rowid { .. } => ValueRef::Null,
        };
        memory.start = Start::Done;
        let rowid = match key {
            ValueRef::Int(rowid) => rowid,
            other => match exact_rowid(&other.into()) {
                Some(rowid) => rowid,
                None => return Ok(false),
            },
        };
        let Memory { lookups, leaf, slots, .. } = memory;
        let [lookup, ..] = &mut **lookups else { return Ok(false) };
        let Some((page, payload)) = lookup.find(txn, rowid)? else { return Ok(false) };
        let (record, base) = if payload.overflow.is_none() {
            (payload.local, Base::of(&page, payload.local))
        } else {
            txn.read_payload(payload, &mut leaf.buffer)?;
            (leaf.buffer.as_slice(), Base::Buffer(&leaf.buffer))
        };
        let (Some(plan), Some(outputs)) = (direct.records.first(), &direct.outputs) else {
            return Ok(false);
        };
        if leaf.fields.is_empty() {
            leaf.fields.resize(plan.places.len(), ColumnPlace::MISSING);
        }
        if !plan.places.is_empty() {
            find(record, &plan.places, &mut leaf.fields, &mut leaf.shape)?;
        }
        let row = LeafRow::new(rowid, record, base, &leaf.fields, parameters);
        row.note(outputs, slots);
        (self.next, self.slots, memory.rows) = (1, 0, 1);
        Ok(true)
    }

    #[inline(never)]
    fn fill(
        &mut self,
        direct: &Direct,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        memory.clear();
        self.next = 0;
        let wanted = usize::try_from(self.limit.saturating_add(self.offset)).unwrap_or(usize::MAX);
        if matches!(memory.start, Start::Done) || wanted == 0 {
            return Ok(false);
        }
        direct.fill(txn, parameters, memory, self.size.min(wanted))?;
        self.size = (self.size * 8).min(BATCH_ROWS_MAX);
        Ok(memory.rows > 0)
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
        let Some(&slot) = memory.slots.slots.get(self.slots + output) else {
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
            Access::Rowid { .. } => return Ok(0),
        };
        Ok(i64::try_from(txn.count_rows(root)?).unwrap_or(i64::MAX))
    }
}
