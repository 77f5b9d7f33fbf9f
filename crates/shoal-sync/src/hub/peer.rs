//! One connection, and the peer behind it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Access, DocumentId, Fault, Limits, Metadata, Role};

/// A rate with a burst: tokens come back with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    milli_tokens: u64,
    at_ms: u64,
}

impl Bucket {
    pub(super) const fn full(burst: u64, now_ms: u64) -> Self {
        Self { milli_tokens: burst * 1000, at_ms: now_ms }
    }

    fn fill(&mut self, per_second: u64, burst: u64, now_ms: u64) {
        let gained = now_ms.saturating_sub(self.at_ms).saturating_mul(per_second);
        self.milli_tokens = self.milli_tokens.saturating_add(gained).min(burst * 1000);
        self.at_ms = now_ms;
    }

    /// Takes a token; false when there is none.
    pub(super) fn take(&mut self, per_second: u64, burst: u64, now_ms: u64) -> bool {
        self.fill(per_second, burst, now_ms);
        let left = self.milli_tokens.checked_sub(1000);
        self.milli_tokens = left.unwrap_or(self.milli_tokens);
        left.is_some()
    }

    /// True when a tenth of a second's tokens, or one, are there.
    fn has_some(&mut self, per_second: u64, burst: u64, now_ms: u64) -> bool {
        self.fill(per_second, burst, now_ms);
        self.milli_tokens >= (per_second * 100).max(1000)
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) role: Role,
    pub(super) access: Access,
    /// The peer is to be told so once it has joined.
    pub(super) refusal: Option<Fault>,
    /// The peer's id, known since the join.
    pub(super) name: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) connected_ms: u64,
    /// Bytes of frames in the driver's queue.
    pub(super) queued: usize,
    /// The last time a frame left the queue, or came into an empty one.
    pub(super) progress_ms: u64,
    /// Bytes taken since then.
    pub(super) progress_bytes: usize,
    /// Bytes of changes on their way to the disk.
    pub(super) pending_bytes: usize,
    /// Bytes of hashes and filters kept of the peer's messages.
    pub(super) told_bytes: usize,
    pub(super) is_paused: bool,
    pub(super) messages: Bucket,
    pub(super) ephemerals: Bucket,
    /// The last count of each session of ephemeral messages.
    pub(super) sessions: BTreeMap<String, u64>,
    pub(super) documents: BTreeSet<DocumentId>,
    /// Documents with possible news.
    pub(super) dirty: BTreeSet<DocumentId>,
    /// Absent documents, with the time to say so.
    pub(super) absent: BTreeMap<DocumentId, u64>,
    /// Documents asked about, with the messages that wait for the answer.
    pub(super) asked: BTreeMap<DocumentId, Asked>,
}

/// Messages about a document that wait for the rights to it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) since_ms: u64,
    pub(super) messages: Vec<Vec<u8>>,
}

impl Peer {
    pub(super) fn new(role: Role, access: Access, limits: &Limits, now_ms: u64) -> Self {
        Self {
            role,
            access,
            refusal: None,
            name: None,
            metadata: Metadata::default(),
            connected_ms: now_ms,
            queued: 0,
            progress_ms: now_ms,
            progress_bytes: 0,
            pending_bytes: 0,
            told_bytes: 0,
            is_paused: false,
            messages: Bucket::full(limits.message_burst, now_ms),
            ephemerals: Bucket::full(limits.ephemeral_burst, now_ms),
            sessions: BTreeMap::new(),
            documents: BTreeSet::new(),
            dirty: BTreeSet::new(),
            absent: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// True when a paused connection may be read again.
    pub(super) fn may_resume(&mut self, limits: &Limits, now_ms: u64) -> bool {
        self.pending_bytes <= limits.pending_bytes / 2
            && self.messages.has_some(limits.messages_per_second, limits.message_burst, now_ms)
    }

    /// The id for remembering shared heads, for peers with lasting storage.
    pub(super) fn storage_id(&self) -> Option<&str> {
        match self.metadata.is_ephemeral {
            true => None,
            false => self.metadata.storage_id.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let mut bucket = Bucket::full(2, 0);
        assert!(bucket.take(10, 2, 0));
        assert!(bucket.take(10, 2, 0));
        assert!(!bucket.take(10, 2, 50));
        assert!(bucket.take(10, 2, 100));
        assert!(!bucket.take(10, 2, 100));
        assert!(bucket.take(10, 2, 10_000));
        assert!(bucket.take(10, 2, 10_000));
        assert!(!bucket.take(10, 2, 10_000));
    }
}
