//! Statements stopped: by another thread, by the time, by the bytes they keep or the rows they
//! give.

use std::time::{Duration, Instant};

use crate::common::{self, Scratch, check, ours};
use shoal_sql::{Connection, Error, Limits, Value};

const SCHEMA: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b TEXT);
    WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
    INSERT INTO t SELECT i, i * 7919 % 20011, printf('%08d-%d', i * 6007 % 20011, i) FROM c;
    CREATE INDEX t_a ON t(a);";

/// Queries too long to wait for.
const ENDLESS: [&str; 9] = [
    "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c) SELECT x FROM c WHERE x < 0",
    "SELECT count(*) FROM t a, t b, t c WHERE a.a + b.a + c.a = -1",
    "SELECT count(*) FROM t a, t b, t c WHERE a.a < b.a AND b.a < c.a",
    "SELECT count(*) FROM t a, t b WHERE b.a > a.a AND b.b < a.b AND a.id > 5",
    "SELECT sum(value) FROM generate_series(1, 1000000000000)",
    "SELECT a.id FROM t a, t b, t c WHERE a.b || b.b || c.b = 'x' ORDER BY a.b",
    "SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY b RANGE UNBOUNDED PRECEDING EXCLUDE TIES) AS n FROM (SELECT b FROM t UNION ALL SELECT b FROM t))",
    "SELECT max(a.b) FROM t a JOIN t b ON a.a <> b.a JOIN t c ON c.a <> b.a GROUP BY a.id % 5",
];

fn drain(connection: &mut Connection, sql: &str) -> Result<u64, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn another_thread_interrupts() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    for sql in ENDLESS {
        let interrupter = connection.interrupter();
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            // An interrupt before the statement runs stops nothing: preparing may take long.
            while !seen.load(std::sync::atomic::Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(60));
                interrupter.interrupt();
            }
        });
        let start = Instant::now();
        let error = drain(&mut connection, sql).unwrap_err();
        ended.store(true, std::sync::atomic::Ordering::Release);
        thread.join().unwrap();
        assert!(matches!(error, Error::Interrupted), "{sql}: {error:?}");
        assert_eq!(error.to_string(), "interrupted");
        assert!(start.elapsed() < Duration::from_secs(10), "{sql}: {:?}", start.elapsed());
        // The next statement begins afresh.
        assert_eq!(drain(&mut connection, "SELECT id FROM t").unwrap(), 20_000);
    }
    // Nothing runs, so nothing is stopped.
    connection.interrupter().interrupt();
    assert_eq!(drain(&mut connection, "SELECT id FROM t WHERE id > 5 ORDER BY b").unwrap(), 19_995);
}

#[test]
fn an_interrupted_statement_that_writes_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let os = std::sync::Arc::new(shoal_store::vfs::OsVfs);
    let store = shoal_store::Store::open(os, &path, shoal_store::Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    let mut run = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        connection.execute(&mut statement)
    };
    run("CREATE TABLE t(a, b UNIQUE)").unwrap();
    run("BEGIN").unwrap();
    run("INSERT INTO t VALUES (1, 1)").unwrap();
    connection.set_limits(Limits { time: Some(Duration::from_millis(50)), ..Limits::default() });
    let endless = "INSERT INTO t
        WITH RECURSIVE c(x) AS (VALUES(2) UNION ALL SELECT x + 1 FROM c) SELECT x, x FROM c";
    let mut statement = connection.prepare(endless).unwrap();
    let error = connection.execute(&mut statement).unwrap_err();
    assert!(matches!(error, Error::Limit { max: 50, .. }), "{error:?}");
    connection.set_limits(Limits::default());
    assert!(connection.in_transaction());
    assert_eq!(ours(&mut connection, "SELECT * FROM t").unwrap().rows, [[1, 1].map(Value::Int)]);
    ours(&mut connection, "COMMIT").unwrap();
    assert_eq!(
        ours(&mut connection, "PRAGMA integrity_check").unwrap().rows,
        [[Value::text("ok")]]
    );
}

#[test]
fn the_time_is_limited() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    connection.set_limits(Limits { time: Some(Duration::from_millis(40)), ..Limits::default() });
    for sql in ENDLESS {
        let start = Instant::now();
        let error = drain(&mut connection, sql).unwrap_err();
        assert!(matches!(error, Error::Limit { max: 40, .. }), "{sql}: {error:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{sql}: {:?}", start.elapsed());
    }
    assert_eq!(drain(&mut connection, "SELECT id FROM t LIMIT 10").unwrap(), 10);
}

