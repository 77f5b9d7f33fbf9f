//! The nodes of a select: the one place to choose how rows are carried.
//!
//! A [`SelectDraft`] is what a select asks for, with the order of its loops and the way to each
//! table's rows decided. [`Compiler::lower_select`] makes nodes of the draft: rows stay on their
//! pages where they can ([`super::lower_pages`]), else they become columns
//! ([`super::pipeline_scan`]), else they go through registers one by one. A cost model belongs
//! here: every draft may be lowered in several ways, and `Level::rows` and `Level::estimate` say
//! about how many rows there are.

use super::lower_pages::{lower, lower_probe};
use super::node::{
    ComputedNode, DistinctNode, GroupInOrderNode, GroupNode, GroupSource, LoopsNode, Node,
    PagesNode, ProbeNode, ProjectNode, TakenNode, WindowNode,
};
use super::pages_scan::find_on_pages;
use super::pipeline::Pipeline;
use super::pipeline_scan::{Carried, carry};
use super::{GroupPlan, Level, OperatorScan, Scan, WindowPlan};
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::tree::Select;
use crate::session::forced::ForcedCarrier;
use crate::value::Collation;

/// The demands of a select: rows of nested loops, then groups, windows, outputs, distinct rows.
#[derive(Debug)]
pub(super) struct SelectDraft {
    /// Conditions without a source.
    pub(super) constant: Vec<Code>,
    pub(super) levels: Vec<Level>,
    pub(super) group: Option<GroupPlan>,
    pub(super) windows: Option<WindowPlan>,
    /// The columns of the result, then the sort keys, each in its register.
    pub(super) outputs: Vec<Code>,
    pub(super) distinct: Option<DistinctDraft>,
}

/// The equality of rows in a `DISTINCT`.
#[derive(Debug)]
pub(super) struct DistinctDraft {
    /// One for each column.
    pub(super) collations: Vec<Collation>,
    /// True where equal rows come one after the other.
    pub(super) ordered: bool,
}

/// Circumstances of a select beside the draft.
pub(super) struct Circumstances<'s> {
    pub(super) select: &'s Select,
    /// The register of the first output.
    pub(super) output: Reg,
    /// The output that rows are sorted by first, where about so many of them are wanted.
    pub(super) top_n: Option<usize>,
    /// About how many rows are wanted is known.
    pub(super) is_limited: bool,
    /// Few rows may be all that is asked for, in the order in which they come: groups that come one
    /// after the other are given as they end.
    pub(super) streams: bool,
    /// The rows of a `DISTINCT` as groups without aggregates, where they may be taken so.
    pub(super) distinct_group: Option<GroupPlan>,
    /// What an expression asks of the select, where it depends on rows around it and comes as it
    /// is.
    pub(super) asked: Option<Asked>,
}

/// The demand of an expression on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Its first row, or whether there is one.
    First,
    /// The row that precedes all others in an order other than that of the rows.
    FirstInOrder,
    /// Membership of a value in the rows, left at the first equal row.
    Member,
}

impl Compiler {
    /// Chooses the nodes of a select.
    pub(super) fn lower_select(
        &mut self,
        mut draft: SelectDraft,
        circumstances: Circumstances<'_>,
    ) -> Node {
        let Circumstances { select, output, top_n, is_limited, streams, distinct_group, asked } =
            circumstances;
        self.gathers_keys = !is_limited || top_n.is_some() || draft.group.is_some();
        if let Some(group) = distinct_group.filter(|group| !(group.ordered && streams)) {
            let distinct = draft.distinct.take();
            draft.group = Some(group);
            if let Some(pipeline) = lower(&draft, top_n, self) {
                return pages(draft, pipeline, output);
            }
            (draft.group, draft.distinct) = (None, distinct);
        }
        let is_ordered = draft.group.as_ref().is_some_and(|group| group.ordered);
        if !(is_ordered && streams)
            && let Some(pipeline) = lower(&draft, top_n, self)
        {
            return pages(draft, pipeline, output);
        }
        if let Some(asked) = asked
            && let Some(node) = self.probe(&mut draft, select, asked)
        {
            return node;
        }
        match carry(&mut draft, is_limited, self) {
            Carried::Rows => loops(draft, output, self),
            Carried::Outputs(row) => computed(draft, row, output),
            Carried::Groups(group) => grouped_columns(draft, group, output),
        }
    }

