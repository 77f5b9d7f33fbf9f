//! The loop over the entries of an index, and the rows they name.

use std::cmp::Ordering;

use shoal_store::{BATCH, IndexLookup, IndexWalk, LeafCell, Transaction};

use super::run::{LoopRun, Start};
use crate::Error;
use crate::exec::scan::{highest_rowid, lowest_rowid};
use crate::plan::NullKey;
use crate::plan::pipeline::{End, IndexAccess, KEYS_MAX, Operand, PipelineStep};
use crate::value::{Affinity, Value, ValueRef};

/// After this many entries of a leaf with the wanted key, the leaf's last entry is compared, too:
/// if it has the key, the entries between need no comparison.
pub(super) const ENTRIES_BEFORE_LAST: usize = 6;

/// Entries looked at together by an inner loop, and at first: most keys have few.
const ENTRIES_MAX: usize = 16;
const ENTRIES_FIRST: usize = 4;

/// Up to where a walk goes.
#[derive(Clone, Copy)]
pub(super) struct Limits<'k> {
    /// The values of the first columns.
    equal: &'k [ValueRef<'k>],
    /// The same values and the end of the next column's range; true where the end is in the range.
    stop: Option<(&'k [ValueRef<'k>], bool)>,
    /// True for a walk backwards.
    descending: bool,
}

/// The keys of an index lookup: start and end of the range of entries.
pub(super) struct Keys<'k> {
    first: [ValueRef<'k>; KEYS_MAX],
    /// The keys with the end of the range in place of its start.
    stop: Option<[ValueRef<'k>; KEYS_MAX]>,
}

impl<'k> Keys<'k> {
    /// The keys for values made by [`make_keys`], for a walk forwards.
    #[inline(always)]
    pub(super) fn new(access: &IndexAccess, keys: &'k [Value]) -> Keys<'k> {
        let mut first = [ValueRef::Null; KEYS_MAX];
        for (key, value) in first.iter_mut().zip(keys) {
            *key = value.as_ref();
        }
        let mut stop = None;
        if let (Some(_), [.., last]) = (&access.stop, keys) {
            let stop = stop.insert(first);
            stop[access.equal.len()] = last.as_ref();
        }
        Keys { first, stop }
    }

    /// The values of the first columns.
    pub(super) fn equal(&self, access: &IndexAccess) -> &[ValueRef<'k>] {
        &self.first[..access.equal.len()]
    }

    /// Up to where a walk goes.
    pub(super) fn limits(&self, access: &IndexAccess) -> Limits<'_> {
        let prefix = access.equal.len();
        let stop = access.stop.as_ref().zip(self.stop.as_ref());
        let stop = stop.map(|(end, stop)| (&stop[..=prefix], end.inclusive));
        Limits { equal: &self.first[..prefix], stop, descending: false }
    }

    /// The first entry of the range.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn seek<'l, 't>(
        &self,
        access: &IndexAccess,
        lookup: &'l mut IndexLookup,
        txn: &'t Transaction,
    ) -> Result<IndexWalk<'l, 't>, Error> {
        let prefix = access.equal.len();
        let (key, passed) = match &access.start {
            Some(End { inclusive: true, .. }) => (&self.first[..=prefix], Ordering::Less),
            Some(_) => (&self.first[..=prefix], Ordering::Equal),
            None => (&self.first[..prefix], Ordering::Less),
        };
        Ok(lookup.seek(txn, key, &access.order, passed)?)
    }
}

impl Limits<'_> {
    /// True where the entry with this record is within the limits.
    #[inline]
    pub(super) fn hold(&self, access: &IndexAccess, record: &[u8]) -> Result<bool, Error> {
        if !self.equal.is_empty()
            && access.order.compare(record, self.equal).map_err(Error::corrupt)?.is_ne()
        {
            return Ok(false);
        }
        let Some((stop, inclusive)) = self.stop else { return Ok(true) };
        let order = access.order.compare(record, stop).map_err(Error::corrupt)?;
        let order = if self.descending { order.reverse() } else { order };
        Ok(order.is_lt() || (inclusive && order.is_eq()))
    }
}

