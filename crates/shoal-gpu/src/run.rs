//! A challenge at work on a device of any driver: launches under way, the length of the next
//! launches, nonces tried.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use shoal_pow::{Challenge, Options, TAG_BYTES, Target};

use crate::device::{DeviceOptions, GpuError, Tried};
use crate::lanes::{Lanes, Order, Shape};

/// Bytes of a result: a number, 0 for a tag that misses the target, and the tag.
pub(crate) const RESULT_BYTES: usize = 4 + TAG_BYTES;
/// Bytes of the setup.
pub(crate) const SETUP_BYTES: u64 = 64;
/// Bytes of the longest request.
pub(crate) const REQUEST_BYTES_MAX: usize = 4096;
/// Bytes of the longest header: 48 bytes of a request are others.
const HEADER_BYTES_MAX: usize = REQUEST_BYTES_MAX - 48;

/// A driver of devices. Launches run one after the other, in the order they are given.
pub(crate) trait Driver: fmt::Debug + Send {
    /// Programs and buffers for hashes of one size.
    type Program: fmt::Debug + Send;
    /// A launch given to the device.
    type Launch: fmt::Debug + Send;

    /// Takes memory for hashes of `blocks`, in place of the program before.
    fn program(
        &mut self,
        blocks: u32,
        before: Option<Self::Program>,
    ) -> Result<Self::Program, GpuError>;

    /// The shape of a program's hashes and of their memory.
    fn shape(program: &Self::Program) -> Shape;

    /// Gives the device a challenge.
    fn load(&mut self, program: &mut Self::Program, challenge: &Challenge) -> Result<(), GpuError>;

    /// Gives the device a launch. Results are wanted where hashes end ([`ends`]).
    fn launch(
        &mut self,
        program: &mut Self::Program,
        lanes: &Lanes,
        orders: &[Order],
    ) -> Result<Self::Launch, GpuError>;

    /// The results of a launch, [`RESULT_BYTES`] for each order, once the launch is done. Without
    /// a hash that ends, there are none.
    fn results(&mut self, launch: &mut Self::Launch) -> Result<Option<Vec<u8>>, GpuError>;

    /// Lets the driver notice finished launches. Waits for the next one to finish, at most `most`.
    fn wait(&mut self, launch: Option<&Self::Launch>, most: Duration) -> Result<(), GpuError>;

    /// Hears the time of a launch of `columns`, done while `lanes` were under way.
    fn took(&mut self, launch: &Self::Launch, columns: u32, lanes: &Lanes, time: Duration);

    /// Chooses another way to compute after false tags; `false` where there is none.
    fn has_another_way(&mut self) -> bool;

    /// The way in use, for people.
    fn way(&self) -> String;

    /// Watts drawn by the card now; `None` where the driver does not tell.
    fn watts(&self) -> Option<f64>;
}

/// `true` where a hash of the launch ends.
pub(crate) fn ends(orders: &[Order], shape: Shape) -> bool {
    orders.iter().any(|order| order.is_last(shape.blocks))
}

/// A device with its driver.
#[derive(Debug)]
struct Machine<D: Driver> {
    driver: D,
    launch_max: Duration,
    run: Option<Run<D>>,
}

/// A challenge at work.
#[derive(Debug)]
struct Run<D: Driver> {
    program: D::Program,
    lanes: Lanes,
    under_way: VecDeque<Begun<D::Launch>>,
    /// Columns of a launch in the dependent half, fitted to the time a launch takes.
    columns: u32,
    last_end: Option<Instant>,
}

/// A launch the device was given.
#[derive(Debug)]
struct Begun<L> {
    orders: Vec<Order>,
    columns: u32,
    begun: Instant,
    launch: L,
    /// Its hashes were given up.
    is_given_up: bool,
}

/// Launches given to the device at a time: one computes while the next is planned.
const DEPTH: usize = 2;

/// Memory of the trial of each device at its opening.
const TRIAL_KIB: u32 = 64;

/// The abilities of a device, without its driver's types.
pub(crate) trait Drive: fmt::Debug + Send {
    fn begin(&mut self, challenge: &Challenge) -> Result<(), GpuError>;
    fn advance(&mut self, next: &mut dyn FnMut() -> Option<u64>) -> Result<Vec<Tried>, GpuError>;
    fn clear(&mut self);
    fn wait(&mut self, most: Duration) -> Result<(), GpuError>;
    fn under_way(&self) -> usize;
    fn is_idle(&self) -> bool;
    fn lane_count(&self) -> u32;
    fn memory_kib(&self) -> u64;
    fn way(&self) -> String;
    fn watts(&self) -> Option<f64>;
}

