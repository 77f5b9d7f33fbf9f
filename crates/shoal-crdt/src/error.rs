//! The errors of a document, kept apart by who can cause them: bytes and changes from elsewhere,
//! limits, and the calling code.

use shoal_history::{ActorId, ChangeHash};

use crate::id::ObjId;
use crate::value::ObjType;

/// The reason of a failed call on a document. The document is as before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes outside of any chunk, or changes at odds with each other.
    #[error(transparent)]
    History(#[from] shoal_history::Error),
    /// An op of a change contradicts the document.
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
        /// The column at fault.
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
    /// A file beginning with changes lacks some of their dependencies.
    #[error("changes in the file depend on one that is missing: {first}")]
    MissingDeps {
        /// One of the missing changes.
        first: ChangeHash,
    },
    /// An author for an actor who has made changes already.
    #[error("the first change of actor {actor} is made, and with it who is behind it")]
    AuthorSettled {
        /// The actor.
        actor: ActorId,
    },
    /// Heads naming a change unknown to the document.
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
        /// The refused operation.
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
    /// A cursor at an op not in the sequence, or not at the heads being read.
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
    /// Objects are nested more deeply than a value that is read whole may be, or would be more
    /// deeply than the document may hold.
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
    /// An actor without changes here is named.
    #[error("names an actor without changes")]
    UnknownActor,
    /// Its object does not exist.
    #[error("no such object")]
    UnknownObject,
    /// A sequence element that does not exist is named.
    #[error("no such element")]
    UnknownElement,
    /// A superseded op is not at the place of the op.
    #[error("supersedes an op that is not there")]
    UnknownPredecessor,
    /// A map key in a sequence, an element in a map, or no element where one is needed.
    #[error("wrong kind of key for the object")]
    WrongKey,
    /// A reference to an op not older.
    #[error("refers to an op that is not older")]
    RefersAhead,
    /// A delete op superseding nothing, or with an insert or a value.
    #[error("malformed delete")]
    MalformedDelete,
    /// An increment with an insert, or of no integer.
    #[error("malformed increment")]
    MalformedIncrement,
    /// A mark without an insert, or with an end before the begin.
    #[error("malformed mark")]
    MalformedMark,
    /// A new object nested more deeply than the limit.
    #[error("object nested more deeply than allowed")]
    TooDeep,
    /// The rows of objects, keys or elements are not in document order.
    #[error("out of document order")]
    RowOrder,
}

impl OpFault {
    /// The column of a document chunk at fault.
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
