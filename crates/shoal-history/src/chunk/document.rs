//! Document chunks: all ops in document order with who superseded them, and all changes without
//! their ops (format: document chunk).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::actor_count;
use super::columns;
use super::header::{ChunkType, Envelope};
use super::op_rows::{self, Body, DOCUMENT_SPECS, OpColumns, OpReader, RowCounts};
use super::op_runs;
use crate::column::delta::{self, DeltaDecoder};
use crate::column::leb128::Reader;
use crate::column::rle::{self, RleDecoder};
use crate::column::spec::{self, ColumnSpec};
use crate::column::value::{self, RawValue};
use crate::error::{ColumnFault, InColumn};
use crate::limits::Used;
use crate::{
    Action, ActorId, ActorIdx, ChangeHash, Error, Fault, InsertRun, Key, Limits, ObjId, Op, OpId,
    ScalarRef, TextRun,
};

use change_rows::{CHANGE_COLUMN_COUNT, CHANGE_ROW_SPECS, ChangeColumns};

mod change_rows;
mod op_table;
mod rebuild;
mod write;

use op_table::{Columns, Faulty, OpTable, Place, Succs};

pub(crate) use change_rows::ChangeTable;
pub(crate) use rebuild::Hashes;
pub use rebuild::Verify;
pub(crate) use write::ChangeRow;
pub use write::DocumentWriter;

const ID_ACTOR: ColumnSpec = ColumnSpec(33);
const ID_COUNTER: ColumnSpec = ColumnSpec(35);
const ID_ACTOR_NAME: &str = "id actor column";
const ID_COUNTER_NAME: &str = "id counter column";

/// How many columns the ops have; the last two are those of the ids.
const OP_COLUMN_COUNT: usize = op_rows::COLUMN_COUNT + 2;
const ID_ACTOR_COLUMN: usize = op_rows::COLUMN_COUNT;
const ID_COUNTER_COLUMN: usize = op_rows::COLUMN_COUNT + 1;

/// A document chunk, parsed. Its columns are inflated, its rows decoded when asked for.
///
/// Every row is valid by itself. What concerns many rows (no id twice, each op in exactly one
/// change, heads) is checked by [`changes`](Self::changes).
#[derive(Clone, Debug)]
pub struct DocumentChunk {
    actors: Box<[ActorId]>,
    heads: Box<[ChangeHash]>,
    /// For each head the row of its change, unless the writer left that out.
    head_rows: Option<Box<[u64]>>,
    changes: Arc<ChangeTable>,
    ops: OpTable,
    /// The values of the ops, one after the other.
    payloads: Box<[u8]>,
    source: DocumentSource,
    used: Used,
}

/// The body of a document chunk that can be read, as it was written: the least memory that a
/// document's changes can be made from.
#[derive(Clone, Debug)]
pub(crate) struct DocumentSource {
    body: Arc<[u8]>,
    limits: Limits,
    /// Whether marks may end before they begin.
    any_mark_order: bool,
}

impl DocumentSource {
    /// Reads the chunk again.
    pub(crate) fn read(&self) -> Result<DocumentChunk, Error> {
        DocumentChunk::parse(&self.body, self.clone())
    }
}

impl DocumentChunk {
    /// Reads the document chunk that `envelope` holds.
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
        columns::within(ChunkType::Document, named as u64, limits.max_actors, "actors")?;
        let actors = columns::read_actors(&mut reader).map_err(in_part("actors"))?;
        let heads = read_heads(&mut reader).map_err(in_part("heads"))?;
        let change_table = spec::read_table(&mut reader).map_err(in_part("change column table"))?;
        let op_table = spec::read_table(&mut reader).map_err(in_part("op column table"))?;
        let change_data =
            reader.bytes(spec::data_len(&change_table)).map_err(in_part("change columns"))?;
        let op_data = reader.bytes(spec::data_len(&op_table)).map_err(in_part("op columns"))?;
        let head_rows = read_head_rows(&mut reader, heads.len()).map_err(in_part("head index"))?;

