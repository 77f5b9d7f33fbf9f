//! Automerge chunks with a valid envelope, so that forged bodies get past the checksum.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

/// A document.
pub const DOCUMENT: u8 = 0;
/// A change.
pub const CHANGE: u8 = 1;
/// A deflated change.
pub const COMPRESSED_CHANGE: u8 = 2;

const MAGIC: [u8; 4] = [0x85, 0x6f, 0x4a, 0x83];

/// Returns the chunk of type `kind` whose body is `body` (for a compressed change: whose inflated
/// body), with the right length and checksum.
pub fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update([if kind == COMPRESSED_CHANGE { CHANGE } else { kind }])
        .chain_update(uleb128(body.len()))
        .chain_update(body)
        .finalize();
    let mut chunk = [&MAGIC, &digest[..4], &[kind]].concat();
    let deflated;
    let body = if kind == COMPRESSED_CHANGE {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).expect("a vector takes all");
        deflated = encoder.finish().expect("a vector takes all");
        &deflated
    } else {
        body
    };
    chunk.extend_from_slice(&uleb128(body.len()));
    chunk.extend_from_slice(body);
    chunk
}

/// Splits `bytes` into the type and the body of the first chunk, and the rest. `None` when `bytes`
/// begin with no whole chunk; the checksum is not looked at.
pub fn open(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?.get(4..)?;
    let (&kind, mut rest) = rest.split_first()?;
    let mut length = 0_usize;
    for shift in (0..28).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let (body, tail) = rest.split_at_checked(length)?;
            return Some((kind, body, tail));
        }
    }
    None
}

fn uleb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
