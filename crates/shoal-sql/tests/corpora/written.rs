//! Tests of `.sqltest` files with everything run by Shoal: set-ups, writing statements, and the
//! queries in between. SQLite runs the same on a file of its own, and checks Shoal's file at the
//! end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Error, Statements, Value};
use shoal_store::{Access, Store, vfs::OsVfs};

use super::Outcome;
use super::sqltest::{
    Block, begin, check_error, check_rows, expected, kind, peer_rows, row_text, same_rows, setup_of,
};

/// The rows a statement gave.
type Rows = Vec<Vec<Value>>;

pub(crate) fn run(
    file_marks: &[String],
    test: &Block,
    expects: &[&Block],
    setups: &BTreeMap<String, String>,
) -> Outcome {
    let skip = |why: &str| Outcome::Skipped(why.to_owned());
    if !test.head.starts_with("test") {
        return skip("of another kind than rows");
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours.db"), folder.path().join("theirs.db"));
    let ready = setup_of(file_marks, test, setups).and_then(|setup| {
        begin(file_marks, &ours)?;
        begin(file_marks, &theirs)?;
        Ok((setup, expected(expects)?))
    });
    let (setup, expect) = match ready {
        Ok(ready) => ready,
        Err(why) => return skip(why),
    };
    let expects_error = expect.head.contains("error");
    let mut connection = match open(&ours) {
        Ok(connection) => connection,
        Err(error) => return Outcome::Failed(format!("opening: {error}")),
    };
    let peer = rusqlite::Connection::open(&theirs).unwrap();
    peer.execute_batch("pragma synchronous = off; pragma foreign_keys = off").unwrap();
    for setup in setup {
        if let Err(error) = peer.execute_batch(setup) {
            return skip(&format!("SQLite does not take the set-up: {}", kind(&error.to_string())));
        }
        for sql in Statements::new(setup).map(|range| &setup[range]) {
            match query(&mut connection, sql) {
                Ok(_) => {}
                Err(Error::Unsupported { what, .. }) => return Outcome::Refused(what),
                Err(error) => return Outcome::Failed(format!("set-up: {error}: {}", sql.trim())),
            }
        }
    }
    let mut lines = Vec::new();
    let mut same = true;
    let mut failed = None;
    for sql in Statements::new(&test.body).map(|range| &test.body[range]) {
        let theirs = peer_rows(&peer, sql);
        match query(&mut connection, sql) {
            Ok(rows) => {
                same &= theirs.is_ok_and(|theirs| same_rows(&rows, &theirs, sql));
                lines.extend(rows.iter().map(|row| row_text(row)));
            }
            Err(Error::Unsupported { what, .. }) => return Outcome::Refused(what),
            Err(error) => {
                failed = Some((error, theirs.err(), sql));
                break;
            }
        }
    }
    let outcome = match failed {
        Some((error, theirs, _)) if expects_error => check_error(&error, expect, theirs),
        Some((_, Some(_), _)) => Outcome::AsSqlite,
        Some((error, None, sql)) => Outcome::Failed(format!("{error}: {}", sql.trim())),
        None if expects_error && same => Outcome::AsSqlite,
        None if expects_error => Outcome::Failed(format!("no error: {}", test.body.trim())),
        None => match check_rows(lines, expect, &test.body) {
            Outcome::Failed(_) if same => Outcome::AsSqlite,
            outcome => outcome,
        },
    };
    drop(connection);
    match whole(&ours) {
        Ok(()) => outcome,
        Err(why) => Outcome::Failed(format!("{why}: {}", test.body.trim())),
    }
}

fn open(path: &Path) -> Result<Connection, Error> {
    let store = Store::open(Arc::new(OsVfs), path, Access::Create)?;
    Connection::open(store)
}

/// Runs one statement of any kind, if the text holds one.
fn query(connection: &mut Connection, sql: &str) -> Result<Rows, Error> {
    if super::sql_words(sql).next().is_none() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(sql)?;
    if statement.column_count() == 0 {
        connection.execute(&mut statement)?;
        return Ok(Vec::new());
    }
    super::query(connection, sql)
}

/// Asks SQLite to check the file.
fn whole(path: &Path) -> Result<(), String> {
    let peer = rusqlite::Connection::open(path).map_err(|error| error.to_string())?;
    let found: String = peer
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .map_err(|error| format!("SQLite on the file: {error}"))?;
    if found == "ok" { Ok(()) } else { Err(format!("the file is not whole: {found}")) }
}
