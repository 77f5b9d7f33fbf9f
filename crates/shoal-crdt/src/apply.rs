//! Applying changes from elsewhere, in whatever order they come.

use rustc_hash::FxHashSet;
use shoal_history::{ActorId, ActorIdx, Change, ChangeHash, Checkpoint, OpId};

use crate::applier::{Applier, Refusal, localize};
use crate::document::Document;
use crate::error::{Error, OpFault};
use crate::id::ObjId;
use crate::opset::{check_by_itself, named};
use crate::pending::Pending;

mod batch;
mod order;

use batch::Batch;
use order::{Ordered, order};

impl Document {
    /// Applies changes. Changes with missing dependencies wait for them; known changes are ignored.
    /// The result does not depend on the order.
    ///
    /// A waiting change found to contradict the document, once the dependencies are here, is
    /// dropped: a bad change must not keep good ones out.
    ///
    /// A change should name only ops in its past, but some changes of the reference do not (inserts
    /// made in isolation beside marks of others). While such an op may still come, the change
    /// waits: in every order of arrival, all changes are applied once all are here.
    ///
    /// # Errors
    /// [`Error::DuplicateSeq`] if an author made two changes with one sequence number,
    /// [`Error::OpIdsExhausted`] if a change leaves no op ids for others,
    /// [`Error::Op`] and [`Error::History`] if one of `changes` contradicts the document. None of
    /// `changes` is applied then, and none waits.
    pub fn apply_changes(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<(), Error> {
        let mut changes = changes.into_iter();
        let Some(first) = changes.next() else { return Ok(()) };
        let mut batch = Batch::default();
        match changes.next() {
            None if self.apply_next(&first) => return Ok(()),
            None => batch.admit(first, &self.graph, &self.queue)?,
            Some(second) => {
                for change in [first, second].into_iter().chain(changes) {
                    batch.admit(change, &self.graph, &self.queue)?;
                }
            }
        }
        // With others waiting, the queue finds the order of all; else the queue need not see the
        // batch.
        let is_apart = self.queue.is_empty();
        let Ordered { ready: direct, waiting } = if is_apart {
            order(&mut batch, &self.graph)
        } else {
            let is_direct =
                |change: &Change| change.deps().iter().all(|dep| self.graph.contains(dep));
            let (ready, waiting) = batch.changes.iter().cloned().partition(is_direct);
            Ordered { ready, waiting }
        };
        let queued: Vec<ChangeHash> = waiting.iter().map(Change::hash).collect();
        for change in waiting {
            self.queue.add(change, &self.graph);
        }
        if is_apart && self.apply_joined(&direct) {
            self.queue.release(&direct);
            self.retry_stalled(direct);
            return Ok(());
        }
        let ready = self.queue.ready(direct);
        let is_new = |hash: &ChangeHash| is_apart || batch.position(hash).is_some();
        let applied = match self.apply_ready(&ready, is_new, false) {
            // Rare: only then is each change applied in a way to be undone alone.
            Err(Stop::Awaits) => self.apply_ready(&ready, is_new, true),
            done => done,
        };
        match applied {
            Ok(applied) => {
                self.queue.release(&applied);
                self.retry_stalled(applied);
                Ok(())
            }
            Err(Stop::Refused(error)) => {
                for hash in &queued {
                    self.queue.remove(hash);
                }
                Err(error)
            }
            Err(Stop::Awaits) => unreachable!("what awaits ops can be left out"),
        }
    }

    /// Applies a change right after the present heads while none waits: the most common case. False
    /// for any other change, and for a contradiction; nothing has changed then.
    fn apply_next(&mut self, change: &Change) -> bool {
        let follows = self.queue.is_empty()
            && change.max_op() < u32::MAX
            && self.graph.seq_of(change.actor()).checked_add(1) == Some(change.seq())
            && change.deps().iter().all(|dep| self.graph.contains(dep));
        follows && self.apply_joined(std::slice::from_ref(change))
    }

    /// Applies new changes, dependencies here or earlier in `changes`, while none waits. Typing and
    /// deleting across several changes is taken in at once. False when a change contradicts the
    /// document or awaits an op: nothing has changed then, and the change at fault is to be found
    /// change by change.
    fn apply_joined(&mut self, changes: &[Change]) -> bool {
        let before = self.checkpoint();
        let mut applier = std::mem::take(&mut self.spare.applier);
        applier.begin();
        self.graph.reserve(changes.len());
        let mut added = 0;
        let taken = changes.iter().all(|change| {
            let is_added = self.graph.add(change.clone()).is_ok();
            added += usize::from(is_added);
            is_added && self.take_ops(change, &mut applier).is_ok()
        });
        let is_done = taken && applier.flush(&mut self.ops).is_ok();
        if is_done {
            applier.keep_little();
            self.spare.applier = applier;
            return true;
        }
        let mut left = applier.done();
        let mut counts = Vec::with_capacity(added);
        for change in &changes[..added] {
            counts.push(left.min(change.len()));
            left -= left.min(change.len());
        }
        for (change, count) in changes.iter().zip(counts).rev() {
            self.undo_ops(change, count);
        }
        self.restore(before);
        false
    }

    /// Applies changes, new ones and waiting ones, with dependencies here or earlier in `ready`. A
    /// change waits if an op named by it is not here but may still come; `careful` guarantees such
    /// a change can be left out.
    ///
    /// # Errors
    /// When a new one contradicts the document, or awaits an op and cannot be left out. The
    /// document is as before then.
    fn apply_ready(
        &mut self,
        ready: &[Change],
        is_new: impl Fn(&ChangeHash) -> bool,
        careful: bool,
    ) -> Result<Vec<Change>, Stop> {
        let before = self.checkpoint();
        let mut applied: Vec<Change> = Vec::with_capacity(ready.len());
        let mut dropped: FxHashSet<ChangeHash> = FxHashSet::default();
        // Changes awaiting ops, and their dependents.
        let mut held: FxHashSet<ChangeHash> = FxHashSet::default();
        let mut queued: Vec<ChangeHash> = Vec::new();
        let mut applier = Applier::default();
        for change in ready {
            let hash = change.hash();
            if !dropped.is_empty() && change.deps().iter().any(|dep| dropped.contains(dep)) {
                dropped.insert(hash);
                continue;
            }
            let is_new = is_new(&hash);
            if !held.is_empty() && change.deps().iter().any(|dep| held.contains(dep)) {
                held.insert(hash);
                queued.extend(self.hold(change));
                continue;
            }
            let last = (careful || !is_new).then(|| self.checkpoint());
            let added = self.graph.add(change.clone());
            let refused = match added {
                Ok(_) => match self.apply_ops(change, &mut applier) {
                    Ok(()) => {
                        applied.push(change.clone());
                        continue;
                    }
                    Err(refused) => refused,
                },
                Err(error) => Refused { error: error.into(), awaits: None },
            };
            match (refused.awaits, last) {
                (Some(awaited), Some(last)) => {
                    self.restore(last);
                    applier = Applier::default();
                    held.insert(hash);
                    queued.extend(self.hold(change));
                    self.queue.stall(hash, awaited, refused.error);
                }
                (None, Some(last)) if !is_new => {
                    self.restore(last);
                    applier = Applier::default();
                    dropped.insert(hash);
                    self.queue.remove(&hash);
                }
                (awaits, _) => {
                    for change in applied.iter().rev() {
                        self.undo_ops(change, change.len());
                    }
                    self.restore(before);
                    held.iter().for_each(|hash| self.queue.unstall(hash));
                    queued.iter().for_each(|hash| self.queue.remove(hash));
                    return Err(match awaits {
                        Some(_) => Stop::Awaits,
                        None => Stop::Refused(refused.error),
                    });
                }
            }
        }
        Ok(applied)
    }

    /// Lets a change wait, and returns the hash of a change not waiting before.
    fn hold(&mut self, change: &Change) -> Option<ChangeHash> {
        let hash = change.hash();
        (!self.queue.contains(&hash)).then(|| {
            self.queue.add(change.clone(), &self.graph);
            hash
        })
    }

    /// Applies the changes awaiting ops of `applied`, then the changes awaiting ops of these, and
    /// so on.
    pub(crate) fn retry_stalled(&mut self, mut applied: Vec<Change>) {
        while !applied.is_empty() && self.queue.has_stalled() {
            let again = self.queue.awaiting(&applied);
            let ready = self.queue.ready(again);
            // None is new, so none is refused: a contradicting change is dropped.
            applied = self.apply_ready(&ready, |_| false, true).unwrap_or_default();
            self.queue.release(&applied);
        }
    }

    /// A mark of the known changes and actors, to go back to.
    fn checkpoint(&self) -> (Checkpoint, usize) {
        (self.graph.checkpoint(), self.ops.actors.ids().len())
    }

    /// Forgets changes, whose ops were taken back, and actors.
    fn restore(&mut self, (graph, actors): (Checkpoint, usize)) {
        self.graph.restore(graph);
        self.ops.forget_actors(actors);
    }

    /// Applies the ops of a change in the graph to the objects; all of them or none.
    fn apply_ops(&mut self, change: &Change, applier: &mut Applier) -> Result<(), Refused> {
        applier.begin();
        let taken = self.take_ops(change, applier);
        let Err((id, fault)) = taken.and_then(|()| applier.flush(&mut self.ops)) else {
            return Ok(());
        };
        let op = ObjId::new(id.counter, change.actor().clone());
        let done = applier.give_up();
        self.undo_ops(change, done);
        let (fault, awaits) = verdict(change, id.counter, fault, |id| self.may_come(change, id));
        Err(Refused { error: Error::Op { change: change.hash(), op, fault }, awaits })
    }

    /// Takes in the ops of a change in the graph. Some, up to the last, may be applied later: with
    /// their continuation, or by [`Applier::flush`].
    #[inline]
    fn take_ops(&mut self, change: &Change, applier: &mut Applier) -> Result<(), Refusal> {
        let author = match applier.author_if(change.actor()) {
            Some(index) => index,
            None => {
                let index = self.intern_actor(change.actor());
                applier.set_author(change.actor().clone(), index);
                index
            }
        };
        self.local_actors(change, author, applier.actors());
        applier.take(change, author, &mut self.ops)
    }

    /// The named op, if still to come: the actor has ops unknown here, and could have made this one
    /// concurrently.
    fn may_come(&self, change: &Change, id: OpId) -> Option<(ActorId, u32)> {
        let actor = change.actors().get(id.actor.as_usize())?;
        let is_new = id.actor.0 > 0 && id.counter > self.graph.max_op_of(actor);
        is_new.then(|| (actor.clone(), id.counter))
    }

    /// Takes the first `count` ops of a change back, last first.
    fn undo_ops(&mut self, change: &Change, count: usize) {
        let author = self.intern_actor(change.actor());
        let mut actors = Vec::new();
        self.local_actors(change, author, &mut actors);
        let mut owned = Vec::with_capacity(count);
        let mut ops = change.ops();
        let mut links = Vec::new();
        while owned.len() < count
            && let Some(op) = ops.next_op()
        {
            let id = OpId { counter: op.id.counter, actor: author };
            if let Some(op) = localize(&op, id, &actors, &mut links) {
                owned.push(Pending::from_op(&op, &mut self.ops.names));
            }
        }
        for op in owned.iter().rev() {
            self.ops.undo_pending(op);
        }
    }

    /// From the actor table of a change to this document's.
    pub(crate) fn local_actors(
        &self,
        change: &Change,
        author: ActorIdx,
        out: &mut Vec<Option<ActorIdx>>,
    ) {
        out.clear();
        out.push(Some(author));
        let others = change.actors().iter().skip(1);
        out.extend(others.map(|actor| self.ops.actors.lookup(actor)));
    }
}

/// Why changes are not applied.
enum Stop {
    /// One contradicts the document.
    Refused(Error),
    /// A change names ops still to come, and cannot be left out.
    Awaits,
}

/// The error of a change not applied, and the op to wait for.
struct Refused {
    error: Error,
    awaits: Option<(ActorId, u32)>,
}

/// The fault of an op, given by counter, in a change with the fault `fault`, and the op to wait
/// for.
///
/// The verdict is the same for every state of the document without the ops to come: a waiting
/// change is saved, and must wait again after loading. So faults of the op by itself come first,
/// then ops to come, and last contradictions with ops present here.
fn verdict(
    change: &Change,
    counter: u32,
    fault: OpFault,
    may_come: impl Fn(OpId) -> Option<(ActorId, u32)>,
) -> (OpFault, Option<(ActorId, u32)>) {
    let mut ops = change.ops();
    while let Some(op) = ops.next_op() {
        if op.id.counter != counter {
            continue;
        }
        let actor = |id: OpId| change.actors().get(id.actor.as_usize());
        let order =
            |a: OpId, b: OpId| a.counter.cmp(&b.counter).then_with(|| actor(a).cmp(&actor(b)));
        if let Err(fault) = check_by_itself(&op, order) {
            return (fault, None);
        }
        return (fault, named(&op).find_map(may_come));
    }
    (fault, None)
}
