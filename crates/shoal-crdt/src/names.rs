//! The map keys and mark names of a document, each kept once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::shared::SharedMap;
use crate::slots::Slots;

/// The number of a name in its document: they count up from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameIdx(pub(crate) u32);

/// The names of one document. They are never forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    names: Slots<Arc<str>, 64>,
    /// By the hash of the name, or by the next number where that was taken. Strangers choose
    /// names, so the hash is one that they cannot foresee; nothing depends on it but time.
    by_hash: SharedMap<u64, NameIdx>,
    hasher: RandomState,
}

impl Names {
    /// The number of `name`, which is added when it is new.
    pub(crate) fn intern(&mut self, name: &str) -> NameIdx {
        match self.find(name) {
            Ok(index) => index,
            Err(hash) => {
                let index = NameIdx(self.names.push(name.into()));
                self.by_hash.insert(hash, index);
                index
            }
        }
    }

    /// The number of `name`, if it is known.
    #[inline]
    pub(crate) fn lookup(&self, name: &str) -> Option<NameIdx> {
        self.find(name).ok()
    }

    /// The number of `name`, or else the number under which it belongs in the table.
    #[inline]
    fn find(&self, name: &str) -> Result<NameIdx, u64> {
        let mut hash = self.hasher.hash_one(name);
        while let Some(index) = self.by_hash.get(&hash) {
            if self.get(*index) == name {
                return Ok(*index);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }

    /// The name behind a number of this table.
    #[inline]
    pub(crate) fn get(&self, index: NameIdx) -> &str {
        self.names.get(index.0).map_or("", |name| name)
    }
}
