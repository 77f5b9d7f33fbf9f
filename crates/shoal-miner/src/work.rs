//! Works and solutions.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use shoal_pow::{TAG_BYTES, Target};

/// A header whose nonces are to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The caller's name, carried by solutions. Works of an engine have rising ids.
    pub id: u64,
    /// The block header without its nonce: the salt, at least 8 bytes.
    pub header: Vec<u8>,
    /// Memory of one hash; [`shoal_pow::MEMORY_KIB`] on the chain.
    pub memory_kib: u32,
    /// Greatest tag to report.
    pub target: Target,
    /// The nonces to try. A pool's window with an inclusive end up to 2^63 - 1 is
    /// `start..end + 1`.
    pub nonces: Range<u64>,
    /// No hash is begun after this moment; hashes under way are finished and counted as late.
    pub deadline: Option<Instant>,
    /// Stop at the first solution, as a block wants; shares want all of them.
    pub pause_on_solution: bool,
}

/// A nonce whose tag meets the target of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The work.
    pub work_id: u64,
    /// The nonce.
    pub nonce: u64,
    /// Its tag, computed or verified by our own kernels.
    pub tag: [u8; TAG_BYTES],
    /// The finder's name.
    pub backend: Arc<str>,
}

/// Fate of hashes under way when their work is replaced or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Handover {
    /// They are given up between two slices: nothing they find is worth anything, a new block
    /// came.
    #[default]
    Abandon,
    /// They are finished, and their solutions reported under the old id: only the target or the
    /// window changed, and the pool still takes them.
    Finish,
}
