//! Tables of FTS3 and FTS4: files written by SQLite, the same questions to both engines.

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::Value as Theirs;
use shoal_sql::Connection;
use shoal_store::{Access, Store};
use shoal_text::{Fts3Module, Fts3TermsModule, Fts3TokensModule};
use shoal_vfs::OsVfs;

use super::Dice;

/// Options of `CREATE VIRTUAL TABLE t USING ...`.
pub(crate) const TABLES: &[&str] = &[
    "fts3(a, b)",
    "fts4(a, b)",
    "fts3(a TEXT, 'b', tokenize porter)",
    "fts4(a, b, tokenize=porter)",
    "fts4(a, b, tokenize=unicode61)",
    "fts4(a, b, tokenize=unicode61 \"remove_diacritics=0\" \"tokenchars=-_\" 'separators=x')",
    "fts4(a, b, tokenize=simple x 'xyz .')",
    "fts4(a, b, prefix='1,3')",
    "fts4(a, b, order=desc)",
    "fts4(a, b, matchinfo=\"fts3\")",
    "fts4(a, b, notindexed=b)",
    "fts4(a, b, languageid=l)",
    "fts4(content='', a, b)",
    "fts4(content=docs, a, b)",
    "fts4(content=docs)",
    "fts4(a, b, prefix='2,4', order=desc, languageid=l)",
];

/// Opens a file with the modules of FTS3 and FTS4.
pub(crate) fn ours(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs::new()), path, Access::ReadOnly).unwrap();
    let mut connection = Connection::open(store).unwrap();
    register(&mut connection);
    connection
}

pub(crate) fn register(connection: &mut Connection) {
    connection.register_table_module(Arc::new(Fts3Module::fts3()));
    connection.register_table_module(Arc::new(Fts3Module::fts4()));
    connection.register_table_module(Arc::new(Fts3TermsModule));
    connection.register_table_module(Arc::new(Fts3TokensModule));
}

/// A word, also one of many rare ones.
fn word(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("{}{}", dice.of(&["w", "wa", "x", "é"]), dice.below(400)),
        _ => dice.word().to_owned(),
    }
}

fn text(dice: &mut Dice) -> Theirs {
    match dice.below(40) {
        0 => return Theirs::Null,
        1 => return Theirs::Integer(dice.below(100) as i64),
        _ => {}
    }
    let tokens = *dice.of(&[0, 1, 3, 3, 8, 8, 20, 60]);
    let mut text = String::new();
    for _ in 0..tokens {
        text.push_str(&word(dice));
        text.push_str(dice.of::<&str>(&[" ", " ", " ", " ", ". ", ", ", "-", ": ", "  ", "\n"]));
    }
    Theirs::Text(text)
}

