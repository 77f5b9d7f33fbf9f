//! A counting `malloc` in place of glibc's: allocations of peers in C are counted as those in Rust
//! are. The Rust heap asks the same `malloc` and is counted once, not twice.
//!
//! Memory is glibc's own, so functions not counted here (`free`, `memalign`) work as before. Pieces
//! an engine cuts from memory allocated earlier, as SQLite's lookaside slots, are no allocations.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::ffi::{c_int, c_void};

use shoal_testkit::alloc::note;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(pointer: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// `ENOMEM` of Linux.
const NO_MEMORY: c_int = 12;

// SAFETY: the symbol takes glibc's place with glibc's contract, since all work is glibc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    note(size);
    // SAFETY: as above.
    unsafe { __libc_malloc(size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    note(count.saturating_mul(size));
    // SAFETY: as above.
    unsafe { __libc_calloc(count, size) }
}

// SAFETY: as for `malloc`; how much was there is not known here, so the whole new size counts.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    note(size);
    // SAFETY: the caller's pointer came from one of these functions.
    unsafe { __libc_realloc(pointer, size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    note(size);
    // SAFETY: as above; memory of `memalign` is freed by `free` in glibc.
    let memory = unsafe { __libc_memalign(align, size) };
    if memory.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: the caller gave a place for the pointer.
    unsafe { out.write(memory) };
    0
}
