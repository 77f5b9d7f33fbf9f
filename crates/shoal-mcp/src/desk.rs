//! The desk: questions to the database, one after another, each within its bounds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shoal::Environment;
use shoal_server::rules::RuleFile;
use shoal_server::{AnswerThread, Guard, NotNarrowed};
use shoal_sql::Interrupter;

use crate::opening::{Opened, Opening, WAYS};
use crate::refusal::Refusal;
use crate::seen::{self, Seen};
use crate::{AnswerLimits, Error, Options};

/// Steps of a statement between two looks at the stop: a step is a page, or up to 64 rows.
const STEPS: u64 = 50;
/// The wait for a question behind the end of its time: a step may be long.
const GRACE: Duration = Duration::from_secs(5);
/// Memories kept between calls for one caller, of each kind: the rest of long answers, and watches.
const KEPT_MAX: usize = 64;
/// Callers with memories; callers who have not asked for longest lose theirs.
const CALLERS_MAX: usize = 16;

/// The caller of a question: a principal under rules, `None` where everybody sees everything.
pub(crate) type Caller = Option<Arc<str>>;

/// The principal of a request over HTTP, as judged: among the request's extensions.
#[derive(Clone)]
pub(crate) struct Principal(pub(crate) Arc<str>);

/// The end of one call: its time, or the client's word.
#[derive(Debug)]
pub(crate) struct Stop {
    is_cancelled: AtomicBool,
    /// The time begins once the thread takes the question up.
    begun: Mutex<Option<Instant>>,
    time: Duration,
    /// A way to stop the statement of a narrowed connection, while the question runs.
    interrupter: Mutex<Option<Interrupter>>,
}

impl Stop {
    fn new(time: Duration) -> Arc<Stop> {
        Arc::new(Stop {
            is_cancelled: AtomicBool::new(false),
            begun: Mutex::new(None),
            time,
            interrupter: Mutex::default(),
        })
    }

    /// Sets or clears the way to stop a running statement: behind the question, the connection
    /// is another caller's.
    fn interrupt_by(&self, interrupter: Option<Interrupter>) {
        *self.interrupter.lock().unwrap_or_else(PoisonError::into_inner) = interrupter;
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        let interrupter = self.interrupter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupter) = &*interrupter {
            interrupter.interrupt();
        }
    }

    fn begin(&self) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_late(&self) -> bool {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.is_some_and(|begun| begun.elapsed() >= self.time)
    }

    /// True once the question has to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || self.is_late()
    }

    /// The reason as a sentence, once the question has to end.
    pub(crate) fn reason(&self) -> Option<String> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Some("the call was cancelled".to_owned());
        }
        self.is_late().then(|| {
            format!(
                "the call was stopped after {} seconds, the most that this server gives one. \
                 Narrow it with WHERE or LIMIT; EXPLAIN QUERY PLAN tells whether an index is used",
                self.time.as_secs_f32()
            )
        })
    }

    /// Fails once the question has to end: for work outside of statements.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.reason().map_or(Ok(()), |reason| Err(Refusal(reason)))
    }
}

/// Cancels a question whose caller goes away.
struct CancelOnDrop(Arc<Stop>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The means of one call, on the thread of the database.
pub(crate) struct Work<'w> {
    pub(crate) seen: Seen<'w>,
    pub(crate) desk: &'w Desk,
    pub(crate) stop: &'w Stop,
    pub(crate) caller: &'w Caller,
}

impl Work<'_> {
    /// The whole database, for `what`.
    ///
    /// # Errors
    /// The refusal of `what`, under rules.
    pub(crate) fn database(&mut self, what: &str) -> Result<&mut shoal::Database, Refusal> {
        self.seen.whole().ok_or_else(|| seen::needs_whole(what))
    }
}

/// Memories kept between calls under unguessable names, by caller: a name told to one caller is
/// unknown to every other, and no caller pushes out memories of another. The oldest go first.
#[derive(Debug)]
pub(crate) struct Kept<T>(VecDeque<(Caller, VecDeque<(String, T)>)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(VecDeque::new())
    }
}

impl<T> Kept<T> {
    /// Keeps a value under a name.
    pub(crate) fn put(&mut self, caller: &Caller, name: String, value: T) {
        let place = self.0.iter().position(|(known, _)| known == caller);
        let (_, mut kept) = place.and_then(|place| self.0.remove(place)).unwrap_or_default();
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((name, value));
        if self.0.len() >= CALLERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((caller.clone(), kept));
    }

