//! Online backup: one database copied into another page by page, in steps, while others use both.
//!
//! The copy is one state of the source. With a write-ahead log a backup holds the state of its
//! first step, as any long reader does. With a rollback journal nothing is held between steps, or
//! writers would wait: after a commit of another connection the copy begins anew at the next step,
//! after a commit of the same [`Store`] the changed pages are copied again.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shoal_format::{FileHeader, Pgno};
use shoal_vfs::{File, LockLevel, OpenMode, Vfs};

use crate::header::{FileState, folder_of};
use crate::page::PageRef;
use crate::{Error, Mode, Store, Transaction};

/// A copy of a database on its way.
///
/// ```
/// # use shoal_store::{Backup, Store};
/// # let (source, target) = (Store::memory(), Store::memory());
/// let mut backup = Backup::into_store(&source, &target)?;
/// while !backup.step(100)? {
///     println!("{} of {} pages", backup.copied(), backup.pages());
/// }
/// # Ok::<(), shoal_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Backup {
    source: Store,
    target: Target,
    /// The source in write-ahead log mode, held from the first step on.
    held: Option<Transaction>,
    followed: Arc<Mutex<Followed>>,
    /// `None` before the first step.
    state: Option<FileState>,
    /// The first page not copied yet.
    next: u32,
    /// Page 1, written last.
    first: Vec<u8>,
    restarts: u32,
    done: bool,
}

/// Commits of the source's own store since a backup's last step.
#[derive(Debug, Default)]
struct Followed {
    /// The state after the last of them, or of the last step.
    file: Option<FileState>,
    changed: BTreeSet<Pgno>,
}

/// The backups of a store.
#[derive(Debug, Default)]
pub(crate) struct Followers(Vec<Weak<Mutex<Followed>>>);

enum Target {
    /// A new file, nobody's database before its first page is there.
    File { file: Box<dyn File>, vfs: Arc<dyn Vfs>, path: PathBuf },
    /// An open database; `None` once committed.
    Store(Option<Box<Transaction>>),
}

impl Followers {
    fn add(&mut self, followed: &Arc<Mutex<Followed>>) {
        self.0.retain(|known| known.strong_count() > 0);
        self.0.push(Arc::downgrade(followed));
    }

    /// Notes a commit of pages from one state to another.
    pub(crate) fn committed(&self, before: &FileState, after: FileState, pages: &[PageRef]) {
        for followed in self.0.iter().filter_map(Weak::upgrade) {
            let mut followed = lock(&followed);
            if followed.file == Some(*before) {
                followed.file = Some(after);
                followed.changed.extend(pages.iter().map(|page| page.pgno));
            }
        }
    }
}

impl Backup {
    /// Begins a backup into a new file at `path`, among the source's files, or the system's for a
    /// source in memory. The file is locked, and becomes a database with its last page; a backup
    /// dropped before its end deletes the file.
    ///
    /// # Errors
    /// [`Error::Exists`] for a file with content; [`Error::Vfs`].
    pub fn to_file(source: &Store, path: &Path) -> Result<Backup, Error> {
        let inner = &source.inner;
        let in_memory = inner.path == Path::new(":memory:");
        let vfs: Arc<dyn Vfs> = match in_memory {
            #[cfg(unix)]
            true => Arc::new(shoal_vfs::OsVfs),
            _ => Arc::clone(&inner.vfs),
        };
        if vfs.size(path)?.is_some_and(|size| size > 0) {
            return Err(Error::Exists { path: path.to_path_buf() });
        }
        let like = OpenMode::CreateLike(&inner.real_path);
        let file = vfs.open(path, if in_memory { OpenMode::Create } else { like })?;
        if !file.lock(LockLevel::Shared)? || !file.lock(LockLevel::Exclusive)? {
            return Err(Error::busy(path));
        }
        if file.size()? > 0 {
            return Err(Error::Exists { path: path.to_path_buf() });
        }
        Ok(Backup::new(source, Target::File { file, vfs, path: path.to_path_buf() }))
    }

