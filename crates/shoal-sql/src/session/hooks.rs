//! Hooks: a program's calls on changes of rows, on commits and on rollbacks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::value::Value;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The row is new.
    Insert,
    /// The row's values change, its rowid perhaps too.
    Update,
    /// The row goes.
    Delete,
}

/// An inserted, changed or deleted row, as hooks see the change.
#[derive(Clone, Copy, Debug)]
pub struct RowChange<'a> {
    pub(crate) kind: ChangeKind,
    pub(crate) database: &'a str,
    pub(crate) table: &'a str,
    pub(crate) has_rowid: bool,
    pub(crate) old: Option<RowImage<'a>>,
    pub(crate) new: Option<RowImage<'a>>,
}

/// A row before or after its change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowImage<'a> {
    pub(crate) rowid: i64,
    pub(crate) values: &'a [Value],
}

impl<'a> RowChange<'a> {
    /// The kind of change.
    pub fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// The database: `main`, or its name by `ATTACH`.
    pub fn database(&self) -> &'a str {
        self.database
    }

    /// The table, spelled as in the definition.
    pub fn table(&self) -> &'a str {
        self.table
    }

    /// The rowid before the change; `None` for an insertion and in tables without rowid.
    pub fn old_rowid(&self) -> Option<i64> {
        self.old.filter(|_| self.has_rowid).map(|row| row.rowid)
    }

    /// The rowid after the change; `None` for a deletion and in tables without rowid.
    pub fn new_rowid(&self) -> Option<i64> {
        self.new.filter(|_| self.has_rowid).map(|row| row.rowid)
    }

    /// The values before the change, one for each column of the table, generated ones included;
    /// `None` for an insertion.
    pub fn before(&self) -> Option<&'a [Value]> {
        self.old.map(|row| row.values)
    }

    /// The values after the change, as [`RowChange::before`]; `None` for a deletion.
    pub fn after(&self) -> Option<&'a [Value]> {
        self.new.map(|row| row.values)
    }
}

/// Called with each changed row ([`Connection::set_update_hook`]).
///
/// [`Connection::set_update_hook`]: crate::Connection::set_update_hook
pub type RowHook = Box<dyn FnMut(&RowChange<'_>) + Send>;
/// Called before a commit; after true a rollback happens instead ([`Connection::set_commit_hook`]).
///
/// [`Connection::set_commit_hook`]: crate::Connection::set_commit_hook
pub type CommitHook = Box<dyn FnMut() -> bool + Send>;
/// Called after a rollback ([`Connection::set_rollback_hook`]).
///
/// [`Connection::set_rollback_hook`]: crate::Connection::set_rollback_hook
pub type RollbackHook = Box<dyn FnMut() + Send>;

/// Called after a commit to a write-ahead log ([`Connection::set_wal_hook`]).
///
/// [`Connection::set_wal_hook`]: crate::Connection::set_wal_hook
pub type WalHook = Box<dyn FnMut(&str, u32) + Send>;

/// The row hooks of a connection, and names for their databases.
#[derive(Clone, Default)]
pub(crate) struct RowHooks {
    pub(crate) before: Option<Arc<Mutex<RowHook>>>,
    pub(crate) after: Option<Arc<Mutex<RowHook>>>,
    /// Names of the attached databases.
    pub(crate) attached: Arc<[String]>,
}

impl RowHooks {
    /// Whether any row is asked for.
    pub(crate) fn any(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }

    /// The name of a database.
    pub(crate) fn database(&self, number: usize) -> &str {
        match number {
            0 => "main",
            1 => "temp",
            other => self.attached.get(other - 2).map_or("", String::as_str),
        }
    }

    /// Tells of a coming change.
    pub(crate) fn before(&self, change: &RowChange<'_>) {
        if let Some(hook) = &self.before {
            lock(hook)(change);
        }
    }

    /// Tells of a finished change.
    pub(crate) fn after(&self, change: &RowChange<'_>) {
        if let Some(hook) = &self.after {
            lock(hook)(change);
        }
    }
}

impl fmt::Debug for RowHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowHooks")
            .field("before", &self.before.is_some())
            .field("after", &self.after.is_some())
            .finish()
    }
}

/// Panics of earlier calls do not matter.
fn lock<T: ?Sized>(hook: &Mutex<T>) -> MutexGuard<'_, T> {
    hook.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The transaction hooks of a connection.
#[derive(Default)]
pub(crate) struct TransactionHooks {
    pub(crate) commit: Option<CommitHook>,
    pub(crate) rollback: Option<RollbackHook>,
    pub(crate) wal: Option<WalHook>,
}

impl TransactionHooks {
    /// True where the program refuses the coming commit.
    pub(crate) fn refuses_commit(&mut self) -> bool {
        self.commit.as_mut().is_some_and(|hook| hook())
    }

    /// Tells of a rollback.
    pub(crate) fn rolled_back(&mut self) {
        if let Some(hook) = &mut self.rollback {
            hook();
        }
    }
}

impl fmt::Debug for TransactionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionHooks")
            .field("commit", &self.commit.is_some())
            .field("rollback", &self.rollback.is_some())
            .field("wal", &self.wal.is_some())
            .finish()
    }
}
