//! Reading a segment: its terms and doclists, leaf by leaf.

use crate::definition::Detail;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::structure::{Segment, doclist_index_row, leaf_row};
use crate::tombstone::Tombstones;
use crate::varint;

/// A leaf: header, terms and doclists, and the footer with the offsets of terms.
#[derive(Debug, Default)]
struct Leaf {
    number: u32,
    bytes: Vec<u8>,
    /// Where the footer begins.
    end: usize,
    /// Next byte of the footer.
    footer: usize,
    /// Offset of the next term; `end` without one.
    next_term: usize,
    /// Offset of the first rowid that comes before any term; 0 without one.
    first_rowid: usize,
}

impl Leaf {
    fn load(&mut self, store: &dyn Storage, segment: u32, number: u32) -> Result<()> {
        self.number = number;
        let row = leaf_row(segment, number);
        if !store.block(row, &mut self.bytes)? {
            return Err(Error::corrupt("segment leaf", row, "is absent"));
        }
        let [a, b, c, d] = *self
            .bytes
            .first_chunk()
            .ok_or_else(|| Error::corrupt("segment leaf", row, "ends in its header"))?;
        self.first_rowid = usize::from(u16::from_be_bytes([a, b]));
        self.end = usize::from(u16::from_be_bytes([c, d]));
        if self.end < 4 || self.end > self.bytes.len() || self.first_rowid > self.end {
            return Err(Error::corrupt("segment leaf", row, "has offsets beyond its end"));
        }
        self.footer = self.end;
        self.next_term = 0;
        self.step_footer(segment)
    }

    /// Reads the offset of the term after `next_term`.
    fn step_footer(&mut self, segment: u32) -> Result<()> {
        if self.footer >= self.bytes.len() {
            self.next_term = self.end;
            return Ok(());
        }
        let row = leaf_row(segment, self.number);
        let (delta, length) = varint::get(&self.bytes[self.footer..])
            .ok_or_else(|| Error::corrupt("segment leaf", row, "ends in its footer"))?;
        let offset =
            usize::try_from(delta).ok().and_then(|delta| self.next_term.checked_add(delta));
        let is_ascending = delta > 0;
        self.footer += length;
        self.next_term =
            offset
                .filter(|&offset| is_ascending && (4..self.end).contains(&offset))
                .ok_or_else(|| Error::corrupt("segment leaf", row, "has a term beyond its end"))?;
        Ok(())
    }
}

/// The current entry of a doclist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) rowid: i64,
    /// Older entries of the row are void.
    pub(crate) is_delete: bool,
    /// The row has the term: false of a deletion alone.
    pub(crate) is_present: bool,
}

/// A position in a segment: a term, and an entry of its doclist.
#[derive(Debug, Default)]
pub(crate) struct SegmentCursor {
    pub(crate) segment: Segment,
    pub(crate) term: Vec<u8>,
    pub(crate) entry: Entry,
    /// On an entry of `term`; false behind its doclist.
    is_valid: bool,
    /// Behind the last term.
    is_done: bool,
    detail: Option<Detail>,
    leaf: Leaf,
    /// Behind the entry.
    at: usize,
    /// The next rowid is the first of its doclist or leaf, and so no delta.
    is_absolute: bool,
    /// The next entry is the first of its doclist.
    is_first: bool,
    /// Where the entry's positions lie in the leaf, unless they spill.
    positions: (usize, usize),
    /// Positions that span leaves.
    spilled: Vec<u8>,
    is_spilled: bool,
    /// The leaf with the term, and the offset of its doclist on that leaf.
    term_leaf: u32,
    doclist: usize,
    has_doclist_index: bool,
    index: DoclistIndex,
    tombstones: Tombstones,
}

impl SegmentCursor {
    pub(crate) fn new(segment: Segment, detail: Detail) -> SegmentCursor {
        SegmentCursor {
            segment,
            detail: Some(detail),
            tombstones: Tombstones::new(segment),
            ..SegmentCursor::default()
        }
    }

    /// True on an entry, false behind the doclist of a term.
    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// True behind the last term.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The positions of the entry, encoded.
    #[inline]
    pub(crate) fn positions(&self) -> &[u8] {
        if self.is_spilled {
            &self.spilled
        } else {
            &self.leaf.bytes[self.positions.0..self.positions.1]
        }
    }

