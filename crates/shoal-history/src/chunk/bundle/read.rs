//! The rows of a bundle, and the changes made of them.

use std::ops::Range;

use super::packed::PackedBody;
use super::{
    CHANGE_ACTOR, CHANGE_COLUMN_COUNT, CHANGE_NAMES, DEP, DEP_COUNT, EXTRA, EXTRA_COUNT, MAX_OP,
    MESSAGE, SEQ, START_OP, TIME,
};
use crate::chunk::change::{ChangeEncoder, Meta, check_preds};
use crate::chunk::columns::{
    ACTION, BUNDLE_COLUMN_COUNT, ID_ACTOR, ID_COUNTER, ID_POSITION, NAMES, OBJ_COUNTER, OpColumns,
};
use crate::chunk::op_rows::{self, Body, OpReader, Row, RowValue};
use crate::chunk::parts;
use crate::column::delta::{self, DeltaDecoder};
use crate::column::rle::{self, RleDecoder, RleEncoder, Uint};
use crate::error::{ColumnFault, InColumn};
use crate::limits::Used;
use crate::{
    Action, ActorId, ActorIdx, Change, ChangeHash, ChunkType, Error, Fault, Key, Limits, OpId,
};

/// No row.
const NONE: u32 = u32::MAX;

/// A change without its ops.
pub(super) struct ChangeRow<'a> {
    actor: u32,
    seq: u32,
    start_op: u32,
    max_op: u32,
    time: i64,
    message: &'a str,
    /// In [`ChangeRows::deps`].
    deps: Range<usize>,
    extra: &'a [u8],
}

impl ChangeRow<'_> {
    /// The number of ops; checked not to be negative.
    fn len(&self) -> u32 {
        self.max_op + 1 - self.start_op
    }
}

/// The changes.
pub(super) struct ChangeRows<'a> {
    rows: Vec<ChangeRow<'a>>,
    /// Below the number of changes a row, from there on an external hash.
    deps: Vec<u32>,
    /// The rows by actor and sequence number; with each, how many ops come before its own.
    by_actor: Vec<(u32, u32)>,
    op_count: u32,
}

impl<'a> ChangeRows<'a> {
    pub(super) fn read(
        columns: &'a [Box<[u8]>; CHANGE_COLUMN_COUNT],
        actor_count: u32,
        external_count: usize,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let count = count_changes(columns, limits)?;
        let mut reader = ChangeReader::new(columns, actor_count);
        let mut table = Self {
            rows: Vec::with_capacity(count as usize),
            deps: Vec::new(),
            by_actor: Vec::new(),
            op_count: 0,
        };
        let dep_end = u64::from(count).saturating_add(external_count as u64);
        let mut ops = 0_u64;
        for row in 0..count {
            let change = reader
                .next(&mut table.deps)
                .and_then(|change| {
                    let outside =
                        |dep: &&u32| **dep >= row && (**dep < count || u64::from(**dep) >= dep_end);
                    match table.deps[change.deps.clone()].iter().find(outside) {
                        Some(dep) => {
                            let fault = Fault::DepRow(u64::from(*dep));
                            Err(ColumnFault { column: CHANGE_NAMES[DEP], fault })
                        }
                        None => Ok(change),
                    }
                })
                .map_err(|fault| fault.at_row(ChunkType::Bundle, row))?;
            ops += u64::from(change.len());
            table.rows.push(change);
        }
        if !reader.extra.is_empty() {
            let fault = Fault::Leftover(reader.extra.len() as u64);
            return Err(
                ColumnFault { column: CHANGE_NAMES[EXTRA], fault }.in_chunk(ChunkType::Bundle)
            );
        }
        parts::within(ChunkType::Bundle, ops, limits.max_ops, "ops")?;
        table.op_count = u32::try_from(ops).unwrap_or(u32::MAX);
        table.sort()?;
        Ok(table)
    }

