//! `printf`, alias `format`: C's conversions and SQLite's own (printf.html).
//!
//! An unknown conversion ends the output, as it does in SQLite.

use crate::value::{Decimal, Keep, Value, decode, text_of, to_int, to_real, utf8};

/// Bytes being written, which give up past a limit instead of growing.
pub(super) struct Output {
    bytes: Vec<u8>,
    limit: usize,
    overflown: bool,
}

impl Output {
    pub(super) fn new(limit: usize) -> Output {
        Output { bytes: Vec::new(), limit, overflown: false }
    }

    /// What was written, or `None` when the limit was passed.
    pub(super) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.overflown).then_some(self.bytes)
    }

    /// Appends bytes, unless they pass the limit.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn repeat(&mut self, byte: u8, count: usize) {
        if self.room(count) {
            self.bytes.resize(self.bytes.len() + count, byte);
        }
    }

    /// Whether so many bytes more are within the limit; asked before they are allocated.
    fn room(&mut self, count: usize) -> bool {
        self.overflown |= count > self.limit - self.bytes.len();
        !self.overflown
    }
}

/// One conversion's flags and numbers: `%-+ #!0,width.precision`.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    /// `+` or a space in front of numbers that are not negative.
    sign: Option<u8>,
    /// `#`.
    alternate: bool,
    /// `!`.
    wide: bool,
    zero_pad: bool,
    thousands: bool,
    width: usize,
    precision: Option<usize>,
}

struct Values<'a> {
    values: &'a [Value],
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Option<&'a Value> {
        let (first, rest) = self.values.split_first()?;
        self.values = rest;
        Some(first)
    }

    fn int(&mut self) -> i64 {
        self.next().map_or(0, |value| to_int(value.as_ref()))
    }

    /// A width or precision: the low 32 bits, as SQLite takes them.
    fn int32(&mut self) -> i32 {
        let [a, b, c, d, ..] = self.int().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }

    fn real(&mut self) -> f64 {
        self.next().map_or(0.0, |value| to_real(value.as_ref()))
    }

    /// `None` for NULL and for no argument.
    fn text(&mut self) -> Option<Vec<u8>> {
        let text = text_of(self.next()?.as_ref())?;
        Some(utf8::to_nul(&text).to_vec())
    }
}

/// Writes `format` with its conversions replaced by the values, in order.
pub(super) fn printf(output: &mut Output, format: &[u8], values: &[Value]) {
    let mut rest = utf8::to_nul(format);
    let mut values = Values { values };
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        output.push(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.is_empty() {
            output.push(b"%");
            return;
        }
        let (spec, length) = parse_spec(rest, &mut values);
        let Some(&conversion) = rest.get(length) else { return };
        rest = &rest[length + 1..];
        if !convert(output, conversion, spec, &mut values) || output.overflown {
            return;
        }
    }
    output.push(rest);
}

/// Reads the flags and numbers of a conversion; gives how many bytes they take.
fn parse_spec(text: &[u8], values: &mut Values<'_>) -> (Spec, usize) {
    let mut spec = Spec::default();
    let mut at = 0;
    let digits = |at: &mut usize| {
        // Wraps as SQLite's 32 bits do, then the top bit is dropped.
        let mut number = 0u32;
        while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
            number = number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
            *at += 1;
        }
        usize::try_from(number & 0x7fff_ffff).unwrap_or(0)
    };
    loop {
        let byte = text.get(at).copied().unwrap_or(0);
        match byte {
            b'-' => spec.left = true,
            b'+' | b' ' => spec.sign = Some(byte),
            b'#' => spec.alternate = true,
            b'!' => spec.wide = true,
            b'0' => spec.zero_pad = true,
            b',' => spec.thousands = true,
            b'1'..=b'9' => {
                spec.width = digits(&mut at);
                if !matches!(text.get(at), Some(b'.' | b'l')) {
                    return (spec, at);
                }
                continue;
            }
            b'*' => {
                let width = values.int32();
                spec.left |= width < 0;
                spec.width = usize::try_from(width.checked_abs().unwrap_or(0)).unwrap_or(0);
                at += 1;
                if !matches!(text.get(at), Some(b'.' | b'l')) {
                    return (spec, at);
                }
                continue;
            }
            b'.' => {
                at += 1;
                if text.get(at) == Some(&b'*') {
                    at += 1;
                    let precision = values.int32().checked_abs();
                    spec.precision = precision.and_then(|number| usize::try_from(number).ok());
                } else {
                    spec.precision = Some(digits(&mut at));
                }
                if text.get(at) != Some(&b'l') {
                    return (spec, at);
                }
                continue;
            }
            b'l' => {
                at += 1;
                if text.get(at) == Some(&b'l') {
                    at += 1;
                }
                return (spec, at);
            }
            _ => return (spec, at),
        }
        at += 1;
    }
}

