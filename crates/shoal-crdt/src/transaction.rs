//! Transactions: local edits, one change when committed.

mod map;
mod sequence;

pub use sequence::ExpandMark;

use shoal_history::{
    Action, ActorIdx, ChangeHash, ChangeHeader, ChangeWriter, ObjId as StoredObjId, OpId, Scalar,
};

use crate::document::Document;
use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
pub use crate::pending::Moment;
use crate::pending::{Pending, PendingKey, PendingMark, PendingOps};
use crate::read::{to_usize, wrong_prop, wrong_type};
use crate::register::{ObjIdx, RegOp, Succ};
use crate::sequence::NO_OP;
use crate::value::{IntoScalar, ObjType, Prop};
use crate::view::View;

/// The parts of a change besides its ops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOptions {
    /// The author's message.
    pub message: Option<String>,
    /// The time, in seconds since the Unix epoch.
    pub time: i64,
}

impl CommitOptions {
    /// With a message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// With a time, in seconds since the Unix epoch.
    #[must_use]
    pub fn with_time(mut self, time: i64) -> Self {
        self.time = time;
        self
    }
}

/// Edits of a document: one change together, or nothing.
///
/// Reads ([`ReadDoc`](crate::ReadDoc)) see the edits at once; saving and syncing must not, and are
/// not possible meanwhile. Dropping without [`Transaction::commit`] takes every edit back.
#[derive(Debug)]
pub struct Transaction<'a> {
    doc: &'a mut Document,
    actor: ActorIdx,
    seq: u32,
    start_op: u64,
    deps: Vec<ChangeHash>,
    pending: PendingOps,
}

/// A transaction without its document.
#[derive(Clone, Debug)]
pub(crate) struct Suspended {
    actor: ActorIdx,
    seq: u32,
    start_op: u64,
    deps: Vec<ChangeHash>,
    pending: PendingOps,
}

impl Suspended {
    /// A transaction of a document's `actor` without an edit yet.
    pub(crate) fn new(actor: ActorIdx, seq: u32, start_op: u64, deps: Vec<ChangeHash>) -> Self {
        Self { actor, seq, start_op, deps, pending: PendingOps::default() }
    }

    pub(crate) fn pending_ops(&self) -> usize {
        to_usize(self.pending.count())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.undo();
        self.doc.spare.pending = std::mem::take(&mut self.pending);
    }
}

impl Document {
    /// Begins a transaction on the current state.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction::new(self)
    }
}

