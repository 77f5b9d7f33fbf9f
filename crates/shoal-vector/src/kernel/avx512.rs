//! The kernel for AVX-512: sixteen floats in a vector; bytes as with AVX2, in twice the width.

use std::arch::x86_64::*;

use super::avx2::fold_vector;
use super::scalar;

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> __m512 {
    _mm512_setzero_ps()
}

/// # Safety
/// Sixteen floats can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32) -> __m512 {
    // SAFETY: as the caller says.
    unsafe { _mm512_loadu_ps(from) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step<const TERM: u8>(sum: __m512, a: __m512, b: __m512) -> __m512 {
    match TERM {
        0 => _mm512_add_ps(sum, _mm512_mul_ps(a, b)),
        1 => {
            let difference = _mm512_sub_ps(a, b);
            _mm512_add_ps(sum, _mm512_mul_ps(difference, difference))
        }
        _ => _mm512_add_ps(sum, _mm512_abs_ps(_mm512_sub_ps(a, b))),
    }
}

/// Halves the lanes until one is left.
#[inline]
#[target_feature(enable = "avx512f,avx2")]
fn fold(sums: [__m512; VECTORS]) -> f32 {
    let [a, b, c, d] = sums;
    let sum = _mm512_add_ps(_mm512_add_ps(a, c), _mm512_add_ps(b, d));
    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sum)));
    fold_vector(_mm256_add_ps(_mm512_castps512_ps256(sum), high))
}

float_sums! { #[target_feature(enable = "avx512f,avx2")], 16 }

/// The sums of a query with every row, of signed bytes.
///
/// # Safety
/// As `sums_f32`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn sums_int8<const TERM: u8>(query: &[u8], rows: &[u8], out: &mut [i64]) {
    let length = query.len();
    let whole = length - length % 32;
    for (place, out) in out.iter_mut().enumerate() {
        let row = &rows[place * length..(place + 1) * length];
        let mut sums = _mm512_setzero_si512();
        let mut at = 0;
        while at < whole {
            // SAFETY: `at + 32` is at most `whole`, within both slices.
            let (a, b) = unsafe {
                let a = _mm256_loadu_si256(query.as_ptr().add(at).cast());
                let b = _mm256_loadu_si256(row.as_ptr().add(at).cast());
                (_mm512_cvtepi8_epi16(a), _mm512_cvtepi8_epi16(b))
            };
            let pairs = match TERM {
                0 => _mm512_madd_epi16(a, b),
                1 => {
                    let difference = _mm512_sub_epi16(a, b);
                    _mm512_madd_epi16(difference, difference)
                }
                _ => {
                    let difference = _mm512_abs_epi16(_mm512_sub_epi16(a, b));
                    _mm512_madd_epi16(difference, _mm512_set1_epi16(1))
                }
            };
            sums = _mm512_add_epi32(sums, pairs);
            at += 32;
        }
        let mut rest = [0];
        if whole < length {
            // SAFETY: safe, as the definition is; one row as long as its query.
            unsafe { scalar::sums_int8::<TERM>(&query[whole..], &row[whole..], &mut rest) };
        }
        let mut lanes = [0_i32; 16];
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), sums) };
        *out = rest[0] + lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>();
    }
}
