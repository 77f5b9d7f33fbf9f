//! What can go wrong with a statement, by who can cause it.

use std::fmt;

/// Why a statement was refused or stopped.
///
/// Errors that the statement's text caused know their place in it: [`Error::offset`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL. The message is worded as `sqlite3` words it.
    #[error("{message}")]
    Syntax {
        /// What is wrong.
        message: String,
        /// Byte offset into the statement's text.
        offset: usize,
    },
    /// SQL that `sqlite3` knows and this crate does not yet.
    #[error("not supported: {what}")]
    Unsupported {
        /// The feature, as a reader of the SQL would name it.
        what: String,
        /// Byte offset into the statement's text, where there is one.
        offset: Option<usize>,
    },
    /// A name that means nothing, or two things.
    #[error("{message}")]
    Name {
        /// What kind of thing was looked for.
        kind: NameKind,
        /// What is wrong, as `sqlite3` words it: `no such table: x`.
        message: String,
        /// Byte offset into the statement's text, where there is one.
        offset: Option<usize>,
    },
    /// Valid grammar that means nothing: a wrong number of columns, an aggregate in `WHERE`.
    #[error("{message}")]
    Meaning {
        /// What is wrong, as `sqlite3` words it.
        message: String,
        /// Byte offset into the statement's text, where there is one.
        offset: Option<usize>,
    },
    /// The table is kept by someone above SQL ([`crate::Connection::reserve_tables`]).
    #[error("table {table} may only be read with SQL")]
    Refused {
        /// The table.
        table: String,
        /// Byte offset into the statement's text.
        offset: usize,
    },
    /// A bound of this crate was reached.
    #[error("{what}: more than {max}")]
    Limit {
        /// What is bounded.
        what: &'static str,
        /// The bound.
        max: u64,
    },
    /// A row may not be stored.
    #[error("{constraint} constraint failed: {place}")]
    Constraint {
        /// `UNIQUE`, `NOT NULL`, `CHECK`, `PRIMARY KEY`, `FOREIGN KEY` or `datatype`.
        constraint: &'static str,
        /// The columns or the constraint's name.
        place: String,
    },
    /// What `RAISE` in a trigger's program said.
    #[error("{message}")]
    Raised {
        /// The trigger's own words.
        message: String,
        /// What becomes of the changes made so far.
        raise: Raise,
    },
    /// The schema in the file is damaged or uses what this crate does not know.
    #[error("malformed database schema ({object}): {why}")]
    Schema {
        /// The table, index or view.
        object: String,
        /// What is wrong with it.
        why: String,
    },
    /// A value cannot be used that way: raised while the statement runs.
    #[error("{message}")]
    Runtime {
        /// What is wrong, as `sqlite3` words it.
        message: String,
    },
    /// The caller used the interface wrongly: a parameter index out of range, say.
    #[error("{what}")]
    Misuse {
        /// The mistake.
        what: &'static str,
    },
    /// The statement was stopped by an [`Interrupter`](crate::Interrupter).
    #[error("interrupted")]
    Interrupted,
    /// The file could not be read or written, or its pages are damaged.
    #[error(transparent)]
    Store(shoal_store::Error),
}

/// What `RAISE` in a trigger's program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Raise {
    /// The row is left out, and the statement goes on.
    Ignore,
    /// The transaction is taken back.
    Rollback,
    /// The statement is taken back.
    Abort,
    /// The statement ends, and what it changed stays.
    Fail,
}

impl From<shoal_store::Error> for Error {
    fn from(error: shoal_store::Error) -> Error {
        match error {
            shoal_store::Error::Interrupted => Error::Interrupted,
            shoal_store::Error::TimedOut { limit_ms } => {
                Error::Limit { what: "milliseconds of a statement", max: limit_ms }
            }
            other => Error::Store(other),
        }
    }
}

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameKind {
    /// A table or view.
    Table,
    /// A column.
    Column,
    /// A function.
    Function,
    /// An index.
    Index,
    /// A collating sequence.
    Collation,
    /// An attached database.
    Database,
    /// A savepoint.
    Savepoint,
    /// A trigger.
    Trigger,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameKind::Table => "table",
            NameKind::Column => "column",
            NameKind::Function => "function",
            NameKind::Index => "index",
            NameKind::Collation => "collation sequence",
            NameKind::Database => "database",
            NameKind::Savepoint => "savepoint",
            NameKind::Trigger => "trigger",
        })
    }
}

impl Error {
    /// The byte offset into the statement's text that the error points at.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Error::Syntax { offset, .. } | Error::Refused { offset, .. } => Some(*offset),
            Error::Unsupported { offset, .. }
            | Error::Name { offset, .. }
            | Error::Meaning { offset, .. } => *offset,
            _ => None,
        }
    }

    /// The same error pointing elsewhere: for text that is not the statement's own, a view's say.
    pub(crate) fn at(mut self, place: usize) -> Error {
        match &mut self {
            Error::Syntax { offset, .. } => *offset = place,
            Error::Unsupported { offset, .. }
            | Error::Name { offset, .. }
            | Error::Meaning { offset, .. } => *offset = Some(place),
            _ => {}
        }
        self
    }

    /// The same error without a place: for text that the reader does not see.
    pub(crate) fn nowhere(mut self) -> Error {
        match &mut self {
            Error::Unsupported { offset, .. }
            | Error::Name { offset, .. }
            | Error::Meaning { offset, .. } => *offset = None,
            _ => {}
        }
        self
    }

    pub(crate) fn unsupported(what: impl Into<String>, offset: usize) -> Error {
        Error::Unsupported { what: what.into(), offset: Some(offset) }
    }

    pub(crate) fn meaning(message: impl Into<String>, offset: usize) -> Error {
        Error::Meaning { message: message.into(), offset: Some(offset) }
    }

    /// `no such <kind>: <name>`.
    pub(crate) fn no_such(kind: NameKind, name: &str, offset: usize) -> Error {
        Error::Name { kind, message: format!("no such {kind}: {name}"), offset: Some(offset) }
    }

    /// Bytes of the file that break its format.
    pub(crate) fn corrupt(corrupt: shoal_store::Corrupt) -> Error {
        Error::Store(corrupt.into())
    }

    /// An index's entry whose row is not there; 0 where it has no rowid.
    pub(crate) fn names_no_row(rowid: i64) -> Error {
        let why = "names a row that is not there";
        Error::corrupt(shoal_store::Corrupt::new("index", why, rowid.cast_unsigned()))
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Error {
        Error::Runtime { message: message.into() }
    }
}
