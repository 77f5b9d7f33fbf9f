//! Writing document chunks.

use rustc_hash::FxHashMap;

use super::change_rows::{CHANGE_COLUMN_COUNT, CHANGE_ROW_SPECS};
use super::{ID_ACTOR, ID_COUNTER, OP_COLUMN_COUNT, lamport};
use crate::chunk::compressed;
use crate::chunk::header::{self, ChunkType};
use crate::chunk::op_rows::{DOCUMENT_SPECS, OpEncoder, Row, RowValue};
use crate::column::delta::DeltaEncoder;
use crate::column::leb128::{write_length_prefixed, write_uleb};
use crate::column::rle::{RleEncoder, Text, Uint};
use crate::column::spec::{self, ColumnSpec};
use crate::column::value::ValueEncoder;
use crate::{Action, ActorId, Change, ChangeHash, Error, Key, ObjId, Op, OpId, ScalarRef};

/// A column of at least this many bytes is deflated.
const DEFLATE_FROM: usize = 256;

/// Makes a document chunk out of all changes and all ops of a document.
///
/// What is pushed is trusted to be one document: that the ops are those of the changes, in
/// document order and with all their successors, is the caller's part.
#[derive(Debug)]
pub struct DocumentWriter<'a> {
    actors: &'a [ActorId],
    /// The number of changes by each actor.
    seqs: Vec<u32>,
    changes: ChangeEncoders,
    rows: FxHashMap<ChangeHash, u32>,
    /// Of each row its hash, and whether no later one depends on it.
    heads: Vec<(ChangeHash, bool)>,
    id_actor: RleEncoder<Uint>,
    id_counter: DeltaEncoder,
    ops: OpEncoder,
    deflate: bool,
    misuse: Option<&'static str>,
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
    /// A writer of a document whose ops index `actors`, which must ascend by their bytes and each
    /// have made a change.
    pub fn new(actors: &'a [ActorId]) -> Self {
        let sorted = actors.windows(2).all(|pair| pair[0] < pair[1]);
        Self {
            actors,
            seqs: vec![0; actors.len()],
            changes: ChangeEncoders::default(),
            rows: FxHashMap::default(),
            heads: Vec::new(),
            id_actor: RleEncoder::default(),
            id_counter: DeltaEncoder::default(),
            ops: OpEncoder::default(),
            deflate: true,
            misuse: (!sorted).then_some("the actors of a document ascend"),
        }
    }

    /// Whether large columns are deflated; they are unless told otherwise.
    #[must_use]
    pub fn deflate(mut self, deflate: bool) -> Self {
        self.deflate = deflate;
        self
    }

    /// Appends a change, after all it depends on. A mistake makes [`finish`](Self::finish) fail.
    pub fn push_change(&mut self, change: &Change) {
        if let Err(why) = self.try_push_change(change) {
            self.misuse.get_or_insert(why);
        }
    }

    /// Appends an op, in document order; its links are the ops that supersede it, in any order.
    /// Cost: no allocation but the growth of the columns. A mistake makes
    /// [`finish`](Self::finish) fail.
    pub fn push_op(&mut self, op: &Op<'_>) {
        if self.misuse.is_none() {
            self.misuse = self.check(op).err();
        }
        if self.misuse.is_some() {
            return;
        }
        self.id_actor.push_value(u64::from(op.id.actor.0));
        self.id_counter.push_value(i64::from(op.id.counter));
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
            self.ops.push(&row, op.links.iter().copied());
        } else {
            let mut links = op.links.to_vec();
            super::sort_links(&mut links);
            self.ops.push(&row, links.iter().copied());
        }
    }

    /// The chunk. The heads are the changes that no other depends on.
    ///
    /// # Errors
    /// [`Error::Misuse`] when what was pushed breaks the rules of the format.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        if self.seqs.contains(&0) {
            self.misuse.get_or_insert("each actor of a document has made a change");
        }
        if let Some(why) = self.misuse {
            return Err(Error::Misuse { why });
        }
        let mut heads: Vec<(ChangeHash, usize)> = self
            .heads
            .iter()
            .enumerate()
            .filter(|(_, (_, is_head))| *is_head)
            .map(|(row, (hash, _))| (*hash, row))
            .collect();
        heads.sort_unstable();

        let mut body = Vec::new();
        write_uleb(self.actors.len() as u64, &mut body);
        for actor in self.actors {
            write_length_prefixed(actor.as_bytes(), &mut body);
        }
        write_uleb(heads.len() as u64, &mut body);
        for (hash, _) in &heads {
            body.extend_from_slice(&hash.0);
        }
        self.changes.finish();
        self.id_actor.finish();
        self.id_counter.finish();
        self.ops.finish();
        let changes = self.changes.columns();
        let changes = CHANGE_ROW_SPECS.into_iter().zip(changes);
        let mut ops = [(ColumnSpec(0), &[][..]); OP_COLUMN_COUNT];
        let ids = [(ID_ACTOR, self.id_actor.bytes()), (ID_COUNTER, self.id_counter.bytes())];
        let shared = DOCUMENT_SPECS.into_iter().zip(self.ops.columns());
        for (slot, column) in ops.iter_mut().zip(shared.chain(ids)) {
            *slot = column;
        }
        ops.sort_unstable_by_key(|(spec, _)| spec.0);

        let mut deflated = Vec::new();
        let change_ends = self.deflate_columns(changes.clone(), &mut deflated);
        let op_ends = self.deflate_columns(ops.iter().copied(), &mut deflated);
        let changes = pick(changes, &change_ends, &deflated);
        let ops = pick(ops.iter().copied(), &op_ends, &deflated);
        spec::write_table(changes.clone(), &mut body);
        spec::write_table(ops.clone(), &mut body);
        for (_, data) in changes.chain(ops) {
            body.extend_from_slice(data);
        }
        for (_, row) in heads {
            write_uleb(row as u64, &mut body);
        }
        if u32::try_from(body.len()).is_err() {
            return Err(Error::Misuse { why: "a document chunk is smaller than 4 GiB" });
        }
        let hash = header::hash(ChunkType::Document, &body);
        let mut out = Vec::new();
        header::write(ChunkType::Document, hash, &body, &mut out);
        Ok(out)
    }

    /// Deflates those columns that are to be, one after the other, and returns where in `out` each
    /// one is.
    fn deflate_columns<'c>(
        &self,
        columns: impl Iterator<Item = (ColumnSpec, &'c [u8])>,
        out: &mut Vec<u8>,
    ) -> Vec<Option<(usize, usize)>> {
        columns
            .map(|(_, data)| {
                (self.deflate && data.len() >= DEFLATE_FROM).then(|| {
                    let start = out.len();
                    compressed::deflate(data, out);
                    (start, out.len())
                })
            })
            .collect()
    }

    fn try_push_change(&mut self, change: &Change) -> Result<(), &'static str> {
        let actor = self
            .actors
            .binary_search(change.actor())
            .map_err(|_| "the author of a change is among the actors")?;
        let seq = &mut self.seqs[actor];
        if change.seq() != *seq + 1 {
            return Err("the changes of an actor are in order");
        }
        *seq += 1;
        let row =
            u32::try_from(self.heads.len()).map_err(|_| "there are fewer than 2^32 changes")?;
        for dep in change.deps() {
            let &dep = self.rows.get(dep).ok_or("a change comes after those it depends on")?;
            self.heads[dep as usize].1 = false;
            self.changes.dep_row.push_value(i64::from(dep));
        }
        self.rows.insert(change.hash(), row);
        self.heads.push((change.hash(), true));
        let changes = &mut self.changes;
        changes.dep_count.push_value(change.deps().len() as u64);
        changes.actor.push_value(actor as u64);
        changes.seq.push_value(i64::from(change.seq()));
        changes.max_op.push_value(i64::from(change.max_op()));
        changes.time.push_value(change.time());
        changes.message.push(change.message());
        changes.extra.push(ScalarRef::Bytes(change.extra_bytes()));
        Ok(())
    }

    fn check(&self, op: &Op<'_>) -> Result<(), &'static str> {
        let known = |id: &OpId| id.counter > 0 && id.actor.as_usize() < self.actors.len();
        let obj = match &op.obj {
            ObjId::Root => true,
            ObjId::Op(id) => known(id),
        };
        let key = match &op.key {
            Key::Map(_) | Key::Head => true,
            Key::Elem(id) => known(id),
        };
        if !(known(&op.id) && obj && key && op.links.iter().all(known)) {
            return Err("an op refers to ops by known actors");
        }
        if op.action == Action::Delete {
            return Err("a document has no rows for deletes");
        }
        Ok(())
    }
}

impl ChangeEncoders {
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

/// The columns as they are written: deflated where `ends` says so.
fn pick<'c>(
    columns: impl Iterator<Item = (ColumnSpec, &'c [u8])> + Clone,
    ends: &'c [Option<(usize, usize)>],
    deflated: &'c [u8],
) -> impl Iterator<Item = (ColumnSpec, &'c [u8])> + Clone {
    columns.zip(ends).map(|((spec, data), range)| match *range {
        Some((start, end)) => (spec.deflated(), &deflated[start..end]),
        None => (spec, data),
    })
}
