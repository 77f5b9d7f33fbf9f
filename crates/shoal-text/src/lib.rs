//! Full text search over the tables of SQLite's FTS5, and of FTS3 and FTS4.
//!
//! A [`Definition`] is what `CREATE VIRTUAL TABLE` said. A [`Writer`] indexes documents into the
//! shadow tables of a [`Storage`], a [`Query`] is parsed into a tree, and a [`Search`] finds its
//! rows. Layouts are SQLite's to the byte: either engine goes on where the other left off.
//!
//! [`TextModule`] and [`VocabularyModule`] bring all of it into SQL, as virtual tables of
//! `shoal-sql`, and [`Fts3Module`] the older tables of FTS3 and FTS4, for reading. The crate opens
//! no files.

#![forbid(unsafe_code)]

mod auxiliary;
mod check;
mod config;
mod definition;
mod doclist;
mod error;
mod fts3;
mod index;
mod merge;
mod module;
mod pending;
mod positions;
mod query;
mod rank;
mod search;
mod segment;
mod storage;
mod structure;
mod tokenize;
mod tombstone;
mod varint;
mod vocab;
mod writer;

pub use auxiliary::{Highlight, Snippet};
pub use config::Rank;
pub use definition::{Column, Content, Definition, Detail};
pub use error::{Error, Result};
pub use fts3::{Fts3Module, Fts3Syntax, Fts3TermsModule, Fts3TokensModule};
pub use index::Writer;
pub use module::{TextModule, VocabularyModule};
pub use query::Query;
pub use search::Search;
pub use storage::{Documents, Setting, Storage};
pub use tokenize::Tokenizer;
pub use vocab::{Vocabulary, VocabularyRow};
