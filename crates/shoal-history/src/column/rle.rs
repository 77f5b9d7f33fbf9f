//! Run-length encoding of integers, actors and strings (format: column encodings).
//!
//! A record begins with a signed integer n: n > 0, one value repeated n times; n < 0, |n| literal
//! values; n = 0, an unsigned k and then nothing, k nulls. The writer is canonical (equal
//! neighbours are always one record, lone values are gathered in one, only-null columns are
//! empty), because the hash of a change covers its columns. The reader takes any records, as the
//! reference does for changes.

use super::leb128::{Reader, write_sleb, write_uleb};
use crate::Fault;

/// The type of values in a run-length encoded column.
pub(crate) trait RleValue<'a>: Copy {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault>;
}

impl RleValue<'_> for u64 {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        reader.uleb()
    }
}

impl RleValue<'_> for i64 {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        reader.sleb()
    }
}

impl<'a> RleValue<'a> for &'a str {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let len = usize::try_from(reader.uleb()?).map_err(|_| Fault::Truncated)?;
        std::str::from_utf8(reader.bytes(len)?).map_err(|_| Fault::NotUtf8)
    }
}

/// Reads a column row by row, or equal rows at once.
#[derive(Clone, Debug)]
pub(crate) struct RleDecoder<'a, V> {
    reader: Reader<'a>,
    /// The value of the next `left` rows.
    value: Option<V>,
    left: u64,
    /// The number of further values of a literal record.
    literals: u64,
}

impl<'a, V: RleValue<'a>> RleDecoder<'a, V> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), value: None, left: 0, literals: 0 }
    }

    /// The next row: a value, or `None` for a null and for every row after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<V>, Fault> {
        if self.left == 0 && !self.fill()? {
            return Ok(None);
        }
        self.left -= 1;
        Ok(self.value)
    }

    /// The value and number of the next equal rows, without going on: a run of nulls without end
    /// after the last row.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<(Option<V>, u64), Fault> {
        if self.left == 0 && !self.fill()? {
            return Ok((None, u64::MAX));
        }
        Ok((self.value, self.left))
    }

    /// Goes over `count` rows, at most as many as [`peek`](Self::peek) told of.
    #[inline]
    pub(crate) fn skip(&mut self, count: u64) {
        self.left = self.left.saturating_sub(count);
    }

    /// The value and number of the next equal rows: a run of nulls without end after the last row.
    #[inline]
    pub(crate) fn next_equal(&mut self) -> Result<(Option<V>, u64), Fault> {
        let equal = self.peek()?;
        self.left = 0;
        Ok(equal)
    }

    /// Like [`next_equal`](Self::next_equal), `max` rows at most.
    #[inline]
    pub(crate) fn next_equal_of(&mut self, max: u64) -> Result<(Option<V>, u64), Fault> {
        let (value, count) = self.peek()?;
        let count = count.min(max);
        self.skip(count);
        Ok((value, count))
    }

    /// Enters the next equal rows; false at the end.
    #[inline]
    fn fill(&mut self) -> Result<bool, Fault> {
        loop {
            if self.literals > 0 {
                self.literals -= 1;
                (self.value, self.left) = (Some(V::read(&mut self.reader)?), 1);
                return Ok(true);
            }
            if self.reader.is_empty() {
                return Ok(false);
            }
            let count = self.reader.sleb()?;
            if count > 0 {
                (self.value, self.left) = (Some(V::read(&mut self.reader)?), count.cast_unsigned());
                return Ok(true);
            }
            self.literals = count.unsigned_abs();
            if count == 0 {
                (self.value, self.left) = (None, self.reader.uleb()?);
                if self.left > 0 {
                    return Ok(true);
                }
            }
        }
    }
}

