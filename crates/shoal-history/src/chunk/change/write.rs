//! Writing changes. The bytes are canonical, because their hash is the name of the change: `deps`,
//! `pred` and the other actors sorted, only actors that the ops refer to, columns left out by the
//! rules of the format. The same content gives the same hash in every implementation.

use rustc_hash::FxHashMap;

use super::few::Few;
use super::{Canonical, Change, Entry, Span, Store};
use crate::chunk::header::{self, ChunkType};
use crate::chunk::op_rows::{
    CHANGE_SPECS, COLUMN_COUNT, KEY_ACTOR, LINK_ACTOR, OBJ_ACTOR, OpColumns, OpEncoder, Row,
    RowValue,
};
use crate::chunk::op_runs::{self, OneRun};
use crate::column::delta::DeltaState;
use crate::column::leb128::{write_length_prefixed, write_sleb, write_uleb};
use crate::column::value::RawValue;
use crate::column::{rle, spec};
use crate::{
    Action, ActorId, ActorIdx, ChangeHash, DeleteRun, Error, InsertRun, Key, ObjId, Op, OpId,
    ScalarRef, TextRun,
};

/// What a change says besides its ops.
#[derive(Clone, Debug)]
pub struct ChangeHeader<'a> {
    /// The author, an index into the actors given to [`ChangeWriter::new`].
    pub actor: ActorIdx,
    /// The number of the change among the author's, from 1.
    pub seq: u32,
    /// The counter of the first op's id, at least 1.
    pub start_op: u32,
    /// Seconds since the Unix epoch by custom.
    pub time: i64,
    /// What the author says of it; an empty message is the same as none.
    pub message: Option<&'a str>,
    /// The changes it is made on top of, in any order.
    pub deps: Vec<ChangeHash>,
    /// Bytes to keep after the ops.
    pub extra_bytes: &'a [u8],
}

/// Makes a change out of ops.
#[derive(Debug)]
pub struct ChangeWriter<'a> {
    header: ChangeHeader<'a>,
    actors: &'a [ActorId],
    /// In a box, because it is large and goes from writer to writer.
    encoder: Box<ChangeEncoder>,
    preds: Vec<OpId>,
    misuse: Option<&'static str>,
}

impl<'a> ChangeWriter<'a> {
    /// A writer of a change whose ops index `actors`, which may be in any order and hold more than
    /// are used. Cost: independent of the number of actors.
    pub fn new(header: ChangeHeader<'a>, actors: &'a [ActorId]) -> Self {
        Self::with_buffers(header, actors, ChangeBuffers::default())
    }

    /// Like [`new`](Self::new), with the buffers of a writer before, so that hardly anything needs
    /// to be allocated.
    pub fn with_buffers(
        header: ChangeHeader<'a>,
        actors: &'a [ActorId],
        buffers: ChangeBuffers,
    ) -> Self {
        let mut encoder = buffers.0.unwrap_or_default();
        encoder.begin(header.actor);
        let misuse = if header.actor.as_usize() >= actors.len() {
            Some("the author of a change is not among the actors")
        } else if header.seq == 0 || header.start_op == 0 {
            Some("a change counts itself and its ops from 1")
        } else {
            None
        };
        Self { header, actors, encoder, preds: Vec::new(), misuse }
    }

    /// Appends an op. Its id must be the next of the author; its links are the ops that it
    /// supersedes, in any order. Cost: no allocation but the growth of the columns.
    ///
    /// An op that breaks the rules makes [`finish`](Self::finish) fail.
    pub fn push(&mut self, op: &Op<'_>) {
        if self.misuse.is_none() {
            self.misuse = self.check(op).err();
        }
        if self.misuse.is_some() {
            return;
        }
        self.preds.clear();
        self.preds.extend_from_slice(op.links);
        if self.preds.len() > 1 {
            super::sort_links(&mut self.preds, self.actors);
            if self.preds.windows(2).any(|pair| pair[0] == pair[1]) {
                self.misuse = Some("an op supersedes the same op twice");
            }
        }
        let row = Row {
            obj: op.obj,
            key: op.key,
            insert: op.insert,
            action: op.action,
            value: RowValue::Scalar(op.value),
            expand: op.expand,
            mark_name: op.mark_name,
        };
        self.encoder.push(&row, self.preds.iter().copied());
    }

