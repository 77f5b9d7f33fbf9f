//! The walks of the sync protocol: what to sum up, what to send, what has arrived. Each costs
//! what lies between the heads and what both peers have, not the whole graph.

use rustc_hash::FxHashSet;

use super::ChangeGraph;
use crate::{BloomFilter, Change, ChangeHash, Have};

impl ChangeGraph {
    /// A filter over the changes that are neither among `heads` nor ancestors of those, of at most
    /// `max_bytes`.
    pub(crate) fn bloom_since(&self, heads: &[ChangeHash], max_bytes: usize) -> BloomFilter {
        let hashes: Vec<ChangeHash> =
            self.changes_since(heads).into_iter().map(Change::hash).collect();
        BloomFilter::from_hashes_within(hashes.iter(), max_bytes)
    }

    /// What a peer lacks, seeing what it has and needs: the needed changes that are here, then
    /// those that are in none of its filters together with all that depend on them, in the order
    /// in which they were added; `sent` and what `known` reaches left out. A peer that does not
    /// say what it has gets what it needs.
    pub(crate) fn changes_for(
        &self,
        have: &[Have],
        need: &[ChangeHash],
        known: &[ChangeHash],
        sent: &FxHashSet<ChangeHash>,
    ) -> Vec<&Change> {
        let mut picks = Vec::new();
        let mut picked = FxHashSet::default();
        if !have.is_empty() {
            let last_syncs = have.iter().flat_map(|have| &have.last_sync);
            let since: Vec<ChangeHash> = last_syncs.chain(known).copied().collect();
            let mut places = Vec::new();
            self.visit_since(&since, |place| places.push(place));
            // Dependencies come first now, so one pass finds all that depend on a pick.
            for &place in places.iter().rev() {
                let hash = self.changes[place as usize].hash();
                if self.deps_at(place).iter().any(|dep| picked.contains(dep))
                    || have.iter().all(|have| !have.bloom.contains(&hash))
                {
                    picks.push(place);
                    picked.insert(place);
                }
            }
        }
        // Nor is a change sent twice because it is asked for twice.
        let need: Vec<u32> = self.places(need).filter(|&place| picked.insert(place)).collect();
        need.into_iter()
            .chain(picks)
            .map(|place| &self.changes[place as usize])
            .filter(|change| !sent.contains(&change.hash()))
            .collect()
    }

    /// Takes out of `hashes` the changes `heads` and their ancestors; heads that are not in the
    /// graph are ignored. Cost: the changes added since the first of `hashes`.
    pub(crate) fn remove_reached(&self, heads: &[ChangeHash], hashes: &mut FxHashSet<ChangeHash>) {
        let place_of = |hash: &ChangeHash| self.by_hash.get(hash).copied();
        let (Some(first), Some(last)) =
            (hashes.iter().filter_map(place_of).min(), self.places(heads).max())
        else {
            return;
        };
        let Some(range) = last.checked_sub(first) else { return };
        let mut reached = vec![false; range as usize + 1];
        for place in self.places(heads).filter(|&place| place >= first) {
            reached[(place - first) as usize] = true;
        }
        for place in (first..=last).rev() {
            if reached[(place - first) as usize] {
                for &dep in self.deps_at(place) {
                    if dep >= first {
                        reached[(dep - first) as usize] = true;
                    }
                }
            }
        }
        hashes.retain(|hash| {
            let place = place_of(hash).and_then(|place| place.checked_sub(first));
            !place.is_some_and(|at| reached.get(at as usize).copied().unwrap_or_default())
        });
    }
}
