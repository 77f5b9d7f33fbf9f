//! LEB128 integers of up to 64 bits, unsigned and signed, and the reader of a byte string under all
//! other decoders.
//!
//! Headers and scalar values must use the shortest form (`*_minimal`); inside run-length encoded
//! columns longer ones are tolerated, as the reference does.

use crate::{ChangeHash, Fault};

/// The most bytes of 64 bits.
const MAX_BYTES: usize = 10;

/// Reads structures off the front of a byte string.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The unread bytes.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        let (&byte, rest) = self.rest.split_first().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    /// An unsigned integer in any form of at most ten bytes.
    #[inline]
    pub(crate) fn uleb(&mut self) -> Result<u64, Fault> {
        // Nearly all numbers of real columns are below 128.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.uleb_long()
    }

    /// A signed integer in any form of at most ten bytes.
    #[inline]
    pub(crate) fn sleb(&mut self) -> Result<i64, Fault> {
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(sign_extend(u64::from(byte), 7));
        }
        self.sleb_long()
    }

    /// An unsigned integer in its shortest form.
    #[inline]
    pub(crate) fn uleb_minimal(&mut self) -> Result<u64, Fault> {
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.uleb_long_minimal()
    }

    fn uleb_long_minimal(&mut self) -> Result<u64, Fault> {
        let before = self.rest;
        let value = self.uleb()?;
        if before.len() - self.rest.len() == uleb_len(value) {
            Ok(value)
        } else {
            Err(Fault::Overlong)
        }
    }

    /// A signed integer in its shortest form.
    pub(crate) fn sleb_minimal(&mut self) -> Result<i64, Fault> {
        let before = self.rest;
        let value = self.sleb()?;
        if before.len() - self.rest.len() == sleb_len(value) {
            Ok(value)
        } else {
            Err(Fault::Overlong)
        }
    }

    /// An unsigned integer in its shortest form, of 32 bits.
    #[inline]
    pub(crate) fn u32_minimal(&mut self) -> Result<u32, Fault> {
        let value = self.uleb_minimal()?;
        u32::try_from(value).map_err(|_| Fault::Beyond32Bits(value))
    }

    /// An unsigned integer in its shortest form, and as many bytes.
    pub(crate) fn length_prefixed(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.uleb_minimal()?;
        self.bytes(usize::try_from(len).map_err(|_| Fault::Truncated)?)
    }

    /// A count of things of at least `least_bytes` each. A count beyond the rest of the bytes is an
    /// error, so the count may be used to allocate.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, Fault> {
        let count = usize::try_from(self.uleb_minimal()?).map_err(|_| Fault::Truncated)?;
        if count <= self.rest.len() / least_bytes { Ok(count) } else { Err(Fault::Truncated) }
    }

    pub(crate) fn hash(&mut self) -> Result<ChangeHash, Fault> {
        let (hash, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(ChangeHash(*hash))
    }

    #[inline(never)]
    fn uleb_long(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for place in 0..MAX_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == MAX_BYTES - 1 && byte > 1 {
                return Err(Fault::Overflow);
            }
            value |= bits << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Overflow)
    }

    #[inline(never)]
    fn sleb_long(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        for place in 0..MAX_BYTES {
            let byte = self.byte()?;
            if place == MAX_BYTES - 1 && byte != 0 && byte != 0x7f {
                return Err(Fault::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(sign_extend(value, 7 * (place + 1)));
            }
        }
        Err(Fault::Overflow)
    }
}

/// Appends `value` in its shortest form.
#[inline]
pub(crate) fn write_uleb(value: u64, out: &mut Vec<u8>) {
    match value {
        ..0x80 => out.push(low_byte(value)),
        0x80..0x4000 => out.extend_from_slice(&[low_byte(value) | 0x80, low_byte(value >> 7)]),
        _ => write_long_uleb(value, out),
    }
}

