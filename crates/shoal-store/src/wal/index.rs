//! The log's index as opened by this process: its words, and the locks on its bytes.
//!
//! The format of the index is in [`shoal_format::wal_index`]. Locks belong to the open file, not to
//! their users in this process, so this module counts the holders of each and refuses an exclusive
//! lock on bytes shared within the process.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use shoal_format::wal_index::{
    BACKFILL_ATTEMPTED, BACKFILLED, FramePlace, HEADER_WORDS, IndexHeader, MARKS, OPEN_LOCK,
    READ_LOCK, READ_MARKS, SLOT_WORDS, SLOTS, UNUSED_MARK, first_slot, first_word, frames_before,
    slot_of, with_slot,
};
use shoal_format::{Corrupt, Pgno};
use shoal_vfs::{ByteLock, File, OpenMode, SharedBlock, VfsError};

use crate::Error;
use crate::store::Inner;

/// The log's index, open.
pub(super) struct Index {
    file: Box<dyn File>,
    /// True when words can be stored.
    pub(super) writable: bool,
    /// True when the contents come from connections having the index open, or this process has
    /// rebuilt them. An index nobody has open may date from before a crash of the machine; a
    /// process unable to rebuild the index does not look inside, and does not vouch for it by a
    /// lock on [`OPEN_LOCK`].
    pub(super) is_joined: bool,
    blocks: RwLock<Vec<SharedBlock>>,
    held: Mutex<Held>,
}

/// The locks held by this process through this index.
#[derive(Default)]
struct Held {
    /// How many transactions hold each read mark's lock.
    shared: [u32; READ_MARKS],
    /// One bit for each byte from [`FIRST_BYTE`] on, set while held exclusively.
    exclusive: u8,
}

/// The first of the eight bytes locked for a time.
const FIRST_BYTE: u64 = shoal_format::wal_index::WRITE_LOCK;

/// The outcome of opening an index.
pub(super) enum Opened {
    Open(Index),
    /// There is none, or none can be made.
    Missing,
}

