//! A counting global allocator, for tests and lab rows about allocations.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Counts the allocations of each thread and the bytes of all, then asks the system's allocator.
///
/// ```ignore
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
/// ```
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Set by a program whose `malloc` counts as well: see [`counts_c_heaps`].
static C_HEAPS: AtomicBool = AtomicBool::new(false);

/// Runs `work` and returns its result with the number of allocations (and reallocations) this
/// thread made meanwhile. Always 0 unless [`CountingAllocator`] is the global allocator.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (result, counted) = count_bytes(work);
    (result, counted.allocations)
}

/// Allocations of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Bytes of allocations, and bytes by which reallocations grew.
    pub bytes: u64,
}

/// As [`count`], with the bytes.
pub fn count_bytes<T>(work: impl FnOnce() -> T) -> (T, Counted) {
    let before = Counted { allocations: ALLOCATIONS.get(), bytes: BYTES.get() };
    let result = work();
    let counted = Counted {
        allocations: ALLOCATIONS.get() - before.allocations,
        bytes: BYTES.get() - before.bytes,
    };
    (result, counted)
}

/// Counts one allocation of this thread, called by a `malloc` in the place of the system's, in a
/// program without [`CountingAllocator`]. Never allocates.
pub fn note(bytes: usize) {
    // An ending thread has no counter any more; its last allocations concern no measurement.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes as u64));
}

/// Promises a `malloc` with calls of [`note`] in this program: heaps of C are counted, too.
pub fn promise_c_heaps() {
    C_HEAPS.store(true, Ordering::Relaxed);
}

/// True where heaps of C are counted in this program.
pub fn counts_c_heaps() -> bool {
    C_HEAPS.load(Ordering::Relaxed)
}

/// Bytes that all threads hold, and the most since [`heap`] last began; neither knows what was
/// there before the first allocation, so only differences mean something.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Bytes held by some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// The most held at a time.
    pub peak: u64,
    /// Bytes left behind, the result included.
    pub live: u64,
}

/// Runs `work` and returns its result with the bytes it held, on all threads together: whoever
/// else allocates meanwhile is counted as well, so nothing else should run. Always 0 unless
/// [`CountingAllocator`] is the global allocator.
pub fn heap<T>(work: impl FnOnce() -> T) -> (T, Heap) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    let above = |bytes: i64| u64::try_from(bytes - before).unwrap_or(0);
    let (peak, live) = (PEAK.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed));
    (result, Heap { peak: above(peak), live: above(live) })
}

fn held(bytes: i64) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes > 0 {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

fn len(bytes: usize) -> i64 {
    // No allocation is longer than `isize::MAX`.
    bytes.cast_signed() as i64
}

// SAFETY: every call is passed on unchanged to `System`, which upholds the contract of
// `GlobalAlloc`; counting touches a `Cell` of this thread and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        held(len(layout.size()));
        // SAFETY: the caller's promise about `layout` is the one `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        held(-len(layout.size()));
        // SAFETY: `pointer` came from `System` through `alloc` or `realloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size.saturating_sub(layout.size()));
        held(len(size) - len(layout.size()));
        // SAFETY: `pointer` came from `System`, and the caller vouches for `layout` and `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
