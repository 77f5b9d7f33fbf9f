//! Conditions made ready for one run, and asked of many rows at a time.
//!
//! A condition's operands other than columns are known once a run begins. Then most conditions are
//! a question to the bytes of one column: is this integer within a range, is this text equal to
//! another. Each condition runs over all rows still in a leaf's selection vector, in a loop of its
//! own; rows unfit for the loop are tested by the condition's own rules.

use std::ops::Range;

use shoal_store::{ColumnPlace, TextProbe};

use super::leaf::CHUNK;
use super::leaf_rows::LeafRows;
use super::run::parameter;
use super::slots::fixed;
use crate::plan::pipeline::{Operand, Test};
use crate::value::{
    Affinity, Collation, CompareOp, Comparison, Value, ValueRef, may_read_as_number,
};

/// A condition prepared for one run, with its constant side known.
#[derive(Debug)]
pub(super) enum PreparedTest {
    /// An integer field within a range, or not.
    Int { field: usize, range: IntRange, test: usize },
    /// A field of any number: the range of matching integers, and of matching floats by
    /// [`order_of`].
    Number { field: usize, ints: IntRange, reals: IntRange, test: usize },
    /// Equality of two texts, byte by byte; `short` where the constant has at most eight bytes.
    Text { field: usize, probe: TextProbe, short: bool, test: usize },
    /// The order of two texts byte by byte; under a numeric affinity of texts not reading as
    /// numbers.
    TextOrder { field: usize, op: CompareOp, numeric: bool, test: usize },
    /// An integer among some, ascending, or none of them.
    IntIn { field: usize, ints: Box<[i64]>, not: bool, test: usize },
    /// A text among some, compared byte by byte, or none of them.
    TextIn { field: usize, probes: Box<[TextProbe]>, not: bool, test: usize },
    /// A text fitting a pattern of plain pieces, or not.
    Like { field: usize, not: bool, test: usize },
    /// Any of some parts, each a list of conditions holding together.
    Parts { parts: Box<[Box<[PreparedTest]>]>, test: usize },
    /// A field required to be NULL, or not NULL.
    Null { field: usize, not: bool, test: usize },
    /// Whatever its test says, by the test's number.
    Any { test: usize },
}

/// The integers satisfying a comparison with an integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntRange {
    low: i64,
    /// Distance of the highest integer from the lowest.
    width: u64,
    /// True where integers outside satisfy the comparison.
    outside: bool,
}

impl IntRange {
    pub(super) const ALL: IntRange = IntRange { low: i64::MIN, width: u64::MAX, outside: false };

