//! Changing a b-tree page in place: allocating and freeing cells as SQLite does (file format §1.6,
//! "freeblock" and "fragment").

use crate::cell::MIN_SIZE;
use crate::page::{Page, PageHeader, PageHeaderEdit, PageKind, header_start};
use crate::{Corrupt, Pgno};

/// Most fragmented bytes a page may have before it must be packed.
const MAX_FRAGMENTED: usize = 60;

/// Where a cell may go.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// The end of the gap.
    Gap(usize),
    /// The last bytes of the freeblock at `at`; `rest` bytes stay free.
    EndOfBlock { at: usize, rest: usize },
    /// All of the freeblock at `at`, pointed to by `previous` or the header. So many bytes are
    /// fragments then.
    Block { previous: Option<usize>, at: usize, next: usize, fragmented: usize },
}

/// A b-tree page being changed.
///
/// The page should have passed [`Page::check`] when it was read; what is then still wrong (cells
/// that overlap, say) ends in an error or in other cells of the same page, never outside of it.
#[derive(Debug)]
pub struct PageEdit<'a> {
    bytes: &'a mut [u8],
    pgno: Pgno,
    usable: usize,
    /// True where freed bytes become zeroes.
    wipes: bool,
}

impl<'a> PageEdit<'a> {
    /// Views page `pgno`, with all its bytes, to change it.
    ///
    /// # Errors
    /// As [`Page::new`].
    pub fn new(bytes: &'a mut [u8], pgno: Pgno, usable: usize) -> Result<PageEdit<'a>, Corrupt> {
        Page::new(bytes, pgno, usable)?;
        Ok(PageEdit { bytes, pgno, usable, wipes: false })
    }

    /// The same with the bytes of removed cells overwritten by zeroes, or not.
    #[must_use]
    pub fn wiping(mut self, wipes: bool) -> PageEdit<'a> {
        self.wipes = wipes;
        self
    }

