//! Nearness: closeness and harmonic centrality, by the steps to all others.

use super::Snapshot;
use super::blocks::each_block;
use crate::error::Result;
use crate::procedure::Bounds;

/// Closeness of every node: the number of nodes reached, divided by the sum of the steps to them;
/// `None` for nodes without a way to another.
pub(super) fn closeness(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<Option<f64>>> {
    each_start(snapshot, bounds, |levels| {
        let (mut reached, mut steps) = (0.0, 0.0);
        for (depth, count) in levels.iter().enumerate().skip(1) {
            reached += *count as f64;
            steps += (depth * count) as f64;
        }
        (reached > 0.0).then(|| reached / steps)
    })
}

/// Harmonic centrality of every node: the sum of 1/steps over the nodes reached.
pub(super) fn harmonic(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Vec<f64>> {
    each_start(snapshot, bounds, |levels| {
        let parts = levels.iter().enumerate().skip(1);
        parts.map(|(depth, count)| *count as f64 / depth as f64).sum()
    })
}

/// Starts of one block.
const BLOCK: usize = 64;

/// Calls `of` with the number of nodes at each number of steps from every node.
fn each_start<T: Send>(
    snapshot: &Snapshot,
    bounds: &dyn Bounds,
    of: impl Fn(&[usize]) -> T + Sync,
) -> Result<Vec<T>> {
    let count = snapshot.len();
    bounds.keep((16 + 8 * rayon::current_num_threads()) * count)?;
    let blocks = each_block(snapshot, BLOCK, bounds, |starts, tick| {
        let mut seen = vec![u32::MAX; count];
        let mut queue: Vec<u32> = Vec::with_capacity(count);
        let mut levels = Vec::new();
        let mut all = Vec::with_capacity(starts.len());
        for start in starts {
            queue.clear();
            levels.clear();
            queue.push(start as u32);
            seen[start] = start as u32;
            let mut next = 0;
            while next < queue.len() {
                let end = queue.len();
                levels.push(end - next);
                while next < end {
                    let at = queue[next] as usize;
                    next += 1;
                    tick()?;
                    for &other in snapshot.outgoing(at) {
                        let mark = &mut seen[other as usize];
                        if *mark != start as u32 {
                            *mark = start as u32;
                            queue.push(other);
                        }
                    }
                }
            }
            all.push(of(&levels));
        }
        Ok(all)
    })?;
    Ok(blocks.into_iter().flatten().collect())
}
