//! Document chunks: all ops in document order with who superseded them, and all changes without
//! their ops (format: document chunk).

use std::sync::Arc;

use super::change::actor_count;
use super::columns::{self, DOCUMENT_SPECS, ID_ACTOR, ID_COUNTER, NAMES, OpColumns};
use super::header::Envelope;
use super::op_rows::{self, RowCounts};
use super::parts;
use crate::column::delta;
use crate::column::leb128::Reader;
use crate::column::rle;
use crate::column::spec;
use crate::error::{ColumnFault, InColumn};
use crate::limits::Used;
use crate::{ActorId, ActorIdx, ChangeHash, ChunkType, Error, Fault, Limits, ObjId, OpId};

use change_rows::{CHANGE_COLUMN_COUNT, CHANGE_ROW_SPECS, ChangeColumns};

mod change_rows;
mod check;
mod op_table;
mod ops;
mod outline;
mod rebuild;
mod write;

use check::{MarkOrder, check_ops};
use op_table::{Columns, Faulty, OpTable};

pub(crate) use change_rows::ChangeTable;
pub use ops::{DocumentOps, DocumentRows, Scalars};
pub use outline::{OpRows, RowGroup, RowKey};
pub(crate) use rebuild::Hashes;
pub use rebuild::Verify;
pub use write::DocumentWriter;
pub(crate) use write::{ChangeRow, GraphRows};

/// A document chunk, parsed. Its columns are inflated, its rows decoded when asked for.
///
/// Every row is valid by itself. Rules of many rows (no id twice, each op in exactly one change,
/// heads) are checked by [`changes`](Self::changes).
#[derive(Clone, Debug)]
pub struct DocumentChunk {
    actors: Box<[ActorId]>,
    heads: Box<[ChangeHash]>,
    /// For each head the row of its change, unless left out by the writer.
    head_rows: Option<Box<[u64]>>,
    changes: Arc<ChangeTable>,
    ops: Arc<OpTable>,
    /// The values of the ops, one after the other.
    payloads: Arc<Box<[u8]>>,
    source: DocumentSource,
    used: Used,
}

/// The body of a readable document chunk, as written: the least memory for rebuilding a document's
/// changes.
#[derive(Clone, Debug)]
pub(crate) struct DocumentSource {
    body: Arc<[u8]>,
    limits: Limits,
    /// True to accept marks with an end before the begin.
    any_mark_order: bool,
}

impl DocumentSource {
    /// Reads the chunk again.
    pub(crate) fn read(&self) -> Result<DocumentChunk, Error> {
        DocumentChunk::parse(&self.body, self.clone())
    }
}

impl DocumentChunk {
    /// Reads the document chunk of `envelope`.
    pub(crate) fn from_envelope(envelope: &Envelope<'_>, limits: &Limits) -> Result<Self, Error> {
        envelope.check_len(limits)?;
        envelope.check()?;
        Self::salvage(envelope, limits, false)
    }

    /// Like [`from_envelope`](Self::from_envelope), whatever the checksum says; and, if told so,
    /// whatever the order of marks.
    pub(crate) fn salvage(
        envelope: &Envelope<'_>,
        limits: &Limits,
        any_mark_order: bool,
    ) -> Result<Self, Error> {
        envelope.check_len(limits)?;
        let body = envelope.body.into();
        Self::parse(envelope.body, DocumentSource { body, limits: *limits, any_mark_order })
    }

