//! Limits of this machine, their reasons, and the exact commands against them.
//!
//! Looks at the kernel, the memory and its limits, pages, and clocks. Says only what was
//! found: huge pages are tried out, not read off a setting.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Serialize;
use shoal_argon::{Arena, Pages};
use shoal_pow::Isa;

use crate::backend::cpu::{CpuOptions, PlanError, SIDE_BY_SIDE_MAX, half_in_words, plan};
use crate::memory::Budget;
use crate::topology::Topology;

/// All findings, the worst first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// One entry for each thing looked at.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The fact.
    pub what: String,
    /// Its meaning.
    pub why: String,
    /// The way to change it, where a command can.
    pub fix: Option<Fix>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A high cost.
    Problem,
    /// A low cost, or one beyond change.
    Hint,
    /// All is well.
    Good,
}

/// Settings of the system, to be written in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// The files and their new contents.
    pub writes: Vec<(PathBuf, String)>,
}

impl Fix {
    /// The same as commands of a shell.
    pub fn commands(&self) -> Vec<String> {
        let command =
            |(path, text): &(PathBuf, String)| format!("echo {text} | sudo tee {}", path.display());
        self.writes.iter().map(command).collect()
    }
}

/// A setting could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {why}", .path.display())]
pub struct FixError {
    /// Where to.
    pub path: PathBuf,
    /// The system's words; mostly: only root may.
    pub why: io::Error,
}

/// Looks at this machine, for mining with these options.
pub fn examine(options: &CpuOptions) -> Diagnosis {
    let budget = options.budget_kib.map_or_else(Budget::of_machine, Budget::of_kib);
    let room = Room { root: Path::new("/"), topology: Topology::of_machine(), budget };
    let mut diagnosis = room.examine(options, &grants_huge_pages);
    diagnosis.findings.extend(devices(options));
    diagnosis.findings.sort_by_key(|finding| finding.severity);
    diagnosis
}

/// The graphics processors, each with its memory, opened and tried.
#[cfg(any(feature = "gpu", feature = "cuda"))]
fn devices(options: &CpuOptions) -> Vec<Finding> {
    let found = shoal_gpu::adapters();
    if found.is_empty() {
        let what = "graphics processors: none".to_owned();
        let why = format!("no driver for {} names one", crate::backend::gpu::INTERFACES);
        return vec![Finding::new(Severity::Hint, what, why)];
    }
    let mut findings = Vec::new();
    for adapter in found {
        let memory = adapter.memory_kib.map_or_else(String::new, |kib| format!(" ({})", mib(kib)));
        let what = format!(
            "{}: {}{memory}, {} by {}",
            adapter.name, adapter.kind, adapter.driver, adapter.api
        );
        let opened = shoal_gpu::Device::open(&adapter, &shoal_gpu::DeviceOptions::default());
        findings.push(match opened {
            Err(error) => Finding::new(Severity::Problem, what, error.to_string()),
            Ok(device) => {
                let chosen = if adapter.kind.shares_memory() {
                    format!(
                        "used only where it is named; takes {} of the machine's memory",
                        mib(2 * u64::from(options.memory_kib))
                    )
                } else {
                    "--gpu cards uses it, with all memory it gives".to_owned()
                };
                let draws = device.watts().map_or_else(
                    || "its driver tells no watts".to_owned(),
                    |watts| format!("draws {watts:.0} W"),
                );
                let why = format!("its tags are right; {}; {draws}; {chosen}", device.kernel());
                if adapter.is_unverified() {
                    let why = format!(
                        "unverified: no card had run CUDA's programs when this version was made, \
                         and no speed is known; {why}"
                    );
                    Finding::new(Severity::Hint, what, why)
                } else {
                    Finding::new(Severity::Good, what, why)
                }
            }
        });
    }
    findings
}

/// A build without them says how to get them.
#[cfg(not(any(feature = "gpu", feature = "cuda")))]
fn devices(_: &CpuOptions) -> Vec<Finding> {
    let what = "graphics processors: not looked for".to_owned();
    let why = "this program was built without them; --features gpu builds them in".to_owned();
    vec![Finding::new(Severity::Hint, what, why)]
}

