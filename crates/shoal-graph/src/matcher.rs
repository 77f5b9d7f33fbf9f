//! The matcher: rows of a pattern, one at a time, in the order of a plan.
//!
//! A row is filled in place, step by step; when a step has no more candidates, the step before
//! tries its next. Within one `MATCH` no relationship is used twice.

pub(crate) mod plan;
mod shortest;
mod variable;

use std::sync::Arc;

use crate::ast::*;
use crate::error::{Error, Result};
use crate::graph::{Edge, Side};
use crate::run::{Env, Run};
use crate::value::{Path, Value};
use plan::{Plan, Step, node_at};

/// Ids asked for at once while nodes are scanned.
const SCAN_COUNT: usize = 1024;

/// The taker of a match's rows: false ends the match.
pub(crate) type Sink<'s> = dyn FnMut(&Run<'_>, &mut Vec<Value>) -> Result<bool> + 's;

/// One match under way.
pub(crate) struct Matcher<'m> {
    pub(crate) run: &'m Run<'m>,
    found: &'m Match,
    plan: &'m Plan,
    out: &'m [Value],
    locals: &'m [Value],
    /// Relationships of the row under way.
    used: Vec<i64>,
    /// Buffers for relationships of nodes, kept from one expansion to the next.
    buffers: Vec<Vec<Edge>>,
}