    /// Appends the ops of a run, as [`push`](Self::push) does one; nothing may supersede them.
    pub fn push_text(&mut self, run: &TextRun<'_>) {
        if self.misuse.is_none() {
            self.misuse = self.check_run(run.id, run.obj, run.reference, run.len).err();
            if run.succ.is_some() || run.text.chars().count() != run.len as usize {
                self.misuse.get_or_insert("a run of text has an id for each character");
            }
        }
        if self.misuse.is_none() {
            self.encoder.push_text(run);
        }
    }

    /// Appends the ops of a run, as [`push`](Self::push) does one.
    pub fn push_deletes(&mut self, run: &DeleteRun) {
        if self.misuse.is_none() {
            self.misuse = self.check_run(run.id, run.obj, Some(run.elem), run.len).err();
            if !op_runs::fits(run.elem, run.descends, run.len) {
                self.misuse.get_or_insert("an op refers to ops before it by known actors");
            }
        }
        if self.misuse.is_none() {
            self.encoder.push_deletes(run);
        }
    }

    fn check_run(
        &self,
        id: OpId,
        obj: ObjId,
        refers_to: Option<OpId>,
        len: u32,
    ) -> Result<(), &'static str> {
        let known = |id: &OpId| id.actor.as_usize() < self.actors.len();
        let before = |other: &OpId| other.counter > 0 && other.counter < id.counter && known(other);
        let counter = u64::from(self.header.start_op) + u64::from(self.encoder.op_count);
        if u64::from(id.counter) != counter
            || id.actor != self.header.actor
            || !op_runs::fits(id, false, len)
        {
            return Err("the ids of a change's ops follow each other");
        }
        let obj = match &obj {
            ObjId::Root => true,
            ObjId::Op(id) => before(id),
        };
        if obj && refers_to.iter().all(before) {
            Ok(())
        } else {
            Err("an op refers to ops before it by known actors")
        }
    }

    /// The change. Cost: one SHA-256 of its bytes.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the header or an op breaks the rules of the format.
    pub fn finish(self) -> Result<Change, Error> {
        self.finish_keeping().0
    }

    /// Like [`finish`](Self::finish), and gives the buffers back.
    pub fn finish_keeping(mut self) -> (Result<Change, Error>, ChangeBuffers) {
        let change = self.encode();
        let is_kept = self.encoder.body.capacity() <= KEPT_BYTES;
        (change, ChangeBuffers(is_kept.then_some(self.encoder)))
    }

    fn encode(&mut self) -> Result<Change, Error> {
        if let Some(why) = self.misuse {
            return Err(Error::Misuse { why });
        }
        let mut deps = std::mem::take(&mut self.header.deps);
        deps.sort_unstable();
        if deps.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::Misuse { why: "a change depends on the same change twice" });
        }
        let ChangeHeader { seq, start_op, time, message, extra_bytes, .. } = self.header;
        let message = message.unwrap_or_default();
        let meta = Meta { seq, start_op, time, message, deps, extra_bytes };
        let change = self.encoder.finish(meta, self.actors)?;
        debug_assert!(Change::from_bytes(change.raw_bytes()).is_ok(), "what is written is valid");
        Ok(change)
    }

    fn check(&self, op: &Op<'_>) -> Result<(), &'static str> {
        let known = |id: &OpId| id.actor.as_usize() < self.actors.len();
        let before = |id: &OpId| id.counter > 0 && id.counter < op.id.counter && known(id);
        let counter = u64::from(self.header.start_op) + u64::from(self.encoder.op_count);
        if u64::from(op.id.counter) != counter || op.id.actor != self.header.actor {
            return Err("the ids of a change's ops follow each other");
        }
        let obj = match &op.obj {
            ObjId::Root => true,
            ObjId::Op(id) => before(id),
        };
        let key = match &op.key {
            Key::Map(_) | Key::Head => true,
            Key::Elem(id) => before(id),
        };
        if !(obj && key && op.links.iter().all(before)) {
            return Err("an op refers to ops before it by known actors");
        }
        match op.key {
            Key::Map(_) if op.insert => return Err("an insertion has no map key"),
            Key::Head if !op.insert => return Err("only insertions apply to the head of a list"),
            _ => {}
        }
        if op.action == Action::Increment
            && !matches!(op.value, ScalarRef::Int(_) | ScalarRef::Uint(_))
        {
            return Err("an increment is by an integer");
        }
        match op.value {
            ScalarRef::Unknown { type_code, .. } if !(10..16).contains(&type_code) => {
                Err("an unknown value has a type from 10 to 15")
            }
            _ => Ok(()),
        }
    }
}

