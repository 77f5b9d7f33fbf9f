//! FTS3's variable-length integers: one to ten bytes, little-endian, seven bits a byte.

/// The value and its length at the front of `bytes`, or nothing where the bytes end too early.
#[inline]
pub(super) fn get(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Takes a value off the front of `bytes`.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (value, length) = get(bytes)?;
    *bytes = &bytes[length..];
    Some(value)
}

/// Takes a length off the front of `bytes`, and as many bytes behind the length.
#[inline]
pub(super) fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Appends `value`.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{get, put};
    use crate::varint::tests::edges;

    #[test]
    fn values_come_back() {
        for value in edges() {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(get(&bytes), Some((value, bytes.len())));
            assert_eq!(get(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(get(&[0x80; 11]), None);
    }
}