/// Calls `visit` with each run of equal rows (a literal value is a run of one) and returns the
/// number of rows. Cost: the bytes of the column, however many rows they stand for.
pub(crate) fn for_each_run<'a, V: RleValue<'a>>(
    bytes: &'a [u8],
    mut visit: impl FnMut(Option<V>, u64) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    let mut reader = Reader::new(bytes);
    let mut rows = 0_u64;
    while !reader.is_empty() {
        let record = reader.sleb()?;
        let (value, count) = match record {
            0 => (None, reader.uleb()?),
            1.. => (Some(V::read(&mut reader)?), record.cast_unsigned()),
            _ => (None, record.unsigned_abs()),
        };
        rows = rows.checked_add(count).ok_or(Fault::Overflow)?;
        if record < 0 {
            // Every value takes a byte at least, so this ends with the bytes.
            for _ in 0..count {
                visit(Some(V::read(&mut reader)?), 1)?;
            }
        } else if count > 0 {
            visit(value, count)?;
        }
    }
    Ok(rows)
}

/// The number of rows of a column, with a check of each record.
pub(crate) fn count_rows<'a, V: RleValue<'a>>(bytes: &'a [u8]) -> Result<u64, Fault> {
    for_each_run::<V>(bytes, |_, _| Ok(()))
}

/// How an encoder keeps the last value, to compare the next one with.
pub(crate) trait RleType: Default {
    /// A value from the caller.
    type Value<'v>: Copy;
    fn is(&self, value: Self::Value<'_>) -> bool;
    fn set(&mut self, value: Self::Value<'_>);
    fn write(&self, out: &mut Vec<u8>);
}

/// Unsigned integers, actor indices among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uint(u64);

impl RleType for Uint {
    type Value<'v> = u64;

    #[inline]
    fn is(&self, value: u64) -> bool {
        self.0 == value
    }

    #[inline]
    fn set(&mut self, value: u64) {
        self.0 = value;
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        write_uleb(self.0, out);
    }
}

/// Signed integers: the differences of delta columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Int(i64);

impl RleType for Int {
    type Value<'v> = i64;

    #[inline]
    fn is(&self, value: i64) -> bool {
        self.0 == value
    }

    #[inline]
    fn set(&mut self, value: i64) {
        self.0 = value;
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        write_sleb(self.0, out);
    }
}

/// Strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text(String);

impl RleType for Text {
    type Value<'v> = &'v str;

    fn is(&self, value: &str) -> bool {
        self.0 == value
    }

    fn set(&mut self, value: &str) {
        self.0.clear();
        self.0.push_str(value);
    }

    fn write(&self, out: &mut Vec<u8>) {
        super::leb128::write_length_prefixed(self.0.as_bytes(), out);
    }
}

/// Writes a column row by row, into bytes of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct RleEncoder<T> {
    out: Vec<u8>,
    state: RleState<T>,
}

impl<T: RleType> RleEncoder<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: Option<T::Value<'_>>) {
        self.state.push(value, 1, &mut self.out);
    }

    #[inline]
    pub(crate) fn push_value(&mut self, value: T::Value<'_>) {
        self.state.push_value(value, 1, &mut self.out);
    }

    /// Appends a value `count` times, at least once.
    #[inline]
    pub(crate) fn push_values(&mut self, value: T::Value<'_>, count: u64) {
        self.state.push_value(value, count, &mut self.out);
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.state.push_null(1, &mut self.out);
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_nulls(&mut self, count: u64) {
        self.state.push_null(count, &mut self.out);
    }

    /// Ends the column. Its bytes are then [`bytes`](Self::bytes); only [`clear`](Self::clear) may
    /// follow.
    pub(crate) fn finish(&mut self) {
        self.state.finish(&mut self.out);
    }

    /// The bytes of a finished column.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Starts anew, keeping the buffers.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.state.begin(&self.out);
    }
}

/// What of a column that is being written is not in its bytes yet. The bytes are those after the
/// place where [`begin`](Self::begin) was called; nothing else may be appended until
/// [`finish`](Self::finish).
#[derive(Clone, Debug, Default)]
pub(crate) struct RleState<T> {
    /// The last value and how often it came in a row; 0 after a null and at the start.
    last: T,
    repeats: u64,
    /// Nulls since the last value.
    nulls: u64,
    /// The number of values in the literal record that the bytes end with, and where that begins:
    /// with a byte for its length.
    literals: u64,
    literals_start: usize,
    /// Where the column begins.
    start: usize,
}

