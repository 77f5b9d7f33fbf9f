//! Files and trees, beside SQLite: one program, so that the engine and its peer are linked once.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr)] // a test that is skipped says so

mod auto_vacuum;
mod backup;
mod codec;
#[path = "../common/mod.rs"]
mod common;
mod corpora;
mod fill;
mod group;
mod hostile;
mod index_lookups;
mod live;
mod lookups;
mod marks;
mod model;
mod neighbours;
mod salvage;
mod turns;
