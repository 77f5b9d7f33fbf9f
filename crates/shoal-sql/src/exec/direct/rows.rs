//! The rows of a direct select, given one after the other.

use shoal_store::{ColumnPlace, HeaderWalk, TableCursor, Transaction};

use super::plan::{Access, Direct, Operand};
use super::run::{DirectRun, Memory, RecordRef, Start, field_value, parameter};
use crate::Error;
use crate::exec::scan::exact_rowid;
use crate::value::{Value, ValueRef};

/// Batches grow up to this many rows.
const BATCH_ROWS_MAX: usize = 128;

/// Where the giving of rows stands. All that is larger is in the [`Memory`].
#[derive(Debug)]
pub(crate) struct DirectRows {
    /// The next record of the batch.
    next: usize,
    /// The first record of the current row.
    current: usize,
    /// The next row of the batch, and where the fields of the current one begin.
    row: usize,
    fields: usize,
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
        memory.batch.clear();
        memory.found.clear();
        memory.overflow.clear();
        DirectRows { next: 0, current: 0, row: 0, fields: 0, size: 2, offset, limit }
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
            if self.next >= memory.batch.len() && !self.fill(direct, txn, parameters, memory)? {
                return Ok(false);
            }
            self.current = self.next;
            self.next += direct.records.len();
            if self.offset > 0 {
                self.offset -= 1;
                self.row += 1;
                continue;
            }
            if self.limit == 0 {
                return Ok(false);
            }
            self.limit -= 1;
            self.fields = self.row * direct.fields;
            self.row += 1;
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
        let [lookup, ..] = &mut *memory.lookups else { return Ok(false) };
        let Some((page, payload)) = lookup.find(txn, rowid)? else { return Ok(false) };
        if payload.overflow.is_some() {
            memory.start = Start::Fresh;
            DirectRun::new(direct, txn, parameters, memory).fill(1)?;
            self.next = memory.batch.len();
            return Ok(true);
        }
        memory.batch.push(RecordRef {
            page: Some(page.pgno()),
            start: page.offset_of(payload.local) as u32,
            len: payload.local.len() as u32,
            rowid,
            null: false,
        });
        self.next = 1;
        if let [plan, ..] = &*direct.records
            && !plan.places.is_empty()
        {
            let mut walk = HeaderWalk::new(payload.local).map_err(Error::corrupt)?;
            memory.found.resize(plan.places.len(), ColumnPlace::MISSING);
            walk.find_each(payload.local, &plan.places, &mut memory.found)
                .map_err(Error::corrupt)?;
        }
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
        memory.batch.clear();
        memory.found.clear();
        memory.overflow.clear();
        (self.next, self.row) = (0, 0);
        let wanted = usize::try_from(self.limit.saturating_add(self.offset)).unwrap_or(usize::MAX);
        if matches!(memory.start, Start::Done) || wanted == 0 {
            return Ok(false);
        }
        DirectRun::new(direct, txn, parameters, memory).fill(self.size.min(wanted))?;
        self.size = (self.size * 8).min(BATCH_ROWS_MAX);
        Ok(!memory.batch.is_empty())
    }

    /// The first record of the current row, which most columns are in.
    #[inline]
    pub(crate) fn first<'v>(&self, txn: &'v Transaction, memory: &'v Memory) -> &'v [u8] {
        memory.batch.get(self.current).map_or(&[], |at| bytes(txn, &memory.overflow, at))
    }

    /// The value of an output of the current row, whose first record is `first`.
    #[inline]
    pub(crate) fn get<'v>(
        &self,
        direct: &'v Direct,
        txn: &'v Transaction,
        parameters: &'v [Value],
        memory: &'v Memory,
        first: &'v [u8],
        output: usize,
    ) -> ValueRef<'v> {
        let operand = direct.outputs.as_ref().and_then(|outputs| outputs.get(output));
        match operand {
            Some(Operand::Field { record, field, real, missing }) => {
                let Some(at) = memory.batch.get(self.current + record) else {
                    return ValueRef::Null;
                };
                if at.null {
                    return ValueRef::Null;
                }
                let bytes = if *record == 0 { first } else { bytes(txn, &memory.overflow, at) };
                let found = memory.found.get(self.fields + field);
                let found = found.and_then(|found| found.decode(bytes));
                field_value(found, *real, missing)
            }
            Some(Operand::Rowid { record }) => match memory.batch.get(self.current + record) {
                Some(at) if !at.null => ValueRef::Int(at.rowid),
                _ => ValueRef::Null,
            },
            Some(Operand::Constant(value)) => value.as_ref(),
            Some(Operand::Parameter(number)) => parameter(parameters, *number),
            None => ValueRef::Null,
        }
    }
}

/// The bytes of a record of the batch.
#[inline]
fn bytes<'v>(txn: &'v Transaction, overflow: &'v [u8], at: &RecordRef) -> &'v [u8] {
    let range = at.start as usize..at.start as usize + at.len as usize;
    match at.page {
        // The page was read when the row was found, and stays as long as the transaction.
        Some(page) => txn.page_bytes(page).and_then(|bytes| bytes.get(range)).unwrap_or_default(),
        None => overflow.get(range).unwrap_or_default(),
    }
}

impl Direct {
    /// How many rows the table of a `count(*)` has: its leaves' counts of cells.
    pub(crate) fn count_rows(&self, txn: &Transaction) -> Result<i64, Error> {
        let Access::Rows { root, .. } = &self.levels[0].access else { return Ok(0) };
        let mut cursor: TableCursor<'_> = txn.table(*root)?;
        let mut count = 0_i64;
        let mut more = cursor.first()?;
        while more {
            if let Some((page, _)) = cursor.leaf() {
                count = count.saturating_add(i64::try_from(page.cell_count()).unwrap_or(i64::MAX));
            }
            more = cursor.next_leaf()?;
        }
        Ok(count)
    }
}
