//! The storage thread: documents from the file, changes of strangers into it.
//!
//! Jobs queued while the last transaction waited for the disk are taken in together and committed
//! by one transaction; the engine hears of each of them after the fsync.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use shoal::{Access, Database, Document, Environment, OpenDocument};
use shoal_crdt::SaveOptions;
use shoal_history::{Change, ChangeGraph, ChangeHash, Chunk, Verify, chunks};
use shoal_store::Version;
use shoal_sync::{Contents, DocumentId, Effect, Event, Fault, JobId, Limits, Stored};

/// The most jobs of one transaction: the first of them shall not be kept waiting.
const GROUP_MAX: usize = 1024;
/// How often the file is asked for news of others.
const LOOK: Duration = Duration::from_millis(500);
/// How long somebody else may keep the file from being written.
const BUSY: Duration = Duration::from_secs(60);
/// How often a failed file is opened again.
const RETRY: Duration = Duration::from_secs(2);
/// KiB of the file's pages in memory from one transaction to the next.
const CACHE_KIB: i64 = 8 << 10;

/// A task on the database.
pub(crate) type Task = Box<dyn FnOnce(&mut Database) + Send>;

/// Work for the storage.
pub(crate) enum Work {
    /// An effect of the hub: open, store, save, release.
    Effect(Effect),
    /// A task of the API, on the database.
    Task(Task),
    /// Changes that a relay brings.
    #[cfg(feature = "nats")]
    Arrivals(crate::relay::desk::Arrivals),
    /// A question of a relay, about what is durable.
    #[cfg(feature = "nats")]
    Question(Box<dyn FnOnce(&Storage) + Send>),
    /// The last work: documents are closed.
    Stop,
}

/// Figures of the storage, read by other threads.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Transactions with changes.
    pub(crate) commits: AtomicU64,
    /// Microseconds in these transactions, the fsync included.
    pub(crate) commit_us: AtomicU64,
    /// Jobs stored by them.
    pub(crate) jobs: AtomicU64,
    /// The file refuses to be written.
    pub(crate) has_failed: AtomicBool,
    /// WebSockets closed at once, for want of a place.
    pub(crate) turned_away: AtomicU64,
    /// Connections that ended within a request: late, too long, no HTTP, no TLS.
    pub(crate) broken: AtomicU64,
    /// Looks at the file for news of others.
    pub(crate) looks: AtomicU64,
    /// Failures of the share policy's file or server.
    pub(crate) policy_failures: AtomicU64,
    /// The process is to end: a file that cannot be opened is not waited for.
    pub(crate) is_stopping: AtomicBool,
}

/// A document in memory.
pub(crate) struct Open {
    pub(crate) document: OpenDocument,
    /// The heads known to the engine.
    told: Vec<ChangeHash>,
}

pub(crate) struct Storage {
    environment: Environment,
    path: PathBuf,
    pub(crate) database: Database,
    pub(crate) open: BTreeMap<DocumentId, Open>,
    limits: Limits,
    pub(crate) figures: Arc<Figures>,
    looked: Instant,
    /// The state of the file at the last look.
    seen: Option<Version>,
    /// The last attempt to write to a file that had refused.
    tried: Option<Instant>,
    naming: Naming,
    /// The place of a relay.
    #[cfg(feature = "nats")]
    pub(crate) desk: crate::relay::desk::Desk,
}

/// How documents of the protocol are those of the file.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// The names of documents other than their ids.
    pub(crate) names: BTreeMap<DocumentId, String>,
    /// Changes of a history begun apart from the document's are refused.
    pub(crate) needs_kin: bool,
}

impl Naming {
    fn name<'a>(&'a self, id: &'a DocumentId) -> &'a str {
        self.names.get(id).map_or(id.as_str(), String::as_str)
    }
}

/// Who brought changes.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A peer, by a job of the engine.
    Peer(JobId),
    /// A relay; the place among its arrivals.
    #[cfg(feature = "nats")]
    Relay(usize),
}

/// The outcome of a job before its commit.
pub(crate) struct Taken {
    document: DocumentId,
    source: Source,
    /// What was stored, for the case that the document in memory is lost.
    chunks: Vec<u8>,
    outcome: Result<Stored, Fault>,
}

