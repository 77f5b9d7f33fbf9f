//! Small queries made by the command itself.

use shoal_sql::{Connection, Error, Value, ValueRef};

/// Runs a statement for its effect.
pub(crate) fn run(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement)?;
    Ok(())
}

/// The rows of a query, whose parameters have these values.
pub(crate) fn rows(
    connection: &mut Connection,
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