    /// Begins a backup into an open database, whose content is replaced by one transaction, begun
    /// now and committed by the last step. Memory: all pages of the source. Page sizes have to be
    /// equal.
    ///
    /// # Errors
    /// As [`Store::begin`] for writing; [`Error::Misuse`] for a copy of a store into itself.
    pub fn into_store(source: &Store, target: &Store) -> Result<Backup, Error> {
        let (from, to) = (&source.inner, &target.inner);
        let is_file = from.path != Path::new(":memory:");
        if Arc::ptr_eq(from, to) || is_file && from.real_path == to.real_path {
            return Err(Error::Misuse("a database was to be copied into itself"));
        }
        let transaction = Box::new(target.begin(Mode::Write)?);
        Ok(Backup::new(source, Target::Store(Some(transaction))))
    }

    fn new(source: &Store, target: Target) -> Backup {
        let followed = Arc::new(Mutex::new(Followed::default()));
        source.inner.state().backups.add(&followed);
        Backup {
            source: source.clone(),
            target,
            held: None,
            followed,
            state: None,
            next: 1,
            first: Vec::new(),
            restarts: 0,
            done: false,
        }
    }

    /// Copies up to so many pages; true once the copy is complete and durable. A further step does
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Busy`] while a commit is in the way, and another step may go on; errors of reading
    /// the source and writing the target otherwise; [`Error::Unsupported`] for a target of another
    /// page size.
    pub fn step(&mut self, pages: u32) -> Result<bool, Error> {
        if self.done {
            return Ok(true);
        }
        let reads = match self.held.take() {
            Some(held) => held,
            None => self.source.begin(Mode::Read)?,
        };
        let result = self.copy(&reads, pages.max(1));
        if reads.snapshot.log.is_some() && !self.done {
            self.held = Some(reads);
        }
        result
    }

    /// Pages copied so far, from the beginning or since the last restart.
    pub fn copied(&self) -> u32 {
        self.next - 1
    }

    /// Pages of the source at the last step; 0 before the first.
    pub fn pages(&self) -> u32 {
        self.state.map_or(0, |state| state.page_count)
    }

    /// Bytes of a page of the source; 0 before the first step.
    pub fn page_size(&self) -> u32 {
        self.state.map_or(0, |state| state.header.page_size)
    }

    /// How often a commit by others made the copy begin anew.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    fn copy(&mut self, reads: &Transaction, pages: u32) -> Result<bool, Error> {
        let again = self.look(reads.file);
        let size = reads.file.header.page_size;
        self.check_size(&reads.file)?;
        let mut buffer = vec![0; size as usize];
        for pgno in again {
            self.copy_page(reads, pgno, &mut buffer)?;
        }
        let lock_page = Pgno::lock_page(size);
        for _ in 0..pages {
            if self.next > reads.file.page_count {
                break;
            }
            let pgno = Pgno::new(self.next).expect("pages are counted from 1");
            if pgno != lock_page {
                self.copy_page(reads, pgno, &mut buffer)?;
            }
            self.next += 1;
        }
        if self.next > reads.file.page_count {
            self.finish(&reads.file)?;
            self.done = true;
        }
        Ok(self.done)
    }

    /// Compares the source with the last step's state; gives the copied pages changed since.
    fn look(&mut self, file: FileState) -> Vec<Pgno> {
        let mut followed = lock(&self.followed);
        let changed = std::mem::take(&mut followed.changed);
        let known = followed.file == Some(file);
        followed.file = Some(file);
        drop(followed);
        let begun = self.state.replace(file).is_some();
        if known {
            let is_copied = |pgno: &Pgno| pgno.get() < self.next && pgno.get() <= file.page_count;
            return changed.into_iter().filter(is_copied).collect();
        }
        self.restarts += u32::from(begun);
        self.next = 1;
        Vec::new()
    }

    fn check_size(&self, source: &FileState) -> Result<(), Error> {
        match &self.target {
            Target::Store(Some(target))
                if source.page_count > 0
                    && target.file.header.page_size != source.header.page_size =>
            {
                let what = "a backup into a database with another page size";
                Err(Error::Unsupported { what, path: target.store.path.clone() })
            }
            Target::Store(Some(target))
                if source.page_count > 0
                    && target.store.own_pages() != self.source.inner.own_pages() =>
            {
                let what = "a backup between a sealed database and one that is not";
                Err(Error::Unsupported { what, path: target.store.path.clone() })
            }
            Target::Store(Some(target)) if source.page_count > 0 => {
                target.store.check_reserved(&source.header)
            }
            _ => Ok(()),
        }
    }

    fn copy_page(
        &mut self,
        reads: &Transaction,
        pgno: Pgno,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let is_file = matches!(self.target, Target::File { .. });
        let own = pgno != Pgno::FIRST && pgno.get() <= reads.store.own_pages() + 1;
        if is_file && pgno != Pgno::FIRST && reads.store.is_coded() {
            // A page keeps its stored form: page 1 vouches for these forms.
            reads.snapshot.read_stored(&reads.store, pgno, buffer)?;
        } else if own {
            // The target has its own.
            return Ok(());
        } else {
            reads.read_past_cache(pgno, buffer)?;
        }
        if pgno == Pgno::FIRST {
            self.first = buffer.to_vec();
            return Ok(());
        }
        match &mut self.target {
            Target::File { file, .. } => {
                file.write_at(buffer, pgno.offset(reads.file.header.page_size))?;
            }
            Target::Store(Some(target)) => target.change(|target| {
                target.rewrite(pgno, true, |bytes| {
                    bytes.copy_from_slice(buffer);
                    Ok(())
                })
            })?,
            Target::Store(None) => {}
        }
        Ok(())
    }

    /// Ends the copy: the target is the source's database from here on.
    fn finish(&mut self, source: &FileState) -> Result<(), Error> {
        let mut first = std::mem::take(&mut self.first);
        match &mut self.target {
            Target::File { file, path, vfs } => {
                if source.page_count > 0 {
                    let header = FileHeader {
                        read_version: 1,
                        write_version: 1,
                        page_count: source.page_count,
                        version_valid_for: source.header.change_counter,
                        ..source.header
                    };
                    header.write(first.first_chunk_mut().expect("a page has a header's bytes"));
                    self.source.inner.encode_first(&mut first)?;
                    file.truncate(source.byte_len())?;
                    file.sync()?;
                    file.write_at(&first, 0)?;
                }
                file.sync()?;
                vfs.sync_dir(folder_of(path))?;
                Ok(file.unlock(LockLevel::None)?)
            }
            Target::Store(slot) => {
                let Some(mut target) = slot.take() else { return Ok(()) };
                let old = target.file.header;
                target.changes_mut()?.is_copy = true;
                target.change(|target| {
                    if source.page_count == 0 {
                        // An empty schema instead of no page at all.
                        target.file.page_count = 1;
                        first =
                            FileState { header: old, page_count: 0 }.first_page().bytes.to_vec();
                    } else {
                        target.file.page_count = source.page_count;
                        target.file.header = FileHeader {
                            read_version: old.read_version,
                            write_version: old.write_version,
                            change_counter: old.change_counter,
                            ..source.header
                        };
                    }
                    // Whoever knows the schema of the content before reads the new one.
                    target.file.header.schema_cookie = old.schema_cookie.wrapping_add(1);
                    target.rewrite(Pgno::FIRST, true, |bytes| {
                        bytes.copy_from_slice(&first);
                        Ok(())
                    })
                })?;
                target.commit().map(drop)
            }
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if let (false, Target::File { file, vfs, path }) = (self.done, &self.target) {
            // Without the deletion an empty file is left.
            let _ = file.truncate(0);
            let _ = vfs.delete(path, false);
            let _ = file.unlock(LockLevel::None);
        }
    }
}

impl Transaction {
    /// Reads a page of the file past the cache: for one reader of all pages.
    fn read_past_cache(&self, pgno: Pgno, buffer: &mut [u8]) -> Result<(), Error> {
        if let Some(bytes) = self.snapshot.get(pgno) {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        buffer.fill(0);
        let log = self.snapshot.log.as_ref();
        match log {
            Some(log) if log.read(pgno, buffer)? => {}
            // A file with a short last page is read as if zeroes followed, as by SQLite.
            _ => {
                let at = pgno.offset(self.file.header.page_size);
                self.store.file.read_at(buffer, at)?;
            }
        }
        log.map_or(Ok(()), |log| log.check_guard(&self.store))?;
        self.store.decode(pgno, buffer)
    }
}

fn lock(followed: &Mutex<Followed>) -> MutexGuard<'_, Followed> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File { path, .. } => f.debug_tuple("File").field(path).finish(),
            Target::Store(_) => f.write_str("Store"),
        }
    }
}
