//! The kernels for Advanced SIMD: a vector is two words, and memory keeps blocks as they are.
//!
//! Eight vectors are one row, or one column, which has two words in every row: a to d are two
//! vectors each, and both are permuted by the same steps. There are two kernels, of one text: with
//! the SHA-3 extension an xor and a rotation are one instruction.

use std::arch::aarch64::*;

use crate::block::Block;

/// Where a word of the block lies in this kernel's memory.
#[inline(always)]
pub(super) const fn place(word: usize) -> usize {
    word
}

/// The kernel, under its instruction set and with its way to xor and rotate.
macro_rules! kernel {
    ($(#[$about:meta])* $name:ident, $features:literal, $xor_rotate:ident) => {
        $(#[$about])*
        pub(super) mod $name {
            use super::*;

            segment_loops! { #[target_feature(enable = $features)] }

            /// G, as `segment.rs` asks for it.
            ///
            /// # Safety
            /// As every kernel's `compress` (`segment.rs`).
            #[inline]
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn compress<const XOR: bool, const NEAR: bool>(
                prev: *mut Block,
                reference: *const Block,
                next: *mut Block,
                work: *mut Block,
                known: impl FnOnce(u64),
            ) {
                // R waits for the end of P in the copy of `prev` where there is one, else where
                // the new block will be.
                let waiting = if NEAR { prev } else { next };
                for row in 0..8 {
                    let mut v = [vdupq_n_u64(0); 8];
                    for (part, v) in v.iter_mut().enumerate() {
                        let i = 8 * row + part;
                        // SAFETY: the caller's blocks are valid, and `i` is below 64.
                        unsafe {
                            *v = veorq_u64(load(prev, i), load(reference, i));
                            let kept =
                                if XOR && !NEAR { veorq_u64(*v, load(next, i)) } else { *v };
                            store(waiting, i, kept);
                        }
                    }
                    permute(&mut v);
                    for (part, v) in v.into_iter().enumerate() {
                        // SAFETY: as above, and `work` is valid as well.
                        unsafe { store(work, 8 * row + part, v) };
                    }
                }
                let mut known = Some(known);
                for column in 0..8 {
                    let mut v = [vdupq_n_u64(0); 8];
                    for (row, v) in v.iter_mut().enumerate() {
                        // SAFETY: as above.
                        unsafe { *v = load(work, 8 * row + column) };
                    }
                    permute(&mut v);
                    for (row, v) in v.into_iter().enumerate() {
                        let i = 8 * row + column;
                        // SAFETY: as above.
                        unsafe {
                            let mut out = veorq_u64(v, load(waiting, i));
                            if NEAR {
                                if XOR {
                                    out = veorq_u64(out, load(next, i));
                                }
                                store(prev, i, out);
                            }
                            store(next, i, out);
                            // The first column is done first, and with it the word that names
                            // the next reference.
                            if i == 0
                                && let Some(known) = known.take()
                            {
                                known(vgetq_lane_u64::<0>(out));
                            }
                        }
                    }
                }
            }

            /// P (RFC 9106 §3.6) on sixteen words.
            #[inline]
            #[target_feature(enable = $features)]
            fn permute(v: &mut [uint64x2_t; 8]) {
                quarters(v);
                let [a0, a1, b0, b1, c0, c1, d0, d1] = *v;
                *v = [a0, a1, second(b0, b1), second(b1, b0), c1, c0, second(d1, d0), second(d0, d1)];
                quarters(v);
                let [a0, a1, b0, b1, c0, c1, d0, d1] = *v;
                *v = [a0, a1, second(b1, b0), second(b0, b1), c1, c0, second(d0, d1), second(d1, d0)];
            }

            /// GB on four chains, two in a vector.
            #[inline]
            #[target_feature(enable = $features)]
            fn quarters(v: &mut [uint64x2_t; 8]) {
                for i in 0..2 {
                    v[i] = multiply_add(v[i], v[2 + i]);
                }
                for i in 0..2 {
                    v[6 + i] = $xor_rotate::<32, 32>(v[6 + i], v[i]);
                }
                for i in 0..2 {
                    v[4 + i] = multiply_add(v[4 + i], v[6 + i]);
                }
                for i in 0..2 {
                    v[2 + i] = $xor_rotate::<24, 40>(v[2 + i], v[4 + i]);
                }
                for i in 0..2 {
                    v[i] = multiply_add(v[i], v[2 + i]);
                }
                for i in 0..2 {
                    v[6 + i] = $xor_rotate::<16, 48>(v[6 + i], v[i]);
                }
                for i in 0..2 {
                    v[4 + i] = multiply_add(v[4 + i], v[6 + i]);
                }
                for i in 0..2 {
                    v[2 + i] = $xor_rotate::<63, 1>(v[2 + i], v[4 + i]);
                }
            }
        }
    };
}

kernel! {
    /// For every machine with Advanced SIMD.
    plain, "neon", xor_rotate
}

kernel! {
    /// For machines with the SHA-3 extension as well.
    sha3, "neon,sha3", xor_rotate_sha3
}

/// `(x ^ y) >>> RIGHT`, where `RIGHT + LEFT` is 64.
#[inline]
#[target_feature(enable = "neon")]
fn xor_rotate<const RIGHT: i32, const LEFT: i32>(x: uint64x2_t, y: uint64x2_t) -> uint64x2_t {
    let mixed = veorq_u64(x, y);
    vsriq_n_u64::<RIGHT>(vshlq_n_u64::<LEFT>(mixed), mixed)
}

/// As [`xor_rotate`], in one instruction.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn xor_rotate_sha3<const RIGHT: i32, const LEFT: i32>(x: uint64x2_t, y: uint64x2_t) -> uint64x2_t {
    vxarq_u64::<RIGHT>(x, y)
}

/// `x + y + 2 * lo32(x) * lo32(y)` in each lane: the multiplier adds to what it is given, twice.
#[inline]
#[target_feature(enable = "neon")]
fn multiply_add(x: uint64x2_t, y: uint64x2_t) -> uint64x2_t {
    let (low_x, low_y) = (vmovn_u64(x), vmovn_u64(y));
    vmlal_u32(vmlal_u32(vaddq_u64(x, y), low_x, low_y), low_x, low_y)
}

/// The second word of `x`, then the first of `y`.
#[inline]
#[target_feature(enable = "neon")]
fn second(x: uint64x2_t, y: uint64x2_t) -> uint64x2_t {
    vextq_u64::<1>(x, y)
}

/// Asks for the lines of a block.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn prefetch<const ONCE: bool>(block: *const Block) {
    for line in 0..16 {
        // SAFETY: passed on from the caller.
        unsafe { prefetch_first(block.cast::<u8>().wrapping_add(64 * line).cast()) };
    }
}

/// Asks for the first line of a block.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn prefetch_first(block: *const Block) {
    // SAFETY: a prefetch never faults and changes nothing that the program can see.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{block}]",
            block = in(reg) block,
            options(nostack, readonly, preserves_flags)
        );
    }
}

/// Nothing to wait for: all stores are ordinary ones.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn settle() {}

/// Vector `i` of a block.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(block: *const Block, i: usize) -> uint64x2_t {
    // SAFETY: the caller's block is valid and has 64 vectors.
    unsafe { vld1q_u64(block.cast::<u64>().add(2 * i)) }
}

/// Writes vector `i` of a block.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(block: *mut Block, i: usize, v: uint64x2_t) {
    // SAFETY: as for `load`.
    unsafe { vst1q_u64(block.cast::<u64>().add(2 * i), v) }
}