        let mut budget = limits.max_decompressed_bytes;
        let change_columns: [_; CHANGE_COLUMN_COUNT] = columns::load(
            ChunkType::Document,
            ("change column table", "change columns"),
            &change_table,
            change_data,
            |spec| CHANGE_ROW_SPECS.iter().position(|&known| known == spec),
            &mut budget,
            limits,
        )?;
        let mut op_columns = columns::load(
            ChunkType::Document,
            ("op column table", "op columns"),
            &op_table,
            op_data,
            |spec| match spec {
                ID_ACTOR => Some(ID_ACTOR_COLUMN),
                ID_COUNTER => Some(ID_COUNTER_COLUMN),
                _ => DOCUMENT_SPECS.iter().position(|&known| known == spec),
            },
            &mut budget,
            limits,
        )?;
        let mut chunk = Self {
            actors,
            heads,
            head_rows,
            changes: Arc::default(),
            ops: OpTable::default(),
            payloads: Box::default(),
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
        let marks = MarkOrder { any: chunk.source.any_mark_order, ..MarkOrder::default() };
        match OpTable::read(&op_columns, op_count as usize, actor_count, marks.clone()) {
            Ok(ops) => {
                debug_assert!(
                    op_count > 1000 || check_ops(&op_columns, op_count, actor_count, marks).is_ok(),
                    "what passes by columns passes row by row"
                );
                chunk.ops = ops;
            }
            Err(Faulty) => {
                check_ops(&op_columns, op_count, actor_count, marks)?;
                return Err(in_part("op columns")(Fault::OutOfRange(i64::from(u32::MAX))));
            }
        }
        chunk.payloads = std::mem::take(&mut op_columns[op_rows::VALUE]);
        let limits = &chunk.source.limits;
        let runs = chunk.ops.runs();
        columns::within(ChunkType::Document, runs, limits.max_runs, "runs of ops")?;
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

    /// The hashes of the changes that no other depends on, ascending.
    pub fn heads(&self) -> &[ChangeHash] {
        &self.heads
    }

    /// What it took of the limits; its changes have a share of their own.
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    /// What changes can be made from later.
    pub(crate) fn source(&self) -> DocumentSource {
        self.source.clone()
    }

    /// The rows of the changes, with `local` for the actors. Cost: none if those are the same.
    pub(crate) fn change_table(&self, local: &[ActorIdx]) -> Arc<ChangeTable> {
        let mut table = self.changes.clone();
        if !(0..).map(ActorIdx).zip(local).all(|(own, local)| own == *local) {
            for actor in &mut Arc::make_mut(&mut table).actors {
                *actor = local[actor.as_usize()];
            }
        }
        table
    }

    /// The heads and their rows; `None` when the chunk does not name the rows, or not those that no
    /// other depends on.
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

    /// The number of ops that have rows, that is all but deletes.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// The ops, in document order: object by object, in a map by key and id, in a sequence by
    /// place; their links are the ops that supersede them. That objects ascend is checked; within
    /// an object the order is the writer's word, which the hashes do not cover. Reading allocates nothing but room for the longest `succ`.
    pub fn ops(&self) -> DocumentOps<'_> {
        DocumentOps {
            table: &self.ops,
            payloads: &self.payloads,
            place: Place::default(),
            row: 0,
            succ_run: 0,
            link: [OpId { counter: 0, actor: ActorIdx(0) }],
        }
    }

