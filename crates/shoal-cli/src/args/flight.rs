//! `shoal flight` as types.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `shoal flight`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whose").args(["principal", "tokens"]))]
#[command(after_long_help = "\
Serves one database to any client of Arrow Flight SQL (ADBC, JDBC, pyarrow.flight): SQL in, batches of
Arrow out. Nothing is written, whatever is asked. docs/analytics.md leads to a first query.

Everybody on this machine may read the whole database, unless a token is asked for; beyond this
machine one has to be. Clients send it as Authorization: Bearer TOKEN, or as the password beside any
user's name. Over a network it can be read along without TLS: --tls-cert and --tls-key, or a proxy.

With --as NAME --rules FILE, answers are of what the rules grant to NAME, and of nothing else. With
--tokens FILE in the place of --as, each request is answered as the principal that its token names.
FILE is looked at again by each request; docs/entitlements.md has its form.

Examples:
  shoal flight shop.db
  shoal flight sealed.db --key-file shop.key
  shoal token new tokens.json --as ada
  shoal flight shop.db --listen 0.0.0.0:31337 --tokens tokens.json --rules rules.json \\
      --tls-cert shop.pem --tls-key shop-key.pem")]
// The words are known in every build, for their help and a refusal in place of a riddle.
#[cfg_attr(not(feature = "flight"), allow(dead_code))]
pub(crate) struct FlightArgs {
    /// The database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:31337")]
    pub(crate) listen: SocketAddr,
    /// Show what the rules grant to this principal, and nothing else
    #[arg(long = "as", value_name = "NAME", requires = "rules")]
    pub(crate) principal: Option<String>,
    /// The file of rules, in JSON
    #[arg(long, value_name = "FILE", requires = "whose")]
    pub(crate) rules: Option<PathBuf>,
    /// Ask for the token in this file, of at least 16 characters; needed beyond this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answer each request as the principal of its token, by this file of shoal token new --as
    #[arg(long, value_name = "FILE", requires = "rules", conflicts_with = "token_file")]
    pub(crate) tokens: Option<PathBuf>,
    /// Certificate chain in PEM, for TLS (in builds with the feature tls)
    #[arg(long, value_name = "PEM", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key in PEM
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Where the types of columns come from
    #[arg(long, value_enum, default_value_t = ColumnTypes::Declared)]
    pub(crate) types: ColumnTypes,
    /// Statements that run at a time; others wait
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=400))]
    pub(crate) statements: u16,
    /// Seconds of one statement, the client's time between rows included
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    pub(crate) timeout: f64,
}

/// Where the types of columns come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColumnTypes {
    /// Declarations of tables; values where none tells. A value of another type is an error
    Declared,
    /// Values: each statement is run once more to find them, and no value is an error
    Values,
}
