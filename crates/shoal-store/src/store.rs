//! An open database: its file, its cache, and its users.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shoal_format::FileHeader;
use shoal_vfs::{Entropy, File, LockLevel, Mapping, MemVfs, OpenMode, OsEntropy, Vfs, VfsError};

use crate::backup::Followers;
use crate::changes::Changes;
use crate::codec::{CodecRequest, CodecSource, CodedFile, PageCodec, PendingKey};
use crate::header::{FileState, beside};
use crate::image::{Counts, Image, Snapshot};
use crate::settings::{NewFile, Rollback, Settings};
use crate::tuning::Tuning;
use crate::uri::FileUri;
use crate::wal::{Checkpoint, CheckpointMode, LogVersion, LogView, Since, WalState};
use crate::{Error, Transaction, recovery};

/// How a store may use its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The file must exist and is only read.
    ReadOnly,
    /// The file must exist.
    ReadWrite,
    /// A missing file is created, empty.
    Create,
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read; [`Transaction::upgrade`] may follow.
    Read,
    /// Write. Other transactions may still read until the commit.
    Write,
}

/// How a store shares its file with other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// SQLite's locks, taken for each transaction: every transaction begins with the state
    /// committed before by others, and others may write between any two.
    #[default]
    Shared,
    /// The shared lock, taken when the store is opened and kept: others may read, and nobody else
    /// can write as long as the store is open. Beginning a transaction costs no system call. A file
    /// used only for reading is mapped, unless it is short. With a write-ahead log a read-only
    /// store stays at the state it was opened at, and a writable one keeps others from writing from
    /// its first write on.
    Exclusive,
}

/// Shorter files, in bytes, are read page by page and kept: mapping, with the faults and the end of
/// the mapping, costs more than reading the few pages a first statement needs.
const MAPPED_MIN: u64 = 4 << 20;

/// Settings of a store.
#[derive(Clone)]
pub struct Options {
    /// How the file is used.
    pub access: Access,
    /// How long to try again when another connection is in the way.
    pub busy_timeout: Duration,
    /// Shared with other processes, or not.
    pub locking: Locking,
    /// Pages kept in memory from one transaction to the next, beside uncommitted changes. A file of
    /// more pages is mapped where files can be mapped; elsewhere a transaction keeps the pages it
    /// has read.
    pub cache_pages: usize,
    /// Where the random numbers in journals come from.
    pub entropy: Arc<dyn Entropy>,
    /// The codec between pages and the file; `None` stores pages as they are. Files opened beside
    /// this one, and copies of it, have the same.
    pub codec: Option<Arc<dyn PageCodec>>,
    /// Where codecs come from for files opened without one, and for those opened beside them.
    pub codecs: Option<Arc<dyn CodecSource>>,
}