    fn count_changes(&self, columns: &ChangeColumns<'_>) -> Result<u32, Error> {
        let counts = change_rows::count_rows(columns).map_err(in_document)?;
        columns::within(
            ChunkType::Document,
            counts.changes,
            self.source.limits.max_changes,
            "changes",
        )?;
        columns::within(
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
            (ID_ACTOR_NAME, rle::count_rows::<u64>(&columns[ID_ACTOR_COLUMN])),
            (ID_COUNTER_NAME, delta::count_rows(&columns[ID_COUNTER_COLUMN])),
        ];
        for (column, rows) in ids {
            let rows = rows.in_column(column).map_err(in_document)?;
            if rows != counts.ops {
                return Err(in_document(ColumnFault { column, fault: Fault::RowCount(rows) }));
            }
        }
        columns::within(ChunkType::Document, counts.ops, self.source.limits.max_ops, "ops")?;
        columns::within(ChunkType::Document, counts.links, self.source.limits.max_ops, "succs")?;
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

/// Reads the rows one by one, to find the first fault and its place.
fn check_ops(
    columns: &Columns,
    op_count: u32,
    actor_count: u32,
    mut marks: MarkOrder,
) -> Result<(), Error> {
    let mut rows = IdentifiedReader {
        id_actor: RleDecoder::new(&columns[ID_ACTOR_COLUMN]),
        id_counter: DeltaDecoder::new(&columns[ID_COUNTER_COLUMN]),
        actor_count,
        ops: OpReader::new(&shared(columns), actor_count),
    };
    let mut links = Vec::new();
    let mut last_obj = 0;
    for row in 0..op_count {
        rows.next(&mut links)
            .and_then(|(id, body)| {
                check_row(id, &body, &mut links)?;
                let obj = obj_lamport(body.obj);
                if obj < last_obj {
                    let column = op_rows::NAMES[op_rows::OBJ_COUNTER];
                    return Err(ColumnFault { column, fault: Fault::Unsorted });
                }
                last_obj = obj;
                if body.action != Action::Mark {
                    return Ok(());
                }
                marks
                    .check_mark(id, body.obj, body.mark_name.is_some())
                    .in_column(op_rows::NAMES[op_rows::MARK_NAME])
            })
            .map_err(|fault| fault.at_row(ChunkType::Document, row))?;
    }
    rows.ops.finish().map_err(in_document)
}

fn shared(columns: &Columns) -> OpColumns<'_> {
    std::array::from_fn(|index| &*columns[index])
}

/// The ops of a document chunk. Lends each op, so it is no `Iterator`.
#[derive(Clone, Debug)]
pub struct DocumentOps<'a> {
    table: &'a OpTable,
    payloads: &'a [u8],
    /// The next row.
    place: Place,
    row: u32,
    /// Where what supersedes it is, if anything does.
    succ_run: usize,
    /// The successor of the op that is lent, where it has one.
    link: [OpId; 1],
}

