//! Rebuilding the changes of a document chunk. Ops are kept there apart from their changes.
//!
//! The ops superseded by an op are the reverse of `succ`. An id in `succ` without a row is the id
//! of a delete, with the object and key of the deleted op. Runs of ops are counted into their
//! changes, and each change is encoded column by column into a buffer shared with its neighbours,
//! or, for a single keystroke, by filling in one before.
//!
//! A hash covers the hashes of the dependencies, so hashing goes change after change. Encoding does
//! not: on several cores, some changes are encoded while earlier ones are hashed.

use std::ops::Range;

use rayon::prelude::*;

use super::{DocumentChunk, in_part};
use crate::chunk::change::{Canonical, Entry, Store};
use crate::chunk::header::{self};
use crate::{Change, ChangeHash, ChunkType, Error, Fault};

mod encode;
mod slots;

use encode::{Batch, Encoder, Parts, Shape};
use slots::Slots;

/// The comparison of the heads of rebuilt changes with the stored heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// They are; a difference is an error.
    Heads,
    /// Skipped, for rescuing: hashes may then differ from the authors'.
    Nothing,
    /// They are when a hash or a change is asked for. Where changes are asked for at once this is
    /// [`Heads`](Self::Heads).
    Later,
}

/// The result of rebuilding and hashing changes.
#[derive(Debug)]
pub(crate) struct Hashes {
    /// By row.
    pub(crate) hashes: Vec<ChangeHash>,
}

/// From this many changes or ops on, threads are worth their start.
const PARALLEL_FROM: usize = 1 << 12;

/// How many changes, and about how many ops, are encoded before they are hashed.
const BATCH_CHANGES: usize = 1 << 11;
const BATCH_OPS: u32 = 1 << 14;

impl DocumentChunk {
    /// Rebuilds the changes, in the topological order of their rows. For authors with canonical
    /// encodings, bytes and hashes are theirs.
    ///
    /// Cost: linear in ops and changes; 50 bytes for each run of ops of a change during rebuilding;
    /// one SHA-256 of each change.
    ///
    /// # Errors
    /// When an id is used twice, an op belongs to no change or a change lacks one, a delete has
    /// several keys, an op supersedes rows at another key; [`Error::MismatchingHeads`], if asked
    /// for; [`Error::Limit`].
    pub fn changes(&self, verify: Verify) -> Result<Vec<Change>, Error> {
        let parts = self.parts()?;
        let mut store = Store::default();
        let hashes = self.hash_all(&parts, |batch, hashes| {
            keep(batch, &parts, hashes, &mut store);
        })?;
        if verify != Verify::Nothing {
            self.check_heads(&hashes)?;
        }
        Ok(store.into_changes())
    }

    /// The hashes of the changes; the changes are not kept. Cost: as [`changes`](Self::changes),
    /// less memory.
    pub(crate) fn hashes(&self, verify: Verify) -> Result<Hashes, Error> {
        let hashes = self.hash_all(&self.parts()?, |_, _| {})?;
        if verify != Verify::Nothing {
            self.check_heads(&hashes)?;
        }
        Ok(Hashes { hashes })
    }

    fn parts(&self) -> Result<Parts<'_>, Error> {
        let slots = Slots::assign(&self.changes, self.actors.len(), &self.ops)?;
        let (actors, changes, rows) = (&*self.actors, &*self.changes, &self.ops);
        Ok(Parts { actors, changes, rows, payloads: &self.payloads, slots })
    }

    /// Encodes all changes and hashes them; `visit` gets each batch and all hashes so far.
    fn hash_all(
        &self,
        parts: &Parts<'_>,
        mut visit: impl FnMut(&Batch, &[ChangeHash]) + Send,
    ) -> Result<Vec<ChangeHash>, Error> {
        let mut hashes = Vec::with_capacity(self.change_count());
        let mut budget = self.source.limits.max_rebuilt_bytes;
        let mut seal = |batch: &mut Batch, hashes: &mut Vec<ChangeHash>| {
            budget = budget.checked_sub(batch.bytes.len() as u64)?;
            seal(batch, parts, hashes);
            visit(batch, hashes);
            Some(budget)
        };
        let too_many = Error::Limit {
            chunk: ChunkType::Document,
            what: "bytes of rebuilt changes",
            max: self.source.limits.max_rebuilt_bytes,
        };
        let mut left = self.source.limits.max_rebuilt_bytes;
        let is_large = self.change_count() > 1
            && self.change_count().max(parts.slots.op_count()) >= PARALLEL_FROM;
        // Batches side by side do not know of each other, so they share no budget.
        let is_harmless = parts.text_bytes() <= left / 2;
        let threads = rayon::current_num_threads();
        if !(is_large && is_harmless && threads > 1) {
            let (mut encoder, mut batch, mut next) = (Encoder::default(), Batch::default(), 0);
            while let Some(range) = parts.batch_from(next) {
                next = range.end;
                batch.clear();
                encoder.encode_all(parts, range, left, &mut batch).ok_or(too_many)?;
                left = seal(&mut batch, &mut hashes).ok_or(too_many)?;
            }
            return Ok(hashes);
        }
        let mut next = 0;
        // Batches, each with its encoder: the buffers go from round to round.
        let mut ready: Vec<(Encoder, Batch)> = Vec::new();
        let mut filling: Vec<(Encoder, Batch)> = Vec::new();
        loop {
            let mut ranges = Vec::with_capacity(threads);
            while ranges.len() < threads
                && let Some(range) = parts.batch_from(next)
            {
                next = range.end;
                ranges.push(range);
            }
            if ranges.is_empty() && ready.is_empty() {
                return Ok(hashes);
            }
            filling.resize_with(ranges.len(), Default::default);
            let encode = |((encoder, batch), range): (&mut (Encoder, Batch), Range<usize>)| {
                batch.clear();
                encoder.encode_all(parts, range, left, batch)
            };
            let (sealed, encoded) = rayon::join(
                || ready.iter_mut().try_fold(left, |_, (_, batch)| seal(batch, &mut hashes)),
                || filling.par_iter_mut().zip(ranges).try_for_each(encode),
            );
            left = sealed.ok_or(too_many)?;
            encoded.ok_or(too_many)?;
            std::mem::swap(&mut ready, &mut filling);
        }
    }

    fn check_heads(&self, hashes: &[ChangeHash]) -> Result<(), Error> {
        let heads = self.changes.head_rows().map(|row| hashes[row as usize]);
        let mut heads: Vec<ChangeHash> = heads.collect();
        heads.sort_unstable();
        if heads != *self.heads {
            let unexplained = self.heads.iter().position(|head| heads.binary_search(head).is_err());
            let head = unexplained.unwrap_or(self.heads.len());
            return Err(Error::MismatchingHeads { head: u32::try_from(head).unwrap_or(u32::MAX) });
        }
        let Some(rows) = &self.head_rows else { return Ok(()) };
        for (head, &row) in self.heads.iter().zip(rows) {
            let hash = usize::try_from(row).ok().and_then(|row| hashes.get(row));
            if hash != Some(head) {
                return Err(in_part("head index")(Fault::HeadIndex(row)));
            }
        }
        Ok(())
    }
}

