//! Writing document chunks.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::change_rows::{CHANGE_COLUMN_COUNT, CHANGE_ROW_SPECS};
use super::lamport;
use crate::chunk::columns::{DOCUMENT_COLUMN_COUNT, DOCUMENT_SPECS};
use crate::chunk::compressed;
use crate::chunk::header::{self};
use crate::chunk::op_rows::{OpEncoder, Row, RowValue};
use crate::chunk::op_runs;
use crate::column::delta::DeltaEncoder;
use crate::column::leb128::{write_length_prefixed, write_uleb};
use crate::column::rle::{RleEncoder, Text, Uint};
use crate::column::spec::{self, ColumnSpec};
use crate::column::value::ValueEncoder;
use crate::{
    Action, ActorId, ActorIdx, Change, ChangeHash, ChunkType, Error, InsertRun, Key, ObjId, Op,
    OpId, ScalarRef, TextRun,
};

/// A column of at least this many bytes is deflated.
const DEFLATE_FROM: usize = 256;

/// From this many bytes on, threads are worth their start.
const PARALLEL_FROM: usize = 1 << 16;

/// Makes a document chunk out of all changes and all ops of a document.
///
/// The pushed parts are trusted to be one document: the caller pushes the ops of the changes, in
/// document order and with all their successors.
#[derive(Debug)]
pub struct DocumentWriter<'a> {
    actors: &'a [ActorId],
    /// The number of changes by each actor.
    seqs: Vec<u32>,
    rows: FxHashMap<ChangeHash, u32>,
    /// True for each row without dependents.
    is_head: Vec<bool>,
    /// The hashes of rows: at least of all heads.
    hashes: Vec<(ChangeHash, u32)>,
    columns: Box<Encoders>,
    deflate: bool,
    misuse: Option<&'static str>,
}

/// All columns of a document.
#[derive(Debug, Default)]
struct Encoders {
    changes: ChangeEncoders,
    id_actor: RleEncoder<Uint>,
    id_counter: DeltaEncoder,
    ops: OpEncoder,
}

thread_local! {
    /// The cleared encoders of the last writer of this thread: growing two dozen columns from
    /// nothing is a good part of writing a small document.
    static SPARE: Cell<Option<Box<Encoders>>> = const { Cell::new(None) };
}

/// The encoders of a longer document are not kept.
const KEPT_BYTES: usize = 1 << 14;

/// A change to be written, without its author and dependencies.
pub(crate) struct ChangeRow<'a> {
    pub(crate) seq: u32,
    pub(crate) max_op: u32,
    pub(crate) time: i64,
    /// Empty for none.
    pub(crate) message: &'a str,
    pub(crate) extra: &'a [u8],
    pub(crate) dep_count: usize,
}

/// The changes of a graph, row by row, dependencies first.
pub(crate) trait GraphRows {
    /// The actors indexed by the authors of rows.
    fn actors(&self) -> &[ActorId];

