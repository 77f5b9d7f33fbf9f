//! Reals as decimal text, digit for digit as SQLite prints them.
//!
//! SQLite has changed its mind. Up to 3.51 a real became text with 15 significant digits, so `0.1 +
//! 0.2` was `0.3`; from 3.52 with 17, cut back where fewer digits give the same double.
//! [`real_to_text`] is the newer way, used wherever SQL makes text of a real; [`real_to_text_15`]
//! is the older one, for output equal to an older `sqlite3` command's.

use super::digits::{Digits, push_int};
use super::extended::fifteen_digits;
use super::number::scaled;

/// A real as decimal digits, as `printf` needs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decimal {
    /// Below zero; minus zero is not.
    pub(crate) negative: bool,
    /// The significant digits as ASCII, no zeros at the end; `0` for zero, empty for infinity.
    pub(crate) digits: Digits,
    /// Number of digits before the decimal point; may be negative or past the digits.
    pub(crate) point: i32,
    /// Infinite.
    pub(crate) infinite: bool,
}

/// The number of digits [`decode`] keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// A number of significant digits; at least 1.
    Significant(i32),
    /// A number of digits after the decimal point.
    Decimals(i32),
}

/// The digits of a real, rounded half up, never more than `digits_max`.
///
/// A double has no more than 767 digits, but SQLite looks at 18 or 19 and takes the rest for
/// zero, and so does this: `%.30f` of 0.1 ends in zeros. NaN is not expected and is infinity.
pub(crate) fn decode(real: f64, keep: Keep, digits_max: i32) -> Decimal {
    let negative = real < 0.0;
    let real = real.abs();
    if real == 0.0 {
        return Decimal { negative, digits: Digits::of(0), point: 1, infinite: false };
    }
    if !real.is_finite() {
        return Decimal { negative, digits: Digits::none(), point: 0, infinite: true };
    }
    let (mut digits, mut point) = significant(real, keep);
    let mut round = match keep {
        Keep::Significant(count) => count,
        Keep::Decimals(count) => {
            let mut round = point.saturating_add(count);
            if round == 0 && digits.as_bytes()[0] >= b'5' {
                // Half or more of the last place kept: room for the carry 1.
                digits.push_front(b'0');
                point += 1;
                round = 1;
            }
            round
        }
    };
    let length = i32::try_from(digits.as_bytes().len()).unwrap_or(i32::MAX);
    if round > 0 && (round < length || length > digits_max) {
        round = round.min(digits_max);
        if round == 17 {
            round = shorter(real, digits.as_bytes(), point).unwrap_or(round);
        }
        round_to(&mut digits, &mut point, usize::try_from(round).unwrap_or(0));
    }
    let zeros = digits.as_bytes().iter().rev().take_while(|&&digit| digit == b'0').count();
    digits.truncate((digits.as_bytes().len() - zeros).max(1));
    Decimal { negative, digits, point, infinite: false }
}

/// The first 18 or 19 digits of a real (one or two more than wanted, where fewer are) and its
/// decimal point.
///
/// SQLite multiplies the mantissa by a power of ten cut to 64 bits, chosen by the power of two: the
/// product holds the digits as an integer. The cut shows in the last digit now and then, and the 18
/// digits are rounded once more to the 17 printed. Both steps are kept for the same digits.
fn significant(real: f64, keep: Keep) -> (Digits, i32) {
    let wanted = match keep {
        Keep::Significant(count) if count < 18 => count.max(1) + 1,
        _ => 18,
    };
    let (mantissa, exponent) = normalized(real);
    let power = wanted - 1 - floor_log10_pow2(exponent + 63);
    let product = (u128::from(mantissa) * u128::from(power_of_ten(power))) >> 64;
    let shift = u32::try_from(-(exponent + floor_log2_pow10(power) + 1)).unwrap_or(0);
    let integer = if wanted == 18 { ((product >> (shift - 1)) + 1) >> 1 } else { product >> shift };
    // The integer is the upper half of a product of 128 bits.
    let digits = Digits::of(integer as u64);
    let point = i32::try_from(digits.as_bytes().len()).unwrap_or(0) - power;
    (digits, point)
}

