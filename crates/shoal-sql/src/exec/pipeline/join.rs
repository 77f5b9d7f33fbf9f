//! Lookup joins: the rows of one table, or the entries of one index, each joined by rowid with the
//! rows it names in other tables; for an index, the first of them is the index's own table.
//!
//! A row finds one row of each such table or none, so a joined row is a row of the first table with
//! more columns. Joined rows are processed like the rows of one table, many of a leaf at a time:
//! the keys of all are read in one loop, the rows they name are located in the next, then their
//! columns, then predicates narrow the selection. Found rows are places; values are decoded on
//! demand.

use shoal_store::{ColumnPlace, Corrupt, LeafCell, Page, Pgno, TableLookup, Transaction};

use super::index::{Keys, make_keys};
use super::key_sets::KeySets;
use super::leaf::{Begin, CHUNK, Entries, LeafScan, Pause};
use super::leaf_rows::{LeafRows, RowRef};
use super::prepared::{IntRange, keep as keep_rows};
use super::run::{Memory, OVERFLOW_BYTES_MAX, Start, field_value, parameter, rowid_of_value};
use super::slots::{Base, Slots, fixed};
use crate::Error;
use crate::keep::matched::MatchedRows;
use crate::plan::pipeline::{
    Access, Operand, OutputPlace, Pipeline, PipelineStep, RecordPlan, Test,
};
use crate::value::{Value, ValueRef};

/// Memory of a join, between its rows and between runs.
#[derive(Debug, Default)]
pub(super) struct JoinMemory {
    /// The joined rows of the last batch: one table after the other, by the number of the first
    /// table's cell.
    partners: Vec<RowRef>,
    /// Places of one table's joined records on their pages.
    cells: Vec<LeafCell>,
    /// Places of all other tables' columns, for all rows of the batch.
    fields: Vec<ColumnPlace>,
    /// Payloads on overflow pages, one behind the other.
    far: Vec<u8>,
    /// The last payload read.
    buffer: Vec<u8>,
    /// Rows with columns of several tables, to be given: the places of their columns, row after
    /// row; the bytes copied for them; and the values too long to copy.
    places: Vec<ColumnPlace>,
    stored: Vec<u8>,
    long: Vec<LongValue>,
    /// The key sets of the run.
    sets: Option<KeySets>,
    /// Sets gathered for the next run by somebody else.
    given_sets: Option<KeySets>,
}

/// A value of a joined row, left in its place.
#[derive(Clone, Copy, Debug)]
struct LongValue {
    /// The value's page; `None` for a value in the overflow bytes, of the first table or of the
    /// others.
    page: Option<Pgno>,
    is_first: bool,
    place: ColumnPlace,
}

/// Texts and blobs of joined rows up to this length are copied.
const COPIED_BYTES_MAX: u32 = 256;

impl JoinMemory {
    /// Begins a run: gathers its key sets, unless somebody did.
    pub(super) fn begin_sets(
        &mut self,
        pipeline: &Pipeline,
        txn: &Transaction,
        parameters: &[Value],
    ) -> Result<(), Error> {
        let given = self.given_sets.take();
        self.sets = if given.is_some() { given } else { pipeline.gather_keys(txn, parameters)? };
        Ok(())
    }

    /// The key sets of the run.
    pub(super) fn sets(&self) -> Option<&KeySets> {
        self.sets.as_ref()
    }

    /// Has the next run ask these sets in place of gathering its own.
    pub(super) fn give_sets(&mut self, sets: Option<KeySets>) {
        self.given_sets = sets;
    }

    /// Forgets the rows not yet given.
    pub(super) fn clear(&mut self) {
        self.far.clear();
        self.places.clear();
        self.stored.clear();
        self.long.clear();
    }
}

/// A batch ends with this many columns located: 64 KiB.
const FIELDS_MAX: usize = 1 << 13;

