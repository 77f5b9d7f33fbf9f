//! A card's fastest programs: tried while the card works, and kept in a file.
//!
//! Every candidate computes the same tags, so hashes under way do not notice a change.

use std::path::Path;
use std::time::Duration;
use std::{fmt, fs, io};

/// How the programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuning {
    /// Registers of a thread at most; `None` for as many as the compiler takes.
    pub(crate) registers: Option<u32>,
    /// Columns between a known block's prefetch into the L2 cache and its load; 0 for none.
    pub(crate) prefetch: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { registers: None, prefetch: 4 }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prefetch {} ahead", self.prefetch)?;
        match self.registers {
            Some(registers) => write!(f, ", {registers} registers"),
            None => Ok(()),
        }
    }
}

/// The candidates. The compiler takes 56 to 64 registers for the longest program by itself.
const CANDIDATES: [Tuning; 8] = [
    Tuning { registers: None, prefetch: 4 },
    Tuning { registers: None, prefetch: 0 },
    Tuning { registers: None, prefetch: 1 },
    Tuning { registers: None, prefetch: 2 },
    Tuning { registers: None, prefetch: 8 },
    Tuning { registers: None, prefetch: 16 },
    Tuning { registers: Some(40), prefetch: 4 },
    Tuning { registers: Some(48), prefetch: 4 },
];

/// Launches of a candidate before the next one's turn. The first is not counted: its columns may
/// have been fitted to the candidate before.
const TURN: u32 = 9;
/// Turns of each candidate.
const TURNS: u32 = 3;

/// Tries the candidates in turn.
#[derive(Debug)]
pub(crate) struct Tuner {
    /// The candidate on trial, and the candidate's launches counted.
    now: usize,
    launches: u32,
    turns: u32,
    /// Columns of one hash, and their time, by candidate.
    sums: [(f64, f64); CANDIDATES.len()],
}

impl Tuner {
    pub(crate) fn new() -> Self {
        Self { now: 0, launches: 0, turns: 0, sums: [(0.0, 0.0); CANDIDATES.len()] }
    }

    /// The candidate for the next launch.
    pub(crate) fn next(&self) -> (usize, Tuning) {
        (self.now, CANDIDATES[self.now])
    }

    /// Counts a launch of a candidate. The best one, and its columns a second, once all are tried.
    pub(crate) fn took(
        &mut self,
        candidate: usize,
        columns: u32,
        time: Duration,
    ) -> Option<(Tuning, f64)> {
        // Launches of the candidate before are still under way after a change.
        if candidate != self.now {
            return None;
        }
        self.launches += 1;
        if self.launches > 1 {
            self.sums[candidate].0 += f64::from(columns);
            self.sums[candidate].1 += time.as_secs_f64();
        }
        if self.launches < TURN {
            return None;
        }
        self.launches = 0;
        self.now = (self.now + 1) % CANDIDATES.len();
        self.turns += u32::from(self.now == 0);
        if self.turns < TURNS {
            return None;
        }
        let rates = self.sums.map(|(columns, secs)| columns / secs.max(f64::MIN_POSITIVE));
        let best = (0..rates.len()).max_by(|a, b| rates[*a].total_cmp(&rates[*b]))?;
        Some((CANDIDATES[best], rates[best]))
    }
}

/// Lines of the file at most: the oldest go first.
const LINES_MAX: usize = 64;
/// Most bytes of a file of results: a longer file counts as empty.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// The tuning kept for a key.
pub(crate) fn recall(path: &Path, key: &str) -> Option<Tuning> {
    lines(path).iter().rev().find_map(|line| {
        let mut fields = line.split('\t');
        if fields.next() != Some(key) {
            return None;
        }
        let registers = fields.next()?.parse().ok()?;
        let prefetch = fields.next()?.parse().ok()?;
        let tuning = Tuning { registers: (registers > 0).then_some(registers), prefetch };
        // Another's file, or another version's.
        CANDIDATES.contains(&tuning).then_some(tuning)
    })
}

/// Keeps a tuning: key, registers (0 for the compiler's choice), columns of prefetch, and columns
/// a second for people.
pub(crate) fn remember(
    path: &Path,
    key: &str,
    tuning: Tuning,
    columns_per_sec: f64,
) -> io::Result<()> {
    let is_of_key = |line: &String| line.split('\t').next() == Some(key);
    let mut lines = lines(path);
    lines.retain(|line| !is_of_key(line));
    let Tuning { registers, prefetch } = tuning;
    lines.push(format!("{key}\t{}\t{prefetch}\t{columns_per_sec:.0}", registers.unwrap_or(0)));
    let first = lines.len().saturating_sub(LINES_MAX);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Two processes ending at once leave one of the two results, and never half a file.
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&beside, lines[first..].join("\n") + "\n")?;
    fs::rename(&beside, path)
}

fn lines(path: &Path) -> Vec<String> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
    let text = if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    text.lines().map(str::to_owned).collect()
}

/// FNV-1a: results of other programs are not taken for these.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_candidate_is_found_though_launches_overlap() {
        let mut tuner = Tuner::new();
        let mut under_way = std::collections::VecDeque::from([0]);
        let (tuning, rate) = loop {
            under_way.push_back(tuner.next().0);
            let candidate = under_way.pop_front().unwrap();
            // The fifth is a tenth faster than the others.
            let micros = if candidate == 4 { 36_000 } else { 40_000 };
            let took = tuner.took(candidate, 1000, Duration::from_micros(micros));
            if let Some(best) = took {
                break best;
            }
        };
        assert_eq!(tuning, CANDIDATES[4]);
        assert!((27_000.0..28_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn results_are_kept_by_key_and_foreign_ones_left_alone() {
        let folder = std::env::temp_dir().join(format!("shoal-tune-{}", std::process::id()));
        let path = folder.join("deep").join("cuda-tuning");
        assert_eq!(recall(&path, "a card"), None);
        remember(&path, "a card", CANDIDATES[1], 1.0).unwrap();
        remember(&path, "another", CANDIDATES[6], 2.0).unwrap();
        remember(&path, "a card", CANDIDATES[5], 3.0).unwrap();
        assert_eq!(recall(&path, "a card"), Some(CANDIDATES[5]));
        assert_eq!(recall(&path, "another"), Some(CANDIDATES[6]));
        assert_eq!(recall(&path, "a"), None);
        for number in 0..100 {
            remember(&path, &format!("card {number}"), CANDIDATES[0], 1.0).unwrap();
        }
        assert_eq!(lines(&path).len(), LINES_MAX);
        assert_eq!(recall(&path, "a card"), None, "the oldest go");
        fs::write(&path, "a card\t9999\t4\t1\nb\t\tx\nc\n\0").unwrap();
        for key in ["a card", "b", "c", ""] {
            assert_eq!(recall(&path, key), None);
        }
        fs::write(&path, vec![b'a'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(lines(&path).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}
