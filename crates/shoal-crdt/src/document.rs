//! The document: objects, the changes they come from, and those that still wait.

use std::sync::Arc;

use shoal_history::{ActorId, ActorIdx, Change, ChangeGraph, ChangeHash, Limits};

use crate::error::Error;
use crate::opset::OpSet;
use crate::pending::Spare;
use crate::queue::Queue;
use crate::transaction::Transaction;
use crate::value::TextEncoding;

/// An Automerge document in memory.
///
/// Reading methods take an object's id ([`crate::ROOT`] for the root map) and show the current
/// state. Writing goes through a [`Transaction`], which becomes one change when committed.
///
/// ```
/// use shoal_crdt::{ActorId, CommitOptions, Document, ObjType, ROOT};
///
/// let mut doc = Document::new(ActorId::new(&[1]));
/// let mut tx = doc.transaction();
/// let notes = tx.put_object(&ROOT, "notes", ObjType::Text)?;
/// tx.splice_text(&notes, 0, 0, "hello")?;
/// tx.commit(CommitOptions::default());
/// assert_eq!(doc.text(&notes)?, "hello");
///
/// let mut copy = doc.fork(ActorId::new(&[2]));
/// let mut tx = copy.transaction();
/// tx.splice_text(&notes, 5, 0, ", world")?;
/// tx.commit(CommitOptions::default());
/// doc.merge(&copy)?;
/// assert_eq!(doc.text(&notes)?, "hello, world");
/// # Ok::<(), shoal_crdt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    actor: ActorId,
    /// Whom the first change of an actor names.
    pub(crate) author: Option<Arc<[u8]>>,
    pub(crate) ops: OpSet,
    pub(crate) graph: ChangeGraph,
    pub(crate) queue: Queue,
    /// The heads that [`Document::save_incremental`] goes on from.
    pub(crate) saved_heads: Vec<ChangeHash>,
    /// Room for the next transaction.
    pub(crate) spare: Spare,
    /// How much chunks that come later may expand to.
    limits: Limits,
}

/// Sizes of a document, and what counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Ops, deletes not counted: the rows of a saved document.
    pub num_ops: u64,
    /// Changes applied.
    pub num_changes: u64,
    /// Actors who made them.
    pub num_actors: u64,
    /// Changes that wait for others.
    pub num_queued: u64,
    /// The name of this crate.
    pub cargo_package_name: &'static str,
    /// Its version.
    pub cargo_package_version: &'static str,
    /// The compiler that built it, as it calls itself.
    pub rustc_version: &'static str,
}

impl Document {
    /// An empty document whose changes will be by `actor`.
    ///
    /// No two documents that change at the same time may use the same actor; sixteen random
    /// bytes for each are the custom.
    pub fn new(actor: ActorId) -> Self {
        Self::with_encoding(actor, TextEncoding::default())
    }

    /// Like [`Document::new`], with texts indexed in the unit `encoding`.
    pub fn with_encoding(actor: ActorId, encoding: TextEncoding) -> Self {
        Self {
            actor,
            author: None,
            ops: OpSet::new(encoding),
            graph: ChangeGraph::new(),
            queue: Queue::default(),
            saved_heads: Vec::new(),
            spare: Spare::default(),
            limits: Limits::default(),
        }
    }

    /// Who makes the changes that are committed here.
    pub fn actor(&self) -> &ActorId {
        &self.actor
    }

    /// Makes `actor` the author of the changes to come. O(1).
    pub fn set_actor(&mut self, actor: ActorId) {
        self.actor = actor;
    }

    /// The unit in which texts are indexed.
    pub fn text_encoding(&self) -> TextEncoding {
        self.ops.encoding
    }

    /// Sets how many objects may be nested in each other: edits and changes that would make more are
    /// refused. What is there stays. The default is that of [`Limits`].
    pub fn set_max_depth(&mut self, max_depth: u32) {
        self.limits.max_depth = max_depth;
        self.ops.max_depth = max_depth;
    }

