//! Going through the rows of a pipeline.

use std::ops::Range;

use shoal_store::{
    BATCH, ColumnFinder, ColumnPlace, HeaderWalk, IndexLookup, LeafCell, Page, Payload, Pgno,
    Place, TableCursor, TableLookup, Transaction, WalkPlace,
};

use super::any::AnyMemory;
use super::ascending::KeptRows;
use super::hash::KeyedRows;
use super::join::JoinMemory;
use super::key_sets::KeySets;
use super::leaf::{CHUNK, LeafMemory};
use super::set::RowSet;
use super::slots::{Base, Slots, fixed};
use crate::Error;
use crate::exec::scan::{exact_rowid, highest_rowid, lowest_rowid};
use crate::keep::matched::MatchedRows;
use crate::plan::pipeline::{
    Access, End, Operand, Pipeline, PipelineStep, RECORDS_MAX, Test, Walk,
};
use crate::session::{Analysis, Room, Session};
use crate::value::{Value, ValueRef};

/// Memory of a pipeline, kept from one run to the next: the next run allocates nothing.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The wanted fields of all records of the current row.
    pub(super) fields: Vec<ColumnPlace>,
    /// Payloads on overflow pages, by record.
    pub(super) buffers: Box<[Vec<u8>]>,
    pub(super) lookups: Box<[TableLookup]>,
    /// `None` while the one is in use.
    pub(super) indexes: Box<[Option<IndexLookup>]>,
    /// Keys of the index being read, converted.
    pub(super) keys: Vec<Value>,
    pub(crate) leaf: LeafMemory,
    pub(super) join: JoinMemory,
    /// The matched rows, for each table whose matches are noted.
    pub(super) marks: Box<[MatchedRows]>,
    /// The rows of each hash step; `None` before a run and while the step goes through them.
    pub(super) tables: Box<[Option<KeyedRows>]>,
    /// The room of the statement, where memory is limited.
    pub(super) room: Option<Room>,
    /// Rows of a compound, between its runs empty.
    pub(super) set: RowSet,
    /// The rows of a compound's part staying in the result.
    pub(super) kept: KeptRows,
    /// Rows of several loops found and not yet given, and their number.
    pub(super) slots: Slots,
    pub(super) rows: usize,
    /// True where the batch's rows were found by a seek, and are places on pages.
    pub(super) sought: bool,
    pub(super) start: Start,
    pub(super) place: Option<Place>,
    pub(super) walk: Option<WalkPlace>,
    /// How many rows of the outermost loop's row were given: above 0 where the next batch goes on
    /// among them. The row is found again then, and so many of its rows are passed over.
    pub(super) given_of_row: u64,
    pub(super) any: AnyMemory,
    /// The rows of this run behind each step of nested loops but the last.
    pub(super) found: [u64; RECORDS_MAX],
    /// The rows behind each step already told to an analysis.
    told: [u64; RECORDS_MAX],
}

/// The state of the outermost loop, for resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Fresh,
    /// At [`Memory::place`] or [`Memory::walk`].
    At,
    /// At the rows in [`Memory::kept`].
    Kept,
    Done,
}

/// A batch ends once so many bytes are kept beside the pages.
pub(super) const OVERFLOW_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a memory that its plan keeps.
const KEPT_BYTES_MAX: usize = 1 << 14;

impl Memory {
    pub(crate) fn new(pipeline: &Pipeline) -> Memory {
        Memory {
            fields: vec![ColumnPlace::MISSING; pipeline.fields],
            buffers: pipeline.records.iter().map(|_| Vec::new()).collect(),
            lookups: pipeline.lookups.iter().map(|&root| TableLookup::new(root)).collect(),
            indexes: pipeline.indexes.iter().map(|&root| Some(IndexLookup::new(root))).collect(),
            keys: Vec::new(),
            leaf: LeafMemory::default(),
            join: JoinMemory::default(),
            marks: std::iter::repeat_with(MatchedRows::default).take(pipeline.marks).collect(),
            tables: std::iter::repeat_with(|| None).take(pipeline.tables).collect(),
            room: None,
            set: RowSet::default(),
            kept: KeptRows::default(),
            slots: Slots::default(),
            rows: 0,
            sought: false,
            start: Start::Fresh,
            place: None,
            walk: None,
            given_of_row: 0,
            any: AnyMemory::default(),
            found: [0; RECORDS_MAX],
            told: [0; RECORDS_MAX],
        }
    }

