//! Threads filling lanes together: one slice at a time, nobody ahead of the others, and a way
//! to stop them between two slices.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::position::SLICES;

/// How a fill is run and watched.
#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    /// Threads at most, the caller's among them; never more than there are lanes.
    pub(crate) threads: NonZeroUsize,
    /// Looked at between slices.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Called on the caller's thread after each slice, with slices done and slices in all.
    pub(crate) progress: Option<&'a dyn Fn(u32, u32)>,
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// The fill was stopped between two slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Runs `work(share, pass, slice)` for every slice of these passes, in order, with `0..members`
/// shared out among the threads the same way each time.
///
/// No slice starts before every share of the one before is done, and what was written for it is
/// seen by all.
pub(crate) fn run(
    control: &Control<'_>,
    members: usize,
    passes: Range<u32>,
    work: &(dyn Fn(Range<usize>, u32, u32) + Sync),
) -> Result<(), Stopped> {
    let threads = control.threads.get().min(members).max(1);
    let share = |thread: usize| members * thread / threads..members * (thread + 1) / threads;
    let slices = || passes.clone().flat_map(|pass| (0..SLICES).map(move |slice| (pass, slice)));
    let slice_count = (passes.end - passes.start).saturating_mul(SLICES);
    let meeting = Meeting::new(threads, control.stop);
    // The caller's own part; the callback is its alone.
    let lead = || {
        let left = LeavesOnPanic(&meeting);
        for (done, (pass, slice)) in slices().enumerate() {
            work(share(0), pass, slice);
            meeting.wait()?;
            if let Some(progress) = control.progress {
                progress(done as u32 + 1, slice_count);
            }
        }
        drop(left);
        Ok(())
    };
    if threads == 1 {
        return lead();
    }
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let (share, slices, meeting) = (share(thread), slices(), &meeting);
            scope.spawn(move || {
                let left = LeavesOnPanic(meeting);
                for (pass, slice) in slices {
                    work(share.clone(), pass, slice);
                    if meeting.wait().is_err() {
                        break;
                    }
                }
                drop(left);
            });
        }
        lead()
    })
}

/// Where threads wait for each other after each slice.
///
/// A slice takes from microseconds to seconds, so they look around for a moment before they sleep.
struct Meeting<'a> {
    threads: usize,
    stop: Option<&'a AtomicBool>,
    /// Meetings so far.
    over: AtomicU32,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    stopped: bool,
}

impl<'a> Meeting<'a> {
    fn new(threads: usize, stop: Option<&'a AtomicBool>) -> Self {
        Self {
            threads,
            stop,
            over: AtomicU32::new(0),
            state: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    /// Waits for all others. Either all of them go on or all of them stop.
    fn wait(&self) -> Result<(), Stopped> {
        // Read before arriving: the meeting cannot be over yet.
        let before = self.over.load(Ordering::Acquire);
        let mut state = self.lock();
        state.arrived += 1;
        if state.arrived == self.threads {
            state.arrived = 0;
            state.stopped |= self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            self.over.store(before.wrapping_add(1), Ordering::Release);
            self.woken.notify_all();
        } else {
            drop(state);
            for _ in 0..SPINS {
                if self.over.load(Ordering::Acquire) != before {
                    break;
                }
                std::hint::spin_loop();
            }
            state = self.lock();
            while self.over.load(Ordering::Acquire) == before && !state.stopped {
                state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        if state.stopped { Err(Stopped) } else { Ok(()) }
    }

    /// Stops everybody: somebody will not come any more.
    fn leave(&self) {
        self.lock().stopped = true;
        self.woken.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Times to look before sleeping: some ten microseconds.
const SPINS: u32 = if cfg!(miri) { 1 } else { 1000 };

/// Lets the others go when this thread panics: the panic arrives instead of a deadlock.
struct LeavesOnPanic<'a>(&'a Meeting<'a>);

impl Drop for LeavesOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    fn control(threads: usize) -> Control<'static> {
        Control { threads: NonZeroUsize::new(threads).unwrap(), stop: None, progress: None }
    }

    #[test]
    fn every_share_of_a_slice_is_done_before_the_next_begins() {
        for (threads, members) in [(1, 3), (2, 3), (3, 3), (5, 3), (2, 8)] {
            let done = AtomicUsize::new(0);
            run(&control(threads), members, 1..3, &|share, pass, slice| {
                let before = ((pass - 1) * SLICES + slice) as usize * members;
                let seen = done.load(Ordering::SeqCst);
                assert!(seen >= before && seen < before + members, "{seen} at {pass}, {slice}");
                done.fetch_add(share.len(), Ordering::SeqCst);
            })
            .unwrap();
            assert_eq!(done.into_inner(), 8 * members);
        }
    }

    #[test]
    fn progress_is_told_and_a_stop_is_heard_after_the_slice() {
        let stop = AtomicBool::new(false);
        let told = Mutex::new(Vec::new());
        let progress = |done, of| {
            told.lock().unwrap().push((done, of));
            stop.store(done == 3, Ordering::Relaxed);
        };
        let done = AtomicUsize::new(0);
        let control = Control { stop: Some(&stop), progress: Some(&progress), ..control(2) };
        let result = run(&control, 2, 0..2, &|_, _, _| {
            done.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(result, Err(Stopped));
        assert_eq!(*told.lock().unwrap(), [(1, 8), (2, 8), (3, 8)]);
        assert_eq!(done.into_inner(), 2 * 4);
    }

    #[test]
    fn a_panic_on_any_thread_arrives() {
        for culprit in 0..3 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                run(&control(3), 3, 0..1, &|share, _, slice| {
                    assert!(slice != 1 || share.start != culprit, "as planned");
                })
            }));
            assert!(result.is_err());
        }
    }
}
