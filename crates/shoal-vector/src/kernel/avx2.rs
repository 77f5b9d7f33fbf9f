//! The kernel for AVX2: eight floats, or sixteen numbers of 16 bits, in a vector.

use std::arch::x86_64::*;

use super::scalar;

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256 {
    _mm256_setzero_ps()
}

/// # Safety
/// Eight floats can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(from: *const f32) -> __m256 {
    // SAFETY: as the caller says.
    unsafe { _mm256_loadu_ps(from) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn step<const TERM: u8>(sum: __m256, a: __m256, b: __m256) -> __m256 {
    match TERM {
        0 => _mm256_add_ps(sum, _mm256_mul_ps(a, b)),
        1 => {
            let difference = _mm256_sub_ps(a, b);
            _mm256_add_ps(sum, _mm256_mul_ps(difference, difference))
        }
        _ => {
            let sign = _mm256_set1_ps(-0.0);
            _mm256_add_ps(sum, _mm256_andnot_ps(sign, _mm256_sub_ps(a, b)))
        }
    }
}

/// Halves the lanes until one is left.
#[inline]
#[target_feature(enable = "avx2")]
fn fold(sums: [__m256; VECTORS]) -> f32 {
    let [a, b, c, d, e, f, g, h] = sums;
    let (a, b) = (_mm256_add_ps(a, e), _mm256_add_ps(b, f));
    let (c, d) = (_mm256_add_ps(c, g), _mm256_add_ps(d, h));
    let (a, b) = (_mm256_add_ps(a, c), _mm256_add_ps(b, d));
    fold_vector(_mm256_add_ps(a, b))
}

/// The sum of eight lanes, halved until one is left.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn fold_vector(sum: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}

float_sums! { #[target_feature(enable = "avx2")], 8 }

/// The sums of a query with every row, of signed bytes.
///
/// # Safety
/// As `sums_f32`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sums_int8<const TERM: u8>(query: &[u8], rows: &[u8], out: &mut [i64]) {
    let length = query.len();
    let whole = length - length % 16;
    for (place, out) in out.iter_mut().enumerate() {
        let row = &rows[place * length..(place + 1) * length];
        let mut sums = _mm256_setzero_si256();
        let mut at = 0;
        while at < whole {
            // SAFETY: `at + 16` is at most `whole`, within both slices.
            let (a, b) = unsafe {
                let a = _mm_loadu_si128(query.as_ptr().add(at).cast());
                let b = _mm_loadu_si128(row.as_ptr().add(at).cast());
                (_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b))
            };
            // 8,192 elements of a lane's share stay below 2^27.
            sums = _mm256_add_epi32(sums, pairs::<TERM>(a, b));
            at += 16;
        }
        let mut lanes = [0_i32; 8];
        // SAFETY: the array has 32 bytes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
        let mut rest = [0];
        if whole < length {
            // SAFETY: safe, as the definition is; one row as long as its query.
            unsafe { scalar::sums_int8::<TERM>(&query[whole..], &row[whole..], &mut rest) };
        }
        *out = rest[0] + lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>();
    }
}

/// The terms of sixteen pairs, two and two together.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs<const TERM: u8>(a: __m256i, b: __m256i) -> __m256i {
    match TERM {
        0 => _mm256_madd_epi16(a, b),
        1 => {
            let difference = _mm256_sub_epi16(a, b);
            _mm256_madd_epi16(difference, difference)
        }
        _ => {
            let difference = _mm256_abs_epi16(_mm256_sub_epi16(a, b));
            _mm256_madd_epi16(difference, _mm256_set1_epi16(1))
        }
    }
}

/// Half floats as floats.
///
/// # Safety
/// The machine has AVX2 and F16C; both slices are as long.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn widen(halves: &[u16], out: &mut [f32]) {
    let whole = halves.len() - halves.len() % 8;
    let mut at = 0;
    while at < whole {
        // SAFETY: eight elements from `at` on lie within both slices.
        unsafe {
            let eight = _mm_loadu_si128(halves.as_ptr().add(at).cast());
            _mm256_storeu_ps(out.as_mut_ptr().add(at), _mm256_cvtph_ps(eight));
        }
        at += 8;
    }
    scalar::widen(&halves[whole..], &mut out[whole..]);
}

/// The bits set in one alone, and the bits of both.
///
/// # Safety
/// The machine has POPCNT.
#[target_feature(enable = "popcnt")]
pub(super) unsafe fn bits(query: &[u8], rows: &[u8], out: &mut [(u32, u32)]) {
    scalar::bits(query, rows, out);
}
