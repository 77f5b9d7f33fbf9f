//! The state machine: connections, documents in memory, and who is told what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shoal_history::ChangeHash;

use crate::message::Frame;
use crate::{
    Access, ConnectionId, Counters, DocumentId, Effect, Event, Fault, Limits, Message, Metadata,
    Role,
};

mod document;
mod ephemeral;
mod exchange;
mod peer;
mod rights;

use document::Document;
use peer::Peer;
use rights::Purses;

/// The longest sync state kept of a departed peer: some hundred heads. A document may have as many
/// heads as its authors like, and the number of states alone would bound no memory.
const REMEMBERED_BYTES: usize = 16 << 10;

/// The most characters of a peer's words that are handed on.
const TOLD_CHARS: usize = 1_000;

/// Who this end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The id of this end. Stable over restarts: peers remember heads by this id.
    pub peer_id: String,
    /// The storage of this end.
    pub metadata: Metadata,
    /// The bounds.
    pub limits: Limits,
}

/// A document in memory, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentInfo {
    /// The id.
    pub id: DocumentId,
    /// Its durable heads.
    pub heads: Vec<ChangeHash>,
    /// Its durable changes.
    pub changes: usize,
    /// Connections with the document open.
    pub peers: usize,
}

/// A connection, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The connection.
    pub connection: ConnectionId,
    /// The id of its peer, once it has joined.
    pub name: Option<String>,
    /// Milliseconds since it was made.
    pub age_ms: u64,
    /// Its open documents.
    pub documents: usize,
    /// Open documents with news that the peer was not told yet.
    pub behind: usize,
    /// Bytes queued for it.
    pub queued_bytes: usize,
    /// Bytes of its changes on their way to the disk.
    pub pending_bytes: usize,
}

/// Sizes of a hub at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Open connections.
    pub connections: usize,
    /// Joined connections.
    pub joined: usize,
    /// Documents in memory.
    pub documents: usize,
    /// Bytes queued for peers.
    pub queued_bytes: usize,
    /// Bytes of changes on their way to the disk.
    pub pending_bytes: usize,
}

/// One end of many connections.
#[derive(Debug)]
pub struct Hub {
    config: Config,
    counters: Counters,
    now_ms: u64,
    peers: BTreeMap<ConnectionId, Peer>,
    by_name: BTreeMap<String, ConnectionId>,
    documents: BTreeMap<DocumentId, Document>,
    followed: BTreeSet<DocumentId>,
    denied: BTreeSet<DocumentId>,
    purses: Purses,
    /// Bytes queued for all peers.
    queued: usize,
    /// Messages were not made, for too much was queued.
    is_crowded: bool,
    /// Encoded sync states of departed peers with storage, each with the number of its leaving.
    remembered: BTreeMap<(String, DocumentId), (u64, Vec<u8>)>,
    /// Leavings, oldest first; ones that no entry of `remembered` has the number of count for
    /// nothing.
    remembered_order: VecDeque<(u64, (String, DocumentId))>,
    next_leaving: u64,
    /// Connections with something to tell and room in their queue.
    dirty: BTreeSet<ConnectionId>,
    /// Connections with changes of their own that became durable: authors hear before readers.
    authors: BTreeSet<ConnectionId>,
    effects: Vec<Effect>,
    next_job: u64,
}

