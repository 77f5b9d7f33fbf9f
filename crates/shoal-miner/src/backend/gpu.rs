//! A graphics processor as a backend: nonblocking, its tags never trusted.
//!
//! A lost device is given up and opened again, after longer and longer pauses; nonces under way
//! are tried again then. Others go on meanwhile.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub use shoal_gpu::{Adapter, Device, DeviceOptions, adapters};
use shoal_gpu::{GpuError, Tried};
use shoal_pow::{Challenge, Target};

use super::cpu::CpuOptions;
use super::{
    Backend, BackendError, Calls, Capabilities, Fence, Hashes, Interrupt, Lease, Queue, Report,
    Sink, Telemetry, Worker,
};
use crate::config::Config;
use crate::memory::Budget;
use crate::work::{Handover, Work};

/// How a device is used.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// The backend's name.
    pub name: String,
    /// The device.
    pub adapter: Adapter,
    /// Memory of one hash.
    pub memory_kib: u32,
    /// Memory of the device to take; `None` for all of a card's, and for two hashes of memory
    /// shared with the machine.
    pub device_memory_kib: Option<u64>,
    /// Most watts of the device; `None` leaves the driver's limit.
    pub watts: Option<u32>,
    /// Where results of tuning are kept; `None` for an untuned device.
    pub tuning: Option<PathBuf>,
}

impl GpuOptions {
    /// A device with all its defaults.
    pub fn new(name: &str, adapter: Adapter, memory_kib: u32) -> Self {
        Self {
            name: name.to_owned(),
            adapter,
            memory_kib,
            device_memory_kib: None,
            watts: None,
            tuning: None,
        }
    }
}

/// The device.
pub struct GpuBackend {
    options: GpuOptions,
    device: Option<Device>,
    sink: Option<Sink>,
    queue: VecDeque<Held>,
    /// The work the device has.
    work: Option<Arc<Work>>,
    lanes: u32,
    memory_kib: u64,
    tried: u64,
    hashes: Hashes,
    retry: Option<Retry>,
    cut: Arc<AtomicBool>,
}

impl Held {
    /// The next nonce to try.
    fn next(&mut self) -> Option<u64> {
        let nonce =
            if self.is_late { None } else { self.again.pop_front().or_else(|| self.left.next()) };
        self.under_way.extend(nonce);
        nonce
    }

    /// `true` where every nonce is done.
    fn is_done(&self) -> bool {
        self.under_way.is_empty()
            && (self.is_late || (self.left.is_empty() && self.again.is_empty()))
    }
}

/// A lease, its nonces left and under way.
struct Held {
    lease: Lease,
    left: Range<u64>,
    /// Nonces lost with a device, to be tried again.
    again: VecDeque<u64>,
    /// Begun and not done, in their order.
    under_way: VecDeque<u64>,
    /// Nobody waits for its hashes: they count as late.
    is_late: bool,
}

/// A device to be opened again.
struct Retry {
    at: Instant,
    pause: Duration,
}

/// The first pause before a lost device is opened again; each next one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause; the device is given up after it, about a minute after the first fault.
const PAUSE_MAX: Duration = Duration::from_secs(32);

impl GpuBackend {
    /// A backend on a device; [`Backend::start`] opens the device.
    pub fn new(options: GpuOptions) -> Self {
        Self {
            options,
            device: None,
            sink: None,
            queue: VecDeque::new(),
            work: None,
            lanes: 1,
            memory_kib: 0,
            tried: 0,
            hashes: Hashes::default(),
            retry: None,
            cut: Arc::default(),
        }
    }

    /// Opens the device, and takes its memory.
    fn open(&mut self) -> Result<(), GpuError> {
        let options = DeviceOptions {
            memory_kib: self.options.device_memory_kib,
            watts: self.options.watts,
            tuning: self.options.tuning.clone(),
            ..DeviceOptions::default()
        };
        let mut device = Device::open(&self.options.adapter, &options)?;
        let nobody = Target::from_difficulty(0);
        device.begin(&Challenge::new(b"no header yet", self.options.memory_kib, nobody)?)?;
        self.lanes = device.lane_count();
        self.memory_kib = device.memory_kib();
        self.device = Some(device);
        self.work = None;
        Ok(())
    }

    fn tell(&self, report: Report) {
        if let Some(sink) = &self.sink {
            sink.tell(report);
        }
    }

