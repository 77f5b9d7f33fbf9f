//! Temporary files behind a codec: bytes at any place, in pages with room for the codec.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_format::Pgno;
use shoal_vfs::{File, LockLevel, VfsError};

use super::PageCodec;

/// Bytes of a stored page.
const PAGE: usize = 4096;

/// A file whose content is stored page by page in its coded form. Page 1 is left out: part of it
/// would be visible.
pub(crate) struct CodedFile {
    file: Box<dyn File>,
    codec: Arc<dyn PageCodec>,
    /// Bytes of content, and the lock of whoever reads or writes.
    len: Mutex<u64>,
}

impl CodedFile {
    pub(crate) fn new(file: Box<dyn File>, codec: Arc<dyn PageCodec>) -> CodedFile {
        CodedFile { file, codec, len: Mutex::new(0) }
    }

    fn len(&self) -> MutexGuard<'_, u64> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of content in a page.
    fn room(&self) -> usize {
        PAGE - usize::from(self.codec.reserved())
    }

    /// Reads page `number`, counted from 0, of a content of `len` bytes; zeroes behind its end.
    fn read_page(&self, number: u64, len: u64, page: &mut [u8; PAGE]) -> Result<(), VfsError> {
        page.fill(0);
        if number * self.room() as u64 >= len {
            return Ok(());
        }
        self.file.read_at(page, number * PAGE as u64)?;
        self.codec.decode(pgno(number)?, page).map_err(|refused| error("read", &refused.why))
    }

    /// Calls `work` for the part of each page between `offset` and `end`: the page's number, where
    /// the part begins there, where in the whole, and how long it is.
    fn parts(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let room = self.room() as u64;
        let mut at = offset;
        std::iter::from_fn(move || {
            let (number, within) = (at / room, at % room);
            let length = (room - within).min(end.checked_sub(at).filter(|left| *left > 0)?);
            let part = (number, small(within), small(at - offset), small(length));
            at += length;
            Some(part)
        })
    }
}

/// A number below the length of a buffer.
fn small(number: u64) -> usize {
    usize::try_from(number).expect("places in a buffer fit in memory")
}

fn pgno(number: u64) -> Result<Pgno, VfsError> {
    let number = u32::try_from(number + 2).ok().and_then(Pgno::new);
    number.ok_or_else(|| error("write", "the file has too many pages"))
}

fn error(operation: &'static str, why: &str) -> VfsError {
    let source = std::io::Error::other(why.to_owned());
    VfsError::from_io(operation, std::path::Path::new("(temporary file)"), source)
}

impl File for CodedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        let len = self.len();
        let end = len.min(offset.saturating_add(bytes.len() as u64));
        let mut page = [0; PAGE];
        for (number, within, at, length) in self.parts(offset, end) {
            self.read_page(number, *len, &mut page)?;
            bytes[at..at + length].copy_from_slice(&page[within..within + length]);
        }
        Ok(small(end.saturating_sub(offset)))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        let mut len = self.len();
        let mut page = [0; PAGE];
        let from = offset.min(*len);
        let gap = small(offset - from);
        for (number, within, at, length) in self.parts(from, offset + bytes.len() as u64) {
            self.read_page(number, *len, &mut page)?;
            for place in 0..length {
                page[within + place] = match (at + place).checked_sub(gap) {
                    Some(place) => bytes[place],
                    None => 0,
                };
            }
            self.codec
                .encode(pgno(number)?, &mut page)
                .map_err(|refused| error("write", &refused.why))?;
            self.file.write_at(&page, number * PAGE as u64)?;
            *len = (*len).max(from + (at + length) as u64);
        }
        Ok(())
    }

    fn truncate(&self, new: u64) -> Result<(), VfsError> {
        let before = *self.len();
        if new > before {
            return self.write_at(&[], new);
        }
        let mut len = self.len();
        self.file.truncate(new.div_ceil(self.room() as u64) * PAGE as u64)?;
        *len = new;
        Ok(())
    }

    fn sync(&self) -> Result<(), VfsError> {
        self.file.sync()
    }

    fn size(&self) -> Result<u64, VfsError> {
        Ok(*self.len())
    }

    fn lock(&self, level: LockLevel) -> Result<bool, VfsError> {
        self.file.lock(level)
    }

    fn unlock(&self, level: LockLevel) -> Result<(), VfsError> {
        self.file.unlock(level)
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        self.file.is_reserved_elsewhere()
    }
}