/// Writes one conversion; false ends the output.
fn convert(output: &mut Output, conversion: u8, spec: Spec, values: &mut Values<'_>) -> bool {
    match conversion {
        b'd' | b'i' => signed(output, values.int(), spec, false),
        b'r' => signed(output, values.int(), Spec { thousands: false, ..spec }, true),
        b'u' => unsigned(output, values.int().cast_unsigned(), spec, Radix::Decimal),
        b'o' => unsigned(output, values.int().cast_unsigned(), spec, Radix::Octal),
        b'x' => unsigned(output, values.int().cast_unsigned(), spec, Radix::Hex),
        b'p' => unsigned(output, values.int().cast_unsigned(), spec, Radix::Pointer),
        b'X' => unsigned(output, values.int().cast_unsigned(), spec, Radix::UpperHex),
        b'f' | b'e' | b'E' | b'g' | b'G' => real(output, values.real(), conversion, spec),
        b's' | b'z' => string(output, &values.text().unwrap_or_default(), spec),
        b'c' => character(output, values.text(), spec),
        b'q' | b'Q' | b'w' => quoted(output, values.text(), conversion, spec),
        b'j' | b'J' => json(output, values.text(), conversion, spec),
        b'%' => pad(output, b"%", 1, spec),
        b'n' => {}
        _ => return false,
    }
    true
}

/// Writes a text into its field. `length` is its length in the unit of the width.
fn pad(output: &mut Output, text: &[u8], length: usize, spec: Spec) {
    let fill = spec.width.saturating_sub(length);
    if !spec.left {
        output.repeat(b' ', fill);
    }
    output.push(text);
    if spec.left {
        output.repeat(b' ', fill);
    }
}

/// Length for [`pad`]: characters where `!` asks for them, else bytes.
fn field_length(text: &[u8], spec: Spec) -> usize {
    let extra = text.iter().filter(|&&byte| utf8::is_continuation(byte)).count();
    if spec.wide { text.len() - extra } else { text.len() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Radix {
    Decimal,
    Octal,
    Hex,
    UpperHex,
    /// Capitals behind a small `0x`.
    Pointer,
}

fn signed(output: &mut Output, int: i64, spec: Spec, ordinal: bool) {
    let sign = if int < 0 { Some(b'-') } else { spec.sign };
    let suffix: &[u8] = if ordinal { ordinal_suffix(int.unsigned_abs()) } else { b"" };
    integer(output, int.unsigned_abs().to_string().as_bytes(), suffix, sign, b"", spec);
}

fn ordinal_suffix(number: u64) -> &'static [u8] {
    match (number % 100 / 10, number % 10) {
        (1, _) => b"th",
        (_, 1) => b"st",
        (_, 2) => b"nd",
        (_, 3) => b"rd",
        _ => b"th",
    }
}

fn unsigned(output: &mut Output, number: u64, spec: Spec, radix: Radix) {
    let (digits, prefix): (String, &[u8]) = match radix {
        Radix::Decimal => (number.to_string(), b""),
        Radix::Octal => (format!("{number:o}"), b"0"),
        Radix::Hex => (format!("{number:x}"), b"0x"),
        Radix::UpperHex => (format!("{number:X}"), b"0X"),
        Radix::Pointer => (format!("{number:X}"), b"0x"),
    };
    let spec = Spec { thousands: spec.thousands && radix == Radix::Decimal, ..spec };
    let prefix = if spec.alternate && number != 0 { prefix } else { b"" };
    integer(output, digits.as_bytes(), b"", None, prefix, spec);
}

/// Zeros, separators, sign and prefix around the digits of an integer.
fn integer(
    output: &mut Output,
    digits: &[u8],
    suffix: &[u8],
    sign: Option<u8>,
    prefix: &[u8],
    spec: Spec,
) {
    let mut precision = spec.precision.unwrap_or(0);
    if spec.zero_pad {
        precision = precision.max(spec.width.saturating_sub(usize::from(sign.is_some())));
    }
    let zeros = precision.saturating_sub(digits.len() + suffix.len());
    if !output.room(zeros) {
        return;
    }
    let mut text = vec![b'0'; zeros];
    text.extend_from_slice(digits);
    text.extend_from_slice(suffix);
    if spec.thousands {
        text = separated(&text);
    }
    let mut field = Vec::from(prefix);
    field.extend(sign);
    field.extend_from_slice(&text);
    pad(output, &field, field.len(), spec);
}

/// Commas between groups of three digits.
fn separated(digits: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(digits.len() + digits.len() / 3);
    for (index, &digit) in digits.iter().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(b',');
        }
        text.push(digit);
    }
    text
}

