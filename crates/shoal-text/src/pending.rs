//! Terms not yet in a segment: a hash table from terms to doclists, with a way back.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::definition::Detail;
use crate::varint;

/// Doclists in memory, rows ascending.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    detail: Detail,
    /// Index of an entry plus one by hash; a power of two.
    slots: Vec<u32>,
    entries: Vec<Entry>,
    /// Terms of the entries, one behind the other.
    terms: Vec<u8>,
    /// About the bytes of doclists and terms.
    pub(crate) bytes: usize,
    /// Rows inserted since the last flush.
    pub(crate) rows: u64,
    /// States of entries before the latest moment, newest last.
    log: Vec<Logged>,
    epoch: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    hash: u32,
    epoch: u32,
    term: (u32, u32),
    data: Vec<u8>,
    state: State,
}

/// The end of a doclist.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    rowid: i64,
    /// Offset of the byte left for the size of the row's positions.
    size_at: u32,
    column: u32,
    position: u32,
    is_delete: bool,
    is_present: bool,
    is_open: bool,
}

#[derive(Clone, Debug)]
struct Logged {
    entry: u32,
    length: u32,
    state: State,
}

/// A moment to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    entries: usize,
    terms: usize,
    bytes: usize,
    rows: u64,
    log: usize,
}

impl Pending {
    pub(crate) fn new(detail: Detail) -> Pending {
        Pending {
            detail,
            slots: vec![0; 1024],
            entries: Vec::new(),
            terms: Vec::new(),
            bytes: 0,
            rows: 0,
            log: Vec::new(),
            epoch: 0,
        }
    }

    pub(crate) fn detail(&self) -> Detail {
        self.detail
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything, and keeps the memory of the table.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.entries.clear();
        self.terms.clear();
        self.log.clear();
        (self.bytes, self.rows) = (0, 0);
    }

    /// Adds a token's place.
    pub(crate) fn add(&mut self, key: &[u8], rowid: i64, column: u32, position: u32) {
        let detail = self.detail;
        let entry = self.entry(key, rowid);
        entry.state.is_present = true;
        match detail {
            Detail::None => {}
            Detail::Full => {
                if entry.state.column != column {
                    entry.data.push(1);
                    varint::put(&mut entry.data, u64::from(column));
                    (entry.state.column, entry.state.position) = (column, 0);
                }
                varint::put(&mut entry.data, u64::from(position - entry.state.position) + 2);
                entry.state.position = position;
            }
            Detail::Columns => {
                // A column is a position of its own; `position` holds one more than the last.
                if entry.state.column != column + 1 {
                    varint::put(&mut entry.data, u64::from(column - entry.state.position) + 2);
                    (entry.state.column, entry.state.position) = (column + 1, column);
                }
            }
        }
        self.bytes += 2;
    }

    /// Marks the row as deleted in older segments.
    pub(crate) fn delete(&mut self, key: &[u8], rowid: i64) {
        self.entry(key, rowid).state.is_delete = true;
    }

    /// The entry of `key`, with `rowid` as its last row.
    fn entry(&mut self, key: &[u8], rowid: i64) -> &mut Entry {
        let at = self.find(key);
        let detail = self.detail;
        let epoch = self.epoch;
        let entry = &mut self.entries[at];
        if entry.epoch != epoch {
            entry.epoch = epoch;
            if epoch > 0 {
                let length = entry.data.len() as u32;
                self.log.push(Logged { entry: at as u32, length, state: entry.state });
            }
        }
        if !entry.state.is_open || entry.state.rowid != rowid {
            let delta =
                rowid.wrapping_sub(if entry.data.is_empty() { 0 } else { entry.state.rowid });
            close(&mut entry.data, &entry.state, detail);
            varint::put(&mut entry.data, delta as u64);
            entry.state = State {
                rowid,
                size_at: entry.data.len() as u32,
                is_open: true,
                ..State::default()
            };
            if detail != Detail::None {
                entry.data.push(0);
            }
            self.bytes += 4;
        }
        entry
    }

    fn find(&mut self, key: &[u8]) -> usize {
        let mut hasher = FxHasher::default();
        hasher.write(key);
        let hash = hasher.finish();
        let hash = (hash ^ hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            let at = self.slots[slot] as usize - 1;
            let entry = &self.entries[at];
            let (start, end) = entry.term;
            if entry.hash == hash && &self.terms[start as usize..end as usize] == key {
                return at;
            }
            slot = (slot + 1) & mask;
        }
        let at = self.entries.len();
        let start = self.terms.len() as u32;
        self.terms.extend_from_slice(key);
        let term = (start, self.terms.len() as u32);
        let epoch = self.epoch;
        self.entries.push(Entry { hash, epoch, term, data: Vec::new(), state: State::default() });
        self.bytes += key.len() + 40;
        self.slots[slot] = at as u32 + 1;
        if self.entries.len() * 2 > self.slots.len() {
            self.rehash(self.slots.len() * 2);
        }
        at
    }

