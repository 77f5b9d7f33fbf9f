//! `PRAGMA`s for the way a file is committed to, beside SQLite's answers on a file of its own.

use std::path::Path;
use std::sync::Arc;

use crate::common::{ours, theirs};
use shoal_sql::Connection;
use shoal_store::{Access, Store, vfs::OsVfs};

fn connect(path: &Path) -> Connection {
    Connection::open(Store::open(Arc::new(OsVfs), path, Access::Create).unwrap()).unwrap()
}

/// Runs the lines on both and compares rows, column names, and the presence of an error.
fn compare(script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut shoal = connect(&folder.path().join("ours"));
    let sqlite = rusqlite::Connection::open(folder.path().join("theirs")).unwrap();
    sqlite.execute_batch("PRAGMA busy_timeout = 1000").unwrap();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (ours(&mut shoal, line), theirs(&sqlite, line)) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours.rows, theirs.rows, "{line}"),
            (Err(ours), Err(theirs)) => {
                let (ours, theirs) = (ours.to_string(), theirs.to_string());
                assert!(
                    theirs.contains(&ours) || ours.contains(&theirs),
                    "{line}: {ours}, {theirs}"
                );
            }
            (ours, theirs) => panic!("{line}: {ours:?} {theirs:?}"),
        }
        // SQLite opens a log on its first use.
        let skipped = if line.contains("journal_mode") { 2 } else { 0 };
        for name in &["-wal", "-shm", "-journal"][skipped..] {
            let is = |file: &str| folder.path().join(format!("{file}{name}")).exists();
            assert_eq!(is("ours"), is("theirs"), "{line}: {name}");
        }
    }
}

#[test]
fn journal_modes() {
    compare(
        "PRAGMA journal_mode
         CREATE TABLE t(a)
         PRAGMA journal_mode = persist
         INSERT INTO t VALUES (1)
         PRAGMA journal_mode
         PRAGMA journal_mode = TRUNCATE
         INSERT INTO t VALUES (2)
         PRAGMA journal_mode = nonsense
         PRAGMA journal_mode = WAL
         PRAGMA journal_mode
         PRAGMA main.journal_mode = wal
         INSERT INTO t VALUES (3)
         BEGIN
         PRAGMA journal_mode = delete
         INSERT INTO t VALUES (4)
         PRAGMA journal_mode
         COMMIT
         SELECT a FROM t
         PRAGMA journal_mode(off)
         INSERT INTO t VALUES (5)
         PRAGMA journal_mode
         PRAGMA journal_mode = memory
         INSERT INTO t VALUES (6)
         BEGIN
         PRAGMA journal_mode = wal
         ROLLBACK
         PRAGMA journal_mode = delete
         SELECT sum(a) FROM t
         PRAGMA integrity_check",
    );
}

#[test]
fn checkpoints_and_settings() {
    compare(
        "PRAGMA wal_checkpoint
         PRAGMA wal_autocheckpoint
         PRAGMA synchronous
         PRAGMA synchronous = normal
         PRAGMA synchronous
         PRAGMA synchronous = 3
         PRAGMA synchronous
         PRAGMA synchronous = off
         PRAGMA synchronous
         PRAGMA synchronous = extra
         PRAGMA synchronous
         PRAGMA synchronous = FULL
         BEGIN
         PRAGMA synchronous = 1
         COMMIT
         PRAGMA busy_timeout
         PRAGMA busy_timeout = 77
         PRAGMA busy_timeout
         PRAGMA busy_timeout = -5
         PRAGMA journal_mode = wal
         CREATE TABLE t(a, b)
         PRAGMA wal_checkpoint
         INSERT INTO t VALUES (1, 2)
         PRAGMA wal_checkpoint(FULL)
         INSERT INTO t VALUES (2, 3)
         PRAGMA wal_checkpoint = RESTART
         INSERT INTO t VALUES (4, 5)
         PRAGMA wal_checkpoint(passive)
         PRAGMA main.wal_checkpoint(TRUNCATE)
         PRAGMA wal_checkpoint
         INSERT INTO t VALUES (6, 7)
         BEGIN
         INSERT INTO t VALUES (8, 9)
         PRAGMA wal_checkpoint
         COMMIT
         PRAGMA wal_autocheckpoint = 2
         INSERT INTO t VALUES (9, 9)
         PRAGMA wal_autocheckpoint = 0
         PRAGMA wal_autocheckpoint
         PRAGMA wal_autocheckpoint = -3
         PRAGMA integrity_check
         SELECT count(*), sum(a) FROM t
         PRAGMA journal_mode = delete
         PRAGMA wal_checkpoint",
    );
}

#[test]
fn a_database_in_memory_has_no_log() {
    let mut shoal = Connection::open(Store::memory()).unwrap();
    let sqlite = rusqlite::Connection::open_in_memory().unwrap();
    for line in ["PRAGMA journal_mode", "PRAGMA journal_mode = wal", "PRAGMA journal_mode = off"] {
        assert_eq!(
            ours(&mut shoal, line).unwrap().rows,
            theirs(&sqlite, line).unwrap().rows,
            "{line}"
        );
    }
}

