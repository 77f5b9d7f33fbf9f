//! `graph_match`: the matches of a pattern over compressed rows.
//!
//! ```sql
//! graph_match(call, p1, ... p8) -> (n0, ... n15)
//! ```
//!
//! `call` is JSON: the graph, the pattern, and the same pattern as a join. Rows are rowids of the
//! nodes shown; equal ones come as one row where SQL counts them or wants them distinct. The join
//! answers in place of the compressed rows where these cannot be read, and where few nodes are
//! candidates and nobody has read the graph yet.

use std::sync::Arc;

use shoal_sql::{Error, Module, ModuleContext, ModuleRows, Value as Sql};

use super::functions::Known;
use super::named::{Ids, NamedGraph, StatementBounds, refused};
use crate::algorithms::{Direction, KeptSnapshots, Selection, Snapshot};
use crate::json;
use crate::multiway::{Candidates, Edge, Matches, Pattern, Places};
use crate::procedure::Bounds;
use crate::value::{Map, Value};

/// Columns of `graph_match`.
pub(super) const CALL_COLUMNS: usize = COLUMNS.len();

/// Parameters of a statement in its conditions, at most.
pub(super) const CALL_PARAMETERS: usize = ARGUMENTS.len() - 1;

const COLUMNS: [&str; 16] = [
    "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11", "n12", "n13", "n14",
    "n15",
];

const ARGUMENTS: [&str; 9] = ["call", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"];

/// A join is asked where the candidates of a node are fewer than one of so many nodes.
const FEW: u64 = 64;

/// Bytes of rows kept of a join.
const ROW_BYTES: usize = 48;

/// The pattern of a call.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) graph: String,
    /// The graph's tables, vertices first: of another definition the numbers below mean nothing.
    pub(super) tables: Vec<String>,
    pub(super) nodes: Vec<CallNode>,
    pub(super) edges: Vec<CallEdge>,
    /// Pairs of different nodes.
    pub(super) different: Vec<(usize, usize)>,
    /// The nodes of the columns.
    pub(super) shown: Vec<usize>,
    /// The query with the same rows.
    pub(super) join: String,
}

/// The candidates of a node.
#[derive(Debug, PartialEq)]
pub(super) enum CallNode {
    Any,
    /// Numbers of tables; with a query, the keys of its rows alone.
    Of(Vec<(usize, Option<String>)>),
}

#[derive(Debug, PartialEq)]
pub(super) struct CallEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_either: bool,
    pub(super) kind: Option<String>,
    pub(super) class: Option<usize>,
}

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).expect("numbers of a pattern are small"))
}

impl Call {
    pub(super) fn to_text(&self) -> String {
        let text = |text: &String| Value::text(text);
        let optional = |one: &Option<String>| one.as_ref().map_or(Value::Null, text);
        let numbers = |all: &[usize]| Value::list(all.iter().map(|one| number(*one)).collect());
        let node = |node: &CallNode| match node {
            CallNode::Any => Value::Null,
            CallNode::Of(tables) => {
                let table = |(place, query): &(usize, Option<String>)| {
                    Value::list(vec![number(*place), optional(query)])
                };
                Value::list(tables.iter().map(table).collect())
            }
        };
        let edge = |edge: &CallEdge| {
            Value::list(vec![
                number(edge.from),
                number(edge.to),
                Value::Boolean(edge.is_either),
                optional(&edge.kind),
                edge.class.map_or(Value::Null, number),
            ])
        };
        let mut call = Map::new();
        let different = self.different.iter().map(|(a, b)| numbers(&[*a, *b])).collect();
        for (key, value) in [
            ("graph", text(&self.graph)),
            ("tables", Value::list(self.tables.iter().map(text).collect())),
            ("nodes", Value::list(self.nodes.iter().map(node).collect())),
            ("edges", Value::list(self.edges.iter().map(edge).collect())),
            ("different", Value::list(different)),
            ("shown", numbers(&self.shown)),
            ("join", text(&self.join)),
        ] {
            call.insert(key.into(), value);
        }
        json::write(&call)
    }