impl Options {
    /// The settings [`Store::open`] uses: a busy timeout of 1 s, shared, 16,384 pages kept.
    pub fn new(access: Access) -> Options {
        Options {
            access,
            busy_timeout: Duration::from_secs(1),
            locking: Locking::default(),
            cache_pages: 16_384,
            entropy: Arc::new(OsEntropy),
            codec: None,
            codecs: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("access", &self.access)
            .field("busy_timeout", &self.busy_timeout)
            .field("locking", &self.locking)
            .field("cache_pages", &self.cache_pages)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

/// One open database file. Clones are the same store and share its cache and its lock.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The parts shared by the store and its transactions.
pub(crate) struct Inner {
    pub(crate) vfs: Arc<dyn Vfs>,
    /// The path given by the caller.
    pub(crate) path: PathBuf,
    /// The path without symbolic links: the journal lies beside the file itself, whatever name the
    /// file was opened by.
    pub(crate) real_path: PathBuf,
    pub(crate) file: Box<dyn File>,
    pub(crate) options: Options,
    /// Set when the store is opened, or by a key that comes later.
    pub(crate) codec: OnceLock<Arc<dyn PageCodec>>,
    pub(crate) pending_key: PendingKey,
    /// A sealed file waits for its key, and looks like an empty one.
    pub(crate) is_locked: AtomicBool,
    settings: Mutex<Settings>,
    pub(crate) tuning: Tuning,
    pub(crate) state: Mutex<State>,
    /// Told when a writer ends, and when commits became durable.
    change: Condvar,
}

/// The users of the file, and the file's state at the last look.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Open transactions; the file is locked as long as there is one.
    pub(crate) transactions: usize,
    /// One of them may write.
    pub(crate) writer: bool,
    /// The writer is committing: nobody may begin.
    pub(crate) committing: bool,
    /// A write or fsync failed: nobody may write.
    pub(crate) latched: bool,
    /// The shared lock is held although there may be no transaction.
    pub(crate) kept_lock: bool,
    /// The file's state, and its pages. The image is `None` when not kept.
    pub(crate) file: Option<FileState>,
    pub(crate) image: Option<Arc<Image>>,
    /// The mapping shared by the open transactions; kept as long as the lock is.
    pub(crate) mapping: Option<Mapping>,
    /// The state of the log, for a store staying at one state of the file.
    view: Option<LogView>,
    /// The store's side of the write-ahead log.
    pub(crate) wal: WalState,
    /// Changes told so far, for those about to wait for the next.
    pub(crate) changes: u64,
    /// How many threads wait for the next change.
    waiting: usize,
    /// Commits of this store so far.
    pub(crate) commits: u64,
    /// How often the file was found in another state than this store's last.
    commits_of_others: u64,
    /// The state of the file seen or made last: unlike `file` and `image` never forgotten.
    known: Option<(FileHeader, u32, Option<LogVersion>)>,
    /// Backups of this store under way.
    pub(crate) backups: Followers,
}

impl Store {
    /// Opens the database `path`.
    ///
    /// # Errors
    /// [`Error::Vfs`] by cause when the file cannot be opened, [`Error::NotADatabase`],
    /// [`Error::Corrupt`] for its header, [`Error::Unsupported`], [`Error::HotJournal`].
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, access: Access) -> Result<Store, Error> {
        Store::open_with(vfs, path, Options::new(access))
    }

    /// Opens the database `path` with settings of one's own.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(vfs: Arc<dyn Vfs>, path: &Path, options: Options) -> Result<Store, Error> {
        Store::open_keyed(vfs, path, options, None)
    }

