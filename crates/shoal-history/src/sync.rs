//! The sync protocol: what two peers tell each other until both have every change (versions 1
//! and 2, to the byte as the reference speaks it).
//!
//! A [`SyncState`] belongs to one peer and one document. [`SyncState::generate`] says what to send
//! next, [`SyncState::begin_receive`] and [`SyncState::finish_receive`] take in what came. All of
//! it needs the graph of changes only, and no op set: whoever has none sends single changes where
//! others may send a whole document. Messages must arrive whole and in order; when a connection is
//! lost, go on with a state that was encoded and decoded.

mod bloom;
mod message;
mod protocol;
mod state;

pub use bloom::BloomFilter;
pub use message::{ChangeData, Have, SyncFlags, SyncMessage, SyncVersion};
pub use state::SyncState;
