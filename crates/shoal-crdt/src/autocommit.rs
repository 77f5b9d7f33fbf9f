//! A document with an implicit transaction, for programs without transactions of their own.

use shoal_history::{ActorId, Change, ChangeHash, SyncMessage, SyncState};

use crate::document::Document;
use crate::error::Error;
use crate::isolated::Past;
use crate::load::LoadOptions;
use crate::patch::Patch;
use crate::read_doc::ReadDoc;
use crate::save::SaveOptions;
use crate::transactable::Transactable;
use crate::transaction::{CommitOptions, Suspended, Transaction};
use crate::value::TextEncoding;
use crate::view::{DocumentAt, View};

/// A document whose edits need no explicit transaction: the first edit opens one, and every use of
/// the history (saving, merging, the heads) commits first. [`AutoCommit::commit`] ends the
/// transaction at a place of the program's choosing.
///
/// ```
/// use shoal_crdt::{ActorId, AutoCommit, ROOT, ReadDoc, Transactable};
///
/// let mut doc = AutoCommit::new(ActorId::new(&[1]));
/// doc.put(&ROOT, "title", "draft")?;
/// doc.commit();
/// doc.put(&ROOT, "title", "final")?;
/// assert_eq!(doc.rollback(), 1);
/// assert_eq!(doc.get(&ROOT, "title")?.unwrap().0.as_str(), Some("draft"));
/// # Ok::<(), shoal_crdt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AutoCommit {
    doc: Document,
    open: Option<Suspended>,
    /// The start of the next incremental patches.
    diff_cursor: Vec<ChangeHash>,
    /// The state read and edited instead of the present one.
    isolated: Option<Past>,
}

impl From<Document> for AutoCommit {
    fn from(doc: Document) -> Self {
        Self { doc, open: None, diff_cursor: Vec::new(), isolated: None }
    }
}

impl AutoCommit {
    /// An empty document whose changes will be by `actor`.
    pub fn new(actor: ActorId) -> Self {
        Document::new(actor).into()
    }

    /// Like [`AutoCommit::new`], with texts indexed in the unit `encoding`.
    pub fn with_encoding(actor: ActorId, encoding: TextEncoding) -> Self {
        Document::with_encoding(actor, encoding).into()
    }

    /// [`Document::load`].
    ///
    /// # Errors
    /// As there.
    pub fn load(bytes: &[u8], actor: ActorId, options: &LoadOptions) -> Result<Self, Error> {
        Ok(Document::load(bytes, actor, options)?.into())
    }

    /// Commits the pending edits; the document itself, for calls of its own.
    pub fn document(&mut self) -> &mut Document {
        self.commit();
        &mut self.doc
    }

    /// Commits the pending edits, and goes on with explicit transactions.
    pub fn into_document(mut self) -> Document {
        self.commit();
        self.doc
    }

    /// Who makes the changes.
    pub fn actor(&self) -> &ActorId {
        self.doc.actor()
    }

    /// Makes `actor` the author of the changes to come; pending edits are committed before.
    pub fn set_actor(&mut self, actor: ActorId) {
        self.document().set_actor(actor);
    }

    /// The unit of text indexes.
    pub fn text_encoding(&self) -> TextEncoding {
        self.doc.text_encoding()
    }

    /// Makes the pending edits a change; `None` when there are none.
    pub fn commit(&mut self) -> Option<ChangeHash> {
        self.commit_with(CommitOptions::default())
    }

    /// Like [`AutoCommit::commit`], with a message and a time.
    pub fn commit_with(&mut self, options: CommitOptions) -> Option<ChangeHash> {
        let open = self.open.take()?;
        match &mut self.isolated {
            Some(past) => past.commit(&mut self.doc, open, options),
            None => Transaction::resume(&mut self.doc, open).commit(options),
        }
    }

