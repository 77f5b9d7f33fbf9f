//! One body for every kernel: G, checked against a second writing.

use super::*;

use crate::params::{Params, Variant, Version};

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

/// Words, all different, from splitmix64.
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

/// A kernel's result for blocks in their natural order.
struct Made {
    next: Block,
    /// The copy of `prev`, where one is kept.
    near: Block,
    /// The word passed on.
    first: Option<u64>,
}

fn compress(isa: Isa, [prev, reference, old]: [&Block; 3], xor: bool, near: bool) -> Made {
    let mut blocks = [Block::ZERO; 4];
    for (natural, block) in [prev, reference, old].into_iter().zip(&mut blocks) {
        enter(isa, natural, block);
    }
    let [mut prev, reference, mut next, mut work] = blocks;
    let mut first = None;
    macro_rules! run {
        ($kernel:path) => {{
            use $kernel as kernel;
            let known = |word| first = Some(word);
            let (prev, reference, next, work) =
                (&raw mut prev, &raw const reference, &raw mut next, &raw mut work);
            // SAFETY: `isa` is proof of the instruction set, and the blocks are apart.
            unsafe {
                match (xor, near) {
                    (false, false) => {
                        kernel::compress::<false, false>(prev, reference, next, work, known);
                    }
                    (false, true) => {
                        kernel::compress::<false, true>(prev, reference, next, work, known);
                    }
                    (true, false) => {
                        kernel::compress::<true, false>(prev, reference, next, work, known);
                    }
                    (true, true) => {
                        kernel::compress::<true, true>(prev, reference, next, work, known);
                    }
                }
            }
        }};
    }
    match isa.set() {
        Set::Scalar => run!(scalar),
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => run!(avx2),
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => run!(avx512),
        #[cfg(target_arch = "aarch64")]
        Set::Neon => run!(neon::plain),
        #[cfg(target_arch = "aarch64")]
        Set::NeonSha3 => run!(neon::sha3),
    }
    let natural = |block: &Block| {
        let mut natural = Block::ZERO;
        leave(isa, block, &mut natural);
        natural
    };
    Made { next: natural(&next), near: natural(&prev), first }
}

/// Prints the kernels a test ran and the ones this machine lacks.
fn report(test: &str) {
    let names = |present: bool| {
        let of = |name: &&str| Isa::named(name).is_ok() == present;
        Isa::NAMES.into_iter().filter(of).collect::<Vec<_>>().join(" ")
    };
    println!("{test} ran: {}; absent: {}", names(true), names(false));
}

#[test]
fn g_is_as_defined_in_every_kernel() {
    let full = {
        let mut full = Block::ZERO;
        *full.words_mut() = [u64::MAX; BLOCK_WORDS];
        full
    };
    let mut pairs = vec![
        (Block::ZERO, Block::ZERO),
        (full, Block::ZERO),
        (block(3), full),
        (block(4), block(4)),
    ];
    pairs.extend((0..if cfg!(miri) { 2 } else { 200 }).map(|i| (block(100 + i), block(900 + i))));
    let old = block(5);
    for (prev, reference) in &pairs {
        let plain = definition(prev, reference);
        let mut xored = plain;
        for (word, old) in xored.words_mut().iter_mut().zip(old.words()) {
            *word ^= old;
        }
        for isa in Isa::available() {
            for (xor, near) in [(false, false), (false, true), (true, false), (true, true)] {
                let expect = if xor { xored } else { plain };
                let made = compress(isa, [prev, reference, &old], xor, near);
                assert_eq!(made.next, expect, "{isa}, xor {xor}, near {near}");
                assert_eq!(made.near, if near { expect } else { *prev }, "{isa}, xor {xor}");
                assert_eq!(made.first, Some(expect.words()[0]), "{isa}, xor {xor}, near {near}");
            }
        }
    }
    report("g_is_as_defined_in_every_kernel");
}

/// Each kernel's order of words has every word once, and the first one first: it is read from
/// there.
#[test]
fn every_word_has_its_place() {
    for isa in Isa::available() {
        let mut places: Vec<usize> = (0..BLOCK_WORDS).map(|word| place(isa, word)).collect();
        assert_eq!(places[0], 0, "{isa}");
        places.sort_unstable();
        assert_eq!(places, (0..BLOCK_WORDS).collect::<Vec<_>>(), "{isa}");
    }
}

