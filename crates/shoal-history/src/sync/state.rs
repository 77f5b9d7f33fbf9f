//! What is known of a peer, for one document (format: sync, state).
//!
//! Saved layout: `0x43`, then the number of shared heads and these. All else belongs to one
//! connection. What follows is ignored.

use rustc_hash::FxHashSet;

use super::message::{Have, read_hashes, write_hashes};
use crate::column::leb128::Reader;
use crate::{ChangeHash, Error, Fault};

const STRUCTURE: &str = "sync state";
const STATE: u8 = 0x43;

/// How far the exchange of one document with one peer has come.
///
/// Save it with [`encode`](Self::encode) when the same peer will be met again, and go on with
/// [`decode`](Self::decode) on every new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// What both peers are known to have, ascending.
    pub(super) shared_heads: Vec<ChangeHash>,
    pub(super) last_sent_heads: Vec<ChangeHash>,
    pub(super) their_heads: Option<Vec<ChangeHash>>,
    pub(super) their_need: Option<Vec<ChangeHash>>,
    pub(super) their_have: Option<Vec<Have>>,
    /// What was sent and has not arrived yet as far as is known.
    pub(super) sent: FxHashSet<ChangeHash>,
    /// Whether an answer is awaited.
    pub(super) in_flight: bool,
    /// Whether the peer has heard of us at all.
    pub(super) have_responded: bool,
    pub(super) their_capabilities: Capabilities,
    pub(super) read_only: bool,
    pub(super) peer_read_only: bool,
    /// Whether the peer is to be told to forget what it has sent.
    pub(super) needs_reset: bool,
    pub(super) max_message_bytes: Option<usize>,
    pub(super) confirms: bool,
    /// Whether the whole document was once too large for a message: it does not shrink.
    pub(super) whole_too_large: bool,
}

/// What the peer said it understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    pub(super) v2: bool,
    pub(super) reset: bool,
}

impl SyncState {
    /// The state for a peer that nothing is known of.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`new`](Self::new), and nothing that the peer sends will be applied.
    pub fn new_read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }

    /// What of the state outlives a connection.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![STATE];
        write_hashes(&self.shared_heads, &mut out);
        out
    }

    /// Reads a saved state, for a new connection. Whether changes are applied and how large
    /// messages may be is not saved.
    ///
    /// # Errors
    /// [`Error::Sync`] when the bytes are no saved state.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fault = |part| move |fault| Error::Sync { structure: STRUCTURE, part, fault };
        let mut reader = Reader::new(bytes);
        match reader.byte().map_err(fault("type"))? {
            STATE => {}
            other => return Err(fault("type")(Fault::OutOfRange(i64::from(other)))),
        }
        let shared_heads = read_hashes(&mut reader).map_err(fault("shared heads"))?;
        Ok(Self { shared_heads, their_have: Some(Vec::new()), ..Self::default() })
    }

    /// What both peers are known to have.
    pub fn shared_heads(&self) -> &[ChangeHash] {
        &self.shared_heads
    }

    /// The heads that the peer last told.
    pub fn their_heads(&self) -> Option<&[ChangeHash]> {
        self.their_heads.as_deref()
    }

    /// Whether what the peer sends is ignored.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether the peer, as it last told, ignores what is sent; nothing is, then.
    pub fn is_peer_read_only(&self) -> bool {
        self.peer_read_only
    }

    /// Begins or ends ignoring what the peer sends. At the end the exchange starts anew, and the
    /// peer is told to send again what was ignored.
    pub fn set_read_only(&mut self, read_only: bool) {
        if self.read_only == read_only {
            return;
        }
        if read_only {
            self.read_only = true;
            // The peer is to hear of it even when there is nothing else to say.
            self.in_flight = false;
            self.have_responded = false;
        } else {
            *self = Self {
                their_capabilities: self.their_capabilities,
                max_message_bytes: self.max_message_bytes,
                confirms: self.confirms,
                whole_too_large: self.whole_too_large,
                needs_reset: true,
                ..Self::default()
            };
        }
    }

    /// Whether a peer that names our heads is told the same heads once, unless they were sent to
    /// the peer before; the reference keeps silent.
    ///
    /// A peer takes our heads as the receipt of its changes. Where its next message arrives while
    /// its changes are still on their way to the disk, silence would withhold the receipt for ever.
    pub fn set_confirms(&mut self, confirms: bool) {
        self.confirms = confirms;
    }

    /// The most bytes that a message shall have, if that is bounded.
    pub fn max_message_bytes(&self) -> Option<usize> {
        self.max_message_bytes
    }

    /// Bounds the messages to come; `None`, the default, is what the reference does.
    ///
    /// What would be larger goes in pieces, each sent when the peer has answered the last one; any
    /// peer accepts that. Summaries of what is here take at most half of the bound, and are less
    /// precise where that is not enough. A message is larger only when a single change is, or the
    /// lists of heads and needed changes are.
    pub fn set_max_message_bytes(&mut self, max_bytes: Option<usize>) {
        self.max_message_bytes = max_bytes;
        self.whole_too_large = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_shared_heads_are_saved() {
        let shared_heads = vec![ChangeHash([1; 32]), ChangeHash([2; 32])];
        let mut state = SyncState::new_read_only();
        state.shared_heads.clone_from(&shared_heads);
        state.sent.insert(ChangeHash([3; 32]));
        state.set_max_message_bytes(Some(5));
        state.in_flight = true;
        let bytes = state.encode();
        assert_eq!(bytes.len(), 66);
        assert_eq!(bytes[..3], [0x43, 2, 1]);
        let again = SyncState::decode(&bytes).unwrap();
        let expect =
            SyncState { shared_heads, their_have: Some(Vec::new()), ..SyncState::default() };
        assert_eq!(again, expect);
    }

    #[test]
    fn refusals() {
        let message = |bytes: &[u8]| SyncState::decode(bytes).unwrap_err().to_string();
        assert_eq!(message(&[]), "sync state: type: ends too early");
        assert_eq!(message(&[0x42, 0]), "sync state: type: number out of range: 66");
        assert_eq!(message(&[0x43, 1, 0]), "sync state: shared heads: ends too early");
        let most = [0x43, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(message(&most), "sync state: shared heads: ends too early");
        assert!(SyncState::decode(&[0x43, 0, 9]).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0_u8..4) {
            let _ = SyncState::decode(&bytes);
            let bytes = [&[STATE, count], &bytes[..]].concat();
            if let Ok(state) = SyncState::decode(&bytes) {
                prop_assert!(bytes.starts_with(&state.encode()));
            }
        }
    }
}
