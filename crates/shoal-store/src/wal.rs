//! Reading a database in write-ahead log mode while others write to it.
//!
//! What a reader needs is that neither the frames it reads nor the pages it takes from the database
//! file change under it. As SQLite's own readers it holds the shared lock of a read mark in the log's
//! index (`-shm`). Either
//!
//! - the whole log was in the database already: the reader locks mark 0, which keeps every
//!   checkpoint from writing into the database, and does not look at the log; or
//! - it was not: the reader locks a mark that says how far it reads, if need be after setting it.
//!   Checkpoints write what comes before the mark, and no more: pages that the reader finds in the
//!   log. Nobody begins the log anew.
//!
//! Who may not write to the index and finds no mark in it locks mark 0 there as well.
//!
//! Where nobody shares an index, a store that may write makes one, empty, and locks its mark 0. Who comes
//! to write finds the file, makes an index of it, and may write the log, but nothing into the database; the
//! log that was there is not begun anew, because it is not in the database. The empty file is for that lock
//! alone. The last store to use it removes it, under the lock that whoever removes an index holds, unless
//! somebody has made an index of it.
//!
//! A store that may only read makes no file: after each page that is read from the database it is checked
//! that there is still no index, as whoever writes makes one first. Once there is one, nothing tells whether
//! it is the first. Where there was no log, an index of an empty log may be that of a log which was written,
//! put into the database and cut, under an index that has ended with its program and was made anew: the salt
//! is zero, and so is the count of frames that were put into the database, in both.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_format::wal::{Frame, FrameHeader, WalHeader, WalStart};
use shoal_format::wal_index::{READ_LOCK, READ_MARKS, SIZE, WRITE_LOCK, WalIndex, read_mark};
use shoal_format::{Corrupt, FileHeader, Pgno};
use shoal_vfs::{ByteLock, File, OpenMode, VfsError};

use crate::Error;
use crate::header::{FileState, beside};
use crate::store::{Access, Inner};

/// Where the newest version of each page of the log is.
#[derive(Clone)]
pub(crate) struct WalPages {
    /// `None` when all of the log is in the database.
    log: Option<Arc<dyn File>>,
    /// Offsets of page images in the log.
    places: Arc<FxHashMap<Pgno, u64>>,
    /// Nobody shares an index, so nothing keeps a checkpoint away.
    unguarded: bool,
    /// Which state of the log it is.
    pub(crate) version: LogVersion,
}

/// A state of a log: its salt, which is another one whenever it begins anew, and its committed
/// frames.
pub(crate) type LogVersion = ([u8; 8], u32);

/// The state of a log that is not there, or that nothing was ever written to.
pub(crate) const NO_LOG: LogVersion = ([0; 8], 0);

impl WalPages {
    /// Reads page `pgno` if the log has it.
    pub(crate) fn read(&self, pgno: Pgno, bytes: &mut [u8]) -> Result<bool, Error> {
        let (Some(log), Some(&place)) = (&self.log, self.places.get(&pgno)) else {
            return Ok(false);
        };
        log.read_at(bytes, place)?;
        Ok(true)
    }

    /// After a page was read: an error when someone may have begun to write meanwhile.
    pub(crate) fn check_guard(&self, store: &Inner) -> Result<(), Error> {
        if self.unguarded && store.vfs.size(&beside(&store.real_path, "-shm"))?.is_some() {
            return Err(Error::busy(&store.path));
        }
        Ok(())
    }
}

impl fmt::Debug for WalPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalPages").field("pages", &self.places.len()).finish_non_exhaustive()
    }
}

/// What a store keeps of the log from one transaction to the next.
#[derive(Default)]
pub(crate) struct WalState {
    /// The index, open as long as it is the one beside the database.
    index: Option<SharedIndex>,
    /// The byte of the index that is locked.
    locked: Option<u64>,
    known: Option<Known>,
}

/// The log's index.
struct SharedIndex {
    file: Box<dyn File>,
    /// Whether read marks can be set.
    writable: bool,
}

