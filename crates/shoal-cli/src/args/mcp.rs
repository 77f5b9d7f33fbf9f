//! `shoal mcp` as types.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `shoal mcp`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("who").args(["principal", "tokens"]))]
#[command(after_long_help = "\
Serves one database to an agent by the Model Context Protocol, over stdin and stdout, or with \
--listen over HTTP at the path /mcp. An agent's program starts it by itself: docs/mcp.md has the \
lines for its configuration. Nothing but the protocol goes to stdout.

Without --write nothing is changed, whatever is asked. With --write, statements and edits change \
this file, and no other. Answers are bounded in rows, bytes and seconds; long ones come in pages.

With --as NAME --rules FILE, tools see what the rules grant to NAME, and nothing else: schema, query
and changes_since. Tools that cannot be narrowed (documents, search, graph_context) are refused by
name. FILE is looked at again by each call; docs/entitlements.md has its form. With --tokens FILE in
the place of --as, each request over HTTP is answered as the principal that its token names. With
--write beside them, principals change rows as far as the rules grant.

Rows and documents may hold sentences that a model takes for instructions: give --write only to an \
agent whose every answer somebody reads.

Examples:
  shoal mcp notes.db
  shoal mcp notes.db --write
  shoal mcp notes.db --as ada --rules rules.json
  shoal mcp sealed.db --key-file notes.key
  shoal mcp notes.db --listen 127.0.0.1:3040
  shoal token new tokens.json --as ada
  shoal mcp notes.db --listen 127.0.0.1:3040 --tokens tokens.json --rules rules.json
  shoal mcp notes.db --listen 0.0.0.0:3040 --token-file mcp.token --host notes.example.com")]
// The words are known in every build, for their help and a refusal in place of a riddle.
#[cfg_attr(not(feature = "mcp"), allow(dead_code))]
pub(crate) struct McpArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// Let tools change rows, definitions and documents
    #[arg(long)]
    pub(crate) write: bool,
    /// Show what the rules grant to this principal, and nothing else
    #[arg(long = "as", value_name = "NAME", requires = "rules")]
    pub(crate) principal: Option<String>,
    /// The file of rules, in JSON
    #[arg(long, value_name = "FILE", requires = "who")]
    pub(crate) rules: Option<PathBuf>,
    /// Serve over HTTP at this address and port instead of stdin and stdout
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Ask for the token in this file, of at least 16 characters; needed beyond this machine
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answer each request as the principal of its token, by this file of shoal token new --as
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen",
        requires = "rules",
        conflicts_with = "token_file"
    )]
    pub(crate) tokens: Option<PathBuf>,
    /// Name that requests may give as their host, beside this machine's; may be given several times
    #[arg(long = "host", value_name = "NAME", requires = "listen")]
    pub(crate) hosts: Vec<String>,
    /// Rows of one page at most
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_rows: u32,
    /// Bytes of one answer, about
    #[arg(long, value_name = "N", default_value_t = 65_536,
          value_parser = clap::value_parser!(u32).range(1024..=16_777_216))]
    pub(crate) max_bytes: u32,
    /// Seconds of one call
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) timeout: f64,
}