    /// How much a chunk may expand to that [`Document::load_incremental`] and
    /// [`Document::receive_sync_message`] take in.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets [`Document::limits`]. The default is that of [`Limits`], whatever limits the document was
    /// loaded with, but for the depth.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.ops.max_depth = limits.max_depth;
    }

    /// Begins a transaction on the current state.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// The same document for another actor; changes that wait are copied as well. O(1): both
    /// share what they have in common, and copy the part of it that they write to.
    pub fn fork(&self, actor: ActorId) -> Self {
        Self { actor, ..self.clone() }
    }

    /// A document for another author that has the changes `heads` and those that they depend on.
    /// Cost: that of applying them.
    ///
    /// # Errors
    /// [`Error::UnknownHead`] if one of `heads` is not here; [`Error::Op`] if a change names an op that
    /// is here, but not in the past of `heads`; [`Error::History`] if a history that was loaded without
    /// verifying it turns out to be unsound.
    pub fn fork_at(&self, actor: ActorId, heads: &[ChangeHash]) -> Result<Self, Error> {
        self.graph.verify()?;
        if let Some(missing) = heads.iter().find(|hash| !self.graph.contains(hash)) {
            return Err(Error::UnknownHead(*missing));
        }
        let clock = self.graph.clock(heads);
        let changes = self.changes().filter(|change| {
            let actor = self.graph.actor_idx(change.actor());
            actor.is_some_and(|actor| change.seq() <= clock.get(actor).seq)
        });
        let mut fork = Self::with_encoding(actor, self.text_encoding());
        fork.set_limits(self.limits);
        fork.author.clone_from(&self.author);
        fork.apply_changes(changes.cloned())?;
        // A change that names ops of others which it does not depend on waits for them in vain.
        match heads.iter().find(|head| !fork.graph.contains(head)) {
            None => Ok(fork),
            Some(head) => {
                let stalled = fork.queue.stalled_error().cloned();
                Err(stalled.unwrap_or(Error::UnknownHead(*head)))
            }
        }
    }

    /// The hashes of the changes that no other change depends on, ascending.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.graph.heads()
    }

    /// Whether every one of `heads` is an applied change. O(1) for each.
    pub fn has_heads(&self, heads: &[ChangeHash]) -> bool {
        heads.iter().all(|head| self.graph.contains(head))
    }

    /// Every applied change, dependencies first.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> + DoubleEndedIterator + Clone {
        self.graph.changes()
    }

    /// The applied changes that are neither among `heads` nor ancestors of them, dependencies
    /// first. Hashes that are not here are ignored.
    pub fn changes_since(&self, heads: &[ChangeHash]) -> Vec<&Change> {
        self.graph.changes_since(heads)
    }

    /// The applied change with this hash.
    pub fn change_by_hash(&self, hash: &ChangeHash) -> Option<&Change> {
        self.graph.get(hash)
    }

    /// The last change that this document's actor made.
    pub fn last_local_change(&self) -> Option<&Change> {
        self.graph.change_of(&self.actor, self.graph.seq_of(&self.actor))
    }

    /// The changes that are not here but that waiting changes, or `heads`, name. Ascending.
    pub fn missing_deps(&self, heads: &[ChangeHash]) -> Vec<ChangeHash> {
        self.queue.missing(&self.graph, heads)
    }

    /// The changes that wait for others, in the order they arrived.
    pub fn queued_changes(&self) -> Vec<&Change> {
        self.queue.changes()
    }

    /// Whether there is no change, applied or waiting.
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty() && self.queue.is_empty()
    }

    /// Ops in the document, deletes not counted.
    pub fn op_count(&self) -> u64 {
        self.ops.op_count()
    }

    /// Sizes of the document. O(a) for a actors.
    pub fn stats(&self) -> Stats {
        Stats {
            num_ops: self.ops.op_count(),
            num_changes: self.graph.len() as u64,
            num_actors: self.authors().count() as u64,
            num_queued: self.queue.len() as u64,
            cargo_package_name: env!("CARGO_PKG_NAME"),
            cargo_package_version: env!("CARGO_PKG_VERSION"),
            rustc_version: env!("SHOAL_RUSTC_VERSION"),
        }
    }

    /// The actors who made changes, in the order in which they came to be known here.
    pub fn authors(&self) -> impl Iterator<Item = &ActorId> {
        self.graph.actors().iter().filter(|actor| self.graph.seq_of(actor) > 0)
    }

    /// Applies the changes of `other` that are not here. Cost: that of those, however long the history
    /// is that both have.
    ///
    /// # Errors
    /// As [`Document::apply_changes`].
    pub fn merge(&mut self, other: &Self) -> Result<Vec<ChangeHash>, Error> {
        let changes: Vec<Change> =
            self.graph.changes_added(&other.graph).into_iter().cloned().collect();
        self.apply_changes(changes)?;
        Ok(self.heads())
    }

    /// The index of `actor`, the same in the op set and in the graph.
    pub(crate) fn intern_actor(&mut self, actor: &ActorId) -> ActorIdx {
        let index = self.ops.intern_actor(actor);
        if self.graph.actors().len() <= index.as_usize() {
            let in_graph = self.graph.intern_actor(actor);
            debug_assert_eq!(index, in_graph, "actors are interned in both tables at once");
        }
        index
    }
}
