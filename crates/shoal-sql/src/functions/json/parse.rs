//! The reader of JSON5, giving JSONB: the elements of a text as SQLite keeps them, elements outside
//! of strict JSON under kinds of their own and byte for byte.

use super::binary::{
    ARRAY, DEPTH_MAX, FALSE, FLOAT, FLOAT5, INT, INT5, NULL, OBJECT, TEXT, TEXT_ESCAPED, TEXT5,
    TRUE, close, push_part,
};
use super::text::{hex, skip_space};

/// A text outside of JSON and JSON5, with the place where the text stops being either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadJson {
    pub(super) pos: usize,
}

/// Reads a text by the rules of JSON5. Cost: the length of the text, once more for each level.
pub(super) fn parse(text: &[u8]) -> Result<Vec<u8>, BadJson> {
    let out = Vec::with_capacity(text.len() + 1);
    let mut reader = Reader { text, pos: 0, depth: 0, out, bad: 0 };
    let read = reader.element();
    reader.skip_space();
    match read {
        Ok(()) if reader.peek().is_none() => Ok(reader.out),
        _ => Err(BadJson { pos: reader.bad }),
    }
}

/// Why no element was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// No element stands there; [`Reader::bad`] has the place.
    Syntax,
    /// The end of the text (`None`), or a `}`, `]`, `,` or `:` under the reader.
    Mark(Option<u8>),
}

struct Reader<'a> {
    text: &'a [u8],
    pos: usize,
    depth: usize,
    out: Vec<u8>,
    /// Where the text stops being JSON. As in SQLite, a mark behind white space of JSON5 leaves its
    /// place here, too, and a fault behind the text's element is reported at this place.
    bad: usize,
}

impl<'a> Reader<'a> {
    /// Notes where the text stops being JSON.
    fn syntax<T>(&mut self, pos: usize) -> Result<T, Stop> {
        self.bad = pos;
        Err(Stop::Syntax)
    }

