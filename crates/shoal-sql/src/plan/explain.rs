//! A plan in words: `EXPLAIN QUERY PLAN`.
//!
//! Layout and words are SQLite's where the plan is one that SQLite could have made. What it has no
//! words for has its own: rows found by a hash are found by an `AUTOMATIC HASH INDEX`.

use super::access::{Path, PathKind};
use super::node::{GroupSource, LoopsNode, Node, QueryPlan};
use super::pipeline::Pipeline;
use super::restrict::End;
use super::{GroupPlan, Level, LevelWords, Program, Scan};
use crate::parse::ast::CompoundOp;
use crate::resolve::tree::{Expr, ROWID, Source, SourceKind};
use crate::schema::{IndexSource, Table};
use crate::value::Value;

/// One line: its number, that of the line it belongs to, and the words.
struct Lines<'p> {
    lines: Vec<(i64, i64, String)>,
    program: &'p Program,
    /// How many queries without a name there were.
    unnamed: usize,
}

impl Program {
    /// The rows of `EXPLAIN QUERY PLAN`: `id`, `parent`, `notused`, `detail`.
    pub(crate) fn explain(&self) -> Vec<Vec<Value>> {
        let mut lines = Lines { lines: Vec::new(), program: self, unnamed: 0 };
        lines.query(&self.root, 0);
        let row = |(id, parent, detail): (i64, i64, String)| {
            vec![id.into(), parent.into(), 0.into(), detail.into()]
        };
        lines.lines.into_iter().map(row).collect()
    }
}

