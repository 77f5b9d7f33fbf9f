//! Lock levels and locks on bytes between handles of one process, for files without system locks:
//! those in memory and in the simulator.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{ByteLock, LockLevel};

/// The locks held on one file, by all handles together.
#[derive(Debug, Default)]
struct Holders {
    /// Handles at [`LockLevel::Shared`] or above.
    shared: usize,
    /// One handle at [`LockLevel::Reserved`] or above.
    reserved: bool,
    /// One handle at [`LockLevel::Pending`] or above.
    pending: bool,
    /// Locks on single bytes: the handle's number, the byte, true for an exclusive lock.
    bytes: Vec<(u64, u64, bool)>,
    /// The number of the next handle.
    next: u64,
}

/// The locks of one file, shared by its handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileLocks {
    holders: Arc<Mutex<Holders>>,
}

/// One handle's part in [`FileLocks`]; dropping releases every lock of the handle.
#[derive(Debug)]
pub(crate) struct HandleLock {
    file: FileLocks,
    level: Mutex<LockLevel>,
    /// Whose locks on bytes are meant.
    number: u64,
}

impl HandleLock {
    pub(crate) fn new(file: FileLocks) -> HandleLock {
        let number = {
            let mut holders = file.holders.lock().unwrap_or_else(PoisonError::into_inner);
            holders.next += 1;
            holders.next
        };
        HandleLock { file, level: Mutex::new(LockLevel::None), number }
    }

    /// Sets the lock on each of `len` bytes from `start`; false, and nothing changed, when another
    /// handle is in the way.
    pub(crate) fn lock_bytes(&self, start: u64, len: u64, lock: ByteLock) -> bool {
        let range = start..start.saturating_add(len);
        let mut holders = self.file.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let in_the_way = holders.bytes.iter().any(|&(owner, byte, alone)| {
            let wanted = lock == ByteLock::Exclusive || (lock == ByteLock::Shared && alone);
            owner != self.number && range.contains(&byte) && wanted
        });
        if in_the_way {
            return false;
        }
        holders.bytes.retain(|(owner, byte, _)| *owner != self.number || !range.contains(byte));
        if lock != ByteLock::None {
            let alone = lock == ByteLock::Exclusive;
            holders.bytes.extend(range.map(|byte| (self.number, byte, alone)));
        }
        true
    }

    /// True when another handle holds a lock on the byte `place`.
    pub(crate) fn is_locked_elsewhere(&self, place: u64) -> bool {
        let holders = self.file.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.bytes.iter().any(|&(owner, byte, _)| owner != self.number && byte == place)
    }

    pub(crate) fn lock(&self, wanted: LockLevel) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let mut holders = self.file.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if *level >= wanted {
            return true;
        }
        if *level == LockLevel::None {
            if holders.pending {
                return false;
            }
            holders.shared += 1;
            *level = LockLevel::Shared;
        }
        if wanted == LockLevel::Reserved {
            if holders.reserved || holders.pending {
                return false;
            }
            holders.reserved = true;
            *level = LockLevel::Reserved;
        }
        if wanted >= LockLevel::Pending && *level < LockLevel::Pending {
            // From shared, as recovery does: a reserved lock elsewhere is in the way.
            if holders.pending || (holders.reserved && *level < LockLevel::Reserved) {
                return false;
            }
            holders.pending = true;
            holders.reserved = true;
            *level = LockLevel::Pending;
        }
        if wanted == LockLevel::Exclusive {
            if holders.shared > 1 {
                return false;
            }
            *level = LockLevel::Exclusive;
        }
        true
    }

    pub(crate) fn unlock(&self, wanted: LockLevel) {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let mut holders = self.file.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if *level <= wanted {
            return;
        }
        if *level >= LockLevel::Reserved {
            holders.reserved = false;
        }
        if *level >= LockLevel::Pending {
            holders.pending = false;
        }
        if wanted == LockLevel::None {
            holders.shared -= 1;
        }
        *level = wanted;
    }

    pub(crate) fn is_reserved_elsewhere(&self) -> bool {
        let level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let holders = self.file.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.reserved && *level < LockLevel::Reserved
    }
}

impl Drop for HandleLock {
    fn drop(&mut self) {
        self.unlock(LockLevel::None);
        self.lock_bytes(0, u64::MAX, ByteLock::None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_locked_by_one_or_shared() {
        let file = FileLocks::default();
        let [a, b] = [(); 2].map(|()| HandleLock::new(file.clone()));
        assert!(a.lock_bytes(120, 1, ByteLock::Exclusive));
        assert!(!b.lock_bytes(118, 3, ByteLock::Shared) && b.is_locked_elsewhere(120));
        assert!(!a.is_locked_elsewhere(120));
        assert!(b.lock_bytes(121, 3, ByteLock::Shared) && a.lock_bytes(123, 1, ByteLock::Shared));
        assert!(!b.lock_bytes(122, 2, ByteLock::Exclusive));
        assert!(a.lock_bytes(123, 1, ByteLock::None) && b.lock_bytes(122, 2, ByteLock::Exclusive));
        drop(a);
        assert!(b.lock_bytes(120, 1, ByteLock::Exclusive));
    }

    #[test]
    fn one_writer_waits_for_readers_and_keeps_new_ones_out() {
        let file = FileLocks::default();
        let [a, b, c] = [(); 3].map(|()| HandleLock::new(file.clone()));
        assert!(a.lock(LockLevel::Shared) && b.lock(LockLevel::Shared));
        assert!(a.lock(LockLevel::Reserved));
        assert!(!b.lock(LockLevel::Reserved));
        assert!(b.is_reserved_elsewhere() && !a.is_reserved_elsewhere());
        assert!(!a.lock(LockLevel::Exclusive));
        assert!(!c.lock(LockLevel::Shared));
        b.unlock(LockLevel::None);
        assert!(a.lock(LockLevel::Exclusive));
        a.unlock(LockLevel::Shared);
        assert!(c.lock(LockLevel::Shared));
        drop(a);
        assert!(c.lock(LockLevel::Exclusive));
        assert!(!b.lock(LockLevel::Shared));
    }
}
