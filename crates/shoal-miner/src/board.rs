//! The miner's present state, for logs, the terminal and the API.
//!
//! One [`Board`] a process. The session writes on it; readers take a copy of the [`State`] or
//! subscribe to changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::config::Config;
use crate::source::{Task, Verdict};
use crate::status::Status;

/// Where the miner stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Nothing to do.
    #[default]
    Idle,
    /// Memory is taken and threads are started.
    Starting,
    /// Working, or waiting for work.
    Running,
    /// Threads are ended.
    Stopping,
    /// Ended with an error.
    Error,
}

impl Lifecycle {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Idle, Self::Starting, Self::Running, Self::Stopping, Self::Error];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Error => "error",
        }
    }
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// How it goes.
    Info,
    /// Something went well.
    Success,
    /// Something is amiss; the miner goes on.
    Warn,
    /// Something failed.
    Error,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLine {
    /// Seconds since the process began.
    pub elapsed_secs: f64,
    /// How much it matters.
    pub level: Level,
    /// The subject: `pool`, `node`, `engine`, `share`, `api`.
    pub tag: &'static str,
    /// The words.
    pub message: String,
    /// How often the same was said in a row.
    pub times: u32,
}

/// Counts of shares, or of blocks where the source is a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// Found by the engine.
    pub found: u64,
    /// Accepted.
    pub accepted: u64,
    /// Accepted and checked by the other side.
    pub verified: u64,
    /// Refused for coming too late.
    pub stale: u64,
    /// Refused for another reason.
    pub refused: u64,
    /// Never sent.
    pub lost: u64,
    /// Sent, and nobody said whether they count.
    pub unknown: u64,
    /// Good enough for a block.
    pub blocks: u64,
}

/// The other side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceState {
    /// URL.
    pub url: String,
    /// `true` while connected.
    pub connected: bool,
    /// The terms of the connection, or the reason for its absence.
    pub detail: String,
    /// Connections so far.
    pub connects: u64,
}

/// The task of the moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskState {
    /// Its name.
    pub id: String,
    /// Height of the block.
    pub height: u64,
    /// Hashes a solution takes on average.
    pub difficulty: u64,
    /// Seconds since its arrival.
    pub age_secs: f64,
}

/// Counts of requests and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Starts requested over the API.
    pub start_requests: u64,
    /// Stops requested over the API.
    pub stop_requests: u64,
    /// Restarts requested over the API.
    pub restart_requests: u64,
    /// Changes to the running miner.
    pub live_config_patches: u64,
    /// Lines of the log.
    pub log_events: u64,
    /// Tasks received.
    pub tasks: u64,
    /// Backends quarantined.
    pub backend_quarantines: u64,
}

/// Everything about the miner at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// Phase of life.
    pub lifecycle: Lifecycle,
    /// Counts the runs of this process, from 1.
    pub run_id: u64,
    /// `true` while a run is under way.
    pub running: bool,
    /// When the last run began.
    pub started_at_unix_ms: Option<u64>,
    /// End of the last run.
    pub stopped_at_unix_ms: Option<u64>,
    /// Reason of the last failure.
    pub last_error: Option<String>,
    /// The configuration of the run; secrets are stars.
    pub effective_config: Option<Config>,
    /// The other side.
    pub source: SourceState,
    /// The task of the moment.
    pub task: Option<TaskState>,
    /// Counts of this run's shares.
    pub shares: Shares,
    /// The engine of this run.
    pub engine: Option<Status>,
    /// Counts of events in this process.
    pub metrics: Counters,
    /// The last lines of the log.
    pub recent_logs: Vec<LogLine>,
}

/// A change, for subscribers.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// Counts up by one.
    pub id: u64,
    /// The kind: `miner.log`, `state.changed` and so on.
    pub name: &'static str,
    /// The rest.
    pub data: Value,
}

/// The miner's present state. Shared by everybody.
#[derive(Debug)]
pub struct Board {
    begun: Instant,
    begun_unix_ms: u64,
    inner: Mutex<Inner>,
    announcements: broadcast::Sender<Arc<Announcement>>,
}

