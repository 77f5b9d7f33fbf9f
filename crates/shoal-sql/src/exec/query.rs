//! A whole query: bodies and compounds of them, order, bounds.

use rayon::prelude::*;
use shoal_store::Transaction;

use super::eval;
use super::pipeline::{EVERYWHERE, LeafMemory, Memory, RowView};
use super::pipeline_scan::BatchRow;
use super::recursion::RecursiveRun;
use super::select::SelectRun;
use super::sets::SetRows;
use super::shared::SharedRun;
use super::{Batch, Machine};
use crate::Error;
use crate::keep::SortPlan;
use crate::keep::sort::{Sorter, Values};
use crate::plan::node::{Node, Operand, Pipeline, parts};
use crate::plan::{BodyPlan, Code, CompoundPlan, QueryPlan};
use crate::session::Session;
use crate::value::{Affinity, Value, ValueRef};

/// The state of a query.
#[derive(Debug, Default)]
pub(super) struct QueryRun {
    body: BodyRun,
    sorter: Option<Box<Sorter>>,
    /// Rows still to be passed over and to be given.
    offset: u64,
    limit: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) enum BodyRun {
    #[default]
    Fresh,
    Select(Box<SelectRun>),
    Values(usize),
    /// Parts one after the other.
    Chain {
        part: usize,
        run: Box<QueryRun>,
    },
    Recursive(Box<RecursiveRun>),
    Shared(SharedRun),
    /// Rows of the parts compared; a chain of the other parts follows.
    Sets(Box<SetRows>),
}

impl QueryRun {
    /// Begins the query anew.
    pub(super) fn start(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.body = BodyRun::Fresh;
        self.start_again(plan, machine)
    }

    /// Begins anew a query run before, with the memory of the run before.
    pub(super) fn start_again(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if let Some(analysis) = machine.analysis {
            analysis.opened(plan.measure);
        }
        self.body.restart();
        self.sorter = None;
        self.limit = match &plan.limit {
            Some(code) => u64::try_from(row_count(code, machine)?).ok(),
            None => None,
        };
        self.offset = match &plan.offset {
            Some(code) => u64::try_from(row_count(code, machine)?).unwrap_or(0),
            None => 0,
        };
        Ok(())
    }

    /// Puts the next row into the query's registers; false when there is none.
    #[inline]
    pub(super) fn next(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let rows = |found: &bool| u64::from(*found);
        machine.measured(plan.measure, |machine| self.next_row(plan, machine), rows)
    }

    fn next_row(&mut self, plan: &QueryPlan, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        loop {
            if self.limit == Some(0) {
                return Ok(false);
            }
            let found = match &plan.sort {
                Some(sort) => self.next_sorted(plan, sort, machine)?,
                None => self.body.next(plan, machine)?,
            };
            if !found {
                return Ok(false);
            }
            if self.offset > 0 {
                self.offset -= 1;
                continue;
            }
            if let Some(limit) = &mut self.limit {
                *limit -= 1;
            }
            return Ok(true);
        }
    }

    /// Appends up to `count` groups to `out`, where the groups are the query's rows: see
    /// [`SelectRun::fill_groups`].
    ///
    /// # Errors
    /// As there.
    pub(super) fn fill_groups(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
        count: usize,
        out: &mut Batch,
    ) -> Result<Option<bool>, Error> {
        let BodyPlan::Select(select) = &plan.body else { return Ok(None) };
        if select.group.is_none()
            || plan.sort.is_some()
            || plan.limit.is_some()
            || plan.offset.is_some()
        {
            return Ok(None);
        }
        if matches!(self.body, BodyRun::Fresh) {
            self.body = BodyRun::Select(Box::default());
        }
        let BodyRun::Select(run) = &mut self.body else { return Ok(None) };
        run.fill_groups((select, plan.width), machine, count, out)
    }

    /// Appends rows already computed behind the one in the registers, at most `most`, to `out`.
    /// There may be none.
    pub(super) fn push_batch(
        &mut self,
        plan: &QueryPlan,
        machine: &Machine<'_, '_>,
        most: usize,
        out: &mut Batch,
    ) {
        let (BodyRun::Select(run), BodyPlan::Select(select)) = (&mut self.body, &plan.body) else {
            return;
        };
        if plan.sort.is_some() {
            return;
        }
        let outputs = &machine.registers[plan.output..];
        for _ in 0..most {
            if self.limit == Some(0) || out.is_long() {
                return;
            }
            let Some(row) = run.next_in_batch(select, outputs) else { return };
            out.begin_row();
            (0..plan.width).for_each(|output| out.push_value(row.value(output)));
            if let Some(limit) = &mut self.limit {
                *limit -= 1;
            }
        }
    }