    /// Goes on with the leases.
    fn go(&mut self) -> Result<(), GpuError> {
        let Some(device) = &mut self.device else { return Ok(()) };
        self.queue.retain(|held| {
            let is_past = held.lease.work.deadline.is_some_and(|at| at <= Instant::now());
            !(held.is_done() || (is_past && held.under_way.is_empty()))
        });
        let Some(first) = self.queue.front() else { return Ok(()) };
        // Another work waits until the hashes of this one are done.
        let work = Arc::clone(&first.lease.work);
        if self.work.as_ref().is_none_or(|now| !is_same(now, &work)) {
            device.begin(&Challenge::new(&work.header, work.memory_kib, work.target)?)?;
            self.work = Some(Arc::clone(&work));
        }
        let queue = &mut self.queue;
        let is_past = work.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let tried = device.advance(|| {
            let mut same = queue.iter_mut().filter(|held| is_same(&held.lease.work, &work));
            if is_past { None } else { same.find_map(Held::next) }
        })?;
        for hash in tried {
            self.done(hash);
        }
        Ok(())
    }

    /// Reports a nonce.
    fn done(&mut self, Tried { nonce, tag }: Tried) {
        let held = self.queue.iter_mut().find_map(|held| {
            let place = held.under_way.iter().position(|under_way| *under_way == nonce)?;
            held.under_way.remove(place);
            Some((held.lease.id, held.is_late))
        });
        // Given up with its lease.
        let Some((lease, is_late)) = held else { return };
        self.tried += 1;
        if is_late {
            self.hashes.late += 1
        } else {
            self.hashes.counted += 1
        }
        if let Some(tag) = tag {
            self.tell(Report::Found { lease, nonce, tag });
        }
        self.tell(Report::Done { lease, nonces: nonce..nonce + 1 });
    }

    /// Gives a failed device up, to be opened again.
    fn put_aside(&mut self, error: &GpuError, pause: Duration) {
        self.device = None;
        for held in &mut self.queue {
            held.again.append(&mut held.under_way);
        }
        self.tell(Report::Warning(format!("{error}; it is tried again in {pause:?}")));
        self.retry = Some(Retry { at: Instant::now() + pause, pause });
    }
}

