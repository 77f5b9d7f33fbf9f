//! The order of index entries: columns, collations, directions.

use std::cmp::Ordering;

use crate::{Collation, Corrupt, Record, ValueRef};

/// How one column of an index key is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyColumn {
    /// How texts compare.
    pub collation: Collation,
    /// True for the largest value first.
    pub descending: bool,
}

impl KeyColumn {
    /// A number that is smaller only for values that come first, and equal for many that differ:
    /// most comparisons of two values end with that of their numbers.
    #[inline(always)]
    pub fn prefix(self, value: ValueRef<'_>) -> u64 {
        let number = match value {
            ValueRef::Null => 0,
            // The rounding of large integers keeps their order.
            ValueRef::Int(int) => NUMBER | sortable(int as f64) >> 2,
            ValueRef::Real(real) => NUMBER | sortable(real) >> 2,
            ValueRef::Text(text) => self.prefix_of_text(text),
            ValueRef::Blob(blob) => BLOB | u64::from_be_bytes(first_bytes(blob)) >> 2,
        };
        if self.descending { !number } else { number }
    }

    fn prefix_of_text(self, text: &[u8]) -> u64 {
        let text = match self.collation {
            // Bytes say nothing about a program's own order.
            Collation::Own(_) => return TEXT,
            Collation::Utf16(order) => &crate::utf16::first_bytes(text, order),
            Collation::Rtrim => {
                let end = text.iter().rposition(|&byte| byte != b' ');
                &text[..end.map_or(0, |at| at + 1)]
            }
            _ => text,
        };
        let mut first = first_bytes(text);
        if self.collation == Collation::NoCase {
            first.make_ascii_lowercase();
            // What comes behind a NUL does not count.
            if let Some(end) = first.iter().position(|&byte| byte == 0) {
                first[end..].fill(0);
            }
        }
        TEXT | u64::from_be_bytes(first) >> 2
    }
}

