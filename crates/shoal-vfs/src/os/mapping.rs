//! Files mapped into memory, for reading.
//!
//! Mapping a file and touching its pages for the first time is dear, taking a lock is cheap. So what
//! the system mapped (a [`Region`]) stays with the open file from one lock to the next, and what may
//! be looked at (a [`Mapping`]) lives only under a lock. Between two locks others may write and cut
//! the file; the region then shows them or ends in nothing, and nobody looks. The next mapping asks
//! how long the file is before it lends a byte.

#![allow(unsafe_code)]

use std::fmt;
use std::fs;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::OpenFile;

/// The first bytes of a file, mapped for reading. Clones are the same mapping.
///
/// While one lives its handle keeps at least the shared lock, whatever is asked of the handle, and
/// refuses to write. So nobody who follows SQLite's locking protocol changes the bytes or cuts the
/// file, in this process or another; that is the fact the slices rest on.
#[derive(Clone)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the region mapped, and the lock.
    _hold: Arc<Hold>,
}

/// What the clones of a mapping share.
struct Hold {
    _region: Arc<Region>,
    file: Arc<OpenFile>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.file.unmapped();
    }
}

impl Mapping {
    /// The first `len` bytes of `region`, which is as long at least. The caller has found the file
    /// to have them, under the lock, and has counted the mapping in `file`, which keeps the lock
    /// from then on.
    pub(super) fn new(file: Arc<OpenFile>, region: Arc<Region>, len: usize) -> Mapping {
        let len = len.min(region.len);
        Mapping { start: region.start, len, _hold: Arc::new(Hold { _region: region, file }) }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and at least `len` bytes are those of a region that stays mapped as long
        // as `self` lives, or a dangling pointer and 0. The file has these bytes and they do not
        // change, because the handle keeps the shared lock as long as `self` lives (see the type).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: the mapped bytes do not change, so threads may read them together, and a mapping may be
// dropped by another thread than the one that made it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What the system has mapped of a file. Its bytes are out of reach but through a [`Mapping`].
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    len: usize,
}

impl Region {
    /// Maps the first `len` bytes of `file`.
    pub(super) fn new(file: &fs::File, len: usize) -> io::Result<Region> {
        if len == 0 {
            return Ok(Region { start: NonNull::dangling(), len });
        }
        // SAFETY: a new mapping at a place of the system's choice touches no memory of ours; the
        // descriptor is open, because the file is borrowed.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Region { start, len })
    }

    /// Bytes that are mapped.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the region was mapped by `new`, and no slice of it outlives the mappings,
            // which hold it. It cannot fail for a range that is mapped.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

// SAFETY: a region is an address; its bytes are read through mappings only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}