    /// Finds the order of all ops, and checks that no two changes of an actor share ids.
    fn sort(&mut self) -> Result<(), Error> {
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..count).collect();
        let row = |at: u32| &self.rows[at as usize];
        order.sort_unstable_by_key(|at| (row(*at).actor, row(*at).seq));
        for pair in order.windows(2) {
            let (before, after) = (row(pair[0]), row(pair[1]));
            if before.actor != after.actor {
                continue;
            }
            let at_row = |column: usize, fault| {
                let column = CHANGE_NAMES[column];
                ColumnFault { column, fault }.at_row(ChunkType::Bundle, pair[1])
            };
            if before.seq == after.seq {
                return Err(at_row(SEQ, Fault::Seq(u64::from(after.seq))));
            }
            if after.start_op <= before.max_op {
                return Err(at_row(START_OP, Fault::RepeatedOpId(after.start_op)));
            }
        }
        let mut before = 0;
        self.by_actor = order
            .into_iter()
            .map(|at| {
                let first = before;
                before += self.rows[at as usize].len();
                (at, first)
            })
            .collect();
        Ok(())
    }

    /// The place of an op among all of them, by actor and counter.
    fn slot(&self, id: OpId) -> Option<u32> {
        let at = self.by_actor.partition_point(|(row, _)| {
            let change = &self.rows[*row as usize];
            (change.actor, change.start_op) <= (id.actor.0, id.counter)
        });
        // Changes without ops begin at the begin of the next one, and come before.
        let (row, first) = *self.by_actor.get(at.checked_sub(1)?)?;
        let change = &self.rows[row as usize];
        (change.actor == id.actor.0 && id.counter <= change.max_op)
            .then(|| first + (id.counter - change.start_op))
    }
}

fn count_changes(
    columns: &[Box<[u8]>; CHANGE_COLUMN_COUNT],
    limits: &Limits,
) -> Result<u32, Error> {
    let counted = || -> Result<(u64, u64), ColumnFault> {
        let mut deps = 0_u64;
        let changes =
            rle::count_rows::<u64>(&columns[CHANGE_ACTOR]).in_column(CHANGE_NAMES[CHANGE_ACTOR])?;
        for (index, (bytes, column)) in columns.iter().zip(CHANGE_NAMES).enumerate() {
            let always = matches!(index, SEQ | START_OP | MAX_OP);
            if bytes.is_empty() && !always {
                continue;
            }
            let (rows, expected) = match index {
                SEQ | START_OP | MAX_OP | TIME => (delta::count_rows(bytes), changes),
                MESSAGE => (rle::count_rows::<&str>(bytes), changes),
                EXTRA_COUNT => (rle::count_rows::<u64>(bytes), changes),
                DEP_COUNT => {
                    let rows = rle::for_each_run::<u64>(bytes, |count, run| {
                        let sum = count.unwrap_or(0).checked_mul(run);
                        deps = sum.and_then(|sum| deps.checked_add(sum)).ok_or(Fault::Overflow)?;
                        Ok(())
                    });
                    (rows, changes)
                }
                // The counts come before.
                DEP => (delta::count_rows(bytes), deps),
                _ => continue,
            };
            let rows = rows.in_column(column)?;
            if rows != expected {
                return Err(ColumnFault { column, fault: Fault::RowCount(rows) });
            }
        }
        if columns[DEP].is_empty() && deps > 0 {
            return Err(ColumnFault { column: CHANGE_NAMES[DEP], fault: Fault::RowCount(0) });
        }
        Ok((changes, deps))
    };
    let (changes, deps) = counted().map_err(|fault| fault.in_chunk(ChunkType::Bundle))?;
    parts::within(ChunkType::Bundle, changes, limits.max_changes, "changes")?;
    parts::within(ChunkType::Bundle, deps, limits.max_changes, "dependencies of changes")?;
    Ok(u32::try_from(changes).unwrap_or(u32::MAX))
}

/// Reads rows off the counted change columns.
struct ChangeReader<'a> {
    actor_count: u32,
    actor: RleDecoder<'a, u64>,
    seq: DeltaDecoder<'a>,
    start_op: DeltaDecoder<'a>,
    max_op: DeltaDecoder<'a>,
    time: DeltaDecoder<'a>,
    message: RleDecoder<'a, &'a str>,
    dep_count: RleDecoder<'a, u64>,
    dep: DeltaDecoder<'a>,
    extra_count: RleDecoder<'a, u64>,
    extra: &'a [u8],
}

impl<'a> ChangeReader<'a> {
    fn new(columns: &'a [Box<[u8]>; CHANGE_COLUMN_COUNT], actor_count: u32) -> Self {
        Self {
            actor_count,
            actor: RleDecoder::new(&columns[CHANGE_ACTOR]),
            seq: DeltaDecoder::new(&columns[SEQ]),
            start_op: DeltaDecoder::new(&columns[START_OP]),
            max_op: DeltaDecoder::new(&columns[MAX_OP]),
            time: DeltaDecoder::new(&columns[TIME]),
            message: RleDecoder::new(&columns[MESSAGE]),
            dep_count: RleDecoder::new(&columns[DEP_COUNT]),
            dep: DeltaDecoder::new(&columns[DEP]),
            extra_count: RleDecoder::new(&columns[EXTRA_COUNT]),
            extra: &columns[EXTRA],
        }
    }