    /// Makes page `pgno` an empty page of `kind` and views it. The reserved bytes stay, and so does
    /// the file header on page 1.
    ///
    /// # Panics
    /// When `bytes` is shorter than `usable` or `usable` below 480.
    pub fn create(
        bytes: &'a mut [u8],
        pgno: Pgno,
        usable: usize,
        kind: PageKind,
        right_child: Option<Pgno>,
    ) -> PageEdit<'a> {
        let start = header_start(pgno);
        bytes[start..usable].fill(0);
        let mut edit = PageEdit { bytes, pgno, usable, wipes: false };
        let mut header = edit.header_edit();
        header.kind(kind.byte()).content_start((usable % 65536) as u16);
        if let Some(child) = right_child {
            header.right_child(child.get());
        }
        edit
    }

    /// Returns the page at present.
    pub fn page(&self) -> Page<'_> {
        Page::new(self.bytes, self.pgno, self.usable).expect("an edit keeps the page readable")
    }

    fn header(&self) -> PageHeader<'_> {
        let start = header_start(self.pgno);
        PageHeader::new(self.bytes[start..].first_chunk().expect("usable is 480 at least"))
    }

    fn header_edit(&mut self) -> PageHeaderEdit<'_> {
        let start = header_start(self.pgno);
        let chunk = self.bytes[start..].first_chunk_mut().expect("usable is 480 at least");
        PageHeaderEdit::new(chunk)
    }

    fn pointers(&self) -> usize {
        header_start(self.pgno) + self.page().kind().header_size()
    }

    /// Puts `cell` before cell `index` (at the end for `index` equal to their number). False when
    /// the page has no room, and then nothing changed.
    ///
    /// `scratch` is a buffer for packing the page; its content does not matter.
    ///
    /// # Errors
    /// [`Corrupt`] when the free space is not as the header says.
    ///
    /// # Panics
    /// When `index` is past the end.
    pub fn insert(
        &mut self,
        index: usize,
        cell: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<bool, Corrupt> {
        self.insert_parts(index, cell, &[], scratch)
    }

    /// As [`PageEdit::insert`] of a cell whose bytes are `head` followed by `tail`.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    ///
    /// # Panics
    /// As [`PageEdit::insert`].
    pub fn insert_parts(
        &mut self,
        index: usize,
        head: &[u8],
        tail: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<bool, Corrupt> {
        let page = self.page();
        let count = page.cell_count();
        assert!(index <= count, "a cell is put before or after an existing one");
        let size = (head.len() + tail.len()).max(MIN_SIZE);
        let Some(room) = self.find_room(size, scratch)? else { return Ok(false) };
        let offset = self.take(room, size);
        self.write_cell(offset, size, head, tail);
        let pointers = self.pointers();
        let at = pointers + 2 * index;
        self.bytes.copy_within(at..pointers + 2 * count, at + 2);
        self.bytes[at..at + 2].copy_from_slice(&(offset as u16).to_be_bytes());
        self.header_edit().cell_count((count + 1) as u16);
        Ok(true)
    }

    /// Makes room for inserting a cell of `size` bytes, by packing the page if need be.
    /// False when the page has no room.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    pub fn reserve(&mut self, size: usize, scratch: &mut Vec<u8>) -> Result<bool, Corrupt> {
        Ok(self.find_room(size.max(MIN_SIZE), scratch)?.is_some())
    }

    /// Puts the cell of `head` followed by `tail` behind all others, into the gap. False when the
    /// gap is too small, although there may be other free bytes; nothing changed then.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    #[inline]
    pub fn push_parts(&mut self, head: &[u8], tail: &[u8]) -> Result<bool, Corrupt> {
        let page = self.page();
        let (gap, count) = (page.gap()?, page.cell_count());
        let size = (head.len() + tail.len()).max(MIN_SIZE);
        if gap.len() < size + 2 {
            return Ok(false);
        }
        let offset = gap.end - size;
        self.write_cell(offset, size, head, tail);
        self.bytes[gap.start..gap.start + 2].copy_from_slice(&(offset as u16).to_be_bytes());
        self.header_edit().cell_count((count + 1) as u16).content_start(offset as u16);
        Ok(true)
    }

    /// Takes room for a cell of `size` bytes behind all others, from the gap, and gives its bytes,
    /// all of which are to be written. `None` when the gap is too small; nothing changed then.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    #[inline]
    pub fn push_cell(&mut self, size: usize) -> Result<Option<&mut [u8]>, Corrupt> {
        let page = self.page();
        let (gap, count) = (page.gap()?, page.cell_count());
        let taken = size.max(MIN_SIZE);
        if gap.len() < taken + 2 {
            return Ok(None);
        }
        let offset = gap.end - taken;
        self.bytes[gap.start..gap.start + 2].copy_from_slice(&(offset as u16).to_be_bytes());
        self.header_edit().cell_count((count + 1) as u16).content_start(offset as u16);
        self.bytes[offset + size..offset + taken].fill(0);
        Ok(Some(&mut self.bytes[offset..offset + size]))
    }

    /// Writes `payload` over that of leaf cell `index`. False when the lengths differ, when the old
    /// one goes on on other pages, and on interior pages; nothing changed then.
    ///
    /// # Errors
    /// [`Corrupt`] for a broken cell.
    pub fn overwrite(&mut self, index: usize, payload: &[u8]) -> Result<bool, Corrupt> {
        let page = self.page();
        let known = match page.kind() {
            PageKind::TableLeaf => page.table_leaf(index)?.payload,
            PageKind::IndexLeaf => page.index(index)?.payload,
            PageKind::TableInterior | PageKind::IndexInterior => return Ok(false),
        };
        if known.overflow.is_some() || known.local.len() != payload.len() {
            return Ok(false);
        }
        let start = page.offset_of(known.local);
        self.bytes[start..start + payload.len()].copy_from_slice(payload);
        Ok(true)
    }

    #[inline]
    fn write_cell(&mut self, offset: usize, size: usize, head: &[u8], tail: &[u8]) {
        let (middle, end) = (offset + head.len(), offset + head.len() + tail.len());
        self.bytes[offset..middle].copy_from_slice(head);
        self.bytes[middle..end].copy_from_slice(tail);
        self.bytes[end..offset + size].fill(0);
    }

    /// Finds room for a cell of `size` bytes and its pointer; packs the page as the last resort.
    /// `None` when the page has not so many free bytes.
    fn find_room(&mut self, size: usize, scratch: &mut Vec<u8>) -> Result<Option<Room>, Corrupt> {
        let page = self.page();
        let gap = page.gap()?;
        let wanted = size + 2;
        if page.header().first_freeblock() != 0
            && let Some(block) = self.find_block(size)?
        {
            return Ok(Some(block));
        }
        if gap.len() >= wanted {
            return Ok(Some(Room::Gap(gap.end)));
        }
        if page.free_bytes()? < wanted {
            return Ok(None);
        }
        self.pack(scratch)?;
        let gap = self.page().gap()?;
        Ok((gap.len() >= wanted).then_some(Room::Gap(gap.end)))
    }

    /// Finds a freeblock for a cell of `size` bytes, if the gap has room for its pointer.
    fn find_block(&self, size: usize) -> Result<Option<Room>, Corrupt> {
        let page = self.page();
        let gap = page.gap()?;
        if gap.len() < 2 {
            return Ok(None);
        }
        let mut previous = None;
        let mut least = gap.end;
        let mut at = usize::from(page.header().first_freeblock());
        while at != 0 {
            let block = page.freeblock(at, least)?;
            if block.size >= size {
                let rest = block.size - size;
                if rest >= 4 {
                    return Ok(Some(Room::EndOfBlock { at, rest }));
                }
                let fragmented = usize::from(page.header().fragmented_bytes()) + rest;
                if fragmented <= MAX_FRAGMENTED {
                    return Ok(Some(Room::Block { previous, at, next: block.next, fragmented }));
                }
            }
            previous = Some(at);
            least = at + block.size;
            at = block.next;
        }
        Ok(None)
    }

    /// Takes the room found for a cell of `size` bytes; gives the cell's offset.
    fn take(&mut self, room: Room, size: usize) -> usize {
        match room {
            Room::Gap(end) => self.take_from_gap(end, size),
            Room::EndOfBlock { at, rest } => {
                // The cell takes the end of the block: the list stays unchanged.
                self.bytes[at + 2..at + 4].copy_from_slice(&(rest as u16).to_be_bytes());
                at + rest
            }
            Room::Block { previous, at, next, fragmented } => {
                self.link_freeblock(previous, next);
                self.header_edit().fragmented_bytes(fragmented as u8);
                at
            }
        }
    }

    fn take_from_gap(&mut self, end: usize, size: usize) -> usize {
        let offset = end - size;
        self.header_edit().content_start(offset as u16);
        offset
    }

    fn link_freeblock(&mut self, previous: Option<usize>, next: usize) {
        match previous {
            Some(at) => self.bytes[at..at + 2].copy_from_slice(&(next as u16).to_be_bytes()),
            None => {
                self.header_edit().first_freeblock(next as u16);
            }
        }
    }

    /// Removes cell `index`; its bytes become free.
    ///
    /// # Errors
    /// [`Corrupt`] for a broken cell, or for a cell in free space.
    pub fn remove(&mut self, index: usize) -> Result<(), Corrupt> {
        let page = self.page();
        let (offset, size) = page.cell_extent(index)?;
        let size = size.max(MIN_SIZE);
        let count = page.cell_count();
        if offset + size > self.usable {
            return Err(page.corrupt("has a cell that passes its end, offset", offset));
        }
        if self.wipes {
            self.bytes[offset..offset + size].fill(0);
        }
        self.free(offset, size)?;
        let pointers = self.pointers();
        let at = pointers + 2 * index;
        self.bytes.copy_within(at + 2..pointers + 2 * count, at);
        self.header_edit().cell_count((count - 1) as u16);
        if count == 1 {
            let usable = self.usable;
            self.header_edit()
                .first_freeblock(0)
                .content_start((usable % 65536) as u16)
                .fragmented_bytes(0);
        }
        Ok(())
    }

    /// Returns `size` bytes at `offset` to the free space, joined with free neighbours.
    fn free(&mut self, offset: usize, size: usize) -> Result<(), Corrupt> {
        let page = self.page();
        let gap = page.gap()?;
        let (mut start, mut end) = (offset, offset + size);
        if start < gap.end {
            return Err(page.corrupt("has a cell in its gap, offset", start));
        }
        let mut fragmented = usize::from(page.header().fragmented_bytes());
        // The blocks around the freed bytes: `before` ends at or before them, `after` follows.
        let mut before_previous = None;
        let mut before: Option<(usize, usize)> = None;
        let mut least = gap.end;
        let mut at = usize::from(page.header().first_freeblock());
        while at != 0 && at < start {
            let block = page.freeblock(at, least)?;
            least = at + block.size;
            before_previous = before.map(|(at, _)| at);
            before = Some((at, least));
            at = block.next;
        }
        let mut next = at;
        if at != 0 {
            let block = page.freeblock(at, least)?;
            // Up to three bytes between two freeblocks can only be fragments.
            if end + 3 >= at {
                if at < end {
                    return Err(page.corrupt("has a cell in a freeblock, offset", at));
                }
                fragmented = fragmented.saturating_sub(at - end);
                end = at + block.size;
                next = block.next;
            }
        }
        let mut previous = before.map(|(at, _)| at);
        if let Some((at, block_end)) = before {
            if block_end > start {
                return Err(page.corrupt("has a cell in a freeblock, offset", start));
            }
            if block_end + 3 >= start {
                fragmented = fragmented.saturating_sub(start - block_end);
                start = at;
                previous = before_previous;
            }
        }
        self.header_edit().fragmented_bytes(fragmented as u8);
        if start == gap.end {
            // At the edge of the gap, the block simply widens the gap.
            self.header_edit().first_freeblock(next as u16).content_start((end % 65536) as u16);
            return Ok(());
        }
        self.bytes[start..start + 2].copy_from_slice(&(next as u16).to_be_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&((end - start) as u16).to_be_bytes());
        self.link_freeblock(previous, start);
        Ok(())
    }

    /// Moves all cells to the end of the page, and all free bytes into the gap.
    ///
    /// # Errors
    /// [`Corrupt`] when a cell is broken or the cells together are larger than the page.
    fn pack(&mut self, scratch: &mut Vec<u8>) -> Result<(), Corrupt> {
        scratch.clear();
        scratch.extend_from_slice(&self.bytes[..self.usable]);
        let source = Page::new(scratch, self.pgno, self.usable)?;
        let pointers = self.pointers();
        let least = pointers + 2 * source.cell_count();
        let mut end = self.usable;
        for index in 0..source.cell_count() {
            let (offset, size) = source.cell_extent(index)?;
            let taken = size.max(MIN_SIZE);
            if end < least + taken {
                return Err(source.corrupt("has cells that overlap, cell", index));
            }
            end -= taken;
            self.bytes[end..end + size].copy_from_slice(&scratch[offset..offset + size]);
            self.bytes[end + size..end + taken].fill(0);
            let at = pointers + 2 * index;
            self.bytes[at..at + 2].copy_from_slice(&(end as u16).to_be_bytes());
        }
        self.bytes[least..end].fill(0);
        self.header_edit()
            .first_freeblock(0)
            .content_start((end % 65536) as u16)
            .fragmented_bytes(0);
        Ok(())
    }

    /// Puts `cell` after the last one on a page that was created just now and only filled by this
    /// function. False when it has no room.
    pub fn append(&mut self, cell: &[u8]) -> bool {
        let header = self.header();
        let count = usize::from(header.cell_count());
        let end = match header.content_start() {
            0 => 65536,
            end => usize::from(end),
        };
        let at = self.pointers() + 2 * count;
        let size = cell.len().max(MIN_SIZE);
        if at + 2 + size > end {
            return false;
        }
        let offset = end - size;
        self.bytes[offset..offset + cell.len()].copy_from_slice(cell);
        self.bytes[at..at + 2].copy_from_slice(&(offset as u16).to_be_bytes());
        self.header_edit().cell_count((count + 1) as u16).content_start(offset as u16);
        true
    }

    /// Makes `child` the child left of cell `index`, or the right child for `index` equal to the
    /// number of cells.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken or the page is a leaf.
    pub fn set_child(&mut self, index: usize, child: Pgno) -> Result<(), Corrupt> {
        let page = self.page();
        page.child(index)?;
        if index == page.cell_count() {
            self.header_edit().right_child(child.get());
            return Ok(());
        }
        let (offset, _) = page.cell_extent(index)?;
        self.bytes[offset..offset + 4].copy_from_slice(&child.get().to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cell::push_leaf_head;

    fn cell(rowid: i64, len: usize) -> Vec<u8> {
        let mut cell = Vec::new();
        push_leaf_head(len, Some(rowid), &mut cell);
        cell.resize(cell.len() + len, rowid as u8);
        cell
    }

    proptest! {
        /// Random insertions and removals against a vector of cells; after each step the page
        /// accounts for every byte.
        #[test]
        fn a_page_is_a_vector_of_cells(
            steps in prop::collection::vec((any::<bool>(), any::<u16>(), 0_usize..60), 1..200),
            first in any::<bool>(),
        ) {
            let pgno = Pgno::new(if first { 1 } else { 2 }).unwrap();
            let mut bytes = vec![0xaa; 512];
            let mut scratch = Vec::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            let mut page = PageEdit::create(&mut bytes, pgno, 500, PageKind::TableLeaf, None);
            for (number, (insert, place, len)) in steps.into_iter().enumerate() {
                if insert || model.is_empty() {
                    let index = usize::from(place) % (model.len() + 1);
                    let cell = cell(number as i64, len);
                    let free = page.page().free_bytes().unwrap();
                    let fits = page.insert(index, &cell, &mut scratch).unwrap();
                    prop_assert_eq!(fits, free >= cell.len().max(4) + 2);
                    if fits {
                        model.insert(index, cell);
                    }
                } else {
                    let index = usize::from(place) % model.len();
                    page.remove(index).unwrap();
                    model.remove(index);
                }
                let view = page.page();
                view.check().unwrap();
                prop_assert_eq!(view.cell_count(), model.len());
                for (index, cell) in model.iter().enumerate() {
                    prop_assert_eq!(view.cell(index).unwrap(), &cell[..]);
                }
            }
            prop_assert!(bytes[500..].iter().all(|&byte| byte == 0xaa));
        }

        #[test]
        fn forged_pages_are_safe_to_change(
            mut bytes in prop::collection::vec(any::<u8>(), 512),
            index in 0_usize..20,
            len in 0_usize..40,
        ) {
            bytes[0] = 13;
            bytes[3] = 0;
            bytes[4] %= 20;
            bytes[5] %= 2;
            let mut scratch = Vec::new();
            let mut page = PageEdit::new(&mut bytes, Pgno::new(2).unwrap(), 512).unwrap();
            let _ = page.remove(index);
            let count = page.page().cell_count();
            let _ = page.insert(index.min(count), &cell(1, len), &mut scratch);
            let _ = page.page().check();
        }
    }

    #[test]
    fn the_largest_page_wraps_its_offset() {
        let mut bytes = vec![0; 65536];
        let two = Pgno::new(2).unwrap();
        let mut page = PageEdit::create(&mut bytes, two, 65536, PageKind::TableLeaf, None);
        assert_eq!(page.page().gap().unwrap(), 8..65536);
        assert!(page.insert(0, &cell(1, 30), &mut Vec::new()).unwrap());
        page.page().check().unwrap();
        page.remove(0).unwrap();
        assert_eq!(page.page().gap().unwrap(), 8..65536);
    }

    #[test]
    fn children() {
        let mut bytes = vec![0; 512];
        let [two, three, four] = [2, 3, 4].map(|number| Pgno::new(number).unwrap());
        let kind = PageKind::TableInterior;
        let mut page = PageEdit::create(&mut bytes, two, 512, kind, Some(three));
        assert!(page.append(&[0, 0, 0, 4, 9]));
        assert_eq!((page.page().child(0), page.page().child(1)), (Ok(four), Ok(three)));
        page.set_child(0, two).unwrap();
        page.set_child(1, four).unwrap();
        assert_eq!((page.page().child(0), page.page().child(1)), (Ok(two), Ok(four)));
        assert!(page.set_child(2, four).is_err());
    }
}