/// A positive real as `mantissa * 2^exponent`, the mantissa's highest bit set.
fn normalized(real: f64) -> (u64, i32) {
    let bits = real.to_bits();
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    let biased = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    if biased == 0 {
        let zeros = fraction.leading_zeros();
        (fraction << zeros, -1074 - i32::try_from(zeros).unwrap_or(0))
    } else {
        ((fraction << 11) | 1 << 63, biased - 1086)
    }
}

/// `floor(log10(2^power))` for the powers a double has.
fn floor_log10_pow2(power: i32) -> i32 {
    (power * 78913) >> 18
}

/// `floor(log2(10^power))` for the powers a double needs.
fn floor_log2_pow10(power: i32) -> i32 {
    (power * 108853) >> 15
}

/// The first 64 bits of `10^power`, cut.
fn power_of_ten(power: i32) -> u64 {
    usize::try_from(power + POWER_MAX).ok().and_then(|at| POWERS.get(at)).copied().unwrap_or(0)
}

/// Scaling any double to 18 digits takes powers of ten within plus and minus this.
const POWER_MAX: i32 = 348;

static POWERS: [u64; 697] = powers_of_ten();

/// Steps from `10^0` up by times ten and down by over ten, on 192 bits, of them 64 kept.
const fn powers_of_ten() -> [u64; 697] {
    const LOW: u128 = (1 << 64) - 1;
    let mut table = [0; 697];
    let zero = POWER_MAX as usize;
    let one: [u64; 3] = [1 << 63, 0, 0];
    table[zero] = one[0];

    let mut limbs = one;
    let mut power = 1;
    while power <= zero {
        let low = limbs[2] as u128 * 10;
        let middle = limbs[1] as u128 * 10 + (low >> 64);
        let high = limbs[0] as u128 * 10 + (middle >> 64);
        let carry = (high >> 64) as u64;
        let shift = 64 - carry.leading_zeros();
        let next = [(high & LOW) as u64, (middle & LOW) as u64, (low & LOW) as u64];
        limbs = [
            (carry << (64 - shift)) | (next[0] >> shift),
            (next[0] << (64 - shift)) | (next[1] >> shift),
            (next[1] << (64 - shift)) | (next[2] >> shift),
        ];
        table[zero + power] = limbs[0];
        power += 1;
    }

    let mut limbs = one;
    let mut power = 1;
    while power <= zero {
        let high = limbs[0] as u128;
        let middle = ((high % 10) << 64) | limbs[1] as u128;
        let low = ((middle % 10) << 64) | limbs[2] as u128;
        let rest = ((low % 10) << 64) / 10;
        let next = [(high / 10) as u64, (middle / 10) as u64, (low / 10) as u64, rest as u64];
        let shift = next[0].leading_zeros();
        limbs = [
            (next[0] << shift) | (next[1] >> (64 - shift)),
            (next[1] << shift) | (next[2] >> (64 - shift)),
            (next[2] << shift) | (next[3] >> (64 - shift)),
        ];
        table[zero - power] = limbs[0];
        power += 1;
    }
    table
}

/// Rounds to `count` digits by the next one; a carry out of the front moves the point.
fn round_to(digits: &mut Digits, point: &mut i32, count: usize) {
    let Some(next) = digits.as_bytes().get(count) else { return };
    let up = *next >= b'5';
    digits.truncate(count);
    if !up {
        if count == 0 {
            *digits = Digits::of(0);
        }
        return;
    }
    for digit in digits.as_bytes_mut().iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.push_front(b'1');
    *point += 1;
}

