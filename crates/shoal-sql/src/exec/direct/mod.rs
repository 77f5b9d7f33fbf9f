//! Selects whose rows come straight from the pages.
//!
//! The general executor copies columns into registers and runs codes over them. Most statements
//! need neither: their conditions compare columns with constants, parameters or other columns, and
//! their results are columns. Such a select is compiled once more, into loops over leaves, lookups
//! and index entries; columns are found in the record's header when they are wanted and decoded
//! where they are. What does not fit stays with the general executor: `compile`
//! says which does (`draft` while it does), `plan` is what comes of it. `leaf` goes through the rows of
//! one table (`leaf_rows`) and `ready` leaves those that are wanted, `join` finds the rows of other tables
//! that each of those names, `seek` the few that an index finds by equality, `run`, `index` and `any` go
//! through those of several loops, `rowids` through those that a list of rowids names, `probe` through
//! those of a query within an expression for one row around it, `set` and
//! `ascending` compare those of several selects, `slots` keeps what was found, `each` and `rows` give it
//! out.

mod any;
mod ascending;
mod common;
mod compile;
mod draft;
mod each;
mod index;
mod join;
mod leaf;
mod leaf_rows;
mod plan;
mod probe;
mod ready;
mod rowids;
mod rows;
mod run;
mod seek;
mod set;
mod slots;

pub(crate) use compile::{compile, compile_inner};
pub(crate) use each::{ManyRows, RowView};
pub(crate) use leaf::{CHUNK, EVERYWHERE, LeafMemory};
pub(crate) use leaf_rows::{GivenRow, LeafRows};
pub(crate) use plan::{
    Direct, DirectGroup, GroupColumn, MoreOfAggregate, Operand, Root, constant, parts, root_parts,
};
pub(crate) use rows::DirectRows;
pub(crate) use run::Memory;
pub(crate) use set::{combine, combined, is_same};
pub(crate) use slots::fixed;
