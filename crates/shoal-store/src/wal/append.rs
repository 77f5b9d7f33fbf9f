//! A commit to the log: frames, a sync, then the index.
//!
//! 1. A log checkpointed in full and without readers begins anew: another salt, and a header made
//!    durable before any frame.
//! 2. The changed pages are appended as frames; the last frame marks the end of the transaction.
//!    The frames are made durable: the commit point.
//! 3. The index tells everybody. Nobody reads the frames before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shoal_format::wal::{Checksum, Frame, FrameHeader, WalHeader, WalStart};
use shoal_format::wal_index::{IndexHeader, READ_LOCK, READ_MARKS};
use shoal_vfs::File;

use super::{Held, Log, LogView, NO_LOG, Source};
use crate::Error;
use crate::header::folder_of;
use crate::page::PageRef;
use crate::settings::Synchronous;
use crate::store::Inner;

/// Bytes of frames gathered before a write.
const BATCH_BYTES: usize = 1 << 20;

/// A transaction's part of the log, ready to append.
pub(crate) struct Append<'a> {
    pub(crate) store: &'a Inner,
    /// The state at the beginning of the transaction, unchanged since.
    pub(crate) view: &'a LogView,
    /// By ascending number.
    pub(crate) pages: &'a [PageRef],
    /// Their stored forms; none without a codec.
    pub(crate) stored: &'a [Arc<[u8]>],
    pub(crate) page_size: u32,
    /// Pages of the database afterwards.
    pub(crate) page_count: u32,
    pub(crate) synchronous: Synchronous,
}

