//! A vector in chunks, shared by clones until one of them writes.
//!
//! Cloning costs a counter per chunk, writing to a shared chunk one copy.

use std::sync::Arc;

/// Values by index, `CHUNK` of them in each chunk.
#[derive(Debug)]
pub(crate) struct Slots<T, const CHUNK: usize> {
    /// Full chunks: one step from the table to a value.
    full: Vec<Arc<[T]>>,
    /// The values after them, fewer than a chunk.
    last: Option<Arc<Vec<T>>>,
}

impl<T, const CHUNK: usize> Clone for Slots<T, CHUNK> {
    fn clone(&self) -> Self {
        Self { full: self.full.clone(), last: self.last.clone() }
    }
}

impl<T, const CHUNK: usize> Default for Slots<T, CHUNK> {
    fn default() -> Self {
        Self { full: Vec::new(), last: None }
    }
}

impl<T, const CHUNK: usize> Slots<T, CHUNK> {
    /// The values of `items`, in chunks.
    pub(crate) fn from_iter(items: impl Iterator<Item = T>) -> Self {
        let mut slots = Self::default();
        let mut items = items;
        loop {
            let chunk: Vec<T> = items.by_ref().take(CHUNK).collect();
            if chunk.len() < CHUNK {
                slots.last = (!chunk.is_empty()).then(|| Arc::new(chunk));
                return slots;
            }
            slots.full.push(chunk.into());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.last.as_ref().map_or(0, |last| last.len())
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        match self.full.get(at / CHUNK) {
            Some(chunk) => chunk.get(at % CHUNK),
            None => self.last.as_ref()?.get(at.checked_sub(self.full.len() * CHUNK)?),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let last = self.last.iter().flat_map(|last| last.iter());
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(last)
    }
}

impl<T: Clone, const CHUNK: usize> Slots<T, CHUNK> {
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let at = at as usize;
        let full = self.full.len();
        match self.full.get_mut(at / CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).get_mut(at % CHUNK),
            None => Arc::make_mut(self.last.as_mut()?).get_mut(at.checked_sub(full * CHUNK)?),
        }
    }

    /// Appends a value and returns its index.
    ///
    /// # Panics
    /// After 2^32 values: out of reach for ids of 32 bits.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = u32::try_from(self.len()).expect("what ids of 32 bits name has a 32-bit index");
        let last = self.last.get_or_insert_with(|| Arc::new(Vec::with_capacity(1)));
        let values = Arc::make_mut(last);
        values.push(value);
        if values.len() == CHUNK {
            self.full.push(std::mem::take(values).into());
        }
        at
    }

    /// Takes the last value out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.last.as_ref().is_none_or(|last| last.is_empty()) {
            self.last = Some(Arc::new(self.full.pop()?.to_vec()));
        }
        Arc::make_mut(self.last.as_mut()?).pop()
    }
}

/// Values by index, where freed places are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Slots<Option<T>, 16>,
    free: Vec<u32>,
}

impl<T> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), free: self.free.clone() }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Slots::default(), free: Vec::new() }
    }
}

impl<T: Clone> Slab<T> {
    pub(crate) fn add(&mut self, item: T) -> u32 {
        if let Some(at) = self.free.pop()
            && let Some(slot) = self.items.get_mut(at)
        {
            *slot = Some(item);
            return at;
        }
        self.items.push(Some(item))
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.items.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.items.get_mut(at)?.as_mut()
    }

    pub(crate) fn take(&mut self, at: u32) -> Option<T> {
        let item = self.items.get_mut(at)?.take()?;
        self.free.push(at);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_until_one_writes() {
        let mut slots = Slots::<u32, 4>::default();
        for value in 0..10 {
            assert_eq!(slots.push(value), value);
        }
        let copy = slots.clone();
        *slots.get_mut(5).unwrap() = 50;
        assert_eq!((slots.get(5), copy.get(5)), (Some(&50), Some(&5)));
        assert!(Arc::ptr_eq(&slots.full[0], &copy.full[0]));
        assert!(!Arc::ptr_eq(&slots.full[1], &copy.full[1]));
        assert_eq!(slots.pop(), Some(9));
        assert_eq!(slots.pop(), Some(8));
        assert_eq!((slots.len(), copy.len()), (8, 10));
        assert_eq!(slots.push(80), 8);
        assert_eq!(copy.iter().copied().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        let built = Slots::<u32, 4>::from_iter(0..10);
        assert!(built.iter().eq(copy.iter()));
        assert_eq!(slots.get(9), None);
    }

    #[test]
    fn a_slab_uses_freed_places_again() {
        let mut slab = Slab::default();
        let (a, b) = (slab.add("a"), slab.add("b"));
        assert_eq!(slab.take(a), Some("a"));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.take(a), None);
        assert_eq!(slab.add("c"), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&"c"), Some(&"b")));
    }
}
