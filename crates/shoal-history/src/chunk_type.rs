//! The types of chunks: named by errors and limits, read and written by `chunk`.

use std::fmt;

/// The type of a chunk; the discriminants are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkType {
    /// A whole document.
    Document = 0,
    /// One change.
    Change = 1,
    /// One change, deflated.
    CompressedChange = 2,
    /// Several changes in columns; experimental in the reference.
    Bundle = 3,
}

impl ChunkType {
    /// True for chunks of one change.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Self::Change | Self::CompressedChange)
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Document,
            1 => Self::Change,
            2 => Self::CompressedChange,
            3 => Self::Bundle,
            _ => return None,
        })
    }
}

impl fmt::Display for ChunkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Document => "document",
            Self::Change => "change",
            Self::CompressedChange => "compressed change",
            Self::Bundle => "bundle",
        })
    }
}
