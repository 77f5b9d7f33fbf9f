//! The kernel for AVX2: a vector is a quarter of a row, and memory keeps blocks as they are.
//!
//! Rows are four vectors, permuted two rows at a time. Columns are taken two at a time, too: the
//! eight vectors at one quarter of the eight rows hold both, rows (0, 1) being a, (2, 3) b,
//! (4, 5) c and (6, 7) d, each with its first two words in one row and its last two in the other.

use std::arch::x86_64::*;
use std::hint::black_box;

use super::x86::{prefetch, prefetch_first, settle};
use crate::block::Block;

/// Where a word of the block lies in this kernel's memory.
#[inline(always)]
pub(super) const fn place(word: usize) -> usize {
    word
}

segment_loops! { #[target_feature(enable = "avx2")] }

/// GB on two chains side by side.
macro_rules! quarters {
    ($turns:ident, $a:ident, $b:ident, $c:ident, $d:ident) => {
        for i in 0..2 {
            $a[i] = multiply_add($a[i], $b[i]);
        }
        for i in 0..2 {
            $d[i] = _mm256_shuffle_epi8(_mm256_xor_si256($d[i], $a[i]), $turns.by_32);
        }
        for i in 0..2 {
            $c[i] = multiply_add($c[i], $d[i]);
        }
        for i in 0..2 {
            $b[i] = _mm256_shuffle_epi8(_mm256_xor_si256($b[i], $c[i]), $turns.by_24);
        }
        for i in 0..2 {
            $a[i] = multiply_add($a[i], $b[i]);
        }
        for i in 0..2 {
            $d[i] = _mm256_shuffle_epi8(_mm256_xor_si256($d[i], $a[i]), $turns.by_16);
        }
        for i in 0..2 {
            $c[i] = multiply_add($c[i], $d[i]);
        }
        for i in 0..2 {
            let mixed = _mm256_xor_si256($b[i], $c[i]);
            $b[i] =
                _mm256_xor_si256(_mm256_add_epi64(mixed, mixed), _mm256_srli_epi64::<63>(mixed));
        }
    };
}

/// G, as `segment.rs` asks for it.
///
/// # Safety
/// As every kernel's `compress` (`segment.rs`).
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn compress<const XOR: bool, const NEAR: bool>(
    prev: *mut Block,
    reference: *const Block,
    next: *mut Block,
    work: *mut Block,
    known: impl FnOnce(u64),
) {
    let zero = _mm256_setzero_si256();
    let turns = turns();
    // R waits for the end of P in the copy of `prev` where there is one, else where the new block
    // will be.
    let waiting = if NEAR { prev } else { next };
    for pair in 0..4 {
        let (mut a, mut b, mut c, mut d) = ([zero; 2], [zero; 2], [zero; 2], [zero; 2]);
        for row in 0..2 {
            for (quarter, v) in [&mut a, &mut b, &mut c, &mut d].into_iter().enumerate() {
                let i = 8 * pair + 4 * row + quarter;
                // SAFETY: the caller's blocks are valid, and `i` is below 32.
                unsafe {
                    v[row] = _mm256_xor_si256(load(prev, i), load(reference, i));
                    let kept =
                        if XOR && !NEAR { _mm256_xor_si256(v[row], load(next, i)) } else { v[row] };
                    store(waiting, i, kept);
                }
            }
        }
        quarters!(turns, a, b, c, d);
        // Diagonals by turning a, c and d: b is the last to be ready.
        for i in 0..2 {
            a[i] = _mm256_permute4x64_epi64::<0b10_01_00_11>(a[i]);
            c[i] = _mm256_permute4x64_epi64::<0b00_11_10_01>(c[i]);
            d[i] = _mm256_permute4x64_epi64::<0b01_00_11_10>(d[i]);
        }
        quarters!(turns, a, b, c, d);
        for row in 0..2 {
            let i = 8 * pair + 4 * row;
            // SAFETY: as above, and `work` is valid as well.
            unsafe {
                store(work, i, _mm256_permute4x64_epi64::<0b00_11_10_01>(a[row]));
                store(work, i + 1, b[row]);
                store(work, i + 2, _mm256_permute4x64_epi64::<0b10_01_00_11>(c[row]));
                store(work, i + 3, _mm256_permute4x64_epi64::<0b01_00_11_10>(d[row]));
            }
        }
    }
    let mut known = Some(known);
    for quarter in 0..4 {
        let (mut a, mut b, mut c, mut d) = ([zero; 2], [zero; 2], [zero; 2], [zero; 2]);
        for (letter, v) in [&mut a, &mut b, &mut c, &mut d].into_iter().enumerate() {
            for (half, v) in v.iter_mut().enumerate() {
                // SAFETY: as above.
                unsafe { *v = load(work, 8 * letter + 4 * half + quarter) };
            }
        }
        quarters!(turns, a, b, c, d);
        (b, c, d) = (
            [second(b[0], b[1]), second(b[1], b[0])],
            [c[1], c[0]],
            [second(d[1], d[0]), second(d[0], d[1])],
        );
        quarters!(turns, a, b, c, d);
        (b, c, d) = (
            [second(b[1], b[0]), second(b[0], b[1])],
            [c[1], c[0]],
            [second(d[0], d[1]), second(d[1], d[0])],
        );
        for (letter, v) in [&a, &b, &c, &d].into_iter().enumerate() {
            for (half, &v) in v.iter().enumerate() {
                let i = 8 * letter + 4 * half + quarter;
                // SAFETY: as above.
                unsafe {
                    let mut out = _mm256_xor_si256(v, load(waiting, i));
                    if NEAR {
                        if XOR {
                            out = _mm256_xor_si256(out, load(next, i));
                        }
                        store(prev, i, out);
                    } else {
                        store(next, i, out);
                    }
                    // The first column is done first, and with it the word that names the next
                    // reference: the other columns are computed while its lines are on their way.
                    if i == 0
                        && let Some(known) = known.take()
                    {
                        let word = _mm_cvtsi128_si64(_mm256_castsi256_si128(out));
                        known(word.cast_unsigned());
                    }
                }
            }
        }
    }
    if NEAR {
        // In the order of the lines. A column is half a line of every row: a line whose halves
        // come one column apart may leave the write buffer between them, and reach the memory
        // as two writes of parts, which take several times as long as one of a whole.
        for i in 0..32 {
            // SAFETY: as above.
            unsafe { _mm256_stream_si256(next.cast::<__m256i>().add(i), load(prev, i)) };
        }
    }
}

/// A turn of a vector's words to the right, as the bytes of a shuffle.
struct Turns {
    by_32: __m256i,
    by_24: __m256i,
    by_16: __m256i,
}

/// Hidden from the compiler, which splits a known shuffle into two.
#[inline]
#[target_feature(enable = "avx2")]
fn turns() -> Turns {
    #[rustfmt::skip]
    let by_32 = _mm256_setr_epi8(
        4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11,
        4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11,
    );
    #[rustfmt::skip]
    let by_24 = _mm256_setr_epi8(
        3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10,
        3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10,
    );
    #[rustfmt::skip]
    let by_16 = _mm256_setr_epi8(
        2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9,
        2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9,
    );
    Turns { by_32: black_box(by_32), by_24: black_box(by_24), by_16: black_box(by_16) }
}

/// `x + y + 2 * lo32(x) * lo32(y)` in each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn multiply_add(x: __m256i, y: __m256i) -> __m256i {
    let product = _mm256_mul_epu32(x, y);
    _mm256_add_epi64(_mm256_add_epi64(x, y), _mm256_add_epi64(product, product))
}

/// In each half: the second word of `x`, then the first of `y`.
#[inline]
#[target_feature(enable = "avx2")]
fn second(x: __m256i, y: __m256i) -> __m256i {
    _mm256_alignr_epi8::<8>(y, x)
}

/// Vector `i` of a block.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(block: *const Block, i: usize) -> __m256i {
    // SAFETY: the caller's block is valid, aligned to 64 bytes, and has 32 vectors.
    unsafe { _mm256_load_si256(block.cast::<__m256i>().add(i)) }
}

/// Writes vector `i` of a block.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(block: *mut Block, i: usize, v: __m256i) {
    // SAFETY: as for `load`.
    unsafe { _mm256_store_si256(block.cast::<__m256i>().add(i), v) }
}
