//! Whoever runs the SQL of a graph in tables: a connection, or the statement of a table-valued
//! function.

use rustc_hash::FxHashMap;
use shoal_sql::{Connection, ModuleContext, Statement, Value as Sql};

use crate::error::{Error, Result};

pub(crate) fn failed(error: shoal_sql::Error) -> Error {
    Error::storage(error.to_string())
}

/// Runs statements in one transaction at a time.
pub trait Source {
    /// Calls `each` with every row of a query; its error ends the query.
    fn rows(
        &mut self,
        sql: &str,
        arguments: &[Sql],
        each: &mut dyn FnMut(&[Sql]) -> Result<()>,
    ) -> Result<()>;

    /// Runs a statement that writes.
    fn execute(&mut self, sql: &str, arguments: &[Sql]) -> Result<()>;

    /// The rowid of the last row inserted.
    fn last_insert_rowid(&self) -> i64;

    /// Begins a transaction.
    fn begin(&mut self, writes: bool) -> Result<()>;

    /// Ends the transaction; its writes are durable.
    fn commit(&mut self) -> Result<()>;

    /// Ends the transaction and undoes its writes.
    fn rollback(&mut self);
}

/// A connection, and the statements prepared with it.
pub struct ConnectionSource {
    pub(crate) connection: Connection,
    statements: FxHashMap<String, Statement>,
}

impl ConnectionSource {
    pub(crate) fn new(connection: Connection) -> ConnectionSource {
        ConnectionSource { connection, statements: FxHashMap::default() }
    }

    fn take(&mut self, sql: &str, arguments: &[Sql]) -> Result<Statement> {
        let mut statement = match self.statements.remove(sql) {
            Some(statement) => statement,
            None => self.connection.prepare(sql).map_err(failed)?,
        };
        for (at, argument) in arguments.iter().enumerate() {
            statement.bind(at + 1, argument.clone()).map_err(failed)?;
        }
        Ok(statement)
    }
}

impl Source for ConnectionSource {
    fn rows(
        &mut self,
        sql: &str,
        arguments: &[Sql],
        each: &mut dyn FnMut(&[Sql]) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.take(sql, arguments)?;
        let width = statement.column_count();
        let mut rows = self.connection.query(&mut statement).map_err(failed)?;
        let mut values = Vec::with_capacity(width);
        let result = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    values.clear();
                    values.extend((0..width).map(|column| Sql::from(row.get(column))));
                    if let Err(error) = each(&values) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(failed(error)),
            }
        };
        drop(rows);
        self.statements.insert(sql.to_owned(), statement);
        result
    }

    fn execute(&mut self, sql: &str, arguments: &[Sql]) -> Result<()> {
        let mut statement = self.take(sql, arguments)?;
        let result = self.connection.execute(&mut statement).map_err(failed);
        self.statements.insert(sql.to_owned(), statement);
        result.map(drop)
    }

    fn last_insert_rowid(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    fn begin(&mut self, writes: bool) -> Result<()> {
        self.execute(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" }, &[])
    }

    fn commit(&mut self) -> Result<()> {
        self.connection.commit().map_err(failed)
    }

    fn rollback(&mut self) {
        // A transaction that cannot be undone ends with the connection; the query's own error is
        // told.
        let _ = self.connection.rollback();
    }
}

/// A running statement, whose transaction is its own: it reads.
pub(crate) struct StatementSource<'s> {
    pub(crate) context: ModuleContext<'s>,
}

impl Source for StatementSource<'_> {
    fn rows(
        &mut self,
        sql: &str,
        arguments: &[Sql],
        each: &mut dyn FnMut(&[Sql]) -> Result<()>,
    ) -> Result<()> {
        let mut told = None;
        let result = self.context.query(sql, arguments, |row| {
            each(row).map_err(|error| {
                let stopped = shoal_sql::Error::of_function(error.to_string());
                told = Some(error);
                stopped
            })
        });
        match told {
            Some(error) => Err(error),
            None => result.map_err(failed),
        }
    }

    fn execute(&mut self, _: &str, _: &[Sql]) -> Result<()> {
        Err(Error::storage("a query within SQL reads and never writes"))
    }

    fn last_insert_rowid(&self) -> i64 {
        0
    }

    fn begin(&mut self, writes: bool) -> Result<()> {
        match writes {
            true => Err(Error::storage(
                "CYPHER (...) in SQL reads; a query that writes is run by shoal cypher",
            )),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<()> {
        Ok(())
    }

    fn rollback(&mut self) {}
}
