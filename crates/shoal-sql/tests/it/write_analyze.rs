//! `ANALYZE`, whose numbers are compared with SQLite's.

use crate::write_support::{self, run_shoal, run_sqlite, shoal, show, sqlite};
use shoal_store::vfs::SimVfs;

const FILL: &[&str] = &[
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c TEXT, d NOT NULL, e)",
    "CREATE INDEX t_b ON t(b)",
    "CREATE INDEX t_bc ON t(b DESC, c COLLATE nocase)",
    "CREATE UNIQUE INDEX t_d ON t(d)",
    "CREATE UNIQUE INDEX t_e ON t(e)",
    "CREATE UNIQUE INDEX t_bd ON t(b, d)",
    "CREATE INDEX t_part ON t(c) WHERE b > 3",
    "CREATE INDEX t_none ON t(c, b) WHERE b > 3000",
    "CREATE INDEX t_expr ON t(b % 3, lower(c))",
    "CREATE TABLE w(k, l, v, PRIMARY KEY (k, l)) WITHOUT ROWID",
    "CREATE INDEX w_v ON w(v)",
    "CREATE TABLE empty(a UNIQUE)",
    "CREATE TABLE bare(a)",
    "CREATE TABLE partial(a)",
    "CREATE INDEX partial_a ON partial(a) WHERE a > 2",
    "CREATE TABLE keys(a UNIQUE, b, UNIQUE (b, a))",
    "CREATE VIEW view AS SELECT 1",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) INSERT INTO t SELECT x, x % 7, char(65 + x % 5 + 32 * (x % 2)), x, nullif(x, 7) FROM n",
    "UPDATE t SET b = NULL WHERE a % 11 = 0",
    "INSERT INTO w SELECT a % 20, a, b FROM t",
    "INSERT INTO bare SELECT a FROM t",
    "INSERT INTO partial SELECT b FROM t",
    "INSERT INTO keys SELECT a, a % 450 FROM t",
];

/// Statistics, in an order of their own: SQLite goes through its tables in the order of a hash.
const NUMBERS: &str = "SELECT tbl, idx, stat, typeof(stat) FROM sqlite_stat1 ORDER BY tbl, idx";

/// Runs statements in both; fails unless the numbers are the same after each.
fn check(statements: &[&str]) {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    for sql in FILL {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    }
    for sql in statements {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
        let (got, expect) = (run_shoal(&mut ours, NUMBERS), run_sqlite(&theirs, NUMBERS));
        assert_eq!(show(&got), show(&expect), "{sql}");
    }
    drop(ours);
    write_support::contents_of(&vfs.image());
}

#[test]
fn the_numbers_are_sqlites() {
    check(&[
        "ANALYZE",
        "DELETE FROM t WHERE a % 3 = 0",
        "DELETE FROM bare",
        "ANALYZE",
        "ANALYZE main",
    ]);
    check(&["ANALYZE t", "ANALYZE w", "ANALYZE empty", "ANALYZE bare", "ANALYZE main.partial"]);
    check(&["ANALYZE t_b", "ANALYZE T_BC", "ANALYZE sqlite_autoindex_keys_2", "ANALYZE w_v"]);
    check(&["ANALYZE", "DELETE FROM t WHERE a > 9", "ANALYZE t_b", "ANALYZE t", "ANALYZE view"]);
    check(&[
        "ANALYZE nowhere",
        "ANALYZE main.nowhere",
        "ANALYZE nowhere.t",
        "ANALYZE sqlite_schema",
    ]);
    check(&["BEGIN", "ANALYZE", "ROLLBACK", "ANALYZE w"]);
}

#[test]
fn numbers_of_others_that_are_no_longer_true_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let theirs = sqlite(Some(&path));
    theirs.execute_batch(&(FILL.join(";") + "; ANALYZE")).unwrap();
    let samples = "SELECT count(*) FROM sqlite_stat4 WHERE tbl = 't'";
    let before = run_sqlite(&theirs, samples).unwrap();
    drop(theirs);
    let store = shoal_store::Store::open(
        std::sync::Arc::new(shoal_store::vfs::OsVfs),
        &path,
        shoal_store::Access::ReadWrite,
    );
    let mut ours = shoal_sql::Connection::open(store.unwrap()).unwrap();
    assert_eq!(run_shoal(&mut ours, samples).unwrap(), before);
    run_shoal(&mut ours, "ANALYZE t").unwrap();
    assert_eq!(show(&run_shoal(&mut ours, samples)), "Int(0)\n");
    let others = "SELECT count(*) > 0 FROM sqlite_stat4 WHERE tbl = 'w'";
    assert_eq!(show(&run_shoal(&mut ours, others)), "Int(1)\n");
}

#[test]
fn plans_follow_the_numbers() {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    for sql in [
        "CREATE TABLE t(a, b)",
        "CREATE INDEX t_a ON t(a)",
        "CREATE INDEX t_b ON t(b)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) INSERT INTO t SELECT x % 16, x % 50 FROM n",
        "ANALYZE",
    ] {
        run_shoal(&mut ours, sql).unwrap();
    }
    let plan = run_shoal(&mut ours, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1 AND b = 2");
    assert!(show(&plan).contains("t_b"), "{}", show(&plan));
    // Numbers off by less than ten times: worse ones are left aside.
    run_shoal(&mut ours, "UPDATE sqlite_stat1 SET stat = '500 60' WHERE idx = 't_b'").unwrap();
    run_shoal(&mut ours, "UPDATE sqlite_stat1 SET stat = '500 4' WHERE idx = 't_a'").unwrap();
    run_shoal(&mut ours, "CREATE TABLE another(a)").unwrap();
    let plan = run_shoal(&mut ours, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1 AND b = 2");
    assert!(show(&plan).contains("t_a"), "{}", show(&plan));
}
