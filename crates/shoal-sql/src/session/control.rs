//! What may end a statement before its last row: an interrupt from another thread, and limits.

use std::sync::Arc;
use std::time::Duration;

use shoal_store::Watch;

use crate::session::forced::Forced;

/// Stops the statement that a connection is running, from any thread
/// ([`Connection::interrupter`](crate::Connection::interrupter)).
///
/// The statement ends with [`Error::Interrupted`](crate::Error::Interrupted) the next time it looks:
/// at every page that it enters and every few rows of a loop, so within a moment, but for a sort that
/// has begun. What it wrote is undone. An interrupt while no statement runs does nothing: the next
/// statement begins afresh. Between the rows of a query its statement runs.
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

/// Bounds on what one statement may take; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// From the statement's start to each row that is asked for, the caller's time between rows
    /// included.
    pub time: Option<Duration>,
    /// Bytes of rows that are kept: for groups, joins by hash, distinct rows, set operations,
    /// windows, recursions and sets of `IN`. They stay below by going on in temporary files
    /// (`docs/tables.md` says how far, and what may always be kept); what cannot ends the statement.
    /// What a single value takes is not counted.
    pub memory_bytes: Option<u64>,
    /// Rows of a result.
    pub rows: Option<u64>,
}

/// A connection's part of both.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) watch: Arc<Watch>,
    pub(crate) limits: Limits,
    pub(crate) forced: Forced,
}

impl Control {
    /// Another statement begins.
    pub(crate) fn begin(&self) {
        self.watch.restart(self.limits.time);
    }

    /// How many bytes a statement may keep.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.forced.memory_bytes.or(self.limits.memory_bytes)
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter { watch: Arc::clone(&self.watch) }
    }
}
