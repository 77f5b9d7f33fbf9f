//! Checkpoints: the log's newest pages are copied into the database.
//!
//! A checkpoint goes only as far as no reader needs the database's own pages. Only a checkpoint
//! reaching the log's end makes the database durable and notes the fact in the index; a log begins
//! anew only after such a checkpoint, so a crash in the middle loses nothing.

use rustc_hash::FxHashMap;
use shoal_format::Pgno;
use shoal_format::wal::{FrameHeader, WalStart};
use shoal_format::wal_index::{
    CHECKPOINT_LOCK, IndexHeader, READ_LOCK, READ_MARKS, UNUSED_MARK, WRITE_LOCK,
};

use super::Log;
use crate::Error;
use crate::settings::Synchronous;
use crate::store::Inner;

/// The reach of a checkpoint, and the connections to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckpointMode {
    /// As far as nobody is in the way.
    Passive,
    /// To the end: waits for writers, and for readers of older states.
    Full,
    /// As [`CheckpointMode::Full`], and until nobody reads the log, so the next writer begins a
    /// new log.
    Restart,
    /// As [`CheckpointMode::Restart`], and cuts the log to nothing.
    Truncate,
}

/// The outcome of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Somebody was in the way of the mode asked for.
    pub busy: bool,
    /// Frames of the log, and how many of them are in the database; `None` where there is no log,
    /// or another checkpoint is under way.
    pub frames: Option<(u32, u32)>,
}

/// Bytes of neighbouring pages gathered before a write.
const BATCH_BYTES: usize = 1 << 20;

impl Log {
    /// Runs a checkpoint; `wait` waits a little for whoever is in the way, and says whether to try
    /// again.
    pub(crate) fn checkpoint(
        &self,
        store: &Inner,
        mode: CheckpointMode,
        wait: &dyn Fn() -> bool,
    ) -> Result<Checkpoint, Error> {
        let nothing = Checkpoint { busy: true, frames: None };
        if !self.index.lock(CHECKPOINT_LOCK, 1)? {
            return Ok(nothing);
        }
        let waits = mode > CheckpointMode::Passive;
        // A checkpoint unable to keep writers out goes on as a passive one.
        let writes = waits
            && self.lock_waiting(WRITE_LOCK, 1, wait).inspect_err(|_| {
                self.index.unlock(CHECKPOINT_LOCK, 1);
            })?;
        let done = self.locked_checkpoint(store, if writes { mode } else { PASSIVE }, wait);
        if writes {
            self.index.unlock(WRITE_LOCK, 1);
        }
        self.index.unlock(CHECKPOINT_LOCK, 1);
        let mut done = done?;
        done.busy |= waits && !writes;
        Ok(done)
    }

    /// With the database's exclusive lock held: checkpoints the whole log. False when that failed.
    pub(super) fn put_away(&self, store: &Inner) -> Result<bool, Error> {
        let done = self.checkpoint(store, PASSIVE, &|| false)?;
        Ok(!done.busy && done.frames.is_some_and(|(frames, moved)| frames == moved))
    }

    fn lock_waiting(&self, first: u64, count: u64, wait: &dyn Fn() -> bool) -> Result<bool, Error> {
        loop {
            if self.index.lock(first, count)? {
                return Ok(true);
            }
            if !wait() {
                return Ok(false);
            }
        }
    }

    fn locked_checkpoint(
        &self,
        store: &Inner,
        mode: CheckpointMode,
        wait: &dyn Fn() -> bool,
    ) -> Result<Checkpoint, Error> {
        let index = &self.index;
        let waits = mode > PASSIVE;
        // A waiting checkpoint holds the lock of writers itself and rebuilds an invalid index
        // under it.
        let header = match index.header()? {
            Some(header) => header,
            None if waits => self.recover_locked(store)?,
            None => match self.header(store)? {
                Some(header) => header,
                None => return Ok(Checkpoint { busy: true, frames: None }),
            },
        };
        if index.backfilled()? < header.frames {
            let safe = self.safe_frames(&header, if waits { wait } else { &|| false })?;
            if index.backfilled()? < safe
                && (if waits {
                    self.lock_waiting(READ_LOCK, 1, wait)?
                } else {
                    index.lock(READ_LOCK, 1)?
                })
            {
                let moved = self.backfill(store, &header, safe);
                index.unlock(READ_LOCK, 1);
                moved?;
            }
        }
        let moved = index.backfilled()?.min(header.frames);
        let mut done = Checkpoint { busy: false, frames: Some((header.frames, moved)) };
        if !waits {
            return Ok(done);
        }
        if moved < header.frames {
            done.busy = true;
        } else if mode >= CheckpointMode::Restart {
            let marks = READ_MARKS as u64 - 1;
            if !self.lock_waiting(READ_LOCK + 1, marks, wait)? {
                done.busy = true;
            } else {
                let cut = match mode {
                    CheckpointMode::Truncate => self.cut(store, header),
                    _ => Ok(()),
                };
                index.unlock(READ_LOCK + 1, marks);
                cut?;
                if mode == CheckpointMode::Truncate {
                    done.frames = Some((0, 0));
                }
            }
        }
        Ok(done)
    }

