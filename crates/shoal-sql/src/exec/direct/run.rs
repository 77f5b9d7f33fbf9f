//! Going through the rows of a direct select.

use shoal_store::{
    ColumnPlace, HeaderWalk, IndexCursor, Page, Payload, Pgno, Place, TableCursor, TableLookup,
    Transaction,
};

use super::plan::{
    Access, Direct, DirectLevel, End, IndexAccess, KEYS_MAX, Operand, RECORDS_MAX, Test,
};
use crate::Error;
use crate::exec::scan::{exact_rowid, highest_rowid, lowest_rowid};
use crate::plan::NullKey;
use crate::resolve::tree::{CompareOp, Comparison};
use crate::value::{Affinity, Collation, Value, ValueRef};

/// What a direct select keeps from one run to the next, so that the next allocates nothing.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The wanted fields of all records of the current row.
    pub(super) fields: Vec<ColumnPlace>,
    /// Payloads that continue on other pages, by record.
    pub(super) buffers: Box<[Vec<u8>]>,
    pub(super) lookups: Box<[TableLookup]>,
    /// Keys of the index being read, converted.
    keys: Vec<Value>,
    /// Where the wanted fields of the batch's rows are.
    pub(super) found: Vec<ColumnPlace>,
    /// Rows found and not given yet: a record each, as many to a row as the select has.
    pub(super) batch: Vec<RecordRef>,
    /// Payloads of the batch that continue on other pages.
    pub(super) overflow: Vec<u8>,
    pub(super) start: Start,
    place: Option<Place>,
}

/// Where the outermost loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Fresh,
    /// At [`Memory::place`].
    At,
    Done,
}

/// Where a record is, without a borrow.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordRef {
    /// The page it is on; `None` for one in [`Memory::overflow`].
    pub(super) page: Option<Pgno>,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) rowid: i64,
    pub(super) null: bool,
}

impl Memory {
    pub(crate) fn new(direct: &Direct) -> Memory {
        Memory {
            fields: vec![ColumnPlace::MISSING; direct.fields],
            buffers: direct.records.iter().map(|_| Vec::new()).collect(),
            lookups: direct.lookups.iter().map(|&root| TableLookup::new(root)).collect(),
            keys: Vec::new(),
            found: Vec::new(),
            batch: Vec::new(),
            overflow: Vec::new(),
            start: Start::Fresh,
            place: None,
        }
    }
}

/// One record of the current row.
#[derive(Clone, Copy)]
struct Current<'t> {
    rowid: i64,
    payload: &'t [u8],
    page: Pgno,
    /// Where the payload begins on the page.
    start: u32,
    at: At,
    walk: HeaderWalk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// `payload` is all of it.
    Page,
    /// It is in the buffer of its record.
    Buffer,
    /// A left join found no row.
    Null,
}

/// A direct select on its way.
pub(crate) struct DirectRun<'a, 't> {
    direct: &'a Direct,
    txn: &'t Transaction,
    parameters: &'a [Value],
    pub(super) memory: &'a mut Memory,
    records: [Current<'t>; RECORDS_MAX],
}

impl<'a, 't> DirectRun<'a, 't> {
    pub(crate) fn new(
        direct: &'a Direct,
        txn: &'t Transaction,
        parameters: &'a [Value],
        memory: &'a mut Memory,
    ) -> DirectRun<'a, 't> {
        let none = Current {
            rowid: 0,
            payload: &[],
            page: Pgno::FIRST,
            start: 0,
            at: At::Null,
            walk: HeaderWalk::default(),
        };
        DirectRun { direct, txn, parameters, memory, records: [none; RECORDS_MAX] }
    }

