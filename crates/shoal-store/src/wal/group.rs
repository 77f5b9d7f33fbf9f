//! Group commit: transactions of one store that commit at the same time share a sync.
//!
//! A writer appends its frames, enters them into the index's tables, and lets the next writer begin
//! on its pages before anything is durable. One of the waiting writers syncs the log for all frames
//! appended so far, moves the index's header past them, and all of their commits return. So:
//!
//! - Nobody reads frames before their sync: readers, here and elsewhere, go by the index's header.
//! - The index's lock of writers stays held from the group's first append to its last sync. Given
//!   up earlier, another process would append behind the header, over the group's frames.
//! - A group ends after [`AGE_MAX`], or other processes would never write.
//! - A failed sync fails every commit behind it, and latches the store.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use shoal_format::wal::{FrameHeader, WalStart};
use shoal_format::wal_index::IndexHeader;

use super::{CheckpointMode, Log, LogView, Source};
use crate::Error;
use crate::header::FileState;
use crate::image::{Image, Snapshot};
use crate::store::{Inner, State};

/// No writer joins a group older than this.
const AGE_MAX: Duration = Duration::from_millis(20);

/// Appended commits of a store, from the first one not durable yet.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The state behind the last appended commit; `None` when all are durable.
    pending: Option<Pending>,
    /// One of the committing threads syncs the log.
    is_syncing: bool,
    /// When this store took the lock of writers.
    began: Option<Instant>,
    /// Commits appended since then.
    count: u32,
    /// Threads waiting for their commit to be durable.
    pub(crate) waiting: usize,
    /// Numbers of commits: the last one appended, the last one durable, and the last one lost.
    appended: u64,
    durable: u64,
    lost: u64,
}

/// A state told to nobody.
#[derive(Debug)]
struct Pending {
    header: IndexHeader,
    file: FileState,
    /// `None` while a writer has it.
    image: Option<Arc<Image>>,
}

impl Group {
    /// True with commits not durable yet.
    pub(crate) fn is_open(&self) -> bool {
        self.pending.is_some()
    }

    /// The lock of writers was taken.
    pub(crate) fn begin(&mut self) {
        self.began = Some(Instant::now());
        self.count = 0;
    }

    /// The pages behind the last appended commit go to the next writer alone.
    pub(crate) fn forget_image(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.image = None;
        }
    }

    /// Notes an appended commit and returns its number.
    pub(crate) fn append(&mut self, header: IndexHeader, file: FileState, image: Image) -> u64 {
        self.appended += 1;
        self.count += 1;
        self.pending = Some(Pending { header, file, image: Some(Arc::new(image)) });
        self.appended
    }
}

impl Inner {
    /// Begins a writing transaction behind the appended commits of others; `None` where all are
    /// durable.
    pub(crate) fn begin_in_group(&self) -> Result<Option<(FileState, Snapshot)>, Error> {
        let mut state = self.state();
        let Some(pending) = &state.wal.group.pending else { return Ok(None) };
        let is_old = state.wal.group.began.is_none_or(|began| began.elapsed() > AGE_MAX);
        if state.writer || state.committing || is_old {
            return Err(Error::busy(&self.path));
        }
        if state.latched {
            return Err(Error::Latched { path: self.path.clone() });
        }
        let (header, file) = (pending.header, pending.file);
        let image = pending.image.clone().unwrap_or_else(|| Arc::new(Image::read(&file)));
        let Some(log) = state.wal.peer().cloned() else { return Ok(None) };
        // The mark of a state before keeps checkpoints from what this transaction reads, and the
        // lock of writers keeps the log from being begun anew.
        let mut held = log.begin_read(self)?;
        held.header = Some(header);
        let source = Source::Index(log.file(self)?.ok_or_else(|| Error::busy(&self.path))?);
        let version = (header.salt, header.frames);
        let view = LogView { source, version, held: Some(Arc::new(held)) };
        state.transactions += 1;
        state.writer = true;
        let (log, counts) = (Some(view), state.counts());
        Ok(Some((file, Snapshot { image, mapping: None, log, counts })))
    }

    /// Waits until commit `number` is durable, syncing for all if nobody else does.
    ///
    /// # Errors
    /// [`Error::InDoubt`] after a failed sync.
    pub(crate) fn wait_durable(&self, log: &Arc<Log>, number: u64) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            let group = &mut state.wal.group;
            if group.durable >= number {
                return Ok(());
            }
            if group.lost >= number {
                let what = "a sync of the log failed for several commits at once";
                return Err(self.in_doubt(Error::Misuse(what)));
            }
            let Some(pending) = group.pending.as_ref().filter(|_| !group.is_syncing) else {
                state = self.wait_for_change(state);
                continue;
            };
            let (header, file, target) = (pending.header, pending.file, group.appended);
            group.is_syncing = true;
            drop(state);
            let synced = self.sync_log(log).and_then(|()| log.index.publish(&header));
            state = self.state();
            state.wal.group.is_syncing = false;
            match synced {
                Ok(()) => state = self.published(state, log, header, file, target),
                Err(error) => {
                    self.lost(&mut state, log);
                    self.changed(&mut state);
                    return Err(self.in_doubt(error));
                }
            }
            self.changed(&mut state);
        }
    }

    fn sync_log(&self, log: &Log) -> Result<(), Error> {
        let file = log.file(self)?.ok_or_else(|| Error::busy(&self.path))?;
        log.sync(self, &*file)
    }

    /// Commits up to number `target` are durable and told.
    fn published<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        log: &Arc<Log>,
        header: IndexHeader,
        file: FileState,
        target: u64,
    ) -> MutexGuard<'s, State> {
        state.wal.group.durable = target;
        state.made(&file, Some((header.salt, header.frames)));
        if state.wal.group.appended > target {
            return state;
        }
        let image = state.wal.group.pending.take().and_then(|pending| pending.image);
        if let Some(image) = image {
            state.forget();
            state.file = Some(file);
            state.image = Some(image);
            state.wal.committed(header);
        }
        if state.writer {
            return state;
        }
        let at = self.settings().wal_autocheckpoint;
        if state.wal.group.count > 1 && at > 0 && header.frames >= at {
            // Where commits follow each other closely a checkpoint beside them never reaches the
            // end, and the log would grow without end. So nobody appends meanwhile.
            state.writer = true;
            drop(state);
            let _ = log.checkpoint(self, CheckpointMode::Passive, &|| false);
            state = self.state();
            state.writer = false;
        }
        if !state.wal.keeps_writing {
            log.end_write();
        }
        state
    }

    /// After a failed sync: nobody knows which of the frames are durable. Where erasing the first
    /// of them succeeds, a rebuilt index finds none.
    fn lost(&self, state: &mut State, log: &Arc<Log>) {
        state.latched = true;
        state.wal.group.lost = state.wal.group.appended;
        state.wal.group.pending = None;
        state.forget();
        if let (Ok(Some(file)), Ok(Some(known))) = (log.file(self), log.index.header()) {
            let at = WalStart::frame_offset(known.page_size, known.frames + 1);
            let _ = file.write_at(&[0; FrameHeader::SIZE], at);
        }
        if !state.writer && !state.wal.keeps_writing {
            log.end_write();
        }
    }

    fn in_doubt(&self, error: Error) -> Error {
        Error::InDoubt { path: self.path.clone(), source: Box::new(error) }
    }
}
