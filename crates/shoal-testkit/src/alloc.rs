//! A global allocator that counts, for tests and lab rows that state how much they allocate.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread, then asks the system's allocator.
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

fn note() {
    // A thread that is ending has no counter any more; what it frees then concerns no measurement.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on unchanged to `System`, which upholds the contract of
// `GlobalAlloc`; counting touches a `Cell` of this thread and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise about `layout` is the one `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` through `alloc` or `realloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: `pointer` came from `System`, and the caller vouches for `layout` and `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