    /// A query within an expression straight from the pages; `None` where it is to be run as any
    /// other.
    fn probe(&self, draft: &mut SelectDraft, select: &Select, asked: Asked) -> Option<Node> {
        let around = self.registers_around(select);
        let pipeline = lower_probe(draft, &around, self)?;
        let finds = match asked {
            Asked::Member => draft.group.is_none(),
            Asked::FirstInOrder => draft.group.is_none() && pipeline.has_first(),
            Asked::First => draft.group.is_some() || pipeline.has_first(),
        };
        if !finds {
            return None;
        }
        let (group, outputs) = (draft.group.take(), std::mem::take(&mut draft.outputs));
        Some(Node::Probe(Box::new(ProbeNode { pipeline, group, outputs, sort: None })))
    }
}

/// Rows or groups straight from the pages.
fn pages(mut draft: SelectDraft, mut pipeline: Pipeline, output: Reg) -> Node {
    let Some(plan) = draft.group.take() else {
        return Node::Pages(Box::new(PagesNode { pipeline, output }));
    };
    let given = pipeline.group.as_mut().and_then(|group| group.given.take());
    let given = given.map(|columns| (columns, output));
    let source = GroupSource::Pages(Box::new(pipeline));
    group(draft, GroupNode { plan, source, given }, output)
}

/// Groups of columns.
fn grouped_columns(mut draft: SelectDraft, mut columns: super::GroupScan, output: Reg) -> Node {
    let given = columns.group.given.take().map(|columns| (columns, output));
    let (plan, scan) = (draft.group.take(), draft.levels.pop().map(|level| level.scan));
    let (Some(plan), Some(Scan::Columns(scan))) = (plan, scan) else {
        unreachable!("groups of columns are those of one scan");
    };
    let constant = std::mem::take(&mut draft.constant);
    let source = GroupSource::Columns { constant, scan, group: columns };
    group(draft, GroupNode { plan, source, given }, output)
}

fn group(draft: SelectDraft, node: GroupNode, output: Reg) -> Node {
    let is_whole = node.given.is_some();
    let node = Node::Group(Box::new(node));
    if is_whole { distinct(draft, node, output) } else { outputs(draft, node, output) }
}

/// Rows whose outputs are computed many at a time.
fn computed(mut draft: SelectDraft, row: Box<[Option<usize>]>, output: Reg) -> Node {
    let Some(Scan::Columns(scan)) = draft.levels.pop().map(|level| level.scan) else {
        unreachable!("columns are those of one scan");
    };
    let outputs = std::mem::take(&mut draft.outputs);
    let whole = outputs.len();
    let fixed = outputs.into_iter().zip(&row).filter(|(_, column)| column.is_none());
    let fixed = fixed.map(|(code, _)| code).collect();
    let constant = std::mem::take(&mut draft.constant);
    let node = ComputedNode { constant, scan: *scan, row, fixed, output };
    distinct_of(draft.distinct, Node::Computed(Box::new(node)), output, whole)
}

/// Rows through registers.
fn loops(mut draft: SelectDraft, output: Reg, compiler: &Compiler) -> Node {
    let mut constant = std::mem::take(&mut draft.constant);
    let mut levels = std::mem::take(&mut draft.levels);
    if compiler.forced.allows(ForcedCarrier::Columns) {
        levels = operators(&mut constant, levels);
        fold_equal_rows(&draft, &mut levels);
    }
    levels = find_on_pages(levels, compiler);
    let node = match draft.group.take() {
        Some(plan) if plan.ordered => {
            let input = LoopsNode { constant, levels };
            Node::GroupInOrder(Box::new(GroupInOrderNode { plan, input }))
        }
        Some(plan) => {
            let source = GroupSource::Loops(LoopsNode { constant, levels });
            Node::Group(Box::new(GroupNode { plan, source, given: None }))
        }
        None if is_taken(&levels) => {
            let Some(Level { scan: Scan::Taken(scan), on, filter, words, .. }) = levels.pop()
            else {
                unreachable!("the only level is of a row that was taken");
            };
            let conditions = constant.into_iter().chain(on).chain(filter).collect();
            Node::Taken(Box::new(TakenNode { scan, conditions, words }))
        }
        None => Node::Loops(Box::new(LoopsNode { constant, levels })),
    };
    outputs(draft, node, output)
}

