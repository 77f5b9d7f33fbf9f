//! The lab with Shoal's own engines; `lab-peers` is the same with everyone else's.

use std::process::ExitCode;

use shoal_testkit::alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    shoal_lab::main(&[], &shoal_lab::shoal::alone())
}
