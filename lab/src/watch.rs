//! The stopwatch handed to a workload: the workload chooses the timed region.

use std::time::{Duration, Instant};

use shoal_testkit::alloc::{self, Counted};

/// Times the measured region of one sample, and takes down other figures to report.
#[derive(Debug)]
pub(crate) struct Watch {
    verifying: bool,
    elapsed: Duration,
    ops: u64,
    counted: Counted,
    on_threads: bool,
    figures: Vec<(String, f64)>,
}

impl Watch {
    pub(crate) fn new(verifying: bool) -> Self {
        Self {
            verifying,
            elapsed: Duration::ZERO,
            ops: 0,
            counted: Counted::default(),
            on_threads: false,
            figures: Vec::new(),
        }
    }

    /// True in the run whose answer is compared in full. Other runs may skip the costly part of the
    /// answer by returning `None`.
    pub(crate) fn verifying(&self) -> bool {
        self.verifying
    }

    /// Runs `work`, consisting of `ops` operations, on the clock. May be called more than once; the
    /// times add up. Set-up and the making of answers belong outside.
    pub(crate) fn time<R>(&mut self, ops: u64, work: impl FnOnce() -> R) -> R {
        let (result, elapsed, counted) = lab_measured_region(work);
        self.elapsed += elapsed;
        self.counted.allocations += counted.allocations;
        self.counted.bytes += counted.bytes;
        self.ops += ops;
        result
    }

    /// As [`Self::time`] for work done by other threads: allocations are counted thread by thread,
    /// so there is no count for the workers.
    pub(crate) fn time_threads<R>(&mut self, ops: u64, work: impl FnOnce() -> R) -> R {
        self.on_threads = true;
        self.time(ops, work)
    }

    /// Takes down a figure other than a time: bytes saved, patches made.
    pub(crate) fn figure(&mut self, name: &str, value: f64) {
        self.figures.push((name.to_owned(), value));
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(crate) fn ops(&self) -> u64 {
        self.ops
    }

    pub(crate) fn counted(&self) -> Option<Counted> {
        (!self.on_threads).then_some(self.counted)
    }

    pub(crate) fn into_figures(self) -> Vec<(String, f64)> {
        self.figures
    }
}

/// A function of its own, never inlined and with this name, so that a profiler can be told to look
/// at nothing else.
#[inline(never)]
fn lab_measured_region<R>(work: impl FnOnce() -> R) -> (R, Duration, Counted) {
    let start = Instant::now();
    let (result, counted) = alloc::count_bytes(work);
    (result, start.elapsed(), counted)
}

/// True when the program has the counting allocator; every count is 0 otherwise.
pub(crate) fn counts_allocations() -> bool {
    alloc::count(|| std::hint::black_box(Box::new(1_u64))).1 > 0
}
