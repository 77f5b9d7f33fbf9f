//! A window's partition too large for memory: its rows are in a file, and so are the results.
//! Window frames go through the rows from the first to the last, each end at its own pace, so few
//! of them are in memory at a time.

use std::ops::Range;

use super::frame::{Frame, Reader, WindowRows};
use crate::Error;
use crate::keep::SortKey;
use crate::keep::numbered::{NumberedReader, NumberedRows};
use crate::keep::sort::compare;
use crate::keep::spill::cut_short;
use crate::plan::WindowPass;
use crate::session::Session;
use crate::value::{Value, ValueRef};

/// Most candidates kept for the extreme of a window frame.
const CANDIDATES_MAX: usize = 1024;

/// A partition's rows, each behind the number of its group of peers.
#[derive(Debug)]
pub(super) struct LargePartition {
    rows: NumberedRows,
    /// A reader for each [`Reader`].
    readers: [NumberedReader; 4],
    /// Start of each group of peers, and the partition's end.
    starts: NumberedRows,
    starts_reader: NumberedReader,
    /// The results of each call.
    results: Vec<NumberedRows>,
    result_readers: Vec<NumberedReader>,
    /// The order's values of the last row, for recognising peers.
    last: Vec<Value>,
    /// The places reached by the starts and the ends of window frames by distance.
    reached: [usize; 2],
    /// A row with its results.
    row: Vec<Value>,
}

/// A view of the partition for a window's functions.
pub(super) struct Looked<'p> {
    pub(super) partition: &'p mut LargePartition,
    pub(super) pass: &'p WindowPass,
    /// Place of the window's keys within a row.
    pub(super) keys: usize,
}

impl LargePartition {
    /// # Errors
    /// When no temporary files can be made.
    pub(super) fn new(session: &dyn Session, pass: &WindowPass) -> Result<LargePartition, Error> {
        let mut results = Vec::with_capacity(pass.calls.len());
        for _ in &pass.calls {
            results.push(NumberedRows::new(session)?);
        }
        Ok(LargePartition {
            rows: NumberedRows::new(session)?,
            readers: Default::default(),
            starts: NumberedRows::new(session)?,
            starts_reader: NumberedReader::default(),
            result_readers: results.iter().map(|_| NumberedReader::default()).collect(),
            results,
            last: Vec::new(),
            reached: [0, 0],
            row: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Takes a row; peers come one after the other.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(super) fn push(&mut self, row: &[Value], keys: &[SortKey]) -> Result<(), Error> {
        let peer = self.last.len() == keys.len()
            && self.rows.len() > 0
            && self
                .last
                .iter()
                .zip(keys)
                .all(|(last, key)| compare(last.as_ref(), row[key.reg].as_ref(), *key).is_eq());
        if !peer {
            self.starts.push(std::iter::once(number(self.rows.len())))?;
            self.last.clear();
            self.last.extend(keys.iter().map(|key| row[key.reg].clone()));
        }
        let group = number(self.starts.len() - 1);
        self.rows.push(std::iter::once(group).chain(row.iter().map(Value::as_ref)))
    }

    /// Ends the taking of rows, and computes the functions of their window.
    ///
    /// # Errors
    /// Errors of functions; when the files cannot be read or written.
    pub(super) fn compute(
        &mut self,
        pass: &WindowPass,
        keys: usize,
        frame: &Frame<'_>,
    ) -> Result<(), Error> {
        self.starts.push(std::iter::once(number(self.rows.len())))?;
        self.starts.finish()?;
        self.rows.finish()?;
        frame.compute(&mut Looked { partition: self, pass, keys })?;
        self.results.iter_mut().try_for_each(NumberedRows::finish)
    }

    /// A row, followed by its results.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub(super) fn row(&mut self, place: usize) -> Result<&[Value], Error> {
        let LargePartition { rows, readers, results, result_readers, row, .. } = self;
        row.clear();
        let whole = rows.row(&mut readers[Reader::Current as usize], place)?;
        row.extend_from_slice(whole.get(1..).unwrap_or_default());
        for (results, reader) in results.iter().zip(result_readers) {
            row.extend_from_slice(results.row(reader, place)?);
        }
        Ok(row)
    }
}

fn number(of: usize) -> ValueRef<'static> {
    ValueRef::Int(i64::try_from(of).unwrap_or(i64::MAX))
}

fn place_of(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Int(place)) => usize::try_from(*place).unwrap_or(0),
        _ => 0,
    }
}

impl Looked<'_> {
    /// The values of a row from one on, counted from its window's first key.
    fn values(&mut self, place: usize, from: usize, by: Reader) -> Result<&[Value], Error> {
        let LargePartition { rows, readers, .. } = &mut *self.partition;
        let row = rows.row(&mut readers[by as usize], place)?;
        Ok(row.get(1 + self.keys + from..).unwrap_or_default())
    }

    /// The start and the number of a call's arguments.
    fn arguments_of(&self, call: usize) -> (usize, usize) {
        let before = self.pass.calls[..call].iter();
        let before = before.map(|call| call.arguments.len() + usize::from(call.filter.is_some()));
        (self.pass.keys.len() + before.sum::<usize>(), self.pass.calls[call].arguments.len())
    }
}

impl WindowRows for Looked<'_> {
    fn len(&self) -> usize {
        self.partition.len()
    }

    fn arguments(&mut self, call: usize, place: usize, by: Reader) -> Result<&[Value], Error> {
        let (first, count) = self.arguments_of(call);
        let values = self.values(place, first, by)?;
        values.get(..count).ok_or_else(cut_short)
    }

    fn lets_in(&mut self, call: usize, place: usize, by: Reader) -> Result<bool, Error> {
        if self.pass.calls[call].filter.is_none() {
            return Ok(true);
        }
        let (first, count) = self.arguments_of(call);
        let flag = self.values(place, first + count, by)?.first();
        Ok(flag == Some(&Value::Int(1)))
    }

    fn key(&mut self, place: usize) -> Result<&Value, Error> {
        let values = self.values(place, self.pass.partition_count, Reader::Current)?;
        values.first().ok_or_else(cut_short)
    }

    fn first_key(
        &mut self,
        place: usize,
        end: bool,
        is_before: impl Fn(&Value) -> bool,
    ) -> Result<usize, Error> {
        let by = if end { Reader::Enter } else { Reader::Leave };
        let mut at = match place {
            0 => 0,
            _ => self.partition.reached[usize::from(end)],
        };
        while at < self.len() {
            let key = self.values(at, self.pass.partition_count, by)?.first();
            if !key.is_some_and(&is_before) {
                break;
            }
            at += 1;
        }
        self.partition.reached[usize::from(end)] = at;
        Ok(at)
    }

    fn group(&mut self, place: usize) -> Result<usize, Error> {
        let LargePartition { rows, readers, .. } = &mut *self.partition;
        Ok(place_of(rows.row(&mut readers[Reader::Current as usize], place)?.first()))
    }

    fn group_count(&mut self) -> usize {
        self.partition.starts.len() - 1
    }

    fn start_of(&mut self, group: usize) -> Result<usize, Error> {
        let LargePartition { starts, starts_reader, .. } = &mut *self.partition;
        Ok(place_of(starts.row(starts_reader, group)?.first()))
    }

    fn range(&mut self, frame: &Frame<'_>, place: usize) -> Result<Range<usize>, Error> {
        frame.range(place, self)
    }

    fn candidates_max(&self) -> usize {
        CANDIDATES_MAX
    }

    fn give(&mut self, call: usize, _: usize, result: Value) -> Result<(), Error> {
        self.partition.results[call].push(std::iter::once(result.as_ref()))
    }
}
