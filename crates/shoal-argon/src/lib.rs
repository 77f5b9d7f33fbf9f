//! Argon2 (RFC 9106), the memory-hard hash: types d, i and id, versions 0x10 and 0x13, any
//! memory, passes, lanes and tag length, with secret and associated data.
//!
//! An island: knows no password policy, no nonces, no encodings. The modules follow the RFC:
//! `params` §3.1, `h0` §3.2 and §3.3, `addresses` §3.4.1, `position` §3.4.2, `kernel` §3.5 and
//! §3.6, `fill` what joins them.
//!
//! ```
//! use shoal_argon::{Argon2, Inputs, Params, Variant, Version};
//!
//! let params = Params::new(19 * 1024, 2, 1)?;
//! let inputs = Inputs { password: b"correct horse", salt: b"16 random bytes.", ..Inputs::default() };
//! let mut key = [0; 32];
//! Argon2::new(Variant::Id, Version::V0x13, params).hash(&inputs, &mut key)?;
//! # Ok::<(), shoal_argon::Error>(())
//! ```

#![forbid(unsafe_code)]

mod addresses;
mod arena;
mod block;
mod fill;
mod h0;
mod kernel;
mod params;
mod position;

use h0::DIGEST_BYTES;
use zeroize::Zeroizing;

pub use params::{Error, Field, Inputs, Params, Variant, Version};

/// The function with its type, version and costs chosen; reusable, holds no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argon2 {
    variant: Variant,
    version: Version,
    params: Params,
}

impl Argon2 {
    /// Chooses the function. The RFC's is [`Version::V0x13`], its recommendation
    /// [`Variant::Id`].
    pub const fn new(variant: Variant, version: Version, params: Params) -> Self {
        Self { variant, version, params }
    }

    /// Fills `tag`, whose length is part of what is hashed, from 4 bytes on.
    ///
    /// Takes [`Params::block_count`] KiB for the time it runs and wipes them before they are
    /// freed, unless the costs say [`Params::public`]. Time goes with memory times passes.
    ///
    /// # Errors
    /// [`Error::TooSmall`] and [`Error::TooLarge`] for lengths, found before anything is
    /// computed; [`Error::OutOfMemory`]. The tag is untouched then.
    pub fn hash(&self, inputs: &Inputs<'_>, tag: &mut [u8]) -> Result<(), Error> {
        inputs.check(tag.len())?;
        let Self { variant, version, params } = *self;
        let mut h0 = Zeroizing::new([0; DIGEST_BYTES]);
        h0::prehash(variant, version, &params, inputs, tag.len(), &mut h0);
        let mut fill = fill::Fill::new(variant, version, params, &h0)?;
        for pass in 0..params.passes() {
            fill.pass(pass);
        }
        fill.finish(tag);
        Ok(())
    }
}
