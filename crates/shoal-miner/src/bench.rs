//! Rates of this machine: fixed work over wall clock.
//!
//! A run first finds out how many hashes take about as long as asked for, then times so many,
//! round by round, from a common start to the last one's end. Nothing is divided by a nominal
//! time, and only whole hashes count.
//!
//! `kernel` hashes in bare loops, one for each thread. `backend` deals the same number of nonces
//! through an engine whose workers stay. `end-to-end` starts and stops an engine every round and
//! counts the time for both, too.
//!
//! Hashes side by side buy rate with memory, so a rate alone compares nothing with a miner in
//! less memory. The same rounds are run with half of the memory and with one hash at a time.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use shoal_pow::{Challenge, Error, Isa, Options, Search, TAG_BYTES, Target};

use crate::backend::cpu::{CpuBackend, CpuOptions, CpuPlan, PlanError, worker};
use crate::backend::{Backend, Worker};
use crate::engine::{Engine, EngineError, EngineOptions, Event, Fault, WorkEnd};
use crate::memory::Budget;
use crate::status::BackendStatus;
use crate::topology::{Affinity, Topology, pin};
use crate::tune::{Host, host};
use crate::work::{Handover, Work};

/// The subject of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchKind {
    /// Hashes in bare loops.
    Kernel,
    /// An engine whose workers stay.
    #[default]
    Backend,
    /// An engine, its start and its stop.
    EndToEnd,
}

impl BenchKind {
    /// Every value, by name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("kernel", Self::Kernel), ("backend", Self::Backend), ("end-to-end", Self::EndToEnd)];
}

impl fmt::Display for BenchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for BenchKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or(UnknownKind)
    }
}

/// There is no such [`BenchKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kind of benchmark is one of: kernel, backend, end-to-end")]
pub struct UnknownKind;

/// Options of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The subject.
    pub kind: BenchKind,
    /// The processor's options.
    pub cpu: CpuOptions,
    /// How long a round takes, about.
    pub secs: f64,
    /// Rounds to count.
    pub rounds: u32,
    /// Rounds before, not counted.
    pub warmup_rounds: u32,
    /// `true` to measure with less memory, too.
    pub with_less: bool,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            kind: BenchKind::default(),
            cpu: CpuOptions::default(),
            secs: 20.0,
            rounds: 3,
            warmup_rounds: 1,
            with_less: false,
        }
    }
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// Hashes; all were counted, none was late.
    pub hashes: u64,
    /// From the common start to the last one's end.
    pub elapsed_secs: f64,
    /// Hashes a second.
    pub rate: f64,
}

/// The rate with less memory: the same threads, fewer hashes side by side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WithLess {
    /// Hashes side by side on each thread.
    pub side_by_side: usize,
    /// Memory of all.
    pub total_kib: u64,
    /// The rate of the round in the middle.
    pub median_rate: f64,
}

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A round is over.
    Round(Round),
    /// The same begins with less memory.
    WithLess {
        /// Hashes side by side on each thread.
        side_by_side: usize,
    },
}

/// Result of a benchmark. Rates are hashes a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// Version of this form of report.
    pub schema_version: u32,
    /// Time of the report.
    pub timestamp_unix_secs: u64,
    /// Version of this crate.
    pub version: &'static str,
    /// Where.
    pub host: Host,
    /// Memory of the machine before.
    pub memory: Budget,
    /// The subject.
    pub bench_kind: BenchKind,
    /// The processor's options.
    pub plan: CpuPlan,
    /// Where workers ran.
    pub affinity: Affinity,
    /// Workers and their memory.
    pub workers: Vec<Worker>,
    /// The length of the header, bytes.
    pub header_bytes: usize,
    /// How long a round was to take.
    pub secs: f64,
    /// The counted rounds.
    pub runs: Vec<Round>,
    /// The mean of their rates.
    pub avg_rate: f64,
    /// The one in the middle.
    pub median_rate: f64,
    /// The lowest.
    pub min_rate: f64,
    /// The highest.
    pub max_rate: f64,
    /// The same with half of the memory, and with one hash at a time on each thread, where
    /// asked for.
    pub with_less: Vec<WithLess>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is not the memory, or the numbers make no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A hash was refused.
    #[error(transparent)]
    Hash(Error),
    /// The engine did not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The backend lost its place.
    #[error("the backend failed: {0}")]
    Backend(Fault),
    /// As many hashes were not counted as nonces were dealt.
    #[error("{counted} hashes were counted, nonces dealt: {dealt}")]
    Count {
        /// Hashes.
        counted: u64,
        /// Nonces.
        dealt: u64,
    },
    /// The system gave no thread.
    #[error("cannot start a thread")]
    Thread,
    /// No rounds, or no time.
    #[error("a benchmark needs a round and some time")]
    Nothing,
    /// Stopped on request.
    #[error("it was stopped")]
    Stopped,
}

