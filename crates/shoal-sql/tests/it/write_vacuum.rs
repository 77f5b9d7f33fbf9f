//! `VACUUM`, `VACUUM INTO`, the pages of new files and files in UTF-16, compared with SQLite.

use std::path::Path;
use std::sync::Arc;

use crate::write_support::{contents, run_shoal, run_sqlite, script, show, sqlite};
use shoal_sql::{Connection, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};

const FILL: &[&str] = &[
    "CREATE TABLE seq(id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
    "CREATE TABLE bare(a, b)",
    "CREATE TABLE keyed(a, b UNIQUE)",
    "CREATE TABLE w(k TEXT, v, PRIMARY KEY (k DESC)) WITHOUT ROWID",
    "CREATE INDEX bare_late ON seq(a)",
    "CREATE VIEW v AS SELECT * FROM bare",
    "CREATE TRIGGER t AFTER INSERT ON seq BEGIN INSERT INTO bare VALUES (new.id, new.a); END",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400) INSERT INTO seq(a) SELECT printf('%0200d', x) FROM n",
    "INSERT INTO keyed SELECT a, b || 'x' FROM bare",
    "INSERT INTO w SELECT a, zeroblob(3000 + a) FROM bare WHERE a % 20 = 0",
    "ALTER TABLE bare ADD COLUMN c DEFAULT 'late'",
    "INSERT INTO bare VALUES (1, 2, 3)",
    "DELETE FROM bare WHERE rowid % 3 = 0",
    "DELETE FROM keyed WHERE rowid % 3 <> 0",
    "DELETE FROM seq WHERE id > 100",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 9",
];

fn open(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs), path, Access::Create).unwrap();
    Connection::open(store).unwrap()
}

/// Numbers of a file, set or kept by a vacuum.
const NUMBERS: [&str; 9] = [
    "PRAGMA page_count",
    "PRAGMA freelist_count",
    "PRAGMA page_size",
    "PRAGMA user_version",
    "PRAGMA application_id",
    "PRAGMA encoding",
    "PRAGMA journal_mode",
    "PRAGMA schema_version",
    "SELECT group_concat(rootpage) FROM sqlite_schema",
];

/// Runs statements in both, each on a file of its own; fails unless the files hold the same in the
/// end, whole, with as many pages.
fn side_by_side(statements: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (mine, other) = (folder.path().join("mine"), folder.path().join("other"));
    let mut ours = open(&mine);
    let theirs = sqlite(Some(&other));
    for sql in statements {
        let (got, mut expect) = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
        if sql.starts_with("PRAGMA incremental_vacuum") {
            // SQLite gives a row without columns for each page.
            expect = expect.map(|_| Vec::new());
        }
        assert_eq!(got, expect, "{sql}");
    }
    drop(ours);
    drop(theirs);
    let (mine, theirs) = (sqlite(Some(&mine)), sqlite(Some(&other)));
    let check = run_sqlite(&mine, "PRAGMA integrity_check");
    assert_eq!(show(&check), "\"ok\"\n");
    assert_eq!(contents(&mine), contents(&theirs));
    // Without a vacuum the pages lie as each engine has put them.
    let vacuumed = statements.contains(&"VACUUM");
    let layout =
        |sql: &str| ["page_count", "freelist_count", "rootpage"].iter().any(|it| sql.contains(it));
    for sql in NUMBERS.iter().filter(|sql| vacuumed || !layout(sql)) {
        assert_eq!(run_sqlite(&mine, sql), run_sqlite(&theirs, sql), "{sql}");
    }
}

#[test]
fn a_vacuum_leaves_what_sqlites_leaves() {
    for before in [&[][..], &["PRAGMA page_size = 1024"], &["PRAGMA encoding = 'UTF-16le'"]] {
        for then in [
            &["VACUUM"][..],
            &["PRAGMA page_size = 8192", "VACUUM"],
            &["PRAGMA journal_mode = wal", "VACUUM"],
            &["PRAGMA journal_mode = wal", "PRAGMA page_size = 8192", "VACUUM"],
            &["VACUUM main", "SELECT count(*) FROM v", "INSERT INTO seq(a) VALUES (1)", "VACUUM"],
            &["DROP TABLE seq", "VACUUM"],
        ] {
            side_by_side(&[before, FILL, then].concat());
        }
    }
}

