//! The trait of processors and devices.
//!
//! A backend is owned by one thread of the engine, the caller of every method: a blocking call
//! holds up nobody else; only [`Interrupt`] is called from another. Backends report results to
//! their [`Sink`], from any thread. Every report is checked: foreign nonces, nonces done twice,
//! nonces left out and false solutions put a backend in quarantine.
//!
//! A *device* is a backend without our own kernels: its tags are not trusted.

pub mod cpu;
#[cfg(any(feature = "gpu", feature = "cuda"))]
pub mod gpu;
pub mod sim;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Serialize;
use shoal_pow::TAG_BYTES;

use crate::work::{Handover, Work};

/// A processor or device, to try nonces on.
pub trait Backend: Send {
    /// Its name, unique within an engine: `cpu0`, `sim1`.
    fn name(&self) -> Arc<str>;

    /// Its capabilities. Asked before [`Self::start`] and once after, when lanes and memory are
    /// known.
    fn capabilities(&self) -> Capabilities;

    /// Takes its memory and starts its threads. May take long, and gives up soon after `stop` is
    /// set.
    ///
    /// # Errors
    /// [`BackendError`] when the backend cannot work; the only further call is to stop.
    fn start(&mut self, sink: Sink, stop: Arc<AtomicBool>) -> Result<(), BackendError>;

    /// Takes nonces to try: behind earlier ones ([`Queue::Append`]), or when it has none. Returns
    /// once the nonces are taken, not once they are tried.
    ///
    /// # Errors
    /// [`BackendError`] when the nonces cannot be taken; then none is tried.
    fn assign(&mut self, lease: Lease) -> Result<(), BackendError>;

    /// Drops assigned nonces not begun; `handover` decides about the rest. Returns at
    /// once.
    ///
    /// # Errors
    /// [`BackendError`] when the device does not obey.
    fn cancel(&mut self, handover: Handover) -> Result<(), BackendError>;

    /// Returns when nothing is under way and everything done was told to the sink, or at the
    /// deadline. A nonblocking backend returns at once and is asked again.
    ///
    /// # Errors
    /// [`BackendError`] when the device is lost.
    fn fence(&mut self, deadline: Instant) -> Result<Fence, BackendError>;

    /// Drives a nonblocking backend. Called at the interval its capabilities ask for.
    ///
    /// # Errors
    /// [`BackendError`] when the device is lost.
    fn poll(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Hashes finished since this was last called, and how many of them nobody waited for.
    fn take_hashes(&mut self) -> Hashes;

    /// Its present state, for people. Cheap enough for every second.
    fn telemetry(&self) -> Telemetry;

    /// A way to break off a slow call from another thread.
    fn interrupt(&self) -> Arc<dyn Interrupt>;

    /// Gives up hashes under way, ends its threads, gives its memory back. Called once, also
    /// after [`Self::start`] failed.
    fn stop(&mut self);
}

/// Breaks off whatever call a backend is in.
pub trait Interrupt: Send + Sync {
    /// Asks the call under way to return soon, with an error. The backend does not recover.
    fn interrupt(&self);
}

/// Some nonces of a work for a backend.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Its name; reports carry it.
    pub id: u64,
    /// The work. Untrusted backends get a target easier than the one searched for, and are to
    /// report every tag below.
    pub work: Arc<Work>,
    /// The nonces to try, a part of the work's.
    pub nonces: Range<u64>,
}

/// Capabilities of a backend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capabilities {
    /// Hashes computed at a time.
    pub lanes: u32,
    /// Memory of its own, outside the machine's budget. `None` for a processor.
    pub device_memory_kib: Option<u64>,
    /// Blocking calls, or calls to be polled for.
    pub calls: Calls,
    /// Queue of leases.
    pub queue: Queue,
    /// `true` for tags of our own kernels; others are computed again before they
    /// are reported.
    pub trusted: bool,
    /// Longest time to notice a cancel.
    pub preemption: Option<Duration>,
}

/// Blocking calls, or calls to be polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// Calls return when the device is done.
    Blocking,
    /// They return at once, and [`Backend::poll`] is called this often.
    Nonblocking {
        /// Time between two polls.
        poll: Duration,
    },
}

/// Effect of a lease on earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// Replaces them, so a backend gets one when the one before is done.
    Replace,
    /// Waits behind them, up to so many in all.
    Append {
        /// Leases held at a time, at least 1.
        depth: u32,
    },
}

/// How a fence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Nothing is under way.
    Idle,
    /// Something still is.
    Busy,
}

/// Hashes finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Hashes {
    /// For a work still wanted when they were done.
    pub counted: u64,
    /// For a work replaced, cancelled or past its deadline by then.
    pub late: u64,
}

/// State of a backend.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Telemetry {
    /// One entry for each worker, or lane, with a count of its own.
    pub workers: Vec<Worker>,
    /// Leases held and not done.
    pub leases: u32,
    /// The kernel: an instruction set or a device's program.
    pub kernel: String,
    /// Watts drawn by a device; `None` where nobody tells.
    pub watts: Option<f64>,
}

/// A worker of a backend.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Worker {
    /// The core of the worker, if pinned.
    pub core: Option<usize>,
    /// Hashes computed side by side.
    pub side_by_side: u32,
    /// The kind of pages its memory lies in, for people.
    pub pages: String,
    /// KiB of its memory, and how many of them lie in huge pages.
    pub memory_kib: u64,
    /// See above; `None` where the system does not say.
    pub huge_kib: Option<u64>,
    /// Hashes finished since its start.
    pub hashes: u64,
}

/// The receiver of a backend's reports. Cheap to clone; never blocks.
#[derive(Clone)]
pub struct Sink {
    pub(crate) tell: Arc<dyn Fn(Report) + Send + Sync>,
}

impl Sink {
    /// A sink with a function to take every report.
    pub fn new(tell: impl Fn(Report) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell) }
    }

    /// Tells.
    pub fn tell(&self, report: Report) {
        (self.tell)(report);
    }
}

/// A report of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// These nonces of a lease were tried: none of them before, none of them again.
    Done {
        /// The lease.
        lease: u64,
        /// The nonces.
        nonces: Range<u64>,
    },
    /// A tag below the target of a lease's work. Reported before its nonce is reported as done.
    Found {
        /// The lease.
        lease: u64,
        /// The nonce.
        nonce: u64,
        /// Its tag.
        tag: [u8; TAG_BYTES],
    },
    /// Words for people; work goes on.
    Warning(String),
    /// The backend gives up.
    Failed(BackendError),
}

/// Why a backend does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The machine or the device has not the memory.
    #[error(transparent)]
    Memory(#[from] shoal_pow::Error),
    /// A thread could not be started.
    #[error("cannot start a worker: {0}")]
    Thread(String),
    /// A work needs more memory for a hash than the backend has.
    #[error("a hash of the work takes more KiB than there are: {needed} of {has}")]
    WorkTooLarge {
        /// Memory of a hash.
        needed: u32,
        /// Memory there is for one.
        has: u32,
    },
    /// The device is lost, or says impossible things.
    #[error("the device failed: {0}")]
    Device(String),
    /// Stopped on request, or interrupted.
    #[error("it was stopped")]
    Stopped,
}