    /// The next row; its dependencies are appended to `deps`.
    fn next(&mut self, deps: &mut Vec<u32>) -> Result<ChangeRow<'a>, ColumnFault> {
        let number = |value: Result<Option<u32>, Fault>, index: usize| {
            value
                .and_then(|value| value.ok_or(Fault::UnexpectedNull))
                .in_column(CHANGE_NAMES[index])
        };
        let actor =
            actor_of(self.actor.next(), self.actor_count).in_column(CHANGE_NAMES[CHANGE_ACTOR])?;
        let seq = number(self.seq.next_u32(), SEQ)?;
        if seq == 0 {
            return Err(ColumnFault { column: CHANGE_NAMES[SEQ], fault: Fault::Seq(0) });
        }
        let start_op = number(self.start_op.next_u32(), START_OP)?;
        if start_op == 0 {
            let fault = Fault::OutOfRange(0);
            return Err(ColumnFault { column: CHANGE_NAMES[START_OP], fault });
        }
        let max_op = number(self.max_op.next_u32(), MAX_OP)?;
        if max_op < start_op - 1 || max_op == u32::MAX {
            let fault = Fault::MaxOp(u64::from(max_op));
            return Err(ColumnFault { column: CHANGE_NAMES[MAX_OP], fault });
        }
        let time = self.time.next().in_column(CHANGE_NAMES[TIME])?.unwrap_or(0);
        let message = self.message.next().in_column(CHANGE_NAMES[MESSAGE])?.unwrap_or("");
        let count = self.dep_count.next().in_column(CHANGE_NAMES[DEP_COUNT])?.unwrap_or(0);
        let start = deps.len();
        for _ in 0..count {
            deps.push(number(self.dep.next_u32(), DEP)?);
        }
        let len = self.extra_count.next().in_column(CHANGE_NAMES[EXTRA_COUNT])?.unwrap_or(0);
        let (extra, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| self.extra.split_at_checked(len))
            .ok_or(ColumnFault { column: CHANGE_NAMES[EXTRA], fault: Fault::Truncated })?;
        self.extra = rest;
        let deps = start..deps.len();
        Ok(ChangeRow { actor, seq, start_op, max_op, time, message, deps, extra })
    }
}

/// The ops, and the op of each row.
pub(super) struct OpRows<'a> {
    columns: OpColumns<'a>,
    bodies: Vec<PackedBody>,
    /// The end of each row's links; they begin at the end of the row before.
    links_ends: Vec<u32>,
    links: Vec<OpId>,
    /// The row of each op, by actor and counter.
    rows: Vec<u32>,
}

impl<'a> OpRows<'a> {
    /// Reads the rows; `obj_counters` is the column re-encoded by [`object_counters`].
    pub(super) fn read(
        columns: &'a [Box<[u8]>; BUNDLE_COLUMN_COUNT],
        obj_counters: &'a [u8],
        changes: &ChangeRows<'_>,
        actor_count: u32,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let mut shared: OpColumns<'a> = std::array::from_fn(|index| &*columns[index]);
        shared[OBJ_COUNTER] = obj_counters;
        let counts = op_rows::count_rows(&shared).map_err(in_bundle)?;
        if counts.ops != u64::from(changes.op_count) {
            let fault = Fault::RowCount(counts.ops);
            return Err(in_bundle(ColumnFault { column: NAMES[ACTION], fault }));
        }
        parts::within(ChunkType::Bundle, counts.links, limits.max_ops, "preds")?;
        let rows = read_places(columns, changes, actor_count)?;

        let count = changes.op_count as usize;
        let mut ops = Self {
            columns: shared,
            bodies: Vec::with_capacity(count),
            links_ends: Vec::with_capacity(count),
            links: Vec::new(),
            rows,
        };
        let mut links = Vec::new();
        let mut reader = OpReader::new(&shared, actor_count);
        for row in 0..changes.op_count {
            let body =
                reader.next(&mut links).map_err(|fault| fault.at_row(ChunkType::Bundle, row))?;
            ops.links.extend_from_slice(&links);
            ops.bodies.push(PackedBody::of(&body, &shared));
            ops.links_ends.push(u32::try_from(ops.links.len()).unwrap_or(u32::MAX));
        }
        reader.finish().map_err(in_bundle)?;
        Ok(ops)
    }

