//! How much an input may ask for. A few bytes can stand for a great many rows (run-length
//! encoding) or bytes (DEFLATE), so whoever reads a stranger's chunks says how much is acceptable.

use crate::{ChunkType, Error};

/// Bounds on what an input may expand to: the bytes that are loaded, the chunks of one sync
/// message, a bundle. Each chunk is held to them, and all chunks of an input together. What exceeds
/// one gives [`Error::Limit`](crate::Error::Limit) before memory of that size is asked for.
///
/// # What an input costs
/// Until it is loaded or refused, an input of `n` bytes takes at most this much memory, and what is
/// kept of it is less:
///
/// | of | bytes | with the defaults |
/// | --- | --- | --- |
/// | each byte of the input | 64 | |
/// | each op | 128 | 16 for each byte, or 2^22 |
/// | each run of ops | 512 | 4 for each byte, or 2^20 |
/// | each change | 256 | 8 for each byte, or 2^20 |
/// | each inflated byte | 4 | 128 for each byte, or 32 MiB |
/// | each byte of a rebuilt change | 2 | 512 for each byte, or 128 MiB |
///
/// So with the defaults an input costs at most 8 KiB for each of its bytes, or, if it is short,
/// 1.75 GiB if it asks for the most of everything at once, and 512 MiB by any one of them. People's
/// documents take 10 to 250 bytes for each of theirs.
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
    /// Runs of ops. Elements that are typed one after the other, and deletes of neighbours in a
    /// change, are one run; any other op is one, and one that makes an object counts as four.
    pub max_runs: u32,
    /// Changes of a document chunk; separately, the dependencies of all of them.
    pub max_changes: u32,
    /// Bytes of all changes rebuilt from a document chunk. Apart from the inflated size, because
    /// each change repeats actors, messages and keys that the document chunk holds once.
    pub max_rebuilt_bytes: u64,
    /// How many objects may be nested in each other. Nothing in this crate knows objects: the limit
    /// is kept by who builds them.
    pub max_depth: u32,
    /// What an input may have by its size, where that is less; `None` where its size does not
    /// matter.
    pub by_size: Option<BySize>,
}

/// How much an input may ask for by its size. See [`Limits`], whose fields these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BySize {
    /// See [`Limits::max_ops`].
    pub ops: Allowance,
    /// See [`Limits::max_runs`].
    pub runs: Allowance,
    /// See [`Limits::max_changes`].
    pub changes: Allowance,
    /// See [`Limits::max_decompressed_bytes`]. DEFLATE itself cannot make more than 1032 of one.
    pub decompressed_bytes: Allowance,
    /// See [`Limits::max_rebuilt_bytes`].
    pub rebuilt_bytes: Allowance,
}

/// So much for each byte of an input, or so much for all of it, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// For each byte.
    pub per_byte: u64,
    /// For an input that is short.
    pub least: u64,
}

/// What a chunk took of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Ops or links, whichever are more.
    pub(crate) ops: u64,
    pub(crate) runs: u64,
    pub(crate) changes: u64,
    pub(crate) decompressed_bytes: u64,
    pub(crate) rebuilt_bytes: u64,
}

impl Limits {
    /// Only the bounds of the format: 32-bit op ids and chunks below 4 GiB. For chunks from a
    /// source that is trusted not to be hostile.
    pub const FORMAT: Self = Self {
        max_chunk_bytes: u64::MAX,
        max_actors: u32::MAX,
        max_decompressed_bytes: u32::MAX as u64,
        max_ops: u32::MAX,
        max_runs: u32::MAX,
        max_changes: u32::MAX,
        max_rebuilt_bytes: u64::MAX,
        max_depth: u32::MAX,
        by_size: None,
    };

