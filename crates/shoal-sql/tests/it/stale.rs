//! Stale statements, after a commit by anybody: in both journal modes, and within transactions.

use crate::common::{Scratch, ours};
use shoal_store::Mode;

#[test]
fn commits_of_others_are_noticed() {
    for mode in ["delete", "wal"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)"
        ));
        let peer = scratch.theirs();
        // A log never written to would show nothing.
        peer.execute_batch("INSERT INTO t VALUES (0)").unwrap();
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
        // As above.
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

/// Statements stay fresh while the file stays the same: through reads, forgotten pages, commits to
/// databases they do not read, and transactions without a change.
#[test]
fn statements_stay_fresh_as_long_as_nobody_commits() {
    for mode in ["delete", "wal"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(a, b);
             WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
             INSERT INTO t SELECT i, 'some text ' || i FROM c"
        ));
        let other = Scratch::new("CREATE TABLE o(a); INSERT INTO o VALUES (1)");
        let (peer, peer_of_other) = (scratch.theirs(), other.theirs());
        peer.execute_batch("INSERT INTO t VALUES (0, 'x')").unwrap();
        let os = std::sync::Arc::new(shoal_store::vfs::OsVfs);
        let read = shoal_store::Options::new(shoal_store::Access::ReadOnly);
        let options = shoal_store::Options { cache_pages: 2, ..read };
        let store = shoal_store::Store::open_with(os, &scratch.path(), options).unwrap();
        let mut connection = shoal_sql::Connection::open(store).unwrap();
        ours(&mut connection, &format!("ATTACH '{}' AS o", other.path().display())).unwrap();
        let run = |connection: &mut shoal_sql::Connection, statement: &mut _| {
            let mut rows = connection.query(statement).unwrap();
            while rows.next().unwrap().is_some() {}
        };
        let mut main = connection.prepare("SELECT max(a), max(b) FROM t").unwrap();
        let mut beside = connection.prepare("SELECT a FROM o.o").unwrap();
        let mut none = connection.prepare("SELECT 1").unwrap();
        for statement in [&mut main, &mut beside, &mut none] {
            run(&mut connection, statement);
        }
        for _ in 0..3 {
            // More pages than the store keeps.
            ours(&mut connection, "SELECT count(DISTINCT b) FROM t").unwrap();
            peer.execute_batch("BEGIN IMMEDIATE; DELETE FROM t; ROLLBACK").unwrap();
            assert!(!main.is_stale(&connection).unwrap(), "{mode}");
            assert!(!beside.is_stale(&connection).unwrap(), "{mode}");
        }
        peer_of_other.execute_batch("INSERT INTO o VALUES (2)").unwrap();
        assert!(!main.is_stale(&connection).unwrap(), "{mode}");
        assert!(beside.is_stale(&connection).unwrap(), "{mode}");
        run(&mut connection, &mut beside);
        peer.execute_batch("UPDATE t SET b = 'y' WHERE a = 7").unwrap();
        assert!(main.is_stale(&connection).unwrap(), "{mode}");
        assert!(!beside.is_stale(&connection).unwrap(), "{mode}");
        assert!(!none.is_stale(&connection).unwrap(), "{mode}");
        ours(&mut connection, "DETACH o").unwrap();
        run(&mut connection, &mut main);
        assert!(!main.is_stale(&connection).unwrap(), "{mode}");
    }
}

/// One's own changes count, committed or not, and so does going back.
#[test]
fn ones_own_changes_make_stale() {
    let scratch = Scratch::new("CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    let os = std::sync::Arc::new(shoal_store::vfs::OsVfs);
    let access = shoal_store::Access::ReadWrite;
    let store = shoal_store::Store::open(os, &scratch.path(), access).unwrap();
    let mut connection = shoal_sql::Connection::open(store).unwrap();
    let mut statement = connection.prepare("SELECT sum(a) FROM t").unwrap();
    let steps = [
        ("SELECT 1", false),
        ("INSERT INTO t VALUES (2)", true),
        ("BEGIN", false),
        ("SELECT a FROM t", false),
        ("INSERT INTO t VALUES (3)", true),
        ("SELECT a FROM t", false),
        ("SAVEPOINT s", false),
        ("DELETE FROM t", true),
        ("ROLLBACK TO s", true),
        ("ROLLBACK", true),
        ("BEGIN", false),
        ("ROLLBACK", false),
        ("BEGIN", false),
        ("UPDATE t SET a = a + 1", true),
        ("COMMIT", true),
        ("PRAGMA user_version = 5", true),
    ];
    for (step, stale) in steps {
        connection.execute(&mut statement).unwrap();
        assert!(!statement.is_stale(&connection).unwrap(), "before {step}");
        let mut other = connection.prepare(step).unwrap();
        connection.execute(&mut other).unwrap();
        assert_eq!(statement.is_stale(&connection).unwrap(), stale, "after {step}");
    }
    let mut another = scratch.ours();
    ours(&mut another, "SELECT sum(a) FROM t").unwrap();
    assert!(statement.is_stale(&another).unwrap());
}

/// A log written, checkpointed and removed between two looks leaves no trace in the header.
#[test]
fn a_log_that_came_and_went_is_not_missed() {
    let scratch =
        Scratch::new("PRAGMA journal_mode = wal; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)");
    let mut connection = scratch.ours();
    let mut statement = connection.prepare("SELECT sum(a) FROM t").unwrap();
    for number in 0..4 {
        let mut rows = connection.query(&mut statement).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), shoal_sql::ValueRef::Int(3 + number));
        drop(rows);
        let version = connection.version().unwrap();
        scratch.theirs().execute_batch("UPDATE t SET a = a + 1 WHERE rowid = 1").unwrap();
        assert!(statement.is_stale(&connection).unwrap());
        assert!(connection.is_stale(&version).unwrap());
    }
}

