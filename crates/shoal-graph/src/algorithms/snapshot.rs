//! A graph as compressed rows: for each node the places of its neighbours, both ways.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::procedure::Bounds;
use crate::value::Value;

/// The way in which relationships are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From source to target.
    Outgoing,
    /// From target to source.
    Incoming,
    /// Either way; a loop counts once.
    Both,
}

/// The part of a graph that an algorithm runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'s> {
    /// The label of the nodes; nothing takes all nodes.
    pub(crate) label: Option<&'s str>,
    /// The types of the relationships; none takes all types.
    pub(crate) kinds: &'s [&'s str],
    /// The way in which relationships are followed.
    pub(crate) direction: Direction,
    /// The property with a relationship's weight; nothing reads no weights.
    pub(crate) weight: Option<&'s str>,
}

/// Nodes by place, ascending by id, and their neighbours.
#[derive(Debug)]
pub(crate) struct Snapshot {
    ids: Arc<Vec<i64>>,
    /// The way in which relationships are followed.
    direction: Direction,
    /// Neighbours that relationships lead to, ascending but where both ways are followed.
    outgoing: Rows,
    /// Relationships against their direction, once somebody has asked for them.
    incoming: OnceLock<Rows>,
    /// Relationships that led to or from no node of the selection.
    left_out: usize,
    /// Neighbours on either side, once a pattern has asked for them.
    either: OnceLock<Rows>,
    /// Marks of searches, used again by the next one.
    marks: Mutex<Vec<Marks>>,
}

/// A mark for each node, none of them set: a search sets its own number and clears none.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The number of the search that found the node, and a number of the search's own.
    found: Vec<(u32, u32)>,
    search: u32,
}

impl Marks {
    /// Sets a node's number; false where the search has found the node before.
    #[inline]
    pub(crate) fn find(&mut self, at: u32, number: u32) -> bool {
        let found = &mut self.found[at as usize];
        let is_new = found.0 != self.search;
        if is_new {
            *found = (self.search, number);
        }
        is_new
    }

    /// The number of a node that the search has found.
    #[inline]
    pub(crate) fn number(&self, at: u32) -> Option<u32> {
        let (search, number) = self.found[at as usize];
        (search == self.search).then_some(number)
    }
}

#[derive(Debug, Default)]
struct Rows {
    /// The first neighbour of each place, and the end of the last.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    /// A weight for each neighbour; empty where no weights were read.
    weights: Vec<f64>,
}

impl Rows {
    fn of(&self, at: usize) -> &[u32] {
        &self.neighbours[self.starts[at]..self.starts[at + 1]]
    }

    fn weights_of(&self, at: usize) -> &[f64] {
        match self.weights.is_empty() {
            true => &[],
            false => &self.weights[self.starts[at]..self.starts[at + 1]],
        }
    }

    fn bytes(&self) -> usize {
        8 * self.starts.len() + 4 * self.neighbours.len() + 8 * self.weights.len()
    }
}

/// Ids read at once.
const COUNT: usize = 4096;

impl Snapshot {
    /// Reads the nodes of a selection, and the relationships between them.
    ///
    /// # Errors
    /// What the graph and the bounds raise; a weight that is no number or negative; more than 2^32
    /// nodes.
    pub(crate) fn read(
        graph: &dyn Graph,
        selection: &Selection<'_>,
        bounds: &dyn Bounds,
    ) -> Result<Snapshot> {
        let mut ids: Vec<i64> = Vec::new();
        loop {
            // An id, and the starts of its rows.
            bounds.keep(COUNT * (8 + 16))?;
            bounds.tick()?;
            let before = ids.len();
            graph.nodes(selection.label, ids.last().copied(), COUNT, &mut ids)?;
            if ids.len() - before < COUNT {
                break;
            }
        }
        if u32::try_from(ids.len()).is_err() {
            return Err(Error::limit("algorithms run on up to 2^32 nodes"));
        }
        Snapshot::with_ids(Arc::new(ids), graph, selection, bounds)
    }

