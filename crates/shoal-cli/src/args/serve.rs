//! The arguments of `shoal serve` and `shoal sync`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::Format;

/// `shoal serve`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Clients of automerge-repo need no change: their WebSocket adapter is given ws://HOST:PORT. A change \
is acknowledged, and told to others, after it is safe on the disk. Documents are named by their \
automerge-repo ids, so that shoal doc show DB::ID and SQL on the same file read them meanwhile.

Without --tokens, --ask or --admission, whoever reaches the port and knows a document's id may \
read and change it: the address is this machine's unless another is given. The page at / and the \
API ask for the admin token, printed at the start, or read from a file.

With --tokens, clients are given ws://HOST:PORT/?token=TOKEN, made by shoal token new. With \
--admission, strangers work some seconds for a ticket: POST /admission, /admission.js for pages, \
shoal sync --pay.

With --nats, several servers, each with a database of its own, have the same documents: what one of \
them has stored is published, and stored by the others. While NATS is away edits go on, and are \
published later. The URL may be in SHOAL_NATS, where no list of processes shows its password.

Examples:
  shoal serve app.db
  shoal serve app.db --listen 0.0.0.0:3030 --tokens tokens.json --allow-origin https://app.example.com
  shoal serve app.db --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  shoal serve app.db --admission admission.key --anyone read
  shoal serve app.db --nats nats://10.0.0.1,nats://10.0.0.2,nats://10.0.0.3 --nats-replicas 3")]
pub(crate) struct ServeArgs {
    /// The database; a missing one is created. Without DB: shoal.db, which begins with some real
    /// documents where the source tree that it was built from is still there
    #[arg(value_name = "DB")]
    pub(crate) database: Option<PathBuf>,
    /// The address and port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3030")]
    pub(crate) listen: SocketAddr,
    /// Origin of web pages that may connect (* for any); may be given several times
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Name that requests may give as their host, beside this machine's: for a proxy that keeps
    /// it. May be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Read the admin token from a file instead of making one
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Let in whoever has a token that this file knows: shoal token new FILE makes both
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// What principals read of tables, by the API: a file of rules in JSON. Tokens made with --as
    /// name principals
    #[arg(long, value_name = "FILE", requires = "tokens")]
    pub(crate) rules: Option<PathBuf>,
    /// Ask a server of yours about each document: POST of token and document, answer of rights
    #[arg(long, value_name = "URL", conflicts_with = "tokens")]
    pub(crate) ask: Option<String>,
    /// What anyone may do who brings nothing [default: write, or none with --admission]
    #[arg(long, value_enum, conflicts_with_all = ["tokens", "ask"])]
    pub(crate) anyone: Option<Anyone>,
    /// Admit strangers by work; the file has the key of tickets, and is made if it is missing
    #[arg(long, value_name = "KEYFILE")]
    pub(crate) admission: Option<PathBuf>,
    /// KiB of memory of a hash of admission
    #[arg(long, value_name = "KIB", default_value_t = 65_536, requires = "admission",
          value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    pub(crate) admission_memory: u32,
    /// Hashes of work for a ticket on average, while the server is idle
    #[arg(long, value_name = "N", default_value_t = 16, requires = "admission",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) admission_hashes: u64,
    /// Seconds until a ticket ends
    #[arg(long, value_name = "N", default_value_t = 43_200, requires = "admission",
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) ticket_seconds: u64,
    /// Bytes of changes stored for one ticket at most
    #[arg(long, value_name = "N", default_value_t = 67_108_864, requires = "admission")]
    pub(crate) ticket_bytes: u64,
    /// Documents made with one ticket at most
    #[arg(long, value_name = "N", default_value_t = 100, requires = "admission")]
    pub(crate) ticket_documents: u64,
    /// Certificate chain in PEM, for TLS (in builds with the feature tls)
    #[arg(long, value_name = "PEM", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key in PEM
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Share documents with other servers over NATS JetStream: nats://[USER:PASSWORD@]HOST[:PORT],
    /// or tls://; several with commas between them (in builds with the feature nats)
    #[arg(long, value_name = "URL", env = "SHOAL_NATS", hide_env_values = true)]
    pub(crate) nats: Option<String>,
    /// The name of the streams in NATS; servers of one name share documents
    #[arg(long, value_name = "NAME", default_value = "shoal")]
    pub(crate) nats_name: String,
    /// Copies that a NATS cluster keeps, where this server is the first and makes the streams
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) nats_replicas: u8,
    /// Certificates to trust for tls://, in PEM, besides those of this machine
    #[arg(long, value_name = "PEM", requires = "nats")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// Another address for /metrics and /healthz, which the port then leaves out
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<SocketAddr>,
}