impl From<Error> for BenchError {
    fn from(error: Error) -> Self {
        match error {
            Error::Hash(shoal_argon::Error::Stopped) => Self::Stopped,
            error => Self::Hash(error),
        }
    }
}

/// Measures, and tells every round. Takes the rounds' time and a little more; gives up soon after
/// `stop` is set.
///
/// # Errors
/// [`BenchError`].
pub fn run(
    options: &BenchOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<BenchReport, BenchError> {
    let time_is_some = options.secs.is_finite() && options.secs > 0.0;
    if options.rounds == 0 || !time_is_some {
        return Err(BenchError::Nothing);
    }
    let memory = options.cpu.budget_kib.map_or_else(Budget::of_machine, Budget::of_kib);
    let plan = CpuBackend::new(&options.cpu)?.plan().clone();
    let mut told = |round: &Round| tell(&Progress::Round(*round));
    let (rounds, workers) = measure(options, &plan, stop, &mut told)?;
    let (median_rate, rates) = median(&rounds);
    let mut with_less = Vec::new();
    let mut fewer = if options.with_less { vec![plan.side_by_side / 2, 1] } else { Vec::new() };
    fewer.dedup();
    for side_by_side in fewer.into_iter().filter(|&count| count > 0 && count < plan.side_by_side) {
        tell(&Progress::WithLess { side_by_side });
        let mut less = options.clone();
        less.cpu.threads = Some(plan.threads);
        less.cpu.side_by_side = Some(side_by_side);
        let plan = CpuBackend::new(&less.cpu)?.plan().clone();
        let mut told = |round: &Round| tell(&Progress::Round(*round));
        let (rounds, _) = measure(&less, &plan, stop, &mut told)?;
        let (median_rate, _) = median(&rounds);
        with_less.push(WithLess { side_by_side, total_kib: plan.total_kib, median_rate });
    }
    Ok(BenchReport {
        schema_version: SCHEMA_VERSION,
        timestamp_unix_secs: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        version: env!("CARGO_PKG_VERSION"),
        host: host(&Topology::of_machine(), &memory),
        memory,
        bench_kind: options.kind,
        plan,
        affinity: options.cpu.affinity,
        workers,
        header_bytes: HEADER_BYTES,
        secs: options.secs,
        avg_rate: rates.iter().sum::<f64>() / rates.len() as f64,
        median_rate,
        min_rate: rates[0],
        max_rate: rates[rates.len() - 1],
        runs: rounds,
        with_less,
    })
}

/// The rate of backends together, device or processor: an engine whose workers stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Version of this form of report.
    pub schema_version: u32,
    /// Where.
    pub host: Host,
    /// The backends, with their kernels.
    pub backends: Vec<String>,
    /// Hashes at a time, of all.
    pub lanes: u64,
    /// Memory of one hash.
    pub memory_kib: u32,
    /// Memory of the devices.
    pub device_memory_kib: u64,
    /// The counted rounds.
    pub runs: Vec<Round>,
    /// The rate in the middle.
    pub median_rate: f64,
    /// Watts of all devices, the mean at the ends of rounds; `None` where a driver does not tell.
    pub device_watts: Option<f64>,
}

