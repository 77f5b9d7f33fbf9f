//! Finding columns in the headers of records.

use std::ops::Range;

use super::{ColumnPlace, NONE};
use crate::{Corrupt, LeafCell, varint};

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

/// Bytes of a value by the first byte of its serial type; [`LONG`] for types of more bytes and for
/// those that are no types.
pub(super) const LENGTHS: [u32; 256] = {
    let mut out = [LONG; 256];
    let small = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];
    let mut serial = 0;
    while serial < 128 {
        if serial < small.len() {
            out[serial] = small[serial];
        } else if serial >= 12 {
            out[serial] = (serial as u32 - 12) / 2;
        }
        serial += 1;
    }
    out
};

/// More than any record has bytes that is looked at with sums of [`LENGTHS`]; 127 of them, the
/// types of a short header and where it began, do not pass 2^32.
const LONG: u32 = 1 << 24;

/// The wanted columns of many records.
#[derive(Clone, Debug, Default)]
pub struct ColumnFinder {
    /// Numbers of columns, ascending.
    indexes: Box<[usize]>,
    /// For each of them the number of columns passed over before.
    skips: Box<[usize]>,
    /// How many columns there are up to the last one.
    span: usize,
    /// Where the wanted columns lie beside each other, how many are before them.
    run: Option<usize>,
}

/// Most columns of a span that is looked for in headers of one-byte types: such a header has no
/// more.
const SPAN_MAX: usize = 126;

impl ColumnFinder {
    /// For the columns `indexes`, in ascending order.
    pub fn new(indexes: &[usize]) -> ColumnFinder {
        let mut skips = Vec::with_capacity(indexes.len());
        let mut next = 0;
        for &index in indexes {
            skips.push(index - next);
            next = index + 1;
        }
        let beside = skips.iter().skip(1).all(|&skip| skip == 0);
        let run = skips.first().copied().filter(|_| beside);
        ColumnFinder { indexes: indexes.into(), skips: skips.into(), span: next, run }
    }

    /// How many columns are wanted.
    #[inline]
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether no column is wanted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Finds the columns of the record that is `bytes[record]` and puts where they are in `bytes`
    /// into `found`, which is as long as there are columns.
    ///
    /// Cost: a few instructions per column up to the last one wanted, where every serial type up to
    /// there has one byte; a [`HeaderWalk`] otherwise. No allocation.
    ///
    /// # Errors
    /// As [`HeaderWalk::new`] and [`HeaderWalk::find_each`]; [`Corrupt`] when `bytes` has no such
    /// range, or more than 4 GiB.
    #[inline(always)]
    pub fn find(
        &self,
        bytes: &[u8],
        record: Range<usize>,
        found: &mut [ColumnPlace],
    ) -> Result<(), Corrupt> {
        if record.end <= bytes.len() && self.find_short(bytes, &record, found) {
            return Ok(());
        }
        self.find_any(bytes, record, found)
    }

    /// Finds the columns of the records of `cells`, which are of the page of these `bytes`: those
    /// of `cells[i]` are put in front of `found[i * stride..]`. A cell whose record goes on on
    /// other pages is passed over.
    ///
    /// Cost: one loop; of a record as [`ColumnFinder::find`], which has more to ask each time.
    ///
    /// # Errors
    /// As [`ColumnFinder::find`].
    pub fn find_cells(
        &self,
        bytes: &[u8],
        cells: &[LeafCell],
        found: &mut [ColumnPlace],
        stride: usize,
    ) -> Result<(), Corrupt> {
        match &*self.skips {
            [] => Ok(()),
            [pass] => self.find_run::<1>(*pass, bytes, cells, found, stride),
            [pass, 0] => self.find_run::<2>(*pass, bytes, cells, found, stride),
            _ => match self.span {
                3 => self.find_span::<3>(bytes, cells, found, stride),
                4 => self.find_span::<4>(bytes, cells, found, stride),
                5 => self.find_span::<5>(bytes, cells, found, stride),
                6 => self.find_span::<6>(bytes, cells, found, stride),
                7 => self.find_span::<7>(bytes, cells, found, stride),
                8 => self.find_span::<8>(bytes, cells, found, stride),
                9 => self.find_span::<9>(bytes, cells, found, stride),
                10 => self.find_span::<10>(bytes, cells, found, stride),
                _ => self.find_each(bytes, cells, found, stride, |cells, found| {
                    self.shorts_of(bytes, cells, found, stride)
                }),
            },
        }
    }

