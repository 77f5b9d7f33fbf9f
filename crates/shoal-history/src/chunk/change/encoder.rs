//! The columns of a change, encoded from its ops, and the change sealed. A change of one run, like
//! most, is kept aside until the end: nothing has to be computed in between. Debug builds encode
//! such a change row by row as well, and compare.

use super::few::Few;
use super::frame::{Columns, Deps, Frame};
use super::local_actors::LocalActors;
use super::{Canonical, Change, Entry, Span, Store};
use crate::chunk::columns::{COLUMN_COUNT, KEY_ACTOR, LINK_ACTOR, OBJ_ACTOR, OpColumns};
use crate::chunk::header;
use crate::chunk::op_one::{self, Written};
use crate::chunk::op_rows::{OpEncoder, Row, RowValue};
use crate::chunk::op_runs::{self, OneRun};
use crate::column::delta::DeltaState;
use crate::column::rle;
use crate::column::value::{self, RawValue};
use crate::{
    Action, ActorId, ActorIdx, ChangeHash, DeleteRun, Error, InsertRun, Key, ObjId, OpId,
    ScalarRef, TextRun,
};

/// The frame of the change; nothing is sorted or checked any more.
pub(crate) struct Meta<'a> {
    pub(crate) seq: u32,
    pub(crate) start_op: u32,
    pub(crate) time: i64,
    pub(crate) message: &'a str,
    pub(crate) deps: Vec<ChangeHash>,
    pub(crate) extra_bytes: &'a [u8],
}

/// Encodes one change after the other, keeping its buffers.
#[derive(Debug, Default)]
pub(crate) struct ChangeEncoder {
    ops: OpEncoder,
    /// True if the columns hold anything.
    is_filled: bool,
    /// The only run so far, kept aside: mostly there is no other. Actor indices are still the
    /// caller's.
    only: Option<Only>,
    /// The text or the key of the only run, then the columns.
    only_text: String,
    only_data: Vec<u8>,
    delta: DeltaState,
    op_count: u32,
    actors: LocalActors,
    body: Vec<u8>,
    replaced: [Vec<u8>; 3],
    /// True if a delete says more than a document can give back.
    odd_delete: bool,
}

/// One run, or one op.
#[derive(Clone, Copy, Debug)]
enum Only {
    /// Typing, in ASCII.
    Text(InsertRun),
    Deletes(DeleteRun),
    /// Setting a key of a map to a short value, whose payload is where the columns go.
    Put {
        obj: ObjId,
        type_code: u8,
        pred: Option<OpId>,
    },
}

/// True for a put of a short value at a short key, written at once when alone in a change.
fn is_short_put(row: &Row<'_>) -> bool {
    let is_short = match row.value {
        RowValue::Scalar(ScalarRef::Str(text)) => text.len() <= op_one::MAX_PAYLOAD,
        RowValue::Scalar(ScalarRef::Bytes(bytes) | ScalarRef::Unknown { bytes, .. }) => {
            bytes.len() <= op_one::MAX_PAYLOAD
        }
        RowValue::Scalar(_) => true,
        RowValue::Raw(value) => value.payload.len() <= op_one::MAX_PAYLOAD,
    };
    let is_plain = row.action == Action::Set && !row.insert && !row.expand;
    let has_short_key = matches!(row.key, Key::Map(key) if key.len() <= op_one::MAX_KEY);
    is_short && is_plain && row.mark_name.is_none() && has_short_key
}

/// The columns of a change of one run or op.
enum Encoded {
    /// With their table.
    OneOp(Written),
    /// The length of each column of a run, side by side in [`ChangeEncoder::only_data`].
    Run([usize; COLUMN_COUNT]),
}

/// The metadata of a string of one ASCII character.
const TEXT_META: u64 = 1 << 4 | op_runs::STR as u64;

impl ChangeEncoder {
    /// How many ops the change has so far.
    pub(super) fn op_count(&self) -> u32 {
        self.op_count
    }

    /// How many bytes of a change there is room for.
    pub(super) fn room(&self) -> usize {
        self.body.capacity()
    }

