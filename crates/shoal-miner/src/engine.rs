//! The engine: backends, their work, their solutions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use shoal_pow::Challenge;

use crate::backend::Backend;
use crate::backend_threads::BackendThreads;
use crate::schedule::{Input, Output, Rules, Scheduler};
use crate::source::random_u64;
use crate::status::Status;
use crate::work::{Handover, Solution, Work};

/// Options of an engine.
pub struct EngineOptions {
    /// Who tries nonces. At least one, with names of their own.
    pub backends: Vec<Box<dyn Backend>>,
    /// Whose solutions are computed again before they are reported.
    pub verify: Verify,
    /// Checks on devices, which could leave nonces out; `None` believes them.
    pub spot_checks: Option<SpotChecks>,
    /// How work is shared between backends.
    pub allocation: Allocation,
    /// How much work a backend is dealt at a time, as time at its present rate.
    pub horizon: Duration,
    /// How long backends may take.
    pub timeouts: Timeouts,
}

/// Whose solutions are computed again before they are reported, each at the cost of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Solutions of backends without our own kernels.
    #[default]
    Untrusted,
    /// All.
    All,
}

/// Checks on backends without our own kernels: they are asked for easier
/// tags than solutions, and some of these are computed again.
///
/// With the defaults, one hash of the processor for 256 of the device. A device trying nothing
/// is found out after 288 nonces, one making tags up after 256 on average, one trying half
/// of its nonces after a thousand or so; an honest one, never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SpotChecks {
    /// One tag in so many is to be reported; at least 1.
    pub difficulty: u64,
    /// One reported tag in so many is computed again, by chance; at least 1.
    pub one_in: u32,
}

impl Default for SpotChecks {
    fn default() -> Self {
        Self { difficulty: 4, one_in: 64 }
    }
}

/// How work is shared between backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// By their hash rates of late.
    #[default]
    Adaptive,
    /// By their lanes.
    Even,
}

/// Time limits of backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To start, memory included.
    pub start: Duration,
    /// To take a lease; a strike.
    pub assign: Duration,
    /// Strikes until quarantine.
    pub assign_strikes: u32,
    /// To cancel or to fence; the end at once.
    pub control: Duration,
    /// To try any nonce at all while it has a lease; the end at once.
    pub stall: Duration,
    /// To stop.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(180),
            assign: Duration::from_secs(1),
            assign_strikes: 3,
            control: Duration::from_secs(60),
            stall: Duration::from_secs(120),
            stop: Duration::from_secs(20),
        }
    }
}

/// An event of the engine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A backend has its memory and its threads.
    BackendReady {
        /// Its name.
        backend: Arc<str>,
    },
    /// A nonce whose tag meets the target, verified where asked for. Also of works
    /// replaced a moment ago: the caller knows its worth.
    Solution(Solution),
    /// A work ended; each gets exactly one of these.
    WorkDone {
        /// The work.
        work_id: u64,
        /// Why.
        end: WorkEnd,
        /// Nonces tried.
        tried: u64,
    },
    /// A backend lost its place; its untried nonces are dealt to the others.
    BackendQuarantined {
        /// Its name.
        backend: Arc<str>,
        /// Why.
        fault: Fault,
    },
    /// No backend is left. Only stopping helps.
    NoBackendLeft,
    /// Something people should know.
    Warning {
        /// Who says so; `None` for the engine.
        backend: Option<Arc<str>>,
        /// The words.
        text: String,
    },
}

/// Why a work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkEnd {
    /// Every nonce was tried.
    Exhausted,
    /// Set to pause on a solution, and there is one.
    Solved,
    /// Its deadline passed.
    Deadline,
    /// Another was assigned.
    Replaced,
    /// Cancelled.
    Cancelled,
    /// No backend is left, or none has enough memory.
    NoBackend,
    /// The engine was stopped.
    Stopped,
}

/// Why a backend lost its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The start failed.
    #[error("it could not start: {0}")]
    Start(crate::backend::BackendError),
    /// Failed at work.
    #[error("it failed: {0}")]
    Failed(crate::backend::BackendError),
    /// Too slow to take work, too often.
    #[error("it was slow to take work: {strikes} times")]
    SlowAssign {
        /// How often.
        strikes: u32,
    },
    /// A call did not come back in time.
    #[error("a call did not come back within {0:?}: {1}")]
    Timeout(Duration, &'static str),
    /// Has work and tries nothing.
    #[error("it tried no nonce for {0:?}")]
    Stalled(Duration),
    /// Reported a false tag.
    #[error("it reported a false tag for nonce {nonce}")]
    FalseSolution {
        /// The nonce.
        nonce: u64,
    },
    /// Left nonces out and reported them as tried: too few of their tags were reported.
    #[error("it left nonces out: {witnesses} tags of {nonces} nonces, usual is {expected}")]
    LeftOut {
        /// Nonces reported as tried.
        nonces: u64,
        /// Tags reported of them.
        witnesses: u64,
        /// About as many they must have had.
        expected: u64,
    },
    /// Reported nonces of others, or twice.
    #[error("it reported nonces that were not its own: {start}..{end}")]
    ForeignNonces {
        /// The first.
        start: u64,
        /// Behind the last.
        end: u64,
    },
    /// Reported a lease in too many pieces to keep account of.
    #[error("it reported a lease in too many pieces")]
    Scattered,
    /// Panicked.
    #[error("it panicked: {0}")]
    Panicked(String),
}

