//! Scalar values: a metadata column of `byte length << 4 | type` and a column with the payloads,
//! one after the other (format: value metadata).

use super::leb128::{Reader, write_sleb, write_uleb};
use super::rle::{RleDecoder, RleEncoder, Uint};
use crate::{Fault, ScalarRef};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const UINT: u8 = 3;
const INT: u8 = 4;
const F64: u8 = 5;
const STR: u8 = 6;
/// The type of values that are bytes; also that of a change's extra bytes in a document chunk.
pub(crate) const BYTES: u8 = 7;
const COUNTER: u8 = 8;
const TIMESTAMP: u8 = 9;

/// Whether values of this type are neither strings, which may be characters of a text, nor
/// counters, which others add to, nor unknown.
pub(crate) fn is_plain(type_code: u8) -> bool {
    matches!(type_code, NULL | FALSE | TRUE | UINT | INT | F64 | BYTES | TIMESTAMP)
}

/// A value as the columns hold it: its type and its payload, which was checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawValue<'a> {
    /// 0 to 15.
    pub(crate) type_code: u8,
    pub(crate) payload: &'a [u8],
}

impl<'a> RawValue<'a> {
    /// The value null.
    pub(crate) const NULL: Self = Self { type_code: NULL, payload: &[] };

    /// Decodes the value.
    #[inline]
    pub(crate) fn scalar(self) -> Result<ScalarRef<'a>, Fault> {
        let RawValue { type_code, payload } = self;
        match type_code {
            NULL if payload.is_empty() => Ok(ScalarRef::Null),
            FALSE if payload.is_empty() => Ok(ScalarRef::Boolean(false)),
            TRUE if payload.is_empty() => Ok(ScalarRef::Boolean(true)),
            UINT => whole(type_code, payload, Reader::uleb_minimal).map(ScalarRef::Uint),
            INT => whole(type_code, payload, Reader::sleb_minimal).map(ScalarRef::Int),
            F64 => match payload.first_chunk() {
                Some(bytes) if payload.len() == 8 => Ok(ScalarRef::F64(f64::from_le_bytes(*bytes))),
                _ => Err(Fault::ValuePayload(type_code)),
            },
            STR => std::str::from_utf8(payload).map(ScalarRef::Str).map_err(|_| Fault::NotUtf8),
            BYTES => Ok(ScalarRef::Bytes(payload)),
            COUNTER => whole(type_code, payload, Reader::sleb_minimal).map(ScalarRef::Counter),
            TIMESTAMP => whole(type_code, payload, Reader::sleb_minimal).map(ScalarRef::Timestamp),
            10..=15 => Ok(ScalarRef::Unknown { type_code, bytes: payload }),
            _ => Err(Fault::ValuePayload(type_code)),
        }
    }
}

/// True for the payload of an integer of up to nine bytes, in its shortest form, and not a counter
/// or timestamp. False says nothing. Cost: less than decoding.
#[inline]
pub(crate) fn is_short_integer(type_code: u8, payload: &[u8]) -> bool {
    let Some((last, before)) = payload.split_last() else { return false };
    if before.len() > 8 || *last >= 0x80 || before.iter().any(|byte| *byte < 0x80) {
        return false;
    }
    let Some(before) = before.last() else { return matches!(type_code, UINT | INT) };
    match type_code {
        UINT => *last != 0,
        // A last byte of nothing but sign bits repeats the sign of the byte before.
        INT => *last != if before & 0x40 == 0 { 0 } else { 0x7f },
        _ => false,
    }
}

/// Reads the pair of columns row by row.
#[derive(Clone, Debug)]
pub(crate) struct ValueDecoder<'a> {
    meta: RleDecoder<'a, u64>,
    payloads: Reader<'a>,
}

impl<'a> ValueDecoder<'a> {
    pub(crate) fn new(meta: &'a [u8], payloads: &'a [u8]) -> Self {
        Self { meta: RleDecoder::new(meta), payloads: Reader::new(payloads) }
    }

