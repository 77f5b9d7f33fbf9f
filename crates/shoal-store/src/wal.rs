//! Databases in write-ahead log mode: transactions reading beside writers.
//!
//! A reader needs the frames it reads, and the pages it takes from the database file, to stay
//! unchanged. Like SQLite's own readers it holds the shared lock of a read mark in the log's index
//! (`-shm`). Either
//!
//! - the whole log was checkpointed already: the reader locks mark 0, keeping every checkpoint from
//!   writing into the database, and does not look at the log; or
//! - the log was ahead of the database: the reader locks a mark with the number of its last frame,
//!   if need be after setting one. Checkpoints write only frames up to the mark: pages the reader
//!   finds in the log. Nobody begins the log anew.
//!
//! A store opened for writing opens log and index as SQLite does, making missing ones, and keeps
//! the database's shared lock as long as it is open: nobody removes the two files meanwhile. The
//! last store to close checkpoints the log and removes both.
//!
//! A store opened for reading makes no file and holds the database's lock for each transaction. An
//! existing index is used as by others. Without one the store reads the log by its checksums; after
//! each page read from the database it checks for an index, because every writer makes an index
//! first. Once there is an index, nothing tells the first index from a later one. Where there was
//! no log, an index of an empty log may belong to a log written, checkpointed and cut under an
//! earlier index, lost with its program and made anew: salt and count of checkpointed frames are
//! zero in both.

mod append;
mod checkpoint;
mod group;
mod index;
mod recover;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_format::wal::{FrameHeader, WalStart};
use shoal_format::wal_index::{IndexHeader, READ_MARKS, WRITE_LOCK};
use shoal_format::{Corrupt, FileHeader, Pgno};
use shoal_vfs::{File, LockLevel, OpenMode, VfsError};

pub(crate) use append::Append;
pub use checkpoint::{Checkpoint, CheckpointMode};
use index::{Index, Opened, TRIES, pause};

use crate::Error;
use crate::header::{FileState, beside, decoded_header};
use crate::store::{Access, Inner};

/// A log and its index, open.
pub(crate) struct Log {
    index: Index,
    file: Mutex<Option<Arc<dyn File>>>,
    /// The folder was synced since the log is open.
    has_durable_name: AtomicBool,
}

/// A state of a log: its salt, another one after each restart of the log, and its committed frames.
pub(crate) type LogVersion = ([u8; 8], u32);

/// The state of a missing log, or of a log never written to.
pub(crate) const NO_LOG: LogVersion = ([0; 8], 0);

/// The state of the log read by a transaction. Clones hold the same lock.
#[derive(Clone)]
pub(crate) struct LogView {
    source: Source,
    pub(crate) version: LogVersion,
    /// `None` where nobody shares an index: nothing keeps a checkpoint away.
    held: Option<Arc<Held>>,
}

/// Where the newest version of each page is.
#[derive(Clone)]
enum Source {
    /// In the database: so is all of the log.
    Database,
    /// In the frames listed by the index.
    Index(Arc<dyn File>),
    /// In the log, where nobody shares an index: the offsets of page images.
    Scanned(Arc<dyn File>, Arc<FxHashMap<Pgno, u64>>),
}

/// The shared lock of a read mark, released on drop.
pub(crate) struct Held {
    log: Arc<Log>,
    mark: usize,
    /// The index's header at the time of locking; `None` for an index without a valid header.
    header: Option<IndexHeader>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.log.index.unlock_mark(self.mark);
    }
}

impl LogView {
    /// Reads page `pgno` from the log; false for a page not in the log.
    pub(crate) fn read(&self, pgno: Pgno, bytes: &mut [u8]) -> Result<bool, Error> {
        match &self.source {
            Source::Database => Ok(false),
            Source::Index(file) => {
                let Some((held, header)) = self.held_header() else { return Ok(false) };
                let Some(frame) = held.log.index.find(pgno, header.frames)? else {
                    return Ok(false);
                };
                let at = WalStart::frame_offset(header.page_size, frame);
                file.read_at(bytes, at + FrameHeader::SIZE as u64)?;
                Ok(true)
            }
            Source::Scanned(file, places) => {
                let Some(&place) = places.get(&pgno) else { return Ok(false) };
                file.read_at(bytes, place)?;
                Ok(true)
            }
        }
    }

