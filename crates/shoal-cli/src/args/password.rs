//! The command lines of `shoal hash-password` and `shoal verify-password`, and the options common
//! to all hashing verbs. Passwords are never among them: other users can read command lines.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// How a hash is run; the tag does not depend on these options.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// The kernel to run: scalar, avx2, avx512, neon or neon-sha3 [default: the fastest here]
    #[arg(long, value_name = "NAME", env = "SHOAL_ISA")]
    pub(crate) isa: Option<String>,
    /// Threads at most, which helps as far as there are lanes [default: as many as pay]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// `shoal hash-password`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Asks for the password twice on a terminal; elsewhere reads it from stdin, up to the end, without a \
line break at its end. The salt is random. The default costs are those that RFC 9106 recommends \
where memory is scarce.

Example:
  shoal hash-password > alice.hash")]
pub(crate) struct HashPasswordArgs {
    /// Memory in KiB
    #[arg(long, default_value_t = 64 * 1024)]
    pub(crate) memory_kib: u32,
    /// Passes over the memory
    #[arg(long, default_value_t = 3)]
    pub(crate) passes: u32,
    /// Degree of parallelism
    #[arg(long, default_value_t = 4)]
    pub(crate) lanes: u32,
    /// Length of the tag in bytes
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=64))]
    pub(crate) tag_length: u32,
    /// A file with a secret key that is hashed as well and kept apart from the hashes
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
}

/// `shoal verify-password`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Asks for the password on a terminal; elsewhere reads it from stdin, as hash-password does. Exits \
with 0 when it is the one that was hashed, with 3 when it is not, and with 1 when that could not \
be found out.

Example:
  shoal verify-password \"$(cat alice.hash)\"")]
pub(crate) struct VerifyPasswordArgs {
    /// What hash-password, or another Argon2, has written: $argon2id$v=19$...
    #[arg(value_name = "HASH")]
    pub(crate) hash: String,
    /// Memory in KiB that the hash may ask for at most
    #[arg(long, value_name = "N", default_value_t = 2 * 1024 * 1024)]
    pub(crate) max_memory_kib: u32,
    /// Memory in KiB times passes that the hash may ask for at most
    #[arg(long, value_name = "N", default_value_t = 2 * 1024 * 1024)]
    pub(crate) max_work_kib: u64,
    /// The file with the secret key that was hashed as well
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
}
