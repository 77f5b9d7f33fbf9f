//! Rows in a temporary file, found by their numbers.
//!
//! The rows lie in blocks. The place and the first row's number of each block are in memory: a row
//! is found by a binary search and one read.

use std::fmt;

use shoal_store::vfs::File;

use crate::Error;
use crate::keep::spill::cut_short;
use crate::keep::{RowStore, RowValues};
use crate::session::Session;
use crate::value::{Value, ValueRef, assign};

/// A block ends with the row reaching this many bytes.
const BLOCK_BYTES: usize = 16 << 10;

/// The bytes of a row's length.
const HEAD: usize = size_of::<u64>();

/// Rows, written one after the other and then read.
pub(crate) struct NumberedRows {
    file: Box<dyn File>,
    blocks: Vec<Block>,
    count: usize,
    end: u64,
    /// The last rows, not yet in the file.
    buffer: Vec<u8>,
    row: RowStore,
}

#[derive(Debug)]
struct Block {
    start: u64,
    first: usize,
}

/// A reader's position, best moving from the first row to the last.
#[derive(Debug, Default)]
pub(crate) struct NumberedReader {
    block: Option<usize>,
    bytes: Vec<u8>,
    /// Start and number of the row behind the current one.
    next_at: usize,
    next: usize,
    row: Vec<Value>,
}

impl NumberedRows {
    /// No rows, in a temporary file of their own.
    ///
    /// # Errors
    /// When none can be made.
    pub(crate) fn new(session: &dyn Session) -> Result<NumberedRows, Error> {
        Ok(NumberedRows {
            file: session.temporary_file()?,
            blocks: Vec::new(),
            count: 0,
            end: 0,
            buffer: Vec::new(),
            row: RowStore::default(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn push<'v>(
        &mut self,
        row: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<(), Error> {
        if self.buffer.is_empty() {
            self.blocks.push(Block { start: self.end, first: self.count });
        }
        self.row.clear();
        self.row.push(row);
        let bytes = self.row.row_bytes(0);
        self.buffer.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(bytes);
        self.count += 1;
        if self.buffer.len() >= BLOCK_BYTES { self.finish() } else { Ok(()) }
    }

    /// Ends the adding of rows.
    ///
    /// # Errors
    /// As [`NumberedRows::push`].
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.file.write_at(&self.buffer, self.end).map_err(shoal_store::Error::from)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The row of a number.
    ///
    /// # Errors
    /// When the file cannot be read, or has no such row.
    pub(crate) fn row<'r>(
        &self,
        reader: &'r mut NumberedReader,
        number: usize,
    ) -> Result<&'r [Value], Error> {
        if reader.block.is_some() && reader.next == number + 1 {
            return Ok(&reader.row);
        }
        let block = self.blocks.partition_point(|block| block.first <= number);
        let block = block.checked_sub(1).ok_or_else(cut_short)?;
        if reader.block != Some(block) {
            self.load(block, reader)?;
        } else if number < reader.next {
            (reader.next, reader.next_at) = (self.blocks[block].first, 0);
        }
        loop {
            let rest = reader.bytes.get(reader.next_at..).ok_or_else(cut_short)?;
            let (head, rest) = rest.split_first_chunk::<HEAD>().ok_or_else(cut_short)?;
            let length = usize::try_from(u64::from_le_bytes(*head)).map_err(|_| cut_short())?;
            let bytes = rest.get(..length).ok_or_else(cut_short)?;
            reader.next_at += HEAD + length;
            reader.next += 1;
            if reader.next <= number {
                continue;
            }
            let mut width = 0;
            for value in RowValues::of(bytes) {
                match reader.row.get_mut(width) {
                    Some(known) => assign(known, value),
                    None => reader.row.push(value.into()),
                }
                width += 1;
            }
            reader.row.truncate(width);
            return Ok(&reader.row);
        }
    }

    fn load(&self, block: usize, reader: &mut NumberedReader) -> Result<(), Error> {
        reader.block = None;
        let start = self.blocks[block].start;
        let end = self.blocks.get(block + 1).map_or(self.end, |next| next.start);
        reader.bytes.clear();
        reader.bytes.resize(usize::try_from(end - start).map_err(|_| cut_short())?, 0);
        let read = self.file.read_at(&mut reader.bytes, start);
        if read.map_err(shoal_store::Error::from)? < reader.bytes.len() {
            return Err(cut_short());
        }
        (reader.next, reader.next_at) = (self.blocks[block].first, 0);
        reader.block = Some(block);
        Ok(())
    }
}

impl fmt::Debug for NumberedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumberedRows").field("count", &self.count).finish_non_exhaustive()
    }
}
