//! The decisions of a relay: changes to publish, changes known to be in NATS, documents waiting.
//!
//! Knows no sockets, files or clock. The changes to publish follow from the database: the changes
//! of a document behind its published heads. A lost mark therefore costs a second publication,
//! never a change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shoal_history::ChangeHash;
use shoal_sync::DocumentId;

use super::message::Pointer;

/// Documents known by a pointer alone; a pointer to one more is skipped.
const POINTERS_MAX: usize = 1_000_000;
/// Own changes expected back from the stream.
const ECHOES_MAX: usize = 16_384;
/// Documents waiting for changes; beyond, the next message about a document counts.
const WAITING_MAX: usize = 10_000;
/// A snapshot is due behind so much, published by this relay since the last one.
const SNAPSHOT_CHANGES: usize = 256;
const SNAPSHOT_BYTES: usize = 512 << 10;
/// The pauses of a waiting document double between these.
const FIRST_WAIT_MS: u64 = 1_000;
const LONGEST_WAIT_MS: u64 = 60_000;
/// Marks of one transaction.
const MARKS_MAX: usize = 1_000;

/// A stream of changes, in the words of NATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamState {
    /// The time of its making, different for streams of one name.
    pub(super) made: String,
    /// The sequence of its last message.
    pub(super) last: u64,
}

/// A document in NATS.
#[derive(Debug, Default)]
struct Entry {
    published: Vec<ChangeHash>,
    pointer: Option<Pointer>,
    /// The snapshot of the pointer is not known to be part of the document.
    is_uncovered: bool,
    /// Changes and bytes published since the pointer.
    since: (usize, usize),
}

/// A document whose pointer or changes cannot be taken in yet.
#[derive(Debug)]
struct Wait {
    due_ms: u64,
    pause_ms: u64,
}

/// The ledger of a relay.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The stream, and the sequence of the last stored message.
    place: Option<(String, u64)>,
    documents: BTreeMap<DocumentId, Entry>,
    dirty: BTreeSet<DocumentId>,
    snapshots: BTreeSet<DocumentId>,
    waiting: BTreeMap<DocumentId, Wait>,
    echoes: BTreeSet<ChangeHash>,
    echo_order: VecDeque<ChangeHash>,
    unsaved: BTreeSet<DocumentId>,
    is_place_unsaved: bool,
}

impl Ledger {
    /// The ledger of an earlier run, from its marks. Unreadable marks are none.
    pub(super) fn load(marks: &BTreeMap<String, Vec<u8>>, beginning: &str) -> Self {
        let mut ledger = Self::default();
        for (key, value) in marks {
            let Some(key) = key.strip_prefix(beginning) else { continue };
            if key == "place" {
                let text = String::from_utf8_lossy(value);
                let place = text.split_once(' ');
                ledger.place =
                    place.and_then(|(at, made)| Some((made.to_owned(), at.parse().ok()?)));
            } else if let (Ok(id), (heads, [])) = (DocumentId::parse(key), value.as_chunks::<32>())
            {
                let published = heads.iter().map(|head| ChangeHash(*head)).collect();
                ledger.documents.insert(id, Entry { published, ..Entry::default() });
            }
        }
        ledger
    }

    /// Begins with a stream; gives the sequence to read from. With another stream than before, or a
    /// stream without its former end, everything counts as unpublished.
    pub(super) fn begin(&mut self, stream: &StreamState) -> u64 {
        let is_same = |(made, at): &(String, u64)| *made == stream.made && *at <= stream.last;
        let at = match &self.place {
            Some(place) if is_same(place) => place.1,
            _ => {
                for (id, entry) in &mut self.documents {
                    entry.published.clear();
                    self.unsaved.insert(id.clone());
                }
                self.place = Some((stream.made.clone(), 0));
                self.is_place_unsaved = true;
                0
            }
        };
        for entry in self.documents.values_mut() {
            (entry.pointer, entry.is_uncovered) = (None, false);
        }
        at + 1
    }

