//! What some changes have before them and others have not.

use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{ChangeGraph, Inner};
use crate::{Change, ChangeHash};

impl ChangeGraph {
    /// The changes that are neither among `have` nor ancestors of those, in the order in which
    /// they were added. Hashes that are not in the graph are ignored. Cost: about the number of
    /// changes returned, not the size of the graph.
    pub fn changes_since(&self, have: &[ChangeHash]) -> Vec<&Change> {
        let mut since = Vec::new();
        self.inner.visit_since(have, |place| since.extend(self.inner.change_at(place)));
        since.reverse();
        since
    }

    /// The changes of `other` that are not here, in the order in which they were added there. Cost:
    /// about their number, and the first time that of an index of the hashes that were loaded; no
    /// other change of `other` is made.
    pub fn changes_added<'o>(&self, other: &'o Self) -> Vec<&'o Change> {
        let shared = match (&self.inner.base, &other.inner.base) {
            (Some(own), Some(theirs)) if Arc::ptr_eq(own, theirs) => other.inner.base_len,
            _ => 0,
        };
        // Who has a change has what comes before it, so nothing is looked for behind one.
        let is_here = |place| place < shared || self.contains(&other.inner.hash_at(place));
        let mut queue: BinaryHeap<u32> = other.inner.heads.iter().map(|(_, place)| place).collect();
        let mut added = Vec::new();
        let mut last = None;
        while let Some(place) = queue.pop() {
            if last.replace(place) != Some(place) && !is_here(place) {
                added.extend(other.inner.change_at(place));
                queue.extend(other.inner.deps_at(place));
            }
        }
        added.reverse();
        added
    }

    /// The changes that are among `want` or ancestors of those, and neither among `have` nor
    /// ancestors of those, in the order in which they were added. Hashes that are not in the graph
    /// are ignored. `None` if these are more than `most`, or changes of a loaded document that
    /// would have to be made first. Cost: the changes added since the first one that is returned,
    /// at most.
    pub fn changes_at_hand_between(
        &self,
        have: &[ChangeHash],
        want: &[ChangeHash],
        most: usize,
    ) -> Option<Vec<&Change>> {
        let mut between = Vec::new();
        let mut is_all = true;
        let had: FxHashSet<u32> = self.inner.places(have).collect();
        self.inner.visit_between(had, self.inner.places(want), |place| {
            let change = self.inner.change_at_hand(place).filter(|_| between.len() < most);
            is_all = change.is_some();
            between.extend(change);
            is_all
        });
        between.reverse();
        is_all.then_some(between)
    }
}

impl Inner {
    /// Visits, last first, the places that `have` does not reach.
    pub(super) fn visit_since(&self, have: &[ChangeHash], mut visit: impl FnMut(u32)) {
        let had: FxHashSet<u32> = self.places(have).collect();
        if had.is_empty() {
            let count = u32::try_from(self.len()).expect("places fit 32 bits");
            (0..count).rev().for_each(visit);
            return;
        }
        self.visit_between(had, self.heads.iter().map(|(_, place)| place), |place| {
            visit(place);
            true
        });
    }

    /// Visits, last first, the places that `want` reaches and `had` does not. Goes from both
    /// backwards by place: when a change comes up, all that depend on it have been seen, so it is
    /// known whether `had` reaches it; when only such ones are left, the rest is as well. Ends when
    /// `visit` says false.
    fn visit_between(
        &self,
        mut had: FxHashSet<u32>,
        want: impl Iterator<Item = u32>,
        mut visit: impl FnMut(u32) -> bool,
    ) {
        let mut queue: BinaryHeap<u32> = had.iter().copied().collect();
        let mut queued = had.clone();
        let mut wanted = 0_usize;
        for place in want {
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
                if !visit(place) {
                    return;
                }
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
}
