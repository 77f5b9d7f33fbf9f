//! The map keys and mark names of a document, each kept once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::slots::Slots;

mod index;

use index::HashIndex;

/// The number of a name in its document: they count up from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameIdx(pub(crate) u32);

/// The names of one document. They are never forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    names: Slots<Arc<str>, 64>,
    /// Strangers choose names, so the hash is keyed at random; nothing depends on the hash but
    /// time.
    by_hash: HashIndex,
    hasher: RandomState,
}

impl Names {
    /// The number of `name`, a new one for a new name.
    pub(crate) fn intern(&mut self, name: &str) -> NameIdx {
        let hash = self.hash(name);
        self.find(hash, name).unwrap_or_else(|| {
            let index = self.names.push(name.into());
            self.by_hash.insert(hash, index);
            NameIdx(index)
        })
    }

    /// The number of a known `name`.
    #[inline]
    pub(crate) fn lookup(&self, name: &str) -> Option<NameIdx> {
        self.find(self.hash(name), name)
    }

    #[inline]
    fn hash(&self, name: &str) -> u32 {
        let hash = self.hasher.hash_one(name);
        (hash >> 32) as u32
    }

    #[inline]
    fn find(&self, hash: u32, name: &str) -> Option<NameIdx> {
        self.by_hash.find(hash, |index| self.get(NameIdx(index)) == name).map(NameIdx)
    }

    /// The name behind a number of this table.
    #[inline]
    pub(crate) fn get(&self, index: NameIdx) -> &str {
        self.names.get(index.0).map_or("", |name| name)
    }
}

/// Names interned lately: a document's objects have the same keys again and again.
#[derive(Debug)]
pub(crate) struct NameCache([NameIdx; CACHED]);

/// Names in the cache, a power of two.
const CACHED: usize = 256;

impl Default for NameCache {
    fn default() -> Self {
        // No document has so many names.
        Self([NameIdx(u32::MAX); CACHED])
    }
}

impl NameCache {
    /// As [`Names::intern`]; a name seen lately costs no keyed hash.
    #[inline]
    pub(crate) fn intern(&mut self, names: &mut Names, name: &str) -> NameIdx {
        let slot = &mut self.0[Self::slot(name.as_bytes())];
        if slot.0 == u32::MAX || names.get(*slot) != name {
            *slot = names.intern(name);
        }
        *slot
    }

    /// A place by the length, and the first and last bytes.
    #[inline]
    fn slot(name: &[u8]) -> usize {
        let at = |index: usize| name.get(index).copied().map_or(0, u64::from);
        let len = name.len();
        let mixed = at(0) | at(len / 2) << 8 | at(len.wrapping_sub(1)) << 16 | (len as u64) << 24;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % CACHED
    }
}
