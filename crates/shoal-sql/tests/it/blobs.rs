//! Blobs as streams, result codes and the hook of the log, beside SQLite's.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::write_support::{Random, run_shoal, sqlite};
use rusqlite::MAIN_DB;
use shoal_sql::{Connection, Error, FunctionFlags, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};

fn connect(path: &Path) -> Connection {
    Connection::open(Store::open(Arc::new(OsVfs), path, Access::Create).unwrap()).unwrap()
}

fn run(connection: &mut Connection, sql: &str) {
    for sql in sql.split(';').filter(|sql| !sql.trim().is_empty()) {
        run_shoal(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

fn bytes(connection: &mut Connection, sql: &str) -> Vec<u8> {
    match run_shoal(connection, sql).unwrap().concat().remove(0) {
        Value::Blob(bytes) | Value::Text(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Random pieces of long and short values, in both journal modes, with and without a transaction
/// around; SQLite reads the file in the end.
#[test]
fn pieces_are_read_and_written_where_they_lie() {
    for wal in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut ours = connect(&path);
        if wal {
            run(&mut ours, "PRAGMA journal_mode = wal");
        }
        run(&mut ours, "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)");
        let mut random = Random::seeded(7);
        let mut model: Vec<Vec<u8>> = Vec::new();
        for (row, length) in [0_usize, 1, 100, 4000, 4096, 9000, 70_000].into_iter().enumerate() {
            model.push((0..length).map(|at| (at % 251) as u8).collect());
            let sql = format!(
                "INSERT INTO t VALUES ({}, zeroblob({}), zeroblob({length}), 'tail')",
                row + 1,
                random.below(6000)
            );
            run(&mut ours, &sql);
            let mut blob = ours.open_blob("main", "T", "B", row as i64 + 1, true).unwrap();
            assert_eq!(blob.len(), length);
            blob.write_all(&model[row]).unwrap();
            assert_eq!(blob.write(b"x").unwrap(), 0);
            blob.close().unwrap();
        }
        for round in 0..200 {
            let row = random.below(model.len() as u64) as usize;
            let length = model[row].len();
            let start = random.below(length as u64 + 1) as usize;
            let end = start + random.below((length - start) as u64 + 1) as usize;
            let within = random.below(3) == 0;
            if within {
                run(&mut ours, "BEGIN");
            }
            let mut blob = ours.open_blob("main", "t", "b", row as i64 + 1, true).unwrap();
            let piece: Vec<u8> = (start..end).map(|_| random.number() as u8).collect();
            blob.write_at(start, &piece).unwrap();
            let mut all = Vec::new();
            blob.rewind().unwrap();
            blob.read_to_end(&mut all).unwrap();
            assert_eq!(&all[start..end], piece);
            // One in two is taken back: by a drop, or with the transaction.
            let kept = random.below(2) == 0;
            if kept {
                blob.close().unwrap();
                model[row][start..end].copy_from_slice(&piece);
            } else {
                drop(blob);
            }
            if within {
                run(&mut ours, if kept { "COMMIT" } else { "ROLLBACK" });
            }
            let sql = format!("SELECT b FROM t WHERE id = {}", row + 1);
            assert_eq!(bytes(&mut ours, &sql), model[row], "round {round}");
        }
        drop(ours);
        let theirs = sqlite(Some(&path));
        let check: String =
            theirs.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        for (row, expect) in model.iter().enumerate() {
            let mut blob = theirs.blob_open(MAIN_DB, "t", "b", row as i64 + 1, true).unwrap();
            let mut found = Vec::new();
            blob.read_to_end(&mut found).unwrap();
            assert_eq!(found, *expect);
        }
    }
}

#[test]
fn what_is_no_stream_is_refused_in_sqlites_words() {
    let schema = "CREATE TABLE t (i INTEGER PRIMARY KEY, n, r, z, s, k UNIQUE, e);
        CREATE INDEX t_e ON t (e || '');
        CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID;
        CREATE TABLE g (a, b AS (a || 'x'));
        CREATE TABLE p (a PRIMARY KEY);
        CREATE TABLE f (a REFERENCES p (a), b);
        CREATE VIEW v AS SELECT * FROM t;
        INSERT INTO t VALUES (1, 7, 1.5, NULL, 'text', x'00', 'e');
        INSERT INTO f VALUES (NULL, 'text');
        ALTER TABLE f ADD COLUMN late DEFAULT 'd'";
    let folder = tempfile::tempdir().unwrap();
    let mut ours = connect(&folder.path().join("ours"));
    run(&mut ours, schema);
    let theirs = sqlite(Some(&folder.path().join("theirs")));
    theirs.execute_batch(schema).unwrap();
    run(&mut ours, "PRAGMA foreign_keys = on");
    theirs.execute_batch("PRAGMA foreign_keys = on").unwrap();
    for (table, column, rowid, writes) in [
        ("t", "n", 1, false),
        ("t", "r", 1, false),
        ("t", "z", 1, false),
        ("t", "s", 1, true),
        ("t", "s", 2, true),
        ("t", "k", 1, false),
        ("t", "k", 1, true),
        ("t", "nosuch", 1, false),
        ("w", "b", 1, false),
        ("g", "a", 1, false),
        ("f", "a", 1, true),
        ("f", "b", 1, true),
        ("f", "late", 1, false),
        ("v", "s", 1, false),
        ("nosuch", "s", 1, false),
    ] {
        let expect = theirs.blob_open(MAIN_DB, table, column, rowid, !writes);
        let expect = expect.map(|blob| blob.len()).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message,
            other => other.to_string(),
        });
        let found = ours.open_blob("main", table, column, rowid, writes);
        let found = found.map(|blob| blob.len()).map_err(|error| error.to_string());
        assert_eq!(found, expect, "{table}.{column} of {rowid}");
        assert!(!ours.in_transaction());
    }
    let mut blob = ours.open_blob("main", "t", "s", 1, false).unwrap();
    assert!(matches!(blob.write_at(0, b"x"), Err(Error::Misuse { .. })));
    assert!(blob.read_at(2, &mut [0; 3]).is_err());
    assert!(blob.read_at(usize::MAX, &mut [0; 3]).is_err());
    assert!(blob.seek(SeekFrom::Current(-1)).is_err());
    assert!(matches!(blob.reopen(9), Err(Error::Meaning { .. })));
    let mut text = String::new();
    blob.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    drop(blob);
    // Attached and temporary tables.
    let other = folder.path().join("other");
    run(&mut ours, &format!("ATTACH '{}' AS o; CREATE TABLE o.t (b)", other.display()));
    run(&mut ours, "CREATE TEMP TABLE tt (b); INSERT INTO o.t VALUES (zeroblob(5000))");
    run(&mut ours, "INSERT INTO tt VALUES ('abc')");
    for (database, table) in [("o", "t"), ("temp", "tt")] {
        let mut blob = ours.open_blob(database, table, "b", 1, true).unwrap();
        blob.write_at(1, b"xy").unwrap();
        blob.close().unwrap();
    }
    assert_eq!(bytes(&mut ours, "SELECT substr(b, 2, 3) FROM o.t"), b"xy\0");
    assert_eq!(bytes(&mut ours, "SELECT b FROM tt"), b"axy");
}

/// The extended code of each failure, as SQLite has it.
#[test]
fn errors_have_sqlites_codes() {
    let schema = "CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE, c NOT NULL DEFAULT 1,
            d CHECK (d < 5));
        CREATE TABLE k (a TEXT PRIMARY KEY);
        CREATE TABLE w (a PRIMARY KEY, b UNIQUE) WITHOUT ROWID;
        CREATE TABLE r (a);
        CREATE TABLE s (a INT) STRICT;
        CREATE TABLE f (a REFERENCES t (a));
        INSERT INTO t VALUES (1, 1, 1, 1); INSERT INTO k VALUES ('x'); INSERT INTO w VALUES (1, 1);
        INSERT INTO r VALUES (1);
        PRAGMA foreign_keys = on";
    let mut ours = Connection::open(Store::memory()).unwrap();
    run(&mut ours, schema);
    let trigger = "CREATE TRIGGER tr BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no'); END";
    run_shoal(&mut ours, trigger).unwrap();
    let theirs = sqlite(None);
    theirs.execute_batch(schema).unwrap();
    theirs.execute_batch(trigger).unwrap();
    for sql in [
        "INSERT INTO t VALUES (1, 2, 1, 1)",
        "INSERT INTO t VALUES (2, 1, 1, 1)",
        "INSERT INTO t VALUES (2, 2, NULL, 1)",
        "INSERT INTO t VALUES (2, 2, 2, 9)",
        "INSERT INTO t VALUES ('x', 2, 2, 2)",
        "INSERT INTO k VALUES ('x')",
        "INSERT INTO w VALUES (1, 2)",
        "INSERT INTO w VALUES (2, 1)",
        "INSERT INTO w VALUES (NULL, 3)",
        "INSERT INTO r (rowid, a) VALUES (1, 1)",
        "INSERT INTO s VALUES ('x')",
        "INSERT INTO f VALUES (9)",
        "DELETE FROM t",
        "CREATE UNIQUE INDEX r_a ON r (1)",
        "SELECT zeroblob(2000000000)",
        "SELECT abs(-9223372036854775808)",
        "SELECT nosuch",
        "SELEC 1",
        "COMMIT",
    ] {
        let got = runs(&mut ours, sql);
        let expect = theirs.prepare(sql).and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        });
        match (got, expect) {
            (Err(ours), Err(theirs)) => {
                let code = match &theirs {
                    rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
                    rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
                    other => panic!("{other}"),
                };
                let own = i32::from(ours.result_code().extended());
                assert_eq!(own, code, "{sql}: {theirs}");
            }
            (Ok(()), Ok(())) => {}
            (got, expect) => panic!("{sql}: {got:?} {expect:?}"),
        }
    }
    let error = fails(&mut ours, "INSERT INTO t VALUES (2, 1, 1, 1)");
    let code = error.result_code();
    assert_eq!(code.to_string(), "SQLITE_CONSTRAINT_UNIQUE");
    assert_eq!((code.primary(), code.extended()), (19, 2067));
    ours.set_commit_hook(Some(Box::new(|| true)));
    let code = fails(&mut ours, "INSERT INTO k VALUES ('new')").result_code();
    assert_eq!(code.name(), "SQLITE_CONSTRAINT_COMMITHOOK");
    ours.set_commit_hook(None);
    ours.create_function("fail", 0, FunctionFlags::default(), |_: &[Value]| {
        Err::<Value, _>(Error::of_function("no"))
    })
    .unwrap();
    assert_eq!(fails(&mut ours, "SELECT fail()").result_code().name(), "SQLITE_ERROR");
}

