//! Encoding changes out of flat arrays, column by column into one buffer: runs are written as
//! runs, and a small change costs no allocation. The hashes of the dependencies are not known yet,
//! and stay open. Debug builds encode the changes of the fast paths (one op, one run, stencil) by
//! the slower path as well, and compare.

use super::super::change_rows::ChangeTable;
use super::super::op_table::{KeyKind, OpTable, Segment};
use super::slots::{OpRun, Preds, Slots};
use crate::chunk::change::{Columns, Deps, Frame, Places, Span};
use crate::chunk::columns::{
    ACTION, COLUMN_COUNT, EXPAND, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR,
    LINK_COUNT, LINK_COUNTER, MARK_NAME, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META,
};
use crate::chunk::op_one::{self, Number, Written};
use crate::chunk::op_rows::{OpEncoder, Row, RowValue};
use crate::chunk::op_runs::OneRun;
use crate::column::boolean::BooleanState;
use crate::column::delta::DeltaState;
use crate::column::rle::{RleState, Text, Uint};
use crate::column::value::RawValue;
use crate::{Action, ActorId, ActorIdx, Key, ObjId, OpId};

mod stencil;

use stencil::{Stencil, Stencils};

/// The source of encoded changes.
pub(super) struct Parts<'a> {
    pub(super) actors: &'a [ActorId],
    pub(super) changes: &'a ChangeTable,
    pub(super) rows: &'a OpTable,
    pub(super) payloads: &'a [u8],
    pub(super) slots: Slots,
}

/// Some encoded changes, one after the other, still without the hashes of their dependencies and
/// their checksums.
#[derive(Default)]
pub(super) struct Batch {
    /// The row of the first change.
    pub(super) first: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) shapes: Vec<Shape>,
    /// The actors named by ops, besides the authors.
    pub(super) others: Vec<u32>,
}

/// Where the parts of a chunk are. All but `end` count from its begin.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Where the chunk ends in the bytes.
    pub(super) end: usize,
    pub(super) deps: u32,
    pub(super) message: Span,
    pub(super) column_table: u32,
    pub(super) extra: Span,
    /// Where the other actors end.
    pub(super) others_end: usize,
}

/// There are more bytes than allowed.
pub(super) struct TooLong;

/// The columns of a change.
enum Encoded {
    /// With their table.
    OneOp(Written),
    /// In the encoder, one after the other: their lengths.
    Columns([usize; COLUMN_COUNT]),
    /// In the encoder of entries.
    Entries,
}

impl Encoded {
    /// The columns; `data` is one piece with all columns, or of entries one piece for each.
    fn columns<'a>(&'a self, data: &'a [&'a [u8]]) -> Columns<'a> {
        match self {
            Self::OneOp(written) => Columns::OneOp(written.bytes()),
            Self::Columns(lens) => Columns::Encoded { lens: *lens, data },
            Self::Entries => {
                let len = |index: usize| data.get(index).map_or(0, |column| column.len());
                Columns::Encoded { lens: std::array::from_fn(len), data }
            }
        }
    }
}

/// Encodes one change after the other, keeping its buffers.
#[derive(Default)]
pub(super) struct Encoder {
    data: Vec<u8>,
    body: Vec<u8>,
    /// The index in the change of each of the document's actors, as far as used there.
    local: Vec<u32>,
    others: Vec<u32>,
    numbers: RleState<Uint>,
    delta: DeltaState,
    text: RleState<Text>,
    /// The columns of a change of map entries alone.
    entries: OpEncoder,
    stencils: Stencils,
}

impl Parts<'_> {
    /// How many bytes keys and names take in all changes together, at most: every row and every
    /// delete its own.
    pub(super) fn text_bytes(&self) -> u64 {
        let len = |segment: &Segment| {
            let key = match segment.key {
                KeyKind::Map(string) => self.rows.text(string).len(),
                _ => 0,
            };
            (key + self.rows.mark_name(segment).map_or(0, str::len)) as u64
        };
        if !self.rows.has_text() {
            return 0;
        }
        let mut sum = 0_u64;
        for run in self.slots.runs() {
            let each = len(self.rows.segment(run.place));
            sum = sum.saturating_add(u64::from(run.len).saturating_mul(each));
        }
        sum
    }
}