impl Index {
    /// Opens the index at `path`; makes a missing one if `create`. The database's shared lock is
    /// held, so nobody removes the index meanwhile.
    pub(super) fn open(store: &Inner, path: &Path, create: bool) -> Result<Opened, Error> {
        let first =
            if create { OpenMode::CreateLike(&store.real_path) } else { OpenMode::ReadWrite };
        for (mode, writable) in [(first, true), (OpenMode::ReadOnly, false)] {
            let file = match store.vfs.open(path, mode) {
                Ok(file) => file,
                Err(VfsError::NotFound { .. }) => return Ok(Opened::Missing),
                Err(VfsError::PermissionDenied { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let (blocks, held) = (RwLock::default(), Mutex::default());
            let mut index = Index { file, writable, is_joined: false, blocks, held };
            index.is_joined = index.join(store)?;
            return Ok(Opened::Open(index));
        }
        Ok(Opened::Missing)
    }

    /// Locks the byte of all who have the index open. With nobody else there the contents are
    /// erased: they date from before a crash, and after a crash of the machine they may be
    /// anything. False when the contents should be erased but cannot be written.
    fn join(&self, store: &Inner) -> Result<bool, Error> {
        for attempt in 0..TRIES {
            let alone = !self.file.is_locked_elsewhere(OPEN_LOCK)?;
            if alone && !self.writable {
                return Ok(false);
            }
            if alone && self.file.lock_bytes(OPEN_LOCK, 1, ByteLock::Exclusive)? == Some(true) {
                self.file.truncate(0)?;
            }
            // From exclusive to shared there is no moment without a lock.
            match self.file.lock_bytes(OPEN_LOCK, 1, ByteLock::Shared)? {
                Some(false) => pause(attempt),
                _ => return Ok(true),
            }
        }
        Err(Error::busy(&store.path))
    }

    /// True while `path` still names this index: the last one to close a database removes the file.
    pub(super) fn is_at(&self, path: &Path) -> Result<bool, Error> {
        Ok(self.file.is_at(path)?)
    }

    /// True when another process holds the lock of writers.
    pub(super) fn is_written_elsewhere(&self) -> Result<bool, Error> {
        Ok(self.file.is_locked_elsewhere(FIRST_BYTE)?)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shared lock of read mark `mark`; false when somebody holds an exclusive one.
    pub(super) fn lock_mark(&self, mark: usize) -> Result<bool, Error> {
        let mut held = self.held();
        let byte = READ_LOCK + mark as u64;
        if held.exclusive & bit(byte) != 0 {
            return Ok(false);
        }
        if held.shared[mark] == 0 && self.file.lock_bytes(byte, 1, ByteLock::Shared)? == Some(false)
        {
            return Ok(false);
        }
        held.shared[mark] += 1;
        Ok(true)
    }

    /// Releases the lock of [`Index::lock_mark`].
    pub(super) fn unlock_mark(&self, mark: usize) {
        let mut held = self.held();
        held.shared[mark] -= 1;
        if held.shared[mark] == 0 {
            // A failed unlock only makes others wait, and ends when the file is closed.
            let _ = self.file.lock_bytes(READ_LOCK + mark as u64, 1, ByteLock::None);
        }
    }

    /// Locks `count` bytes from `first` exclusively; false when anybody holds one of them, here or
    /// elsewhere.
    pub(super) fn lock(&self, first: u64, count: u64) -> Result<bool, Error> {
        let mut held = self.held();
        let bits = (first..first + count).fold(0, |bits, byte| bits | bit(byte));
        let shared = (0..READ_MARKS).filter(|mark| held.shared[*mark] > 0);
        let in_the_way =
            shared.fold(held.exclusive, |all, mark| all | bit(READ_LOCK + mark as u64));
        if in_the_way & bits != 0
            || self.file.lock_bytes(first, count, ByteLock::Exclusive)? == Some(false)
        {
            return Ok(false);
        }
        held.exclusive |= bits;
        Ok(true)
    }

    /// Releases the locks of [`Index::lock`].
    pub(super) fn unlock(&self, first: u64, count: u64) {
        let mut held = self.held();
        held.exclusive &= !(first..first + count).fold(0, |bits, byte| bits | bit(byte));
        // As in `unlock_mark`.
        let _ = self.file.lock_bytes(first, count, ByteLock::None);
    }

    /// Block `number`; with `grow` the file is extended to have the block.
    fn block(&self, number: usize, grow: bool) -> Result<SharedBlock, Error> {
        if let Some(block) = self.known_blocks().get(number) {
            return Ok(block.clone());
        }
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        while blocks.len() <= number {
            let place = blocks.len();
            let Some(block) = self.file.share(place, grow)? else {
                let why = "has no block for a frame that it counts, block";
                return Err(Corrupt::new("log index", why, place as u64).into());
            };
            blocks.push(block);
        }
        Ok(blocks[number].clone())
    }

    fn known_blocks(&self) -> std::sync::RwLockReadGuard<'_, Vec<SharedBlock>> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the first block; `None` where there is none yet and none can be made.
    fn with_first<T>(&self, work: impl Fn(&SharedBlock) -> T) -> Result<Option<T>, Error> {
        if let Some(block) = self.known_blocks().first() {
            return Ok(Some(work(block)));
        }
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        if blocks.is_empty() {
            match self.file.share(0, self.writable)? {
                Some(block) => blocks.push(block),
                None => return Ok(None),
            }
        }
        Ok(blocks.first().map(work))
    }

    /// The first block's word `place`, of the header's page.
    fn word(&self, place: usize) -> Result<u32, Error> {
        Ok(self.with_first(|block| block.load(place))?.unwrap_or(0))
    }

    fn set_word(&self, place: usize, word: u32) -> Result<(), Error> {
        self.block(0, true)?.store(place, word);
        Ok(())
    }

    /// The header, if its two copies are whole and equal.
    pub(super) fn header(&self) -> Result<Option<IndexHeader>, Error> {
        let read = self.with_first(|block| {
            let copy = |start| -> [u32; HEADER_WORDS] {
                std::array::from_fn(|place| block.load(start + place))
            };
            // In the other order than they are written.
            let first = copy(0);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            (first == copy(HEADER_WORDS)).then(|| IndexHeader::parse(&first)).flatten()
        })?;
        Ok(read.flatten())
    }

    /// Tells everybody of a state of the log. Readers trust two equal copies only.
    pub(super) fn publish(&self, header: &IndexHeader) -> Result<(), Error> {
        let block = self.block(0, true)?;
        let words = header.words();
        for start in [HEADER_WORDS, 0] {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            for (place, word) in words.iter().enumerate() {
                block.store(start + place, *word);
            }
        }
        Ok(())
    }

    /// Number of the log's frames already in the database.
    pub(super) fn backfilled(&self) -> Result<u32, Error> {
        self.word(BACKFILLED)
    }

    pub(super) fn set_backfilled(&self, frames: u32) -> Result<(), Error> {
        self.set_word(BACKFILLED, frames)
    }

    pub(super) fn set_backfill_attempted(&self, frames: u32) -> Result<(), Error> {
        self.set_word(BACKFILL_ATTEMPTED, frames)
    }

    /// The frame number in read mark `mark`.
    pub(super) fn mark(&self, mark: usize) -> Result<u32, Error> {
        self.word(MARKS + mark)
    }

    pub(super) fn set_mark(&self, mark: usize, frames: u32) -> Result<(), Error> {
        self.set_word(MARKS + mark, frames)
    }

    /// Sets the marks for a new log.
    pub(super) fn reset_marks(&self) -> Result<(), Error> {
        self.set_mark(1, 0)?;
        (2..READ_MARKS).try_for_each(|mark| self.set_mark(mark, UNUSED_MARK))
    }

    /// The page of frame `number`; `None` for a frame missing from the index.
    pub(super) fn page_of(&self, number: u32) -> Result<Option<Pgno>, Error> {
        let place = FramePlace::of(number);
        if let Some(block) = self.known_blocks().get(place.block) {
            return Ok(Pgno::new(block.load(place.word)));
        }
        Ok(Pgno::new(self.block(place.block, false)?.load(place.word)))
    }

    /// The last frame of page `pgno` among the first `frames`.
    pub(super) fn find(&self, pgno: Pgno, frames: u32) -> Result<Option<u32>, Error> {
        if frames == 0 {
            return Ok(None);
        }
        for number in (0..=FramePlace::of(frames).block).rev() {
            let block = self.block(number, false)?;
            let before = frames_before(number);
            let mut found = 0;
            let mut slot = first_slot(pgno.get());
            // A table without an empty slot is invalid; one being written by others has one
            // in time.
            for _ in 0..SLOTS {
                let entry = slot_of(block.load(SLOT_WORDS + slot as usize / 2), slot);
                if entry == 0 {
                    break;
                }
                let frame = before + u32::from(entry);
                let word = first_word(number) + usize::from(entry) - 1;
                if frame <= frames && word < SLOT_WORDS && block.load(word) == pgno.get() {
                    found = found.max(frame);
                }
                slot = (slot + 1) % SLOTS;
            }
            if found > 0 {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Makes room for frame `number`: [`Index::append`] must not fail for lack of room.
    pub(super) fn reserve(&self, number: u32) -> Result<(), Error> {
        self.block(FramePlace::of(number).block, true).map(drop)
    }

    /// Notes page `pgno` for frame `number`. With the lock of writers held; frames come in order.
    pub(super) fn append(&self, number: u32, pgno: Pgno) -> Result<(), Error> {
        let place = FramePlace::of(number);
        let block = self.block(place.block, true)?;
        if place.entry == 1 {
            for word in first_word(place.block)..SharedBlock::LEN {
                block.store(word, 0);
            }
        }
        let mut slot = first_slot(pgno.get());
        for _ in 0..SLOTS {
            let at = SLOT_WORDS + slot as usize / 2;
            let word = block.load(at);
            if slot_of(word, slot) == 0 {
                // A reader who finds the entry finds its page.
                block.store(place.word, pgno.get());
                block.store(at, with_slot(word, slot, place.entry));
                return Ok(());
            }
            slot = (slot + 1) % SLOTS;
        }
        let why = "has a hash table without an empty place, block";
        Err(Corrupt::new("log index", why, place.block as u64).into())
    }

    /// True when frame `number` is already noted for page `pgno` and can be found by the page.
    pub(super) fn is_told(&self, number: u32, pgno: Pgno) -> Result<bool, Error> {
        let place = FramePlace::of(number);
        let block = self.block(place.block, true)?;
        let mut slot = first_slot(pgno.get());
        for _ in 0..SLOTS {
            match slot_of(block.load(SLOT_WORDS + slot as usize / 2), slot) {
                0 => return Ok(false),
                entry if entry == place.entry => return Ok(block.load(place.word) == pgno.get()),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
        Ok(false)
    }

    /// Erases notes on frames after the first `frames`, left by a crashed writer.
    pub(super) fn forget_after(&self, frames: u32) -> Result<(), Error> {
        let next = FramePlace::of(frames.saturating_add(1));
        // The first frame of a block empties the block.
        if next.entry == 1 {
            return Ok(());
        }
        let block = self.block(next.block, true)?;
        if block.load(next.word) == 0 {
            return Ok(());
        }
        for word in SLOT_WORDS..SharedBlock::LEN {
            let old = block.load(word);
            let kept = [0, 1].into_iter().fold(old, |kept, slot| {
                if slot_of(kept, slot) < next.entry { kept } else { with_slot(kept, slot, 0) }
            });
            if kept != old {
                block.store(word, kept);
            }
        }
        for word in next.word..SLOT_WORDS {
            block.store(word, 0);
        }
        Ok(())
    }
}

/// Tries before one who is in the way for a moment counts as one who is there to stay.
pub(super) const TRIES: u32 = 100;

/// Waits a little, longer after many tries: all of [`TRIES`] take ten seconds, as in SQLite. On a
/// busy machine a process may be kept from running for a second while it is in the way.
pub(super) fn pause(attempt: u32) {
    match attempt {
        0..10 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(39 * u64::from(attempt - 9).pow(2))),
    }
}

fn bit(byte: u64) -> u8 {
    u8::try_from(byte - FIRST_BYTE).map_or(0, |place| 1 << place)
}
