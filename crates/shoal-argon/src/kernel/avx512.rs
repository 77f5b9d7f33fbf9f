//! The kernel for AVX-512: a block is sixteen vectors that hold, each, a quarter of two rows.
//!
//! Memory keeps blocks in an order of its own, so that neither rows nor columns are ever
//! gathered or scattered. With the quarters of a row called A (words 0 to 3), B, C and D,
//! vector `4 k + X` is quarter X of row `2 k`, then quarter X of row `2 k + 1`. Rows are four
//! calls on (A, B, C, D) of one k, two rows each; columns four calls on the vectors of one
//! quarter, k = 0 to 3 being a to d, two columns each. The registers are the same: only their
//! names change between the two halves of P.

use std::arch::x86_64::*;

use super::x86::{prefetch, prefetch_first, settle};
use crate::block::Block;

/// Where a word of the block lies in this kernel's memory: word 0 stays first.
#[inline(always)]
pub(super) const fn place(word: usize) -> usize {
    let (rows, row, quarter, lane) = (word / 32, word / 16 % 2, word / 4 % 4, word % 4);
    32 * rows + 8 * quarter + 4 * row + lane
}

segment_loops! { #[target_feature(enable = "avx512f")] }

/// The chains of `$range`: GB's first or second half, with its two rotations.
macro_rules! half {
    ($range:expr, $a:ident, $b:ident, $c:ident, $d:ident, $first:literal, $second:literal) => {
        for i in $range {
            $a[i] = multiply_add($a[i], $b[i]);
        }
        for i in $range {
            $d[i] = _mm512_ror_epi64::<$first>(_mm512_xor_si512($d[i], $a[i]));
        }
        for i in $range {
            $c[i] = multiply_add($c[i], $d[i]);
        }
        for i in $range {
            $b[i] = _mm512_ror_epi64::<$second>(_mm512_xor_si512($b[i], $c[i]));
        }
    };
}

/// GB on the columns of each call's 4 by 4 words, or on whatever lanes were turned to.
macro_rules! quarters {
    ($range:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
        half!($range, $a, $b, $c, $d, 32, 24);
        half!($range, $a, $b, $c, $d, 16, 63);
    };
}

/// P on columns of the block: `$order` and `$back` turn the four words of a column, which lie in
/// lanes 0, 1, 4, 5 or 2, 3, 6, 7, one way and the other.
macro_rules! columns {
    ($range:expr, $a:ident, $b:ident, $c:ident, $d:ident, $order:ident, $back:ident) => {
        quarters!($range, $a, $b, $c, $d);
        for i in $range {
            $a[i] = _mm512_permutexvar_epi64($back, $a[i]);
            $c[i] = _mm512_permutexvar_epi64($order, $c[i]);
            $d[i] = _mm512_shuffle_i64x2::<0b01_00_11_10>($d[i], $d[i]);
        }
        quarters!($range, $a, $b, $c, $d);
        for i in $range {
            $a[i] = _mm512_permutexvar_epi64($order, $a[i]);
            $c[i] = _mm512_permutexvar_epi64($back, $c[i]);
            $d[i] = _mm512_shuffle_i64x2::<0b01_00_11_10>($d[i], $d[i]);
        }
    };
}

/// G, as `segment.rs` asks for it.
///
/// Diagonals are reached by turning a, c and d and leaving b, which is the last to be ready:
/// three turns either way, none of them at the end of the chain.
///
/// # Safety
/// As every kernel's `compress` (`segment.rs`).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn compress<const XOR: bool, const NEAR: bool>(
    prev: *mut Block,
    reference: *const Block,
    next: *mut Block,
    work: *mut Block,
    known: impl FnOnce(u64),
) {
    let zero = _mm512_setzero_si512();
    let (mut a, mut b, mut c, mut d) = ([zero; 4], [zero; 4], [zero; 4], [zero; 4]);
    // R waits for the end of P beside the registers: in the copy of `prev` where there is one.
    let waiting = if NEAR { prev } else { work };
    for k in 0..4 {
        for (quarter, v) in [&mut a, &mut b, &mut c, &mut d].into_iter().enumerate() {
            let i = 4 * k + quarter;
            // SAFETY: the caller's blocks are valid, and `i` is below 16.
            unsafe {
                v[k] = _mm512_xor_si512(load(prev, i), load(reference, i));
                store(waiting, i, v[k]);
            }
        }
    }

    quarters!(0..4, a, b, c, d);
    for i in 0..4 {
        a[i] = _mm512_permutex_epi64::<0b10_01_00_11>(a[i]);
        c[i] = _mm512_permutex_epi64::<0b00_11_10_01>(c[i]);
        d[i] = _mm512_permutex_epi64::<0b01_00_11_10>(d[i]);
    }
    quarters!(0..4, a, b, c, d);
    for i in 0..4 {
        a[i] = _mm512_permutex_epi64::<0b00_11_10_01>(a[i]);
        c[i] = _mm512_permutex_epi64::<0b10_01_00_11>(c[i]);
        d[i] = _mm512_permutex_epi64::<0b01_00_11_10>(d[i]);
    }

    let order = _mm512_setr_epi64(1, 4, 3, 6, 5, 0, 7, 2);
    let back = _mm512_setr_epi64(5, 0, 7, 2, 1, 4, 3, 6);
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a, b);
    let ([c0, c1, c2, c3], [d0, d1, d2, d3]) = (c, d);
    let (mut a, mut b) = ([a0, b0, c0, d0], [a1, b1, c1, d1]);
    let (mut c, mut d) = ([a2, b2, c2, d2], [a3, b3, c3, d3]);
    columns!(0..4, a, b, c, d, order, back);

    let mut first = zero;
    for quarter in 0..4 {
        for (k, v) in [&a, &b, &c, &d].into_iter().enumerate() {
            let i = 4 * k + quarter;
            // SAFETY: as above.
            unsafe {
                let mut out = _mm512_xor_si512(v[quarter], load(waiting, i));
                if XOR {
                    out = _mm512_xor_si512(out, load(next, i));
                }
                if i == 0 {
                    first = out;
                }
                if NEAR {
                    store(prev, i, out);
                    _mm512_stream_si512(next.cast::<__m512i>().add(i), out);
                } else {
                    store(next, i, out);
                }
            }
        }
    }
    known(_mm_cvtsi128_si64(_mm512_castsi512_si128(first)).cast_unsigned());
}

/// `x + y + 2 * lo32(x) * lo32(y)` in each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn multiply_add(x: __m512i, y: __m512i) -> __m512i {
    let product = _mm512_mul_epu32(x, y);
    _mm512_add_epi64(_mm512_add_epi64(x, y), _mm512_add_epi64(product, product))
}

/// Vector `i` of a block.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(block: *const Block, i: usize) -> __m512i {
    // SAFETY: the caller's block is valid, aligned to 64 bytes, and has sixteen vectors.
    unsafe { _mm512_load_si512(block.cast::<__m512i>().add(i)) }
}

/// Writes vector `i` of a block.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(block: *mut Block, i: usize, v: __m512i) {
    // SAFETY: as for `load`.
    unsafe { _mm512_store_si512(block.cast::<__m512i>().add(i), v) }
}
