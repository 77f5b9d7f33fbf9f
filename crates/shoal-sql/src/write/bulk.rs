//! Many rows of a plain table changed by one statement, leaf by leaf.
//!
//! Rows come in the order of the table: rows of one leaf are changed together. Entries of indexes
//! other than unique ones wait until there are many, or until somebody else changes a row, and are
//! then put and removed in the order of their index.

use std::cmp::Ordering;
use std::ops::Range;

use shoal_store::{KEY_MAX, KeyColumns, KeyOrder, LeafChange, Record, Transaction, ValueRef};

use super::collected::Collected;
use super::plain::{COLUMNS_MAX, INDEXES_MAX, Keyed, NO_VALUES, PlainIndex, PlainTable};
use super::rows::missing_entry;
use super::{Context, Done, Failure};
use crate::Error;
use crate::keep::RowValues;

/// Fewer rows are changed row by row.
pub(super) const ROWS_MIN: usize = 2;

/// Columns of most tables: a row's values are then few bytes to clear and to copy.
pub(super) const FEW: usize = 8;

/// Fewer waiting entries are mostly on leaves of their own, and are put and removed one by one.
const TOGETHER_MIN: usize = 200;

/// Most bytes of waiting entries: more are written.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The rows changed by a statement, in the order of their table.
#[derive(Debug)]
pub(super) struct OrderedRows<'r> {
    rows: &'r Collected,
    /// Numbers of `rows` in the order of the table; `None` for rows coming in this order.
    order: Option<Vec<usize>>,
    /// The rowids in order; none in a table without rowid.
    rowids: Vec<i64>,
    /// Where in a row the columns of its key are, in a table without rowid.
    key: Vec<usize>,
}

impl<'r> OrderedRows<'r> {
    /// Rows that begin with their key. `None` for others, and for rows without rowid out of order
    /// unless `sorts`.
    pub(super) fn new(
        table: &PlainTable,
        rows: &'r Collected,
        sorts: bool,
    ) -> Option<OrderedRows<'r>> {
        if let Some(keyed) = table.keyed() {
            return OrderedRows::with_keys(keyed, rows, (0..keyed.width).collect(), sorts);
        }
        let mut rowids = Vec::with_capacity(rows.len());
        for number in 0..rows.len() {
            let Some(ValueRef::Int(rowid)) = rows.row(number).next() else { return None };
            rowids.push(rowid);
        }
        let mut order = None;
        if !rowids.is_sorted() {
            let mut numbers: Vec<usize> = (0..rows.len()).collect();
            numbers.sort_by_key(|number| rowids[*number]);
            rowids.sort_unstable();
            order = Some(numbers);
        }
        Some(OrderedRows { rows, order, rowids, key: Vec::new() })
    }

    /// Rows with their rowids in this place; `None` unless all are numbers in ascending order.
    pub(super) fn with_rowids(rows: &'r Collected, place: usize) -> Option<OrderedRows<'r>> {
        let mut rowids = Vec::with_capacity(rows.len());
        for number in 0..rows.len() {
            let Some(ValueRef::Int(rowid)) = rows.row(number).nth(place) else { return None };
            if rowids.last().is_some_and(|last| *last >= rowid) {
                return None;
            }
            rowids.push(rowid);
        }
        Some(OrderedRows { rows, order: None, rowids, key: Vec::new() })
    }

    /// Rows with the columns of their keys in these places; as [`OrderedRows::new`].
    pub(super) fn with_keys(
        keyed: &Keyed,
        rows: &'r Collected,
        key: Vec<usize>,
        sorts: bool,
    ) -> Option<OrderedRows<'r>> {
        let mut ordered = OrderedRows { rows, order: None, rowids: Vec::new(), key };
        let side = |a: usize, b: usize| {
            let (mut left, mut right) = ([ValueRef::Null; KEY_MAX], [ValueRef::Null; KEY_MAX]);
            ordered.load(rows.row(a), &mut left);
            ordered.load(rows.row(b), &mut right);
            let (left, right) = (left.into_iter(), right.into_iter());
            compare(&keyed.order, left.take(keyed.width), right)
        };
        if (1..rows.len()).all(|number| side(number - 1, number).is_lt()) {
            return Some(ordered);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| side(*a, *b));
        ordered.order = Some(order);
        Some(ordered).filter(|_| sorts)
    }

    fn load<'v>(&self, row: RowValues<'v>, columns: &mut KeyColumns<'v>) {
        for (at, value) in row.enumerate() {
            for (column, _) in columns.iter_mut().zip(&self.key).filter(|(_, key)| **key == at) {
                *column = value;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The values of a row by its place in the order.
    pub(super) fn row(&self, place: usize) -> RowValues<'r> {
        let number = self.order.as_ref().map_or(place, |order| order[place]);
        self.rows.row(number)
    }

    pub(super) fn rowid(&self, place: usize) -> i64 {
        self.rowids.get(place).copied().unwrap_or(0)
    }
}

