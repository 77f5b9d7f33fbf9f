//! Common tables that read themselves: a queue of rows, each of which goes through the steps once.

use super::kept_keys::KeptKeys;
use super::key::push_row_key;
use super::query::each_row;
use super::queue::Queue;
use super::{Machine, assign};
use crate::Error;
use crate::plan::{QueryPlan, RecursivePlan};
use crate::value::Value;

/// Where a recursion stands.
#[derive(Debug, Default)]
pub(super) struct RecursiveRun {
    started: bool,
    /// Whether a row was taken that is still to go through the steps.
    taken: bool,
    queue: Queue,
    seen: KeptKeys,
    key: Vec<u8>,
}

impl RecursiveRun {
    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        query: &QueryPlan,
        plan: &RecursivePlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        machine.tick()?;
        if !self.started {
            self.started = true;
            self.gather(&plan.first, plan, machine)?;
        }
        if self.taken {
            for step in &plan.steps {
                self.gather(step, plan, machine)?;
            }
        }
        let Some(row) = self.queue.pop()? else {
            self.taken = false;
            return Ok(false);
        };
        self.taken = true;
        let registers = &mut machine.registers[query.output..query.output + query.width];
        for (target, value) in registers.iter_mut().zip(&row) {
            assign(target, value.as_ref());
        }
        machine.taken[plan.slot] = row;
        Ok(true)
    }

    fn gather(
        &mut self,
        part: &QueryPlan,
        plan: &RecursivePlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let session = machine.session;
        let RecursiveRun { queue, seen, key, .. } = self;
        each_row(part, machine, |row| {
            if plan.distinct {
                key.clear();
                push_row_key(row.values(), &plan.collations, key);
                if !seen.insert(session, key)? {
                    return Ok(());
                }
            }
            queue.push(session, row.values().map(Value::from).collect(), &plan.order)
        })
    }
}
