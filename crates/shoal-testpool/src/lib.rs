//! A pool and a node to try a miner on.
//!
//! [`TestPool`] speaks the pool's protocol over TCP, [`TestNode`] the node's over HTTP, both on
//! this machine only and in the process that starts them. They keep the rules of the real ones,
//! down to the words of a refusal, and check every share by a hash. The differences are settings:
//! how much memory a hash takes (the 2 GiB of the chain, or a few KiB in tests), how hard shares
//! are, and the faults of real servers and networks ([`Faults`], [`NodeFaults`]).
//! For tests and for trying out: shares no code with the miner's own clients, so each checks
//! the other. Threads and blocking sockets, one thread a connection.

#![forbid(unsafe_code)]

pub mod address;
mod faults;
mod http;
mod ledger;
mod log;
mod node;
mod pool;
mod rules;
mod vardiff;
mod work;

pub use faults::{Faults, NodeFaults};
pub use node::{NodeEvent, NodeSettings, TestNode};
pub use pool::{Event, TestPool};
pub use rules::{Accepted, Rules};
pub use vardiff::{Vardiff, VardiffRules};
pub use work::{Header, Template};

/// Bytes from the operating system; without any, there is nothing to test either.
fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}
