//! Indexes made of whole tables: the entries of SQLite, whatever the rows and however little memory
//! there is.

use crate::write_support::{contents, contents_of, run_shoal, run_sqlite, script, shoal, sqlite};
use shoal_sql::Limits;
use shoal_store::vfs::SimVfs;

/// Rows of every kind: integers, texts with a beginning in common, NULs, NULL, reals, mixed values.
const ROWS: &str = "INSERT INTO t (id, number, same, code, short, nul, mixed, real)
    WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
    SELECT x, (x * 7919 % 20011) - 9000, x % 7, printf('customer-%08d-%d', x * 31 % 20011, x % 3),
        printf('%c%d', 65 + x % 26 + x % 2 * 32, x % 900),
        CAST(CASE x % 3 WHEN 0 THEN x'6100' WHEN 1 THEN x'61' ELSE x'610062' END AS TEXT),
        CASE x % 5 WHEN 0 THEN NULL WHEN 1 THEN x WHEN 2 THEN x / 3.0 WHEN 3 THEN 't' || x
            ELSE zeroblob(x % 50) END,
        x % 9 / CASE x % 2 WHEN 0 THEN 1 ELSE 2.0 END
    FROM n";

const INDEXES: &[&str] = &[
    "CREATE UNIQUE INDEX i0 ON t(number)",
    "CREATE INDEX i1 ON t(number DESC)",
    "CREATE INDEX i2 ON t(same)",
    "CREATE INDEX i3 ON t(same, number DESC)",
    "CREATE INDEX i4 ON t(code)",
    "CREATE UNIQUE INDEX i5 ON t(code DESC, id)",
    "CREATE INDEX i6 ON t(short)",
    "CREATE INDEX i7 ON t(short COLLATE NOCASE)",
    "CREATE INDEX i8 ON t(nul)",
    "CREATE INDEX i9 ON t(mixed)",
    "CREATE INDEX j0 ON t(mixed DESC, short)",
    "CREATE INDEX j1 ON t(real)",
    "CREATE INDEX j2 ON t(id)",
    "CREATE INDEX j3 ON t(late, real)",
    "CREATE INDEX j4 ON t(abs(number))",
    "CREATE INDEX j5 ON t(number) WHERE same = 3",
    "CREATE UNIQUE INDEX f0 ON t(same)",
    "CREATE UNIQUE INDEX f1 ON t(short)",
    "CREATE UNIQUE INDEX f2 ON t(mixed)",
    "CREATE UNIQUE INDEX f3 ON t(short, same)",
    "REINDEX",
];

fn indexes_agree(limits: Limits) {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, number INT, same, code TEXT, short TEXT, nul, mixed,
        real REAL)";
    for sql in [create, ROWS, "ALTER TABLE t ADD COLUMN late DEFAULT 'late'"] {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    }
    ours.set_limits(limits);
    for sql in INDEXES {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    }
    assert_eq!(run_shoal(&mut ours, "PRAGMA integrity_check").unwrap()[0][0], "ok".into());
    drop(ours);
    // SQLite finds the file whole there: each row in each index, each index in its order.
    assert_eq!(contents_of(&vfs.image()), contents(&theirs));
}

#[test]
fn indexes_agree_in_memory() {
    indexes_agree(Limits::default());
}

#[test]
fn indexes_agree_through_files() {
    indexes_agree(Limits { memory_bytes: Some(100_000), ..Limits::default() });
}

