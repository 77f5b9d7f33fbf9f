//! RustCrypto's `argon2`.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};
use shoal_lab::memory::HugePages;

pub(crate) struct RustCrypto;

fn hasher(costs: Costs) -> Result<Argon2<'static>, Miss> {
    let params =
        Params::new(costs.memory_kib, costs.passes, costs.lanes, Some(32)).map_err(Miss::failed)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

impl HashEngine for RustCrypto {
    type Arena = HugePages;

    fn about(&self) -> About {
        About::peer(
            "rustcrypto",
            "0.6",
            "the crate argon2; its own choice of AVX2; lanes one after the other",
        )
    }

    fn arena(&self, costs: Costs) -> Result<HugePages, Miss> {
        HugePages::new(hasher(costs)?.params().block_count() * size_of::<Block>())
    }

    fn hash_in(
        &self,
        arena: &mut HugePages,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        // SAFETY: a block is 128 words, any bytes are valid words, and the memory begins at a page.
        let (_, blocks, _) = unsafe { arena.bytes().align_to_mut::<Block>() };
        hasher(costs)?
            .hash_password_into_with_memory(password, salt, tag, blocks)
            .map_err(Miss::failed)
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        hasher(costs)?.hash_password_into(password, salt, tag).map_err(Miss::failed)
    }
}
