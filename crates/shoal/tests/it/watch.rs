//! Events: commits of this connection, of another one, and of SQLite are told; nothing else is.

use std::path::Path;
use std::time::Duration;

use shoal::{Access, Database, Document, Environment, Event, Topics, Watch};
use shoal_crdt::{CommitOptions, ROOT};
use shoal_sql::Value;

fn run(database: &mut Database, sql: &str) {
    let mut statement = database.sql().prepare(sql).unwrap();
    database.sql().execute(&mut statement).unwrap();
}

fn put(document: &mut Document, key: &str, value: &str) {
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).unwrap();
    transaction.commit(CommitOptions::default()).unwrap();
}

fn open(path: &Path) -> Database {
    Database::open(Environment::os(), path, Access::Create).unwrap()
}

fn table(name: &str) -> Event {
    Event::Table { name: name.to_owned() }
}

/// The first cells of the one query told of.
fn cells(events: &[Event]) -> Vec<Value> {
    match events {
        [Event::Query { index: 0, rows, .. }] => rows.iter().map(|row| row[0].clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn documents_are_told_of_by_their_heads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut here = open(&path);
    let mut there = open(&path);
    let mut note = here.open_or_create("note").unwrap();
    put(&mut note, "a", "1");
    here.commit(&mut note).unwrap();
    let mut all = here.watch(Topics::default().all_documents()).unwrap();
    let mut one = here.watch(Topics::default().document("other")).unwrap();
    assert_eq!(here.poll(&mut all).unwrap(), []);

    let before = note.heads();
    put(&mut note, "a", "2");
    here.commit(&mut note).unwrap();
    let heads = note.heads();
    let name = "note".to_owned();
    let stored = Event::Document { name: name.clone(), before, heads: heads.clone() };
    assert_eq!(here.poll(&mut all).unwrap(), [stored]);
    assert_eq!(here.poll(&mut all).unwrap(), []);
    assert_eq!(here.poll(&mut one).unwrap(), []);

    // Another connection makes one, renames and removes one; compacting changes nothing.
    let mut other = there.open_or_create("other").unwrap();
    put(&mut other, "b", "1");
    let made = there.commit(&mut other).unwrap();
    let new = Event::Document { name: "other".to_owned(), before: Vec::new(), heads: made };
    assert_eq!(here.wait(&mut all, Duration::from_secs(5)).unwrap(), std::slice::from_ref(&new));
    assert_eq!(here.poll(&mut one).unwrap(), [new]);
    there.compact("note").unwrap();
    there.settle().unwrap();
    assert_eq!(here.poll(&mut all).unwrap(), []);
    there.rename("note", "letter").unwrap();
    let renamed = Event::Renamed { from: name, to: "letter".to_owned() };
    assert_eq!(here.poll(&mut all).unwrap(), [renamed]);
    there.remove("other").unwrap();
    let removed = Event::Removed { name: "other".to_owned() };
    assert_eq!(here.poll(&mut all).unwrap(), std::slice::from_ref(&removed));
    assert_eq!(here.poll(&mut one).unwrap(), [removed]);
    assert_eq!(here.wait(&mut all, Duration::from_millis(30)).unwrap(), []);
}

/// Tables are told of exactly where their rows changed, by whoever and in both journal modes; rows
/// on overflow pages and trees that grow are no exception.
fn tables_in(journal_mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite.pragma_update(None, "journal_mode", journal_mode).unwrap();
    sqlite
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (a);
             CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID; CREATE INDEX ta ON t (a);",
        )
        .unwrap();
    let mut database = open(&path);
    let topics = Topics::default().table("t").table("u").table("w");
    let mut watch: Watch = database.watch(topics).unwrap();
    let steps: [(&str, &[&str]); 12] = [
        ("INSERT INTO t VALUES (1, 'x')", &["t"]),
        ("INSERT INTO u VALUES (zeroblob(100000))", &["u"]),
        ("INSERT INTO t SELECT NULL, 'row ' || value FROM generate_series(1, 3000)", &["t"]),
        ("INSERT INTO u VALUES (1)", &["u"]),
        ("UPDATE t SET a = 'y' WHERE id = (SELECT max(id) - 100 FROM t)", &["t"]),
        ("INSERT INTO w VALUES ('k', zeroblob(9000))", &["w"]),
        ("UPDATE u SET a = cast(a AS BLOB) || x'01' WHERE rowid = 1", &["u"]),
        ("CREATE TABLE v (a)", &[]),
        ("INSERT INTO v VALUES (zeroblob(50000))", &[]),
        ("DELETE FROM w", &["w"]),
        ("DELETE FROM t WHERE id > 10", &["t"]),
        ("INSERT INTO v VALUES (zeroblob(50000))", &[]),
    ];
    for by_sqlite in [false, true] {
        for (sql, told) in steps {
            if sql.starts_with("CREATE") && by_sqlite {
                continue;
            }
            let sql = match sql.contains("VALUES (1, 'x')") && by_sqlite {
                true => "INSERT INTO t VALUES (100000, 'x')",
                false => sql,
            };
            match by_sqlite {
                true => sqlite
                    .execute_batch(&sql.replace(
                        "generate_series(1, 3000)",
                        "(WITH RECURSIVE c(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c \
                     WHERE value < 3000) SELECT value FROM c)",
                    ))
                    .unwrap(),
                false => run(&mut database, sql),
            }
            let events = database.poll(&mut watch).unwrap();
            let expected: Vec<Event> = told.iter().map(|name| table(name)).collect();
            // Without a log another program's pages are unknown: the rest may be told once more.
            if journal_mode == "delete" && by_sqlite {
                assert!(expected.iter().all(|event| events.contains(event)), "{sql}: {events:?}");
                assert_eq!(database.poll(&mut watch).unwrap(), []);
            } else {
                assert_eq!(events, expected, "{sql}, {journal_mode}, sqlite: {by_sqlite}");
            }
        }
    }
    run(&mut database, "DROP TABLE u");
    assert_eq!(database.poll(&mut watch).unwrap(), [table("u")]);
}

#[test]
fn tables_are_told_of_with_a_log() {
    tables_in("wal");
}

#[test]
fn tables_are_told_of_without_a_log() {
    tables_in("delete");
}

#[test]
fn queries_run_again_when_their_tables_change() {
    let mut database = Database::memory(Environment::os()).unwrap();
    for sql in ["CREATE TABLE t (a)", "CREATE TABLE u (a)", "CREATE VIEW v AS SELECT a FROM t"] {
        run(&mut database, sql);
    }
    let topics = Topics::default().query("SELECT sum(a), hit() FROM v WHERE a < 10");
    assert!(database.watch(topics).unwrap_err().to_string().contains("hit"));
    let hits = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&hits);
    let flags = shoal_sql::FunctionFlags::default();
    database
        .sql()
        .create_function("hit", 0, flags, move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Value::Null)
        })
        .unwrap();
    let topics = Topics::default().query("SELECT sum(a), hit() FROM v WHERE a < 10");
    let mut watch = database.watch(topics).unwrap();
    assert_eq!(cells(&database.poll(&mut watch).unwrap()), [Value::Null]);
    let ran = || hits.load(std::sync::atomic::Ordering::Relaxed);
    let first = ran();
    run(&mut database, "INSERT INTO u VALUES (1)");
    assert_eq!(database.poll(&mut watch).unwrap(), []);
    assert_eq!(ran(), first);
    run(&mut database, "INSERT INTO t VALUES (1), (2)");
    assert_eq!(cells(&database.poll(&mut watch).unwrap()), [Value::Int(3)]);
    let second = ran();
    assert!(second > first);
    // Run again, with the same rows.
    run(&mut database, "INSERT INTO t VALUES (100)");
    assert_eq!(database.poll(&mut watch).unwrap(), []);
    assert!(ran() > second);
    // Within a transaction nothing is told, behind one that was rolled back neither.
    run(&mut database, "BEGIN");
    run(&mut database, "INSERT INTO t VALUES (3)");
    assert_eq!(database.poll(&mut watch).unwrap(), []);
    run(&mut database, "ROLLBACK");
    assert_eq!(database.poll(&mut watch).unwrap(), []);
    run(&mut database, "DROP VIEW v");
    run(&mut database, "CREATE VIEW v AS SELECT a FROM u");
    assert_eq!(cells(&database.poll(&mut watch).unwrap()), [Value::Int(1)]);

    let refused = |topics| database_error(topics);
    assert!(refused(Topics::default().query("DELETE FROM t")).contains("not a query"));
    assert!(refused(Topics::default().query("SELECT ?1")).contains("parameters"));
    assert!(refused(Topics::default().table("nowhere")).contains("no such table: nowhere"));
}

fn database_error(topics: Topics) -> String {
    let mut database = Database::memory(Environment::os()).unwrap();
    run(&mut database, "CREATE TABLE t (a)");
    database.watch(topics).unwrap_err().to_string()
}
