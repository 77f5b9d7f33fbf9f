//! One run: work on its way from a source to an engine, and shares on their way back.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::board::{Board, Level};
use crate::config::Config;
use crate::engine::{Engine, Event, WorkEnd};
use crate::pool::finished;
use crate::source::{Order, Share, Source, SourceError, SourceEvent, Task, Verdict};
use crate::status::EnginePhase;
use crate::work::{Handover, Solution, Work};
use crate::{node, pool};

/// Why a run ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The source gave up.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The source is gone and did not say why: a defect of ours.
    #[error("the source of work ended")]
    SourceGone,
    /// No backend is left.
    #[error("no backend is left: {0}")]
    NoBackend(String),
    /// A thread of the engine did not end.
    #[error("a backend did not stop in time")]
    NotStopped,
    /// The system gave no thread.
    #[error("cannot start a thread")]
    Thread,
}

/// A source and an engine, joined.
pub struct Session {
    source: Source,
    /// The present settings, and the next ones.
    config: Config,
    live: watch::Receiver<Config>,
    /// Former sources, waiting for their last answers.
    left: JoinSet<()>,
    engine: Arc<Engine>,
    engine_events: mpsc::UnboundedReceiver<Event>,
    bridge: thread::JoinHandle<()>,
    board: Arc<Board>,
    /// Tasks by their number at the engine. Newest last.
    tasks: VecDeque<(u64, Arc<Task>)>,
    next_work: u64,
    /// Solutions passed on so far; a backend may report one twice.
    seen: HashSet<(u64, u64)>,
    seen_order: VecDeque<(u64, u64)>,
    apart_since: Option<Instant>,
    paused: bool,
    last_fault: String,
}

impl Session {
    /// Joins a started engine and the source of the settings. When the settings change,
    /// the session goes over to another source.
    ///
    /// # Errors
    /// [`SessionError::Thread`], [`SessionError::SourceGone`] where the settings name none.
    pub fn new(
        mut live: watch::Receiver<Config>,
        engine: Engine,
        events: Receiver<Event>,
        board: Arc<Board>,
    ) -> Result<Self, SessionError> {
        let config = live.borrow_and_update().clone();
        let source = connect(&config, &board).ok_or(SessionError::SourceGone)?;
        let (tell, engine_events) = mpsc::unbounded_channel();
        // The engine's threads know nothing of tasks; one thread carries their events over. It
        // ends with the engine.
        let bridge = thread::Builder::new()
            .name("miner-events".to_owned())
            .spawn(move || {
                for event in events {
                    if tell.send(event).is_err() {
                        return;
                    }
                }
            })
            .map_err(|_| SessionError::Thread)?;
        Ok(Self {
            source,
            config,
            live,
            left: JoinSet::new(),
            engine: Arc::new(engine),
            engine_events,
            bridge,
            board,
            tasks: VecDeque::new(),
            next_work: 1,
            seen: HashSet::new(),
            seen_order: VecDeque::new(),
            apart_since: None,
            paused: false,
            last_fault: "none was there".to_owned(),
        })
    }

    /// Works until `stop` is set or the run ends by itself. Afterwards no thread is left,
    /// unless the error says so.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), SessionError> {
        let mut tick = interval(STATUS_TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut engine_talks = true;
        let result = loop {
            let step = tokio::select! {
                biased;
                () = finished(&mut stop) => break Ok(()),
                event = self.source.events.recv() => match event {
                    Some(event) => self.source_says(event),
                    None => Err(SessionError::SourceGone),
                },
                event = self.engine_events.recv(), if engine_talks => match event {
                    Some(event) => self.engine_says(event),
                    None => {
                        engine_talks = false;
                        Ok(())
                    }
                },
                Ok(()) = self.live.changed() => self.go_over(),
                _ = tick.tick() => {
                    self.look();
                    Ok(())
                }
            };
            if let Err(error) = step {
                break Err(error);
            }
        };
        let ended = self.end().await;
        result.and(ended)
    }

    /// The settings changed. Where another source is wanted, shares found for the one before are
    /// sold there, and work goes on for the new one; memory and threads stay.
    fn go_over(&mut self) -> Result<(), SessionError> {
        let config = self.live.borrow_and_update().clone();
        let same = config.same_source(&self.config);
        self.config = config;
        if same {
            return Ok(());
        }
        let Some(next) = connect(&self.config, &self.board) else {
            return Err(SessionError::SourceGone);
        };
        while let Ok(event) = self.engine_events.try_recv() {
            self.engine_says(event)?;
        }
        self.engine.cancel(Handover::Abandon);
        let before = std::mem::replace(&mut self.source, next);
        self.left.spawn(leave(before, Arc::clone(&self.board)));
        // Nobody buys later shares of earlier tasks.
        self.tasks.clear();
        self.apart_since = Some(Instant::now());
        self.paused = false;
        self.board.set_source(&self.config.source_url());
        self.board.log(Level::Info, "source", format!("now {}", self.config.source_url()));
        Ok(())
    }