impl<'a> DocumentOps<'a> {
    /// The next op, or `None` after the last.
    pub fn next_op(&mut self) -> Option<Op<'_>> {
        if self.remaining() == 0 {
            return None;
        }
        let (table, place) = (self.table, self.place);
        let segment = table.segment(place);
        let payload = table.payloads(self.payloads, place, 1);
        let value = RawValue { type_code: segment.value_type, payload };
        let value = value.scalar().expect("the values were read when it was parsed");
        let succs = self.succs().0;
        self.advance(1);
        let links = match succs {
            None => &[][..],
            Some(Succs::Up(id) | Succs::Down(id)) => {
                self.link = [id];
                &self.link
            }
            Some(Succs::List { start, count }) => table.listed_of_row(start, count),
        };
        Some(Op {
            id: table.id(place),
            obj: segment.obj(),
            key: table.key(segment, place),
            insert: segment.insert,
            action: segment.action,
            value,
            expand: segment.expand,
            mark_name: table.mark_name(segment),
            links,
        })
    }

    /// The next op, or the next ones where they are a run, or `None` after the last.
    pub fn next_rows(&mut self) -> Option<DocumentRows<'_>> {
        match self.next_run() {
            Some(run) => Some(run),
            None => self.next_op().map(DocumentRows::Op),
        }
    }

    /// The next ops, if they insert a character or a scalar each, the later ones after the one
    /// before.
    fn next_run(&mut self) -> Option<DocumentRows<'a>> {
        if self.remaining() == 0 {
            return None;
        }
        let (table, place) = (self.table, self.place);
        let segment = table.segment(place);
        let value_len = segment.payload_len as usize;
        let is_text = segment.value_type == op_runs::STR && (1..=4).contains(&value_len);
        let is_plain = segment.insert
            && segment.action == Action::Set
            && !(segment.expand || segment.mark_name > 0);
        if !is_plain || !(is_text || value::is_plain(segment.value_type)) {
            return None;
        }
        let (succs, alike) = self.succs();
        let (succ, descends) = match succs {
            None => (None, false),
            Some(Succs::Up(id)) => (Some(id), false),
            Some(Succs::Down(id)) => (Some(id), true),
            Some(Succs::List { .. }) => return None,
        };
        let mut len = (table.chain_len(place.chain as usize) - place.at).min(alike) as usize;
        let mut values = table.payloads(self.payloads, place, len as u32);
        let mut text = "";
        if is_text {
            if value_len > 1 {
                let chars = values.chunks_exact(value_len);
                len = chars.take_while(|bytes| op_runs::is_char(bytes)).count();
                values = &values[..len * value_len];
            }
            // Each of the values is text, so they are so together.
            text = std::str::from_utf8(values).ok().filter(|text| !text.is_empty())?;
        }
        let run = InsertRun {
            id: table.id(place),
            obj: segment.obj(),
            reference: match table.key(segment, place) {
                Key::Elem(id) => Some(id),
                Key::Head | Key::Map(_) => None,
            },
            len: len as u32,
            succ,
            succ_descends: descends && len > 1,
        };
        self.advance(run.len);
        if is_text {
            let InsertRun { id, obj, reference, len, succ, succ_descends } = run;
            let run = TextRun { id, obj, reference, text, len, succ, succ_descends };
            return Some(DocumentRows::Text(run));
        }
        let values = Scalars { type_code: segment.value_type, len: value_len, count: len, values };
        Some(DocumentRows::Scalars(run, values))
    }

    /// What supersedes the next row, and how many rows from it on are superseded likewise.
    fn succs(&mut self) -> (Option<Succs>, u32) {
        while let Some(run) = self.table.succ_runs.get(self.succ_run) {
            let Some(done) = self.row.checked_sub(run.first_row) else {
                return (None, run.first_row - self.row);
            };
            if done < run.rows {
                return (Some(run.succs.after(done)), run.rows - done);
            }
            self.succ_run += 1;
        }
        (None, u32::MAX)
    }

    /// Goes over rows of the chain.
    fn advance(&mut self, rows: u32) {
        self.row += rows;
        self.place.at += rows;
        if self.place.at == self.table.chain_len(self.place.chain as usize) {
            self.place = Place { chain: self.place.chain + 1, at: 0 };
        }
    }

    /// How many ops are left.
    pub fn remaining(&self) -> usize {
        self.table.len() - self.row as usize
    }
}

