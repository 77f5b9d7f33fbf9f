//! NVIDIA's cards by NVIDIA's driver, loaded when devices are asked for, and not needed to build.
//!
//! Unverified: no card has run this module. An emulated card has carried out the same requests of
//! [`super::Cuda`].

#![allow(unsafe_code)] // launches, pinned memory, questions to the driver

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError,
    LaunchConfig, PinnedHostSlice, PushKernelArg, result,
};

use super::compiler::compile;
use super::power::Power;
use super::{Card, Name, THREADS, Tuning};
use crate::device::{Adapter, AdapterKind, DeviceOptions, GpuError, Origin};
use crate::run::Drive;

/// A device of the driver.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    ordinal: usize,
}

fn failed(error: DriverError) -> GpuError {
    let words = |words: Result<&std::ffi::CStr, DriverError>| {
        words.map_or_else(|_| "unknown".to_owned(), |words| words.to_string_lossy().into_owned())
    };
    GpuError::Driver(format!("{} ({})", words(error.error_string()), words(error.error_name())))
}

/// Every device of the driver; none without a driver.
pub(crate) fn adapters() -> Vec<Adapter> {
    // SAFETY: loading NVIDIA's driver runs its initialisers, as any program with CUDA does.
    if !unsafe { sys::is_culib_present() } {
        return Vec::new();
    }
    let Ok(count) = CudaContext::device_count() else { return Vec::new() };
    let driver = format!("CUDA {}", version());
    (0..count)
        .filter_map(|ordinal| {
            let device = result::device::get(ordinal).ok()?;
            // SAFETY: the driver named the device just now.
            let is_integrated = unsafe {
                let kind = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED;
                result::device::get_attribute(device, kind)
            };
            Some(Adapter {
                name: result::device::get_name(device).ok()?,
                kind: match is_integrated {
                    Ok(0) => AdapterKind::Discrete,
                    Ok(_) => AdapterKind::Integrated,
                    Err(_) => AdapterKind::Unknown,
                },
                driver: driver.clone(),
                api: "cuda".to_owned(),
                // SAFETY: as before.
                memory_kib: unsafe { result::device::total_mem(device) }
                    .ok()
                    .map(|bytes| bytes as u64 / 1024),
                origin: Origin::Cuda(Found { ordinal: usize::try_from(ordinal).ok()? }),
            })
        })
        .collect()
}

/// The newest CUDA version known to the driver, as people write versions.
fn version() -> String {
    let mut version = 0;
    // SAFETY: the driver is there, and writes one number.
    let told = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    if told == CUresult::CUDA_SUCCESS {
        format!("{}.{}", version / 1000, version % 1000 / 10)
    } else {
        "of an unknown version".to_owned()
    }
}

/// Opens a device, and compares its tags with our own kernels'.
pub(crate) fn open(
    found: &Found,
    adapter: &Adapter,
    options: &DeviceOptions,
) -> Result<Box<dyn Drive>, GpuError> {
    let card = Nvidia::open(found.ordinal, format!("{} {}", adapter.name, adapter.driver))?;
    super::open(card, adapter, options)
}

/// The programs, built one way.
type Programs = [CudaFunction; 3];

/// A context on a card. Everything lies in one stream, and so in one order.
#[derive(Debug)]
struct Nvidia {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    capability: u32,
    fingerprint: String,
    /// `None` without NVIDIA's management library.
    power: Option<Power>,
    built: HashMap<Tuning, Programs>,
    chosen: Option<Tuning>,
    /// Pinned memory of this process without a copy under way, by length.
    spare: HashMap<usize, Vec<PinnedHostSlice<u8>>>,
    /// Pinned memory of the copies since the last read.
    in_use: Vec<PinnedHostSlice<u8>>,
}

/// Bytes on their way. Pinned memory goes back to the others once everything before is done.
#[derive(Debug)]
struct Read {
    done: CudaEvent,
    bytes: usize,
    result: Option<PinnedHostSlice<u8>>,
    in_use: Vec<PinnedHostSlice<u8>>,
}

impl Nvidia {
    fn open(ordinal: usize, name: String) -> Result<Self, GpuError> {
        let context = CudaContext::new(ordinal).map_err(failed)?;
        let (major, minor) = context.compute_capability().map_err(failed)?;
        let capability = u32::try_from(10 * major + minor).unwrap_or(0);
        let uuid = context.uuid().map_err(failed)?.bytes.map(|byte| byte as u8);
        Ok(Self {
            stream: context.default_stream(),
            context,
            capability,
            fingerprint: format!("{name} compute {major}.{minor}"),
            power: Power::of(uuid_text(&uuid)),
            built: HashMap::new(),
            chosen: None,
            spare: HashMap::new(),
            in_use: Vec::new(),
        })
    }

    /// Pinned memory, so that copies do not make this thread wait.
    fn pinned(&mut self, bytes: usize) -> Result<PinnedHostSlice<u8>, GpuError> {
        if let Some(spare) = self.spare.get_mut(&bytes).and_then(Vec::pop) {
            return Ok(spare);
        }
        // SAFETY: the memory comes from the driver, and any bytes in it are numbers.
        unsafe { self.context.alloc_pinned_with_flags(bytes, 0) }.map_err(failed)
    }

    fn give_back(&mut self, pinned: PinnedHostSlice<u8>) {
        self.spare.entry(pinned.len()).or_default().push(pinned);
    }