impl Encoder {
    /// Appends the change of a row. Stops when `batch` gets longer than `max_bytes`.
    pub(super) fn encode(
        &mut self,
        parts: &Parts<'_>,
        change: usize,
        max_bytes: u64,
        batch: &mut Batch,
    ) -> Result<(), TooLong> {
        let runs = parts.slots.runs_of(change);
        let author = parts.changes.actors[change].0;
        let room = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let room = room.checked_sub(batch.bytes.len()).ok_or(TooLong)?;
        if let [run] = runs
            && let Some(stencil) = self.stencils.fill(parts, change, run)
        {
            if stencil.bytes.len() > room {
                return Err(TooLong);
            }
            stencil.write(batch);
            if cfg!(debug_assertions) {
                self.check_stencil(parts, change, batch);
            }
            return Ok(());
        }
        let start = batch.bytes.len();
        let (encoded, places) = self.write(parts, change, room, batch)?;
        let message = parts.changes.message(change);
        if let (Encoded::OneOp(written), [run]) = (encoded, runs)
            && !matches!(run.preds, Preds::Listed { .. })
            && !matches!(run.key(parts.rows.segment(run.place)), KeyKind::Map(_))
            && message.is_empty()
            && parts.changes.extra(change).is_empty()
        {
            *self.stencils.of(author, run.is_delete()) = Some(Stencil {
                bytes: batch.bytes[start..].to_vec(),
                shape: *batch.shapes.last().expect("a change was written"),
                others: self.others.clone(),
                author,
                dep_count: parts.changes.deps_at(change).len(),
                segment: *parts.rows.segment(run.place),
                seq: Number::new(places.seq),
                start_op: Number::new(places.start_op),
                time: Number::new(places.time),
                columns: places.column_table as usize,
                places: written.places(),
            });
        }
        Ok(())
    }

    /// Appends the change of a row, written anew, if at most `room` bytes long.
    fn write(
        &mut self,
        parts: &Parts<'_>,
        change: usize,
        room: usize,
        batch: &mut Batch,
    ) -> Result<(Encoded, Places), TooLong> {
        let changes = parts.changes;
        let runs = parts.slots.runs_of(change);
        let author = changes.actors[change].0;
        self.find_actors(parts, runs, author);
        let encoded = match runs {
            [run] if let Some(row) = self.one_op(parts, run) => Ok(Encoded::OneOp(row.write())),
            [run] if self.is_plain(parts, run) => Ok(Encoded::Columns(self.encode_run(parts, run))),
            _ if self.encode_entries(parts, runs, room) => Ok(Encoded::Entries),
            _ => self.encode_columns(parts, runs, room).map(Encoded::Columns),
        };
        if cfg!(debug_assertions)
            && let Ok(encoded) = &encoded
            && (runs.len() == 1 || matches!(encoded, Encoded::Entries))
        {
            self.check_columns(parts, runs, encoded);
        }
        self.forget_actors(author);
        let encoded = encoded?;
        let (one, entries) = ([&self.data[..]], self.entries.columns());
        let data = if matches!(encoded, Encoded::Entries) { &entries[..] } else { &one[..] };
        let frame = Frame {
            deps: Deps::Open(changes.deps_at(change).len()),
            author: &parts.actors[author as usize],
            seq: changes.seqs[change],
            start_op: parts.slots.start_ops[change],
            time: changes.times[change],
            message: changes.message(change),
            extra_bytes: changes.extra(change),
        };
        let others = self.others.iter().map(|actor| &parts.actors[*actor as usize]);
        let columns = encoded.columns(data);
        let places = frame.write(others, columns, room, &mut self.body, &mut batch.bytes);
        let places = places.ok_or(TooLong)?;
        batch.others.extend_from_slice(&self.others);
        batch.shapes.push(Shape {
            end: batch.bytes.len(),
            deps: places.deps,
            message: places.message,
            column_table: places.column_table,
            extra: places.extra,
            others_end: batch.others.len(),
        });
        Ok((encoded, places))
    }

