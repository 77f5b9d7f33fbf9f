//! Statements that write to attached databases and to temporary tables, compared with SQLite.

use std::sync::Arc;

use crate::write_support::{on_disk, run_shoal, script_of_files as script, show};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};

#[test]
fn rows_and_definitions() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b)",
        "ATTACH 'DIR/a.db' AS aux",
        "CREATE TABLE aux.t (a INTEGER PRIMARY KEY AUTOINCREMENT, b UNIQUE, c AS (b || '!'))",
        "CREATE TABLE aux.only (x, y COLLATE NOCASE DEFAULT 'd')",
        "CREATE INDEX aux.oi ON only (y)",
        "CREATE INDEX oj ON only (y)",
        "CREATE VIEW aux.v AS SELECT a, b FROM t",
        "CREATE TABLE aux.made AS SELECT 1 AS one, 'x' AS two",
        "INSERT INTO t VALUES (1, 'main')",
        "INSERT INTO aux.t (b) VALUES ('p'), ('q') RETURNING *",
        "INSERT INTO only (x) SELECT b FROM aux.t UNION ALL SELECT b FROM t",
        "INSERT INTO t SELECT a + 10, b FROM aux.t",
        "UPDATE aux.t SET b = b || (SELECT max(b) FROM main.t) WHERE a = 1",
        "UPDATE only SET y = x FROM main.t WHERE x = t.b",
        "DELETE FROM aux.t WHERE a IN (SELECT a FROM main.t WHERE b = 'q')",
        "INSERT INTO aux.t VALUES (1, 'z') ON CONFLICT DO UPDATE SET b = excluded.b || t.b",
        "INSERT OR REPLACE INTO aux.t VALUES (7, 'q')",
        "INSERT INTO aux.t (b) VALUES ('q')",
        "SELECT * FROM aux.t",
        "SELECT * FROM only",
        "SELECT * FROM aux.sqlite_sequence",
        "CREATE TRIGGER aux.tr AFTER INSERT ON t BEGIN INSERT INTO only VALUES (new.a, new.b); END",
        "CREATE TRIGGER aux.vr INSTEAD OF INSERT ON v BEGIN INSERT INTO t (b) VALUES (new.b || 'v'); END",
        "INSERT INTO aux.t (b) VALUES ('fires')",
        "INSERT INTO v VALUES (5, 'view')",
        "INSERT INTO t (b) VALUES ('does not fire')",
        "SELECT * FROM only",
        "CREATE TRIGGER aux.bad AFTER DELETE ON only BEGIN INSERT INTO nowhere VALUES (1); END",
        "DELETE FROM only",
        "DROP TRIGGER bad",
        "CREATE TRIGGER aux.far AFTER DELETE ON only BEGIN SELECT * FROM main.t; END",
        "CREATE TRIGGER far AFTER DELETE ON main.t BEGIN SELECT (SELECT 1 FROM aux.t); END",
        "CREATE VIEW far AS SELECT * FROM aux.t",
        "CREATE VIEW aux.near AS SELECT a AS \"ObjectName { database: Some(Name { text: \" FROM t",
        "DELETE FROM only WHERE x = 7",
        "DROP INDEX oi",
        "DROP VIEW v",
        "DROP TABLE made",
        "DROP TABLE aux.nope",
        "INSERT INTO aux.nope VALUES (1)",
        "INSERT INTO nope.t VALUES (1)",
        "CREATE TABLE nope.t (a)",
        "CREATE TABLE aux.t (a)",
        "PRAGMA aux.user_version = 9",
        "PRAGMA aux.user_version",
        "PRAGMA user_version",
        "SELECT name FROM aux.sqlite_schema",
        "REINDEX aux.t",
        "DETACH aux",
        "ATTACH 'DIR/a.db' AS again",
        "SELECT * FROM again.t",
        "DROP TABLE t",
        "INSERT INTO t (b) VALUES ('now there')",
    ]);
}

