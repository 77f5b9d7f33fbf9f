//! A thread that owns a database, or what else a door has open, and answers one question after
//! another.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use tokio::sync::oneshot;

/// Waiting questions; beyond, the answer is [`Unanswered::Busy`].
const QUEUE: usize = 32;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// Too many questions wait.
    #[error("too many questions wait already")]
    Busy,
    /// The database cannot be opened, for this reason.
    #[error("{0}")]
    Closed(String),
    /// The question met a fault of this program, and the thread began afresh.
    #[error("a fault of this program ended the question")]
    Panicked,
}

/// A question, given what is open or the reason why nothing is.
type Question<S> = Box<dyn FnOnce(Result<&mut S, &shoal::Error>) + Send>;

/// A way to the answering thread, which ends with the last of its clones.
pub struct AnswerThread<S> {
    questions: SyncSender<Question<S>>,
}

impl<S> Clone for AnswerThread<S> {
    fn clone(&self) -> Self {
        Self { questions: self.questions.clone() }
    }
}

impl<S: 'static> AnswerThread<S> {
    /// Starts a thread called `name`. `open` is called by the first question, and again after a
    /// failure to open and after a question that panicked: a connection left in the middle of
    /// something answers nobody else.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        name: &str,
        mut open: impl FnMut() -> Result<S, shoal::Error> + Send + 'static,
    ) -> std::io::Result<AnswerThread<S>> {
        let (questions, receiver) = sync_channel::<Question<S>>(QUEUE);
        let work = move || {
            let mut kept: Option<S> = None;
            while let Ok(question) = receiver.recv() {
                if kept.is_none() {
                    match open() {
                        Ok(opened) => kept = Some(opened),
                        Err(error) => {
                            question(Err(&error));
                            continue;
                        }
                    }
                }
                if let Some(opened) = &mut kept
                    && panic::catch_unwind(AssertUnwindSafe(|| question(Ok(opened)))).is_err()
                {
                    kept = None;
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(AnswerThread { questions })
    }

    /// Asks, and waits for the answer. A caller who no longer waits leaves a question in the queue,
    /// to be answered to nobody.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (answer, asked) = oneshot::channel();
        let question: Question<S> = Box::new(move |opened| {
            let answered = match opened {
                Ok(opened) => Ok(question(opened)),
                Err(error) => Err(Unanswered::Closed(error.to_string())),
            };
            // Nobody may be waiting any more.
            let _ = answer.send(answered);
        });
        match self.questions.try_send(question) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Unanswered::Busy),
            Err(TrySendError::Disconnected(_)) => return Err(Unanswered::Panicked),
        }
        asked.await.unwrap_or(Err(Unanswered::Panicked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal::{Database, Environment};

    /// The thread outlives a question that panics, and opens the database again.
    #[tokio::test]
    async fn a_panic_costs_one_answer() {
        let mut opened = 0;
        let thread = AnswerThread::start("asked", move || {
            opened += 1;
            match opened {
                1 => Err(shoal::Error::NoDocument { name: "first".to_owned() }),
                _ => Database::memory(Environment::os()),
            }
        })
        .expect("a thread starts");
        let first = thread.ask(|_| 1).await;
        assert!(matches!(first, Err(Unanswered::Closed(why)) if why.contains("first")));
        assert!(matches!(thread.ask(|_| 2).await, Ok(2)));
        let fault = thread.ask(|_| -> i32 { panic!("a question without an answer") }).await;
        assert!(matches!(fault, Err(Unanswered::Panicked)));
        assert!(matches!(thread.ask(|_| 3).await, Ok(3)));
    }
}
