//! The command line as types: its words, and their help. Does nothing.

pub(crate) mod cypher;
pub(crate) mod exchange;
pub(crate) mod flight;
pub(crate) mod graph;
mod later;
pub(crate) mod ledger;
pub(crate) mod mcp;
pub(crate) mod mine;
pub(crate) mod password;
pub(crate) mod rules;
pub(crate) mod serve;
pub(crate) mod sql;
pub(crate) mod token;
pub(crate) mod transfer;
pub(crate) mod vault;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use later::Later;
pub(crate) use sql::{RowFormat, SqlArgs};

/// A local-first database: documents people edit offline, kept in a file anyone can query.
///
/// A database is a SQLite file. Documents are Automerge documents, in files of their own or in a
/// database, where DB::NAME names them. Data goes to stdout, everything else to stderr; the exit
/// code is 0 when all went well, 1 when something failed, 2 when the command line is wrong, and of
/// sealed databases 10 without a key, 11 with a wrong one, 12 for damaged key slots, 13 for a
/// damaged page, 14 for one in another's place, 15 for one of an earlier state.
/// shoal FILE is short for shoal sql FILE.
#[derive(Debug, Parser)]
#[command(name = "shoal", version, max_term_width = 100, infer_subcommands = false)]
pub(crate) struct Cli {
    /// The keys of sealed databases, of every verb.
    #[command(flatten)]
    pub(crate) keys: vault::KeyArgs,
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run SQL on a database, from arguments, from stdin, or in a shell on a terminal
    Sql(Later<SqlArgs>),
    /// Ask and change the graph of a database in the language of openCypher
    Cypher(Later<cypher::CypherArgs>),
    /// Draw a graph of a database, or the neighbourhood of a node
    Graph(Later<graph::GraphArgs>),
    /// Read, edit and merge Automerge documents
    #[command(subcommand)]
    Doc(Later<DocVerb>),
    /// Read rows of CSV or JSON into a table
    Import(Later<transfer::ImportArgs>),
    /// Write the rows of a table or a query as CSV, JSON or SQL
    Export(Later<transfer::ExportArgs>),
    /// Write the tables and documents of a database as the SQL that makes them again
    Dump(Later<DumpArgs>),
    /// Copy a database while others use it
    Backup(Later<BackupArgs>),
    /// Print what differs between two databases: as SQL, JSON, or a changeset
    Diff(Later<exchange::DiffDatabasesArgs>),
    /// Apply a changeset or patchset to a database
    Apply(Later<exchange::ApplyArgs>),
    /// Print, invert, join and rebase changesets
    #[command(subcommand)]
    Changeset(Later<exchange::ChangesetVerb>),
    /// Merge two descendants of one database, cell by cell
    Merge(Later<exchange::MergeDatabasesArgs>),
    /// Sign history in a database, and verify it
    #[command(subcommand)]
    Ledger(Later<ledger::LedgerVerb>),
    /// Let git show and merge databases and documents
    GitInstall(Later<exchange::GitInstallArgs>),
    /// Run by git: see git-install
    #[command(subcommand, hide = true)]
    GitDriver(Later<exchange::GitDriverVerb>),
    /// Run by import: reads a workbook
    #[cfg(feature = "excel")]
    #[command(hide = true)]
    ReadWorkbook(Later<transfer::ReadWorkbookArgs>),
    /// Save what is left of a damaged database
    Recover(Later<RecoverArgs>),
    /// Seal a database: encrypt every page
    Encrypt(Later<vault::EncryptArgs>),
    /// Make a sealed database a plain one again
    Decrypt(Later<vault::DecryptArgs>),
    /// Give a sealed database another key, and write its pages again
    Rekey(Later<vault::RekeyArgs>),
    /// List, add and remove the keys of a sealed database
    #[command(subcommand)]
    Keys(Later<vault::KeysVerb>),
    /// Print what changes in a database, as it changes
    Watch(Later<WatchArgs>),
    /// Serve the documents of a database to automerge-repo's clients, and a page about them
    Serve(Later<Box<serve::ServeArgs>>),
    /// Serve a database to agents by the Model Context Protocol (in builds with the feature mcp)
    Mcp(Later<Box<mcp::McpArgs>>),
    /// Serve a database to clients of Arrow Flight SQL (in builds with the feature flight)
    Flight(Later<Box<flight::FlightArgs>>),
    /// Exchange documents with a sync server, another database, or a folder
    Sync(Later<serve::SyncArgs>),
    /// Make, list and revoke tokens for whoever may use a sync server
    #[command(subcommand)]
    Token(Later<token::TokenVerb>),
    /// Compute an Argon2 tag and print it in hexadecimal
    Argon2(Later<Argon2Args>),
    /// Hash a password, for a string to keep instead of it
    HashPassword(Later<password::HashPasswordArgs>),
    /// Tell whether a password is the one that was hashed
    VerifyPassword(Later<password::VerifyPasswordArgs>),
    /// Mine: try nonces on Argon2id for a pool or a node
    Mine(Later<Box<mine::MineArgs>>),
    /// Do the main job once, on real data, and check the result
    Tour(Later<TourArgs>),
    /// Measure Shoal on this machine: answers first, then time
    #[command(after_long_help = "\
Examples:
  shoal bench --list
  shoal bench --filter doc/trace/automerge-paper,table/join --html report.html
  shoal bench --quick --json record.json
  shoal bench report record.json")]
    Bench(Later<Box<shoal_lab::BenchArguments>>),
    /// Print a completion script for a shell
    Completions(Later<CompletionsArgs>),
}

