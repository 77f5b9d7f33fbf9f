//! The errors of chunks and of a graph of changes, kept apart by who can cause them: bytes
//! ([`Error::Envelope`], [`Error::Corrupt`]), bytes in need of too much ([`Error::Limit`]), changes
//! at odds with each other, and the calling code ([`Error::Misuse`]).

use std::fmt;

use crate::{ChangeHash, ChunkType};

/// Why a chunk, or a change, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a whole chunk of a known type.
    #[error("chunk envelope: {fault}")]
    Envelope {
        /// The fault.
        fault: Fault,
    },
    /// The body of a chunk breaks the format.
    #[error("{chunk} chunk: {part}{}: {fault}", AtRow(*row))]
    Corrupt {
        /// The type of the chunk, inflated if compressed.
        chunk: ChunkType,
        /// The header field or the column.
        part: &'static str,
        /// The row of the column, from 0; a field of a header has none.
        row: Option<u32>,
        /// The fault.
        fault: Fault,
    },
    /// A sync message, a saved sync state or a bloom filter breaks its format.
    #[error("{structure}: {part}: {fault}")]
    Sync {
        /// The structure.
        structure: &'static str,
        /// The field.
        part: &'static str,
        /// The fault.
        fault: Fault,
    },
    /// A chunk asks for more than the [`Limits`](crate::Limits) given allow.
    #[error("{chunk} chunk: more {what} than allowed: {max}")]
    Limit {
        /// The type of the chunk.
        chunk: ChunkType,
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// A chunk of another type than the one asked for.
    #[error("not the type of chunk that is wanted: {chunk}")]
    Unsupported {
        /// The type.
        chunk: ChunkType,
    },
    /// The changes rebuilt from a document chunk do not have its heads: the chunk was damaged, or
    /// one of its changes was not encoded canonically by its author.
    #[error("document chunk: no rebuilt change has the hash of its head number: {head}")]
    MismatchingHeads {
        /// The first of the chunk's heads without a rebuilt change, from 0; the number of heads
        /// when a rebuilt head is missing in the chunk.
        head: u32,
    },
    /// A change not encoded canonically, where only canonical bytes can be kept: the hash would
    /// change.
    #[error("not encoded canonically: change {change}")]
    NotCanonical {
        /// The change.
        change: ChangeHash,
    },
    /// A change depends on one outside of the graph.
    #[error("change {change} depends on a change that is not there: {dep}")]
    MissingDep {
        /// The change.
        change: ChangeHash,
        /// The first missing dependency.
        dep: ChangeHash,
    },
    /// An actor made two changes with the same sequence number.
    #[error("change {change} has the sequence number of change {known}: {seq}")]
    DuplicateSeq {
        /// The refused change.
        change: ChangeHash,
        /// The change in the graph.
        known: ChangeHash,
        /// The number they share.
        seq: u32,
    },
    /// The sequence numbers of an actor's changes have a hole.
    #[error("change {change} should have the sequence number {expected}: {seq}")]
    SeqGap {
        /// The refused change.
        change: ChangeHash,
        /// One more than the actor's last.
        expected: u32,
        /// The sequence number.
        seq: u32,
    },
    /// A change does not depend, not even through others, on the author's change before.
    #[error("change {change} is not built on its author's change before it: {seq}")]
    NotOnOwn {
        /// The refused change.
        change: ChangeHash,
        /// Its sequence number.
        seq: u32,
    },
    /// A change counts its ops from a number passed already by its dependencies, or by the actor's
    /// last change.
    #[error("change {change} starts at an op number that is not above {max_op}: {start_op}")]
    StartOpTooSmall {
        /// The refused change.
        change: ChangeHash,
        /// The greatest op number before.
        max_op: u32,
        /// Its first op number.
        start_op: u32,
    },
    /// The calling code broke a rule of the API; no input can cause this.
    #[error("misuse: {why}")]
    Misuse {
        /// The rule.
        why: &'static str,
    },
}