impl Backend for GpuBackend {
    fn name(&self) -> Arc<str> {
        self.options.name.as_str().into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: self.lanes.max(1),
            device_memory_kib: Some(self.memory_kib),
            calls: Calls::Nonblocking { poll: Duration::from_millis(2) },
            queue: Queue::Append { depth: 2 },
            trusted: false,
            preemption: Some(2 * DeviceOptions::default().launch),
        }
    }

    fn start(&mut self, sink: Sink, _stop: Arc<AtomicBool>) -> Result<(), BackendError> {
        self.open().map_err(|error| BackendError::Device(error.to_string()))?;
        self.sink = Some(sink);
        Ok(())
    }

    fn assign(&mut self, lease: Lease) -> Result<(), BackendError> {
        let (needed, has) = (lease.work.memory_kib, self.memory_kib);
        if u64::from(needed) > has {
            let has = u32::try_from(has).unwrap_or(u32::MAX);
            return Err(BackendError::WorkTooLarge { needed, has });
        }
        Challenge::new(&lease.work.header, needed, lease.work.target)?;
        let left = lease.nonces.clone();
        let (again, under_way) = (VecDeque::new(), VecDeque::new());
        self.queue.push_back(Held { lease, left, again, under_way, is_late: false });
        Ok(())
    }

    fn cancel(&mut self, handover: Handover) -> Result<(), BackendError> {
        match handover {
            Handover::Abandon => {
                self.queue.clear();
                if let Some(device) = &mut self.device {
                    device.clear();
                }
            }
            Handover::Finish => {
                for held in &mut self.queue {
                    held.is_late = true;
                }
            }
        }
        Ok(())
    }

    fn fence(&mut self, _deadline: Instant) -> Result<Fence, BackendError> {
        Ok(if self.queue.is_empty() { Fence::Idle } else { Fence::Busy })
    }

    fn poll(&mut self) -> Result<(), BackendError> {
        if self.cut.load(Relaxed) {
            return Err(BackendError::Stopped);
        }
        let failed = match &self.retry {
            Some(retry) if Instant::now() < retry.at => return Ok(()),
            Some(retry) => {
                let pause = 2 * retry.pause;
                let opened = self.open();
                if opened.is_ok() {
                    self.retry = None;
                    self.tell(Report::Warning("the device works again".to_owned()));
                }
                opened.err().map(|error| (error, pause))
            }
            None => self.go().err().map(|error| (error, PAUSE_FIRST)),
        };
        match failed {
            Some((error, pause)) if pause > PAUSE_MAX => {
                Err(BackendError::Device(error.to_string()))
            }
            Some((error, pause)) => {
                self.put_aside(&error, pause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn take_hashes(&mut self) -> Hashes {
        std::mem::take(&mut self.hashes)
    }

    fn telemetry(&self) -> Telemetry {
        let worker = Worker {
            side_by_side: self.lanes,
            pages: "device".into(),
            memory_kib: self.memory_kib,
            hashes: self.tried,
            ..Worker::default()
        };
        let leases = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let device = self.device.as_ref();
        Telemetry {
            workers: vec![worker],
            leases,
            // A tuned device changes its program at work.
            kernel: device.map_or_else(|| "put aside".to_owned(), Device::kernel),
            watts: device.and_then(Device::watts),
        }
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::new(Cut(Arc::clone(&self.cut)))
    }

    fn stop(&mut self) {
        self.queue.clear();
        self.device = None;
        self.sink = None;
    }
}

/// Nothing here waits long: the next poll ends.
struct Cut(Arc<AtomicBool>);

impl Interrupt for Cut {
    fn interrupt(&self) {
        self.0.store(true, Relaxed);
    }
}

/// `true` for the same work, eased for devices or not.
fn is_same(one: &Work, other: &Work) -> bool {
    one.id == other.id && one.target == other.target
}

/// Why devices cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No device has the name.
    #[error("no device is called {name}; there are: {}", .there.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Every device.
        there: Vec<String>,
    },
    /// No device at all.
    #[error("there is no graphics device: no driver for {} names one", INTERFACES)]
    None,
}

/// Interfaces of this build, for people.
pub const INTERFACES: &str = match (cfg!(feature = "gpu"), cfg!(feature = "cuda")) {
    (true, true) => "CUDA, Vulkan, Metal or DirectX 12",
    (_, false) => "Vulkan, Metal or DirectX 12",
    (false, true) => "CUDA",
};

/// The devices of this machine by their names, as [`choose_among`].
///
/// # Errors
/// [`ChoiceError`].
pub fn choose(names: &[String]) -> Result<Vec<Adapter>, ChoiceError> {
    choose_among(&shoal_gpu::adapters(), names)
}

/// Devices by their names: parts of a name will do, and `cards` stands for every device with
/// memory of its own. A card known by two interfaces is chosen once, by CUDA, unless the
/// interface is named before a colon: `vulkan:rtx`.
///
/// # Errors
/// [`ChoiceError`].
pub fn choose_among(all: &[Adapter], names: &[String]) -> Result<Vec<Adapter>, ChoiceError> {
    if all.is_empty() {
        return Err(ChoiceError::None);
    }
    let is_of_cuda = |adapter: &Adapter| adapter.api == "cuda";
    let mut chosen: Vec<usize> = Vec::new();
    for name in names {
        let lower = name.to_lowercase();
        let (api, part) = match lower.split_once(':') {
            Some((api, part)) if all.iter().any(|adapter| adapter.api == api) => (Some(api), part),
            _ => (None, lower.as_str()),
        };
        let fits = |adapter: &Adapter| {
            let is_named = match part {
                "cards" => !adapter.kind.shares_memory(),
                part => adapter.name.to_lowercase().contains(part),
            };
            let is_twin = !is_of_cuda(adapter)
                && all.iter().any(|other| is_of_cuda(other) && other.name == adapter.name);
            is_named && api.map_or(!is_twin, |api| adapter.api == api)
        };
        let found: Vec<usize> = (0..all.len()).filter(|place| fits(&all[*place])).collect();
        if found.is_empty() {
            let there = all.iter().map(|one| format!("{} ({})", one.name, one.api)).collect();
            return Err(ChoiceError::Unknown { name: name.clone(), there });
        }
        chosen.extend(found);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen.into_iter().map(|place| all[place].clone()).collect())
}

/// A backend for each device of the settings. Memory shared with the machine leaves the budget of
/// `cpu`.
///
/// # Errors
/// [`ChoiceError`].
pub fn backends(
    config: &Config,
    cpu: &mut CpuOptions,
) -> Result<Vec<Box<dyn Backend>>, ChoiceError> {
    if config.gpu.is_empty() {
        return Ok(Vec::new());
    }
    let mut taken_kib = 0;
    let mut backends: Vec<Box<dyn Backend>> = Vec::new();
    for (number, adapter) in choose(&config.gpu)?.into_iter().enumerate() {
        if adapter.kind.shares_memory() {
            taken_kib += config.gpu_memory_kib.unwrap_or(2 * u64::from(config.memory_kib));
        }
        backends.push(Box::new(GpuBackend::new(GpuOptions {
            name: format!("gpu{number}"),
            adapter,
            memory_kib: config.memory_kib,
            device_memory_kib: config.gpu_memory_kib,
            watts: config.gpu_watts,
            tuning: tuning_file(config),
        })));
    }
    if taken_kib > 0 {
        let budget = cpu.budget_kib.map_or_else(Budget::of_machine, Budget::of_kib);
        cpu.budget_kib = Some(budget.usable_kib().saturating_sub(taken_kib));
    }
    Ok(backends)
}

/// Where a card's tuning is kept: beside the processor's, where one is asked for.
fn tuning_file(config: &Config) -> Option<PathBuf> {
    let beside = config.autotune_cache.as_ref().filter(|_| config.autotune)?;
    Some(beside.with_file_name("cuda-tuning"))
}
