//! Actors: who made a change.

use std::fmt;
use std::sync::Arc;

use shoal_stdx::hex;

/// The id of an actor: any bytes, usually 16 random ones. Ordered by its bytes.
///
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(Arc<[u8]>);

impl ActorId {
    /// The actor with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as lower-case hexadecimal, for people.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// The actor whose id `text` spells in hexadecimal.
    ///
    /// # Errors
    /// When `text` is not hexadecimal.
    pub fn from_hex(text: &str) -> Result<Self, hex::DecodeError> {
        hex::decode(text).map(|bytes| Self(bytes.into()))
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorId({self})")
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// The index of an actor in an accompanying table: the actor table of a chunk, or the table passed
/// by the caller of an encoder. Says nothing about the order of the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorIdx(pub u32);

impl ActorIdx {
    /// The index as one into a slice.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}
