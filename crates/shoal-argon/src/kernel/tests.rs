//! One body for every kernel: what G must give, checked against a second writing of it.

use super::scalar;
use crate::block::{BLOCK_WORDS, Block};

/// G as the RFC's text has it: the whole matrix by value, no fusing, indices spelled out.
fn definition(x: &Block, y: &Block) -> Block {
    let r: Vec<u64> = x.words().iter().zip(y.words()).map(|(x, y)| x ^ y).collect();
    let mut z = r.clone();
    for row in 0..8 {
        let places: Vec<usize> = (0..16).map(|i| 16 * row + i).collect();
        round(&mut z, &places);
    }
    for column in 0..8 {
        let places: Vec<usize> =
            (0..8).flat_map(|row| [16 * row + 2 * column, 16 * row + 2 * column + 1]).collect();
        round(&mut z, &places);
    }
    let mut out = Block::ZERO;
    for (i, word) in out.words_mut().iter_mut().enumerate() {
        *word = z[i] ^ r[i];
    }
    out
}

fn round(z: &mut [u64], places: &[usize]) {
    for shift in [0, 1] {
        for i in 0..4 {
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| places[4 * row + (i + shift * row) % 4]);
            for (left, right) in [(32, 24), (16, 63)] {
                for (sum, term, turned, bits) in [(a, b, d, left), (c, d, b, right)] {
                    let product = (z[sum] & u64::from(u32::MAX)) as u128
                        * (z[term] & u64::from(u32::MAX)) as u128;
                    let total = z[sum] as u128 + z[term] as u128 + 2 * product;
                    z[sum] = (total % (1 << 64)) as u64;
                    let mixed = z[turned] ^ z[sum];
                    z[turned] = mixed.rotate_right(bits);
                }
            }
        }
    }
}

/// Words that are everywhere different, from splitmix64.
fn block(seed: u64) -> Block {
    let mut block = Block::ZERO;
    let mut state = seed;
    for word in block.words_mut() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = mixed ^ (mixed >> 31);
    }
    block
}

#[test]
fn g_is_as_defined() {
    let full = {
        let mut full = Block::ZERO;
        *full.words_mut() = [u64::MAX; BLOCK_WORDS];
        full
    };
    for (x, y) in [
        (Block::ZERO, Block::ZERO),
        (full, Block::ZERO),
        (block(1), block(2)),
        (block(3), full),
        (block(4), block(4)),
    ] {
        let expect = definition(&x, &y);
        let (mut next, mut work) = (block(5), Block::ZERO);
        scalar::compress::<false>(&x, &y, &mut next, &mut work);
        assert_eq!(next, expect);

        let old = block(6);
        let mut next = old;
        scalar::compress::<true>(&x, &y, &mut next, &mut work);
        let mut expect = expect;
        expect ^= &old;
        assert_eq!(next, expect);
    }
}