    fn held_header(&self) -> Option<(&Held, IndexHeader)> {
        let held = self.held.as_deref()?;
        Some((held, held.header?))
    }

    /// After a page was read: an error when someone may have begun to write meanwhile.
    pub(crate) fn check_guard(&self, store: &Inner) -> Result<(), Error> {
        if self.held.is_none() && store.vfs.size(&beside(&store.real_path, "-shm"))?.is_some() {
            return Err(Error::busy(&store.path));
        }
        Ok(())
    }

    /// True when the log is at another state by now. Cost: a look at shared memory.
    pub(crate) fn is_past(&self, store: &Inner) -> Result<bool, Error> {
        match &self.held {
            Some(held) => Ok(held.log.index.header()? != held.header),
            // Whoever writes makes an index first.
            None => Ok(store.vfs.size(&beside(&store.real_path, "-shm"))?.is_some()),
        }
    }

    /// Frames of the log in this state, for the bound on a state's pages.
    fn frames(&self) -> u64 {
        match &self.source {
            Source::Database => 0,
            Source::Index(_) => u64::from(self.version.1),
            Source::Scanned(_, places) => places.len() as u64,
        }
    }

    /// The log of this state, where the index describes the state.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.held.as_ref().filter(|held| held.header.is_some()).map(|held| &held.log)
    }
}

impl fmt::Debug for LogView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogView").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The log's part of a store, kept from one transaction to the next.
#[derive(Default)]
pub(crate) struct WalState {
    /// Open as long as its index is the one beside the database.
    log: Option<Arc<Log>>,
    /// The database's shared lock is kept for the log.
    pub(crate) is_peer: bool,
    /// The state of the log the store's image belongs to.
    known: Option<IndexHeader>,
    /// Commits under way.
    pub(crate) group: group::Group,
    /// The lock of writers is kept, and nobody else writes as long as the store is open.
    pub(crate) keeps_writing: bool,
}

/// The state read by a transaction.
pub(crate) struct WalSnapshot {
    pub(crate) file: FileState,
    pub(crate) view: LogView,
    pub(crate) since: Since,
}

/// The changes from the previous state to this one.
pub(crate) enum Since {
    /// Nothing.
    Unchanged,
    /// Commits of these pages.
    Pages(FxHashSet<Pgno>),
    /// Nobody knows.
    Unknown,
}

impl fmt::Debug for WalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalState").field("is_peer", &self.is_peer).finish_non_exhaustive()
    }
}

impl WalState {
    /// With the database's shared lock held: takes a read lock of the log, and returns the state to
    /// read. `file` is the state by the database file alone, `before` the last transaction's.
    pub(crate) fn begin(
        &mut self,
        store: &Inner,
        file: impl Fn() -> Result<FileState, Error>,
        before: Option<FileState>,
    ) -> Result<WalSnapshot, Error> {
        self.open(store)?;
        let known = self.known.take().zip(before);
        let Some(log) = self.log.clone() else { return alone(store, file(), None) };
        let held = Arc::new(log.begin_read(store)?);
        let Some(header) = held.header else { return alone(store, file(), Some(held)) };
        let size = match before {
            Some(before) => before.header.page_size,
            None => match file() {
                // Page 1 of the file may be torn, and whole in the log.
                Err(Error::Refused { .. }) => FileState::visible(store)?.header.page_size,
                other => other?.header.page_size,
            },
        };
        if header.page_size != size && header.page_size != 0 {
            let why = "is of pages of another size than the file's, bytes";
            return Err(Corrupt::new("log index", why, u64::from(header.page_size)).into());
        }
        let source = match held.mark == 0 && log.index.backfilled()? >= header.frames {
            true => Source::Database,
            false => Source::Index(log.file(store)?.ok_or_else(|| Error::busy(&store.path))?),
        };
        let version = (header.salt, header.frames);
        let view = LogView { source, version, held: Some(held) };
        self.known = Some(header);
        if let Some((known, before)) = known
            && known == header
        {
            return Ok(WalSnapshot { file: before, view, since: Since::Unchanged });
        }
        let same_log = known.filter(|(known, _)| {
            known.salt == header.salt && known.frames <= header.frames && known.salt != NO_LOG.0
        });
        let since = match same_log {
            Some((known, before)) => {
                let mut pages = FxHashSet::default();
                for number in known.frames + 1..=header.frames {
                    pages.extend(log.index.page_of(number)?);
                }
                // The list belongs to this log unless the log was restarted meanwhile. A view with
                // frames to read in the log prevents a restart.
                let still = log.index.header()?.is_some_and(|now| now.salt == header.salt);
                match still || !matches!(view.source, Source::Database) {
                    true if !pages.contains(&Pgno::FIRST) => {
                        let file = FileState { page_count: header.page_count, ..before };
                        let file = checked(store, &view, file)?;
                        return Ok(WalSnapshot { file, view, since: Since::Pages(pages) });
                    }
                    true => Since::Pages(pages),
                    false => Since::Unknown,
                }
            }
            None => Since::Unknown,
        };
        let file = state(store, &view, header.page_count, size, file)?;
        Ok(WalSnapshot { file, view, since })
    }

