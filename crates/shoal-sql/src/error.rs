//! Errors of statements, by their origin.

use std::fmt;

/// Why a statement was refused or stopped.
///
/// Errors caused by the statement's text know their place in the text: [`Error::offset`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL. The message is worded like `sqlite3`'s.
    #[error("{message}")]
    Syntax {
        /// The fault.
        message: String,
        /// Byte offset into the statement's text.
        offset: usize,
    },
    /// SQL of `sqlite3` not yet in this crate.
    #[error("not supported: {what}")]
    Unsupported {
        /// The feature, in the words of a reader of the SQL.
        what: String,
        /// Byte offset into the statement's text, where there is one.
        offset: Option<usize>,
    },
    /// An unknown name, or an ambiguous one.
    #[error("{message}")]
    Name {
        /// The kind of thing looked for.
        kind: NameKind,
        /// The fault, in the words of `sqlite3`: `no such table: x`.
        message: String,
        /// Byte offset into the statement's text, where there is one.
        offset: Option<usize>,
    },
    /// Valid grammar without a meaning: a wrong number of columns, an aggregate in `WHERE`.
    #[error("{message}")]
    Meaning {
        /// The fault, in the words of `sqlite3`.
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
    /// The program's authorizer refused the statement
    /// ([`Connection::set_authorizer`](crate::Connection::set_authorizer)).
    #[error("{message}")]
    Denied {
        /// The refusal, in the words of `sqlite3`.
        message: String,
    },
    /// A bound of this crate was reached.
    #[error("{what}: more than {max}")]
    Limit {
        /// The bounded quantity.
        what: &'static str,
        /// The bound.
        max: u64,
    },
    /// A row may not be stored.
    #[error("{constraint} constraint failed{}{place}", if place.is_empty() { "" } else { ": " })]
    Constraint {
        /// The kind of constraint; displayed as `UNIQUE`, `NOT NULL`, `CHECK` or `FOREIGN KEY`.
        constraint: ConstraintKind,
        /// The columns or the constraint's name; empty for a foreign key.
        place: String,
    },
    /// The program's commit hook refused the commit
    /// ([`Connection::set_commit_hook`](crate::Connection::set_commit_hook)).
    #[error("constraint failed")]
    CommitRefused,
    /// The message of a `RAISE` in a trigger's program.
    #[error("{message}")]
    Raised {
        /// The trigger's own words.
        message: String,
        /// The fate of the changes made so far.
        raise: Raise,
    },
    /// The schema in the file is damaged or beyond this crate.
    #[error("malformed database schema ({object}): {why}")]
    Schema {
        /// The table, index or view.
        object: String,
        /// The fault of the object.
        why: String,
    },
    /// A shadow table with content never written by the virtual table's module.
    #[error("virtual table {table} is corrupt: {why}")]
    CorruptVirtual {
        /// The virtual table.
        table: String,
        /// The fault and its place.
        why: String,
    },
    /// A value of another type than its column of a `STRICT` table.
    #[error("cannot store {class} value in {declared} column {place}")]
    Datatype {
        /// The type of the value.
        class: String,
        /// The type of the column.
        declared: String,
        /// The column.
        place: String,
    },
    /// A value unfit for its use: raised while the statement runs.
    #[error("{message}")]
    Runtime {
        /// The fault, in the words of `sqlite3`.
        message: String,
    },
    /// The caller used the interface wrongly: a parameter index out of range, say.
    #[error("{what}")]
    Misuse {
        /// The mistake.
        what: &'static str,
    },
    /// A join found far more rows than its plan expected. Within this crate alone: the statement
    /// is planned anew.
    #[doc(hidden)]
    #[error("a join found far more rows than its plan expected")]
    Misjudged {
        /// The number of the join's step, from 0.
        step: usize,
        /// The rows found by the step.
        found: u64,
        /// The rows found by the first step.
        first: u64,
    },
    /// The statement was stopped by an [`Interrupter`](crate::Interrupter).
    #[error("interrupted")]
    Interrupted,
    /// The file could not be read or written, or its pages are damaged.
    #[error(transparent)]
    Store(shoal_store::Error),
}

/// The kinds of constraints on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintKind {
    /// `UNIQUE`, of a constraint or an index.
    Unique,
    /// A primary key, reported as `UNIQUE`, in SQLite's words.
    PrimaryKey,
    /// A rowid without a name, reported as `UNIQUE`.
    Rowid,
    /// `NOT NULL`.
    NotNull,
    /// `CHECK`.
    Check,
    /// `FOREIGN KEY`.
    ForeignKey,
    /// A rule of a virtual table, whose module is named.
    Virtual(&'static str),
}

impl fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConstraintKind::Unique | ConstraintKind::PrimaryKey | ConstraintKind::Rowid => "UNIQUE",
            ConstraintKind::NotNull => "NOT NULL",
            ConstraintKind::Check => "CHECK",
            ConstraintKind::ForeignKey => "FOREIGN KEY",
            ConstraintKind::Virtual(module) => module,
        })
    }
}

/// The effect of a `RAISE` in a trigger's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Raise {
    /// The row is left out, and the statement goes on.
    Ignore,
    /// The transaction is taken back.
    Rollback,
    /// The statement is taken back.
    Abort,
    /// The statement ends, and its changes stay.
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

/// The kind of thing named by a name.
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
    /// A module of virtual tables.
    Module,
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
            NameKind::Module => "module",
        })
    }
}

impl Error {
    /// The byte offset of the error in the statement's text.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Error::Syntax { offset, .. } | Error::Refused { offset, .. } => Some(*offset),
            Error::Unsupported { offset, .. }
            | Error::Name { offset, .. }
            | Error::Meaning { offset, .. } => *offset,
            _ => None,
        }
    }

    /// The same error with another place: for text other than the statement's own, a view's say.
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

    /// The same error without a place: for text the reader does not see.
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

    /// Bytes of the file against its format.
    pub(crate) fn corrupt(corrupt: shoal_store::Corrupt) -> Error {
        Error::Store(corrupt.into())
    }

    /// An index's entry without its row; 0 where the entry has no rowid.
    pub(crate) fn names_no_row(rowid: i64) -> Error {
        let why = "names a row that is not there";
        Error::corrupt(shoal_store::Corrupt::new("index", why, rowid.cast_unsigned()))
    }

    /// An error of a program's own function, in the words for its reader.
    pub fn of_function(message: impl Into<String>) -> Error {
        Error::runtime(message)
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Error {
        Error::Runtime { message: message.into() }
    }
}