/// Rows in the order of their table.
pub(super) trait Ordered<'r> {
    /// The rowids in order; none in a table without rowid.
    fn rowids(&self) -> &[i64];

    fn len(&self) -> usize;

    /// Puts the key of the row at a place into the columns, in a table without rowid.
    fn load_key(&self, place: usize, columns: &mut KeyColumns<'r>);
}

impl<'r> Ordered<'r> for OrderedRows<'r> {
    fn rowids(&self) -> &[i64] {
        &self.rowids
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn load_key(&self, place: usize, columns: &mut KeyColumns<'r>) {
        self.load(self.row(place), columns);
    }
}

/// The order of two keys.
fn compare<'a, 'b>(
    order: &KeyOrder,
    a: impl Iterator<Item = ValueRef<'a>>,
    b: impl Iterator<Item = ValueRef<'b>>,
) -> Ordering {
    let mut sides = a.zip(b).enumerate().map(|(at, (a, b))| order.compare_column(at, a, b));
    sides.find(|side| side.is_ne()).unwrap_or(Ordering::Equal)
}

/// The changes of one statement.
pub(super) struct Bulk<'b> {
    table: &'b PlainTable,
    /// Of each index.
    waiting: Vec<Waiting>,
    /// Rows changed by the present step.
    changes: u64,
    /// The row of the step's last question, and the state before.
    last: Option<(usize, Mark)>,
}

/// Waiting entries of one index.
#[derive(Debug, Default)]
struct Waiting {
    removed: Entries,
    added: Entries,
}

/// What was there before a row.
#[derive(Clone, Copy)]
struct Mark {
    changes: u64,
    /// Numbers of entries removed and added.
    lens: [(usize, usize); INDEXES_MAX],
}

/// What came of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The rows dealt with; the next one is left to the general path where there is none.
    pub(super) dealt: usize,
    /// The rows changed.
    pub(super) changes: u64,
}

