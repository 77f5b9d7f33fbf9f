//! The operating system's files (Unix).

mod handle;
mod local_time;
mod locked;
mod mapping;
mod record_lock;
mod shared_words;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::shared::{SHARED_BLOCK, SharedBlock};
use crate::{ByteLock, File, LockLevel, OpenMode, Vfs, VfsError};
use handle::Handle;
pub(crate) use local_time::local_offset_s;
pub use locked::{Locked, is_memory_lock_refused};
pub use mapping::Mapping;
use mapping::Region;
use record_lock::{Kind, Range};
pub(crate) use shared_words::MappedWords;

/// The operating system's files, locked as SQLite locks them.
///
/// On Linux the locks are open-file-description locks on SQLite's bytes. They conflict with the
/// locks of other processes and of a SQLite in the same process, and survive the closing of another
/// handle of the file. Elsewhere the locks are POSIX record locks and belong to the process: there,
/// one process must not open the same database twice, by this crate or by SQLite.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

impl OsVfs {
    /// The operating system.
    pub fn new() -> OsVfs {
        OsVfs
    }
}

impl Vfs for OsVfs {
    fn open(&self, path: &Path, mode: OpenMode<'_>) -> Result<Box<dyn File>, VfsError> {
        // The kind of file is asked before opening: opening a pipe would wait for its other end.
        let writable = mode != OpenMode::ReadOnly;
        let open = |file| {
            let held = Mutex::new(Held::default());
            let open = OpenFile { file, path: path.to_path_buf(), writable, held };
            Ok(Box::new(OsFile(Arc::new(open))) as Box<dyn File>)
        };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(VfsError::IsDirectory { path: path.to_path_buf() });
            }
            Ok(found) if !found.is_file() => {
                return Err(VfsError::NotAFile { path: path.to_path_buf() });
            }
            Ok(found) => {
                if let Some(handle) = Handle::unpark(&found, writable) {
                    return open(handle);
                }
            }
            Err(_) => {}
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(writable);
        match mode {
            OpenMode::ReadOnly | OpenMode::ReadWrite => {}
            OpenMode::Create => {
                options.create(true);
            }
            OpenMode::CreateLike(model) => {
                let model = fs::metadata(model)
                    .map_err(|error| VfsError::from_io("read the permissions of", model, error))?;
                options.create(true).mode(model.mode() & 0o777);
            }
        }
        let file = options.open(path).map_err(|error| VfsError::from_io("open", path, error))?;
        open(Handle::new(file, writable))
    }

    fn open_temporary(&self) -> Result<Box<dyn File>, VfsError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = std::env::temp_dir();
        let mut options = fs::OpenOptions::new();
        // `create_new` opens no file made by others, and mode 0600 lets only the owner read.
        options.read(true).write(true).create_new(true).mode(0o600);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".shoal-{}-{number}", std::process::id()));
            let file = match options.open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                other => other.map_err(|error| VfsError::from_io("create", &path, error))?,
            };
            // The name goes at once: whatever becomes of the process, the file does not stay.
            fs::remove_file(&path).map_err(|error| VfsError::from_io("delete", &path, error))?;
            let held = Mutex::new(Held::default());
            let open = OpenFile { file: Handle::new(file, true), path, writable: true, held };
            return Ok(Box::new(OsFile(Arc::new(open))));
        }
    }

    fn delete(&self, path: &Path, sync_dir: bool) -> Result<(), VfsError> {
        fs::remove_file(path).map_err(|error| VfsError::from_io("delete", path, error))?;
        match path.parent() {
            Some(folder) if sync_dir => self.sync_dir(folder),
            _ => Ok(()),
        }
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, VfsError> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(VfsError::from_io("look at", path, error)),
        }
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, VfsError> {
        fs::canonicalize(path).map_err(|error| VfsError::from_io("look at", path, error))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), VfsError> {
        let folder = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| VfsError::from_io("sync folder", folder, error))
    }
}

/// One opened file. Mappings hold a reference, so the descriptor stays open as long as they live.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: Handle,
    path: PathBuf,
    writable: bool,
    held: Mutex<Held>,
}

/// The lock and the mappings of one handle.
#[derive(Debug, Default)]
struct Held {
    level: LockLevel,
    /// Live mappings; while there are any, the level is at least shared.
    mappings: usize,
    /// The level goes down to none with the last mapping.
    release: bool,
    /// Shared locks taken, to knock at the gate now and then.
    entries: u32,
    /// The region mapped last. The next mapping reuses a region of sufficient length.
    region: Option<Arc<Region>>,
    /// When the pending byte was last looked at: the gate where a waiting writer stands.
    gate: Option<Instant>,
}