    /// Notes that everything up to a sequence is stored.
    pub(super) fn moved(&mut self, sequence: u64) {
        if let Some((_, at)) = &mut self.place
            && sequence > *at
        {
            *at = sequence;
            self.is_place_unsaved = true;
        }
    }

    /// Notes the present heads of stored documents: others than the published ones are news.
    pub(super) fn sweep(&mut self, documents: &[(DocumentId, Vec<ChangeHash>)]) {
        for (id, heads) in documents {
            let published = self.documents.get(id).map(|entry| &entry.published[..]);
            if !heads.is_empty() && !same(published.unwrap_or_default(), heads) {
                self.dirty.insert(id.clone());
            }
        }
    }

    /// Makes snapshots due of documents with other heads than their last snapshot.
    pub(super) fn age(&mut self, documents: &[(DocumentId, Vec<ChangeHash>)]) {
        for (id, heads) in documents {
            let pointer = self.documents.get(id).and_then(|entry| entry.pointer.as_ref());
            if !heads.is_empty() && pointer.is_none_or(|pointer| !same(&pointer.heads, heads)) {
                self.snapshots.insert(id.clone());
            }
        }
    }

    /// Notes documents with news.
    pub(super) fn mark(&mut self, documents: impl IntoIterator<Item = DocumentId>) {
        self.dirty.extend(documents);
    }

