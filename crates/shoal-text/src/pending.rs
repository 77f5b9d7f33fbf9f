//! Terms not yet in a segment: a hash table from terms to doclists, with a way back.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::definition::Detail;
use crate::varint;

/// Doclists in memory, rows ascending.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    detail: Detail,
    /// Hash of a term above, index of its entry plus one below; a power of two.
    slots: Vec<u64>,
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
    /// The first bytes of the term, in the order of terms.
    head: u64,
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

    /// Adds a token's place, in the index of the byte `index`.
    pub(crate) fn add(&mut self, key: (u8, &[u8]), rowid: i64, column: u32, position: u32) {
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
    pub(crate) fn delete(&mut self, key: (u8, &[u8]), rowid: i64) {
        self.entry(key, rowid).state.is_delete = true;
    }

    /// The entry of `key`, with `rowid` as its last row.
    fn entry(&mut self, key: (u8, &[u8]), rowid: i64) -> &mut Entry {
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

    fn find(&mut self, (index, token): (u8, &[u8])) -> usize {
        let mut hasher = FxHasher::default();
        hasher.write_u8(index);
        hasher.write(token);
        let hash = hasher.finish();
        let hash = (hash ^ hash >> 32) as u32;
        let head = head_of(index, token);
        let length = token.len() as u32 + 1;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            if (self.slots[slot] >> 32) as u32 == hash {
                let at = self.slots[slot] as u32 as usize - 1;
                let entry = &self.entries[at];
                let (start, end) = entry.term;
                // Short terms are all head.
                if entry.head == head
                    && end - start == length
                    && (length <= 8 || &self.terms[start as usize + 1..end as usize] == token)
                {
                    return at;
                }
            }
            slot = (slot + 1) & mask;
        }
        let at = self.entries.len();
        let start = self.terms.len() as u32;
        self.terms.push(index);
        self.terms.extend_from_slice(token);
        let term = (start, self.terms.len() as u32);
        let epoch = self.epoch;
        self.entries.push(Entry { head, epoch, term, data: Vec::new(), state: State::default() });
        self.bytes += token.len() + 41;
        self.slots[slot] = slot_of(hash, at);
        if self.entries.len() * 2 > self.slots.len() {
            self.rehash(self.slots.len() * 2);
        }
        at
    }

    /// Spreads the entries over `size` slots; slots of entries taken back are left out.
    fn rehash(&mut self, size: usize) {
        let before = std::mem::replace(&mut self.slots, vec![0; size]);
        for known in before.into_iter().filter(|&known| known != 0) {
            let (hash, at) = ((known >> 32) as u32, known as u32 as usize - 1);
            if at >= self.entries.len() {
                continue;
            }
            let mut slot = hash as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = slot_of(hash, at);
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
    pub(crate) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (terms, detail) = (&self.terms, self.detail);
        for entry in &mut self.entries {
            close(&mut entry.data, &entry.state, detail);
            entry.state.is_open = false;
        }
        let term = |entry: &Entry| &terms[entry.term.0 as usize..entry.term.1 as usize];
        let mut sorted: Vec<(u64, &[u8], &[u8])> = self
            .entries
            .iter()
            .map(|entry| (entry.head, term(entry), entry.data.as_slice()))
            .collect();
        // The heads tell most terms apart.
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        sorted.into_iter().map(|(_, term, doclist)| (term, doclist))
    }
}

fn slot_of(hash: u32, at: usize) -> u64 {
    u64::from(hash) << 32 | (at as u64 + 1)
}

/// The first eight bytes of a term: the index's byte and the token's first seven.
#[inline]
fn head_of(index: u8, token: &[u8]) -> u64 {
    let mut head = [0; 8];
    head[0] = index;
    match token.first_chunk::<7>() {
        Some(first) => head[1..].copy_from_slice(first),
        None => head[1..=token.len()].copy_from_slice(token),
    }
    u64::from_be_bytes(head)
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
