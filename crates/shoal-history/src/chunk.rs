//! Chunks, the units that files and messages are made of (format: chunk envelope). A file is any
//! sequence of them.

mod change;
mod compressed;
mod header;
mod op_rows;

pub use change::{Change, ChangeHeader, ChangeOps, ChangeWriter};
pub use header::ChunkType;
