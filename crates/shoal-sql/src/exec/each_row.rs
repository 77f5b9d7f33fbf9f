//! All rows of a node, handed to whoever takes them where they are: on their pages, in columns, or
//! in registers.

use super::Machine;
use super::pipeline::{Memory, RowView};
use super::pipeline_scan::BatchRow;
use super::query::{NodeRun, eval_all, take};
use crate::Error;
use crate::plan::Reg;
use crate::plan::node::{Node, QueryPlan};
use crate::plan::pipeline::Operand;
use crate::value::{Value, ValueRef};

/// A row in place: columns, then sort keys.
#[derive(Clone, Copy)]
pub(super) enum BodyRow<'r, 'a, 't> {
    Registers { values: &'r [Value], width: usize },
    Pipeline { row: RowView<'r, 'a, 't>, outputs: &'r [Operand], width: usize },
    Computed { row: BatchRow<'r>, width: usize },
}

impl<'r> BodyRow<'r, '_, '_> {
    #[inline]
    pub(super) fn get(self, output: usize) -> ValueRef<'r> {
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

/// Calls `each` with every row of a query, in no order where nothing but the order is asked for.
///
/// # Errors
/// What expressions and `each` raise, and what is wrong with the file.
pub(super) fn each_row(
    plan: &QueryPlan,
    run: &mut NodeRun,
    machine: &mut Machine<'_, '_>,
    each: impl FnMut(BodyRow<'_, '_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    each_row_of(plan.node.unordered(), (plan.output, plan.width), run, machine, each)
}

/// The same of a node whose columns are in so many registers from one on; `run` is one of the
/// node's, whose memory it uses.
///
/// # Errors
/// As [`each_row`].
pub(super) fn each_row_of(
    node: &Node,
    (output, width): (Reg, usize),
    run: &mut NodeRun,
    machine: &mut Machine<'_, '_>,
    mut each: impl FnMut(BodyRow<'_, '_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(pipelines) = node.pipelines() {
        let mut before = None;
        for pipeline in pipelines {
            let txn = machine.txn(pipeline.database)?;
            let outputs = pipeline.outputs.as_deref().unwrap_or_default();
            let mut new = Memory::new(pipeline);
            match &mut before {
                Some(before) => new.take_marks(pipeline, before),
                None => new.keep_within(machine.session),
            }
            let memory = before.insert(new);
            pipeline.for_each(txn, &machine.parameters, memory, |row| {
                each(BodyRow::Pipeline { row, outputs, width })
            })?;
        }
        return Ok(());
    }
    if let Node::Project(project) = node
        && let Node::Taken(taken) = &project.input
    {
        if take(taken, machine)? {
            eval_all(&project.outputs, machine)?;
            each(BodyRow::Registers { values: &machine.registers[output..], width })?;
        }
        return Ok(());
    }
    run.restart();
    while run.next(node, machine)? {
        let values = &machine.registers[output..];
        each(BodyRow::Registers { values, width })?;
        if let (NodeRun::Computed(run), Node::Computed(plan)) = (&mut *run, node) {
            while let Some(row) = run.next_in_batch(plan, values) {
                each(BodyRow::Computed { row, width })?;
            }
        }
    }
    Ok(())
}
