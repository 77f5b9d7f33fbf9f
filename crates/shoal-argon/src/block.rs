//! The 1 KiB block: memory is made of them (RFC 9106 §3.2).
//!
//! Knows its words and its bytes; how one block follows from two others is the kernel's.

use zeroize::{DefaultIsZeroes, Zeroize};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 1024;
/// 64-bit words of a block.
pub(crate) const BLOCK_WORDS: usize = BLOCK_BYTES / 8;

/// One block: 128 words, each little-endian where the block is bytes.
///
/// A line of the cache holds eight words, and no block shares a line with its neighbour.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
#[repr(C, align(64))]
pub(crate) struct Block([u64; BLOCK_WORDS]);

const _: () = assert!(size_of::<Block>() == BLOCK_BYTES);
const _: () = assert!(align_of::<Block>() == 64);

impl Block {
    /// The block of zeros, as a wiped block is.
    pub(crate) const ZERO: Self = Self([0; BLOCK_WORDS]);

    /// The words in order.
    pub(crate) fn words(&self) -> &[u64; BLOCK_WORDS] {
        &self.0
    }

    /// As [`Self::words`], to write.
    pub(crate) fn words_mut(&mut self) -> &mut [u64; BLOCK_WORDS] {
        &mut self.0
    }

    /// Takes the block from its bytes.
    pub(crate) fn read(&mut self, bytes: &[u8; BLOCK_BYTES]) {
        let (words, _) = bytes.as_chunks();
        for (target, source) in self.0.iter_mut().zip(words) {
            *target = u64::from_le_bytes(*source);
        }
    }

    /// Writes the block as its bytes.
    pub(crate) fn write(&self, bytes: &mut [u8; BLOCK_BYTES]) {
        let (words, _) = bytes.as_chunks_mut();
        for (target, source) in words.iter_mut().zip(&self.0) {
            *target = source.to_le_bytes();
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::ZERO
    }
}

// Wiping a slice of blocks is then one volatile write a block instead of one a word, and so
// keeps the speed of memory.
impl DefaultIsZeroes for Block {}

/// Wipes `blocks` so that the compiler may not leave it out.
pub(crate) fn wipe(blocks: &mut [Block]) {
    blocks.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_little_endian_words() {
        let mut bytes = [0; BLOCK_BYTES];
        for (byte, value) in bytes.iter_mut().zip((0..=255).cycle()) {
            *byte = value;
        }
        let mut block = Block::ZERO;
        block.read(&bytes);
        assert_eq!(block.words()[0], 0x0706_0504_0302_0100);
        assert_eq!(block.words()[127], 0xfffe_fdfc_fbfa_f9f8);
        let mut back = [0; BLOCK_BYTES];
        block.write(&mut back);
        assert_eq!(back, bytes);
    }

    #[test]
    fn wiped_blocks_hold_zeros() {
        let mut blocks = [Block([u64::MAX; BLOCK_WORDS]); 3];
        wipe(&mut blocks);
        assert_eq!(blocks, [Block::ZERO; 3]);
    }
}
