//! Chunks, the units of files and messages (format: chunk envelope). A file is any sequence of
//! them.

use std::collections::VecDeque;

use rayon::prelude::*;

use crate::{ChunkType, Error, Limits};
use change::{SHARD_BYTES, Store};
use header::Envelope;

mod bundle;
mod change;
mod columns;
mod compressed;
mod document;
mod header;
mod op_one;
mod op_rows;
mod op_runs;
mod parts;
mod salvage;

pub use bundle::{Bundle, BundleWriter};
pub use change::{Change, ChangeBuffers, ChangeHeader, ChangeOps, ChangeRows, ChangeWriter};
pub(crate) use document::{ChangeRow, ChangeTable, DocumentSource, GraphRows, Hashes};
pub use document::{
    DocumentChunk, DocumentOps, DocumentRows, DocumentWriter, OpRows, RowGroup, RowKey, Scalars,
    Verify,
};
pub use salvage::{Salvaged, salvage};

/// A chunk, parsed and valid.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Chunk {
    /// A document chunk.
    Document(Box<DocumentChunk>),
    /// A change chunk, inflated if compressed.
    Change(Change),
    /// The changes of a bundle.
    Bundle(Bundle),
}

/// Reads the chunks of `bytes`, one after the other; none without bytes.
pub fn chunks<'a>(bytes: &'a [u8], limits: &Limits) -> Chunks<'a> {
    Chunks {
        bytes,
        offset: 0,
        limits: *limits,
        left: limits.of_input(bytes.len()),
        ready: VecDeque::new(),
        failed: None,
        ended: false,
    }
}

/// The chunks of a byte string. Ends after the first error. Neighbouring changes are read together,
/// to share memory.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
    offset: usize,
    limits: Limits,
    /// The limits minus the chunks so far.
    left: Limits,
    /// Changes read ahead, each with the place of its end.
    ready: VecDeque<(Change, usize)>,
    /// The error behind them.
    failed: Option<Error>,
    ended: bool,
}

impl Chunks<'_> {
    /// The begin of the next chunk, or of the refused one.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn read(&mut self) -> Result<Chunk, Error> {
        let bytes = &self.bytes[self.offset..];
        let envelope = Envelope::read(bytes)?;
        match envelope.chunk_type {
            ChunkType::Document => {
                let limits = self.limits_of(&envelope);
                let document = DocumentChunk::from_envelope(&envelope, &limits)?;
                self.left.spend(ChunkType::Document, document.used())?;
                self.offset += envelope.len;
                Ok(Chunk::Document(Box::new(document)))
            }
            ChunkType::Change | ChunkType::CompressedChange => {
                self.read_changes()?;
                let (change, end) = self.ready.pop_front().expect("one change was read");
                self.offset = end;
                Ok(Chunk::Change(change))
            }
            ChunkType::Bundle => {
                let (bundle, used) = Bundle::from_envelope(&envelope, &self.limits_of(&envelope))?;
                self.left.spend(ChunkType::Bundle, &used)?;
                self.offset += envelope.len;
                Ok(Chunk::Bundle(bundle))
            }
        }
    }

    fn limits_of(&self, envelope: &Envelope<'_>) -> Limits {
        self.left.of_chunk(&self.limits, envelope.len, self.bytes.len())
    }

    /// Reads the changes from the offset on until something else comes, or until they are many.
    fn read_changes(&mut self) -> Result<(), Error> {
        let mut shards = vec![Vec::new()];
        let (mut end, mut shard_start) = (self.offset, self.offset);
        // Side by side, chunks do not know the inflated size of each other.
        let mut inflated = 0;
        while end < self.bytes.len() && shards.len() <= MAX_SHARDS {
            let envelope = match Envelope::read(&self.bytes[end..]) {
                Ok(envelope) if envelope.chunk_type.is_change() => envelope,
                Ok(_) => break,
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            inflated += envelope.inflated_at_most();
            if end > self.offset && inflated > self.left.max_decompressed_bytes {
                break;
            }
            if end - shard_start >= SHARD_BYTES {
                shards.push(Vec::new());
                shard_start = end;
            }
            shards.last_mut().expect("there is a shard").push((end, envelope));
            end += envelope.len;
        }
        let read = |shard: &Vec<(usize, Envelope<'_>)>| {
            let (mut store, mut used) = (Store::default(), Vec::with_capacity(shard.len()));
            let read = shard.iter().try_for_each(|(start, envelope)| {
                let limits = self.limits_of(envelope);
                used.push(store.read(&self.bytes[*start..], envelope, &limits)?);
                Ok(())
            });
            (store.into_changes(), used, read.err())
        };
        let parsed: Vec<_> = match &shards[..] {
            [only] => vec![read(only)],
            many => many.par_iter().map(read).collect(),
        };
        for ((changes, used, error), shard) in parsed.into_iter().zip(&shards) {
            let mut error = error;
            for ((change, used), (start, envelope)) in changes.into_iter().zip(used).zip(shard) {
                if let Err(spent) = self.left.spend(ChunkType::Change, &used) {
                    error = Some(spent);
                    break;
                }
                self.ready.push_back((change, start + envelope.len));
            }
            if error.is_some() {
                self.failed = error;
                break;
            }
        }
        if self.ready.is_empty()
            && let Some(error) = self.failed.take()
        {
            return Err(error);
        }
        Ok(())
    }
}

/// How many such are read ahead at most.
const MAX_SHARDS: usize = 32;

impl Iterator for Chunks<'_> {
    type Item = Result<Chunk, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((change, end)) = self.ready.pop_front() {
            self.offset = end;
            return Some(Ok(Chunk::Change(change)));
        }
        if self.ended || (self.offset == self.bytes.len() && self.failed.is_none()) {
            return None;
        }
        let chunk = match self.failed.take() {
            Some(error) => Err(error),
            None => self.read(),
        };
        self.ended = chunk.is_err();
        Some(chunk)
    }
}
