//! The entries of an index made from a whole table: encoded side by side on all cores, sorted, and
//! put into the index in order.
//!
//! An entry is sorted by a number of its first column, ordered as the column is. Where the number
//! tells the whole column (integers, short texts) and the entries of a key come in the order of
//! their rowids, no record is looked at. The numbers are first parted by their leading bits, then
//! each part is sorted by itself.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;
use shoal_store::vfs::File;
use shoal_store::{Collation, KeyOrder, Pgno, Record, Transaction, ValueRef};

use crate::Error;
use crate::keep::SPILL_BYTES_MIN;
use crate::keep::spill::cut_short;
use crate::session::Session;

/// Entries to be sorted, each a record.
pub(super) struct SortedEntries<'o> {
    order: &'o KeyOrder,
    /// Entries with equal first columns come in the order wanted.
    is_stable: bool,
    schema_format: u32,
    parts: Vec<Part>,
    byte_len: usize,
    /// Sorted entries written to a file for want of room.
    runs: Option<Runs>,
}

/// Entries of some rows, in the order of the rows.
pub(super) struct Part {
    /// Records behind each other, each behind its length.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    first: First,
    /// True where all entries are an integer and a rowid, held by prefix and place: no records.
    is_pairs: bool,
}

/// Where an entry's record is, and a number ordered as the first columns are, with ties.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    prefix: u64,
    /// The part's number and the place there: ascending in the order of arrival. Of a pair the
    /// rowid, ordered as [`of_int`] has it.
    place: u64,
}

/// How far the number of a part is shifted in a place.
const PART_SHIFT: u32 = 40;
/// A part has room for entries up to so many bytes, and one more.
const PART_BYTES: usize = 4 << 20;
/// Bytes before a record.
const HEAD: usize = 4;
/// Entries are first parted by so many bits.
const PARTING_BITS: u32 = 12;
/// From so many entries on they are parted.
const PARTED_MIN: usize = 1 << 13;
/// Records brought into the caches together.
const FETCHED: usize = 16;

/// The first columns of entries.
#[derive(Clone, Debug, Default)]
enum First {
    /// There is no entry.
    #[default]
    Nothing,
    /// All are integers.
    Ints,
    /// All are texts compared byte by byte, beginning with these bytes.
    Texts(Vec<u8>),
    /// None of these.
    Mixed,
}

impl First {
    fn take(&mut self, column: Collation, value: ValueRef<'_>) {
        match (&mut *self, value) {
            (First::Mixed, _) | (First::Ints, ValueRef::Int(_)) => {}
            (First::Nothing, ValueRef::Int(_)) => *self = First::Ints,
            (First::Texts(shared), ValueRef::Text(text)) => {
                let same = shared.iter().zip(text).take_while(|(a, b)| a == b).count();
                shared.truncate(same);
            }
            (First::Nothing, ValueRef::Text(text)) if column == Collation::Binary => {
                *self = First::Texts(text.to_vec());
            }
            _ => *self = First::Mixed,
        }
    }

    fn and(self, other: &First) -> First {
        match (self, other) {
            (First::Nothing, other) => other.clone(),
            (this, First::Nothing) => this,
            (First::Ints, First::Ints) => First::Ints,
            (First::Texts(mut shared), First::Texts(other)) => {
                let same = shared.iter().zip(other).take_while(|(a, b)| a == b).count();
                shared.truncate(same);
                First::Texts(shared)
            }
            _ => First::Mixed,
        }
    }
}

impl Part {
    pub(super) fn new() -> Part {
        Part { bytes: Vec::new(), entries: Vec::new(), first: First::Nothing, is_pairs: true }
    }

    /// Adds the entry of an integer and a rowid, as long as there is no other entry; false where
    /// there is, and nothing was added. Cost: 16 bytes.
    #[inline]
    pub(super) fn push_pair(&mut self, int: i64, rowid: i64) -> bool {
        if self.is_pairs {
            self.first = First::Ints;
            self.entries.push(Entry { prefix: of_int(int), place: of_int(rowid) });
        }
        self.is_pairs
    }