/// Tries the driver's ways to compute, until the tags of one equal our own kernels'.
pub(crate) fn open<D: Driver + 'static>(
    driver: D,
    options: &DeviceOptions,
) -> Result<Box<dyn Drive>, GpuError> {
    let mut machine = Machine { driver, launch_max: options.launch, run: None };
    loop {
        match machine.try_out() {
            Err(GpuError::FalseTags) if machine.driver.has_another_way() => machine.run = None,
            result => return result.map(|()| Box::new(machine) as Box<dyn Drive>),
        }
    }
}

impl<D: Driver> Machine<D> {
    /// Computes two tags, and compares them.
    fn try_out(&mut self) -> Result<(), GpuError> {
        let header = b"a header that every device is tried with";
        let challenge = Challenge::new(header, TRIAL_KIB, Target::from_difficulty(1))?;
        self.begin(&challenge)?;
        let mut nonces = 0..2;
        let mut tried = Vec::new();
        while tried.len() < 2 {
            tried.extend(self.advance(&mut || nonces.next())?);
            self.wait(Duration::from_secs(1))?;
        }
        for Tried { nonce, tag } in tried {
            if tag != Some(challenge.tag(nonce, &Options::default())?) {
                return Err(GpuError::FalseTags);
            }
        }
        Ok(())
    }
}

impl<D: Driver> Drive for Machine<D> {
    fn begin(&mut self, challenge: &Challenge) -> Result<(), GpuError> {
        let (bytes, max) = (challenge.header().len(), HEADER_BYTES_MAX);
        if bytes > max {
            return Err(GpuError::LongHeader { bytes, max });
        }
        let mut before = self.run.take();
        for begun in before.iter_mut().flat_map(|run| &mut run.under_way) {
            while self.driver.results(&mut begun.launch)?.is_none() {
                self.driver.wait(Some(&begun.launch), Duration::from_millis(100))?;
            }
        }
        let (mut program, columns) = match before {
            Some(run) if run.lanes.shape().blocks == challenge.block_count() => {
                (run.program, run.columns)
            }
            before => {
                let before = before.map(|run| run.program);
                (self.driver.program(challenge.block_count(), before)?, FIRST_COLUMNS)
            }
        };
        let lanes = Lanes::new(D::shape(&program)).expect("a program has chunks for a hash");
        self.driver.load(&mut program, challenge)?;
        let under_way = VecDeque::new();
        self.run = Some(Run { program, lanes, under_way, columns, last_end: None });
        Ok(())
    }

    fn advance(&mut self, next: &mut dyn FnMut() -> Option<u64>) -> Result<Vec<Tried>, GpuError> {
        self.driver.wait(None, Duration::ZERO)?;
        let mut tried = Vec::new();
        let run = self.run.as_mut().expect("a challenge was taken up");
        let blocks = run.lanes.shape().blocks;
        while let Some(begun) = run.under_way.front_mut() {
            let Some(results) = self.driver.results(&mut begun.launch)? else { break };
            let begun = run.under_way.pop_front().expect("it was there");
            let took = run.fit_columns(&begun, self.launch_max);
            self.driver.took(&begun.launch, begun.columns, &run.lanes, took);
            if begun.is_given_up {
                continue;
            }
            for (order, result) in begun.orders.iter().zip(results.chunks_exact(RESULT_BYTES)) {
                if !order.is_last(blocks) {
                    continue;
                }
                let (is_solution, tag) = result.split_at(4);
                let tag: [u8; TAG_BYTES] = tag.try_into().expect("a result ends with the tag");
                let tag = is_solution.iter().any(|byte| *byte != 0).then_some(tag);
                tried.push(Tried { nonce: order.nonce, tag });
            }
        }
        while run.under_way.len() < DEPTH {
            let columns = run.columns;
            let orders = run.lanes.launch(columns, &mut *next);
            if orders.is_empty() {
                break;
            }
            let begun = Instant::now();
            let launch = self.driver.launch(&mut run.program, &run.lanes, &orders)?;
            run.under_way.push_back(Begun { orders, columns, begun, launch, is_given_up: false });
        }
        Ok(tried)
    }

