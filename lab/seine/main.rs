//! seine's Argon2id kernel as a contender: built only where a checkout of seine is given.

use std::process::ExitCode;

use blocknet_pow_kernel::{FixedArgon2id, PowBlock, active_isa_label};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};
use shoal_lab::memory::HugePages;

struct Seine;

impl HashEngine for Seine {
    type Arena = (FixedArgon2id, HugePages);

    fn about(&self) -> About {
        let note = format!("seine's pow-kernel ({}); t = 1, p = 1 only", active_isa_label());
        About::peer("kernel", "checkout", &note)
    }

    fn arena(&self, costs: Costs) -> Result<Self::Arena, Miss> {
        let hasher = hasher(costs)?;
        let memory = HugePages::new(hasher.block_count() * size_of::<PowBlock>())?;
        Ok((hasher, memory))
    }

    fn hash_in(
        &self,
        (hasher, memory): &mut Self::Arena,
        _costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        // SAFETY: a block is 128 words, any bytes are valid words, and the memory begins at a page.
        let (_, blocks, _) = unsafe { memory.bytes().align_to_mut::<PowBlock>() };
        hasher
            .hash_password_into_with_memory(password, salt, tag, blocks)
            .map_err(|error| Miss::Failed(format!("{error:?}")))
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        let mut arena = self.arena(costs)?;
        self.hash_in(&mut arena, costs, password, salt, tag)
    }
}

fn hasher(costs: Costs) -> Result<FixedArgon2id, Miss> {
    if costs.passes != 1 || costs.lanes != 1 {
        return Err(Miss::absent("more than one pass or lane"));
    }
    Ok(FixedArgon2id::new(costs.memory_kib))
}

fn main() -> ExitCode {
    let mut contenders = shoal_lab::Contenders::new();
    contenders.hash(Seine);
    shoal_lab::main(&[], &contenders)
}