impl<T: RleType> RleState<T> {
    /// Starts a column at the end of `out`.
    #[inline]
    pub(crate) fn begin(&mut self, out: &[u8]) {
        self.repeats = 0;
        self.nulls = 0;
        self.literals = 0;
        self.start = out.len();
    }

    #[inline]
    pub(crate) fn push(&mut self, value: Option<T::Value<'_>>, count: u64, out: &mut Vec<u8>) {
        match value {
            Some(value) => self.push_value(value, count, out),
            None => self.push_null(count, out),
        }
    }

    /// Appends a value `count` times, at least once.
    #[inline]
    pub(crate) fn push_value(&mut self, value: T::Value<'_>, count: u64, out: &mut Vec<u8>) {
        if self.repeats > 0 && self.last.is(value) {
            self.repeats += count;
            return;
        }
        self.end_run(out);
        self.last.set(value);
        self.repeats = count;
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_null(&mut self, count: u64, out: &mut Vec<u8>) {
        if self.nulls == 0 {
            self.end_run(out);
            self.end_literals(out);
        }
        self.nulls += count;
    }

    /// Ends the column.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.nulls > 0 && out.len() == self.start {
            // Nothing but nulls: such a column is left out.
            self.nulls = 0;
        }
        self.end_run(out);
        self.end_literals(out);
    }

    /// Moves the last value, or the nulls, to where they belong.
    #[inline]
    fn end_run(&mut self, out: &mut Vec<u8>) {
        if self.nulls > 0 {
            out.push(0);
            write_uleb(self.nulls, out);
            self.nulls = 0;
        } else if self.repeats == 1 {
            if self.literals == 0 {
                self.literals_start = out.len();
                out.push(0);
            }
            self.last.write(out);
            self.literals += 1;
        } else if self.repeats > 1 {
            self.end_literals(out);
            write_sleb(self.repeats.cast_signed(), out);
            self.last.write(out);
        }
        self.repeats = 0;
    }

    #[inline]
    fn end_literals(&mut self, out: &mut Vec<u8>) {
        end_literals(&mut self.literals, self.literals_start, out);
    }
}

/// Writes a column of strings, as [`RleEncoder`] does: a string unlike its neighbours, as most keys
/// are, is copied once.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextEncoder {
    out: Vec<u8>,
    /// The number of values in the literal record at the end of the bytes, and its begin: a byte
    /// for its length.
    literals: u64,
    literals_start: usize,
    /// The starts of the last literal and of its text, if the last row is a literal.
    lone: Option<(usize, usize)>,
    /// The value of the run at the end, and the run's length: 2 or more, or 0 without a run.
    repeated: String,
    repeats: u64,
    /// The nulls at the end.
    nulls: u64,
}

impl TextEncoder {
    #[inline]
    pub(crate) fn push(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.push_value(value),
            None => self.push_nulls(1),
        }
    }

    #[inline]
    pub(crate) fn push_value(&mut self, value: &str) {
        if let Some((start, text)) = self.lone {
            if self.out[text..] == *value.as_bytes() {
                return self.repeat(start, value);
            }
        } else if self.repeats > 0 && self.repeated == value {
            self.repeats += 1;
            return;
        } else {
            self.end_run();
        }
        if self.literals == 0 {
            self.literals_start = self.out.len();
            self.out.push(0);
        }
        let start = self.out.len();
        write_uleb(value.len() as u64, &mut self.out);
        self.lone = Some((start, self.out.len()));
        self.out.extend_from_slice(value.as_bytes());
        self.literals += 1;
    }

    /// Turns the literal at `start` into a run of two values.
    fn repeat(&mut self, start: usize, value: &str) {
        self.lone = None;
        self.literals -= 1;
        self.out.truncate(if self.literals == 0 { self.literals_start } else { start });
        self.repeated.clear();
        self.repeated.push_str(value);
        self.repeats = 2;
    }

    /// Appends `count` nulls, at least one.
    #[inline]
    pub(crate) fn push_nulls(&mut self, count: u64) {
        if self.nulls == 0 {
            self.end_run();
            self.end_literals();
        }
        self.nulls += count;
    }

    /// Ends the column; see [`RleEncoder::finish`].
    pub(crate) fn finish(&mut self) {
        if self.out.is_empty() && self.repeats == 0 {
            // Nothing but nulls: such a column is left out.
            self.nulls = 0;
        }
        self.end_run();
        self.end_literals();
    }

    /// Writes the repeated value, or the nulls, at the end.
    fn end_run(&mut self) {
        self.lone = None;
        if self.nulls > 0 {
            self.out.push(0);
            write_uleb(self.nulls, &mut self.out);
            self.nulls = 0;
        } else if self.repeats > 0 {
            self.end_literals();
            write_sleb(self.repeats.cast_signed(), &mut self.out);
            super::leb128::write_length_prefixed(self.repeated.as_bytes(), &mut self.out);
            self.repeats = 0;
        }
    }

    fn end_literals(&mut self) {
        end_literals(&mut self.literals, self.literals_start, &mut self.out);
    }

    /// The bytes of a finished column.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Starts anew, keeping the buffers.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.lone = None;
        (self.literals, self.repeats, self.nulls) = (0, 0, 0);
    }
}

