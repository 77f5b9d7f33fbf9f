//! Files written by SQLite's own command while the store reads them: rollback journal and
//! write-ahead log, and logs left behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{self, root, texts, try_root};
use rusqlite::Connection;
use shoal_store::vfs::OsVfs;
use shoal_store::{
    Access, Error, Locking, Mode, Options, Record, Store, TableLookup, Transaction, ValueRef,
};

/// Every transaction of the writer keeps the sum of `n` at 0 and sets all `round` alike.
const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, round INTEGER, pad TEXT);
    CREATE INDEX i ON t(n);";

fn database(folder: &Path, mode: &str) -> PathBuf {
    let path = folder.join("db");
    let peer = Connection::open(&path).unwrap();
    let mode: String =
        peer.query_row(&format!("PRAGMA journal_mode = {mode}"), (), |row| row.get(0)).unwrap();
    assert!(!mode.is_empty());
    peer.execute_batch(SCHEMA).unwrap();
    peer.execute_batch(
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < 400)
         INSERT INTO t SELECT x, CASE x % 2 WHEN 0 THEN -(x / 2) ELSE (x + 1) / 2 END, 0,
         hex(randomblob(20)) FROM c;",
    )
    .unwrap();
    path
}

/// A `sqlite3` command running `rounds` transactions; `None` where there is no such command.
fn writer(path: &Path, rounds: usize, checkpoints: bool) -> Option<Child> {
    let mut child = Command::new("sqlite3")
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    let mut script = String::from("PRAGMA synchronous = OFF;\n.timeout 20000\n");
    for round in 1..=rounds {
        script.push_str(&format!(
            "BEGIN IMMEDIATE; UPDATE t SET n = n + {round} WHERE id % 2 = 0;
             UPDATE t SET n = n - {round} WHERE id % 2 = 1; UPDATE t SET round = {round};
             DELETE FROM t WHERE id > 400; INSERT INTO t SELECT id + 400, 0, {round}, pad FROM t
             WHERE id <= {}; COMMIT;\n",
            round % 200
        ));
        if checkpoints && round % 7 == 0 {
            script.push_str("PRAGMA wal_checkpoint(TRUNCATE);\n");
        }
    }
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        // The command may be stopped before reading all of its input.
        let _ = input.write_all(script.as_bytes());
    });
    Some(child)
}

/// Checks one snapshot: the sum is 0, all rounds are the same, every row is found by lookup, and
/// the index has as many entries as the table has rows.
fn check(txn: &Transaction) -> Result<i64, Error> {
    let table = try_root(txn, "t")?;
    let mut lookup = TableLookup::new(table);
    let mut cursor = txn.table(table)?;
    let (mut sum, mut round, mut count) = (0, None, 0);
    while cursor.next()? {
        let rowid = cursor.rowid()?;
        let record = Record::new(cursor.payload()?)?;
        let (Some(ValueRef::Int(n)), Some(ValueRef::Int(this))) =
            (record.column(1)?, record.column(2)?)
        else {
            panic!("row {rowid} has no numbers");
        };
        sum += n;
        count += 1;
        assert_eq!(*round.get_or_insert(this), this, "row {rowid} is of another state");
        assert!(lookup.seek(txn, rowid)?.is_some());
    }
    assert_eq!(sum, 0);
    let mut entries = txn.index(try_root(txn, "i")?)?;
    let mut found = 0;
    while entries.next()? {
        found += 1;
    }
    assert_eq!(found, count);
    Ok(round.unwrap())
}