    /// Panics unless [`encode_columns`](Self::encode_columns) makes the columns of the fast path.
    fn check_columns(&mut self, parts: &Parts<'_>, runs: &[OpRun], encoded: &Encoded) {
        let data = std::mem::take(&mut self.data);
        let fast = match encoded {
            Encoded::Entries => encoded.columns(&self.entries.columns()).to_bytes(),
            _ => encoded.columns(&[&data]).to_bytes(),
        };
        let lens = self.encode_columns(parts, runs, usize::MAX);
        let lens = lens.unwrap_or([0; COLUMN_COUNT]);
        let slow = Columns::Encoded { lens, data: &[&self.data] }.to_bytes();
        assert_eq!(fast, slow, "a change has the same columns on every path");
        self.data = data;
    }

    /// Panics unless the last change of `batch`, made from a stencil, is the change written anew.
    fn check_stencil(&mut self, parts: &Parts<'_>, change: usize, batch: &Batch) {
        let mut anew = Batch::default();
        let written = self.write(parts, change, usize::MAX, &mut anew);
        assert!(written.is_ok(), "a change as long as one before fits a chunk");
        let start = batch.bytes.len() - anew.bytes.len();
        assert_eq!(batch.bytes[start..], anew.bytes, "a stencil gives the bytes of its change");
        assert!(batch.others.ends_with(&anew.others), "a stencil names the actors of its change");
    }

    /// Finds the actors named by the ops besides the author, and gives all their indices.
    fn find_actors(&mut self, parts: &Parts<'_>, runs: &[OpRun], author: u32) {
        self.others.clear();
        self.local.resize(parts.actors.len(), u32::MAX);
        self.local[author as usize] = 0;
        let (local, others) = (&mut self.local, &mut self.others);
        if parts.actors.len() == 1 {
            return;
        }
        let mut note = |actor: u32| {
            if local[actor as usize] == u32::MAX {
                local[actor as usize] = 0;
                others.push(actor);
            }
        };
        for run in runs {
            let segment = parts.rows.segment(run.place);
            if segment.obj_counter > 0 {
                note(segment.obj_actor);
            }
            if let KeyKind::Elem(actor) = run.key(segment) {
                note(actor);
            }
            match run.preds {
                Preds::None => {}
                Preds::Deleted { .. } => note(segment.id_actor),
                Preds::Listed { list, .. } => {
                    parts.slots.preds(list).iter().for_each(|id| note(id.actor.0));
                }
            }
        }
        // A document's actors ascend by their bytes.
        self.others.sort_unstable();
        for (index, &actor) in (1..).zip(&self.others) {
            self.local[actor as usize] = index;
        }
    }

    /// Encodes the columns of a change of map entries alone, in one walk over its runs; false, and
    /// nothing meant, for any other change, and for one with keys of more than `room` bytes.
    fn encode_entries(&mut self, parts: &Parts<'_>, runs: &[OpRun], room: usize) -> bool {
        let Parts { rows, slots, .. } = parts;
        let Self { entries, local, .. } = self;
        let local = |id: OpId| OpId { actor: ActorIdx(local[id.actor.as_usize()]), ..id };
        let in_map = |run: &OpRun| matches!(rows.segment(run.place).key, KeyKind::Map(_));
        if !(runs.first().is_some_and(in_map) && runs.last().is_some_and(in_map)) {
            return false;
        }
        entries.clear();
        let mut text_room = room;
        for run in runs {
            let segment = rows.segment(run.place);
            let KeyKind::Map(string) = segment.key else { return false };
            let key = rows.text(string);
            let left = (run.len as usize).checked_mul(key.len());
            let Some(left) = left.and_then(|len| text_room.checked_sub(len)) else { return false };
            text_room = left;
            let one;
            let preds = match run.preds {
                Preds::None => &[][..],
                Preds::Listed { list, .. } => slots.preds(list),
                Preds::Deleted { .. } if run.len == 1 => {
                    one = [rows.id(run.place)];
                    &one[..]
                }
                Preds::Deleted { .. } => return false,
            };
            let mut row = Row {
                obj: match segment.obj() {
                    ObjId::Root => ObjId::Root,
                    ObjId::Op(id) => ObjId::Op(local(id)),
                },
                key: Key::Map(key),
                insert: false,
                action: Action::Delete,
                value: RowValue::Raw(RawValue::NULL),
                expand: false,
                mark_name: None,
            };
            if run.is_delete() {
                entries.push(&row, preds.iter().map(|id| local(*id)));
                continue;
            }
            row.action = segment.action;
            row.expand = segment.expand;
            row.mark_name = rows.mark_name(segment);
            let len = segment.payload_len as usize;
            let payloads = rows.payloads(parts.payloads, run.place, run.len);
            for at in 0..run.len as usize {
                let payload = &payloads[at * len..(at + 1) * len];
                let type_code = segment.value_type;
                row.value = RowValue::Raw(RawValue { type_code, payload });
                entries.push(&row, preds.iter().map(|id| local(*id)));
            }
        }
        entries.finish();
        true
    }