    /// A call read from its text; `None` of any other text, and of numbers of no node.
    fn read(call: &str) -> Option<Call> {
        let call = json::read(call).ok()?;
        let text = |value: &Value| match value {
            Value::Text(text) => Some((**text).to_owned()),
            _ => None,
        };
        let optional = |value: &Value| match value {
            Value::Null => Some(None),
            value => text(value).map(Some),
        };
        let number = |value: &Value| match value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        let list = |value: &Value| match value {
            Value::List(list) => Some(list.to_vec()),
            _ => None,
        };
        let all = |key: &str| list(call.get(key)?);
        let table = |value: &Value| match &*list(value)? {
            [place, query] => Some((number(place)?, optional(query)?)),
            _ => None,
        };
        let node = |value: &Value| match value {
            Value::Null => Some(CallNode::Any),
            value => Some(CallNode::Of(list(value)?.iter().map(table).collect::<Option<_>>()?)),
        };
        let nodes: Vec<CallNode> = all("nodes")?.iter().map(node).collect::<Option<_>>()?;
        let place = |value: &Value| number(value).filter(|place| *place < nodes.len());
        let edge = |value: &Value| match &*list(value)? {
            [from, to, Value::Boolean(is_either), kind, class] => Some(CallEdge {
                from: place(from)?,
                to: place(to)?,
                is_either: *is_either,
                kind: optional(kind)?,
                class: if *class == Value::Null { None } else { Some(number(class)?) },
            }),
            _ => None,
        };
        let pair = |value: &Value| match &*list(value)? {
            [a, b] => Some((place(a)?, place(b)?)),
            _ => None,
        };
        let shown: Vec<usize> = all("shown")?.iter().map(place).collect::<Option<_>>()?;
        let edges: Vec<CallEdge> = all("edges")?.iter().map(edge).collect::<Option<_>>()?;
        let different = all("different")?.iter().map(pair).collect::<Option<_>>()?;
        if shown.len() > CALL_COLUMNS || edges.is_empty() {
            return None;
        }
        Some(Call {
            graph: text(call.get("graph")?)?,
            tables: all("tables")?.iter().map(text).collect::<Option<_>>()?,
            different,
            join: text(call.get("join")?)?,
            nodes,
            edges,
            shown,
        })
    }
}

/// All nodes, with the edges of a type.
fn selection(kind: Option<&str>) -> Selection<'_> {
    Selection { label: None, kind, direction: Direction::Outgoing, weight: None }
}

/// The module `graph_match`.
#[derive(Debug)]
pub(super) struct GraphMatch(pub(super) Arc<Known>);

impl Module for GraphMatch {
    fn name(&self) -> &str {
        "graph_match"
    }

    fn columns(&self) -> Vec<&str> {
        COLUMNS.to_vec()
    }

    fn declared_type(&self, _column: usize) -> &str {
        "INTEGER"
    }

    fn arguments(&self) -> &[&str] {
        &ARGUMENTS
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn open(
        &self,
        arguments: &[Option<Sql>],
        _context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let call = match arguments.first() {
            Some(Some(Sql::Text(text))) => Call::read(&String::from_utf8_lossy(text)),
            _ => None,
        };
        let Some(call) = call else {
            return Err(refused("graph_match() is for GRAPH_TABLE: its call is no pattern"));
        };
        let given = arguments[1..].iter().map(|value| value.clone().unwrap_or_default()).collect();
        let known = Arc::clone(&self.0);
        Ok(Box::new(MatchRows {
            known,
            call,
            given,
            reads: Vec::new(),
            folds: false,
            source: Source::Fresh,
            row: Vec::new(),
            repeats: 1,
        }))
    }
}

/// The rows of a call.
#[derive(Debug)]
struct MatchRows {
    known: Arc<Known>,
    call: Call,
    given: Vec<Sql>,
    /// The columns read.
    reads: Vec<usize>,
    folds: bool,
    source: Source,
    row: Vec<Sql>,
    /// With `folds`, the rows that the row given last stands for; else those still to come.
    repeats: u64,
}

#[derive(Debug)]
enum Source {
    Fresh,
    Compact {
        matches: Box<Matches>,
        snapshot: Arc<Snapshot>,
        ids: Ids,
    },
    /// Rows of the join, and the number of each.
    Joined(std::vec::IntoIter<(Vec<Sql>, u64)>),
}

impl ModuleRows for MatchRows {
    fn next(&mut self, row: &mut Vec<Sql>, context: &ModuleContext<'_>) -> Result<bool, Error> {
        if let Source::Fresh = self.source {
            self.source = self.open(context)?;
            self.repeats = 0;
        }
        if !self.folds && self.repeats > 1 {
            self.repeats -= 1;
            row.extend_from_slice(&self.row);
            return Ok(true);
        }
        match &mut self.source {
            Source::Fresh => unreachable!("rows were opened"),
            Source::Compact { matches, snapshot, ids } => {
                let bounds = StatementBounds::new(context);
                let found = matches.next(&bounds).map_err(|error| bounds.error(&error))?;
                let Some(count) = found else { return Ok(false) };
                self.repeats = count;
                self.row.clear();
                for (column, node) in self.call.shown.iter().enumerate() {
                    self.row.push(match self.reads.contains(&column) {
                        true => {
                            let id = snapshot.id(matches.place(*node) as usize);
                            Sql::Int(ids.rowid(id))
                        }
                        false => Sql::Null,
                    });
                }
            }
            Source::Joined(rows) => {
                let Some((next, count)) = rows.next() else { return Ok(false) };
                (self.row, self.repeats) = (next, count);
            }
        }
        row.extend_from_slice(&self.row);
        Ok(true)
    }

