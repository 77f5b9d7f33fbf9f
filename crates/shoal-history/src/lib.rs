//! Automerge as bytes and graph: chunks, columns, hashes, the change graph,
//! and the sync protocol.
//!
//! Knows the storage format to the byte and who depends on whom. Knows no op set, no text, no
//! files: what the ops of a change *mean* is `shoal-crdt`'s.

#![forbid(unsafe_code)]

mod actor;
mod chunk;
mod chunk_type;
mod column;
mod error;
mod graph;
mod hash;
mod limits;
mod op;
mod scalar;
mod sync;

pub use actor::{ActorId, ActorIdx};
pub use chunk::{
    Bundle, BundleWriter, Change, ChangeBuffers, ChangeHeader, ChangeOps, ChangeRows, ChangeWriter,
    Chunk, Chunks, DocumentChunk, DocumentOps, DocumentRows, DocumentWriter, OpRows, RowGroup,
    RowKey, Salvaged, Scalars, Verify, chunks, salvage,
};
pub use chunk_type::ChunkType;
pub use error::{Error, Fault};
pub use graph::{ChangeGraph, Changes, Checkpoint, Clock, ClockEntry, Fragment};
pub use hash::ChangeHash;
pub use limits::{Allowance, BySize, Limits};
pub use op::{Action, DeleteRun, InsertRun, Key, ObjId, Op, OpId, TextRun};
pub use scalar::{Scalar, ScalarRef};
pub use sync::{BloomFilter, ChangeData, Have, SyncFlags, SyncMessage, SyncState, SyncVersion};
