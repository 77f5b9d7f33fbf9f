//! A change: a sealed batch of ops by one actor (format: change chunk). Its bytes are kept as
//! they came, for they are what the hash covers, what is stored and what is sent.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::compressed::{self, InflateError};
use super::header::{self, ChunkType, Envelope};
use super::op_rows::{self, Body, CHANGE_SPECS, COLUMN_COUNT, OpColumns, OpReader, Row, RowValue};
use crate::column::leb128::Reader;
use crate::column::spec;
use crate::column::value::RawValue;
use crate::error::ColumnFault;
use crate::{Action, ActorId, ActorIdx, ChangeHash, Error, Fault, Limits, Op, OpId};

mod write;

pub(crate) use write::{ChangeEncoder, Meta};
pub use write::{ChangeHeader, ChangeWriter};

/// A chunk of more bytes than this is handed out deflated by [`Change::bytes`].
const DEFLATE_ABOVE: usize = 256;

/// A change, parsed and valid. Cheap to clone.
///
/// Valid means: its bytes are well formed and its ops refer to earlier ones only. What the ops
/// refer to need not exist; that is for whoever applies them to check.
#[derive(Clone)]
pub struct Change(Arc<Inner>);

struct Inner {
    raw: Box<[u8]>,
    hash: ChangeHash,
    actors: Box<[ActorId]>,
    deps: Box<[ChangeHash]>,
    seq: u32,
    start_op: u32,
    op_count: u32,
    time: i64,
    message: Span,
    extra: Span,
    columns: [Span; COLUMN_COUNT],
    /// What [`Change::is_canonical`] found.
    canonical: OnceLock<bool>,
}

/// A range of the raw bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
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
        let limits = Limits::default();
        match envelope.chunk_type {
            ChunkType::Change => Self::from_envelope(bytes, &envelope, &limits),
            ChunkType::CompressedChange => Self::from_compressed(&envelope, &limits),
            chunk => Err(Error::Unsupported { chunk }),
        }
    }

    /// Reads the change chunk `bytes`, whose envelope is `envelope`.
    pub(crate) fn from_envelope(
        bytes: &[u8],
        envelope: &Envelope<'_>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let hash = envelope.check()?;
        // The length may be written in one way only, so these are the bytes a writer would write.
        let raw = bytes[..envelope.len].into();
        parse(raw, envelope.len - envelope.body.len(), hash, limits)
    }

    /// Reads a compressed change chunk: its checksum is that of the change it stands for.
    pub(crate) fn from_compressed(envelope: &Envelope<'_>, limits: &Limits) -> Result<Self, Error> {
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
        let mut raw = Vec::new();
        header::write(ChunkType::Change, hash, &body, &mut raw);
        let body_start = raw.len() - body.len();
        parse(raw.into(), body_start, hash, limits)
    }

    /// The name of the change.
    pub fn hash(&self) -> ChangeHash {
        self.0.hash
    }

    /// Who made it.
    pub fn actor(&self) -> &ActorId {
        &self.0.actors[0]
    }

    /// The table that the [`ActorIdx`]s in [`ops`](Self::ops) index: the author, then the others
    /// that the ops refer to.
    pub fn actors(&self) -> &[ActorId] {
        &self.0.actors
    }

    /// The number of this change among those of its actor, from 1.
    pub fn seq(&self) -> u32 {
        self.0.seq
    }

    /// The counter of the first op's id; the others follow without holes.
    pub fn start_op(&self) -> u32 {
        self.0.start_op
    }

    /// The counter of the last op's id, `start_op - 1` when there is no op.
    pub fn max_op(&self) -> u32 {
        // Checked when parsed, in this order because the sum may be 2^32.
        self.0.start_op - 1 + self.0.op_count
    }

    /// The number of ops.
    pub fn len(&self) -> usize {
        self.0.op_count as usize
    }

    /// Whether it has no ops.
    pub fn is_empty(&self) -> bool {
        self.0.op_count == 0
    }

    /// The changes it was made on top of, in the order of its bytes (authors sort them).
    pub fn deps(&self) -> &[ChangeHash] {
        &self.0.deps
    }

    /// When it was made, as its author tells: seconds since the Unix epoch by custom.
    pub fn time(&self) -> i64 {
        self.0.time
    }

    /// What its author said of it.
    pub fn message(&self) -> Option<&str> {
        let bytes = self.slice(self.0.message);
        let text = std::str::from_utf8(bytes).expect("a change's message was checked to be utf-8");
        (!text.is_empty()).then_some(text)
    }

    /// Bytes after the ops that this version gives no meaning; part of what is hashed.
    pub fn extra_bytes(&self) -> &[u8] {
        self.slice(self.0.extra)
    }

    /// The change chunk, not compressed: what the hash covers, what is stored and sent.
    pub fn raw_bytes(&self) -> &[u8] {
        &self.0.raw
    }

    /// The chunk as it is handed to people: a compressed change chunk when
    /// [`raw_bytes`](Self::raw_bytes) are more than 256. Cost: then one deflate.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.0.raw.len() <= DEFLATE_ABOVE {
            return Cow::Borrowed(&self.0.raw);
        }
        let envelope = Envelope::read(&self.0.raw).expect("the bytes of a change are a chunk");
        let mut body = Vec::new();
        compressed::deflate(envelope.body, &mut body);
        let mut out = Vec::new();
        header::write(ChunkType::CompressedChange, self.0.hash, &body, &mut out);
        Cow::Owned(out)
    }

    /// Whether this is how a document chunk gives the change back: canonically encoded, and without
    /// anything that a document has no place for. Changes that [`ChangeWriter`] made are, as far as
    /// their deletes delete something. One that is not must be stored as it is, in a chunk of its
    /// own, lest its hash change. Cost: for a change that was read from bytes, encoding it once more
    /// the first time.
    pub fn is_canonical(&self) -> bool {
        *self.0.canonical.get_or_init(|| self.encodes_to_itself())
    }

    fn encodes_to_itself(&self) -> bool {
        let mut encoder = ChangeEncoder::default();
        encoder.begin(ActorIdx(0));
        let mut ops = self.ops();
        for _ in 0..self.0.op_count {
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
        encoder.finish(meta, self.actors()).is_ok_and(|change| change.0.raw == self.0.raw)
    }

    /// The ops, in order. Reading them allocates nothing but room for the longest `pred`.
    pub fn ops(&self) -> ChangeOps<'_> {
        ChangeOps {
            rows: OpReader::new(&self.columns(), actor_count(&self.0.actors)),
            actors: &self.0.actors,
            next: u64::from(self.0.start_op),
            end: u64::from(self.0.start_op) + u64::from(self.0.op_count),
            links: Vec::new(),
        }
    }

    fn columns(&self) -> OpColumns<'_> {
        self.0.columns.map(|span| self.slice(span))
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.0.raw[span.range()]
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("hash", &self.0.hash)
            .field("actor", self.actor())
            .field("seq", &self.0.seq)
            .field("start_op", &self.0.start_op)
            .field("ops", &self.0.op_count)
            .finish_non_exhaustive()
    }
}