    /// Makes the index anew where this checkpoint holds both locks already.
    fn recover_locked(&self, store: &Inner) -> Result<IndexHeader, Error> {
        self.index.unlock(CHECKPOINT_LOCK, 1);
        let made = self.recover(store);
        match self.index.lock(CHECKPOINT_LOCK, 1)? {
            true => made,
            false => Err(Error::busy(&store.path)),
        }
    }

    /// The number of frames allowed into the database, limited by the marks of readers. Unused
    /// marks are moved out of the way.
    fn safe_frames(&self, header: &IndexHeader, wait: &dyn Fn() -> bool) -> Result<u32, Error> {
        let (mut safe, mut may_wait) = (header.frames, true);
        for mark in 1..READ_MARKS {
            let at = self.index.mark(mark)?;
            if at >= safe {
                continue;
            }
            let byte = READ_LOCK + mark as u64;
            let unlocked = match may_wait {
                true => self.lock_waiting(byte, 1, wait)?,
                false => self.index.lock(byte, 1)?,
            };
            if unlocked {
                let set = self.index.set_mark(mark, if mark == 1 { safe } else { UNUSED_MARK });
                self.index.unlock(byte, 1);
                set?;
            } else {
                // The mark may have been raised meanwhile, allowing more: the lower value is safe.
                safe = at;
                may_wait = false;
            }
        }
        Ok(safe)
    }

    /// Puts the newest page of each number into the database, of the frames up to `safe`. The lock
    /// of mark 0 is held exclusively.
    fn backfill(&self, store: &Inner, header: &IndexHeader, safe: u32) -> Result<(), Error> {
        let index = &self.index;
        // Between reading the header and taking the lock another checkpoint may have come to the
        // end and a writer begun the log anew. Noting frames of the old log as checkpointed would
        // make later checkpoints skip frames of the new one.
        let live = index.header()?;
        if live.is_none_or(|live| live.salt != header.salt) {
            return Ok(());
        }
        let done = index.backfilled()?;
        index.set_backfill_attempted(safe)?;
        let Some(file) = self.file(store)? else { return Ok(()) };
        let synchronous = store.settings().synchronous;
        if synchronous > Synchronous::Off {
            self.sync(store, &*file)?;
        }
        let mut newest: FxHashMap<Pgno, u32> = FxHashMap::default();
        for number in done + 1..=header.frames {
            if let Some(pgno) = index.page_of(number)?
                && pgno.get() <= header.page_count
            {
                newest.insert(pgno, number);
            }
        }
        // A page with a newer frame, not safe yet, is read from the log by everybody.
        let mut pages: Vec<(Pgno, u32)> =
            newest.into_iter().filter(|(_, number)| *number <= safe).collect();
        pages.sort_unstable();
        let size = header.page_size as usize;
        let mut batch: Vec<u8> = Vec::new();
        let mut batch_at = 0;
        for (pgno, number) in pages {
            let at = pgno.offset(header.page_size);
            if !batch.is_empty()
                && (at != batch_at + batch.len() as u64 || batch.len() >= BATCH_BYTES)
            {
                store.file.write_at(&batch, batch_at)?;
                batch.clear();
            }
            if batch.is_empty() {
                batch_at = at;
            }
            let start = batch.len();
            batch.resize(start + size, 0);
            let place = WalStart::frame_offset(header.page_size, number) + FrameHeader::SIZE as u64;
            file.read_at(&mut batch[start..], place)?;
        }
        if !batch.is_empty() {
            store.file.write_at(&batch, batch_at)?;
        }
        if live.is_some_and(|live| live.frames == safe) {
            let length = u64::from(header.page_count) * u64::from(header.page_size);
            if length < store.file.size()? {
                store.file.truncate(length)?;
            }
            if synchronous > Synchronous::Off {
                store.file.sync()?;
            }
        }
        index.set_backfilled(safe)
    }

    /// With all locks held: the log begins anew, and its file is empty.
    fn cut(&self, store: &Inner, mut header: IndexHeader) -> Result<(), Error> {
        self.restart(store, &mut header)?;
        match self.file(store)? {
            Some(file) => Ok(file.truncate(0)?),
            None => Ok(()),
        }
    }
}

const PASSIVE: CheckpointMode = CheckpointMode::Passive;
