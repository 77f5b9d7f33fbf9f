//! Stopping a running statement, from another thread or at a set time.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Error;

/// Looked at by transactions at every page they enter, and by whoever loops without pages.
///
/// A watch says "go on" until stopped or out of time, and then "stop" until restarted. Cost of a
/// look: one load; with a time limit also a look at the clock.
#[derive(Debug)]
pub struct Watch {
    /// Bits of [`STOPPED`], [`TIMED`], [`COUNTED`] and [`TOLD`].
    state: AtomicU8,
    /// The moment the deadline is counted from.
    origin: Instant,
    /// In nanoseconds from the origin.
    deadline: AtomicU64,
    /// In milliseconds, for the error.
    limit_ms: AtomicU64,
    /// Pages entered since counting began.
    pages: AtomicU64,
    /// [`TOLD`] with a progress handler: a restart keeps the bit.
    told: AtomicU8,
    progress: Mutex<Option<Progress>>,
}

/// Who is told of progress.
struct Progress {
    /// Looks between two calls.
    every: u64,
    looks: u64,
    handler: Handler,
}

/// Called every so many looks; true stops the statement.
type Handler = Box<dyn FnMut() -> bool + Send>;

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("every", &self.every).finish_non_exhaustive()
    }
}

const STOPPED: u8 = 1;
const TIMED: u8 = 2;
const COUNTED: u8 = 4;
const TOLD: u8 = 8;

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            state: AtomicU8::new(0),
            origin: Instant::now(),
            deadline: AtomicU64::new(0),
            limit_ms: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            told: AtomicU8::new(0),
            progress: Mutex::default(),
        }
    }
}

impl Watch {
    /// Says "stop" from now on.
    pub fn stop(&self) {
        self.state.fetch_or(STOPPED, Ordering::Relaxed);
    }

    /// Says "go on" again, for as long as `limit` says where there is one.
    #[inline]
    pub fn restart(&self, limit: Option<Duration>) {
        let state = match limit {
            None => 0,
            Some(limit) => {
                let end = self.origin.elapsed().saturating_add(limit);
                let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.deadline.store(nanos(end), Ordering::Relaxed);
                self.limit_ms.store(nanos(limit) / 1_000_000, Ordering::Relaxed);
                TIMED
            }
        };
        let state = state | self.told.load(Ordering::Relaxed);
        if self.state.load(Ordering::Relaxed) != state {
            self.state.store(state, Ordering::Relaxed);
        }
    }

    /// Counts from now on the pages entered by walks, until the watch is restarted. Without
    /// counting there is no cost: counting is one of the states sending a look to the slow path.
    pub fn count_pages(&self) {
        self.pages.store(0, Ordering::Relaxed);
        self.state.fetch_or(COUNTED, Ordering::Relaxed);
    }

    /// Calls a handler every so many looks, from any looking thread, one call at a time; true stops
    /// the statement. A watch without a handler pays nothing.
    pub fn set_progress(&self, progress: Option<(u64, Handler)>) {
        let bit = if progress.is_some() { TOLD } else { 0 };
        let progress =
            progress.map(|(every, handler)| Progress { every: every.max(1), looks: 0, handler });
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        self.told.store(bit, Ordering::Relaxed);
        self.state.fetch_and(!TOLD, Ordering::Relaxed);
        self.state.fetch_or(bit, Ordering::Relaxed);
    }

    /// How many pages were entered since [`Watch::count_pages`].
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// A look at the watch on entering a page: as [`Watch::check`].
    #[inline]
    pub(crate) fn enter_page(&self) -> Result<(), Error> {
        match self.state.load(Ordering::Relaxed) {
            0 => Ok(()),
            state => {
                self.pages.fetch_add(1, Ordering::Relaxed);
                self.check_state(state)
            }
        }
    }

    /// # Errors
    /// [`Error::Interrupted`] once stopped, [`Error::TimedOut`] once the time has passed.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        match self.state.load(Ordering::Relaxed) {
            0 => Ok(()),
            state => self.check_state(state),
        }
    }

    #[cold]
    fn check_state(&self, state: u8) -> Result<(), Error> {
        if state & STOPPED != 0 {
            return Err(Error::Interrupted);
        }
        if state & TOLD != 0 && self.is_told_to_stop() {
            self.stop();
            return Err(Error::Interrupted);
        }
        if state & TIMED != 0
            && self.origin.elapsed().as_nanos() >= u128::from(self.deadline.load(Ordering::Relaxed))
        {
            return Err(Error::TimedOut { limit_ms: self.limit_ms.load(Ordering::Relaxed) });
        }
        Ok(())
    }

    /// Counts a look; true after a call of the handler with the answer to stop.
    fn is_told_to_stop(&self) -> bool {
        // Looks of other threads during a call are not counted.
        let Ok(mut progress) = self.progress.try_lock() else { return false };
        let Some(progress) = &mut *progress else { return false };
        progress.looks += 1;
        if progress.looks < progress.every {
            return false;
        }
        progress.looks = 0;
        (progress.handler)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_and_goes_on() {
        let watch = Watch::default();
        assert!(watch.check().is_ok());
        watch.stop();
        assert!(matches!(watch.check(), Err(Error::Interrupted)));
        watch.restart(Some(Duration::from_secs(3600)));
        assert!(watch.check().is_ok());
        watch.restart(Some(Duration::ZERO));
        assert!(matches!(watch.check(), Err(Error::TimedOut { limit_ms: 0 })));
        watch.restart(None);
        assert!(watch.check().is_ok());
    }

    #[test]
    fn a_handler_is_called_and_stops() {
        let watch = Watch::default();
        let mut calls = 0;
        watch.set_progress(Some((
            3,
            Box::new(move || {
                calls += 1;
                calls == 2
            }),
        )));
        watch.restart(None);
        assert!((0..5).all(|_| watch.check().is_ok()));
        assert!(matches!(watch.enter_page(), Err(Error::Interrupted)));
        assert!(watch.check().is_err());
        watch.restart(None);
        assert!((0..100).all(|_| watch.check().is_ok()));
        watch.set_progress(None);
        assert!(watch.check().is_ok());
    }

    #[test]
    fn counts_pages_when_asked_to() {
        let watch = Watch::default();
        assert!(watch.enter_page().is_ok());
        assert_eq!(watch.pages(), 0);
        watch.count_pages();
        assert!(watch.enter_page().is_ok() && watch.check().is_ok());
        assert_eq!(watch.pages(), 1);
        watch.restart(None);
        assert!(watch.enter_page().is_ok());
        assert_eq!(watch.pages(), 1);
    }
}
