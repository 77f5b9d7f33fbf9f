//! How many workers, and how many hashes side by side, are best on this machine: tried out once,
//! and remembered for two weeks.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};

use crate::backend::cpu::{CpuOptions, PlanError, SIDE_BY_SIDE_MAX, plan};
use crate::bench::{self, BenchError, BenchKind, BenchOptions};
use crate::memory::Budget;
use crate::topology::Topology;

/// Options of a tuning run.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The processor and the memory; `threads` and `side_by_side`, where set, are not tried.
    pub cpu: CpuOptions,
    /// Fewest workers.
    pub min_threads: usize,
    /// Most workers; `None` for as many as are worth having.
    pub max_threads: Option<usize>,
    /// Seconds for each candidate.
    pub secs: f64,
    /// The aim.
    pub profile: Profile,
    /// Where the result is kept; `None` for nowhere.
    pub cache: Option<PathBuf>,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            cpu: CpuOptions::default(),
            min_threads: 1,
            max_threads: None,
            secs: 6.0,
            profile: Profile::default(),
            cache: None,
        }
    }
}

/// The aim: fewest workers, and fewest hashes side by side, for a share of the
/// highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// 99 %.
    #[default]
    Balanced,
    /// All of it.
    Throughput,
    /// 75 %.
    Efficiency,
}

impl Profile {
    const fn share(self) -> f64 {
        match self {
            Self::Balanced => 0.99,
            Self::Throughput => 1.0,
            Self::Efficiency => 0.75,
        }
    }
}

/// Result of a tuning run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// Workers.
    pub threads: usize,
    /// Hashes each computes at a time.
    pub side_by_side: usize,
    /// Hashes a second, when tried.
    pub rate: f64,
    /// `true` for a remembered result.
    pub cached: bool,
}

/// The machine, as far as it decides the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub processor: String,
    /// Its architecture and the operating system.
    pub target: String,
    /// Logical processors of this process.
    pub processors: usize,
    /// First threads of cores among them.
    pub cores: usize,
    /// Fast ones among them.
    pub fast: usize,
    /// Memory of the machine, in GiB, rounded: the exact figure varies from boot to boot.
    pub memory_gib: u64,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No candidate fits the memory, or the numbers make no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A candidate could not be measured.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// Finds the best plan, from the cache if found before. Gives up soon after `stop` is set.
