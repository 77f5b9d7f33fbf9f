//! The graph of changes: who depends on whom. Holds changes in the order of adding, dependencies
//! first, so the place of a change is also a topological number: walks backwards go by places and
//! stop early.
//!
//! The changes of a document chunk are kept as columns shared by all copies of the graph; changes
//! added one by one come after them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::{ActorId, ActorIdx, Change, ChangeHash, DocumentChunk, Error, OpId, Verify};

mod base;
mod clock;
mod fragments;
mod grow;
mod heads;
mod index;
mod past;
mod select;
mod since;
mod write;

use base::{Base, SharedBase};
pub use clock::{Clock, ClockEntry};
pub use fragments::Fragment;
pub use grow::Checkpoint;
use heads::Heads;
use index::HashIndex;

/// Every change whose dependencies are there, and the heads.
///
/// Actors get an [`ActorIdx`] when their first change is added or when
/// [`intern_actor`](Self::intern_actor) is called, and keep the index: indices are never reordered.
///
/// A copy costs nothing until either one is changed; then the changes added one by one are copied.
#[derive(Clone, Debug, Default)]
pub struct ChangeGraph {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    base: Option<SharedBase>,
    /// The number of changes of the base: these have the first places.
    base_len: u32,
    /// The changes after the base, and their most wanted parts, by place.
    changes: Vec<Change>,
    nodes: Vec<Node>,
    /// Places of dependencies, change after change.
    deps: Vec<u32>,
    /// The places of added changes, except the last few.
    index: HashIndex,
    heads: Heads,
    actors: Vec<Actor>,
    actor_ids: Vec<ActorId>,
    /// A tree and no hash table, because strangers choose these keys.
    by_actor: BTreeMap<ActorId, ActorIdx>,
    max_op: u32,
}

/// An added change.
#[derive(Clone, Copy, Debug)]
struct Node {
    hash: ChangeHash,
    author: ActorIdx,
    max_op: u32,
    /// Where its dependencies end; they begin where the last one's end.
    deps_end: u32,
    /// See [`Inner::all_before`].
    all_before: u32,
}

#[derive(Clone, Debug, Default)]
struct Actor {
    /// The places of the actor's changes, by sequence number - 1.
    changes: Vec<u32>,
    max_op: u32,
}

/// The changes of a graph, in the order of adding.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    base: std::slice::Iter<'a, Change>,
    added: std::slice::Iter<'a, Change>,
}

impl<'a> Iterator for Changes<'a> {
    type Item = &'a Change;

    fn next(&mut self) -> Option<&'a Change> {
        self.base.next().or_else(|| self.added.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.base.len() + self.added.len();
        (len, Some(len))
    }
}

impl DoubleEndedIterator for Changes<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.added.next_back().or_else(|| self.base.next_back())
    }
}

impl ExactSizeIterator for Changes<'_> {}

impl ChangeGraph {
    /// A graph without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the changes of a document chunk into an empty graph. Their bytes are made on demand.
    /// With [`Verify::Later`] so are the hashes, and the check of the chunk's ops against its
    /// changes; for an unsound chunk, the graph then has the heads stored in the chunk, and none of
    /// its changes. See [`verify`](Self::verify).
    ///
    /// # Errors
    /// As [`DocumentChunk::changes`]; [`Error::Misuse`] for a graph with changes. The graph is then
    /// as before.
    pub fn load(&mut self, chunk: &DocumentChunk, verify: Verify) -> Result<(), Error> {
        if !self.is_empty() {
            return Err(Error::Misuse { why: "a document chunk is loaded into an empty graph" });
        }
        let before = self.clone();
        let heads = chunk.head_places();
        // Without the rows of the heads these cannot be told before everything is hashed.
        let verify = match heads {
            None if verify == Verify::Later => Verify::Heads,
            _ => verify,
        };
        let local: Vec<ActorIdx> =
            chunk.actors().iter().map(|actor| self.intern_actor(actor)).collect();
        let base = Base::new(chunk, chunk.change_table(&local), verify)?;
        let inner = Arc::make_mut(&mut self.inner);
        inner.base_len = u32::try_from(base.len()).expect("a chunk has fewer than 2^32 changes");
        for (place, (&author, &max_op)) in
            (0..).zip(base.table.actors.iter().zip(&base.table.max_ops))
        {
            let actor = &mut inner.actors[author.as_usize()];
            actor.changes.push(place);
            actor.max_op = max_op;
            inner.max_op = inner.max_op.max(max_op);
        }
        inner.heads = match heads {
            Some(heads) if verify != Verify::Nothing => heads.collect(),
            _ => {
                base.table.head_rows().map(|row| (base.known_hashes()[row as usize], row)).collect()
            }
        };
        inner.base = Some(Arc::new(base));
        if let Err(error) = inner.check_own() {
            *self = before;
            return Err(error);
        }
        Ok(())
    }