/// A state of the log.
struct Known {
    salt: [u8; 8],
    /// Frames that the map covers, and the database's pages with them.
    frames: u32,
    pages: WalPages,
}

/// The state that a transaction reads.
pub(crate) struct WalSnapshot {
    pub(crate) file: FileState,
    pub(crate) pages: WalPages,
    /// The same as at the transaction before, pages that were read included.
    pub(crate) unchanged: bool,
    /// An earlier state and the pages that changed since, where that is known.
    pub(crate) changes: Option<Changes>,
}

/// What led from one state of the log to the next.
pub(crate) struct Changes {
    pub(crate) from: LogVersion,
    pub(crate) pages: FxHashSet<Pgno>,
}

impl fmt::Debug for WalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalState").field("locked", &self.locked).finish_non_exhaustive()
    }
}

impl WalState {
    /// Lets checkpoints write again.
    pub(crate) fn unlock(&mut self) -> Result<(), VfsError> {
        if let Some(byte) = self.locked.take()
            && let Some(index) = &self.index
        {
            index.file.lock_bytes(byte, 1, ByteLock::None)?;
        }
        Ok(())
    }

    /// With the database's exclusive lock held, so that nobody else has the index open for reading or
    /// writing: removes one that was made for its locks and is nothing else yet.
    pub(crate) fn remove_unused(&mut self, store: &Inner) -> Result<(), Error> {
        let path = beside(&store.real_path, "-shm");
        if let Some(index) = self.index.take()
            && index.is_unused()?
            && index.file.is_at(&path)?
        {
            store.vfs.delete(&path, false)?;
        }
        Ok(())
    }

    /// Whether there may be something for [`WalState::remove_unused`].
    pub(crate) fn may_have_unused(&self) -> bool {
        let unused = |index: &SharedIndex| index.writable && index.is_unused().unwrap_or(false);
        self.index.as_ref().is_some_and(unused)
    }

    /// With the database's shared lock held: takes the log's, and tells the state to be read.
    /// `file` is the state by the database file alone, `before` that of the last transaction.
    pub(crate) fn begin(
        &mut self,
        store: &Inner,
        file: FileState,
        before: Option<FileState>,
    ) -> Result<WalSnapshot, Error> {
        let index_path = beside(&store.real_path, "-shm");
        // The last one to close the database deletes the index; the next one makes another.
        if let Some(index) = &self.index
            && !index.file.is_at(&index_path)?
        {
            self.index = None;
        }
        if self.index.is_none() {
            self.index = SharedIndex::open(store, &index_path)?;
        }
        if self.index.is_none() && store.options.access != Access::ReadOnly {
            self.index = SharedIndex::make(store, &index_path);
        }
        if self.index.is_none() {
            self.known = None;
            return self.alone(store, file, true);
        }
        let Some(shared) = self.lock(store)? else {
            self.known = None;
            return self.alone(store, file, false);
        };
        if shared.page_size != file.header.page_size {
            return Err(Error::busy(&store.path));
        }
        let whole = shared.backfilled >= shared.frames;
        if let (Some(known), Some(before)) = (&self.known, before)
            && known.salt == shared.salt
            && known.frames == shared.frames
            && known.pages.log.is_none() == whole
        {
            let pages = known.pages.clone();
            return Ok(WalSnapshot { file: before, pages, unchanged: true, changes: None });
        }
        let from = self.known.as_ref().filter(|known| known.salt == shared.salt);
        let from = from.map(|known| (known.salt, known.frames));
        let (pages, changed) = match whole {
            true => {
                let version = (shared.salt, shared.frames);
                let pages =
                    WalPages { log: None, places: Arc::default(), unguarded: false, version };
                // A log that went into the database without another commit.
                (pages, (from == Some(version)).then(FxHashSet::default))
            }
            false => {
                let (pages, changed) = self.extend(store, &shared)?;
                (pages, Some(changed))
            }
        };
        let changes = from.zip(changed).map(|(from, pages)| Changes { from, pages });
        let file = state(store, &pages, shared.page_count, file)?;
        self.known = Some(Known { salt: shared.salt, frames: shared.frames, pages: pages.clone() });
        Ok(WalSnapshot { file, pages, unchanged: false, changes })
    }