    /// Starts the next change, by `author`. Actor indices belong to the caller's table.
    pub(crate) fn begin(&mut self, author: ActorIdx) {
        if std::mem::take(&mut self.is_filled) {
            self.ops.clear();
        }
        self.only = None;
        self.op_count = 0;
        self.odd_delete = false;
        self.actors.begin(author);
    }

    /// Appends an op, with its preds in stored order.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row<'_>, preds: impl ExactSizeIterator<Item = OpId>) {
        let mut preds = preds;
        if self.op_count == 0
            && let Key::Map(key) = row.key
            && preds.len() <= 1
            && is_short_put(row)
        {
            self.only_text.clear();
            self.only_text.push_str(key);
            self.only_data.clear();
            let type_code = match row.value {
                RowValue::Scalar(value) => value::write_payload(value, &mut self.only_data),
                RowValue::Raw(value) => {
                    self.only_data.extend_from_slice(value.payload);
                    value.type_code
                }
            };
            self.only = Some(Only::Put { obj: row.obj, type_code, pred: preds.next() });
            self.op_count = 1;
            return;
        }
        self.fill();
        let obj = self.localize_object(row.obj);
        let key = match row.key {
            Key::Elem(id) => Key::Elem(self.actors.localize(id)),
            key => key,
        };
        if row.action == Action::Delete {
            let no_value = match row.value {
                RowValue::Scalar(value) => value == ScalarRef::Null,
                RowValue::Raw(value) => value == RawValue::NULL,
            };
            let plain = no_value && !row.insert && !row.expand && row.mark_name.is_none();
            self.odd_delete |= !plain || preds.len() == 0;
        }
        let preds = preds.map(|id| self.actors.localize(id));
        self.ops.push(&Row { obj, key, ..*row }, preds);
        self.op_count += 1;
    }

    pub(super) fn push_text(&mut self, run: &TextRun<'_>) {
        if self.op_count == 0 && run.text.is_ascii() {
            self.only_text.clear();
            self.only_text.push_str(run.text);
            self.only = Some(Only::Text(run.inserts()));
        } else {
            self.fill();
            self.fill_text(run);
        }
        self.op_count += run.len;
    }

    pub(super) fn push_deletes(&mut self, run: &DeleteRun) {
        if self.op_count == 0 {
            self.only = Some(Only::Deletes(*run));
        } else {
            self.fill();
            self.fill_deletes(run);
        }
        self.op_count += run.len;
    }

    /// Moves a run kept aside into the columns: more ops come.
    #[inline]
    fn fill(&mut self) {
        self.is_filled = true;
        if let Some(only) = self.only.take() {
            self.fill_only(only);
        }
    }

    fn fill_only(&mut self, only: Only) {
        match only {
            Only::Deletes(run) => self.fill_deletes(&run),
            Only::Text(InsertRun { id, obj, reference, len, succ, succ_descends }) => {
                let text = std::mem::take(&mut self.only_text);
                self.fill_text(&TextRun {
                    id,
                    obj,
                    reference,
                    text: &text,
                    len,
                    succ,
                    succ_descends,
                });
                self.only_text = text;
            }
            Only::Put { obj, type_code, pred } => {
                let obj = self.localize_object(obj);
                let pred = pred.map(|id| self.actors.localize(id));
                let value = RawValue { type_code, payload: &self.only_data };
                let row = Row {
                    obj,
                    key: Key::Map(&self.only_text),
                    insert: false,
                    action: Action::Set,
                    value: RowValue::Raw(value),
                    expand: false,
                    mark_name: None,
                };
                self.ops.push(&row, pred.into_iter());
            }
        }
    }

    fn fill_text(&mut self, run: &TextRun<'_>) {
        let obj = self.localize_object(run.obj);
        let reference = run.reference.map(|id| self.actors.localize(id));
        let id = self.actors.localize(run.id);
        self.ops.push_text(&TextRun { id, obj, reference, ..*run });
    }

    fn fill_deletes(&mut self, run: &DeleteRun) {
        let obj = self.localize_object(run.obj);
        let elem = self.actors.localize(run.elem);
        self.ops.push_deletes(&DeleteRun { obj, elem, ..*run });
    }

    /// The actors, and the table and data of the columns, of a change of one run or op, encoded row
    /// by row: the oracle of [`encode_only`](Self::encode_only).
    fn encode_rows(&mut self, only: Only, actors: &[ActorId]) -> (Vec<ActorId>, Vec<u8>) {
        self.fill_only(only);
        self.ops.finish();
        let (actors, data) = sorted(&self.ops, &self.actors, &mut self.replaced, actors);
        let bytes = Columns::Encoded { lens: data.map(<[u8]>::len), data: &data }.to_bytes();
        self.ops.clear();
        (actors, bytes)
    }

    /// Encodes the only run; returns the actors and the columns.
    fn encode_only(&mut self, only: Only, actors: &[ActorId]) -> (Few<ActorId>, Encoded) {
        let (obj, refers_to) = match &only {
            Only::Text(run) => (run.obj, run.reference),
            Only::Deletes(run) => (run.obj, Some(run.elem)),
            Only::Put { obj, pred, .. } => (*obj, *pred),
        };
        let obj = match obj {
            ObjId::Root => None,
            ObjId::Op(id) => Some(id),
        };
        // The author, the maker of the object, and the maker of the referenced op.
        let (mut table, mut count) = ([self.actors.used[0]; 3], 1);
        for id in obj.into_iter().chain(refers_to) {
            if !table[..count].contains(&id.actor.0) {
                table[count] = id.actor.0;
                count += 1;
            }
        }
        let table = &mut table[..count];
        table[1..].sort_unstable_by_key(|actor| &actors[*actor as usize]);
        let local = |actor: ActorIdx| {
            let place = table.iter().position(|other| *other == actor.0);
            place.expect("each actor was put into the table") as u64
        };
        let obj = obj.map(|id| (local(id.actor), id.counter));
        let key_actor = refers_to.map(|id| local(id.actor));
        let mut used = Few::default();
        used.extend(table.iter().map(|actor| actors[*actor as usize].clone()));
        let elem_counter = refers_to.map_or(0, |id| id.counter);
        let elem = op_one::Key::Elem(key_actor.map(|actor| actor as u32), elem_counter);
        let row = op_one::Row {
            obj: obj.map(|(actor, counter)| (actor as u32, counter)),
            key: elem,
            insert: false,
            action: Action::Delete,
            meta: 0,
            payload: &[],
            pred: key_actor.map(|actor| (actor as u32, elem_counter)),
        };
        let row = match &only {
            Only::Text(run) if run.len == 1 => Some(op_one::Row {
                insert: true,
                action: Action::Set,
                meta: TEXT_META as u32,
                payload: self.only_text.as_bytes(),
                pred: None,
                ..row
            }),
            Only::Deletes(run) if run.len == 1 => Some(row),
            Only::Put { type_code, .. } => Some(op_one::Row {
                key: op_one::Key::Map(&self.only_text),
                action: Action::Set,
                meta: (self.only_data.len() as u32) << 4 | u32::from(*type_code),
                payload: &self.only_data,
                ..row
            }),
            _ => None,
        };
        if let Some(row) = row {
            return (used, Encoded::OneOp(row.write()));
        }
        let one = match &only {
            Only::Text(run) => OneRun {
                len: run.len,
                obj,
                key_actors: (key_actor, 0),
                keys: (run.reference.map_or(0, |id| id.counter), run.id.counter, 1),
                insert: true,
                action: Action::Set,
                meta: TEXT_META,
                payloads: self.only_text.as_bytes(),
                preds: None,
            },
            Only::Deletes(run) => {
                let (first, step) = (run.elem.counter, if run.descends { -1 } else { 1 });
                let second =
                    if run.descends { first.wrapping_sub(1) } else { first.wrapping_add(1) };
                let actor = key_actor.unwrap_or(0);
                OneRun {
                    len: run.len,
                    obj,
                    key_actors: (key_actor, actor),
                    keys: (first, second, step),
                    insert: false,
                    action: Action::Delete,
                    meta: 0,
                    payloads: &[],
                    preds: Some((actor, first, step)),
                }
            }
            Only::Put { .. } => unreachable!("one op is written above"),
        };
        (used, Encoded::Run(one.write(&mut self.delta, &mut self.only_data)))
    }

    fn localize_object(&mut self, obj: ObjId) -> ObjId {
        match obj {
            ObjId::Root => ObjId::Root,
            ObjId::Op(id) => ObjId::Op(self.actors.localize(id)),
        }
    }

    /// The change. `actors` is the caller's table.
    ///
    /// # Errors
    /// When the ops or the bytes are too many for the format.
    pub(crate) fn finish(&mut self, meta: Meta<'_>, actors: &[ActorId]) -> Result<Change, Error> {
        let Meta { seq, start_op, time, message, deps, extra_bytes } = meta;
        if (start_op - 1).checked_add(self.op_count).is_none() {
            return Err(Error::Misuse { why: "the counters of op ids have 32 bits" });
        }
        let only = self.only.take();
        let by_rows = match only {
            Some(only) if cfg!(debug_assertions) => Some(self.encode_rows(only, actors)),
            _ => None,
        };
        let only = only.map(|only| self.encode_only(only, actors));
        let (own_actors, data): (Few<ActorId>, OpColumns<'_>);
        let columns = match only {
            Some((actors, Encoded::OneOp(ref written))) => {
                own_actors = actors;
                Columns::OneOp(written.bytes())
            }
            Some((actors, Encoded::Run(lens))) => {
                own_actors = actors;
                data = std::array::from_fn(|at| if at == 0 { &self.only_data[..] } else { &[] });
                Columns::Encoded { lens, data: &data[..1] }
            }
            None => {
                self.ops.finish();
                let (actors, columns) = sorted(&self.ops, &self.actors, &mut self.replaced, actors);
                own_actors = actors.into();
                data = columns;
                Columns::Encoded { lens: data.map(<[u8]>::len), data: &data }
            }
        };
        let own = own_actors.as_slice();
        let repeated = own[1..].windows(2).any(|pair| pair[0] == pair[1]);
        if repeated || own[1..].contains(&own[0]) {
            return Err(Error::Misuse { why: "the actors given differ" });
        }
        if let Some(by_rows) = by_rows {
            debug_assert_eq!(
                (own, columns.to_bytes()),
                (&by_rows.0[..], by_rows.1),
                "one op or run"
            );
        }

        let frame = Frame {
            deps: Deps::Known(&deps),
            author: &own[0],
            seq,
            start_op,
            time,
            message,
            extra_bytes,
        };
        let mut raw = Vec::new();
        let places = frame.write(own[1..].iter(), columns, usize::MAX, &mut self.body, &mut raw);
        let places = places.ok_or(Error::Misuse { why: "a change is smaller than 4 GiB" })?;
        let entry = Entry {
            hash: header::seal(&mut raw),
            start: 0,
            len: u32::try_from(raw.len()).expect("a chunk is smaller than 4 GiB"),
            actors: Span::new(0..own.len()),
            deps: Span::new(0..deps.len()),
            seq,
            start_op,
            op_count: self.op_count,
            time,
            message: places.message,
            extra: places.extra,
            column_table: places.column_table,
            canonical: if self.odd_delete { Canonical::default() } else { Canonical::known() },
        };
        let entries = Few::One(entry);
        Ok(Store { raw, entries, actors: own_actors, deps: deps.into() }.into_change())
    }
}

/// The actors of a change whose rows are finished, sorted, and its columns in terms of them.
fn sorted<'a>(
    ops: &'a OpEncoder,
    locals: &LocalActors,
    replaced: &'a mut [Vec<u8>; 3],
    actors: &[ActorId],
) -> (Vec<ActorId>, OpColumns<'a>) {
    let (actors, order) = locals.sorted(actors);
    let mut columns = ops.columns();
    if !order.iter().copied().eq(0..order.len() as u64) {
        for (index, out) in [OBJ_ACTOR, KEY_ACTOR, LINK_ACTOR].into_iter().zip(replaced) {
            out.clear();
            rle::replace_values(columns[index], out, |local| order[local as usize])
                .expect("a column just written can be read");
            columns[index] = out;
        }
    }
    (actors, columns)
}
