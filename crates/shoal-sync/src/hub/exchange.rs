//! The exchange of documents: opened and closed with peers, changes to the disk and back, messages
//! made.

use shoal_history::{ChangeData, SyncMessage, SyncState};

use super::Hub;
use super::document::{Document, Pending, Share, Stage};
use crate::{
    ConnectionId, Contents, DocumentId, Effect, Fault, JobId, Message, Rights, Role, Stored,
};

impl Hub {
    pub(super) fn sync(
        &mut self,
        connection: ConnectionId,
        document: DocumentId,
        data: &[u8],
    ) -> Result<(), Fault> {
        let limits = self.config.limits;
        let message = SyncMessage::decode(data).map_err(|_| Fault::SyncMessage)?;
        let lists = message.have.iter().map(|have| have.last_sync.len());
        let longest = lists.chain([message.heads.len(), message.need.len()]).max();
        if longest.unwrap_or(0) > limits.hashes {
            return Err(Fault::TooMany("hashes in one message"));
        }
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        let is_new = !peer.documents.contains(&document);
        if is_new && peer.role == Role::Dialing {
            return Ok(());
        }
        let is_denied = self.denied.contains(&document);
        if is_new && !is_denied && peer.must_ask(&document) {
            return self.ask(connection, document, data);
        }
        if is_new && (is_denied || peer.access.to(&document) == Rights::None) {
            if is_denied {
                self.counters.fault(&Fault::Denied);
            }
            // As for an absent document, after as long a time.
            if peer.absent.len() >= limits.unavailable_per_peer {
                return Err(Fault::TooMany("documents"));
            }
            peer.absent.entry(document).or_insert(self.now_ms + limits.absent_ms);
            return Ok(());
        }
        let is_full = peer.documents.len() >= limits.documents_per_peer
            || !self.documents.contains_key(&document) && !self.make_room();
        if is_new && is_full {
            self.send(connection, Message::Unavailable { document });
            return Err(Fault::TooMany("documents"));
        }
        if is_new {
            self.share(connection, &document);
        }
        let entry = self.documents.get_mut(&document).expect("a shared document is in memory");
        let share = entry.shares.get_mut(&connection).expect("a peer's document has its share");
        if share.is_refused {
            self.counters.fault(&Fault::Changes);
            return Ok(());
        }
        let bytes = message.changes.as_bytes().len();
        let is_reader = bytes > 0 && share.sync.is_read_only();
        let is_first = is_reader && !std::mem::replace(&mut share.is_told_read_only, is_reader);
        let told_bytes = data.len().saturating_sub(bytes);
        let kept = self.peers.get(&connection).map_or(0, |peer| peer.told_bytes);
        if kept + told_bytes > limits.told_bytes {
            return Err(Fault::TooMany("hashes of one connection"));
        }
        share.pending.push_back(Pending { message, stage: Stage::Unread, told_bytes });
        let is_loaded = entry.is_loaded;
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.told_bytes += told_bytes;
            peer.pending_bytes += bytes;
            if peer.pending_bytes > limits.pending_bytes {
                self.pause(connection);
            }
        }
        if is_reader {
            self.counters.fault(&Fault::ReadOnly);
        }
        if is_first {
            let message = format!("document {document}: {}", Fault::ReadOnly);
            self.send(connection, Message::Error { message });
        }
        if is_loaded {
            self.advance(connection, &document);
        }
        Ok(())
    }

    /// True when one more document may be in memory.
    fn make_room(&mut self) -> bool {
        if self.documents.len() < self.config.limits.documents {
            return true;
        }
        let idle = self.documents.iter().filter(|(_, document)| document.may_leave());
        let oldest = idle.min_by_key(|(_, document)| document.idle_ms);
        let Some(id) = oldest.map(|(id, _)| id.clone()) else { return false };
        self.evict(&id);
        true
    }

    pub(super) fn evict(&mut self, id: &DocumentId) {
        // Answers to jobs under way find no document.
        for (connection, bytes) in
            self.documents.remove(id).into_iter().flat_map(|it| it.jobs.into_values())
        {
            if let Some(peer) = self.peers.get_mut(&connection) {
                peer.pending_bytes = peer.pending_bytes.saturating_sub(bytes);
            }
        }
        self.counters.evicted += 1;
        self.effects.push(Effect::Release { document: id.clone() });
    }

    /// Opens the exchange of a document with a peer.
    pub(super) fn share(&mut self, connection: ConnectionId, document: &DocumentId) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        peer.documents.insert(document.clone());
        peer.dirty.insert(document.clone());
        self.dirty.insert(connection);
        let rights = peer.access.to(document);
        let known = peer
            .storage_id()
            .and_then(|storage| self.remembered.remove(&(storage.to_owned(), document.clone())));
        let mut sync = match (rights, known) {
            (Rights::Write, Some((_, bytes))) => SyncState::decode(&bytes).unwrap_or_default(),
            (Rights::Write, None) => SyncState::new(),
            (Rights::Read | Rights::None, _) => SyncState::new_read_only(),
        };
        sync.set_max_message_bytes(Some(self.config.limits.message_bytes));
        // Changes wait for the disk, and their author may speak again before they are stored.
        sync.set_confirms(true);
        let entry = self.documents.entry(document.clone()).or_insert_with(|| {
            self.effects.push(Effect::Open { document: document.clone() });
            Document::default()
        });
        entry.idle_ms = None;
        entry.shares.insert(connection, Share::new(sync, self.now_ms));
    }

    pub(super) fn follow(&mut self, document: DocumentId) {
        if !self.followed.insert(document.clone()) {
            return;
        }
        if !self.documents.contains_key(&document) {
            self.documents.insert(document.clone(), Document::default());
            self.effects.push(Effect::Open { document: document.clone() });
        }
        let dialled = self.peers.iter();
        let dialled = dialled.filter(|(_, peer)| peer.role == Role::Dialing && peer.name.is_some());
        for connection in dialled.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.share(connection, &document);
        }
    }

    pub(super) fn unshare(&mut self, connection: ConnectionId, id: &DocumentId) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.documents.remove(id);
            peer.dirty.remove(id);
            peer.absent.remove(id);
        }
        let Some(document) = self.documents.get_mut(id) else { return };
        if let Some(share) = document.shares.remove(&connection)
            && let Some(peer) = self.peers.get_mut(&connection)
        {
            let unread = share.pending.iter().filter(|pending| pending.stage == Stage::Unread);
            let bytes: usize = unread.map(|pending| pending.message.changes.as_bytes().len()).sum();
            peer.pending_bytes = peer.pending_bytes.saturating_sub(bytes);
            let waiting: usize = share.pending.iter().map(|pending| pending.told_bytes).sum();
            peer.told_bytes = peer.told_bytes.saturating_sub(share.told_bytes + waiting);
        }
        if document.shares.is_empty() && !self.followed.contains(id) {
            document.idle_ms = Some(self.now_ms);
        }
    }

    pub(super) fn opened(&mut self, id: &DocumentId, contents: Result<Option<Contents>, Fault>) {
        let Some(document) = self.documents.get_mut(id) else {
            self.effects.push(Effect::Release { document: id.clone() });
            return;
        };
        if document.is_loaded {
            return;
        }
        let connections: Vec<ConnectionId> = document.shares.keys().copied().collect();
        match contents {
            Ok(contents) => {
                document.is_loaded = true;
                if let Some(contents) = contents {
                    document.graph = contents.graph;
                    document.add(Vec::new(), contents.waiting);
                }
            }
            Err(fault) => {
                for connection in connections {
                    self.unshare(connection, id);
                    self.send(connection, Message::Unavailable { document: id.clone() });
                    self.note_refused(connection, id, fault);
                    self.fault(connection, fault);
                }
                // Last: closing an exchange looks up the bytes that wait in it.
                self.documents.remove(id);
                return;
            }
        }
        for connection in connections {
            self.mark(connection, id);
            self.advance(connection, id);
        }
    }

    /// Takes in the messages of a share with nothing left to wait for.
    fn advance(&mut self, connection: ConnectionId, id: &DocumentId) {
        let Some(document) = self.documents.get_mut(id) else { return };
        let Some(share) = document.shares.get_mut(&connection) else { return };
        for pending in &mut share.pending {
            if pending.stage != Stage::Unread {
                continue;
            }
            let message = &mut pending.message;
            let bytes = message.changes.as_bytes().len();
            if bytes > 0 && !share.sync.is_read_only() {
                let is_new = document.graph.is_empty() && document.jobs.is_empty();
                let purse = self.peers.get(&connection).and_then(|peer| peer.access.purse);
                if let Err(fault) = self.purses.spend(purse, bytes, is_new) {
                    self.fault(connection, fault);
                    return;
                }
            }
            pending.stage = Stage::Ready;
            if share.sync.begin_receive(message) {
                let job = JobId(self.next_job);
                self.next_job += 1;
                pending.stage = Stage::Storing(job);
                // An empty entry stands for the changes; their bytes go to the disk.
                let mut taken = ChangeData::new();
                taken.push(&[]);
                let changes = std::mem::replace(&mut message.changes, taken);
                document.jobs.insert(job, (connection, bytes));
                let chunks = changes.as_bytes().to_vec();
                self.effects.push(Effect::Store { document: id.clone(), job, chunks });
            } else if let Some(peer) = self.peers.get_mut(&connection) {
                peer.pending_bytes = peer.pending_bytes.saturating_sub(bytes);
            }
        }
        let heads = document.graph.heads();
        let (mut is_told, mut freed) = (false, 0);
        while share.pending.front().is_some_and(|pending| pending.stage == Stage::Ready) {
            let Some(pending) = share.pending.pop_front() else { break };
            freed += std::mem::replace(&mut share.told_bytes, pending.told_bytes);
            share.sync.finish_receive(pending.message, &document.graph, &heads);
            is_told = true;
        }
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.told_bytes = peer.told_bytes.saturating_sub(freed);
        }
        if is_told {
            self.mark(connection, id);
        }
    }

    pub(super) fn stored(&mut self, id: &DocumentId, job: JobId, outcome: Result<Stored, Fault>) {
        let Some(document) = self.documents.get_mut(id) else { return };
        let Some((connection, bytes)) = document.jobs.remove(&job) else { return };
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.pending_bytes = peer.pending_bytes.saturating_sub(bytes);
        }
        let stored = match outcome {
            Ok(stored) => stored,
            Err(Fault::Storage) => {
                // The state of the file is unknown: all begins anew by reading.
                self.close_all(Fault::Storage);
                let ids: Vec<DocumentId> = self.documents.keys().cloned().collect();
                for id in ids {
                    self.evict(&id);
                }
                return;
            }
            Err(fault) => {
                self.counters.fault(&fault);
                if let Some(share) = document.shares.get_mut(&connection) {
                    share.is_refused = true;
                    let waiting = share.pending.drain(..).map(|pending| pending.told_bytes);
                    let freed: usize = waiting.sum();
                    if let Some(peer) = self.peers.get_mut(&connection) {
                        peer.told_bytes = peer.told_bytes.saturating_sub(freed);
                    }
                    let message = format!("document {id}: {fault}");
                    self.send(connection, Message::Error { message });
                    self.note_refused(connection, id, fault);
                }
                return;
            }
        };
        self.counters.stored += stored.changes.len() as u64;
        let heads_before = document.graph.heads();
        let is_new = document.add(stored.changes, stored.waiting);
        if let Some(share) = document.shares.get_mut(&connection) {
            let is_first =
                share.pending.front().is_some_and(|first| first.stage == Stage::Storing(job));
            if is_first && let Some(pending) = share.pending.pop_front() {
                let freed = std::mem::replace(&mut share.told_bytes, pending.told_bytes);
                if let Some(peer) = self.peers.get_mut(&connection) {
                    peer.told_bytes = peer.told_bytes.saturating_sub(freed);
                }
                share.sync.finish_receive(pending.message, &document.graph, &heads_before);
            }
        }
        if is_new {
            self.mark_all(id);
        } else {
            self.mark(connection, id);
        }
        self.authors.insert(connection);
        self.advance(connection, id);
    }

    fn mark(&mut self, connection: ConnectionId, id: &DocumentId) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.dirty.insert(id.clone());
            self.dirty.insert(connection);
        }
    }

    pub(super) fn mark_all(&mut self, id: &DocumentId) {
        let Some(document) = self.documents.get(id) else { return };
        for connection in document.shares.keys() {
            if let Some(peer) = self.peers.get_mut(connection) {
                peer.dirty.insert(id.clone());
                self.dirty.insert(*connection);
            }
        }
    }

    /// Tells a peer the news, as far as its queue has room.
    pub(super) fn flush(&mut self, connection: ConnectionId) {
        let limits = self.config.limits;
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        for id in std::mem::take(&mut peer.dirty) {
            let Some(peer) = self.peers.get_mut(&connection) else { return };
            let Some(document) = self.documents.get_mut(&id) else { continue };
            let Some(share) = document.shares.get(&connection) else { continue };
            let since_ms = share.since_ms;
            // Whoever was dialled waits for the first word of the other end.
            let is_first = peer.role == Role::Accepting && share.sync.their_heads().is_none();
            if share.is_refused || !document.is_loaded || is_first {
                continue;
            }
            let has_nothing = share.sync.their_heads().is_some_and(<[_]>::is_empty);
            let is_crowded = self.queued >= limits.total_queue_bytes;
            self.is_crowded |= is_crowded;
            if peer.queued >= limits.queue_bytes || is_crowded {
                peer.dirty.insert(id);
                continue;
            }
            if peer.role == Role::Accepting && document.graph.is_empty() && has_nothing {
                // Counted from the request: the time of a look into the file is not told.
                peer.absent.entry(id).or_insert(since_ms + limits.absent_ms);
                continue;
            }
            peer.absent.remove(&id);
            if has_nothing && document.lacks_snapshot() {
                peer.dirty.insert(id.clone());
                if !document.is_saving {
                    document.is_saving = true;
                    self.effects.push(Effect::Save { document: id });
                }
                continue;
            }
            let is_request = peer.role == Role::Dialing
                && document.graph.is_empty()
                && share.sync.shared_heads().is_empty();
            let message = document.generate(connection);
            self.note_in_sync(connection, &id);
            if let Some(message) = message {
                let data = message.encode();
                self.send(connection, Message::Sync { document: id, data, is_request });
            }
        }
    }

    /// Tells the driver of an end that dialled about a document given up.
    fn note_refused(&mut self, connection: ConnectionId, id: &DocumentId, fault: Fault) {
        if self.peers.get(&connection).is_some_and(|peer| peer.role == Role::Dialing) {
            let document = id.clone();
            self.effects.push(Effect::Refused { connection, document, fault });
        }
    }

    /// Tells the driver that this end dialled when both ends have become equal.
    fn note_in_sync(&mut self, connection: ConnectionId, id: &DocumentId) {
        if self.peers.get(&connection).is_none_or(|peer| peer.role == Role::Accepting) {
            return;
        }
        let Some(document) = self.documents.get_mut(id) else { return };
        let Some(share) = document.shares.get_mut(&connection) else { return };
        let heads = document.graph.heads();
        let is_equal =
            share.sync.their_heads() == Some(&heads[..]) && share.sync.has_all_of(&document.graph);
        let has_theirs = share.sync.their_heads().is_some_and(|theirs| {
            !theirs.is_empty() && theirs.iter().all(|head| document.graph.contains(head))
        });
        let is_refused = share.sync.is_peer_read_only() && has_theirs;
        if !is_equal && is_refused && !std::mem::replace(&mut share.is_told_read_only, true) {
            let message = format!("document {id}: {}", Fault::ReadOnly);
            self.effects.push(Effect::Told { connection, message });
            return;
        }
        if is_equal && !heads.is_empty() && share.in_sync.as_ref() != Some(&heads) {
            share.in_sync = Some(heads);
            self.effects.push(Effect::InSync { connection, document: id.clone() });
        }
    }
}