#[test]
fn vacuums_are_refused_as_sqlite_refuses_them() {
    script(&[
        "VACUUM",
        "CREATE TABLE t(a)",
        "BEGIN",
        "VACUUM",
        "COMMIT",
        "VACUUM nowhere",
        "VACUUM INTO 5",
        "VACUUM INTO NULL",
        "INSERT INTO t VALUES (1)",
        "VACUUM",
        "SELECT * FROM t",
    ]);
}

#[test]
fn a_copy_goes_into_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, other) = (folder.path().join("mine"), folder.path().join("other"));
    let (to, into) = (folder.path().join("to"), folder.path().join("into"));
    let mut ours = open(&mine);
    let theirs = sqlite(Some(&other));
    for sql in FILL {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    }
    let vacuum = |path: &Path| format!("VACUUM INTO '{}'", path.display());
    assert_eq!(run_shoal(&mut ours, &vacuum(&to)), Ok(Vec::new()));
    assert_eq!(run_sqlite(&theirs, &vacuum(&into)), Ok(Vec::new()));
    let twice = Err("output file already exists".to_owned());
    assert_eq!(run_shoal(&mut ours, &vacuum(&to)), twice);
    assert_eq!(run_sqlite(&theirs, &vacuum(&into)), twice);
    let nowhere = folder.path().join("no/where");
    assert_eq!(run_shoal(&mut ours, &vacuum(&nowhere)), run_sqlite(&theirs, &vacuum(&nowhere)));
    let mut statement = ours.prepare("VACUUM INTO ?1").unwrap();
    statement.bind(1, Value::from(nowhere.to_str().unwrap())).unwrap();
    assert!(ours.execute(&mut statement).is_err());
    let (mine, theirs) = (sqlite(Some(&to)), sqlite(Some(&into)));
    assert_eq!(show(&run_sqlite(&mine, "PRAGMA integrity_check")), "\"ok\"\n");
    assert_eq!(contents(&mine), contents(&theirs));
    for sql in NUMBERS {
        assert_eq!(run_sqlite(&mine, sql), run_sqlite(&theirs, sql), "{sql}");
    }
}

#[test]
fn files_are_made_as_pragmas_say() {
    for shape in [
        &["PRAGMA page_size = 512"][..],
        &["PRAGMA page_size = 65536"],
        &["PRAGMA page_size = 1000"],
        &["PRAGMA page_size = -1024"],
        &["PRAGMA encoding = 'UTF-16be'", "PRAGMA encoding"],
        &["PRAGMA encoding = 'UTF-16'", "PRAGMA encoding = 'latin1'", "PRAGMA page_size = 2048"],
        &["PRAGMA encoding = UTF16le", "PRAGMA encoding = \"UTF-8\"", "PRAGMA encoding"],
    ] {
        side_by_side(&[shape, FILL].concat());
    }
    side_by_side(&[
        "CREATE TABLE t(a)",
        "PRAGMA encoding = 'UTF-16'",
        "PRAGMA page_size = 1024",
        "PRAGMA encoding",
        "PRAGMA page_size",
        "INSERT INTO t VALUES ('x')",
    ]);
}

