//! The processors this process may run on: siblings on one core, fast ones, and how a
//! thread is kept on one.
//!
//! Linux tells in `/sys/devices`; macOS counts its performance cores and pins nothing; elsewhere
//! there is only a number.

use std::fmt;
use std::str::FromStr;

#[cfg(any(target_os = "linux", test))]
use std::path::Path;

use serde::Serialize;

/// The processors this process may run on, in order of their worth to the next worker:
/// fast cores before slow ones, whole cores before second threads of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// One entry for each logical processor.
    pub processors: Vec<Processor>,
    /// `true` where threads can be kept on a processor.
    pub pins: bool,
}

/// A logical processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Its number.
    pub number: usize,
    /// Number among the threads of its core, from 0.
    pub thread: usize,
    /// `true` for a fast core, where not all are alike.
    pub is_fast: bool,
}

/// Where workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// Where the system puts them.
    Off,
    /// Each on a processor of its own.
    #[default]
    Auto,
    /// Each on a processor of its own, on fast cores only.
    PcoreOnly,
}

impl Affinity {
    /// Every value, by name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("off", Self::Off), ("auto", Self::Auto), ("pcore-only", Self::PcoreOnly)];
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Affinity {
    type Err = UnknownAffinity;

    fn from_str(text: &str) -> Result<Self, UnknownAffinity> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or(UnknownAffinity)
    }
}

/// There is no such [`Affinity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an affinity is one of: off, auto, pcore-only")]
pub struct UnknownAffinity;

impl Topology {
    /// Asks the machine.
    pub fn of_machine() -> Self {
        system::topology()
    }

    /// The most workers worth having: one for each processor, or each fast one.
    pub fn worker_max(&self, affinity: Affinity) -> usize {
        let all = self.processors.len().max(1);
        let fast = self.processors.iter().filter(|processor| processor.is_fast).count();
        match affinity {
            Affinity::PcoreOnly => fast.max(1),
            // A system without pinning moves workers to slow cores, and all wait for the slow ones.
            Affinity::Off | Affinity::Auto if !self.pins && fast > 0 => fast + (all - fast) / 2,
            Affinity::Off | Affinity::Auto => all,
        }
    }

    /// Where each of so many workers runs. More workers than processors share them.
    pub fn places(&self, affinity: Affinity, workers: usize) -> Vec<Option<usize>> {
        let wanted = |processor: &&Processor| affinity != Affinity::PcoreOnly || processor.is_fast;
        let numbers: Vec<usize> =
            self.processors.iter().filter(wanted).map(|processor| processor.number).collect();
        if affinity == Affinity::Off || !self.pins || numbers.is_empty() {
            return vec![None; workers];
        }
        numbers.into_iter().map(Some).cycle().take(workers).collect()
    }

    /// So many equal processors, nothing else known.
    #[cfg(not(target_os = "linux"))]
    fn of_count(count: usize, fast: usize) -> Self {
        let processors = (0..count)
            .map(|number| Processor { number, thread: 0, is_fast: number < fast })
            .collect();
        Self { processors, pins: false }
    }

