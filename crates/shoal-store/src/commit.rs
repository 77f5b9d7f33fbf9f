//! Commit: SQLite's rollback-journal protocol, in its order (file format §3, atomic commit), or to
//! the write-ahead log where there is one.
//!
//! With a journal:
//!
//! 1. The journal gets a header without magic and the pages as they are on disk; both the journal
//!    and its name are made durable. A crash up to here leaves a journal nobody takes for one.
//! 2. Its header gets magic and count and is made durable. A crash from here on is undone.
//! 3. With readers gone, the pages go into the database, and the database is made durable.
//! 4. The journal is deleted, durably: the commit point. SQLite itself makes the deletion durable
//!    only when `synchronous` is `EXTRA`; here, being told means being durable. Other modes cut the
//!    journal to nothing, overwrite its header, or keep it in memory.

mod several;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_format::Pgno;
use shoal_format::journal::{
    JournalHeader, JournalHeaderEdit, MAGIC, push_record, push_super_name,
};
use shoal_format::wal_index::IndexHeader;
use shoal_vfs::{File, LockLevel, MemVfs, OpenMode, Vfs, VfsError};

use crate::header::{FileState, folder_of};
use crate::image::{Image, Snapshot};
use crate::page::PageRef;
use crate::recovery::bytes_of;
use crate::settings::{Rollback, Synchronous};
use crate::store::Inner;
use crate::wal::{Append, CheckpointMode, Log};
use crate::{Error, Transaction, recovery};

/// Bytes a journal header is padded to. SQLite uses 512 too where a write cannot damage
/// neighbouring bytes, and assumes such writes on every system of today.
const SECTOR: usize = 512;

/// Bytes of journal records gathered before a write.
const BATCH_BYTES: usize = 1 << 20;

/// Counts the commits of one store; a larger one is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitSeq(pub u64);

impl Transaction {
    /// Makes the changes durable and ends the transaction. After `Ok` the changes survive any
    /// crash; a transaction without changes has nothing to wait for.
    ///
    /// # Errors
    /// [`Error::Busy`] when others still read after the busy timeout, [`Error::Vfs`] when a write
    /// or fsync fails: nothing of the transaction remains then, and after the latter the store
    /// takes no more commits ([`Error::Latched`]). After [`Error::InDoubt`] all of the changes are
    /// there or none, now or after a crash.
    pub fn commit(mut self) -> Result<CommitSeq, Error> {
        match &self.changes {
            Some(changes) if changes.has_failed() => {
                return Err(Error::Misuse(
                    "a transaction was committed after a change in it failed",
                ));
            }
            Some(changes) if !changes.is_empty() => {}
            _ => return Ok(CommitSeq(self.store.state().commits)),
        }
        self.auto_vacuum()?;
        if self.snapshot.log.is_some() {
            return self.commit_to_log();
        }
        self.seal_header()?;
        let changes = self.changes_mut()?;
        let (pages, original) = (changes.pages(), changes.original);
        let store = Arc::clone(&self.store);
        let settings = store.settings();
        let stored = self.stored_pages(&pages, &original)?;
        let commit = Commit {
            store: &store,
            journal_path: store.journal_path(),
            original,
            file: self.file,
            pages: &pages,
            stored: &stored,
            rollback: store.rollback_in_effect(),
            syncs: settings.synchronous > Synchronous::Off,
            super_journal: None,
        };
        let journal = commit.write_journal(&self.snapshot);
        // From here on nobody reads the old state; a mapping would be in the way of writing.
        let nothing = Snapshot::of(Image::read(&FileState::empty()));
        let snapshot = std::mem::replace(&mut self.snapshot, nothing);
        commit.run(journal, snapshot)
    }

