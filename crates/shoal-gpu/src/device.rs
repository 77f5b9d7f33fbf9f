//! A device at work: its memory, its programs, launches under way and their finds.

mod adapter;
mod program;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shoal_pow::{Challenge, Options, TAG_BYTES, Target};

use crate::lanes::{Lanes, Order, Shape};
use crate::shader::Features;
pub use adapter::{Adapter, AdapterKind, adapters};
use program::Program;

/// How a device is used.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Memory for blocks, in KiB. `None` takes all of a card's own memory, and enough for two
    /// hashes of memory shared with the machine.
    pub memory_kib: Option<u64>,
    /// Most hashes at a time.
    pub lane_max: u32,
    /// Longest launch aimed at: a cancel waits for two of them.
    pub launch: Duration,
    /// Integers of 64 bits by pairs, though the device has them: for tests.
    pub narrow: bool,
    /// No shuffles, though the device has them: for tests.
    pub shared: bool,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        let launch = Duration::from_millis(40);
        Self { memory_kib: None, lane_max: 1024, launch, narrow: false, shared: false }
    }
}

/// Why a device does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver refused a request, or lost the device.
    #[error("the driver says: {0}")]
    Driver(String),
    /// The device has not the memory for one hash.
    #[error("a hash takes {needed} KiB, and the device gives {given}")]
    Memory {
        /// KiB of a hash.
        needed: u64,
        /// KiB there were.
        given: u64,
    },
    /// The device's tags differ from our own kernels'.
    #[error("the device computes false tags")]
    FalseTags,
    /// The header does not fit the device's buffer.
    #[error("a header of {bytes} bytes is longer than the {max} that a device takes")]
    LongHeader {
        /// Its bytes.
        bytes: usize,
        /// Most bytes.
        max: usize,
    },
    /// The challenge cannot be computed.
    #[error(transparent)]
    Challenge(#[from] shoal_pow::Error),
}

/// A tried nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The nonce.
    pub nonce: u64,
    /// Its tag, where the tag meets the target.
    pub tag: Option<[u8; TAG_BYTES]>,
}

/// A device with its programs. One thread drives it, none of its calls waits for the device but
/// [`Self::open`], [`Self::begin`] and [`Self::wait`].
#[derive(Debug)]
pub struct Device {
    device: wgpu::Device,
    queue: wgpu::Queue,
    options: DeviceOptions,
    features: Features,
    shares_memory: bool,
    failure: Arc<Mutex<Option<GpuError>>>,
    run: Option<Run>,
}

/// A challenge at work.
#[derive(Debug)]
struct Run {
    program: Program,
    lanes: Lanes,
    under_way: VecDeque<Launch>,
    /// Columns of a launch in the dependent half, fitted to the time a launch takes.
    columns: u32,
    last_end: Option<Instant>,
}

/// A launch the device was given.
#[derive(Debug)]
struct Launch {
    orders: Vec<Order>,
    begun: Instant,
    /// Its results, if hashes end in this launch.
    results: Option<wgpu::Buffer>,
    state: Arc<AtomicU8>,
    /// Its hashes were given up.
    is_given_up: bool,
}

const BUSY: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// Launches given to the device at a time: one computes while the next is planned.
const DEPTH: usize = 2;

/// Memory of the trial of each device at its opening.
const TRIAL_KIB: u32 = 64;

