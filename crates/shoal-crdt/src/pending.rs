//! The ops of a transaction until it is committed or rolled back: typing and deleting as runs,
//! everything else op by op.

use std::sync::Arc;

use shoal_history::{
    Action, ChangeWriter, DeleteRun, Key, ObjId as StoredObjId, Op, OpId, Scalar, ScalarRef,
    TextRun,
};

use crate::names::{NameIdx, Names};
use crate::register::Succ;

/// One op with parts of its own: outside of runs, and for undoing a refused change.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: OpId,
    pub(crate) obj: StoredObjId,
    pub(crate) key: PendingKey,
    pub(crate) insert: bool,
    pub(crate) action: Action,
    pub(crate) value: Scalar,
    pub(crate) preds: Succ,
    pub(crate) mark: Option<Box<PendingMark>>,
}

#[derive(Clone, Debug)]
pub(crate) enum PendingKey {
    Map(NameIdx),
    Head,
    Elem(OpId),
}

#[derive(Clone, Debug)]
pub(crate) struct PendingMark {
    pub(crate) expand: bool,
    pub(crate) name: Option<Arc<str>>,
}

impl Pending {
    /// The op with bytes of its own.
    pub(crate) fn from_op(op: &Op<'_>, names: &mut Names) -> Self {
        let is_mark = op.expand || op.mark_name.is_some();
        Self {
            id: op.id,
            obj: op.obj,
            key: match op.key {
                Key::Map(key) => PendingKey::Map(names.intern(key)),
                Key::Head => PendingKey::Head,
                Key::Elem(id) => PendingKey::Elem(id),
            },
            insert: op.insert,
            action: op.action,
            value: op.value.to_scalar(),
            preds: Succ::from_slice(op.links),
            mark: is_mark.then(|| {
                Box::new(PendingMark { expand: op.expand, name: op.mark_name.map(Arc::from) })
            }),
        }
    }

    /// The op, borrowed.
    pub(crate) fn as_op<'a>(&'a self, names: &'a Names) -> Op<'a> {
        Op {
            id: self.id,
            obj: self.obj,
            key: match &self.key {
                PendingKey::Map(name) => Key::Map(names.get(*name)),
                PendingKey::Head => Key::Head,
                PendingKey::Elem(id) => Key::Elem(*id),
            },
            insert: self.insert,
            action: self.action,
            value: self.value.as_ref(),
            expand: self.mark.as_ref().is_some_and(|mark| mark.expand),
            mark_name: self.mark.as_ref().and_then(|mark| mark.name.as_deref()),
            links: self.preds.as_slice(),
        }
    }
}

/// The ops of one transaction, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingOps {
    runs: Vec<PendingRun>,
    /// The ops of [`PendingRun::Ops`].
    ops: Vec<Pending>,
    /// The characters of [`PendingRun::Text`].
    text: String,
    count: u64,
}

/// A moment of a transaction: the edits so far, to be gone back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    runs: usize,
    count: u64,
}

/// How much room is kept.
const KEPT: usize = 256;

/// Ops whose ids count up.
#[derive(Clone, Debug)]
enum PendingRun {
    /// This many of [`PendingOps::ops`].
    Ops(usize),
    Text(TypedText),
    Deletes(DeleteRun),
}

/// Inserts of characters into a sequence, each after the one before.
#[derive(Clone, Copy, Debug)]
struct TypedText {
    obj: OpId,
    id: OpId,
    /// The element before the first one.
    reference: Option<OpId>,
    len: u32,
    /// In the text of all.
    bytes: usize,
}

/// An op of a transaction being undone.
pub(crate) enum TakenBack<'a> {
    Alone(&'a Pending),
    OfRun(&'a Op<'a>),
}

impl PendingOps {
    /// How many ops there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// This moment among the ops. Ops to come begin a run of their own, and can be taken back
    /// alone.
    pub(crate) fn moment(&mut self) -> Moment {
        if !matches!(self.runs.last(), None | Some(PendingRun::Ops(0))) {
            self.runs.push(PendingRun::Ops(0));
        }
        let is_apart = matches!(self.runs.last(), Some(PendingRun::Ops(0)));
        Moment { runs: self.runs.len() - usize::from(is_apart), count: self.count }
    }

