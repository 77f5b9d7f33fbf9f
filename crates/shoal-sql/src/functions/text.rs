//! Functions of text and blobs. Positions and lengths of text count characters, of blobs bytes.
//!
//! Texts end at their first NUL wherever SQLite's C strings do.

use super::printf::{self, Format, Output};
use super::{Arguments, Env, Kept, LENGTH_MAX, ScalarFunction, too_big};
use crate::Error;
use crate::value::{
    GLOB, LIKE, PATTERN_BYTES_MAX, Pattern, Value, ValueRef, like_escape, real_to_text, text_of,
    to_int, utf8,
};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("char", Arguments::at_least(0), char_of),
    ScalarFunction::new("concat", Arguments::at_least(1), |arguments, _| join(b"", arguments)),
    ScalarFunction::new("concat_ws", Arguments::at_least(2), concat_ws),
    ScalarFunction::text("format", Arguments::at_least(0), format),
    ScalarFunction::text("printf", Arguments::at_least(0), format),
    ScalarFunction::new("glob", Arguments::exactly(2), |arguments, _| matches(GLOB, arguments)),
    ScalarFunction::new("like", Arguments::between(2, 3), |arguments, _| matches(LIKE, arguments)),
    ScalarFunction::new("hex", Arguments::exactly(1), hex),
    ScalarFunction::new("unhex", Arguments::between(1, 2), unhex),
    ScalarFunction::new("instr", Arguments::exactly(2), instr),
    ScalarFunction::new("length", Arguments::exactly(1), |arguments, _| Ok(one(arguments, length)))
        .telling(length),
    ScalarFunction::new("octet_length", Arguments::exactly(1), |arguments, _| {
        Ok(one(arguments, octet_length))
    })
    .telling(octet_length),
    ScalarFunction::new("lower", Arguments::exactly(1), |arguments, _| {
        Ok(map_text(arguments, |text| text.make_ascii_lowercase()))
    }),
    ScalarFunction::new("upper", Arguments::exactly(1), |arguments, _| {
        Ok(map_text(arguments, |text| text.make_ascii_uppercase()))
    }),
    ScalarFunction::new("ltrim", Arguments::between(1, 2), |arguments, _| {
        Ok(trim(arguments, true, false))
    }),
    ScalarFunction::new("rtrim", Arguments::between(1, 2), |arguments, _| {
        Ok(trim(arguments, false, true))
    }),
    ScalarFunction::new("trim", Arguments::between(1, 2), |arguments, _| {
        Ok(trim(arguments, true, true))
    }),
    ScalarFunction::new("quote", Arguments::exactly(1), quote),
    ScalarFunction::new("replace", Arguments::exactly(3), replace),
    ScalarFunction::new("substr", Arguments::between(2, 3), substr),
    ScalarFunction::new("substring", Arguments::between(2, 3), substr),
    ScalarFunction::new("unicode", Arguments::exactly(1), unicode),
    ScalarFunction::new("unistr", Arguments::exactly(1), unistr),
    ScalarFunction::new("unistr_quote", Arguments::exactly(1), |arguments, env| {
        let control = |text: &[u8]| utf8::to_nul(text).iter().any(|byte| *byte < 0x20);
        match arguments.first() {
            Some(Value::Text(text)) if control(text) => Ok(Value::Text(unistr_quoted(text))),
            _ => quote(arguments, env),
        }
    }),
];

fn char_of(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let mut text = Vec::new();
    for value in arguments {
        let code = u32::try_from(to_int(value.as_ref())).ok().filter(|&code| code <= 0x10ffff);
        match code {
            // SQLite encodes a lone surrogate unchanged; the text is then not UTF-8.
            Some(code @ 0xd800..=0xdfff) => {
                let byte = |bits: u32| u8::try_from(bits & 0x3f).unwrap_or(0) | 0x80;
                text.extend_from_slice(&[0xed, byte(code >> 6), byte(code)]);
            }
            code => utf8::push(&mut text, code.unwrap_or(0xfffd)),
        }
    }
    Ok(Value::Text(text))
}

