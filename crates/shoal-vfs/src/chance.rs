//! Time and randomness as values: the same seed gives the same run.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> i64;

    /// Returns the seconds by which local time is ahead of UTC at `unix_s`, in seconds since
    /// 1970-01-01 UTC; `None` for a clock without a local time.
    fn local_offset_s(&self, _unix_s: i64) -> Option<i64> {
        None
    }
}

/// Gives random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl Clock for OsClock {
    fn unix_ms(&self) -> i64 {
        let ms = |duration: std::time::Duration| i64::try_from(duration.as_millis());
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => ms(after).unwrap_or(i64::MAX),
            Err(before) => ms(before.duration()).map_or(i64::MIN, |ms| -ms),
        }
    }

    /// Local time of the system's zone: `TZ`, or the zone set for the machine.
    #[cfg(unix)]
    fn local_offset_s(&self, unix_s: i64) -> Option<i64> {
        crate::os::local_offset_s(unix_s)
    }
}

/// A clock standing still, for tests and replays.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock {
    /// The time shown, in milliseconds since 1970-01-01 UTC.
    pub unix_ms: i64,
}

impl Clock for FixedClock {
    fn unix_ms(&self) -> i64 {
        self.unix_ms
    }
}

/// The system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    /// # Panics
    /// When the system has no random source: salts and journal nonces cannot be made without one.
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system has a random source");
    }
}

/// A reproducible sequence of bytes, for tests and replays; never a source of secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<SplitMix>,
}

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy { state: Mutex::new(SplitMix { state: seed }) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let next = state.next().to_be_bytes();
            chunk.copy_from_slice(&next[..chunk.len()]);
        }
    }
}

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix {
    pub(crate) state: u64,
}

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`. The modulo's bias is negligible for the small bounds of a
    /// simulation.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let bytes = |seed| {
            let mut bytes = [0; 20];
            SeededEntropy::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
        // First output of the published generator for seed 1234567.
        let mut mix = SplitMix { state: 1_234_567 };
        assert_eq!(mix.next(), 6_457_827_717_110_365_317);
    }

    #[test]
    fn the_system_has_time_and_chance() {
        assert!(OsClock.unix_ms() > 1_600_000_000_000);
        assert_eq!(FixedClock { unix_ms: 5 }.unix_ms(), 5);
        let (mut a, mut b) = ([0; 16], [0; 16]);
        OsEntropy.fill(&mut a);
        OsEntropy.fill(&mut b);
        assert_ne!(a, b);
    }
}
