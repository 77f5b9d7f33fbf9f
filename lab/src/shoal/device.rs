//! A graphics processor: its programs alone, without the miner's engine.

use std::collections::BTreeMap;
use std::time::Duration;

use shoal_miner::backend::gpu::{Adapter, Device, DeviceOptions};

use super::miner::{easiest, proof_of_work};
use crate::engine::hash::{Costs, TryNonces};
use crate::engine::{About, HashEngine, Miss};

/// A contender for each device.
pub(super) struct OnDevice(pub(super) Adapter);

impl HashEngine for OnDevice {
    type Arena = ();

    fn about(&self) -> About {
        let Adapter { name, kind, driver, api, .. } = &self.0;
        let verified = if self.0.is_unverified() { ", unverified" } else { "" };
        let note = format!("{kind}, {driver} by {api}{verified}");
        About::ours(&format!("shoal gpu {name} {api}"), &note)
    }

    fn device_nonces(&self, costs: Costs) -> Result<Box<dyn TryNonces>, Miss> {
        proof_of_work(costs)?;
        let mut device = Device::open(&self.0, &DeviceOptions::default()).map_err(Miss::failed)?;
        // Memory is taken before the clock runs.
        device.begin(&easiest(costs.memory_kib, b"no header yet")?).map_err(Miss::failed)?;
        Ok(Box::new(Loop { device, memory_kib: costs.memory_kib }))
    }

    fn hash(&self, _: Costs, _: &[u8], _: &[u8], _: &mut [u8; 32]) -> Result<(), Miss> {
        Err(Miss::NotRun("it tries nonces; hashes are another contender's".into()))
    }
}

/// A device with its memory.
struct Loop {
    device: Device,
    memory_kib: u32,
}

impl TryNonces for Loop {
    fn try_nonces(&mut self, header: &[u8], first: u64, tags: &mut [[u8; 32]]) -> Result<(), Miss> {
        self.device.begin(&easiest(self.memory_kib, header)?).map_err(Miss::failed)?;
        let mut nonces = first..first + tags.len() as u64;
        let mut found = BTreeMap::new();
        while found.len() < tags.len() {
            let tried = self.device.advance(|| nonces.next()).map_err(Miss::failed)?;
            found.extend(tried.into_iter().map(|hash| (hash.nonce, hash.tag)));
            self.device.wait(Duration::from_millis(1)).map_err(Miss::failed)?;
        }
        for (tag, found) in tags.iter_mut().zip(found.into_values()) {
            *tag = found
                .ok_or_else(|| Miss::Failed("a tag of the easiest target is missing".into()))?;
        }
        Ok(())
    }

    fn watts(&self) -> Option<f64> {
        self.device.watts()
    }
}
