//! An open database: its file, its cache, and who is using it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_format::{FileHeader, TextEncoding};
use shoal_vfs::{Entropy, File, LockLevel, Mapping, MemVfs, OpenMode, OsEntropy, Vfs, VfsError};

use crate::header::{FileState, beside};
use crate::image::{Image, Snapshot};
use crate::wal::WalState;
use crate::{Error, Transaction, recovery};

/// How a store may use its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The file must exist and is only read.
    ReadOnly,
    /// The file must exist.
    ReadWrite,
    /// The file is created, empty, unless it exists.
    Create,
}

/// What a transaction means to do.
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
    /// SQLite's locks, taken for each transaction: every one begins with what others committed
    /// before it, and others may write between any two.
    #[default]
    Shared,
    /// The shared lock, taken when the store is opened and kept: others may read, and nobody else
    /// can write as long as the store is open. Beginning a transaction costs no system call. A
    /// file that is only read is mapped, unless it is short.
    Exclusive,
}

/// Of a shorter file, in bytes, pages are read and kept: to map it, with the faults and the end of the
/// mapping, costs more than reading the few pages that a first statement asks for.
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
    /// Pages kept in memory from one transaction to the next, beside uncommitted changes. A file
    /// of more pages is mapped where files can be mapped; elsewhere a transaction keeps what it
    /// read.
    pub cache_pages: usize,
    /// Where the random numbers in journals come from.
    pub entropy: Arc<dyn Entropy>,
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
            .finish_non_exhaustive()
    }
}

/// One open database file. Clones are the same store and share its cache and its lock.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// What the store and its transactions share.
pub(crate) struct Inner {
    pub(crate) vfs: Arc<dyn Vfs>,
    /// As the caller named it.
    pub(crate) path: PathBuf,
    /// Without symbolic links: the journal lies beside the file itself, whatever name it was
    /// opened by.
    pub(crate) real_path: PathBuf,
    pub(crate) file: Box<dyn File>,
    pub(crate) options: Options,
    pub(crate) state: Mutex<State>,
}