/// Fewest rows of the first table to take, where the rows are filtered by their joined rows.
const ROWS_MIN: usize = CHUNK / 4;

/// Joined rows found together.
#[derive(Clone, Copy)]
pub(crate) struct JoinRows<'r> {
    leaf: LeafRows<'r>,
    partners: &'r [RowRef],
    /// The fields of all other tables, for every cell.
    fields: &'r [ColumnPlace],
    far: &'r [u8],
    txn: &'r Transaction,
    /// Numbers of fields in the first table's rows, and in the others'.
    first: usize,
    stride: usize,
}

impl<'r> JoinRows<'r> {
    /// The number of selected rows.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.leaf.len()
    }

    /// The value of an operand in a selected row, by number from 0.
    #[inline(always)]
    pub(crate) fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        self.value_at(self.leaf.at(number), operand)
    }

    /// The stored form of an operand of a selected row, for operands of the first table: see
    /// [`LeafRows::short`].
    #[inline(always)]
    pub(super) fn short(self, number: usize, operand: &Operand) -> Option<(u32, u64)> {
        match operand {
            Operand::Field { record: 0, .. } => self.leaf.short(number, operand),
            _ => None,
        }
    }

    /// A selected row, by number from 0.
    #[inline(always)]
    pub(crate) fn row(&'r self, number: usize) -> JoinRow<'r> {
        JoinRow { rows: self, at: self.leaf.at(number) }
    }

    /// The value in any row, by the number of its cell.
    #[inline(always)]
    fn value_at(self, at: usize, operand: &'r Operand) -> ValueRef<'r> {
        match operand {
            Operand::Field { record, field, real, missing } if *record > 0 => {
                let partner = self.partners[(*record - 1) * CHUNK + at];
                if partner.is_none() {
                    return ValueRef::Null;
                }
                let place = self.fields[at * self.stride + field - self.first];
                field_value(place.decode(self.bytes(partner)), *real, missing)
            }
            Operand::Rowid { record } if *record > 0 => {
                match self.partners[(*record - 1) * CHUNK + at] {
                    partner if partner.is_none() => ValueRef::Null,
                    partner => ValueRef::Int(partner.rowid),
                }
            }
            operand => self.leaf.value_at(at, operand),
        }
    }

    #[inline(always)]
    fn bytes(self, partner: RowRef) -> &'r [u8] {
        bytes_of(partner, self.txn, self.far)
    }

    fn all(self, tests: &[Test], at: usize) -> bool {
        tests.iter().all(|test| test.holds(|operand| self.value_at(at, operand)))
    }
}

#[inline(always)]
fn bytes_of<'v>(partner: RowRef, txn: &'v Transaction, far: &'v [u8]) -> &'v [u8] {
    match partner.page {
        Some(page) => txn.page_bytes(page).unwrap_or_default(),
        None => far,
    }
}

/// One of the joined rows.
#[derive(Clone, Copy)]
pub(crate) struct JoinRow<'r> {
    rows: &'r JoinRows<'r>,
    at: usize,
}

