//! Table scans, leaf by leaf: the loops of a select over one table.
//!
//! The general loops keep a current record per level and read values by record. Here there is one
//! record. Rows are taken from a leaf many at a time: their records are located in one loop; the
//! columns of conditions in the next; then each condition narrows the selection vector; then the
//! other columns of the selected rows are located. Values are decoded on demand.

use shoal_store::{
    BATCH, ColumnFinder, ColumnPlace, Corrupt, IndexWalk, LeafCell, Page, Payload, Pgno, Place,
    TableCursor, TableLookup, Transaction, WalkPlace,
};

use super::ascending::RowAt;
use super::index::{ENTRIES_BEFORE_LAST, Limits};
use super::key_sets::KeySet;
use super::leaf_rows::{LazyRow, LeafRows, RowRef};
use super::prepared::{PreparedTest, keep};
use super::run::{OVERFLOW_BYTES_MAX, rowids, seek_first};
use super::slots::fixed;
use crate::Error;
use crate::keep::matched::MatchedRows;
use crate::plan::pipeline::{Access, End, IndexAccess, KeySetPlan, Pipeline, RecordPlan, Test};
use crate::value::Value;

/// Most rows taken from a leaf at a time.
pub(crate) const CHUNK: usize = 128;

/// Memory of a scan between its runs, beside the plan.
#[derive(Debug)]
pub(crate) struct LeafMemory {
    ready: Vec<PreparedTest>,
    /// [`CHUNK`] cells, once there was a scan.
    cells: Vec<LeafCell>,
    /// The selection vector: numbers of selected cells, in front.
    selected: [u8; CHUNK],
    /// Places of the columns, of all rows of the batch.
    pub(super) fields: Vec<ColumnPlace>,
    /// Payloads on overflow pages, one behind the other.
    pub(super) far: Vec<u8>,
    /// The last payload read.
    pub(super) buffer: Vec<u8>,
    /// Rows found and not given yet.
    pub(super) found: Vec<RowRef>,
    /// Rows left out by a scan.
    pub(super) skipped: Option<MatchedRows>,
}

impl Pipeline {
    /// Most rows taken together.
    pub(crate) fn batch_rows(&self) -> usize {
        self.forced.batch_rows(CHUNK)
    }
}

impl Default for LeafMemory {
    fn default() -> LeafMemory {
        LeafMemory {
            ready: Vec::new(),
            cells: Vec::new(),
            selected: EVERY,
            fields: Vec::new(),
            far: Vec::new(),
            buffer: Vec::new(),
            found: Vec::new(),
            skipped: None,
        }
    }
}

/// All numbers of cells.
const EVERY: [u8; CHUNK] = {
    let mut out = [0; CHUNK];
    let mut at = 0;
    while at < CHUNK {
        out[at] = at as u8;
        at += 1;
    }
    out
};

/// A batch ends with this many columns located: 64 KiB.
const FIELDS_MAX: usize = 1 << 13;

/// Key sets, each with its plan.
pub(super) type AskedSets<'s> = (&'s [KeySetPlan], &'s [KeySet]);

impl LeafMemory {
    /// How many bytes are allocated for the rows of a lookup.
    pub(super) fn kept_bytes(&self) -> usize {
        self.far.capacity()
            + self.buffer.capacity()
            + self.found.capacity() * size_of::<RowRef>()
            + self.fields.capacity() * size_of::<ColumnPlace>()
    }

    pub(super) fn make_ready(&mut self, tests: &[Test], parameters: &[Value]) {
        self.cells.resize(CHUNK, LeafCell::default());
        self.ready.clear();
        let numbered = tests.iter().enumerate();
        self.ready.extend(numbered.map(|(at, test)| PreparedTest::of(at, test, parameters)));
    }

