//! Proof of work on Argon2id: a challenge, nonces that are tried on it, a target that tags meet,
//! the search for one that does, and its verification.
//!
//! The password is the nonce, eight little-endian bytes; the salt is the challenge's header, a
//! block header without its nonce. The tag, 32 bytes, is a big-endian number, and the nonce is a
//! solution when that is at most the target. Verifying costs one hash, as much as a try.
//!
//! Knows no chain, no pool, no sockets and no threads: whoever searches brings arenas, one for
//! each hash that is to be computed side by side, and a flag to be stopped by.
//!
//! ```
//! use shoal_pow::{Challenge, Options, Search, Target};
//!
//! // A real challenge takes 2 GiB; this one is for trying out.
//! let header = b"headerbase0123456789abcdefghijklmnop";
//! let challenge = Challenge::new(header, 64, Target::from_difficulty(4))?;
//! let mut search = Search::new(64, 2)?;
//! let found = search.run(&challenge, 0..100, &Options::default())?;
//! let solution = found.solution.expect("one in four tries succeeds");
//! assert!(challenge.verify(solution.nonce, &Options::default())?.is_some());
//! # Ok::<(), shoal_pow::Error>(())
//! ```

#![forbid(unsafe_code)]

mod challenge;
mod search;
mod target;

pub use challenge::{Challenge, MEMORY_KIB, Solution};
pub use search::{Found, Search};
pub use shoal_argon::{Isa, Options, Pages};
pub use target::Target;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 32;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hash was refused: costs, the header's length, memory, or the caller stopped it.
    #[error(transparent)]
    Hash(#[from] shoal_argon::Error),
    /// The machine did not give the memory to search in.
    #[error(transparent)]
    Refused(#[from] shoal_argon::Refused),
    /// A search needs an arena at least.
    #[error("a search needs at least one arena")]
    NoArena,
}
