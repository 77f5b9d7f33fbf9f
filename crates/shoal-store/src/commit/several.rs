//! A commit of several files at once, by SQLite's super-journal.
//!
//! 1. A file beside the first database lists the paths of all journals; it and its name are made
//!    durable.
//! 2. Each journal is written as in a commit of one file, with the super-journal's path at its end.
//! 3. With the readers of all files gone, the pages go into all databases, made durable one by one.
//! 4. The super-journal is deleted, durably: the commit point. A journal without its super-journal
//!    undoes nothing.
//! 5. The journals are ended. None of them keeps its content: a later, shorter journal would get
//!    the name at its end.
//!
//! A crash before step 4 leaves journals and super-journal: every file is undone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_vfs::{File, OpenMode};

use super::Commit;
use crate::header::{FileState, folder_of};
use crate::image::{Image, Snapshot};
use crate::page::PageRef;
use crate::recovery::bytes_of;
use crate::settings::{Rollback, Synchronous};
use crate::store::Inner;
use crate::{Error, Transaction};

/// One file's part of the transaction.
struct Part {
    store: Arc<Inner>,
    original: FileState,
    file: FileState,
    pages: Vec<PageRef>,
    stored: Vec<Arc<[u8]>>,
    /// Given up before the file is written: a mapping would be in the way.
    snapshot: Option<Snapshot>,
    /// Keeps the locks until the end.
    _transaction: Transaction,
}

impl Transaction {
    /// Commits transactions of several stores. Those of files with a rollback journal on the disk
    /// are one: after any crash all of these files have the changes, or none has. Each file with a
    /// write-ahead log, and each database without a file or a journal on the disk, is committed
    /// by itself, after them.
    ///
    /// # Errors
    /// As [`Transaction::commit`]. After an error in the commit of the files with rollback
    /// journals nothing was committed anywhere, unless the error is [`Error::InDoubt`]; after an
    /// error in a later one the ones before it were.
    pub fn commit_all(transactions: Vec<Transaction>) -> Result<(), Error> {
        let (spanning, alone): (Vec<_>, Vec<_>) =
            transactions.into_iter().partition(Transaction::has_journal);
        match spanning.len() {
            0 | 1 => spanning.into_iter().try_for_each(|txn| txn.commit().map(drop))?,
            _ => commit_spanning(spanning)?,
        }
        alone.into_iter().try_for_each(|txn| txn.commit().map(drop))
    }

    /// True with changes to be committed by a rollback journal on the disk.
    fn has_journal(&self) -> bool {
        let on_disk = !matches!(self.store.rollback_in_effect(), Rollback::Memory | Rollback::Off);
        let has_file = self.store.path != Path::new(":memory:");
        let changes = self.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        on_disk && has_file && changes && self.snapshot.log.is_none()
    }
}

fn commit_spanning(transactions: Vec<Transaction>) -> Result<(), Error> {
    let mut parts = Vec::with_capacity(transactions.len());
    for mut transaction in transactions {
        if transaction.changes_mut()?.has_failed() {
            return Err(Error::Misuse("a transaction was committed after a change in it failed"));
        }
        transaction.auto_vacuum()?;
        transaction.seal_header()?;
        let changes = transaction.changes_mut()?;
        let (pages, original) = (changes.pages(), changes.original);
        let stored = transaction.stored_pages(&pages, &original)?;
        let nothing = Snapshot::of(Image::read(&FileState::empty()));
        parts.push(Part {
            store: Arc::clone(&transaction.store),
            original,
            file: transaction.file,
            pages,
            stored,
            snapshot: Some(std::mem::replace(&mut transaction.snapshot, nothing)),
            _transaction: transaction,
        });
    }
    let mut snapshots: Vec<Option<Snapshot>> =
        parts.iter_mut().map(|part| part.snapshot.take()).collect();
    let first = &parts[0].store;
    let name = unused_name(first)?;
    let syncs = |part: &Part| part.store.settings().synchronous > Synchronous::Off;
    let list = SuperJournal { store: first, syncs: parts.iter().any(syncs), name: &name };
    let commits: Vec<Commit<'_>> = parts
        .iter()
        .map(|part| Commit {
            store: &part.store,
            journal_path: part.store.journal_path(),
            original: part.original,
            file: part.file,
            pages: &part.pages,
            stored: &part.stored,
            rollback: part.store.rollback_in_effect(),
            syncs: syncs(part),
            super_journal: Some(&name),
        })
        .collect();
    let journals = match prepare(&list, &commits, &snapshots) {
        Ok(journals) => journals,
        Err(error) => {
            let error = commits.iter().fold(error, |error, commit| commit.abandon(error));
            let _ = list.delete();
            return Err(error);
        }
    };
    let images: Vec<Option<Arc<Image>>> = commits
        .iter()
        .zip(&mut snapshots)
        .map(|(commit, snapshot)| commit.only_reader(snapshot.take().expect(SNAPSHOT)))
        .collect();
    if let Err(error) = commits.iter().try_for_each(Commit::write_database) {
        return Err(undo_all(&list, &commits, &journals, error));
    }
    let deleted = list.delete();
    if let Err(error) = deleted {
        if matches!(first.vfs.size(&name), Ok(Some(_))) {
            return Err(undo_all(&list, &commits, &journals, error));
        }
        // Gone, but perhaps not for good: were it to come back, every journal would have to be
        // there. Whoever opens a file next ends its journal.
        for (commit, image) in commits.iter().zip(images) {
            commit.committed(image);
            commit.store.state().latched = true;
        }
        return Err(commits[0].doubt(error));
    }
    for ((commit, journal), image) in commits.iter().zip(journals).zip(images) {
        if commit.end_spanning(journal).is_err() {
            // The journal undoes nothing, but must not be written over in part: its end names the
            // super-journal. Whoever opens the file next deletes it.
            commit.store.state().latched = true;
        }
        commit.committed(image);
    }
    Ok(())
}

