//! Integers as decimal text, without an allocation.

use std::fmt;

/// The decimal digits of a number; digits may be cut off behind and added in front.
#[derive(Clone, Copy)]
pub(crate) struct Digits {
    bytes: [u8; LENGTH_MAX],
    start: usize,
    end: usize,
}

/// A number of 64 bits has no more than 20 digits.
const LENGTH_MAX: usize = 24;

/// The numbers from 0 to 99, two digits each.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

impl Digits {
    /// The digits of a number, `0` for zero.
    #[inline]
    pub(crate) fn of(mut number: u64) -> Digits {
        let mut digits = Digits::none();
        while number >= 100 {
            digits.start -= 2;
            let pair = PAIRS[(number % 100) as usize];
            digits.bytes[digits.start..digits.start + 2].copy_from_slice(&pair);
            number /= 100;
        }
        let pair = PAIRS[(number % 100) as usize];
        if number >= 10 {
            digits.start -= 2;
            digits.bytes[digits.start..digits.start + 2].copy_from_slice(&pair);
        } else {
            digits.start -= 1;
            digits.bytes[digits.start] = pair[1];
        }
        digits
    }

    /// No digits.
    #[inline]
    pub(crate) fn none() -> Digits {
        Digits { bytes: [b'0'; LENGTH_MAX], start: LENGTH_MAX, end: LENGTH_MAX }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Leaves so many of the first digits.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.end = self.end.min(self.start + count);
    }

    /// Puts a digit in front; three at least find room.
    pub(crate) fn push_front(&mut self, digit: u8) {
        if let Some(start) = self.start.checked_sub(1) {
            self.start = start;
            self.bytes[start] = digit;
        }
    }
}

impl PartialEq for Digits {
    fn eq(&self, other: &Digits) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}

/// Appends an integer as text.
#[inline]
pub(crate) fn push_int(int: i64, out: &mut Vec<u8>) {
    if int < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(Digits::of(int.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_what_the_standard_library_prints() {
        let near =
            [0_i64, 9, 10, 99, 100, 101, 999, 1000, 12_345, i64::MAX, i64::MIN, i64::MIN + 1];
        let powers =
            (0..19).map(|power| 10_i64.pow(power)).flat_map(|it| [it - 1, it, -it, 7 * it / 3]);
        for int in near.into_iter().chain(powers) {
            let mut out = Vec::new();
            push_int(int, &mut out);
            assert_eq!(out, int.to_string().as_bytes());
        }
        assert_eq!(Digits::of(u64::MAX).as_bytes(), u64::MAX.to_string().as_bytes());
    }
}
