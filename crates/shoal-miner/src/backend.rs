//! The trait behind which processors and devices stand.
//!
//! A backend is owned by one thread of the engine, which makes every call, so a call that blocks
//! holds up nobody else; only [`Interrupt`] is called from another. What a backend has done it
//! tells its [`Sink`], from whatever thread it likes. Everything it says is checked: nonces it was
//! not given, more than it was given, nonces left out and solutions that are none cost it its
//! place.

pub mod cpu;
pub mod sim;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::Serialize;
use shoal_pow::TAG_BYTES;

use crate::work::{Handover, Work};

/// A processor or device that tries nonces.
pub trait Backend: Send {
    /// Its name, unique within an engine: `cpu0`, `sim1`.
    fn name(&self) -> Arc<str>;

    /// What it can do. Asked before [`Self::start`] and once after, when lanes and memory are
    /// known.
    fn capabilities(&self) -> Capabilities;

    /// Takes its memory and starts its threads. May take long, and gives up soon after `stop` is
    /// set.
    ///
    /// # Errors
    /// [`BackendError`] when it cannot work; it is not called again then, except to stop.
    fn start(&mut self, sink: Sink, stop: Arc<AtomicBool>) -> Result<(), BackendError>;

    /// Takes nonces to try: behind those it has ([`Queue::Append`]), or when it has none. Returns
    /// when it has them, not when it has tried them.
    ///
    /// # Errors
    /// [`BackendError`] when it cannot take them; then it does none of them.
    fn assign(&mut self, lease: Lease) -> Result<(), BackendError>;

    /// Drops what is assigned and not begun; `handover` says what becomes of the rest. Returns at
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

    /// What it is doing, for people. Cheap enough for every second.
    fn telemetry(&self) -> Telemetry;

    /// A way to break off a call that takes too long, from another thread.
    fn interrupt(&self) -> Arc<dyn Interrupt>;

    /// Gives up what is under way, ends its threads, gives its memory back. Called once, also
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
    /// The work. For a backend that is not trusted, its target is easier than the one that is
    /// searched for: it is to report every tag that meets this one.
    pub work: Arc<Work>,
    /// The nonces to try, a part of the work's.
    pub nonces: Range<u64>,
}

/// What a backend can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capabilities {
    /// Hashes it computes at a time.
    pub lanes: u32,
    /// Memory of its own, that no budget of the machine counts. `None` for a processor.
    pub device_memory_kib: Option<u64>,
    /// Whether calls wait for the device.
    pub calls: Calls,
    /// Whether leases wait behind each other.
    pub queue: Queue,
    /// Whether its tags come from our own kernels; those of others are computed again before they
    /// are reported.
    pub trusted: bool,
    /// How long it may take to notice a cancel.
    pub preemption: Option<Duration>,
}

/// Whether calls wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// They return when the device has done what they ask.
    Blocking,
    /// They return at once, and [`Backend::poll`] is called this often.
    Nonblocking {
        /// Time between two polls.
        poll: Duration,
    },
}

/// What a lease does to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// It would replace them, so it gets one when the one before is done.
    Replace,
    /// It waits behind them, up to this many in all.
    Append {
        /// Leases it holds at a time, at least 1.
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
    /// For a work that was wanted until they were done.
    pub counted: u64,
    /// For a work that was replaced, cancelled or past its deadline by then.
    pub late: u64,
}

/// What a backend is doing.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Telemetry {
    /// One entry for each worker, or lane, that is counted on its own.
    pub workers: Vec<Worker>,
    /// Leases held and not done.
    pub leases: u32,
    /// The kernel that runs: an instruction set or a device's program.
    pub kernel: String,
}

/// A worker of a backend.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Worker {
    /// The core it is pinned to.
    pub core: Option<usize>,
    /// Hashes it computes side by side.
    pub side_by_side: u32,
    /// The kind of pages its memory lies in, for people.
    pub pages: String,
    /// KiB of its memory, and how many of them lie in huge pages.
    pub memory_kib: u64,
    /// See above; `None` where the system does not say.
    pub huge_kib: Option<u64>,
    /// Hashes it finished since it started.
    pub hashes: u64,
}

/// Where a backend tells what it did. Cheap to clone; never blocks.
#[derive(Clone)]
pub struct Sink {
    pub(crate) tell: Arc<dyn Fn(Report) + Send + Sync>,
}

impl Sink {
    /// A sink that hands every report to this function.
    pub fn new(tell: impl Fn(Report) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell) }
    }

    /// Tells.
    pub fn tell(&self, report: Report) {
        (self.tell)(report);
    }
}

/// What a backend tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// These nonces of a lease were tried: none of them before, none of them again.
    Done {
        /// Of which lease.
        lease: u64,
        /// Which.
        nonces: Range<u64>,
    },
    /// A tag that meets the target of a lease's work. Told before the nonce is told to be done.
    Found {
        /// Of which lease.
        lease: u64,
        /// The nonce.
        nonce: u64,
        /// Its tag.
        tag: [u8; TAG_BYTES],
    },
    /// Something people should know; it goes on.
    Warning(String),
    /// It does not go on.
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
        /// What a hash takes.
        needed: u32,
        /// What there is for one.
        has: u32,
    },
    /// The device is lost, or says what cannot be.
    #[error("the device failed: {0}")]
    Device(String),
    /// It was told to stop, or interrupted.
    #[error("it was stopped")]
    Stopped,
}
