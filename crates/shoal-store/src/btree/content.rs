//! The future cells of a page, gathered outside of any page.

use shoal_format::cell::MIN_SIZE;
use shoal_format::{CellExtent, Corrupt, Page, PageKind, Pgno};

/// Cells in key order, and the right child of an interior page.
///
/// The bytes are in one buffer, pages as a whole among them, and a cell is a range of the buffer:
/// gathering the cells of three pages costs three copies and no allocation per cell.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) kind: PageKind,
    pub(super) right_child: Option<Pgno>,
    bytes: Vec<u8>,
    /// Places in `bytes`.
    cells: Vec<CellExtent>,
}

impl Content {
    pub(super) fn new(kind: PageKind) -> Content {
        Content { kind, right_child: None, bytes: Vec::new(), cells: Vec::new() }
    }

    /// No cells yet, and room for the cells of so many pages.
    pub(super) fn with_room(kind: PageKind, pages: usize, usable: usize) -> Content {
        let bytes = Vec::with_capacity((pages + 1) * usable);
        // Few cells have less than eight bytes.
        let cells = Vec::with_capacity(pages * usable / 8);
        Content { kind, right_child: None, bytes, cells }
    }

    /// The content of a page.
    pub(super) fn of(page: &Page<'_>) -> Result<Content, Corrupt> {
        let mut content = Content::new(page.kind());
        content.extend_from_page(page, 0..page.cell_count())?;
        if !page.kind().is_leaf() {
            content.right_child = Some(page.child(page.cell_count())?);
        }
        Ok(content)
    }

    /// Appends the cells `range` of `page`.
    pub(super) fn extend_from_page(
        &mut self,
        page: &Page<'_>,
        range: std::ops::Range<usize>,
    ) -> Result<(), Corrupt> {
        let shift = self.bytes.len() as u32;
        self.bytes.extend_from_slice(page.bytes());
        let start = self.cells.len();
        self.cells.resize(start + range.len(), CellExtent::default());
        let cells = &mut self.cells[start..];
        let found = page.cell_extents(range.start, cells)?;
        if found < cells.len() {
            let (why, missing) = ("has no such cell", range.start + found);
            return Err(Corrupt::on_page(page.pgno(), "b-tree page", why, missing as u64));
        }
        cells.iter_mut().for_each(|cell| cell.offset += shift);
        Ok(())
    }

    /// Appends the cells of `other`.
    pub(super) fn extend(&mut self, other: &Content) {
        let shift = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |cell: &CellExtent| CellExtent { offset: cell.offset + shift, ..*cell };
        self.cells.extend(other.cells.iter().map(moved));
    }

    /// Appends a cell.
    pub(super) fn push(&mut self, cell: &[u8]) {
        self.push_parts(cell, &[]);
    }

    /// Appends the cell `head` followed by `tail`.
    pub(super) fn push_parts(&mut self, head: &[u8], tail: &[u8]) {
        let cell = self.keep_bytes(head, tail);
        self.cells.push(cell);
    }

    /// The place of a cell about to be added. A few pages have less than 4 GiB.
    fn next(&self, size: usize) -> CellExtent {
        CellExtent { offset: self.bytes.len() as u32, size: size as u32 }
    }

    /// Puts a cell before cell `index`.
    pub(super) fn insert(&mut self, index: usize, cell: &[u8]) {
        self.cells.insert(index, self.next(cell.len()));
        self.bytes.extend_from_slice(cell);
    }

    /// Keeps the bytes of a cell, to be placed by [`Content::set_cells`].
    pub(super) fn keep_bytes(&mut self, head: &[u8], tail: &[u8]) -> CellExtent {
        let cell = self.next(head.len() + tail.len());
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
        cell
    }

    /// The places of the cells `range`.
    pub(super) fn cells(&self, range: std::ops::Range<usize>) -> &[CellExtent] {
        &self.cells[range]
    }

    /// Makes `cells`, places of kept bytes, the cells.
    pub(super) fn set_cells(&mut self, cells: Vec<CellExtent>) {
        self.cells = cells;
    }

    /// Removes cell `index`.
    pub(super) fn remove(&mut self, index: usize) {
        self.cells.remove(index);
    }

    /// Makes `child` the left child of cell `index`.
    pub(super) fn set_left(&mut self, index: usize, child: Pgno) {
        let offset = self.cells[index].offset as usize;
        self.bytes[offset..offset + 4].copy_from_slice(&child.get().to_be_bytes());
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns cell `index`.
    pub(super) fn cell(&self, index: usize) -> &[u8] {
        let CellExtent { offset, size } = self.cells[index];
        &self.bytes[offset as usize..(offset + size) as usize]
    }

    /// The buffer, and the places of the cells `range` there.
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> (&[u8], &[CellExtent]) {
        (&self.bytes, &self.cells[range])
    }

    /// Bytes of cell `index` on a page, its pointer included.
    #[inline]
    pub(super) fn taken(&self, index: usize) -> usize {
        (self.cells[index].size as usize).max(MIN_SIZE) + 2
    }

    /// Bytes of all cells on a page.
    pub(super) fn size(&self) -> usize {
        (0..self.len()).map(|index| self.taken(index)).sum()
    }
}
