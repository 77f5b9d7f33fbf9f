//! The session of one statement: its time, its counts, its budget.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use shoal_store::vfs::{Clock, Entropy, File, OsClock, OsEntropy};
use shoal_store::{Store, Watch};

use super::{Analysis, Budget, Control, Counts, RowHooks, Session};
use crate::Error;

/// A connection's sources of time and entropy.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Environment {
    pub(crate) fn os() -> Environment {
        Environment { clock: Arc::new(OsClock), entropy: Arc::new(OsEntropy) }
    }

    /// As [`Environment::session`], made of the session of an earlier statement where possible.
    pub(crate) fn session_again(
        &self,
        before: Option<StatementSession>,
        counts: Counts,
        control: &Control,
        store: &Store,
    ) -> StatementSession {
        let is_plain = |it: &StatementSession| it.room.is_none() && it.analysis.is_none();
        match before.filter(is_plain) {
            Some(mut session) if control.memory_bytes().is_none() => {
                session.counts.set(counts);
                session.now_unix_ms = OnceLock::new();
                session.rows = control.rows.any().then(|| control.rows.clone());
                session
            }
            _ => self.session(counts, control, store),
        }
    }

    /// The session of the next statement, in the place of the one before.
    #[inline]
    pub(crate) fn session_kept<'k>(
        &self,
        kept: &'k mut Option<StatementSession>,
        counts: Counts,
        control: &Control,
        store: &Store,
    ) -> &'k StatementSession {
        let is_plain = |it: &StatementSession| it.room.is_none() && it.analysis.is_none();
        match kept {
            Some(session) if is_plain(session) && control.memory_bytes().is_none() => {
                session.counts.set(counts);
                if session.now_unix_ms.get().is_some() {
                    session.now_unix_ms = OnceLock::new();
                }
                session.rows = control.rows.any().then(|| control.rows.clone());
            }
            _ => *kept = Some(self.session(counts, control, store)),
        }
        kept.as_ref().expect("it was put there above")
    }

    /// The session of a statement beginning now.
    pub(crate) fn session(
        &self,
        counts: Counts,
        control: &Control,
        store: &Store,
    ) -> StatementSession {
        let running = RunningCounts::default();
        running.set(counts);
        let room = |max| Room {
            budget: Arc::new(Budget::new(max)),
            store: store.clone(),
            watch: Arc::clone(&control.watch),
        };
        StatementSession {
            counts: running,
            now_unix_ms: OnceLock::new(),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            drawn: Mutex::default(),
            watch: Arc::clone(&control.watch),
            room: control.memory_bytes().map(room),
            analysis: None,
            rows: control.rows.any().then(|| control.rows.clone()),
        }
    }
}

impl Counts {
    /// Counts a finished statement's changes of rows.
    pub(crate) fn note(&mut self, changes: u64, last_insert_rowid: Option<i64>) {
        self.changes = i64::try_from(changes).unwrap_or(i64::MAX);
        self.total_changes = self.total_changes.saturating_add(self.changes);
        if let Some(rowid) = last_insert_rowid {
            self.last_insert_rowid = rowid;
        }
    }
}

/// Counts changed by the programs of triggers while their statement runs.
#[derive(Debug, Default)]
struct RunningCounts {
    changes: AtomicI64,
    total_changes: AtomicI64,
    last_insert_rowid: AtomicI64,
}

impl RunningCounts {
    fn set(&self, counts: Counts) {
        self.changes.store(counts.changes, Ordering::Relaxed);
        self.total_changes.store(counts.total_changes, Ordering::Relaxed);
        self.last_insert_rowid.store(counts.last_insert_rowid, Ordering::Relaxed);
    }
}

/// Random bytes drawn from the system together: a call of the system for each `random()` would take
/// longer than reading the row.
const DRAWN: usize = 512;

/// Random bytes, some of them used.
#[derive(Default)]
struct Drawn {
    all: Vec<u8>,
    used: usize,
}

/// The session of one statement: the time stands still while the statement runs.
pub(crate) struct StatementSession {
    counts: RunningCounts,
    /// Read at the first question for the time.
    now_unix_ms: OnceLock<i64>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Random bytes drawn together, for calls of `random()` row by row.
    drawn: Mutex<Drawn>,
    watch: Arc<Watch>,
    /// The limit of memory, where there is one, and the store whose temporary files take spilled
    /// Where the memory is limited.
    room: Option<Room>,
    /// The measures of its plan's nodes.
    pub(crate) analysis: Option<Arc<Analysis>>,
    rows: Option<RowHooks>,
}

impl Session for StatementSession {
    fn check(&self) -> Result<(), Error> {
        Ok(self.watch.check()?)
    }

    fn budget(&self) -> Option<&Arc<Budget>> {
        self.room.as_ref().map(|room| &room.budget)
    }

    fn meter(&self) -> Option<&Arc<Budget>> {
        let analysis = self.analysis.as_deref().map(|analysis| &analysis.meter);
        self.budget().or(analysis)
    }

    fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_deref()
    }

    fn row_hooks(&self) -> Option<&RowHooks> {
        self.rows.as_ref()
    }

    fn room(&self) -> Option<Room> {
        self.room.clone()
    }

    fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        match &self.room {
            Some(room) => room.temporary_file(),
            None => Err(Error::Misuse { what: "a sort without a limit needs no file" }),
        }
    }

    fn changes(&self) -> i64 {
        self.counts.changes.load(Ordering::Relaxed)
    }

    fn total_changes(&self) -> i64 {
        self.counts.total_changes.load(Ordering::Relaxed)
    }

    fn last_insert_rowid(&self) -> i64 {
        self.counts.last_insert_rowid.load(Ordering::Relaxed)
    }

    fn set_counts(&self, counts: Counts) {
        self.counts.set(counts);
    }

    fn random(&self, bytes: &mut [u8]) {
        if bytes.len() > DRAWN / 8 {
            return self.entropy.fill(bytes);
        }
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let Drawn { all, used } = &mut *drawn;
        if all.len() - *used < bytes.len() {
            all.resize(DRAWN, 0);
            self.entropy.fill(all);
            *used = 0;
        }
        let end = *used + bytes.len();
        bytes.copy_from_slice(&all[*used..end]);
        *used = end;
    }

    fn now_unix_ms(&self) -> i64 {
        *self.now_unix_ms.get_or_init(|| self.clock.unix_ms())
    }

    fn clock_unix_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    fn local_offset_s(&self, unix_s: i64) -> Option<i64> {
        self.clock.local_offset_s(unix_s)
    }
}

/// Room for what a statement keeps: the limit, and the store whose files take the rows above it.
#[derive(Clone)]
pub(crate) struct Room {
    budget: Arc<Budget>,
    store: Store,
    watch: Arc<Watch>,
}

/// Structures that keep rows ask for room and files, and for nothing else of a session.
impl Session for Room {
    fn check(&self) -> Result<(), Error> {
        Ok(self.watch.check()?)
    }

    fn budget(&self) -> Option<&Arc<Budget>> {
        Some(&self.budget)
    }

    fn temporary_file(&self) -> Result<Box<dyn File>, Error> {
        Ok(self.store.temporary_file()?)
    }

    fn changes(&self) -> i64 {
        0
    }

    fn total_changes(&self) -> i64 {
        0
    }

    fn last_insert_rowid(&self) -> i64 {
        0
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn now_unix_ms(&self) -> i64 {
        0
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("budget", &self.budget).finish_non_exhaustive()
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
