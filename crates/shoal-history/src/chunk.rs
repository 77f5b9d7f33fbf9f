//! Chunks, the units that files and messages are made of (format: chunk envelope). A file is any
//! sequence of them.

use crate::{Error, Limits};
use header::Envelope;

mod change;
mod compressed;
mod document;
mod header;
mod op_rows;

pub use change::{Change, ChangeHeader, ChangeOps, ChangeWriter};
pub use document::{DocumentChunk, DocumentOps, DocumentWriter, Verify};
pub use header::ChunkType;

/// A chunk, parsed and valid.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Chunk {
    /// A document chunk.
    Document(Box<DocumentChunk>),
    /// A change chunk, or what a compressed one stood for.
    Change(Change),
}

/// Reads the chunks that `bytes` are, one after the other; none when there are no bytes.
pub fn chunks<'a>(bytes: &'a [u8], limits: &Limits) -> Chunks<'a> {
    Chunks { bytes, offset: 0, limits: *limits, failed: false }
}

/// The chunks of a byte string. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
    offset: usize,
    limits: Limits,
    failed: bool,
}

impl Chunks<'_> {
    /// Where the next chunk begins, or the one that was refused.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn read(&mut self) -> Result<Chunk, Error> {
        let bytes = &self.bytes[self.offset..];
        let envelope = Envelope::read(bytes)?;
        let chunk = match envelope.chunk_type {
            ChunkType::Document => {
                let document = DocumentChunk::from_envelope(&envelope, &self.limits)?;
                Chunk::Document(Box::new(document))
            }
            ChunkType::Change => {
                Chunk::Change(Change::from_envelope(bytes, &envelope, &self.limits)?)
            }
            ChunkType::CompressedChange => {
                Chunk::Change(Change::from_compressed(&envelope, &self.limits)?)
            }
            chunk @ ChunkType::Bundle => {
                envelope.check()?;
                return Err(Error::Unsupported { chunk });
            }
        };
        self.offset += envelope.len;
        Ok(chunk)
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Chunk, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.offset == self.bytes.len() {
            return None;
        }
        let chunk = self.read();
        self.failed = chunk.is_err();
        Some(chunk)
    }
}
