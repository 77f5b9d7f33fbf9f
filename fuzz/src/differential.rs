//! The same query asked of Shoal and of SQLite.

use rusqlite::types::ValueRef as Peer;
use shoal_sql::{Connection, Error, Statement, ValueRef};

/// Rows compared per statement; further rows are left out.
pub const ROWS: usize = 300;

/// Shoal's rows as texts, sorted; `None` for a statement without a result.
///
/// # Errors
/// Shoal's reason to refuse the statement.
pub fn ours(connection: &mut Connection, text: &str) -> Result<Option<Vec<String>>, Error> {
    let mut statement = connection.prepare(text)?;
    if !statement.is_read_only() || statement.column_count() == 0 {
        return Ok(None);
    }
    our_rows(connection, &mut statement).map(Some)
}

/// Runs any statement: Shoal's rows as texts, sorted.
///
/// # Errors
/// Shoal's reason to refuse the statement.
pub fn our_answer(connection: &mut Connection, text: &str) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare(text)?;
    if statement.column_count() == 0 {
        connection.execute(&mut statement)?;
        return Ok(Vec::new());
    }
    our_rows(connection, &mut statement)
}

fn our_rows(connection: &mut Connection, statement: &mut Statement) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    let mut rows = connection.query(statement)?;
    while let Some(row) = rows.next()? {
        let values: Vec<String> = row
            .values()
            .map(|value| match value {
                ValueRef::Null => "NULL".to_owned(),
                ValueRef::Int(int) => int.to_string(),
                ValueRef::Real(real) => format!("{real:?}"),
                ValueRef::Text(text) => format!("text {}", text.escape_ascii()),
                ValueRef::Blob(blob) => format!("blob {}", blob.escape_ascii()),
            })
            .collect();
        all.push(values.join(" | "));
        if all.len() == ROWS {
            break;
        }
    }
    all.sort();
    Ok(all)
}

/// As [`ours`].
///
/// # Errors
/// SQLite's reason to refuse the statement.
pub fn theirs(sqlite: &rusqlite::Connection, text: &str) -> rusqlite::Result<Option<Vec<String>>> {
    let mut statement = sqlite.prepare(text)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Ok(None);
    }
    their_rows(&mut statement).map(Some)
}

/// As [`our_answer`].
///
/// # Errors
/// SQLite's reason to refuse the statement.
pub fn their_answer(sqlite: &rusqlite::Connection, text: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = sqlite.prepare(text)?;
    their_rows(&mut statement)
}

fn their_rows(statement: &mut rusqlite::Statement<'_>) -> rusqlite::Result<Vec<String>> {
    let width = statement.column_count();
    let mut all = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut values = Vec::new();
        for column in 0..width {
            values.push(match row.get_ref(column)? {
                Peer::Null => "NULL".to_owned(),
                Peer::Integer(int) => int.to_string(),
                Peer::Real(real) => format!("{real:?}"),
                Peer::Text(text) => format!("text {}", text.escape_ascii()),
                Peer::Blob(blob) => format!("blob {}", blob.escape_ascii()),
            });
        }
        all.push(values.join(" | "));
        if all.len() == ROWS {
            break;
        }
    }
    all.sort();
    Ok(all)
}

/// True for errors SQLite finds only when computing the faulty part: the name of a collation no
/// comparison uses, a hexadecimal number the answer does not depend on.
#[must_use]
pub fn is_seen_late(error: &Error) -> bool {
    let message = error.to_string();
    ["no such collation sequence", "hex literal too big"]
        .iter()
        .any(|late| message.starts_with(late))
}

/// SQLite with the tables of a script.
///
/// # Panics
/// When the script is wrong.
#[must_use]
pub fn sqlite(script: &str) -> rusqlite::Connection {
    let sqlite = rusqlite::Connection::open_in_memory().expect("SQLite opens");
    sqlite.execute_batch(script).expect("the set-up is valid");
    sqlite
}
