//! The envelope of a chunk: magic, checksum, type, length (format: chunk envelope).

use std::ops::Range;

use sha2::block_api::compress256;
use sha2::{Digest, Sha256};

use crate::column::leb128::{Reader, uleb_len, write_uleb};
use crate::{ChangeHash, ChunkType, Error, Fault, Limits};

pub(crate) const MAGIC: [u8; 4] = [0x85, 0x6f, 0x4a, 0x83];

/// How many bytes DEFLATE can make of one: 258 of two bits.
const DEFLATE_MOST: u64 = 1032;

/// A chunk with only the envelope read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) chunk_type: ChunkType,
    pub(crate) checksum: [u8; 4],
    pub(crate) body: &'a [u8],
    /// The length of the whole chunk.
    pub(crate) len: usize,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of the chunk at the begin of `bytes`. The checksum is not checked.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::read_parts(bytes).map_err(|fault| Error::Envelope { fault })
    }

    fn read_parts(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes);
        let magic = reader.bytes(MAGIC.len().min(bytes.len()))?;
        if !MAGIC.starts_with(magic) {
            return Err(Fault::Magic);
        }
        if magic.len() < MAGIC.len() {
            return Err(Fault::Truncated);
        }
        let mut checksum = [0; 4];
        checksum.copy_from_slice(reader.bytes(4)?);
        let code = reader.byte()?;
        let chunk_type = ChunkType::from_code(code).ok_or(Fault::ChunkType(code))?;
        let body = reader.length_prefixed()?;
        // Offsets into a body are kept in 32 bits.
        if u32::try_from(body.len()).is_err() {
            return Err(Fault::Beyond32Bits(body.len() as u64));
        }
        Ok(Self { chunk_type, checksum, body, len: bytes.len() - reader.len() })
    }

    /// The most bytes the body can be inflated to: none, unless a compressed change.
    pub(crate) fn inflated_at_most(&self) -> u64 {
        match self.chunk_type {
            ChunkType::CompressedChange => self.body.len() as u64 * DEFLATE_MOST,
            _ => 0,
        }
    }

    /// Checks the length of the chunk against the limit.
    pub(crate) fn check_len(&self, limits: &Limits) -> Result<(), Error> {
        let max = limits.max_chunk_bytes;
        if self.len as u64 <= max {
            Ok(())
        } else {
            Err(Error::Limit { chunk: self.chunk_type, what: "bytes", max })
        }
    }

    /// The hash of the chunk, compared with the checksum.
    ///
    /// # Errors
    /// For a different checksum.
    pub(crate) fn check(&self) -> Result<ChangeHash, Error> {
        let hash = hash(self.chunk_type, self.body);
        if hash.0.starts_with(&self.checksum) {
            Ok(hash)
        } else {
            Err(Error::Envelope { fault: Fault::Checksum })
        }
    }
}

/// The SHA-256 of a chunk's type, length and body.
pub(crate) fn hash(chunk_type: ChunkType, body: &[u8]) -> ChangeHash {
    let mut prefix = [0; 11];
    prefix[0] = chunk_type as u8;
    let mut length = body.len() as u64;
    let mut end = 1;
    loop {
        prefix[end] = (length & 0x7f) as u8;
        length >>= 7;
        end += 1;
        if length == 0 {
            break;
        }
        prefix[end - 1] |= 0x80;
    }
    let mut sha = Sha256::new();
    sha.update(&prefix[..end]);
    sha.update(body);
    ChangeHash(sha.finalize().into())
}

/// The place of the checksum in a chunk.
const CHECKSUM: Range<usize> = 4..8;

