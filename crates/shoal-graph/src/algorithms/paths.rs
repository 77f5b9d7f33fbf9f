//! Distances from a node, and an order in which every relationship leads onwards.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Snapshot;
use crate::error::{Error, Result};
use crate::procedure::Bounds;

/// The steps to a node out of reach.
pub(super) const FAR: u32 = u32::MAX;

/// Steps from a node along relationships; [`FAR`] for nodes out of reach.
pub(super) fn breadth_first(
    snapshot: &Snapshot,
    start: usize,
    bounds: &dyn Bounds,
) -> Result<Vec<u32>> {
    bounds.keep(12 * snapshot.len())?;
    let mut depths = vec![FAR; snapshot.len()];
    depths[start] = 0;
    let mut queue = vec![start as u32];
    let mut next = 0;
    while let Some(&at) = queue.get(next) {
        next += 1;
        bounds.tick()?;
        let depth = depths[at as usize] + 1;
        for &other in snapshot.outgoing(at as usize) {
            let known = &mut depths[other as usize];
            if *known == FAR {
                *known = depth;
                queue.push(other);
            }
        }
    }
    Ok(depths)
}

/// Sums of weights along the cheapest paths from a node; infinite for nodes out of reach.
pub(super) fn dijkstra(snapshot: &Snapshot, start: usize, bounds: &dyn Bounds) -> Result<Vec<f64>> {
    // Each relationship enters the heap at most once.
    bounds.keep(8 * snapshot.len() + 16 * snapshot.edge_count())?;
    let mut costs = vec![f64::INFINITY; snapshot.len()];
    costs[start] = 0.0;
    // Costs are not negative, so that their bits have their order.
    let mut heap = BinaryHeap::from([Reverse((0_u64, start))]);
    while let Some(Reverse((bits, at))) = heap.pop() {
        bounds.tick()?;
        let cost = f64::from_bits(bits);
        if cost > costs[at] {
            continue;
        }
        for (&other, weight) in snapshot.outgoing(at).iter().zip(snapshot.weights(at)) {
            let through = cost + weight;
            if through < costs[other as usize] {
                costs[other as usize] = through;
                heap.push(Reverse((through.to_bits(), other as usize)));
            }
        }
    }
    Ok(costs)
}

/// Places in an order in which sources come before targets, the smallest id first among the free.
pub(super) fn topological(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<usize>> {
    bounds.keep(40 * snapshot.len())?;
    let mut waiting: Vec<usize> =
        (0..snapshot.len()).map(|at| snapshot.incoming(at).len()).collect();
    let free = (0..snapshot.len()).filter(|at| waiting[*at] == 0).map(Reverse);
    let mut free: BinaryHeap<Reverse<usize>> = free.collect();
    let mut order = Vec::with_capacity(snapshot.len());
    while let Some(Reverse(at)) = free.pop() {
        bounds.tick()?;
        order.push(at);
        for &other in snapshot.outgoing(at) {
            waiting[other as usize] -= 1;
            if waiting[other as usize] == 0 {
                free.push(Reverse(other as usize));
            }
        }
    }
    match order.len() == snapshot.len() {
        true => Ok(order),
        false => Err(cycle(snapshot, &waiting)),
    }
}

/// Nodes of a cycle that an error names.
const NAMED: usize = 20;

/// The error that names one cycle among the nodes that still wait, from its smallest id.
fn cycle(snapshot: &Snapshot, waiting: &[usize]) -> Error {
    let mut at = waiting.iter().position(|count| *count > 0).expect("a node waits");
    let mut seen = vec![usize::MAX; snapshot.len()];
    let mut walk = Vec::new();
    // Each waiting node has a source that waits as well: going back leads into a cycle.
    while seen[at] == usize::MAX {
        seen[at] = walk.len();
        walk.push(at);
        let sources = snapshot.incoming(at);
        at = sources
            .iter()
            .map(|one| *one as usize)
            .find(|one| waiting[*one] > 0)
            .expect("a source waits");
    }
    let mut cycle = walk.split_off(seen[at]);
    cycle.reverse();
    let least = cycle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(nth, _)| nth);
    cycle.rotate_left(least);
    let ids: Vec<String> =
        cycle.iter().take(NAMED).map(|at| snapshot.id(*at).to_string()).collect();
    let more = match cycle.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Error::argument(format!("the graph has a cycle through the nodes {}{more}", ids.join(", ")))
}
