//! From hashes to places: a table of places only, because the hashes are kept by place anyway.

use crate::ChangeHash;

/// A hash table of places with linear probing, at most three quarters full. What is found costs a
/// look at the hash itself, which the caller gives.
#[derive(Clone, Debug, Default)]
pub(super) struct HashIndex {
    /// Places + 1, 0 for none; a power of two of them, or none.
    slots: Vec<u32>,
    len: usize,
}

impl HashIndex {
    /// An index of `hashes` by their places. Equal hashes give the first place.
    pub(super) fn of(hashes: &[ChangeHash]) -> Self {
        let mut index = Self::default();
        index.grow(hashes.len(), |place| hashes[place as usize]);
        for (place, hash) in (0..).zip(hashes) {
            index.insert(*hash, place, |place| hashes[place as usize]);
        }
        index
    }

    /// The number of places.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for so many places more; `hash_at` knows those that are here.
    pub(super) fn reserve(&mut self, places: usize, hash_at: impl Fn(u32) -> ChangeHash) {
        if (self.len + places) * 4 > self.slots.len() * 3 {
            self.grow(self.len + places, hash_at);
        }
    }

    /// The place of `hash`, if it is there.
    #[inline]
    pub(super) fn get(
        &self,
        hash: &ChangeHash,
        hash_at: impl Fn(u32) -> ChangeHash,
    ) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = first_slot(hash) & mask;
        loop {
            let place = self.slots[at].checked_sub(1)?;
            if hash_at(place) == *hash {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a hash that is not there; `hash_at` need not know it.
    pub(super) fn insert(
        &mut self,
        hash: ChangeHash,
        place: u32,
        hash_at: impl Fn(u32) -> ChangeHash,
    ) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow(self.len + 1, hash_at);
        }
        self.place(&hash, place);
        self.len += 1;
    }

    /// Takes out a place with its hash, which must be there. What was pushed on from its slot moves
    /// back, so that it is still found.
    pub(super) fn remove(
        &mut self,
        hash: &ChangeHash,
        place: u32,
        hash_at: impl Fn(u32) -> ChangeHash,
    ) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        let mut free = first_slot(hash) & mask;
        while self.slots[free] != place + 1 {
            if self.slots[free] == 0 {
                return;
            }
            free = (free + 1) & mask;
        }
        self.len -= 1;
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let Some(other) = self.slots[at].checked_sub(1) else { break };
            let wanted = first_slot(&hash_at(other)) & mask;
            // How far each is from where the other one would like to be.
            if at.wrapping_sub(wanted) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = other + 1;
                free = at;
            }
        }
        self.slots[free] = 0;
    }

    fn grow(&mut self, len: usize, hash_at: impl Fn(u32) -> ChangeHash) {
        let capacity = (len * 3 / 2 + 1).next_power_of_two().max(16);
        if capacity <= self.slots.len() {
            return;
        }
        let old = std::mem::replace(&mut self.slots, vec![0; capacity]);
        for place in old.into_iter().filter_map(|slot| slot.checked_sub(1)) {
            self.place(&hash_at(place), place);
        }
    }

    fn place(&mut self, hash: &ChangeHash, place: u32) {
        let mask = self.slots.len() - 1;
        let mut at = first_slot(hash) & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = place + 1;
    }
}

/// The bytes of a hash are as good as random, and dear to choose.
fn first_slot(hash: &ChangeHash) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.0[8..16]);
    (u64::from_le_bytes(bytes) & (usize::MAX as u64)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(seed: u32) -> ChangeHash {
        let mut bytes = [0; 32];
        // A hundred of them share their first slot.
        bytes[8..12].copy_from_slice(&(seed / 100).to_le_bytes());
        bytes[..4].copy_from_slice(&seed.to_le_bytes());
        ChangeHash(bytes)
    }

    #[test]
    fn finds_what_was_put_in_and_nothing_else() {
        let mut index = HashIndex::default();
        assert_eq!(index.get(&hash(0), hash), None);
        for place in 0..5000 {
            index.insert(hash(place), place, hash);
            assert!(index.len * 4 <= index.slots.len() * 3);
        }
        let all: Vec<ChangeHash> = (0..5000).map(hash).collect();
        let at_once = HashIndex::of(&all);
        for place in 0..5000 {
            assert_eq!(index.get(&hash(place), hash), Some(place));
            assert_eq!(at_once.get(&hash(place), hash), Some(place));
        }
        for place in 5000..6000 {
            assert_eq!(index.get(&hash(place), hash), None);
        }
        for place in (0..5000).rev().step_by(3) {
            index.remove(&hash(place), place, hash);
        }
        for place in 0..5000 {
            let expect = (place % 3 != 4999 % 3).then_some(place);
            assert_eq!(index.get(&hash(place), hash), expect);
        }
    }
}
