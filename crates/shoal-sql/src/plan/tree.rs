//! The tree of a plan's nodes: `EXPLAIN`, and with measures `EXPLAIN ANALYZE`.
//!
//! A node stands above those whose rows it takes. The nodes below one that says `on pages` are one
//! pipeline: they run as one loop, whose rows and time are those of its topmost node.

use super::node::{Bounds, GroupSource, LoopsNode, Node, QueryPlan};
use super::pipeline::{Access, Pipeline, PipelineStep, Walk};
use super::{
    EachCodes, GroupPlan, Learned, Level, LevelWords, PipelineScan, Program, RowidRange, Scan,
};
use crate::parse::ast::CompoundOp;
use crate::plan::Code;
use crate::session::Measured;
use crate::value::Value;

/// The headings of a plan's tree, and those that measures add.
pub(crate) const HEADINGS: [&str; 5] = ["id", "parent", "node", "detail", "estimated_rows"];
pub(crate) const MEASURED: [&str; 5] = ["rows", "runs", "time_us", "pages", "bytes"];

/// One line of the tree.
struct Line {
    parent: usize,
    depth: usize,
    node: &'static str,
    detail: String,
    estimate: Option<f64>,
    measure: Option<usize>,
    /// True where rows alone are counted: of a step within a loop.
    is_step: bool,
    /// The rows found by an earlier plan.
    found: Option<u64>,
}

impl Program {
    /// The rows of `EXPLAIN`, under [`HEADINGS`]; `measured` gives the numbers of a measure, which
    /// stand under [`MEASURED`].
    pub(crate) fn tree(&self, measured: Option<&dyn Fn(usize) -> Measured>) -> Vec<Vec<Value>> {
        let mut tree = Tree { lines: Vec::new(), program: self };
        tree.query(&self.root, 0);
        for learned in &self.learned {
            tree.learned(learned);
        }
        let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let row = |(place, line): (usize, Line)| {
            let node = format!("{}{}", "  ".repeat(line.depth), line.node);
            let mut row = vec![
                int(place as u64 + 1),
                int(line.parent as u64),
                node.into(),
                line.detail.into(),
                line.estimate.map_or(Value::Null, |rows| Value::Int(rows.round() as i64)),
            ];
            if let Some(measured) = measured {
                match line.measure.map(measured).filter(|it| it.runs > 0) {
                    Some(it) if line.is_step => {
                        row.extend([it.rows, it.runs].map(int));
                        row.resize(HEADINGS.len() + MEASURED.len(), Value::Null);
                    }
                    Some(it) => {
                        row.extend([it.rows, it.runs, it.time_us, it.pages, it.bytes].map(int));
                    }
                    None => {
                        row.push(line.found.map_or(Value::Null, int));
                        row.resize(HEADINGS.len() + MEASURED.len(), Value::Null);
                    }
                }
            }
            row
        };
        tree.lines.into_iter().enumerate().map(row).collect()
    }
}

struct Tree<'p> {
    lines: Vec<Line>,
    program: &'p Program,
}

