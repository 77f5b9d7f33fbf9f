//! `CAST(value AS type)` (lang_expr.html §14).

use super::number::{IntEnd, integer_text_prefix, parse_real, real_to_int, same_as_int};
use super::{Affinity, Value, ValueRef, text_of, to_int, to_real};

/// Converts a value by force to a class, given as the affinity of the type's name.
///
/// A cast to a type with an empty name is numeric in SQLite: callers pass that affinity.
pub(crate) fn cast(value: ValueRef<'_>, to: Affinity) -> Value {
    match (value, to) {
        (ValueRef::Null, _) => Value::Null,
        (value, Affinity::Blob) => {
            text_of(value).map_or(Value::Null, |b| Value::Blob(b.into_owned()))
        }
        (value, Affinity::Text) => {
            text_of(value).map_or(Value::Null, |b| Value::Text(b.into_owned()))
        }
        (value, Affinity::Integer) => Value::Int(to_int(value)),
        (value, Affinity::Real) => Value::real(to_real(value)),
        (ValueRef::Text(bytes) | ValueRef::Blob(bytes), Affinity::Numeric) => numeric(bytes),
        (value, Affinity::Numeric) => value.into(),
    }
}

/// The number at the front of a text: an integer wherever one says the same.
fn numeric(bytes: &[u8]) -> Value {
    let prefix = parse_real(bytes);
    if !prefix.fractional {
        let (int, end) = integer_text_prefix(bytes);
        if end != IntEnd::Overflow {
            return Value::Int(int);
        }
    }
    let int = real_to_int(prefix.real);
    if same_as_int(prefix.real, int) { Value::Int(int) } else { Value::Real(prefix.real) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_enough() {
        let text = ValueRef::Text;
        assert_eq!(cast(text(b"12abc"), Affinity::Integer), Value::Int(12));
        assert_eq!(cast(text(b"1e3"), Affinity::Integer), Value::Int(1));
        assert_eq!(cast(text(b"1e3"), Affinity::Numeric), Value::Int(1000));
        assert_eq!(cast(text(b"1.5x"), Affinity::Numeric), Value::Real(1.5));
        assert_eq!(cast(text(b"x"), Affinity::Real), Value::Real(0.0));
        assert_eq!(cast(ValueRef::Real(-2.9), Affinity::Integer), Value::Int(-2));
        assert_eq!(cast(ValueRef::Int(65), Affinity::Blob), Value::Blob(b"65".to_vec()));
    }
}
