//! How much a chunk may ask for. A few bytes can stand for a great many rows (run-length
//! encoding) or bytes (DEFLATE), so whoever reads a stranger's chunks says how much is acceptable.

/// Bounds on what one chunk may expand to. Reading a chunk that exceeds one gives
/// [`Error::Limit`](crate::Error::Limit) before memory of that size is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a chunk as it comes.
    pub max_chunk_bytes: u64,
    /// Actors that a chunk names.
    pub max_actors: u32,
    /// Bytes of a chunk's columns, or of a compressed change, once inflated.
    pub max_decompressed_bytes: u64,
    /// Ops of a chunk; separately, the links (pred or succ ids) of all of them.
    pub max_ops: u32,
    /// Changes of a document chunk; separately, the dependencies of all of them.
    pub max_changes: u32,
    /// Bytes of all changes rebuilt from a document chunk. Apart from the inflated size, because
    /// each change repeats actors, messages and keys that the document chunk holds once.
    pub max_rebuilt_bytes: u64,
    /// How many objects may be nested in each other. Nothing in this crate knows objects: the limit
    /// is kept by who builds them.
    pub max_depth: u32,
}

impl Limits {
    /// Only the bounds of the format: 32-bit op ids and chunks below 4 GiB. For chunks from a
    /// source that is trusted not to be hostile.
    pub const FORMAT: Self = Self {
        max_chunk_bytes: u64::MAX,
        max_actors: u32::MAX,
        max_decompressed_bytes: u32::MAX as u64,
        max_ops: u32::MAX,
        max_changes: u32::MAX,
        max_rebuilt_bytes: u64::MAX,
        max_depth: u32::MAX,
    };
}

/// Bounds for chunks from strangers: far above what people's documents hold, and such that the
/// most hostile chunk costs a machine of today seconds and about 2 GiB, not minutes and all.
impl Default for Limits {
    fn default() -> Self {
        Self {
            max_chunk_bytes: 256 << 20,
            max_actors: 1 << 20,
            max_decompressed_bytes: 256 << 20,
            max_ops: 1 << 24,
            max_changes: 1 << 22,
            max_rebuilt_bytes: 1 << 30,
            max_depth: 100_000,
        }
    }
}