impl Storage {
    pub(crate) fn new(
        (environment, path): (Environment, PathBuf),
        database: Database,
        limits: Limits,
        figures: Arc<Figures>,
    ) -> Self {
        Self {
            environment,
            path,
            database: with_small_cache(database),
            open: BTreeMap::new(),
            limits,
            figures,
            looked: Instant::now(),
            seen: None,
            tried: None,
            naming: Naming::default(),
            #[cfg(feature = "nats")]
            desk: crate::relay::desk::Desk::default(),
        }
    }

    /// The storage with names of its own for documents.
    pub(crate) fn with_naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// Works until told to stop, or until nobody is left to tell.
    pub(crate) fn run(mut self, work: &Receiver<Work>, tell: &dyn Fn(Event)) {
        loop {
            let first = match work.recv_timeout(LOOK) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut group = Vec::new();
            let mut is_last = false;
            for work in first.into_iter().chain(work.try_iter().take(GROUP_MAX)) {
                match work {
                    Work::Stop => is_last = true,
                    work => group.push(work),
                }
            }
            self.group(group, tell);
            if is_last {
                for (_, open) in std::mem::take(&mut self.open) {
                    put_away(&mut self.database, open.document);
                }
                return;
            }
            if self.looked.elapsed() >= LOOK {
                self.look(tell);
                self.looked = Instant::now();
                #[cfg(feature = "nats")]
                self.close_idle();
            }
        }
    }

    fn group(&mut self, group: Vec<Work>, tell: &dyn Fn(Event)) {
        let mut taken: Vec<Taken> = Vec::new();
        let mut later = Vec::new();
        for work in group {
            let effect = match work {
                Work::Effect(effect) => effect,
                Work::Task(task) => {
                    self.commit(&mut taken, tell);
                    task(&mut self.database);
                    continue;
                }
                #[cfg(feature = "nats")]
                Work::Arrivals(arrivals) => {
                    self.commit(&mut taken, tell);
                    self.arrive(arrivals, tell);
                    continue;
                }
                #[cfg(feature = "nats")]
                Work::Question(question) => {
                    self.commit(&mut taken, tell);
                    question(self);
                    continue;
                }
                Work::Stop => continue,
            };
            match effect {
                Effect::Open { document } => {
                    // Changes before it may be of the same document, closed and opened again.
                    self.commit(&mut taken, tell);
                    #[cfg(feature = "nats")]
                    self.desk.engine_has(&document);
                    let contents = self.contents(&document);
                    tell(Event::Opened { document, contents });
                }
                Effect::Store { document, job, chunks } => {
                    #[cfg(feature = "nats")]
                    self.desk.engine_has(&document);
                    self.take(document, Source::Peer(job), chunks, &mut taken);
                }
                Effect::Release { document } => {
                    self.commit(&mut taken, tell);
                    #[cfg(feature = "nats")]
                    self.desk.engine_released(&document);
                    if let Some(open) = self.open.remove(&document) {
                        put_away(&mut self.database, open.document);
                    }
                }
                Effect::Save { document } => later.push(document),
                _ => {}
            }
        }
        self.commit(&mut taken, tell);
        for document in later {
            let open = self.open.get(&document);
            let snapshot =
                open.map(|open| Arc::new(open.document.to_bytes(SaveOptions::default())));
            tell(Event::Saved { document, snapshot });
        }
    }

    /// Takes the changes of a job in, in memory.
    pub(crate) fn take(
        &mut self,
        document: DocumentId,
        source: Source,
        chunks: Vec<u8>,
        taken: &mut Vec<Taken>,
    ) {
        let outcome = self.take_in(&document, &chunks);
        if !self.open.contains_key(&document) {
            self.retake(&document, taken);
        }
        taken.push(Taken { document, source, chunks, outcome });
    }

    /// Reads a document for the engine.
    pub(crate) fn contents(&mut self, id: &DocumentId) -> Result<Option<Contents>, Fault> {
        if !self.open.contains_key(id) {
            match self.database.open_document(self.naming.name(id)) {
                Ok(document) => {
                    let told = document.heads();
                    self.open.insert(id.clone(), Open { document, told });
                }
                Err(shoal::Error::NoDocument { .. }) => return Ok(None),
                Err(_) => return Err(Fault::Unreadable),
            }
        }
        let open = &self.open[id];
        let graph = open.document.graph().clone();
        Ok(Some(Contents { graph, waiting: waiting(&open.document) }))
    }