/// The same bytes, that is the same hash.
impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash == other.0.hash
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

    /// The next row, its links sorted in `self.links`.
    fn next_body(&mut self) -> Body<'a> {
        let body = self.rows.next(&mut self.links).expect("the ops were read when it was parsed");
        if self.links.len() > 1 {
            sort_links(&mut self.links, self.actors);
        }
        body
    }

    /// How many ops are left.
    pub fn remaining(&self) -> usize {
        usize::try_from(self.end - self.next).expect("a change has fewer than 2^32 ops")
    }
}

impl Span {
    fn new(range: Range<usize>) -> Self {
        let offset = |at| u32::try_from(at).expect("a chunk is smaller than 4 GiB");
        Self { start: offset(range.start), end: offset(range.end) }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
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

/// The length of an actor table of a chunk, which is below 4 GiB.
pub(crate) fn actor_count(actors: &[ActorId]) -> u32 {
    u32::try_from(actors.len()).expect("a chunk names fewer than 2^32 actors")
}

fn parse(
    raw: Box<[u8]>,
    body_start: usize,
    hash: ChangeHash,
    limits: &Limits,
) -> Result<Change, Error> {
    let mut reader = Reader::new(&raw[body_start..]);
    let at = |reader: &Reader<'_>| raw.len() - reader.len();
    let dep_count = reader.count(32).map_err(in_part("deps"))?;
    let deps = (0..dep_count).map(|_| reader.hash()).collect::<Result<_, _>>();
    let deps: Box<[ChangeHash]> = deps.map_err(in_part("deps"))?;
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
    let mut actors = Vec::with_capacity(other_count + 1);
    actors.push(ActorId::new(author));
    for _ in 0..other_count {
        actors.push(ActorId::new(reader.length_prefixed().map_err(in_part("other actors"))?));
    }

    let table = spec::read_table(&mut reader).map_err(in_part("column table"))?;
    let data_start = at(&reader);
    reader.bytes(spec::data_len(&table)).map_err(in_part("columns"))?;
    let mut columns = [Span::default(); COLUMN_COUNT];
    for column in table {
        if column.spec.is_deflated() {
            return Err(in_part("column table")(Fault::ColumnDeflated(column.spec.0)));
        }
        // Columns that are not known stay in the raw bytes, and are not read.
        if let Some(index) = CHANGE_SPECS.iter().position(|&known| known == column.spec) {
            let range = column.range.start + data_start..column.range.end + data_start;
            columns[index] = Span::new(range);
        }
    }
    let extra = Span::new(at(&reader)..raw.len());

    let counts = op_rows::count_rows(&columns.map(|span| &raw[span.range()]))
        .map_err(|fault| fault.in_chunk(ChunkType::Change))?;
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
            in_part("start op")(Fault::Beyond32Bits(u64::from(start_op).saturating_add(counts.ops)))
        })?;
    let inner = Inner {
        hash,
        actors: actors.into(),
        deps,
        seq,
        start_op,
        op_count,
        time,
        message,
        extra,
        columns,
        raw,
        canonical: OnceLock::new(),
    };
    let change = Change(Arc::new(inner));
    check_ops(&change)?;
    Ok(change)
}

/// Reads every op once, so that reading them again cannot fail.
fn check_ops(change: &Change) -> Result<(), Error> {
    let mut ops = change.ops();
    for row in 0..change.0.op_count {
        let at_row = |fault: ColumnFault| fault.at_row(ChunkType::Change, row);
        let body = ops.rows.next(&mut ops.links).map_err(at_row)?;
        let id = OpId { counter: change.0.start_op + row, actor: ActorIdx(0) };
        body.check(id).map_err(at_row)?;
        check_preds(&mut ops.links, id, &change.0.actors).map_err(at_row)?;
    }
    ops.rows.finish().map_err(|fault| fault.in_chunk(ChunkType::Change))
}

/// Checks that the ops in `links` are before `id` and differ; sorts them.
fn check_preds(links: &mut [OpId], id: OpId, actors: &[ActorId]) -> Result<(), ColumnFault> {
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
