//! Single columns of a record, found once and decoded when they are wanted.
//!
//! A [`HeaderWalk`] goes through a record's header (file format §2.1) as far as the columns asked
//! for and gives where each is; a [`ColumnPlace`] is that: a serial type and an offset. Both hold numbers
//! only, so they can be kept beside the payload or without it.

use crate::record::decode;
use crate::{Corrupt, ValueRef, varint};

/// Where one column of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    serial: u64,
    /// Offset of the value in the payload.
    start: u32,
}

/// A column's value, or where its bytes are in the payload.
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
        /// Offset in the payload.
        start: u32,
        /// Bytes.
        len: u32,
    },
    /// A blob of so many bytes.
    Blob {
        /// Offset in the payload.
        start: u32,
        /// Bytes.
        len: u32,
    },
}

impl ColumnPlace {
    /// A column that the record ends before.
    pub const MISSING: ColumnPlace = ColumnPlace { serial: u64::MAX, start: 0 };

    /// Decodes the column of the payload in which it was found; `None` for a missing column.
    #[inline(always)]
    pub fn decode(self, payload: &[u8]) -> Option<ValueRef<'_>> {
        if self.serial >= 12 {
            if self.serial == u64::MAX {
                return None;
            }
            // Found within a payload, so neither sum nor length passes what memory can hold.
            let length = ((self.serial - 12) >> 1) as usize;
            let start = self.start as usize;
            let bytes = payload.get(start..start.wrapping_add(length)).unwrap_or_default();
            let text = self.serial & 1 == 1;
            return Some(if text { ValueRef::Text(bytes) } else { ValueRef::Blob(bytes) });
        }
        let rest = payload.get(self.start as usize..).unwrap_or_default();
        Some(number(self.serial, rest).unwrap_or(ValueRef::Null))
    }

    /// The same without a borrow: numbers are decoded, of texts and blobs it is told where they are.
    #[inline(always)]
    pub fn locate(self, payload: &[u8]) -> Stored {
        if self.serial >= 12 {
            if self.serial == u64::MAX {
                return Stored::Missing;
            }
            // Found within a payload, which has fewer bytes than 2^32.
            let (start, len) = (self.start, ((self.serial - 12) >> 1) as u32);
            let text = self.serial & 1 == 1;
            return if text { Stored::Text { start, len } } else { Stored::Blob { start, len } };
        }
        let rest = payload.get(self.start as usize..).unwrap_or_default();
        match number(self.serial, rest) {
            Some(ValueRef::Int(int)) => Stored::Int(int),
            Some(ValueRef::Real(real)) => Stored::Real(real),
            _ => Stored::Null,
        }
    }

    /// The integer that is stored; `None` for anything else.
    #[inline(always)]
    pub fn int(self, payload: &[u8]) -> Option<i64> {
        if self.serial >= 10 {
            return None;
        }
        match number(self.serial, payload.get(self.start as usize..)?) {
            Some(ValueRef::Int(int)) => Some(int),
            _ => None,
        }
    }

    /// The text that is stored; `None` for anything else.
    #[inline(always)]
    pub fn text(self, payload: &[u8]) -> Option<&[u8]> {
        if self.serial < 13 || self.serial & 1 == 0 || self.serial == u64::MAX {
            return None;
        }
        let start = self.start as usize;
        payload.get(start..start.wrapping_add(((self.serial - 13) >> 1) as usize))
    }

    /// Whether NULL is stored, as far as the type tells: not of a float, which may be forged as none,
    /// and not of a missing column.
    #[inline(always)]
    pub fn null(self) -> Option<bool> {
        match self.serial {
            0 => Some(true),
            7 | u64::MAX => None,
            _ => Some(false),
        }
    }

    /// True for a NULL. Cost: nothing is decoded.
    #[inline]
    pub fn is_null(self) -> bool {
        self.serial == 0
    }
}

