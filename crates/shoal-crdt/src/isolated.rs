//! Transactions on a past state: edits seeing, and building on, given heads and nothing else.
//!
//! The edits are made on a copy of the document at those heads, and applied to the document like a
//! change from elsewhere. So an edit cannot refer to ops outside of its heads, and merging follows
//! the one rule of all changes.

use shoal_history::{ActorId, ChangeHash};

use crate::document::Document;
use crate::encoded::write_uleb;
use crate::error::Error;
use crate::patch::Patch;
use crate::read_doc::ReadDoc;
use crate::transactable::Transactable;
use crate::transaction::{CommitOptions, Suspended, Transaction};
use crate::view::View;

/// A document as of some heads, to be edited from there.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    doc: Document,
    heads: Vec<ChangeHash>,
}

impl Past {
    /// The document at `heads`. Cost: applying their changes; O(1) at the present heads.
    ///
    /// # Errors
    /// [`Error::UnknownHead`]; [`Error::History`] for an unsound history, loaded without verifying.
    pub(crate) fn of(doc: &Document, heads: &[ChangeHash]) -> Result<Self, Error> {
        let mut heads = heads.to_vec();
        heads.sort_unstable();
        heads.dedup();
        let past = match doc.graph.has_heads(&heads) {
            true => doc.clone(),
            false => doc.fork_at(doc.actor().clone(), &heads)?,
        };
        Ok(Self { doc: past, heads })
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.doc.view()
    }

    /// The document as of the heads, with the pending edits.
    pub(crate) fn document(&self) -> &Document {
        &self.doc
    }

    /// The heads of the next change.
    pub(crate) fn heads(&self) -> &[ChangeHash] {
        &self.heads
    }

    /// Begins a transaction whose change will be one of `present`.
    pub(crate) fn begin(&mut self, present: &Document) -> Suspended {
        let author = self.author(present);
        let seq = present.graph.seq_of(&author) + 1;
        let start_op = u64::from(present.graph.max_op()) + 1;
        let actor = self.doc.intern_actor(&author);
        Suspended::new(actor, seq, start_op, self.heads.clone())
    }

    /// The author of the next change: the document's actor, unless a change of this actor lies
    /// outside of the heads. Changes of one actor follow each other, so another actor takes over
    /// then, with an id derived as the reference does.
    fn author(&self, present: &Document) -> ActorId {
        let base = present.actor();
        let is_free = |actor: &ActorId| self.doc.graph.seq_of(actor) == present.graph.seq_of(actor);
        if is_free(base) {
            return base.clone();
        }
        (1_u64..)
            .map(|level| {
                let mut bytes = CONCURRENT.to_vec();
                write_uleb(level, &mut bytes);
                bytes.extend_from_slice(base.as_bytes());
                ActorId::new(&bytes)
            })
            .find(is_free)
            .expect("a document has fewer than 2^32 actors")
    }

    pub(crate) fn edit<R>(
        &mut self,
        present: &Document,
        open: &mut Option<Suspended>,
        edit: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> R {
        let begun = match open.take() {
            Some(begun) => begun,
            None => self.begin(present),
        };
        let mut tx = Transaction::resume(&mut self.doc, begun);
        let result = edit(&mut tx);
        *open = Some(tx.suspend());
        result
    }

    /// Makes the edits a change, here and in `present`, and builds on the change.
    pub(crate) fn commit(
        &mut self,
        present: &mut Document,
        open: Suspended,
        options: CommitOptions,
    ) -> Option<ChangeHash> {
        let hash = Transaction::resume(&mut self.doc, open).commit(options)?;
        self.pass_on(present, hash);
        Some(hash)
    }

    /// Like [`Past::commit`], for a change without edits too.
    pub(crate) fn commit_empty(
        &mut self,
        present: &mut Document,
        open: Suspended,
        options: CommitOptions,
    ) -> ChangeHash {
        let hash = Transaction::resume(&mut self.doc, open).commit_empty(options);
        self.pass_on(present, hash);
        hash
    }

    fn pass_on(&mut self, present: &mut Document, hash: ChangeHash) {
        let change = self.doc.change_by_hash(&hash).expect("the change was just made").clone();
        present.queue.remove_branch(change.actor(), change.seq());
        let applied = present.apply_changes([change]);
        applied.expect("a change that builds on a part of a document can be applied to the whole");
        self.heads = vec![hash];
    }

    pub(crate) fn rollback(&mut self, open: Suspended) -> usize {
        Transaction::resume(&mut self.doc, open).rollback()
    }
}

/// The first bytes of the id of an actor concurrent with another; a level and the other's id
/// follow.
const CONCURRENT: [u8; 4] = [0x13, 0xb2, 0x23, 0x09];

/// Edits of a document as of some heads: one change together, or nothing.
///
/// Reads see the document at those heads with the edits, and nothing else. The change depends on
/// exactly those heads. Dropping the transaction takes every edit back.
#[derive(Debug)]
pub struct TransactionAt<'a> {
    present: &'a mut Document,
    past: Past,
    open: Option<Suspended>,
}

