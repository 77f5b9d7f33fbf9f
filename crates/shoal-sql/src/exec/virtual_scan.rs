//! Scans of virtual tables: the module's cursor gives rows, whose columns go into the registers.

use super::Machine;
use super::eval;
use super::query::all;
use crate::Error;
use crate::plan::{Reg, VirtualScan};
use crate::resolve::tree::{AUXILIARY, ROWID};
use crate::schema::{TableReads, VirtualCursor};
use crate::value::Value;

/// A cursor over a virtual table, kept from one run of the scan to the next.
#[derive(Debug)]
pub(super) struct VirtualRun {
    cursor: Box<dyn VirtualCursor>,
    arguments: Vec<Value>,
    /// How many rows are still wanted, where the choice has a limit.
    left: Option<u64>,
}

impl VirtualRun {
    pub(super) fn open(
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<VirtualRun, Error> {
        let cursor = plan.table.instance.open()?;
        let mut run = VirtualRun { cursor, arguments: Vec::new(), left: None };
        run.open_again(plan, machine)?;
        Ok(run)
    }

    /// Begins again with the rows known so far.
    pub(super) fn open_again(
        &mut self,
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.arguments.clear();
        for (code, affinity) in &plan.arguments {
            eval(machine, code)?;
            let value = machine.registers[code.result].clone();
            self.arguments.push(match affinity {
                Some(affinity) => affinity.apply_for_comparison(value),
                None => value,
            });
        }
        let wanted = plan.choice.limit.and_then(|place| self.arguments.get(place));
        self.left = wanted.map(|wanted| u64::try_from(wanted.to_int()).unwrap_or(0));
        let reads = machine.table_reads(plan.table.table.database)?;
        self.cursor.filter(&plan.choice, &self.arguments, &reads)
    }

    pub(super) fn next(
        &mut self,
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        loop {
            if self.left == Some(0) {
                return Ok(false);
            }
            if !self.cursor.next(&machine.table_reads(plan.table.table.database)?)? {
                return Ok(false);
            }
            self.load(plan, &plan.early, machine)?;
            if !all(&plan.conditions, machine)? {
                continue;
            }
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            return Ok(true);
        }
    }

    /// Reads columns of the row.
    pub(super) fn load(
        &mut self,
        plan: &VirtualScan,
        columns: &[(usize, Reg)],
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let database = plan.table.table.database;
        for &(column, reg) in columns {
            if column == ROWID {
                machine.registers[reg] = Value::Int(self.cursor.rowid());
                continue;
            }
            let call = column.checked_sub(AUXILIARY).and_then(|place| plan.calls.get(place));
            if let Some((function, codes)) = call {
                let mut arguments = Vec::with_capacity(codes.len());
                for code in codes {
                    eval(machine, code)?;
                    arguments.push(machine.registers[code.result].clone());
                }
                let reads = machine.table_reads(database)?;
                let value = self.cursor.auxiliary(*function, &arguments, &reads)?;
                machine.registers[reg] = value;
                continue;
            }
            let mut value = std::mem::take(&mut machine.registers[reg]);
            let reads = machine.table_reads(database)?;
            self.cursor.column(column, &reads, &mut value)?;
            machine.registers[reg] = value;
        }
        Ok(())
    }
}

impl Machine<'_, '_> {
    /// The reading end for a virtual table of a database.
    fn table_reads(&self, database: usize) -> Result<TableReads<'_>, Error> {
        let Some(schema) = self.schema else {
            return Err(Error::Misuse { what: "a virtual table was read without its schema" });
        };
        // A virtual table under a rule reads its shadow tables, hidden from the principal.
        let narrowing = schema.narrowing();
        let narrowed = narrowing.map(|_| schema);
        let schema = narrowing.map_or(schema, |narrowing| &narrowing.whole);
        Ok(TableReads { schema, narrowed, txns: self.txns()?, database, session: self.session })
    }
}