    /// The next row, not decoded; a null in the metadata is the value null.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<RawValue<'a>, Fault> {
        let meta = self.meta.next()?.unwrap_or(0);
        let len = usize::try_from(meta >> 4).map_err(|_| Fault::Truncated)?;
        Ok(RawValue { type_code: (meta & 15) as u8, payload: self.payloads.bytes(len)? })
    }

    /// The metadata of the next rows as far as they have the same, and their number, without going
    /// on.
    #[inline]
    pub(crate) fn peek_meta(&mut self) -> Result<(u64, u64), Fault> {
        let (meta, count) = self.meta.peek()?;
        Ok((meta.unwrap_or(0), count))
    }

    /// The payloads of all rows that are left.
    #[inline]
    pub(crate) fn payloads(&self) -> &'a [u8] {
        self.payloads.rest()
    }

    /// Goes over `count` rows, at most as many as [`peek_meta`](Self::peek_meta) told of, whose
    /// payloads are `len` bytes together.
    #[inline]
    pub(crate) fn skip(&mut self, count: u64, len: usize) -> Result<(), Fault> {
        self.payloads.bytes(len)?;
        self.meta.skip(count);
        Ok(())
    }

    /// The payload bytes that no row has taken.
    pub(crate) fn leftover(&self) -> usize {
        self.payloads.len()
    }
}

/// Writes the pair of columns row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueEncoder {
    meta: RleEncoder<Uint>,
    payloads: Vec<u8>,
}

impl ValueEncoder {
    #[inline]
    pub(crate) fn push(&mut self, value: ScalarRef<'_>) {
        let start = self.payloads.len();
        let type_code = write_payload(value, &mut self.payloads);
        self.push_meta(type_code, self.payloads.len() - start);
    }

    /// Appends a string of one character for each of `text`.
    pub(crate) fn push_chars(&mut self, text: &str) {
        self.payloads.extend_from_slice(text.as_bytes());
        let meta = |len: usize| (len as u64) << 4 | u64::from(STR);
        if text.is_ascii() {
            if !text.is_empty() {
                self.meta.push_values(meta(1), text.len() as u64);
            }
            return;
        }
        for character in text.chars() {
            self.meta.push_value(meta(character.len_utf8()));
        }
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_nulls(&mut self, count: u64) {
        self.meta.push_values(u64::from(NULL), count);
    }

    #[inline]
    pub(crate) fn push_raw(&mut self, value: RawValue<'_>) {
        self.payloads.extend_from_slice(value.payload);
        self.push_meta(value.type_code, value.payload.len());
    }

    pub(crate) fn finish(&mut self) {
        self.meta.finish();
    }

    pub(crate) fn meta_bytes(&self) -> &[u8] {
        self.meta.bytes()
    }

    pub(crate) fn payload_bytes(&self) -> &[u8] {
        &self.payloads
    }

    pub(crate) fn clear(&mut self) {
        self.meta.clear();
        self.payloads.clear();
    }

    #[inline]
    fn push_meta(&mut self, type_code: u8, len: usize) {
        self.meta.push_value((len as u64) << 4 | u64::from(type_code));
    }
}

/// Appends the payload of a value; returns its type.
#[inline]
pub(crate) fn write_payload(value: ScalarRef<'_>, out: &mut Vec<u8>) -> u8 {
    match value {
        ScalarRef::Null => NULL,
        ScalarRef::Boolean(false) => FALSE,
        ScalarRef::Boolean(true) => TRUE,
        ScalarRef::Uint(value) => {
            write_uleb(value, out);
            UINT
        }
        ScalarRef::Int(value) => {
            write_sleb(value, out);
            INT
        }
        ScalarRef::F64(value) => {
            out.extend_from_slice(&value.to_le_bytes());
            F64
        }
        ScalarRef::Str(value) => {
            out.extend_from_slice(value.as_bytes());
            STR
        }
        ScalarRef::Bytes(value) => {
            out.extend_from_slice(value);
            BYTES
        }
        ScalarRef::Counter(value) => {
            write_sleb(value, out);
            COUNTER
        }
        ScalarRef::Timestamp(value) => {
            write_sleb(value, out);
            TIMESTAMP
        }
        ScalarRef::Unknown { type_code, bytes } => {
            out.extend_from_slice(bytes);
            type_code & 15
        }
    }
}

/// Reads an integer that must fill `payload`.
fn whole<'a, T>(
    type_code: u8,
    payload: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut reader = Reader::new(payload);
    match read(&mut reader) {
        Ok(value) if reader.is_empty() => Ok(value),
        Ok(_) | Err(Fault::Truncated) => Err(Fault::ValuePayload(type_code)),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(type_code: u8, payload: &[u8], expect: Result<ScalarRef<'_>, Fault>) {
        assert_eq!(RawValue { type_code, payload }.scalar(), expect, "{type_code} {payload:?}");
    }

    #[test]
    fn payloads_fit_their_types() {
        check(0, &[], Ok(ScalarRef::Null));
        check(1, &[], Ok(ScalarRef::Boolean(false)));
        check(2, &[], Ok(ScalarRef::Boolean(true)));
        check(3, &[0xff, 0x01], Ok(ScalarRef::Uint(255)));
        check(4, &[0x7c], Ok(ScalarRef::Int(-4)));
        check(5, &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f], Ok(ScalarRef::F64(1.0)));
        check(6, "é".as_bytes(), Ok(ScalarRef::Str("é")));
        check(7, &[1, 2], Ok(ScalarRef::Bytes(&[1, 2])));
        check(8, &[5], Ok(ScalarRef::Counter(5)));
        check(9, &[5], Ok(ScalarRef::Timestamp(5)));
        check(12, &[5], Ok(ScalarRef::Unknown { type_code: 12, bytes: &[5] }));
    }

