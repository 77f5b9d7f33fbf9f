//! Writing an index: rows come and go, segments are written and merged, commands are obeyed.

use crate::config::{Config, Rank};
use crate::definition::{Content, Definition};
use crate::error::{Error, Result};
use crate::merge::{Shape, merge_level};
use crate::pending::{Mark, Pending, Rows};
use crate::storage::{Documents, Setting, Storage};
use crate::structure::{AVERAGES_ROW, Level, Segment, Structure};
use crate::tombstone;
use crate::varint;
use crate::writer::SegmentWriter;

/// Leaves of level 0 between two steps of automerge.
const WORK_UNIT: u64 = 64;
/// Bytes of a term at most.
const TERM_MAX: usize = 32_768;

/// The count of documents, and the count of tokens of each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) tokens: Vec<u64>,
}

impl Totals {
    /// Reads the averages record; all zero of an index that has none yet.
    pub(crate) fn read(store: &dyn Storage, columns: usize) -> Result<Totals> {
        let mut block = Vec::new();
        store.block(AVERAGES_ROW, &mut block)?;
        let mut rest = block.as_slice();
        let mut number = || match varint::get(rest) {
            Some((value, length)) => {
                rest = &rest[length..];
                value
            }
            None => 0,
        };
        let rows = number();
        Ok(Totals { rows, tokens: (0..columns).map(|_| number()).collect() })
    }

    fn write(&self, store: &dyn Storage) -> Result<()> {
        let mut block = Vec::new();
        varint::put(&mut block, self.rows);
        self.tokens.iter().for_each(|&tokens| varint::put(&mut block, tokens));
        store.put_block(AVERAGES_ROW, &block)
    }

    fn add(&mut self, sizes: &[u64]) {
        self.rows += 1;
        self.tokens.iter_mut().zip(sizes).for_each(|(total, size)| *total += size);
    }

    fn remove(&mut self, sizes: &[u64]) -> Result<()> {
        let fault =
            || Error::corrupt("averages record", AVERAGES_ROW, "counts fewer than there are");
        self.rows = self.rows.checked_sub(1).ok_or_else(fault)?;
        for (total, size) in self.tokens.iter_mut().zip(sizes) {
            *total = total.checked_sub(*size).ok_or_else(fault)?;
        }
        Ok(())
    }
}

/// The writer of an index: what it holds in memory reaches the storage with [`Writer::flush`].
#[derive(Debug)]
pub struct Writer {
    config: Config,
    pending: Pending,
    totals: Totals,
    last: Option<(i64, bool)>,
    has_deletes: bool,
    is_dirty: bool,
    moments: Vec<Moment>,
    term: Vec<u8>,
    sizes: Vec<u64>,
}

#[derive(Debug)]
struct Moment {
    mark: Mark,
    totals: Totals,
    last: Option<(i64, bool)>,
    has_deletes: bool,
    is_dirty: bool,
    /// What was in memory, once it was flushed.
    saved: Option<Pending>,
}

impl Writer {
    /// The first rows of a new index.
    ///
    /// # Errors
    /// Faults of the storage.
    pub fn create(store: &dyn Storage, definition: &Definition) -> Result<()> {
        Config::begin(store)?;
        reset(store, definition, 0)
    }

