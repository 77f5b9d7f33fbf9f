//! Single columns of a record, found once and decoded when they are wanted.
//!
//! A [`ColumnFinder`] knows which columns are wanted of many records; it goes through a record's
//! header (file format §2.1) and gives where each is. A [`ColumnPlace`] is that: a serial type and
//! an offset. It holds numbers only, so it can be kept beside the bytes or without them. A
//! [`HeaderWalk`] does the same for one record, and for headers that are not of the usual kind.

mod finder;

use std::ops::Range;

pub use finder::{ColumnFinder, HeaderWalk};

use crate::ValueRef;
use finder::LENGTHS;

/// Where one column of a record is.
///
/// One word: a place is often read right after it was written, and a processor cannot pass two
/// halves on to one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace(u64);

/// Stands for a serial type where there is none.
const NONE: u32 = u32::MAX;

/// A column's value, or where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored {
    /// The record ends before the column.
    Missing,
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// A float.
    Real(f64),
    /// A text of so many bytes.
    Text {
        /// Offset in the bytes of the record.
        start: u32,
        /// Bytes.
        len: u32,
    },
    /// A blob of so many bytes.
    Blob {
        /// Offset in the bytes of the record.
        start: u32,
        /// Bytes.
        len: u32,
    },
}

/// By serial type from 1 to 7: how far eight bytes that begin with the number are to be shifted, so
/// that it alone is left.
const SHIFTS: [u32; 8] = [0, 56, 48, 40, 32, 16, 0, 0];

impl ColumnPlace {
    /// A column beyond the end of its record.
    pub const MISSING: ColumnPlace = ColumnPlace::new(NONE, 0);

    #[inline(always)]
    const fn new(serial: u32, start: u32) -> ColumnPlace {
        ColumnPlace((start as u64) << 32 | serial as u64)
    }

    /// The serial type; [`NONE`] for a missing column.
    #[inline(always)]
    fn serial(self) -> u32 {
        self.0 as u32
    }

