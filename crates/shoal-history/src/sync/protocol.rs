//! What to send next and what to make of what came (format: sync, generate and receive).
//!
//! Behaves as the reference does, message by message, while no bound on their size is set. With a
//! bound, a message may hold only the first of the changes it would hold, dependencies before
//! dependents; the peer's answer brings the next ones out. Changes that the peer's heads reach are
//! never sent then, so that every piece is a new one, whatever the peer says it has.

use rustc_hash::FxHashSet;

use super::bloom::BloomFilter;
use super::message::{ChangeData, Have, SyncFlags, SyncMessage, SyncVersion};
use super::state::{Capabilities, SyncState};
use crate::{Change, ChangeGraph, ChangeHash};

/// A message with a change in it is this much longer at most than its parts.
const ENTRY_OVERHEAD: usize = 10;

/// With more shared heads than this it is worth a walk to see which of them are ancestors.
const MANY_SHARED_HEADS: usize = 8;

impl SyncState {
    /// The next message for the peer, or `None` when there is nothing to tell, or an answer is
    /// awaited.
    ///
    /// `missing` gets the heads that the peer told, and says, ascending, which changes must be
    /// fetched to reach them: usually those of them that are not in the graph, unless some wait
    /// for their dependencies elsewhere. `save` gives the whole document as chunks, and is called
    /// only to send that, to peers who lack much of it.
    ///
    /// Cost: what the peers are apart; when they agree, nothing grows with the document.
    pub fn generate(
        &mut self,
        graph: &ChangeGraph,
        missing: impl FnOnce(&[ChangeHash]) -> Vec<ChangeHash>,
        save: impl FnOnce() -> Vec<u8>,
    ) -> Option<SyncMessage> {
        let our_heads = graph.heads();
        // The reference does so too when it is read-only. Its peer then goes on answering with what
        // it ignores, for ever, and never gets its changes.
        if !self.read_only
            && let Some(first) = self.their_have.as_ref().and_then(|have| have.first())
            && !first.last_sync.iter().all(|hash| graph.contains(hash))
        {
            return Some(reset(our_heads));
        }
        let told = self.have_responded && self.last_sent_heads == our_heads;
        if told && self.in_flight {
            return None;
        }
        let plan = self.plan(graph);
        let has_changes = match &plan {
            Plan::Whole => !graph.is_empty(),
            Plan::Changes(changes) => !changes.is_empty(),
        };
        let agreed = self.read_only || self.their_heads.as_deref() == Some(&our_heads[..]);
        if told && agreed && !has_changes {
            return None;
        }

        let their_heads = self.their_heads.as_deref().unwrap_or_default();
        let need = if self.read_only { Vec::new() } else { missing(their_heads) };
        let have = if is_subset(&need, their_heads) {
            let max_bytes = self.max_message_bytes.map_or(usize::MAX, |max| max / 2);
            let hashes = graph.hashes_since(&self.shared_heads);
            let bloom = BloomFilter::from_hashes_within(hashes.iter(), max_bytes);
            vec![Have { last_sync: self.shared_heads.clone(), bloom }]
        } else {
            Vec::new()
        };
        self.have_responded = true;
        self.in_flight = true;
        self.last_sent_heads.clone_from(&our_heads);
        let mut flags = SyncFlags::SUPPORTS_RESET;
        if self.read_only {
            flags = flags.with(SyncFlags::READ_ONLY);
        }
        let mut heads = our_heads;
        if std::mem::take(&mut self.needs_reset) {
            if self.their_capabilities.reset {
                flags = flags.with(SyncFlags::RESET);
            } else {
                // To whom that flag says nothing, we seem to have lost everything.
                heads = Vec::new();
            }
        }
        let version = if self.their_capabilities.v2 { SyncVersion::V2 } else { SyncVersion::V1 };
        let changes = ChangeData::new();
        let mut message = SyncMessage { version, heads, need, have, changes, flags: Some(flags) };
        self.add_changes(graph, plan, save, &mut message);
        Some(message)
    }

    /// Takes note of what a message says of its sender. Whether its
    /// [`changes`](SyncMessage::changes) must be applied before
    /// [`finish_receive`](Self::finish_receive) is called; when that fails, it is not called.
    pub fn begin_receive(&mut self, message: &SyncMessage) -> bool {
        self.in_flight = false;
        if let Some(flags) = message.flags {
            let reset = flags.contains(SyncFlags::SUPPORTS_RESET);
            self.their_capabilities = Capabilities { v2: true, reset };
            if flags.contains(SyncFlags::RESET) {
                self.sent = FxHashSet::default();
            }
            self.peer_read_only = flags.contains(SyncFlags::READ_ONLY);
        }
        !message.changes.is_empty() && !self.read_only
    }

