//! The account of a work's nonces: dealt to whom, and tried or not.
//!
//! Every nonce is at any moment in exactly one place: never dealt, come back untried, in a lease
//! and not yet told to be done, or done. So none is dealt twice at a time, and none is
//! forgotten. Knows no threads and no time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The account of one work's nonces.
#[derive(Debug)]
pub(crate) struct Ledger {
    nonces: Range<u64>,
    /// The first nonce never dealt.
    fresh: u64,
    /// Dealt before, and come back.
    returned: Spans,
    leases: BTreeMap<u64, Held>,
    /// Believed nonces, by backend.
    done: BTreeMap<usize, Spans>,
}

/// An open lease.
#[derive(Debug)]
struct Held {
    backend: usize,
    open: Spans,
    /// Open nonces with a reported tag.
    reported: BTreeSet<u64>,
}

/// Result of a report of tried nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// `true` when the lease is done now.
    pub(crate) complete: bool,
    /// Number of those nonces with a reported tag.
    pub(crate) reported: u64,
}

/// An impossible report of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The nonces are not in the lease, or were told before, or the lease is another's.
    NotItsOwn,
    /// The reports left the lease in more pieces than anybody would.
    Scattered,
}

impl Ledger {
    /// Nothing dealt.
    pub(crate) fn new(nonces: Range<u64>) -> Self {
        Self {
            fresh: nonces.start,
            nonces,
            returned: Spans::default(),
            leases: BTreeMap::new(),
            done: BTreeMap::new(),
        }
    }

    /// Deals at most `count` nonces to a backend, in one piece, under a fresh name of the caller's:
    /// returned nonces first. `None` when all are dealt.
    pub(crate) fn deal(&mut self, lease: u64, backend: usize, count: u64) -> Option<Range<u64>> {
        let count = count.max(1);
        let nonces = match self.returned.first() {
            Some(span) => {
                let nonces = span.start..span.end.min(span.start.saturating_add(count));
                self.returned.remove(&nonces);
                nonces
            }
            None if self.fresh < self.nonces.end => {
                let end = self.nonces.end.min(self.fresh.saturating_add(count));
                let nonces = self.fresh..end;
                self.fresh = end;
                nonces
            }
            None => return None,
        };
        let held = Held { backend, open: Spans::of(nonces.clone()), reported: BTreeSet::new() };
        let before = self.leases.insert(lease, held);
        assert!(before.is_none(), "leases have names of their own");
        Some(nonces)
    }

    /// Takes note of tried nonces of a lease.
    pub(crate) fn done(
        &mut self,
        lease: u64,
        backend: usize,
        nonces: &Range<u64>,
    ) -> Result<Done, Foreign> {
        let held = self.leases.get_mut(&lease).ok_or(Foreign::NotItsOwn)?;
        if held.backend != backend || nonces.is_empty() || !held.open.remove(nonces) {
            return Err(Foreign::NotItsOwn);
        }
        let mut reported = 0;
        while let Some(nonce) = held.reported.range(nonces.clone()).next().copied() {
            held.reported.remove(&nonce);
            reported += 1;
        }
        let complete = held.open.is_empty();
        let scattered = held.open.count() > PIECES_MAX;
        if complete {
            self.leases.remove(&lease);
        }
        self.done.entry(backend).or_default().add(nonces);
        if scattered {
            return Err(Foreign::Scattered);
        }
        Ok(Done { complete, reported })
    }

    /// Takes note of a reported tag, of a nonce held and not done yet. `false` for a tag reported
    /// before.
    pub(crate) fn tag(&mut self, lease: u64, backend: usize, nonce: u64) -> Result<bool, Foreign> {
        let held = self.leases.get_mut(&lease).ok_or(Foreign::NotItsOwn)?;
        if held.backend != backend || !held.open.contains(nonce) {
            return Err(Foreign::NotItsOwn);
        }
        if held.reported.len() == TAGS_MAX {
            return Err(Foreign::Scattered);
        }
        Ok(held.reported.insert(nonce))
    }

    /// Takes back a lease not accepted by its backend, or the rest of the lease.
    pub(crate) fn give_back(&mut self, lease: u64) {
        if let Some(held) = self.leases.remove(&lease) {
            self.returned.append(held.open);
        }
    }

