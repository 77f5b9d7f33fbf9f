//! The place of a run: the machine's and the tools' own account.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The facts about a machine needed to judge figures taken there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's own name, its count, and its microcode.
    pub cpu: String,
    /// Logical processors usable by the process.
    pub cores: usize,
    /// Microcode revision.
    pub microcode: String,
    /// Instruction sets relevant to Shoal, of those the processor reports.
    pub isa: Vec<String>,
    /// Frequency governor, or the reason for not knowing.
    pub governor: String,
    /// Linux, and its version.
    pub kernel: String,
    /// The hypervisor, when there is one.
    pub hypervisor: String,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// Transparent huge pages: the chosen word of the three.
    pub huge_pages: String,
    /// Huge pages set aside, with their size.
    pub huge_pages_reserved: String,
    /// The compiler found when the lab runs.
    pub rustc: String,
    /// The commit of the working tree, with a note about uncommitted changes.
    pub commit: String,
    /// True for a lab built with optimisation.
    pub optimised: bool,
}

impl Environment {
    /// A short name of the machine, for the folder of its records: `zen5-2-cores`.
    pub fn machine(&self) -> String {
        let number = |word: &str| -> Option<u32> {
            let (_, rest) = self.cpu.split_once(word)?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let amd = self.cpu.starts_with("AMD");
        let core = match (amd, number("(family "), number(", model ")) {
            (true, Some(26), _) => "zen5".to_owned(),
            (true, Some(25), Some(16..=31 | 96..=175)) => "zen4".to_owned(),
            (true, Some(25), _) => "zen3".to_owned(),
            _ => {
                let name = self.cpu.split(" (family").next().unwrap_or_default();
                let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
                let name: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
                if name.is_empty() { "unknown".into() } else { name.join("-").to_lowercase() }
            }
        };
        format!("{core}-{}-cores", self.cores)
    }

    /// Asks the machine. A fact not to be found out is an empty text.
    pub fn probe() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo
                .lines()
                .find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    (key.trim() == name).then(|| value.trim().to_owned())
                })
                .unwrap_or_default()
        };
        let flags = field("flags");
        let isa = ["sse4_2", "avx2", "avx512f", "avx512bw", "avx512vl", "sha_ni", "gfni", "bmi2"]
            .into_iter()
            .filter(|name| flags.split_whitespace().any(|flag| flag == *name))
            .map(str::to_owned)
            .collect();
        let model = [field("model name"), field("cpu family"), field("model")];
        Self {
            cpu: format!("{} (family {}, model {})", model[0], model[1], model[2]),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            microcode: field("microcode"),
            isa,
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .unwrap_or_else(|| "not visible".into()),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            hypervisor: line("/sys/hypervisor/type").unwrap_or_else(|| {
                if flags.contains("hypervisor") { "yes, unnamed" } else { "none seen" }.into()
            }),
            memory_kib: meminfo("MemTotal").unwrap_or(0),
            huge_pages: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            huge_pages_reserved: format!(
                "{} of {} KiB",
                meminfo("HugePages_Total").unwrap_or(0),
                meminfo("Hugepagesize").unwrap_or(0)
            ),
            rustc: output("rustc", &["-V"]),
            commit: commit(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn commit() -> String {
    let head = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = !output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    if changed { format!("{head} with changes") } else { head }
}

fn output(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The word in brackets of a file listing choices.
fn chosen(path: &str) -> String {
    let text = line(path).unwrap_or_default();
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.clone(), |(word, _)| word.to_owned())
}

fn meminfo(name: &str) -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        if key != name {
            return None;
        }
        value.split_whitespace().next()?.parse().ok()
    })
}

/// Memory available without swapping, in KiB.
pub(crate) fn available_memory_kib() -> Option<u64> {
    meminfo("MemAvailable")
}

/// Mean number of processes wanting a core, over the last minute.
pub(crate) fn load() -> Option<f64> {
    line("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

/// Time the hypervisor kept from this machine since boot, and all time, in ticks.
pub(crate) fn steal_ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

/// Memory of this process in KiB: resident now, and the most since [`forget_peak`].
pub(crate) fn resident_kib() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some((kib_field(&status, "VmRSS")?, kib_field(&status, "VmHWM")?))
}

/// Memory of this process in huge pages, in KiB.
pub(crate) fn huge_page_kib() -> Option<u64> {
    let maps = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let reserved = kib_field(&maps, "Private_Hugetlb").unwrap_or(0);
    Some(kib_field(&maps, "AnonHugePages")? + reserved)
}

/// Lets the peak start again from the memory resident now. Where Linux refuses, the preparation's
/// peak stays in the figure, and the figure is too large, never too small.
pub(crate) fn forget_peak() {
    // A refusal cannot be helped; the function's comment tells the effect on the figure.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_short_name() {
        for (cpu, expect) in [
            ("AMD EPYC (family 26, model 2)", "zen5-2-cores"),
            ("AMD EPYC 7763 64-Core Processor (family 25, model 1)", "zen3-2-cores"),
            ("Intel(R) Xeon(R) (family 6, model 143)", "intel-r-xeon-r-2-cores"),
            (" (family , model )", "unknown-2-cores"),
        ] {
            let environment = Environment { cpu: cpu.into(), cores: 2, ..Environment::default() };
            assert_eq!(environment.machine(), expect);
        }
    }

    #[test]
    fn the_peak_can_be_forgotten() {
        let big = std::hint::black_box(vec![1_u8; 64 << 20]);
        drop(big);
        forget_peak();
        let (resident, peak) = resident_kib().expect("Linux tells");
        assert!(peak < resident + (32 << 10), "{peak} is still the old peak; resident {resident}");
    }
}