/// How a read verb answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// `shoal doc`. A document is a file, `-` for stdin, or `DB::NAME`.
#[derive(Debug, Subcommand)]
pub(crate) enum DocVerb {
    /// Print a document as JSON
    Show(ShowArgs),
    /// Print heads, actors, and counts of a document
    Info(InfoArgs),
    /// Print one line per change, oldest first
    History(HistoryArgs),
    /// List the documents of a database
    Ls(LsArgs),
    /// Make a document from JSON, or store an Automerge file in a database
    Import(ImportDocArgs),
    /// Write a stored document as an Automerge file
    Export(ExportDocArgs),
    /// Merge two documents into one
    Merge(MergeArgs),
    /// Write what can still be read of a damaged Automerge file, and say what was lost
    Rescue(RescueArgs),
    /// Write a copy with the same shape and other content, to show to whoever looks for a bug
    Anonymize(AnonymizeArgs),
    /// Print what turns one state of a document, or one document, into another
    Diff(DiffArgs),
    /// Apply a JSON Patch or a JSON Merge Patch, as one change
    Patch(PatchArgs),
    /// Give a stored document another name
    Rename(RenameArgs),
    /// Store a copy of a document, its history included
    Copy(CopyArgs),
    /// Remove a stored document
    Rm(RmArgs),
    /// Put the changes of stored documents into the fewest bytes; none is lost
    Compact(CompactArgs),
    /// Set the value at a path
    Put(PutArgs),
    /// Delete and insert text, or list elements, at a position
    Splice(SpliceArgs),
}

/// `shoal doc show`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
HEADS are hashes of changes, or the first digits of them that shoal doc history prints, separated \
by commas.

Examples:
  shoal doc show notes.automerge /todos/0
  shoal doc show notes.automerge --at 3f2a9c1b04d7")]
pub(crate) struct ShowArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// Only the value at this JSON Pointer
    #[arg(value_name = "PATH", default_value = "")]
    pub(crate) path: String,
    /// The document as it was when its heads were these
    #[arg(long, value_name = "HEADS")]
    pub(crate) at: Option<String>,
    /// Indented (text), or on one line (json)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc rescue`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The losses go to stderr, or with --format json as a JSON array to stdout. The exit code is 0 when \
nothing was lost, 1 when something was; what could be read is written in both cases.

Example:
  shoal doc rescue damaged.automerge -o rescued.automerge")]
