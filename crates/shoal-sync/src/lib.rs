//! automerge-repo's network protocol as a state machine: events in, effects out.
//!
//! A [`Hub`] is one end of many connections: the server's, or the client's, who dials. Its driver
//! tells it of frames, of documents read and changes stored, and of the time; the hub answers with
//! frames to send, changes to store and connections to close. Knows no sockets, files, clocks or
//! threads, so that a server, a client and a simulator run the same code.
//!
//! The hub's graph of a document holds durable changes only: the driver reports a change by
//! [`Event::Stored`] after the fsync of the transaction that stored it. Heads and changes are told
//! from that graph, so nothing is told before it is durable.

#![forbid(unsafe_code)]

mod access;
mod cbor;
mod counters;
mod event;
mod fault;
mod hub;
mod id;
mod limits;
mod message;

pub use access::{Access, Glob, Purse, Rights};
pub use counters::Counters;
pub use event::{ConnectionId, Contents, Effect, Event, JobId, Role, Stored};
pub use fault::Fault;
pub use hub::{Config, DocumentInfo, Hub, PeerInfo, Totals};
pub use id::{DocumentId, base58_check};
pub use limits::Limits;
pub use message::{Ephemeral, Frame, Message, Metadata};
