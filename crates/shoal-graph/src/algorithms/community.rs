//! Communities by modularity: Louvain's algorithm, and Leiden's, whose communities hang together.
//!
//! Both see the graph without direction, parallel relationships added up. Nodes come in the order
//! of their ids and ties go to the smallest community: the same graph has the same answer.
//! Leiden's refinement takes the best merge where the paper draws one at random.

use std::collections::VecDeque;

use super::Snapshot;
use crate::error::Result;
use crate::procedure::Bounds;

/// A gain below the rounding of sums is none.
const GAIN_MIN: f64 = 1e-12;

/// A graph whose nodes stand for groups of nodes.
struct Level {
    /// Neighbours of each node, each once, and the weight between them.
    neighbours: Vec<Vec<(u32, f64)>>,
    /// Weight of the relationships within each node.
    within: Vec<f64>,
    /// Sums of the weights at each node; weights within the node count twice.
    degrees: Vec<f64>,
    /// The sum of all degrees.
    total: f64,
}

impl Level {
    fn of(snapshot: &Snapshot, bounds: &dyn Bounds) -> Result<Level> {
        let count = snapshot.len();
        bounds.keep(64 * count + 32 * snapshot.edge_count())?;
        let mut neighbours: Vec<Vec<(u32, f64)>> = vec![Vec::new(); count];
        let mut within = vec![0.0; count];
        for at in 0..count {
            bounds.tick()?;
            for (nth, &other) in snapshot.outgoing(at).iter().enumerate() {
                let weight = snapshot.weight(at, nth);
                // A relationship of weight 0 ties no nodes.
                if weight == 0.0 {
                    continue;
                }
                if other as usize == at {
                    within[at] += weight;
                    continue;
                }
                neighbours[at].push((other, weight));
                if !snapshot.is_both() {
                    neighbours[other as usize].push((at as u32, weight));
                }
            }
        }
        Ok(Level::new(neighbours, within))
    }

    /// Adds up parallel weights.
    fn new(mut neighbours: Vec<Vec<(u32, f64)>>, within: Vec<f64>) -> Level {
        for list in &mut neighbours {
            list.sort_unstable_by_key(|(other, _)| *other);
            list.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                if is_same {
                    kept.1 += next.1;
                }
                is_same
            });
        }
        let degrees: Vec<f64> = neighbours
            .iter()
            .zip(&within)
            .map(|(list, within)| list.iter().map(|(_, weight)| weight).sum::<f64>() + 2.0 * within)
            .collect();
        let total = degrees.iter().sum();
        Level { neighbours, within, degrees, total }
    }

    fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// The graph of the groups, numbered from 0 to `count`.
    fn grouped(&self, groups: &[u32], count: usize) -> Level {
        let mut neighbours: Vec<Vec<(u32, f64)>> = vec![Vec::new(); count];
        let mut within = vec![0.0; count];
        for (at, list) in self.neighbours.iter().enumerate() {
            let own = groups[at];
            within[own as usize] += self.within[at];
            for &(other, weight) in list {
                match groups[other as usize] {
                    // Either end has the relationship in its list.
                    group if group == own => within[own as usize] += weight / 2.0,
                    group => neighbours[own as usize].push((group, weight)),
                }
            }
        }
        Level::new(neighbours, within)
    }
}

/// Weights from one node to groups around it.
struct Around {
    weights: Vec<f64>,
    touched: Vec<u32>,
}

impl Around {
    fn new(count: usize) -> Around {
        Around { weights: vec![0.0; count], touched: Vec::new() }
    }

    fn add(&mut self, group: u32, weight: f64) {
        let sum = &mut self.weights[group as usize];
        if *sum == 0.0 {
            self.touched.push(group);
        }
        *sum += weight;
    }

    fn clear(&mut self) {
        for group in self.touched.drain(..) {
            self.weights[group as usize] = 0.0;
        }
    }
}

/// Moves nodes to the group of the best gain until none gains; true where any moved.
fn move_nodes(
    level: &Level,
    groups: &mut [u32],
    resolution: f64,
    bounds: &dyn Bounds,
) -> Result<bool> {
    let count = level.len();
    let mut sums = vec![0.0; count];
    let mut sizes = vec![0_u32; count];
    for (at, group) in groups.iter().enumerate() {
        sums[*group as usize] += level.degrees[at];
        sizes[*group as usize] += 1;
    }
    let mut free: Vec<u32> =
        (0..count as u32).rev().filter(|group| sizes[*group as usize] == 0).collect();
    let mut around = Around::new(count);
    let mut queue: VecDeque<u32> = (0..count as u32).collect();
    let mut is_queued = vec![true; count];
    let mut has_moved = false;
    while let Some(at) = queue.pop_front() {
        bounds.tick()?;
        let at = at as usize;
        is_queued[at] = false;
        let (own, degree) = (groups[at], level.degrees[at]);
        for &(other, weight) in &level.neighbours[at] {
            around.add(groups[other as usize], weight);
        }
        sums[own as usize] -= degree;
        let gain = |group: u32, weight: f64| {
            weight - resolution * degree * sums[group as usize] / level.total
        };
        let mut best = (own, gain(own, around.weights[own as usize]));
        // A group of its own gains nothing and loses nothing.
        if best.1 < -GAIN_MIN
            && sizes[own as usize] > 1
            && let Some(&group) = free.last()
        {
            best = (group, 0.0);
        }
        for &group in &around.touched {
            let found = gain(group, around.weights[group as usize]);
            let is_tied = (found - best.1).abs() <= GAIN_MIN;
            let is_better = found > best.1 + GAIN_MIN;
            if is_better || (is_tied && group < best.0 && best.0 != own) {
                best = (group, found);
            }
        }
        around.clear();
        sums[best.0 as usize] += degree;
        if best.0 == own {
            continue;
        }
        if free.last() == Some(&best.0) {
            free.pop();
        }
        has_moved = true;
        sizes[own as usize] -= 1;
        sizes[best.0 as usize] += 1;
        if sizes[own as usize] == 0 {
            free.push(own);
        }
        groups[at] = best.0;
        for &(other, _) in &level.neighbours[at] {
            let other = other as usize;
            if groups[other] != best.0 && !is_queued[other] {
                is_queued[other] = true;
                queue.push_back(other as u32);
            }
        }
    }
    Ok(has_moved)
}

