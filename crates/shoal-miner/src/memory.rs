//! How much memory there is to mine in: free memory, the cgroup's limit, the system's own pools
//! of huge pages.

#[cfg(any(target_os = "linux", test))]
use std::path::Path;

use serde::Serialize;

/// Memory, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Budget {
    /// Memory of the machine.
    pub total_kib: u64,
    /// Available without swapping; 0 where the system does not say.
    pub available_kib: u64,
    /// Left under the limits of the cgroup and its parents. `None` without a limit.
    pub cgroup_kib: Option<u64>,
    /// Free pages of 2 MiB, in the system's pool. No part of the available memory.
    pub huge_free_kib: u64,
    /// Free pages of 1 GiB, likewise.
    pub giant_free_kib: u64,
}

impl Budget {
    /// Asks the machine.
    pub fn of_machine() -> Self {
        system::budget()
    }

    /// Ordinary memory to take: the available, within the cgroup's limit, less a
    /// reserve for everybody else.
    pub fn ordinary_kib(&self) -> u64 {
        let available = self.available_kib.min(self.cgroup_kib.unwrap_or(u64::MAX));
        available.saturating_sub((self.total_kib / 8).clamp(RESERVE_MIN_KIB, RESERVE_MAX_KIB))
    }

    /// All memory to take.
    pub fn usable_kib(&self) -> u64 {
        self.ordinary_kib().saturating_add(self.huge_free_kib).saturating_add(self.giant_free_kib)
    }

    /// How many hashes of this memory fit, each in pages of one kind.
    pub fn hashes(&self, memory_kib: u32) -> u64 {
        let memory_kib = u64::from(memory_kib.max(1));
        let whole = |free_kib: u64, page_kib: u64| free_kib / memory_kib.next_multiple_of(page_kib);
        // Arenas take no pages that would stay mostly empty; so nothing is counted here.
        let giant_kib = memory_kib.next_multiple_of(1 << 20);
        let giant = if giant_kib - memory_kib <= giant_kib / 8 {
            whole(self.giant_free_kib, 1 << 20)
        } else {
            0
        };
        let huge = if memory_kib >= 1024 { whole(self.huge_free_kib, 2048) } else { 0 };
        giant + huge + self.ordinary_kib() / memory_kib
    }

    /// So much ordinary memory and nothing else: for a limit set by people.
    pub const fn of_kib(kib: u64) -> Self {
        // The reserve was thought of by whoever set the limit.
        Self {
            total_kib: 0,
            available_kib: kib.saturating_add(RESERVE_MIN_KIB),
            cgroup_kib: None,
            huge_free_kib: 0,
            giant_free_kib: 0,
        }
    }

    /// Reads Linux's figures below `/proc` and `/sys`.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn read(proc: &Path, sys: &Path) -> Self {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let meminfo = text(&proc.join("meminfo"));
        let kib = |name: &str| field(&meminfo, name).unwrap_or(0);
        let pool = |page_kib: u64| {
            let folder = sys.join(format!("kernel/mm/hugepages/hugepages-{page_kib}kB"));
            let count = |name: &str| text(&folder.join(name)).trim().parse::<u64>().unwrap_or(0);
            count("free_hugepages").saturating_sub(count("resv_hugepages")).saturating_mul(page_kib)
        };
        Self {
            total_kib: kib("MemTotal:"),
            available_kib: kib("MemAvailable:"),
            cgroup_kib: cgroup_kib(&text(&proc.join("self/cgroup")), &sys.join("fs/cgroup")),
            huge_free_kib: pool(2048),
            giant_free_kib: pool(1 << 20),
        }
    }
}

/// The number behind a name, in a file of `name number` lines.
#[cfg(any(target_os = "linux", test))]
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Memory left under the limits of a cgroup and its parents, versions 1 and 2. `membership` is
/// `/proc/self/cgroup`.
#[cfg(any(target_os = "linux", test))]
fn cgroup_kib(membership: &str, mount: &Path) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, files) = if number == "0" && controllers.is_empty() {
            // Beside version 1, the unified hierarchy is a folder of its own.
            (mount.to_owned(), VERSION_2)
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (mount.join("memory"), VERSION_1)
        } else {
            continue;
        };
        let mut folder = root.join(path.trim_start_matches('/'));
        // From inside a container the path may not exist: then the mount is its own root.
        if !folder.is_dir() {
            folder.clone_from(&root);
        }
        while folder.starts_with(&root) {
            if let Some(left) = left_bytes(&folder, files) {
                least = Some(least.map_or(left, |least| least.min(left)));
            }
            if !folder.pop() {
                break;
            }
        }
    }
    least.map(|bytes| bytes / 1024)
}

/// Memory left under one cgroup's limit; its cache of files counts as free.
#[cfg(any(target_os = "linux", test))]
fn left_bytes(folder: &Path, (limit, usage, inactive): (&str, &str, &str)) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    // Version 2 says `max`, version 1 a number near 2^63, when there is no limit.
    let limit: u64 = text(limit)?.trim().parse().ok()?;
    if limit >= 1 << 62 {
        return None;
    }
    let usage: u64 = text(usage)?.trim().parse().ok()?;
    let inactive = text("memory.stat").and_then(|stat| field(&stat, inactive)).unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(inactive)))
}

