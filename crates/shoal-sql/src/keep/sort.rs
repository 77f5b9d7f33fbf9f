//! Sorting: rows are gathered, then given back in order.

use std::cmp::Ordering;

use rayon::slice::ParallelSliceMut;
use shoal_store::KeyColumn;

use crate::Error;
use crate::keep::spill::{Runs, SpilledRows};
use crate::keep::{RowStore, RowValues, SPILL_BYTES_MIN};
use crate::session::{Budget, Session};
use crate::value::{Collation, Value, ValueRef, assign};

/// The registers rows are sorted by.
#[derive(Debug)]
pub(crate) struct SortPlan {
    pub(crate) keys: Vec<SortKey>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SortKey {
    pub(crate) reg: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) collation: Collation,
}

impl SortKey {
    /// Upwards, NULLs first: SQL's default order.
    pub(crate) const fn ascending(reg: usize, collation: Collation) -> SortKey {
        SortKey { reg, descending: false, nulls_first: true, collation }
    }
}

/// Gathered rows, each with its keys before its values.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    rows: RowStore,
    /// The first key of each candidate row, as a number ordering nearly as the key, and the row's
    /// place among the rows; in order once all rows were taken.
    order: Vec<(u64, u32)>,
    next: usize,
    /// A row with enough rows before: no later row is wanted.
    last: Option<(u64, usize)>,
    /// Spilled rows, in sorted runs.
    runs: Option<Runs>,
    /// The runs and the last rows, once all rows were taken.
    spilled: Option<SpilledRows>,
}

/// The place of a row's values: the first value, from which the registers of sort keys are counted,
/// and the number of values given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub(crate) first: usize,
    pub(crate) width: usize,
}

/// From this many rows on, a sort uses all cores.
pub(crate) const PARALLEL_MIN: usize = 1 << 15;

/// Fewer rows than this are kept although others precede them.
const BOUND_MIN: usize = 256;

/// With fewer rows than this, unwanted rows are not looked for.
const TIGHTEN_MIN: usize = 16;

