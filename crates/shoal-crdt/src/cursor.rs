//! Cursors: places in a list or text, each staying with an element while others come and go.

use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use shoal_history::{ActorId, OpId};

use crate::encoded::{Reader, write_uleb};
use crate::error::Error;
use crate::id::ObjId;
use crate::sequence::NO_OP;
use crate::value::Prop;
use crate::view::{View, scoped};

/// A place in a sequence. [`ReadDoc::get_cursor`](crate::ReadDoc::get_cursor) makes one,
/// [`ReadDoc::get_cursor_position`](crate::ReadDoc::get_cursor_position) gives the index.
///
/// Its text form is `s`, `e`, or `counter@actor` with the actor in hexadecimal, behind a `-` if
/// the cursor moves before. Cursors can be stored: both forms are the reference's.
///
/// ```
/// use shoal_crdt::Cursor;
///
/// let cursor: Cursor = "-7@00ff".parse()?;
/// assert_eq!(Cursor::from_bytes(&cursor.to_bytes())?, cursor);
/// # Ok::<(), shoal_crdt::ParseCursorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cursor {
    /// Always the begin.
    Start,
    /// Always the end.
    End,
    /// At an element.
    Op {
        /// The winning op at the place when the cursor was made.
        id: ObjId,
        /// Where the cursor goes when the element is deleted.
        moves: MoveCursor,
    },
}

/// Where a cursor goes when its element is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MoveCursor {
    /// To the element before it at insertion, or the one before at that one's insertion, and so on
    /// until one is visible; to the begin when none is.
    Before,
    /// To the next visible element, or the end.
    #[default]
    After,
}

/// Where a cursor is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorPosition {
    /// At the begin, whatever comes there.
    Start,
    /// At the end, whatever comes there.
    End,
    /// At the element covering an index.
    Index(usize),
}

impl From<usize> for CursorPosition {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Bytes or text of no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: {why}")]
pub struct ParseCursorError {
    why: &'static str,
}

const VERSION: u8 = 1;
/// The version of old cursors: an op, moving after, without tags.
const OLD_VERSION: u8 = 0;
const START: u8 = 1;
const END: u8 = 2;
const OP: u8 = 3;
const MOVES_BEFORE: u8 = 1;
const MOVES_AFTER: u8 = 2;

impl Cursor {
    /// The binary form: a version, the kind of place, and for an op the length-prefixed actor, the
    /// counter and the move.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (id, moves) = match self {
            Self::Start => return vec![VERSION, START],
            Self::End => return vec![VERSION, END],
            Self::Op { id, moves } => (id, moves),
        };
        let actor = id.actor().map_or(&[][..], ActorId::as_bytes);
        let mut bytes = Vec::with_capacity(actor.len() + 10);
        bytes.extend([VERSION, OP]);
        write_uleb(actor.len() as u64, &mut bytes);
        bytes.extend_from_slice(actor);
        write_uleb(id.counter().into(), &mut bytes);
        bytes.push(if *moves == MoveCursor::Before { MOVES_BEFORE } else { MOVES_AFTER });
        bytes
    }

    /// The cursor written by [`Cursor::to_bytes`], here or in the reference, in this version or the
    /// one before.
    ///
    /// # Errors
    /// [`ParseCursorError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseCursorError> {
        Self::decode(bytes).map_err(|why| ParseCursorError { why })
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte()?;
        let tag = match version {
            OLD_VERSION => OP,
            VERSION => reader.byte()?,
            _ => return Err("unknown version"),
        };
        let cursor = match tag {
            START => Self::Start,
            END => Self::End,
            OP => {
                let actor = ActorId::new(reader.length_prefixed()?);
                let id = ObjId::new(reader.counter()?, actor);
                let moves = match version {
                    OLD_VERSION => MoveCursor::After,
                    _ => match reader.byte()? {
                        MOVES_BEFORE => MoveCursor::Before,
                        MOVES_AFTER => MoveCursor::After,
                        _ => return Err("unknown move"),
                    },
                };
                Self::Op { id, moves }
            }
            _ => return Err("unknown kind"),
        };
        reader.finish()?;
        Ok(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("s"),
            Self::End => f.write_str("e"),
            Self::Op { id, moves: MoveCursor::Before } => write!(f, "-{id}"),
            Self::Op { id, moves: MoveCursor::After } => write!(f, "{id}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rest, moves) = match text {
            "s" => return Ok(Self::Start),
            "e" => return Ok(Self::End),
            text => match text.strip_prefix('-') {
                Some(rest) => (rest, MoveCursor::Before),
                None => (text, MoveCursor::After),
            },
        };
        match rest.parse::<ObjId>() {
            Ok(id) if !id.is_root() => Ok(Self::Op { id, moves }),
            _ => Err(ParseCursorError { why: "neither s nor e nor counter@actor" }),
        }
    }
}

