//! NVIDIA's cards in their own terms: programs in CUDA C, a warp a hash.
//!
//! The planner of lanes, the pool of chunks and the launches are the other devices' too. A card is
//! whatever carries out the requests of [`Card`]: NVIDIA's driver, or a process for tests.

#[cfg(feature = "cuda")]
mod compiler;
#[cfg(feature = "emulator")]
pub(crate) mod emulator;
#[cfg(feature = "cuda")]
pub(crate) mod nvidia;
#[cfg(feature = "cuda")]
mod power;
mod tune;

use std::fmt;
use std::time::Duration;

use shoal_pow::Challenge;

use crate::device::{Adapter, DeviceOptions, GpuError};
use crate::lanes::{Lanes, Order, Shape};
use crate::run::{
    self, Drive, Driver, ORDER_BYTES, REQUEST_BYTES_MAX, RESULT_BYTES, SETUP_BYTES, ends, le_bytes,
    order_bytes, request, setup,
};
pub(crate) use tune::Tuning;
use tune::{Tuner, recall, remember};

/// The programs, for NVRTC and for a C compiler.
pub(crate) const SOURCE: &str = include_str!("cuda/argon2id.cu");

/// Threads of a group.
pub(crate) const THREADS: u32 = 32;

/// A program of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Begin,
    Fill,
    Finish,
}

/// A card behind its driver. Requests are carried out in the order they are made; only
/// [`Self::memory`] and [`Self::wait`] wait for the card.
pub(crate) trait Card: fmt::Debug + Send {
    /// Memory of the card, given back when dropped.
    type Memory: fmt::Debug + Send;
    /// Bytes on their way from the card.
    type Read: fmt::Debug + Send;

    /// Free memory and all memory, in bytes.
    fn memory(&mut self) -> Result<(u64, u64), GpuError>;

    /// Bytes of the pool's parts: a power of two. The pool is taken in parts, and the last
    /// part may be smaller.
    fn part_bytes(&self) -> u64;

    /// Memory; `None` where the card has none left.
    fn allocate(&mut self, bytes: u64) -> Result<Option<Self::Memory>, GpuError>;

    /// The address of memory, for programs.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// Writes bytes to the beginning of memory, never past the memory's end.
    fn write(&mut self, to: &mut Self::Memory, bytes: &[u8]) -> Result<(), GpuError>;

    /// Takes these programs from now on, and builds them where they are not built yet.
    fn choose(&mut self, tuning: Tuning) -> Result<(), GpuError>;

    /// Runs a program with groups of [`THREADS`]. Its arguments are addresses and numbers.
    fn run(&mut self, name: Name, groups: u32, arguments: &[u64]) -> Result<(), GpuError>;

    /// Asks for the first bytes of memory. No bytes at all is a question, too: for the moment when
    /// everything before is done.
    fn read(&mut self, from: &Self::Memory, bytes: usize) -> Result<Self::Read, GpuError>;

    /// The bytes asked for, once they are there.
    fn take(&mut self, read: &mut Self::Read) -> Result<Option<Vec<u8>>, GpuError>;

    /// Waits until the bytes are there, at most this long.
    fn wait(&mut self, read: &Self::Read, most: Duration) -> Result<(), GpuError>;

    /// Name and driver, for the results of tuning.
    fn fingerprint(&self) -> String;

    /// Watts drawn now; `None` where the driver does not tell.
    fn watts(&self) -> Option<f64>;

    /// Lets the card draw so many watts at most, until the card is closed.
    fn limit(&mut self, watts: u32) -> Result<(), GpuError>;
}

/// The driver of a card.
#[derive(Debug)]
struct Cuda<C> {
    card: C,
    options: DeviceOptions,
    shares_memory: bool,
    tuning: Tuning,
    /// Tries programs during the work, until one is found best.
    tuner: Option<Tuner>,
    /// Blocks of a hash at the last tuning; 0 before the first.
    tuned_for: u32,
}

/// A launch on a card.
#[derive(Debug)]
pub(crate) struct Launch<R> {
    read: R,
    /// The tuner's candidate for the launch.
    candidate: Option<usize>,
}

/// Buffers for hashes of one size.
#[derive(Debug)]
pub(crate) struct Program<M> {
    shape: Shape,
    part_chunks: u32,
    setup: M,
    request: M,
    references: M,
    /// Addresses of the pool's parts.
    parts: M,
    orders: M,
    chunks: M,
    results: M,
    /// Held, and reached by address alone.
    _pool: Vec<M>,
    has_references: bool,
}

/// Opens the driver of an adapter's card, and tries the card out.
fn open<C: Card + 'static>(
    mut card: C,
    adapter: &Adapter,
    options: &DeviceOptions,
) -> Result<Box<dyn Drive>, GpuError> {
    let tuning = Tuning::default();
    if let Some(watts) = options.watts {
        card.limit(watts)?;
    }
    card.choose(tuning)?;
    let cuda = Cuda {
        card,
        options: options.clone(),
        shares_memory: adapter.kind.shares_memory(),
        tuning,
        tuner: None,
        tuned_for: 0,
    };
    run::open(cuda, options)
}