/// Why an engine does not start, or does not take a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no backend.
    #[error("an engine needs a backend")]
    NoBackend,
    /// Two backends have the same name.
    #[error("two backends have the same name")]
    SameName,
    /// The system gave no thread.
    #[error("cannot start a thread")]
    Thread,
    /// The engine was stopped.
    #[error("the engine was stopped")]
    Stopped,
    /// The header, or the memory of a hash, is out of bounds.
    #[error(transparent)]
    Work(#[from] shoal_pow::Error),
    /// A work without nonces, or with an id not above all earlier ones.
    #[error("a work needs nonces, and an id above those before it: {id}")]
    BadWork {
        /// Its id.
        id: u64,
    },
}

impl EngineOptions {
    /// These backends, and the defaults.
    pub fn new(backends: Vec<Box<dyn Backend>>) -> Self {
        Self {
            backends,
            verify: Verify::default(),
            spot_checks: Some(SpotChecks::default()),
            allocation: Allocation::default(),
            horizon: Duration::from_secs(10),
            timeouts: Timeouts::default(),
        }
    }
}

/// Backends at work. Every method may be called from any thread; dropping an engine stops it.
pub struct Engine {
    scheduler: Arc<Mutex<Scheduler>>,
    inputs: Sender<Input>,
    /// Who waits for a fence, by token.
    fences: Arc<Mutex<HashMap<u64, Sender<bool>>>>,
    next_fence: AtomicU64,
    /// The id of the last work, once there is one.
    last_work: Mutex<Option<u64>>,
    /// Set for the end: starts and verifications give up then.
    stop: Arc<AtomicBool>,
    control: Mutex<Option<JoinHandle<bool>>>,
    clean: AtomicBool,
}

impl Engine {
    /// Starts the backends, each on a thread of its own, and returns at once.
    ///
    /// The events end when the engine is stopped. They are queued without bound, at the pace of
    /// solutions and faults.
    ///
    /// # Errors
    /// [`EngineError`] when there is no backend, two share a name, or no thread can be started.
    pub fn start(options: EngineOptions) -> Result<(Self, Receiver<Event>), EngineError> {
        let EngineOptions { backends, verify, spot_checks, allocation, horizon, timeouts } =
            options;
        if backends.is_empty() {
            return Err(EngineError::NoBackend);
        }
        let names: HashSet<_> = backends.iter().map(|backend| backend.name()).collect();
        if names.len() != backends.len() {
            return Err(EngineError::SameName);
        }
        // Without entropy a device could foresee the checks on its tags, if it knew our code.
        let seed = random_u64().unwrap_or_default();
        let rules = Rules { verify, spot_checks, allocation, horizon, timeouts, seed };
        let named: Vec<_> =
            backends.iter().map(|backend| (backend.name(), backend.capabilities())).collect();
        let scheduler = Scheduler::new(named, rules, Instant::now());
        let scheduler = Arc::new(Mutex::new(scheduler));
        let stop = Arc::new(AtomicBool::new(false));
        let fences = Arc::default();
        let (inputs, received) = mpsc::channel();
        let (events, happened) = mpsc::channel();
        let backend_threads =
            BackendThreads::start(backends, &inputs, &stop).map_err(|_| EngineError::Thread)?;
        let control = Control {
            scheduler: Arc::clone(&scheduler),
            received,
            backend_threads,
            events,
            fences: Arc::clone(&fences),
            stop_timeout: timeouts.stop,
        };
        let control = thread::Builder::new()
            .name("shoal-engine".into())
            .spawn(move || control.run())
            // The backend_threads went with the closure: its channels closed, and its threads end.
            .map_err(|_| EngineError::Thread)?;
        let engine = Self {
            scheduler,
            inputs,
            fences,
            next_fence: AtomicU64::new(0),
            last_work: Mutex::new(None),
            stop,
            control: Mutex::new(Some(control)),
            clean: AtomicBool::new(true),
        };
        Ok((engine, happened))
    }

