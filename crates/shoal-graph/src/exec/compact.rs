//! `MATCH` over compressed rows: patterns without lengths whose relationships nobody looks at.
//!
//! The first clause of a reading query may be matched by a multiway join ([`crate::multiway`]):
//! rows for the next clause come with the number of equal ones, and `count(*)` adds numbers. The
//! matcher keeps whatever the join does not know: relationships used by name, properties of
//! relationships, paths, an index to begin by, few nodes of a label.

use std::sync::Arc;

use super::Outer;
use crate::algorithms::{KeptSnapshots, Selection, Snapshot};
use crate::ast::*;
use crate::bind::visit;
use crate::error::Result;
use crate::functions::Plain;
use crate::matcher::plan;
use crate::multiway::{self, Candidates, Matches, Places};
use crate::run::{Env, Run};
use crate::value::Value;

/// The matcher finds what begins at fewer than one of so many nodes.
const FEW: u64 = 64;

/// The first columns of a node's row: nodes asked for at once.
const COUNT: usize = 4096;

/// Takes a row with the number of rows equal to it; false for no more rows.
pub(super) type CountedSink<'s> = dyn FnMut(&Run<'_>, &mut Vec<Value>, u64) -> Result<bool> + 's;

/// A `MATCH` in the form of the join.
pub(crate) struct Shape<'c> {
    found: &'c Match,
    /// The slots of the nodes.
    slots: Vec<usize>,
    /// True of nodes that a condition or the clause behind reads.
    asked: Vec<bool>,
    edges: Vec<ShapeEdge<'c>>,
    /// Conditions on one node, with its number.
    own: Vec<(usize, &'c Expr)>,
    /// Conditions on several nodes or none.
    behind: Vec<&'c Expr>,
}

struct ShapeEdge<'c> {
    from: usize,
    to: usize,
    is_either: bool,
    /// The types of the edge; none takes all types.
    kinds: Vec<&'c str>,
    slot: usize,
}

/// A search under way.
pub(crate) struct Compact<'c> {
    shape: Shape<'c>,
    matches: Matches,
    snapshot: Arc<Snapshot>,
}