#[inline(never)]
fn write_long_uleb(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

/// Appends `value` in its shortest form.
#[inline]
pub(crate) fn write_sleb(value: i64, out: &mut Vec<u8>) {
    let bits = value.cast_unsigned();
    match value {
        -0x40..0x40 => out.push(low_byte(bits) & 0x7f),
        -0x2000..0x2000 => {
            out.extend_from_slice(&[low_byte(bits) | 0x80, low_byte(bits >> 7) & 0x7f]);
        }
        _ => write_long_sleb(value, out),
    }
}

#[inline(never)]
fn write_long_sleb(mut value: i64, out: &mut Vec<u8>) {
    while !(-64..64).contains(&value) {
        out.push(low_byte(value.cast_unsigned()) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value.cast_unsigned()) & 0x7f);
}

/// Appends the length of `bytes`, then `bytes`.
pub(crate) fn write_length_prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    write_uleb(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// How many bytes the shortest form of `value` takes.
#[inline]
pub(crate) fn uleb_len(value: u64) -> usize {
    let bits = (64 - (value | 1).leading_zeros()) as usize;
    bits.div_ceil(7)
}

/// How many bytes the shortest form of `value` takes.
#[inline]
pub(crate) fn sleb_len(value: i64) -> usize {
    // One bit for the sign, whose copies in the leading bits go without saying.
    let magnitude = if value < 0 { !value } else { value };
    let bits = (65 - magnitude.leading_zeros()) as usize;
    bits.div_ceil(7)
}

fn low_byte(value: u64) -> u8 {
    (value & 0xff) as u8
}

#[inline]
fn sign_extend(value: u64, bits: usize) -> i64 {
    let unused = 64_usize.saturating_sub(bits);
    (value << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uleb(bytes: &[u8]) -> Result<u64, Fault> {
        Reader::new(bytes).uleb()
    }

    fn sleb(bytes: &[u8]) -> Result<i64, Fault> {
        Reader::new(bytes).sleb()
    }

    #[test]
    fn known_values() {
        let mut out = Vec::new();
        write_uleb(624_485, &mut out);
        assert_eq!(out, [0xe5, 0x8e, 0x26]);
        out.clear();
        write_sleb(-123_456, &mut out);
        assert_eq!(out, [0xc0, 0xbb, 0x78]);
        for value in [-65, -64, -1, 0, 1, 63, 64] {
            out.clear();
            write_sleb(value, &mut out);
            assert_eq!(out.len(), if (-64..64).contains(&value) { 1 } else { 2 }, "{value}");
            assert_eq!(sleb(&out), Ok(value));
        }
    }

    #[test]
    fn long_forms_are_read_but_not_as_minimal() {
        assert_eq!(uleb(&[0x81, 0x80, 0x00]), Ok(1));
        assert_eq!(Reader::new(&[0x81, 0x80, 0x00]).uleb_minimal(), Err(Fault::Overlong));
        assert_eq!(sleb(&[0xff, 0xff, 0x7f]), Ok(-1));
        assert_eq!(Reader::new(&[0xff, 0xff, 0x7f]).sleb_minimal(), Err(Fault::Overlong));
        assert_eq!(Reader::new(&[0xbf, 0x7f]).sleb_minimal(), Ok(-65));
        assert_eq!(Reader::new(&[0xc0, 0x00]).sleb_minimal(), Ok(64));
    }

    #[test]
    fn refusals() {
        assert_eq!(uleb(&[]), Err(Fault::Truncated));
        assert_eq!(uleb(&[0x80]), Err(Fault::Truncated));
        assert_eq!(sleb(&[0x80]), Err(Fault::Truncated));
        let mut eleven = vec![0x80; 10];
        eleven.push(0);
        assert_eq!(uleb(&eleven), Err(Fault::Overflow));
        assert_eq!(sleb(&eleven), Err(Fault::Overflow));
        let mut too_big = vec![0xff; 9];
        too_big.push(2);
        assert_eq!(uleb(&too_big), Err(Fault::Overflow));
        assert_eq!(sleb(&too_big), Err(Fault::Overflow));
        assert_eq!(
            Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x10]).u32_minimal(),
            Err(Fault::Beyond32Bits(1 << 32))
        );
        assert_eq!(Reader::new(&[3, 1, 2]).length_prefixed(), Err(Fault::Truncated));
        assert_eq!(Reader::new(&[2, 0, 0, 0]).count(2), Err(Fault::Truncated));
        assert_eq!(Reader::new(&[2, 0, 0, 0, 0]).count(2), Ok(2));
        assert_eq!(Reader::new(&[0; 31]).hash(), Err(Fault::Truncated));
    }

    proptest! {
        #[test]
        fn both_ways(unsigned: u64, signed: i64, shift in 0_u32..64) {
            let mut out = Vec::new();
            write_uleb(unsigned >> shift, &mut out);
            prop_assert_eq!(out.len(), uleb_len(unsigned >> shift));
            write_sleb(signed >> shift, &mut out);
            prop_assert_eq!(out.len(), uleb_len(unsigned >> shift) + sleb_len(signed >> shift));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.uleb_minimal(), Ok(unsigned >> shift));
            prop_assert_eq!(reader.sleb_minimal(), Ok(signed >> shift));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = uleb(&bytes);
            let _ = sleb(&bytes);
            let _ = Reader::new(&bytes).uleb_minimal();
            let _ = Reader::new(&bytes).sleb_minimal();
            let _ = Reader::new(&bytes).length_prefixed();
        }
    }
}
