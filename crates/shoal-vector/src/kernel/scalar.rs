//! The definition: every sum in plain Rust, vectorised by compilers on other machines.

use super::LANES;
use crate::half::half_to_float;

/// One more pair in a partial sum, by the number of the term.
#[inline(always)]
fn step<const TERM: u8>(sum: f32, a: f32, b: f32) -> f32 {
    match TERM {
        0 => sum + a * b,
        1 => {
            let difference = a - b;
            sum + difference * difference
        }
        _ => sum + (a - b).abs(),
    }
}

/// Halves the lanes until one is left.
#[inline(always)]
fn fold(lanes: &mut [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[allow(clippy::missing_safety_doc)] // safe: `unsafe` for the other kernels' sake
pub(super) unsafe fn sums_f32<const TERM: u8>(query: &[f32], rows: &[f32], out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        let mut lanes = [0.0; LANES];
        for (a, b) in query.chunks(LANES).zip(row.chunks(LANES)) {
            for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
                *lane = step::<TERM>(*lane, *a, *b);
            }
        }
        *out = fold(&mut lanes);
    }
}

#[allow(clippy::missing_safety_doc)] // as above
pub(super) unsafe fn sums_int8<const TERM: u8>(query: &[u8], rows: &[u8], out: &mut [i64]) {
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        let mut sum = 0_i64;
        for (a, b) in query.iter().zip(row) {
            let (a, b) = (i32::from(a.cast_signed()), i32::from(b.cast_signed()));
            sum += i64::from(match TERM {
                0 => a * b,
                1 => (a - b) * (a - b),
                _ => (a - b).abs(),
            });
        }
        *out = sum;
    }
}

pub(super) fn widen(halves: &[u16], out: &mut [f32]) {
    for (half, out) in halves.iter().zip(out) {
        *out = half_to_float(*half);
    }
}

/// The bits of both, by words of eight bytes and the bytes left over.
#[inline(always)]
pub(super) fn bits(query: &[u8], rows: &[u8], out: &mut [(u32, u32)]) {
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        let (words, rest) = query.as_chunks::<8>();
        let (row_words, row_rest) = row.as_chunks::<8>();
        let (mut differ, mut both) = (0, 0);
        for (a, b) in words.iter().zip(row_words) {
            let (a, b) = (u64::from_le_bytes(*a), u64::from_le_bytes(*b));
            differ += (a ^ b).count_ones();
            both += (a & b).count_ones();
        }
        for (a, b) in rest.iter().zip(row_rest) {
            differ += (a ^ b).count_ones();
            both += (a & b).count_ones();
        }
        *out = (differ, both);
    }
}