impl Lines<'_> {
    fn add(&mut self, parent: i64, detail: impl Into<String>) -> i64 {
        let id = i64::try_from(self.lines.len() + 1).unwrap_or(i64::MAX);
        self.lines.push((id, parent, detail.into()));
        id
    }

    /// The line of a sort by `all` keys, where rows come in the order of the first `begins` keys;
    /// no line where these are all.
    fn sort(&mut self, begins: usize, all: usize, parent: i64) {
        let part = match (begins, all - begins) {
            (_, 0) => return,
            (0, _) => String::new(),
            (_, 1) => "LAST TERM OF ".to_owned(),
            (_, rest) => format!("LAST {rest} TERMS OF "),
        };
        self.add(parent, format!("USE TEMP B-TREE FOR {part}ORDER BY"));
    }

    fn query(&mut self, plan: &QueryPlan, parent: i64) {
        self.node(&plan.node, plan, parent);
    }

    /// The lines of a node of a query. The queries within its expressions follow the sources.
    fn node(&mut self, node: &Node, query: &QueryPlan, parent: i64) {
        match node {
            Node::Values(rows) => {
                let words = match rows.len() {
                    1 => "SCAN CONSTANT ROW".to_owned(),
                    count => format!("SCAN {count}-ROW VALUES CLAUSE"),
                };
                self.add(parent, words);
                self.subqueries(query, parent);
            }
            Node::Pages(pages) => self.pipeline(&pages.pipeline, query, parent),
            Node::Computed(computed) => self.pipeline(&computed.scan.pipeline, query, parent),
            Node::Loops(loops) => self.loops(loops, query, parent),
            Node::Taken(taken) => {
                if let Some(words) = &taken.words {
                    self.source(words, "", parent);
                }
                self.subqueries(query, parent);
            }
            Node::Group(group) => {
                match &group.source {
                    GroupSource::Pages(pipeline) => self.pipeline(pipeline, query, parent),
                    GroupSource::Columns { scan, .. } => {
                        self.pipeline(&scan.pipeline, query, parent);
                    }
                    GroupSource::Loops(loops) => self.loops(loops, query, parent),
                }
                self.group(&group.plan, parent);
            }
            Node::GroupInOrder(group) => {
                self.loops(&group.input, query, parent);
                self.group(&group.plan, parent);
            }
            Node::Probe(probe) => {
                self.pipeline(&probe.pipeline, query, parent);
                if let Some(group) = &probe.group {
                    self.group(group, parent);
                }
                if probe.sort.is_some() {
                    self.add(parent, "USE TEMP B-TREE FOR ORDER BY");
                }
            }
            Node::Window(window) => {
                // The windows pass over the rows once those are gathered.
                self.unnamed += 1;
                let name = format!("(subquery-{})", self.unnamed);
                let id = self.add(parent, format!("CO-ROUTINE {name}"));
                self.node(&window.input, query, id);
                for pass in &window.plan.passes {
                    let begins = if window.plan.in_order { pass.partition_count } else { 0 };
                    self.sort(begins, pass.sort.keys.len(), id);
                }
                self.add(parent, format!("SCAN {name}"));
            }
            Node::Project(project) => self.node(&project.input, query, parent),
            Node::Limit(limit) => self.node(&limit.input, query, parent),
            Node::Distinct(distinct) => {
                self.node(&distinct.input, query, parent);
                if !distinct.ordered {
                    self.add(parent, "USE TEMP B-TREE FOR DISTINCT");
                }
            }
            Node::Sort(sort) => {
                self.node(&sort.input, query, parent);
                self.sort(sort.begins, sort.sort.keys.len(), parent);
            }
            Node::Shared(shared) => {
                self.query(&shared.plan, parent);
                self.subqueries(query, parent);
            }
            Node::Recursion(recursion) => {
                let id = self.add(parent, "SETUP");
                self.query(&recursion.first, id);
                for step in &recursion.steps {
                    let id = self.add(parent, "RECURSIVE STEP");
                    self.query(step, id);
                }
                self.subqueries(query, parent);
            }
            Node::Compound(compound) => {
                let parent = self.add(parent, "COMPOUND QUERY");
                let id = self.add(parent, "LEFT-MOST SUBQUERY");
                self.query(&compound.first, id);
                for (op, part) in &compound.rest {
                    let words = match op {
                        CompoundOp::UnionAll => "UNION ALL",
                        CompoundOp::Union => "UNION USING TEMP B-TREE",
                        CompoundOp::Except => "EXCEPT USING TEMP B-TREE",
                        CompoundOp::Intersect => "INTERSECT USING TEMP B-TREE",
                    };
                    let id = self.add(parent, words);
                    self.query(part, id);
                }
                self.subqueries(query, parent);
            }
        }
    }

    /// The queries that the expressions of a query run.
    fn subqueries(&mut self, plan: &QueryPlan, parent: i64) {
        for &number in &plan.queries {
            let query = &self.program.queries[number];
            let correlated = if query.correlated { "CORRELATED " } else { "" };
            let kind = if query.is_list { "LIST" } else { "SCALAR" };
            let detail = format!("{correlated}{kind} SUBQUERY {}", number + 1);
            let id = self.add(parent, detail);
            self.query(&query.plan, id);
        }
    }

    /// Sources whose rows stay on their pages.
    fn pipeline(&mut self, pipeline: &Pipeline, query: &QueryPlan, parent: i64) {
        self.steps(pipeline, parent);
        let keeps = pipeline.levels.iter().filter(|step| step.marks.is_some());
        for words in keeps.filter_map(|step| step.words.as_deref()) {
            self.unmatched(words, parent);
        }
        self.subqueries(query, parent);
    }

    fn steps(&mut self, pipeline: &Pipeline, parent: i64) {
        for step in &pipeline.levels {
            let Some(words) = &step.words else { continue };
            self.source(words, if step.left_join { " LEFT-JOIN" } else { "" }, parent);
        }
    }

    fn loops(&mut self, loops: &LoopsNode, query: &QueryPlan, parent: i64) {
        if loops.levels.is_empty() {
            self.add(parent, "SCAN CONSTANT ROW");
        }
        loops.levels.iter().for_each(|level| self.level(level, parent));
        let keeps = loops.levels.iter().filter(|level| level.keeps_right);
        for words in keeps.filter_map(|level| level.words.as_deref()) {
            self.unmatched(words, parent);
        }
        self.subqueries(query, parent);
    }

    /// The rows of a source without a match.
    fn unmatched(&mut self, words: &LevelWords, parent: i64) {
        let id = self.add(parent, format!("RIGHT-JOIN {}", words.name));
        self.add(id, format!("SCAN {}", words.name));
    }

    fn group(&mut self, group: &GroupPlan, parent: i64) {
        if !group.keys.is_empty() && !group.ordered {
            let what = if group.distinct { "DISTINCT" } else { "GROUP BY" };
            self.add(parent, format!("USE TEMP B-TREE FOR {what}"));
        }
        for aggregate in group.aggregates.iter().filter(|aggregate| aggregate.distinct) {
            let name = aggregate.function.shown_name();
            self.add(parent, format!("USE TEMP B-TREE FOR {name}(DISTINCT)"));
        }
    }

    fn level(&mut self, level: &Level, parent: i64) {
        let (inner, verb) = match &level.scan {
            Scan::Columns(scan) => return self.steps(&scan.pipeline, parent),
            Scan::Pages(scan) if level.words.is_none() => {
                return self.steps(&scan.pipeline, parent);
            }
            Scan::Operator(operator) => {
                operator.input.levels.iter().for_each(|level| self.level(level, parent));
                (&level.scan, "")
            }
            Scan::Hash(hash) => (&hash.source, "MATERIALIZE"),
            scan => (scan, "CO-ROUTINE"),
        };
        let Some(words) = &level.words else { return };
        if let Scan::Query(query) = inner {
            let id = self.add(parent, format!("{verb} {}", words.name));
            self.query(query, id);
        }
        self.source(words, if level.keeps_left { " LEFT-JOIN" } else { "" }, parent);
    }

    /// A source, and the ways to its rows where they are several.
    fn source(&mut self, words: &LevelWords, suffix: &str, parent: i64) {
        let id = self.add(parent, format!("{}{suffix}", words.label));
        for (number, arm) in words.arms.iter().enumerate() {
            let id = self.add(id, format!("INDEX {}", number + 1));
            self.add(id, arm.as_str());
        }
    }
}

