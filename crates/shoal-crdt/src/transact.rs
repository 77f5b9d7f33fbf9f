//! Conveniences around changes: a transaction in a closure, the changes missing from another
//! document, the change behind an op.

use shoal_history::{Change, ChangeHash};

use crate::document::Document;
use crate::id::ObjId;
use crate::transaction::{CommitOptions, Transaction};

impl Document {
    /// Runs `edit` in a transaction, committed on success and rolled back on failure. Returns the
    /// result of `edit`, and the hash of the change if there was anything to change.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, Error, ROOT};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let (_, change) = doc.transact(CommitOptions::default(), |tx| tx.put(&ROOT, "a", 1_i64))?;
    /// assert!(change.is_some());
    /// let failed: Result<((), _), Error> = doc.transact(CommitOptions::default(), |tx| {
    ///     tx.delete(&ROOT, "a")?;
    ///     tx.increment(&ROOT, "b", 1)
    /// });
    /// assert!(failed.is_err() && doc.length(&ROOT)? == 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `edit`.
    pub fn transact<R, E>(
        &mut self,
        options: CommitOptions,
        edit: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(R, Option<ChangeHash>), E> {
        let mut tx = self.transaction();
        let result = edit(&mut tx)?;
        Ok((result, tx.commit(options)))
    }

    /// The changes of `other` not applied here, dependencies first. Cost: about their number.
    pub fn changes_added<'o>(&self, other: &'o Self) -> Vec<&'o Change> {
        self.graph.changes_added(&other.graph)
    }

    /// The change behind an op, given by the id of an object or a value. `None` for the root, for
    /// an unknown op, and for an op not committed yet. O(log n).
    pub fn hash_for_op(&self, id: &ObjId) -> Option<ChangeHash> {
        self.graph.change_with_op(self.import(id)?).map(Change::hash)
    }
}
