//! Filling the memory: the first two blocks of each lane, the passes, and the last column
//! (RFC 9106 §3.2, steps 3 to 7).

use zeroize::Zeroizing;

use crate::addresses::Addresses;
use crate::arena::Arena;
use crate::block::{BLOCK_BYTES, Block};
use crate::h0::{self, DIGEST_BYTES};
use crate::kernel::scalar::compress;
use crate::params::{Error, Params, Variant, Version};
use crate::position::{Geometry, SLICES, Segment};

/// One hash under way: the memory and how it is being filled.
pub(crate) struct Fill {
    variant: Variant,
    version: Version,
    params: Params,
    geometry: Geometry,
    arena: Arena,
    /// Rows of the block being computed, as secret as the blocks.
    work: Zeroizing<Block>,
}

impl Fill {
    /// Takes the memory and writes the first two blocks of each lane (steps 3 and 4).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(
        variant: Variant,
        version: Version,
        params: Params,
        h0: &[u8; DIGEST_BYTES],
    ) -> Result<Self, Error> {
        let mut arena = Arena::new(&params)?;
        let geometry = Geometry::new(&params);
        let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
        for lane in 0..geometry.lanes {
            for column in 0..2u32 {
                h0::extend(&[h0, &column.to_le_bytes(), &lane.to_le_bytes()], &mut *bytes);
                arena.blocks_mut()[geometry.place(lane, column)].read(&bytes);
            }
        }
        Ok(Self { variant, version, params, geometry, arena, work: Zeroizing::new(Block::ZERO) })
    }

    /// Goes over the memory once (step 5 for the first pass, step 6 for a later one).
    ///
    /// Slices follow one another; within one, no lane reads what another lane writes.
    pub(crate) fn pass(&mut self, pass: u32) {
        for slice in 0..SLICES {
            for lane in 0..self.geometry.lanes {
                let segment = Segment { pass, slice, lane };
                // The old block counts from the second pass on, and only since version 0x13.
                if pass > 0 && self.version == Version::V0x13 {
                    self.segment::<true>(segment);
                } else {
                    self.segment::<false>(segment);
                }
            }
        }
    }

    /// Xors the last blocks of all lanes and draws the tag from them (step 7).
    pub(crate) fn finish(&self, tag: &mut [u8]) {
        let geometry = &self.geometry;
        let mut last = Zeroizing::new(Block::ZERO);
        for lane in 0..geometry.lanes {
            *last ^= &self.arena.blocks()[geometry.place(lane, geometry.lane_length - 1)];
        }
        let mut bytes = Zeroizing::new([0; BLOCK_BYTES]);
        last.write(&mut bytes);
        h0::extend(&[&*bytes], tag);
    }

    fn segment<const XOR: bool>(&mut self, segment: Segment) {
        if Addresses::apply_to(self.variant, segment) {
            let mut addresses = Addresses::new(self.variant, &self.params, segment);
            self.blocks::<XOR>(segment, |index, _| addresses.j(index));
        } else {
            // §3.4.1.1: J is the first word of the previous block.
            self.blocks::<XOR>(segment, |_, prev| prev.words()[0]);
        }
    }

    /// The loop of a segment: `j` gives J2 above J1 from index and previous block.
    #[inline(always)]
    fn blocks<const XOR: bool>(&mut self, segment: Segment, mut j: impl FnMut(u32, &Block) -> u64) {
        let geometry = self.geometry;
        let blocks = self.arena.blocks_mut();
        for index in segment.first_index()..geometry.segment_length {
            let current = geometry.current(segment, index);
            let previous = geometry.previous(segment, index);
            let reference = geometry.reference(segment, index, j(index, &blocks[previous]));
            let [next, prev, reference] = blocks
                .get_disjoint_mut([current, previous, reference])
                .expect("a reference is neither the block itself nor the one before it");
            compress::<XOR>(prev, reference, next, &mut self.work);
        }
    }
}

#[cfg(test)]
mod tests;
