//! A hash map in shards, shared by clones until one of them writes.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Entries in a shard, on average at most; few under debug assertions, for tests to see many. In
/// fewer and larger shards a look-up misses the cache less, but the copy of one costs more.
const SHARD: usize = if cfg!(debug_assertions) { 4 } else { 8192 };

/// Values by key. Cloning costs a counter per shard, writing to a shared shard one copy.
#[derive(Debug)]
pub(crate) struct SharedMap<K, V> {
    /// A power of two of them, or none.
    shards: Vec<Arc<FxHashMap<K, V>>>,
    len: usize,
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { shards: Vec::new(), len: 0 }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> SharedMap<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.shards.get(self.shard(key))?.get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.len >= self.shards.len() * SHARD {
            self.grow();
        }
        let shard = self.shard(&key);
        if let Some(shard) = self.shards.get_mut(shard) {
            let is_new = Arc::make_mut(shard).insert(key, value).is_none();
            self.len += usize::from(is_new);
        }
    }

    /// Makes room for `count` entries in an empty map.
    pub(crate) fn reserve(&mut self, count: usize) {
        if self.len == 0 && count > self.shards.len() * SHARD {
            let shards = count.div_ceil(SHARD).next_power_of_two();
            let room = count / shards + count / shards / 8;
            let shard = || Arc::new(FxHashMap::with_capacity_and_hasher(room, FxBuildHasher));
            self.shards = std::iter::repeat_with(shard).take(shards).collect();
        }
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let shard = self.shard(key);
        let removed = Arc::make_mut(self.shards.get_mut(shard)?).remove(key)?;
        self.len -= 1;
        Some(removed)
    }

    /// Other bits of the hash than the tables within the shards use.
    #[inline]
    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        if self.shards.len() < 2 {
            return 0;
        }
        (FxBuildHasher.hash_one(key) >> 28) as usize & (self.shards.len() - 1)
    }

    fn grow(&mut self) {
        let count = (self.shards.len() * 2).max(1);
        let old = std::mem::take(&mut self.shards);
        if old.is_empty() {
            self.shards.push(Arc::default());
            return;
        }
        let mut shards: Vec<FxHashMap<K, V>> = Vec::with_capacity(count);
        shards.resize_with(count, || {
            FxHashMap::with_capacity_and_hasher(SHARD / 2 + SHARD / 16, FxBuildHasher)
        });
        self.shards = shards.into_iter().map(Arc::new).collect();
        for shard in old {
            let entries = Arc::try_unwrap(shard).unwrap_or_else(|shard| (*shard).clone());
            for (key, value) in entries {
                let shard = self.shard(&key);
                if let Some(shard) = self.shards.get_mut(shard) {
                    Arc::make_mut(shard).insert(key, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_that_clones_share() {
        let mut map = SharedMap::<Arc<str>, usize>::default();
        assert_eq!(map.get("0"), None);
        map.reserve(50);
        assert_eq!(map.get("0"), None);
        for number in 0..300 {
            map.insert(number.to_string().as_str().into(), number);
        }
        let copy = map.clone();
        map.insert("7".into(), 70);
        assert_eq!(map.remove("8"), Some(8));
        assert_eq!(map.remove("8"), None);
        assert_eq!((map.get("7"), copy.get("7")), (Some(&70), Some(&7)));
        for number in 9..300 {
            assert_eq!(map.get(number.to_string().as_str()), Some(&number));
        }
        assert_eq!((map.len, copy.len), (299, 300));
    }
}