impl<'r> JoinRow<'r> {
    /// The row's value of an operand.
    #[inline]
    pub(crate) fn value(self, operand: &'r Operand) -> ValueRef<'r> {
        self.rows.value_at(self.at, operand)
    }

    /// Appends the row's values of operands.
    pub(super) fn note(self, outputs: &[Operand], slots: &mut Slots) {
        let JoinRows { partners, fields, stride, first, leaf, .. } = *self.rows;
        for operand in outputs {
            match operand {
                Operand::Field { record, field, real, .. } if *record > 0 => {
                    let partner = partners[(*record - 1) * CHUNK + self.at];
                    if partner.is_none() {
                        slots.push_value(ValueRef::Null);
                        continue;
                    }
                    let base = partner.page.map_or(Base::Buffer, Base::Page);
                    let place = fields[self.at * stride + field - first];
                    slots.push(place, self.rows.bytes(partner), *real, base);
                }
                Operand::Rowid { record } if *record > 0 => slots.push_value(self.value(operand)),
                operand => leaf.found(self.at).note(std::slice::from_ref(operand), slots),
            }
        }
    }
}

/// A join on its way.
pub(super) struct JoinScan<'a, 't> {
    scan: LeafScan<'a, 't>,
    pipeline: &'a Pipeline,
    lookups: &'a mut [TableLookup],
    memory: &'a mut JoinMemory,
    marks: &'a mut [MatchedRows],
    txn: &'t Transaction,
    first: usize,
    stride: usize,
    /// The start of the fields of the rows taken last, and the number of these rows.
    fields: usize,
    count: usize,
}

/// The lookup of the rows joined from one table.
struct Inner<'a> {
    key: &'a Operand,
    lookup: usize,
    left_join: bool,
    /// The number of the set noting the matched rows.
    marks: Option<usize>,
    /// True where the row must exist: an index's entry names it.
    must: bool,
    before: &'a [Test],
    on: &'a [Test],
    filter: &'a [Test],
}

impl<'a> Inner<'a> {
    /// The lookup of record `number + 1`, where the pipeline joins one.
    fn of(pipeline: &'a Pipeline, number: usize) -> Option<Inner<'a>> {
        let outer = pipeline.levels.first()?;
        let mut passed = 1;
        if let Access::Index(access) = &outer.access
            && let (Some(key), Some((_, lookup))) = (&access.rowid, access.row)
        {
            if number == 0 {
                let (filter, left_join, must) = (&*outer.filter, false, true);
                let none = &[];
                return Some(Inner {
                    key,
                    lookup,
                    left_join,
                    marks: None,
                    must,
                    before: none,
                    on: none,
                    filter,
                });
            }
            passed = 0;
        }
        let level = pipeline.levels.get(number + passed)?;
        let Access::Rowid { key, lookup } = &level.access else { return None };
        let PipelineStep { left_join, marks, before, on, filter, .. } = level;
        let (left_join, must, lookup) = (*left_join, false, *lookup);
        let marks = marks.as_ref().map(|(mark, _)| *mark);
        Some(Inner { key, lookup, left_join, marks, must, before, on, filter })
    }

    /// True where every row stays.
    fn keeps_all(&self) -> bool {
        (self.left_join || self.must) && self.filter.is_empty()
    }
}

impl<'a, 't> JoinScan<'a, 't> {
    /// Begins a join, or resumes one, and calls `work` unless there is no row. A join over a table
    /// reads the rows with rowids `within` a range.
    ///
    /// # Errors
    /// Errors of `work` and of the file.
    pub(super) fn run(
        pipeline: &Pipeline,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        (start, within): (Start, (i64, i64)),
        work: impl FnOnce(&mut JoinScan<'_, '_>) -> Result<Option<Pause>, Error>,
    ) -> Result<Option<Pause>, Error> {
        if start == Start::Fresh {
            memory.begin_marks(pipeline);
        }
        let Memory { leaf, join, marks, lookups, indexes, keys, place, walk, .. } = memory;
        if start == Start::Fresh {
            join.begin_sets(pipeline, txn, parameters)?;
        }
        let (Some(level), Some(first)) = (pipeline.levels.first(), pipeline.records.first()) else {
            return Ok(None);
        };
        let bounds;
        let scan = match &level.access {
            Access::Index(access) => {
                if !make_keys(access, keys, |operand| fixed(operand, parameters)) {
                    return Ok(None);
                }
                bounds = Keys::new(access, keys);
                let Some(lookup) = indexes[access.lookup].as_mut() else { return Ok(None) };
                let (walk, more) = match (start, walk) {
                    (Start::At, Some(place)) => {
                        let mut walk = lookup.resume(txn, place)?;
                        let more = walk.next()?;
                        (walk, more)
                    }
                    (Start::Fresh, _) => {
                        let walk = bounds.seek(access, lookup, txn)?;
                        let more = walk.is_valid();
                        (walk, more)
                    }
                    _ => return Ok(None),
                };
                let entries = Entries::new(walk, access, bounds.limits(access));
                if more {
                    LeafScan::of_entries(pipeline, txn, parameters, leaf, entries)
                } else {
                    None
                }
            }
            _ => {
                let from = match (start, &*place) {
                    (Start::Fresh, _) => Begin::First,
                    (Start::At, Some(place)) => Begin::After(place),
                    _ => return Ok(None),
                };
                LeafScan::new(pipeline, txn, parameters, leaf, from, within)?
            }
        };
        let Some(scan) = scan else { return Ok(None) };
        join.partners.resize((pipeline.records.len() - 1) * CHUNK, RowRef::NONE);
        join.cells.resize(CHUNK, LeafCell::default());
        let first = first.places.len();
        let stride = pipeline.fields - first;
        let (memory, fields, count) = (join, 0, 0);
        work(&mut JoinScan {
            scan,
            pipeline,
            lookups,
            memory,
            marks,
            txn,
            first,
            stride,
            fields,
            count,
        })
    }