    /// Has the next run of a lookup join ask key sets gathered already.
    pub(crate) fn give_sets(&mut self, sets: Option<KeySets>) {
        self.join.give_sets(sets);
    }

    /// Takes over the matches noted by the select before: this one gives its unmatched rows.
    pub(crate) fn take_marks(&mut self, pipeline: &Pipeline, before: &mut Memory) {
        let Some(mark) = pipeline.skipped else { return };
        std::mem::swap(&mut self.marks, &mut before.marks);
        if let Some(rows) = self.marks.get_mut(mark) {
            std::mem::swap(self.leaf.skipped.get_or_insert_default(), rows);
        }
    }

    /// Keeps what grows with the rows within the limit of a statement.
    pub(crate) fn keep_within(&mut self, session: &dyn Session) {
        self.marks.iter_mut().for_each(|marks| marks.keep_within(session));
        self.any.rowids.keep_within(session);
        self.room = session.room();
    }

    /// Forgets the noted matches.
    pub(super) fn begin_marks(&mut self, pipeline: &Pipeline) {
        if pipeline.skipped.is_none() {
            self.marks.iter_mut().for_each(MatchedRows::clear);
        }
    }

    /// Forgets the rows of the batch.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.leaf.clear();
        self.join.clear();
        self.rows = 0;
        self.sought = false;
    }

    /// Tells an analysis of the rows behind the steps of nested loops: a step's rows count under
    /// the measure of the next step.
    pub(crate) fn tell(&mut self, pipeline: &Pipeline, analysis: Option<&Analysis>) {
        let (Some(analysis), Walk::NestedLoop { .. }) = (analysis, &pipeline.walk) else { return };
        let next = pipeline.levels.iter().skip(1);
        for ((step, found), told) in next.zip(&self.found).zip(&mut self.told) {
            if let Some(measure) = step.measure {
                analysis.counted(measure, *found - std::mem::replace(told, *found));
            }
        }
    }

    /// True where no row follows the batch.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.start == Start::Done
    }

    /// True for a memory of a few kilobytes, small enough for a plan to keep.
    pub(crate) fn is_small(&self) -> bool {
        let value = |value: &Value| match value {
            Value::Text(bytes) | Value::Blob(bytes) => bytes.capacity(),
            _ => 0,
        };
        let buffers = self.buffers.iter().map(Vec::capacity).sum::<usize>();
        let keys = self.keys.iter().map(value).sum::<usize>();
        let has_tables = self.tables.iter().any(Option::is_some);
        !has_tables && buffers + keys + self.leaf.kept_bytes() <= KEPT_BYTES_MAX
    }

    #[inline]
    pub(super) fn is_full(&self, enough: usize) -> bool {
        self.rows >= enough || self.slots.overflow_bytes() > OVERFLOW_BYTES_MAX
    }
}

/// One record of the current row.
#[derive(Clone, Copy)]
pub(super) struct Current<'t> {
    pub(super) rowid: i64,
    /// The bytes of the record's page, in which its fields are located.
    page: &'t [u8],
    pgno: Pgno,
    /// Where the record begins and ends on the page.
    start: u32,
    end: u32,
    pub(super) at: At,
}

impl Current<'_> {
    /// No row.
    const NONE: Current<'static> =
        Current { rowid: 0, page: &[], pgno: Pgno::FIRST, start: 0, end: 0, at: At::Null };

    /// Where the record is among the bytes of its page.
    #[inline(always)]
    fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Makes a row of which nothing but the rowid is known the current one.
    #[inline(always)]
    pub(super) fn set_rowid(&mut self, rowid: i64) {
        *self = Current { rowid, at: At::Page, ..Current::NONE };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// All of the record is on its page.
    Page,
    /// The payload is in the buffer of its record.
    Buffer,
    /// An unmatched row of a left join.
    Null,
}

/// A pipeline of several loops on its way.
pub(crate) struct LoopRun<'a, 't> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) txn: &'t Transaction,
    pub(super) parameters: &'a [Value],
    pub(super) memory: &'a mut Memory,
    pub(super) records: [Current<'t>; RECORDS_MAX],
    /// True where a full batch pauses the outermost loop, to be resumed; otherwise the batch ends
    /// the loops.
    pub(super) pauses: bool,
    /// True once the batch is complete: the outermost loop and all inner loops end.
    pub(super) ended: bool,
    /// Rows found of the outermost loop's row, and how many of them are still to be passed over.
    pub(super) of_row: u64,
    pub(super) passed: u64,
}

