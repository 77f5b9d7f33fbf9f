//! Record locks on SQLite's bytes (`fcntl`).
//!
//! Linux has open-file-description locks; elsewhere the POSIX ones of the process serve.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// The operation on a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Unlock,
}

/// A range of bytes: `len` bytes from `start` on, or all bytes from `start` on for a `len` of 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    start: libc::off_t,
    len: libc::off_t,
}

impl Range {
    /// `len` bytes from `start`.
    pub(super) fn new(start: u64, len: u64) -> Range {
        let offset = |value: u64| libc::off_t::try_from(value).unwrap_or(libc::off_t::MAX);
        Range { start: offset(start), len: offset(len) }
    }

    /// Held by a writer who waits for readers; a gate for new ones.
    pub(super) const PENDING: Range = Range { start: 0x4000_0000, len: 1 };
    /// Held by the one who means to write.
    pub(super) const RESERVED: Range = Range { start: 0x4000_0001, len: 1 };
    /// Both of these.
    pub(super) const PENDING_AND_RESERVED: Range = Range { start: 0x4000_0000, len: 2 };
    /// Read-locked by readers, write-locked by a writer.
    pub(super) const SHARED: Range = Range { start: 0x4000_0002, len: 510 };
    /// The whole file.
    pub(super) const ALL: Range = Range { start: 0, len: 0 };
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const COMMANDS: (libc::c_int, libc::c_int) = (libc::F_OFD_SETLK, libc::F_OFD_GETLK);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const COMMANDS: (libc::c_int, libc::c_int) = (libc::F_SETLK, libc::F_GETLK);

/// Takes or drops a lock without waiting; false when another holder is in the way.
pub(super) fn set(file: &fs::File, kind: Kind, range: Range) -> io::Result<bool> {
    let mut lock = request(kind, range);
    loop {
        match call(file, COMMANDS.0, &mut lock) {
            Ok(()) => return Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EACCES | libc::EAGAIN) => return Ok(false),
                _ => return Err(error),
            },
        }
    }
}

/// True when another holder has a lock in the range.
pub(super) fn is_locked_elsewhere(file: &fs::File, range: Range) -> io::Result<bool> {
    let mut lock = request(Kind::Write, range);
    call(file, COMMANDS.1, &mut lock)?;
    Ok(i32::from(lock.l_type) != i32::from(lock_type(Kind::Unlock)))
}

fn lock_type(kind: Kind) -> libc::c_short {
    // The constants' type differs between systems; their values are 0 to 3 on all of them.
    #[allow(clippy::unnecessary_cast)]
    match kind {
        Kind::Read => libc::F_RDLCK as libc::c_short,
        Kind::Write => libc::F_WRLCK as libc::c_short,
        Kind::Unlock => libc::F_UNLCK as libc::c_short,
    }
}

fn request(kind: Kind, range: Range) -> libc::flock {
    // SAFETY: `flock` is a C struct of integers, for which all zeroes is a value;
    // open-file-description locks require an `l_pid` of 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = lock_type(kind);
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.start;
    lock.l_len = range.len;
    lock
}

fn call(file: &fs::File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open, because `file` is borrowed; `command` is one of `COMMANDS`,
    // all of which read and write one `flock`, and `lock` is a valid one for the time of the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