    /// Encodes the columns and returns the length of each.
    fn encode_columns(
        &mut self,
        parts: &Parts<'_>,
        runs: &[OpRun],
        room: usize,
    ) -> Result<[usize; COLUMN_COUNT], TooLong> {
        let Parts { rows, slots, .. } = parts;
        let Self { data, local, numbers, delta, text, .. } = self;
        let local = |actor: u32| u64::from(local[actor as usize]);
        let segment = |run: &OpRun| rows.segment(run.place);
        data.clear();
        let mut lens = [0; COLUMN_COUNT];
        if runs.is_empty() {
            return Ok(lens);
        }
        let in_map = |segment: &Segment| matches!(segment.key, KeyKind::Map(_));
        let any_object = runs.iter().any(|run| segment(run).obj_counter > 0);
        let any_map = runs.iter().any(|run| in_map(segment(run)));
        let any_sequence = runs.iter().any(|run| !in_map(segment(run)));
        let any_mark = runs.iter().any(|run| segment(run).mark_name > 0);
        let any_expand = runs.iter().any(|run| segment(run).expand && !run.is_delete());
        let any_preds = runs.iter().any(|run| run.preds != Preds::None);

        let mut start = 0;
        let mut end_column = |index: usize, data: &Vec<u8>| {
            lens[index] = data.len() - start;
            start = data.len();
        };
        if any_object {
            for (index, of_actor) in [(OBJ_ACTOR, true), (OBJ_COUNTER, false)] {
                numbers.begin(data);
                for run in runs {
                    let segment = segment(run);
                    let value = if of_actor {
                        local(segment.obj_actor)
                    } else {
                        u64::from(segment.obj_counter)
                    };
                    let value = (segment.obj_counter > 0).then_some(value);
                    numbers.push(value, u64::from(run.len), data);
                }
                numbers.finish(data);
                end_column(index, data);
            }
        }
        if any_sequence {
            numbers.begin(data);
            for run in runs {
                let actor = match run.key(segment(run)) {
                    KeyKind::Elem(actor) => Some(local(actor)),
                    _ => None,
                };
                numbers.push(actor, u64::from(run.len), data);
            }
            numbers.finish(data);
            end_column(KEY_ACTOR, data);
            delta.begin(data);
            for run in runs {
                encode_key_counters(parts, run, delta, data);
            }
            delta.finish(data);
            end_column(KEY_COUNTER, data);
        }
        if any_map {
            text.begin(data);
            for run in runs {
                let key = match segment(run).key {
                    KeyKind::Map(string) => Some(rows.text(string)),
                    _ => None,
                };
                text.push(key, u64::from(run.len), data);
                if data.len() > room {
                    return Err(TooLong);
                }
            }
            text.finish(data);
            end_column(KEY_STRING, data);
        }
        let mut boolean = BooleanState::default();
        for run in runs {
            boolean.push(segment(run).insert && !run.is_delete(), u64::from(run.len), data);
        }
        boolean.finish(data);
        end_column(INSERT, data);
        numbers.begin(data);
        for run in runs {
            let action = if run.is_delete() { Action::Delete } else { segment(run).action };
            numbers.push_value(action as u64, u64::from(run.len), data);
        }
        numbers.finish(data);
        end_column(ACTION, data);
        numbers.begin(data);
        for run in runs {
            let segment = segment(run);
            let meta = u64::from(segment.payload_len) << 4 | u64::from(segment.value_type);
            numbers.push_value(if run.is_delete() { 0 } else { meta }, u64::from(run.len), data);
        }
        numbers.finish(data);
        end_column(VALUE_META, data);
        for run in runs.iter().filter(|run| !run.is_delete()) {
            data.extend_from_slice(rows.payloads(parts.payloads, run.place, run.len));
        }
        end_column(VALUE, data);
        numbers.begin(data);
        for run in runs {
            let count = match run.preds {
                Preds::None => 0,
                Preds::Deleted { .. } => 1,
                Preds::Listed { list, .. } => slots.preds(list).len() as u32,
            };
            numbers.push_value(u64::from(count), u64::from(run.len), data);
        }
        numbers.finish(data);
        end_column(LINK_COUNT, data);
        if any_preds {
            numbers.begin(data);
            for run in runs {
                match run.preds {
                    Preds::None => {}
                    Preds::Deleted { .. } => {
                        let actor = local(segment(run).id_actor);
                        numbers.push_value(actor, u64::from(run.len), data);
                    }
                    Preds::Listed { list, .. } => {
                        for id in slots.preds(list) {
                            numbers.push_value(local(id.actor.0), 1, data);
                        }
                    }
                }
            }
            numbers.finish(data);
            end_column(LINK_ACTOR, data);
            delta.begin(data);
            for run in runs {
                match run.preds {
                    Preds::None => {}
                    Preds::Deleted { descends } => {
                        delta.push_value(i64::from(rows.id(run.place).counter), data);
                        push_others(delta, descends, run.len, data);
                    }
                    Preds::Listed { list, .. } => {
                        for id in slots.preds(list) {
                            delta.push_value(i64::from(id.counter), data);
                        }
                    }
                }
            }
            delta.finish(data);
            end_column(LINK_COUNTER, data);
        }
        if any_expand {
            let mut boolean = BooleanState::default();
            for run in runs {
                boolean.push(segment(run).expand && !run.is_delete(), u64::from(run.len), data);
            }
            boolean.finish(data);
            end_column(EXPAND, data);
        }
        if any_mark {
            text.begin(data);
            for run in runs {
                let name = rows.mark_name(segment(run)).filter(|_| !run.is_delete());
                text.push(name, u64::from(run.len), data);
                if data.len() > room {
                    return Err(TooLong);
                }
            }
            text.finish(data);
            end_column(MARK_NAME, data);
        }
        Ok(lens)
    }