    /// The same for columns of which the last one is the `SPAN`th.
    #[inline]
    fn find_span<const SPAN: usize>(
        &self,
        bytes: &[u8],
        cells: &[LeafCell],
        found: &mut [ColumnPlace],
        stride: usize,
    ) -> Result<(), Corrupt> {
        let spans = match self.indexes.len() {
            2 => spans_of::<SPAN, 2>,
            3 => spans_of::<SPAN, 3>,
            _ => spans_of::<SPAN, 0>,
        };
        self.find_each(bytes, cells, found, stride, |cells, found| {
            spans(&self.indexes, self.run, bytes, (cells, found), stride)
        })
    }

    /// The same for `TAKE` columns beside each other.
    #[inline]
    fn find_run<const TAKE: usize>(
        &self,
        pass: usize,
        bytes: &[u8],
        cells: &[LeafCell],
        found: &mut [ColumnPlace],
        stride: usize,
    ) -> Result<(), Corrupt> {
        // Loops of their own, so that their bounds are known when they are compiled.
        let runs = match pass {
            0 => runs_of::<0, TAKE>,
            1 => runs_of::<1, TAKE>,
            2 => runs_of::<2, TAKE>,
            3 => runs_of::<3, TAKE>,
            4 => runs_of::<4, TAKE>,
            5 => runs_of::<5, TAKE>,
            6 => runs_of::<6, TAKE>,
            7 => runs_of::<7, TAKE>,
            _ => {
                return self.find_each(bytes, cells, found, stride, |cells, found| {
                    self.shorts_of(bytes, cells, found, stride)
                });
            }
        };
        self.find_each(bytes, cells, found, stride, |cells, found| {
            runs(bytes, cells, found, stride)
        })
    }

    /// Goes over cells with `short`, which does those whose headers are of the usual kind and says
    /// how many they are before the first other one.
    #[inline(always)]
    fn find_each(
        &self,
        bytes: &[u8],
        cells: &[LeafCell],
        found: &mut [ColumnPlace],
        stride: usize,
        short: impl Fn(&[LeafCell], &mut [ColumnPlace]) -> usize,
    ) -> Result<(), Corrupt> {
        let (mut cells, mut found) = (cells, found);
        loop {
            let done = short(cells, found);
            let Some((cell, rest)) = cells.get(done..).and_then(<[_]>::split_first) else {
                return Ok(());
            };
            let Some((_, places)) = found.split_at_mut_checked(done * stride) else {
                return Ok(());
            };
            if !cell.goes_on()
                && let Some(places) = places.get_mut(..self.len())
            {
                self.find_any(bytes, cell.range(), places)?;
            }
            (cells, found) = (rest, places.get_mut(stride..).unwrap_or_default());
        }
    }

    /// [`ColumnFinder::find_short`] for one cell after the other, as long as it finds; says of how
    /// many.
    #[inline(never)]
    fn shorts_of(
        &self,
        bytes: &[u8],
        cells: &[LeafCell],
        found: &mut [ColumnPlace],
        stride: usize,
    ) -> usize {
        let mut cells = cells.iter().zip(found.chunks_exact_mut(stride.max(1))).enumerate();
        let other = cells.find_map(|(number, (cell, found))| {
            let is_short = !cell.goes_on() && self.find_short(bytes, &cell.range(), found);
            (!is_short).then_some(number)
        });
        other.unwrap_or(usize::MAX)
    }

    /// Finds them where the header is of the usual kind, with types of one byte; false where it is
    /// not, or anything is wrong with a record that is within `bytes`.
    #[inline(always)]
    fn find_short(&self, bytes: &[u8], record: &Range<usize>, found: &mut [ColumnPlace]) -> bool {
        let head = bytes.get(record.start..record.start.wrapping_add(1 + self.span));
        let Some((&length, types)) = head.and_then(<[u8]>::split_first) else { return false };
        if !is_short(length, self.span) || record.end >= LONG as usize {
            return false;
        }
        let mut at = record.start as u32 + u32::from(length);
        if let Some(run) = self.run
            && let Some((passed, taken)) = types.split_at_checked(run)
        {
            for &serial in passed {
                at += LENGTHS[usize::from(serial)];
            }
            for (&serial, place) in taken.iter().zip(found) {
                *place = ColumnPlace::new(u32::from(serial), at);
                at += LENGTHS[usize::from(serial)];
            }
            return at as usize <= record.end;
        }
        let mut types = types;
        for (&skip, place) in self.skips.iter().zip(found) {
            let Some((passed, rest)) = types.split_at_checked(skip) else { return false };
            let Some((&serial, rest)) = rest.split_first() else { return false };
            for &serial in passed {
                at += LENGTHS[usize::from(serial)];
            }
            *place = ColumnPlace::new(u32::from(serial), at);
            at += LENGTHS[usize::from(serial)];
            types = rest;
        }
        // A long type makes it larger than the end; so does a header that passes the record.
        at as usize <= record.end
    }

