//! JSON as a tree, for what changes or reshapes it, and the reader of JSON5.
//!
//! Numbers and strings stay as text: a tree that was read from strict JSON is written with the
//! same spellings.

use super::text::hex4;

/// One element.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::functions) enum Node {
    Null,
    True,
    False,
    /// Decimal digits, with a sign where it is negative.
    Int(Vec<u8>),
    Real(Vec<u8>),
    /// What stands between the quotes in strict JSON, escapes and all.
    Text(Vec<u8>),
    Array(Vec<Node>),
    /// Labels are written as texts are.
    Object(Vec<(Vec<u8>, Node)>),
}

/// A text that is no JSON, not even by the rules of JSON5, and where it stops being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadJson {
    pub(super) pos: usize,
}

/// How deep arrays and objects may nest, as in SQLite.
const DEPTH_MAX: usize = 1000;

/// Reads a text by the rules of JSON5.
pub(super) fn parse(text: &[u8]) -> Result<Node, BadJson> {
    let mut reader = Reader { text, pos: 0, depth: 0 };
    reader.skip_space();
    let node = reader.node()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.bad()),
    }
}

impl Node {
    /// A text of SQL as a string of JSON.
    pub(super) fn text(text: &[u8]) -> Node {
        Node::Text(escaped(text))
    }

    /// Appends the element as strict JSON without white space.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Null => out.extend_from_slice(b"null"),
            Node::True => out.extend_from_slice(b"true"),
            Node::False => out.extend_from_slice(b"false"),
            Node::Int(digits) | Node::Real(digits) => out.extend_from_slice(digits),
            Node::Text(inner) => write_quoted(inner, out),
            Node::Array(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Node::Object(members) => {
                out.push(b'{');
                for (place, (label, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    write_quoted(label, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Appends the element over many lines, `level` deep.
    pub(super) fn write_pretty(&self, indent: &[u8], level: usize, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, level: usize| {
            out.push(b'\n');
            (0..level).for_each(|_| out.extend_from_slice(indent));
        };
        match self {
            Node::Array(items) if !items.is_empty() => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    line(out, level + 1);
                    item.write_pretty(indent, level + 1, out);
                }
                line(out, level);
                out.push(b']');
            }
            Node::Object(members) if !members.is_empty() => {
                out.push(b'{');
                for (place, (label, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    line(out, level + 1);
                    write_quoted(label, out);
                    out.extend_from_slice(b": ");
                    value.write_pretty(indent, level + 1, out);
                }
                line(out, level);
                out.push(b'}');
            }
            other => other.write(out),
        }
    }

    /// The element as strict JSON.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

fn write_quoted(inner: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(inner);
    out.push(b'"');
}

/// A text as it stands between the quotes of a string of JSON.
pub(in crate::functions) fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => push_control(byte, &mut out),
            _ => out.push(byte),
        }
    }
    out
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

struct Reader<'a> {
    text: &'a [u8],
    pos: usize,
    depth: usize,
}

impl Reader<'_> {
    fn bad(&self) -> BadJson {
        BadJson { pos: self.pos }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Passes white space and comments, those of JSON5 included.
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

    fn node(&mut self) -> Result<Node, BadJson> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(quote @ (b'"' | b'\'')) => self.string(quote).map(Node::Text),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Node, BadJson> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let word = &rest[..length];
        let node = match word {
            b"true" => Node::True,
            b"false" => Node::False,
            b"null" => Node::Null,
            _ => match word.to_ascii_lowercase().as_slice() {
                b"inf" | b"infinity" => Node::Real(b"9e999".to_vec()),
                b"nan" | b"qnan" | b"snan" => Node::Null,
                _ => return Err(self.bad()),
            },
        };
        self.pos += length;
        Ok(node)
    }

    fn deeper(&mut self) -> Result<(), BadJson> {
        self.depth += 1;
        self.pos += 1;
        if self.depth > DEPTH_MAX { Err(self.bad()) } else { Ok(()) }
    }

    fn array(&mut self) -> Result<Node, BadJson> {
        self.deeper()?;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(b']') {
                break;
            }
            items.push(self.node()?);
            if !self.comma(b']')? {
                break;
            }
        }
        self.depth -= 1;
        self.pos += 1;
        Ok(Node::Array(items))
    }

