//! The miner as a whole: starts and ends runs, as the command line or the API asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::backend::Backend;
use crate::backend::cpu::{CpuBackend, CpuOptions, Dial, half_in_words};
#[cfg(any(feature = "gpu", feature = "cuda"))]
use crate::backend::gpu;
use crate::board::{Board, Level, Lifecycle};
use crate::config::{Config, ConfigError, Settings};
use crate::engine::{Engine, EngineError, EngineOptions};
use crate::pool::finished;
use crate::session::{Session, SessionError};
use crate::tune::{TuneError, TuneOptions, Tuned, autotune};

/// Why there is no run, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MinerError {
    /// The settings are refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody to work for is named.
    #[error("there is nobody to work for: a pool or a node is missing")]
    NoSource,
    /// The processor's backend cannot be planned.
    #[error(transparent)]
    Plan(#[from] crate::backend::cpu::PlanError),
    /// How many threads are best could not be found out.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// No graphics processor has the name.
    #[cfg(any(feature = "gpu", feature = "cuda"))]
    #[error(transparent)]
    Choice(#[from] crate::backend::gpu::ChoiceError),
    /// The engine does not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The run broke off: a defect of ours.
    #[error("the run broke off")]
    Broken,
}

/// A request to a living miner.
#[derive(Debug)]
pub enum Request {
    /// Begin a run with these settings above the present ones.
    Start(Box<Settings>),
    /// End the run, and wait this long for its end.
    Stop(Duration),
    /// End the run, and begin another with these settings above the present ones.
    Restart(Box<Settings>),
    /// Change the settings, also under way: all of these, or none.
    Change(Box<Settings>),
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Words for people.
    pub message: String,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The settings are no good.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody to work for is named.
    #[error("there is nobody to work for: a pool or a node is missing")]
    NoSource,
    /// The wrong time for the request.
    #[error("{0}")]
    Conflict(&'static str),
    /// The change concerns the run's memory and threads.
    #[error("a restart is needed to change {}; nothing was changed", .0.join(", "))]
    RestartNeeded(Vec<&'static str>),
    /// The miner is at its end.
    #[error("the miner is ending")]
    Ending,
}

/// Where requests are sent.
#[derive(Clone, Debug)]
pub struct Control(mpsc::Sender<(Request, oneshot::Sender<Result<Outcome, RequestError>>)>);

impl Control {
    /// Asks, and waits for the result.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn ask(&self, request: Request) -> Result<Outcome, RequestError> {
        let (answer, answered) = oneshot::channel();
        self.0.send((request, answer)).await.map_err(|_| RequestError::Ending)?;
        answered.await.map_err(|_| RequestError::Ending)?
    }
}

/// The miner of a process.
#[derive(Debug)]
pub struct Miner {
    settings: Settings,
    board: Arc<Board>,
    requests: mpsc::Receiver<(Request, oneshot::Sender<Result<Outcome, RequestError>>)>,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    stop: watch::Sender<bool>,
    /// The settings to go on with.
    config: watch::Sender<Config>,
    /// Its workers, once they are planned.
    dial: Arc<OnceLock<Dial>>,
    task: JoinHandle<Result<(), MinerError>>,
}

impl Miner {
    /// An idle miner, and its control.
    pub fn new(settings: Settings, board: Arc<Board>) -> (Self, Control) {
        let (send, requests) = mpsc::channel(REQUESTS_MAX);
        (Self { settings, board, requests, run: None }, Control(send))
    }

    /// Lives until `stop` is set; without a service to offer, also until the run ends.
    ///
    /// # Errors
    /// The reason of the run's end, unless a service: a service shows it and waits for a start.
    pub async fn live(mut self, mut stop: watch::Receiver<bool>) -> Result<(), MinerError> {
        let config = self.settings.resolve()?;
        self.board.set_config(&config);
        if !config.service
            && let Err(error) = self.begin(config.clone())
        {
            self.board.fail(&error.to_string());
            return Err(error);
        }
        let result = loop {
            tokio::select! {
                () = finished(&mut stop) => break Ok(()),
                Some((request, answer)) = self.requests.recv() => {
                    let outcome = self.answer(request).await;
                    // Who asked may have gone.
                    let _ = answer.send(outcome);
                }
                ended = ended(&mut self.run) => {
                    self.run = None;
                    self.show_end(&ended);
                    if !config.service {
                        break ended;
                    }
                }
            }
        };
        if self.run.is_some() {
            self.board.move_to(Lifecycle::Stopping, "the process ends");
            let ended = self.end().await;
            self.show_end(&ended);
            return result.and(ended);
        }
        result
    }

    async fn answer(&mut self, request: Request) -> Result<Outcome, RequestError> {
        let done = |message: &str| Outcome { message: message.to_owned() };
        match request {
            Request::Start(settings) => {
                self.board.count(|counters| counters.start_requests += 1);
                if self.run.is_some() {
                    return Err(RequestError::Conflict("the miner runs already"));
                }
                let config = self.take(*settings)?;
                self.start(config);
                Ok(done("the miner starts"))
            }
            Request::Stop(wait) => {
                self.board.count(|counters| counters.stop_requests += 1);
                if self.run.is_none() {
                    return Err(RequestError::Conflict("the miner does not run"));
                }
                self.board.move_to(Lifecycle::Stopping, "asked to");
                if let Some(run) = &self.run {
                    // An error: the run has ended by itself.
                    let _ = run.stop.send(true);
                }
                let in_time = tokio::time::timeout(wait, ended(&mut self.run)).await;
                match in_time {
                    Ok(result) => {
                        self.run = None;
                        self.show_end(&result);
                        Ok(done("the miner has stopped"))
                    }
                    Err(_) => Ok(done("the miner is stopping")),
                }
            }
            Request::Restart(settings) => {
                self.board.count(|counters| counters.restart_requests += 1);
                let config = self.take(*settings)?;
                if self.run.is_some() {
                    self.board.move_to(Lifecycle::Stopping, "asked to restart");
                    let result = self.end().await;
                    self.show_end(&result);
                }
                self.start(config);
                Ok(done("the miner starts again"))
            }
            Request::Change(settings) => {
                self.board.count(|counters| counters.live_config_patches += 1);
                self.change(*settings)
            }
        }
    }

    /// Takes settings over for the run to come.
    fn take(&mut self, settings: Settings) -> Result<Config, RequestError> {
        self.keep_api(&settings)?;
        let settings = settings.over(self.settings.clone());
        let config = settings.resolve()?;
        if config.source.is_none() {
            return Err(RequestError::NoSource);
        }
        self.settings = settings;
        Ok(config)
    }

    /// The API itself stays, whatever is asked over it.
    fn keep_api(&self, settings: &Settings) -> Result<(), RequestError> {
        if settings.changes(&self.settings).iter().any(|name| API.contains(name)) {
            return Err(RequestError::Conflict("the API cannot change itself"));
        }
        Ok(())
    }

    /// Changes the settings: while a run is under way only some, otherwise all.
    fn change(&mut self, settings: Settings) -> Result<Outcome, RequestError> {
        self.keep_api(&settings)?;
        let mut changed = settings.changes(&self.settings);
        changed.retain(|name| *name != "schema_version");
        let wanted = settings.over(self.settings.clone());
        let config = wanted.resolve()?;
        if let Some(run) = &self.run {
            let more = |dial: &Dial| config.threads.is_some_and(|count| count > dial.workers());
            let fixed: Vec<_> = changed
                .iter()
                .copied()
                .filter(|name| match *name {
                    // Fewer can rest; more would need memory. Before they are there, nobody knows.
                    "threads" => run.dial.get().is_none_or(more),
                    name => FIXED.contains(&name),
                })
                .collect();
            if !fixed.is_empty() {
                return Err(RequestError::RestartNeeded(fixed));
            }
            if config.source.is_none() {
                return Err(RequestError::NoSource);
            }
            if let (Some(dial), Some(threads)) = (run.dial.get(), config.threads)
                && changed.contains(&"threads")
            {
                dial.set(threads);
            }
            run.config.send_replace(config.clone());
        }
        self.settings = wanted;
        self.board.change_config(&config);
        if changed.is_empty() {
            return Ok(Outcome { message: "nothing was changed".to_owned() });
        }
        let message = format!("changed: {}", changed.join(", "));
        self.board.log(Level::Info, "config", message.clone());
        Ok(Outcome { message })
    }

    /// Begins a run, and shows a failure to begin.
    fn start(&mut self, config: Config) {
        self.board.set_config(&config);
        if let Err(error) = self.begin(config) {
            self.board.fail(&error.to_string());
        }
    }

    fn begin(&mut self, config: Config) -> Result<(), MinerError> {
        if config.source.is_none() {
            return Err(MinerError::NoSource);
        }
        self.board.move_to(Lifecycle::Starting, "a run begins");
        let (stop, stopped) = watch::channel(false);
        let (config, live) = watch::channel(config);
        let dial = Arc::new(OnceLock::new());
        let task = tokio::spawn(run(live, Arc::clone(&self.board), Arc::clone(&dial), stopped));
        self.run = Some(Run { stop, config, dial, task });
        Ok(())
    }

    async fn end(&mut self) -> Result<(), MinerError> {
        if let Some(run) = &self.run {
            // An error: the run has ended by itself.
            let _ = run.stop.send(true);
        }
        let result = ended(&mut self.run).await;
        self.run = None;
        result
    }

    fn show_end(&self, result: &Result<(), MinerError>) {
        match result {
            Ok(()) => self.board.move_to(Lifecycle::Idle, "the run has ended"),
            Err(error) => self.board.fail(&error.to_string()),
        }
    }
}

/// A run, from its plan to its end.
async fn run(
    mut live: watch::Receiver<Config>,
    board: Arc<Board>,
    dial: Arc<OnceLock<Dial>>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), MinerError> {
    let config = live.borrow_and_update().clone();
    let mut options = config.cpu_options();
    if config.autotune && options.threads.is_none() {
        let Some(tuned) = tune(&config, &board, &mut stop).await? else { return Ok(()) };
        options.threads = Some(tuned.threads);
        options.side_by_side = Some(tuned.side_by_side);
    }
    let devices = devices(&config, &mut options)?;
    let backend = CpuBackend::new(&options)?;
    // Set once: this run is its only owner.
    let _ = dial.set(backend.dial());
    let plan = backend.plan();
    let words = format!(
        "{} threads with {} hashes side by side, {} MiB, kernel {}",
        plan.threads,
        plan.side_by_side,
        plan.memory_kib / 1024,
        plan.isa
    );
    board.log(Level::Info, "engine", words);
    let half = half_in_words(plan.isa, plan.side_by_side);
    let words = format!("takes {} MiB of memory; {half}", plan.total_kib / 1024);
    board.log(Level::Info, "engine", words);
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(backend)];
    for device in devices {
        board.log(Level::Info, "engine", format!("{}: opens when the run begins", device.name()));
        backends.push(device);
    }
    let (engine, events) = Engine::start(EngineOptions::new(backends))?;
    let session = Session::new(live, engine, events, board)?;
    Ok(session.run(stop).await?)
}

/// The graphics processors of the settings.
#[cfg(any(feature = "gpu", feature = "cuda"))]
fn devices(config: &Config, cpu: &mut CpuOptions) -> Result<Vec<Box<dyn Backend>>, MinerError> {
    Ok(gpu::backends(config, cpu)?)
}

/// None: settings with a name are refused.
#[cfg(not(any(feature = "gpu", feature = "cuda")))]
fn devices(_: &Config, _: &mut CpuOptions) -> Result<Vec<Box<dyn Backend>>, MinerError> {
    Ok(Vec::new())
}

/// Tries out how many threads are best. `None` when told to stop.
async fn tune(
    config: &Config,
    board: &Arc<Board>,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Tuned>, MinerError> {
    let options = TuneOptions {
        cpu: config.cpu_options(),
        secs: config.autotune_secs as f64,
        cache: config.autotune_cache.clone(),
        ..TuneOptions::default()
    };
    let flag = Arc::new(AtomicBool::new(false));
    let (told, tells) = (Arc::clone(&flag), Arc::clone(board));
    let mut tuning = tokio::task::spawn_blocking(move || {
        autotune(&options, &told, &mut |words| tells.log(Level::Info, "autotune", words))
    });
    let result = tokio::select! {
        result = &mut tuning => result,
        () = finished(stop) => {
            flag.store(true, Ordering::Release);
            // Its result is of no use any more.
            let _ = tuning.await;
            return Ok(None);
        }
    };
    let tuned = result.map_err(|_| MinerError::Broken)??;
    let from = if tuned.cached { "as found before" } else { "as found now" };
    let words = format!("{} threads are best here, {from}", tuned.threads);
    board.log(Level::Success, "autotune", words);
    Ok(Some(tuned))
}

/// The end of the run; pending for ever without one. Safe to give up.
async fn ended(run: &mut Option<Run>) -> Result<(), MinerError> {
    match run {
        Some(run) => (&mut run.task).await.unwrap_or(Err(MinerError::Broken)),
        None => std::future::pending().await,
    }
}

const REQUESTS_MAX: usize = 16;
/// Settings of the API itself.
const API: [&str; 4] = ["api", "api_bind", "api_allow_unsafe_bind", "service"];
/// Settings behind a run's memory and threads.
const FIXED: [&str; 12] = [
    "memory_kib",
    "side_by_side",
    "affinity",
    "isa",
    "gpu",
    "gpu_memory_kib",
    "gpu_watts",
    "memory_budget_kib",
    "oversubscribe",
    "autotune",
    "autotune_secs",
    "autotune_cache",
];