impl Device {
    /// Opens a device and compares two tags of its with our own kernels'.
    ///
    /// # Errors
    /// [`GpuError`] when the driver refuses, or the device computes false tags.
    pub fn open(adapter: &Adapter, options: &DeviceOptions) -> Result<Self, GpuError> {
        let wanted = wgpu::Features::SHADER_INT64 | wgpu::Features::SUBGROUP;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("shoal"),
            required_features: adapter.adapter.features() & wanted,
            required_limits: adapter.adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| GpuError::Driver(error.to_string()))?;
        let failure = Arc::new(Mutex::new(None));
        let keep = |failure: &Arc<Mutex<Option<GpuError>>>| {
            let failure = Arc::clone(failure);
            move |words: String| {
                let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(GpuError::Driver(words));
            }
        };
        let (error, lost) = (keep(&failure), keep(&failure));
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| error(e.to_string())));
        device.set_device_lost_callback(move |_, words| lost(format!("device lost: {words}")));
        let mut this = Self {
            device,
            queue,
            features: Features {
                wide: adapter.has_wide_integers && !options.narrow,
                subgroup: adapter.subgroup.filter(|size| *size >= 4 && !options.shared),
                pools: 1,
            },
            options: options.clone(),
            shares_memory: adapter.kind.shares_memory(),
            failure,
            run: None,
        };
        match this.try_out() {
            // Drivers number the threads of a subgroup in their own ways.
            Err(GpuError::FalseTags) if this.features.subgroup.take().is_some() => {
                this.try_out()?
            }
            result => result?,
        }
        Ok(this)
    }

    /// Computes two tags, and compares them.
    fn try_out(&mut self) -> Result<(), GpuError> {
        let header = b"a header that every device is tried with";
        let challenge = Challenge::new(header, TRIAL_KIB, Target::from_difficulty(1))?;
        self.begin(&challenge)?;
        let mut nonces = 0..2;
        let mut tried = Vec::new();
        while tried.len() < 2 {
            tried.extend(self.advance(|| nonces.next())?);
            self.wait(Duration::from_secs(1))?;
        }
        for Tried { nonce, tag } in tried {
            if tag != Some(challenge.tag(nonce, &Options::default())?) {
                return Err(GpuError::FalseTags);
            }
        }
        Ok(())
    }

    /// Takes up a challenge: hashes under way are given up. Waits for launches under way, and
    /// takes memory where the challenge needs another amount.
    ///
    /// # Errors
    /// [`GpuError`] when the memory does not suffice, or the driver refuses.
    pub fn begin(&mut self, challenge: &Challenge) -> Result<(), GpuError> {
        let (bytes, max) = (challenge.header().len(), program::HEADER_BYTES_MAX);
        if bytes > max {
            return Err(GpuError::LongHeader { bytes, max });
        }
        let lane_max = self.options.lane_max.max(1);
        let before = self.run.take();
        for launch in before.iter().flat_map(|run| &run.under_way) {
            self.finish_launch(launch)?;
        }
        let (mut program, columns) = match before {
            Some(run) if run.lanes.shape().blocks == challenge.block_count() => {
                (run.program, run.columns)
            }
            before => {
                let wanted_kib = self
                    .options
                    .memory_kib
                    .or_else(|| self.shares_memory.then(|| 2 * u64::from(challenge.block_count())));
                let program = Program::new(
                    &self.device,
                    self.features,
                    challenge.block_count(),
                    lane_max,
                    wanted_kib,
                    before.map(|run| run.program),
                )?;
                (program, FIRST_COLUMNS)
            }
        };
        let lanes = Lanes::new(program.shape()).expect("a program has chunks for a hash");
        program.load(&self.queue, challenge);
        self.run =
            Some(Run { program, lanes, under_way: VecDeque::new(), columns, last_end: None });
        self.check()
    }

    /// Goes on as far as it can without waiting: gives the device launches, with nonces
    /// from `next`, and returns the nonces tried since the last call.
    ///
    /// # Errors
    /// [`GpuError`] when the driver refuses, or lost the device.
    ///
    /// # Panics
    /// Without a challenge.
    pub fn advance(&mut self, next: impl FnMut() -> Option<u64>) -> Result<Vec<Tried>, GpuError> {
        self.poll(wgpu::PollType::Poll)?;
        let mut tried = Vec::new();
        let limit = self.options.launch;
        let run = self.run.as_mut().expect("a challenge was taken up");
        while let Some(launch) = run.under_way.front() {
            let state = launch.state.load(Acquire);
            if state == BUSY {
                break;
            }
            let launch = run.under_way.pop_front().expect("it was there");
            run.fit_columns(&launch, limit);
            if state == FAILED {
                return Err(GpuError::Driver("results could not be read".to_owned()));
            }
            if !launch.is_given_up {
                run.program.read(&launch.orders, launch.results.as_ref(), &mut tried)?;
            }
        }
        let mut next = next;
        while run.under_way.len() < DEPTH {
            let orders = run.lanes.launch(run.columns, &mut next);
            if orders.is_empty() {
                break;
            }
            let launch = run.program.launch(&self.device, &self.queue, &run.lanes, orders);
            run.under_way.push_back(launch);
        }
        self.check()?;
        Ok(tried)
    }

    /// Gives up every hash under way, at once: results of launches under way are thrown away.
    pub fn clear(&mut self) {
        if let Some(run) = &mut self.run {
            run.lanes.clear();
            for launch in &mut run.under_way {
                launch.is_given_up = true;
            }
        }
    }

    /// Hashes under way, hashes of launches not read yet among them.
    pub fn under_way(&self) -> usize {
        let ending = |run: &Run| {
            let blocks = run.lanes.shape().blocks;
            let launches = run.under_way.iter().filter(|launch| !launch.is_given_up);
            launches
                .flat_map(|launch| &launch.orders)
                .filter(|o| o.first + o.count == blocks)
                .count()
        };
        self.run.as_ref().map_or(0, |run| run.lanes.count() + ending(run))
    }

    /// `true` where the device computes nothing.
    pub fn is_idle(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.under_way.is_empty() && run.lanes.count() == 0)
    }

    /// Hashes at a time, in the long run; 0 without a challenge.
    pub fn lane_count(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.lanes.lane_count(run.columns))
    }

    /// KiB of blocks held; 0 without a challenge.
    pub fn memory_kib(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| {
            let Shape { chunk_blocks, chunk_count, .. } = run.lanes.shape();
            u64::from(chunk_blocks) * u64::from(chunk_count)
        })
    }

    /// Features in use, for people.
    pub fn kernel(&self) -> String {
        let width = if self.features.wide { "64-bit integers" } else { "pairs of 32 bits" };
        match self.features.subgroup {
            Some(size) => format!("{width}, shuffles of {size}"),
            None => format!("{width}, shared memory"),
        }
    }

    /// Waits for the launches under way, at most this long.
    ///
    /// # Errors
    /// [`GpuError`] when the driver lost the device.
    pub fn wait(&mut self, most: Duration) -> Result<(), GpuError> {
        self.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(most) })
    }

    fn finish_launch(&self, launch: &Launch) -> Result<(), GpuError> {
        while launch.state.load(Acquire) == BUSY {
            let timeout = Some(Duration::from_millis(100));
            self.poll(wgpu::PollType::Wait { submission_index: None, timeout })?;
        }
        Ok(())
    }

    fn poll(&self, how: wgpu::PollType) -> Result<(), GpuError> {
        match self.device.poll(how) {
            Ok(_) | Err(wgpu::PollError::Timeout) => self.check(),
            Err(error) => Err(GpuError::Driver(error.to_string())),
        }
    }

    fn check(&self) -> Result<(), GpuError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }
}

