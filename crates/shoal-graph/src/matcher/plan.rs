//! The order in which a pattern's elements are found, and when each condition is asked.

use crate::ast::*;
use crate::bind::{OUT, visit};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// The most elements of one `MATCH`: each is a level of the matcher's stack.
const ELEMENTS_MAX: usize = 1000;

/// One step of a match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Tries the candidates of a place.
    Scan { pattern: usize, node: usize },
    /// Checks a node of the row.
    Check { pattern: usize, node: usize },
    /// Follows a relationship from one of its ends; `forward` from the left one.
    Expand { pattern: usize, step: usize, forward: bool },
    /// Searches shortest paths between two nodes that the row has.
    Shortest { pattern: usize },
    /// Puts the elements of a path together.
    Path { pattern: usize },
    /// Asks a condition.
    Filter { condition: usize },
}

/// Steps of a match and its conditions.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) conditions: Vec<Expr>,
}

/// The node in a place of a path: 0 is the first.
pub(crate) fn node_at(pattern: &PathPattern, node: usize) -> &NodePattern {
    match node {
        0 => &pattern.start,
        node => &pattern.steps[node - 1].1,
    }
}

struct Planner<'p> {
    graph: &'p dyn Graph,
    found: &'p Match,
    known: Vec<bool>,
    steps: Vec<Step>,
    conditions: Vec<(Expr, Vec<usize>, bool)>,
}

/// Plans a match: the most selective node first, then along relationships, cheapest first.
pub(crate) fn plan(found: &Match, graph: &dyn Graph) -> Result<Plan> {
    let elements: usize = found.patterns.iter().map(|pattern| pattern.steps.len() + 1).sum();
    if elements > ELEMENTS_MAX {
        let message = format!("a MATCH has at most {ELEMENTS_MAX} nodes");
        return Err(Error::limit(message).at(found.pos.at()));
    }
    let mut known = vec![false; found.after];
    known[..found.before].fill(true);
    let mut conditions = Vec::new();
    if let Some(filter) = &found.filter {
        conjuncts(filter, &mut conditions);
    }
    let conditions = conditions
        .into_iter()
        .map(|condition| {
            let mut slots = Vec::new();
            visit::slots(&condition, &mut |slot| slots.push(slot));
            let waits = visit::has_subquery(&condition);
            (condition, slots, waits)
        })
        .collect();
    let mut planner = Planner { graph, found, known, steps: Vec::new(), conditions };
    planner.order()?;
    let mut steps = planner.steps;
    let mut asked: Vec<Expr> = Vec::new();
    // Conditions were numbered by their place in the list that they were taken from.
    for step in &mut steps {
        if let Step::Filter { condition } = step {
            asked.push(planner.conditions[*condition].0.clone());
            *condition = asked.len() - 1;
        }
    }
    Ok(Plan { steps, conditions: asked })
}

fn conjuncts(filter: &Expr, to: &mut Vec<Expr>) {
    match &filter.kind {
        Kind::Logic(LogicOp::And, operands) => operands.iter().for_each(|one| conjuncts(one, to)),
        _ => to.push(filter.clone()),
    }
}

impl Planner<'_> {
    fn is_known(&self, slot: usize) -> bool {
        slot >= OUT || self.known[slot]
    }

    fn order(&mut self) -> Result<()> {
        let mut pending: Vec<(usize, usize)> = Vec::new();
        let mut nodes: Vec<(usize, usize)> = Vec::new();
        let mut asked = vec![false; self.conditions.len()];
        self.filters(&mut asked, false);
        let found = self.found;
        for (at, pattern) in found.patterns.iter().enumerate() {
            for node in 0..=pattern.steps.len() {
                match self.is_known(node_at(pattern, node).slot) {
                    true => self.steps.push(Step::Check { pattern: at, node }),
                    false => nodes.push((at, node)),
                }
            }
            pending.extend((0..pattern.steps.len()).map(|step| (at, step)));
        }
        loop {
            self.filters(&mut asked, false);
            if let Some(next) = self.next_relationship(&pending)? {
                let (pattern, step) = pending.remove(next);
                self.add_relationship(pattern, step);
                continue;
            }
            // A variable may stand in several places: each place has labels of its own to check.
            for (pattern, node) in std::mem::take(&mut nodes) {
                match self.is_known(node_at(&found.patterns[pattern], node).slot) {
                    true => self.steps.push(Step::Check { pattern, node }),
                    false => nodes.push((pattern, node)),
                }
            }
            let mut best: Option<(u64, usize)> = None;
            for (at, &(pattern, node)) in nodes.iter().enumerate() {
                let cost = self.scan_cost(node_at(&found.patterns[pattern], node))?;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, at));
                }
            }
            let Some((_, at)) = best else { break };
            let (pattern, node) = nodes.remove(at);
            self.known[node_at(&found.patterns[pattern], node).slot] = true;
            self.steps.push(Step::Scan { pattern, node });
        }
        for (at, pattern) in found.patterns.iter().enumerate() {
            if let Some(var) = &pattern.var {
                self.steps.push(Step::Path { pattern: at });
                self.known[var.slot] = true;
            }
        }
        self.filters(&mut asked, true);
        Ok(())
    }

    /// Adds the conditions whose variables are all known.
    fn filters(&mut self, asked: &mut [bool], is_last: bool) {
        for (at, asked) in asked.iter_mut().enumerate() {
            let (_, slots, waits) = &self.conditions[at];
            let is_ready = is_last || (!waits && slots.iter().all(|&slot| self.is_known(slot)));
            if !*asked && is_ready {
                *asked = true;
                self.steps.push(Step::Filter { condition: at });
            }
        }
    }

    /// The cheapest relationship with a known end, by its place among those pending.
    fn next_relationship(&self, pending: &[(usize, usize)]) -> Result<Option<usize>> {
        let mut best: Option<(u64, usize)> = None;
        for (at, &(pattern, step)) in pending.iter().enumerate() {
            let path = &self.found.patterns[pattern];
            let (left, right) = (node_at(path, step), node_at(path, step + 1));
            let is_shortest = path.shortest != Shortest::No;
            let cost = match (self.is_known(left.slot), self.is_known(right.slot)) {
                (false, false) => continue,
                (true, true) => 0,
                _ if is_shortest => continue,
                (is_left, _) => {
                    let other = if is_left { right } else { left };
                    let is_variable = path.steps[step].0.length.is_some();
                    1 + self.scan_cost(other)?.min(1 << 32) + u64::from(is_variable) * (1 << 33)
                }
            };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, at));
            }
        }
        Ok(best.map(|(_, at)| at))
    }

    fn add_relationship(&mut self, pattern: usize, step: usize) {
        let path = &self.found.patterns[pattern];
        if path.shortest != Shortest::No {
            self.steps.push(Step::Shortest { pattern });
        } else {
            let forward = self.is_known(node_at(path, step).slot);
            self.steps.push(Step::Expand { pattern, step, forward });
        }
        for slot in
            [node_at(path, step).slot, node_at(path, step + 1).slot, path.steps[step].0.slot]
        {
            if slot < OUT {
                self.known[slot] = true;
            }
        }
    }

    /// The number of a place's candidates.
    fn scan_cost(&self, node: &NodePattern) -> Result<u64> {
        let names = node.labels.as_ref().and_then(LabelExpr::conjunction).unwrap_or_default();
        let mut cost = match names.is_empty() {
            true => self.graph.estimate(None)?,
            false => {
                let mut least = u64::MAX;
                for name in &names {
                    least = least.min(self.graph.estimate(Some(name))?);
                }
                least
            }
        };
        if indexed(self.graph, node)?.is_some() {
            return Ok(1);
        }
        if let Some(Expr { kind: Kind::Map(fields), .. }) = &node.properties
            && !fields.is_empty()
        {
            cost = cost / 10 + 1;
        }
        Ok(cost)
    }
}

