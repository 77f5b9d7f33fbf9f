//! Argon2id: the operations the hash rows ask of an engine.

use super::{About, Miss};

/// Costs of one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Memory in KiB: m in RFC 9106.
    pub memory_kib: u32,
    /// Passes over the memory: t.
    pub passes: u32,
    /// Lanes through the memory: p.
    pub lanes: u32,
}

impl Costs {
    /// Blocks of 1 KiB computed by one hash.
    pub const fn blocks(self) -> u64 {
        let quarter = 4 * self.lanes;
        (self.memory_kib / quarter * quarter) as u64 * self.passes as u64
    }
}

/// A contender for Argon2id, version 0x13, tags of 32 bytes.
pub trait HashEngine: Send + Sync + 'static {
    /// Memory for hashes of fixed costs, kept from one hash to the next.
    type Arena: Send;

    /// Who this is, ISA included.
    fn about(&self) -> About;

    /// Memory outliving a hash. An adapter allocating within every hash leaves this out.
    fn arena(&self, _costs: Costs) -> Result<Self::Arena, Miss> {
        Err(Miss::absent("memory kept from hash to hash"))
    }

    /// Hashes in memory already there, without wiping the memory.
    fn hash_in(
        &self,
        _arena: &mut Self::Arena,
        _costs: Costs,
        _password: &[u8],
        _salt: &[u8],
        _tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        Err(Miss::absent("memory kept from hash to hash"))
    }

    /// Hashes computed side by side on one thread: an arena is memory for as many.
    fn side_by_side(&self) -> usize {
        1
    }

    /// Hashes at most [`Self::side_by_side`] passwords, in memory already there.
    fn hash_side_by_side(
        &self,
        arena: &mut Self::Arena,
        costs: Costs,
        passwords: &[&[u8]],
        salt: &[u8],
        tags: &mut [[u8; 32]],
    ) -> Result<(), Miss> {
        passwords
            .iter()
            .zip(tags)
            .try_for_each(|(password, tag)| self.hash_in(arena, costs, password, salt, tag))
    }

    /// A loop over nonces on `thread_count` threads, for rows of a miner. Left out by adapters
    /// without a loop of their own: hashes one by one are other rows.
    fn nonces(&self, _costs: Costs, _thread_count: usize) -> Result<Box<dyn TryNonces>, Miss> {
        Err(Miss::absent("a loop over nonces"))
    }

    /// A miner's loop over nonces on a whole device: the contender's graphics processor, or all
    /// cores of the processor.
    #[cfg(any(feature = "gpu", feature = "cuda"))]
    fn device_nonces(&self, _costs: Costs) -> Result<Box<dyn TryNonces>, Miss> {
        Err(Miss::absent("a miner on a whole device"))
    }

    /// Hashes as a caller with nothing at hand would: memory is found, and given back, within.
    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss>;
}

/// A loop over nonces whose threads and memory are there: the password is the nonce, eight bytes
/// with the least first, the salt a header.
pub trait TryNonces: Send {
    /// The tags of the nonces from `first` on.
    fn try_nonces(&mut self, header: &[u8], first: u64, tags: &mut [[u8; 32]]) -> Result<(), Miss>;

    /// Watts drawn now; `None` where nobody tells.
    fn watts(&self) -> Option<f64> {
        None
    }
}
