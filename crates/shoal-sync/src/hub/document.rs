//! A document in memory, and its exchange with each peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shoal_history::{Change, ChangeGraph, ChangeHash, SyncMessage, SyncState};

use crate::{ConnectionId, JobId};

/// A document with fewer changes is sent whole as its changes, without a snapshot.
const SNAPSHOT_MIN: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) is_loaded: bool,
    /// Durable changes only.
    pub(super) graph: ChangeGraph,
    pub(super) waiting: BTreeMap<ChangeHash, Change>,
    pub(super) shares: BTreeMap<ConnectionId, Share>,
    /// Jobs on their way to the disk.
    pub(super) jobs: BTreeMap<JobId, (ConnectionId, usize)>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) is_saving: bool,
    /// The time since the last peer left.
    pub(super) idle_ms: Option<u64>,
}

/// Every change up to a time as one chunk, for peers with nothing.
#[derive(Debug)]
pub(super) struct Snapshot {
    bytes: Arc<Vec<u8>>,
    heads: Vec<ChangeHash>,
    changes: usize,
}

/// The exchange of a document with a peer, on one connection.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) sync: SyncState,
    /// Messages not taken in yet: their changes, or those of messages before them,
    /// are not durable, or the document is being read.
    pub(super) pending: VecDeque<Pending>,
    /// Changes of the peer were refused: its messages are ignored.
    pub(super) is_refused: bool,
    /// The heads at which both were last found equal.
    pub(super) in_sync: Option<Vec<ChangeHash>>,
    /// Bytes of the latest message taken in, changes left out: `sync` keeps these.
    pub(super) told_bytes: usize,
    /// The time of the first message.
    pub(super) since_ms: u64,
    /// The peer, a reader, has heard that its changes are not taken.
    pub(super) is_told_read_only: bool,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) message: SyncMessage,
    pub(super) stage: Stage,
    /// Bytes of the message, changes left out.
    pub(super) told_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The document is being read.
    Unread,
    /// The changes are being stored.
    Storing(JobId),
    /// Waits for the messages before it.
    Ready,
}

impl Share {
    pub(super) fn new(sync: SyncState, since_ms: u64) -> Self {
        Self {
            sync,
            pending: VecDeque::new(),
            is_refused: false,
            in_sync: None,
            told_bytes: 0,
            since_ms,
            is_told_read_only: false,
        }
    }
}

impl Document {
    /// Takes in durable changes; true when there are new ones.
    pub(super) fn add(&mut self, changes: Vec<Change>, waiting: Vec<Change>) -> bool {
        let mut is_new = false;
        for change in changes {
            let added = self.graph.add(change);
            is_new |= added.expect("changes of a stored document follow their dependencies");
        }
        self.waiting = waiting.into_iter().map(|change| (change.hash(), change)).collect();
        is_new
    }

    /// Keeps a snapshot of every change of now.
    pub(super) fn keep_snapshot(&mut self, bytes: Option<Arc<Vec<u8>>>) {
        self.is_saving = false;
        let heads = if bytes.is_some() { self.graph.heads() } else { Vec::new() };
        let bytes = bytes.unwrap_or_default();
        self.snapshot = Some(Snapshot { bytes, heads, changes: self.graph.len() });
    }

    /// True when nobody needs the document in memory.
    pub(super) fn may_leave(&self) -> bool {
        self.idle_ms.is_some() && self.is_loaded && self.jobs.is_empty()
    }

    /// True when a snapshot is worth its making before the document is sent whole.
    pub(super) fn lacks_snapshot(&self) -> bool {
        let known = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.changes);
        self.graph.len() - known.min(self.graph.len()) > SNAPSHOT_MIN.max(known / 4)
    }

    /// The next sync message for the peer of a share.
    pub(super) fn generate(&mut self, connection: ConnectionId) -> Option<SyncMessage> {
        let Self { graph, waiting, shares, snapshot, .. } = self;
        let share = shares.get_mut(&connection)?;
        share.sync.generate(
            graph,
            |heads| missing(graph, waiting, heads),
            || match snapshot {
                Some(snapshot) => {
                    let since = graph.changes_since(&snapshot.heads);
                    whole(snapshot.bytes.to_vec(), since.into_iter())
                }
                None => whole(Vec::new(), graph.changes()),
            },
        )
    }
}

/// The changes to fetch in order to reach `heads`, ascending.
fn missing(
    graph: &ChangeGraph,
    waiting: &BTreeMap<ChangeHash, Change>,
    heads: &[ChangeHash],
) -> Vec<ChangeHash> {
    let mut missing = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = heads.to_vec();
    while let Some(hash) = open.pop() {
        if graph.contains(&hash) || !seen.insert(hash) {
            continue;
        }
        match waiting.get(&hash) {
            Some(change) => open.extend_from_slice(change.deps()),
            None => {
                missing.insert(hash);
            }
        }
    }
    missing.into_iter().collect()
}

fn whole<'a>(mut bytes: Vec<u8>, changes: impl Iterator<Item = &'a Change>) -> Vec<u8> {
    for change in changes {
        bytes.extend_from_slice(change.raw_bytes());
    }
    bytes
}
