//! Text of files in UTF-16 (file format §1.3.13, the text encoding), read as UTF-8.
//!
//! Above the store all text is UTF-8. What a file in UTF-16 holds is converted when a record is
//! read, with SQLite's rules for what is not valid: a surrogate and whatever unit follows it make
//! one character, a surrogate at the end is itself, a last odd byte is left out. The order of texts
//! is the one thing that the conversion does not keep: SQLite's `BINARY` compares the bytes as they
//! are stored, so an index of a little-endian file has `Ā` (00 01) before `b` (62 00). [`compare`]
//! tells that order of two texts in UTF-8.

use std::cmp::Ordering;

use crate::{Collation, Corrupt, KeyOrder, Record, TextEncoding, ValueRef, encode_record};

/// The first byte of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The low one.
    Little,
    /// The high one.
    Big,
}

impl TextEncoding {
    /// The order of bytes of UTF-16; `None` for UTF-8.
    #[inline]
    pub fn utf16(self) -> Option<ByteOrder> {
        match self {
            TextEncoding::Utf8 => None,
            TextEncoding::Utf16Le => Some(ByteOrder::Little),
            TextEncoding::Utf16Be => Some(ByteOrder::Big),
        }
    }
}

impl ByteOrder {
    fn unit(self, pair: [u8; 2]) -> u32 {
        u32::from(match self {
            ByteOrder::Little => u16::from_be_bytes([pair[1], pair[0]]),
            ByteOrder::Big => u16::from_be_bytes(pair),
        })
    }

    fn bytes(self, unit: u16) -> [u8; 2] {
        let [high, low] = unit.to_be_bytes();
        match self {
            ByteOrder::Little => [low, high],
            ByteOrder::Big => [high, low],
        }
    }
}

/// Appends `text`, in UTF-16, as UTF-8.
///
/// Cost: one pass; at most one and a half times as many bytes.
pub fn decode(text: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    let (pairs, _) = text.as_chunks::<2>();
    let mut units = pairs.iter().map(|pair| order.unit(*pair));
    while let Some(unit) = units.next() {
        let code = match unit {
            0xd800..0xe000 => match units.next() {
                Some(next) => {
                    (next & 0x3ff) + ((unit & 0x3f) << 10) + (((unit & 0x3c0) + 0x40) << 10)
                }
                None => unit,
            },
            unit => unit,
        };
        push_utf8(code, out);
    }
}

/// Appends `text`, which should be UTF-8, as UTF-16.
///
/// Cost: one pass; at most twice as many bytes.
pub fn encode(text: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    let mut at = 0;
    while at < text.len() {
        let (code, next) = read_utf8(text, at);
        push_utf16(code, order, out);
        at = next;
    }
}

/// The order of two texts in UTF-8 as the bytes of their UTF-16 forms have it.
///
/// Cost: one pass over what they have in common; no allocation for valid text.
pub fn compare(a: &[u8], b: &[u8], order: ByteOrder) -> Ordering {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let is_inside = |at: usize| {
        let inside = |text: &[u8]| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        inside(a) || inside(b)
    };
    if (common == a.len() || common == b.len()) && !is_inside(common) {
        return a.len().cmp(&b.len());
    }
    // The character in which they differ begins at or before the byte in which they do.
    let start = (0..=common).rev().find(|&at| !is_inside(at)).unwrap_or(0);
    if let (Some(a), Some(b)) = (first_char(&a[start..]), first_char(&b[start..]))
        && a != b
    {
        return units(a, order).cmp(&units(b, order));
    }
    let whole = |text: &[u8]| {
        let mut out = Vec::with_capacity(text.len() * 2);
        encode(text, order, &mut out);
        out
    };
    whole(a).cmp(&whole(b))
}

/// The first bytes of the UTF-16 form of a text in UTF-8, zeroes where there are fewer.
pub fn first_bytes(text: &[u8], order: ByteOrder) -> [u8; 8] {
    let mut out = Vec::with_capacity(16);
    let mut at = 0;
    while at < text.len() && out.len() < 8 {
        let (code, next) = read_utf8(text, at);
        push_utf16(code, order, &mut out);
        at = next;
    }
    out.resize(8, 0);
    out[..8].try_into().unwrap_or_default()
}

