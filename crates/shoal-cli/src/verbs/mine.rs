//! `shoal mine`: mining, its benchmark, its doctor.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use shoal_miner::CpuOptions;
use shoal_miner::api::Server;
use shoal_miner::bench::{self, BenchKind, BenchOptions, Progress, Round};
use shoal_miner::board::{Board, Level};
use shoal_miner::config::{Config, Secret, Settings};
use shoal_miner::doctor;
use shoal_miner::miner::{Miner, MinerError};
use shoal_miner::ui;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::args::mine::{MineArgs, Ui};
use crate::failure::Failure;
use crate::out;

pub(crate) fn run(args: &MineArgs) -> Result<(), Failure> {
    if args.doctor.doctor {
        return doctor(args);
    }
    if args.bench.bench {
        return bench(args);
    }
    mine(args)
}

fn mine(args: &MineArgs) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::at("mine", error).code(WRONG_SETTINGS);
    let base = match &args.config {
        Some(path) => Settings::from_file(path).map_err(|error| wrong(&error))?,
        None => Settings::default(),
    };
    let settings = settings(args).over(base);
    let config = settings.resolve().map_err(|error| wrong(&error))?;
    if config.source.is_none() && !config.service {
        return Err(wrong(&MinerError::NoSource).hint("shoal mine --pool URL --address ADDRESS"));
    }
    let screen = match args.ui {
        Some(Ui::Tui) => true,
        Some(Ui::Plain) => false,
        None => io::stdout().is_terminal() && io::stderr().is_terminal(),
    };
    runtime()?.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let stop = Arc::new(stop);
        on_signals(Arc::clone(&stop))?;
        let board = Arc::new(Board::new());
        let (miner, control) = Miner::new(settings, Arc::clone(&board));
        let server = if config.api {
            let server = Server::start(config.api_bind, Arc::clone(&board), control.clone())
                .await
                .map_err(|error| Failure::at(config.api_bind, error))?;
            let address = server.address();
            board.log(Level::Info, "api", format!("http://{address}"));
            Some(server)
        } else {
            None
        };
        let shown = Shown::begin(screen, &board, &stop);
        let lived = miner.live(stopped).await;
        // Clients waiting for an answer over the API hear of the end instead.
        drop(control);
        let shown = shown.end().await;
        if let Some(server) = server {
            server.stop().await;
        }
        if screen {
            out::note(ui::summary(&board.state()));
        }
        lived.map_err(|error| Failure::at("mine", error))?;
        shown
    })
}

/// The settings given on the command line.
fn settings(args: &MineArgs) -> Settings {
    let MineArgs { machine, api, .. } = args;
    let given = |flag: bool| flag.then_some(true);
    Settings {
        pool: args.pool.clone(),
        node: args.node.clone(),
        address: args.address.clone(),
        worker: args.worker.clone(),
        token: args.token.clone().map(Secret::new),
        cookie: args.cookie.clone(),
        memory_kib: machine.memory_kib,
        threads: machine.threads.map(usize::from),
        side_by_side: machine.side_by_side.map(usize::from),
        affinity: machine.affinity.clone(),
        isa: machine.isa.clone(),
        gpu: (!machine.gpu.is_empty()).then(|| machine.gpu.clone()),
        gpu_memory_kib: machine.gpu_memory_kib,
        gpu_watts: machine.gpu_watts,
        memory_budget_kib: machine.memory_budget_kib,
        oversubscribe: given(machine.oversubscribe),
        autotune: given(machine.autotune),
        autotune_cache: machine.autotune.then(autotune_cache).flatten(),
        stats_secs: args.stats_secs,
        api: given(api.api || api.api_bind.is_some()),
        api_bind: api.api_bind,
        api_allow_unsafe_bind: given(api.api_allow_unsafe_bind),
        service: given(api.service),
        ..Settings::default()
    }
}

/// File of the autotuner's results for this machine, among the user's other caches.
fn autotune_cache() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("shoal").join("autotune.json"))
}

/// The display during mining, running beside the miner.
enum Shown {
    Lines { end: watch::Sender<bool>, task: tokio::task::JoinHandle<io::Result<()>> },
    Screen { end: Arc<AtomicBool>, thread: tokio::task::JoinHandle<io::Result<bool>> },
}

impl Shown {
    fn begin(screen: bool, board: &Arc<Board>, stop: &Arc<watch::Sender<bool>>) -> Self {
        let (board, stop) = (Arc::clone(board), Arc::clone(stop));
        if screen {
            let end = Arc::new(AtomicBool::new(false));
            let ended = Arc::clone(&end);
            let thread = tokio::task::spawn_blocking(move || {
                let result = ui::Screen::new(board).run(&ended);
                // A key, or no terminal: either way nobody looks any more.
                stop.send_replace(true);
                result
            });
            return Self::Screen { end, thread };
        }
        let (end, ended) = watch::channel(false);
        let task = tokio::spawn(async move {
            let result = ui::plain(board, out::stderr(), ended).await;
            stop.send_replace(true);
            result
        });
        Self::Lines { end, task }
    }

    async fn end(self) -> Result<(), Failure> {
        let result = match self {
            Self::Lines { end, task } => {
                end.send_replace(true);
                task.await.map_err(io::Error::other)
            }
            Self::Screen { end, thread } => {
                end.store(true, Ordering::Release);
                thread.await.map_err(io::Error::other).map(|result| result.map(drop))
            }
        };
        Ok(result??)
    }
}

