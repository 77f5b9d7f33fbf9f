//! Meanings of a pool's refusals of a share. Pools refuse in words only.

use std::time::Duration;

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too late for its job.
    Stale {
        /// How much too late, where the pool says so.
        stale_for: Option<Duration>,
    },
    /// The share was a block, and the pool's node had another one at its height. Jobs are in step.
    StaleBlock,
    /// The share was a block, and the pool did not hear from its node whether the block counts.
    BlockUnsettled,
    /// The pool has the share already.
    Duplicate,
    /// The pool is overloaded, or we are too fast: the share may be sent again.
    Later,
    /// The pool forgot us.
    NotLoggedIn,
    /// The address is shut out for a while.
    Quarantined {
        /// For how long, where the pool says so.
        remaining: Option<Duration>,
    },
    /// The share is wrong in the pool's eyes, or the words are new.
    Wrong,
}

impl Refusal {
    /// Reads the pool's words.
    pub fn read(words: &str) -> Self {
        let words = words.trim();
        if words.starts_with("stale job") {
            return Self::Stale { stale_for: stale_for(words) };
        }
        if words.contains("submitblock") {
            return Self::of_block(words);
        }
        if words.starts_with("duplicate share") {
            return Self::Duplicate;
        }
        if LATER.iter().any(|start| words.starts_with(start)) {
            return Self::Later;
        }
        if words.starts_with("not logged in") {
            return Self::NotLoggedIn;
        }
        if words.starts_with(QUARANTINED) {
            return Self::Quarantined { remaining: remaining(words) };
        }
        Self::Wrong
    }

    /// The pool passes on its node's answer to a block: `submitblock STATUS: BODY`, or how
    /// the request failed.
    fn of_block(words: &str) -> Self {
        let answer = words.strip_prefix("submitblock ").and_then(|rest| rest.split_once(':'));
        match answer.map(|(status, body)| (status.split(' ').next(), body)) {
            Some((Some("400"), body)) if body.contains("stale") => Self::StaleBlock,
            Some((Some("400"), _)) => Self::Wrong,
            Some((Some("429"), _)) => Self::Later,
            _ => Self::BlockUnsettled,
        }
    }
}

/// Reads a quarantine, of a share or at a login: `Some` with the time, where the pool says it.
pub(crate) fn quarantine(words: &str) -> Option<Option<Duration>> {
    words.starts_with(QUARANTINED).then(|| remaining(words))
}

/// The time behind `remaining`: `59m 59s 873ms`, `1h` or `17s`.
fn remaining(words: &str) -> Option<Duration> {
    let (_, rest) = words.split_once("remaining ")?;
    let rest = rest.split([')', ',']).next()?;
    let mut total = Duration::ZERO;
    for part in rest.split_ascii_whitespace() {
        let end = part.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = part.split_at(end);
        let number: u64 = number.parse().ok()?;
        let time = match unit {
            "day" | "days" | "d" => Duration::from_secs(number.checked_mul(86_400)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "s" => Duration::from_secs(number),
            "ms" => Duration::from_millis(number),
            "us" => Duration::from_micros(number),
            "ns" => Duration::from_nanos(number),
            _ => return None,
        };
        total = total.checked_add(time)?;
    }
    Some(total)
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

const QUARANTINED: &str = "address quarantined";
const LATER: [&str; 5] = [
    "rate limited",
    "server busy",
    "validation timeout",
    "candidate claim busy",
    "candidate claim rate limited",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_understood() {
        let stale =
            |millis: Option<u64>| Refusal::Stale { stale_for: millis.map(Duration::from_millis) };
        let shut_out = |millis: Option<u64>| Refusal::Quarantined {
            remaining: millis.map(Duration::from_millis),
        };
        for (words, expect) in [
            ("stale job: assignment not found", stale(None)),
            ("stale job: assignment expired (age=300.500s, ttl=300.000s)", stale(None)),
            (
                "stale job: assignment superseded by newer difficulty (stale_for=5.100s, stale_grace=5.000s)",
                stale(Some(5100)),
            ),
            (
                "stale job: template 00 exceeded stale grace (current=-, stale_for=512ms, stale_grace=0ms)",
                stale(Some(512)),
            ),
            ("stale job: x (stale_for=20s)", stale(Some(20_000))),
            ("stale job: x (stale_for=)", stale(None)),
            ("stale job: x (stale_for=1e999s)", stale(None)),
            ("stale job: x (stale_for=99999999999999999999999s)", stale(None)),
            ("stale job: x (stale_for=1.2.3s)", stale(None)),
            ("duplicate share", Refusal::Duplicate),
            ("rate limited, retry", Refusal::Later),
            ("server busy, retry", Refusal::Later),
            ("validation timeout", Refusal::Later),
            ("not logged in", Refusal::NotLoggedIn),
            ("address quarantined", shut_out(None)),
            ("address quarantined: invalid share proof (fraud strikes=3)", shut_out(None)),
            (
                "address quarantined: invalid share proof (fraud strikes=3, until \
                 2026-11-23T03:42:58Z, remaining 59m 59s 873ms)",
                shut_out(Some(3_599_873)),
            ),
            ("address quarantined: x (remaining 2days 1h)", shut_out(Some(176_400_000))),
            ("address quarantined: x (remaining )", shut_out(Some(0))),
            ("address quarantined: x (remaining 5 parsecs)", shut_out(None)),
            ("address quarantined: x (remaining 99999999999999999999s)", shut_out(None)),
            ("address quarantined: x (remaining 18446744073709551615days)", shut_out(None)),
            (r#"submitblock 400: {"error":"block rejected as stale"}"#, Refusal::StaleBlock),
            (r#"submitblock 400: {"error":"block rejected"}"#, Refusal::Wrong),
            (r#"submitblock 429: {"error":"submitblock busy, retry later"}"#, Refusal::Later),
            ("submitblock 500: ", Refusal::BlockUnsettled),
            (
                "error sending request for url (http://x/api/mining/submitblock)",
                Refusal::BlockUnsettled,
            ),
            ("candidate claim rate limited, retry", Refusal::Later),
            ("nonce out of assigned range", Refusal::Wrong),
            ("job not assigned to this miner", Refusal::Wrong),
            ("claimed hash required", Refusal::Wrong),
            ("invalid hex", Refusal::Wrong),
            ("hex length must be even", Refusal::Wrong),
            ("expected 32-byte hash, got 1 bytes", Refusal::Wrong),
            ("low difficulty share", Refusal::Wrong),
            ("invalid share proof", Refusal::Wrong),
            ("hash computation failed", Refusal::Wrong),
            ("", Refusal::Wrong),
        ] {
            assert_eq!(Refusal::read(words), expect, "{words}");
        }
    }
}
