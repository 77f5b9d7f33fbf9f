//! A pool's memory of addresses: shares, strikes, how fast each submits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::random_u64;

/// How shares are checked and misconduct is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) full_verify: bool,
    pub(crate) warmup_shares: u64,
    pub(crate) sample_every: u64,
    pub(crate) sample_per_mille: u64,
    pub(crate) strikes_max: usize,
    pub(crate) strike_window: Duration,
    pub(crate) quarantine: Duration,
    pub(crate) submits_max: usize,
    pub(crate) submits_window: Duration,
    pub(crate) provisional_max: usize,
    pub(crate) provisional_window: Duration,
}

/// One address.
#[derive(Debug, Default)]
struct Account {
    shares: u64,
    strikes: VecDeque<Instant>,
    quarantined_until: Option<Instant>,
    submits: VecDeque<Instant>,
    provisional: VecDeque<Instant>,
}

/// All addresses, and every nonce offered so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    policy: Policy,
    accounts: HashMap<String, Account>,
    seen: HashSet<(String, u64)>,
}

impl Ledger {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, accounts: HashMap::new(), seen: HashSet::new() }
    }

    /// The refusal of an address in quarantine.
    pub(crate) fn quarantine(&self, address: &str, now: Instant) -> Option<String> {
        let until = self.accounts.get(address)?.quarantined_until?;
        let left = until.checked_duration_since(now).filter(|left| !left.is_zero())?;
        let wall = UNIX_EPOCH.elapsed().unwrap_or_default() + left;
        Some(format!(
            "address quarantined: invalid share proof (fraud strikes={}, until {}, remaining {})",
            self.policy.strikes_max,
            rfc3339(wall.as_secs()),
            spoken(left)
        ))
    }

    /// Puts an address into quarantine, guilty or not.
    pub(crate) fn quarantine_for(&mut self, address: &str, now: Instant, time: Duration) {
        self.account(address).quarantined_until = Some(now + time);
    }

    /// Counts a submit; `false` when there were too many of late.
    pub(crate) fn may_submit(&mut self, address: &str, now: Instant) -> bool {
        let policy = self.policy;
        let submits = &mut self.account(address).submits;
        forget(submits, now, policy.submits_window);
        if submits.len() >= policy.submits_max {
            return false;
        }
        submits.push_back(now);
        true
    }

    /// Claims a nonce of a job; `false` when somebody did before.
    pub(crate) fn claim(&mut self, job_id: &str, nonce: u64) -> bool {
        self.seen.insert((job_id.to_owned(), nonce))
    }

    /// Gives a claimed nonce back: the share was refused for its form, and may come again.
    pub(crate) fn unclaim(&mut self, job_id: &str, nonce: u64) {
        self.seen.remove(&(job_id.to_owned(), nonce));
    }

    /// `true` when the next share of the address is to be hashed before its answer.
    pub(crate) fn must_verify(&mut self, address: &str, now: Instant) -> bool {
        let policy = self.policy;
        let account = self.account(address);
        forget(&mut account.provisional, now, policy.provisional_window);
        policy.full_verify
            || account.shares < policy.warmup_shares
            || (policy.sample_every != 0 && account.shares.is_multiple_of(policy.sample_every))
            || account.provisional.len() >= policy.provisional_max
            || !account.strikes.is_empty()
            || random_u64() % 1000 < policy.sample_per_mille
    }

    /// Counts an accepted share.
    pub(crate) fn accept(&mut self, address: &str, verified: bool, now: Instant) {
        let account = self.account(address);
        account.shares += 1;
        if !verified {
            account.provisional.push_back(now);
        }
    }

    /// A false claim. Enough of them bring quarantine.
    pub(crate) fn strike(&mut self, address: &str, now: Instant) {
        let policy = self.policy;
        let account = self.account(address);
        forget(&mut account.strikes, now, policy.strike_window);
        account.strikes.push_back(now);
        if account.strikes.len() >= policy.strikes_max {
            account.quarantined_until = Some(now + policy.quarantine);
            account.strikes.clear();
        }
    }

    fn account(&mut self, address: &str) -> &mut Account {
        self.accounts.entry(address.to_owned()).or_default()
    }
}

/// A duration as the real pool writes durations: `59m 59s 873ms`, without units of zero.
fn spoken(time: Duration) -> String {
    let (secs, nanos) = (time.as_secs(), time.subsec_nanos());
    let days = secs / 86_400;
    let parts = [
        (days, if days == 1 { "day" } else { "days" }),
        (secs / 3600 % 24, "h"),
        (secs / 60 % 60, "m"),
        (secs % 60, "s"),
        (u64::from(nanos / 1_000_000), "ms"),
        (u64::from(nanos / 1000 % 1000), "us"),
        (u64::from(nanos % 1000), "ns"),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if said.is_empty() { "0s".to_owned() } else { said.join(" ") }
}

/// Seconds since 1970 as `2026-11-23T02:42:58Z`.
fn rfc3339(unix_secs: u64) -> String {
    let (days, secs) = (unix_secs / 86_400, unix_secs % 86_400);
    // Years beginning in March: a leap day is their last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn forget(moments: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while moments.front().is_some_and(|&at| now.saturating_duration_since(at) > window) {
        moments.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_real_pool_writes_them() {
        for (millis, expect) in [
            (0, "0s"),
            (3_599_873, "59m 59s 873ms"),
            (3_600_000, "1h"),
            (86_400_000, "1day"),
            (180_061_001, "2days 2h 1m 1s 1ms"),
        ] {
            assert_eq!(spoken(Duration::from_millis(millis)), expect);
        }
        for (secs, expect) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_401_778, "2026-11-23T02:42:58Z"),
        ] {
            assert_eq!(rfc3339(secs), expect);
        }
    }
}
