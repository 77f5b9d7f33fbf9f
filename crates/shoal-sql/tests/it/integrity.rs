//! `PRAGMA integrity_check` and `quick_check` of damaged files, in SQLite's words.

use std::path::Path;
use std::sync::Arc;

use crate::write_support::{Random, run_shoal, run_sqlite, sqlite};
use shoal_sql::{Connection, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};

const PAGE: usize = 512;

/// A file with a freelist, deep trees, overflow chains, and a pointer map perhaps.
fn file(shape: &str, path: &Path) -> Vec<u8> {
    let theirs = sqlite(Some(path));
    theirs
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE}; {shape};
             CREATE TABLE gone(a); CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX t_b ON t(b);
             CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID;
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
             INSERT INTO t SELECT x, zeroblob(x % 40 * 60) FROM n;
             INSERT INTO w SELECT a, b FROM t WHERE a < 60; INSERT INTO gone SELECT b FROM t;
             DROP TABLE gone; DELETE FROM t WHERE a % 3 = 0;"
        ))
        .unwrap();
    drop(theirs);
    std::fs::read(path).unwrap()
}

fn lines(rows: &[Vec<Value>]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        if let Value::Text(text) = &row[0] {
            lines.extend(String::from_utf8_lossy(text).lines().map(str::to_owned));
        }
    }
    lines
}

/// The faults of pages, sorted: SQLite goes through its tables in the order of a hash.
fn of_pages(lines: &[String]) -> Vec<&str> {
    let is = |line: &&String| {
        ["Tree", "Page", "Freelist", "*** in", "Fragmentation", "Multiple", "max root"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    // Of two trees with one page the second is told, and the first may be either.
    let bare = |line: &String| line.find("2nd reference").unwrap_or(0);
    let mut found: Vec<&str> = lines.iter().filter(is).map(|line| &line[bare(line)..]).collect();
    found.sort_unstable();
    found
}

fn ours(path: &Path, pragma: &str) -> Vec<String> {
    let store = Store::open(Arc::new(OsVfs), path, Access::ReadOnly).unwrap();
    lines(&run_shoal(&mut Connection::open(store).unwrap(), pragma).unwrap())
}

#[test]
fn sound_files_are_sound() {
    for shape in [
        "SELECT 1",
        "PRAGMA auto_vacuum = 1",
        "PRAGMA auto_vacuum = 2",
        "PRAGMA encoding = 'UTF-16'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        file(shape, &path);
        for pragma in ["PRAGMA integrity_check", "PRAGMA quick_check", "PRAGMA integrity_check(t)"]
        {
            assert_eq!(ours(&path, pragma), ["ok"], "{shape} {pragma}");
        }
    }
}

#[test]
fn damaged_pages_are_named_as_sqlite_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut compared = 0;
    for shape in ["SELECT 1", "PRAGMA auto_vacuum = 1"] {
        let whole = file(shape, &folder.path().join("whole"));
        std::fs::remove_file(folder.path().join("whole")).unwrap();
        for seed in 0..150 {
            let mut random = Random::seeded(seed);
            let mut bytes = whole.clone();
            // Past the schema's page, which both must be able to read.
            let page = 1 + random.below((bytes.len() / PAGE - 1) as u64) as usize;
            let at =
                page * PAGE + random.below(if seed % 2 == 0 { 16 } else { PAGE as u64 }) as usize;
            bytes[at] = random.number() as u8;
            std::fs::write(&path, &bytes).unwrap();
            let theirs = sqlite(Some(&path));
            // An error of reading the rows hides what SQLite has found before.
            let Ok(expect) = run_sqlite(&theirs, "PRAGMA quick_check(90)") else { continue };
            let expect = lines(&expect);
            drop(theirs);
            let got = ours(&path, "PRAGMA quick_check(90)");
            assert_eq!(of_pages(&got), of_pages(&expect), "{shape} {seed} byte {at}");
            compared += usize::from(!of_pages(&expect).is_empty());
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn the_freelist_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let whole = file("SELECT 1", &path);
    for (at, byte) in [(39, whole[39].wrapping_add(1)), (35, 3), (33, 9)] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        std::fs::write(&path, &bytes).unwrap();
        let expect = lines(&run_sqlite(&sqlite(Some(&path)), "PRAGMA integrity_check").unwrap());
        assert!(expect[1].starts_with("Freelist"), "{expect:?}");
        assert_eq!(of_pages(&ours(&path, "PRAGMA integrity_check")), of_pages(&expect), "{at}");
        assert_eq!(ours(&path, "PRAGMA integrity_check(t)"), ["ok"]);
        assert_eq!(ours(&path, "PRAGMA integrity_check(1)").len(), 2);
    }
}

/// A file of tables whose indexes are wrong: each index is hidden from SQLite while rows change.
const WRONG_INDEXES: &[(&str, &str)] = &[
    ("CREATE INDEX i ON t(b)", "INSERT INTO t VALUES(1000, 7, 'x', 1.5)"),
    ("CREATE INDEX i ON t(b)", "DELETE FROM t WHERE a = 40"),
    ("CREATE INDEX i ON t(b)", "UPDATE t SET b = -5 WHERE a = 40"),
    ("CREATE INDEX i ON t(c COLLATE NOCASE DESC, b)", "UPDATE t SET b = 0 WHERE a IN (3, 90)"),
    ("CREATE INDEX i ON t(d)", "UPDATE t SET d = 4 WHERE a = 7"),
    ("CREATE INDEX i ON t(d)", "UPDATE t SET d = 2 WHERE a = 7"),
    ("CREATE INDEX i ON t(length(c))", "UPDATE t SET c = 'longer than that' WHERE a = 9"),
    ("CREATE INDEX i ON t(c) WHERE b > 50", "UPDATE t SET b = 90 WHERE a = 9"),
    ("CREATE INDEX i ON t(c) WHERE b > 50", "SELECT 1"),
    ("CREATE UNIQUE INDEX i ON t(c, a)", "SELECT 1"),
    ("CREATE UNIQUE INDEX i ON t(c, b)", "UPDATE t SET c = NULL, b = NULL WHERE a < 20"),
];

#[test]
fn indexes_are_compared_with_their_rows() {
    for (number, (definition, change)) in WRONG_INDEXES.iter().enumerate() {
        // Some tables are large enough to be looked at in parts.
        for rows in [100, 30_000].into_iter().take(if number % 4 == 0 { 2 } else { 1 }) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("db");
            let theirs = sqlite(Some(&path));
            theirs
                .execute_batch(&format!(
                    "PRAGMA synchronous = off; CREATE TABLE t(a INTEGER PRIMARY KEY, b, c TEXT, d REAL);
                     WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})
                     INSERT INTO t SELECT x, x * 7919 % 101, printf('%cBc%d', 65 + x % 2 * 32, x), x % 5
                     FROM n; ALTER TABLE t ADD COLUMN e DEFAULT 'late';
                     CREATE INDEX late ON t(e, d); {definition};
                     PRAGMA writable_schema = on;
                     CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = 'i';
                     DELETE FROM sqlite_schema WHERE name = 'i';"
                ))
                .unwrap();
            drop(theirs);
            let theirs = sqlite(Some(&path));
            theirs
                .execute_batch(&format!(
                    "PRAGMA synchronous = off; {}; PRAGMA writable_schema = on;
                     INSERT INTO sqlite_schema SELECT * FROM hidden; DELETE FROM hidden;",
                    change.replace("VALUES(1000, 7, 'x', 1.5)", "SELECT 99999, 7, 'x', 1.5, 2")
                ))
                .unwrap();
            drop(theirs);
            let theirs = sqlite(Some(&path));
            for pragma in ["PRAGMA integrity_check", "PRAGMA integrity_check(t)"] {
                let expect = lines(&run_sqlite(&theirs, pragma).unwrap());
                // Newer versions of SQLite name the fault of an entry more closely.
                let is_same = |line: &String| !line.contains("values differ");
                let expect: Vec<String> = expect.into_iter().filter(is_same).collect();
                assert_eq!(ours(&path, pragma), expect, "{number} {rows} {pragma}");
            }
        }
    }
}