impl Parts<'_> {
    /// The changes from `start` on, encoded together.
    fn batch_from(&self, start: usize) -> Option<Range<usize>> {
        let count = self.changes.len();
        if start >= count {
            return None;
        }
        let most = count.min(start + BATCH_CHANGES);
        let last = self.slots.starts[start].saturating_add(BATCH_OPS);
        let end = start + self.slots.starts[start..most].partition_point(|at| *at <= last);
        Some(start..end.max(start + 1))
    }
}

impl Encoder {
    /// Encodes some changes; `None` when they are more than `max_bytes`.
    fn encode_all(
        &mut self,
        parts: &Parts<'_>,
        range: Range<usize>,
        max_bytes: u64,
        batch: &mut Batch,
    ) -> Option<()> {
        batch.first = range.start;
        for change in range {
            self.encode(parts, change, max_bytes, batch).ok()?;
        }
        Some(())
    }
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.shapes.clear();
        self.others.clear();
    }

    /// The shapes of the changes, and where each begins.
    fn shapes(&self) -> impl Iterator<Item = (usize, &Shape)> {
        let starts = std::iter::once(0).chain(self.shapes.iter().map(|shape| shape.end));
        starts.zip(&self.shapes)
    }
}

/// Fills in the hashes of the dependencies, hashes the changes, and fills in their checksums.
fn seal(batch: &mut Batch, parts: &Parts<'_>, hashes: &mut Vec<ChangeHash>) {
    let Batch { bytes, shapes, .. } = batch;
    let mut start = 0;
    for shape in shapes {
        let chunk = &mut bytes[start..shape.end];
        start = shape.end;
        let deps = parts.changes.deps_at(hashes.len());
        fill_deps(&mut chunk[shape.deps as usize..], deps, hashes);
        hashes.push(header::seal(chunk));
    }
}

/// Writes the dependencies in the order of their rows in the document.
fn fill_deps(places: &mut [u8], deps: &[u32], hashes: &[ChangeHash]) {
    for (place, &dep) in places.as_chunks_mut::<32>().0.iter_mut().zip(deps) {
        *place = hashes[dep as usize].0;
    }
}

/// Keeps sealed changes.
fn keep(batch: &Batch, parts: &Parts<'_>, hashes: &[ChangeHash], store: &mut Store) {
    let base = store.raw_len();
    let mut others_start = 0;
    for ((start, shape), row) in batch.shapes().zip(batch.first..) {
        let changes = parts.changes;
        let author = changes.actors[row].0;
        let others = &batch.others[others_start..shape.others_end];
        others_start = shape.others_end;
        let actors = std::iter::once(&author).chain(others);
        let actors = store.add_actors(actors.map(|actor| &parts.actors[*actor as usize]));
        let deps = store.add_deps(changes.deps_at(row).iter().map(|dep| hashes[*dep as usize]));
        store.add(Entry {
            hash: hashes[row],
            start: base + start,
            len: u32::try_from(shape.end - start).expect("a chunk is smaller than 4 GiB"),
            actors,
            deps,
            seq: changes.seqs[row],
            start_op: parts.slots.start_ops[row],
            op_count: parts.slots.starts[row + 1] - parts.slots.starts[row],
            time: changes.times[row],
            message: shape.message,
            extra: shape.extra,
            column_table: shape.column_table,
            canonical: Canonical::known(),
        });
    }
    store.add_raw(&batch.bytes);
}