fn concat_ws(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some((separator, values)) = arguments.split_first() else { return Ok(Value::Null) };
    match text_of(separator.as_ref()) {
        Some(separator) => join(&separator, values),
        None => Ok(Value::Null),
    }
}

fn join(separator: &[u8], values: &[Value]) -> Result<Value, Error> {
    let mut joined = Vec::new();
    for (index, text) in values.iter().filter_map(|value| text_of(value.as_ref())).enumerate() {
        if index > 0 {
            joined.extend_from_slice(separator);
        }
        if text.len() > LENGTH_MAX - joined.len().min(LENGTH_MAX) {
            return Err(too_big());
        }
        joined.extend_from_slice(&text);
    }
    Ok(Value::Text(joined))
}

fn format(
    arguments: &[ValueRef<'_>],
    _: &Env<'_>,
    kept: &mut Kept,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some((format, values)) = arguments.split_first() else { return Ok(false) };
    let mut output = Output::new(out, LENGTH_MAX);
    if let Some(format) = &kept.format {
        format.write(&mut output, values);
    } else {
        let Some(format) = text_of(*format) else { return Ok(false) };
        if kept.is_fixed(0..1) {
            kept.format.insert(Format::new(&format)).write(&mut output, values);
        } else {
            printf::printf(&mut output, &format, values);
        }
    }
    if output.is_overflown() { Err(too_big()) } else { Ok(true) }
}

/// `like(pattern, text)`: the arguments of the operator, swapped.
fn matches(language: Pattern, arguments: &[Value]) -> Result<Value, Error> {
    let text = |index: usize| arguments.get(index).and_then(|value| text_of(value.as_ref()));
    if let Some(Value::Text(bytes) | Value::Blob(bytes)) = arguments.first()
        && bytes.len() > PATTERN_BYTES_MAX
    {
        return Err(Error::runtime("LIKE or GLOB pattern too complex"));
    }
    let escape =
        match arguments.len() {
            3.. => match text(2) {
                Some(escape) => Some(like_escape(&escape).ok_or_else(|| {
                    Error::runtime("ESCAPE expression must be a single character")
                })?),
                None => return Ok(Value::Null),
            },
            _ => None,
        };
    Ok(match (text(0), text(1)) {
        (Some(pattern), Some(text)) => language.matches(&pattern, &text, escape).into(),
        _ => Value::Null,
    })
}

fn hex(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let bytes = arguments.first().and_then(|value| text_of(value.as_ref())).unwrap_or_default();
    if bytes.len() > LENGTH_MAX / 2 {
        return Err(too_big());
    }
    Ok(Value::Text(hex_digits(&bytes)))
}

fn hex_digits(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS[usize::from(nibble & 15)];
    let mut text = vec![0; 2 * bytes.len()];
    for (pair, &byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte)];
    }
    text
}

fn unhex(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let text = |index: usize| arguments.get(index).and_then(|value| text_of(value.as_ref()));
    let Some(hex) = text(0) else { return Ok(Value::Null) };
    let ignored = match arguments.len() {
        2.. => match text(1) {
            Some(ignored) => ignored,
            None => return Ok(Value::Null),
        },
        _ => Vec::new().into(),
    };
    Ok(decode_hex(utf8::to_nul(&hex), &ignored).map_or(Value::Null, Value::Blob))
}

fn decode_hex(hex: &[u8], ignored: &[u8]) -> Option<Vec<u8>> {
    let digit = |at: usize| hex.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut at = 0;
    while at < hex.len() {
        if let Some(high) = digit(at) {
            bytes.push(u8::try_from(high << 4 | digit(at + 1)?).ok()?);
            at += 2;
        } else {
            let (code, next) = utf8::read(hex, at);
            if !has_char(ignored, code) {
                return None;
            }
            at = next;
        }
    }
    Some(bytes)
}

