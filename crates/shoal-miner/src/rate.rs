//! Hash rates, of the last seconds and on the whole. Time is handed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How fast something counts.
///
/// Hashes of large memory finish several at a time, seconds apart, so a rate over a fixed window
/// jumps. This one goes from the first finish in its window to the last.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Moments of growth, and the count at each; the oldest just before the
    /// window.
    steps: VecDeque<(Instant, u64)>,
    total: u64,
}

impl Meter {
    /// Counts from 0 at this moment.
    pub(crate) fn new(now: Instant) -> Self {
        Self { steps: VecDeque::from([(now, 0)]), total: 0 }
    }

    /// `count` more at this moment.
    pub(crate) fn add(&mut self, count: u64, now: Instant) {
        if count == 0 {
            return;
        }
        self.total += count;
        self.steps.push_back((now, self.total));
        while self.steps.len() > STEPS_MIN
            && self.steps.get(1).is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.steps.pop_front();
        }
        // Finishes closer together than a tenth of a second say no more than their sum.
        let count = self.steps.len();
        if count > STEPS_MIN && now.duration_since(self.steps[count - 3].0) < MERGE {
            self.steps.remove(count - 2);
        }
    }

    /// Nothing is counted while there is no work: the pause is no part of the rate.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.steps.clear();
        self.steps.push_back((now, self.total));
    }

    /// The whole count.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Counts a second, of late. Falls when nothing comes for longer than usual.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let (Some((first_at, first)), Some((last_at, last))) =
            (self.steps.front(), self.steps.back())
        else {
            return 0.0;
        };
        let counted = (last - first) as f64;
        let between = last_at.duration_since(*first_at);
        let gaps = self.steps.len().saturating_sub(1).max(1) as u32;
        let silence = now.saturating_duration_since(*last_at);
        // Twice the usual gap is no news yet.
        let usual = between / gaps * 2;
        let span = between + silence.saturating_sub(usual);
        if span.is_zero() { 0.0 } else { counted / span.as_secs_f64() }
    }
}

/// Time passing only under a condition.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    passed: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// Runs from now on, or stops.
    pub(crate) fn run(&mut self, running: bool, now: Instant) {
        match (self.since, running) {
            (None, true) => self.since = Some(now),
            (Some(_), false) => {
                self.passed = self.passed(now);
                self.since = None;
            }
            _ => {}
        }
    }

    /// Time passed so far.
    pub(crate) fn passed(&self, now: Instant) -> Duration {
        let running =
            self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.passed + running
    }
}

/// `count` a second over `time`, 0 for no time.
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// How far back "now" reaches.
const WINDOW: Duration = Duration::from_secs(15);

/// Least number of steps kept, however old: slow hashes have a rate, too.
const STEPS_MIN: usize = 4;

/// Closer steps are merged.
const MERGE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: f64) -> Duration {
        Duration::from_secs_f64(secs)
    }

    #[test]
    fn hashes_that_come_in_gangs_have_a_steady_rate() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let mut seen = Vec::new();
        for gang in 1..40 {
            meter.add(6, start + secs(f64::from(gang) * 2.0));
            for later in [0.1, 0.9, 1.9] {
                seen.push(meter.rate(start + secs(f64::from(gang) * 2.0 + later)));
            }
        }
        assert!(seen.iter().all(|rate| (2.9..3.1).contains(rate)), "{seen:?}");
        assert_eq!(meter.total(), 39 * 6);
    }

    #[test]
    fn a_rate_follows_what_happens() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        assert!(meter.rate(start) < 0.1);
        for at in 1..=200 {
            meter.add(1, start + secs(f64::from(at) * 0.1));
        }
        assert!((9.0..11.0).contains(&meter.rate(start + secs(20.0))));
        for at in 1..=200 {
            meter.add(5, start + secs(20.0 + f64::from(at) * 0.1));
        }
        assert!((49.0..51.0).contains(&meter.rate(start + secs(40.0))));
        // Silence: a stalled device has no rate.
        assert!(meter.rate(start + secs(400.0)) < 5.0);
    }

    #[test]
    fn thousands_of_finishes_are_few_steps() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for at in 0..100_000 {
            meter.add(3, start + secs(f64::from(at) * 0.001));
        }
        assert!(meter.steps.len() < 400, "{}", meter.steps.len());
        let rate = meter.rate(start + secs(100.0));
        assert!((2900.0..3100.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_stopwatch_counts_only_while_it_runs() {
        let start = Instant::now();
        let mut watch = Stopwatch::default();
        watch.run(true, start);
        watch.run(true, start + secs(1.0));
        watch.run(false, start + secs(2.0));
        watch.run(false, start + secs(5.0));
        watch.run(true, start + secs(6.0));
        assert_eq!(watch.passed(start + secs(7.0)), secs(3.0));
    }
}