    /// Takes documents with news, each with its published heads.
    pub(super) fn take_dirty(&mut self, most: usize) -> Vec<(DocumentId, Vec<ChangeHash>)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(id) = self.dirty.pop_first()
        {
            let published = self.documents.get(&id).map(|entry| entry.published.clone());
            taken.push((id, published.unwrap_or_default()));
        }
        taken
    }

    /// Documents with news.
    pub(super) fn unpublished(&self) -> usize {
        self.dirty.len()
    }

    /// Waiting documents.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Notes the publication up to `heads`, by so many changes of so many bytes.
    pub(super) fn published(
        &mut self,
        id: &DocumentId,
        heads: &[ChangeHash],
        sent: (usize, usize),
    ) {
        let entry = self.documents.entry(id.clone()).or_default();
        entry.since = (entry.since.0 + sent.0, entry.since.1 + sent.1);
        if entry.since.0 >= SNAPSHOT_CHANGES || entry.since.1 >= SNAPSHOT_BYTES {
            self.snapshots.insert(id.clone());
        }
        if !same(&entry.published, heads) {
            entry.published = heads.to_vec();
            self.unsaved.insert(id.clone());
        }
    }

    /// Notes an own change on its way; the stream brings it back.
    pub(super) fn sent(&mut self, hash: ChangeHash) {
        if self.echoes.insert(hash) {
            self.echo_order.push_back(hash);
        }
        while self.echo_order.len() > ECHOES_MAX {
            let oldest = self.echo_order.pop_front();
            oldest.map(|oldest| self.echoes.remove(&oldest));
        }
    }

    /// True for a change published by this relay a while ago.
    pub(super) fn is_echo(&self, hash: &ChangeHash) -> bool {
        self.echoes.contains(hash)
    }

    /// Notes a change of the stream as part of the document: NATS has it, and all before it.
    pub(super) fn received(&mut self, id: &DocumentId, hash: ChangeHash, deps: &[ChangeHash]) {
        let entry = self.documents.entry(id.clone()).or_default();
        entry.published.retain(|head| !deps.contains(head));
        if !entry.published.contains(&hash) {
            entry.published.push(hash);
        }
        self.unsaved.insert(id.clone());
        self.dirty.insert(id.clone());
    }

    /// Notes a pointer. False when there are too many.
    pub(super) fn points(&mut self, id: &DocumentId, pointer: Pointer) -> bool {
        if self.documents.len() >= POINTERS_MAX && !self.documents.contains_key(id) {
            return false;
        }
        let entry = self.documents.entry(id.clone()).or_default();
        entry.pointer = Some(pointer);
        entry.is_uncovered = true;
        entry.since = (0, 0);
        true
    }

    /// The last pointer of a document.
    pub(super) fn pointer(&self, id: &DocumentId) -> Option<Pointer> {
        self.documents.get(id)?.pointer.clone()
    }

    /// True for the heads shared by NATS and this database.
    pub(super) fn shares(&self, id: &DocumentId, heads: &[ChangeHash]) -> bool {
        self.documents.get(id).is_some_and(|entry| same(&entry.published, heads))
    }

    /// Notes a snapshot as part of the database.
    pub(super) fn covered(&mut self, id: &DocumentId, heads: &[ChangeHash]) {
        let entry = self.documents.entry(id.clone()).or_default();
        entry.is_uncovered &=
            entry.pointer.as_ref().is_some_and(|pointer| !same(&pointer.heads, heads));
        for head in heads {
            if !entry.published.contains(head) {
                entry.published.push(*head);
                self.unsaved.insert(id.clone());
            }
        }
        self.dirty.insert(id.clone());
    }

    /// True while a document may lack changes of its last snapshot.
    pub(super) fn is_uncovered(&self, id: &DocumentId) -> bool {
        self.documents.get(id).is_some_and(|entry| entry.is_uncovered)
    }

    /// True for a document known to be in NATS.
    pub(super) fn knows(&self, id: &DocumentId) -> bool {
        self.documents.contains_key(id)
    }

    /// Makes a snapshot due.
    pub(super) fn want_snapshot(&mut self, id: DocumentId) {
        self.snapshots.insert(id);
    }

    /// Takes a document whose snapshot is due.
    pub(super) fn take_snapshot(&mut self) -> Option<DocumentId> {
        self.snapshots.pop_first()
    }

    /// Notes a document without some of its changes, to be tried again after a pause.
    pub(super) fn wait(&mut self, id: &DocumentId, now_ms: u64) {
        if self.waiting.len() < WAITING_MAX && !self.waiting.contains_key(id) {
            let wait = Wait { due_ms: now_ms + FIRST_WAIT_MS, pause_ms: FIRST_WAIT_MS };
            self.waiting.insert(id.clone(), wait);
        }
    }

    /// Notes a document as complete.
    pub(super) fn whole(&mut self, id: &DocumentId) {
        self.waiting.remove(id);
    }

    /// The documents to be tried now; each is due again after twice the pause.
    pub(super) fn due(&mut self, now_ms: u64, most: usize) -> Vec<DocumentId> {
        let due = self.waiting.iter_mut().filter(|(_, wait)| wait.due_ms <= now_ms).take(most);
        due.map(|(id, wait)| {
            wait.pause_ms = (wait.pause_ms * 2).min(LONGEST_WAIT_MS);
            wait.due_ms = now_ms + wait.pause_ms;
            id.clone()
        })
        .collect()
    }

    /// The changed marks, for the file.
    pub(super) fn take_marks(&mut self, beginning: &str) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut marks = BTreeMap::new();
        if std::mem::take(&mut self.is_place_unsaved)
            && let Some((made, at)) = &self.place
        {
            marks.insert(format!("{beginning}place"), Some(format!("{at} {made}").into_bytes()));
        }
        while marks.len() < MARKS_MAX
            && let Some(id) = self.unsaved.pop_first()
        {
            let published = self.documents.get(&id).map(|entry| &entry.published);
            let heads = published.map(|heads| heads.iter().flat_map(|head| head.0).collect());
            marks.insert(format!("{beginning}{id}"), heads);
        }
        marks
    }
}