    /// Takes the next rows of a leaf, at most `most` of the first table; false at the end. With
    /// `keep` the fields of the rows before stay in place.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline(never)]
    pub(super) fn next(&mut self, most: usize, keep: bool) -> Result<bool, Error> {
        if !self.scan.next(most, keep)? {
            return Ok(false);
        }
        if keep {
            self.fields += self.count * self.stride;
        } else {
            self.fields = 0;
            self.memory.far.clear();
        }
        let Some(rows) = self.scan.rows() else { return Ok(false) };
        self.count = rows.cells();
        let end = self.fields + self.count * self.stride;
        // One row more: the last row's borrowed slice reaches beyond its own fields.
        if self.memory.fields.len() < end + self.stride {
            self.memory.fields.resize(end + self.stride, ColumnPlace::MISSING);
        }
        let mut selected = [0; CHUNK];
        let mut wanted = rows.len();
        selected[..wanted].copy_from_slice(rows.selected());
        if let Some(sets) = &self.memory.sets {
            for (plan, set) in self.pipeline.key_sets.iter().zip(&**sets) {
                wanted = keep_rows(&mut selected, wanted, |row| {
                    set.may_have(rows.value_at(row, &plan.key))
                });
            }
        }
        let mut step = Step {
            rows,
            txn: self.txn,
            memory: &mut *self.memory,
            marks: &mut *self.marks,
            range: self.fields..end,
            first: self.first,
            stride: self.stride,
        };
        for (number, plan) in self.pipeline.records.iter().skip(1).enumerate() {
            let Some(inner) = Inner::of(self.pipeline, number) else { continue };
            let lookup = &mut self.lookups[inner.lookup];
            wanted = step.inner((number, &inner, plan), lookup, &mut selected, wanted)?;
        }
        self.scan.retain(&selected[..wanted]);
        Ok(true)
    }

    /// The rows taken last.
    #[inline]
    pub(super) fn rows(&self) -> Option<JoinRows<'_>> {
        let JoinMemory { partners, fields, far, .. } = &*self.memory;
        let fields = &fields[self.fields..self.fields + self.count * self.stride];
        let (first, stride, txn) = (self.first, self.stride, self.txn);
        Some(JoinRows { leaf: self.scan.rows()?, partners, fields, far, txn, first, stride })
    }

