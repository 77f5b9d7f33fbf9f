//! From the hashes of names to their numbers: a table shared by clones until one of them writes.

use std::sync::Arc;

/// Slots of a shard, at most; few under debug assertions, for tests to see many shards. In fewer
/// and larger shards a look-up misses the cache less, but the copy of one costs more.
const MAX_SLOTS: usize = if cfg!(debug_assertions) { 8 } else { 1 << 14 };

/// A hash table with linear probing in shards, three quarters full at most. A slot holds 32 bits of
/// the hash, enough to tell nearly all names apart unseen, and to grow the table by.
#[derive(Clone, Debug, Default)]
pub(super) struct HashIndex {
    /// A power of two of them, or none.
    shards: Vec<Shard>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Shard {
    /// The hash, then the number + 1; 0 where nothing is. A power of two of them.
    slots: Arc<[u64]>,
    len: usize,
}

impl Shard {
    fn with_slots(count: usize) -> Self {
        Self { slots: std::iter::repeat_n(0, count).collect(), len: 0 }
    }

    fn is_full(&self) -> bool {
        (self.len + 1) * 4 > self.slots.len() * 3
    }

    /// Adds a new slot.
    fn add(&mut self, slot: u64) {
        let slots = Arc::make_mut(&mut self.slots);
        let mask = slots.len() - 1;
        let mut at = (slot >> 32) as usize & mask;
        while slots[at] != 0 {
            at = (at + 1) & mask;
        }
        slots[at] = slot;
        self.len += 1;
    }

    /// Doubles the slots.
    fn widen(&mut self) {
        let mut wider = Self::with_slots(self.slots.len() * 2);
        self.occupied().for_each(|slot| wider.add(slot));
        *self = wider;
    }

    fn occupied(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|slot| *slot != 0)
    }
}

impl HashIndex {
    /// The number with this hash accepted by `is_it`.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let slots = &self.shards.get(self.shard(hash))?.slots;
        let mask = slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = *slots.get(at)?;
            if (slot >> 32) as u32 == hash {
                let number = (slot as u32).checked_sub(1)?;
                if is_it(number) {
                    return Some(number);
                }
            } else if slot == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a new number, below 2^32 - 1.
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        if self.shards.is_empty() {
            self.shards.push(Shard::with_slots(8));
        }
        while self.shards[self.shard(hash)].is_full() {
            self.grow(hash);
        }
        let at = self.shard(hash);
        self.shards[at].add(u64::from(hash) << 32 | u64::from(number + 1));
        self.len += 1;
    }

    #[inline]
    fn shard(&self, hash: u32) -> usize {
        // By the bits used last inside of a shard.
        hash.reverse_bits() as usize & (self.shards.len().wrapping_sub(1))
    }

    /// Makes room in the shard of a hash: more slots, or more shards.
    fn grow(&mut self, hash: u32) {
        let at = self.shard(hash);
        let slots = self.shards[at].slots.len();
        // A full shard among emptier ones would not get emptier.
        if slots < MAX_SLOTS || self.len < self.shards.len() * MAX_SLOTS / 4 {
            return self.shards[at].widen();
        }
        let count = self.shards.len() * 2;
        let old = std::mem::take(&mut self.shards);
        self.shards.resize_with(count, || Shard::with_slots(MAX_SLOTS));
        for slot in old.iter().flat_map(Shard::occupied) {
            let at = self.shard((slot >> 32) as u32);
            if self.shards[at].is_full() {
                self.shards[at].widen();
            }
            self.shards[at].add(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_hashes_and_clones_keep_theirs() {
        let hash = |number: u32| (number / 3).wrapping_mul(0x9e37_79b9);
        let mut index = HashIndex::default();
        assert_eq!(index.find(0, |_| true), None);
        let mut copy = index.clone();
        for number in 0..3000 {
            if number == 1000 {
                copy = index.clone();
            }
            index.insert(hash(number), number);
        }
        for number in 0..3000 {
            assert_eq!(index.find(hash(number), |other| other == number), Some(number));
            let known = (number < 1000).then_some(number);
            assert_eq!(copy.find(hash(number), |other| other == number), known);
        }
        assert_eq!(index.find(hash(3000), |_| true), None);
    }
}
