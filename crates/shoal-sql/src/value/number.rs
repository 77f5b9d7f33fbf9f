//! Text to numbers by SQLite's rules: the longest prefix, 19 significant digits, no hex.

use super::{Value, ValueRef};

/// A number found in text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TextNumber {
    Int(i64),
    Real(f64),
}

/// The result of [`parse_real`] for the front of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RealPrefix {
    /// The number, 0.0 where there is none.
    pub(crate) real: f64,
    /// True where any prefix is a number.
    pub(crate) found: bool,
    /// True where nothing but white space surrounds the number.
    pub(crate) whole: bool,
    /// True where the number has a decimal point or an exponent.
    pub(crate) fractional: bool,
}

/// White space by SQLite's `isspace`.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Reads the real at the front of a text; the text ends at its first NUL.
///
/// Only the first 19 or so significant digits count, then the result is the nearest double.
pub(crate) fn parse_real(text: &[u8]) -> RealPrefix {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let text = &text[..end];
    let at = |index: usize| text.get(index).copied().unwrap_or(0);
    let none = RealPrefix { real: 0.0, found: false, whole: false, fractional: false };
    let full = (u64::MAX - 9) / 10;

    let mut pos = 0;
    while is_space(at(pos)) {
        pos += 1;
    }
    let negative = at(pos) == b'-';
    if matches!(at(pos), b'-' | b'+') {
        pos += 1;
    }

    let mut mantissa = 0u64;
    let mut exponent = 0i64;
    let mut found = false;
    let mut fractional = false;
    while at(pos).is_ascii_digit() {
        found = true;
        if mantissa >= full {
            exponent += 1;
        } else {
            mantissa = mantissa * 10 + u64::from(at(pos) - b'0');
        }
        pos += 1;
    }
    if at(pos) == b'.' {
        let digits = at(pos + 1).is_ascii_digit();
        if !found && !digits {
            return none;
        }
        pos += 1;
        found = true;
        fractional = true;
        while at(pos).is_ascii_digit() {
            if mantissa < full {
                mantissa = mantissa * 10 + u64::from(at(pos) - b'0');
                exponent -= 1;
            }
            pos += 1;
        }
    } else if !found {
        return none;
    }
    if matches!(at(pos), b'e' | b'E') {
        let mut digit = pos + 1;
        let shrinks = at(digit) == b'-';
        if matches!(at(digit), b'-' | b'+') {
            digit += 1;
        }
        if at(digit).is_ascii_digit() {
            fractional = true;
            let mut power = 0i64;
            while at(digit).is_ascii_digit() {
                power =
                    if power < 10_000 { power * 10 + i64::from(at(digit) - b'0') } else { 10_000 };
                digit += 1;
            }
            exponent += if shrinks { -power } else { power };
            pos = digit;
        }
    }

    let magnitude = scaled(mantissa, exponent);
    let whole = text[pos..].iter().all(|&byte| is_space(byte));
    RealPrefix { real: if negative { -magnitude } else { magnitude }, found, whole, fractional }
}

/// The double nearest to `mantissa * 10^exponent`; infinite above the range.
pub(crate) fn scaled(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 || exponent < -348 {
        return 0.0;
    }
    if exponent > 347 {
        return f64::INFINITY;
    }
    if exponent == 0 {
        return mantissa as f64;
    }
    // Where both are exact as doubles, one operation rounds once.
    if mantissa <= 1 << f64::MANTISSA_DIGITS
        && let Some(&power) =
            usize::try_from(exponent.unsigned_abs()).ok().and_then(|at| EXACT_POWERS.get(at))
    {
        let mantissa = mantissa as f64;
        return if exponent < 0 { mantissa / power } else { mantissa * power };
    }
    // The standard parser is exact; its input is at most 25 bytes of its own grammar.
    format!("{mantissa}e{exponent}").parse().unwrap_or(0.0)
}

