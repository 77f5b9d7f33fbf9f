//! Differences between two SQLite files, as things to send and apply.
//!
//! [`diff`] walks over two files at once, skips pages with equal bytes, and tells a [`Sink`] of the
//! rows; [`diff_narrowed`] compares what a principal sees of them. [`SqlText`] writes SQL,
//! [`JsonLines`] a JSON object a line, [`Changes`] the bytes of SQLite's session extension. A
//! changeset is read by [`Reader`], applied by [`apply`] with a handler for conflicts, inverted,
//! joined to another, rebased; [`Recorder`] makes one of a connection's changes. [`merge`] joins
//! two descendants of one file, cell by cell. Documents are merged elsewhere: their tables are left
//! out.

#![forbid(unsafe_code)]

mod apply;
mod changeset;
mod compare;
mod concat;
mod diff;
mod error;
mod invert;
mod json;
pub mod literal;
mod merge;
mod narrowed;
mod rebase;
mod record;
mod schema;
mod shape;
mod sink;
mod sql_text;

pub use apply::{Answer, Applied, ApplyOptions, Conflict, ConflictKind, apply};
pub use changeset::{Change, Form, Head, Op, Reader, Writer};
pub use concat::concat;
pub use diff::{DiffOptions, LeftOut, diff};
pub use error::Error;
pub use invert::invert;
pub use json::JsonLines;
pub use merge::{CellConflict, MergeOptions, Merged, merge};
pub use narrowed::diff_narrowed;
pub use rebase::rebase;
pub use record::Recorder;
pub use schema::SchemaChange;
pub use shape::{Identity, Shape};
pub use sink::{Changes, Counts, RowDiff, Sink, Summary};
pub use sql_text::SqlText;
