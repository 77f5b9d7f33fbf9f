//! Scans that take their rows from a direct select.

use super::direct::{DirectRows, Memory};
use super::{Machine, assign};
use crate::Error;
use crate::plan::FedScan;

/// Where such a scan stands.
#[derive(Debug)]
pub(super) struct FedRun {
    memory: Memory,
    rows: DirectRows,
    /// The row behind the current one, of those that are ready, and where those end.
    next: usize,
    end: usize,
}

impl FedRun {
    pub(super) fn open(plan: &FedScan) -> FedRun {
        let mut memory = Memory::new(&plan.direct);
        let mut rows = DirectRows::new(u64::MAX, 0);
        rows.begin(&mut memory);
        FedRun { memory, rows, next: 0, end: 0 }
    }

    /// Puts what conditions need of the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn next(
        &mut self,
        plan: &FedScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.next == self.end {
            let txn = machine.txn(plan.direct.database)?;
            let (parameters, memory) = (&machine.parameters, &mut self.memory);
            let ready = self.rows.fill(&plan.direct, txn, parameters, memory)?;
            if ready.is_empty() {
                return Ok(false);
            }
            (self.next, self.end) = (ready.start, ready.end);
        }
        self.next += 1;
        self.load(plan, 0..plan.early, machine)?;
        Ok(true)
    }

    /// Reads the columns that were put off until the conditions held.
    ///
    /// # Errors
    /// None but where there is no transaction any more.
    pub(super) fn load_late(
        &self,
        plan: &FedScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.load(plan, plan.early..plan.registers.len(), machine)
    }

    /// Puts some outputs of the current row into their registers.
    fn load(
        &self,
        plan: &FedScan,
        outputs: std::ops::Range<usize>,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if outputs.is_empty() {
            return Ok(());
        }
        let FedScan { direct, registers: targets, .. } = plan;
        let (row, memory) = (self.next - 1, &self.memory);
        let txn = machine.txn(direct.database)?;
        let Machine { registers, parameters, .. } = machine;
        let targets = outputs.clone().zip(&targets[outputs]);
        if !direct.is_lazy(memory) {
            for (output, &reg) in targets {
                let value = direct.kept(memory, (row, output), txn, parameters);
                assign(&mut registers[reg], value);
            }
            return Ok(());
        }
        let found = memory.leaf.row(row, txn);
        for (output, &reg) in targets {
            let value = match found.value(direct.given(output)) {
                Some(value) => value,
                None => direct.untold(memory, (found.fields_from(), output), txn, parameters),
            };
            assign(&mut registers[reg], value);
        }
        Ok(())
    }
}
