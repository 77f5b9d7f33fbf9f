//! Every kernel of this machine against the definition, to the bit.

use super::*;
use crate::half::float_to_half;

/// Numbers by a generator of Lehmer's.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed * 2 + 1;
    move || {
        state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ 0xA5;
        state >> 16
    }
}

#[test]
fn every_kernel_gives_the_sums_of_the_definition() {
    let mut next = numbers(7);
    let lengths = [1, 3, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 100, 127, 128, 256, 384, 1000];
    for length in lengths {
        let count = 5;
        let mut float = || f32::from(((next() % 4001) as i16) - 2000) / 37.0;
        let mut query: Vec<f32> = (0..length).map(|_| float()).collect();
        let mut rows: Vec<f32> = (0..length * count).map(|_| float()).collect();
        if length > 8 {
            (query[3], rows[5], rows[length + 6]) = (f32::INFINITY, f32::NAN, 1e30);
        }
        let halves: Vec<u16> = rows.iter().map(|it| float_to_half(*it)).collect();
        let bytes: Vec<u8> = (0..length * count).map(|_| next() as u8).collect();
        let byte_query: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        for isa in Isa::available() {
            for term in [Term::Product, Term::Square, Term::Absolute] {
                let (mut wanted, mut found) = (vec![0.0; count], vec![0.0; count]);
                sums_f32(Isa::SCALAR, term, &query, &rows, &mut wanted);
                sums_f32(isa, term, &query, &rows, &mut found);
                for (wanted, found) in wanted.iter().zip(&found) {
                    let same = wanted.to_bits() == found.to_bits();
                    assert!(same || wanted.is_nan() && found.is_nan(), "{isa} {term:?} {length}");
                }
                let (mut wanted, mut found) = (vec![0; count], vec![0; count]);
                sums_int8(Isa::SCALAR, term, &byte_query, &bytes, &mut wanted);
                sums_int8(isa, term, &byte_query, &bytes, &mut found);
                assert_eq!(wanted, found, "{isa} {term:?} {length}");
            }
            let (mut wanted, mut found) = (vec![0.0; halves.len()], vec![0.0; halves.len()]);
            widen(Isa::SCALAR, &halves, &mut wanted);
            widen(isa, &halves, &mut found);
            let bits = |floats: &[f32]| floats.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&wanted), bits(&found), "{isa} {length}");
            let (mut wanted, mut found) = (vec![(0, 0); count], vec![(0, 0); count]);
            super::bits(Isa::SCALAR, &byte_query, &bytes, &mut wanted);
            super::bits(isa, &byte_query, &bytes, &mut found);
            assert_eq!(wanted, found, "{isa} {length}");
        }
    }
}
