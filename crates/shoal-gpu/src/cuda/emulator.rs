//! An emulated card for tests: a process running CUDA's programs on the processor, thread by
//! thread.
//!
//! The machine's C compiler and NVRTC compile the same text. To the host, the process behaves as a
//! card: memory has an end, addresses mean nothing in the host's own memory, requests are carried
//! out later and in their order, and the card can be lost.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::{Card, Name, SOURCE, Tuning};
use crate::device::{Adapter, AdapterKind, DeviceOptions, GpuError, Origin};
use crate::run::Drive;

/// An emulated card. Its clones are the same card.
#[derive(Clone, Debug)]
pub struct EmulatedCard {
    memory_kib: u64,
    part_kib: u64,
    wrong_from: u64,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    processes: Mutex<Vec<Child>>,
    is_unplugged: AtomicBool,
}

impl EmulatedCard {
    /// A card of so much memory, its pool in parts of 256 KiB.
    pub fn new(memory_kib: u64) -> Self {
        Self { memory_kib, part_kib: 256, wrong_from: 0, state: Arc::default() }
    }

    /// A card whose answer of this number, from 1 on, and all later ones are wrong in one bit.
    #[must_use]
    pub fn wrong_from(self, answer: u64) -> Self {
        Self { wrong_from: answer, ..self }
    }

    /// The adapter.
    ///
    /// # Errors
    /// The reason in words for a missing emulated card: most often, no C compiler.
    pub fn adapter(&self) -> Result<Adapter, String> {
        program().as_ref().map_err(Clone::clone)?;
        Ok(Adapter {
            name: "emulated card".to_owned(),
            kind: AdapterKind::Software,
            driver: "a process of this machine".to_owned(),
            api: "emulated".to_owned(),
            memory_kib: Some(self.memory_kib),
            origin: Origin::Emulated(self.clone()),
        })
    }

    /// Ends the card's process: the card is lost, and opens again only after [`Self::plug_in`].
    pub fn unplug(&self) {
        self.state.is_unplugged.store(true, Relaxed);
        let mut processes = self.state.processes.lock().unwrap_or_else(PoisonError::into_inner);
        for mut process in processes.drain(..) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Plugs the card in again.
    pub fn plug_in(&self) {
        self.state.is_unplugged.store(false, Relaxed);
    }
}

/// Starts the card's process, and tries the card out.
pub(crate) fn open(
    card: &EmulatedCard,
    adapter: &Adapter,
    options: &DeviceOptions,
) -> Result<Box<dyn Drive>, GpuError> {
    let process = Process::start(card).map_err(|why| GpuError::Driver(why.to_string()))?;
    super::open(process, adapter, options)
}

/// The compiled emulator, or why there is none. Compiled once in a process.
fn program() -> &'static Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| compile().map_err(|why| format!("no emulated card: {why}")))
}

