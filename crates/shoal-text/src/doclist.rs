//! The rows of one term, or of all terms with a prefix, over all segments.

use crate::definition::Detail;
use crate::error::Result;
use crate::positions::{Positions, encode};
use crate::segment::SegmentCursor;
use crate::storage::Storage;
use crate::structure::Structure;

/// Rows ascending, each with its positions.
#[derive(Debug)]
pub(crate) enum Doclist {
    /// Of one term.
    Term(TermCursor),
    /// Of several terms, gathered.
    Gathered(Gathered),
}

impl Doclist {
    /// The current row; none behind the last.
    #[inline]
    pub(crate) fn row(&self) -> Option<i64> {
        match self {
            Doclist::Term(term) => term.row,
            Doclist::Gathered(gathered) => gathered.row(),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, store: &dyn Storage) -> Result<()> {
        match self {
            Doclist::Term(term) => term.next(store),
            Doclist::Gathered(gathered) => {
                gathered.at = gathered.group_end;
                gathered.settle();
                Ok(())
            }
        }
    }

    /// The first row from `rowid` on.
    #[inline]
    pub(crate) fn skip_to(&mut self, store: &dyn Storage, rowid: i64) -> Result<()> {
        match self {
            Doclist::Term(term) => term.skip_to(store, rowid),
            Doclist::Gathered(gathered) => {
                gathered.skip_to(rowid);
                Ok(())
            }
        }
    }

    /// Goes on behind the current row, and appends rows up to `to` until `rows` has `count`: the
    /// last one is the current row then. With fewer, the current row is behind `to`.
    pub(crate) fn read_rows(
        &mut self,
        store: &dyn Storage,
        to: i64,
        count: usize,
        rows: &mut Vec<i64>,
    ) -> Result<()> {
        match self {
            Doclist::Term(term) => term.read_rows(store, to, count, rows),
            Doclist::Gathered(gathered) => {
                gathered.read_rows(to, count, rows);
                Ok(())
            }
        }
    }

    /// The encoded positions of the current row.
    #[inline]
    pub(crate) fn positions(&mut self) -> &[u8] {
        match self {
            Doclist::Term(term) => term.cursors[term.best].positions(),
            Doclist::Gathered(gathered) => gathered.positions(),
        }
    }
}

/// One term in all segments, newest first.
#[derive(Debug)]
pub(crate) struct TermCursor {
    cursors: Vec<SegmentCursor>,
    best: usize,
    row: Option<i64>,
}

impl TermCursor {
    /// Goes to the first row of the term `key`, index byte included.
    pub(crate) fn open(
        store: &dyn Storage,
        structure: &Structure,
        key: &[u8],
        detail: Detail,
    ) -> Result<TermCursor> {
        let mut cursors = Vec::new();
        for segment in structure.newest_first() {
            let mut cursor = SegmentCursor::new(*segment, detail);
            cursor.seek(store, key)?;
            if cursor.is_valid() {
                cursors.push(cursor);
            }
        }
        let mut term = TermCursor { cursors, best: 0, row: None };
        term.settle(store)?;
        Ok(term)
    }

    /// Chooses the smallest row, and passes over deleted ones.
    #[inline]
    fn settle(&mut self, store: &dyn Storage) -> Result<()> {
        if let [only] = self.cursors.as_mut_slice() {
            while only.is_valid() && !only.entry.is_present {
                only.next(store)?;
            }
            self.row = only.is_valid().then_some(only.entry.rowid);
            return Ok(());
        }
        self.settle_many(store)
    }

    fn settle_many(&mut self, store: &dyn Storage) -> Result<()> {
        loop {
            let mut best: Option<(usize, i64)> = None;
            for (at, cursor) in self.cursors.iter().enumerate() {
                let rowid = cursor.entry.rowid;
                if cursor.is_valid() && best.is_none_or(|(_, least)| rowid < least) {
                    best = Some((at, rowid));
                }
            }
            self.row = best.map(|(_, rowid)| rowid);
            let Some((best, rowid)) = best else { return Ok(()) };
            self.best = best;
            if self.cursors[best].entry.is_present {
                return Ok(());
            }
            self.pass(store, rowid)?;
        }
    }

