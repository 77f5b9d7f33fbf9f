//! The database in the sight of one caller: everything, or the grants of rules.

use shoal::Database;
use shoal_sql::{Narrowed, Rows, Statement};
use shoal_store::Mode;

use crate::refusal::Refusal;

/// The database in the sight of one caller. Under rules the whole database is out of reach by type.
pub(crate) enum Seen<'s> {
    /// Everything, with the guard's word on each statement.
    Whole(&'s mut Database),
    /// The grants of a principal.
    Narrowed(&'s mut Narrowed),
}

impl Seen<'_> {
    /// True under rules.
    pub(crate) fn is_narrowed(&self) -> bool {
        matches!(self, Seen::Narrowed(_))
    }

    /// The whole database; `None` under rules.
    pub(crate) fn whole(&mut self) -> Option<&mut Database> {
        match self {
            Seen::Whole(database) => Some(database),
            Seen::Narrowed(_) => None,
        }
    }

    /// Prepares a statement, over the tables in sight.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<Statement, shoal_sql::Error> {
        match self {
            Seen::Whole(database) => database.sql().prepare(sql),
            Seen::Narrowed(narrowed) => narrowed.prepare(sql),
        }
    }

    /// Runs a statement for its rows.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn query<'q>(
        &'q mut self,
        statement: &'q mut Statement,
    ) -> Result<Rows<'q>, shoal_sql::Error> {
        match self {
            Seen::Whole(database) => database.sql().query(statement),
            Seen::Narrowed(narrowed) => narrowed.query(statement),
        }
    }

    /// Runs a statement to its end.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn execute(&mut self, statement: &mut Statement) -> Result<(), shoal_sql::Error> {
        match self {
            Seen::Whole(database) => database.sql().execute(statement).map(drop),
            Seen::Narrowed(narrowed) => narrowed.execute(statement),
        }
    }

    /// Begins a writing transaction, commits the transaction, or rolls back.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn transact(&mut self, step: Step) -> Result<(), shoal_sql::Error> {
        match (self, step) {
            (Seen::Whole(database), Step::Begin) => database.sql().begin(Mode::Write),
            (Seen::Whole(database), Step::Commit) => database.sql().commit(),
            (Seen::Whole(database), Step::Rollback) => database.sql().rollback(),
            (Seen::Narrowed(narrowed), step) => {
                let sql = match step {
                    Step::Begin => "BEGIN IMMEDIATE",
                    Step::Commit => "COMMIT",
                    Step::Rollback => "ROLLBACK",
                };
                let mut statement = narrowed.prepare(sql)?;
                narrowed.execute(&mut statement)
            }
        }
    }

    /// Rows changed so far, and the last rowid inserted.
    pub(crate) fn counts(&mut self) -> (u64, i64) {
        match self {
            Seen::Whole(database) => {
                let connection = database.sql();
                (connection.total_changes(), connection.last_insert_rowid())
            }
            Seen::Narrowed(narrowed) => (narrowed.total_changes(), narrowed.last_insert_rowid()),
        }
    }

    /// The words of a failure. Words of a fault in the file are held back under rules: they name
    /// pages of hidden tables.
    pub(crate) fn words(&self, error: &shoal_sql::Error) -> String {
        match error {
            shoal_sql::Error::Store(_) if self.is_narrowed() => {
                "the file cannot be read".to_owned()
            }
            error => error.to_string(),
        }
    }
}

/// A step of a writing transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Begin,
    Commit,
    Rollback,
}

/// The refusal of work on the whole database for a caller under rules.
pub(crate) fn needs_whole(what: &str) -> Refusal {
    Refusal::new(format!(
        "{what} is refused: this server shows what its rules grant, and {what} cannot be narrowed"
    ))
    .hint("The tool schema lists what is granted; query reads it")
}