    #[test]
    fn refusals() {
        for type_code in 0..=2 {
            check(type_code, &[0], Err(Fault::ValuePayload(type_code)));
        }
        for type_code in [3, 4, 8, 9] {
            check(type_code, &[], Err(Fault::ValuePayload(type_code)));
            check(type_code, &[0x80], Err(Fault::ValuePayload(type_code)));
            check(type_code, &[1, 1], Err(Fault::ValuePayload(type_code)));
            check(type_code, &[0x80, 0x00], Err(Fault::Overlong));
        }
        check(5, &[0; 7], Err(Fault::ValuePayload(5)));
        check(5, &[0; 9], Err(Fault::ValuePayload(5)));
        check(6, &[0xff], Err(Fault::NotUtf8));
        assert_eq!(ValueDecoder::new(&[0x7f, 0x27], &[1]).next(), Err(Fault::Truncated));
    }

    fn any_scalar() -> impl Strategy<Value = crate::Scalar> {
        use crate::Scalar;
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            Just(Scalar::Null),
            any::<bool>().prop_map(Scalar::Boolean),
            any::<u64>().prop_map(Scalar::Uint),
            any::<i64>().prop_map(Scalar::Int),
            (-1e30..1e30).prop_map(Scalar::F64),
            ".{0,8}".prop_map(|text: String| Scalar::Str(text.into())),
            bytes().prop_map(|bytes| Scalar::Bytes(bytes.into())),
            any::<i64>().prop_map(Scalar::Counter),
            any::<i64>().prop_map(Scalar::Timestamp),
            (10_u8..16, bytes())
                .prop_map(|(type_code, bytes)| Scalar::Unknown { type_code, bytes: bytes.into() }),
        ]
    }

    proptest! {
        #[test]
        fn short_integers_are_integers(
            code in 0_u8..16,
            bytes in proptest::collection::vec(prop_oneof![
                any::<u8>(), 0x80_u8.., Just(0x80), Just(0xff), Just(0xc0), Just(0x7f), Just(0)
            ], 0..11),
        ) {
            let scalar = RawValue { type_code: code, payload: &bytes }.scalar();
            let is_integer = matches!(scalar, Ok(ScalarRef::Int(_) | ScalarRef::Uint(_)));
            prop_assert_eq!(is_short_integer(code, &bytes), is_integer && bytes.len() < 10);
        }

        #[test]
        fn both_ways(values in proptest::collection::vec(any_scalar(), 0..50)) {
            let mut encoder = ValueEncoder::default();
            for value in &values {
                encoder.push(value.as_ref());
            }
            encoder.finish();
            let mut decoder = ValueDecoder::new(encoder.meta_bytes(), encoder.payload_bytes());
            let mut again = ValueEncoder::default();
            for value in &values {
                let raw = decoder.next().unwrap();
                prop_assert_eq!(raw.scalar(), Ok(value.as_ref()));
                again.push_raw(raw);
            }
            prop_assert_eq!(decoder.leftover(), 0);
            again.finish();
            prop_assert_eq!(again.meta_bytes(), encoder.meta_bytes());
            prop_assert_eq!(again.payload_bytes(), encoder.payload_bytes());
        }
    }
}
