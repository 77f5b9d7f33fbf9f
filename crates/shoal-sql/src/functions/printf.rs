//! `printf`, alias `format`: C's conversions and SQLite's own (printf.html).
//!
//! An unknown conversion ends the output, as in SQLite.

use std::borrow::Cow;

use crate::value::{
    Decimal, Digits, Keep, ValueRef, decode, push_int, text_of, to_int, to_real, utf8,
};

/// Bytes being written; past a limit nothing more is appended.
pub(super) struct Output<'o> {
    bytes: &'o mut Vec<u8>,
    /// Largest length of `bytes`, counting the bytes there before.
    limit: usize,
    overflown: bool,
}

impl<'o> Output<'o> {
    /// Appends so many bytes at most.
    pub(super) fn new(bytes: &'o mut Vec<u8>, limit: usize) -> Output<'o> {
        let limit = bytes.len() + limit;
        Output { bytes, limit, overflown: false }
    }

    /// True once the limit was passed.
    pub(super) fn is_overflown(&self) -> bool {
        self.overflown
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

    /// True where `count` bytes more are within the limit; asked before they are allocated.
    fn room(&mut self, count: usize) -> bool {
        self.overflown |= count > self.limit.saturating_sub(self.bytes.len());
        !self.overflown
    }

    /// Pads a field written from `start` on with spaces on one side. `length` is the field's length
    /// in the unit of the width.
    fn end_field(&mut self, start: usize, length: usize, spec: Spec) {
        let fill = spec.width.saturating_sub(length);
        // The field itself must be within the limit, too.
        if self.room(fill) && fill > 0 {
            if spec.left {
                self.repeat(b' ', fill);
            } else {
                self.insert(start, b' ', fill);
            }
        }
        self.overflown |= self.bytes.len() > self.limit;
    }

    /// Puts a byte `count` times in front of the bytes from `start` on.
    fn insert(&mut self, start: usize, byte: u8, count: usize) {
        let end = self.bytes.len();
        self.bytes.resize(end + count, byte);
        self.bytes.copy_within(start..end, start + count);
        self.bytes[start..start + count].fill(byte);
    }
}

/// One conversion's flags and numbers: `%-+ #!0,width.precision`.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    /// `+` or a space in front of numbers zero and above.
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
    values: &'a [ValueRef<'a>],
}

impl<'a> Values<'a> {
    fn next(&mut self) -> Option<ValueRef<'a>> {
        let (first, rest) = self.values.split_first()?;
        self.values = rest;
        Some(*first)
    }

    fn int(&mut self) -> i64 {
        self.next().map_or(0, to_int)
    }

    /// A width or precision: the low 32 bits, as SQLite takes them.
    fn int32(&mut self) -> i32 {
        let [a, b, c, d, ..] = self.int().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }

    fn real(&mut self) -> f64 {
        self.next().map_or(0.0, to_real)
    }

    /// `None` for NULL and for no argument.
    fn text(&mut self) -> Option<Cow<'a, [u8]>> {
        Some(match text_of(self.next()?)? {
            Cow::Borrowed(text) => Cow::Borrowed(utf8::to_nul(text)),
            // Text made of a number has no NUL.
            text => text,
        })
    }
}

/// A parsed format.
#[derive(Debug)]
pub(super) struct Format {
    text: Vec<u8>,
    /// Range of the text in front of each conversion, with the conversion.
    pieces: Vec<(std::ops::Range<usize>, Option<Conversion>)>,
}

impl Format {
    pub(super) fn new(format: &[u8]) -> Format {
        let text = utf8::to_nul(format).to_vec();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let (length, conversion, read) = next_piece(&text[at..]);
            pieces.push((at..at + length, conversion));
            at += read;
        }
        Format { text, pieces }
    }

    /// Writes the format with its conversions replaced by the values, in order.
    pub(super) fn write(&self, output: &mut Output<'_>, values: &[ValueRef<'_>]) {
        let mut values = Values { values };
        for (text, conversion) in &self.pieces {
            if !write_piece(output, &self.text[text.clone()], *conversion, &mut values) {
                return;
            }
        }
    }
}