/// Puts the record in `payload`, whose text is UTF-16, into `out` with its text in UTF-8.
///
/// Cost: a pass over the whole record, and some allocations.
///
/// # Errors
/// [`Corrupt`] when any column of the record is broken.
pub fn record_to_utf8(payload: &[u8], order: ByteOrder, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    convert_record(payload, 4, out, |bytes, text| decode(bytes, order, text))
}

/// Puts a record with its text in UTF-8 into `out` with its text in UTF-16, in a schema format.
///
/// Cost: as [`record_to_utf8`].
///
/// # Errors
/// [`Corrupt`] when any column of the record is broken.
pub fn record_from_utf8(
    record: &[u8],
    order: ByteOrder,
    schema_format: u32,
    out: &mut Vec<u8>,
) -> Result<(), Corrupt> {
    convert_record(record, schema_format, out, |bytes, text| encode(bytes, order, text))
}

/// Puts a record into `out` with its texts converted.
fn convert_record(
    payload: &[u8],
    schema_format: u32,
    out: &mut Vec<u8>,
    convert: impl Fn(&[u8], &mut Vec<u8>),
) -> Result<(), Corrupt> {
    let mut text = Vec::new();
    let mut ends = Vec::new();
    let mut values = Vec::new();
    for value in Record::new(payload)?.values() {
        let value = value?;
        if let ValueRef::Text(bytes) = value {
            convert(bytes, &mut text);
            ends.push(text.len());
        }
        values.push(value);
    }
    let mut starts = std::iter::once(0).chain(ends.iter().copied()).zip(&ends);
    for value in &mut values {
        if let ValueRef::Text(bytes) = value
            && let Some((start, &end)) = starts.next()
        {
            *bytes = &text[start..end];
        }
    }
    out.clear();
    encode_record(&values, schema_format, out);
    Ok(())
}

/// The first columns of a key, in UTF-8, made ready to be compared with the entries of an index
/// whose text is UTF-16.
#[derive(Debug)]
pub struct Utf16Key<'k> {
    values: &'k [ValueRef<'k>],
    /// The UTF-16 forms of the texts among them; empty for other values.
    texts: Vec<Vec<u8>>,
    order: ByteOrder,
}

impl<'k> Utf16Key<'k> {
    /// Converts the texts of a key.
    pub fn new(values: &'k [ValueRef<'k>], order: ByteOrder) -> Utf16Key<'k> {
        let convert = |value: &ValueRef<'_>| {
            let mut out = Vec::new();
            if let ValueRef::Text(text) = value {
                encode(text, order, &mut out);
            }
            out
        };
        Utf16Key { values, texts: values.iter().map(convert).collect(), order }
    }

    /// The order of the first columns of the entry in `payload`, compared with the key: as
    /// [`KeyOrder::compare`], by the stored bytes where the order is binary.
    ///
    /// # Errors
    /// [`Corrupt`] if the record is broken up to the deciding column.
    pub fn compare(&self, payload: &[u8], order: &KeyOrder) -> Result<Ordering, Corrupt> {
        let mut values = Record::new(payload)?.values();
        let mut decoded = Vec::new();
        for (index, (wanted, text)) in self.values.iter().zip(&self.texts).enumerate() {
            let Some(value) = values.next() else { return Ok(Ordering::Less) };
            let column = order.column(index);
            let found = match (value?, wanted) {
                (ValueRef::Text(stored), ValueRef::Text(wanted)) => match column.collation {
                    Collation::Binary | Collation::Utf16(_) => stored.cmp(text.as_slice()),
                    Collation::NoCase | Collation::Rtrim | Collation::Own(_) => {
                        decoded.clear();
                        decode(stored, self.order, &mut decoded);
                        column.collation.compare(&decoded, wanted)
                    }
                },
                (value, wanted) => value.compare(*wanted, column.collation),
            };
            let found = if column.descending { found.reverse() } else { found };
            if found.is_ne() {
                return Ok(found);
            }
        }
        Ok(Ordering::Equal)
    }
}