/// Carries the fixes out, and tells each step. Returns the number of settings written.
///
/// # Errors
/// [`FixError`] at the first setting not written; earlier ones are.
pub fn fix(diagnosis: &Diagnosis, tell: &mut dyn FnMut(&str)) -> Result<usize, FixError> {
    let mut written = 0;
    for (path, text) in
        diagnosis.findings.iter().filter_map(|f| f.fix.as_ref()).flat_map(|f| &f.writes)
    {
        fs::write(path, text).map_err(|why| FixError { path: path.clone(), why })?;
        written += 1;
        // The system may do less than told, above all with huge pages.
        let now = fs::read_to_string(path).unwrap_or_default();
        tell(&format!("{}: {text}, and now it says: {}", path.display(), now.trim()));
    }
    Ok(written)
}

/// A trial of transparent huge pages: KiB lying in them, and KiB tried.
fn grants_huge_pages() -> Option<(u64, u64)> {
    let mut arena = Arena::with_pages(PROBE_KIB, Pages::Transparent).ok()?;
    arena.populate().ok()?;
    Some((arena.huge_kib()?, u64::from(PROBE_KIB)))
}

/// The machine under examination.
struct Room<'a> {
    root: &'a Path,
    topology: Topology,
    budget: Budget,
}

impl Room<'_> {
    fn examine(
        &self,
        options: &CpuOptions,
        grants_huge_pages: &dyn Fn() -> Option<(u64, u64)>,
    ) -> Diagnosis {
        let mut findings = vec![self.kernel(options), self.memory(options)];
        findings.extend(self.taken(options));
        if cfg!(target_os = "linux") {
            findings.push(self.pages(options, grants_huge_pages));
            findings.extend(self.quota());
            findings.extend(self.clocks());
        }
        findings.extend(self.cores(options));
        findings.sort_by_key(|finding| finding.severity);
        Diagnosis { findings }
    }

    fn kernel(&self, options: &CpuOptions) -> Finding {
        let best = Isa::detect();
        let isa = options.isa.unwrap_or(best);
        let what = format!("kernel: {isa}");
        if isa != best {
            let why = format!("this machine also runs {best}, which is faster");
            return Finding::new(Severity::Problem, what, why);
        }
        match isa.name() {
            "scalar" => Finding::new(
                Severity::Problem,
                what,
                "the processor has no vector instructions that a kernel is written for".into(),
            ),
            "avx2" => Finding::new(
                Severity::Hint,
                what,
                "the processor has no AVX-512, whose kernel computes a block in half the time"
                    .into(),
            ),
            "neon" => Finding::new(
                Severity::Hint,
                what,
                "the processor has no SHA-3 instructions, which save a tenth".into(),
            ),
            _ => Finding::new(Severity::Good, what, "the fastest there is".into()),
        }
    }

    fn memory(&self, options: &CpuOptions) -> Finding {
        let Self { budget, topology, .. } = self;
        let wanted = options.threads.unwrap_or_else(|| topology.worker_max(options.affinity))
            * options.side_by_side.unwrap_or(SIDE_BY_SIDE_MAX);
        let fit = budget.hashes(options.memory_kib);
        let what = format!(
            "memory: for {fit} hashes of {} at a time, of {wanted} that would be computed",
            mib(u64::from(options.memory_kib))
        );
        let limited = budget.cgroup_kib.filter(|kib| *kib < budget.available_kib);
        let because = match limited {
            Some(kib) => format!("the limit of the cgroup leaves {}", mib(kib)),
            None => format!("{} are available", mib(budget.available_kib)),
        };
        if fit >= wanted as u64 {
            return Finding::new(Severity::Good, what, because);
        }
        let short = (wanted as u64 - fit).saturating_mul(u64::from(options.memory_kib));
        let why = format!(
            "{because}; with {} more, every worker could compute as many hashes side by side as \
             pay off",
            mib(short)
        );
        let plan = plan(options, topology, budget);
        let severity = match plan {
            Ok(_) => Severity::Hint,
            Err(PlanError::NoMemory { .. } | PlanError::OverBudget { .. }) => Severity::Problem,
            Err(_) => Severity::Hint,
        };
        Finding::new(severity, what, why)
    }

    /// The memory mining would take, its price, and the rest for everybody else.
    fn taken(&self, options: &CpuOptions) -> Option<Finding> {
        let Self { budget, topology, .. } = self;
        let plan = plan(options, topology, budget).ok()?;
        let what = format!(
            "memory taken: {} for {} threads with {} hashes side by side",
            mib(plan.total_kib),
            plan.threads,
            plan.side_by_side
        );
        let half = half_in_words(plan.isa, plan.side_by_side);
        let pools = budget.huge_free_kib + budget.giant_free_kib;
        let left = (budget.available_kib + pools).saturating_sub(plan.total_kib);
        let why = format!("{half}; {} stay for everybody else", mib(left));
        Some(Finding::new(Severity::Good, what, why))
    }

    /// Huge pages: from the system's pool, or granted to whoever asks.
    fn pages(
        &self,
        options: &CpuOptions,
        grants_huge_pages: &dyn Fn() -> Option<(u64, u64)>,
    ) -> Finding {
        if options.memory_kib < 1024 {
            let what = "huge pages: hashes this small do not use them".into();
            return Finding::new(Severity::Good, what, "they fit the caches".into());
        }
        let hashes = plan(options, &self.topology, &self.budget)
            .map_or(1, |plan| (plan.threads * plan.side_by_side) as u64);
        let each_kib = u64::from(options.memory_kib).next_multiple_of(2048);
        let free = self.budget.huge_free_kib / each_kib;
        if free >= hashes {
            let what = format!("huge pages: the pool has enough for {hashes} hashes");
            return Finding::new(Severity::Good, what, "2 MiB pages, reserved".into());
        }
        let pool = self.root.join("sys/kernel/mm/hugepages/hugepages-2048kB");
        let reserved = self.number(&pool.join("nr_hugepages")).unwrap_or(0);
        let missing = (hashes - free) * each_kib / 2048;
        // Memory is in one piece only after tidying up.
        let reserve = Fix {
            writes: vec![
                (self.root.join("proc/sys/vm/compact_memory"), "1".into()),
                (pool.join("nr_hugepages"), (reserved + missing).to_string()),
            ],
        };
        let transparent = self.root.join("sys/kernel/mm/transparent_hugepage");
        let setting = self.chosen(&transparent.join("enabled"));
        match grants_huge_pages() {
            Some((huge, of)) if huge >= of - of / 16 => {
                let what = "huge pages: granted to whoever asks (transparent huge pages)".into();
                let why = format!("{} of {} that were tried lie in them", mib(huge), mib(of));
                Finding::new(Severity::Good, what, why)
            }
            _ if setting.as_deref() == Some("never") => Finding {
                severity: Severity::Problem,
                what: "huge pages: forbidden (transparent huge pages: never)".into(),
                why: "with pages of 4 KiB most reads wait for a page table, too: half the rate"
                    .into(),
                fix: Some(Fix { writes: vec![(transparent.join("enabled"), "madvise".into())] }),
            },
            granted => {
                let (huge, of) = granted.unwrap_or((0, u64::from(PROBE_KIB)));
                Finding {
                    severity: Severity::Problem,
                    what: format!("huge pages: {} of {} that were tried", mib(huge), mib(of)),
                    why: "with pages of 4 KiB most reads wait for a page table, too; reserved \
                          pages are there for certain, and nobody else can use them"
                        .into(),
                    fix: Some(reserve),
                }
            }
        }
    }

    /// Processor time under the cgroup's limit, where less than the processors.
    fn quota(&self) -> Option<Finding> {
        let root = self.root.join("sys/fs/cgroup");
        let (quota, period) = match self.text(&root.join("cpu.max")) {
            Some(text) => {
                let (quota, period) = text.split_once(' ')?;
                (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
            }
            None => (
                self.text(&root.join("cpu/cpu.cfs_quota_us"))?.parse().ok()?,
                self.text(&root.join("cpu/cpu.cfs_period_us"))?.parse().ok()?,
            ),
        };
        let processors = quota / period;
        if !(processors > 0.0 && processors < self.topology.processors.len() as f64) {
            return None;
        }
        let what = format!("processor time: the cgroup allows {processors:.1} processors");
        let why = "workers beyond that wait for each other: use as many threads".into();
        Some(Finding::new(Severity::Problem, what, why))
    }

    /// Processors kept at their lowest clock.
    fn clocks(&self) -> Option<Finding> {
        let slow: Vec<PathBuf> = self
            .topology
            .processors
            .iter()
            .filter_map(|processor| {
                let folder = self
                    .root
                    .join(format!("sys/devices/system/cpu/cpu{}/cpufreq", processor.number));
                let driver = self.text(&folder.join("scaling_driver"))?;
                let governor = folder.join("scaling_governor");
                // Where the processor decides itself, the name means something else.
                let is_slow = self.text(&governor)? == "powersave" && !driver.contains("pstate");
                is_slow.then_some(governor)
            })
            .collect();
        if slow.is_empty() {
            return None;
        }
        Some(Finding {
            severity: Severity::Problem,
            what: format!("clocks: {} processors are kept at their lowest", slow.len()),
            why: "their governor is powersave".into(),
            fix: Some(Fix {
                writes: slow.into_iter().map(|path| (path, "performance".into())).collect(),
            }),
        })
    }

    fn cores(&self, options: &CpuOptions) -> Option<Finding> {
        let processors = &self.topology.processors;
        let slow = processors.iter().filter(|processor| !processor.is_fast).count();
        if slow == 0 {
            return None;
        }
        let what = format!("cores: {slow} of {} are slow ones", processors.len());
        let why = format!(
            "an affinity of pcore-only may do better with {} threads; the affinity is {}",
            processors.len() - slow,
            options.affinity
        );
        Some(Finding::new(Severity::Hint, what, why))
    }

    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, path: &Path) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The word in brackets, in a file with a list of choices.
    fn chosen(&self, path: &Path) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }
}