    /// A writer of the index in `store`.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn open(store: &dyn Storage, definition: &Definition) -> Result<Writer> {
        Ok(Writer {
            config: Config::read(store)?,
            pending: Pending::new(definition.detail),
            totals: Totals::read(store, definition.columns.len())?,
            last: None,
            has_deletes: false,
            is_dirty: false,
            moments: Vec::new(),
            term: Vec::new(),
            sizes: Vec::new(),
        })
    }

    /// Indexes a document: a text of each column, None of NULL.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn insert(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        rowid: i64,
        texts: &[Option<&[u8]>],
    ) -> Result<()> {
        self.begin_row(store, rowid, false)?;
        self.pending.rows += 1;
        self.tokens(definition, rowid, texts, false);
        if definition.has_sizes {
            let mut sizes = Vec::with_capacity(self.sizes.len());
            self.sizes.iter().for_each(|&size| varint::put(&mut sizes, size));
            let origin = if definition.deletes_contentless {
                let mut buffer = Vec::new();
                Some(Structure::read(store, &mut buffer)?.next_origin as i64)
            } else {
                None
            };
            store.put_sizes(rowid, &sizes, origin)?;
        }
        self.totals.add(&self.sizes);
        Ok(())
    }

    /// Removes a document, whose texts are those it was indexed with.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes: among them counts below zero, of texts that were
    /// not in the index.
    pub fn delete(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        rowid: i64,
        texts: &[Option<&[u8]>],
    ) -> Result<()> {
        self.begin_row(store, rowid, true)?;
        self.tokens(definition, rowid, texts, true);
        self.has_deletes = true;
        if definition.has_sizes {
            store.remove_sizes(rowid)?;
        }
        self.totals.remove(&self.sizes)
    }

    /// Removes a document of a table with `contentless_delete=1`; false without the document.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn delete_contentless(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        rowid: i64,
    ) -> Result<bool> {
        let Some(origin) = store.origin(rowid)? else { return Ok(false) };
        let mut sizes = Vec::new();
        store.sizes(rowid, &mut sizes)?;
        decode_sizes(&sizes, definition.columns.len(), &mut self.sizes);
        let mut buffer = Vec::new();
        let mut structure = Structure::read(store, &mut buffer)?;
        if origin as u64 >= structure.next_origin {
            // The row is still in memory.
            self.flush(store)?;
            structure = Structure::read(store, &mut buffer)?;
        }
        self.is_dirty = true;
        for segment in structure.levels.iter_mut().flat_map(|level| &mut level.segments) {
            if (segment.origins.0..=segment.origins.1).contains(&(origin as u64)) {
                tombstone::add(store, segment, rowid, self.page_size())?;
            }
        }
        structure.write(store, &mut buffer)?;
        store.remove_sizes(rowid)?;
        self.totals.remove(&self.sizes)?;
        Ok(true)
    }

    /// Flushes where the row cannot join what is in memory.
    fn begin_row(&mut self, store: &dyn Storage, rowid: i64, is_delete: bool) -> Result<()> {
        if self.must_flush(rowid) {
            self.flush(store)?;
        }
        self.last = Some((rowid, is_delete));
        self.is_dirty = true;
        Ok(())
    }

    /// True where the row can join what is in memory only once that was written.
    pub(crate) fn must_flush(&self, rowid: i64) -> bool {
        let is_behind = self
            .last
            .is_some_and(|(last, was_delete)| rowid < last || rowid == last && !was_delete);
        is_behind || self.pending.bytes > self.config.hash_bytes
    }

    fn page_size(&self) -> usize {
        self.config.page_size.min(65_000)
    }

    /// Tokens of all columns, into memory; sizes of columns, into `sizes`.
    fn tokens(
        &mut self,
        definition: &Definition,
        rowid: i64,
        texts: &[Option<&[u8]>],
        is_delete: bool,
    ) {
        self.sizes.clear();
        let Writer { pending, term, sizes, .. } = self;
        for (number, column) in definition.columns.iter().enumerate() {
            let mut size = 0_u32;
            if let Some(text) =
                texts.get(number).copied().flatten().filter(|_| !column.is_unindexed)
            {
                definition.tokenizer.tokenize(text, term, &mut |token, _, _| {
                    let token = &token[..token.len().min(TERM_MAX)];
                    for (index, length) in indexes(definition) {
                        let Some(length) = prefix_length(token, length) else { continue };
                        let key = (b'0' + index as u8, &token[..length]);
                        if is_delete {
                            pending.delete(key, rowid);
                        } else {
                            pending.add(key, rowid, number as u32, size);
                        }
                    }
                    size += 1;
                    true
                });
            }
            sizes.push(u64::from(size));
        }
    }

    /// Writes what is in memory.
    ///
    /// # Errors
    /// Faults of the storage, or of its bytes.
    pub fn flush(&mut self, store: &dyn Storage) -> Result<()> {
        if !self.is_dirty && self.pending.is_empty() {
            return Ok(());
        }
        self.keep_for_moments();
        if self.is_dirty {
            self.totals.write(store)?;
        }
        if !self.pending.is_empty() {
            self.write_segment(store)?;
        }
        self.pending.clear();
        self.last = None;
        self.is_dirty = false;
        self.has_deletes = false;
        Ok(())
    }

    /// What is in memory is about to leave it: open moments keep their part.
    fn keep_for_moments(&mut self) {
        for moment in &mut self.moments {
            if moment.saved.is_none() {
                let mut saved = self.pending.clone();
                saved.undo(moment.mark);
                saved.forget();
                moment.saved = Some(saved);
            }
        }
    }

    fn write_segment(&mut self, store: &dyn Storage) -> Result<()> {
        let mut buffer = Vec::new();
        let mut structure = Structure::read(store, &mut buffer)?;
        let id = structure.free_id()?;
        let shape = self.shape();
        let rows = self.pending.rows;
        let mut writer = SegmentWriter::new(id, 1, shape.page_size, shape.detail);
        for (term, doclist) in self.pending.sorted() {
            writer.term(store, term)?;
            if writer.whole(doclist) {
                continue;
            }
            for (rowid, is_delete, is_present, positions) in Rows::new(doclist, shape.detail) {
                writer.row(store, rowid, is_delete, is_present, positions)?;
            }
        }
        let (last, written) = writer.finish(store)?;
        let mut segment = Segment { id, first: 1, last, ..Segment::default() };
        if structure.next_origin > 0 {
            segment.origins = (structure.next_origin, structure.next_origin);
            segment.entries = rows;
            structure.next_origin += 1;
        }
        structure.reach_level(0)?;
        structure.levels[0].segments.push(segment);
        structure.promote(0);
        self.automerge(store, &mut structure, u64::from(written))?;
        let mut level = 0;
        while structure
            .levels
            .get(level)
            .is_some_and(|l| l.segments.len() >= self.config.crisismerge)
        {
            merge_level(store, &mut structure, level, shape, &mut None)?;
            structure.promote(level + 1);
            level += 1;
        }
        if self.config.deletes_securely && self.has_deletes {
            self.merge_all(store, &mut structure)?;
        }
        structure.write(store, &mut buffer)
    }

    fn shape(&self) -> Shape {
        Shape { page_size: self.page_size(), detail: self.pending.detail() }
    }

    fn automerge(
        &self,
        store: &dyn Storage,
        structure: &mut Structure,
        written: u64,
    ) -> Result<()> {
        let before = structure.write_counter;
        structure.write_counter = before.wrapping_add(written);
        if self.config.automerge == 0 {
            return Ok(());
        }
        let units = (before % WORK_UNIT + written) / WORK_UNIT;
        let leaves = WORK_UNIT * units * structure.levels.len() as u64;
        let budget = u32::try_from(leaves).unwrap_or(u32::MAX);
        self.merge(store, structure, budget, self.config.automerge).map(drop)
    }

    /// Merges levels of at least `least` segments until `budget` leaves were written; true where
    /// anything was merged.
    fn merge(
        &self,
        store: &dyn Storage,
        structure: &mut Structure,
        budget: u32,
        mut least: usize,
    ) -> Result<bool> {
        let mut budget = Some(budget);
        let mut has_merged = false;
        while budget.is_some_and(|budget| budget > 0) {
            let running = structure.levels.iter().position(|level| level.merging > 0);
            let counts = structure.levels.iter().map(|level| level.segments.len()).enumerate();
            let best = counts.take(running.unwrap_or(usize::MAX)).rev_max();
            let best = match (running, best) {
                (Some(running), Some((level, count)))
                    if structure.levels[running].merging <= count =>
                {
                    Some((level, count))
                }
                (Some(running), _) => Some((running, least)),
                (None, best) => best,
            };
            let level = match best {
                Some((level, count)) if count >= least && count > 0 => level,
                _ => match self.delete_merge(structure) {
                    Some(level) => level,
                    None => break,
                },
            };
            has_merged = true;
            merge_level(store, structure, level, self.shape(), &mut budget)?;
            if structure.levels[level].merging == 0 {
                structure.promote(level + 1);
            }
            least = least.max(2);
        }
        Ok(has_merged)
    }

    /// The level with the largest share of tombstones, from the setting `deletemerge` on.
    fn delete_merge(&self, structure: &Structure) -> Option<usize> {
        if self.config.deletemerge == 0 || structure.next_origin == 0 {
            return None;
        }
        let share = |level: &Level| {
            let entries: u64 = level.segments.iter().map(|segment| segment.entries).sum();
            let dead: u64 = level.segments.iter().map(|segment| segment.tombstones).sum();
            let is_apt = entries > 0 && dead > 0 && level.segments.len() > level.merging;
            if is_apt { dead.saturating_mul(100) / entries } else { 0 }
        };
        let shares = structure.levels.iter().map(share).enumerate();
        let (level, share) = shares.max_by_key(|&(_, share)| share)?;
        (share >= self.config.deletemerge).then_some(level)
    }

    /// Merges all segments into one.
    fn merge_all(&self, store: &dyn Storage, structure: &mut Structure) -> Result<()> {
        let count = structure.segments().count();
        let is_clean = structure.segments().all(|segment| segment.tombstones == 0);
        let is_secure = self.config.deletes_securely && self.has_deletes;
        if count == 0 || count == 1 && is_clean && !is_secure {
            return Ok(());
        }
        let target = structure.levels.iter().rposition(|level| !level.segments.is_empty());
        let target = target.expect("an index with segments has a level of them");
        let mut all = Level::default();
        for level in structure.levels.iter_mut().rev() {
            all.segments.append(&mut level.segments);
            level.merging = 0;
        }
        structure.levels.truncate(target + 1);
        structure.levels[target] = all;
        merge_level(store, structure, target, self.shape(), &mut None)?;
        // The level of a single segment need not grow with each call.
        let output = std::mem::take(&mut structure.levels[target + 1].segments);
        structure.levels[target].segments = output;
        structure.levels.truncate(target + 1);
        Ok(())
    }

    /// A moment to go back to.
    pub fn savepoint(&mut self) -> usize {
        let mark = self.pending.mark();
        self.moments.push(Moment {
            mark,
            totals: self.totals.clone(),
            last: self.last,
            has_deletes: self.has_deletes,
            is_dirty: self.is_dirty,
            saved: None,
        });
        self.moments.len() - 1
    }

    /// Goes back to a moment, which stays.
    pub fn rollback_to(&mut self, moment: usize) {
        self.moments.truncate(moment + 1);
        let Some(last) = self.moments.last_mut() else { return };
        match last.saved.take() {
            Some(saved) => {
                self.pending = saved;
                last.mark = self.pending.mark();
            }
            None => self.pending.undo(last.mark),
        }
        self.totals.clone_from(&last.totals);
        (self.last, self.has_deletes, self.is_dirty) = (last.last, last.has_deletes, last.is_dirty);
    }

    /// Forgets a moment, and those after it.
    pub fn release(&mut self, moment: usize) {
        self.moments.truncate(moment);
        if self.moments.is_empty() {
            self.pending.forget();
        }
    }

    /// The rank function of the table's settings.
    #[must_use]
    pub fn rank(&self) -> Option<&Rank> {
        self.config.rank.as_ref()
    }

    /// Obeys `INSERT INTO t(t, rank) VALUES(command, value)`.
    ///
    /// # Errors
    /// [`Error::Query`] of an unknown command or a bad value; faults of the storage.
    pub fn command(
        &mut self,
        store: &dyn Storage,
        definition: &Definition,
        command: &str,
        value: Option<&Setting>,
    ) -> Result<()> {
        let fault = || Error::Query("SQL logic error".to_owned());
        let mut buffer = Vec::new();
        let lower = command.to_ascii_lowercase();
        match lower.as_str() {
            "flush" => self.flush(store),
            "optimize" => {
                self.flush(store)?;
                let mut structure = Structure::read(store, &mut buffer)?;
                self.merge_all(store, &mut structure)?;
                structure.write(store, &mut buffer)
            }
            "merge" => {
                let Some(Setting::Integer(pages)) = value else { return Err(fault()) };
                self.flush(store)?;
                let mut structure = Structure::read(store, &mut buffer)?;
                let budget = u32::try_from(pages.unsigned_abs()).unwrap_or(u32::MAX);
                if *pages < 0 {
                    self.merge_step(store, &mut structure, budget)?;
                } else {
                    self.merge(store, &mut structure, budget, self.config.usermerge)?;
                }
                structure.write(store, &mut buffer)
            }
            "delete-all" => {
                if definition.content == Content::Own {
                    return Err(Error::Refused(
                        "'delete-all' may only be used with a contentless or external content \
                         fts5 table"
                            .to_owned(),
                    ));
                }
                self.clear(store, definition)
            }
            "rebuild" => self.rebuild(store, definition),
            "integrity-check" => {
                self.flush(store)?;
                let compares = !matches!(definition.content, Content::Table { .. })
                    || matches!(value, Some(Setting::Integer(number)) if *number != 0);
                crate::check::check(store, definition, compares)
            }
            _ => {
                let value = value.ok_or_else(fault)?;
                if !self.config.set(&lower, value) {
                    return Err(fault());
                }
                self.flush(store)?;
                store.put_setting(&lower, value)?;
                // Other readers of the settings look at the cookie.
                let mut structure = Structure::read(store, &mut buffer)?;
                structure.cookie = structure.cookie.wrapping_add(1);
                structure.write(store, &mut buffer)
            }
        }
    }

    /// `merge` with a negative number: a step of a merge of everything.
    fn merge_step(
        &self,
        store: &dyn Storage,
        structure: &mut Structure,
        budget: u32,
    ) -> Result<()> {
        let is_running = structure.levels.iter().any(|level| level.merging > 0);
        if !is_running && structure.segments().count() > 1 {
            let mut all = Level::default();
            for level in structure.levels.iter_mut().rev() {
                all.segments.append(&mut level.segments);
            }
            let last = structure.levels.len() - 1;
            structure.levels[last] = all;
        }
        self.merge(store, structure, budget, 2).map(drop)
    }

    /// Removes all documents from the index.
    fn clear(&mut self, store: &dyn Storage, definition: &Definition) -> Result<()> {
        let mut buffer = Vec::new();
        let cookie = Structure::read(store, &mut buffer).map_or(0, |structure| structure.cookie);
        self.keep_for_moments();
        self.pending.clear();
        self.last = None;
        self.totals = Totals { rows: 0, tokens: vec![0; definition.columns.len()] };
        store.clear()?;
        reset(store, definition, cookie)
    }

    /// Indexes all documents anew.
    fn rebuild(&mut self, store: &dyn Storage, definition: &Definition) -> Result<()> {
        if !definition.has_texts() {
            return Err(Error::Refused(
                "'rebuild' may not be used with a contentless fts5 table".to_owned(),
            ));
        }
        Config::begin(store)?;
        self.clear(store, definition)?;
        let all = definition.columns.iter().enumerate();
        let columns: Vec<usize> =
            all.filter(|(_, column)| !column.is_unindexed).map(|(number, _)| number).collect();
        let (mut documents, mut last) = (Documents::default(), None);
        loop {
            store.documents_after(last, &columns, &mut documents)?;
            for (at, &rowid) in documents.rowids().iter().enumerate() {
                let mut texts: Vec<Option<&[u8]>> = vec![None; definition.columns.len()];
                for (place, &column) in (at * columns.len()..).zip(&columns) {
                    texts[column] = Some(documents.text(place));
                }
                self.insert(store, definition, rowid, &texts)?;
            }
            match documents.rowids().last() {
                None => break,
                found => last = found.copied(),
            }
        }
        self.flush(store)
    }
}

