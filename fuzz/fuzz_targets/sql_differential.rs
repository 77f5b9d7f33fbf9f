//! `shoal_sql` beside SQLite: answers of both are alike, and neither answers a statement refused by
//! the other. Statements outside of Shoal's support are left out, and so are answers left open by
//! SQL: the order of unordered rows, the rows taken by a limit.
//!
//! Needs the feature `peers`, to build SQLite.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::differential::{ROWS, ours, sqlite, theirs};
use shoal_fuzz::sql;
use shoal_sql::Error;

thread_local! {
    static SQLITE: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
    /// The same rows without indexes.
    static PLAIN: OnceCell<rusqlite::Connection> = const { OnceCell::new() };
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
    let peers = SQLITE.with(|cell| theirs(cell.get_or_init(|| sqlite(sql::SETUP)), text));
    match (ours, peers) {
        (Ok(Some(ours)), Ok(Some(peers))) if ours.len() < ROWS && peers.len() < ROWS => {
            if ours != peers && !is_open(text, &peers) {
                assert_eq!(ours, peers);
            }
        }
        (Ok(Some(_)), Err(_)) if may_skip(text) && SQLITE.with(|cell| is_prepared(cell, text)) => {}
        (Ok(Some(ours)), Err(error)) => panic!("answered {ours:?}, but SQLite says: {error}"),
        (Err(error), Ok(Some(_))) if is_seen_late(&error) => {}
        (Err(error), Ok(Some(peers))) => panic!("refused: {error}, but SQLite answers {peers:?}"),
        _ => {}
    }
});

/// True for errors SQLite finds only when computing the faulty part: the name of a collation no
/// comparison uses, a hexadecimal number the answer does not depend on.
fn is_seen_late(error: &Error) -> bool {
    let message = error.to_string();
    ["no such collation sequence", "hex literal too big"]
        .iter()
        .any(|late| message.starts_with(late))
}

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

/// True when the answer may not depend on some operand. SQLite computes most such operands, and so
/// may find an error in them while running.
fn may_skip(text: &str) -> bool {
    words(text).any(|word| word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or"))
}

/// The words outside of quotes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    text.split(move |char: char| {
        let quoted = quote.is_some();
        match (char, quote) {
            (char, Some(end)) if char == end => quote = None,
            ('\'' | '"' | '`', None) => quote = Some(char),
            ('[', None) => quote = Some(']'),
            _ => {}
        }
        quoted || !(char.is_alphanumeric() || char == '_' || char == '$')
    })
}

/// True when SQLite prepares the statement without an error.
fn is_prepared(cell: &OnceCell<rusqlite::Connection>, text: &str) -> bool {
    cell.get_or_init(|| sqlite(sql::SETUP)).prepare(text).is_ok()
}

/// True for one statement with an answer determined by the statement and the tables, not by the
/// hour. A NUL ends a text for SQLite, and SQLite knows no hints in front of a statement.
fn is_determined(text: &str) -> bool {
    if text.contains(['\0', ';']) {
        return false;
    }
    let text = text.to_ascii_lowercase();
    let hints = ["direct", "cached", "jit"];
    if hints.iter().any(|hint| words(&text).find(|word| !word.is_empty()) == Some(hint)) {
        return false;
    }
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
        "subsec",
        "concat(",
        "group_array",
        "group_object",
        "stat",
        "rowid",
        "match",
        "regexp",
    ];
    open.iter().all(|word| !text.contains(word)) && !asks_the_time(&text)
}

/// True when a date function may be called without a moment, meaning now: `date()`, or `strftime`
/// with a format only. A text with comments counts as such a call, because comments may hide the
/// arguments.
fn asks_the_time(text: &str) -> bool {
    let calls = |name: &str, moment: usize| {
        let ends = text.match_indices(name).map(|(place, _)| place + name.len());
        ends.into_iter().any(|end| {
            let rest = text[end..].trim_start();
            let arguments = rest.strip_prefix('(').map_or(moment + 1, argument_count);
            arguments <= moment
        })
    };
    let dates = ["date", "time", "julianday", "unixepoch"].iter().any(|name| calls(name, 0));
    let comments = text.contains("--") || text.contains("/*");
    dates || calls("strftime", 1) || comments && text.contains("strftime")
}

/// The number of arguments before the parenthesis closing the call.
fn argument_count(text: &str) -> usize {
    let (mut depth, mut count, mut quote) = (0_usize, 0, None);
    for char in text.chars() {
        match (char, quote) {
            (char, Some(open)) if char == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"' | '`', None) => (quote, count) = (Some(char), count.max(1)),
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) if depth == 0 => return count,
            (')' | ']', None) => depth -= 1,
            (',', None) if depth == 0 => count = count.max(1) + 1,
            (char, None) if !char.is_whitespace() => count = count.max(1),
            _ => {}
        }
    }
    count
}
