//! Hooks of rows, commits and rollbacks, compared with SQLite's, and the progress handler.

use std::sync::{Arc, Mutex};

use crate::write_support::{run_shoal, run_sqlite, sqlite};
use rusqlite::hooks::Action;
use shoal_sql::{Access, Authorization, Connection, Error, Value, ValueRef};
use shoal_store::{Mode, Store};

type Log = Arc<Mutex<Vec<String>>>;

fn log() -> Log {
    Log::default()
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Statements whose hooks are called as SQLite calls them.
const ALIKE: &[&str] = &[
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE, c AS (b || '!'))",
    "CREATE TABLE log (n INTEGER PRIMARY KEY AUTOINCREMENT, what)",
    "INSERT INTO t (b) VALUES ('x'), ('y'), ('z')",
    "UPDATE t SET b = b || a WHERE a > 1",
    "UPDATE t SET a = a + 10 WHERE a = 3",
    "UPDATE t SET b = 'none' WHERE 0",
    "INSERT OR REPLACE INTO t VALUES (1, 'new')",
    "INSERT OR REPLACE INTO t VALUES (7, 'new')",
    "INSERT OR IGNORE INTO t VALUES (7, 'other')",
    "INSERT INTO t VALUES (7, 'up') ON CONFLICT (a) DO UPDATE SET b = excluded.b",
    "INSERT INTO t VALUES (7, 'fails')",
    "INSERT INTO t VALUES (20, 'a'), (7, 'fails')",
    "DELETE FROM t WHERE a = 2",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log (what) VALUES (new.b); END",
    "INSERT INTO t VALUES (30, 'traced')",
    "BEGIN",
    "INSERT INTO t VALUES (31, 'q')",
    "ROLLBACK",
    "BEGIN",
    "SELECT * FROM t",
    "COMMIT",
    "BEGIN",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO t VALUES (31, 'q')",
    "INSERT INTO t VALUES (31, 'q')",
    "SAVEPOINT s",
    "DELETE FROM t WHERE a = 31",
    "ROLLBACK TO s",
    "COMMIT",
    "BEGIN",
    "INSERT INTO t VALUES (40, 'q2')",
    "INSERT OR ROLLBACK INTO t VALUES (40, 'q3')",
    "SELECT count(*) FROM t",
    "PRAGMA user_version = 5",
    "DROP TABLE log",
    "CREATE INDEX tb ON t (b)",
    "SELECT * FROM t",
];

#[test]
fn hooks_are_called_as_sqlite_calls_them() {
    let (ours, theirs) = (log(), log());
    let mut connection = Connection::open(Store::memory()).unwrap();
    let mut oracle = sqlite(None);
    let to = Arc::clone(&ours);
    connection.set_update_hook(Some(Box::new(move |change| {
        let rowid = change.new_rowid().or(change.old_rowid()).unwrap();
        let line = format!("{:?} {} {} {rowid}", change.kind(), change.database(), change.table());
        to.lock().unwrap().push(line);
    })));
    let to = Arc::clone(&ours);
    connection.set_commit_hook(Some(Box::new(move || {
        to.lock().unwrap().push("commit".to_owned());
        false
    })));
    let to = Arc::clone(&ours);
    connection
        .set_rollback_hook(Some(Box::new(move || to.lock().unwrap().push("rollback".to_owned()))));
    let to = Arc::clone(&theirs);
    let update = move |action: Action, database: &str, table: &str, rowid: i64| {
        let kind = match action {
            Action::SQLITE_INSERT => "Insert",
            Action::SQLITE_UPDATE => "Update",
            _ => "Delete",
        };
        to.lock().unwrap().push(format!("{kind} {database} {table} {rowid}"));
    };
    oracle.update_hook(Some(update)).unwrap();
    let to = Arc::clone(&theirs);
    let commit = move || {
        to.lock().unwrap().push("commit".to_owned());
        false
    };
    oracle.commit_hook(Some(commit)).unwrap();
    let to = Arc::clone(&theirs);
    let rollback = move || to.lock().unwrap().push("rollback".to_owned());
    oracle.rollback_hook(Some(rollback)).unwrap();
    for sql in ALIKE {
        assert_eq!(run_shoal(&mut connection, sql), run_sqlite(&oracle, sql), "{sql}");
        assert_eq!(take(&ours), take(&theirs), "{sql}");
    }
    connection.set_update_hook(None);
    connection.set_commit_hook(None);
    connection.set_rollback_hook(None);
    run_shoal(&mut connection, "DELETE FROM t").unwrap();
    assert_eq!(take(&ours), Vec::<String>::new());
}