impl<'a, 't> LoopRun<'a, 't> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        txn: &'t Transaction,
        parameters: &'a [Value],
        memory: &'a mut Memory,
    ) -> LoopRun<'a, 't> {
        let records = [Current::NONE; RECORDS_MAX];
        LoopRun {
            pipeline,
            txn,
            parameters,
            memory,
            records,
            pauses: false,
            ended: false,
            of_row: 0,
            passed: 0,
        }
    }

    /// Puts the current row into the batch.
    #[inline]
    pub(super) fn put_in_batch(&mut self, outputs: &[Operand]) {
        let Memory { slots, fields, buffers, rows, .. } = &mut *self.memory;
        note(&self.records, fields, buffers, self.parameters, outputs, slots);
        *rows += 1;
    }

    /// The outermost loop: resumes, until the batch has `enough` rows.
    pub(super) fn outer<S>(&mut self, enough: usize, sink: &mut S) -> Result<(), Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let pipeline = self.pipeline;
        let level = &pipeline.levels[0];
        let start = std::mem::replace(&mut self.memory.start, Start::Done);
        let given = std::mem::take(&mut self.memory.given_of_row);
        self.passed = if start == Start::Fresh { 0 } else { given };
        let goes_on = self.passed > 0;
        if start == Start::Fresh {
            self.memory.found.fill(0);
            self.memory.told.fill(0);
            self.memory.begin_marks(pipeline);
            if !pipeline.key_sets.is_empty() {
                self.memory.join.begin_sets(pipeline, self.txn, self.parameters)?;
            }
            if pipeline.tables > 0 {
                pipeline.gather_rows(self.txn, self.parameters, self.memory)?;
            }
        }
        match &level.access {
            Access::Rows { root, low, high, descending } => {
                let range = rowids(low.as_ref(), high.as_ref(), |operand| self.value(operand));
                let Some((low, high)) = range else { return Ok(()) };
                let (mut cursor, mut more) = match (start, &self.memory.place) {
                    (Start::Done | Start::Kept, _) | (Start::At, None) => return Ok(()),
                    (Start::At, Some(place)) => {
                        let mut cursor = TableCursor::resume(self.txn, place)?;
                        let more = match *descending {
                            _ if goes_on => cursor.is_valid(),
                            true => cursor.prev()?,
                            false => cursor.next()?,
                        };
                        (cursor, more)
                    }
                    (Start::Fresh, _) => {
                        let mut cursor = self.txn.table(*root)?;
                        let more = if *descending {
                            seek_last(&mut cursor, high)?
                        } else {
                            seek_first(&mut cursor, low)?
                        };
                        (cursor, more)
                    }
                };
                if *descending {
                    while more && cursor.rowid()? >= low {
                        if let Some((page, index)) = cursor.leaf() {
                            self.row(0, &page, index, sink)?;
                        }
                        if self.memory.is_full(enough) {
                            self.pause(cursor.place());
                            return Ok(());
                        }
                        more = cursor.prev()?;
                    }
                    return Ok(());
                }
                let mut chooser = LeafChooser::new(self);
                while more {
                    let Some((page, first)) = cursor.leaf() else { return Ok(()) };
                    let count = page.cell_count();
                    // Rowids ascend, so one comparison tells for the whole leaf.
                    let inside =
                        high == i64::MAX || page.rowid(count - 1).map_err(Error::corrupt)? <= high;
                    let (mut chosen, mut chunk, mut warm) = ([0; CHUNK], 0..0, first);
                    for index in first..count {
                        if index >= first + chunk.end {
                            chunk = index - first..(index - first + CHUNK).min(count - first);
                            let rows = first + chunk.start..first + chunk.end;
                            chooser.choose(self, &page, rows, &mut chosen)?;
                        }
                        if chosen[index - first - chunk.start] == 0 {
                            continue;
                        }
                        if !inside && page.rowid(index).map_err(Error::corrupt)? > high {
                            return Ok(());
                        }
                        if let Walk::NestedLoop { prefetch: Some((place, lookup)) } = pipeline.walk
                            && index >= warm
                            && self.memory.lookups[lookup].is_large(self.txn)
                        {
                            let rows =
                                (index..count).map_while(|index| page.table_leaf(index).ok());
                            self.warm(lookup, place, rows.map(|cell| cell.payload));
                            warm = index + BATCH;
                        }
                        if let Some(rows) = &mut self.memory.leaf.skipped
                            && rows.contains(page.rowid(index).map_err(Error::corrupt)?)?
                        {
                            continue;
                        }
                        self.row(0, &page, index, sink)?;
                        if self.memory.is_full(enough) {
                            cursor.move_on_leaf(index)?;
                            self.pause(cursor.place());
                            return Ok(());
                        }
                    }
                    if !inside {
                        return Ok(());
                    }
                    more = cursor.next_leaf()?;
                }
                Ok(())
            }
            Access::Index(access) => self.entries(0, level, access, start, enough, sink).map(drop),
            Access::Any { arms, lookup } => self.any((level, *lookup), arms, start, enough, sink),
            Access::Common { arms, lookup } => {
                match start {
                    Start::Fresh => {
                        let (records, parameters) = (&pipeline.records, self.parameters);
                        self.memory.find_common(arms, records, self.txn, parameters)?;
                    }
                    Start::At => {}
                    Start::Done | Start::Kept => return Ok(()),
                }
                self.listed((level, *lookup), enough, sink)
            }
            Access::Rowid { .. } => {
                if start == Start::Fresh || goes_on {
                    self.level(0, sink)?;
                }
                if self.memory.given_of_row > 0 {
                    self.memory.start = Start::At;
                }
                Ok(())
            }
            Access::Hash(_) => Err(Error::Misuse { what: "a hash step is no first step" }),
        }
    }

    /// Prefetches the rows named by the next payloads in their column at `place`.
    #[inline(never)]
    pub(super) fn warm(
        &self,
        lookup: usize,
        place: usize,
        payloads: impl Iterator<Item = Payload<'t>>,
    ) {
        let mut rowids = [0; BATCH];
        let mut count = 0;
        for (payload, rowid) in payloads.zip(&mut rowids) {
            let found = HeaderWalk::new(payload.local)
                .and_then(|mut walk| walk.find(payload.local, place))
                .map_or(None, |field| field.int(payload.local));
            // A row without one needs no warming, and is found out about when its turn comes.
            *rowid = found.unwrap_or(*rowid);
            count += 1;
        }
        self.memory.lookups[lookup].warm(self.txn, &rowids[..count]);
    }

    /// Notes where the outermost loop goes on.
    pub(super) fn pause(&mut self, place: Place) {
        self.memory.start = Start::At;
        self.memory.place = Some(place);
    }

    /// All rows of an inner loop.
    fn level<S>(&mut self, number: usize, sink: &mut S) -> Result<(), Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let pipeline = self.pipeline;
        let Some(level) = pipeline.levels.get(number) else { return sink(self) };
        let matched = match &level.access {
            Access::Rowid { key, lookup } => match self.rowid_of(key) {
                Some(rowid) if self.may_match(level, rowid) => {
                    let lookup = &mut self.memory.lookups[*lookup];
                    match lookup.locate(self.txn, rowid)? {
                        Some(found) => {
                            self.put_row(level.record, found)?;
                            self.matched(number, level, sink)?
                        }
                        None => false,
                    }
                }
                _ => false,
            },
            Access::Rows { root, low, high, .. } => {
                let mut matched = false;
                let range = rowids(low.as_ref(), high.as_ref(), |operand| self.value(operand));
                if let Some((low, high)) = range {
                    let mut cursor = self.txn.table(*root)?;
                    let mut more = seek_first(&mut cursor, low)?;
                    while more && cursor.rowid()? <= high {
                        if let Some((page, index)) = cursor.leaf() {
                            matched |= self.row(number, &page, index, sink)?;
                        }
                        if self.ended || (level.anti && matched) {
                            break;
                        }
                        more = cursor.next()?;
                    }
                }
                matched
            }
            Access::Index(access) => {
                self.entries(number, level, access, Start::Fresh, usize::MAX, sink)?
            }
            Access::Hash(access) => self.keyed(number, level, access, sink)?,
            Access::Any { .. } | Access::Common { .. } => {
                return Err(Error::Misuse { what: "an inner loop has several ways to its rows" });
            }
        };
        if level.left_join && !matched {
            self.records[level.record].at = At::Null;
            if let Access::Index(access) = &level.access {
                self.records[access.entry].at = At::Null;
            }
            if self.all(&level.filter) {
                self.count(number, level)?;
                self.level(number + 1, sink)?;
            }
        }
        Ok(())
    }

    /// Counts a row behind a step, for `EXPLAIN ANALYZE` and for the watch of [`plan::again`].
    ///
    /// [`plan::again`]: crate::plan::MadeAgain
    ///
    /// # Errors
    /// [`Error::Misjudged`] for one row more than the step may have.
    #[inline(always)]
    fn count(&mut self, number: usize, level: &PipelineStep) -> Result<(), Error> {
        let found = &mut self.memory.found[number];
        *found += 1;
        if *found > level.most {
            let (found, first) = (*found, self.memory.found[0]);
            return Err(Error::Misjudged { step: number, found, first });
        }
        Ok(())
    }

    /// True where a row with this rowid can meet the conditions, as far as they read no field.
    #[inline(always)]
    fn may_match(&mut self, level: &PipelineStep, rowid: i64) -> bool {
        if level.before.is_empty() {
            return true;
        }
        self.records[level.record].set_rowid(rowid);
        self.all(&level.before)
    }

    /// Tests a row of a leaf, and runs the inner loops if the row matches; gives true for a match.
    #[inline(always)]
    pub(super) fn row<S>(
        &mut self,
        number: usize,
        page: &Page<'t>,
        index: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let pipeline = self.pipeline;
        let level = &pipeline.levels[number];
        let cell = page.leaf_row(index).map_err(Error::corrupt)?;
        self.put_row(level.record, (*page, index, cell))?;
        self.matched(number, level, sink)
    }

    /// With the level's row in place: runs the inner loops if the row matches.
    #[inline(always)]
    pub(super) fn matched<S>(
        &mut self,
        number: usize,
        level: &PipelineStep,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        if number == 0 {
            self.of_row = 0;
        }
        if !self.all(&level.on) {
            return Ok(false);
        }
        if let Some((mark, rowid)) = &level.marks
            && let ValueRef::Int(rowid) = self.value(rowid)
        {
            self.memory.marks[*mark].insert(rowid)?;
        }
        if !level.anti && self.all(&level.filter) {
            if number + 1 == self.pipeline.levels.len() {
                sink(self)?;
            } else {
                self.count(number, level)?;
                self.level(number + 1, sink)?;
            }
        }
        Ok(true)
    }

    #[inline(always)]
    pub(super) fn rowid_of(&self, key: &Operand) -> Option<i64> {
        rowid_of_value(self.value(key))
    }

    /// Makes a row of a leaf the current one of a record, and locates the fields of tests.
    #[inline(always)]
    pub(super) fn put_row(
        &mut self,
        record: usize,
        (page, index, cell): (Page<'t>, usize, LeafCell),
    ) -> Result<(), Error> {
        if cell.goes_on() {
            let payload = page.payload(index, cell).map_err(Error::corrupt)?;
            return self.put_long(record, cell.rowid, payload, &page);
        }
        self.put_cell(record, cell.rowid, &page, cell.range())
    }

    /// Makes an entry of an index, at a place of a page, the current one of a record, and locates
    /// the fields of tests.
    #[inline(always)]
    pub(super) fn put_entry(
        &mut self,
        record: usize,
        payload: Payload<'t>,
        page: &Page<'t>,
    ) -> Result<(), Error> {
        if payload.overflow.is_some() {
            return self.put_long(record, 0, payload, page);
        }
        self.put_cell(record, 0, page, page.record_of(payload).range())
    }

    /// Makes a record wholly on a page the current one.
    #[inline(always)]
    fn put_cell(
        &mut self,
        record: usize,
        rowid: i64,
        page: &Page<'t>,
        range: Range<usize>,
    ) -> Result<(), Error> {
        // A page has at most 65,536 bytes.
        let (start, end) = (range.start as u32, range.end as u32);
        let (bytes, pgno) = (page.bytes(), page.pgno());
        self.records[record] = Current { rowid, page: bytes, pgno, start, end, at: At::Page };
        let plan = &self.pipeline.records[record];
        find(&plan.early, bytes, range, &mut self.memory.fields[plan.first..])
    }

    /// Makes a record that continues on overflow pages the current one.
    #[cold]
    fn put_long(
        &mut self,
        record: usize,
        rowid: i64,
        payload: Payload<'t>,
        page: &Page<'t>,
    ) -> Result<(), Error> {
        let plan = &self.pipeline.records[record];
        let (bytes, pgno) = (page.bytes(), page.pgno());
        let current = &mut self.records[record];
        *current = Current { rowid, page: bytes, pgno, ..Current::NONE };
        current.at = At::Page;
        if plan.places.is_empty() {
            return Ok(());
        }
        let Memory { fields, buffers, .. } = &mut *self.memory;
        self.txn.read_payload(payload, &mut buffers[record])?;
        current.at = At::Buffer;
        let bytes = &*buffers[record];
        find(&plan.early, bytes, 0..bytes.len(), &mut fields[plan.first..])
    }

    /// Reads the current payload of a record on overflow pages without wanted fields: an index's
    /// entry is compared as a whole.
    #[cold]
    pub(super) fn put_together(
        &mut self,
        record: usize,
        payload: Payload<'t>,
    ) -> Result<(), Error> {
        if self.records[record].at == At::Page {
            self.txn.read_payload(payload, &mut self.memory.buffers[record])?;
            self.records[record].at = At::Buffer;
        }
        Ok(())
    }

    /// Locates the fields outside of tests.
    #[inline]
    pub(super) fn find_late(&mut self) -> Result<(), Error> {
        let Memory { fields, buffers, .. } = &mut *self.memory;
        for (record, plan) in self.pipeline.records.iter().enumerate() {
            let current = &self.records[record];
            if current.at == At::Null {
                continue;
            }
            let (bytes, range) = match current.at {
                At::Buffer => (&*buffers[record], 0..buffers[record].len()),
                _ => (current.page, current.range()),
            };
            find(&plan.late, bytes, range, &mut fields[plan.first + plan.early.len()..])?;
        }
        Ok(())
    }

    /// The bytes in which the fields of a record are located.
    #[inline(always)]
    pub(super) fn bytes(&self, record: usize) -> &[u8] {
        match self.records[record].at {
            At::Buffer => &self.memory.buffers[record],
            _ => self.records[record].page,
        }
    }

    /// The bytes of a record itself.
    #[inline(always)]
    pub(super) fn record_bytes(&self, record: usize) -> &[u8] {
        let current = &self.records[record];
        match current.at {
            At::Buffer => &self.memory.buffers[record],
            _ => current.page.get(current.range()).unwrap_or_default(),
        }
    }

    /// The current row's value of an operand.
    #[inline(always)]
    pub(crate) fn value<'v>(&'v self, operand: &'v Operand) -> ValueRef<'v> {
        match operand {
            Operand::Field { record, field, real, missing } => {
                if self.records[*record].at == At::Null {
                    return ValueRef::Null;
                }
                let found = self.memory.fields[*field].decode(self.bytes(*record));
                field_value(found, *real, missing)
            }
            Operand::Rowid { record } => match self.records[*record].at {
                At::Null => ValueRef::Null,
                _ => ValueRef::Int(self.records[*record].rowid),
            },
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(self.parameters, *number),
        }
    }

    #[inline(always)]
    pub(super) fn all(&self, tests: &[Test]) -> bool {
        tests.iter().all(|test| test.holds(|operand| self.value(operand)))
    }
}

