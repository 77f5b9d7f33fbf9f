//! The processor as a backend: persistent workers, each on a core of its own with memory of its
//! own, trying nonces side by side.
//!
//! Leases wait in a queue; a worker takes a piece of the first one, as many nonces as take
//! about a flush, and tries them gang by gang. Between two gangs it checks for a cancel; a
//! cancelled gang is given up between two slices. A worker keeps its counts in a line of memory
//! of its own, and reports now and then.

mod plan;
pub(crate) mod worker;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use shoal_argon::{Arena, Refused};
use shoal_pow::{Challenge, Isa};

use super::{
    Backend, BackendError, Calls, Capabilities, Fence, Hashes, Interrupt, Lease, Queue, Sink,
    Telemetry, Worker,
};
use crate::topology::Affinity;
use crate::work::Handover;
pub use plan::{CpuPlan, PlanError, SIDE_BY_SIDE_MAX, plan};
pub(crate) use plan::{half_costs, half_in_words};

/// How the processor is used.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// The backend's name.
    pub name: String,
    /// Memory of one hash.
    pub memory_kib: u32,
    /// Workers; `None` for as many as there are processors and memory.
    pub threads: Option<usize>,
    /// Hashes each computes at a time; `None` for as many as the memory suffices for, up to
    /// [`SIDE_BY_SIDE_MAX`].
    pub side_by_side: Option<usize>,
    /// Where workers run.
    pub affinity: Affinity,
    /// The kernel; `None` for the fastest.
    pub isa: Option<Isa>,
    /// Memory budget; `None` asks the machine.
    pub budget_kib: Option<u64>,
    /// Takes more than the budget, at the risk of being killed.
    pub oversubscribe: bool,
    /// Time between reports of workers.
    pub flush: Duration,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            name: "cpu0".into(),
            memory_kib: shoal_pow::MEMORY_KIB,
            threads: None,
            side_by_side: None,
            affinity: Affinity::Auto,
            isa: None,
            budget_kib: None,
            oversubscribe: false,
            flush: Duration::from_millis(50),
        }
    }
}

/// The processor.
pub struct CpuBackend {
    name: Arc<str>,
    plan: CpuPlan,
    isa: Isa,
    flush: Duration,
    take_arena: TakeArena,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Hashes told by [`Backend::take_hashes`] before.
    told: Hashes,
}

/// Where an arena comes from; tests refuse some.
type TakeArena = Arc<dyn Fn(u32) -> Result<Arena, Refused> + Send + Sync>;

impl CpuBackend {
    /// Plans a backend; takes no memory yet.
    ///
    /// # Errors
    /// [`PlanError`] when the memory does not suffice, or the numbers make no sense.
    pub fn new(options: &CpuOptions) -> Result<Self, PlanError> {
        let plan = plan::of_machine(options)?;
        Ok(Self::planned(options, plan))
    }