#[test]
fn transactions_and_savepoints() {
    script(&[
        "ATTACH 'DIR/a.db' AS aux",
        "ATTACH ':memory:' AS mem",
        "CREATE TABLE aux.t (a UNIQUE)",
        "CREATE TABLE mem.m (a)",
        "CREATE TEMP TABLE p (a)",
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO m VALUES (1)",
        "INSERT INTO p VALUES (1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2), (3)",
        "INSERT INTO t VALUES (4), (1)",
        "INSERT INTO m SELECT a FROM t",
        "DELETE FROM p",
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM m), (SELECT count(*) FROM p)",
        "ROLLBACK TO s",
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM m), (SELECT count(*) FROM p)",
        "CREATE TABLE aux.u (x)",
        "INSERT INTO u VALUES ('u')",
        "RELEASE s",
        "COMMIT",
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM m), (SELECT count(*) FROM p)",
        "BEGIN",
        "DELETE FROM t",
        "DROP TABLE u",
        "DELETE FROM p",
        "INSERT OR ROLLBACK INTO t VALUES (8), (8)",
        "COMMIT",
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u), (SELECT count(*) FROM p)",
        "SAVEPOINT outer",
        "INSERT INTO t VALUES (9)",
        "RELEASE outer",
        "BEGIN",
        "UPDATE t SET a = a + 100",
        "ROLLBACK",
        "SELECT * FROM t",
        "BEGIN",
        "INSERT INTO t VALUES (50)",
        "DETACH aux",
        "COMMIT",
        "DETACH aux",
        "SELECT * FROM t",
    ]);
}

#[test]
fn temporary_objects() {
    script(&[
        "CREATE TABLE t (a, b)",
        "INSERT INTO t VALUES ('main', 1)",
        "SELECT * FROM sqlite_temp_schema",
        "CREATE TEMP TABLE t (a, c DEFAULT 'c')",
        "CREATE TEMPORARY TABLE IF NOT EXISTS t (a)",
        "CREATE TEMP TABLE t (a)",
        "CREATE TEMP TABLE main.x (a)",
        "CREATE TABLE temp.k (i INTEGER PRIMARY KEY AUTOINCREMENT, v UNIQUE)",
        "INSERT INTO t (a) VALUES ('temp')",
        "INSERT INTO main.t VALUES ('main', 2)",
        "INSERT INTO temp.t VALUES ('temp', 2)",
        "INSERT INTO k (v) SELECT a || b FROM main.t",
        "SELECT * FROM t",
        "SELECT * FROM main.t",
        "SELECT * FROM temp.t",
        "SELECT type, name, tbl_name, sql FROM sqlite_temp_schema",
        "SELECT type, name FROM temp.sqlite_master",
        "SELECT name FROM sqlite_schema",
        "CREATE TEMP VIEW tv AS SELECT t.a, m.b FROM t, main.t AS m",
        "SELECT * FROM tv",
        "CREATE INDEX ki ON k (v)",
        "CREATE INDEX temp.ti ON t (c)",
        "SELECT * FROM t WHERE c = 'c'",
        "CREATE TRIGGER kt AFTER INSERT ON k BEGIN INSERT INTO t VALUES (new.i, new.v); END",
        "INSERT INTO k (v) VALUES ('fires')",
        "INSERT INTO k (v) VALUES ('fires')",
        "SELECT * FROM t",
        "UPDATE t SET c = 'new' WHERE a = 'temp'",
        "UPDATE t SET c = m.b FROM main.t AS m WHERE c = 'c'",
        "DELETE FROM t WHERE c = 'new'",
        "SELECT * FROM t",
        "PRAGMA table_info(k)",
        "PRAGMA table_info(t)",
        "PRAGMA temp.table_info(t)",
        "PRAGMA main.table_info(t)",
        "PRAGMA index_list(k)",
        "INSERT INTO main.t SELECT v, i FROM k",
        "CREATE TABLE copied AS SELECT * FROM t",
        "CREATE TEMP TABLE copy AS SELECT * FROM main.t",
        "SELECT * FROM copy",
        "DROP TRIGGER kt",
        "DROP VIEW tv",
        "DROP INDEX ki",
        "DROP TABLE t",
        "SELECT * FROM t",
        "DROP TABLE t",
        "SELECT * FROM t",
        "SELECT name FROM sqlite_temp_schema ORDER BY 1",
        "DROP TABLE temp.nope",
        "DETACH temp",
        "PRAGMA integrity_check",
    ]);
}

