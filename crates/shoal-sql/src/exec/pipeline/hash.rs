//! Hash steps of nested loops: the rowids of a table's rows by their keys, gathered when the loops
//! begin. An index made for one run, without columns: of a row found more is read from its page
//! where anything asks for it.
//!
//! Integer keys lie in one array, by the key itself where they are dense, else by its hash. Several
//! keys are one integer there, the hash of all; the equalities are tested again on a row found.
//! Single keys of other types have a table beside it. Without room under a limit of memory, keys
//! and rowids lie in a file, sorted by key.

use std::hash::Hasher as _;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHasher};
use shoal_store::{BATCH, Transaction};

use super::each::RowView;
use super::prepared::IntRange;
use super::run::{LoopRun, Memory};
use crate::Error;
use crate::keep::key::{push_converted_key, push_key, with_converted};
use crate::keep::sort::{Sorter, Values};
use crate::keep::sorted::{SortedPlace, SortedRows};
use crate::keep::{Kept, SortKey, SortPlan};
use crate::plan::pipeline::{Access, HashAccess, HashedKey, Operand, Pipeline, PipelineStep, Test};
use crate::session::Room;
use crate::value::{Affinity, Collation, CompareOp, Value, ValueRef};

/// Rowids by key.
#[derive(Debug, Default)]
pub(super) struct KeyedRows {
    ints: IntKeys,
    others: FxHashMap<Box<[u8]>, Vec<i64>>,
    sorted: Option<SortedRows>,
    /// The key looked up last.
    key: Vec<u8>,
    kept: Kept,
}

/// Rowids by integer keys: those of one bucket lie side by side, in the order of their rows.
#[derive(Debug, Default)]
struct IntKeys {
    /// Where each bucket begins, and the end.
    starts: Vec<u32>,
    rowids: Vec<i64>,
    /// The key of each rowid; empty where a bucket is a key.
    keys: Vec<i64>,
    low: i64,
    shift: u32,
}

/// Bytes of a key and its rowid, of their copies while buckets are filled, and of a bucket.
const ROW_BYTES: usize = 2 * 16 + 8;

/// Buckets of keys themselves for each row.
const BUCKETS_EACH: u64 = 4;

impl IntKeys {
    fn new(rows: &[(i64, i64)]) -> IntKeys {
        let (Some(low), Some(high)) =
            (rows.iter().map(|(key, _)| *key).min(), rows.iter().map(|(key, _)| *key).max())
        else {
            return IntKeys::default();
        };
        let is_dense = high.abs_diff(low) < BUCKETS_EACH * rows.len() as u64;
        let buckets = match is_dense {
            // Fewer than the rows there are, times a few.
            true => high.abs_diff(low) as usize + 1,
            false => rows.len().next_power_of_two().max(2),
        };
        let shift = u64::BITS - buckets.ilog2();
        let mut this = IntKeys {
            starts: vec![0; buckets + 1],
            rowids: vec![0; rows.len()],
            keys: Vec::new(),
            low,
            shift,
        };
        if !is_dense {
            this.keys = vec![0; rows.len()];
        }
        for (key, _) in rows {
            let bucket = this.bucket(*key).unwrap_or_default();
            this.starts[bucket + 1] += 1;
        }
        for bucket in 0..buckets {
            this.starts[bucket + 1] += this.starts[bucket];
        }
        for &(key, rowid) in rows {
            let bucket = this.bucket(key).unwrap_or_default();
            let at = this.starts[bucket] as usize;
            this.starts[bucket] += 1;
            this.rowids[at] = rowid;
            if !is_dense {
                this.keys[at] = key;
            }
        }
        // Every start is the next one's now.
        this.starts.rotate_right(1);
        this.starts[0] = 0;
        this
    }

