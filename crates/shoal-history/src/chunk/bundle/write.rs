//! Writing bundles.

use std::borrow::Cow;
use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::{
    CHANGE_ACTOR, CHANGE_COLUMN_COUNT, CHANGE_SPECS, DEP, DEP_COUNT, EXTRA, EXTRA_COUNT, MAX_OP,
    MESSAGE, SEQ, START_OP, TIME,
};
use crate::chunk::columns::{
    BUNDLE_COLUMN_COUNT, BUNDLE_SPECS, COLUMN_COUNT, ID_ACTOR, ID_POSITION, OBJ_COUNTER,
};
use crate::chunk::compressed;
use crate::chunk::header::{self};
use crate::chunk::op_rows::{OpEncoder, Row, RowValue};
use crate::column::delta::DeltaEncoder;
use crate::column::leb128::{write_length_prefixed, write_uleb};
use crate::column::rle::{RleEncoder, Text, Uint};
use crate::column::spec::{self, ColumnSpec};
use crate::{Action, ActorId, ActorIdx, Change, ChangeHash, ChunkType, Error, Key, ObjId, OpId};

/// A column of at least this many bytes is deflated.
const DEFLATE_FROM: usize = 256;

/// Makes a bundle out of changes.
#[derive(Debug)]
pub struct BundleWriter<'a> {
    changes: Vec<&'a Change>,
    actors: Vec<ActorId>,
    deflate: bool,
}

impl<'a> BundleWriter<'a> {
    /// A writer of these changes, each behind its dependencies among them.
    ///
    /// # Errors
    /// [`Error::NotCanonical`] for a change with other bytes, hence another hash, after a bundle;
    /// [`Error::Misuse`] for changes out of order, and for a repeated one.
    pub fn new(changes: impl IntoIterator<Item = &'a Change>) -> Result<Self, Error> {
        let changes: Vec<&Change> = changes.into_iter().collect();
        let places: FxHashMap<ChangeHash, usize> =
            changes.iter().enumerate().map(|(at, change)| (change.hash(), at)).collect();
        if places.len() < changes.len() {
            return Err(Error::Misuse { why: "a bundle holds a change once" });
        }
        for (at, change) in changes.iter().enumerate() {
            if !change.is_canonical() {
                return Err(Error::NotCanonical { change: change.hash() });
            }
            if change.deps().iter().any(|dep| places.get(dep).is_some_and(|&dep| dep >= at)) {
                return Err(Error::Misuse { why: "a change comes after those it depends on" });
            }
        }
        let mut actors: Vec<ActorId> =
            changes.iter().flat_map(|change| change.actors()).cloned().collect();
        actors.sort_unstable();
        actors.dedup();
        Ok(Self { changes, actors, deflate: true })
    }

    /// Sets deflating of large columns; the default is true.
    #[must_use]
    pub fn deflate(mut self, deflate: bool) -> Self {
        self.deflate = deflate;
        self
    }

    /// The actors named by the changes, ascending: the table of the ids given to `place_of`.
    pub fn actors(&self) -> &[ActorId] {
        &self.actors
    }

