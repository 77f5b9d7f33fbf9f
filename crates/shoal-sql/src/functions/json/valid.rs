//! Where a blob stops being JSONB, for `json_valid` and `json_error_position`.

use super::binary::{
    ARRAY, DEPTH_MAX, FALSE, FLOAT, FLOAT5, INT, INT5, NULL, OBJECT, TEXT, TEXT_ESCAPED, TEXT_RAW,
    TEXT5, TRUE, header,
};

/// Payloads longer than this cannot be a short text with a first byte like a header's.
const SHORT: usize = 7;

/// True where a blob is taken for JSONB: the outermost header fits the length. A short blob of an
/// object, an array or a number may as well be a text, and must be valid throughout.
pub(super) fn looks_right(blob: &[u8]) -> bool {
    let Some((kind, payload, rest)) = header(blob) else { return false };
    let empty = matches!(kind, NULL | TRUE | FALSE);
    let may_be_text = matches!(blob[0], b'{' | b'[' | b'0'..=b'9');
    rest.is_empty()
        && kind <= OBJECT
        && (!empty || payload.is_empty())
        && (payload.len() > SHORT || !may_be_text || fault(blob).is_none())
}

/// The place, in bytes from 1, of the first fault of a blob.
pub(super) fn fault(blob: &[u8]) -> Option<usize> {
    match header(blob) {
        Some((_, _, [])) => element(blob, 0, 1),
        _ => Some(1),
    }
}

