//! Rows whose outputs are computed many at a time.

use super::Machine;
use super::pipeline_scan::{BatchRow, PipelineScanRun};
use super::query::{all, eval_all};
use crate::Error;
use crate::plan::node::ComputedNode;
use crate::value::Value;

/// Position in such rows.
#[derive(Debug)]
pub(super) struct ComputedRun {
    scan: PipelineScanRun,
    started: bool,
    done: bool,
}

impl ComputedRun {
    pub(super) fn new(plan: &ComputedNode, machine: &Machine<'_, '_>) -> ComputedRun {
        let scan = PipelineScanRun::open(&plan.scan, machine);
        ComputedRun { scan, started: false, done: false }
    }

    /// Begins anew, with the memory of the run before.
    pub(super) fn restart(&mut self) {
        self.scan.open_again();
        (self.started, self.done) = (false, false);
    }

    /// Puts the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What is wrong with the file, and what computing the row raises.
    pub(super) fn next(
        &mut self,
        plan: &ComputedNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if !self.started {
            self.started = true;
            if let Some(analysis) = machine.analysis {
                analysis.opened(plan.scan.pipeline.measure);
            }
            self.done = !all(&plan.constant, machine)?;
            if !self.done {
                eval_all(&plan.fixed, machine)?;
            }
        }
        if self.done {
            return Ok(false);
        }
        machine.tick()?;
        let found = self.scan.next(&plan.scan, machine)?;
        self.done = !found;
        Ok(found)
    }

    /// Takes the next row computed together with the last one; `fixed` are the registers of the
    /// outputs, for those that are the same for all rows.
    #[inline]
    pub(super) fn next_in_batch<'r>(
        &'r mut self,
        plan: &'r ComputedNode,
        fixed: &'r [Value],
    ) -> Option<BatchRow<'r>> {
        self.scan.next_in_batch(&plan.row, fixed)
    }
}
