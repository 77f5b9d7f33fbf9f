//! What a pool remembers of an address: shares, strikes, how fast it submits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

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

/// All addresses, and every nonce that was tried to be sold.
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
        let left = until.checked_duration_since(now)?;
        Some(format!("address quarantined: invalid share proof (remaining {}s)", left.as_secs()))
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

    /// Whether the next share of the address is to be hashed before it is answered.
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

    /// A claimed hash that is not the nonce's. Enough of them bring quarantine.
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

fn forget(moments: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while moments.front().is_some_and(|&at| now.saturating_duration_since(at) > window) {
        moments.pop_front();
    }
}