    /// Takes back a backend's untried nonces. With `disbelieve`, its reported ones, too.
    pub(crate) fn evict(&mut self, backend: usize, disbelieve: bool) {
        let leases: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, held)| held.backend == backend)
            .map(|(lease, _)| *lease)
            .collect();
        for lease in leases {
            self.give_back(lease);
        }
        if disbelieve && let Some(done) = self.done.remove(&backend) {
            self.returned.append(done);
        }
    }

    /// Nonces neither held nor tried.
    pub(crate) fn waiting(&self) -> u64 {
        self.nonces.end - self.fresh + self.returned.total()
    }

    /// Nonces tried.
    pub(crate) fn tried(&self) -> u64 {
        self.done.values().map(Spans::total).sum()
    }

    /// Nonces in all.
    pub(crate) const fn total(&self) -> u64 {
        self.nonces.end - self.nonces.start
    }

    /// `true` when every nonce was tried.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.leases.is_empty() && self.waiting() == 0
    }

    /// Checks: every nonce is in exactly one place.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut all = Spans::default();
        let parts = std::iter::once(&self.returned)
            .chain(self.leases.values().map(|held| &held.open))
            .chain(self.done.values());
        for span in parts.flat_map(Spans::iter) {
            assert!(!all.touches(&span), "in two places: {span:?}");
            all.add(&span);
        }
        assert_eq!(all.total(), self.fresh - self.nonces.start);
        assert!(all.iter().all(|span| self.nonces.start <= span.start && span.end <= self.fresh));
    }
}

/// A set of nonces, as ranges without overlap or contact.
#[derive(Debug, Default)]
struct Spans {
    /// End by start.
    ends: BTreeMap<u64, u64>,
    total: u64,
}

impl Spans {
    fn of(nonces: Range<u64>) -> Self {
        let mut spans = Self::default();
        spans.add(&nonces);
        spans
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    const fn total(&self) -> u64 {
        self.total
    }

    fn first(&self) -> Option<Range<u64>> {
        self.ends.first_key_value().map(|(start, end)| *start..*end)
    }

    fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The nearest span beginning at or before this nonce.
    fn before(&self, nonce: u64) -> Option<Range<u64>> {
        self.ends.range(..=nonce).next_back().map(|(start, end)| *start..*end)
    }

    fn contains(&self, nonce: u64) -> bool {
        self.before(nonce).is_some_and(|span| span.contains(&nonce))
    }

    #[cfg(test)]
    fn touches(&self, nonces: &Range<u64>) -> bool {
        nonces.end > 0 && self.before(nonces.end - 1).is_some_and(|span| span.end > nonces.start)
    }

    /// Adds nonces, none of which is in the set.
    fn add(&mut self, nonces: &Range<u64>) {
        if nonces.is_empty() {
            return;
        }
        self.total += nonces.end - nonces.start;
        let (mut start, mut end) = (nonces.start, nonces.end);
        if let Some(before) = self.before(start)
            && before.end == start
        {
            start = before.start;
        }
        if let Some(after) = self.ends.remove(&end) {
            end = after;
        }
        self.ends.insert(start, end);
    }

    fn append(&mut self, other: Self) {
        for span in other.iter() {
            self.add(&span);
        }
    }

    /// Removes nonces if all are in the set, and says whether they were.
    fn remove(&mut self, nonces: &Range<u64>) -> bool {
        let Some(span) = self.before(nonces.start).filter(|span| span.end >= nonces.end) else {
            return false;
        };
        self.ends.remove(&span.start);
        if span.start < nonces.start {
            self.ends.insert(span.start, nonces.start);
        }
        if nonces.end < span.end {
            self.ends.insert(nonces.end, span.end);
        }
        self.total -= nonces.end - nonces.start;
        true
    }
}

/// Most pieces of a lease. A processor's workers leave about one each; a backend with more
/// makes the ledger grow.
const PIECES_MAX: usize = 1 << 16;

/// Most tags of a lease reported before any of their nonces is told to be done.
const TAGS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn nonces_are_dealt_in_order_and_come_back_first() {
        let mut ledger = Ledger::new(10..30);
        assert_eq!(ledger.deal(1, 0, 8), Some(10..18));
        assert_eq!(ledger.deal(2, 1, 8), Some(18..26));
        assert_eq!(ledger.done(1, 0, &(12..14)), Ok(Done { complete: false, reported: 0 }));
        assert_eq!(ledger.tried(), 2);
        ledger.evict(0, false);
        assert_eq!(ledger.waiting(), 10);
        assert_eq!(ledger.deal(3, 1, 100), Some(10..12));
        assert_eq!(ledger.deal(4, 1, 3), Some(14..17));
        assert_eq!(ledger.deal(5, 1, 3), Some(17..18));
        assert_eq!(ledger.deal(6, 1, 100), Some(26..30));
        assert_eq!(ledger.deal(7, 1, 100), None);
        ledger.check();
    }

