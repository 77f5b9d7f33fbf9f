//! The body of a change chunk, written here and nowhere else (format: change chunk).
//!
//! ```text
//! dependencies      count, then hashes
//! author            length-prefixed
//! seq, start op     unsigned
//! time              signed
//! message           length-prefixed
//! other actors      count, then each length-prefixed, ascending
//! op columns        table, then data
//! extra bytes       to the end
//! ```
//!
//! Two encoders make the columns: [`ChangeEncoder`](super::ChangeEncoder) from ops one by one, the
//! rebuilding of a document chunk from its flat tables.

use std::ops::Range;

use super::Span;
use crate::chunk::columns::{CHANGE_SPECS, COLUMN_COUNT};
use crate::chunk::header::{self};
use crate::column::leb128::{write_length_prefixed, write_sleb, write_uleb};
use crate::column::spec;
use crate::{ActorId, ChangeHash, ChunkType};

/// The parts of a change besides columns and other actors.
pub(crate) struct Frame<'a> {
    pub(crate) deps: Deps<'a>,
    pub(crate) author: &'a ActorId,
    pub(crate) seq: u32,
    pub(crate) start_op: u32,
    pub(crate) time: i64,
    pub(crate) message: &'a str,
    pub(crate) extra_bytes: &'a [u8],
}

/// The dependencies, in stored order.
#[derive(Clone, Copy)]
pub(crate) enum Deps<'a> {
    Known(&'a [ChangeHash]),
    /// So many; zeros are written until the hashes are known.
    Open(usize),
}

/// The columns of a change, encoded.
#[derive(Clone, Copy)]
pub(crate) enum Columns<'a> {
    /// Table and data in one piece, by [`op_one`](crate::chunk::op_one).
    OneOp(&'a [u8]),
    /// The length of each column, and the data of all: in any number of pieces.
    Encoded { lens: [usize; COLUMN_COUNT], data: &'a [&'a [u8]] },
}

impl Columns<'_> {
    /// Appends the table. Empty columns, as all are without ops, are not listed.
    fn write_table(&self, out: &mut Vec<u8>) {
        if let Self::Encoded { lens, .. } = self {
            spec::write_table(CHANGE_SPECS.into_iter().zip(*lens), out);
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Self::OneOp(bytes) => bytes.len(),
            Self::Encoded { lens, .. } => lens.iter().sum(),
        }
    }

    fn write_data(&self, out: &mut Vec<u8>) {
        match self {
            Self::OneOp(bytes) => out.extend_from_slice(bytes),
            Self::Encoded { data, .. } => data.iter().for_each(|data| out.extend_from_slice(data)),
        }
    }

    /// Table and data in one piece, for comparing two encoders.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_table(&mut out);
        self.write_data(&mut out);
        out
    }
}

/// The places of the parts in a chunk, counted from its begin.
pub(crate) struct Places {
    pub(crate) deps: u32,
    pub(crate) seq: Range<usize>,
    pub(crate) start_op: Range<usize>,
    pub(crate) time: Range<usize>,
    pub(crate) message: Span,
    pub(crate) column_table: u32,
    pub(crate) extra: Span,
}

impl Frame<'_> {
    /// Appends the chunk to `out`, with a checksum of zeros; `None`, and nothing appended, for a
    /// chunk of more than `room` bytes or 4 GiB. `buffer` is overwritten.
    #[inline]
    pub(crate) fn write<'a>(
        &self,
        others: impl ExactSizeIterator<Item = &'a ActorId>,
        columns: Columns<'_>,
        room: usize,
        buffer: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Option<Places> {
        buffer.clear();
        let dep_count = match self.deps {
            Deps::Known(deps) => deps.len(),
            Deps::Open(count) => count,
        };
        write_uleb(dep_count as u64, buffer);
        let deps = buffer.len();
        match self.deps {
            Deps::Known(deps) => deps.iter().for_each(|dep| buffer.extend_from_slice(&dep.0)),
            Deps::Open(count) => buffer.resize(deps + count * size_of::<ChangeHash>(), 0),
        }
        write_length_prefixed(self.author.as_bytes(), buffer);
        let seq = buffer.len();
        write_uleb(u64::from(self.seq), buffer);
        let start_op = buffer.len();
        write_uleb(u64::from(self.start_op), buffer);
        let time = buffer.len();
        write_sleb(self.time, buffer);
        let time_end = buffer.len();
        write_length_prefixed(self.message.as_bytes(), buffer);
        let message_end = buffer.len();
        write_uleb(others.len() as u64, buffer);
        others.for_each(|actor| write_length_prefixed(actor.as_bytes(), buffer));
        let column_table = buffer.len();
        columns.write_table(buffer);

        let body_len = buffer.len() + columns.data_len() + self.extra_bytes.len();
        let header_len = header::header_len(body_len);
        let len = header_len + body_len;
        if len > room || u32::try_from(len).is_err() {
            return None;
        }
        out.reserve(len);
        header::write_header(ChunkType::Change, ChangeHash([0; 32]), body_len, out);
        out.extend_from_slice(buffer);
        columns.write_data(out);
        out.extend_from_slice(self.extra_bytes);
        let place = |at: usize| (header_len + at) as u32;
        let range = |start: usize, end: usize| header_len + start..header_len + end;
        Some(Places {
            deps: place(deps),
            seq: range(seq, start_op),
            start_op: range(start_op, time),
            time: range(time, time_end),
            message: Span::new(range(message_end - self.message.len(), message_end)),
            column_table: place(column_table),
            extra: Span::new(len - self.extra_bytes.len()..len),
        })
    }
}