impl<'c> Shape<'c> {
    /// The shape of the clauses of a query, where the join knows the first of them.
    ///
    /// # Errors
    /// The graph's.
    pub(crate) fn of(run: &Run<'_>, clauses: &'c [Clause]) -> Result<Option<Shape<'c>>> {
        let [Clause::Match(found), Clause::Project(behind), ..] = clauses else { return Ok(None) };
        let gives_few = behind.limit.is_some() && behind.order.is_empty();
        if run.writes || found.optional || found.before != 0 || gives_few && behind.groups.is_none()
        {
            return Ok(None);
        }
        let Some(mut shape) = Shape::of_pattern(found) else { return Ok(None) };
        let mut used = Vec::new();
        if !used_slots(behind, &mut used) || !shape.take_conditions(&mut used) {
            return Ok(None);
        }
        for slot in used {
            match shape.slots.iter().position(|node| *node == slot) {
                Some(node) => shape.asked[node] = true,
                None => return Ok(None),
            }
        }
        let fits = shape.is_large(run)? && shape.can_tell_relationships(run);
        Ok(fits.then_some(shape))
    }

    /// Nodes and edges of a pattern; `None` where it has more than these.
    fn of_pattern(found: &'c Match) -> Option<Shape<'c>> {
        let (own, behind) = (Vec::new(), Vec::new());
        let (slots, asked, edges) = (Vec::new(), Vec::new(), Vec::new());
        let mut shape = Shape { found, slots, asked, edges, own, behind };
        for pattern in &found.patterns {
            if pattern.shortest != Shortest::No {
                return None;
            }
            let mut last = shape.node(&pattern.start)?;
            for (step, node) in &pattern.steps {
                let kinds = match &step.types {
                    None => Vec::new(),
                    Some(types) => types_of(types)?,
                };
                if step.length.is_some() || step.properties.is_some() || step.is_bound {
                    return None;
                }
                let next = shape.node(node)?;
                let (from, to) = match step.direction {
                    Direction::Left => (next, last),
                    Direction::Right | Direction::Both => (last, next),
                };
                let is_either = step.direction == Direction::Both;
                shape.edges.push(ShapeEdge { from, to, is_either, kinds, slot: step.slot });
                last = next;
            }
        }
        (!shape.edges.is_empty()).then_some(shape)
    }

    fn node(&mut self, node: &NodePattern) -> Option<usize> {
        if node.is_bound || node.filter.is_some() {
            return None;
        }
        if let Some(known) = self.slots.iter().position(|slot| *slot == node.slot) {
            return Some(known);
        }
        self.slots.push(node.slot);
        self.asked.push(false);
        Some(self.slots.len() - 1)
    }

    /// Takes the conditions of the clause; false where one has a query of its own, or a random
    /// number.
    fn take_conditions(&mut self, used: &mut Vec<usize>) -> bool {
        let mut all = Vec::new();
        if let Some(filter) = &self.found.filter {
            conjuncts(filter, &mut all);
        }
        for condition in all {
            if !is_steady(condition) {
                return false;
            }
            let mut slots = Vec::new();
            visit::slots(condition, &mut |slot| slots.push(slot));
            slots.retain(|slot| *slot < crate::bind::OUT);
            slots.sort_unstable();
            slots.dedup();
            let node = match *slots {
                [slot] => self.slots.iter().position(|node| *node == slot),
                _ => None,
            };
            match node {
                Some(node) => self.own.push((node, condition)),
                None => {
                    used.extend(slots);
                    self.behind.push(condition);
                }
            }
        }
        true
    }

    /// False where the matcher has few nodes to begin at, or an index to find them.
    fn is_large(&self, run: &Run<'_>) -> Result<bool> {
        let mut fewest = u64::MAX;
        for pattern in &self.found.patterns {
            for at in 0..=pattern.steps.len() {
                let node = plan::node_at(pattern, at);
                if plan::indexed(run.graph, node)?.is_some() {
                    return Ok(false);
                }
                let names = node.labels.as_ref().and_then(LabelExpr::conjunction);
                for name in names.unwrap_or_default() {
                    fewest = fewest.min(run.graph.estimate(Some(name))?);
                }
            }
        }
        Ok(fewest == u64::MAX || fewest.saturating_mul(FEW) >= run.graph.estimate(None)?)
    }

    /// True where relationships of the pattern are different exactly if their ends and types are,
    /// counted: all of one type, or of types apart, all with a direction or all without.
    fn can_tell_relationships(&self, run: &Run<'_>) -> bool {
        let pairs = self
            .edges
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.edges[at + 1..].iter().map(move |other| (one, other)));
        let mut pairs = pairs.peekable();
        if pairs.peek().is_some() && !run.graph.has_single_ends() {
            return false;
        }
        pairs.into_iter().all(|(one, other)| {
            let is_same = one.kinds == other.kinds && one.is_either == other.is_either;
            let shares = one.kinds.iter().any(|kind| other.kinds.contains(kind));
            is_same || !(shares || one.kinds.is_empty() || other.kinds.is_empty())
        })
    }
}

/// The names of types by alternatives; `None` of other expressions.
fn types_of(types: &LabelExpr) -> Option<Vec<&str>> {
    match types {
        LabelExpr::Name(name) => Some(vec![name]),
        LabelExpr::Or(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(types_of(part)?);
            }
            all.sort_unstable();
            all.dedup();
            Some(all)
        }
        _ => None,
    }
}

