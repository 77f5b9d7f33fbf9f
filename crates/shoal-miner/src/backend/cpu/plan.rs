//! Plan of workers, hashes side by side and cores, to fit processors and memory.

use serde::Serialize;

use super::CpuOptions;
use crate::memory::Budget;
use crate::topology::Topology;

/// The plan of a processor backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuPlan {
    /// Workers.
    pub threads: usize,
    /// Hashes each computes at a time.
    pub side_by_side: usize,
    /// The processor of each worker.
    pub cores: Vec<Option<usize>>,
    /// Memory of one hash.
    pub memory_kib: u32,
    /// Memory of all.
    pub total_kib: u64,
    /// The kernel.
    pub isa: &'static str,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not even one hash fits.
    #[error("a hash takes {needed_kib} KiB and there are: {has_kib}")]
    NoMemory {
        /// Memory of one hash.
        needed_kib: u64,
        /// Memory of the budget.
        has_kib: u64,
    },
    /// The request does not fit.
    #[error("{hashes} hashes at a time take more memory than there is, which suffices for: {fit}")]
    OverBudget {
        /// Hashes at a time, as asked for.
        hashes: u64,
        /// Hashes at a time the memory suffices for.
        fit: u64,
    },
    /// More hashes side by side than any kernel computes.
    #[error("hashes side by side, from 1 to {SIDE_BY_SIDE_MAX}: {0}")]
    SideBySide(usize),
    /// No worker, or more than any machine has use for.
    #[error("threads, from 1 to {THREADS_MAX}: {0}")]
    Threads(usize),
    /// The memory of a hash is out of bounds.
    #[error(transparent)]
    Memory(#[from] shoal_pow::Error),
}

/// Plans for the machine, or for the budget of the options.
pub(super) fn of_machine(options: &CpuOptions) -> Result<CpuPlan, PlanError> {
    let budget = options.budget_kib.map_or_else(Budget::of_machine, Budget::of_kib);
    plan(options, &Topology::of_machine(), &budget)
}

/// Plans for these processors and this memory.
///
/// Every worker gets a hash before any gets a second one: a hash beside another gains less than a
/// processor of its own.
///
/// # Errors
/// [`PlanError`] for too little memory and numbers out of bounds.
pub fn plan(
    options: &CpuOptions,
    topology: &Topology,
    budget: &Budget,
) -> Result<CpuPlan, PlanError> {
    let CpuOptions { memory_kib, threads, side_by_side, affinity, oversubscribe, .. } = *options;
    // Refuses impossible memory sizes, with the reason.
    shoal_pow::Challenge::new(&[0; 8], memory_kib, shoal_pow::Target::from_difficulty(0))?;
    if let Some(wrong) = threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
        return Err(PlanError::Threads(wrong));
    }
    if let Some(wrong) = side_by_side.filter(|count| !(1..=SIDE_BY_SIDE_MAX).contains(count)) {
        return Err(PlanError::SideBySide(wrong));
    }
    let fit = if oversubscribe { u64::MAX } else { budget.hashes(memory_kib) };
    if fit == 0 {
        let (needed_kib, has_kib) = (u64::from(memory_kib), budget.usable_kib());
        return Err(PlanError::NoMemory { needed_kib, has_kib });
    }
    let fit_or_max = usize::try_from(fit).unwrap_or(usize::MAX);
    let threads = threads.unwrap_or_else(|| {
        let room = fit_or_max / side_by_side.unwrap_or(1);
        topology.worker_max(affinity).min(room).clamp(1, THREADS_MAX)
    });
    let side_by_side =
        side_by_side.unwrap_or_else(|| (fit_or_max / threads).clamp(1, SIDE_BY_SIDE_MAX));
    let hashes = threads as u64 * side_by_side as u64;
    if hashes > fit {
        return Err(PlanError::OverBudget { hashes, fit });
    }
    Ok(CpuPlan {
        threads,
        side_by_side,
        cores: topology.places(affinity, threads),
        memory_kib,
        total_kib: hashes * u64::from(memory_kib),
        isa: options.isa.unwrap_or_else(shoal_pow::Isa::detect).name(),
    })
}

/// The rate of a kernel with so many hashes side by side, one hash at a time being 1, as measured
/// on one machine with 2 GiB a hash (`docs/argon2.md`); in between, by the line from the next
/// lower to the next higher. `None` for kernels never measured.
fn gain(kernel: &str, side_by_side: usize) -> Option<f64> {
    let points: &[(usize, f64)] = match kernel {
        "avx512" => &[(1, 1.0), (2, 1.59), (4, 2.04), (6, 2.22)],
        "avx2" => &[(1, 1.0), (2, 1.04), (4, 0.96)],
        _ => return None,
    };
    let next = points.iter().position(|(count, _)| *count >= side_by_side)?;
    let (count, gain) = points[next];
    if count == side_by_side {
        return Some(gain);
    }
    let (before, gain_before) = points[next.checked_sub(1)?];
    let part = (side_by_side - before) as f64 / (count - before) as f64;
    Some(gain_before + (gain - gain_before) * part)
}