    fn next_sorted(
        &mut self,
        plan: &QueryPlan,
        sort: &SortPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.sorter.is_none() {
            let mut sorter = Box::<Sorter>::default();
            let bound = self.limit.map(|limit| limit.saturating_add(self.offset));
            let bound = bound.and_then(|bound| usize::try_from(bound).ok());
            let session = machine.session;
            let values = Values::of(plan);
            if !first_of_ranges(plan, sort, machine, bound, &mut sorter)?
                && !all_of_scan(plan, sort, machine, bound, &mut sorter)?
            {
                each_row(plan, machine, |row| {
                    sorter.push(session, (values, sort), |output| row.get(output), bound)
                })?;
            }
            sorter.sort(session, sort)?;
            self.body = BodyRun::Fresh;
            self.sorter = Some(sorter);
        }
        let Some(sorter) = &mut self.sorter else { return Ok(false) };
        sorter.next(sort, &mut machine.registers[plan.output..plan.output + plan.width])
    }

    /// Notes the places of cursors before they are dropped.
    pub(super) fn park(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if self.sorter.is_some() {
            return Ok(());
        }
        match (&mut self.body, &plan.body) {
            (BodyRun::Select(run), BodyPlan::Select(plan)) => run.park(plan, machine),
            (BodyRun::Chain { part, run }, BodyPlan::Compound(plan)) => {
                run.park(plan.part(*part), machine)
            }
            _ => Ok(()),
        }
    }
}

/// The count given by `LIMIT` or `OFFSET`; negative stands for no limit.
fn row_count(code: &Code, machine: &mut Machine<'_, '_>) -> Result<i64, Error> {
    eval(machine, code)?;
    match Affinity::Integer.apply(machine.registers[code.result].clone()) {
        Value::Int(count) => Ok(count),
        _ => Err(Error::runtime("datatype mismatch")),
    }
}

impl BodyRun {
    /// Begins anew, with the memory of a select.
    fn restart(&mut self) {
        match self {
            BodyRun::Select(run) => run.restart(),
            other => *other = BodyRun::Fresh,
        }
    }

    fn next(&mut self, query: &QueryPlan, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        if matches!(self, BodyRun::Fresh) {
            *self = match &query.body {
                BodyPlan::Select(_) => BodyRun::Select(Box::default()),
                BodyPlan::Values(_) => BodyRun::Values(0),
                BodyPlan::Recursive(_) => BodyRun::Recursive(Box::default()),
                BodyPlan::Shared(plan) => BodyRun::Shared(SharedRun::open(plan, machine)?),
                BodyPlan::Compound(plan) if plan.is_chain() => {
                    let mut run = Box::new(QueryRun::default());
                    run.start(&plan.first, machine)?;
                    BodyRun::Chain { part: 0, run }
                }
                BodyPlan::Compound(plan) => BodyRun::Sets(Box::new(SetRows::of(plan, machine)?)),
            };
        }
        if let (BodyRun::Sets(sets), BodyPlan::Compound(plan)) = (&mut *self, &query.body) {
            if sets.next(&mut machine.registers[query.output..query.output + query.width])? {
                return Ok(true);
            }
            let part = plan.compared();
            if part > plan.rest.len() {
                return Ok(false);
            }
            let mut run = Box::new(QueryRun::default());
            run.start(plan.part(part), machine)?;
            *self = BodyRun::Chain { part, run };
        }
        match (self, &query.body) {
            (BodyRun::Select(run), BodyPlan::Select(plan)) => run.next(query, plan, machine),
            (BodyRun::Recursive(run), BodyPlan::Recursive(plan)) => run.next(query, plan, machine),
            (BodyRun::Shared(run), BodyPlan::Shared(_)) => run.next(query, machine),
            (BodyRun::Values(next), BodyPlan::Values(rows)) => {
                let Some(row) = rows.get(*next) else { return Ok(false) };
                *next += 1;
                for code in row {
                    eval(machine, code)?;
                }
                Ok(true)
            }
            (BodyRun::Chain { part, run }, BodyPlan::Compound(plan)) => loop {
                if run.next(plan.part(*part), machine)? {
                    return Ok(true);
                }
                if *part == plan.rest.len() {
                    return Ok(false);
                }
                *part += 1;
                run.start(plan.part(*part), machine)?;
            },
            _ => Ok(false),
        }
    }
}

impl CompoundPlan {
    fn part(&self, number: usize) -> &QueryPlan {
        match number.checked_sub(1).and_then(|number| self.rest.get(number)) {
            Some((_, plan)) => plan,
            None => &self.first,
        }
    }
}

