//! Changes waiting for their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_history::{ActorId, Change, ChangeGraph, ChangeHash};

use crate::error::Error;

/// The waiting changes of one document. Adding one, and releasing one, costs its dependencies:
/// never a walk over all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiting: FxHashMap<ChangeHash, Waiting>,
    /// From a change not in the graph to its dependents, by arrival.
    dependents: BTreeMap<(ChangeHash, u64), ChangeHash>,
    /// Who waits, by author and sequence number.
    seqs: BTreeMap<(ActorId, u32), ChangeHash>,
    next_arrival: u64,
    /// Changes with all dependencies, but with a missing op named: by the op's actor and counter.
    stalled: BTreeSet<(ActorId, u32, ChangeHash)>,
    /// The awaited op of each, and the error of refusal.
    awaits: FxHashMap<ChangeHash, (ActorId, u32, Error)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    change: Change,
    arrival: u64,
    /// How many of its dependencies are not in the graph.
    missing: usize,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn contains(&self, hash: &ChangeHash) -> bool {
        self.waiting.contains_key(hash)
    }

    /// True if a change with this author and sequence number waits.
    pub(crate) fn contains_seq(&self, actor: &ActorId, seq: u32) -> bool {
        !self.seqs.is_empty() && self.seqs.contains_key(&(actor.clone(), seq))
    }

    /// The waiting changes in the order they arrived.
    pub(crate) fn changes(&self) -> Vec<&Change> {
        let mut waiting: Vec<&Waiting> = self.waiting.values().collect();
        waiting.sort_unstable_by_key(|waiting| waiting.arrival);
        waiting.into_iter().map(|waiting| &waiting.change).collect()
    }

    pub(crate) fn add(&mut self, change: Change, graph: &ChangeGraph) {
        let hash = change.hash();
        let mut missing = 0;
        for dep in change.deps() {
            // A dependency named twice counts once.
            if !graph.contains(dep)
                && self.dependents.insert((*dep, self.next_arrival), hash).is_none()
            {
                missing += 1;
            }
        }
        self.seqs.insert((change.actor().clone(), change.seq()), hash);
        self.waiting.insert(hash, Waiting { change, arrival: self.next_arrival, missing });
        self.next_arrival += 1;
    }

    /// Records the op awaited by a waiting change; `error` holds until the op is here.
    pub(crate) fn stall(
        &mut self,
        hash: ChangeHash,
        (actor, counter): (ActorId, u32),
        error: Error,
    ) {
        self.unstall(&hash);
        self.stalled.insert((actor.clone(), counter, hash));
        self.awaits.insert(hash, (actor, counter, error));
    }

    /// Takes [`Queue::stall`] back.
    pub(crate) fn unstall(&mut self, hash: &ChangeHash) {
        if self.awaits.is_empty() {
            return;
        }
        if let Some((actor, counter, _)) = self.awaits.remove(hash) {
            self.stalled.remove(&(actor, counter, *hash));
        }
    }

    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// The error of one of the changes awaiting ops.
    pub(crate) fn stalled_error(&self) -> Option<&Error> {
        let (_, _, hash) = self.stalled.first()?;
        self.awaits.get(hash).map(|(_, _, error)| error)
    }

    /// The changes awaiting ops of `applied`, or ops ruled out by later ones of the same authors in
    /// `applied`; they no longer wait. Trying them again finds out which.
    pub(crate) fn awaiting(&mut self, applied: &[Change]) -> Vec<Change> {
        let mut found = Vec::new();
        for change in applied {
            let first = (change.actor().clone(), 0, ChangeHash([0; 32]));
            let last = (change.actor().clone(), change.max_op(), ChangeHash([0xff; 32]));
            let from = found.len();
            found.extend(self.stalled.range(first..=last).map(|(_, _, hash)| *hash));
            found[from..].iter().for_each(|hash| self.unstall(hash));
        }
        found.iter().filter_map(|hash| Some(self.waiting.get(hash)?.change.clone())).collect()
    }

    pub(crate) fn remove(&mut self, hash: &ChangeHash) {
        self.unstall(hash);
        let Some(Waiting { change, arrival, .. }) = self.waiting.remove(hash) else { return };
        self.seqs.remove(&(change.actor().clone(), change.seq()));
        for dep in change.deps() {
            self.dependents.remove(&(*dep, arrival));
        }
    }

    /// Drops the changes of `actor` from the sequence number `seq` on: the number is taken by
    /// another change.
    pub(crate) fn remove_branch(&mut self, actor: &ActorId, seq: u32) {
        if self.waiting.is_empty() {
            return;
        }
        let branch: Vec<ChangeHash> = self
            .seqs
            .range((actor.clone(), seq)..=(actor.clone(), u32::MAX))
            .map(|(_, hash)| *hash)
            .collect();
        for hash in branch {
            self.remove(&hash);
        }
    }

    /// The changes applicable after `changes`: `changes` themselves, then all waiting only for
    /// changes in the result, dependencies first. They stay in the queue.
    pub(crate) fn ready(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut changes = changes;
        let mut released: FxHashMap<ChangeHash, usize> = FxHashMap::default();
        let mut next = 0;
        while !self.waiting.is_empty()
            && let Some(change) = changes.get(next)
        {
            next += 1;
            let hash = change.hash();
            for dependent in self.dependents_of(hash) {
                let Some(waiting) = self.waiting.get(dependent) else { continue };
                let count = released.entry(*dependent).or_default();
                *count += 1;
                if *count == waiting.missing {
                    changes.push(waiting.change.clone());
                }
            }
        }
        changes
    }

    /// Takes out changes now in the graph.
    pub(crate) fn release(&mut self, changes: &[Change]) {
        if self.waiting.is_empty() {
            return;
        }
        for change in changes {
            let hash = change.hash();
            self.unstall(&hash);
            if let Some(Waiting { change, .. }) = self.waiting.remove(&hash) {
                self.seqs.remove(&(change.actor().clone(), change.seq()));
            }
            let dependents: Vec<ChangeHash> = self.dependents_of(hash).copied().collect();
            for dependent in dependents {
                if let Some(waiting) = self.waiting.get_mut(&dependent) {
                    waiting.missing -= 1;
                    self.dependents.remove(&(hash, waiting.arrival));
                }
            }
        }
    }

    fn dependents_of(&self, hash: ChangeHash) -> impl Iterator<Item = &ChangeHash> {
        self.dependents.range((hash, 0)..=(hash, u64::MAX)).map(|(_, dependent)| dependent)
    }

    /// The dependencies of waiting changes not waiting themselves, ascending.
    pub(crate) fn missing(&self, graph: &ChangeGraph, heads: &[ChangeHash]) -> Vec<ChangeHash> {
        let missing: FxHashSet<ChangeHash> = self
            .dependents
            .keys()
            .map(|(dep, _)| *dep)
            .chain(heads.iter().copied())
            .filter(|hash| !graph.contains(hash) && !self.waiting.contains_key(hash))
            .collect();
        let mut missing: Vec<ChangeHash> = missing.into_iter().collect();
        missing.sort_unstable();
        missing
    }
    /// The first missing changes on the ways back from `heads`: neither in the graph nor waiting.
    /// Ascending. Cost: the waiting changes on the ways.
    pub(crate) fn missing_from(
        &self,
        graph: &ChangeGraph,
        heads: &[ChangeHash],
    ) -> Vec<ChangeHash> {
        let mut missing = Vec::new();
        let mut seen = FxHashSet::default();
        let mut stack = heads.to_vec();
        while let Some(hash) = stack.pop() {
            if graph.contains(&hash) || !seen.insert(hash) {
                continue;
            }
            match self.waiting.get(&hash) {
                Some(waiting) => stack.extend_from_slice(waiting.change.deps()),
                None => missing.push(hash),
            }
        }
        missing.sort_unstable();
        missing
    }
}