#[test]
fn the_rows_are_limited() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    connection.set_limits(Limits { rows: Some(100), ..Limits::default() });
    for (sql, fits) in [
        ("SELECT id FROM t LIMIT 100", true),
        ("SELECT id FROM t LIMIT 101", false),
        ("SELECT upper(b) FROM t ORDER BY b LIMIT 100", true),
        ("SELECT upper(b) FROM t ORDER BY b", false),
        ("SELECT count(*) FROM t", true),
    ] {
        match drain(&mut connection, sql) {
            Ok(_) => assert!(fits, "{sql}"),
            Err(Error::Limit { max: 100, .. }) => assert!(!fits, "{sql}"),
            Err(other) => panic!("{sql}: {other}"),
        }
    }
}

#[test]
fn the_memory_is_limited() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let limits = |bytes| Limits { memory_bytes: Some(bytes), ..Limits::default() };
    // A group that there is one of is kept whatever the limit is.
    let sql = "SELECT count(*), max(a) FROM t";
    let peer = scratch.theirs();
    for bytes in [1, 100, 300_000_000] {
        connection.set_limits(limits(bytes));
        check(&mut connection, &peer, sql, &[]).unwrap_or_else(|how| panic!("{bytes}: {how}"));
    }
    // What one run of a subquery kept does not count for the next.
    connection.set_limits(limits(2_000_000));
    let often =
        "SELECT sum((SELECT count(*) FROM (SELECT DISTINCT b FROM t WHERE a > x.a + 19000)))
        FROM t x WHERE id < 300";
    drain(&mut connection, often).unwrap();
}

#[test]
fn sorts_go_on_in_a_file() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, mut limited) = (scratch.ours(), scratch.ours());
    limited.set_limits(Limits { memory_bytes: Some(70_000), ..Limits::default() });
    for sql in [
        "SELECT id, b FROM t ORDER BY b",
        "SELECT id, b FROM t ORDER BY b DESC, id",
        "SELECT id % 10, a FROM t ORDER BY 1",
        "SELECT id % 10, upper(b) FROM t ORDER BY id % 10, a % 3 DESC",
        "SELECT a, b FROM t ORDER BY b COLLATE NOCASE LIMIT 5000",
        "SELECT a, b FROM t ORDER BY b LIMIT 5000 OFFSET 9000",
        "SELECT nullif(a % 4, 2), b FROM t ORDER BY 1 NULLS LAST",
        "SELECT id, a * 0.5, CAST(b AS BLOB) FROM t ORDER BY a % 100, b",
        "SELECT count(*), sum(a) FROM (SELECT a FROM t ORDER BY b LIMIT 7000)",
    ] {
        let expect = ours(&mut connection, sql).unwrap();
        let got = ours(&mut limited, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(got.rows.len(), expect.rows.len(), "{sql}");
        assert!(got == expect, "{sql}");
    }
}