#[test]
fn sizes_and_places() {
    compare(
        "PRAGMA cache_size = 100
         PRAGMA cache_size
         PRAGMA cache_size = -2000
         PRAGMA cache_size
         PRAGMA main.cache_size = 50
         PRAGMA cache_size
         PRAGMA secure_delete
         PRAGMA secure_delete = 1
         PRAGMA secure_delete
         PRAGMA secure_delete = fast
         PRAGMA secure_delete
         PRAGMA secure_delete = off
         PRAGMA secure_delete
         PRAGMA temp_store
         PRAGMA temp_store = memory
         PRAGMA temp_store
         PRAGMA temp_store = 1
         PRAGMA temp_store
         PRAGMA temp_store = nonsense
         PRAGMA temp_store",
    );
}

/// What is deleted is gone from the file's bytes: values in a page, and whole pages of them.
#[test]
fn secure_delete_leaves_nothing() {
    let count = |path: &Path, word: &[u8]| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(word.len()).filter(|bytes| *bytes == word).count()
    };
    for (setting, short, long) in [("off", true, true), ("fast", false, true), ("on", false, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut shoal = connect(&path);
        let mut run = |sql: &str| ours(&mut shoal, sql).unwrap();
        run(&format!("PRAGMA secure_delete = {setting}"));
        run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
        run("CREATE INDEX t_a ON t(a)");
        run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
            INSERT INTO t SELECT i, 'needle ' || i FROM n");
        run("INSERT INTO t VALUES (1000, replace(hex(zeroblob(8000)), '00', 'haystack'))");
        assert!(count(&path, b"needle") >= 800 && count(&path, b"haystack") >= 8000);
        run("DELETE FROM t WHERE id % 7 = 3");
        run("UPDATE t SET a = 'other' WHERE id % 7 = 2");
        run("DELETE FROM t WHERE id = 1000");
        let left = "SELECT count(*) FROM t WHERE a LIKE 'needle%'";
        let left: i64 = match run(left).rows[0][0] {
            shoal_sql::Value::Int(left) => left,
            ref other => panic!("{other:?}"),
        };
        let kept = count(&path, b"needle ");
        // Separators of the index are entries, too: each value lies in the file twice.
        assert_eq!(kept > usize::try_from(2 * left).unwrap(), short, "{setting}: {kept} of {left}");
        assert_eq!(count(&path, b"haystack") > 1000, long, "{setting}");
        drop(shoal);
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        let check = theirs(&sqlite, "PRAGMA integrity_check").unwrap();
        assert_eq!(check.rows, [["ok".into()]]);
    }
}

#[test]
fn names_that_are_uris() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b.db");
    let mut shoal = connect(&path);
    ours(&mut shoal, "CREATE TABLE t(a)").unwrap();
    let uri = format!("file://{}", path.display().to_string().replace(' ', "%20"));
    ours(&mut shoal, &format!("ATTACH '{uri}?mode=ro' AS r")).unwrap();
    let refused = ours(&mut shoal, "INSERT INTO r.t VALUES (1)").unwrap_err().to_string();
    assert!(refused.contains("read-only"), "{refused}");
    ours(&mut shoal, "INSERT INTO main.t VALUES (1)").unwrap();
    assert_eq!(ours(&mut shoal, "SELECT count(*) FROM r.t").unwrap().rows[0][0], 1.into());
    let missing = format!("file:{}?mode=rw", folder.path().join("none").display());
    assert!(ours(&mut shoal, &format!("ATTACH '{missing}' AS n")).is_err());
    assert!(!folder.path().join("none").exists());
    ours(&mut shoal, &format!("ATTACH '{missing}c' AS n")).unwrap();
    ours(&mut shoal, "CREATE TABLE n.t(a)").unwrap();
    ours(&mut shoal, "ATTACH 'file:x?mode=memory&cache=private' AS m").unwrap();
    ours(&mut shoal, "CREATE TABLE m.t(a)").unwrap();
    let error = ours(&mut shoal, &format!("ATTACH '{uri}?mode=z' AS z")).unwrap_err().to_string();
    assert_eq!(error, "no such access mode: z");
    drop(shoal);
    let open = |query: &str| {
        let options = shoal_store::Options::new(Access::ReadWrite);
        let name = format!("{uri}?{query}");
        Connection::open(Store::open_named(Arc::new(OsVfs), Path::new(&name), options).unwrap())
    };
    let mut fixed = open("immutable=1").unwrap();
    assert_eq!(ours(&mut fixed, "SELECT count(*) FROM t").unwrap().rows[0][0], 1.into());
    assert!(ours(&mut fixed, "DELETE FROM t").is_err());
    drop(fixed);
    ours(&mut open("mode=rw").unwrap(), "DELETE FROM t").unwrap();
}