///
/// At most eight numbers of workers are all tried; of more, every other one at first, until they
/// stop gaining. A failure to keep the result is no error: `tell` hears of it.
///
/// # Errors
/// [`TuneError`].
pub fn autotune(
    options: &TuneOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Tuned, TuneError> {
    let topology = Topology::of_machine();
    let budget = options.cpu.budget_kib.map_or_else(Budget::of_machine, Budget::of_kib);
    let fingerprint = Fingerprint::new(options, &topology, &budget);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Some(path) = &options.cache
        && let Some(tuned) = recall(path, &fingerprint, now)
    {
        return Ok(tuned);
    }
    let mut measure = |threads: usize, side_by_side: usize| -> Result<f64, TuneError> {
        let cpu = CpuOptions {
            threads: Some(threads),
            side_by_side: Some(side_by_side),
            ..options.cpu.clone()
        };
        let kind = BenchKind::Kernel;
        let bench = BenchOptions {
            kind,
            cpu,
            secs: options.secs,
            rounds: 1,
            warmup_rounds: 0,
            with_less: false,
        };
        let rate = bench::run(&bench, stop, &mut |_| {})?.max_rate;
        tell(&format!("{threads} threads, {side_by_side} hashes side by side: {rate:.3} H/s"));
        Ok(rate)
    };
    let gangs: &[usize] = if options.cpu.side_by_side.is_none() { &GANGS } else { &[] };
    let candidates = candidates(options, &topology, &budget)?;
    let tuned = search(&candidates, gangs, options.profile, &mut measure)?;
    if let Some(path) = &options.cache
        && let Err(error) = remember(path, fingerprint, &tuned, now)
    {
        tell(&format!("the result is not kept: {}: {error}", path.display()));
    }
    Ok(tuned)
}

/// Numbers of workers, rising, each with the hashes side by side the memory suffices for.
fn candidates(
    options: &TuneOptions,
    topology: &Topology,
    budget: &Budget,
) -> Result<Vec<(usize, usize)>, TuneError> {
    let most = plan(&options.cpu, topology, budget)?;
    let last = options.max_threads.map_or(most.threads, |max| max.min(most.threads)).max(1);
    let first = options.min_threads.clamp(1, last);
    let numbers = match options.cpu.threads {
        Some(threads) => threads..=threads,
        None => first..=last,
    };
    let mut all = Vec::new();
    for threads in numbers {
        let cpu = CpuOptions { threads: Some(threads), ..options.cpu.clone() };
        all.push((threads, plan(&cpu, topology, budget)?.side_by_side));
    }
    Ok(all)
}

/// Tries candidates, then fewer hashes side by side for the best of them.
fn search(
    candidates: &[(usize, usize)],
    gangs: &[usize],
    profile: Profile,
    measure: &mut dyn FnMut(usize, usize) -> Result<f64, TuneError>,
) -> Result<Tuned, TuneError> {
    let mut tried: Vec<(usize, usize, f64)> = Vec::new();
    let peak = |tried: &[(usize, usize, f64)]| tried.iter().map(|t| t.2).fold(0.0, f64::max);
    let step = if candidates.len() > ALL_MAX { 2 } else { 1 };
    let mut declining = 0;
    for (threads, side_by_side) in candidates.iter().copied().step_by(step) {
        let rate = measure(threads, side_by_side)?;
        declining = if rate < DECLINE * peak(&tried) { declining + 1 } else { 0 };
        tried.push((threads, side_by_side, rate));
        if candidates.len() > ALL_MAX && tried.len() >= RAMP_MIN && declining == 2 {
            break;
        }
    }
    if step > 1 {
        // Numbers stepped over, beside the best.
        let best = tried.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map_or(1, |best| best.0);
        for (threads, side_by_side) in candidates.iter().copied() {
            let is_new = tried.iter().all(|t| t.0 != threads);
            if is_new && threads.abs_diff(best) <= 2 {
                let rate = measure(threads, side_by_side)?;
                tried.push((threads, side_by_side, rate));
            }
        }
    }
    let enough = profile.share() * peak(&tried);
    tried.sort_by_key(|t| t.0);
    let (threads, most, rate) = *tried
        .iter()
        .find(|(_, _, rate)| *rate >= enough)
        .or(tried.last())
        .ok_or(TuneError::Bench(BenchError::Nothing))?;
    // Where caches or bandwidth are short, or computing takes the time, fewer do as well,
    // in less memory.
    let mut sizes = vec![(most, rate)];
    for fewer in gangs.iter().copied().filter(|fewer| *fewer < most) {
        sizes.push((fewer, measure(threads, fewer)?));
    }
    let best = sizes.iter().map(|size| size.1).fold(0.0, f64::max);
    let fewest = sizes.iter().rev().find(|size| size.1 >= profile.share() * best);
    let (side_by_side, rate) = fewest.copied().unwrap_or((most, rate));
    Ok(Tuned { threads, side_by_side, rate, cached: false })
}

/// Describes the machine.
pub(crate) fn host(topology: &Topology, budget: &Budget) -> Host {
    let count = |is_it: fn(&crate::topology::Processor) -> bool| {
        topology.processors.iter().filter(|processor| is_it(processor)).count()
    };
    Host {
        processor: processor_name(),
        target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        processors: topology.processors.len(),
        cores: count(|processor| processor.thread == 0),
        fast: count(|processor| processor.is_fast),
        memory_gib: (budget.total_kib + (1 << 19)) >> 20,
    }
}

/// The system's name for the processor.
fn processor_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    ["model name", "Model", "Hardware", "CPU part"]
        .into_iter()
        .find_map(|field| {
            let line = info.lines().find(|line| line.starts_with(field))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Everything a result depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprint {
    version: String,
    host: Host,
    memory_kib: u32,
    isa: String,
    affinity: String,
    profile: Profile,
    /// Hashes the memory sufficed for, up to as many as anybody would want: more memory is a
    /// reason to try again.
    fit: u64,
    threads: Option<usize>,
    min_threads: usize,
    max_threads: Option<usize>,
    side_by_side: Option<usize>,
}

impl Fingerprint {
    fn new(options: &TuneOptions, topology: &Topology, budget: &Budget) -> Self {
        let CpuOptions { memory_kib, threads, side_by_side, affinity, isa, .. } = options.cpu;
        let most = topology.worker_max(affinity) * SIDE_BY_SIDE_MAX;
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            host: host(topology, budget),
            memory_kib,
            isa: isa.unwrap_or_else(shoal_pow::Isa::detect).name().into(),
            affinity: affinity.to_string(),
            profile: options.profile,
            fit: budget.hashes(memory_kib).min(most as u64),
            threads,
            min_threads: options.min_threads,
            max_threads: options.max_threads,
            side_by_side,
        }
    }
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    schema_version: u32,
    created_unix_secs: u64,
    fingerprint: Fingerprint,
    threads: usize,
    side_by_side: usize,
    rate: f64,
}

/// A recent result, if any. A file without sense is none.
fn recall(path: &Path, fingerprint: &Fingerprint, now: Duration) -> Option<Tuned> {
    let file = fs::metadata(path).ok().filter(|file| file.len() <= FILE_MAX)?;
    let kept: Kept = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let age = now.as_secs().checked_sub(kept.created_unix_secs)?;
    let sane = (1..=SIDE_BY_SIDE_MAX).contains(&kept.side_by_side) && kept.threads >= 1;
    let holds = file.is_file()
        && kept.schema_version == SCHEMA_VERSION
        && kept.fingerprint == *fingerprint
        && age < KEPT_FOR.as_secs()
        && sane;
    let Kept { threads, side_by_side, rate, .. } = kept;
    holds.then_some(Tuned { threads, side_by_side, rate, cached: true })
}

/// Keeps it, in one step: a half-written file is never seen.
fn remember(path: &Path, fingerprint: Fingerprint, tuned: &Tuned, now: Duration) -> io::Result<()> {
    let Tuned { threads, side_by_side, rate, .. } = *tuned;
    let kept = Kept {
        schema_version: SCHEMA_VERSION,
        created_unix_secs: now.as_secs(),
        fingerprint,
        threads,
        side_by_side,
        rate,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, serde_json::to_vec_pretty(&kept)?)
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Nothing to be done about a leftover.
        let _ = fs::remove_file(&beside);
    }
    written
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, side_by_side, rate, cached } = self;
        write!(f, "{threads} threads, {side_by_side} hashes side by side, {rate:.3} H/s")?;
        if *cached { write!(f, ", as found before") } else { Ok(()) }
    }
}