    fn body_at(&self, row: u32) -> Body<'a> {
        self.bodies[row as usize].unpack(&self.columns)
    }

    fn links_at(&self, row: u32) -> &[OpId] {
        let row = row as usize;
        let start = row.checked_sub(1).map_or(0, |before| self.links_ends[before]);
        &self.links[start as usize..self.links_ends[row] as usize]
    }
}

/// The object counters in the encoding of changes.
pub(super) fn object_counters(
    columns: &[Box<[u8]>; BUNDLE_COLUMN_COUNT],
    changes: &ChangeRows<'_>,
) -> Result<Vec<u8>, Error> {
    let bytes = &columns[OBJ_COUNTER];
    let mut encoder = RleEncoder::<Uint>::default();
    if !bytes.is_empty() {
        let mut encode = || -> Result<(), Fault> {
            let rows = delta::count_rows(bytes)?;
            if rows != u64::from(changes.op_count) {
                return Err(Fault::RowCount(rows));
            }
            let mut decoder = DeltaDecoder::new(bytes);
            for _ in 0..rows {
                encoder.push(decoder.next_u32()?.map(u64::from));
            }
            Ok(())
        };
        encode().in_column(NAMES[OBJ_COUNTER]).map_err(in_bundle)?;
    }
    encoder.finish();
    Ok(encoder.bytes().to_vec())
}

/// Finds the row of each op, by actor and counter; each row belongs to one op.
fn read_places(
    columns: &[Box<[u8]>; BUNDLE_COLUMN_COUNT],
    changes: &ChangeRows<'_>,
    actor_count: u32,
) -> Result<Vec<u32>, Error> {
    let count = changes.op_count;
    let expect = |rows: Result<u64, Fault>, column: &'static str| {
        let rows = rows.in_column(column)?;
        if rows == u64::from(count) {
            Ok(())
        } else {
            Err(ColumnFault { column, fault: Fault::RowCount(rows) })
        }
    };
    expect(rle::count_rows::<u64>(&columns[ID_ACTOR]), NAMES[ID_ACTOR]).map_err(in_bundle)?;
    let by_position = count == 0 || !columns[ID_POSITION].is_empty();
    let (column, name) = match by_position {
        true => (&columns[ID_POSITION], NAMES[ID_POSITION]),
        false => (&columns[ID_COUNTER], NAMES[ID_COUNTER]),
    };
    expect(delta::count_rows(column), name).map_err(in_bundle)?;

    let mut actors = Vec::with_capacity(count as usize);
    let mut id_actor = RleDecoder::<u64>::new(&columns[ID_ACTOR]);
    for row in 0..count {
        let actor = actor_of(id_actor.next(), actor_count).in_column(NAMES[ID_ACTOR]);
        actors.push(actor.map_err(|fault| fault.at_row(ChunkType::Bundle, row))?);
    }
    let mut numbers = DeltaDecoder::new(column);
    let mut next = || numbers.next_u32().and_then(|number| number.ok_or(Fault::UnexpectedNull));
    let mut places = vec![NONE; count as usize];
    if by_position {
        let mut taken = vec![false; count as usize];
        let mut read = |actor: u32| {
            let row = next().in_column(NAMES[ID_POSITION])?;
            match taken.get_mut(row as usize) {
                Some(taken) if !*taken => *taken = true,
                _ => {
                    let fault = Fault::OutOfRange(i64::from(row));
                    return Err(ColumnFault { column: NAMES[ID_POSITION], fault });
                }
            }
            if actors[row as usize] != actor {
                let fault = Fault::NoSuchActor(u64::from(actors[row as usize]));
                return Err(ColumnFault { column: NAMES[ID_ACTOR], fault });
            }
            Ok(row)
        };
        for (change, first) in &changes.by_actor {
            let change = &changes.rows[*change as usize];
            for slot in *first..*first + change.len() {
                let row = read(change.actor);
                places[slot as usize] =
                    row.map_err(|fault| fault.at_row(ChunkType::Bundle, slot))?;
            }
        }
        return Ok(places);
    }
    for (row, actor) in (0..count).zip(actors) {
        let slot = next().and_then(|counter| {
            let id = OpId { counter, actor: ActorIdx(actor) };
            match changes.slot(id).map(|slot| slot as usize) {
                Some(slot) if places[slot] == NONE => Ok(slot),
                Some(_) => Err(Fault::RepeatedOpId(counter)),
                None => Err(Fault::StrayOp(counter)),
            }
        });
        let slot = slot.in_column(NAMES[ID_COUNTER]);
        places[slot.map_err(|fault| fault.at_row(ChunkType::Bundle, row))?] = row;
    }
    Ok(places)
}