    /// True if [`encode_run`](Self::encode_run) can encode a change of this run alone.
    fn is_plain(&self, parts: &Parts<'_>, run: &OpRun) -> bool {
        let segment = parts.rows.segment(run.place);
        match run.preds {
            Preds::None => {
                segment.mark_name == 0 && !segment.expand && !matches!(segment.key, KeyKind::Map(_))
            }
            Preds::Deleted { .. } => !matches!(segment.key, KeyKind::Map(_)),
            Preds::Listed { .. } => false,
        }
    }

    /// The op of a change of one, if of a kind written at once.
    fn one_op<'p>(&self, parts: &Parts<'p>, run: &OpRun) -> Option<op_one::Row<'p>> {
        if run.len != 1 {
            return None;
        }
        let rows = parts.rows;
        let segment = rows.segment(run.place);
        let is_delete = run.is_delete();
        let local = |actor: u32| self.local[actor as usize];
        let pred = match run.preds {
            Preds::None => None,
            Preds::Deleted { .. } => Some(rows.id(run.place)),
            Preds::Listed { list, .. } => match parts.slots.preds(list) {
                [] => None,
                [pred] => Some(*pred),
                _ => return None,
            },
        };
        let pred = pred.map(|id| (local(id.actor.0), id.counter));
        let key = match run.key(segment) {
            KeyKind::Map(string) => op_one::Key::Map(rows.text(string)),
            KeyKind::Head => op_one::Key::Elem(None, 0),
            KeyKind::Elem(actor) if is_delete && segment.insert => {
                op_one::Key::Elem(Some(local(actor)), rows.id(run.place).counter)
            }
            KeyKind::Elem(actor) => {
                op_one::Key::Elem(Some(local(actor)), rows.key_counter(run.place))
            }
        };
        if matches!(key, op_one::Key::Map(key) if key.len() > op_one::MAX_KEY) {
            return None;
        }
        let obj =
            (segment.obj_counter > 0).then(|| (local(segment.obj_actor), segment.obj_counter));
        let delete = op_one::Row {
            obj,
            key,
            insert: false,
            action: Action::Delete,
            meta: 0,
            payload: &[],
            pred,
        };
        let is_plain = !segment.expand
            && segment.mark_name == 0
            && segment.payload_len as usize <= op_one::MAX_PAYLOAD;
        match is_delete {
            true => pred.is_some().then_some(delete),
            false => is_plain.then(|| op_one::Row {
                insert: segment.insert,
                action: segment.action,
                meta: segment.payload_len << 4 | u32::from(segment.value_type),
                payload: rows.payloads(parts.payloads, run.place, 1),
                ..delete
            }),
        }
    }

    /// Encodes the columns of a change of one run in a sequence.
    fn encode_run(&mut self, parts: &Parts<'_>, run: &OpRun) -> [usize; COLUMN_COUNT] {
        let rows = parts.rows;
        let segment = rows.segment(run.place);
        let local = |actor: u32| u64::from(self.local[actor as usize]);
        let id = rows.id(run.place).counter;
        let key_actor = match run.key(segment) {
            KeyKind::Elem(actor) => Some(local(actor)),
            _ => None,
        };
        let mut one = OneRun {
            len: run.len,
            obj: (segment.obj_counter > 0).then(|| (local(segment.obj_actor), segment.obj_counter)),
            key_actors: (key_actor, key_actor.unwrap_or(0)),
            keys: (rows.key_counter(run.place), id, 1),
            insert: segment.insert,
            action: segment.action,
            meta: u64::from(segment.payload_len) << 4 | u64::from(segment.value_type),
            payloads: &[],
            preds: None,
        };
        if let Preds::Deleted { descends } = run.preds {
            let step = if descends { -1 } else { 1 };
            if segment.insert {
                one.keys = (id, if descends { id.wrapping_sub(1) } else { id + 1 }, step);
            }
            one.preds = Some((local(segment.id_actor), id, step));
            (one.insert, one.action, one.meta) = (false, Action::Delete, 0);
        } else {
            one.payloads = rows.payloads(parts.payloads, run.place, run.len);
        }
        one.write(&mut self.delta, &mut self.data)
    }

    /// Forgets the indices of the actors, for the next change.
    fn forget_actors(&mut self, author: u32) {
        for &actor in self.others.iter().chain([&author]) {
            self.local[actor as usize] = u32::MAX;
        }
    }
}