    /// The limits of an input of `len` bytes, whatever its size.
    pub(crate) fn of_input(&self, len: usize) -> Self {
        let Some(by_size) = self.by_size else { return *self };
        let count = |most: u32, allowance: Allowance| {
            u32::try_from(allowance.of(len)).unwrap_or(u32::MAX).min(most)
        };
        Self {
            max_decompressed_bytes: self
                .max_decompressed_bytes
                .min(by_size.decompressed_bytes.of(len)),
            max_ops: count(self.max_ops, by_size.ops),
            max_runs: count(self.max_runs, by_size.runs),
            max_changes: count(self.max_changes, by_size.changes),
            max_rebuilt_bytes: self.max_rebuilt_bytes.min(by_size.rebuilt_bytes.of(len)),
            by_size: None,
            ..*self
        }
    }

    /// The limits of a chunk of `len` bytes in an input of `input_len`, of which `self` is left. A
    /// chunk may have what it might have alone, so that what is taken in with others can be read
    /// without them.
    pub(crate) fn of_chunk(&self, all: &Self, len: usize, input_len: usize) -> Self {
        let alone = all.of_input(len);
        // Nobody knows what a document chunk takes of these before its changes are asked for.
        let share = u128::from(self.max_rebuilt_bytes) * len as u128 / input_len.max(1) as u128;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        Self {
            max_decompressed_bytes: self.max_decompressed_bytes.min(alone.max_decompressed_bytes),
            max_ops: self.max_ops.min(alone.max_ops),
            max_runs: self.max_runs.min(alone.max_runs),
            max_changes: self.max_changes.min(alone.max_changes),
            max_rebuilt_bytes: share.min(alone.max_rebuilt_bytes),
            ..alone
        }
    }

    /// Takes what a chunk used off what is left for the chunks after it.
    ///
    /// # Errors
    /// When that is more than is left.
    pub(crate) fn spend(&mut self, chunk: ChunkType, used: &Used) -> Result<(), Error> {
        for (left, used, what) in [
            (&mut self.max_ops, used.ops, "ops"),
            (&mut self.max_runs, used.runs, "runs of ops"),
            (&mut self.max_changes, used.changes, "changes"),
        ] {
            let max = u64::from(*left);
            let rest = max.checked_sub(used).ok_or(Error::Limit { chunk, what, max })?;
            *left = u32::try_from(rest).unwrap_or(u32::MAX);
        }
        for (left, used, what) in [
            (&mut self.max_decompressed_bytes, used.decompressed_bytes, "inflated bytes"),
            (&mut self.max_rebuilt_bytes, used.rebuilt_bytes, "bytes of rebuilt changes"),
        ] {
            *left = left.checked_sub(used).ok_or(Error::Limit { chunk, what, max: *left })?;
        }
        Ok(())
    }
}

impl Allowance {
    fn of(self, len: usize) -> u64 {
        self.per_byte.saturating_mul(len as u64).max(self.least)
    }
}

/// Bounds for inputs from strangers: far above what people's documents hold.
impl Default for Limits {
    fn default() -> Self {
        Self {
            max_chunk_bytes: 256 << 20,
            max_actors: 1 << 20,
            max_decompressed_bytes: 256 << 20,
            max_ops: 1 << 24,
            max_runs: 1 << 24,
            max_changes: 1 << 22,
            max_rebuilt_bytes: 1 << 30,
            max_depth: 100_000,
            by_size: Some(BySize::default()),
        }
    }
}

/// Four times what the most compact of people's documents need. What is typed and deleted by the
/// million, and compresses to nearly nothing, is below the least that every input may have.
impl Default for BySize {
    fn default() -> Self {
        Self {
            ops: Allowance { per_byte: 16, least: 1 << 22 },
            runs: Allowance { per_byte: 4, least: 1 << 20 },
            changes: Allowance { per_byte: 8, least: 1 << 20 },
            decompressed_bytes: Allowance { per_byte: 128, least: 32 << 20 },
            rebuilt_bytes: Allowance { per_byte: 512, least: 128 << 20 },
        }
    }
}
