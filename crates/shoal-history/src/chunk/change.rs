//! A change: a sealed batch of ops by one actor (format: change chunk). Its bytes are kept as
//! they came, for they are what the hash covers, what is stored and what is sent.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::compressed::{self, InflateError};
use super::header::{self, ChunkType, Envelope};
use super::op_rows::{self, Body, COLUMN_COUNT, OpColumns, OpReader, Row, RowValue};
use super::op_runs::RunRows;
use crate::column::leb128::Reader;
use crate::column::spec;
use crate::column::value::RawValue;
use crate::error::ColumnFault;
use crate::{
    Action, ActorId, ActorIdx, ChangeHash, DeleteRun, Error, Fault, Limits, Op, OpId, TextRun,
};

mod author;
mod few;
mod store;
mod write;

pub(crate) use store::{Canonical, Entry, Span, Store};
pub use write::{ChangeBuffers, ChangeHeader, ChangeWriter};
pub(crate) use write::{ChangeEncoder, Meta};

/// A chunk of more bytes than this is handed out deflated by [`Change::bytes`].
const DEFLATE_ABOVE: usize = 256;

/// A change, parsed and valid. Cheap to clone. Changes that were read together share memory, which
/// lives as long as one of them.
///
/// Valid means: its bytes are well formed and its ops refer to earlier ones only. What the ops
/// refer to need not exist; that is for whoever applies them to check.
#[derive(Clone)]
pub struct Change {
    store: Arc<Store>,
    at: u32,
}

impl Change {
    /// Reads the one change or compressed change chunk that `bytes` are, with the default limits.
    ///
    /// # Errors
    /// When it is something else, or invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let envelope = Envelope::read(bytes)?;
        if envelope.len < bytes.len() {
            let left = (bytes.len() - envelope.len) as u64;
            return Err(Error::Envelope { fault: Fault::Leftover(left) });
        }
        let mut store = Store::default();
        store.read(bytes, &envelope, &Limits::default())?;
        Ok(store.into_change())
    }

    /// The name of the change.
    pub fn hash(&self) -> ChangeHash {
        self.entry().hash
    }

    /// Who made it.
    pub fn actor(&self) -> &ActorId {
        &self.actors()[0]
    }

    /// The table that the [`ActorIdx`]s in [`ops`](Self::ops) index: the author, then the others
    /// that the ops refer to.
    pub fn actors(&self) -> &[ActorId] {
        &self.store.actors.as_slice()[self.entry().actors.range()]
    }

    /// The number of this change among those of its actor, from 1.
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

    /// Whether it has no ops.
    pub fn is_empty(&self) -> bool {
        self.entry().op_count == 0
    }

    /// The changes it was made on top of, in the order of its bytes (authors sort them).
    pub fn deps(&self) -> &[ChangeHash] {
        &self.store.deps.as_slice()[self.entry().deps.range()]
    }

    /// When it was made, as its author tells: seconds since the Unix epoch by custom.
    pub fn time(&self) -> i64 {
        self.entry().time
    }

    /// What its author said of it.
    pub fn message(&self) -> Option<&str> {
        let bytes = self.slice(self.entry().message);
        let text = std::str::from_utf8(bytes).expect("a change's message was checked to be utf-8");
        (!text.is_empty()).then_some(text)
    }

    /// Bytes after the ops that this version gives no meaning; part of what is hashed.
    pub fn extra_bytes(&self) -> &[u8] {
        self.slice(self.entry().extra)
    }

    /// The change chunk, not compressed: what the hash covers, what is stored and sent.
    pub fn raw_bytes(&self) -> &[u8] {
        let entry = self.entry();
        &self.store.raw[entry.start..entry.start + entry.len as usize]
    }

    /// The chunk as it is handed to people: a compressed change chunk when
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

    /// Whether this is how a document chunk gives the change back: canonically encoded, and without
    /// anything that a document has no place for. Changes that [`ChangeWriter`] made are, as far as
    /// their deletes delete something. One that is not must be stored as it is, in a chunk of its
    /// own, lest its hash change. Cost: for a change that was read from bytes, encoding it once more
    /// the first time.
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

/// The same bytes, that is the same hash.
impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for Change {}

/// The ops of a change. Lends each op, so it is no `Iterator`.
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
            Some(RunRows::Text(run)) => Some(ChangeRows::Text(run)),
            Some(RunRows::Deletes(run)) => Some(ChangeRows::Deletes(run)),
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