    /// Reads Linux's description below `devices`, for the allowed processors.
    #[cfg(any(target_os = "linux", test))]
    fn read(devices: &Path, allowed: &[usize]) -> Self {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let number = |path: &Path| text(path).trim().parse::<u64>().ok();
        let system = devices.join("system/cpu");
        let slow_by_name = list(&text(&devices.join("cpu_atom/cpus")));
        let folder = |cpu: usize| system.join(format!("cpu{cpu}"));
        let capacity = |cpu: usize| number(&folder(cpu).join("cpu_capacity"));
        let frequency = |cpu: usize| number(&folder(cpu).join("cpufreq/cpuinfo_max_freq"));
        // A core with this share of the best one's capacity, or of its highest
        // clock, counts as fast. Preferred cores of one kind differ by less in their clocks, the
        // small cores of every hybrid by more.
        let is_above = |value: Option<u64>, best: Option<u64>, percent: u64| match (value, best) {
            (Some(value), Some(best)) => value * 100 >= best * percent,
            _ => true,
        };
        let best_capacity = allowed.iter().filter_map(|cpu| capacity(*cpu)).max();
        let best_frequency = allowed.iter().filter_map(|cpu| frequency(*cpu)).max();
        let mut processors: Vec<Processor> = allowed
            .iter()
            .map(|&cpu| {
                let siblings = text(&folder(cpu).join("topology/thread_siblings_list"));
                let thread = list(&siblings)
                    .into_iter()
                    .filter(|sibling| allowed.contains(sibling))
                    .position(|sibling| sibling == cpu)
                    .unwrap_or(0);
                let is_fast = if slow_by_name.is_empty() {
                    is_above(capacity(cpu), best_capacity, 80)
                        && is_above(frequency(cpu), best_frequency, 85)
                } else {
                    !slow_by_name.contains(&cpu)
                };
                Processor { number: cpu, thread, is_fast }
            })
            .collect();
        // Second threads of fast cores come after the first threads of slow ones: a core of its
        // own, however slow, has caches and miss buffers of its own.
        processors.sort_by_key(|cpu| (cpu.thread, !cpu.is_fast, cpu.number));
        Self { processors, pins: true }
    }
}

/// Keeps the calling thread on a processor. Whether the system obeyed.
pub(crate) fn pin(number: usize) -> bool {
    system::pin(number)
}

/// Linux's lists: `0-3,8,10-11`. Nonsense is left out.
#[cfg(any(target_os = "linux", test))]
fn list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last.min(first.saturating_add(PROCESSORS_MAX)));
        }
    }
    numbers
}

/// More than Linux is built for.
#[cfg(any(target_os = "linux", test))]
const PROCESSORS_MAX: usize = 8192;

#[cfg(target_os = "linux")]
mod system {
    use super::{Path, Topology};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn topology() -> Topology {
        let allowed: Vec<usize> = match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
            Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
        };
        Topology::read(Path::new("/sys/devices"), &allowed)
    }

    pub(super) fn pin(number: usize) -> bool {
        if number >= CpuSet::MAX_CPU {
            return false;
        }
        let mut set = CpuSet::new();
        set.set(number);
        sched_setaffinity(None, &set).is_ok()
    }
}

#[cfg(target_os = "macos")]
mod system {
    use super::Topology;

    pub(super) fn topology() -> Topology {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let fast = crate::memory::sysctl("hw.perflevel0.logicalcpu");
        let fast = fast.and_then(|count| usize::try_from(count).ok()).unwrap_or(all);
        Topology::of_count(all, fast.min(all))
    }