/// The number or NULL of serial type `serial`, below 12, at the start of `rest`.
#[inline]
pub(crate) fn number(serial: u64, rest: &[u8]) -> Option<ValueRef<'_>> {
    let int = match serial {
        1 => i64::from(rest.first()?.cast_signed()),
        2 => i64::from(i16::from_be_bytes(*rest.first_chunk()?)),
        8 => 0,
        9 => 1,
        4 => i64::from(i32::from_be_bytes(*rest.first_chunk()?)),
        3 | 5 | 6 | 7 => {
            return Some(decode(serial, rest.get(..usize::from(LENGTHS[serial as usize]))?));
        }
        _ => return None,
    };
    Some(ValueRef::Int(int))
}

/// A walk through a record's header.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderWalk {
    /// The next serial type.
    at: u32,
    /// Where the header ends.
    end: u32,
    /// Where the next column's value begins.
    body: u32,
    /// The next column.
    column: u32,
}

/// Bytes of a value by the first byte of its serial type; [`RESERVED`] for types of more bytes and
/// for those that are no types.
const LENGTHS: [u8; 256] = {
    let mut out = [RESERVED; 256];
    let small = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];
    let mut serial = 0;
    while serial < 128 {
        if serial < small.len() {
            out[serial] = small[serial];
        } else if serial >= 12 {
            out[serial] = (serial as u8 - 12) / 2;
        }
        serial += 1;
    }
    out
};

const RESERVED: u8 = 255;

impl HeaderWalk {
    /// A walk through the record in `payload`.
    ///
    /// # Errors
    /// [`Corrupt`] if the header overruns the payload.
    #[inline]
    pub fn new(payload: &[u8]) -> Result<HeaderWalk, Corrupt> {
        let corrupt = |value: u64| Corrupt::new("record", "header passes the payload", value);
        let (length, start) = varint::read(payload).ok_or_else(|| corrupt(0))?;
        if length > payload.len() as u64 || (start as u64) > length {
            return Err(corrupt(length));
        }
        let end = u32::try_from(length).map_err(|_| corrupt(length))?;
        Ok(HeaderWalk { at: start as u32, end, body: end, column: 0 })
    }

    /// Finds column `index`, which is not before one that was found already.
    ///
    /// # Errors
    /// As [`HeaderWalk::find_each`].
    #[inline]
    pub fn find(&mut self, payload: &[u8], index: usize) -> Result<ColumnPlace, Corrupt> {
        let mut found = [ColumnPlace::MISSING];
        self.find_each(payload, &[index], &mut found)?;
        Ok(found[0])
    }

    /// Finds the columns `indexes`, which ascend and are not before one that was found already, and
    /// puts where they are into `found`, which is as long.
    ///
    /// Cost: a table lookup per column passed; no allocation.
    ///
    /// # Errors
    /// [`Corrupt`] if a serial type on the way is reserved (10, 11), the header ends inside one, or
    /// a wanted column passes the payload.
    #[inline]
    pub fn find_each(
        &mut self,
        payload: &[u8],
        indexes: &[usize],
        found: &mut [ColumnPlace],
    ) -> Result<(), Corrupt> {
        let header = payload.get(..self.end as usize).unwrap_or_default();
        let (mut at, mut body) = (self.at as usize, u64::from(self.body));
        let mut column = self.column as usize;
        for (&index, found) in indexes.iter().zip(found) {
            loop {
                let Some(&byte) = header.get(at) else {
                    *found = ColumnPlace::MISSING;
                    break;
                };
                let start = body;
                let (serial, size, length) = match LENGTHS[usize::from(byte)] {
                    RESERVED => long_serial(&header[at..])?,
                    length => (u64::from(byte), 1, u64::from(length)),
                };
                at += size;
                // Terms below 2^63; a column wanted is compared with the payload, which has fewer
                // bytes than 2^32.
                body = body.saturating_add(length);
                column += 1;
                if column > index {
                    if body > payload.len() as u64 {
                        return Err(Corrupt::new("record", "column passes the payload", length));
                    }
                    *found = ColumnPlace { serial, start: start as u32 };
                    break;
                }
            }
        }
        // Past the payload only where no wanted column followed, and so none will be found.
        self.body = u32::try_from(body).unwrap_or(u32::MAX);
        (self.at, self.column) = (at as u32, column as u32);
        Ok(())
    }
}