/// One op of a change, or some that are a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangeRows<'a> {
    /// One op.
    Op(Op<'a>),
    /// Typed text.
    Text(TextRun<'a>),
    /// Deleted elements.
    Deletes(DeleteRun),
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

/// The length of an actor table of a chunk, which is below 4 GiB.
pub(crate) fn actor_count(actors: &[ActorId]) -> u32 {
    u32::try_from(actors.len()).expect("a chunk names fewer than 2^32 actors")
}

impl Store {
    /// Adds the change that a change or compressed change chunk holds. `bytes` begin with the
    /// chunk, whose envelope is `envelope`.
    ///
    /// # Errors
    /// When it is another chunk, or invalid; nothing is added then.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        envelope: &Envelope<'_>,
        limits: &Limits,
    ) -> Result<(), Error> {
        let (raw_len, actors_len, deps_len) = (self.raw.len(), self.actors.len(), self.deps.len());
        envelope.check_len(limits)?;
        let result = match envelope.chunk_type {
            ChunkType::Change => check(bytes, envelope).and_then(|hash| {
                // The length may be written in one way only, so these are the bytes that a writer
                // would write.
                self.raw.extend_from_slice(&bytes[..envelope.len]);
                self.parse(raw_len, envelope.len - envelope.body.len(), hash, limits)
            }),
            ChunkType::CompressedChange => self.inflate(envelope, limits),
            chunk => Err(Error::Unsupported { chunk }),
        };
        if result.is_err() {
            self.raw.truncate(raw_len);
            self.actors.truncate(actors_len);
            self.deps.truncate(deps_len);
        }
        result
    }

    /// Adds a compressed change: its checksum is that of the change it stands for.
    fn inflate(&mut self, envelope: &Envelope<'_>, limits: &Limits) -> Result<(), Error> {
        let chunk = ChunkType::CompressedChange;
        let max = limits.max_decompressed_bytes.min(u64::from(u32::MAX));
        let mut body = Vec::new();
        compressed::inflate(envelope.body, max, &mut body).map_err(|error| match error {
            InflateError::Fault(fault) => {
                Error::Corrupt { chunk, part: "deflated body", row: None, fault }
            }
            InflateError::TooLong => Error::Limit { chunk, what: "inflated bytes", max },
        })?;
        let hash = header::hash(ChunkType::Change, &body);
        if !hash.0.starts_with(&envelope.checksum) {
            return Err(Error::Envelope { fault: Fault::Checksum });
        }
        let start = self.raw.len();
        header::write(ChunkType::Change, hash, &body, &mut self.raw);
        self.parse(start, self.raw.len() - start - body.len(), hash, limits)
    }

    /// Reads the chunk that the raw bytes end with.
    fn parse(
        &mut self,
        start: usize,
        body_start: usize,
        hash: ChangeHash,
        limits: &Limits,
    ) -> Result<(), Error> {
        let raw = &self.raw[start..];
        let mut reader = Reader::new(&raw[body_start..]);
        let at = |reader: &Reader<'_>| raw.len() - reader.len();
        let dep_count = reader.count(32).map_err(in_part("deps"))?;
        let deps_start = self.deps.len();
        for _ in 0..dep_count {
            self.deps.push(reader.hash().map_err(in_part("deps"))?);
        }
        let deps = Span::new(deps_start..self.deps.len());
        let author = reader.length_prefixed().map_err(in_part("actor"))?;
        let seq = reader.u32_minimal().and_then(nonzero).map_err(in_part("seq"))?;
        let start_op = reader.u32_minimal().and_then(nonzero).map_err(in_part("start op"))?;
        let time = reader.sleb_minimal().map_err(in_part("time"))?;
        let message = reader.length_prefixed().map_err(in_part("message"))?;
        if std::str::from_utf8(message).is_err() {
            return Err(in_part("message")(Fault::NotUtf8));
        }
        let message = Span::new(at(&reader) - message.len()..at(&reader));
        let other_count = reader.count(1).map_err(in_part("other actors"))?;
        if other_count as u64 >= u64::from(limits.max_actors) {
            let max = u64::from(limits.max_actors);
            return Err(Error::Limit { chunk: ChunkType::Change, what: "actors", max });
        }
        let mut others = reader.clone();
        for _ in 0..other_count {
            reader.length_prefixed().map_err(in_part("other actors"))?;
        }
        let others = std::iter::repeat_with(move || others.length_prefixed().unwrap_or_default());
        let table = std::iter::once(author).chain(others.take(other_count));
        let actors = store::intern(&self.entries, &mut self.actors, table, other_count + 1);

        let column_table = u32::try_from(at(&reader)).expect("a chunk is smaller than 4 GiB");
        let mut deflated = None;
        let mut ranges = [const { 0..0 }; COLUMN_COUNT];
        let data_len = spec::each_column(&mut reader, |spec, range| {
            if spec.is_deflated() && deflated.is_none() {
                deflated = Some(spec.0);
            } else if let Some(index) = op_rows::change_column(spec) {
                ranges[index] = range;
            }
        });
        let data_len = data_len.map_err(in_part("column table"))?;
        let data = reader.bytes(data_len).map_err(in_part("columns"))?;
        if let Some(spec) = deflated {
            return Err(in_part("column table")(Fault::ColumnDeflated(spec)));
        }
        let extra = Span::new(at(&reader)..raw.len());

        let columns = ranges.map(|range| &data[range]);
        let counts =
            op_rows::count_rows(&columns).map_err(|fault| fault.in_chunk(ChunkType::Change))?;
        let max = u64::from(limits.max_ops);
        for (what, count) in [("ops", counts.ops), ("preds", counts.links)] {
            if count > max {
                return Err(Error::Limit { chunk: ChunkType::Change, what, max });
            }
        }
        let op_count = u32::try_from(counts.ops)
            .ok()
            .filter(|&count| (start_op - 1).checked_add(count).is_some())
            .ok_or_else(|| {
                let last = u64::from(start_op).saturating_add(counts.ops);
                in_part("start op")(Fault::Beyond32Bits(last))
            })?;
        check_ops(ChangeOps::new(
            &columns,
            &self.actors.as_slice()[actors.range()],
            start_op,
            op_count,
        ))?;
        self.entries.push(Entry {
            hash,
            start,
            len: u32::try_from(raw.len()).expect("a chunk is smaller than 4 GiB"),
            actors,
            deps,
            seq,
            start_op,
            op_count,
            time,
            message,
            extra,
            column_table,
            canonical: Canonical::default(),
        });
        Ok(())
    }
}

/// The hash of a change chunk, which its checksum must begin.
fn check(bytes: &[u8], envelope: &Envelope<'_>) -> Result<ChangeHash, Error> {
    let hash = header::hash_of_chunk(&bytes[..envelope.len]);
    if hash.0.starts_with(&envelope.checksum) {
        Ok(hash)
    } else {
        Err(Error::Envelope { fault: Fault::Checksum })
    }
}

/// The columns of the ops in a chunk that has been read. Columns that are not known stay in the
/// bytes, and are not read.
fn columns(raw: &[u8], column_table: u32) -> OpColumns<'_> {
    let mut reader = Reader::new(&raw[column_table as usize..]);
    let mut ranges = [const { 0..0 }; COLUMN_COUNT];
    spec::each_column(&mut reader, |spec, range| {
        if let Some(index) = op_rows::change_column(spec) {
            ranges[index] = range;
        }
    })
    .expect("the table was read when it was parsed");
    let data = &raw[raw.len() - reader.len()..];
    ranges.map(|range| &data[range])
}

