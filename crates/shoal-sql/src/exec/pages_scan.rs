//! Scans whose rows stay on their pages, for each row around them.

use std::ops::Range;

use shoal_store::Transaction;

use super::pipeline::{Memory, PipelineRows};
use super::{Machine, eval};
use crate::Error;
use crate::plan::PagesScan;
use crate::value::assign;

/// The state of such a scan: its memory serves all rows around.
#[derive(Debug)]
pub(super) struct PagesScanRun {
    memory: Memory,
    rows: PipelineRows,
    /// Rows of the batch still to be given.
    ready: Range<usize>,
    /// True where the batch is all there is: a few rows with a key, to be asked the filter.
    are_few: bool,
}

impl PagesScanRun {
    /// Begins the rows of the row around.
    ///
    /// # Errors
    /// What computing a key raises.
    pub(super) fn open(
        plan: &PagesScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<PagesScanRun, Error> {
        let mut memory = Memory::new(&plan.pipeline);
        if plan.pipeline.keeps_rowids() {
            memory.keep_within(machine.session);
        }
        let rows = PipelineRows::new(u64::MAX, 0);
        let mut run = PagesScanRun { memory, rows, ready: 0..0, are_few: false };
        run.open_again(plan, machine)?;
        Ok(run)
    }

    /// As [`PagesScanRun::open`], with the memory of the row before.
    ///
    /// # Errors
    /// As [`PagesScanRun::open`].
    pub(super) fn open_again(
        &mut self,
        plan: &PagesScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        for key in &plan.keys {
            eval(machine, key)?;
        }
        let (pipeline, memory) = (&plan.pipeline, &mut self.memory);
        let txn = machine.txn(pipeline.database)?;
        let few = pipeline.find_few(txn, &machine.registers, memory)?;
        (self.are_few, self.ready) = (few.is_some(), 0..few.unwrap_or(0));
        if few.is_none() {
            self.rows = PipelineRows::new(u64::MAX, 0);
            self.rows.begin(memory);
        }
        Ok(())
    }

    /// Puts the next row's values into the registers; false when there is none.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn next(
        &mut self,
        plan: &PagesScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let pipeline = &plan.pipeline;
        let txn = machine.txn(pipeline.database)?;
        let memory = &mut self.memory;
        if self.are_few {
            for row in self.ready.by_ref() {
                if pipeline.few_row(txn, &machine.registers, memory, row).is_some() {
                    give(plan, (txn, memory), row, machine);
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if self.ready.is_empty() {
            machine.session.check()?;
            self.ready = self.rows.fill_many(pipeline, txn, &machine.registers, memory)?;
            memory.tell(pipeline, machine.analysis);
        }
        let Some(row) = self.ready.next() else { return Ok(false) };
        give(plan, (txn, memory), row, machine);
        Ok(true)
    }
}

/// Puts a row of the batch into the registers.
fn give(
    plan: &PagesScan,
    (txn, memory): (&Transaction, &Memory),
    row: usize,
    machine: &mut Machine<'_, '_>,
) {
    // No output is a parameter: each is a column of a record.
    plan.pipeline.each_output((memory, txn, &[]), row, |output, value| {
        assign(&mut machine.registers[plan.registers[output]], value);
    });
}
