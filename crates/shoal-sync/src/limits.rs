//! The bounds of a hub, in one place.

/// Bounds on strangers. Meeting one counts a fault of its word
/// ([`Fault::word`](crate::Fault::word)), or a pause of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame. Fault: `too_large`, the connection ends.
    pub frame_bytes: usize,
    /// Bytes of an ephemeral message. Fault: `too_large`, the connection ends.
    pub ephemeral_bytes: usize,
    /// Bytes of a peer id, a storage id, a session id. Fault: `peer_id`, the connection ends.
    pub id_bytes: usize,
    /// Open documents of one connection. Fault: `too_many`.
    pub documents_per_peer: usize,
    /// Documents in memory; ones without peers go first. Fault: `too_many`.
    pub documents: usize,
    /// Heads, and needed changes, in one sync message. Fault: `too_many`.
    pub hashes: usize,
    /// Bytes of hashes and filters kept of one connection, of all its documents: the latest message
    /// of each, and those that wait. Fault: `too_many`.
    pub told_bytes: usize,
    /// Messages a second of one connection. Paused beyond the burst.
    pub messages_per_second: u64,
    /// Messages at once.
    pub message_burst: u64,
    /// Ephemeral messages a second of one connection. Dropped beyond the burst: `too_many`.
    pub ephemeral_per_second: u64,
    /// Ephemeral messages at once.
    pub ephemeral_burst: u64,
    /// Sessions of ephemeral messages of one connection. Fault: `too_many`.
    pub ephemeral_sessions: usize,
    /// Bytes of a connection's changes on their way to the disk; beyond it is paused.
    pub pending_bytes: usize,
    /// Bytes queued for a connection, beyond which no sync message is made for it.
    pub queue_bytes: usize,
    /// Bytes queued for all connections, beyond which no sync message is made, and the slowest
    /// reader goes. Fault: `crowded`.
    pub total_queue_bytes: usize,
    /// Bytes queued for a connection, beyond which ephemeral messages to it are dropped.
    pub ephemeral_queue_bytes: usize,
    /// Changes of one document with missing dependencies.
    pub waiting_changes: usize,
    /// The greatest op counter. JavaScript clients cannot load a document with one near 2^32.
    pub op_counter: u32,
    /// Bytes of one outgoing sync message; more goes in pieces. Node's clients take 100 MiB.
    pub message_bytes: usize,
    /// Forbidden documents asked for by one connection at a time. Fault: `too_many`.
    pub unavailable_per_peer: usize,
    /// Shared heads remembered for departed peers with storage.
    pub remembered: usize,
    /// Milliseconds until a connection without a join ends. Fault: `no_join`.
    pub join_ms: u64,
    /// Milliseconds that a request for an absent document waits for its creator.
    pub absent_ms: u64,
    /// Milliseconds in which a reader with frames in its queue takes [`Self::stall_bytes`], or a
    /// whole frame. Fault: `slow`.
    pub stall_ms: u64,
    /// Bytes taken by the slowest reader in [`Self::stall_ms`].
    pub stall_bytes: usize,
    /// Milliseconds without progress after which a reader goes, while too much is queued for all.
    /// Fault: `crowded`.
    pub crowded_ms: u64,
    /// Messages of a connection about one document that wait for the answer to
    /// [`Effect::Ask`](crate::Effect::Ask). Fault: `too_many`.
    pub asking: usize,
    /// Tickets in use at a time. Fault: `too_many`.
    pub purses: usize,
    /// Milliseconds that a document stays in memory without peers.
    pub idle_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 64 << 20,
            ephemeral_bytes: 64 << 10,
            id_bytes: 256,
            documents_per_peer: 10_000,
            documents: 100_000,
            hashes: 1 << 16,
            told_bytes: 64 << 20,
            messages_per_second: 500,
            message_burst: 20_000,
            ephemeral_per_second: 200,
            ephemeral_burst: 1_000,
            ephemeral_sessions: 16,
            pending_bytes: 16 << 20,
            queue_bytes: 1 << 20,
            total_queue_bytes: 256 << 20,
            ephemeral_queue_bytes: 256 << 10,
            waiting_changes: 10_000,
            op_counter: i32::MAX as u32,
            message_bytes: 32 << 20,
            unavailable_per_peer: 1_000,
            remembered: 10_000,
            join_ms: 5_000,
            absent_ms: 500,
            stall_ms: 60_000,
            stall_bytes: 16 << 10,
            crowded_ms: 2_000,
            asking: 64,
            purses: 100_000,
            idle_ms: 10_000,
        }
    }
}
