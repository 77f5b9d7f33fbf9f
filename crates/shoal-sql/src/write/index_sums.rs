//! Whether the indexes of a table hold the entries of its rows and nothing else, found out without
//! a look-up: the entries made of the rows and those found in the index are hashed, and the hashes
//! added up. Equal sums of 128 bits are equal entries, in whatever order they were met.
//!
//! Rows and entries are read once, on all cores. An answer of "no" is no fault yet: whoever asks
//! looks row by row then, and says what is wrong.

use std::sync::Arc;

use rayon::prelude::*;
use shoal_store::{
    ColumnFinder, IndexPart, KeyOrder, PageSet, Pgno, Record, TableScan, Transaction, ValueRef,
};

use super::constraints::Constraints;
use super::integrity::Nobody;
use super::row::{Row, RowEnv};
use super::rows::Rows;
use crate::Error;
use crate::schema::{Index, IndexSource, Schema, Table};

/// A table to be looked at.
pub(super) struct Asked<'a> {
    table: &'a Arc<Table>,
    rows: Rows,
    constraints: Constraints,
    /// Where each index's columns are among the columns found; `None` for a table whose rows are
    /// decoded one by one.
    plain: Option<Plain>,
    /// Leaves out what is in the indexes, but for how much.
    quick: bool,
}

/// A table whose index entries are made of stored columns.
struct Plain {
    /// Per index, for each of its columns: the rowid, or a column's number.
    indexes: Vec<Vec<Option<usize>>>,
    /// Per stored column: its number in the table.
    stored: Vec<usize>,
}

/// Hashes added up, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    low: u64,
    high: u64,
}

/// Entries of an index: a part of them.
#[derive(Debug, Default)]
struct Entries {
    sum: Sum,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// A piece of work done beside others.
enum Work<'t> {
    /// The pages of a tree.
    Pages(Pgno),
    /// A range of a table's rows: the table's number.
    Rows(usize, (i64, i64)),
    /// A part of an index: the table's number and the index's.
    Entries(usize, usize, Box<IndexPart<'t>>),
    /// How many entries an index has.
    Count(usize, usize),
}

/// The findings of a piece of work.
enum Found {
    Pages(Option<PageSet>),
    /// A sum for each index of the table; `None` where something is wrong.
    Rows(usize, Option<Vec<Sum>>),
    Entries(usize, usize, Option<Entries>),
}

/// The answer about a file.
pub(super) struct Answer {
    /// Of each root: its pages, if the tree is sound.
    pub(super) trees: Vec<Option<PageSet>>,
    /// Of each table: true where rows, constraints and indexes are right.
    pub(super) tables: Vec<bool>,
}

impl<'a> Asked<'a> {
    /// # Errors
    /// As [`Rows::new`] and [`Constraints::new`].
    pub(super) fn new(
        schema: &Schema,
        table: &'a Arc<Table>,
        quick: bool,
    ) -> Result<Asked<'a>, Error> {
        let rows = Rows::new(schema, table)?;
        let constraints = Constraints::new(schema, table)?;
        Ok(Asked { plain: Plain::of(table), table, rows, constraints, quick })
    }

    pub(super) fn name(&self) -> &'a str {
        &self.table.name
    }
}

