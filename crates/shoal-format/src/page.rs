//! B-tree pages (file format §1.6): a header, pointers to the cells in key order, a gap, and the
//! cells, with freeblocks between them.

use crate::cell::{IndexCell, LeafCell, Payload, TableInteriorCell, TableLeafCell};
use crate::{CellExtent, Corrupt, FileHeader, Pgno};

layout! {
    /// Header of a b-tree page. At offset 100 of page 1, at 0 of the others; leaf pages have only
    /// the first 8 bytes.
    pub struct PageHeader / PageHeaderEdit [12] {
        /// 2, 5, 10 or 13; see [`PageKind`].
        kind: u8 = 0,
        /// 0 when none.
        first_freeblock: u16 = 1,
        /// Cells on the page.
        cell_count: u16 = 3,
        /// Where the cells begin; 0 stands for 65536.
        content_start: u16 = 5,
        /// Bytes in gaps too small for a freeblock.
        fragmented_bytes: u8 = 7,
        /// Interior pages only.
        right_child: u32 = 8,
    }
}

/// The kind of a b-tree page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Entries of an index with children between them.
    IndexInterior,
    /// Separators of a table with children between them.
    TableInterior,
    /// Entries of an index.
    IndexLeaf,
    /// Rows.
    TableLeaf,
}

impl PageKind {
    /// Returns the kind written as `byte`.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<PageKind> {
        match byte {
            2 => Some(PageKind::IndexInterior),
            5 => Some(PageKind::TableInterior),
            10 => Some(PageKind::IndexLeaf),
            13 => Some(PageKind::TableLeaf),
            _ => None,
        }
    }

    /// Returns the kind as written.
    pub fn byte(self) -> u8 {
        match self {
            PageKind::IndexInterior => 2,
            PageKind::TableInterior => 5,
            PageKind::IndexLeaf => 10,
            PageKind::TableLeaf => 13,
        }
    }

    /// True for pages without children.
    #[inline]
    pub fn is_leaf(self) -> bool {
        matches!(self, PageKind::IndexLeaf | PageKind::TableLeaf)
    }

    /// True for pages of a table's tree.
    #[inline]
    pub fn is_table(self) -> bool {
        matches!(self, PageKind::TableLeaf | PageKind::TableInterior)
    }

    /// Returns the interior kind of the same tree.
    pub fn interior(self) -> PageKind {
        if self.is_table() { PageKind::TableInterior } else { PageKind::IndexInterior }
    }

    /// Bytes of the page header.
    #[inline]
    pub fn header_size(self) -> usize {
        if self.is_leaf() { 8 } else { 12 }
    }
}

/// Returns where the page header of page `pgno` begins.
#[inline]
pub fn header_start(pgno: Pgno) -> usize {
    if pgno == Pgno::FIRST { FileHeader::SIZE } else { 0 }
}

/// A b-tree page as a view over its bytes.
///
/// The header and the extent of the pointers are checked on construction; each cell is checked when
/// it is read, so that one broken cell does not hide the others.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The page's usable bytes.
    bytes: &'a [u8],
    pgno: Pgno,
    kind: PageKind,
    cell_count: usize,
    pointers: usize,
}