/// The SHA-256 of a chunk's type, length and body, in one piece behind the magic and checksum of
/// `chunk`. Cost: without the buffer of [`hash`].
pub(crate) fn hash_of_chunk(chunk: &[u8]) -> ChangeHash {
    let bytes = &chunk[CHECKSUM.end..];
    let (blocks, rest) = bytes.as_chunks::<64>();
    let mut state = INITIAL_STATE;
    compress256(&mut state, blocks);
    let mut last = [[0; 64]; 2];
    let ends = last.as_flattened_mut();
    ends[..rest.len()].copy_from_slice(rest);
    ends[rest.len()] = 0x80;
    // A block must hold the end mark and eight bytes of length.
    let count = if rest.len() < 56 { 1 } else { 2 };
    let bits = bytes.len() as u64 * 8;
    ends[count * 64 - 8..count * 64].copy_from_slice(&bits.to_be_bytes());
    compress256(&mut state, &last[..count]);
    let mut hash = [0; 32];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    ChangeHash(hash)
}

/// Fills in the checksum of a chunk and returns its hash.
pub(crate) fn seal(chunk: &mut [u8]) -> ChangeHash {
    let hash = hash_of_chunk(chunk);
    chunk[CHECKSUM].copy_from_slice(&hash.0[..CHECKSUM.len()]);
    hash
}

/// The initial state of SHA-256 (FIPS 180-4, 5.3.3).
const INITIAL_STATE: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// How many bytes come before a body of `body_len` bytes.
pub(crate) fn header_len(body_len: usize) -> usize {
    MAGIC.len() + 4 + 1 + uleb_len(body_len as u64)
}

/// Appends a whole chunk. `hash` gives the checksum: for a compressed change not the hash of `body`
/// but of the change.
pub(crate) fn write(chunk_type: ChunkType, hash: ChangeHash, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(header_len(body.len()) + body.len());
    write_header(chunk_type, hash, body.len(), out);
    out.extend_from_slice(body);
}

/// Appends the header before the body of a chunk.
pub(crate) fn write_header(
    chunk_type: ChunkType,
    hash: ChangeHash,
    body_len: usize,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&hash.0[..4]);
    out.push(chunk_type as u8);
    write_uleb(body_len as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 14 bytes of a saved empty document.
    const EMPTY: [u8; 14] =
        [0x85, 0x6f, 0x4a, 0x83, 0xb8, 0x1a, 0x95, 0x44, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00];

    fn fault(bytes: &[u8]) -> Fault {
        match Envelope::read(bytes) {
            Err(Error::Envelope { fault }) => fault,
            other => panic!("not an envelope error: {other:?}"),
        }
    }

    #[test]
    fn both_ways() {
        let mut bytes = EMPTY.to_vec();
        bytes.push(9);
        let envelope = Envelope::read(&bytes).unwrap();
        assert_eq!(envelope.chunk_type, ChunkType::Document);
        assert_eq!(envelope.body, [0; 4]);
        assert_eq!(envelope.len, 14);
        let hash = envelope.check().unwrap();
        let mut out = Vec::new();
        write(ChunkType::Document, hash, envelope.body, &mut out);
        assert_eq!(out, EMPTY);
        assert_eq!(header_len(4), 10);
    }

    #[test]
    fn a_chunk_is_hashed_in_one_piece_or_in_parts() {
        for len in (0..200).chain([16_383, 16_384, 70_000]) {
            let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let expect = hash(ChunkType::Change, &body);
            let mut chunk = Vec::new();
            write(ChunkType::Change, ChangeHash([0; 32]), &body, &mut chunk);
            assert_eq!(hash_of_chunk(&chunk), expect, "{len}");
        }
    }

    #[test]
    fn refusals() {
        for end in 0..EMPTY.len() {
            assert_eq!(fault(&EMPTY[..end]), Fault::Truncated, "{end}");
        }
        for (at, byte, expect) in [
            (0, 0x84, Fault::Magic),
            (3, 0x84, Fault::Magic),
            (8, 4, Fault::ChunkType(4)),
            (9, 5, Fault::Truncated),
        ] {
            let mut bytes = EMPTY;
            bytes[at] = byte;
            assert_eq!(fault(&bytes), expect);
        }
        let mut bytes = EMPTY;
        bytes[4] ^= 1;
        let error = Envelope::read(&bytes).unwrap().check().unwrap_err();
        assert_eq!(error, Error::Envelope { fault: Fault::Checksum });
    }
}
