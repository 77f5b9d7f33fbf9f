//! The plan of a query: a tree of nodes, each over the rows of the nodes below.
//!
//! The nodes of a select are chosen once, by [`super::lower`]; the executor matches on them when a
//! run opens or steps a run and asks nothing else of the plan. `EXPLAIN` ([`super::tree`]) and
//! `EXPLAIN QUERY PLAN` ([`super::explain`]) print these nodes.
//!
//! Rows are in registers, the registers of the node's query. Below [`Node::Pages`],
//! [`Node::Computed`], [`Node::Probe`] and groups of either they are places on pages or columns of
//! a batch.

use std::sync::Arc;

use super::pipeline::{GroupColumn, Operand, Pipeline, constant};
use super::{
    GroupPlan, GroupScan, Level, LevelWords, PipelineScan, RowidRange, Scan, TakenScan, WindowPlan,
};
use crate::keep::{SortKey, SortPlan};
use crate::parse::ast::CompoundOp;
use crate::plan::{Code, Compiler, Reg};
use crate::value::Collation;

/// A query: the topmost node, and the registers of a row.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    pub(crate) node: Node,
    /// The register of the first column; sort keys are behind the columns.
    pub(crate) output: Reg,
    pub(crate) width: usize,
    /// The numbers of the queries in the expressions.
    pub(crate) queries: Vec<usize>,
    /// The number of its measure: see [`Analysis`](crate::session::Analysis).
    pub(crate) measure: usize,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// One list of expressions for each row, each with its output register.
    Values(Vec<Vec<Code>>),
    /// Rows straight from the pages.
    Pages(Box<PagesNode>),
    /// Rows of pages whose outputs are computed many at a time.
    Computed(Box<ComputedNode>),
    /// Loops one in the other, row by row.
    Loops(Box<LoopsNode>),
    /// The one row taken by a recursion, or none.
    Taken(Box<TakenNode>),
    /// One row for each group, once all rows were taken.
    Group(Box<GroupNode>),
    /// Groups of rows in the order of their groups, each given at its end.
    GroupInOrder(Box<GroupInOrderNode>),
    /// Window functions over all rows.
    Window(Box<WindowNode>),
    /// Outputs of each row.
    Project(Box<ProjectNode>),
    /// Distinct rows.
    Distinct(Box<DistinctNode>),
    /// Rows in order; with bounds a top-N.
    Sort(Box<SortNode>),
    /// The rows within bounds.
    Limit(Box<LimitNode>),
    /// `UNION ALL`, `UNION`, `INTERSECT` and `EXCEPT`.
    Compound(Box<CompoundNode>),
    /// A recursive common table.
    Recursion(Box<RecursionNode>),
    /// A common table whose rows are made once.
    Shared(Box<SharedNode>),
    /// A query within an expression that is run for one row around it after the other, straight
    /// from the pages: asked for its first row, or whether a value is among its rows.
    Probe(Box<ProbeNode>),
}

/// A pipeline, and the register of its first output.
#[derive(Debug)]
pub(crate) struct PagesNode {
    pub(crate) pipeline: Pipeline,
    pub(crate) output: Reg,
}

/// A scan computing the outputs of its rows.
#[derive(Debug)]
pub(crate) struct ComputedNode {
    /// Conditions without a source.
    pub(crate) constant: Vec<Code>,
    pub(crate) scan: PipelineScan,
    /// The column of each output; `None` for an output equal in all rows.
    pub(crate) row: Box<[Option<usize>]>,
    /// The outputs equal in all rows, each with its register.
    pub(crate) fixed: Vec<Code>,
    /// The register of the first output.
    pub(crate) output: Reg,
}

/// Nested loops over sources.
#[derive(Debug)]
pub(crate) struct LoopsNode {
    /// Conditions without a source.
    pub(crate) constant: Vec<Code>,
    pub(crate) levels: Vec<Level>,
}

