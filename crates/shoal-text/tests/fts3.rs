//! Tables of FTS3 and FTS4 that SQLite wrote at random: the same questions to both engines.
//!
//! `SHOAL_FTS_CASES=N` runs N tables of each kind.

#![allow(clippy::unwrap_used)]

mod support;

use shoal_sql::Connection;
use support::Dice;
use support::fts3::{TABLES, ask_ours, ask_sqlite, ours, query, write};

fn cases(default: u64) -> u64 {
    std::env::var("SHOAL_FTS_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Refusals are compared as refusals: SQLite often has no words for them.
fn same(theirs: &rusqlite::Connection, ours: &mut Connection, sql: &str, what: &str) {
    let (mut wanted, mut found) = (ask_sqlite(theirs, sql), ask_ours(ours, sql));
    if sql.starts_with("EXPLAIN") {
        // Numbers of a plan's nodes are each engine's own.
        for rows in [&mut wanted, &mut found].into_iter().flatten().flatten() {
            *rows = rows.rsplit('|').next().unwrap_or_default().to_owned();
        }
    }
    match (&wanted, &found) {
        (Ok(wanted), Ok(found)) => {
            let differing = found.iter().zip(wanted).find(|(found, wanted)| found != wanted);
            assert_eq!(differing.map(|(a, _)| a), differing.map(|(_, b)| b), "{what}: {sql}");
            assert_eq!(found.len(), wanted.len(), "{what}: {sql}");
        }
        (Err(wanted), Err(found)) => {
            let is_query = wanted.starts_with("malformed MATCH") || wanted.starts_with("FTS expr");
            if is_query {
                assert_eq!(found, wanted, "{what}: {sql}");
            }
        }
        _ => panic!("{what}: {sql}\nSQLite: {wanted:?}\nours: {found:?}"),
    }
}

#[test]
fn random_tables_answer_as_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    for case in 0..cases(2) {
        for (kind, options) in TABLES.iter().enumerate() {
            let seed = case * 100 + kind as u64;
            let mut dice = Dice::new(seed);
            let path = directory.path().join(format!("{seed}.db"));
            let theirs = rusqlite::Connection::open(&path).unwrap();
            write(&theirs, options, &mut dice);
            let mut ours = ours(&path);
            compare(&theirs, &mut ours, options, &format!("seed {seed}, {options}"), &mut dice);
        }
    }
}

fn compare(
    theirs: &rusqlite::Connection,
    ours: &mut Connection,
    options: &str,
    what: &str,
    dice: &mut Dice,
) {
    let is_contentless = options.contains("content=''");
    let language = options.contains("languageid");
    let columns = if is_contentless { "docid, rowid" } else { "docid, t, *" };
    if !is_contentless {
        for order in ["", "ORDER BY docid DESC", "ORDER BY rowid"] {
            same(theirs, ours, &format!("SELECT docid, * FROM t {order}"), what);
        }
        same(theirs, ours, "SELECT rowid FROM t WHERE docid > 20 AND rowid <= 70", what);
        same(theirs, ours, "SELECT rowid FROM t WHERE docid < 0 ORDER BY docid DESC", what);
        for docid in ["'17'", "3.0", "' 5 '", "'x'", "NULL", "2.5", "x'31'", "-3"] {
            same(theirs, ours, &format!("SELECT a, docid FROM t WHERE docid = {docid}"), what);
        }
        same(theirs, ours, "SELECT snippet(t), offsets(t), matchinfo(t) FROM t LIMIT 3", what);
        // SQLite asks for the language before the row, which external content need not have.
        if language {
            same(theirs, ours, "SELECT docid, l FROM t", what);
        }
    }
    for _ in 0..60 {
        let depth = dice.below(4);
        let text = query(dice, depth).replace('\'', "''");
        let field = *dice.of(&["t", "t", "t", "t", "a", "b"]);
        let spoken = match language {
            true => format!("AND l = {}", dice.below(3)),
            false => String::new(),
        };
        let found = format!("FROM t WHERE {field} MATCH '{text}' {spoken}");
        same(theirs, ours, &format!("SELECT {columns} {found}"), what);
        let order = *dice.of(&["", "ORDER BY docid", "ORDER BY docid DESC"]);
        let known = if options.starts_with("fts3") {
            "pcsxyb"
        } else if options.contains("matchinfo") {
            "pcnasxyb"
        } else {
            "pcnalsxyb"
        };
        same(theirs, ours, &format!("SELECT docid, matchinfo(t, '{known}') {found} {order}"), what);
        let bounds = "AND docid BETWEEN 10 AND 80";
        same(theirs, ours, &format!("SELECT docid, matchinfo(t) {found} {bounds} {order}"), what);
        let (column, tokens) = (dice.below(4) as i64 - 1, dice.below(30) as i64 - 10);
        let snippet = format!("snippet(t, '[', ']', '..', {column}, {tokens})");
        same(theirs, ours, &format!("SELECT docid, offsets(t), {snippet} {found} {order}"), what);
        let calls = "snippet(t), offsets(t), matchinfo(t, 'xs')";
        same(theirs, ours, &format!("SELECT {calls} {found} {order}"), what);
        same(theirs, ours, &format!("EXPLAIN QUERY PLAN SELECT {columns} {found} {order}"), what);
    }
}
