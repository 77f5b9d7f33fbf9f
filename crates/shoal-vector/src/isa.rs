//! Instruction sets with kernels of their own, and the one of this machine.

use std::fmt;
use std::sync::OnceLock;

/// An instruction set of this machine: its holder may run the kernel.
///
/// Made only by asking the machine. Every kernel gives the same distances to the bit; the name is
/// for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Set);

/// The instruction set behind an [`Isa`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Plain Rust: the definition.
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The kernel of every machine.
    pub const SCALAR: Isa = Isa(Set::Scalar);

    /// All of this machine's, from the slowest on.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::SCALAR];
        #[cfg(target_arch = "x86_64")]
        if !cfg!(miri)
            && std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("f16c")
            && std::arch::is_x86_feature_detected!("popcnt")
        {
            all.push(Isa(Set::Avx2));
            if std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512bw")
            {
                all.push(Isa(Set::Avx512));
            }
        }
        all
    }

    /// The fastest of this machine.
    pub fn detect() -> Isa {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| Isa::available().last().copied().unwrap_or(Isa::SCALAR))
    }

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }

    pub(crate) const fn set(self) -> Set {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
