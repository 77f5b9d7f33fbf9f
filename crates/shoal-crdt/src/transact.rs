//! Conveniences around changes: a transaction in a closure, what another document has more, whose an
//! op is.

use shoal_history::{Change, ChangeHash};

use crate::document::Document;
use crate::id::ObjId;
use crate::transaction::{CommitOptions, Transaction};

impl Document {
    /// Runs `edit` in a transaction, which is committed when it succeeds and rolled back when it
    /// fails. Returns what `edit` did, and the hash of the change if there was anything to change.
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
    /// That of `edit`.
    pub fn transact<R, E>(
        &mut self,
        options: CommitOptions,
        edit: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<(R, Option<ChangeHash>), E> {
        let mut tx = self.transaction();
        let result = edit(&mut tx)?;
        Ok((result, tx.commit(options)))
    }

    /// The changes of `other` that are not applied here, dependencies first. Cost: about their number.
    pub fn changes_added<'o>(&self, other: &'o Self) -> Vec<&'o Change> {
        self.graph.changes_added(&other.graph)
    }

    /// The change that made an op, such as the one that an object or a value has its id from. `None`
    /// for the root, for an op that is not here, and for one that is not committed yet. O(log n).
    pub fn hash_for_op(&self, id: &ObjId) -> Option<ChangeHash> {
        self.graph.change_with_op(self.import(id)?).map(Change::hash)
    }
}
