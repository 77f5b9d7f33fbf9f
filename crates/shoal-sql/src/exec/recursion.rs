//! Recursive common tables: a queue of rows, with each row going through the steps once.

use super::Machine;
use super::eval;
use super::query::{BodyRow, BodyRun, each_row, each_row_again};
use crate::Error;
use crate::exec::eval_condition;
use crate::keep::kept_keys::KeptKeys;
use crate::keep::key::push_row_key;
use crate::keep::queue::Queue;
use crate::plan::{BodyPlan, Level, QueryPlan, RecursivePlan, Scan, SelectPlan, TakenScan};
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
    /// The state of each step.
    steps: Vec<BodyRun>,
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
            self.steps.resize_with(plan.steps.len(), BodyRun::default);
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
        let registers = &mut machine.registers[query.output..query.output + query.width];
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
        plan: &RecursivePlan,
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
        let Some(step) = step else { return each_row(&plan.first, machine, take) };
        let (part, body) = (&plan.steps[step], &mut steps[step]);
        match reads_taken(part) {
            Some(alone) => each_taken(part, alone, machine, take),
            // The step reads the taken row, which is on no page.
            None => each_row_again(part, body, machine, take),
        }
    }
}

/// The select of a step over the taken row alone: the step gives one row or none.
fn reads_taken(step: &QueryPlan) -> Option<(&SelectPlan, &Level, &TakenScan)> {
    let BodyPlan::Select(select) = &step.body else { return None };
    let [level] = &*select.levels else { return None };
    let Scan::Taken(scan) = &level.scan else { return None };
    let plain = select.group.is_none() && select.windows.is_none() && select.distinct.is_none();
    (plain && !level.keeps_left && !level.keeps_right).then_some((select, level, scan))
}

/// As [`each_row_again`] of such a step.
fn each_taken(
    step: &QueryPlan,
    (select, level, scan): (&SelectPlan, &Level, &TakenScan),
    machine: &mut Machine<'_, '_>,
    mut each: impl FnMut(BodyRow<'_, '_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for &(column, reg) in &scan.columns {
        assign(&mut machine.registers[reg], machine.taken[scan.slot][column].as_ref());
    }
    for condition in select.constant.iter().chain(&level.on).chain(&level.filter) {
        if !eval_condition(machine, condition)? {
            return Ok(());
        }
    }
    for output in &select.outputs {
        eval(machine, output)?;
    }
    each(BodyRow::Registers { values: &machine.registers[step.output..], width: step.width })
}