    pub(crate) fn fault(&self, why: &'static str) -> Error {
        Error::corrupt("segment leaf", leaf_row(self.segment.id, self.leaf.number), why)
    }

    /// Goes to the first term.
    pub(crate) fn first(&mut self, store: &dyn Storage) -> Result<()> {
        self.begin();
        if !self.is_done {
            self.leaf.load(store, self.segment.id, self.segment.first)?;
            self.at = self.leaf.next_term;
            self.next_term(store)?;
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.is_valid = false;
        self.is_done = self.segment.first == 0;
        self.has_doclist_index = false;
        self.term.clear();
    }

    /// Goes to the first entry of `term`; not valid where the segment lacks the term.
    pub(crate) fn seek(&mut self, store: &dyn Storage, term: &[u8]) -> Result<()> {
        self.seek_from(store, term)?;
        self.is_valid &= self.term == term;
        Ok(())
    }

    /// Goes to the first term from `term` on.
    pub(crate) fn seek_from(&mut self, store: &dyn Storage, term: &[u8]) -> Result<()> {
        self.begin();
        if self.is_done {
            return Ok(());
        }
        let found = store.seek_leaf(self.segment.id, term)?.unwrap_or(0);
        let mut page = u32::try_from(found >> 1).unwrap_or(0);
        let mut has_index = found & 1 == 1;
        if page < self.segment.first {
            page = self.segment.first;
            has_index = false;
        }
        if page > self.segment.last {
            self.is_done = true;
            return Ok(());
        }
        self.leaf.load(store, self.segment.id, page)?;
        self.at = self.leaf.next_term;
        loop {
            if !self.read_term(store)? {
                return Ok(());
            }
            if self.term.as_slice() >= term {
                break;
            }
            // The entries of a smaller term are passed over by the footer.
            self.at = self.leaf.next_term;
        }
        // The index is of the leaf's last term.
        let is_last = self.leaf.next_term >= self.leaf.end;
        self.has_doclist_index = has_index && is_last && self.leaf.number == page;
        self.read_first_entry(store)
    }

    /// Goes to the next term; the doclist of the current one was read to its end.
    pub(crate) fn next_term(&mut self, store: &dyn Storage) -> Result<()> {
        self.has_doclist_index = false;
        self.is_valid = false;
        if self.read_term(store)? { self.read_first_entry(store) } else { Ok(()) }
    }

    /// Reads the term at `at`, or the first of the leaves behind; false at the segment's end.
    fn read_term(&mut self, store: &dyn Storage) -> Result<bool> {
        let mut is_first = self.leaf.next_term == self.at && self.at < self.leaf.end && {
            // The first term of a leaf shares nothing with another.
            self.first_term_offset() == self.at
        };
        while self.at >= self.leaf.end {
            if self.leaf.number >= self.segment.last {
                self.is_done = true;
                return Ok(false);
            }
            self.leaf.load(store, self.segment.id, self.leaf.number + 1)?;
            self.at = self.leaf.next_term;
            is_first = true;
        }
        let bytes = &self.leaf.bytes[..self.leaf.end];
        let mut shared = 0;
        if !is_first {
            let (value, length) =
                varint::get(&bytes[self.at..]).ok_or_else(|| self.fault("ends in a term"))?;
            (shared, self.at) = (value, self.at + length);
        }
        let (new, length) =
            varint::get(&bytes[self.at..]).ok_or_else(|| self.fault("ends in a term"))?;
        self.at += length;
        let start = self.at;
        let end = usize::try_from(new).ok().and_then(|new| start.checked_add(new));
        let end = end.filter(|&end| end <= bytes.len());
        let end = end.ok_or_else(|| self.fault("has a term longer than itself"))?;
        if shared > self.term.len() as u64 || is_first && new == 0 {
            return Err(self.fault("has a term that shares more than there is"));
        }
        self.term.truncate(shared as usize);
        self.term.extend_from_slice(&bytes[start..end]);
        self.at = end;
        (self.term_leaf, self.doclist) = (self.leaf.number, end);
        self.leaf.step_footer(self.segment.id)?;
        Ok(true)
    }

    fn first_term_offset(&self) -> usize {
        match varint::get(&self.leaf.bytes[self.leaf.end..]) {
            Some((offset, _)) => usize::try_from(offset).unwrap_or(usize::MAX),
            None => usize::MAX,
        }
    }

    /// The first entry of the term just read: its rowid may lie on the next leaf.
    fn read_first_entry(&mut self, store: &dyn Storage) -> Result<()> {
        self.index.reset();
        self.is_valid = true;
        self.entry.rowid = 0;
        while self.at >= self.leaf.end {
            if self.leaf.number >= self.segment.last {
                self.is_valid = false;
                return Ok(());
            }
            self.leaf.load(store, self.segment.id, self.leaf.number + 1)?;
            self.at = self.leaf.first_rowid.max(4);
        }
        if self.at >= self.leaf.next_term && self.leaf.next_term < self.leaf.end {
            // A term without entries: its rows were removed by secure deletes.
            self.at = self.leaf.next_term;
            self.is_valid = false;
            return Ok(());
        }
        (self.is_absolute, self.is_first) = (true, true);
        self.read_entry(store)
    }

    /// The next entry of the term.
    #[inline]
    pub(crate) fn next(&mut self, store: &dyn Storage) -> Result<()> {
        if self.at < self.leaf.next_term {
            return self.read_entry(store);
        }
        self.next_slow(store)
    }

    #[cold]
    fn next_slow(&mut self, store: &dyn Storage) -> Result<()> {
        loop {
            if self.leaf.next_term < self.leaf.end || self.leaf.number >= self.segment.last {
                self.is_valid = false;
                return Ok(());
            }
            self.leaf.load(store, self.segment.id, self.leaf.number + 1)?;
            let offset = self.leaf.first_rowid;
            if offset > 0 && offset < self.leaf.end {
                self.at = offset;
                self.is_absolute = true;
                return self.read_entry(store);
            }
            self.at = self.leaf.next_term;
        }
    }

    #[inline]
    fn number(&self, end: usize) -> Option<(u64, usize)> {
        self.leaf.bytes.get(self.at..end).and_then(varint::get)
    }

    /// Reads the entry at `at`.
    #[inline]
    fn read_entry(&mut self, store: &dyn Storage) -> Result<()> {
        let end = self.leaf.next_term;
        let (value, length) = self.number(end).ok_or_else(|| self.fault("ends in a rowid"))?;
        self.at += length;
        let before = self.entry.rowid;
        self.entry.rowid = if std::mem::take(&mut self.is_absolute) {
            value as i64
        } else {
            before.wrapping_add(value as i64)
        };
        if !std::mem::take(&mut self.is_first) && self.entry.rowid <= before {
            return Err(self.fault("has rowids that do not ascend"));
        }
        if self.detail == Some(Detail::None) {
            self.positions = (0, 0);
            self.is_spilled = false;
            let zero = |at: usize| at < end && self.leaf.bytes[at] == 0;
            let is_delete = zero(self.at);
            let is_again = is_delete && zero(self.at + 1);
            self.at += usize::from(is_delete) + usize::from(is_again);
            self.entry.is_delete = is_delete;
            self.entry.is_present = !is_delete || is_again;
            return self.skip_dead(store);
        }
        let (size, length) =
            self.number(end).ok_or_else(|| self.fault("ends in the size of a position list"))?;
        self.at += length;
        self.entry.is_delete = size & 1 == 1;
        self.entry.is_present = size > 1;
        let size = usize::try_from(size >> 1).unwrap_or(usize::MAX);
        let stop = self.at.saturating_add(size);
        if stop <= end {
            self.positions = (self.at, stop);
            self.is_spilled = false;
            self.at = stop;
        } else {
            self.spill(store, size)?;
        }
        self.skip_dead(store)
    }

    /// Passes over entries that tombstones void.
    #[inline]
    fn skip_dead(&mut self, store: &dyn Storage) -> Result<()> {
        if self.tombstones.is_empty() || !self.tombstones.contains(store, self.entry.rowid)? {
            return Ok(());
        }
        self.entry.is_present = false;
        self.entry.is_delete = false;
        Ok(())
    }

    /// Gathers positions from several leaves; goes to the leaf where they end.
    fn spill(&mut self, store: &dyn Storage, size: usize) -> Result<()> {
        if self.leaf.next_term < self.leaf.end {
            return Err(self.fault("has a position list that reaches into a term"));
        }
        self.is_spilled = true;
        self.spilled.clear();
        self.spilled.extend_from_slice(&self.leaf.bytes[self.at..self.leaf.end]);
        loop {
            let missing = size - self.spilled.len();
            if missing == 0 {
                return Ok(());
            }
            if self.leaf.number >= self.segment.last {
                return Err(self.fault("ends in a position list"));
            }
            self.leaf.load(store, self.segment.id, self.leaf.number + 1)?;
            let mut end = self.leaf.next_term;
            if self.leaf.first_rowid > 0 {
                end = end.min(self.leaf.first_rowid);
            }
            let stop = end.min(4_usize.saturating_add(missing));
            if stop < end || stop < missing.saturating_add(4) && end < self.leaf.end {
                return Err(self.fault("has a position list of another size"));
            }
            self.spilled.extend_from_slice(&self.leaf.bytes[4..stop]);
            self.at = stop;
            self.is_absolute = true;
        }
    }

    /// Goes on to the first entry of the term from `rowid` on; leaves without one are not read
    /// where the doclist has an index.
    pub(crate) fn skip_to(&mut self, store: &dyn Storage, rowid: i64) -> Result<()> {
        if self.has_doclist_index && self.is_valid && self.entry.rowid < rowid {
            let (segment, first) = (self.segment.id, self.term_leaf);
            if let Some(leaf) = self.index.leaf_of(store, segment, first, rowid)?
                && leaf > self.leaf.number
                && leaf <= self.segment.last
            {
                self.leaf.load(store, segment, leaf)?;
                let offset = self.leaf.first_rowid;
                if offset == 0 || offset >= self.leaf.next_term {
                    return Err(self.fault("lacks the rowid of its doclist index"));
                }
                self.at = offset;
                self.is_absolute = true;
                self.read_entry(store)?;
            }
        }
        while self.is_valid && self.entry.rowid < rowid {
            self.step_on_leaf(rowid.saturating_sub(1), |_, _| true);
            self.next(store)?;
        }
        Ok(())
    }

    /// Goes on behind the current entry, and appends the rowids of present entries up to `to`,
    /// until `rows` has `count`. The cursor is then on the last of these; otherwise on the first
    /// entry behind `to`, or behind the doclist.
    pub(crate) fn read_rows(
        &mut self,
        store: &dyn Storage,
        to: i64,
        count: usize,
        rows: &mut Vec<i64>,
    ) -> Result<()> {
        while rows.len() < count {
            self.step_on_leaf(to, |rowid, is_present| {
                if is_present {
                    rows.push(rowid);
                }
                rows.len() < count
            });
            if rows.len() == count {
                return Ok(());
            }
            // An entry that the leaf does not have as a whole, or one behind `to`.
            self.next(store)?;
            if !self.is_valid || self.entry.rowid > to {
                return Ok(());
            }
            if self.entry.is_present {
                rows.push(self.entry.rowid);
            }
        }
        Ok(())
    }

    /// Goes on over entries up to `to` that lie whole on the leaf, while `each` says so of an
    /// entry's rowid and presence: the many steps of long doclists in one loop over the bytes.
    /// Stops before anything that [`SegmentCursor::next`] has to look at.
    #[inline]
    fn step_on_leaf(&mut self, to: i64, mut each: impl FnMut(i64, bool) -> bool) {
        let is_plain = self.detail != Some(Detail::None) && self.tombstones.is_empty();
        if self.is_absolute || !is_plain || !self.is_valid {
            return;
        }
        let Some(bytes) = self.leaf.bytes.get(..self.leaf.next_term) else { return };
        let (mut at, mut rowid, mut last) = (self.at, self.entry.rowid, None);
        while let Some((delta, length)) = bytes.get(at..).and_then(varint::get) {
            let size_at = at + length;
            let Some((size, length)) = bytes.get(size_at..).and_then(varint::get) else { break };
            let start = size_at + length;
            let stop = usize::try_from(size >> 1).unwrap_or(usize::MAX).saturating_add(start);
            let next = rowid.wrapping_add(delta as i64);
            if stop > bytes.len() || next <= rowid || next > to {
                break;
            }
            (at, rowid) = (stop, next);
            last = Some((start, size));
            if !each(next, size > 1) {
                break;
            }
        }
        let Some((start, size)) = last else { return };
        self.entry = Entry { rowid, is_delete: size & 1 == 1, is_present: size > 1 };
        (self.at, self.positions, self.is_spilled) = (at, (start, at), false);
    }

    /// The leaf of the current term, written anew without the terms before: its number and bytes.
    pub(crate) fn trimmed(&self, store: &dyn Storage) -> Result<(u32, Vec<u8>)> {
        let mut leaf = Leaf::default();
        leaf.load(store, self.segment.id, self.term_leaf)?;
        let mut bytes = vec![0; 4];
        varint::put(&mut bytes, self.term.len() as u64);
        bytes.extend_from_slice(&self.term);
        let start = bytes.len();
        let rest = leaf.bytes.get(self.doclist..leaf.end);
        bytes.extend_from_slice(rest.ok_or_else(|| self.fault("ends in a term"))?);
        let end = u16::try_from(bytes.len()).map_err(|_| self.fault("is longer than a leaf"))?;
        bytes[2..4].copy_from_slice(&end.to_be_bytes());
        varint::put(&mut bytes, 4);
        let mut before = 4;
        while leaf.next_term < leaf.end {
            if leaf.next_term >= self.doclist {
                let offset = leaf.next_term - self.doclist + start;
                varint::put(&mut bytes, (offset - before) as u64);
                before = offset;
            }
            leaf.step_footer(self.segment.id)?;
        }
        Ok((self.term_leaf, bytes))
    }
}

/// The doclist index of one term: the first rowid of each leaf that its doclist spans.
#[derive(Debug, Default)]
struct DoclistIndex {
    is_loaded: bool,
    bytes: Vec<u8>,
    at: usize,
    page: u32,
    /// The last leaf known to begin at or before the rowid asked for.
    current: Option<u32>,
    /// The leaf behind it, and its first rowid.
    upcoming: Option<(u32, i64)>,
    next_leaf: u32,
    last_rowid: i64,
    /// `upcoming` was read with its page.
    is_fresh: bool,
}

impl DoclistIndex {
    fn reset(&mut self) {
        self.is_loaded = false;
    }

