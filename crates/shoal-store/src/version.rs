//! Whether anybody has committed since.

use shoal_format::FileHeader;

use crate::header::FileState;
use crate::wal::{LogVersion, NO_LOG};
use crate::{Error, Mode, Store, Transaction};

/// A state of a database file, to ask later whether it is still the same.
///
/// Equal ones are the same state. Of a file in write-ahead log mode without a log, or with one that
/// nothing was ever written to, two that were looked at one after the other are not: in between
/// somebody may have written a log, put it into the database and removed it, which need not leave a
/// trace in the header.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its change counter grows with every commit that goes without a log.
    header: FileHeader,
    page_count: u32,
    log: Option<LogVersion>,
    /// What stands for the state within this process.
    state_id: u64,
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        let same =
            (self.header, self.page_count, self.log) == (other.header, other.page_count, other.log);
        // Whoever begins a log gives it a salt by chance.
        let told = self.log.is_none_or(|log| log != NO_LOG) || self.state_id == other.state_id;
        same && told
    }
}

impl Eq for Version {}

impl Transaction {
    /// The state that this transaction reads: of one that writes, with its own changes of the
    /// header.
    pub fn version(&self) -> Version {
        self.version_of(self.file)
    }

    /// The state that this transaction began at, whatever it has changed since.
    pub fn began_at(&self) -> Version {
        self.version_of(self.changes.as_ref().map_or(self.file, |changes| changes.original))
    }

    fn version_of(&self, file: FileState) -> Version {
        Version {
            header: file.header,
            page_count: file.page_count,
            log: self.snapshot.log_version(),
            state_id: self.state_id(),
        }
    }

    /// A number that stands for the state that this transaction began at: within one process no
    /// other state has the same. The next transaction has it, too, unless somebody committed or the
    /// store forgot its pages. Cost: a load.
    #[inline]
    pub fn state_id(&self) -> u64 {
        self.snapshot.image.id
    }

    /// Whether anybody has committed since this transaction began.
    ///
    /// With a rollback journal nobody can as long as it reads: no system call. With a write-ahead
    /// log others can; cost: a look at the log's index, which is shared memory.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn is_stale(&self) -> Result<bool, Error> {
        match &self.snapshot.log {
            None => Ok(false),
            Some(log) => log.is_past(&self.store),
        }
    }
}

impl Version {
    /// Whether one commit without a log led from `before` to this state.
    pub fn follows(&self, before: &Version) -> bool {
        let next = before.header.change_counter.wrapping_add(1);
        self.log.is_none() && before.log.is_none() && self.header.change_counter == next
    }
}

impl Store {
    /// The state of the file now.
    ///
    /// Cost: that of beginning a transaction, waiting for a writer included (`docs/tables.md`).
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn version(&self) -> Result<Version, Error> {
        Ok(self.begin(Mode::Read)?.version())
    }

    /// Whether anybody has committed since the file was at `version`, this store included. True as
    /// well where [`Version`] cannot tell, and when a write-ahead log came to its end without
    /// another commit.
    ///
    /// Cost: as [`Store::version`].
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn is_stale(&self, version: &Version) -> Result<bool, Error> {
        Ok(self.version()? != *version)
    }
}