/// The pending byte is looked at before every `GATE_EVERY`th shared lock, and before any shared
/// lock more than [`GATE_AGE_MAX`] after the last look.
///
/// SQLite looks each time, so new readers never overtake a writer waiting for readers to leave.
/// Here a writer waits for reads begun up to [`GATE_AGE_MAX`] later, and most shared locks cost one
/// system call instead of three. A read finding the writer at the gate stays out.
const GATE_EVERY: u32 = 16;

/// After this time the pending byte is looked at again.
const GATE_AGE_MAX: Duration = Duration::from_millis(1);

impl OpenFile {
    fn error(&self, operation: &'static str) -> impl Fn(std::io::Error) -> VfsError {
        move |error| VfsError::from_io(operation, &self.path, error)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes or drops a lock; false when someone else is in the way.
    fn set(&self, kind: Kind, range: Range) -> Result<bool, VfsError> {
        record_lock::set(&self.file, kind, range).map_err(self.error("lock"))
    }

    fn lower(&self, held: &mut Held, wanted: LockLevel) -> Result<(), VfsError> {
        if wanted == LockLevel::None {
            self.set(Kind::Unlock, Range::ALL)?;
        } else {
            if held.level == LockLevel::Exclusive {
                self.set(Kind::Read, Range::SHARED)?;
            }
            self.set(Kind::Unlock, Range::PENDING_AND_RESERVED)?;
        }
        held.level = wanted;
        Ok(())
    }

    /// Counts one mapping less.
    fn unmapped(&self) {
        let mut held = self.held();
        held.mappings -= 1;
        if held.mappings == 0 && std::mem::take(&mut held.release) {
            // A failed unlock only makes others wait, and ends when the file is closed.
            let _ = self.lower(&mut held, LockLevel::None);
        }
    }

    /// An error for changes to a mapped file: a [`Mapping`]'s bytes must not change.
    fn require_unmapped(&self, operation: &'static str) -> Result<(), VfsError> {
        if self.held().mappings == 0 {
            return Ok(());
        }
        Err(self.error(operation)(std::io::Error::other("the file is mapped")))
    }
}

/// A handle of a file.
#[derive(Debug)]
struct OsFile(Arc<OpenFile>);

impl File for OsFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.0.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(VfsError::from_io("read", &self.0.path, error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        self.0.require_unmapped("write")?;
        self.0.file.write_all_at(bytes, offset).map_err(self.0.error("write"))
    }

    fn truncate(&self, len: u64) -> Result<(), VfsError> {
        self.0.require_unmapped("truncate")?;
        self.0.file.set_len(len).map_err(self.0.error("truncate"))
    }

    fn sync(&self) -> Result<(), VfsError> {
        // fdatasync flushes the size as well: the size is metadata needed to read the data back.
        self.0.file.sync_data().map_err(self.0.error("sync"))
    }

    fn size(&self) -> Result<u64, VfsError> {
        self.0.file.metadata().map(|found| found.len()).map_err(self.0.error("look at"))
    }

    fn lock(&self, wanted: LockLevel) -> Result<bool, VfsError> {
        let file = &self.0;
        let held = &mut *file.held();
        if wanted >= LockLevel::Shared {
            held.release = false;
        }
        if held.level >= wanted {
            return Ok(true);
        }
        if held.level == LockLevel::None {
            let old = |at: Instant| at.elapsed() > GATE_AGE_MAX;
            let gate = held.entries.is_multiple_of(GATE_EVERY) || held.gate.is_none_or(old);
            if gate {
                if !file.set(Kind::Read, Range::PENDING)? {
                    // The next try asks here, too.
                    held.gate = None;
                    return Ok(false);
                }
                held.gate = Some(Instant::now());
            }
            held.entries = held.entries.wrapping_add(1);
            let shared = file.set(Kind::Read, Range::SHARED);
            if gate {
                file.set(Kind::Unlock, Range::PENDING)?;
            }
            if !shared? {
                // Someone writes, or is about to: the next try asks at the gate.
                held.entries = 0;
                return Ok(false);
            }
            held.level = LockLevel::Shared;
        }
        if wanted == LockLevel::Reserved {
            if !file.set(Kind::Write, Range::RESERVED)? {
                return Ok(false);
            }
            held.level = LockLevel::Reserved;
        }
        if wanted >= LockLevel::Pending && held.level < LockLevel::Pending {
            if !file.set(Kind::Write, Range::PENDING)? {
                return Ok(false);
            }
            held.level = LockLevel::Pending;
        }
        if wanted == LockLevel::Exclusive {
            if !file.set(Kind::Write, Range::SHARED)? {
                return Ok(false);
            }
            held.level = LockLevel::Exclusive;
        }
        Ok(true)
    }

    fn unlock(&self, wanted: LockLevel) -> Result<(), VfsError> {
        let held = &mut *self.0.held();
        if held.level <= wanted {
            return Ok(());
        }
        if held.mappings > 0 && wanted == LockLevel::None {
            held.release = true;
            return match held.level {
                LockLevel::Shared => Ok(()),
                _ => self.0.lower(held, LockLevel::Shared),
            };
        }
        self.0.lower(held, wanted)
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        let held = self.0.held();
        if held.level >= LockLevel::Reserved {
            return Ok(false);
        }
        record_lock::is_locked_elsewhere(&self.0.file, Range::RESERVED)
            .map_err(self.0.error("look at the locks of"))
    }

    fn map(&self, len: u64) -> Result<Option<Mapping>, VfsError> {
        let Ok(bytes) = usize::try_from(len) else { return Ok(None) };
        let file = &self.0;
        let mut held = file.held();
        // Below the shared lock others may write; above, this handle is about to. The size is asked
        // each time: the file may have been cut since the region was mapped.
        if held.level != LockLevel::Shared || self.size()? < len {
            return Ok(None);
        }
        let region = match &held.region {
            Some(region) if region.len() >= bytes => Arc::clone(region),
            _ => {
                let region = Region::new(&file.file, bytes).map_err(file.error("map"))?;
                let region = Arc::new(region);
                held.region = Some(Arc::clone(&region));
                region
            }
        };
        held.mappings += 1;
        drop(held);
        Ok(Some(Mapping::new(Arc::clone(file), region, bytes)))
    }

    fn is_at(&self, path: &Path) -> Result<bool, VfsError> {
        let own = self.0.file.metadata().map_err(self.0.error("look at"))?;
        match fs::metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(VfsError::from_io("look at", path, error)),
        }
    }

