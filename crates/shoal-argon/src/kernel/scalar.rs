//! The kernel in plain 64-bit arithmetic, written to be read beside RFC 9106 §3.5 and §3.6.

use std::array;

use crate::block::Block;

/// Where a word of the block lies in this kernel's memory.
#[inline(always)]
pub(super) const fn place(word: usize) -> usize {
    word
}

/// Nothing to ask for without an instruction set.
#[inline(always)]
unsafe fn prefetch<const ONCE: bool>(_block: *const Block) {}

/// As [`prefetch`].
#[inline(always)]
unsafe fn prefetch_first(_block: *const Block) {}

/// Nothing to wait for: all stores are ordinary ones.
#[inline(always)]
unsafe fn settle() {}

/// [`definition`] on places in memory, with the word that names the next reference passed on.
///
/// # Safety
/// As every kernel's `compress` (`segment.rs`).
#[inline(always)]
pub(super) unsafe fn compress<const XOR: bool, const NEAR: bool>(
    prev: *mut Block,
    reference: *const Block,
    next: *mut Block,
    work: *mut Block,
    known: impl FnOnce(u64),
) {
    // SAFETY: the caller's blocks are valid, and `next` and `work` are apart from the others.
    unsafe {
        let next = &mut *next;
        definition::<XOR>(&*prev, &*reference, next, &mut *work);
        known(next.words()[0]);
        if NEAR {
            *prev = *next;
        }
    }
}

segment_loops! {}

/// G (RFC 9106 §3.5): `next = P(R) ^ R` with `R = prev ^ reference`; with `XOR`, as later
/// passes of version 0x13 want it, `next` keeps its old words xored in.
///
/// R is 8 rows of 16 words. P permutes each row, then each column, which is two words of every
/// row. `work` holds the words in between; it is the caller's because it is as secret as the
/// blocks and is wiped with them.
///
/// All of R is computed before the first row is permuted, so that the loads of `reference`,
/// which is rarely in a cache, wait together: rows that load their own part were slower.
pub(super) fn definition<const XOR: bool>(
    prev: &Block,
    reference: &Block,
    next: &mut Block,
    work: &mut Block,
) {
    let (prev, reference) = (prev.words(), reference.words());
    let (next, work) = (next.words_mut(), work.words_mut());
    for (i, word) in work.iter_mut().enumerate() {
        *word = prev[i] ^ reference[i];
        next[i] = if XOR { next[i] ^ *word } else { *word };
    }
    for row in work.as_chunks_mut().0 {
        permute(row);
    }
    for column in 0..8 {
        let place = |i| 16 * (i / 2) + 2 * column + i % 2;
        let mut v = array::from_fn(|i| work[place(i)]);
        permute(&mut v);
        for (i, word) in v.into_iter().enumerate() {
            work[place(i)] = word;
        }
    }
    for (word, z) in next.iter_mut().zip(work) {
        *word ^= *z;
    }
}

/// The words behind a batch of references: G twice, of the seed (RFC 9106 §3.4.1.2).
pub(super) fn address(seed: &Block) -> Block {
    let (mut once, mut words, mut work) = (Block::ZERO, Block::ZERO, Block::ZERO);
    definition::<false>(&Block::ZERO, seed, &mut once, &mut work);
    definition::<false>(&Block::ZERO, &once, &mut words, &mut work);
    words
}

/// P (RFC 9106 §3.6): a round of BLAKE2b without its message, columns then diagonals of the
/// 4 by 4 words.
#[inline(always)]
fn permute(v: &mut [u64; 16]) {
    quarter(v, [0, 4, 8, 12]);
    quarter(v, [1, 5, 9, 13]);
    quarter(v, [2, 6, 10, 14]);
    quarter(v, [3, 7, 11, 15]);

    quarter(v, [0, 5, 10, 15]);
    quarter(v, [1, 6, 11, 12]);
    quarter(v, [2, 7, 8, 13]);
    quarter(v, [3, 4, 9, 14]);
}

/// GB (RFC 9106 §3.6) on the four words at these places.
#[inline(always)]
fn quarter(v: &mut [u64; 16], [a, b, c, d]: [usize; 4]) {
    v[a] = multiply_add(v[a], v[b]);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = multiply_add(v[c], v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);

    v[a] = multiply_add(v[a], v[b]);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = multiply_add(v[c], v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

/// `x + y + 2 * lo32(x) * lo32(y)`: BLAKE2b's addition with a multiplication in its way, which
/// is what makes it slow to build in hardware.
#[inline(always)]
fn multiply_add(x: u64, y: u64) -> u64 {
    let product = (x & 0xffff_ffff) * (y & 0xffff_ffff);
    x.wrapping_add(y).wrapping_add(product << 1)
}
