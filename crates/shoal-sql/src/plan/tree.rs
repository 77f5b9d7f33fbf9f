//! The tree of a plan's nodes: `EXPLAIN`, and with measures `EXPLAIN ANALYZE`.
//!
//! A node stands above those whose rows it takes. The nodes below one that says `on pages` are one
//! pipeline: they run as one loop, whose rows and time are those of its topmost node.

use super::node::{Access, Node, Pipeline, PipelineStep};
use super::{
    BodyPlan, EachCodes, GroupPlan, Level, Program, QueryPlan, RowidRange, Scan, SelectPlan,
};
use crate::parse::ast::CompoundOp;
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
}

impl Program {
    /// The rows of `EXPLAIN`, under [`HEADINGS`]; `measured` gives the numbers of a measure, which
    /// stand under [`MEASURED`].
    pub(crate) fn tree(&self, measured: Option<&dyn Fn(usize) -> Measured>) -> Vec<Vec<Value>> {
        let mut tree = Tree { lines: Vec::new(), program: self };
        tree.query(&self.root, 0);
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
                    Some(it) => {
                        row.extend([it.rows, it.runs, it.time_us, it.pages, it.bytes].map(int));
                    }
                    None => row.extend(MEASURED.map(|_| Value::Null)),
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
        self.lines.push(Line { parent, depth, node, detail, estimate, measure });
        self.lines.len()
    }

    fn query(&mut self, plan: &QueryPlan, parent: usize) {
        // The measure of a query is that of its topmost node, below which its expressions' queries are.
        let top = self.lines.len() + 1;
        let mut measure = Some(plan.measure);
        let mut parent = parent;
        let bounded = plan.limit.is_some() || plan.offset.is_some();
        if let Some(sort) = &plan.sort {
            let keys = counted(sort.keys.len(), "key");
            let node = if plan.limit.is_some() { "top-N" } else { "sort" };
            parent = self.add(parent, node, keys, (None, measure.take()));
        } else if bounded {
            parent = self.add(parent, "limit", "", (None, measure.take()));
        }
        match &plan.body {
            BodyPlan::Values(rows) => {
                let estimate = Some(rows.len() as f64);
                self.add(parent, "values", "", (estimate, measure));
            }
            BodyPlan::Select(select) => self.select(select, measure, parent),
            BodyPlan::Shared(shared) => {
                parent = self.add(parent, "shared rows", "made once", (None, measure));
                self.query(&shared.plan, parent);
            }
            BodyPlan::Recursive(recursion) => {
                parent = self.add(parent, "recursion", "", (None, measure));
                self.query(&recursion.first, parent);
                for step in &recursion.steps {
                    self.query(step, parent);
                }
            }
            BodyPlan::Compound(compound) => {
                for (op, _) in compound.rest.iter().rev() {
                    let node = match op {
                        CompoundOp::UnionAll => "union all",
                        CompoundOp::Union => "union",
                        CompoundOp::Except => "except",
                        CompoundOp::Intersect => "intersect",
                    };
                    if self.lines.get(parent.wrapping_sub(1)).is_none_or(|it| it.node != node) {
                        parent = self.add(parent, node, "", (None, measure.take()));
                    }
                }
                let parts = std::iter::once(&compound.first);
                for part in parts.chain(compound.rest.iter().map(|(_, part)| part)) {
                    self.query(part, parent);
                }
            }
        }
        self.subqueries(plan, top);
    }

    /// The queries that the expressions of a query run.
    fn subqueries(&mut self, plan: &QueryPlan, parent: usize) {
        for &number in &plan.queries {
            let query = &self.program.queries[number];
            let kind = if query.is_list { "list" } else { "value" };
            let runs = match (query.correlated, query.is_pipeline) {
                (true, true) => "for each row, probed on pages",
                (true, false) => "for each row",
                (false, _) => "once",
            };
            let detail = format!("{kind}, {runs}");
            let id = self.add(parent, "subquery", detail, (None, Some(query.plan.measure)));
            self.query(&query.plan, id);
        }
    }

