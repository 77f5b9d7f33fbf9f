//! `shoal_sql` beside SQLite: what both answer they answer alike, and neither answers what the
//! other refuses. Statements that Shoal says it does not support are left out, and so is what SQL
//! leaves open: the order of rows that are not ordered, which rows a limit takes.
//!
//! Needs the feature `peers`, which builds SQLite.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use rusqlite::types::ValueRef as Peer;
use shoal_fuzz::sql;
use shoal_sql::{Connection, Error, ValueRef};

/// Rows that are compared; more are left out.
const ROWS: usize = 300;

thread_local! {
    static SQLITE: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
}

fuzz_target!(|text: &str| {
    if !sql::is_cheap(text) || !is_determined(text) {
        return;
    }
    let (_, mut connection) = sql::small();
    let ours = ours(&mut connection, text);
    if matches!(&ours, Err(Error::Unsupported { .. } | Error::Limit { .. })) {
        return;
    }
    let peers = SQLITE.with(|sqlite| peers(sqlite.get_or_init(sqlite_with_tables), text));
    match (ours, peers) {
        (Ok(Some(ours)), Ok(Some(peers))) if ours.len() < ROWS && peers.len() < ROWS => {
            assert_eq!(ours, peers);
        }
        (Ok(Some(ours)), Err(error)) => panic!("answered {ours:?}, but SQLite says: {error}"),
        (Err(error), Ok(Some(peers))) => panic!("refused: {error}, but SQLite answers {peers:?}"),
        _ => {}
    }
});

/// Whether it is one statement whose answer depends on it and the tables alone. For SQLite a text
/// ends at a NUL.
fn is_determined(text: &str) -> bool {
    if text.contains(['\0', ';']) {
        return false;
    }
    let text = text.to_ascii_lowercase();
    let open = [
        "random",
        "now",
        "current",
        "changes",
        "last_insert",
        "sqlite_",
        "pragma",
        "explain",
        "limit",
        "date()",
        "time()",
        "julianday()",
        "unixepoch()",
        "concat(",
        "group_array",
        "group_object",
        "stat",
        "rowid",
        "match",
        "regexp",
    ];
    open.iter().all(|word| !text.contains(word))
}

/// The rows as texts, sorted; `None` for a statement that is no query.
fn ours(connection: &mut Connection, text: &str) -> Result<Option<Vec<String>>, Error> {
    let mut statement = connection.prepare(text)?;
    if !statement.is_read_only() || statement.column_count() == 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    let mut rows = connection.query(&mut statement)?;
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
    Ok(Some(all))
}

/// As [`ours`].
fn peers(sqlite: &rusqlite::Connection, text: &str) -> rusqlite::Result<Option<Vec<String>>> {
    let mut statement = sqlite.prepare(text)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Ok(None);
    }
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
    Ok(Some(all))
}

fn sqlite_with_tables() -> rusqlite::Connection {
    let sqlite = rusqlite::Connection::open_in_memory().expect("SQLite opens");
    sqlite.execute_batch(sql::SETUP).expect("the set-up is valid");
    sqlite
}