    /// Whether the log is at another state than it was. Cost: two reads of 136 bytes.
    pub(crate) fn is_past(&self, store: &Inner, known: LogVersion) -> Result<bool, Error> {
        match &self.index {
            Some(index) => match read_index(&*index.file)? {
                Some(now) => Ok((now.salt, now.frames) != known),
                None => Ok(!index.is_unused()?),
            },
            // Whoever writes makes an index first.
            None => Ok(store.vfs.size(&beside(&store.real_path, "-shm"))?.is_some()),
        }
    }

    /// Locks the mark that says how far this reader looks, and tells the state that it may read;
    /// `None` when the index says nothing valid.
    fn lock(&mut self, store: &Inner) -> Result<Option<WalIndex>, Error> {
        // Whoever changes the log in between is done in a moment.
        const TRIES: usize = 100;
        let busy = || Error::busy(&store.path);
        for _ in 0..TRIES {
            let Some(index) = &self.index else { return Err(busy()) };
            let Some(mut shared) = read_index(&*index.file)? else {
                // It is not made yet, or was left behind broken. Nothing is to write into the database
                // meanwhile.
                match index.lock_invalid()? {
                    Some(true) => self.locked = Some(READ_LOCK),
                    Some(false) => {
                        std::thread::yield_now();
                        continue;
                    }
                    None => {}
                }
                return Ok(None);
            };
            let place = match shared.backfilled >= shared.frames {
                true => 0,
                false => index.mark(&mut shared)?,
            };
            let byte = READ_LOCK + place as u64;
            match index.file.lock_bytes(byte, 1, ByteLock::Shared)? {
                Some(true) => self.locked = Some(byte),
                // Someone sets the mark, or a checkpoint is writing.
                Some(false) => {
                    std::thread::yield_now();
                    continue;
                }
                // Files without such locks are one process's own.
                None => return Ok(Some(shared)),
            }
            let again = read_index(&*index.file)?;
            let still = again.is_some_and(|again| {
                let whole = again.backfilled >= again.frames;
                again.is_same_log(&shared)
                    && (place == 0 || again.marks[place] == shared.marks[place])
                    && (place != 0 || whole == (shared.backfilled >= shared.frames))
            });
            if still {
                return Ok(Some(shared));
            }
            self.unlock()?;
        }
        Err(busy())
    }

    /// The pages of the log's first frames, of which the index says how many are committed; and those
    /// of the frames that came since the state that is known, if that is of the same log.
    fn extend(
        &self,
        store: &Inner,
        shared: &WalIndex,
    ) -> Result<(WalPages, FxHashSet<Pgno>), Error> {
        let mut changed = FxHashSet::default();
        let (log, mut places, mut number) = match &self.known {
            Some(Known { salt, frames, pages: WalPages { log: Some(log), places, .. } })
                if *salt == shared.salt && *frames <= shared.frames =>
            {
                (Arc::clone(log), (**places).clone(), *frames)
            }
            _ => match open_log(store)? {
                Some(log) => (log, FxHashMap::default(), 0),
                None => return Err(Error::busy(&store.path)),
            },
        };
        while number < shared.frames {
            number += 1;
            let at = WalStart::frame_offset(shared.page_size, number);
            let mut header = [0; FrameHeader::SIZE];
            let length = log.read_at(&mut header, at)?;
            // A log that does not have what its index says was replaced, or the index is being.
            let frame = Some(()).filter(|()| length == header.len());
            let Some(frame) = frame.and_then(|()| Frame::peek(&header, shared.salt)) else {
                return Err(Error::busy(&store.path));
            };
            places.insert(frame.pgno, at + FrameHeader::SIZE as u64);
            changed.insert(frame.pgno);
        }
        let version = (shared.salt, shared.frames);
        let places = Arc::new(places);
        Ok((WalPages { log: Some(log), places, unguarded: false, version }, changed))
    }

