//! Runs of nodes: each steps to a next row, over the rows of the nodes below.

use super::computed_rows::ComputedRun;
use super::distinct::DistinctRun;
use super::eval;
use super::grouped::{GroupInOrderRun, GroupRun};
use super::loops::LoopsRun;
use super::ordered::SortRun;
use super::pages::PagesRun;
use super::recursion::RecursiveRun;
use super::sets::CompoundRun;
use super::shared::SharedRun;
use super::window::WindowNodeRun;
use super::{Batch, Machine};
use crate::Error;
use crate::exec::eval_condition;
use crate::plan::Code;
use crate::plan::node::{Bounds, Node, QueryPlan, TakenNode};
use crate::value::{Affinity, Value, assign};

/// The state of a query.
#[derive(Debug, Default)]
pub(super) struct QueryRun {
    node: NodeRun,
}

impl QueryRun {
    /// Begins the query anew, with the memory of the run before.
    pub(super) fn start(&mut self, plan: &QueryPlan, machine: &mut Machine<'_, '_>) {
        if let Some(analysis) = machine.analysis {
            analysis.opened(plan.measure);
        }
        self.node.restart();
    }

    /// Puts the next row into the query's registers; false when there is none.
    #[inline]
    pub(super) fn next(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let rows = |found: &bool| u64::from(*found);
        machine.measured(plan.measure, |machine| self.node.next(&plan.node, machine), rows)
    }

    /// Appends up to `count` groups to `out`, where the query's rows are those; false when there
    /// are no more, `None` where its rows are others.
    ///
    /// # Errors
    /// What aggregates raise and what is wrong with the file.
    pub(super) fn fill_groups(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
        count: usize,
        out: &mut Batch,
    ) -> Result<Option<bool>, Error> {
        let Node::Group(group) = &plan.node else { return Ok(None) };
        let Some((given, _)) = &group.given else { return Ok(None) };
        if let NodeRun::Fresh = self.node {
            self.node = NodeRun::Group(Box::default());
        }
        let NodeRun::Group(run) = &mut self.node else { unreachable!("a run is of one node") };
        // Sort keys are behind the columns.
        let given = given.get(..plan.width).unwrap_or(given);
        run.fill((group, given), machine, count, out).map(Some)
    }

    /// Appends rows that are known behind the one in the registers, at most so many, to `out`.
    /// There may be none.
    pub(super) fn push_batch(
        &mut self,
        plan: &QueryPlan,
        machine: &Machine<'_, '_>,
        most: usize,
        out: &mut Batch,
    ) {
        self.node.push_batch(&plan.node, (plan.width, machine), most, out);
    }

    /// Notes the places of the cursors before the cursors go.
    pub(super) fn park(
        &mut self,
        plan: &QueryPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.node.park(&plan.node, machine)
    }
}

/// Where a node stands.
#[derive(Debug, Default)]
pub(super) enum NodeRun {
    /// Before anything was asked of it.
    #[default]
    Fresh,
    /// The number of the next row.
    Values(usize),
    Pages(Box<PagesRun>),
    Computed(Box<ComputedRun>),
    Loops(Box<LoopsRun>),
    /// True where the row was given.
    Taken(bool),
    Group(Box<GroupRun>),
    GroupInOrder(Box<GroupInOrderRun>),
    Window(Box<WindowNodeRun>),
    Project(Box<NodeRun>),
    Distinct(Box<DistinctRun>),
    Sort(Box<SortRun>),
    Limit(Box<LimitRun>),
    Compound(Box<CompoundRun>),
    Recursion(Box<RecursiveRun>),
    Shared(SharedRun),
}

impl NodeRun {
    fn of(node: &Node, machine: &mut Machine<'_, '_>) -> Result<NodeRun, Error> {
        Ok(match node {
            Node::Values(_) => NodeRun::Values(0),
            Node::Pages(plan) => NodeRun::Pages(Box::new(PagesRun::new(plan))),
            Node::Computed(plan) => NodeRun::Computed(Box::new(ComputedRun::new(plan, machine))),
            Node::Loops(_) => NodeRun::Loops(Box::default()),
            Node::Taken(_) => NodeRun::Taken(false),
            Node::Group(_) => NodeRun::Group(Box::default()),
            Node::GroupInOrder(_) => NodeRun::GroupInOrder(Box::default()),
            Node::Window(_) => NodeRun::Window(Box::default()),
            Node::Project(_) => NodeRun::Project(Box::default()),
            Node::Distinct(_) => NodeRun::Distinct(Box::default()),
            Node::Sort(_) => NodeRun::Sort(Box::default()),
            Node::Limit(_) => NodeRun::Limit(Box::default()),
            Node::Compound(_) => NodeRun::Compound(Box::default()),
            Node::Recursion(_) => NodeRun::Recursion(Box::default()),
            Node::Shared(plan) => NodeRun::Shared(SharedRun::open(plan, machine)?),
            Node::Probe(_) => unreachable!("a probe is asked for a row or a value"),
        })
    }

