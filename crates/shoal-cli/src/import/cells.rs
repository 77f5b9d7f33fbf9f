//! Numbers in texts: the texts read as numbers, and the values a column of each type takes.

use std::fmt;

use shoal_sql::ValueRef;

use super::target::{Column, Inferred, Target};
use super::types::Type;

/// A text's number, when the text can be rebuilt from the number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Real(f64),
}

/// The number written as `text`; `None` for other texts, and for texts saying more than the number
/// would, as `007` and `1.00000000000000000001` do.
pub(super) fn number(text: &[u8]) -> Option<Number> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let first = *digits.first()?;
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    if digits.iter().all(u8::is_ascii_digit) {
        let canonical = first != b'0' || digits.len() == 1 && text.len() == 1;
        return if canonical { integer(text).map(Number::Int) } else { None };
    }
    let (mut significant, mut leading) = (0, true);
    let mantissa = digits.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    for byte in mantissa.filter(|byte| **byte != b'.') {
        leading &= *byte == b'0';
        significant += u32::from(!leading);
    }
    let padded = first == b'0' && digits.get(1).is_some_and(u8::is_ascii_digit);
    if significant > REAL_DIGITS || padded {
        return None;
    }
    let plain = digits
        .iter()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'));
    let real: f64 = std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()?;
    real.is_finite().then_some(Number::Real(real))
}

/// Most significant decimal digits of a text kept as a double: all doubles print in 17.
const REAL_DIGITS: u32 = 17;

/// Digits with a sign, as far as they fit.
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let mut value: i64 = 0;
    for byte in digits {
        let digit = i64::from(byte - b'0');
        value = value.checked_mul(10)?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// A text outside the type of its column.
#[derive(Debug)]
pub(super) struct NotThatType {
    text: String,
    wanted: Type,
}

impl NotThatType {
    /// True when the column's type was inferred from a sample ending before this text.
    pub(super) fn is_after_sample(&self, target: &Target) -> bool {
        target.sampled && self.wanted != Type::Text
    }
}

impl fmt::Display for NotThatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wanted {
            Type::Text => write!(f, "not UTF-8: {}", self.text),
            wanted => write!(f, "not of type {}: {}", wanted.name(), self.text),
        }
    }
}

/// Why a text is no value of its column.
pub(super) enum Misfit {
    /// Of the type inferred from the beginning of the input: the whole input may have another.
    Rethink,
    Wrong(NotThatType),
}

/// The text as a value of a column made for its input. `rethinks` holds a type inferred from the
/// beginning against the text: what is given then is what the type of the whole input would give.
pub(super) fn value_of<'t>(
    text: &'t [u8],
    column: &Column,
    rethinks: bool,
) -> Result<ValueRef<'t>, Misfit> {
    let wanted = if column.as_it_stands { Type::Text } else { column.kind };
    let rethinks = rethinks && column.inferred != Inferred::Not;
    if rethinks && column.inferred == Inferred::FromNothing && !text.is_empty() {
        return Err(Misfit::Rethink);
    }
    match typed(text, wanted) {
        // Beside integers as large as this, doubles are no type for all.
        Ok(ValueRef::Real(real)) if rethinks && real.abs() >= EXACT_REALS => Err(Misfit::Rethink),
        Ok(value) => Ok(value),
        Err(_) if rethinks && wanted != Type::Text => Err(Misfit::Rethink),
        Err(wrong) => Err(Misfit::Wrong(wrong)),
    }
}

/// Doubles have all integers up to there.
const EXACT_REALS: f64 = (1_u64 << 53) as f64;

/// The text as a value of a column of type `wanted`. An empty text in a column of numbers is NULL.
pub(super) fn typed(text: &[u8], wanted: Type) -> Result<ValueRef<'_>, NotThatType> {
    let wrong = || {
        let shown: String = String::from_utf8_lossy(text).chars().take(SHOWN).collect();
        NotThatType { text: format!("{shown:?}"), wanted }
    };
    match wanted {
        Type::Text | Type::Any => match std::str::from_utf8(text) {
            Ok(_) => Ok(ValueRef::Text(text)),
            Err(_) => Err(NotThatType { wanted: Type::Text, ..wrong() }),
        },
        _ if text.is_empty() => Ok(ValueRef::Null),
        Type::Integer => match number(text) {
            Some(Number::Int(value)) => Ok(ValueRef::Int(value)),
            _ => Err(wrong()),
        },
        Type::Real => match number(text) {
            Some(Number::Int(value)) => Ok(ValueRef::Real(value as f64)),
            Some(Number::Real(value)) => Ok(ValueRef::Real(value)),
            None => Err(wrong()),
        },
    }
}

/// Most characters of a value shown in an error.
const SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_numbers() {
        let check = |text: &str, expect: Option<Number>| {
            assert_eq!(number(text.as_bytes()), expect, "{text}");
        };
        check("0", Some(Number::Int(0)));
        check("-12", Some(Number::Int(-12)));
        check("9223372036854775807", Some(Number::Int(i64::MAX)));
        check("-9223372036854775808", Some(Number::Int(i64::MIN)));
        check("1.50", Some(Number::Real(1.5)));
        check("-0.5", Some(Number::Real(-0.5)));
        check(".5", Some(Number::Real(0.5)));
        check("1e3", Some(Number::Real(1000.0)));
        check("0.000000000000000012345", Some(Number::Real(1.2345e-17)));
        for text in [
            "",
            "-",
            "+1",
            "007",
            "-0",
            "00.5",
            "1_000",
            " 1",
            "1 ",
            "0x10",
            "9223372036854775808",
            "1e999",
            "nan",
            "inf",
            "-inf",
            "1.2.3",
            ".",
            "e5",
            "1.00000000000000000001",
            "--1",
            "1e",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_column_takes_what_it_is_for() {
        assert_eq!(typed(b"", Type::Integer).ok(), Some(ValueRef::Null));
        assert_eq!(typed(b"", Type::Text).ok(), Some(ValueRef::Text(b"")));
        assert_eq!(typed(b"7", Type::Real).ok(), Some(ValueRef::Real(7.0)));
        assert_eq!(
            typed(b"x", Type::Integer).unwrap_err().to_string(),
            "not of type INTEGER: \"x\""
        );
        assert!(typed(b"\xff", Type::Text).unwrap_err().to_string().starts_with("not UTF-8"));
    }
}