    fn reads(&mut self, columns: &[usize], folds: bool) {
        (self.reads, self.folds) = (columns.to_vec(), folds);
    }

    fn repeats(&self) -> u64 {
        if self.folds { self.repeats } else { 1 }
    }
}

impl MatchRows {
    fn open(&self, context: &ModuleContext<'_>) -> Result<Source, Error> {
        match self.compact(context) {
            // A count too large for 64 bits would keep a join busy for ever.
            Ok(Some((pattern, asked, ids))) => {
                let bounds = StatementBounds::new(context);
                let snapshot = Arc::clone(&pattern.snapshots[0]);
                let matches = Matches::of(pattern, &asked, &bounds);
                let matches = Box::new(matches.map_err(|error| bounds.error(&error))?);
                Ok(Source::Compact { matches, snapshot, ids })
            }
            Ok(None) => self.joined(context),
            // Rows without ids, or too many for memory: the join may serve.
            Err(error) => match context.check() {
                Ok(()) if !matches!(error, Error::Interrupted) => self.joined(context),
                _ => Err(error),
            },
        }
    }

    /// Rows of the join.
    fn joined(&self, context: &ModuleContext<'_>) -> Result<Source, Error> {
        let bounds = StatementBounds::new(context);
        let mut rows = Vec::new();
        if self.folds && self.reads.is_empty() {
            let sql = format!("SELECT count(*) FROM ({})", self.call.join);
            context.query(&sql, &self.given, |row| {
                if let Some(Sql::Int(count @ 1..)) = row.first() {
                    rows.push((Vec::new(), count.unsigned_abs()));
                }
                Ok(())
            })?;
            return Ok(Source::Joined(rows.into_iter()));
        }
        context.query(&self.call.join, &self.given, |row| {
            let keep = bounds.keep(ROW_BYTES + 32 * row.len());
            keep.map_err(|error| bounds.error(&error))?;
            rows.push((row.to_vec(), 1));
            Ok(())
        })?;
        Ok(Source::Joined(rows.into_iter()))
    }