/// The rights of whoever brings nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Anyone {
    /// Nothing
    None,
    /// Read documents whose ids they know
    Read,
    /// Read and change them
    Write,
}

/// `shoal sync`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A server is shoal serve, or any sync server of automerge-repo. Without DOC every document of the \
database with an automerge-repo id as its name is exchanged. A lost connection is made again; edits \
of other programs to the same file go out, and what comes in is in the file at once. A token goes \
into the URL, and is never printed.

With another database, or a folder, both have the same documents afterwards, and the command ends. \
Documents are known by their names; only what differs is moved. A document removed or denied at one \
end is left alone at the other. Two documents of one name that were begun apart are refused, unless \
--unrelated says to merge them.

The database of another machine is reached through ssh, which needs shoal on the PATH there, or \
through any program that leads to shoal sync --stdio. No shell of this machine reads --command; \
quotes and backslashes in it work all the same.

A folder has a file NAME.automerge for each document, which Dropbox, Syncthing and the like carry \
on; conflicted copies are merged as well, and stay. The storage folder of automerge-repo is known \
by its form.

Examples:
  shoal sync notes.db ws://127.0.0.1:3030
  shoal sync notes.db ws://127.0.0.1:3030 automerge:2akvofn6L1o4RMUEMQi7qzwRjKWZ --once
  shoal sync notes.db 'wss://sync.example.com/?token=shoal.eyJp...'
  shoal sync notes.db ws://sync.example.com --pay
  shoal sync notes.db /media/stick/notes.db
  shoal sync notes.db ssh://ada@desk/~/notes.db todo letter
  shoal sync notes.db --command 'ssh desk /opt/shoal sync --stdio notes.db'
  shoal sync notes.db ~/Dropbox/notes/")]
pub(crate) struct SyncArgs {
    /// The database; a missing one is created
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// ws://HOST[:PORT], wss:// in builds with the feature tls, ssh://[USER@]HOST[:PORT]/PATH,
    /// another database, or a folder
    #[arg(value_name = "WITH")]
    pub(crate) remote: Option<String>,
    /// Names, ids or automerge: URLs of documents; of a server, ids or URLs
    #[arg(value_name = "DOC")]
    pub(crate) documents: Vec<String>,
    /// End once each document is the same at a server; fail when the server lacks one
    #[arg(long)]
    pub(crate) once: bool,
    /// Pay for admission with work of all cores, where the server asks for it
    #[arg(long)]
    pub(crate) pay: bool,
    /// Trust the certificates of this file alone, for wss://
    #[arg(long, value_name = "PEM")]
    pub(crate) ca: Option<PathBuf>,
    /// Start this program, and speak to the shoal sync --stdio at the other end of it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Be the other end: speak on stdin and stdout, to the shoal sync that started this one
    #[arg(long, conflicts_with_all = ["remote", "documents", "command", "once", "pay", "ca"])]
    pub(crate) stdio: bool,
    /// Merge documents of one name that were begun apart
    #[arg(long)]
    pub(crate) unrelated: bool,
    /// The form of the summary of a database or folder: json is on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}
