//! A work under way, and a while after.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::evidence;
use crate::lease::Ledger;
use crate::work::Work;

/// A work and the account of its nonces.
pub(super) struct Round {
    pub(super) work: Arc<Work>,
    /// The work as devices see it: with the target of witnesses, so that none can tell the
    /// solutions among its tags.
    pub(super) asked: Arc<Work>,
    /// The share of all tags a device is to report.
    pub(super) chance: f64,
    pub(super) ledger: Ledger,
    pub(super) begun: Instant,
    /// Names of its leases begin here.
    first_lease: u64,
    /// Nonces reported as solutions.
    found: HashSet<u64>,
}

/// The work of the moment, and earlier ones, whose reports may still come.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) current: Option<Round>,
    past: VecDeque<Round>,
}

impl Round {
    /// `witness` is the difficulty of witnesses, where devices are asked for them.
    pub(super) fn new(work: Work, witness: Option<u64>, first_lease: u64, now: Instant) -> Self {
        let target =
            witness.map_or(work.target, |difficulty| evidence::asked_for(work.target, difficulty));
        let asked = Work { target, pause_on_solution: false, ..work.clone() };
        Self {
            ledger: Ledger::new(work.nonces.clone()),
            work: Arc::new(work),
            asked: Arc::new(asked),
            chance: evidence::chance(target),
            begun: now,
            first_lease,
            found: HashSet::new(),
        }
    }

    /// `true` for a nonce not reported before.
    pub(super) fn is_news(&mut self, nonce: u64) -> bool {
        self.found.insert(nonce)
    }

    /// A false report of this nonce; a true one may follow.
    pub(super) fn forget(&mut self, nonce: u64) {
        self.found.remove(&nonce);
    }
}

impl Rounds {
    /// The round of a lease, and `true` for the current one. `None` when long
    /// ago, or there never was one.
    pub(super) fn of_lease(&mut self, lease: u64) -> Option<(&mut Round, bool)> {
        if let Some(round) = &mut self.current
            && round.first_lease <= lease
        {
            return Some((round, true));
        }
        let past = self.past.iter_mut().rev().find(|round| round.first_lease <= lease);
        past.map(|round| (round, false))
    }

    /// The round of a work.
    pub(super) fn of_work(&mut self, work: &Arc<Work>) -> Option<&mut Round> {
        let mut rounds = self.current.iter_mut().chain(&mut self.past);
        rounds.find(|round| Arc::ptr_eq(&round.work, work))
    }

    /// Ends the current round.
    pub(super) fn end(&mut self) -> Option<&Round> {
        let round = self.current.take()?;
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(round);
        self.past.back()
    }
}

/// Works remembered: a pool's grace is seconds, and so is a hash.
const PAST_MAX: usize = 16;