    /// Adds the selected rows to the batch to be given: with columns of one table alone, that
    /// table's rows, otherwise their columns ([`Memory::give_joined`]).
    pub(super) fn give(&mut self) {
        let Some(rows) = self.scan.rows() else { return };
        let (count, selected) = (rows.len(), rows.selected());
        match self.pipeline.output_record {
            Some(0) => self.scan.give(),
            Some(record) => {
                let mut chosen = [0; CHUNK];
                chosen[..count].copy_from_slice(selected);
                let partners = &self.memory.partners[(record - 1) * CHUNK..record * CHUNK];
                self.scan.give_others(chosen[..count].iter().map(|&at| partners[usize::from(at)]));
            }
            None => {
                let width = self.pipeline.outputs.as_deref().map_or(0, <[Operand]>::len);
                // A batch has fewer than 2^31 columns.
                let first = self.memory.places.len() as u32;
                self.put_together(width);
                let fields = (first..).step_by(width.max(1)).take(count);
                self.scan.give_others(fields.map(|fields| RowRef { rowid: 0, page: None, fields }));
            }
        }
        if count == 0 {
            // Nobody will ask for their fields.
            self.count = 0;
        }
    }

    /// Copies the columns of the selected rows, long ones aside. A copied value is found in one
    /// step, instead of by its table's row, the row's page, and the page's bytes.
    fn put_together(&mut self, width: usize) {
        let Some(rows) = self.scan.rows() else { return };
        let JoinMemory { partners, fields, far, places, stored, long, .. } = &mut *self.memory;
        let mut put = |place: ColumnPlace, bytes: &[u8], stored: &mut Vec<u8>, (page, is_first)| {
            if place.text_len() <= COPIED_BYTES_MAX {
                return place.copy(bytes, stored);
            }
            long.push(LongValue { page, is_first, place });
            // A batch has fewer columns than 2^31.
            ColumnPlace::elsewhere(long.len() as u32 - 1)
        };
        let fields = &fields[self.fields..];
        let (selected, from) = (rows.selected(), places.len());
        places.resize(from + selected.len() * width, ColumnPlace::NULL);
        for (output, operand) in self.pipeline.outputs.iter().flatten().enumerate() {
            let rows_of_places = places[from..].chunks_exact_mut(width);
            let targets = rows_of_places.map(|row| &mut row[output]);
            let targets = targets.zip(selected.iter().map(|&at| usize::from(at)));
            match operand {
                Operand::Field { record: 0, field, .. } => {
                    for (target, at) in targets {
                        let (place, bytes) = rows.place(at, *field);
                        let page = (!rows.cell(at).goes_on()).then_some(rows.pgno());
                        *target = put(place, bytes, stored, (page, true));
                    }
                }
                Operand::Field { record, field, .. } => {
                    let partners = &partners[(record - 1) * CHUNK..record * CHUNK];
                    let (mut page, mut bytes) = (None, &**far);
                    for (target, at) in targets.filter(|(_, at)| !partners[*at].is_none()) {
                        if partners[at].page != page {
                            page = partners[at].page;
                            bytes = bytes_of(partners[at], self.txn, far);
                        }
                        let place = fields[at * self.stride + field - self.first];
                        *target = put(place, bytes, stored, (page, false));
                    }
                }
                Operand::Rowid { record } => {
                    for (target, at) in targets {
                        let found = record.checked_sub(1).map(|it| partners[it * CHUNK + at]);
                        let rowid = match found {
                            None => rows.cell(at).rowid,
                            Some(found) if found.is_none() => continue,
                            Some(found) => found.rowid,
                        };
                        *target = ColumnPlace::of_int(rowid, stored);
                    }
                }
                Operand::Constant(_) | Operand::Parameter(_) => {}
            }
        }
    }

    /// Number of rows of the first table to take next, for `enough` joined rows.
    pub(super) fn wish(&self, enough: usize) -> usize {
        let wish = self.scan.wish(enough);
        // Where every row finds its joined rows or goes without, no row is dropped.
        let mut inner =
            (1..self.pipeline.records.len()).map(|record| Inner::of(self.pipeline, record - 1));
        let all = inner.all(|inner| inner.is_some_and(|inner| inner.keeps_all()));
        if all { wish } else { wish.max(ROWS_MIN) }
    }

