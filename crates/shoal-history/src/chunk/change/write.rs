//! Writing changes. The bytes are canonical, because their hash is the name of the change: `deps`,
//! `pred` and the other actors sorted, only named actors, columns left out by the rules of the
//! format. The same content gives the same hash in every implementation.

use super::Change;
use super::encoder::{ChangeEncoder, Meta};
use crate::chunk::op_rows::{Row, RowValue};
use crate::chunk::op_runs;
use crate::{
    Action, ActorId, ActorIdx, ChangeHash, DeleteRun, Error, Key, Limits, ObjId, Op, OpId,
    ScalarRef, TextRun,
};

/// The parts of a change besides its ops.
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
    /// The author's message; empty for none.
    pub message: Option<&'a str>,
    /// The dependencies, in any order.
    pub deps: Vec<ChangeHash>,
    /// Bytes to keep after the ops.
    pub extra_bytes: &'a [u8],
}

/// Makes a change out of ops.
#[derive(Debug)]
pub struct ChangeWriter<'a> {
    header: ChangeHeader<'a>,
    actors: &'a [ActorId],
    /// Boxed: large, and handed from writer to writer.
    encoder: Box<ChangeEncoder>,
    preds: Vec<OpId>,
    misuse: Option<&'static str>,
}

impl<'a> ChangeWriter<'a> {
    /// A writer of a change with ops indexing `actors`, in any order and with unused ones allowed.
    /// Cost: independent of the number of actors.
    pub fn new(header: ChangeHeader<'a>, actors: &'a [ActorId]) -> Self {
        Self::with_buffers(header, actors, ChangeBuffers::default())
    }

    /// Like [`new`](Self::new), with the buffers of an earlier writer, for hardly any allocation.
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

    /// Appends an op. The id must be the next of the author; the links are the superseded ops, in
    /// any order. Cost: no allocation but the growth of the columns.
    ///
    /// An op against the rules makes [`finish`](Self::finish) fail.
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
        let counter = u64::from(self.header.start_op) + u64::from(self.encoder.op_count());
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
        let is_kept = self.encoder.room() <= KEPT_BYTES;
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
        debug_assert!(
            Change::from_bytes_within(change.raw_bytes(), &Limits::FORMAT).is_ok(),
            "what is written is valid"
        );
        Ok(change)
    }

    fn check(&self, op: &Op<'_>) -> Result<(), &'static str> {
        let known = |id: &OpId| id.actor.as_usize() < self.actors.len();
        let before = |id: &OpId| id.counter > 0 && id.counter < op.id.counter && known(id);
        let counter = u64::from(self.header.start_op) + u64::from(self.encoder.op_count());
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

/// Buffers from one [`ChangeWriter`] to the next.
#[derive(Debug, Default)]
pub struct ChangeBuffers(Option<Box<ChangeEncoder>>);

/// Larger buffers, after a longer change, are not kept.
const KEPT_BYTES: usize = 1 << 16;