/// As [`fault`] for one element at `at`, as long as its header says.
fn element(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    let whole = Some(at + 1);
    let Some((kind, payload, _)) = header(bytes) else { return whole };
    if depth > DEPTH_MAX {
        return whole;
    }
    let first = at + (bytes.len() - payload.len());
    let inside = |place: Option<usize>| place.map(|place| first + place + 1);
    match kind {
        NULL | TRUE | FALSE => {
            if bytes.len() == 1 {
                None
            } else {
                whole
            }
        }
        INT => match payload.strip_prefix(b"-").unwrap_or(payload) {
            [] => whole,
            digits => {
                let sign = payload.len() - digits.len();
                let bad = digits.iter().position(|digit| !digit.is_ascii_digit());
                inside(bad.map(|place| sign + place))
            }
        },
        INT5 => {
            let number = payload.strip_prefix(b"-").unwrap_or(payload);
            let sign = payload.len() - number.len();
            match number {
                [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => {
                    let bad = digits.iter().position(|digit| !digit.is_ascii_hexdigit());
                    inside(bad.map(|place| sign + 2 + place))
                }
                [b'0', _, _, ..] => inside(Some(sign + 1)),
                _ => whole,
            }
        }
        FLOAT | FLOAT5 => match real(payload, kind == FLOAT5) {
            Fault::None => None,
            Fault::Whole => whole,
            Fault::At(place) => inside(Some(place)),
        },
        TEXT => inside(payload.iter().position(|&byte| !is_plain(byte) && byte != b'\'')),
        TEXT_ESCAPED | TEXT5 => inside(text(payload, kind == TEXT5)),
        TEXT_RAW => None,
        ARRAY | OBJECT => {
            let mut inner = payload;
            let mut count = 0_usize;
            while !inner.is_empty() {
                let here = first + (payload.len() - inner.len());
                let Some((kind, _, rest)) = header(inner) else { return Some(here + 1) };
                let label = bytes[0] & 15 == OBJECT && count.is_multiple_of(2);
                if label && !(TEXT..=TEXT_RAW).contains(&kind) {
                    return Some(here + 1);
                }
                let own = &inner[..inner.len() - rest.len()];
                if let Some(place) = element(own, here, depth + 1) {
                    return Some(place);
                }
                count += 1;
                inner = rest;
            }
            let whole_pairs = kind == ARRAY || count.is_multiple_of(2);
            if whole_pairs { None } else { Some(first + payload.len() + 1) }
        }
        _ => whole,
    }
}

enum Fault {
    None,
    Whole,
    At(usize),
}

/// The fault in the digits of a real; reals of JSON5 may begin or end with the point.
fn real(payload: &[u8], json5: bool) -> Fault {
    let sign = usize::from(payload.first() == Some(&b'-'));
    if payload.len() < sign + 2 {
        return Fault::Whole;
    }
    let digit = |place: usize| payload.get(place).is_some_and(u8::is_ascii_digit);
    let (mut place, mut point, mut exponent) = (sign, false, false);
    match payload[place] {
        b'.' if !json5 || !digit(place + 1) => return Fault::At(place),
        b'.' => (place, point) = (place + 2, true),
        b'0' if !json5 => {
            let followed = matches!(payload[place + 1], b'.' | b'e' | b'E');
            if payload.len() < place + 3 || !followed {
                return Fault::At(place);
            }
            place += 1;
        }
        _ => {}
    }
    while place < payload.len() {
        match payload[place] {
            b'0'..=b'9' => {}
            b'.' if point || exponent || !json5 && !digit(place + 1) => return Fault::At(place),
            b'.' => point = true,
            b'e' | b'E' if !exponent && place + 1 < payload.len() => {
                exponent = true;
                if matches!(payload[place + 1], b'+' | b'-') {
                    place += 1;
                    if place + 1 == payload.len() {
                        return Fault::At(place);
                    }
                }
            }
            _ => return Fault::At(place),
        }
        place += 1;
    }
    if point || exponent { Fault::None } else { Fault::Whole }
}

/// The place where a string with escapes breaks the rules of JSON, or of JSON5.
fn text(payload: &[u8], json5: bool) -> Option<usize> {
    let mut place = 0;
    // Behind an escaped end of a line SQLite looks at an escape less closely.
    let mut continued = false;
    while let Some(&byte) = payload.get(place) {
        let lenient = std::mem::take(&mut continued);
        if byte != b'\\' {
            if byte != b'\'' && !is_plain(byte) && !json5 {
                return Some(place);
            }
            place += 1;
            continue;
        }
        let hex = |count: usize| {
            let digits = payload.get(place + 2..place + 2 + count);
            digits.is_some_and(|digits| lenient || digits.iter().all(u8::is_ascii_hexdigit))
        };
        let length = match &payload[place + 1..] {
            // A NUL ends SQLite's list of these letters, and so is one.
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'\0', ..] => 2,
            [b'u', ..] if hex(4) => 6,
            // Whatever the two digits are.
            [b'x', _, _, ..] if json5 => 4,
            [b'\'' | b'v', ..] if json5 => 2,
            [b'0', next, ..] if json5 && next.is_ascii_digit() => return Some(place),
            [b'0', ..] if json5 => 2,
            // Line ends known only to Unicode.
            [0xe2, 0x80, 0xa8 | 0xa9, ..] if json5 => {
                continued = true;
                4
            }
            [b'\n' | b'\r', ..] if json5 => {
                continued = true;
                2
            }
            _ => return Some(place),
        };
        place += length;
    }
    None
}

/// True for a byte standing for itself in a string of JSON.
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && !matches!(byte, b'"' | b'\\' | b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_places() {
        let cases: [(&[u8], Option<usize>); 12] = [
            (b"\x00", None),
            (b"\x01", None),
            (b"\x13x", Some(2)),
            (b"\x2312", None),
            (b"\x23-x", Some(3)),
            (b"\x340x1", None),
            (b"\x34123", Some(1)),
            (b"\x351.5", None),
            (b"\x17\"", Some(2)),
            (b"\x2b\x13\x31", None),
            (b"\x3b\x131\x1d", Some(4)),
            (b"\x2c\x131", Some(2)),
        ];
        for (blob, place) in cases {
            assert_eq!(fault(blob), place, "{blob:x?}");
        }
        assert!(!looks_right(b"[null]"));
        assert!(!looks_right(b"4123"));
        assert!(looks_right(b"\x17a"));
    }
}
