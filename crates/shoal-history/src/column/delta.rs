//! Delta encoding: run-length encoded differences, starting from 0 (format: column encodings).
//! Nulls do not advance the running value.

use super::rle::{Int, RleDecoder, RleState, for_each_run};
use crate::Fault;

/// Reads a column row by row.
#[derive(Clone, Debug)]
pub(crate) struct DeltaDecoder<'a> {
    differences: RleDecoder<'a, i64>,
    value: i64,
}

impl<'a> DeltaDecoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { differences: RleDecoder::new(bytes), value: 0 }
    }

    /// The next row, `None` for a null and for every row after the last. Sums wrap, as the
    /// encoder's differences do; columns of counters check the range of each value anyway.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<i64>, Fault> {
        let Some(difference) = self.differences.next()? else { return Ok(None) };
        self.value = self.value.wrapping_add(difference);
        Ok(Some(self.value))
    }

    /// The next row, the step to the rows after it in equal steps, and the number of all these,
    /// without going on; `None` for nulls and at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<(Option<i64>, i64, u64), Fault> {
        let (difference, count) = self.differences.peek()?;
        let Some(step) = difference else { return Ok((None, 0, count)) };
        Ok((Some(self.value.wrapping_add(step)), step, count))
    }

    /// Goes over `count` rows, at most the number from [`peek`](Self::peek), with the step from
    /// there.
    #[inline]
    pub(crate) fn skip(&mut self, step: i64, count: u64) {
        self.value = self.value.wrapping_add(step.wrapping_mul(count.cast_signed()));
        self.differences.skip(count);
    }

    /// Appends the next `count` rows to `out`, each null or a number below 2^32 - 1; 2^32 - 1
    /// stands for a null.
    pub(crate) fn read_counters(&mut self, count: usize, out: &mut Vec<u32>) -> Result<(), Fault> {
        let end = out.len() + count;
        while out.len() < end {
            let (difference, run) = self.differences.next_equal_of((end - out.len()) as u64)?;
            // Not more rows than asked for, so the number fits.
            let run = usize::try_from(run).map_err(|_| Fault::Overflow)?;
            let Some(difference) = difference else {
                out.resize(out.len() + run, u32::MAX);
                continue;
            };
            let first = self.value;
            let signed = i64::try_from(run).map_err(|_| Fault::Overflow)?;
            let last = difference
                .checked_mul(signed)
                .and_then(|sum| first.checked_add(sum))
                .ok_or(Fault::Overflow)?;
            let next = first.checked_add(difference).ok_or(Fault::Overflow)?;
            // All others lie between these two.
            let (next, step) = (counter_from(next)?, difference as u32);
            if next == u32::MAX || counter_from(last)? == u32::MAX {
                return Err(Fault::OutOfRange(last));
            }
            self.value = last;
            if run == 1 {
                out.push(next);
            } else {
                out.extend((0..run as u32).map(|at| next.wrapping_add(step.wrapping_mul(at))));
            }
        }
        Ok(())
    }

    /// The next row as a number of at most 32 bits.
    #[inline]
    pub(crate) fn next_u32(&mut self) -> Result<Option<u32>, Fault> {
        self.next()?.map(counter_from).transpose()
    }
}

/// The number of rows of a column, with a check of each record.
pub(crate) fn count_rows(bytes: &[u8]) -> Result<u64, Fault> {
    for_each_run::<i64>(bytes, |_, _| Ok(()))
}

/// The part of a column being written not in its bytes yet; see [`RleState`].
#[derive(Clone, Debug, Default)]
pub(crate) struct DeltaState {
    differences: RleState<Int>,
    value: i64,
}

impl DeltaState {
    /// Starts a column at the end of `out`.
    #[inline]
    pub(crate) fn begin(&mut self, out: &[u8]) {
        self.differences.begin(out);
        self.value = 0;
    }

    #[inline]
    pub(crate) fn push_value(&mut self, value: i64, out: &mut Vec<u8>) {
        self.differences.push_value(value.wrapping_sub(self.value), 1, out);
        self.value = value;
    }

