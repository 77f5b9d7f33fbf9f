//! Instruction sets with kernels of their own, and the ones of this machine.

use std::fmt;

/// An instruction set of this machine: its holder may run the kernel.
///
/// Made only by asking the machine, so it cannot be forged. Every kernel gives the same tags;
/// which one ran is for logs and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(Set);

/// The instruction set behind an [`Isa`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Set {
    /// Nothing beyond Rust: the definition.
    Scalar,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Advanced SIMD.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Advanced SIMD with the SHA-3 extension, whose xor-and-rotate BLAKE2b wants as well.
    #[cfg(target_arch = "aarch64")]
    NeonSha3,
}

impl Isa {
    /// Every name there is, on this machine or another, from the slowest on.
    pub const NAMES: [&'static str; 5] = ["scalar", "avx2", "avx512", "neon", "neon-sha3"];

    /// The kernel of plain 64-bit arithmetic, which every machine runs.
    pub const SCALAR: Self = Self(Set::Scalar);

    /// The fastest of this machine.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::SCALAR)
    }

    /// All of this machine's, from the slowest on.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().filter_map(|name| Self::named(name).ok())
    }

    /// The one of this name.
    ///
    /// # Errors
    /// [`UnknownIsa`] when there is no such name, [`MissingIsa`] when this machine lacks it.
    ///
    /// [`UnknownIsa`]: IsaError::Unknown
    /// [`MissingIsa`]: IsaError::Missing
    pub fn named(name: &str) -> Result<Self, IsaError> {
        let Some(known) = Self::NAMES.into_iter().find(|known| *known == name) else {
            return Err(IsaError::Unknown);
        };
        present(known).map(Self).ok_or(IsaError::Missing { name: known })
    }

    /// Its name, one of [`Self::NAMES`].
    pub const fn name(self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            Set::NeonSha3 => "neon-sha3",
        }
    }

    /// The instruction set this is proof of.
    pub(crate) const fn set(self) -> Set {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why there is no [`Isa`] of some name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IsaError {
    /// No kernel has this name.
    #[error("no such instruction set, there are: {}", Isa::NAMES.join(", "))]
    Unknown,
    /// The kernel exists, this machine cannot run it.
    #[error("this machine does not have the instruction set: {name}")]
    Missing {
        /// Its name.
        name: &'static str,
    },
}

/// Asks the machine. Miri runs no vector kernel: for Miri there are none.
fn present(name: &str) -> Option<Set> {
    match name {
        "scalar" => Some(Set::Scalar),
        _ if cfg!(miri) => None,
        #[cfg(target_arch = "x86_64")]
        "avx2" => std::arch::is_x86_feature_detected!("avx2").then_some(Set::Avx2),
        #[cfg(target_arch = "x86_64")]
        "avx512" => std::arch::is_x86_feature_detected!("avx512f").then_some(Set::Avx512),
        #[cfg(target_arch = "aarch64")]
        "neon" => std::arch::is_aarch64_feature_detected!("neon").then_some(Set::Neon),
        #[cfg(target_arch = "aarch64")]
        "neon-sha3" => (std::arch::is_aarch64_feature_detected!("neon")
            && std::arch::is_aarch64_feature_detected!("sha3"))
        .then_some(Set::NeonSha3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_goes_by_its_name() {
        let available: Vec<Isa> = Isa::available().collect();
        assert_eq!(available[0], Isa::SCALAR);
        assert_eq!(available.last(), Some(&Isa::detect()));
        for isa in &available {
            assert_eq!(Isa::named(isa.name()), Ok(*isa));
        }
        for name in Isa::NAMES {
            match Isa::named(name) {
                Ok(isa) => assert!(available.contains(&isa)),
                Err(error) => assert_eq!(error, IsaError::Missing { name }),
            }
        }
        assert_eq!(Isa::named("AVX2"), Err(IsaError::Unknown));
    }
}