    /// As [`Reader::syntax`] where another mark stood than the sought one; a fault within an
    /// element keeps its own place.
    fn other<T>(&mut self, stop: Result<(), Stop>, pos: usize) -> Result<T, Stop> {
        if stop != Err(Stop::Syntax) {
            self.bad = pos;
        }
        Err(Stop::Syntax)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Passes white space and comments of JSON and JSON5.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let skip = match rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
                [b'/', b'*', inner @ ..] => match inner.windows(2).position(|pair| pair == b"*/") {
                    Some(end) => end + 4,
                    None => return,
                },
                [b'/', b'/', inner @ ..] => {
                    let plain = inner.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                    let line = [&b"\xe2\x80\xa8"[..], b"\xe2\x80\xa9"]
                        .into_iter()
                        .filter_map(|end| inner.windows(3).position(|three| three == end));
                    2 + line.chain(plain).min().unwrap_or(inner.len())
                }
                [0xc2, 0xa0, ..] => 2,
                [0xe1, 0x9a, 0x80, ..]
                | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..]
                | [0xe2, 0x81, 0x9f, ..]
                | [0xe3, 0x80, 0x80, ..]
                | [0xef, 0xbb, 0xbf, ..] => 3,
                _ => return,
            };
            self.pos += skip;
        }
    }

    fn element(&mut self) -> Result<(), Stop> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            Some(mark @ (b'}' | b']' | b',' | b':')) => {
                self.bad = self.pos;
                Err(Stop::Mark(Some(mark)))
            }
            None => Err(Stop::Mark(None)),
            Some(_) => self.word(),
        }
    }

    fn word(&mut self) -> Result<(), Stop> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let word = &rest[..length];
        let (kind, payload): (u8, &[u8]) = match word {
            b"true" => (TRUE, b""),
            b"false" => (FALSE, b""),
            b"null" => (NULL, b""),
            _ => match word.to_ascii_lowercase().as_slice() {
                b"inf" | b"infinity" => (FLOAT, INFINITE),
                b"nan" | b"qnan" | b"snan" => (NULL, b""),
                _ => return self.syntax(self.pos),
            },
        };
        push_part(kind, payload, &mut self.out);
        self.pos += length;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.syntax(self.pos);
        }
        self.pos += 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Stop> {
        let start = self.out.len();
        self.deeper()?;
        loop {
            let before = self.pos;
            match self.element() {
                Ok(()) => {}
                Err(Stop::Mark(Some(b']'))) => break,
                stop => return self.other(stop, before),
            }
            if !self.comma(b']')? {
                break;
            }
        }
        self.depth -= 1;
        self.pos += 1;
        close(ARRAY, start, &mut self.out);
        Ok(())
    }

    fn object(&mut self) -> Result<(), Stop> {
        let start = self.out.len();
        self.deeper()?;
        loop {
            let before = self.pos;
            let label = self.out.len();
            match self.element() {
                Ok(()) if (TEXT..=TEXT5).contains(&(self.out[label] & 15)) => {}
                Ok(()) => return self.syntax(before),
                Err(Stop::Mark(Some(b'}'))) => break,
                stop => {
                    self.out.truncate(label);
                    self.pos = before;
                    self.skip_space();
                    if !self.name() {
                        return self.other(stop, self.pos);
                    }
                }
            }
            self.skip_plain_space();
            if self.peek() != Some(b':') {
                let before = self.pos;
                match self.element() {
                    Err(Stop::Mark(Some(b':'))) => {}
                    stop => return self.other(stop, before),
                }
            }
            self.pos += 1;
            let before = self.pos;
            if let Err(stop) = self.element() {
                return self.other(Err(stop), before);
            }
            if !self.comma(b'}')? {
                break;
            }
        }
        self.depth -= 1;
        self.pos += 1;
        close(OBJECT, start, &mut self.out);
        Ok(())
    }

    /// Passes a comma; false at the mark closing the list.
    fn comma(&mut self, close: u8) -> Result<bool, Stop> {
        self.skip_plain_space();
        let before = self.pos;
        let mark = match self.peek() {
            mark @ Some(b',' | b'}' | b']') => mark,
            _ => match self.element() {
                Err(Stop::Mark(mark)) => mark,
                _ => None,
            },
        };
        match mark {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => self.syntax(before),
        }
    }

    /// Passes the white space of JSON.
    fn skip_plain_space(&mut self) {
        self.pos = skip_space(self.text, self.pos);
    }

    /// Reads a label without quotes; false where there is none.
    fn name(&mut self) -> bool {
        let start = self.pos;
        let mut kind = TEXT;
        while let Some(byte) = self.peek() {
            let escape = byte == b'\\'
                && self.text.get(self.pos + 1) == Some(&b'u')
                && self.text.get(self.pos + 2..self.pos + 6).and_then(hex).is_some();
            let first = self.pos == start;
            let part = byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') || byte >= 0x80;
            if escape {
                kind = TEXT_ESCAPED;
                self.pos += 6;
            } else if part && !(byte >= 0x80 && self.at_space()) || !first && byte.is_ascii_digit()
            {
                self.pos += 1;
            } else {
                break;
            }
        }
        if self.pos == start {
            return false;
        }
        push_part(kind, &self.text[start..self.pos], &mut self.out);
        true
    }

    fn at_space(&mut self) -> bool {
        let here = self.pos;
        self.skip_space();
        let moved = self.pos != here;
        self.pos = here;
        moved
    }

    /// A string in either kind of quotes.
    fn string(&mut self, quote: u8) -> Result<(), Stop> {
        self.pos += 1;
        let start = self.pos;
        let mut kind = TEXT;
        loop {
            let Some(byte) = self.peek() else { return self.syntax(self.pos) };
            match byte {
                _ if byte == quote => {
                    push_part(kind, &self.text[start..self.pos], &mut self.out);
                    self.pos += 1;
                    return Ok(());
                }
                b'\\' => {
                    let Some((length, json5)) = self.escape() else {
                        return self.syntax(self.pos + 1);
                    };
                    if json5 {
                        kind = TEXT5;
                    } else if kind == TEXT {
                        kind = TEXT_ESCAPED;
                    }
                    self.pos += length;
                    continue;
                }
                0 => return self.syntax(self.pos),
                b'"' | 1..0x20 => kind = TEXT5,
                _ => {}
            }
            self.pos += 1;
        }
    }

    /// The length of the escape here, and true for escapes of JSON5 alone; `None` where there is no
    /// escape.
    fn escape(&self) -> Option<(usize, bool)> {
        let hex = |count: usize| {
            let digits = self.text.get(self.pos + 2..self.pos + 2 + count);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        Some(match self.text.get(self.pos + 1..).unwrap_or_default() {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => (2, false),
            [b'u', ..] if hex(4) => (6, false),
            [b'x', ..] if hex(2) => (4, true),
            [b'0', next, ..] if next.is_ascii_digit() => return None,
            [b'\r', b'\n', ..] => (3, true),
            [b'\'' | b'v' | b'0' | b'\n' | b'\r', ..] => (2, true),
            [0xe2, 0x80, 0xa8 | 0xa9, ..] => (4, true),
            _ => return None,
        })
    }

    fn number(&mut self) -> Result<(), Stop> {
        let start = self.pos;
        let negative = self.peek() == Some(b'-');
        if matches!(self.peek(), Some(b'-' | b'+')) {
            self.pos += 1;
        }
        // A plus is left out.
        let from = if negative { start } else { self.pos };
        let rest = self.rest();
        let lower = |count: usize| rest.get(..count).map(<[u8]>::to_ascii_lowercase);
        if lower(3).as_deref() == Some(b"inf") {
            let whole = lower(8).as_deref() == Some(b"infinity");
            self.pos += if whole { 8 } else { 3 };
            push_part(FLOAT, if negative { b"-9e999" } else { INFINITE }, &mut self.out);
            return Ok(());
        }
        if let [b'0', b'x' | b'X', digits @ ..] = rest {
            let count = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
            if count > 0 {
                self.pos += 2 + count;
                push_part(INT5, &self.text[from..self.pos], &mut self.out);
                return Ok(());
            }
        }
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(0);
        if whole > 1 && rest[0] == b'0' {
            return self.syntax(start + 1);
        }
        let mut end = whole;
        let mut kind = INT;
        if rest.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            if whole == 0 && fraction == 0 {
                // The point itself, or the character behind a point after a sign.
                let signed = self.pos > start;
                return self.syntax(if signed { self.pos + 1 } else { start });
            }
            end += 1 + fraction;
            kind = if whole == 0 || fraction == 0 { FLOAT5 } else { FLOAT };
        } else if whole == 0 {
            return self.syntax(start);
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let count = digits((end + 1 + sign).min(rest.len()));
            if count == 0 {
                return self.syntax(self.pos + end + sign);
            }
            end += 1 + sign + count;
            if kind == INT {
                kind = FLOAT;
            }
        }
        self.pos += end;
        // A second point or exponent.
        if matches!(rest.get(end), Some(b'.' | b'e' | b'E')) {
            return self.syntax(self.pos);
        }
        push_part(kind, &self.text[from..self.pos], &mut self.out);
        Ok(())
    }
}

