//! Sorting: rows are gathered, then given back in order.

use std::cmp::Ordering;

use rayon::slice::ParallelSliceMut;
use shoal_store::KeyColumn;

use super::direct::{CHUNK, LeafRows, Operand};
use super::kept::SPILL_BYTES_MIN;
use super::rows::RowValues;
use super::spill::{Runs, SpilledRows};
use super::{Budget, RowStore};
use crate::Error;
use crate::functions::Session;
use crate::plan::{QueryPlan, SortKey, SortPlan};
use crate::value::{Value, ValueRef};

/// Gathered rows, each with its keys before its values.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    rows: RowStore,
    /// The first key of each row as a number that orders nearly as the key does.
    prefixes: Vec<u64>,
    order: Vec<(u64, u32)>,
    next: usize,
    /// A row that so many others precede that nothing after it is wanted.
    last: Option<(u64, usize)>,
    /// Rows in order that did not fit into memory.
    runs: Option<Runs>,
    /// Those and the last ones, once all rows were taken.
    spilled: Option<SpilledRows>,
}

/// Where a row's values are: the first one, from which the registers of sort keys are counted, and
/// how many of them are given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) first: usize,
    pub(super) width: usize,
}

impl Values {
    /// The columns of a query.
    pub(super) fn of(plan: &QueryPlan) -> Values {
        Values { first: plan.output, width: plan.width }
    }
}

/// So many rows are sorted on all cores.
const PARALLEL_MIN: usize = 1 << 15;

/// Fewer rows than this are never thinned out.
const BOUND_MIN: usize = 256;

