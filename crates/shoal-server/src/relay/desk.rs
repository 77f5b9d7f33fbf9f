//! The relay's place at the storage: news out, changes in. Runs on the storage's thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shoal::Document;
use shoal_history::{Change, ChangeHash};
use shoal_sync::{DocumentId, Event, Fault, Stored};
use tokio::sync::{Notify, oneshot};

use crate::storage::{Source, Storage, put_away};

/// A document opened for a relay alone stays in memory for this time.
const IDLE: Duration = Duration::from_secs(10);
/// Documents opened for a relay alone; the longest unused are closed.
const OPEN_MAX: usize = 256;
/// The most changes and bytes of one document published change by change; more go as a snapshot.
const ROOM: (usize, usize) = (256, 512 << 10);

/// Documents with newly durable changes, for a relay.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// Nobody takes the news otherwise.
    is_on: AtomicBool,
    documents: Mutex<BTreeSet<DocumentId>>,
    pub(super) news: Notify,
}

impl Feed {
    pub(super) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> BTreeSet<DocumentId> {
        std::mem::take(&mut *self.documents.lock().expect("nobody panics with the news"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.documents.lock().expect("nobody panics with the news").is_empty()
    }

    fn mark(&self, document: &DocumentId) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut documents = self.documents.lock().expect("nobody panics with the news");
            documents.insert(document.clone());
            drop(documents);
            self.news.notify_one();
        }
    }
}

/// Chunks from NATS, of one document.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(super) document: DocumentId,
    pub(super) chunks: Vec<u8>,
    /// The hashes of the document afterwards, unless others are missing before them.
    pub(super) hashes: Vec<ChangeHash>,
}

/// The outcome of an arrival, after the fsync.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Changes taken into the document.
    pub(super) stored: usize,
    /// Hashes of the arrival outside of the document.
    pub(super) missing: BTreeSet<ChangeHash>,
}

/// Arrivals, and the way back.
pub(crate) struct Arrivals {
    pub(super) all: Vec<Arrival>,
    pub(super) reply: oneshot::Sender<Vec<Result<Arrived, Fault>>>,
}

/// Changes of a document behind the heads in NATS.
#[derive(Debug)]
pub(crate) enum Owed {
    /// One by one, dependencies first, and the heads behind them.
    Changes(Vec<ChangeHash>, Vec<Change>),
    /// Too many: a snapshot is better.
    Whole,
}

impl Owed {
    /// Cost: the changes.
    pub(super) fn of(document: &Document, published: &[ChangeHash], message_max: usize) -> Self {
        if published.is_empty() && document.changes().len() > ROOM.0 {
            return Self::Whole;
        }
        let since = document.changes_since(published);
        let bytes: usize = since.iter().map(|change| change.raw_bytes().len()).sum();
        let longest = since.iter().map(|change| change.bytes().len()).max().unwrap_or(0);
        if since.len() > ROOM.0 || bytes > ROOM.1 || longest > message_max {
            return Self::Whole;
        }
        Self::Changes(document.heads(), since.into_iter().cloned().collect())
    }
}

/// The state of the desk.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) feed: Arc<Feed>,
    /// Documents open in the engine.
    engines: BTreeSet<DocumentId>,
    /// Documents open for the relay alone, with the time of their last use.
    own: BTreeMap<DocumentId, Instant>,
    /// Arrivals are being committed. Their documents are no news: NATS has these changes, and the
    /// ledger marks the documents after noting so.
    is_arriving: bool,
    /// Outcomes of the arrivals of this round, by their place.
    outcomes: Vec<(usize, Result<Stored, Fault>)>,
}

impl Desk {
    pub(crate) fn engine_has(&mut self, document: &DocumentId) {
        self.own.remove(document);
        self.engines.insert(document.clone());
    }

    pub(crate) fn engine_released(&mut self, document: &DocumentId) {
        self.engines.remove(document);
        self.own.remove(document);
    }

    pub(crate) fn mark(&self, document: &DocumentId) {
        if !self.is_arriving {
            self.feed.mark(document);
        }
    }

    pub(crate) fn outcome(&mut self, place: usize, outcome: Result<Stored, Fault>) {
        self.outcomes.push((place, outcome));
    }
}

