//! Two values by an operator: comparison with its affinity and collation, `IN`, arithmetic by name.

use std::cmp::Ordering;

use super::{Affinity, Collation, Value, ValueRef};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    BitAnd,
    BitOr,
    ShiftLeft,
    ShiftRight,
    Concat,
}

/// A comparison and its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) op: CompareOp,
    /// Affinity applied to both sides first; `None` compares both unchanged.
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Equal, with two NULLs equal.
    Is,
    IsNot,
}

impl CompareOp {
    /// True where the comparison holds for two values in this order, neither NULL.
    #[inline]
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal | Self::Is => order.is_eq(),
            Self::NotEqual | Self::IsNot => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterEqual => order.is_ge(),
        }
    }

    /// The same comparison with its sides exchanged.
    pub(crate) fn flipped(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessEqual => CompareOp::GreaterEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterEqual => CompareOp::LessEqual,
            other => other,
        }
    }
}

/// The rules of one `IN`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRule {
    pub(crate) not: bool,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
}

/// `AND` of two truth values; `None` is NULL.
pub(crate) fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// The value of `left op right`.
pub(crate) fn arithmetic(op: ArithmeticOp, left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    match op {
        ArithmeticOp::Add => super::add(left, right),
        ArithmeticOp::Subtract => super::subtract(left, right),
        ArithmeticOp::Multiply => super::multiply(left, right),
        ArithmeticOp::Divide => super::divide(left, right),
        ArithmeticOp::Remainder => super::remainder(left, right),
        ArithmeticOp::BitAnd => super::bit_and(left, right),
        ArithmeticOp::BitOr => super::bit_or(left, right),
        ArithmeticOp::ShiftLeft => super::shift_left(left, right),
        ArithmeticOp::ShiftRight => super::shift_right(left, right),
        ArithmeticOp::Concat => super::concat(Value::Null, left, right),
    }
}

/// The comparison's answer; NULL on either side gives none, except for `IS`.
pub(crate) fn compare_by(
    rule: Comparison,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Option<bool> {
    match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => {
            return Some(rule.op.holds(left.cmp(&right)));
        }
        (ValueRef::Real(left), ValueRef::Real(right))
            if let Some(order) = left.partial_cmp(&right) =>
        {
            return Some(rule.op.holds(order));
        }
        _ => {}
    }
    let null = left == ValueRef::Null || right == ValueRef::Null;
    if null {
        let equal = left == right;
        return match rule.op {
            CompareOp::Is => Some(equal),
            CompareOp::IsNot => Some(!equal),
            _ => None,
        };
    }
    let order = compare_values(left, right, rule.affinity, rule.collation);
    Some(rule.op.holds(order))
}

/// Orders two values after giving both an affinity, if one of them is text at all.
fn compare_values(
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    affinity: Option<Affinity>,
    collation: Collation,
) -> Ordering {
    let (left_text, right_text) =
        (matches!(left, ValueRef::Text(_)), matches!(right, ValueRef::Text(_)));
    match affinity {
        Some(affinity)
            if (left_text || right_text) && (affinity.is_numeric() || left_text != right_text) =>
        {
            // Texts such as dates are no numbers, as their first bytes tell: nothing is copied.
            if affinity.is_numeric() && !(reads_as_number(left) || reads_as_number(right)) {
                return left.compare(right, collation);
            }
            let left = affinity.apply_for_comparison(left.into());
            let right = affinity.apply_for_comparison(right.into());
            left.as_ref().compare(right.as_ref(), collation)
        }
        _ => left.compare(right, collation),
    }
}

/// True for a text a numeric affinity may turn into a number.
#[inline]
fn reads_as_number(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Text(text) if may_read_as_number(text))
}

/// True for the text of every number, and few others: texts like a number up to the first byte
/// behind the digits.
#[inline]
pub(crate) fn may_read_as_number(text: &[u8]) -> bool {
    let space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let rest = &text[text.iter().take_while(|byte| space(byte)).count()..];
    let unsigned = match rest {
        [b'+' | b'-', unsigned @ ..] => unsigned,
        _ => rest,
    };
    let digits = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match unsigned.get(digits) {
        None => digits > 0,
        Some(b'.') => true,
        Some(byte) => digits > 0 && (space(byte) || matches!(byte, b'e' | b'E' | 0)),
    }
}

/// True where a value is one of some; NULL where only a NULL could tell.
pub(crate) fn is_in_values<'v>(
    value: ValueRef<'v>,
    items: impl ExactSizeIterator<Item = ValueRef<'v>>,
    rule: InRule,
) -> Option<bool> {
    if items.len() == 0 {
        return Some(false);
    }
    if value == ValueRef::Null {
        return None;
    }
    let mut null = false;
    for item in items {
        if item == ValueRef::Null {
            null = true;
        } else if compare_values(value, item, rule.affinity, rule.collation).is_eq() {
            return Some(true);
        }
    }
    if null { None } else { Some(false) }
}

/// True where a comparison holds. The common pairs are compared here, the others by [`compare_by`].
#[inline]
pub(crate) fn holds(rule: &Comparison, left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
    let order = match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => left.cmp(&right),
        (ValueRef::Int(_) | ValueRef::Real(_), ValueRef::Int(_) | ValueRef::Real(_)) => {
            left.compare(right, Collation::Binary)
        }
        (ValueRef::Text(left), ValueRef::Text(right))
            if !rule.affinity.is_some_and(Affinity::is_numeric)
                || !(may_read_as_number(left) || may_read_as_number(right)) =>
        {
            if rule.op == CompareOp::Equal && rule.collation == Collation::Binary {
                return left == right;
            }
            rule.collation.compare(left, right)
        }
        _ => return compare_by(*rule, left, right) == Some(true),
    };
    rule.op.holds(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_counts_only_where_there_is_text() {
        let text = ValueRef::Text;
        let numeric = Some(Affinity::Numeric);
        let check = |left, right, affinity, expect| {
            let order = compare_values(left, right, affinity, Collation::Binary);
            assert_eq!(order, expect, "{left:?} {right:?} {affinity:?}");
        };
        check(text(b"10"), ValueRef::Int(9), numeric, Ordering::Greater);
        check(text(b"10"), text(b"9"), numeric, Ordering::Greater);
        check(text(b"10"), text(b"9"), None, Ordering::Less);
        check(text(b"10"), ValueRef::Int(10), Some(Affinity::Text), Ordering::Equal);
        check(text(b"10"), ValueRef::Int(10), None, Ordering::Greater);
        check(text(b"x"), ValueRef::Int(10), numeric, Ordering::Greater);
    }

    #[test]
    fn a_text_that_reads_as_a_number_is_always_told() {
        let numbers =
            ["1", " 12 ", "-3", "+4.5", ".5", "-.5e3", "1e5", "2.", "\x0b7", "7\x0b", "0"];
        for text in numbers {
            let value = Affinity::Numeric.apply(Value::text(text));
            let is_text = matches!(value, Value::Text(_));
            assert!(is_text || may_read_as_number(text.as_bytes()), "{text:?}");
        }
        for text in ["", " ", "1994-01-01", "a", "-", "+x", "e5", "12th", "--1"] {
            let value = Affinity::Numeric.apply(Value::text(text));
            assert!(matches!(value, Value::Text(_)), "{text:?}");
            assert!(!may_read_as_number(text.as_bytes()), "{text:?}");
        }
    }
}
