//! Sums over pairs of vectors: products, squared differences, absolute differences, bits.
//!
//! Sums of floats have one order on every instruction set: element `i` goes to lane `i % 64`, the
//! lanes are halved until one is left, and no product is fused with a sum. `scalar` is the
//! definition. Sums of `int8` and bits are whole numbers. The choice of a kernel is made once for a
//! block of rows.
//!
//! Unsafe code: calls of functions compiled for an instruction set, allowed by an [`Isa`], and
//! loads and stores within slices whose lengths were compared before.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod lanes;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use crate::isa::{Isa, Set};

/// The number of partial sums of a pair.
const LANES: usize = 64;

/// The term added by a pair of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// `a * b`.
    Product,
    /// `(a - b)²`.
    Square,
    /// `|a - b|`.
    Absolute,
}

/// Runs a generic function for a term and an instruction set.
macro_rules! dispatch {
    ($isa:expr, $term:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: an `Isa` is proof of its instruction set, and `check` compared the lengths.
        unsafe {
            match ($isa.set(), $term) {
                (Set::Scalar, Term::Product) => scalar::$name::<0>($($argument),*),
                (Set::Scalar, Term::Square) => scalar::$name::<1>($($argument),*),
                (Set::Scalar, Term::Absolute) => scalar::$name::<2>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx2, Term::Product) => avx2::$name::<0>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx2, Term::Square) => avx2::$name::<1>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx2, Term::Absolute) => avx2::$name::<2>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx512, Term::Product) => avx512::$name::<0>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx512, Term::Square) => avx512::$name::<1>($($argument),*),
                #[cfg(target_arch = "x86_64")]
                (Set::Avx512, Term::Absolute) => avx512::$name::<2>($($argument),*),
            }
        }
    };
}

/// Compares the lengths of a query, of rows behind each other and of their results.
///
/// # Panics
/// When they do not fit.
fn check(query: usize, rows: usize, out: usize) {
    assert!(query > 0 && query.checked_mul(out) == Some(rows), "rows are as long as the query");
}

/// The sums of a query with every row; rows lie behind each other.
pub(crate) fn sums_f32(isa: Isa, term: Term, query: &[f32], rows: &[f32], out: &mut [f32]) {
    check(query.len(), rows.len(), out.len());
    dispatch!(isa, term, sums_f32(query, rows, out));
}

/// As [`sums_f32`], of bytes as signed numbers.
pub(crate) fn sums_int8(isa: Isa, term: Term, query: &[u8], rows: &[u8], out: &mut [i64]) {
    check(query.len(), rows.len(), out.len());
    dispatch!(isa, term, sums_int8(query, rows, out));
}

/// Half floats as floats.
pub(crate) fn widen(isa: Isa, halves: &[u16], out: &mut [f32]) {
    assert_eq!(halves.len(), out.len(), "as many floats as half floats");
    match isa.set() {
        Set::Scalar => scalar::widen(halves, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both sets include F16C, and the lengths are equal.
        Set::Avx2 | Set::Avx512 => unsafe { avx2::widen(halves, out) },
    }
}

/// The number of bits different in a query and each row, and the number set in both.
pub(crate) fn bits(isa: Isa, query: &[u8], rows: &[u8], out: &mut [(u32, u32)]) {
    check(query.len(), rows.len(), out.len());
    match isa.set() {
        Set::Scalar => scalar::bits(query, rows, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both sets are given out with POPCNT alone.
        Set::Avx2 | Set::Avx512 => unsafe { avx2::bits(query, rows, out) },
    }
}

#[cfg(test)]
mod tests;