/// The largest count, the first of equals.
trait FirstMax: Iterator<Item = (usize, usize)> + Sized {
    fn rev_max(self) -> Option<(usize, usize)> {
        let mut best = None;
        for (level, count) in self {
            if best.is_none_or(|(_, most)| count > most) {
                best = Some((level, count));
            }
        }
        best
    }
}

impl<I: Iterator<Item = (usize, usize)>> FirstMax for I {}

fn reset(store: &dyn Storage, definition: &Definition, cookie: u32) -> Result<()> {
    let totals = Totals { rows: 0, tokens: vec![0; definition.columns.len()] };
    totals.write(store)?;
    let mut structure = Structure::empty(definition.deletes_contentless);
    structure.cookie = cookie;
    structure.write(store, &mut Vec::new())
}

/// Numbers of the indexes with the lengths of their terms in characters; all of it in the first.
pub(crate) fn indexes(definition: &Definition) -> impl Iterator<Item = (usize, Option<usize>)> {
    std::iter::once(None).chain(definition.prefixes.iter().map(|&length| Some(length))).enumerate()
}

/// Bytes of the first `characters` of a token; none of a token that is shorter.
pub(crate) fn prefix_length(token: &[u8], characters: Option<usize>) -> Option<usize> {
    let Some(characters) = characters else { return Some(token.len()) };
    let mut at = 0;
    for _ in 0..characters {
        if at >= token.len() {
            return None;
        }
        let first = token[at];
        at += 1;
        if first >= 0xc0 {
            while token.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
                at += 1;
            }
        }
    }
    Some(at)
}

/// Decodes the sizes of a document; missing ones are 0.
pub(crate) fn decode_sizes(bytes: &[u8], columns: usize, out: &mut Vec<u64>) {
    out.clear();
    let mut rest = bytes;
    for _ in 0..columns {
        let size = varint::get(rest).map_or(0, |(size, length)| {
            rest = &rest[length..];
            size
        });
        out.push(size);
    }
}
