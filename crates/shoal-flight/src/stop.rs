//! The end of one statement: by its client, by its time, or with the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shoal_sql::Interrupter;
use tokio::sync::watch;
use tonic::Status;

/// The time between two interrupts: a statement may begin right behind the first one.
const AGAIN: Duration = Duration::from_millis(50);

/// Why a statement has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Cancelled,
    Late,
    Stopping,
    /// The statement has ended by itself.
    Done,
}

/// The end of one statement.
#[derive(Debug)]
pub(crate) struct Stop {
    why: watch::Sender<Option<Why>>,
    time: Duration,
    /// A way to stop what runs now; `None` before the statement, and behind it, when the connection
    /// may be another client's.
    running: Mutex<Option<Interrupter>>,
}

impl Stop {
    /// The end of a statement beginning now. `stopping` turns true with the server's end.
    pub(crate) fn begin(time: Duration, mut stopping: watch::Receiver<bool>) -> Arc<Stop> {
        let (why, mut told) = watch::channel(None);
        let stop = Arc::new(Stop { why, time, running: Mutex::default() });
        // A statement without a run is dropped without being done.
        let watched = Arc::downgrade(&stop);
        tokio::spawn(async move {
            let why = tokio::select! {
                _ = told.wait_for(Option::is_some) => None,
                _ = stopping.wait_for(|stops| *stops) => Some(Why::Stopping),
                () = tokio::time::sleep(time) => Some(Why::Late),
            };
            if let (Some(why), Some(watched)) = (why, watched.upgrade()) {
                watched.end_by(why);
            }
            while let Some(watched) = watched.upgrade() {
                if *watched.why.borrow() == Some(Why::Done) {
                    break;
                }
                if let Some(running) = &*watched.running() {
                    running.interrupt();
                }
                drop(watched);
                tokio::time::sleep(AGAIN).await;
            }
        });
        stop
    }

    fn running(&self) -> MutexGuard<'_, Option<Interrupter>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason counts, until the statement is done.
    fn end_by(&self, why: Why) {
        self.why.send_if_modified(|known| {
            let is_news = known.is_none() || why == Why::Done;
            if is_news {
                *known = Some(why);
            }
            is_news
        });
    }

    /// Interrupts whatever runs on a connection, once there is a reason.
    pub(crate) fn interrupt_by(&self, interrupter: Interrupter) {
        *self.running() = Some(interrupter);
    }

    /// Nothing runs any more.
    pub(crate) fn done(&self) {
        *self.running() = None;
        self.end_by(Why::Done);
    }

    /// The client no longer wants the rows.
    pub(crate) fn cancel(&self) {
        self.end_by(Why::Cancelled);
    }

    /// Waits until there is a reason to end.
    pub(crate) async fn over(&self) {
        // The sender is this value's own.
        let _ = self.why.subscribe().wait_for(Option::is_some).await;
    }

    /// The reason in words, once there is one.
    pub(crate) fn reason(&self) -> Option<Status> {
        match (*self.why.borrow())? {
            Why::Cancelled => Some(Status::cancelled("the statement was cancelled")),
            Why::Late => Some(Status::deadline_exceeded(format!(
                "the statement was stopped after {} seconds, the most that this server gives one: \
                 narrow it with WHERE or LIMIT, or have shoal flight started with a longer \
                 --timeout",
                self.time.as_secs_f32()
            ))),
            Why::Stopping => Some(Status::unavailable("the server is stopping")),
            Why::Done => None,
        }
    }

    /// Fails once there is a reason to end.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check(&self) -> Result<(), Status> {
        self.reason().map_or(Ok(()), Err)
    }
}

/// Cancels a statement whose client goes away.
pub(crate) struct CancelOnDrop(pub(crate) Arc<Stop>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
