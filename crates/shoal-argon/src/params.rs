//! Requests to Argon2: type, version, costs and inputs, with their bounds (RFC 9106 §3.1).
//!
//! Every error of a request is found here, before memory is touched.

use std::fmt;

/// One of the three functions: how a block's reference is chosen (RFC 9106 §3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Argon2d: references depend on the memory's contents. Hardest on trade-offs, open to
    /// side channels.
    D,
    /// Argon2i: references depend on positions only.
    I,
    /// Argon2id: as i in the first half of the first pass, then as d. The one to choose when
    /// nothing else decides.
    Id,
}

impl Variant {
    /// The number in the hash's inputs: y in the RFC.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::D => 0,
            Self::I => 1,
            Self::Id => 2,
        }
    }
}

/// A version of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// 1.0, from before the RFC: later passes overwrite the blocks.
    V0x10,
    /// 1.3, the RFC's: later passes xor into the blocks.
    V0x13,
}

impl Version {
    /// The number in the hash's inputs: v in the RFC.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::V0x10 => 0x10,
            Self::V0x13 => 0x13,
        }
    }
}

/// The costs of a hash: memory, passes, lanes. Valid by construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    public: bool,
}

impl Params {
    /// Most lanes of the RFC.
    pub const LANES_MAX: u32 = (1 << 24) - 1;

    /// Returns the costs, or names the one out of bounds.
    ///
    /// `memory_kib` is at least 8 a lane; what is used of it is the multiple of four times the
    /// lanes below it, though the exact figure goes into the hash. Nothing is allocated yet:
    /// whoever takes costs from a stranger bounds them first.
    ///
    /// # Errors
    /// [`Error::TooSmall`] and [`Error::TooLarge`], with field, value and bound.
    pub const fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, Error> {
        if let Err(error) = bounded(Field::Lanes, lanes as u64, 1, Self::LANES_MAX as u64) {
            return Err(error);
        }
        let memory_min = 8 * lanes as u64;
        if let Err(error) =
            bounded(Field::MemoryKib, memory_kib as u64, memory_min, u32::MAX as u64)
        {
            return Err(error);
        }
        if let Err(error) = bounded(Field::Passes, passes as u64, 1, u32::MAX as u64) {
            return Err(error);
        }
        Ok(Self { memory_kib, passes, lanes, public: false })
    }

    /// Declares the inputs public: the blocks are freed without a wipe.
    ///
    /// Otherwise blocks are wiped first, at the cost of writing the memory once.
    /// A proof of work hashes public bytes; a password never is one. The tag does not depend
    /// on it.
    #[must_use]
    pub const fn public(mut self) -> Self {
        self.public = true;
        self
    }

    /// Memory asked for, in KiB: m in the RFC.
    pub const fn memory_kib(&self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory: t in the RFC.
    pub const fn passes(&self) -> u32 {
        self.passes
    }

    /// Lanes, the parts of the work done at once: p in the RFC.
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Blocks of 1 KiB really used: m' in the RFC, a multiple of four a lane.
    pub const fn block_count(&self) -> u32 {
        let quarter_count = 4 * self.lanes;
        self.memory_kib / quarter_count * quarter_count
    }

    /// `true` where the blocks may be freed without being wiped.
    pub(crate) const fn is_public(&self) -> bool {
        self.public
    }
}

/// The byte strings to hash. Secrets are borrowed, and so the caller's to wipe.
///
/// Only the salt has a least length; leave out the others with `..Inputs::default()`.
#[derive(Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// Message or password: P in the RFC. May be empty.
    pub password: &'a [u8],
    /// At least 8 bytes, 16 recommended, unlike for every password: S in the RFC.
    pub salt: &'a [u8],
    /// A key kept apart from the tags ("pepper"): K in the RFC. Usually empty.
    pub secret: &'a [u8],
    /// Data bound to the tag beside the password: X in the RFC. Usually empty.
    pub associated_data: &'a [u8],
}

impl Inputs<'_> {
    /// Fewest bytes of a salt.
    pub const SALT_MIN: usize = 8;

    /// Checks every length, the tag's included.
    pub(crate) fn check(&self, tag_bytes: usize) -> Result<(), Error> {
        let max = u64::from(u32::MAX);
        for (field, bytes, min) in [
            (Field::Password, self.password.len(), 0),
            (Field::Salt, self.salt.len(), Self::SALT_MIN as u64),
            (Field::Secret, self.secret.len(), 0),
            (Field::AssociatedData, self.associated_data.len(), 0),
            (Field::Tag, tag_bytes, TAG_MIN as u64),
        ] {
            bounded(field, bytes as u64, min, max)?;
        }
        Ok(())
    }
}