    /// Takes a work instead of the one before. Returns at once, also while backends start: they
    /// begin when they are ready.
    ///
    /// # Errors
    /// [`EngineError::BadWork`], [`EngineError::Work`], [`EngineError::Stopped`].
    pub fn assign(&self, work: Work, handover: Handover) -> Result<(), EngineError> {
        let id = work.id;
        if work.nonces.is_empty() {
            return Err(EngineError::BadWork { id });
        }
        Challenge::new(&work.header, work.memory_kib, work.target)?;
        // Held while sending, so that works arrive in the order of their ids.
        let mut last = lock(&self.last_work);
        if last.is_some_and(|last| id <= last) {
            return Err(EngineError::BadWork { id });
        }
        if self.stop.load(Relaxed) {
            return Err(EngineError::Stopped);
        }
        self.inputs.send(Input::Assign(work, handover)).map_err(|_| EngineError::Stopped)?;
        *last = Some(id);
        Ok(())
    }

    /// Ends the work of the moment, if there is one.
    pub fn cancel(&self, handover: Handover) {
        // When nobody listens any more there is no work.
        let _ = self.inputs.send(Input::Cancel(handover));
    }

    /// Its present state, also after the stop. Cheap.
    pub fn status(&self) -> Status {
        lock(&self.scheduler).status(Instant::now())
    }

    /// Waits until nothing is under way and everything finished is counted. `false` when that
    /// took too long.
    pub fn fence(&self, timeout: Duration) -> bool {
        let token = self.next_fence.fetch_add(1, Relaxed);
        let (tell, told) = mpsc::channel();
        lock(&self.fences).insert(token, tell);
        let deadline = Instant::now() + timeout;
        let sent = self.inputs.send(Input::Fence { token, deadline }).is_ok();
        // Longer than the deadline: the answer then says which.
        let idle = sent && told.recv_timeout(timeout + FENCE_GRACE).unwrap_or(false);
        lock(&self.fences).remove(&token);
        idle
    }

    /// Ends every thread and gives the memory back, at any time, also while backends start.
    ///
    /// Returns afterwards; `false` when a backend did not come back in time: its thread
    /// then is left to itself.
    pub fn stop(&self) -> bool {
        self.stop.store(true, Relaxed);
        let _ = self.inputs.send(Input::Stop);
        // Whoever comes second waits for the first.
        let mut control = lock(&self.control);
        if let Some(control) = control.take() {
            let clean = control.join().unwrap_or(false);
            self.clean.store(clean, Relaxed);
        }
        self.clean.load(Relaxed)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread that thinks.
struct Control {
    scheduler: Arc<Mutex<Scheduler>>,
    received: Receiver<Input>,
    backend_threads: BackendThreads,
    events: Sender<Event>,
    fences: Arc<Mutex<HashMap<u64, Sender<bool>>>>,
    stop_timeout: Duration,
}

impl Control {
    /// Runs until the stop. `true` when every thread ended.
    fn run(mut self) -> bool {
        let mut stopping: Option<Instant> = None;
        let mut interrupted = false;
        let mut tick_at = Instant::now();
        loop {
            self.carry_out();
            let now = Instant::now();
            {
                let mut scheduler = lock(&self.scheduler);
                if scheduler.is_over() {
                    break;
                }
                if now >= tick_at {
                    scheduler.handle(Input::Tick, now);
                    tick_at = scheduler.wake_at(now);
                } else {
                    tick_at = tick_at.min(scheduler.wake_at(now));
                }
                let waited = stopping.map(|since| now.duration_since(since));
                if waited.is_some_and(|waited| waited > self.stop_timeout) {
                    break;
                }
                if !interrupted && waited.is_some_and(|waited| waited > self.stop_timeout / 2) {
                    interrupted = true;
                    scheduler.interrupt_all();
                }
            }
            self.carry_out();
            let input = self.received.recv_timeout(tick_at.saturating_duration_since(now));
            let now = Instant::now();
            match input {
                Ok(input) => {
                    if matches!(input, Input::Stop) {
                        stopping.get_or_insert(now);
                    }
                    lock(&self.scheduler).handle(input, now);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    stopping.get_or_insert(now);
                    lock(&self.scheduler).handle(Input::Stop, now);
                }
            }
        }
        self.carry_out();
        self.backend_threads.end()
    }

    fn carry_out(&mut self) {
        let outputs = lock(&self.scheduler).outputs();
        for output in outputs {
            match output {
                Output::Command { backend, command } => {
                    self.backend_threads.command(backend, command)
                }
                Output::Interrupt { backend } => self.backend_threads.interrupt(backend),
                Output::Verify(claim) => self.backend_threads.verify(claim),
                Output::Event(event) => {
                    // Nobody has to listen.
                    let _ = self.events.send(event);
                }
                Output::Fenced { token, idle } => {
                    if let Some(tell) = lock(&self.fences).remove(&token) {
                        let _ = tell.send(idle);
                    }
                }
            }
        }
    }
}

/// A panic leaves no half-made change: every change is made in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much longer a fence waits for its answer than for its backends.
const FENCE_GRACE: Duration = Duration::from_secs(1);
