//! Allocations of a prepared statement's second and later runs: none, for lookups, scans, filters,
//! index seeks, and groups as many as before.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Statement, Value};
use shoal_store::{Access, Locking, Mode, Options, Store};
use shoal_testkit::alloc::{CountingAllocator, count};
use shoal_vfs::OsVfs;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROWS: i64 = 3000;

fn database(path: &Path) {
    let peer = rusqlite::Connection::open(path).unwrap();
    peer.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, age INTEGER, score REAL, dept TEXT,
           third INTEGER, part INTEGER);
         CREATE INDEX by_age ON t(age);
         CREATE INDEX by_third ON t(third);
         CREATE INDEX by_part ON t(part);
         WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < {ROWS})
         INSERT INTO t SELECT x, 'name ' || x, x * 7 % 60, x / 3.0,
         CASE x % 5 WHEN 0 THEN 'a department' ELSE 'another ' || (x % 5) END, x / 3, x % 40 FROM c;"
    ))
    .unwrap();
}

fn open(path: &Path, locking: Locking) -> Connection {
    let options = Options { locking, ..Options::new(Access::ReadOnly) };
    Connection::open(Store::open_with(Arc::new(OsVfs::new()), path, options).unwrap()).unwrap()
}

/// Runs the statement; gives the number of its rows and a checksum over all values.
fn run(connection: &mut Connection, statement: &mut Statement) -> (usize, u64) {
    let mut rows = connection.query(statement).unwrap();
    let (mut count, mut sum) = (0, 0_u64);
    while let Some(row) = rows.next().unwrap() {
        count += 1;
        for value in row.values() {
            sum = sum.wrapping_mul(31).wrapping_add(match value {
                shoal_sql::ValueRef::Null => 1,
                shoal_sql::ValueRef::Int(int) => int.cast_unsigned(),
                shoal_sql::ValueRef::Real(real) => real.to_bits(),
                shoal_sql::ValueRef::Text(bytes) | shoal_sql::ValueRef::Blob(bytes) => {
                    bytes.iter().map(|&byte| u64::from(byte)).sum()
                }
            });
        }
    }
    (count, sum)
}

#[test]
fn a_statement_that_ran_before_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    database(&path);
    let statements: &[(&str, usize)] = &[
        ("SELECT name, age, score, dept FROM t WHERE id = ?1", 1),
        ("SELECT name, age FROM t WHERE id IN (?1, 2000, 7, 7, 9999)", 3),
        ("SELECT name FROM t WHERE id IN (?1, 2000, 7, 7, 9999) AND age < 100", 3),
        ("SELECT id FROM t", 3000),
        ("SELECT * FROM t", 3000),
        ("SELECT name FROM t WHERE age > ?1 AND score < 500", 0),
        ("SELECT name FROM t WHERE dept = 'a department'", 600),
        ("SELECT id, name FROM t WHERE age = ?1", 50),
        ("SELECT id, name FROM t WHERE name LIKE '%99%' AND age < 100", 57),
        ("SELECT count(*) FROM t WHERE name NOT GLOB 'name [12]*'", 1),
        ("SELECT id, name, third FROM t WHERE third = ?1", 3),
        ("SELECT third FROM t WHERE third = ?1", 3),
        ("SELECT id, name FROM t WHERE age = ?1 AND part = ?1", 25),
        ("SELECT count(*), sum(score) FROM t WHERE age = ?1 AND part = ?1", 1),
        ("SELECT id, name FROM t WHERE age BETWEEN 5 AND 7", 150),
        ("SELECT id FROM t ORDER BY id DESC LIMIT 10 OFFSET 5", 10),
        ("SELECT count(*) FROM t", 1),
        ("SELECT sum(age), avg(score), min(score) FROM t", 1),
        ("SELECT dept, count(*), avg(score) FROM t GROUP BY dept", 5),
        ("SELECT age, count(*) FROM t GROUP BY age", 60),
        ("SELECT age, min(id) FROM t GROUP BY age ORDER BY age DESC", 60),
        ("SELECT DISTINCT age FROM t", 60),
        ("SELECT DISTINCT dept FROM t", 5),
        ("SELECT DISTINCT dept, age FROM t WHERE id > ?1", 0),
        ("SELECT min(age) FROM t", 1),
        ("SELECT max(age) FROM t", 1),
        ("SELECT max(id) FROM t", 1),
        ("SELECT id FROM t ORDER BY age DESC", 3000),
        ("SELECT name FROM t WHERE age < ?1 ORDER BY age DESC LIMIT 20", 20),
        ("SELECT id FROM t WHERE id BETWEEN 10 AND ?1 UNION ALL SELECT age FROM t", 0),
        ("SELECT id, name FROM t WHERE id < 900 UNION SELECT id, name FROM t WHERE id > 800", 3000),
        ("SELECT age, dept FROM t INTERSECT SELECT age, dept FROM t WHERE id = ?1", 1),
        ("SELECT id, name FROM t WHERE age > 3 EXCEPT SELECT id, name FROM t WHERE id < ?1", 0),
        ("SELECT id, age FROM t INTERSECT SELECT id, age FROM t WHERE score > ?1", 0),
        ("SELECT a.id, b.name FROM t a JOIN t b ON b.id = a.age", 2950),
        ("SELECT a.id, b.name FROM t a LEFT JOIN t b ON b.id = a.age AND b.age > ?1", 3000),
        ("SELECT a.id, b.name FROM t a FULL JOIN t b ON b.id = a.age", 5941),
        ("SELECT count(a.id), sum(b.id) FROM t a FULL JOIN t b ON b.id = a.age AND b.age > ?1", 1),
        ("SELECT b.id, count(*) FROM t a LEFT JOIN t b ON b.id = a.age GROUP BY b.id", 60),
        ("SELECT dept FROM t EXCEPT SELECT dept FROM t WHERE age > 90", 5),
    ];
    for locking in [Locking::Exclusive, Locking::Shared] {
        let mut connection = open(&path, locking);
        if locking == Locking::Shared {
            connection.begin(Mode::Read).unwrap();
        }
        for (sql, rows) in statements {
            let mut statement = connection.prepare(sql).unwrap();
            let bind = |statement: &mut Statement, number: i64| {
                if statement.parameter_count() > 0 {
                    statement.bind(1, Value::Int(number)).unwrap();
                }
            };
            bind(&mut statement, 20);
            let expect = run(&mut connection, &mut statement);
            // Often enough for every leaf worth decoding to be decoded.
            for number in [3, 40, 20].repeat(20) {
                bind(&mut statement, number);
                run(&mut connection, &mut statement);
            }
            let (got, allocations) = count(|| run(&mut connection, &mut statement));
            assert_eq!(got, expect, "{sql}");
            assert!(*rows == 0 || got.0 == *rows, "{sql}: {} rows", got.0);
            assert_eq!(allocations, 0, "{sql}, {locking:?}");
        }
    }
}

