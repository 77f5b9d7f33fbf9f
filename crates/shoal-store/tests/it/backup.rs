//! Backups: whole copies of databases in use, judged by SQLite.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Backup, Error, Mode, Pgno, Store};

fn open(path: &Path, access: Access) -> Store {
    Store::open(Arc::new(OsVfs), path, access).unwrap()
}

/// A database of so many rows, all of the same round, in a mode of the journal.
fn database(path: &Path, mode: &str, rows: u32) -> Connection {
    let peer = Connection::open(path).unwrap();
    let told: String =
        peer.query_row(&format!("PRAGMA journal_mode = {mode}"), (), |row| row.get(0)).unwrap();
    assert_eq!(told, mode);
    peer.execute_batch(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, round INTEGER, pad TEXT);
         CREATE INDEX i ON t (pad);
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})
         INSERT INTO t SELECT x, 0, hex(randomblob(60)) FROM n;"
    ))
    .unwrap();
    peer
}

/// The round of a copy's rows, all alike, and their number; fails for a damaged copy.
fn look(path: &Path) -> (i64, i64) {
    let copy = Connection::open(path).unwrap();
    let check: String = copy.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let sql = "SELECT min(round), max(round), count(*) FROM t";
    let (low, high, count): (i64, i64, i64) =
        copy.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(low, high, "a mixture of two states");
    (low, count)
}

#[test]
fn copies_of_both_journal_modes() {
    for mode in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("db"), folder.path().join("copy"));
        let peer = database(&from, mode, 500);
        let source = open(&from, Access::ReadOnly);
        let mut backup = Backup::to_file(&source, &to).unwrap();
        assert_eq!((backup.copied(), backup.pages()), (0, 0));
        let mut steps = 0;
        while !backup.step(7).unwrap() {
            steps += 1;
            assert_eq!(backup.copied(), steps * 7);
        }
        assert_eq!(backup.copied(), backup.pages());
        assert!(backup.step(1).unwrap());
        drop(backup);
        assert_eq!(look(&to), (0, 500));
        assert!(matches!(Backup::to_file(&source, &to), Err(Error::Exists { .. })));
        drop(peer);
    }
}

#[test]
fn others_write_meanwhile() {
    for mode in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("db"), folder.path().join("copy"));
        let peer = database(&from, mode, 400);
        let source = open(&from, Access::ReadOnly);
        let mut backup = Backup::to_file(&source, &to).unwrap();
        let mut round = 0;
        while !backup.step(10).unwrap() {
            if round < 5 {
                round += 1;
                peer.execute_batch(&format!(
                    "UPDATE t SET round = {round}, pad = hex(randomblob(70))"
                ))
                .unwrap();
                if round == 3 {
                    peer.execute_batch("DELETE FROM t WHERE id > 300; VACUUM").unwrap();
                }
            }
        }
        let restarts = backup.restarts();
        drop(backup);
        // With a log the copy is the state of the first step.
        match mode {
            "wal" => assert_eq!((restarts, look(&to)), (0, (0, 400))),
            _ => assert_eq!((restarts, look(&to)), (5, (5, 300))),
        }
    }
}

#[test]
fn writes_of_the_same_store_go_through() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("db"), folder.path().join("copy"));
    drop(database(&from, "delete", 400));
    let source = open(&from, Access::ReadWrite);
    let table = root_of(&source);
    let mut backup = Backup::to_file(&source, &to).unwrap();
    let mut rowid = 1000;
    while !backup.step(10).unwrap() {
        let mut writes = source.begin(Mode::Write).unwrap();
        // A row (NULL, 0, 'x') at the end, and the last of before goes.
        let record = [4, 0, 8, 15, b'x'];
        writes.table_insert(table, rowid, &record).unwrap();
        rowid += 1;
        writes.table_delete(table, rowid - 1000).unwrap();
        writes.set_user_version(i32::try_from(rowid).unwrap()).unwrap();
        writes.commit().unwrap();
    }
    assert_eq!(backup.restarts(), 0);
    drop(backup);
    let copy = Connection::open(&to).unwrap();
    let now = Connection::open(&from).unwrap();
    let ask = |connection: &Connection| -> (i64, i64, i64) {
        let version = connection.query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap();
        let sql = "SELECT count(*), sum(id) FROM t NOT INDEXED";
        let (count, sum) =
            connection.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (version, count, sum)
    };
    assert_eq!(ask(&copy), ask(&now));
    // Somebody else's commit does begin the copy anew.
    std::fs::remove_file(&to).unwrap();
    let mut backup = Backup::to_file(&source, &to).unwrap();
    assert!(!backup.step(10).unwrap());
    now.execute_batch("PRAGMA user_version = 5").unwrap();
    assert!(!backup.step(10).unwrap());
    assert_eq!(backup.restarts(), 1);
    drop(backup);
    assert!(!to.exists());
}

fn root_of(store: &Store) -> Pgno {
    let reads = store.begin(Mode::Read).unwrap();
    assert!(reads.page_count() > 3);
    Pgno::new(2).unwrap()
}

#[test]
fn into_databases_in_use() {
    for (source_mode, target_mode) in [("delete", "wal"), ("wal", "delete"), ("wal", "wal")] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("db"), folder.path().join("copy"));
        let peer = database(&from, source_mode, 300);
        peer.execute_batch("UPDATE t SET round = 8").unwrap();
        let other = database(&to, target_mode, 900);
        let (source, target) = (open(&from, Access::ReadOnly), open(&to, Access::ReadWrite));
        let mut backup = Backup::into_store(&source, &target).unwrap();
        assert!(!backup.step(5).unwrap());
        // Its readers see the content of before until the end.
        let count: i64 = other.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
        assert_eq!(count, 900);
        while !backup.step(50).unwrap() {}
        let count: i64 = other.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
        assert_eq!(count, 300);
        drop((backup, target));
        assert_eq!(look(&to), (8, 300));
        let mode: String = other.query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap();
        assert_eq!(mode, target_mode);
    }
}

#[test]
fn empty_ones_and_wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy");
    let memory = Store::memory();
    let mut backup = Backup::to_file(&memory, &to).unwrap();
    assert!(backup.step(1).unwrap());
    assert_eq!(std::fs::metadata(&to).unwrap().len(), 0);
    assert!(matches!(Backup::into_store(&memory, &memory.clone()), Err(Error::Misuse(_))));
    let small = folder.path().join("small");
    let peer = Connection::open(&small).unwrap();
    peer.execute_batch("PRAGMA page_size = 1024; CREATE TABLE t (a)").unwrap();
    let small = open(&small, Access::ReadOnly);
    let mut backup = Backup::into_store(&small, &memory).unwrap();
    assert!(matches!(backup.step(1), Err(Error::Unsupported { .. })));
    drop(backup);
    // A database becomes an empty one.
    let full = folder.path().join("full");
    drop(database(&full, "delete", 50));
    let target = open(&full, Access::ReadWrite);
    let mut backup = Backup::into_store(&memory, &target).unwrap();
    assert!(backup.step(1).unwrap());
    let peer = Connection::open(&full).unwrap();
    let count: i64 =
        peer.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
    let check: String = peer.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
