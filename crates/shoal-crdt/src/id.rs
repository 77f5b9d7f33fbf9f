//! The id of an object or an op for callers: independent of any document in memory.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use shoal_history::{ActorId, ActorIdx};

use crate::encoded::{Reader, write_uleb};

/// The map at the root of every document.
pub const ROOT: ObjId = ObjId(Repr::Root);

/// The id of an object, and of the op behind the object: stable across saves, merges, replicas.
///
/// Its text form is `_root`, or `counter@actor` with the actor in hexadecimal. Ordered as the ids
/// of ops are: the root first, then by counter, then by the bytes of the actor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ObjId(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Root,
    Op {
        counter: u32,
        actor: ActorId,
        /// The index of the actor in the document of origin; only a hint.
        hint: ActorIdx,
    },
}

impl ObjId {
    /// The id of the op with this counter by `actor`.
    pub fn new(counter: u32, actor: ActorId) -> Self {
        Self(Repr::Op { counter, actor, hint: ActorIdx(u32::MAX) })
    }

    pub(crate) fn with_hint(counter: u32, actor: ActorId, hint: ActorIdx) -> Self {
        Self(Repr::Op { counter, actor, hint })
    }

    /// True for the root map.
    pub fn is_root(&self) -> bool {
        matches!(self.0, Repr::Root)
    }

    /// The counter of the op; 0 for the root.
    pub fn counter(&self) -> u32 {
        match self.0 {
            Repr::Root => 0,
            Repr::Op { counter, .. } => counter,
        }
    }

    /// Who made the op; `None` for the root.
    pub fn actor(&self) -> Option<&ActorId> {
        match &self.0 {
            Repr::Root => None,
            Repr::Op { actor, .. } => Some(actor),
        }
    }

    /// The binary form: a tag, the length-prefixed actor, a hint of 0, and the counter. The
    /// reference reads this form, and writes its own index of the actor as the hint.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Some(actor) = self.actor() else { return vec![TAG_ROOT] };
        let mut bytes = Vec::with_capacity(actor.as_bytes().len() + 8);
        bytes.push(TAG_OP);
        write_uleb(actor.as_bytes().len() as u64, &mut bytes);
        bytes.extend_from_slice(actor.as_bytes());
        bytes.push(0);
        write_uleb(self.counter().into(), &mut bytes);
        bytes
    }

    /// The id written by [`ObjId::to_bytes`], here or in the reference.
    ///
    /// # Errors
    /// [`ObjIdFromBytesError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ObjIdFromBytesError> {
        let decode = || {
            let mut reader = Reader::new(bytes);
            let id = match reader.byte()? {
                TAG_ROOT => ROOT,
                TAG_OP => {
                    let actor = ActorId::new(reader.length_prefixed()?);
                    reader.uleb()?;
                    Self::new(reader.counter()?, actor)
                }
                _ => return Err("unknown tag"),
            };
            reader.finish()?;
            Ok(id)
        };
        decode().map_err(|why| ObjIdFromBytesError { why })
    }

    pub(crate) fn hint(&self) -> ActorIdx {
        match self.0 {
            Repr::Root => ActorIdx(u32::MAX),
            Repr::Op { hint, .. } => hint,
        }
    }

    fn order(&self) -> (u32, Option<&ActorId>) {
        (self.counter(), self.actor())
    }
}

impl PartialEq for ObjId {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for ObjId {}

impl PartialOrd for ObjId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Hash for ObjId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl fmt::Display for ObjId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Root => f.write_str("_root"),
            Repr::Op { counter, actor, .. } => write!(f, "{counter}@{actor}"),
        }
    }
}

/// Version 0, no data.
const TAG_ROOT: u8 = 0;
/// Version 0, an op.
const TAG_OP: u8 = 1 << 4;

/// Bytes of no object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an object id: {why}")]
pub struct ObjIdFromBytesError {
    why: &'static str,
}

/// Text of no object id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object id is _root or counter@actor, not: {0}")]
pub struct ParseObjIdError(String);

impl FromStr for ObjId {
    type Err = ParseObjIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "_root" {
            return Ok(ROOT);
        }
        let parse = || {
            let (counter, actor) = text.split_once('@')?;
            if !counter.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let counter = counter.parse::<u32>().ok().filter(|counter| *counter > 0)?;
            Some(Self::new(counter, ActorId::from_hex(actor).ok()?))
        };
        parse().ok_or_else(|| ParseObjIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_refuses_the_rest() {
        for text in ["_root", "1@", "7@00ff", "4294967295@abcd"] {
            let id: ObjId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(ObjId::from_bytes(&id.to_bytes()), Ok(id));
        }
        for text in ["", "root", "0@aa", "+1@aa", "-1@aa", "4294967296@aa", "1@a", "1@zz", "1"] {
            assert!(text.parse::<ObjId>().is_err(), "{text}");
        }
        let bad: [&[u8]; 6] =
            [&[], &[1], &[0, 0], &[16, 1, 7, 0, 0], &[16, 9, 7, 0, 1], &[16, 1, 7, 0x80, 0, 1]];
        for bytes in bad {
            assert!(ObjId::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn order_is_that_of_op_ids_and_ignores_the_hint() {
        let actor = |byte| ActorId::new(&[byte]);
        let mut ids = vec![ObjId::new(2, actor(1)), ObjId::new(1, actor(9)), ROOT];
        ids.sort();
        assert_eq!(ids, [ROOT, ObjId::new(1, actor(9)), ObjId::new(2, actor(1))]);
        assert_eq!(ObjId::new(3, actor(1)), ObjId::with_hint(3, actor(1), ActorIdx(4)));
    }
}