const REAL_PRECISION_MAX: usize = 100_000_000;

fn real(output: &mut Output, value: f64, conversion: u8, spec: Spec) {
    let general = matches!(conversion, b'g' | b'G');
    let mut precision = spec.precision.unwrap_or(6).min(REAL_PRECISION_MAX);
    if general {
        precision = precision.max(1);
    }
    let count = i32::try_from(precision).unwrap_or(i32::MAX);
    let keep = match conversion {
        b'f' => Keep::Decimals(count),
        b'e' | b'E' => Keep::Significant(count + 1),
        _ => Keep::Significant(count),
    };
    let mut decimal = decode(value, keep, if spec.wide { 20 } else { 16 });
    if decimal.infinite {
        if !spec.zero_pad {
            let sign = if decimal.negative { Some(b'-') } else { spec.sign };
            let text: Vec<u8> = sign.into_iter().chain(*b"Inf").collect();
            return pad(output, &text, text.len(), spec);
        }
        // Zeros cannot pad a word: SQLite shows a number past every real instead.
        decimal = Decimal { digits: b"9".to_vec(), point: 1000, ..decimal };
    }
    let hides_minus =
        spec.alternate && spec.sign.is_none() && conversion == b'f' && decimal.point <= -count;
    let sign = match decimal.negative {
        true if hides_minus => None,
        true => Some(b'-'),
        false => spec.sign,
    };

    let exponent = decimal.point - 1;
    let (scientific, strip_zeros) = if general {
        let precision_end = i32::try_from(precision).unwrap_or(i32::MAX) - 1;
        let scientific = exponent < -4 || exponent > precision_end;
        let after = if scientific { precision_end } else { precision_end - exponent };
        precision = usize::try_from(after).unwrap_or(0);
        (scientific, !spec.alternate)
    } else {
        (conversion != b'f', spec.wide)
    };
    let whole_digits = if scientific { 1 } else { usize::try_from(decimal.point).unwrap_or(0) };
    if !output.room(whole_digits.saturating_add(precision).saturating_add(spec.width)) {
        return;
    }

    let mut text: Vec<u8> = sign.into_iter().collect();
    let digits = &decimal.digits;
    let mut whole = digits[..whole_digits.min(digits.len())].to_vec();
    whole.resize(whole_digits.max(1), b'0');
    text.extend(if spec.thousands && !scientific { separated(&whole) } else { whole });
    if precision > 0 || spec.alternate || spec.wide {
        text.push(b'.');
        let point = if scientific { 1 } else { decimal.point };
        let zeros = usize::try_from(-point).unwrap_or(0).min(precision);
        text.resize(text.len() + zeros, b'0');
        let rest = digits.get(whole_digits..).unwrap_or_default();
        let kept = rest.len().min(precision - zeros);
        text.extend_from_slice(&rest[..kept]);
        if strip_zeros {
            strip(&mut text, spec.wide);
        } else {
            text.resize(text.len() + precision - zeros - kept, b'0');
        }
    }
    if scientific {
        let letter = if conversion.is_ascii_uppercase() { b'E' } else { b'e' };
        let sign = if exponent < 0 { '-' } else { '+' };
        text.push(letter);
        text.extend_from_slice(format!("{sign}{:02}", exponent.abs()).as_bytes());
    }
    if spec.zero_pad && !spec.left && text.len() < spec.width {
        let zeros = spec.width - text.len();
        let at = usize::from(sign.is_some());
        text.splice(at..at, std::iter::repeat_n(b'0', zeros));
    }
    pad(output, &text, text.len(), spec);
}

/// Drops zeros after the point, and the point, unless one zero must stay behind it.
fn strip(text: &mut Vec<u8>, keep_one: bool) {
    while text.last() == Some(&b'0') {
        text.pop();
    }
    if text.last() == Some(&b'.') {
        if keep_one {
            text.push(b'0');
        } else {
            text.pop();
        }
    }
}

fn string(output: &mut Output, text: &[u8], spec: Spec) {
    let text = cut(text, spec);
    pad(output, text, field_length(text, spec), spec);
}

/// As much of a text as the precision says.
fn cut(text: &[u8], spec: Spec) -> &[u8] {
    let end = match spec.precision {
        None => text.len(),
        Some(precision) if spec.wide => {
            let mut end = 0;
            for _ in 0..precision.min(text.len()) {
                end = utf8::skip(text, end);
            }
            end
        }
        Some(precision) => precision.min(text.len()),
    };
    &text[..end]
}

