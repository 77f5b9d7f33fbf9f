//! What a hub has done so far.

use std::collections::BTreeMap;

use crate::Fault;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that came.
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
    /// Changes stored that peers sent.
    pub stored: u64,
    /// Ephemeral messages handed on, once for each receiver.
    pub ephemeral: u64,
    /// Ephemeral messages that came back from their receivers.
    pub bounced: u64,
    /// Ephemeral messages dropped for slow readers.
    pub dropped: u64,
    /// Times that a connection was paused.
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