    /// Gives pairs the records of other entries.
    #[cold]
    fn spell(&mut self, order: &KeyOrder, schema_format: u32) {
        if !std::mem::take(&mut self.is_pairs) {
            return;
        }
        for Entry { prefix, place } in std::mem::take(&mut self.entries) {
            let pair = [ValueRef::Int(to_int(prefix)), ValueRef::Int(to_int(place))];
            self.push(order, schema_format, pair.into_iter());
        }
    }

    /// Adds an entry. Cost: its bytes and 20 more.
    #[inline]
    pub(super) fn push<'v>(
        &mut self,
        order: &KeyOrder,
        schema_format: u32,
        values: impl Iterator<Item = ValueRef<'v>> + Clone,
    ) {
        if self.is_pairs {
            self.spell(order, schema_format);
        }
        let first = values.clone().next().unwrap_or(ValueRef::Null);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD]);
        shoal_store::encode_values(values, schema_format, &mut self.bytes);
        let len = self.bytes.len() - start - HEAD;
        let len = u32::try_from(len).expect("a record is shorter than 4 GiB");
        self.bytes[start..start + HEAD].copy_from_slice(&len.to_le_bytes());
        self.first.take(order.column(0).collation, first);
        let prefix = match first {
            ValueRef::Int(int) => of_int(int),
            _ => 0,
        };
        self.entries.push(Entry { prefix, place: start as u64 });
    }

    /// Gives the entries the numbers to be sorted by; true where these tell the whole first
    /// columns.
    fn number(&mut self, order: &KeyOrder, first: &First) -> bool {
        let column = order.column(0);
        let Part { bytes, entries, .. } = self;
        let mut tells = true;
        let values = |entry: &Entry| {
            let first = read(record_at(bytes, entry.place as usize)).next();
            first.unwrap_or(ValueRef::Null)
        };
        match first {
            First::Nothing | First::Ints => {
                if column.descending {
                    entries.iter_mut().for_each(|entry| entry.prefix = !entry.prefix);
                }
            }
            // The bytes after the shared ones tell more entries apart.
            First::Texts(shared) => {
                for entry in entries {
                    let ValueRef::Text(text) = values(entry) else { continue };
                    let rest = text.get(shared.len()..).unwrap_or_default();
                    let mut bytes = [0; 8];
                    let count = rest.len().min(bytes.len());
                    bytes[..count].copy_from_slice(&rest[..count]);
                    // A text and the same with a NUL behind it would have one number.
                    tells &= rest.len() <= bytes.len() && !rest.contains(&0);
                    let prefix = u64::from_be_bytes(bytes);
                    entry.prefix = if column.descending { !prefix } else { prefix };
                }
            }
            First::Mixed => {
                for entry in entries {
                    entry.prefix = column.prefix(values(entry));
                }
                tells = false;
            }
        }
        tells
    }
}

/// A number ordered as the integer is.
fn of_int(int: i64) -> u64 {
    int.cast_unsigned() ^ (1 << 63)
}

/// The integer of a number made by [`of_int`].
fn to_int(number: u64) -> i64 {
    (number ^ (1 << 63)).cast_signed()
}

impl<'o> SortedEntries<'o> {
    /// `is_stable` says of entries with equal keys that they come in the order wanted.
    pub(super) fn new(order: &'o KeyOrder, is_stable: bool, format: u32) -> SortedEntries<'o> {
        let parts = Vec::new();
        SortedEntries { order, is_stable, schema_format: format, parts, byte_len: 0, runs: None }
    }

    /// Adds an entry to the last part.
    ///
    /// # Errors
    /// When entries without room cannot be written to a file.
    pub(super) fn push<'v>(
        &mut self,
        session: &dyn Session,
        values: impl Iterator<Item = ValueRef<'v>> + Clone,
    ) -> Result<(), Error> {
        if self.parts.last().is_none_or(|part| part.bytes.len() >= PART_BYTES) {
            if let Some(full) = self.parts.pop() {
                self.add(session, full)?;
            }
            self.parts.push(Part::new());
        }
        let part = self.parts.last_mut().expect("one was pushed if there was none");
        part.push(self.order, self.schema_format, values);
        Ok(())
    }

    /// Adds the entries of the next rows.
    ///
    /// # Errors
    /// As [`SortedEntries::push`].
    pub(super) fn add(&mut self, session: &dyn Session, part: Part) -> Result<(), Error> {
        self.byte_len += part.bytes.len() + 2 * size_of::<Entry>() * part.entries.len();
        self.parts.push(part);
        match session.budget() {
            Some(budget) if self.byte_len as u64 > budget.left().max(SPILL_BYTES_MIN) => {
                self.spill(session)
            }
            _ => Ok(()),
        }
    }