    #[inline(always)]
    fn bucket(&self, key: i64) -> Option<usize> {
        if self.keys.is_empty() {
            let bucket = usize::try_from(key.wrapping_sub(self.low).cast_unsigned()).ok()?;
            return (key >= self.low && bucket + 1 < self.starts.len()).then_some(bucket);
        }
        Some((key.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize)
    }

    /// The places of a bucket; rowids of other keys may be among them.
    #[inline(always)]
    fn places(&self, key: i64) -> Range<usize> {
        match self.bucket(key) {
            Some(bucket) if bucket + 1 < self.starts.len() => {
                self.starts[bucket] as usize..self.starts[bucket + 1] as usize
            }
            _ => 0..0,
        }
    }

    #[inline(always)]
    fn is_of(&self, place: usize, key: i64) -> bool {
        self.keys.is_empty() || self.keys[place] == key
    }
}

/// Where the rowids of a key are.
enum Found {
    Int(i64),
    Other,
    Nowhere,
}

/// Keys are compared as equal numbers of one kind.
fn int_of(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(int) => Some(int),
        ValueRef::Real(real) => {
            let int = real as i64;
            (int as f64 == real && int != i64::MAX).then_some(int)
        }
        _ => None,
    }
}

impl KeyedRows {
    /// Gathers the rows of a step.
    ///
    /// # Errors
    /// Errors of the file; when rows without room in memory cannot be written to a file.
    fn gather(
        access: &HashAccess,
        txn: &Transaction,
        parameters: &[Value],
        room: Option<&Room>,
    ) -> Result<KeyedRows, Error> {
        let mut this = KeyedRows::default();
        let mut ints: Vec<(i64, i64)> = Vec::new();
        let mut full = false;
        each_row(access, (txn, parameters), |int, bytes, rowid| {
            if full {
                return Ok(());
            }
            let mut size = ROW_BYTES;
            if let Some(int) = int {
                ints.push((int, rowid));
            } else {
                size += bytes.len();
                match this.others.get_mut(bytes) {
                    Some(rowids) => rowids.push(rowid),
                    None => drop(this.others.insert(bytes.into(), vec![rowid])),
                }
            }
            full = ints.len() >= u32::MAX as usize;
            if let Some(room) = room {
                full |= !this.kept.try_add(room, || (size, 0));
            }
            Ok(())
        })?;
        if let (true, Some(room)) = (full, room) {
            drop((ints, this));
            return KeyedRows::gather_sorted(access, (txn, parameters), room);
        }
        this.ints = IntKeys::new(&ints);
        Ok(this)
    }

    /// Gathers the rows into a file. The table is read once more.
    fn gather_sorted(
        access: &HashAccess,
        (txn, parameters): (&Transaction, &[Value]),
        room: &Room,
    ) -> Result<KeyedRows, Error> {
        let sort = SortPlan { keys: vec![SortKey::ascending(0, Collation::Binary)] };
        let mut sorter = Sorter::default();
        let mut of_int = Vec::new();
        each_row(access, (txn, parameters), |int, bytes, rowid| {
            let key = match int {
                Some(int) => int_key(int, &mut of_int),
                None => bytes,
            };
            let values = Values { first: 0, width: 2 };
            let value = |place: usize| match place {
                0 => ValueRef::Blob(key),
                _ => ValueRef::Int(rowid),
            };
            sorter.push(room, (values, &sort), value, None)
        })?;
        sorter.sort(room, &sort)?;
        let sorted = Some(SortedRows::write(room, &mut sorter, &sort)?);
        Ok(KeyedRows { sorted, ..KeyedRows::default() })
    }

    /// Looks for keys.
    fn find<'v>(
        &mut self,
        keys: &'v [HashedKey],
        value: impl Fn(&'v Operand) -> ValueRef<'v>,
    ) -> Found {
        let int = match hashed(keys, |key| value(&key.probe), &mut self.key) {
            Hashed::Null => return Found::Nowhere,
            Hashed::Int(int) => int,
            Hashed::Bytes if self.sorted.is_none() && self.others.is_empty() => {
                return Found::Nowhere;
            }
            Hashed::Bytes => return Found::Other,
        };
        if self.sorted.is_none() {
            return Found::Int(int);
        }
        int_key(int, &mut self.key);
        Found::Other
    }
}

/// What rows are found by.
enum Hashed {
    /// A key is NULL, equal to nothing.
    Null,
    /// The one key, or the hash of several.
    Int(i64),
    /// The one key, of another type.
    Bytes,
}

