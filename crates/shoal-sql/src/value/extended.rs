//! Reals as decimal digits in the way of SQLite up to 3.42: the 80-bit arithmetic of `long double`
//! on x86-64.
//!
//! Such arithmetic rounds after every step, and the steps show: a tie at the sixteenth digit goes
//! down where the true value would go up, and far from 1 the last digit can be one off. Matching
//! the output of such a `sqlite3` to the byte takes the same steps, here on 64-bit mantissas.

use std::cmp::Ordering;

/// A positive number `mantissa * 2^exponent`, the mantissa's highest bit set.
#[derive(Clone, Copy, Debug)]
struct Extended {
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// The number itself; `real` is positive and finite.
    fn new(real: f64) -> Extended {
        let bits = real.to_bits();
        let fraction = bits & 0x000f_ffff_ffff_ffff;
        let biased = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let zeros = mantissa.leading_zeros();
        Extended {
            mantissa: mantissa << zeros,
            exponent: exponent - i32::try_from(zeros).unwrap_or(0),
        }
    }

    /// `bits * 2^exponent` rounded to 64 bits, half to even; `sticky` tells of bits below.
    fn round(bits: u128, exponent: i32, sticky: bool) -> Extended {
        let excess = 64 - i32::try_from(bits.leading_zeros()).unwrap_or(0);
        if excess <= 0 {
            let shift = u32::try_from(-excess).unwrap_or(0);
            let mantissa = u64::try_from(bits << shift).unwrap_or(0);
            return Extended { mantissa, exponent: exponent + excess };
        }
        let shift = u32::try_from(excess).unwrap_or(0);
        let kept = bits >> shift;
        let rest = bits & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        match u64::try_from(kept + u128::from(up)) {
            Ok(mantissa) => Extended { mantissa, exponent: exponent + excess },
            Err(_) => Extended { mantissa: 1 << 63, exponent: exponent + excess + 1 },
        }
    }

    fn times(self, other: Extended) -> Extended {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Extended::round(product, self.exponent + other.exponent, false)
    }

    fn over(self, other: Extended) -> Extended {
        // Two bits more than are kept: the remainder only breaks ties.
        let dividend = u128::from(self.mantissa) << 64;
        let divisor = u128::from(other.mantissa);
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        let (more, rest) = ((rest << 2) / divisor, (rest << 2) % divisor);
        let exponent = self.exponent - other.exponent - 66;
        Extended::round(quotient << 2 | more, exponent, rest != 0)
    }

    /// The sum; `other` is the smaller.
    fn plus(self, other: Extended) -> Extended {
        let shift = u32::try_from(self.exponent - other.exponent).unwrap_or(0);
        let large = u128::from(self.mantissa) << 62;
        let small = u128::from(other.mantissa) << 62;
        let (aligned, lost) = match small.checked_shr(shift) {
            Some(aligned) => (aligned, aligned << shift != small),
            None => (0, true),
        };
        Extended::round(large + aligned, self.exponent - 62, lost)
    }

    fn compare(self, other: Extended) -> Ordering {
        self.exponent.cmp(&other.exponent).then(self.mantissa.cmp(&other.mantissa))
    }

    /// The integer part and the rest, `None` for nothing; for numbers from 1 to below 16.
    fn split(self) -> (u8, Option<Extended>) {
        let Some(below) = u32::try_from(-self.exponent).ok().filter(|below| *below <= 63) else {
            return (0, Some(self));
        };
        let whole = self.mantissa >> below;
        let rest = self.mantissa & ((1u64 << below) - 1);
        let rest = (rest != 0).then(|| Extended::round(rest.into(), self.exponent, false));
        (u8::try_from(whole).unwrap_or(0), rest)
    }
}

/// The first 15 digits of a positive, finite real, and the power of ten of the first.
pub(super) fn fifteen_digits(real: f64) -> (Vec<u8>, i32) {
    let [ten, ten_8, ten_10, ten_100] = [10.0, 1e8, 1e10, 1e100].map(Extended::new);
    let mut value = Extended::new(real);
    let mut scale = Extended::new(1.0);
    let mut power = 0;
    for (step, factor) in [(100, ten_100), (10, ten_10), (1, ten)] {
        while value.compare(factor.times(scale)).is_ge() {
            scale = scale.times(factor);
            power += step;
        }
    }
    value = value.over(scale);
    while value.compare(Extended::new(1e-8)).is_lt() {
        value = value.times(ten_8);
        power -= 8;
    }
    while value.compare(Extended::new(1.0)).is_lt() {
        value = value.times(ten);
        power -= 1;
    }
    value = value.plus(Extended::new(5.0e-05 * 1.0e-10));
    if value.compare(ten).is_ge() {
        value = value.times(Extended::new(0.1));
        power += 1;
    }
    let mut digits = Vec::with_capacity(15);
    let mut rest = Some(value);
    for _ in 0..15 {
        let (digit, after) = rest.map_or((0, None), Extended::split);
        digits.push(b'0' + digit);
        rest = after.map(|after| after.times(ten));
    }
    (digits, power)
}

#[cfg(test)]
mod tests {
    use super::super::real_to_text_15;

    /// Digits printed by the `sqlite3` command of 3.40.1.
    #[test]
    fn ties_and_far_numbers() {
        let cases = [
            (2311966388730955.0, "2.31196638873095e+15"),
            (595309852132591.5, "595309852132591.0"),
            (2.801842439007415e290, "2.80184243900741e+290"),
            (-6.336688859968395e212, "-6.33668885996839e+212"),
            (46224420088080.25, "46224420088080.2"),
            (5e-324, "4.94065645841247e-324"),
            (f64::MAX, "1.79769313486232e+308"),
            (999999999999999.5, "1.0e+15"),
            (0.1, "0.1"),
        ];
        for (real, expect) in cases {
            assert_eq!(real_to_text_15(real), expect);
        }
    }
}