/// Looks at trees and tables.
///
/// # Errors
/// The statement is to stop.
pub(super) fn look(
    transaction: &Transaction,
    roots: &[Pgno],
    whole: bool,
    tables: &[Asked<'_>],
) -> Result<Answer, Error> {
    let mut work: Vec<Work<'_>> = Vec::new();
    let mut answer = Answer { trees: Vec::new(), tables: vec![true; tables.len()] };
    for (number, asked) in tables.iter().enumerate() {
        for (place, index) in asked.table.indexes.iter().enumerate() {
            if index.root == asked.table.root {
                continue;
            }
            match transaction.index_parts(index.root) {
                Ok(_) if asked.quick => work.push(Work::Count(number, place)),
                Ok(parts) => {
                    let boxed = parts.into_iter().map(Box::new);
                    work.extend(boxed.map(|part| Work::Entries(number, place, part)));
                }
                Err(_) => answer.tables[number] = false,
            }
        }
        if asked.table.without_rowid || transaction.utf16().is_some() || asked.plain.is_none() {
            // One piece: expressions are evaluated, rows decoded.
            work.push(Work::Rows(number, (i64::MIN, i64::MAX)));
            continue;
        }
        match transaction.table_parts(asked.table.root) {
            Ok(parts) => work.extend(parts.into_iter().map(|part| Work::Rows(number, part))),
            Err(_) => answer.tables[number] = false,
        }
    }
    work.extend(roots.iter().map(|root| Work::Pages(*root)));
    let orders: Vec<Vec<KeyOrder>> =
        tables.iter().map(|it| it.table.indexes.iter().map(Index::order).collect()).collect();
    let run = |work: Work<'_>| -> Result<Found, Error> {
        Ok(match work {
            Work::Pages(root) => Found::Pages(transaction.sound_tree(root, whole)?),
            Work::Rows(number, range) => {
                let asked = &tables[number];
                let sums = match &asked.plain {
                    Some(plain) if transaction.utf16().is_none() => {
                        plain.sums(asked, transaction, range)
                    }
                    _ => sums_of_decoded(asked, transaction),
                };
                Found::Rows(number, doubtful(sums)?)
            }
            Work::Entries(number, place, part) => {
                let index = &tables[number].table.indexes[place];
                let found = sum_of_entries(transaction, *part, index, &orders[number][place]);
                Found::Entries(number, place, doubtful(found)?)
            }
            Work::Count(number, place) => {
                let index = &tables[number].table.indexes[place];
                Found::Entries(number, place, doubtful(count_of(transaction, index))?)
            }
        })
    };
    let found: Vec<Result<Found, Error>> = work.into_par_iter().map(run).collect();
    let mut sums: Vec<Vec<(Sum, Entries)>> = tables
        .iter()
        .map(|it| it.table.indexes.iter().map(|_| Default::default()).collect())
        .collect();
    for found in found {
        match found? {
            Found::Pages(pages) => answer.trees.push(pages),
            Found::Rows(number, Some(found)) => {
                for (known, found) in sums[number].iter_mut().zip(found) {
                    known.0.add(found);
                }
            }
            // Parts come in their order.
            Found::Entries(number, place, Some(found)) => {
                let (index, order) = (&tables[number].table.indexes[place], &orders[number][place]);
                let known = &mut sums[number][place].1;
                let is_next = known.sum.count == 0
                    || found.sum.count == 0
                    || follows(&known.last, &found.first, index, order).unwrap_or(false);
                answer.tables[number] &= is_next || tables[number].quick;
                known.sum.add(found.sum);
                if found.sum.count > 0 {
                    known.last = found.last;
                }
            }
            Found::Rows(number, None) | Found::Entries(number, _, None) => {
                answer.tables[number] = false;
            }
        }
    }
    for ((number, asked), sums) in tables.iter().enumerate().zip(sums) {
        let mut pairs = asked.table.indexes.iter().zip(sums);
        let agree = pairs.all(|(index, (rows, entries))| {
            index.root == asked.table.root
                || match asked.quick {
                    true => rows.count == entries.sum.count,
                    false => rows == entries.sum,
                }
        });
        answer.tables[number] &= agree;
    }
    Ok(answer)
}

/// Faults of the file are found again row by row; a statement told to stop stops.
fn doubtful<T>(found: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(Error::Store(error))
            if matches!(
                error,
                shoal_store::Error::Interrupted | shoal_store::Error::TimedOut { .. }
            ) =>
        {
            Err(Error::Store(error))
        }
        found => Ok(found.unwrap_or(None)),
    }
}