    /// Calls `visit` with the author, the row and the places of the dependencies of each change.
    ///
    /// # Errors
    /// The first of `visit`.
    fn visit_rows<E>(
        &self,
        visit: impl FnMut(ActorIdx, &ChangeRow<'_>, &[u32]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// The heads and their places.
    fn head_places(&self) -> impl Iterator<Item = (ChangeHash, u32)>;
}

#[derive(Debug, Default)]
struct ChangeEncoders {
    actor: RleEncoder<Uint>,
    seq: DeltaEncoder,
    max_op: DeltaEncoder,
    time: DeltaEncoder,
    message: RleEncoder<Text>,
    dep_count: RleEncoder<Uint>,
    dep_row: DeltaEncoder,
    extra: ValueEncoder,
}

impl<'a> DocumentWriter<'a> {
    /// A writer of a document with ops indexing `actors`, ascending by their bytes, each with a
    /// change.
    pub fn new(actors: &'a [ActorId]) -> Self {
        let sorted = actors.windows(2).all(|pair| pair[0] < pair[1]);
        Self {
            actors,
            seqs: vec![0; actors.len()],
            rows: FxHashMap::default(),
            is_head: Vec::new(),
            hashes: Vec::new(),
            columns: SPARE.take().unwrap_or_default(),
            deflate: true,
            misuse: (!sorted).then_some("the actors of a document ascend"),
        }
    }

    /// Sets deflating of large columns; the default is true.
    #[must_use]
    pub fn deflate(mut self, deflate: bool) -> Self {
        self.deflate = deflate;
        self
    }

    /// Appends a change, after all its dependencies. A mistake makes [`finish`](Self::finish) fail.
    pub fn push_change(&mut self, change: &Change) {
        if let Err(why) = self.try_push_change(change) {
            self.misuse.get_or_insert(why);
        }
    }

    /// Appends an op, in document order; links are the superseding ops, in any order. Cost: no
    /// allocation but the growth of the columns. A mistake makes [`finish`](Self::finish) fail.
    pub fn push_op(&mut self, op: &Op<'_>) {
        if self.misuse.is_none() {
            self.misuse = self.check(op).err();
        }
        if self.misuse.is_some() {
            return;
        }
        self.columns.id_actor.push_value(u64::from(op.id.actor.0));
        self.columns.id_counter.push_value(i64::from(op.id.counter));
        let row = Row {
            obj: op.obj,
            key: op.key,
            insert: op.insert,
            action: op.action,
            value: RowValue::Scalar(op.value),
            expand: op.expand,
            mark_name: op.mark_name,
        };
        if op.links.is_sorted_by_key(|link| lamport(*link)) {
            self.columns.ops.push(&row, op.links.iter().copied());
        } else {
            let mut links = op.links.to_vec();
            super::sort_links(&mut links);
            self.columns.ops.push(&row, links.iter().copied());
        }
    }

    /// Appends an op on a key of a map, neither expanding nor named, as [`push_op`](Self::push_op)
    /// does. Cost: less than there.
    #[inline]
    pub fn push_entry(
        &mut self,
        obj: ObjId,
        key: &str,
        id: OpId,
        (action, value): (Action, ScalarRef<'_>),
        links: &[OpId],
    ) {
        let is_right = self.knows(&id) && self.knows_object(&obj) && action != Action::Delete;
        if !(is_right && links.is_empty() && self.misuse.is_none()) {
            return self.push_op(&Op {
                id,
                obj,
                key: Key::Map(key),
                insert: false,
                action,
                value,
                expand: false,
                mark_name: None,
                links,
            });
        }
        self.columns.id_actor.push_value(u64::from(id.actor.0));
        self.columns.id_counter.push_value(i64::from(id.counter));
        let value = RowValue::Scalar(value);
        self.columns.ops.push_entry(obj, key, action, value, std::iter::empty());
    }

    /// Appends the ops of a run, in document order. A mistake makes [`finish`](Self::finish) fail.
    pub fn push_text(&mut self, run: &TextRun<'_>) {
        if self.misuse.is_none() {
            self.misuse = self.check_inserts(&run.inserts()).err();
            if run.text.chars().count() != run.len as usize {
                self.misuse.get_or_insert("a run of text has an id for each character");
            }
        }
        if self.misuse.is_some() {
            return;
        }
        self.push_ids(run.id, run.len);
        self.columns.ops.push_text(run);
    }

    /// Appends the ops of a run inserting `values`, in document order. A mistake makes
    /// [`finish`](Self::finish) fail.
    pub fn push_scalars<'v>(
        &mut self,
        run: &InsertRun,
        values: impl ExactSizeIterator<Item = ScalarRef<'v>>,
    ) {
        if self.misuse.is_none() {
            self.misuse = self.check_inserts(run).err();
            if values.len() != run.len as usize {
                self.misuse.get_or_insert("a run of scalars has an id for each");
            }
        }
        if self.misuse.is_some() {
            return;
        }
        self.push_ids(run.id, run.len);
        self.columns.ops.push_scalars(run, values);
    }

    fn push_ids(&mut self, first: OpId, len: u32) {
        let count = u64::from(len);
        self.columns.id_actor.push_values(u64::from(first.actor.0), count);
        self.columns.id_counter.push_series(i64::from(first.counter), 1, count);
    }

    fn check_inserts(&self, run: &InsertRun) -> Result<(), &'static str> {
        let known = |id: &OpId| id.counter > 0 && id.actor.as_usize() < self.actors.len();
        let obj = match &run.obj {
            ObjId::Root => true,
            ObjId::Op(id) => known(id),
        };
        let links = run
            .succ
            .is_none_or(|succ| known(&succ) && op_runs::fits(succ, run.succ_descends, run.len));
        if !(known(&run.id) && obj && run.reference.iter().all(known) && links) {
            return Err("an op refers to ops by known actors");
        }
        if !op_runs::fits(run.id, false, run.len) {
            return Err("the ids of a run are counters of 32 bits");
        }
        Ok(())
    }

    /// The chunk. The heads are the changes without dependents.
    ///
    /// # Errors
    /// [`Error::Misuse`] for pushed parts against the rules of the format.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        if self.seqs.contains(&0) {
            self.misuse.get_or_insert("each actor of a document has made a change");
        }
        if let Some(why) = self.misuse {
            return Err(Error::Misuse { why });
        }
        let Self { actors, is_head, hashes, mut columns, deflate, .. } = self;
        let mut heads = hashes;
        heads.retain(|(_, row)| is_head[*row as usize]);
        heads.sort_unstable();
        let size = columns.finish();
        let written = if deflate {
            write_chunk(actors, &heads, &deflated(&columns.columns(), size))
        } else {
            write_chunk(actors, &heads, &columns.columns())
        };
        if size <= KEPT_BYTES {
            columns.clear();
            SPARE.set(Some(columns));
        }
        written
    }

    fn try_push_change(&mut self, change: &Change) -> Result<(), &'static str> {
        let actor = self
            .actors
            .binary_search(change.actor())
            .map_err(|_| "the author of a change is among the actors")?;
        let row = self.row_count()?;
        for dep in change.deps() {
            let &dep = self.rows.get(dep).ok_or("a change comes after those it depends on")?;
            self.push_dep(dep);
        }
        self.rows.insert(change.hash(), row);
        self.hashes.push((change.hash(), row));
        self.push_row(
            ActorIdx(u32::try_from(actor).expect("actors have 32-bit indices")),
            &ChangeRow {
                seq: change.seq(),
                max_op: change.max_op(),
                time: change.time(),
                message: change.message().unwrap_or_default(),
                extra: change.extra_bytes(),
                dep_count: change.deps().len(),
            },
        )
    }

    /// [`push_graph`](Self::push_graph), for the rows of a graph.
    pub(crate) fn push_rows(&mut self, rows: &impl GraphRows) {
        if let Err(why) = self.try_push_rows(rows) {
            self.misuse.get_or_insert(why);
        }
    }

    fn try_push_rows(&mut self, rows: &impl GraphRows) -> Result<(), &'static str> {
        if self.row_count()? > 0 {
            return Err("a graph is pushed before other changes");
        }
        let places: Vec<Option<usize>> =
            rows.actors().iter().map(|actor| self.actors.binary_search(actor).ok()).collect();
        rows.visit_rows(|author, row, deps| {
            let actor =
                places[author.as_usize()].ok_or("the author of a change is among the actors")?;
            self.row_count()?;
            deps.iter().for_each(|dep| self.push_dep(*dep));
            let actor = ActorIdx(u32::try_from(actor).expect("actors have 32-bit indices"));
            self.push_row(actor, row)
        })?;
        self.hashes.extend(rows.head_places());
        Ok(())
    }

    fn row_count(&self) -> Result<u32, &'static str> {
        u32::try_from(self.is_head.len()).map_err(|_| "there are fewer than 2^32 changes")
    }

    fn push_dep(&mut self, row: u32) {
        self.is_head[row as usize] = false;
        self.columns.changes.dep_row.push_value(i64::from(row));
    }

    fn push_row(&mut self, actor: ActorIdx, row: &ChangeRow<'_>) -> Result<(), &'static str> {
        let seq = &mut self.seqs[actor.as_usize()];
        if row.seq != *seq + 1 {
            return Err("the changes of an actor are in order");
        }
        *seq += 1;
        self.is_head.push(true);
        let changes = &mut self.columns.changes;
        changes.dep_count.push_value(row.dep_count as u64);
        changes.actor.push_value(u64::from(actor.0));
        changes.seq.push_value(i64::from(row.seq));
        changes.max_op.push_value(i64::from(row.max_op));
        changes.time.push_value(row.time);
        changes.message.push((!row.message.is_empty()).then_some(row.message));
        changes.extra.push(ScalarRef::Bytes(row.extra));
        Ok(())
    }

    /// True for an id of one of the actors.
    #[inline]
    fn knows(&self, id: &OpId) -> bool {
        id.counter > 0 && id.actor.as_usize() < self.actors.len()
    }

    /// True for the root, and for an object made by one of the actors.
    #[inline]
    fn knows_object(&self, obj: &ObjId) -> bool {
        match obj {
            ObjId::Root => true,
            ObjId::Op(id) => self.knows(id),
        }
    }

    fn check(&self, op: &Op<'_>) -> Result<(), &'static str> {
        let key = match &op.key {
            Key::Map(_) | Key::Head => true,
            Key::Elem(id) => self.knows(id),
        };
        let has_known_links = op.links.iter().all(|link| self.knows(link));
        if !(self.knows(&op.id) && self.knows_object(&op.obj) && key && has_known_links) {
            return Err("an op refers to ops by known actors");
        }
        if op.action == Action::Delete {
            return Err("a document has no rows for deletes");
        }
        Ok(())
    }
}

/// Writes the chunk of these actors, heads and columns.
fn write_chunk<D: AsRef<[u8]>>(
    actors: &[ActorId],
    heads: &[(ChangeHash, u32)],
    columns: &[(ColumnSpec, D)],
) -> Result<Vec<u8>, Error> {
    let mut head = Vec::with_capacity(256);
    write_uleb(actors.len() as u64, &mut head);
    for actor in actors {
        write_length_prefixed(actor.as_bytes(), &mut head);
    }
    write_uleb(heads.len() as u64, &mut head);
    for (hash, _) in heads {
        head.extend_from_slice(&hash.0);
    }
    let (changes, ops) = columns.split_at(CHANGE_COLUMN_COUNT);
    for part in [changes, ops] {
        spec::write_table(part.iter().map(|(spec, data)| (*spec, data.as_ref().len())), &mut head);
    }
    let mut tail = Vec::new();
    for (_, row) in heads {
        write_uleb(u64::from(*row), &mut tail);
    }
    let data_len: usize = columns.iter().map(|(_, data)| data.as_ref().len()).sum();
    let body_len = head.len() + data_len + tail.len();
    if u32::try_from(body_len).is_err() {
        return Err(Error::Misuse { why: "a document chunk is smaller than 4 GiB" });
    }
    let mut out = Vec::with_capacity(header::header_len(body_len) + body_len);
    header::write_header(ChunkType::Document, ChangeHash([0; 32]), body_len, &mut out);
    out.extend_from_slice(&head);
    columns.iter().for_each(|(_, data)| out.extend_from_slice(data.as_ref()));
    out.extend_from_slice(&tail);
    header::seal(&mut out);
    Ok(out)
}

/// The columns, `size` bytes together, as written: the long ones deflated, the largest first, side
/// by side if worth threads.
fn deflated<'c>(
    columns: &[(ColumnSpec, &'c [u8])],
    size: usize,
) -> Vec<(ColumnSpec, Cow<'c, [u8]>)> {
    let mut out: Vec<(ColumnSpec, Cow<'c, [u8]>)> =
        columns.iter().map(|(spec, data)| (*spec, Cow::Borrowed(*data))).collect();
    let mut order: Vec<usize> =
        (0..columns.len()).filter(|at| columns[*at].1.len() >= DEFLATE_FROM).collect();
    order.sort_by_key(|at| Reverse(columns[*at].1.len()));
    let next = AtomicUsize::new(0);
    let deflate_some = |_: usize| {
        let mut done = Vec::new();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut deflated = Vec::new();
            compressed::deflate(columns[at].1, &mut deflated);
            done.push((at, deflated));
        }
        done
    };
    let done: Vec<Vec<(usize, Vec<u8>)>> = if size >= PARALLEL_FROM {
        let threads = rayon::current_num_threads().min(order.len());
        (0..threads).into_par_iter().with_max_len(1).map(deflate_some).collect()
    } else {
        vec![deflate_some(0)]
    };
    for (at, deflated) in done.into_iter().flatten() {
        out[at] = (columns[at].0.deflated(), Cow::Owned(deflated));
    }
    out
}

impl Encoders {
    /// Ends the columns; returns how many bytes they are together.
    fn finish(&mut self) -> usize {
        self.changes.finish();
        self.id_actor.finish();
        self.id_counter.finish();
        self.ops.finish();
        self.columns().iter().map(|(_, data)| data.len()).sum()
    }

    /// The finished columns: of the changes, then of the ops, each in listed order.
    fn columns(&self) -> [(ColumnSpec, &[u8]); CHANGE_COLUMN_COUNT + DOCUMENT_COLUMN_COUNT] {
        let mut columns = [(ColumnSpec(0), &[][..]); CHANGE_COLUMN_COUNT + DOCUMENT_COLUMN_COUNT];
        let changes = CHANGE_ROW_SPECS.into_iter().zip(self.changes.columns());
        let ids = [self.id_actor.bytes(), self.id_counter.bytes()];
        let ops = DOCUMENT_SPECS.into_iter().zip(self.ops.columns().into_iter().chain(ids));
        for (slot, column) in columns.iter_mut().zip(changes.chain(ops)) {
            *slot = column;
        }
        columns[CHANGE_COLUMN_COUNT..].sort_unstable_by_key(|(spec, _)| spec.0);
        columns
    }

    /// Starts anew, keeping the buffers.
    fn clear(&mut self) {
        self.changes.clear();
        self.id_actor.clear();
        self.id_counter.clear();
        self.ops.clear();
    }
}

impl ChangeEncoders {
    fn clear(&mut self) {
        self.actor.clear();
        self.seq.clear();
        self.max_op.clear();
        self.time.clear();
        self.message.clear();
        self.dep_count.clear();
        self.dep_row.clear();
        self.extra.clear();
    }

    fn finish(&mut self) {
        self.actor.finish();
        self.seq.finish();
        self.max_op.finish();
        self.time.finish();
        self.message.finish();
        self.dep_count.finish();
        self.dep_row.finish();
        self.extra.finish();
    }

    /// In the order of [`CHANGE_ROW_SPECS`].
    fn columns(&self) -> [&[u8]; CHANGE_COLUMN_COUNT] {
        [
            self.actor.bytes(),
            self.seq.bytes(),
            self.max_op.bytes(),
            self.time.bytes(),
            self.message.bytes(),
            self.dep_count.bytes(),
            self.dep_row.bytes(),
            self.extra.meta_bytes(),
            self.extra.payload_bytes(),
        ]
    }
}