/// The payload for infinity: more than any number.
pub(super) const INFINITE: &[u8] = b"9e999";

#[cfg(test)]
mod tests {
    use super::super::binary::to_text;
    use super::*;

    #[test]
    fn json5_becomes_json() {
        let check = |text: &str, expect: &str| {
            let got = to_text(&parse(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), expect, "{text}");
        };
        check("{a:1,'b':[+2,.5,5.,0x1F,],}", r#"{"a":1,"b":[2,0.5,5.0,31]}"#);
        check("/*c*/ [Infinity, -inf, NaN] // end", "[9e999,-9e999,null]");
        check(r#"'a"b\'c\x41\v\0'"#, r#""a\"b'c\u0041\u000b\u0000""#);
        check("\"a\\\nb\tc\"", r#""ab\tc""#);
        check("{$_x9:1}", r#"{"$_x9":1}"#);
    }

    #[test]
    fn every_spelling_keeps_its_kind() {
        let kinds: [(&str, u8); 14] = [
            ("'a'", TEXT),
            ("'\\n'", TEXT_ESCAPED),
            ("'\"'", TEXT5),
            ("'\\x41\\n'", TEXT5),
            ("\"\t\"", TEXT5),
            ("+5", INT),
            ("-0x1F", INT5),
            ("-.5", FLOAT5),
            ("5.", FLOAT5),
            ("5.e1", FLOAT5),
            ("+5e1", FLOAT),
            ("1.50", FLOAT),
            ("-Infinity", FLOAT),
            ("NaN", NULL),
        ];
        for (text, kind) in kinds {
            assert_eq!(parse(text.as_bytes()).unwrap()[0] & 15, kind, "{text}");
        }
        assert_eq!(parse(b"+0x1F").unwrap(), b"\x440x1F");
        assert_eq!(parse(b"{$\\u0041: '\\v'}").unwrap(), b"\xbc\x78$\\u0041\x29\\v");
    }

    #[test]
    fn what_is_no_json5() {
        for text in ["", "{", "[1 2]", "01", "{1:2}", "'a", "+", ".", "1e", "[,]", "\\", "{a}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse("[".repeat(2000).as_bytes()).is_err());
    }
}