/// Takes the keys of a row together; `bytes` has a key other than an integer.
#[inline]
fn hashed<'v>(
    keys: &'v [HashedKey],
    mut value: impl FnMut(&'v HashedKey) -> ValueRef<'v>,
    bytes: &mut Vec<u8>,
) -> Hashed {
    if let [key] = keys {
        let value = value(key);
        if value == ValueRef::Null {
            return Hashed::Null;
        }
        if let Some(int) = with_converted(value, key.affinity, int_of) {
            return Hashed::Int(int);
        }
        bytes.clear();
        push_converted_key(value, key.affinity, key.collation, bytes);
        return Hashed::Bytes;
    }
    bytes.clear();
    for key in keys {
        let value = value(key);
        if value == ValueRef::Null {
            return Hashed::Null;
        }
        push_converted_key(value, key.affinity, key.collation, bytes);
    }
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    Hashed::Int(hasher.finish().cast_signed())
}

/// The bytes of an integer key among spilled keys.
fn int_key(int: i64, bytes: &mut Vec<u8>) -> &[u8] {
    bytes.clear();
    push_key(ValueRef::Int(int), Collation::Binary, bytes);
    bytes
}

/// Calls `each` with the key and the rowid of every row kept: an integer, or else bytes. NULL is
/// no key.
fn each_row(
    access: &HashAccess,
    (txn, parameters): (&Transaction, &[Value]),
    mut each: impl FnMut(Option<i64>, &[u8], i64) -> Result<(), Error>,
) -> Result<(), Error> {
    let outputs = access.build.outputs.as_deref().unwrap_or_default();
    let Some((rowid @ Operand::Rowid { .. }, keys)) = outputs.split_last() else {
        return Err(Error::Misuse { what: "the rows of a hash step have keys and a rowid" });
    };
    let mut bytes = Vec::new();
    let mut memory = Memory::new(&access.build);
    access.build.for_each(txn, parameters, &mut memory, |row: RowView<'_, '_, '_>| {
        let ValueRef::Int(rowid) = row.value(rowid) else { return Ok(()) };
        let mut own = keys.iter();
        let value = |_: &HashedKey| own.next().map_or(ValueRef::Null, |key| row.value(key));
        match hashed(&access.keys, value, &mut bytes) {
            Hashed::Null => Ok(()),
            Hashed::Int(int) => each(Some(int), &[], rowid),
            Hashed::Bytes => each(None, &bytes, rowid),
        }
    })
}

impl Pipeline {
    /// Gathers the rows of hash steps.
    ///
    /// # Errors
    /// As [`KeyedRows::gather`].
    pub(super) fn gather_rows(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<(), Error> {
        for level in &self.levels {
            if let Access::Hash(access) = &level.access {
                // The rows before go first: both need not fit.
                memory.tables[access.table] = None;
                let rows = KeyedRows::gather(access, txn, parameters, memory.room.as_ref())?;
                memory.tables[access.table] = Some(rows);
            }
        }
        Ok(())
    }
}

impl<'a, 't> LoopRun<'a, 't> {
    /// The rows with the key of the current row; whether any matched.
    pub(super) fn keyed<S>(
        &mut self,
        number: usize,
        level: &PipelineStep,
        access: &HashAccess,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        // Given back below; a step has a table of its own.
        let Some(mut rows) = self.memory.tables[access.table].take() else {
            return Err(Error::Misuse { what: "a hash step began without its rows" });
        };
        let result = self.keyed_rows((number, level, access), &mut rows, sink);
        self.memory.tables[access.table] = Some(rows);
        result
    }

    fn keyed_rows<S>(
        &mut self,
        (number, level, access): (usize, &PipelineStep, &HashAccess),
        rows: &mut KeyedRows,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let found = rows.find(&access.keys, |key| self.value(key));
        let step = (number, level, access);
        let Some((within, is_told)) = self.rowids_asked(level) else { return Ok(false) };
        let mut matched = false;
        match found {
            Found::Nowhere => {}
            Found::Int(key) => {
                let places = rows.ints.places(key);
                let is_wide = places.len() > 1
                    && self.reads(level)
                    && self.memory.lookups[access.lookup].is_large(self.txn);
                for (at, place) in places.clone().enumerate() {
                    if is_wide && at % BATCH == 0 {
                        let ahead = &rows.ints.rowids[place..places.end];
                        let ahead = &ahead[..ahead.len().min(BATCH)];
                        self.memory.lookups[access.lookup].warm(self.txn, ahead);
                    }
                    let rowid = rows.ints.rowids[place];
                    if within.has(rowid) && rows.ints.is_of(place, key) {
                        matched |= self.keyed_row(step, (rowid, is_told), sink)?;
                        if self.ended || (matched && level.anti) {
                            break;
                        }
                    }
                }
            }
            Found::Other => {
                let KeyedRows { others, sorted, key, .. } = rows;
                let Some(sorted) = sorted else {
                    for &rowid in others.get(key.as_slice()).into_iter().flatten() {
                        matched |= self.keyed_row(step, (rowid, false), sink)?;
                        if self.ended || (matched && level.anti) {
                            break;
                        }
                    }
                    return Ok(matched);
                };
                let mut place: SortedPlace = sorted.find(key)?;
                while let Some((mut row, next)) = sorted.values(place, Some(key))? {
                    place = next;
                    let Some(ValueRef::Int(rowid)) = row.next() else { break };
                    matched |= self.keyed_row(step, (rowid, false), sink)?;
                    if self.ended || (matched && level.anti) {
                        break;
                    }
                }
            }
        }
        Ok(matched)
    }

