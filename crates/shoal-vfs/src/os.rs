//! The operating system's files (Unix).

mod record_lock;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{File, LockLevel, OpenMode, Vfs, VfsError};
use record_lock::{Kind, Range};

/// The operating system's files, locked as SQLite locks them.
///
/// On Linux the locks are open-file-description locks on SQLite's bytes. They conflict with other
/// processes' locks and with those of a SQLite in the same process, and closing another handle of
/// the file does not drop them. Elsewhere they are POSIX record locks, which belong to the process:
/// there, one process must not open the same database twice, by this crate or by SQLite.
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
        // Looked at before it is opened: opening a pipe would wait for its other end.
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(VfsError::IsDirectory { path: path.to_path_buf() });
            }
            Ok(found) if !found.is_file() => {
                return Err(VfsError::NotAFile { path: path.to_path_buf() });
            }
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != OpenMode::ReadOnly);
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
        Ok(Box::new(OsFile { file, path: path.to_path_buf(), level: Mutex::new(LockLevel::None) }))
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

#[derive(Debug)]
struct OsFile {
    file: fs::File,
    path: PathBuf,
    level: Mutex<LockLevel>,
}

impl OsFile {
    fn error(&self, operation: &'static str) -> impl Fn(std::io::Error) -> VfsError {
        move |error| VfsError::from_io(operation, &self.path, error)
    }

    /// Takes or drops a lock; false when someone else is in the way.
    fn set(&self, kind: Kind, range: Range) -> Result<bool, VfsError> {
        record_lock::set(&self.file, kind, range).map_err(self.error("lock"))
    }
}

impl File for OsFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(VfsError::from_io("read", &self.path, error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        self.file.write_all_at(bytes, offset).map_err(self.error("write"))
    }

    fn truncate(&self, len: u64) -> Result<(), VfsError> {
        self.file.set_len(len).map_err(self.error("truncate"))
    }

    fn sync(&self) -> Result<(), VfsError> {
        // fdatasync: a file's size is among what is needed to read it back, so it is covered.
        self.file.sync_data().map_err(self.error("sync"))
    }

    fn size(&self) -> Result<u64, VfsError> {
        self.file.metadata().map(|found| found.len()).map_err(self.error("look at"))
    }

    fn lock(&self, wanted: LockLevel) -> Result<bool, VfsError> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        if *level >= wanted {
            return Ok(true);
        }
        if *level == LockLevel::None {
            // The pending byte is a gate: held for a moment, so that a writer who waits behind it
            // is not overtaken by one reader after the other.
            if !self.set(Kind::Read, Range::PENDING)? {
                return Ok(false);
            }
            let shared = self.set(Kind::Read, Range::SHARED);
            self.set(Kind::Unlock, Range::PENDING)?;
            if !shared? {
                return Ok(false);
            }
            *level = LockLevel::Shared;
        }
        if wanted == LockLevel::Reserved {
            if !self.set(Kind::Write, Range::RESERVED)? {
                return Ok(false);
            }
            *level = LockLevel::Reserved;
        }
        if wanted >= LockLevel::Pending && *level < LockLevel::Pending {
            if !self.set(Kind::Write, Range::PENDING)? {
                return Ok(false);
            }
            *level = LockLevel::Pending;
        }
        if wanted == LockLevel::Exclusive {
            if !self.set(Kind::Write, Range::SHARED)? {
                return Ok(false);
            }
            *level = LockLevel::Exclusive;
        }
        Ok(true)
    }

    fn unlock(&self, wanted: LockLevel) -> Result<(), VfsError> {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        if *level <= wanted {
            return Ok(());
        }
        if wanted == LockLevel::None {
            self.set(Kind::Unlock, Range::ALL)?;
        } else {
            if *level == LockLevel::Exclusive {
                self.set(Kind::Read, Range::SHARED)?;
            }
            self.set(Kind::Unlock, Range::PENDING_AND_RESERVED)?;
        }
        *level = wanted;
        Ok(())
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        let level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        if *level >= LockLevel::Reserved {
            return Ok(false);
        }
        record_lock::is_locked_elsewhere(&self.file, Range::RESERVED)
            .map_err(self.error("look at the locks of"))
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
        assert_eq!(OsVfs.size(&folder.path().join("file")).unwrap(), Some(3));
        assert!(open("file", OpenMode::ReadOnly).unwrap().write_at(b"x", 0).is_err());
        OsVfs.delete(&folder.path().join("file"), true).unwrap();
        assert!(OsVfs.delete(&folder.path().join("file"), true).is_err());
        assert_eq!(OsVfs.size(&folder.path().join("file")).unwrap(), None);
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
