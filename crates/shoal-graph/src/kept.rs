//! Nodes and relationships kept as they were read, until the next query.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Elements kept at most; one more drops the others.
const KEPT_MAX: usize = 1 << 16;

/// Elements by id, `None` for ids without one.
pub(crate) struct Kept<T>(FxHashMap<i64, Option<Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(FxHashMap::default())
    }
}

impl<T> Kept<T> {
    /// The element of an id; nothing where nobody has read the id.
    pub(crate) fn get(&self, id: i64) -> Option<Option<Arc<T>>> {
        self.0.get(&id).cloned()
    }

    pub(crate) fn put(&mut self, id: i64, element: Option<Arc<T>>) {
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        self.0.insert(id, element);
    }

    pub(crate) fn forget(&mut self, id: i64) {
        self.0.remove(&id);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
