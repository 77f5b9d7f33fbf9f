//! The transaction of a connection to a file that nobody can change.

use std::sync::Arc;

use shoal_store::{Locking, Store, Transaction, Watch};

use super::attached::begin;
use crate::Error;

/// The read transaction of a connection to a file that nobody can change: its store holds the lock
/// and only reads. Begun once, so that a statement costs no transaction.
#[derive(Debug, Default)]
pub(super) struct Pinned(Option<Transaction>);

impl Pinned {
    /// `Some` for such a store.
    pub(in crate::connection) fn of(store: &Store) -> Option<Pinned> {
        let fixed = store.locking() == Locking::Exclusive && store.is_read_only();
        fixed.then(Pinned::default)
    }

    #[inline]
    pub(super) fn get_or_begin(
        &mut self,
        store: &Store,
        watch: &Arc<Watch>,
    ) -> Result<&Transaction, Error> {
        match &mut self.0 {
            Some(transaction) => Ok(transaction),
            none => Ok(none.insert(begin(store, watch)?)),
        }
    }

    /// The transaction, if it was begun.
    pub(super) fn get(&self) -> Option<&Transaction> {
        self.0.as_ref()
    }
}
