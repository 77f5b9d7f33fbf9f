//! Groups of rows whose keys and arguments are computed many at a time.

use std::sync::Arc;

use shoal_store::Transaction;

use super::column::Column;
use super::rows::{ComputedRows, FoundRows};
use super::{Columns, Readable, World};
use crate::Error;
use crate::exec::Machine;
use crate::exec::group::{Groups, Stop, ranges_to_merge};
use crate::exec::pipeline::{EVERYWHERE, KeySets, Memory};
use crate::plan::{GroupPlan, GroupScan, PipelineScan};
use crate::value::{Value, ValueRef};

impl Groups {
    /// Takes every row of a scan into its groups.
    ///
    /// # Errors
    /// Errors of the file, and of computing a row.
    pub(in crate::exec) fn add_computed(
        &mut self,
        plan: &GroupPlan,
        (piped, group): (&PipelineScan, &GroupScan),
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let txn = machine.txn(piped.pipeline.database)?;
        let parameters = &*Arc::clone(&machine.parameters);
        let sets = piped.pipeline.gather_keys(txn, parameters)?;
        let taker = Taker { plan, piped, group, parameters, sets };
        // Queries keep their state in the machine, so such scans are not parted.
        let ranges = match piped.runs_query {
            true => Vec::new(),
            false => ranges_to_merge(plan, &piped.pipeline, txn),
        };
        let (registers, session) = (machine.registers.as_slice(), machine.session);
        if !ranges.is_empty()
            && self.merge_ranges((plan, session), &ranges, |groups, range, stop| {
                let mut machine = Machine::of_registers(registers.to_vec(), 0, session);
                taker.take((groups, &mut machine), txn, range, Some(stop))
            })?
        {
            return Ok(());
        }
        taker.take((self, machine), txn, EVERYWHERE, None)
    }
}

/// Feeds rows into groups.
struct Taker<'p> {
    plan: &'p GroupPlan,
    piped: &'p PipelineScan,
    group: &'p GroupScan,
    parameters: &'p [Value],
    sets: Option<KeySets>,
}

impl Taker<'_> {
    /// Takes the rows of a range of rowids, where the first loop goes over a table, or all.
    fn take(
        &self,
        (groups, machine): (&mut Groups, &mut Machine<'_, '_>),
        txn: &Transaction,
        range: (i64, i64),
        stop: Option<&Stop>,
    ) -> Result<(), Error> {
        let go_on = |groups: &Groups| stop.map_or(Ok(()), |stop| stop.check(groups));
        let (pipeline, parameters) = (&self.piped.pipeline, self.parameters);
        let outputs = pipeline.outputs.as_deref().unwrap_or_default();
        let mut memory = Memory::new(pipeline);
        memory.give_sets(self.sets.clone());
        memory.keep_within(machine.session);
        let mut columns = Columns::default();
        if pipeline.is_scan() {
            return pipeline.for_each_within(txn, parameters, &mut memory.leaf, range, |rows| {
                go_on(groups)?;
                self.take_found((groups, machine), &mut columns, &FoundRows { rows, outputs })
            });
        }
        if pipeline.is_join() {
            return pipeline.for_each_joined(txn, parameters, &mut memory, range, |rows| {
                go_on(groups)?;
                self.take_found((groups, machine), &mut columns, &FoundRows { rows, outputs })
            });
        }
        let mut waiting = WaitingRows::default();
        pipeline.for_each(txn, parameters, &mut memory, |row| {
            waiting.push(outputs.iter().map(|operand| row.value(operand)));
            if waiting.rows < pipeline.batch_rows() {
                return Ok(());
            }
            self.take_found((groups, machine), &mut columns, &waiting)?;
            waiting.clear();
            Ok(())
        })?;
        memory.tell(pipeline, machine.analysis);
        self.take_found((groups, machine), &mut columns, &waiting)
    }

    /// Takes rows found together.
    fn take_found(
        &self,
        (groups, machine): (&mut Groups, &mut Machine<'_, '_>),
        columns: &mut Columns,
        rows: &impl Readable,
    ) -> Result<(), Error> {
        let Taker { plan, piped, group, parameters, .. } = *self;
        let session = machine.session;
        let mut world = World { table: &piped.table, machine };
        columns.take(rows, (piped.early, piped.registers.len()), &piped.conditions, &mut world);
        columns.compute(group.computed.iter().filter_map(|code| code.of(plan)), &mut world);
        groups.take_rows((plan, &group.group), ComputedRows { columns, parameters }, session)?;
        session.check()?;
        columns.take_failure().map_or(Ok(()), Err)
    }
}

/// Rows found one after the other, gathered for a batch.
#[derive(Default)]
struct WaitingRows {
    columns: Vec<Column>,
    rows: usize,
}

impl WaitingRows {
    fn push<'v>(&mut self, values: impl ExactSizeIterator<Item = ValueRef<'v>>) {
        self.columns.resize_with(values.len(), Column::default);
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.rows += 1;
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.rows = 0;
    }
}

impl Readable for WaitingRows {
    fn len(&self) -> usize {
        self.rows
    }

    fn read(&self, output: usize, wanted: Option<&[u8]>, column: &mut Column) {
        let Some(from) = self.columns.get(output) else { return };
        match wanted {
            None => (0..self.rows).for_each(|row| column.push(from.value(row))),
            Some(rows) => rows.iter().for_each(|&row| column.push(from.value(row.into()))),
        }
    }
}