/// Measures backends by hashes of `memory_kib`, and tells every round.
///
/// # Errors
/// [`BenchError`].
pub fn run_backends(
    backends: Vec<Box<dyn Backend>>,
    memory_kib: u32,
    options: &BenchOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Round),
) -> Result<DeviceReport, BenchError> {
    let time_is_some = options.secs.is_finite() && options.secs > 0.0;
    if options.rounds == 0 || !time_is_some || backends.is_empty() {
        return Err(BenchError::Nothing);
    }
    let mut bench = EngineBench::start_with(backends, stop)?;
    let status = bench.engine.status();
    let lanes: u64 = status.backends.iter().map(|b| u64::from(b.capabilities.lanes.max(1))).sum();
    let device_memory_kib =
        status.backends.iter().filter_map(|backend| backend.capabilities.device_memory_kib).sum();
    let devices: usize =
        status.backends.iter().filter(|b| b.capabilities.device_memory_kib.is_some()).count();
    let runs = bench.rounds(options, lanes, memory_kib, tell)?;
    let watts = &bench.watts;
    let is_told = devices > 0 && watts.iter().all(|drawn| drawn.len() == devices);
    let device_watts =
        is_told.then(|| watts.iter().flatten().sum::<f64>() / watts.len().max(1) as f64);
    let named = |b: BackendStatus| format!("{} ({})", b.name, b.kernel);
    Ok(DeviceReport {
        schema_version: SCHEMA_VERSION,
        host: host(&Topology::of_machine(), &Budget::of_machine()),
        backends: bench.engine.status().backends.into_iter().map(named).collect(),
        lanes,
        memory_kib,
        device_memory_kib,
        median_rate: median(&runs).0,
        device_watts,
        runs,
    })
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backends, lanes, memory_kib, device_memory_kib, runs, median_rate, .. } = self;
        let device_mib = device_memory_kib / 1024;
        writeln!(
            f,
            "{}: {lanes} hashes of {memory_kib} KiB at a time, {device_mib} MiB on devices",
            backends.join(", ")
        )?;
        for Round { round, hashes, elapsed_secs, rate } in runs {
            writeln!(f, "round {round}: {hashes} hashes in {elapsed_secs:.3} s, {rate:.4} H/s")?;
        }
        write!(f, "median {median_rate:.4} H/s")?;
        match self.device_watts {
            Some(watts) => {
                let joules = watts / median_rate;
                write!(f, "; devices draw {watts:.0} W, {joules:.2} J a hash of all")
            }
            None => Ok(()),
        }
    }
}

fn measure(
    options: &BenchOptions,
    plan: &CpuPlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Round),
) -> Result<Measured, BenchError> {
    match options.kind {
        BenchKind::Kernel => kernel(options, plan, stop, tell),
        BenchKind::Backend => backend(options, plan, stop, tell),
        BenchKind::EndToEnd => end_to_end(options, plan, stop, tell),
    }
}

/// The rate in the middle, and all of them, rising. There is at least one round.
fn median(rounds: &[Round]) -> (f64, Vec<f64>) {
    let mut rates: Vec<f64> = rounds.iter().map(|round| round.rate).collect();
    rates.sort_by(f64::total_cmp);
    let middle = rates.len() / 2;
    let median = if rates.len().is_multiple_of(2) {
        (rates[middle - 1] + rates[middle]) / 2.0
    } else {
        rates[middle]
    };
    (median, rates)
}

/// Rounds, and the workers.
type Measured = (Vec<Round>, Vec<Worker>);

/// A header as long as a real one.
fn header() -> Vec<u8> {
    (0..HEADER_BYTES).map(|i| (31 * i + 7) as u8).collect()
}

/// Finds out the number of gangs for a round, then does the rounds. `go` has every worker
/// do so many gangs, and returns the number of hashes and the time.
fn rounds(
    options: &BenchOptions,
    tell: &mut dyn FnMut(&Round),
    go: &mut dyn FnMut(u64) -> Result<(u64, Duration), BenchError>,
) -> Result<Vec<Round>, BenchError> {
    let enough = (options.secs / 20.0).min(1.0);
    let mut gangs = 1;
    let gangs = loop {
        let (_, took) = go(gangs)?;
        let took = took.as_secs_f64().max(1e-7);
        if took >= enough {
            // Saturates.
            break ((gangs as f64 * options.secs / took).round() as u64).max(1);
        }
        gangs *= 2;
    };
    for _ in 0..options.warmup_rounds {
        go(gangs)?;
    }
    let mut runs = Vec::new();
    for round in 1..=options.rounds {
        let (hashes, elapsed) = go(gangs)?;
        let elapsed_secs = elapsed.as_secs_f64();
        let rate = hashes as f64 / elapsed_secs.max(1e-9);
        let round = Round { round, hashes, elapsed_secs, rate };
        tell(&round);
        runs.push(round);
    }
    Ok(runs)
}

/// One thread of the kernel's loop.
struct Looped<'a> {
    challenge: &'a Challenge,
    isa: Isa,
    core: Option<usize>,
    side_by_side: usize,
    memory_kib: u32,
    stop: &'a AtomicBool,
    /// How many gangs to do next.
    gangs: Receiver<u64>,
    /// The number of hashes; the first message means: the memory is there.
    done: Sender<Result<u64, Error>>,
}

