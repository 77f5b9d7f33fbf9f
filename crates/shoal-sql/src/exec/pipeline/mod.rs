//! Pipelines: selects whose rows stay on their pages until a column is asked for.
//!
//! Most statements compute nothing: their predicates compare columns with constants, parameters or
//! other columns, and their results are columns. [`crate::plan::lower`] makes a pipeline of such a
//! select and chooses the node to run:
//!
//! | node | loop |
//! | --- | --- |
//! | table scan, top-N | `leaf` over `leaf_rows`: a leaf's rows; `prepared` narrows a selection |
//! | index scan, lookup join | `join`: the same, with the rows named in other tables |
//! | point, seek | `each`, `seek`: a handful of rows without a batch |
//! | rowid list | `rowids`, and `common` for those several indexes have in common |
//! | nested loop | `run`, `index`, `hash`, `any`: one loop in the other |
//! | count | `rows`: the cell counts of leaves |
//!
//! `key_sets` gathers the rowids a lookup join asks before looking rows up. `probe` runs pipelines
//! within expressions for one row around them, `set` and `ascending` compare the rows of several,
//! `slots` keeps rows of nested loops, `each` and `rows` give rows out.

mod any;
mod ascending;
mod common;
mod each;
mod hash;
mod index;
mod join;
mod key_sets;
mod leaf;
mod leaf_rows;
mod prepared;
mod probe;
mod rowids;
mod rows;
mod run;
mod seek;
mod set;
mod slots;

pub(crate) use each::{ManyRows, RowView};
pub(crate) use key_sets::KeySets;
pub(crate) use leaf::{CHUNK, EVERYWHERE, LeafMemory};
pub(crate) use leaf_rows::{LazyRow, LeafRows};
pub(crate) use rows::PipelineRows;
pub(crate) use run::Memory;
pub(crate) use set::combine;
pub(in crate::exec) use set::{RowSet, SetContext};
pub(crate) use slots::fixed;
