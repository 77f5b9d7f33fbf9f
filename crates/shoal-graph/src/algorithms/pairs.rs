//! Pairs of nodes: minimum spanning trees and similarity.

use rustc_hash::FxHashMap;

use super::Snapshot;
use super::components::root;
use crate::error::Result;
use crate::procedure::Bounds;

/// A pair of places with a number.
pub(super) type Pair = (u32, u32, f64);

/// The minimum spanning tree of each weak component, by Kruskal's algorithm: of relationships of
/// one weight the first by source and target.
///
/// # Errors
/// Errors of the bounds.
pub(super) fn spanning(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<Pair>> {
    bounds.keep(8 * snapshot.len() + 32 * snapshot.edge_count())?;
    let mut all: Vec<Pair> = Vec::with_capacity(snapshot.edge_count());
    for at in 0..snapshot.len() {
        bounds.tick()?;
        for (nth, &other) in snapshot.outgoing(at).iter().enumerate() {
            if other as usize != at && !(snapshot.is_both() && (other as usize) < at) {
                all.push((at as u32, other, snapshot.weight(at, nth)));
            }
        }
    }
    all.sort_by(|a, b| a.2.total_cmp(&b.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    let mut parents: Vec<usize> = (0..snapshot.len()).collect();
    let mut taken = Vec::new();
    for pair in all {
        bounds.tick()?;
        let (a, b) = (root(&mut parents, pair.0 as usize), root(&mut parents, pair.1 as usize));
        if a != b {
            parents[a.max(b)] = a.min(b);
            taken.push(pair);
        }
    }
    Ok(taken)
}

/// Jaccard similarity of every two nodes with a neighbour in common: neighbours of both divided by
/// neighbours of either, along the direction; loops and parallel relationships left out. Pairs
/// below `cutoff` are left out, too.
///
/// # Errors
/// Errors of the bounds.
pub(super) fn jaccard(snapshot: &Snapshot, cutoff: f64, bounds: &dyn Bounds) -> Result<Vec<Pair>> {
    let targets = snapshot.simple_targets(bounds)?;
    bounds.keep(24 * snapshot.len() + 4 * snapshot.edge_count())?;
    let mut sources: Vec<Vec<u32>> = vec![Vec::new(); snapshot.len()];
    for (at, list) in targets.iter().enumerate() {
        for &other in list {
            sources[other as usize].push(at as u32);
        }
    }
    let mut pairs = Vec::new();
    let mut common: FxHashMap<u32, u32> = FxHashMap::default();
    for (at, list) in targets.iter().enumerate() {
        common.clear();
        for &between in list {
            bounds.tick()?;
            let behind = &sources[between as usize];
            for &other in &behind[behind.partition_point(|other| *other as usize <= at)..] {
                *common.entry(other).or_default() += 1;
            }
        }
        let mut found: Vec<(u32, u32)> =
            common.iter().map(|(other, both)| (*other, *both)).collect();
        found.sort_unstable();
        for (other, both) in found {
            let either = list.len() + targets[other as usize].len() - both as usize;
            let score = f64::from(both) / either as f64;
            if score >= cutoff {
                bounds.keep(16)?;
                pairs.push((at as u32, other, score));
            }
        }
    }
    Ok(pairs)
}
