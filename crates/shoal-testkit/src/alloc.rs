//! A global allocator that counts, for tests and lab rows that state how much they allocate.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

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
}

/// Runs `work` and returns its result with the number of allocations (and reallocations) this
/// thread made meanwhile. Always 0 unless [`CountingAllocator`] is the global allocator.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.get();
    let result = work();
    (result, ALLOCATIONS.get() - before)
}

/// Bytes that all threads hold, and the most since [`heap`] last began; neither knows what was
/// there before the first allocation, so only differences mean something.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// How many bytes some work asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// The most it held at a time.
    pub peak: u64,
    /// What it left behind, its result included.
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

fn note() {
    // A thread that is ending has no counter any more; what it frees then concerns no measurement.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on unchanged to `System`, which upholds the contract of
// `GlobalAlloc`; counting touches a `Cell` of this thread and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
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
        note();
        held(len(size) - len(layout.size()));
        // SAFETY: `pointer` came from `System`, and the caller vouches for `layout` and `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
