//! The pool: one writer and many readers on threads, in write-ahead log mode.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use crate::write_support::{run_shoal, sqlite};
use shoal_sql::{Connection, Error, FunctionFlags, Pool, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Mode, Store};

fn run(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<Value>>, Error> {
    run_shoal(connection, sql).map_err(Error::of_function)
}

#[test]
fn pools_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Pool>();
}

#[test]
fn readers_beside_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let pool = Pool::open(&path).unwrap();
    pool.write(|connection| {
        run(connection, "CREATE TABLE t (id INTEGER PRIMARY KEY, n)")?;
        run(connection, "INSERT INTO t SELECT value, 0 FROM generate_series(1, 100)")
    })
    .unwrap();
    let (ended, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let sums = pool.read(|connection| {
                        let first = run(connection, "SELECT sum(n), max(n) FROM t")?;
                        // One state, whatever is written in between.
                        assert_eq!(run(connection, "SELECT sum(n), max(n) FROM t")?, first);
                        Ok(first)
                    });
                    assert_eq!(sums.unwrap()[0][0], Value::Int(0));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..3_u32)
            .map(|writer| {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..40 {
                        let id = writer * 20 + round % 20 + 1;
                        let written = pool.write(|connection| {
                            run(connection, &format!("UPDATE t SET n = n + 1 WHERE id = {id}"))?;
                            run(connection, "UPDATE t SET n = n - 1 WHERE id = 100")
                        });
                        written.unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        ended.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    let last = pool.read(|connection| run(connection, "SELECT n FROM t WHERE id = 100")).unwrap();
    assert_eq!(last, [[Value::Int(-120)]]);
    drop(pool);
    let peer = sqlite(Some(&path));
    let check: String = peer.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn readers_go_on_while_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::open(folder.path().join("db")).unwrap();
    pool.write(|connection| run(connection, "CREATE TABLE t (a)")).unwrap();
    let (begun, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let written = pool.write(|connection| {
                run(connection, "INSERT INTO t VALUES (1)")?;
                begun.wait();
                done.wait();
                Ok(())
            });
            written.unwrap();
        });
        begun.wait();
        let count = || pool.read(|connection| run(connection, "SELECT count(*) FROM t")).unwrap();
        assert_eq!(count(), [[Value::Int(0)]]);
        done.wait();
    });
    let count = pool.read(|connection| run(connection, "SELECT count(*) FROM t")).unwrap();
    assert_eq!(count, [[Value::Int(1)]]);
}

#[test]
fn what_fails_changes_nothing() {
    let pool = Pool::with_setup(Store::memory(), 2, |connection| {
        connection.create_function("seven", 0, FunctionFlags::DETERMINISTIC, |_| Ok(7))
    })
    .unwrap();
    pool.write(|connection| run(connection, "CREATE TABLE t (a)")).unwrap();
    let failed: Result<(), Error> = pool.write(|connection| {
        run(connection, "INSERT INTO t VALUES (1)")?;
        Err(Error::of_function("no more"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no more");
    let pool = Arc::new(pool);
    let other = Arc::clone(&pool);
    let panicked = std::thread::spawn(move || {
        other.write(|connection| -> Result<(), Error> {
            run(connection, "INSERT INTO t VALUES (2)")?;
            panic!("on purpose");
        })
    });
    assert!(panicked.join().is_err());
    let other = Arc::clone(&pool);
    let panicked =
        std::thread::spawn(move || other.read(|_| -> Result<(), Error> { panic!("on purpose") }));
    assert!(panicked.join().is_err());
    for _ in 0..4 {
        let refused = pool.read(|connection| run(connection, "INSERT INTO t VALUES (3)"));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("read-only") || message.contains("readonly"), "{message}");
    }
    let sql = "SELECT count(*), seven() FROM t";
    let count = pool.read(|connection| run(connection, sql)).unwrap();
    assert_eq!(count, [[Value::Int(0), Value::Int(7)]]);
    pool.write(|connection| run(connection, "INSERT INTO t VALUES (seven())")).unwrap();
    let count = pool.read(|connection| run(connection, "SELECT a FROM t")).unwrap();
    assert_eq!(count, [[Value::Int(7)]]);
}

/// Connections begun beside a reader answer from its state, though others commit in between; a
/// writer and another store are no neighbours.
#[test]
fn readers_beside_a_reader_share_its_state() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["wal", "delete"] {
        let path = folder.path().join(journal);
        let store = Store::open(Arc::new(OsVfs), &path, Access::Create).unwrap();
        let mut writer = Connection::open(store.clone()).unwrap();
        run(&mut writer, &format!("PRAGMA journal_mode = {journal}")).unwrap();
        run(&mut writer, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 5000)")
            .unwrap();
        let before = store.begin(Mode::Read).unwrap();
        let mut readers: Vec<Connection> =
            (0..3).map(|_| Connection::open(store.clone()).unwrap()).collect();
        readers[0].begin_beside(&before).unwrap();
        if journal == "wal" {
            run(&mut writer, "DELETE FROM t WHERE a > 10").unwrap();
        }
        readers[1].begin_beside(&before).unwrap();
        drop(before);
        let count = [[Value::Int(5000)]];
        for reader in &mut readers[..2] {
            assert_eq!(run(reader, "SELECT count(*) FROM t").unwrap(), count);
            assert!(matches!(reader.begin(Mode::Read), Err(Error::Meaning { .. })));
            reader.rollback().unwrap();
        }
        // The last neighbour's end lets a writer in again.
        run(&mut writer, "DELETE FROM t WHERE a > 5").unwrap();
        let now = store.begin(Mode::Read).unwrap();
        readers[2].begin_beside(&now).unwrap();
        assert_eq!(run(&mut readers[2], "SELECT count(*) FROM t").unwrap(), [[Value::Int(5)]]);
        drop((readers, now));
        let writing = store.begin(Mode::Write).unwrap();
        let mut reader = Connection::open(store.clone()).unwrap();
        assert!(matches!(reader.begin_beside(&writing), Err(Error::Store(_))));
        drop(writing);
        let mut other = Connection::open(Store::memory()).unwrap();
        let now = store.begin(Mode::Read).unwrap();
        assert!(matches!(other.begin_beside(&now), Err(Error::Misuse { .. })));
    }
}
