//! Values in pages of memory of their own, locked against swapping and left out of core dumps.

// mlock(2) is about whole pages, and no safe container has a page for itself.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the system has refused to lock a page.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A value alone in pages locked in memory and left out of core dumps, as far as the system
/// permits. The value is wiped when dropped. A moved value leaves copies at its earlier places: the
/// caller wipes the copies.
///
/// Costs a page at least, and some system calls: meant for the keys of open files.
pub struct Locked<T: ?Sized> {
    at: NonNull<T>,
    /// Bytes of the pages.
    len: usize,
}

impl<T> Locked<T> {
    /// The value, in pages of its own. Where they cannot be locked, the value is there all the
    /// same, and [`is_memory_lock_refused`] says so.
    pub fn new(value: T) -> Locked<T> {
        let (start, len) = pages(Layout::new::<T>());
        let at = start.cast::<T>();
        // SAFETY: `pages` gives writable memory that nobody else has, of at least the size and the
        // alignment of `T`.
        unsafe { at.write(value) };
        Locked { at, len }
    }
}

impl Locked<[u8]> {
    /// A copy of the bytes, in pages of its own.
    pub fn copied(bytes: &[u8]) -> Locked<[u8]> {
        let (start, len) = pages(Layout::for_value(bytes));
        // SAFETY: the pages have room for the bytes, and are nobody else's: the ranges are apart.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Locked { at: NonNull::slice_from_raw_parts(start, bytes.len()), len }
    }
}

/// True once the system has refused to lock memory, because of its limit (`ulimit -l`): secrets may
/// then be swapped out.
pub fn is_memory_lock_refused() -> bool {
    IS_REFUSED.load(Ordering::Relaxed)
}

/// Pages for a value, zeroed, and the number of their bytes.
fn pages(layout: Layout) -> (NonNull<u8>, usize) {
    // SAFETY: `sysconf` only reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).unwrap_or(1 << 12).max(1 << 12);
    assert!(layout.align() <= page, "values are aligned to less than a page");
    let len = layout.size().max(1).next_multiple_of(page);
    // SAFETY: a new mapping at a place of the system's choice touches no memory of ours.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        )
    };
    let start = match NonNull::new(start.cast::<u8>()) {
        Some(at) if start != libc::MAP_FAILED => at,
        _ => std::alloc::handle_alloc_error(layout),
    };
    // SAFETY: the range is the mapping just made. Both calls change how the system treats it, and
    // not its content.
    let is_locked = unsafe {
        #[cfg(target_os = "linux")]
        libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTDUMP);
        libc::mlock(start.as_ptr().cast(), len) == 0
    };
    if !is_locked {
        IS_REFUSED.store(true, Ordering::Relaxed);
    }
    (start, len)
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `new` or `copied` wrote the value, which lives until `drop`. Nobody is given a
        // mutable reference to the value.
        unsafe { self.at.as_ref() }
    }
}

impl<T: ?Sized> Drop for Locked<T> {
    fn drop(&mut self) {
        let start = self.at.cast::<u8>();
        // SAFETY: the value is dropped once, here. Its pages were mapped by `pages`, with `len`
        // bytes, and nobody has a reference any more. The bytes escape into a system call, so that
        // wiping them cannot be left out.
        unsafe {
            self.at.drop_in_place();
            start.write_bytes(0, self.len);
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
            libc::munmap(start.as_ptr().cast(), self.len);
        }
    }
}

// SAFETY: `Locked` owns its value, as a box does.
unsafe impl<T: ?Sized + Send> Send for Locked<T> {}
// SAFETY: as above; shared references give shared references to the value alone.
unsafe impl<T: ?Sized + Sync> Sync for Locked<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of the mapping with an address: `lo` for locked, `dd` for not dumped.
    #[cfg(target_os = "linux")]
    fn flags(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has the file");
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) =
                    (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                is_here = (from..to).contains(&address);
            } else if let (true, Some(flags)) = (is_here, line.strip_prefix("VmFlags:")) {
                return flags.to_owned();
            }
        }
        panic!("no mapping has the address");
    }

    #[test]
    fn values_are_in_locked_pages_and_dropped() {
        let counted = std::sync::Arc::new(());
        let locked = Locked::new((std::sync::Arc::clone(&counted), [7_u8; 5000]));
        assert_eq!(locked.1, [7; 5000]);
        let bytes = Locked::copied(b"a passphrase");
        assert_eq!(&*bytes, b"a passphrase");
        assert!(Locked::copied(b"").is_empty());
        #[cfg(target_os = "linux")]
        for address in [&raw const locked.1 as usize, bytes.as_ptr() as usize] {
            let flags = flags(address);
            assert!(flags.contains(" dd"), "{flags}");
            assert!(flags.contains(" lo") || is_memory_lock_refused(), "{flags}");
        }
        drop(locked);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }
}
