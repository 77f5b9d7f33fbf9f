//! A driver's storage, in memory: durable only after a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SaveOptions};
use shoal_sync::{Contents, DocumentId, Effect, Event, Fault, JobId, Stored};

/// Documents in memory, and the bytes to outlive a crash.
#[derive(Default)]
pub(crate) struct Disk {
    durable: BTreeMap<DocumentId, Vec<u8>>,
    open: BTreeMap<DocumentId, Document>,
    queue: Vec<Effect>,
}

impl Disk {
    /// Queues an effect for the storage; gives back any other.
    pub(crate) fn take(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Open { .. }
            | Effect::Store { .. }
            | Effect::Save { .. }
            | Effect::Release { .. } => {
                self.queue.push(effect);
                None
            }
            other => Some(other),
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Power fails: uncommitted changes are gone.
    pub(crate) fn crash(&mut self) {
        self.open.clear();
        self.queue.clear();
    }

    fn read(&self, id: &DocumentId) -> Document {
        let mut document = Document::new(ActorId::new(&[0]));
        if let Some(bytes) = self.durable.get(id) {
            document.load_incremental(bytes).expect("what was saved is read");
        }
        document
    }

    fn commit(&mut self, id: &DocumentId) {
        let document = &self.open[id];
        if document.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        for change in document.changes().chain(document.queued_changes()) {
            bytes.extend_from_slice(change.raw_bytes());
        }
        self.durable.insert(id.clone(), bytes);
    }

    /// Does what is queued, and commits all of it at once; the events are true after that.
    pub(crate) fn work(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for effect in std::mem::take(&mut self.queue) {
            match effect {
                Effect::Open { document } => {
                    let read = self.read(&document);
                    let graph = read_graph(&read);
                    let waiting = waiting(&read);
                    let is_stored = !read.is_empty();
                    self.open.insert(document.clone(), read);
                    let contents = Ok(is_stored.then_some(Contents { graph, waiting }));
                    events.push(Event::Opened { document, contents });
                }
                Effect::Store { document, job, chunks } => {
                    events.push(self.store(document, job, &chunks));
                }
                Effect::Save { document } => {
                    let bytes = self
                        .open
                        .get(&document)
                        .map(|document| Arc::new(document.to_bytes(SaveOptions::default())));
                    events.push(Event::Saved { document, snapshot: bytes });
                }
                Effect::Release { document } => {
                    self.open.remove(&document);
                }
                other => panic!("no work for a disk: {other:?}"),
            }
        }
        for id in self.open.keys().cloned().collect::<Vec<_>>() {
            self.commit(&id);
        }
        events
    }

    fn store(&mut self, id: DocumentId, job: JobId, chunks: &[u8]) -> Event {
        let document = self.open.get_mut(&id).expect("a document is open while it is stored");
        let before = document.heads();
        let outcome = match document.load_incremental(chunks) {
            Ok(_) => Ok(Stored {
                changes: document.changes_since(&before).into_iter().cloned().collect(),
                waiting: waiting(document),
            }),
            Err(_) => Err(Fault::Changes),
        };
        Event::Stored { document: id, job, outcome }
    }

    /// Edits an open document, durably.
    pub(crate) fn edit(&mut self, id: &DocumentId, actor: u8, key: &str, value: i64) -> Event {
        let document = self.open.get_mut(id).expect("the document is open");
        document.set_actor(ActorId::new(&[actor, 1]));
        let before = document.heads();
        let mut transaction = document.transaction();
        transaction.put(&ROOT, key, value).expect("a map takes any key");
        transaction.commit(CommitOptions::default());
        let changes = document.changes_since(&before).into_iter().cloned().collect();
        let waiting = waiting(document);
        self.commit(id);
        Event::Changed { document: id.clone(), stored: Stored { changes, waiting } }
    }

    pub(crate) fn is_open(&self, id: &DocumentId) -> bool {
        self.open.contains_key(id)
    }

    /// The document in the durable bytes.
    pub(crate) fn durable(&self, id: &DocumentId) -> Document {
        self.read(id)
    }
}

fn waiting(document: &Document) -> Vec<shoal_history::Change> {
    document.queued_changes().into_iter().cloned().collect()
}

fn read_graph(document: &Document) -> shoal_history::ChangeGraph {
    let mut graph = shoal_history::ChangeGraph::new();
    for change in document.changes() {
        graph.add(change.clone()).expect("dependencies come first");
    }
    graph
}