    /// The value of a name told to this caller.
    pub(crate) fn get(&mut self, caller: &Caller, name: &str) -> Option<&mut T> {
        let (_, kept) = self.0.iter_mut().find(|(known, _)| known == caller)?;
        kept.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A way to the database for any number of clients. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Desk {
    thread: AnswerThread<Opened>,
    pub(crate) environment: Environment,
    pub(crate) limits: AnswerLimits,
    pub(crate) is_writable: bool,
    is_narrowed: bool,
    /// The principal of every caller; `None` without rules, and where each request has its own.
    principal: Caller,
    pub(crate) guard: Guard,
    pub(crate) cursors: Arc<Mutex<Kept<crate::page::Rest>>>,
    pub(crate) watches: Arc<Mutex<Kept<crate::tools::changes::Told>>>,
}

impl Desk {
    /// Opens the database, and keeps it open.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Rules`], [`Error::Io`].
    pub(crate) async fn open(options: Options) -> Result<Desk, Error> {
        let guard = Guard::new(WAYS);
        let (environment, is_writable) = (options.environment.clone(), options.is_writable);
        let mut limits = options.limits;
        limits.bytes = limits.bytes.max(AnswerLimits::BYTES_MIN);
        limits.rows = limits.rows.max(1);
        let rules = options.rules.as_ref().map(|rules| RuleFile::open(&rules.file));
        let rules = rules.transpose().map_err(Error::Rules)?;
        let principal = options.rules.as_ref().and_then(|rules| rules.principal.as_deref());
        let principal: Caller = principal.map(Arc::from);
        let is_narrowed = rules.is_some();
        let opening = Opening { options, guard: guard.clone(), rules };
        let thread = AnswerThread::start("mcp", move || opening.open())?;
        let caller = principal.clone();
        let tried = thread.ask(move |opened: &mut Opened| opened.check(caller.as_deref()));
        match tried.await.map_err(|error| Error::Database(error.to_string()))? {
            Ok(()) => {}
            Err(NotNarrowed::Closed(error)) => return Err(Error::Database(error.to_string())),
            Err(NotNarrowed::Unfit(why)) => return Err(Error::Rules(why)),
            Err(_) => {
                let who = principal.as_deref().unwrap_or_default();
                return Err(Error::Rules(format!("nothing is granted to {who}")));
            }
        }
        Ok(Desk {
            thread,
            environment,
            limits,
            is_writable,
            is_narrowed,
            principal,
            guard,
            cursors: Arc::default(),
            watches: Arc::default(),
        })
    }

    /// An unguessable name.
    pub(crate) fn new_name(&self) -> String {
        let mut bytes = [0; 12];
        self.environment.fill(&mut bytes);
        shoal_stdx::hex::encode(&bytes)
    }

    /// True under rules.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.is_narrowed
    }

    /// The caller behind a request: the one principal of the server, or the request's own.
    fn caller(&self, of_request: Caller) -> Caller {
        self.principal.clone().or(of_request)
    }

    /// Asks for a caller. Statements end with the time of a call, and once the returned future is
    /// dropped.
    ///
    /// # Errors
    /// The question's own refusal, and those of a queue that is full or a database out of reach.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        of_request: Caller,
        question: impl FnOnce(&mut Work<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let caller = self.caller(of_request);
        let stop = Stop::new(self.limits.time);
        let _cancel = CancelOnDrop(Arc::clone(&stop));
        let (desk, its_stop) = (self.clone(), Arc::clone(&stop));
        let asked = self.thread.ask(move |opened: &mut Opened| {
            its_stop.begin();
            // A question cancelled in the queue costs nothing.
            its_stop.check()?;
            let mut seen = opened.seen(caller.as_deref())?;
            match &mut seen {
                Seen::Whole(database) => {
                    let watched = Arc::clone(&its_stop);
                    let is_over = move || watched.is_over();
                    database.sql().set_progress_handler(STEPS, Some(Box::new(is_over)));
                }
                // The time of a statement is among the bounds of a narrowed connection.
                Seen::Narrowed(narrowed) => its_stop.interrupt_by(Some(narrowed.interrupter())),
            }
            let mut work = Work { seen, desk: &desk, stop: &its_stop, caller: &caller };
            let answer = question(&mut work);
            match &mut work.seen {
                Seen::Whole(database) => database.sql().set_progress_handler(STEPS, None),
                Seen::Narrowed(_) => its_stop.interrupt_by(None),
            }
            answer.map_err(|refusal| refusal.unless_stopped(&its_stop))
        });
        let late = async {
            while !stop.is_late() {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            answered = asked => answered?,
            () = late => Err(Refusal(stop.reason().unwrap_or_default())),
        }
    }
}