    /// As [`Store::open_with`]; `key` is given for a file beside another, by a statement or not.
    fn open_keyed(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        mut options: Options,
        key: Option<(Option<&[u8]>, bool)>,
    ) -> Result<Store, Error> {
        let mode = match options.access {
            Access::ReadOnly => OpenMode::ReadOnly,
            Access::ReadWrite => OpenMode::ReadWrite,
            Access::Create => OpenMode::Create,
        };
        let file = vfs.open(path, mode)?;
        let real_path = vfs.real_path(path)?;
        if let (None, Some(source)) = (&options.codec, &options.codecs) {
            let access = options.access;
            let (key, is_beside) = key.unwrap_or_default();
            let request = CodecRequest { vfs: &vfs, path: &real_path, access, key, is_beside };
            options.codec = source.codec(&request)?;
        }
        let codec = OnceLock::new();
        if let Some(given) = &options.codec {
            let _ = codec.set(Arc::clone(given));
        }
        let state = Mutex::new(State::default());
        let path = path.to_path_buf();
        let settings = Mutex::new(Settings::new(options.busy_timeout));
        let tuning = Tuning::new(options.cache_pages);
        let change = Condvar::new();
        let inner = Arc::new(Inner {
            vfs,
            path,
            real_path,
            file,
            options,
            codec,
            pending_key: PendingKey::default(),
            is_locked: AtomicBool::new(false),
            settings,
            tuning,
            state,
            change,
        });
        let store = Store { inner };
        match store.inner.try_begin() {
            Ok((_, snapshot)) => {
                drop(snapshot);
                store.inner.end(false);
            }
            // A locked file can be opened all the same; any fault of the file shows at the
            // first use.
            Err(Error::Busy { .. }) => {}
            Err(error) if store.is_refused_for_now(&error) => {
                store.inner.is_locked.store(true, Ordering::Release);
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    /// Opens the database called `name`: a path, `:memory:`, or a URI ([`FileUri`]).
    ///
    /// # Errors
    /// As [`Store::open`]; [`Error::Uri`].
    pub fn open_named(vfs: Arc<dyn Vfs>, name: &Path, options: Options) -> Result<Store, Error> {
        Store::open_named_by(vfs, name, options, None)
    }

    /// As [`Store::open_named`], for a file beside another with the key of a statement.
    fn open_named_by(
        vfs: Arc<dyn Vfs>,
        name: &Path,
        options: Options,
        key: Option<(Option<&[u8]>, bool)>,
    ) -> Result<Store, Error> {
        let Some(uri) = FileUri::parse(name)? else {
            return Store::open_keyed(vfs, name, options, key);
        };
        if uri.is_memory || uri.path == Path::new(":memory:") || uri.path.as_os_str().is_empty() {
            return Ok(Store::memory());
        }
        let access = uri.access_within(options.access)?;
        let locking = if uri.is_immutable { Locking::Exclusive } else { options.locking };
        Store::open_keyed(vfs, &uri.path, Options { access, locking, ..options }, key)
    }

    /// Opens another database with the settings of this one, in the same place as this one's
    /// files; among the system's files when this one is in memory. The file must exist; a file
    /// only readable is opened for reading. `:memory:` and an empty path are an empty database
    /// in memory; a URI is read as by [`Store::open_named`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_another(&self, path: &Path) -> Result<Store, Error> {
        self.open_beside(path, None)
    }

    /// As [`Store::open_another`], with the key of the file; an empty one is for a file that is
    /// not sealed.
    ///
    /// # Errors
    /// As [`Store::open`], and those of the key.
    pub fn open_beside(&self, path: &Path, key: Option<&[u8]>) -> Result<Store, Error> {
        let inner = &self.inner;
        if path == Path::new(":memory:") || path.as_os_str().is_empty() {
            return Ok(Store::memory());
        }
        let vfs: Arc<dyn Vfs> = match inner.path == Path::new(":memory:") {
            #[cfg(unix)]
            true => Arc::new(shoal_vfs::OsVfs),
            _ => Arc::clone(&inner.vfs),
        };
        if key.is_some_and(|key| !key.is_empty()) && inner.options.codecs.is_none() {
            let what = "ATTACH with a key in this program";
            return Err(Error::Unsupported { what, path: path.to_path_buf() });
        }
        let open = |access| {
            let mut options = Options { access, ..inner.options.clone() };
            if options.codecs.is_some() {
                options.codec = None;
            }
            let store = Store::open_named_by(Arc::clone(&vfs), path, options, Some((key, true)))?;
            store.set_secure_delete(self.secure_delete());
            let Settings { busy_timeout, wal_autocheckpoint, .. } = self.settings();
            let own = store.settings();
            store.set_settings(Settings { busy_timeout, wal_autocheckpoint, ..own });
            Ok(store)
        };
        match inner.options.access {
            Access::ReadOnly => open(Access::ReadOnly),
            access => match open(access) {
                Err(Error::Vfs(VfsError::PermissionDenied { .. })) => open(Access::ReadOnly),
                other => other,
            },
        }
    }

    /// An empty file without a name, gone when closed: among the system's temporary files, or in
    /// the same place as the store's files.
    ///
    /// # Errors
    /// [`Error::Vfs`].
    pub fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        if self.inner.tuning.keeps_temporary_in_memory() {
            return Ok(MemVfs::new().open_temporary()?);
        }
        let file = match self.inner.path == Path::new(":memory:") {
            #[cfg(unix)]
            true => shoal_vfs::OsVfs.open_temporary()?,
            _ => self.inner.vfs.open_temporary()?,
        };
        Ok(match self.inner.codec() {
            None => file,
            Some(codec) => Box::new(CodedFile::new(file, codec.for_temporary())),
        })
    }

    /// Opens a file for a copy of this database, in the same place as this one's files; among the
    /// system's files when this one is in memory. A missing file is made.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_copy(&self, path: &Path) -> Result<Store, Error> {
        let inner = &self.inner;
        let vfs: Arc<dyn Vfs> = match inner.path == Path::new(":memory:") {
            #[cfg(unix)]
            true => Arc::new(shoal_vfs::OsVfs),
            _ => Arc::clone(&inner.vfs),
        };
        let entropy = Arc::clone(&inner.options.entropy);
        let codec = inner.codec().cloned();
        let options = Options { entropy, codec, ..Options::new(Access::Create) };
        Store::open_with(vfs, path, options)
    }

    /// A new, empty database in memory, gone with its last handle.
    pub fn memory() -> Store {
        Store::open(Arc::new(MemVfs::new()), Path::new(":memory:"), Access::Create)
            .expect("an empty file in memory opens")
    }

