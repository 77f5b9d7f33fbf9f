//! Recursive common tables: a queue of rows, with each row going through the steps once.

use super::Machine;
use super::each_row::{BodyRow, each_row};
use super::query::NodeRun;
use crate::Error;
use crate::keep::kept_keys::KeptKeys;
use crate::keep::key::push_row_key;
use crate::keep::queue::Queue;
use crate::plan::node::RecursionNode;
use crate::value::assign;

/// The state of a recursion.
#[derive(Debug, Default)]
pub(super) struct RecursiveRun {
    started: bool,
    /// True while a taken row is still to go through the steps.
    taken: bool,
    queue: Queue,
    seen: KeptKeys,
    key: Vec<u8>,
    /// Where each step stands.
    steps: Vec<NodeRun>,
}

impl RecursiveRun {
    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        plan: &RecursionNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        machine.tick()?;
        if !self.started {
            self.started = true;
            self.steps.resize_with(plan.steps.len(), NodeRun::default);
            self.gather(None, plan, machine)?;
        }
        if self.taken {
            for step in 0..plan.steps.len() {
                self.gather(Some(step), plan, machine)?;
            }
        }
        let Some(row) = self.queue.pop()? else {
            self.taken = false;
            return Ok(false);
        };
        self.taken = true;
        let registers = &mut machine.registers[plan.output..plan.output + plan.width];
        for (target, value) in registers.iter_mut().zip(&row) {
            assign(target, value.as_ref());
        }
        self.queue.spare(std::mem::replace(&mut machine.taken[plan.slot], row));
        Ok(true)
    }

    /// Takes the rows of a step, or the initial rows.
    fn gather(
        &mut self,
        step: Option<usize>,
        plan: &RecursionNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let session = machine.session;
        let RecursiveRun { queue, seen, key, steps, .. } = self;
        let take = |row: BodyRow<'_, '_, '_>| {
            if plan.distinct {
                key.clear();
                push_row_key(row.values(), &plan.collations, key);
                if !seen.insert(session, key)? {
                    return Ok(());
                }
            }
            queue.push(session, row.values(), &plan.order)
        };
        match step {
            None => each_row(&plan.first, &mut NodeRun::Fresh, machine, take),
            Some(step) => each_row(&plan.steps[step], &mut steps[step], machine, take),
        }
    }
}
