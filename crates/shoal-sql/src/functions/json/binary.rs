//! JSONB: JSON as SQLite keeps documents in blobs (jsonb.html). An element is a header (the kind in
//! the low half of the first byte, the length in the high half or the bytes after) and a payload.
//!
//! Numbers and strings are texts, as written: the extensions of JSON5 have kinds of their own, and
//! become strict JSON where the element becomes text.

use std::borrow::Cow;

use super::malformed;
use super::parse::INFINITE;
use super::path::{Key, Step};
use super::text::unescape;
use crate::Error;
use crate::value::number::{IntEnd, integer_text_prefix, parse_real};
use crate::value::{Value, real_to_text, utf8};

pub(super) const NULL: u8 = 0;
pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const INT: u8 = 3;
pub(super) const INT5: u8 = 4;
pub(super) const FLOAT: u8 = 5;
pub(super) const FLOAT5: u8 = 6;
pub(super) const TEXT: u8 = 7;
pub(super) const TEXT_ESCAPED: u8 = 8;
pub(super) const TEXT5: u8 = 9;
pub(super) const TEXT_RAW: u8 = 10;
pub(super) const ARRAY: u8 = 11;
pub(super) const OBJECT: u8 = 12;

/// The deepest nesting of arrays and objects, as in SQLite.
pub(super) const DEPTH_MAX: usize = 1000;

/// The kind, the payload and the bytes behind the element.
pub(super) fn header(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (length, rest) = match first >> 4 {
        length @ 0..12 => (usize::from(length), rest),
        wide => {
            let width = 1usize << (wide - 12);
            let (length, rest) = rest.split_at_checked(width)?;
            let length = length.iter().try_fold(0usize, |length, &byte| {
                length.checked_mul(256)?.checked_add(usize::from(byte))
            })?;
            (length, rest)
        }
    };
    let (payload, rest) = rest.split_at_checked(length)?;
    Some((first & 15, payload, rest))
}

/// The kind of the element at `at`, and the start and end of its payload.
///
/// # Errors
/// Without an element at `at`.
pub(super) fn bounds(blob: &[u8], at: usize) -> Result<(u8, usize, usize), Error> {
    let bytes = blob.get(at..).unwrap_or_default();
    let (kind, payload, rest) = header(bytes).ok_or_else(malformed)?;
    let end = blob.len() - rest.len();
    Ok((kind, end - payload.len(), end))
}

/// Appends an element with the shortest header.
pub(super) fn push_part(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(payload);
    close(kind, start, out);
}

/// Puts the shortest header before a payload from `start` to the end of `out`.
pub(super) fn close(kind: u8, start: usize, out: &mut Vec<u8>) {
    let (header, length) = short_header(kind, out.len() - start);
    out.splice(start..start, header.into_iter().take(length));
}

/// The shortest header, and its length.
pub(super) fn short_header(kind: u8, length: usize) -> ([u8; 9], usize) {
    let mut header = [0; 9];
    let width = match length {
        0..12 => 0,
        12..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    set_header(&mut header, kind, length, width);
    (header, 1 + width)
}

/// Writes a header whose length takes `width` bytes behind the first; 0 for the first's own half.
pub(super) fn set_header(header: &mut [u8], kind: u8, length: usize, width: usize) {
    let bytes = (length as u64).to_be_bytes();
    if width == 0 {
        header[0] = bytes[7] << 4 | kind;
    } else {
        let wide = u8::try_from(12 + width.trailing_zeros()).unwrap_or(15);
        header[0] = wide << 4 | kind;
        header[1..=width].copy_from_slice(&bytes[8 - width..]);
    }
}

/// A value of SQL as an element; a text becomes a raw string.
///
/// # Errors
/// A blob with malformed JSONB.
pub(super) fn of_value(value: &Value) -> Result<Cow<'_, [u8]>, Error> {
    let mut out = Vec::new();
    match value {
        Value::Null => out.push(NULL),
        Value::Int(int) => push_part(INT, int.to_string().as_bytes(), &mut out),
        Value::Real(real) if real.is_infinite() => {
            push_part(FLOAT, if *real > 0.0 { INFINITE } else { b"-9e999" }, &mut out);
        }
        Value::Real(real) => push_part(FLOAT, real_to_text(*real).as_bytes(), &mut out),
        Value::Text(text) => push_part(TEXT_RAW, text, &mut out),
        Value::Blob(blob) if super::valid::looks_right(blob) => return Ok(Cow::Borrowed(blob)),
        Value::Blob(_) => return Err(super::no_blobs()),
    }
    Ok(Cow::Owned(out))
}

/// An element as strict JSON without white space.
///
/// # Errors
/// Malformed JSONB within the element.
pub(super) fn to_text(element: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(element.len() + 2);
    write(element, 0, &mut out)?;
    Ok(out)
}

