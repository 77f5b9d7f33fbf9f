//! A change: a sealed batch of ops by one actor (format: change chunk). The bytes are kept as
//! received, for they are hashed, stored and sent.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::columns::OpColumns;
use super::compressed;
use super::header::{self, Envelope};
use super::op_one::{self, OneOp};
use super::op_rows::{Body, OpReader, Row, RowValue};
use super::op_runs::RunRows;
use crate::column::value::RawValue;
use crate::error::ColumnFault;
use crate::{Action, ActorId, ActorIdx, ChangeHash, ChunkType, DeleteRun, Key, Op, OpId, TextRun};

mod author;
mod encoder;
mod few;
mod frame;
mod local_actors;
mod read;
mod store;
mod write;

pub(crate) use encoder::{ChangeEncoder, Meta};
pub(crate) use frame::{Columns, Deps, Frame, Places};
use read::columns;
pub(crate) use read::{SHARD_BYTES, check_preds};
pub(crate) use store::{Canonical, Entry, Span, Store};
pub use write::{ChangeBuffers, ChangeHeader, ChangeWriter};

/// A chunk of more bytes than this is handed out deflated by [`Change::bytes`].
const DEFLATE_ABOVE: usize = 256;

/// A change, parsed and valid. Cheap to clone. Changes read together share memory, freed with the
/// last of them.
///
/// Valid means: well-formed bytes, and ops with references to earlier ops only. The existence of
/// referenced ops is checked by the document applying the change.
#[derive(Clone)]
pub struct Change {
    store: Arc<Store>,
    at: u32,
}

impl Change {
    /// The name of the change.
    pub fn hash(&self) -> ChangeHash {
        self.entry().hash
    }

    /// The author.
    pub fn actor(&self) -> &ActorId {
        &self.actors()[0]
    }

    /// The table indexed by the [`ActorIdx`]s in [`ops`](Self::ops): the author, then the other
    /// actors named by the ops.
    pub fn actors(&self) -> &[ActorId] {
        &self.store.actors.as_slice()[self.entry().actors.range()]
    }

    /// The number of this change among the author's, from 1.
    pub fn seq(&self) -> u32 {
        self.entry().seq
    }

    /// The counter of the first op's id; the others follow without holes.
    pub fn start_op(&self) -> u32 {
        self.entry().start_op
    }

    /// The counter of the last op's id, `start_op - 1` when there is no op.
    pub fn max_op(&self) -> u32 {
        // Checked when parsed, in this order because the sum may be 2^32.
        self.entry().start_op - 1 + self.entry().op_count
    }

    /// The number of ops.
    pub fn len(&self) -> usize {
        self.entry().op_count as usize
    }

    /// True without ops.
    pub fn is_empty(&self) -> bool {
        self.entry().op_count == 0
    }

    /// The dependencies, in the order of the bytes (authors sort them).
    pub fn deps(&self) -> &[ChangeHash] {
        &self.store.deps.as_slice()[self.entry().deps.range()]
    }

    /// The time stated by the author: seconds since the Unix epoch by custom.
    pub fn time(&self) -> i64 {
        self.entry().time
    }

    /// The author's message.
    pub fn message(&self) -> Option<&str> {
        let bytes = self.slice(self.entry().message);
        let text = std::str::from_utf8(bytes).expect("a change's message was checked to be utf-8");
        (!text.is_empty()).then_some(text)
    }

    /// Bytes after the ops, without a meaning in this version; part of the hash.
    pub fn extra_bytes(&self) -> &[u8] {
        self.slice(self.entry().extra)
    }

    /// The change chunk, not compressed: hashed, stored and sent.
    pub fn raw_bytes(&self) -> &[u8] {
        let entry = self.entry();
        &self.store.raw[entry.start..entry.start + entry.len as usize]
    }