    /// Moves all segments on that are at `rowid`.
    fn pass(&mut self, store: &dyn Storage, rowid: i64) -> Result<()> {
        for cursor in &mut self.cursors {
            if cursor.is_valid() && cursor.entry.rowid == rowid {
                cursor.next(store)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self, store: &dyn Storage) -> Result<()> {
        if let [only] = self.cursors.as_mut_slice() {
            only.next(store)?;
        } else if let Some(rowid) = self.row {
            self.pass(store, rowid)?;
        }
        self.settle(store)
    }

    fn read_rows(
        &mut self,
        store: &dyn Storage,
        to: i64,
        count: usize,
        rows: &mut Vec<i64>,
    ) -> Result<()> {
        while rows.len() < count {
            let Some(row) = self.row else { return Ok(()) };
            // Up to the next row of another segment, all rows are those of the best.
            let mut end = to;
            for (at, cursor) in self.cursors.iter().enumerate() {
                if at != self.best && cursor.is_valid() {
                    end = end.min(cursor.entry.rowid.saturating_sub(1));
                }
            }
            if end > row {
                let best = &mut self.cursors[self.best];
                best.read_rows(store, end, count, rows)?;
                if rows.len() == count {
                    self.row = Some(best.entry.rowid);
                    return Ok(());
                }
            } else {
                self.pass(store, row)?;
            }
            self.settle(store)?;
            match self.row {
                Some(row) if row <= to => rows.push(row),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn skip_to(&mut self, store: &dyn Storage, rowid: i64) -> Result<()> {
        if self.row.is_none_or(|row| row >= rowid) {
            return Ok(());
        }
        for cursor in &mut self.cursors {
            cursor.skip_to(store, rowid)?;
        }
        self.settle(store)
    }
}

/// Rows of several terms in memory, sorted.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Rowid, and the range of its positions in `arena`; equal rowids side by side.
    entries: Vec<(i64, u32, u32)>,
    arena: Vec<u8>,
    at: usize,
    group_end: usize,
    detail: Option<Detail>,
    merged: Vec<u8>,
    decoded: Vec<u64>,
}

impl Gathered {
    /// Gathers the rows of all terms that begin with `key`, index byte included.
    pub(crate) fn open(
        store: &dyn Storage,
        structure: &Structure,
        key: &[u8],
        detail: Detail,
    ) -> Result<Gathered> {
        let mut gathered = Gathered { detail: Some(detail), ..Gathered::default() };
        each_term(store, structure, key, detail, &mut |_, rowid, positions| {
            let start = gathered.arena.len() as u32;
            gathered.arena.extend_from_slice(positions);
            gathered.entries.push((rowid, start, gathered.arena.len() as u32));
            Ok(gathered.arena.len() < u32::MAX as usize / 2)
        })?;
        gathered.entries.sort_by_key(|&(rowid, ..)| rowid);
        gathered.settle();
        Ok(gathered)
    }

    fn row(&self) -> Option<i64> {
        self.entries.get(self.at).map(|&(rowid, ..)| rowid)
    }

    fn settle(&mut self) {
        self.group_end = self.at;
        if let Some(row) = self.row() {
            let same = self.entries[self.at..].iter().take_while(|&&(rowid, ..)| rowid == row);
            self.group_end = self.at + same.count();
        }
    }

    fn read_rows(&mut self, to: i64, count: usize, rows: &mut Vec<i64>) {
        while rows.len() < count {
            self.at = self.group_end;
            self.settle();
            match self.row() {
                Some(row) if row <= to => rows.push(row),
                _ => return,
            }
        }
    }

    fn skip_to(&mut self, rowid: i64) {
        if self.row().is_none_or(|row| row >= rowid) {
            return;
        }
        // Steps that double, then a search between the last two.
        let mut step = 1;
        while self.entries.get(self.at + step).is_some_and(|&(row, ..)| row < rowid) {
            step *= 2;
        }
        let end = (self.at + step).min(self.entries.len());
        let behind = &self.entries[self.at..end];
        self.at += behind.partition_point(|&(row, ..)| row < rowid);
        self.settle();
    }

    fn positions(&mut self) -> &[u8] {
        let group = &self.entries[self.at..self.group_end];
        if let &[(_, start, end)] = group {
            return &self.arena[start as usize..end as usize];
        }
        let detail = self.detail.expect("gathered rows have a detail");
        self.decoded.clear();
        for &(_, start, end) in group {
            let bytes = &self.arena[start as usize..end as usize];
            self.decoded.extend(Positions::new(bytes, detail));
        }
        self.decoded.sort_unstable();
        self.decoded.dedup();
        self.merged.clear();
        encode(&self.decoded, detail, &mut self.merged);
        &self.merged
    }
}

/// Receives a term, a rowid and encoded positions; false ends the walk.
pub(crate) type EachEntry<'e> = dyn FnMut(&[u8], i64, &[u8]) -> Result<bool> + 'e;

/// Gives every present entry of the terms that begin with `key`, terms ascending and rows within:
/// the term, the rowid, the positions. Stops where `each` says false.
pub(crate) fn each_term(
    store: &dyn Storage,
    structure: &Structure,
    key: &[u8],
    detail: Detail,
    each: &mut EachEntry<'_>,
) -> Result<()> {
    let mut cursors = Vec::new();
    for segment in structure.newest_first() {
        let mut cursor = SegmentCursor::new(*segment, detail);
        cursor.seek_from(store, key)?;
        if !cursor.is_done() {
            cursors.push(cursor);
        }
    }
    let mut term = Vec::new();
    let mut active: Vec<usize> = Vec::new();
    loop {
        cursors.retain(|cursor| !cursor.is_done() && cursor.term.starts_with(key));
        let Some(least) = cursors.iter().map(|cursor| &cursor.term).min() else { return Ok(()) };
        term.clone_from(least);
        active.clear();
        active.extend((0..cursors.len()).filter(|&at| cursors[at].term == term));
        if let [only] = *active.as_slice() {
            let cursor = &mut cursors[only];
            while cursor.is_valid() {
                let entry = cursor.entry;
                if entry.is_present && !each(&term, entry.rowid, cursor.positions())? {
                    return Ok(());
                }
                cursor.next(store)?;
            }
            cursor.next_term(store)?;
            continue;
        }
        loop {
            let valid = active.iter().copied().filter(|&at| cursors[at].is_valid());
            let Some(best) = valid.min_by_key(|&at| cursors[at].entry.rowid) else { break };
            let entry = cursors[best].entry;
            if entry.is_present && !each(&term, entry.rowid, cursors[best].positions())? {
                return Ok(());
            }
            for &at in &active {
                if cursors[at].is_valid() && cursors[at].entry.rowid == entry.rowid {
                    cursors[at].next(store)?;
                }
            }
        }
        for &at in &active {
            cursors[at].next_term(store)?;
        }
    }
}