    /// The bundle. `place_of` gives the place of an element (the second id) in its sequence (the
    /// first): neighbours in a sequence take less room as neighbours in the bundle. Any answer
    /// gives a sound bundle. Cost: O(n log n) in the ops.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bundle of 4 GiB or more.
    pub fn finish(self, mut place_of: impl FnMut(OpId, OpId) -> u64) -> Result<Vec<u8>, Error> {
        let mut ops = self.ops(&mut place_of);
        ops.sort_unstable_by(OpRow::in_document);
        let mut encoder = OpEncoder::default();
        let mut obj_counter = DeltaEncoder::default();
        let mut id_actor = RleEncoder::<Uint>::default();
        for op in &ops {
            obj_counter.push(match op.row.obj {
                ObjId::Root => None,
                ObjId::Op(id) => Some(i64::from(id.counter)),
            });
            id_actor.push_value(u64::from(op.id.actor.0));
            encoder.push(&op.row, op.links.iter().copied());
        }
        encoder.finish();
        obj_counter.finish();
        id_actor.finish();
        let positions = positions(&ops);
        let mut columns: [&[u8]; BUNDLE_COLUMN_COUNT] = [&[]; BUNDLE_COLUMN_COUNT];
        columns[..COLUMN_COUNT].copy_from_slice(&encoder.columns());
        columns[OBJ_COUNTER] = obj_counter.bytes();
        columns[ID_ACTOR] = id_actor.bytes();
        columns[ID_POSITION] = positions.bytes();
        let mut op_columns: Vec<(ColumnSpec, &[u8])> =
            BUNDLE_SPECS.into_iter().zip(columns).collect();
        op_columns.sort_unstable_by_key(|(spec, _)| spec.0);

        let mut rows = ChangeEncoders::default();
        let external = self.push_changes(&mut rows);
        rows.finish();
        let mut body = Vec::new();
        write_uleb(external.len() as u64, &mut body);
        for hash in &external {
            body.extend_from_slice(&hash.0);
        }
        write_uleb(self.actors.len() as u64, &mut body);
        for actor in &self.actors {
            write_length_prefixed(actor.as_bytes(), &mut body);
        }
        let change_columns: Vec<(ColumnSpec, &[u8])> =
            CHANGE_SPECS.into_iter().zip(rows.columns()).collect();
        self.write_columns(&change_columns, &mut body);
        self.write_columns(&op_columns, &mut body);
        if u32::try_from(body.len()).is_err() {
            return Err(Error::Misuse { why: "a bundle is smaller than 4 GiB" });
        }
        let hash = header::hash(ChunkType::Bundle, &body);
        let mut out = Vec::new();
        header::write(ChunkType::Bundle, hash, &body, &mut out);
        Ok(out)
    }

    /// The ops of all changes, in terms of the bundle's actors.
    fn ops(&self, place_of: &mut impl FnMut(OpId, OpId) -> u64) -> Vec<OpRow<'a>> {
        let count = self.changes.iter().map(|change| change.len()).sum();
        let mut rows = Vec::with_capacity(count);
        for &change in &self.changes {
            let table: Vec<ActorIdx> =
                change.actors().iter().map(|actor| self.index_of(actor)).collect();
            let local = |id: OpId| OpId { actor: table[id.actor.as_usize()], ..id };
            let mut ops = change.ops();
            let mut counter = change.start_op();
            while let Some((body, links)) = ops.next_raw() {
                let id = OpId { counter, actor: table[0] };
                counter = counter.saturating_add(1);
                let obj = match body.obj {
                    ObjId::Root => ObjId::Root,
                    ObjId::Op(id) => ObjId::Op(local(id)),
                };
                let key = match body.key {
                    Key::Elem(id) => Key::Elem(local(id)),
                    key => key,
                };
                let place = match (obj, key) {
                    _ if matches!(key, Key::Map(_)) => 0,
                    (ObjId::Op(obj), _) if body.insert => place_of(obj, id),
                    (ObjId::Op(obj), Key::Elem(elem)) => place_of(obj, elem),
                    _ => 0,
                };
                rows.push(OpRow {
                    id,
                    place,
                    row: Row {
                        obj,
                        key,
                        insert: body.insert,
                        action: body.action,
                        value: RowValue::Raw(body.value),
                        expand: body.expand,
                        mark_name: body.mark_name,
                    },
                    links: links.iter().copied().map(local).collect(),
                });
            }
        }
        rows
    }

    /// Appends the rows of the changes, and returns the dependencies outside of the bundle.
    fn push_changes(&self, rows: &mut ChangeEncoders) -> Vec<ChangeHash> {
        let mut external = Vec::new();
        let mut places: FxHashMap<ChangeHash, usize> = FxHashMap::default();
        for (at, change) in self.changes.iter().enumerate() {
            places.insert(change.hash(), at);
            rows.actor.push_value(u64::from(self.index_of(change.actor()).0));
            rows.seq.push_value(i64::from(change.seq()));
            rows.start_op.push_value(i64::from(change.start_op()));
            rows.max_op.push_value(i64::from(change.max_op()));
            rows.time.push_value(change.time());
            rows.message.push(change.message());
            rows.dep_count.push_value(change.deps().len() as u64);
            for dep in change.deps() {
                let place = *places.entry(*dep).or_insert_with(|| {
                    external.push(*dep);
                    self.changes.len() + external.len() - 1
                });
                rows.dep.push_value(i64::try_from(place).unwrap_or(i64::MAX));
            }
            rows.extra_count.push_value(change.extra_bytes().len() as u64);
            rows.extra.extend_from_slice(change.extra_bytes());
        }
        external
    }

    fn index_of(&self, actor: &ActorId) -> ActorIdx {
        let at = self.actors.binary_search(actor).expect("all actors of the changes were gathered");
        ActorIdx(u32::try_from(at).expect("actors have 32-bit indices"))
    }

    /// Appends the table of columns and their data.
    fn write_columns(&self, columns: &[(ColumnSpec, &[u8])], body: &mut Vec<u8>) {
        let written: Vec<(ColumnSpec, Cow<'_, [u8]>)> = columns
            .iter()
            .map(|&(spec, data)| {
                if self.deflate && data.len() >= DEFLATE_FROM {
                    let mut out = Vec::new();
                    compressed::deflate(data, &mut out);
                    (spec.deflated(), Cow::Owned(out))
                } else {
                    (spec, Cow::Borrowed(data))
                }
            })
            .collect();
        spec::write_table(written.iter().map(|(spec, data)| (*spec, data.len())), body);
        for (_, data) in &written {
            body.extend_from_slice(data);
        }
    }
}

