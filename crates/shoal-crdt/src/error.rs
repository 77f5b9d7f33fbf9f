//! What can go wrong with a document, kept apart by who can cause it: bytes and changes from
//! elsewhere, limits, and the calling code.

use shoal_history::{ActorId, ChangeHash};

use crate::id::ObjId;
use crate::value::ObjType;

/// Why a call on a document failed. The document is then as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no chunks, or changes that do not fit together.
    #[error(transparent)]
    History(#[from] shoal_history::Error),
    /// An op of a change contradicts the document it was applied to.
    #[error("change {change}: op {op}: {fault}")]
    Op {
        /// The change.
        change: ChangeHash,
        /// The op.
        op: ObjId,
        /// The contradiction.
        fault: OpFault,
    },
    /// A row of a document chunk contradicts the rows before it.
    #[error("document chunk: {column}, row {row}: op {op}: {fault}")]
    Row {
        /// The row, counted from 0.
        row: u32,
        /// The column that names what is wrong.
        column: &'static str,
        /// The op of the row.
        op: ObjId,
        /// The contradiction.
        fault: OpFault,
    },
    /// Two different changes by one actor have the same sequence number.
    #[error("change {change} by {actor} has the sequence number of another change: {seq}")]
    DuplicateSeq {
        /// The refused change.
        change: ChangeHash,
        /// Its author.
        actor: ActorId,
        /// The number.
        seq: u32,
    },
    /// A file that begins with changes lacks some that they depend on.
    #[error("changes in the file depend on one that is missing: {first}")]
    MissingDeps {
        /// One of those missing.
        first: ChangeHash,
    },
    /// An author for an actor who has made changes already.
    #[error("the first change of actor {actor} is made, and with it who is behind it")]
    AuthorSettled {
        /// The actor.
        actor: ActorId,
    },
    /// Heads that name a change that is not in the document.
    #[error("no such change: {0}")]
    UnknownHead(ChangeHash),
    /// There is no such object in the document.
    #[error("no such object: {0}")]
    UnknownObject(ObjId),
    /// The operation does not exist for objects of this type, or not with this kind of property.
    #[error("not possible on the {kind} {obj}: {operation}", kind = kind.name())]
    WrongType {
        /// The object.
        obj: ObjId,
        /// Its type.
        kind: ObjType,
        /// What was asked for.
        operation: &'static str,
    },
    /// An index beyond the end.
    #[error("index beyond the length {length}: {index}")]
    Index {
        /// The index.
        index: usize,
        /// How long the sequence is.
        length: usize,
    },
    /// A cursor at an op that is not in the sequence, or not at the heads that are read.
    #[error("no such op for a cursor: {0}")]
    UnknownCursor(ObjId),
    /// There is no block marker at the index.
    #[error("no block marker in {obj} at index: {index}")]
    NotABlock {
        /// The text.
        obj: ObjId,
        /// The index.
        index: usize,
    },
    /// A scalar where an object is to be made.
    #[error("a scalar where an object is to be made")]
    NotAnObject,
    /// Objects are nested more deeply than a value that is read whole may be, or would be more deeply
    /// than the document may hold.
    #[error("objects are nested more deeply than: {max}")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// An increment where no counter is visible.
    #[error("no counter to increment in {obj}")]
    MissingCounter {
        /// The object of the value.
        obj: ObjId,
    },
    /// Op ids are 32-bit numbers; the greatest is never used, and the others are used up.
    #[error("no op ids left")]
    OpIdsExhausted,
    /// The root of a document is a map, so only a JSON object can be imported there.
    #[error("the root of a document takes a JSON object only")]
    RootNotObject,
}

/// How an op can contradict its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpFault {
    /// It names an actor who made no change here.
    #[error("names an actor without changes")]
    UnknownActor,
    /// Its object does not exist.
    #[error("no such object")]
    UnknownObject,
    /// It names a sequence element that does not exist.
    #[error("no such element")]
    UnknownElement,
    /// It supersedes an op that is not at its place.
    #[error("supersedes an op that is not there")]
    UnknownPredecessor,
    /// It has a map key in a sequence, an element in a map, or no element where it needs one.
    #[error("wrong kind of key for the object")]
    WrongKey,
    /// It refers to an op that is not older.
    #[error("refers to an op that is not older")]
    RefersAhead,
    /// A delete op that supersedes nothing, inserts, or has a value.
    #[error("malformed delete")]
    MalformedDelete,
    /// An increment that inserts or is no integer.
    #[error("malformed increment")]
    MalformedIncrement,
    /// A mark that does not insert, or ends where it has not begun.
    #[error("malformed mark")]
    MalformedMark,
    /// It makes an object that is nested more deeply than the limit.
    #[error("object nested more deeply than allowed")]
    TooDeep,
    /// The rows of objects, keys or elements are not in document order.
    #[error("out of document order")]
    RowOrder,
}

impl OpFault {
    /// The column of a document chunk that says what is wrong with a row.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::UnknownActor => "id actor column",
            Self::UnknownObject | Self::TooDeep => "object counter column",
            Self::UnknownElement | Self::RefersAhead => "key counter column",
            Self::UnknownPredecessor => "succ counter column",
            Self::WrongKey => "key string column",
            Self::MalformedDelete | Self::MalformedIncrement | Self::MalformedMark => {
                "action column"
            }
            Self::RowOrder => "id counter column",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small_and_say_where() {
        assert!(size_of::<Error>() <= 96, "{}", size_of::<Error>());
        let op = ObjId::new(7, ActorId::new(&[0xab]));
        let fault = OpFault::UnknownElement;
        let error = Error::Row { row: 3, column: fault.column(), op, fault };
        let text = "document chunk: key counter column, row 3: op 7@ab: no such element";
        assert_eq!(error.to_string(), text);
    }
}