impl<C: Card> Cuda<C> {
    /// Memory to take for hashes of `blocks`, in KiB.
    fn wanted_kib(&mut self, blocks: u32) -> Result<u64, GpuError> {
        if let Some(kib) = self.options.wanted_kib(self.shares_memory, blocks) {
            return Ok(kib);
        }
        // The driver and other programs need some.
        let (free, total) = self.card.memory()?;
        Ok(free.saturating_sub((total / 64).max(RESERVE_MIN)) / 1024)
    }

    fn allocate(&mut self, bytes: u64, what: &str) -> Result<C::Memory, GpuError> {
        let memory = self.card.allocate(bytes)?;
        memory.ok_or_else(|| GpuError::Driver(format!("no memory left for {what} ({bytes} bytes)")))
    }

    /// The pool's parts, of up to `wanted` chunks in all, and their chunks.
    fn take_pool(
        &mut self,
        wanted: u64,
        part_chunks: u32,
        chunk_bytes: u64,
    ) -> Result<(Vec<C::Memory>, u32), GpuError> {
        let (mut parts, mut taken) = (Vec::new(), 0u32);
        while u64::from(taken) < wanted {
            let left = u32::try_from(wanted - u64::from(taken)).unwrap_or(u32::MAX);
            let mut chunks = left.min(part_chunks);
            // A card nearly full gives a smaller one.
            let memory = loop {
                if chunks == 0 {
                    return Ok((parts, taken));
                }
                match self.card.allocate(u64::from(chunks) * chunk_bytes)? {
                    Some(memory) => break memory,
                    None => chunks /= 2,
                }
            };
            parts.push(memory);
            taken += chunks;
            if chunks < part_chunks {
                // Only the last may be smaller: a chunk's part is found by a shift.
                break;
            }
        }
        Ok((parts, taken))
    }

    /// Takes up tuned programs for hashes of `blocks`, or begins to look for them.
    fn tune(&mut self, blocks: u32) -> Result<(), GpuError> {
        if self.tuned_for == blocks {
            return Ok(());
        }
        self.tuned_for = blocks;
        self.tuner = None;
        let Some(path) = self.options.tuning.clone().filter(|_| blocks >= TUNED_BLOCKS_MIN) else {
            return Ok(());
        };
        match recall(&path, &self.key(blocks)) {
            Some(tuning) => self.choose(tuning),
            None => {
                self.tuner = Some(Tuner::new());
                Ok(())
            }
        }
    }

    fn key(&self, blocks: u32) -> String {
        // A line of the file, whatever the driver calls a card.
        let card = self.card.fingerprint().replace(char::is_control, " ");
        format!("{card} {blocks} {:016x}", tune::hash(SOURCE))
    }

    fn choose(&mut self, tuning: Tuning) -> Result<(), GpuError> {
        if tuning != self.tuning {
            self.card.choose(tuning)?;
            self.tuning = tuning;
        }
        Ok(())
    }
}

/// Memory left to others at least, in bytes.
const RESERVE_MIN: u64 = 64 << 20;

/// Hashes smaller than this are not tuned for: they are tests.
const TUNED_BLOCKS_MIN: u32 = 1024;

impl<C: Card> Driver for Cuda<C> {
    type Program = Program<C::Memory>;
    type Launch = Launch<C::Read>;

    fn program(
        &mut self,
        blocks: u32,
        before: Option<Self::Program>,
    ) -> Result<Self::Program, GpuError> {
        // Its memory is free before the new one is taken.
        drop(before);
        self.tune(blocks)?;
        let lane_max = self.options.lane_max.max(1);
        let chunk_blocks = Shape::chunk_blocks_of(blocks);
        let lane_chunks = blocks.div_ceil(chunk_blocks);
        let chunk_bytes = u64::from(chunk_blocks) * 1024;
        let lanes = u64::from(lane_max);
        // The small buffers first: the pool takes whatever is left.
        let setup = self.allocate(SETUP_BYTES, "the setup")?;
        let request = self.allocate(REQUEST_BYTES_MAX as u64, "the header")?;
        let references = self.allocate(4 * u64::from(blocks / 2), "references")?;
        let orders = self.allocate(ORDER_BYTES * lanes, "orders")?;
        let chunks = self.allocate(4 * lanes * u64::from(lane_chunks), "the lanes' chunks")?;
        let results = self.allocate(RESULT_BYTES as u64 * lanes, "results")?;
        let mut parts = self.allocate(8 * PARTS_MAX, "the pool's table")?;
        // Chunks and parts are powers of two.
        let part_chunks = (self.card.part_bytes() / chunk_bytes).max(1);
        let most = (lanes * u64::from(lane_chunks)).min(part_chunks * PARTS_MAX);
        let part_chunks = u32::try_from(part_chunks).expect("a part is a few gigabytes at most");
        let wanted = (self.wanted_kib(blocks)? / u64::from(chunk_blocks)).min(most);
        let (pool, chunk_count) = self.take_pool(wanted, part_chunks, chunk_bytes)?;
        let (needed, given) = (u64::from(blocks), u64::from(chunk_count) * u64::from(chunk_blocks));
        if chunk_count < lane_chunks {
            return Err(GpuError::Memory { needed, given });
        }
        let addresses: Vec<u8> =
            pool.iter().flat_map(|part| self.card.address(part).to_le_bytes()).collect();
        self.card.write(&mut parts, &addresses)?;
        Ok(Program {
            shape: Shape { blocks, chunk_blocks, chunk_count, lane_max },
            part_chunks,
            setup,
            request,
            references,
            parts,
            orders,
            chunks,
            results,
            _pool: pool,
            has_references: false,
        })
    }