impl<'a> Transaction<'a> {
    /// The document with the edits so far.
    pub(crate) fn as_view(&self) -> View<'_> {
        self.doc.as_view()
    }

    pub(crate) fn new(doc: &'a mut Document) -> Self {
        let author = doc.actor().clone();
        let actor = doc.intern_actor(&author);
        let last = doc.last_local_change().map(|last| (last.seq(), last.hash()));
        let seq = last.map_or(0, |(seq, _)| seq) + 1;
        let mut deps = doc.heads();
        // The author's own last change is a dependency even as an ancestor of the heads.
        if let Some((_, last)) = last
            && !deps.contains(&last)
        {
            deps.push(last);
        }
        let start_op = u64::from(doc.graph.max_op()) + 1;
        let pending = std::mem::take(&mut doc.spare.pending);
        Self { doc, actor, seq, start_op, deps, pending }
    }

    /// Goes on with a transaction interrupted by [`Transaction::suspend`]; the document has not
    /// changed since.
    pub(crate) fn resume(doc: &'a mut Document, suspended: Suspended) -> Self {
        let Suspended { actor, seq, start_op, deps, pending } = suspended;
        Self { doc, actor, seq, start_op, deps, pending }
    }

    /// Lets go of the document without taking the edits back.
    pub(crate) fn suspend(mut self) -> Suspended {
        Suspended {
            actor: self.actor,
            seq: self.seq,
            start_op: self.start_op,
            deps: std::mem::take(&mut self.deps),
            pending: std::mem::take(&mut self.pending),
        }
    }

    pub(crate) fn pending(&self) -> &PendingOps {
        &self.pending
    }

    /// The heads below the edits.
    pub fn base_heads(&self) -> Vec<ChangeHash> {
        self.doc.heads()
    }

    /// How many ops the edits so far have made.
    pub fn pending_ops(&self) -> usize {
        to_usize(self.pending.count())
    }

    /// Makes the edits a change and returns its hash, or `None` when there was nothing to change.
    /// Waiting changes of the same author with this sequence number or a later one are dropped.
    pub fn commit(mut self, options: CommitOptions) -> Option<ChangeHash> {
        if self.pending.is_empty() {
            return None;
        }
        Some(self.seal(&options))
    }

    /// Like [`Transaction::commit`], but makes a change even without edits: a statement that the
    /// author has seen the heads.
    pub fn commit_empty(mut self, options: CommitOptions) -> ChangeHash {
        self.seal(&options)
    }

    /// Takes every edit back and returns the number of ops.
    pub fn rollback(mut self) -> usize {
        self.undo()
    }

    fn seal(&mut self, options: &CommitOptions) -> ChangeHash {
        let extra_bytes = self.doc.extra_bytes(self.seq);
        let header = ChangeHeader {
            actor: self.actor,
            seq: self.seq,
            start_op: u32::try_from(self.start_op).expect("the greatest op id is never given out"),
            time: options.time,
            message: options.message.as_deref(),
            deps: std::mem::take(&mut self.deps),
            extra_bytes: &extra_bytes,
        };
        let buffers = std::mem::take(&mut self.doc.spare.buffers);
        let mut writer = ChangeWriter::with_buffers(header, self.doc.ops.actors.ids(), buffers);
        self.pending.write(&self.doc.ops.names, &mut writer);
        let (change, buffers) = writer.finish_keeping();
        let change = change.expect("a transaction makes ops by the rules of the format");
        self.doc.spare.buffers = buffers;
        self.pending.clear();
        let hash = change.hash();
        let author = change.actor().clone();
        self.doc.queue.remove_branch(&author, self.seq);
        let awaited = self.doc.queue.has_stalled().then(|| change.clone());
        let added = self.doc.graph.add(change);
        debug_assert!(added.is_ok(), "a local change follows the heads: {added:?}");
        if let Some(change) = awaited {
            self.doc.retry_stalled(vec![change]);
        }
        hash
    }

    /// This moment of the transaction, for [`Transaction::rollback_to`].
    pub fn moment(&mut self) -> Moment {
        self.pending.moment()
    }

    /// Takes the edits since a moment of this transaction back and returns the number of their ops.
    /// Later moments end.
    pub fn rollback_to(&mut self, moment: Moment) -> usize {
        let before = self.pending.count();
        self.doc.ops.undo_to(moment, &mut self.pending);
        to_usize(before - self.pending.count())
    }

    fn undo(&mut self) -> usize {
        self.rollback_to(Moment::default())
    }

    /// Sets the value at `prop`: in a map the entry of a key, in a list or text the element at an
    /// index. Nothing happens when the only value there is equal; when the winner of several is,
    /// the others are deleted.
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for the wrong kind of property, and for
    /// tables, kept for reading; [`Error::Index`].
    pub fn put<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: impl IntoScalar,
    ) -> Result<(), Error> {
        let value = value.into_scalar();
        match (self.target(obj, prop.into())?, self.kind(obj)?) {
            (_, ObjType::Table) => Err(wrong_type(obj, ObjType::Table, "put a value")),
            (Target::Key(object, key), _) => self.put_in_map(object, key, value),
            (Target::Index(object, index), _) => self.put_in_sequence(object, index, value),
        }
    }

    /// Sets the value at `prop` to a new object and returns its id.
    ///
    /// # Errors
    /// As [`Transaction::put`]; and [`Error::WrongType`] for texts.
    pub fn put_object<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        kind: ObjType,
    ) -> Result<ObjId, Error> {
        let prop = prop.into();
        let in_kind = self.kind(obj)?;
        let target = self.target(obj, prop)?;
        if matches!(in_kind, ObjType::Table | ObjType::Text) {
            return Err(wrong_type(obj, in_kind, "put an object"));
        }
        let id = match target {
            Target::Key(object, key) => self.put_object_in_map(object, key, kind),
            Target::Index(object, index) => self.put_object_in_sequence(object, index, kind),
        }?;
        Ok(self.doc.export(id))
    }

    /// Deletes the value at `prop`; deleting the missing entry of a map, or beyond the end of a
    /// text, does nothing.
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for the wrong kind of property;
    /// [`Error::Index`] in lists.
    pub fn delete<'p>(&mut self, obj: &ObjId, prop: impl Into<Prop<'p>>) -> Result<(), Error> {
        match self.target(obj, prop.into())? {
            Target::Key(object, key) => self.delete_from_map(object, key),
            Target::Index(object, index) => self.delete_from_sequence(object, index),
        }
    }

    /// Adds `by` to the counter at `prop`.
    ///
    /// # Errors
    /// [`Error::MissingCounter`] if no counter is there; otherwise as [`Transaction::put`].
    pub fn increment<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        by: i64,
    ) -> Result<(), Error> {
        let done = match self.target(obj, prop.into())? {
            Target::Key(object, key) => self.increment_in_map(object, key, by),
            Target::Index(object, index) => self.increment_in_sequence(object, index, by),
        }?;
        if done { Ok(()) } else { Err(Error::MissingCounter { obj: obj.clone() }) }
    }

    fn kind(&self, obj: &ObjId) -> Result<ObjType, Error> {
        Ok(self.doc.ops.object(self.doc.resolve(obj)?).kind)
    }

    /// The place of an edit, if the property suits the object.
    fn target<'p>(&self, obj: &ObjId, prop: Prop<'p>) -> Result<Target<'p>, Error> {
        let object = self.doc.resolve(obj)?;
        match (self.doc.ops.data(object), prop) {
            (Data::Map(_), Prop::Key(key)) => Ok(Target::Key(object, key)),
            (Data::Sequence(_), Prop::Index(index)) => Ok(Target::Index(object, index)),
            _ => Err(wrong_prop(obj, self.doc.ops.object(object).kind)),
        }
    }

    /// The id of the next op.
    fn next_id(&self) -> Result<OpId, Error> {
        let counter = self.start_op + self.pending.count();
        match u32::try_from(counter) {
            Ok(counter) if counter < u32::MAX => Ok(OpId { counter, actor: self.actor }),
            _ => Err(Error::OpIdsExhausted),
        }
    }

    /// Refuses an edit short of op ids, before anything changes.
    fn reserve_ids(&self, count: usize) -> Result<(), Error> {
        let next = self.start_op + self.pending.count() + count as u64;
        if next > u64::from(u32::MAX) { Err(Error::OpIdsExhausted) } else { Ok(()) }
    }

    /// Refuses to nest objects more deeply than the document may.
    fn reserve_depth(&self, object: ObjIdx) -> Result<(), Error> {
        if self.doc.ops.has_room_below(object) {
            Ok(())
        } else {
            Err(Error::TooDeep { max: self.doc.ops.max_depth as usize })
        }
    }

    /// Records an op already applied.
    fn note(&mut self, object: ObjIdx, key: PendingKey, edit: Edit, preds: Succ, id: OpId) {
        let object = self.doc.ops.object(object).id;
        let obj = if object == NO_OP { StoredObjId::Root } else { StoredObjId::Op(object) };
        if edit.action != Action::Delete {
            self.doc.ops.count_op();
        }
        let Edit { action, insert, value, mark } = edit;
        self.pending.push(Pending { id, obj, key, insert, action, value, preds, mark });
    }
}

/// Where an edit applies.
enum Target<'p> {
    Key(ObjIdx, &'p str),
    Index(ObjIdx, usize),
}

/// The effect of an op, apart from its place.
struct Edit {
    action: Action,
    insert: bool,
    value: Scalar,
    mark: Option<Box<PendingMark>>,
}

impl Edit {
    fn new(action: Action, insert: bool, value: Scalar) -> Self {
        Self { action, insert, value, mark: None }
    }
}

fn reg_op(id: OpId, action: Action, value: Scalar, object: ObjIdx) -> RegOp {
    RegOp { id, action, expand: false, object, value, mark_name: None, succ: Succ::None }
}