    /// As [`Transaction::commit`], to the log: nobody is waited for.
    fn commit_to_log(mut self) -> Result<CommitSeq, Error> {
        // The log needs no count of commits in the header: page 1 is written only after a
        // change there.
        let original = self.changes_mut()?.original;
        let changes_first = self.changes_mut()?.get(Pgno::FIRST).is_some();
        if self.file != original || changes_first || self.seals() {
            self.seal_header()?;
        }
        let page_count = self.file.page_count;
        let mut pages = self.changes_mut()?.pages();
        pages.retain(|page| page.pgno.get() <= page_count);
        let store = Arc::clone(&self.store);
        let settings = store.settings();
        if store.state().latched {
            return Err(Error::Latched { path: store.path.clone() });
        }
        // Behind commits not durable yet nothing is told before them.
        let waits = settings.synchronous >= Synchronous::Full || store.state().wal.group.is_open();
        let view = self.snapshot.log.as_ref().ok_or(Error::Misuse("a log without a state"))?;
        let stored = self.stored_pages(&pages, &original)?;
        let append = Append {
            store: &store,
            view,
            pages: &pages,
            stored: &stored,
            page_size: self.file.header.page_size,
            page_count,
            synchronous: settings.synchronous,
        };
        let header = match append.run(!waits) {
            Ok(header) => header,
            Err(error) => {
                store.state().latched |= !error.is_busy();
                return Err(error);
            }
        };
        let log = view.log().map(Arc::clone);
        let nothing = Snapshot::of(Image::read(&FileState::empty()));
        // The mark of the state before ends here, with the rest of the snapshot. Held on, it would
        // keep the checkpoint below from the log's end, and no log would ever begin anew.
        let image = std::mem::replace(&mut self.snapshot, nothing).image;
        if waits {
            let log = log.ok_or(Error::Misuse("a log without a state"))?;
            return self.commit_with_others(header, image, (&pages, &stored), &log);
        }
        let sequence = {
            let mut state = store.state();
            state.forget();
            // The old pages stay if others read them.
            state.file = Some(self.file);
            state.image = Some(Arc::new(Image::after_commit(image, &self.file, &pages, &stored)));
            state.wal.committed(header);
            state.made(&self.file, Some((header.salt, header.frames)));
            state.commits += 1;
            CommitSeq(state.commits)
        };
        drop(self);
        if let Some(log) = log {
            store.auto_checkpoint(&log, header.frames);
        }
        Ok(sequence)
    }

    /// The end of a commit to the log, with its frames appended: the next writer begins, and
    /// whoever syncs the log first does it for all.
    fn commit_with_others(
        mut self,
        header: IndexHeader,
        image: Arc<Image>,
        (pages, stored): (&[PageRef], &[Arc<[u8]>]),
        log: &Arc<Log>,
    ) -> Result<CommitSeq, Error> {
        let store = Arc::clone(&self.store);
        let (number, sequence) = {
            let mut state = store.state();
            // Pages of the old state stay for its readers; without any they are not copied.
            if state.transactions <= 1 + state.wal.group.waiting {
                state.forget();
            }
            state.wal.group.forget_image();
            let image = Image::after_commit(image, &self.file, pages, stored);
            let number = state.wal.group.append(header, self.file, image);
            state.wal.group.waiting += 1;
            state.commits += 1;
            state.writer = false;
            store.changed(&mut state);
            (number, CommitSeq(state.commits))
        };
        // The lock of writers is the group's from here on.
        self.changes = None;
        let done = store.wait_durable(log, number);
        store.state().wal.group.waiting -= 1;
        drop(self);
        done?;
        store.auto_checkpoint(log, header.frames);
        Ok(sequence)
    }

    /// Ends the transaction without its changes, like a drop.
    pub fn rollback(self) {}
}

struct Commit<'a> {
    store: &'a Inner,
    journal_path: PathBuf,
    original: FileState,
    /// The file after the commit.
    file: FileState,
    pages: &'a [PageRef],
    /// Their stored forms; none without a codec.
    stored: &'a [Arc<[u8]>],
    rollback: Rollback,
    /// False skips every sync, for `synchronous` off: a crash of the machine may harm the file.
    syncs: bool,
    /// The super-journal of a transaction over several files.
    super_journal: Option<&'a Path>,
}