    fn lock_bytes(&self, start: u64, len: u64, lock: ByteLock) -> Result<Option<bool>, VfsError> {
        let kind = match lock {
            ByteLock::Shared => Kind::Read,
            ByteLock::Exclusive => Kind::Write,
            ByteLock::None => Kind::Unlock,
        };
        self.0.set(kind, Range::new(start, len)).map(Some)
    }

    fn share(&self, number: usize, grow: bool) -> Result<Option<SharedBlock>, VfsError> {
        let file = &self.0;
        let start = number as u64 * SHARED_BLOCK as u64;
        let end = start + SHARED_BLOCK as u64;
        let mut size = self.size()?;
        if size < end && (!grow || !file.writable) {
            return Ok(None);
        }
        // A byte in each of the system's smallest pages: a hole would be filled at the first store,
        // and a full disk would then end the process.
        while size < end {
            let next = (size / 4096 + 1) * 4096;
            file.file.write_all_at(&[0], next - 1).map_err(file.error("write"))?;
            size = next;
        }
        let words = MappedWords::new(file, number, file.writable).map_err(file.error("map"))?;
        Ok(Some(SharedBlock::mapped(words)))
    }

    fn is_locked_elsewhere(&self, place: u64) -> Result<bool, VfsError> {
        record_lock::is_locked_elsewhere(&self.0.file, Range::new(place, 1))
            .map_err(self.0.error("look at the locks of"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trouble_has_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str, mode: OpenMode<'_>| OsVfs.open(&folder.path().join(name), mode);
        assert!(matches!(open("none", OpenMode::ReadWrite), Err(VfsError::NotFound { .. })));
        assert!(matches!(open("", OpenMode::ReadOnly), Err(VfsError::IsDirectory { .. })));
        assert!(matches!(open("no/folder", OpenMode::Create), Err(VfsError::NotFound { .. })));
        assert!(matches!(
            OsVfs.open(Path::new("/dev/null"), OpenMode::ReadOnly),
            Err(VfsError::NotAFile { .. })
        ));
        let file = open("file", OpenMode::Create).unwrap();
        file.write_at(b"abc", 0).unwrap();
        file.sync().unwrap();
        assert!(file.is_at(&folder.path().join("file")).unwrap());
        assert!(!file.is_at(&folder.path().join("none")).unwrap());
        open("other", OpenMode::Create).unwrap();
        assert!(!file.is_at(&folder.path().join("other")).unwrap());
        assert_eq!(OsVfs.size(&folder.path().join("file")).unwrap(), Some(3));
        assert!(open("file", OpenMode::ReadOnly).unwrap().write_at(b"x", 0).is_err());
        OsVfs.delete(&folder.path().join("file"), true).unwrap();
        assert!(OsVfs.delete(&folder.path().join("file"), true).is_err());
        assert_eq!(OsVfs.size(&folder.path().join("file")).unwrap(), None);
    }

    #[test]
    fn temporary_files_have_no_name() {
        let [a, b] = [(); 2].map(|()| OsVfs.open_temporary().unwrap());
        a.write_at(b"abc", 0).unwrap();
        assert_eq!((a.size().unwrap(), b.size().unwrap()), (3, 0));
        let own = format!(".shoal-{}-", std::process::id());
        let mut names = fs::read_dir(std::env::temp_dir()).unwrap();
        let is_own = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&own);
        assert!(!names.any(|entry| entry.is_ok_and(is_own)));
    }

    #[test]
    fn a_mapping_keeps_the_lock_and_refuses_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let [a, b] = [(); 2].map(|()| OsVfs.open(&path, OpenMode::Create).unwrap());
        a.write_at(b"abcd", 0).unwrap();
        assert!(a.map(4).unwrap().is_none(), "without a lock");
        assert!(a.lock(LockLevel::Shared).unwrap());
        assert!(a.map(5).unwrap().is_none(), "past the end");
        let mapping = a.map(4).unwrap().unwrap();
        assert_eq!(&*mapping, b"abcd");
        assert!(a.write_at(b"x", 0).is_err() && a.truncate(0).is_err());
        a.unlock(LockLevel::None).unwrap();
        assert!(b.lock(LockLevel::Reserved).unwrap());
        #[cfg(target_os = "linux")]
        assert!(!b.lock(LockLevel::Exclusive).unwrap());
        drop(mapping);
        assert!(b.lock(LockLevel::Exclusive).unwrap());
        b.write_at(b"x", 0).unwrap();
    }

