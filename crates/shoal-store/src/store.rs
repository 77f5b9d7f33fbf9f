//! An open database: its file, its cache, and who is using it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_format::{FileHeader, Pgno};
use shoal_vfs::{Entropy, File, LockLevel, MemVfs, OpenMode, OsEntropy, Vfs};

use crate::cache::PageCache;
use crate::header::{FileState, beside};
use crate::page::PageRef;
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

/// Settings of a store.
#[derive(Clone)]
pub struct Options {
    /// How the file is used.
    pub access: Access,
    /// How long to try again when another connection is in the way.
    pub busy_timeout: Duration,
    /// Most pages kept in memory beside those of open cursors and uncommitted changes.
    pub cache_pages: usize,
    /// Where the random numbers in journals come from.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// The settings [`Store::open`] uses: a busy timeout of 1 s, 4096 pages of cache.
    pub fn new(access: Access) -> Options {
        Options {
            access,
            busy_timeout: Duration::from_secs(1),
            cache_pages: 4096,
            entropy: Arc::new(OsEntropy),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("access", &self.access)
            .field("busy_timeout", &self.busy_timeout)
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
    cache: Mutex<PageCache>,
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
    /// What the cache's pages belong to.
    pub(crate) file: Option<FileState>,
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
        let cache = Mutex::new(PageCache::new(options.cache_pages));
        let state = Mutex::new(State::default());
        let path = path.to_path_buf();
        let inner = Arc::new(Inner { vfs, path, real_path, file, options, state, cache });
        let store = Store { inner };
        match store.inner.try_begin() {
            Ok(_) => store.inner.end(false),
            // Locked is no reason not to open; what is wrong with the file shows at the first use.
            Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(store)
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
            let file = self.inner.try_begin()?;
            let mut transaction = Transaction::new(Arc::clone(&self.inner), file);
            if mode == Mode::Write {
                transaction.upgrade()?;
            }
            Ok(transaction)
        })
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

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, PageCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Counts one more transaction and returns the file's state; locks the file for the first.
    pub(crate) fn try_begin(&self) -> Result<FileState, Error> {
        let mut state = self.state();
        if state.committing {
            return Err(Error::busy(&self.path));
        }
        if state.transactions > 0 {
            // The shared lock is held, so the file is as it was.
            let file = state.file.expect("a store with transactions has looked at its file");
            state.transactions += 1;
            return Ok(file);
        }
        if !self.file.lock(LockLevel::Shared)? {
            return Err(Error::busy(&self.path));
        }
        match self.look(&mut state) {
            Ok(file) => {
                state.transactions = 1;
                Ok(file)
            }
            Err(error) => {
                self.file.unlock(LockLevel::None)?;
                Err(error)
            }
        }
    }

    /// With the shared lock just taken: undoes a crashed transaction, reads the header and drops
    /// the cache when the file was changed.
    fn look(&self, state: &mut State) -> Result<FileState, Error> {
        if recovery::undo_crashed(self)? {
            state.file = None;
        }
        let file = FileState::read(&*self.file, &*self.vfs, &self.real_path)?;
        if state.file != Some(file) {
            self.cache().clear();
            state.file = Some(file);
        }
        Ok(file)
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
            0 => LockLevel::None,
            _ if was_writer => LockLevel::Shared,
            _ => return,
        };
        if self.file.unlock(level).is_err() {
            // Others may now wait for a lock that nobody uses; the file itself is as it should be.
            state.latched = true;
        }
    }

    /// Returns page `pgno` as it is on disk, from the cache if it is there.
    pub(crate) fn page(&self, pgno: Pgno, page_size: u32) -> Result<PageRef, Error> {
        if let Some(page) = self.cache().get(pgno) {
            return Ok(page);
        }
        let mut bytes = vec![0; page_size as usize];
        // A file that ends inside its last page is read as if zeroes followed, as SQLite does.
        self.file.read_at(&mut bytes, pgno.offset(page_size))?;
        let page = PageRef { bytes: bytes.into(), pgno };
        self.cache().put(page.clone());
        Ok(page)
    }
}