/// One op of a document chunk, or some that are a run.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentRows<'a> {
    /// One op.
    Op(Op<'a>),
    /// Typed text, alive or deleted.
    Text(TextRun<'a>),
    /// Scalars, alive or deleted.
    Scalars(InsertRun, Scalars<'a>),
}

/// The scalars of a run. They are of one type, and none is a string or a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalars<'a> {
    type_code: u8,
    /// How long each payload is.
    len: usize,
    count: usize,
    values: &'a [u8],
}

impl<'a> Iterator for Scalars<'a> {
    type Item = ScalarRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<ScalarRef<'a>> {
        self.count = self.count.checked_sub(1)?;
        let payload;
        (payload, self.values) = self.values.split_at(self.len);
        let value = RawValue { type_code: self.type_code, payload };
        Some(value.scalar().expect("the values were read when it was parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Scalars<'_> {}

/// Reads op rows with their ids.
#[derive(Clone, Debug)]
struct IdentifiedReader<'a> {
    id_actor: RleDecoder<'a, u64>,
    id_counter: DeltaDecoder<'a>,
    actor_count: u32,
    ops: OpReader<'a>,
}

impl<'a> IdentifiedReader<'a> {
    #[inline]
    fn next(&mut self, links: &mut Vec<OpId>) -> Result<(OpId, Body<'a>), ColumnFault> {
        let actor = self.next_actor().in_column(ID_ACTOR_NAME)?;
        let counter = match self.id_counter.next_u32().in_column(ID_COUNTER_NAME)? {
            Some(0) => Err(Fault::OutOfRange(0)),
            Some(counter) => Ok(counter),
            None => Err(Fault::UnexpectedNull),
        };
        let counter = counter.in_column(ID_COUNTER_NAME)?;
        Ok((OpId { counter, actor }, self.ops.next(links)?))
    }

    #[inline]
    fn next_actor(&mut self) -> Result<ActorIdx, Fault> {
        let index = self.id_actor.next()?.ok_or(Fault::UnexpectedNull)?;
        match u32::try_from(index) {
            Ok(index) if index < self.actor_count => Ok(ActorIdx(index)),
            _ => Err(Fault::NoSuchActor(index)),
        }
    }
}

/// Sees that marks end after they begin, in the same object.
#[derive(Clone, Default)]
struct MarkOrder {
    /// Whether any order will do.
    any: bool,
    obj: Option<ObjId>,
    /// The begins in this object so far, see [`lamport`].
    begins: BTreeSet<u64>,
}

impl MarkOrder {
    /// Checks the begin of a mark, which has a name, or its end.
    fn check_mark(&mut self, id: OpId, obj: ObjId, is_begin: bool) -> Result<(), Fault> {
        if self.obj != Some(obj) {
            self.obj = Some(obj);
            self.begins.clear();
        }
        if is_begin {
            self.begins.insert(lamport(id));
            return Ok(());
        }
        let begin = OpId { counter: id.counter - 1, actor: id.actor };
        if self.any || self.begins.contains(&lamport(begin)) {
            Ok(())
        } else {
            Err(Fault::MarkOrder)
        }
    }
}

fn read_heads(reader: &mut Reader<'_>) -> Result<Box<[ChangeHash]>, Fault> {
    let count = reader.count(32)?;
    let heads = (0..count).map(|_| reader.hash()).collect::<Result<Box<[_]>, _>>()?;
    if heads.windows(2).all(|pair| pair[0] < pair[1]) { Ok(heads) } else { Err(Fault::Unsorted) }
}

/// The index of heads, which old writers left out.
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

/// What a row of a document must fulfil by itself. Sorts its links.
fn check_row(id: OpId, body: &Body<'_>, links: &mut [OpId]) -> Result<(), ColumnFault> {
    if body.action == Action::Delete {
        let column = op_rows::NAMES[op_rows::ACTION];
        return Err(ColumnFault { column, fault: Fault::ExplicitDelete });
    }
    body.check(id)?;
    let column = op_rows::NAMES[op_rows::LINK_COUNTER];
    if let Some(link) = links.iter().find(|link| link.counter <= id.counter) {
        return Err(ColumnFault { column, fault: Fault::NotAfter(link.counter) });
    }
    sort_links(links);
    match links.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ColumnFault { column, fault: Fault::RepeatedLink(pair[0].counter) }),
        None => Ok(()),
    }
}

/// Sorts by counter, then by actor, whose indices in a document ascend with their bytes.
#[inline]
fn sort_links(links: &mut [OpId]) {
    if links.len() > 1 && !links.is_sorted_by_key(|link| lamport(*link)) {
        links.sort_unstable_by_key(|link| lamport(*link));
    }
}

/// A number that orders the ops of a document as their ids do.
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