    /// The state of a log whose index says nothing: what its checksums vouch for.
    fn alone(&self, store: &Inner, file: FileState, unguarded: bool) -> Result<WalSnapshot, Error> {
        let version = NO_LOG;
        let mut pages = WalPages { log: None, places: Arc::default(), unguarded, version };
        let mut page_count = None;
        if let Some(log) = open_log(store)? {
            let mut header = [0; WalHeader::SIZE];
            let length = log.read_at(&mut header, 0)?;
            let start = WalStart::parse(&header).filter(|_| length == header.len());
            if let Some(start) = start.filter(|it| it.page_size == file.header.page_size) {
                let (places, count, frames) = scan(&*log, &start)?;
                page_count = count;
                pages.version = (start.salt, frames);
                pages.places = Arc::new(places);
                pages.log = Some(log);
            }
        }
        let file = match page_count {
            Some(count) => state(store, &pages, count, file)?,
            None => checked(store, &pages, file)?,
        };
        Ok(WalSnapshot { file, pages, unchanged: false, changes: None })
    }
}

impl SharedIndex {
    fn open(store: &Inner, path: &Path) -> Result<Option<SharedIndex>, Error> {
        for (mode, writable) in [(OpenMode::ReadWrite, true), (OpenMode::ReadOnly, false)] {
            match store.vfs.open(path, mode) {
                Ok(file) => return Ok(Some(SharedIndex { file, writable })),
                Err(VfsError::NotFound { .. }) => return Ok(None),
                Err(VfsError::PermissionDenied { .. }) if writable => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Makes an index without contents, for its locks; `None` where the folder takes no files, which is no
    /// reason not to read.
    fn make(store: &Inner, path: &Path) -> Option<SharedIndex> {
        let file = store.vfs.open(path, OpenMode::CreateLike(&store.real_path)).ok()?;
        Some(SharedIndex { file, writable: true })
    }

    /// Whether nobody has made an index of the file: whoever does never empties it again.
    fn is_unused(&self) -> Result<bool, VfsError> {
        Ok(self.file.size()? == 0)
    }

    /// Locks mark 0 of an index that says nothing valid; false when someone is about to change that,
    /// `None` where files have no such locks.
    ///
    /// Whoever makes the index valid then starts from a log of which nothing is in the database, and can
    /// put nothing there as long as the mark is locked. Without the lock of writers it might be one who
    /// is halfway through telling of a log that is there, and is about to begin it anew.
    fn lock_invalid(&self) -> Result<Option<bool>, Error> {
        match self.file.lock_bytes(WRITE_LOCK, 1, ByteLock::Shared)? {
            Some(true) => {}
            other => return Ok(other),
        }
        let locked = self.file.lock_bytes(READ_LOCK, 1, ByteLock::Shared);
        let valid = read_index(&*self.file);
        self.file.lock_bytes(WRITE_LOCK, 1, ByteLock::None)?;
        let locked = locked? == Some(true);
        if locked && valid?.is_some() {
            self.file.lock_bytes(READ_LOCK, 1, ByteLock::None)?;
            return Ok(Some(false));
        }
        Ok(Some(locked))
    }

    /// The place of a read mark that covers no frame past the state's last, and as many as can be:
    /// one that is there, or one that nobody uses and is set. 0 when there is none.
    fn mark(&self, shared: &mut WalIndex) -> Result<usize, Error> {
        let places = 1..READ_MARKS;
        let fits = |place: &usize| shared.marks[*place] <= shared.frames;
        let best = places.clone().filter(fits).max_by_key(|place| shared.marks[*place]);
        if best.is_some_and(|place| shared.marks[place] == shared.frames) || !self.writable {
            return Ok(best.unwrap_or(0));
        }
        for place in places {
            let byte = READ_LOCK + place as u64;
            if self.file.lock_bytes(byte, 1, ByteLock::Exclusive)? != Some(true) {
                continue;
            }
            let (at, bytes) = read_mark(place, shared.frames);
            let written = self.file.write_at(&bytes, at);
            self.file.lock_bytes(byte, 1, ByteLock::None)?;
            written?;
            shared.marks[place] = shared.frames;
            return Ok(place);
        }
        Ok(best.unwrap_or(0))
    }
}

type Scanned = (FxHashMap<Pgno, u64>, Option<u32>, u32);

/// The places of the pages of all committed transactions, the database's pages with them, and how
/// many frames they have.
fn scan(log: &dyn File, start: &WalStart) -> Result<Scanned, Error> {
    let mut places = FxHashMap::default();
    let (mut count, mut frames) = (None, 0);
    let mut pending = Vec::new();
    let mut checksum = start.checksum;
    let mut frame = vec![0; FrameHeader::SIZE + start.page_size as usize];
    let mut number = 1;
    loop {
        let at = WalStart::frame_offset(start.page_size, number);
        if log.read_at(&mut frame, at)? < frame.len() {
            return Ok((places, count, frames));
        }
        let Some(found) = Frame::parse(&frame, start.salt, &mut checksum) else {
            return Ok((places, count, frames));
        };
        pending.push((found.pgno, at + FrameHeader::SIZE as u64));
        if let Some(pages) = found.commits {
            places.extend(pending.drain(..));
            count = Some(pages);
            frames = number;
        }
        number += 1;
    }
}

fn open_log(store: &Inner) -> Result<Option<Arc<dyn File>>, Error> {
    match store.vfs.open(&beside(&store.real_path, "-wal"), OpenMode::ReadOnly) {
        Ok(log) => Ok(Some(Arc::from(log))),
        Err(VfsError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the index's header; it is written to without a lock, but in an order that two equal
/// readings around the count of backfilled frames tell.
fn read_index(index: &dyn File) -> Result<Option<WalIndex>, Error> {
    // A writer is done in a moment; one that crashed halfway leaves it invalid for good.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let read = || -> Result<Option<WalIndex>, Error> {
            let mut bytes = [0; SIZE];
            let length = index.read_at(&mut bytes, 0)?;
            Ok(WalIndex::parse(&bytes).filter(|_| length == SIZE))
        };
        if index.size()? < SIZE as u64 {
            return Ok(None);
        }
        let (first, second) = (read()?, read()?);
        if let (Some(first), Some(second)) = (first, second)
            && first.is_same_log(&second)
        {
            return Ok(Some(first));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// The file's state with the log: its header is that of page 1 in the log, if it is there.
fn state(
    store: &Inner,
    pages: &WalPages,
    page_count: u32,
    file: FileState,
) -> Result<FileState, Error> {
    let mut header = [0; FileHeader::SIZE];
    if !pages.read(Pgno::FIRST, &mut header)? {
        store.file.read_at(&mut header, 0)?;
    }
    if !FileHeader::is_database(&header) {
        return Err(Error::NotADatabase { path: store.path.clone() });
    }
    let header = FileHeader::parse(&header)?;
    if header.page_size != file.header.page_size {
        return Err(Error::busy(&store.path));
    }
    checked(store, pages, FileState { header, page_count })
}

/// Refuses a state with pages that are neither in the file nor in the log: what is kept of a state
/// grows with its pages. Whoever adds a page writes it to the log, also one that is free at once;
/// only that of the lock is in neither. Cost: asks for the size of the file.
fn checked(store: &Inner, pages: &WalPages, file: FileState) -> Result<FileState, Error> {
    let in_file = store.file.size()?.div_ceil(u64::from(file.header.page_size));
    let most = in_file.saturating_add(pages.places.len() as u64).saturating_add(1);
    if u64::from(file.page_count) <= most {
        return Ok(file);
    }
    let why = "states more pages than the file and its log have";
    Err(Corrupt::new("file header", why, u64::from(file.page_count)).into())
}