    /// `None` for comparisons no integer satisfies, and for comparisons also true of NULL.
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

/// The position of a float in the order of all floats but NaN.
#[inline(always)]
fn order_of(real: f64) -> i64 {
    let bits = real.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The integers satisfying a comparison with a float, and the floats, by [`order_of`]. `None` for
/// floats so large that some integers near them are no floats, and for comparisons no number of one
/// kind satisfies.
fn number_ranges(op: CompareOp, value: f64) -> Option<(IntRange, IntRange)> {
    if value.is_nan() || value.abs() >= EXACT_MAX {
        return None;
    }
    // The bound among the integers, next to the float.
    let nearest = match op {
        CompareOp::Greater | CompareOp::LessEqual => value.floor(),
        CompareOp::GreaterEqual | CompareOp::Less => value.ceil(),
        _ if value.fract() == 0.0 => value,
        _ => return None,
    };
    let ints = IntRange::of(op, nearest as i64)?;
    // Both zeros are equal.
    let (lowest, highest) = if value == 0.0 { (-0.0, 0.0) } else { (value, value) };
    let (lowest, highest) = (order_of(lowest), order_of(highest));
    let (low, high) = match op {
        CompareOp::Equal | CompareOp::NotEqual => (lowest, highest),
        CompareOp::Less => (order_of(f64::NEG_INFINITY), lowest - 1),
        CompareOp::LessEqual => (order_of(f64::NEG_INFINITY), highest),
        CompareOp::Greater => (highest + 1, order_of(f64::INFINITY)),
        CompareOp::GreaterEqual => (lowest, order_of(f64::INFINITY)),
        CompareOp::Is | CompareOp::IsNot => return None,
    };
    let outside = op == CompareOp::NotEqual;
    Some((ints, IntRange { low, width: high.abs_diff(low), outside }))
}

/// Integers below this one are floats without loss, and so are their neighbours.
const EXACT_MAX: f64 = (1_u64 << 52) as f64;

impl PreparedTest {
    pub(super) fn of(at: usize, test: &Test, parameters: &[Value]) -> PreparedTest {
        let any = PreparedTest::Any { test: at };
        if let Test::IsNull { operand: Operand::Field { field, .. }, not } = test {
            return PreparedTest::Null { field: *field, not: *not, test: at };
        }
        match test {
            Test::In { .. } => return PreparedTest::of_list(at, test, parameters),
            Test::Like { operand: Operand::Field { field, .. }, pieces: Some(_), not, .. } => {
                return PreparedTest::Like { field: *field, not: *not, test: at };
            }
            Test::Any(parts) => {
                let parts = parts.iter().map(|tests| {
                    let numbered = tests.iter().enumerate();
                    numbered.map(|(at, test)| PreparedTest::of(at, test, parameters)).collect()
                });
                return PreparedTest::Parts { parts: parts.collect(), test: at };
            }
            _ => {}
        }
        let Test::Compare { rule, left: Operand::Field { field, real, .. }, right } = test else {
            return any;
        };
        let right = match right {
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(parameters, *number),
            Operand::Field { .. } | Operand::Rowid { .. } => return any,
        };
        // NULL is outside of the classes below, and these two operators can be true of NULL.
        if matches!(rule.op, CompareOp::Is | CompareOp::IsNot) {
            return any;
        }
        let field = *field;
        let number = |value: f64| match number_ranges(rule.op, value) {
            Some((ints, reals)) => PreparedTest::Number { field, ints, reals, test: at },
            None => PreparedTest::Any { test: at },
        };
        match right {
            ValueRef::Int(value) if !real => match IntRange::of(rule.op, value) {
                Some(range) => PreparedTest::Int { field, range, test: at },
                None => any,
            },
            // Of larger ones the float is out of bounds, too.
            ValueRef::Int(value) => number(value as f64),
            ValueRef::Real(value) => number(value),
            ValueRef::Text(text) if is_plain_equality(rule) => {
                let (probe, short) = (TextProbe::new(text), text.len() <= 8);
                PreparedTest::Text { field, probe, short, test: at }
            }
            ValueRef::Text(text) if rule.collation == Collation::Binary => {
                let numeric = rule.affinity.is_some_and(Affinity::is_numeric);
                match numeric && may_read_as_number(text) {
                    true => any,
                    false => PreparedTest::TextOrder { field, op: rule.op, numeric, test: at },
                }
            }
            _ => any,
        }
    }

    /// An `IN` a list of integers, or of texts compared by their bytes; of a list with others the
    /// test decides.
    fn of_list(at: usize, test: &Test, parameters: &[Value]) -> PreparedTest {
        let any = PreparedTest::Any { test: at };
        let Test::In { operand: Operand::Field { field, real, .. }, list, rule } = test else {
            return any;
        };
        let numeric = rule.affinity.is_some_and(Affinity::is_numeric);
        let int = |item: &Operand| match fixed(item, parameters) {
            ValueRef::Int(int) => Some(int),
            _ => None,
        };
        let probe = |item: &Operand| match fixed(item, parameters) {
            ValueRef::Text(text) if !(numeric && may_read_as_number(text)) => {
                Some(TextProbe::new(text))
            }
            _ => None,
        };
        let (field, not) = (*field, rule.not);
        if !real && let Some(mut ints) = list.iter().map(int).collect::<Option<Box<[i64]>>>() {
            ints.sort_unstable();
            return PreparedTest::IntIn { field, ints, not, test: at };
        }
        if rule.collation == Collation::Binary
            && let Some(probes) = list.iter().map(probe).collect()
        {
            return PreparedTest::TextIn { field, probes, not, test: at };
        }
        any
    }

    /// Narrows the first `count` rows of `selected` to those meeting the condition; gives their
    /// number.
    pub(super) fn select(
        &self,
        tests: &[Test],
        rows: LeafRows<'_>,
        selected: &mut [u8],
        count: usize,
    ) -> usize {
        match *self {
            PreparedTest::IntIn { field, ref ints, not, test } => {
                keep_places(rows, (field, &tests[test]), selected, count, |place, bytes| {
                    place.near_int(bytes).map(|int| ints.binary_search(&int).is_ok() != not)
                })
            }
            PreparedTest::TextIn { field, ref probes, not, test } => {
                let Test::In { list, .. } = &tests[test] else { return 0 };
                let text = |item| match fixed(item, rows.parameters()) {
                    ValueRef::Text(text) => text,
                    _ => &[],
                };
                let tells = |place: ColumnPlace, bytes: &[u8]| {
                    for (item, probe) in list.iter().zip(probes) {
                        if probe.equals(place, bytes, text(item))? {
                            return Some(!not);
                        }
                    }
                    Some(not)
                };
                keep_places(rows, (field, &tests[test]), selected, count, tells)
            }
            PreparedTest::Like { field, not, test } => {
                let Test::Like { pieces: Some(pieces), .. } = &tests[test] else { return 0 };
                let tells = |place: ColumnPlace, bytes: &[u8]| match place.decode(bytes) {
                    Some(ValueRef::Text(text)) => Some(pieces.matches(text) != not),
                    _ => None,
                };
                keep_places(rows, (field, &tests[test]), selected, count, tells)
            }
            PreparedTest::Parts { ref parts, test } => {
                let Test::Any(tests) = &tests[test] else { return 0 };
                any_part(parts, tests, rows, selected, count)
            }
            PreparedTest::Int { field, range, test } => {
                keep_places(rows, (field, &tests[test]), selected, count, |place, bytes| {
                    place.near_int(bytes).map(|int| range.has(int))
                })
            }
            PreparedTest::Number { field, ints, reals, test } => keep_places(
                rows,
                (field, &tests[test]),
                selected,
                count,
                |place, bytes| match place.near_real(bytes) {
                    Some(real) => Some(reals.has(order_of(real))),
                    None => place.near_int(bytes).map(|int| ints.has(int)),
                },
            ),
            PreparedTest::Text { field, probe, short: true, test } => {
                keep_places(rows, (field, &tests[test]), selected, count, |place, bytes| {
                    probe.equals_short(place, bytes)
                })
            }
            PreparedTest::Text { field, probe, short: false, test } => {
                let ValueRef::Text(wanted) = constant_side(&tests[test], rows) else { return 0 };
                keep_places(rows, (field, &tests[test]), selected, count, |place, bytes| {
                    probe.equals(place, bytes, wanted)
                })
            }
            PreparedTest::TextOrder { field, op, numeric, test } => {
                let ValueRef::Text(wanted) = constant_side(&tests[test], rows) else { return 0 };
                let tells = |place: ColumnPlace, bytes: &[u8]| match place.decode(bytes) {
                    Some(ValueRef::Text(text)) if !numeric || !may_read_as_number(text) => {
                        Some(op.holds(text.cmp(wanted)))
                    }
                    _ => None,
                };
                keep_places(rows, (field, &tests[test]), selected, count, tells)
            }
            PreparedTest::Null { field, not, test } => {
                keep_places(rows, (field, &tests[test]), selected, count, |place, _| {
                    place.null().map(|null| null != not)
                })
            }
            PreparedTest::Any { test } => keep(selected, count, |row| any(&tests[test], rows, row)),
        }
    }
}

/// Narrows rows to the union of the parts' rows. A row met by one part is not asked of the parts
/// behind.
fn any_part(
    parts: &[Box<[PreparedTest]>],
    tests: &[Box<[Test]>],
    rows: LeafRows<'_>,
    selected: &mut [u8],
    count: usize,
) -> usize {
    let (mut holds, mut rest, mut left) = ([false; CHUNK], [0; CHUNK], count);
    rest[..count].copy_from_slice(&selected[..count]);
    for (part, tests) in parts.iter().zip(tests) {
        let (mut asked, mut found) = (rest, left);
        for test in part {
            found = test.select(tests, rows, &mut asked, found);
        }
        if found == 0 {
            continue;
        }
        asked[..found].iter().for_each(|&row| holds[usize::from(row)] = true);
        left = keep(&mut rest, left, |row| !holds[row]);
    }
    keep(selected, count, |row| holds[row])
}

/// The value compared with a comparison's field.
fn constant_side<'r>(test: &'r Test, rows: LeafRows<'r>) -> ValueRef<'r> {
    match test {
        Test::Compare { right, .. } => fixed(right, rows.parameters()),
        _ => ValueRef::Null,
    }
}

/// [`keep`] by a field: `stays` decides by the field's place and bytes, or else the test does. With
/// all rows on one page, the loop has no other branch and no call.
#[inline(always)]
fn keep_places(
    rows: LeafRows<'_>,
    (field, test): (usize, &Test),
    selected: &mut [u8],
    count: usize,
    stays: impl Fn(ColumnPlace, &[u8]) -> Option<bool>,
) -> usize {
    let Some((bytes, places, stride)) = rows.on_page() else {
        return keep(selected, count, |row| {
            let (place, bytes) = rows.place(row, field);
            stays(place, bytes).unwrap_or_else(|| any(test, rows, row))
        });
    };
    let places = places.get(field..).unwrap_or_default();
    let stays = |row: usize| stays(*places.get(row * stride)?, bytes);
    // With every row still selected, a row is its own number.
    let every = count == rows.cells();
    let row = |selected: &[u8], at: usize| if every { at } else { usize::from(selected[at]) };
    let (mut at, mut kept) = (0, 0);
    loop {
        (at, kept) = if every {
            keep_told(selected, at..count, kept, |_, at| at, stays)
        } else {
            keep_told(selected, at..count, kept, |selected, at| usize::from(selected[at]), stays)
        };
        if at >= count {
            return kept;
        }
        let row = row(selected, at);
        selected[kept] = row as u8;
        kept += usize::from(any(test, rows, row));
        at += 1;
    }
}

/// Goes on with [`keep`] over a range, with `kept` rows kept so far, up to the first row undecided
/// by `stays`; gives the row's number, and the number of rows kept.
#[inline(always)]
fn keep_told(
    selected: &mut [u8],
    range: Range<usize>,
    kept: usize,
    row: impl Fn(&[u8], usize) -> usize,
    stays: impl Fn(usize) -> Option<bool>,
) -> (usize, usize) {
    let (mut kept, end) = (kept, range.end);
    for at in range {
        let row = row(selected, at);
        let Some(stays) = stays(row) else { return (at, kept) };
        // A chunk has so few rows.
        selected[kept] = row as u8;
        kept += usize::from(stays);
    }
    (end, kept)
}

/// Moves the numbers of the staying rows to the front, without a branch on the outcome.
#[inline(always)]
pub(super) fn keep(selected: &mut [u8], count: usize, stays: impl Fn(usize) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..count.min(selected.len()) {
        let row = selected[at];
        selected[kept] = row;
        kept += usize::from(stays(usize::from(row)));
    }
    kept
}

/// True where two texts satisfy the rule exactly when their bytes are equal.
fn is_plain_equality(rule: &Comparison) -> bool {
    rule.op == CompareOp::Equal
        && rule.collation == Collation::Binary
        && !rule.affinity.is_some_and(Affinity::is_numeric)
}

/// A condition by its own rules.
#[inline(never)]
fn any(test: &Test, rows: LeafRows<'_>, row: usize) -> bool {
    let row = rows.found(row);
    test.holds(|operand| row.value(operand))
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
                }
            }
        }
        assert!(IntRange::of(CompareOp::Is, 3).is_none());
    }

    #[test]
    fn ranges_of_numbers_are_their_comparisons() {
        use CompareOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let large = (1_u64 << 52) as f64;
        let reals = [
            f64::NEG_INFINITY,
            f64::MIN,
            -large,
            1.0 - large,
            -2.5,
            -2.0,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            5e-324,
            0.5,
            1.0,
            30.0,
            30.5,
            large - 1.0,
            large,
            f64::MAX,
            f64::INFINITY,
        ];
        let ints = [i64::MIN, -3, -2, -1, 0, 1, 29, 30, 31, 1 << 52, (1 << 53) + 1, i64::MAX];
        for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
            let mut joined_value = 0;
            for value in reals {
                let Some((of_ints, of_reals)) = number_ranges(op, value) else { continue };
                joined_value += 1;
                for real in reals {
                    let expect = op.holds(real.partial_cmp(&value).unwrap());
                    assert_eq!(of_reals.has(order_of(real)), expect, "{real} {op:?} {value}");
                }
                for int in ints {
                    // The compared value is small: the rounding of a larger integer changes
                    // nothing.
                    let expect = op.holds((int as f64).partial_cmp(&value).unwrap());
                    assert_eq!(of_ints.has(int), expect, "{int} {op:?} {value}");
                }
            }
            assert!(joined_value >= 7, "{op:?}");
        }
        assert!(number_ranges(Less, f64::NAN).is_none());
        assert!(number_ranges(Less, large).is_none());
    }
}
