//! The actors of a document, interned: a lasting index for each, and the order of op ids.
//!
//! Adding an actor touches no op: the order comes from comparing counters first and, when they
//! tie, the bytes of the actors.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use shoal_history::{ActorId, ActorIdx, OpId};

/// The interned actors of one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Actors {
    ids: Vec<ActorId>,
    /// The first eight bytes of each id, big-endian and padded with zeros: decides nearly every
    /// comparison without following a pointer.
    prefixes: Vec<u64>,
    by_id: FxHashMap<ActorId, ActorIdx>,
}

impl Actors {
    /// The index of `actor`, a new one for an actor not met before.
    pub(crate) fn intern(&mut self, actor: &ActorId) -> ActorIdx {
        if let Some(index) = self.by_id.get(actor) {
            return *index;
        }
        let index = ActorIdx(u32::try_from(self.ids.len()).expect("fewer than 2^32 actors fit"));
        self.ids.push(actor.clone());
        self.prefixes.push(prefix(actor.as_bytes()));
        self.by_id.insert(actor.clone(), index);
        index
    }

    /// Forgets all but the first `count` actors: the actors of refused changes.
    pub(crate) fn forget(&mut self, count: usize) {
        for actor in self.ids.drain(count.min(self.ids.len())..) {
            self.by_id.remove(&actor);
        }
        self.prefixes.truncate(count);
    }

    /// The index of a known `actor`.
    pub(crate) fn lookup(&self, actor: &ActorId) -> Option<ActorIdx> {
        self.by_id.get(actor).copied()
    }

    /// The id behind an index of this table.
    pub(crate) fn id(&self, index: ActorIdx) -> &ActorId {
        &self.ids[index.as_usize()]
    }

    /// Every actor, by index.
    pub(crate) fn ids(&self) -> &[ActorId] {
        &self.ids
    }

    /// Compares two op ids: the counter, then the bytes of the actor.
    #[inline]
    pub(crate) fn compare(&self, a: OpId, b: OpId) -> Ordering {
        a.counter.cmp(&b.counter).then_with(|| self.compare_actors(a.actor, b.actor))
    }

    fn compare_actors(&self, a: ActorIdx, b: ActorIdx) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let (a, b) = (a.as_usize(), b.as_usize());
        self.prefixes[a].cmp(&self.prefixes[b]).then_with(|| self.ids[a].cmp(&self.ids[b]))
    }
}

fn prefix(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    for (target, source) in first.iter_mut().zip(bytes) {
        *target = *source;
    }
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_order_by_counter_then_by_the_bytes_of_the_actor() {
        let mut actors = Actors::default();
        let long = actors.intern(&ActorId::new(&[1, 0, 0, 0, 0, 0, 0, 0, 9]));
        let short = actors.intern(&ActorId::new(&[1]));
        let padded = actors.intern(&ActorId::new(&[1, 0]));
        assert_eq!(actors.intern(&ActorId::new(&[1])), short);
        let id = |counter, actor| OpId { counter, actor };
        assert_eq!(actors.compare(id(2, short), id(1, long)), Ordering::Greater);
        assert_eq!(actors.compare(id(1, short), id(1, padded)), Ordering::Less);
        assert_eq!(actors.compare(id(1, padded), id(1, long)), Ordering::Less);
        assert_eq!(actors.compare(id(1, long), id(1, long)), Ordering::Equal);
    }
}