impl<'a> Page<'a> {
    /// Views the first `usable` bytes of page `pgno`. Cost: constant.
    ///
    /// # Errors
    /// [`Corrupt`] when the kind is unknown or the cell pointers pass the page.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], pgno: Pgno, usable: usize) -> Result<Page<'a>, Corrupt> {
        let corrupt = |why, value: usize| broken_page(pgno, why, value);
        let start = header_start(pgno);
        let bytes = bytes.get(..usable).ok_or_else(|| corrupt("is too short", bytes.len()))?;
        let header: Option<&[u8; PageHeader::SIZE]> =
            bytes.get(start..).and_then(|rest| rest.first_chunk());
        let header = header.ok_or_else(|| corrupt("is too short", bytes.len()))?;
        let kind = PageKind::from_byte(header[0])
            .ok_or_else(|| corrupt("has an unknown kind", usize::from(header[0])))?;
        let cell_count = usize::from(PageHeader::new(header).cell_count());
        let pointers = start + kind.header_size();
        if pointers + 2 * cell_count > usable {
            return Err(corrupt("has more cells than fit", cell_count));
        }
        Ok(Page { bytes, pgno, kind, cell_count, pointers })
    }

    /// Returns the page's number.
    #[inline]
    pub fn pgno(&self) -> Pgno {
        self.pgno
    }

    /// Returns the kind of the page.
    #[inline]
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Returns the page's usable bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns where `part`, which was borrowed from this page, begins on it.
    #[inline]
    pub fn offset_of(&self, part: &[u8]) -> usize {
        // For a part of another page the number means nothing, and does no harm as an offset.
        part.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr())
    }

    /// Returns the number of cells.
    #[inline]
    pub fn cell_count(&self) -> usize {
        self.cell_count
    }

    /// Returns the page header.
    #[inline]
    pub fn header(&self) -> PageHeader<'a> {
        let start = header_start(self.pgno);
        PageHeader::new(self.bytes[start..].first_chunk().expect("checked by Page::new"))
    }

    /// Where the pointers to the cells end, and the pointers.
    #[inline(always)]
    pub(crate) fn pointers(&self) -> (usize, &'a [[u8; 2]]) {
        let end = self.pointers + 2 * self.cell_count;
        let pointers = self.bytes.get(self.pointers..end).unwrap_or_default();
        (end, pointers.as_chunks::<2>().0)
    }

    /// Returns the bytes from cell `index` to the end of the page.
    ///
    /// # Errors
    /// [`Corrupt`] when there is no such cell or its pointer is outside the area of cells.
    #[inline(always)]
    fn cell_bytes(&self, index: usize) -> Result<&'a [u8], Corrupt> {
        if index >= self.cell_count {
            return Err(self.corrupt("has no such cell", index));
        }
        let at = self.pointers + 2 * index;
        let offset = usize::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]));
        if offset < self.pointers + 2 * self.cell_count {
            return Err(self.corrupt("has a cell inside its header, offset", offset));
        }
        self.bytes
            .get(offset..)
            .ok_or_else(|| self.corrupt("has a cell past its end, offset", offset))
    }

    /// Returns the offset in the page and the size in bytes of cell `index`.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken.
    pub fn cell_extent(&self, index: usize) -> Result<(usize, usize), Corrupt> {
        let bytes = self.cell_bytes(index)?;
        let size = match self.kind {
            PageKind::TableLeaf => TableLeafCell::parse(bytes, self.bytes.len()).map(|c| c.size),
            PageKind::TableInterior => TableInteriorCell::parse(bytes).map(|c| c.size),
            kind => match IndexCell::short(bytes).filter(|_| kind == PageKind::IndexLeaf) {
                Some(cell) => Ok(cell.size),
                None => IndexCell::parse(bytes, kind, self.bytes.len()).map(|c| c.size),
            },
        };
        let size = size.map_err(|error| error.at(self.pgno))?;
        Ok((self.bytes.len() - bytes.len(), size))
    }

    /// Returns the bytes of cell `index`.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken.
    pub fn cell(&self, index: usize) -> Result<&'a [u8], Corrupt> {
        let (offset, size) = self.cell_extent(index)?;
        Ok(&self.bytes[offset..offset + size])
    }

    /// Returns row `index` of a table leaf.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken or the page is of another kind.
    #[inline(always)]
    pub fn table_leaf(&self, index: usize) -> Result<TableLeafCell<'a>, Corrupt> {
        self.require(PageKind::TableLeaf)?;
        TableLeafCell::parse(self.cell_bytes(index)?, self.bytes.len())
            .map_err(|error| error.at(self.pgno))
    }

    /// Finds rows `from`, `from + 1` ... of a table leaf and puts what they are into `out`, as many
    /// as it holds or the page has; returns how many, and whether one of them goes on on other
    /// pages.
    ///
    /// Cost: one loop over the cells' pointers and heads; payloads are not looked at.
    ///
    /// # Errors
    /// [`Corrupt`] when a cell is broken or the page is of another kind.
    pub fn leaf_cells(&self, from: usize, out: &mut [LeafCell]) -> Result<(usize, bool), Corrupt> {
        self.require(PageKind::TableLeaf)?;
        let (first, pointers) = self.pointers();
        let pointers = pointers.get(from..).unwrap_or_default();
        let count = pointers.len().min(out.len());
        let (pointers, out) = (&pointers[..count], &mut out[..count]);
        let bytes = &self.bytes[..self.bytes.len().min(1 << 16)];
        let (mut done, mut goes_on) = (0, false);
        while done < count {
            done += LeafCell::quick_ones(bytes, first, &pointers[done..], &mut out[done..]);
            if let Some(cell) = out.get_mut(done) {
                *cell = self.leaf_cell(from + done)?;
                goes_on |= cell.goes_on();
                done += 1;
            }
        }
        Ok((count, goes_on))
    }

    /// Where the area begins in which cells may be, and its bytes, of which no page has so many
    /// that there is a 65,537th byte of the page.
    #[inline(always)]
    fn cell_area(&self) -> (usize, &'a [u8]) {
        let first = self.pointers + 2 * self.cell_count;
        (first, self.bytes.get(first..self.bytes.len().min(1 << 16)).unwrap_or_default())
    }

    /// Finds row `index` of a table leaf. Cheaper than the whole cell.
    ///
    /// # Errors
    /// As [`Page::leaf_cells`].
    #[inline(always)]
    pub fn leaf_row(&self, index: usize) -> Result<LeafCell, Corrupt> {
        if self.kind == PageKind::TableLeaf && index < self.cell_count {
            let at = self.pointers + 2 * index;
            let (first, area) = self.cell_area();
            let pointer = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
            if let Some(cell) =
                LeafCell::quick(area, first as u32, pointer.wrapping_sub(first as u16))
            {
                return Ok(cell);
            }
        }
        self.leaf_cell(index)
    }

    /// Returns the payload of row `index`, given by [`Page::leaf_row`] as `cell`.
    ///
    /// # Errors
    /// [`Corrupt`] when the row goes on on other pages and is broken.
    #[inline(always)]
    pub fn payload(&self, index: usize, cell: LeafCell) -> Result<Payload<'a>, Corrupt> {
        if cell.goes_on() {
            return Ok(self.table_leaf(index)?.payload);
        }
        let local = self.bytes.get(cell.range()).unwrap_or_default();
        Ok(Payload { local, len: local.len(), overflow: None })
    }

    /// Any row of a table leaf.
    #[inline(never)]
    fn leaf_cell(&self, index: usize) -> Result<LeafCell, Corrupt> {
        let TableLeafCell { rowid, payload, .. } = self.table_leaf(index)?;
        if payload.overflow.is_some() {
            return Ok(LeafCell { rowid, start: 0, end: 0 });
        }
        let start = self.offset_of(payload.local);
        // A page has at most 65,536 bytes.
        Ok(LeafCell { rowid, start: start as u32, end: (start + payload.len) as u32 })
    }

    /// Returns separator `index` of a table interior page.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken or the page is of another kind.
    #[inline]
    pub fn table_interior(&self, index: usize) -> Result<TableInteriorCell, Corrupt> {
        self.require(PageKind::TableInterior)?;
        TableInteriorCell::parse(self.cell_bytes(index)?).map_err(|error| error.at(self.pgno))
    }

    /// Returns entry `index` of an index page, leaf or interior.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell is broken or the page belongs to a table.
    #[inline(always)]
    pub fn index(&self, index: usize) -> Result<IndexCell<'a>, Corrupt> {
        if self.kind.is_table() {
            return Err(self.corrupt("is no index page, kind", usize::from(self.kind.byte())));
        }
        let bytes = self.cell_bytes(index)?;
        if self.kind == PageKind::IndexLeaf
            && let Some(cell) = IndexCell::short(bytes)
        {
            return Ok(cell);
        }
        self.index_cell(bytes)
    }

    /// Any entry of an index page.
    #[inline(never)]
    fn index_cell(&self, bytes: &'a [u8]) -> Result<IndexCell<'a>, Corrupt> {
        IndexCell::parse(bytes, self.kind, self.bytes.len()).map_err(|error| error.at(self.pgno))
    }

    /// Finds entries `from`, `from + 1` ... of an index page and puts where their records are into
    /// `out`, as many as it holds or the page has; returns how many, and whether one of them goes
    /// on on other pages. They have no rowids.
    ///
    /// # Errors
    /// As [`Page::index`].
    #[inline]
    pub fn index_cells(&self, from: usize, out: &mut [LeafCell]) -> Result<(usize, bool), Corrupt> {
        let (first, pointers) = self.pointers();
        let pointers = pointers.get(from..).unwrap_or_default();
        let mut goes_on = false;
        for ((index, pointer), cell) in pointers.iter().enumerate().zip(&mut *out) {
            let at = usize::from(u16::from_be_bytes(*pointer));
            let quick = if at < first || self.kind != PageKind::IndexLeaf {
                None
            } else {
                LeafCell::quick_entry(self.bytes, at)
            };
            match quick {
                Some(quick) => *cell = quick,
                None => {
                    *cell = self.record_of(self.index(from + index)?.payload);
                    goes_on |= cell.goes_on();
                }
            }
        }
        Ok((pointers.len().min(out.len()), goes_on))
    }

    /// Where a payload of this page is.
    #[inline(always)]
    pub fn record_of(&self, payload: Payload<'_>) -> LeafCell {
        if payload.overflow.is_some() {
            return LeafCell::default();
        }
        let start = self.offset_of(payload.local);
        // A page has at most 65,536 bytes.
        LeafCell { rowid: 0, start: start as u32, end: (start + payload.local.len()) as u32 }
    }

    /// Returns the rowid of cell `index` of a table page, leaf or interior. Cheaper than the whole
    /// cell: its payload is not looked at.
    ///
    /// # Errors
    /// [`Corrupt`] when the cell passes the page or the page belongs to an index.
    #[inline(always)]
    pub fn rowid(&self, index: usize) -> Result<i64, Corrupt> {
        let bytes = self.cell_bytes(index)?;
        let rest = match self.kind {
            PageKind::TableInterior => bytes.get(4..),
            PageKind::TableLeaf => {
                crate::varint::read(bytes).and_then(|(_, length)| bytes.get(length..))
            }
            kind => return Err(self.corrupt("is no table page, kind", usize::from(kind.byte()))),
        };
        rest.and_then(crate::varint::read)
            .map(|(rowid, _)| rowid.cast_signed())
            .ok_or_else(|| self.corrupt("has a cell that passes its end, cell", index))
    }

    /// Returns child `index` of an interior page: the one left of cell `index`, or the right child
    /// for `index` equal to the number of cells.
    ///
    /// # Errors
    /// [`Corrupt`] when the child is page 0, the cell is broken or the page is a leaf.
    #[inline]
    pub fn child(&self, index: usize) -> Result<Pgno, Corrupt> {
        if self.kind.is_leaf() {
            return Err(self.corrupt("is a leaf where an interior page belongs, child", index));
        }
        let number = if index == self.cell_count {
            self.header().right_child()
        } else {
            let left = self.cell_bytes(index)?.first_chunk::<4>();
            u32::from_be_bytes(
                *left.ok_or_else(|| self.corrupt("has a cell that passes its end, cell", index))?,
            )
        };
        Pgno::new(number).ok_or_else(|| self.corrupt("has page 0 as child", index))
    }

    /// Where on the page the number of `child` is; `None` for a page of which it is no child.
    ///
    /// # Errors
    /// As [`Page::child`].
    pub fn child_offset(&self, child: Pgno) -> Result<Option<usize>, Corrupt> {
        for index in 0..=self.cell_count {
            if self.child(index)? == child {
                return Ok(Some(match index == self.cell_count {
                    true => header_start(self.pgno) + 8,
                    false => self.bytes.len() - self.cell_bytes(index)?.len(),
                }));
            }
        }
        Ok(None)
    }

    /// Where on the page the number of `first` is, the first page of a cell's overflow chain;
    /// `None` where no cell has it.
    ///
    /// # Errors
    /// [`Corrupt`] when a cell is broken.
    pub fn overflow_offset(&self, first: Pgno) -> Result<Option<usize>, Corrupt> {
        for index in 0..self.cell_count {
            let payload = match self.kind {
                PageKind::TableInterior => return Ok(None),
                PageKind::TableLeaf => self.table_leaf(index)?.payload,
                _ => self.index(index)?.payload,
            };
            if payload.overflow == Some(first) {
                return Ok(Some(self.offset_of(payload.local) + payload.local.len()));
            }
        }
        Ok(None)
    }

    /// Returns the bytes between the last cell pointer and the first cell.
    ///
    /// # Errors
    /// [`Corrupt`] when the cells begin inside the pointers or past the page.
    pub fn gap(&self) -> Result<std::ops::Range<usize>, Corrupt> {
        let start = self.pointers + 2 * self.cell_count;
        let end = match self.header().content_start() {
            0 => 65536,
            end => usize::from(end),
        };
        if end < start || end > self.bytes.len() {
            return Err(self.corrupt("has cells that begin in the wrong place, offset", end));
        }
        Ok(start..end)
    }

    /// Returns the free bytes: the gap, the freeblocks and the fragments.
    ///
    /// Cost: one walk of the freeblocks, which must ascend, so it ends.
    ///
    /// # Errors
    /// [`Corrupt`] when the freeblocks overlap, descend or pass the page.
    pub fn free_bytes(&self) -> Result<usize, Corrupt> {
        let gap = self.gap()?;
        let mut free = gap.len() + usize::from(self.header().fragmented_bytes());
        let mut least = gap.end;
        let mut at = usize::from(self.header().first_freeblock());
        while at != 0 {
            let block = self.freeblock(at, least)?;
            free += block.size;
            least = at + block.size;
            at = block.next;
        }
        if free > self.bytes.len() {
            return Err(self.corrupt("has more free bytes than bytes", free));
        }
        Ok(free)
    }

    /// Reads the freeblock at `at`, which may not begin before `least`.
    pub(crate) fn freeblock(&self, at: usize, least: usize) -> Result<Freeblock, Corrupt> {
        if at < least {
            return Err(self.corrupt("has freeblocks that overlap or descend, offset", at));
        }
        let head = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let head = head.ok_or_else(|| self.corrupt("has a freeblock past its end, offset", at))?;
        let next = usize::from(u16::from_be_bytes([head[0], head[1]]));
        let size = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if size < 4 || at + size > self.bytes.len() {
            return Err(self.corrupt("has a freeblock of the wrong size, offset", at));
        }
        Ok(Freeblock { next, size })
    }

    /// Checks the whole page: every cell lies in the area of cells and every byte of that area is
    /// counted once, as cell, freeblock or fragment.
    ///
    /// Cost: one walk of the cells and freeblocks; no allocation.
    ///
    /// # Errors
    /// [`Corrupt`] with the first fault.
    pub fn check(&self) -> Result<(), Corrupt> {
        let gap = self.gap()?;
        let mut used = 0;
        let mut cells = [CellExtent::default(); 64];
        let mut done = 0;
        while done < self.cell_count {
            let found = self.cell_extents(done, &mut cells)?;
            for cell in &cells[..found] {
                let offset = cell.offset as usize;
                if offset < gap.end {
                    return Err(self.corrupt("has a cell in its gap, offset", offset));
                }
                used += (cell.size as usize).max(crate::cell::MIN_SIZE);
            }
            done += found;
        }
        let free = self.free_bytes()?;
        if self.pointers + 2 * self.cell_count + used + free != self.bytes.len() {
            return Err(self.corrupt("does not account for its bytes, free", free));
        }
        Ok(())
    }

    #[inline]
    fn require(&self, kind: PageKind) -> Result<(), Corrupt> {
        if self.kind == kind {
            return Ok(());
        }
        Err(self.corrupt("is of the wrong kind", usize::from(self.kind.byte())))
    }

    #[cold]
    pub(crate) fn corrupt(&self, why: &'static str, value: usize) -> Corrupt {
        broken_page(self.pgno, why, value)
    }
}