/// The fault at one place of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes end before the structure does.
    #[error("ends too early")]
    Truncated,
    /// Bytes follow where the structure ends.
    #[error("bytes left over: {0}")]
    Leftover(u64),
    /// A LEB128 integer of more than 64 bits, or a sum beyond them.
    #[error("integer beyond 64 bits")]
    Overflow,
    /// A LEB128 integer not in the required shortest form.
    #[error("integer not in its shortest form")]
    Overlong,
    /// A number out of range for its place.
    #[error("number out of range: {0}")]
    OutOfRange(i64),
    /// More of something than anyone has use for.
    #[error("more than allowed: {0}")]
    TooMany(u64),
    /// A number of 64 bits, where 32 bits are the limit.
    #[error("number beyond 32 bits: {0}")]
    Beyond32Bits(u64),
    /// Text other than UTF-8.
    #[error("text is not utf-8")]
    NotUtf8,
    /// A null where a value is needed.
    #[error("null where a value is needed")]
    UnexpectedNull,
    /// A value where its sibling columns have a null, or the reverse.
    #[error("value and null do not fit together")]
    MismatchedNulls,
    /// The first bytes are not the magic of a chunk.
    #[error("wrong magic bytes")]
    Magic,
    /// An unknown chunk type.
    #[error("unknown chunk type: {0}")]
    ChunkType(u8),
    /// The checksum is not the content's.
    #[error("wrong checksum")]
    Checksum,
    /// The DEFLATE stream cannot be read.
    #[error("broken deflate stream")]
    Deflate,
    /// Column specifications out of ascending order.
    #[error("column out of order: {0}")]
    ColumnOrder(u32),
    /// A column in a forbidden place.
    #[error("column without its owner: {0}")]
    ColumnLayout(u32),
    /// A deflated column in a chunk without deflated columns.
    #[error("deflated column not allowed here: {0}")]
    ColumnDeflated(u32),
    /// A column unknown to this version, where unknown columns cannot be kept.
    #[error("unknown column: {0}")]
    UnknownColumn(u32),
    /// A column with another number of rows than its siblings.
    #[error("wrong number of rows: {0}")]
    RowCount(u64),
    /// An actor index beyond the actor table.
    #[error("no such actor: {0}")]
    NoSuchActor(u64),
    /// An unknown action code.
    #[error("unknown action: {0}")]
    Action(u64),
    /// A payload unfit for its type.
    #[error("payload does not fit the value type: {0}")]
    ValuePayload(u8),
    /// An increment by anything but an integer.
    #[error("increment is not an integer")]
    IncrementValue,
    /// A delete op as a row of a document chunk, where deletes are implied.
    #[error("delete op in a document")]
    ExplicitDelete,
    /// An insertion with a map key.
    #[error("insertion with a map key")]
    InsertWithMapKey,
    /// An op on the head of a list, but no insertion.
    #[error("list head changed")]
    HeadWithoutInsert,
    /// A reference to an op not before the referring one, by this counter.
    #[error("refers to an op that is not before it: {0}")]
    NotBefore(u32),
    /// A successor not after the superseded op, by this counter.
    #[error("superseded by an op that is not after it: {0}")]
    NotAfter(u32),
    /// A reference to an op of a change in a later row, by this counter.
    #[error("refers to an op of a later change: {0}")]
    LaterChange(u32),
    /// The same op named twice in one list.
    #[error("the same op twice in a list: {0}")]
    RepeatedLink(u32),
    /// The end of a mark before its begin, or in another object.
    #[error("mark ends before it begins")]
    MarkOrder,
    /// A list out of ascending order.
    #[error("not in ascending order")]
    Unsorted,
    /// A dependency on a change not in an earlier row.
    #[error("dependency is not an earlier row: {0}")]
    DepRow(u64),
    /// A change without a dependency, direct or indirect, on the author's change before.
    #[error("not built on its author's change before it")]
    NotOnOwn,
    /// Sequence numbers of an actor other than 1, 2, 3 ...
    #[error("sequence number out of turn: {0}")]
    Seq(u64),
    /// A greatest op number smaller than an earlier one.
    #[error("greatest op number below an earlier one: {0}")]
    MaxOp(u64),
    /// Two ops with one id, by its counter.
    #[error("op id used twice, with the counter: {0}")]
    RepeatedOpId(u32),
    /// An op outside of all changes, by its counter.
    #[error("op belongs to no change, with the counter: {0}")]
    StrayOp(u32),
    /// A change without one of its ops, by the counter.
    #[error("op is missing, with the counter: {0}")]
    MissingOp(u32),
    /// A deletion whose targets lie at different keys or in different objects.
    #[error("one delete op for different keys, with the counter: {0}")]
    DeleteOfDifferentKeys(u32),
    /// An op, by its counter, superseding a row at another key or in another object than its own.
    #[error("superseded by an op at another key, with the counter: {0}")]
    SuccessorElsewhere(u32),
    /// A head different from the hash of the row in the head index.
    #[error("head is not the change in the row: {0}")]
    HeadIndex(u64),
}