impl<'b> Bulk<'b> {
    /// `None` for a transaction whose texts are in UTF-16, and for wide keys.
    pub(super) fn new(table: &'b PlainTable, transaction: &Transaction) -> Option<Bulk<'b>> {
        let is_wide = table.indexes().iter().any(|index| index.columns().len() > KEY_MAX);
        if transaction.utf16().is_some() || is_wide {
            return None;
        }
        let waiting = table.indexes().iter().map(|_| Waiting::default()).collect();
        Some(Bulk { table, waiting, changes: 0, last: None })
    }

    /// Changes so many rows leaf by leaf: `step` changes rows from a place on as far as they are on
    /// one leaf, `alone` one row by the general path, with no entry waiting. Entries may wait at
    /// the end.
    ///
    /// # Errors
    /// The errors of `step` and `alone`; as [`Bulk::flush`].
    pub(super) fn each_leaf(
        &mut self,
        (context, done): (&mut Context<'_>, &mut Done),
        len: usize,
        mut step: impl FnMut(&mut Self, &mut Transaction, usize) -> Result<Step, Error>,
        mut alone: impl FnMut(&mut Context<'_>, &mut Done, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < len {
            let Step { dealt, changes } = step(self, context.transaction, at)?;
            done.changes += changes;
            if dealt == 0 {
                // Another row may be in the way, and is looked for in the indexes.
                self.flush(context.transaction)?;
                alone(context, done, at)?;
            }
            at += dealt.max(1);
            self.flush_many(context.transaction)?;
        }
        Ok(())
    }

    /// Sets columns of the rows from place `at` on, as far as they are on one leaf: to the values
    /// behind the keys.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn set(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&OrderedRows<'_>, usize),
        columns: &[usize],
    ) -> Result<Step, Error> {
        match self.table.width() {
            ..=FEW => self.set_within::<FEW>(transaction, (rows, at), columns),
            _ => self.set_within::<COLUMNS_MAX>(transaction, (rows, at), columns),
        }
    }

    /// As [`Bulk::set`] for so many columns at most.
    fn set_within<const N: usize>(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&OrderedRows<'_>, usize),
        columns: &[usize],
    ) -> Result<Step, Error> {
        let table = self.table;
        let format = transaction.header().schema_format;
        let width = table.key_width();
        self.step(transaction, (rows, at), |bulk, number, old, out| {
            let Some(old) = old else { return Ok(LeafChange::Keep) };
            let mut before = [ValueRef::Null; N];
            if !table.decode(old, &mut before)? {
                return Ok(LeafChange::Stop);
            }
            let mut after = before;
            let values = rows.row(at + number).skip(width);
            for (&column, mut value) in columns.iter().zip(values) {
                if !table.accept(column, &mut value) {
                    return Ok(LeafChange::Stop);
                }
                after[column] = value;
            }
            if table.lacks(&after) || table.moves_unique(&before, &after) {
                return Ok(LeafChange::Stop);
            }
            out.clear();
            table.encode(&after, format, out);
            bulk.note(Some(&before), Some(&after), rows.rowid(at + number), format);
            Ok(LeafChange::Put)
        })
    }

    /// Removes the rows from place `at` on, as far as they are on one leaf.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn remove(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&OrderedRows<'_>, usize),
    ) -> Result<Step, Error> {
        let table = self.table;
        let format = transaction.header().schema_format;
        self.step(transaction, (rows, at), |bulk, number, old, _| {
            let Some(old) = old else { return Ok(LeafChange::Keep) };
            let mut before = NO_VALUES;
            if !table.indexes().is_empty() && !table.decode(old, &mut before)? {
                return Ok(LeafChange::Stop);
            }
            bulk.note(Some(&before), None, rows.rowid(at + number), format);
            Ok(LeafChange::Remove)
        })
    }

