//! Traversal: nodes around a start, breadth first, under a policy, and a word on nodes left out.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::graph::{Edge, Graph, NodeData, Side};
use crate::json;
use crate::procedure::Bounds;
use crate::value::{Map, Value};

/// The way and the ends of a traversal. The default follows outgoing relationships to every node.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// True follows relationships from source to target; true as well where neither way is asked.
    pub outgoing: bool,
    /// True follows relationships from target to source.
    pub incoming: bool,
    /// Steps from the start at most.
    pub depth: Option<u32>,
    /// Nodes newly found from one node at most.
    pub fan_out: Option<usize>,
    /// Types of relationships followed; empty for all.
    pub types: Vec<String>,
    /// Properties of relationships followed, equal to these values.
    pub edges: Map,
    /// Labels of nodes shown; empty for all. The walk goes through the others.
    pub labels: Vec<String>,
    /// Properties of nodes shown, equal to these values. The walk goes through the others.
    pub shown: Map,
    /// The property with a relationship's weight, 1 by default, and the least weight followed.
    pub least_weight: Option<(String, f64)>,
    /// The walk ends once this node is found.
    pub stop_at: Option<i64>,
    /// Nodes shown at most.
    pub nodes: Option<usize>,
    /// Tokens of the nodes shown at most; the first is shown in any case.
    pub tokens: Option<u64>,
    /// The property with a node's tokens. A node without the property has a quarter of the
    /// characters of its properties as JSON, and at least 1.
    pub token_property: String,
}

/// A reason for nodes left out of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partial {
    /// There are nodes more steps away.
    Depth,
    /// A node has more neighbours.
    FanOut,
    /// There are more nodes to be shown.
    Nodes,
    /// The next node would exceed the tokens.
    Tokens,
    /// The time was over.
    Time,
    /// The walk ended at the node asked for.
    StoppedAt,
}

impl Partial {
    /// The policy's word for the reason.
    pub fn word(self) -> &'static str {
        match self {
            Partial::Depth => "depth",
            Partial::FanOut => "fan_out",
            Partial::Nodes => "nodes",
            Partial::Tokens => "tokens",
            Partial::Time => "time_ms",
            Partial::StoppedAt => "stop_at",
        }
    }
}

/// A node of a traversal.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The node's id.
    pub node: i64,
    /// Steps from the start.
    pub depth: u32,
    /// The node before and the relationship between both; `None` of the start.
    pub before: Option<(i64, i64)>,
    /// Labels and properties.
    pub data: Arc<NodeData>,
    /// The node's tokens.
    pub tokens: u64,
}

/// Nodes in the order of their steps from the start.
#[derive(Clone, Debug, Default)]
pub struct Traversal {
    /// The nodes shown.
    pub visits: Vec<Visit>,
    /// Why nodes are missing, each reason once; empty where none is.
    pub partial: Vec<Partial>,
    /// Relationships whose node is not there.
    pub dangling: u64,
    /// The step to each node found, shown or not.
    steps: FxHashMap<i64, Option<(i64, i64)>>,
}

impl Traversal {
    /// Ids of the nodes from the start to a node of the traversal.
    pub fn path(&self, node: i64) -> Vec<i64> {
        let mut path = vec![node];
        let mut at = node;
        while let Some(Some((before, _))) = self.steps.get(&at) {
            path.push(*before);
            at = *before;
        }
        path.reverse();
        path
    }