impl Looped<'_> {
    fn run(self) -> Worker {
        let core = self.core.filter(|core| pin(*core));
        let mut search = match Search::new(self.memory_kib, self.side_by_side) {
            Ok(search) => search,
            Err(error) => {
                let _ = self.done.send(Err(error));
                return Worker::default();
            }
        };
        let worker = worker::describe(&search, core, self.memory_kib);
        let options = Options::default().isa(self.isa).stop(self.stop);
        let mut tags = vec![[0; TAG_BYTES]; self.side_by_side];
        let mut next = 0;
        let mut result = Ok(0);
        loop {
            if self.done.send(result).is_err() {
                return worker;
            }
            let Ok(gangs) = self.gangs.recv() else { return worker };
            result = (0..gangs).try_fold(0, |hashes, _| {
                search.tags(self.challenge, next, &mut tags, &options)?;
                next += tags.len() as u64;
                Ok(hashes + tags.len() as u64)
            });
        }
    }
}

fn kernel(
    options: &BenchOptions,
    plan: &CpuPlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Round),
) -> Result<Measured, BenchError> {
    let challenge = Challenge::new(&header(), plan.memory_kib, Target::from_difficulty(0))?;
    let isa = options.cpu.isa.unwrap_or_else(Isa::detect);
    thread::scope(|scope| {
        let (done, dones) = mpsc::channel();
        let mut threads = Vec::new();
        let mut starts = Vec::new();
        for core in &plan.cores {
            let (start, gangs) = mpsc::channel();
            let looped = Looped {
                challenge: &challenge,
                isa,
                core: *core,
                side_by_side: plan.side_by_side,
                memory_kib: plan.memory_kib,
                stop,
                gangs,
                done: done.clone(),
            };
            let thread = thread::Builder::new().spawn_scoped(scope, move || looped.run());
            threads.push(thread.map_err(|_| BenchError::Thread)?);
            starts.push(start);
        }
        drop(done);
        let wait = || -> Result<u64, BenchError> {
            let mut hashes = 0;
            for _ in &starts {
                hashes += dones.recv().map_err(|_| BenchError::Thread)??;
            }
            Ok(hashes)
        };
        wait()?;
        let runs = rounds(options, tell, &mut |gangs| {
            let begun = Instant::now();
            for start in &starts {
                start.send(gangs).map_err(|_| BenchError::Thread)?;
            }
            let hashes = wait()?;
            Ok((hashes, begun.elapsed()))
        })?;
        // They end when nobody tells them to go on.
        drop(starts);
        let workers = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        Ok((runs, workers))
    })
}

fn backend(
    options: &BenchOptions,
    plan: &CpuPlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Round),
) -> Result<Measured, BenchError> {
    let mut bench = EngineBench::start(options, stop)?;
    let lanes = (plan.threads * plan.side_by_side) as u64;
    let runs = bench.rounds(options, lanes, plan.memory_kib, tell)?;
    let workers = bench.workers();
    Ok((runs, workers))
}

fn end_to_end(
    options: &BenchOptions,
    plan: &CpuPlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Round),
) -> Result<Measured, BenchError> {
    let lanes = (plan.threads * plan.side_by_side) as u64;
    let mut workers = Vec::new();
    let runs = rounds(options, tell, &mut |gangs| {
        let begun = Instant::now();
        let mut bench = EngineBench::start(options, stop)?;
        bench.hash(lanes * gangs, plan.memory_kib)?;
        bench.check()?;
        workers = bench.workers();
        drop(bench);
        Ok((lanes * gangs, begun.elapsed()))
    })?;
    Ok((runs, workers))
}

/// An engine for measurements.
struct EngineBench<'a> {
    engine: Engine,
    events: Receiver<Event>,
    stop: &'a AtomicBool,
    works: u64,
    hashes: u64,
    /// Watts of each telling device, at the end of each round.
    watts: Vec<Vec<f64>>,
}

impl<'a> EngineBench<'a> {
    /// Starts an engine, and waits until its memory is there.
    fn start(options: &BenchOptions, stop: &'a AtomicBool) -> Result<Self, BenchError> {
        Self::start_with(vec![Box::new(CpuBackend::new(&options.cpu)?)], stop)
    }