/// The character at the beginning of a text, unless it is not valid or is one that SQLite
/// replaces.
fn first_char(text: &[u8]) -> Option<char> {
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    let first = valid.chars().next()?;
    let (_, next) = read_utf8(text, 0);
    let whole = next == first.len_utf8() && !matches!(first, '\u{fffe}' | '\u{ffff}');
    whole.then_some(first)
}

/// The bytes of a character in UTF-16, zeroes behind them.
fn units(character: char, order: ByteOrder) -> [u8; 4] {
    let mut units = [0; 2];
    let mut out = [0; 4];
    for (place, unit) in character.encode_utf16(&mut units).iter().enumerate() {
        out[place * 2..place * 2 + 2].copy_from_slice(&order.bytes(*unit));
    }
    out
}

/// The character at `at`, which is before the end, and where the next one begins, as SQLite reads
/// them: overlong forms are U+FFFD, a stray continuation byte is itself. A surrogate,
/// which [`decode`] gives for one at the end of a text, stays what it is.
///
/// # Panics
/// When `at` is not before the end.
#[inline]
pub fn read_utf8(text: &[u8], at: usize) -> (u32, usize) {
    let lead = text[at];
    let mut next = at + 1;
    if lead < 0xc0 {
        return (lead.into(), next);
    }
    let mut code: u32 = match lead {
        0xc0..0xe0 => lead & 0x1f,
        0xe0..0xf0 => lead & 0x0f,
        0xf0..0xf8 => lead & 0x07,
        0xf8..0xfc => lead & 0x03,
        0xfc..0xfe => lead & 0x01,
        _ => 0,
    }
    .into();
    while let Some(&byte) = text.get(next).filter(|&&byte| byte & 0xc0 == 0x80) {
        code = code.wrapping_shl(6).wrapping_add(u32::from(byte & 0x3f));
        next += 1;
    }
    if code < 0x80 {
        code = 0xfffd;
    }
    (code, next)
}