    /// The rowids let in by predicates on nothing else of a row, as far as one of them tells, with
    /// true where there is no other; `None` for no rowid.
    fn rowids_asked(&self, level: &PipelineStep) -> Option<(IntRange, bool)> {
        for test in &level.before {
            let Test::Compare { rule, left, right } = test else { continue };
            let (op, other) = match (left, right) {
                (Operand::Rowid { record }, other) if *record == level.record => (rule.op, other),
                (other, Operand::Rowid { record }) if *record == level.record => {
                    (rule.op.flipped(), other)
                }
                _ => continue,
            };
            let is_text = rule.affinity == Some(Affinity::Text);
            if other.is_of(level.record)
                || is_text
                || matches!(op, CompareOp::Is | CompareOp::IsNot)
            {
                continue;
            }
            if let ValueRef::Int(value) = self.value(other) {
                // No integer is below the least one.
                return Some((IntRange::of(op, value)?, level.before.len() == 1));
            }
        }
        Some((IntRange::ALL, level.before.is_empty()))
    }

    /// True where columns of a step's row are asked for.
    fn reads(&self, level: &PipelineStep) -> bool {
        !self.pipeline.records[level.record].places.is_empty()
    }

    /// Makes the row with a rowid the current one of a step, and runs the inner loops if it
    /// matches; `is_told` skips the predicates on the rowid.
    #[inline(always)]
    fn keyed_row<S>(
        &mut self,
        (number, level, access): (usize, &PipelineStep, &HashAccess),
        (rowid, is_told): (i64, bool),
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        if !is_told {
            self.records[level.record].set_rowid(rowid);
            if !self.all(&level.before) {
                return Ok(false);
            }
        }
        if self.reads(level) {
            let lookup = &mut self.memory.lookups[access.lookup];
            let Some(found) = lookup.locate(self.txn, rowid)? else {
                return Err(Error::names_no_row(rowid));
            };
            self.put_row(level.record, found)?;
        } else {
            self.records[level.record].set_rowid(rowid);
        }
        self.matched(number, level, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64], asked: impl Iterator<Item = i64>) {
        let rows: Vec<(i64, i64)> = keys.iter().copied().zip(100..).collect();
        let ints = IntKeys::new(&rows);
        for key in asked {
            let expect: Vec<i64> =
                rows.iter().filter(|(known, _)| *known == key).map(|(_, rowid)| *rowid).collect();
            let places = ints.places(key).filter(|&place| ints.is_of(place, key));
            let found: Vec<i64> = places.map(|place| ints.rowids[place]).collect();
            assert_eq!(found, expect, "{key} of {keys:?}");
        }
    }

    #[test]
    fn rowids_of_a_key_are_found_in_the_order_of_their_rows() {
        let ends = [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX];
        check(&[], (-3..3).chain(ends));
        check(&[7], (-10..10).chain(ends));
        check(&[i64::MAX, i64::MIN], (-3..3).chain(ends));
        check(&[i64::MAX, i64::MAX - 1], (-3..3).chain(ends));
        check(&[-2, 5, -2, 0, 5, 5], (-10..20).chain(ends));
        let far: Vec<i64> = (0..200).map(|n| n % 50 * 1_000_003 - 9).collect();
        check(&far, far.iter().copied().chain(-20..20).chain(ends));
    }
}