/// Reads every op once, so that reading them again cannot fail.
fn check_ops(mut ops: ChangeOps<'_>) -> Result<(), Error> {
    let start = ops.next;
    while ops.next < ops.end {
        let row = u32::try_from(ops.next - start).expect("a change has fewer than 2^32 ops");
        let at_row = |fault: ColumnFault| fault.at_row(ChunkType::Change, row);
        if ops.next_run().map_err(at_row)?.is_some() {
            continue;
        }
        let id = op_id(ops.next).expect("the greatest id was checked");
        let body = ops.rows.next(&mut ops.links).map_err(at_row)?;
        body.check(id).map_err(at_row)?;
        check_preds(&mut ops.links, id, ops.actors).map_err(at_row)?;
        ops.next += 1;
    }
    ops.rows.finish().map_err(|fault| fault.in_chunk(ChunkType::Change))
}

/// Checks that the ops in `links` are before `id` and differ; sorts them.
pub(crate) fn check_preds(
    links: &mut [OpId],
    id: OpId,
    actors: &[ActorId],
) -> Result<(), ColumnFault> {
    if links.is_empty() {
        return Ok(());
    }
    let column = op_rows::NAMES[op_rows::LINK_COUNTER];
    if let Some(link) = links.iter().find(|link| link.counter >= id.counter) {
        return Err(ColumnFault { column, fault: Fault::NotBefore(link.counter) });
    }
    if links.len() > 1 {
        sort_links(links, actors);
    }
    match links.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ColumnFault { column, fault: Fault::RepeatedLink(pair[0].counter) }),
        None => Ok(()),
    }
}

fn nonzero(value: u32) -> Result<u32, Fault> {
    if value == 0 { Err(Fault::OutOfRange(0)) } else { Ok(value) }
}

fn in_part(part: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| Error::Corrupt { chunk: ChunkType::Change, part, row: None, fault }
}

#[cfg(test)]
mod tests;