/// Lets a module or a virtual table give equal rows as one: the only source of groups or of
/// distinct rows, with nothing computed on the way, as a function could differ from one equal row
/// to the next.
fn fold_equal_rows(draft: &SelectDraft, levels: &mut [Level]) {
    let [Level { scan, on, filter, keeps_left, keeps_right, anti, .. }] = levels else { return };
    let folds = match scan {
        Scan::Module(scan) => &mut scan.folds,
        // Rows of which nothing is read are equal.
        Scan::Virtual(scan) if scan.early.is_empty() && scan.late.is_empty() => &mut scan.folds,
        _ => return,
    };
    let are_plain = |codes: &[Code]| codes.iter().all(Code::is_plain);
    let takes_folded = match &draft.group {
        Some(plan) => {
            let aggregate = |it: &super::AggregatePlan| {
                are_plain(&it.arguments) && are_plain(&it.order) && it.filter.is_none()
            };
            !plan.ordered
                && plan.keys.iter().all(|(code, _)| code.is_plain())
                && plan.aggregates.iter().all(aggregate)
        }
        None => draft.distinct.is_some() && draft.windows.is_none() && are_plain(&draft.outputs),
    };
    let is_inner = !*keeps_left && !*keeps_right && !*anti;
    *folds = takes_folded && is_inner && are_plain(on) && are_plain(filter);
}

/// Puts the operators of modules above the loops before them. Rows of outer joins without a match
/// have calls of their own.
fn operators(constant: &mut Vec<Code>, levels: Vec<Level>) -> Vec<Level> {
    if levels.iter().any(|level| level.keeps_right) {
        return levels;
    }
    let mut above: Vec<Level> = Vec::with_capacity(levels.len());
    for mut level in levels {
        let has_operator = match &level.scan {
            Scan::Module(call) => call.module.operator().is_some(),
            _ => false,
        };
        if !has_operator || level.keeps_left || above.is_empty() {
            above.push(level);
            continue;
        }
        let input = LoopsNode { constant: std::mem::take(constant), levels: above };
        let kept: Vec<Reg> =
            input.levels.iter().flat_map(|level| level.registers.iter().copied()).collect();
        let Scan::Module(call) = std::mem::replace(&mut level.scan, Scan::Nothing) else {
            unreachable!("a module has the operator");
        };
        level.registers.extend(&kept);
        level.scan = Scan::Operator(Box::new(OperatorScan { input, call: *call, kept }));
        above = vec![level];
    }
    above
}

/// True where the row taken by a recursion is the only source.
fn is_taken(levels: &[Level]) -> bool {
    let [level] = levels else { return false };
    matches!(level.scan, Scan::Taken(_)) && !level.keeps_left && !level.keeps_right
}

/// Windows, outputs and distinct rows above a node.
fn outputs(mut draft: SelectDraft, node: Node, output: Reg) -> Node {
    let input = match draft.windows.take() {
        Some(plan) => Node::Window(Box::new(WindowNode { plan, input: node })),
        None => node,
    };
    let outputs = std::mem::take(&mut draft.outputs);
    let whole = outputs.len();
    let node = Node::Project(Box::new(ProjectNode { outputs, input }));
    distinct_of(draft.distinct, node, output, whole)
}

/// Distinct rows above groups.
fn distinct(draft: SelectDraft, node: Node, output: Reg) -> Node {
    let whole = draft.outputs.len();
    distinct_of(draft.distinct, node, output, whole)
}

fn distinct_of(distinct: Option<DistinctDraft>, input: Node, output: Reg, whole: usize) -> Node {
    let Some(DistinctDraft { collations, ordered }) = distinct else { return input };
    Node::Distinct(Box::new(DistinctNode { input, collations, ordered, output, whole }))
}