/// Price of halving the memory, in percent of the rate, where measured.
pub(crate) fn half_costs(kernel: &str, side_by_side: usize) -> Option<f64> {
    if side_by_side == 1 {
        return Some(50.0);
    }
    let (all, half) = (gain(kernel, side_by_side)?, gain(kernel, side_by_side / 2)?);
    Some(((1.0 - half / all) * 100.0).max(0.0))
}

/// Price of halving the memory in words: `half of it, with 3 hashes side by side,
/// would cost about 18 % of the rate`.
pub(crate) fn half_in_words(kernel: &str, side_by_side: usize) -> String {
    let half = side_by_side / 2;
    if half == 0 {
        return "half of it, with half of the threads, would cost half of the rate".to_owned();
    }
    let plural = if half == 1 { "hash at a time" } else { "hashes side by side" };
    let start = format!("half of it, with {half} {plural},");
    match half_costs(kernel, side_by_side) {
        Some(percent) if percent > 0.0 => {
            format!("{start} would cost about {percent:.0} % of the rate")
        }
        Some(_) => format!("{start} would cost nothing that was ever measured"),
        None => format!("{start} costs what --bench says"),
    }
}

/// Beyond six, hashes side by side gain nothing more (`docs/argon2.md`).
pub const SIDE_BY_SIDE_MAX: usize = 6;

/// Workers of one backend.
const THREADS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::topology::{Affinity, Processor};

    const GIB: u64 = 1 << 20;

    fn planned(
        processors: usize,
        budget_gib: u64,
        threads: Option<usize>,
        side_by_side: Option<usize>,
    ) -> Result<(usize, usize), PlanError> {
        let processors =
            (0..processors).map(|number| Processor { number, thread: 0, is_fast: true }).collect();
        let topology = Topology { processors, pins: true };
        let options = CpuOptions { threads, side_by_side, ..CpuOptions::default() };
        let plan = plan(&options, &topology, &Budget::of_kib(budget_gib * GIB))?;
        assert_eq!(plan.cores.len(), plan.threads);
        assert_eq!(plan.total_kib, (plan.threads * plan.side_by_side) as u64 * 2 * GIB);
        Ok((plan.threads, plan.side_by_side))
    }

    #[test]
    fn processors_first_then_hashes_side_by_side() {
        assert_eq!(planned(2, 64, None, None), Ok((2, 6)));
        assert_eq!(planned(2, 20, None, None), Ok((2, 5)));
        assert_eq!(planned(8, 20, None, None), Ok((8, 1)));
        assert_eq!(planned(16, 20, None, None), Ok((10, 1)));
        assert_eq!(planned(16, 20, None, Some(4)), Ok((2, 4)));
        assert_eq!(planned(16, 20, Some(3), None), Ok((3, 3)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (needed_kib, has_kib) = (2 * GIB, GIB);
        assert_eq!(planned(2, 1, None, None), Err(PlanError::NoMemory { needed_kib, has_kib }));
        let over = PlanError::OverBudget { hashes: 12, fit: 10 };
        assert_eq!(planned(2, 20, Some(2), Some(6)), Err(over));
        assert_eq!(planned(2, 20, Some(0), None), Err(PlanError::Threads(0)));
        assert_eq!(planned(2, 20, None, Some(7)), Err(PlanError::SideBySide(7)));
        let options = CpuOptions { memory_kib: 7, ..CpuOptions::default() };
        assert!(matches!(of_machine(&options), Err(PlanError::Memory(_))));
    }

    #[test]
    fn half_of_the_memory_has_its_price() {
        for (kernel, side_by_side, expect) in [
            ("avx512", 6, "with 3 hashes side by side, would cost about 18 % of the rate"),
            ("avx512", 4, "with 2 hashes side by side, would cost about 22 % of the rate"),
            ("avx512", 2, "with 1 hash at a time, would cost about 37 % of the rate"),
            ("avx512", 1, "with half of the threads, would cost half of the rate"),
            ("avx2", 4, "with 2 hashes side by side, would cost nothing that was ever measured"),
            ("avx2", 6, "with 3 hashes side by side, costs what --bench says"),
            ("neon", 6, "with 3 hashes side by side, costs what --bench says"),
        ] {
            let words = half_in_words(kernel, side_by_side);
            assert_eq!(words, format!("half of it, {expect}"), "{kernel} {side_by_side}");
        }
    }

    #[test]
    fn oversubscribed_is_what_was_asked_for() {
        let options = CpuOptions {
            threads: Some(3),
            side_by_side: Some(2),
            budget_kib: Some(1),
            oversubscribe: true,
            affinity: Affinity::Off,
            ..CpuOptions::default()
        };
        let plan = of_machine(&options).unwrap();
        assert_eq!((plan.threads, plan.side_by_side, plan.cores), (3, 2, vec![None; 3]));
    }
}
