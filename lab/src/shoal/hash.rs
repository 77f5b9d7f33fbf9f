//! `shoal-argon`.

use shoal_argon::{Argon2, Inputs, Params, Variant, Version};

use crate::contenders::Contenders;
use crate::engine::hash::Costs;
use crate::engine::{About, HashEngine, Miss};

/// Adds the kernels that are built, and names the others.
pub(super) fn add(contenders: &mut Contenders) {
    contenders.hash(Argon);
    for isa in ["avx2", "avx512"] {
        let about = About::ours(&format!("shoal {isa}"), "the kernel of that instruction set");
        contenders.absent(crate::workload::Family::Argon, about, Miss::not_built());
    }
}

/// The scalar kernel.
struct Argon;

impl HashEngine for Argon {
    type Arena = ();

    fn about(&self) -> About {
        About::ours("shoal", "scalar kernel; memory found and given back by every hash")
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        // The inputs of a proof of work are public, so nothing is wiped.
        let params = Params::new(costs.memory_kib, costs.passes, costs.lanes)
            .map_err(Miss::failed)?
            .public();
        let inputs = Inputs { password, salt, ..Inputs::default() };
        Argon2::new(Variant::Id, Version::V0x13, params).hash(&inputs, tag).map_err(Miss::failed)
    }
}
