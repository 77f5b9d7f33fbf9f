//! The miner as a whole against the test pool and the test node: hashes of 64 KiB, real sockets,
//! every fault. Each test takes a second or a few.

#![allow(clippy::unwrap_used)]

mod api;
#[cfg(any(feature = "gpu", feature = "cuda"))]
mod cuda;
#[cfg(feature = "gpu")]
mod gpu;
mod node;
mod pool;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_miner::board::Board;
use shoal_miner::config::Settings;
use shoal_miner::miner::{Control, Miner};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// Long enough for a busy machine; tests do not wait for it when all goes well.
const LONG: Duration = Duration::from_secs(60);

/// A miner in a thread of its own.
struct Running {
    board: Arc<Board>,
    /// Every line of the log: the board keeps the last ones only, and shares come fast.
    lines: Arc<Mutex<Vec<String>>>,
    /// The last word about each share, by nonce.
    verdicts: Arc<Mutex<HashMap<u64, String>>>,
    control: Control,
    stop: watch::Sender<bool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Running {
    fn start(settings: Settings) -> Self {
        let board = Arc::new(Board::new());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let verdicts = Arc::new(Mutex::new(HashMap::new()));
        let (mut heard, kept) = (board.subscribe(), Arc::clone(&lines));
        let judged = Arc::clone(&verdicts);
        // It ends with the board.
        std::thread::spawn(move || {
            loop {
                match heard.blocking_recv() {
                    Ok(news) if news.name == "miner.log" => {
                        let words = news.data["message"].as_str().unwrap_or_default();
                        kept.lock().unwrap().push(words.to_owned());
                    }
                    Ok(news) if news.name == "submit.result" => {
                        let verdict = news.data["verdict"].as_str().unwrap().to_owned();
                        let nonce = news.data["nonce"].as_u64().unwrap();
                        judged.lock().unwrap().insert(nonce, verdict);
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let (miner, control) = Miner::new(settings, Arc::clone(&board));
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            runtime().block_on(miner.live(stopped)).map_err(|error| error.to_string())
        });
        Self { board, lines, verdicts, control, stop, thread }
    }

    /// Ends it; that must not take long.
    fn stop(self) -> Result<(), String> {
        self.stop.send_replace(true);
        self.end()
    }

    /// Waits for its end.
    fn end(self) -> Result<(), String> {
        let begun = Instant::now();
        let result = self.thread.join().unwrap();
        assert!(begun.elapsed() < LONG / 2, "it took {:?} to end", begun.elapsed());
        result
    }

    /// Waits until the board is so.
    fn wait(&self, so: impl Fn(&shoal_miner::board::State) -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            if so(&self.board.state()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Waits until the log has these words.
    #[track_caller]
    fn hear(&self, words: &str) {
        let heard = || self.lines.lock().unwrap().iter().any(|line| line.contains(words));
        assert!(self.wait(|_| heard()), "nobody said: {words}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One thread, hashes of 64 KiB, short waits.
fn small() -> Settings {
    Settings {
        memory_kib: Some(64),
        threads: Some(1),
        side_by_side: Some(1),
        affinity: Some("off".to_owned()),
        retry_first_ms: Some(50),
        retry_longest_ms: Some(400),
        ..Settings::default()
    }
}
