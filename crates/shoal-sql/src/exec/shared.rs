//! Common tables whose rows are made once: whoever comes first makes them, the others take them.

use std::sync::Arc;

use super::Machine;
use super::query::QueryRun;
use crate::Error;
use crate::keep::{Kept, RowStore};
use crate::plan::{QueryPlan, SharedPlan};

/// The rows of a common table.
#[derive(Debug, Default)]
pub(super) struct SharedRows {
    rows: RowStore,
    kept: Kept,
}

/// Where a walk over such rows stands.
#[derive(Debug)]
pub(super) struct SharedRun {
    rows: Arc<SharedRows>,
    next: usize,
}

impl SharedRun {
    /// Begins with the first row; makes all of them unless they are there.
    ///
    /// # Errors
    /// As of the query; more rows than may be kept.
    pub(super) fn open(plan: &SharedPlan, machine: &mut Machine<'_, '_>) -> Result<Self, Error> {
        if let Some(rows) = &machine.shared[plan.slot] {
            return Ok(SharedRun { rows: Arc::clone(rows), next: 0 });
        }
        let mut made = SharedRows::default();
        let mut run = QueryRun::default();
        run.start(&plan.plan, machine)?;
        while run.next(&plan.plan, machine)? {
            let columns = plan.plan.output..plan.plan.output + plan.plan.width;
            let before = made.rows.byte_len();
            made.rows.push(machine.registers[columns].iter().map(|value| value.as_ref()));
            made.kept.add(machine.session, made.rows.byte_len() - before)?;
        }
        let rows = Arc::new(made);
        machine.shared[plan.slot] = Some(Arc::clone(&rows));
        Ok(SharedRun { rows, next: 0 })
    }

    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(&mut self, query: &QueryPlan, machine: &mut Machine<'_, '_>) -> bool {
        if self.next >= self.rows.rows.len() {
            return false;
        }
        let targets = query.output..query.output + query.width;
        self.rows.rows.load(self.next, &mut machine.registers, targets);
        self.next += 1;
        true
    }
}