impl Tree<'_> {
    /// Adds a line below another one; its number.
    fn add(
        &mut self,
        parent: usize,
        node: &'static str,
        detail: impl Into<String>,
        (estimate, measure): (Option<f64>, Option<usize>),
    ) -> usize {
        let depth = parent.checked_sub(1).map_or(0, |above| self.lines[above].depth + 1);
        let detail = detail.into();
        let (is_step, found) = (false, None);
        self.lines.push(Line { parent, depth, node, detail, estimate, measure, is_step, found });
        self.lines.len()
    }

    /// A plan given up for this one: the tables whose joined rows were more than expected.
    fn learned(&mut self, learned: &Learned) {
        let detail = format!("too many rows of {}", learned.names.join(", "));
        self.add(0, "planned anew", detail, (Some(learned.expected), None));
        if let Some(line) = self.lines.last_mut() {
            line.found = Some(learned.found);
        }
    }

    fn query(&mut self, plan: &QueryPlan, parent: usize) {
        // The measure of a query is that of its topmost node, below which its expressions' queries
        // are.
        let top = self.lines.len() + 1;
        self.node(&plan.node, Some(plan.measure), parent);
        self.subqueries(plan, top);
    }

    /// The lines of a node, the topmost of which has a measure if the node's own is not to stand
    /// there.
    fn node(&mut self, node: &Node, mut measure: Option<usize>, mut parent: usize) {
        match node {
            Node::Values(rows) => {
                self.add(parent, "values", "", (Some(rows.len() as f64), measure));
            }
            Node::Pages(pages) => self.pipeline(&pages.pipeline, measure, parent),
            Node::Computed(computed) => {
                let by_row = counted_computed(&computed.fixed);
                let in_batches = computed.scan.outputs.len();
                parent = self.project(by_row, in_batches, &mut measure, parent);
                parent = self.constant(computed.constant.len(), &mut measure, parent);
                self.columns(&computed.scan, measure, parent);
            }
            Node::Loops(loops) => self.loops(loops, measure, parent),
            Node::Taken(taken) => {
                parent = self.constant(taken.conditions.len(), &mut measure, parent);
                let detail = detail(taken.words.as_deref(), 0, "row by row");
                self.add(parent, "taken row", detail, (Some(1.0), measure));
            }
            Node::Group(group) => {
                parent = self.group(&group.plan, measure.take(), parent);
                match &group.source {
                    GroupSource::Pages(pipeline) => self.pipeline(pipeline, None, parent),
                    GroupSource::Columns { constant, scan, .. } => {
                        parent = self.constant(constant.len(), &mut measure, parent);
                        self.columns(scan, None, parent);
                    }
                    GroupSource::Loops(loops) => self.loops(loops, None, parent),
                }
            }
            Node::GroupInOrder(group) => {
                parent = self.group(&group.plan, measure.take(), parent);
                self.loops(&group.input, None, parent);
            }
            Node::Probe(probe) => {
                parent = self.project(counted_computed(&probe.outputs), 0, &mut measure, parent);
                if let Some(group) = &probe.group {
                    parent = self.group(group, measure.take(), parent);
                }
                parent = self.constant(probe.pipeline.constant.len(), &mut measure, parent);
                self.pipeline(&probe.pipeline, measure, parent);
            }
            Node::Window(window) => {
                let mut detail = counted(window.plan.passes.len(), "pass");
                if window.plan.in_order {
                    detail.push_str(", partitions in order");
                }
                parent = self.add(parent, "window", detail, (None, measure.take()));
                self.node(&window.input, None, parent);
            }
            Node::Project(project) => {
                let by_row = counted_computed(&project.outputs);
                parent = self.project(by_row, 0, &mut measure, parent);
                self.node(&project.input, measure, parent);
            }
            Node::Distinct(distinct) => {
                let how = if distinct.ordered { "in order" } else { "by hash" };
                parent = self.add(parent, "distinct", how, (None, measure.take()));
                self.node(&distinct.input, None, parent);
            }
            Node::Sort(sort) => {
                let mut keys = counted(sort.sort.keys.len(), "key");
                if sort.begins > 0 {
                    keys = format!("{keys}, {} in order", sort.begins);
                }
                let is_first = matches!(&sort.bounds, Some(Bounds { limit: Some(_), .. }));
                let name = if is_first { "top-N" } else { "sort" };
                parent = self.add(parent, name, keys, (None, measure.take()));
                self.node(&sort.input, None, parent);
            }
            Node::Limit(limit) => {
                parent = self.add(parent, "limit", "", (None, measure.take()));
                self.node(&limit.input, None, parent);
            }
            Node::Shared(shared) => {
                parent = self.add(parent, "shared rows", "made once", (None, measure));
                self.query(&shared.plan, parent);
            }
            Node::Recursion(recursion) => {
                parent = self.add(parent, "recursion", "", (None, measure));
                self.query(&recursion.first, parent);
                for step in &recursion.steps {
                    self.query(step, parent);
                }
            }
            Node::Compound(compound) => {
                for (op, _) in compound.rest.iter().rev() {
                    let name = match op {
                        CompoundOp::UnionAll => "union all",
                        CompoundOp::Union => "union",
                        CompoundOp::Except => "except",
                        CompoundOp::Intersect => "intersect",
                    };
                    if self.lines.get(parent.wrapping_sub(1)).is_none_or(|it| it.node != name) {
                        parent = self.add(parent, name, "", (None, measure.take()));
                    }
                }
                for part in compound.parts() {
                    self.query(part, parent);
                }
            }
        }
    }

    /// Outputs that are computed, if there are any: the line below which their rows are.
    fn project(
        &mut self,
        by_row: usize,
        in_batches: usize,
        measure: &mut Option<usize>,
        parent: usize,
    ) -> usize {
        if by_row + in_batches == 0 {
            return parent;
        }
        let how = if in_batches > 0 { "in batches" } else { "row by row" };
        let detail = format!("{}, {how}", counted(by_row + in_batches, "computed output"));
        self.add(parent, "project", detail, (None, measure.take()))
    }

    /// Conditions that no source takes part in, if there are any.
    fn constant(&mut self, count: usize, measure: &mut Option<usize>, parent: usize) -> usize {
        if count == 0 {
            return parent;
        }
        self.add(parent, "filter", counted(count, "constant predicate"), (None, measure.take()))
    }

    /// The queries that the expressions of a query run.
    fn subqueries(&mut self, plan: &QueryPlan, parent: usize) {
        for &number in &plan.queries {
            let query = &self.program.queries[number];
            let kind = if query.is_list { "list" } else { "value" };
            let is_probe = matches!(query.plan.node, Node::Probe(_));
            let runs = match (query.correlated, is_probe) {
                (true, true) => "for each row, probed on pages",
                (true, false) => "for each row",
                (false, _) => "once",
            };
            let detail = format!("{kind}, {runs}");
            let id = self.add(parent, "subquery", detail, (None, Some(query.plan.measure)));
            self.query(&query.plan, id);
        }
    }

    fn group(&mut self, group: &GroupPlan, measure: Option<usize>, parent: usize) -> usize {
        let keys = counted(group.keys.len(), "key");
        let (node, detail) = match (group.keys.len(), group.distinct, group.ordered) {
            (0, ..) => ("aggregate", counted(group.aggregates.len(), "aggregate")),
            (_, true, false) => ("distinct", "by hash".to_owned()),
            (_, true, true) => ("distinct", "in order".to_owned()),
            (_, false, true) => ("group", format!("{keys}, in order")),
            (_, false, false) => ("group", format!("{keys}, by hash")),
        };
        let estimate = group.keys.is_empty().then_some(1.0);
        self.add(parent, node, detail, (estimate, measure.or(Some(group.measure))))
    }

    /// Loops that run together on pages.
    fn pipeline(&mut self, pipeline: &Pipeline, measure: Option<usize>, parent: usize) {
        let top = match &pipeline.walk {
            Walk::Count => Some("count"),
            Walk::Point { .. } => Some("point"),
            Walk::Seek(_) => Some("seek"),
            Walk::RowidList => Some("rowid list"),
            _ => None,
        };
        let measure = measure.or(Some(pipeline.measure));
        self.joined((pipeline, &pipeline.levels), top, (measure, false), parent);
    }

    /// Loops on pages whose rows become columns.
    fn columns(&mut self, scan: &PipelineScan, measure: Option<usize>, mut parent: usize) {
        let mut measure = measure.or(Some(scan.pipeline.measure));
        if !scan.conditions.is_empty() {
            let detail = format!("{}, in batches", counted(scan.conditions.len(), "predicate"));
            parent = self.add(parent, "filter", detail, (None, measure.take()));
        }
        self.joined((&scan.pipeline, &scan.pipeline.levels), None, (measure, false), parent);
    }

    /// Loops of which each puts its rows into registers.
    fn loops(&mut self, loops: &LoopsNode, mut measure: Option<usize>, parent: usize) {
        let mut parent = self.constant(loops.constant.len(), &mut measure, parent);
        let Some((first, behind)) = loops.levels.split_first() else {
            self.add(parent, "values", "", (Some(1.0), measure));
            return;
        };
        // Joins nest to the left: the last table's is the topmost one.
        let mut joins = Vec::with_capacity(behind.len());
        for level in behind.iter().rev() {
            let (node, detail) = join_of_level(level);
            let numbers = (Some(level.estimate), measure.take().or(Some(level.measure)));
            parent = self.add(parent, node, detail, numbers);
            joins.push(parent);
        }
        match &first.scan {
            Scan::Columns(scan) => {
                let by_row = first.filter.len();
                if by_row > 0 {
                    let detail = format!("{}, row by row", counted(by_row, "predicate"));
                    parent = self.add(parent, "filter", detail, (None, measure.take()));
                }
                self.columns(scan, measure, parent);
            }
            _ => self.level(first, measure.or(Some(first.measure)), parent),
        }
        for (level, join) in behind.iter().zip(joins.into_iter().rev()) {
            // What it gave is the number of the join.
            self.level(level, None, join);
        }
    }

    /// The scan of one table.
    fn level(&mut self, level: &Level, measure: Option<usize>, mut parent: usize) {
        if let Scan::Pages(scan) = &level.scan {
            let by_row = level.on.len() + level.filter.len();
            if by_row > 0 {
                let detail = format!("{}, row by row", counted(by_row, "predicate"));
                parent = self.add(parent, "filter", detail, (None, None));
            }
            let steps = (&scan.pipeline, &*scan.pipeline.levels);
            return self.joined(steps, None, (measure, false), parent);
        }
        let (node, query) = match &level.scan {
            Scan::Hash(hash) => ("hash build", query_of(&hash.source)),
            scan => (node_of_scan(scan), query_of(scan)),
        };
        let filters = level.on.len() + level.filter.len();
        let operator = match &level.scan {
            Scan::Operator(scan) => scan.call.module.operator().map(|it| (it.name(), &scan.input)),
            _ => None,
        };
        let mode = if operator.is_some() { "in batches" } else { "row by row" };
        let mut detail = detail(level.words.as_deref(), filters, mode);
        let mut rows = level.rows;
        if let Some((name, _)) = operator {
            detail = format!("{name}: {detail}");
            rows = level.estimate;
        }
        let id = self.add(parent, node, detail, (Some(rows), measure));
        if let Some((_, input)) = operator {
            self.loops(input, None, id);
        }
        if let Some(query) = query {
            self.query(query, id);
        }
    }

    /// Joined tables, one after the other: so many first steps of a pipeline. The measure comes
    /// with true where it is of a step within the loops, of which rows alone are counted.
    fn joined(
        &mut self,
        (pipeline, steps): (&Pipeline, &[PipelineStep]),
        top: Option<&'static str>,
        (mut measure, is_step): (Option<usize>, bool),
        mut parent: usize,
    ) {
        let Some((last, before)) = steps.split_last() else { return };
        if !before.is_empty() {
            let join = match (last.left_join, last.anti) {
                (false, _) => "on pages",
                (true, false) => "left, on pages",
                (true, true) => "left without matches, on pages",
            };
            let numbers = (Some(last.estimate), measure.take());
            parent = self.add(parent, join_of_step(last, &pipeline.walk), join, numbers);
            self.lines[parent - 1].is_step = is_step;
            self.joined((pipeline, before), None, (last.measure, true), parent);
        }
        let filters = last.before.len() + last.on.len() + last.filter.len();
        let detail = detail(last.words.as_deref(), filters, "on pages");
        let node = top.unwrap_or(node_of_step(last));
        let id = self.add(parent, node, detail, (Some(last.rows), measure));
        self.lines[id - 1].is_step = is_step;
    }
}