/// The whole memory, block by block, against the scalar kernel's: every type and version, shapes
/// where segments and address blocks end differently, several hashes side by side, lanes on
/// threads, and blocks written past the caches.
#[test]
fn memories_are_the_same_block_by_block() {
    let shapes: &[(u32, u32, u32)] = if cfg!(miri) {
        &[(16, 2, 2)]
    } else {
        &[(8, 1, 1), (64, 2, 1), (65, 3, 1), (1040, 2, 1), (4 * 129 * 3, 3, 3), (2304, 2, 8)]
    };
    for &(memory_kib, passes, lanes) in shapes {
        for variant in [Variant::D, Variant::I, Variant::Id] {
            for version in [Version::V0x10, Version::V0x13] {
                let params = Params::new(memory_kib, passes, lanes).unwrap();
                let plan = Plan::new(variant, version, params);
                let expect = filled(Isa::SCALAR, &plan, passes, 1, 1, false);
                for isa in Isa::available() {
                    for (memories, threads, past_caches) in
                        [(1, 1, false), (1, 3, false), (3, 1, false), (2, 2, true), (9, 1, true)]
                    {
                        let found = filled(isa, &plan, passes, memories, threads, past_caches);
                        for (number, blocks) in found.iter().enumerate() {
                            // Memories start alike, so they end alike.
                            for (place, (found, expect)) in
                                blocks.iter().zip(&expect[0]).enumerate()
                            {
                                assert!(
                                    found == expect,
                                    "{isa} {variant:?} {version:?} m={memory_kib} t={passes} \
                                     p={lanes}, {memories} memories, {threads} threads, past \
                                     caches {past_caches}: memory {number}, block {place}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
    report("memories_are_the_same_block_by_block");
}

/// So many memories with the same start, filled, words in their natural order.
fn filled(
    isa: Isa,
    plan: &Plan,
    passes: u32,
    memories: usize,
    threads: usize,
    past_caches: bool,
) -> Vec<Vec<Block>> {
    let geometry = &plan.geometry;
    let mut memory = vec![Block::ZERO; geometry.place(geometry.lanes, 0)];
    for lane in 0..geometry.lanes {
        for column in 0..2 {
            let place = geometry.place(lane, column);
            enter(isa, &block(place as u64), &mut memory[place]);
        }
    }
    let mut memories = vec![memory; memories];
    let mut lent: Vec<&mut [Block]> = memories.iter_mut().map(Vec::as_mut_slice).collect();
    let threads = std::num::NonZeroUsize::new(threads).unwrap();
    let control = Control { threads, stop: None, progress: None };
    fill_with(isa, plan, 0..passes, &mut lent, &control, past_caches).unwrap();
    for block in memories.iter_mut().flatten() {
        let mut natural = Block::ZERO;
        leave(isa, block, &mut natural);
        *block = natural;
    }
    memories
}

/// Each block of the first half follows from the one before and from its known reference.
#[test]
fn known_references_are_those_that_blocks_were_filled_with() {
    for memory_kib in [8, 12, 64, 1000, 1100, 2100] {
        let params = Params::new(memory_kib, 1, 1).unwrap();
        let plan = Plan::new(Variant::Id, Version::V0x13, params);
        let count = params.block_count() as usize;
        let isa = Isa::named("scalar").unwrap();
        let mut memory: Vec<Block> = (0..count).map(|i| block(i as u64)).collect();
        let threads = std::num::NonZeroUsize::MIN;
        let control = Control { threads, stop: None, progress: None };
        fill(isa, &plan, 0..1, &mut [&mut memory], &control).unwrap();
        let references = known_references(&plan);
        assert_eq!((references.len(), &references[..2]), (count / 2, &[0, 0][..]));
        for (column, reference) in references.into_iter().enumerate().skip(2) {
            let follows = definition(&memory[column - 1], &memory[reference as usize]);
            assert_eq!(memory[column], follows, "{memory_kib} KiB, column {column}");
        }
    }
}