impl Commit<'_> {
    fn run(
        &self,
        journal: Result<Box<dyn File>, Error>,
        snapshot: Snapshot,
    ) -> Result<CommitSeq, Error> {
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) => return Err(self.abandon(error)),
        };
        if let Err(error) = self.take_exclusive() {
            return Err(self.abandon(error));
        }
        let image = self.only_reader(snapshot);
        if let Err(error) = self.write_database() {
            return Err(self.undo(&*journal, error));
        }
        let synced = self.end_journal(journal)?;
        let sequence = self.committed(image);
        match synced {
            Ok(()) => Ok(sequence),
            Err(error) => Err(self.doubt(error.into())),
        }
    }

    /// Notes the new state: `image` holds the old state's pages.
    fn committed(&self, image: Option<Arc<Image>>) -> CommitSeq {
        let mut state = self.store.state();
        state.file = Some(self.file);
        state.image = image
            .map(|image| Arc::new(Image::after_commit(image, &self.file, self.pages, self.stored)));
        state.made(&self.file, None);
        state.commits += 1;
        state.backups.committed(&self.original, self.file, self.pages);
        CommitSeq(state.commits)
    }

    /// Step 4: from here on nobody plays the journal back. A failing sync leaves open whether the
    /// end of the journal is durable.
    fn end_journal(&self, journal: Box<dyn File>) -> Result<Result<(), VfsError>, Error> {
        let ended = match self.rollback {
            Rollback::Memory | Rollback::Off => return Ok(Ok(())),
            Rollback::Truncate => journal.truncate(0),
            Rollback::Persist => journal.write_at(&[0; JournalHeader::SIZE], 0),
            Rollback::Delete => {
                drop(journal);
                return self.delete_journal();
            }
        };
        match ended {
            Ok(()) => Ok(self.sync(&*journal)),
            Err(error) => Err(self.undo(&*journal, error.into())),
        }
    }

    fn delete_journal(&self) -> Result<Result<(), VfsError>, Error> {
        let Err(error) = self.store.vfs.delete(&self.journal_path, false) else {
            return Ok(self.sync_folder());
        };
        Err(match self.store.vfs.open(&self.journal_path, OpenMode::ReadOnly) {
            Ok(journal) => self.undo(&*journal, error.into()),
            Err(_) => {
                self.store.forget_file();
                self.doubt(error.into())
            }
        })
    }

    fn sync(&self, file: &dyn File) -> Result<(), VfsError> {
        if self.syncs { file.sync() } else { Ok(()) }
    }

    fn sync_folder(&self) -> Result<(), VfsError> {
        if !self.syncs {
            return Ok(());
        }
        self.store.vfs.sync_dir(folder_of(&self.journal_path))
    }

    /// Opens the journal to be written; true beside the file for a new name.
    fn open_journal(&self) -> Result<(Box<dyn File>, bool), Error> {
        let store = self.store;
        if matches!(self.rollback, Rollback::Memory | Rollback::Off) {
            let journal = MemVfs::new().open(&self.journal_path, OpenMode::Create)?;
            return Ok((journal, false));
        }
        let is_new = store.vfs.size(&self.journal_path)?.is_none();
        let mode = OpenMode::CreateLike(&store.real_path);
        let journal = store.vfs.open(&self.journal_path, mode)?;
        if self.rollback != Rollback::Persist && journal.size()? > 0 {
            journal.truncate(0)?;
        }
        Ok((journal, is_new))
    }

    /// Steps 1 and 2; returns the open journal.
    fn write_journal(&self, snapshot: &Snapshot) -> Result<Box<dyn File>, Error> {
        let store = self.store;
        let (journal, is_new) = self.open_journal()?;
        if self.rollback == Rollback::Off {
            return Ok(journal);
        }
        let mut random = [0; 4];
        store.options.entropy.fill(&mut random);
        let checksum_init = u32::from_be_bytes(random);
        let mut header = [0; SECTOR];
        let fields = header.first_chunk_mut().expect("a sector is longer than a header");
        JournalHeaderEdit::new(fields)
            .checksum_init(checksum_init)
            .page_count(self.original.page_count)
            .sector_size(SECTOR as u32)
            .page_size(self.original.header.page_size);
        let mut batch = header.to_vec();
        let mut at = 0;
        let mut count = 0_u32;
        let page_size = self.original.header.page_size;
        let mut stored = vec![0; if store.is_coded() { page_size as usize } else { 0 }];
        for pgno in self.overwritten() {
            let old = match snapshot.get(pgno) {
                // The journal holds pages as they are stored, and this writer's lock keeps the
                // file as it is.
                _ if store.is_coded() => {
                    stored.fill(0);
                    store.file.read_at(&mut stored, pgno.offset(page_size))?;
                    &stored
                }
                Some(bytes) => bytes,
                None => snapshot.load(store, pgno)?,
            };
            push_record(pgno, old, checksum_init, &mut batch);
            count += 1;
            if batch.len() >= BATCH_BYTES {
                journal.write_at(&batch, at)?;
                at += batch.len() as u64;
                batch.clear();
            }
        }
        if let Some(name) = self.super_journal {
            // In a sector of its own, as in SQLite, and last: whoever looks for the name looks at
            // the journal's end.
            let start = (at + batch.len() as u64).next_multiple_of(SECTOR as u64);
            batch.resize(usize::try_from(start - at).expect("a batch fits in memory"), 0);
            push_super_name(bytes_of(name), self.original.header.page_size, &mut batch);
            if journal.size()? > at + batch.len() as u64 {
                journal.truncate(at + batch.len() as u64)?;
            }
        }
        journal.write_at(&batch, at)?;
        at += batch.len() as u64;
        // A reused journal may be longer than this one: the old bytes behind must not be taken for
        // more records.
        let next = at.next_multiple_of(SECTOR as u64);
        if journal.size()? > next {
            journal.write_at(&[0; JournalHeader::SIZE], next)?;
        }
        self.sync(&*journal)?;
        if is_new {
            self.sync_folder()?;
        }

        let fields = header.first_chunk_mut().expect("a sector is longer than a header");
        JournalHeaderEdit::new(fields).magic(MAGIC).record_count(count);
        journal.write_at(&header[..12], 0)?;
        self.sync(&*journal)?;
        Ok(journal)
    }

    /// The old pages written over or cut off by the commit, by ascending number.
    fn overwritten(&self) -> Vec<Pgno> {
        let count = self.original.page_count;
        let resized = self.file.header.page_size != self.original.header.page_size;
        // Pages of another size lie across each other.
        let kept = if resized { 0 } else { self.file.page_count.min(count) };
        let changed = self.pages.iter().map(|page| page.pgno).filter(|pgno| pgno.get() <= kept);
        let lock_page = Pgno::lock_page(self.original.header.page_size);
        let cut = (kept + 1..=count).filter_map(Pgno::new).filter(|pgno| *pgno != lock_page);
        changed.chain(cut).collect()
    }

    /// Waits until nobody reads, here or elsewhere.
    fn take_exclusive(&self) -> Result<(), Error> {
        let store = self.store;
        store.state().committing = true;
        store.retry(|| {
            // While this transaction waits no new one begins, so the old ones get fewer.
            if store.state().transactions > 1 || !store.file.lock(LockLevel::Exclusive)? {
                return Err(Error::busy(&store.path));
            }
            Ok(())
        })
    }

    /// Takes the old state's pages from the store, to be kept where they do not change. Nobody else
    /// has them: the store's other transactions have ended. `None` when they are mapped, and so are
    /// not kept.
    fn only_reader(&self, snapshot: Snapshot) -> Option<Arc<Image>> {
        self.store.state().forget();
        Some(snapshot.image).filter(|image| !image.is_mapped())
    }

    /// Step 3.
    fn write_database(&self) -> Result<(), Error> {
        let page_size = self.file.header.page_size;
        let most = (BATCH_BYTES / page_size as usize).max(1);
        let mut batch = Vec::new();
        let mut place = 0;
        // Neighbours are written at once.
        for run in self.pages.chunk_by(|a, b| a.pgno.get() + 1 == b.pgno.get()) {
            for pages in run.chunks(most) {
                let at = pages[0].pgno.offset(page_size);
                let bytes = |number: usize| self.stored.get(place + number);
                match pages {
                    [page] => {
                        let bytes = bytes(0).unwrap_or(&page.bytes);
                        self.store.file.write_at(bytes, at)?;
                    }
                    _ => {
                        batch.clear();
                        for (number, page) in pages.iter().enumerate() {
                            batch.extend_from_slice(bytes(number).unwrap_or(&page.bytes));
                        }
                        self.store.file.write_at(&batch, at)?;
                    }
                }
                place += pages.len();
            }
        }
        if self.file.byte_len() < self.original.byte_len() {
            self.store.file.truncate(self.file.byte_len())?;
        }
        Ok(self.sync(&*self.store.file)?)
    }

    /// After a failure before the database was touched.
    fn abandon(&self, error: Error) -> Error {
        // A journal left behind holds the database's own pages, so undoing its changes does
        // no harm.
        if !matches!(self.rollback, Rollback::Memory | Rollback::Off) {
            let _ = self.store.vfs.delete(&self.journal_path, false);
        }
        if !error.is_busy() {
            self.store.state().latched = true;
        }
        error
    }

    /// After a failure while the database was written: puts the old pages back on the spot. If
    /// putting back fails too, the journal stays, and the next transaction tries again.
    fn undo(&self, journal: &dyn File, error: Error) -> Error {
        self.store.state().latched = true;
        if self.rollback == Rollback::Off {
            self.store.forget_file();
            return error;
        }
        let on_disk = self.rollback != Rollback::Memory;
        let undone = recovery::replay(journal, &*self.store.file)
            .and_then(|()| Ok(self.store.file.sync()?))
            .and_then(|()| match on_disk {
                true => Ok(self.store.vfs.delete(&self.journal_path, true)?),
                false => Ok(()),
            });
        if undone.is_err() {
            self.store.forget_file();
        }
        error
    }

    /// After a failure leaving open whether the journal is gone for good.
    fn doubt(&self, error: Error) -> Error {
        self.store.state().latched = true;
        Error::InDoubt { path: self.store.path.clone(), source: Box::new(error) }
    }
}

impl Inner {
    /// Puts a log of so many frames into the database, if it is long enough. A commit is durable
    /// without; a later one tries again.
    fn auto_checkpoint(&self, log: &Log, frames: u32) {
        let at = self.settings().wal_autocheckpoint;
        if at > 0 && frames >= at {
            let _ = log.checkpoint(self, CheckpointMode::Passive, &|| false);
        }
    }

    /// Forgets the file's state and pages, because the file may be half written.
    fn forget_file(&self) {
        self.state().forget();
    }
}
