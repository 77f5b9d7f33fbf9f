//! The arguments of `shoal serve` and `shoal sync`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `shoal serve`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Clients of automerge-repo need no change: their WebSocket adapter is given ws://HOST:PORT. A change \
is acknowledged, and told to others, after it is safe on the disk. Documents are named by their \
automerge-repo ids, so that shoal doc show DB::ID and SQL on the same file read them meanwhile.

Whoever reaches the port and knows a document's id may read and change it: the address is this \
machine's unless another is given. The page at / and the API ask for the admin token, printed at \
the start, or read from a file.

Examples:
  shoal serve app.db
  shoal serve app.db --listen 0.0.0.0:3030 --allow-origin https://app.example.com")]
pub(crate) struct ServeArgs {
    /// The database; a missing one is created
    #[arg(value_name = "DB", default_value = "shoal.db")]
    pub(crate) database: PathBuf,
    /// The address and port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3030")]
    pub(crate) listen: SocketAddr,
    /// Origin of web pages that may connect (* for any); may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Read the admin token from a file instead of making one
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
}

/// `shoal sync`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The server is shoal serve, or any sync server of automerge-repo. Without DOC every document of the \
database with an automerge-repo id as its name is exchanged. A lost connection is made again; edits \
of other programs to the same file go out, and what comes in is in the file at once.

Examples:
  shoal sync notes.db ws://127.0.0.1:3030
  shoal sync notes.db ws://127.0.0.1:3030 automerge:2akvofn6L1o4RMUEMQi7qzwRjKWZ --once")]
pub(crate) struct SyncArgs {
    /// The database; a missing one is created
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// ws://HOST[:PORT]
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Ids or automerge: URLs of documents
    #[arg(value_name = "DOC")]
    pub(crate) documents: Vec<String>,
    /// End once each document is the same at both ends; fail when the server lacks one
    #[arg(long)]
    pub(crate) once: bool,
}
