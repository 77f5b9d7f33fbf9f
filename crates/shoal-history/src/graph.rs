//! The graph of changes: who depends on whom. Holds changes in the order in which they were
//! added, dependencies first, so that the place of a change in that order is also a topological
//! number: walks backwards go by it and stop early.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{ActorId, ActorIdx, Change, ChangeHash, Error, OpId};

mod clock;
mod select;

pub use clock::{Clock, ClockEntry};

/// Every change whose dependencies are there, and the heads.
///
/// Actors get an [`ActorIdx`] when their first change is added or when
/// [`intern_actor`](Self::intern_actor) is called, and keep it: indices are never reordered.
#[derive(Clone, Debug, Default)]
pub struct ChangeGraph {
    changes: Vec<Change>,
    /// Of each change, the author.
    authors: Vec<ActorIdx>,
    /// Of each change, where its dependencies end in `deps`; they begin where the last one's end.
    deps_end: Vec<usize>,
    /// Places of dependencies, change after change.
    deps: Vec<u32>,
    by_hash: FxHashMap<ChangeHash, u32>,
    heads: BTreeSet<ChangeHash>,
    actors: Vec<Actor>,
    actor_ids: Vec<ActorId>,
    /// A tree and no hash table, because strangers choose these keys.
    by_actor: BTreeMap<ActorId, ActorIdx>,
    max_op: u32,
}

#[derive(Clone, Debug, Default)]
struct Actor {
    /// The places of the actor's changes, by sequence number - 1.
    changes: Vec<u32>,
    max_op: u32,
}