    /// Offset of the value in the bytes of its record.
    #[inline(always)]
    fn start(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// A NULL column.
    pub const NULL: ColumnPlace = ColumnPlace::new(0, 0);

    /// Appends the column, which is in `bytes`, to `out`, and gives where it is there: no place
    /// where `out` is longer than 2^32 bytes then, which the caller has to look at.
    #[inline(always)]
    pub fn copy(self, bytes: &[u8], out: &mut Vec<u8>) -> ColumnPlace {
        let serial = self.serial();
        if serial < 12 {
            if serial.wrapping_sub(1) >= 7 {
                return self;
            }
            // A word can be read whole anywhere.
            let start = out.len() as u32;
            out.extend_from_slice(&self.word(bytes).unwrap_or(0).to_be_bytes());
            return ColumnPlace::new(if serial == 7 { 7 } else { 6 }, start);
        }
        match bytes.get(self.range()) {
            Some(value) if serial != NONE => {
                let start = out.len() as u32;
                out.extend_from_slice(value);
                ColumnPlace::new(serial, start)
            }
            _ if serial == NONE => self,
            _ => ColumnPlace::new(12 | serial & 1, 0),
        }
    }

    /// The bytes of a text or a blob; 0 for other types.
    #[inline(always)]
    pub fn text_len(self) -> u32 {
        match self.serial() {
            0..12 | NONE => 0,
            serial => (serial - 12) >> 1,
        }
    }

    /// Stands for a column that is told of elsewhere, by a number below 2^32 - 1: it is a missing
    /// one to all but [`ColumnPlace::told_elsewhere`].
    #[inline]
    pub fn elsewhere(number: u32) -> ColumnPlace {
        ColumnPlace::new(NONE, number.wrapping_add(1))
    }

    /// The number of a column that is told of elsewhere.
    #[inline]
    pub fn told_elsewhere(self) -> Option<u32> {
        if self.serial() == NONE { self.start().checked_sub(1) } else { None }
    }

    /// Appends an integer to `out`, as [`ColumnPlace::copy`] does a column.
    #[inline(always)]
    pub fn of_int(int: i64, out: &mut Vec<u8>) -> ColumnPlace {
        let start = out.len() as u32;
        out.extend_from_slice(&int.to_be_bytes());
        ColumnPlace::new(6, start)
    }

    /// Decodes the column from the bytes in which its record was found; `None` for a missing
    /// column.
    #[inline(always)]
    pub fn decode(self, bytes: &[u8]) -> Option<ValueRef<'_>> {
        if self.serial() >= 12 {
            if self.serial() == NONE {
                return None;
            }
            let bytes = bytes.get(self.range()).unwrap_or_default();
            let text = self.serial() & 1 == 1;
            return Some(if text { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) });
        }
        Some(self.number(bytes))
    }

    /// The same without a borrow: numbers are decoded, of texts and blobs it is told where they
    /// are.
    #[inline(always)]
    pub fn locate(self, bytes: &[u8]) -> Stored {
        if self.serial() >= 12 {
            if self.serial() == NONE {
                return Stored::Missing;
            }
            let (start, len) = (self.start(), (self.serial() - 12) >> 1);
            let text = self.serial() & 1 == 1;
            return if text { Stored::Text { start, len } } else { Stored::Blob { start, len } };
        }
        match self.number(bytes) {
            ValueRef::Int(int) => Stored::Int(int),
            ValueRef::Real(real) => Stored::Real(real),
            _ => Stored::Null,
        }
    }

    /// The stored integer; `None` for anything else.
    #[inline(always)]
    pub fn int(self, bytes: &[u8]) -> Option<i64> {
        if self.serial().wrapping_sub(1) < 6 {
            self.word(bytes)
        } else if self.serial() & !1 == 8 {
            // 8 is zero and 9 is one.
            Some(i64::from(self.serial() & 1))
        } else {
            None
        }
    }

    /// The integer that is stored, where eight bytes follow; `None` for anything else. Nothing is
    /// called, so that a loop around it keeps what it needs in registers.
    #[inline(always)]
    pub fn near_int(self, bytes: &[u8]) -> Option<i64> {
        if self.serial().wrapping_sub(1) < 6 {
            Some(self.near_word(bytes)? >> SHIFTS[(self.serial() & 7) as usize])
        } else if self.serial() & !1 == 8 {
            Some(i64::from(self.serial() & 1))
        } else {
            None
        }
    }

    /// The same of a float.
    #[inline(always)]
    pub fn near_real(self, bytes: &[u8]) -> Option<f64> {
        if self.serial() != 7 {
            return None;
        }
        let real = f64::from_bits(self.near_word(bytes)?.cast_unsigned());
        (!real.is_nan()).then_some(real)
    }

    /// Eight bytes from where the value begins.
    #[inline(always)]
    fn near_word(self, bytes: &[u8]) -> Option<i64> {
        let start = self.start() as usize;
        let word = bytes.get(start..start.wrapping_add(8))?.first_chunk()?;
        Some(i64::from_be_bytes(*word))
    }

    /// The stored text; `None` for anything else.
    #[inline(always)]
    pub fn text(self, bytes: &[u8]) -> Option<&[u8]> {
        if self.is_text() { bytes.get(self.range()) } else { None }
    }

    /// The serial type and the bytes of a value of at most eight bytes: of two columns for which
    /// they are the same, the same is stored. `None` for longer values, and where no eight bytes
    /// follow.
    #[inline(always)]
    pub fn short(self, bytes: &[u8]) -> Option<(u32, u64)> {
        let serial = self.serial();
        let len = match serial {
            0..12 => LENGTHS[serial as usize],
            _ => (serial - 12) >> 1,
        };
        if len > 8 {
            return None;
        }
        let start = self.start() as usize;
        let word = bytes.get(start..start.wrapping_add(8))?.first_chunk()?;
        let unused = 64 - 8 * len;
        Some((serial, u64::from_be_bytes(*word).checked_shr(unused).unwrap_or(0)))
    }

    /// Whether NULL is stored, as far as the type tells: not of a float, which may be forged as
    /// none, and not of a missing column.
    #[inline(always)]
    pub fn null(self) -> Option<bool> {
        // No branch depends on whether it is NULL: in many columns nobody foresees it.
        let is_known = !matches!(self.serial(), 7 | NONE);
        is_known.then_some(self.serial() == 0)
    }

    /// True for a NULL. Cost: nothing is decoded.
    #[inline]
    pub fn is_null(self) -> bool {
        self.serial() == 0
    }

    #[inline(always)]
    fn is_text(self) -> bool {
        self.serial() >= 13 && self.serial() & 1 == 1 && self.serial() != NONE
    }

    /// Where the bytes of a text or blob are.
    #[inline(always)]
    fn range(self) -> Range<usize> {
        let start = self.start() as usize;
        start..start + ((self.serial() - 12) >> 1) as usize
    }

    /// The number or NULL of a type below 12.
    #[inline(always)]
    fn number(self, bytes: &[u8]) -> ValueRef<'_> {
        if let Some(int) = self.int(bytes) {
            return ValueRef::Int(int);
        }
        // No writer stores a NaN; SQLite reads a forged one as NULL.
        self.real(bytes).map_or(ValueRef::Null, ValueRef::Real)
    }

    /// The bytes of a type from 1 to 7 as a number in two's complement.
    #[inline(always)]
    fn word(self, bytes: &[u8]) -> Option<i64> {
        // Bytes behind the value are shifted out.
        match self.near_word(bytes) {
            Some(word) => Some(word >> SHIFTS[(self.serial() & 7) as usize]),
            None => short_word(bytes.get(self.start() as usize..)?, self.serial()),
        }
    }

    /// The stored float; `None` for anything else, a forged NaN included.
    #[inline(always)]
    pub fn real(self, bytes: &[u8]) -> Option<f64> {
        if self.serial() != 7 {
            return None;
        }
        let real = f64::from_bits(self.word(bytes).unwrap_or(0).cast_unsigned());
        (!real.is_nan()).then_some(real)
    }

    /// The same place seen from `by` bytes before.
    #[inline]
    fn moved(self, by: u32) -> ColumnPlace {
        match self.serial() {
            NONE => self,
            serial => ColumnPlace::new(serial, self.start() + by),
        }
    }
}