/// Groups, distinct rows, joins, sets, recursions and windows give the same rows spilled as in
/// memory.
#[test]
fn what_does_not_fit_goes_through_files() {
    let scratch = Scratch::new(&SCHEMA.replace("20000", "3000"));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    for sql in [
        // Groups, in the order of their keys.
        "SELECT b, count(*), max(a) FROM t GROUP BY b",
        "SELECT a % 701 AS k, count(*), sum(id), min(b) FROM t GROUP BY k ORDER BY k",
        "SELECT substr(b, 1, 7) AS k, count(DISTINCT a), sum(a) FILTER (WHERE id > 9) FROM t GROUP BY k ORDER BY k",
        "SELECT id % 401 AS k, group_concat(id ORDER BY a DESC) FROM t GROUP BY k ORDER BY k",
        "SELECT a % 301 AS k, max(id), b FROM t GROUP BY k HAVING count(*) > 6 ORDER BY k",
        "SELECT lower(b), count(*) FROM t GROUP BY b COLLATE NOCASE, a % 2 ORDER BY 1",
        "SELECT count(*), sum(n) FROM (SELECT count(*) AS n FROM t GROUP BY b)",
        // Groups whose rows come one group after the other.
        "SELECT a, count(*), min(id) FROM t GROUP BY a",
        "SELECT a, max(b), id FROM t GROUP BY a ORDER BY a DESC",
        "SELECT a, count(DISTINCT b), sum(DISTINCT id) FROM t GROUP BY a ORDER BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT count(*), sum(n) FROM (SELECT a, count(*) AS n FROM t GROUP BY a HAVING max(id) > 100)",
        // Groups of joined rows.
        "SELECT x.b, count(*), max(y.a), y.b FROM t x JOIN t y ON y.id = x.a GROUP BY x.b ORDER BY x.b",
        "SELECT x.b || y.b AS k, count(*), avg(y.a) FILTER (WHERE x.a > 3) FROM t x JOIN t y ON y.id = x.a GROUP BY k ORDER BY k",
        // Rows of a common table that is read twice.
        "WITH c AS MATERIALIZED (SELECT id, b || a AS n FROM t) SELECT count(*), max(x.n), sum(y.id) FROM c x JOIN c y ON y.id = x.id + 1",
        // Distinct rows, of columns and of what is computed.
        "SELECT DISTINCT b FROM t",
        "SELECT DISTINCT a % 2001, id % 3 FROM t",
        "SELECT DISTINCT upper(b) FROM t ORDER BY 1",
        "SELECT count(*) FROM (SELECT DISTINCT b, a FROM t)",
        // Joins without an index on either side.
        "SELECT x.id, y.id FROM t x JOIN t y ON x.b = y.b",
        "SELECT count(*), sum(y.id) FROM t x JOIN t y ON x.id % 501 = y.a % 501 WHERE x.id < 900",
        "SELECT x.id, y.b FROM t x LEFT JOIN t y ON y.b = x.b AND y.id % 2 = 0 WHERE x.id < 500",
        "SELECT x.id, y.id FROM t x RIGHT JOIN t y ON x.b = y.b AND x.id > 1500",
        "SELECT x.id, y.id FROM (SELECT * FROM t WHERE id % 2) x FULL JOIN (SELECT * FROM t WHERE a % 3) y ON x.b = y.b",
        // Sets.
        "SELECT b FROM t UNION SELECT b || 'x' FROM t",
        "SELECT b FROM t EXCEPT SELECT b || 'x' FROM t WHERE id % 2 UNION SELECT upper(b) FROM t WHERE id < 40",
        "SELECT b || '' FROM t EXCEPT SELECT b FROM t WHERE id % 2",
        "SELECT a % 2500, id % 2 FROM t INTERSECT SELECT id % 2700, a % 3 FROM t",
        "SELECT b FROM t UNION ALL SELECT b || 'x' FROM t INTERSECT SELECT b FROM t",
        "SELECT b COLLATE NOCASE FROM t UNION SELECT upper(b) FROM t UNION ALL SELECT b FROM t WHERE id < 50",
        "SELECT b FROM t UNION ALL SELECT a FROM t UNION SELECT b FROM t WHERE id % 3 ORDER BY 1",
        "SELECT count(*), max(b) FROM (SELECT b FROM t UNION SELECT upper(b) || id FROM t)",
        // The right sides of IN.
        "SELECT count(*) FROM t WHERE b || '' IN (SELECT b || '' FROM t WHERE id % 3)",
        "SELECT count(*) FROM t WHERE b || 'x' NOT IN (SELECT b || 'y' FROM t)",
        "SELECT count(*) FROM t WHERE b || 'x' NOT IN (SELECT nullif(b, b) FROM t)",
        "SELECT count(*) FROM t WHERE (a + 1, b) IN (SELECT a + 1, b FROM t WHERE id % 5)",
        "SELECT count(*), sum((a, b) NOT IN (SELECT a + 1, b FROM t WHERE id % 5)) FROM t WHERE id < 90",
        "SELECT count(*), sum((nullif(a, 21), b) IN (SELECT a, nullif(b, '00000001') FROM t)) FROM t WHERE id < 90",
        // Recursions.
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION SELECT x + 1 FROM c WHERE x < 20000) SELECT count(*), sum(x) FROM c",
        "WITH RECURSIVE c(x, y) AS (SELECT id, b FROM t UNION SELECT x % 100, upper(y) FROM c) SELECT count(*), min(y) FROM c",
        "WITH RECURSIVE c(x, n) AS (SELECT id, 0 FROM t UNION ALL SELECT x * 7 % 2999, n + 1 FROM c WHERE n < 3) SELECT x, n FROM c ORDER BY n, x",
        "WITH RECURSIVE c(x, n) AS (SELECT id, 0 FROM t UNION ALL SELECT x * 7 % 2999, n + 1 FROM c WHERE n < 3 ORDER BY 1 DESC, 2) SELECT count(*), sum(x * n) FROM c",
        "WITH RECURSIVE c(x, n) AS (SELECT id, 0 FROM t UNION ALL SELECT x * 7 % 2999, n + 1 FROM c WHERE n < 3 ORDER BY 1 DESC, 2 LIMIT 5000 OFFSET 100) SELECT group_concat(x, ' ') FROM c",
        "WITH RECURSIVE c(x, n) AS (SELECT id, 0 FROM t UNION ALL SELECT x * 7 % 2999, n + 1 FROM c WHERE n < 3 LIMIT 9000) SELECT count(*), sum(x), max(n) FROM c",
        // Values looked up in an index, one after the other.
        "SELECT count(*), sum(id), min(b) FROM t WHERE a IN (SELECT id * 3 FROM t)",
        "SELECT id FROM t WHERE id IN (SELECT a FROM t WHERE id % 3) ORDER BY id",
        "SELECT count(*), sum(y.id) FROM (SELECT id FROM t WHERE id < 4) x CROSS JOIN t y WHERE y.a IN (SELECT '' || a FROM t UNION ALL SELECT a + 0.0 FROM t)",
        "SELECT count(*) FROM t WHERE a IN (SELECT id FROM t) OR id IN (SELECT a FROM t)",
        // Rows in the order of an aggregate.
        "SELECT group_concat(b ORDER BY b DESC), json_group_array(id ORDER BY a % 10, id DESC), count(*) FROM t",
        "SELECT id % 3 AS k, group_concat(b, '-' ORDER BY a), string_agg(a, '' ORDER BY b DESC) FILTER (WHERE id % 2) FROM t GROUP BY k ORDER BY k",
        "SELECT group_concat(DISTINCT substr(b, 1, 7) ORDER BY substr(b, 1, 7)) FROM t",
        // Aggregates of distinct values.
        "SELECT count(DISTINCT b), count(DISTINCT a % 1500), count(DISTINCT upper(b)) FROM t",
        // Windows with partitions small enough for memory.
        "SELECT id, row_number() OVER (PARTITION BY a % 300 ORDER BY id) FROM t ORDER BY id",
        "SELECT id, sum(a) OVER (PARTITION BY id % 100 ORDER BY b ROWS 3 PRECEDING), rank() OVER (PARTITION BY a % 99 ORDER BY id % 4), count(*) FILTER (WHERE a > 50) OVER (PARTITION BY id % 100) FROM t ORDER BY id",
        "SELECT id, lag(b, 1, 'none') OVER (PARTITION BY length(b), a % 300 ORDER BY id DESC) FROM t ORDER BY id",
    ] {
        connection.set_limits(Limits::default());
        let mut expect = ours(&mut connection, sql).unwrap();
        check(&mut connection, &peer, sql, &[]).unwrap();
        // The queue and the rows seen may keep 64 KiB each.
        let bytes = if sql.contains("RECURSIVE") { 200_000 } else { 60_000 };
        connection.set_limits(Limits { memory_bytes: Some(bytes), ..Limits::default() });
        let mut got = ours(&mut connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        if !sql.contains("ORDER BY") {
            common::sort(&mut got.rows);
            common::sort(&mut expect.rows);
        }
        assert_eq!(got.rows.len(), expect.rows.len(), "{sql}");
        assert!(got == expect, "{sql}");
    }
}

