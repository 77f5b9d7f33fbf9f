//! Changes of one keystroke like an earlier one of their author: the earlier bytes are reused, and
//! the differing numbers put in, where these take as many bytes as before.

use super::super::super::op_table::Segment;
use super::super::slots::{OpRun, Preds};
use super::{Batch, Parts, Shape};
use crate::chunk::op_one::{Number, Places};
use crate::column::leb128::{sleb_len, uleb_len};

/// The changes encoded last: an insert and a delete of each of some authors.
#[derive(Default)]
pub(super) struct Stencils {
    slots: [Option<Stencil>; 2 * AUTHORS],
}

/// How many authors share no place.
const AUTHORS: usize = 4;

/// A change as a pattern for others.
pub(super) struct Stencil {
    /// The chunk, without the hashes of the dependencies and the checksum.
    pub(super) bytes: Vec<u8>,
    /// The shape, without meaningful ends.
    pub(super) shape: Shape,
    pub(super) others: Vec<u32>,
    pub(super) author: u32,
    pub(super) dep_count: usize,
    /// The segment of the op, or of the deleted op.
    pub(super) segment: Segment,
    pub(super) seq: Number,
    pub(super) start_op: Number,
    pub(super) time: Number,
    /// The begin of the columns, and the differing places in them.
    pub(super) columns: usize,
    pub(super) places: Places,
}

impl Stencils {
    /// The place of a change's stencil.
    pub(super) fn of(&mut self, author: u32, is_delete: bool) -> &mut Option<Stencil> {
        &mut self.slots[author as usize % AUTHORS * 2 + usize::from(is_delete)]
    }

    /// The change of a row, with `run` as its only op, if there is a stencil for it.
    #[inline]
    pub(super) fn fill(
        &mut self,
        parts: &Parts<'_>,
        change: usize,
        run: &OpRun,
    ) -> Option<&Stencil> {
        let author = parts.changes.actors[change].0;
        let stencil = self.of(author, run.is_delete()).as_mut()?;
        stencil.fill(parts, change, run).then_some(&*stencil)
    }
}

impl Stencil {
    /// Makes the chunk the chunk of another change; false for a change not alike.
    fn fill(&mut self, parts: &Parts<'_>, change: usize, run: &OpRun) -> bool {
        let Parts { changes, rows, slots, .. } = parts;
        let segment = rows.segment(run.place);
        let is_alike = run.len == 1
            && !matches!(run.preds, Preds::Listed { .. })
            && changes.actors[change].0 == self.author
            && changes.deps_at(change).len() == self.dep_count
            && segment.is_like(&self.segment)
            && changes.message(change).is_empty()
            && changes.extra(change).is_empty();
        if !is_alike {
            return false;
        }
        let (seq, start_op) = (u64::from(changes.seqs[change]), u64::from(slots.start_ops[change]));
        let time = changes.times[change];
        let is_delete = run.is_delete();
        let id = rows.id(run.place).counter;
        let key = if is_delete && segment.insert { id } else { rows.key_counter(run.place) };
        let (key, pred) = (i64::from(key), i64::from(id));
        let fits = self.seq.len() == uleb_len(seq)
            && self.start_op.len() == uleb_len(start_op)
            && self.time.len() == sleb_len(time)
            && self.places.key.len() == sleb_len(key)
            && (!is_delete || self.places.pred.len() == sleb_len(pred));
        if !fits {
            return false;
        }
        let bytes = &mut self.bytes[..];
        self.seq.put(bytes, seq);
        self.start_op.put(bytes, start_op);
        self.time.put(bytes, time.cast_unsigned());
        let columns = &mut bytes[self.columns..];
        self.places.key.put(columns, key.cast_unsigned());
        if is_delete {
            self.places.pred.put(columns, pred.cast_unsigned());
        } else {
            let payload = rows.payloads(parts.payloads, run.place, 1);
            let start = self.places.payload;
            columns[start..start + payload.len()].copy_from_slice(payload);
        }
        true
    }

    /// Appends the chunk.
    #[inline]
    pub(super) fn write(&self, batch: &mut Batch) {
        batch.bytes.extend_from_slice(&self.bytes);
        batch.others.extend_from_slice(&self.others);
        let (end, others_end) = (batch.bytes.len(), batch.others.len());
        batch.shapes.push(Shape { end, others_end, ..self.shape });
    }
}
