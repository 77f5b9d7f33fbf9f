//! Writing a segment: terms and doclists onto leaves, `%_idx` entries, doclist indexes.

use crate::definition::Detail;
use crate::error::Result;
use crate::storage::Storage;
use crate::structure::{doclist_index_row, leaf_row};
use crate::varint;

/// Leaves without a term that a doclist spans before it gets an index.
const DOCLIST_INDEX_MIN: usize = 4;

/// A writer behind the last leaf of a segment.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    segment: u32,
    page_size: usize,
    detail: Detail,
    /// The leaf in work: its number, bytes without the footer, footer.
    page: u32,
    bytes: Vec<u8>,
    footer: Vec<u8>,
    last_term_offset: usize,
    last_term: Vec<u8>,
    has_term: bool,
    has_rowid: bool,
    is_first_in_doclist: bool,
    last_rowid: i64,
    /// The `%_idx` entry in work: term and leaf; and how many leaves without a term follow.
    idx_term: Vec<u8>,
    idx_page: u32,
    empty_leaves: usize,
    /// The doclist index in work, from the ground up.
    levels: Vec<IndexLevel>,
    /// Leaves written.
    pub(crate) written: u32,
}

/// A page in work of one height of a doclist index.
#[derive(Debug, Default)]
struct IndexLevel {
    bytes: Vec<u8>,
    page: u32,
    last_rowid: Option<i64>,
}

impl SegmentWriter {
    /// A writer whose first leaf is `page`; 1 for a new segment.
    pub(crate) fn new(segment: u32, page: u32, page_size: usize, detail: Detail) -> SegmentWriter {
        SegmentWriter {
            segment,
            page_size,
            detail,
            page,
            bytes: vec![0; 4],
            footer: Vec::new(),
            last_term_offset: 0,
            last_term: Vec::new(),
            has_term: false,
            has_rowid: false,
            is_first_in_doclist: true,
            last_rowid: 0,
            idx_term: Vec::new(),
            idx_page: if page == 1 { 1 } else { 0 },
            empty_leaves: 0,
            levels: vec![IndexLevel::default()],
            written: 0,
        }
    }

    fn used(&self) -> usize {
        self.bytes.len() + self.footer.len()
    }

    /// Begins a term larger than all before.
    pub(crate) fn term(&mut self, store: &dyn Storage, term: &[u8]) -> Result<()> {
        if self.used() + term.len() + 2 >= self.page_size && self.bytes.len() > 4 {
            self.flush_leaf(store)?;
        }
        let offset = self.bytes.len();
        varint::put(
            &mut self.footer,
            (offset - if self.has_term { self.last_term_offset } else { 0 }) as u64,
        );
        self.last_term_offset = offset;
        let shared = term.iter().zip(&self.last_term).take_while(|(a, b)| a == b).count();
        if self.has_term {
            varint::put(&mut self.bytes, shared as u64);
            varint::put(&mut self.bytes, (term.len() - shared) as u64);
            self.bytes.extend_from_slice(&term[shared..]);
        } else {
            if self.page != 1 {
                // The shortest text above the last leaf's terms and not above this one.
                let length = if self.last_term.is_empty() {
                    term.len()
                } else {
                    (shared + 1).min(term.len())
                };
                self.flush_idx(store)?;
                self.idx_term.extend_from_slice(&term[..length]);
                self.idx_page = self.page;
            }
            varint::put(&mut self.bytes, term.len() as u64);
            self.bytes.extend_from_slice(term);
            self.has_term = true;
        }
        self.last_term.truncate(shared);
        self.last_term.extend_from_slice(&term[shared..]);
        self.has_rowid = true;
        self.is_first_in_doclist = true;
        self.levels[0].page = self.page;
        Ok(())
    }

    /// Appends all rows of the term just begun to the leaf; false without room for all, and nothing
    /// is written then. A doclist is the same bytes in memory and on a leaf.
    pub(crate) fn whole(&mut self, doclist: &[u8]) -> bool {
        if self.used() + doclist.len() >= self.page_size {
            return false;
        }
        self.bytes.extend_from_slice(doclist);
        true
    }

    /// Appends a row of the term: `positions` without their size; empty with `Detail::None`.
    pub(crate) fn row(
        &mut self,
        store: &dyn Storage,
        rowid: i64,
        is_delete: bool,
        is_present: bool,
        positions: &[u8],
    ) -> Result<()> {
        if self.used() >= self.page_size {
            self.flush_leaf(store)?;
        }
        if !self.has_rowid {
            let offset = self.bytes.len() as u16;
            self.bytes[..2].copy_from_slice(&offset.to_be_bytes());
            self.index_rowid(store, rowid)?;
        }
        if self.is_first_in_doclist || !self.has_rowid {
            varint::put(&mut self.bytes, rowid as u64);
        } else {
            varint::put(&mut self.bytes, rowid.wrapping_sub(self.last_rowid) as u64);
        }
        (self.has_rowid, self.is_first_in_doclist, self.last_rowid) = (true, false, rowid);
        if self.detail == Detail::None {
            if is_delete {
                self.bytes.push(0);
                if is_present {
                    self.bytes.push(0);
                }
            }
            return Ok(());
        }
        varint::put(&mut self.bytes, (positions.len() * 2) as u64 | u64::from(is_delete));
        self.positions(store, positions)
    }

