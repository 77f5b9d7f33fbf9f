//! Operators of modules: rows of loops go in by batches, rows of the module come out, each beside
//! its row of the loops.

use super::Machine;
use super::loops::LoopsRun;
use super::scan::{arguments, put_row};
use crate::Error;
use crate::keep::row_size;
use crate::plan::OperatorScan;
use crate::schema::{ModuleContext, OperatorRows};
use crate::value::{Value, assign};

/// A batch ends once its rows have so many bytes.
const BATCH_BYTES: usize = 1 << 16;

/// The size of a batch beside the batch before: a `LIMIT` may end the statement early.
const GROWTH: usize = 4;

/// Position in an operator's rows.
#[derive(Debug)]
pub(super) struct OperatorRun {
    input: LoopsRun,
    rows: Box<dyn OperatorRows>,
    /// The arguments of each row of the batch.
    batch: Vec<Vec<Option<Value>>>,
    /// The registers of each row of the batch, one row behind the other.
    kept: Vec<Value>,
    /// The place in the batch of the row in the registers.
    at: usize,
    /// The row last given.
    row: Vec<Value>,
    /// Most rows of the next batch.
    size: usize,
    input_ended: bool,
    /// The error of the input behind the batch's rows.
    failed: Option<Error>,
}

impl OperatorRun {
    pub(super) fn open(plan: &OperatorScan) -> Result<OperatorRun, Error> {
        let operator = plan.call.module.operator().expect("the node of an operator has one");
        Ok(OperatorRun {
            input: LoopsRun::default(),
            rows: operator.open()?,
            batch: Vec::new(),
            kept: Vec::new(),
            at: 0,
            row: Vec::new(),
            size: 1,
            input_ended: false,
            failed: None,
        })
    }

    /// Begins anew with the module's memory.
    pub(super) fn restart(&mut self) {
        self.input.restart();
        self.batch.clear();
        self.kept.clear();
        (self.at, self.size, self.input_ended, self.failed) = (0, 1, false, None);
    }

    /// Puts the next row into the registers beside its row of the loops; false when there is none.
    ///
    /// # Errors
    /// Errors of the module and of the loops.
    pub(super) fn next(
        &mut self,
        plan: &OperatorScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        loop {
            if !self.batch.is_empty() {
                self.row.clear();
                let context = context(plan, machine)?;
                if let Some(place) = self.rows.next(&mut self.row, &context)? {
                    let Some(arguments) = self.batch.get(place).filter(|_| place >= self.at) else {
                        let what = "an operator's row belongs to no row that is still to come";
                        return Err(Error::Misuse { what });
                    };
                    put_row(&plan.call, &self.row, arguments, machine);
                    if place != self.at {
                        self.show(place, plan, machine);
                    }
                    return Ok(true);
                }
            }
            if let Some(error) = self.failed.take() {
                self.input_ended = true;
                return Err(error);
            }
            if !self.gather(plan, machine)? {
                return Ok(false);
            }
        }
    }

    /// Takes the next batch of the loops' rows; false when there is none.
    fn gather(
        &mut self,
        plan: &OperatorScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        // The loops go on from the last row they gave.
        if let Some(last) = self.batch.len().checked_sub(1).filter(|last| *last != self.at) {
            self.show(last, plan, machine);
        }
        self.batch.clear();
        self.kept.clear();
        let operator = plan.call.module.operator().expect("the node of an operator has one");
        let most = self.size.min(operator.batch_rows());
        self.size = most.saturating_mul(GROWTH);
        let mut bytes = 0;
        while !self.input_ended && self.batch.len() < most && bytes < BATCH_BYTES {
            match self.input.next(&plan.input, machine) {
                Ok(true) => {}
                Ok(false) => {
                    self.input_ended = true;
                    break;
                }
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
            match arguments(&plan.call, machine) {
                Ok(arguments) => self.batch.push(arguments),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
            let row = plan.kept.iter().map(|&reg| &machine.registers[reg]);
            bytes += row_size(row.clone().map(Value::as_ref));
            self.kept.extend(row.cloned());
        }
        let Some(last) = self.batch.len().checked_sub(1) else {
            return self.failed.take().map_or(Ok(false), Err);
        };
        self.at = last;
        self.show(0, plan, machine);
        self.rows.take(&self.batch, &context(plan, machine)?)?;
        Ok(true)
    }

    /// Puts a row of the batch into the registers of the loops.
    fn show(&mut self, place: usize, plan: &OperatorScan, machine: &mut Machine<'_, '_>) {
        let width = plan.kept.len();
        let row = &self.kept[place * width..(place + 1) * width];
        for (&reg, value) in plan.kept.iter().zip(row) {
            assign(&mut machine.registers[reg], value.as_ref());
        }
        self.at = place;
    }

    /// Notes where the cursors of the loops are.
    pub(super) fn park(
        &mut self,
        plan: &OperatorScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.input.park(&plan.input, machine)
    }
}

/// The statement as seen by the operator, whose own queries do not find its module.
fn context<'c>(
    plan: &'c OperatorScan,
    machine: &'c Machine<'_, '_>,
) -> Result<ModuleContext<'c>, Error> {
    Ok(ModuleContext { module: Some(plan.call.module.name()), ..machine.module_context()? })
}
