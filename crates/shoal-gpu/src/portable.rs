//! Devices by Vulkan, Metal or DirectX 12.

mod program;
mod shader;

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shoal_pow::Challenge;

use crate::device::{Adapter, AdapterKind, DeviceOptions, GpuError, Origin};
use crate::lanes::{Lanes, Order, Shape};
use crate::run::{self, Drive, Driver};
use program::Program;
use shader::Features;

/// An adapter and its features.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    adapter: wgpu::Adapter,
    /// Integers of 64 bits; otherwise they are computed by pairs.
    has_wide_integers: bool,
    /// Fewest threads of a subgroup; `None` without subgroups.
    subgroup: Option<u32>,
}

/// Every device, in the drivers' order.
pub(crate) fn adapters() -> Vec<Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    let instance = wgpu::Instance::new(descriptor);
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    found.into_iter().map(adapter).collect()
}

fn adapter(adapter: wgpu::Adapter) -> Adapter {
    let info = adapter.get_info();
    let features = adapter.features();
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    Adapter {
        name: info.name,
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Unknown,
        },
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        api: info.backend.to_string(),
        memory_kib: None,
        origin: Origin::Portable(Found {
            has_wide_integers: features.contains(wgpu::Features::SHADER_INT64),
            subgroup: subgroups.then_some(info.subgroup_min_size),
            adapter,
        }),
    }
}

/// Opens a device, and compares its tags with our own kernels'.
pub(crate) fn open(
    found: &Found,
    kind: AdapterKind,
    options: &DeviceOptions,
) -> Result<Box<dyn Drive>, GpuError> {
    run::open(Portable::open(found, kind, options)?, options)
}

/// A device of wgpu.
#[derive(Debug)]
pub(crate) struct Portable {
    device: wgpu::Device,
    queue: wgpu::Queue,
    options: DeviceOptions,
    features: Features,
    shares_memory: bool,
    failure: Arc<Mutex<Option<GpuError>>>,
}

/// A launch of wgpu.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Its results, if hashes end in this launch.
    results: Option<wgpu::Buffer>,
    state: Arc<AtomicU8>,
}

const BUSY: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

impl Portable {
    fn open(found: &Found, kind: AdapterKind, options: &DeviceOptions) -> Result<Self, GpuError> {
        if let Some(watts) = options.watts {
            let why = "Vulkan, Metal and DirectX 12 limit no power".to_owned();
            return Err(GpuError::Power { watts, why });
        }
        let wanted = wgpu::Features::SHADER_INT64 | wgpu::Features::SUBGROUP;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("shoal"),
            required_features: found.adapter.features() & wanted,
            required_limits: found.adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(found.adapter.request_device(&descriptor));
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
        Ok(Self {
            device,
            queue,
            features: Features {
                wide: found.has_wide_integers && !options.narrow,
                subgroup: found.subgroup.filter(|size| *size >= 4 && !options.shared),
                pools: 1,
            },
            options: options.clone(),
            shares_memory: kind.shares_memory(),
            failure,
        })
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

impl Driver for Portable {
    type Program = Program;
    type Launch = Launch;

    fn program(&mut self, blocks: u32, before: Option<Program>) -> Result<Program, GpuError> {
        let wanted_kib = self.options.wanted_kib(self.shares_memory, blocks);
        let lane_max = self.options.lane_max.max(1);
        let program =
            Program::new(&self.device, self.features, blocks, lane_max, wanted_kib, before)?;
        self.check().map(|()| program)
    }

    fn shape(program: &Program) -> Shape {
        program.shape()
    }

    fn load(&mut self, program: &mut Program, challenge: &Challenge) -> Result<(), GpuError> {
        program.load(&self.queue, challenge);
        self.check()
    }

    fn launch(
        &mut self,
        program: &mut Program,
        lanes: &Lanes,
        orders: &[Order],
    ) -> Result<Launch, GpuError> {
        let launch = program.launch(&self.device, &self.queue, lanes, orders);
        self.check().map(|()| launch)
    }

    fn results(&mut self, launch: &mut Launch) -> Result<Option<Vec<u8>>, GpuError> {
        let unread = || GpuError::Driver("results could not be read".to_owned());
        match launch.state.load(Acquire) {
            BUSY => return Ok(None),
            DONE => {}
            _ => return Err(unread()),
        }
        let Some(results) = &launch.results else { return Ok(Some(Vec::new())) };
        let view = results.get_mapped_range(..).map_err(|_| unread())?;
        Ok(Some(view.to_vec()))
    }

    fn wait(&mut self, _: Option<&Launch>, most: Duration) -> Result<(), GpuError> {
        self.poll(if most.is_zero() {
            wgpu::PollType::Poll
        } else {
            wgpu::PollType::Wait { submission_index: None, timeout: Some(most) }
        })
    }

    fn took(&mut self, _: &Launch, _: u32, _: &Lanes, _: Duration) {}

    /// Drivers number the threads of a subgroup in their own ways: shared memory is another.
    fn has_another_way(&mut self) -> bool {
        self.features.subgroup.take().is_some()
    }

    fn way(&self) -> String {
        let width = if self.features.wide { "64-bit integers" } else { "pairs of 32 bits" };
        match self.features.subgroup {
            Some(size) => format!("{width}, shuffles of {size}"),
            None => format!("{width}, shared memory"),
        }
    }

    fn watts(&self) -> Option<f64> {
        None
    }
}

impl Launch {
    fn new(results: Option<wgpu::Buffer>) -> Self {
        Self { results, state: Arc::new(AtomicU8::new(BUSY)) }
    }

    /// Marks the launch as done, for the driver to call.
    fn mark(&self) -> impl FnOnce(bool) + Send + 'static {
        let state = Arc::clone(&self.state);
        move |is_good| state.store(if is_good { DONE } else { FAILED }, Release)
    }
}