    /// Begins a transaction: a snapshot of the database at present.
    ///
    /// A transaction left unfinished by a crashed program is undone first. Attempts are repeated
    /// until the busy timeout has passed.
    ///
    /// # Errors
    /// [`Error::Busy`]; for writing [`Error::ReadOnly`], [`Error::Latched`] and
    /// [`Error::Unsupported`]; and the errors of a file changed since the last look, as
    /// in [`Store::open`].
    pub fn begin(&self, mode: Mode) -> Result<Transaction, Error> {
        self.inner.use_key()?;
        self.inner.retry(|| {
            if mode == Mode::Write
                && let Some((file, snapshot)) = self.inner.begin_in_group()?
            {
                let mut transaction = Transaction::new(Arc::clone(&self.inner), file, snapshot);
                transaction.changes = Some(Box::new(Changes::new(file)));
                return Ok(transaction);
            }
            let (mut file, mut snapshot) = self.inner.try_begin()?;
            let shape = self.settings().new_file;
            let reserved = self.inner.reserved_at_least(shape.reserved);
            let wal = shape.wal && self.inner.path != Path::new(":memory:");
            let of_codec = self.inner.codec().and_then(|codec| codec.new_page_size());
            let page_size = of_codec.or(shape.page_size);
            let new_file = FileState::shaped(NewFile { page_size, reserved, wal, ..shape });
            if file.page_count == 0 && snapshot.log.is_none() && file != new_file {
                file = new_file;
                snapshot = Snapshot::of(Image::read(&file));
            }
            let mut transaction = Transaction::new(Arc::clone(&self.inner), file, snapshot);
            if mode == Mode::Write {
                transaction.upgrade()?;
            }
            Ok(transaction)
        })
    }

    /// Checkpoints the write-ahead log as far as `mode` says. A file without a log has nothing
    /// to do.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Latched`]; the system's. Whoever is in the way is no error:
    /// the answer says so.
    pub fn checkpoint(&self, mode: CheckpointMode) -> Result<Checkpoint, Error> {
        let inner = &self.inner;
        // The log is opened by a first look at the file.
        let is_wal = self.begin(Mode::Read)?.snapshot.log.is_some();
        if !is_wal {
            return Ok(Checkpoint { busy: false, frames: None });
        }
        let log = inner.state().wal.peer().cloned();
        let Some(log) = log else { return Err(Error::ReadOnly { path: inner.path.clone() }) };
        if inner.state().latched {
            return Err(Error::Latched { path: inner.path.clone() });
        }
        let (start, timeout) = (Instant::now(), inner.settings().busy_timeout);
        let wait = || {
            std::thread::sleep(Duration::from_millis(1));
            start.elapsed() < timeout
        };
        log.checkpoint(inner, mode, &wait)
    }

    /// The frames of the write-ahead log as of this store's last commit or transaction; `None`
    /// without a log.
    pub fn log_frames(&self) -> Option<u32> {
        self.inner.state().wal.frames()
    }

    /// The settings open to change.
    pub fn settings(&self) -> Settings {
        self.inner.settings()
    }

    /// Changes them, for all handles of the store.
    pub fn set_settings(&self, settings: Settings) {
        self.inner.set_settings(settings);
    }

    /// The settings given when the store was opened.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How the store shares its file.
    pub fn locking(&self) -> Locking {
        self.inner.options.locking
    }

    /// True for a store used only for reading. With exclusive locking such a store sees one state
    /// of the file as long as it is open.
    pub fn is_read_only(&self) -> bool {
        self.inner.options.access == Access::ReadOnly
    }

    /// Returns the path the store was opened with.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The file's absolute path, symbolic links followed when the store was opened; the name as
    /// given for a store in memory.
    pub fn real_path(&self) -> &Path {
        &self.inner.real_path
    }

    /// True when a write or fsync failed earlier: no more commits are taken.
    pub fn is_latched(&self) -> bool {
        self.inner.state().latched
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut state =
            std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        state.forget();
        if state.wal.is_peer && !state.latched {
            // A connection in the way checkpoints later, or the next opener of the file reads
            // the log.
            let _ = state.wal.close(self);
        }
        let keeps_journal = self.rollback_in_effect() != self.settings().rollback;
        if keeps_journal && state.kept_lock && !state.latched && state.commits > 0 {
            // A journal left behind has no header and means nothing.
            let _ = self.vfs.delete(&self.journal_path(), false);
        }
        let _ = self.file.unlock(LockLevel::None);
    }
}

