//! A local-first database: Automerge documents and SQL tables in one SQLite file.
//!
//! ```
//! use shoal::{Access, Database, Document, Environment};
//! use shoal_crdt::{CommitOptions, ROOT};
//!
//! let environment = Environment::os();
//! let mut database = Database::memory(environment.clone())?;
//!
//! let mut note = Document::new(environment.new_actor());
//! let mut transaction = note.transaction();
//! transaction.put(&ROOT, "title", "Holidays")?;
//! transaction.commit(CommitOptions::default().with_time(environment.now_seconds()));
//! database.store("note", &mut note)?;
//!
//! assert_eq!(database.load("note")?.heads(), note.heads());
//! # Ok::<(), shoal::Error>(())
//! ```
//!
//! Documents are stored as chunks of Automerge's format: each change as it was made, many of them
//! as one chunk once a document is compacted. Their present state stands beside them as JSON. Knows
//! no sockets, no peers, no passphrases.

#![forbid(unsafe_code)]

mod compact;
mod database;
mod denied;
mod environment;
mod error;
mod group;
mod intake;
mod layout;
mod life;
mod modules;
mod notes;
mod open_document;
mod past;
mod projection;
mod tables;
mod times;
mod watch;

pub use compact::Compacted;
pub use database::{Database, StoredDocument};
pub use environment::Environment;
pub use error::Error;
pub use life::RemovedDocument;
pub use modules::register_modules;
pub use open_document::OpenDocument;
pub use shoal_crdt::Document;
pub use shoal_history::{ActorId, ChangeHash};
pub use shoal_store::Access;
pub use watch::{Event, Topics, Watch};
