//! Files in memory, for databases without a path. Nothing survives the last handle of the vfs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::locks::{FileLocks, HandleLock};
use crate::shared::{SHARED_BLOCK, SharedBlock};
use crate::{ByteLock, File, LockLevel, OpenMode, Vfs, VfsError};

/// Files in memory. Clones see the same files.
#[derive(Clone, Debug, Default)]
pub struct MemVfs {
    files: Arc<Mutex<BTreeMap<PathBuf, Entry>>>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    bytes: Arc<RwLock<Vec<u8>>>,
    blocks: SharedBlocks,
    locks: FileLocks,
}

/// The shared blocks of a file. From the first one shared on, the blocks hold the file's bytes.
pub(crate) type SharedBlocks = Arc<Mutex<Vec<SharedBlock>>>;

/// Shares block `number` of a file with `bytes` at the time of its first shared block.
pub(crate) fn share_block(
    blocks: &SharedBlocks,
    bytes: &[u8],
    number: usize,
    grow: bool,
) -> Option<SharedBlock> {
    let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
    while blocks.len() <= number {
        let start = blocks.len() * SHARED_BLOCK;
        if !grow && bytes.len() < start + SHARED_BLOCK {
            return None;
        }
        blocks.push(SharedBlock::in_memory(bytes.get(start..).unwrap_or_default()));
    }
    Some(blocks[number].clone())
}

impl MemVfs {
    /// A place without files.
    pub fn new() -> MemVfs {
        MemVfs::default()
    }

    /// Puts a file with `bytes` at `path`, replacing any file already there.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let entry = Entry { bytes: Arc::new(RwLock::new(bytes)), ..Entry::default() };
        self.entries().insert(path.to_path_buf(), entry);
    }

    /// Returns a copy of the file at `path`.
    pub fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let entry = self.entries().get(path)?.clone();
        let bytes = entry.bytes.read().unwrap_or_else(PoisonError::into_inner).clone();
        Some(bytes)
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Entry>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vfs for MemVfs {
    fn open(&self, path: &Path, mode: OpenMode<'_>) -> Result<Box<dyn File>, VfsError> {
        let mut entries = self.entries();
        let writable = mode != OpenMode::ReadOnly;
        let entry = match mode {
            OpenMode::Create | OpenMode::CreateLike(_) => {
                entries.entry(path.to_path_buf()).or_default().clone()
            }
            OpenMode::ReadOnly | OpenMode::ReadWrite => match entries.get(path) {
                Some(entry) => entry.clone(),
                None => return Err(VfsError::NotFound { path: path.to_path_buf() }),
            },
        };
        Ok(Box::new(MemFile {
            path: path.to_path_buf(),
            bytes: entry.bytes,
            blocks: entry.blocks,
            lock: HandleLock::new(entry.locks),
            writable,
        }))
    }

    fn delete(&self, path: &Path, _sync_dir: bool) -> Result<(), VfsError> {
        match self.entries().remove(path) {
            Some(_) => Ok(()),
            None => Err(VfsError::NotFound { path: path.to_path_buf() }),
        }
    }

    fn size(&self, path: &Path) -> Result<Option<u64>, VfsError> {
        Ok(self
            .entries()
            .get(path)
            .map(|entry| entry.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64))
    }

    fn sync_dir(&self, _path: &Path) -> Result<(), VfsError> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemFile {
    path: PathBuf,
    bytes: Arc<RwLock<Vec<u8>>>,
    blocks: SharedBlocks,
    lock: HandleLock,
    writable: bool,
}

impl MemFile {
    fn require_writable(&self) -> Result<(), VfsError> {
        if self.writable {
            return Ok(());
        }
        Err(VfsError::PermissionDenied { path: self.path.clone() })
    }

    fn too_large(&self) -> VfsError {
        VfsError::NoSpace { path: self.path.clone() }
    }
}

impl File for MemFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, VfsError> {
        Ok(read_from(&self.bytes.read().unwrap_or_else(PoisonError::into_inner), bytes, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), VfsError> {
        self.require_writable()?;
        let mut target = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        write_into(&mut target, bytes, offset).ok_or_else(|| self.too_large())
    }

    fn truncate(&self, len: u64) -> Result<(), VfsError> {
        self.require_writable()?;
        let len = usize::try_from(len).map_err(|_| self.too_large())?;
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.bytes.write().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), VfsError> {
        Ok(())
    }

    fn size(&self) -> Result<u64, VfsError> {
        Ok(self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn lock(&self, level: LockLevel) -> Result<bool, VfsError> {
        if level > LockLevel::Shared {
            self.require_writable()?;
        }
        Ok(self.lock.lock(level))
    }

    fn unlock(&self, level: LockLevel) -> Result<(), VfsError> {
        self.lock.unlock(level);
        Ok(())
    }

    fn is_reserved_elsewhere(&self) -> Result<bool, VfsError> {
        Ok(self.lock.is_reserved_elsewhere())
    }

    fn lock_bytes(&self, start: u64, len: u64, lock: ByteLock) -> Result<Option<bool>, VfsError> {
        Ok(Some(self.lock.lock_bytes(start, len, lock)))
    }

    fn share(&self, number: usize, grow: bool) -> Result<Option<SharedBlock>, VfsError> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        Ok(share_block(&self.blocks, &bytes, number, grow))
    }

    fn is_locked_elsewhere(&self, place: u64) -> Result<bool, VfsError> {
        Ok(self.lock.is_locked_elsewhere(place))
    }
}

/// Fills `bytes` from `source` at `offset`, as far as `source` reaches; returns the count copied.
pub(crate) fn read_from(source: &[u8], bytes: &mut [u8], offset: u64) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| source.get(offset..));
    let rest = rest.unwrap_or_default();
    let length = rest.len().min(bytes.len());
    bytes[..length].copy_from_slice(&rest[..length]);
    length
}

/// Copies `bytes` into `target` at `offset`, growing `target` as needed; `None` past the address
/// space.
pub(crate) fn write_into(target: &mut Vec<u8>, bytes: &[u8], offset: u64) -> Option<()> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(bytes.len())?;
    if target.len() < end {
        target.resize(end, 0);
    }
    target[start..end].copy_from_slice(bytes);
    Some(())
}

/// The error a simulated or forged system call gives.
pub(crate) fn forged_error(operation: &'static str, path: &Path) -> VfsError {
    let source = io::Error::other("simulated fault");
    VfsError::Io { operation, path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_live_as_long_as_the_vfs() {
        let vfs = MemVfs::new();
        let path = Path::new("a");
        assert!(matches!(vfs.open(path, OpenMode::ReadOnly), Err(VfsError::NotFound { .. })));
        let file = vfs.open(path, OpenMode::Create).unwrap();
        file.write_at(b"xyz", 2).unwrap();
        assert_eq!(vfs.get(path).unwrap(), b"\0\0xyz");
        file.truncate(4).unwrap();
        let mut bytes = [9; 8];
        assert_eq!(file.read_at(&mut bytes, 1).unwrap(), 3);
        assert_eq!(bytes[..4], [0, b'x', b'y', 9]);
        assert_eq!(file.read_at(&mut bytes, 100).unwrap(), 0);
        assert_eq!((file.size().unwrap(), vfs.size(path).unwrap()), (4, Some(4)));
        let reader = vfs.open(path, OpenMode::ReadOnly).unwrap();
        assert!(reader.write_at(b"x", 0).is_err());
        vfs.delete(path, true).unwrap();
        assert_eq!(vfs.size(path).unwrap(), None);
        assert!(vfs.delete(path, true).is_err());
    }
}