    /// Opens a document that need not be stored yet.
    pub(crate) fn create(&mut self, id: &DocumentId) -> Result<(), Fault> {
        let opened = self.database.open_or_create(self.naming.name(id));
        let document = opened.map_err(|_| Fault::Unreadable)?;
        let told = document.heads();
        self.open.insert(id.clone(), Open { document, told });
        Ok(())
    }

    /// Takes the changes of a stranger into a document, in memory.
    fn take_in(&mut self, id: &DocumentId, chunks: &[u8]) -> Result<Stored, Fault> {
        if !self.open.contains_key(id) {
            self.create(id)?;
        }
        let open = self.open.get_mut(id).ok_or(Fault::Unreadable)?;
        let before = open.document.heads();
        let (limits, needs_kin) = (self.limits, self.naming.needs_kin);
        // A change that finds a fault of this program costs the document its place in memory: the
        // stored state is read anew.
        let applied = panic::catch_unwind(AssertUnwindSafe(|| {
            apply(&mut open.document, chunks, &limits, needs_kin)
        }));
        match applied {
            Ok(Ok(())) => {}
            Ok(Err(Refusal::Whole)) => return Err(Fault::Changes),
            Ok(Err(Refusal::Unrelated)) => return Err(Fault::Unrelated),
            Ok(Err(Refusal::Drop)) | Err(_) => {
                self.open.remove(id);
                return Err(Fault::Changes);
            }
        }
        let changes = open.document.changes_since(&before).into_iter().cloned().collect();
        Ok(Stored { changes, waiting: waiting(&open.document) })
    }

    /// Takes changes in again that were lost with their document: the fault of one job is no other
    /// one's.
    fn retake(&mut self, document: &DocumentId, taken: &mut [Taken]) {
        let earlier = taken.iter_mut().filter(|job| job.document == *document);
        for job in earlier.filter(|job| job.outcome.is_ok()) {
            job.outcome = self.take_in(document, &job.chunks);
        }
    }

    /// Makes the taken jobs durable, and tells the engine.
    pub(crate) fn commit(&mut self, taken: &mut Vec<Taken>, tell: &dyn Fn(Event)) {
        if taken.is_empty() {
            return;
        }
        let start = Instant::now();
        let dirty: BTreeSet<DocumentId> = taken
            .iter()
            .filter(|taken| taken.outcome.is_ok())
            .map(|taken| taken.document.clone())
            .collect();
        let mut refused = BTreeSet::new();
        let mut has_failed = false;
        let committed = self.patiently(|database, open| {
            let documents = open.iter_mut().filter(|(id, _)| dirty.contains(*id));
            database.commit_all(documents.map(|(_, open)| &mut open.document))
        });
        match committed {
            Ok(()) => {}
            Err(error) if is_of_the_file(&error) => has_failed = true,
            // One of them is at fault, and the others are not.
            Err(_) => {
                for id in &dirty {
                    let committed = self.patiently(|database, open| match open.get_mut(id) {
                        Some(open) => database.commit(&mut open.document).map(drop),
                        None => Ok(()),
                    });
                    match committed {
                        Ok(()) => {}
                        Err(error) if is_of_the_file(&error) => has_failed = true,
                        Err(_) => {
                            self.open.remove(id);
                            refused.insert(id.clone());
                        }
                    }
                }
            }
        }
        let elapsed = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.figures.commits.fetch_add(1, Ordering::Relaxed);
        self.figures.commit_us.fetch_add(elapsed, Ordering::Relaxed);
        self.figures.jobs.fetch_add(taken.len() as u64, Ordering::Relaxed);
        self.figures.has_failed.store(has_failed, Ordering::Relaxed);
        for Taken { document, source, outcome, .. } in taken.drain(..) {
            let outcome = match outcome {
                _ if has_failed => Err(Fault::Storage),
                Ok(_) if refused.contains(&document) => Err(Fault::Changes),
                outcome => outcome,
            };
            match source {
                Source::Peer(job) => {
                    if let (Ok(stored), Some(open)) = (&outcome, self.open.get_mut(&document)) {
                        open.told = advanced(&open.told, &stored.changes);
                        #[cfg(feature = "nats")]
                        self.desk.mark(&document);
                    }
                    tell(Event::Stored { document, job, outcome });
                }
                // The engine hears of the rest below.
                #[cfg(feature = "nats")]
                Source::Relay(place) => self.desk.outcome(place, outcome),
            }
        }
        // Behind the telling: a file that cannot be opened keeps this thread here.
        if has_failed {
            self.reopen();
        }
        // A commit takes in changes of others, too.
        for id in dirty {
            self.tell_rest(&id, tell);
        }
    }

