//! Fixed patterns over compressed rows: matches counted, and listed by a multiway join.
//!
//! A [`Pattern`] names nodes and the edges between them; [`Matches`] gives assignments of the nodes
//! asked for, each with its number of matches. Other nodes with one edge alone become weights of
//! the edge's other end (`weights`): the number of paths of two edges multiplies degrees. The rest
//! is searched node by node (`search`): candidates of a node are the intersection of the sorted
//! neighbours of all nodes before, the worst-case optimal join of cycles.
//!
//! [`Reach`] gives the ends of walks of any length.
//!
//! Edges of one class are different in a match. Edges are told apart by their ends alone: where two
//! edges of a class lie between the same nodes, the second has one choice less.

mod reach;
mod search;
#[cfg(test)]
mod tests;
mod weights;

use std::sync::Arc;

use crate::algorithms::Snapshot;
use crate::error::{Error, Result};
use crate::procedure::Bounds;
pub(crate) use reach::{Reach, Walk};
use search::Search;

/// The way from a node to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Outgoing,
    Incoming,
    Either,
}

/// The places that a node of a pattern may take.
#[derive(Clone, Debug)]
pub(crate) enum Candidates {
    All,
    Only(Places),
}

/// A set of places, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    list: Vec<u32>,
    bits: Vec<u64>,
}

impl Places {
    /// The set of some places below `count`.
    pub(crate) fn of(mut list: Vec<u32>, count: usize) -> Places {
        list.sort_unstable();
        list.dedup();
        let mut bits = vec![0; count.div_ceil(64)];
        for place in &list {
            bits[*place as usize / 64] |= 1_u64 << (place % 64);
        }
        Places { list, bits }
    }

    /// The places, ascending.
    pub(crate) fn list(&self) -> &[u32] {
        &self.list
    }

    pub(crate) fn has(&self, place: u32) -> bool {
        self.bits[place as usize / 64] >> (place % 64) & 1 == 1
    }
}

impl Candidates {
    /// The number of candidates among `all` places.
    pub(crate) fn len(&self, all: usize) -> usize {
        match self {
            Candidates::All => all,
            Candidates::Only(places) => places.list.len(),
        }
    }

    fn has(&self, place: u32) -> bool {
        match self {
            Candidates::All => true,
            Candidates::Only(places) => places.has(place),
        }
    }
}

/// An edge of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// True of an edge that may lead either way; a loop then is one edge.
    pub(crate) is_either: bool,
    /// The snapshot with the edges, by its place in [`Pattern::snapshots`].
    pub(crate) snapshot: usize,
    /// Edges of one class and one snapshot are different in a match. All of a class lead either
    /// way, or none.
    pub(crate) class: Option<usize>,
}

impl Edge {
    /// The way from one end to the other.
    fn way(&self, starts_at: usize) -> Way {
        match (self.is_either, self.from == starts_at) {
            (true, _) => Way::Either,
            (false, true) => Way::Outgoing,
            (false, false) => Way::Incoming,
        }
    }

    fn other(&self, node: usize) -> usize {
        if self.from == node { self.to } else { self.from }
    }

    fn touches(&self, node: usize) -> bool {
        self.from == node || self.to == node
    }

    /// True of two edges that are never the same.
    fn is_rival(&self, other: &Edge) -> bool {
        self.class.is_some() && self.class == other.class && self.snapshot == other.snapshot
    }
}

/// A pattern without quantifiers. All snapshots have the same nodes.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) snapshots: Vec<Arc<Snapshot>>,
    pub(crate) nodes: Vec<Candidates>,
    pub(crate) edges: Vec<Edge>,
    /// Pairs of nodes that are different in a match.
    pub(crate) different_nodes: Vec<(usize, usize)>,
}

impl Pattern {
    fn neighbours(&self, edge: &Edge, way: Way, at: u32) -> &[u32] {
        let snapshot = &self.snapshots[edge.snapshot];
        match way {
            Way::Outgoing => snapshot.outgoing(at as usize),
            Way::Incoming => snapshot.incoming(at as usize),
            Way::Either => snapshot.either(at as usize),
        }
    }

    /// The number of places.
    fn places(&self) -> usize {
        self.snapshots.first().map_or(0, |snapshot| snapshot.len())
    }

    fn is_in_difference(&self, node: usize) -> bool {
        self.different_nodes.iter().any(|(a, b)| *a == node || *b == node)
    }
}

/// The matches of a pattern, by assignments of the nodes asked for.
#[derive(Debug)]
pub(crate) struct Matches {
    search: Search,
    /// Matches of the parts without a node asked for.
    factor: u64,
}

impl Matches {
    /// Begins a search; `asked` says of each node whether its place is wanted.
    ///
    /// # Errors
    /// What the bounds raise, and more matches than 2^63.
    pub(crate) fn of(pattern: Pattern, asked: &[bool], bounds: &dyn Bounds) -> Result<Matches> {
        let mut folded = weights::fold_leaves(&pattern, asked, bounds)?;
        // No node is different from itself.
        let mut factor = u64::from(pattern.different_nodes.iter().all(|(a, b)| a != b));
        let pattern = Arc::new(pattern);
        let weights = Arc::new(std::mem::take(&mut folded.weights));
        let mut wanted = Vec::new();
        for part in weights::parts(&pattern, &folded.nodes, &folded.edges) {
            if part.iter().any(|node| asked[*node]) {
                wanted.extend(part);
                continue;
            }
            let shape = (Arc::clone(&pattern), Arc::clone(&weights));
            let mut search = Search::new(shape, &folded.edges, &part, asked);
            factor = times(factor, search.next(bounds)?.unwrap_or(0))?;
        }
        let search = Search::new((pattern, weights), &folded.edges, &wanted, asked);
        Ok(Matches { search, factor })
    }

    /// Goes to the next assignment; gives the number of its matches, above 0. An assignment may
    /// come several times.
    ///
    /// # Errors
    /// As [`Matches::of`].
    pub(crate) fn next(&mut self, bounds: &dyn Bounds) -> Result<Option<u64>> {
        if self.factor == 0 {
            return Ok(None);
        }
        match self.search.next(bounds)? {
            Some(count) => times(self.factor, count).map(Some),
            None => Ok(None),
        }
    }

    /// The place of a node that was asked for.
    pub(crate) fn place(&self, node: usize) -> u32 {
        self.search.place(node)
    }
}

fn too_many() -> Error {
    Error::limit("a pattern has over 2^63 matches")
}

fn times(a: u64, b: u64) -> Result<u64> {
    a.checked_mul(b).filter(|product| *product <= i64::MAX as u64).ok_or_else(too_many)
}

fn plus(a: u64, b: u64) -> Result<u64> {
    a.checked_add(b).filter(|sum| *sum <= i64::MAX as u64).ok_or_else(too_many)
}
