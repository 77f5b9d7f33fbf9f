//! What functions may ask of a connection.

use std::fmt;
use std::sync::Arc;

use shoal_store::vfs::{Clock, Entropy, OsClock, OsEntropy};
use shoal_store::{Locking, Mode, Store, Transaction};

use crate::Error;
use crate::functions::Session;
use crate::write::Done;

/// What a connection counts, and where it takes time and chance from.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Environment {
    pub(crate) fn os() -> Environment {
        Environment { clock: Arc::new(OsClock), entropy: Arc::new(OsEntropy) }
    }
}

/// Rows changed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) changes: i64,
    pub(crate) total_changes: i64,
    pub(crate) last_insert_rowid: i64,
}

impl Counts {
    /// Counts what a statement did that changes rows.
    pub(crate) fn note(&mut self, done: Done) {
        self.changes = i64::try_from(done.changes).unwrap_or(i64::MAX);
        self.total_changes = self.total_changes.saturating_add(self.changes);
        if let Some(rowid) = done.last_insert_rowid {
            self.last_insert_rowid = rowid;
        }
    }
}

/// The read transaction of a connection to a file that nobody can change: its store holds the lock
/// and only reads. Begun once, so that a statement costs no transaction.
#[derive(Debug, Default)]
pub(crate) struct Pinned(Option<Transaction>);

impl Pinned {
    /// `Some` for such a store.
    pub(crate) fn of(store: &Store) -> Option<Pinned> {
        let fixed = store.locking() == Locking::Exclusive && store.is_read_only();
        fixed.then(Pinned::default)
    }

    pub(crate) fn get_or_begin(&mut self, store: &Store) -> Result<&Transaction, Error> {
        if self.0.is_none() {
            self.0 = Some(store.begin(Mode::Read)?);
        }
        self.0.as_ref().ok_or(Error::Misuse { what: "a transaction that was begun is gone" })
    }
}

/// What one statement sees: the time does not pass while it runs.
#[derive(Clone)]
pub(crate) struct StatementSession {
    counts: Counts,
    now_unix_ms: i64,
    entropy: Arc<dyn Entropy>,
}

impl StatementSession {
    pub(crate) fn new(environment: &Environment, counts: Counts) -> StatementSession {
        StatementSession {
            counts,
            now_unix_ms: environment.clock.unix_ms(),
            entropy: Arc::clone(&environment.entropy),
        }
    }
}

impl Session for StatementSession {
    fn changes(&self) -> i64 {
        self.counts.changes
    }

    fn total_changes(&self) -> i64 {
        self.counts.total_changes
    }

    fn last_insert_rowid(&self) -> i64 {
        self.counts.last_insert_rowid
    }

    fn random(&self, bytes: &mut [u8]) {
        self.entropy.fill(bytes);
    }

    fn now_unix_ms(&self) -> i64 {
        self.now_unix_ms
    }
}

impl fmt::Debug for StatementSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementSession").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