/// The first signal asks for the end, the second insists.
fn on_signals(stop: Arc<watch::Sender<bool>>) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::at("signals", error))?;
    tokio::spawn(async move {
        signals.next().await;
        stop.send_replace(true);
        signals.next().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without signals there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn bench(args: &MineArgs) -> Result<(), Failure> {
    let wanted = &args.bench;
    let wrong = |option: &str, error: &dyn std::fmt::Display| {
        Failure::at(option, error).code(WRONG_SETTINGS)
    };
    if !wanted.secs.is_finite() || wanted.secs <= 0.0 || wanted.secs > BENCH_SECS_MAX {
        return Err(wrong("--secs", &"a number of seconds above 0, a day at most"));
    }
    if wanted.rounds == 0 {
        return Err(wrong("--rounds", &"at least 1"));
    }
    let options = BenchOptions {
        kind: wanted.kind.parse::<BenchKind>().map_err(|error| wrong("--kind", &error))?,
        cpu: cpu_options(args)?,
        secs: wanted.secs,
        rounds: wanted.rounds,
        warmup_rounds: wanted.warmup_rounds,
        with_less: true,
    };
    let config = config(args)?;
    if !config.gpu.is_empty() {
        return bench_devices(args, &config, options);
    }
    let report = measured(move |stop| {
        bench::run(&options, stop, &mut |progress| match progress {
            Progress::Round(round) => note_round(round),
            Progress::WithLess { side_by_side } => {
                out::note(format_args!("with less memory, {side_by_side} at a time:"));
            }
        })
    })?;
    match &args.bench.json {
        Some(path) => write_json(path, &report)?,
        None => out::line(&report)?,
    }
    Ok(())
}

/// Each graphics processor alone, then all of them and the processor together.
#[cfg(any(feature = "gpu", feature = "cuda"))]
fn bench_devices(args: &MineArgs, config: &Config, options: BenchOptions) -> Result<(), Failure> {
    use shoal_miner::CpuBackend;
    use shoal_miner::backend::{Backend, gpu};

    let config = config.clone();
    let reports = measured(move |stop| {
        let run = |backends: Vec<Box<dyn Backend>>| {
            let names: Vec<_> = backends.iter().map(|backend| backend.name()).collect();
            out::note(format_args!("{}:", names.join(" and ")));
            bench::run_backends(backends, config.memory_kib, &options, stop, &mut note_round)
                .map_err(|error| error.to_string())
        };
        let mut reports = Vec::new();
        let mut cpu = config.cpu_options();
        let devices = |cpu: &mut CpuOptions| gpu::backends(&config, cpu).map_err(|e| e.to_string());
        for device in devices(&mut cpu.clone())? {
            reports.push(run(vec![device])?);
        }
        let mut together = devices(&mut cpu)?;
        together.push(Box::new(CpuBackend::new(&cpu).map_err(|error| error.to_string())?));
        reports.push(run(together)?);
        Ok::<_, String>(reports)
    })?;
    match &args.bench.json {
        Some(path) => write_json(path, &reports)?,
        None => reports.iter().try_for_each(out::line)?,
    }
    Ok(())
}

/// Settings with a device are refused before.
#[cfg(not(any(feature = "gpu", feature = "cuda")))]
fn bench_devices(_: &MineArgs, _: &Config, _: BenchOptions) -> Result<(), Failure> {
    unreachable!("settings name no device in a build without them")
}

fn note_round(round: &Round) {
    out::note(format_args!("round {}: {:.3} H/s", round.round, round.rate));
}

/// Runs a measurement on a thread of its own, until the end or a signal.
fn measured<R: Send + 'static, E: std::fmt::Display + Send + 'static>(
    run: impl FnOnce(&AtomicBool) -> Result<R, E> + Send + 'static,
) -> Result<R, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    runtime()?.block_on(async {
        let (asked, mut stopped) = watch::channel(false);
        on_signals(Arc::new(asked))?;
        let flag = Arc::clone(&stop);
        tokio::spawn(async move {
            let _ = stopped.wait_for(|&stop| stop).await;
            flag.store(true, Ordering::Release);
        });
        let ran = tokio::task::spawn_blocking(move || run(&stop)).await;
        ran.map_err(|error| Failure::at("bench", error))?
            .map_err(|error| Failure::at("bench", error))
    })
}

/// The processor's share of the settings, by the same rules as for mining.
fn cpu_options(args: &MineArgs) -> Result<CpuOptions, Failure> {
    Ok(config(args)?.cpu_options())
}

fn config(args: &MineArgs) -> Result<Config, Failure> {
    settings(args).resolve().map_err(|error| Failure::at("mine", error).code(WRONG_SETTINGS))
}

fn doctor(args: &MineArgs) -> Result<(), Failure> {
    let options = cpu_options(args)?;
    let mut diagnosis = doctor::examine(&options);
    if args.doctor.fix {
        let done = doctor::fix(&diagnosis, &mut |line| out::note(line))
            .map_err(|error| Failure::at("doctor", error))?;
        out::note(format_args!("{done} fixed"));
        diagnosis = doctor::examine(&options);
    }
    match &args.bench.json {
        Some(path) => write_json(path, &diagnosis)?,
        None => out::line(&diagnosis)?,
    }
    Ok(())
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::at("json", error))?;
    if path == Path::new("-") {
        out::line(text)?;
        return Ok(());
    }
    fs::write(path, text + "\n").map_err(|error| Failure::at(path.display(), error))
}

/// One thread is enough for sockets and timers; hashing has its own.
fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::at("mine", error))
}

const WRONG_SETTINGS: u8 = 2;
const INTERRUPTED: i32 = 130;
const BENCH_SECS_MAX: f64 = 86_400.0;
