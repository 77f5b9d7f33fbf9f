//! Common tables whose rows are made once: whoever comes first makes them, the others take them.

use std::sync::Arc;

use super::Machine;
use super::query::QueryRun;
use crate::Error;
use crate::keep::numbered::{NumberedReader, NumberedRows};
use crate::keep::{Kept, RowStore};
use crate::plan::node::SharedNode;
use crate::session::Session;
use crate::value::{ValueRef, assign};

/// The rows of a common table.
#[derive(Debug, Default)]
pub(super) struct SharedRows {
    rows: RowStore,
    kept: Kept,
    /// Rows made without room left in memory.
    rest: Option<NumberedRows>,
}

/// The state of a walk over shared rows.
#[derive(Debug)]
pub(super) struct SharedRun {
    rows: Arc<SharedRows>,
    next: usize,
    reader: NumberedReader,
}

impl SharedRows {
    fn push<'v>(
        &mut self,
        session: &dyn Session,
        row: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<(), Error> {
        if let Some(rest) = &mut self.rest {
            return rest.push(row);
        }
        let before = self.rows.byte_len();
        self.rows.push(row);
        let size = self.rows.byte_len() - before;
        if !self.kept.try_add(session, || (size, 0)) {
            self.rest = Some(NumberedRows::new(session)?);
        }
        Ok(())
    }
}

impl SharedRun {
    /// Begins with the first row; makes all of them unless they are there.
    ///
    /// # Errors
    /// As of the query; when rows for which there is no room cannot be written to a file.
    pub(super) fn open(plan: &SharedNode, machine: &mut Machine<'_, '_>) -> Result<Self, Error> {
        if let Some(rows) = &machine.shared[plan.slot] {
            return Ok(SharedRun::first(rows));
        }
        let mut made = SharedRows::default();
        let mut run = QueryRun::default();
        run.start(&plan.plan, machine);
        while run.next(&plan.plan, machine)? {
            let columns = plan.plan.output..plan.plan.output + plan.plan.width;
            let row = machine.registers[columns].iter().map(|value| value.as_ref());
            made.push(machine.session, row)?;
        }
        if let Some(rest) = &mut made.rest {
            rest.finish()?;
        }
        let rows = Arc::new(made);
        machine.shared[plan.slot] = Some(Arc::clone(&rows));
        Ok(SharedRun::first(&rows))
    }

    fn first(rows: &Arc<SharedRows>) -> SharedRun {
        SharedRun { rows: Arc::clone(rows), next: 0, reader: NumberedReader::default() }
    }

    /// Puts the next row into the query's registers; false when there is none.
    ///
    /// # Errors
    /// When rows cannot be read from the file they are in.
    pub(super) fn next(
        &mut self,
        plan: &SharedNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let SharedRows { rows, rest, .. } = &*self.rows;
        let mut targets = plan.output..plan.output + plan.width;
        if self.next < rows.len() {
            rows.load(self.next, &mut machine.registers, targets);
        } else {
            let number = self.next - rows.len();
            let Some(rest) = rest.as_ref().filter(|rest| number < rest.len()) else {
                return Ok(false);
            };
            for value in rest.row(&mut self.reader, number)? {
                let Some(target) = targets.next() else { break };
                assign(&mut machine.registers[target], value.as_ref());
            }
        }
        self.next += 1;
        Ok(true)
    }
}