impl Sorter {
    /// Takes a row: its outputs by number, among which the keys are. With a bound only so many
    /// first rows are wanted in the end; memory stays within a few times that many.
    ///
    /// Of a row that is not wanted only the first key is looked at, as a rule.
    ///
    /// # Errors
    /// When rows that do not fit into memory cannot be written to a file.
    #[inline]
    pub(super) fn push<'v>(
        &mut self,
        session: &dyn Session,
        (values, sort): (Values, &SortPlan),
        output: impl Fn(usize) -> ValueRef<'v>,
        bound: Option<usize>,
    ) -> Result<(), Error> {
        let key = |key: &SortKey| output(key.reg - values.first);
        let prefix = sort.keys.first().map_or(0, |first| prefix(key(first), *first));
        if let Some((last_prefix, last)) = self.last {
            // An equal row that comes later stays behind.
            if prefix > last_prefix
                || (prefix == last_prefix && !self.precedes(sort, key, last).is_lt())
            {
                return Ok(());
            }
        }
        self.prefixes.push(prefix);
        self.rows.push(sort.keys.iter().map(key).chain((0..values.width).map(&output)));
        if let Some(bound) = bound
            && self.rows.len() >= bound.saturating_mul(2).max(BOUND_MIN)
        {
            self.thin(sort, bound);
        }
        match session.budget() {
            Some(budget) if self.is_full(budget) => self.spill(session, sort, bound),
            _ => Ok(()),
        }
    }

    /// Takes rows of one leaf, as [`Sorter::push`] takes one: their outputs are these. The first key of
    /// all of them is looked at first, in a loop of its own.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub(super) fn push_leaf(
        &mut self,
        session: &dyn Session,
        (values, sort): (Values, &SortPlan),
        (rows, outputs): (LeafRows<'_>, &[Operand]),
        bound: Option<usize>,
    ) -> Result<(), Error> {
        let mut prefixes = [0; CHUNK];
        let first = sort.keys.first();
        if let Some((key, operand)) =
            first.and_then(|key| Some((key, outputs.get(key.reg - values.first)?)))
        {
            let mut targets = prefixes.iter_mut();
            rows.each_value(operand, |value| {
                if let Some(target) = targets.next() {
                    *target = prefix(value, *key);
                }
            });
        }
        for number in 0..rows.len() {
            // What is past the numbers is asked as usual.
            let prefix = prefixes.get(number).copied().unwrap_or(0);
            if self.last.is_none_or(|(last, _)| prefix <= last) {
                let row = rows.row(number);
                self.push(session, (values, sort), |output| row.value(&outputs[output]), bound)?;
            }
        }
        Ok(())
    }

    fn is_full(&self, budget: &Budget) -> bool {
        let bytes = self.rows.byte_len() + self.prefixes.len() * size_of::<(u64, u64, u32)>();
        bytes as u64 > budget.left().max(SPILL_BYTES_MIN)
    }

    /// Writes the rows so far to a file, in order.
    #[cold]
    fn spill(
        &mut self,
        session: &dyn Session,
        sort: &SortPlan,
        bound: Option<usize>,
    ) -> Result<(), Error> {
        self.order_rows(sort);
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(Runs::new(session)?),
        };
        let rows = &self.rows;
        let wanted = bound.unwrap_or(usize::MAX);
        let ordered = self.order.iter().take(wanted);
        let ordered = ordered.map(|&(prefix, place)| (prefix, rows.row_bytes(place as usize)));
        runs.add(session, &sort.keys, ordered)?;
        self.rows.clear();
        self.prefixes.clear();
        self.last = None;
        Ok(())
    }

    fn precedes<'v>(
        &self,
        sort: &SortPlan,
        key: impl Fn(&SortKey) -> ValueRef<'v>,
        place: usize,
    ) -> Ordering {
        let keys = sort.keys.iter().map(|by| (key(by), *by));
        keys.zip(self.rows.row(place))
            .map(|((new, by), known)| compare(new, known, by))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Takes the rows that another one took, which come after this one's, within a bound.
    pub(super) fn absorb(&mut self, sort: &SortPlan, other: &Sorter, bound: usize) {
        for (place, &prefix) in other.prefixes.iter().enumerate() {
            if let Some((last_prefix, last)) = self.last {
                let order = prefix.cmp(&last_prefix).then_with(|| {
                    let pairs = other.rows.row(place).zip(self.rows.row(last)).zip(&sort.keys);
                    pairs
                        .map(|((new, known), key)| compare(new, known, *key))
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                });
                if !order.is_lt() {
                    continue;
                }
            }
            self.prefixes.push(prefix);
            self.rows.push(other.rows.row(place));
            if self.rows.len() >= bound.saturating_mul(2).max(BOUND_MIN) {
                self.thin(sort, bound);
            }
        }
    }

    fn thin(&mut self, sort: &SortPlan, bound: usize) {
        self.order_rows(sort);
        let mut kept = RowStore::default();
        let mut prefixes = Vec::with_capacity(bound * 2);
        for &(prefix, place) in self.order.iter().take(bound) {
            kept.push(self.rows.row(place as usize));
            prefixes.push(prefix);
        }
        self.rows = kept;
        self.prefixes = prefixes;
        let place = self.rows.len().checked_sub(1).filter(|_| self.rows.len() >= bound);
        self.last = place.map(|place| (self.prefixes[place], place));
    }

    /// Puts the rows in order. Rows with equal keys stay in the order in which they came.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub(super) fn sort(&mut self, session: &dyn Session, sort: &SortPlan) -> Result<(), Error> {
        if self.runs.is_some() {
            self.spill(session, sort, None)?;
        }
        match self.runs.take() {
            Some(runs) => self.spilled = Some(runs.into_rows()?),
            None => self.order_rows(sort),
        }
        Ok(())
    }

    fn order_rows(&mut self, sort: &SortPlan) {
        self.order.clear();
        // Four billion rows do not fit into memory.
        let places = self.prefixes.iter().enumerate();
        self.order.extend(places.map(|(place, &prefix)| (prefix, place as u32)));
        let rows = &self.rows;
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            let (left, right) = (a.1 as usize, b.1 as usize);
            a.0.cmp(&b.0)
                .then_with(|| {
                    let pairs = rows.row(left).zip(rows.row(right)).zip(&sort.keys);
                    pairs
                        .map(|((left, right), key)| compare(left, right, *key))
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                })
                .then(left.cmp(&right))
        };
        // No two are equal, so it does not matter which way they are sorted.
        if self.order.len() < PARALLEL_MIN {
            self.order.sort_unstable_by(compare);
        } else {
            self.order.par_sort_unstable_by(compare);
        }
        self.next = 0;
    }

    /// The next row's values; `None` when there is none.
    ///
    /// # Errors
    /// When rows cannot be read from the file they are in.
    pub(super) fn next_row(
        &mut self,
        sort: &SortPlan,
    ) -> Result<Option<impl Iterator<Item = ValueRef<'_>>>, Error> {
        let row: RowValues<'_> = match &mut self.spilled {
            Some(rows) => match rows.next(&sort.keys)? {
                Some(row) => row,
                None => return Ok(None),
            },
            None => {
                let Some(&(_, place)) = self.order.get(self.next) else { return Ok(None) };
                self.next += 1;
                self.rows.row(place as usize)
            }
        };
        Ok(Some(row.skip(sort.keys.len())))
    }

    /// Puts the next row's values into registers; false when there is none.
    ///
    /// # Errors
    /// As [`Sorter::next_row`].
    pub(super) fn next(&mut self, sort: &SortPlan, registers: &mut [Value]) -> Result<bool, Error> {
        let Some(row) = self.next_row(sort)? else { return Ok(false) };
        for (value, target) in row.zip(registers) {
            super::assign(target, value);
        }
        Ok(true)
    }
}

