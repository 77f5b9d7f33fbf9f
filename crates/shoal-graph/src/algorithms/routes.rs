//! Paths between two nodes by weight: the cheapest, by A* where nodes have coordinates, and the
//! next cheapest, by Yen's algorithm. Of parallel relationships the cheapest counts.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Snapshot;
use crate::error::Result;
use crate::procedure::Bounds;

/// Nodes from the first to the last, and the sum of the weights between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Route {
    pub(super) nodes: Vec<u32>,
    pub(super) cost: f64,
}

/// The bits of a cost, ordered as costs are: none is negative.
fn bits(cost: f64) -> u64 {
    cost.to_bits()
}

/// The cheapest route, away from `banned` nodes and steps. `left` is never more than the cost of
/// the way from a node to the end; 0 makes the search Dijkstra's. A node is expanded again once a
/// cheaper way to the node is found: estimates need not be consistent.
///
/// # Errors
/// Errors of the bounds and of `left`.
pub(super) fn cheapest(
    snapshot: &Snapshot,
    (start, end): (usize, usize),
    banned: (&FxHashSet<u32>, &FxHashSet<(u32, u32)>),
    left: &mut dyn FnMut(u32) -> Result<f64>,
    bounds: &dyn Bounds,
) -> Result<Option<Route>> {
    let mut costs: FxHashMap<u32, (f64, u32)> = FxHashMap::default();
    let (start, end) = (start as u32, end as u32);
    costs.insert(start, (0.0, start));
    let mut heap = BinaryHeap::from([Reverse((bits(left(start)?), bits(0.0), start))]);
    while let Some(Reverse((_, cost_bits, at))) = heap.pop() {
        bounds.tick()?;
        let cost = f64::from_bits(cost_bits);
        if cost > costs[&at].0 {
            continue;
        }
        if at == end {
            let mut nodes = vec![end];
            let mut at = end;
            while at != start {
                at = costs[&at].1;
                nodes.push(at);
            }
            nodes.reverse();
            return Ok(Some(Route { nodes, cost }));
        }
        for (nth, &other) in snapshot.outgoing(at as usize).iter().enumerate() {
            if banned.0.contains(&other) || banned.1.contains(&(at, other)) {
                continue;
            }
            let through = cost + snapshot.weight(at as usize, nth);
            if costs.get(&other).is_none_or(|&(known, _)| through < known) {
                bounds.keep(72)?;
                costs.insert(other, (through, at));
                heap.push(Reverse((bits(through + left(other)?), bits(through), other)));
            }
        }
    }
    Ok(None)
}

/// Up to `count` cheapest routes without a node twice, the cheapest first.
///
/// # Errors
/// Errors of the bounds.
pub(super) fn several(
    snapshot: &Snapshot,
    (start, end): (usize, usize),
    count: usize,
    bounds: &dyn Bounds,
) -> Result<Vec<Route>> {
    let mut none = |_: u32| Ok(0.0);
    let (no_nodes, no_steps) = (FxHashSet::default(), FxHashSet::default());
    let first = cheapest(snapshot, (start, end), (&no_nodes, &no_steps), &mut none, bounds)?;
    let mut routes: Vec<Route> = Vec::new();
    let mut waiting: BTreeSet<(u64, Vec<u32>)> = BTreeSet::new();
    waiting.extend(first.map(|route| (bits(route.cost), route.nodes)));
    while routes.len() < count {
        let Some((cost, nodes)) = waiting.pop_first() else { break };
        let route = Route { nodes, cost: f64::from_bits(cost) };
        // Each way to leave the route: its beginning stays, and the next step is another.
        let mut before = 0.0;
        for place in 0..route.nodes.len() - 1 {
            let spur = route.nodes[place];
            let beginning = &route.nodes[..=place];
            let mut steps: FxHashSet<(u32, u32)> = FxHashSet::default();
            for known in routes.iter().chain([&route]) {
                if known.nodes.len() > place + 1 && known.nodes[..=place] == *beginning {
                    steps.insert((spur, known.nodes[place + 1]));
                }
            }
            let banned: FxHashSet<u32> = route.nodes[..place].iter().copied().collect();
            let ends = (spur as usize, end);
            if let Some(rest) = cheapest(snapshot, ends, (&banned, &steps), &mut none, bounds)? {
                let mut nodes = route.nodes[..place].to_vec();
                nodes.extend(&rest.nodes);
                bounds.keep(48 + 4 * nodes.len())?;
                waiting.insert((bits(before + rest.cost), nodes));
            }
            before += snapshot.step(spur as usize, route.nodes[place + 1]);
        }
        routes.push(route);
    }
    Ok(routes)
}
