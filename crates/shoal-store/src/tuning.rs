//! Numbers of an open store that its users change at any time: SQLite's `cache_size`,
//! `secure_delete` and `temp_store`.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use crate::{Store, Transaction};

/// The numbers of a store. Reading one costs a load.
#[derive(Debug)]
pub(crate) struct Tuning {
    cache_size: AtomicI64,
    secure_delete: AtomicU8,
    temporary: AtomicU8,
}

/// What happens to the bytes of what is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureDelete {
    /// They stay until something else takes their place.
    #[default]
    Off,
    /// They are overwritten with zeroes: cells within their page, and pages put on the freelist.
    On,
    /// They are overwritten within pages that are written anyway; free pages stay.
    Fast,
}

impl Tuning {
    pub(crate) fn new(cache_pages: usize) -> Tuning {
        Tuning {
            cache_size: AtomicI64::new(i64::try_from(cache_pages).unwrap_or(i64::MAX)),
            secure_delete: AtomicU8::new(0),
            temporary: AtomicU8::new(0),
        }
    }

    /// The pages kept from one transaction to the next.
    pub(crate) fn cache_pages(&self, page_size: u32) -> usize {
        let size = self.cache_size.load(Ordering::Relaxed);
        let pages = match size {
            0.. => size.unsigned_abs(),
            _ => size.unsigned_abs().saturating_mul(1024) / u64::from(page_size.max(512)),
        };
        usize::try_from(pages).unwrap_or(usize::MAX)
    }

    pub(crate) fn secure_delete(&self) -> SecureDelete {
        match self.secure_delete.load(Ordering::Relaxed) {
            0 => SecureDelete::Off,
            1 => SecureDelete::On,
            _ => SecureDelete::Fast,
        }
    }

    pub(crate) fn keeps_temporary_in_memory(&self) -> bool {
        self.temporary.load(Ordering::Relaxed) == IN_MEMORY
    }
}

/// `PRAGMA temp_store` for memory.
const IN_MEMORY: u8 = 2;

impl Store {
    /// How many pages are kept from one transaction to the next; negative for as many as fit in so
    /// many KiB. Beside them are the pages that a transaction has changed.
    pub fn cache_size(&self) -> i64 {
        self.inner.tuning.cache_size.load(Ordering::Relaxed)
    }

    /// Changes it, from the next transaction on.
    pub fn set_cache_size(&self, size: i64) {
        self.inner.tuning.cache_size.store(size, Ordering::Relaxed);
    }

    /// What happens to the bytes of what is deleted.
    pub fn secure_delete(&self) -> SecureDelete {
        self.inner.tuning.secure_delete()
    }

    /// Changes it at once. The journal of the transaction, and pages that were free before, still
    /// hold what they held.
    pub fn set_secure_delete(&self, secure_delete: SecureDelete) {
        let number = match secure_delete {
            SecureDelete::Off => 0,
            SecureDelete::On => 1,
            SecureDelete::Fast => 2,
        };
        self.inner.tuning.secure_delete.store(number, Ordering::Relaxed);
    }

    /// Where temporary files go: 0 and 1 for files, 2 for memory.
    pub fn temp_store(&self) -> u8 {
        self.inner.tuning.temporary.load(Ordering::Relaxed)
    }

    /// Changes it, for temporary files made from then on.
    pub fn set_temp_store(&self, place: u8) {
        self.inner.tuning.temporary.store(place.min(IN_MEMORY), Ordering::Relaxed);
    }
}

impl Transaction {
    /// The store's [`Store::cache_size`].
    pub fn cache_size(&self) -> i64 {
        self.store.tuning.cache_size.load(Ordering::Relaxed)
    }

    /// The store's [`Store::secure_delete`].
    pub fn secure_delete(&self) -> SecureDelete {
        self.store.tuning.secure_delete()
    }

    /// The store's [`Store::temp_store`].
    pub fn temp_store(&self) -> u8 {
        self.store.tuning.temporary.load(Ordering::Relaxed)
    }
}