    #[test]
    fn what_a_backend_was_not_given_is_refused() {
        let mut ledger = Ledger::new(0..20);
        ledger.deal(1, 0, 10);
        ledger.deal(2, 1, 10);
        let own = Err(Foreign::NotItsOwn);
        assert_eq!(ledger.done(1, 1, &(0..2)), own, "another's lease");
        assert_eq!(ledger.done(1, 0, &(8..12)), own, "beyond its end");
        assert_eq!(ledger.done(9, 0, &(0..2)), own, "no such lease");
        assert_eq!(ledger.done(1, 0, &(4..4)), own, "nothing");
        assert_eq!(ledger.done(1, 0, &(4..6)), Ok(Done { complete: false, reported: 0 }));
        assert_eq!(ledger.done(1, 0, &(5..7)), own, "told before");
        assert_eq!(ledger.tag(1, 0, 6), Ok(true));
        assert_eq!(ledger.tag(1, 0, 6), Ok(false), "the same again");
        assert_eq!(ledger.tag(1, 0, 5), Err(Foreign::NotItsOwn), "told to be done");
        assert_eq!(ledger.tag(1, 1, 7), Err(Foreign::NotItsOwn), "another's lease");
        ledger.check();
    }

    #[test]
    fn tags_are_counted_with_the_nonces_they_are_of() {
        let mut ledger = Ledger::new(0..20);
        ledger.deal(1, 0, 20);
        for nonce in [3, 4, 9, 19] {
            assert_eq!(ledger.tag(1, 0, nonce), Ok(true));
        }
        assert_eq!(ledger.done(1, 0, &(4..10)), Ok(Done { complete: false, reported: 2 }));
        assert_eq!(ledger.done(1, 0, &(10..20)), Ok(Done { complete: false, reported: 1 }));
        assert_eq!(ledger.done(1, 0, &(0..4)), Ok(Done { complete: true, reported: 1 }));
        assert_eq!(ledger.tag(1, 0, 3), Err(Foreign::NotItsOwn));
    }

    #[test]
    fn a_liar_s_work_is_done_again() {
        let mut ledger = Ledger::new(0..10);
        ledger.deal(1, 0, 6);
        ledger.done(1, 0, &(0..6)).unwrap();
        ledger.deal(2, 1, 4);
        ledger.done(2, 1, &(6..10)).unwrap();
        assert!(ledger.is_exhausted());
        ledger.evict(0, true);
        assert!(!ledger.is_exhausted());
        assert_eq!((ledger.tried(), ledger.waiting()), (4, 6));
        assert_eq!(ledger.deal(3, 1, 100), Some(0..6));
    }

    #[test]
    fn the_last_nonces_there_are() {
        let mut ledger = Ledger::new(u64::MAX - 3..u64::MAX);
        assert_eq!(ledger.deal(1, 0, u64::MAX), Some(u64::MAX - 3..u64::MAX));
        let all = Done { complete: true, reported: 0 };
        assert_eq!(ledger.done(1, 0, &(u64::MAX - 3..u64::MAX)), Ok(all));
        assert!(ledger.is_exhausted());
    }

    #[test]
    fn a_lease_in_too_many_pieces_is_refused() {
        let mut ledger = Ledger::new(0..1 << 20);
        ledger.deal(1, 0, 1 << 20);
        let refused = (0..1 << 19).find_map(|at| {
            let nonce = at * 2 + 1;
            ledger.done(1, 0, &(nonce..nonce + 1)).err()
        });
        assert_eq!(refused, Some(Foreign::Scattered));
    }

    proptest! {
        /// Whatever happens, every nonce is in one place; and with an honest backend at the end,
        /// all are tried.
        #[test]
        fn nothing_is_lost_and_nothing_is_doubled(
            steps in prop::collection::vec((0u8..5, 0usize..3, 0u64..40, 1u64..20), 1..200),
        ) {
            let mut ledger = Ledger::new(1000..1300);
            let mut leases: Vec<(u64, usize, Range<u64>)> = Vec::new();
            for (number, (kind, backend, at, count)) in steps.into_iter().enumerate() {
                let name = number as u64;
                match kind {
                    0 | 1 => {
                        if let Some(nonces) = ledger.deal(name, backend, count) {
                            leases.push((name, backend, nonces));
                        }
                    }
                    2 if !leases.is_empty() => {
                        let (lease, backend, nonces) = &leases[at as usize % leases.len()];
                        let start = nonces.start + at % (nonces.end - nonces.start);
                        let _ = ledger.done(*lease, *backend, &(start..start + count));
                    }
                    3 => ledger.evict(backend, false),
                    4 => ledger.evict(backend, count % 3 == 0),
                    _ => {}
                }
                ledger.check();
            }
            for backend in 0..3 {
                ledger.evict(backend, false);
            }
            let mut name = 1 << 32;
            while let Some(nonces) = ledger.deal(name, 9, 7) {
                prop_assert!(ledger.done(name, 9, &nonces).is_ok_and(|done| done.complete));
                name += 1;
            }
            ledger.check();
            prop_assert!(ledger.is_exhausted());
            prop_assert_eq!(ledger.tried(), 300);
        }
    }
}