    /// Starts an engine on these backends, and waits until all of them are ready.
    fn start_with(
        backends: Vec<Box<dyn Backend>>,
        stop: &'a AtomicBool,
    ) -> Result<Self, BenchError> {
        let count = backends.len();
        let (engine, events) = Engine::start(EngineOptions::new(backends))?;
        let mut bench = Self { engine, events, stop, works: 0, hashes: 0, watts: Vec::new() };
        for _ in 0..count {
            bench.wait(|event| matches!(event, Event::BackendReady { .. }))?;
        }
        Ok(bench)
    }

    /// Rounds of whole gangs of `lanes` hashes, by workers that stay.
    fn rounds(
        &mut self,
        options: &BenchOptions,
        lanes: u64,
        memory_kib: u32,
        tell: &mut dyn FnMut(&Round),
    ) -> Result<Vec<Round>, BenchError> {
        rounds(options, tell, &mut |gangs| {
            let begun = Instant::now();
            self.hash(lanes * gangs, memory_kib)?;
            let elapsed = begun.elapsed();
            self.check()?;
            let backends = self.engine.status().backends;
            self.watts.push(backends.iter().filter_map(|backend| backend.watts).collect());
            Ok((lanes * gangs, elapsed))
        })
    }

    /// Has this many nonces tried.
    fn hash(&mut self, count: u64, memory_kib: u32) -> Result<(), BenchError> {
        self.works += 1;
        let work = Work {
            id: self.works,
            header: header(),
            memory_kib,
            target: Target::from_difficulty(0),
            nonces: self.hashes..self.hashes + count,
            deadline: None,
            pause_on_solution: false,
        };
        self.hashes += count;
        self.engine.assign(work, Handover::Abandon)?;
        self.wait(|event| matches!(event, Event::WorkDone { end: WorkEnd::Exhausted, .. }))
    }

    /// Checks: as many hashes counted as nonces dealt.
    fn check(&self) -> Result<(), BenchError> {
        let idle = self.engine.fence(CHECK_TIMEOUT);
        let (counted, dealt) = (self.engine.status().hashes, self.hashes);
        if idle && counted == dealt { Ok(()) } else { Err(BenchError::Count { counted, dealt }) }
    }

    fn wait(&mut self, is_it: impl Fn(&Event) -> bool) -> Result<(), BenchError> {
        loop {
            if self.stop.load(Relaxed) {
                return Err(BenchError::Stopped);
            }
            match self.events.recv_timeout(Duration::from_millis(50)) {
                Ok(Event::BackendQuarantined { fault, .. }) => {
                    return Err(BenchError::Backend(fault));
                }
                Ok(event) if is_it(&event) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(BenchError::Stopped),
            }
        }
    }

    fn workers(&self) -> Vec<Worker> {
        let backends = self.engine.status().backends;
        let workers = backends.into_iter().flat_map(|backend| backend.workers);
        workers.map(|worker| worker.worker).collect()
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, host, .. } = self;
        writeln!(
            f,
            "{}: {} of {} KiB, {} threads, {} hashes side by side, kernel {}",
            self.bench_kind,
            host.processor,
            plan.memory_kib,
            plan.threads,
            plan.side_by_side,
            plan.isa
        )?;
        for (number, worker) in self.workers.iter().enumerate() {
            let core = worker.core.map_or("any core".into(), |core| format!("core {core}"));
            let huge = worker.huge_kib.map_or("?".into(), |kib| kib.to_string());
            writeln!(
                f,
                "worker {number}: {core}, {}, {huge} of {} KiB in huge pages",
                worker.pages, worker.memory_kib
            )?;
        }
        for run in &self.runs {
            let Round { round, hashes, elapsed_secs, rate } = run;
            writeln!(f, "round {round}: {hashes} hashes in {elapsed_secs:.3} s, {rate:.4} H/s")?;
        }
        let Self { avg_rate, median_rate, min_rate, max_rate, .. } = self;
        writeln!(
            f,
            "median {median_rate:.4} H/s, mean {avg_rate:.4}, from {min_rate:.4} to {max_rate:.4}"
        )?;
        let line = |side_by_side: usize, total_kib: u64, rate: f64| {
            let plural = if side_by_side == 1 { "hash at a time" } else { "hashes side by side" };
            let mib = total_kib as f64 / 1024.0;
            let part = rate * 100.0 / median_rate;
            format!("{mib:.0} MiB, {side_by_side} {plural} a thread: {rate:.4} H/s, {part:.0} %")
        };
        write!(f, "memory and rate\n  {}", line(plan.side_by_side, plan.total_kib, *median_rate))?;
        for less in &self.with_less {
            write!(f, "\n  {}", line(less.side_by_side, less.total_kib, less.median_rate))?;
        }
        Ok(())
    }
}

