//! Sorted rows in a temporary file: the spill of a sort without room for all rows, and of groups,
//! distinct rows, joins and windows.
//!
//! A run is a list of rows in order, written once and read once. When a file has as many runs as
//! are merged at a time, they become one.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use shoal_store::vfs::File;

use crate::Error;
use crate::keep::sort::compare;
use crate::keep::{RowValues, SortKey};
use crate::session::Session;

/// Most runs merged at a time.
const FAN_IN: usize = 64;
/// Bytes read of a run at a time.
const READ_BYTES: usize = 32 << 10;
/// Bytes written at a time.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes in front of a row: its length, and the number ordering nearly as its first key.
const HEAD: usize = 16;

/// The runs of one sort, the oldest first.
pub(crate) struct Runs {
    file: Box<dyn File>,
    end: u64,
    runs: Vec<Range<u64>>,
}

impl Runs {
    /// No runs, in a temporary file of their own.
    ///
    /// # Errors
    /// When none can be made.
    pub(crate) fn new(session: &dyn Session) -> Result<Runs, Error> {
        Ok(Runs { file: session.temporary_file()?, end: 0, runs: Vec::new() })
    }

    /// Adds a run; its rows are given in order.
    ///
    /// # Errors
    /// When the file cannot be written; when the statement is to stop.
    pub(crate) fn add<'r>(
        &mut self,
        session: &dyn Session,
        keys: &[SortKey],
        rows: impl Iterator<Item = (u64, &'r [u8])>,
    ) -> Result<(), Error> {
        if self.runs.len() == FAN_IN {
            let mut merge = self.merge()?;
            let mut run = Writer::new(self.end);
            while let Some((prefix, row)) = merge.next(&*self.file, keys)? {
                run.push(&*self.file, prefix, row)?;
                session.check()?;
            }
            self.runs.clear();
            self.close(run)?;
        }
        let mut run = Writer::new(self.end);
        for (prefix, row) in rows {
            run.push(&*self.file, prefix, row)?;
        }
        session.check()?;
        self.close(run)
    }

    fn close(&mut self, mut run: Writer) -> Result<(), Error> {
        run.flush(&*self.file)?;
        self.runs.push(self.end..run.at);
        self.end = run.at;
        Ok(())
    }

    fn merge(&self) -> Result<Merge, Error> {
        let mut readers = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            readers.push(Reader::open(&*self.file, run.clone())?);
        }
        Ok(Merge { readers, current: None })
    }

    /// All rows of all runs, in order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn into_rows(self) -> Result<SpilledRows, Error> {
        Ok(SpilledRows { merge: self.merge()?, file: self.file })
    }
}

/// Rows coming back from the file, in order.
pub(crate) struct SpilledRows {
    file: Box<dyn File>,
    merge: Merge,
}

impl SpilledRows {
    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn next(&mut self, keys: &[SortKey]) -> Result<Option<RowValues<'_>>, Error> {
        let row = self.merge.next(&*self.file, keys)?;
        Ok(row.map(|(_, row)| RowValues::of(row)))
    }
}

/// Runs with rows taken while other runs are added.
pub(crate) struct OpenRuns {
    file: Box<dyn File>,
    end: u64,
    merge: Merge,
}

impl OpenRuns {
    /// No runs, in a temporary file of their own.
    ///
    /// # Errors
    /// When none can be made.
    pub(crate) fn new(session: &dyn Session) -> Result<OpenRuns, Error> {
        let merge = Merge { readers: Vec::new(), current: None };
        Ok(OpenRuns { file: session.temporary_file()?, end: 0, merge })
    }

    /// Adds a run; its rows are given in order.
    ///
    /// # Errors
    /// When the file cannot be read or written; when the statement is to stop.
    pub(crate) fn add<'r>(
        &mut self,
        session: &dyn Session,
        keys: &[SortKey],
        rows: impl Iterator<Item = &'r [u8]>,
    ) -> Result<(), Error> {
        let OpenRuns { file, merge, .. } = self;
        merge.current = None;
        merge.readers.retain(|reader| !reader.done);
        if merge.readers.len() == FAN_IN {
            let mut run = Writer::new(self.end);
            while let Some((prefix, row)) = merge.next(&**file, keys)? {
                run.push(&**file, prefix, row)?;
                session.check()?;
            }
            merge.readers.clear();
            self.close(run)?;
        }
        let mut run = Writer::new(self.end);
        for row in rows {
            run.push(&*self.file, 0, row)?;
        }
        session.check()?;
        self.close(run)
    }

    fn close(&mut self, mut run: Writer) -> Result<(), Error> {
        run.flush(&*self.file)?;
        self.merge.readers.push(Reader::open(&*self.file, self.end..run.at)?);
        self.end = run.at;
        Ok(())
    }

    /// The first row in order, of all rows not taken.
    pub(crate) fn first(&mut self, keys: &[SortKey]) -> Option<RowValues<'_>> {
        self.merge.first(keys);
        self.merge.row().map(|(_, row)| RowValues::of(row))
    }

    /// Takes the row last given by [`OpenRuns::first`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn take(&mut self) -> Result<(), Error> {
        self.merge.take(&*self.file)
    }
}

