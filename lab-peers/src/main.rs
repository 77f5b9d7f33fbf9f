//! The lab with Shoal's engines and everyone else's.
//!
//! Each peer is a feature, so that one that does not build costs no other.

mod document;
mod hash;
mod table;

use std::process::ExitCode;

use shoal_testkit::alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    let mut contenders = shoal_lab::Contenders::new();
    #[cfg(not(feature = "peers-only"))]
    shoal_lab::shoal::add(&mut contenders);
    document::add(&mut contenders);
    table::add(&mut contenders);
    hash::add(&mut contenders);
    shoal_lab::main(&[], &contenders)
}