impl Plain {
    fn of(table: &Table) -> Option<Plain> {
        let is_plain = !table.without_rowid
            && table.checks.is_empty()
            && table.columns.iter().all(|column| column.generated.is_none());
        if !is_plain {
            return None;
        }
        let mut stored: Vec<(usize, usize)> = (0..)
            .zip(&table.columns)
            .filter_map(|(number, column)| Some((column.stored?, number)))
            .collect();
        stored.sort_unstable();
        if (0..).zip(&stored).any(|(place, (stored, _))| place != *stored) {
            return None;
        }
        let of_index = |index: &Index| -> Option<Vec<Option<usize>>> {
            let columns = index.columns.iter().map(|column| match column.source {
                IndexSource::Rowid => Some(None),
                IndexSource::Column(place) if table.rowid_alias == Some(place) => Some(None),
                IndexSource::Column(place) => Some(Some(table.columns.get(place)?.stored?)),
                IndexSource::Expr(_) => None,
            });
            columns.collect::<Option<_>>().filter(|_| index.filter.is_none())
        };
        let indexes = table.indexes.iter().map(of_index).collect::<Option<_>>()?;
        Some(Plain { indexes, stored: stored.into_iter().map(|(_, number)| number).collect() })
    }

    /// The sums of a range of rows; `None` where a row does not meet its constraints.
    fn sums(
        &self,
        asked: &Asked<'_>,
        transaction: &Transaction,
        range: (i64, i64),
    ) -> Result<Option<Vec<Sum>>, Error> {
        let table = asked.table;
        let places: Vec<usize> = (0..self.stored.len()).collect();
        let columns = ColumnFinder::new(&places);
        let columns_of = |place: &usize| &table.columns[self.stored[*place]];
        let not_null: Vec<usize> = places
            .iter()
            .copied()
            .filter(|place| columns_of(place).not_null)
            .filter(|place| table.rowid_alias != Some(self.stored[*place]))
            .collect();
        let mut sums = vec![Sum::default(); self.indexes.len()];
        let mut scan = TableScan::within(transaction.table(table.root)?, columns, range)?;
        let mut last = None;
        while let Some(row) = scan.next()? {
            let rowid = row.rowid();
            let value = |place: usize| {
                row.value(place).unwrap_or_else(|| columns_of(&place).missing_value.as_ref())
            };
            let is_null = |place: &usize| matches!(value(*place), ValueRef::Null);
            if last.is_some_and(|last| last >= rowid) || not_null.iter().any(is_null) {
                return Ok(None);
            }
            last = Some(rowid);
            for (sum, index) in sums.iter_mut().zip(&self.indexes) {
                if asked.quick {
                    sum.count += 1;
                    continue;
                }
                let mut hash = Hash::default();
                for column in index {
                    hash.value(column.map_or(ValueRef::Int(rowid), value));
                }
                sum.take(hash);
            }
        }
        Ok(Some(sums))
    }
}

/// The sums of a table's rows, each decoded, its generated columns and the indexes' expressions
/// computed. `None` where a row does not meet its constraints.
fn sums_of_decoded(
    asked: &Asked<'_>,
    transaction: &Transaction,
) -> Result<Option<Vec<Sum>>, Error> {
    let (table, rows) = (asked.table, &asked.rows);
    let env = RowEnv { transaction, session: &Nobody };
    let mut sums = vec![Sum::default(); table.indexes.len()];
    let (mut is_sound, mut last) = (true, None);
    Row::each(table, transaction, |mut row| {
        is_sound &= table.without_rowid || last.replace(row.rowid) < Some(row.rowid);
        rows.compute(&mut row, &env)?;
        let mut columns = table.columns.iter().enumerate();
        is_sound &= columns.all(|(place, column)| {
            !column.not_null || table.rowid_alias == Some(place) || !row.values[place].is_null()
        });
        is_sound &= asked.constraints.failed_check(&row, &env)?.is_none();
        for (place, sum) in sums.iter_mut().enumerate() {
            let Some(entry) = rows.index_entry(place, &row, &env)? else { continue };
            let mut hash = Hash::default();
            entry.iter().for_each(|value| hash.value(value.as_ref()));
            sum.take(hash);
        }
        Ok(())
    })?;
    Ok(is_sound.then_some(sums))
}

/// How many entries an index has.
fn count_of(transaction: &Transaction, index: &Index) -> Result<Option<Entries>, Error> {
    let count = transaction.count_entries(index.root)?;
    Ok(Some(Entries { sum: Sum { count, ..Sum::default() }, ..Entries::default() }))
}

