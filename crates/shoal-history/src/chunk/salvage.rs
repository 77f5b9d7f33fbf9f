//! Chunks of a damaged file: reads the readable ones, and goes on behind the others.

use super::Chunk;
use super::bundle::Bundle;
use super::change::Store;
use super::document::DocumentChunk;
use super::header::{Envelope, MAGIC};
use crate::{ChunkType, Error, Fault, Limits};

/// The findings of [`salvage`], front to back.
#[derive(Clone, Debug)]
pub enum Salvaged {
    /// A readable chunk. Of a document chunk not even the checksum need be right: the heads tell a
    /// damaged one.
    Chunk {
        /// The begin.
        start: usize,
        /// The end.
        end: usize,
        /// The chunk.
        chunk: Chunk,
    },
    /// A document chunk refused for a mark with an end before the begin. The values are readable,
    /// but nobody would take the changes.
    Unordered {
        /// The begin.
        start: usize,
        /// The end.
        end: usize,
        /// The chunk.
        chunk: Box<DocumentChunk>,
        /// The reason of the refusal.
        error: Error,
    },
    /// Bytes without anything readable.
    Lost {
        /// Where they begin.
        start: usize,
        /// Where they end.
        end: usize,
        /// The fault of the first of them.
        error: Error,
    },
}

/// Reads the remaining chunks of a damaged file. Behind an unreadable chunk, goes on at its end if
/// another chunk begins there, else where the next bytes look like a chunk. Cost: at most about
/// sixteen times reading a sound file; bytes made to look like many chunks are lost beyond that
/// cost.
pub fn salvage<'a>(bytes: &'a [u8], limits: &Limits) -> impl Iterator<Item = Salvaged> + 'a {
    let (left, budget) = (limits.of_input(bytes.len()), bytes.len().saturating_mul(TRIES));
    Salvage { bytes, offset: 0, limits: *limits, left, budget }
}

/// How often each byte is read at most, on average.
const TRIES: usize = 16;

struct Salvage<'a> {
    bytes: &'a [u8],
    offset: usize,
    limits: Limits,
    /// The limits minus the chunks so far.
    left: Limits,
    /// How many bytes of chunks may still be read.
    budget: usize,
}

impl Salvage<'_> {
    fn read(&mut self, envelope: &Envelope<'_>) -> Result<Salvaged, Error> {
        let (start, end) = (self.offset, self.offset + envelope.len);
        let limits = self.left.of_chunk(&self.limits, envelope.len, self.bytes.len());
        match envelope.chunk_type {
            ChunkType::Document => {
                let error = match DocumentChunk::salvage(envelope, &limits, false) {
                    Ok(chunk) => {
                        self.left.spend(ChunkType::Document, chunk.used())?;
                        let chunk = Chunk::Document(Box::new(chunk));
                        return Ok(Salvaged::Chunk { start, end, chunk });
                    }
                    Err(error) => error,
                };
                if !matches!(error, Error::Corrupt { fault: Fault::MarkOrder, .. }) {
                    return Err(error);
                }
                let chunk = Box::new(DocumentChunk::salvage(envelope, &limits, true)?);
                self.left.spend(ChunkType::Document, chunk.used())?;
                Ok(Salvaged::Unordered { start, end, chunk, error })
            }
            ChunkType::Change | ChunkType::CompressedChange => {
                let mut store = Store::default();
                let used = store.read(&self.bytes[start..], envelope, &limits)?;
                self.left.spend(ChunkType::Change, &used)?;
                let chunk = Chunk::Change(store.into_change());
                Ok(Salvaged::Chunk { start, end, chunk })
            }
            ChunkType::Bundle => {
                let (bundle, used) = Bundle::from_envelope(envelope, &limits)?;
                self.left.spend(ChunkType::Bundle, &used)?;
                Ok(Salvaged::Chunk { start, end, chunk: Chunk::Bundle(bundle) })
            }
        }
    }

    /// The place to go on after the chunk, or the broken one, at the offset.
    fn next_start(&self, envelope: Option<&Envelope<'_>>) -> usize {
        let end = envelope.map(|envelope| self.offset + envelope.len);
        let is_next = |at: &usize| *at == self.bytes.len() || self.bytes[*at..].starts_with(&MAGIC);
        end.filter(is_next).unwrap_or_else(|| {
            let rest = &self.bytes[self.offset + 1..];
            let found = rest.windows(MAGIC.len()).position(|window| window == MAGIC);
            found.map_or(self.bytes.len(), |at| self.offset + 1 + at)
        })
    }
}

impl Iterator for Salvage<'_> {
    type Item = Salvaged;

    fn next(&mut self) -> Option<Salvaged> {
        if self.offset == self.bytes.len() {
            return None;
        }
        let bytes = self.bytes;
        let envelope = Envelope::read(&bytes[self.offset..]);
        let error = match &envelope {
            Ok(envelope) if envelope.len <= self.budget => {
                self.budget -= envelope.len;
                match self.read(envelope) {
                    Ok(salvaged) => {
                        self.offset += envelope.len;
                        return Some(salvaged);
                    }
                    Err(error) => error,
                }
            }
            Ok(_) => Error::Limit {
                chunk: ChunkType::Document,
                what: "attempts to read chunks",
                max: TRIES as u64,
            },
            Err(error) => *error,
        };
        let start = self.offset;
        self.offset = self.next_start(envelope.as_ref().ok());
        Some(Salvaged::Lost { start, end: self.offset, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActorId, ActorIdx, ChangeHeader, ChangeWriter};

    fn change(seq: u32) -> Vec<u8> {
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq,
            start_op: seq,
            time: 0,
            message: Some("a message"),
            deps: Vec::new(),
            extra_bytes: &[],
        };
        let actors = [ActorId::new(&[1])];
        ChangeWriter::new(header, &actors).finish().unwrap().raw_bytes().to_vec()
    }

    /// `c` for each chunk, `l` and the length for a loss.
    fn shape(bytes: &[u8]) -> String {
        let shape = salvage(bytes, &Limits::default()).map(|salvaged| match salvaged {
            Salvaged::Chunk { .. } => "c".to_owned(),
            Salvaged::Unordered { .. } => "u".to_owned(),
            Salvaged::Lost { start, end, .. } => format!("l{}", end - start),
        });
        shape.collect()
    }

    #[test]
    fn goes_on_behind_what_cannot_be_read() {
        let (one, two) = (change(1), change(2));
        assert_eq!(shape(&[]), "");
        assert_eq!(shape(&[one.clone(), two.clone()].concat()), "cc");
        assert_eq!(shape(&[one.clone(), b"junk".to_vec(), two.clone()].concat()), "cl4c");
        assert_eq!(shape(&one[..one.len() - 1]), format!("l{}", one.len() - 1));
        let mut bad = one.clone();
        *bad.last_mut().unwrap() ^= 1;
        let lost = format!("l{}c", bad.len());
        assert_eq!(shape(&[bad, two.clone()].concat()), lost);
        // A length into the next chunk.
        let mut long = one.clone();
        long[9] += 3;
        assert_eq!(shape(&[long, two].concat()), lost);
    }

    #[test]
    fn bytes_that_look_like_many_chunks_cost_no_more_than_they_may() {
        let mut bytes = Vec::new();
        for _ in 0..5_000 {
            bytes.extend_from_slice(&MAGIC);
            bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0x80, 0x80, 1]);
        }
        bytes.resize(bytes.len() + (1 << 15), 0);
        assert!(salvage(&bytes, &Limits::default()).all(|s| matches!(s, Salvaged::Lost { .. })));
    }
}
