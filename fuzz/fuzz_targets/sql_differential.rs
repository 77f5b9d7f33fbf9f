//! `shoal_sql` beside SQLite: answers of both are alike, and neither answers a statement refused by
//! the other. Statements outside of Shoal's support are left out, and so are answers left open by
//! SQL: the order of unordered rows, the rows taken by a limit.
//!
//! Needs the feature `peers`, to build SQLite.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::determined::{is_determined, may_skip};
use shoal_fuzz::differential::{ROWS, is_seen_late, ours, sqlite, theirs};
use shoal_fuzz::sql;
use shoal_sql::Error;

thread_local! {
    static SQLITE: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
    /// The same rows without indexes.
    static PLAIN: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
}

fuzz_target!(|text: &str| {
    if text.contains(';') || !sql::is_cheap(text) || !is_determined(text) {
        return;
    }
    let (_, mut connection) = sql::small();
    let ours = ours(&mut connection, text);
    if matches!(&ours, Err(Error::Unsupported { .. } | Error::Limit { .. })) {
        return;
    }
    let peers = SQLITE.with(|cell| theirs(cell.get_or_init(|| sqlite(sql::SETUP)), text));
    match (ours, peers) {
        (Ok(Some(ours)), Ok(Some(peers))) if ours.len() < ROWS && peers.len() < ROWS => {
            let is_alike = ours == peers || is_open(text, &peers);
            assert!(is_alike, "ours: {ours:?}\ntheirs: {peers:?}");
        }
        (Ok(Some(_)), Err(_)) if may_skip(text) && SQLITE.with(|cell| is_prepared(cell, text)) => {}
        // SQLite's parser folds `x AND 0` to a zero, the number of no column.
        (Ok(Some(_)), Err(error))
            if may_skip(text) && error.to_string().contains("BY term out of range") => {}
        (Ok(Some(ours)), Err(error)) => panic!("answered {ours:?}, but SQLite says: {error}"),
        (Err(error), Ok(Some(_))) if is_seen_late(&error) => {}
        (Err(error), Ok(Some(peers))) => panic!("refused: {error}, but SQLite answers {peers:?}"),
        _ => {}
    }
});

/// True when SQLite's own answer changes with the direction of scans, or without indexes: a column
/// beside an aggregate, or within a group, may be any row's.
fn is_open(text: &str, answer: &[String]) -> bool {
    let differs = |sqlite: &rusqlite::Connection, reverse: bool| {
        let turn = |reverse: bool| sqlite.pragma_update(None, "reverse_unordered_selects", reverse);
        turn(reverse).expect("a setting");
        let other = theirs(sqlite, text);
        turn(false).expect("a setting");
        matches!(other, Ok(Some(other)) if other != answer)
    };
    let plain = || {
        let script = sql::SETUP.replace("CREATE INDEX t_b ON t(b, c DESC);", "");
        sqlite(&script.replace(", UNIQUE(y, x)", ""))
    };
    SQLITE.with(|cell| differs(cell.get_or_init(|| sqlite(sql::SETUP)), true))
        || PLAIN.with(|cell| {
            let sqlite = cell.get_or_init(plain);
            differs(sqlite, false) || differs(sqlite, true)
        })
}

/// True when SQLite prepares the statement without an error.
fn is_prepared(cell: &OnceCell<rusqlite::Connection>, text: &str) -> bool {
    cell.get_or_init(|| sqlite(sql::SETUP)).prepare(text).is_ok()
}
