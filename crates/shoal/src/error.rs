//! The errors of a database, by who can cause them.

use shoal_history::ChangeHash;

/// The reason of a failed call. Nothing was written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database has no document of this name.
    #[error("no such document: {name}")]
    NoDocument {
        /// The name.
        name: String,
    },
    /// The database has a document of this name already.
    #[error("there is a document of this name already: {name}")]
    Exists {
        /// The name.
        name: String,
    },
    /// The file was written by a later version of Shoal.
    #[error("the documents have layout {version}, of a later Shoal; this one knows up to {newest}")]
    Newer {
        /// The layout of the file.
        version: i64,
        /// The newest layout known here.
        newest: i64,
    },
    /// A statement about projections makes no sense.
    #[error("{why}")]
    Definition {
        /// The fault, as a sentence.
        why: String,
    },
    /// A past state that is asked for makes no sense.
    #[error("{why}")]
    Past {
        /// The fault, as a sentence.
        why: String,
    },
    /// What is to be watched makes no sense.
    #[error("{why}")]
    Topic {
        /// The fault, as a sentence.
        why: String,
    },
    /// A row of a projection cannot become an edit of a document.
    #[error("{why}")]
    Refused {
        /// The fault, as a sentence.
        why: String,
    },
    /// The contents of the `_shoal_` tables do not fit together.
    #[error("{table} row {rowid}: {why}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The row.
        rowid: i64,
        /// The fault.
        why: &'static str,
    },
    /// A stored change is no change.
    #[error("{table} row {rowid}: {source}")]
    Chunk {
        /// The table.
        table: &'static str,
        /// The row.
        rowid: i64,
        /// The fault.
        source: shoal_history::Error,
    },
    /// A stored document chunk is broken.
    #[error("{table} row {rowid}: {source}")]
    DocumentChunk {
        /// The table.
        table: &'static str,
        /// The row.
        rowid: i64,
        /// The fault.
        source: shoal_crdt::Error,
    },
    /// The stored changes of a document do not lead to its stored heads.
    #[error("document {name}: its changes do not lead to its heads; missing: {missing}")]
    HeadsDiffer {
        /// The document.
        name: String,
        /// A head out of reach of the changes.
        missing: ChangeHash,
    },
    /// A `_shoal_` table does not have the columns of this version.
    #[error("{table} has another shape than this version of Shoal writes")]
    Layout {
        /// The table.
        table: &'static str,
    },
    /// The document's state cannot be told as JSON, being nested too deeply.
    #[error("document {name}: {why}")]
    Json {
        /// The document.
        name: String,
        /// The serializer's message.
        why: String,
    },
    /// A bound was reached.
    #[error("{what}: more than {max}")]
    Limit {
        /// The bounded quantity.
        what: &'static str,
        /// The bound.
        max: u64,
    },
    /// The document refuses its changes.
    #[error(transparent)]
    Document(#[from] shoal_crdt::Error),
    /// The tables cannot be read or written.
    #[error(transparent)]
    Sql(#[from] shoal_sql::Error),
    /// The file cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] shoal_store::Error),
}

impl Error {
    /// True where another connection or process is in the way: the call may be made again.
    pub fn is_busy(&self) -> bool {
        match self {
            Error::Store(error) | Error::Sql(shoal_sql::Error::Store(error)) => error.is_busy(),
            _ => false,
        }
    }
}