    /// The pattern over compressed rows, and the nodes asked for; `None` where the join is to be
    /// asked.
    fn compact(
        &self,
        context: &ModuleContext<'_>,
    ) -> Result<Option<(Pattern, Vec<bool>, Ids)>, Error> {
        let call = &self.call;
        let graph = NamedGraph::find(&self.known.definitions, &call.graph, context)?;
        if graph.tables() != call.tables {
            return Ok(None);
        }
        graph.graph().begin(false).map_err(|error| refused(error.to_string()))?;
        let mut wanted: Vec<Option<&str>> = Vec::new();
        for edge in &call.edges {
            if !wanted.contains(&edge.kind.as_deref()) {
                wanted.push(edge.kind.as_deref());
            }
        }
        let states = context.states();
        let bounds = StatementBounds::new(context);
        let failed = |error: crate::Error| bounds.error(&error);
        let mut found = Vec::new();
        for node in &call.nodes {
            found.push(self.candidates(&graph, node, context)?);
        }
        let kept = self.known.kept(states.as_ref(), &call.graph);
        let are_kept =
            kept.is_some_and(|kept| wanted.iter().all(|kind| kept.has(&selection(*kind))));
        let fewest = found.iter().filter_map(Found::count).min();
        if let (Some(fewest), false) = (fewest, are_kept) {
            let all = graph.graph().estimate(None).map_err(failed)?;
            if fewest.saturating_mul(FEW) < all {
                return Ok(None);
            }
        }
        let mut snapshots = Vec::new();
        for kind in &wanted {
            let selection = selection(*kind);
            let snapshot = KeptSnapshots::find(kept, graph.graph(), &selection, &bounds);
            snapshots.push(snapshot.map_err(failed)?);
        }
        let snapshot = Arc::clone(&snapshots[0]);
        let edges = call.edges.iter().map(|edge| Edge {
            from: edge.from,
            to: edge.to,
            is_either: edge.is_either,
            snapshot: wanted.iter().position(|kind| *kind == edge.kind.as_deref()).unwrap_or(0),
            class: edge.class,
        });
        let pattern = Pattern {
            edges: edges.collect(),
            nodes: found
                .into_iter()
                .map(|found| found.candidates(&snapshot, graph.ids()))
                .collect(),
            different_nodes: call.different.clone(),
            snapshots,
        };
        let mut asked = vec![false; call.nodes.len()];
        for (column, node) in call.shown.iter().enumerate() {
            asked[*node] |= self.reads.contains(&column);
        }
        Ok(Some((pattern, asked, graph.ids())))
    }

    /// The candidates of a node, by ids.
    fn candidates(
        &self,
        graph: &NamedGraph<'_>,
        node: &CallNode,
        context: &ModuleContext<'_>,
    ) -> Result<Found, Error> {
        let CallNode::Of(tables) = node else { return Ok(Found::Any) };
        let (mut ids, mut whole) = (Vec::new(), Vec::new());
        for (place, query) in tables {
            let Some(query) = query else {
                whole.push(*place);
                continue;
            };
            let mut keys = Vec::new();
            context.query(query, &self.given, |row| {
                keys.push(row.to_vec());
                Ok(())
            })?;
            for key in keys {
                let id = graph.id(*place, &key).map_err(|error| refused(error.to_string()))?;
                ids.push(id);
            }
        }
        Ok(Found::Some { ids, whole })
    }
}

/// Candidates before their places are known.
enum Found {
    Any,
    Some {
        ids: Vec<i64>,
        /// Tables all of whose rows are candidates.
        whole: Vec<usize>,
    },
}

impl Found {
    /// The number of candidates, where all were looked for.
    fn count(&self) -> Option<u64> {
        match self {
            Found::Some { ids, whole } if whole.is_empty() => Some(ids.len() as u64),
            _ => None,
        }
    }

    fn candidates(self, snapshot: &Snapshot, made: Ids) -> Candidates {
        let Found::Some { mut ids, whole } = self else { return Candidates::All };
        let all = snapshot.ids();
        let mut places = Vec::new();
        let place = |at: usize| u32::try_from(at).expect("places have 32 bits");
        for table in whole {
            let start = all.partition_point(|id| made.table(*id) < table);
            let end = all.partition_point(|id| made.table(*id) <= table);
            places.extend((start..end).map(place));
        }
        ids.sort_unstable();
        let mut from = 0;
        for id in ids {
            from += all[from..].partition_point(|other| *other < id);
            if all.get(from) == Some(&id) {
                places.push(place(from));
            }
        }
        Candidates::Only(Places::of(places, snapshot.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_its_text() {
        let call = Call {
            graph: "g'\"".to_owned(),
            tables: vec!["v".to_owned(), "e".to_owned()],
            nodes: vec![
                CallNode::Any,
                CallNode::Of(vec![(0, None), (1, Some("SELECT '\\'".to_owned()))]),
            ],
            edges: vec![CallEdge {
                from: 1,
                to: 0,
                is_either: true,
                kind: Some("ä".to_owned()),
                class: Some(0),
            }],
            different: vec![(0, 1)],
            shown: vec![1],
            join: "SELECT 1".to_owned(),
        };
        let text = call.to_text();
        assert_eq!(Call::read(&text), Some(call));
        for (from, to) in
            [("\"shown\":[1]", "\"shown\":[2]"), ("[1,0,true", "[1,2,true"), ("{", "[")]
        {
            assert!(text.contains(from), "{text} has {from}");
            assert_eq!(Call::read(&text.replacen(from, to, 1)), None);
        }
    }
}