    fn parse(body: &[u8], source: DocumentSource) -> Result<Self, Error> {
        let limits = &source.limits;
        let mut reader = Reader::new(body);
        let named = reader.clone().count(1).map_err(in_part("actors"))?;
        parts::within(ChunkType::Document, named as u64, limits.max_actors, "actors")?;
        let actors = parts::read_actors(&mut reader).map_err(in_part("actors"))?;
        let heads = read_heads(&mut reader).map_err(in_part("heads"))?;
        let change_table = spec::read_table(&mut reader).map_err(in_part("change column table"))?;
        let op_table = spec::read_table(&mut reader).map_err(in_part("op column table"))?;
        let change_data =
            reader.bytes(spec::data_len(&change_table)).map_err(in_part("change columns"))?;
        let op_data = reader.bytes(spec::data_len(&op_table)).map_err(in_part("op columns"))?;
        let head_rows = read_head_rows(&mut reader, heads.len()).map_err(in_part("head index"))?;

        let mut budget = limits.max_decompressed_bytes;
        let change_columns: [_; CHANGE_COLUMN_COUNT] = parts::load(
            ChunkType::Document,
            ("change column table", "change columns"),
            &change_table,
            change_data,
            |spec| CHANGE_ROW_SPECS.iter().position(|&known| known == spec),
            &mut budget,
            limits,
        )?;
        let mut op_columns = parts::load(
            ChunkType::Document,
            ("op column table", "op columns"),
            &op_table,
            op_data,
            |spec| DOCUMENT_SPECS.iter().position(|&known| known == spec),
            &mut budget,
            limits,
        )?;
        let mut chunk = Self {
            actors,
            heads,
            head_rows,
            changes: Arc::default(),
            ops: Arc::default(),
            payloads: Arc::default(),
            source,
            used: Used::default(),
        };
        let change_columns = std::array::from_fn(|index| &*change_columns[index]);
        let change_count = chunk.count_changes(&change_columns)?;
        let counts = chunk.count_ops(&op_columns)?;
        let op_count = u32::try_from(counts.ops).map_err(|_| too_many("ops"))?;
        let actor_count = actor_count(&chunk.actors);
        chunk.changes = ChangeTable::read(&change_columns, actor_count, change_count)?.into();
        chunk.check_head_rows()?;
        let marks = MarkOrder::new(chunk.source.any_mark_order);
        match OpTable::read(&op_columns, op_count as usize, actor_count, marks.clone()) {
            Ok(ops) => {
                debug_assert!(
                    op_count > 1000 || check_ops(&op_columns, op_count, actor_count, marks).is_ok(),
                    "what passes by columns passes row by row"
                );
                chunk.ops = ops.into();
            }
            Err(Faulty) => {
                check_ops(&op_columns, op_count, actor_count, marks)?;
                return Err(in_part("op columns")(Fault::OutOfRange(i64::from(u32::MAX))));
            }
        }
        chunk.payloads = std::mem::take(&mut op_columns[columns::VALUE]).into();
        let limits = &chunk.source.limits;
        let runs = chunk.ops.runs();
        parts::within(ChunkType::Document, runs, limits.max_runs, "runs of ops")?;
        chunk.used = Used {
            ops: counts.ops.max(counts.links),
            runs,
            changes: u64::from(change_count),
            decompressed_bytes: limits.max_decompressed_bytes - budget,
            rebuilt_bytes: 0,
        };
        Ok(chunk)
    }

    /// The actors, ascending by their bytes; so [`ActorIdx`]s of this chunk compare as actors do.
    pub fn actors(&self) -> &[ActorId] {
        &self.actors
    }

    /// The hashes of the changes without dependents, ascending.
    pub fn heads(&self) -> &[ChangeHash] {
        &self.heads
    }

    /// The chunk's share of the limits; its changes have a share of their own.
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    /// The source of the changes, for rebuilding later.
    pub(crate) fn source(&self) -> DocumentSource {
        self.source.clone()
    }

    /// The rows of the changes, with `local` for the actors. Cost: none for equal actors.
    pub(crate) fn change_table(&self, local: &[ActorIdx]) -> Arc<ChangeTable> {
        let mut table = self.changes.clone();
        if !(0..).map(ActorIdx).zip(local).all(|(own, local)| own == *local) {
            for actor in &mut Arc::make_mut(&mut table).actors {
                *actor = local[actor.as_usize()];
            }
        }
        table
    }

    /// The heads and their rows; `None` when the chunk does not name the rows, or names rows with
    /// dependents.
    pub(crate) fn head_places(&self) -> Option<impl Iterator<Item = (ChangeHash, u32)>> {
        let rows = self.head_rows.as_ref()?;
        let mut sorted: Vec<u64> = rows.to_vec();
        sorted.sort_unstable();
        let is_right = sorted.into_iter().eq(self.changes.head_rows().map(u64::from));
        let places = rows.iter().map(|row| u32::try_from(*row).unwrap_or(u32::MAX));
        is_right.then(|| self.heads.iter().copied().zip(places))
    }

