//! The heads of a graph, with their places. Most graphs have one or two, and every change that is
//! added takes some out and puts itself in: a short sorted list does that without an allocation.
//! Strangers can make any number, so a long one is a tree.

use std::collections::BTreeMap;

use crate::ChangeHash;

/// Hashes that no change depends on, ascending, and the places of their changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    /// All of them, while `many` is empty.
    few: Vec<(ChangeHash, u32)>,
    many: BTreeMap<ChangeHash, u32>,
}

/// The most that are kept as a list.
const FEW: usize = 16;

impl Heads {
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    #[inline]
    pub(super) fn get(&self, hash: &ChangeHash) -> Option<u32> {
        match self.find(hash) {
            Ok(at) => Some(self.few[at].1),
            Err(_) if self.many.is_empty() => None,
            Err(_) => self.many.get(hash).copied(),
        }
    }

    pub(super) fn insert(&mut self, hash: ChangeHash, place: u32) {
        match self.find(&hash) {
            Ok(at) => self.few[at].1 = place,
            Err(at) if self.many.is_empty() && self.few.len() < FEW => {
                self.few.insert(at, (hash, place));
            }
            Err(_) => {
                self.many.extend(self.few.drain(..));
                self.many.insert(hash, place);
            }
        }
    }

    pub(super) fn remove(&mut self, hash: &ChangeHash) -> Option<u32> {
        match self.find(hash) {
            Ok(at) => Some(self.few.remove(at).1),
            Err(_) if self.many.is_empty() => None,
            Err(_) => self.many.remove(hash),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChangeHash, u32)> {
        let many = self.many.iter().map(|(hash, place)| (*hash, *place));
        self.few.iter().copied().chain(many)
    }

    fn find(&self, hash: &ChangeHash) -> Result<usize, usize> {
        match &self.few[..] {
            [] => Err(0),
            [(only, _)] if only == hash => Ok(0),
            few => few.binary_search_by_key(hash, |(hash, _)| *hash),
        }
    }
}

impl FromIterator<(ChangeHash, u32)> for Heads {
    fn from_iter<I: IntoIterator<Item = (ChangeHash, u32)>>(heads: I) -> Self {
        let mut all = Self::default();
        heads.into_iter().for_each(|(hash, place)| all.insert(hash, place));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_sorted_map_however_many_there_are() {
        let hash = |seed: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9).to_be_bytes());
            ChangeHash(bytes)
        };
        let (mut heads, mut model) = (Heads::default(), BTreeMap::new());
        for step in 0..600_u32 {
            // Grows beyond the list, then shrinks to nothing, twice.
            let seed = step % 300;
            if seed < 150 {
                heads.insert(hash(seed), step);
                model.insert(hash(seed), step);
            } else {
                assert_eq!(heads.remove(&hash(seed - 150)), model.remove(&hash(seed - 150)));
            }
            assert_eq!(heads.len(), model.len());
            assert!(heads.iter().eq(model.iter().map(|(hash, place)| (*hash, *place))));
            assert_eq!(heads.get(&hash(7)), model.get(&hash(7)).copied());
            assert_eq!(heads.remove(&hash(1000)), None);
        }
    }
}
