//! A card's power, drawn and at most, by NVIDIA's management library where the library is there.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::device::GpuError;

/// The management library's view of a card.
#[derive(Debug)]
pub(super) struct Power {
    nvml: Nvml,
    uuid: String,
    /// The limit before ours, in milliwatts: set again at the end.
    before: Option<u32>,
}

impl Power {
    /// The card with this id; `None` without the library, or for a card unknown to the library.
    pub(super) fn of(uuid: String) -> Option<Self> {
        let this = Self { nvml: Nvml::init().ok()?, uuid, before: None };
        this.device().ok()?;
        Some(this)
    }

    fn device(&self) -> Result<Device<'_>, NvmlError> {
        self.nvml.device_by_uuid(self.uuid.as_str())
    }

    /// Watts drawn now.
    pub(super) fn watts(&self) -> Option<f64> {
        let milliwatts = self.device().ok()?.power_usage().ok()?;
        Some(f64::from(milliwatts) / 1000.0)
    }

    /// Lets the card draw so many watts at most, until this is dropped.
    pub(super) fn limit(&mut self, watts: u32) -> Result<(), GpuError> {
        let refused = |error: NvmlError| GpuError::Power { watts, why: error.to_string() };
        let mut device = self.device().map_err(refused)?;
        let before = device.power_management_limit().map_err(refused)?;
        device.set_power_management_limit(watts.saturating_mul(1000)).map_err(refused)?;
        self.before.get_or_insert(before);
        Ok(())
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        if let (Some(before), Ok(mut device)) = (self.before, self.device()) {
            // A lost card has no limit.
            let _ = device.set_power_management_limit(before);
        }
    }
}