/// Who is using the file, and what it was like when last looked at.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Transactions that are open; the file is locked as long as there is one.
    pub(crate) transactions: usize,
    /// One of them may write.
    pub(crate) writer: bool,
    /// That one is committing: nobody may begin.
    pub(crate) committing: bool,
    /// A write or fsync failed: nobody may write.
    pub(crate) latched: bool,
    /// The shared lock is held although there may be no transaction.
    pub(crate) kept_lock: bool,
    /// What the file was like, and its pages. The image is `None` when it is not kept.
    pub(crate) file: Option<FileState>,
    pub(crate) image: Option<Arc<Image>>,
    /// The mapping that the open transactions share; kept as long as the lock is.
    pub(crate) mapping: Option<Mapping>,
    /// What is known of the write-ahead log.
    pub(crate) wal: WalState,
    /// Commits of this store so far.
    pub(crate) commits: u64,
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
        let mode = match options.access {
            Access::ReadOnly => OpenMode::ReadOnly,
            Access::ReadWrite => OpenMode::ReadWrite,
            Access::Create => OpenMode::Create,
        };
        let file = vfs.open(path, mode)?;
        let real_path = vfs.real_path(path)?;
        let state = Mutex::new(State::default());
        let path = path.to_path_buf();
        let inner = Arc::new(Inner { vfs, path, real_path, file, options, state });
        let store = Store { inner };
        match store.inner.try_begin() {
            Ok((_, snapshot)) => {
                drop(snapshot);
                store.inner.end(false);
            }
            // Locked is no reason not to open; what is wrong with the file shows at the first use.
            Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    /// Opens another database with the settings of this one, where this one's files are; the
    /// system's files where this one is in memory. The file must exist; one that may only be read
    /// is opened for that. `:memory:` and an empty path are an empty database in memory.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_another(&self, path: &Path) -> Result<Store, Error> {
        let inner = &self.inner;
        if path == Path::new(":memory:") || path.as_os_str().is_empty() {
            return Ok(Store::memory());
        }
        let vfs: Arc<dyn Vfs> = match inner.path == Path::new(":memory:") {
            #[cfg(unix)]
            true => Arc::new(shoal_vfs::OsVfs),
            _ => Arc::clone(&inner.vfs),
        };
        let open = |access| {
            let options = Options { access, ..inner.options.clone() };
            Store::open_with(Arc::clone(&vfs), path, options)
        };
        match inner.options.access {
            Access::ReadOnly => open(Access::ReadOnly),
            Access::ReadWrite | Access::Create => match open(Access::ReadWrite) {
                Err(Error::Vfs(VfsError::PermissionDenied { .. })) => open(Access::ReadOnly),
                other => other,
            },
        }
    }

    /// An empty file without a name, gone when it is closed: among the system's temporary files,
    /// or wherever the store's files are.
    ///
    /// # Errors
    /// [`Error::Vfs`].
    pub fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        #[cfg(unix)]
        if self.inner.path == Path::new(":memory:") {
            return Ok(shoal_vfs::OsVfs.open_temporary()?);
        }
        Ok(self.inner.vfs.open_temporary()?)
    }

    /// A new, empty database in memory, gone with its last handle.
    pub fn memory() -> Store {
        Store::open(Arc::new(MemVfs::new()), Path::new(":memory:"), Access::Create)
            .expect("an empty file in memory opens")
    }

    /// Begins a transaction: a snapshot of the database as it is now.
    ///
    /// A transaction that a crashed program left half done is undone first. Trying is repeated
    /// until the busy timeout has passed.
    ///
    /// # Errors
    /// [`Error::Busy`]; for writing [`Error::ReadOnly`], [`Error::Latched`] and
    /// [`Error::Unsupported`]; and what a file that was changed since can give rise to, as in
    /// [`Store::open`].
    pub fn begin(&self, mode: Mode) -> Result<Transaction, Error> {
        self.inner.retry(|| {
            let (file, snapshot) = self.inner.try_begin()?;
            let mut transaction = Transaction::new(Arc::clone(&self.inner), file, snapshot);
            if mode == Mode::Write {
                transaction.upgrade()?;
            }
            Ok(transaction)
        })
    }

    /// The settings that the store was opened with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How the store shares its file.
    pub fn locking(&self) -> Locking {
        self.inner.options.locking
    }

    /// Whether the store only reads, and so sees one state of the file as long as it is open, if
    /// its locking is exclusive.
    pub fn is_read_only(&self) -> bool {
        self.inner.options.access == Access::ReadOnly
    }

    /// Returns the path the store was opened with.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// True when a write or fsync failed earlier, so that no more commits are taken.
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
        if self.options.access == Access::ReadOnly || !state.wal.may_have_unused() {
            return;
        }
        // The mapping keeps the lock that is about to be raised.
        state.forget();
        // As with the last of SQLite's connections to go; who is in the way removes it later, or nobody
        // does, which harms nobody.
        let alone = [LockLevel::Shared, LockLevel::Exclusive]
            .into_iter()
            .all(|level| self.file.lock(level).unwrap_or(false));
        if alone {
            let _ = state.wal.remove_unused(self);
        }
        let _ = self.file.unlock(LockLevel::None);
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        beside(&self.real_path, "-journal")
    }

    /// Calls `work` until it gives anything but [`Error::Busy`] or the busy timeout has passed.
    pub(crate) fn retry<T>(&self, mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match work() {
                Err(Error::Busy { .. }) if start.elapsed() < self.options.busy_timeout => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                result => return result,
            }
        }
    }

    /// Counts one more transaction and returns the file's state and pages; locks the file for the
    /// first.
    pub(crate) fn try_begin(&self) -> Result<(FileState, Snapshot), Error> {
        let mut state = self.state();
        if state.committing {
            return Err(Error::busy(&self.path));
        }
        // As long as the shared lock is held the file is as it was.
        if (state.transactions > 0 || state.kept_lock)
            && let (Some(file), Some(image)) = (state.file, &state.image)
        {
            let snapshot = Snapshot { image: Arc::clone(image), mapping: state.mapping.clone() };
            state.transactions += 1;
            return Ok((file, snapshot));
        }
        if !self.file.lock(LockLevel::Shared)? {
            return Err(Error::busy(&self.path));
        }
        match self.look(&mut state) {
            Ok(found) => {
                state.transactions += 1;
                state.kept_lock = self.options.locking == Locking::Exclusive;
                Ok(found)
            }
            Err(error) => {
                // The mapping goes with the rest, or the lock would stay.
                state.forget();
                state.wal.unlock()?;
                self.file.unlock(LockLevel::None)?;
                Err(error)
            }
        }
    }

    /// With the shared lock just taken: undoes a crashed transaction, reads the header, and
    /// forgets the pages of a file that was changed.
    fn look(&self, state: &mut State) -> Result<(FileState, Snapshot), Error> {
        if recovery::undo_crashed(self)? {
            state.forget();
        }
        if let Some(found) = self.look_at_mapping(state)? {
            return Ok(found);
        }
        // Of a file that was mapped the size is looked at again, too: nobody shortens it and leaves
        // the header as it was by the protocol.
        let mapped = state.image.as_ref().is_some_and(|image| image.is_mapped());
        let before = state.file.filter(|_| !mapped);
        let file = FileState::read(&*self.file, &self.real_path, before)?;
        if file.header.is_wal() {
            return self.look_at_log(state, file, before);
        }
        if before == Some(file)
            && let Some(image) = &state.image
            && image.kept() <= self.options.cache_pages
        {
            return Ok((file, Snapshot { image: Arc::clone(image), mapping: None }));
        }
        state.forget();
        let snapshot = self.snapshot(&file)?;
        state.file = Some(file);
        state.image = Some(Arc::clone(&snapshot.image));
        state.mapping.clone_from(&snapshot.mapping);
        Ok((file, snapshot))
    }

    /// The state and the pages of a file that was mapped before, if its header, read through the
    /// mapping, is what it was.
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
        let snapshot = Snapshot { image: Arc::clone(image), mapping: Some(mapping) };
        state.mapping.clone_from(&snapshot.mapping);
        Ok(Some((file, snapshot)))
    }

    /// The same for a file in write-ahead log mode.
    fn look_at_log(
        &self,
        state: &mut State,
        file: FileState,
        before: Option<FileState>,
    ) -> Result<(FileState, Snapshot), Error> {
        let found = state.wal.begin(self, file, before)?;
        if found.unchanged
            && let Some(image) = &state.image
            && image.kept() <= self.options.cache_pages
            && !image.is_mapped()
        {
            return Ok((found.file, Snapshot { image: Arc::clone(image), mapping: None }));
        }
        let image = Image::read(&found.file, Some(found.pages));
        // Nobody else has the image before: this is the first of the transactions that are open.
        if let Some(changes) = found.changes
            && let Some(old) = state.image.take().and_then(Arc::into_inner)
            && old.log_version() == Some(changes.from)
            && old.kept() <= self.options.cache_pages
            && old.page_size() == image.page_size()
        {
            image.take_over(old, &changes.pages);
        }
        let snapshot = Snapshot::of(image);
        state.file = Some(found.file);
        state.image = Some(Arc::clone(&snapshot.image));
        Ok((found.file, snapshot))
    }

    /// The pages of a state that no image is kept of.
    fn snapshot(&self, file: &FileState) -> Result<Snapshot, Error> {
        let only_read = self.options.access == Access::ReadOnly;
        let unchanging = self.options.locking == Locking::Exclusive && only_read;
        let is_long = unchanging && file.byte_len() >= MAPPED_MIN;
        if is_long || file.page_count as usize > self.options.cache_pages {
            let mapping = self.map(file)?;
            if mapping.is_some() {
                return Ok(Snapshot { image: Arc::new(Image::mapped(file)), mapping });
            }
        }
        Ok(Snapshot::of(Image::read(file, None)))
    }

    /// Maps all pages; `None` where files cannot be mapped and where this one has fewer bytes.
    fn map(&self, file: &FileState) -> Result<Option<Mapping>, Error> {
        Ok(self.file.map(file.byte_len())?)
    }

    /// Lets one transaction write.
    pub(crate) fn begin_writing(&self, header: &FileHeader) -> Result<(), Error> {
        let path = || self.path.clone();
        if self.options.access == Access::ReadOnly {
            return Err(Error::ReadOnly { path: path() });
        }
        let refuse = |what| Err(Error::Unsupported { what, path: path() });
        if header.is_auto_vacuum() {
            return refuse("writing an auto-vacuum database");
        }
        if header.is_wal() || header.write_version == 2 {
            return refuse("writing a database in write-ahead log mode");
        }
        if header.text_encoding != TextEncoding::Utf8 {
            return refuse("writing a database whose text is UTF-16");
        }
        if header.write_version > 2 {
            return Err(Error::ReadOnly { path: path() });
        }
        let mut state = self.state();
        if state.latched {
            return Err(Error::Latched { path: path() });
        }
        if state.writer || !self.file.lock(LockLevel::Reserved)? {
            return Err(Error::busy(&self.path));
        }
        state.writer = true;
        Ok(())
    }

    /// Counts one transaction less; unlocks the file after the last.
    pub(crate) fn end(&self, was_writer: bool) {
        let mut state = self.state();
        state.transactions -= 1;
        if was_writer {
            state.writer = false;
            state.committing = false;
        }
        let level = match state.transactions {
            0 if !state.kept_lock => LockLevel::None,
            _ if was_writer => LockLevel::Shared,
            _ => return,
        };
        if level == LockLevel::None {
            // It keeps the lock. What the system mapped stays with the file, for the next one.
            state.mapping = None;
        }
        let log = if level == LockLevel::None { state.wal.unlock() } else { Ok(()) };
        if log.and(self.file.unlock(level)).is_err() {
            // Others may now wait for a lock that nobody uses; the file itself is as it should be.
            state.latched = true;
        }
    }
}

impl State {
    /// Forgets what is known of the file.
    pub(crate) fn forget(&mut self) {
        self.file = None;
        self.image = None;
        self.mapping = None;
    }
}
