//! Sorting: rows are gathered, then given back in order.

use std::cmp::Ordering;

use super::RowStore;
use crate::plan::{QueryPlan, SortKey, SortPlan};
use crate::value::{Value, ValueRef};

/// Gathered rows, each with its keys before its values.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    rows: RowStore,
    order: Vec<usize>,
    next: usize,
    /// The place of a row that so many others precede that nothing after it is wanted.
    last: Option<usize>,
}

/// Fewer rows than this are never thinned out.
const BOUND_MIN: usize = 256;

impl Sorter {
    /// Takes the current row. With a bound only so many first rows are wanted in the end; memory
    /// stays within a few times that many.
    pub(super) fn push(
        &mut self,
        plan: &QueryPlan,
        sort: &SortPlan,
        registers: &[Value],
        bound: Option<usize>,
    ) {
        if let Some(last) = self.last {
            let keys = sort.keys.iter().map(|key| registers[key.reg].as_ref());
            let order = keys
                .zip(self.rows.row(last))
                .zip(&sort.keys)
                .map(|((new, last), key)| compare(new, last, *key))
                .find(|order| order.is_ne());
            // An equal row that comes later stays behind.
            if order != Some(Ordering::Less) {
                return;
            }
        }
        let keys = sort.keys.iter().map(|key| registers[key.reg].as_ref());
        let values = registers[plan.output..plan.output + plan.width].iter().map(Value::as_ref);
        self.rows.push(keys.chain(values));
        if let Some(bound) = bound
            && self.rows.len() >= bound.saturating_mul(2).max(BOUND_MIN)
        {
            self.thin(sort, bound);
        }
    }

    fn thin(&mut self, sort: &SortPlan, bound: usize) {
        self.sort(sort);
        let mut kept = RowStore::default();
        for &place in self.order.iter().take(bound) {
            kept.push(self.rows.row(place));
        }
        self.rows = kept;
        self.last = self.rows.len().checked_sub(1).filter(|_| self.rows.len() >= bound);
    }

    /// Puts the rows in order. Rows with equal keys stay in the order in which they came.
    pub(super) fn sort(&mut self, sort: &SortPlan) {
        self.order.clear();
        self.order.extend(0..self.rows.len());
        let rows = &self.rows;
        self.order.sort_by(|&a, &b| {
            let pairs = rows.row(a).zip(rows.row(b)).zip(&sort.keys);
            pairs
                .map(|((left, right), key)| compare(left, right, *key))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
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
        let Some(&place) = self.order.get(self.next) else { return false };
        self.next += 1;
        let values = self.rows.row(place).skip(sort.keys.len());
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