/// Writes `format` with its conversions replaced by the values, in order.
pub(super) fn printf(output: &mut Output<'_>, format: &[u8], values: &[ValueRef<'_>]) {
    let mut rest = utf8::to_nul(format);
    let mut values = Values { values };
    while !rest.is_empty() {
        let (length, conversion, read) = next_piece(rest);
        if !write_piece(output, &rest[..length], conversion, &mut values) {
            return;
        }
        rest = &rest[read..];
    }
}

/// One conversion: its letter, and the flags and numbers between `%` and the letter.
#[derive(Clone, Copy, Debug)]
struct Conversion {
    letter: u8,
    spec: Spec,
    /// True where nothing stands between `%` and the letter.
    plain: bool,
    /// True for `*`: the next value is the width. `takes_precision` says the same of the precision.
    takes_width: bool,
    takes_precision: bool,
}

/// The first piece of a format with text or a conversion: the length of its text, the conversion
/// behind the text, and where the next piece begins.
fn next_piece(format: &[u8]) -> (usize, Option<Conversion>, usize) {
    let Some(at) = format.iter().position(|&byte| byte == b'%') else {
        return (format.len(), None, format.len());
    };
    let rest = &format[at + 1..];
    if rest.is_empty() {
        return (at + 1, None, at + 1);
    }
    let mut conversion = Conversion {
        letter: 0,
        spec: Spec::default(),
        plain: false,
        takes_width: false,
        takes_precision: false,
    };
    let length = parse_spec(rest, &mut conversion);
    let Some(&letter) = rest.get(length) else { return (at, None, format.len()) };
    (conversion.letter, conversion.plain) = (letter, length == 0);
    (at, Some(conversion), at + 1 + length + 1)
}

/// Writes a text and a conversion; false ends the output.
#[inline]
fn write_piece(
    output: &mut Output<'_>,
    text: &[u8],
    conversion: Option<Conversion>,
    values: &mut Values<'_>,
) -> bool {
    output.push(text);
    let Some(conversion) = conversion else { return true };
    match conversion.letter {
        // Most conversions are these, with nothing between.
        b'd' if conversion.plain => {
            push_int(values.int(), output.bytes);
            output.overflown |= output.bytes.len() > output.limit;
            return true;
        }
        b's' if conversion.plain => {
            output.push(&values.text().unwrap_or_default());
            return true;
        }
        _ => {}
    }
    let mut spec = conversion.spec;
    if conversion.takes_width {
        let width = values.int32();
        spec.left |= width < 0;
        spec.width = usize::try_from(width.checked_abs().unwrap_or(0)).unwrap_or(0);
    }
    if conversion.takes_precision {
        let precision = values.int32().checked_abs();
        spec.precision = precision.and_then(|number| usize::try_from(number).ok());
    }
    convert(output, conversion.letter, spec, values) && !output.overflown
}

/// Reads the flags and numbers of a conversion; gives how many bytes they take.
fn parse_spec(text: &[u8], conversion: &mut Conversion) -> usize {
    let Conversion { spec, takes_width, takes_precision, .. } = conversion;
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
                    return at;
                }
                continue;
            }
            b'*' => {
                *takes_width = true;
                at += 1;
                if !matches!(text.get(at), Some(b'.' | b'l')) {
                    return at;
                }
                continue;
            }
            b'.' => {
                at += 1;
                if text.get(at) == Some(&b'*') {
                    at += 1;
                    *takes_precision = true;
                } else {
                    spec.precision = Some(digits(&mut at));
                }
                if text.get(at) != Some(&b'l') {
                    return at;
                }
                continue;
            }
            b'l' => {
                at += 1;
                if text.get(at) == Some(&b'l') {
                    at += 1;
                }
                return at;
            }
            _ => return at,
        }
        at += 1;
    }
}

