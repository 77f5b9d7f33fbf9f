//! The pool's client: JSON lines over TCP, version 1 and 2 of the protocol.
//!
//! `message` knows what a line says, [`Dialogue`] what is said when (no sockets, no clock), `line`
//! where a line ends, and `client` connects them with a socket and comes back when it breaks.

mod client;
mod dialogue;
mod line;
mod message;
mod refusal;
mod url;

pub(crate) use client::finished;
pub use client::{PoolOptions, connect};
pub use dialogue::{Dialogue, Effect, Identity, Limits, Retry};
pub use line::{LineError, Lines};
pub use message::{Incoming, Job, ProtocolError};
pub use refusal::Refusal;
pub use url::{PoolUrl, UrlError};