    fn clear(&mut self) {
        if let Some(run) = &mut self.run {
            run.lanes.clear();
            for begun in &mut run.under_way {
                begun.is_given_up = true;
            }
        }
    }

    fn wait(&mut self, most: Duration) -> Result<(), GpuError> {
        let first = self.run.as_ref().and_then(|run| run.under_way.front());
        self.driver.wait(first.map(|begun| &begun.launch), most)
    }

    fn under_way(&self) -> usize {
        let ending = |run: &Run<D>| {
            let blocks = run.lanes.shape().blocks;
            let launches = run.under_way.iter().filter(|begun| !begun.is_given_up);
            launches.flat_map(|begun| &begun.orders).filter(|order| order.is_last(blocks)).count()
        };
        self.run.as_ref().map_or(0, |run| run.lanes.count() + ending(run))
    }

    fn is_idle(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.under_way.is_empty() && run.lanes.count() == 0)
    }

    fn lane_count(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.lanes.lane_count(run.columns))
    }

    fn memory_kib(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| {
            let Shape { chunk_blocks, chunk_count, .. } = run.lanes.shape();
            u64::from(chunk_blocks) * u64::from(chunk_count)
        })
    }

    fn way(&self) -> String {
        self.driver.way()
    }

    fn watts(&self) -> Option<f64> {
        self.driver.watts()
    }
}

/// Columns of a device's first launch: a few milliseconds of a slow one.
const FIRST_COLUMNS: u32 = 256;
/// Fewest columns of a launch: with fewer, the launch itself takes most of the time.
const COLUMNS_MIN: u32 = 16;
/// Most columns of a launch: with more, nothing is gained.
const COLUMNS_MAX: u32 = 1 << 16;

impl<D: Driver> Run<D> {
    /// Fits the next launches to the time this one took, and returns the time.
    fn fit_columns(&mut self, launch: &Begun<D::Launch>, limit: Duration) -> Duration {
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
        took
    }
}

/// The bytes hashed to H0 (RFC 9106 §3.2), with a nonce of zero, and their count. Zeros follow up
/// to a whole number: programs read nothing smaller, and a longer header before leaves no byte.
pub(crate) fn request(challenge: &Challenge) -> (Vec<u8>, u32) {
    let header = challenge.header();
    let header_bytes = u32::try_from(header.len()).expect("a challenge bounds its header");
    // Lanes, bytes of the tag, memory, passes, version, type, bytes of the nonce, the nonce.
    let mut request =
        le_bytes(&[1, TAG_BYTES as u32, challenge.memory_kib(), 1, 0x13, 2, 8, 0, 0, header_bytes]);
    request.extend_from_slice(header);
    // Neither a secret nor associated data.
    request.extend_from_slice(&[0; 8]);
    let bytes = u32::try_from(request.len()).expect("a request is a few kilobytes");
    request.resize(request.len().next_multiple_of(4), 0);
    (request, bytes)
}

/// The setup of a challenge: the target, the most significant number first, and the hashes' shape.
/// `pool_part` is the size of one of the pool's parts, as the driver's own programs read sizes.
pub(crate) fn setup(
    challenge: &Challenge,
    shape: Shape,
    pool_part: u32,
    request_bytes: u32,
) -> [u32; SETUP_BYTES as usize / 4] {
    let mut setup = [0; SETUP_BYTES as usize / 4];
    let target = challenge.target().to_bytes();
    for (number, bytes) in setup.iter_mut().zip(target.as_chunks().0) {
        *number = u32::from_be_bytes(*bytes);
    }
    setup[8..14].copy_from_slice(&[
        shape.blocks,
        shape.dependent_from(),
        shape.chunk_blocks.ilog2(),
        shape.lane_chunks(),
        pool_part,
        request_bytes,
    ]);
    setup
}

/// A launch's orders as the programs read them.
pub(crate) fn order_bytes(orders: &[Order]) -> Vec<u8> {
    let numbers: Vec<u32> = orders
        .iter()
        .flat_map(|o| [o.lane, o.first, o.count, o.nonce as u32, (o.nonce >> 32) as u32])
        .collect();
    le_bytes(&numbers)
}

/// Bytes of one order among [`order_bytes`].
pub(crate) const ORDER_BYTES: u64 = 20;

pub(crate) fn le_bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
