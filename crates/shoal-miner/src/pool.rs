//! The pool's client: JSON lines over TCP, version 1 and 2 of the protocol.
//!
//! `message` reads and writes single lines, [`Dialogue`] decides (no sockets, no clock), `line`
//! cuts the stream, and `client` owns the socket and opens another when it breaks.

mod blocks;
mod client;
mod dialogue;
mod line;
mod message;
mod refusal;
mod step;
mod url;

pub(crate) use client::finished;
pub use client::{PoolOptions, connect};
pub use dialogue::{Dialogue, Effect, Identity, Limits, Retry};
pub use line::{LineError, Lines};
pub use message::{Incoming, Job, ProtocolError};
pub use refusal::Refusal;
pub use url::{PoolUrl, UrlError};