    #[inline(never)]
    fn find_any(
        &self,
        bytes: &[u8],
        record: Range<usize>,
        found: &mut [ColumnPlace],
    ) -> Result<(), Corrupt> {
        let too_long = Corrupt::new("record", "is longer than can be", record.end as u64);
        let from = u32::try_from(record.start).map_err(|_| too_long)?;
        let payload = bytes.get(record).filter(|_| u32::try_from(bytes.len()).is_ok());
        let payload = payload.ok_or(too_long)?;
        let mut walk = HeaderWalk::new(payload)?;
        walk.find_each(payload, &self.indexes, found)?;
        for place in found {
            *place = place.moved(from);
        }
        Ok(())
    }
}

/// Whether the header of a record, whose first byte is this, has one byte for its length and at
/// least so many types.
#[inline(always)]
fn is_short(length: u8, span: usize) -> bool {
    span <= SPAN_MAX && usize::from(length) > span && length < 0x80
}

/// Finds `TAKE` columns behind the first `PASS` as [`ColumnFinder::find_short`] does, in one cell
/// of the page of these `bytes` after the other, as long as their headers are of the usual kind;
/// says how many those are. Nothing is put for others.
#[inline(never)]
fn runs_of<const PASS: usize, const TAKE: usize>(
    bytes: &[u8],
    cells: &[LeafCell],
    found: &mut [ColumnPlace],
    stride: usize,
) -> usize {
    let mut cells = cells.iter().zip(found.chunks_exact_mut(stride.max(1))).enumerate();
    let other = cells.find_map(|(number, (cell, found))| {
        let start = cell.start as usize;
        let head = bytes.get(start..start + 1 + PASS + TAKE);
        let (Some(head), Some(found)) = (head, found.first_chunk_mut::<TAKE>()) else {
            return Some(number);
        };
        let mut at = cell.start + u32::from(head[0]);
        for column in 0..PASS {
            at += LENGTHS[usize::from(head[1 + column])];
        }
        let mut places = [ColumnPlace::MISSING; TAKE];
        for (column, place) in places.iter_mut().enumerate() {
            let serial = head[1 + PASS + column];
            *place = ColumnPlace::new(u32::from(serial), at);
            at += LENGTHS[usize::from(serial)];
        }
        // A cell that goes on on other pages has its end at 0, and none has it as far as a long
        // type would reach.
        if !is_short(head[0], PASS + TAKE) || at > cell.end {
            return Some(number);
        }
        *found = places;
        None
    });
    other.unwrap_or(usize::MAX)
}