    /// True where `enough` rows are to be given, or there is no room for more.
    pub(super) fn is_full(&self, enough: usize) -> bool {
        self.scan.is_full(enough)
            || self.memory.far.len() > OVERFLOW_BYTES_MAX
            || self.memory.places.len() > FIELDS_MAX
            || self.fields + self.count * self.stride > FIELDS_MAX
    }

    /// The place behind the rows taken so far, to resume at; `None` after the last.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn pause(&mut self) -> Result<Option<Pause>, Error> {
        self.scan.pause()
    }
}

/// The rows of one chunk while their partners are found.
struct Step<'s, 't> {
    rows: LeafRows<'s>,
    txn: &'t Transaction,
    memory: &'s mut JoinMemory,
    marks: &'s mut [MatchedRows],
    /// Range of these rows' fields.
    range: std::ops::Range<usize>,
    first: usize,
    stride: usize,
}

impl Step<'_, '_> {
    /// Joins one table and moves the rows still selected to the front of `selected`; gives their
    /// number.
    fn inner(
        &mut self,
        (number, inner, plan): (usize, &Inner<'_>, &RecordPlan),
        lookup: &mut TableLookup,
        selected: &mut [u8; CHUNK],
        wanted: usize,
    ) -> Result<usize, Error> {
        let mut keys = [0_i64; CHUNK];
        let mut rows = [0_u8; CHUNK];
        let mut count = self.keys(number, inner.key, &selected[..wanted], &mut keys, &mut rows);
        for test in inner.before {
            count = self.ask_before((number, test), &mut keys, &mut rows, count);
        }
        let asked = !inner.filter.is_empty() || !inner.on.is_empty();
        self.locate((number, plan, asked), lookup, &keys[..count], &rows[..count])?;
        if inner.must {
            self.must_be_there(number, &selected[..wanted])?;
        }
        if let (false, Some(mark)) = (asked, inner.marks) {
            let partners = &self.memory.partners[number * CHUNK..(number + 1) * CHUNK];
            let found = rows[..count].iter().map(|&at| partners[usize::from(at)]);
            let mut found = found.filter(|it| !it.is_none());
            let marks = &mut self.marks[mark];
            found.try_for_each(|it| marks.insert(it.rowid))?;
        }
        if !asked && (inner.left_join || inner.must) {
            return Ok(wanted);
        }
        let mut kept = 0;
        if !asked {
            let partners = &self.memory.partners[number * CHUNK..(number + 1) * CHUNK];
            for &at in &rows[..count] {
                selected[kept] = at;
                kept += usize::from(!partners[usize::from(at)].is_none());
            }
            return Ok(kept);
        }
        for place in 0..wanted {
            let at = selected[place];
            selected[kept] = at;
            kept += usize::from(self.stays(number, inner, usize::from(at))?);
        }
        self.find_late((number, plan), &selected[..kept])?;
        Ok(kept)
    }

    /// The error of an index naming a missing row.
    fn must_be_there(&self, number: usize, selected: &[u8]) -> Result<(), Error> {
        let partners = &self.memory.partners[number * CHUNK..(number + 1) * CHUNK];
        match selected.iter().find(|&&at| partners[usize::from(at)].is_none()) {
            None => Ok(()),
            Some(&at) => {
                let why = "names a row that is not there, by its entry";
                let number = u64::from(at);
                Err(Error::corrupt(Corrupt::on_page(self.rows.pgno(), "index", why, number)))
            }
        }
    }

    fn joined(&self) -> JoinRows<'_> {
        let JoinMemory { partners, fields, far, .. } = &*self.memory;
        JoinRows {
            leaf: self.rows,
            partners,
            fields: &fields[self.range.clone()],
            far,
            txn: self.txn,
            first: self.first,
            stride: self.stride,
        }
    }