/// A log written while others had an empty one open, before and after, is noticed.
#[test]
fn an_empty_log_is_not_taken_for_another() {
    let scratch =
        Scratch::new("PRAGMA journal_mode = wal; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)");
    let mut connection = scratch.ours();
    let mut statement = connection.prepare("SELECT sum(a) FROM t").unwrap();
    let read = |peer: &rusqlite::Connection| -> i64 {
        peer.query_row("SELECT sum(a) FROM t", (), |row| row.get(0)).unwrap()
    };
    let mut peer = scratch.theirs();
    for _ in 0..4 {
        let expect = read(&peer);
        let mut rows = connection.query(&mut statement).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), shoal_sql::ValueRef::Int(expect));
        drop(rows);
        peer.execute_batch("UPDATE t SET a = a + 1 WHERE rowid = 1").unwrap();
        drop(peer);
        peer = scratch.theirs();
        read(&peer);
        assert!(statement.is_stale(&connection).unwrap());
    }
}

/// Another thread commits all the time: a fresh statement gives the rows of the last commit, and a
/// stale one's file was changed.
#[test]
fn a_live_writer_is_noticed_exactly() {
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
    const COMMITS: i64 = 300;
    for mode in ["delete", "wal"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(a); INSERT INTO t VALUES (0)"
        ));
        let peer = scratch.theirs();
        peer.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        // The log is there, and is not begun anew without a commit.
        peer.execute_batch("UPDATE t SET a = -1; UPDATE t SET a = 0").unwrap();
        let (begun, done) = (AtomicI64::new(0), AtomicI64::new(0));
        let mut connection = scratch.ours();
        let mut statement = connection.prepare("SELECT a FROM t").unwrap();
        let (mut fresh, mut stale) = (0, 0);
        std::thread::scope(|scope| {
            let (begun, done, writer) = (&begun, &done, scratch.theirs());
            scope.spawn(move || {
                writer.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
                writer.execute_batch("PRAGMA synchronous = off").unwrap();
                for number in 1..=COMMITS {
                    begun.store(number, SeqCst);
                    writer.execute("UPDATE t SET a = ?1", [number]).unwrap();
                    done.store(number, SeqCst);
                    if number % 3 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(700));
                    }
                }
            });
            while done.load(SeqCst) < COMMITS {
                // A writer may hold its lock.
                let Ok(mut rows) = connection.query(&mut statement) else { continue };
                let Ok(Some(row)) = rows.next() else { continue };
                let shoal_sql::ValueRef::Int(read) = row.get(0) else { panic!("no number") };
                drop(rows);
                let before = done.load(SeqCst);
                let Ok(is_stale) = statement.is_stale(&connection) else { continue };
                let after = begun.load(SeqCst);
                if is_stale {
                    stale += 1;
                    assert!(after > read, "{mode}: stale, but {read} of {after} was read");
                } else {
                    fresh += 1;
                    assert!(before <= read, "{mode}: not stale, but {read} of {before} was read");
                }
            }
        });
        assert!(fresh > 0, "{mode}: {fresh} fresh, {stale} stale");
        peer.execute_batch("UPDATE t SET a = -1").unwrap();
        assert!(statement.is_stale(&connection).unwrap());
    }
}

/// Like SQLite's `data_version`, the number changes with the commits of others, and not with one's
/// own.
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
    // Another's commits change the number, also right before one's own.
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