/// Several runs as one.
struct Merge {
    readers: Vec<Reader>,
    /// The run whose row was given last.
    current: Option<usize>,
}

impl Merge {
    /// Takes the next row.
    fn next(&mut self, file: &dyn File, keys: &[SortKey]) -> Result<Option<(u64, &[u8])>, Error> {
        self.take(file)?;
        self.first(keys);
        Ok(self.row())
    }

    /// Takes the row found to be the first.
    fn take(&mut self, file: &dyn File) -> Result<(), Error> {
        match self.current.take() {
            Some(current) => self.readers[current].step(file),
            None => Ok(()),
        }
    }

    /// Looks for the first row in order.
    fn first(&mut self, keys: &[SortKey]) {
        let mut first: Option<usize> = None;
        for (place, reader) in self.readers.iter().enumerate() {
            let Some(row) = reader.row() else { continue };
            // Of equal rows the one from the oldest run comes first.
            let before = match first.and_then(|first| self.readers[first].row()) {
                Some(known) => order(row, known, keys).is_lt(),
                None => true,
            };
            if before {
                first = Some(place);
            }
        }
        self.current = first;
    }

    fn row(&self) -> Option<(u64, &[u8])> {
        self.current.and_then(|place| self.readers[place].row())
    }
}

fn order(a: (u64, &[u8]), b: (u64, &[u8]), keys: &[SortKey]) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        let pairs = RowValues::of(a.1).zip(RowValues::of(b.1)).zip(keys);
        pairs
            .map(|((a, b), key)| compare(a, b, *key))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

/// Writes one run.
struct Writer {
    /// The offset of the next bytes.
    at: u64,
    buffer: Vec<u8>,
}

impl Writer {
    fn new(at: u64) -> Writer {
        Writer { at, buffer: Vec::new() }
    }

    fn push(&mut self, file: &dyn File, prefix: u64, row: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(&(row.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(&prefix.to_le_bytes());
        self.buffer.extend_from_slice(row);
        if self.buffer.len() >= WRITE_BYTES { self.flush(file) } else { Ok(()) }
    }

    fn flush(&mut self, file: &dyn File) -> Result<(), Error> {
        file.write_at(&self.buffer, self.at).map_err(shoal_store::Error::from)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads one run.
struct Reader {
    /// Bytes still in the file.
    rest: Range<u64>,
    buffer: Vec<u8>,
    /// The current row within the buffer, behind its head.
    row: Range<usize>,
    prefix: u64,
    done: bool,
}

impl Reader {
    fn open(file: &dyn File, rest: Range<u64>) -> Result<Reader, Error> {
        let mut reader = Reader { rest, buffer: Vec::new(), row: 0..0, prefix: 0, done: false };
        reader.step(file)?;
        Ok(reader)
    }

    fn row(&self) -> Option<(u64, &[u8])> {
        (!self.done).then(|| (self.prefix, &self.buffer[self.row.clone()]))
    }

    fn step(&mut self, file: &dyn File) -> Result<(), Error> {
        let start = self.row.end;
        if self.buffer.len() == start && self.rest.is_empty() {
            self.done = true;
            return Ok(());
        }
        let head = self.fill(file, start, HEAD)?;
        let word = |at: usize| {
            let bytes = self.buffer.get(head + at..head + at + 8);
            bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        self.prefix = word(8);
        let length = usize::try_from(word(0)).map_err(|_| cut_short())?;
        let head = self.fill(file, head, HEAD + length)?;
        self.row = head + HEAD..head + HEAD + length;
        Ok(())
    }

    /// Makes sure the buffer has `wanted` bytes from `start` on; gives the place they begin at.
    fn fill(&mut self, file: &dyn File, start: usize, wanted: usize) -> Result<usize, Error> {
        if self.buffer.len() - start >= wanted {
            return Ok(start);
        }
        self.buffer.drain(..start);
        let have = self.buffer.len();
        let more = (wanted - have).max(READ_BYTES) as u64;
        let more = more.min(self.rest.end - self.rest.start);
        let length = have + usize::try_from(more).map_err(|_| cut_short())?;
        self.buffer.resize(length, 0);
        let read = file.read_at(&mut self.buffer[have..], self.rest.start);
        if read.map_err(shoal_store::Error::from)? < length - have || length < wanted {
            return Err(cut_short());
        }
        self.rest.start += more;
        Ok(0)
    }
}

/// The file is shorter than the bytes written to it.
pub(crate) fn cut_short() -> Error {
    Error::runtime("a temporary file was cut short")
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRuns").field("end", &self.end).finish_non_exhaustive()
    }
}

impl fmt::Debug for SpilledRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpilledRows").finish_non_exhaustive()
    }
}