/// Encodes each change as its author did. Returns their share of the limits as well.
///
/// # Errors
/// When an op breaks a rule of single ops; [`Error::Limit`].
pub(super) fn rebuild(
    changes: &ChangeRows<'_>,
    ops: &OpRows<'_>,
    actors: &[ActorId],
    external: &[ChangeHash],
    limits: &Limits,
) -> Result<(Vec<Change>, Used), Error> {
    let mut firsts = vec![0; changes.rows.len()];
    for (row, first) in &changes.by_actor {
        firsts[*row as usize] = *first;
    }
    let mut budget = Budget { left: limits.max_rebuilt_bytes, max: limits.max_rebuilt_bytes };
    let mut encoder = ChangeEncoder::default();
    let mut rebuilt: Vec<Change> = Vec::with_capacity(changes.rows.len());
    let mut preds = Vec::new();
    let mut runs = 0;
    for (change, first) in changes.rows.iter().zip(firsts) {
        let author = ActorIdx(change.actor);
        encoder.begin(author);
        let mut names = ("", "");
        let mut deleted = None;
        for (counter, slot) in (change.start_op..=change.max_op).zip(first..) {
            let row = ops.rows[slot as usize];
            let at_row = |fault: ColumnFault| fault.at_row(ChunkType::Bundle, row);
            let body = ops.body_at(row);
            let id = OpId { counter, actor: author };
            body.check(id).map_err(at_row)?;
            let last = std::mem::replace(&mut deleted, deleted_by(&body));
            runs += if is_beside(last, deleted) { 0 } else { body.runs(id) };
            preds.clear();
            preds.extend_from_slice(ops.links_at(row));
            check_preds(&mut preds, id, actors).map_err(at_row)?;
            // Rows share a name where they stand side by side; in a change they may not.
            let own = (name_of(&body), body.mark_name.unwrap_or_default());
            for (name, last) in [(own.0, names.0), (own.1, names.1)] {
                budget.take(if name == last { 0 } else { name.len() })?;
            }
            names = own;
            let Body { obj, key, insert, action, value, expand, mark_name } = body;
            let value = RowValue::Raw(value);
            let row = Row { obj, key, insert, action, value, expand, mark_name };
            encoder.push(&row, preds.iter().copied());
        }
        let deps = changes.deps[change.deps.clone()].iter().map(|dep| {
            let dep = *dep as usize;
            match dep.checked_sub(changes.rows.len()) {
                Some(dep) => external[dep],
                None => rebuilt[dep].hash(),
            }
        });
        let meta = Meta {
            seq: change.seq,
            start_op: change.start_op,
            time: change.time,
            message: change.message,
            deps: deps.collect(),
            extra_bytes: change.extra,
        };
        parts::within(ChunkType::Bundle, runs, limits.max_runs, "runs of ops")?;
        let change = encoder.finish(meta, actors)?;
        budget.take(change.raw_bytes().len())?;
        rebuilt.push(change);
    }
    let used = Used {
        ops: u64::from(changes.op_count).max(ops.links.len() as u64),
        runs,
        changes: rebuilt.len() as u64,
        decompressed_bytes: 0,
        rebuilt_bytes: budget.max - budget.left,
    };
    Ok((rebuilt, used))
}

/// How many bytes may still be made.
struct Budget {
    left: u64,
    max: u64,
}

impl Budget {
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(Error::Limit {
            chunk: ChunkType::Bundle,
            what: "bytes of rebuilt changes",
            max: self.max,
        })?;
        Ok(())
    }
}

/// The element deleted by the op, if any.
fn deleted_by(body: &Body<'_>) -> Option<OpId> {
    match body.key {
        Key::Elem(elem) if body.action == Action::Delete => Some(elem),
        _ => None,
    }
}

/// True if both are there, made by one author one after the other.
fn is_beside(one: Option<OpId>, other: Option<OpId>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one.actor == other.actor && one.counter.abs_diff(other.counter) == 1
}

fn name_of<'a>(body: &Body<'a>) -> &'a str {
    match body.key {
        Key::Map(key) => key,
        Key::Head | Key::Elem(_) => "",
    }
}

fn actor_of(index: Result<Option<u64>, Fault>, count: u32) -> Result<u32, Fault> {
    let index = index?.ok_or(Fault::UnexpectedNull)?;
    match u32::try_from(index) {
        Ok(actor) if actor < count => Ok(actor),
        _ => Err(Fault::NoSuchActor(index)),
    }
}

fn in_bundle(fault: ColumnFault) -> Error {
    fault.in_chunk(ChunkType::Bundle)
}
