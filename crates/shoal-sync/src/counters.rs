//! Counts of a hub since the start.

use std::collections::BTreeMap;

use crate::Fault;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections, closed ones included.
    pub connected: u64,
    /// Joins.
    pub joined: u64,
    /// Messages taken.
    pub received: u64,
    /// Bytes of frames taken.
    pub received_bytes: u64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes of frames sent.
    pub sent_bytes: u64,
    /// Changes of peers, stored.
    pub stored: u64,
    /// Ephemeral messages handed on, once for each receiver.
    pub ephemeral: u64,
    /// Ephemeral messages returned by their receivers.
    pub bounced: u64,
    /// Ephemeral messages dropped for slow readers.
    pub dropped: u64,
    /// Pauses of connections.
    pub paused: u64,
    /// Requests answered with doc-unavailable.
    pub unavailable: u64,
    /// Gossip of remote heads, taken and ignored.
    pub gossip: u64,
    /// Documents evicted.
    pub evicted: u64,
    /// Faults by word.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Counters {
    pub(crate) fn fault(&mut self, fault: &Fault) {
        *self.faults.entry(fault.word()).or_default() += 1;
    }
}
