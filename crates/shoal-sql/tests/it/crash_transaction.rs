//! A crash at every step of an SQL transaction leaves the rows of before or of after, all of them.

use crate::write_support::{contents_of, run_shoal, shoal};
use shoal_sql::Connection;
use shoal_store::vfs::SimVfs;

/// Seeds of the crash: from unsynced writes it keeps nothing, everything, or some by chance.
const SEEDS: std::ops::Range<u64> = 0..6;

fn run(connection: &mut Connection, statements: &[&str]) {
    for sql in statements {
        run_shoal(connection, sql).unwrap();
    }
}

/// Cuts a transaction at each of its calls.
fn check(before: &[&str], transaction: &[&str]) {
    let vfs = SimVfs::new();
    run(&mut shoal(&vfs), before);
    let image = vfs.image();

    let vfs = SimVfs::from_image(&image);
    let mut connection = shoal(&vfs);
    run(&mut connection, transaction);
    drop(connection);
    let (old, new) = (contents_of(&image), contents_of(&vfs.image()));
    assert_ne!(old, new);
    let (mut olds, mut news) = (0, 0);
    for calls in 0..=vfs.calls() {
        for seed in SEEDS {
            let state = contents_of(&vfs.image_after_crash(calls, seed));
            assert!(state == old || state == new, "after {calls} calls, seed {seed}:\n{state}");
            olds += usize::from(state == old);
            news += usize::from(state == new);
        }
    }
    // Told means durable: after the last call no part of the transaction can be lost.
    assert!(olds > 0 && news >= SEEDS.count());
    for seed in SEEDS {
        assert_eq!(contents_of(&vfs.image_after_crash(vfs.calls(), seed)), new, "seed {seed}");
    }
}

#[test]
fn rows_and_their_indexes() {
    let before = [
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c)",
        "CREATE INDEX tc ON t (c DESC, b)",
        "CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID",
        "INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, 'three', x'00')",
        "INSERT INTO w VALUES ('x', 1), ('y', 2)",
    ];
    let transaction = [
        "BEGIN",
        "INSERT INTO t (b, c) VALUES ('four', zeroblob(5000)), ('five', 5), ('six', 6)",
        "INSERT INTO w SELECT b, a FROM t",
        "UPDATE t SET c = b || c, a = a + 100 WHERE a < 3",
        "DELETE FROM w WHERE k = 'x'",
        "COMMIT",
    ];
    check(&before, &transaction);
}

#[test]
fn definitions() {
    let before = ["CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, 2), (3, 4)"];
    let transaction = [
        "BEGIN",
        "CREATE TABLE u (x INTEGER PRIMARY KEY AUTOINCREMENT, y UNIQUE)",
        "INSERT INTO u (y) SELECT a FROM t",
        "CREATE UNIQUE INDEX ta ON t (a)",
        "COMMIT",
    ];
    check(&before, &transaction);
    check(&before, &["DROP TABLE t"]);
    check(&[], &["CREATE TABLE first (a)"]);
}

#[test]
fn vacuums() {
    let fill = [
        "CREATE TABLE t (a, b)",
        "CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 40) INSERT INTO t SELECT x, zeroblob(500) FROM n",
        "INSERT INTO w SELECT a, b FROM t",
        "DELETE FROM t WHERE a % 4 <> 1",
    ];
    check(&fill, &["VACUUM"]);
    check(&fill, &["PRAGMA page_size = 1024", "VACUUM"]);
    check(&fill, &["PRAGMA page_size = 8192", "VACUUM"]);
    check(&[&fill[..], &["PRAGMA journal_mode = wal"]].concat(), &["VACUUM"]);
}