impl View<'_> {
    pub(crate) fn get_cursor(
        self,
        obj: &ObjId,
        position: CursorPosition,
        moves: MoveCursor,
    ) -> Result<Cursor, Error> {
        self.sequence(obj, "make a cursor")?;
        let index = match position {
            CursorPosition::Start => return Ok(Cursor::Start),
            CursorPosition::End => return Ok(Cursor::End),
            CursorPosition::Index(index) => index,
        };
        match self.get(obj, Prop::Index(index))? {
            Some((_, id)) => Ok(Cursor::Op { id, moves }),
            None => Err(Error::Index { index, length: self.length(obj)? }),
        }
    }

    pub(crate) fn get_cursor_position(self, obj: &ObjId, cursor: &Cursor) -> Result<usize, Error> {
        let sequence = self.sequence(obj, "find a cursor")?;
        let (id, moves) = match cursor {
            Cursor::Start => return Ok(0),
            Cursor::End => return self.length(obj),
            Cursor::Op { id, moves } => (id, *moves),
        };
        let unknown = || Error::UnknownCursor(id.clone());
        let id = self.doc.import(id).filter(|id| self.covers(*id)).ok_or_else(unknown)?;
        if let Some(place) = sequence.locate(id)
            && (moves == MoveCursor::After || self.is_visible(sequence, place))
            && let Some(index) = self.index_in(self.doc.resolve(obj)?, sequence, place)
        {
            return Ok(index);
        }
        // The op may have overwritten an element, or a visible one.
        let mut elems: FxHashMap<OpId, Known> = FxHashMap::default();
        let mut found = None;
        scoped::walk(sequence, self.clock, &self.doc.ops.actors, |elem| {
            let known = Known {
                reference: elem.reference,
                index: elem.index,
                is_visible: elem.is_visible(),
            };
            if found.is_none() && elem.rows.iter().any(|op| op.id == id) {
                found = Some(known);
            }
            if moves == MoveCursor::Before {
                elems.insert(elem.id, known);
            }
        });
        let mut at = found.ok_or_else(unknown)?;
        while moves == MoveCursor::Before && !at.is_visible && at.index > 0 {
            match elems.get(&at.reference) {
                Some(before) if at.reference != NO_OP => at = *before,
                _ => return Ok(0),
            }
        }
        Ok(at.index)
    }
}

/// A visited element on the way to a visible one.
#[derive(Clone, Copy)]
struct Known {
    reference: OpId,
    index: usize,
    is_visible: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip_and_refuse_the_rest() {
        for text in ["s", "e", "1@", "7@00ff", "-4294967295@abcd"] {
            let cursor: Cursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
            assert_eq!(Cursor::from_bytes(&cursor.to_bytes()), Ok(cursor));
        }
        for text in ["", "-", "x", "_root", "-_root", "--1@aa", "1@a", "0@aa", "4294967296@aa"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
        let old = Cursor::from_bytes(&[0, 2, 0, 255, 7]);
        assert_eq!(old.map(|cursor| cursor.to_string()).as_deref(), Ok("7@00ff"));
        let bad: [&[u8]; 8] = [
            &[],
            &[2, 1],
            &[1, 4],
            &[1, 1, 0],
            &[1, 3, 1, 255, 7, 3],
            &[1, 3, 200, 255, 7, 1],
            &[1, 3, 1, 255, 0, 1],
            &[1, 3, 1, 255, 0x87, 0, 1],
        ];
        for bytes in bad {
            assert!(Cursor::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