    /// Reads the keys of the rows with one. No row has a joined row so far.
    fn keys(
        &mut self,
        number: usize,
        key: &Operand,
        selected: &[u8],
        keys: &mut [i64; CHUNK],
        rows: &mut [u8; CHUNK],
    ) -> usize {
        self.memory.partners[number * CHUNK..][..self.rows.cells()].fill(RowRef::NONE);
        // Most keys are columns of the first table, and integers.
        let column = match key {
            Operand::Field { record: 0, field, real: false, .. } => {
                self.rows.on_page().map(|found| (found, *field))
            }
            _ => None,
        };
        let mut count = 0;
        for &at in selected {
            let row = usize::from(at);
            let found = column.and_then(|((bytes, places, stride), field)| {
                places.get(row * stride + field)?.int(bytes)
            });
            let found = match found {
                Some(rowid) => Some(rowid),
                None => rowid_of_value(self.joined().value_at(row, key)),
            };
            if let Some(rowid) = found {
                (keys[count], rows[count]) = (rowid, at);
                count += 1;
            }
        }
        count
    }

    /// Drops the keys failing a condition on the rowid alone.
    fn ask_before(
        &mut self,
        (number, test): (usize, &Test),
        keys: &mut [i64; CHUNK],
        rows: &mut [u8; CHUNK],
        count: usize,
    ) -> usize {
        let range = match test {
            Test::Compare { rule, left: Operand::Rowid { record }, right }
                if *record == number + 1 =>
            {
                let right = match right {
                    Operand::Constant(value) => value.as_ref(),
                    Operand::Parameter(number) => parameter(self.rows.parameters(), *number),
                    _ => ValueRef::Null,
                };
                match right {
                    ValueRef::Int(right) => IntRange::of(rule.op, right),
                    _ => None,
                }
            }
            _ => None,
        };
        let mut kept = 0;
        for place in 0..count {
            let (rowid, at) = (keys[place], rows[place]);
            let stays = match range {
                Some(range) => range.has(rowid),
                None => {
                    let partner = &mut self.memory.partners[number * CHUNK + usize::from(at)];
                    *partner = RowRef { rowid, page: None, fields: 0 };
                    let stays = self.joined().all(std::slice::from_ref(test), usize::from(at));
                    self.memory.partners[number * CHUNK + usize::from(at)] = RowRef::NONE;
                    stays
                }
            };
            (keys[kept], rows[kept]) = (rowid, at);
            kept += usize::from(stays);
        }
        kept
    }