    /// Commits the pending edits, then makes a change without edits on all present heads, isolated
    /// or not.
    pub fn commit_empty(&mut self, options: CommitOptions) -> ChangeHash {
        self.document().transaction().commit_empty(options)
    }

    /// Takes the pending edits back and returns the number of their ops.
    pub fn rollback(&mut self) -> usize {
        let Some(open) = self.open.take() else { return 0 };
        match &mut self.isolated {
            Some(past) => past.rollback(open),
            None => Transaction::resume(&mut self.doc, open).rollback(),
        }
    }

    /// The document, pending edits included, for reads without a commit; as of the isolated heads,
    /// if isolated. History, heads and bytes are without the pending edits.
    pub fn with_pending(&self) -> &Document {
        self.isolated.as_ref().map_or(&self.doc, Past::document)
    }

    /// True where edits are pending.
    pub fn is_pending(&self) -> bool {
        self.pending_ops() > 0
    }

    /// The heads, after committing the pending edits; the edited heads, if isolated.
    pub fn heads(&mut self) -> Vec<ChangeHash> {
        self.commit();
        self.isolated.as_ref().map_or_else(|| self.doc.heads(), |past| past.heads().to_vec())
    }

    /// Commits the pending edits, then reads and edits the document as of `heads`, until
    /// [`AutoCommit::integrate`]. Changes from elsewhere are taken in meanwhile, but not seen.
    /// Edits build on `heads` alone, then on each other; see [`Document::transaction_at`] for their
    /// author. Cost: applying the changes of `heads`.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, AutoCommit, ROOT, ReadDoc, Transactable};
    ///
    /// let mut doc = AutoCommit::new(ActorId::new(&[1]));
    /// doc.put(&ROOT, "a", 1_i64)?;
    /// let heads = doc.heads();
    /// doc.put(&ROOT, "b", 2_i64)?;
    /// doc.isolate(&heads)?;
    /// assert_eq!(doc.get(&ROOT, "b")?, None);
    /// doc.put(&ROOT, "c", 3_i64)?;
    /// doc.integrate();
    /// assert_eq!(doc.length(&ROOT)?, 3);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Document::transaction_at`].
    pub fn isolate(&mut self, heads: &[ChangeHash]) -> Result<(), Error> {
        self.isolated = Some(Past::of(self.document(), heads)?);
        Ok(())
    }

    /// Commits the pending edits, and goes back to the present state.
    pub fn integrate(&mut self) {
        self.commit();
        self.isolated = None;
    }

    /// The heads read and edited, if not the present ones: the heads given to
    /// [`AutoCommit::isolate`], or the change committed since.
    pub fn isolation(&self) -> Option<&[ChangeHash]> {
        self.isolated.as_ref().map(Past::heads)
    }

    /// Commits the pending edits in both, then applies the changes of `other` missing here.
    ///
    /// # Errors
    /// As [`Document::merge`].
    pub fn merge(&mut self, other: &mut Self) -> Result<Vec<ChangeHash>, Error> {
        self.document().merge(other.document())
    }

    /// Commits the pending edits, then [`Document::apply_changes`].
    ///
    /// # Errors
    /// As there.
    pub fn apply_changes(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<(), Error> {
        self.document().apply_changes(changes)
    }

    /// Commits the pending edits, then [`Document::fork`].
    pub fn fork(&mut self, actor: ActorId) -> Self {
        self.document().fork(actor).into()
    }

    /// Commits the pending edits, then [`Document::fork_at`].
    ///
    /// # Errors
    /// As there.
    pub fn fork_at(&mut self, actor: ActorId, heads: &[ChangeHash]) -> Result<Self, Error> {
        Ok(self.document().fork_at(actor, heads)?.into())
    }

    /// The document as of `heads`; pending edits are committed before.
    pub fn at(&mut self, heads: &[ChangeHash]) -> DocumentAt<'_> {
        self.document().at(heads)
    }

