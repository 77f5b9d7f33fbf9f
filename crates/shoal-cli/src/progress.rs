//! Progress of work longer than a second, on stderr when stderr is a terminal: a spinner, or a bar
//! where the total is known.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Read};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Runs `work`; after a second, a spinner shows `what` until `work` ends.
pub(crate) fn spin<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    Spinner::new().spin(what, work)
}

/// Watches one piece of work after another. Costs a message at each end of a piece.
pub(crate) struct Spinner {
    watcher: Option<Watcher>,
}

struct Watcher {
    signals: Sender<Signal>,
    cleared: Receiver<()>,
    thread: JoinHandle<()>,
}

enum Signal {
    Begin(&'static str),
    End,
}

impl Spinner {
    /// A spinner, not shown yet; never shown when stderr is no terminal.
    pub(crate) fn new() -> Self {
        Self { watcher: std::io::stderr().is_terminal().then(Watcher::start) }
    }

    /// Runs `work`, spinning once `work` has taken a second.
    pub(crate) fn spin<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let Some(watcher) = &self.watcher else { return work() };
        let start = Instant::now();
        // A dead watcher shows nothing; the work matters more.
        let _ = watcher.signals.send(Signal::Begin(what));
        let result = work();
        // Answers left unread by earlier, shorter pieces must not be taken for this piece's.
        while watcher.cleared.try_recv().is_ok() {}
        let _ = watcher.signals.send(Signal::End);
        if start.elapsed() > PATIENCE / 2 {
            // The line must be clear before anyone else writes on the terminal.
            let _ = watcher.cleared.recv_timeout(PATIENCE);
        }
        result
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(Watcher { signals, thread, .. }) = self.watcher.take() {
            drop(signals);
            let _ = thread.join();
        }
    }
}

impl Watcher {
    fn start() -> Self {
        let (signals, received) = mpsc::channel();
        let (clear, cleared) = mpsc::channel();
        let thread = std::thread::spawn(move || watch(&received, &clear));
        Self { signals, cleared, thread }
    }
}

fn watch(signals: &Receiver<Signal>, clear: &Sender<()>) {
    while let Ok(signal) = signals.recv() {
        let Signal::Begin(what) = signal else { continue };
        let mut ended = signals.recv_timeout(PATIENCE);
        if matches!(ended, Err(RecvTimeoutError::Timeout)) {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(TICK);
            ended = signals.recv().map_err(|_| RecvTimeoutError::Disconnected);
            bar.finish_and_clear();
        }
        if ended.is_err() || clear.send(()).is_err() {
            return;
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// A bar of bytes. Costs a look at the clock for every buffer read.
pub(crate) struct Bar {
    state: Rc<BarState>,
}

struct BarState {
    /// `None` for an input of unknown length.
    total: Option<u64>,
    done: Cell<u64>,
    start: Instant,
    is_seen: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Bar {
    /// A bar, not shown yet.
    pub(crate) fn new(total: Option<u64>) -> Bar {
        let is_seen = std::io::stderr().is_terminal();
        let (done, start, bar) = (Cell::new(0), Instant::now(), RefCell::new(None));
        Bar { state: Rc::new(BarState { total, done, start, is_seen, bar }) }
    }

    /// Counts bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.state.add(bytes);
    }

    /// Takes the bar from the terminal.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.state.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl BarState {
    fn add(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        if !self.is_seen || self.start.elapsed() < PATIENCE {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| match self.total {
            Some(total) => {
                let form = "{wide_bar} {bytes} of {total_bytes}, {eta} left";
                let style = ProgressStyle::with_template(form);
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                ProgressBar::new(total).with_style(style)
            }
            None => ProgressBar::new_spinner(),
        });
        bar.set_position(self.done.get());
    }
}

/// A reader whose bytes a bar counts.
pub(crate) struct Counted<R> {
    inner: R,
    state: Rc<BarState>,
}

impl<R> Counted<R> {
    /// Counts on `bar`.
    pub(crate) fn new(inner: R, bar: &Bar) -> Counted<R> {
        Counted { inner, state: Rc::clone(&bar.state) }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.state.add(read as u64);
        Ok(read)
    }
}