#[cold]
fn broken_page(pgno: Pgno, why: &'static str, value: usize) -> Corrupt {
    Corrupt::on_page(pgno, "b-tree page", why, value as u64)
}

/// A free area between cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freeblock {
    /// Offset of the next one, 0 when none.
    pub(crate) next: usize,
    /// Bytes, these four included.
    pub(crate) size: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf() -> Vec<u8> {
        let mut bytes = vec![0; 512];
        bytes[..8].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xf4, 0]);
        bytes[8..12].copy_from_slice(&[1, 0xfa, 1, 0xf4]);
        // Row 1 at 506: payload of 4; row 2 at 500: payload of 4.
        bytes[506..512].copy_from_slice(&[4, 1, 3, 0, 0, 0]);
        bytes[500..506].copy_from_slice(&[4, 2, 3, 0, 0, 0]);
        bytes
    }

    /// Rows found at once are the rows found one by one.
    fn finds_rows_at_once(page: &Page<'_>) {
        let each: Vec<_> = (0..page.cell_count()).map(|index| page.table_leaf(index)).collect();
        for (from, count) in [(0, 200), (0, 1), (1, 2), (3, 200), (500, 3)] {
            let mut cells = vec![LeafCell::default(); count];
            let expect = each.iter().skip(from).take(count);
            let Ok((found, goes_on)) = page.leaf_cells(from, &mut cells) else {
                assert!(expect.clone().any(Result::is_err) || page.kind() != PageKind::TableLeaf);
                continue;
            };
            assert_eq!(found, expect.len());
            let mut any = false;
            for (cell, expect) in cells.iter().zip(expect) {
                let expect = expect.as_ref().unwrap();
                any |= expect.payload.overflow.is_some();
                assert_eq!(cell.rowid, expect.rowid);
                assert_eq!(cell.goes_on(), expect.payload.overflow.is_some());
                if !cell.goes_on() {
                    assert_eq!(&page.bytes()[cell.range()], expect.payload.local);
                }
            }
            assert_eq!(goes_on, any);
        }
        for (index, expect) in each.iter().enumerate() {
            let row = page.leaf_row(index);
            let payload = row.and_then(|cell| page.payload(index, cell));
            let got = row.ok().zip(payload.ok()).map(|(cell, payload)| (cell.rowid, payload.local));
            assert_eq!(got, expect.as_ref().ok().map(|cell| (cell.rowid, cell.payload.local)));
        }
        assert!(page.leaf_row(each.len()).is_err());
    }

    #[test]
    fn rows_at_once_with_heads_of_all_lengths() {
        let mut bytes = vec![0; 4096];
        let mut end = 4096;
        let rows = [
            (3, -1_i64),
            (127, 1),
            (128, 5),
            (300, 127),
            (1, 128),
            (20, 16_383),
            (130, 16_384),
            (0, 2_097_151),
            (9, 2_097_152),
            (140, 268_435_455),
            (6, 268_435_456),
            (2, i64::MAX),
            (5000, 7),
            (1, 300),
        ];
        for (index, (length, rowid)) in rows.into_iter().enumerate() {
            let mut cell = Vec::new();
            crate::cell::push_leaf_head(length, Some(rowid), &mut cell);
            if length > 4061 {
                cell.resize(cell.len() + 489 + (length - 489) % 4092, 9);
                cell.extend_from_slice(&[0, 0, 0, 5]);
            } else {
                cell.resize(cell.len() + length, 7);
            }
            end -= cell.len();
            bytes[end..end + cell.len()].copy_from_slice(&cell);
            bytes[8 + 2 * index..10 + 2 * index].copy_from_slice(&(end as u16).to_be_bytes());
        }
        bytes[..8].copy_from_slice(&[13, 0, 0, 0, rows.len() as u8, 0, 0, 0]);
        let page = Page::new(&bytes, Pgno::new(2).unwrap(), 4096).unwrap();
        assert_eq!(page.table_leaf(12).unwrap().payload.overflow, Pgno::new(5));
        finds_rows_at_once(&page);
        bytes[8] = 0;
        finds_rows_at_once(&Page::new(&bytes, Pgno::new(2).unwrap(), 4096).unwrap());
    }

    #[test]
    fn reads_a_leaf() {
        let bytes = leaf();
        let two = Pgno::new(2).unwrap();
        let page = Page::new(&bytes, two, 512).unwrap();
        assert_eq!((page.kind(), page.cell_count()), (PageKind::TableLeaf, 2));
        assert_eq!((page.rowid(0), page.rowid(1)), (Ok(1), Ok(2)));
        assert_eq!(page.table_leaf(1).unwrap().payload.local, [3, 0, 0, 0]);
        assert_eq!(page.check(), Ok(()));
        assert_eq!(page.free_bytes(), Ok(500 - 12));
        assert!(page.rowid(2).is_err() && page.child(0).is_err() && page.index(0).is_err());
    }

    /// A page of so many bytes with one row, whose pointer and head are these.
    fn page_of_one(size: usize, pointer: usize, head: &[u8]) -> Vec<u8> {
        let mut bytes = vec![7; size];
        if let Some(target) = bytes.get_mut(pointer..) {
            let length = head.len().min(target.len());
            target[..length].copy_from_slice(&head[..length]);
        }
        bytes[..8].copy_from_slice(&[13, 0, 0, 0, 1, 0, 0, 0]);
        bytes[8..10].copy_from_slice(&(pointer as u16).to_be_bytes());
        bytes
    }

    #[test]
    fn rows_at_once_wherever_their_pointers_lead() {
        let heads: [&[u8]; 9] = [
            &[1, 1],
            &[0x7f, 0x7f],
            &[0x81, 0, 0xff, 0x7f],
            &[0xff, 0x7f, 0x81, 0x80, 0],
            &[9, 0xff, 0xff, 0xff, 0x7f],
            &[9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xff, 0xff, 0xff, 0x7f, 1],
            &[0x83, 0x5d, 1],
            &[0xff; 12],
        ];
        let edges = |size: usize| {
            let near = [0, 8, 10, size / 2, size - 129, size, 1 << 16];
            near.map(|near: usize| near.saturating_sub(12)..(near + 12).min(1 << 16))
        };
        for size in [512, 4096, 1 << 16] {
            for (head, pointer) in heads.iter().flat_map(|head| {
                edges(size).into_iter().flatten().map(move |pointer| (head, pointer))
            }) {
                let bytes = page_of_one(size, pointer, head);
                let page = Page::new(&bytes, Pgno::new(2).unwrap(), size).unwrap();
                finds_rows_at_once(&page);
            }
        }
        // Reserved bytes are none of a cell.
        let bytes = page_of_one(512, 470, &[9, 1]);
        let page = Page::new(&bytes, Pgno::new(2).unwrap(), 480).unwrap();
        finds_rows_at_once(&page);
        assert!(page.leaf_cells(0, &mut [LeafCell::default()]).is_err());
        // As many pointers as there is room for leave none for cells.
        let mut bytes = vec![0; 1 << 16];
        bytes[..8].copy_from_slice(&[13, 0, 0, 0x7f, 0xfc, 0, 0, 0]);
        let page = Page::new(&bytes, Pgno::new(2).unwrap(), 1 << 16).unwrap();
        assert_eq!(page.cell_count(), 0x7ffc);
        assert!(page.leaf_cells(0, &mut [LeafCell::default()]).is_err());
    }

    #[test]
    fn broken_pages_are_named() {
        let check = |offset: usize, value: u8, why: &str| {
            let mut bytes = leaf();
            bytes[offset] = value;
            let error = Page::new(&bytes, Pgno::new(2).unwrap(), 512)
                .and_then(|page| page.check())
                .unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.to_string().starts_with("page 2: "), "{error}");
        };
        check(0, 7, "unknown kind");
        check(3, 1, "more cells than fit");
        check(5, 3, "begin in the wrong place");
        check(8, 2, "past its end");
        check(8, 0, "in its gap");
        check(9, 0xff, "passes the end");
        check(7, 1, "does not account");
        check(2, 2, "overlap or descend");
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(
            mut bytes in prop::collection::vec(any::<u8>(), 512),
            kind in prop::sample::select(vec![2_u8, 5, 10, 13]),
            count in 0_u8..40,
        ) {
            bytes[0] = kind;
            bytes[3] = 0;
            bytes[4] = count;
            let page = Page::new(&bytes, Pgno::new(2).unwrap(), 512).unwrap();
            let _ = page.check();
            for index in 0..=page.cell_count() {
                let _ = (page.rowid(index), page.child(index), page.cell(index));
            }
            finds_rows_at_once(&page);
        }
    }
}
