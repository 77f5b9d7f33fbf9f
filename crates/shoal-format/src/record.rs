//! Records: a row's or an index entry's values (file format §2.1).
//!
//! A record is a header (a varint of its own length, then one varint serial type per column) and
//! the columns' bytes behind each other.

use crate::{Corrupt, ValueRef, varint};

/// A record as a view over its payload.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    types: &'a [u8],
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Views `payload` as a record.
    ///
    /// # Errors
    /// [`Corrupt`] if the header overruns the payload. Serial types and bodies are checked when
    /// they are read.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Result<Record<'a>, Corrupt> {
        let corrupt = |value: u64| Corrupt::new("record", "header passes the payload", value);
        let (length, start) = varint::read(payload).ok_or_else(|| corrupt(0))?;
        let length = usize::try_from(length).map_err(|_| corrupt(length))?;
        match payload.split_at_checked(length) {
            Some((header, body)) if start <= length => Ok(Record { types: &header[start..], body }),
            _ => Err(corrupt(length as u64)),
        }
    }

    /// Returns the columns in order.
    #[inline]
    pub fn values(&self) -> Values<'a> {
        Values { types: self.types, body: self.body }
    }

    /// Returns column `index` as a view into the payload.
    ///
    /// Cost: one walk of the header up to `index`; no allocation, no check of the text's encoding.
    /// `None` when the record has fewer columns: it was written before the column was added.
    ///
    /// # Errors
    /// [`Corrupt`] if a serial type up to `index` is reserved (10, 11) or passes the payload.
    #[inline]
    pub fn column(&self, index: usize) -> Result<Option<ValueRef<'a>>, Corrupt> {
        let mut values = self.values();
        for _ in 0..index {
            if !values.skip_one()? {
                return Ok(None);
            }
        }
        values.next().transpose()
    }

    #[cfg(test)]
    pub(crate) fn serial_type(&self, index: usize) -> Option<u64> {
        let mut values = self.values();
        for _ in 0..index {
            values.skip_one().ok()?;
        }
        values.next_type()?.ok()
    }

    /// Returns the number of columns. Cost: one walk of the header.
    ///
    /// # Errors
    /// As [`Record::column`].
    pub fn column_count(&self) -> Result<usize, Corrupt> {
        let mut values = self.values();
        let mut count = 0;
        while values.skip_one()? {
            count += 1;
        }
        Ok(count)
    }
}

/// The columns of a record, in order; ends after the first error.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    types: &'a [u8],
    body: &'a [u8],
}

impl<'a> Values<'a> {
    #[inline]
    fn next_type(&mut self) -> Option<Result<u64, Corrupt>> {
        if self.types.is_empty() {
            return None;
        }
        match varint::read(self.types) {
            Some((serial, length)) => {
                self.types = &self.types[length..];
                Some(Ok(serial))
            }
            None => {
                self.types = &[];
                Some(Err(Corrupt::new("record", "header ends inside a serial type", 0)))
            }
        }
    }

    #[inline]
    fn take(&mut self, serial: u64) -> Result<&'a [u8], Corrupt> {
        let length = body_len(serial)?;
        match usize::try_from(length).ok().and_then(|length| self.body.split_at_checked(length)) {
            Some((bytes, rest)) => {
                self.body = rest;
                Ok(bytes)
            }
            None => Err(Corrupt::new("record", "column passes the payload", length)),
        }
    }

    /// Steps over one column, undecoded; false at the end.
    ///
    /// # Errors
    /// As [`Record::column`].
    #[inline]
    pub fn skip_one(&mut self) -> Result<bool, Corrupt> {
        match self.next_type() {
            None => Ok(false),
            Some(serial) => self.take(serial?).map(|_| true),
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<ValueRef<'a>, Corrupt>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let serial = match self.next_type()? {
            Ok(serial) => serial,
            Err(error) => return Some(Err(error)),
        };
        let value = self.take(serial).map(|bytes| decode(serial, bytes));
        if value.is_err() {
            self.types = &[];
        }
        Some(value)
    }
}

/// Bytes of a value with serial type `serial`.
#[inline]
fn body_len(serial: u64) -> Result<u64, Corrupt> {
    const FIXED: [u64; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];
    match serial {
        0..10 => Ok(FIXED[serial as usize]),
        10 | 11 => Err(Corrupt::new("record", "has a reserved serial type", serial)),
        _ => Ok((serial - 12) / 2),
    }
}