/// What a source is called.
pub(super) fn name(source: &Source) -> String {
    match source.name.as_str() {
        "" => format!("(subquery-{})", source.id),
        name => name.to_owned(),
    }
}

/// A source and the way to its rows in words, and the ways that this is made of. What `covering`
/// says of an index is that nothing beside it is read.
pub(super) fn label(
    source: &Source,
    path: &Path<'_>,
    covering: bool,
    ends_early: bool,
) -> (String, Vec<String>) {
    let mut arms = Vec::new();
    let name = name(source);
    let verb = if ends_early { "SEARCH" } else { "SCAN" };
    let label = match (&path.kind, &source.kind) {
        (_, SourceKind::Module { .. }) => format!("SCAN {name} VIRTUAL TABLE INDEX 1:"),
        (PathKind::Virtual(found), _) => {
            let choice = &found.choice;
            format!("SCAN {name} VIRTUAL TABLE INDEX {}:{}", choice.number, choice.text)
        }
        (PathKind::Full, _) => format!("{verb} {name}"),
        (PathKind::Hash(keys), _) if keys.is_empty() => format!("SCAN {name} IN MEMORY"),
        (PathKind::Hash(keys), kind) => {
            let keys: Vec<String> =
                keys.iter().map(|key| format!("{}=?", expr_name(kind, key.own))).collect();
            format!("SEARCH {name} USING AUTOMATIC HASH INDEX ({})", keys.join(" AND "))
        }
        (PathKind::RowidEqual(_), _) => {
            format!("SEARCH {name} USING INTEGER PRIMARY KEY (rowid=?)")
        }
        (PathKind::RowidRange { low, high }, _) => {
            let terms = range_terms("rowid", low.as_ref(), high.as_ref());
            format!("SEARCH {name} USING INTEGER PRIMARY KEY ({})", terms.join(" AND "))
        }
        (PathKind::Any { arms: ways, prefix }, _) => {
            let own = |way: &Path<'_>| label_of_arm(source, way);
            match ways.first() {
                // The blobs that a pattern may match lie in the same index.
                Some(texts) if *prefix => own(texts),
                _ => {
                    arms = ways.iter().map(own).collect();
                    "MULTI-INDEX OR".to_owned()
                }
            }
        }
        (PathKind::All(ways), _) => {
            arms = ways.iter().map(|way| label_of_arm(source, way)).collect();
            "MULTI-INDEX AND".to_owned()
        }
        (PathKind::Index { index, equal, low, high }, SourceKind::Table(table)) => {
            let mut terms: Vec<String> = (0..equal.len())
                .map(|place| format!("{}=?", key_name(table, *index, place)))
                .collect();
            let next = key_name(table, *index, equal.len());
            terms.extend(range_terms(&next, low.as_ref(), high.as_ref()));
            let covering = if covering { "COVERING " } else { "" };
            let using = match index {
                Some(index) => format!("{covering}INDEX {}", table.indexes[*index].name),
                None => "PRIMARY KEY".to_owned(),
            };
            match terms.is_empty() {
                true => format!("{verb} {name} USING {using}"),
                false => format!("SEARCH {name} USING {using} ({})", terms.join(" AND ")),
            }
        }
        (PathKind::Index { .. }, _) => format!("SEARCH {name}"),
    };
    (label, arms)
}

fn label_of_arm(source: &Source, path: &Path<'_>) -> String {
    label(source, path, false, false).0
}

fn range_terms(name: &str, low: Option<&End<'_>>, high: Option<&End<'_>>) -> Vec<String> {
    let low = low.map(|_| format!("{name}>?"));
    let high = high.map(|_| format!("{name}<?"));
    low.into_iter().chain(high).collect()
}

/// The column that an expression is, in words.
fn expr_name(kind: &SourceKind, expr: &Expr) -> String {
    let name = match (kind, expr) {
        (_, Expr::Column { column: ROWID, .. }) => Some("rowid".to_owned()),
        (SourceKind::Table(table), Expr::Column { column, .. }) => {
            table.columns.get(*column).map(|column| column.name.clone())
        }
        (SourceKind::Query(query), Expr::Column { column, .. }) => {
            query.columns.get(*column).map(|column| column.inner_name.clone())
        }
        _ => None,
    };
    name.unwrap_or_else(|| "<expr>".to_owned())
}

fn key_name(table: &Table, index: Option<usize>, place: usize) -> String {
    let column = match index {
        None => table.primary_key.get(place).map(|part| part.column),
        Some(index) => match table.indexes[index].columns.get(place).map(|column| &column.source) {
            Some(IndexSource::Column(column)) => Some(*column),
            Some(IndexSource::Rowid) => return "rowid".to_owned(),
            Some(IndexSource::Expr(_)) => return "<expr>".to_owned(),
            None => None,
        },
    };
    column.and_then(|column| table.columns.get(column)).map_or(String::new(), |c| c.name.clone())
}
