//! Rows read from the first to the last, in memory and, under a limit of memory, in a file.

use std::fmt;
use std::ops::ControlFlow;

use shoal_store::vfs::File;

use crate::Error;
use crate::keep::spill::cut_short;
use crate::keep::{Kept, RowStore, RowValues, is_full};
use crate::session::Session;
use crate::value::ValueRef;

/// Bytes read of the file at a time, unless a row is longer.
const READ_BYTES: usize = 32 << 10;
/// The bytes of a row's length.
const HEAD: usize = size_of::<u64>();

/// Rows in the order of arrival: the rows in the file, then the rows in memory.
#[derive(Default)]
pub(crate) struct RowList {
    memory: RowStore,
    kept: Kept,
    file: Option<Box<dyn File>>,
    end: u64,
    buffer: Vec<u8>,
}

impl RowList {
    /// Adds a row.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn push<'v>(
        &mut self,
        session: &dyn Session,
        row: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<(), Error> {
        let before = self.memory.byte_len();
        self.memory.push(row);
        let size = self.memory.byte_len() - before;
        self.kept.note(session, size);
        if is_full(session, before, 0) { self.spill(session) } else { Ok(()) }
    }

    #[cold]
    fn spill(&mut self, session: &dyn Session) -> Result<(), Error> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(session.temporary_file()?),
        };
        self.buffer.clear();
        for place in 0..self.memory.len() {
            let row = self.memory.row_bytes(place);
            self.buffer.extend_from_slice(&(row.len() as u64).to_le_bytes());
            self.buffer.extend_from_slice(row);
            if self.buffer.len() >= READ_BYTES || place + 1 == self.memory.len() {
                file.write_at(&self.buffer, self.end).map_err(shoal_store::Error::from)?;
                self.end += self.buffer.len() as u64;
                self.buffer.clear();
            }
        }
        self.memory = RowStore::default();
        self.kept.clear();
        session.check()
    }

    /// Calls `each` with one row after the other until `each` breaks off.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn for_each(
        &mut self,
        mut each: impl FnMut(RowValues<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if let Some(file) = &self.file {
            // The buffer holds rows from `at` on; the file goes on behind its first `read` bytes.
            let (mut at, mut read) = (0, 0_u64);
            self.buffer.clear();
            while at < self.buffer.len() || read < self.end {
                let rest = &self.buffer[at..];
                let length = match rest.first_chunk::<HEAD>() {
                    Some(head) => {
                        usize::try_from(u64::from_le_bytes(*head)).map_err(|_| cut_short())?
                    }
                    None => 0,
                };
                let wanted = HEAD.saturating_add(length);
                if rest.len() >= wanted {
                    if each(RowValues::of(&rest[HEAD..wanted])).is_break() {
                        return Ok(());
                    }
                    at += wanted;
                    continue;
                }
                let more = (wanted - rest.len()).max(READ_BYTES) as u64;
                let more = more.min(self.end - read);
                if more == 0 {
                    return Err(cut_short());
                }
                self.buffer.drain(..at);
                at = 0;
                let have = self.buffer.len();
                let length = usize::try_from(more).map_err(|_| cut_short())?;
                self.buffer.resize(have + length, 0);
                let got = file.read_at(&mut self.buffer[have..], read);
                if got.map_err(shoal_store::Error::from)? < length {
                    return Err(cut_short());
                }
                read += more;
            }
        }
        for place in 0..self.memory.len() {
            if each(self.memory.row(place)).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowList").field("end", &self.end).finish_non_exhaustive()
    }
}