    /// Begins anew, with the memory of the run before.
    pub(super) fn restart(&mut self) {
        match self {
            NodeRun::Fresh => {}
            NodeRun::Values(next) => *next = 0,
            NodeRun::Pages(run) => run.restart(),
            NodeRun::Loops(run) => run.restart(),
            NodeRun::Taken(given) => *given = false,
            NodeRun::Group(run) => run.restart(),
            NodeRun::GroupInOrder(run) => run.restart(),
            NodeRun::Project(input) => input.restart(),
            NodeRun::Distinct(run) => run.restart(),
            NodeRun::Window(run) => run.restart(),
            NodeRun::Sort(run) => run.restart(),
            NodeRun::Limit(run) => run.restart(),
            NodeRun::Computed(run) => run.restart(),
            NodeRun::Compound(_) | NodeRun::Recursion(_) | NodeRun::Shared(_) => {
                *self = NodeRun::Fresh
            }
        }
    }

    /// Puts the next row into the registers; false when there is none.
    pub(super) fn next(
        &mut self,
        node: &Node,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if let NodeRun::Fresh = self {
            *self = NodeRun::of(node, machine)?;
        }
        match (self, node) {
            (NodeRun::Project(input), Node::Project(plan)) => {
                let found = input.next(&plan.input, machine)?;
                if found {
                    eval_all(&plan.outputs, machine)?;
                }
                Ok(found)
            }
            (NodeRun::Loops(run), Node::Loops(plan)) => run.next(plan, machine),
            (NodeRun::Pages(run), Node::Pages(plan)) => run.next(plan, machine),
            (NodeRun::Computed(run), Node::Computed(plan)) => run.next(plan, machine),
            (NodeRun::Values(next), Node::Values(rows)) => {
                let Some(row) = rows.get(*next) else { return Ok(false) };
                *next += 1;
                eval_all(row, machine).map(|()| true)
            }
            (NodeRun::Taken(given), Node::Taken(plan)) => match std::mem::replace(given, true) {
                true => Ok(false),
                false => take(plan, machine),
            },
            (NodeRun::Group(run), Node::Group(plan)) => run.next(plan, machine),
            (NodeRun::GroupInOrder(run), Node::GroupInOrder(plan)) => run.next(plan, machine),
            (NodeRun::Window(run), Node::Window(plan)) => run.next(plan, machine),
            (NodeRun::Distinct(run), Node::Distinct(plan)) => run.next(plan, machine),
            (NodeRun::Sort(run), Node::Sort(plan)) => run.next(plan, machine),
            (NodeRun::Limit(run), Node::Limit(plan)) => {
                let LimitRun { input, rows } = &mut **run;
                let rows = match rows {
                    Some(rows) => rows,
                    None => rows.insert(BoundRows::of(&plan.bounds, machine)?),
                };
                rows.next(machine, |machine| input.next(&plan.input, machine))
            }
            (NodeRun::Compound(run), Node::Compound(plan)) => run.next(plan, machine),
            (NodeRun::Recursion(run), Node::Recursion(plan)) => run.next(plan, machine),
            (NodeRun::Shared(run), Node::Shared(plan)) => run.next(plan, machine),
            _ => unreachable!("a run is of one node"),
        }
    }