    /// Commits the pending edits; the patches since the last call of this or of
    /// [`AutoCommit::update_diff_cursor`], and from an empty document the first time.
    ///
    /// # Errors
    /// As [`Document::diff`]; the next call begins at the same place then.
    pub fn diff_incremental(&mut self) -> Result<Vec<Patch>, Error> {
        let heads = self.heads();
        let patches = self.doc.diff(&self.diff_cursor, &heads)?;
        self.diff_cursor = heads;
        Ok(patches)
    }

    /// The heads where [`AutoCommit::diff_incremental`] goes on from.
    pub fn diff_cursor(&self) -> &[ChangeHash] {
        &self.diff_cursor
    }

    /// Lets [`AutoCommit::diff_incremental`] go on from here.
    pub fn update_diff_cursor(&mut self) {
        self.diff_cursor = self.heads();
    }

    /// Lets [`AutoCommit::diff_incremental`] begin with an empty document.
    pub fn reset_diff_cursor(&mut self) {
        self.diff_cursor.clear();
    }

    /// Commits the pending edits, then [`Document::bundle`].
    ///
    /// # Errors
    /// As there.
    pub fn bundle(&mut self, hashes: &[ChangeHash]) -> Result<Vec<u8>, Error> {
        self.document().bundle(hashes)
    }

    /// Commits the pending edits, then [`Document::generate_sync_message`].
    pub fn generate_sync_message(&mut self, state: &mut SyncState) -> Option<SyncMessage> {
        self.document().generate_sync_message(state)
    }

    /// Commits the pending edits, then [`Document::receive_sync_message`].
    ///
    /// # Errors
    /// As there.
    pub fn receive_sync_message(
        &mut self,
        state: &mut SyncState,
        message: SyncMessage,
    ) -> Result<(), Error> {
        self.document().receive_sync_message(state, message)
    }

    /// Commits the pending edits, then [`Document::save`].
    pub fn save(&mut self) -> Vec<u8> {
        self.document().save()
    }

    /// Commits the pending edits, then [`Document::save_and_verify`].
    ///
    /// # Errors
    /// As there.
    pub fn save_and_verify(&mut self) -> Result<Vec<u8>, Error> {
        self.document().save_and_verify()
    }

    /// Commits the pending edits, then [`Document::to_bytes`].
    pub fn to_bytes(&mut self, options: SaveOptions) -> Vec<u8> {
        self.document().to_bytes(options)
    }

    /// Commits the pending edits, then [`Document::save_incremental`].
    pub fn save_incremental(&mut self) -> Vec<u8> {
        self.document().save_incremental()
    }

    /// Commits the pending edits, then [`Document::save_after`].
    pub fn save_after(&mut self, heads: &[ChangeHash]) -> Vec<u8> {
        self.document().save_after(heads)
    }

    /// Commits the pending edits, then [`Document::load_incremental`].
    ///
    /// # Errors
    /// As there.
    pub fn load_incremental(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        self.document().load_incremental(bytes)
    }
}

impl ReadDoc for AutoCommit {
    fn view(&self) -> View<'_> {
        self.isolated.as_ref().map_or_else(|| self.doc.view(), Past::view)
    }
}

impl Transactable for AutoCommit {
    fn edit<R>(&mut self, edit: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
        if let Some(past) = &mut self.isolated {
            return past.edit(&self.doc, &mut self.open, edit);
        }
        let mut tx = match self.open.take() {
            Some(open) => Transaction::resume(&mut self.doc, open),
            None => self.doc.transaction(),
        };
        let result = edit(&mut tx);
        self.open = Some(tx.suspend());
        result
    }

    fn pending_ops(&self) -> usize {
        self.open.as_ref().map_or(0, Suspended::pending_ops)
    }

    fn base_heads(&self) -> Vec<ChangeHash> {
        self.isolated.as_ref().map_or_else(|| self.doc.heads(), |past| past.heads().to_vec())
    }
}