/// An op on its way.
struct OpRow<'a> {
    id: OpId,
    /// The place in the sequence.
    place: u64,
    row: Row<'a>,
    links: Vec<OpId>,
}

impl OpRow<'_> {
    /// The order of a document: by object, in a map by key, in a sequence by place; at one place by
    /// id, deletes last. Actors compare as their indices do.
    fn in_document(&self, other: &Self) -> Ordering {
        let obj = |row: &Row<'_>| match row.obj {
            ObjId::Root => (0, 0),
            ObjId::Op(id) => (id.counter, id.actor.0),
        };
        fn key<'a>(row: &Row<'a>) -> Option<&'a str> {
            match row.key {
                Key::Map(key) => Some(key),
                Key::Head | Key::Elem(_) => None,
            }
        }
        let last = |op: &Self| {
            (!op.row.insert, op.row.action == Action::Delete, op.id.counter, op.id.actor.0)
        };
        obj(&self.row)
            .cmp(&obj(&other.row))
            .then_with(|| key(&self.row).cmp(&key(&other.row)))
            .then_with(|| self.place.cmp(&other.place))
            .then_with(|| last(self).cmp(&last(other)))
    }
}

/// The row of each op, for all ops by actor and counter.
fn positions(ops: &[OpRow<'_>]) -> DeltaEncoder {
    let mut order: Vec<usize> = (0..ops.len()).collect();
    order.sort_unstable_by_key(|&at| (ops[at].id.actor, ops[at].id.counter));
    let mut positions = DeltaEncoder::default();
    for at in order {
        positions.push_value(i64::try_from(at).unwrap_or(i64::MAX));
    }
    positions.finish();
    positions
}

#[derive(Debug, Default)]
struct ChangeEncoders {
    actor: RleEncoder<Uint>,
    seq: DeltaEncoder,
    start_op: DeltaEncoder,
    max_op: DeltaEncoder,
    time: DeltaEncoder,
    message: RleEncoder<Text>,
    dep_count: RleEncoder<Uint>,
    dep: DeltaEncoder,
    extra_count: RleEncoder<Uint>,
    extra: Vec<u8>,
}

impl ChangeEncoders {
    fn finish(&mut self) {
        self.actor.finish();
        self.seq.finish();
        self.start_op.finish();
        self.max_op.finish();
        self.time.finish();
        self.message.finish();
        self.dep_count.finish();
        self.dep.finish();
        self.extra_count.finish();
    }

    /// By the constants for the columns.
    fn columns(&self) -> [&[u8]; CHANGE_COLUMN_COUNT] {
        let mut columns: [&[u8]; CHANGE_COLUMN_COUNT] = [&[]; CHANGE_COLUMN_COUNT];
        columns[CHANGE_ACTOR] = self.actor.bytes();
        columns[SEQ] = self.seq.bytes();
        columns[START_OP] = self.start_op.bytes();
        columns[MAX_OP] = self.max_op.bytes();
        columns[TIME] = self.time.bytes();
        columns[MESSAGE] = self.message.bytes();
        columns[DEP_COUNT] = self.dep_count.bytes();
        columns[DEP] = self.dep.bytes();
        columns[EXTRA_COUNT] = self.extra_count.bytes();
        columns[EXTRA] = &self.extra;
        columns
    }
}
