//! The ops of a change on their way into the objects: what was typed or deleted in one go is taken
//! in as one. The result is that of op by op.

use shoal_history::{Action, DeleteRun, Key, ObjId as StoredObjId, Op, OpId, ScalarRef};

use crate::error::OpFault;
use crate::opset::OpSet;

/// Ops that were read and not applied yet, and how many were.
#[derive(Debug, Default)]
pub(super) struct Runs {
    open: Option<Open>,
    /// The characters of [`Open::Text`].
    text: String,
    /// How many ops were applied.
    pub(super) done: usize,
}

/// A run that the next op may continue.
#[derive(Clone, Copy, Debug)]
enum Open {
    Text { obj: StoredObjId, reference: Option<OpId>, id: OpId, len: u32 },
    Deletes(DeleteRun),
}

/// The op that contradicts the document, and how.
pub(super) type Refused = (OpId, OpFault);

impl Runs {
    /// Takes in the next op of a change; it, or some before it, may be applied later.
    pub(super) fn push(&mut self, ops: &mut OpSet, op: &Op<'_>) -> Result<(), Refused> {
        if let Some(text) = typed(op) {
            let reference = match op.key {
                Key::Elem(id) => Some(id),
                Key::Head | Key::Map(_) => None,
            };
            if let Some(Open::Text { obj, id, len, .. }) = &mut self.open
                && *obj == op.obj
                && reference == Some(OpId { counter: id.counter + (*len - 1), actor: id.actor })
            {
                *len += 1;
                self.text.push_str(text);
                return Ok(());
            }
            self.flush(ops)?;
            self.text.push_str(text);
            self.open = Some(Open::Text { obj: op.obj, reference, id: op.id, len: 1 });
            return Ok(());
        }
        if let Some(elem) = deleted(op) {
            if let Some(Open::Deletes(run)) = &mut self.open
                && run.obj == op.obj
                && continues(run, elem)
            {
                run.descends = elem.counter < run.elem.counter;
                run.len += 1;
                return Ok(());
            }
            self.flush(ops)?;
            let run = DeleteRun { id: op.id, obj: op.obj, elem, len: 1, descends: false };
            self.open = Some(Open::Deletes(run));
            return Ok(());
        }
        self.flush(ops)?;
        ops.apply(op).map_err(|fault| (op.id, fault))?;
        self.done += 1;
        Ok(())
    }

    /// Applies what was not applied yet.
    pub(super) fn flush(&mut self, ops: &mut OpSet) -> Result<(), Refused> {
        match self.open.take() {
            None => Ok(()),
            Some(Open::Text { obj, reference, id, len }) => {
                let applied = ops.apply_text(obj, reference, id, &self.text, len);
                self.text.clear();
                self.done += if applied.is_ok() { len as usize } else { 0 };
                applied.map_err(|fault| (id, fault))
            }
            Some(Open::Deletes(run)) => self.apply_deletes(ops, &run),
        }
    }

    fn apply_deletes(&mut self, ops: &mut OpSet, run: &DeleteRun) -> Result<(), Refused> {
        let mut at = 0;
        while at < run.len {
            let id = OpId { counter: run.id.counter + at, ..run.id };
            let counter = if run.descends { run.elem.counter - at } else { run.elem.counter + at };
            let elem = OpId { counter, ..run.elem };
            let most = if run.descends { 1 } else { run.len - at };
            let count = match ops.apply_deletes(run.obj, elem, id, most) {
                Some(count) => count,
                None => {
                    ops.apply(&Op {
                        id,
                        obj: run.obj,
                        key: Key::Elem(elem),
                        insert: false,
                        action: Action::Delete,
                        value: ScalarRef::Null,
                        expand: false,
                        mark_name: None,
                        links: &[elem],
                    })
                    .map_err(|fault| (id, fault))?;
                    1
                }
            };
            at += count;
            self.done += count as usize;
        }
        Ok(())
    }
}

/// The character that the op inserts and does nothing else.
fn typed<'a>(op: &Op<'a>) -> Option<&'a str> {
    let ScalarRef::Str(text) = op.value else { return None };
    let is_plain = op.insert
        && op.action == Action::Set
        && op.links.is_empty()
        && !op.expand
        && op.mark_name.is_none();
    let mut chars = text.chars();
    (is_plain && chars.next().is_some() && chars.next().is_none()).then_some(text)
}

/// The element that the op deletes, of which it supersedes nothing but the insert.
fn deleted(op: &Op<'_>) -> Option<OpId> {
    let Key::Elem(elem) = op.key else { return None };
    let is_plain = op.action == Action::Delete
        && op.links == [elem]
        && op.value == ScalarRef::Null
        && !(op.insert || op.expand || op.mark_name.is_some());
    is_plain.then_some(elem)
}

fn continues(run: &DeleteRun, elem: OpId) -> bool {
    let up = elem.counter.checked_sub(run.elem.counter) == Some(run.len);
    let down = run.elem.counter.checked_sub(elem.counter) == Some(run.len);
    let direction = run.len == 1 || run.descends == down;
    elem.actor == run.elem.actor && (up || down) && direction
}
