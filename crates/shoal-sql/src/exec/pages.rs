//! Rows straight from the pages, one after the other into registers: batches of a pipeline, found
//! and decoded as a statement's rows are.

use std::ops::Range;
use std::sync::Arc;

use super::Machine;
use super::pipeline::{Memory, PipelineRows};
use crate::Error;
use crate::plan::node::PagesNode;
use crate::plan::pipeline::Pipeline;
use crate::value::assign;

/// Position in the rows of a pipeline and of the parts without a match behind.
#[derive(Debug)]
pub(super) struct PagesRun {
    memory: Memory,
    rows: PipelineRows,
    /// The part: 0 for the pipeline itself.
    part: usize,
    /// Rows of the batch still to be given.
    ready: Range<usize>,
    started: bool,
}

/// A part, by number from 0; none behind the last.
fn part(plan: &PagesNode, number: usize) -> Option<&Pipeline> {
    match number.checked_sub(1) {
        None => Some(&plan.pipeline),
        Some(number) => plan.pipeline.unmatched.get(number),
    }
}

impl PagesRun {
    pub(super) fn new(plan: &PagesNode) -> PagesRun {
        let rows = PipelineRows::new(u64::MAX, 0);
        let memory = Memory::new(&plan.pipeline);
        PagesRun { memory, rows, part: 0, ready: 0..0, started: false }
    }

    pub(super) fn restart(&mut self) {
        (self.ready, self.started) = (0..0, false);
    }

    /// Puts the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What is wrong with the file; when the statement is to stop.
    pub(super) fn next(
        &mut self,
        plan: &PagesNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if !self.started {
            self.begin(plan, machine);
        }
        while self.ready.is_empty() {
            let Some(pipeline) = part(plan, self.part) else { return Ok(false) };
            let measure = pipeline.measure;
            self.ready = machine.measured(
                measure,
                |machine| self.fill(pipeline, machine),
                |ready| ready.len() as u64,
            )?;
            if self.ready.is_empty() {
                self.part += 1;
                let Some(next) = part(plan, self.part) else { return Ok(false) };
                let mut memory = Memory::new(next);
                memory.take_marks(next, &mut self.memory);
                self.memory = memory;
                self.rows.begin(&mut self.memory);
            }
        }
        let row = self.ready.start;
        self.ready.start += 1;
        let Some(pipeline) = part(plan, self.part) else { return Ok(false) };
        let txn = machine.txn(pipeline.database)?;
        let Machine { parameters, registers, .. } = machine;
        let from = (&self.memory, txn, parameters.as_slice());
        pipeline.each_output(from, row, |number, value| {
            assign(&mut registers[plan.output + number], value);
        });
        Ok(true)
    }

    fn begin(&mut self, plan: &PagesNode, machine: &Machine<'_, '_>) {
        if self.part > 0 {
            self.memory = Memory::new(&plan.pipeline);
            self.part = 0;
        }
        if let Some(analysis) = machine.analysis {
            analysis.opened(plan.pipeline.measure);
        }
        self.memory.keep_within(machine.session);
        self.rows = PipelineRows::new(u64::MAX, 0);
        self.rows.begin(&mut self.memory);
        self.started = true;
    }

    fn fill(
        &mut self,
        pipeline: &Pipeline,
        machine: &Machine<'_, '_>,
    ) -> Result<Range<usize>, Error> {
        machine.session.check()?;
        let txn = machine.txn(pipeline.database)?;
        let parameters = Arc::clone(&machine.parameters);
        let ready = self.rows.fill(pipeline, txn, &parameters, &mut self.memory)?;
        self.memory.tell(pipeline, machine.analysis);
        Ok(ready)
    }
}
