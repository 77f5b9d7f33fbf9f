//! Small queries made by the command itself.

use shoal_sql::{Connection, Error, Narrowed, Rows, Statement, Value, ValueRef};

/// A connection to read by: to a whole file, or to what a principal sees of it.
pub(crate) trait Reads {
    /// Prepares the one statement of a text.
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error>;

    /// Runs a statement for its rows.
    fn query<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error>;

    /// Runs a statement for its effect.
    fn execute(&mut self, statement: &mut Statement) -> Result<(), Error>;

    /// True within a transaction.
    fn in_transaction(&self) -> bool;

    /// The connection to the whole file; `None` under rules.
    fn whole(&mut self) -> Option<&mut Connection>;
}

impl Reads for Connection {
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        Connection::prepare(self, sql)
    }

    fn query<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error> {
        Connection::query(self, statement)
    }

    fn execute(&mut self, statement: &mut Statement) -> Result<(), Error> {
        Connection::execute(self, statement).map(drop)
    }

    fn in_transaction(&self) -> bool {
        Connection::in_transaction(self)
    }

    fn whole(&mut self) -> Option<&mut Connection> {
        Some(self)
    }
}

impl Reads for Narrowed {
    fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        Narrowed::prepare(self, sql)
    }

    fn query<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error> {
        Narrowed::query(self, statement)
    }

    fn execute(&mut self, statement: &mut Statement) -> Result<(), Error> {
        Narrowed::execute(self, statement)
    }

    fn in_transaction(&self) -> bool {
        Narrowed::in_transaction(self)
    }

    fn whole(&mut self) -> Option<&mut Connection> {
        None
    }
}

/// Runs a statement for its effect.
pub(crate) fn run(connection: &mut dyn Reads, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement)?;
    Ok(())
}

/// The rows of a query, whose parameters have these values.
pub(crate) fn rows(
    connection: &mut dyn Reads,
    sql: &str,
    parameters: &[&str],
) -> Result<Vec<Vec<Value>>, Error> {
    let mut statement = connection.prepare(sql)?;
    for (place, value) in parameters.iter().enumerate() {
        statement.bind(place + 1, Value::text(*value))?;
    }
    let mut rows = connection.query(&mut statement)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

/// The text of a value; empty for values of other types.
pub(crate) fn text(value: &Value) -> String {
    match value.as_ref() {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
