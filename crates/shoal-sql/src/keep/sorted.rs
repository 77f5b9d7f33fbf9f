//! Rows in a file, in the order of their keys: the build side of a hash join without room in
//! memory.
//!
//! The rows lie in blocks. The place and the first key of each block are in memory: a key is found
//! by a binary search and one read.

use std::fmt;

use shoal_store::vfs::File;

use crate::Error;
use crate::keep::sort::Sorter;
use crate::keep::spill::cut_short;
use crate::keep::{RowStore, RowValues, SortPlan};
use crate::session::Session;
use crate::value::{Value, ValueRef, assign};

/// A block ends with the row reaching this many bytes.
const BLOCK_BYTES: usize = 8 << 10;

/// The bytes of a row's length.
const HEAD: usize = size_of::<u64>();

/// Rows by key. The first value of each is its key, a blob.
pub(crate) struct SortedRows {
    file: Box<dyn File>,
    blocks: Vec<Block>,
    end: u64,
    /// The number of the block in the buffer.
    loaded: Option<usize>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Block {
    start: u64,
    first_key: Box<[u8]>,
}

/// A row's position: its block and the offset within.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SortedPlace {
    block: usize,
    offset: usize,
}

impl SortedRows {
    /// Writes a sorter's rows, in the order of their first values.
    ///
    /// # Errors
    /// When the file cannot be written; when the statement is to stop.
    pub(crate) fn write(
        session: &dyn Session,
        sorter: &mut Sorter,
        sort: &SortPlan,
    ) -> Result<SortedRows, Error> {
        let file = session.temporary_file()?;
        let (mut blocks, mut buffer, mut end) = (Vec::new(), Vec::new(), 0_u64);
        let mut encoded = RowStore::default();
        while let Some(row) = sorter.next_row(sort)? {
            encoded.clear();
            encoded.push(row);
            let row = encoded.row_bytes(0);
            if buffer.is_empty() {
                blocks.push(Block { start: end, first_key: key_of(row).into() });
            }
            buffer.extend_from_slice(&(row.len() as u64).to_le_bytes());
            buffer.extend_from_slice(row);
            if buffer.len() >= BLOCK_BYTES {
                session.check()?;
                file.write_at(&buffer, end).map_err(shoal_store::Error::from)?;
                end += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write_at(&buffer, end).map_err(shoal_store::Error::from)?;
        end += buffer.len() as u64;
        buffer.clear();
        Ok(SortedRows { file, blocks, end, loaded: None, buffer })
    }

    /// The place of the first row with a key not before `key`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<SortedPlace, Error> {
        // Rows with the key may begin in the block before the first block beginning with the key.
        let behind = self.blocks.partition_point(|block| *block.first_key < *key);
        let mut place = SortedPlace { block: behind.saturating_sub(1), offset: 0 };
        while let Some((row, next)) = self.row(place)? {
            if key_of(row) >= key {
                break;
            }
            place = next;
        }
        Ok(place)
    }

    /// The values of the row at a place, and the place behind, if the row has the key `key`; `None`
    /// accepts any key.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn values(
        &mut self,
        place: SortedPlace,
        key: Option<&[u8]>,
    ) -> Result<Option<(RowValues<'_>, SortedPlace)>, Error> {
        let Some((row, next)) = self.row(place)? else { return Ok(None) };
        if key.is_some_and(|key| key_of(row) != key) {
            return Ok(None);
        }
        let mut values = RowValues::of(row);
        values.next();
        Ok(Some((values, next)))
    }

    /// Calls `each` with the key of every row.
    ///
    /// # Errors
    /// Errors of `each`; when the file cannot be read.
    pub(crate) fn for_each_key(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut place = SortedPlace::default();
        while let Some((row, next)) = self.row(place)? {
            each(key_of(row))?;
            place = next;
        }
        Ok(())
    }

    /// Bytes of memory for the directory.
    pub(crate) fn byte_len(&self) -> usize {
        self.blocks.iter().map(|block| size_of::<Block>() + block.first_key.len()).sum()
    }

    /// The bytes of the row at a place, and the place behind; `None` at the end.
    fn row(&mut self, place: SortedPlace) -> Result<Option<(&[u8], SortedPlace)>, Error> {
        let SortedPlace { mut block, mut offset } = place;
        loop {
            if block >= self.blocks.len() {
                return Ok(None);
            }
            self.load(block)?;
            if offset < self.buffer.len() {
                break;
            }
            (block, offset) = (block + 1, 0);
        }
        let rest = &self.buffer[offset..];
        let (head, rest) = rest.split_first_chunk::<HEAD>().ok_or_else(cut_short)?;
        let length = usize::try_from(u64::from_le_bytes(*head)).map_err(|_| cut_short())?;
        let row = rest.get(..length).ok_or_else(cut_short)?;
        Ok(Some((row, SortedPlace { block, offset: offset + HEAD + length })))
    }

    fn load(&mut self, block: usize) -> Result<(), Error> {
        if self.loaded == Some(block) {
            return Ok(());
        }
        self.loaded = None;
        let start = self.blocks[block].start;
        let end = self.blocks.get(block + 1).map_or(self.end, |next| next.start);
        let length = usize::try_from(end - start).map_err(|_| cut_short())?;
        self.buffer.clear();
        self.buffer.resize(length, 0);
        let read = self.file.read_at(&mut self.buffer, start).map_err(shoal_store::Error::from)?;
        if read < length {
            return Err(cut_short());
        }
        self.loaded = Some(block);
        Ok(())
    }
}

/// The first value of a row.
fn key_of(row: &[u8]) -> &[u8] {
    match RowValues::of(row).next() {
        Some(ValueRef::Blob(key)) => key,
        _ => &[],
    }
}

/// Registers from the values of a row.
pub(crate) fn load_values(values: RowValues<'_>, registers: &mut [Value], targets: &[usize]) {
    for (value, &target) in values.zip(targets) {
        assign(&mut registers[target], value);
    }
}

impl fmt::Debug for SortedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRows").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}