/// Finds the columns `indexes`, which are all among the first `SPAN`, as [`runs_of`] does: where
/// all of those begin is found first. They are `TAKE`, where that is not 0; of columns beside each
/// other `run` are before them.
#[inline(never)]
fn spans_of<const SPAN: usize, const TAKE: usize>(
    indexes: &[usize],
    run: Option<usize>,
    bytes: &[u8],
    (cells, found): (&[LeafCell], &mut [ColumnPlace]),
    stride: usize,
) -> usize {
    // None passes the span; once that is known to be so nothing asks again.
    let known: [usize; TAKE] =
        std::array::from_fn(|number| indexes.get(number).map_or(0, |&index| index.min(SPAN - 1)));
    let mut cells = cells.iter().zip(found.chunks_exact_mut(stride.max(1))).enumerate();
    let other = cells.find_map(|(number, (cell, found))| {
        let start = cell.start as usize;
        let head = bytes.get(start..start + 1 + SPAN).and_then(<[u8]>::split_first);
        let Some((&length, types)) = head else { return Some(number) };
        let Some(types) = types.first_chunk::<SPAN>() else { return Some(number) };
        let mut starts = [0; SPAN];
        let mut at = cell.start + u32::from(length);
        for (start, &serial) in starts.iter_mut().zip(types) {
            *start = at;
            at += LENGTHS[usize::from(serial)];
        }
        if !is_short(length, SPAN) || at > cell.end {
            return Some(number);
        }
        if TAKE > 0 {
            let Some(found) = found.first_chunk_mut::<TAKE>() else { return Some(number) };
            for (index, place) in known.into_iter().zip(found) {
                *place = ColumnPlace::new(u32::from(types[index]), starts[index]);
            }
            return None;
        }
        if let Some(run) = run {
            let columns = types.iter().zip(&starts).skip(run);
            for ((&serial, &start), place) in columns.zip(found) {
                *place = ColumnPlace::new(u32::from(serial), start);
            }
            return None;
        }
        for (&index, place) in indexes.iter().zip(found) {
            // Both are as long as the span, which ends with the last index.
            let (Some(&serial), Some(&start)) = (types.get(index), starts.get(index)) else {
                return Some(number);
            };
            *place = ColumnPlace::new(u32::from(serial), start);
        }
        None
    });
    other.unwrap_or(usize::MAX)
}

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
                    LONG => long_serial(&header[at..])?,
                    length => (u64::from(byte), 1, u64::from(length)),
                };
                at += size;
                // Terms below 2^63; a column wanted is compared with the payload, which has fewer
                // bytes than 2^32.
                body = body.saturating_add(length);
                column += 1;
                if column > index {
                    let serial = u32::try_from(serial).ok().filter(|&serial| serial != NONE);
                    *found = match serial {
                        Some(serial) if body <= payload.len() as u64 => {
                            ColumnPlace::new(serial, start as u32)
                        }
                        _ => {
                            return Err(Corrupt::new(
                                "record",
                                "column passes the payload",
                                length,
                            ));
                        }
                    };
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
    use crate::{LeafCell, ValueRef, encode_record};

    /// What a finder gives for the record in the middle of other bytes is what a walk through the
    /// record alone gives.
    fn finds(bytes: &[u8], record: Range<usize>, wanted: &[usize]) {
        let payload = &bytes[record.clone()];
        let mut expect = vec![ColumnPlace::MISSING; wanted.len()];
        let walked = HeaderWalk::new(payload)
            .and_then(|mut walk| walk.find_each(payload, wanted, &mut expect));
        let mut found = vec![ColumnPlace::MISSING; wanted.len()];
        let got = ColumnFinder::new(wanted).find(bytes, record.clone(), &mut found);
        assert_eq!(got, walked, "{payload:?} {wanted:?}");
        finds_in_cells(bytes, &record, wanted, got.as_ref().err().map_or(Ok(&found), Err));
        if got.is_ok() {
            let show = |places: &[ColumnPlace], bytes: &[u8]| {
                let values = places.iter().map(|place| format!("{:?}", place.decode(bytes)));
                values.collect::<Vec<_>>()
            };
            assert_eq!(show(&found, bytes), show(&expect, payload), "{payload:?} {wanted:?}");
        }
    }

    /// The same of the record in a cell, with another one before it that goes on on other pages.
    fn finds_in_cells(
        bytes: &[u8],
        record: &Range<usize>,
        wanted: &[usize],
        expect: Result<&Vec<ColumnPlace>, &Corrupt>,
    ) {
        // Of no column nothing is looked at.
        if record.start == 0 || wanted.is_empty() {
            return;
        }
        let cell = LeafCell { rowid: 1, start: record.start as u32, end: record.end as u32 };
        let stride = wanted.len() + 1;
        let mut found = vec![ColumnPlace::MISSING; 2 * stride];
        let got = ColumnFinder::new(wanted).find_cells(
            bytes,
            &[LeafCell::default(), cell],
            &mut found,
            stride,
        );
        match expect {
            Ok(places) => assert_eq!(found[stride..2 * stride - 1], **places),
            Err(error) => assert_eq!(got.as_ref(), Err(error)),
        }
        assert_eq!(got.is_ok(), expect.is_ok());
        assert!(found[..stride].iter().all(|&place| place == ColumnPlace::MISSING));
    }

    #[test]
    fn headers_with_long_types_and_few_columns() {
        let long = [b'x'; 90];
        let values =
            [ValueRef::Text(&long), ValueRef::Int(5), ValueRef::Text(b"ab"), ValueRef::Real(0.5)];
        let mut bytes = vec![7; 5];
        encode_record(&values, 4, &mut bytes);
        let end = bytes.len();
        bytes.push(9);
        for wanted in [&[0][..], &[0, 1], &[1, 2, 3], &[3], &[0, 3, 4], &[2, 9], &[]] {
            finds(&bytes, 5..end, wanted);
            finds(&bytes, 5..end - 1, wanted);
        }
        let mut one = [ColumnPlace::MISSING];
        assert!(ColumnFinder::new(&[0]).find(&bytes, 5..400, &mut one).is_err());
    }

    proptest! {
        #[test]
        fn finders_find_what_walks_find(
            before in proptest::collection::vec(any::<u8>(), 0..5),
            payload in proptest::collection::vec(any::<u8>(), 0..60),
            after in proptest::collection::vec(any::<u8>(), 0..9),
            header in 0_u8..24,
            serials in proptest::collection::vec(prop_oneof![0_u8..24, any::<u8>()], 0..12),
            wanted in proptest::collection::btree_set(0..12_usize, 0..6),
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
            let record = before.len()..before.len() + payload.len();
            let bytes = [before, payload, after].concat();
            finds(&bytes, record, &wanted.into_iter().collect::<Vec<_>>());
        }
    }
}