    pub(super) fn pin(_number: usize) -> bool {
        false
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod system {
    use super::Topology;

    pub(super) fn topology() -> Topology {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        Topology::of_count(all, all)
    }

    pub(super) fn pin(_number: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    /// A tree as Linux shows it: `(processor, siblings, capacity, kHz)`.
    fn tree(cores: &[(usize, &str, Option<u64>, Option<u64>)]) -> tempfile::TempDir {
        let devices = tempfile::tempdir().unwrap();
        for (cpu, siblings, capacity, khz) in cores {
            let folder = devices.path().join(format!("system/cpu/cpu{cpu}"));
            fs::create_dir_all(folder.join("topology")).unwrap();
            fs::create_dir_all(folder.join("cpufreq")).unwrap();
            fs::write(folder.join("topology/thread_siblings_list"), format!("{siblings}\n"))
                .unwrap();
            if let Some(capacity) = capacity {
                fs::write(folder.join("cpu_capacity"), format!("{capacity}\n")).unwrap();
            }
            if let Some(khz) = khz {
                fs::write(folder.join("cpufreq/cpuinfo_max_freq"), format!("{khz}\n")).unwrap();
            }
        }
        devices
    }

    fn order(topology: &Topology) -> Vec<(usize, bool)> {
        topology.processors.iter().map(|cpu| (cpu.number, cpu.is_fast)).collect()
    }

    #[test]
    fn second_threads_come_last() {
        let khz = Some(4_800_000);
        let devices = tree(&[
            (0, "0,2", None, khz),
            (1, "1,3", None, khz),
            (2, "0,2", None, khz),
            (3, "1,3", None, khz),
        ]);
        let topology = Topology::read(devices.path(), &[0, 1, 2, 3]);
        assert_eq!(order(&topology), [(0, true), (1, true), (2, true), (3, true)]);
        assert_eq!(topology.places(Affinity::Auto, 3), [Some(0), Some(1), Some(2)]);
        // A container with one thread of a core has a whole core.
        let topology = Topology::read(devices.path(), &[2, 3]);
        assert!(topology.processors.iter().all(|cpu| cpu.thread == 0));
    }

    #[test]
    fn a_hybrid_by_clocks_by_capacity_and_by_name() {
        let by_clock = tree(&[
            (0, "0-1", None, Some(5_500_000)),
            (1, "0-1", None, Some(5_500_000)),
            (2, "2", None, Some(5_700_000)),
            (3, "3", None, Some(4_200_000)),
        ]);
        let topology = Topology::read(by_clock.path(), &[0, 1, 2, 3]);
        assert_eq!(order(&topology), [(0, true), (2, true), (3, false), (1, true)]);
        assert_eq!(topology.worker_max(Affinity::PcoreOnly), 3);
        assert_eq!(topology.worker_max(Affinity::Auto), 4);
        assert_eq!(
            topology.places(Affinity::PcoreOnly, 5),
            [Some(0), Some(2), Some(1), Some(0), Some(2)]
        );
        assert_eq!(topology.places(Affinity::Off, 2), [None, None]);

        let by_capacity = tree(&[
            (0, "0", Some(381), None),
            (1, "1", Some(1024), None),
            (2, "2", Some(870), None),
        ]);
        let topology = Topology::read(by_capacity.path(), &[0, 1, 2]);
        assert_eq!(order(&topology), [(1, true), (2, true), (0, false)]);

        let by_name = tree(&[(0, "0", Some(1024), None), (1, "1", Some(1024), None)]);
        fs::create_dir_all(by_name.path().join("cpu_atom")).unwrap();
        fs::write(by_name.path().join("cpu_atom/cpus"), "1\n").unwrap();
        let topology = Topology::read(by_name.path(), &[0, 1]);
        assert_eq!(order(&topology), [(0, true), (1, false)]);
    }

    #[test]
    fn nothing_to_read_is_no_error() {
        let empty = tempfile::tempdir().unwrap();
        let topology = Topology::read(empty.path(), &[4, 5]);
        assert_eq!(order(&topology), [(4, true), (5, true)]);
        assert_eq!(Topology::read(empty.path(), &[]).worker_max(Affinity::Auto), 1);
        assert_eq!(list("0-2,7, ,x,9-8"), [0, 1, 2, 7]);
        assert!(list("0-18446744073709551615").len() <= PROCESSORS_MAX + 1);
    }

    #[test]
    fn this_machine_has_a_processor_and_keeps_a_thread_on_it() {
        let topology = Topology::of_machine();
        assert!(topology.worker_max(Affinity::Auto) >= 1);
        if let [Some(place)] = topology.places(Affinity::Auto, 1)[..] {
            let pinned = std::thread::spawn(move || (pin(place), Topology::of_machine()));
            let (pinned, seen) = pinned.join().unwrap();
            assert!(pinned);
            assert_eq!(seen.processors.len(), 1);
        }
    }

    #[test]
    fn affinities_have_names() {
        for (name, affinity) in Affinity::NAMES {
            assert_eq!(name.parse(), Ok(affinity));
            assert_eq!(affinity.to_string(), name);
        }
        assert_eq!("pcores".parse::<Affinity>(), Err(UnknownAffinity));
    }
}