impl Storage {
    /// Stores arrivals by one transaction.
    pub(crate) fn arrive(&mut self, arrivals: Arrivals, tell: &dyn Fn(Event)) {
        let Arrivals { mut all, reply } = arrivals;
        let denied: BTreeSet<String> = match self.database.denied() {
            Ok(denied) => denied.into_iter().collect(),
            Err(_) => return drop(reply.send(all.iter().map(|_| Err(Fault::Storage)).collect())),
        };
        let mut refused = BTreeMap::new();
        let mut taken = Vec::new();
        for (place, arrival) in all.iter_mut().enumerate() {
            let id = &arrival.document;
            if denied.contains(id.as_str()) {
                refused.insert(place, Fault::Denied);
                continue;
            }
            if let Err(fault) = self.open_for_relay(id) {
                refused.insert(place, fault);
                continue;
            }
            let graph = self.open[id].document.graph();
            if arrival.hashes.iter().all(|hash| graph.contains(hash)) {
                continue;
            }
            let chunks = std::mem::take(&mut arrival.chunks);
            self.take(id.clone(), Source::Relay(place), chunks, &mut taken);
        }
        self.desk.outcomes.clear();
        self.desk.is_arriving = true;
        self.commit(&mut taken, tell);
        self.desk.is_arriving = false;
        let outcomes: BTreeMap<usize, Result<Stored, Fault>> =
            std::mem::take(&mut self.desk.outcomes).into_iter().collect();
        let has_failed = self.figures.has_failed.load(Ordering::Relaxed);
        let results = all.iter().enumerate().map(|(place, arrival)| {
            if has_failed {
                return Err(Fault::Storage);
            }
            if let Some(fault) = refused.get(&place) {
                return Err(*fault);
            }
            let stored = match outcomes.get(&place) {
                Some(Ok(stored)) => stored.changes.len(),
                Some(Err(fault)) => return Err(*fault),
                None => 0,
            };
            let open = self.open.get(&arrival.document);
            let has =
                |hash: &&ChangeHash| open.is_some_and(|it| it.document.graph().contains(hash));
            let missing = arrival.hashes.iter().filter(|hash| !has(hash)).copied().collect();
            Ok(Arrived { stored, missing })
        });
        let results = results.collect();
        let _ = reply.send(results);
    }

    /// Opens a document for the relay, unless the document was removed here.
    fn open_for_relay(&mut self, id: &DocumentId) -> Result<(), Fault> {
        if let Some(open) = self.open.get_mut(id)
            && let Err(shoal::Error::NoDocument { .. }) = self.database.refresh(&mut open.document)
        {
            self.open.remove(id);
        }
        if !self.open.contains_key(id) {
            match self.contents(id) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let removed = self.database.removed().map_err(|_| Fault::Storage)?;
                    if removed.iter().any(|removed| removed.name == id.as_str()) {
                        return Err(Fault::Denied);
                    }
                    self.create(id)?;
                }
                Err(fault) => return Err(fault),
            }
        }
        if !self.desk.engines.contains(id) {
            self.desk.own.insert(id.clone(), Instant::now());
        }
        Ok(())
    }

    /// The changes owed of an open document; `None` for a closed one.
    pub(super) fn owed(
        &self,
        id: &DocumentId,
        published: &[ChangeHash],
        message_max: usize,
    ) -> Option<Owed> {
        let open = self.open.get(id)?;
        Some(Owed::of(&open.document, published, message_max))
    }

    /// True when an open document has all of these changes; `None` for a closed one.
    pub(super) fn has_all(&self, id: &DocumentId, hashes: &[ChangeHash]) -> Option<bool> {
        let graph = self.open.get(id)?.document.graph();
        Some(hashes.iter().all(|hash| graph.contains(hash)))
    }

    /// True when changes of an open document wait for others; `None` for a closed one.
    pub(super) fn lacks(&self, id: &DocumentId) -> Option<bool> {
        Some(!self.open.get(id)?.document.queued_changes().is_empty())
    }

    /// Closes documents unused by the relay for a while.
    pub(crate) fn close_idle(&mut self) {
        let mut idle: Vec<(Instant, DocumentId)> =
            self.desk.own.iter().map(|(id, used)| (*used, id.clone())).collect();
        idle.sort();
        let surplus = idle.len().saturating_sub(OPEN_MAX);
        for (place, (used, id)) in idle.into_iter().enumerate() {
            if place < surplus || used.elapsed() >= IDLE {
                self.desk.own.remove(&id);
                if let Some(open) = self.open.remove(&id) {
                    put_away(&mut self.database, open.document);
                }
            }
        }
    }
}