    /// Takes in the rest of a message. `graph` holds its changes by now, as far as they can be
    /// applied; `heads_before` are the heads before that, ascending.
    pub fn finish_receive(
        &mut self,
        message: SyncMessage,
        graph: &ChangeGraph,
        heads_before: &[ChangeHash],
    ) {
        let SyncMessage { heads, need, have, changes, .. } = message;
        if !changes.is_empty() && !self.read_only {
            let now = graph.heads();
            let mut shared = std::mem::take(&mut self.shared_heads);
            shared.retain(|head| now.binary_search(head).is_ok());
            shared.extend(now.into_iter().filter(|head| heads_before.binary_search(head).is_err()));
            self.shared_heads = sorted(shared);
        }
        graph.remove_reached(&heads, &mut self.sent);
        if changes.is_empty() && heads == heads_before && !self.confirms {
            self.last_sent_heads.clone_from(&heads);
        }
        if heads.iter().all(|head| graph.contains(head)) {
            self.shared_heads.clone_from(&heads);
            // A peer without heads has lost everything, or has never had anything.
            if heads.is_empty() {
                self.last_sent_heads.clear();
                self.sent = FxHashSet::default();
            }
        } else {
            let known = heads.iter().copied().filter(|head| graph.contains(head));
            let mut shared = std::mem::take(&mut self.shared_heads);
            shared.extend(known);
            self.shared_heads = sorted(shared);
            // Each piece may bring another one, which those after it make superfluous.
            if self.max_message_bytes.is_some() && self.shared_heads.len() > MANY_SHARED_HEADS {
                graph.retain_heads(&mut self.shared_heads);
            }
        }
        self.their_have = Some(have);
        self.their_heads = Some(heads);
        self.their_need = Some(need);
    }

    /// Whether the peer is known to have everything that is in the graph, and nothing else is
    /// known of it.
    pub fn has_all_of(&self, graph: &ChangeGraph) -> bool {
        graph.heads() == self.shared_heads
    }

    fn plan<'a>(&self, graph: &'a ChangeGraph) -> Plan<'a> {
        let (Some(have), Some(need)) = (&self.their_have, &self.their_need) else {
            return Plan::Changes(Vec::new());
        };
        if self.peer_read_only {
            return Plan::Changes(Vec::new());
        }
        let may_send_whole = self.their_capabilities.v2 && !self.whole_too_large;
        if may_send_whole && self.their_heads.as_ref().is_some_and(Vec::is_empty) {
            return Plan::Whole;
        }
        let changes = self.changes_for_peer(graph, have, need);
        if may_send_whole && changes.len() > graph.len() / 3 {
            return Plan::Whole;
        }
        Plan::Changes(changes)
    }

    fn changes_for_peer<'a>(
        &self,
        graph: &'a ChangeGraph,
        have: &[Have],
        need: &[ChangeHash],
    ) -> Vec<&'a Change> {
        let known = match self.max_message_bytes {
            Some(_) => self.their_heads.as_deref().unwrap_or_default(),
            None => &[],
        };
        let last_syncs = have.iter().flat_map(|have| &have.last_sync);
        let since: Vec<ChangeHash> = last_syncs.chain(known).copied().collect();
        let since = (!have.is_empty()).then_some(&since[..]);
        let lacks = |hash: &ChangeHash| have.iter().all(|have| !have.bloom.contains(hash));
        graph.changes_for(since, lacks, need, &self.sent)
    }

    /// Puts what was planned into the message, or as much of it as the bound allows.
    fn add_changes(
        &mut self,
        graph: &ChangeGraph,
        plan: Plan<'_>,
        save: impl FnOnce() -> Vec<u8>,
        message: &mut SyncMessage,
    ) {
        let max_bytes = self.max_message_bytes.unwrap_or(usize::MAX);
        let mut room = max_bytes.saturating_sub(message.encoded_len());
        let changes = match plan {
            Plan::Changes(changes) => changes,
            Plan::Whole => {
                let bytes = save();
                if bytes.len().saturating_add(ENTRY_OVERHEAD) <= room || graph.is_empty() {
                    message.changes = ChangeData::whole(bytes);
                    self.sent.extend(graph.changes().map(Change::hash));
                    return;
                }
                self.whole_too_large = true;
                let have = self.their_have.as_deref().unwrap_or_default();
                let need = self.their_need.as_deref().unwrap_or_default();
                self.changes_for_peer(graph, have, need)
            }
        };
        let overhead = if message.version == SyncVersion::V1 { ENTRY_OVERHEAD } else { 0 };
        if message.version == SyncVersion::V2 {
            room = room.saturating_sub(ENTRY_OVERHEAD);
        }
        let mut count = 0;
        for change in &changes {
            let len = change.raw_bytes().len() + overhead;
            if len > room && count > 0 {
                break;
            }
            room = room.saturating_sub(len);
            count += 1;
        }
        let changes = &changes[..count];
        match message.version {
            SyncVersion::V1 => {
                for change in changes {
                    message.changes.push(change.raw_bytes());
                }
            }
            SyncVersion::V2 => {
                let len = changes.iter().map(|change| change.raw_bytes().len()).sum();
                let mut bytes = Vec::with_capacity(len);
                for change in changes {
                    bytes.extend_from_slice(change.raw_bytes());
                }
                message.changes = ChangeData::whole(bytes);
            }
        }
        self.sent.extend(changes.iter().map(|change| change.hash()));
    }
}

enum Plan<'a> {
    /// The whole document.
    Whole,
    /// These changes, or none.
    Changes(Vec<&'a Change>),
}

/// The message to a peer that counts on changes which are not here: we had them, and lost them.
fn reset(heads: Vec<ChangeHash>) -> SyncMessage {
    SyncMessage {
        version: SyncVersion::V1,
        heads,
        need: Vec::new(),
        have: vec![Have::default()],
        changes: ChangeData::new(),
        flags: Some(SyncFlags::SUPPORTS_RESET),
    }
}

/// Not by looking each up in a list: strangers choose how many there are.
fn is_subset(hashes: &[ChangeHash], of: &[ChangeHash]) -> bool {
    let of = sorted(of.to_vec());
    hashes.iter().all(|hash| of.binary_search(hash).is_ok())
}

fn sorted(mut hashes: Vec<ChangeHash>) -> Vec<ChangeHash> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}