/// The part of a request an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// [`Params::memory_kib`].
    MemoryKib,
    /// [`Params::passes`].
    Passes,
    /// [`Params::lanes`].
    Lanes,
    /// The length of [`Inputs::password`].
    Password,
    /// The length of [`Inputs::salt`].
    Salt,
    /// The length of [`Inputs::secret`].
    Secret,
    /// The length of [`Inputs::associated_data`].
    AssociatedData,
    /// The length of the tag asked for.
    Tag,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryKib => "memory in KiB",
            Self::Passes => "passes",
            Self::Lanes => "lanes",
            Self::Password => "password length in bytes",
            Self::Salt => "salt length in bytes",
            Self::Secret => "secret length in bytes",
            Self::AssociatedData => "associated data length in bytes",
            Self::Tag => "tag length in bytes",
        })
    }
}

/// Why there is no tag. Names lengths and costs, never contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for less than the function is defined for.
    #[error("{field} must be at least {min}: {value}")]
    TooSmall {
        /// The part asked for too little of.
        field: Field,
        /// As given.
        value: u64,
        /// The least allowed; the memory's follows from the lanes.
        min: u64,
    },
    /// The caller asked for more than the function is defined for.
    #[error("{field} must be at most {max}: {value}")]
    TooLarge {
        /// The part asked for too much of.
        field: Field,
        /// As given.
        value: u64,
        /// The most allowed.
        max: u64,
    },
    /// The machine did not give the memory.
    #[error("no memory for this many blocks of 1 KiB: {block_count}")]
    OutOfMemory {
        /// Blocks asked for.
        block_count: u32,
    },
    /// The caller's arena has fewer blocks than the costs ask for.
    #[error("an arena for {block_count} blocks of 1 KiB is needed, this one has {found}")]
    ArenaTooSmall {
        /// Blocks the costs ask for.
        block_count: u32,
        /// Blocks of the arena.
        found: u32,
    },
    /// The caller asked to stop. The memory holds nothing of use.
    #[error("stopped before the hash was done")]
    Stopped,
}

/// Fewest bytes of a tag.
const TAG_MIN: usize = 4;

const fn bounded(field: Field, value: u64, min: u64, max: u64) -> Result<(), Error> {
    if value < min {
        return Err(Error::TooSmall { field, value, min });
    }
    if value > max {
        return Err(Error::TooLarge { field, value, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_used_is_whole_slices_of_every_lane() {
        for (memory_kib, lanes, block_count) in [
            (8, 1, 8),
            (65, 1, 64),
            (67, 2, 64),
            (32, 4, 32),
            (47, 4, 32),
            (u32::MAX, 3, u32::MAX - 3),
        ] {
            let params = Params::new(memory_kib, 1, lanes).unwrap();
            assert_eq!(params.block_count(), block_count, "m={memory_kib} p={lanes}");
        }
        let most = Params::new(8 * Params::LANES_MAX, 1, Params::LANES_MAX).unwrap();
        assert_eq!(most.block_count(), 8 * Params::LANES_MAX);
    }

    #[test]
    fn costs_out_of_bounds_name_field_value_and_bound() {
        let check = |memory_kib, passes, lanes, expect: &str| {
            assert_eq!(Params::new(memory_kib, passes, lanes).unwrap_err().to_string(), expect);
        };
        check(8, 1, 0, "lanes must be at least 1: 0");
        check(8, 0, 1, "passes must be at least 1: 0");
        check(7, 1, 1, "memory in KiB must be at least 8: 7");
        check(31, 1, 4, "memory in KiB must be at least 32: 31");
        check(0, 0, 1, "memory in KiB must be at least 8: 0");
        check(u32::MAX, 1, 1 << 24, "lanes must be at most 16777215: 16777216");
    }

    #[test]
    fn lengths_out_of_bounds_name_field_value_and_bound() {
        let check = |salt: &[u8], tag_bytes, expect: &str| {
            let inputs = Inputs { salt, ..Inputs::default() };
            assert_eq!(inputs.check(tag_bytes).unwrap_err().to_string(), expect);
        };
        check(b"seven by", 3, "tag length in bytes must be at least 4: 3");
        check(b"seven b", 4, "salt length in bytes must be at least 8: 7");
        check(b"eight by", 1 << 32, "tag length in bytes must be at most 4294967295: 4294967296");
        assert_eq!(Inputs { salt: b"eight by", ..Inputs::default() }.check(4), Ok(()));
    }

    #[test]
    fn an_error_stays_small() {
        assert!(size_of::<Error>() <= 24, "{}", size_of::<Error>());
    }
}
