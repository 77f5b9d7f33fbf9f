//! The walks of the sync protocol: changes to sum up, to send, and arrived ones. Each costs the
//! changes between the heads and the common ones of both peers, not the whole graph.

use rustc_hash::FxHashSet;

use super::ChangeGraph;
use crate::{Change, ChangeHash};

impl ChangeGraph {
    /// Those of `hashes` that are in the graph, each once, in the order in which they were added.
    pub fn in_order(&self, hashes: &[ChangeHash]) -> Vec<&Change> {
        let mut places: Vec<u32> = self.inner.places(hashes).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| self.inner.change_at(place)).collect()
    }

    /// The hashes of the changes neither among `heads` nor among their ancestors, the last first.
    pub fn hashes_since(&self, heads: &[ChangeHash]) -> Vec<ChangeHash> {
        let mut hashes = Vec::new();
        self.inner.visit_since(heads, |place| hashes.push(self.inner.hash_at(place)));
        hashes
    }

    /// The changes missing at a peer: the needed changes present here, then the changes since
    /// `since` accepted by `lacks`, together with all their dependents, in the order of adding;
    /// `sent` ones are left out. Without `since`, for a peer silent about its changes, only the
    /// needed ones.
    pub(crate) fn changes_for(
        &self,
        since: Option<&[ChangeHash]>,
        lacks: impl Fn(&ChangeHash) -> bool,
        need: &[ChangeHash],
        sent: &FxHashSet<ChangeHash>,
    ) -> Vec<&Change> {
        let inner = &*self.inner;
        let mut picks = Vec::new();
        let mut picked = FxHashSet::default();
        if let Some(since) = since {
            let mut places = Vec::new();
            inner.visit_since(since, |place| places.push(place));
            // Dependencies come first now, so one pass finds all that depend on a pick.
            for &place in places.iter().rev() {
                let hash = inner.hash_at(place);
                if inner.deps_at(place).iter().any(|dep| picked.contains(dep)) || lacks(&hash) {
                    picks.push(place);
                    picked.insert(place);
                }
            }
        }
        // Nor is a change sent twice because it is asked for twice.
        let need: Vec<u32> = inner.places(need).filter(|&place| picked.insert(place)).collect();
        need.into_iter()
            .chain(picks)
            .filter(|place| !sent.contains(&inner.hash_at(*place)))
            .filter_map(|place| inner.change_at(place))
            .collect()
    }

    /// Takes out of `hashes` the changes `heads` and their ancestors; heads that are not in the
    /// graph are ignored. Cost: the changes added since the first of `hashes`.
    pub(crate) fn remove_reached(&self, heads: &[ChangeHash], hashes: &mut FxHashSet<ChangeHash>) {
        let Some(first) = hashes.iter().filter_map(|hash| self.inner.place_of(hash)).min() else {
            return;
        };
        let reach = self.reach(heads, first);
        hashes.retain(|hash| reach.of(self.inner.place_of(hash)) == 0);
        // Once it has held the whole document, walking the empty table would cost as much again.
        if hashes.len() < hashes.capacity() / 8 {
            hashes.shrink_to_fit();
        }
    }

    /// Takes out of `hashes` what is an ancestor of others of them. Cost: the changes added since
    /// the first of `hashes`.
    pub(crate) fn retain_heads(&self, hashes: &mut Vec<ChangeHash>) {
        let Some(first) = self.inner.places(hashes).min() else { return };
        let reach = self.reach(hashes, first);
        hashes.retain(|hash| reach.of(self.inner.place_of(hash)) & Reach::ANCESTOR == 0);
    }

    fn reach(&self, heads: &[ChangeHash], first: u32) -> Reach {
        let last = self.inner.places(heads).max();
        let Some(range) = last.and_then(|last| last.checked_sub(first)) else {
            return Reach { first, flags: Vec::new() };
        };
        let mut flags = vec![0; range as usize + 1];
        for at in self.inner.places(heads).filter_map(|place| place.checked_sub(first)) {
            flags[at as usize] = Reach::HEAD;
        }
        for at in (0..=range).rev() {
            if flags[at as usize] != 0 {
                for dep in self.inner.deps_at(first + at) {
                    if let Some(dep) = dep.checked_sub(first) {
                        flags[dep as usize] |= Reach::ANCESTOR;
                    }
                }
            }
        }
        Reach { first, flags }
    }
}

/// What some heads reach, down to a place.
struct Reach {
    first: u32,
    flags: Vec<u8>,
}

impl Reach {
    const HEAD: u8 = 1;
    const ANCESTOR: u8 = 2;

    fn of(&self, place: Option<u32>) -> u8 {
        let at = place.and_then(|place| place.checked_sub(self.first));
        at.and_then(|at| self.flags.get(at as usize).copied()).unwrap_or_default()
    }
}
