//! How central nodes are: PageRank, betweenness, triangles, clustering.

use super::Snapshot;
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
            let sum: f64 = snapshot.incoming(at).iter().map(|from| given[*from as usize]).sum();
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

/// Betweenness, by Brandes' algorithm: ends left out, not normalised, parallel relationships paths
/// of their own.
pub(super) fn betweenness(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<f64>> {
    let count = snapshot.len();
    bounds.keep(40 * count)?;
    let mut scores = vec![0.0; count];
    let (mut depths, mut ways, mut shares) =
        (vec![u32::MAX; count], vec![0.0_f64; count], vec![0.0_f64; count]);
    let mut order: Vec<usize> = Vec::with_capacity(count);
    for start in 0..count {
        for at in order.drain(..) {
            depths[at] = u32::MAX;
            ways[at] = 0.0;
            shares[at] = 0.0;
        }
        depths[start] = 0;
        ways[start] = 1.0;
        order.push(start);
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            bounds.tick()?;
            for &other in snapshot.outgoing(at) {
                let other = other as usize;
                if depths[other] == u32::MAX {
                    depths[other] = depths[at] + 1;
                    order.push(other);
                }
                if depths[other] == depths[at] + 1 {
                    ways[other] += ways[at];
                }
            }
        }
        for &at in order.iter().rev() {
            bounds.tick()?;
            for &other in snapshot.outgoing(at) {
                let other = other as usize;
                if depths[other] == depths[at] + 1 {
                    shares[at] += ways[at] / ways[other] * (1.0 + shares[other]);
                }
            }
            if at != start {
                scores[at] += shares[at];
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