    /// Reads the relationships of a selection between nodes that are known.
    fn with_ids(
        ids: Arc<Vec<i64>>,
        graph: &dyn Graph,
        selection: &Selection<'_>,
        bounds: &dyn Bounds,
    ) -> Result<Snapshot> {
        let places = Places::of(&ids);
        bounds.keep(places.bytes())?;
        // A relationship's place in the list, and in the rows both ways.
        let edge_bytes = if selection.weight.is_some() { 2 * 24 } else { 2 * 8 };
        let mut ends = Ends::default();
        graph.each_relationship(
            selection.kinds,
            selection.weight,
            &mut |source, target, value| {
                bounds.tick()?;
                // Relationships that leave the selection, or end at no node, lead nowhere.
                let (Some(from), Some(to)) = (places.get(source), places.get(target)) else {
                    ends.left_out += 1;
                    return Ok(());
                };
                if ends.pairs.len().is_multiple_of(COUNT) {
                    bounds.keep(COUNT * edge_bytes)?;
                }
                ends.push(from, to);
                if let Some(key) = selection.weight {
                    ends.weights.push(weight_of(source, target, key, value)?);
                }
                Ok(())
            },
        )?;
        drop(places);
        let left_out = ends.left_out;
        let rows = ends.rows(ids.len());
        let outgoing = match selection.direction {
            Direction::Outgoing => rows,
            Direction::Incoming => transposed(&rows, ids.len()),
            Direction::Both => {
                bounds.keep(2 * rows.bytes())?;
                merged(&rows, &transposed(&rows, ids.len()), ids.len())
            }
        };
        Ok(Snapshot {
            ids,
            direction: selection.direction,
            outgoing,
            incoming: OnceLock::new(),
            left_out,
            either: OnceLock::new(),
            marks: Mutex::default(),
        })
    }

    /// A snapshot of the same nodes with other relationships, by the ids of their ends.
    ///
    /// # Errors
    /// What `read` and the bounds raise.
    pub(crate) fn with_relationships(
        &self,
        bounds: &dyn Bounds,
        read: impl FnOnce(&mut dyn FnMut(i64, i64) -> Result<()>) -> Result<()>,
    ) -> Result<Snapshot> {
        let places = Places::of(&self.ids);
        bounds.keep(places.bytes())?;
        let mut ends = Ends::default();
        read(&mut |source, target| {
            bounds.tick()?;
            if let (Some(from), Some(to)) = (places.get(source), places.get(target)) {
                if ends.pairs.len().is_multiple_of(COUNT) {
                    bounds.keep(COUNT * 2 * 8)?;
                }
                ends.push(from, to);
            }
            Ok(())
        })?;
        Ok(Snapshot {
            ids: Arc::clone(&self.ids),
            direction: Direction::Outgoing,
            outgoing: ends.rows(self.ids.len()),
            incoming: OnceLock::new(),
            left_out: 0,
            either: OnceLock::new(),
            marks: Mutex::default(),
        })
    }

