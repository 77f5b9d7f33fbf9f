//! The walk over a graph: from the root along links to nodes nearer and nearer to a vector.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shoal_sql::Error;

use super::code::Coded;
use super::definition::Index;
use super::graph::{Near, Nodes};

/// Memory of a walk, used again by the next one.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// One bit for each node visited.
    visited: Vec<u64>,
}

impl Scratch {
    /// True for the first visit of a node.
    #[inline]
    fn visit(&mut self, node: u32) -> bool {
        let (word, bit) = (node as usize / 64, 1 << (node % 64));
        if word >= self.visited.len() {
            self.visited.resize(word + 64, 0);
        }
        let is_first = self.visited[word] & bit == 0;
        self.visited[word] |= bit;
        is_first
    }
}

/// The bounds of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many of the nearest nodes are kept.
    pub(crate) ef: usize,
    /// How many nodes may be visited.
    pub(crate) visits: usize,
}

/// The `ef` nearest nodes allowed, the nearest first; `None` where more nodes than the bound would
/// have been visited. Other nodes are walked over, and not given.
///
/// # Errors
/// Errors of reading nodes, and of `allows`.
pub(crate) fn walk<N: Nodes>(
    index: &Index,
    nodes: &mut N,
    query: &Coded,
    bounds: Bounds,
    scratch: &mut Scratch,
    mut allows: impl FnMut(&N, u32) -> Result<bool, Error>,
) -> Result<Option<Vec<Near>>, Error> {
    scratch.visited.fill(0);
    let Some(root) = nodes.graph().root else { return Ok(Some(Vec::new())) };
    nodes.need(index, root)?;
    scratch.visit(root);
    let first = nodes.graph().near(nodes.graph().distance(index, query, root), root);
    let mut frontier = BinaryHeap::from([Reverse(first)]);
    let mut found: BinaryHeap<Near> = BinaryHeap::with_capacity(bounds.ef + 1);
    if allows(nodes, root)? {
        found.push(first);
    }
    let mut visits = 1;
    while let Some(Reverse(near)) = frontier.pop() {
        let farthest = found.peek().filter(|_| found.len() >= bounds.ef);
        if farthest.is_some_and(|farthest| near > *farthest) {
            break;
        }
        for at in 0..nodes.graph().links[near.node as usize].len() {
            let node = nodes.graph().links[near.node as usize][at];
            if !scratch.visit(node) {
                continue;
            }
            visits += 1;
            if visits > bounds.visits {
                return Ok(None);
            }
            nodes.need(index, node)?;
            let near = nodes.graph().near(nodes.graph().distance(index, query, node), node);
            let is_full = found.len() >= bounds.ef;
            if is_full && found.peek().is_some_and(|farthest| near > *farthest) {
                continue;
            }
            frontier.push(Reverse(near));
            if allows(nodes, node)? {
                found.push(near);
                if is_full {
                    found.pop();
                }
            }
        }
    }
    Ok(Some(found.into_sorted_vec()))
}