/// Decodes `bytes`, whose length is [`body_len`] of `serial`.
#[inline]
pub(crate) fn decode(serial: u64, bytes: &[u8]) -> ValueRef<'_> {
    match serial {
        0 => ValueRef::Null,
        1..=6 => ValueRef::Int(decode_int(bytes)),
        7 => {
            let real = f64::from_bits(decode_int(bytes).cast_unsigned());
            // No writer stores a NaN; SQLite reads a forged one as NULL.
            if real.is_nan() { ValueRef::Null } else { ValueRef::Real(real) }
        }
        8 => ValueRef::Int(0),
        9 => ValueRef::Int(1),
        _ if serial.is_multiple_of(2) => ValueRef::Blob(bytes),
        _ => ValueRef::Text(bytes),
    }
}

/// Reads a two's complement integer of 1 to 8 bytes.
#[inline]
fn decode_int(bytes: &[u8]) -> i64 {
    match *bytes {
        [a] => i64::from(a.cast_signed()),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c] => i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f] => i64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16,
        [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
        // No serial type has such a length.
        _ => 0,
    }
}

/// Appends the record of `values` to `out`.
///
/// Each value takes its shortest serial type; 0 and 1 take none of the body when `schema_format` is
/// 4. NaN is written as NULL and -0.0 as 0.0, as SQLite does.
///
/// Cost: two passes over `values`, one reservation in `out`.
#[inline]
pub fn encode_record(values: &[ValueRef<'_>], schema_format: u32, out: &mut Vec<u8>) {
    encode_values(values.iter().copied(), schema_format, out);
}

/// As [`encode_record`], for values not side by side in memory.
pub fn encode_values<'v>(
    values: impl Iterator<Item = ValueRef<'v>> + Clone,
    schema_format: u32,
    out: &mut Vec<u8>,
) {
    let constants = schema_format >= 4;
    let mut types_len = 0;
    let mut body = 0;
    for value in values.clone() {
        let (serial, length) = serial_type(value, constants);
        types_len += if serial < 0x80 { 1 } else { varint::len(serial) };
        body += length;
    }
    // The header's length counts its own varint, which may grow by counting itself.
    let mut header_len = types_len + 1;
    while header_len >= 0x80 && types_len + varint::len(header_len as u64) != header_len {
        header_len = types_len + varint::len(header_len as u64);
    }
    let start = out.len();
    // Numbers are written as eight bytes, of which those behind the value's are overwritten.
    out.resize(start + header_len + body + 8, 0);
    let (header, bodies) = out[start..].split_at_mut(header_len);
    let mut types = write_short(header_len as u64, header);
    let mut at = 0;
    for value in values {
        let (serial, length) = serial_type(value, constants);
        if serial < 0x80 {
            header[types] = serial as u8;
            types += 1;
        } else {
            types += varint::write(serial, &mut header[types..]);
        }
        let word = match value {
            ValueRef::Int(int) if length > 0 => int.cast_unsigned() << (64 - 8 * length),
            ValueRef::Real(real) if length > 0 => (real + 0.0).to_bits(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                bodies[at..at + length].copy_from_slice(bytes);
                at += length;
                continue;
            }
            _ => continue,
        };
        bodies[at..at + 8].copy_from_slice(&word.to_be_bytes());
        at += length;
    }
    out.truncate(start + header_len + body);
}

/// The size of a record to be written.
#[derive(Clone, Copy, Debug)]
pub struct RecordSize {
    header: usize,
    total: usize,
}

