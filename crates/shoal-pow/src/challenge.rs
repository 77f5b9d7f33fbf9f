//! The hash of a nonce, and when the nonce is a solution.

use shoal_argon::{Argon2, Inputs, Options, Params, Variant, Version};

use crate::{Error, TAG_BYTES, Target};

/// Memory of one hash on the chain: 2 GiB.
pub const MEMORY_KIB: u32 = 2 * 1024 * 1024;

/// A header to find a nonce for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    header: Vec<u8>,
    function: Argon2,
    target: Target,
}

/// A nonce whose tag meets the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The nonce.
    pub nonce: u64,
    /// Its tag.
    pub tag: [u8; TAG_BYTES],
}

impl Challenge {
    /// A challenge on `header`, the block header without its nonce, at least 8 bytes.
    ///
    /// `memory_kib` is [`MEMORY_KIB`] on the chain. Passes and lanes are one. Everything about it
    /// is public, and nothing is wiped.
    ///
    /// # Errors
    /// [`Error::Hash`] for a header that is too short and for memory out of bounds.
    pub fn new(header: &[u8], memory_kib: u32, target: Target) -> Result<Self, Error> {
        let params = Params::new(memory_kib, 1, 1)?.public();
        if header.len() < Inputs::SALT_MIN {
            return Err(Error::Hash(shoal_argon::Error::TooSmall {
                field: shoal_argon::Field::Salt,
                value: header.len() as u64,
                min: Inputs::SALT_MIN as u64,
            }));
        }
        let function = Argon2::new(Variant::Id, Version::V0x13, params);
        Ok(Self { header: header.to_vec(), function, target })
    }

    /// The target of tags.
    pub const fn target(&self) -> Target {
        self.target
    }

    /// The header: the salt of every hash.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// KiB asked for, a part of what is hashed.
    pub const fn memory_kib(&self) -> u32 {
        self.function.params().memory_kib()
    }

    /// For each column below the middle of a hash, the column of its reference
    /// ([`Argon2::known_references`]).
    pub fn known_references(&self) -> Vec<u32> {
        self.function.known_references()
    }

    /// Blocks of 1 KiB a hash takes.
    pub const fn block_count(&self) -> u32 {
        self.function.params().block_count()
    }

    /// The tag of a nonce, at the cost of one hash in memory from the process's pool.
    ///
    /// # Errors
    /// [`Error::Hash`] when there is no memory or the options stopped it.
    pub fn tag(&self, nonce: u64, options: &Options<'_>) -> Result<[u8; TAG_BYTES], Error> {
        let mut tag = [0; TAG_BYTES];
        let password = nonce.to_le_bytes();
        self.function.hash_with(&self.inputs(&password), &mut tag, options)?;
        Ok(tag)
    }

    /// The nonce's solution, or `None` where the tag misses the target. Costs one [`Self::tag`].
    ///
    /// # Errors
    /// As [`Self::tag`].
    pub fn verify(&self, nonce: u64, options: &Options<'_>) -> Result<Option<Solution>, Error> {
        let tag = self.tag(nonce, options)?;
        Ok(self.target.is_met_by(&tag).then_some(Solution { nonce, tag }))
    }

    pub(crate) fn inputs<'a>(&'a self, password: &'a [u8; 8]) -> Inputs<'a> {
        Inputs { password, salt: &self.header, ..Inputs::default() }
    }

    pub(crate) const fn function(&self) -> &Argon2 {
        &self.function
    }
}