/// A descent costs allocations only until the separators are decoded.
#[test]
fn random_lookups_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    database(&path);
    let mut connection = open(&path, Locking::Exclusive);
    let mut statement = connection.prepare("SELECT id, name FROM t WHERE id = ?1").unwrap();
    let mut lookup = |id: i64| {
        statement.bind(1, Value::Int(id)).unwrap();
        let mut rows = connection.query(&mut statement).unwrap();
        let row = rows.next().unwrap().unwrap();
        assert_eq!(row.get(0), shoal_sql::ValueRef::Int(id));
    };
    (1..300).for_each(|id| lookup(id * 7_654_321 % ROWS + 1));
    let ((), allocations) = count(|| (1..=ROWS).for_each(|id| lookup(id * 1_234_577 % ROWS + 1)));
    assert_eq!(allocations, 0);
}

/// A select with computed conditions keeps its columns from run to run; a few allocations remain,
/// one for each batch of rows.
#[test]
fn a_computed_select_allocates_a_few_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    database(&path);
    let mut connection = open(&path, Locking::Exclusive);
    for (sql, rows, most) in [
        ("SELECT id FROM t WHERE name IN ('name 7', 'name 8', 'name 9')", 3, 4),
        ("SELECT id, age + 1 FROM t NOT INDEXED WHERE age + ?1 < 3", 0, 4),
        // A walk over an index notes its place behind each batch.
        ("SELECT id, age + 1 FROM t WHERE age + ?1 < 3", 0, 16),
        // 60 parts of groups, put together above the join: each has a copy of its key's text; the
        // memory of the join inside is four more.
        (
            "SELECT b.dept, count(*), sum(a.age) FROM t a JOIN t b ON b.id = a.age GROUP BY b.dept",
            5,
            64,
        ),
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        if statement.parameter_count() > 0 {
            statement.bind(1, Value::Int(7)).unwrap();
        }
        let first = run(&mut connection, &mut statement);
        assert_eq!(first.0, rows, "{sql}");
        run(&mut connection, &mut statement);
        let (got, allocations) = count(|| run(&mut connection, &mut statement));
        assert_eq!(got, first, "{sql}");
        assert!(allocations <= most, "{sql}: {allocations}");
    }
}