/// So many numbers of workers are all tried.
const ALL_MAX: usize = 8;

/// Of more, as many at least.
const RAMP_MIN: usize = 5;

/// Below this share of the peak, a number of workers gains no more.
const DECLINE: f64 = 0.985;

/// Hashes side by side to try below the most.
const GANGS: [usize; 3] = [4, 2, 1];

/// How long a result holds.
const KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Version of the file.
const SCHEMA_VERSION: u32 = 1;

/// A file of ours is a KiB.
const FILE_MAX: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cache: Option<PathBuf>) -> TuneOptions {
        let cpu = CpuOptions {
            memory_kib: 64,
            side_by_side: None,
            budget_kib: Some(64 * 8),
            ..CpuOptions::default()
        };
        TuneOptions { cpu, max_threads: Some(2), secs: 0.01, cache, ..TuneOptions::default() }
    }

    #[test]
    fn a_result_is_kept_for_this_machine_and_two_weeks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/tune.json");
        let options = options(Some(path.clone()));
        let mut told = Vec::new();
        let stop = AtomicBool::new(false);
        let first = autotune(&options, &stop, &mut |line| told.push(line.to_owned())).unwrap();
        assert!(!first.cached && first.rate > 0.0 && !told.is_empty());
        let second = autotune(&options, &stop, &mut |line| panic!("{line}")).unwrap();
        // JSON may lose the last bit of the rate.
        assert!((second.rate - first.rate).abs() < first.rate / 1e9);
        assert_eq!(second, Tuned { cached: true, rate: second.rate, ..first });
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

        let topology = Topology::of_machine();
        let budget = Budget::of_kib(64 * 8);
        let fingerprint = Fingerprint::new(&options, &topology, &budget);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(recall(&path, &fingerprint, now + KEPT_FOR - Duration::from_secs(60)).is_some());
        assert!(recall(&path, &fingerprint, now + KEPT_FOR).is_none());
        // A clock set back.
        assert!(recall(&path, &fingerprint, now - KEPT_FOR).is_none());
        let other = Fingerprint { memory_kib: 128, ..fingerprint.clone() };
        assert!(recall(&path, &other, now).is_none());
        for nonsense in ["", "{", "{\"schema_version\":1}"] {
            fs::write(&path, nonsense).unwrap();
            assert!(recall(&path, &fingerprint, now).is_none());
        }
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let mut told = Vec::new();
        let options = options(Some(file.join("tune.json")));
        let stop = AtomicBool::new(false);
        autotune(&options, &stop, &mut |line| told.push(line.to_owned())).unwrap();
        assert!(told.last().unwrap().starts_with("the result is not kept: "), "{told:?}");
    }

    /// A machine whose rate has its peak at some number of workers.
    fn found(last: usize, profile: Profile, rate: impl Fn(usize, usize) -> f64) -> (Tuned, usize) {
        let candidates: Vec<_> = (1..=last).map(|threads| (threads, 6)).collect();
        let mut measured = 0;
        let tuned = search(&candidates, &GANGS, profile, &mut |threads, side_by_side| {
            measured += 1;
            Ok(rate(threads, side_by_side))
        });
        (tuned.unwrap(), measured)
    }

    #[test]
    fn the_peak_is_found_and_the_profile_decides() {
        let hill = |threads: usize, gang: usize| {
            let threads = threads as f64;
            (100.0 - (threads - 13.0).powi(2) * 0.25) * gang as f64 / 6.0
        };
        let (best, measured) = found(64, Profile::Throughput, hill);
        assert_eq!((best.threads, best.side_by_side), (13, 6));
        assert!(measured < 20, "{measured}");
        assert_eq!(found(64, Profile::Balanced, hill).0.threads, 11);
        assert!(found(64, Profile::Efficiency, hill).0.threads < 5);
        assert_eq!(found(8, Profile::Throughput, hill).0.threads, 8);
        // A machine without the bandwidth for six.
        let narrow =
            |threads: usize, gang: usize| threads as f64 * if gang > 2 { 1.0 } else { 1.5 };
        assert_eq!(found(3, Profile::Throughput, narrow).0.side_by_side, 1);
        let nearly = |_: usize, gang: usize| 1.0 + gang as f64 / 1000.0;
        assert_eq!(found(1, Profile::Balanced, nearly).0.side_by_side, 1);
        assert_eq!(found(1, Profile::Throughput, nearly).0.side_by_side, 6);
    }

    #[test]
    fn nothing_fits_and_stopping() {
        let mut none = options(None);
        none.cpu.budget_kib = Some(1);
        let stop = AtomicBool::new(true);
        let error = autotune(&none, &stop, &mut |_| {}).unwrap_err();
        assert!(matches!(error, TuneError::Plan(PlanError::NoMemory { .. })));
        let error = autotune(&options(None), &stop, &mut |_| {}).unwrap_err();
        assert_eq!(error, TuneError::Bench(BenchError::Stopped));
    }
}
