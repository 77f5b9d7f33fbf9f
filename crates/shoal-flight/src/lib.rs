//! An Arrow Flight SQL server: queries of one database as batches of Arrow, for any client of the
//! protocol.
//!
//! The protocol is `arrow-flight`'s and the sockets are `tonic`'s: `server` listens, `door` judges
//! each request by its token, `service` has the commands. Each statement runs on a thread of its
//! own with a connection of its own (`desk`), bounded in time and number, and ends with its client
//! (`stop`). `readers` alone opens the file; under rules its connections are narrowed to a
//! principal. SQL is Shoal's, and nothing is written.
//!
//! A client first asks for the way to an answer and is told its schema and a ticket (`question`),
//! then fetches the rows (`results`). A column of Arrow holds values of one type: `shape` says
//! where the types come from.

#![forbid(unsafe_code)]

mod catalog;
mod desk;
mod door;
mod facts;
mod kept;
mod prepared;
mod question;
mod readers;
mod results;
mod server;
mod service;
mod shape;
mod stop;

use std::path::PathBuf;
use std::time::Duration;

use shoal::Environment;
use shoal_server::Unguarded;

pub use server::{DoorOptions, FlightServer, serve};
pub use shoal_server::RulesFor;

/// A database for clients of Flight SQL.
#[derive(Clone)]
pub struct Options {
    /// Files, clock, and the keys of sealed files.
    pub environment: Environment,
    /// The database.
    pub path: PathBuf,
    /// Rules narrow answers to the grants of principals. `None` shows the whole database.
    pub rules: Option<RulesFor>,
    /// Where the types of columns come from.
    pub types: Types,
    /// Statements running at a time; others wait.
    pub statements: usize,
    /// The longest run of one statement, the client's time between rows included.
    pub time: Duration,
    /// Memory of one statement; beyond, rows are spilled to temporary files.
    pub memory_bytes: u64,
}

impl Options {
    /// A database for everybody, with the usual bounds.
    pub fn new(environment: Environment, path: PathBuf) -> Options {
        Options {
            environment,
            path,
            rules: None,
            types: Types::default(),
            statements: 16,
            time: Duration::from_secs(600),
            memory_bytes: 256 << 20,
        }
    }
}

/// Where the types of a result's columns come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Types {
    /// From the declarations of tables, and from the values where none tells.
    #[default]
    Declared,
    /// From the values: every statement is run to its end before it is answered, and no value is an
    /// error.
    Values,
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
    /// The door would let in too many.
    #[error(transparent)]
    Unguarded(#[from] Unguarded),
    /// An unusable certificate or key, or a build without TLS.
    #[error("{0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