pub(crate) struct RescueArgs {
    /// The damaged file, - for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// FILE or DB::NAME
    #[arg(short, long, value_name = "DOC")]
    pub(crate) output: String,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc diff`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Without OTHER, two states of DOC are compared: that at --from, or nothing, and that at --to, or the \
present one. With OTHER, DOC is compared with it. HEADS are as for shoal doc show. What is printed \
with --as patch or merge, shoal doc patch applies.

Examples:
  shoal doc diff notes.automerge --from 3f2a9c1b04d7
  shoal doc diff laptop.automerge phone.automerge --as merge
  shoal doc diff notes.automerge --from 3f2a9c1b04d7 --as steps --format json")]
pub(crate) struct DiffArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// FILE, - or DB::NAME
    #[arg(value_name = "OTHER")]
    pub(crate) other: Option<String>,
    /// The state of DOC to begin with [default: nothing; with OTHER, the present one]
    #[arg(long, value_name = "HEADS")]
    pub(crate) from: Option<String>,
    /// The state of OTHER, or else of DOC, to end with [default: the present one]
    #[arg(long, value_name = "HEADS")]
    pub(crate) to: Option<String>,
    /// What is printed
    #[arg(long = "as", value_enum, default_value_t)]
    pub(crate) form: DiffForm,
    /// Indented, or lines for people (text); or on one line, or one line a step (json)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// The forms of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffForm {
    /// A JSON Patch, RFC 6902
    #[default]
    Patch,
    /// A JSON Merge Patch, RFC 7386
    Merge,
    /// Each edit as Automerge knows it: splices, increments, marks, conflicts
    Steps,
}

/// `shoal doc patch`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A JSON array is a JSON Patch (RFC 6902), a JSON object a JSON Merge Patch (RFC 7386). All of it is \
applied, or nothing. A string that replaces a text is written as edits of that text.

Examples:
  shoal doc patch notes.automerge changes.json
  echo '{\"draft\": null}' | shoal doc patch app.db::notes -")]
pub(crate) struct PatchArgs {
    /// FILE or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// A file with the patch, - for stdin
    #[arg(value_name = "PATCH")]
    pub(crate) patch: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
    /// Print nothing (text), or the hash of the change (json)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc anonymize`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Keys, texts, numbers, names of actors, messages and times are replaced; how long things are, what \
changed when, and which characters are white space stay. Whoever looks at the copy still sees how \
the document was edited.

Example:
  shoal doc anonymize notes.automerge -o for-the-report.automerge")]
pub(crate) struct AnonymizeArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// FILE or DB::NAME, which must not exist yet
    #[arg(short, long, value_name = "COPY")]
    pub(crate) output: String,
}

/// `shoal doc history`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --ops each change is printed with everything in it, in the JSON of Automerge's decodeChange.

Examples:
  shoal doc history notes.automerge
  shoal doc history notes.automerge --ops --format json")]