/// Appends the element at the front of `bytes` as text; gives the bytes behind the element.
fn write<'a>(bytes: &'a [u8], depth: usize, out: &mut Vec<u8>) -> Result<&'a [u8], Error> {
    let (kind, payload, rest) = header(bytes).ok_or_else(malformed)?;
    if (ARRAY..=OBJECT).contains(&kind) && depth >= DEPTH_MAX {
        return Err(too_deep());
    }
    match kind {
        NULL => out.extend_from_slice(b"null"),
        TRUE => out.extend_from_slice(b"true"),
        FALSE => out.extend_from_slice(b"false"),
        INT | INT5 | FLOAT | FLOAT5 if payload.is_empty() => return Err(malformed()),
        INT | FLOAT => out.extend_from_slice(payload),
        INT5 => write_hex(payload, out)?,
        FLOAT5 => write_json5_real(payload, out),
        TEXT | TEXT_ESCAPED => {
            out.push(b'"');
            out.extend_from_slice(payload);
            out.push(b'"');
        }
        TEXT5 => write_json5_text(payload, out)?,
        TEXT_RAW => push_quoted(payload, out),
        ARRAY => {
            out.push(b'[');
            let mut inner = payload;
            while !inner.is_empty() {
                inner = write(inner, depth + 1, out)?;
                if !inner.is_empty() {
                    out.push(b',');
                }
            }
            out.push(b']');
        }
        OBJECT => {
            out.push(b'{');
            let mut inner = payload;
            while !inner.is_empty() {
                inner = write(inner, depth + 1, out)?;
                out.push(b':');
                inner = write(inner, depth + 1, out)?;
                if !inner.is_empty() {
                    out.push(b',');
                }
            }
            out.push(b'}');
        }
        _ => return Err(malformed()),
    }
    Ok(rest)
}

/// An element over many lines.
///
/// # Errors
/// As of [`to_text`].
pub(super) fn to_pretty(element: &[u8], indent: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(element.len() * 2);
    write_pretty(element, indent, 0, &mut out)?;
    Ok(out)
}

fn write_pretty<'a>(
    bytes: &'a [u8],
    indent: &[u8],
    level: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    let (kind, payload, rest) = header(bytes).ok_or_else(malformed)?;
    let brackets = match kind {
        ARRAY => [b'[', b']'],
        OBJECT => [b'{', b'}'],
        _ => return write(bytes, level, out),
    };
    let line = |out: &mut Vec<u8>, level: usize| {
        out.push(b'\n');
        (0..level).for_each(|_| out.extend_from_slice(indent));
    };
    out.push(brackets[0]);
    let mut inner = payload;
    if !inner.is_empty() && level + 1 >= DEPTH_MAX {
        return Err(too_deep());
    }
    while !inner.is_empty() {
        line(out, level + 1);
        if kind == OBJECT {
            inner = write(inner, level + 1, out)?;
            out.extend_from_slice(b": ");
        }
        inner = write_pretty(inner, indent, level + 1, out)?;
        if inner.is_empty() {
            line(out, level);
        } else {
            out.push(b',');
        }
    }
    out.push(brackets[1]);
    Ok(rest)
}

/// The digits of a hexadecimal number as a decimal one.
fn write_hex(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let digits = match payload {
        [b'-', digits @ ..] => {
            out.push(b'-');
            digits
        }
        [b'+', digits @ ..] => digits,
        digits => digits,
    };
    let mut number = Some(0_u64);
    for &digit in digits.get(2..).unwrap_or_default() {
        let digit = char::from(digit).to_digit(16).ok_or_else(malformed)?;
        number =
            number.filter(|number| number >> 60 == 0).map(|number| number << 4 | u64::from(digit));
    }
    match number {
        Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
        None => out.extend_from_slice(b"9.0e999"),
    }
    Ok(())
}

/// Appends a real of JSON5, whose payload may begin or end with the point.
fn write_json5_real(payload: &[u8], out: &mut Vec<u8>) {
    let number = payload.strip_prefix(b"-").unwrap_or(payload);
    out.extend_from_slice(&payload[..payload.len() - number.len()]);
    if number.first() == Some(&b'.') {
        out.push(b'0');
    }
    for (place, &byte) in number.iter().enumerate() {
        out.push(byte);
        if byte == b'.' && !number.get(place + 1).is_some_and(u8::is_ascii_digit) {
            out.push(b'0');
        }
    }
}

