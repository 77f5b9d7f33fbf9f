//! Whether anybody has committed since: in both journal modes, and within transactions.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, ours};
use shoal_store::Mode;

#[test]
fn commits_of_others_are_noticed() {
    for mode in ["delete", "wal"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)"
        ));
        let peer = scratch.theirs();
        // A reader keeps the log's index.
        let _: i64 = peer.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
        let mut connection = scratch.ours();
        let version = connection.version().unwrap();
        assert!(!connection.is_stale(&version).unwrap(), "{mode}");
        ours(&mut connection, "SELECT * FROM t").unwrap();
        assert!(!connection.is_stale(&version).unwrap(), "{mode}");
        peer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        assert!(connection.is_stale(&version).unwrap(), "{mode}");
        let version = connection.version().unwrap();
        peer.execute_batch("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
        assert!(!connection.is_stale(&version).unwrap(), "{mode}");
        peer.execute_batch("CREATE TABLE u(b)").unwrap();
        assert!(connection.is_stale(&version).unwrap(), "{mode}");
    }
}

#[test]
fn open_readers_notice_commits_to_a_log() {
    let scratch = Scratch::new(
        "PRAGMA journal_mode = wal; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let mut statement = connection.prepare("SELECT a FROM t").unwrap();
    let mut computed = connection.prepare("SELECT a + 1 FROM t").unwrap();
    for statement in [&mut statement, &mut computed] {
        peer.execute_batch("INSERT INTO t VALUES (4)").unwrap();
        let mut rows = connection.query(statement).unwrap();
        rows.next().unwrap().unwrap();
        assert!(!rows.is_stale().unwrap());
        peer.execute_batch("INSERT INTO t VALUES (5)").unwrap();
        assert!(rows.is_stale().unwrap());
        while rows.next().unwrap().is_some() {}
        assert!(!rows.is_stale().unwrap());
    }
    connection.begin(Mode::Read).unwrap();
    let version = connection.version().unwrap();
    assert!(!connection.is_stale(&version).unwrap());
    assert!(!connection.table_reader("t").unwrap().is_stale().unwrap());
    peer.execute_batch("INSERT INTO t VALUES (6)").unwrap();
    assert!(connection.is_stale(&version).unwrap());
    assert!(connection.table_reader("t").unwrap().is_stale().unwrap());
    assert_eq!(connection.version().unwrap(), version);
}
