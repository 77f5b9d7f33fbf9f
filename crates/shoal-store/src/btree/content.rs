//! The future cells of a page, gathered outside of any page.

use shoal_format::cell::MIN_SIZE;
use shoal_format::{Corrupt, Page, PageKind, Pgno};

/// Cells in key order, and the right child of an interior page.
///
/// The bytes are in one buffer and a cell is a range of the buffer: gathering the cells of three
/// pages costs a few copies and no allocation per cell.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) kind: PageKind,
    pub(super) right_child: Option<Pgno>,
    bytes: Vec<u8>,
    /// Offset and size in `bytes`.
    cells: Vec<(usize, usize)>,
}

impl Content {
    pub(super) fn new(kind: PageKind) -> Content {
        Content { kind, right_child: None, bytes: Vec::new(), cells: Vec::new() }
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
        for index in range {
            self.push(page.cell(index)?);
        }
        Ok(())
    }

    /// Appends the cells of `other`.
    pub(super) fn extend(&mut self, other: &Content) {
        let shift = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.cells.extend(other.cells.iter().map(|&(offset, size)| (offset + shift, size)));
    }

    /// Appends a cell.
    pub(super) fn push(&mut self, cell: &[u8]) {
        self.push_parts(cell, &[]);
    }

    /// Appends the cell `head` followed by `tail`.
    pub(super) fn push_parts(&mut self, head: &[u8], tail: &[u8]) {
        self.cells.push((self.bytes.len(), head.len() + tail.len()));
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
    }

    /// Puts a cell before cell `index`.
    pub(super) fn insert(&mut self, index: usize, cell: &[u8]) {
        self.cells.insert(index, (self.bytes.len(), cell.len()));
        self.bytes.extend_from_slice(cell);
    }

    /// Removes cell `index`.
    pub(super) fn remove(&mut self, index: usize) {
        self.cells.remove(index);
    }

    /// Makes `child` the left child of cell `index`.
    pub(super) fn set_left(&mut self, index: usize, child: Pgno) {
        let (offset, _) = self.cells[index];
        self.bytes[offset..offset + 4].copy_from_slice(&child.get().to_be_bytes());
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns cell `index`.
    pub(super) fn cell(&self, index: usize) -> &[u8] {
        let (offset, size) = self.cells[index];
        &self.bytes[offset..offset + size]
    }

    /// Returns the cells `range`.
    pub(super) fn cells(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &[u8]> {
        range.map(|index| self.cell(index))
    }

    /// Bytes of cell `index` on a page, its pointer included.
    pub(super) fn taken(&self, index: usize) -> usize {
        self.cells[index].1.max(MIN_SIZE) + 2
    }

    /// Bytes of all cells on a page.
    pub(super) fn size(&self) -> usize {
        (0..self.len()).map(|index| self.taken(index)).sum()
    }
}
