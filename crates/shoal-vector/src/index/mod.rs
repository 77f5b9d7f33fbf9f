//! `vec_index`: an index of neighbours beside a `vec0` table, a graph on pages of the file.
//!
//! One flat graph with a row for each node: the code of the node's vector, its links in both
//! directions, and its parent in a tree of links never given up. Rows are overwritten in
//! place, in the transaction of the table's own rows. The `vec0` table knows nothing of the index:
//! a sum of digests over all rows tells whether somebody else changed the table since.

mod build;
pub(crate) mod check;
mod code;
pub(crate) mod definition;
mod edit;
mod graph;
pub(crate) mod module;
pub(crate) mod search;
mod walk;
pub(crate) mod writer;