    /// Commits, again and again while somebody else is writing.
    fn patiently(
        &mut self,
        commit: impl Fn(&mut Database, &mut BTreeMap<DocumentId, Open>) -> Result<(), shoal::Error>,
    ) -> Result<(), shoal::Error> {
        let start = Instant::now();
        loop {
            match commit(&mut self.database, &mut self.open) {
                Err(error) if is_busy(&error) && start.elapsed() < BUSY => {}
                done => return done,
            }
        }
    }

    /// Tells of changes from elsewhere.
    fn tell_rest(&mut self, id: &DocumentId, tell: &dyn Fn(Event)) {
        let Some(open) = self.open.get_mut(id) else { return };
        let heads = open.document.heads();
        if open.told == heads {
            return;
        }
        let changes = open.document.changes_since(&open.told).into_iter().cloned().collect();
        open.told = heads;
        #[cfg(feature = "nats")]
        self.desk.mark(id);
        let stored = Stored { changes, waiting: waiting(&open.document) };
        tell(Event::Changed { document: id.clone(), stored });
    }

    /// Takes in changes of other connections and processes.
    fn look(&mut self, tell: &dyn Fn(Event)) {
        if self.figures.has_failed.load(Ordering::Relaxed) && self.can_write() {
            self.figures.has_failed.store(false, Ordering::Relaxed);
        }
        // Own commits are told by themselves.
        if !self.database.has_news(&mut self.seen).unwrap_or(false) {
            return;
        }
        self.figures.looks.fetch_add(1, Ordering::Relaxed);
        for id in self.open.keys().cloned().collect::<Vec<_>>() {
            let Some(open) = self.open.get_mut(&id) else { continue };
            if self.database.refresh(&mut open.document).is_ok() {
                self.tell_rest(&id, tell);
            }
        }
    }

    /// True when the file takes a row: after a failure, to know when it is over.
    fn can_write(&mut self) -> bool {
        let now = Instant::now();
        if self.tried.is_some_and(|tried| now.duration_since(tried) < RETRY) {
            return false;
        }
        self.tried = Some(now);
        match self.database.try_writing() {
            Ok(()) => true,
            Err(error) if is_busy(&error) => false,
            Err(_) => {
                self.reopen();
                false
            }
        }
    }