impl Finding {
    fn new(severity: Severity, what: String, why: String) -> Self {
        Self { severity, what, why, fix: None }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { severity, what, why, fix } in &self.findings {
            let mark = match severity {
                Severity::Problem => "problem",
                Severity::Hint => "hint",
                Severity::Good => "good",
            };
            writeln!(f, "{mark:>7}  {what}")?;
            writeln!(f, "         {why}")?;
            for command in fix.iter().flat_map(Fix::commands) {
                writeln!(f, "         fix: {command}")?;
            }
        }
        Ok(())
    }
}

/// KiB for people.
fn mib(kib: u64) -> String {
    if kib >= 10 << 20 {
        format!("{} GiB", kib >> 20)
    } else if kib >= 10 << 10 {
        format!("{} MiB", kib >> 10)
    } else {
        format!("{kib} KiB")
    }
}

/// Memory tried for huge pages.
const PROBE_KIB: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::topology::Processor;

    const GIB: u64 = 1 << 20;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn room(root: &Path, available_kib: u64) -> Room<'_> {
        let processor = |number| Processor { number, thread: 0, is_fast: true };
        let processors = (0..2).map(processor).collect();
        let topology = Topology { processors, pins: true };
        Room { root, topology, budget: Budget::of_kib(available_kib) }
    }

    fn finding<'a>(diagnosis: &'a Diagnosis, what: &str) -> &'a Finding {
        diagnosis.findings.iter().find(|finding| finding.what.starts_with(what)).unwrap()
    }

    #[test]
    fn this_machine_is_described() {
        let diagnosis = examine(&CpuOptions::default());
        let severities: Vec<_> =
            diagnosis.findings.iter().map(|finding| finding.severity).collect();
        assert!(severities.is_sorted());
        assert!(diagnosis.to_string().contains("kernel: "));
        println!("{diagnosis}");
    }

    #[test]
    fn memory_decides_how_many_hashes() {
        let root = tempfile::tempdir().unwrap();
        let memory = |available_kib, options: &CpuOptions| {
            let diagnosis = room(root.path(), available_kib).examine(options, &|| None);
            finding(&diagnosis, "memory: ").clone()
        };
        let options = CpuOptions::default();
        assert_eq!(memory(64 * GIB, &options).severity, Severity::Good);
        let diagnosis = room(root.path(), 26 * GIB).examine(&options, &|| None);
        let taken = finding(&diagnosis, "memory taken");
        let expect = "memory taken: 24 GiB for 2 threads with 6 hashes side by side";
        assert_eq!(taken.what, expect);
        assert!(taken.why.starts_with("half of it, with 3 hashes side by side, "), "{taken:?}");
        assert!(taken.why.contains("stay for everybody else"), "{taken:?}");
        let some = memory(10 * GIB, &options);
        assert_eq!(some.severity, Severity::Hint);
        assert!(some.why.contains("with 14 GiB more"), "{some:?}");
        assert_eq!(memory(GIB, &options).severity, Severity::Problem);
        let asked = CpuOptions { threads: Some(2), side_by_side: Some(6), ..options };
        assert_eq!(memory(10 * GIB, &asked).severity, Severity::Problem);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_that_are_refused_have_a_fix_that_can_be_made() {
        let root = tempfile::tempdir().unwrap();
        let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
        let reserved = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        write(
            root.path(),
            &[
                (enabled, "always madvise [never]\n"),
                (reserved, "16\n"),
                ("proc/sys/vm/compact_memory", ""),
            ],
        );
        let options = CpuOptions { side_by_side: Some(1), ..CpuOptions::default() };
        let room = room(root.path(), 64 * GIB);
        let diagnosis = room.examine(&options, &|| None);
        let never = finding(&diagnosis, "huge pages");
        let command = never.fix.as_ref().unwrap().commands();
        assert_eq!(
            command,
            [format!("echo madvise | sudo tee {}/{enabled}", root.path().display())]
        );
        let mut told = Vec::new();
        assert_eq!(fix(&diagnosis, &mut |line| told.push(line.to_owned())).unwrap(), 1);
        assert_eq!(fs::read_to_string(root.path().join(enabled)).unwrap(), "madvise");
        assert!(told[0].ends_with("now it says: madvise"), "{told:?}");

        write(root.path(), &[(enabled, "always [madvise] never\n")]);
        let diagnosis = room.examine(&options, &|| Some((1024, 65536)));
        let silent = finding(&diagnosis, "huge pages");
        assert_eq!(silent.severity, Severity::Problem);
        assert_eq!(silent.fix.as_ref().unwrap().writes[1].1, (16 + 2 * 1024).to_string());
        let granted = room.examine(&options, &|| Some((65536, 65536)));
        assert_eq!(finding(&granted, "huge pages").severity, Severity::Good);

        fs::remove_file(root.path().join(reserved)).unwrap();
        fs::create_dir(root.path().join(reserved)).unwrap();
        let error = fix(&diagnosis, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert!(error.path.ends_with("nr_hugepages"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn quotas_and_governors() {
        let root = tempfile::tempdir().unwrap();
        let diagnosis = room(root.path(), GIB).examine(&CpuOptions::default(), &|| None);
        assert!(!diagnosis.to_string().contains("processor time"));
        write(root.path(), &[("sys/fs/cgroup/cpu.max", "150000 100000\n")]);
        let cpufreq = "sys/devices/system/cpu/cpu1/cpufreq";
        let (driver, governor) =
            (format!("{cpufreq}/scaling_driver"), format!("{cpufreq}/scaling_governor"));
        write(root.path(), &[(&driver, "acpi-cpufreq\n"), (&governor, "powersave\n")]);
        let diagnosis = room(root.path(), GIB).examine(&CpuOptions::default(), &|| None);
        let text = diagnosis.to_string();
        assert!(text.contains("the cgroup allows 1.5 processors"), "{text}");
        assert!(text.contains("clocks: 1 processors"), "{text}");
        write(
            root.path(),
            &[("sys/fs/cgroup/cpu.max", "max 100000\n"), (&driver, "intel_pstate\n")],
        );
        let text = room(root.path(), GIB).examine(&CpuOptions::default(), &|| None).to_string();
        assert!(!text.contains("cgroup allows") && !text.contains("clocks"), "{text}");
    }
}
