//! A vector in chunks, which clones share until one of them writes.
//!
//! Cloning costs a counter per chunk, writing to a shared chunk one copy of that chunk.

use std::sync::Arc;

/// Values by index, `CHUNK` of them in each chunk.
#[derive(Debug)]
pub(crate) struct Slots<T, const CHUNK: usize> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T, const CHUNK: usize> Clone for Slots<T, CHUNK> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T, const CHUNK: usize> Default for Slots<T, CHUNK> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T, const CHUNK: usize> Slots<T, CHUNK> {
    /// The values of `items`, in chunks.
    pub(crate) fn from_iter(items: impl Iterator<Item = T>) -> Self {
        let mut slots = Self::default();
        let mut items = items.peekable();
        while items.peek().is_some() {
            let chunk: Vec<T> = items.by_ref().take(CHUNK).collect();
            slots.len += chunk.len();
            slots.chunks.push(Arc::new(chunk));
        }
        slots
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone, const CHUNK: usize> Slots<T, CHUNK> {
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let at = at as usize;
        Arc::make_mut(self.chunks.get_mut(at / CHUNK)?).get_mut(at % CHUNK)
    }

    /// Appends a value and returns its index.
    ///
    /// # Panics
    /// After 2^32 values, which ids of 32 bits cannot lead to.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = u32::try_from(self.len).expect("what ids of 32 bits name has a 32-bit index");
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(1)));
        }
        if let Some(last) = self.chunks.last_mut() {
            Arc::make_mut(last).push(value);
        }
        self.len += 1;
        at
    }

    /// Takes the last value out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = Arc::make_mut(self.chunks.last_mut()?);
        let value = last.pop();
        if last.is_empty() {
            self.chunks.pop();
        }
        self.len -= usize::from(value.is_some());
        value
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
        assert!(Arc::ptr_eq(&slots.chunks[0], &copy.chunks[0]));
        assert!(!Arc::ptr_eq(&slots.chunks[1], &copy.chunks[1]));
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
