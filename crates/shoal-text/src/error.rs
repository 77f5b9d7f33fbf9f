//! Faults of full text search, kept apart by who causes them.

/// Result of an operation on a full text index.
pub type Result<T> = std::result::Result<T, Error>;

/// Fault of a definition, a query, a file, or the storage below.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes of a shadow table that no index could have written.
    #[error("database disk image is malformed: {structure} {place}: {why}")]
    Corrupt {
        /// Name of the structure: `segment leaf`, `structure record`.
        structure: &'static str,
        /// Row of `%_data` (or the document's rowid) that holds the bytes.
        place: i64,
        /// The rule broken by the bytes.
        why: &'static str,
    },
    /// A query's text, or an argument of a function, in SQLite's words.
    #[error("{0}")]
    Query(String),
    /// The arguments of `CREATE VIRTUAL TABLE`, in SQLite's words.
    #[error("{0}")]
    Definition(String),
    /// A bound of the format: segments, levels, columns.
    #[error("{0}")]
    Limit(String),
    /// A command or a change that the table's options exclude.
    #[error("{0}")]
    Refused(String),
    /// Fault of the storage, handed through.
    #[error("{0}")]
    Storage(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// A fault of a structure's bytes.
    pub(crate) fn corrupt(structure: &'static str, place: i64, why: &'static str) -> Error {
        Error::Corrupt { structure, place, why }
    }
}