/// The slots read by a projection, counts of elements left out; false where some cannot be told.
fn used_slots(projection: &Projection, used: &mut Vec<usize>) -> bool {
    let Projection { items, order, groups, filter, filters_wide, .. } = projection;
    let mut read: Vec<&Expr> = Vec::new();
    match groups {
        Some(groups) => {
            read.extend(&groups.keys);
            for aggregate in &groups.aggregates {
                // A matched element is never null.
                let counts_all = aggregate.kind == AggregateKind::Count
                    && !aggregate.distinct
                    && matches!(&*aggregate.args, [Expr { kind: Kind::Variable(_), .. }]);
                if !counts_all {
                    read.extend(&aggregate.args);
                }
            }
        }
        None => {
            read.extend(items.iter().map(|item| &item.expr));
            read.extend(order.iter().map(|key| &key.expr));
            read.extend(filter.iter().filter(|_| *filters_wide));
        }
    }
    if groups.is_some() && *filters_wide {
        return false;
    }
    for expr in read {
        if !is_steady(expr) {
            return false;
        }
        visit::slots(expr, &mut |slot| {
            if slot < crate::bind::OUT {
                used.push(slot);
            }
        });
    }
    true
}

/// True of an expression without a query and without `rand()`.
fn is_steady(expr: &Expr) -> bool {
    let is_random = matches!(expr.kind, Kind::Call { function: Function::Plain(Plain::Rand), .. });
    let mut steady = !is_random && !visit::has_subquery(expr);
    visit::children(expr, &mut |child| steady = steady && is_steady(child));
    steady
}

fn conjuncts<'e>(filter: &'e Expr, to: &mut Vec<&'e Expr>) {
    match &filter.kind {
        Kind::Logic(LogicOp::And, operands) => operands.iter().for_each(|one| conjuncts(one, to)),
        _ => to.push(filter),
    }
}