fn compile() -> Result<PathBuf, String> {
    let folder = env::temp_dir().join(format!("shoal-emulated-card-{}", std::process::id()));
    let program = folder.join("card");
    let place = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(place)?;
    fs::write(folder.join("argon2id.cu"), SOURCE).map_err(place)?;
    fs::write(folder.join("emulator.c"), include_str!("emulator.c")).map_err(place)?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=gnu99", "-O2", "-o"])
        .arg(&program)
        .arg(folder.join("emulator.c"))
        .output()
        .map_err(|error| format!("{}: {error}", compiler.display()))?;
    if output.status.success() {
        Ok(program)
    } else {
        Err(format!("{}: {}", compiler.display(), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Watts of an emulated card, and the lowest limit.
const WATTS: u32 = 75;
const WATTS_MIN: u32 = 10;

/// The card's process, with one thread writing requests and one thread reading answers.
#[derive(Debug)]
struct Process {
    part_kib: u64,
    /// Requests on their way. Dropping the sender closes the process's input, and the process ends.
    requests: Sender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
    /// Answers received and not taken yet, by number.
    untaken: HashMap<u64, Vec<u8>>,
    received: u64,
    asked: u64,
    watts: u32,
}

/// Memory of the process.
#[derive(Debug)]
struct Memory {
    address: u64,
    requests: Sender<Vec<u8>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // An ended process has no memory to free.
        let _ = self.requests.send(request(b'F', &[self.address]));
    }
}

fn request(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn lost() -> GpuError {
    GpuError::Driver("device lost: the emulated card's process ended".to_owned())
}

impl Process {
    fn start(card: &EmulatedCard) -> io::Result<Self> {
        if card.state.is_unplugged.load(Relaxed) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the card is not plugged in"));
        }
        let program = program().as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let mut child = Command::new(program)
            .args([(card.memory_kib << 10).to_string(), card.wrong_from.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let mut stdout = io::BufReader::new(child.stdout.take().expect("it is piped"));
        let mut processes = card.state.processes.lock().unwrap_or_else(PoisonError::into_inner);
        // Processes of devices closed meanwhile have ended by themselves.
        processes.retain_mut(|process| !matches!(process.try_wait(), Ok(Some(_))));
        processes.push(child);
        drop(processes);
        let (requests, requested) = mpsc::channel::<Vec<u8>>();
        let (answered, answers) = mpsc::channel();
        thread::Builder::new().name("card-requests".into()).spawn(move || {
            while let Ok(bytes) = requested.recv() {
                if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        })?;
        thread::Builder::new().name("card-answers".into()).spawn(move || {
            let mut length = [0; 8];
            while stdout.read_exact(&mut length).is_ok() {
                let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
                if stdout.read_exact(&mut bytes).is_err() || answered.send(bytes).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self {
            part_kib: card.part_kib,
            requests,
            answers,
            untaken: HashMap::new(),
            received: 0,
            asked: 0,
            watts: WATTS,
        })
    }

    fn send(&self, request: Vec<u8>) -> Result<(), GpuError> {
        self.requests.send(request).map_err(|_| lost())
    }

    /// Sends a request with an answer, and returns the answer's number.
    fn ask(&mut self, request: Vec<u8>) -> Result<u64, GpuError> {
        self.send(request)?;
        self.asked += 1;
        Ok(self.asked - 1)
    }

    /// `true` once the answer of this number is there.
    fn is_there(&mut self, number: u64, most: Duration) -> Result<bool, GpuError> {
        let until = Instant::now() + most;
        loop {
            if number < self.received {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            let answer = if left.is_zero() {
                self.answers.try_recv().map_err(|error| error == TryRecvError::Disconnected)
            } else {
                let received = self.answers.recv_timeout(left);
                received.map_err(|error| error == RecvTimeoutError::Disconnected)
            };
            match answer {
                Ok(bytes) => {
                    self.untaken.insert(self.received, bytes);
                    self.received += 1;
                }
                Err(true) => return Err(lost()),
                Err(false) => return Ok(false),
            }
        }
    }

    /// The answer to a request, waited for. Earlier answers stay until they are taken.
    fn answer(&mut self, request: Vec<u8>) -> Result<Vec<u8>, GpuError> {
        let number = self.ask(request)?;
        while !self.is_there(number, Duration::from_secs(1))? {}
        self.untaken.remove(&number).ok_or_else(lost)
    }
}

impl Card for Process {
    type Memory = Memory;
    /// The answer's number.
    type Read = u64;

    fn memory(&mut self) -> Result<(u64, u64), GpuError> {
        let answer = self.answer(request(b'M', &[]))?;
        let (numbers, _) = answer.as_chunks();
        let [free, total] = numbers else { return Err(lost()) };
        Ok((u64::from_le_bytes(*free), u64::from_le_bytes(*total)))
    }

    fn part_bytes(&self) -> u64 {
        self.part_kib << 10
    }

    fn allocate(&mut self, bytes: u64) -> Result<Option<Memory>, GpuError> {
        let answer = self.answer(request(b'A', &[bytes]))?;
        let address = u64::from_le_bytes(answer.as_slice().try_into().map_err(|_| lost())?);
        Ok((address != 0).then(|| Memory { address, requests: self.requests.clone() }))
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn write(&mut self, to: &mut Memory, bytes: &[u8]) -> Result<(), GpuError> {
        let mut request = request(b'W', &[to.address, bytes.len() as u64]);
        request.extend_from_slice(bytes);
        self.send(request)
    }

    fn choose(&mut self, tuning: Tuning) -> Result<(), GpuError> {
        self.send(request(b'P', &[tuning.prefetch.into()]))
    }

    fn run(&mut self, name: Name, groups: u32, arguments: &[u64]) -> Result<(), GpuError> {
        let mut numbers = vec![name as u64, groups.into(), arguments.len() as u64];
        numbers.extend_from_slice(arguments);
        self.send(request(b'K', &numbers))
    }

    fn read(&mut self, from: &Memory, bytes: usize) -> Result<u64, GpuError> {
        self.ask(request(b'R', &[from.address, bytes as u64]))
    }

    fn take(&mut self, read: &mut u64) -> Result<Option<Vec<u8>>, GpuError> {
        if !self.is_there(*read, Duration::ZERO)? {
            return Ok(None);
        }
        self.untaken.remove(read).ok_or_else(lost).map(Some)
    }

    fn wait(&mut self, read: &u64, most: Duration) -> Result<(), GpuError> {
        self.is_there(*read, most).map(|_| ())
    }

    fn fingerprint(&self) -> String {
        "emulated card".to_owned()
    }

    fn watts(&self) -> Option<f64> {
        Some(self.watts.into())
    }

    fn limit(&mut self, watts: u32) -> Result<(), GpuError> {
        if watts < WATTS_MIN {
            let why = format!("the emulated card draws {WATTS_MIN} W at least");
            return Err(GpuError::Power { watts, why });
        }
        self.watts = self.watts.min(watts);
        Ok(())
    }
}
