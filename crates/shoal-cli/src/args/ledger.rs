//! The arguments of `shoal ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `shoal ledger`.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerVerb {
    /// Make a ledger in a database
    New(LedgerArgs),
    /// Make a key for signing, in a file that only its owner reads
    Key(LedgerKeyArgs),
    /// Become a writer of a ledger
    Join(LedgerJoinArgs),
    /// Let another writer write, within scopes
    Admit(LedgerAdmitArgs),
    /// Sign an entry of your own, or a changeset
    Add(LedgerAddArgs),
    /// Sign the changes of documents that nobody has signed yet
    Documents(LedgerDocumentsArgs),
    /// Sign with another key from now on
    Rotate(LedgerRotateArgs),
    /// Stop believing a writer behind an entry
    Revoke(LedgerRevokeArgs),
    /// Print the head of all entries, to be remembered elsewhere; sign it with --signer
    Head(LedgerHeadArgs),
    /// Print the proof that an entry is under the head
    Prove(LedgerProveArgs),
    /// Take the entries of another copy of the ledger
    Import(LedgerImportArgs),
    /// List the entries, oldest first
    Log(LedgerArgs),
    /// Say what holds, what does not, and what cannot be known
    Verify(LedgerVerifyArgs),
}

/// A database with a ledger.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

/// A database, and the key that signs.
#[derive(Debug, Args)]
pub(crate) struct SignerArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The file of the key that signs, made by shoal ledger key
    #[arg(long, value_name = "FILE")]
    pub(crate) signer: PathBuf,
}

/// `shoal ledger key`.
#[derive(Debug, Args)]
pub(crate) struct LedgerKeyArgs {
    /// The file to make
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `shoal ledger join`.
#[derive(Debug, Args)]
pub(crate) struct LedgerJoinArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// The writer's name, for people
    #[arg(long)]
    pub(crate) name: String,
}

/// `shoal ledger admit`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A scope is a table, document:NAME, or admit for letting others write; * at the end stands for any \
rest. The writer of the ledger's first entry may do everything.

Example:
  shoal ledger admit notes.db --signer root.key 5f2c... 'task*' 'document:*'")]
pub(crate) struct LedgerAdmitArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// The writer, as join and key print one
    #[arg(value_name = "WRITER")]
    pub(crate) writer: String,
    /// What the writer may sign
    #[arg(value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
}

/// `shoal ledger add`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  shoal ledger add notes.db --signer me.key 'approved by both'
  shoal diff before.db notes.db --format changeset -o c && \
shoal ledger add notes.db --signer me.key --kind changeset --file c")]
pub(crate) struct LedgerAddArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// The kind of entry: note, changeset, or a word of your own
    #[arg(long, default_value = "note")]
    pub(crate) kind: String,
    /// The content
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    pub(crate) text: Option<String>,
    /// A file with the content
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
}

/// `shoal ledger documents`.
#[derive(Debug, Args)]
pub(crate) struct LedgerDocumentsArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// Names of documents [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// `shoal ledger rotate`.
#[derive(Debug, Args)]
pub(crate) struct LedgerRotateArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// The file of the new key
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
}

/// `shoal ledger revoke`.
#[derive(Debug, Args)]
pub(crate) struct LedgerRevokeArgs {
    #[command(flatten)]
    pub(crate) by: SignerArgs,
    /// The writer
    #[arg(value_name = "WRITER")]
    pub(crate) writer: String,
    /// The number of the last entry believed; 0 believes none
    #[arg(value_name = "LAST")]
    pub(crate) last: u64,
}

/// `shoal ledger head`.
#[derive(Debug, Args)]
pub(crate) struct LedgerHeadArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// Sign the head as an entry, with the key of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) signer: Option<PathBuf>,
}

/// `shoal ledger prove`.
#[derive(Debug, Args)]
pub(crate) struct LedgerProveArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The number of the entry, as shoal ledger log prints one
    #[arg(value_name = "ENTRY")]
    pub(crate) entry: i64,
}

/// `shoal ledger import`.
#[derive(Debug, Args)]
pub(crate) struct LedgerImportArgs {
    /// The database that takes entries
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The other copy
    #[arg(value_name = "OTHER")]
    pub(crate) other: PathBuf,
}

/// `shoal ledger verify`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The exit code is 0 when everything that can be known holds, 1 when something does not.

Examples:
  shoal ledger head notes.db > yesterday.json
  shoal ledger verify notes.db --head yesterday.json --root 5f2c...")]
pub(crate) struct LedgerVerifyArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// A head printed earlier: its entries must still be there
    #[arg(long, value_name = "FILE")]
    pub(crate) head: Option<PathBuf>,
    /// A writer believed without an admission; may be given again
    #[arg(long = "root", value_name = "WRITER")]
    pub(crate) roots: Vec<String>,
}