/// ", row 5" or nothing.
struct AtRow(Option<u32>);

impl fmt::Display for AtRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(row) => write!(f, ", row {row}"),
            None => Ok(()),
        }
    }
}

/// A fault in a column, with chunk and row still unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnFault {
    pub(crate) column: &'static str,
    pub(crate) fault: Fault,
}

impl ColumnFault {
    pub(crate) fn at_row(self, chunk: ChunkType, row: u32) -> Error {
        self.error(chunk, Some(row))
    }

    pub(crate) fn in_chunk(self, chunk: ChunkType) -> Error {
        self.error(chunk, None)
    }

    /// The columns with the links are read alike in changes and documents, and named apart.
    fn error(self, chunk: ChunkType, row: Option<u32>) -> Error {
        let part = match (self.column, chunk) {
            (LINK_COUNT, ChunkType::Document) => "succ count column",
            (LINK_ACTOR, ChunkType::Document) => "succ actor column",
            (LINK_COUNTER, ChunkType::Document) => "succ counter column",
            (LINK_COUNT, _) => "pred count column",
            (LINK_ACTOR, _) => "pred actor column",
            (LINK_COUNTER, _) => "pred counter column",
            (column, _) => column,
        };
        Error::Corrupt { chunk, part, row, fault: self.fault }
    }
}

/// Stand-ins for the names of the link columns, until links are known to be pred or succ.
pub(crate) const LINK_COUNT: &str = "link count column";
pub(crate) const LINK_ACTOR: &str = "link actor column";
pub(crate) const LINK_COUNTER: &str = "link counter column";

/// Names the column of a fault.
pub(crate) trait InColumn<T> {
    fn in_column(self, column: &'static str) -> Result<T, ColumnFault>;
}

impl<T> InColumn<T> for Result<T, Fault> {
    #[inline]
    fn in_column(self, column: &'static str) -> Result<T, ColumnFault> {
        self.map_err(|fault| ColumnFault { column, fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_structure_and_place_and_end_with_the_value() {
        let error = Error::Corrupt {
            chunk: ChunkType::Document,
            part: "id counter column",
            row: Some(7),
            fault: Fault::Beyond32Bits(1 << 32),
        };
        assert_eq!(
            error.to_string(),
            "document chunk: id counter column, row 7: number beyond 32 bits: 4294967296"
        );
        let error = Error::Corrupt {
            chunk: ChunkType::Change,
            part: "message",
            row: None,
            fault: Fault::NotUtf8,
        };
        assert_eq!(error.to_string(), "change chunk: message: text is not utf-8");
    }

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<Error>() <= 80, "{}", size_of::<Error>());
        assert!(size_of::<Fault>() <= 16, "{}", size_of::<Fault>());
    }
}
