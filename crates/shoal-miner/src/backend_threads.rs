//! The threads of backends, one for each, and the thread for verification.
//!
//! A backend lives on its thread: blocking calls and panics are nobody else's trouble.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use shoal_pow::{Challenge, Options};

use crate::backend::{Backend, BackendError, Calls, Interrupt, Report, Sink};
use crate::schedule::{Claim, Command, Failure, Input, Outcome};

/// All of them.
pub(crate) struct BackendThreads {
    hands: Vec<Hand>,
    claims: Option<Sender<Claim>>,
    verifier: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// A backend's thread, seen from outside.
struct Hand {
    commands: Option<Sender<Command>>,
    interrupt: Arc<dyn Interrupt>,
    thread: Option<JoinHandle<()>>,
}

impl BackendThreads {
    /// Starts a thread for each backend, to wait for its first command.
    ///
    /// # Errors
    /// The system's error when there is no thread; threads started before end.
    pub(crate) fn start(
        backends: Vec<Box<dyn Backend>>,
        inputs: &Sender<Input>,
        stop: &Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let (claims, claimed) = mpsc::channel();
        let verifier = Verifier { claimed, inputs: inputs.clone(), stop: Arc::clone(stop) };
        let verifier =
            thread::Builder::new().name("shoal-verify".into()).spawn(move || verifier.run())?;
        let mut backend_threads = Self {
            hands: Vec::new(),
            claims: Some(claims),
            verifier: Some(verifier),
            stop: Arc::clone(stop),
        };
        for (number, backend) in backends.into_iter().enumerate() {
            let (commands, received) = mpsc::channel();
            let interrupt = backend.interrupt();
            let inputs = inputs.clone();
            let name = format!("shoal-{}", backend.name());
            let executor = Executor {
                number,
                backend,
                received,
                inputs,
                stop: Arc::clone(stop),
                sampled: Instant::now(),
            };
            let thread = thread::Builder::new().name(name).spawn(move || executor.run())?;
            backend_threads.hands.push(Hand {
                commands: Some(commands),
                interrupt,
                thread: Some(thread),
            });
        }
        Ok(backend_threads)
    }

    pub(crate) fn command(&self, backend: usize, command: Command) {
        if let Some(commands) = &self.hands[backend].commands {
            // A thread already gone has said so.
            let _ = commands.send(command);
        }
    }

    pub(crate) fn interrupt(&self, backend: usize) {
        self.hands[backend].interrupt.interrupt();
    }

    pub(crate) fn verify(&self, claim: Claim) {
        if let Some(claims) = &self.claims {
            let _ = claims.send(claim);
        }
    }

    /// Ends all listening threads, and waits for those about to end. `true` when all did.
    pub(crate) fn end(mut self) -> bool {
        self.let_go();
        let until = Instant::now() + END_GRACE;
        let mut all = true;
        for thread in self.hands.iter_mut().filter_map(|hand| hand.thread.take()) {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                all = false;
            }
        }
        if let Some(verifier) = self.verifier.take() {
            // It stops between two slices.
            let _ = verifier.join();
        }
        all
    }

    fn let_go(&mut self) {
        self.stop.store(true, Relaxed);
        self.claims = None;
        for hand in &mut self.hands {
            hand.commands = None;
        }
    }
}

impl Drop for BackendThreads {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A backend's thread.
struct Executor {
    number: usize,
    backend: Box<dyn Backend>,
    received: Receiver<Command>,
    inputs: Sender<Input>,
    stop: Arc<AtomicBool>,
    sampled: Instant,
}

impl Executor {
    fn run(mut self) {
        let mut started = false;
        loop {
            let command = match self.received.recv_timeout(self.pause()) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
            };
            if let Some(command) = command {
                let starts = matches!(command, Command::Start);
                let outcome = guarded(|| self.obey(command));
                started |= starts && outcome.is_ok();
                // Counted before the call is told to be done.
                self.sample();
                let capabilities = self.backend.capabilities();
                let backend = self.number;
                let _ = self.inputs.send(Input::Acked { backend, outcome, capabilities });
            } else if started
                && matches!(self.backend.capabilities().calls, Calls::Nonblocking { .. })
                && let Err(failure) = guarded(|| self.backend.poll().map(|()| Outcome::Done))
            {
                started = false;
                let error = match failure {
                    Failure::Error(error) => error,
                    Failure::Panic(text) => BackendError::Device(format!("it panicked: {text}")),
                };
                let report = Report::Failed(error);
                let _ = self.inputs.send(Input::Reported { backend: self.number, report });
            }
            if self.sampled.elapsed() >= SAMPLE_EVERY {
                self.sample();
            }
        }
        let stopped = guarded(|| {
            self.backend.stop();
            Ok(Outcome::Done)
        });
        self.sample();
        let Self { number, backend, inputs, .. } = self;
        // A backend unable even to stop is not dropped either: a drop would panic again.
        if stopped.is_err() {
            std::mem::forget(backend);
        } else {
            drop(backend);
        }
        let _ = inputs.send(Input::Gone { backend: number });
    }

