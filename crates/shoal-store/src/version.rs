//! Versions: states of a file, to tell whether anybody has committed since.

use shoal_format::{FileHeader, Pgno};

use crate::header::FileState;
use crate::image::Counts;
use crate::wal::{LogVersion, NO_LOG};
use crate::{Error, Mode, Store, Transaction};

/// A state of a database file, to compare with a later one.
///
/// Equal versions are the same state. For a file in write-ahead log mode without a log, or with an
/// empty log, two versions looked at one after the other are unequal: in between somebody may have
/// written a log, checkpointed and removed the log, without leaving a trace in the header.
#[derive(Clone, Debug)]
pub struct Version {
    /// The header's change counter grows with every commit made without a log.
    header: FileHeader,
    page_count: u32,
    log: Option<LogVersion>,
    /// A number for the state, unique within this process.
    state_id: u64,
    counts: Counts,
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        let same =
            (self.header, self.page_count, self.log) == (other.header, other.page_count, other.log);
        // Everyone who begins a log gives it a random salt.
        let told = self.log.is_none_or(|log| log != NO_LOG) || self.state_id == other.state_id;
        same && told
    }
}

impl Eq for Version {}

impl Transaction {
    /// The state read by this transaction; for a writer, with its own changes of the header.
    pub fn version(&self) -> Version {
        self.version_of(self.file)
    }

    /// The state at the beginning of this transaction, without its own changes.
    pub fn began_at(&self) -> Version {
        self.version_of(self.changes.as_ref().map_or(self.file, |changes| changes.original))
    }

    fn version_of(&self, file: FileState) -> Version {
        Version {
            header: file.header,
            page_count: file.page_count,
            log: self.snapshot.log_version(),
            state_id: self.state_id(),
            counts: self.snapshot.counts,
        }
    }

    /// The number of this transaction's first state, unique within one process. The next
    /// transaction has the same number, unless somebody committed or the store forgot its pages.
    /// Cost: a load.
    #[inline]
    pub fn state_id(&self) -> u64 {
        self.snapshot.image.id
    }

    /// The pages that commits changed from the state `before` to the one read here, some of them
    /// perhaps twice; `None` where nobody knows: the states are far apart, or another program
    /// committed without a write-ahead log. Own changes of this transaction are left out.
    pub fn changed_since(&self, before: &Version) -> Option<Vec<Pgno>> {
        self.snapshot.image.changed_since(before.state_id)
    }

    /// True when anybody has committed since this transaction began.
    ///
    /// With a rollback journal nobody can commit while this transaction reads: no system call. With
    /// a write-ahead log others can; cost: a look at the log's index, in shared memory.
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
    /// True when one commit led from `before` to this state, by the store of both versions.
    pub fn follows(&self, before: &Version) -> bool {
        self.counts.others == before.counts.others && self.counts.own == before.counts.own + 1
    }

    /// True when anybody but the store of both versions committed between `before` and this state.
    /// True as well after a write-ahead log was begun anew without a commit, and for a commit of
    /// another thread of this store, if seen before the thread was told.
    pub fn has_commits_of_others_since(&self, before: &Version) -> bool {
        self.counts.others != before.counts.others
    }
}

impl Store {
    /// The state of the file now.
    ///
    /// Cost: as [`Store::begin`], waiting for a writer included (`docs/tables.md`).
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn version(&self) -> Result<Version, Error> {
        Ok(self.begin(Mode::Read)?.version())
    }

    /// True when anybody has committed since the file was at `version`, this store included. True
    /// as well where [`Version`] cannot tell, and when a write-ahead log was removed without
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