/// Writes one conversion; false ends the output.
fn convert(output: &mut Output<'_>, conversion: u8, spec: Spec, values: &mut Values<'_>) -> bool {
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
fn pad(output: &mut Output<'_>, text: &[u8], length: usize, spec: Spec) {
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
    if !spec.wide {
        return text.len();
    }
    let extra = text.iter().filter(|&&byte| utf8::is_continuation(byte)).count();
    text.len() - extra
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

fn signed(output: &mut Output<'_>, int: i64, spec: Spec, ordinal: bool) {
    let sign = if int < 0 { Some(b'-') } else { spec.sign };
    let suffix: &[u8] = if ordinal { ordinal_suffix(int.unsigned_abs()) } else { b"" };
    integer(output, Digits::of(int.unsigned_abs()).as_bytes(), suffix, sign, b"", spec);
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

fn unsigned(output: &mut Output<'_>, number: u64, spec: Spec, radix: Radix) {
    let (bits, letters, prefix): (u32, &[u8; 16], &[u8]) = match radix {
        Radix::Decimal => {
            return integer(output, Digits::of(number).as_bytes(), b"", None, b"", spec);
        }
        Radix::Octal => (3, b"0123456789abcdef", b"0"),
        Radix::Hex => (4, b"0123456789abcdef", b"0x"),
        Radix::UpperHex => (4, b"0123456789ABCDEF", b"0X"),
        Radix::Pointer => (4, b"0123456789ABCDEF", b"0x"),
    };
    // 64 bits are at most 22 octal digits.
    let mut digits = [b'0'; 22];
    let (mut start, mut rest) = (digits.len(), number);
    while rest > 0 || start == digits.len() {
        start -= 1;
        digits[start] = letters[(rest & ((1 << bits) - 1)) as usize];
        rest >>= bits;
    }
    let spec = Spec { thousands: false, ..spec };
    let prefix = if spec.alternate && number != 0 { prefix } else { b"" };
    integer(output, &digits[start..], b"", None, prefix, spec);
}

/// Zeros, separators, sign and prefix around the digits of an integer.
fn integer(
    output: &mut Output<'_>,
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
    let start = output.bytes.len();
    output.bytes.extend_from_slice(prefix);
    output.bytes.extend(sign);
    let number = output.bytes.len();
    output.bytes.resize(number + zeros, b'0');
    output.bytes.extend_from_slice(digits);
    output.bytes.extend_from_slice(suffix);
    if spec.thousands {
        separate(output.bytes, number);
    }
    output.end_field(start, output.bytes.len() - start, spec);
}

/// Puts commas between groups of three of the digits from `start` on.
fn separate(text: &mut Vec<u8>, start: usize) {
    let digits = text.len() - start;
    let commas = digits.saturating_sub(1) / 3;
    text.resize(text.len() + commas, b',');
    let (mut from, mut to) = (start + digits, text.len());
    while to > from {
        text.copy_within(from - 3..from, to - 3);
        (from, to) = (from - 3, to - 4);
        text[to] = b',';
    }
}

const REAL_PRECISION_MAX: usize = 100_000_000;

fn real(output: &mut Output<'_>, value: f64, conversion: u8, spec: Spec) {
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
            let start = output.bytes.len();
            output.bytes.extend(sign.into_iter().chain(*b"Inf"));
            return output.end_field(start, output.bytes.len() - start, spec);
        }
        // Zeros cannot pad a word: SQLite shows a number past every real instead.
        decimal = Decimal { digits: Digits::of(9), point: 1000, ..decimal };
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

    let text = &mut *output.bytes;
    let start = text.len();
    text.extend(sign);
    let number = text.len();
    let digits = decimal.digits.as_bytes();
    text.extend_from_slice(&digits[..whole_digits.min(digits.len())]);
    text.resize(number + whole_digits.max(1), b'0');
    if spec.thousands && !scientific {
        separate(text, number);
    }
    if precision > 0 || spec.alternate || spec.wide {
        text.push(b'.');
        let point = if scientific { 1 } else { decimal.point };
        let zeros = usize::try_from(-point).unwrap_or(0).min(precision);
        text.resize(text.len() + zeros, b'0');
        let rest = digits.get(whole_digits..).unwrap_or_default();
        let kept = rest.len().min(precision - zeros);
        text.extend_from_slice(&rest[..kept]);
        if strip_zeros {
            strip(text, spec.wide);
        } else {
            text.resize(text.len() + precision - zeros - kept, b'0');
        }
    }
    if scientific {
        let letter = if conversion.is_ascii_uppercase() { b'E' } else { b'e' };
        text.extend_from_slice(&[letter, if exponent < 0 { b'-' } else { b'+' }]);
        if exponent.abs() < 10 {
            text.push(b'0');
        }
        text.extend_from_slice(Digits::of(exponent.unsigned_abs().into()).as_bytes());
    }
    let length = output.bytes.len() - start;
    if spec.zero_pad && !spec.left && length < spec.width {
        output.insert(number, b'0', spec.width - length);
    }
    output.end_field(start, output.bytes.len() - start, spec);
}

/// Drops zeros after the point, and the point unless one zero must stay behind the point.
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

fn string(output: &mut Output<'_>, text: &[u8], spec: Spec) {
    let text = cut(text, spec);
    pad(output, text, field_length(text, spec), spec);
}

/// The part of a text within the precision.
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

/// `%J`: a string of JSON, or `null`; `%j`: the text between the quotes.
fn json(output: &mut Output<'_>, text: Option<Cow<'_, [u8]>>, conversion: u8, spec: Spec) {
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
fn character(output: &mut Output<'_>, text: Option<Cow<'_, [u8]>>, spec: Spec) {
    let text = text.unwrap_or_default();
    let char = if text.is_empty() { b"\0" } else { &text[..utf8::read(&text, 0).1.min(4)] };
    let count = spec.precision.unwrap_or(1).max(1);
    if !output.room(char.len().saturating_mul(count)) {
        return;
    }
    pad(output, &char.repeat(count), count, spec);
}

/// `%q` doubles single quotes, `%Q` also stands between them, `%w` doubles double quotes.
fn quoted(output: &mut Output<'_>, text: Option<Cow<'_, [u8]>>, conversion: u8, spec: Spec) {
    let (text, enclosed) = match text {
        None if conversion == b'Q' => (Cow::Borrowed(&b"NULL"[..]), false),
        None => (Cow::Borrowed(&b"(NULL)"[..]), false),
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
    use crate::value::Value;

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
        check(
            "%,d %,d %,d %,09d|%+,8d|%-,8d|%o",
            &[0, 999, -1000, 1234567, 1000, 1000, -1].map(Value::Int),
            "0 999 -1,000 001,234,567|  +1,000|1,000   |1777777777777777777777",
        );
    }

    #[test]
    fn reals() {
        check(
            "%f %.2f %8.3f|%g %e",
            &[1.5, 2.345, 3.25159, 1e10, 12345.678].map(Value::Real),
            "1.500000 2.35    3.252|1e+10 1.234568e+04",
        );
        check("%!.15g %.0f %#.0f", &[0.1, 2.5, 2.0].map(Value::Real), "0.1 3 2.");
        check(
            "%,.2f %,.0f %+09.1f|%-9.1f|%.3e|%.2E",
            &[1234567.891, 999.0, 1.25, 1.25, 0.0, 1e100].map(Value::Real),
            "1,234,567.89 999 +000001.3|1.3      |0.000e+00|1.00E+100",
        );
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