    /// How long to wait for a command.
    fn pause(&self) -> Duration {
        match self.backend.capabilities().calls {
            Calls::Nonblocking { poll } => poll.clamp(POLL_MIN, SAMPLE_EVERY),
            Calls::Blocking => SAMPLE_EVERY,
        }
    }

    fn obey(&mut self, command: Command) -> Result<Outcome, BackendError> {
        match command {
            Command::Start => {
                let (inputs, backend) = (self.inputs.clone(), self.number);
                let sink = Sink::new(move |report| {
                    // After the end, nobody listens.
                    let _ = inputs.send(Input::Reported { backend, report });
                });
                self.backend.start(sink, Arc::clone(&self.stop))?;
            }
            Command::Assign(lease) => self.backend.assign(lease)?,
            Command::Cancel(handover) => self.backend.cancel(handover)?,
            Command::Fence(deadline) => return self.backend.fence(deadline).map(Outcome::Fence),
            Command::Stop => {}
        }
        Ok(Outcome::Done)
    }

    fn sample(&mut self) {
        self.sampled = Instant::now();
        let hashes = self.backend.take_hashes();
        let telemetry = self.backend.telemetry();
        let _ = self.inputs.send(Input::Sampled { backend: self.number, hashes, telemetry });
    }
}

/// Runs a backend's code; a panic is a result.
fn guarded(run: impl FnOnce() -> Result<Outcome, BackendError>) -> Result<Outcome, Failure> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "without a message".to_owned());
            Err(Failure::Panic(text))
        }
    }
}

/// The thread for computing claims again.
struct Verifier {
    claimed: Receiver<Claim>,
    inputs: Sender<Input>,
    stop: Arc<AtomicBool>,
}

impl Verifier {
    fn run(self) {
        while let Ok(claim) = self.claimed.recv() {
            if self.stop.load(Relaxed) {
                break;
            }
            let result = self.verify(&claim);
            // Given up because the end came: nobody wants to know.
            if self.stop.load(Relaxed) {
                break;
            }
            let _ = self.inputs.send(Input::Verified(result));
        }
    }

    /// `true` for the nonce's own tag; memory missing now may be there in a second.
    fn verify(&self, claim: &Claim) -> Result<bool, String> {
        let Claim { work, nonce, tag, .. } = claim;
        let challenge = Challenge::new(&work.header, work.memory_kib, work.target)
            .map_err(|error| error.to_string())?;
        let options = Options::default().stop(&self.stop);
        let mut result = challenge.tag(*nonce, &options);
        for _ in 1..VERIFY_ATTEMPTS {
            if result.is_ok() || self.stop.load(Relaxed) {
                break;
            }
            thread::sleep(VERIFY_PAUSE);
            result = challenge.tag(*nonce, &options);
        }
        result.map(|real| real == *tag).map_err(|error| error.to_string())
    }
}

/// How often counters are looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// However often a backend wants to be polled, others use the processor, too.
const POLL_MIN: Duration = Duration::from_micros(100);

/// Time for threads to end.
const END_GRACE: Duration = Duration::from_millis(200);

/// Tries of a verification without memory.
const VERIFY_ATTEMPTS: usize = 3;

/// Time between two of these.
const VERIFY_PAUSE: Duration = Duration::from_millis(500);