    /// The chunk for files and people: a compressed change chunk when
    /// [`raw_bytes`](Self::raw_bytes) are more than 256. Cost: then one deflate.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let raw = self.raw_bytes();
        if raw.len() <= DEFLATE_ABOVE {
            return Cow::Borrowed(raw);
        }
        let envelope = Envelope::read(raw).expect("the bytes of a change are a chunk");
        let mut body = Vec::new();
        compressed::deflate(envelope.body, &mut body);
        let mut out = Vec::new();
        header::write(ChunkType::CompressedChange, self.hash(), &body, &mut out);
        Cow::Owned(out)
    }

    /// True if a document chunk gives the change back in the same bytes: canonically encoded, and
    /// without anything foreign to documents. True for changes of [`ChangeWriter`], as far as their
    /// deletes delete something. Any other change must be stored in a chunk of its own, lest its
    /// hash change. Cost: for a change read from bytes, one encoding the first time.
    pub fn is_canonical(&self) -> bool {
        self.entry().canonical.get_or(|| self.encodes_to_itself())
    }

    fn encodes_to_itself(&self) -> bool {
        let mut encoder = ChangeEncoder::default();
        encoder.begin(ActorIdx(0));
        let mut ops = self.ops();
        for _ in 0..self.len() {
            let body = ops.next_body();
            if body.action == Action::Delete {
                let empty = body.value == RawValue::NULL && body.mark_name.is_none();
                if ops.links.is_empty() || body.insert || body.expand || !empty {
                    return false;
                }
            }
            let Body { obj, key, insert, action, value, expand, mark_name } = body;
            let value = RowValue::Raw(value);
            let row = Row { obj, key, insert, action, value, expand, mark_name };
            encoder.push(&row, ops.links.iter().copied());
        }
        let meta = Meta {
            seq: self.seq(),
            start_op: self.start_op(),
            time: self.time(),
            message: self.message().unwrap_or_default(),
            deps: self.deps().to_vec(),
            extra_bytes: self.extra_bytes(),
        };
        encoder
            .finish(meta, self.actors())
            .is_ok_and(|change| change.raw_bytes() == self.raw_bytes())
    }

    /// The ops, in order. Reading them allocates nothing but room for the longest `pred`.
    pub fn ops(&self) -> ChangeOps<'_> {
        let entry = self.entry();
        let columns = columns(self.raw_bytes(), entry.column_table);
        ChangeOps::new(&columns, self.actors(), entry.start_op, entry.op_count)
    }

    /// The op, if the only one, and of the kinds most common in such changes. `links` is room for
    /// superseded ops. Cost: less than the same op by [`ops`](Self::ops).
    #[inline]
    pub fn only_op<'a>(&'a self, links: &'a mut Vec<OpId>) -> Option<ChangeRows<'a>> {
        let entry = self.entry();
        if entry.op_count != 1 {
            return None;
        }
        let bytes = &self.raw_bytes()[entry.column_table as usize..];
        let id = OpId { counter: entry.start_op, actor: ActorIdx(0) };
        let actor_count = entry.actors.range().len() as u32;
        let put = match op_one::read(bytes, id, actor_count)?.0 {
            OneOp::Run(rows) => return Some(rows.into()),
            OneOp::Put(put) => put,
        };
        links.clear();
        links.extend(put.pred);
        Some(ChangeRows::Op(Op {
            id,
            obj: put.obj,
            key: Key::Map(put.key),
            insert: false,
            action: put.action,
            value: put.value.scalar().ok()?,
            expand: false,
            mark_name: None,
            links,
        }))
    }

    fn entry(&self) -> &Entry {
        &self.store.entries.as_slice()[self.at as usize]
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.raw_bytes()[span.range()]
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("hash", &self.hash())
            .field("actor", self.actor())
            .field("seq", &self.seq())
            .field("start_op", &self.start_op())
            .field("ops", &self.len())
            .finish_non_exhaustive()
    }
}

/// Equal bytes, hence equal hashes.
impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for Change {}

