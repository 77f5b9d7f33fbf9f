//! seine's Argon2id kernel as a contender: built only where a checkout of seine is given.

use std::process::ExitCode;

use pow_kernel::{FixedArgon2id, PowBlock};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};

struct Seine;

impl HashEngine for Seine {
    type Arena = Vec<PowBlock>;

    fn about(&self) -> About {
        About::peer("kernel", "checkout", "seine's pow-kernel; t = 1, p = 1 only; memory of a Vec")
    }

    fn arena(&self, costs: Costs) -> Result<Vec<PowBlock>, Miss> {
        let hasher = hasher(costs)?;
        Ok(vec![PowBlock::default(); hasher.block_count()])
    }

    fn hash_in(
        &self,
        arena: &mut Vec<PowBlock>,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        hasher(costs)?
            .hash_password_into_with_memory(password, salt, tag, arena)
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