#[test]
fn rows_before_and_after() {
    let seen = log();
    let mut connection = Connection::open(Store::memory()).unwrap();
    let show = |values: Option<&[Value]>| match values {
        None => "-".to_owned(),
        Some(values) => {
            let values = values.iter().map(|value| match value {
                Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Value::Int(int) => int.to_string(),
                other => format!("{other:?}"),
            });
            values.collect::<Vec<_>>().join(",")
        }
    };
    let to = Arc::clone(&seen);
    connection.set_preupdate_hook(Some(Box::new(move |change| {
        let rowids = (change.old_rowid(), change.new_rowid());
        let line = format!(
            "{} {rowids:?} {} > {}",
            change.table(),
            show(change.before()),
            show(change.after())
        );
        to.lock().unwrap().push(line);
    })));
    let mut run = |sql: &str| {
        run_shoal(&mut connection, sql).unwrap();
        take(&seen)
    };
    assert!(
        run("CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE, c AS (b || '!') STORED)").is_empty()
    );
    assert_eq!(run("INSERT INTO t (b) VALUES ('x')"), ["t (None, Some(1)) - > 1,x,x!"]);
    assert_eq!(run("UPDATE t SET a = 5, b = 'y'"), ["t (Some(1), Some(5)) 1,x,x! > 5,y,y!"]);
    assert_eq!(
        run("REPLACE INTO t VALUES (6, 'y')"),
        ["t (Some(5), None) 5,y,y! > -", "t (None, Some(6)) - > 6,y,y!"]
    );
    assert_eq!(run("DELETE FROM t"), ["t (Some(6), None) 6,y,y! > -"]);
    assert!(run("CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID").is_empty());
    assert_eq!(run("INSERT INTO w VALUES ('k', 1)"), ["w (None, None) - > k,1"]);
    assert_eq!(run("UPDATE w SET k = 'l'"), ["w (None, None) k,1 > l,1"]);
    assert_eq!(run("DELETE FROM w"), ["w (None, None) l,1 > -"]);
    connection.begin(Mode::Write).unwrap();
    let mut writer = connection.table_writer("t").unwrap();
    writer.insert(&[ValueRef::Int(9), ValueRef::Text(b"w")]).unwrap();
    writer.replace(9, &[ValueRef::Null, ValueRef::Text(b"v")]).unwrap();
    writer.delete(9).unwrap();
    assert_eq!(
        take(&seen),
        [
            "t (None, Some(9)) - > 9,w,w!",
            "t (Some(9), Some(9)) 9,w,w! > 9,v,v!",
            "t (Some(9), None) 9,v,v! > -"
        ]
    );
    connection.commit().unwrap();
}

#[test]
fn a_refused_commit_is_a_rollback() {
    let mut connection = Connection::open(Store::memory()).unwrap();
    run_shoal(&mut connection, "CREATE TABLE t (a)").unwrap();
    let rolled_back = Arc::new(Mutex::new(0));
    let count = Arc::clone(&rolled_back);
    connection.set_rollback_hook(Some(Box::new(move || *count.lock().unwrap() += 1)));
    connection.set_commit_hook(Some(Box::new(|| true)));
    let mut prepared = connection.prepare("SELECT count(*) FROM t").unwrap();
    let refused = run_shoal(&mut connection, "INSERT INTO t VALUES (1)");
    assert_eq!(refused, Err("constraint failed".to_owned()));
    run_shoal(&mut connection, "BEGIN").unwrap();
    run_shoal(&mut connection, "INSERT INTO t VALUES (1)").unwrap();
    run_shoal(&mut connection, "CREATE TABLE u (a)").unwrap();
    assert!(matches!(connection.commit(), Err(Error::CommitRefused)));
    assert!(!connection.in_transaction());
    assert_eq!(*rolled_back.lock().unwrap(), 2);
    connection.set_commit_hook(None);
    let mut rows = connection.query(&mut prepared).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().get(0), ValueRef::Int(0));
    drop(rows);
    assert!(run_shoal(&mut connection, "SELECT * FROM u").is_err());
    run_shoal(&mut connection, "INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(run_shoal(&mut connection, "SELECT a FROM t").unwrap(), [[Value::Int(1)]]);
}