    /// Opens log and index, unless they are open.
    fn open(&mut self, store: &Inner) -> Result<(), Error> {
        if self.is_peer {
            return Ok(());
        }
        let path = beside(&store.real_path, "-shm");
        if let Some(log) = &self.log
            && !(log.index.is_joined && log.index.is_at(&path)?)
        {
            self.log = None;
            self.known = None;
        }
        let writes = store.options.access != Access::ReadOnly;
        if self.log.is_none()
            && let Opened::Open(index) = Index::open(store, &path, writes)?
        {
            let (file, has_durable_name) = (Mutex::default(), AtomicBool::new(false));
            let log = Log { index, file, has_durable_name };
            if writes && log.index.writable {
                let path = beside(&store.real_path, "-wal");
                match store.vfs.open(&path, OpenMode::CreateLike(&store.real_path)) {
                    Ok(file) => {
                        *log.file_slot() = Some(Arc::from(file));
                        self.is_peer = true;
                    }
                    Err(VfsError::PermissionDenied { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.log = Some(Arc::new(log));
        }
        Ok(())
    }

    /// The open log of a store opened for writing.
    pub(crate) fn peer(&self) -> Option<&Arc<Log>> {
        self.log.as_ref().filter(|_| self.is_peer)
    }

    /// The store's own commit led to this state.
    pub(crate) fn committed(&mut self, header: IndexHeader) {
        self.known = Some(header);
    }

    /// The frames of the log as of this store's last look or commit; `None` before there is one.
    pub(crate) fn frames(&self) -> Option<u32> {
        self.known.map(|known| known.frames)
    }

    /// Forgets the state of the log.
    pub(crate) fn forget(&mut self) {
        self.known = None;
    }

    /// Checkpoints and removes the log, if nobody else has the database open. True when both files
    /// are gone; the database's exclusive lock is held then.
    pub(crate) fn close(&mut self, store: &Inner) -> Result<bool, Error> {
        let Some(log) = self.log.take_if(|_| self.is_peer) else { return Ok(false) };
        if std::mem::take(&mut self.keeps_writing) {
            log.end_write();
        }
        let alone = store.file.lock(LockLevel::Exclusive);
        let away = if matches!(alone, Ok(true)) {
            log.put_away(store)
        } else {
            alone.map_err(Error::from)
        };
        if !matches!(away, Ok(true)) {
            self.log = Some(log);
            store.file.unlock(LockLevel::Shared)?;
            return away;
        }
        self.is_peer = false;
        self.known = None;
        drop(log);
        store.vfs.delete(&beside(&store.real_path, "-shm"), false)?;
        store.vfs.delete(&beside(&store.real_path, "-wal"), false)?;
        Ok(true)
    }
}

impl Log {
    fn file_slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log's file; `None` where there is none yet.
    fn file(&self, store: &Inner) -> Result<Option<Arc<dyn File>>, Error> {
        let mut slot = self.file_slot();
        if slot.is_none() {
            *slot = open_log(store)?;
        }
        Ok(slot.clone())
    }

    /// The index's header, after rebuilding an index without a valid one; `None` for an invalid
    /// index not writable here.
    fn header(&self, store: &Inner) -> Result<Option<IndexHeader>, Error> {
        for attempt in 0..TRIES {
            if let Some(header) = self.index.header()? {
                return Ok(Some(header));
            }
            if !self.index.writable {
                return Ok(None);
            }
            // The holder of the lock of writers makes the index valid.
            if self.index.lock(WRITE_LOCK, 1)? {
                let found = match self.index.header() {
                    Ok(None) => self.recover(store).map(Some),
                    other => other,
                };
                self.index.unlock(WRITE_LOCK, 1);
                return found;
            }
            pause(attempt);
        }
        Err(Error::busy(&store.path))
    }

    /// Locks the read mark of the log's last frame at present.
    fn begin_read(self: &Arc<Log>, store: &Inner) -> Result<Held, Error> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                pause(attempt);
            }
            let header = if self.index.is_joined { self.header(store)? } else { None };
            let Some(header) = header else {
                match self.lock_invalid()? {
                    Some(held) => return Ok(held),
                    None => continue,
                }
            };
            let whole = self.index.backfilled()? >= header.frames;
            let mark = if whole { 0 } else { self.choose_mark(header.frames)? };
            let at = self.index.mark(mark)?;
            if !self.index.lock_mark(mark)? {
                continue;
            }
            let held = Held { log: Arc::clone(self), mark, header: Some(header) };
            let still = self.index.header()? == Some(header)
                && self.index.mark(mark)? == at
                && (mark != 0 || whole == (self.index.backfilled()? >= header.frames));
            // A mark past the state's last frame protects frames missing from the state.
            if still && at <= header.frames {
                return Ok(held);
            }
        }
        Err(Error::busy(&store.path))
    }

    /// The number of a read mark covering no frame past the state's last, and as many as possible:
    /// an existing mark, or an unused one set here. 0 when there is none: then checkpoints wait.
    fn choose_mark(&self, frames: u32) -> Result<usize, Error> {
        let (mut best, mut reach) = (0, 0);
        for place in 1..READ_MARKS {
            let at = self.index.mark(place)?;
            if at <= frames && at >= reach {
                (best, reach) = (place, at);
            }
        }
        if (best != 0 && reach == frames) || !self.index.writable {
            return Ok(best);
        }
        for place in 1..READ_MARKS {
            let byte = shoal_format::wal_index::READ_LOCK + place as u64;
            if self.index.lock(byte, 1)? {
                let set = self.index.set_mark(place, frames);
                self.index.unlock(byte, 1);
                set?;
                return Ok(place);
            }
        }
        Ok(best)
    }

    /// Locks mark 0 of an index without a valid header that cannot be rebuilt; `None` when someone
    /// is about to make the header valid.
    ///
    /// The next to make the index valid then starts from a log with nothing checkpointed, and can
    /// checkpoint nothing as long as the mark is locked. A writer holding the lock of writers might
    /// be halfway through describing an existing log, and about to restart the log.
    fn lock_invalid(self: &Arc<Log>) -> Result<Option<Held>, Error> {
        if !self.index.lock_mark(0)? {
            return Ok(None);
        }
        let held = Held { log: Arc::clone(self), mark: 0, header: None };
        let quiet = !self.index.is_written_elsewhere()?;
        let left = !self.index.is_joined || self.index.header()?.is_none();
        Ok(Some(held).filter(|_| quiet && left))
    }

    /// Takes the lock of writers at the state of `view`; false when somebody else holds the lock or
    /// has committed since.
    pub(crate) fn begin_write(&self, view: &LogView) -> Result<bool, Error> {
        if !self.index.lock(WRITE_LOCK, 1)? {
            return Ok(false);
        }
        let same = self.is_at(view);
        if !matches!(same, Ok(true)) {
            self.end_write();
        }
        same
    }

    /// True when nobody has committed since `view` was taken.
    pub(crate) fn is_at(&self, view: &LogView) -> Result<bool, Error> {
        Ok(self.index.header()? == view.held.as_ref().and_then(|held| held.header))
    }

    /// Lets go of the lock of writers.
    pub(crate) fn end_write(&self) {
        self.index.unlock(WRITE_LOCK, 1);
    }
}

/// The state of a log without a valid index: the frames its checksums vouch for.
fn alone(
    store: &Inner,
    file: Result<FileState, Error>,
    held: Option<Arc<Held>>,
) -> Result<WalSnapshot, Error> {
    // Page 1 of the file may be torn, and whole in the log.
    let (file, refused) = match file {
        Err(refused @ Error::Refused { .. }) => (FileState::visible(store)?, Some(refused)),
        other => (other?, None),
    };
    let mut view = LogView { source: Source::Database, version: NO_LOG, held };
    let mut page_count = None;
    if let Some(log) = open_log(store)?
        && let Some(found) = recover::scan(&*log)?
        && found.start.page_size == file.header.page_size
    {
        let at = |number| WalStart::frame_offset(found.start.page_size, number);
        let place = |number| at(number) + FrameHeader::SIZE as u64;
        let places = (1..).zip(&found.frames).map(|(number, pgno)| (*pgno, place(number)));
        page_count = Some(found.page_count).filter(|count| *count > 0);
        view.version = (found.start.salt, u32::try_from(found.frames.len()).unwrap_or(u32::MAX));
        view.source = Source::Scanned(log, Arc::new(places.collect()));
    }
    let file = match page_count {
        Some(count) => state(store, &view, count, file.header.page_size, || Ok(file))?,
        None => match refused {
            Some(refused) => return Err(refused),
            None => checked(store, &view, file)?,
        },
    };
    Ok(WalSnapshot { file, view, since: Since::Unknown })
}

fn open_log(store: &Inner) -> Result<Option<Arc<dyn File>>, Error> {
    match store.vfs.open(&beside(&store.real_path, "-wal"), OpenMode::ReadOnly) {
        Ok(log) => Ok(Some(Arc::from(log))),
        Err(VfsError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The file's state with the log: the header is page 1's in the log, or the file's when the log has
/// no page 1. A count of 0 pages means a log without frames, and the file's own state.
fn state(
    store: &Inner,
    view: &LogView,
    page_count: u32,
    page_size: u32,
    file: impl Fn() -> Result<FileState, Error>,
) -> Result<FileState, Error> {
    if page_count == 0 {
        return checked(store, view, file()?);
    }
    let mut header = [0; FileHeader::SIZE];
    let read = |page: &mut [u8]| match view.read(Pgno::FIRST, page)? {
        true => Ok(page.len()),
        false => Ok(store.file.read_at(page, 0)?),
    };
    read(&mut header)?;
    if store.is_coded() {
        header = decoded_header(store, &header, read)?;
    }
    if !FileHeader::is_database(&header) {
        return Err(Error::NotADatabase { path: store.path.clone() });
    }
    let header = FileHeader::parse(&header)?;
    if header.page_size != page_size {
        return Err(Error::busy(&store.path));
    }
    store.check_reserved(&header)?;
    checked(store, view, FileState { header, page_count })
}

/// Refuses a state with pages in neither the file nor the log: the memory kept for a state grows
/// with its pages. Every added page is written to the log, even one free at once; only the page of
/// the lock bytes is in neither. Cost: asks for the size of the file.
fn checked(store: &Inner, view: &LogView, file: FileState) -> Result<FileState, Error> {
    let in_file = store.file.size()?.div_ceil(u64::from(file.header.page_size));
    let most = in_file.saturating_add(view.frames()).saturating_add(1);
    if u64::from(file.page_count) <= most {
        return Ok(file);
    }
    let why = "states more pages than the file and its log have";
    Err(Corrupt::new("file header", why, u64::from(file.page_count)).into())
}
