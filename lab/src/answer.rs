//! A row's answer, reduced to a number all contenders must agree on.

use serde::{Deserialize, Serialize};

use crate::engine::table::Cell;

/// A row's answer. Equal answers are needed before a time counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The digest all contenders must agree on.
    pub digest: Digest,
    /// The digest contenders of one format must agree on too: heads, change hashes.
    pub native: Option<(String, Digest)>,
}

impl Answer {
    /// An answer held by the digest alone.
    pub fn of(digest: Digest) -> Self {
        Self { digest, native: None }
    }

    /// Adds the bytes contenders of the same format must agree on as well.
    #[must_use]
    pub fn with_native(mut self, format: Option<&str>, bytes: Option<Vec<u8>>) -> Self {
        if let (Some(format), Some(bytes)) = (format, bytes) {
            self.native = Some((format.to_owned(), Digest::new().bytes(&bytes)));
        }
        self
    }
}

/// FNV-1a over all parts of an answer: order matters, and lengths are hashed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Digest {
    /// The digest of nothing.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes, and how many.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.int(bytes.len() as u64)
    }

    /// Adds a number.
    #[must_use]
    pub fn int(mut self, value: u64) -> Self {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a value of a table with its kind. Floats are taken to 12 significant digits: sums may
    /// differ in the order they were added.
    #[must_use]
    pub fn cell(self, cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => self.int(0),
            Cell::Int(value) => self.int(1).int(value.cast_unsigned()),
            Cell::Real(value) => self.int(2).text(&format!("{value:.11e}")),
            Cell::Text(bytes) => self.int(3).bytes(bytes),
            Cell::Blob(bytes) => self.int(4).bytes(bytes),
        }
    }

    /// The number itself, for sums over rows whose order is free.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Uses a value within a timed region, so that decoding cannot be left out: cheap and the same for
/// every contender. The full contents are compared untimed, through [`Digest`].
#[inline]
pub(crate) fn touch(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Null => 1,
        Cell::Int(value) => value.cast_unsigned(),
        Cell::Real(value) => value.to_bits(),
        Cell::Text(bytes) | Cell::Blob(bytes) => {
            bytes.len() as u64 + u64::from(bytes.first().copied().unwrap_or(0))
        }
    }
}