/// How many of some outputs are computed.
fn counted_computed(outputs: &[Code]) -> usize {
    outputs.iter().filter(|code| code.copied().is_none()).count()
}

/// The words of `EXPLAIN QUERY PLAN` without the verb, the predicates, and where those are asked.
fn detail(words: Option<&LevelWords>, filters: usize, mode: &str) -> String {
    let label = words.map_or("", |words| words.label.as_str());
    let name = label.strip_prefix("SCAN ").or_else(|| label.strip_prefix("SEARCH "));
    let name = name.unwrap_or(label);
    match filters {
        0 => format!("{name}, {mode}"),
        filters => format!("{name}, {}, {mode}", counted(filters, "predicate")),
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

fn query_of(scan: &Scan) -> Option<&QueryPlan> {
    match scan {
        Scan::Query(query) => Some(query),
        _ => None,
    }
}

fn node_of_step(step: &PipelineStep) -> &'static str {
    match &step.access {
        Access::Rows { .. } => "table scan",
        Access::Rowid { .. } => "point",
        Access::Index(access) if !access.equal.is_empty() => "seek",
        Access::Index(_) => "index scan",
        Access::Hash(_) => "hash build",
        Access::Any { .. } | Access::Common { .. } => "rowid list",
    }
}

fn join_of_step(step: &PipelineStep, node: &Walk) -> &'static str {
    match (node.all_rows(), &step.access) {
        (_, Access::Hash(_)) => "hash join",
        (Walk::LookupJoin, _) | (_, Access::Rowid { .. }) => "lookup join",
        _ => "nested loop",
    }
}