    fn planned(options: &CpuOptions, plan: CpuPlan) -> Self {
        let counters = (0..plan.threads).map(|_| Counter::default()).collect();
        let shared = Shared {
            state: Mutex::new(State { working: plan.threads, ..State::default() }),
            wake: Condvar::new(),
            idle: Condvar::new(),
            generation: AtomicU64::new(0),
            counters,
            memory: Mutex::new(vec![Worker::default(); plan.threads]),
        };
        Self {
            name: options.name.as_str().into(),
            isa: options.isa.unwrap_or_else(Isa::detect),
            plan,
            flush: options.flush,
            take_arena: Arc::new(Arena::new),
            shared: Arc::new(shared),
            threads: Vec::new(),
            told: Hashes::default(),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &CpuPlan {
        &self.plan
    }

    /// A dial for the number of working workers, also while the backend is an engine's.
    pub fn dial(&self) -> Dial {
        Dial(Arc::clone(&self.shared))
    }
}

/// How many of a backend's workers work. The others rest, and keep their memory.
#[derive(Clone)]
pub struct Dial(Arc<Shared>);

impl Dial {
    /// Workers there are, at work or at rest.
    pub fn workers(&self) -> usize {
        self.0.counters.len()
    }

    /// From now on so many work, at least one and at most all. Hashes under way are finished.
    pub fn set(&self, working: usize) {
        self.0.lock().working = working.clamp(1, self.workers());
        self.0.wake.notify_all();
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: u32::try_from(self.shared.lock().working * self.plan.side_by_side)
                .unwrap_or(u32::MAX),
            device_memory_kib: None,
            calls: Calls::Blocking,
            queue: Queue::Append { depth: 2 },
            trusted: true,
            preemption: None,
        }
    }

    /// Workers take their memory side by side, each on its own core, near the core.
    fn start(&mut self, sink: Sink, stop: Arc<AtomicBool>) -> Result<(), BackendError> {
        let (tell, told) = mpsc::channel();
        for number in 0..self.plan.threads {
            let seat = worker::Seat {
                number,
                core: self.plan.cores.get(number).copied().flatten(),
                memory_kib: self.plan.memory_kib,
                side_by_side: self.plan.side_by_side,
                isa: self.isa,
                flush: self.flush,
                take_arena: Arc::clone(&self.take_arena),
                shared: Arc::clone(&self.shared),
                sink: sink.clone(),
                stop: Arc::clone(&stop),
            };
            let tell = tell.clone();
            let thread = thread::Builder::new()
                .name(format!("{}-{number}", self.name))
                .spawn(move || seat.run(&tell))
                .map_err(|error| BackendError::Thread(error.to_string()))?;
            self.threads.push(thread);
        }
        drop(tell);
        // Every worker tells once; after a stop, soon.
        for _ in 0..self.plan.threads {
            told.recv().unwrap_or(Err(BackendError::Stopped))?;
        }
        Ok(())
    }

    fn assign(&mut self, lease: Lease) -> Result<(), BackendError> {
        let (needed, has) = (lease.work.memory_kib, self.plan.memory_kib);
        if needed > has {
            return Err(BackendError::WorkTooLarge { needed, has });
        }
        let mut state = self.shared.lock();
        let same = state.last.as_ref().filter(|(work, _)| Arc::ptr_eq(work, &lease.work));
        let challenge = match same {
            Some((_, challenge)) => Arc::clone(challenge),
            None => {
                let work = &lease.work;
                Arc::new(Challenge::new(&work.header, work.memory_kib, work.target)?)
            }
        };
        state.last = Some((Arc::clone(&lease.work), Arc::clone(&challenge)));
        state.queue.push_back(Waiting {
            lease: lease.id,
            deadline: lease.work.deadline,
            left: lease.nonces,
            challenge,
        });
        drop(state);
        self.shared.wake.notify_all();
        Ok(())
    }

    fn cancel(&mut self, handover: Handover) -> Result<(), BackendError> {
        self.shared.cancel(handover);
        Ok(())
    }

    fn fence(&mut self, deadline: Instant) -> Result<Fence, BackendError> {
        let mut state = self.shared.lock();
        loop {
            if state.busy == 0 && state.queue.is_empty() {
                return Ok(Fence::Idle);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Fence::Busy);
            }
            let waited = self.shared.idle.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn take_hashes(&mut self) -> Hashes {
        let mut now = Hashes::default();
        for counter in &self.shared.counters {
            now.counted += counter.counted.load(Relaxed);
            now.late += counter.late.load(Relaxed);
        }
        let told = std::mem::replace(&mut self.told, now);
        Hashes { counted: now.counted - told.counted, late: now.late - told.late }
    }

    fn telemetry(&self) -> Telemetry {
        let memory = self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = memory
            .iter()
            .zip(&self.shared.counters)
            .map(|(worker, counter)| {
                let hashes = counter.counted.load(Relaxed) + counter.late.load(Relaxed);
                Worker { hashes, ..worker.clone() }
            })
            .collect();
        let leases = u32::try_from(self.shared.lock().queue.len()).unwrap_or(u32::MAX);
        Telemetry { workers, leases, kernel: self.isa.name().into(), watts: None }
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.shared.clone()
    }

    fn stop(&mut self) {
        self.shared.interrupt();
        for thread in self.threads.drain(..) {
            // A panic was told already.
            let _ = thread.join();
        }
    }
}

impl Drop for CpuBackend {
    fn drop(&mut self) {
        self.stop();
    }
}

/// State shared by workers and backend.
struct Shared {
    state: Mutex<State>,
    /// There is work, or the end.
    wake: Condvar,
    /// Nothing is under way.
    idle: Condvar,
    /// Generation of wanted leases; changed under the lock, read without.
    generation: AtomicU64,
    counters: Vec<Counter>,
    /// Memory of each worker, once taken.
    memory: Mutex<Vec<Worker>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    /// The last work and its challenge, shared by leases of one work.
    last: Option<(Arc<crate::work::Work>, Arc<Challenge>)>,
    /// Workers with nonces.
    busy: usize,
    /// Workers with a number below this work, the others rest.
    working: usize,
    stopped: bool,
}

/// The rest of a lease.
struct Waiting {
    lease: u64,
    challenge: Arc<Challenge>,
    deadline: Option<Instant>,
    left: Range<u64>,
}

/// A piece of a lease, for a worker.
struct Piece {
    lease: u64,
    challenge: Arc<Challenge>,
    deadline: Option<Instant>,
    nonces: Range<u64>,
    generation: u64,
}

/// A worker's counters, alone in two lines of cache: lines are fetched in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Counter {
    counted: AtomicU64,
    late: AtomicU64,
    /// Gives up the gang under way.
    give_up: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self, handover: Handover) {
        let mut state = self.lock();
        state.queue.clear();
        self.generation.fetch_add(1, Relaxed);
        if handover == Handover::Abandon {
            self.give_up(&state);
        }
        if state.busy == 0 {
            self.idle.notify_all();
        }
    }

