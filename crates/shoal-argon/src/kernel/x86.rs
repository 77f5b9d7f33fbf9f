//! Common to the kernels for AVX2 and AVX-512: hints to the memory, which every x86-64
//! has.

use std::arch::x86_64::*;

use crate::block::Block;

/// Asks for the sixteen lines of a block.
#[inline]
#[target_feature(enable = "sse")]
pub(super) unsafe fn prefetch<const ONCE: bool>(block: *const Block) {
    for line in 0..16 {
        let line = block.cast::<i8>().wrapping_add(64 * line);
        if ONCE {
            _mm_prefetch::<_MM_HINT_NTA>(line);
        } else {
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
    }
}

/// Asks for the first line of a block.
#[inline]
#[target_feature(enable = "sse")]
pub(super) unsafe fn prefetch_first(block: *const Block) {
    _mm_prefetch::<_MM_HINT_NTA>(block.cast::<i8>());
}

/// Makes stores past the caches visible before later ones.
#[inline]
#[target_feature(enable = "sse")]
pub(super) unsafe fn settle() {
    _mm_sfence();
}