#[cfg(any(target_os = "linux", test))]
const VERSION_1: (&str, &str, &str) =
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
#[cfg(any(target_os = "linux", test))]
const VERSION_2: (&str, &str, &str) = ("memory.max", "memory.current", "inactive_file");

/// Left to everybody else: an eighth of the memory, within these. Available memory is all the
/// system could free, the cache of every file included; without a reserve, the next program that
/// needs memory makes the system swap.
const RESERVE_MIN_KIB: u64 = 256 << 10;
const RESERVE_MAX_KIB: u64 = 8 << 20;

#[cfg(target_os = "linux")]
mod system {
    use super::{Budget, Path};

    pub(super) fn budget() -> Budget {
        Budget::read(Path::new("/proc"), Path::new("/sys"))
    }
}

#[cfg(target_os = "macos")]
mod system {
    use super::{Budget, sysctl};

    pub(super) fn budget() -> Budget {
        let total_kib = sysctl("hw.memsize").unwrap_or(0) / 1024;
        let page_kib = sysctl("hw.pagesize").unwrap_or(16384) / 1024;
        let free = sysctl("vm.page_free_count").unwrap_or(0)
            + sysctl("vm.page_purgeable_count").unwrap_or(0)
            + sysctl("vm.page_pageable_external_count").unwrap_or(0);
        Budget { total_kib, available_kib: free * page_kib, ..Budget::default() }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod system {
    use super::Budget;

    /// Nothing is known: whoever mines here says how much.
    pub(super) fn budget() -> Budget {
        Budget::default()
    }
}

/// A number known to macOS by name.
#[cfg(target_os = "macos")]
pub(crate) fn sysctl(name: &str) -> Option<u64> {
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    const GIB: u64 = 1 << 20;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn free_memory_and_pools() {
        let root = tempfile::tempdir().unwrap();
        let (proc, sys) = (root.path().join("proc"), root.path().join("sys"));
        write(
            &proc,
            &[("meminfo", "MemTotal:  33554432 kB\nMemFree: 1 kB\nMemAvailable: 17825792 kB\n")],
        );
        let pool = "kernel/mm/hugepages/hugepages-2048kB";
        write(
            &sys,
            &[
                (&format!("{pool}/free_hugepages"), "3000\n"),
                (&format!("{pool}/resv_hugepages"), "900\n"),
            ],
        );
        let budget = Budget::read(&proc, &sys);
        assert_eq!((budget.total_kib, budget.available_kib), (32 * GIB, 17 * GIB));
        assert_eq!((budget.huge_free_kib, budget.cgroup_kib), (2100 * 2048, None));
        assert_eq!(budget.ordinary_kib(), 13 * GIB);
        // 6 in ordinary memory; the 4.1 GiB of the pool are two more.
        assert_eq!(budget.hashes(2 << 20), 8);
        // Small hashes leave the pools alone.
        assert_eq!(budget.hashes(64), 13 * GIB / 64);
    }

    #[test]
    fn cgroups_of_both_versions_limit() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path();
        write(
            mount,
            &[
                ("a/memory.max", "max\n"),
                ("a/memory.current", "1\n"),
                ("memory.max", "4294967296\n"),
                ("memory.current", "2147483648\n"),
                ("memory.stat", "anon 1\ninactive_file 1073741824\n"),
                ("memory/b/memory.limit_in_bytes", "1073741824\n"),
                ("memory/b/memory.usage_in_bytes", "2147483648\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "5\n"),
            ],
        );
        // 4 GiB less the used 2, plus a cache of 1: 3 GiB, set by the parent.
        assert_eq!(cgroup_kib("0::/a\n", mount), Some(3 * GIB));
        // More used than allowed.
        assert_eq!(cgroup_kib("5:cpu:/\n4:memory:/b\n", mount), Some(0));
        assert_eq!(cgroup_kib("4:memory:/\n", mount), None);
        // Inside a container: the path is the host's.
        assert_eq!(cgroup_kib("0::/docker/17\n", mount), Some(3 * GIB));
        assert_eq!(cgroup_kib("nonsense\n0::\n", &mount.join("none")), None);
    }

    #[test]
    fn a_budget_that_people_set() {
        let budget = Budget::of_kib(1000);
        assert_eq!((budget.ordinary_kib(), budget.hashes(64)), (1000, 15));
        assert_eq!(Budget::default().hashes(64), 0);
        assert!(Budget::of_kib(u64::MAX).hashes(u32::MAX) > u64::from(u32::MAX) / 2);
    }

    #[test]
    fn this_machine_has_memory() {
        let budget = Budget::of_machine();
        if cfg!(any(target_os = "linux", target_os = "macos")) {
            assert!(budget.total_kib > 0 && budget.available_kib > 0);
        }
    }
}