    /// The number of changes.
    pub fn change_count(&self) -> usize {
        self.changes.len()
    }

    /// The number of ops with rows: all but deletes.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    fn count_changes(&self, columns: &ChangeColumns<'_>) -> Result<u32, Error> {
        let counts = change_rows::count_rows(columns).map_err(in_document)?;
        parts::within(
            ChunkType::Document,
            counts.changes,
            self.source.limits.max_changes,
            "changes",
        )?;
        parts::within(
            ChunkType::Document,
            counts.deps,
            self.source.limits.max_changes,
            "dependencies of changes",
        )?;
        u32::try_from(counts.changes).map_err(|_| too_many("changes"))
    }

    fn count_ops(&self, columns: &Columns) -> Result<RowCounts, Error> {
        let counts = op_rows::count_rows(&shared(columns)).map_err(in_document)?;
        let ids = [
            (NAMES[ID_ACTOR], rle::count_rows::<u64>(&columns[ID_ACTOR])),
            (NAMES[ID_COUNTER], delta::count_rows(&columns[ID_COUNTER])),
        ];
        for (column, rows) in ids {
            let rows = rows.in_column(column).map_err(in_document)?;
            if rows != counts.ops {
                return Err(in_document(ColumnFault { column, fault: Fault::RowCount(rows) }));
            }
        }
        parts::within(ChunkType::Document, counts.ops, self.source.limits.max_ops, "ops")?;
        parts::within(ChunkType::Document, counts.links, self.source.limits.max_ops, "succs")?;
        Ok(counts)
    }

    fn check_head_rows(&self) -> Result<(), Error> {
        for &row in self.head_rows.iter().flatten() {
            if row >= self.changes.len() as u64 {
                return Err(in_part("head index")(Fault::HeadIndex(row)));
            }
        }
        Ok(())
    }
}

fn shared(columns: &Columns) -> OpColumns<'_> {
    std::array::from_fn(|index| &*columns[index])
}

fn read_heads(reader: &mut Reader<'_>) -> Result<Box<[ChangeHash]>, Fault> {
    let count = reader.count(32)?;
    let heads = (0..count).map(|_| reader.hash()).collect::<Result<Box<[_]>, _>>()?;
    if heads.windows(2).all(|pair| pair[0] < pair[1]) { Ok(heads) } else { Err(Fault::Unsorted) }
}

/// The index of heads, left out by old writers.
fn read_head_rows(reader: &mut Reader<'_>, head_count: usize) -> Result<Option<Box<[u64]>>, Fault> {
    if reader.is_empty() {
        return Ok(None);
    }
    let rows = (0..head_count).map(|_| reader.uleb_minimal()).collect::<Result<_, _>>()?;
    match reader.len() {
        0 => Ok(Some(rows)),
        left => Err(Fault::Leftover(left as u64)),
    }
}

/// Sorts by counter, then by actor, whose indices in a document ascend with their bytes.
#[inline]
fn sort_links(links: &mut [OpId]) {
    if links.len() > 1 && !links.is_sorted_by_key(|link| lamport(*link)) {
        links.sort_unstable_by_key(|link| lamport(*link));
    }
}

/// A number in the order of op ids.
#[inline]
fn lamport(id: OpId) -> u64 {
    u64::from(id.counter) << 32 | u64::from(id.actor.0)
}

/// The id with this number.
#[inline]
fn of_lamport(number: u64) -> OpId {
    OpId { counter: (number >> 32) as u32, actor: ActorIdx(number as u32) }
}

/// The same of objects; the root comes first.
#[inline]
fn obj_lamport(obj: ObjId) -> u64 {
    match obj {
        ObjId::Root => 0,
        ObjId::Op(id) => lamport(id),
    }
}

fn too_many(what: &'static str) -> Error {
    Error::Limit { chunk: ChunkType::Document, what, max: u64::from(u32::MAX) }
}

fn in_document(fault: ColumnFault) -> Error {
    fault.in_chunk(ChunkType::Document)
}

fn in_part(part: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| Error::Corrupt { chunk: ChunkType::Document, part, row: None, fault }
}
