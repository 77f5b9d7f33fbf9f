//! `rust-argon2`: allocates within every hash and offers nothing else.

use argon2_sru::{Config, Variant, Version};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};

pub(crate) struct RustArgon2;

impl HashEngine for RustArgon2 {
    type Arena = ();

    fn about(&self) -> About {
        About::peer("rust-argon2", "3.0", "no SIMD; allocates within every hash")
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        let config = Config {
            variant: Variant::Argon2id,
            version: Version::Version13,
            mem_cost: costs.memory_kib,
            time_cost: costs.passes,
            lanes: costs.lanes,
            ..Config::original()
        };
        let hash = argon2_sru::hash_raw(password, salt, &config).map_err(Miss::failed)?;
        tag.copy_from_slice(&hash);
        Ok(())
    }
}
