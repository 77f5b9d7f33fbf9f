//! Refused statements: the message, and the database left unchanged.

use crate::write_support::{DB, contents_of, run_shoal, shoal, sqlite};
use shoal_sql::Value;
use shoal_store::vfs::{Image, SimVfs};

/// A database made by SQLite.
fn made_by_sqlite(sql: &str) -> Image {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    sqlite(Some(&path)).execute_batch(sql).unwrap();
    Image::from([(DB.into(), std::fs::read(path).unwrap())])
}

const SCHEMA: &str = "
    CREATE TABLE t (a INTEGER PRIMARY KEY, b);
    CREATE INDEX tb ON t (b);
    INSERT INTO t VALUES (1, 'x');
    CREATE TABLE log (a);
    CREATE TABLE watched (a);
    CREATE TRIGGER w AFTER INSERT ON watched BEGIN INSERT INTO log VALUES (new.a); END;
    CREATE VIEW v AS SELECT a FROM t;
    CREATE VIRTUAL TABLE f USING fts5(body);
";

#[test]
fn refusals_name_what_they_refuse() {
    let image = made_by_sqlite(SCHEMA);
    let before = contents_of(&image);
    let vfs = SimVfs::from_image(&image);
    let mut connection = shoal(&vfs);
    let cases = [
        ("INSERT INTO nosuch VALUES (1)", "no such table: nosuch"),
        ("INSERT INTO other.t VALUES (1)", "no such table: other.t"),
        ("CREATE TABLE other.t (a)", "unknown database other"),
        ("INSERT INTO v VALUES (1)", "cannot modify v because it is a view"),
        ("DELETE FROM sqlite_schema", "table sqlite_schema may not be modified"),
        ("DROP TABLE sqlite_schema", "table sqlite_schema may not be dropped"),
        ("DROP TABLE v", "use DROP VIEW to delete view v"),
        ("DROP INDEX nosuch", "no such index: nosuch"),
        ("CREATE TABLE sqlite_x (a)", "object name reserved for internal use: sqlite_x"),
        ("CREATE TABLE t (a)", "table t already exists"),
        ("CREATE TABLE v (a)", "view v already exists"),
        ("CREATE TABLE tb (a)", "there is already an index named tb"),
        ("CREATE INDEX t ON t (a)", "there is already a table named t"),
        ("CREATE INDEX tb ON t (a)", "index tb already exists"),
        ("CREATE INDEX x ON t (nosuch)", "no such column: nosuch"),
        ("INSERT INTO t VALUES (1)", "table t has 2 columns but 1 values were supplied"),
        ("INSERT INTO t (a) VALUES (1, 2)", "2 values for 1 columns"),
        ("INSERT INTO t (nosuch) VALUES (1)", "table t has no column named nosuch"),
        ("INSERT INTO t VALUES ('one', 2)", "datatype mismatch"),
        ("INSERT INTO t VALUES (1, 2)", "UNIQUE constraint failed: t.a"),
        ("UPDATE t SET nosuch = 1", "no such column: nosuch"),
        ("UPDATE t SET a = NULL", "datatype mismatch"),
        ("INSERT INTO f VALUES ('x')", "no such module: fts5"),
        ("DELETE FROM f_content", "not supported: writing to f_content, part of virtual table f"),
        ("DROP TABLE f", "no such module: fts5"),
        ("CREATE INDEX x ON t (b) WHERE nosuch > 1", "no such column: nosuch"),
        (
            "CREATE INDEX x ON t (random())",
            "non-deterministic functions prohibited in index expressions",
        ),
        ("REINDEX nosuch", "unable to identify the object to be reindexed"),
        ("DROP VIEW t", "use DROP TABLE to delete table t"),
        (
            "CREATE TABLE x (a, b AS (date('2020-01-02', 'LocalTime')) STORED)",
            "non-deterministic functions prohibited in generated columns",
        ),
        (
            "CREATE TABLE x (a, b AS (datetime('2020-01-02', 'utc')))",
            "non-deterministic functions prohibited in generated columns",
        ),
        (
            "CREATE TABLE x (a, b AS (a) PERSISTED)",
            "error in generated column: it is VIRTUAL or STORED",
        ),
        (
            "ALTER TABLE t ADD COLUMN g AS (a) \"stored\"",
            "error in generated column: it is VIRTUAL or STORED",
        ),
        ("CREATE TABLE x (a, b AS (a) AS (1))", "error in generated column \"b\""),
    ];
    for (sql, expect) in cases {
        assert_eq!(run_shoal(&mut connection, sql).unwrap_err(), expect, "{sql}");
    }
    drop(connection);
    assert_eq!(contents_of(&vfs.image()), before);
}

