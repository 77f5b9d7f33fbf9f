//! The arguments of `shoal token`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `shoal token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token and print the text: its bearers have the rights named in the token
    New(TokenNewArgs),
    /// List the tokens made so far: ids, names and rights, never the texts
    Ls(TokenLsArgs),
    /// Take a token back: open sockets with it are closed within a second
    Revoke(TokenRevokeArgs),
}

/// `shoal token new`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
FILE is what shoal serve --tokens FILE checks tokens by: public keys, revoked ids, and what anyone \
may do without a token (\"anyone\": \"none\", \"read\" or \"write\"). The secret key is in FILE.key, \
which a server does not need. Both are made if they are missing.

A document is an id, an automerge: URL, or a pattern of ids with * and ?; a single document goes \
before patterns.

Examples:
  shoal token new tokens.json --write automerge:2akvofn6L1o4RMUEMQi7qzwRjKWZ --read '*' --note Ada
  shoal token new tokens.json --as ada --expires 1d
  shoal token new tokens.json --admin --expires 12h")]
pub(crate) struct TokenNewArgs {
    /// The file of tokens; a missing file is made, with its key in FILE.key
    pub(crate) file: PathBuf,
    /// A document to be read, by id or pattern; may be given several times
    #[arg(long, value_name = "DOC")]
    pub(crate) read: Vec<String>,
    /// A document to be read and changed; may be given several times
    #[arg(long, value_name = "DOC")]
    pub(crate) write: Vec<String>,
    /// Everything may be done, by the page and the API too
    #[arg(long)]
    pub(crate) admin: bool,
    /// The principal whose entitlements to tables the bearer has: see shoal serve --rules
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) principal: Option<String>,
    /// How long the token counts: a number with s, m, h or d behind it, or never
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub(crate) expires: String,
    /// The bearer's name, shown by shoal token ls
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// `shoal token ls`.
#[derive(Debug, Args)]
pub(crate) struct TokenLsArgs {
    /// The file of tokens
    pub(crate) file: PathBuf,
}

/// `shoal token revoke`.
#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// The file of tokens
    pub(crate) file: PathBuf,
    /// The ids of the tokens, as shoal token ls shows them
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
}