/// Makes table `t` and changes its rows at random: many small transactions, merges of all kinds.
pub(crate) fn write(connection: &rusqlite::Connection, options: &str, dice: &mut Dice) {
    let page_size = *dice.of(&[512, 1024, 4096]);
    let make = format!(
        "PRAGMA page_size = {page_size}; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; \
         CREATE TABLE docs(a, b); CREATE VIRTUAL TABLE t USING {options};"
    );
    connection.execute_batch(&make).unwrap();
    let is_contentless = options.contains("content=''");
    let has_content = options.contains("content=docs");
    let language = options.contains("languageid");
    let transactions = *dice.of(&[3, 10, 40]);
    for _ in 0..transactions {
        connection.execute_batch("BEGIN").unwrap();
        for _ in 0..*dice.of(&[1, 3, 10]) {
            let docid = match dice.below(10) {
                0 => -1 - dice.below(50) as i64,
                1 => i64::MAX - dice.below(5) as i64,
                // SQLite's offsets() gives a row of docid 0 twice, the first time without places.
                _ => 1 + dice.below(120) as i64,
            };
            let values = [text(dice), text(dice)];
            let (mut columns, mut marks) = ("docid, a, b", "?1, ?2, ?3");
            let mut row = vec![Theirs::Integer(docid), values[0].clone(), values[1].clone()];
            if language {
                (columns, marks) = ("docid, a, b, l", "?1, ?2, ?3, ?4");
                row.push(Theirs::Integer(dice.below(3) as i64));
            }
            let exists: bool = !is_contentless
                && connection
                    .query_row("SELECT count(*) FROM t WHERE docid = ?1", [docid], |row| {
                        row.get::<_, i64>(0)
                    })
                    .unwrap()
                    > 0;
            if has_content {
                if exists {
                    connection.execute("DELETE FROM t WHERE docid = ?1", [docid]).unwrap();
                    connection.execute("DELETE FROM docs WHERE rowid = ?1", [docid]).unwrap();
                    continue;
                }
                let sql = "INSERT INTO docs(rowid, a, b) VALUES (?1, ?2, ?3)";
                connection.execute(sql, rusqlite::params_from_iter(&row)).unwrap();
            }
            match (exists, dice.below(3)) {
                (true, 0) => {
                    connection.execute("DELETE FROM t WHERE docid = ?1", [docid]).unwrap();
                }
                (true, 1) => {
                    let sql = "UPDATE t SET a = ?2 WHERE docid = ?1";
                    connection.execute(sql, rusqlite::params_from_iter(&row[..2])).unwrap();
                }
                (true, _) => {}
                (false, _) => {
                    let sql = format!("INSERT INTO t({columns}) VALUES ({marks})");
                    // A contentless table takes a docid twice; documents are new ones here.
                    if is_contentless
                        && !connection
                            .query_row(
                                "SELECT count(*) FROM t_docsize WHERE docid = ?1",
                                [docid],
                                |row| row.get::<_, i64>(0),
                            )
                            .is_ok_and(|count| count == 0)
                    {
                        continue;
                    }
                    connection.execute(&sql, rusqlite::params_from_iter(&row)).unwrap();
                }
            }
        }
        connection.execute_batch("COMMIT").unwrap();
        let command = match dice.below(30) {
            0 => "optimize",
            1 => "merge=5,2",
            2 => "merge=1,2",
            3 => "automerge=4",
            4 => "automerge=0",
            _ => continue,
        };
        connection.execute("INSERT INTO t(t) VALUES (?1)", [command]).unwrap();
    }
}

/// A query of the whole language; sometimes a wrong one.
pub(crate) fn query(dice: &mut Dice, depth: usize) -> String {
    if depth > 0 && dice.below(3) > 0 {
        let (left, right) = (query(dice, depth - 1), query(dice, depth - 1));
        let join = *dice.of(&["AND", "OR", "OR", "NOT", "", ""]);
        let whole = format!("{left} {join} {right}");
        return if dice.below(2) == 0 { format!("({whole})") } else { whole };
    }
    if dice.below(4) == 0 {
        let mut near = term(dice);
        for _ in 0..*dice.of(&[1, 1, 2]) {
            let join = *dice.of(&["NEAR", "NEAR/2", "NEAR/5", "NEAR/0", "NEAR/1"]);
            near = format!("{near} {join} {}", term(dice));
        }
        return near;
    }
    if dice.below(60) == 0 {
        return (*dice.of(&["\"", "(", ")", "AND", "a:", "\"\"", "-", "NEAR/", "*", "b:\"the\""]))
            .to_owned();
    }
    term(dice)
}

fn term(dice: &mut Dice) -> String {
    let first = if dice.below(8) == 0 { "^" } else { "" };
    let column = if dice.below(5) == 0 { *dice.of(&["a:", "b:", "A:"]) } else { "" };
    match dice.below(4) {
        0 => {
            let mut words = Vec::new();
            for _ in 0..*dice.of(&[1, 2, 2, 3, 5]) {
                let star = if dice.below(8) == 0 { "*" } else { "" };
                let first = if dice.below(16) == 0 { "^" } else { "" };
                words.push(format!("{first}{}{star}", word(dice)));
            }
            format!("\"{}\"", words.join(" "))
        }
        1 => {
            let word = word(dice);
            let length = 1 + dice.below(3);
            let prefix: String = word.chars().take(length).collect();
            format!("{column}{first}{prefix}*")
        }
        _ => format!("{column}{first}{}", word(dice)),
    }
}
