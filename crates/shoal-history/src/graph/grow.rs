//! Adding changes one by one, and taking them back.

use std::sync::Arc;

use super::heads::Heads;
use super::{ChangeGraph, Inner, Node, past};
use crate::{Change, Error};

/// A graph before changes were added, for taking them back.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    added: usize,
    actors: usize,
    max_op: u32,
    heads: Heads,
}

impl ChangeGraph {
    /// Makes room for so many changes more.
    pub fn reserve(&mut self, changes: usize) {
        let inner = Arc::make_mut(&mut self.inner);
        inner.changes.reserve(changes);
        inner.nodes.reserve(changes);
        inner.deps.reserve(changes);
        let (nodes, base_len) = (&inner.nodes, inner.base_len);
        inner.index.reserve(changes, |place| nodes[(place - base_len) as usize].hash);
    }

    /// Adds a change; false for a known one. Cost: its dependencies, not the graph.
    ///
    /// # Errors
    /// [`Error::MissingDep`]; [`Error::DuplicateSeq`], [`Error::SeqGap`], [`Error::NotOnOwn`] or
    /// [`Error::StartOpTooSmall`] for a change no honest author with its dependencies could have
    /// made: regardless of the rest of the graph. The graph is then as before.
    pub fn add(&mut self, change: Change) -> Result<bool, Error> {
        let hash = change.hash();
        let known_actor = self.inner.author(change.actor());
        let own = known_actor.map(|actor| &self.inner.actors[actor.as_usize()]);
        let seq = change.seq();
        let own_count = own.map_or(0, |own| own.changes.len());
        // A known change is among its author's, so no search by hash is needed.
        if let Some(&known) = own.and_then(|own| own.changes.get(seq as usize - 1)) {
            let known = self.inner.hash_at(known);
            if known == hash {
                return Ok(false);
            }
            return Err(Error::DuplicateSeq { change: hash, known, seq });
        }

        let before = own.and_then(|own| own.changes.last().copied());
        let mut max_op = own.map_or(0, |own| own.max_op);
        let mut is_on_own = before.is_none();
        for dep in change.deps() {
            let Some(place) = self.inner.place_of(dep) else {
                return Err(Error::MissingDep { change: hash, dep: *dep });
            };
            max_op = max_op.max(self.inner.max_op_at(place));
            is_on_own |= Some(place) == before;
        }
        if seq as usize != own_count + 1 {
            let expected = u32::try_from(own_count + 1).unwrap_or(u32::MAX);
            return Err(Error::SeqGap { change: hash, expected, seq });
        }
        if let Some(before) = before.filter(|_| !is_on_own) {
            let deps: Vec<u32> = self.inner.places(change.deps()).collect();
            if !self.inner.reaches(&deps, before, &mut { past::MAX_STEPS }) {
                return Err(Error::NotOnOwn { change: hash, seq });
            }
        }
        if change.start_op() <= max_op {
            let start_op = change.start_op();
            return Err(Error::StartOpTooSmall { change: hash, max_op, start_op });
        }

        let author = known_actor.unwrap_or_else(|| self.intern_actor(change.actor()));
        let inner = Arc::make_mut(&mut self.inner);
        let place = u32::try_from(inner.len()).expect("there are fewer than 2^32 changes");
        let own = &mut inner.actors[author.as_usize()];
        own.changes.push(place);
        own.max_op = change.max_op();
        inner.max_op = inner.max_op.max(change.max_op());
        let deps_start = inner.deps.len();
        for dep in change.deps() {
            // Looked up once more rather than kept: most are heads.
            let dep_place = inner.heads.remove(dep).or_else(|| inner.place_of(dep));
            inner.deps.extend(dep_place);
        }
        inner.heads.insert(hash, place);
        let deps_end = u32::try_from(inner.deps.len()).expect("there are fewer than 2^32 links");
        let all_before = if inner.heads.len() == 1 {
            place
        } else {
            inner.all_before_with(&inner.deps[deps_start..])
        };
        inner.nodes.push(Node { hash, author, max_op: change.max_op(), deps_end, all_before });
        inner.changes.push(change);
        if inner.unindexed().len() == UNINDEXED_MAX {
            inner.index_all();
        }
        Ok(true)
    }

    /// The present graph, for [`restore`](Self::restore). Cost: the heads.
    pub fn checkpoint(&self) -> Checkpoint {
        let inner = &*self.inner;
        let (added, actors) = (inner.nodes.len(), inner.actors.len());
        Checkpoint { added, actors, max_op: inner.max_op, heads: inner.heads.clone() }
    }

    /// Takes back the changes added since, and the new indices of actors. Cost: those changes.
    pub fn restore(&mut self, checkpoint: Checkpoint) {
        let inner = Arc::make_mut(&mut self.inner);
        let Checkpoint { added, actors, max_op, heads } = checkpoint;
        while inner.nodes.len() > added {
            let (nodes, base_len) = (&inner.nodes, inner.base_len);
            let last = nodes[nodes.len() - 1];
            let place = base_len + u32::try_from(nodes.len() - 1).expect("places fit 32 bits");
            let hash_at = |place: u32| nodes[(place - base_len) as usize].hash;
            if inner.index.len() == nodes.len() {
                inner.index.remove(&last.hash, place, hash_at);
            }
            inner.nodes.pop();
            inner.changes.pop();
            inner.actors[last.author.as_usize()].changes.pop();
            let own = inner.actors[last.author.as_usize()].changes.last().copied();
            let own_max_op = own.map_or(0, |place| inner.max_op_at(place));
            inner.actors[last.author.as_usize()].max_op = own_max_op;
        }
        let deps_end = inner.nodes.last().map_or(0, |node| node.deps_end);
        inner.deps.truncate(deps_end as usize);
        for actor in inner.actor_ids.drain(actors.min(inner.actor_ids.len())..) {
            inner.by_actor.remove(&actor);
        }
        inner.actors.truncate(actors);
        (inner.max_op, inner.heads) = (max_op, heads);
    }
}

/// How many changes are added before their hashes go into the index. Each goes to a place far from
/// the others, and the processor fetches those of several at once only where there is little in
/// between.
const UNINDEXED_MAX: usize = 32;

impl Inner {
    /// The changes that are in no index yet: fewer than [`UNINDEXED_MAX`].
    pub(super) fn unindexed(&self) -> &[Node] {
        &self.nodes[self.index.len()..]
    }

    fn index_all(&mut self) {
        let (nodes, base_len) = (&self.nodes, self.base_len);
        let first = self.index.len();
        let places = (base_len..).skip(first);
        for (node, place) in nodes[first..].iter().zip(places) {
            self.index.insert(node.hash, place, |place| nodes[(place - base_len) as usize].hash);
        }
    }
}
