//! What a pool's refusal of a share means. Pools say it in words only.

use std::time::Duration;

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It came too late for its job.
    Stale {
        /// The pool does not know the job at all.
        unknown_job: bool,
        /// How much too late, where the pool says so.
        stale_for: Option<Duration>,
    },
    /// The pool has the share already.
    Duplicate,
    /// The pool is overloaded, or thinks that we are: the share may be sent again.
    Later,
    /// The pool forgot us.
    NotLoggedIn,
    /// The address is shut out for a while.
    Quarantined,
    /// The share is not what we think it is, or the pool said something new.
    Wrong,
}

impl Refusal {
    /// Reads the pool's words.
    pub fn read(words: &str) -> Self {
        let words = words.trim();
        if words.starts_with("stale job") {
            let unknown_job = words.contains("assignment not found");
            return Self::Stale { unknown_job, stale_for: stale_for(words) };
        }
        if words.starts_with("duplicate share") {
            return Self::Duplicate;
        }
        if ["rate limited", "server busy", "validation timeout", "candidate claim busy"]
            .iter()
            .any(|start| words.starts_with(start))
        {
            return Self::Later;
        }
        if words.starts_with("not logged in") {
            return Self::NotLoggedIn;
        }
        if words.starts_with("address quarantined") {
            return Self::Quarantined;
        }
        Self::Wrong
    }
}

/// The time behind `stale_for=`: `512ms`, `20.000s` or `20s`.
fn stale_for(words: &str) -> Option<Duration> {
    let (_, rest) = words.split_once("stale_for=")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(end);
    let number: f64 = number.parse().ok()?;
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_understood() {
        let stale = |unknown_job, millis: Option<u64>| Refusal::Stale {
            unknown_job,
            stale_for: millis.map(Duration::from_millis),
        };
        for (words, expect) in [
            ("stale job: assignment not found", stale(true, None)),
            ("stale job: assignment expired (age=300.500s, ttl=300.000s)", stale(false, None)),
            (
                "stale job: assignment superseded by newer difficulty (stale_for=5.100s, stale_grace=5.000s)",
                stale(false, Some(5100)),
            ),
            (
                "stale job: template 00 exceeded stale grace (current=-, stale_for=512ms, stale_grace=0ms)",
                stale(false, Some(512)),
            ),
            ("stale job: x (stale_for=20s)", stale(false, Some(20_000))),
            ("stale job: x (stale_for=)", stale(false, None)),
            ("stale job: x (stale_for=1e999s)", stale(false, None)),
            ("stale job: x (stale_for=99999999999999999999999s)", stale(false, None)),
            ("stale job: x (stale_for=1.2.3s)", stale(false, None)),
            ("duplicate share", Refusal::Duplicate),
            ("rate limited, retry", Refusal::Later),
            ("server busy, retry", Refusal::Later),
            ("validation timeout", Refusal::Later),
            ("not logged in", Refusal::NotLoggedIn),
            ("address quarantined: invalid share proof (fraud strikes=3)", Refusal::Quarantined),
            ("nonce out of assigned range", Refusal::Wrong),
            ("job not assigned to this miner", Refusal::Wrong),
            ("claimed hash required", Refusal::Wrong),
            ("invalid claimed hash", Refusal::Wrong),
            ("low difficulty share", Refusal::Wrong),
            ("invalid share proof", Refusal::Wrong),
            ("hash computation failed", Refusal::Wrong),
            ("", Refusal::Wrong),
        ] {
            assert_eq!(Refusal::read(words), expect, "{words}");
        }
    }
}