impl Hub {
    /// A hub without connections.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            counters: Counters::default(),
            now_ms: 0,
            peers: BTreeMap::new(),
            by_name: BTreeMap::new(),
            documents: BTreeMap::new(),
            followed: BTreeSet::new(),
            denied: BTreeSet::new(),
            purses: Purses::default(),
            queued: 0,
            is_crowded: false,
            remembered: BTreeMap::new(),
            remembered_order: VecDeque::new(),
            next_leaving: 0,
            dirty: BTreeSet::new(),
            authors: BTreeSet::new(),
            effects: Vec::new(),
            next_job: 0,
        }
    }

    /// Counts since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Present sizes. Cost: the connections.
    pub fn totals(&self) -> Totals {
        Totals {
            connections: self.peers.len(),
            joined: self.by_name.len(),
            documents: self.documents.len(),
            queued_bytes: self.queued,
            pending_bytes: self.peers.values().map(|peer| peer.pending_bytes).sum(),
        }
    }

    /// The documents in memory with changes, by id.
    pub fn documents(&self) -> impl Iterator<Item = DocumentInfo> + '_ {
        let present = self.documents.iter().filter(|(_, document)| !document.graph.is_empty());
        present.map(|(id, document)| DocumentInfo {
            id: id.clone(),
            heads: document.graph.heads(),
            changes: document.graph.len(),
            peers: document.shares.len(),
        })
    }

    /// The durable changes of a document in memory. Cost: a look-up.
    pub fn changes_of(&self, document: &DocumentId) -> usize {
        self.documents.get(document).map_or(0, |document| document.graph.len())
    }

    /// The connections, in the order of their making.
    pub fn peers(&self) -> impl Iterator<Item = PeerInfo> + '_ {
        self.peers.iter().map(|(&connection, peer)| PeerInfo {
            connection,
            name: peer.name.clone(),
            age_ms: self.now_ms - peer.connected_ms,
            documents: peer.documents.len(),
            behind: peer.dirty.len(),
            queued_bytes: peer.queued,
            pending_bytes: peer.pending_bytes,
        })
    }

    /// Takes an event in. `now_ms` never goes back; only differences of it matter.
    pub fn handle(&mut self, now_ms: u64, event: Event) {
        self.now_ms = self.now_ms.max(now_ms);
        match event {
            Event::Connected { connection, role, access } => {
                self.connected(connection, role, access);
            }
            Event::Frame { connection, bytes } => {
                if let Err(fault) = self.frame(connection, &bytes) {
                    self.fault(connection, fault);
                }
            }
            Event::Bad { connection, fault } => self.fault(connection, fault),
            Event::Sent { connection, bytes } => {
                if let Some(peer) = self.peers.get_mut(&connection) {
                    let left = peer.queued.saturating_sub(bytes);
                    self.queued -= peer.queued - left;
                    peer.queued = left;
                    (peer.progress_ms, peer.progress_bytes) = (self.now_ms, 0);
                    if !peer.dirty.is_empty() {
                        self.dirty.insert(connection);
                    }
                }
            }
            Event::Progress { connection, bytes } => {
                if let Some(peer) = self.peers.get_mut(&connection) {
                    peer.progress_bytes += bytes;
                    if peer.progress_bytes >= self.config.limits.stall_bytes {
                        (peer.progress_ms, peer.progress_bytes) = (self.now_ms, 0);
                    }
                }
            }
            Event::Closed { connection } => self.forget(connection),
            Event::Opened { document, contents } => self.opened(&document, contents),
            Event::Stored { document, job, outcome } => self.stored(&document, job, outcome),
            Event::Changed { document, stored } => {
                // News of an earlier stay in memory; the answer to the reading under way has them.
                let entry = self.documents.get_mut(&document).filter(|entry| entry.is_loaded);
                if let Some(entry) = entry
                    && entry.add(stored.changes, stored.waiting)
                {
                    self.mark_all(&document);
                }
            }
            Event::Saved { document, snapshot } => {
                if let Some(entry) = self.documents.get_mut(&document) {
                    entry.keep_snapshot(snapshot);
                    self.mark_all(&document);
                }
            }
            Event::Follow { document } => self.follow(document),
            Event::Admit { connection, access } => self.admit(connection, access),
            Event::Refuse { connection, fault } => self.refuse(connection, fault),
            Event::Answered { connection, document, rights } => {
                self.answered(connection, document, rights);
            }
            Event::Deny { document, is_denied } => self.deny(document, is_denied),
            Event::Expel { document } => self.expel(&document),
            Event::Tick => self.tick(),
        }
    }

    /// Makes the messages that are due, and gives every effect since the last call. Events that
    /// came together are best taken in together: one message then tells of all of them.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let authors = std::mem::take(&mut self.authors);
        for connection in authors.into_iter().chain(std::mem::take(&mut self.dirty)) {
            self.flush(connection);
        }
        std::mem::take(&mut self.effects)
    }

    /// Ends every connection with a word.
    pub fn stop(&mut self) {
        self.close_all(Fault::Stopping);
    }

    fn close_all(&mut self, fault: Fault) {
        for connection in self.peers.keys().copied().collect::<Vec<_>>() {
            self.close(connection, fault);
        }
    }

    fn connected(&mut self, connection: ConnectionId, role: Role, access: Access) {
        self.counters.connected += 1;
        let purse = access.purse;
        let peer = Peer::new(role, access, &self.config.limits, self.now_ms);
        self.peers.insert(connection, peer);
        self.open_purse(connection, purse);
        if role == Role::Dialing {
            let metadata = self.config.metadata.clone();
            self.send(connection, Message::Join { metadata, speaks_version_1: true });
        }
    }

    fn frame(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<(), Fault> {
        let limits = self.config.limits;
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        self.counters.received += 1;
        self.counters.received_bytes += bytes.len() as u64;
        let (rate, burst) = (limits.messages_per_second, limits.message_burst);
        if !peer.messages.take(rate, burst, self.now_ms) {
            self.pause(connection);
        }
        let frame = Frame::decode(bytes, &limits)?;
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        match (&frame.message, &peer.name, peer.role) {
            (Message::Join { metadata, speaks_version_1 }, None, Role::Accepting) => {
                if !speaks_version_1 {
                    return Err(Fault::Version);
                }
                let metadata = metadata.clone();
                self.joined(connection, frame.sender, metadata);
                return Ok(());
            }
            (Message::Peer { metadata }, None, Role::Dialing) => {
                let metadata = metadata.clone();
                self.joined(connection, frame.sender, metadata);
                return Ok(());
            }
            (Message::Join { .. }, Some(name), _) if *name == frame.sender => return Ok(()),
            (Message::Join { .. }, Some(_), _) => return Err(Fault::SecondJoin),
            (Message::Error { message }, _, role) => {
                if role == Role::Dialing {
                    let message = message.chars().take(TOLD_CHARS).collect();
                    self.effects.push(Effect::Told { connection, message });
                }
                return Ok(());
            }
            (Message::Gossip, _, _) => {
                self.counters.gossip += 1;
                return Ok(());
            }
            (_, None, _) => return Err(Fault::BeforeJoin),
            (Message::Ephemeral(_), Some(name), _) if *name != frame.sender => {
                // Clients send what they were sent back to where it came from.
                self.counters.bounced += 1;
                return Ok(());
            }
            (_, Some(name), _) if *name != frame.sender => return Err(Fault::Impersonation),
            _ if frame.target != self.config.peer_id => return Err(Fault::WrongTarget),
            _ => {}
        }
        match frame.message {
            Message::Sync { document, data, .. } => self.sync(connection, document, &data),
            Message::Unavailable { document } => {
                if self.followed.contains(&document) {
                    self.effects.push(Effect::Unavailable { document });
                }
                Ok(())
            }
            Message::Ephemeral(ephemeral) => self.ephemeral(connection, ephemeral),
            _ => Ok(()),
        }
    }

    fn joined(&mut self, connection: ConnectionId, name: String, metadata: Metadata) {
        let Some(peer) = self.peers.get(&connection) else { return };
        let older = self.by_name.get(&name).copied();
        let owner = older.and_then(|older| self.peers.get(&older)).map(|peer| peer.access.owner);
        let in_use = owner.is_some_and(|owner| owner != peer.access.owner);
        let refusal = peer.refusal.or(in_use.then_some(Fault::NameInUse));
        if let Some(fault) = refusal.filter(|_| peer.role == Role::Accepting) {
            // Clients wait a second for this answer; whoever has the id loses nothing.
            let metadata = self.config.metadata.clone();
            let (sender, message) = (self.config.peer_id.clone(), Message::Peer { metadata });
            self.send_frame(connection, &Frame { sender, target: name, message });
            self.close(connection, fault);
            return;
        }
        if let Some(older) = older {
            self.close(older, Fault::Replaced);
        }
        self.counters.joined += 1;
        self.by_name.insert(name.clone(), connection);
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        peer.name = Some(name.clone());
        peer.metadata = metadata;
        match peer.role {
            Role::Accepting => {
                let metadata = self.config.metadata.clone();
                self.send(connection, Message::Peer { metadata });
            }
            Role::Dialing => {
                self.effects.push(Effect::Joined { connection, peer: name });
                for document in self.followed.clone() {
                    self.share(connection, &document);
                }
            }
        }
    }

    fn send(&mut self, connection: ConnectionId, message: Message) {
        let Some(peer) = self.peers.get(&connection) else { return };
        let target = peer.name.clone().unwrap_or_else(|| "unknown".to_owned());
        let sender = self.config.peer_id.clone();
        self.counters.unavailable += u64::from(matches!(message, Message::Unavailable { .. }));
        self.send_frame(connection, &Frame { sender, target, message });
    }

    fn send_frame(&mut self, connection: ConnectionId, frame: &Frame) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        let bytes = frame.encode();
        if peer.queued == 0 {
            (peer.progress_ms, peer.progress_bytes) = (self.now_ms, 0);
        }
        peer.queued += bytes.len();
        self.queued += bytes.len();
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        self.effects.push(Effect::Send { connection, bytes });
    }

    fn fault(&mut self, connection: ConnectionId, fault: Fault) {
        if !self.peers.contains_key(&connection) {
            return;
        }
        if fault.ends_session() {
            self.close(connection, fault);
        } else {
            self.counters.fault(&fault);
        }
    }

    fn close(&mut self, connection: ConnectionId, fault: Fault) {
        if !self.peers.contains_key(&connection) {
            return;
        }
        self.counters.fault(&fault);
        self.send(connection, Message::Error { message: fault.to_string() });
        self.effects.push(Effect::Close { connection, fault });
        self.forget(connection);
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Some(peer) = self.peers.get(&connection) else { return };
        if let Some(name) = &peer.name
            && self.by_name.get(name) == Some(&connection)
        {
            self.by_name.remove(name);
        }
        let storage = peer.storage_id().map(str::to_owned);
        for id in peer.documents.clone() {
            let share = self.documents.get(&id).and_then(|entry| entry.shares.get(&connection));
            if let (Some(storage), Some(share)) = (&storage, share)
                && !share.is_refused
                && !share.sync.is_read_only()
                && !share.sync.shared_heads().is_empty()
            {
                let state = share.sync.encode();
                self.remember((storage.clone(), id.clone()), state);
            }
            self.unshare(connection, &id);
        }
        if let Some(peer) = self.peers.remove(&connection) {
            self.queued -= peer.queued;
        }
        self.dirty.remove(&connection);
    }

    fn remember(&mut self, key: (String, DocumentId), state: Vec<u8>) {
        if state.len() > REMEMBERED_BYTES {
            self.remembered.remove(&key);
            return;
        }
        let number = self.next_leaving;
        self.next_leaving += 1;
        self.remembered_order.push_back((number, key.clone()));
        self.remembered.insert(key, (number, state));
        while self.remembered_order.len() > self.config.limits.remembered {
            let Some((number, oldest)) = self.remembered_order.pop_front() else { break };
            if self.remembered.get(&oldest).is_some_and(|(latest, _)| *latest == number) {
                self.remembered.remove(&oldest);
            }
        }
    }

    fn pause(&mut self, connection: ConnectionId) {
        if let Some(peer) = self.peers.get_mut(&connection)
            && !std::mem::replace(&mut peer.is_paused, true)
        {
            self.counters.paused += 1;
            self.effects.push(Effect::Pause { connection });
        }
    }

    /// Ends the slowest readers while too much is queued for all; lets the others go on otherwise.
    fn make_way(&mut self) {
        let limits = self.config.limits;
        while self.queued >= limits.total_queue_bytes {
            let stalled = self.peers.iter().filter(|(_, peer)| {
                peer.queued > 0 && self.now_ms > peer.progress_ms + limits.crowded_ms
            });
            let most = stalled.max_by_key(|(_, peer)| peer.queued);
            let Some((&connection, _)) = most else { return };
            self.close(connection, Fault::Crowded);
        }
        if std::mem::take(&mut self.is_crowded) {
            let ready = self.peers.iter().filter(|(_, peer)| !peer.dirty.is_empty());
            self.dirty.extend(ready.map(|(&connection, _)| connection));
        }
    }

    fn tick(&mut self) {
        let (limits, now_ms) = (self.config.limits, self.now_ms);
        let mut ended = Vec::new();
        let mut resumed = Vec::new();
        let mut absent = Vec::new();
        for (&connection, peer) in &mut self.peers {
            if peer.name.is_none() && now_ms > peer.connected_ms + limits.join_ms {
                ended.push((connection, Fault::NoJoin));
            } else if peer.queued > 0 && now_ms > peer.progress_ms + limits.stall_ms {
                ended.push((connection, Fault::Slow));
            }
            if peer.is_paused && peer.may_resume(&limits, now_ms) {
                peer.is_paused = false;
                resumed.push(connection);
            }
            if !peer.absent.is_empty() {
                peer.absent.retain(|id, due| {
                    let is_due = *due <= now_ms;
                    if is_due {
                        absent.push((connection, id.clone()));
                    }
                    !is_due
                });
            }
        }
        self.effects.extend(resumed.into_iter().map(|connection| Effect::Resume { connection }));
        for (connection, document) in absent {
            self.send(connection, Message::Unavailable { document });
        }
        for (connection, fault) in ended {
            self.close(connection, fault);
        }
        self.purses.tick(now_ms);
        self.make_way();
        let idle = self.documents.iter().filter(|(_, document)| {
            let since = document.idle_ms.filter(|_| document.may_leave());
            since.is_some_and(|since| document.graph.is_empty() || now_ms >= since + limits.idle_ms)
        });
        for id in idle.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.evict(&id);
        }
    }
}