/// Asks the conditions of the outermost loop of many rows of a leaf together, so that few rows are
/// made current one by one; the loop asks the chosen ones again.
struct LeafChooser {
    /// False where conditions read other rows, and once they were found to leave most rows.
    is_choosing: bool,
}

impl LeafChooser {
    fn new(run: &mut LoopRun<'_, '_>) -> LeafChooser {
        let level = &run.pipeline.levels[0];
        let own = |test: &Test| {
            test.operands().all(|operand| operand.is_at_most_of(level.record))
                && test.operands().any(|operand| operand.is_field_of(level.record))
        };
        let asks = !level.filter.is_empty() || !run.pipeline.key_sets.is_empty();
        let is_choosing = level.record == 0 && asks && level.filter.iter().all(own);
        if is_choosing {
            run.memory.leaf.make_ready(&level.filter, run.parameters);
        }
        LeafChooser { is_choosing }
    }

    /// Sets one flag for each of the rows to be looked at.
    fn choose(
        &mut self,
        run: &mut LoopRun<'_, '_>,
        page: &Page<'_>,
        rows: Range<usize>,
        chosen: &mut [u8; CHUNK],
    ) -> Result<(), Error> {
        *chosen = [1; CHUNK];
        if !self.is_choosing {
            return Ok(());
        }
        let plan = &run.pipeline.records[0];
        let tests = &run.pipeline.levels[0].filter;
        let mut selected = [0; CHUNK];
        let Memory { leaf, join, .. } = &mut *run.memory;
        let sets = join.sets().map(|sets| (&*run.pipeline.key_sets, &**sets));
        let asked = (&**tests, sets, run.parameters);
        let found = leaf.select((page, rows.clone()), plan, asked, &mut selected)?;
        if let Some(count) = found {
            *chosen = [0; CHUNK];
            selected[..count].iter().for_each(|&row| chosen[usize::from(row)] = 1);
            self.is_choosing = rows.len() < CHUNK_MIN || count < rows.len() - rows.len() / 4;
        }
        Ok(())
    }
}