impl ChangeGraph {
    /// A graph without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The hashes of the changes that no change depends on, ascending.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.heads.iter().copied().collect()
    }

    /// Whether `heads` are the heads, in any order.
    pub fn has_heads(&self, heads: &[ChangeHash]) -> bool {
        heads.len() == self.heads.len() && heads.iter().all(|head| self.heads.contains(head))
    }

    /// Whether the change with this hash is in the graph.
    pub fn contains(&self, hash: &ChangeHash) -> bool {
        self.by_hash.contains_key(hash)
    }

    /// The change with this hash.
    pub fn get(&self, hash: &ChangeHash) -> Option<&Change> {
        Some(&self.changes[*self.by_hash.get(hash)? as usize])
    }

    /// The change at a place of the order in which they were added.
    pub fn get_at(&self, place: usize) -> Option<&Change> {
        self.changes.get(place)
    }

    /// The changes, in the order in which they were added.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> + DoubleEndedIterator + Clone {
        self.changes.iter()
    }

    /// Adds a change; false when it is there already. Cost: its dependencies, not the graph.
    ///
    /// # Errors
    /// [`Error::MissingDep`]; [`Error::DuplicateSeq`], [`Error::SeqGap`] or
    /// [`Error::StartOpTooSmall`] when the change cannot be by an honest author who has seen its
    /// dependencies. The graph is then as before.
    pub fn add(&mut self, change: Change) -> Result<bool, Error> {
        let hash = change.hash();
        if self.contains(&hash) {
            return Ok(false);
        }
        let known_actor = self.by_actor.get(change.actor()).copied();
        let own = known_actor.map(|actor| &self.actors[actor.as_usize()]);
        let seq = change.seq();
        let own_count = own.map_or(0, |own| own.changes.len());
        if let Some(&known) = own.and_then(|own| own.changes.get(seq as usize - 1)) {
            let known = self.changes[known as usize].hash();
            return Err(Error::DuplicateSeq { change: hash, known, seq });
        }

        let deps_start = self.deps.len();
        let mut max_op = own.map_or(0, |own| own.max_op);
        for dep in change.deps() {
            let Some(&place) = self.by_hash.get(dep) else {
                self.deps.truncate(deps_start);
                return Err(Error::MissingDep { change: hash, dep: *dep });
            };
            max_op = max_op.max(self.changes[place as usize].max_op());
            self.deps.push(place);
        }
        let refused = if seq as usize != own_count + 1 {
            let expected = u32::try_from(own_count + 1).unwrap_or(u32::MAX);
            Some(Error::SeqGap { change: hash, expected, seq })
        } else if change.start_op() <= max_op {
            Some(Error::StartOpTooSmall { change: hash, max_op, start_op: change.start_op() })
        } else {
            None
        };
        if let Some(error) = refused {
            self.deps.truncate(deps_start);
            return Err(error);
        }

        let place = u32::try_from(self.changes.len()).expect("there are fewer than 2^32 changes");
        let author = self.intern_actor(change.actor());
        let own = &mut self.actors[author.as_usize()];
        own.changes.push(place);
        own.max_op = change.max_op();
        self.max_op = self.max_op.max(change.max_op());
        for dep in change.deps() {
            self.heads.remove(dep);
        }
        self.heads.insert(hash);
        self.by_hash.insert(hash, place);
        self.authors.push(author);
        self.deps_end.push(self.deps.len());
        self.changes.push(change);
        Ok(true)
    }

    /// The changes that are neither among `have` nor ancestors of those, in the order in which
    /// they were added. Hashes that are not in the graph are ignored. Cost: about the number of
    /// changes returned, not the size of the graph.
    pub fn changes_since(&self, have: &[ChangeHash]) -> Vec<&Change> {
        let mut since = Vec::new();
        self.visit_since(have, |place| since.push(&self.changes[place as usize]));
        since.reverse();
        since
    }

    /// Those of `hashes` that are not in the graph, in the order given.
    pub fn missing_deps(&self, hashes: &[ChangeHash]) -> Vec<ChangeHash> {
        hashes.iter().copied().filter(|hash| !self.contains(hash)).collect()
    }

    /// What the changes `heads` and their ancestors hold of each actor. Hashes that are not in
    /// the graph are ignored. Cost: the number of actors, and the number of changes since `heads`
    /// or up to them, whichever seems less.
    pub fn clock(&self, heads: &[ChangeHash]) -> Clock {
        let last = self.places(heads).max();
        match last {
            None => Clock::new(vec![ClockEntry::default(); self.actors.len()]),
            Some(last) if (last as usize) < self.changes.len() / 2 => self.clock_forwards(heads),
            Some(_) => self.clock_backwards(heads),
        }
    }

    /// The clock of all changes.
    pub fn full_clock(&self) -> Clock {
        let entry =
            |actor: &Actor| ClockEntry { seq: seq(actor.changes.len()), max_op: actor.max_op };
        Clock::new(self.actors.iter().map(entry).collect())
    }

    /// The actors that have an index.
    pub fn actors(&self) -> &[ActorId] {
        &self.actor_ids
    }

    /// The index of an actor.
    pub fn actor_idx(&self, actor: &ActorId) -> Option<ActorIdx> {
        self.by_actor.get(actor).copied()
    }

    /// The index of an actor, a new one if it has none.
    pub fn intern_actor(&mut self, actor: &ActorId) -> ActorIdx {
        if let Some(&index) = self.by_actor.get(actor) {
            return index;
        }
        let index = u32::try_from(self.actors.len()).expect("there are fewer than 2^32 actors");
        self.actors.push(Actor::default());
        self.actor_ids.push(actor.clone());
        self.by_actor.insert(actor.clone(), ActorIdx(index));
        ActorIdx(index)
    }

    /// The sequence number of the actor's last change, 0 when there is none.
    pub fn seq_of(&self, actor: &ActorId) -> u32 {
        self.actor_idx(actor).map_or(0, |actor| seq(self.actors[actor.as_usize()].changes.len()))
    }

    /// The actor's change with this sequence number.
    pub fn change_of(&self, actor: &ActorId, seq: u32) -> Option<&Change> {
        let changes = &self.actors[self.actor_idx(actor)?.as_usize()].changes;
        let place = changes.get((seq as usize).checked_sub(1)?)?;
        Some(&self.changes[*place as usize])
    }

    /// The change that holds this op, whose actor is an index of this graph. Cost: logarithmic.
    pub fn change_with_op(&self, id: OpId) -> Option<&Change> {
        let changes = &self.actors.get(id.actor.as_usize())?.changes;
        let change_at = |at: usize| &self.changes[changes[at] as usize];
        let at =
            changes.partition_point(|&place| self.changes[place as usize].max_op() < id.counter);
        (at < changes.len() && change_at(at).start_op() <= id.counter).then(|| change_at(at))
    }

    /// The greatest counter of all op ids, 0 when there is no op.
    pub fn max_op(&self) -> u32 {
        self.max_op
    }

    fn places<'a>(&'a self, hashes: &'a [ChangeHash]) -> impl Iterator<Item = u32> + 'a {
        hashes.iter().filter_map(|hash| self.by_hash.get(hash).copied())
    }

    fn deps_at(&self, place: u32) -> &[u32] {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.deps_end[place - 1] };
        &self.deps[start..self.deps_end[place]]
    }

    /// Visits, last first, the places that `have` does not reach. Goes from the heads and from
    /// `have` backwards by place: when a change comes up, all that depend on it have been seen, so
    /// it is known whether `have` reaches it; when only such ones are left, the rest is as well.
    fn visit_since(&self, have: &[ChangeHash], mut visit: impl FnMut(u32)) {
        let mut had: FxHashSet<u32> = self.places(have).collect();
        if had.is_empty() {
            let count = u32::try_from(self.changes.len()).expect("places fit 32 bits");
            (0..count).rev().for_each(visit);
            return;
        }
        let mut queue: BinaryHeap<u32> = had.iter().copied().collect();
        let mut queued = had.clone();
        let mut wanted = 0_usize;
        for place in self.heads.iter().filter_map(|head| self.by_hash.get(head).copied()) {
            if queued.insert(place) {
                queue.push(place);
                wanted += 1;
            }
        }
        while wanted > 0
            && let Some(place) = queue.pop()
        {
            let is_had = had.remove(&place);
            queued.remove(&place);
            if !is_had {
                wanted -= 1;
                visit(place);
            }
            for &dep in self.deps_at(place) {
                let newly_queued = queued.insert(dep);
                if newly_queued {
                    queue.push(dep);
                }
                if is_had {
                    if had.insert(dep) && !newly_queued {
                        wanted -= 1;
                    }
                } else if newly_queued {
                    wanted += 1;
                }
            }
        }
    }

    fn clock_backwards(&self, heads: &[ChangeHash]) -> Clock {
        let mut clock = self.full_clock();
        let mut excluded = FxHashSet::default();
        let mut touched = BTreeSet::new();
        self.visit_since(heads, |place| {
            excluded.insert(place);
            touched.insert(self.authors[place as usize]);
        });
        for actor in touched {
            let changes = &self.actors[actor.as_usize()].changes;
            let last = changes.iter().rposition(|place| !excluded.contains(place));
            clock.set(
                actor,
                last.map_or_else(ClockEntry::default, |at| ClockEntry {
                    seq: seq(at + 1),
                    max_op: self.changes[changes[at] as usize].max_op(),
                }),
            );
        }
        clock
    }

    fn clock_forwards(&self, heads: &[ChangeHash]) -> Clock {
        let mut clock = Clock::new(vec![ClockEntry::default(); self.actors.len()]);
        let mut stack: Vec<u32> = self.places(heads).collect();
        let mut seen: FxHashSet<u32> = stack.iter().copied().collect();
        while let Some(place) = stack.pop() {
            let change = &self.changes[place as usize];
            let entry = ClockEntry { seq: change.seq(), max_op: change.max_op() };
            clock.raise(self.authors[place as usize], entry);
            stack.extend(self.deps_at(place).iter().copied().filter(|&dep| seen.insert(dep)));
        }
        clock
    }
}

fn seq(count: usize) -> u32 {
    u32::try_from(count).expect("an actor has fewer than 2^32 changes")
}

#[cfg(test)]
mod tests;