/// Windows over one partition too large for memory, with every function and frame.
#[test]
fn large_partitions_go_through_files() {
    let scratch = Scratch::new(&SCHEMA.replace("20000", "1500"));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let mut queries = Vec::new();
    for (function, order) in [
        ("row_number()", "b"),
        ("rank()", "a % 50"),
        ("dense_rank()", "a % 50 DESC"),
        ("percent_rank()", "a % 50"),
        ("cume_dist()", "a % 50"),
        ("ntile(7)", "b"),
        ("lag(b, 1, 'none')", "a"),
        ("lead(a, id % 5)", "a DESC"),
        ("lead(a, 900, -1)", "a"),
    ] {
        queries.push(format!("SELECT id, {function} OVER (ORDER BY {order}, id) FROM t"));
        queries.push(format!(
            "SELECT id, {function} OVER (PARTITION BY id % 2 ORDER BY {order}) FROM t"
        ));
    }
    for frame in [
        "",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "ROWS BETWEEN 400 PRECEDING AND 300 PRECEDING",
        "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
        "RANGE BETWEEN 70 PRECEDING AND 30 FOLLOWING",
        "RANGE BETWEEN 2.5 FOLLOWING AND 90 FOLLOWING",
        "RANGE BETWEEN 90 PRECEDING AND 7 PRECEDING",
        "GROUPS BETWEEN 3 PRECEDING AND 1 FOLLOWING",
        "GROUPS BETWEEN 1 FOLLOWING AND 20 FOLLOWING",
        "ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING EXCLUDE CURRENT ROW",
        "GROUPS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE GROUP",
        "RANGE BETWEEN 9 PRECEDING AND CURRENT ROW EXCLUDE TIES",
    ] {
        queries.push(format!(
            "SELECT id, sum(a) OVER w, min(b) OVER w, max(a * 7 % 11) OVER w, first_value(b) OVER w, \
             last_value(b) OVER w, nth_value(a, 3) OVER w, count(*) FILTER (WHERE id % 3) OVER w \
             FROM t WINDOW w AS (ORDER BY a / 9 {frame})"
        ));
        queries.push(format!(
            "SELECT id, count(b) OVER (PARTITION BY id % 2 ORDER BY nullif(a % 400, 7) DESC {frame}), \
             max(b) FILTER (WHERE a % 5) OVER (ORDER BY nullif(a % 400, 7) DESC {frame}) FROM t"
        ));
    }
    for sql in [
        // Later rows never outdo earlier ones, so all of a frame may become its extreme.
        "SELECT id, max(-a) OVER (ORDER BY a ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM t",
        "SELECT id, min(a) OVER (ORDER BY a ROWS BETWEEN 1300 PRECEDING AND 20 FOLLOWING) FROM t",
        "SELECT id, min(a % 300) OVER (ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 1400 FOLLOWING) FROM t",
        "SELECT id, group_concat(a) OVER (ORDER BY b ROWS 3 PRECEDING), rank() OVER (ORDER BY a % 9), b FROM t",
        "SELECT id, sum(a) OVER (ORDER BY id), sum(a) OVER (ORDER BY b DESC), sum(a) OVER () FROM t ORDER BY id LIMIT 900",
        "SELECT k, sum(n) OVER (ORDER BY k) FROM (SELECT a % 1200 AS k, count(*) AS n, max(b) FROM t GROUP BY k)",
    ] {
        queries.push(sql.to_owned());
    }
    for sql in &queries {
        for bytes in [1, 60_000] {
            connection.set_limits(Limits { memory_bytes: Some(bytes), ..Limits::default() });
            check(&mut connection, &peer, sql, &[]).unwrap_or_else(|how| panic!("{bytes}: {how}"));
        }
    }
}