impl Append<'_> {
    /// Appends with the lock of writers held, and returns the new state. With `publishes` everybody
    /// reads it at once; otherwise after a sync and [`super::group`]'s word.
    ///
    /// # Errors
    /// [`Error::InDoubt`] when the frames were written whole: a rebuild of the index may find them.
    /// After any other error nothing was committed.
    pub(crate) fn run(&self, publishes: bool) -> Result<IndexHeader, Error> {
        let invariant = "a transaction that writes to a log holds a mark of it";
        let held: &Held = self.view.held.as_deref().expect(invariant);
        let mut header = held.header.expect(invariant);
        let log = &held.log;
        let file = log.file(self.store)?.ok_or_else(|| Error::busy(&self.store.path))?;
        if matches!(self.view.source, Source::Database) && header.frames > 0 {
            log.begin_anew(self.store, &mut header)?;
        }
        if header.frames == 0 {
            self.write_start(log, &*file, &mut header)?;
        }
        let first = header.frames + 1;
        let count = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        let last = header.frames.checked_add(count).ok_or(TOO_LONG)?;
        for block_end in (first..last).step_by(1000).chain([last]) {
            log.index.reserve(block_end)?;
        }
        log.index.forget_after(header.frames)?;
        let at = WalStart::frame_offset(self.page_size, first);
        let (big_endian, salt) = (header.big_endian, header.salt);
        let mut checksum = Checksum { big_endian, sums: header.checksum };
        if let Err(error) = self.write_frames(&*file, at, salt, &mut checksum) {
            return Err(self.take_back(&*file, at, error));
        }
        header.change = header.change.wrapping_add(1);
        header.page_size = self.page_size;
        header.frames = last;
        header.page_count = self.page_count;
        header.checksum = checksum.sums;
        self.publish(log, first, &header, publishes).map_err(|error| self.doubt(error))?;
        Ok(header)
    }

    /// Enters the frames from `first` on into the index, and with `publishes` tells everybody.
    fn publish(
        &self,
        log: &Log,
        first: u32,
        header: &IndexHeader,
        publishes: bool,
    ) -> Result<(), Error> {
        for (number, page) in (first..).zip(self.pages) {
            log.index.append(number, page.pgno)?;
        }
        if publishes { log.index.publish(header) } else { Ok(()) }
    }

    /// Writes the log's own header, durable before the first frame: otherwise the frames of the
    /// previous log could be taken for this one's.
    fn write_start(
        &self,
        log: &Log,
        file: &dyn File,
        header: &mut IndexHeader,
    ) -> Result<(), Error> {
        let mut old = [0; WalHeader::SIZE];
        let length = file.read_at(&mut old, 0)?;
        let old = WalStart::parse(&old).filter(|_| length == WalHeader::SIZE);
        let checkpoint = old.map_or(0, |old| old.checkpoint.wrapping_add(1));
        if header.salt == NO_LOG.0 || old.is_some_and(|old| old.salt == header.salt) {
            self.store.options.entropy.fill(&mut header.salt);
        }
        let (bytes, start) = WalStart::create(self.page_size, checkpoint, header.salt);
        file.write_at(&bytes, 0)?;
        if self.synchronous > Synchronous::Off {
            log.sync(self.store, file)?;
        }
        header.big_endian = start.checksum.big_endian;
        header.checksum = start.checksum.sums;
        Ok(())
    }

    fn write_frames(
        &self,
        file: &dyn File,
        mut at: u64,
        salt: [u8; 8],
        checksum: &mut Checksum,
    ) -> Result<(), Error> {
        let frame_len = FrameHeader::SIZE + self.page_size as usize;
        let most = self.pages.len().saturating_mul(frame_len);
        let mut batch = Vec::with_capacity(most.min(BATCH_BYTES + frame_len));
        for (place, page) in self.pages.iter().enumerate() {
            let is_last = place + 1 == self.pages.len();
            let frame = Frame { pgno: page.pgno, commits: is_last.then_some(self.page_count) };
            let bytes = self.stored.get(place).unwrap_or(&page.bytes);
            frame.push(bytes, salt, checksum, &mut batch);
            if batch.len() >= BATCH_BYTES || is_last {
                file.write_at(&batch, at)?;
                at += batch.len() as u64;
                batch.clear();
            }
        }
        Ok(())
    }

    /// After a failed write: makes sure nobody finds frames written in part.
    fn take_back(&self, file: &dyn File, at: u64, error: Error) -> Error {
        // A frame is valid only behind a valid one, so erasing the first frame erases all.
        let gone = match file.size() {
            Ok(size) if size <= at => Ok(()),
            Ok(_) => file.write_at(&[0; FrameHeader::SIZE], at).and_then(|()| file.sync()),
            Err(error) => Err(error),
        };
        match gone {
            Ok(()) => error,
            Err(_) => self.doubt(error),
        }
    }

    fn doubt(&self, error: Error) -> Error {
        Error::InDoubt { path: self.store.path.clone(), source: Box::new(error) }
    }
}

const TOO_LONG: Error = Error::Limit { what: "frames of a log", max: u32::MAX as u64 };

impl Log {
    /// Makes the log durable; once for an open log its name, too, which somebody may have created
    /// without a sync.
    pub(super) fn sync(&self, store: &Inner, file: &dyn File) -> Result<(), Error> {
        file.sync()?;
        if !self.has_durable_name.load(Ordering::Relaxed) {
            store.vfs.sync_dir(folder_of(&store.real_path))?;
            self.has_durable_name.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Begins the log anew if nobody reads it. The whole log is checkpointed; the lock of writers
    /// is held.
    fn begin_anew(&self, store: &Inner, header: &mut IndexHeader) -> Result<(), Error> {
        let marks = READ_MARKS as u64 - 1;
        if !self.index.lock(READ_LOCK + 1, marks)? {
            return Ok(());
        }
        let begun = self.restart(store, header);
        self.index.unlock(READ_LOCK + 1, marks);
        begun
    }

    /// With the locks of writers and of all marks but 0 held: the log has no frames from now on.
    pub(super) fn restart(&self, store: &Inner, header: &mut IndexHeader) -> Result<(), Error> {
        let mut random = [0; 4];
        store.options.entropy.fill(&mut random);
        header.salt = WalStart::next_salt(header.salt, random);
        header.frames = 0;
        self.index.publish(header)?;
        self.index.set_backfilled(0)?;
        self.index.set_backfill_attempted(0)?;
        self.index.reset_marks()
    }
}
