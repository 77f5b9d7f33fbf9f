//! A bound on the memory allocated for one input, as a global allocator aborting beyond the bound.
//!
//! libFuzzer's own limit is the size of the process: a small input reserving 500 MB for a moment
//! would pass that limit.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Runs `work`, and aborts when the bytes allocated since the start exceed `max_bytes` at any
/// moment. An abort, unlike an error, makes the fuzzer keep the input.
pub fn bounded<T>(max_bytes: usize, work: impl FnOnce() -> T) -> T {
    LEFT.set(i64::try_from(max_bytes).unwrap_or(i64::MAX));
    let result = work();
    LEFT.set(i64::MAX);
    result
}

thread_local! {
    /// Bytes this thread may still allocate.
    static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
}

struct Budget;

#[global_allocator]
static ALLOCATOR: Budget = Budget;

/// Takes `bytes` from the budget (gives them back when negative).
fn take(bytes: i64) {
    // A thread about to end has no budget any more.
    let left = LEFT.try_with(|left| {
        left.set(left.get().saturating_sub(bytes));
        left.get()
    });
    // A panic is a finding already; its report needs room of its own.
    if left.is_ok_and(|left| left < 0) && !std::thread::panicking() {
        // Room for the report itself.
        LEFT.set(i64::MAX);
        eprintln!("an allocation passes the budget of the input, bytes: {bytes}");
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed on unchanged to `System`, whose contract is that of `GlobalAlloc`;
// counting touches a `Cell` of this thread, and a report of an overrun does not return.
unsafe impl GlobalAlloc for Budget {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(signed(layout.size()));
        // SAFETY: the caller's promise about `layout` is the one `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(signed(layout.size()));
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        take(-signed(layout.size()));
        // SAFETY: `pointer` came from `System` through one of the others.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(signed(size) - signed(layout.size()));
        // SAFETY: `pointer` came from `System`, and the caller vouches for `layout` and `size`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