/// A number near the end, without eight bytes to read.
#[cold]
fn short_word(rest: &[u8], serial: u32) -> Option<i64> {
    let value = rest.get(..LENGTHS[(serial & 7) as usize] as usize)?;
    let mut word = [0; 8];
    word[..value.len()].copy_from_slice(value);
    Some(i64::from_be_bytes(word) >> SHIFTS[(serial & 7) as usize])
}

/// A text made ready to be compared with stored ones, byte by byte.
#[derive(Clone, Copy, Debug)]
pub struct TextProbe {
    /// The serial type of a text of its length.
    serial: u32,
    /// Its first eight bytes, and which bits of them there are.
    head: u64,
    mask: u64,
}

impl TextProbe {
    /// For comparing with `text`.
    pub fn new(text: &[u8]) -> TextProbe {
        let mut head = [0; 8];
        let length = text.len().min(8);
        head[..length].copy_from_slice(&text[..length]);
        let mask = if length == 0 { 0 } else { u64::MAX << (64 - 8 * length) };
        // No place has the reserved type 10.
        let serial = u32::try_from(text.len() * 2 + 13).unwrap_or(10);
        TextProbe { serial, head: u64::from_be_bytes(head), mask }
    }

    /// Whether the text of at most eight bytes that this was made of is stored; `None` where no
    /// text is, and where no eight bytes follow. No branch depends on the answer.
    #[inline(always)]
    pub fn equals_short(&self, place: ColumnPlace, bytes: &[u8]) -> Option<bool> {
        if !place.is_text() {
            return None;
        }
        let same = (place.near_word(bytes)?.cast_unsigned() ^ self.head) & self.mask == 0;
        Some(same & (place.serial() == self.serial))
    }

