//! Rows of groups: all gathered first, or each group given at its end.

use super::group::Groups;
use super::loops::LoopsRun;
use super::query::all;
use super::{Batch, Machine};
use crate::Error;
use crate::exec::eval_condition;
use crate::plan::GroupPlan;
use crate::plan::node::{GroupInOrderNode, GroupNode, GroupSource, LoopsNode};
use crate::plan::pipeline::GroupColumn;
use crate::value::assign;

/// Groups of all rows.
#[derive(Debug, Default)]
pub(super) struct GroupRun {
    groups: Option<Box<Groups>>,
    /// Groups of an earlier run, empty.
    spare: Option<Box<Groups>>,
    input: LoopsRun,
}

impl GroupRun {
    /// Begins anew, with the memory of the groups before.
    pub(super) fn restart(&mut self) {
        restart(&mut self.groups, &mut self.spare);
        self.input.restart();
    }

    /// Puts the next group's values into the registers; false when there is none.
    ///
    /// # Errors
    /// What expressions and aggregates raise, and what is wrong with the file.
    pub(super) fn next(
        &mut self,
        plan: &GroupNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let groups = self.gathered(plan, machine)?;
        let group = &plan.plan;
        while groups.next(group, machine)? {
            match &group.having {
                Some(having) if !eval_condition(machine, having)? => {}
                _ => {
                    if let Some((given, output)) = &plan.given {
                        copy_given(given, *output, group, machine);
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Appends up to `count` groups to `out`, of each the columns that are `given`; false when
    /// there are no more.
    ///
    /// # Errors
    /// As [`GroupRun::next`].
    pub(super) fn fill(
        &mut self,
        (plan, given): (&GroupNode, &[GroupColumn]),
        machine: &mut Machine<'_, '_>,
        count: usize,
        out: &mut Batch,
    ) -> Result<bool, Error> {
        let session = machine.session;
        let groups = self.gathered(plan, machine)?;
        for _ in 0..count {
            if !groups.push_next(&plan.plan, given, session, out)? {
                return Ok(false);
            }
            if out.is_long() {
                break;
            }
        }
        Ok(true)
    }

    /// The groups of all rows, taken on the first call.
    fn gathered(
        &mut self,
        plan: &GroupNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<&mut Groups, Error> {
        let GroupRun { groups, spare, input } = self;
        let groups = match groups {
            Some(groups) => groups,
            None => {
                let made = spare.take().unwrap_or_default();
                groups.insert(machine.measured_run(
                    plan.plan.measure,
                    |machine| gather(plan, made, input, machine),
                    |groups| groups.len() as u64,
                )?)
            }
        };
        Ok(groups)
    }
}

/// Takes all rows into groups.
fn gather(
    plan: &GroupNode,
    mut groups: Box<Groups>,
    input: &mut LoopsRun,
    machine: &mut Machine<'_, '_>,
) -> Result<Box<Groups>, Error> {
    let group = &plan.plan;
    match &plan.source {
        GroupSource::Pages(pipeline) => {
            let add = |machine: &mut Machine<'_, '_>| {
                groups.add_pipeline(group, pipeline, machine).map(|()| groups.taken())
            };
            machine.measured_run(pipeline.measure, add, |taken| *taken)?;
        }
        GroupSource::Columns { constant, scan, group: columns } => {
            if all(constant, machine)? {
                let add = |machine: &mut Machine<'_, '_>| {
                    groups.add_computed(group, (scan, columns), machine).map(|()| groups.taken())
                };
                machine.measured_run(scan.pipeline.measure, add, |taken| *taken)?;
            }
        }
        GroupSource::Loops(loops) => add_loops(group, loops, &mut groups, input, machine)?,
    }
    groups.finish(group, machine.session)?;
    Ok(groups)
}

fn add_loops(
    group: &GroupPlan,
    loops: &LoopsNode,
    groups: &mut Groups,
    input: &mut LoopsRun,
    machine: &mut Machine<'_, '_>,
) -> Result<(), Error> {
    while input.next(loops, machine)? {
        match input.repeats() {
            1 => groups.add(group, machine)?,
            times => groups.add_times(group, machine, times)?,
        }
        let argument = group.aggregates.first().map(|aggregate| aggregate.first);
        if group.ends_early && argument.is_some_and(|reg| !machine.registers[reg].is_null()) {
            input.end();
            break;
        }
    }
    Ok(())
}

/// Puts the columns of a group into the registers of the result.
fn copy_given(
    given: &[GroupColumn],
    output: usize,
    group: &GroupPlan,
    machine: &mut Machine<'_, '_>,
) {
    for (number, column) in given.iter().enumerate() {
        let from = match column {
            GroupColumn::Kept(kept) => group.kept[*kept],
            GroupColumn::Aggregate(aggregate) => group.aggregates[*aggregate].result,
        };
        let to = output + number;
        if from != to {
            let mut target = std::mem::take(&mut machine.registers[to]);
            assign(&mut target, machine.registers[from].as_ref());
            machine.registers[to] = target;
        }
    }
}

/// Empties groups for the next run.
fn restart(groups: &mut Option<Box<Groups>>, spare: &mut Option<Box<Groups>>) {
    if let Some(mut known) = groups.take() {
        known.clear();
        *spare = Some(known);
    }
}

/// Groups of rows that come one group after the other: no more than two are kept.
#[derive(Debug, Default)]
pub(super) struct GroupInOrderRun {
    pub(super) input: LoopsRun,
    groups: Box<Groups>,
}

impl GroupInOrderRun {
    pub(super) fn restart(&mut self) {
        self.input.restart();
        self.groups.clear();
    }

    /// Puts the next group's values into the registers; false when there is none.
    ///
    /// # Errors
    /// As [`GroupRun::next`].
    pub(super) fn next(
        &mut self,
        plan: &GroupInOrderNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let GroupInOrderNode { plan: group, input } = plan;
        let groups = &mut self.groups;
        groups.uncover(group, machine);
        loop {
            let ended = !self.input.next(input, machine)?;
            if !ended {
                groups.add(group, machine)?;
            }
            match groups.next_complete(group, machine, ended)? {
                Some(true) => match &group.having {
                    Some(having) if !eval_condition(machine, having)? => {
                        groups.uncover(group, machine);
                    }
                    _ => return Ok(true),
                },
                Some(false) => {}
                None if ended => return Ok(false),
                None => {}
            }
        }
    }
}