fn has_char(text: &[u8], code: u32) -> bool {
    let mut at = 0;
    while at < text.len() {
        let (other, next) = utf8::read(text, at);
        if other == code {
            return true;
        }
        at = next;
    }
    false
}

fn instr(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let [haystack, needle] = arguments else { return Ok(Value::Null) };
    let blobs = matches!((haystack, needle), (Value::Blob(_), Value::Blob(_)));
    let (Some(haystack), Some(needle)) = (text_of(haystack.as_ref()), text_of(needle.as_ref()))
    else {
        return Ok(Value::Null);
    };
    let Some(&first) = needle.first() else { return Ok(Value::Int(1)) };
    let mut at = 0;
    while let Some(next) = haystack[at..].iter().position(|&byte| byte == first) {
        at += next;
        // A text is found where a character begins.
        let inside = !blobs && at > 0 && utf8::is_continuation(first);
        if !inside && haystack[at..].starts_with(&needle) {
            let begins = |byte: &&u8| blobs || !utf8::is_continuation(**byte);
            let before = haystack[..=at].iter().skip(1).filter(begins).count();
            return Ok(count(before + 1).into());
        }
        at += 1;
    }
    Ok(Value::Int(0))
}

/// A function of the only argument.
fn one(arguments: &[Value], function: impl Fn(ValueRef<'_>) -> ValueRef<'static>) -> Value {
    function(arguments.first().map_or(ValueRef::Null, Value::as_ref)).into()
}

fn length(value: ValueRef<'_>) -> ValueRef<'static> {
    match value {
        ValueRef::Text(text) => count(utf8::count(utf8::to_nul(text))),
        other => octet_length(other),
    }
}

fn octet_length(value: ValueRef<'_>) -> ValueRef<'static> {
    text_of(value).map_or(ValueRef::Null, |bytes| count(bytes.len()))
}

fn count(count: usize) -> ValueRef<'static> {
    ValueRef::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn map_text(arguments: &[Value], change: impl Fn(&mut Vec<u8>)) -> Value {
    let text = arguments.first().and_then(|value| text_of(value.as_ref()));
    text.map_or(Value::Null, |text| {
        let mut text = text.into_owned();
        change(&mut text);
        Value::Text(text)
    })
}

fn trim(arguments: &[Value], left: bool, right: bool) -> Value {
    let text = |index: usize| arguments.get(index).and_then(|value| text_of(value.as_ref()));
    let Some(whole) = text(0) else { return Value::Null };
    if arguments.len() < 2 {
        let spaces = |byte: &&u8| **byte == b' ';
        let from = if left { whole.iter().take_while(spaces).count() } else { 0 };
        let rest = &whole[from..];
        let behind = if right { rest.iter().rev().take_while(spaces).count() } else { 0 };
        return Value::Text(rest[..rest.len() - behind].to_vec());
    }
    let Some(set) = text(1) else { return Value::Null };
    let mut chars = Vec::new();
    let mut rest = utf8::to_nul(&set);
    while !rest.is_empty() {
        let (char, after) = rest.split_at(utf8::skip(rest, 0));
        chars.push(char);
        rest = after;
    }
    let mut text: &[u8] = &whole;
    while left && let Some(after) = chars.iter().find_map(|char| text.strip_prefix(*char)) {
        text = after;
    }
    while right && let Some(before) = chars.iter().find_map(|char| text.strip_suffix(*char)) {
        text = before;
    }
    Value::Text(text.to_vec())
}

fn quote(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Ok(Value::Text(match arguments.first() {
        None | Some(Value::Null) => b"NULL".to_vec(),
        Some(value @ Value::Int(_)) => text_of(value.as_ref()).unwrap_or_default().into_owned(),
        Some(Value::Real(real)) if real.is_infinite() => {
            if *real < 0.0 {
                b"-9.0e+999".to_vec()
            } else {
                b"9.0e+999".to_vec()
            }
        }
        Some(Value::Real(real)) => real_to_text(*real).into_bytes(),
        Some(Value::Text(text)) => {
            let mut quoted = b"'".to_vec();
            for &byte in utf8::to_nul(text) {
                if byte == b'\'' {
                    quoted.push(b'\'');
                }
                quoted.push(byte);
            }
            quoted.push(b'\'');
            quoted
        }
        Some(Value::Blob(bytes)) if bytes.len() > LENGTH_MAX / 2 => return Err(too_big()),
        Some(Value::Blob(bytes)) => [b"X'", &hex_digits(bytes)[..], b"'"].concat(),
    }))
}

/// A text with control characters as a call of `unistr` giving the same text.
fn unistr_quoted(text: &[u8]) -> Vec<u8> {
    let mut out = b"unistr('".to_vec();
    for &byte in utf8::to_nul(text) {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[byte, byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(b"')");
    out
}

/// A text with escapes undone: `\\`, and a backslash with four hexadecimal digits, with `u` and
/// four, with `+` and six, or with `U` and eight.
fn unistr(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let text = arguments.first().and_then(|value| text_of(value.as_ref()));
    let Some(text) = text else { return Ok(Value::Null) };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    // Text behind a NUL has no escapes.
    while let Some(place) = utf8::to_nul(rest).iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..place]);
        let escape = &rest[place + 1..];
        let (before, digits) = match escape.first() {
            Some(b'\\') => {
                out.push(b'\\');
                rest = &escape[1..];
                continue;
            }
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let bad = || Error::runtime("invalid Unicode escape");
        let code = escape.get(before..before + digits).ok_or_else(bad)?;
        let code = code
            .iter()
            .try_fold(0_u32, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?));
        push_unchecked(code.ok_or_else(bad)?, &mut out);
        rest = &escape[before + digits..];
    }
    out.extend_from_slice(rest);
    Ok(Value::Text(out))
}

/// Appends UTF-8's bytes for a number, even for a number without a character.
fn push_unchecked(code: u32, out: &mut Vec<u8>) {
    let byte = |mark: u8, bits: u32, mask: u32| mark | u8::try_from(bits & mask).unwrap_or(0);
    match code {
        0..0x80 => out.push(byte(0, code, 0x7f)),
        0x80..0x800 => {
            out.extend_from_slice(&[byte(0xc0, code >> 6, 0x1f), byte(0x80, code, 0x3f)])
        }
        0x800..0x1_0000 => out.extend_from_slice(&[
            byte(0xe0, code >> 12, 0x0f),
            byte(0x80, code >> 6, 0x3f),
            byte(0x80, code, 0x3f),
        ]),
        _ => out.extend_from_slice(&[
            byte(0xf0, code >> 18, 0x07),
            byte(0x80, code >> 12, 0x3f),
            byte(0x80, code >> 6, 0x3f),
            byte(0x80, code, 0x3f),
        ]),
    }
}

fn replace(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let text = |index: usize| arguments.get(index).and_then(|value| text_of(value.as_ref()));
    let (Some(whole), Some(pattern)) = (text(0), text(1)) else { return Ok(Value::Null) };
    if utf8::to_nul(&pattern).is_empty() {
        return Ok(Value::Text(whole.into_owned()));
    }
    let Some(with) = text(2) else { return Ok(Value::Null) };
    let mut replaced = Vec::with_capacity(whole.len());
    // Bytes before `copied` are done; a match begins at `at` or behind.
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = whole[at..].iter().position(|byte| *byte == pattern[0]) {
        at += next;
        if !whole[at..].starts_with(&pattern) {
            at += 1;
            continue;
        }
        replaced.extend_from_slice(&whole[copied..at]);
        replaced.extend_from_slice(&with);
        at += pattern.len();
        copied = at;
        if replaced.len() > LENGTH_MAX {
            return Err(too_big());
        }
    }
    replaced.extend_from_slice(&whole[copied..]);
    Ok(Value::Text(replaced))
}

/// `substr(x, start)` and `substr(x, start, count)`: from 1, or from the end where negative; a
/// negative count takes the characters before the start.
fn substr(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let whole = arguments.first().map_or(ValueRef::Null, Value::as_ref);
    let blob = matches!(arguments.first(), Some(Value::Blob(_)));
    let Some(bytes) = text_of(whole) else { return Ok(Value::Null) };
    if blob && bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (Some(start), count) = (arguments.get(1), arguments.get(2)) else { return Ok(Value::Null) };
    if start.is_null() || count.is_some_and(Value::is_null) {
        return Ok(Value::Null);
    }
    let bytes = if blob { &bytes[..] } else { utf8::to_nul(&bytes) };
    let length = if blob { bytes.len() } else { utf8::count(bytes) };
    let length = i128::try_from(length).unwrap_or(i128::MAX);
    let start = i128::from(to_int(start.as_ref()));
    let count = count.map_or(i128::from(i64::MAX), |count| i128::from(to_int(count.as_ref())));

    // Both ends as offsets from 0; position 0 stands just before the first character.
    let from = if start < 0 { start + length } else { start - 1 };
    let (from, to) = if count < 0 {
        // Before position 0 there is nothing: the range of a negative count shifts.
        let end = if start == 0 { 0 } else { from.max(0) };
        if start < 0 && from < 0 { (0, 0) } else { (end + count, end) }
    } else {
        (from, from + count)
    };
    let from = usize::try_from(from.clamp(0, length)).unwrap_or(0);
    let to = usize::try_from(to.clamp(0, length)).unwrap_or(0).max(from);
    Ok(if blob {
        Value::Blob(bytes[from..to].to_vec())
    } else {
        let skip = |text: &[u8], count: usize| (0..count).fold(0, |at, _| utf8::skip(text, at));
        let tail = &bytes[skip(bytes, from)..];
        Value::Text(tail[..skip(tail, to - from)].to_vec())
    })
}

fn unicode(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let text = arguments.first().and_then(|value| text_of(value.as_ref())).unwrap_or_default();
    let (code, _) = utf8::read(utf8::to_nul(&text), 0);
    Ok(if code == 0 { Value::Null } else { Value::Int(code.into()) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn substrings() {
        let cases: [(i64, Option<i64>, &str); 12] = [
            (1, None, "héllo"),
            (2, Some(2), "él"),
            (-2, None, "lo"),
            (-2, Some(1), "l"),
            (0, Some(2), "h"),
            (3, Some(-2), "hé"),
            (0, Some(-1), ""),
            (-9, Some(5), "h"),
            (-9, Some(-5), ""),
            (9, Some(-5), "lo"),
            (2, Some(i64::MAX), "éllo"),
            (i64::MIN, Some(3), ""),
        ];
        for (start, count, expect) in cases {
            let mut arguments = vec!["héllo".into(), Value::Int(start)];
            arguments.extend(count.map(Value::Int));
            assert_eq!(call("substr", &arguments).unwrap(), expect.into(), "{start} {count:?}");
        }
    }

    #[test]
    fn escapes_must_be_one_character() {
        let like = |escape: &str| call("like", &["a".into(), "a".into(), escape.into()]);
        assert_eq!(like("é").unwrap(), Value::Int(1));
        for escape in ["", "ab"] {
            let error = like(escape).unwrap_err().to_string();
            assert_eq!(error, "ESCAPE expression must be a single character");
        }
    }

    #[test]
    fn texts_that_are_not_utf8_survive() {
        let bad = Value::Text(vec![0xff, b'a', 0x80]);
        assert_eq!(
            call("upper", std::slice::from_ref(&bad)).unwrap(),
            Value::Text(vec![0xff, b'A', 0x80])
        );
        assert_eq!(call("length", &[bad]).unwrap(), Value::Int(3));
    }
}