const SNAPSHOT: &str = "a part of a commit has its snapshot until its file is written";

/// Steps 1 and 2, and the locks of step 3. After an error nothing was written to a database.
fn prepare(
    list: &SuperJournal<'_>,
    commits: &[Commit<'_>],
    snapshots: &[Option<Snapshot>],
) -> Result<Vec<Box<dyn File>>, Error> {
    list.write(commits)?;
    let mut journals = Vec::with_capacity(commits.len());
    for (commit, snapshot) in commits.iter().zip(snapshots) {
        journals.push(commit.write_journal(snapshot.as_ref().expect(SNAPSHOT))?);
    }
    commits.iter().try_for_each(Commit::take_exclusive)?;
    Ok(journals)
}

/// After a failure while the databases were written: puts the old pages back into all of them. As
/// long as that fails for one, its journal and the super-journal stay.
fn undo_all(
    list: &SuperJournal<'_>,
    commits: &[Commit<'_>],
    journals: &[Box<dyn File>],
    error: Error,
) -> Error {
    let mut error = error;
    let mut undone = true;
    for (commit, journal) in commits.iter().zip(journals) {
        error = commit.undo(&**journal, error);
        undone &= matches!(commit.store.vfs.size(&commit.journal_path), Ok(None));
    }
    if undone {
        let _ = list.delete();
    }
    error
}

impl Commit<'_> {
    /// Step 5.
    fn end_spanning(&self, journal: Box<dyn File>) -> Result<(), Error> {
        match self.rollback {
            Rollback::Truncate | Rollback::Persist => Ok(journal.truncate(0)?),
            _ => {
                drop(journal);
                Ok(self.store.vfs.delete(&self.journal_path, false)?)
            }
        }
    }
}

struct SuperJournal<'a> {
    store: &'a Inner,
    name: &'a Path,
    syncs: bool,
}

impl SuperJournal<'_> {
    fn write(&self, commits: &[Commit<'_>]) -> Result<(), Error> {
        let mut bytes = Vec::new();
        for commit in commits {
            bytes.extend_from_slice(bytes_of(&commit.journal_path));
            bytes.push(0);
        }
        let file = self.store.vfs.open(self.name, OpenMode::CreateLike(&self.store.real_path))?;
        file.write_at(&bytes, 0)?;
        if self.syncs {
            file.sync()?;
            self.store.vfs.sync_dir(folder_of(self.name))?;
        }
        Ok(())
    }

    fn delete(&self) -> Result<(), Error> {
        Ok(self.store.vfs.delete(self.name, self.syncs)?)
    }
}

/// A name as SQLite makes it: beside the database, with random digits.
fn unused_name(store: &Inner) -> Result<PathBuf, Error> {
    loop {
        let mut random = [0; 4];
        store.options.entropy.fill(&mut random);
        let number = u32::from_be_bytes(random);
        let mut name = store.real_path.as_os_str().to_os_string();
        name.push(format!("-mj{:06X}9{:02X}", number >> 8, number & 0xff));
        let name = PathBuf::from(name);
        if store.vfs.size(&name)?.is_none() {
            return Ok(name);
        }
    }
}