/// The property of a node's pattern with an index to begin by.
///
/// # Errors
/// The graph's.
pub(crate) fn indexed<'p>(graph: &dyn Graph, node: &'p NodePattern) -> Result<Option<&'p str>> {
    let names = node.labels.as_ref().and_then(LabelExpr::conjunction).unwrap_or_default();
    if let Some(Expr { kind: Kind::Map(fields), .. }) = &node.properties {
        for (key, _) in fields {
            if graph.has_index(names.first().copied(), key)? {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

/// A plan as lines for `EXPLAIN`.
///
/// # Errors
/// The graph's.
pub(crate) fn describe(found: &Match, plan: &Plan, graph: &dyn Graph) -> Result<Vec<String>> {
    let node_text = |pattern: usize, node: usize| {
        let node = node_at(&found.patterns[pattern], node);
        let name = node.var.as_ref().map_or("", |var| &var.name);
        let labels =
            node.labels.as_ref().map_or(String::new(), |labels| format!(":{}", label_text(labels)));
        format!("({name}{labels})")
    };
    let line = |step: &Step| {
        Ok(match step {
            Step::Scan { pattern, node } => {
                let start = node_at(&found.patterns[*pattern], *node);
                let how = match indexed(graph, start)? {
                    Some(key) => format!("nodes by index on {key}"),
                    None if start.labels.is_some() => "nodes by label".to_owned(),
                    None => "all nodes".to_owned(),
                };
                format!("{how} {}", node_text(*pattern, *node))
            }
            Step::Check { pattern, node } => format!("check {}", node_text(*pattern, *node)),
            Step::Expand { pattern, step, forward } => {
                let relationship = &found.patterns[*pattern].steps[*step].0;
                let (from, to) = if *forward { (*step, *step + 1) } else { (*step + 1, *step) };
                let how = if relationship.length.is_some() {
                    "expand, variable length,"
                } else {
                    "expand"
                };
                let kinds = relationship.types.as_ref().map_or(String::new(), label_text);
                let (left, right) = match (relationship.direction, *forward) {
                    (Direction::Right, true) | (Direction::Left, false) => ("-", "->"),
                    (Direction::Both, _) => ("-", "-"),
                    _ => ("<-", "-"),
                };
                format!(
                    "{how} {}{left}[:{kinds}]{right}{}",
                    node_text(*pattern, from),
                    node_text(*pattern, to)
                )
            }
            Step::Shortest { pattern } => {
                format!("shortest path {} to {}", node_text(*pattern, 0), node_text(*pattern, 1))
            }
            Step::Path { .. } => "path".to_owned(),
            Step::Filter { .. } => "filter".to_owned(),
        })
    };
    plan.steps.iter().map(line).collect()
}

fn label_text(labels: &LabelExpr) -> String {
    let join =
        |all: &[LabelExpr], sign: &str| all.iter().map(label_text).collect::<Vec<_>>().join(sign);
    match labels {
        LabelExpr::Name(name) => name.clone(),
        LabelExpr::Any => "%".to_owned(),
        LabelExpr::Not(inner) => format!("!{}", label_text(inner)),
        LabelExpr::And(all) => join(all, "&"),
        LabelExpr::Or(all) => join(all, "|"),
    }
}