#[test]
fn progress_may_stop_a_statement_that_writes() {
    let mut connection = Connection::open(Store::memory()).unwrap();
    run_shoal(&mut connection, "CREATE TABLE t (a)").unwrap();
    connection.set_progress_handler(50, Some(Box::new(|| true)));
    let insert = "INSERT INTO t SELECT value FROM generate_series(1, 1000000)";
    assert_eq!(run_shoal(&mut connection, insert), Err("interrupted".to_owned()));
    let calls = Arc::new(Mutex::new(0));
    let count = Arc::clone(&calls);
    connection.set_progress_handler(
        10,
        Some(Box::new(move || {
            *count.lock().unwrap() += 1;
            false
        })),
    );
    let sum =
        "SELECT sum(x) FROM (WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n
               WHERE x < 20000) SELECT x FROM n)";
    assert_eq!(run_shoal(&mut connection, sum).unwrap(), [[Value::Int(200_010_000)]]);
    assert!(*calls.lock().unwrap() > 5);
    connection.set_progress_handler(0, None);
    assert_eq!(run_shoal(&mut connection, "SELECT count(*) FROM t").unwrap(), [[Value::Int(0)]]);
}

#[test]
fn an_authorizer_is_asked_about_what_a_statement_touches() {
    let mut ours = Connection::open(Store::memory()).unwrap();
    for sql in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name, secret, g AS (secret || '!'))",
        "CREATE TABLE log (what)",
        "CREATE VIEW v AS SELECT name, secret FROM t",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log SELECT name FROM t; END",
        "INSERT INTO t (name, secret) VALUES ('a', 'x'), ('b', 'y')",
    ] {
        run_shoal(&mut ours, sql).unwrap();
    }
    let asked = log();
    let list = Arc::clone(&asked);
    ours.set_authorizer(Some(Box::new(move |access| {
        list.lock().unwrap().push(format!("{access:?}"));
        match access {
            Access::Read { column: "secret", .. } => Authorization::Ignore,
            Access::Read { table: "log", .. } => Authorization::Deny,
            Access::Function { name: "random" } => Authorization::Deny,
            Access::Delete { table: "log", .. } | Access::Define { .. } => Authorization::Deny,
            Access::Update { column: "id", .. } => Authorization::Deny,
            Access::Pragma { sets: true, .. } | Access::File { .. } => Authorization::Deny,
            _ => Authorization::Allow,
        }
    })));
    let mut ask = |sql: &str| match run_shoal(&mut ours, sql) {
        Ok(rows) => rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>().join(" "),
        Err(error) => error,
    };
    let (a, b) = ("Text([97])", "Text([98])");
    assert_eq!(ask("SELECT name, secret, g FROM t WHERE id = 1"), format!("[{a}, Null, Null]"));
    assert_eq!(ask("SELECT * FROM v WHERE secret IS NULL"), format!("[{a}, Null] [{b}, Null]"));
    assert_eq!(ask("SELECT count(*) FROM log"), "access to log is prohibited");
    assert_eq!(ask("SELECT name FROM t, (SELECT what FROM log)"), "access to log is prohibited");
    assert_eq!(ask("SELECT random()"), "not authorized to use function: random");
    assert_eq!(ask("UPDATE t SET id = 7"), "not authorized");
    for sql in ["DELETE FROM log", "CREATE TABLE u (a)", "DROP TABLE t", "ATTACH ':memory:' AS m"] {
        assert_eq!(ask(sql), "not authorized", "{sql}");
    }
    assert_eq!(ask("PRAGMA user_version = 5"), "not authorized");
    assert_eq!(ask("PRAGMA user_version"), "[Int(0)]");
    // The key of a changed row is not read by the statement, so it is never hidden.
    asked.lock().unwrap().clear();
    assert_eq!(ask("UPDATE t SET name = 'c' WHERE id = 2"), "");
    let database = "database: \"main\", table: \"t\"";
    assert_eq!(
        take(&asked),
        [
            format!("Update {{ {database}, column: \"name\" }}"),
            format!("Read {{ {database}, column: \"\" }}"),
            format!("Read {{ {database}, column: \"id\" }}"),
        ]
    );
    assert_eq!(ask("SELECT name FROM t WHERE id = 2"), "[Text([99])]");
    // What a trigger does is asked about, too.
    assert_eq!(ask("INSERT INTO t (name) VALUES ('d')"), "");
    let all = take(&asked);
    assert!(all.iter().any(|asked| asked.contains("Insert") && asked.contains("log")), "{all:?}");
    ours.set_authorizer(None);
    assert_eq!(run_shoal(&mut ours, "SELECT count(*) FROM log").unwrap().len(), 1);
    let mut statement = ours.prepare("SELECT secret FROM t WHERE id = 1").unwrap();
    let mut rows = ours.query(&mut statement).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().get(0), ValueRef::Text(b"x"));
}
