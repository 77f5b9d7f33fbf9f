//! Files, locks, time and entropy as values: the operating system, memory, and a simulator with
//! failures and crashes on demand.
//!
//! The only crate to open files or ask for the time. Knows bytes, paths and the five lock levels of
//! SQLite's protocol, and nothing about pages.

mod chance;
mod error;
#[cfg(not(unix))]
mod locked;
mod locks;
mod mem;
#[cfg(unix)]
mod os;
mod shared;
mod sim;
mod whole;

use std::path::{Path, PathBuf};

pub use chance::{Clock, Entropy, FixedClock, OsClock, OsEntropy, SeededEntropy};
pub use error::VfsError;
#[cfg(not(unix))]
pub use locked::{Locked, is_memory_lock_refused};
pub use mem::MemVfs;
#[cfg(unix)]
pub use os::{Locked, Mapping, OsVfs, is_memory_lock_refused};
pub use shared::{SHARED_BLOCK, SharedBlock};
pub use sim::{Event, Fault, FaultKind, Image, SimVfs};
pub use whole::{read_file, replace_file};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode<'a> {
    /// The file must exist; writes fail.
    ReadOnly,
    /// The file must exist.
    ReadWrite,
    /// A missing file is created, empty.
    Create,
    /// As [`OpenMode::Create`], with the permissions of another file: a journal repeats pages of
    /// its database and must not be easier to read.
    CreateLike(&'a Path),
}

/// A place where files are.
pub trait Vfs: Send + Sync {
    /// Opens `path`.
    ///
    /// # Errors
    /// [`VfsError`] by cause: not there, a directory, no permission, anything else.
    fn open(&self, path: &Path, mode: OpenMode<'_>) -> Result<Box<dyn File>, VfsError>;

    /// Opens an empty file without a name, gone when closed. In memory unless the implementation
    /// says otherwise.
    ///
    /// # Errors
    /// As [`Vfs::open`].
    fn open_temporary(&self) -> Result<Box<dyn File>, VfsError> {
        MemVfs::new().open(Path::new("temporary"), OpenMode::Create)
    }

    /// Deletes `path`; durably when `sync_dir`.
    ///
    /// # Errors
    /// [`VfsError::NotFound`] for a missing file; otherwise as the system says.
    fn delete(&self, path: &Path, sync_dir: bool) -> Result<(), VfsError>;

    /// Returns the size of `path` in bytes, or `None` when there is no such file.
    ///
    /// # Errors
    /// When the system cannot say.
    fn size(&self, path: &Path) -> Result<Option<u64>, VfsError>;

    /// Returns the path of an existing file without symbolic links.
    ///
    /// # Errors
    /// When the system cannot say.
    fn real_path(&self, path: &Path) -> Result<PathBuf, VfsError> {
        Ok(path.to_path_buf())
    }

    /// Makes the entries of the folder `path` durable: the creation and deletion of files inside.
    ///
    /// # Errors
    /// When the system cannot.
    fn sync_dir(&self, path: &Path) -> Result<(), VfsError>;
}

/// An open file.
///
/// All methods take `&self`; offsets are explicit, so handles can be shared between threads.
pub trait File: Send + Sync {
    /// Reads at `offset` until `bytes` is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// When the system reports one.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError>;

    /// Writes all of `bytes` at `offset`. After an error any part of them may be written.
    ///
    /// # Errors
    /// [`VfsError::NoSpace`] or another.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError>;

    /// Cuts or extends the file to `len` bytes.
    ///
    /// # Errors
    /// When the system reports one.
    fn truncate(&self, len: u64) -> Result<(), VfsError>;

    /// Returns once everything written is durable.
    ///
    /// # Errors
    /// When the system reports one; bytes written may then be lost although reads still see them.
    fn sync(&self) -> Result<(), VfsError>;

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// When the system reports one.
    fn size(&self) -> Result<u64, VfsError>;

    /// Raises this handle's lock to `level` and returns true, or returns false at once when another
    /// handle or process is in the way. A failed [`LockLevel::Exclusive`] leaves
    /// [`LockLevel::Pending`], keeping new readers out.
    ///
    /// Steps are SQLite's: none to shared; shared to reserved; shared, reserved or pending to
    /// exclusive. A level already held is granted.
    ///
    /// # Errors
    /// When the system reports one other than "in the way".
    fn lock(&self, level: LockLevel) -> Result<bool, VfsError>;

    /// Lowers this handle's lock to [`LockLevel::Shared`] or [`LockLevel::None`].
    ///
    /// # Errors
    /// When the system reports one.
    fn unlock(&self, level: LockLevel) -> Result<(), VfsError>;

    /// Returns true when any other handle or process holds [`LockLevel::Reserved`] or more.
    ///
    /// # Errors
    /// When the system reports one.
    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError>;

    /// Maps the first `len` bytes for reading. `None` where files cannot be mapped, where this one
    /// has fewer bytes, and unless this handle holds exactly [`LockLevel::Shared`].
    ///
    /// As long as the mapping or one of its clones lives, this handle keeps its shared lock even
    /// when asked to release the lock, and refuses to write or to change the file's size. Mapping
    /// again is cheap, also after the lock was released: one look at the file's size.
    ///
    /// # Errors
    /// When the system reports one.
    fn map(&self, _len: u64) -> Result<Option<Mapping>, VfsError> {
        Ok(None)
    }

    /// True while `path` names this very file: neither deleted nor replaced since.
    ///
    /// # Errors
    /// When the system cannot say.
    fn is_at(&self, _path: &Path) -> Result<bool, VfsError> {
        Ok(true)
    }

    /// Sets this handle's lock on `len` bytes from `start`, apart from the lock levels; false when
    /// another handle or process is in the way, `None` where files have no such locks.
    ///
    /// # Errors
    /// When the system reports one other than "in the way".
    fn lock_bytes(
        &self,
        _start: u64,
        _len: u64,
        _lock: ByteLock,
    ) -> Result<Option<bool>, VfsError> {
        Ok(None)
    }

    /// Block `number`, of [`SHARED_BLOCK`] bytes, as words shared by everyone who opens the file.
    /// Words may be stored unless the file was opened for reading. `None` for a block past the end
    /// of the file without `grow`, and where files cannot be shared as words.
    ///
    /// Nobody may shorten the file as long as a block lives: the caller guarantees so by locks.
    ///
    /// # Errors
    /// When the system reports one.
    fn share(&self, _number: usize, _grow: bool) -> Result<Option<SharedBlock>, VfsError> {
        Ok(None)
    }

    /// True when another handle or process holds any lock on the byte `place`.
    ///
    /// # Errors
    /// When the system reports one.
    fn is_locked_elsewhere(&self, _place: u64) -> Result<bool, VfsError> {
        Ok(false)
    }
}

/// A lock on a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteLock {
    /// Not locked.
    None,
    /// Others may hold shared locks as well.
    Shared,
    /// Nobody else has any.
    Exclusive,
}

/// Bytes of a file, mapped; there are none on this system.
#[cfg(not(unix))]
#[derive(Clone, Debug)]
pub enum Mapping {}

#[cfg(not(unix))]
impl std::ops::Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match *self {}
    }
}

/// How far a handle has locked its file (SQLite's file locking protocol).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockLevel {
    /// Not at all.
    #[default]
    None,
    /// Reads; others may read as well.
    Shared,
    /// Means to write; others may still read.
    Reserved,
    /// Waits for the readers to leave; no new ones come in.
    Pending,
    /// Writes; alone.
    Exclusive,
}