/// Writes the length of a literal record into its reserved byte, inserting more where needed.
#[inline]
fn end_literals(literals: &mut u64, start: usize, out: &mut Vec<u8>) {
    let count = -std::mem::take(literals).cast_signed();
    if count == 0 {
        return;
    }
    if count >= -64 {
        out[start] = (count.cast_unsigned() & 0x7f) as u8;
    } else {
        let mut length = Vec::new();
        write_sleb(count, &mut length);
        out.splice(start..=start, length);
    }
}

/// Appends the finished column `bytes` with each value replaced by `map` of it. The records stay
/// as they are, so `map` must be one to one.
pub(crate) fn replace_values(
    bytes: &[u8],
    out: &mut Vec<u8>,
    map: impl Fn(u64) -> u64,
) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let count = reader.sleb()?;
        write_sleb(count, out);
        if count == 0 {
            write_uleb(reader.uleb()?, out);
        }
        let values = if count > 0 { 1 } else { count.unsigned_abs() };
        for _ in 0..values {
            write_uleb(map(reader.uleb()?), out);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(rows: &[Option<u64>]) -> Vec<u8> {
        let mut encoder = RleEncoder::<Uint>::default();
        for &row in rows {
            encoder.push(row);
        }
        encoder.finish();
        encoder.bytes().to_vec()
    }

    fn decode<'a, V: RleValue<'a>>(bytes: &'a [u8]) -> Result<Vec<Option<V>>, Fault> {
        let rows = count_rows::<V>(bytes)?;
        assert!(rows < 10_000, "a test column is small: {rows}");
        let mut decoder = RleDecoder::new(bytes);
        (0..rows).map(|_| decoder.next()).collect()
    }

    #[test]
    fn records_are_canonical() {
        let check = |rows: &[Option<u64>], expect: &[u8]| assert_eq!(encode(rows), expect);
        check(&[], &[]);
        check(&[None, None], &[]);
        check(&[Some(5)], &[0x7f, 5]);
        check(&[Some(5), Some(5)], &[2, 5]);
        check(&[Some(1), Some(2), Some(3)], &[0x7d, 1, 2, 3]);
        check(&[Some(1), Some(2), Some(2), Some(3)], &[0x7f, 1, 2, 2, 0x7f, 3]);
        check(&[None, Some(1), None, None], &[0, 1, 0x7f, 1, 0, 2]);
        check(&[Some(1), Some(1), None, Some(1)], &[2, 1, 0, 1, 0x7f, 1]);
        check(&[Some(1), Some(2), None], &[0x7e, 1, 2, 0, 1]);
    }

    #[test]
    fn an_encoder_can_be_cleared() {
        let mut encoder = RleEncoder::<Uint>::default();
        for value in [1, 1, 2] {
            encoder.push_value(value);
        }
        encoder.clear();
        encoder.push_value(2);
        encoder.finish();
        assert_eq!(encoder.bytes(), [0x7f, 2]);
    }

    #[test]
    fn records_that_no_writer_makes_are_read() {
        // A repeat of one, a null run of none, two literal records in a row.
        assert_eq!(
            decode::<u64>(&[1, 9, 0, 0, 0x7f, 4, 0x7f, 4]),
            Ok(vec![Some(9), Some(4), Some(4)])
        );
        let mut decoder = RleDecoder::<u64>::new(&[]);
        assert_eq!(decoder.next(), Ok(None));
    }

    #[test]
    fn equal_rows_are_read_at_once() {
        let mut decoder = RleDecoder::<u64>::new(&[3, 9, 0x7e, 4, 5, 0, 2]);
        assert_eq!(decoder.peek(), Ok((Some(9), 3)));
        decoder.skip(2);
        assert_eq!(decoder.next_equal(), Ok((Some(9), 1)));
        assert_eq!(decoder.peek(), Ok((Some(4), 1)));
        assert_eq!(decoder.next(), Ok(Some(4)));
        assert_eq!(decoder.next_equal_of(7), Ok((Some(5), 1)));
        assert_eq!(decoder.next_equal_of(1), Ok((None, 1)));
        assert_eq!(decoder.next_equal_of(7), Ok((None, 1)));
        assert_eq!(decoder.peek(), Ok((None, u64::MAX)));
        decoder.skip(5);
        assert_eq!(decoder.next_equal_of(7), Ok((None, 7)));
    }

    #[test]
    fn refusals() {
        assert_eq!(decode::<u64>(&[2]), Err(Fault::Truncated));
        assert_eq!(decode::<u64>(&[0x7e, 1]), Err(Fault::Truncated));
        assert_eq!(decode::<u64>(&[0]), Err(Fault::Truncated));
        assert_eq!(decode::<&str>(&[0x7f, 1, 0xff]), Err(Fault::NotUtf8));
        assert_eq!(decode::<&str>(&[0x7f, 5, b'a']), Err(Fault::Truncated));
        // 2^63 literals in two bytes of values; 2^64 - 1 nulls twice.
        let min = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f, 1, 2];
        assert_eq!(count_rows::<u64>(&min), Err(Fault::Truncated));
        let mut nulls = vec![0];
        write_uleb(u64::MAX, &mut nulls);
        assert_eq!(count_rows::<u64>(&nulls), Ok(u64::MAX));
        let twice = nulls.repeat(2);
        assert_eq!(count_rows::<u64>(&twice), Err(Fault::Overflow));
    }

    proptest! {
        #[test]
        fn integers_both_ways(rows in proptest::collection::vec(
            proptest::option::weighted(0.7, prop_oneof![0_u64..3, any::<u64>()]), 0..200)
        ) {
            let bytes = encode(&rows);
            if rows.iter().all(Option::is_none) {
                prop_assert!(bytes.is_empty());
            } else {
                prop_assert_eq!(decode::<u64>(&bytes), Ok(rows));
            }
            let mut same = Vec::new();
            replace_values(&bytes, &mut same, |value| value).unwrap();
            prop_assert_eq!(same, bytes);
        }

        #[test]
        fn strings_both_ways(rows in proptest::collection::vec("[ab]{0,2}|é", 0..100)) {
            let mut encoder = RleEncoder::<Text>::default();
            for row in &rows {
                encoder.push_value(row);
            }
            encoder.finish();
            let expect = rows.iter().map(|row| Some(row.as_str())).collect();
            prop_assert_eq!(decode::<&str>(encoder.bytes()), Ok(expect));
        }

        #[test]
        fn both_encoders_of_strings_agree(rows in proptest::collection::vec(
            proptest::option::weighted(0.8, "[ab]{0,2}|é"), 0..200), cut in 0_usize..100)
        {
            let (mut one, mut other) = (TextEncoder::default(), RleEncoder::<Text>::default());
            rows.iter().take(cut).for_each(|row| one.push(row.as_deref()));
            one.clear();
            for row in &rows {
                one.push(row.as_deref());
                other.push(row.as_deref());
            }
            one.finish();
            other.finish();
            prop_assert_eq!(one.bytes(), other.bytes());
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            for_each_run::<u64>(&bytes, |_, _| Ok(())).ok();
            for_each_run::<&str>(&bytes, |_, _| Ok(())).ok();
            let mut decoder = RleDecoder::<i64>::new(&bytes);
            for _ in 0..100 {
                if decoder.next().is_err() {
                    break;
                }
            }
        }
    }
}