    /// Checks a graph loaded with [`Verify::Later`]. Cost: rebuilding all changes the first time,
    /// later none.
    ///
    /// # Errors
    /// As [`DocumentChunk::changes`].
    pub fn verify(&self) -> Result<(), Error> {
        self.inner.base.as_ref().map_or(Ok(()), |base| base.hashes().map(drop))
    }

    /// False for a graph loaded with [`Verify::Later`] whose changes nobody asked for yet.
    pub fn is_hashed(&self) -> bool {
        self.inner.base.as_ref().is_none_or(|base| base.is_hashed())
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// True without any change.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hashes of the changes without dependents, ascending.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.inner.heads.iter().map(|(hash, _)| hash).collect()
    }

    /// True if `heads` are the heads, in any order.
    pub fn has_heads(&self, heads: &[ChangeHash]) -> bool {
        let known = &self.inner.heads;
        heads.len() == known.len()
            && heads.iter().all(|head| known.get(head).is_some())
            && (heads.len() < 2 || is_without_repeats(heads))
    }

    /// True if the change with this hash is in the graph.
    pub fn contains(&self, hash: &ChangeHash) -> bool {
        self.inner.place_of(hash).is_some()
    }

    /// The change with this hash.
    pub fn get(&self, hash: &ChangeHash) -> Option<&Change> {
        self.inner.change_at(self.inner.place_of(hash)?)
    }

    /// The change at a place in the order of adding.
    pub fn get_at(&self, place: usize) -> Option<&Change> {
        self.inner.change_at(u32::try_from(place).ok()?)
    }

