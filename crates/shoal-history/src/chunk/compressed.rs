//! DEFLATE (raw, RFC 1951): compressed changes, and the large columns of documents.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use rayon::prelude::*;

use crate::Fault;

/// Why bytes could not be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InflateError {
    Fault(Fault),
    /// They would be more than the limit.
    TooLong,
}

/// Appends the inflated DEFLATE stream `bytes`, `max_bytes` at most, and returns the length. Memory
/// grows with inflated bytes only, so a bomb costs no more than the limit.
///
/// # Errors
/// When the stream is broken, ends too early, has bytes after its end, or gives too much.
pub(crate) fn inflate(
    bytes: &[u8],
    max_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<usize, InflateError> {
    inflate_with(&mut Decompress::new(false), bytes, max_bytes, out)
}

/// Inflates one stream after the other with the same window and buffer.
pub(crate) struct Inflater {
    stream: Decompress,
    buffer: Vec<u8>,
}

/// A longer buffer is given away instead of copied.
const COPIED_BYTES: usize = 1 << 20;

impl Inflater {
    pub(crate) fn new() -> Self {
        Self { stream: Decompress::new(false), buffer: Vec::new() }
    }

    /// As [`inflate`], into memory of the size needed.
    ///
    /// # Errors
    /// As [`inflate`].
    pub(crate) fn inflate(
        &mut self,
        bytes: &[u8],
        max_bytes: u64,
    ) -> Result<Box<[u8]>, InflateError> {
        self.buffer.clear();
        inflate_with(&mut self.stream, bytes, max_bytes, &mut self.buffer)?;
        if self.buffer.len() > COPIED_BYTES {
            return Ok(std::mem::take(&mut self.buffer).into());
        }
        Ok(self.buffer[..].into())
    }
}

fn inflate_with(
    stream: &mut Decompress,
    bytes: &[u8],
    max_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<usize, InflateError> {
    let start = out.len();
    stream.reset(false);
    loop {
        let read = usize::try_from(stream.total_in()).map_err(|_| InflateError::TooLong)?;
        let rest = bytes.get(read..).unwrap_or_default();
        if out.len() == out.capacity() {
            let done = out.len() - start;
            let grow = bytes.len().saturating_mul(2).clamp(256, 1 << 20).max(done);
            let allowed = max_bytes.saturating_sub(done as u64).saturating_add(1);
            out.reserve_exact(usize::try_from(allowed).unwrap_or(usize::MAX).min(grow));
        }
        let written_before = stream.total_out();
        let status = stream
            .decompress_vec(rest, out, FlushDecompress::None)
            .map_err(|_| InflateError::Fault(Fault::Deflate))?;
        if stream.total_out() > max_bytes {
            return Err(InflateError::TooLong);
        }
        match status {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError => {
                let stuck = stream.total_out() == written_before
                    && stream.total_in() == read as u64
                    && out.len() < out.capacity();
                if stuck {
                    return Err(InflateError::Fault(Fault::Truncated));
                }
            }
        }
    }
    match bytes.len() as u64 - stream.total_in() {
        0 => Ok(out.len() - start),
        left => Err(InflateError::Fault(Fault::Leftover(left))),
    }
}

/// Appends `bytes` deflated, at the reference's level. Long ones are deflated in pieces side by
/// side; each looks back into the one before, so hardly any bytes are added.
pub(crate) fn deflate(bytes: &[u8], out: &mut Vec<u8>) {
    let count = bytes.len() / PIECE;
    if count < 2 {
        return deflate_piece(&[], bytes, true, out);
    }
    let piece = |at: usize| {
        let start = at * PIECE;
        let end = if at + 1 == count { bytes.len() } else { start + PIECE };
        let mut out = Vec::new();
        let before = &bytes[start.saturating_sub(WINDOW)..start];
        deflate_piece(before, &bytes[start..end], at + 1 == count, &mut out);
        out
    };
    let pieces: Vec<Vec<u8>> = (0..count).into_par_iter().map(piece).collect();
    out.reserve(pieces.iter().map(Vec::len).sum());
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// The least piece deflated alone.
const PIECE: usize = 1 << 19;

/// How far back DEFLATE can refer.
const WINDOW: usize = 1 << 15;

thread_local! {
    /// The tables are larger than most inputs.
    static DEFLATE: RefCell<Compress> =
        RefCell::new(Compress::new(Compression::default(), false));
}

/// Appends a piece of a stream; other calls add the pieces before and the end. References into
/// `before` are allowed.
fn deflate_piece(before: &[u8], bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
    let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
    DEFLATE.with_borrow_mut(|stream| {
        stream.reset();
        if !before.is_empty() {
            stream.set_dictionary(before).expect("a new stream takes a dictionary");
        }
        let mut read = 0;
        loop {
            if out.capacity() - out.len() < LEAST_ROOM {
                out.reserve(LEAST_ROOM.max((bytes.len() - read) / 2));
            }
            let total = stream.total_in();
            let status =
                stream.compress_vec(&bytes[read..], out, flush).expect("any bytes can be deflated");
            read += (stream.total_in() - total) as usize;
            let is_flushed = read == bytes.len() && out.len() < out.capacity();
            if status == Status::StreamEnd || (!is_last && is_flushed) {
                return;
            }
        }
    });
}

/// Room for the bytes of a flush, and more.
const LEAST_ROOM: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        deflate(bytes, &mut out);
        out
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = deflated(&vec![0; 64 << 20]);
        let mut out = Vec::new();
        assert_eq!(inflate(&bomb, 1 << 20, &mut out), Err(InflateError::TooLong));
        assert!(out.capacity() <= 4 << 20, "{}", out.capacity());
        assert_eq!(inflate(&deflated(&[7; 300]), 300, &mut Vec::new()), Ok(300));
        assert_eq!(inflate(&deflated(&[7; 300]), 299, &mut Vec::new()), Err(InflateError::TooLong));
    }

    #[test]
    fn pieces_are_one_stream() {
        let mut state = 1_u64;
        let mut next = |at: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A mixture of noise and repetition.
            if at % 97 < 40 { (at / 64 % 251) as u8 } else { (state >> 60) as u8 }
        };
        for len in [2 * PIECE - 1, 2 * PIECE, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..len).map(&mut next).collect();
            let mut out = Vec::new();
            assert_eq!(inflate(&deflated(&bytes), len as u64, &mut out), Ok(len));
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn refusals() {
        let good = deflated(b"hello hello hello hello");
        for end in 0..good.len() {
            assert_eq!(
                inflate(&good[..end], 100, &mut Vec::new()),
                Err(InflateError::Fault(Fault::Truncated)),
                "{end}"
            );
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(
            inflate(&longer, 100, &mut Vec::new()),
            Err(InflateError::Fault(Fault::Leftover(1)))
        );
        assert_eq!(
            inflate(&[0xff; 4], 100, &mut Vec::new()),
            Err(InflateError::Fault(Fault::Deflate))
        );
    }

    proptest! {
        #[test]
        fn both_ways(bytes in proptest::collection::vec(any::<u8>(), 0..3000), repeat in 1_usize..9) {
            let bytes = bytes.repeat(repeat);
            let mut out = vec![1, 2, 3];
            let len = inflate(&deflated(&bytes), bytes.len() as u64, &mut out);
            prop_assert_eq!(len, Ok(bytes.len()));
            prop_assert_eq!(&out[3..], &bytes[..]);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = inflate(&bytes, 1000, &mut Vec::new());
        }
    }
}
