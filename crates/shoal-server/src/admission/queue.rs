//! The queue of stamps, and the threads that verify them at the lowest priority.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use shoal_pow::{Challenge, Options, Search};
use tokio::sync::oneshot;

use super::{EFFORT_MAX, Unpaid};
use crate::Error;

/// A stamp that waits: its effort turned round, then its number, so that the first is the best.
type Rank = (u32, u64);

struct Waiting {
    puzzle: Challenge,
    nonce: u64,
    answer: oneshot::Sender<Result<bool, Unpaid>>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Rank, Waiting>,
    next: u64,
    is_closed: bool,
    /// Since the price was looked at last: stamps turned away, stamps taken in with their efforts.
    turned_away: u64,
    handled: u64,
    effort_sum: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    effort: AtomicU32,
    hashes: AtomicU64,
    hash_us: AtomicU64,
}

/// Stamps on their way to be verified.
pub(super) struct Queue {
    shared: Arc<Shared>,
    longest: usize,
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Takes the memory of each thread at once: later there may be none.
    pub(super) fn start(memory_kib: u32, threads: usize, longest: usize) -> Result<Self, Error> {
        let shared = Arc::new(Shared { effort: AtomicU32::new(1), ..Shared::default() });
        for number in 0..threads {
            let search = Search::new(memory_kib, 1)
                .map_err(|error| Error::Io(std::io::Error::other(error)))?;
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(format!("admission {number}"))
                .spawn(move || work(search, &shared))?;
        }
        Ok(Self { shared, longest })
    }

    /// The multiple of the idle price that is asked for.
    pub(super) fn effort(&self) -> u32 {
        self.shared.effort.load(Ordering::Relaxed)
    }

    /// Hashes, microseconds in them, stamps that wait, the effort asked for.
    pub(super) fn figures(&self) -> (u64, u64, usize, u32) {
        let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let shared = &self.shared;
        let waiting = lock(shared).waiting.len();
        (count(&shared.hashes), count(&shared.hash_us), waiting, self.effort())
    }

    /// An error when a stamp of this effort would find no place now.
    pub(super) fn may_wait(&self, effort: u32) -> Result<(), Unpaid> {
        let mut state = lock(&self.shared);
        let is_full = state.waiting.len() >= self.longest;
        let last = state.waiting.last_key_value().map(|(rank, _)| rank.0);
        if is_full && last.is_none_or(|last| u32::MAX - effort >= last) {
            state.turned_away += 1;
            return Err(Unpaid::Busy(self.effort().saturating_add(1).min(EFFORT_MAX)));
        }
        Ok(())
    }

    /// True when the nonce solves the puzzle. Stamps of greater effort come first; the one of least
    /// goes when there is no room.
    pub(super) async fn verify(
        &self,
        puzzle: Challenge,
        nonce: u64,
        effort: u32,
    ) -> Result<bool, Unpaid> {
        self.may_wait(effort)?;
        let (answer, asked) = oneshot::channel();
        let busy = Unpaid::Busy(self.effort().saturating_add(1).min(EFFORT_MAX));
        {
            let mut state = lock(&self.shared);
            let rank = (u32::MAX - effort, state.next);
            state.next += 1;
            state.handled += 1;
            state.effort_sum += u64::from(effort);
            state.waiting.insert(rank, Waiting { puzzle, nonce, answer });
            while state.waiting.len() > self.longest {
                if let Some((_, last)) = state.waiting.pop_last() {
                    state.turned_away += 1;
                    let _ = last.answer.send(Err(busy));
                }
            }
        }
        self.shared.news.notify_one();
        asked.await.unwrap_or(Err(busy))
    }

    /// The price for the next while: up when stamps were turned away or good ones still wait, down
    /// when few wait.
    pub(super) fn adapt(&self) {
        let mut state = lock(&self.shared);
        let effort = self.effort();
        let best = state.waiting.first_key_value().map_or(0, |(rank, _)| u32::MAX - rank.0);
        let is_long = state.waiting.len() * 2 > self.longest;
        let next = if state.turned_away > 0 || is_long && best >= effort {
            let mean = state.effort_sum / state.handled.max(1);
            let mean = u32::try_from(mean).unwrap_or(EFFORT_MAX);
            mean.max(effort.saturating_add(1)).min(EFFORT_MAX)
        } else if state.waiting.len() * 8 <= self.longest {
            (effort / 3 * 2 + effort % 3 * 2 / 3).max(1)
        } else {
            effort
        };
        self.shared.effort.store(next, Ordering::Relaxed);
        (state.turned_away, state.handled, state.effort_sum) = (0, 0, 0);
    }

    /// Turns everyone away.
    #[cfg(test)]
    pub(super) fn clear(&self) {
        let mut state = lock(&self.shared);
        state.waiting.clear();
        state.turned_away = 0;
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.is_closed = true;
        state.waiting.clear();
        self.shared.news.notify_all();
    }
}

fn work(mut search: Search, shared: &Shared) {
    // Everything else comes first. Elsewhere than on Linux the whole process would give way.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
    loop {
        let mut state = lock(shared);
        let next = loop {
            if state.is_closed {
                return;
            }
            match state.waiting.pop_first() {
                Some((_, next)) => break next,
                None => state = shared.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        // Whoever has hung up meanwhile is not waited for.
        if next.answer.is_closed() {
            continue;
        }
        let start = Instant::now();
        let mut tags = [[0; shoal_pow::TAG_BYTES]];
        let hashed = search.tags(&next.puzzle, next.nonce, &mut tags, &Options::default());
        let is_met = hashed.is_ok() && next.puzzle.target().is_met_by(&tags[0]);
        let elapsed = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.hashes.fetch_add(1, Ordering::Relaxed);
        shared.hash_us.fetch_add(elapsed, Ordering::Relaxed);
        let _ = next.answer.send(Ok(is_met));
    }
}