    /// The changes, in the order of adding.
    pub fn changes(&self) -> Changes<'_> {
        let base = self.inner.base.as_ref().map_or(&[][..], |base| base.changes());
        Changes { base: base.iter(), added: self.inner.changes.iter() }
    }

    /// True if a document chunk gives each change back in its bytes ([`Change::is_canonical`]).
    /// Cost: for changes read from bytes, encoding each once the first time.
    pub fn is_canonical(&self) -> bool {
        self.inner.changes.iter().all(Change::is_canonical)
    }

    /// The given hashes missing from the graph, in the same order.
    pub fn missing_deps(&self, hashes: &[ChangeHash]) -> Vec<ChangeHash> {
        hashes.iter().copied().filter(|hash| !self.contains(hash)).collect()
    }

    /// The clock of the changes `heads` and their ancestors. Unknown hashes are ignored. Cost: the
    /// number of actors, and the number of changes since `heads` or up to them, the likely smaller.
    pub fn clock(&self, heads: &[ChangeHash]) -> Clock {
        let last = self.inner.places(heads).max();
        match last {
            None => self.inner.empty_clock(),
            Some(last) if (last as usize) < self.len() / 2 => self.clock_forwards(heads),
            Some(_) => self.clock_backwards(heads),
        }
    }

    /// The clock of all changes.
    pub fn full_clock(&self) -> Clock {
        let entry =
            |actor: &Actor| ClockEntry { seq: seq(actor.changes.len()), max_op: actor.max_op };
        Clock::new(self.inner.actors.iter().map(entry).collect())
    }

    /// The actors with an index.
    pub fn actors(&self) -> &[ActorId] {
        &self.inner.actor_ids
    }

    /// The index of an actor.
    pub fn actor_idx(&self, actor: &ActorId) -> Option<ActorIdx> {
        self.inner.author(actor)
    }

    /// The index of an actor, a new one for a new actor.
    pub fn intern_actor(&mut self, actor: &ActorId) -> ActorIdx {
        if let Some(index) = self.inner.author(actor) {
            return index;
        }
        let inner = Arc::make_mut(&mut self.inner);
        let index = u32::try_from(inner.actors.len()).expect("there are fewer than 2^32 actors");
        inner.actors.push(Actor::default());
        inner.actor_ids.push(actor.clone());
        inner.by_actor.insert(actor.clone(), ActorIdx(index));
        ActorIdx(index)
    }

    /// The sequence number of the actor's last change, 0 when there is none.
    pub fn seq_of(&self, actor: &ActorId) -> u32 {
        let own = self.actor_idx(actor).map(|actor| &self.inner.actors[actor.as_usize()]);
        own.map_or(0, |own| seq(own.changes.len()))
    }

    /// The greatest counter of the actor's ops, 0 when there is none.
    pub fn max_op_of(&self, actor: &ActorId) -> u32 {
        let own = self.actor_idx(actor).map(|actor| &self.inner.actors[actor.as_usize()]);
        own.map_or(0, |own| own.max_op)
    }

    /// The greatest op counter of the change with this hash, [`Change::max_op`].
    pub fn max_op_at(&self, hash: &ChangeHash) -> Option<u32> {
        Some(self.inner.max_op_at(self.inner.place_of(hash)?))
    }

    /// The actor's change with this sequence number.
    pub fn change_of(&self, actor: &ActorId, seq: u32) -> Option<&Change> {
        let changes = &self.inner.actors[self.actor_idx(actor)?.as_usize()].changes;
        self.inner.change_at(*changes.get((seq as usize).checked_sub(1)?)?)
    }

    /// The change of this op, given by an actor index of this graph. Cost: logarithmic.
    pub fn change_with_op(&self, id: OpId) -> Option<&Change> {
        let changes = &self.inner.actors.get(id.actor.as_usize())?.changes;
        let at = changes.partition_point(|&place| self.inner.max_op_at(place) < id.counter);
        let change = self.inner.change_at(*changes.get(at)?)?;
        (change.start_op() <= id.counter).then_some(change)
    }

    /// The greatest counter of all op ids, 0 when there is no op.
    pub fn max_op(&self) -> u32 {
        self.inner.max_op
    }

    fn clock_backwards(&self, heads: &[ChangeHash]) -> Clock {
        let inner = &*self.inner;
        let mut clock = self.full_clock();
        let mut excluded = FxHashSet::default();
        let mut touched = BTreeSet::new();
        inner.visit_since(heads, |place| {
            excluded.insert(place);
            touched.insert(inner.author_at(place));
        });
        for actor in touched {
            let changes = &inner.actors[actor.as_usize()].changes;
            let last = changes.iter().rposition(|place| !excluded.contains(place));
            clock.set(
                actor,
                last.map_or_else(ClockEntry::default, |at| ClockEntry {
                    seq: seq(at + 1),
                    max_op: inner.max_op_at(changes[at]),
                }),
            );
        }
        clock
    }

    fn clock_forwards(&self, heads: &[ChangeHash]) -> Clock {
        let inner = &*self.inner;
        let mut clock = inner.empty_clock();
        let mut stack: Vec<u32> = inner.places(heads).collect();
        let mut seen: FxHashSet<u32> = stack.iter().copied().collect();
        while let Some(place) = stack.pop() {
            clock.raise(inner.author_at(place), inner.entry_at(place));
            stack.extend(inner.deps_at(place).iter().copied().filter(|&dep| seen.insert(dep)));
        }
        clock
    }
}

