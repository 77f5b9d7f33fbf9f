//! Changing how a file is committed to: from a rollback journal to a write-ahead log and back.

use std::path::Path;
use std::sync::Arc;

use shoal_vfs::{LockLevel, VfsError};

use crate::changes::Changes;
use crate::header::FileState;
use crate::image::{Image, Snapshot};
use crate::settings::Rollback;
use crate::{Error, Mode, Store, Transaction};

/// How a file is committed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// By a rollback journal.
    Rollback(Rollback),
    /// By a write-ahead log, as stated in the file's header.
    Wal,
}

impl Store {
    /// How the file is committed to.
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn journal_mode(&self) -> Result<JournalMode, Error> {
        let settings = self.settings();
        Ok(match self.begin(Mode::Read)?.header().is_wal() {
            true => JournalMode::Wal,
            false if self.is_in_memory() => JournalMode::Rollback(match settings.rollback {
                Rollback::Off => Rollback::Off,
                _ => Rollback::Memory,
            }),
            false => JournalMode::Rollback(settings.rollback),
        })
    }

    /// Changes how the file is committed to, and returns the mode in effect: a database in memory
    /// has no log, and keeps its journal in memory.
    ///
    /// Changing to or from the log changes the file, and nobody else may use the file meanwhile.
    ///
    /// # Errors
    /// [`Error::Busy`] when others use the file, or transactions of this store are open; as
    /// [`Transaction::upgrade`] and [`Transaction::commit`].
    pub fn set_journal_mode(&self, mode: JournalMode) -> Result<JournalMode, Error> {
        let mut is_wal = false;
        {
            let txn = self.begin(Mode::Read)?;
            if txn.page_count() == 0 {
                // The first commit makes the file as asked for.
                let mut settings = self.settings();
                settings.new_file.wal = false;
                self.set_settings(settings);
            } else {
                is_wal = txn.header().is_wal();
            }
        }
        match mode {
            JournalMode::Wal if is_wal || self.is_in_memory() => {}
            JournalMode::Wal => {
                let mut txn = self.begin(Mode::Write)?;
                txn.set_versions(2)?;
                txn.commit()?;
                self.remove_journal()?;
            }
            JournalMode::Rollback(rollback) => {
                if is_wal {
                    self.inner.retry(|| self.leave_log())?;
                }
                let mut settings = self.settings();
                let before = std::mem::replace(&mut settings.rollback, rollback);
                self.set_settings(settings);
                let stays = |mode| matches!(mode, Rollback::Truncate | Rollback::Persist);
                if stays(before) && !stays(rollback) {
                    self.remove_journal()?;
                }
            }
        }
        self.journal_mode()
    }

    fn is_in_memory(&self) -> bool {
        self.path() == Path::new(":memory:")
    }

    /// Checkpoints and removes the log, and notes the rollback journal in the file's header.
    fn leave_log(&self) -> Result<(), Error> {
        let inner = &self.inner;
        if self.is_read_only() {
            return Err(Error::ReadOnly { path: inner.path.clone() });
        }
        let mut state = inner.state();
        if state.latched {
            return Err(Error::Latched { path: inner.path.clone() });
        }
        if state.transactions > 0 || !state.wal.close(inner)? {
            return Err(Error::busy(&inner.path));
        }
        state.forget();
        let file = FileState::read(inner, None);
        if file.is_err() {
            inner.file.unlock(LockLevel::None)?;
        }
        let file = file?;
        (state.transactions, state.writer) = (1, true);
        drop(state);
        let mut txn = Transaction::new(Arc::clone(inner), file, Snapshot::of(Image::read(&file)));
        txn.changes = Some(Box::new(Changes::new(file)));
        txn.set_versions(1)?;
        txn.commit().map(drop)
    }

    /// Removes an unneeded journal, left behind by the modes not deleting their journal.
    fn remove_journal(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let path = inner.journal_path();
        if self.is_read_only() || inner.vfs.size(&path)?.is_none() {
            return Ok(());
        }
        // Nobody else begins a journal meanwhile.
        let txn = self.begin(Mode::Write)?;
        match inner.vfs.delete(&path, false) {
            Ok(()) | Err(VfsError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        drop(txn);
        Ok(())
    }
}