/// Appends a string with the escapes of JSON5 made escapes of JSON.
fn write_json5_text(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'"');
    let mut rest = payload;
    while let Some(&byte) = rest.first() {
        let mut length = 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            0..0x20 => push_control(byte, out),
            b'\\' => {
                let (escape, strict): (usize, &[u8]) = match &rest[1..] {
                    [b'\'', ..] => (2, b"'"),
                    [b'v', ..] => (2, b"\\u000b"),
                    [b'x', _, _, ..] => (4, b"\\u00"),
                    [b'0', ..] => (2, b"\\u0000"),
                    [b'\r', b'\n', ..] => (3, b""),
                    [b'\r' | b'\n', ..] => (2, b""),
                    [0xe2, 0x80, 0xa8 | 0xa9, ..] => (4, b""),
                    [] | [b'x' | 0xe2, ..] => return Err(malformed()),
                    [_, ..] => (2, &rest[..2]),
                };
                out.extend_from_slice(strict);
                if rest[1] == b'x' {
                    out.extend_from_slice(&rest[2..4]);
                }
                length = escape;
            }
            _ => out.push(byte),
        }
        rest = &rest[length..];
    }
    out.push(b'"');
    Ok(())
}

/// Appends a text of SQL as a string of JSON.
pub(super) fn push_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    let mut rest = text;
    let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => push_control(byte, out),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// True where no byte of a text is escaped in a string of JSON; eight bytes are tested at a time.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    // Bits of bytes below `limit`, at most 128. A borrow may set more bits, but none where no byte
    // is below.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & (ONES << 7);
    let same = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let special = |word: u64| below(word, 0x20) | same(word, b'"') | same(word, b'\\');
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().fold(0, |all, word| all | special(u64::from_le_bytes(*word)));
    all | special(u64::from_le_bytes(last)) == 0
}

fn push_control(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        8 => b'b',
        9 => b't',
        10 => b'n',
        12 => b'f',
        13 => b'r',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// A scalar as SQL's own value; an array or an object as JSON text or, with `blob`, as JSONB.
///
/// # Errors
/// Malformed JSONB within the element.
pub(super) fn to_value(element: &[u8], blob: bool) -> Result<Value, Error> {
    let (kind, payload, rest) = header(element).ok_or_else(malformed)?;
    Ok(match kind {
        NULL | TRUE | FALSE if !payload.is_empty() => return Err(malformed()),
        NULL => Value::Null,
        TRUE => Value::Int(1),
        FALSE => Value::Int(0),
        INT | INT5 => int_value(payload)?,
        FLOAT | FLOAT5 => real_value(payload)?,
        TEXT..=TEXT_RAW => Value::Text(text_value(kind, payload).into_owned()),
        ARRAY | OBJECT if blob => Value::Blob(element[..element.len() - rest.len()].to_vec()),
        ARRAY | OBJECT => Value::Text(to_text(element)?),
        _ => return Err(malformed()),
    })
}

fn int_value(payload: &[u8]) -> Result<Value, Error> {
    let number = payload.strip_prefix(b"-").unwrap_or(payload);
    let negative = number.len() < payload.len();
    if let [b'0', b'x' | b'X', digits @ ..] = number {
        let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
        let number = u64::from_str_radix(digits, 16).map_err(|_| malformed())?;
        return Ok(match i64::try_from(number) {
            Ok(int) => Value::Int(if negative { -int } else { int }),
            Err(_) => Value::real(if negative { -(number as f64) } else { number as f64 }),
        });
    }
    match integer_text_prefix(payload) {
        (int, IntEnd::Whole) => Ok(Value::Int(int)),
        _ => real_value(payload),
    }
}

fn real_value(payload: &[u8]) -> Result<Value, Error> {
    let read = parse_real(payload);
    if read.found && read.whole { Ok(Value::real(read.real)) } else { Err(malformed()) }
}

/// The text value of SQL for a string.
pub(super) fn text_value(kind: u8, payload: &[u8]) -> Cow<'_, [u8]> {
    match kind {
        TEXT_ESCAPED | TEXT5 if payload.contains(&b'\\') => Cow::Owned(unescape(payload)),
        _ => Cow::Borrowed(payload),
    }
}

/// True where there is an array at `at`.
pub(super) fn is_array(blob: &[u8], at: usize) -> bool {
    blob.get(at).is_some_and(|first| first & 15 == ARRAY)
}

/// The number of elements of an array, 0 of anything else.
///
/// # Errors
/// Malformed JSONB within the element.
pub(super) fn array_length(element: &[u8]) -> Result<usize, Error> {
    let (kind, mut inner, _) = header(element).ok_or_else(malformed)?;
    let mut count = 0;
    while kind == ARRAY && !inner.is_empty() {
        (_, _, inner) = header(inner).ok_or_else(malformed)?;
        count += 1;
    }
    Ok(count)
}

/// An element within another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    /// Where the label begins, of a member of an object.
    pub(super) label: Option<usize>,
    /// Where the element itself begins.
    pub(super) at: usize,
}

/// The outcome of one step of a path.
#[derive(Debug)]
pub(super) enum Found {
    Child(Child),
    /// No element, but a place for a new one: behind the last member or item.
    End(usize),
    /// Nothing at all.
    Nothing,
}