#[derive(Debug)]
struct Inner {
    lifecycle: Lifecycle,
    run_id: u64,
    started: Option<u64>,
    stopped: Option<u64>,
    last_error: Option<String>,
    config: Option<Config>,
    source: SourceState,
    task: Option<(Arc<Task>, Instant)>,
    shares: Shares,
    engine: Option<Status>,
    counters: Counters,
    logs: VecDeque<(LogLine, Instant)>,
    next_id: u64,
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// An empty board.
    pub fn new() -> Self {
        let inner = Inner {
            lifecycle: Lifecycle::Idle,
            run_id: 0,
            started: None,
            stopped: None,
            last_error: None,
            config: None,
            source: SourceState::default(),
            task: None,
            shares: Shares::default(),
            engine: None,
            counters: Counters::default(),
            logs: VecDeque::new(),
            next_id: 1,
        };
        Self {
            begun: Instant::now(),
            begun_unix_ms: unix_ms(),
            inner: Mutex::new(inner),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS_MAX),
        }
    }

    /// When the process began.
    pub const fn begun_unix_ms(&self) -> u64 {
        self.begun_unix_ms
    }

    /// Everything, now.
    pub fn state(&self) -> State {
        let inner = self.inner();
        State {
            lifecycle: inner.lifecycle,
            run_id: inner.run_id,
            running: matches!(inner.lifecycle, Lifecycle::Starting | Lifecycle::Running),
            started_at_unix_ms: inner.started,
            stopped_at_unix_ms: inner.stopped,
            last_error: inner.last_error.clone(),
            effective_config: inner.config.clone(),
            source: inner.source.clone(),
            task: inner.task.as_ref().map(|(task, since)| TaskState {
                id: task.id.clone(),
                height: task.height,
                difficulty: task.difficulty,
                age_secs: since.elapsed().as_secs_f64(),
            }),
            shares: inner.shares,
            engine: inner.engine.clone(),
            metrics: inner.counters,
            recent_logs: inner.logs.iter().map(|(line, _)| line.clone()).collect(),
        }
    }

    /// All changes from now on. Slow subscribers miss some.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Announcement>> {
        self.announcements.subscribe()
    }

    /// Says something to people. Repetitions within a short time are only counted.
    pub fn log(&self, level: Level, tag: &'static str, message: impl Into<String>) {
        let mut inner = self.inner();
        let message = message.into();
        inner.counters.log_events += 1;
        let elapsed_secs = self.begun.elapsed().as_secs_f64();
        if let Some((last, since)) = inner.logs.back_mut()
            && (last.level, last.tag, &last.message) == (level, tag, &message)
            && since.elapsed() < REPEATS
        {
            last.times += 1;
            return;
        }
        let line = LogLine { elapsed_secs, level, tag, message, times: 1 };
        let data = json!(line);
        inner.logs.push_back((line, Instant::now()));
        if inner.logs.len() > LOGS_MAX {
            inner.logs.pop_front();
        }
        self.announce(&mut inner, "miner.log", data);
    }

    /// The miner stands somewhere else now.
    pub fn move_to(&self, lifecycle: Lifecycle, reason: &str) {
        let mut inner = self.inner();
        let previous = inner.lifecycle;
        if previous == lifecycle {
            return;
        }
        inner.lifecycle = lifecycle;
        match lifecycle {
            Lifecycle::Starting => {
                inner.run_id += 1;
                inner.started = Some(unix_ms());
                inner.stopped = None;
                inner.last_error = None;
                inner.shares = Shares::default();
                inner.engine = None;
                inner.task = None;
            }
            Lifecycle::Idle | Lifecycle::Error => {
                inner.stopped = Some(unix_ms());
                inner.source.connected = false;
                inner.task = None;
            }
            Lifecycle::Running | Lifecycle::Stopping => {}
        }
        let data = json!({
            "previous": previous.name(), "current": lifecycle.name(), "reason": reason,
        });
        self.announce(&mut inner, "state.changed", data);
    }

    /// A backend is ready: a starting run is running now, an ending one goes on ending.
    pub fn started(&self, reason: &str) {
        if self.inner().lifecycle == Lifecycle::Starting {
            self.move_to(Lifecycle::Running, reason);
        }
    }

    /// The run failed.
    pub fn fail(&self, reason: &str) {
        self.inner().last_error = Some(reason.to_owned());
        self.log(Level::Error, "miner", reason);
        self.move_to(Lifecycle::Error, reason);
    }

    /// The configuration of the run.
    pub fn set_config(&self, config: &Config) {
        self.set_source(&config.source_url());
        self.inner().config = Some(config.clone());
    }

    /// The configuration changed under the running miner.
    pub fn change_config(&self, config: &Config) {
        self.inner().config = Some(config.clone());
    }

    /// Somebody else is worked for.
    pub fn set_source(&self, url: &str) {
        let mut inner = self.inner();
        inner.source = SourceState { url: url.to_owned(), ..SourceState::default() };
        inner.task = None;
    }

    /// The other side is there, or not.
    pub fn set_connected(&self, connected: bool, detail: &str) {
        let mut inner = self.inner();
        inner.source.connects += u64::from(connected);
        inner.source.connected = connected;
        detail.clone_into(&mut inner.source.detail);
        let data = json!({ "connected": connected, "detail": detail });
        self.announce(&mut inner, "source.changed", data);
    }

    /// There is other work, or none.
    pub fn set_task(&self, task: Option<&Arc<Task>>) {
        let mut inner = self.inner();
        inner.task = task.map(|task| (Arc::clone(task), Instant::now()));
        if let Some(task) = task {
            inner.counters.tasks += 1;
            let data = json!({
                "id": task.id, "height": task.height, "difficulty": task.difficulty,
            });
            self.announce(&mut inner, "task.changed", data);
        }
    }

    /// The engine's present state.
    pub fn set_engine(&self, status: Status) {
        self.inner().engine = Some(status);
    }

    /// A backend is somewhere else.
    pub fn backend_phase(&self, backend: &str, phase: &str) {
        let mut inner = self.inner();
        inner.counters.backend_quarantines += u64::from(phase == "quarantined");
        let data = json!({ "backend": backend, "phase": phase });
        self.announce(&mut inner, "backend.phase", data);
    }

    /// A solution was found.
    pub fn found(&self, nonce: u64, block: bool) {
        let mut inner = self.inner();
        inner.shares.found += 1;
        inner.shares.blocks += u64::from(block);
        let data = json!({ "message": format!("nonce {nonce}"), "nonce": nonce, "block": block });
        self.announce(&mut inner, "solution.found", data);
    }

    /// The verdict on a share.
    pub fn judged(&self, nonce: u64, verdict: &Verdict) {
        let mut inner = self.inner();
        self.judge(&mut inner, nonce, verdict);
    }

    /// The verdict, after all, on a share of unknown fate.
    pub fn settled(&self, nonce: u64, verdict: &Verdict) {
        let mut inner = self.inner();
        inner.shares.unknown = inner.shares.unknown.saturating_sub(1);
        self.judge(&mut inner, nonce, verdict);
    }

    fn judge(&self, inner: &mut Inner, nonce: u64, verdict: &Verdict) {
        let shares = &mut inner.shares;
        let accepted = match verdict {
            Verdict::Accepted { verified } => {
                shares.accepted += 1;
                shares.verified += u64::from(*verified);
                Some(true)
            }
            Verdict::Refused { stale: true, .. } => {
                shares.stale += 1;
                Some(false)
            }
            Verdict::Refused { .. } => {
                shares.refused += 1;
                Some(false)
            }
            Verdict::Lost { .. } => {
                shares.lost += 1;
                None
            }
            Verdict::Unknown { .. } => {
                shares.unknown += 1;
                None
            }
        };
        let kind = verdict.kind();
        let data = json!({
            "message": verdict.to_string(), "accepted": accepted, "nonce": nonce, "verdict": kind,
        });
        self.announce(inner, "submit.result", data);
    }

    /// Counts something.
    pub fn count(&self, which: impl FnOnce(&mut Counters)) {
        which(&mut self.inner().counters);
    }

    fn announce(&self, inner: &mut Inner, name: &'static str, data: Value) {
        let id = inner.next_id;
        inner.next_id += 1;
        // An error: nobody listens.
        let _ = self.announcements.send(Arc::new(Announcement { id, name, data }));
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A half-written state is shown half written, to people only.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const ANNOUNCEMENTS_MAX: usize = 4096;
const LOGS_MAX: usize = 200;
const REPEATS: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_counts_what_is_said_again() {
        let board = Board::new();
        let mut heard = board.subscribe();
        for _ in 0..3 {
            board.log(Level::Warn, "pool", "the same");
        }
        assert_eq!(board.state().recent_logs.len(), 1);
        assert_eq!(board.state().recent_logs[0].times, 3);
        assert_eq!(heard.try_recv().unwrap().name, "miner.log");
        assert!(heard.try_recv().is_err(), "once is enough");
        for i in 0..500 {
            board.log(Level::Info, "pool", format!("line {i}"));
        }
        let logs = board.state().recent_logs;
        assert_eq!((logs.len(), logs[199].message.as_str()), (200, "line 499"));
        assert_eq!(board.state().metrics.log_events, 503);
    }

    #[test]
    fn a_run_begins_with_nothing() {
        let board = Board::new();
        let mut heard = board.subscribe();
        board.move_to(Lifecycle::Starting, "asked");
        board.found(5, true);
        board.judged(5, &Verdict::Accepted { verified: true });
        board.judged(5, &Verdict::Refused { reason: "x".to_owned(), stale: true });
        board.judged(5, &Verdict::Refused { reason: "x".to_owned(), stale: false });
        board.judged(5, &Verdict::Lost { reason: "x" });
        let unknown = Verdict::Unknown { reason: "x".to_owned() };
        board.judged(6, &unknown);
        board.judged(7, &unknown);
        board.settled(7, &Verdict::Refused { reason: "x".to_owned(), stale: false });
        let shares = board.state().shares;
        let expect = Shares {
            found: 1,
            accepted: 1,
            verified: 1,
            stale: 1,
            refused: 2,
            lost: 1,
            unknown: 1,
            blocks: 1,
        };
        assert_eq!(shares, expect);
        board.fail("no memory");
        let state = board.state();
        assert_eq!((state.lifecycle, state.running), (Lifecycle::Error, false));
        assert_eq!(state.last_error.as_deref(), Some("no memory"));
        board.move_to(Lifecycle::Starting, "again");
        let state = board.state();
        assert_eq!((state.run_id, state.shares, state.last_error), (2, Shares::default(), None));
        let ids: Vec<u64> = std::iter::from_fn(|| heard.try_recv().ok()).map(|a| a.id).collect();
        assert!(ids.windows(2).all(|two| two[0] + 1 == two[1]), "{ids:?}");
    }
}