/// Fewest rows of a leaf telling whether most rows are chosen.
const CHUNK_MIN: usize = 8;

/// Locates columns of the record `bytes[record]`; they go to the front of `fields`.
#[inline]
fn find(
    finder: &ColumnFinder,
    bytes: &[u8],
    record: Range<usize>,
    fields: &mut [ColumnPlace],
) -> Result<(), Error> {
    if finder.is_empty() {
        return Ok(());
    }
    finder.find(bytes, record, &mut fields[..finder.len()]).map_err(Error::corrupt)
}

/// Appends the values of operands in the current records.
#[inline]
pub(super) fn note(
    records: &[Current<'_>; RECORDS_MAX],
    fields: &[ColumnPlace],
    buffers: &[Vec<u8>],
    parameters: &[Value],
    outputs: &[Operand],
    slots: &mut Slots,
) {
    for operand in outputs {
        match operand {
            Operand::Field { record, field, real, .. } => {
                let current = &records[*record];
                let field = fields[*field];
                match current.at {
                    At::Page => slots.push(field, current.page, *real, Base::Page(current.pgno)),
                    At::Buffer => slots.push(field, &buffers[*record], *real, Base::Buffer),
                    At::Null => slots.push_value(ValueRef::Null),
                }
            }
            Operand::Rowid { record } => {
                let current = &records[*record];
                let null = current.at == At::Null;
                slots.push_value(if null { ValueRef::Null } else { ValueRef::Int(current.rowid) });
            }
            operand => slots.push_value(fixed(operand, parameters)),
        }
    }
}

/// A field's value in SQL.
#[inline(always)]
pub(super) fn field_value<'v>(
    found: Option<ValueRef<'v>>,
    real: bool,
    missing: &'v Value,
) -> ValueRef<'v> {
    match found {
        Some(ValueRef::Int(int)) if real => ValueRef::Real(int as f64),
        Some(value) => value,
        None => missing.as_ref(),
    }
}