    fn select(&mut self, plan: &SelectPlan, mut measure: Option<usize>, mut parent: usize) {
        if let Some(distinct) = &plan.distinct {
            let how = if distinct.ordered { "in order" } else { "by hash" };
            parent = self.add(parent, "distinct", how, (None, measure.take()));
        }
        if let Some(windows) = &plan.windows {
            let detail = counted(windows.passes.len(), "pass");
            parent = self.add(parent, "window", detail, (None, measure.take()));
        }
        let by_row = plan.outputs.iter().filter(|code| code.copied().is_none()).count();
        let in_batches = match plan.levels.first().map(|level| &level.scan) {
            Some(Scan::Pipeline(scan)) => scan.outputs.len(),
            _ => 0,
        };
        if by_row + in_batches > 0 {
            let how = if in_batches > 0 { "in batches" } else { "row by row" };
            let detail = format!("{}, {how}", counted(by_row + in_batches, "computed output"));
            parent = self.add(parent, "project", detail, (None, measure.take()));
        }
        if let Some(group) = &plan.group {
            parent = self.group(group, measure.take(), parent);
        }
        if !plan.constant.is_empty() {
            let detail = counted(plan.constant.len(), "constant predicate");
            parent = self.add(parent, "filter", detail, (None, measure.take()));
        }
        match plan.pipeline.as_deref().or(plan.inner.as_deref()) {
            Some(pipeline) => {
                let measure = measure.or(Some(pipeline.measure));
                self.pipeline(pipeline, &plan.levels, measure, parent);
            }
            None if plan.levels.is_empty() => {
                self.add(parent, "values", "", (Some(1.0), measure));
            }
            None => self.levels(&plan.levels, measure, parent),
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
    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        levels: &[Level],
        measure: Option<usize>,
        parent: usize,
    ) {
        let words: Vec<Words> = pipeline
            .levels
            .iter()
            .zip(levels)
            .map(|(step, level)| Words {
                node: node_of_step(step),
                join: join_of_step(step, &pipeline.node),
                filters: step.before.len() + step.on.len() + step.filter.len(),
                mode: "on pages",
                level,
            })
            .collect();
        let top = match &pipeline.node {
            Node::Count => Some("count"),
            Node::Point { .. } => Some("point"),
            Node::Seek(_) => Some("seek"),
            Node::RowidList => Some("rowid list"),
            _ => None,
        };
        self.joined(&words, top, measure, parent);
    }

    /// Loops of which each puts its rows into registers.
    fn levels(&mut self, levels: &[Level], measure: Option<usize>, parent: usize) {
        let mut parent = parent;
        let mut measure = measure;
        let Some(first) = levels.first() else { return };
        let behind = levels.get(first.width()..).unwrap_or_default();
        // Joins nest to the left: the last table's is the topmost one.
        let mut joins = Vec::with_capacity(behind.len());
        for level in behind.iter().rev() {
            let (node, detail) = join_of_level(level);
            let numbers = (Some(level.estimate), measure.take().or(Some(level.measure)));
            parent = self.add(parent, node, detail, numbers);
            joins.push(parent);
        }
        match &first.scan {
            Scan::Pipeline(scan) => {
                if !scan.conditions.is_empty() {
                    let detail =
                        format!("{}, in batches", counted(scan.conditions.len(), "predicate"));
                    let measure = measure.take().or(Some(first.measure));
                    parent = self.add(parent, "filter", detail, (None, measure));
                    self.pipeline(&scan.pipeline, levels, None, parent);
                } else {
                    let measure = measure.or(Some(first.measure));
                    self.pipeline(&scan.pipeline, levels, measure, parent);
                }
            }
            _ => self.level(first, measure.or(Some(first.measure)), parent),
        }
        for (level, join) in behind.iter().zip(joins.into_iter().rev()) {
            // What it gave is the number of the join.
            self.level(level, None, join);
        }
    }

    /// The scan of one table.
    fn level(&mut self, level: &Level, measure: Option<usize>, parent: usize) {
        let (node, query) = match &level.scan {
            Scan::Hash(hash) => ("hash build", query_of(&hash.source)),
            scan => (node_of_scan(scan), query_of(scan)),
        };
        let filters = level.on.len() + level.filter.len();
        let detail = detail(level, filters, "row by row");
        let id = self.add(parent, node, detail, (Some(level.rows), measure));
        if let Some(query) = query {
            self.query(query, id);
        }
    }

    /// Tables that are joined, one after the other.
    fn joined(
        &mut self,
        words: &[Words<'_>],
        top: Option<&'static str>,
        measure: Option<usize>,
        parent: usize,
    ) {
        let (Some((last, before)), mut measure) = (words.split_last(), measure) else { return };
        let mut parent = parent;
        if !before.is_empty() {
            let join = if last.level.keeps_left { "left, on pages" } else { "on pages" };
            let numbers = (Some(last.level.estimate), measure.take());
            parent = self.add(parent, last.join, join, numbers);
            self.joined(before, None, None, parent);
        }
        let detail = detail(last.level, last.filters, last.mode);
        let node = top.unwrap_or(last.node);
        self.add(parent, node, detail, (Some(last.level.rows), measure));
    }
}

/// One table of a pipeline.
struct Words<'p> {
    node: &'static str,
    join: &'static str,
    filters: usize,
    mode: &'static str,
    level: &'p Level,
}

/// The words of `EXPLAIN QUERY PLAN` without the verb, the predicates, and where those are asked.
fn detail(level: &Level, filters: usize, mode: &str) -> String {
    let label = level.words.as_ref().map_or("", |words| words.label.as_str());
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
        Access::Any { .. } | Access::Common { .. } => "rowid list",
    }
}

fn join_of_step(step: &PipelineStep, node: &Node) -> &'static str {
    match (node.all_rows(), &step.access) {
        (Node::LookupJoin, _) | (_, Access::Rowid { .. }) => "lookup join",
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
        Scan::Pipeline(_) => "pipeline",
        Scan::Query(_) => "query",
        Scan::Hash(_) => "hash build",
        Scan::Each(scan) => match &scan.values {
            EachCodes::List(_) | EachCodes::Query(_) => "seek of each value",
            EachCodes::Common(_) => "rowid list",
        },
        Scan::Any(_) => "rowid list",
        Scan::Taken(_) => "taken row",
        Scan::Module(_) => "table function",
        Scan::Nothing => "nothing",
    }
}

fn join_of_level(level: &Level) -> (&'static str, &'static str) {
    let node = match &level.scan {
        Scan::Hash(hash) if !hash.keys.is_empty() => "hash join",
        Scan::Table(scan) if matches!(scan.range, RowidRange::Equal(_)) => "lookup join",
        _ => "nested loop",
    };
    let keeps = match (level.keeps_left, level.keeps_right) {
        (false, false) => "",
        (true, false) => "left",
        (false, true) => "right",
        (true, true) => "full",
    };
    (node, keeps)
}
