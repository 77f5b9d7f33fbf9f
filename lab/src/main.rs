//! The lab with Shoal's own engines; `lab-peers` is the same with everyone else's.

use std::process::ExitCode;

use shoal_testkit::alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    let mut contenders = shoal_lab::Contenders::new();
    shoal_lab::shoal::add(&mut contenders);
    shoal_lab::shoal::generate(&mut contenders);
    shoal_lab::main(&[], &contenders)
}