    /// Calls `sink` with every row.
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
    pub(crate) fn for_each(
        &mut self,
        mut sink: impl FnMut(&DirectRun<'a, 't>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.memory.start = Start::Fresh;
        self.outer(usize::MAX, &mut |run| {
            run.find_late()?;
            sink(run)
        })
    }

    /// Finds rows until there are `enough` of them in the batch, or no more.
    pub(super) fn fill(&mut self, enough: usize) -> Result<(), Error> {
        let count = self.direct.records.len();
        self.outer(enough.saturating_mul(count), &mut |run| {
            run.find_late()?;
            run.note(count)
        })
    }

    /// Puts the current row into the batch.
    fn note(&mut self, count: usize) -> Result<(), Error> {
        for (record, current) in self.records[..count].iter().enumerate() {
            let reference = match current.at {
                At::Null => RecordRef { page: None, start: 0, len: 0, rowid: 0, null: true },
                At::Page => RecordRef {
                    page: Some(current.page),
                    start: current.start,
                    len: current.payload.len() as u32,
                    rowid: current.rowid,
                    null: false,
                },
                At::Buffer => {
                    let buffer = &self.memory.buffers[record];
                    let start = self.memory.overflow.len();
                    self.memory.overflow.extend_from_slice(buffer);
                    let fits = |number: usize| {
                        u32::try_from(number).map_err(|_| Error::runtime("string or blob too big"))
                    };
                    RecordRef {
                        page: None,
                        start: fits(start)?,
                        len: fits(buffer.len())?,
                        rowid: current.rowid,
                        null: false,
                    }
                }
            };
            self.memory.batch.push(reference);
        }
        self.memory.found.extend_from_slice(&self.memory.fields);
        Ok(())
    }

    /// The outermost loop: goes on where it was, until the batch has `enough` records.
    fn outer<S>(&mut self, enough: usize, sink: &mut S) -> Result<(), Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        let direct = self.direct;
        let level = &direct.levels[0];
        let start = std::mem::replace(&mut self.memory.start, Start::Done);
        match &level.access {
            Access::Rows { root, low, high, descending } => {
                let Some((low, high)) = self.rowids(low.as_ref(), high.as_ref()) else {
                    return Ok(());
                };
                let (mut cursor, mut more) = match (start, &self.memory.place) {
                    (Start::Done, _) | (Start::At, None) => return Ok(()),
                    (Start::At, Some(place)) => {
                        let mut cursor = TableCursor::resume(self.txn, place)?;
                        let more = if *descending { cursor.prev()? } else { cursor.next()? };
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
                        if self.memory.batch.len() >= enough {
                            self.pause(cursor.place());
                            return Ok(());
                        }
                        more = cursor.prev()?;
                    }
                    return Ok(());
                }
                while more {
                    let Some((page, first)) = cursor.leaf() else { return Ok(()) };
                    let count = page.cell_count();
                    // Rowids ascend, so one comparison tells for the whole leaf.
                    let inside =
                        high == i64::MAX || page.rowid(count - 1).map_err(Error::corrupt)? <= high;
                    for index in first..count {
                        if !inside && page.rowid(index).map_err(Error::corrupt)? > high {
                            return Ok(());
                        }
                        self.row(0, &page, index, sink)?;
                        if self.memory.batch.len() >= enough {
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
            Access::Rowid { .. } => match start {
                Start::Fresh => self.level(0, sink),
                _ => Ok(()),
            },
        }
    }

    /// Notes where the outermost loop goes on.
    fn pause(&mut self, place: Place) {
        self.memory.start = Start::At;
        self.memory.place = Some(place);
    }

    /// All rows of an inner loop.
    fn level<S>(&mut self, number: usize, sink: &mut S) -> Result<(), Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        let direct = self.direct;
        let Some(level) = direct.levels.get(number) else { return sink(self) };
        let matched = match &level.access {
            Access::Rowid { key, lookup } => match self.rowid_of(key) {
                Some(rowid) => {
                    let lookup = &mut self.memory.lookups[*lookup];
                    match lookup.find(self.txn, rowid)? {
                        Some((page, payload)) => {
                            self.put(level.record, rowid, payload, &page)?;
                            self.matched(number, level, sink)?
                        }
                        None => false,
                    }
                }
                None => false,
            },
            Access::Rows { root, low, high, .. } => {
                let mut matched = false;
                if let Some((low, high)) = self.rowids(low.as_ref(), high.as_ref()) {
                    let mut cursor = self.txn.table(*root)?;
                    let mut more = seek_first(&mut cursor, low)?;
                    while more && cursor.rowid()? <= high {
                        if let Some((page, index)) = cursor.leaf() {
                            matched |= self.row(number, &page, index, sink)?;
                        }
                        more = cursor.next()?;
                    }
                }
                matched
            }
            Access::Index(access) => {
                self.entries(number, level, access, Start::Fresh, usize::MAX, sink)?
            }
        };
        if level.left_join && !matched {
            self.records[level.record].at = At::Null;
            if let Access::Index(access) = &level.access {
                self.records[access.entry].at = At::Null;
            }
            if self.all(&level.filter) {
                self.level(number + 1, sink)?;
            }
        }
        Ok(())
    }

    /// A row of a leaf: whether it matches, and what follows from it.
    #[inline]
    fn row<S>(
        &mut self,
        number: usize,
        page: &Page<'t>,
        index: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        let direct = self.direct;
        let level = &direct.levels[number];
        let cell = page.table_leaf(index).map_err(Error::corrupt)?;
        self.put(level.record, cell.rowid, cell.payload, page)?;
        self.matched(number, level, sink)
    }

    /// With the level's row in place: the inner loops if it matches.
    #[inline]
    fn matched<S>(
        &mut self,
        number: usize,
        level: &DirectLevel,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        if !self.all(&level.on) {
            return Ok(false);
        }
        if self.all(&level.filter) {
            if number + 1 == self.direct.levels.len() {
                sink(self)?;
            } else {
                self.level(number + 1, sink)?;
            }
        }
        Ok(true)
    }

    /// The entries of an index with the wanted key; whether any row matched.
    fn entries<S>(
        &mut self,
        number: usize,
        level: &DirectLevel,
        access: &IndexAccess,
        start: Start,
        enough: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        if matches!(start, Start::Done) || !self.make_keys(access) {
            return Ok(false);
        }
        let keys = std::mem::take(&mut self.memory.keys);
        let result = self.entries_of(number, level, access, &keys, start, enough, sink);
        self.memory.keys = keys;
        result
    }

    #[allow(clippy::too_many_arguments)] // one loop's state
    fn entries_of<S>(
        &mut self,
        number: usize,
        level: &DirectLevel,
        access: &IndexAccess,
        keys: &[Value],
        start: Start,
        enough: usize,
        sink: &mut S,
    ) -> Result<bool, Error>
    where
        S: FnMut(&mut DirectRun<'a, 't>) -> Result<(), Error>,
    {
        let mut refs = [ValueRef::Null; KEYS_MAX];
        for (key, value) in refs.iter_mut().zip(keys) {
            *key = value.as_ref();
        }
        let prefix = access.equal.len();
        let (equal, ends) = refs[..keys.len().min(KEYS_MAX)].split_at(prefix);
        let (mut cursor, mut more) = match (start, &self.memory.place) {
            (Start::At, Some(place)) => {
                let mut cursor = IndexCursor::resume(self.txn, place)?;
                let more = cursor.next()?;
                (cursor, more)
            }
            _ => {
                let mut cursor = self.txn.index(access.root)?;
                match &access.start {
                    Some(end) if end.inclusive => {
                        cursor.seek(&refs[..prefix + 1], &access.order)?;
                    }
                    Some(_) => {
                        cursor.seek_after(&refs[..prefix + 1], &access.order)?;
                    }
                    None if prefix == 0 => {
                        cursor.first()?;
                    }
                    None => {
                        cursor.seek(equal, &access.order)?;
                    }
                }
                let more = cursor.is_valid();
                (cursor, more)
            }
        };
        let stop = match (&access.stop, ends) {
            (Some(end), [.., stop]) => Some((*stop, end.inclusive)),
            _ => None,
        };
        let mut matched = false;
        while more {
            let payload = cursor.cell_payload()?;
            self.put(access.entry, 0, payload, &cursor.page())?;
            let bytes = self.bytes(access.entry);
            let inside = access.order.compare(bytes, equal).map_err(Error::corrupt)?.is_eq()
                && match stop {
                    None => true,
                    Some((stop, inclusive)) => {
                        let mut key = refs;
                        key[prefix] = stop;
                        let order = access.order.compare(bytes, &key[..=prefix]);
                        let order = order.map_err(Error::corrupt)?;
                        order.is_lt() || (inclusive && order.is_eq())
                    }
                };
            if !inside {
                return Ok(matched);
            }
            if let Some((place, lookup)) = access.row {
                self.follow(access.entry, place, level.record, lookup)?;
            }
            matched |= self.matched(number, level, sink)?;
            if self.memory.batch.len() >= enough {
                self.pause(cursor.place());
                return Ok(matched);
            }
            more = cursor.next()?;
        }
        Ok(matched)
    }

    /// Finds the row that an index's entry names.
    fn follow(
        &mut self,
        entry: usize,
        place: usize,
        record: usize,
        lookup: usize,
    ) -> Result<(), Error> {
        let missing = |rowid: u64| {
            let why = "names a row that is not there";
            Error::corrupt(shoal_store::Corrupt::new("index", why, rowid))
        };
        let plan = &self.direct.records[entry];
        let field = plan.first + plan.places.partition_point(|&known| known < place);
        let found = self.memory.fields[field].decode(self.bytes(entry));
        let Some(ValueRef::Int(rowid)) = found else { return Err(missing(0)) };
        let lookup = &mut self.memory.lookups[lookup];
        let Some((page, payload)) = lookup.find(self.txn, rowid)? else {
            return Err(missing(rowid.cast_unsigned()));
        };
        self.put(record, rowid, payload, &page)
    }

    /// Puts the values that the index is sought by into `memory.keys`: those of the equalities,
    /// then the ends of the range. False when no entry can have them.
    fn make_keys(&mut self, access: &IndexAccess) -> bool {
        let mut keys = std::mem::take(&mut self.memory.keys);
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
            any &= !(set(self.value(operand), *affinity) && *null == NullKey::FindsNothing);
        }
        for end in [&access.start, &access.stop].into_iter().flatten() {
            let null = set(self.value(&end.value), end.affinity);
            any &= !null || end.above_null;
        }
        keys.truncate(count);
        self.memory.keys = keys;
        any
    }

    /// The rowids of a range; `None` for an empty one.
    fn rowids(&self, low: Option<&End>, high: Option<&End>) -> Option<(i64, i64)> {
        let converted = |end: &End| {
            let value = Value::from(self.value(&end.value));
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

    #[inline]
    fn rowid_of(&self, key: &Operand) -> Option<i64> {
        match self.value(key) {
            ValueRef::Int(rowid) => Some(rowid),
            ValueRef::Null => None,
            other => exact_rowid(&other.into()),
        }
    }

    /// Makes a payload the current one of a record, and finds the fields that tests need.
    #[inline]
    fn put(
        &mut self,
        record: usize,
        rowid: i64,
        payload: Payload<'t>,
        page: &Page<'t>,
    ) -> Result<(), Error> {
        let plan = &self.direct.records[record];
        let current = &mut self.records[record];
        current.rowid = rowid;
        current.payload = payload.local;
        current.page = page.pgno();
        // A page has fewer bytes than that.
        current.start = page.offset_of(payload.local) as u32;
        current.at = At::Page;
        if plan.places.is_empty() {
            return Ok(());
        }
        if payload.overflow.is_some() {
            self.txn.read_payload(payload, &mut self.memory.buffers[record])?;
            current.at = At::Buffer;
        }
        if plan.early == 0 {
            return Ok(());
        }
        let bytes = match current.at {
            At::Buffer => &self.memory.buffers[record],
            _ => payload.local,
        };
        current.walk = HeaderWalk::new(bytes).map_err(Error::corrupt)?;
        let fields = &mut self.memory.fields[plan.first..];
        current.walk.find_each(bytes, &plan.places[..plan.early], fields).map_err(Error::corrupt)
    }

    /// Finds the fields that tests did not need.
    #[inline]
    fn find_late(&mut self) -> Result<(), Error> {
        for (record, plan) in self.direct.records.iter().enumerate() {
            let current = &mut self.records[record];
            if plan.early == plan.places.len() || current.at == At::Null {
                continue;
            }
            let bytes = match current.at {
                At::Buffer => &self.memory.buffers[record],
                _ => current.payload,
            };
            let mut walk = match plan.early {
                0 => HeaderWalk::new(bytes).map_err(Error::corrupt)?,
                _ => current.walk,
            };
            let fields = &mut self.memory.fields[plan.first + plan.early..];
            walk.find_each(bytes, &plan.places[plan.early..], fields).map_err(Error::corrupt)?;
        }
        Ok(())
    }

    #[inline]
    fn bytes(&self, record: usize) -> &[u8] {
        match self.records[record].at {
            At::Buffer => &self.memory.buffers[record],
            _ => self.records[record].payload,
        }
    }

    /// The current row's value of an operand.
    #[inline]
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

    #[inline]
    fn all(&self, tests: &[Test]) -> bool {
        tests.iter().all(|test| match test {
            Test::Compare { rule, left, right } => {
                compare(rule, self.value(left), self.value(right))
            }
            Test::IsNull { operand, not } => (self.value(operand) == ValueRef::Null) != *not,
        })
    }
}

/// A field's value as SQL sees it.
#[inline]
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

#[inline]
pub(super) fn parameter(parameters: &[Value], number: usize) -> ValueRef<'_> {
    parameters.get(number - 1).map_or(ValueRef::Null, Value::as_ref)
}

/// Whether a comparison holds. The common pairs are compared here, the others by its own rules.
#[inline]
fn compare(rule: &Comparison, left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
    let order = match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => left.cmp(&right),
        (ValueRef::Int(_) | ValueRef::Real(_), ValueRef::Int(_) | ValueRef::Real(_)) => {
            left.compare(right, Collation::Binary)
        }
        (ValueRef::Text(left), ValueRef::Text(right))
            if !rule.affinity.is_some_and(Affinity::is_numeric) =>
        {
            if rule.op == CompareOp::Equal && rule.collation == Collation::Binary {
                return left == right;
            }
            rule.collation.compare(left, right)
        }
        _ => return crate::expr::compare(*rule, left, right) == Some(true),
    };
    rule.op.holds(order)
}

/// Whether an affinity may make another value of this one before it is compared.
fn needs_conversion(affinity: Affinity, value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => false,
        ValueRef::Int(_) => !affinity.is_numeric(),
        ValueRef::Real(_) => true,
        ValueRef::Text(_) => affinity.is_numeric(),
    }
}

fn seek_first(cursor: &mut TableCursor<'_>, low: i64) -> Result<bool, Error> {
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