/// Buffers that one [`ChangeWriter`] leaves to the next.
#[derive(Debug, Default)]
pub struct ChangeBuffers(Option<Box<ChangeEncoder>>);

/// Buffers that a longer change needed are not kept.
const KEPT_BYTES: usize = 1 << 16;

/// What the encoder needs besides the ops; nothing is sorted or checked any more.
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
    /// Whether the columns hold anything.
    is_filled: bool,
    /// The run that is all there is so far, kept aside: mostly there is no other. Actor indices are
    /// still the caller's.
    only: Option<Only>,
    /// The text of that, and then its columns.
    only_text: String,
    only_data: Vec<u8>,
    delta: DeltaState,
    op_count: u32,
    actors: LocalActors,
    body: Vec<u8>,
    replaced: [Vec<u8>; 3],
    /// Whether a delete says what no document can give back.
    odd_delete: bool,
}

/// One run.
#[derive(Clone, Copy, Debug)]
enum Only {
    /// Typing, in ASCII.
    Text(InsertRun),
    Deletes(DeleteRun),
}

/// The actors of one change. While ops come in, actors get local numbers in the order of their
/// appearance, the author 0; in the end those are replaced by the final ones, sorted by the
/// actors' bytes, unless they are the same.
#[derive(Debug, Default)]
struct LocalActors {
    /// Of each local number, the caller's index.
    used: Vec<u32>,
    /// The reverse, for all but the author.
    local: FxHashMap<u32, u32>,
    /// The index looked up last and its local number.
    last: (u32, u32),
}

impl ChangeEncoder {
    /// Starts the next change, by `author`. Actor indices are those of the caller's table.
    pub(crate) fn begin(&mut self, author: ActorIdx) {
        if std::mem::take(&mut self.is_filled) {
            self.ops.clear();
        }
        self.only = None;
        self.op_count = 0;
        self.odd_delete = false;
        self.actors.used.clear();
        self.actors.used.push(author.0);
        self.actors.local.clear();
        self.actors.last = (author.0, 0);
    }

    /// Appends an op, with its preds in the order in which they are stored.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row<'_>, preds: impl ExactSizeIterator<Item = OpId>) {
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

