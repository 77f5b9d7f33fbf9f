//! Open descriptors, and the parking of those whose closing would harm others.
//!
//! When a process closes any descriptor of a file, the system drops all POSIX record locks the
//! process holds on the file, silently. Locks of this crate are not of that kind on Linux, but
//! those of a SQLite in the same process are: its writer would lose the file in the middle of a
//! commit. So a descriptor of a file that anybody has locked is kept open, without locks, and
//! serves the next to open the same file. Parked descriptors are closed once nobody has the file
//! locked.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::record_lock::{self, Kind, Range};

/// An open descriptor; on drop closed, or parked.
#[derive(Debug)]
pub(super) struct Handle {
    /// `None` in the middle of a drop.
    file: Option<fs::File>,
    writable: bool,
}

/// A descriptor nobody uses.
#[derive(Debug)]
struct Parked {
    file: fs::File,
    writable: bool,
    device: u64,
    inode: u64,
}

static PARKED: Mutex<Vec<Parked>> = Mutex::new(Vec::new());

fn parked() -> MutexGuard<'static, Vec<Parked>> {
    PARKED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    pub(super) fn new(file: fs::File, writable: bool) -> Handle {
        Handle { file: Some(file), writable }
    }

    /// A parked descriptor of the file `found`, open for as much.
    pub(super) fn unpark(found: &fs::Metadata, writable: bool) -> Option<Handle> {
        let mut parked = parked();
        let place = parked.iter().position(|other| {
            (other.device, other.inode, other.writable) == (found.dev(), found.ino(), writable)
        })?;
        Some(Handle::new(parked.swap_remove(place).file, writable))
    }
}

impl Deref for Handle {
    type Target = fs::File;

    fn deref(&self) -> &fs::File {
        self.file.as_ref().expect("a handle has its file until it is dropped")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if !is_locked_by_others(&file) {
            return;
        }
        let Ok(found) = file.metadata() else { return };
        if found.nlink() == 0 || record_lock::set(&file, Kind::Unlock, Range::ALL).is_err() {
            return;
        }
        let mut parked = parked();
        parked.retain(|other| {
            let is_named = other.file.metadata().is_ok_and(|found| found.nlink() > 0);
            is_named && is_locked_by_others(&other.file)
        });
        let (device, inode) = (found.dev(), found.ino());
        parked.push(Parked { file, writable: self.writable, device, inode });
    }
}

/// True when anybody but this descriptor holds a lock on the file, or nobody can say. Closing is
/// harmless then only where locks belong to descriptors.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_locked_by_others(file: &fs::File) -> bool {
    record_lock::is_locked_elsewhere(file, Range::ALL).unwrap_or(true)
}

/// Where locks belong to the process the system does not tell of the process's own.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_locked_by_others(_file: &fs::File) -> bool {
    true
}