/// A text that was prepared before costs its parameters; a new literal its text and value, too.
#[test]
fn preparing_again_allocates_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    database(&path);
    let mut connection = open(&path, Locking::Exclusive);
    for (hint, allocations_max) in [("", 1), ("CACHED ", 1), ("DIRECT ", 200)] {
        let sql = format!("{hint}SELECT id, name FROM t WHERE id = ?1");
        let mut prepare_and_run = |id: i64| {
            let mut statement = connection.prepare(&sql).unwrap();
            statement.bind(1, Value::Int(id)).unwrap();
            assert_eq!(run(&mut connection, &mut statement).0, 1);
        };
        (1..100).for_each(&mut prepare_and_run);
        let ((), allocations) = count(|| prepare_and_run(7));
        assert!(allocations <= allocations_max, "{sql}: {allocations}");
        assert!(hint != "DIRECT " || allocations > 20, "{sql}: {allocations}");
    }
    let texts: Vec<String> = (1..200)
        .map(|id| format!("SELECT id, name, {id} FROM t WHERE id = {id} AND name <> 'x'"))
        .collect();
    let mut prepare_and_run = |sql: &String| {
        let mut statement = connection.prepare(sql).unwrap();
        assert_eq!(run(&mut connection, &mut statement).0, 1);
    };
    texts[..100].iter().for_each(&mut prepare_and_run);
    let ((), allocations) = count(|| prepare_and_run(&texts[150]));
    assert!(allocations <= 9, "{allocations}");
}

/// A query within an expression allocates as often, however many rows are around.
#[test]
fn queries_within_allocate_nothing_for_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    database(&path);
    let mut connection = open(&path, Locking::Exclusive);
    for query in [
        "EXISTS (SELECT 1 FROM t b WHERE b.third = a.id)",
        "EXISTS (SELECT 1 FROM t b WHERE b.third = a.id AND b.score > 3)",
        "NOT EXISTS (SELECT 1 FROM t b WHERE b.id = a.third)",
        "EXISTS (SELECT 1 FROM t b WHERE b.id = a.third AND b.age > 30)",
        "(SELECT b.name FROM t b WHERE b.id = a.third)",
        "(SELECT b.name || b.dept FROM t b WHERE b.third = a.id)",
        "(SELECT count(*) FROM t b WHERE b.third = a.id)",
        "(SELECT sum(b.age) FROM t b WHERE b.third = a.id)",
        "(SELECT coalesce(max(b.score), 0) FROM t b WHERE b.third = a.id)",
        "a.age IN (SELECT b.age FROM t b WHERE b.third = a.id)",
        "a.age IN (SELECT b.id FROM t b WHERE b.dept = 'a department')",
    ] {
        let sql = format!("SELECT count({query}), count(*) FROM t a WHERE a.id < ?1");
        let mut statement = connection.prepare(&sql).unwrap();
        let mut of = |rows: i64| {
            statement.bind(1, Value::Int(rows)).unwrap();
            for _ in 0..20 {
                run(&mut connection, &mut statement);
            }
            count(|| run(&mut connection, &mut statement)).1
        };
        let (few, many) = (of(1000), of(3000));
        // Batches of rows may take some.
        assert!(many <= few + 40, "{query}: {few}, {many}");
    }
}

#[test]
fn rows_that_are_inserted_allocate_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INTEGER, c REAL);
                  CREATE INDEX i ON t(b);";
    rusqlite::Connection::open(&path).unwrap().execute_batch(create).unwrap();
    let store = Store::open(Arc::new(OsVfs::new()), &path, Access::ReadWrite).unwrap();
    let mut connection = Connection::open(store).unwrap();
    let mut statement = connection.prepare("INSERT INTO t VALUES (?1, ?2, ?3, 1.5)").unwrap();
    connection.begin(Mode::Write).unwrap();
    let text = "a text that is in no register".as_bytes();
    let mut insert = |connection: &mut Connection, id: i64| {
        statement.bind(1, id).unwrap();
        statement.bind_ref(2, shoal_sql::ValueRef::Text(text)).unwrap();
        statement.bind(3, id * 2).unwrap();
        assert_eq!(connection.execute(&mut statement).unwrap(), 1);
    };
    insert(&mut connection, 1);
    let rows = 5_000;
    let ((), allocations) = count(|| (2..=rows).for_each(|id| insert(&mut connection, id)));
    // Pages are new ones, and so are the buffers of a page that is split.
    let most = rows as u64 / 8;
    assert!(allocations < most, "{allocations} allocations for {rows} rows");
    let ((), allocations) = count(|| {
        let mut writer = connection.table_writer("t").unwrap();
        for id in rows + 1..=2 * rows {
            let values = [
                shoal_sql::ValueRef::Int(id),
                shoal_sql::ValueRef::Text(text),
                shoal_sql::ValueRef::Int(id * 2),
                shoal_sql::ValueRef::Null,
            ];
            assert_eq!(writer.insert(&values).unwrap(), id);
        }
    });
    assert!(allocations < most, "{allocations} allocations for {rows} rows by a writer");
    connection.commit().unwrap();
    drop(connection);
    let peer = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT (SELECT * FROM pragma_integrity_check) || count(*) || ' ' || sum(b) FROM t";
    let answer: String = peer.query_row(sql, (), |row| row.get(0)).unwrap();
    assert_eq!(answer, format!("ok{} {}", 2 * rows, 2 * rows * (2 * rows + 1)));
}
