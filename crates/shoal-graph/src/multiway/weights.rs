//! Nodes on one edge as weights of the edge's other end, and parts of a pattern without ties.

use super::{Candidates, Edge, Pattern, Way, plus, times};
use crate::error::Result;
use crate::procedure::Bounds;

/// The weights of each node's places: the matches of whatever hung on the node. `None` where
/// nothing did.
pub(super) type Weights = Vec<Option<Weight>>;

/// A weight for each place.
#[derive(Debug)]
pub(super) struct Weight {
    pub(super) of: Vec<u64>,
    /// The places with a weight above 0, ascending, where they were found one by one.
    pub(super) places: Option<Vec<u32>>,
}

/// A pattern without leaves.
pub(super) struct Folded {
    pub(super) weights: Weights,
    /// True of nodes and edges that are left.
    pub(super) nodes: Vec<bool>,
    pub(super) edges: Vec<bool>,
}

/// Folds nodes on one edge into the edge's other end, where nobody asks for the node.
///
/// Cost: for each edge folded the rows of the leaf's candidates where these are few, else one pass
/// of the snapshot's rows, or of their starts alone where all weights are 1.
///
/// # Errors
/// What the bounds raise, and more matches than 2^63.
pub(super) fn fold_leaves(
    pattern: &Pattern,
    asked: &[bool],
    bounds: &dyn Bounds,
) -> Result<Folded> {
    let mut folded = Folded {
        weights: pattern.nodes.iter().map(|_| None).collect(),
        nodes: vec![true; pattern.nodes.len()],
        edges: vec![true; pattern.edges.len()],
    };
    while let Some((leaf, edge)) = next_leaf(pattern, asked, &folded) {
        let near = pattern.edges[edge].other(leaf);
        let weights = weights_of(pattern, (near, edge, leaf), &folded.weights, bounds)?;
        folded.weights[near] = Some(weights);
        folded.weights[leaf] = None;
        (folded.nodes[leaf], folded.edges[edge]) = (false, false);
    }
    Ok(folded)
}

/// A node to be folded, and its edge.
fn next_leaf(pattern: &Pattern, asked: &[bool], folded: &Folded) -> Option<(usize, usize)> {
    (0..pattern.nodes.len()).find_map(|node| {
        if asked[node] || !folded.nodes[node] || pattern.is_in_difference(node) {
            return None;
        }
        let mut own = (0..pattern.edges.len())
            .filter(|edge| folded.edges[*edge] && pattern.edges[*edge].touches(node));
        let (edge, None) = (own.next()?, own.next()) else { return None };
        let it = &pattern.edges[edge];
        let has_rival =
            pattern.edges.iter().enumerate().any(|(at, other)| at != edge && it.is_rival(other));
        (it.from != it.to && !has_rival).then_some((node, edge))
    })
}

/// The weights of a node with those of a leaf folded in.
fn weights_of(
    pattern: &Pattern,
    (near, edge, leaf): (usize, usize, usize),
    known: &Weights,
    bounds: &dyn Bounds,
) -> Result<Weight> {
    let count = pattern.places();
    bounds.keep(8 * count)?;
    let edge = &pattern.edges[edge];
    let way: Way = edge.way(near);
    let old = known[near].as_ref().map(|old| &*old.of);
    let far = known[leaf].as_ref();
    let few = match (far, &pattern.nodes[leaf]) {
        (Some(Weight { places: Some(places), .. }), _) => Some(&**places),
        (_, Candidates::Only(places)) => Some(places.list()),
        (_, Candidates::All) => None,
    };
    let far = far.map(|far| &*far.of);
    let back = edge.way(leaf);
    if let Some(few) = few {
        let rows = few.iter().map(|place| pattern.neighbours(edge, back, *place).len());
        if rows.sum::<usize>().saturating_mul(2) < pattern.snapshots[edge.snapshot].edge_count() {
            return pushed(pattern, (near, edge, back), (few, far, old), bounds);
        }
    }
    let mut weights = vec![0; count];
    for (place, weight) in weights.iter_mut().enumerate() {
        bounds.tick()?;
        let before = old.map_or(1, |old| old[place]);
        let at = u32::try_from(place).expect("places have 32 bits");
        if before == 0 || !pattern.nodes[near].has(at) {
            continue;
        }
        let neighbours = pattern.neighbours(edge, way, at);
        let sum = match (far, &pattern.nodes[leaf]) {
            (None, Candidates::All) => neighbours.len() as u64,
            (None, only) => neighbours.iter().filter(|other| only.has(**other)).count() as u64,
            (Some(far), _) => {
                // Weights of places that are no candidates are 0.
                let mut sum = 0;
                for other in neighbours {
                    sum = plus(sum, far[*other as usize])?;
                }
                sum
            }
        };
        *weight = times(before, sum)?;
    }
    Ok(Weight { of: weights, places: None })
}

/// The weights of a node by the rows of a leaf's few places. `far` has the weights of these, `old`
/// those that the node has already; both are 1 where there are none.
fn pushed(
    pattern: &Pattern,
    (near, edge, back): (usize, &Edge, Way),
    (few, far, old): (&[u32], Option<&[u64]>, Option<&[u64]>),
    bounds: &dyn Bounds,
) -> Result<Weight> {
    let mut of = vec![0; pattern.places()];
    let mut places = Vec::new();
    for place in few {
        bounds.tick()?;
        let weight = far.map_or(1, |far| far[*place as usize]);
        if weight == 0 {
            continue;
        }
        for other in pattern.neighbours(edge, back, *place) {
            let sum = &mut of[*other as usize];
            if *sum == 0 {
                places.push(*other);
            }
            *sum = plus(*sum, weight)?;
        }
    }
    bounds.keep(4 * places.len())?;
    for place in &places {
        let weight = &mut of[*place as usize];
        *weight = match pattern.nodes[near].has(*place) {
            true => times(*weight, old.map_or(1, |old| old[*place as usize]))?,
            false => 0,
        };
    }
    places.retain(|place| of[*place as usize] > 0);
    places.sort_unstable();
    Ok(Weight { of, places: Some(places) })
}

/// The nodes left, in parts that share no edge, no class and no difference.
pub(super) fn parts(pattern: &Pattern, nodes: &[bool], edges: &[bool]) -> Vec<Vec<usize>> {
    // The smallest node of each part, found by going over all ties until nothing changes.
    let mut least: Vec<usize> = (0..nodes.len()).collect();
    let mut ties: Vec<(usize, usize)> = pattern.different_nodes.clone();
    for (at, edge) in pattern.edges.iter().enumerate().filter(|(at, _)| edges[*at]) {
        ties.push((edge.from, edge.to));
        let rivals = pattern.edges[..at].iter().filter(|other| edge.is_rival(other));
        ties.extend(rivals.map(|other| (edge.from, other.from)));
    }
    loop {
        let before = least.clone();
        for (a, b) in &ties {
            let both = least[*a].min(least[*b]);
            (least[*a], least[*b]) = (both, both);
        }
        if before == least {
            break;
        }
    }
    let roots = (0..nodes.len()).filter(|root| least[*root] == *root);
    let part = |root: usize| {
        (0..nodes.len()).filter(|node| nodes[*node] && least[*node] == root).collect::<Vec<_>>()
    };
    roots.map(part).filter(|part| !part.is_empty()).collect()
}
