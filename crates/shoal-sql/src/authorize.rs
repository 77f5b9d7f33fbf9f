//! What a statement is going to touch, and the program's word on it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// Something that a statement is going to do, asked about while the statement is prepared
/// ([`Connection::set_authorizer`](crate::Connection::set_authorizer)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access<'a> {
    /// A query, one question for the whole statement.
    Select,
    /// A column is read, or with an empty column the table is named in a `FROM`.
    Read {
        /// The database.
        database: &'a str,
        /// The table.
        table: &'a str,
        /// The column; `rowid` for one without a name.
        column: &'a str,
    },
    /// Rows are inserted.
    Insert {
        /// The database.
        database: &'a str,
        /// The table or view.
        table: &'a str,
    },
    /// A column is assigned to.
    Update {
        /// The database.
        database: &'a str,
        /// The table or view.
        table: &'a str,
        /// The column.
        column: &'a str,
    },
    /// Rows are deleted.
    Delete {
        /// The database.
        database: &'a str,
        /// The table or view.
        table: &'a str,
    },
    /// A function is called, a built-in one too.
    Function {
        /// Its name, as written.
        name: &'a str,
    },
    /// A definition is made, changed or dropped: `CREATE`, `DROP`, `ALTER`, `REINDEX`, `ANALYZE`.
    Define {
        /// The words of the statement: `CREATE TABLE`.
        what: &'a str,
        /// The name of what is defined; empty where there is none.
        name: &'a str,
    },
    /// A `PRAGMA`.
    Pragma {
        /// Its name, as written.
        name: &'a str,
        /// True where an argument is given.
        sets: bool,
    },
    /// `ATTACH`, `DETACH`, `VACUUM`: files come and go.
    File {
        /// The first word of the statement.
        what: &'a str,
    },
    /// `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT`, `RELEASE`, `ROLLBACK TO`.
    Transaction {
        /// The words of the statement.
        what: &'a str,
    },
}

/// The program's word on an [`Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// It may be done.
    Allow,
    /// A column that is read is NULL instead. Anything else is refused.
    Ignore,
    /// The statement is refused.
    Deny,
}

type Body = dyn FnMut(&Access<'_>) -> Authorization + Send;

/// The authorizer of a connection, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Authorizer(Option<Arc<Mutex<Box<Body>>>>);

impl Authorizer {
    pub(crate) fn new(body: Box<Body>) -> Authorizer {
        Authorizer(Some(Arc::new(Mutex::new(body))))
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Asks the program; true for a column to be read as NULL.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub(crate) fn ask(&self, access: &Access<'_>) -> Result<bool, Error> {
        let Some(body) = &self.0 else { return Ok(false) };
        // A panic of an earlier call says nothing about this one.
        let word = body.lock().unwrap_or_else(PoisonError::into_inner)(access);
        let message = match (word, access) {
            (Authorization::Allow, _) => return Ok(false),
            (Authorization::Ignore, Access::Read { column, .. }) if !column.is_empty() => {
                return Ok(true);
            }
            (_, Access::Read { table, column, .. }) => {
                let dot = if column.is_empty() { "" } else { "." };
                format!("access to {table}{dot}{column} is prohibited")
            }
            (_, Access::Function { name }) => format!("not authorized to use function: {name}"),
            _ => "not authorized".to_owned(),
        };
        Err(Error::Denied { message })
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorizer").field(&self.0.is_some()).finish()
    }
}
