//! One `SELECT`: nested loops, groups, distinct rows.

use super::Machine;
use super::group::Groups;
use super::key::RowSet;
use super::scan::{ScanRun, load_late};
use crate::Error;
use crate::expr::{eval, eval_condition};
use crate::plan::{Level, QueryPlan, SelectPlan};
use crate::value::Value;

/// Where a select stands.
#[derive(Debug, Default)]
pub(super) struct SelectRun {
    started: bool,
    done: bool,
    levels: Vec<LevelRun>,
    /// The innermost loop that is open.
    depth: usize,
    groups: Option<Groups>,
    seen: Option<RowSet>,
}

#[derive(Debug, Default)]
struct LevelRun {
    scan: ScanRun,
    /// Whether a left join has found a row, or given its row of NULLs.
    matched: bool,
    null_row: bool,
}

impl SelectRun {
    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        query: &QueryPlan,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        loop {
            let found = match &plan.group {
                None => self.next_joined(plan, machine)?,
                Some(group) => {
                    if self.groups.is_none() {
                        let mut groups = Groups::default();
                        while self.next_joined(plan, machine)? {
                            groups.add(group, machine)?;
                        }
                        groups.finish(group);
                        self.groups = Some(groups);
                    }
                    match &mut self.groups {
                        Some(groups) => groups.next(group, machine)?,
                        None => false,
                    }
                }
            };
            if !found {
                return Ok(false);
            }
            if let Some(having) = plan.group.as_ref().and_then(|group| group.having.as_ref())
                && !eval_condition(machine, having)?
            {
                continue;
            }
            for output in &plan.outputs {
                eval(machine, output)?;
            }
            if let Some(collations) = &plan.distinct {
                let row = &machine.registers[query.output..query.output + query.width];
                if !self.seen.get_or_insert_default().insert(row, collations) {
                    continue;
                }
            }
            return Ok(true);
        }
    }

    /// The next combination of the sources' rows that meets the conditions.
    fn next_joined(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.done {
            return Ok(false);
        }
        let count = plan.levels.len();
        if !self.started {
            self.started = true;
            for condition in &plan.constant {
                if !eval_condition(machine, condition)? {
                    self.done = true;
                    return Ok(false);
                }
            }
            if count == 0 {
                self.done = true;
                return Ok(true);
            }
            self.levels.resize_with(count, LevelRun::default);
            self.depth = 0;
            self.levels[0] = LevelRun::open(&plan.levels[0], machine)?;
        }
        loop {
            let depth = self.depth;
            if self.levels[depth].next(&plan.levels[depth], machine)? {
                if depth + 1 == count {
                    return Ok(true);
                }
                self.depth += 1;
                self.levels[self.depth] = LevelRun::open(&plan.levels[self.depth], machine)?;
            } else if depth == 0 {
                self.done = true;
                return Ok(false);
            } else {
                self.depth -= 1;
            }
        }
    }

    /// Notes where the cursors are.
    pub(super) fn park(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if self.done || !self.started {
            return Ok(());
        }
        let open = self.depth + 1;
        for (run, level) in self.levels.iter_mut().zip(&plan.levels).take(open) {
            run.scan.park(&level.scan, machine)?;
        }
        Ok(())
    }
}

impl LevelRun {
    fn open(plan: &Level, machine: &mut Machine<'_, '_>) -> Result<LevelRun, Error> {
        let scan = ScanRun::open(&plan.scan, machine)?;
        Ok(LevelRun { scan, matched: false, null_row: false })
    }

    fn next(&mut self, plan: &Level, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        if self.null_row {
            return Ok(false);
        }
        while self.scan.next(&plan.scan, machine)? {
            if !all(&plan.on, machine)? {
                continue;
            }
            self.matched = true;
            if all(&plan.filter, machine)? {
                load_late(&plan.scan, &plan.late, machine)?;
                return Ok(true);
            }
        }
        if !plan.left_join || self.matched {
            return Ok(false);
        }
        self.null_row = true;
        for &reg in &plan.registers {
            machine.registers[reg] = Value::Null;
        }
        all(&plan.filter, machine)
    }
}

fn all(conditions: &[crate::expr::Code], machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
    for condition in conditions {
        if !eval_condition(machine, condition)? {
            return Ok(false);
        }
    }
    Ok(true)
}
