//! References that depend on positions only (RFC 9106 §3.4.1.2): J1 and J2 for 128 blocks at a
//! time, from a counter run through G twice.

use crate::block::{BLOCK_WORDS, Block};
use crate::kernel::scalar::compress;
use crate::params::{Params, Variant};
use crate::position::{SLICES, Segment};

/// The pseudo-random words of one segment. Public by nature: no input goes into them.
pub(crate) struct Addresses {
    /// Pass, lane, slice, m', t, type, counter, zeros.
    input: Block,
    words: Block,
}

impl Addresses {
    /// Whether the segment's references are of this kind (RFC 9106 §3.4.1).
    pub(crate) fn apply_to(variant: Variant, segment: Segment) -> bool {
        match variant {
            Variant::D => false,
            Variant::I => true,
            Variant::Id => segment.pass == 0 && segment.slice < SLICES / 2,
        }
    }

    /// Starts the segment, with its first 128 words ready.
    pub(crate) fn new(variant: Variant, params: &Params, segment: Segment) -> Self {
        let mut input = Block::ZERO;
        let head = [
            segment.pass,
            segment.lane,
            segment.slice,
            params.block_count(),
            params.passes(),
            variant.code(),
        ];
        for (word, value) in input.words_mut().iter_mut().zip(head) {
            *word = u64::from(value);
        }
        let mut addresses = Self { input, words: Block::ZERO };
        addresses.advance();
        addresses
    }

    /// J2 above J1 for the block at `index`, asked for in rising order.
    #[inline(always)]
    pub(crate) fn j(&mut self, index: u32) -> u64 {
        let word = index as usize % BLOCK_WORDS;
        if word == 0 && index > 0 {
            self.advance();
        }
        self.words.words()[word]
    }

    #[inline(never)]
    fn advance(&mut self) {
        const COUNTER: usize = 6;
        self.input.words_mut()[COUNTER] += 1;
        let (mut once, mut work) = (Block::ZERO, Block::ZERO);
        compress::<false>(&Block::ZERO, &self.input, &mut once, &mut work);
        compress::<false>(&Block::ZERO, &once, &mut self.words, &mut work);
    }
}