#[test]
fn constraints_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let theirs = sqlite(Some(&path));
    theirs
        .execute_batch(
            "CREATE TABLE n(a, b); CREATE TABLE c(a, b); CREATE TABLE w(a PRIMARY KEY, b) WITHOUT ROWID;
             CREATE INDEX n_b ON n(b); CREATE INDEX w_b ON w(b); CREATE TABLE u(a, b);
             CREATE INDEX u_b ON u(b);
             INSERT INTO n VALUES(1, 2), (NULL, 3), (4, NULL); INSERT INTO c SELECT * FROM n;
             INSERT INTO w VALUES(1, 2), (3, NULL), (4, 9); INSERT INTO u VALUES(1, 5), (2, 5), (3, NULL);
             PRAGMA writable_schema = on;
             UPDATE sqlite_schema SET sql = 'CREATE TABLE n(a NOT NULL, b)' WHERE name = 'n';
             UPDATE sqlite_schema SET sql = 'CREATE TABLE c(a, b CHECK (b < 3))' WHERE name = 'c';
             UPDATE sqlite_schema SET sql = 'CREATE TABLE w(a PRIMARY KEY, b NOT NULL) WITHOUT ROWID'
             WHERE name = 'w';
             UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX u_b ON u(b)' WHERE name = 'u_b';",
        )
        .unwrap();
    drop(theirs);
    let theirs = sqlite(Some(&path));
    for pragma in ["PRAGMA integrity_check", "PRAGMA quick_check"] {
        let sorted = |mut lines: Vec<String>| {
            lines.sort_unstable();
            lines
        };
        let expect = sorted(lines(&run_sqlite(&theirs, pragma).unwrap()));
        assert!(expect.len() > 2, "{expect:?}");
        assert_eq!(sorted(ours(&path, pragma)), expect, "{pragma}");
    }
}
