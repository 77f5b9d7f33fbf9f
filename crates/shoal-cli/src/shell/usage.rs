//! Processor time and memory of the process, where `/proc` tells them.

/// Processor time so far.
pub(super) struct Usage {
    user: f64,
    system: f64,
}

/// Ticks a second in `/proc`, on every Linux.
const TICKS: f64 = 100.0;

impl Usage {
    /// The time taken until now; 0 where the system does not tell.
    pub(super) fn now() -> Usage {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name of the program comes before, in parentheses, and may hold blanks.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |place: usize| {
            fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(0.0) / TICKS
        };
        Usage { user: ticks(11), system: ticks(12) }
    }

    /// Seconds in the program and in the system since then.
    pub(super) fn since(&self) -> (f64, f64) {
        let now = Usage::now();
        (now.user - self.user, now.system - self.system)
    }

    /// Peak of the resident memory, in KiB.
    pub(super) fn peak_kib() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse().ok()
    }
}
