//! A sync server for automerge-repo's clients, and a client of such servers, over a database.
//!
//! Three parts run beside each other. Sockets, of a server or a client, are tasks of a tokio
//! runtime.
//! The engine is a thread with the [`shoal_sync::Hub`], the decisions. The storage is a thread with
//! the [`shoal::Database`]: documents are read there, and all changes of the time of one fsync made
//! durable by the next one. A fourth thread answers the web page's questions, from a read-only
//! connection.
//!
//! | from | to | what |
//! | --- | --- | --- |
//! | socket | engine | frames, bounded in number; a socket is not read while the engine pauses it |
//! | engine | socket | frames, bounded in bytes by the hub |
//! | engine | storage | documents to open, changes to store, bounded in bytes by the hub |
//! | storage | engine | what is durable |

#![forbid(unsafe_code)]

mod client;
mod engine;
mod http;
mod metrics;
mod queries;
mod server;
mod socket;
mod storage;

pub use client::{Client, ClientNews, ClientOptions};
pub use server::{ServeOptions, Server};

use shoal_sync::Fault;
pub use shoal_sync::Limits;

/// Why a server or a client could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be opened or read.
    #[error(transparent)]
    Database(#[from] shoal::Error),
    /// The address cannot be listened on, or a thread cannot be started.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A name other than a document id.
    #[error("{name}: {fault}")]
    Name {
        /// The name.
        name: String,
        /// The fault.
        fault: Fault,
    },
    /// A URL that is no WebSocket's.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// The fault.
        why: &'static str,
    },
}