    /// Appends positions, cut between numbers where the leaf is full.
    fn positions(&mut self, store: &dyn Storage, mut positions: &[u8]) -> Result<()> {
        while self.used() + positions.len() >= self.page_size && !positions.is_empty() {
            let room = self.page_size.saturating_sub(self.used());
            let mut length = 0;
            while length < room {
                length += varint::get(&positions[length..]).map_or(1, |(_, length)| length);
            }
            let (now, later) = positions.split_at(length);
            self.bytes.extend_from_slice(now);
            positions = later;
            self.flush_leaf(store)?;
        }
        self.bytes.extend_from_slice(positions);
        Ok(())
    }

    fn flush_leaf(&mut self, store: &dyn Storage) -> Result<()> {
        let size = self.bytes.len() as u16;
        self.bytes[2..4].copy_from_slice(&size.to_be_bytes());
        if self.has_term {
            self.bytes.extend_from_slice(&self.footer);
        } else {
            if !self.has_rowid && !self.levels[0].bytes.is_empty() {
                self.levels[0].bytes.push(0);
            }
            self.empty_leaves += 1;
        }
        store.put_block(leaf_row(self.segment, self.page), &self.bytes)?;
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; 4]);
        self.footer.clear();
        self.page += 1;
        self.written += 1;
        self.has_term = false;
        self.has_rowid = false;
        Ok(())
    }

    /// Writes the `%_idx` entry in work, and the doclist index of its leaf's last term.
    fn flush_idx(&mut self, store: &dyn Storage) -> Result<()> {
        if self.idx_page == 0 {
            return Ok(());
        }
        let has_index = !self.levels[0].bytes.is_empty() && self.empty_leaves >= DOCLIST_INDEX_MIN;
        if has_index {
            for (height, level) in (0..).zip(&self.levels) {
                if !level.bytes.is_empty() {
                    let row = doclist_index_row(self.segment, height, level.page);
                    store.put_block(row, &level.bytes)?;
                }
            }
        }
        for level in &mut self.levels {
            level.bytes.clear();
            level.last_rowid = None;
        }
        let leaf = i64::from(self.idx_page) << 1 | i64::from(has_index);
        store.put_leaf(self.segment, &self.idx_term, leaf)?;
        self.idx_term.clear();
        self.idx_page = 0;
        self.empty_leaves = 0;
        Ok(())
    }

    /// Adds the first rowid of the leaf in work to the doclist index.
    fn index_rowid(&mut self, store: &dyn Storage, rowid: i64) -> Result<()> {
        let mut height = 0;
        loop {
            let is_full = self.levels[height].bytes.len() >= self.page_size;
            if is_full {
                self.push_index_page(store, height)?;
            }
            let child = if height == 0 { self.page } else { self.levels[height - 1].page };
            let level = &mut self.levels[height];
            match level.last_rowid {
                Some(last) => varint::put(&mut level.bytes, rowid.wrapping_sub(last) as u64),
                None => {
                    varint::put(&mut level.bytes, u64::from(is_full));
                    varint::put(&mut level.bytes, u64::from(child));
                    varint::put(&mut level.bytes, rowid as u64);
                }
            }
            level.last_rowid = Some(rowid);
            if !is_full {
                return Ok(());
            }
            height += 1;
        }
    }

    /// Writes a full page of the doclist index; a root gets a parent.
    fn push_index_page(&mut self, store: &dyn Storage, height: usize) -> Result<()> {
        if self.levels.len() == height + 1 {
            self.levels.push(IndexLevel::default());
        }
        let (below, above) = self.levels.split_at_mut(height + 1);
        let (full, parent) = (&mut below[height], &mut above[0]);
        full.bytes[0] = 1;
        let row = doclist_index_row(self.segment, height as u32, full.page);
        store.put_block(row, &full.bytes)?;
        if parent.bytes.is_empty() {
            let first = first_rowid(&full.bytes);
            parent.page = full.page;
            varint::put(&mut parent.bytes, 0);
            varint::put(&mut parent.bytes, u64::from(full.page));
            varint::put(&mut parent.bytes, first as u64);
            parent.last_rowid = Some(first);
        }
        full.bytes.clear();
        full.last_rowid = None;
        full.page += 1;
        Ok(())
    }

    /// Writes what is in work; gives the segment's last leaf, 0 without any.
    pub(crate) fn finish(mut self, store: &dyn Storage) -> Result<(u32, u32)> {
        if self.bytes.len() > 4 {
            self.flush_leaf(store)?;
        }
        let last = self.page - 1;
        if last > 0 {
            self.flush_idx(store)?;
        }
        Ok((last, self.written))
    }
}

/// The first rowid of a doclist index page of ours.
fn first_rowid(bytes: &[u8]) -> i64 {
    let (_, page) = varint::get(&bytes[1..]).expect("a page of ours has a child");
    let (rowid, _) = varint::get(&bytes[1 + page..]).expect("a page of ours has a rowid");
    rowid as i64
}
