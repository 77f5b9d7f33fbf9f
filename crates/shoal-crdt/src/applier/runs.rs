//! The ops of changes on their way into the objects: typing and deleting are taken in as runs, also
//! across changes. The result equals applying op by op.

use shoal_history::{Action, DeleteRun, Key, ObjId as StoredObjId, Op, OpId, ScalarRef, TextRun};

use crate::error::OpFault;
use crate::opset::OpSet;

/// Ops read and not applied yet, and the number of applied ones.
#[derive(Debug, Default)]
pub(super) struct Runs {
    open: Option<Open>,
    /// The characters of [`Open::Text`].
    text: String,
    /// How many ops were applied.
    pub(super) done: usize,
}

/// A run open for the next op.
#[derive(Clone, Copy, Debug)]
enum Open {
    Text { obj: StoredObjId, reference: Option<OpId>, id: OpId, len: u32 },
    Deletes(DeleteRun),
}

/// The op contradicting the document, and the fault.
pub(crate) type Refusal = (OpId, OpFault);

impl Runs {
    /// The bytes of text with room.
    pub(super) fn room(&self) -> usize {
        self.text.capacity()
    }

    /// Takes in the next op of a change, not part of a run.
    pub(super) fn push(&mut self, ops: &mut OpSet, op: &Op<'_>) -> Result<(), Refusal> {
        self.flush(ops)?;
        ops.apply(op).map_err(|fault| (op.id, fault))?;
        self.done += 1;
        Ok(())
    }

    /// Takes in the next ops of a change; they, or some before them, may be applied later.
    pub(super) fn push_text(&mut self, ops: &mut OpSet, run: &TextRun<'_>) -> Result<(), Refusal> {
        if let Some(Open::Text { obj, id, len, .. }) = &mut self.open
            && *obj == run.obj
            && run.id == op_after(*id, *len)
            && run.reference == Some(op_after(*id, *len - 1))
        {
            *len += run.len;
            self.text.push_str(run.text);
            return Ok(());
        }
        self.flush(ops)?;
        self.text.push_str(run.text);
        let TextRun { obj, reference, id, len, .. } = *run;
        self.open = Some(Open::Text { obj, reference, id, len });
        Ok(())
    }

    /// Takes in the next ops of a change; they, or some before them, may be applied later.
    pub(super) fn push_deletes(&mut self, ops: &mut OpSet, run: DeleteRun) -> Result<(), Refusal> {
        if let Some(Open::Deletes(open)) = &mut self.open
            && open.obj == run.obj
            && run.id == op_after(open.id, open.len)
            && let Some(descends) = continues(open, &run)
        {
            open.descends = descends;
            open.len += run.len;
            return Ok(());
        }
        self.flush(ops)?;
        self.open = Some(Open::Deletes(run));
        Ok(())
    }

    /// Applies the open run.
    pub(super) fn flush(&mut self, ops: &mut OpSet) -> Result<(), Refusal> {
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

    fn apply_deletes(&mut self, ops: &mut OpSet, run: &DeleteRun) -> Result<(), Refusal> {
        let mut at = 0;
        while at < run.len {
            let id = OpId { counter: run.id.counter + at, ..run.id };
            let counter = if run.descends { run.elem.counter - at } else { run.elem.counter + at };
            let elem = OpId { counter, ..run.elem };
            let left = DeleteRun { id, elem, len: run.len - at, ..*run };
            let count = match ops.apply_deletes(&left) {
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

/// The op of the same actor `count` after this one. Ids here are all below the greatest.
fn op_after(id: OpId, count: u32) -> OpId {
    OpId { counter: id.counter + count, actor: id.actor }
}

/// `Some` if the elements of `next` follow the elements of `run`; true if their ids count down.
fn continues(run: &DeleteRun, next: &DeleteRun) -> Option<bool> {
    if next.elem.actor != run.elem.actor {
        return None;
    }
    let descends = if next.elem.counter.checked_sub(run.elem.counter) == Some(run.len) {
        false
    } else if run.elem.counter.checked_sub(next.elem.counter) == Some(run.len) {
        true
    } else {
        return None;
    };
    let fits = |part: &DeleteRun| part.len == 1 || part.descends == descends;
    (fits(run) && fits(next)).then_some(descends)
}
