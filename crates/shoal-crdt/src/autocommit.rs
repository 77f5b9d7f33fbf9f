//! A document with an implicit transaction, for programs that do not want to hold one.

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

/// A document whose edits need no explicit transaction: the first edit opens one, and whatever
/// needs the history (saving, merging, the heads) commits it first. [`AutoCommit::commit`] ends it
/// at a place of the program's choosing.
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
    /// Where patches that are asked for go on from.
    diff_cursor: Vec<ChangeHash>,
    /// What is read and edited instead of the present state.
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

    /// Commits what is pending; the document itself, to call what only it has.
    pub fn document(&mut self) -> &mut Document {
        self.commit();
        &mut self.doc
    }

    /// Commits what is pending, and goes on with explicit transactions.
    pub fn into_document(mut self) -> Document {
        self.commit();
        self.doc
    }

    /// Who makes the changes.
    pub fn actor(&self) -> &ActorId {
        self.doc.actor()
    }

    /// Makes `actor` the author of the changes to come; what is pending is committed before.
    pub fn set_actor(&mut self, actor: ActorId) {
        self.document().set_actor(actor);
    }

    /// The unit in which texts are indexed.
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

    /// Commits what is pending, then makes a change without edits on all present heads, isolated or
    /// not.
    pub fn commit_empty(&mut self, options: CommitOptions) -> ChangeHash {
        self.document().transaction().commit_empty(options)
    }

    /// Takes the pending edits back and returns how many ops that were.
    pub fn rollback(&mut self) -> usize {
        let Some(open) = self.open.take() else { return 0 };
        match &mut self.isolated {
            Some(past) => past.rollback(open),
            None => Transaction::resume(&mut self.doc, open).rollback(),
        }
    }

    /// The heads, once what is pending is committed; those that are edited, if isolated.
    pub fn heads(&mut self) -> Vec<ChangeHash> {
        self.commit();
        self.isolated.as_ref().map_or_else(|| self.doc.heads(), |past| past.heads().to_vec())
    }

    /// Commits what is pending, then reads and edits the document as it was when its heads were
    /// `heads`, until [`AutoCommit::integrate`]. What comes from elsewhere meanwhile is taken in, but
    /// not seen. Edits build on `heads` alone, then on each other; see
    /// [`Document::transaction_at`] for who their author is. Cost: that of applying the changes of
    /// `heads`.
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

    /// Commits what is pending, and goes back to the present state.
    pub fn integrate(&mut self) {
        self.commit();
        self.isolated = None;
    }

    /// The heads that are read and edited, if not the present ones: those given to
    /// [`AutoCommit::isolate`], or the change that was committed since.
    pub fn isolation(&self) -> Option<&[ChangeHash]> {
        self.isolated.as_ref().map(Past::heads)
    }

    /// Commits what is pending in both, then applies the changes of `other` that are not here.
    ///
    /// # Errors
    /// As [`Document::merge`].
    pub fn merge(&mut self, other: &mut Self) -> Result<Vec<ChangeHash>, Error> {
        self.document().merge(other.document())
    }

    /// Commits what is pending, then [`Document::apply_changes`].
    ///
    /// # Errors
    /// As there.
    pub fn apply_changes(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<(), Error> {
        self.document().apply_changes(changes)
    }

    /// Commits what is pending, then [`Document::fork`].
    pub fn fork(&mut self, actor: ActorId) -> Self {
        self.document().fork(actor).into()
    }

    /// Commits what is pending, then [`Document::fork_at`].
    ///
    /// # Errors
    /// As there.
    pub fn fork_at(&mut self, actor: ActorId, heads: &[ChangeHash]) -> Result<Self, Error> {
        Ok(self.document().fork_at(actor, heads)?.into())
    }

    /// The document as it was when its heads were `heads`; what is pending is committed before.
    pub fn at(&mut self, heads: &[ChangeHash]) -> DocumentAt<'_> {
        self.document().at(heads)
    }

    /// Commits what is pending; the patches from where this, or
    /// [`AutoCommit::update_diff_cursor`], was called last, and from an empty document the first
    /// time.
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

    /// Commits what is pending, then [`Document::bundle`].
    ///
    /// # Errors
    /// As there.
    pub fn bundle(&mut self, hashes: &[ChangeHash]) -> Result<Vec<u8>, Error> {
        self.document().bundle(hashes)
    }

    /// Commits what is pending, then [`Document::generate_sync_message`].
    pub fn generate_sync_message(&mut self, state: &mut SyncState) -> Option<SyncMessage> {
        self.document().generate_sync_message(state)
    }

    /// Commits what is pending, then [`Document::receive_sync_message`].
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

    /// Commits what is pending, then [`Document::save`].
    pub fn save(&mut self) -> Vec<u8> {
        self.document().save()
    }

    /// Commits what is pending, then [`Document::save_and_verify`].
    ///
    /// # Errors
    /// As there.
    pub fn save_and_verify(&mut self) -> Result<Vec<u8>, Error> {
        self.document().save_and_verify()
    }

    /// Commits what is pending, then [`Document::to_bytes`].
    pub fn to_bytes(&mut self, options: SaveOptions) -> Vec<u8> {
        self.document().to_bytes(options)
    }

    /// Commits what is pending, then [`Document::save_incremental`].
    pub fn save_incremental(&mut self) -> Vec<u8> {
        self.document().save_incremental()
    }

    /// Commits what is pending, then [`Document::save_after`].
    pub fn save_after(&mut self, heads: &[ChangeHash]) -> Vec<u8> {
        self.document().save_after(heads)
    }

    /// Commits what is pending, then [`Document::load_incremental`].
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
