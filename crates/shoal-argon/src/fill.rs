//! Filling memories: the first two blocks of each lane, the passes, and the last column
//! (RFC 9106 §3.2, steps 3 to 7).

use std::ops::Range;

use zeroize::Zeroizing;

use crate::block::{BLOCK_BYTES, Block};
use crate::h0::{self, DIGEST_BYTES};
use crate::isa::Isa;
use crate::kernel::{self, Control, Plan, Stopped};

/// Hashes of the same costs under way side by side, each in a memory of its own.
pub(crate) struct Fill<'a> {
    isa: Isa,
    plan: Plan,
    memories: Vec<&'a mut [Block]>,
}

impl<'a> Fill<'a> {
    /// Starts without a hash.
    pub(crate) fn new(isa: Isa, plan: Plan) -> Self {
        Self { isa, plan, memories: Vec::new() }
    }

    /// Adds a hash: writes the first two blocks of each lane (steps 3 and 4).
    pub(crate) fn begin(&mut self, memory: &'a mut [Block], h0: &[u8; DIGEST_BYTES]) {
        let geometry = &self.plan.geometry;
        let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
        let mut block = Zeroizing::new(Block::ZERO);
        for lane in 0..geometry.lanes {
            for column in 0..2u32 {
                h0::extend(&[h0, &column.to_le_bytes(), &lane.to_le_bytes()], &mut *bytes);
                block.read(&bytes);
                kernel::enter(self.isa, &block, &mut memory[geometry.place(lane, column)]);
            }
        }
        self.memories.push(memory);
    }

    /// Goes over the memories (step 5 for the first pass, step 6 for later ones).
    ///
    /// # Errors
    /// [`Stopped`] when the control asked for it.
    pub(crate) fn passes(
        &mut self,
        passes: Range<u32>,
        control: &Control<'_>,
    ) -> Result<(), Stopped> {
        kernel::fill(self.isa, &self.plan, passes, &mut self.memories, control)
    }

    /// Xors the last blocks of all lanes and draws the tag of a hash from them (step 7).
    pub(crate) fn finish(&self, number: usize, tag: &mut [u8]) {
        let geometry = &self.plan.geometry;
        let mut last = Zeroizing::new(Block::ZERO);
        for lane in 0..geometry.lanes {
            let place = geometry.place(lane, geometry.lane_length - 1);
            kernel::leave(self.isa, &self.memories[number][place], &mut last);
        }
        let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
        last.write(&mut bytes);
        h0::extend(&[&*bytes], tag);
    }
}

#[cfg(test)]
mod tests;
