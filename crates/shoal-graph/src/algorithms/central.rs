//! How central nodes are: PageRank, betweenness, triangles, clustering.

use std::ops::Range;

use super::Snapshot;
use super::blocks::{Tick, each_block};
use crate::error::Result;
use crate::procedure::Bounds;

/// PageRank after so many rounds from 1/n each; nodes without a way out give to all alike. Scores
/// that no longer change end it early: the rounds left would give them again.
pub(super) fn page_rank(
    snapshot: &Snapshot,
    damping: f64,
    rounds: u64,
    bounds: &dyn Bounds,
) -> Result<Vec<f64>> {
    let count = snapshot.len();
    bounds.keep(16 * count)?;
    let share = 1.0 / count.max(1) as f64;
    let mut scores = vec![share; count];
    let mut given = vec![0.0; count];
    for _ in 0..rounds {
        let mut dangling = 0.0;
        bounds.tick()?;
        for at in 0..count {
            match snapshot.outgoing(at).len() {
                0 => dangling += scores[at],
                out => given[at] = scores[at] / out as f64,
            }
        }
        let base = (1.0 - damping) * share + damping * dangling * share;
        let mut has_changed = false;
        for (at, score) in scores.iter_mut().enumerate() {
            bounds.tick()?;
            let sum = gathered(&given, snapshot.incoming(at));
            let next = base + damping * sum;
            has_changed |= next != *score;
            *score = next;
        }
        if !has_changed {
            break;
        }
    }
    Ok(scores)
}

/// The sum of values in some places, as four independent chains of additions.
fn gathered(values: &[f64], places: &[u32]) -> f64 {
    let (fours, rest) = places.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, place) in sums.iter_mut().zip(four) {
            *sum += values[*place as usize];
        }
    }
    let rest: f64 = rest.iter().map(|place| values[*place as usize]).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Betweenness, by Brandes' algorithm: ends left out, not normalised, parallel relationships paths
/// of their own.
pub(super) fn betweenness(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<f64>> {
    let count = snapshot.len();
    let block = count.div_ceil(BLOCKS);
    let blocks = count.div_ceil(block.max(1));
    bounds.keep((blocks * 8 + rayon::current_num_threads() * 24) * count)?;
    let parts = each_block(snapshot, block, bounds, |starts, tick| shares(snapshot, starts, tick))?;
    let mut scores = vec![0.0; count];
    for part in parts {
        scores.iter_mut().zip(part).for_each(|(score, share)| *score += share);
    }
    Ok(scores)
}

/// Blocks of starts, each with scores of its own.
const BLOCKS: usize = 32;

/// The dependencies of all nodes, summed over the shortest paths from `starts`.
fn shares(snapshot: &Snapshot, starts: Range<usize>, tick: &mut Tick<'_>) -> Result<Vec<f64>> {
    let count = snapshot.len();
    let mut scores = vec![0.0; count];
    let mut depths = vec![u32::MAX; count];
    // Of each node the number of shortest paths from the start, and (1 + dependency) / number.
    let (mut ways, mut through) = (vec![0.0_f64; count], vec![0.0_f64; count]);
    let mut order: Vec<u32> = Vec::with_capacity(count);
    for start in starts {
        for at in order.drain(..) {
            depths[at as usize] = u32::MAX;
            ways[at as usize] = 0.0;
        }
        depths[start] = 0;
        ways[start] = 1.0;
        order.push(start as u32);
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            tick()?;
            let (depth, count) = (depths[at as usize] + 1, ways[at as usize]);
            for &other in snapshot.outgoing(at as usize) {
                let known = &mut depths[other as usize];
                if *known == u32::MAX {
                    *known = depth;
                    order.push(other);
                }
                if *known == depth {
                    ways[other as usize] += count;
                }
            }
        }
        for &at in order.iter().rev() {
            tick()?;
            let depth = depths[at as usize] + 1;
            let onwards = snapshot.outgoing(at as usize).iter();
            let sum: f64 = onwards
                .filter(|other| depths[**other as usize] == depth)
                .map(|other| through[*other as usize])
                .sum();
            let share = ways[at as usize] * sum;
            through[at as usize] = (1.0 + share) / ways[at as usize];
            if at as usize != start {
                scores[at as usize] += share;
            }
        }
    }
    Ok(scores)
}

/// Triangles of the graph without direction, each once; loops and parallel relationships left out.
pub(super) fn triangles(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<u64> {
    let neighbours = snapshot.simple(bounds)?;
    bounds.keep(24 * snapshot.len() + 4 * snapshot.edge_count())?;
    // Each triangle is found from its node of the least degree, so that hubs have short lists.
    let rank = |at: usize| (neighbours[at].len(), at);
    let above: Vec<Vec<u32>> = neighbours
        .iter()
        .enumerate()
        .map(|(at, all)| {
            all.iter().copied().filter(|other| rank(*other as usize) > rank(at)).collect()
        })
        .collect();
    let mut count = 0;
    for all in &above {
        for other in all {
            bounds.tick()?;
            count += shared(all, &above[*other as usize]);
        }
    }
    Ok(count)
}

/// The number of values in both of two ascending lists.
fn shared(a: &[u32], b: &[u32]) -> u64 {
    let (mut count, mut i, mut j) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                count += 1;
                i += 1;
                j += 1;
            }
        }
    }
    count
}

/// Local clustering: relationships among a node's neighbours, by the number there could be. Loops
/// and parallel relationships are left out.
pub(super) fn clustering(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<f64>> {
    let neighbours = snapshot.simple(bounds)?;
    let targets = snapshot.simple_targets(bounds)?;
    bounds.keep(8 * snapshot.len())?;
    let coefficient = |all: &Vec<u32>| {
        let degree = all.len() as f64;
        if degree < 2.0 {
            return Ok(0.0);
        }
        let mut among = 0;
        for other in all {
            bounds.tick()?;
            among += shared(all, &targets[*other as usize]);
        }
        Ok(among as f64 / (degree * (degree - 1.0)))
    };
    neighbours.iter().map(coefficient).collect()
}