    /// Narrows rows of a leaf to the ones meeting conditions made ready; gives their number, and
    /// `None` where some continue on overflow pages.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn select(
        &mut self,
        (page, within): (&Page<'_>, std::ops::Range<usize>),
        plan: &RecordPlan,
        (tests, sets, parameters): (&[Test], Option<AskedSets<'_>>, &[Value]),
        selected: &mut [u8; CHUNK],
    ) -> Result<Option<usize>, Error> {
        let LeafMemory { ready, cells, fields, .. } = self;
        let cells = &mut cells[..within.len()];
        let (count, has_overflow) = page.leaf_cells(within.start, cells).map_err(Error::corrupt)?;
        let stride = plan.places.len();
        if has_overflow || count != within.len() || plan.early.is_empty() {
            return Ok(None);
        }
        // One row more: the last row's borrowed slice reaches beyond its own fields.
        if fields.len() < (count + 1) * stride {
            fields.resize((count + 1) * stride, ColumnPlace::MISSING);
        }
        plan.early.find_cells(page.bytes(), cells, fields, stride).map_err(Error::corrupt)?;
        let rows = LeafRows {
            page: *page,
            far: &[],
            cells,
            selected: &[],
            has_overflow,
            fields: &fields[..count * stride],
            stride,
            parameters,
        };
        *selected = EVERY;
        let mut wanted = count;
        for test in &*ready {
            wanted = test.select(tests, rows, selected, wanted);
        }
        let (plans, sets) = sets.unwrap_or_default();
        for (plan, set) in plans.iter().zip(sets) {
            wanted = keep(selected, wanted, |row| set.may_have(rows.value_at(row, &plan.key)));
        }
        Ok(Some(wanted))
    }

    /// Forgets the rows not yet given.
    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.far.clear();
    }

    /// The number of rows to be given.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// A row to be given, by its number.
    #[inline(always)]
    pub(crate) fn row<'r>(&'r self, number: usize, txn: &'r Transaction) -> LazyRow<'r> {
        let found = self.found.get(number).copied().unwrap_or_default();
        let bytes = match found.page {
            Some(page) => txn.page_bytes(page).unwrap_or_default(),
            None => &self.far,
        };
        LazyRow { found, bytes, fields: &self.fields }
    }

