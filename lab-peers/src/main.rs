//! The lab with Shoal's engines and everyone else's.
//!
//! Each peer is a feature: a peer failing to build costs no other.

mod db;
mod document;
mod hash;
mod malloc;
mod table;

use std::process::ExitCode;

/// Where `malloc` cannot be counted, Rust's heap still can.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
#[global_allocator]
static ALLOCATOR: shoal_testkit::alloc::CountingAllocator = shoal_testkit::alloc::CountingAllocator;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    shoal_testkit::alloc::promise_c_heaps();
    let mut contenders = shoal_lab::Contenders::new();
    #[cfg(not(feature = "peers-only"))]
    shoal_lab::shoal::add(&mut contenders);
    document::add(&mut contenders);
    db::add(&mut contenders);
    table::add(&mut contenders);
    hash::add(&mut contenders);
    shoal_lab::main(&[], &contenders)
}
