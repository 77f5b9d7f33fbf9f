//! openCypher queries over property graphs.
//!
//! [`run`] takes a query's text through `parser` (tokens, then a tree), `bind` (names to slots,
//! faults that the text alone shows) and `exec` (clauses over rows), with `matcher` for patterns
//! and `eval` for expressions. A graph implements [`Graph`]: [`MemoryGraph`] lies in memory,
//! [`SqliteGraph`] in tables. [`Algorithms`] are procedures on either.
//!
//! The crate opens no files and reads no clock: time, parameters and bounds come with the
//! [`Environment`].

#![forbid(unsafe_code)]

mod algorithms;
mod ast;
mod bind;
mod error;
mod eval;
mod exec;
mod functions;
mod graph;
mod json;
mod kept;
mod lexer;
mod mapped;
mod matcher;
mod memory;
mod multiway;
mod parser;
pub mod pgq;
mod picture;
mod procedure;
mod query;
mod run;
mod source;
mod sqlite;
mod temporal;
mod traverse;
mod value;

pub use algorithms::Algorithms;
pub use error::{Error, ErrorClass, Phase, Result};
pub use graph::{Edge, Graph, NodeData, RelationshipData, RelationshipVisitor, Side};
pub use mapped::TablesGraph;
pub use memory::MemoryGraph;
pub use picture::{Drawing, Picture, draw};
pub use procedure::{Bounds, Input, NoProcedures, Procedures, Signature, ValueKind};
pub use query::{Environment, MEMORY_MAX, run, split, writes};
pub use sqlite::SqliteGraph;
pub use temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, Time, Zone};
pub use traverse::{Partial, Policy, Traversal, Visit, traverse};
pub use value::{Comparison, Key, Map, Path, Value, WholeNode, WholePath, WholeRelationship};

/// True of a text that is one query, by its grammar alone.
///
/// # Errors
/// The first fault of the text.
pub fn check_syntax(text: &str) -> Result<()> {
    parser::parse(text).map(drop)
}
