//! CBOR (RFC 8949) as far as the protocol's messages need it: a borrowing reader, a writer.
//!
//! The reader allocates only for strings in pieces, never for declared lengths or counts, and skips
//! values without recursion beyond [`MAX_DEPTH`].

use std::borrow::Cow;

use crate::Fault;

/// Values may be nested so deeply.
const MAX_DEPTH: usize = 16;

const UINT: u8 = 0;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;
/// The argument of an indefinite length, and of the stop code.
const INDEFINITE: u8 = 31;

/// A place in the bytes of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The start of a value.
#[derive(Clone, Copy, Debug)]
struct Head {
    major: u8,
    info: u8,
    argument: u64,
}

/// The members of a map or the elements of an array, still to come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Items {
    Left(u64),
    UntilStop,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// A fault at the present place.
    fn fault(&self, why: &'static str) -> Fault {
        Fault::Cbor { at: self.at, why }
    }

    /// True when nothing follows.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let taken = taken.ok_or_else(|| self.fault("a length beyond the end of the frame"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head, Fault> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 31);
        let argument = match info {
            0..=23 => u64::from(info),
            24..=27 => {
                let mut value = 0_u64;
                for &byte in self.take(1 << (info - 24))? {
                    value = value << 8 | u64::from(byte);
                }
                value
            }
            INDEFINITE if matches!(major, BYTES..=MAP | SIMPLE) => 0,
            _ => return Err(self.fault("a reserved length")),
        };
        Ok(Head { major, info, argument })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The count of a map or an array, checked against the bytes left.
    fn items(&mut self, head: Head, bytes_each: u64) -> Result<Items, Fault> {
        if head.info == INDEFINITE {
            return Ok(Items::UntilStop);
        }
        let left = (self.bytes.len() - self.at) as u64;
        if head.argument.saturating_mul(bytes_each) > left {
            return Err(self.fault("a count beyond the end of the frame"));
        }
        Ok(Items::Left(head.argument))
    }

    /// True when another item follows; consumes the stop code behind the last one.
    pub(crate) fn has_next(&mut self, items: &mut Items) -> bool {
        match items {
            Items::Left(0) => false,
            Items::Left(left) => {
                *left -= 1;
                true
            }
            Items::UntilStop if self.peek() == Some(SIMPLE << 5 | INDEFINITE) => {
                self.at += 1;
                false
            }
            Items::UntilStop => true,
        }
    }

    /// Reads the start of a map.
    pub(crate) fn map(&mut self) -> Result<Items, Fault> {
        let head = self.untagged()?;
        if head.major != MAP {
            return Err(self.fault("not a map"));
        }
        self.items(head, 2)
    }

    /// Reads the start of an array; `None` for `undefined` and `null`.
    pub(crate) fn array(&mut self) -> Result<Option<Items>, Fault> {
        if self.nothing() {
            return Ok(None);
        }
        let head = self.untagged()?;
        if head.major != ARRAY {
            return Err(self.fault("not an array"));
        }
        self.items(head, 1).map(Some)
    }

    fn untagged(&mut self) -> Result<Head, Fault> {
        let mut head = self.head()?;
        while head.major == TAG {
            head = self.head()?;
        }
        Ok(head)
    }

    /// Consumes `null` or `undefined`, if one of them follows.
    pub(crate) fn nothing(&mut self) -> bool {
        let is_nothing = matches!(self.peek(), Some(0xf6 | 0xf7));
        self.at += usize::from(is_nothing);
        is_nothing
    }

    /// Reads a text.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>, Fault> {
        match self.string(TEXT)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        }
        .ok_or_else(|| self.fault("a text that is not UTF-8"))
    }

    /// Reads a byte string.
    pub(crate) fn bytes(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        self.string(BYTES)
    }

    /// True when a byte string follows.
    pub(crate) fn is_bytes(&self) -> bool {
        self.peek().is_some_and(|first| first >> 5 == BYTES)
    }

    fn string(&mut self, major: u8) -> Result<Cow<'a, [u8]>, Fault> {
        let head = self.untagged()?;
        if head.major != major {
            return Err(self.fault(if major == TEXT { "not a text" } else { "not a byte string" }));
        }
        if head.info != INDEFINITE {
            return self.take(head.argument).map(Cow::Borrowed);
        }
        let mut joined = Vec::new();
        let mut pieces = Items::UntilStop;
        while self.has_next(&mut pieces) {
            let piece = self.head()?;
            if piece.major != major || piece.info == INDEFINITE {
                return Err(self.fault("a piece of another kind"));
            }
            joined.extend_from_slice(self.take(piece.argument)?);
        }
        Ok(Cow::Owned(joined))
    }

    /// Reads a whole number, also one written as a float.
    pub(crate) fn number(&mut self) -> Result<u64, Fault> {
        let head = self.untagged()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the info says how many bytes there are"
        )]
        let float = match (head.major, head.info) {
            (UINT, _) => return Ok(head.argument),
            (SIMPLE, 25) => half(head.argument as u16),
            (SIMPLE, 26) => f64::from(f32::from_bits(head.argument as u32)),
            (SIMPLE, 27) => f64::from_bits(head.argument),
            _ => return Err(self.fault("not a whole number")),
        };
        // 2^63: every float below it that is whole is an exact u64.
        if float.fract() != 0.0 || !(0.0..9_223_372_036_854_775_808.0).contains(&float) {
            return Err(self.fault("not a whole number"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Ok(float as u64)
    }

    /// Reads `true` or `false`; everything else counts as false.
    pub(crate) fn truth(&mut self) -> Result<bool, Fault> {
        let is_true = self.peek() == Some(0xf5);
        self.skip()?;
        Ok(is_true)
    }

    /// Skips one value.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        let mut open: Vec<Items> = Vec::new();
        loop {
            let head = self.head()?;
            match head.major {
                BYTES | TEXT if head.info == INDEFINITE => open.push(Items::UntilStop),
                BYTES | TEXT => {
                    self.take(head.argument)?;
                }
                ARRAY => open.push(self.items(head, 1)?),
                MAP => {
                    let items = self.items(head, 2)?;
                    open.push(match items {
                        Items::Left(members) => Items::Left(members.saturating_mul(2)),
                        Items::UntilStop => Items::UntilStop,
                    });
                }
                // The tagged value follows, and is one item more of what is open.
                TAG => continue,
                SIMPLE if head.info == INDEFINITE => return Err(self.fault("a stop out of place")),
                _ => {}
            }
            if open.len() > MAX_DEPTH {
                return Err(self.fault("values nested too deeply"));
            }
            loop {
                let Some(items) = open.last_mut() else { return Ok(()) };
                if self.has_next(items) {
                    break;
                }
                open.pop();
            }
        }
    }
}