impl Run<'_> {
    /// A search for the matches of a query's first clause, where the join knows the clause and the
    /// graph fits the query's memory.
    ///
    /// # Errors
    /// The graph's, and the end of the query's time.
    pub(super) fn compact<'c>(
        &self,
        clauses: &'c [Clause],
        rows: &[Vec<Value>],
        (out, locals): Outer<'_>,
    ) -> Result<Option<Compact<'c>>> {
        if !matches!(rows, [row] if row.is_empty()) || !out.is_empty() || !locals.is_empty() {
            return Ok(None);
        }
        let Some(shape) = Shape::of(self, clauses)? else { return Ok(None) };
        let before = self.memory.get();
        let snapshots = match self.snapshots(&shape) {
            Ok(snapshots) => snapshots,
            Err(error) if (self.is_over)() => return Err(error),
            // The matcher reads less at a time.
            Err(_) => {
                self.memory.set(before);
                return Ok(None);
            }
        };
        let misses = |snapshot: &Arc<Snapshot>| snapshot.left_out() > 0;
        if self.graph.shows_missing_nodes() && snapshots.iter().any(|(_, it)| misses(it)) {
            return Ok(None);
        }
        let snapshot = Arc::clone(&snapshots[0].1);
        let mut nodes = Vec::new();
        for node in 0..shape.slots.len() {
            match self.candidates(&shape, node, &snapshot) {
                Ok(candidates) => nodes.push(candidates),
                Err(error) if (self.is_over)() => return Err(error),
                // A condition failed on a node: the matcher asks it of matched nodes alone.
                Err(_) => return Ok(None),
            }
        }
        let place = |kinds: &[&str]| snapshots.iter().position(|(known, _)| *known == kinds);
        let edges = shape.edges.iter().map(|edge| multiway::Edge {
            from: edge.from,
            to: edge.to,
            is_either: edge.is_either,
            snapshot: place(&edge.kinds).expect("the types of every edge have their snapshot"),
            class: Some(0),
        });
        let pattern = multiway::Pattern {
            edges: edges.collect(),
            nodes,
            different_nodes: Vec::new(),
            snapshots: snapshots.iter().map(|(_, it)| Arc::clone(it)).collect(),
        };
        let matches = Matches::of(pattern, &shape.asked, self)?;
        Ok(Some(Compact { shape, matches, snapshot }))
    }

    /// A snapshot for the types of each of the pattern's relationships.
    fn snapshots<'c>(&self, shape: &Shape<'c>) -> Result<Vec<(Vec<&'c str>, Arc<Snapshot>)>> {
        let mut snapshots: Vec<(Vec<&str>, Arc<Snapshot>)> = Vec::new();
        for edge in &shape.edges {
            if snapshots.iter().any(|(kinds, _)| *kinds == edge.kinds) {
                continue;
            }
            let direction = crate::algorithms::Direction::Outgoing;
            let selection = Selection { label: None, kinds: &edge.kinds, direction, weight: None };
            let snapshot = KeptSnapshots::find(self.kept, self.graph, &selection, self)?;
            snapshots.push((edge.kinds.clone(), snapshot));
        }
        Ok(snapshots)
    }

    /// The nodes that fit the labels, properties and conditions of a pattern's node.
    fn candidates(
        &self,
        shape: &Shape<'_>,
        node: usize,
        snapshot: &Snapshot,
    ) -> Result<Candidates> {
        let slot = shape.slots[node];
        let patterns = shape.found.patterns.iter();
        let places = patterns
            .flat_map(|pattern| (0..=pattern.steps.len()).map(|at| plan::node_at(pattern, at)));
        let asked: Vec<&NodePattern> = places
            .filter(|it| it.slot == slot && (it.labels.is_some() || it.properties.is_some()))
            .collect();
        let conditions: Vec<&Expr> =
            shape.own.iter().filter(|(of, _)| *of == node).map(|(_, it)| *it).collect();
        if asked.is_empty() && conditions.is_empty() {
            return Ok(Candidates::All);
        }
        // Nodes of one label come without being read.
        let first = asked.first().and_then(|it| it.labels.as_ref());
        let label = first.and_then(LabelExpr::conjunction).and_then(|names| names.first().copied());
        let is_label_alone = matches!(
            &*asked,
            [NodePattern { labels: Some(LabelExpr::Name(_)), properties: None, .. }]
        );
        let mut row = vec![Value::Null; shape.found.after];
        let (mut ids, mut places, mut from) = (Vec::new(), Vec::new(), 0);
        loop {
            let after = ids.last().copied();
            ids.clear();
            self.graph.nodes(label, after, COUNT, &mut ids)?;
            for id in &ids {
                self.tick()?;
                let all = &snapshot.ids()[from..];
                from += all.partition_point(|other| other < id);
                row[slot] = Value::Node(*id);
                let fits = is_label_alone || self.nodes_fit(&asked, *id, &row)?;
                if fits && self.all_hold(&conditions, &row)? {
                    places.push(u32::try_from(from).expect("places have 32 bits"));
                }
            }
            if ids.len() < COUNT {
                return Ok(Candidates::Only(Places::of(places, snapshot.len())));
            }
        }
    }

    fn all_hold(&self, conditions: &[&Expr], row: &[Value]) -> Result<bool> {
        for condition in conditions {
            if !self.holds(condition, &mut Env::of(row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `sink` with a row for each assignment of the nodes asked for, and with the number of
    /// equal rows; false ends the search.
    pub(super) fn compact_rows(
        &self,
        mut compact: Compact<'_>,
        clause: &Clause,
        sink: &mut CountedSink<'_>,
    ) -> Result<bool> {
        let Compact { shape, matches, snapshot } = &mut compact;
        let mut row = vec![Value::Null; shape.found.after];
        // Elements that are counted alone: any will do.
        for slot in &shape.slots {
            row[*slot] = Value::Node(-1);
        }
        for edge in &shape.edges {
            row[edge.slot] = Value::Relationship(-1);
        }
        for path in shape.found.patterns.iter().filter_map(|pattern| pattern.var.as_ref()) {
            row[path.slot] = Value::Boolean(true);
        }
        while let Some(count) = matches.next(self)? {
            for (node, slot) in shape.slots.iter().enumerate() {
                if shape.asked[node] {
                    row[*slot] = Value::Node(snapshot.id(matches.place(node) as usize));
                }
            }
            if !self.all_hold(&shape.behind, &row)? {
                continue;
            }
            self.count(clause, count);
            if !sink(self, &mut row, count)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
