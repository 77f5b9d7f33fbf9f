//! Booleans: alternating counts, the count of `false` first (format: column encodings).

use super::leb128::{Reader, write_uleb};
use crate::Fault;

/// Reads a column row by row.
#[derive(Clone, Debug)]
pub(crate) struct BooleanDecoder<'a> {
    reader: Reader<'a>,
    value: bool,
    remaining: u64,
}

impl<'a> BooleanDecoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), value: true, remaining: 0 }
    }

    /// The next row, `false` for every row after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool, Fault> {
        let (value, _) = self.peek()?;
        self.skip(1);
        Ok(value)
    }

    /// The value and number of the next equal rows, without going on: `false` without end after the
    /// last row.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<(bool, u64), Fault> {
        while self.remaining == 0 {
            if self.reader.is_empty() {
                return Ok((false, u64::MAX));
            }
            self.remaining = self.reader.uleb()?;
            self.value = !self.value;
        }
        Ok((self.value, self.remaining))
    }

    /// Goes over `count` rows, at most as many as [`peek`](Self::peek) told of.
    #[inline]
    pub(crate) fn skip(&mut self, count: u64) {
        self.remaining = self.remaining.saturating_sub(count);
    }

    /// The value and number of the next equal rows.
    #[inline]
    pub(crate) fn next_equal(&mut self) -> Result<(bool, u64), Fault> {
        let equal = self.peek()?;
        self.remaining = 0;
        Ok(equal)
    }
}

/// The number of rows of a column.
pub(crate) fn count_rows(bytes: &[u8]) -> Result<u64, Fault> {
    let mut reader = Reader::new(bytes);
    let mut rows = 0_u64;
    while !reader.is_empty() {
        rows = rows.checked_add(reader.uleb()?).ok_or(Fault::Overflow)?;
    }
    Ok(rows)
}

/// Writes a column row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct BooleanEncoder {
    out: Vec<u8>,
    state: BooleanState,
}

/// The part of a column being written not in its bytes yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct BooleanState {
    value: bool,
    count: u64,
    any_true: bool,
}

impl BooleanState {
    /// Appends a value `count` times, at least once.
    #[inline]
    pub(crate) fn push(&mut self, value: bool, count: u64, out: &mut Vec<u8>) {
        if value != self.value {
            write_uleb(self.count, out);
            self.value = value;
            self.count = 0;
            self.any_true |= value;
        }
        self.count += count;
    }

    /// Ends the column; whether any row is true.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        if self.count > 0 {
            write_uleb(self.count, out);
            self.count = 0;
        }
        self.any_true
    }
}

impl BooleanEncoder {
    #[inline]
    pub(crate) fn push(&mut self, value: bool) {
        self.state.push(value, 1, &mut self.out);
    }

    /// Appends a value `count` times, at least once.
    #[inline]
    pub(crate) fn push_values(&mut self, value: bool, count: u64) {
        self.state.push(value, count, &mut self.out);
    }

    pub(crate) fn finish(&mut self) {
        self.state.finish(&mut self.out);
    }

    /// The bytes of a finished column.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// The bytes of a finished column, to be left out when no row is true.
    pub(crate) fn bytes_if_any(&self) -> &[u8] {
        if self.state.any_true { &self.out } else { &[] }
    }

    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.state = BooleanState::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(rows: &[bool]) -> BooleanEncoder {
        let mut encoder = BooleanEncoder::default();
        for &row in rows {
            encoder.push(row);
        }
        encoder.finish();
        encoder
    }

    #[test]
    fn known_columns() {
        assert_eq!(encode(&[]).bytes(), []);
        assert_eq!(encode(&[false, false]).bytes(), [2]);
        assert_eq!(encode(&[false, false]).bytes_if_any(), []);
        assert_eq!(encode(&[true, false, true]).bytes_if_any(), [0, 1, 1, 1]);
    }

    #[test]
    fn refusals() {
        assert_eq!(count_rows(&[0x80]), Err(Fault::Truncated));
        let mut bytes = Vec::new();
        write_uleb(u64::MAX, &mut bytes);
        assert_eq!(count_rows(&bytes.repeat(2)), Err(Fault::Overflow));
        assert_eq!(BooleanDecoder::new(&[0x80]).next(), Err(Fault::Truncated));
    }

    proptest! {
        #[test]
        fn both_ways(rows in proptest::collection::vec(any::<bool>(), 0..200)) {
            let encoder = encode(&rows);
            prop_assert_eq!(count_rows(encoder.bytes()), Ok(rows.len() as u64));
            let mut decoder = BooleanDecoder::new(encoder.bytes());
            for row in rows {
                prop_assert_eq!(decoder.next(), Ok(row));
            }
            prop_assert_eq!(decoder.next(), Ok(false));
        }
    }
}
