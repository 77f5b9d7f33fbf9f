//! What the running of a statement may ask of its connection: time, randomness, counts of changes, the
//! budget of memory, temporary files.

mod control;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shoal_store::vfs::File;

use crate::Error;
pub(crate) use control::Control;
pub use control::{Interrupter, Limits};
pub(crate) use statement::{Counts, Environment, StatementSession};

/// What a function may ask of the connection that runs it.
pub(crate) trait Session: Sync {
    /// Rows changed by the last finished `INSERT`, `UPDATE` or `DELETE`.
    fn changes(&self) -> i64;
    /// Rows changed since the connection was opened.
    fn total_changes(&self) -> i64;
    /// The rowid of the last row inserted, 0 before there is one.
    fn last_insert_rowid(&self) -> i64;
    /// Fills a buffer with unpredictable bytes.
    fn random(&self, bytes: &mut [u8]);
    /// The time, in milliseconds since 1970-01-01 UTC; the same throughout one statement.
    fn now_unix_ms(&self) -> i64;
    /// How many seconds local time is ahead of UTC at a moment in seconds since 1970-01-01 UTC; `None`
    /// where there is no local time.
    fn local_offset_s(&self, _unix_s: i64) -> Option<i64> {
        None
    }

    /// Looked at every few rows by whoever loops.
    ///
    /// # Errors
    /// When the statement is to stop.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// What the rows that the statement keeps are counted against, where that is limited.
    fn budget(&self) -> Option<&Arc<Budget>> {
        None
    }

    /// A file that is gone when it is closed.
    ///
    /// # Errors
    /// When there can be none.
    fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        Err(Error::Misuse { what: "a temporary file was asked for where there are none" })
    }
}

/// How many bytes a statement may keep, and keeps.
#[derive(Debug)]
pub(crate) struct Budget {
    max: u64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Budget {
        Budget { max, used: AtomicU64::new(0) }
    }

    /// Whether so many more bytes may be kept and leave something for what grows besides.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.left() >= (bytes as u64).saturating_add(self.max / 4)
    }

    /// The most bytes that may be kept.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Counts more bytes; false when they are more than may be kept.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.max
    }

    /// Counts fewer bytes.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many more bytes there may be.
    pub(crate) fn left(&self) -> u64 {
        self.max.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}
