//! A pretended device: nonblocking, with memory of its own, and with faults on demand.
//!
//! For tests of engines and clients. Computes real tags, at a set pace, so keep the
//! memory of a hash small. Stands in the place of a real device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shoal_pow::{Challenge, Options, TAG_BYTES};

use super::{
    Backend, BackendError, Calls, Capabilities, Fence, Hashes, Interrupt, Lease, Queue, Report,
    Sink, Telemetry, Worker,
};
use crate::work::Handover;

/// Properties of the device.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The backend's name.
    pub name: String,
    /// Hashes at a time, finished together.
    pub lanes: u32,
    /// Hashes a second, at most.
    pub rate: f64,
    /// Queue of leases.
    pub queue: Queue,
    /// Memory of the device.
    pub device_memory_kib: u64,
    /// The fault.
    pub fault: SimFault,
    /// After how many nonces.
    pub fault_after: u64,
    /// Time to start.
    pub start_takes: Duration,
    /// Journal of nonces really tried, with their work.
    pub log: Option<SimLog>,
}

/// Works and nonces, in the order they were tried.
pub type SimLog = Arc<Mutex<Vec<(u64, u64)>>>;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimFault {
    /// Nothing.
    None,
    /// Does not start.
    Start,
    /// Has work and does nothing more.
    Stall,
    /// Fails.
    Die,
    /// Panics.
    Panic,
    /// Reports false solutions, and tries nothing.
    Lie,
    /// Reports nonces as tried, and tries none.
    LeaveOut,
    /// Tries one nonce in two, and reports both.
    Halve,
    /// Tries nothing, and makes up as many tags as asked for; none of them good enough for
    /// anybody but the engine.
    MakeUp,
    /// Reports nonces of others.
    Foreign,
    /// A call to assign takes this long, or until interrupted.
    Stuck(Duration),
    /// A call to assign takes this long, whatever anybody says.
    Deaf(Duration),
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            name: "sim0".into(),
            lanes: 4,
            rate: 1000.0,
            queue: Queue::Replace,
            device_memory_kib: 1 << 20,
            fault: SimFault::None,
            fault_after: 0,
            start_takes: Duration::ZERO,
            log: None,
        }
    }
}

/// The device.
pub struct SimBackend {
    options: SimOptions,
    sink: Option<Sink>,
    queue: VecDeque<Held>,
    /// Work done until this moment.
    worked_until: Instant,
    tried: u64,
    hashes: Hashes,
    line: Arc<Line>,
}

struct Held {
    lease: Lease,
    challenge: Challenge,
    left: Range<u64>,
}

/// Its interrupt.
#[derive(Default)]
struct Line {
    cut: Mutex<bool>,
    rings: Condvar,
}

impl Interrupt for Line {
    fn interrupt(&self) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_all();
    }
}