/// Indexes and columns beyond Shoal's own definitions: in files with them, they are kept right.
#[test]
fn indexes_made_by_sqlite_are_kept_right() {
    let image = made_by_sqlite(
        "CREATE TABLE t (a, b TEXT, c AS (a * 2), d AS (c + 1) STORED, e REAL);
         CREATE INDEX partial ON t (b) WHERE a > 3;
         CREATE INDEX expression ON t (length(b), b COLLATE NOCASE DESC);
         CREATE INDEX generated ON t (c, d DESC);
         CREATE UNIQUE INDEX both ON t (a, abs(e)) WHERE e IS NOT NULL;
         CREATE TABLE w (k TEXT COLLATE NOCASE, n, v REAL UNIQUE, PRIMARY KEY (n DESC, k)) WITHOUT ROWID;
         CREATE INDEX wv ON w (v, k);
         INSERT INTO t (a, b, e) VALUES (1, 'one', 1), (5, 'five', NULL), (9, 'Nine', -3);
         INSERT INTO w VALUES ('a', 1, 2), ('b', 2, 2.5);
         ALTER TABLE t ADD COLUMN later DEFAULT 'old';
         PRAGMA user_version = 7;",
    );
    let vfs = SimVfs::from_image(&image);
    let mut connection = shoal(&vfs);
    let statements = [
        "INSERT INTO t (a, b, e) VALUES (2, 'two', 4), (7, 'Seven', 2.5), (NULL, NULL, NULL)",
        "UPDATE t SET a = a + 3, b = b || '!' WHERE a < 9",
        "UPDATE t SET later = later || d",
        "DELETE FROM t WHERE b = 'Nine'",
        "INSERT OR REPLACE INTO w VALUES ('A', 1, 7), ('c', 3, 2.5)",
        "UPDATE w SET k = upper(k), v = v * 2 WHERE n > 1",
        "UPDATE w SET n = 3 - n WHERE k = 'a'",
    ];
    for sql in statements {
        run_shoal(&mut connection, sql).unwrap();
    }
    let duplicate =
        run_shoal(&mut connection, "INSERT INTO t (a, e) VALUES (10, -2.5)").unwrap_err();
    assert_eq!(duplicate, "UNIQUE constraint failed: index 'both'");
    drop(connection);

    let reference = made_by_sqlite("");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, &image[std::path::Path::new(DB)]).unwrap();
    sqlite(Some(&path)).execute_batch(&statements.join(";")).unwrap();
    let expect = Image::from([(DB.into(), std::fs::read(path).unwrap())]);
    assert_ne!(contents_of(&expect), contents_of(&reference));
    assert_eq!(contents_of(&vfs.image()), contents_of(&expect));
}

#[test]
fn tables_from_queries() {
    let statements = [
        "CREATE TABLE t (a INT, b TEXT, c REAL, \"odd name\" BLOB)",
        "INSERT INTO t VALUES (1, 'x', 1.5, x'00'), (2, 'y', NULL, 'z')",
        "CREATE TABLE copy AS SELECT * FROM t",
        "CREATE TABLE named AS SELECT a AS x, a + 1, b || 'z' AS \"order\", c, c, \"odd name\" FROM t WHERE a > 1",
        "CREATE TABLE IF NOT EXISTS copy AS SELECT 1",
    ];
    let vfs = SimVfs::new();
    let mut connection = shoal(&vfs);
    for sql in statements {
        run_shoal(&mut connection, sql).unwrap();
    }
    drop(connection);
    assert_eq!(contents_of(&vfs.image()), contents_of(&made_by_sqlite(&statements.join(";"))));
}

#[test]
fn defaults_that_depend_on_time_are_computed_for_each_row() {
    let mut connection = shoal(&SimVfs::new());
    let table =
        "CREATE TABLE t (a, at DEFAULT CURRENT_TIMESTAMP, n DEFAULT (abs(-3) + 1), w DEFAULT word)";
    run_shoal(&mut connection, table).unwrap();
    run_shoal(&mut connection, "INSERT INTO t (a) VALUES (1)").unwrap();
    let rows = run_shoal(&mut connection, "SELECT length(at), n, w FROM t").unwrap();
    assert_eq!(rows, vec![vec![Value::Int(19), Value::Int(4), Value::from("word")]]);
}