/// The time to the next attempt at a lock of another process. Attempts get rare for a second, to
/// spare the processor, and then frequent: a neighbour writing without pauses leaves its lock free
/// for a moment only, never met by one who seldom looks.
fn next_pause(pause: Duration, waited: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_millis(25);
    const FREQUENT: Duration = Duration::from_millis(2);
    if waited < Duration::from_secs(1) { (pause * 2).min(LONGEST) } else { FREQUENT }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> Settings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// The end of a rollback journal at a commit. A store keeping its lock keeps the journal, too,
    /// until it is closed, as SQLite does: nobody else looks for one, and an overwritten header
    /// costs one sync where a deleted name costs two.
    pub(crate) fn rollback_in_effect(&self) -> Rollback {
        match self.settings().rollback {
            Rollback::Delete if self.options.locking == Locking::Exclusive => Rollback::Persist,
            rollback => rollback,
        }
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        beside(&self.real_path, "-journal")
    }

    /// Calls `work` until any result but [`Error::Busy`], or until the busy timeout has passed.
    pub(crate) fn retry<T>(&self, mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let timeout = self.settings().busy_timeout;
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut seen = None;
        loop {
            match work() {
                Err(Error::Busy { .. }) if start.elapsed() < timeout => {
                    let mut state = self.state();
                    // A change while `work` ran is one to try again after, and so is any before
                    // the first look.
                    if seen.replace(state.changes) != Some(state.changes) {
                        continue;
                    }
                    // Other processes tell nobody.
                    state.waiting += 1;
                    let waited = self.change.wait_timeout(state, pause);
                    let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                    drop(state);
                    if waited.timed_out() {
                        pause = next_pause(pause, start.elapsed());
                    }
                }
                result => return result,
            }
        }
    }

    /// Tells those who wait for a writer of this store.
    pub(crate) fn changed(&self, state: &mut State) {
        state.changes += 1;
        // A wake is a call of the system, whether or not anybody waits.
        if state.waiting > 0 {
            self.change.notify_all();
        }
    }

    /// Waits for the next change.
    pub(crate) fn wait_for_change<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        state.waiting += 1;
        let mut state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Counts one more transaction and returns the file's state and pages; locks the file for the
    /// first.
    pub(crate) fn try_begin(&self) -> Result<(FileState, Snapshot), Error> {
        let mut state = self.state();
        if state.committing {
            return Err(Error::busy(&self.path));
        }
        if self.is_locked.load(Ordering::Acquire) {
            state.transactions += 1;
            let file = FileState::empty();
            return Ok((file, Snapshot::of(Image::read(&file))));
        }
        if state.wal.is_peer {
            let found = self.look_at_log(&mut state, None);
            if found.is_err() {
                state.forget();
            }
            state.transactions += usize::from(found.is_ok());
            return found.map(|found| state.counted(found));
        }
        // As long as the shared lock is held the file stays the same, unless there is a log.
        let is_log = state.file.is_some_and(|file| file.header.is_wal());
        let stays = state.kept_lock && (!is_log || self.options.access == Access::ReadOnly);
        if (state.transactions > 0 && !is_log || stays)
            && let (Some(file), Some(image)) = (state.file, &state.image)
        {
            let (mapping, log) = (state.mapping.clone(), state.view.clone());
            let (image, counts) = (Arc::clone(image), state.counts());
            let snapshot = Snapshot { image, mapping, log, counts };
            state.transactions += 1;
            return Ok((file, snapshot));
        }
        if !self.file.lock(LockLevel::Shared)? {
            return Err(Error::busy(&self.path));
        }
        match self.look(&mut state) {
            Ok(found) => {
                let (file, snapshot) = state.counted(found);
                state.transactions += 1;
                state.kept_lock = self.options.locking == Locking::Exclusive && !state.wal.is_peer;
                state.view = snapshot.log.clone().filter(|_| state.kept_lock);
                Ok((file, snapshot))
            }
            Err(error) => {
                // The mapping goes with the rest, or the lock would stay.
                state.forget();
                if state.transactions == 0 && !state.wal.is_peer {
                    self.file.unlock(LockLevel::None)?;
                }
                Err(error)
            }
        }
    }

    /// With the shared lock just taken: undoes a crashed transaction, reads the header, and forgets
    /// the pages of a changed file.
    fn look(&self, state: &mut State) -> Result<(FileState, Snapshot), Error> {
        let undone = recovery::undo_crashed(self)?;
        if undone {
            state.forget();
        }
        if let Some(found) = self.look_at_mapping(state)? {
            return Ok(found);
        }
        // For a file mapped before the size is looked at again, too: by the protocol nobody
        // shortens a file without changing the header.
        let mapped = state.image.as_ref().is_some_and(|image| image.is_mapped());
        let before = state.file.filter(|_| !mapped);
        let file = match FileState::read(self, before) {
            // A crash in a checkpoint may have torn page 1, and the log has it.
            Err(refused @ Error::Refused { .. }) => match FileState::may_have_log(self)? {
                true => return self.look_at_log(state, None),
                false => return Err(refused),
            },
            other => other?,
        };
        if file.header.is_wal() {
            return self.look_at_log(state, Some(file));
        }
        if before == Some(file)
            && let Some(image) = &state.image
            && image.kept() <= self.tuning.cache_pages(file.header.page_size)
        {
            let (image, counts) = (Arc::clone(image), Counts::default());
            return Ok((file, Snapshot { image, mapping: None, log: None, counts }));
        }
        state.forget();
        let snapshot = self.snapshot(&file)?;
        if undone {
            snapshot.check_whole(self, &file)?;
        }
        state.file = Some(file);
        state.image = Some(Arc::clone(&snapshot.image));
        state.mapping.clone_from(&snapshot.mapping);
        Ok((file, snapshot))
    }

    /// The state and the pages of a file mapped before, if the header, read through the mapping,
    /// is unchanged.
    fn look_at_mapping(&self, state: &mut State) -> Result<Option<(FileState, Snapshot)>, Error> {
        let (Some(file), Some(image)) = (state.file, &state.image) else { return Ok(None) };
        if !image.is_mapped() || file.header.stated_page_count() != Some(file.page_count) {
            return Ok(None);
        }
        let Some(mapping) = self.map(&file)? else { return Ok(None) };
        let same = mapping
            .first_chunk::<{ FileHeader::SIZE }>()
            .is_some_and(|bytes| FileHeader::parse(bytes).is_ok_and(|now| now == file.header));
        if !same {
            return Ok(None);
        }
        let (image, counts) = (Arc::clone(image), Counts::default());
        let snapshot = Snapshot { image, mapping: Some(mapping), log: None, counts };
        state.mapping.clone_from(&snapshot.mapping);
        Ok(Some((file, snapshot)))
    }

    /// The same for a file in write-ahead log mode. `file` is the state by the database file alone;
    /// read on demand, where the store has the log open.
    fn look_at_log(
        &self,
        state: &mut State,
        file: Option<FileState>,
    ) -> Result<(FileState, Snapshot), Error> {
        let before = state.file.filter(|_| state.image.is_some());
        let read = || match file {
            Some(file) => Ok(file),
            None => FileState::read(self, None),
        };
        let found = state.wal.begin(self, read, before)?;
        let old = state.image.take();
        let kept_max = self.tuning.cache_pages(found.file.header.page_size);
        let old = old.filter(|it| it.kept() <= kept_max && !it.is_mapped());
        let image = match (found.since, old) {
            (Since::Unchanged, Some(image)) => image,
            (Since::Pages(pages), Some(image)) => {
                Arc::new(Image::after(image, &found.file, pages.into_iter()))
            }
            _ => Arc::new(Image::read(&found.file)),
        };
        state.mapping = None;
        state.file = Some(found.file);
        state.image = Some(Arc::clone(&image));
        let (log, counts) = (Some(found.view), Counts::default());
        Ok((found.file, Snapshot { image, mapping: None, log, counts }))
    }

    /// The pages of a state without a kept image.
    fn snapshot(&self, file: &FileState) -> Result<Snapshot, Error> {
        let only_read = self.options.access == Access::ReadOnly;
        let unchanging = self.options.locking == Locking::Exclusive && only_read;
        let is_long = unchanging && file.byte_len() >= MAPPED_MIN;
        if is_long || file.page_count as usize > self.tuning.cache_pages(file.header.page_size) {
            let mapping = self.map(file)?;
            if mapping.is_some() {
                let image = Arc::new(Image::mapped(file));
                let counts = Counts::default();
                return Ok(Snapshot { image, mapping, log: None, counts });
            }
        }
        Ok(Snapshot::of(Image::read(file)))
    }

    /// Maps all pages; `None` where files cannot be mapped, where pages are decoded, and where the
    /// file has fewer bytes.
    fn map(&self, file: &FileState) -> Result<Option<Mapping>, Error> {
        match self.is_coded() {
            true => Ok(None),
            false => Ok(self.file.map(file.byte_len())?),
        }
    }

    /// Lets one transaction write. `log` is the state of the log the transaction began at, where
    /// there is a log.
    pub(crate) fn begin_writing(
        &self,
        header: &FileHeader,
        log: Option<&LogView>,
    ) -> Result<(), Error> {
        let path = || self.path.clone();
        if self.is_locked.load(Ordering::Acquire) {
            return Err(self.no_key());
        }
        if self.options.access == Access::ReadOnly {
            return Err(Error::ReadOnly { path: path() });
        }
        if header.write_version > 2 {
            return Err(Error::ReadOnly { path: path() });
        }
        let mut state = self.state();
        if state.latched {
            return Err(Error::Latched { path: path() });
        }
        if state.writer || !self.lock_for_writing(&mut state, log)? {
            return Err(Error::busy(&self.path));
        }
        state.writer = true;
        Ok(())
    }

    /// Takes the lock of writers: in the log's index, or of the file.
    fn lock_for_writing(&self, state: &mut State, log: Option<&LogView>) -> Result<bool, Error> {
        let Some(view) = log else { return Ok(self.file.lock(LockLevel::Reserved)?) };
        if state.wal.group.is_open() {
            // Others have committed, and are about to tell.
            return Ok(false);
        }
        let Some(open) = state.wal.peer().cloned() else {
            return Err(Error::ReadOnly { path: self.path.clone() });
        };
        if state.wal.keeps_writing {
            return open.is_at(view);
        }
        let locked = open.begin_write(view)?;
        if locked {
            state.wal.group.begin();
        }
        state.wal.keeps_writing = locked && self.options.locking == Locking::Exclusive;
        Ok(locked)
    }

    /// Counts one transaction less; unlocks the file after the last.
    pub(crate) fn end(&self, was_writer: bool) {
        let mut state = self.state();
        state.transactions -= 1;
        if was_writer {
            state.writer = false;
            state.committing = false;
            self.changed(&mut state);
        }
        if state.wal.is_peer {
            if was_writer
                && !state.wal.keeps_writing
                && !state.wal.group.is_open()
                && let Some(log) = state.wal.peer()
            {
                log.end_write();
            }
            return;
        }
        let level = match state.transactions {
            0 if !state.kept_lock => LockLevel::None,
            _ if was_writer => LockLevel::Shared,
            _ => return,
        };
        if level == LockLevel::None {
            // A mapping keeps the lock. The mapped region stays with the file, for the
            // next mapping.
            state.mapping = None;
        }
        if self.file.unlock(level).is_err() {
            // Others may now wait for a lock nobody uses; the file itself is sound.
            state.latched = true;
        }
    }
}

impl State {
    /// The commits seen so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts { own: self.commits, others: self.commits_of_others }
    }

    /// Counts a state found and made by another, and gives the snapshot the counts.
    fn counted(&mut self, (file, mut snapshot): (FileState, Snapshot)) -> (FileState, Snapshot) {
        let found = (file.header, file.page_count, snapshot.log_version());
        if self.known.replace(found).is_some_and(|known| known != found) {
            self.commits_of_others += 1;
        }
        snapshot.counts = self.counts();
        (file, snapshot)
    }

    /// Takes note of a state made by a commit of this store.
    pub(crate) fn made(&mut self, file: &FileState, log: Option<LogVersion>) {
        self.known = Some((file.header, file.page_count, log));
    }

    /// Forgets the file's state and pages.
    pub(crate) fn forget(&mut self) {
        self.file = None;
        self.image = None;
        self.mapping = None;
        self.view = None;
        self.wal.forget();
    }
}
