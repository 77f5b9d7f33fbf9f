//! Variable-length integers (file format §1.6, "varint"): 1 to 9 bytes, big-endian, seven bits a
//! byte with the high bit saying "more follows"; a ninth byte carries eight bits.

/// Bytes of the longest varint.
pub const MAX_LEN: usize = 9;

/// Reads the varint at the start of `bytes`: its value and its length in bytes. Longer forms than
/// needed are accepted, as SQLite accepts them. `None` when `bytes` ends inside it.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let &first = bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let &second = bytes.get(1)?;
    if second < 0x80 {
        return Some((u64::from(first & 0x7f) << 7 | u64::from(second), 2));
    }
    let &third = bytes.get(2)?;
    if third < 0x80 {
        let high = u64::from(first & 0x7f) << 14 | u64::from(second & 0x7f) << 7;
        return Some((high | u64::from(third), 3));
    }
    let &fourth = bytes.get(3)?;
    if fourth < 0x80 {
        let high = u64::from(first & 0x7f) << 21 | u64::from(second & 0x7f) << 14;
        return Some((high | u64::from(third & 0x7f) << 7 | u64::from(fourth), 4));
    }
    read_long(bytes)
}

fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(MAX_LEN - 1).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    let &last = bytes.get(MAX_LEN - 1)?;
    Some((value << 8 | u64::from(last), MAX_LEN))
}

/// Returns the number of bytes [`write()`] uses for `value`.
#[inline]
pub const fn len(value: u64) -> usize {
    let bits = 64 - value.leading_zeros() as usize;
    if bits > 56 {
        9
    } else if bits == 0 {
        1
    } else {
        bits.div_ceil(7)
    }
}

/// Writes `value` in its shortest form to the start of `out` and returns its length in bytes.
///
/// # Panics
/// When `out` is shorter than [`len`] of `value`.
#[inline]
pub fn write(value: u64, out: &mut [u8]) -> usize {
    let length = len(value);
    if length == MAX_LEN {
        let mut rest = value >> 8;
        for index in (0..MAX_LEN - 1).rev() {
            out[index] = (rest & 0x7f) as u8 | 0x80;
            rest >>= 7;
        }
        out[MAX_LEN - 1] = (value & 0xff) as u8;
        return MAX_LEN;
    }
    let mut rest = value;
    for index in (0..length).rev() {
        let more = if index + 1 == length { 0 } else { 0x80 };
        out[index] = (rest & 0x7f) as u8 | more;
        rest >>= 7;
    }
    length
}

/// Appends `value` in its shortest form to `out`.
#[inline]
pub fn push(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_LEN];
    let length = write(value, &mut bytes);
    out.extend_from_slice(&bytes[..length]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boundaries() {
        let check = |value: u64, expect: &[u8]| {
            let mut out = Vec::new();
            push(value, &mut out);
            assert_eq!(out, expect);
            assert_eq!(read(&out), Some((value, expect.len())));
        };
        check(0, &[0]);
        check(127, &[0x7f]);
        check(128, &[0x81, 0]);
        check(16383, &[0xff, 0x7f]);
        check(16384, &[0x81, 0x80, 0]);
        check((1 << 56) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        check(1 << 56, &[0x80, 0xc0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
        check(u64::MAX, &[0xff; 9]);
    }

    #[test]
    fn longer_forms_and_cut_ones() {
        assert_eq!(read(&[0x80, 0x01]), Some((1, 2)));
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x05]), Some((5, 9)));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0x80]), None);
        assert_eq!(read(&[0xff; 8]), None);
    }

    proptest! {
        #[test]
        fn reads_what_it_wrote(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            push(value, &mut out);
            prop_assert_eq!(out.len(), len(value));
            prop_assert_eq!(read(&out), Some((value, out.len())));
        }
    }
}
