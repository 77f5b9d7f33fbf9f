//! How the difficulty of shares follows the speed of a miner.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The numbers behind [`Vardiff`].
#[derive(Clone, Copy, Debug)]
pub struct VardiffRules {
    /// Shares older than this are forgotten.
    pub window: Duration,
    /// Shares a miner should find in a window.
    pub shares: u32,
    /// Two shares closer together than this say nothing yet.
    pub elapsed_min: Duration,
    /// Between two changes.
    pub pause: Duration,
    /// Part by which the pace may differ without a change.
    pub tolerance: f64,
    /// Least difficulty.
    pub min: u64,
    /// Greatest difficulty.
    pub max: u64,
}

impl Default for VardiffRules {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(300),
            shares: 10,
            elapsed_min: Duration::from_secs(1),
            pause: Duration::from_secs(5),
            tolerance: 0.25,
            min: 1,
            max: 1_000_000_000,
        }
    }
}

/// The difficulty of one miner's shares. Changes on accepted shares only, never as time passes.
#[derive(Clone, Debug)]
pub struct Vardiff {
    rules: VardiffRules,
    difficulty: u64,
    accepted: VecDeque<Instant>,
    last_accepted: Option<Instant>,
    last_change: Option<Instant>,
}

impl Vardiff {
    /// Starts at a difficulty.
    pub fn new(rules: VardiffRules, difficulty: u64) -> Self {
        Self {
            rules,
            difficulty: difficulty.clamp(rules.min, rules.max),
            accepted: VecDeque::new(),
            last_accepted: None,
            last_change: None,
        }
    }

    /// The difficulty of the next job.
    pub const fn difficulty(&self) -> u64 {
        self.difficulty
    }

    /// Counts a share accepted `now`; returns the new difficulty, if changed.
    pub fn accept(&mut self, now: Instant) -> Option<u64> {
        let gap = self.last_accepted.replace(now).map(|last| now - last);
        self.accepted.push_back(now);
        while self.accepted.front().is_some_and(|&first| now - first > self.rules.window) {
            self.accepted.pop_front();
        }
        if self.last_change.is_some_and(|changed| now - changed < self.rules.pause) {
            return None;
        }
        let observed = self.pace(now, gap)?;
        let wanted = self.rules.window.as_secs_f64() / f64::from(self.rules.shares.max(1));
        if (observed - wanted).abs() <= wanted * self.rules.tolerance {
            return None;
        }
        let next = if observed < wanted {
            let factor = (wanted / observed).powf(EXPONENT).clamp(FACTOR_MIN, FACTOR_MAX);
            (self.difficulty as f64 * factor).ceil()
        } else {
            let factor = (observed / wanted).powf(EXPONENT).clamp(FACTOR_MIN, FACTOR_MAX);
            (self.difficulty as f64 / factor).floor()
        };
        // Difficulties are far below 2^53.
        let next = (next as u64).clamp(self.rules.min, self.rules.max);
        if next == self.difficulty {
            return None;
        }
        self.difficulty = next;
        self.last_change = Some(now);
        self.accepted.clear();
        Some(next)
    }

    /// Seconds between shares, as far as known.
    fn pace(&self, now: Instant, gap: Option<Duration>) -> Option<f64> {
        let first = *self.accepted.front()?;
        let count = self.accepted.len();
        if count >= 2 {
            let elapsed = now - first;
            if elapsed < self.rules.elapsed_min {
                return None;
            }
            return Some((elapsed.as_secs_f64() / (count - 1) as f64).max(f64::MIN_POSITIVE));
        }
        // The first share since a change: a long gap before it says that shares are too hard.
        let gap = gap?;
        let wanted = self.rules.window.as_secs_f64() / f64::from(self.rules.shares.max(1));
        let long = gap.as_secs_f64() > wanted * (1.0 + self.rules.tolerance);
        (long && gap <= self.rules.window).then_some(gap.as_secs_f64())
    }
}

const EXPONENT: f64 = 0.45;
const FACTOR_MIN: f64 = 1.02;
const FACTOR_MAX: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(difficulty: u64, seconds: &[u64]) -> Vec<Option<u64>> {
        let start = Instant::now();
        let mut vardiff = Vardiff::new(VardiffRules::default(), difficulty);
        seconds.iter().map(|&at| vardiff.accept(start + Duration::from_secs(at))).collect()
    }

    #[test]
    fn fast_shares_make_it_harder_by_half_at_most() {
        assert_eq!(paced(60, &[0, 1]), [None, Some(90)]);
        // Not again within the pause; then up to the next, rounded up.
        assert_eq!(paced(61, &[0, 1, 2, 7]), [None, Some(92), None, Some(138)]);
    }

    #[test]
    fn slow_shares_make_it_easier() {
        assert_eq!(paced(60, &[0, 120]), [None, Some(40)]);
        // The first share after a change is judged by the gap before it.
        assert_eq!(paced(60, &[0, 120, 240]), [None, Some(40), Some(26)]);
        assert_eq!(paced(1, &[0, 120]), [None, None], "1 is the least");
    }

    #[test]
    fn the_right_pace_changes_nothing() {
        assert_eq!(paced(60, &[0, 30, 60, 85, 120]), [None; 5]);
    }
}
