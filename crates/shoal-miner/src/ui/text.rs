//! Numbers and lines as people read them.

use crate::backend::cpu::half_costs;
use crate::board::{Level, LogLine, State};
use crate::status::BackendPhase;

/// Seconds as `1h02m03s`.
pub(super) fn clock(secs: f64) -> String {
    // Negative and strange times are none.
    let secs = if secs.is_finite() { secs.max(0.0) as u64 } else { 0 };
    let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds:02}s"),
        _ => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

/// A hash rate with as many digits as mean something.
pub(super) fn rate(hashes: f64) -> String {
    match hashes {
        h if h >= 100_000.0 => format!("{:.1} kH/s", h / 1000.0),
        h if h >= 100.0 => format!("{h:.0} H/s"),
        h if h >= 10.0 => format!("{h:.1} H/s"),
        h => format!("{h:.3} H/s"),
    }
}

/// A word for a level, always as wide.
pub(super) const fn level(level: Level) -> &'static str {
    match level {
        Level::Info => "info ",
        Level::Success => "ok   ",
        Level::Warn => "warn ",
        Level::Error => "error",
    }
}

/// A line of the log.
pub(super) fn log_line(line: &LogLine) -> String {
    let LogLine { elapsed_secs, level: how, tag, message, times } = line;
    let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
    format!("{elapsed_secs:9.1} {} {tag}: {message}{times}", level(*how))
}

/// The hash rate and the shares in one line.
pub(super) fn stats(state: &State) -> String {
    let (now, average, hashes) = state
        .engine
        .as_ref()
        .map_or((0.0, 0.0, 0), |engine| (engine.rate_now, engine.rate_average, engine.hashes));
    let shares = state.shares;
    // After an orderly end nobody is connected, and nothing is amiss.
    let apart = if state.running && !state.source.connected { ", not connected" } else { "" };
    format!(
        "{} now, {} on average, {hashes} hashes; shares: {} accepted, {} stale, {} refused, \
         {} lost, {} unknown{apart}",
        rate(now),
        rate(average),
        shares.accepted,
        shares.stale,
        shares.refused,
        shares.lost,
        shares.unknown,
    )
}

/// The memory of the workers, and the price of half of it in rate.
pub(super) fn memory(state: &State) -> String {
    let backends = state.engine.iter().flat_map(|engine| &engine.backends);
    let workers: Vec<_> =
        backends.flat_map(|b| b.workers.iter().map(|w| (b.kernel.as_str(), &w.worker))).collect();
    let taken: u64 = workers.iter().map(|(_, worker)| worker.memory_kib).sum();
    let Some((kernel, first)) = workers.first() else { return "none yet".to_owned() };
    let side_by_side = usize::try_from(first.side_by_side).unwrap_or(usize::MAX);
    match half_costs(kernel, side_by_side) {
        Some(percent) => format!("{}; half of it costs {percent:.0} %", kib(taken)),
        None => kib(taken),
    }
}

/// KiB for people.
fn kib(kib: u64) -> String {
    match kib {
        0..1024 => format!("{kib} KiB"),
        1024..1_048_576 => format!("{} MiB", kib >> 10),
        _ => format!("{:.1} GiB", kib as f64 / 1_048_576.0),
    }
}

/// A word for a backend's phase.
pub(super) const fn phase(phase: BackendPhase) -> &'static str {
    match phase {
        BackendPhase::Starting => "starting",
        BackendPhase::Idle => "idle",
        BackendPhase::Working => "working",
        BackendPhase::Quarantined => "quarantined",
        BackendPhase::Stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_under_way_can_miss_its_source() {
        let mut state = crate::board::Board::new().state();
        assert!(!stats(&state).contains("not connected"));
        state.running = true;
        assert!(stats(&state).ends_with("0 unknown, not connected"));
        state.source.connected = true;
        assert!(stats(&state).ends_with("0 unknown"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(clock(0.9), "0s");
        assert_eq!(clock(61.0), "1m01s");
        assert_eq!(clock(3723.0), "1h02m03s");
        assert_eq!(clock(f64::NAN), "0s");
        assert_eq!(clock(-5.0), "0s");
        assert_eq!(rate(2.4321), "2.432 H/s");
        assert_eq!(rate(24.321), "24.3 H/s");
        assert_eq!(rate(243.21), "243 H/s");
        assert_eq!(rate(1_234_567.0), "1234.6 kH/s");
    }
}