    /// Forgets all, and keeps some room for a next transaction's.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.runs.shrink_to(KEPT);
        self.ops.clear();
        self.ops.shrink_to(KEPT);
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.count = 0;
    }

    pub(crate) fn push(&mut self, op: Pending) {
        self.ops.push(op);
        self.count += 1;
        match self.runs.last_mut() {
            Some(PendingRun::Ops(count)) => *count += 1,
            _ => self.runs.push(PendingRun::Ops(1)),
        }
    }

    /// Records an insert of `text`, `len` characters: the first by the op `id` after the element
    /// `reference`, or at the head.
    pub(crate) fn push_text(
        &mut self,
        obj: OpId,
        reference: Option<OpId>,
        id: OpId,
        text: &str,
        len: u32,
    ) {
        self.text.push_str(text);
        self.count += u64::from(len);
        if let Some(PendingRun::Text(last)) = self.runs.last_mut()
            && last.obj == obj
            && reference == Some(nth(last.id, last.len - 1, false))
        {
            last.len += len;
            last.bytes += text.len();
            return;
        }
        let bytes = text.len();
        self.runs.push(PendingRun::Text(TypedText { obj, id, reference, len, bytes }));
    }

    /// Records deletes of `len` elements from `elem` on, ids counting up, by the op `id` and the
    /// ops after it.
    pub(crate) fn push_deletes(&mut self, obj: OpId, elem: OpId, id: OpId, len: u32) {
        self.count += u64::from(len);
        if let Some(PendingRun::Deletes(last)) = self.runs.last_mut()
            && last.obj == StoredObjId::Op(obj)
            && last.elem.actor == elem.actor
        {
            let up = elem.counter.checked_sub(last.elem.counter) == Some(last.len);
            let down = last.elem.counter.checked_sub(elem.counter) == Some(last.len);
            if (up && !(last.descends && last.len > 1))
                || (down && len == 1 && (last.descends || last.len == 1))
            {
                last.descends = down;
                last.len += len;
                return;
            }
        }
        let obj = StoredObjId::Op(obj);
        let deletes = DeleteRun { id, obj, elem, len, descends: false };
        self.runs.push(PendingRun::Deletes(deletes));
    }

    /// Writes every op into a change.
    pub(crate) fn write(&self, names: &Names, writer: &mut ChangeWriter<'_>) {
        let (mut ops, mut text) = (self.ops.iter(), self.text.as_str());
        for run in &self.runs {
            match run {
                PendingRun::Ops(count) => {
                    ops.by_ref().take(*count).for_each(|op| writer.push(&op.as_op(names)));
                }
                PendingRun::Text(typed) => {
                    let (own, rest) = text.split_at(typed.bytes);
                    text = rest;
                    writer.push_text(&TextRun {
                        id: typed.id,
                        obj: StoredObjId::Op(typed.obj),
                        reference: typed.reference,
                        text: own,
                        len: typed.len,
                        succ: None,
                        succ_descends: false,
                    });
                }
                PendingRun::Deletes(deletes) => writer.push_deletes(deletes),
            }
        }
    }

    /// Visits the object of every op, and the key or element of the op.
    pub(crate) fn for_each_place(&self, mut visit: impl FnMut(StoredObjId, PendingKey)) {
        let mut ops = self.ops.iter();
        for run in &self.runs {
            match run {
                PendingRun::Ops(count) => {
                    for op in ops.by_ref().take(*count) {
                        let key = if op.insert { PendingKey::Elem(op.id) } else { op.key.clone() };
                        visit(op.obj, key);
                    }
                }
                PendingRun::Text(typed) => {
                    let elems = (0..typed.len).map(|at| nth(typed.id, at, false));
                    elems.for_each(|id| visit(StoredObjId::Op(typed.obj), PendingKey::Elem(id)));
                }
                PendingRun::Deletes(deletes) => {
                    let elems = (0..deletes.len).map(|at| nth(deletes.elem, at, deletes.descends));
                    elems.for_each(|id| visit(deletes.obj, PendingKey::Elem(id)));
                }
            }
        }
    }

    /// Gives each op since a moment to `undo`, the last first, and forgets them.
    pub(crate) fn take_back(&mut self, to: Moment, mut undo: impl FnMut(TakenBack<'_>)) {
        while self.runs.len() > to.runs
            && let Some(run) = self.runs.pop()
        {
            match run {
                PendingRun::Ops(count) => {
                    for op in self.ops.drain(self.ops.len() - count..).rev() {
                        undo(TakenBack::Alone(&op));
                    }
                }
                PendingRun::Text(typed) => {
                    // Undoing needs no text.
                    let id = |at| nth(typed.id, at, false);
                    for at in (0..typed.len).rev() {
                        let reference = at.checked_sub(1).map(id).or(typed.reference);
                        undo(TakenBack::OfRun(&insert(typed.obj, reference, id(at), "")));
                    }
                    self.text.truncate(self.text.len() - typed.bytes);
                }
                PendingRun::Deletes(deletes) => {
                    let mut elem = [deletes.elem];
                    for at in (0..deletes.len).rev() {
                        undo(TakenBack::OfRun(&delete_at(&deletes, at, &mut elem)));
                    }
                }
            }
        }
        self.count = to.count.min(self.count);
        if self.count == 0 {
            self.clear();
        }
    }
}

/// The delete at a place of a run.
fn delete_at<'a>(run: &DeleteRun, at: u32, elem: &'a mut [OpId; 1]) -> Op<'a> {
    elem[0] = nth(run.elem, at, run.descends);
    Op {
        id: nth(run.id, at, false),
        obj: run.obj,
        key: Key::Elem(elem[0]),
        insert: false,
        action: Action::Delete,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: elem,
    }
}

fn insert(obj: OpId, reference: Option<OpId>, id: OpId, text: &str) -> Op<'_> {
    Op {
        id,
        obj: StoredObjId::Op(obj),
        key: reference.map_or(Key::Head, Key::Elem),
        insert: true,
        action: Action::Set,
        value: ScalarRef::Str(text),
        expand: false,
        mark_name: None,
        links: &[],
    }
}

/// The id `at` places after `first`, or before.
fn nth(first: OpId, at: u32, descends: bool) -> OpId {
    let counter = if descends { first.counter - at } else { first.counter + at };
    OpId { counter, actor: first.actor }
}
