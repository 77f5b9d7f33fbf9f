//! The actors named by the ops of a change, numbered in the order of appearance.

use rustc_hash::FxHashMap;

use crate::{ActorId, ActorIdx, OpId};

/// The actors of one change. While ops come in, actors get local numbers in the order of
/// appearance, the author 0; in the end final numbers, sorted by the actors' bytes, replace them
/// where they differ.
#[derive(Debug, Default)]
pub(super) struct LocalActors {
    /// The caller's index of each local number.
    pub(super) used: Vec<u32>,
    /// The reverse, for all but the author.
    local: FxHashMap<u32, u32>,
    /// The index looked up last and its local number.
    last: (u32, u32),
}

impl LocalActors {
    /// Starts the next change, by `author`.
    pub(super) fn begin(&mut self, author: ActorIdx) {
        self.used.clear();
        self.used.push(author.0);
        self.local.clear();
        self.last = (author.0, 0);
    }

    /// The actors of the change, and the final index of each local number.
    pub(super) fn sorted(&self, actors: &[ActorId]) -> (Vec<ActorId>, Vec<u64>) {
        let actor = |local: usize| &actors[self.used[local] as usize];
        if self.used.len() == 1 {
            return (vec![actor(0).clone()], Vec::new());
        }
        let mut locals: Vec<usize> = (0..self.used.len()).collect();
        locals[1..].sort_unstable_by_key(|&local| actor(local));
        let mut order = vec![0; locals.len()];
        for (index, &local) in locals.iter().enumerate() {
            order[local] = index as u64;
        }
        (locals.into_iter().map(|local| actor(local).clone()).collect(), order)
    }

    /// The id with the local number of its actor.
    #[inline]
    pub(super) fn localize(&mut self, id: OpId) -> OpId {
        let index = id.actor.0;
        if self.last.0 != index {
            self.last = (index, self.local_of(index));
        }
        OpId { counter: id.counter, actor: ActorIdx(self.last.1) }
    }

    fn local_of(&mut self, index: u32) -> u32 {
        if index == self.used[0] {
            return 0;
        }
        let next = u32::try_from(self.used.len()).expect("fewer than 2^32 actors have an index");
        let used = &mut self.used;
        *self.local.entry(index).or_insert_with(|| {
            used.push(index);
            next
        })
    }
}