    /// Writes the entries so far to a file, in order.
    #[cold]
    fn spill(&mut self, session: &dyn Session) -> Result<(), Error> {
        let (order, format) = (self.order, self.schema_format);
        self.parts.iter_mut().for_each(|part| part.spell(order, format));
        let (sorted, _) = self.sorted();
        let mut runs = match self.runs.take() {
            Some(runs) => runs,
            None => Runs { file: session.temporary_file()?, end: 0, runs: Vec::new() },
        };
        if runs.runs.len() == FAN_IN {
            let mut whole = Runs { file: session.temporary_file()?, end: 0, runs: Vec::new() };
            let mut merge = runs.merge()?;
            let mut run = whole.begin();
            while let Some(record) = merge.next(self.order)? {
                run.push(&*whole.file, record)?;
            }
            whole.close(run)?;
            runs = whole;
        }
        let mut run = runs.begin();
        for entry in &sorted {
            run.push(&*runs.file, self.record(*entry))?;
        }
        runs.close(run)?;
        self.runs = Some(runs);
        self.parts.clear();
        self.byte_len = 0;
        session.check()
    }

    /// The entries in order, and whether two of them with equal numbers have equal first columns.
    fn sorted(&mut self) -> (Vec<Entry>, bool) {
        let (order, is_stable, format) = (self.order, self.is_stable, self.schema_format);
        let are_pairs = self.are_pairs();
        if !are_pairs {
            self.parts.par_iter_mut().for_each(|part| part.spell(order, format));
        }
        let first = self.parts.iter().fold(First::Nothing, |all, part| all.and(&part.first));
        let numbered: Vec<bool> =
            self.parts.par_iter_mut().map(|part| part.number(order, &first)).collect();
        let tells = numbered.into_iter().all(|tells| tells);
        let entries = self.parts.iter_mut().map(|part| std::mem::take(&mut part.entries));
        let lists: Vec<Vec<Entry>> = entries.collect();
        let by_place = are_pairs || tells && is_stable;
        let this = &*self;
        let ties = |a: &Entry, b: &Entry| {
            let by_record = || compare(order, this.record(*a), this.record(*b), usize::MAX);
            a.prefix
                .cmp(&b.prefix)
                .then_with(|| if by_place { Ordering::Equal } else { by_record() })
                .then(a.place.cmp(&b.place))
        };
        (in_order(&lists, are_pairs, ties), tells)
    }

    /// True where all entries are pairs.
    fn are_pairs(&self) -> bool {
        self.parts.iter().all(|part| part.is_pairs)
    }

    fn record(&self, entry: Entry) -> &[u8] {
        let part = &self.parts[(entry.place >> PART_SHIFT) as usize];
        record_at(&part.bytes, (entry.place & ((1 << PART_SHIFT) - 1)) as usize)
    }

    /// Sorts the entries and puts them into the empty index at `root`; false, with an index to be
    /// taken back, where two entries have the same first `unique` columns, none of them NULL.
    ///
    /// # Errors
    /// [`Error::Store`]; entries in a file cannot be read.
    pub(super) fn fill(
        mut self,
        session: &dyn Session,
        transaction: &mut Transaction,
        root: Pgno,
        unique: Option<usize>,
    ) -> Result<bool, Error> {
        if self.runs.is_some() {
            self.spill(session)?;
        }
        let order = self.order;
        if let Some(runs) = self.runs.take() {
            let mut fill = transaction.fill_tree(root)?;
            let mut merge = runs.merge()?;
            let mut before = Vec::new();
            let mut is_first = true;
            while let Some(record) = merge.next(order)? {
                if let Some(columns) = unique {
                    if !is_first && are_twins(order, &before, record, columns) {
                        return Ok(false);
                    }
                    before.clear();
                    before.extend_from_slice(record);
                    is_first = false;
                }
                fill.push_entry(record)?;
            }
            fill.finish()?;
            return Ok(true);
        }
        let (sorted, tells) = self.sorted();
        let are_pairs = self.are_pairs();
        if let Some(columns) = unique {
            // Only integers and texts are told by their numbers.
            let all_told = tells && columns == 1;
            let twins = sorted.par_windows(2).any(|pair| {
                let (a, b) = (pair[0], pair[1]);
                a.prefix == b.prefix
                    && (all_told
                        || !are_pairs && are_twins(order, self.record(a), self.record(b), columns))
            });
            if twins {
                return Ok(false);
            }
        }
        let is_descending = self.order.column(0).descending;
        let mut fill = transaction.fill_tree(root)?;
        if are_pairs {
            for Entry { prefix, place } in sorted {
                let int = to_int(if is_descending { !prefix } else { prefix });
                fill.push_entry_values(&[ValueRef::Int(int), ValueRef::Int(to_int(place))])?;
            }
            fill.finish()?;
            return Ok(true);
        }
        for some in sorted.chunks(FETCHED) {
            // Reads of places all over the memory that do not wait for each other.
            let fetched = some.iter().map(|entry| self.record(*entry).len()).sum::<usize>();
            std::hint::black_box(fetched);
            for entry in some {
                fill.push_entry(self.record(*entry))?;
            }
        }
        fill.finish()?;
        Ok(true)
    }
}

