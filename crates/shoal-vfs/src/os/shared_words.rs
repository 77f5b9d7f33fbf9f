//! Blocks of a file mapped as words that processes share.

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
/// The file has the block's bytes when it is mapped, and whoever shares it follows SQLite's protocol:
/// the index of a log is shortened only by one who holds byte 128 exclusively, which nobody can as
/// long as the user of this block holds its lock on the byte.
#[derive(Debug)]
pub(crate) struct MappedWords {
    /// What was mapped; a multiple of the system's page.
    start: NonNull<u8>,
    len: usize,
    /// The block's place within that.
    offset: usize,
    writable: bool,
    /// Keeps the descriptor and its locks.
    _file: Arc<OpenFile>,
}

impl MappedWords {
    /// Maps block `number` of a file that has it.
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
        // lives; `start` is aligned to a page and `offset` a multiple of 32 KiB modulo one, so words
        // are aligned. Others change the bytes meanwhile, as atomics allow; a mapping that may not be
        // written is never stored to (`SharedBlock::store` asks).
        unsafe {
            let first = self.start.as_ptr().add(self.offset).cast::<AtomicU32>();
            std::slice::from_raw_parts(first, SharedBlock::LEN)
        }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the words are atomics, which threads may share; the mapping may be dropped by any thread.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}
