//! The name of a change: the SHA-256 of its uncompressed chunk (facts of the format: the change
//! hash covers the type byte, the length and the body).

use std::fmt;

use shoal_stdx::hex;

/// The hash of a change, by which other changes and heads name it. Ordered by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeHash(pub [u8; 32]);

impl ChangeHash {
    /// The hash that `text` spells in 64 hexadecimal digits, or `None`.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text).ok()?.try_into().ok().map(Self)
    }

    /// How many zero bytes it begins with: the level of the [`Fragment`](crate::Fragment) of which
    /// the change is the head.
    pub fn fragment_level(&self) -> usize {
        self.0.iter().take_while(|&&byte| byte == 0).count()
    }
}

impl fmt::Debug for ChangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangeHash({self})")
    }
}

impl fmt::Display for ChangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}
