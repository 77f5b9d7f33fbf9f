//! Blocks of a file shared by processes as words: the index of a write-ahead log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block.
pub const SHARED_BLOCK: usize = 32 * 1024;

/// One block of a shared file: 8,192 words of 32 bits in the machine's own byte order, read and
/// written whole. Clones are the same block.
///
/// Stores release and loads acquire: a load of a stored value also sees every store made before, in
/// this process and in others.
#[derive(Clone)]
pub struct SharedBlock {
    words: Words,
}

#[derive(Clone)]
enum Words {
    Memory(Arc<[AtomicU32]>),
    #[cfg(unix)]
    Mapped(Arc<crate::os::MappedWords>),
}

impl SharedBlock {
    /// Words of a block.
    pub const LEN: usize = SHARED_BLOCK / 4;

    /// A block in memory whose first words are `bytes`; the rest are zeroes.
    pub(crate) fn in_memory(bytes: &[u8]) -> SharedBlock {
        let given = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
        let words = given.chain(std::iter::repeat(0)).take(SharedBlock::LEN).map(AtomicU32::new);
        SharedBlock { words: Words::Memory(words.collect()) }
    }

    #[cfg(unix)]
    pub(crate) fn mapped(words: crate::os::MappedWords) -> SharedBlock {
        SharedBlock { words: Words::Mapped(Arc::new(words)) }
    }

    #[inline]
    fn words(&self) -> &[AtomicU32] {
        match &self.words {
            Words::Memory(words) => words,
            #[cfg(unix)]
            Words::Mapped(words) => words.words(),
        }
    }

    /// False for blocks of a file opened for reading: storing a word would fault.
    pub fn is_writable(&self) -> bool {
        match &self.words {
            Words::Memory(_) => true,
            #[cfg(unix)]
            Words::Mapped(words) => words.is_writable(),
        }
    }

    /// Returns word `place`.
    ///
    /// # Panics
    /// When `place` is not below [`SharedBlock::LEN`].
    #[inline]
    pub fn load(&self, place: usize) -> u32 {
        self.words()[place].load(Ordering::Acquire)
    }

    /// Sets word `place`.
    ///
    /// # Panics
    /// When `place` is not below [`SharedBlock::LEN`], or the block may only be read.
    #[inline]
    pub fn store(&self, place: usize, word: u32) {
        assert!(self.is_writable(), "a block that may only be read was to be written");
        self.words()[place].store(word, Ordering::Release);
    }

    /// The block's bytes as they are now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        (0..SharedBlock::LEN).flat_map(|place| self.load(place).to_ne_bytes()).collect()
    }
}

impl fmt::Debug for SharedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBlock").finish_non_exhaustive()
    }
}