/// A walk over an index is stopped at the next leaf, in either direction.
#[test]
fn walks_over_an_index_are_stopped() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    for sql in ["SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC", "SELECT b FROM t"]
    {
        let mut statement = connection.prepare(sql).unwrap();
        let interrupter = connection.interrupter();
        // By then the way through the index is known.
        for _ in 0..20 {
            let mut rows = connection.query(&mut statement).unwrap();
            rows.next().unwrap().unwrap();
        }
        let mut rows = connection.query(&mut statement).unwrap();
        rows.next().unwrap().unwrap();
        interrupter.interrupt();
        let mut count = 0;
        let error = loop {
            match rows.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => panic!("{sql}: went through {count} rows"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Interrupted), "{sql}: {error:?}");
        assert!(count < 2000, "{sql}: {count} rows after the interrupt");
    }
}

#[test]
fn many_runs_become_one() {
    let scratch = Scratch::new("CREATE TABLE t(a)");
    let mut connection = scratch.ours();
    connection.set_limits(Limits { memory_bytes: Some(1), ..Limits::default() });
    let sql = "SELECT value * 7919 % 100003 AS x FROM generate_series(1, 100002) ORDER BY x";
    let rows = ours(&mut connection, sql).unwrap().rows;
    assert!(rows.iter().enumerate().all(|(place, row)| row[0] == Value::Int(place as i64 + 1)));
    assert_eq!(rows.len(), 100_002);
}