    /// Calls `each` with rows to be given, by their numbers.
    #[inline(always)]
    pub(super) fn each_row(
        &self,
        rows: impl Iterator<Item = usize>,
        txn: &Transaction,
        mut each: impl FnMut(LazyRow<'_>),
    ) {
        self.each_row_until(rows, txn, |row| {
            each(row);
            true
        });
    }

    /// As [`LeafMemory::each_row`] until `each` is false.
    #[inline(always)]
    pub(super) fn each_row_until(
        &self,
        rows: impl Iterator<Item = usize>,
        txn: &Transaction,
        mut each: impl FnMut(LazyRow<'_>) -> bool,
    ) {
        // Most are on the page of the row before.
        let (mut page, mut bytes) = (None, &*self.far);
        for number in rows {
            let found = self.found.get(number).copied().unwrap_or_default();
            if found.page != page {
                page = found.page;
                bytes = match page {
                    Some(page) => txn.page_bytes(page).unwrap_or_default(),
                    None => &self.far,
                };
            }
            if !each(LazyRow { found, bytes, fields: &self.fields }) {
                return;
            }
        }
    }

    /// Locates the columns of known rows, to be given.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn find_kept(
        &mut self,
        plan: &RecordPlan,
        txn: &Transaction,
        rows: &[RowAt],
    ) -> Result<(), Error> {
        let stride = plan.places.len();
        if self.fields.len() < rows.len() * stride {
            self.fields.resize(rows.len() * stride, ColumnPlace::MISSING);
        }
        for (number, row) in rows.iter().enumerate() {
            let cell = row.cell();
            let first = number * stride;
            let mut page = None;
            if stride > 0 {
                let fields = &mut self.fields[first..first + stride];
                if cell.goes_on() {
                    row.read(txn, &mut self.buffer)?;
                    let start = self.far.len();
                    self.far.extend_from_slice(&self.buffer);
                    plan.all.find(&self.far, start..self.far.len(), fields)
                } else {
                    page = Some(row.page());
                    let bytes = txn.page_bytes(row.page()).unwrap_or_default();
                    plan.all.find(bytes, cell.range(), fields)
                }
                .map_err(Error::corrupt)?;
            }
            // A batch has fewer than 2^32 fields.
            self.found.push(RowRef { rowid: cell.rowid, page, fields: first as u32 });
        }
        Ok(())
    }

    /// Finds a row by its rowid, to be given behind the others.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline]
    pub(super) fn look_up(
        &mut self,
        plan: &RecordPlan,
        lookup: &mut TableLookup,
        txn: &Transaction,
        rowid: i64,
    ) -> Result<(), Error> {
        let Some((page, index, cell)) = lookup.locate(txn, rowid)? else { return Ok(()) };
        let stride = plan.places.len();
        let first = self.found.len() * stride;
        let mut kept = None;
        if stride > 0 {
            if self.fields.len() < first + stride {
                self.fields.resize(first + stride * BATCH, ColumnPlace::MISSING);
            }
            let fields = &mut self.fields[first..first + stride];
            if cell.goes_on() {
                let payload = page.table_leaf(index).map_err(Error::corrupt)?.payload;
                txn.read_payload(payload, &mut self.buffer)?;
                let start = self.far.len();
                self.far.extend_from_slice(&self.buffer);
                plan.all.find(&self.far, start..self.far.len(), fields)
            } else {
                kept = Some(page.pgno());
                plan.all.find(page.bytes(), cell.range(), fields)
            }
            .map_err(Error::corrupt)?;
        }
        // A batch has fewer than 2^32 fields.
        self.found.push(RowRef { rowid, page: kept, fields: first as u32 });
        Ok(())
    }
}

/// The start of a scan.
pub(super) enum Begin<'p> {
    First,
    /// Behind the row at the place.
    After(&'p Place),
}

/// The first table's root and the range of rowids, where its rows come in their order.
pub(super) fn outer_leaves(pipeline: &Pipeline) -> Option<(Pgno, Option<&End>, Option<&End>)> {
    match &*pipeline.levels {
        [level, ..] if level.on.is_empty() && !level.left_join => match &level.access {
            Access::Rows { root, low, high, descending: false } => {
                Some((*root, low.as_ref(), high.as_ref()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// All rowids.
pub(crate) const EVERYWHERE: (i64, i64) = (i64::MIN, i64::MAX);

/// The source of a scan's rows.
enum Source<'a, 't> {
    Rows(TableCursor<'t>),
    Entries(Entries<'a, 't>),
}

/// The entries of an index, up to the limits.
pub(super) struct Entries<'a, 't> {
    walk: IndexWalk<'a, 't>,
    access: &'a IndexAccess,
    limits: Limits<'a>,
    /// Number of entries taken, from the walk's current one on.
    taken: usize,
    ended: bool,
}

impl<'a, 't> Entries<'a, 't> {
    /// The entries from the current one of `walk` on.
    pub(super) fn new(
        walk: IndexWalk<'a, 't>,
        access: &'a IndexAccess,
        limits: Limits<'a>,
    ) -> Entries<'a, 't> {
        Entries { walk, access, limits, taken: 0, ended: false }
    }

    /// Takes the next entries, as many as `cells` holds or there are on a page; `None` at the end.
    pub(super) fn take(
        &mut self,
        txn: &Transaction,
        cells: &mut [LeafCell],
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(Page<'t>, usize, bool)>, Error> {
        if self.ended || (self.taken > 0 && !self.walk.skip(self.taken)?) {
            self.ended = true;
            return Ok(None);
        }
        let (page, count, goes_on) = self.walk.entries(cells)?;
        let cells = &cells[..count];
        let mut holds = |number: usize| {
            let cell = &cells[number];
            if cell.goes_on() {
                txn.read_payload(ahead(&self.walk, number)?, buffer)?;
                return self.limits.hold(self.access, buffer);
            }
            self.limits.hold(self.access, page.bytes().get(cell.range()).unwrap_or_default())
        };
        let mut within = 0;
        while within < count && holds(within)? {
            within += 1;
            // A last entry within the limits has all before within, too.
            if within == ENTRIES_BEFORE_LAST && count > within && holds(count - 1)? {
                within = count;
            }
        }
        self.ended = within < count;
        self.taken = within;
        Ok((within > 0).then_some((page, within, goes_on)))
    }
}

impl Entries<'_, '_> {
    /// The place of the last entry taken.
    pub(super) fn place_of_last(&self) -> WalkPlace {
        self.walk.place_ahead(self.taken.saturating_sub(1))
    }

    /// True where no entry follows the taken ones.
    pub(super) fn have_ended(&self) -> bool {
        self.ended
    }

    /// Reads a taken entry continued on overflow pages.
    pub(super) fn read(
        &self,
        number: usize,
        txn: &Transaction,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        Ok(txn.read_payload(ahead(&self.walk, number)?, buffer)?)
    }
}

/// The payload of an entry `by` places behind a walk's current one.
fn ahead<'t>(walk: &IndexWalk<'_, 't>, by: usize) -> Result<Payload<'t>, Error> {
    let missing = || Corrupt::new("index", "has no such entry, behind", by as u64);
    walk.ahead(by).ok_or_else(|| Error::corrupt(missing()))
}

/// The place to resume a scan at.
pub(super) enum Pause {
    Row(Place),
    Entry(WalkPlace),
}

/// A running scan: the rows of a table within a range of rowids, or the entries of an index, under
/// the conditions.
pub(super) struct LeafScan<'a, 't> {
    plan: &'a RecordPlan,
    tests: &'a [Test],
    parameters: &'a [Value],
    txn: &'t Transaction,
    memory: &'a mut LeafMemory,
    source: Source<'a, 't>,
    /// `None` once there is no more row.
    leaf: Option<Leaf<'t>>,
    high: i64,
    /// Most rows taken together.
    rows_max: usize,
    /// The columns to locate for selected rows.
    finds: Finds,
    /// True where most of the last rows were selected.
    keeps_most: bool,
    /// Number of rows taken last, true where some continue on overflow pages, and number of
    /// selected ones.
    count: usize,
    has_overflow: bool,
    wanted: usize,
    /// Start of their fields.
    fields: usize,
}

/// The columns a scan locates for the rows passing its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finds {
    All,
    /// Columns of conditions, and columns deciding which rows are chosen; the others after the
    /// choice.
    Chosen,
    /// Only columns of conditions.
    None,
}

/// The current leaf of a scan.
#[derive(Clone, Copy)]
struct Leaf<'t> {
    page: Page<'t>,
    /// The first of the rows taken last, and the row behind them.
    first: usize,
    next: usize,
    /// True where all rows are within the range.
    inside: bool,
}

impl Leaf<'_> {
    /// True where all rowids of a leaf just entered are in `rows`.
    #[cold]
    fn is_within(&self, rows: &MatchedRows) -> bool {
        let last = self.page.cell_count().saturating_sub(1);
        let ends = || Some((self.page.rowid(0).ok()?, self.page.rowid(last).ok()?));
        self.next == 0 && ends().is_some_and(|(low, high)| rows.contains_all(low, high))
    }
}

impl<'a, 't> LeafScan<'a, 't> {
    /// Begins a scan; `None` where there is no row, and for a select of another kind.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn new(
        pipeline: &'a Pipeline,
        txn: &'t Transaction,
        parameters: &'a [Value],
        memory: &'a mut LeafMemory,
        from: Begin<'_>,
        within: (i64, i64),
    ) -> Result<Option<LeafScan<'a, 't>>, Error> {
        let Some((root, low, high)) = outer_leaves(pipeline) else { return Ok(None) };
        let (Some(level), Some(plan)) = (pipeline.levels.first(), pipeline.records.first()) else {
            return Ok(None);
        };
        let range = rowids(low, high, |operand| fixed(operand, parameters));
        let Some((low, high)) = range else { return Ok(None) };
        let (low, high) = (low.max(within.0), high.min(within.1));
        if low > high {
            return Ok(None);
        }
        let (cursor, more) = match from {
            Begin::First => {
                let mut cursor: TableCursor<'_> = txn.table(root)?;
                let more = seek_first(&mut cursor, low)?;
                (cursor, more)
            }
            Begin::After(place) => {
                let mut cursor = TableCursor::resume(txn, place)?;
                let more = cursor.next()?;
                (cursor, more)
            }
        };
        if !more {
            return Ok(None);
        }
        let leaf = leaf_of(&cursor, high)?;
        let asked = (pipeline, plan, &*level.filter, parameters);
        Ok(Some(LeafScan::begin(asked, txn, memory, Source::Rows(cursor), leaf, high)))
    }

    /// Begins a scan of an index's entries, as the first record.
    pub(super) fn of_entries(
        pipeline: &'a Pipeline,
        txn: &'t Transaction,
        parameters: &'a [Value],
        memory: &'a mut LeafMemory,
        entries: Entries<'a, 't>,
    ) -> Option<LeafScan<'a, 't>> {
        let (level, plan) = (pipeline.levels.first()?, pipeline.records.first()?);
        let tests = if entries.access.row.is_some() { &*level.before } else { &*level.filter };
        let source = Source::Entries(entries);
        let asked = (pipeline, plan, tests, parameters);
        Some(LeafScan::begin(asked, txn, memory, source, None, i64::MAX))
    }

    /// A scan before its first row, made of its conditions, its source, and its highest rowid.
    fn begin(
        (pipeline, plan, tests, parameters): (
            &'a Pipeline,
            &'a RecordPlan,
            &'a [Test],
            &'a [Value],
        ),
        txn: &'t Transaction,
        memory: &'a mut LeafMemory,
        source: Source<'a, 't>,
        leaf: Option<Leaf<'t>>,
        high: i64,
    ) -> LeafScan<'a, 't> {
        memory.make_ready(tests, parameters);
        let (finds, keeps_most, has_overflow) = (Finds::All, false, false);
        let (count, wanted, fields) = (0, 0, 0);
        LeafScan {
            plan,
            tests,
            parameters,
            txn,
            memory,
            source,
            leaf,
            high,
            rows_max: pipeline.batch_rows(),
            finds,
            keeps_most,
            count,
            has_overflow,
            wanted,
            fields,
        }
    }

    /// Locates only the columns of conditions from now on.
    pub(super) fn want_places_only(&mut self) {
        self.finds = Finds::None;
    }

    /// From now on, locates for rows passing the conditions only the columns deciding the choice,
    /// until [`LeafScan::choose`].
    pub(super) fn want_chosen(&mut self) {
        self.finds = Finds::Chosen;
    }

    /// The number on its leaf of the first row taken last.
    pub(super) fn first(&self) -> Option<usize> {
        Some(self.leaf?.first)
    }

    /// Takes the next rows of a leaf, at most `most`; false at the end. With `keep` the fields of
    /// the rows before stay in place.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline(never)]
    pub(super) fn next(&mut self, most: usize, keep: bool) -> Result<bool, Error> {
        let stride = self.plan.places.len();
        if keep {
            self.fields += self.count * stride;
        } else {
            self.fields = 0;
            self.memory.far.clear();
        }
        self.count = 0;
        let cursor = match &mut self.source {
            Source::Rows(cursor) => cursor,
            Source::Entries(entries) => {
                let most = most.min(FIELDS_MAX / stride.max(1)).clamp(1, self.rows_max);
                let LeafMemory { cells, buffer, .. } = &mut *self.memory;
                let taken = entries.take(self.txn, &mut cells[..most], buffer)?;
                let Some((page, count, has_overflow)) = taken else { return Ok(false) };
                let leaf = Leaf { page, first: 0, next: count, inside: true };
                (self.leaf, self.count, self.has_overflow) = (Some(leaf), count, has_overflow);
                self.find(leaf)?;
                return Ok(true);
            }
        };
        let Some(mut leaf) = self.leaf else { return Ok(false) };
        let skipped = &self.memory.skipped;
        while leaf.next >= leaf.page.cell_count()
            || skipped.as_ref().is_some_and(|rows| leaf.is_within(rows))
        {
            let more = leaf.inside && cursor.next_leaf()?;
            self.leaf = if more { leaf_of(cursor, self.high)? } else { None };
            let Some(entered) = self.leaf else { return Ok(false) };
            leaf = entered;
        }
        let most = most.min(FIELDS_MAX / stride.max(1)).clamp(1, self.rows_max);
        let cells = &mut self.memory.cells[..most];
        let (mut count, has_overflow) =
            leaf.page.leaf_cells(leaf.next, cells).map_err(Error::corrupt)?;
        leaf.first = leaf.next;
        leaf.next += count;
        if !leaf.inside
            && let Some(end) = cells[..count].iter().position(|cell| cell.rowid > self.high)
        {
            count = end;
            leaf.next = leaf.page.cell_count();
        }
        (self.leaf, self.count, self.has_overflow) = (Some(leaf), count, has_overflow);
        self.find(leaf)?;
        Ok(true)
    }

    /// Locates the columns of the taken rows, and selects rows by the conditions.
    #[inline]
    fn find(&mut self, leaf: Leaf<'t>) -> Result<(), Error> {
        let (plan, count) = (self.plan, self.count);
        let stride = plan.places.len();
        let end = self.fields + count * stride;
        // One row more: the last row's borrowed slice reaches beyond its own fields.
        if self.memory.fields.len() < end + stride {
            self.memory.fields.resize(end + stride, ColumnPlace::MISSING);
        }
        let asked = self.finds != Finds::None || !self.tests.is_empty();
        let has_overflow = self.has_overflow;
        if has_overflow && stride > 0 && asked {
            self.find_far(leaf)?;
        }
        let LeafMemory { ready, cells, selected, fields, far, skipped, .. } = &mut *self.memory;
        let (page, cells) = (leaf.page, &cells[..count]);
        let fields = &mut fields[self.fields..end + stride];
        *selected = EVERY;
        self.wanted = count;
        if let Some(rows) = skipped {
            self.wanted = 0;
            for at in 0..count {
                let row = selected[at];
                selected[self.wanted] = row;
                self.wanted += usize::from(!rows.contains(cells[usize::from(row)].rowid)?);
            }
            if self.wanted == 0 {
                return Ok(());
            }
        }
        if !asked {
            return Ok(());
        }
        let bytes = page.bytes();
        if ready.is_empty() {
            let found = match (&self.finds, &plan.key) {
                (Finds::Chosen, None) => Ok(()),
                (Finds::Chosen, Some((number, finder))) => {
                    finder.find_cells(bytes, cells, &mut fields[*number..], stride)
                }
                _ => plan.all.find_cells(bytes, cells, &mut fields[..count * stride], stride),
            };
            return found.map_err(Error::corrupt);
        }
        // With most rows selected, one walk through a header costs less than two. A fault in a
        // column nobody reads is no error.
        let whole = self.keeps_most
            && self.finds == Finds::All
            && !plan.late.is_empty()
            && plan.all.find_cells(bytes, cells, fields, stride).is_ok();
        if !whole {
            plan.early.find_cells(bytes, cells, fields, stride).map_err(Error::corrupt)?;
        }
        let (far, parameters): (&[u8], _) = (far, self.parameters);
        let fields_found = &fields[..count * stride];
        let rows = LeafRows {
            page,
            far,
            cells,
            selected: &[],
            has_overflow,
            fields: fields_found,
            stride,
            parameters,
        };
        for condition in &*ready {
            self.wanted = condition.select(self.tests, rows, selected, self.wanted);
        }
        self.keeps_most = self.wanted > count / 2;
        if whole || self.finds != Finds::All {
            return Ok(());
        }
        self.find_late(leaf)
    }

    /// Locates the selected rows' columns outside of all conditions.
    #[inline]
    fn find_late(&mut self, leaf: Leaf<'t>) -> Result<(), Error> {
        self.find_wanted(leaf, &self.plan.late, self.plan.early.len())
    }

    /// Locates columns of the selected rows, behind the first `passed` fields of each row.
    #[inline(always)]
    fn find_wanted(
        &mut self,
        leaf: Leaf<'t>,
        finder: &ColumnFinder,
        passed: usize,
    ) -> Result<(), Error> {
        if finder.is_empty() {
            return Ok(());
        }
        let stride = self.plan.places.len();
        let LeafMemory { cells, selected, fields, .. } = &mut *self.memory;
        let (bytes, fields) = (leaf.page.bytes(), &mut fields[self.fields..]);
        for &at in &selected[..self.wanted] {
            let at = usize::from(at);
            if cells[at].goes_on() {
                continue;
            }
            let fields = &mut fields[at * stride + passed..(at + 1) * stride];
            finder.find(bytes, cells[at].range(), fields).map_err(Error::corrupt)?;
        }
        Ok(())
    }

    /// Selects `chosen` alone, some of the selected rows in their order, and locates all their
    /// columns.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn choose(&mut self, chosen: &[u8]) -> Result<(), Error> {
        self.retain(chosen);
        let Some(leaf) = self.leaf else { return Ok(()) };
        match self.tests {
            [] => self.find_wanted(leaf, &self.plan.all, 0),
            _ => self.find_late(leaf),
        }
    }

    /// Reads the records continued on overflow pages, and locates all their columns.
    #[cold]
    fn find_far(&mut self, leaf: Leaf<'t>) -> Result<(), Error> {
        let LeafMemory { cells, fields, far, buffer, .. } = &mut *self.memory;
        let fields = fields[self.fields..].chunks_exact_mut(self.plan.places.len());
        for ((at, cell), fields) in cells[..self.count].iter().enumerate().zip(fields) {
            if !cell.goes_on() {
                continue;
            }
            let payload = match &self.source {
                Source::Rows(_) => {
                    leaf.page.table_leaf(leaf.first + at).map_err(Error::corrupt)?.payload
                }
                Source::Entries(entries) => ahead(&entries.walk, at)?,
            };
            self.txn.read_payload(payload, buffer)?;
            let start = far.len();
            far.extend_from_slice(buffer);
            self.plan.all.find(far, start..far.len(), fields).map_err(Error::corrupt)?;
        }
        Ok(())
    }

    /// The rows taken last.
    #[inline]
    pub(super) fn rows(&self) -> Option<LeafRows<'_>> {
        let page = self.leaf?.page;
        let LeafMemory { cells, selected, fields, far, .. } = &*self.memory;
        let stride = self.plan.places.len();
        Some(LeafRows {
            page,
            far,
            cells: &cells[..self.count],
            selected: &selected[..self.wanted],
            has_overflow: self.has_overflow,
            fields: &fields[self.fields..self.fields + self.count * stride],
            stride,
            parameters: self.parameters,
        })
    }

    /// Selects `selected` alone, some of the selected rows in their order.
    pub(super) fn retain(&mut self, selected: &[u8]) {
        self.memory.selected[..selected.len()].copy_from_slice(selected);
        self.wanted = selected.len();
    }

    /// Adds the selected rows to the batch to be given.
    pub(super) fn give(&mut self) {
        let Some(leaf) = self.leaf else { return };
        if self.wanted == 0 {
            // Nobody will ask for their fields.
            self.count = 0;
            return;
        }
        let (pgno, stride) = (leaf.page.pgno(), self.plan.places.len());
        let LeafMemory { cells, selected, found, .. } = &mut *self.memory;
        // A batch has fewer than 2^32 fields.
        let (first, step) = (self.fields as u32, stride as u32);
        let page = (stride > 0).then_some(pgno);
        if self.wanted == self.count && !self.has_overflow {
            // An iterator of known length: room is made for all at once.
            let rows = cells[..self.count].iter().zip(0..self.count as u32);
            found.extend(rows.map(|(cell, number)| {
                let fields = first + number * step;
                RowRef { rowid: cell.rowid, page, fields }
            }));
            return;
        }
        let (cells, selected) = (&cells[..self.count], &selected[..self.wanted]);
        if !self.has_overflow {
            found.extend(selected.iter().map(|&at| {
                let rowid = cells[usize::from(at)].rowid;
                RowRef { rowid, page, fields: first + u32::from(at) * step }
            }));
            return;
        }
        found.extend(selected.iter().map(|&at| {
            let cell = &cells[usize::from(at)];
            let page = page.filter(|_| !cell.goes_on());
            RowRef { rowid: cell.rowid, page, fields: first + u32::from(at) * step }
        }));
    }

    /// Adds rows of another table to the batch to be given, in place of the selected ones.
    pub(super) fn give_others(&mut self, rows: impl Iterator<Item = RowRef>) {
        self.memory.found.extend(rows);
        if self.wanted == 0 {
            self.count = 0;
        }
    }

    /// Number of rows to take next, for `enough` in the batch.
    pub(super) fn wish(&self, enough: usize) -> usize {
        let wish = enough.saturating_sub(self.memory.found.len());
        // More rows, where conditions will drop some.
        let all = self.tests.is_empty() && self.memory.skipped.is_none();
        if all { wish } else { wish.max(CHUNK / 4) }
    }

    /// True where `enough` rows are to be given, or there is no room for more.
    pub(super) fn is_full(&self, enough: usize) -> bool {
        let LeafMemory { found, far, .. } = &*self.memory;
        let fields = self.fields + self.count * self.plan.places.len();
        found.len() >= enough || far.len() > OVERFLOW_BYTES_MAX || fields > FIELDS_MAX
    }

    /// The place behind the rows taken so far, to resume at; `None` after the last.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn pause(&mut self) -> Result<Option<Pause>, Error> {
        let Some(leaf) = self.leaf else { return Ok(None) };
        match &mut self.source {
            Source::Rows(_) if leaf.next >= leaf.page.cell_count() && !leaf.inside => Ok(None),
            Source::Rows(cursor) => {
                cursor.move_on_leaf(leaf.next.saturating_sub(1))?;
                Ok(Some(Pause::Row(cursor.place())))
            }
            Source::Entries(entries) if entries.ended => Ok(None),
            Source::Entries(entries) => Ok(Some(Pause::Entry(entries.place_of_last()))),
        }
    }
}

/// The current leaf of a cursor.
fn leaf_of<'t>(cursor: &TableCursor<'t>, high: i64) -> Result<Option<Leaf<'t>>, Error> {
    let Some((page, next)) = cursor.leaf() else { return Ok(None) };
    // Rowids ascend, so one comparison tells for the whole leaf.
    let last = page.cell_count().saturating_sub(1);
    let inside = high == i64::MAX || page.rowid(last).map_err(Error::corrupt)? <= high;
    Ok(Some(Leaf { page, first: next, next, inside }))
}