    /// The bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let incoming = self.incoming.get().map_or(0, Rows::bytes);
        let either = self.either.get().map_or(0, Rows::bytes);
        8 * self.ids.len() + self.outgoing.bytes() + incoming + either
    }

    /// The number of relationships left out: an end was no node of the selection.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The ids of the nodes, ascending: each in its place.
    pub(crate) fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// Neighbours on either side, ascending: one for each relationship, a loop once. Cost: one pass
    /// of all rows at the first call.
    pub(crate) fn either(&self, at: usize) -> &[u32] {
        if self.is_both() {
            return self.outgoing.of(at);
        }
        let rows = self.either.get_or_init(|| {
            let mut both = merged(&self.outgoing, self.incoming_rows(), self.ids.len());
            both.weights = Vec::new();
            for bounds in both.starts.windows(2) {
                both.neighbours[bounds[0]..bounds[1]].sort_unstable();
            }
            both
        });
        rows.of(at)
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The number of relationships; twice that where both ways are followed, loops but once.
    pub(crate) fn edge_count(&self) -> usize {
        self.outgoing.neighbours.len()
    }

    /// The id of the node in a place.
    pub(crate) fn id(&self, at: usize) -> i64 {
        self.ids[at]
    }

    /// The place of a node.
    pub(crate) fn place(&self, id: i64) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// Places that relationships lead to, one for each relationship.
    pub(crate) fn outgoing(&self, at: usize) -> &[u32] {
        self.outgoing.of(at)
    }

    /// The start of each relationship to the node at a place. Cost: one pass of all rows at the
    /// first call.
    pub(crate) fn incoming(&self, at: usize) -> &[u32] {
        self.incoming_rows().of(at)
    }

    fn incoming_rows(&self) -> &Rows {
        match self.is_both() {
            true => &self.outgoing,
            false => self.incoming.get_or_init(|| {
                let mut rows = transposed(&self.outgoing, self.ids.len());
                rows.weights = Vec::new();
                rows
            }),
        }
    }

    /// Calls `search` with unset marks. Marks are kept for the next search: the cost of a search
    /// grows with the nodes found, not with the nodes of the graph.
    pub(crate) fn with_marks<T, const N: usize>(
        &self,
        bounds: &dyn Bounds,
        search: impl FnOnce([&mut Marks; N]) -> Result<T>,
    ) -> Result<T> {
        let all = || self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut marks: [Marks; N] = std::array::from_fn(|_| all().pop().unwrap_or_default());
        for marks in &mut marks {
            if marks.found.is_empty() {
                bounds.keep(8 * self.len())?;
                marks.found.resize(self.len(), (0, 0));
            }
            marks.search = match marks.search.checked_add(1) {
                Some(next) => next,
                None => {
                    marks.found.fill((0, 0));
                    1
                }
            };
        }
        let result = search(marks.each_mut());
        all().extend(marks);
        result
    }

    /// Weights of the relationships that lead away; empty where none were read.
    pub(super) fn weights(&self, at: usize) -> &[f64] {
        self.outgoing.weights_of(at)
    }

    /// The weight of a node's relationship; 1 where none were read.
    pub(super) fn weight(&self, at: usize, nth: usize) -> f64 {
        self.outgoing.weights_of(at).get(nth).copied().unwrap_or(1.0)
    }

    /// The least weight of the relationships from a node to another; infinite without one.
    pub(super) fn step(&self, at: usize, to: u32) -> f64 {
        let all = self.outgoing(at).iter().enumerate().filter(|(_, other)| **other == to);
        all.map(|(nth, _)| self.weight(at, nth)).fold(f64::INFINITY, f64::min)
    }

    /// True where each relationship is found at both of its ends.
    pub(super) fn is_both(&self) -> bool {
        self.direction == Direction::Both
    }

    /// Neighbours on either side, ascending, each once, without the node itself.
    ///
    /// # Errors
    /// What the bounds raise.
    pub(super) fn simple(&self, bounds: &dyn Bounds) -> Result<Vec<Vec<u32>>> {
        bounds.keep(24 * self.len() + 8 * self.edge_count())?;
        let all = (0..self.len()).map(|at| {
            bounds.tick()?;
            let both = self.outgoing(at).iter().chain(self.incoming(at)).copied();
            Ok(sorted(both, at))
        });
        all.collect()
    }

    /// Targets of each node's relationships, ascending, each once, without the node itself.
    ///
    /// # Errors
    /// What the bounds raise.
    pub(super) fn simple_targets(&self, bounds: &dyn Bounds) -> Result<Vec<Vec<u32>>> {
        bounds.keep(24 * self.len() + 4 * self.edge_count())?;
        let all = (0..self.len()).map(|at| {
            bounds.tick()?;
            Ok(sorted(self.outgoing(at).iter().copied(), at))
        });
        all.collect()
    }
}

fn sorted(places: impl Iterator<Item = u32>, without: usize) -> Vec<u32> {
    let mut all: Vec<u32> = places.filter(|other| *other as usize != without).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn weight_of(source: i64, target: i64, key: &str, value: &Value) -> Result<f64> {
    let weight = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => {
            return Err(Error::value_type(format!(
                "a relationship from node {source} to node {target} has no number {key} for its \
                 weight"
            )));
        }
    };
    if weight >= 0.0 {
        return Ok(weight);
    }
    let fault = if weight.is_nan() { "no number" } else { "negative" };
    Err(Error::argument(format!(
        "a relationship from node {source} to node {target} has the weight {weight}, which is \
         {fault}"
    )))
}

