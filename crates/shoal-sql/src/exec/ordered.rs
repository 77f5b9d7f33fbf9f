//! Rows in order: gathered into a sorter, all of them or the first ones.

use rayon::prelude::*;
use shoal_store::Transaction;

use super::Machine;
use super::each_row::{BodyRow, each_row_of};
use super::pipeline::{EVERYWHERE, LeafMemory, Memory};
use super::query::{BoundRows, NodeRun};
use crate::Error;
use crate::keep::sort::{Sorter, Values, compare};
use crate::keep::{SortKey, SortPlan};
use crate::plan::node::{Node, SortNode};
use crate::plan::pipeline::{Pipeline, Walk};
use crate::session::Session;
use crate::value::Value;

/// Where a sort stands.
#[derive(Debug, Default)]
pub(super) struct SortRun {
    input: NodeRun,
    bounds: Option<BoundRows>,
    sorter: Option<Box<Sorter>>,
}

impl SortRun {
    pub(super) fn restart(&mut self) {
        self.input.restart();
        (self.bounds, self.sorter) = (None, None);
    }

    /// Puts the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What the rows raise; when rows that do not fit into memory cannot be written to a file.
    pub(super) fn next(
        &mut self,
        plan: &SortNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if let (None, Some(bounds)) = (&self.bounds, &plan.bounds) {
            self.bounds = Some(BoundRows::of(bounds, machine)?);
        }
        let SortRun { input, bounds, sorter } = self;
        let first = bounds.as_ref().and_then(BoundRows::first);
        let mut next = |machine: &mut Machine<'_, '_>| {
            let sorter = match &mut *sorter {
                Some(sorter) => sorter,
                None => sorter.insert(sorted(plan, first, input, machine)?),
            };
            let columns = plan.output..plan.output + plan.width;
            sorter.next(&plan.sort, &mut machine.registers[columns])
        };
        match bounds {
            Some(bounds) => bounds.next(machine, next),
            None => next(machine),
        }
    }
}

/// All rows in order, or so many first ones.
fn sorted(
    plan: &SortNode,
    bound: Option<usize>,
    input: &mut NodeRun,
    machine: &mut Machine<'_, '_>,
) -> Result<Box<Sorter>, Error> {
    let mut sorter = Box::<Sorter>::default();
    let (sort, session) = (&plan.sort, machine.session);
    let values = Values { first: plan.output, width: plan.width };
    if let Some(bound) = bound.filter(|_| plan.begins > 0) {
        first_of_begun(plan, input, machine, (bound, &mut sorter))?;
    } else if !first_of_ranges(plan, machine, bound, &mut sorter)?
        && !all_of_scan(plan, machine, bound, &mut sorter)?
    {
        each_row_of(&plan.input, (plan.output, plan.width), input, machine, |row| {
            sorter.push(session, (values, sort), |output| row.get(output), bound)
        })?;
    }
    sorter.sort(session, sort)?;
    *input = NodeRun::Fresh;
    Ok(sorter)
}

/// Puts the first rows of an input in the order of its first keys into `sorter`: once enough rows
/// are there, a row with other keys ends the search.
fn first_of_begun(
    plan: &SortNode,
    input: &mut NodeRun,
    machine: &mut Machine<'_, '_>,
    (bound, sorter): (usize, &mut Sorter),
) -> Result<(), Error> {
    let (sort, session) = (&plan.sort, machine.session);
    let keys = &sort.keys[..plan.begins];
    let values = Values { first: plan.output, width: plan.width };
    let mut last: Vec<Value> = Vec::new();
    let mut count = 0;
    input.restart();
    while input.next(&plan.input, machine)? {
        let is_alike = |(key, last): (&SortKey, &Value)| {
            compare(machine.registers[key.reg].as_ref(), last.as_ref(), *key).is_eq()
        };
        if last.is_empty() || !keys.iter().zip(&last).all(is_alike) {
            if count >= bound {
                return Ok(());
            }
            last.clear();
            last.extend(keys.iter().map(|key| machine.registers[key.reg].clone()));
        }
        count += 1;
        let registers = &machine.registers[plan.output..];
        sorter.push(session, (values, sort), |output| registers[output].as_ref(), Some(bound))?;
    }
    Ok(())
}

