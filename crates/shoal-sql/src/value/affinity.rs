//! Column affinity: a column's preferred class of values (datatype3.html §3).

use super::number::{TextNumber, numeric_from_text, real_to_int};
use super::{Value, real_to_text};

/// The class of values preferred by a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Text of an integer or integral real becomes an integer.
    Integer,
    /// Numbers become text.
    Text,
    /// Nothing changes; also the affinity of no declared type.
    Blob,
    /// Text of a number becomes a real, integers become reals.
    Real,
    /// Text of a number becomes an integer or a real.
    Numeric,
}

impl Affinity {
    /// The affinity of a declared type, by SQLite's substring rules; no type at all is `Blob`.
    ///
    /// The words are looked for anywhere and in any case, `INT` first: `FLOATING POINT` is
    /// `Integer`, as in SQLite.
    pub fn of_declared_type(declared: &str) -> Affinity {
        if declared.is_empty() {
            return Affinity::Blob;
        }
        let has = |word: &str| {
            let mut places = declared.as_bytes().windows(word.len());
            places.any(|found| found.eq_ignore_ascii_case(word.as_bytes()))
        };
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// True for `Integer`, `Real` and `Numeric`.
    pub fn is_numeric(self) -> bool {
        matches!(self, Affinity::Integer | Affinity::Real | Affinity::Numeric)
    }

    /// The value as stored and read back by a column of this affinity.
    ///
    /// A real column gives back reals, whatever the record keeps. Text stays text unless all of it
    /// is a number; blobs and NULL never change.
    pub fn apply(self, value: Value) -> Value {
        match (self, value) {
            (Affinity::Blob, value) => value,
            (Affinity::Text, Value::Int(int)) => Value::text(int.to_string()),
            (Affinity::Text, Value::Real(real)) => Value::text(real_to_text(real)),
            (Affinity::Text, value) => value,
            (Affinity::Real, value) => match self.to_number(value) {
                Value::Int(int) => Value::Real(int as f64),
                value => value,
            },
            (Affinity::Integer | Affinity::Numeric, value) => self.to_number(value),
        }
    }

    /// The value converted for a comparison with a column of this affinity (datatype3.html §4.2).
    ///
    /// Only the order of the classes matters in a comparison, so an integral real may become an
    /// integer.
    pub fn apply_for_comparison(self, value: Value) -> Value {
        match self {
            Affinity::Real => Affinity::Numeric.apply(value),
            other => other.apply(value),
        }
    }

    /// True for most values [`Affinity::apply`] leaves alone, found without taking them.
    #[inline]
    pub(crate) fn keeps(self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Blob(_) => true,
            Value::Int(_) => {
                matches!(self, Affinity::Integer | Affinity::Numeric | Affinity::Blob)
            }
            Value::Text(_) => matches!(self, Affinity::Text | Affinity::Blob),
            Value::Real(_) => self == Affinity::Blob,
        }
    }

    fn to_number(self, value: Value) -> Value {
        match value {
            Value::Real(real) => integral(real),
            Value::Text(bytes) => match numeric_from_text(&bytes) {
                Some(TextNumber::Int(int)) => Value::Int(int),
                Some(TextNumber::Real(real)) => integral(real),
                None => Value::Text(bytes),
            },
            value => value,
        }
    }
}

/// An integral real as an integer, where no bit is lost and the ends of the range are avoided.
fn integral(real: f64) -> Value {
    let int = real_to_int(real);
    if int as f64 == real && int > i64::MIN && int < i64::MAX {
        Value::Int(int)
    } else {
        Value::real(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_follow_the_substring_rules() {
        let cases = [
            ("", Affinity::Blob),
            ("INTEGER", Affinity::Integer),
            ("tinyint(3)", Affinity::Integer),
            ("FLOATING POINT", Affinity::Integer),
            ("VARCHAR(10)", Affinity::Text),
            ("CHARBLOB", Affinity::Text),
            ("BLOBREAL", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Real),
            ("NUMERIC(10,2)", Affinity::Numeric),
            ("STRING", Affinity::Numeric),
            ("DATETIME", Affinity::Numeric),
        ];
        for (declared, expect) in cases {
            assert_eq!(Affinity::of_declared_type(declared), expect, "{declared}");
        }
    }

    #[test]
    fn affinity_changes_only_what_loses_nothing() {
        let apply = |affinity: Affinity, value: Value| affinity.apply(value);
        assert_eq!(apply(Affinity::Integer, "12".into()), Value::Int(12));
        assert_eq!(apply(Affinity::Integer, "12.0".into()), Value::Int(12));
        assert_eq!(apply(Affinity::Integer, "12.5".into()), Value::Real(12.5));
        assert_eq!(apply(Affinity::Integer, "12x".into()), "12x".into());
        assert_eq!(apply(Affinity::Real, Value::Int(3)), Value::Real(3.0));
        assert_eq!(apply(Affinity::Text, Value::Real(3.0)), "3.0".into());
        assert_eq!(
            apply(Affinity::Numeric, "9223372036854775808".into()),
            Value::Real(9223372036854775808.0)
        );
        assert_eq!(
            apply(Affinity::Numeric, Value::Blob(b"1".to_vec())),
            Value::Blob(b"1".to_vec())
        );
    }
}
