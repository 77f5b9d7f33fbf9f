//! Times beside SQLite, where `SHOAL_TEXTS` names a file with a text on each line: build, term,
//! phrase, prefix, the ten best. Answers are compared first; turns alternate.
//!
//! `SHOAL_TEXTS=texts cargo test --release -p shoal-text --test it -- speed:: --nocapture`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use shoal_sql::{Connection, Value, ValueRef};
use shoal_store::{Access, Store};
use shoal_text::TextModule;
use shoal_vfs::OsVfs;

const ROUNDS: usize = 7;
const TABLE: &str = "CREATE VIRTUAL TABLE t USING fts5(a)";

const QUERIES: &[(&str, &str)] = &[
    ("term", "SELECT count(*), sum(rowid) FROM t('fix')"),
    ("frequent term", "SELECT count(*), sum(rowid) FROM t('the')"),
    ("two terms", "SELECT count(*), sum(rowid) FROM t('the test')"),
    ("phrase", "SELECT count(*), sum(rowid) FROM t('\"add a\"')"),
    ("prefix", "SELECT count(*), sum(rowid) FROM t('re*')"),
    ("near", "SELECT count(*), sum(rowid) FROM t('NEAR(fix test, 5)')"),
    (
        "best ten",
        "SELECT group_concat(rowid) FROM \
        (SELECT rowid FROM t('fix') ORDER BY rank LIMIT 10)",
    ),
    (
        "best ten of many",
        "SELECT group_concat(rowid) FROM \
        (SELECT rowid FROM t('the') ORDER BY rank LIMIT 10)",
    ),
    (
        "best ten of two",
        "SELECT group_concat(rowid) FROM \
        (SELECT rowid FROM t('fix OR test') ORDER BY rank LIMIT 10)",
    ),
];

fn ours(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs::new()), path, Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    connection.register_table_module(Arc::new(TextModule));
    connection
}

fn answer(connection: &mut Connection, sql: &str) -> String {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut out = String::new();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..row.len() {
            match row.get(column) {
                ValueRef::Int(number) => out.push_str(&format!("{number}|")),
                ValueRef::Text(text) => out.push_str(&String::from_utf8_lossy(text)),
                _ => out.push_str("NULL|"),
            }
        }
    }
    out
}

fn answer_of_sqlite(connection: &rusqlite::Connection, sql: &str) -> String {
    use rusqlite::types::Value;
    let mut statement = connection.prepare_cached(sql).unwrap();
    let count = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut out = String::new();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..count {
            match row.get::<_, Value>(column).unwrap() {
                Value::Integer(number) => out.push_str(&format!("{number}|")),
                Value::Text(text) => out.push_str(&text),
                _ => out.push_str("NULL|"),
            }
        }
    }
    out
}

fn build(path: &Path, texts: &[String]) {
    let mut connection = ours(path);
    for sql in [TABLE, "PRAGMA synchronous = OFF", "BEGIN"] {
        answer(&mut connection, sql);
    }
    let mut statement = connection.prepare("INSERT INTO t VALUES (?1)").unwrap();
    for text in texts {
        statement.bind(1, Value::text(text.as_str())).unwrap();
        connection.execute(&mut statement).unwrap();
    }
    answer(&mut connection, "COMMIT");
}

fn build_by_sqlite(path: &Path, texts: &[String]) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(&format!("{TABLE}; PRAGMA synchronous = OFF; BEGIN")).unwrap();
    {
        let mut statement = connection.prepare("INSERT INTO t VALUES (?1)").unwrap();
        for text in texts {
            statement.execute([text]).unwrap();
        }
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

#[test]
fn times_beside_sqlite() {
    let Some(path) = std::env::var_os("SHOAL_TEXTS") else {
        println!("skipped: SHOAL_TEXTS names no file");
        return;
    };
    let texts = std::fs::read_to_string(path).unwrap();
    let texts: Vec<String> = texts.lines().map(str::to_owned).collect();
    let place = tempfile::tempdir().unwrap();
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..3 {
        mine.push(time(|| build(&place.path().join(format!("ours{round}")), &texts)));
        theirs.push(time(|| build_by_sqlite(&place.path().join(format!("sqlite{round}")), &texts)));
    }
    let told = |name: &str, mine: f64, theirs: f64| {
        println!(
            "{name:18} shoal {mine:9.3} ms, sqlite {theirs:9.3} ms, {:.2} times",
            theirs / mine
        );
    };
    told("build", median(mine), median(theirs));
    let mut ours = ours(&place.path().join("ours0"));
    let sqlite = rusqlite::Connection::open(place.path().join("sqlite0")).unwrap();
    for &(name, sql) in QUERIES {
        assert_eq!(answer(&mut ours, sql), answer_of_sqlite(&sqlite, sql), "{sql}");
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            mine.push(time(|| drop(answer(&mut ours, sql))));
            theirs.push(time(|| drop(answer_of_sqlite(&sqlite, sql))));
        }
        told(name, median(mine), median(theirs));
    }
}
