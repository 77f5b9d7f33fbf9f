//! Blocks of a file mapped as words shared by processes.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::OpenFile;
use crate::shared::{SHARED_BLOCK, SharedBlock};

/// One block of a file, mapped as atomic words.
///
/// The file has the block's bytes at the time of mapping, and everyone who shares the file follows
/// SQLite's protocol: only a holder of the exclusive lock on byte 128 shortens the index of a log,
/// and the user of this block holds a lock on byte 128 against exclusive ones.
#[derive(Debug)]
pub(crate) struct MappedWords {
    /// The start of the mapping, aligned to the system's page.
    start: NonNull<u8>,
    len: usize,
    /// The block's place within the mapping.
    offset: usize,
    writable: bool,
    /// Keeps the descriptor and its locks.
    _file: Arc<OpenFile>,
}

impl MappedWords {
    /// Maps block `number`; the file must be long enough to have the block.
    pub(super) fn new(
        file: &Arc<OpenFile>,
        number: usize,
        writable: bool,
    ) -> io::Result<MappedWords> {
        let too_far = || io::Error::other("a block past the address space");
        let place = number.checked_mul(SHARED_BLOCK).ok_or_else(too_far)?;
        // SAFETY: `sysconf` reads a constant of the system.
        let os_page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let os_page = usize::try_from(os_page).ok().filter(|size| size.is_power_of_two());
        let os_page = os_page.ok_or_else(|| io::Error::other("the size of a page is not known"))?;
        let aligned = place & !(os_page - 1);
        let offset = place - aligned;
        let len = offset + SHARED_BLOCK;
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let at = libc::off_t::try_from(aligned).map_err(|_| too_far())?;
        // SAFETY: a new mapping at a place of the system's choice touches no memory of ours; the
        // descriptor is open, because `file` is borrowed.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                file.file.as_raw_fd(),
                at,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(MappedWords { start, len, offset, writable, _file: Arc::clone(file) })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is `offset + SHARED_BLOCK` bytes long and stays as long as `self`
        // lives; `start` is aligned to a page and `offset` a multiple of 32 KiB modulo a page, so
        // words are aligned. Others change the bytes meanwhile, as atomics allow; a read-only
        // mapping is never stored to (`SharedBlock::store` asks).
        unsafe {
            let first = self.start.as_ptr().add(self.offset).cast::<AtomicU32>();
            std::slice::from_raw_parts(first, SharedBlock::LEN)
        }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no slice of the range outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the words are atomics, safe to share by threads; any thread may drop the mapping.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}
