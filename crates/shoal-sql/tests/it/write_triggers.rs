//! Triggers: their firing, the rows they see, the errors they raise, and the counts.

use crate::write_support::{run_shoal, run_sqlite, script, sqlite};
use shoal_sql::Connection;

const LOG: &str = "CREATE TABLE log (n INTEGER PRIMARY KEY, what, o, x)";

#[test]
fn rows_before_and_after() {
    script(&[
        LOG,
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c AS (b || '?'))",
        "CREATE TRIGGER bi BEFORE INSERT ON t BEGIN INSERT INTO log (what, x) VALUES ('bi', new.a || '/' || ifnull(new.b, 'null') || '/' || ifnull(new.c, '')); END",
        "CREATE TRIGGER ai AFTER INSERT ON t BEGIN INSERT INTO log (what, x) VALUES ('ai', new.rowid || new.b); SELECT 1; END",
        "CREATE TRIGGER bu BEFORE UPDATE ON t BEGIN INSERT INTO log (what, o, x) VALUES ('bu', old.a || old.b, new.a || new.b); END",
        "CREATE TRIGGER au UPDATE OF b ON t WHEN new.b <> old.b BEGIN INSERT INTO log (what, o, x) VALUES ('au', old.b, new.b); END",
        "CREATE TRIGGER au2 AFTER UPDATE OF a ON t FOR EACH ROW BEGIN INSERT INTO log (what, o, x) VALUES ('au2', old.a, new.a); END",
        "CREATE TRIGGER bd BEFORE DELETE ON t BEGIN INSERT INTO log (what, o) VALUES ('bd', old.a); END",
        "CREATE TRIGGER ad AFTER DELETE ON t WHEN old.a % 2 BEGIN INSERT INTO log (what, o) SELECT 'ad', old.b || count(*) FROM t; END",
        "INSERT INTO t VALUES (1, 2), (NULL, 'x')",
        "INSERT INTO t (b) VALUES ('y') RETURNING *",
        "UPDATE t SET b = b || a",
        "UPDATE t SET a = a + 10 WHERE b LIKE 'x%'",
        "UPDATE t SET b = b",
        "UPDATE OR REPLACE t SET a = 1 WHERE a = 12",
        "REPLACE INTO t VALUES (3, 'z')",
        "INSERT INTO t VALUES (3, 'k') ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "INSERT OR IGNORE INTO t VALUES (3, 'k')",
        "INSERT INTO t VALUES (3, 'k')",
        "DELETE FROM t WHERE a = 3",
        "DELETE FROM t",
        "SELECT * FROM log",
        "DROP TRIGGER bi",
        "DROP TRIGGER bi",
        "DROP TRIGGER IF EXISTS bi",
        "INSERT INTO t VALUES (9, 'n')",
        "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger'",
        "DROP TABLE t",
        "SELECT name FROM sqlite_schema",
    ]);
}

#[test]
fn raising() {
    script(&[
        LOG,
        "CREATE TABLE t (a, b)",
        "CREATE TRIGGER r BEFORE INSERT ON t BEGIN INSERT INTO log (what) VALUES (new.a); SELECT CASE new.a WHEN 1 THEN RAISE(ABORT, 'one') WHEN 2 THEN RAISE(FAIL, 'two') WHEN 3 THEN RAISE(ROLLBACK, 'three') WHEN 4 THEN RAISE(IGNORE) WHEN 5 THEN RAISE(ABORT, 'five ' || new.b) END; INSERT INTO log (what) VALUES ('end'); END",
        "INSERT INTO t VALUES (0, 0), (1, 1)",
        "INSERT INTO t VALUES (0, 0), (2, 2)",
        "INSERT INTO t VALUES (0, 0), (4, 4), (0, 1)",
        "INSERT INTO t VALUES (5, 'x')",
        "BEGIN",
        "INSERT INTO t VALUES (7, 7)",
        "INSERT INTO t VALUES (3, 3)",
        "COMMIT",
        "SELECT * FROM t",
        "SELECT * FROM log",
        "CREATE TRIGGER u AFTER UPDATE ON t BEGIN SELECT RAISE(IGNORE) WHERE new.b = 9; INSERT INTO log (what) VALUES ('after'); END",
        "UPDATE t SET b = 9 WHERE a = 0",
        "UPDATE t SET b = 8",
        "CREATE TRIGGER d BEFORE DELETE ON t WHEN old.b = 8 BEGIN SELECT RAISE(IGNORE); END",
        "DELETE FROM t",
        "SELECT * FROM t",
        "SELECT * FROM log",
        "SELECT RAISE(IGNORE)",
        "CREATE TRIGGER e AFTER INSERT ON log BEGIN SELECT new.nosuch; END",
        "INSERT INTO log (what) VALUES (1)",
        "CREATE TRIGGER f AFTER INSERT ON log BEGIN SELECT old.what; END",
        "DROP TRIGGER e",
        "INSERT INTO log (what) VALUES (1)",
        "DROP TRIGGER f",
        "CREATE TRIGGER g AFTER INSERT ON log BEGIN INSERT INTO nosuch VALUES (1); END",
        "INSERT INTO log (what) VALUES (1)",
    ]);
}