/// The integer of a serial type of one byte at the start of `body`, which seldom goes on behind it;
/// `None` for anything else.
#[inline(always)]
fn int_in(serial: u8, body: &[u8]) -> Option<i64> {
    Some(match (serial, body) {
        (1, [a, ..]) => i64::from(a.cast_signed()),
        (2, [a, b, ..]) => i64::from(i16::from_be_bytes([*a, *b])),
        (3, [a, b, c, ..]) => i64::from(i32::from_be_bytes([*a, *b, *c, 0]) >> 8),
        (4, [a, b, c, d, ..]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
        (5, [a, b, c, d, e, f, ..]) => i64::from_be_bytes([*a, *b, *c, *d, *e, *f, 0, 0]) >> 16,
        (6, [a, b, c, d, e, f, g, h, ..]) => i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        (8, _) => 0,
        (9, _) => 1,
        _ => return None,
    })
}

/// Bytes of the serial types of integers; `int_in` knows which of them are none.
const INT_LENGTHS: [u8; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];

/// Two bits in front of a prefix: NULL has none of them.
const NUMBER: u64 = 1 << 62;
const TEXT: u64 = 2 << 62;
const BLOB: u64 = 3 << 62;

#[inline]
fn first_bytes(bytes: &[u8]) -> [u8; 8] {
    if let Some(first) = bytes.first_chunk() {
        return *first;
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    first
}

/// The bits of a float, ordered as unsigned numbers are; NaN, which no file holds, before all.
#[inline]
fn sortable(real: f64) -> u64 {
    if real.is_nan() {
        return 0;
    }
    // -0.0 is 0.0.
    let bits = (real + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The order of the entries of an index b-tree.
///
/// Columns past the ones listed (the rowid at the end of an entry, say) are binary and ascending,
/// so that every entry has one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    columns: Vec<KeyColumn>,
}

impl KeyOrder {
    /// The order of an index over `columns`.
    pub fn new(columns: Vec<KeyColumn>) -> KeyOrder {
        KeyOrder { columns }
    }

    /// The binary, ascending order of every column.
    pub const fn binary() -> KeyOrder {
        KeyOrder { columns: Vec::new() }
    }

    /// Returns the columns with an order of their own.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Returns how column `index` is ordered.
    #[inline]
    pub fn column(&self, index: usize) -> KeyColumn {
        self.columns.get(index).copied().unwrap_or_default()
    }

    /// Returns the order of the first `key.len()` columns of the record in `payload`, compared with
    /// `key`: equal when `key` is a prefix of the record. A record that ends early is less.
    ///
    /// # Errors
    /// [`Corrupt`] if the record is broken up to the deciding column.
    #[inline(always)]
    pub fn compare(&self, payload: &[u8], key: &[ValueRef<'_>]) -> Result<Ordering, Corrupt> {
        if let [wanted, rest @ ..] = key
            && let Some(order) = self.compare_first(payload, *wanted)
            && (rest.is_empty() || order.is_ne())
        {
            return Ok(order);
        }
        self.compare_each(payload, key)
    }

    /// The order of the first column where it decides most comparisons and is quickly found: an
    /// integer, or a short text compared byte by byte, in a record with a short header. `None` for
    /// any other, broken ones included.
    #[inline(always)]
    fn compare_first(&self, payload: &[u8], wanted: ValueRef<'_>) -> Option<Ordering> {
        let [header @ 2..0x80, serial @ 0..0x80, ..] = *payload else { return None };
        let body = payload.get(usize::from(header)..)?;
        let column = self.column(0);
        let order = match wanted {
            ValueRef::Int(wanted) => int_in(serial, body)?.cmp(&wanted),
            ValueRef::Text(wanted) if column.collation == Collation::Binary => {
                if serial < 13 || serial & 1 == 0 {
                    return None;
                }
                body.get(..usize::from(serial - 13) / 2)?.cmp(wanted)
            }
            _ => return None,
        };
        Some(if column.descending { order.reverse() } else { order })
    }

    #[inline(never)]
    fn compare_each(&self, payload: &[u8], key: &[ValueRef<'_>]) -> Result<Ordering, Corrupt> {
        if let Some(order) = self.compare_short(payload, key) {
            return Ok(order);
        }
        let mut values = Record::new(payload)?.values();
        for (index, wanted) in key.iter().enumerate() {
            let Some(value) = values.next() else {
                return Ok(Ordering::Less);
            };
            let order = self.compare_column(index, value?, *wanted);
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// The order of a record whose header has a byte for each column and whose columns up to the
    /// deciding one are integers or texts compared byte by byte. `None` for any other.
    #[inline]
    fn compare_short(&self, payload: &[u8], key: &[ValueRef<'_>]) -> Option<Ordering> {
        let [header @ 1..0x80, ..] = *payload else { return None };
        let (header, mut body) = payload.split_at_checked(usize::from(header))?;
        let types = &header[1..];
        for (index, wanted) in key.iter().enumerate() {
            let Some(&serial @ 0..0x80) = types.get(index) else { return None };
            let column = self.column(index);
            let (order, length) = match *wanted {
                ValueRef::Int(wanted) => {
                    let length = *INT_LENGTHS.get(usize::from(serial))?;
                    (int_in(serial, body)?.cmp(&wanted), usize::from(length))
                }
                ValueRef::Text(wanted) if column.collation == Collation::Binary => {
                    if serial < 13 || serial & 1 == 0 {
                        return None;
                    }
                    let length = usize::from(serial - 13) / 2;
                    (body.get(..length)?.cmp(wanted), length)
                }
                _ => return None,
            };
            if order.is_ne() {
                return Some(if column.descending { order.reverse() } else { order });
            }
            body = body.get(length..)?;
        }
        Some(Ordering::Equal)
    }

    /// Returns the order of two values of column `index`.
    #[inline]
    pub fn compare_column(&self, index: usize, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        let column = self.column(index);
        let order = a.compare(b, column.collation);
        if column.descending { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_record;

    #[test]
    fn numbers_never_contradict_the_order() {
        let values = [
            ValueRef::Null,
            ValueRef::Int(i64::MIN),
            ValueRef::Real(f64::NEG_INFINITY),
            ValueRef::Int(-1),
            ValueRef::Real(-0.0),
            ValueRef::Int(0),
            ValueRef::Real(0.5),
            ValueRef::Int(1 << 53),
            ValueRef::Int((1 << 53) + 1),
            ValueRef::Int(i64::MAX),
            ValueRef::Real(f64::INFINITY),
            ValueRef::Text(b""),
            ValueRef::Text(b"  "),
            ValueRef::Text(b"a"),
            ValueRef::Text(b"A"),
            ValueRef::Text(b"a "),
            ValueRef::Text(b"abcdefghi"),
            ValueRef::Text(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            ValueRef::Blob(b""),
            ValueRef::Blob(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ];
        for collation in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
            for descending in [false, true] {
                let column = KeyColumn { collation, descending };
                let order = KeyOrder::new(vec![column]);
                for a in values {
                    for b in values {
                        let expect = order.compare_column(0, a, b);
                        let numbers = column.prefix(a).cmp(&column.prefix(b));
                        assert!(numbers.is_eq() || numbers == expect, "{a:?} {b:?} {column:?}");
                        // The short way to compare agrees with the long one.
                        let mut record = Vec::new();
                        encode_record(&[a, ValueRef::Int(7)], 4, &mut record);
                        assert_eq!(order.compare(&record, &[b]), Ok(expect), "{a:?} {b:?}");
                        let two = [b, ValueRef::Int(8)];
                        let expect = expect.then(Ordering::Less);
                        assert_eq!(order.compare(&record, &two), Ok(expect), "{a:?} {b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn prefixes_directions_and_collations() {
        let order = KeyOrder::new(vec![
            KeyColumn { collation: Collation::NoCase, descending: false },
            KeyColumn { collation: Collation::Binary, descending: true },
        ]);
        let mut record = Vec::new();
        let values = [ValueRef::Text(b"Abc"), ValueRef::Int(5), ValueRef::Int(9)];
        encode_record(&values, 4, &mut record);
        let check = |key: &[ValueRef<'_>], expect| {
            assert_eq!(order.compare(&record, key), Ok(expect), "{key:?}");
        };
        check(&[], Ordering::Equal);
        check(&[ValueRef::Text(b"aBC")], Ordering::Equal);
        check(&[ValueRef::Text(b"abd")], Ordering::Less);
        check(&[ValueRef::Text(b"abc"), ValueRef::Int(6)], Ordering::Greater);
        check(&[ValueRef::Text(b"abc"), ValueRef::Null], Ordering::Less);
        check(&values, Ordering::Equal);
        check(&[values[0], values[1], ValueRef::Int(8)], Ordering::Greater);
        check(&[values[0], values[1], values[2], ValueRef::Null], Ordering::Less);
        assert!(order.compare(&[9], &values).is_err());
    }
}
