//! Medians, and intervals by resampling: no assumption on how times are distributed.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// An estimate with the interval holding 95 % of the resampled estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate from all samples.
    pub middle: f64,
    /// The 2.5 % quantile of the resampled estimates.
    pub low: f64,
    /// The 97.5 % quantile.
    pub high: f64,
}

/// The middle of the values, the mean of the two in the middle when they are even. `None` when
/// there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value with a `share` of the values below, interpolated between neighbours.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let (below, part) = (place.floor(), place.fract());
    let (low, high) = (sorted[below as usize], sorted[(below as usize + 1).min(last)]);
    Some(low + (high - low) * part)
}

/// How far the middle half lies apart, as a share of the median. `None` with fewer than 3 values.
pub fn spread(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    Some((quantile(values, 0.75)? - quantile(values, 0.25)?) / median(values)?)
}

/// median(`over`) / median(`under`) with its interval. Samples with the same index were taken in
/// the same round and are drawn together, so a slow round cancels out.
pub fn ratio(over: &[f64], under: &[f64], seed: u64) -> Option<Interval> {
    let rounds = over.len().min(under.len());
    let (over, under) = (&over[..rounds], &under[..rounds]);
    let middle = median(over)? / median(under)?;
    let mut random = Random::new(seed);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    let (mut drawn_over, mut drawn_under) = (vec![0.0; rounds], vec![0.0; rounds]);
    for _ in 0..RESAMPLES {
        for slot in 0..rounds {
            let round = random.below(rounds as u64) as usize;
            drawn_over[slot] = over[round];
            drawn_under[slot] = under[round];
        }
        ratios.push(median(&drawn_over)? / median(&drawn_under)?);
    }
    ratios.sort_by(f64::total_cmp);
    Some(Interval {
        middle,
        low: quantile_of_sorted(&ratios, 0.025)?,
        high: quantile_of_sorted(&ratios, 0.975)?,
    })
}

/// The smallest change, as a share, to be shown four times in five at 95 % confidence by paired
/// rounds with these ratios. `None` with fewer than 3 pairs.
pub fn detectable(ratios: &[f64]) -> Option<f64> {
    if ratios.len() < 3 {
        return None;
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // 1.96 + 0.84 standard errors: the two quantiles of the normal distribution.
    Some((2.8 * (variance / count).sqrt()).exp() - 1.0)
}

const RESAMPLES: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn equal_samples_have_no_spread_and_an_exact_ratio() {
        let ratio = ratio(&[4.0; 6], &[2.0; 6], 1).unwrap();
        assert_eq!((ratio.low, ratio.middle, ratio.high), (2.0, 2.0, 2.0));
        assert_eq!(spread(&[5.0; 4]), Some(0.0));
        assert_eq!(detectable(&[1.0; 5]), Some(0.0));
    }

    #[test]
    fn a_slow_round_that_hits_both_cancels_out() {
        let over = [2.0, 2.0, 20.0, 2.0, 2.0, 20.0];
        let under = [1.0, 1.0, 10.0, 1.0, 1.0, 10.0];
        let ratio = ratio(&over, &under, 1).unwrap();
        assert!(ratio.low >= 1.9 && ratio.high <= 2.1, "{ratio:?}");
    }

    #[test]
    fn noisy_pairs_detect_less() {
        let calm = detectable(&[1.0, 1.01, 0.99, 1.0]).unwrap();
        let noisy = detectable(&[1.0, 1.5, 0.7, 1.0]).unwrap();
        assert!(calm < 0.03 && noisy > 0.3, "{calm} {noisy}");
    }
}
