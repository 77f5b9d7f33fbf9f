//! The document: objects, their changes, and the changes still waiting.

use std::sync::Arc;

use shoal_history::{ActorId, ActorIdx, Change, ChangeBuffers, ChangeGraph, ChangeHash, Limits};

use crate::applier::Applier;
use crate::error::Error;
use crate::opset::OpSet;
use crate::pending::PendingOps;
use crate::queue::Queue;
use crate::value::TextEncoding;

/// An Automerge document in memory.
///
/// Reading methods take an object's id ([`crate::ROOT`] for the root map) and show the current
/// state. Writing goes through a [`Transaction`](crate::Transaction), one change when committed.
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
    /// The heads from which [`Document::save_incremental`] goes on.
    pub(crate) saved_heads: Vec<ChangeHash>,
    /// Room for the next transaction.
    pub(crate) spare: Spare,
    /// Bounds for chunks to come.
    limits: Limits,
}

/// Buffers for the next transaction, or the next call applying changes, always empty.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    pub(crate) pending: PendingOps,
    pub(crate) buffers: ChangeBuffers,
    pub(crate) applier: Applier,
}

/// Copies of a document find their own.
impl Clone for Spare {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Sizes of a document, and the program behind the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Ops, deletes not counted: the rows of a saved document.
    pub num_ops: u64,
    /// Changes applied.
    pub num_changes: u64,
    /// Actors who made them.
    pub num_actors: u64,
    /// Changes waiting for others.
    pub num_queued: u64,
    /// The name of this crate.
    pub cargo_package_name: &'static str,
    /// Its version.
    pub cargo_package_version: &'static str,
    /// The compiler of this build, in its own words.
    pub rustc_version: &'static str,
}

impl Document {
    /// An empty document whose changes will be by `actor`.
    ///
    /// No two documents changing at the same time may use the same actor; sixteen random bytes for
    /// each are the custom.
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

    /// The author of changes committed here.
    pub fn actor(&self) -> &ActorId {
        &self.actor
    }

    /// Makes `actor` the author of the changes to come. O(1).
    pub fn set_actor(&mut self, actor: ActorId) {
        self.actor = actor;
    }

    /// The unit of text indexes.
    pub fn text_encoding(&self) -> TextEncoding {
        self.ops.encoding
    }

    /// Sets the bound on nested objects: edits and changes beyond the bound are refused. Present
    /// objects stay. The default is the bound of [`Limits`].
    pub fn set_max_depth(&mut self, max_depth: u32) {
        self.limits.max_depth = max_depth;
        self.ops.max_depth = max_depth;
    }

    /// Bounds on the expansion of chunks in [`Document::load_incremental`] and
    /// [`Document::receive_sync_message`].
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets [`Document::limits`]. The default is [`Limits::default`], regardless of the limits at
    /// loading, except for the depth.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.ops.max_depth = limits.max_depth;
    }

    /// The same document for another actor; waiting changes are copied as well. O(1): both share
    /// their state, and copy only the parts they write to.
    pub fn fork(&self, actor: ActorId) -> Self {
        Self { actor, ..self.clone() }
    }

    /// A document for another author with the changes `heads` and their ancestors. Cost: applying
    /// them.
    ///
    /// # Errors
    /// [`Error::UnknownHead`] if one of `heads` is not here; [`Error::Op`] if a change names an op
    /// outside of the past of `heads`; [`Error::History`] for an unsound history, loaded without
    /// verifying.
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
        // A change naming ops of others without depending on them waits for them in vain.
        match heads.iter().find(|head| !fork.graph.contains(head)) {
            None => Ok(fork),
            Some(head) => {
                let stalled = fork.queue.stalled_error().cloned();
                Err(stalled.unwrap_or(Error::UnknownHead(*head)))
            }
        }
    }

    /// The hashes of the changes without dependents, ascending.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.graph.heads()
    }

    /// Checks a document loaded with [`Verify::Later`](crate::Verify::Later): its changes are
    /// rebuilt and hashed. Cost: none the second time.
    ///
    /// # Errors
    /// [`Error::History`] for an unsound history.
    pub fn verify(&self) -> Result<(), Error> {
        Ok(self.graph.verify()?)
    }

    /// True if every one of `heads` is an applied change. O(1) for each.
    pub fn has_heads(&self, heads: &[ChangeHash]) -> bool {
        heads.iter().all(|head| self.graph.contains(head))
    }

    /// Every applied change, dependencies first.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> + DoubleEndedIterator + Clone {
        self.graph.changes()
    }

    /// The applied changes neither among `heads` nor among their ancestors, dependencies first.
    /// Unknown hashes are ignored.
    pub fn changes_since(&self, heads: &[ChangeHash]) -> Vec<&Change> {
        self.graph.changes_since(heads)
    }

    /// The applied change with this hash.
    pub fn change_by_hash(&self, hash: &ChangeHash) -> Option<&Change> {
        self.graph.get(hash)
    }

    /// The last change by this document's actor.
    pub fn last_local_change(&self) -> Option<&Change> {
        self.graph.change_of(&self.actor, self.graph.seq_of(&self.actor))
    }

    /// The hashes named by waiting changes, or given as `heads`, but unknown here. Ascending.
    pub fn missing_deps(&self, heads: &[ChangeHash]) -> Vec<ChangeHash> {
        self.queue.missing(&self.graph, heads)
    }

    /// The graph of applied changes. A copy costs nothing until either one grows; then the changes
    /// added one by one since loading are copied.
    pub fn graph(&self) -> &ChangeGraph {
        &self.graph
    }

    /// The changes waiting for others, in the order of arrival.
    pub fn queued_changes(&self) -> Vec<&Change> {
        self.queue.changes()
    }

    /// True without any change, applied or waiting.
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

    /// The actors with changes, in the order of becoming known here.
    pub fn authors(&self) -> impl Iterator<Item = &ActorId> {
        self.graph.actors().iter().filter(|actor| self.graph.seq_of(actor) > 0)
    }

    /// Applies the changes of `other` missing here. Cost: applying these, however long the shared
    /// history.
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