    /// Appends `count` values, at least one, each by `step` more than the one before.
    #[inline]
    pub(crate) fn push_steps(&mut self, step: i64, count: u64, out: &mut Vec<u8>) {
        self.differences.push_value(step, count, out);
        self.value = self.value.wrapping_add(step.wrapping_mul(count as i64));
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_null(&mut self, count: u64, out: &mut Vec<u8>) {
        self.differences.push_null(count, out);
    }

    /// Ends the column.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.differences.finish(out);
    }
}

/// Writes a column row by row, into bytes of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeltaEncoder {
    out: Vec<u8>,
    state: DeltaState,
}

impl DeltaEncoder {
    #[inline]
    pub(crate) fn push(&mut self, value: Option<i64>) {
        match value {
            Some(value) => self.push_value(value),
            None => self.state.push_null(1, &mut self.out),
        }
    }

    #[inline]
    pub(crate) fn push_value(&mut self, value: i64) {
        self.state.push_value(value, &mut self.out);
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_nulls(&mut self, count: u64) {
        self.state.push_null(count, &mut self.out);
    }

    /// Appends `count` values, at least one: `first`, then each by `step` more.
    #[inline]
    pub(crate) fn push_series(&mut self, first: i64, step: i64, count: u64) {
        self.state.push_value(first, &mut self.out);
        if count > 1 {
            self.state.push_steps(step, count - 1, &mut self.out);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.state.finish(&mut self.out);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.state.begin(&self.out);
    }
}

#[inline]
fn counter_from(value: i64) -> Result<u32, Fault> {
    u32::try_from(value).map_err(|_| match u64::try_from(value) {
        Ok(big) => Fault::Beyond32Bits(big),
        Err(_) => Fault::OutOfRange(value),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(rows: &[Option<i64>]) -> Vec<u8> {
        let mut encoder = DeltaEncoder::default();
        for &row in rows {
            encoder.push(row);
        }
        encoder.finish();
        encoder.bytes().to_vec()
    }

    #[test]
    fn a_sequence_is_one_run() {
        assert_eq!(encode(&[Some(1), Some(2), Some(3)]), [3, 1]);
        assert_eq!(encode(&[Some(10), None, Some(11)]), [0x7f, 10, 0, 1, 0x7f, 1]);
    }

    #[test]
    fn counters_have_32_bits() {
        let bytes = encode(&[Some(1 << 32)]);
        assert_eq!(DeltaDecoder::new(&bytes).next_u32(), Err(Fault::Beyond32Bits(1 << 32)));
        let bytes = encode(&[Some(-1)]);
        assert_eq!(DeltaDecoder::new(&bytes).next_u32(), Err(Fault::OutOfRange(-1)));
        let bytes = encode(&[Some(i64::from(u32::MAX))]);
        assert_eq!(DeltaDecoder::new(&bytes).next_u32(), Ok(Some(u32::MAX)));
    }

    proptest! {
        #[test]
        fn both_ways(rows in proptest::collection::vec(
            proptest::option::weighted(0.8, prop_oneof![-3_i64..3, any::<i64>()]), 1..200)
        ) {
            let bytes = encode(&rows);
            let mut decoder = DeltaDecoder::new(&bytes);
            if rows.iter().any(Option::is_some) {
                prop_assert_eq!(count_rows(&bytes), Ok(rows.len() as u64));
            }
            for row in &rows {
                prop_assert_eq!(decoder.next(), Ok(*row));
            }
            let mut decoder = DeltaDecoder::new(&bytes);
            let mut left = &rows[..];
            while !left.is_empty() {
                let (first, step, count) = decoder.peek().unwrap();
                let count = count.min(3).min(left.len() as u64);
                for (at, row) in (0..).zip(&left[..count as usize]) {
                    let value = first.map(|first| first.wrapping_add(step.wrapping_mul(at)));
                    prop_assert_eq!(value, *row);
                }
                decoder.skip(step, count);
                left = &left[count as usize..];
            }
        }
    }
}