impl<'a, 't> LoopRun<'a, 't> {
    /// The entries of an index with the wanted key; whether any row matched.
    pub(super) fn entries<S>(
        &mut self,
        number: usize,
        level: &PipelineStep,
        access: &IndexAccess,
        start: Start,
        enough: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        if matches!(start, Start::Done) || !self.make_keys(access) {
            return Ok(false);
        }
        // Keys and lookup are given back below; nothing in between uses either.
        let keys = std::mem::take(&mut self.memory.keys);
        let Some(mut lookup) = self.memory.indexes[access.lookup].take() else {
            return Err(Error::Misuse { what: "an index was walked twice at once" });
        };
        let step = (number, level, access);
        let known = self.known_rows(step, &keys, (&lookup, enough), sink);
        let result = known.transpose().unwrap_or_else(|| {
            if number > 0 && access.row.is_none() && !access.descending {
                return self.inner_entries(step, &keys, &mut lookup, sink);
            }
            self.entries_of(number, level, access, &keys, &mut lookup, start, enough, sink)
        });
        self.memory.keys = keys;
        self.memory.indexes[access.lookup] = Some(lookup);
        result
    }

    /// The rows named by entries with one integer, and a range of rowids perhaps, where the entries
    /// are decoded; whether any matched. `None` leaves the rows to a walk, as the rows of a loop
    /// able to pause in their midst.
    fn known_rows<S>(
        &mut self,
        (number, level, access): (usize, &PipelineStep, &IndexAccess),
        keys: &[Value],
        (index, enough): (&IndexLookup, usize),
        sink: &mut S,
    ) -> Result<Option<bool>, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let (&[Value::Int(key), ref ends @ ..], Some((column, lookup))) = (keys, access.row) else {
            return Ok(None);
        };
        let may_pause = number == 0 && self.pauses;
        let is_plain = !access.descending && !access.once && level.before.is_empty();
        if may_pause || !access.names_rows || !is_plain || access.equal.len() != 1 {
            return Ok(None);
        }
        let Some((low, high)) = rowids_between(access, ends, column) else { return Ok(None) };
        let mut matched = false;
        let txn = self.txn;
        let is_known = index.each_known_rowids(txn, key, column, |rowids| {
            let from = rowids.partition_point(|&rowid| rowid < low);
            let count = rowids[from..].partition_point(|&rowid| rowid <= high);
            for some in rowids[from..from + count].chunks(BATCH) {
                let rows = &self.memory.lookups[lookup];
                if some.len() > 1 && rows.is_large(txn) {
                    rows.warm(txn, some);
                }
                for &rowid in some {
                    let Some(found) = self.memory.lookups[lookup].locate(txn, rowid)? else {
                        return Err(Error::names_no_row(rowid));
                    };
                    self.put_row(level.record, found)?;
                    matched |= self.matched(number, level, sink)?;
                    let is_full = number == 0 && self.memory.is_full(enough);
                    if is_full || self.ended || (matched && level.anti) {
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        })?;
        Ok(is_known.then_some(matched))
    }

    /// The entries found by an inner loop reading nothing but entries, several of a page at a time;
    /// whether any matched.
    fn inner_entries<S>(
        &mut self,
        (number, level, access): (usize, &PipelineStep, &IndexAccess),
        keys: &[Value],
        lookup: &mut IndexLookup,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let keys = Keys::new(access, keys);
        let limits = keys.limits(access);
        let mut walk = keys.seek(access, lookup, self.txn)?;
        let mut cells = [LeafCell::default(); ENTRIES_MAX];
        let (mut size, mut matched, mut more) = (ENTRIES_FIRST, false, walk.is_valid());
        while more {
            let (page, count, any_goes_on) = walk.entries(&mut cells[..size])?;
            let within = |cell: &LeafCell| limits.hold(access, &page.bytes()[cell.range()]);
            // Entries between two within are within.
            let all = !any_goes_on && count > 1 && within(&cells[count - 1])?;
            for (ahead, &cell) in cells[..count].iter().enumerate() {
                if cell.goes_on() {
                    let payload = walk.ahead(ahead).expect("the walk gave the entry");
                    self.put_entry(access.entry, payload, &page)?;
                    self.put_together(access.entry, payload)?;
                } else {
                    self.put_row(access.entry, (page, 0, cell))?;
                }
                if !all && !limits.hold(access, self.record_bytes(access.entry))? {
                    let ended = walk.ended().map(|(leaf, index)| (leaf, index + ahead));
                    drop(walk);
                    lookup.end_walk(ended);
                    return Ok(matched);
                }
                if self.all(&level.before) {
                    matched |= self.matched(number, level, sink)?;
                }
                if self.ended || (level.anti && matched) {
                    return Ok(matched);
                }
            }
            more = walk.skip(count)?;
            size = ENTRIES_MAX;
        }
        Ok(matched)
    }

    #[allow(clippy::too_many_arguments)] // one loop's state
    fn entries_of<S>(
        &mut self,
        number: usize,
        level: &PipelineStep,
        access: &IndexAccess,
        keys: &[Value],
        lookup: &mut IndexLookup,
        start: Start,
        enough: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut LoopRun<'a, 't>) -> Result<(), Error>,
    {
        let mut refs = [ValueRef::Null; KEYS_MAX];
        for (key, value) in refs.iter_mut().zip(keys) {
            *key = value.as_ref();
        }
        let prefix = access.equal.len();
        let descending = access.descending;
        let (mut from, mut to) = (access.start.as_ref(), access.stop.as_ref());
        // The end of the range takes the place of its beginning, once the beginning is found.
        let mut stop_refs = refs;
        if let (Some(_), [.., stop]) = (&access.stop, keys) {
            stop_refs[prefix] = stop.as_ref();
        }
        if descending {
            (from, to) = (to, from);
            std::mem::swap(&mut refs, &mut stop_refs);
        }
        let stop = to.map(|end| (&stop_refs[..=prefix], end.inclusive));
        let limits = Limits { equal: &refs[..prefix], stop, descending };
        let (mut walk, mut more) = match (start, &self.memory.walk) {
            (Start::At, Some(place)) => {
                let mut walk = lookup.resume(self.txn, place)?;
                let more = match descending {
                    _ if self.passed > 0 => walk.is_valid(),
                    true => walk.prev()?,
                    false => walk.next()?,
                };
                (walk, more)
            }
            _ => {
                let key = if from.is_some() { &refs[..=prefix] } else { &refs[..prefix] };
                // Backwards, the walk begins before the first entry past the range.
                let inclusive = from.is_none_or(|end| end.inclusive);
                let passed = if inclusive == descending { Ordering::Equal } else { Ordering::Less };
                let mut walk = lookup.seek(self.txn, key, &access.order, passed)?;
                let more = if descending { walk.prev()? } else { walk.is_valid() };
                (walk, more)
            }
        };
        let mut matched = false;
        // Entries known to be within, and matching entries counted on this leaf.
        let (mut sure, mut found) = (0_usize, 0_usize);
        let mut warmed = 0;
        while more {
            if let Some((place, lookup)) = access.row
                && warmed == 0
                && sure > 1
                && self.memory.lookups[lookup].is_large(self.txn)
            {
                self.warm(lookup, place, (1..sure).map_while(|by| walk.ahead(by)));
                warmed = BATCH - 1;
            }
            warmed = warmed.saturating_sub(1);
            let payload = walk.payload()?;
            self.put_entry(access.entry, payload, &walk.page())?;
            if payload.overflow.is_some() {
                self.put_together(access.entry, payload)?;
            }
            if sure > 0 {
                sure -= 1;
            } else {
                if !limits.hold(access, self.record_bytes(access.entry))? {
                    let ended = walk.ended();
                    drop(walk);
                    lookup.end_walk(ended);
                    return Ok(matched);
                }
                found += 1;
                if found == ENTRIES_BEFORE_LAST && !descending {
                    found = 0;
                    sure = self.sure_of(&walk, access, &limits)?;
                }
            }
            if match access.row {
                _ if !self.all(&level.before) => false,
                Some((_, lookup)) => self.follow(access, level.record, lookup)?,
                None => true,
            } {
                matched |= self.matched(number, level, sink)?;
            }
            // The outermost loop notes its place first.
            if (self.ended && number > 0) || (level.anti && matched) {
                return Ok(matched);
            }
            // An inner loop goes on at a full batch, too: the outermost one alone can be resumed.
            if number == 0 && self.memory.is_full(enough) {
                self.memory.start = Start::At;
                self.memory.walk = Some(walk.place());
                return Ok(matched);
            }
            more = if descending { walk.prev()? } else { walk.next()? };
        }
        Ok(matched)
    }

    /// The number of entries behind this one known to be within, because the leaf's last one is.
    fn sure_of(
        &self,
        walk: &IndexWalk<'_, '_>,
        access: &IndexAccess,
        limits: &Limits<'_>,
    ) -> Result<usize, Error> {
        let Some((left, last)) = walk.last_on_leaf()? else { return Ok(0) };
        let within = last.overflow.is_none() && limits.hold(access, last.local)?;
        Ok(if within { left - 1 } else { 0 })
    }

    /// Finds the row named by an index's entry; false for a row found before where each is wanted
    /// once.
    #[inline]
    fn follow(
        &mut self,
        access: &IndexAccess,
        record: usize,
        lookup: usize,
    ) -> Result<bool, Error> {
        let entry = access.entry;
        let found = match &access.rowid {
            Some(Operand::Field { field, .. }) => self.memory.fields[*field].int(self.bytes(entry)),
            _ => None,
        };
        let Some(rowid) = found else { return Err(Error::names_no_row(0)) };
        if access.once && !self.memory.any.seen.insert(rowid) {
            return Ok(false);
        }
        let lookup = &mut self.memory.lookups[lookup];
        let Some(found) = lookup.locate(self.txn, rowid)? else {
            return Err(Error::names_no_row(rowid));
        };
        self.put_row(record, found)?;
        Ok(true)
    }

    /// Puts the values of the lookup into `memory.keys`: the equalities', then the ends of the
    /// range. False when no entry can have them.
    fn make_keys(&mut self, access: &IndexAccess) -> bool {
        let mut keys = std::mem::take(&mut self.memory.keys);
        let any = make_keys(access, &mut keys, |operand| self.value(operand));
        self.memory.keys = keys;
        any
    }
}

/// The lowest and the highest rowid between the ends of an index lookup, where the rowids are the
/// column behind the key, `column` of an entry; `None` for ends of another column.
fn rowids_between(access: &IndexAccess, ends: &[Value], column: usize) -> Option<(i64, i64)> {
    let (mut low, mut high) = (Some(i64::MIN), Some(i64::MAX));
    let has_ends = access.start.is_some() || access.stop.is_some();
    if has_ends && (column != 1 || access.order.column(1).descending) {
        return None;
    }
    let mut ends = ends.iter();
    if let Some(end) = &access.start {
        let value = ends.next()?;
        low = if end.above_null { low } else { lowest_rowid(value, end.inclusive) };
    }
    if let Some(end) = &access.stop {
        high = highest_rowid(ends.next()?, end.inclusive);
    }
    // An empty range where no rowid meets an end.
    Some(low.zip(high).unwrap_or((1, 0)))
}

/// Puts the values of an index lookup into `keys`: the equalities', then the ends of the range.
/// False when no entry can have them.
pub(super) fn make_keys<'v>(
    access: &'v IndexAccess,
    keys: &mut Vec<Value>,
    value: impl Fn(&'v Operand) -> ValueRef<'v>,
) -> bool {
    let mut count = 0;
    let mut set = |value: ValueRef<'_>, affinity: Option<Affinity>| {
        if keys.len() == count {
            keys.push(Value::Null);
        }
        let key = &mut keys[count];
        count += 1;
        match affinity {
            Some(affinity) if needs_conversion(affinity, value) => {
                *key = affinity.apply_for_comparison(value.into());
            }
            _ => crate::exec::assign(key, value),
        }
        key.is_null()
    };
    let mut any = true;
    for (operand, affinity, null) in &access.equal {
        any &= !(set(value(operand), *affinity) && *null == NullKey::FindsNothing);
    }
    for end in [&access.start, &access.stop].into_iter().flatten() {
        let null = set(value(&end.value), end.affinity);
        any &= !null || end.above_null;
    }
    keys.truncate(count);
    any
}

/// True where an affinity may change the value for a comparison.
pub(super) fn needs_conversion(affinity: Affinity, value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => false,
        ValueRef::Int(_) => !affinity.is_numeric(),
        ValueRef::Real(_) => true,
        ValueRef::Text(_) => affinity.is_numeric(),
    }
}