impl Inner {
    /// The clock of no change.
    fn empty_clock(&self) -> Clock {
        Clock::new(vec![ClockEntry::default(); self.actors.len()])
    }

    /// The range of a change and its author's changes before.
    fn entry_at(&self, place: u32) -> ClockEntry {
        let changes = &self.actors[self.author_at(place).as_usize()].changes;
        let at = changes.partition_point(|own| *own < place);
        ClockEntry { seq: seq(at + 1), max_op: self.max_op_at(place) }
    }

    /// The index of an author. Most changes are by the author of the one before.
    #[inline]
    fn author(&self, actor: &ActorId) -> Option<ActorIdx> {
        match self.nodes.last().map(|last| last.author) {
            Some(last) if self.actor_ids[last.as_usize()] == *actor => Some(last),
            _ => self.by_actor.get(actor).copied(),
        }
    }

    fn len(&self) -> usize {
        self.base_len as usize + self.changes.len()
    }

    /// The base and the row there of an early place, or the index of an added change.
    #[inline]
    fn locate(&self, place: u32) -> Result<(&Base, usize), usize> {
        match (place.checked_sub(self.base_len), &self.base) {
            (None, Some(base)) => Ok((base, place as usize)),
            (added, _) => Err(added.unwrap_or(place) as usize),
        }
    }

    fn change_at(&self, place: u32) -> Option<&Change> {
        match self.locate(place) {
            Ok((base, row)) => base.changes().get(row),
            Err(added) => self.changes.get(added),
        }
    }

    /// The change at a place, unless still to be rebuilt.
    fn change_at_hand(&self, place: u32) -> Option<&Change> {
        match self.locate(place) {
            Ok((base, row)) => base.made_changes()?.get(row),
            Err(added) => self.changes.get(added),
        }
    }

    /// The hash at a place; zeros where the base cannot be rebuilt.
    fn hash_at(&self, place: u32) -> ChangeHash {
        match self.locate(place) {
            Ok((base, row)) => base.hash_at(row),
            Err(added) => self.nodes[added].hash,
        }
    }

    #[inline]
    fn max_op_at(&self, place: u32) -> u32 {
        match self.locate(place) {
            Ok((base, row)) => base.table.max_ops[row],
            Err(added) => self.nodes[added].max_op,
        }
    }

    fn author_at(&self, place: u32) -> ActorIdx {
        match self.locate(place) {
            Ok((base, row)) => base.table.actors[row],
            Err(added) => self.nodes[added].author,
        }
    }

    fn deps_at(&self, place: u32) -> &[u32] {
        match self.locate(place) {
            Ok((base, row)) => base.table.deps_at(row),
            Err(added) => {
                let start = added.checked_sub(1).map_or(0, |before| self.nodes[before].deps_end);
                &self.deps[start as usize..self.nodes[added].deps_end as usize]
            }
        }
    }

    /// The place of a change. Heads, asked for most, need no hash of another one.
    fn place_of(&self, hash: &ChangeHash) -> Option<u32> {
        if let Some(place) = self.heads.get(hash) {
            return Some(place);
        }
        let of_added = |place: u32| self.nodes[(place - self.base_len) as usize].hash;
        let indexed = self.index.get(hash, of_added);
        indexed
            .or_else(|| self.place_of_unindexed(hash))
            .or_else(|| self.base.as_ref()?.place_of(hash))
    }

    fn place_of_unindexed(&self, hash: &ChangeHash) -> Option<u32> {
        let added = self.unindexed().iter().position(|node| node.hash == *hash)?;
        u32::try_from(self.index.len() + added).ok().map(|added| self.base_len + added)
    }

    fn places<'a>(&'a self, hashes: &'a [ChangeHash]) -> impl Iterator<Item = u32> + 'a {
        hashes.iter().filter_map(|hash| self.place_of(hash))
    }
}

fn is_without_repeats(hashes: &[ChangeHash]) -> bool {
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

fn seq(count: usize) -> u32 {
    u32::try_from(count).expect("an actor has fewer than 2^32 changes")
}

#[cfg(test)]
mod tests;
