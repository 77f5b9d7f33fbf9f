//! Scans over a pipeline, computing expressions over many rows at a time.

use std::ops::Range;
use std::sync::Arc;

use shoal_store::Transaction;

use super::Machine;
use super::computed::{Column, Columns, ROWS_MAX, Readable, World};
use super::pipeline::{Memory, PipelineRows};
use crate::Error;
use crate::plan::PipelineScan;
use crate::plan::pipeline::Pipeline;
use crate::value::{Value, ValueRef, assign};

/// The state of a scan over a pipeline.
#[derive(Debug)]
pub(super) struct PipelineScanRun {
    memory: Memory,
    rows: PipelineRows,
    /// Rows found and not yet computed.
    ready: Range<usize>,
    /// The computed rows.
    columns: Columns,
    /// The row behind the current one.
    next: usize,
}

impl PipelineScanRun {
    pub(super) fn open(plan: &PipelineScan, machine: &Machine<'_, '_>) -> PipelineScanRun {
        let mut memory = Memory::new(&plan.pipeline);
        if plan.pipeline.keeps_rowids() {
            memory.keep_within(machine.session);
        }
        let mut rows = PipelineRows::new(u64::MAX, 0);
        rows.begin(&mut memory);
        PipelineScanRun { memory, rows, ready: 0..0, columns: Columns::default(), next: 0 }
    }

    /// Begins anew, with the memory of the run before.
    pub(super) fn open_again(&mut self) {
        // An error behind the rows of a run left early is nobody's.
        self.columns.take_failure();
        self.rows = PipelineRows::new(u64::MAX, 0);
        self.rows.begin(&mut self.memory);
        (self.ready, self.next) = (0..0, self.columns.rows());
    }

    /// Puts the next row's values into the registers; false when there is none.
    ///
    /// # Errors
    /// Errors of the file, and of computing the row.
    pub(super) fn next(
        &mut self,
        plan: &PipelineScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        while self.next == self.columns.rows() {
            if let Some(error) = self.columns.take_failure() {
                return Err(error);
            }
            let more = machine.measured(
                plan.pipeline.measure,
                |machine| self.compute(plan, machine),
                |found| found.unwrap_or(0) as u64,
            )?;
            if more.is_none() {
                return Ok(false);
            }
        }
        let row = self.next;
        self.next += 1;
        for &(column, reg) in &plan.given {
            assign(&mut machine.registers[reg], self.columns.value(column, row));
        }
        Ok(true)
    }

    /// Finds more rows and computes them: how many predicates left; `None` when there are no more.
    fn compute(
        &mut self,
        plan: &PipelineScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<Option<usize>, Error> {
        let PipelineScan { pipeline, registers, early, conditions, outputs, table, .. } = plan;
        let txn = machine.txn(pipeline.database)?;
        let parameters = &*Arc::clone(&machine.parameters);
        let memory = &mut self.memory;
        if self.ready.is_empty() {
            self.ready = self.rows.fill(pipeline, txn, parameters, memory)?;
            memory.tell(pipeline, machine.analysis);
        }
        if self.ready.is_empty() {
            return Ok(None);
        }
        let first = self.ready.start;
        let end = self.ready.end.min(first + ROWS_MAX);
        self.ready.start = end;
        let (registers, session) = (registers.len(), machine.session);
        let mut world = World { table, machine };
        let rows = BatchRows { pipeline, memory, rows: first..end, txn, parameters };
        self.columns.take(&rows, (*early, registers), conditions, &mut world);
        self.columns.compute(outputs.iter(), &mut world);
        self.next = 0;
        session.check()?;
        Ok(Some(self.columns.rows()))
    }

    /// Takes the next computed row, where the scan's rows are the query's; `outputs` has the values
    /// equal for all of them. None where further steps follow the scan.
    #[inline]
    pub(super) fn next_in_batch<'r>(
        &'r mut self,
        places: &'r [Option<usize>],
        outputs: &'r [Value],
    ) -> Option<BatchRow<'r>> {
        if self.next == self.columns.rows() {
            return None;
        }
        self.next += 1;
        Some(BatchRow { columns: &self.columns, row: self.next - 1, places, outputs })
    }
}

/// A row of a query whose values were computed.
#[derive(Clone, Copy)]
pub(super) struct BatchRow<'r> {
    columns: &'r Columns,
    row: usize,
    /// The column of each output; `None` for a value equal for all rows.
    places: &'r [Option<usize>],
    outputs: &'r [Value],
}

impl<'r> BatchRow<'r> {
    /// An output.
    #[inline]
    pub(super) fn value(self, output: usize) -> ValueRef<'r> {
        match self.places[output] {
            Some(column) => self.columns.value(column, self.row),
            None => self.outputs[output].as_ref(),
        }
    }
}

/// Rows of a batch of a pipeline.
struct BatchRows<'r> {
    pipeline: &'r Pipeline,
    memory: &'r Memory,
    rows: Range<usize>,
    txn: &'r Transaction,
    parameters: &'r [Value],
}

impl Readable for BatchRows<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn read(&self, output: usize, wanted: Option<&[u8]>, column: &mut Column) {
        let BatchRows { pipeline, memory, rows, txn, parameters } = self;
        let from = (*memory, *txn, *parameters);
        match wanted {
            None => {
                let rows = pipeline.each_near_int(from, rows.clone(), output, |int| {
                    column.ints_to_fill().is_some_and(|ints| {
                        ints.push(int);
                        true
                    })
                });
                pipeline.each_ready(from, rows, output, |value| column.push(value));
            }
            Some(wanted) => {
                let rows = wanted.iter().map(|&row| rows.start + usize::from(row));
                pipeline.each_ready(from, rows, output, |value| column.push(value));
            }
        }
    }
}
