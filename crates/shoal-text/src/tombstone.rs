//! Tombstones of a segment: hash pages of rowids that were deleted without their texts.

use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::structure::{Segment, tombstone_row};

/// Slots of a page at least.
const SLOT_MIN: usize = 32;

/// The tombstones of a segment, page by page as they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    segment: u32,
    pages: Vec<Option<Vec<u8>>>,
}

impl Tombstones {
    pub(crate) fn new(segment: Segment) -> Tombstones {
        Tombstones { segment: segment.id, pages: vec![None; segment.tombstone_pages as usize] }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// True of a rowid that was deleted.
    pub(crate) fn contains(&mut self, store: &dyn Storage, rowid: i64) -> Result<bool> {
        let key = rowid as u64;
        let count = self.pages.len() as u64;
        let number = (key % count) as usize;
        if self.pages[number].is_none() {
            self.pages[number] = Some(read(store, self.segment, number as u32)?);
        }
        let page = self.pages[number].as_deref().expect("the page was just read");
        if key == 0 {
            return Ok(page[1] != 0);
        }
        let size = key_size(page);
        let slots = page[8..].len() / size;
        let first = (key / count % slots as u64) as usize;
        for probe in 0..slots {
            let slot = (first + probe) % slots;
            match key_at(page, size, slot) {
                0 => return Ok(false),
                found if found == key => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}

fn read(store: &dyn Storage, segment: u32, number: u32) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let row = tombstone_row(segment, number);
    if !store.block(row, &mut page)? || page.len() < 16 {
        return Err(Error::corrupt("tombstone page", row, "is absent or too short"));
    }
    Ok(page)
}

fn key_size(page: &[u8]) -> usize {
    if page[0] == 4 { 4 } else { 8 }
}

fn key_at(page: &[u8], size: usize, slot: usize) -> u64 {
    let bytes = &page[8 + slot * size..][..size];
    bytes.iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
}

/// Adds `rowid` to the tombstones of `segment`, whose counts change with it.
pub(crate) fn add(
    store: &dyn Storage,
    segment: &mut Segment,
    rowid: i64,
    page_size: usize,
) -> Result<()> {
    let mut keys = Vec::new();
    let mut has_zero = false;
    let key = rowid as u64;
    if segment.tombstone_pages > 0 {
        let count = u64::from(segment.tombstone_pages);
        let number = (key % count) as u32;
        let mut page = read(store, segment.id, number)?;
        if insert(&mut page, key, count) {
            store.put_block(tombstone_row(segment.id, number), &page)?;
            segment.tombstones += 1;
            return Ok(());
        }
        for number in 0..segment.tombstone_pages {
            let page = read(store, segment.id, number)?;
            has_zero |= page[1] != 0;
            let size = key_size(&page);
            let slots = page[8..].len() / size;
            keys.extend((0..slots).map(|slot| key_at(&page, size, slot)).filter(|&key| key != 0));
        }
    }
    keys.push(key);
    keys.sort_unstable();
    keys.dedup();
    let pages = write(store, segment.id, &keys, has_zero, page_size)?;
    segment.tombstone_pages = pages;
    segment.tombstones += 1;
    Ok(())
}

/// Writes all tombstones anew, on pages filled by half; gives the count of pages.
fn write(
    store: &dyn Storage,
    segment: u32,
    keys: &[u64],
    has_zero: bool,
    page_size: usize,
) -> Result<u32> {
    let size = if keys.last().is_some_and(|&last| last > u64::from(u32::MAX)) { 8 } else { 4 };
    let per_page = (page_size.saturating_sub(8) / size).max(SLOT_MIN);
    let (mut count, mut slots) = (1, SLOT_MIN);
    while keys.len() * 2 > slots && slots < per_page {
        slots = (slots * 2).min(per_page);
    }
    if keys.len() * 2 > slots {
        count = (keys.len() * 2).div_ceil(slots);
    }
    loop {
        let mut pages = vec![vec![0; 8 + slots * size]; count];
        for page in &mut pages {
            page[0] = size as u8;
            page[1] = u8::from(has_zero);
        }
        let is_full = |pages: &mut Vec<Vec<u8>>, key: u64| {
            !insert(&mut pages[(key % count as u64) as usize], key, count as u64)
        };
        if keys.iter().any(|&key| is_full(&mut pages, key)) {
            count = count * 2 + 1;
            continue;
        }
        for (number, page) in pages.iter().enumerate() {
            store.put_block(tombstone_row(segment, number as u32), page)?;
        }
        return Ok(count as u32);
    }
}

/// Inserts a key into its page; false where the page is full, or has too small keys.
fn insert(page: &mut [u8], key: u64, count: u64) -> bool {
    if key == 0 {
        page[1] = 1;
        return true;
    }
    let size = key_size(page);
    let slots = page[8..].len() / size;
    let used = u32::from_be_bytes([page[4], page[5], page[6], page[7]]);
    if size == 4 && key > u64::from(u32::MAX) || used as usize * 4 >= slots * 3 {
        return false;
    }
    let mut slot = (key / count % slots as u64) as usize;
    for _ in 0..slots {
        match key_at(page, size, slot) {
            0 => {
                page[8 + slot * size..][..size].copy_from_slice(&key.to_be_bytes()[8 - size..]);
                page[4..8].copy_from_slice(&(used + 1).to_be_bytes());
                return true;
            }
            found if found == key => return true,
            _ => slot = (slot + 1) % slots,
        }
    }
    false
}
