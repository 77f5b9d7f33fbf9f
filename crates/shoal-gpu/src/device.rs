//! Devices as others see them: found, opened, driven.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use shoal_pow::{Challenge, TAG_BYTES};

use crate::run::Drive;

/// A device for programs.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its name, by its driver.
    pub name: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// The driver, with its version.
    pub driver: String,
    /// `vulkan`, `metal`, `dx12` or `cuda`.
    pub api: String,
    /// Its memory, in KiB; `None` where the interface does not tell.
    pub memory_kib: Option<u64>,
    pub(crate) origin: Origin,
}

/// Where a device was found.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    #[cfg(feature = "wgpu")]
    Portable(crate::portable::Found),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::nvidia::Found),
    #[cfg(feature = "emulator")]
    Emulated(crate::cuda::emulator::EmulatedCard),
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// Shares the machine's memory.
    Integrated,
    /// A part of another machine's.
    Virtual,
    /// A program on the processor: for tests, never faster than our kernels.
    Software,
    /// The driver does not say.
    Unknown,
}

impl AdapterKind {
    /// `true` where the device's memory is taken from the machine's.
    pub const fn shares_memory(self) -> bool {
        matches!(self, Self::Integrated | Self::Software)
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "a card",
            Self::Integrated => "shares the machine's memory",
            Self::Virtual => "virtual",
            Self::Software => "a program on the processor",
            Self::Unknown => "of unknown kind",
        })
    }
}

/// Every device there is, in the drivers' order; those of CUDA first, in builds with CUDA. A card
/// of NVIDIA may be there twice, by CUDA and by Vulkan. May take a second: drivers are loaded.
pub fn adapters() -> Vec<Adapter> {
    let drivers: &[Vec<Adapter>] = &[
        #[cfg(feature = "cuda")]
        crate::cuda::nvidia::adapters(),
        #[cfg(feature = "wgpu")]
        crate::portable::adapters(),
    ];
    drivers.concat()
}

impl Adapter {
    /// `true` for CUDA: no card has run our programs by CUDA yet, and the host side was tried
    /// against an emulated device alone.
    pub fn is_unverified(&self) -> bool {
        self.api == "cuda"
    }
}

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
    /// The file of tuning results; `None` for an untuned device. Only CUDA's programs are tuned.
    pub tuning: Option<PathBuf>,
    /// Most watts of the card. Only CUDA's driver limits watts, and only for root.
    pub watts: Option<u32>,
    /// Integers of 64 bits by pairs, though the device has them: for tests.
    pub narrow: bool,
    /// No shuffles, though the device has them: for tests.
    pub shared: bool,
}

impl DeviceOptions {
    /// Memory to take for hashes of `blocks`, in KiB; `None` for all of a card's own.
    pub(crate) fn wanted_kib(&self, shares_memory: bool, blocks: u32) -> Option<u64> {
        self.memory_kib.or_else(|| shares_memory.then(|| 2 * u64::from(blocks)))
    }
}

impl Default for DeviceOptions {
    fn default() -> Self {
        let launch = Duration::from_millis(40);
        Self {
            memory_kib: None,
            lane_max: 1024,
            launch,
            tuning: None,
            watts: None,
            narrow: false,
            shared: false,
        }
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
    /// The device does not keep to a limit of power.
    #[error("a limit of {watts} W cannot be set: {why}")]
    Power {
        /// The limit asked for.
        watts: u32,
        /// The driver's words.
        why: String,
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
    drive: Box<dyn Drive>,
}

impl Device {
    /// Opens a device and compares two tags of its with our own kernels'.
    ///
    /// # Errors
    /// [`GpuError`] when the driver refuses, or the device computes false tags.
    pub fn open(adapter: &Adapter, options: &DeviceOptions) -> Result<Self, GpuError> {
        let drive: Box<dyn Drive> = match &adapter.origin {
            #[cfg(feature = "wgpu")]
            Origin::Portable(found) => crate::portable::open(found, adapter.kind, options)?,
            #[cfg(feature = "cuda")]
            Origin::Cuda(found) => crate::cuda::nvidia::open(found, adapter, options)?,
            #[cfg(feature = "emulator")]
            Origin::Emulated(card) => crate::cuda::emulator::open(card, adapter, options)?,
        };
        Ok(Self { drive })
    }

    /// Takes up a challenge: hashes under way are given up. Waits for launches under way, and
    /// takes memory where the challenge needs another amount.
    ///
    /// # Errors
    /// [`GpuError`] when the memory does not suffice, or the driver refuses.
    pub fn begin(&mut self, challenge: &Challenge) -> Result<(), GpuError> {
        self.drive.begin(challenge)
    }

    /// Goes on as far as it can without waiting: gives the device launches, with nonces
    /// from `next`, and returns the nonces tried since the last call.
    ///
    /// # Errors
    /// [`GpuError`] when the driver refuses, or lost the device.
    ///
    /// # Panics
    /// Without a challenge.
    pub fn advance(
        &mut self,
        mut next: impl FnMut() -> Option<u64>,
    ) -> Result<Vec<Tried>, GpuError> {
        self.drive.advance(&mut next)
    }

    /// Gives up every hash under way, at once: results of launches under way are thrown away.
    pub fn clear(&mut self) {
        self.drive.clear();
    }

    /// Hashes under way, hashes of launches not read yet among them.
    pub fn under_way(&self) -> usize {
        self.drive.under_way()
    }

    /// `true` where the device computes nothing.
    pub fn is_idle(&self) -> bool {
        self.drive.is_idle()
    }

    /// Hashes at a time, in the long run; 0 without a challenge.
    pub fn lane_count(&self) -> u32 {
        self.drive.lane_count()
    }

    /// KiB of blocks held; 0 without a challenge.
    pub fn memory_kib(&self) -> u64 {
        self.drive.memory_kib()
    }

    /// Features in use, for people.
    pub fn kernel(&self) -> String {
        self.drive.way()
    }

    /// Watts drawn by the card now; `None` where the driver does not tell.
    pub fn watts(&self) -> Option<f64> {
        self.drive.watts()
    }

    /// Waits for the launches under way, at most this long.
    ///
    /// # Errors
    /// [`GpuError`] when the driver lost the device.
    pub fn wait(&mut self, most: Duration) -> Result<(), GpuError> {
        self.drive.wait(most)
    }
}
