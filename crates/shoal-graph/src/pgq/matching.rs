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

use super::call::{Call, CallEdge, CallNode};
use super::known::Known;
use super::named::{Ids, NamedGraph, StatementBounds, refused};
use crate::algorithms::{Direction, KeptSnapshots, Selection, Snapshot};
use crate::multiway::{Candidates, Edge, Matches, Pattern, Places, Reach, Walk, Way};
use crate::procedure::Bounds;

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

/// The join's rows are few as long as they are fewer than one of so many nodes, or than the second
/// number.
const FEW_ROWS: u64 = 8;
const ROWS_MIN: usize = 512;

/// Bytes of rows kept of a join.
const ROW_BYTES: usize = 48;

/// All nodes, with the edges of some types.
fn selection<'s>(kinds: &'s [&'s str]) -> Selection<'s> {
    Selection { label: None, kinds, direction: Direction::Outgoing, weight: None }
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

/// Rows of a join, and the number of each.
type JoinRows = Vec<(Vec<Sql>, u64)>;

#[derive(Debug)]
enum Source {
    Fresh,
    Compact {
        matches: Box<Matches>,
        snapshot: Arc<Snapshot>,
        ids: Ids,
    },
    Reach {
        reach: Box<Reach>,
        /// The node that walks start at.
        start: usize,
        snapshot: Arc<Snapshot>,
        ids: Ids,
    },
    Joined(std::vec::IntoIter<(Vec<Sql>, u64)>),
}

/// What a call is to be answered by.
enum Ready {
    Source(Source),
    /// A pattern, and the nodes asked for.
    Pattern(Pattern, Vec<bool>, Ids),
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
            Source::Reach { reach, start, snapshot, ids } => {
                let bounds = StatementBounds::new(context);
                let found = reach.next(&bounds).map_err(|error| bounds.error(&error))?;
                let Some(count) = found else { return Ok(false) };
                self.repeats = count;
                self.row.clear();
                let (first, last) = reach.pair();
                for (column, node) in self.call.shown.iter().enumerate() {
                    let place = if node == start { first } else { last };
                    self.row.push(match self.reads.contains(&column) {
                        true => Sql::Int(ids.rowid(snapshot.id(place as usize))),
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
            Ok(Some(Ready::Source(source))) => Ok(source),
            // A count too large for 64 bits would keep a join busy for ever.
            Ok(Some(Ready::Pattern(pattern, asked, ids))) => {
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
        if self.folds && self.reads.is_empty() {
            let mut rows = Vec::new();
            let sql = format!("SELECT count(*) FROM ({})", self.call.join);
            context.query(&sql, &self.given, |row| {
                if let Some(Sql::Int(count @ 1..)) = row.first() {
                    rows.push((Vec::new(), count.unsigned_abs()));
                }
                Ok(())
            })?;
            return Ok(Source::Joined(rows.into_iter()));
        }
        let rows = self.rows_of_join(usize::MAX, context)?;
        Ok(Source::Joined(rows.unwrap_or_default().into_iter()))
    }

    /// Rows of the join, and `None` where there are more than so many.
    fn rows_of_join(
        &self,
        most: usize,
        context: &ModuleContext<'_>,
    ) -> Result<Option<JoinRows>, Error> {
        let bounds = StatementBounds::new(context);
        let (mut rows, mut are_many) = (Vec::new(), false);
        let is_count = self.folds && self.reads.is_empty();
        let mut count = 0;
        let few = self.call.walk.as_ref().filter(|_| most < usize::MAX).map(|walk| &walk.few);
        let result = context.query(few.unwrap_or(&self.call.join), &self.given, |row| {
            count += 1;
            are_many = count > most;
            if are_many {
                return Err(refused("the rows are many"));
            }
            if !is_count {
                let keep = bounds.keep(ROW_BYTES + 32 * row.len());
                keep.map_err(|error| bounds.error(&error))?;
                rows.push((row.to_vec(), 1));
            }
            Ok(())
        });
        match result {
            _ if are_many => Ok(None),
            Err(error) if self.call.walk.is_some() && super::walk::is_over_budget(&error) => {
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(()) => {
                if is_count && count > 0 {
                    rows.push((Vec::new(), count as u64));
                }
                Ok(Some(rows))
            }
        }
    }

    /// The matches over compressed rows; `None` where the join is to be asked. Where few nodes are
    /// candidates and nobody has read the graph yet, the join is asked first, as long as it has few
    /// rows.
    fn compact(&self, context: &ModuleContext<'_>) -> Result<Option<Ready>, Error> {
        let call = &self.call;
        let opened = self.known.open(&call.graph, context)?;
        let graph = &opened.graph;
        if graph.tables() != call.tables {
            return Ok(None);
        }
        let mut wanted: Vec<Vec<&str>> = Vec::new();
        for edge in &call.edges {
            let kinds: Vec<&str> = edge.kinds.iter().map(String::as_str).collect();
            if !wanted.contains(&kinds) {
                wanted.push(kinds);
            }
        }
        let bounds = StatementBounds::new(context);
        let failed = |error: crate::Error| bounds.error(&error);
        let mut found = Vec::new();
        for node in &call.nodes {
            found.push(self.candidates(graph, node, context)?);
        }
        let snapshots = self.known.with_kept(&call.graph, &opened, context, |kept| {
            let are_kept =
                kept.is_some_and(|kept| wanted.iter().all(|kinds| kept.has(&selection(kinds))));
            let fewest = found.iter().filter_map(Found::count).min();
            if let (Some(fewest), false) = (fewest, are_kept) {
                let all = graph.graph().estimate(None).map_err(failed)?;
                if fewest.saturating_mul(FEW) < all {
                    let most = usize::try_from(all / FEW_ROWS).unwrap_or(usize::MAX);
                    if let Some(rows) = self.rows_of_join(most.max(ROWS_MIN), context)? {
                        return Ok(Err(Source::Joined(rows.into_iter())));
                    }
                }
            }
            let mut snapshots = Vec::new();
            for kinds in &wanted {
                let snapshot = KeptSnapshots::find(kept, graph.graph(), &selection(kinds), &bounds);
                snapshots.push(snapshot.map_err(failed)?);
            }
            // Edges chosen by conditions are read for the call, and not kept.
            for (alias, tables) in call.edges.iter().filter_map(|edge| edge.filter.as_ref()) {
                let chosen = snapshots[0].with_relationships(&bounds, |each| {
                    tables.iter().try_for_each(|(table, condition)| {
                        let condition = (alias.as_str(), condition.as_str(), &*self.given);
                        graph.each_edge_where(*table, condition, each)
                    })
                });
                snapshots.push(Arc::new(chosen.map_err(failed)?));
            }
            Ok::<_, Error>(Ok(snapshots))
        })?;
        let snapshots = match snapshots {
            Ok(snapshots) => snapshots,
            Err(joined) => return Ok(Some(Ready::Source(joined))),
        };
        let snapshot = Arc::clone(&snapshots[0]);
        let ids = graph.ids();
        let mut asked = vec![false; call.nodes.len()];
        for (column, node) in call.shown.iter().enumerate() {
            asked[*node] |= self.reads.contains(&column);
        }
        let mut nodes: Vec<Candidates> =
            found.into_iter().map(|found| found.candidates(&snapshot, ids)).collect();
        if let ([edge], Some(walk)) = (&*call.edges, &call.walk) {
            // The pairs are the same from either end.
            let count = |node: usize| nodes[node].len(snapshot.len());
            let (start, end) = match count(edge.to) < count(edge.from) {
                true => (edge.to, edge.from),
                false => (edge.from, edge.to),
            };
            let mut take = |node: usize| std::mem::replace(&mut nodes[node], Candidates::All);
            let walk = Walk {
                snapshot: Arc::clone(&snapshot),
                way: match (edge.is_either, start == edge.from) {
                    (true, _) => Way::Either,
                    (false, true) => Way::Outgoing,
                    (false, false) => Way::Incoming,
                },
                starts: take(start),
                ends: take(end),
                from_zero: walk.from_zero,
                steps_max: walk.steps_max.map(u64::from),
                asked: (asked[start], asked[end]),
            };
            let reach = Box::new(Reach::of(walk));
            return Ok(Some(Ready::Source(Source::Reach { reach, start, snapshot, ids })));
        }
        let place = |edge: &CallEdge| wanted.iter().position(|kinds| *kinds == *edge.kinds);
        let mut chosen = wanted.len()..;
        let edges = call.edges.iter().map(|edge| Edge {
            from: edge.from,
            to: edge.to,
            is_either: edge.is_either,
            snapshot: match &edge.filter {
                Some(_) => chosen.next().unwrap_or(0),
                None => place(edge).unwrap_or(0),
            },
            class: edge.class,
        });
        let pattern = Pattern {
            edges: edges.collect(),
            nodes,
            different_nodes: call.different.clone(),
            snapshots,
        };
        Ok(Some(Ready::Pattern(pattern, asked, ids)))
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
