//! Pages kept in memory, as they are on disk.
//!
//! Bounded; the page to drop is chosen by the clock algorithm: a hand goes round, takes the mark
//! off pages that were used since it last came by, and drops the first one without a mark.

use rustc_hash::FxHashMap;
use shoal_format::Pgno;

use crate::page::PageRef;

/// The pages of one store.
#[derive(Debug)]
pub(crate) struct PageCache {
    places: FxHashMap<Pgno, usize>,
    slots: Vec<Slot>,
    hand: usize,
    capacity: usize,
}

#[derive(Debug)]
struct Slot {
    page: PageRef,
    used: bool,
}

impl PageCache {
    /// A cache of at most `capacity` pages, at least one.
    pub(crate) fn new(capacity: usize) -> PageCache {
        PageCache {
            places: FxHashMap::default(),
            slots: Vec::new(),
            hand: 0,
            capacity: capacity.max(1),
        }
    }

    /// Returns page `pgno` if it is here. Cost: one hash lookup, no allocation.
    #[inline]
    pub(crate) fn get(&mut self, pgno: Pgno) -> Option<PageRef> {
        let slot = &mut self.slots[*self.places.get(&pgno)?];
        slot.used = true;
        Some(slot.page.clone())
    }

    /// Keeps `page`, in place of an older version or of a page not used lately.
    pub(crate) fn put(&mut self, page: PageRef) {
        if let Some(&place) = self.places.get(&page.pgno) {
            self.slots[place].page = page;
            return;
        }
        let place = if self.slots.len() < self.capacity {
            self.slots.len()
        } else {
            let place = self.victim();
            self.places.remove(&self.slots[place].page.pgno);
            place
        };
        self.places.insert(page.pgno, place);
        let slot = Slot { page, used: false };
        match self.slots.get_mut(place) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
    }

    fn victim(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[place].used) {
                return place;
            }
        }
    }

    /// Forgets every page.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.slots.clear();
        self.hand = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32, byte: u8) -> PageRef {
        PageRef { bytes: [byte].into(), pgno: Pgno::new(number).unwrap() }
    }

    #[test]
    fn drops_what_was_not_used() {
        let mut cache = PageCache::new(3);
        for number in 1..=3 {
            cache.put(page(number, 0));
        }
        assert!(cache.get(Pgno::FIRST).is_some());
        cache.put(page(4, 0));
        assert!(cache.get(Pgno::FIRST).is_some());
        assert!(cache.get(Pgno::new(2).unwrap()).is_none());
        assert!(cache.get(Pgno::new(4).unwrap()).is_some());
        cache.put(page(4, 9));
        assert_eq!(cache.get(Pgno::new(4).unwrap()).unwrap().bytes[0], 9);
        assert_eq!(cache.slots.len(), 3);
        cache.clear();
        assert!(cache.get(Pgno::FIRST).is_none());
    }
}