/// Columns of a device's first launch: a few milliseconds of a slow one.
const FIRST_COLUMNS: u32 = 256;
/// Fewest columns of a launch: with fewer, the launch itself takes most of the time.
const COLUMNS_MIN: u32 = 16;
/// Most columns of a launch: with more, nothing is gained.
const COLUMNS_MAX: u32 = 1 << 16;

impl Run {
    /// Fits the next launches to the time this one took.
    fn fit_columns(&mut self, launch: &Launch, limit: Duration) {
        let now = Instant::now();
        // A launch begins with its submission, or with the end of the one before.
        let begun = self.last_end.map_or(launch.begun, |end| end.max(launch.begun));
        self.last_end = Some(now);
        let took = now.saturating_duration_since(begun);
        if took > limit {
            let share = limit.as_secs_f64() / took.as_secs_f64();
            let columns = (f64::from(self.columns) * share.max(0.25)) as u32;
            self.columns = columns.max(COLUMNS_MIN);
        } else if took < limit / 2 {
            self.columns = (self.columns + self.columns / 4 + 1).min(COLUMNS_MAX);
        }
    }
}

impl Launch {
    fn new(orders: Vec<Order>, results: Option<wgpu::Buffer>) -> Self {
        let state = Arc::new(AtomicU8::new(BUSY));
        Self { orders, begun: Instant::now(), results, state, is_given_up: false }
    }

    /// Marks the launch as done, for the driver to call.
    fn mark(&self) -> impl FnOnce(bool) + Send + 'static {
        let state = Arc::clone(&self.state);
        move |is_good| state.store(if is_good { DONE } else { FAILED }, Release)
    }
}