#[derive(Debug)]
pub(crate) struct TakenNode {
    pub(crate) scan: TakenScan,
    pub(crate) conditions: Vec<Code>,
    pub(crate) words: Option<Box<LevelWords>>,
}

#[derive(Debug)]
pub(crate) struct GroupNode {
    pub(crate) plan: GroupPlan,
    pub(crate) source: GroupSource,
    /// The result's columns and the register of the first of them, where each is one of a group's
    /// and every group is given.
    pub(crate) given: Option<(Box<[GroupColumn]>, Reg)>,
}

/// The source of grouped rows.
#[derive(Debug)]
pub(crate) enum GroupSource {
    /// A pipeline, the rows on their pages.
    Pages(Box<Pipeline>),
    /// Those of a scan, whose keys and arguments are computed many at a time, where constant
    /// conditions hold.
    Columns {
        constant: Vec<Code>,
        scan: Box<PipelineScan>,
        group: GroupScan,
    },
    Loops(LoopsNode),
}

#[derive(Debug)]
pub(crate) struct GroupInOrderNode {
    pub(crate) plan: GroupPlan,
    pub(crate) input: LoopsNode,
}

#[derive(Debug)]
pub(crate) struct WindowNode {
    pub(crate) plan: WindowPlan,
    pub(crate) input: Node,
}

#[derive(Debug)]
pub(crate) struct ProjectNode {
    /// The columns of the result, then the sort keys, each in its register.
    pub(crate) outputs: Vec<Code>,
    pub(crate) input: Node,
}

#[derive(Debug)]
pub(crate) struct DistinctNode {
    pub(crate) input: Node,
    /// One for each column.
    pub(crate) collations: Vec<Collation>,
    /// True where equal rows come one after the other.
    pub(crate) ordered: bool,
    /// The register of the first column, and the number of columns and sort keys.
    pub(crate) output: Reg,
    pub(crate) whole: usize,
}

/// How many rows are given, and how many are passed over before.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) limit: Option<Code>,
    pub(crate) offset: Option<Code>,
}

#[derive(Debug)]
pub(crate) struct SortNode {
    pub(crate) input: Node,
    pub(crate) sort: SortPlan,
    /// Number of first keys in whose order the input comes; with bounds the search for the first
    /// rows ends behind them. 0 for an input in no order.
    pub(crate) begins: usize,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) output: Reg,
    pub(crate) width: usize,
}

#[derive(Debug)]
pub(crate) struct LimitNode {
    pub(crate) input: Node,
    pub(crate) bounds: Bounds,
}

#[derive(Debug)]
pub(crate) struct CompoundNode {
    pub(crate) first: QueryPlan,
    pub(crate) rest: Vec<(CompoundOp, QueryPlan)>,
    pub(crate) collations: Vec<Collation>,
    pub(crate) output: Reg,
    pub(crate) width: usize,
}

impl CompoundNode {
    /// How many parts there are up to the last that is compared with those before it: none where
    /// every part's rows are simply given, one part after the other.
    pub(crate) fn compared(&self) -> usize {
        let last = self.rest.iter().rposition(|(op, _)| *op != CompoundOp::UnionAll);
        last.map_or(0, |last| last + 2)
    }

    /// A part, by number from 0; none behind the last.
    pub(crate) fn part(&self, number: usize) -> Option<&QueryPlan> {
        match number.checked_sub(1) {
            None => Some(&self.first),
            Some(number) => self.rest.get(number).map(|(_, plan)| plan),
        }
    }

    /// The operator of each part, the first included: a `UNION` makes its rows distinct ahead of an
    /// operator comparing rows.
    pub(crate) fn ops(&self) -> impl Iterator<Item = CompoundOp> {
        let first = match self.rest.first() {
            Some((CompoundOp::UnionAll, _)) => CompoundOp::UnionAll,
            _ => CompoundOp::Union,
        };
        std::iter::once(first).chain(self.rest.iter().map(|(op, _)| *op))
    }