/// Entries of all parts in one order, that of a number first.
fn in_order(
    parts: &[Vec<Entry>],
    are_pairs: bool,
    order: impl Fn(&Entry, &Entry) -> Ordering + Sync,
) -> Vec<Entry> {
    let count: usize = parts.iter().map(Vec::len).sum();
    let all = || {
        let numbered = (0_u64..).zip(parts);
        numbered.flat_map(move |(number, part)| {
            let place = if are_pairs { 0 } else { number << PART_SHIFT };
            part.iter().map(move |entry| Entry { place: entry.place | place, ..*entry })
        })
    };
    if count < PARTED_MIN {
        let mut sorted: Vec<Entry> = all().collect();
        sorted.sort_unstable_by(order);
        return sorted;
    }
    let bounds = parts.par_iter().map(|part| {
        let bounds =
            |(low, high): (u64, u64), it: &Entry| (low.min(it.prefix), high.max(it.prefix));
        part.iter().fold((u64::MAX, 0), bounds)
    });
    let (low, high) = bounds.reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let shift = (u64::BITS - (high - low).leading_zeros()).saturating_sub(PARTING_BITS);
    let bucket = |entry: &Entry| ((entry.prefix - low) >> shift) as usize;
    let mut ends = vec![0_usize; 1 << PARTING_BITS];
    all().for_each(|entry| ends[bucket(&entry)] += 1);
    let mut next = 0;
    for end in &mut ends {
        next += std::mem::replace(end, next);
    }
    // From here on where the next entry of each bucket goes; in the end, where the bucket ends.
    let mut sorted = vec![Entry::default(); count];
    for entry in all() {
        let place = &mut ends[bucket(&entry)];
        sorted[*place] = entry;
        *place += 1;
    }
    let mut rest = &mut sorted[..];
    let mut buckets = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        let (bucket, others) = std::mem::take(&mut rest).split_at_mut(end - start);
        (rest, start) = (others, end);
        buckets.push(bucket);
    }
    buckets.into_par_iter().for_each(|bucket| match bucket.len() >= PARTED_MIN {
        true => bucket.par_sort_unstable_by(&order),
        false => bucket.sort_unstable_by(&order),
    });
    sorted
}

fn record_at(bytes: &[u8], start: usize) -> &[u8] {
    let head = bytes[start..].first_chunk().expect("an entry begins with its length");
    &bytes[start + HEAD..start + HEAD + u32::from_le_bytes(*head) as usize]
}

/// True for entries with the same first columns, none of them NULL.
fn are_twins(order: &KeyOrder, a: &[u8], b: &[u8], columns: usize) -> bool {
    let has_null = |record| read(record).take(columns).any(|it| matches!(it, ValueRef::Null));
    compare(order, a, b, columns).is_eq() && !has_null(a)
}

/// The values of a record encoded here.
fn read(record: &[u8]) -> impl Iterator<Item = ValueRef<'_>> {
    const INVARIANT: &str = "a record reads back as it was encoded";
    let values = Record::new(record).expect(INVARIANT).values();
    values.map(|value| value.expect(INVARIANT))
}

