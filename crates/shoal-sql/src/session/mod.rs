//! The session of a running statement, its view of the connection: time, randomness, counts of
//! changes, the budget of memory, temporary files, measures of its plan's nodes.

mod control;
pub(crate) mod forced;
mod hooks;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use shoal_store::Watch;
use shoal_store::vfs::File;

use crate::Error;
pub(crate) use control::Control;
pub use control::{Interrupter, Limits};
pub use hooks::{ChangeKind, CommitHook, RollbackHook, RowChange, RowHook, WalHook};
pub(crate) use hooks::{RowHooks, RowImage, TransactionHooks};
pub(crate) use statement::{Environment, Room, StatementSession};

/// Rows changed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) changes: i64,
    pub(crate) total_changes: i64,
    pub(crate) last_insert_rowid: i64,
}

/// A running function's view of its connection.
pub(crate) trait Session: Sync {
    /// Rows changed by the last finished `INSERT`, `UPDATE` or `DELETE`.
    fn changes(&self) -> i64;
    /// Rows changed since the connection was opened.
    fn total_changes(&self) -> i64;
    /// The rowid of the last row inserted, 0 before there is one.
    fn last_insert_rowid(&self) -> i64;
    /// Sets the counts: the changes of triggers' programs are counted while they run.
    fn set_counts(&self, _counts: Counts) {}
    /// Fills a buffer with unpredictable bytes.
    fn random(&self, bytes: &mut [u8]);
    /// The time, in milliseconds since 1970-01-01 UTC; the same throughout one statement.
    fn now_unix_ms(&self) -> i64;
    /// The time of the call, in milliseconds since 1970-01-01 UTC.
    fn clock_unix_ms(&self) -> i64 {
        self.now_unix_ms()
    }
    /// The seconds local time is ahead of UTC at a moment in seconds since 1970-01-01 UTC; `None`
    /// where there is no local time.
    fn local_offset_s(&self, _unix_s: i64) -> Option<i64> {
        None
    }

    /// Looked at every few rows by whoever loops.
    ///
    /// # Errors
    /// When the statement is to stop.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The budget kept rows are counted against, where memory is limited.
    fn budget(&self) -> Option<&Arc<Budget>> {
        None
    }

    /// Counts kept bytes: the budget, or without a limit the meter of an analysis.
    fn meter(&self) -> Option<&Arc<Budget>> {
        self.budget()
    }

    /// The measures of `EXPLAIN ANALYZE`.
    fn analysis(&self) -> Option<&Analysis> {
        None
    }

    /// The program's hooks on changes of rows.
    fn row_hooks(&self) -> Option<&RowHooks> {
        None
    }

    /// The room that what is kept longer than a call is counted against, where memory is limited.
    fn room(&self) -> Option<Room> {
        None
    }

    /// A file deleted when closed.
    ///
    /// # Errors
    /// When there can be none.
    fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        Err(Error::Misuse { what: "a temporary file was asked for where there are none" })
    }
}

/// The bytes a statement may keep, and the bytes it keeps.
#[derive(Debug)]
pub(crate) struct Budget {
    max: u64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Budget {
        Budget { max, used: AtomicU64::new(0) }
    }

    /// True where `bytes` more bytes may be kept, with something left for other structures.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.left() >= (bytes as u64).saturating_add(self.max / 4)
    }

    /// The most bytes to keep.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Counts more bytes; false when they are more than may be kept.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.max
    }

    /// Counts fewer bytes.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The number of bytes kept.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of bytes still allowed.
    pub(crate) fn left(&self) -> u64 {
        self.max.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// Measures of the nodes of one running plan: `EXPLAIN ANALYZE`.
#[derive(Debug)]
pub(crate) struct Analysis {
    measures: Box<[Measure]>,
    /// Counts the bytes of kept rows, and refuses nothing.
    pub(crate) meter: Arc<Budget>,
    watch: Arc<Watch>,
}

/// The numbers of a node once its plan ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) rows: u64,
    pub(crate) runs: u64,
    pub(crate) time_us: u64,
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
}

/// The numbers of a node while its plan runs.
#[derive(Debug, Default)]
struct Measure {
    rows: AtomicU64,
    /// Number of times the node began anew.
    runs: AtomicU64,
    /// Time in the node and the nodes below.
    nanos: AtomicU64,
    /// Pages entered by walks meanwhile.
    pages: AtomicU64,
    /// Peak of the bytes kept, above the count at the node's start.
    bytes: AtomicU64,
}

/// A moment when a node began to work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at: Instant,
    pages: u64,
    used: u64,
}

impl Analysis {
    /// Begins to count; `watch` is shared by all transactions the plan reads in.
    pub(crate) fn new(measures: usize, watch: Arc<Watch>) -> Analysis {
        watch.count_pages();
        let measures = std::iter::repeat_with(Measure::default).take(measures).collect();
        Analysis { measures, meter: Arc::new(Budget::new(u64::MAX)), watch }
    }

    /// Begins to count for another plan.
    pub(crate) fn anew(&self, measures: usize) -> Analysis {
        Analysis::new(measures, Arc::clone(&self.watch))
    }

    /// The numbers of a node.
    pub(crate) fn measured(&self, number: usize) -> Measured {
        let Measure { rows, runs, nanos, pages, bytes } = &self.measures[number];
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Measured {
            rows: load(rows),
            runs: load(runs),
            time_us: load(nanos) / 1000,
            pages: load(pages),
            bytes: load(bytes),
        }
    }

    /// Notes a new run of a node.
    pub(crate) fn opened(&self, number: usize) {
        self.measures[number].runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes rows of a node within a loop without other measures.
    pub(crate) fn counted(&self, number: usize, rows: u64) {
        if let Some(Measure { rows: given, runs, .. }) = self.measures.get(number) {
            given.fetch_add(rows, Ordering::Relaxed);
            runs.store(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn begin(&self) -> Begun {
        Begun { at: Instant::now(), pages: self.watch.pages(), used: self.meter.used() }
    }

    /// Notes all the work of a node with a single run.
    pub(crate) fn ended(&self, number: usize, begun: Begun, rows: u64) {
        let Measure { rows: given, runs, nanos, pages, bytes: _ } = &self.measures[number];
        for number in [given, nanos, pages] {
            number.store(0, Ordering::Relaxed);
        }
        runs.store(1, Ordering::Relaxed);
        self.end(number, begun, rows);
    }

    /// Notes the work of a node since `begun`, and its number of rows.
    pub(crate) fn end(&self, number: usize, begun: Begun, rows: u64) {
        let Measure { rows: given, runs: _, nanos, pages, bytes } = &self.measures[number];
        let time = u64::try_from(begun.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        nanos.fetch_add(time, Ordering::Relaxed);
        given.fetch_add(rows, Ordering::Relaxed);
        pages.fetch_add(self.watch.pages().saturating_sub(begun.pages), Ordering::Relaxed);
        bytes.fetch_max(self.meter.used().saturating_sub(begun.used), Ordering::Relaxed);
    }
}