/// The rowid a value is equal to.
#[inline(always)]
pub(super) fn rowid_of_value(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(rowid) => Some(rowid),
        ValueRef::Null => None,
        other => exact_rowid(&other.into()),
    }
}

#[inline]
pub(super) fn parameter(parameters: &[Value], number: usize) -> ValueRef<'_> {
    parameters.get(number - 1).map_or(ValueRef::Null, Value::as_ref)
}

/// The rowids of a range; `None` for an empty one.
pub(super) fn rowids<'v>(
    low: Option<&'v End>,
    high: Option<&'v End>,
    value: impl Fn(&'v Operand) -> ValueRef<'v>,
) -> Option<(i64, i64)> {
    let converted = |end: &'v End| {
        let value = Value::from(value(&end.value));
        end.affinity.map_or(value.clone(), |affinity| affinity.apply_for_comparison(value))
    };
    let low = match low {
        Some(end) => lowest_rowid(&converted(end), end.inclusive)?,
        None => i64::MIN,
    };
    let high = match high {
        Some(end) => highest_rowid(&converted(end), end.inclusive)?,
        None => i64::MAX,
    };
    (low <= high).then_some((low, high))
}

pub(super) fn seek_first(cursor: &mut TableCursor<'_>, low: i64) -> Result<bool, Error> {
    if low == i64::MIN {
        return Ok(cursor.first()?);
    }
    cursor.seek(low)?;
    Ok(cursor.is_valid())
}

fn seek_last(cursor: &mut TableCursor<'_>, high: i64) -> Result<bool, Error> {
    if high == i64::MAX {
        return Ok(cursor.last()?);
    }
    if cursor.seek(high)? {
        return Ok(true);
    }
    Ok(if cursor.is_valid() { cursor.prev()? } else { cursor.last()? })
}