    /// Opens the file again after a failure: its contents count.
    fn reopen(&mut self) {
        self.open.clear();
        self.seen = None;
        loop {
            match Database::open(self.environment.clone(), &self.path, Access::ReadWrite) {
                Ok(database) => {
                    self.database = with_small_cache(database);
                    return;
                }
                // The failed handle refuses commits, and nobody is told of heads any more.
                Err(_) if self.figures.is_stopping.load(Ordering::Relaxed) => return,
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }
}

/// Closes a document. The changes are durable; the JSON is made by the next reader otherwise. A
/// document without changes was refused all of them, and leaves no name in the file.
pub(crate) fn put_away(database: &mut Database, document: OpenDocument) {
    if !document.is_empty() {
        let _ = database.close(document);
    }
}

/// A server holds documents in memory, and reads a page of the file rarely twice: the system's own
/// cache is near enough.
fn with_small_cache(mut database: Database) -> Database {
    database.sql().store().set_cache_size(-CACHE_KIB);
    database
}

/// True for a fault of the file or the disk, and of no document.
const fn is_of_the_file(error: &shoal::Error) -> bool {
    matches!(error, shoal::Error::Store(_) | shoal::Error::Sql(shoal_sql::Error::Store(_)))
}

fn is_busy(error: &shoal::Error) -> bool {
    match error {
        shoal::Error::Store(error) | shoal::Error::Sql(shoal_sql::Error::Store(error)) => {
            error.is_busy()
        }
        _ => false,
    }
}

/// Why changes were not taken in.
enum Refusal {
    /// The document is as before.
    Whole,
    /// The document is as before; the changes are of a history begun apart.
    Unrelated,
    /// The document in memory has them, and must go.
    Drop,
}

/// Applies the chunks of a stranger to a document: all of them, or none.
fn apply(
    document: &mut Document,
    bytes: &[u8],
    limits: &Limits,
    needs_kin: bool,
) -> Result<(), Refusal> {
    if document.is_empty() {
        // A whole document is loaded without making its changes one by one.
        document.load_incremental(bytes).map_err(|_| Refusal::Whole)?;
        // Waiting changes too: they join the document later without being looked at again.
        let all = document.changes().chain(document.queued_changes());
        let highest = all.map(Change::max_op).max().unwrap_or(0);
        let waiting = document.queued_changes().len();
        let is_too_much = highest > limits.op_counter || waiting > limits.waiting_changes;
        return if is_too_much { Err(Refusal::Drop) } else { Ok(()) };
    }
    let mut changes = Vec::new();
    for chunk in chunks(bytes, document.limits()) {
        match chunk.map_err(|_| Refusal::Whole)? {
            Chunk::Change(change) => changes.push(change),
            Chunk::Document(chunk) => {
                changes.extend(chunk.changes(Verify::Heads).map_err(|_| Refusal::Whole)?);
            }
            Chunk::Bundle(bundle) => changes.extend(bundle.into_changes()),
            _ => return Err(Refusal::Whole),
        }
    }
    if changes.iter().any(|change| change.max_op() > limits.op_counter) {
        return Err(Refusal::Whole);
    }
    if needs_kin && is_begun_apart(document.graph(), &changes) {
        return Err(Refusal::Unrelated);
    }
    let waiting = document.queued_changes().len();
    if waiting + left_waiting(document, &changes) > limits.waiting_changes.max(waiting) {
        return Err(Refusal::Whole);
    }
    document.apply_changes(changes).map_err(|_| Refusal::Whole)
}

/// True for changes with a beginning of their own, none of which is known or follows a known one.
/// Changes without a beginning may follow one still to come. Cost: the changes.
pub(crate) fn is_begun_apart(graph: &ChangeGraph, changes: &[Change]) -> bool {
    let is_kin = |change: &Change| {
        graph.contains(&change.hash()) || change.deps().iter().any(|dep| graph.contains(dep))
    };
    !graph.is_empty()
        && changes.iter().any(|change| change.deps().is_empty())
        && !changes.iter().any(is_kin)
}

/// How many of the changes would wait for others, at the most. Cost: the changes.
fn left_waiting(document: &Document, changes: &[Change]) -> usize {
    let brought: BTreeSet<ChangeHash> = changes.iter().map(Change::hash).collect();
    let mut dependents: BTreeMap<ChangeHash, Vec<ChangeHash>> = BTreeMap::new();
    let mut stuck = Vec::new();
    for change in changes {
        let mut is_stuck = false;
        for dep in change.deps() {
            if brought.contains(dep) {
                dependents.entry(*dep).or_default().push(change.hash());
            } else if !document.graph().contains(dep) {
                is_stuck = true;
            }
        }
        if is_stuck {
            stuck.push(change.hash());
        }
    }
    let mut waiting: BTreeSet<ChangeHash> = BTreeSet::new();
    while let Some(hash) = stuck.pop() {
        if waiting.insert(hash) {
            stuck.extend(dependents.get(&hash).into_iter().flatten());
        }
    }
    waiting.len()
}

fn waiting(document: &Document) -> Vec<Change> {
    document.queued_changes().into_iter().cloned().collect()
}

/// Heads after changes whose dependencies come first.
fn advanced(heads: &[ChangeHash], changes: &[Change]) -> Vec<ChangeHash> {
    let mut heads: BTreeSet<ChangeHash> = heads.iter().copied().collect();
    for change in changes {
        for dep in change.deps() {
            heads.remove(dep);
        }
        heads.insert(change.hash());
    }
    // Dependents never come first: they wait for their dependencies.
    heads.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use shoal_crdt::{ActorId, CommitOptions, ROOT};

    use super::*;

    fn note(actor: u8, edits: i64) -> Document {
        let mut document = Document::new(ActorId::new(&[actor]));
        for value in 0..edits {
            let mut transaction = document.transaction();
            transaction.put(&ROOT, "n", value).expect("a put at the root");
            transaction.commit(CommitOptions::default());
        }
        document
    }

    fn chunks_of(document: &Document, skipped: usize) -> Vec<u8> {
        document.changes().skip(skipped).flat_map(|change| change.raw_bytes().to_vec()).collect()
    }

    fn storage_in(folder: &std::path::Path, limits: Limits) -> Storage {
        let (environment, path) = (Environment::os(), folder.join("a.db"));
        let database = Database::open(environment.clone(), &path, Access::Create);
        Storage::new((environment, path), database.expect("a database"), limits, Arc::default())
    }

    /// The outcomes of jobs about one document that came together.
    fn outcomes(limits: Limits, jobs: &[Vec<u8>]) -> Vec<Result<usize, Fault>> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut storage = storage_in(folder.path(), limits);
        let told = Mutex::new(Vec::new());
        let document = DocumentId::from_bytes([1; 16]);
        let group = jobs.iter().zip(0..).map(|(chunks, job)| {
            let (document, chunks) = (document.clone(), chunks.clone());
            Work::Effect(Effect::Store { document, job: JobId(job), chunks })
        });
        storage.group(group.collect(), &|event| {
            if let Event::Stored { outcome, .. } = event {
                let count = outcome.map(|stored| stored.changes.len());
                told.lock().expect("nobody panics").push(count);
            }
        });
        told.into_inner().expect("nobody panics")
    }

    /// The fault of one message costs no other peer its changes, also where the document in memory
    /// is given up.
    #[test]
    fn jobs_before_a_refused_one_are_taken_in_again() {
        let honest = note(1, 3);
        // The first job waits for a change that the last one brings; the second is beyond the
        // bound of counters, in a document without changes so far.
        let limits = Limits { op_counter: 5, ..Limits::default() };
        let jobs = [chunks_of(&honest, 1), chunks_of(&note(2, 9), 0), chunks_of(&honest, 0)];
        let outcomes = outcomes(limits, &jobs);
        assert_eq!(outcomes, [Ok(0), Err(Fault::Changes), Ok(3)]);
    }

    #[test]
    fn nothing_is_kept_of_a_document_without_an_accepted_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut storage = storage_in(folder.path(), Limits::default());
        let (refused, taken) = (DocumentId::from_bytes([1; 16]), DocumentId::from_bytes([2; 16]));
        let good = chunks_of(&note(1, 1), 0);
        let mut damaged = good.clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        let work = [(&refused, damaged), (&taken, good)].map(|(document, chunks)| {
            let store = Effect::Store { document: document.clone(), job: JobId(0), chunks };
            [store, Effect::Release { document: document.clone() }].map(Work::Effect)
        });
        storage.group(work.into_iter().flatten().collect(), &|_| {});
        let names: Vec<String> =
            storage.database.documents().expect("a list").into_iter().map(|it| it.name).collect();
        assert_eq!(names, [taken.to_string()]);
    }

    #[test]
    fn waiting_changes_are_bounded_within_one_message() {
        let limits = Limits { waiting_changes: 10, ..Limits::default() };
        let base = chunks_of(&note(1, 1), 0);
        let orphans = chunks_of(&note(2, 40), 1);
        let few = chunks_of(&note(3, 9), 1);
        let whole = chunks_of(&note(2, 40), 0);
        let outcomes = outcomes(limits, &[base, orphans.clone(), few, orphans, whole]);
        let refused = Err(Fault::Changes);
        assert_eq!(outcomes, [Ok(1), refused, Ok(0), refused, Ok(40)]);
        // The same where the document has nothing yet.
        let orphans = chunks_of(&note(2, 40), 1);
        assert_eq!(self::outcomes(limits, &[orphans]), [refused]);
    }
}
