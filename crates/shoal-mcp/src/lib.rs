//! A Model Context Protocol server: one database for agents, over stdin and stdout or over HTTP.
//!
//! The protocol is the official SDK's, `rmcp`: `handler` is the service driven by the SDK, `http`
//! checks a request before the SDK. Each call of a tool becomes a question to one thread
//! with the database (`desk`), and is bounded there: in time, rows and bytes, and by a cancellation
//! of the client. `opening` alone opens the database, and the `Guard` of `shoal-server` alone
//! decides on statements to the whole of it. Tools read through `seen`: everything, or the grants
//! of a principal. The tools lie under `tools`, the paging of their rows in `page`.
//!
//! Refusals are sentences for the model behind the call, with a way to repair the call (`refusal`).

#![forbid(unsafe_code)]

mod cell;
mod desk;
mod handler;
mod http;
mod instructions;
mod opening;
mod page;
mod refusal;
mod resources;
mod seen;
mod serve;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use shoal::Environment;

pub use http::{HttpOptions, HttpServer};
pub use serve::{serve_http, serve_streams};
pub use shoal_server::RulesFor;

/// A database for agents.
#[derive(Clone)]
pub struct Options {
    /// Files, clock, and the keys of sealed files.
    pub environment: Environment,
    /// The database.
    pub path: PathBuf,
    /// True lets tools write: rows, definitions and documents, in this file alone; under rules rows
    /// as far as rules grant.
    pub is_writable: bool,
    /// The bounds of one answer.
    pub limits: AnswerLimits,
    /// Rules narrow the tools to the grants of principals. `None` shows the whole database.
    pub rules: Option<RulesFor>,
}

/// The bounds of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Rows of a page at most, however many are asked for.
    pub rows: usize,
    /// Bytes of an answer, about; never below [`AnswerLimits::BYTES_MIN`].
    pub bytes: usize,
    /// The longest run of one call.
    pub time: Duration,
    /// Memory of one statement; beyond, rows are spilled to temporary files.
    pub memory_bytes: u64,
}

impl AnswerLimits {
    /// Fewer bytes would leave no room for an answer.
    pub const BYTES_MIN: usize = 1 << 10;
}

impl Default for AnswerLimits {
    fn default() -> AnswerLimits {
        AnswerLimits {
            rows: 1000,
            bytes: 64 << 10,
            time: Duration::from_secs(10),
            memory_bytes: 256 << 20,
        }
    }
}

/// Why a server could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be opened or read, for this reason.
    #[error("{0}")]
    Database(String),
    /// Rules out of reach, unfit for the tables, or without a grant for the principal.
    #[error("{0}")]
    Rules(String),
    /// The address cannot be listened on, or a thread cannot be started.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The client's first message is none of the protocol.
    #[error("the client did not begin as the protocol says: {0}")]
    Protocol(String),
    /// A server with a policy and without rules, the other way about, or with two principals.
    #[error("{0}")]
    Principals(&'static str),
    /// An address within reach of other machines, without a token.
    #[error("{0} can be reached by other machines: a token has to be asked of them")]
    Open(std::net::SocketAddr),
}
