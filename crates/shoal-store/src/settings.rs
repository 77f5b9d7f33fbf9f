//! Settings of an open store, open to change as long as the store is.

use std::time::Duration;

use shoal_format::{FileHeader, TextEncoding};

/// When a commit waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synchronous {
    /// Never: a crash of the machine may lose commits and harm the file.
    Off,
    /// With a write-ahead log: only when the log is put into the database, so a crash of the
    /// machine may lose the last commits and harms nothing. With a rollback journal as
    /// [`Synchronous::Full`].
    Normal,
    /// At each commit: a commit reported as done survives any crash.
    #[default]
    Full,
    /// As [`Synchronous::Full`], which makes the names of files durable here; in SQLite only
    /// `EXTRA` does.
    Extra,
}

/// The fate of a rollback journal at the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollback {
    /// The journal is deleted.
    #[default]
    Delete,
    /// The journal is cut to nothing.
    Truncate,
    /// Its header is overwritten.
    Persist,
    /// There is none on the disk: a crash during a commit leaves the file half written.
    Memory,
    /// There is no journal: a failed write leaves the file half written, too.
    Off,
}

/// Settings open to change as long as a store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a commit waits for the disk.
    pub synchronous: Synchronous,
    /// The fate of a rollback journal.
    pub rollback: Rollback,
    /// A log of so many frames is put into the database after a commit; 0 for never.
    pub wal_autocheckpoint: u32,
    /// How long to try again when another connection is in the way.
    pub busy_timeout: Duration,
    /// The pages of a file without any yet.
    pub new_file: NewFile,
}

/// The pages of a file without any yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Bytes of a page, a power of two from 512 to 65,536; 4,096 unless somebody asked for others.
    pub page_size: Option<u32>,
    /// Unused bytes at the end of each page.
    pub reserved: u8,
    /// The encoding of texts.
    pub text_encoding: TextEncoding,
    /// Free pages at commits; none asked for is [`AutoVacuum::None`] in a new file, and what the
    /// file has in `VACUUM`.
    pub auto_vacuum: Option<AutoVacuum>,
    /// The file gets a write-ahead log with its first commit. A database in memory gets none.
    pub wal: bool,
}

/// The fate of free pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoVacuum {
    /// Free pages stay in the file, to be used again.
    #[default]
    None,
    /// Each commit cuts the file by its free pages.
    Full,
    /// Free pages stay until [`Transaction::incremental_vacuum`](crate::Transaction).
    Incremental,
}

impl AutoVacuum {
    /// A file's by its header.
    pub fn of(header: &FileHeader) -> AutoVacuum {
        match (header.is_auto_vacuum(), header.incremental_vacuum) {
            (false, _) => AutoVacuum::None,
            (true, 0) => AutoVacuum::Full,
            (true, _) => AutoVacuum::Incremental,
        }
    }
}

impl Settings {
    /// SQLite's: full, deleting journals, checkpoints at 1,000 frames.
    pub(crate) fn new(busy_timeout: Duration) -> Settings {
        Settings {
            synchronous: Synchronous::default(),
            rollback: Rollback::default(),
            wal_autocheckpoint: 1000,
            busy_timeout,
            new_file: NewFile {
                page_size: None,
                reserved: 0,
                text_encoding: TextEncoding::Utf8,
                auto_vacuum: None,
                wal: false,
            },
        }
    }
}
