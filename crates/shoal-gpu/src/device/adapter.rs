//! The devices of this machine, as the system's drivers name them.

use std::fmt;

/// A device for programs.
#[derive(Clone, Debug)]
pub struct Adapter {
    pub(super) adapter: wgpu::Adapter,
    /// Its name, by its driver.
    pub name: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// The driver, with its version.
    pub driver: String,
    /// `vulkan`, `metal` or `dx12`.
    pub api: String,
    /// Integers of 64 bits; otherwise they are computed by pairs.
    pub has_wide_integers: bool,
    /// Fewest threads of a subgroup; `None` without subgroups.
    pub subgroup: Option<u32>,
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

/// Every device there is, in the drivers' order. May take a second: drivers are loaded.
pub fn adapters() -> Vec<Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    let instance = wgpu::Instance::new(descriptor);
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    found.into_iter().map(Adapter::of).collect()
}

impl Adapter {
    fn of(adapter: wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let features = adapter.features();
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        Self {
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
            has_wide_integers: features.contains(wgpu::Features::SHADER_INT64),
            subgroup: subgroups.then_some(info.subgroup_min_size),
            adapter,
        }
    }
}