    fn leaf_of(
        &mut self,
        store: &dyn Storage,
        segment: u32,
        term_leaf: u32,
        rowid: i64,
    ) -> Result<Option<u32>> {
        if !self.is_loaded {
            self.is_loaded = true;
            self.current = None;
            self.page = term_leaf;
            self.load(store, segment)?;
            self.step(store, segment)?;
        }
        while let Some((leaf, first)) = self.upcoming.filter(|&(_, first)| first <= rowid) {
            debug_assert!(first <= rowid);
            self.current = Some(leaf);
            self.step(store, segment)?;
        }
        Ok(self.current)
    }

    /// Loads ground page `page`, and reads its first entry's place.
    fn load(&mut self, store: &dyn Storage, segment: u32) -> Result<()> {
        let row = doclist_index_row(segment, 0, self.page);
        self.at = 1;
        if !store.block(row, &mut self.bytes)? {
            self.bytes.clear();
            self.upcoming = None;
            return Ok(());
        }
        let fault = || Error::corrupt("doclist index", row, "ends in its first entry");
        let (leaf, length) = self.bytes.get(1..).and_then(varint::get).ok_or_else(fault)?;
        self.at += length;
        let (rowid, length) = varint::get(&self.bytes[self.at..]).ok_or_else(fault)?;
        self.at += length;
        let leaf = u32::try_from(leaf).map_err(|_| fault())?;
        self.upcoming = Some((leaf, rowid as i64));
        (self.next_leaf, self.last_rowid) = (leaf.wrapping_add(1), rowid as i64);
        self.is_fresh = true;
        Ok(())
    }

    /// Reads the entry behind `upcoming`.
    fn step(&mut self, store: &dyn Storage, segment: u32) -> Result<()> {
        if std::mem::take(&mut self.is_fresh) {
            return Ok(());
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            let leaf = self.next_leaf;
            self.next_leaf = leaf.wrapping_add(1);
            if byte == 0 {
                self.at += 1;
                continue;
            }
            let row = doclist_index_row(segment, 0, self.page);
            let (delta, length) = varint::get(&self.bytes[self.at..])
                .ok_or_else(|| Error::corrupt("doclist index", row, "ends in a rowid"))?;
            self.at += length;
            let rowid = self.last_rowid.wrapping_add(delta as i64);
            if rowid <= self.last_rowid {
                return Err(Error::corrupt("doclist index", row, "has rowids that do not ascend"));
            }
            self.last_rowid = rowid;
            self.upcoming = Some((leaf, rowid));
            return Ok(());
        }
        let has_more = self.bytes.first() == Some(&1);
        self.upcoming = None;
        if has_more {
            self.page += 1;
            self.load(store, segment)?;
            self.is_fresh = false;
        }
        Ok(())
    }
}