/// Relationships as they are read.
#[derive(Default)]
struct Ends {
    pairs: Vec<(u32, u32)>,
    weights: Vec<f64>,
    left_out: usize,
    /// True where a pair came behind a greater one.
    is_mixed: bool,
}

impl Ends {
    #[inline]
    fn push(&mut self, from: u32, to: u32) {
        self.is_mixed |= self.pairs.last().is_some_and(|last| *last > (from, to));
        self.pairs.push((from, to));
    }

    /// The relationships by their sources, ascending by their targets within each: one order,
    /// whatever order the tables have.
    fn rows(self, count: usize) -> Rows {
        let Ends { pairs, weights, is_mixed, .. } = self;
        if is_mixed {
            return transposed(&by_target(pairs.iter().copied(), &weights, count), count);
        }
        let mut starts = vec![0; count + 1];
        pairs.iter().for_each(|(from, _)| starts[*from as usize + 1] += 1);
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        Rows { starts, neighbours: pairs.into_iter().map(|(_, to)| to).collect(), weights }
    }
}

/// Relationships by their targets, in the order of `ends` within each.
fn by_target(
    ends: impl Iterator<Item = (u32, u32)> + Clone,
    weights: &[f64],
    count: usize,
) -> Rows {
    let mut starts = vec![0; count + 1];
    ends.clone().for_each(|(_, to)| starts[to as usize + 1] += 1);
    for at in 0..count {
        starts[at + 1] += starts[at];
    }
    let mut next = starts.clone();
    let neighbours = vec![0; starts[count]];
    let mut rows = Rows { starts, neighbours, weights: vec![0.0; weights.len()] };
    ends.enumerate().for_each(|(nth, (from, to))| {
        let place = &mut next[to as usize];
        rows.neighbours[*place] = from;
        if let Some(weight) = weights.get(nth) {
            rows.weights[*place] = *weight;
        }
        *place += 1;
    });
    rows
}

/// Places of ids: a table where ids are dense, and else a map.
enum Places {
    Dense { first: i64, places: Vec<u32> },
    Sparse(FxHashMap<i64, u32>),
}

impl Places {
    fn of(ids: &[i64]) -> Places {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Places::Sparse(FxHashMap::default());
        };
        let width = last.checked_sub(*first).and_then(|width| usize::try_from(width).ok());
        let numbered = ids.iter().zip(0_u32..);
        match width.filter(|width| *width / 8 < ids.len()) {
            Some(width) => {
                let mut places = vec![u32::MAX; width + 1];
                for (id, place) in numbered {
                    places[(id - first) as usize] = place;
                }
                Places::Dense { first: *first, places }
            }
            None => Places::Sparse(numbered.map(|(id, place)| (*id, place)).collect()),
        }
    }

    fn get(&self, id: i64) -> Option<u32> {
        match self {
            Places::Dense { first, places } => {
                let at = usize::try_from(id.checked_sub(*first)?).ok()?;
                places.get(at).copied().filter(|place| *place != u32::MAX)
            }
            Places::Sparse(places) => places.get(&id).copied(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Places::Dense { places, .. } => 4 * places.len(),
            Places::Sparse(places) => 24 * places.len(),
        }
    }
}

/// The same relationships by their targets.
fn transposed(rows: &Rows, count: usize) -> Rows {
    let ends = (0..count).flat_map(|at| rows.of(at).iter().map(move |to| (at as u32, *to)));
    by_target(ends, &rows.weights, count)
}

/// Relationships both ways, loops once.
fn merged(rows: &Rows, back: &Rows, count: usize) -> Rows {
    let mut both = Rows { starts: vec![0], ..Rows::default() };
    for at in 0..count {
        both.neighbours.extend(rows.of(at));
        both.weights.extend(rows.weights_of(at));
        for (nth, other) in back.of(at).iter().enumerate() {
            if *other as usize != at {
                both.neighbours.push(*other);
                both.weights.extend(back.weights_of(at).get(nth));
            }
        }
        both.starts.push(both.neighbours.len());
    }
    both
}
