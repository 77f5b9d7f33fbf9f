//! The log of a server, for readers and for those who wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Events in the order they happened.
pub(crate) struct Log<E> {
    events: Mutex<Vec<E>>,
    grew: Condvar,
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Self { events: Mutex::default(), grew: Condvar::new() }
    }
}

impl<E: Clone> Log<E> {
    pub(crate) fn note(&self, event: E) {
        lock(&self.events).push(event);
        self.grew.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<E> {
        lock(&self.events).clone()
    }

    /// How many of the events so far are so.
    pub(crate) fn count(&self, which: impl Fn(&E) -> bool) -> usize {
        lock(&self.events).iter().filter(|event| which(event)).count()
    }

    /// Waits until the events are so; `false` after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration, mut so: impl FnMut(&[E]) -> bool) -> bool {
        let events = lock(&self.events);
        let waited = self.grew.wait_timeout_while(events, timeout, |events| !so(events));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// State left by a thread that panicked is as good as any: tests look, nothing is built on it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
