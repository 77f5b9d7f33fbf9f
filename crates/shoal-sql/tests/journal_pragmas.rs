//! `PRAGMA`s for the way a file is committed to, beside SQLite's answers on a file of its own.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{ours, theirs};
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