pub(super) fn compare(left: ValueRef<'_>, right: ValueRef<'_>, key: SortKey) -> Ordering {
    let nulls = (left == ValueRef::Null, right == ValueRef::Null);
    match nulls {
        (true, true) => Ordering::Equal,
        (true, false) if key.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if key.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let order = left.compare(right, key.collation);
            if key.descending { order.reverse() } else { order }
        }
    }
}

/// A number that is smaller only for values that come first, and equal for many that differ.
#[inline]
fn prefix(value: ValueRef<'_>, key: SortKey) -> u64 {
    match value {
        ValueRef::Null if key.nulls_first => 0,
        ValueRef::Null => u64::MAX,
        value => {
            let column = KeyColumn { collation: key.collation, descending: key.descending };
            column.prefix(value).clamp(1, u64::MAX - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Collation;

    #[test]
    fn prefixes_never_contradict_the_order() {
        let values = [
            ValueRef::Null,
            ValueRef::Int(i64::MIN),
            ValueRef::Real(f64::NEG_INFINITY),
            ValueRef::Int(-1),
            ValueRef::Real(-0.0),
            ValueRef::Int(0),
            ValueRef::Real(0.5),
            ValueRef::Int(1 << 53),
            ValueRef::Int((1 << 53) + 1),
            ValueRef::Int(i64::MAX),
            ValueRef::Text(b""),
            ValueRef::Text(b"  "),
            ValueRef::Text(b"a"),
            ValueRef::Text(b"A"),
            ValueRef::Text(b"a "),
            ValueRef::Text(b"a\0z"),
            ValueRef::Text(b"A\0b"),
            ValueRef::Text(b"abcdefghi"),
            ValueRef::Text(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            ValueRef::Blob(b""),
            ValueRef::Blob(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ];
        for collation in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
            for (descending, nulls_first) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let key = SortKey { reg: 0, descending, nulls_first, collation };
                for a in values {
                    for b in values {
                        let order = compare(a, b, key);
                        let prefixes = prefix(a, key).cmp(&prefix(b, key));
                        assert!(prefixes.is_eq() || prefixes == order, "{a:?} {b:?} {key:?}");
                    }
                }
            }
        }
    }
}
