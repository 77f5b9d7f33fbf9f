//! SQLite's variable-length integers: one to nine bytes, big-endian, seven bits a byte.

/// The value and its length at the front of `bytes`, or nothing where the bytes end too early.
#[inline]
pub(crate) fn get(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let second = *bytes.get(1)?;
    if second < 0x80 {
        return Some((u64::from(first & 0x7f) << 7 | u64::from(second), 2));
    }
    get_long(bytes)
}

fn get_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    let last = *bytes.get(8)?;
    Some((value << 8 | u64::from(last), 9))
}

/// Appends `value`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        put_long(out, value);
    }
}

fn put_long(out: &mut Vec<u8>, value: u64) {
    if value >> 56 != 0 {
        for at in (0..8).rev() {
            out.push((value >> (8 + 7 * at)) as u8 | 0x80);
        }
        out.push(value as u8);
        return;
    }
    let groups = (64 - value.leading_zeros()).div_ceil(7);
    for at in (0..groups).rev() {
        let more = if at == 0 { 0 } else { 0x80 };
        out.push((value >> (7 * at)) as u8 & 0x7f | more);
    }
}

/// Bytes that [`put`] appends for `value`.
pub(crate) fn len(value: u64) -> usize {
    if value >> 56 != 0 { 9 } else { ((64 - value.leading_zeros()).div_ceil(7) as usize).max(1) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{get, len, put};

    /// Values about each power of two, and the largest.
    pub(crate) fn edges() -> impl Iterator<Item = u64> {
        let edges = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, (1 << bit) + 1]);
        edges.chain([u64::MAX, 0])
    }

    #[test]
    fn values_come_back() {
        for value in edges() {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!((bytes.len(), get(&bytes)), (len(value), Some((value, bytes.len()))));
            assert_eq!(get(&bytes[..bytes.len() - 1]), None);
        }
    }
}
