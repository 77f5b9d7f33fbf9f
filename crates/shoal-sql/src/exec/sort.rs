//! Sorting: rows are gathered, then given back in order.

use std::cmp::Ordering;

use super::RowStore;
use crate::plan::{QueryPlan, SortKey, SortPlan};
use crate::value::{Collation, Value, ValueRef};

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
}

/// Fewer rows than this are never thinned out.
const BOUND_MIN: usize = 256;

impl Sorter {
    /// Takes a row: its outputs by number, among which the keys are. With a bound only so many
    /// first rows are wanted in the end; memory stays within a few times that many.
    ///
    /// Of a row that is not wanted only the first key is looked at, as a rule.
    #[inline]
    pub(super) fn push<'v>(
        &mut self,
        plan: &QueryPlan,
        sort: &SortPlan,
        output: impl Fn(usize) -> ValueRef<'v>,
        bound: Option<usize>,
    ) {
        let key = |key: &SortKey| output(key.reg - plan.output);
        let prefix = sort.keys.first().map_or(0, |first| prefix(key(first), *first));
        if let Some((last_prefix, last)) = self.last {
            // An equal row that comes later stays behind.
            if prefix > last_prefix
                || (prefix == last_prefix && !self.precedes(sort, key, last).is_lt())
            {
                return;
            }
        }
        self.prefixes.push(prefix);
        self.rows.push(sort.keys.iter().map(key).chain((0..plan.width).map(&output)));
        if let Some(bound) = bound
            && self.rows.len() >= bound.saturating_mul(2).max(BOUND_MIN)
        {
            self.thin(sort, bound);
        }
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

    fn thin(&mut self, sort: &SortPlan, bound: usize) {
        self.sort(sort);
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
    pub(super) fn sort(&mut self, sort: &SortPlan) {
        self.order.clear();
        // Four billion rows do not fit into memory.
        let places = self.prefixes.iter().enumerate();
        self.order.extend(places.map(|(place, &prefix)| (prefix, place as u32)));
        let rows = &self.rows;
        self.order.sort_unstable_by(|a, b| {
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
        });
        self.next = 0;
    }

    /// Puts the next row's values into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        plan: &QueryPlan,
        sort: &SortPlan,
        registers: &mut [Value],
    ) -> bool {
        let Some(&(_, place)) = self.order.get(self.next) else { return false };
        self.next += 1;
        let values = self.rows.row(place as usize).skip(sort.keys.len());
        for (value, target) in values.zip(&mut registers[plan.output..plan.output + plan.width]) {
            super::assign(target, value);
        }
        true
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
    const NUMBER: u64 = 1 << 62;
    const TEXT: u64 = 2 << 62;
    const BLOB: u64 = 3 << 62;
    let number = match value {
        ValueRef::Null if key.nulls_first => return 0,
        ValueRef::Null => return u64::MAX,
        ValueRef::Int(int) => NUMBER | sortable(int as f64) >> 2,
        ValueRef::Real(real) => NUMBER | sortable(real) >> 2,
        ValueRef::Text(text) => {
            let text = match key.collation {
                Collation::Rtrim => {
                    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
                    &text[..end]
                }
                _ => text,
            };
            let mut first = first_bytes(text);
            if key.collation == Collation::NoCase {
                first.make_ascii_lowercase();
            }
            TEXT | u64::from_be_bytes(first) >> 2
        }
        ValueRef::Blob(blob) => BLOB | u64::from_be_bytes(first_bytes(blob)) >> 2,
    };
    let number = if key.descending { !number } else { number };
    number.clamp(1, u64::MAX - 1)
}

fn first_bytes(bytes: &[u8]) -> [u8; 8] {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    first
}

/// The bits of a float, ordered as unsigned numbers are.
fn sortable(real: f64) -> u64 {
    // -0.0 is 0.0.
    let bits = (real + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
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
