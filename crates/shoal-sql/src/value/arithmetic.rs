//! Operators on one or two values: `+ - * / % & | << >> ~ ||` and the sign.
//!
//! NULL on either side gives NULL. Integers stay integers until they overflow, then the whole
//! operation is done again in reals; text and blobs count by their numeric prefix.

use super::number::{to_int, to_numeric, to_real};
use super::{Value, ValueRef, text_of};

/// `left + right`.
pub(crate) fn add(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    arithmetic(left, right, i64::checked_add, |a, b| a + b)
}

/// `left - right`.
pub(crate) fn subtract(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    arithmetic(left, right, i64::checked_sub, |a, b| a - b)
}

/// `left * right`.
pub(crate) fn multiply(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    arithmetic(left, right, i64::checked_mul, |a, b| a * b)
}

/// `left / right`: integers give the quotient towards zero; a zero divisor gives NULL.
pub(crate) fn divide(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    if to_real(right) == 0.0 {
        return Value::Null;
    }
    arithmetic(left, right, i64::checked_div, |a, b| a / b)
}

/// `left % right`: both sides lose their fractions first; a zero divisor gives NULL.
///
/// The result takes the sign of `left`, and is a real when either side was one.
pub(crate) fn remainder(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    let rest = |a: i64, b: i64| match b {
        0 => None,
        // The lowest integer by -1 overflows in the machine; every remainder by -1 is 0.
        -1 => Some(0),
        b => Some(a % b),
    };
    match (to_numeric(left), to_numeric(right)) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Int(a), Value::Int(b)) => rest(a, b).map_or(Value::Null, Value::Int),
        _ => rest(to_int(left), to_int(right)).map_or(Value::Null, |rest| Value::Real(rest as f64)),
    }
}

/// `-value`.
pub(crate) fn negate(value: ValueRef<'_>) -> Value {
    subtract(ValueRef::Int(0), value)
}

/// `~value`.
pub(crate) fn bit_not(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        value => Value::Int(!to_int(value)),
    }
}

/// `left & right`.
pub(crate) fn bit_and(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    bits(left, right, |a, b| a & b)
}

/// `left | right`.
pub(crate) fn bit_or(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    bits(left, right, |a, b| a | b)
}

/// `left << right`; a negative count shifts right.
pub(crate) fn shift_left(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    bits(left, right, shifted)
}

/// `left >> right`, keeping the sign; a negative count shifts left.
pub(crate) fn shift_right(left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    bits(left, right, |value, count| shifted(value, count.saturating_neg()))
}

/// `left || right`: the texts of both, one after the other; text even where both are blobs. The
/// buffer of `spare`, a value no longer needed, is used again.
pub(crate) fn concat(spare: Value, left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    let (Some(left), Some(right)) = (text_of(left), text_of(right)) else { return Value::Null };
    let mut joined = match spare {
        Value::Text(buffer) => buffer,
        _ => Vec::new(),
    };
    joined.clear();
    joined.reserve(left.len() + right.len());
    joined.extend_from_slice(&left);
    joined.extend_from_slice(&right);
    Value::Text(joined)
}

fn arithmetic(
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    ints: impl Fn(i64, i64) -> Option<i64>,
    reals: impl Fn(f64, f64) -> f64,
) -> Value {
    match (left, right) {
        (ValueRef::Int(a), ValueRef::Int(b)) => {
            return ints(a, b).map_or_else(|| Value::real(reals(a as f64, b as f64)), Value::Int);
        }
        (ValueRef::Real(a), ValueRef::Real(b)) => return Value::real(reals(a, b)),
        _ => {}
    }
    match (to_numeric(left), to_numeric(right)) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::Int(a), Value::Int(b)) => {
            ints(a, b).map_or_else(|| Value::real(reals(a as f64, b as f64)), Value::Int)
        }
        (a, b) => Value::real(reals(to_real(a.as_ref()), to_real(b.as_ref()))),
    }
}

fn bits(left: ValueRef<'_>, right: ValueRef<'_>, op: impl Fn(i64, i64) -> i64) -> Value {
    match (left, right) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => Value::Null,
        (left, right) => Value::Int(op(to_int(left), to_int(right))),
    }
}

/// `value` shifted left by `count`, or right by a negative count.
fn shifted(value: i64, count: i64) -> i64 {
    let sign = if value < 0 { -1 } else { 0 };
    match count {
        64.. => 0,
        0..64 => value << count,
        -63..0 => value >> -count,
        _ => sign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueRef::{Int, Null, Real, Text};

    #[test]
    fn integers_overflow_to_reals() {
        assert_eq!(add(Int(i64::MAX), Int(1)), Value::Real(9223372036854775808.0));
        assert_eq!(divide(Int(i64::MIN), Int(-1)), Value::Real(9223372036854775808.0));
        assert_eq!(remainder(Int(i64::MIN), Int(-1)), Value::Int(0));
        assert_eq!(negate(Int(i64::MIN)), Value::Real(9223372036854775808.0));
    }

    #[test]
    fn zero_divisors_and_nulls() {
        assert_eq!(divide(Int(1), Int(0)), Value::Null);
        assert_eq!(divide(Real(1.0), Text(b"x")), Value::Null);
        assert_eq!(remainder(Int(1), Real(0.5)), Value::Null);
        assert_eq!(add(Null, Int(1)), Value::Null);
        assert_eq!(remainder(Real(7.9), Int(4)), Value::Real(3.0));
    }

    #[test]
    fn shifts_past_the_word() {
        assert_eq!(shift_left(Int(1), Int(64)), Value::Int(0));
        assert_eq!(shift_right(Int(-1), Int(200)), Value::Int(-1));
        assert_eq!(shift_left(Int(-8), Int(-2)), Value::Int(-2));
        assert_eq!(shift_left(Int(-8), Int(i64::MIN)), Value::Int(-1));
        assert_eq!(shift_right(Int(3), Int(-1)), Value::Int(6));
    }
}
