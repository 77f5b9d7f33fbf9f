//! `argon2-rust`: a port of the C source with SIMD chosen at run time.

use argon2_rust::params::Memory;
use argon2_rust::{Algorithm, Argon2, Hasher, Params, Version, detected_backend};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};

pub(crate) struct Argon2Rust;

fn hasher(costs: Costs) -> Result<Argon2, Miss> {
    let params = Params::builder()
        .memory(Memory::kib(u64::from(costs.memory_kib)))
        .passes(costs.passes)
        .lanes(costs.lanes)
        .build()
        .map_err(Miss::failed)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

impl HashEngine for Argon2Rust {
    type Arena = Hasher;

    fn about(&self) -> About {
        let note = format!(
            "kernel {:?}; built without wiping, lanes on threads of its own",
            detected_backend()
        );
        About::peer("argon2-rust", "1.1", &note)
    }

    fn arena(&self, costs: Costs) -> Result<Hasher, Miss> {
        let mut hasher = hasher(costs)?.hasher();
        hasher.reserve().map_err(Miss::failed)?;
        Ok(hasher)
    }

    fn hash_in(
        &self,
        arena: &mut Hasher,
        _costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        arena.hash_into(password, salt, tag).map_err(Miss::failed)
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        hasher(costs)?.hash_into(password, salt, tag).map_err(Miss::failed)
    }
}