    /// Locates the rows with these keys and their columns; with `asked`, only the columns of
    /// conditions.
    fn locate(
        &mut self,
        (number, plan, asked): (usize, &RecordPlan, bool),
        lookup: &mut TableLookup,
        keys: &[i64],
        rows: &[u8],
    ) -> Result<(), Error> {
        let (txn, first, stride) = (self.txn, self.first, self.stride);
        let JoinMemory { partners, cells, fields, far, buffer, .. } = &mut *self.memory;
        let partners = &mut partners[number * CHUNK..(number + 1) * CHUNK];
        let (from, fields) = (self.range.start, &mut fields[self.range.start..]);
        let places = plan.places.len();
        let finder = if asked { &plan.early } else { &plan.all };
        let offset = plan.first - first;
        cells[..self.rows.cells()].fill(LeafCell::default());
        // The run of rows on the current page, from the first to the last.
        let mut run: Option<(Page<'_>, usize, usize)> = None;
        lookup.locate_each(txn, keys, |place, page, index, cell| {
            let at = usize::from(rows[place]);
            // A batch has fewer fields than 2^31.
            let start = ((from + at * stride) as u32).wrapping_sub(first as u32);
            let mut partner = RowRef { rowid: keys[place], page: None, fields: start };
            if places > 0 {
                if cell.goes_on() {
                    let payload = page.table_leaf(index)?.payload;
                    txn.read_payload(payload, buffer)?;
                    let far_from = far.len();
                    far.extend_from_slice(buffer);
                    let fields = &mut fields[at * stride + offset..][..places];
                    plan.all.find(far, far_from..far.len(), fields)?;
                } else {
                    partner.page = Some(page.pgno());
                    cells[at] = cell;
                    match &mut run {
                        Some((on, _, last)) if on.pgno() == page.pgno() => *last = at,
                        _ => {
                            if let Some((page, first, last)) = run.replace((*page, at, at)) {
                                let fields = &mut fields[first * stride + offset..];
                                let cells = &cells[first..=last];
                                finder.find_cells(page.bytes(), cells, fields, stride)?;
                            }
                        }
                    }
                }
            }
            partners[at] = partner;
            Ok(())
        })?;
        if let Some((page, first, last)) = run {
            // Cells in between without a row of the run are skipped.
            let (cells, fields) = (&cells[first..=last], &mut fields[first * stride + offset..]);
            finder.find_cells(page.bytes(), cells, fields, stride).map_err(Error::corrupt)?;
        }
        Ok(())
    }

    /// True where a row stays in the join, matched or unmatched.
    fn stays(&mut self, number: usize, inner: &Inner<'_>, at: usize) -> Result<bool, Error> {
        let found = !self.memory.partners[number * CHUNK + at].is_none();
        let matched = found && self.joined().all(inner.on, at);
        if let (true, Some(mark)) = (matched, inner.marks) {
            self.marks[mark].insert(self.memory.partners[number * CHUNK + at].rowid)?;
        }
        if !matched {
            if !inner.left_join {
                return Ok(false);
            }
            self.memory.partners[number * CHUNK + at] = RowRef::NONE;
        }
        Ok(self.joined().all(inner.filter, at))
    }

    /// Locates the columns outside of all conditions.
    fn find_late(
        &mut self,
        (number, plan): (usize, &RecordPlan),
        selected: &[u8],
    ) -> Result<(), Error> {
        if plan.late.is_empty() {
            return Ok(());
        }
        let JoinMemory { partners, cells, fields, .. } = &mut *self.memory;
        let fields = &mut fields[self.range.clone()];
        for &at in selected {
            let at = usize::from(at);
            // For records on several pages, all columns were located before.
            let Some(page) = partners[number * CHUNK + at].page else { continue };
            let start = at * self.stride + plan.first - self.first + plan.early.len();
            let bytes = self.txn.page_bytes(page).unwrap_or_default();
            let fields = &mut fields[start..start + plan.late.len()];
            plan.late.find(bytes, cells[at].range(), fields).map_err(Error::corrupt)?;
        }
        Ok(())
    }
}

impl Memory {
    /// Makes the rows to be given those of another table, or those put together from several: their
    /// fields and bytes change places with the first table's.
    pub(super) fn give_joined(&mut self, pipeline: &Pipeline) {
        let JoinMemory { fields, far, places, stored, .. } = &mut self.join;
        let (fields, far) =
            if pipeline.output_record.is_some() { (fields, far) } else { (places, stored) };
        std::mem::swap(&mut self.leaf.fields, fields);
        std::mem::swap(&mut self.leaf.far, far);
    }

    /// Slow path for a column of a joined row to be given, by where the row's fields begin: NULL of
    /// an unmatched row, or a long value; `None` where the record ends before the column.
    #[inline(always)]
    pub(crate) fn joined_value<'r>(
        &'r self,
        fields: u32,
        given: OutputPlace,
        txn: &'r Transaction,
    ) -> Option<ValueRef<'r>> {
        if fields == RowRef::NONE.fields {
            return Some(ValueRef::Null);
        }
        let place = given.place(&self.leaf.fields, fields)?;
        let long = self.join.long.get(place.told_elsewhere()? as usize)?;
        let bytes = match (long.page, long.is_first) {
            (Some(page), _) => txn.page_bytes(page)?,
            // The first table's overflow bytes changed places with the copied bytes.
            (None, true) => &self.join.stored,
            (None, false) => &self.join.far,
        };
        long.place.decode(bytes)
    }
}
