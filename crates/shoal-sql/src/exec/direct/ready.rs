//! Conditions made ready for one run, and asked of many rows at a time.
//!
//! What a condition compares with is known once a run begins. Then most conditions are a question to
//! the bytes of one column: is this integer within a range, is this text that text. Each is asked of
//! all rows of a leaf that the ones before have left, in a loop of its own; what does not fit is asked
//! of a row by its own rules.

use shoal_store::{ColumnPlace, TextProbe};

use super::leaf_rows::LeafRows;
use super::plan::{Operand, Test};
use super::run::{compare, parameter};
use super::slots::fixed;
use crate::resolve::tree::{CompareOp, Comparison};
use crate::value::{Affinity, Collation, Value, ValueRef};

/// A condition made ready for one run: what it compares with is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    /// An integer field within a range, or not.
    Int { field: usize, range: IntRange, test: usize },
    /// A field of any number with a number.
    Number { field: usize, holds: Orders, value: f64, test: usize },
    /// Equality of a text with a text, byte by byte.
    Text { field: usize, probe: TextProbe, test: usize },
    /// A field that must be NULL, or must not.
    Null { field: usize, not: bool, test: usize },
    /// Whatever its test says, by the test's number.
    Any { test: usize },
}

/// The integers that satisfy a comparison with one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntRange {
    low: i64,
    /// How far the highest one is from the lowest.
    width: u64,
    /// Whether those outside satisfy it.
    outside: bool,
}

impl IntRange {
    /// `None` for comparisons that no integer satisfies, and for those that are also true of NULL.
    pub(super) fn of(op: CompareOp, value: i64) -> Option<IntRange> {
        let (low, high, outside) = match op {
            CompareOp::Equal => (value, value, false),
            CompareOp::NotEqual => (value, value, true),
            CompareOp::Less => (i64::MIN, value.checked_sub(1)?, false),
            CompareOp::LessEqual => (i64::MIN, value, false),
            CompareOp::Greater => (value.checked_add(1)?, i64::MAX, false),
            CompareOp::GreaterEqual => (value, i64::MAX, false),
            CompareOp::Is | CompareOp::IsNot => return None,
        };
        Some(IntRange { low, width: high.abs_diff(low), outside })
    }

    #[inline(always)]
    pub(super) fn has(self, int: i64) -> bool {
        let within = int.wrapping_sub(self.low).cast_unsigned() <= self.width;
        within != self.outside
    }
}

/// Which orders of two numbers satisfy a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    less: bool,
    equal: bool,
    greater: bool,
}

impl Orders {
    fn of(op: CompareOp) -> Orders {
        use std::cmp::Ordering;
        Orders {
            less: op.holds(Ordering::Less),
            equal: op.holds(Ordering::Equal),
            greater: op.holds(Ordering::Greater),
        }
    }

    /// Of two floats, neither of which is NaN.
    #[inline(always)]
    fn hold(self, left: f64, right: f64) -> bool {
        (self.less & (left < right))
            | (self.equal & (left == right))
            | (self.greater & (left > right))
    }
}

/// Integers up to here are floats without loss.
const EXACT_MAX: u64 = 1 << 53;

impl Ready {
    pub(super) fn of(number: usize, test: &Test, parameters: &[Value]) -> Ready {
        let any = Ready::Any { test: number };
        if let Test::IsNull { operand: Operand::Field { field, .. }, not } = test {
            return Ready::Null { field: *field, not: *not, test: number };
        }
        let Test::Compare { rule, left: Operand::Field { field, real, .. }, right } = test else {
            return any;
        };
        let right = match right {
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(parameters, *number),
            Operand::Field { .. } | Operand::Rowid { .. } => return any,
        };
        // NULL is none of the classes below, and these two can be true of it.
        if matches!(rule.op, CompareOp::Is | CompareOp::IsNot) {
            return any;
        }
        let (field, holds) = (*field, Orders::of(rule.op));
        match right {
            ValueRef::Int(value) if !real => match IntRange::of(rule.op, value) {
                Some(range) => Ready::Int { field, range, test: number },
                None => any,
            },
            ValueRef::Int(value) if value.unsigned_abs() <= EXACT_MAX => {
                Ready::Number { field, holds, value: value as f64, test: number }
            }
            ValueRef::Real(value) if !value.is_nan() => {
                Ready::Number { field, holds, value, test: number }
            }
            ValueRef::Text(text) if is_plain_equality(rule) => {
                Ready::Text { field, probe: TextProbe::new(text), test: number }
            }
            _ => any,
        }
    }

