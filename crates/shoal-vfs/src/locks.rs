//! The five lock levels between handles of one process, for files that no system lock guards.

use std::sync::{Arc, Mutex, PoisonError};

use crate::LockLevel;

/// Who holds what on one file.
#[derive(Debug, Default)]
struct Holders {
    /// Handles at [`LockLevel::Shared`] or above.
    shared: usize,
    /// One handle at [`LockLevel::Reserved`] or above.
    reserved: bool,
    /// One handle at [`LockLevel::Pending`] or above.
    pending: bool,
}

/// The locks of one file, shared by its handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileLocks {
    holders: Arc<Mutex<Holders>>,
}

/// One handle's part in [`FileLocks`]; what it holds is let go on drop.
#[derive(Debug)]
pub(crate) struct HandleLock {
    file: FileLocks,
    level: Mutex<LockLevel>,
}

impl HandleLock {
    pub(crate) fn new(file: FileLocks) -> HandleLock {
        HandleLock { file, level: Mutex::new(LockLevel::None) }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
