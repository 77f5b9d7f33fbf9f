//! Evidence of nonces left out by a backend.
//!
//! A false solution is found out by another computation. One left out is not: a
//! device trying nothing looks like one without luck. So a device is asked for more than
//! solutions: for every tag below a target easier than the work's ([`asked_for`]), one in
//! four, say. Each such tag is a *witness*, known only to who hashes the nonce. Too few
//! of them for the nonces told to be done, and nonces were left out; false ones are found out by
//! computing some of them again.
//!
//! How many are too few is decided by a cumulative sum (Page 1954): of each nonce, how much
//! likelier the report is for somebody who tries only a part of his nonces than for somebody who
//! tries all, as a logarithm, never below 0. Somebody honest gets to [`CERTAIN`] once in e^CERTAIN
//! nonces on average or more seldom (Lorden 1971), and that is 2^64: more than there are.

use shoal_pow::Target;

/// Evidence against a backend.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// For each of [`SUSPECTED`].
    scores: [f64; SUSPECTED.len()],
    /// Nonces told to be done since nothing spoke against it, and witnesses among them.
    nonces: u64,
    witnesses: u64,
}

/// Nonces were told to be done and not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Omission {
    /// Nonces told to be done since nothing spoke against it.
    pub(super) nonces: u64,
    /// Witnesses among them.
    pub(super) witnesses: u64,
    /// As many would have been usual.
    pub(super) expected: u64,
}

impl Evidence {
    /// Takes note of done nonces, so many of them with a witness, where `chance` of all
    /// tags are one. Returns an omission, once certain.
    pub(super) fn add(&mut self, nonces: u64, witnesses: u64, chance: f64) -> Option<Omission> {
        // Where every tag is a witness, a missing one is proof enough; infinities are none.
        let chance = chance.clamp(1e-18, 1.0 - 1e-6);
        let without = nonces.saturating_sub(witnesses) as f64;
        for (score, tries) in self.scores.iter_mut().zip(SUSPECTED) {
            let with_one = tries.ln();
            let without_one = ((1.0 - tries * chance) / (1.0 - chance)).ln();
            *score = (*score + witnesses as f64 * with_one + without * without_one).max(0.0);
        }
        if self.scores == [0.0; SUSPECTED.len()] {
            (self.nonces, self.witnesses) = (0, 0);
            return None;
        }
        self.nonces = self.nonces.saturating_add(nonces);
        self.witnesses = self.witnesses.saturating_add(witnesses);
        self.scores.iter().any(|score| *score >= CERTAIN).then(|| Omission {
            nonces: self.nonces,
            witnesses: self.witnesses,
            // Saturates.
            expected: (self.nonces as f64 * chance).round() as u64,
        })
    }
}

/// The target for a device, given the work's target and one tag in
/// `difficulty` as a witness: the easier of both.
pub(super) fn asked_for(target: Target, difficulty: u64) -> Target {
    let witness = Target::from_difficulty(difficulty.max(1));
    if target.to_bytes() < witness.to_bytes() { witness } else { target }
}

/// The share of all tags below a target.
pub(super) fn chance(target: Target) -> f64 {
    let bytes = target.to_bytes();
    let mut head = [0; 8];
    head.copy_from_slice(&bytes[..8]);
    (u64::from_be_bytes(head) as f64 + 1.0) / 2f64.powi(64)
}

/// Shares of nonces tried by two suspects. Who tries less than 0.72 is found out by
/// the first, who tries less than 0.93 by the second.
const SUSPECTED: [f64; 2] = [0.5, 0.875];

/// 64 times the logarithm of 2.
const CERTAIN: f64 = 44.361_419_555_836_5;

#[cfg(test)]
mod tests {
    use super::*;

    /// A repeatable stream.
    struct Random(u64);

    impl Random {
        fn chance(&mut self, share: f64) -> bool {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ (bits >> 31)) >> 11) as f64 / 2f64.powi(53) < share
        }
    }

    /// Nonces until somebody who tries this share of his nonces is found out.
    fn found_out_after(tries: f64, chance: f64, seed: u64, most: u64) -> Option<u64> {
        let (mut evidence, mut random) = (Evidence::default(), Random(seed));
        (1..=most).find(|_| {
            let witness = random.chance(tries) && random.chance(chance);
            evidence.add(1, u64::from(witness), chance).is_some()
        })
    }

    #[test]
    fn who_tries_nothing_is_found_out_after_288_nonces() {
        assert_eq!(found_out_after(0.0, 0.25, 1, 1000), Some(288));
        // At once or in pieces, the sum is the same.
        let mut evidence = Evidence::default();
        assert_eq!(evidence.add(287, 0, 0.25), None);
        let omission = Omission { nonces: 288, witnesses: 0, expected: 72 };
        assert_eq!(evidence.add(1, 0, 0.25), Some(omission));
        assert!(Evidence::default().add(u64::MAX, 0, 0.25).is_some());
        // Where every tag meets the target, there is nothing to wait for.
        assert!(found_out_after(0.0, 1.0, 1, 10).is_some());
    }

    #[test]
    fn who_tries_a_part_is_found_out_later() {
        for (tries, most) in [(0.25, 1500), (0.5, 4000), (0.75, 30_000), (0.9, 200_000)] {
            for seed in 0..20 {
                let after = found_out_after(tries, 0.25, seed << 32, most);
                assert!(after.is_some(), "{tries}, seed {seed}");
            }
        }
    }

    #[test]
    fn who_tries_all_is_never_found_out() {
        for (chance, seed) in [(1.0, 1), (0.5, 2), (0.25, 3), (0.01, 4), (1e-9, 5)] {
            assert_eq!(found_out_after(1.0, chance, seed << 32, 1_000_000), None, "{chance}");
        }
        // Hours of honesty buy nothing.
        let mut evidence = Evidence::default();
        assert_eq!(evidence.add(1 << 40, 1 << 38, 0.25), None);
        assert!(evidence.add(288, 0, 0.25).is_some());
    }

    #[test]
    fn the_easier_target_is_asked_for() {
        let target = Target::from_difficulty;
        assert_eq!(asked_for(target(1_000_000), 4), target(4));
        assert_eq!(asked_for(target(2), 4), target(2));
        assert_eq!(asked_for(target(0), 0), target(1));
        assert!((chance(target(4)) - 0.25).abs() < 1e-12);
        assert!((chance(target(1)) - 1.0).abs() < 1e-12);
        assert!(chance(target(u64::MAX)) < 1e-18);
    }
}