fn node_of_scan(scan: &Scan) -> &'static str {
    match scan {
        Scan::Table(scan) => match &scan.range {
            RowidRange::Equal(_) => "point",
            RowidRange::Between { .. } => "table scan",
        },
        Scan::Index(scan) if !scan.equal.is_empty() => "seek",
        Scan::Index(_) => "index scan",
        Scan::Columns(_) => "columns",
        Scan::Pages(_) => "pages",
        Scan::Query(_) => "query",
        Scan::Hash(_) => "hash build",
        Scan::Each(scan) => match &scan.values {
            EachCodes::List(_) | EachCodes::Query(_) => "seek of each value",
            EachCodes::Common(_) => "rowid list",
        },
        Scan::Any(_) => "rowid list",
        Scan::Taken(_) => "taken row",
        Scan::Module(_) => "table function",
        Scan::Operator(_) => "operator",
        Scan::Virtual(_) => "virtual table",
        Scan::Nothing => "nothing",
    }
}

fn join_of_level(level: &Level) -> (&'static str, &'static str) {
    let node = match &level.scan {
        Scan::Hash(hash) if !hash.keys.is_empty() => "hash join",
        Scan::Table(scan) if matches!(scan.range, RowidRange::Equal(_)) => "lookup join",
        Scan::Pages(scan) => match &*scan.pipeline.levels {
            [step] => join_of_step(step, &scan.pipeline.walk),
            _ => "nested loop",
        },
        _ => "nested loop",
    };
    let keeps = match (level.keeps_left, level.keeps_right) {
        (false, false) => "",
        (true, false) if level.anti => "left without matches",
        (true, false) => "left",
        (false, true) => "right",
        (true, true) => "full",
    };
    (node, keeps)
}
