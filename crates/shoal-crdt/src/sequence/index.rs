//! Which leaf an element is in, by its id.
//!
//! Ids come in runs, so leaves are kept in pages of sixteen consecutive counters of one actor:
//! about five bytes an element where someone typed, and never more than a page an element.

use rustc_hash::FxHashMap;
use shoal_history::OpId;

/// The index of a leaf, or [`NONE`].
pub(crate) type LeafIdx = u32;

/// No leaf, no node.
pub(crate) const NONE: u32 = u32::MAX;

const PAGE: u32 = 16;

/// From element ids to leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdIndex {
    pages: FxHashMap<u64, u32>,
    slots: Vec<[LeafIdx; PAGE as usize]>,
    /// The page that was written last; typing writes it again.
    last: Option<(u64, u32)>,
}

impl IdIndex {
    /// The leaf that holds the element `id`.
    #[inline]
    pub(crate) fn get(&self, id: OpId) -> Option<LeafIdx> {
        let page = match self.last {
            Some((key, page)) if key == page_key(id) => page,
            _ => *self.pages.get(&page_key(id))?,
        };
        let leaf = self.slots[page as usize][slot(id)];
        (leaf != NONE).then_some(leaf)
    }

    /// Notes that `leaf` holds the element `id`.
    #[inline]
    pub(crate) fn set(&mut self, id: OpId, leaf: LeafIdx) {
        let key = page_key(id);
        let page = match self.last {
            Some((last, page)) if last == key => page,
            _ => {
                let next = u32::try_from(self.slots.len()).expect("ids are limited to 32 bits");
                let page = *self.pages.entry(key).or_insert(next);
                if page == next {
                    self.slots.push([NONE; PAGE as usize]);
                }
                self.last = Some((key, page));
                page
            }
        };
        self.slots[page as usize][slot(id)] = leaf;
    }

    /// Forgets the element `id`.
    pub(crate) fn remove(&mut self, id: OpId) {
        self.set(id, NONE);
    }
}

fn page_key(id: OpId) -> u64 {
    u64::from(id.actor.0) << 32 | u64::from(id.counter / PAGE)
}

fn slot(id: OpId) -> usize {
    (id.counter % PAGE) as usize
}