fn runs(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement).map(drop)
}

fn fails(connection: &mut Connection, sql: &str) -> Error {
    runs(connection, sql).unwrap_err()
}

#[test]
fn the_log_tells_of_commits() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = connect(&folder.path().join("db"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    ours.set_wal_hook(Some(Box::new(move |database, frames| {
        log.lock().unwrap().push((database.to_owned(), frames));
    })));
    run(&mut ours, "CREATE TABLE t (a)");
    assert!(seen.lock().unwrap().is_empty(), "a rollback journal has no log");
    run(&mut ours, "PRAGMA journal_mode = wal");
    run(&mut ours, "INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2); SELECT * FROM t");
    let first = seen.lock().unwrap().clone();
    assert_eq!(first.len(), 1, "{first:?}");
    run(&mut ours, "COMMIT; BEGIN; SELECT * FROM t; COMMIT; BEGIN; DELETE FROM t; ROLLBACK");
    let other = folder.path().join("other");
    run(&mut ours, &format!("ATTACH '{}' AS o; PRAGMA o.journal_mode = wal", other.display()));
    run(&mut ours, "CREATE TABLE o.u (a)");
    let all = seen.lock().unwrap().clone();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["main", "main", "o"]);
    assert!(all[1].1 > all[0].1, "{all:?}");
    let pages = std::fs::metadata(folder.path().join("db-wal")).unwrap().len() / (4096 + 24);
    assert_eq!(u64::from(all[1].1), pages);
}
