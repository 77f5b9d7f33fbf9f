//! Full text, beside SQLite: one program, so that the engine and its peer are linked once.
#![allow(clippy::unwrap_used)]

mod corrupt;
mod differential;
mod fts3;
mod fts3_corrupt;
mod fts3_tokens;
mod speed;
mod sql;
mod support;
mod unicode_tables;