/// The sum of a part of an index's entries, its first entry and its last; `None` where entries are
/// not in order, or two of a unique index have the same key.
fn sum_of_entries(
    transaction: &Transaction,
    mut part: IndexPart<'_>,
    index: &Index,
    order: &KeyOrder,
) -> Result<Option<Entries>, Error> {
    let column = order.column(0);
    let mut sum = Sum::default();
    let is_wide = transaction.utf16().is_some();
    let mut first = Vec::new();
    // The entry before: on its page, or copied.
    let (mut near, mut far): (Option<&[u8]>, Vec<u8>) = (None, Vec::new());
    let (mut copy, mut prefix) = (Vec::new(), 0);
    while let Some(payload) = part.next()? {
        let is_near = payload.overflow.is_none() && !is_wide;
        if !is_near {
            transaction.read_record(payload, &mut copy)?;
        }
        let entry = if is_near { payload.local } else { &copy };
        let mut values = Record::new(entry).map_err(Error::corrupt)?.values();
        let mut hash = Hash::default();
        let mut own_prefix = 0;
        if let Some(value) = values.next() {
            let value = value.map_err(Error::corrupt)?;
            own_prefix = column.prefix(value);
            hash.value(value);
        }
        for value in values {
            hash.value(value.map_err(Error::corrupt)?);
        }
        if sum.count == 0 {
            first = entry.to_vec();
        } else if prefix >= own_prefix && !follows(near.unwrap_or(&far), entry, index, order)? {
            return Ok(None);
        }
        sum.take(hash);
        prefix = own_prefix;
        if is_near {
            near = Some(payload.local);
        } else {
            near = None;
            std::mem::swap(&mut far, &mut copy);
        }
    }
    let last = near.map_or(far, <[u8]>::to_vec);
    Ok(Some(Entries { sum, first, last }))
}

/// True for an entry allowed behind another.
fn follows(before: &[u8], entry: &[u8], index: &Index, order: &KeyOrder) -> Result<bool, Error> {
    let record = |bytes| Record::new(bytes).map_err(Error::corrupt);
    let (before, entry) = (record(before)?, record(entry)?);
    let mut has_null = false;
    for (column, (a, b)) in before.values().zip(entry.values()).enumerate() {
        let (a, b) = (a.map_err(Error::corrupt)?, b.map_err(Error::corrupt)?);
        let found = order.compare_column(column, a, b);
        if found.is_ne() {
            let is_distinct = !index.unique || has_null || column < index.key_columns;
            return Ok(found.is_lt() && is_distinct);
        }
        has_null |= column < index.key_columns && matches!(a, ValueRef::Null);
    }
    Ok(false)
}

impl Sum {
    #[inline]
    fn take(&mut self, hash: Hash) {
        self.add(Sum { count: 1, low: hash.low, high: hash.high });
    }

    #[inline]
    fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.low = self.low.wrapping_add(other.low);
        self.high = self.high.wrapping_add(other.high);
    }
}

/// A hash of the values of an entry: equal values have equal hashes, however they are stored.
#[derive(Clone, Copy, Debug)]
struct Hash {
    low: u64,
    high: u64,
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { low: 0x9e37_79b9_7f4a_7c15, high: 0xc2b2_ae3d_27d4_eb4f }
    }
}

impl Hash {
    #[inline]
    fn word(&mut self, word: u64) {
        self.low = folded(self.low ^ word, 0xa076_1d64_78bd_642f);
        self.high = folded(self.high.wrapping_add(word), 0xe703_7ed1_a0b4_28db);
    }

    #[inline]
    fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.word(0),
            ValueRef::Int(int) => self.int(int),
            ValueRef::Real(real) if real == real.trunc() && real.abs() < 9.2e18 => {
                self.int(real as i64);
            }
            ValueRef::Real(real) => {
                self.word(2);
                self.word(real.to_bits());
            }
            ValueRef::Text(bytes) => self.bytes(3, bytes),
            ValueRef::Blob(bytes) => self.bytes(4, bytes),
        }
    }

    #[inline]
    fn int(&mut self, int: i64) {
        self.word(1);
        self.word(int.cast_unsigned());
    }

    #[inline]
    fn bytes(&mut self, kind: u64, bytes: &[u8]) {
        self.word(kind | (bytes.len() as u64) << 3);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }
}

/// The two halves of a product, one over the other.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