/// Version of this form of report.
const SCHEMA_VERSION: u32 = 2;

/// A header of the chain, without its nonce.
const HEADER_BYTES: usize = 92;

/// How long an engine may take to be idle after its last hash.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kind: BenchKind) -> BenchOptions {
        let cpu = CpuOptions {
            memory_kib: 256,
            threads: Some(2),
            side_by_side: Some(3),
            budget_kib: Some(1 << 16),
            ..CpuOptions::default()
        };
        BenchOptions { kind, cpu, secs: 0.05, rounds: 2, warmup_rounds: 1, with_less: true }
    }

    #[test]
    fn every_kind_counts_whole_hashes_over_wall_clock() {
        for (name, kind) in BenchKind::NAMES {
            assert_eq!(name.parse(), Ok(kind));
            let mut told = Vec::new();
            let stop = AtomicBool::new(false);
            let report = run(&options(kind), &stop, &mut |progress| told.push(*progress)).unwrap();
            assert_eq!(
                report.runs.iter().copied().map(Progress::Round).collect::<Vec<_>>(),
                told[..2]
            );
            // Three hashes side by side, then one: half of three is one, too.
            assert_eq!(told[2], Progress::WithLess { side_by_side: 1 });
            assert_eq!(told.len(), 5);
            let [less] = report.with_less[..] else { panic!("{:?}", report.with_less) };
            assert_eq!((less.side_by_side, less.total_kib), (1, 512));
            assert!(less.median_rate > 0.0);
            for run in &report.runs {
                assert!(run.hashes > 0 && run.hashes.is_multiple_of(6), "{run:?}");
                let rate = run.hashes as f64 / run.elapsed_secs;
                assert!((run.rate - rate).abs() < rate / 1e6);
            }
            assert!(report.min_rate <= report.median_rate && report.median_rate <= report.max_rate);
            assert_eq!(report.workers.len(), 2, "{name}");
            assert!(report.workers.iter().all(|worker| worker.side_by_side == 3), "{name}");
            let text = report.to_string();
            assert!(text.contains("2 threads, 3 hashes side by side"), "{text}");
            assert!(text.contains("MiB, 1 hash at a time a thread: "), "{text}");
            let json: serde_json::Value =
                serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
            assert_eq!((&json["bench_kind"], &json["schema_version"]), (&name.into(), &2.into()));
        }
    }

    #[test]
    fn backends_are_measured_together() {
        use crate::backend::sim::{SimBackend, SimOptions};

        let mut options = options(BenchKind::Backend);
        let sim = SimOptions { rate: 5000.0, ..SimOptions::default() };
        let backends: Vec<Box<dyn Backend>> =
            vec![Box::new(SimBackend::new(sim)), Box::new(CpuBackend::new(&options.cpu).unwrap())];
        let mut told = 0;
        let stop = AtomicBool::new(false);
        let report = run_backends(backends, 256, &options, &stop, &mut |_| told += 1).unwrap();
        assert_eq!((report.lanes, report.device_memory_kib, told), (4 + 6, 1 << 20, 2));
        assert!(report.runs.iter().all(|run| run.hashes.is_multiple_of(10) && run.rate > 0.0));
        assert!(report.to_string().starts_with("sim0 (simulated), cpu0 ("), "{report}");
        options.rounds = 0;
        let none = run_backends(Vec::new(), 256, &options, &stop, &mut |_| ()).unwrap_err();
        assert_eq!(none, BenchError::Nothing);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let go = |options: &BenchOptions, stopped| {
            run(options, &AtomicBool::new(stopped), &mut |_| {}).unwrap_err()
        };
        for kind in BenchKind::NAMES.map(|(_, kind)| kind) {
            let none = BenchOptions { rounds: 0, ..options(kind) };
            assert_eq!(go(&none, false), BenchError::Nothing);
            let endless = BenchOptions { secs: f64::INFINITY, ..options(kind) };
            assert_eq!(go(&endless, false), BenchError::Nothing);
            let mut large = options(kind);
            large.cpu.budget_kib = Some(1000);
            assert!(matches!(go(&large, false), BenchError::Plan(PlanError::OverBudget { .. })));
            assert_eq!(go(&options(kind), true), BenchError::Stopped);
        }
    }
}
