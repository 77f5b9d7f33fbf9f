//! Changing a b-tree page in place: allocating and freeing cells as SQLite does (file format §1.6,
//! "freeblock" and "fragment").

use crate::cell::MIN_SIZE;
use crate::page::{Page, PageHeaderEdit, PageKind, header_start};
use crate::{CellExtent, Corrupt, Pgno};

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
    kind: PageKind,
    usable: usize,
    /// True where freed bytes become zeroes.
    wipes: bool,
}

impl<'a> PageEdit<'a> {
    /// Views page `pgno`, with all its bytes, to change it.
    ///
    /// # Errors
    /// As [`Page::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8], pgno: Pgno, usable: usize) -> Result<PageEdit<'a>, Corrupt> {
        let kind = Page::new(bytes, pgno, usable)?.kind();
        Ok(PageEdit { bytes, pgno, kind, usable, wipes: false })
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
        bytes[header_start(pgno)..usable].fill(0);
        PageEdit::on_zeroes(bytes, pgno, usable, kind, right_child)
    }

    /// As [`PageEdit::create`] on a page whose bytes behind the file header are zeroes already.
    ///
    /// # Panics
    /// As [`PageEdit::create`].
    pub fn on_zeroes(
        bytes: &'a mut [u8],
        pgno: Pgno,
        usable: usize,
        kind: PageKind,
        right_child: Option<Pgno>,
    ) -> PageEdit<'a> {
        let mut edit = PageEdit { bytes, pgno, kind, usable, wipes: false };
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

    fn header_edit(&mut self) -> PageHeaderEdit<'_> {
        let start = header_start(self.pgno);
        let chunk = self.bytes[start..].first_chunk_mut().expect("usable is 480 at least");
        PageHeaderEdit::new(chunk)
    }

    /// The kind of the page.
    #[inline]
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    #[inline]
    fn pointers(&self) -> usize {
        header_start(self.pgno) + self.kind.header_size()
    }

    /// Takes the last `size` bytes of the gap for a cell behind all others, and gives its offset;
    /// `None` when the gap is too small.
    #[inline(always)]
    fn extend(&mut self, size: usize) -> Result<Option<usize>, Corrupt> {
        let header = header_start(self.pgno);
        let head = self.bytes.get(header + 3..header + 7).and_then(|head| head.first_chunk::<4>());
        let [a, b, c, d] = *head.expect("usable is 480 at least");
        let count = usize::from(u16::from_be_bytes([a, b]));
        let start = self.pointers() + 2 * count;
        let end = match u16::from_be_bytes([c, d]) {
            0 => 65536,
            end => usize::from(end),
        };
        if end < start || end > self.usable {
            // The same fault, named.
            self.page().gap()?;
        }
        let Some(offset) = end.checked_sub(size).filter(|offset| start + 2 <= *offset) else {
            return Ok(None);
        };
        // A page has at most 65,536 bytes, and the first are its header's.
        self.bytes[start..start + 2].copy_from_slice(&(offset as u16).to_be_bytes());
        self.header_edit().cell_count((count + 1) as u16).content_start(offset as u16);
        Ok(Some(offset))
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
        let pointers = self.pointers();
        assert!(index <= count, "a cell is put before or after an existing one");
        let size = (head.len() + tail.len()).max(MIN_SIZE);
        let Some(room) = self.find_room(size, scratch)? else { return Ok(false) };
        let offset = self.take(room, size);
        self.write_cell(offset, size, head, tail);
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
        let size = size.max(MIN_SIZE);
        Ok(self.page().gap()?.len() >= size + 2 || self.find_room(size, scratch)?.is_some())
    }

    /// Puts the cell of `head` followed by `tail` behind all others, into the gap. False when the
    /// gap is too small, although there may be other free bytes; nothing changed then.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    #[inline]
    pub fn push_parts(&mut self, head: &[u8], tail: &[u8]) -> Result<bool, Corrupt> {
        let size = (head.len() + tail.len()).max(MIN_SIZE);
        let Some(offset) = self.extend(size)? else { return Ok(false) };
        self.write_cell(offset, size, head, tail);
        Ok(true)
    }

    /// Takes room for a cell of `size` bytes behind all others, from the gap, and gives its bytes,
    /// all of which are to be written. `None` when the gap is too small; nothing changed then.
    ///
    /// # Errors
    /// As [`PageEdit::insert`].
    #[inline]
    pub fn push_cell(&mut self, size: usize) -> Result<Option<&mut [u8]>, Corrupt> {
        let taken = size.max(MIN_SIZE);
        let Some(offset) = self.extend(taken)? else { return Ok(None) };
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
        if !self.join_gap(wanted)? {
            self.pack(scratch)?;
        }
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

    /// Moves cells over one or two freeblocks, whose bytes join the gap. False, with nothing
    /// changed, for more freeblocks and for a gap smaller than `wanted` all the same.
    ///
    /// # Errors
    /// [`Corrupt`] for broken freeblocks.
    fn join_gap(&mut self, wanted: usize) -> Result<bool, Corrupt> {
        let page = self.page();
        let gap = page.gap()?;
        let first = usize::from(page.header().first_freeblock());
        if first == 0 {
            return Ok(false);
        }
        let one = page.freeblock(first, gap.end)?;
        let (second, two) = match one.next {
            // Nothing lies behind the page's end.
            0 => (self.usable, 0),
            at => {
                let two = page.freeblock(at, first + one.size)?;
                if two.next != 0 {
                    return Ok(false);
                }
                (at, two.size)
            }
        };
        let both = one.size + two;
        if gap.len() + both < wanted {
            return Ok(false);
        }
        let (pointers, count) = (self.pointers(), page.cell_count());
        self.bytes.copy_within(first + one.size..second, first + one.size + two);
        self.bytes.copy_within(gap.end..first, gap.end + both);
        self.bytes[gap.end..gap.end + both].fill(0);
        for pointer in self.bytes[pointers..pointers + 2 * count].as_chunks_mut::<2>().0 {
            let offset = usize::from(u16::from_be_bytes(*pointer));
            let by = match offset {
                _ if offset < first => both,
                _ if offset < second => two,
                _ => 0,
            };
            *pointer = ((offset + by) as u16).to_be_bytes();
        }
        let content = gap.end + both;
        self.header_edit().first_freeblock(0).content_start((content % 65536) as u16);
        Ok(true)
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
        let (mut end, mut done) = (self.usable, 0);
        let mut cells = [CellExtent::default(); 64];
        while done < source.cell_count() {
            let found = source.cell_extents(done, &mut cells)?;
            for (index, cell) in (done..).zip(&cells[..found]) {
                let (offset, size) = (cell.offset as usize, cell.size as usize);
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
            done += found;
        }
        self.bytes[least..end].fill(0);
        self.header_edit()
            .first_freeblock(0)
            .content_start((end % 65536) as u16)
            .fragmented_bytes(0);
        Ok(())
    }

    /// Puts cells onto an empty page created just now, in this order; their places are in `source`.
    /// False when they have no room together; the page is of no use then.
    ///
    /// Cost: a copy for each run of cells already in the page's order in `source`, each cell right
    /// before its predecessor.
    ///
    /// # Panics
    /// When a cell is no part of `source`.
    pub fn fill(&mut self, source: &[u8], cells: &[CellExtent]) -> bool {
        let first = self.pointers();
        let least = first + 2 * cells.len();
        let (mut at, mut end) = (first, self.usable);
        // Bytes of `source` to be copied, and where they end on the page.
        let (mut run, mut run_end) = (0..0, end);
        for cell in cells {
            let (offset, size) = (cell.offset as usize, cell.size as usize);
            let taken = size.max(MIN_SIZE);
            let Some(place) = end.checked_sub(taken).filter(|place| least <= *place) else {
                return false;
            };
            if size < MIN_SIZE || offset + size != run.start {
                self.bytes[run_end - run.len()..run_end].copy_from_slice(&source[run]);
                // Behind a short cell are zeroes.
                run = offset..offset + size;
                run_end = place + size;
            }
            run.start = offset;
            // A page has at most 65,536 bytes, and the first are its header's.
            self.bytes[at..at + 2].copy_from_slice(&(place as u16).to_be_bytes());
            (at, end) = (at + 2, place);
        }
        self.bytes[run_end - run.len()..run_end].copy_from_slice(&source[run]);
        self.header_edit().cell_count(cells.len() as u16).content_start((end % 65536) as u16);
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

    proptest! {
        /// A page filled from cells that lie behind each other, before each other or anywhere.
        #[test]
        fn a_filled_page_has_its_cells(
            lens in prop::collection::vec(0_usize..40, 0..30),
            forwards in any::<bool>(),
            gaps in prop::collection::vec(0_usize..3, 30),
        ) {
            let mut source = Vec::new();
            let mut extents = Vec::new();
            for (len, gap) in lens.iter().zip(&gaps) {
                source.resize(source.len() + gap / 2, 0xee);
                let entry = [&[*len as u8][..], &vec![*len as u8; *len]].concat();
                extents.push(CellExtent {
                    offset: source.len() as u32,
                    size: entry.len() as u32,
                });
                source.extend_from_slice(&entry);
            }
            if !forwards {
                extents.reverse();
            }
            let two = Pgno::new(2).unwrap();
            let mut bytes = vec![0; 512];
            let mut page = PageEdit::create(&mut bytes, two, 512, PageKind::IndexLeaf, None);
            let needed: usize = lens.iter().map(|len| (len + 1).max(4) + 2).sum();
            prop_assert_eq!(page.fill(&source, &extents), needed <= 504);
            if needed <= 504 {
                let view = page.page();
                view.check().unwrap();
                prop_assert_eq!(view.cell_count(), extents.len());
                for (index, extent) in extents.iter().enumerate() {
                    let start = extent.offset as usize;
                    let cell = &source[start..start + extent.size as usize];
                    prop_assert_eq!(view.cell(index).unwrap(), cell);
                }
            }
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
        let cell = CellExtent { offset: 0, size: 5 };
        assert!(page.fill(&[0, 0, 0, 4, 9], &[cell]));
        assert_eq!((page.page().child(0), page.page().child(1)), (Ok(four), Ok(three)));
        page.set_child(0, two).unwrap();
        page.set_child(1, four).unwrap();
        assert_eq!((page.page().child(0), page.page().child(1)), (Ok(two), Ok(four)));
        assert!(page.set_child(2, four).is_err());
    }
}
