//! Paths between two nodes by weight: the cheapest, by A* where nodes have coordinates, and the
//! next cheapest, by Yen's algorithm. Of parallel relationships the cheapest counts.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Marks, Snapshot};
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

/// The route with the fewest steps, and how many nodes were found on the way: level by level from
/// both ends, always from the end with fewer relationships ahead. The first node found from both
/// ends is on a shortest route, for one of the two has it on its last level.
///
/// # Errors
/// Errors of the bounds.
pub(super) fn shortest(
    snapshot: &Snapshot,
    (start, end): (usize, usize),
    bounds: &dyn Bounds,
) -> Result<Option<(Route, usize)>> {
    let (start, end) = (start as u32, end as u32);
    if start == end {
        return Ok(Some((Route { nodes: vec![start], cost: 0.0 }, 1)));
    }
    snapshot.with_marks(bounds, |[ahead, back]| {
        ahead.find(start, start);
        back.find(end, end);
        let onwards = |at: u32| snapshot.outgoing(at as usize);
        let backwards = |at: u32| snapshot.incoming(at as usize);
        let (mut first, mut last) = (vec![start], vec![end]);
        let (mut first_work, mut last_work) = (onwards(start).len(), backwards(end).len());
        let mut found = 2;
        while !first.is_empty() && !last.is_empty() {
            let is_ahead = first_work <= last_work;
            let (level, work, mine, theirs) = match is_ahead {
                true => (&mut first, &mut first_work, &mut *ahead, &mut *back),
                false => (&mut last, &mut last_work, &mut *back, &mut *ahead),
            };
            *work = 0;
            let mut next = Vec::new();
            for at in std::mem::take(level) {
                bounds.tick()?;
                for &other in if is_ahead { onwards(at) } else { backwards(at) } {
                    if !mine.find(other, at) {
                        continue;
                    }
                    found += 1;
                    if theirs.number(other).is_some() {
                        return Ok(Some((joined(other, (start, end), ahead, back), found)));
                    }
                    *work += if is_ahead { onwards(other) } else { backwards(other) }.len();
                    next.push(other);
                }
            }
            bounds.keep(4 * next.len())?;
            *level = next;
        }
        Ok(None)
    })
}

/// The route through a node found from both ends; marks have the nodes before.
fn joined(middle: u32, (start, end): (u32, u32), ahead: &Marks, back: &Marks) -> Route {
    let walk = |marks: &Marks, last: u32| {
        let mut nodes = vec![middle];
        let mut at = middle;
        while at != last {
            at = marks.number(at).expect("a node is found from a node found before");
            nodes.push(at);
        }
        nodes
    };
    let mut nodes = walk(ahead, start);
    nodes.reverse();
    nodes.extend(&walk(back, end)[1..]);
    Route { cost: (nodes.len() - 1) as f64, nodes }
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

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;
    use crate::algorithms::{Direction, Selection, paths};
    use crate::graph::{Graph, NodeData, RelationshipData};
    use crate::memory::MemoryGraph;
    use crate::procedure::Unbounded;
    use crate::value::Map;

    #[test]
    fn searches_from_both_ends_find_shortest_routes() {
        let mut random = Random::new(0x726f_7574_6573);
        let mut far = 0;
        for round in 0..400 {
            let graph = MemoryGraph::new();
            graph.begin(true).expect("a graph in memory begins");
            let count = 1 + random.place(14);
            let node = |_| graph.create_node(NodeData::default()).expect("a node");
            let ids: Vec<i64> = (0..count).map(node).collect();
            for _ in 0..random.place(2 * count) {
                let (source, target) = (random.pick(&ids), random.pick(&ids));
                let data =
                    RelationshipData { source, target, kind: "R".into(), properties: Map::new() };
                graph.create_relationship(data).expect("a relationship");
            }
            let ways = [Direction::Outgoing, Direction::Incoming, Direction::Both];
            let direction = random.pick(&ways);
            let selection = Selection { label: None, kinds: &[], direction, weight: None };
            let snapshot = Snapshot::read(&graph, &selection, &Unbounded).expect("a snapshot");
            for start in 0..count {
                let depths = paths::breadth_first(&snapshot, start, &Unbounded).expect("depths");
                for (end, &depth) in depths.iter().enumerate() {
                    let route = shortest(&snapshot, (start, end), &Unbounded).expect("a search");
                    let told = format!("round {round}, {start} to {end}: {snapshot:?}");
                    let Some((route, found)) = route else {
                        assert_eq!(depth, paths::FAR, "{told}");
                        continue;
                    };
                    assert_eq!(route.cost, f64::from(depth), "{told}");
                    assert_eq!(route.nodes.len(), depth as usize + 1, "{told}");
                    assert_eq!(route.nodes.first(), Some(&(start as u32)), "{told}");
                    assert_eq!(route.nodes.last(), Some(&(end as u32)), "{told}");
                    for step in route.nodes.windows(2) {
                        assert!(snapshot.outgoing(step[0] as usize).contains(&step[1]), "{told}");
                    }
                    assert!(found >= route.nodes.len() && found <= 2 * count, "{told}");
                    far += usize::from(depth > 2);
                }
            }
        }
        assert!(far > 1000, "{far} routes of more than two steps");
    }
}
