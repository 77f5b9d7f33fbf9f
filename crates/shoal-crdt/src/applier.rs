//! The ops of changes on their way into the op set: their ids are translated into the document's
//! terms, and neighbouring ops are applied as runs. Knows no document, graph or queue.

use shoal_history::{
    ActorId, ActorIdx, Change, ChangeRows, DeleteRun, Key, ObjId as StoredObjId, Op, OpId, TextRun,
};

use crate::error::OpFault;
use crate::opset::OpSet;

mod runs;

pub(crate) use runs::Refusal;
use runs::Runs;

/// Buffers for the next change, and the author looked up last.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    author: Option<(ActorId, ActorIdx)>,
    actors: Vec<Option<ActorIdx>>,
    /// Superseded ops: by the actors of the change, and by the document's.
    preds: Vec<OpId>,
    links: Vec<OpId>,
    runs: Runs,
}

impl Applier {
    /// Starts counting applied ops from 0.
    pub(crate) fn begin(&mut self) {
        self.runs.done = 0;
    }

    /// The number of ops applied since [`Applier::begin`].
    pub(crate) fn done(&self) -> usize {
        self.runs.done
    }

    /// Forgets the open run after a refusal, and returns the number of applied ops.
    pub(crate) fn give_up(&mut self) -> usize {
        std::mem::take(&mut self.runs).done
    }

    /// Applies the open run.
    pub(crate) fn flush(&mut self, set: &mut OpSet) -> Result<(), Refusal> {
        self.runs.flush(set)
    }

    /// The index of `actor`, if the author of the last change.
    #[inline]
    pub(crate) fn author_if(&self, actor: &ActorId) -> Option<ActorIdx> {
        self.author.as_ref().filter(|(last, _)| last == actor).map(|(_, index)| *index)
    }

    pub(crate) fn set_author(&mut self, actor: ActorId, index: ActorIdx) {
        self.author = Some((actor, index));
    }

    /// The table of the next change's actors, to be filled.
    #[inline]
    pub(crate) fn actors(&mut self) -> &mut Vec<Option<ActorIdx>> {
        &mut self.actors
    }

    /// Takes in the ops of a change by `author`, whose actors are [`Applier::actors`]. Some, up to
    /// the last, may be applied later: with their continuation, or by [`Applier::flush`].
    #[inline]
    pub(crate) fn take(
        &mut self,
        change: &Change,
        author: ActorIdx,
        set: &mut OpSet,
    ) -> Result<(), Refusal> {
        let mut preds = std::mem::take(&mut self.preds);
        let only = change.only_op(&mut preds);
        let only = only.map(|rows| self.take_rows(rows, author, set));
        self.preds = preds;
        if let Some(taken) = only {
            return taken;
        }
        let mut ops = change.ops();
        while let Some(rows) = ops.next_rows() {
            self.take_rows(rows, author, set)?;
        }
        Ok(())
    }

    /// Takes in the next ops of a change by `author`, whose actors are [`Applier::actors`].
    #[inline]
    fn take_rows(
        &mut self,
        rows: ChangeRows<'_>,
        author: ActorIdx,
        set: &mut OpSet,
    ) -> Result<(), Refusal> {
        let Self { actors, links, runs, .. } = self;
        let (first, pushed) = match rows {
            ChangeRows::Text(run) => {
                let local = localize_text(&run, actors);
                (run.id, local.map(|run| runs.push_text(set, &run)))
            }
            ChangeRows::Deletes(run) => {
                let local = localize_deletes(&run, actors);
                (run.id, local.map(|run| runs.push_deletes(set, run)))
            }
            ChangeRows::Op(op) => {
                let id = OpId { counter: op.id.counter, actor: author };
                let local = localize(&op, id, actors, links);
                (op.id, local.map(|op| runs.push(set, &op)))
            }
        };
        pushed.unwrap_or_else(|| {
            // An earlier op may be worse, and the first fault is the one reported.
            let id = OpId { counter: first.counter, actor: author };
            runs.flush(set).and(Err((id, OpFault::UnknownActor)))
        })
    }

    /// Gives up the room of an unusual call.
    pub(crate) fn keep_little(&mut self) {
        if self.runs.room() > KEPT || self.actors.capacity() > KEPT || self.links.capacity() > KEPT
        {
            *self = Self::default();
        }
    }
}

/// How much room is kept from call to call.
const KEPT: usize = 1 << 10;

/// The document's index for each actor of a change, the author first.
pub(crate) type LocalActors = [Option<ActorIdx>];

pub(crate) fn local(id: OpId, actors: &LocalActors) -> Option<OpId> {
    let actor = *actors.get(id.actor.as_usize())?;
    Some(OpId { counter: id.counter, actor: actor? })
}

pub(crate) fn local_object(obj: StoredObjId, actors: &LocalActors) -> Option<StoredObjId> {
    Some(match obj {
        StoredObjId::Root => StoredObjId::Root,
        StoredObjId::Op(id) => StoredObjId::Op(local(id, actors)?),
    })
}

/// The run with its ids in terms of the document, as [`localize`] gives an op.
fn localize_text<'a>(run: &TextRun<'a>, actors: &LocalActors) -> Option<TextRun<'a>> {
    let reference = match run.reference {
        None => None,
        Some(id) => Some(local(id, actors)?),
    };
    let obj = local_object(run.obj, actors)?;
    Some(TextRun { id: local(run.id, actors)?, obj, reference, ..*run })
}

fn localize_deletes(run: &DeleteRun, actors: &LocalActors) -> Option<DeleteRun> {
    let (obj, elem) = (local_object(run.obj, actors)?, local(run.elem, actors)?);
    Some(DeleteRun { id: local(run.id, actors)?, obj, elem, ..*run })
}

/// The op in terms of the document, or `None` for an actor unknown here.
pub(crate) fn localize<'a>(
    op: &Op<'a>,
    id: OpId,
    actors: &LocalActors,
    links: &'a mut Vec<OpId>,
) -> Option<Op<'a>> {
    links.clear();
    for link in op.links {
        links.push(local(*link, actors)?);
    }
    let obj = local_object(op.obj, actors)?;
    let key = match op.key {
        Key::Elem(id) => Key::Elem(local(id, actors)?),
        key => key,
    };
    Some(Op { id, obj, key, links, ..*op })
}
