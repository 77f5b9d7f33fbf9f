//! Argon2id on graphics processors, for proof of work: many hashes at a time, their memory in one
//! pool of chunks, shifted in phase.
//!
//! A device's memory limits the number of hashes at a time, and each hash waits most of the time.
//! A hash of one pass needs the filled part of its memory alone: hashes begun one after the other,
//! spread over the time of one, need little more than half of the memory that hashes side by side
//! would need ([`Lanes`]). The columns of the first half refer to others by
//! position alone, the same ones in every hash: one table for all.
//!
//! `lanes` plans launches and knows no device; `run` drives a device of any driver through them.
//! `portable`, behind the feature `wgpu`, is Vulkan, Metal or DirectX 12; `cuda`, behind its
//! feature, NVIDIA's driver, loaded when devices are asked for. The feature `emulator`, for
//! tests, makes a card of a process running CUDA's programs on the processor.
//! Nonces, header and target lie on the device, and solutions alone come back. Never for keys: a
//! passphrase would lie in a driver's memory, beyond anybody's wipe.

#![deny(unsafe_code)] // allowed in `cuda::nvidia` alone

#[cfg(any(feature = "cuda", feature = "emulator"))]
mod cuda;
#[cfg(any(feature = "cuda", feature = "emulator", feature = "wgpu"))]
mod device;
mod lanes;
#[cfg(feature = "wgpu")]
mod portable;
#[cfg(any(feature = "cuda", feature = "emulator", feature = "wgpu"))]
mod run;

#[cfg(feature = "emulator")]
pub use cuda::emulator::EmulatedCard;
#[cfg(any(feature = "cuda", feature = "emulator", feature = "wgpu"))]
pub use device::{Adapter, AdapterKind, Device, DeviceOptions, GpuError, Tried, adapters};
pub use lanes::{Lanes, Order, Shape};