#[test]
fn texts_are_written_in_the_encoding_of_the_file() {
    for encoding in ["PRAGMA encoding = 'UTF-16le'", "PRAGMA encoding = 'UTF-16be'"] {
        side_by_side(&[
            encoding,
            "CREATE TABLE t(a TEXT PRIMARY KEY, b COLLATE nocase, c AS (upper(a) || 'é'))",
            "CREATE TABLE w(k TEXT, v, PRIMARY KEY (k, v)) WITHOUT ROWID",
            "CREATE INDEX t_b ON t(b DESC, c) WHERE b > 'A'",
            "CREATE INDEX w_v ON w(v || k)",
            "INSERT INTO t VALUES ('\u{100}', 'x'), ('b', 'X'), ('\u{1d11e}', 'Y'), ('', NULL), ('\u{ffff}', 'é')",
            "INSERT INTO t VALUES ('b', 1)",
            "INSERT OR REPLACE INTO t VALUES ('b', 'z'), ('c', 5)",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300) INSERT INTO w SELECT char(x * 101) || hex(x * 7919), printf('%0*d', x, x) FROM n",
            "INSERT INTO t SELECT k || v, v FROM w",
            "UPDATE t SET b = a || b WHERE rowid % 3 = 0",
            "UPDATE w SET k = k || 'x' WHERE v LIKE '%3'",
            "DELETE FROM w WHERE k GLOB '*1*'",
            "DELETE FROM t WHERE a < 'C'",
            "SELECT count(*), max(a), min(b) FROM t",
            "SELECT k FROM w ORDER BY k LIMIT 20",
            "ALTER TABLE w RENAME COLUMN v TO \"größe\"",
            "ALTER TABLE t ADD COLUMN d DEFAULT 'ä'",
            "ALTER TABLE t DROP COLUMN d",
            "CREATE TABLE copy AS SELECT a, b FROM t",
            "REINDEX",
            "DROP INDEX t_b",
        ]);
    }
}

/// Files with pointer maps: roots lie where SQLite has them, a full one keeps no free page, and an
/// incremental one gives back as many as asked for.
#[test]
fn auto_vacuum() {
    let roots = "SELECT group_concat(name || ' ' || rootpage) FROM sqlite_schema";
    for mode in ["FULL", "incremental", "1", "2"] {
        let set = format!("PRAGMA auto_vacuum = {mode}");
        let mut statements = vec!["PRAGMA page_size = 512", &set, "PRAGMA auto_vacuum"];
        statements.extend(FILL);
        statements.extend([
            roots,
            "CREATE TABLE late(a UNIQUE, b)",
            "INSERT INTO late SELECT id, zeroblob(id * 40) FROM seq",
            "CREATE INDEX late_b ON late(b)",
            roots,
            "DROP TABLE keyed",
            roots,
            "BEGIN",
            "CREATE TABLE passing(a UNIQUE, b UNIQUE)",
            "DROP TABLE seq",
            "ROLLBACK",
            roots,
            "DROP INDEX late_b",
            "DROP TABLE seq",
            roots,
            "DELETE FROM late WHERE a % 2",
            "PRAGMA incremental_vacuum(3)",
            "PRAGMA integrity_check",
            "PRAGMA incremental_vacuum",
            "PRAGMA freelist_count",
            "PRAGMA auto_vacuum",
            "PRAGMA auto_vacuum = incremental",
            "PRAGMA auto_vacuum",
            "INSERT INTO bare SELECT a, zeroblob(900), b FROM bare",
            "DELETE FROM bare WHERE rowid % 2",
            "PRAGMA auto_vacuum = full",
            "INSERT INTO bare(a) VALUES (1)",
            "PRAGMA freelist_count",
            "PRAGMA integrity_check",
            "PRAGMA journal_mode = wal",
            "DELETE FROM bare WHERE rowid % 3",
            "PRAGMA freelist_count",
            "PRAGMA integrity_check",
            "PRAGMA auto_vacuum = 0",
            "PRAGMA auto_vacuum",
            "PRAGMA journal_mode = delete",
        ]);
        side_by_side(&statements);
        statements.extend(["VACUUM", "PRAGMA auto_vacuum", "PRAGMA auto_vacuum = 2", "VACUUM"]);
        statements.extend(["PRAGMA auto_vacuum", roots, "CREATE TABLE more(a UNIQUE)", roots]);
        side_by_side(&statements);
    }
}
