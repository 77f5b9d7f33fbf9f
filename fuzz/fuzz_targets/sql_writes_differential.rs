//! `shoal_sql` beside SQLite: any few statements that may write, run by both on the same tables.
//! Both run or refuse each statement, and both files have the same schema and rows afterwards, as
//! SQLite reads them, and pass SQLite's checks. Left out is what `sql_differential` leaves out, and
//! what SQLite itself does in two ways: rows in the order of a scan.
//!
//! Needs the feature `peers`, to build SQLite.
#![no_main]

use std::path::Path;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rusqlite::Connection as Peer;
use shoal_fuzz::determined::{is_determined, may_skip};
use shoal_fuzz::differential::{ROWS, is_seen_late, our_answer, sqlite, their_answer};
use shoal_fuzz::{sql, walk};
use shoal_sql::{Error, Limits, Statements};

/// Statements of one input.
const STATEMENTS_MAX: usize = 6;
/// How long Shoal may take for a statement: a recursion may have no end.
const TIME_MAX: Duration = Duration::from_secs(1);
/// How many thousand steps SQLite may take for an input.
const STEPS_MAX: u32 = 200;
/// What touches files beside the database, and modules.
const LEFT_OUT: [&str; 4] = ["attach", "detach", "vacuum", "virtual"];

fuzz_target!(|text: &str| {
    let statements: Vec<&str> =
        Statements::new(text).map(|range| &text[range]).take(STATEMENTS_MAX).collect();
    let lower = text.to_ascii_lowercase().replace("without rowid", "");
    if LEFT_OUT.iter().any(|word| lower.contains(word))
        || slips(&lower)
        || !is_determined(&lower)
        || !statements.iter().all(|text| sql::is_cheap(text))
    {
        return;
    }
    let (vfs, mut connection) = sql::small();
    connection.set_limits(Limits { time: Some(TIME_MAX), ..Limits::default() });
    our_answer(&mut connection, "PRAGMA foreign_keys = on").expect("a setting");
    let mut peer = peer(sql::SETUP);
    for statement in &statements {
        let ours = our_answer(&mut connection, statement);
        if matches!(&ours, Err(Error::Unsupported { .. } | Error::Limit { .. })) {
            return;
        }
        let theirs = their_answer(&peer, statement);
        match (&ours, &theirs) {
            (_, Err(rusqlite::Error::SqliteFailure(error, _)))
                if error.code == rusqlite::ErrorCode::OperationInterrupted =>
            {
                return;
            }
            (Ok(_), Err(_)) if may_skip(statement) && peer.prepare(statement).is_ok() => return,
            (Err(error), Ok(_)) if is_seen_late(error) || is_strict(error) => return,
            (Ok(ours), Ok(theirs)) if ours.len() == ROWS || theirs.len() == ROWS => return,
            (Ok(ours), Ok(theirs)) if ours == theirs => {}
            (Err(_), Err(_)) => {}
            _ if is_open(&statements) => return,
            _ => panic!("{statement}\nours: {ours:?}\ntheirs: {theirs:?}"),
        }
    }
    assert_eq!(connection.in_transaction(), !peer.is_autocommit(), "the transaction is open");
    if connection.in_transaction() {
        let ours = our_answer(&mut connection, "COMMIT");
        let theirs = their_answer(&peer, "COMMIT");
        assert_eq!(ours.is_ok(), theirs.is_ok(), "COMMIT: {ours:?}, {theirs:?}");
        if ours.is_err() {
            return;
        }
    }
    drop(connection);
    let image = vfs.get(Path::new(walk::DATABASE)).expect("the file is there");
    let mut written = Peer::open_in_memory().expect("SQLite opens");
    let length = image.len();
    written
        .deserialize_read_exact("main", &image[..], length, false)
        .expect("SQLite takes the file");
    let (ours, theirs) = (dump(&mut written), dump(&mut peer));
    if ours != theirs && !is_open(&statements) {
        assert_eq!(ours, theirs, "left: Shoal's file, right: SQLite's");
    }
});

/// True where SQLite may not check or carry out a foreign key, as `docs/compatibility.md` says.
fn slips(lower: &str) -> bool {
    lower.contains("references") && (lower.contains("replace") || lower.contains("before"))
}

/// True for what Shoal refuses and SQLite takes, as `docs/compatibility.md` says: a column named
/// twice by an `INSERT` or `UPDATE`.
fn is_strict(error: &Error) -> bool {
    error.to_string().contains("specified more than once")
}

/// SQLite with the tables of a script, and an end to its patience.
fn peer(script: &str) -> Peer {
    let mut peer = sqlite(script);
    peer.pragma_update(None, "foreign_keys", true).expect("a setting");
    let mut steps = 0;
    peer.progress_handler(
        1000,
        Some(move || {
            steps += 1;
            steps > STEPS_MAX
        }),
    )
    .expect("a handler");
    peer
}

/// Schema and rows of a file, and what SQLite's checks say.
#[derive(Debug, PartialEq)]
struct Dump {
    schema: Vec<String>,
    rows: Vec<Vec<String>>,
    checks: Vec<String>,
}

fn dump(peer: &mut Peer) -> Dump {
    // A dump may take as long as it takes.
    peer.progress_handler(0, None::<fn() -> bool>).expect("no handler");
    let peer = &*peer;
    let ask = |text: &str| their_answer(peer, text).unwrap_or_else(|error| vec![error.to_string()]);
    let schema = ask("SELECT type, name, tbl_name, sql FROM sqlite_schema");
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut tables = peer.prepare(tables).expect("a schema");
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).expect("a schema");
    let rows = tables.flatten().map(|name| {
        let name = name.replace('"', "\"\"");
        their_answer(peer, &format!("SELECT rowid, * FROM \"{name}\""))
            .unwrap_or_else(|_| ask(&format!("SELECT * FROM \"{name}\"")))
    });
    Dump { schema, rows: rows.collect(), checks: ask("PRAGMA integrity_check") }
}

/// True when SQLite's own answers or rows change with the direction of scans, or without an index.
fn is_open(statements: &[&str]) -> bool {
    let run = |script: &str, reverse: bool| {
        let mut peer = peer(script);
        peer.pragma_update(None, "reverse_unordered_selects", reverse).expect("a setting");
        let answers: Vec<_> =
            statements.iter().map(|text| their_answer(&peer, text).ok()).collect();
        if !peer.is_autocommit() {
            let _ = their_answer(&peer, "COMMIT");
        }
        peer.pragma_update(None, "reverse_unordered_selects", false).expect("a setting");
        (answers, dump(&mut peer).rows)
    };
    let plain = sql::SETUP.replace("CREATE INDEX t_b ON t(b, c DESC);", "");
    let forward = run(sql::SETUP, false);
    [run(sql::SETUP, true), run(&plain, false), run(&plain, true)]
        .iter()
        .any(|other| *other != forward)
}
