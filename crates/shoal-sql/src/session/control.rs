//! Ends of a statement before its last row: an interrupt from another thread, and limits.

use std::sync::Arc;
use std::time::Duration;

use shoal_store::{OwnCollation, Watch};

use super::hooks::RowHooks;
use crate::session::forced::Forced;

/// Stops a connection's running statement, from any thread
/// ([`Connection::interrupter`](crate::Connection::interrupter)).
///
/// The statement ends with [`Error::Interrupted`](crate::Error::Interrupted) at its next check: at
/// every page entered and every few rows of a loop, so within a moment, but for a sort in progress.
/// Its writes are undone. An interrupt while no statement runs does nothing: the next statement
/// begins afresh. Between the rows of a query its statement runs.
#[derive(Clone, Debug)]
pub struct Interrupter {
    watch: Arc<Watch>,
}

impl Interrupter {
    /// Stops the statement. Cost: one atomic store; safe to call from a signal handler.
    pub fn interrupt(&self) {
        self.watch.stop();
    }
}

/// Bounds on the resources of one statement; `None` where there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// From the statement's start to each fetched row, the caller's time between rows included.
    pub time: Option<Duration>,
    /// Bytes of kept rows: for groups, joins by hash, distinct rows, set operations, windows,
    /// recursions and sets of `IN`. They stay below by spilling to temporary files
    /// (`docs/tables.md` says how far, and how much may always be kept); a statement unable to
    /// spill ends. The bytes of a single value are not counted.
    pub memory_bytes: Option<u64>,
    /// Rows of a result.
    pub rows: Option<u64>,
}

/// A connection's interrupt, limits and forced choices.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) watch: Arc<Watch>,
    pub(crate) limits: Limits,
    pub(crate) forced: Forced,
    pub(crate) rows: RowHooks,
    /// The program's own collations, whose classes of equal texts last as long as a statement.
    pub(crate) collations: Arc<Vec<OwnCollation>>,
}

impl Control {
    /// Another statement begins.
    pub(crate) fn begin(&self) {
        self.collations.iter().for_each(|collation| collation.forget_classes());
        self.watch.restart(self.limits.time);
    }

    /// The most bytes a statement may keep.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.forced.memory_bytes.or(self.limits.memory_bytes)
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter { watch: Arc::clone(&self.watch) }
    }
}
