//! Errors of this crate, by who can cause them.

/// A failed comparison, application or conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of neither a changeset nor a patchset.
    #[error("changeset, byte {at}: {structure} {fault}")]
    Corrupt {
        /// The broken structure: a table's head, a change, a value.
        structure: &'static str,
        /// The fault.
        fault: &'static str,
        /// The place among the bytes.
        at: usize,
    },
    /// Changes in a form unfit for the work: a patchset cannot be inverted, say.
    #[error("{what}")]
    Unfit {
        /// The work, and the reason against its being done.
        what: &'static str,
    },
    /// Two changesets disagree about the columns or the key of a table.
    #[error("table {table} has other columns or another key in the second changeset")]
    Heads {
        /// The table.
        table: String,
    },
    /// The conflict handler asked to stop; nothing was changed.
    #[error("{op} in table {table} stopped by a conflict: {kind}; nothing was applied")]
    Aborted {
        /// The table of the change.
        table: String,
        /// The change, in one word.
        op: &'static str,
        /// The conflict, in words.
        kind: &'static str,
    },
    /// Foreign keys point at missing rows after all changes; nothing was applied.
    #[error("rows would refer to rows that are not there (FOREIGN KEY); nothing was applied")]
    ForeignKeys,
    /// A table cannot be compared or merged.
    #[error("table {table}: {why}")]
    Table {
        /// The table.
        table: String,
        /// The reason.
        why: &'static str,
    },
    /// The output could not be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A database refused.
    #[error(transparent)]
    Sql(#[from] shoal_sql::Error),
}

impl From<shoal_store::Error> for Error {
    fn from(error: shoal_store::Error) -> Error {
        Error::Sql(shoal_sql::Error::Store(error))
    }
}