/// True for the same heads in any order.
pub(super) fn same(one: &[ChangeHash], other: &[ChangeHash]) -> bool {
    one.len() == other.len() && one.iter().all(|head| other.contains(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ChangeHash = ChangeHash([1; 32]);
    const B: ChangeHash = ChangeHash([2; 32]);
    const C: ChangeHash = ChangeHash([3; 32]);

    fn id(byte: u8) -> DocumentId {
        DocumentId::from_bytes([byte; 16])
    }

    fn stream(made: &str, last: u64) -> StreamState {
        StreamState { made: made.to_owned(), last }
    }

    fn reloaded(ledger: &mut Ledger) -> Ledger {
        let marks = ledger.take_marks("r:").into_iter();
        let marks = marks.filter_map(|(key, value)| Some((key, value?))).collect();
        Ledger::load(&marks, "r:")
    }

    #[test]
    fn what_is_owed_follows_from_the_marks() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.begin(&stream("t", 0)), 1);
        ledger.sweep(&[(id(1), vec![A]), (id(2), vec![])]);
        assert_eq!(ledger.take_dirty(9), [(id(1), vec![])]);
        ledger.published(&id(1), &[A], (1, 10));
        ledger.moved(7);
        let mut ledger = reloaded(&mut ledger);
        assert_eq!(ledger.begin(&stream("t", 9)), 8);
        ledger.sweep(&[(id(1), vec![A])]);
        assert_eq!(ledger.unpublished(), 0);
        ledger.sweep(&[(id(1), vec![B])]);
        assert_eq!(ledger.take_dirty(9), [(id(1), vec![A])]);
    }

    #[test]
    fn another_stream_and_one_that_lost_its_end_are_given_everything() {
        for after in [stream("other", 9), stream("t", 3)] {
            let mut ledger = Ledger::default();
            ledger.begin(&stream("t", 5));
            ledger.published(&id(1), &[A], (1, 10));
            ledger.moved(5);
            let mut ledger = reloaded(&mut ledger);
            assert_eq!(ledger.begin(&after), 1);
            ledger.sweep(&[(id(1), vec![A])]);
            assert_eq!(ledger.take_dirty(9), [(id(1), vec![])]);
        }
    }

    #[test]
    fn received_changes_are_not_owed() {
        let mut ledger = Ledger::default();
        ledger.received(&id(1), A, &[]);
        ledger.received(&id(1), B, &[A]);
        ledger.covered(&id(1), &[B]);
        assert!(ledger.shares(&id(1), &[B]) && !ledger.shares(&id(1), &[A]));
        assert_eq!(ledger.take_dirty(9), [(id(1), vec![B])]);
        ledger.sent(C);
        assert!(ledger.is_echo(&C) && !ledger.is_echo(&B));
    }

    #[test]
    fn snapshots_are_due_behind_many_changes_and_by_age() {
        let mut ledger = Ledger::default();
        ledger.published(&id(1), &[A], (SNAPSHOT_CHANGES - 1, 1));
        assert_eq!(ledger.take_snapshot(), None);
        ledger.published(&id(1), &[B], (1, 1));
        assert_eq!(ledger.take_snapshot(), Some(id(1)));
        assert!(ledger.points(&id(1), Pointer { object: "o".to_owned(), heads: vec![B] }));
        ledger.age(&[(id(1), vec![B])]);
        assert_eq!(ledger.take_snapshot(), None);
        ledger.age(&[(id(1), vec![C]), (id(2), vec![])]);
        assert_eq!((ledger.take_snapshot(), ledger.take_snapshot()), (Some(id(1)), None));
    }

    #[test]
    fn waiting_is_bounded_and_slows_down() {
        let mut ledger = Ledger::default();
        ledger.wait(&id(1), 0);
        assert!(ledger.due(FIRST_WAIT_MS - 1, 9).is_empty());
        assert_eq!(ledger.due(FIRST_WAIT_MS, 9), [id(1)]);
        assert!(ledger.due(2 * FIRST_WAIT_MS, 9).is_empty());
        assert_eq!(ledger.due(3 * FIRST_WAIT_MS, 9), [id(1)]);
        ledger.whole(&id(1));
        assert_eq!((ledger.due(u64::MAX, 9).len(), ledger.waiting()), (0, 0));
    }

    #[test]
    fn marks_of_strangers_are_none() {
        let marks = [("r:place", "x t"), ("r:note", "1"), ("r:2akvofn6L1o4RMUEMQi7qzwRjKWZ", "12")];
        let marks = marks.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let mut ledger = Ledger::load(&BTreeMap::from(marks), "r:");
        assert_eq!(ledger.begin(&stream("t", 9)), 1);
    }
}