    /// Whether `text`, the one that this was made of, is stored; `None` where no text is.
    #[inline(always)]
    pub fn equals(&self, place: ColumnPlace, bytes: &[u8], text: &[u8]) -> Option<bool> {
        if place.serial() != self.serial {
            return place.is_text().then_some(false);
        }
        let rest = bytes.get(place.start() as usize..).unwrap_or_default();
        match rest.first_chunk() {
            Some(head) if (u64::from_be_bytes(*head) ^ self.head) & self.mask != 0 => Some(false),
            Some(_) if text.len() <= 8 => Some(true),
            _ => Some(rest.get(..text.len()) == Some(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Record, encode_record};

    #[test]
    fn what_is_made_of_an_integer_is_that() {
        for int in [0, 1, -1, 127, 128, 1 << 40, i64::MIN, i64::MAX] {
            let mut out = vec![9];
            let place = ColumnPlace::of_int(int, &mut out);
            assert_eq!(place.decode(&out), Some(ValueRef::Int(int)));
        }
        // A text whose bytes are not all there is empty, wherever it is copied to.
        let mut out = b"others".to_vec();
        let place = ColumnPlace::new(12 + 2 * 9 + 1, 2).copy(b"short", &mut out);
        assert_eq!(place.decode(&out), Some(ValueRef::Text(b"")));
        assert_eq!(ColumnPlace::MISSING.copy(b"", &mut out), ColumnPlace::MISSING);
        assert_eq!(ColumnPlace::MISSING.told_elsewhere(), None);
        assert_eq!(ColumnPlace::new(0, 5).told_elsewhere(), None);
        assert_eq!(ColumnPlace::elsewhere(0).told_elsewhere(), Some(0));
        assert_eq!(ColumnPlace::elsewhere(7).told_elsewhere(), Some(7));
        assert_eq!(ColumnPlace::elsewhere(7).decode(&out), None);
        let lens = [0, 9, 12, 13, 31, NONE].map(|serial| ColumnPlace::new(serial, 1).text_len());
        assert_eq!(lens, [0, 0, 0, 0, 9, 0]);
        assert_eq!(ColumnPlace::NULL.copy(b"", &mut out).decode(&out), Some(ValueRef::Null));
    }

    /// Any bytes: what is found is what [`Record::column`] finds, and both refuse alike.
    fn agrees(payload: &[u8]) {
        let record = Record::new(payload);
        let walk = HeaderWalk::new(payload);
        assert_eq!(record.is_ok(), walk.is_ok(), "{payload:?}");
        let (Ok(record), Ok(mut walk)) = (record, walk) else { return };
        for index in 0..20 {
            let expect = record.column(index);
            match (expect, walk.find(payload, index)) {
                (Ok(expect), Ok(field)) => {
                    // Bit by bit, for the sake of forged NaNs.
                    let got = field.decode(payload);
                    assert_eq!(format!("{expect:?}"), format!("{got:?}"), "{payload:?} {index}");
                    let mut copied = b"before".to_vec();
                    let place = field.copy(payload, &mut copied);
                    copied.extend_from_slice(b"behind");
                    let copy = place.decode(&copied);
                    assert_eq!(format!("{copy:?}"), format!("{got:?}"), "{payload:?} {index}");
                    assert_eq!(field.is_null(), payload_is_null(&record, index));
                    let slice = |start: u32, len: u32| {
                        payload.get(start as usize..start as usize + len as usize).unwrap()
                    };
                    let located = match field.locate(payload) {
                        Stored::Missing => None,
                        Stored::Null => Some(ValueRef::Null),
                        Stored::Int(int) => Some(ValueRef::Int(int)),
                        Stored::Real(real) => Some(ValueRef::Real(real)),
                        Stored::Text { start, len } => Some(ValueRef::Text(slice(start, len))),
                        Stored::Blob { start, len } => Some(ValueRef::Blob(slice(start, len))),
                    };
                    assert_eq!(format!("{located:?}"), format!("{got:?}"));
                    let int = match got {
                        Some(ValueRef::Int(int)) => Some(int),
                        _ => None,
                    };
                    assert_eq!(field.int(payload), int);
                    if let Some(null) = field.null() {
                        assert_eq!(null, got == Some(ValueRef::Null));
                    }
                    let text = match got {
                        Some(ValueRef::Text(text)) => Some(text),
                        _ => None,
                    };
                    assert_eq!(field.text(payload), text);
                    let real = match got {
                        Some(ValueRef::Real(real)) => Some(real),
                        _ => None,
                    };
                    assert_eq!(field.real(payload), real);
                }
                (Err(_), Err(_)) => return,
                (expect, got) => panic!("{expect:?} {got:?}: column {index} of {payload:?}"),
            }
        }
    }

    fn payload_is_null(record: &Record<'_>, index: usize) -> bool {
        // A forged NaN reads as NULL without being stored as one.
        matches!(record.column(index), Ok(Some(ValueRef::Null)))
            && record.values().nth(index).is_some()
            && record.serial_type(index) == Some(0)
    }

    #[test]
    fn columns_of_a_record() {
        let long = [b'x'; 300];
        let values = [
            ValueRef::Null,
            ValueRef::Int(-2),
            ValueRef::Text(&long),
            ValueRef::Real(1.5),
            ValueRef::Int(1),
        ];
        let mut record = Vec::new();
        encode_record(&values, 4, &mut record);
        agrees(&record);
        let mut walk = HeaderWalk::new(&record).unwrap();
        let third = walk.find(&record, 2).unwrap();
        let last = walk.find(&record, 4).unwrap();
        assert_eq!(walk.find(&record, 5).unwrap(), ColumnPlace::MISSING);
        assert_eq!(third.decode(&record), Some(values[2]));
        assert_eq!(last.decode(&record), Some(values[4]));
    }

    #[test]
    fn short_columns_are_alike_when_they_are_stored_alike() {
        let values = [
            ValueRef::Null,
            ValueRef::Int(0),
            ValueRef::Int(1),
            ValueRef::Int(7),
            ValueRef::Int(-7),
            ValueRef::Int(i64::MIN),
            ValueRef::Real(0.5),
            ValueRef::Text(b""),
            ValueRef::Text(b"a"),
            ValueRef::Text(b"a\0"),
            ValueRef::Text(b"12345678"),
            ValueRef::Blob(b""),
            ValueRef::Blob(b"a"),
            ValueRef::Blob(b"12345678"),
        ];
        let short = |value: ValueRef<'_>, behind: &[u8]| {
            let mut record = Vec::new();
            encode_record(&[value], 4, &mut record);
            let place = HeaderWalk::new(&record).unwrap().find(&record, 0).unwrap();
            record.extend_from_slice(behind);
            place.short(&record)
        };
        for (at, &value) in values.iter().enumerate() {
            let here = short(value, b"something");
            assert!(here.is_some() && here == short(value, &[0xff; 8]), "{value:?}");
            for &other in &values[..at] {
                assert_ne!(here, short(other, b"something"), "{value:?} {other:?}");
            }
        }
        assert_eq!(short(ValueRef::Text(b"123456789"), b"something"), None);
        assert_eq!(short(ValueRef::Text(b"a"), b""), None);
        assert_eq!(ColumnPlace::MISSING.short(b"123456789"), None);
    }

    #[test]
    fn texts_are_compared_where_they_are() {
        let long = [b'x'; 300];
        let texts: [&[u8]; 9] =
            [b"", b"a", b"ab", b"b", b"12345678", b"123456789", b"12345678x", &long, &long[1..]];
        for stored in texts {
            for wanted in texts {
                let mut record = Vec::new();
                encode_record(&[ValueRef::Text(stored)], 4, &mut record);
                let place = HeaderWalk::new(&record).unwrap().find(&record, 0).unwrap();
                let got = TextProbe::new(wanted).equals(place, &record, wanted);
                assert_eq!(got, Some(stored == wanted), "{stored:?} {wanted:?}");
            }
        }
        for value in [ValueRef::Null, ValueRef::Int(65), ValueRef::Blob(b"a"), ValueRef::Real(1.5)]
        {
            let mut record = Vec::new();
            encode_record(&[value], 4, &mut record);
            let mut walk = HeaderWalk::new(&record).unwrap();
            let place = walk.find(&record, 0).unwrap();
            assert_eq!(TextProbe::new(b"a").equals(place, &record, b"a"), None, "{value:?}");
        }
        assert_eq!(TextProbe::new(b"").equals(ColumnPlace::MISSING, b"", b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_read_as_the_record_reads_them(
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            header in 0_u8..20,
        ) {
            agrees(&payload);
            let mut payload = payload;
            if let Some(first) = payload.first_mut() {
                *first = header;
            }
            agrees(&payload);
        }
    }
}
