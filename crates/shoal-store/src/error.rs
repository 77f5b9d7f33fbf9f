//! Errors of the store, by who can cause them.

use std::path::{Path, PathBuf};

use shoal_format::{Corrupt, Pgno};
use shoal_vfs::VfsError;

use crate::Fault;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file's bytes break a rule of the format.
    #[error("database is corrupt: {0}")]
    Corrupt(#[from] Corrupt),
    /// The file is something else.
    #[error("is not a database: {}", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The machine could not read, write or lock.
    #[error(transparent)]
    Vfs(#[from] VfsError),
    /// Another transaction, here or in another process, is in the way.
    #[error("database is locked: {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The store was opened to read, or the file may only be read.
    #[error("database is read-only: {}", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// A transaction of a crashed program must be undone first, and the store was opened to read.
    #[error("a crashed transaction must be undone first, but the database is read-only: {}", path.display())]
    HotJournal {
        /// The file.
        path: PathBuf,
    },
    /// The file uses a part of the format not supported by this version.
    #[error("{what} is not supported yet: {}", path.display())]
    Unsupported {
        /// The part, in SQLite's words.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file's codec refuses a page.
    #[error("page {pgno} {why}: {}", path.display())]
    Refused {
        /// The page.
        pgno: Pgno,
        /// The kind of fault.
        fault: Fault,
        /// The codec's reason.
        why: String,
        /// The file.
        path: PathBuf,
    },
    /// A sealed file's key is missing or wrong, or its keys are damaged.
    #[error("{why}")]
    Locked {
        /// The kind of fault.
        fault: Fault,
        /// The fault, with the file's name.
        why: String,
    },
    /// A new file was to be made in the place of one with content.
    #[error("already exists, and is not empty: {}", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A write or fsync failed earlier, so the state of the disk is unknown; reopen to
    /// commit again.
    #[error("an earlier write failed, reopen the database: {}", path.display())]
    Latched {
        /// The file.
        path: PathBuf,
    },
    /// The commit's last step failed: the commit may have been made or not, whole either way.
    #[error("commit is in doubt, {source}: {}", path.display())]
    InDoubt {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        source: Box<Error>,
    },
    /// The transaction's [`Watch`](crate::Watch) was stopped.
    #[error("interrupted")]
    Interrupted,
    /// The time limit of the transaction's [`Watch`](crate::Watch) has passed.
    #[error("time limit passed, ms: {limit_ms}")]
    TimedOut {
        /// The time, in milliseconds.
        limit_ms: u64,
    },
    /// Something would be larger than the format allows.
    #[error("{what} is over the limit: {max}")]
    Limit {
        /// The thing limited, in plain words.
        what: &'static str,
        /// The most there can be.
        max: u64,
    },
    /// A file name that is a URI asks for what there is not, in SQLite's words.
    #[error("{why}")]
    Uri {
        /// The fault.
        why: String,
    },
    /// The caller broke a rule of this crate.
    #[error("misuse of the store: {0}")]
    Misuse(&'static str),
}

impl Error {
    pub(crate) fn busy(path: &Path) -> Error {
        Error::Busy { path: path.to_path_buf() }
    }

    /// True when the same call may succeed later without anything being repaired.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Busy { .. })
    }
}
