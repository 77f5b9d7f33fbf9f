//! Arenas waiting for the next hash, for the whole process.
//!
//! A first hash in fresh memory waits for the system to clear every page, which takes about as
//! long as filling it. Hashes that bring no arena of their own therefore leave theirs here, wiped,
//! and offered to the system (`MADV_FREE`): it may take the pages back whenever it runs short, and
//! until then the next hash finds them warm.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arena::{Arena, Refused};

/// Most memory kept here unless [`keep_at_most_kib`] says otherwise: 512 MiB.
pub const KEPT_KIB: u32 = 512 * 1024;

static POOL: Mutex<Pool> = Mutex::new(Pool { waiting: Vec::new(), kept_kib_max: KEPT_KIB });

struct Pool {
    /// Newest last.
    waiting: Vec<Arena>,
    kept_kib_max: u32,
}

impl Pool {
    /// Drops the oldest until the rest is within the bound.
    fn trim(&mut self) -> Vec<Arena> {
        let mut kept_kib = 0u64;
        let kept_from = self
            .waiting
            .iter()
            .rposition(|arena| {
                kept_kib += u64::from(arena.block_count());
                kept_kib > u64::from(self.kept_kib_max)
            })
            .map_or(0, |last_dropped| last_dropped + 1);
        self.waiting.drain(..kept_from).collect()
    }
}

/// Sets how much memory may wait for the next hash, in KiB, and gives back the rest.
///
/// For the whole process; 0 keeps nothing.
pub fn keep_at_most_kib(kib: u32) {
    let dropped = {
        let mut pool = pool();
        pool.kept_kib_max = kib;
        pool.trim()
    };
    drop(dropped);
}

/// An arena of at least this many blocks: the smallest that waits, unless it is many times too
/// large, or a new one.
pub(crate) fn take(block_count: u32) -> Result<Arena, Refused> {
    let fits = |arena: &Arena| {
        (block_count..=block_count.saturating_mul(4)).contains(&arena.block_count())
    };
    let waiting = {
        let mut pool = pool();
        let best = pool
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, arena)| fits(arena))
            .min_by_key(|(_, arena)| arena.block_count())
            .map(|(place, _)| place);
        best.map(|place| pool.waiting.remove(place))
    };
    match waiting {
        Some(arena) => Ok(arena),
        None => Arena::from_ordinary_memory(block_count),
    }
}

/// Leaves an arena for the next hash, wiped where secrets are.
pub(crate) fn give(mut arena: Arena) {
    arena.wipe();
    arena.offer();
    let dropped = {
        let mut pool = pool();
        pool.waiting.push(arena);
        pool.trim()
    };
    // Unmapping takes its time, and nobody need wait for it.
    drop(dropped);
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(pool: &Pool) -> Vec<u32> {
        pool.waiting.iter().map(Arena::block_count).collect()
    }

    #[test]
    fn the_oldest_leave_first_and_none_that_fit_the_bound() {
        let waiting = [64, 8, 16, 32].map(|count| Arena::new(count).unwrap()).into();
        let mut pool = Pool { waiting, kept_kib_max: 56 };
        drop(pool.trim());
        assert_eq!(sizes(&pool), [8, 16, 32]);
        pool.kept_kib_max = 33;
        drop(pool.trim());
        assert_eq!(sizes(&pool), [32]);
        pool.kept_kib_max = 0;
        drop(pool.trim());
        assert_eq!(sizes(&pool), []);
    }
}