    fn push_text(&mut self, run: &TextRun<'_>) {
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

    fn push_deletes(&mut self, run: &DeleteRun) {
        if self.op_count == 0 {
            self.only = Some(Only::Deletes(*run));
        } else {
            self.fill();
            self.fill_deletes(run);
        }
        self.op_count += run.len;
    }

    /// Moves a run that was kept aside into the columns: more ops come.
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

    /// Encodes the run that is all there is; returns the actors and the length of each column.
    fn encode_only(
        &mut self,
        only: Only,
        actors: &[ActorId],
    ) -> (Vec<ActorId>, [usize; COLUMN_COUNT]) {
        let (obj, refers_to) = match &only {
            Only::Text(run) => (run.obj, run.reference),
            Only::Deletes(run) => (run.obj, Some(run.elem)),
        };
        let author = self.actors.used[0];
        let mut table = vec![author];
        let obj = match obj {
            ObjId::Root => None,
            ObjId::Op(id) => Some(id),
        };
        for id in obj.into_iter().chain(refers_to) {
            if !table.contains(&id.actor.0) {
                table.push(id.actor.0);
            }
        }
        table[1..].sort_unstable_by_key(|actor| &actors[*actor as usize]);
        let local = |actor: ActorIdx| {
            let place = table.iter().position(|other| *other == actor.0);
            place.expect("each actor was put into the table") as u64
        };
        let obj = obj.map(|id| (local(id.actor), id.counter));
        let key_actor = refers_to.map(|id| local(id.actor));
        let one = match &only {
            Only::Text(run) => OneRun {
                len: run.len,
                obj,
                key_actors: (key_actor, 0),
                keys: (run.reference.map_or(0, |id| id.counter), run.id.counter, 1),
                insert: true,
                action: Action::Set,
                meta: 1 << 4 | u64::from(op_runs::STR),
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
        };
        let lens = one.write(&mut self.delta, &mut self.only_data);
        (table.iter().map(|actor| actors[*actor as usize].clone()).collect(), lens)
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
        let encoded = self.only.take().map(|only| self.encode_only(only, actors));
        let (actors, columns) = match encoded {
            Some((actors, lens)) => (actors, split(&self.only_data, lens)),
            None => {
                self.ops.finish();
                let (actors, order) = self.actors.sorted(actors);
                let mut columns = self.ops.columns();
                if !order.iter().copied().eq(0..order.len() as u64) {
                    for (index, out) in
                        [OBJ_ACTOR, KEY_ACTOR, LINK_ACTOR].into_iter().zip(&mut self.replaced)
                    {
                        out.clear();
                        let replace = |local: u64| order[local as usize];
                        rle::replace_values(columns[index], out, replace)
                            .expect("a column just written can be read");
                        columns[index] = out;
                    }
                }
                (actors, columns)
            }
        };
        let repeated = actors[1..].windows(2).any(|pair| pair[0] == pair[1]);
        if repeated || actors[1..].contains(&actors[0]) {
            return Err(Error::Misuse { why: "the actors given differ" });
        }

        let body = &mut self.body;
        body.clear();
        write_uleb(deps.len() as u64, body);
        for dep in &deps {
            body.extend_from_slice(&dep.0);
        }
        write_length_prefixed(actors[0].as_bytes(), body);
        write_uleb(u64::from(seq), body);
        write_uleb(u64::from(start_op), body);
        write_sleb(time, body);
        write_length_prefixed(message.as_bytes(), body);
        let message_start = body.len() - message.len();
        write_uleb(actors.len() as u64 - 1, body);
        for actor in &actors[1..] {
            write_length_prefixed(actor.as_bytes(), body);
        }
        let column_table = body.len();
        // Without ops every column is empty, so that none is listed.
        spec::write_table(CHANGE_SPECS.iter().copied().zip(columns), body);
        for data in columns {
            body.extend_from_slice(data);
        }
        body.extend_from_slice(extra_bytes);
        if u32::try_from(body.len() + 32).is_err() {
            return Err(Error::Misuse { why: "a change is smaller than 4 GiB" });
        }

        let mut raw = Vec::with_capacity(header::header_len(body.len()) + body.len());
        header::write(ChunkType::Change, ChangeHash([0; 32]), body, &mut raw);
        let hash = header::hash_of_chunk(&raw);
        raw[header::CHECKSUM].copy_from_slice(&hash.0[..header::CHECKSUM.len()]);
        let body_start = raw.len() - body.len();
        let span = |start: usize, len: usize| {
            let start = start + body_start;
            Span::new(start..start + len)
        };
        let entry = Entry {
            hash,
            start: 0,
            len: u32::try_from(raw.len()).expect("a chunk is smaller than 4 GiB"),
            actors: Span::new(0..actors.len()),
            deps: Span::new(0..deps.len()),
            seq,
            start_op,
            op_count: self.op_count,
            time,
            message: span(message_start, message.len()),
            extra: span(body.len() - extra_bytes.len(), extra_bytes.len()),
            column_table: u32::try_from(column_table + body_start)
                .expect("a chunk is smaller than 4 GiB"),
            canonical: if self.odd_delete { Canonical::default() } else { Canonical::known() },
        };
        let entries = Few::One(entry);
        Ok(Store { raw, entries, actors: actors.into(), deps: deps.into() }.into_change())
    }
}

/// The columns that lie one after the other in `data`.
fn split(data: &[u8], lens: [usize; COLUMN_COUNT]) -> OpColumns<'_> {
    let mut start = 0;
    lens.map(|len| {
        start += len;
        &data[start - len..start]
    })
}

impl LocalActors {
    /// The actors of the change, and the final index of each local number.
    fn sorted(&self, actors: &[ActorId]) -> (Vec<ActorId>, Vec<u64>) {
        let actor = |local: usize| &actors[self.used[local] as usize];
        if self.used.len() == 1 {
            return (vec![actor(0).clone()], Vec::new());
        }
        let mut locals: Vec<usize> = (0..self.used.len()).collect();
        locals[1..].sort_unstable_by_key(|&local| actor(local));
        let mut order = vec![0; locals.len()];
        for (index, &local) in locals.iter().enumerate() {
            order[local] = index as u64;
        }
        (locals.into_iter().map(|local| actor(local).clone()).collect(), order)
    }

    #[inline]
    fn localize(&mut self, id: OpId) -> OpId {
        let index = id.actor.0;
        if self.last.0 != index {
            self.last = (index, self.local_of(index));
        }
        OpId { counter: id.counter, actor: ActorIdx(self.last.1) }
    }

    fn local_of(&mut self, index: u32) -> u32 {
        if index == self.used[0] {
            return 0;
        }
        let next = u32::try_from(self.used.len()).expect("fewer than 2^32 actors have an index");
        let used = &mut self.used;
        *self.local.entry(index).or_insert_with(|| {
            used.push(index);
            next
        })
    }
}