    /// Under the lock: there a worker clears its flag with the next piece.
    fn give_up(&self, _state: &MutexGuard<'_, State>) {
        for counter in &self.counters {
            counter.give_up.store(true, Relaxed);
        }
    }

    /// Waits for a piece of about `count` nonces, a multiple of `gang`. `None` at the end.
    fn take(&self, number: usize, gang: u64, count: u64) -> Option<Piece> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if number < state.working
                && let Some(piece) = self.cut(&mut state, gang, count)
            {
                state.busy += 1;
                self.counters[number].give_up.store(false, Relaxed);
                return Some(piece);
            }
            // Leases past their deadline went without anybody trying them.
            if state.busy == 0 && state.queue.is_empty() {
                self.idle.notify_all();
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Cuts a piece off the first lease before its deadline.
    fn cut(&self, state: &mut State, gang: u64, count: u64) -> Option<Piece> {
        loop {
            let working = state.working as u64;
            let first = state.queue.front_mut()?;
            if first.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                state.queue.pop_front();
                continue;
            }
            // The last nonces of a lease are shared out, or one worker ends long after the rest.
            let left = first.left.end - first.left.start;
            let share = left.div_ceil(working.max(1));
            let count = count.min(share).div_ceil(gang).saturating_mul(gang).min(left);
            let nonces = first.left.start..first.left.start + count;
            first.left.start = nonces.end;
            let piece = Piece {
                lease: first.lease,
                challenge: Arc::clone(&first.challenge),
                deadline: first.deadline,
                nonces,
                generation: self.generation.load(Relaxed),
            };
            if first.left.is_empty() {
                state.queue.pop_front();
            }
            return Some(piece);
        }
    }

    /// A worker is done with its piece, reports included.
    fn put_down(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 && state.queue.is_empty() {
            self.idle.notify_all();
        }
    }

    fn is_wanted(&self, piece: &Piece) -> bool {
        self.generation.load(Relaxed) == piece.generation
            && piece.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }
}

impl Interrupt for Shared {
    fn interrupt(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.queue.clear();
        self.generation.fetch_add(1, Relaxed);
        self.give_up(&state);
        drop(state);
        self.wake.notify_all();
        self.idle.notify_all();
    }
}

#[cfg(test)]
mod tests;