/// A row of a query's body, in its place: the columns, then the values of its sort keys.
#[derive(Clone, Copy)]
pub(super) enum BodyRow<'r, 'a, 't> {
    Registers { values: &'r [Value], width: usize },
    Pipeline { row: RowView<'r, 'a, 't>, outputs: &'r [Operand], width: usize },
    Computed { row: BatchRow<'r>, width: usize },
}

impl<'r> BodyRow<'r, '_, '_> {
    #[inline]
    fn get(self, output: usize) -> ValueRef<'r> {
        match self {
            BodyRow::Registers { values, .. } => values[output].as_ref(),
            BodyRow::Pipeline { row, outputs, .. } => row.value(&outputs[output]),
            BodyRow::Computed { row, .. } => row.value(output),
        }
    }

    /// The columns.
    pub(super) fn values(self) -> impl Iterator<Item = ValueRef<'r>> + Clone {
        let (BodyRow::Registers { width, .. }
        | BodyRow::Pipeline { width, .. }
        | BodyRow::Computed { width, .. }) = self;
        (0..width).map(move |output| self.get(output))
    }
}

/// Puts the first rows of a large table into `sorter`, from ranges of rowids read side by side.
/// False, with nothing done, when the body is no select of one large table, or the first rows are
/// too many to gather once per range.
fn first_of_ranges(
    plan: &QueryPlan,
    sort: &SortPlan,
    machine: &Machine<'_, '_>,
    bound: Option<usize>,
    sorter: &mut Sorter,
) -> Result<bool, Error> {
    let (Some(bound), BodyPlan::Select(select)) = (bound, &plan.body) else { return Ok(false) };
    let Some(pipeline) = select.pipeline.as_deref().filter(|_| bound <= BOUND_OF_RANGES_MAX) else {
        return Ok(false);
    };
    let Some(outputs) = pipeline.outputs.as_deref() else { return Ok(false) };
    let txn = machine.txn(pipeline.database)?;
    let session = machine.session;
    let ranges = pipeline.ranges(txn);
    if ranges.is_empty() {
        return Ok(false);
    }
    let (parameters, width, values) = (&machine.parameters, plan.width, Values::of(plan));
    let gather = |range: &(i64, i64)| {
        let mut sorter = Sorter::default();
        let mut memory = Memory::new(pipeline);
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
    // The number of parts waiting for their merge does not change the result.
    for wave in ranges.chunks(4 * rayon::current_num_threads()) {
        let parts: Vec<Result<Sorter, Error>> = wave.par_iter().map(gather).collect();
        for part in parts {
            sorter.absorb(session, sort, part?, bound)?;
        }
    }
    Ok(true)
}

/// Puts the rows of one table, or of several one after the other, into `sorter`. False, with
/// nothing done, when the body is not made of selects of one table in its order.
fn all_of_scan(
    plan: &QueryPlan,
    sort: &SortPlan,
    machine: &Machine<'_, '_>,
    bound: Option<usize>,
    sorter: &mut Sorter,
) -> Result<bool, Error> {
    if !parts(&plan.body).all(|part| part.is_some_and(Pipeline::is_scan)) {
        return Ok(false);
    }
    let (session, by) = (machine.session, (Values::of(plan), sort));
    let mut memory = LeafMemory::default();
    for pipeline in parts(&plan.body).flatten() {
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
    /// As [`Sorter::push`], and errors of the file.
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
        if !matches!(pipeline.node, Node::TopN) {
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

/// Calls `each` with every row of a query's body, before its order and bounds.
pub(super) fn each_row(
    plan: &QueryPlan,
    machine: &mut Machine<'_, '_>,
    mut each: impl FnMut(BodyRow<'_, '_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let width = plan.width;
    // Kept rowids are counted where rows come one after the other.
    let counted = machine.session.budget().is_some();
    let fits = |pipeline: &Pipeline| !(counted && pipeline.keeps_rowids());
    if parts(&plan.body).all(|part| part.is_some_and(fits)) {
        let mut before = None;
        for pipeline in parts(&plan.body).flatten() {
            let txn = machine.txn(pipeline.database)?;
            let outputs = pipeline.outputs.as_deref().unwrap_or_default();
            let mut new = Memory::new(pipeline);
            if let Some(before) = &mut before {
                new.take_marks(pipeline, before);
            }
            let memory = before.insert(new);
            pipeline.for_each(txn, &machine.parameters, memory, |row| {
                each(BodyRow::Pipeline { row, outputs, width })
            })?;
        }
        return Ok(());
    }
    each_row_again(plan, &mut BodyRun::Fresh, machine, each)
}

/// As [`each_row`] by way of the registers, with the memory of a run before.
pub(super) fn each_row_again(
    plan: &QueryPlan,
    body: &mut BodyRun,
    machine: &mut Machine<'_, '_>,
    mut each: impl FnMut(BodyRow<'_, '_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let width = plan.width;
    body.restart();
    while body.next(plan, machine)? {
        let values = &machine.registers[plan.output..];
        each(BodyRow::Registers { values, width })?;
        if let (BodyRun::Select(run), BodyPlan::Select(select)) = (&mut *body, &plan.body) {
            while let Some(row) = run.next_in_batch(select, values) {
                each(BodyRow::Computed { row, width })?;
            }
        }
    }
    Ok(())
}