impl Line {
    /// Sleeps. `false` when interrupted.
    fn sleep(&self, time: Duration) -> bool {
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rings.wait_timeout_while(cut, time, |cut| !*cut);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl SimBackend {
    /// Pretends a device.
    pub fn new(options: SimOptions) -> Self {
        Self {
            options,
            sink: None,
            queue: VecDeque::new(),
            worked_until: Instant::now(),
            tried: 0,
            hashes: Hashes::default(),
            line: Arc::default(),
        }
    }

    fn tell(&self, report: Report) {
        if let Some(sink) = &self.sink {
            sink.tell(report);
        }
    }

    /// `true` once the fault has set in.
    fn is_faulty(&self, fault: SimFault) -> bool {
        self.options.fault == fault && self.tried >= self.options.fault_after
    }

    /// Tries the next nonces of the first lease, as many as there are lanes.
    fn go(&mut self) -> Result<(), BackendError> {
        if self.is_faulty(SimFault::Die) {
            return Err(BackendError::Device("it fell off the bus".into()));
        }
        assert!(!self.is_faulty(SimFault::Panic), "the driver has a bug");
        let Some(held) = self.queue.front_mut() else { return Ok(()) };
        let end = held.left.start.saturating_add(u64::from(self.options.lanes.max(1)));
        let nonces = held.left.start..held.left.end.min(end);
        held.left.start = nonces.end;
        let (lease, challenge) = (held.lease.clone(), held.challenge.clone());
        if held.left.is_empty() {
            self.queue.pop_front();
        }
        if self.is_faulty(SimFault::Foreign) {
            self.tell(Report::Done {
                lease: lease.id,
                nonces: nonces.start..nonces.end.saturating_add(1000),
            });
            return Ok(());
        }
        let mut tries: fn(&u64) -> bool = |_| true;
        if self.is_faulty(SimFault::Lie) {
            let tag = [0; TAG_BYTES];
            for nonce in nonces.clone() {
                self.tell(Report::Found { lease: lease.id, nonce, tag });
            }
            tries = |_| false;
        } else if self.is_faulty(SimFault::LeaveOut) {
            tries = |_| false;
        } else if self.is_faulty(SimFault::Halve) {
            tries = |nonce| nonce.is_multiple_of(2);
        } else if self.is_faulty(SimFault::MakeUp) {
            // The largest tag to meet the target: of every fourth nonce, as chance would have it.
            let tag = challenge.target().to_bytes();
            for nonce in nonces.clone().filter(|nonce| nonce.is_multiple_of(4)) {
                self.tell(Report::Found { lease: lease.id, nonce, tag });
            }
            tries = |_| false;
        }
        for nonce in nonces.clone().filter(tries) {
            let tag = challenge.tag(nonce, &Options::default()).map_err(BackendError::Memory)?;
            if let Some(log) = &self.options.log {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push((lease.work.id, nonce));
            }
            if challenge.target().is_met_by(&tag) {
                self.tell(Report::Found { lease: lease.id, nonce, tag });
            }
        }
        self.tried += nonces.end - nonces.start;
        self.hashes.counted += nonces.end - nonces.start;
        self.tell(Report::Done { lease: lease.id, nonces });
        Ok(())
    }
}

impl Backend for SimBackend {
    fn name(&self) -> Arc<str> {
        self.options.name.as_str().into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: self.options.lanes,
            device_memory_kib: Some(self.options.device_memory_kib),
            calls: Calls::Nonblocking { poll: Duration::from_millis(1) },
            queue: self.options.queue,
            trusted: false,
            preemption: Some(Duration::from_millis(1)),
        }
    }

    fn start(&mut self, sink: Sink, stop: Arc<AtomicBool>) -> Result<(), BackendError> {
        let until = Instant::now() + self.options.start_takes;
        while Instant::now() < until {
            if stop.load(Relaxed) || !self.line.sleep(Duration::from_millis(1)) {
                return Err(BackendError::Stopped);
            }
        }
        if self.options.fault == SimFault::Start {
            return Err(BackendError::Device("no such device".into()));
        }
        self.sink = Some(sink);
        Ok(())
    }

    fn assign(&mut self, lease: Lease) -> Result<(), BackendError> {
        let slow = self.tried >= self.options.fault_after;
        match self.options.fault {
            SimFault::Stuck(time) if slow && !self.line.sleep(time) => {
                return Err(BackendError::Stopped);
            }
            SimFault::Deaf(time) if slow => std::thread::sleep(time),
            _ => {}
        }
        let (work, lanes) = (&lease.work, u64::from(self.options.lanes.max(1)));
        let has = u32::try_from(self.options.device_memory_kib / lanes).unwrap_or(u32::MAX);
        if work.memory_kib > has {
            return Err(BackendError::WorkTooLarge { needed: work.memory_kib, has });
        }
        let challenge = Challenge::new(&work.header, work.memory_kib, work.target)?;
        if self.queue.is_empty() {
            self.worked_until = Instant::now();
        }
        let left = lease.nonces.clone();
        self.queue.push_back(Held { lease, challenge, left });
        Ok(())
    }

    fn cancel(&mut self, _handover: Handover) -> Result<(), BackendError> {
        // Nothing is under way between two calls.
        self.queue.clear();
        Ok(())
    }

    fn fence(&mut self, _deadline: Instant) -> Result<Fence, BackendError> {
        Ok(if self.queue.is_empty() { Fence::Idle } else { Fence::Busy })
    }

    fn poll(&mut self) -> Result<(), BackendError> {
        let lanes = f64::from(self.options.lanes.max(1));
        let step = Duration::from_secs_f64(lanes / self.options.rate.max(1e-3));
        // A little at a time: commands wait.
        for _ in 0..16 {
            let stalled = self.is_faulty(SimFault::Stall);
            if self.queue.is_empty() || stalled || self.worked_until + step > Instant::now() {
                break;
            }
            self.worked_until += step;
            self.go()?;
        }
        Ok(())
    }

    fn take_hashes(&mut self) -> Hashes {
        std::mem::take(&mut self.hashes)
    }

    fn telemetry(&self) -> Telemetry {
        let worker = Worker {
            side_by_side: self.options.lanes,
            pages: "pretended".into(),
            memory_kib: self.options.device_memory_kib,
            hashes: self.tried,
            ..Worker::default()
        };
        let leases = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        Telemetry { workers: vec![worker], leases, kernel: "simulated".into(), watts: None }
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        self.line.clone()
    }

    fn stop(&mut self) {
        self.queue.clear();
        self.sink = None;
    }
}