    /// Leaves those of the rows among the first `count` of `selected` that meet the condition; gives
    /// how many they are.
    pub(super) fn select(
        self,
        tests: &[Test],
        rows: LeafRows<'_>,
        selected: &mut [u8],
        count: usize,
    ) -> usize {
        match self {
            Ready::Int { field, range, test } => {
                keep_places(rows, field, selected, count, |place, bytes, row| {
                    match place.int(bytes) {
                        Some(int) => range.has(int),
                        None => any(&tests[test], rows, row),
                    }
                })
            }
            Ready::Number { field, holds, value, test } => {
                keep_places(rows, field, selected, count, |place, bytes, row| {
                    if let Some(real) = place.real(bytes) {
                        return holds.hold(real, value);
                    }
                    match place.int(bytes) {
                        Some(int) if int.unsigned_abs() <= EXACT_MAX => {
                            holds.hold(int as f64, value)
                        }
                        _ => any(&tests[test], rows, row),
                    }
                })
            }
            Ready::Text { field, probe, test } => {
                let wanted = match &tests[test] {
                    Test::Compare { right, .. } => fixed(right, rows.parameters()),
                    Test::IsNull { .. } => ValueRef::Null,
                };
                let ValueRef::Text(wanted) = wanted else { return 0 };
                keep_places(rows, field, selected, count, |place, bytes, row| {
                    match probe.equals(place, bytes, wanted) {
                        Some(equal) => equal,
                        None => any(&tests[test], rows, row),
                    }
                })
            }
            Ready::Null { field, not, test } => {
                keep_places(rows, field, selected, count, |place, _, row| match place.null() {
                    Some(null) => null != not,
                    None => any(&tests[test], rows, row),
                })
            }
            Ready::Any { test } => keep(selected, count, |row| any(&tests[test], rows, row)),
        }
    }
}

/// [`keep`] by a field: where it is, in which bytes, and of which row. Where all rows are on one page,
/// in a loop that asks nothing else of a row.
#[inline(always)]
fn keep_places(
    rows: LeafRows<'_>,
    field: usize,
    selected: &mut [u8],
    count: usize,
    stays: impl Fn(ColumnPlace, &[u8], usize) -> bool,
) -> usize {
    let Some((bytes, places, stride)) = rows.on_page() else {
        return keep(selected, count, |row| {
            let (place, bytes) = rows.place(row, field);
            stays(place, bytes, row)
        });
    };
    let places = places.get(field..).unwrap_or_default();
    keep(selected, count, |row| {
        let place = places.get(row * stride).copied().unwrap_or(ColumnPlace::MISSING);
        stays(place, bytes, row)
    })
}

/// Moves the numbers of the rows that are to stay to the front. No branch depends on which do.
#[inline(always)]
fn keep(selected: &mut [u8], count: usize, stays: impl Fn(usize) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..count.min(selected.len()) {
        let row = selected[at];
        selected[kept] = row;
        kept += usize::from(stays(usize::from(row)));
    }
    kept
}

/// Whether two texts satisfy the rule exactly when their bytes are equal.
fn is_plain_equality(rule: &Comparison) -> bool {
    rule.op == CompareOp::Equal
        && rule.collation == Collation::Binary
        && !rule.affinity.is_some_and(Affinity::is_numeric)
}

/// A condition by its own rules.
#[inline(never)]
fn any(test: &Test, rows: LeafRows<'_>, row: usize) -> bool {
    let row = rows.found(row);
    match test {
        Test::Compare { rule, left, right } => compare(rule, row.value(left), row.value(right)),
        Test::IsNull { operand, not } => (row.value(operand) == ValueRef::Null) != *not,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_their_comparisons() {
        use CompareOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let numbers = [i64::MIN, i64::MIN + 1, -3, -1, 0, 1, 2, 7, i64::MAX - 1, i64::MAX];
        for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
            for value in numbers {
                let range = IntRange::of(op, value);
                for int in numbers {
                    let expect = op.holds(int.cmp(&value));
                    assert_eq!(range.is_some_and(|range| range.has(int)), expect, "{op:?} {value}");
                    let (left, right) = (int as f64, value as f64);
                    let expect = op.holds(left.total_cmp(&right));
                    assert_eq!(Orders::of(op).hold(left, right), expect, "{op:?} {left} {right}");
                }
            }
        }
        assert!(IntRange::of(CompareOp::Is, 3).is_none());
    }
}
