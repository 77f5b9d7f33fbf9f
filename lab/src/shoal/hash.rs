//! `shoal-argon`: the kernel detected for the machine, every other kernel forced, and hashes side
//! by side.

use shoal_argon::{Arena, Argon2, Inputs, Isa, Job, Options, Params, Variant, Version};

use crate::contenders::Contenders;
use crate::engine::hash::{Costs, TryNonces};
use crate::engine::{About, HashEngine, Miss};

/// Adds the kernel detected here and the machine's other kernels, and names the missing ones.
pub(super) fn add(contenders: &mut Contenders) {
    let chosen = Isa::detect();
    contenders.hash(Argon { isa: chosen, name: "shoal".into(), side_by_side: 1 });
    for name in Isa::NAMES {
        let contender = format!("shoal {name}");
        match Isa::named(name) {
            Ok(isa) if isa == chosen => {}
            Ok(isa) => contenders.hash(Argon { isa, name: contender, side_by_side: 1 }),
            Err(error) => {
                let about = About::ours(&contender, "the kernel of that instruction set");
                contenders.absent(
                    crate::workload::Family::Argon,
                    about,
                    Miss::NotRun(error.to_string()),
                );
            }
        }
    }
    for side_by_side in [2, 4, 6] {
        let name = format!("shoal x{side_by_side}");
        contenders.hash(Argon { isa: chosen, name, side_by_side });
    }
    contenders.hash(super::miner::Backend);
    #[cfg(any(feature = "gpu", feature = "cuda"))]
    for adapter in shoal_miner::backend::gpu::adapters() {
        contenders.hash(super::device::OnDevice(adapter));
    }
}

/// One kernel, with `side_by_side` hashes side by side on each thread.
struct Argon {
    isa: Isa,
    name: String,
    side_by_side: usize,
}

fn function(costs: Costs) -> Result<Argon2, Miss> {
    // The inputs of a proof of work are public, so nothing is wiped.
    let params =
        Params::new(costs.memory_kib, costs.passes, costs.lanes).map_err(Miss::failed)?.public();
    Ok(Argon2::new(Variant::Id, Version::V0x13, params))
}

impl HashEngine for Argon {
    type Arena = Vec<Arena>;

    fn about(&self) -> About {
        let note = match self.side_by_side {
            1 => format!("kernel {}; lanes on threads; memory waits for the next hash", self.isa),
            many => format!("kernel {}; {many} hashes side by side, each in its arena", self.isa),
        };
        About::ours(&self.name, &note)
    }

    fn side_by_side(&self) -> usize {
        self.side_by_side
    }

    fn arena(&self, costs: Costs) -> Result<Vec<Arena>, Miss> {
        (0..self.side_by_side)
            .map(|_| {
                let mut arena = Arena::new(costs.memory_kib).map_err(Miss::failed)?;
                arena.populate().map_err(Miss::failed)?;
                Ok(arena)
            })
            .collect()
    }

    fn hash_in(
        &self,
        arenas: &mut Vec<Arena>,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        self.hash_side_by_side(arenas, costs, &[password], salt, std::slice::from_mut(tag))
    }

    fn hash_side_by_side(
        &self,
        arenas: &mut Vec<Arena>,
        costs: Costs,
        passwords: &[&[u8]],
        salt: &[u8],
        tags: &mut [[u8; 32]],
    ) -> Result<(), Miss> {
        let mut jobs: Vec<Job<'_>> = arenas
            .iter_mut()
            .zip(passwords)
            .zip(tags)
            .map(|((arena, password), tag)| Job {
                arena,
                inputs: Inputs { password, salt, ..Inputs::default() },
                tag,
            })
            .collect();
        let options = Options::default().isa(self.isa);
        function(costs)?.hash_side_by_side(&mut jobs, &options).map_err(Miss::failed)
    }

    fn nonces(&self, costs: Costs, thread_count: usize) -> Result<Box<dyn TryNonces>, Miss> {
        let loops = super::miner::BareLoops::new(self.isa, costs, thread_count)?;
        Ok(Box::new(loops))
    }

    #[cfg(any(feature = "gpu", feature = "cuda"))]
    fn device_nonces(&self, costs: Costs) -> Result<Box<dyn TryNonces>, Miss> {
        let thread_count = crate::workload::threads();
        crate::workload::hash::refuse_swapping(costs, thread_count)?;
        self.nonces(costs, thread_count)
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        let inputs = Inputs { password, salt, ..Inputs::default() };
        let options = Options::default().isa(self.isa);
        function(costs)?.hash_with(&inputs, tag, &options).map_err(Miss::failed)
    }
}
