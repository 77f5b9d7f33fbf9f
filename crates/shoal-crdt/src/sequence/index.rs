//! From the id of an element to its leaf.
//!
//! Ids come in runs and leaves hold many of them, so the index is a sorted list of first ids, one
//! for each change of leaf: an entry a run at most, and none while someone types on.

use std::ops::Range;
use std::sync::Arc;

use shoal_history::OpId;

/// The index of a leaf, or [`NONE`].
pub(crate) type LeafIdx = u32;

/// No leaf, no node.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries in a chunk, at most; few under debug assertions, for tests to see many chunks.
const CHUNK: usize = if cfg!(debug_assertions) { 4 } else { 128 };

/// Ids from this one on, up to the next entry's, are in the leaf, if they are in the sequence.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    leaf: LeafIdx,
}

/// From element ids to leaves. The answer for an id outside of the sequence means nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdIndex {
    /// The first key of each chunk.
    firsts: Vec<u64>,
    /// None is empty.
    chunks: Vec<Arc<Vec<Entry>>>,
}

impl IdIndex {
    /// The index of elements whose runs begin with these ids.
    pub(crate) fn build(runs: impl Iterator<Item = (OpId, LeafIdx)>) -> Self {
        let mut entries: Vec<Entry> = runs.map(|(id, leaf)| Entry { key: key(id), leaf }).collect();
        entries.sort_unstable_by_key(|entry| entry.key);
        entries.dedup_by_key(|entry| entry.leaf);
        let chunks: Vec<Arc<Vec<Entry>>> =
            entries.chunks(CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Self { firsts: chunks.iter().map(|chunk| chunk[0].key).collect(), chunks }
    }

    /// The leaf of the element `id`, if any.
    #[inline]
    pub(crate) fn get(&self, id: OpId) -> Option<LeafIdx> {
        self.before(key(id)).map(|at| self.entry(at).leaf)
    }

    /// Assigns `len` elements from `id` on to `leaf`. `holds` is true for a leaf with ids in a
    /// range of [`key`]s.
    pub(crate) fn assign(
        &mut self,
        id: OpId,
        len: u32,
        leaf: LeafIdx,
        holds: impl Fn(LeafIdx, Range<u64>) -> bool,
    ) {
        let start = key(id);
        let end = start + u64::from(len);
        let before = self.before(start);
        let next = self.key_after(before);
        if next.is_none_or(|next| next >= end)
            && before.is_some_and(|at| self.entry(at).leaf == leaf)
        {
            return;
        }
        // Entries behind the range keep their leaf, if there are any.
        let last = self.before(end);
        let follower = last.map(|at| self.entry(at)).filter(|entry| entry.key < end);
        let until = self.key_after(last).unwrap_or(u64::MAX);
        while let Some(at) = self.before(end - 1).filter(|at| self.entry(*at).key >= start) {
            self.remove(at);
        }
        if self.get_key(start) != Some(leaf) {
            self.insert(Entry { key: start, leaf });
        }
        if let Some(follower) = follower
            && follower.leaf != leaf
            && holds(follower.leaf, end..until)
        {
            self.insert(Entry { key: end, leaf: follower.leaf });
        }
    }

    fn get_key(&self, key: u64) -> Option<LeafIdx> {
        self.before(key).map(|at| self.entry(at).leaf)
    }

    /// Where the last entry is whose key is at most `key`.
    #[inline]
    fn before(&self, key: u64) -> Option<(usize, usize)> {
        // Local edits make the greatest ids.
        let chunk = match self.firsts.last() {
            Some(first) if *first <= key => self.firsts.len() - 1,
            _ => self.firsts.partition_point(|first| *first <= key).checked_sub(1)?,
        };
        let entries = &self.chunks[chunk];
        let slot = match entries.last() {
            Some(last) if last.key <= key => entries.len(),
            _ => entries.partition_point(|entry| entry.key <= key),
        };
        Some((chunk, slot - 1))
    }

    fn entry(&self, (chunk, slot): (usize, usize)) -> Entry {
        self.chunks[chunk][slot]
    }

    /// The key of the entry after `at`; of the first one for `None`.
    fn key_after(&self, at: Option<(usize, usize)>) -> Option<u64> {
        let Some((chunk, slot)) = at else { return self.firsts.first().copied() };
        match self.chunks[chunk].get(slot + 1) {
            Some(entry) => Some(entry.key),
            None => self.firsts.get(chunk + 1).copied(),
        }
    }

    fn insert(&mut self, entry: Entry) {
        let Some((chunk, slot)) = self.before(entry.key) else {
            if self.chunks.is_empty() {
                self.chunks.push(Arc::new(vec![entry]));
                self.firsts.push(entry.key);
            } else {
                self.firsts[0] = entry.key;
                Arc::make_mut(&mut self.chunks[0]).insert(0, entry);
                self.split(0);
            }
            return;
        };
        let is_last = chunk + 1 == self.chunks.len() && slot + 1 == self.chunks[chunk].len();
        if is_last && self.chunks[chunk].len() >= CHUNK {
            self.chunks.push(Arc::new(vec![entry]));
            self.firsts.push(entry.key);
            return;
        }
        Arc::make_mut(&mut self.chunks[chunk]).insert(slot + 1, entry);
        self.split(chunk);
    }

    /// Divides an overlong chunk.
    fn split(&mut self, chunk: usize) {
        if self.chunks[chunk].len() <= CHUNK {
            return;
        }
        let right = Arc::make_mut(&mut self.chunks[chunk]).split_off(CHUNK / 2);
        self.firsts.insert(chunk + 1, right[0].key);
        self.chunks.insert(chunk + 1, Arc::new(right));
    }

    fn remove(&mut self, (chunk, slot): (usize, usize)) {
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        entries.remove(slot);
        match entries.first() {
            Some(first) => self.firsts[chunk] = first.key,
            None => {
                self.chunks.remove(chunk);
                self.firsts.remove(chunk);
            }
        }
    }
}

/// A number ordering ids by actor, then ascending.
pub(crate) fn key(id: OpId) -> u64 {
    u64::from(id.actor.0) << 32 | u64::from(id.counter)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use shoal_history::ActorIdx;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_map_from_ids_to_leaves(
            runs in prop::collection::vec((0_u32..2, 1_u32..60, 1_u32..9, 0_u32..5), 1..80),
        ) {
            let mut index = IdIndex::default();
            let mut model: BTreeMap<u64, LeafIdx> = BTreeMap::new();
            for (actor, counter, len, leaf) in runs {
                let id = OpId { counter, actor: ActorIdx(actor) };
                for at in 0..len {
                    model.insert(key(id) + u64::from(at), leaf);
                }
                index.assign(id, len, leaf, |leaf, range| {
                    model.range(range).any(|(_, other)| *other == leaf)
                });
                for (key, leaf) in &model {
                    prop_assert_eq!(index.get_key(*key), Some(*leaf));
                }
            }
        }
    }
}
