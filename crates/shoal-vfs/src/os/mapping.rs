//! Files mapped into memory, for reading.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::OpenFile;

/// The first bytes of a file, mapped for reading.
///
/// While it lives its handle keeps at least the shared lock, whatever is asked of the handle, and
/// refuses to write. So nobody who follows SQLite's locking protocol changes the bytes or cuts the
/// file, in this process or another; that is the fact the slices rest on.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    file: Arc<OpenFile>,
}

impl Mapping {
    /// Maps the first `len` bytes, which the file has. The caller has counted the mapping in
    /// `file`, which keeps the lock from then on; that ends with the mapping, also with one that
    /// fails.
    pub(super) fn new(file: Arc<OpenFile>, len: usize) -> io::Result<Mapping> {
        let mut mapping = Mapping { start: NonNull::dangling(), len: 0, file };
        if len == 0 {
            return Ok(mapping);
        }
        // SAFETY: a new mapping at a place of the system's choice touches no memory of ours; the
        // descriptor is open, because the handle is held.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                mapping.file.file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        mapping.start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        mapping.len = len;
        Ok(mapping)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `len` are those of a mapping that lives as long as `self`, or a
        // dangling pointer and 0. The file has these bytes and they do not change, because the
        // handle keeps the shared lock as long as `self` lives (see the type).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping was made by `new` and no slice of it outlives `self`. It cannot
            // fail for a range that is mapped.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
        self.file.unmapped();
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: the mapped bytes do not change, so threads may read them together, and a mapping may be
// removed by another thread than the one that made it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