#[test]
fn nested_and_recursive() {
    script(&[
        LOG,
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b)",
        "CREATE TABLE s (k INTEGER PRIMARY KEY, v UNIQUE)",
        "CREATE TRIGGER t1 AFTER INSERT ON t BEGIN INSERT INTO s (v) VALUES (new.b); INSERT INTO log (what, x) VALUES (changes(), last_insert_rowid()); UPDATE s SET v = v || '.'; INSERT INTO log (what, x) VALUES (changes(), last_insert_rowid()); END",
        "CREATE TRIGGER s1 AFTER INSERT ON s BEGIN INSERT INTO log (what, x) VALUES ('s1', new.v); UPDATE t SET b = b || '+' WHERE b = new.v; END",
        "INSERT INTO t VALUES (50, 'x')",
        "INSERT INTO t VALUES (60, 'y'), (61, 'z')",
        "INSERT OR IGNORE INTO t (b) SELECT v FROM s",
        "SELECT * FROM t",
        "SELECT * FROM s",
        "SELECT * FROM log",
        "CREATE TABLE r (n)",
        "CREATE TRIGGER down AFTER INSERT ON r WHEN new.n > 0 BEGIN INSERT INTO r VALUES (new.n - 1); END",
        "INSERT INTO r VALUES (5)",
        "SELECT * FROM r",
        "PRAGMA recursive_triggers = on",
        "INSERT INTO r VALUES (5)",
        "SELECT * FROM r",
        "CREATE TABLE u (a PRIMARY KEY, b)",
        "CREATE TRIGGER ud AFTER DELETE ON u BEGIN INSERT INTO log (what, o) VALUES ('gone', old.b); END",
        "INSERT INTO u VALUES (1, 'a')",
        "REPLACE INTO u VALUES (1, 'b')",
        "UPDATE OR REPLACE u SET a = 1",
        "PRAGMA recursive_triggers = off",
        "REPLACE INTO u VALUES (1, 'c')",
        "SELECT * FROM log WHERE what = 'gone'",
        "CREATE TABLE q (a INTEGER PRIMARY KEY, b)",
        "INSERT INTO q VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        "CREATE TRIGGER qd BEFORE DELETE ON q BEGIN DELETE FROM q WHERE a = old.a + 1; END",
        "DELETE FROM q WHERE a < 4",
        "SELECT * FROM q",
        "CREATE TRIGGER qu BEFORE UPDATE OF a ON q BEGIN UPDATE q SET b = b + 100 WHERE a = old.a; END",
        "INSERT INTO q VALUES (8, 8), (9, 9)",
        "UPDATE q SET a = a + 20",
        "SELECT * FROM q",
    ]);
}

#[test]
fn views() {
    script(&[
        LOG,
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)",
        "CREATE VIEW v (x, y) AS SELECT a, upper(b) FROM t",
        "INSERT INTO v VALUES (1, 2)",
        "CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO t VALUES (new.x, new.y); END",
        "CREATE TRIGGER vu INSTEAD OF UPDATE OF y ON v BEGIN UPDATE t SET b = new.y || old.y WHERE a = old.x; END",
        "CREATE TRIGGER vd INSTEAD OF DELETE ON v BEGIN DELETE FROM t WHERE a = old.x; END",
        "INSERT INTO v VALUES (1, 'one'), (2, 'two') RETURNING x, y",
        "INSERT INTO v (y) VALUES ('three')",
        "UPDATE v SET y = y || '!' WHERE x > 1 RETURNING *",
        "UPDATE v SET x = 5",
        "DELETE FROM v WHERE y LIKE 'ONE%' RETURNING x",
        "SELECT * FROM t",
        "INSERT INTO v VALUES (1, 1) ON CONFLICT DO NOTHING",
        "CREATE TRIGGER no BEFORE INSERT ON v BEGIN SELECT 1; END",
        "CREATE TRIGGER no AFTER INSERT ON v BEGIN SELECT 1; END",
        "CREATE TRIGGER no INSTEAD OF INSERT ON t BEGIN SELECT 1; END",
        "CREATE TRIGGER no INSERT ON nosuch BEGIN SELECT 1; END",
        "CREATE TRIGGER no INSERT ON sqlite_schema BEGIN SELECT 1; END",
        "CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN SELECT 1; END",
        "CREATE TRIGGER IF NOT EXISTS vi INSTEAD OF INSERT ON v BEGIN SELECT 1; END",
        "CREATE TRIGGER no INSERT ON t BEGIN SELECT ?; END",
        "DROP VIEW v",
        "SELECT type, name FROM sqlite_schema",
    ]);
}

#[test]
fn programs_run_each_other_a_thousand_deep() {
    let depth = |depth: i64| {
        let mut ours = Connection::open(shoal_store::Store::memory()).unwrap();
        let theirs = sqlite(None);
        let mut last = (Ok(Vec::new()), Ok(Vec::new()));
        for sql in [
            "PRAGMA recursive_triggers = on",
            "CREATE TABLE t (n)",
            "CREATE TRIGGER tr AFTER INSERT ON t WHEN new.n > 0 BEGIN \
                INSERT INTO t VALUES (new.n - 1); END",
            &format!("INSERT INTO t VALUES ({depth})"),
        ] {
            last = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
        }
        assert_eq!(last.0, last.1, "{depth}");
        let count = "SELECT count(*), sum(n) FROM t";
        assert_eq!(run_shoal(&mut ours, count), run_sqlite(&theirs, count), "{depth}");
        last.0.is_ok()
    };
    assert!(depth(49) && depth(50) && depth(120) && depth(998));
    // WHEN is part of the program: it runs once more than it inserts.
    assert!(depth(999) && !depth(1000) && !depth(1500));
}
