//! Floats of 16 bits (IEEE 754 binary16) from and to floats of 32.

/// The float of the same value.
pub(crate) fn half_to_float(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10 & 0x1F);
    let fraction = u32::from(half & 0x3FF);
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // Below the normal numbers: the first set bit becomes the implied one.
            let shift = fraction.leading_zeros() - 21;
            (113 - shift) << 23 | (fraction << shift & 0x3FF) << 13
        }
        // As the processor does, a NaN becomes a quiet one.
        (31, 1..) => 0x7FC0_0000 | fraction << 13,
        (31, _) => 0x7F80_0000,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest half float, the even one of two; infinity from 65,520 on.
pub(crate) fn float_to_half(float: f32) -> u16 {
    let bits = float.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00 | (magnitude >> 13 & 0x1FF) as u16;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7C00;
    }
    let (value, dropped) = if magnitude >= 0x3880_0000 {
        (magnitude - (112 << 23), 13)
    } else {
        let shift = 126 - (magnitude >> 23);
        if shift > 24 {
            return sign;
        }
        (magnitude & 0x7F_FFFF | 0x80_0000, shift)
    };
    let kept = value >> dropped;
    let rest = value & ((1 << dropped) - 1);
    let middle = 1 << (dropped - 1);
    let up = rest > middle || rest == middle && kept & 1 == 1;
    sign | (kept + u32::from(up)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_comes_back() {
        for half in 0..=u16::MAX {
            let float = half_to_float(half);
            match float.is_nan() {
                true => assert_eq!(float_to_half(float) & 0x7C00, 0x7C00),
                false => assert_eq!(float_to_half(float), half, "{float}"),
            }
        }
        for (float, half) in [(65519.0, 0x7BFF), (65520.0, 0x7C00), (1e-9, 0), (-2.0, 0xC000)] {
            assert_eq!(float_to_half(float), half);
        }
        // Halfway between two neighbours the even one is taken.
        assert_eq!(float_to_half(1.0 + 1.0 / 2048.0), 0x3C00);
        assert_eq!(float_to_half(1.0 + 3.0 / 2048.0), 0x3C02);
    }
}