/// Puts the first rows of a large table into `sorter`, from ranges of rowids that are read side by
/// side. False, with nothing done, when the rows are not of one large table, or the first rows are
/// too many to be gathered once per range.
fn first_of_ranges(
    plan: &SortNode,
    machine: &Machine<'_, '_>,
    bound: Option<usize>,
    sorter: &mut Sorter,
) -> Result<bool, Error> {
    let (Some(bound), Node::Pages(pages)) = (bound, &plan.input) else { return Ok(false) };
    if bound > BOUND_OF_RANGES_MAX {
        return Ok(false);
    }
    let pipeline = &pages.pipeline;
    let Some(outputs) = pipeline.outputs.as_deref() else { return Ok(false) };
    let txn = machine.txn(pipeline.database)?;
    let session = machine.session;
    let ranges = pipeline.ranges(txn);
    if ranges.is_empty() {
        return Ok(false);
    }
    let (parameters, width, sort) = (&machine.parameters, plan.width, &plan.sort);
    let values = Values { first: plan.output, width };
    let sets = pipeline.gather_keys(txn, parameters)?;
    let gather = |range: &(i64, i64)| {
        let mut sorter = Sorter::default();
        let mut memory = Memory::new(pipeline);
        memory.give_sets(sets.clone());
        if pipeline.is_scan() {
            let (by, leaf) = ((values, sort), &mut memory.leaf);
            sorter.take_scan(
                session,
                by,
                (pipeline, parameters),
                (txn, *range),
                leaf,
                Some(bound),
            )?;
            return Ok(sorter);
        }
        pipeline.for_each_row_within(txn, parameters, &mut memory, *range, |row| {
            let row = BodyRow::Pipeline { row, outputs, width };
            sorter.push(session, (values, sort), |output| row.get(output), Some(bound))
        })?;
        Ok(sorter)
    };
    // The size of a wave does not change the rows.
    for wave in ranges.chunks(4 * rayon::current_num_threads()) {
        let parts: Vec<Result<Sorter, Error>> = wave.par_iter().map(gather).collect();
        for part in parts {
            sorter.absorb(session, sort, part?, bound)?;
        }
    }
    Ok(true)
}

/// Puts the rows of one table, or of several one after the other, into `sorter`. False, with
/// nothing done, when the rows are not those of tables in their order.
fn all_of_scan(
    plan: &SortNode,
    machine: &Machine<'_, '_>,
    bound: Option<usize>,
    sorter: &mut Sorter,
) -> Result<bool, Error> {
    let are_scans = plan.input.pipelines().is_some_and(|mut all| all.all(Pipeline::is_scan));
    let Some(pipelines) = plan.input.pipelines().filter(|_| are_scans) else { return Ok(false) };
    let values = Values { first: plan.output, width: plan.width };
    let (session, by) = (machine.session, (values, &plan.sort));
    let mut memory = LeafMemory::default();
    for pipeline in pipelines {
        let within = (machine.txn(pipeline.database)?, EVERYWHERE);
        let asked = (pipeline, machine.parameters.as_slice());
        sorter.take_scan(session, by, asked, within, &mut memory, bound)?;
    }
    Ok(true)
}

impl Sorter {
    /// Takes the rows of a select of one table in its order, within a range of rowids.
    ///
    /// # Errors
    /// As [`Sorter::push`], and what is wrong with the file.
    fn take_scan(
        &mut self,
        session: &dyn Session,
        by: (Values, &SortPlan),
        (pipeline, parameters): (&Pipeline, &[Value]),
        (txn, within): (&Transaction, (i64, i64)),
        memory: &mut LeafMemory,
        bound: Option<usize>,
    ) -> Result<(), Error> {
        let outputs = pipeline.outputs.as_deref().unwrap_or_default();
        if !matches!(pipeline.walk, Walk::TopN) {
            return pipeline.for_each_within(txn, parameters, memory, within, |rows| {
                self.push_leaf(session, by, (rows, outputs), bound)
            });
        }
        pipeline.for_each_chosen(
            txn,
            parameters,
            memory,
            (within, self),
            |sorter, rows, chosen| sorter.choose(by, (rows, outputs), chosen),
            |sorter, rows| sorter.push_leaf(session, by, (rows, outputs), bound),
        )
    }
}

/// Most first rows gathered of every range.
const BOUND_OF_RANGES_MAX: usize = 1 << 9;
