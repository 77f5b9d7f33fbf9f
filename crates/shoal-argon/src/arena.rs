//! The memory of one hash: blocks that are wiped before they are freed.

use crate::block::{Block, wipe};
use crate::params::{Error, Params};

/// All blocks of the matrix, lane after lane.
pub(crate) struct Arena {
    blocks: Vec<Block>,
    public: bool,
}

impl Arena {
    /// Takes the memory for these costs, zeroed.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the machine refuses it.
    pub(crate) fn new(params: &Params) -> Result<Self, Error> {
        let block_count = params.block_count();
        let refused = Error::OutOfMemory { block_count };
        let length = usize::try_from(block_count).map_err(|_| refused)?;
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(length).map_err(|_| refused)?;
        blocks.resize(length, Block::ZERO);
        Ok(Self { blocks, public: params.is_public() })
    }

    /// The blocks.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks, to fill.
    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }

    /// Wipes the blocks, unless their contents are public.
    fn retire(&mut self) {
        if !self.public {
            wipe(&mut self.blocks);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.retire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the allocator gets back, seen just before it does.
    #[test]
    fn secret_blocks_are_wiped_and_public_ones_left() {
        let params = Params::new(16, 1, 1).unwrap();
        for (params, wiped) in [(params, true), (params.public(), false)] {
            let mut arena = Arena::new(&params).unwrap();
            assert_eq!(arena.blocks(), [Block::ZERO; 16]);
            for block in arena.blocks_mut() {
                block.words_mut()[127] = 1;
            }
            arena.retire();
            assert_eq!(arena.blocks().iter().all(|block| *block == Block::ZERO), wiped);
        }
    }
}