impl Document {
    /// Begins a transaction on the document as of `heads`, like an author without any later change.
    /// If the document's actor has made changes since, another actor is the author, with an id
    /// beginning `13b22309`. Cost: applying the changes of `heads`.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, ReadDoc, Transactable};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut tx = doc.transaction();
    /// tx.put(&ROOT, "a", 1_i64)?;
    /// tx.commit(CommitOptions::default());
    /// let heads = doc.heads();
    /// let mut tx = doc.transaction();
    /// tx.delete(&ROOT, "a")?;
    /// tx.commit(CommitOptions::default());
    ///
    /// let mut tx = doc.transaction_at(&heads)?;
    /// assert!(tx.get(&ROOT, "a")?.is_some());
    /// tx.put(&ROOT, "a", 2_i64)?;
    /// tx.commit(CommitOptions::default());
    /// assert!(doc.get(&ROOT, "a")?.is_some(), "set by one who had not seen the delete");
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownHead`] if one of `heads` is not here; [`Error::History`] for an unsound
    /// history, loaded without verifying.
    pub fn transaction_at(&mut self, heads: &[ChangeHash]) -> Result<TransactionAt<'_>, Error> {
        let mut past = Past::of(self, heads)?;
        let open = Some(past.begin(self));
        Ok(TransactionAt { present: self, past, open })
    }
}

impl TransactionAt<'_> {
    /// The heads below the edits.
    pub fn base_heads(&self) -> &[ChangeHash] {
        self.past.heads()
    }

    /// As [`Transaction::commit`].
    pub fn commit(mut self, options: CommitOptions) -> Option<ChangeHash> {
        let open = self.open.take()?;
        self.past.commit(self.present, open, options)
    }

    /// As [`Transaction::commit_empty`].
    pub fn commit_empty(mut self, options: CommitOptions) -> ChangeHash {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.past.begin(self.present),
        };
        self.past.commit_empty(self.present, open, options)
    }

    /// Takes every edit back and returns the number of ops.
    pub fn rollback(mut self) -> usize {
        self.open.take().map_or(0, |open| self.past.rollback(open))
    }

    /// The patches of the edits so far.
    ///
    /// # Errors
    /// As [`Document::diff`].
    pub fn patches(&mut self) -> Result<Vec<Patch>, Error> {
        self.edit(|tx| tx.patches())
    }
}

impl ReadDoc for TransactionAt<'_> {
    fn view(&self) -> View<'_> {
        self.past.view()
    }
}

impl Transactable for TransactionAt<'_> {
    fn edit<R>(&mut self, edit: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
        self.past.edit(self.present, &mut self.open, edit)
    }

    fn pending_ops(&self) -> usize {
        self.open.as_ref().map_or(0, Suspended::pending_ops)
    }

    fn base_heads(&self) -> Vec<ChangeHash> {
        self.past.heads().to_vec()
    }
}