/// `%J`: a string of JSON, or `null`; `%j`: what stands between its quotes.
fn json(output: &mut Output, text: Option<Vec<u8>>, conversion: u8, spec: Spec) {
    let whole = conversion == b'J';
    let field = match &text {
        Some(text) => super::json::quoted(utf8::to_nul(cut(text, spec))),
        None if whole => b"null".to_vec(),
        None => b"\"\"".to_vec(),
    };
    let field = if whole { &field } else { &field[1..field.len() - 1] };
    pad(output, field, field_length(field, spec), spec);
}

/// `%c`: the first character of a text, as often as the precision says.
fn character(output: &mut Output, text: Option<Vec<u8>>, spec: Spec) {
    let text = text.unwrap_or_default();
    let char = if text.is_empty() { b"\0" } else { &text[..utf8::read(&text, 0).1.min(4)] };
    let count = spec.precision.unwrap_or(1).max(1);
    if !output.room(char.len().saturating_mul(count)) {
        return;
    }
    pad(output, &char.repeat(count), count, spec);
}

/// `%q` doubles single quotes, `%Q` also stands between them, `%w` doubles double quotes.
fn quoted(output: &mut Output, text: Option<Vec<u8>>, conversion: u8, spec: Spec) {
    let (text, enclosed) = match text {
        None if conversion == b'Q' => (b"NULL".to_vec(), false),
        None => (b"(NULL)".to_vec(), false),
        Some(text) => (text, conversion == b'Q'),
    };
    let quote = if conversion == b'w' { b'"' } else { b'\'' };
    let mut end = text.len();
    if let Some(precision) = spec.precision {
        end = 0;
        for _ in 0..precision.min(text.len()) {
            end = if spec.wide { utf8::skip(&text, end) } else { text.len().min(end + 1) };
        }
    }
    let text = &text[..end];
    // `#` writes control characters as `unistr` reads them; `%#Q` only where there is one.
    let control = text.iter().any(|&byte| byte < 0x20);
    let escapes = spec.alternate && quote == b'\'' && (control || !enclosed);
    let (open, close): (&[u8], &[u8]) = match (enclosed, escapes) {
        (false, _) => (b"", b""),
        (true, false) => (b"'", b"'"),
        (true, true) => (b"unistr('", b"')"),
    };
    let mut field = Vec::with_capacity(end + 2);
    field.extend_from_slice(open);
    for &byte in text {
        if escapes && byte < 0x20 {
            field.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            continue;
        }
        field.push(byte);
        if byte == quote || (escapes && byte == b'\\') {
            field.push(byte);
        }
    }
    field.extend_from_slice(close);
    pad(output, &field, field_length(&field, spec), spec);
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    fn check(format: &str, values: &[Value], expect: &str) {
        let mut arguments = vec![format.into()];
        arguments.extend_from_slice(values);
        assert_eq!(call("printf", &arguments).unwrap(), expect.into(), "{format}");
    }

    #[test]
    fn integers() {
        check("%d %5d|%-5d|%05d %+d", &[1, 2, 3, 4, 5].map(Value::Int), "1     2|3    |00004 +5");
        check(
            "%,d %x %#x %X %o %u",
            &[1234567, 255, 255, 255, 8, -1].map(Value::Int),
            "1,234,567 ff 0xff FF 10 18446744073709551615",
        );
        check("%lld %ld %*d", &[1, 2, 4, 3].map(Value::Int), "1 2    3");
        check("%d", &[Value::Int(i64::MIN)], "-9223372036854775808");
    }

    #[test]
    fn reals() {
        check(
            "%f %.2f %8.3f|%g %e",
            &[1.5, 2.345, 3.25159, 1e10, 12345.678].map(Value::Real),
            "1.500000 2.35    3.252|1e+10 1.234568e+04",
        );
        check("%!.15g %.0f %#.0f", &[0.1, 2.5, 2.0].map(Value::Real), "0.1 3 2.");
        check("%f %010f", &[f64::INFINITY, -1.5].map(Value::Real), "Inf -01.500000");
    }

    #[test]
    fn texts() {
        check(
            "%s|%5s|%-5s|%.2s|%%",
            &["a".into(), "b".into(), "c".into(), "defg".into()],
            "a|    b|c    |de|%",
        );
        check(
            "%q %Q %w %Q",
            &["it's".into(), "it's".into(), "a\"b".into(), Value::Null],
            "it''s 'it''s' a\"\"b NULL",
        );
        check("%!5.1s|%c|%.3c", &["éa".into(), "éa".into(), "x".into()], "    é|é|xxx");
        check("a%yb", &[Value::Int(1)], "a");
        check("50%", &[], "50%");
    }

    #[test]
    fn fields_are_bounded() {
        let huge = call("printf", &["%2000000000d".into(), Value::Int(1)]).unwrap_err();
        assert_eq!(huge.to_string(), "string or blob too big");
    }
}
