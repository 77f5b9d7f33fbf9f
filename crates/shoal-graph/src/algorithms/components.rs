//! Groups of nodes: components, communities, cores.

use rustc_hash::FxHashMap;

use super::Snapshot;
use crate::error::Result;
use crate::procedure::Bounds;

/// The root of a place's tree. Paths are halved on the way.
pub(super) fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

/// Weak components: a place of each component for every node.
pub(super) fn weak(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<usize>> {
    bounds.keep(16 * snapshot.len())?;
    let mut parents: Vec<usize> = (0..snapshot.len()).collect();
    for at in 0..snapshot.len() {
        bounds.tick()?;
        for &other in snapshot.outgoing(at) {
            let (a, b) = (root(&mut parents, at), root(&mut parents, other as usize));
            parents[a.max(b)] = a.min(b);
        }
    }
    Ok((0..snapshot.len()).map(|at| root(&mut parents, at)).collect())
}

/// Strong components, by Tarjan's algorithm without recursion.
pub(super) fn strong(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let count = snapshot.len();
    // Three numbers for each node, and at worst its places on both stacks.
    bounds.keep(48 * count)?;
    let (mut order, mut low, mut component) = (vec![NEW; count], vec![0; count], vec![NEW; count]);
    let mut stack = Vec::new();
    let mut visited = 0;
    for start in 0..count {
        if order[start] != NEW {
            continue;
        }
        let mut calls = vec![(start, 0)];
        while let Some((at, next)) = calls.last_mut() {
            let at = *at;
            if *next == 0 {
                bounds.tick()?;
                order[at] = visited;
                low[at] = visited;
                visited += 1;
                stack.push(at);
            }
            if let Some(&other) = snapshot.outgoing(at).get(*next) {
                *next += 1;
                let other = other as usize;
                if order[other] == NEW {
                    calls.push((other, 0));
                } else if component[other] == NEW {
                    low[at] = low[at].min(order[other]);
                }
                continue;
            }
            if low[at] == order[at] {
                while let Some(one) = stack.pop() {
                    component[one] = at;
                    if one == at {
                        break;
                    }
                }
            }
            calls.pop();
            if let Some((before, _)) = calls.last() {
                low[*before] = low[*before].min(low[at]);
            }
        }
    }
    Ok(component)
}

/// Labels after so many rounds: each node takes the label that most of its neighbours had, the
/// smallest of several; a neighbour on both sides counts twice.
pub(super) fn label_propagation(
    snapshot: &Snapshot,
    rounds: u64,
    bounds: &dyn Bounds,
) -> Result<Vec<i64>> {
    // Labels of two rounds, and counts of the labels around one node.
    bounds.keep(40 * snapshot.len())?;
    let mut labels: Vec<i64> = (0..snapshot.len()).map(|at| snapshot.id(at)).collect();
    for _ in 0..rounds {
        bounds.tick()?;
        let mut next = labels.clone();
        let mut counts: FxHashMap<i64, usize> = FxHashMap::default();
        for (at, label) in next.iter_mut().enumerate() {
            bounds.tick()?;
            counts.clear();
            for other in snapshot.outgoing(at).iter().chain(snapshot.incoming(at)) {
                *counts.entry(labels[*other as usize]).or_default() += 1;
            }
            if let Some((best, _)) =
                counts.iter().max_by_key(|(label, count)| (**count, std::cmp::Reverse(**label)))
            {
                *label = *best;
            }
        }
        if next == labels {
            break;
        }
        labels = next;
    }
    Ok(labels)
}

/// The largest k of which each node is in the k-core: the graph without direction, each pair once.
pub(super) fn cores(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<u32>> {
    let neighbours = snapshot.simple(bounds)?;
    // A node stands in a list again whenever its degree falls.
    bounds.keep(48 * snapshot.len() + 16 * snapshot.edge_count())?;
    let mut degrees: Vec<usize> = neighbours.iter().map(Vec::len).collect();
    let most = degrees.iter().copied().max().unwrap_or(0);
    let mut by_degree: Vec<Vec<usize>> = vec![Vec::new(); most + 1];
    for (at, degree) in degrees.iter().enumerate() {
        by_degree[*degree].push(at);
    }
    let mut cores = vec![u32::MAX; snapshot.len()];
    for degree in 0..=most {
        // Nodes come here when they are put down to this degree, perhaps from a higher one.
        while let Some(at) = by_degree[degree].pop() {
            bounds.tick()?;
            if cores[at] != u32::MAX || degrees[at] > degree {
                continue;
            }
            cores[at] = degree as u32;
            for &other in &neighbours[at] {
                let other = other as usize;
                if cores[other] == u32::MAX && degrees[other] > degree {
                    degrees[other] -= 1;
                    by_degree[degrees[other]].push(other);
                }
            }
        }
    }
    Ok(cores)
}
