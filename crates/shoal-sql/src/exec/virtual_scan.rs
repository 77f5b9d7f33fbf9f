//! Scans of virtual tables: the module's cursor gives rows, whose columns go into the registers.

use super::Machine;
use super::eval;
use super::query::all;
use crate::Error;
use crate::plan::{Reg, VirtualScan};
use crate::resolve::tree::{AUXILIARY, ROWID};
use crate::schema::{TableReads, VirtualCursor};
use crate::value::Value;

/// Rows of which nothing but rowids is read are asked for so many at once: at first, and at most.
const ROWIDS_MIN: usize = 8;
const ROWIDS_MAX: usize = 512;

/// A cursor over a virtual table, kept from one run of the scan to the next.
#[derive(Debug)]
pub(super) struct VirtualRun {
    cursor: Box<dyn VirtualCursor>,
    arguments: Vec<Value>,
    /// How many rows are still wanted, where the choice has a limit.
    left: Option<u64>,
    /// Nothing but rowids is read of rows.
    by_rowids: bool,
    /// Rows that the cursor went to at once, how many of them were given, and how many rows are
    /// asked for next.
    rowids: Vec<i64>,
    given: usize,
    most: usize,
    /// Equal rows behind the one given last.
    repeats: u64,
}

impl VirtualRun {
    pub(super) fn open(
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<VirtualRun, Error> {
        let cursor = plan.table.instance.open()?;
        let columns = || plan.early.iter().chain(&plan.late);
        let by_rowids = plan.choice.limit.is_none()
            && plan.conditions.is_empty()
            && columns().all(|(column, _)| *column == ROWID);
        let mut run = VirtualRun {
            cursor,
            arguments: Vec::new(),
            left: None,
            by_rowids,
            rowids: Vec::new(),
            given: 0,
            most: ROWIDS_MIN,
            repeats: 1,
        };
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
        self.rowids.clear();
        (self.given, self.most, self.repeats) = (0, ROWIDS_MIN, 1);
        self.left = wanted.map(|wanted| u64::try_from(wanted.to_int()).unwrap_or(0));
        let reads = machine.table_reads(plan.table.table.database)?;
        self.cursor.filter(&plan.choice, &self.arguments, &reads)
    }

    pub(super) fn next(
        &mut self,
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.by_rowids {
            return self.next_by_rowid(plan, machine);
        }
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

    /// The next of the rows that the cursor went to at once, or all of them as one.
    fn next_by_rowid(
        &mut self,
        plan: &VirtualScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.given == self.rowids.len() {
            self.rowids.clear();
            self.given = 0;
            let reads = machine.table_reads(plan.table.table.database)?;
            self.cursor.next_rowids(self.most, &reads, &mut self.rowids)?;
            self.most = ROWIDS_MAX.min(4 * self.most);
            if self.rowids.is_empty() {
                return Ok(false);
            }
        }
        // Whoever measures the plan is told of each row.
        if plan.folds && machine.analysis.is_none() {
            self.given = self.rowids.len();
            self.repeats = self.given as u64;
            return Ok(true);
        }
        let rowid = self.rowids[self.given];
        self.given += 1;
        for &(_, reg) in plan.early.iter().chain(&plan.late) {
            machine.registers[reg] = Value::Int(rowid);
        }
        Ok(true)
    }

    /// Number of equal rows behind the one given last.
    pub(super) fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Takes up to `most` rows that the cursor already went to: their rowids.
    pub(super) fn take_rowids(&mut self, most: usize) -> &[i64] {
        let start = self.given;
        self.given = self.rowids.len().min(start.saturating_add(most));
        &self.rowids[start..self.given]
    }

    /// Reads columns of the row.
    pub(super) fn load(
        &mut self,
        plan: &VirtualScan,
        columns: &[(usize, Reg)],
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if self.by_rowids {
            // The cursor may be ahead of the row, whose rowid is in its registers.
            return Ok(());
        }
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