impl RecordSize {
    /// The size of the record of `values`.
    #[inline]
    pub fn of(values: &[ValueRef<'_>], schema_format: u32) -> RecordSize {
        let constants = schema_format >= 4;
        let (mut header, mut body) = (1, 0);
        for value in values {
            let (serial, length) = serial_type(*value, constants);
            header += if serial < 0x80 { 1 } else { varint::len(serial) };
            body += length;
        }
        if header >= 0x80 {
            // The header's length counts its own varint, which may grow by counting itself.
            let types = header - 1;
            while types + varint::len(header as u64) != header {
                header = types + varint::len(header as u64);
            }
        }
        RecordSize { header, total: header + body }
    }

    /// Bytes of the whole record.
    #[inline]
    pub fn total(self) -> usize {
        self.total
    }
}

/// Writes the record of `values` into `out`, which has [`RecordSize::total`] bytes.
///
/// # Panics
/// When `size` is another record's and `out` too short.
#[inline]
pub fn write_record(values: &[ValueRef<'_>], schema_format: u32, size: RecordSize, out: &mut [u8]) {
    let constants = schema_format >= 4;
    let (header, mut body) = out.split_at_mut(size.header);
    let mut types = write_short(size.header as u64, header);
    for value in values {
        let (serial, length) = serial_type(*value, constants);
        if serial < 0x80 {
            header[types] = serial as u8;
            types += 1;
        } else {
            types += varint::write(serial, &mut header[types..]);
        }
        let (place, rest) = body.split_at_mut(length);
        body = rest;
        match *value {
            ValueRef::Int(int) => write_int(int, place),
            ValueRef::Real(real) if length > 0 => {
                place.copy_from_slice(&(real + 0.0).to_bits().to_be_bytes());
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => place.copy_from_slice(bytes),
            _ => {}
        }
    }
}

/// As [`varint::write`], quick for one byte.
#[inline(always)]
fn write_short(value: u64, out: &mut [u8]) -> usize {
    match out.first_mut() {
        Some(first) if value < 0x80 => {
            *first = value as u8;
            1
        }
        _ => varint::write(value, out),
    }
}

/// Writes the last bytes of an integer, as many as there are places: 0, 1, 2, 3, 4, 6 or 8.
#[inline]
fn write_int(int: i64, out: &mut [u8]) {
    let bytes = int.to_be_bytes();
    match out {
        [a] => *a = bytes[7],
        [_, _] => out.copy_from_slice(&bytes[6..]),
        [_, _, _] => out.copy_from_slice(&bytes[5..]),
        [_, _, _, _] => out.copy_from_slice(&bytes[4..]),
        [_, _, _, _, _, _] => out.copy_from_slice(&bytes[2..]),
        [_, _, _, _, _, _, _, _] => out.copy_from_slice(&bytes),
        _ => {}
    }
}

/// Serial type and body length of a value to be written.
#[inline]
fn serial_type(value: ValueRef<'_>, constants: bool) -> (u64, usize) {
    match value {
        ValueRef::Null => (0, 0),
        ValueRef::Int(0) if constants => (8, 0),
        ValueRef::Int(1) if constants => (9, 0),
        ValueRef::Int(int) => {
            // Bits of the magnitude in two's complement, without the sign.
            let bits = 64 - (int ^ (int >> 63)).leading_zeros();
            match bits {
                0..=7 => (1, 1),
                8..=15 => (2, 2),
                16..=23 => (3, 3),
                24..=31 => (4, 4),
                32..=47 => (5, 6),
                _ => (6, 8),
            }
        }
        ValueRef::Real(real) if real.is_nan() => (0, 0),
        ValueRef::Real(_) => (7, 8),
        ValueRef::Text(bytes) => (bytes.len() as u64 * 2 + 13, bytes.len()),
        ValueRef::Blob(bytes) => (bytes.len() as u64 * 2 + 12, bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_record(values, 4, &mut out);
        for format in [1, 4] {
            let (mut vector, size) = (Vec::new(), RecordSize::of(values, format));
            encode_record(values, format, &mut vector);
            let mut bytes = vec![0xaa; size.total()];
            write_record(values, format, size, &mut bytes);
            assert_eq!(bytes, vector, "{values:?}");
        }
        out
    }

    #[test]
    fn serial_types_and_bytes() {
        let check = |value: ValueRef<'_>, expect: &[u8]| {
            let bytes = encode(&[value]);
            assert_eq!(bytes, expect, "{value:?}");
            assert_eq!(Record::new(&bytes).unwrap().column(0), Ok(Some(value)));
            assert_eq!(Record::new(&bytes).unwrap().column(1), Ok(None));
        };
        check(ValueRef::Null, &[2, 0]);
        check(ValueRef::Int(0), &[2, 8]);
        check(ValueRef::Int(1), &[2, 9]);
        check(ValueRef::Int(-1), &[2, 1, 0xff]);
        check(ValueRef::Int(127), &[2, 1, 127]);
        check(ValueRef::Int(-128), &[2, 1, 0x80]);
        check(ValueRef::Int(128), &[2, 2, 0, 0x80]);
        check(ValueRef::Int(-8_388_608), &[2, 3, 0x80, 0, 0]);
        check(ValueRef::Int(1 << 31), &[2, 5, 0, 0, 0x80, 0, 0, 0]);
        check(ValueRef::Int((1 << 47) - 1), &[2, 5, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff]);
        check(ValueRef::Int(1 << 47), &[2, 6, 0, 0, 0x80, 0, 0, 0, 0, 0]);
        check(ValueRef::Int(i64::MIN), &[2, 6, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        check(ValueRef::Real(1.5), &[2, 7, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        check(ValueRef::Text(b"hi"), &[2, 17, b'h', b'i']);
        check(ValueRef::Blob(&[0]), &[2, 14, 0]);
        assert_eq!(encode(&[ValueRef::Real(-0.0)])[2..], [0; 8]);
        assert_eq!(encode(&[ValueRef::Real(f64::NAN)]), [2, 0]);
        let mut old = Vec::new();
        encode_record(&[ValueRef::Int(1)], 3, &mut old);
        assert_eq!(old, [2, 1, 1]);
    }

    #[test]
    fn the_header_length_counts_itself() {
        for count in [0, 125, 126, 127, 128, 129, 16380, 16382] {
            let values = vec![ValueRef::Null; count];
            let bytes = encode(&values);
            let record = Record::new(&bytes).unwrap();
            assert_eq!(record.column_count(), Ok(count));
            assert_eq!(varint::read(&bytes).unwrap().0, bytes.len() as u64);
        }
    }

    #[test]
    fn broken_records_are_errors() {
        let check = |bytes: &[u8], why: &str| {
            let error = Record::new(bytes)
                .and_then(|record| record.values().collect::<Result<Vec<_>, _>>())
                .unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        };
        check(&[], "header passes");
        check(&[0], "header passes");
        check(&[5, 0], "header passes");
        check(&[2, 10], "reserved serial type: 10");
        check(&[2, 11], "reserved serial type: 11");
        check(&[2, 6, 0], "column passes");
        check(&[2, 0x81], "ends inside");
        check(&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "column passes");
    }

    #[test]
    fn a_forged_nan_reads_as_null() {
        let bytes = [2, 7, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1];
        assert_eq!(Record::new(&bytes).unwrap().column(0), Ok(Some(ValueRef::Null)));
    }

    #[derive(Clone, Debug)]
    enum Owned {
        Null,
        Int(i64),
        Real(f64),
        Text(Vec<u8>),
        Blob(Vec<u8>),
    }

    fn owned() -> impl Strategy<Value = Owned> {
        prop_oneof![
            Just(Owned::Null),
            (any::<i64>(), 0_u32..64).prop_map(|(int, shift)| Owned::Int(int >> shift)),
            (-1e300..1e300_f64).prop_map(Owned::Real),
            prop::collection::vec(any::<u8>(), 0..80).prop_map(Owned::Text),
            prop::collection::vec(any::<u8>(), 0..80).prop_map(Owned::Blob),
        ]
    }

    proptest! {
        #[test]
        fn reads_what_it_wrote(values in prop::collection::vec(owned(), 0..140), format in 1_u32..5) {
            let values: Vec<ValueRef<'_>> = values.iter().map(|value| match value {
                Owned::Null => ValueRef::Null,
                Owned::Int(int) => ValueRef::Int(*int),
                Owned::Real(real) => ValueRef::Real(*real),
                Owned::Text(bytes) => ValueRef::Text(bytes),
                Owned::Blob(bytes) => ValueRef::Blob(bytes),
            }).collect();
            let mut bytes = Vec::new();
            encode_record(&values, format, &mut bytes);
            let got: Result<Vec<_>, _> = Record::new(&bytes).unwrap().values().collect();
            prop_assert_eq!(got.unwrap(), values);
        }

        #[test]
        fn any_bytes_end_in_values_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(record) = Record::new(&bytes) {
                prop_assert!(record.values().count() <= bytes.len() + 1);
                let _ = record.column(3);
            }
        }
    }
}