impl Sorter {
    /// Takes a row: its outputs by number, among them the keys. A bound asks for the first rows
    /// alone (top-N); memory stays within a few times the bound.
    ///
    /// Cost: for an unwanted row, as a rule, one look at the first key.
    ///
    /// # Errors
    /// When spilled rows cannot be written to a file.
    #[inline]
    pub(crate) fn push<'v>(
        &mut self,
        session: &dyn Session,
        (values, sort): (Values, &SortPlan),
        output: impl Fn(usize) -> ValueRef<'v>,
        bound: Option<usize>,
    ) -> Result<(), Error> {
        let key = |key: &SortKey| output(key.reg - values.first);
        let prefix = sort.keys.first().map_or(0, |first| prefix_of(key(first), *first));
        if let Some((last_prefix, last)) = self.last {
            // A later row with equal keys stays behind.
            if prefix > last_prefix
                || (prefix == last_prefix && !self.precedes(sort, key, last).is_lt())
            {
                return Ok(());
            }
        }
        // Four billion rows do not fit into memory.
        self.order.push((prefix, self.rows.len() as u32));
        self.rows.push(sort.keys.iter().map(key).chain((0..values.width).map(&output)));
        if let Some(bound) = bound {
            self.tighten(sort, bound);
        }
        self.spill_if_full(session, sort, bound)
    }

    #[inline]
    fn spill_if_full(
        &mut self,
        session: &dyn Session,
        sort: &SortPlan,
        bound: Option<usize>,
    ) -> Result<(), Error> {
        match session.budget() {
            Some(budget) if self.is_full(budget) => self.spill(session, sort, bound),
            _ => Ok(()),
        }
    }

    /// The first key of the last wanted row, as a number: no row with a larger one is wanted.
    /// `None` as long as every row may be wanted.
    #[inline]
    pub(crate) fn last_prefix(&self) -> Option<u64> {
        self.last.map(|(prefix, _)| prefix)
    }

    fn is_full(&self, budget: &Budget) -> bool {
        let bytes = self.rows.byte_len() + self.order.len() * size_of::<(u64, u32)>();
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
        self.order.clear();
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

    /// Takes the rows of another sorter, within a bound; they come after the rows of this one.
    ///
    /// # Errors
    /// When rows cannot be written to a file, or read from the one they are in.
    pub(crate) fn absorb(
        &mut self,
        session: &dyn Session,
        sort: &SortPlan,
        mut other: Sorter,
        bound: usize,
    ) -> Result<(), Error> {
        if other.runs.is_some() {
            return self.absorb_spilled(session, sort, &mut other, bound);
        }
        // In the order of arrival, kept among equal rows.
        let mut entries = other.order.clone();
        entries.sort_unstable_by_key(|&(_, place)| place);
        for (prefix, place) in entries {
            let place = place as usize;
            if let Some((last_prefix, last)) = self.last {
                let order = prefix.cmp(&last_prefix);
                let by_keys = || by_keys(other.rows.row(place), self.rows.row(last), sort);
                if !order.then_with(by_keys).is_lt() {
                    continue;
                }
            }
            self.order.push((prefix, self.rows.len() as u32));
            self.rows.push(other.rows.row(place));
            self.tighten(sort, bound);
        }
        self.spill_if_full(session, sort, Some(bound))
    }

    /// [`Sorter::absorb`] of a sorter with rows in a file.
    #[cold]
    fn absorb_spilled(
        &mut self,
        session: &dyn Session,
        sort: &SortPlan,
        other: &mut Sorter,
        bound: usize,
    ) -> Result<(), Error> {
        other.sort(session, sort)?;
        for _ in 0..bound {
            let Some(row) = other.next_whole_row(sort)? else { break };
            let first = sort.keys.first().zip(row.clone().next());
            let prefix = first.map_or(0, |(key, value)| prefix_of(value, *key));
            self.order.push((prefix, self.rows.len() as u32));
            self.rows.push(row);
            self.tighten(sort, bound);
            self.spill_if_full(session, sort, Some(bound))?;
        }
        Ok(())
    }

    /// With twice the wanted rows, leaves the first `bound`: no row after the last of them is
    /// wanted from then on.
    #[inline]
    fn tighten(&mut self, sort: &SortPlan, bound: usize) {
        if self.order.len() >= bound.saturating_mul(2).max(TIGHTEN_MIN) {
            self.leave_first(sort, bound);
        }
    }

    #[inline(never)]
    fn leave_first(&mut self, sort: &SortPlan, bound: usize) {
        let Some(last) = bound.checked_sub(1).filter(|&last| last < self.order.len()) else {
            return;
        };
        let rows = &self.rows;
        let (_, &mut (prefix, place), _) =
            self.order.select_nth_unstable_by(last, |a, b| order_of(rows, sort, a, b));
        self.order.truncate(bound);
        self.last = Some((prefix, place as usize));
        if self.rows.len() < bound.saturating_mul(2).max(BOUND_MIN) {
            return;
        }
        // Only the rows left stay, in the order of arrival.
        self.order.sort_unstable_by_key(|&(_, place)| place);
        let mut kept = RowStore::default();
        for (_, known) in &mut self.order {
            let new = kept.len();
            kept.push(rows.row(*known as usize));
            if *known == place {
                self.last = Some((prefix, new));
            }
            *known = new as u32;
        }
        self.rows = kept;
    }

    /// Puts the rows in order. Rows with equal keys stay in the order of arrival.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub(crate) fn sort(&mut self, session: &dyn Session, sort: &SortPlan) -> Result<(), Error> {
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
        let rows = &self.rows;
        let compare = |a: &(u64, u32), b: &(u64, u32)| order_of(rows, sort, a, b);
        // No two entries are equal: an unstable sort serves.
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
    pub(crate) fn next_row(
        &mut self,
        sort: &SortPlan,
    ) -> Result<Option<impl Iterator<Item = ValueRef<'_>>>, Error> {
        Ok(self.next_whole_row(sort)?.map(|row| row.skip(sort.keys.len())))
    }

    /// The next row with its keys before its values.
    fn next_whole_row(&mut self, sort: &SortPlan) -> Result<Option<RowValues<'_>>, Error> {
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
        Ok(Some(row))
    }

    /// Puts the next row's values into registers; false when there is none.
    ///
    /// # Errors
    /// As [`Sorter::next_row`].
    pub(crate) fn next(&mut self, sort: &SortPlan, registers: &mut [Value]) -> Result<bool, Error> {
        let Some(row) = self.next_row(sort)? else { return Ok(false) };
        for (value, target) in row.zip(registers) {
            assign(target, value);
        }
        Ok(true)
    }
}

/// The order of two gathered rows; rows with equal keys are in the order of arrival.
#[inline]
fn order_of(rows: &RowStore, sort: &SortPlan, a: &(u64, u32), b: &(u64, u32)) -> Ordering {
    let by_keys = || by_keys(rows.row(a.1 as usize), rows.row(b.1 as usize), sort);
    a.0.cmp(&b.0).then_with(by_keys).then(a.1.cmp(&b.1))
}

/// The order of two gathered rows by the keys at their front.
#[inline]
fn by_keys(left: RowValues<'_>, right: RowValues<'_>, sort: &SortPlan) -> Ordering {
    let pairs = left.zip(right).zip(&sort.keys);
    let orders = pairs.map(|((left, right), key)| compare(left, right, *key));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

pub(crate) fn compare(left: ValueRef<'_>, right: ValueRef<'_>, key: SortKey) -> Ordering {
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

/// A number ordering nearly as the key: smaller only for values ordered before, and equal for many
/// different values.
#[inline(always)]
pub(crate) fn prefix(value: ValueRef<'_>, key: SortKey) -> u64 {
    match value {
        ValueRef::Null if key.nulls_first => 0,
        ValueRef::Null => u64::MAX,
        value => {
            let column = KeyColumn { collation: key.collation, descending: key.descending };
            column.prefix(value).clamp(1, u64::MAX - 1)
        }
    }
}

/// As [`prefix`], for callers outside of loops.
pub(crate) fn prefix_of(value: ValueRef<'_>, key: SortKey) -> u64 {
    prefix(value, key)
}

#[cfg(test)]
mod tests {
    use super::*;

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
