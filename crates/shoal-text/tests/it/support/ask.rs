//! A statement asked of Shoal and of SQLite: rows as texts, blobs in hexadecimal digits.

use rusqlite::types::ValueRef as Ref;
use shoal_sql::{Connection, ValueRef};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rows of a statement in Shoal, or the refusal.
pub(crate) fn ask_ours(connection: &mut Connection, sql: &str) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    let mut statement = connection.prepare(sql).map_err(|error| error.to_string())?;
    let mut found = connection.query(&mut statement).map_err(|error| error.to_string())?;
    while let Some(row) = found.next().map_err(|error| error.to_string())? {
        let value = |column| match row.get(column) {
            ValueRef::Null => "NULL".to_owned(),
            ValueRef::Int(number) => number.to_string(),
            ValueRef::Real(number) => format!("{number:.9}"),
            ValueRef::Text(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
            ValueRef::Blob(bytes) => hex(bytes),
        };
        rows.push((0..row.len()).map(value).collect::<Vec<_>>().join("|"));
    }
    Ok(rows)
}

/// Rows of a statement in SQLite, or the refusal.
pub(crate) fn ask_sqlite(
    connection: &rusqlite::Connection,
    sql: &str,
) -> Result<Vec<String>, String> {
    let message = |error: rusqlite::Error| match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    };
    let mut statement = connection.prepare(sql).map_err(message)?;
    let count = statement.column_count();
    let mut rows = Vec::new();
    let mut found = statement.query([]).map_err(message)?;
    while let Some(row) = found.next().map_err(message)? {
        let value = |column| match row.get_ref(column).unwrap() {
            Ref::Null => "NULL".to_owned(),
            Ref::Integer(number) => number.to_string(),
            Ref::Real(number) => format!("{number:.9}"),
            Ref::Text(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
            Ref::Blob(bytes) => hex(bytes),
        };
        rows.push((0..count).map(value).collect::<Vec<_>>().join("|"));
    }
    Ok(rows)
}