/// A `UNIQUE` of the columns of the key has no index of its own, and its conflict clause is the
/// key's.
#[test]
fn a_unique_of_the_key_is_the_key_of_a_table_without_rowids() {
    let definitions = [
        "a INTEGER NOT NULL UNIQUE, b, PRIMARY KEY(a)",
        "a INTEGER UNIQUE PRIMARY KEY, b UNIQUE",
        "a INTEGER PRIMARY KEY UNIQUE, b UNIQUE",
        "a INTEGER UNIQUE ON CONFLICT REPLACE, b, PRIMARY KEY(a)",
        "a INTEGER UNIQUE, b UNIQUE, PRIMARY KEY(a) ON CONFLICT IGNORE",
        "a INTEGER UNIQUE ON CONFLICT FAIL, b, PRIMARY KEY(a) ON CONFLICT IGNORE",
        "a INT UNIQUE ON CONFLICT REPLACE, b, PRIMARY KEY(a)",
        "a INTEGER COLLATE NOCASE UNIQUE, b, PRIMARY KEY(a COLLATE BINARY)",
        "a INTEGER COLLATE NOCASE, b, PRIMARY KEY(a COLLATE BINARY)",
        "a INTEGER UNIQUE, b, PRIMARY KEY(a DESC)",
        "a INT UNIQUE, b, PRIMARY KEY(a DESC)",
        "a, b, UNIQUE(a DESC, b), PRIMARY KEY(a, b DESC)",
        "a INTEGER, b, UNIQUE(a, b), PRIMARY KEY(a, b)",
    ];
    for definition in definitions {
        let create = format!("CREATE TABLE t({definition}) WITHOUT ROWID");
        script(&[
            &create,
            "CREATE TABLE u(x)",
            "INSERT INTO t VALUES (1, 2), (3, 4)",
            "INSERT INTO t VALUES (1, 5)",
            "INSERT INTO t VALUES (6, 7)",
            "INSERT INTO t VALUES ('b', 8), ('C', 9), ('B', 10)",
            "UPDATE t SET a = 3 WHERE a = 6",
            "SELECT * FROM t ORDER BY a, b",
            "PRAGMA index_list(t)",
            "PRAGMA integrity_check",
        ]);
    }
}

/// Blobs joined to text, read as UTF-16 in whatever is computed of a row.
#[test]
fn what_a_row_computes_reads_blobs_as_utf_16() {
    let mut connection = shoal(&SimVfs::new());
    for sql in [
        "PRAGMA encoding = 'UTF-16le'",
        "CREATE TABLE t(a, v AS (a || 'x'), s AS (a || 'y') STORED, CHECK (hex(a || '') <> '6200'))",
        "CREATE INDEX i ON t(v, s)",
        "CREATE INDEX p ON t(a) WHERE CAST(a AS TEXT) = 'a'",
        "INSERT INTO t(a) VALUES (x'6100'), (x'95959595'), (x'9595'), ('abc'), (35)",
    ] {
        run_shoal(&mut connection, sql).unwrap();
    }
    let check = |connection: &mut _, sql: &str, expect: &str| {
        assert_eq!(run_shoal(connection, sql).unwrap(), [[expect.into()]], "{sql}");
    };
    check(&mut connection, "PRAGMA integrity_check", "ok");
    check(&mut connection, "SELECT hex(s) FROM t WHERE v = 'ax'", "61007900");
    assert!(run_shoal(&mut connection, "INSERT INTO t(a) VALUES (x'6200')").is_err());
    run_shoal(&mut connection, "UPDATE t SET a = a || 'z' WHERE typeof(a) = 'blob'").unwrap();
    check(&mut connection, "PRAGMA integrity_check", "ok");
    check(&mut connection, "SELECT hex(s) FROM t WHERE v = 'azx'", "61007A007900");
    run_shoal(&mut connection, "DELETE FROM t WHERE rowid < 4").unwrap();
    check(&mut connection, "PRAGMA integrity_check", "ok");
}

/// Bytes that are no text, in an index by a function of text: the entry is found again.
#[test]
fn entries_of_no_text_are_found_in_utf_16() {
    let mut connection = shoal(&SimVfs::new());
    for sql in [
        "PRAGMA encoding = 'UTF-16le'",
        "CREATE TABLE t(a, b)",
        "CREATE INDEX i ON t(lower(b) COLLATE NOCASE, a)",
        "INSERT INTO t VALUES (1, x'ff'), (2, x'61c062'), (3, 'abc')",
    ] {
        run_shoal(&mut connection, sql).unwrap();
    }
    let check = |connection: &mut _| {
        let found = run_shoal(connection, "PRAGMA integrity_check").unwrap();
        assert_eq!(found, [["ok".into()]]);
    };
    check(&mut connection);
    run_shoal(&mut connection, "UPDATE t SET a = 4 WHERE a = 2").unwrap();
    run_shoal(&mut connection, "DELETE FROM t WHERE a = 1").unwrap();
    check(&mut connection);
}