/// The beginning of a record's header, up to the last column that was found in it.
///
/// A record whose header begins with the same bytes has those columns in the same places: rows of
/// a table often do, and one comparison then stands for the walk.
#[derive(Clone, Copy, Debug)]
pub struct HeaderShape {
    bytes: u128,
    mask: u128,
    /// Where the last column that was found ends in the payload.
    end: u32,
}

impl Default for HeaderShape {
    fn default() -> HeaderShape {
        HeaderShape::NONE
    }
}

impl HeaderShape {
    /// Fits no record.
    pub const NONE: HeaderShape = HeaderShape { bytes: 0, mask: 0, end: u32::MAX };

    /// Of the record in which `walk` found columns. [`HeaderShape::NONE`] for one whose header is
    /// long.
    #[inline]
    pub fn of(payload: &[u8], walk: &HeaderWalk) -> HeaderShape {
        match payload.first_chunk() {
            Some(bytes) if (1..=16).contains(&walk.at) => HeaderShape {
                bytes: u128::from_be_bytes(*bytes),
                mask: u128::MAX << (128 - 8 * walk.at),
                end: walk.body,
            },
            _ => HeaderShape::NONE,
        }
    }

    /// Whether the columns that were found are in the same places in `payload`. Cost: constant.
    #[inline(always)]
    pub fn fits(&self, payload: &[u8]) -> bool {
        match payload.first_chunk() {
            Some(bytes) => {
                (u128::from_be_bytes(*bytes) ^ self.bytes) & self.mask == 0
                    && payload.len() >= self.end as usize
            }
            None => false,
        }
    }
}

/// A serial type of more than one byte, or a reserved one: the type, its size, its value's length.
#[inline]
fn long_serial(header: &[u8]) -> Result<(u64, usize, u64), Corrupt> {
    let ends = || Corrupt::new("record", "header ends inside a serial type", 0);
    let (serial, size) = varint::read(header).ok_or_else(ends)?;
    match serial {
        10 | 11 => Err(Corrupt::new("record", "has a reserved serial type", serial)),
        0..10 => Ok((serial, size, u64::from(LENGTHS[serial as usize]))),
        _ => Ok((serial, size, (serial - 12) / 2)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Record, encode_record};

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

    proptest! {
        #[test]
        fn a_shape_that_fits_tells_the_places(
            payload in proptest::collection::vec(any::<u8>(), 0..60),
            header in 1_u8..24,
            serials in proptest::collection::vec(0_u8..24, 0..12),
            changed in 0..60_usize,
            byte: u8,
            cut in 0..60_usize,
            wanted in proptest::collection::btree_set(0..12_usize, 1..5),
        ) {
            let mut payload = payload;
            for (place, serial) in serials.into_iter().enumerate() {
                if let Some(target) = payload.get_mut(place + 1) {
                    *target = serial;
                }
            }
            if let Some(first) = payload.first_mut() {
                *first = header;
            }
            let wanted: Vec<usize> = wanted.into_iter().collect();
            let find = |payload: &[u8]| {
                let mut found = vec![ColumnPlace::MISSING; wanted.len()];
                let mut walk = HeaderWalk::new(payload)?;
                walk.find_each(payload, &wanted, &mut found)?;
                Ok::<_, Corrupt>((found, walk))
            };
            if let Ok((found, walk)) = find(&payload) {
                let shape = HeaderShape::of(&payload, &walk);
                let mut other = payload.clone();
                if let Some(target) = other.get_mut(changed) {
                    *target = byte;
                }
                other.truncate(60 - cut);
                for other in [&payload, &other] {
                    if shape.fits(other) {
                        let (again, _) = find(other).unwrap();
                        prop_assert_eq!(&again, &found);
                    }
                }
            }
            prop_assert!(!HeaderShape::NONE.fits(&payload));
        }

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