/// Appends a code, which may be a surrogate, in the form that UTF-8 would give it.
fn push_utf8(code: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend([0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend([0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => out.extend([0xf0 | (code >> 18 & 7) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// Appends a code in UTF-16; of one above U+10FFFF the lower bits count.
fn push_utf16(code: u32, order: ByteOrder, out: &mut Vec<u8>) {
    match u16::try_from(code) {
        Ok(unit) => out.extend(order.bytes(unit)),
        Err(_) => {
            let above = code.wrapping_sub(0x1_0000);
            out.extend(order.bytes(0xd800 | (above >> 10 & 0x3ff) as u16));
            out.extend(order.bytes(0xdc00 | (code & 0x3ff) as u16));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::KeyColumn;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    fn encoded(text: &[u8], order: ByteOrder) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, order, &mut out);
        out
    }

    fn decoded(text: &[u8], order: ByteOrder) -> Vec<u8> {
        let mut out = Vec::new();
        decode(text, order, &mut out);
        out
    }

    #[test]
    fn invalid_text_is_read_as_sqlite_reads_it() {
        // Checked with SQLite 3.54; older versions put U+FFFD in the place of U+FFFF.
        let big = |text: &[u8]| decoded(text, ByteOrder::Big);
        assert_eq!(big(&[0xd8, 0, 0, 0x41]), "\u{10041}".as_bytes());
        assert_eq!(big(&[0xd8, 0]), [0xed, 0xa0, 0x80]);
        assert_eq!(big(&[0, 0x61, 0x62]), b"a");
        assert_eq!(decoded(&[0, 0xd8, 0x41, 0], ByteOrder::Little), "\u{10041}".as_bytes());
        let back = |text: &[u8]| encoded(text, ByteOrder::Big);
        assert_eq!(back(&[0xed, 0xa0, 0x80]), [0xd8, 0]);
        assert_eq!(back("\u{ffff}".as_bytes()), [0xff, 0xff]);
        assert_eq!(back("\u{10000}".as_bytes()), [0xd8, 0, 0xdc, 0]);
    }

    #[test]
    fn the_order_is_that_of_the_stored_bytes() {
        let check = |a: &str, b: &str, little: Ordering, big: Ordering| {
            for (order, expect) in ORDERS.into_iter().zip([little, big]) {
                assert_eq!(compare(a.as_bytes(), b.as_bytes(), order), expect, "{a} {b} {order:?}");
            }
        };
        check("\u{100}", "b", Ordering::Less, Ordering::Greater);
        check("\u{1f600}", "\u{fb00}", Ordering::Greater, Ordering::Less);
        check("ab", "abc", Ordering::Less, Ordering::Less);
        check("a\u{e9}", "a\u{e9}", Ordering::Equal, Ordering::Equal);
        // A byte that belongs to no character is one of its own.
        assert_eq!(compare(b" \x80", b" ", ByteOrder::Little), Ordering::Greater);
    }

    #[test]
    fn keys_compare_with_stored_entries() {
        let order = KeyOrder::new(vec![
            KeyColumn { collation: Collation::NoCase, descending: false },
            KeyColumn { collation: Collation::Utf16(ByteOrder::Little), descending: true },
        ]);
        let first = encoded("\u{c4}b".as_bytes(), ByteOrder::Little);
        let second = encoded("\u{100}".as_bytes(), ByteOrder::Little);
        let mut record = Vec::new();
        encode_record(&[ValueRef::Text(&first), ValueRef::Text(&second)], 4, &mut record);
        let compare = |key: &[&str]| {
            let values: Vec<_> = key.iter().map(|text| ValueRef::Text(text.as_bytes())).collect();
            Utf16Key::new(&values, ByteOrder::Little).compare(&record, &order).unwrap()
        };
        assert_eq!(compare(&["\u{c4}B"]), Ordering::Equal);
        assert_eq!(compare(&["\u{c4}B", "\u{100}"]), Ordering::Equal);
        assert_eq!(compare(&["\u{c4}B", "b"]), Ordering::Greater);
        assert_eq!(compare(&["z"]), Ordering::Greater);
        let mut back = Vec::new();
        record_to_utf8(&record, ByteOrder::Little, &mut back).unwrap();
        let values: Result<Vec<_>, _> = Record::new(&back).unwrap().values().collect();
        let expect = ["\u{c4}b", "\u{100}"].map(|text| ValueRef::Text(text.as_bytes()));
        assert_eq!(values.unwrap(), expect);
    }

    #[test]
    fn nothing_comes_before_a_stray_byte() {
        for order in ORDERS {
            assert_eq!(compare(b"", b"\x80", order), Ordering::Less);
            assert_eq!(compare(b"\xbf", b"", order), Ordering::Greater);
            assert_eq!(
                compare("é".as_bytes(), b"\xc3", order),
                encoded("é".as_bytes(), order).cmp(&encoded(b"\xc3", order))
            );
        }
    }

    proptest! {
        #[test]
        fn valid_text_comes_back(text in any::<String>()) {
            prop_assume!(!text.contains(['\u{fffe}', '\u{ffff}']));
            for order in ORDERS {
                let there = encoded(text.as_bytes(), order);
                prop_assert_eq!(decoded(&there, order), text.as_bytes());
            }
        }

        #[test]
        fn the_order_of_any_bytes_is_that_of_their_utf16(
            common in any::<String>(),
            a in prop::collection::vec(any::<u8>(), 0..6),
            b in prop::collection::vec(any::<u8>(), 0..6),
            c in any::<String>(),
            d in any::<String>(),
        ) {
            for order in ORDERS {
                for (a, b) in [(&a[..], &b[..]), (c.as_bytes(), d.as_bytes()), (&a[..], d.as_bytes())] {
                    let (a, b) = ([common.as_bytes(), a].concat(), [common.as_bytes(), b].concat());
                    let expect = encoded(&a, order).cmp(&encoded(&b, order));
                    // Invalid bytes that are replaced alike are told apart by their own.
                    prop_assert_eq!(compare(&a, &b, order), expect);
                    let first = first_bytes(&a, order).cmp(&first_bytes(&b, order));
                    prop_assert!(first.is_eq() || first == expect);
                }
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for order in ORDERS {
                let mut out = Vec::new();
                let _ = record_to_utf8(&bytes, order, &mut out);
                prop_assert!(decoded(&bytes, order).len() <= bytes.len() * 3 / 2);
            }
        }
    }
}