/// Appends the counters after the first one of `len`.
fn push_others(delta: &mut DeltaState, descends: bool, len: u32, data: &mut Vec<u8>) {
    if len > 1 {
        delta.push_steps(if descends { -1 } else { 1 }, u64::from(len) - 1, data);
    }
}

fn encode_key_counters(parts: &Parts<'_>, run: &OpRun, delta: &mut DeltaState, data: &mut Vec<u8>) {
    let rows = parts.rows;
    let segment = rows.segment(run.place);
    let id = || i64::from(rows.id(run.place).counter);
    match run.preds {
        _ if matches!(segment.key, KeyKind::Map(_)) => delta.push_null(u64::from(run.len), data),
        Preds::Deleted { descends } if segment.insert => {
            delta.push_value(id(), data);
            push_others(delta, descends, run.len, data);
        }
        Preds::Listed { is_delete: true, .. } if segment.insert => {
            delta.push_value(id(), data);
        }
        _ => {
            delta.push_value(i64::from(rows.key_counter(run.place)), data);
            if run.len > 1 {
                delta.push_value(id(), data);
                push_others(delta, false, run.len - 1, data);
            }
        }
    }
}

impl OpRun {
    /// The common key of the ops, except for its counter.
    fn key(&self, segment: &Segment) -> KeyKind {
        if self.is_delete() && segment.insert {
            KeyKind::Elem(segment.id_actor)
        } else {
            segment.key
        }
    }
}