    /// The reasons as words of the policy, separated by commas; `None` where nothing is missing.
    pub fn partial_words(&self) -> Option<String> {
        let words: Vec<&str> = self.partial.iter().map(|reason| reason.word()).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    /// The nodes as text, a line of JSON each, and the tokens of all: labels, steps from the start,
    /// the type of the last relationship, properties.
    ///
    /// # Errors
    /// The graph's.
    pub fn context(&self, graph: &dyn Graph) -> Result<(String, u64)> {
        let (mut text, mut tokens) = (String::new(), 0_u64);
        for visit in &self.visits {
            if !text.is_empty() {
                text.push('\n');
            }
            let labels = Value::List(visit.data.labels.iter().map(|it| Value::text(it)).collect());
            let _ = write!(text, "{{\"labels\":{},\"depth\":{}", labels.to_json(), visit.depth);
            if let Some((_, edge)) = visit.before
                && let Some(edge) = graph.relationship(edge)?
            {
                text.push_str(",\"by\":");
                json::write_text(&edge.kind, &mut text);
            }
            let _ = write!(text, ",\"properties\":{}}}", json::write(&visit.data.properties));
            tokens = tokens.saturating_add(visit.tokens);
        }
        Ok((text, tokens))
    }
}

/// Nodes taken from the queue between two looks at the time.
const STRIDE: usize = 64;

/// Memory of a node found, beside its properties.
const NODE_BYTES: usize = 160;

/// Walks from a node, breadth first; without the node nothing is found. `is_late` ends the walk
/// early: the nodes found so far are kept.
///
/// # Errors
/// Errors of the graph and of the bounds.
pub fn traverse(
    graph: &dyn Graph,
    start: i64,
    policy: &Policy,
    is_late: &dyn Fn() -> bool,
    bounds: &dyn Bounds,
) -> Result<Traversal> {
    let mut walk = Walk { graph, policy, bounds, found: Traversal::default(), tokens: 0 };
    let Some(data) = graph.node(start)? else { return Ok(walk.found) };
    let mut queue = VecDeque::new();
    let mut is_open = walk.take(start, 0, None, data)?;
    queue.push_back((start, 0));
    if policy.stop_at == Some(start) {
        walk.leaves_out(Partial::StoppedAt);
        is_open = false;
    }
    let mut taken = 0_usize;
    let kinds: Vec<&str> = policy.types.iter().map(String::as_str).collect();
    let mut edges = Vec::new();
    while is_open && let Some((at, depth)) = queue.pop_front() {
        bounds.tick()?;
        taken += 1;
        if taken.is_multiple_of(STRIDE) && is_late() {
            walk.leaves_out(Partial::Time);
            break;
        }
        edges.clear();
        if policy.outgoing || !policy.incoming {
            graph.edges(at, Side::Outgoing, &kinds, &mut edges)?;
        }
        if policy.incoming {
            graph.edges(at, Side::Incoming, &kinds, &mut edges)?;
        }
        let mut new = 0;
        for edge in &edges {
            bounds.tick()?;
            if walk.found.steps.contains_key(&edge.other) || !walk.follows(edge)? {
                continue;
            }
            let Some(data) = graph.node(edge.other)? else {
                walk.found.dangling += 1;
                continue;
            };
            if policy.depth.is_some_and(|most| depth >= most) {
                walk.leaves_out(Partial::Depth);
                break;
            }
            if policy.fan_out.is_some_and(|most| new >= most) {
                walk.leaves_out(Partial::FanOut);
                break;
            }
            new += 1;
            is_open = walk.take(edge.other, depth + 1, Some((at, edge.id)), data)?;
            queue.push_back((edge.other, depth + 1));
            if is_open && policy.stop_at == Some(edge.other) {
                walk.leaves_out(Partial::StoppedAt);
                is_open = false;
            }
            if !is_open {
                break;
            }
        }
    }
    Ok(walk.found)
}

struct Walk<'w> {
    graph: &'w dyn Graph,
    policy: &'w Policy,
    bounds: &'w dyn Bounds,
    found: Traversal,
    tokens: u64,
}

impl Walk<'_> {
    fn leaves_out(&mut self, reason: Partial) {
        if let Err(place) = self.found.partial.binary_search(&reason) {
            self.found.partial.insert(place, reason);
        }
    }

    fn follows(&self, edge: &Edge) -> Result<bool> {
        let Policy { edges, least_weight, .. } = self.policy;
        if edges.is_empty() && least_weight.is_none() {
            return Ok(true);
        }
        let Some(data) = self.graph.relationship(edge.id)? else { return Ok(false) };
        if !has_all(&data.properties, edges) {
            return Ok(false);
        }
        let Some((key, least)) = least_weight else { return Ok(true) };
        Ok(match data.properties.get(&**key) {
            Some(Value::Integer(number)) => *number as f64 >= *least,
            Some(Value::Float(number)) => number >= least,
            _ => 1.0 >= *least,
        })
    }

    /// Takes a node found, shown if the policy says so; false ends the walk.
    fn take(
        &mut self,
        node: i64,
        depth: u32,
        before: Option<(i64, i64)>,
        data: Arc<NodeData>,
    ) -> Result<bool> {
        let Policy { labels, shown, nodes, tokens, .. } = self.policy;
        self.bounds.keep(NODE_BYTES)?;
        let has_label = labels.is_empty()
            || data.labels.iter().any(|it| labels.iter().any(|has| **has == **it));
        if has_label && has_all(&data.properties, shown) {
            if nodes.is_some_and(|most| self.found.visits.len() >= most) {
                self.leaves_out(Partial::Nodes);
                return Ok(false);
            }
            let own = tokens_of(&data.properties, &self.policy.token_property);
            let is_first = self.found.visits.is_empty();
            if tokens.is_some_and(|most| self.tokens.saturating_add(own) > most) && !is_first {
                self.leaves_out(Partial::Tokens);
                return Ok(false);
            }
            self.tokens = self.tokens.saturating_add(own);
            self.found.visits.push(Visit { node, depth, before, data, tokens: own });
        }
        self.found.steps.insert(node, before);
        Ok(true)
    }
}

/// True where a map has each of some properties with an equal value.
fn has_all(properties: &Map, wanted: &Map) -> bool {
    wanted.iter().all(|(key, value)| {
        let found = properties.get(key).unwrap_or(&Value::Null);
        found.equals(value) == Some(true)
    })
}

fn tokens_of(properties: &Map, key: &str) -> u64 {
    match properties.get(key) {
        Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
        _ => (json::write(properties).chars().count() as u64 / 4).max(1),
    }
}