/// A 16-bit float.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 => f64::INFINITY,
        _ => (1024.0 + mantissa) * 2_f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 == 0 { value } else { -value }
}

/// Writes values, lengths in their shortest form.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    fn head(&mut self, major: u8, argument: u64) {
        let be = argument.to_be_bytes();
        let (info, from) = match argument {
            0..=23 => (be[7], 8),
            24..=0xff => (24, 7),
            0x100..=0xffff => (25, 6),
            0x1_0000..=0xffff_ffff => (26, 4),
            _ => (27, 0),
        };
        self.bytes.push(major << 5 | info);
        self.bytes.extend_from_slice(&be[from..]);
    }

    pub(crate) fn map(&mut self, members: u64) {
        self.head(MAP, members);
    }

    pub(crate) fn array(&mut self, items: u64) {
        self.head(ARRAY, items);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.head(TEXT, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn byte_string(&mut self, bytes: &[u8]) {
        self.head(BYTES, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.head(UINT, number);
    }

    pub(crate) fn truth(&mut self, value: bool) {
        self.bytes.push(if value { 0xf5 } else { 0xf4 });
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_every_form() {
        for (bytes, number) in [
            (&[0x17][..], 23),
            (&[0x18, 24], 24),
            (&[0x1a, 0, 1, 0, 0], 65536),
            (&[0xf9, 0x3c, 0], 1),
            (&[0xfa, 0x40, 0x40, 0, 0], 3),
            (&[0xfb, 0x42, 0x70, 0, 0, 0, 0, 0, 0], 1 << 40),
        ] {
            assert_eq!(Reader::new(bytes).number().unwrap(), number);
        }
        for bytes in [&[0x20][..], &[0xf9, 0x3e, 0], &[0xf9, 0x7c, 0], &[0xf6], &[0x61, 65]] {
            assert!(Reader::new(bytes).number().is_err());
        }
    }

    #[test]
    fn lengths_are_compared_with_the_frame() {
        // An array of 2^40 elements, a text of 2^63 bytes, a map of 2^64 - 1 members.
        let array = [0x9b, 0, 0, 1, 0, 0, 0, 0, 0];
        let text = [0x7b, 0x80, 0, 0, 0, 0, 0, 0, 0];
        let map = [0xbb, 255, 255, 255, 255, 255, 255, 255, 255];
        for bytes in [array, text, map] {
            assert!(Reader::new(&bytes).skip().is_err());
        }
        let deep = [0x81; 1000];
        let error = Reader::new(&deep).skip().unwrap_err();
        assert_eq!(error.to_string(), "CBOR, byte 17: values nested too deeply");
    }

    #[test]
    fn pieces_are_joined() {
        let bytes = [0x7f, 0x62, b'a', b'b', 0x61, b'c', 0xff];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.text().unwrap(), "abc");
        assert!(reader.is_at_end());
        let mut reader = Reader::new(&bytes);
        reader.skip().unwrap();
        assert!(reader.is_at_end());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            while !reader.is_at_end() && reader.skip().is_ok() {}
        }

        #[test]
        fn written_numbers_are_read(number in any::<u64>()) {
            let mut writer = Writer::default();
            writer.number(number);
            prop_assert_eq!(Reader::new(&writer.into_bytes()).number().unwrap(), number);
        }
    }
}
