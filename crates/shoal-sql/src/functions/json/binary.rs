//! JSONB: JSON as SQLite keeps it in blobs (jsonb.html). An element is a header (its kind in the
//! low half of the first byte, its length in the high half or the bytes after it) and a payload.

use super::node::{Node, escaped, parse};
use super::text::{check, unescape};

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

/// How deep arrays and objects may nest.
pub(super) const DEPTH_MAX: usize = 1000;

/// Reads a whole blob; `None` when it is no JSONB.
pub(super) fn decode(blob: &[u8]) -> Option<Node> {
    let (node, rest) = element(blob, 0)?;
    rest.is_empty().then_some(node)
}

/// The kind, the payload and what follows.
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

fn element(bytes: &[u8], depth: usize) -> Option<(Node, &[u8])> {
    let (kind, payload, rest) = header(bytes)?;
    let node = match kind {
        NULL | TRUE | FALSE if !payload.is_empty() => return None,
        NULL => Node::Null,
        TRUE => Node::True,
        FALSE => Node::False,
        // Whatever a number or a string holds must be what its kind says.
        INT | FLOAT => match (parse(payload).ok()?, check(payload)) {
            (node @ (Node::Int(_) | Node::Real(_)), Some(_)) => node,
            _ => return None,
        },
        INT5 | FLOAT5 => match parse(payload).ok()? {
            node @ (Node::Int(_) | Node::Real(_)) => node,
            _ => return None,
        },
        TEXT | TEXT_ESCAPED => {
            check(&[b"\"", payload, b"\""].concat())?;
            Node::Text(payload.to_vec())
        }
        TEXT5 => match parse(&requoted(payload)).ok()? {
            node @ Node::Text(_) => node,
            _ => return None,
        },
        TEXT_RAW => Node::Text(escaped(payload)),
        ARRAY | OBJECT if depth >= DEPTH_MAX => return None,
        ARRAY => {
            let mut items = Vec::new();
            let mut inner = payload;
            while !inner.is_empty() {
                let (item, after) = element(inner, depth + 1)?;
                items.push(item);
                inner = after;
            }
            Node::Array(items)
        }
        OBJECT => {
            let mut members = Vec::new();
            let mut inner = payload;
            while !inner.is_empty() {
                let (Node::Text(label), after) = element(inner, depth + 1)? else { return None };
                let (value, after) = element(after, depth + 1)?;
                members.push((label, value));
                inner = after;
            }
            Node::Object(members)
        }
        _ => return None,
    };
    Some((node, rest))
}

/// A string of JSON5 between quotes that end it nowhere else.
fn requoted(inner: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    let mut escape = false;
    for &byte in inner {
        if byte == b'"' && !escape {
            out.push(b'\\');
        }
        escape = byte == b'\\' && !escape;
        out.push(byte);
    }
    out.push(b'"');
    out
}

/// Writes an element.
pub(super) fn encode(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    push(node, &mut out);
    out
}

fn push(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Null => out.push(NULL),
        Node::True => out.push(TRUE),
        Node::False => out.push(FALSE),
        Node::Int(digits) => push_part(INT, digits, out),
        Node::Real(digits) => push_part(FLOAT, digits, out),
        Node::Text(inner) => push_text(inner, out),
        Node::Array(items) => {
            let mut payload = Vec::new();
            items.iter().for_each(|item| push(item, &mut payload));
            push_part(ARRAY, &payload, out);
        }
        Node::Object(members) => {
            let mut payload = Vec::new();
            for (label, value) in members {
                push_text(label, &mut payload);
                push(value, &mut payload);
            }
            push_part(OBJECT, &payload, out);
        }
    }
}

fn push_text(inner: &[u8], out: &mut Vec<u8>) {
    let kind = if inner.contains(&b'\\') { TEXT_ESCAPED } else { TEXT };
    push_part(kind, inner, out);
}

fn push_part(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length), u32::try_from(length)) {
        (Ok(short @ 0..12), ..) => out.push(short << 4 | kind),
        (Ok(length), ..) => out.extend_from_slice(&[12 << 4 | kind, length]),
        (_, Ok(length), _) => {
            out.push(13 << 4 | kind);
            out.extend_from_slice(&length.to_be_bytes());
        }
        (.., Ok(length)) => {
            out.push(14 << 4 | kind);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(15 << 4 | kind);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// A label as the key that a path names it by.
pub(super) fn label_text(label: &[u8]) -> Vec<u8> {
    unescape(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in [r#"{"a":[1,2.5,"x\n",null,true,false],"b":{}}"#, "[]", "\"\"", "-12"] {
            let node = parse(text.as_bytes()).unwrap();
            assert_eq!(decode(&encode(&node)).unwrap(), node, "{text}");
        }
        let long = format!("\"{}\"", "x".repeat(70_000));
        let node = parse(long.as_bytes()).unwrap();
        assert_eq!(decode(&encode(&node)).unwrap(), node);
    }

    #[test]
    fn bytes_that_are_no_jsonb() {
        for bytes in [&b""[..], b"\x10", b"\x1d", b"\x13x", b"\x2c\x13\x31", b"\x00\x00", b"\xf3"] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
