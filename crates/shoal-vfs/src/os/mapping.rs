//! Files mapped into memory, for reading.
//!
//! Mapping a file and touching its pages for the first time is dear, taking a lock is cheap. So the
//! pages mapped by the system (a [`Region`]) stay with the open file from one lock to the next, and
//! the bytes open to readers (a [`Mapping`]) live only under a lock. Between two locks others may
//! write and cut the file; the region then shows their bytes or ends early, and nobody looks. The
//! next mapping asks for the file's length before lending a byte.

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
/// While a mapping lives its handle keeps at least the shared lock, against every request to
/// release the lock, and refuses to write. So nobody who follows SQLite's locking protocol changes
/// the bytes or cuts the file, in this process or another; the slices rest on this fact.
#[derive(Clone)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the region mapped, and the lock.
    _hold: Arc<Hold>,
}

/// The parts shared by the clones of a mapping.
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
    /// The first `len` bytes of `region`, at most all of them. The caller holds the lock, has found
    /// the file to be at least `len` bytes long, and has counted the mapping in `file`; the count
    /// keeps the lock from then on.
    pub(super) fn new(file: Arc<OpenFile>, region: Arc<Region>, len: usize) -> Mapping {
        let len = len.min(region.len);
        Mapping { start: region.start, len, _hold: Arc::new(Hold { _region: region, file }) }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and at least `len` bytes belong to a region mapped as long as `self`
        // lives, or are a dangling pointer and 0. The file has these bytes and they do not change,
        // because the handle keeps the shared lock as long as `self` lives (see the type).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: the mapped bytes do not change, so threads may read them together, and any thread may
// drop a mapping.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Pages of a file mapped by the system. The bytes are out of reach except through a [`Mapping`].
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

    /// Length of the region in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the region was mapped by `new`, and every slice's mapping holds the region,
            // so no slice outlives this call. Unmapping a mapped range cannot fail.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

// SAFETY: a region is an address; its bytes are read through mappings only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}