    /// Puts rows from place `at` on, as far as they belong on one leaf, with `replaces` in place of
    /// those with the same keys. `columns` has the place of each column's value in a row.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(super) fn put(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&OrderedRows<'_>, usize),
        sources: (&[usize], bool),
    ) -> Result<Step, Error> {
        match self.table.width() {
            ..=FEW => self.put_within::<FEW>(transaction, (rows, at), sources),
            _ => self.put_within::<COLUMNS_MAX>(transaction, (rows, at), sources),
        }
    }

    /// As [`Bulk::put`] for so many columns at most.
    fn put_within<const N: usize>(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&OrderedRows<'_>, usize),
        (columns, replaces): (&[usize], bool),
    ) -> Result<Step, Error> {
        let table = self.table;
        let format = transaction.header().schema_format;
        self.step(transaction, (rows, at), |bulk, number, old, out| {
            let mut before = [ValueRef::Null; N];
            let mut given = [ValueRef::Null; N];
            let mut after = [ValueRef::Null; N];
            if let Some(old) = old
                && (!replaces || !table.decode(old, &mut before)?)
            {
                return Ok(LeafChange::Stop);
            }
            for (place, value) in given.iter_mut().zip(rows.row(at + number)) {
                *place = value;
            }
            for (column, place) in columns.iter().enumerate() {
                if table.alias() == Some(column) {
                    continue;
                }
                after[column] = given[*place];
                if !table.accept(column, &mut after[column]) {
                    return Ok(LeafChange::Stop);
                }
            }
            if table.lacks(&after) || table.indexes().iter().any(PlainIndex::is_unique) {
                return Ok(LeafChange::Stop);
            }
            out.clear();
            table.encode(&after, format, out);
            let before = old.is_some().then_some(before.as_slice());
            bulk.note(before, Some(&after), rows.rowid(at + number), format);
            Ok(LeafChange::Put)
        })
    }

    /// Notes the entries of a row put by others, but for those of unique indexes.
    pub(super) fn note_row(&mut self, values: &[ValueRef<'_>], rowid: i64, format: u32) {
        for (index, waiting) in self.table.indexes().iter().zip(&mut self.waiting) {
            if !index.is_unique() {
                waiting.added.push(index, values, rowid, format);
            }
        }
    }

    /// Notes a change of a row, and its entries before and after.
    #[inline]
    pub(super) fn note(
        &mut self,
        before: Option<&[ValueRef<'_>]>,
        after: Option<&[ValueRef<'_>]>,
        rowid: i64,
        format: u32,
    ) {
        self.changes += 1;
        for (index, waiting) in self.table.indexes().iter().zip(&mut self.waiting) {
            if let (Some(before), Some(after)) = (before, after)
                && !index.differs(before, after)
            {
                continue;
            }
            if let Some(before) = before {
                waiting.removed.push(index, before, rowid, format);
            }
            if let Some(after) = after {
                waiting.added.push(index, after, rowid, format);
            }
        }
    }

    /// Changes rows from place `at` on, as far as they are on one leaf, as `change` says: it gets
    /// the number of a row from there, its record, and a buffer for another.
    ///
    /// # Errors
    /// [`Error::Store`]; those of `change`.
    pub(super) fn step<'r>(
        &mut self,
        transaction: &mut Transaction,
        (rows, at): (&impl Ordered<'r>, usize),
        mut change: impl FnMut(
            &mut Self,
            usize,
            Option<&[u8]>,
            &mut Vec<u8>,
        ) -> Result<LeafChange, Error>,
    ) -> Result<Step, Error> {
        let table = self.table;
        (self.changes, self.last) = (0, None);
        let mut noted = |number: usize, old: Option<&[u8]>, out: &mut Vec<u8>| {
            self.last = Some((number, self.mark()));
            change(self, number, old, out)
        };
        let dealt = match table.keyed() {
            None => {
                let rowids = rows.rowids().get(at..).unwrap_or_default();
                transaction.change_rows(table.root(), rowids, &mut noted)?
            }
            Some(keyed) => {
                let key = |number: usize, columns: &mut KeyColumns<'r>| {
                    if at + number >= rows.len() {
                        return None;
                    }
                    rows.load_key(at + number, columns);
                    Some(keyed.width)
                };
                transaction.change_entries((table.root(), &keyed.order), key, &mut noted)?
            }
        };
        if let Some((number, mark)) = self.last
            && number >= dealt
        {
            // Its record was too long for a page, or the row is left to others.
            self.go_back(&mark);
        }
        Ok(Step { dealt, changes: self.changes })
    }

    fn mark(&self) -> Mark {
        let mut lens = [(0, 0); INDEXES_MAX];
        for (len, waiting) in lens.iter_mut().zip(&self.waiting) {
            *len = (waiting.removed.entries.len(), waiting.added.entries.len());
        }
        Mark { changes: self.changes, lens }
    }

    fn go_back(&mut self, mark: &Mark) {
        self.changes = mark.changes;
        for (&(removed, added), waiting) in mark.lens.iter().zip(&mut self.waiting) {
            waiting.removed.truncate(removed);
            waiting.added.truncate(added);
        }
    }

    /// Writes the waiting entries where they are many.
    ///
    /// # Errors
    /// As [`Bulk::flush`].
    pub(super) fn flush_many(&mut self, transaction: &mut Transaction) -> Result<(), Error> {
        let size = |waiting: &Waiting| waiting.removed.size() + waiting.added.size();
        if self.waiting.iter().map(size).sum::<usize>() < WAITING_BYTES_MAX {
            return Ok(());
        }
        self.flush(transaction)
    }

    /// Writes the waiting entries: before others read or change indexes, and in the end.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Schema`] when an index has no entry for a row.
    pub(super) fn flush(&mut self, transaction: &mut Transaction) -> Result<(), Error> {
        for (index, waiting) in self.table.indexes().iter().zip(&mut self.waiting) {
            let (root, order) = (index.root(), index.order());
            let removed = waiting.removed.in_order(order);
            removed.each(
                transaction,
                (root, order),
                LeafChange::Remove,
                |transaction, record| match transaction.index_delete(root, record, order)? {
                    true => Ok(()),
                    false => Err(missing_entry(index.name())),
                },
            )?;
            let added = waiting.added.in_order(order);
            added.each(transaction, (root, order), LeafChange::Put, |transaction, record| {
                Ok(transaction.index_insert(root, record, order)?)
            })?;
            waiting.removed.clear();
            waiting.added.clear();
        }
        Ok(())
    }
}

/// Entries of an index behind each other.
#[derive(Debug, Default)]
struct Entries {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// Where an entry's record is, and numbers ordered as its first two columns are, with ties.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u64,
    second: u64,
    start: usize,
    len: usize,
}

impl Entry {
    fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

impl Entries {
    fn push(&mut self, index: &PlainIndex, values: &[ValueRef<'_>], rowid: i64, format: u32) {
        let start = self.bytes.len();
        index.encode(values, rowid, format, &mut self.bytes);
        let prefix = |at: usize| match index.columns().get(at) {
            None => 0,
            Some(None) => index.order().column(at).prefix(ValueRef::Int(rowid)),
            Some(Some(column)) => index.order().column(at).prefix(values[*column]),
        };
        let len = self.bytes.len() - start;
        self.entries.push(Entry { first: prefix(0), second: prefix(1), start, len });
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    fn truncate(&mut self, len: usize) {
        if let Some(entry) = self.entries.get(len) {
            self.bytes.truncate(entry.start);
            self.entries.truncate(len);
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Brings the entries into the order of their index.
    fn in_order(&mut self, order: &KeyOrder) -> &Entries {
        let bytes = &self.bytes;
        let values = |entry: &Entry| {
            let record = Record::new(&bytes[entry.range()]).ok();
            record.into_iter().flat_map(|record| record.values().map_while(Result::ok))
        };
        // Entries of equal numbers come in the order of their rows, and mostly belong there.
        self.entries.sort_unstable_by_key(|entry| (entry.first, entry.second, entry.start));
        let side = |a: &Entry, b: &Entry| compare(order, values(a), values(b));
        let is_tie = |a: &Entry, b: &Entry| (a.first, a.second) == (b.first, b.second);
        for ties in self.entries.chunk_by_mut(is_tie) {
            if !ties.is_sorted_by(|a, b| side(a, b).is_le()) {
                ties.sort_by(side);
            }
        }
        self
    }

    /// Makes a change of each entry, those of one leaf together; `single` where only a single
    /// change can.
    fn each<'e>(
        &'e self,
        transaction: &mut Transaction,
        tree: (shoal_store::Pgno, &KeyOrder),
        what: LeafChange,
        mut single: impl FnMut(&mut Transaction, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.entries.len() < TOGETHER_MIN {
            let mut records = self.entries.iter().map(|entry| &self.bytes[entry.range()]);
            return records.try_for_each(|record| single(transaction, record));
        }
        let mut at = 0;
        while let Some(first) = self.entries.get(at) {
            let record = |number: usize| Some(&self.bytes[self.entries.get(at + number)?.range()]);
            let key = |number: usize, columns: &mut KeyColumns<'e>| {
                let mut width = 0;
                for value in Record::new(record(number)?).ok()?.values() {
                    *columns.get_mut(width)? = value.ok()?;
                    width += 1;
                }
                Some(width)
            };
            let dealt = transaction.change_entries(tree, key, |number, old, out| {
                if what == LeafChange::Remove {
                    return Ok(if old.is_some() { what } else { LeafChange::Stop });
                }
                out.clear();
                out.extend_from_slice(record(number).unwrap_or_default());
                Ok::<_, Error>(what)
            })?;
            if dealt == 0 {
                single(transaction, &self.bytes[first.range()])?;
            }
            at += dealt.max(1);
        }
        Ok(())
    }
}