/// The ops of a change. Lends each op, so not an `Iterator`.
#[derive(Clone, Debug)]
pub struct ChangeOps<'a> {
    rows: OpReader<'a>,
    actors: &'a [ActorId],
    next: u64,
    end: u64,
    links: Vec<OpId>,
}

impl<'a> ChangeOps<'a> {
    fn new(columns: &OpColumns<'a>, actors: &'a [ActorId], start_op: u32, op_count: u32) -> Self {
        Self {
            rows: OpReader::new(columns, actor_count(actors)),
            actors,
            next: u64::from(start_op),
            end: u64::from(start_op) + u64::from(op_count),
            links: Vec::new(),
        }
    }

    /// The next op, or `None` after the last.
    pub fn next_op(&mut self) -> Option<Op<'_>> {
        if self.next == self.end {
            return None;
        }
        let body = self.next_body();
        let value = body.value.scalar().expect("the values were read when it was parsed");
        let id = op_id(self.next).expect("the ids were checked when it was parsed");
        self.next += 1;
        let Body { obj, key, insert, action, expand, mark_name, .. } = body;
        let links = &self.links;
        Some(Op { id, obj, key, insert, action, value, expand, mark_name, links })
    }

    /// The next op, or the next ones where they are typing or deleting, or `None` after the last. A
    /// run may continue the one before.
    pub fn next_rows(&mut self) -> Option<ChangeRows<'_>> {
        if self.next == self.end {
            return None;
        }
        let run = self.next_run().expect("the ops were read when it was parsed");
        match run {
            Some(run) => Some(run.into()),
            None => self.next_op().map(ChangeRows::Op),
        }
    }

    fn next_run(&mut self) -> Result<Option<RunRows<'a>>, ColumnFault> {
        let id = op_id(self.next).expect("the ids were checked when it was parsed");
        let run = self.rows.next_run(id, self.end - self.next)?;
        self.next += match &run {
            None => 0,
            Some(RunRows::Text(run)) => u64::from(run.len),
            Some(RunRows::Deletes(run)) => u64::from(run.len),
        };
        Ok(run)
    }

    /// The next row, its links sorted in `self.links`.
    fn next_body(&mut self) -> Body<'a> {
        let body = self.rows.next(&mut self.links).expect("the ops were read when it was parsed");
        if self.links.len() > 1 {
            sort_links(&mut self.links, self.actors);
        }
        body
    }

    /// The next op but for its id, its value not decoded, and its links.
    pub(crate) fn next_raw(&mut self) -> Option<(Body<'a>, &[OpId])> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        let body = self.next_body();
        Some((body, &self.links))
    }

    /// How many ops are left.
    pub fn remaining(&self) -> usize {
        usize::try_from(self.end - self.next).expect("a change has fewer than 2^32 ops")
    }
}

/// One op of a change, or a run of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangeRows<'a> {
    /// One op.
    Op(Op<'a>),
    /// Typed text.
    Text(TextRun<'a>),
    /// Deleted elements.
    Deletes(DeleteRun),
}

impl<'a> From<RunRows<'a>> for ChangeRows<'a> {
    fn from(rows: RunRows<'a>) -> Self {
        match rows {
            RunRows::Text(run) => Self::Text(run),
            RunRows::Deletes(run) => Self::Deletes(run),
        }
    }
}

/// Sorts by counter, then by the bytes of the actor.
fn sort_links(links: &mut [OpId], actors: &[ActorId]) {
    let key = |link: &OpId| (link.counter, &actors[link.actor.as_usize()]);
    if !links.is_sorted_by(|a, b| key(a) <= key(b)) {
        links.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }
}

/// The author's op with this counter.
fn op_id(counter: u64) -> Option<OpId> {
    Some(OpId { counter: u32::try_from(counter).ok()?, actor: ActorIdx(0) })
}

/// The length of an actor table of a chunk below 4 GiB.
pub(crate) fn actor_count(actors: &[ActorId]) -> u32 {
    u32::try_from(actors.len()).expect("a chunk names fewer than 2^32 actors")
}

#[cfg(test)]
mod tests;