    /// A region stays mapped from one lock to the next; a mapping lends only bytes the file has
    /// now.
    #[test]
    fn a_region_outlives_the_lock_and_lends_nothing_that_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let [a, b] = [(); 2].map(|()| OsVfs.open(&path, OpenMode::Create).unwrap());
        a.write_at(&[1; 8192], 0).unwrap();
        let mut places = Vec::new();
        for round in 1..4 {
            assert!(a.lock(LockLevel::Shared).unwrap());
            let mapping = a.map(8192).unwrap().unwrap();
            let second = mapping.clone();
            assert!(second[..] == [round; 8192]);
            places.push(mapping.as_ptr().addr());
            drop(mapping);
            a.unlock(LockLevel::None).unwrap();
            #[cfg(target_os = "linux")]
            assert!(!b.lock(LockLevel::Exclusive).unwrap(), "a clone holds the lock, too");
            drop(second);
            assert!(b.lock(LockLevel::Exclusive).unwrap());
            b.write_at(&[round + 1; 8192], 0).unwrap();
            b.unlock(LockLevel::None).unwrap();
        }
        places.dedup();
        assert_eq!(places.len(), 1);
        b.truncate(4096).unwrap();
        assert!(a.lock(LockLevel::Shared).unwrap());
        assert!(a.map(8192).unwrap().is_none());
        assert!(a.map(4096).unwrap().unwrap()[..] == [4; 4096]);
        a.unlock(LockLevel::None).unwrap();
        b.write_at(&[9; 12288], 0).unwrap();
        assert!(a.lock(LockLevel::Shared).unwrap());
        assert!(a.map(12288).unwrap().unwrap()[..] == [9; 12288]);
    }

    #[test]
    fn a_companion_is_as_private_as_its_model() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (model, other) = (folder.path().join("model"), folder.path().join("other"));
        fs::write(&model, b"").unwrap();
        fs::set_permissions(&model, fs::Permissions::from_mode(0o600)).unwrap();
        OsVfs.open(&other, OpenMode::CreateLike(&model)).unwrap();
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn handles_of_one_process_exclude_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let [a, b, c] = [(); 3].map(|()| OsVfs.open(&path, OpenMode::Create).unwrap());
        assert!(a.lock(LockLevel::Shared).unwrap() && b.lock(LockLevel::Shared).unwrap());
        assert!(a.lock(LockLevel::Reserved).unwrap());
        assert!(!b.lock(LockLevel::Reserved).unwrap());
        assert!(b.is_reserved_elsewhere().unwrap() && !a.is_reserved_elsewhere().unwrap());
        assert!(!a.lock(LockLevel::Exclusive).unwrap());
        assert!(!c.lock(LockLevel::Shared).unwrap());
        b.unlock(LockLevel::None).unwrap();
        assert!(a.lock(LockLevel::Exclusive).unwrap());
        assert!(!b.lock(LockLevel::Shared).unwrap());
        a.unlock(LockLevel::Shared).unwrap();
        assert!(b.lock(LockLevel::Shared).unwrap());
        assert!(!b.is_reserved_elsewhere().unwrap());
        // Closing a handle drops its own locks only.
        drop(c);
        assert!(!b.lock(LockLevel::Exclusive).unwrap());
        drop(a);
        assert!(b.lock(LockLevel::Exclusive).unwrap());
    }
}