    /// The parts, from first to last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &QueryPlan> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|(_, part)| part))
    }
}

#[derive(Debug)]
pub(crate) struct RecursionNode {
    pub(crate) slot: usize,
    pub(crate) first: QueryPlan,
    pub(crate) steps: Vec<QueryPlan>,
    pub(crate) distinct: bool,
    pub(crate) collations: Vec<Collation>,
    /// Which row is taken next; the registers are places in the row. Empty for the oldest.
    pub(crate) order: Arc<[SortKey]>,
    pub(crate) output: Reg,
    pub(crate) width: usize,
}

#[derive(Debug)]
pub(crate) struct SharedNode {
    /// Where its rows are kept.
    pub(crate) slot: usize,
    pub(crate) plan: QueryPlan,
    pub(crate) output: Reg,
    pub(crate) width: usize,
}

/// A pipeline whose parameters are all registers.
#[derive(Debug)]
pub(crate) struct ProbeNode {
    pub(crate) pipeline: Pipeline,
    /// Where it makes one group of its rows.
    pub(crate) group: Option<GroupPlan>,
    pub(crate) outputs: Vec<Code>,
    /// The order of the rows, and the register of the first output: the row asked for precedes all
    /// others.
    pub(crate) sort: Option<(SortPlan, Reg)>,
}

impl Node {
    /// The pipelines that find all rows, whatever is made of them; `None` where rows come in
    /// another way.
    pub(crate) fn sources(&self) -> Option<Vec<&Pipeline>> {
        let mut found = Vec::new();
        self.find_sources(&mut found).then_some(found)
    }

    fn find_sources<'n>(&'n self, found: &mut Vec<&'n Pipeline>) -> bool {
        match self {
            Node::Pages(pages) => found.push(&pages.pipeline),
            Node::Computed(computed) => found.push(&computed.scan.pipeline),
            Node::Group(group) => match &group.source {
                GroupSource::Pages(pipeline) => found.push(pipeline),
                GroupSource::Columns { scan, .. } => found.push(&scan.pipeline),
                GroupSource::Loops(_) => return false,
            },
            Node::Project(project) => return project.input.find_sources(found),
            Node::Sort(sort) => return sort.input.find_sources(found),
            Node::Distinct(distinct) => return distinct.input.find_sources(found),
            Node::Limit(limit) => return limit.input.find_sources(found),
            Node::Compound(compound) => {
                return compound.parts().all(|part| part.node.find_sources(found));
            }
            _ => return false,
        }
        true
    }

    /// The node whose rows are the same in any order, where nothing but their order is asked of the
    /// topmost one.
    pub(crate) fn unordered(&self) -> &Node {
        match self {
            Node::Sort(sort) if sort.bounds.is_none() => &sort.input,
            node => node,
        }
    }

    /// True where a few rows are found by equality with a key of one source, and nothing else is
    /// done.
    pub(crate) fn finds_by_key(&self) -> bool {
        self.only_level().is_some_and(|level| {
            let by_key = match &level.scan {
                Scan::Table(scan) => matches!(scan.range, RowidRange::Equal(_)),
                Scan::Index(scan) => !scan.equal.is_empty(),
                Scan::Hash(scan) => !scan.keys.is_empty() && !scan.rebuild,
                _ => false,
            };
            by_key && !level.keeps_left && !level.keeps_right
        })
    }

    /// As [`Node::finds_by_key`], without a hash table and without a range behind the key.
    pub(crate) fn finds_equal(&self) -> bool {
        self.only_level().is_some_and(|level| match &level.scan {
            Scan::Table(scan) => matches!(scan.range, RowidRange::Equal(_)),
            Scan::Index(scan) => {
                !scan.equal.is_empty() && scan.low.is_none() && scan.high.is_none()
            }
            _ => false,
        })
    }

    /// The only level of loops with nothing but outputs, or one group, made of them.
    fn only_level(&self) -> Option<&Level> {
        let Node::Project(project) = self else { return None };
        let loops = match &project.input {
            Node::Loops(loops) => &**loops,
            Node::Group(group) => match &group.source {
                GroupSource::Loops(loops) if group.plan.keys.is_empty() => loops,
                _ => return None,
            },
            _ => return None,
        };
        match &*loops.levels {
            [level] => Some(level),
            _ => None,
        }
    }

    /// The pipelines whose rows are given one after the other: those of pages, or of parts that are
    /// all pages and are not compared. None for any other node.
    pub(crate) fn pipelines(&self) -> Option<impl Iterator<Item = &Pipeline>> {
        let is_plain = match self {
            Node::Pages(_) => true,
            Node::Compound(compound) => {
                let is_pages = |part: &QueryPlan| matches!(part.node, Node::Pages(_));
                compound.compared() == 0 && compound.parts().all(is_pages)
            }
            _ => false,
        };
        is_plain.then(|| all_pipelines(self).flatten())
    }
}