/// The order of the first `columns` of two records.
fn compare(order: &KeyOrder, a: &[u8], b: &[u8], columns: usize) -> Ordering {
    read(a)
        .zip(read(b))
        .take(columns)
        .enumerate()
        .map(|(column, (a, b))| order.compare_column(column, a, b))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Most runs merged at a time.
const FAN_IN: usize = 64;
/// Bytes read or written at a time.
const CHUNK: usize = 256 << 10;

/// Sorted entries in a temporary file, the oldest run first.
struct Runs {
    file: Box<dyn File>,
    end: u64,
    runs: Vec<Range<u64>>,
}

/// A run being written.
struct Run {
    at: u64,
    buffer: Vec<u8>,
}

impl Run {
    fn push(&mut self, file: &dyn File, record: &[u8]) -> Result<(), Error> {
        let len = u32::try_from(record.len()).expect("a record is shorter than 4 GiB");
        self.buffer.extend_from_slice(&len.to_le_bytes());
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= CHUNK { self.flush(file) } else { Ok(()) }
    }

    fn flush(&mut self, file: &dyn File) -> Result<(), Error> {
        file.write_at(&self.buffer, self.at).map_err(shoal_store::Error::from)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Runs {
    fn begin(&self) -> Run {
        Run { at: self.end, buffer: Vec::new() }
    }

    fn close(&mut self, mut run: Run) -> Result<(), Error> {
        run.flush(&*self.file)?;
        self.runs.push(self.end..run.at);
        self.end = run.at;
        Ok(())
    }

    fn merge(&self) -> Result<Merge<'_>, Error> {
        let mut readers = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let mut reader = Reader { rest: run.clone(), buffer: Vec::new(), record: 0..0 };
            reader.step(&*self.file)?;
            readers.push(reader);
        }
        Ok(Merge { file: &*self.file, readers, current: None })
    }
}

/// Several runs as one.
struct Merge<'f> {
    file: &'f dyn File,
    readers: Vec<Reader>,
    /// The run whose record was given last.
    current: Option<usize>,
}

impl Merge<'_> {
    fn next(&mut self, order: &KeyOrder) -> Result<Option<&[u8]>, Error> {
        if let Some(current) = self.current {
            self.readers[current].step(self.file)?;
        }
        let places = (0..self.readers.len()).filter(|&at| !self.readers[at].record.is_empty());
        self.current = places.min_by(|&a, &b| {
            compare(order, self.readers[a].record(), self.readers[b].record(), usize::MAX)
        });
        Ok(self.current.map(|current| self.readers[current].record()))
    }
}

/// Reads one run.
struct Reader {
    /// Bytes still in the file.
    rest: Range<u64>,
    buffer: Vec<u8>,
    /// The current record within the buffer; empty after the last.
    record: Range<usize>,
}

impl Reader {
    fn record(&self) -> &[u8] {
        &self.buffer[self.record.clone()]
    }

    fn step(&mut self, file: &dyn File) -> Result<(), Error> {
        let at = self.record.end;
        if at == self.buffer.len() && self.rest.is_empty() {
            self.record = at..at;
            return Ok(());
        }
        let at = self.fill(file, at, HEAD)?;
        let head = self.buffer[at..].first_chunk().ok_or_else(cut_short)?;
        let len = u32::from_le_bytes(*head) as usize;
        let at = self.fill(file, at, HEAD + len)? + HEAD;
        self.record = at..at + len;
        Ok(())
    }

    /// Makes sure the buffer has `wanted` bytes from `start` on; gives the place they begin at.
    fn fill(&mut self, file: &dyn File, start: usize, wanted: usize) -> Result<usize, Error> {
        if self.buffer.len() - start >= wanted {
            return Ok(start);
        }
        self.buffer.drain(..start);
        let have = self.buffer.len();
        let more = ((wanted - have).max(CHUNK) as u64).min(self.rest.end - self.rest.start);
        let length = have + usize::try_from(more).map_err(|_| cut_short())?;
        self.buffer.resize(length, 0);
        let read = file.read_at(&mut self.buffer[have..], self.rest.start);
        if read.map_err(shoal_store::Error::from)? < length - have || length < wanted {
            return Err(cut_short());
        }
        self.rest.start += more;
        Ok(0)
    }
}
