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
//!
//! Who may is a [`SharePolicy`]: open, signed tokens of a file ([`TokenFile`]), a server of the app
//! ([`Hook`]), or a program's own. Strangers may be admitted by work ([`AdmissionOptions`]).
//! Principals named by tokens read tables as far as a file of [`rules`] says. Several servers share
//! documents over NATS as relays ([`RelayOptions`]).

#![forbid(unsafe_code)]

mod accept;
mod admission;
mod bearers;
mod client;
mod database_thread;
mod dial;
mod doorman;
mod engine;
pub mod folder;
mod guard;
mod http;
mod metrics;
pub mod pair;
mod policy;
mod principals;
mod queries;
mod relay;
pub mod rules;
mod server;
mod socket;
mod storage;
mod tls;
pub mod token;
mod upgrade;
mod wire;

pub use admission::{AdmissionOptions, Keys, Unpaid};
pub use bearers::{Bearers, NotAdmitted, Unguarded};
pub use client::{Client, ClientNews, ClientOptions};
pub use database_thread::{AnswerThread, Unanswered};
pub use guard::{Guard, Ways};
pub use policy::{Asking, Credential, Hook, Open, SharePolicy, TokenFile, Verdict, Visit};
pub use principals::{NotNarrowed, Principals};
pub use relay::{RelayNews, RelayOptions};
pub use rules::RulesFor;
pub use server::{ServeOptions, Server};

pub use shoal_sync::{Access, DocumentId, Fault, Glob, Limits, Rights};

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
    /// A file of rules that cannot be used.
    #[error("{path}: {why}")]
    Rules {
        /// The file.
        path: String,
        /// The fault.
        why: String,
    },
    /// A certificate or a key that cannot be used, or a build without TLS.
    #[error("{0}")]
    Tls(String),
    /// A relay that cannot be begun, or a build without relays.
    #[error("{0}")]
    Relay(String),
    /// Two databases could not meet.
    #[error(transparent)]
    Pair(#[from] pair::PairError),
    /// A URL that is not of the kind asked for.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// The fault.
        why: &'static str,
    },
}