    fn rehash(&mut self, size: usize) {
        self.slots.clear();
        self.slots.resize(size, 0);
        for (at, entry) in (1..).zip(&self.entries) {
            let mut slot = entry.hash as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = at;
        }
    }

    /// A moment to go back to with [`Pending::undo`].
    pub(crate) fn mark(&mut self) -> Mark {
        self.epoch += 1;
        Mark {
            entries: self.entries.len(),
            terms: self.terms.len(),
            bytes: self.bytes,
            rows: self.rows,
            log: self.log.len(),
        }
    }

    /// Forgets how to go back.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
    }

    /// Undoes what came after `mark`.
    pub(crate) fn undo(&mut self, mark: Mark) {
        while self.log.len() > mark.log {
            let logged = self.log.pop().expect("the log is longer than the mark");
            let entry = &mut self.entries[logged.entry as usize];
            let (length, state) = (logged.length as usize, logged.state);
            if entry.data.len() > length && state.is_open && self.detail != Detail::None {
                // The row that was open then has been closed: its size may have grown.
                let size_at = state.size_at as usize;
                let is_same_row = entry.state.rowid == state.rowid;
                let size = size_field(length - size_at - 1, state.is_delete);
                let grown = varint::len(size) - 1;
                if !is_same_row && grown > 0 {
                    entry.data.drain(size_at + 1..size_at + 1 + grown);
                }
            }
            entry.data.truncate(length);
            entry.state = state;
        }
        self.entries.truncate(mark.entries);
        self.terms.truncate(mark.terms);
        (self.bytes, self.rows) = (mark.bytes, mark.rows);
        self.epoch += 1;
        self.rehash(self.slots.len());
    }

    /// Closes all doclists, and gives them by ascending term.
    pub(crate) fn sorted(&mut self) -> Vec<(&[u8], &[u8])> {
        let (terms, detail) = (&self.terms, self.detail);
        for entry in &mut self.entries {
            close(&mut entry.data, &entry.state, detail);
            entry.state.is_open = false;
        }
        let term = |entry: &Entry| &terms[entry.term.0 as usize..entry.term.1 as usize];
        let mut sorted: Vec<(&[u8], &[u8])> =
            self.entries.iter().map(|entry| (term(entry), entry.data.as_slice())).collect();
        sorted.sort_unstable_by_key(|&(term, _)| term);
        sorted
    }
}

fn size_field(size: usize, is_delete: bool) -> u64 {
    (size * 2) as u64 | u64::from(is_delete)
}

/// Ends the last row of a doclist.
fn close(data: &mut Vec<u8>, state: &State, detail: Detail) {
    if !state.is_open {
        return;
    }
    if detail == Detail::None {
        if state.is_delete {
            data.push(0);
            if state.is_present {
                data.push(0);
            }
        }
        return;
    }
    let size_at = state.size_at as usize;
    let size = size_field(data.len() - size_at - 1, state.is_delete);
    if size < 0x80 {
        data[size_at] = size as u8;
    } else {
        let mut bytes = Vec::with_capacity(9);
        varint::put(&mut bytes, size);
        data.splice(size_at..=size_at, bytes);
    }
}

/// Rows of a doclist of [`Pending::sorted`]: rowid, deleted, present, positions.
pub(crate) struct Rows<'d> {
    data: &'d [u8],
    rowid: i64,
    detail: Detail,
}

impl<'d> Rows<'d> {
    pub(crate) fn new(data: &'d [u8], detail: Detail) -> Rows<'d> {
        Rows { data, rowid: 0, detail }
    }
}

impl<'d> Iterator for Rows<'d> {
    type Item = (i64, bool, bool, &'d [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (delta, length) = varint::get(self.data)?;
        self.data = &self.data[length..];
        self.rowid = self.rowid.wrapping_add(delta as i64);
        if self.detail == Detail::None {
            let zeros = self.data.iter().take(2).take_while(|&&byte| byte == 0).count();
            self.data = &self.data[zeros..];
            return Some((self.rowid, zeros > 0, zeros != 1, &[]));
        }
        let (size, length) = varint::get(self.data).expect("a doclist of ours has sizes");
        let (positions, rest) = self.data[length..].split_at((size >> 1) as usize);
        self.data = rest;
        Some((self.rowid, size & 1 == 1, size > 1, positions))
    }
}
