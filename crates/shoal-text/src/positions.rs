//! Position lists: columns and offsets of a token in one document, encoded and decoded.

use crate::definition::Detail;
use crate::varint;

/// The column of a position.
#[inline]
pub(crate) fn column(position: u64) -> usize {
    (position >> 32) as usize
}

/// The place within its column of a position.
#[inline]
pub(crate) fn offset(position: u64) -> usize {
    (position & 0xffff_ffff) as usize
}

/// Places of an encoded list, ascending: the column in the high half, the offset in the low. A
/// list of columns alone gives offset 0. Bytes that are no list end it.
#[derive(Clone, Debug)]
pub(crate) struct Positions<'b> {
    bytes: &'b [u8],
    last: u64,
    is_full: bool,
}

impl<'b> Positions<'b> {
    #[inline]
    pub(crate) fn new(bytes: &'b [u8], detail: Detail) -> Positions<'b> {
        Positions { bytes, last: 0, is_full: detail == Detail::Full }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (value, length) = varint::get(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Some(value)
    }
}

impl Iterator for Positions<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let mut value = self.number()?;
        if !self.is_full {
            self.last = self.last.checked_add(value.checked_sub(2)?)?.min(u64::from(u32::MAX) >> 1);
            return Some(self.last << 32);
        }
        while value == 1 {
            self.last = (self.number()? & 0x7fff_ffff) << 32;
            value = self.number()?;
        }
        let offset = (self.last & 0xffff_ffff).checked_add(value.checked_sub(2)?)?;
        self.last = self.last & !0xffff_ffff | offset & 0xffff_ffff;
        Some(self.last)
    }
}

/// Appends an encoded list of ascending, different positions.
pub(crate) fn encode(positions: &[u64], detail: Detail, out: &mut Vec<u8>) {
    let (mut last_column, mut last) = (0, 0);
    for &position in positions {
        let (column, offset) = (position >> 32, position & 0xffff_ffff);
        if detail != Detail::Full {
            varint::put(out, column - last + 2);
            last = column;
            continue;
        }
        if column != last_column {
            out.push(1);
            varint::put(out, column);
            (last_column, last) = (column, 0);
        }
        varint::put(out, offset - last + 2);
        last = offset;
    }
}