    fn build(&self, tuning: Tuning) -> Result<Programs, GpuError> {
        let built = compile(self.capability, tuning)?;
        let module = self.context.load_module(built.image).map_err(failed)?;
        let load = |name| module.load_function(name).map_err(failed);
        Ok([load("begin")?, load("fill")?, load("finish")?])
    }
}

impl Card for Nvidia {
    type Memory = CudaSlice<u8>;
    type Read = Read;

    fn memory(&mut self) -> Result<(u64, u64), GpuError> {
        // Memory freed in the stream counts as free once the stream got there.
        self.stream.synchronize().map_err(failed)?;
        let (free, total) = self.context.mem_get_info().map_err(failed)?;
        Ok((free as u64, total as u64))
    }

    fn part_bytes(&self) -> u64 {
        1 << 30
    }

    fn allocate(&mut self, bytes: u64) -> Result<Option<CudaSlice<u8>>, GpuError> {
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        match self.stream.alloc_zeros(bytes) {
            Ok(memory) => Ok(Some(memory)),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn address(&self, memory: &CudaSlice<u8>) -> u64 {
        memory.device_ptr(&self.stream).0
    }

    fn write(&mut self, to: &mut CudaSlice<u8>, bytes: &[u8]) -> Result<(), GpuError> {
        // Always the whole memory is written: pinned memory is then taken in a few lengths only.
        let mut pinned = self.pinned(to.len())?;
        pinned.as_mut_slice().map_err(failed)?[..bytes.len()].copy_from_slice(bytes);
        self.stream.memcpy_htod(&pinned, to).map_err(failed)?;
        self.in_use.push(pinned);
        Ok(())
    }

    fn choose(&mut self, tuning: Tuning) -> Result<(), GpuError> {
        if !self.built.contains_key(&tuning) {
            let programs = self.build(tuning)?;
            self.built.insert(tuning, programs);
        }
        self.chosen = Some(tuning);
        Ok(())
    }

    fn run(&mut self, name: Name, groups: u32, arguments: &[u64]) -> Result<(), GpuError> {
        let programs = self.chosen.and_then(|tuning| self.built.get(&tuning));
        let program = &programs.expect("programs are chosen before they run")[name as usize];
        let mut launch = self.stream.launch_builder(program);
        for argument in arguments {
            launch.arg(argument);
        }
        let shape = LaunchConfig {
            grid_dim: (groups, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are the program's, in its order (`Cuda::launch`): addresses of
        // memory held until the stream is done with it, whose lengths the planner keeps to, and
        // numbers, of which the driver takes the lower bytes where the program wants fewer.
        unsafe { launch.launch(shape) }.map(|_| ()).map_err(failed)
    }

    fn read(&mut self, from: &CudaSlice<u8>, bytes: usize) -> Result<Read, GpuError> {
        let result = if bytes == 0 {
            None
        } else {
            let mut pinned = self.pinned(from.len())?;
            self.stream.memcpy_dtoh(from, &mut pinned).map_err(failed)?;
            Some(pinned)
        };
        let done = self.context.new_event(None).map_err(failed)?;
        done.record(&self.stream).map_err(failed)?;
        Ok(Read { done, bytes, result, in_use: std::mem::take(&mut self.in_use) })
    }

    fn take(&mut self, read: &mut Read) -> Result<Option<Vec<u8>>, GpuError> {
        if !read.done.try_is_complete().map_err(failed)? {
            return Ok(None);
        }
        for pinned in read.in_use.drain(..) {
            self.give_back(pinned);
        }
        let Some(pinned) = read.result.take() else { return Ok(Some(Vec::new())) };
        let bytes = pinned.as_slice().map_err(failed)?[..read.bytes].to_vec();
        self.give_back(pinned);
        Ok(Some(bytes))
    }

    fn wait(&mut self, read: &Read, most: Duration) -> Result<(), GpuError> {
        let until = Instant::now() + most;
        while !read.done.try_is_complete().map_err(failed)? && Instant::now() < until {
            thread::sleep(WAIT_STEP);
        }
        Ok(())
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn watts(&self) -> Option<f64> {
        self.power.as_ref()?.watts()
    }

    fn limit(&mut self, watts: u32) -> Result<(), GpuError> {
        match &mut self.power {
            Some(power) => power.limit(watts),
            None => {
                let why = "NVIDIA's management library does not know the card".to_owned();
                Err(GpuError::Power { watts, why })
            }
        }
    }
}

/// A card's id in the management library's form: `GPU-` and the bytes in groups.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (place, byte) in bytes.iter().enumerate() {
        let dash = if matches!(place, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        text.push_str(&format!("{dash}{byte:02x}"));
    }
    text
}

/// The driver has no wait with a limit: the time between two questions to the driver.
const WAIT_STEP: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{self, Write as _};

    /// Past the capture of passing tests.
    fn say(words: &str) {
        writeln!(io::stderr(), "{words}").expect("stderr is open");
    }

    #[test]
    fn ids_are_written_as_the_management_library_does() {
        let bytes = std::array::from_fn(|place| place as u8 + 0xa0);
        assert_eq!(uuid_text(&bytes), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
    }

    #[test]
    fn without_a_driver_there_is_no_device_and_no_panic() {
        for adapter in adapters() {
            say(&format!("{} by {}", adapter.name, adapter.driver));
        }
    }
}