    fn object(&mut self) -> Result<Node, BadJson> {
        self.deeper()?;
        let mut members = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(b'}') {
                break;
            }
            let label = match self.peek() {
                Some(quote @ (b'"' | b'\'')) => self.string(quote)?,
                _ => self.name()?,
            };
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.bad());
            }
            self.pos += 1;
            self.skip_space();
            members.push((label, self.node()?));
            if !self.comma(b'}')? {
                break;
            }
        }
        self.depth -= 1;
        self.pos += 1;
        Ok(Node::Object(members))
    }

    /// Passes a comma; false when what closes the list stands there.
    fn comma(&mut self, close: u8) -> Result<bool, BadJson> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.bad()),
        }
    }

    /// A label without quotes.
    fn name(&mut self) -> Result<Vec<u8>, BadJson> {
        let start = self.pos;
        while let Some(byte) = self.peek() {
            let escape = byte == b'\\'
                && self.text.get(self.pos + 1) == Some(&b'u')
                && self.text.get(self.pos + 2..self.pos + 6).and_then(hex4).is_some();
            let first = self.pos == start;
            let part = byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') || byte >= 0x80;
            if escape {
                self.pos += 6;
            } else if part && !(byte >= 0x80 && self.at_space()) || !first && byte.is_ascii_digit()
            {
                self.pos += 1;
            } else {
                break;
            }
        }
        if self.pos == start {
            return Err(self.bad());
        }
        Ok(self.text[start..self.pos].to_vec())
    }

    fn at_space(&mut self) -> bool {
        let here = self.pos;
        self.skip_space();
        let moved = self.pos != here;
        self.pos = here;
        moved
    }

    /// A string in either kind of quotes, as strict JSON writes it between its own.
    fn string(&mut self, quote: u8) -> Result<Vec<u8>, BadJson> {
        self.pos += 1;
        let mut out = Vec::new();
        loop {
            let byte = self.peek().ok_or(self.bad())?;
            match byte {
                _ if byte == quote => {
                    self.pos += 1;
                    return Ok(out);
                }
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => {
                    self.escape(&mut out)?;
                    continue;
                }
                0 => return Err(self.bad()),
                1..0x20 => push_control(byte, &mut out),
                _ => out.push(byte),
            }
            self.pos += 1;
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), BadJson> {
        let hex = |from: usize, count: usize| {
            let digits = self.text.get(from..from + count)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)
        };
        let length = match self.text.get(self.pos + 1) {
            Some(byte @ (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                out.extend_from_slice(&[b'\\', *byte]);
                2
            }
            Some(b'u') => {
                let digits = hex(self.pos + 2, 4).ok_or(self.bad())?;
                out.extend_from_slice(b"\\u");
                out.extend_from_slice(digits);
                6
            }
            Some(b'x') => {
                let digits = hex(self.pos + 2, 2).ok_or(self.bad())?;
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(digits);
                4
            }
            Some(b'\'') => {
                out.push(b'\'');
                2
            }
            Some(b'v') => {
                out.extend_from_slice(b"\\u000b");
                2
            }
            Some(b'0') if !self.text.get(self.pos + 2).is_some_and(u8::is_ascii_digit) => {
                out.extend_from_slice(b"\\u0000");
                2
            }
            Some(b'\n') => 2,
            Some(b'\r') => 2 + usize::from(self.text.get(self.pos + 2) == Some(&b'\n')),
            Some(0xe2)
                if matches!(
                    self.text.get(self.pos + 2..self.pos + 4),
                    Some([0x80, 0xa8 | 0xa9])
                ) =>
            {
                4
            }
            _ => return Err(self.bad()),
        };
        self.pos += length;
        Ok(())
    }

    fn number(&mut self) -> Result<Node, BadJson> {
        let mut out = Vec::new();
        let start = BadJson { pos: self.pos };
        match self.peek() {
            Some(b'-') => {
                out.push(b'-');
                self.pos += 1;
            }
            Some(b'+') => self.pos += 1,
            _ => {}
        }
        let rest = self.rest();
        let lower = |count: usize| rest.get(..count).map(<[u8]>::to_ascii_lowercase);
        if lower(3).as_deref() == Some(b"inf") {
            let whole = lower(8).as_deref() == Some(b"infinity");
            self.pos += if whole { 8 } else { 3 };
            out.extend_from_slice(b"9e999");
            return Ok(Node::Real(out));
        }
        if let [b'0', b'x' | b'X', digit, ..] = rest
            && digit.is_ascii_hexdigit()
        {
            return Ok(self.hex_number(out));
        }
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(0);
        if whole > 1 && rest[0] == b'0' {
            self.pos += 1;
            return Err(self.bad());
        }
        out.extend_from_slice(if whole == 0 { b"0" } else { &rest[..whole] });
        let mut end = whole;
        let mut real = false;
        if rest.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            if whole == 0 && fraction == 0 {
                // The point itself, or what follows it behind a sign.
                let signed = self.pos > start.pos;
                return Err(if signed { BadJson { pos: self.pos + 1 } } else { start });
            }
            out.push(b'.');
            out.extend_from_slice(if fraction == 0 {
                b"0"
            } else {
                &rest[end + 1..end + 1 + fraction]
            });
            end += 1 + fraction;
            real = true;
        } else if whole == 0 {
            return Err(start);
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let count = digits((end + 1 + sign).min(rest.len()));
            if count == 0 {
                self.pos += end;
                return Err(self.bad());
            }
            out.extend_from_slice(&rest[end..end + 1 + sign + count]);
            end += 1 + sign + count;
            real = true;
        }
        self.pos += end;
        Ok(if real { Node::Real(out) } else { Node::Int(out) })
    }

    fn hex_number(&mut self, mut out: Vec<u8>) -> Node {
        self.pos += 2;
        let mut value: Option<u64> = Some(0);
        while let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
            let shifted = value.filter(|value| value >> 60 == 0);
            value = shifted.map(|value| value << 4 | u64::from(digit));
            self.pos += 1;
        }
        match value {
            Some(value) => {
                out.extend_from_slice(value.to_string().as_bytes());
                Node::Int(out)
            }
            None => {
                out.extend_from_slice(b"9.0e999");
                Node::Real(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json5_becomes_json() {
        let check = |text: &str, expect: &str| {
            let got = parse(text.as_bytes()).unwrap().to_text();
            assert_eq!(String::from_utf8(got).unwrap(), expect, "{text}");
        };
        check("{a:1,'b':[+2,.5,5.,0x1F,],}", r#"{"a":1,"b":[2,0.5,5.0,31]}"#);
        check("/*c*/ [Infinity, -inf, NaN] // end", "[9e999,-9e999,null]");
        check(r#"'a"b\'c\x41\v\0'"#, r#""a\"b'c\u0041\u000b\u0000""#);
        check("\"a\\\nb\tc\"", r#""ab\tc""#);
        check("{$_x9:1}", r#"{"$_x9":1}"#);
    }

    #[test]
    fn what_is_no_json5() {
        for text in ["", "{", "[1 2]", "01", "{1:2}", "'a", "+", ".", "1e", "[,]", "\\", "{a}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse("[".repeat(2000).as_bytes()).is_err());
    }
}