impl Run<'_> {
    /// Calls `sink` with each row that the pattern adds to `row`, which has the width before it.
    pub(crate) fn match_rows(
        &self,
        found: &Match,
        plan: &Plan,
        row: &mut Vec<Value>,
        outer: (&[Value], &[Value]),
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        row.resize(found.after, Value::Null);
        let (out, locals) = outer;
        let mut matcher =
            Matcher { run: self, found, plan, out, locals, used: Vec::new(), buffers: Vec::new() };
        let result = matcher.step(0, row, sink);
        row.truncate(found.before);
        result
    }

    /// The plan of a match of the query's tree, made once.
    pub(crate) fn plan_of(&self, found: &Match) -> Result<Arc<Plan>> {
        // The tree outlives the run, so that an address names one match.
        let key = std::ptr::from_ref(found).addr();
        if let Some(plan) = self.plans.borrow().get(&key) {
            return Ok(plan.clone());
        }
        let made = Arc::new(plan::plan(found, self.graph)?);
        self.plans.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    /// True of a node with the labels and properties of all patterns.
    pub(crate) fn nodes_fit(
        &self,
        patterns: &[&NodePattern],
        id: i64,
        row: &[Value],
    ) -> Result<bool> {
        for pattern in patterns {
            if !self.node_fits(pattern, id, &mut Env::of(row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn node_fits(&self, pattern: &NodePattern, id: i64, env: &mut Env<'_>) -> Result<bool> {
        if pattern.labels.is_none() && pattern.properties.is_none() {
            return Ok(true);
        }
        let Some(node) = self.graph.node(id)? else { return Ok(false) };
        if let Some(labels) = &pattern.labels {
            let has = |name: &str| node.labels.iter().any(|label| &**label == name);
            if !labels.holds(&has, !node.labels.is_empty()) {
                return Ok(false);
            }
        }
        self.properties_fit(&pattern.properties, &node.properties, env)
    }

    fn properties_fit(
        &self,
        wanted: &Option<Expr>,
        found: &crate::value::Map,
        env: &mut Env<'_>,
    ) -> Result<bool> {
        let Some(Expr { kind: Kind::Map(fields), .. }) = wanted else { return Ok(true) };
        for (key, value) in fields {
            let Some(found) = found.get(key.as_str()) else { return Ok(false) };
            if found.equals(&self.eval(value, env)?) != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The path of a pattern whose elements a row has.
    pub(crate) fn path_of(&self, pattern: &PathPattern, row: &[Value]) -> Result<Value> {
        let Value::Node(start) = row_get(row, pattern.start.slot) else { return Ok(Value::Null) };
        let mut path = Path { nodes: vec![*start], relationships: Vec::new() };
        for (relationship, _) in &pattern.steps {
            match row_get(row, relationship.slot) {
                Value::Relationship(id) => self.extend(&mut path, *id)?,
                Value::List(list) => {
                    for one in list.iter() {
                        let Value::Relationship(id) = one else { return Ok(Value::Null) };
                        self.extend(&mut path, *id)?;
                    }
                }
                _ => return Ok(Value::Null),
            }
        }
        Ok(Value::Path(Arc::new(path)))
    }

    fn extend(&self, path: &mut Path, id: i64) -> Result<()> {
        let found = self.relationship(id)?;
        let last = *path.nodes.last().expect("a path has a node");
        path.nodes.push(if found.source == last { found.target } else { found.source });
        path.relationships.push(id);
        Ok(())
    }
}

fn row_get(row: &[Value], slot: usize) -> &Value {
    row.get(slot).unwrap_or(&Value::Null)
}

impl Matcher<'_> {
    fn env<'r>(&'r self, row: &'r [Value]) -> Env<'r> {
        Env { row, out: self.out, locals: self.locals.to_vec() }
    }

    fn get(&self, row: &[Value], slot: usize) -> Value {
        if slot < crate::bind::OUT { row[slot].clone() } else { self.env(row).get(slot).clone() }
    }

    fn step(&mut self, at: usize, row: &mut Vec<Value>, sink: &mut Sink<'_>) -> Result<bool> {
        let Some(step) = self.plan.steps.get(at) else { return sink(self.run, row) };
        let patterns = &self.found.patterns;
        match step {
            Step::Filter { condition } => {
                let condition = &self.plan.conditions[*condition];
                let holds = self.run.holds(condition, &mut self.env(row))?;
                if holds { self.step(at + 1, row, sink) } else { Ok(true) }
            }
            Step::Path { pattern } => {
                let pattern = &patterns[*pattern];
                let path = match pattern.start.slot < crate::bind::OUT {
                    true => self.run.path_of(pattern, row)?,
                    false => self.outer_path(pattern, row)?,
                };
                row[pattern.var.as_ref().expect("a path with a name").slot] = path;
                self.step(at + 1, row, sink)
            }
            Step::Check { pattern, node } => {
                let node = node_at(&patterns[*pattern], *node);
                match self.get(row, node.slot) {
                    Value::Node(id) if self.node_fits(node, id, row)? => {
                        self.step(at + 1, row, sink)
                    }
                    Value::Node(_) | Value::Null => Ok(true),
                    other => Err(wrong_element("a node", &other)),
                }
            }
            Step::Scan { pattern, node } => {
                self.scan(at, node_at(&patterns[*pattern], *node), row, sink)
            }
            Step::Expand { pattern, step, forward } => {
                let pattern = &patterns[*pattern];
                let relationship = &pattern.steps[*step].0;
                match relationship.length {
                    None => self.expand(at, pattern, *step, *forward, row, sink),
                    Some(length) => {
                        self.expand_variable(at, pattern, *step, *forward, length, row, sink)
                    }
                }
            }
            Step::Shortest { pattern } => self.shortest(at, &patterns[*pattern], row, sink),
        }
    }

    /// A path that begins at a node of a row around the pattern's.
    fn outer_path(&self, pattern: &PathPattern, row: &[Value]) -> Result<Value> {
        let start = self.get(row, pattern.start.slot);
        let mut moved = pattern.clone();
        let mut wide = row.to_vec();
        moved.start.slot = wide.len();
        wide.push(start);
        self.run.path_of(&moved, &wide)
    }

    fn scan(
        &mut self,
        at: usize,
        node: &NodePattern,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let names = node.labels.as_ref().and_then(LabelExpr::conjunction).unwrap_or_default();
        let label = names.first().copied();
        if let Some(Expr { kind: Kind::Map(fields), .. }) = &node.properties {
            for (key, value) in fields {
                if !self.run.graph.has_index(label, key)? {
                    continue;
                }
                let value = self.run.eval(value, &mut self.env(row))?;
                let mut ids = Vec::new();
                if self.run.graph.nodes_with(label, key, &value, &mut ids)? {
                    return self.try_nodes(at, node, &ids, row, sink);
                }
            }
        }
        let mut ids = Vec::with_capacity(64);
        let mut after = None;
        loop {
            ids.clear();
            self.run.graph.nodes(label, after, SCAN_COUNT, &mut ids)?;
            if !self.try_nodes(at, node, &ids, row, sink)? {
                return Ok(false);
            }
            if ids.len() < SCAN_COUNT {
                return Ok(true);
            }
            after = ids.last().copied();
        }
    }

    fn try_nodes(
        &mut self,
        at: usize,
        node: &NodePattern,
        ids: &[i64],
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        for &id in ids {
            self.run.tick()?;
            if self.node_fits(node, id, row)? {
                row[node.slot] = Value::Node(id);
                if !self.step(at + 1, row, sink)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// True of a node with the pattern's labels and properties.
    fn node_fits(&self, pattern: &NodePattern, id: i64, row: &[Value]) -> Result<bool> {
        self.run.node_fits(pattern, id, &mut self.env(row))
    }

    fn properties_fit(
        &self,
        wanted: &Option<Expr>,
        found: &crate::value::Map,
        row: &[Value],
    ) -> Result<bool> {
        self.run.properties_fit(wanted, found, &mut self.env(row))
    }

    /// True of a relationship with the pattern's type and properties; its type was asked of the
    /// graph already where the pattern lists types.
    fn relationship_fits(
        &self,
        pattern: &RelPattern,
        id: i64,
        is_kind_known: bool,
        row: &[Value],
    ) -> Result<bool> {
        let checks_kind = pattern.types.is_some() && !is_kind_known;
        if !checks_kind && pattern.properties.is_none() {
            return Ok(true);
        }
        let Some(found) = self.run.graph.relationship(id)? else { return Ok(false) };
        if let Some(types) = &pattern.types
            && !types.holds(&|name| &*found.kind == name, true)
        {
            return Ok(false);
        }
        self.properties_fit(&pattern.properties, &found.properties, row)
    }

    /// The relationships of a node in the pattern's direction, seen from one end of it.
    fn edges(
        &self,
        pattern: &RelPattern,
        node: i64,
        forward: bool,
        to: &mut Vec<Edge>,
    ) -> Result<bool> {
        let names = pattern.types.as_ref().map(LabelExpr::disjunction);
        let is_kind_known = !matches!(names, Some(None));
        let names = names.flatten().unwrap_or_default();
        let (outgoing, incoming) = match (pattern.direction, forward) {
            (Direction::Both, _) => (true, true),
            (Direction::Right, true) | (Direction::Left, false) => (true, false),
            _ => (false, true),
        };
        if outgoing {
            self.run.graph.edges(node, Side::Outgoing, &names, to)?;
        }
        if incoming {
            let start = to.len();
            self.run.graph.edges(node, Side::Incoming, &names, to)?;
            if outgoing {
                // A loop was seen on its way out.
                let mut kept = start;
                for at in start..to.len() {
                    if to[at].other != node {
                        to[kept] = to[at];
                        kept += 1;
                    }
                }
                to.truncate(kept);
            }
        }
        Ok(is_kind_known)
    }

    fn expand(
        &mut self,
        at: usize,
        path: &PathPattern,
        step: usize,
        forward: bool,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let relationship = &path.steps[step].0;
        let (from, to) = if forward { (step, step + 1) } else { (step + 1, step) };
        let (from, to) = (node_at(path, from), node_at(path, to));
        let Value::Node(from_id) = self.get(row, from.slot) else { return Ok(true) };
        if relationship.is_bound {
            return self.expand_bound(at, relationship, from_id, to, forward, row, sink);
        }
        let target = self.known_target(at, to, row);
        let mut edges = self.buffers.pop().unwrap_or_default();
        edges.clear();
        let is_kind_known = self.edges(relationship, from_id, forward, &mut edges)?;
        let mut goes_on = true;
        for &edge in &edges {
            self.run.tick()?;
            if target.is_some_and(|target| target != edge.other)
                || self.used.contains(&edge.id)
                || !self.relationship_fits(relationship, edge.id, is_kind_known, row)?
                || (target.is_none() && !self.node_fits(to, edge.other, row)?)
            {
                continue;
            }
            row[relationship.slot] = Value::Relationship(edge.id);
            if target.is_none() {
                row[to.slot] = Value::Node(edge.other);
            }
            self.used.push(edge.id);
            goes_on = self.step(at + 1, row, sink)?;
            self.used.pop();
            if !goes_on {
                break;
            }
        }
        self.buffers.push(edges);
        Ok(goes_on)
    }

    /// The id that the far end of an expansion has to have, where an earlier step gave it.
    fn known_target(&self, at: usize, to: &NodePattern, row: &[Value]) -> Option<i64> {
        let is_known = to.slot >= self.found.after
            || to.slot < self.found.before
            || self.plan.steps[..at].iter().any(|step| self.gives(step, to.slot));
        match is_known {
            true => match self.get(row, to.slot) {
                Value::Node(id) => Some(id),
                // No node has this id: a null matches nothing.
                _ => Some(i64::MIN),
            },
            false => None,
        }
    }

    /// True of a step after which a slot has its value.
    fn gives(&self, step: &Step, slot: usize) -> bool {
        let patterns = &self.found.patterns;
        match step {
            Step::Scan { pattern, node } => node_at(&patterns[*pattern], *node).slot == slot,
            Step::Expand { pattern, step, .. } => {
                let path = &patterns[*pattern];
                node_at(path, *step).slot == slot || node_at(path, step + 1).slot == slot
            }
            _ => false,
        }
    }

    /// Follows a relationship that the row has from one of its ends.
    #[expect(clippy::too_many_arguments, reason = "the state of one step")]
    fn expand_bound(
        &mut self,
        at: usize,
        pattern: &RelPattern,
        from: i64,
        to: &NodePattern,
        forward: bool,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let id = match self.get(row, pattern.slot) {
            Value::Relationship(id) => id,
            Value::Null => return Ok(true),
            other => return Err(wrong_element("a relationship", &other)),
        };
        let found = self.run.relationship(id)?;
        let leaves = found.source == from;
        let fits_direction = match (pattern.direction, forward) {
            (Direction::Both, _) => leaves || found.target == from,
            (Direction::Right, true) | (Direction::Left, false) => leaves,
            _ => found.target == from,
        };
        let takes_source = match (pattern.direction, forward) {
            (Direction::Both, _) => !leaves,
            (Direction::Right, true) | (Direction::Left, false) => false,
            _ => true,
        };
        let other = if takes_source { found.source } else { found.target };
        let target = self.known_target(at, to, row);
        if !fits_direction
            || self.used.contains(&id)
            || target.is_some_and(|target| target != other)
            || !self.relationship_fits(pattern, id, false, row)?
            || !self.node_fits(to, other, row)?
        {
            return Ok(true);
        }
        if target.is_none() {
            row[to.slot] = Value::Node(other);
        }
        self.used.push(id);
        let result = self.step(at + 1, row, sink);
        self.used.pop();
        result
    }
}

fn wrong_element(wanted: &str, found: &Value) -> Error {
    Error::runtime(
        crate::error::ErrorClass::TypeError,
        "InvalidArgumentType",
        format!("a pattern wants {wanted}, not {}", found.type_name()),
    )
}
