//! Parts shared by the fuzz targets.
//!
//! A target panics, runs out of time or out of its budget of memory only if there is a bug: every
//! byte string is a value or an error. Targets are named after the module whose input they forge.

pub mod budget;
pub mod changes;
pub mod changeset;
pub mod chunk;
#[cfg(feature = "mcp")]
#[path = "../../crates/shoal-mcp/tests/it/conversation.rs"]
#[expect(dead_code, reason = "the server's own tests count requests, too")]
mod conversation;
pub mod determined;
#[cfg(feature = "peers")]
pub mod differential;
pub mod document;
pub mod documents;
pub mod history;
#[cfg(feature = "mcp")]
pub mod messages;
#[cfg(feature = "peers")]
pub mod peers;
pub mod query;
pub mod script;
pub mod sealed;
pub mod sql;
pub mod walk;

pub use budget::bounded;