    fn shape(program: &Self::Program) -> Shape {
        program.shape
    }

    fn load(&mut self, program: &mut Self::Program, challenge: &Challenge) -> Result<(), GpuError> {
        let (request, request_bytes) = request(challenge);
        self.card.write(&mut program.request, &request)?;
        if !program.has_references {
            let references = le_bytes(&challenge.known_references());
            self.card.write(&mut program.references, &references)?;
            program.has_references = true;
        }
        let setup = setup(challenge, program.shape, program.part_chunks.ilog2(), request_bytes);
        self.card.write(&mut program.setup, &le_bytes(&setup))
    }

    fn launch(
        &mut self,
        program: &mut Self::Program,
        lanes: &Lanes,
        orders: &[Order],
    ) -> Result<Self::Launch, GpuError> {
        let next = self.tuner.as_ref().map(Tuner::next);
        if let Some((_, tuning)) = next {
            self.choose(tuning)?;
        }
        let card = &mut self.card;
        let count = u32::try_from(orders.len()).expect("lanes fit 32 bits");
        // Lanes are handed out from the lowest on: lanes behind the last one in use are not told.
        let last = orders.iter().map(|order| order.lane as usize + 1).max().unwrap_or(0);
        let told = &lanes.chunks()[..last * program.shape.lane_chunks() as usize];
        card.write(&mut program.chunks, &le_bytes(told))?;
        card.write(&mut program.orders, &order_bytes(orders))?;
        let [setup, request, references, parts, chunks, orders_at, results] = [
            &program.setup,
            &program.request,
            &program.references,
            &program.parts,
            &program.chunks,
            &program.orders,
            &program.results,
        ]
        .map(|memory| card.address(memory));
        if orders.iter().any(|order| order.first == 0) {
            let arguments = [setup, request, parts, chunks, orders_at, count.into()];
            card.run(Name::Begin, (2 * count).div_ceil(THREADS), &arguments)?;
        }
        card.run(Name::Fill, count, &[setup, references, parts, chunks, orders_at])?;
        let mut result_bytes = 0;
        if ends(orders, program.shape) {
            let arguments = [setup, parts, chunks, orders_at, count.into(), results];
            card.run(Name::Finish, count.div_ceil(THREADS), &arguments)?;
            result_bytes = orders.len() * RESULT_BYTES;
        }
        let read = card.read(&program.results, result_bytes)?;
        Ok(Launch { read, candidate: next.map(|(candidate, _)| candidate) })
    }

    fn results(&mut self, launch: &mut Self::Launch) -> Result<Option<Vec<u8>>, GpuError> {
        self.card.take(&mut launch.read)
    }

    fn wait(&mut self, launch: Option<&Self::Launch>, most: Duration) -> Result<(), GpuError> {
        launch.map_or(Ok(()), |launch| self.card.wait(&launch.read, most))
    }

    fn took(&mut self, launch: &Self::Launch, columns: u32, lanes: &Lanes, time: Duration) {
        let (Some(tuner), Some(candidate)) = (&mut self.tuner, launch.candidate) else { return };
        if !lanes.is_full() {
            return;
        }
        let Some((tuning, columns_per_sec)) = tuner.took(candidate, columns, time) else { return };
        self.tuner = None;
        if let Some(path) = &self.options.tuning {
            // Without a place for the result, the next start tunes again.
            let _ = remember(path, &self.key(self.tuned_for), tuning, columns_per_sec);
        }
        // The best programs were built for their trial. A driver failing now fails in the next
        // launch.
        let _ = self.choose(tuning);
    }

    fn has_another_way(&mut self) -> bool {
        false
    }

    fn way(&self) -> String {
        let state = if self.tuner.is_some() { ", tuning" } else { "" };
        format!("64-bit integers, a warp a hash, {}{state}", self.tuning)
    }

    fn watts(&self) -> Option<f64> {
        self.card.watts()
    }
}

/// Parts of the pool at most.
const PARTS_MAX: u64 = 4096;