    /// See [`QueryRun::push_batch`]: so many columns.
    fn push_batch(
        &mut self,
        node: &Node,
        (width, machine): (usize, &Machine<'_, '_>),
        most: usize,
        out: &mut Batch,
    ) -> usize {
        match (self, node) {
            (NodeRun::Computed(run), Node::Computed(plan)) => {
                let fixed = &machine.registers[plan.output..];
                let mut count = 0;
                while count < most && !out.is_long() {
                    let Some(row) = run.next_in_batch(plan, fixed) else { break };
                    out.begin_row();
                    (0..width).for_each(|output| out.push_value(row.value(output)));
                    count += 1;
                }
                count
            }
            (NodeRun::Project(run), Node::Project(plan)) => match (&mut **run, &plan.input) {
                (NodeRun::Loops(run), Node::Loops(loops)) => {
                    run.push_rowids((loops, &plan.outputs[..width]), machine, most, out)
                }
                _ => 0,
            },
            (NodeRun::Limit(run), Node::Limit(plan)) => {
                let LimitRun { input, rows: Some(rows) } = &mut **run else { return 0 };
                // The offset was passed before the row in the registers.
                let left =
                    rows.limit.map_or(usize::MAX, |left| left.try_into().unwrap_or(usize::MAX));
                let count = input.push_batch(&plan.input, (width, machine), most.min(left), out);
                if let Some(limit) = &mut rows.limit {
                    *limit -= count as u64;
                }
                count
            }
            _ => 0,
        }
    }

    pub(super) fn park(&mut self, node: &Node, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        match (self, node) {
            (NodeRun::Loops(run), Node::Loops(plan)) => run.park(plan, machine),
            (NodeRun::Project(input), Node::Project(plan)) => input.park(&plan.input, machine),
            (NodeRun::Distinct(run), Node::Distinct(plan)) => run.input.park(&plan.input, machine),
            (NodeRun::Limit(run), Node::Limit(plan)) => run.input.park(&plan.input, machine),
            (NodeRun::GroupInOrder(run), Node::GroupInOrder(plan)) => {
                run.input.park(&plan.input, machine)
            }
            (NodeRun::Window(run), Node::Window(plan)) => run.park(plan, machine),
            (NodeRun::Compound(run), Node::Compound(plan)) => run.park(plan, machine),
            // The others have taken all rows of what is below them, or no cursor is on theirs.
            _ => Ok(()),
        }
    }
}

/// Computes expressions into their registers.
#[inline]
pub(super) fn eval_all(codes: &[Code], machine: &mut Machine<'_, '_>) -> Result<(), Error> {
    codes.iter().try_for_each(|code| eval(machine, code))
}

/// True where all conditions hold.
#[inline]
pub(super) fn all(conditions: &[Code], machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
    for condition in conditions {
        if !eval_condition(machine, condition)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Puts the row that a recursion has taken into the registers; false where a condition leaves it
/// out.
pub(super) fn take(plan: &TakenNode, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
    for &(column, reg) in &plan.scan.columns {
        assign(&mut machine.registers[reg], machine.taken[plan.scan.slot][column].as_ref());
    }
    all(&plan.conditions, machine)
}

/// Rows within bounds.
#[derive(Debug, Default)]
pub(super) struct LimitRun {
    input: NodeRun,
    rows: Option<BoundRows>,
}

impl LimitRun {
    fn restart(&mut self) {
        self.input.restart();
        self.rows = None;
    }
}

/// How many rows are still to be passed over and to be given.
#[derive(Debug)]
pub(super) struct BoundRows {
    offset: u64,
    limit: Option<u64>,
}

impl BoundRows {
    /// The values of `LIMIT` and `OFFSET`.
    ///
    /// # Errors
    /// Errors of the expressions; values other than numbers.
    pub(super) fn of(bounds: &Bounds, machine: &mut Machine<'_, '_>) -> Result<BoundRows, Error> {
        // Negative stands for no limit.
        let limit = match &bounds.limit {
            Some(code) => u64::try_from(row_count(code, machine)?).ok(),
            None => None,
        };
        let offset = match &bounds.offset {
            Some(code) => u64::try_from(row_count(code, machine)?).unwrap_or(0),
            None => 0,
        };
        Ok(BoundRows { offset, limit })
    }

    /// How many first rows are asked for; `None` for all.
    pub(super) fn first(&self) -> Option<usize> {
        let first = self.limit.map(|limit| limit.saturating_add(self.offset));
        first.and_then(|first| usize::try_from(first).ok())
    }

    /// The next row within the bounds, of those that `next` goes through.
    #[inline]
    pub(super) fn next(
        &mut self,
        machine: &mut Machine<'_, '_>,
        mut next: impl FnMut(&mut Machine<'_, '_>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        loop {
            if self.limit == Some(0) || !next(machine)? {
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
}

fn row_count(code: &Code, machine: &mut Machine<'_, '_>) -> Result<i64, Error> {
    eval(machine, code)?;
    match Affinity::Integer.apply(machine.registers[code.result].clone()) {
        Value::Int(count) => Ok(count),
        _ => Err(Error::runtime("datatype mismatch")),
    }
}
