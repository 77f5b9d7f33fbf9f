//! Reading a database in write-ahead log mode while others write to it.
//!
//! What a reader needs is that neither the frames it reads nor the pages it takes from the database
//! file change under it. It holds the shared lock on the first read lock of the log's index
//! (`-shm`), which keeps every checkpoint from writing into the database. Then either
//!
//! - the whole log was in the database already: the log is not looked at, whatever becomes of it; or
//! - it was not, and cannot come to be while the lock is held; so nobody begins the log anew, and
//!   the frames that were committed stay.
//!
//! Where nobody shares an index, none is made: after each page that is read from the file it is
//! checked that there is still none, as whoever writes makes one first.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_format::wal::{Frame, FrameHeader, WalHeader, WalStart};
use shoal_format::wal_index::{READ_LOCK, SIZE, WalIndex};
use shoal_format::{FileHeader, Pgno};
use shoal_vfs::{ByteLock, File, OpenMode, VfsError};

use crate::Error;
use crate::header::{FileState, beside};
use crate::store::Inner;

/// Where the newest version of each page of the log is.
#[derive(Clone)]
pub(crate) struct WalPages {
    /// `None` when all of the log is in the database.
    log: Option<Arc<dyn File>>,
    /// Offsets of page images in the log.
    places: Arc<FxHashMap<Pgno, u64>>,
    /// Nobody shares an index, so nothing keeps a checkpoint away.
    unguarded: bool,
}

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
    index: Option<Box<dyn File>>,
    locked: bool,
    known: Option<Known>,
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
}

impl fmt::Debug for WalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalState").field("locked", &self.locked).finish_non_exhaustive()
    }
}

impl WalState {
    /// Lets checkpoints write again.
    pub(crate) fn unlock(&mut self) -> Result<(), VfsError> {
        if std::mem::take(&mut self.locked)
            && let Some(index) = &self.index
        {
            index.lock_bytes(READ_LOCK, 1, ByteLock::None)?;
        }
        Ok(())
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
        if store.vfs.size(&index_path)?.is_none() {
            self.index = None;
        } else if self.index.is_none() {
            self.index = match store.vfs.open(&index_path, OpenMode::ReadOnly) {
                Ok(index) => Some(index),
                Err(VfsError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
        }
        let Some(index) = &self.index else {
            self.known = None;
            return self.alone(store, file, true);
        };
        match index.lock_bytes(READ_LOCK, 1, ByteLock::Shared)? {
            // A checkpoint is writing.
            Some(false) => return Err(Error::busy(&store.path)),
            Some(true) => self.locked = true,
            // Files without such locks are one process's own.
            None => {}
        }
        let Some(shared) = read_index(&**index)? else {
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
            return Ok(WalSnapshot { file: before, pages, unchanged: true });
        }
        let pages = match whole {
            true => WalPages { log: None, places: Arc::default(), unguarded: false },
            false => self.extend(store, &shared)?,
        };
        let file = state(store, &pages, shared.page_count, file)?;
        self.known = Some(Known { salt: shared.salt, frames: shared.frames, pages: pages.clone() });
        Ok(WalSnapshot { file, pages, unchanged: false })
    }

    /// The pages of the log's first frames, of which the index says how many are committed.
    fn extend(&self, store: &Inner, shared: &WalIndex) -> Result<WalPages, Error> {
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
        }
        Ok(WalPages { log: Some(log), places: Arc::new(places), unguarded: false })
    }

    /// The state of a log whose index says nothing: what its checksums vouch for.
    fn alone(&self, store: &Inner, file: FileState, unguarded: bool) -> Result<WalSnapshot, Error> {
        let mut pages = WalPages { log: None, places: Arc::default(), unguarded };
        let mut page_count = None;
        if let Some(log) = open_log(store)? {
            let mut header = [0; WalHeader::SIZE];
            let length = log.read_at(&mut header, 0)?;
            let start = WalStart::parse(&header).filter(|_| length == header.len());
            if let Some(start) = start.filter(|it| it.page_size == file.header.page_size) {
                let (places, count) = scan(&*log, &start)?;
                page_count = count;
                pages.places = Arc::new(places);
                pages.log = Some(log);
            }
        }
        let file = match page_count {
            Some(count) => state(store, &pages, count, file)?,
            None => file,
        };
        Ok(WalSnapshot { file, pages, unchanged: false })
    }
}

/// The places of the pages of all committed transactions, and the database's pages with them.
fn scan(log: &dyn File, start: &WalStart) -> Result<(FxHashMap<Pgno, u64>, Option<u32>), Error> {
    let mut places = FxHashMap::default();
    let mut count = None;
    let mut pending = Vec::new();
    let mut checksum = start.checksum;
    let mut frame = vec![0; FrameHeader::SIZE + start.page_size as usize];
    let mut number = 1;
    loop {
        let at = WalStart::frame_offset(start.page_size, number);
        if log.read_at(&mut frame, at)? < frame.len() {
            return Ok((places, count));
        }
        let Some(found) = Frame::parse(&frame, start.salt, &mut checksum) else {
            return Ok((places, count));
        };
        pending.push((found.pgno, at + FrameHeader::SIZE as u64));
        if let Some(pages) = found.commits {
            places.extend(pending.drain(..));
            count = Some(pages);
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
        let (first, second) = (read()?, read()?);
        if let (Some(first), Some(second)) = (first, second)
            && (WalIndex { backfilled: 0, ..first }) == (WalIndex { backfilled: 0, ..second })
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
    Ok(FileState { header, page_count })
}