    /// Copies the engine's state to the board; ends work without a buyer.
    fn look(&mut self) {
        let status = self.engine.status();
        self.board.set_engine(status);
        let apart = self.apart_since.is_some_and(|since| since.elapsed() > WORK_ALONE);
        if apart && !self.paused {
            self.paused = true;
            self.engine.cancel(Handover::Abandon);
            self.board.set_task(None);
            self.board.log(Level::Warn, "engine", "paused: there is nobody to work for");
        }
    }

    fn source_says(&mut self, event: SourceEvent) -> Result<(), SessionError> {
        match event {
            SourceEvent::Connected { detail } => {
                self.apart_since = None;
                self.board.set_connected(true, &detail);
                self.board.log(Level::Success, "source", format!("connected to {detail}"));
            }
            SourceEvent::Disconnected { reason, retry } => {
                self.apart_since.get_or_insert_with(Instant::now);
                self.board.set_connected(false, &reason);
                let words = format!("{reason}; again in {:.1} s", retry.as_secs_f64());
                self.board.log(Level::Warn, "source", words);
            }
            SourceEvent::Task(task) => return self.take(task),
            SourceEvent::NoTask { reason } => {
                // Said once: nothing more is said when the other side stays away for long.
                self.paused = true;
                self.engine.cancel(Handover::Abandon);
                self.board.set_task(None);
                self.board.log(Level::Warn, "source", format!("no work: {reason}"));
            }
            SourceEvent::Verdict { share, verdict } => judged(&self.board, &share, &verdict),
            SourceEvent::Settled { share, verdict } => settled(&self.board, &share, &verdict),
            SourceEvent::Notice { kind, message } => {
                self.board.log(Level::Info, "source", format!("{kind}: {message}"));
            }
            SourceEvent::Warning(words) => self.board.log(Level::Warn, "source", words),
            SourceEvent::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take(&mut self, task: Arc<Task>) -> Result<(), SessionError> {
        let id = self.next_work;
        self.next_work += 1;
        let work = Work {
            id,
            header: task.header.clone(),
            memory_kib: self.config.memory_kib,
            target: task.target,
            nonces: task.nonces.clone(),
            deadline: None,
            // A share is one of many, and a block may be refused: mining goes on.
            pause_on_solution: false,
        };
        if let Err(error) = self.engine.assign(work, task.handover) {
            // The header of a job is the pool's affair, and so are its defects.
            self.board.log(Level::Warn, "engine", format!("work was refused: {error}"));
            return Ok(());
        }
        self.paused = false;
        self.tasks.push_back((id, Arc::clone(&task)));
        if self.tasks.len() > TASKS_MAX {
            self.tasks.pop_front();
        }
        self.board.set_task(Some(&task));
        let words = format!("height {}, difficulty {}", task.height, task.difficulty);
        self.board.log(Level::Info, "task", words);
        Ok(())
    }

    fn engine_says(&mut self, event: Event) -> Result<(), SessionError> {
        match event {
            Event::BackendReady { backend } => {
                self.board.backend_phase(&backend, "ready");
                self.board.started("a backend is ready");
                self.board.log(Level::Success, "engine", format!("{backend} is ready"));
                for line in self.describe(&backend) {
                    self.board.log(Level::Info, "engine", line);
                }
            }
            Event::Solution(solution) => self.sell(&solution),
            Event::WorkDone { work_id, end: WorkEnd::Exhausted, .. } => {
                if let Some(task) = self.task(work_id) {
                    self.board.log(Level::Warn, "engine", "every nonce of the window was tried");
                    let order = Order::WindowDone(task.id.clone());
                    // A full channel is full of shares, whose answers bring new work.
                    let _ = self.source.orders.try_send(order);
                }
            }
            Event::WorkDone { work_id, end: WorkEnd::NoBackend, .. } => {
                let newest = self.tasks.back().is_some_and(|(id, _)| *id == work_id);
                if newest && self.engine.status().phase != EnginePhase::Starting {
                    return Err(SessionError::NoBackend(self.last_fault.clone()));
                }
            }
            Event::BackendQuarantined { backend, fault } => {
                self.board.backend_phase(&backend, "quarantined");
                self.last_fault = format!("{backend}: {fault}");
                self.board.log(Level::Error, "engine", self.last_fault.clone());
            }
            Event::NoBackendLeft => return Err(SessionError::NoBackend(self.last_fault.clone())),
            Event::Warning { backend, text } => {
                let words = backend.map_or(text.clone(), |backend| format!("{backend}: {text}"));
                self.board.log(Level::Warn, "engine", words);
            }
            _ => {}
        }
        Ok(())
    }

    /// Workers, kernel and pages of a ready backend.
    fn describe(&self, backend: &str) -> Vec<String> {
        let status = self.engine.status();
        let found = status.backends.iter().find(|one| one.name == backend);
        let Some(found) = found else { return Vec::new() };
        let mut pages: Vec<&str> =
            found.workers.iter().map(|worker| worker.worker.pages.as_str()).collect();
        pages.sort_unstable();
        pages.dedup();
        vec![format!(
            "{} workers, kernel {}, pages: {}",
            found.workers.len(),
            found.kernel,
            pages.join(", ")
        )]
    }

    fn sell(&mut self, solution: &Solution) {
        let key = (solution.work_id, solution.nonce);
        if !self.seen.insert(key) {
            return;
        }
        self.seen_order.push_back(key);
        if self.seen_order.len() > SEEN_MAX
            && let Some(oldest) = self.seen_order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        let Some(task) = self.task(solution.work_id) else {
            self.board.log(Level::Warn, "share", "a solution of work that is long gone");
            return;
        };
        let block = task.network_target.is_some_and(|target| target.is_met_by(&solution.tag));
        self.board.found(solution.nonce, block);
        if block {
            let words = format!("a block at height {}, nonce {}", task.height, solution.nonce);
            self.board.log(Level::Success, "share", words);
        }
        let share = Share { task, nonce: solution.nonce, tag: solution.tag, found: Instant::now() };
        if let Err(error) = self.source.orders.try_send(Order::Sell(share)) {
            let verdict = Verdict::Lost { reason: "too many shares wait" };
            if let Order::Sell(share) = error.into_inner() {
                judged(&self.board, &share, &verdict);
            }
        }
    }

    fn task(&self, work_id: u64) -> Option<Arc<Task>> {
        let found = self.tasks.iter().rev().find(|(id, _)| *id == work_id);
        found.map(|(_, task)| Arc::clone(task))
    }

    /// Ends both sides: the engine at once, the source when shares under way are answered.
    async fn end(mut self) -> Result<(), SessionError> {
        self.engine.cancel(Handover::Abandon);
        // Shares found until now go out before the source is told to end.
        while let Ok(event) = self.engine_events.try_recv() {
            if let Event::Solution(solution) = event {
                self.sell(&solution);
            }
        }
        let engine = Arc::clone(&self.engine);
        let stopping = tokio::task::spawn_blocking(move || engine.stop());
        leave(self.source, Arc::clone(&self.board)).await;
        // They were left before, so they end before.
        while self.left.join_next().await.is_some() {}
        let stopped = stopping.await.unwrap_or(false);
        self.board.set_engine(self.engine.status());
        // With the engine its events end, and with them the bridge.
        drop(self.engine);
        drop(self.engine_events);
        if !stopped {
            return Err(SessionError::NotStopped);
        }
        let bridge = self.bridge;
        let _ = tokio::task::spawn_blocking(move || bridge.join()).await;
        Ok(())
    }
}

/// Starts the client of whoever the settings name.
fn connect(config: &Config, board: &Board) -> Option<Source> {
    if let Some(options) = config.pool_options() {
        return Some(pool::connect(options));
    }
    let options = config.node_options()?;
    if options.token != node::Token::None && !options.url.is_local() {
        board.log(Level::Warn, "node", "the token goes to another machine, unencrypted");
    }
    Some(node::connect(options))
}

/// Ends a source when shares under way are answered, and shows the answers.
async fn leave(mut source: Source, board: Arc<Board>) {
    // An error: the source has ended by itself.
    let _ = source.finish.send(true);
    let farewell = async {
        while let Some(event) = source.events.recv().await {
            match event {
                SourceEvent::Verdict { share, verdict } => judged(&board, &share, &verdict),
                SourceEvent::Settled { share, verdict } => settled(&board, &share, &verdict),
                _ => {}
            }
        }
    };
    if timeout(FAREWELL, farewell).await.is_err() {
        source.task.abort();
    }
}

/// Shows the verdict on a share.
fn judged(board: &Board, share: &Share, verdict: &Verdict) {
    board.judged(share.nonce, verdict);
    board.log(level(verdict), "share", format!("nonce {} {verdict}", share.nonce));
}

/// Shows the verdict, after all, on a share of unknown fate.
fn settled(board: &Board, share: &Share, verdict: &Verdict) {
    board.settled(share.nonce, verdict);
    board.log(level(verdict), "share", format!("nonce {} after all {verdict}", share.nonce));
}

fn level(verdict: &Verdict) -> Level {
    match verdict {
        Verdict::Accepted { .. } => Level::Success,
        Verdict::Refused { .. } | Verdict::Lost { .. } | Verdict::Unknown { .. } => Level::Warn,
    }
}

const STATUS_TICK: Duration = Duration::from_millis(250);
const TASKS_MAX: usize = 64;
const SEEN_MAX: usize = 4096;
/// How long to work on with nobody to sell to: about as long as pools know a job.
const WORK_ALONE: Duration = Duration::from_secs(120);
/// Longer than a source takes to say farewell.
const FAREWELL: Duration = Duration::from_secs(4);
