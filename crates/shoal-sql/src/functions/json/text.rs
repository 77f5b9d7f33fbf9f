//! JSON text: a check of the whole, then walks over known well-formed text.

use super::binary::{
    ARRAY, DEPTH_MAX, FALSE, FLOAT, FLOAT5, INT, INT5, OBJECT, TEXT, TEXT_RAW, TRUE,
};

/// The kind of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Integer,
    Real,
    Text,
    Array,
    Object,
}

impl Kind {
    /// The kind of an element of JSONB.
    pub(super) fn of_jsonb(kind: u8) -> Kind {
        match kind {
            TRUE => Kind::True,
            FALSE => Kind::False,
            INT | INT5 => Kind::Integer,
            FLOAT | FLOAT5 => Kind::Real,
            TEXT..=TEXT_RAW => Kind::Text,
            ARRAY => Kind::Array,
            OBJECT => Kind::Object,
            _ => Kind::Null,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::True => "true",
            Kind::False => "false",
            Kind::Integer => "integer",
            Kind::Real => "real",
            Kind::Text => "text",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// The one element in a text, without the white space around; `None` when malformed.
pub(super) fn check(text: &[u8]) -> Option<&[u8]> {
    let start = skip_space(text, 0);
    let end = check_element(text, start)?;
    (skip_space(text, end) == text.len()).then(|| &text[start..end])
}

/// Where the element at `start` ends; `None` when malformed or nested too deep.
fn check_element(text: &[u8], start: usize) -> Option<usize> {
    let mut pos = start;
    let mut open = Open::default();
    loop {
        // A value begins here.
        match *text.get(pos)? {
            bracket @ (b'[' | b'{') => {
                let close = bracket + 2;
                pos = skip_space(text, pos + 1);
                if text.get(pos) == Some(&close) {
                    pos += 1;
                } else {
                    open.push(close)?;
                    if close == b'}' {
                        pos = check_label(text, pos)?;
                    }
                    continue;
                }
                if open.depth >= DEPTH_MAX {
                    return None;
                }
            }
            b'"' => pos = check_string(text, pos)?,
            b'-' | b'0'..=b'9' => pos = check_number(text, pos)?,
            _ => {
                let word = [&b"null"[..], b"true", b"false"]
                    .into_iter()
                    .find(|word| text[pos..].starts_with(word))?;
                pos += word.len();
                if text.get(pos).is_some_and(u8::is_ascii_alphanumeric) {
                    return None;
                }
            }
        }
        // A value ended here: a closing bracket or the next value follows.
        loop {
            let Some(close) = open.last() else { return Some(pos) };
            pos = skip_space(text, pos);
            match *text.get(pos)? {
                b',' => {
                    pos = skip_space(text, pos + 1);
                    if close == b'}' {
                        pos = check_label(text, pos)?;
                    }
                    break;
                }
                byte if byte == close => {
                    open.depth -= 1;
                    pos += 1;
                }
                _ => return None,
            }
        }
    }
}

/// Closing brackets still to come: a bit for each, set for objects.
#[derive(Default)]
struct Open {
    objects: [u64; DEPTH_MAX.div_ceil(64)],
    depth: usize,
}

impl Open {
    /// `None` where they are too many.
    #[inline]
    fn push(&mut self, close: u8) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        let (word, bit) = (&mut self.objects[self.depth / 64], 1 << (self.depth % 64));
        *word = if close == b'}' { *word | bit } else { *word & !bit };
        self.depth += 1;
        Some(())
    }

    #[inline]
    fn last(&self) -> Option<u8> {
        let last = self.depth.checked_sub(1)?;
        let object = self.objects[last / 64] >> (last % 64) & 1 == 1;
        Some(if object { b'}' } else { b']' })
    }
}

/// Past a label, its colon and the white space around them.
fn check_label(text: &[u8], pos: usize) -> Option<usize> {
    let pos = skip_space(text, check_string(text, pos)?);
    (text.get(pos) == Some(&b':')).then(|| skip_space(text, pos + 1))
}

fn check_string(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut pos = start + 1;
    loop {
        match *text.get(pos)? {
            b'"' => return Some(pos + 1),
            b'\\' => match *text.get(pos + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => pos += 2,
                b'u' => {
                    hex(text.get(pos + 2..pos + 6)?)?;
                    pos += 6;
                }
                _ => return None,
            },
            0..0x20 => return None,
            _ => pos += 1,
        }
    }
}

fn check_number(text: &[u8], start: usize) -> Option<usize> {
    let digits = |from: usize| {
        let count = text[from.min(text.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
        (count > 0).then_some(from + count)
    };
    let whole = start + usize::from(text.get(start) == Some(&b'-'));
    let mut pos = digits(whole)?;
    if text[whole] == b'0' && pos > whole + 1 {
        return None;
    }
    if text.get(pos) == Some(&b'.') {
        pos = digits(pos + 1)?;
    }
    if matches!(text.get(pos), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(pos + 1), Some(b'+' | b'-')));
        pos = digits(pos + 1 + sign)?;
    }
    Some(pos)
}

/// The kind of a checked element. Cost: constant, but for numbers their length.
pub(super) fn kind(element: &[u8]) -> Kind {
    match element.first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::Text,
        Some(b't') => Kind::True,
        Some(b'f') => Kind::False,
        Some(b'n') | None => Kind::Null,
        Some(_) if element.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Kind::Real,
        Some(_) => Kind::Integer,
    }
}

/// Past the white space at `pos`.
#[inline]
pub(super) fn skip_space(text: &[u8], pos: usize) -> usize {
    if text.get(pos).is_some_and(|&byte| byte > b' ') {
        return pos;
    }
    let rest = text.get(pos..).unwrap_or_default();
    pos + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Where the string at `pos` of a checked text ends.
pub(super) fn string_end(text: &[u8], pos: usize) -> usize {
    let mut end = pos + 1;
    while let Some(&byte) = text.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// Where the element at `pos` of a checked text ends.
pub(super) fn element_end(text: &[u8], pos: usize) -> usize {
    let mut at = pos;
    let mut depth = 0usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth <= 1 => return at + usize::from(depth == 1),
            b']' | b'}' => depth -= 1,
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The number of elements of a checked array.
pub(super) fn array_length(array: &[u8]) -> usize {
    let mut count = 0;
    let mut pos = skip_space(array, 1);
    while pos < array.len() && array[pos] != b']' {
        count += 1;
        pos = skip_space(array, element_end(array, pos));
        if array.get(pos) == Some(&b',') {
            pos = skip_space(array, pos + 1);
        }
    }
    count
}

/// A checked element without the white space between its tokens.
pub(super) fn minified(element: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(element.len());
    // Bytes before `copied` are done.
    let (mut copied, mut pos) = (0, 0);
    while pos < element.len() {
        match element[pos] {
            b'"' => {
                pos = string_end(element, pos);
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                text.extend_from_slice(&element[copied..pos]);
                copied = pos + 1;
            }
            _ => {}
        }
        pos += 1;
    }
    text.extend_from_slice(&element[copied..]);
    text
}

/// The characters between the quotes of a string, escapes undone, those of JSON5 too.
///
/// A lone surrogate comes out as three bytes outside of UTF-8, as in SQLite, and so does a NUL
/// behind an escaped end of a line at the end of the string.
pub(super) fn unescape(inner: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(inner.len());
    let mut pos = 0;
    while let Some(rest) = inner.get(pos..).filter(|rest| !rest.is_empty()) {
        let plain = rest.iter().position(|&byte| byte == b'\\').unwrap_or(rest.len());
        text.extend_from_slice(&rest[..plain]);
        pos += plain;
        if plain == rest.len() {
            break;
        }
        let simple = match &inner[pos + 1..] {
            [b'b', ..] => 8,
            [b'f', ..] => 12,
            [b'n', ..] => b'\n',
            [b'r', ..] => b'\r',
            [b't', ..] => b'\t',
            [b'v', ..] => 11,
            [b'0', ..] => 0,
            [b'u', ..] => {
                pos += push_unicode(inner, pos, &mut text);
                continue;
            }
            [b'x', digits @ ..] => {
                let code = digits.get(..2).and_then(hex).unwrap_or_default();
                crate::value::utf8::push(&mut text, code);
                pos += 4;
                continue;
            }
            rest @ ([b'\n' | b'\r', ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..]) => {
                pos += match rest {
                    [b'\n', ..] => 2,
                    [b'\r', b'\n', ..] => 3,
                    [b'\r', ..] => 2,
                    _ => 4,
                };
                if pos == inner.len() {
                    text.push(0);
                }
                continue;
            }
            [byte @ (b'"' | b'\'' | b'\\' | b'/'), ..] => *byte,
            // Not an escape: only forged JSONB has a backslash here.
            [_, ..] => {
                pos += 2;
                continue;
            }
            [] => break,
        };
        text.push(simple);
        pos += 2;
    }
    text
}

/// Appends the character of the `\u` at `pos`; gives the length of its escape, or of both halves.
fn push_unicode(inner: &[u8], pos: usize, text: &mut Vec<u8>) -> usize {
    let unit = |at: usize| inner.get(at + 2..at + 6).and_then(hex);
    let Some(high) = unit(pos) else { return inner.len() - pos };
    if high & 0xfc00 == 0xd800
        && inner.get(pos + 6..pos + 8) == Some(b"\\u")
        && let Some(low) = unit(pos + 6).filter(|low| low & 0xfc00 == 0xdc00)
    {
        crate::value::utf8::push(text, 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff));
        return 12;
    }
    if high & 0xf800 == 0xd800 {
        let continuation = |bits: u32| 0x80 | u8::try_from(bits & 0x3f).unwrap_or(0);
        text.extend_from_slice(&[0xed, continuation(high >> 6), continuation(high)]);
    } else {
        crate::value::utf8::push(text, high);
    }
    6
}

/// The number written in hexadecimal digits.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
}