/// Follows one step from the element at `at`.
///
/// # Errors
/// Malformed JSONB before the sought element.
pub(super) fn child(blob: &[u8], at: usize, step: &Step<'_>) -> Result<Found, Error> {
    let (kind, first, end) = bounds(blob, at)?;
    let mut place = first;
    let index = match step {
        Step::Key(key) => {
            while kind == OBJECT && place < end {
                let (label_kind, label, value) = bounds(blob, place)?;
                if !(TEXT..=TEXT_RAW).contains(&label_kind) || value >= end {
                    return Err(malformed());
                }
                if key.names(label_kind, &blob[label..value]) {
                    return Ok(Found::Child(Child { label: Some(place), at: value }));
                }
                (_, _, place) = bounds(blob, value)?;
            }
            return Ok(if kind == OBJECT { Found::End(end) } else { Found::Nothing });
        }
        Step::Index(index) => *index,
        Step::FromEnd(back) => match array_length(&blob[at..])?.checked_sub(*back) {
            Some(index) => index,
            None => return Ok(Found::Nothing),
        },
    };
    let mut left = index;
    while kind == ARRAY && place < end {
        if left == 0 {
            return Ok(Found::Child(Child { label: None, at: place }));
        }
        left -= 1;
        (_, _, place) = bounds(blob, place)?;
    }
    Ok(if kind == ARRAY && left == 0 { Found::End(end) } else { Found::Nothing })
}

impl Key<'_> {
    /// True where a label with these bytes is the sought one.
    pub(super) fn names(&self, kind: u8, label: &[u8]) -> bool {
        let raw = matches!(kind, TEXT | TEXT_RAW);
        same_label(self.text, !self.escaped, label, raw)
    }
}

/// True where two labels are the same text; raw labels have no escapes.
pub(super) fn same_label(a: &[u8], a_raw: bool, b: &[u8], b_raw: bool) -> bool {
    if a_raw && b_raw {
        return a == b;
    }
    let plain = |text, raw| if raw { Cow::Borrowed(text) } else { Cow::Owned(unescape(text)) };
    utf8::to_nul(&plain(a, a_raw)) == utf8::to_nul(&plain(b, b_raw))
}

pub(super) fn too_deep() -> Error {
    Error::runtime("JSON nested too deep")
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn there_and_back() {
        for text in [r#"{"a":[1,2.5,"x\n",null,true,false],"b":{}}"#, "[]", "\"\"", "-12"] {
            let blob = parse(text.as_bytes()).unwrap();
            assert_eq!(to_text(&blob).unwrap(), text.as_bytes(), "{text}");
        }
        for length in [11, 12, 255, 256, 65_535, 65_536] {
            let long = format!("[\"{}\"]", "x".repeat(length));
            let blob = parse(long.as_bytes()).unwrap();
            assert_eq!(to_text(&blob).unwrap(), long.as_bytes());
        }
    }

    #[test]
    fn every_byte_is_quoted_wherever_it_is() {
        for byte in 0..=u8::MAX {
            for (before, after) in (0..18).map(|before| (before, 17 - before)) {
                let text = [&[b'z'].repeat(before)[..], &[byte], &[0x80].repeat(after)].concat();
                let escaped = byte < 0x20 || matches!(byte, b'"' | b'\\');
                assert_eq!(is_plain(&text), !escaped, "{text:?}");
                let mut quoted = Vec::new();
                push_quoted(&text, &mut quoted);
                let inner = &quoted[1..quoted.len() - 1];
                assert_eq!(super::super::unescape(inner), text, "{text:?}");
                assert_eq!(inner.len() > text.len(), escaped, "{text:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_jsonb() {
        for bytes in [&b""[..], b"\x1d", b"\x2c\x13\x31", b"\xf3", b"\x1b\x23", b"\x29\\x"] {
            assert!(to_text(bytes).is_err(), "{bytes:?}");
        }
        let mut nested = vec![0x0b];
        for _ in 0..DEPTH_MAX {
            close(ARRAY, 0, &mut nested);
        }
        assert!(to_text(&nested).is_err());
    }

    #[test]
    fn values_of_numbers() {
        let value = |text: &str| to_value(&parse(text.as_bytes()).unwrap(), false).unwrap();
        assert_eq!(value("-0x10"), Value::Int(-16));
        assert_eq!(value("0xffffffffffffffff"), Value::Real(18_446_744_073_709_551_615.0));
        assert_eq!(value("-9223372036854775808"), Value::Int(i64::MIN));
        assert_eq!(value("9223372036854775808"), Value::Real(9_223_372_036_854_775_808.0));
        assert_eq!(value("-.5"), Value::Real(-0.5));
        let long = parse(b"0x11111111111111111").unwrap();
        assert!(to_value(&long, false).is_err());
    }
}
