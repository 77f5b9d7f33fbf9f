//! Queries within expressions looping over few rows of one source, found by a key: such a query
//! begins anew for every row around, so nothing stands between the expression and the loop.

use super::Machine;
use super::eval;
use super::group::Groups;
use super::scan::ScanRun;
use crate::Error;
use crate::exec::eval_condition;
use crate::plan::{Code, InnerPlan};

/// Memory of such a query, from one run to the next.
#[derive(Debug, Default)]
pub(super) struct InnerRun {
    scan: ScanRun,
    groups: Groups,
}

impl InnerRun {
    /// Puts the query's first row into its registers; false when there is none.
    ///
    /// # Errors
    /// Errors of expressions, and of the file.
    pub(super) fn first_row(
        &mut self,
        plan: InnerPlan<'_>,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let found = match plan.group {
            None => self.open(plan, machine)? && self.next(plan, machine)?,
            Some(group) => {
                self.groups.clear();
                if self.open(plan, machine)? {
                    while self.next(plan, machine)? {
                        self.groups.add(group, machine)?;
                    }
                }
                self.groups.finish(group, machine.session)?;
                self.groups.next(group, machine)?
                    && match &group.having {
                        Some(having) => eval_condition(machine, having)?,
                        None => true,
                    }
            }
        };
        if found {
            for output in &plan.select.outputs {
                eval(machine, output)?;
            }
        }
        Ok(found)
    }

    /// Begins the loop; false where a condition leaves no row.
    fn open(&mut self, plan: InnerPlan<'_>, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        machine.open_cursors();
        if !holds(&plan.select.constant, machine)? {
            return Ok(false);
        }
        self.scan.open_again(&plan.level.scan, machine)?;
        Ok(true)
    }

    /// Goes to the next row meeting the conditions.
    fn next(&mut self, plan: InnerPlan<'_>, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        let level = plan.level;
        while self.scan.next(&level.scan, machine)? {
            machine.tick()?;
            if holds(&level.on, machine)? && holds(&level.filter, machine)? {
                self.scan.load_late(&level.scan, &level.late, machine)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[inline]
fn holds(conditions: &[Code], machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
    for condition in conditions {
        if !eval_condition(machine, condition)? {
            return Ok(false);
        }
    }
    Ok(true)
}