fn read_while_written(mode: &str, checkpoints: bool, cache_pages: usize, access: Access) {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), mode);
    let Some(mut child) = writer(&path, 150, checkpoints) else {
        eprintln!("skipped: there is no sqlite3 command");
        return;
    };
    let patient = Duration::from_secs(20);
    let options = Options { busy_timeout: patient, cache_pages, ..Options::new(access) };
    let store = Store::open_with(Arc::new(OsVfs::new()), &path, options).unwrap();
    let (mut last, mut states, start) = (0, 0, Instant::now());
    let index = folder.path().join("db-shm");
    loop {
        let ended = child.try_wait().unwrap();
        let nobody = mode == "wal" && access == Access::ReadOnly && !index.exists();
        let txn = store.begin(Mode::Read).unwrap();
        let round = match check(&txn) {
            // Who begins before there is an index to be told in makes way for who makes one.
            Err(Error::Busy { .. }) if nobody => continue,
            found => found.unwrap(),
        };
        // The same snapshot again says the same.
        match check(&txn) {
            Err(Error::Busy { .. }) if nobody => continue,
            again => assert_eq!(again.unwrap(), round),
        }
        assert!(round >= last, "{round} came after {last}");
        states += usize::from(round > last);
        last = round;
        drop(txn);
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the writer does not come to an end");
        // Leave a gap for a writer to find nobody reading.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(last, 150);
    assert!(states > 1, "nothing was read in between");
    let peer = Connection::open(&path).unwrap();
    assert_eq!(texts(&peer, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn rollback_journal() {
    read_while_written("delete", false, 16_384, Access::ReadOnly);
}

#[test]
fn rollback_journal_through_mappings() {
    read_while_written("truncate", false, 4, Access::ReadOnly);
}

#[test]
fn write_ahead_log() {
    read_while_written("wal", false, 16_384, Access::ReadOnly);
}

#[test]
fn write_ahead_log_that_begins_anew() {
    read_while_written("wal", true, 16_384, Access::ReadOnly);
}

/// Who may write makes an index where there is none, and never makes way.
#[test]
fn write_ahead_log_beside_who_may_write() {
    read_while_written("wal", false, 16_384, Access::ReadWrite);
    read_while_written("wal", true, 16_384, Access::ReadWrite);
}

#[test]
fn a_log_of_a_connection_that_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), "wal");
    let peer = Connection::open(&path).unwrap();
    let count = |store: &Store| {
        let txn = store.begin(Mode::Read).unwrap();
        let mut cursor = txn.table(root(&txn, "t")).unwrap();
        let mut count = 0;
        while cursor.next().unwrap() {
            count += 1;
        }
        count
    };
    for locking in [Locking::Shared, Locking::Exclusive] {
        let options = Options { locking, ..common::options(Access::ReadOnly) };
        peer.execute_batch("DELETE FROM t WHERE id > 400").unwrap();
        let store = Store::open_with(Arc::new(OsVfs::new()), &path, options).unwrap();
        assert_eq!(count(&store), 400);
        peer.execute_batch("INSERT INTO t SELECT id + 1000, n, round, pad FROM t").unwrap();
        // Who keeps the lock keeps the state.
        assert_eq!(count(&store), if locking == Locking::Shared { 800 } else { 400 });
        let (busy, log, moved): (i64, i64, i64) = peer
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert!(busy == 0 && (moved == log || locking == Locking::Exclusive));
        assert_eq!(count(&store), if locking == Locking::Shared { 800 } else { 400 });
    }
    // Without an index: files left by a crashed program, or copied media.
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(folder.path().join("db-wal"), folder.path().join("copy-wal")).unwrap();
    let store =
        Store::open_with(Arc::new(OsVfs::new()), &copy, common::options(Access::ReadOnly)).unwrap();
    assert_eq!(count(&store), 800);
    assert!(!folder.path().join("copy-shm").exists());
    // A log cut in the middle of its last transaction is read up to the one before.
    let log = std::fs::read(folder.path().join("copy-wal")).unwrap();
    std::fs::write(folder.path().join("copy-wal"), &log[..log.len() - 100]).unwrap();
    let store =
        Store::open_with(Arc::new(OsVfs::new()), &copy, common::options(Access::ReadOnly)).unwrap();
    let cut = count(&store);
    let other = Connection::open(&copy).unwrap();
    let theirs: i64 = other.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
    assert_eq!(cut, theirs);
}