/// A whole statement of pipelines: one after the other, or compared with one another.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) limit: Option<Operand>,
    pub(crate) offset: Option<Operand>,
    /// True where rows of the parts are compared, and kept.
    pub(crate) compares: bool,
    /// True where rowids are kept: of rows that found a match, or that indexes have in common.
    pub(crate) keeps_rowids: bool,
    /// The number of the one database of all parts.
    pub(crate) database: usize,
}

impl Root {
    /// The root of a query of pipelines; `None` for any other.
    pub(crate) fn of(query: &QueryPlan, compiler: &Compiler) -> Option<Root> {
        let node = &query.node;
        if root_parts(node).any(|it| it.is_none()) {
            return None;
        }
        let operand = |code: &Option<Code>| match code {
            None => Some(None),
            Some(code) => Some(Some(constant(code.in_place()?, compiler)?)),
        };
        let compares = compound_of(node).is_some_and(|compound| compound.compared() > 0);
        let keeps_rowids = root_parts(node).flatten().any(Pipeline::keeps_rowids);
        let mut databases = root_parts(node).flatten().map(|pipeline| pipeline.database);
        let database = databases.next()?;
        if databases.any(|other| other != database) {
            return None;
        }
        let (limit, offset) = match node {
            Node::Limit(node) => (operand(&node.bounds.limit)?, operand(&node.bounds.offset)?),
            _ => (None, None),
        };
        Some(Root { limit, offset, compares, keeps_rowids, database })
    }
}

/// The compound below the bounds of a statement.
pub(crate) fn compound_of(node: &Node) -> Option<&CompoundNode> {
    match body(node) {
        Node::Compound(compound) => Some(compound),
        _ => None,
    }
}

/// The node below the bounds.
fn body(node: &Node) -> &Node {
    match node {
        Node::Limit(limit) => &limit.input,
        node => node,
    }
}

/// The parts of a statement, however they are combined; `None` for one that is no pipeline. Rows
/// without a match are a part of their own, which is not compared.
pub(crate) fn root_parts(node: &Node) -> impl Iterator<Item = Option<&Pipeline>> {
    let node = body(node);
    let compares = matches!(node, Node::Compound(compound) if compound.compared() > 0);
    all_pipelines(node).map(move |it| it.filter(|pipeline| !(compares && pipeline.notes_matches())))
}

fn all_pipelines(node: &Node) -> impl Iterator<Item = Option<&Pipeline>> {
    let (alone, parts) = match node {
        Node::Compound(compound) => (None, Some(compound.parts())),
        node => (Some(node), None),
    };
    let parts = parts.into_iter().flatten().map(|part| &part.node);
    alone.into_iter().chain(parts).flat_map(|node| {
        let first = match node {
            Node::Pages(pages) => Some(&pages.pipeline),
            _ => None,
        };
        let unmatched = first.map_or(&[][..], |pipeline| &pipeline.unmatched);
        std::iter::once(first).chain(unmatched.iter().map(Some))
    })
}
