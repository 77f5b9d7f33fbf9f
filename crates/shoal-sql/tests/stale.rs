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

#[test]
fn statements_know_whether_they_would_answer_otherwise() {
    for mode in ["delete", "wal"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)"
        ));
        let other = Scratch::new("CREATE TABLE o(a); INSERT INTO o VALUES (1)");
        let (peer, peer_of_other) = (scratch.theirs(), other.theirs());
        // A log's index is valid once there is a commit.
        peer.execute_batch("INSERT INTO t VALUES (0)").unwrap();
        let mut connection = scratch.ours();
        let run = |connection: &mut shoal_sql::Connection, statement: &mut _| {
            let mut rows = connection.query(statement).unwrap();
            while rows.next().unwrap().is_some() {}
        };
        for sql in
            ["SELECT a FROM t", "SELECT a + 1 FROM t", "SELECT a, count(*) FROM t GROUP BY a"]
        {
            let mut statement = connection.prepare(sql).unwrap();
            assert!(statement.is_stale(&connection).unwrap());
            run(&mut connection, &mut statement);
            assert!(!statement.is_stale(&connection).unwrap(), "{mode}: {sql}");
            ours(&mut connection, "SELECT count(*) FROM t").unwrap();
            assert!(!statement.is_stale(&connection).unwrap(), "{mode}: {sql}");
            peer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
            assert!(statement.is_stale(&connection).unwrap(), "{mode}: {sql}");
            run(&mut connection, &mut statement);
            assert!(!statement.is_stale(&connection).unwrap(), "{mode}: {sql}");
        }
        let attach = format!("ATTACH '{}' AS o", other.path().display());
        ours(&mut connection, &attach).unwrap();
        let mut both = connection.prepare("SELECT t.a FROM t JOIN o.o USING (a)").unwrap();
        let mut main = connection.prepare("SELECT a FROM t").unwrap();
        run(&mut connection, &mut both);
        run(&mut connection, &mut main);
        peer_of_other.execute_batch("INSERT INTO o VALUES (2)").unwrap();
        assert!(both.is_stale(&connection).unwrap());
        assert!(!main.is_stale(&connection).unwrap());
    }
}

/// As SQLite's `data_version`: the number changes with the commits of others, and not with one's own.
#[test]
fn the_data_version_changes_with_the_commits_of_others() {
    let scratch = Scratch::new("CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    let peer = scratch.theirs();
    let os = std::sync::Arc::new(shoal_store::vfs::OsVfs);
    let access = shoal_store::Access::ReadWrite;
    let store = shoal_store::Store::open(os, &scratch.path(), access).unwrap();
    let mut connection = shoal_sql::Connection::open(store).unwrap();
    let beside = scratch.theirs();
    let theirs =
        || -> i64 { beside.query_row("PRAGMA data_version", (), |row| row.get(0)).unwrap() };
    let ours_now = |connection: &mut shoal_sql::Connection| {
        let table = ours(connection, "PRAGMA data_version").unwrap();
        assert_eq!(table.columns, ["data_version"]);
        match table.rows[0][0] {
            shoal_sql::Value::Int(number) => number,
            ref other => panic!("{other:?}"),
        }
    };
    let run = |connection: &mut shoal_sql::Connection, sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        connection.execute(&mut statement).unwrap();
    };
    let (first, first_of_theirs) = (ours_now(&mut connection), theirs());
    assert_eq!(ours_now(&mut connection), first);
    // One's own commits do not count, the peer beside sees them.
    run(&mut connection, "INSERT INTO t VALUES (2)");
    run(&mut connection, "BEGIN");
    run(&mut connection, "CREATE TABLE u(x)");
    assert_eq!(ours_now(&mut connection), first);
    run(&mut connection, "COMMIT");
    assert_eq!(ours_now(&mut connection), first);
    assert_ne!(theirs(), first_of_theirs);
    // Another's do, and so do those that come before one's own.
    peer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    let second = ours_now(&mut connection);
    assert_ne!(second, first);
    peer.execute_batch("INSERT INTO t VALUES (4)").unwrap();
    run(&mut connection, "INSERT INTO t VALUES (5)");
    let third = ours_now(&mut connection);
    assert_ne!(third, second);
    assert_eq!(ours_now(&mut connection), third);
    assert!(ours(&mut connection, "SELECT * FROM pragma_data_version").is_err());
}
