//! Page numbers.

use std::fmt;
use std::num::NonZeroU32;

/// A page's number, counted from 1. `Option<Pgno>` is the format's "0 when none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pgno(NonZeroU32);

impl Pgno {
    /// The page of the file header and the root of `sqlite_schema`.
    pub const FIRST: Pgno = Pgno(NonZeroU32::MIN);
    /// The highest page number the format allows.
    pub const MAX: u32 = 0xFFFF_FFFE;
    /// The first byte of the unused page: locks are taken on its bytes.
    pub const LOCK_BYTE: u64 = 0x4000_0000;

    /// Returns page number `number`, or `None` for 0.
    #[inline]
    pub const fn new(number: u32) -> Option<Pgno> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Pgno(number)),
            None => None,
        }
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the page of the lock bytes, which holds no data, in a file of pages of `page_size`
    /// bytes.
    ///
    /// # Panics
    /// When `page_size` is 0.
    pub fn lock_page(page_size: u32) -> Pgno {
        let number = Pgno::LOCK_BYTE / u64::from(page_size) + 1;
        u32::try_from(number).ok().and_then(Pgno::new).expect("2^30 / size + 1 is 1..=2^30 + 1")
    }

    /// Returns the offset in bytes of the page in a file of pages of `page_size` bytes.
    #[inline]
    pub fn offset(self, page_size: u32) -> u64 {
        u64::from(self.get() - 1) * u64::from(page_size)
    }
}

impl fmt::Display for Pgno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_offsets_and_the_lock_page() {
        assert_eq!(Pgno::new(0), None);
        assert_eq!(Pgno::new(3).unwrap().offset(4096), 8192);
        assert_eq!(Pgno::lock_page(4096).get(), 262_145);
        assert_eq!(Pgno::lock_page(65536).get(), 16_385);
        assert_eq!(Pgno::lock_page(4096).offset(4096), Pgno::LOCK_BYTE);
    }
}