/// Splits each group into connected parts: single nodes join the part of the best gain.
fn refine(level: &Level, groups: &[u32], resolution: f64, bounds: &dyn Bounds) -> Result<Vec<u32>> {
    let count = level.len();
    let mut parts: Vec<u32> = (0..count as u32).collect();
    let mut part_sums = level.degrees.clone();
    let mut is_single = vec![true; count];
    let mut group_sums = vec![0.0; count];
    for (at, group) in groups.iter().enumerate() {
        group_sums[*group as usize] += level.degrees[at];
    }
    // Weight from each part to the rest of its group.
    let mut outward: Vec<f64> = (0..count)
        .map(|at| {
            let own = groups[at];
            let inside = level.neighbours[at].iter().filter(|it| groups[it.0 as usize] == own);
            inside.map(|(_, weight)| weight).sum()
        })
        .collect();
    let is_tied_in = |outward: f64, sum: f64, group: f64| {
        outward + GAIN_MIN >= resolution * sum * (group - sum) / level.total
    };
    let mut around = Around::new(count);
    for at in 0..count {
        bounds.tick()?;
        let (group, degree) = (groups[at], level.degrees[at]);
        let group_sum = group_sums[group as usize];
        if !is_single[at] || !is_tied_in(outward[at], degree, group_sum) {
            continue;
        }
        for &(other, weight) in &level.neighbours[at] {
            if groups[other as usize] == group {
                around.add(parts[other as usize], weight);
            }
        }
        let mut best: Option<(u32, f64)> = None;
        for &part in &around.touched {
            let (weight, sum) = (around.weights[part as usize], part_sums[part as usize]);
            let gain = weight - resolution * degree * sum / level.total;
            let is_better = best.is_none_or(|(known, most)| {
                gain > most + GAIN_MIN || ((gain - most).abs() <= GAIN_MIN && part < known)
            });
            if gain > GAIN_MIN && is_better && is_tied_in(outward[part as usize], sum, group_sum) {
                best = Some((part, gain));
            }
        }
        if let Some((part, _)) = best {
            let place = part as usize;
            outward[place] += outward[at] - 2.0 * around.weights[place];
            part_sums[place] += degree;
            part_sums[at] = 0.0;
            parts[at] = part;
            is_single[at] = false;
            // The part's first node carries its number and must stay.
            is_single[place] = false;
        }
        around.clear();
    }
    Ok(parts)
}

/// Numbers groups from 0 in the order of their first nodes; gives how many there are.
fn renumber(groups: &mut [u32]) -> usize {
    let mut numbers = vec![u32::MAX; groups.len()];
    let mut count = 0;
    for group in groups.iter_mut() {
        let number = &mut numbers[*group as usize];
        if *number == u32::MAX {
            *number = count;
            count += 1;
        }
        *group = *number;
    }
    count as usize
}

/// One pass from single nodes up, until no groups merge; true where any node moved.
fn pass(
    base: &Level,
    groups: &mut [u32],
    (resolution, refines): (f64, bool),
    bounds: &dyn Bounds,
) -> Result<bool> {
    let mut has_changed = false;
    // For each node of the base its node of the present level.
    let mut places: Vec<u32> = (0..base.len() as u32).collect();
    let mut owned: Option<Level> = None;
    let mut present: Vec<u32> = groups.to_vec();
    loop {
        let level = owned.as_ref().unwrap_or(base);
        let has_moved = move_nodes(level, &mut present, resolution, bounds)?;
        has_changed |= has_moved;
        let group_count = renumber(&mut present);
        for (group, place) in groups.iter_mut().zip(&places) {
            *group = present[*place as usize];
        }
        if group_count == level.len() || (!has_moved && owned.is_some()) {
            return Ok(has_changed);
        }
        let mut parts = match refines {
            true => refine(level, &present, resolution, bounds)?,
            false => present.clone(),
        };
        let part_count = renumber(&mut parts);
        if part_count == level.len() {
            return Ok(has_changed);
        }
        bounds.keep(64 * part_count)?;
        let next = level.grouped(&parts, part_count);
        // Parts begin in the groups of their nodes.
        let mut begun = vec![0_u32; part_count];
        for (part, group) in parts.iter().zip(&present) {
            begun[*part as usize] = *group;
        }
        for place in &mut places {
            *place = parts[*place as usize];
        }
        present = begun;
        owned = Some(next);
    }
}

/// Communities by Louvain's algorithm, by Leiden's where `refines`: a place of each community for
/// every node, after at most so many rounds from single nodes up.
pub(super) fn communities(
    snapshot: &Snapshot,
    resolution: f64,
    rounds: u64,
    refines: bool,
    bounds: &dyn Bounds,
) -> Result<Vec<usize>> {
    let base = Level::of(snapshot, bounds)?;
    let mut groups: Vec<u32> = (0..base.len() as u32).collect();
    if base.total > 0.0 {
        for _ in 0..rounds {
            if !pass(&base, &mut groups, (resolution, refines), bounds)? || !refines {
                break;
            }
        }
    }
    Ok(groups.into_iter().map(|group| group as usize).collect())
}