pub(crate) struct HistoryArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// Print every op of each change
    #[arg(long)]
    pub(crate) ops: bool,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// A database
    #[arg(value_name = "DB")]
    pub(crate) file: PathBuf,
    /// The documents that were removed instead
    #[arg(long)]
    pub(crate) removed: bool,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc rename`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Whoever has the document open goes on writing to it.

Example:
  shoal doc rename app.db::draft letter")]
pub(crate) struct RenameArgs {
    /// DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// The new name, in the same database
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// `shoal doc copy`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The copy has every change of the original, so that the two can be merged later. Nothing is \
overwritten: shoal doc merge puts two documents together.

Examples:
  shoal doc copy app.db::letter app.db::letter-2
  shoal doc copy app.db::letter backup.db::letter")]
pub(crate) struct CopyArgs {
    /// DB::NAME, FILE or -
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// DB::NAME; a missing database is created
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
}

/// `shoal doc rm`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The document's changes are gone with it; shoal doc export saves them to a file before. A tombstone \
stays, which shoal doc ls --removed lists.")]
pub(crate) struct RmArgs {
    /// DB::NAME
    #[arg(value_name = "DOC", required = true)]
    pub(crate) docs: Vec<String>,
}

/// `shoal doc compact`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints the changes and the bytes of their chunks before and after. The file itself shrinks when \
its free pages are used again, or by VACUUM.

Examples:
  shoal doc compact app.db
  shoal doc compact app.db::letter")]
pub(crate) struct CompactArgs {
    /// DB for all of its documents, or DB::NAME
    #[arg(value_name = "DB", required = true)]
    pub(crate) docs: Vec<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// `shoal doc import`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Strings become texts that merge letter by letter. The output must not exist yet, but for a folder: \
of its documents those in the database gain the changes they lack. A storage folder of automerge-repo \
gives documents named by their ids, any other folder one for each Automerge file in it.

Examples:
  shoal doc import notes.json notes.automerge
  shoal doc import automerge-repo-data app.db
  shoal doc import notes.automerge app.db::notes
  echo '{\"title\": \"Draft\"}' | shoal doc import - app.db::draft")]
pub(crate) struct ImportDocArgs {
    /// A JSON object, an Automerge file, - for stdin, or a folder of files
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// FILE or DB::NAME, DB for a folder; a missing database is created
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
}

/// `shoal doc export`.
#[derive(Debug, Args)]
pub(crate) struct ExportDocArgs {
    /// DB::NAME, FILE or -
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// The Automerge file to write, - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
}

/// `shoal doc merge`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
An output that exists is replaced only when the result holds every change it held; a document in \
a database gains the changes that it lacks.

Example:
  shoal doc merge laptop.automerge phone.automerge -o both.automerge")]
pub(crate) struct MergeArgs {
    /// FILE, - or DB::NAME
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// FILE, - or DB::NAME
    #[arg(value_name = "B")]
    pub(crate) b: String,
    /// FILE or DB::NAME
    #[arg(short, long, value_name = "C")]
    pub(crate) output: String,
}

/// Who makes an edit and why.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The actor who makes the change, in hexadecimal [default: a random one]
    #[arg(long, value_name = "HEX")]
    pub(crate) actor: Option<String>,
    /// A message that is kept with the change
    #[arg(long, short)]
    pub(crate) message: Option<String>,
}

/// `shoal doc put`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Paths are JSON Pointers (RFC 6901): /todos/0/title. A last segment of - appends to a list. \
Setting an existing element of a list replaces it.

Examples:
  shoal doc put notes.automerge /title '\"Holidays\"'
  shoal doc put app.db::notes /todos/- '{\"text\": \"pack\", \"done\": false}'")]
pub(crate) struct PutArgs {
    /// FILE or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// A JSON Pointer
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// The new value, as JSON
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// `shoal doc splice`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
In a text, positions count code points and TEXT is inserted as it is. In a list, they count \
elements and TEXT is a JSON array of the elements to insert.

Example:
  shoal doc splice notes.automerge /body 0 5 'Hello'")]
pub(crate) struct SpliceArgs {
    /// FILE or DB::NAME
    #[arg(value_name = "DOC")]
    pub(crate) doc: String,
    /// A JSON Pointer to a text or a list
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Where, counted from 0
    #[arg(value_name = "POS")]
    pub(crate) position: usize,
    /// How many to delete
    #[arg(value_name = "DEL")]
    pub(crate) delete: usize,
    /// What to insert there
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// `shoal dump`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Documents come with their changes and projections, unless tables are named. sqlite3 and Shoal read the \
SQL; in Shoal it makes documents in a database without any. With --as the output is what a principal \
sees: visible rows and columns of granted tables, without documents, views, indexes and constraints.

Examples:
  shoal dump music.db | shoal sql copy.db
  shoal dump music.db --as ada --rules rules.json | shoal sql hers.db")]
pub(crate) struct DumpArgs {
    /// A SQLite database
    pub(crate) file: PathBuf,
    /// Only these tables [default: all]
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    #[command(flatten)]
    pub(crate) by: rules::AsPrincipal,
}

/// `shoal backup`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The copy is one state of the database, whatever others write meanwhile, and a file by itself: pages \
of a write-ahead log are in it. A FILE with a database in it gets the copy in one transaction; a \
missing one is made, and is no database before the last page is there.

Examples:
  shoal backup app.db app-2026-11-23.db")]
pub(crate) struct BackupArgs {
    /// A SQLite database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The file for the copy
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `shoal recover`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Rows of a table are found by the schema and the pages below the table's first one. Rows on pages \
outside all known trees go into a table lost_and_found, with the page, the topmost page above it, \
the number of values and the rowid. Pages of the freelist are searched, too: rows deleted before \
may come back. Constraints are kept: of two rows with one key the first is saved. The damaged file \
is only read.

A sealed database needs its key, and one sound page of keys (page 2 or 3): rows of authentic pages \
are saved, the other pages are told by number. FILE is sealed with the same key, unless --plain.

Examples:
  shoal recover broken.db saved.db
  shoal recover broken.db > saved.sql
  shoal recover sealed.db saved.db --key-file secret.key")]
pub(crate) struct RecoverArgs {
    /// A damaged SQLite database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// A new database for the rows [default: SQL on stdout]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Leave out pages of the freelist
    #[arg(long)]
    pub(crate) ignore_freelist: bool,
    /// Do not seal FILE, which has the key of a sealed DB otherwise
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `shoal watch`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints one line of JSON for each change that anybody commits, in this program or another: event \
(document, renamed, removed, table, query) and what it is about. A document has the heads before and \
after, a query its rows, once at the beginning and then whenever they differ. Commits close to each \
other are told of as one; a change is told of about 20 ms after its commit. Without documents, tables \
and queries every document is watched. Ends at Ctrl-C.

Examples:
  shoal watch app.db
  shoal watch app.db letter --table todo
  shoal watch app.db --query 'SELECT count(*) FROM todo WHERE NOT done'
  shoal watch app.db --count 1 --timeout 10")]
pub(crate) struct WatchArgs {
    /// A database
    #[arg(value_name = "DB")]
    pub(crate) file: PathBuf,
    /// Names of documents, there or to come
    #[arg(value_name = "NAME")]
    pub(crate) documents: Vec<String>,
    /// A table, a projection among them
    #[arg(long = "table", value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    /// A query, run again when a table that it reads has changed
    #[arg(long = "query", value_name = "SQL")]
    pub(crate) queries: Vec<String>,
    /// End after so many lines
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
}

/// A time to wait, from 0 to a year.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=31_536_000.0).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds".to_owned())
}

/// `shoal argon2`.
#[derive(Debug, Args)]
pub(crate) struct Argon2Args {
    /// Which of the three functions
    #[arg(long = "type", value_enum, default_value_t = Argon2Type::Id)]
    pub(crate) variant: Argon2Type,
    /// Memory in KiB
    #[arg(long)]
    pub(crate) memory_kib: u32,
    /// Passes over the memory
    #[arg(long)]
    pub(crate) passes: u32,
    /// Degree of parallelism
    #[arg(long)]
    pub(crate) lanes: u32,
    /// The salt, in hexadecimal
    #[arg(long, value_name = "HEX")]
    pub(crate) salt_hex: String,
    /// The password, in hexadecimal
    #[arg(long, value_name = "HEX")]
    pub(crate) password_hex: String,
    /// A secret key, in hexadecimal
    #[arg(long, value_name = "HEX", default_value = "")]
    pub(crate) secret_hex: String,
    /// Associated data, in hexadecimal
    #[arg(long, value_name = "HEX", default_value = "")]
    pub(crate) ad_hex: String,
    /// Length of the tag in bytes
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) tag_length: u32,
    /// 19 (0x13) or 16 (0x10), the version that hashes
    #[arg(long, value_enum, default_value_t = Argon2Version::V0x13)]
    pub(crate) version: Argon2Version,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) kernel: password::KernelArgs,
}

/// The three functions of RFC 9106.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Argon2Type {
    /// Argon2d: references depend on the data
    D,
    /// Argon2i: references do not depend on the data
    I,
    /// Argon2id: the one to use
    Id,
}

/// The two versions in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Argon2Version {
    /// 1.0
    #[value(name = "0x10", alias = "16")]
    V0x10,
    /// 1.3, RFC 9106
    #[value(name = "0x13", alias = "19")]
    V0x13,
}

/// `shoal tour`.
#[derive(Debug, Args)]
pub(crate) struct TourArgs {
    /// A folder for the tour's files; must not exist yet [default: a fresh one]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Where testdata/ is [default: here, or where this program was built]
    #[arg(long)]
    pub(crate) testdata: Option<PathBuf>,
}

/// `shoal completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A reader looking for a verb finds its code by its name.
    #[test]
    fn every_verb_has_a_file_of_its_name() {
        let verbs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verbs");
        let check = |folder: &std::path::Path, name: &str| {
            let file = folder.join(format!("{}.rs", name.replace('-', "_")));
            assert!(file.is_file(), "{}", file.display());
        };
        let mut command = Cli::command();
        command.build();
        let is_verb = |command: &&clap::Command| command.get_name() != "help";
        for verb in command.get_subcommands().filter(is_verb) {
            check(&verbs, verb.get_name());
            let inner = verb.get_subcommands().filter(is_verb);
            for inner in inner.filter(|_| verb.get_name() == "doc") {
                check(&verbs.join("doc"), inner.get_name());
            }
        }
    }
}