/// The powers of ten exact as doubles.
static EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The end of the integer found by [`integer_text_prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntEnd {
    /// Nothing but white space around the integer.
    Whole,
    /// Other text follows.
    Extra,
    /// No digits.
    None,
    /// Does not fit; the value was clamped.
    Overflow,
}

/// Reads the integer at the front of a text, clamped to 64 bits.
pub(crate) fn integer_text_prefix(text: &[u8]) -> (i64, IntEnd) {
    let mut pos = text.iter().take_while(|&&byte| is_space(byte)).count();
    let negative = text.get(pos) == Some(&b'-');
    if matches!(text.get(pos), Some(b'-' | b'+')) {
        pos += 1;
    }
    let start = pos;
    let mut value = 0i128;
    let mut overflow = false;
    while let Some(digit) = text.get(pos).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + i128::from(digit - b'0');
        if value > 1 << 63 {
            overflow = true;
            value = 1 << 63;
        }
        pos += 1;
    }
    if negative {
        value = -value;
    }
    let clamped = value.clamp(i64::MIN.into(), i64::MAX.into());
    let int = i64::try_from(clamped).unwrap_or(i64::MAX);
    let end = if overflow || clamped != value {
        IntEnd::Overflow
    } else if pos == start {
        IntEnd::None
    } else if text[pos..].iter().all(|&byte| is_space(byte)) {
        IntEnd::Whole
    } else {
        IntEnd::Extra
    };
    (int, end)
}

/// The number a whole text is, or `None` when any byte is not part of the number.
pub(crate) fn numeric_from_text(text: &[u8]) -> Option<TextNumber> {
    let prefix = parse_real(text);
    if !prefix.whole {
        return None;
    }
    if !prefix.fractional {
        let int = real_to_int(prefix.real);
        if same_as_int(prefix.real, int) {
            return Some(TextNumber::Int(int));
        }
        if let (int, IntEnd::Whole) = integer_text_prefix(text) {
            return Some(TextNumber::Int(int));
        }
    }
    Some(TextNumber::Real(prefix.real))
}

/// The number of a text or blob in arithmetic: its prefix, or 0.
pub(crate) fn arithmetic_number(text: &[u8]) -> TextNumber {
    let prefix = parse_real(text);
    if !prefix.fractional {
        let (int, end) = integer_text_prefix(text);
        let fits = match end {
            IntEnd::Whole => true,
            IntEnd::Extra | IntEnd::None => !prefix.whole,
            IntEnd::Overflow => false,
        };
        if fits {
            return TextNumber::Int(int);
        }
    }
    TextNumber::Real(prefix.real)
}

/// True where a real and its cast to an integer are the same number, within 51 bits.
pub(crate) fn same_as_int(real: f64, int: i64) -> bool {
    real == 0.0
        || (real.to_bits() == (int as f64).to_bits()
            && (-2251799813685248..2251799813685248).contains(&int))
}

/// The integer part of a real, clamped to 64 bits.
pub(crate) fn real_to_int(real: f64) -> i64 {
    if real < -9223372036854774784.0 {
        i64::MIN
    } else if real > 9223372036854774784.0 {
        i64::MAX
    } else {
        real as i64
    }
}

/// The value as an integer: reals lose their fraction, text and blobs give their integer prefix.
pub(crate) fn to_int(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Int(int) => int,
        ValueRef::Real(real) => real_to_int(real),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => integer_text_prefix(bytes).0,
    }
}

/// The value as a real: text and blobs give their numeric prefix, NULL gives 0.
pub(crate) fn to_real(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Null => 0.0,
        ValueRef::Int(int) => int as f64,
        ValueRef::Real(real) => real,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => parse_real(bytes).real,
    }
}

/// The value for arithmetic: an integer, a real or NULL.
pub(crate) fn to_numeric(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Int(int) => Value::Int(int),
        ValueRef::Real(real) => Value::real(real),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match arithmetic_number(bytes) {
            TextNumber::Int(int) => Value::Int(int),
            TextNumber::Real(real) => Value::real(real),
        },
    }
}

/// The value of an integer literal, decimal or `0x` hexadecimal, without a sign.
///
/// A decimal too large for 64 bits is a real, as in SQLite; hexadecimal wraps into the sign bit.
/// `None` when the digits are not digits or a hexadecimal has more than 16 of them. A minus sign
/// before `9223372036854775808` is the caller's to fold: the result here is a real.
pub(crate) fn integer_literal(text: &str) -> Option<Value> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() && text.len() > 2 {
            return Some(Value::Int(0));
        }
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        return u64::from_str_radix(digits, 16).ok().map(|bits| Value::Int(bits.cast_signed()));
    }
    match integer_text_prefix(text.as_bytes()) {
        (int, IntEnd::Whole) => Some(Value::Int(int)),
        (_, IntEnd::Overflow) => Some(Value::Real(parse_real(text.as_bytes()).real)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let cases: [(&str, f64, bool, bool); 9] = [
            ("12", 12.0, true, false),
            (" 12.5 ", 12.5, true, true),
            ("1e3x", 1000.0, false, true),
            ("1e", 1.0, false, false),
            (".5", 0.5, true, true),
            ("5.", 5.0, true, true),
            ("-0x10", -0.0, false, false),
            ("1e400", f64::INFINITY, true, true),
            ("1e-400", 0.0, true, true),
        ];
        for (text, real, whole, fractional) in cases {
            let got = parse_real(text.as_bytes());
            assert_eq!(got, RealPrefix { real, found: true, whole, fractional }, "{text}");
        }
        for text in ["", "abc", ".", "-", "+.e1"] {
            assert!(!parse_real(text.as_bytes()).found, "{text}");
        }
    }

    #[test]
    fn integers_clamp() {
        assert_eq!(integer_text_prefix(b"9223372036854775807"), (i64::MAX, IntEnd::Whole));
        assert_eq!(integer_text_prefix(b"9223372036854775808"), (i64::MAX, IntEnd::Overflow));
        assert_eq!(integer_text_prefix(b"-9223372036854775808x"), (i64::MIN, IntEnd::Extra));
        assert_eq!(integer_text_prefix(b"-99999999999999999999"), (i64::MIN, IntEnd::Overflow));
        assert_eq!(integer_text_prefix(b"x"), (0, IntEnd::None));
    }

    #[test]
    fn literals() {
        assert_eq!(integer_literal("0x10"), Some(Value::Int(16)));
        assert_eq!(integer_literal("0xffffffffffffffff"), Some(Value::Int(-1)));
        assert_eq!(integer_literal("0x10000000000000000"), None);
        assert_eq!(integer_literal("9223372036854775808"), Some(Value::Real(-(i64::MIN as f64))));
    }
}
