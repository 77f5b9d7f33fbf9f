//! Queries within expressions that loop over few rows of one source, found by a key: they begin anew for
//! every row around them, so nothing stands between the expression and the loop.

use super::Machine;
use super::eval;
use super::group::Groups;
use super::scan::ScanRun;
use crate::Error;
use crate::exec::eval_condition;
use crate::plan::{BodyPlan, Code, GroupPlan, Level, QueryPlan, RowidRange, Scan, SelectPlan};

/// What such a query keeps from one run for the next.
#[derive(Debug, Default)]
pub(super) struct InnerRun {
    scan: ScanRun,
    groups: Groups,
}

/// The parts of such a query's plan.
#[derive(Clone, Copy)]
pub(super) struct InnerPlan<'p> {
    select: &'p SelectPlan,
    level: &'p Level,
    /// Where it gives one group of all rows.
    group: Option<&'p GroupPlan>,
}

impl<'p> InnerPlan<'p> {
    /// The plan's parts, where it is one of these.
    #[inline]
    pub(super) fn of(plan: &'p QueryPlan) -> Option<InnerPlan<'p>> {
        let BodyPlan::Select(select) = &plan.body else { return None };
        let [level] = &*select.levels else { return None };
        let by_key = match &level.scan {
            Scan::Table(scan) => matches!(scan.range, RowidRange::Equal(_)),
            Scan::Index(_) => true,
            _ => false,
        };
        let group = select.group.as_ref();
        let one_group = |group: &GroupPlan| group.keys.is_empty() && !group.ends_early;
        let plain = plan.sort.is_none() && plan.limit.is_none() && plan.offset.is_none();
        let plain = plain && select.windows.is_none() && select.distinct.is_none();
        let plain = plain && select.pipeline.is_none() && group.is_none_or(one_group);
        let keeps = level.keeps_left || level.keeps_right;
        (by_key && plain && !keeps).then_some(InnerPlan { select, level, group })
    }
}

/// Whether a query is one of these, and finds its rows by equality.
pub(crate) fn is_by_key(plan: &QueryPlan) -> bool {
    InnerPlan::of(plan).is_some_and(|inner| match &inner.level.scan {
        Scan::Index(scan) => !scan.equal.is_empty(),
        _ => true,
    })
}

impl InnerRun {
    /// Puts the query's first row into its registers; false when there is none.
    ///
    /// # Errors
    /// What expressions raise, and what is wrong with the file.
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

    /// Goes to the next row that meets the conditions.
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
