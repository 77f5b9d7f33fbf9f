//! Argon2 (RFC 9106), the memory-hard hash: types d, i and id, versions 0x10 and 0x13, any
//! memory, passes, lanes and tag length, with secret and associated data.
//!
//! An island: knows no password policy and no nonces. The modules follow the RFC: `params` §3.1,
//! `h0` §3.2 and §3.3, `position` §3.4.2, `kernel` §3.4.1.2, §3.5 and §3.6, `fill` the steps
//! joining them. Around them: `isa` tells the kernels this machine can run, `arena` provides the
//! memory, `pool` keeps memory for the next hash, `options` are the ways to run a hash, `phc` the
//! tag's form as text.
//!
//! ```
//! use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
//!
//! let params = Params::new(19 * 1024, 2, 1)?;
//! let inputs =
//!     Inputs { password: b"correct horse", salt: b"16 random bytes.", ..Inputs::default() };
//! let mut key = [0; 32];
//! Argon2::new(Variant::Id, Version::V0x13, params).hash(&inputs, &mut key)?;
//! # Ok::<(), shoal_argon::Error>(())
//! ```
//!
//! Many hashes of the same costs are fastest side by side, each in an [`Arena`] that is kept: see
//! [`Argon2::hash_side_by_side`].

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod arena;
mod block;
mod fill;
mod h0;
mod isa;
#[allow(unsafe_code)]
mod kernel;
mod options;
mod params;
mod phc;
mod pool;
mod position;

use h0::DIGEST_BYTES;
use kernel::{Plan, Stopped};
use zeroize::Zeroizing;

pub use arena::{Arena, Pages, Refused};
pub use isa::{Isa, IsaError};
pub use options::{Options, Progress};
pub use params::{Error, Field, Inputs, Params, Variant, Version};
pub use phc::{Limits, PasswordHash, VerifyError};
pub use pool::{KEPT_KIB, keep_at_most_kib};

/// The function with its type, version and costs chosen; reusable, holds no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argon2 {
    variant: Variant,
    version: Version,
    params: Params,
}

/// One of several hashes computed side by side.
pub struct Job<'a> {
    /// The memory of the hash.
    pub arena: &'a mut Arena,
    /// The inputs.
    pub inputs: Inputs<'a>,
    /// Place of the tag; its length is hashed, too.
    pub tag: &'a mut [u8],
}

impl Argon2 {
    /// Chooses the function. The RFC's is [`Version::V0x13`], its recommendation
    /// [`Variant::Id`].
    pub const fn new(variant: Variant, version: Version, params: Params) -> Self {
        Self { variant, version, params }
    }

    /// The costs.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// The references of a lane that follow from the costs alone (RFC 9106 §3.4.1.2): for each
    /// column of the first half, its reference's; 0 for the two columns without one. Every hash of
    /// these costs has the same, so a device keeps one table for all.
    ///
    /// # Panics
    /// Unless the function is [`Variant::Id`] with one lane.
    pub fn known_references(&self) -> Vec<u32> {
        assert!(self.variant == Variant::Id && self.params.lanes() == 1, "one lane of Argon2id");
        kernel::known_references(&Plan::new(self.variant, self.version, self.params))
    }

    /// Fills `tag`, from 4 bytes on; the length is hashed, too.
    ///
    /// Takes [`Params::block_count`] KiB for the time it runs and wipes them before anybody else
    /// has them, unless the costs say [`Params::public`]. The memory then waits for the next hash
    /// ([`keep_at_most_kib`]). Time goes with memory times passes.
    ///
    /// # Errors
    /// [`Error::TooSmall`] and [`Error::TooLarge`] for lengths, found before anything is
    /// computed; [`Error::OutOfMemory`]. The tag is untouched then.
    pub fn hash(&self, inputs: &Inputs<'_>, tag: &mut [u8]) -> Result<(), Error> {
        self.hash_with(inputs, tag, &Options::default())
    }

    /// As [`Self::hash`], with options.
    ///
    /// # Errors
    /// As [`Self::hash`], and [`Error::Stopped`].
    pub fn hash_with(
        &self,
        inputs: &Inputs<'_>,
        tag: &mut [u8],
        options: &Options<'_>,
    ) -> Result<(), Error> {
        inputs.check(tag.len())?;
        let block_count = self.params.block_count();
        let mut arena = pool::take(block_count).map_err(|_| Error::OutOfMemory { block_count })?;
        let result = self.hash_in(&mut arena, inputs, tag, options);
        pool::give(arena);
        result
    }

    /// As [`Self::hash_with`], in memory of the caller's, large enough for the hash.
    ///
    /// Nothing is wiped here: the arena is when it is dropped.
    ///
    /// # Errors
    /// As [`Self::hash_with`], and [`Error::ArenaTooSmall`].
    pub fn hash_in(
        &self,
        arena: &mut Arena,
        inputs: &Inputs<'_>,
        tag: &mut [u8],
        options: &Options<'_>,
    ) -> Result<(), Error> {
        self.hash_side_by_side(&mut [Job { arena, inputs: *inputs, tag }], options)
    }

    /// Computes several hashes side by side, block by block, each in an arena of its own: one
    /// computes while the others wait for memory.
    ///
    /// On one thread four to six large hashes side by side take much less time than one after the
    /// other. Beyond eight they take turns.
    ///
    /// # Errors
    /// As [`Self::hash_in`]; errors of any job are found before the first is started.
    pub fn hash_side_by_side(
        &self,
        jobs: &mut [Job<'_>],
        options: &Options<'_>,
    ) -> Result<(), Error> {
        let Self { variant, version, params } = *self;
        let block_count = params.block_count();
        for job in &*jobs {
            job.inputs.check(job.tag.len())?;
            if job.arena.block_count() < block_count {
                let found = job.arena.block_count();
                return Err(Error::ArenaTooSmall { block_count, found });
            }
        }
        let mut h0 = Zeroizing::new([0; DIGEST_BYTES]);
        let mut fill = fill::Fill::new(options.kernel(), Plan::new(variant, version, params));
        let mut tags = Vec::new();
        for job in jobs {
            h0::prehash(variant, version, &params, &job.inputs, job.tag.len(), &mut h0);
            fill.begin(job.arena.lend(block_count as usize, params.is_public()), &h0);
            tags.push(&mut *job.tag);
        }
        options
            .control(&params, tags.len(), |control| fill.passes(0..params.passes(), control))
            .map_err(|Stopped| Error::Stopped)?;
        for (number, tag) in tags.into_iter().enumerate() {
            fill.finish(number, tag);
        }
        Ok(())
    }
}