#[test]
fn foreign_keys_stay_within_a_database() {
    script(&[
        "PRAGMA foreign_keys = ON",
        "CREATE TABLE p (a INTEGER PRIMARY KEY)",
        "INSERT INTO p VALUES (1)",
        "ATTACH 'DIR/a.db' AS aux",
        "CREATE TABLE aux.c (x REFERENCES p ON DELETE CASCADE)",
        "INSERT INTO c VALUES (1)",
        "CREATE TABLE aux.p (a INTEGER PRIMARY KEY)",
        "INSERT INTO c VALUES (1)",
        "INSERT INTO aux.p VALUES (1), (2)",
        "INSERT INTO c VALUES (1), (2)",
        "DELETE FROM aux.p WHERE a = 1",
        "SELECT * FROM c",
        "SELECT * FROM p",
        "CREATE TEMP TABLE tp (a UNIQUE)",
        "CREATE TEMP TABLE tc (x REFERENCES tp (a) DEFERRABLE INITIALLY DEFERRED)",
        "BEGIN",
        "INSERT INTO tc VALUES (1)",
        "COMMIT",
        "INSERT INTO tp VALUES (1)",
        "COMMIT",
        "DROP TABLE aux.p",
        "SELECT * FROM c",
    ]);
}

/// Files with a rollback journal change together, by a super-journal; a file with a log, and a
/// temporary table, in the same transaction all the same.
#[test]
fn several_files_in_one_transaction() {
    for modes in
        [["delete", "delete"], ["truncate", "persist"], ["persist", "delete"], ["wal", "delete"]]
    {
        let main = format!("PRAGMA main.journal_mode = {}", modes[0]);
        let aux = format!("PRAGMA aux.journal_mode = {}", modes[1]);
        script(&[
            &main,
            "ATTACH 'DIR/a.db' AS aux",
            "ATTACH 'DIR/b.db' AS other",
            &aux,
            "CREATE TABLE t (x)",
            "CREATE TABLE aux.u (x)",
            "CREATE TABLE other.v (x)",
            "CREATE TEMP TABLE w (x)",
            "BEGIN",
            "INSERT INTO u VALUES (1), (2)",
            "INSERT INTO t SELECT x FROM u",
            "INSERT INTO v SELECT x + 10 FROM u",
            "INSERT INTO w SELECT x + 20 FROM u",
            "SAVEPOINT s",
            "INSERT INTO u VALUES (3)",
            "INSERT INTO v VALUES (3)",
            "ROLLBACK TO s",
            "INSERT INTO v VALUES (4)",
            "COMMIT",
            "SELECT * FROM t",
            "SELECT * FROM u",
            "SELECT * FROM v",
            "SELECT * FROM w",
            "BEGIN",
            "DELETE FROM t",
            "DELETE FROM u",
            "ROLLBACK",
            "BEGIN",
            "UPDATE t SET x = x + 100",
            "UPDATE u SET x = x + 100",
            "COMMIT",
            "SELECT * FROM t, u",
            "INSERT INTO t VALUES (5)",
            "SELECT count(*) FROM t",
        ]);
    }
}

/// A commit refused because another program reads one of the files leaves all of them alone, and
/// leaves no journal; the same commit then succeeds.
#[test]
fn a_busy_file_holds_back_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = on_disk(&folder.path().join("main.db"));
    let mut run = |sql: &str| run_shoal(&mut connection, sql);
    run("PRAGMA busy_timeout = 0").unwrap();
    let b = folder.path().join("b.db");
    run(&format!("ATTACH '{}' AS b", b.display())).unwrap();
    run("CREATE TABLE t (x)").unwrap();
    run("CREATE TABLE b.u (x)").unwrap();
    let store = Store::open(Arc::new(OsVfs), &b, Access::ReadOnly).unwrap();
    let reader = store.begin(shoal_store::Mode::Read).unwrap();
    for sql in ["BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)"] {
        run(sql).unwrap();
    }
    assert!(run("COMMIT").is_err());
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files(), 2, "no journal is left");
    drop(reader);
    assert_eq!(show(&run("SELECT count(*) FROM t")), "Int(0)\n");
    for sql in ["BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "COMMIT"] {
        run(sql).unwrap();
    }
    assert_eq!(files(), 2);
    assert_eq!(
        show(&run("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u)")),
        "Int(2)\n"
    );
}
