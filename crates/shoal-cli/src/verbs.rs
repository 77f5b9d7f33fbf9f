//! The verbs: `verbs/NAME.rs` for each, and `verbs/doc/NAME.rs` for the verbs of `shoal doc`.

pub(crate) mod apply;
pub(crate) mod argon2;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod changeset;
pub(crate) mod completions;
pub(crate) mod cypher;
pub(crate) mod decrypt;
pub(crate) mod diff;
pub(crate) mod doc;
pub(crate) mod dump;
pub(crate) mod encrypt;
pub(crate) mod export;
pub(crate) mod flight;
pub(crate) mod git_driver;
pub(crate) mod git_install;
pub(crate) mod graph;
pub(crate) mod hash_password;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod mcp;
pub(crate) mod merge;
pub(crate) mod mine;
#[cfg(feature = "excel")]
pub(crate) mod read_workbook;
pub(crate) mod recover;
pub(crate) mod rekey;
pub(crate) mod serve;
pub(crate) mod sql;
pub(crate) mod sync;
pub(crate) mod token;
pub(crate) mod tour;
mod vault;
pub(crate) mod verify_password;
pub(crate) mod watch;