/// Number of digits to keep where 17 end in nines or zeros and fewer give the same real.
fn shorter(real: f64, digits: &[u8], point: i32) -> Option<i32> {
    let length = i32::try_from(digits.len()).ok()?;
    let (kept, up) = if digits[15] == b'9' && digits[14] == b'9' {
        let nines = digits[..14].iter().rev().take_while(|&&digit| digit == b'9').count();
        (14 - nines, true)
    } else if point >= length || digits[13..16] == *b"000" {
        let zeros = digits[..13].iter().rev().take_while(|&&digit| digit == b'0').count();
        (13 - zeros, false)
    } else {
        return None;
    };
    let mut number: u64 = 0;
    for digit in &digits[..kept] {
        number = number * 10 + u64::from(digit - b'0');
    }
    if up {
        number += 1;
    }
    let kept = i32::try_from(kept).ok()?;
    let back = scaled(number, i64::from(point - kept));
    (back == real).then_some(kept + 1)
}

/// A real as text, by the rules of SQLite 3.52 and later: up to 17 significant digits, `.0` kept.
pub fn real_to_text(real: f64) -> String {
    let mut text = Vec::with_capacity(24);
    push_real(real, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Appends the text of [`real_to_text`].
pub(crate) fn push_real(real: f64, out: &mut Vec<u8>) {
    if !push_short(real, out) {
        let decimal = decode(real, Keep::Significant(17), 20);
        lay_out(decimal.negative, decimal.digits.as_bytes(), decimal.point, 17, out);
    }
}

/// A real as text, by the rules of SQLite up to 3.42 on x86-64: up to 15 significant digits, `.0`
/// kept.
///
/// For output equal to such a `sqlite3` command's, to the byte.
pub fn real_to_text_15(real: f64) -> String {
    let mut text = Vec::with_capacity(24);
    if !push_short(real, &mut text) {
        let (mut digits, power) = fifteen_digits(real.abs());
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
        }
        lay_out(real < 0.0, &digits, power + 1, 15, &mut text);
    }
    String::from_utf8(text).unwrap_or_default()
}

/// Appends the text of reals without a need to compute digits: infinities, and integers of up to 15
/// digits, exact in every version. False, with nothing done, for others.
fn push_short(real: f64, out: &mut Vec<u8>) -> bool {
    if real.is_infinite() {
        out.extend_from_slice(if real < 0.0 { b"-Inf" } else { b"Inf" });
        return true;
    }
    let exact = real == real.trunc() && real.abs() < 1e15;
    if exact {
        // The sign of minus zero is gone then.
        push_int(real as i64, out);
        out.extend_from_slice(b".0");
    }
    exact
}

/// Appends significant digits in the layout of `printf("%!.*g")`; `point` of them stand before the
/// point.
fn lay_out(negative: bool, digits: &[u8], point: i32, significant: i32, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let exponent = point - 1;
    if exponent < -4 || exponent >= significant {
        out.extend_from_slice(&[digits[0], b'.']);
        out.extend_from_slice(if digits.len() == 1 { b"0" } else { &digits[1..] });
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(Digits::of(exponent.unsigned_abs().into()).as_bytes());
        return;
    }
    let whole = usize::try_from(point).unwrap_or(0);
    if whole == 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', usize::try_from(-point).unwrap_or(0)));
        out.extend_from_slice(digits);
        return;
    }
    out.extend_from_slice(&digits[..whole.min(digits.len())]);
    out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(digits.len())));
    out.push(b'.');
    match digits.get(whole..).filter(|rest| !rest.is_empty()) {
        Some(rest) => out.extend_from_slice(rest),
        None => out.push(b'0'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let cases = [
            (0.0, "0.0", "0.0"),
            (-0.0, "0.0", "0.0"),
            (1.0, "1.0", "1.0"),
            (-1.5, "-1.5", "-1.5"),
            (0.1 + 0.2, "0.30000000000000004", "0.3"),
            (1e15, "1000000000000000.0", "1.0e+15"),
            (1e17, "1.0e+17", "1.0e+17"),
            (1e-5, "1.0e-05", "1.0e-05"),
            (0.0001, "0.0001", "0.0001"),
            (1.0 / 3.0, "0.33333333333333332", "0.333333333333333"),
            (49.47, "49.47", "49.47"),
            (f64::INFINITY, "Inf", "Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf"),
        ];
        for (real, new, old) in cases {
            assert_eq!(real_to_text(real), new);
            assert_eq!(real_to_text_15(real), old);
        }
    }
}
