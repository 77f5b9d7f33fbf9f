//! Who may: rights found out and taken back, documents denied to all, allowances.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Hub;
use super::peer::{Asked, Peer};
use crate::{Access, ConnectionId, DocumentId, Effect, Fault, Message, Purse, Rights};

/// What is left of the tickets in use.
#[derive(Debug, Default)]
pub(super) struct Purses {
    left: BTreeMap<[u8; 16], Left>,
}

#[derive(Debug)]
struct Left {
    bytes: u64,
    documents: u64,
    until_ms: u64,
}

impl Purses {
    /// Takes the bytes of a message from a ticket; with `is_new`, a document as well.
    pub(super) fn spend(
        &mut self,
        purse: Option<Purse>,
        bytes: usize,
        is_new: bool,
    ) -> Result<(), Fault> {
        let Some(purse) = purse else { return Ok(()) };
        let left = self.left.get_mut(&purse.id).ok_or(Fault::Expired)?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let bytes = left.bytes.checked_sub(bytes).ok_or(Fault::Allowance("bytes"))?;
        let documents = left.documents.checked_sub(u64::from(is_new));
        left.documents = documents.ok_or(Fault::Allowance("documents"))?;
        left.bytes = bytes;
        Ok(())
    }

    pub(super) fn tick(&mut self, now_ms: u64) {
        self.left.retain(|_, left| left.until_ms > now_ms);
    }
}

impl Peer {
    /// True for a document whose rights nobody has told yet.
    pub(super) fn must_ask(&self, document: &DocumentId) -> bool {
        self.access.asks && !self.access.documents.contains_key(document)
    }
}

impl Hub {
    /// True for a document that nobody is served.
    pub fn is_denied(&self, document: &DocumentId) -> bool {
        self.denied.contains(document)
    }

    pub(super) fn open_purse(&mut self, connection: ConnectionId, purse: Option<Purse>) {
        let Some(purse) = purse else { return };
        let count = self.purses.left.len();
        let until_ms = self.now_ms.saturating_add(purse.ms);
        match self.purses.left.entry(purse.id) {
            Entry::Occupied(_) => {}
            Entry::Vacant(_) if count >= self.config.limits.purses => {
                self.refuse(connection, Fault::TooMany("tickets in use"));
            }
            Entry::Vacant(place) => {
                place.insert(Left { bytes: purse.bytes, documents: purse.documents, until_ms });
            }
        }
    }

    pub(super) fn refuse(&mut self, connection: ConnectionId, fault: Fault) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        match peer.name {
            Some(_) => self.close(connection, fault),
            None => peer.refusal = Some(fault),
        }
    }

    /// Other rights: documents no longer readable are closed, documents with other rights are
    /// exchanged anew.
    pub(super) fn admit(&mut self, connection: ConnectionId, access: Access) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        let purse = access.purse;
        let before = std::mem::replace(&mut peer.access, access);
        if peer.access.asks {
            // What was told of single documents holds until something else is told.
            let told = before.documents.iter().map(|(id, rights)| (id.clone(), *rights));
            peer.access.documents =
                told.chain(std::mem::take(&mut peer.access.documents)).collect();
        }
        let changed: Vec<(DocumentId, Rights)> = peer
            .documents
            .iter()
            .map(|id| (id, before.to(id), peer.access.to(id)))
            .filter(|(_, was, is)| was != is)
            .map(|(id, _, is)| (id.clone(), is))
            .collect();
        self.open_purse(connection, purse);
        for (id, rights) in changed {
            self.exchange_anew(connection, id, rights);
        }
    }

    fn exchange_anew(&mut self, connection: ConnectionId, id: DocumentId, rights: Rights) {
        self.unshare(connection, &id);
        if rights == Rights::None {
            self.send(connection, Message::Unavailable { document: id });
        } else {
            self.share(connection, &id);
        }
    }

    /// Keeps a message until the rights to its document are known.
    pub(super) fn ask(
        &mut self,
        connection: ConnectionId,
        document: DocumentId,
        data: &[u8],
    ) -> Result<(), Fault> {
        let limits = self.config.limits;
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        let known = peer.asked.len() + peer.access.documents.len();
        let is_full =
            peer.asked.len() >= limits.unavailable_per_peer || known >= limits.documents_per_peer;
        let asked = match peer.asked.entry(document.clone()) {
            Entry::Occupied(asked) => asked.into_mut(),
            Entry::Vacant(_) if is_full => return Err(Fault::TooMany("documents")),
            Entry::Vacant(place) => {
                self.effects.push(Effect::Ask { connection, document });
                place.insert(Asked { since_ms: self.now_ms, messages: Vec::new() })
            }
        };
        if asked.messages.len() >= limits.asking {
            return Err(Fault::TooMany("messages about a document before its rights"));
        }
        asked.messages.push(data.to_vec());
        peer.pending_bytes += data.len();
        if peer.pending_bytes > limits.pending_bytes {
            self.pause(connection);
        }
        Ok(())
    }

    pub(super) fn answered(
        &mut self,
        connection: ConnectionId,
        document: DocumentId,
        rights: Rights,
    ) {
        let limits = self.config.limits;
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        let asked = peer.asked.remove(&document);
        let was = peer.access.to(&document);
        let is_open = peer.documents.contains(&document);
        // Nothing is kept of documents refused: strangers name as many as they like.
        match rights {
            Rights::None => peer.access.documents.remove(&document),
            _ => peer.access.documents.insert(document.clone(), rights),
        };
        if is_open && was != rights {
            self.exchange_anew(connection, document.clone(), rights);
        }
        let Some(asked) = asked else { return };
        let bytes: usize = asked.messages.iter().map(Vec::len).sum();
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.pending_bytes = peer.pending_bytes.saturating_sub(bytes);
            if rights == Rights::None {
                peer.absent.entry(document).or_insert(asked.since_ms + limits.absent_ms);
                return;
            }
        }
        for data in asked.messages {
            if let Err(fault) = self.sync(connection, document.clone(), &data) {
                self.fault(connection, fault);
            }
        }
    }

    pub(super) fn deny(&mut self, document: DocumentId, is_denied: bool) {
        if is_denied {
            self.expel(&document);
            self.denied.insert(document);
        } else {
            self.denied.remove(&document);
        }
    }

    pub(super) fn expel(&mut self, document: &DocumentId) {
        // Heads that were shared are not here any more, once the document is removed.
        self.remembered.retain(|(_, known), _| known != document);
        let Some(entry) = self.documents.get(document) else { return };
        for connection in entry.shares.keys().copied().collect::<Vec<_>>() {
            self.unshare(connection, document);
            self.send(connection, Message::Unavailable { document: document.clone() });
        }
        self.evict(document);
    }
}
