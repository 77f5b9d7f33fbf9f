//! R-Trees beside SQLite's: the same statements, files read and checked both ways, forged nodes,
//! statements and transactions taken back.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Error, ValueRef};
use shoal_store::{Access, Store, vfs::OsVfs};

/// Repeatable numbers.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn shoal(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs), path, Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    shoal_rtree::register(&mut connection).unwrap();
    connection
}

fn ours(connection: &mut Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..row.len()).map(|column| match row.get(column) {
            ValueRef::Null => "NULL".to_owned(),
            ValueRef::Int(int) => int.to_string(),
            ValueRef::Real(real) => format!("{real:?}"),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Blob(blob) => format!("{} bytes", blob.len()),
        });
        out.push(values.collect::<Vec<_>>().join("|"));
    }
    Ok(out)
}

fn theirs(connection: &rusqlite::Connection, sql: &str) -> Result<Vec<String>, String> {
    let run = || {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|column| match row.get_ref(column).unwrap() {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(int) => int.to_string(),
                rusqlite::types::ValueRef::Real(real) => format!("{real:?}"),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                rusqlite::types::ValueRef::Blob(blob) => format!("{} bytes", blob.len()),
            });
            out.push(values.collect::<Vec<_>>().join("|"));
        }
        Ok(out)
    };
    run().map_err(|error: rusqlite::Error| match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    })
}

/// Both have the same rows, in whatever order, or the same error.
fn same(shoal: &mut Connection, sqlite: &rusqlite::Connection, sql: &str) {
    let sorted = |rows: Result<Vec<String>, String>| {
        rows.map(|mut rows| {
            rows.sort();
            rows
        })
    };
    let got = sorted(ours(shoal, sql).map_err(|error| error.to_string()));
    assert_eq!(got, sorted(theirs(sqlite, sql)), "{sql}");
}

/// A new database of each engine.
struct Both {
    folder: tempfile::TempDir,
    shoal: Connection,
    sqlite: rusqlite::Connection,
}

impl Both {
    fn new() -> Both {
        let folder = tempfile::tempdir().unwrap();
        let shoal = shoal(&folder.path().join("ours.db"));
        let sqlite = rusqlite::Connection::open(folder.path().join("theirs.db")).unwrap();
        Both { folder, shoal, sqlite }
    }

    fn same(&mut self, sql: &str) {
        same(&mut self.shoal, &self.sqlite, sql);
    }

    /// SQLite finds our file whole, with the R-Tree `r` in it.
    fn check_ours(self) {
        drop(self.shoal);
        let sqlite = rusqlite::Connection::open(self.folder.path().join("ours.db")).unwrap();
        assert_eq!(theirs(&sqlite, "SELECT rtreecheck('r')").unwrap(), ["ok"]);
        assert_eq!(theirs(&sqlite, "PRAGMA integrity_check").unwrap(), ["ok"]);
    }
}

fn corner(random: &mut Random) -> f64 {
    random.next(20_000) as f64 / 7.0 - 1000.0
}

/// The coordinates of a box, sometimes none.
fn sides(random: &mut Random, dimensions: u64) -> String {
    let mut out = Vec::new();
    for _ in 0..dimensions {
        let low = corner(random);
        let size = if random.next(40) == 0 { -1.0 } else { random.next(300) as f64 / 3.0 };
        out.push(format!("{low:?}, {:?}", low + size));
    }
    out.join(", ")
}

fn changes(random: &mut Random, dimensions: u64, ids: u64) -> String {
    let id = random.next(ids) + 1;
    let boxed = sides(random, dimensions);
    match random.next(12) {
        0..=5 => format!("INSERT INTO r VALUES ({id}, {boxed}, 'n{id}')"),
        6 => format!("INSERT OR REPLACE INTO r VALUES ({id}, {boxed}, 'r{id}')"),
        7 => format!("INSERT OR IGNORE INTO r VALUES ({id}, {boxed}, 'i{id}')"),
        8 => format!("UPDATE r SET x0 = x0 - 5.25, note = note || '!' WHERE id = {id}"),
        9 => format!("UPDATE OR REPLACE r SET id = id + {} WHERE id = {id}", random.next(3)),
        10 => format!(
            "DELETE FROM r WHERE x0 BETWEEN {:?} AND {:?} AND id % 3 = 0",
            corner(random),
            corner(random)
        ),
        _ => format!("DELETE FROM r WHERE id = {id}"),
    }
}

fn window(random: &mut Random) -> String {
    let (a, b) = (corner(random), corner(random));
    let (low, high) = (a.min(b), a.max(b));
    match random.next(7) {
        0 => format!("SELECT id, x0, x1, note FROM r WHERE x0 >= {low:?} AND x1 <= {high:?}"),
        1 => format!("SELECT id FROM r WHERE x1 > {low:?} AND x0 < {high:?} AND note LIKE 'n%'"),
        2 => format!("SELECT count(*), sum(id) FROM r WHERE x0 > '{low:?}'"),
        3 => format!(
            "SELECT * FROM r WHERE id IN ({}, {}, {})",
            random.next(90),
            random.next(90),
            random.next(90)
        ),
        4 => "SELECT count(*) FROM r WHERE x0 < 'text' AND x1 > x0".to_owned(),
        5 => format!("SELECT id FROM r WHERE x0 < {low:?} OR (x0 = {low:?} AND x1 > {high:?})"),
        _ => format!(
            "SELECT a.id, b.id FROM r AS a, r AS b WHERE a.id < 20 AND b.x0 <= a.x1 AND b.x1 >= a.x0 AND a.x0 > {low:?}"
        ),
    }
}

/// Random statements on two files; each engine then reads and checks the file of the other.
fn compare(seed: u64, module: &str, dimensions: u64, steps: u64, ids: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (our_path, their_path) = (folder.path().join("ours.db"), folder.path().join("theirs.db"));
    let mut random = Random(seed);
    let names: Vec<String> = (0..dimensions)
        .map(|dimension| format!("{d}0, {d}1", d = ["x", "y", "z", "u", "v"][dimension as usize]))
        .collect();
    let create = format!("CREATE VIRTUAL TABLE r USING {module}(id, {}, +note)", names.join(", "));
    {
        let mut shoal = shoal(&our_path);
        let sqlite = rusqlite::Connection::open(&their_path).unwrap();
        same(&mut shoal, &sqlite, &create);
        same(&mut shoal, &sqlite, "SELECT type, name, tbl_name, sql FROM sqlite_schema");
        same(&mut shoal, &sqlite, "BEGIN");
        for step in 0..steps {
            same(&mut shoal, &sqlite, &changes(&mut random, dimensions, ids));
            if step % 7 == 0 {
                same(&mut shoal, &sqlite, &window(&mut random));
            }
            if step % 97 == 0 {
                same(&mut shoal, &sqlite, "SELECT * FROM r");
            }
        }
        same(&mut shoal, &sqlite, "COMMIT");
        same(&mut shoal, &sqlite, "SELECT * FROM r");
        assert_eq!(ours(&mut shoal, "SELECT * FROM rtreecheck('r')").unwrap(), ["ok"]);
    }
    // The other way round: each goes on with the file of the other.
    let mut shoal = shoal(&their_path);
    let sqlite = rusqlite::Connection::open(&our_path).unwrap();
    assert_eq!(theirs(&sqlite, "SELECT rtreecheck('r')").unwrap(), ["ok"]);
    assert_eq!(theirs(&sqlite, "PRAGMA integrity_check").unwrap(), ["ok"]);
    assert_eq!(ours(&mut shoal, "SELECT * FROM rtreecheck('main', 'r')").unwrap(), ["ok"]);
    for step in 0..steps / 4 {
        same(&mut shoal, &sqlite, &changes(&mut random, dimensions, ids));
        if step % 5 == 0 {
            same(&mut shoal, &sqlite, &window(&mut random));
        }
    }
    same(&mut shoal, &sqlite, "SELECT * FROM r");
    assert_eq!(theirs(&sqlite, "SELECT rtreecheck('r')").unwrap(), ["ok"]);
    drop(shoal);
    let sqlite = rusqlite::Connection::open(&their_path).unwrap();
    assert_eq!(theirs(&sqlite, "SELECT rtreecheck('r')").unwrap(), ["ok"]);
}

/// More seeds with `SHOAL_RTREE_SEEDS=1000`.
#[test]
fn random_statements_have_the_same_rows_both_ways() {
    let seeds = std::env::var("SHOAL_RTREE_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    for seed in 0..seeds {
        compare(seed, "rtree", 1, 300, 60);
        compare(seed + 7, "rtree", 2, 500, 100_000);
        compare(seed + 11, "rtree_i32", 3, 300, 400);
        compare(seed + 13, "rtree", 5, 200, 300);
    }
}

/// Statements failing half way and rollbacks to savepoints, in transactions over small nodes.
fn take_back(seed: u64) {
    let mut random = Random(seed);
    let mut both = Both::new();
    both.same("PRAGMA page_size = 512");
    both.same("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1, +note)");
    for _ in 0..12 {
        both.same("BEGIN");
        let mut open = 0;
        for _ in 0..60 {
            let sql = match random.next(10) {
                0 => {
                    open += 1;
                    format!("SAVEPOINT s{open}")
                }
                1 if open > 0 => {
                    open = random.next(open) + 1;
                    format!("ROLLBACK TO s{open}")
                }
                2 if open > 0 => {
                    open = random.next(open);
                    format!("RELEASE s{}", open + 1)
                }
                3 => window(&mut random),
                4 => {
                    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                                   WHERE i < 40)";
                    let (start, end) = (random.next(5000), random.next(60));
                    format!(
                        "{numbers} INSERT INTO r SELECT {start} + i % {}, i, i + 1, i, i + 2, i \
                         FROM n",
                        end.max(1)
                    )
                }
                _ => changes(&mut random, 2, 300),
            };
            both.same(&sql);
        }
        both.same("SELECT * FROM r");
        let end = if random.next(4) == 0 { "ROLLBACK" } else { "COMMIT" };
        both.same(end);
        both.same("SELECT * FROM r");
        assert_eq!(ours(&mut both.shoal, "SELECT * FROM rtreecheck('r')").unwrap(), ["ok"]);
    }
    both.check_ours();
}

/// More seeds with `SHOAL_RTREE_SEEDS=1000`.
#[test]
fn savepoints_and_failed_statements_are_taken_back_as_in_sqlite() {
    let seeds = std::env::var("SHOAL_RTREE_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(2);
    for seed in 0..seeds {
        take_back(seed);
    }
}

#[test]
fn definitions_and_their_errors() {
    let mut both = Both::new();
    for sql in [
        "CREATE VIRTUAL TABLE a USING rtree(id, x0)",
        "CREATE VIRTUAL TABLE a USING rtree(id, x0, x1, y0)",
        "CREATE VIRTUAL TABLE a USING rtree(id, x0, x1, +n, y0, y1)",
        "CREATE VIRTUAL TABLE a USING rtree(id,a,b,c,d,e,f,g,h,i,j,k,l)",
        "CREATE VIRTUAL TABLE \"odd name\" USING rtree_i32(\"the id\", x0 INT, x1 /* c */, +n TEXT)",
        "INSERT INTO \"odd name\" VALUES (1, 2, 3, 'n'), (NULL, 7.9, '8', x'00')",
        "INSERT INTO \"odd name\" VALUES (1, 2, 3, 'n')",
        "INSERT INTO \"odd name\" VALUES (9, 4, 3, 'n')",
        "SELECT *, typeof(x0), typeof(n) FROM \"odd name\"",
        "SELECT name, sql FROM sqlite_schema",
        "PRAGMA table_info('odd name')",
        "ALTER TABLE \"odd name\" RENAME TO plain",
        "SELECT name, sql FROM sqlite_schema",
        "SELECT * FROM plain WHERE x0 = 2",
        "CREATE VIRTUAL TABLE f USING rtree(id, lo, hi)",
        "INSERT INTO f VALUES (1, 0.1, 0.1), (2, -0.1, -0.1), (3, 1e30, 1e30), (4, 16777217, 16777217)",
        "SELECT * FROM f",
        "SELECT id FROM f WHERE lo = 16777217 OR hi >= 16777218",
        "INSERT INTO f VALUES (5, 3, 3), (6, 3, 4)",
        "SELECT id FROM f WHERE lo < 3 OR (lo = 3 AND hi > 3)",
        "SELECT id FROM f WHERE (lo, hi) >= (3, 5)",
        "SELECT id FROM f WHERE lo <= 9007199254740993 AND hi > -9007199254740993",
        "DROP TABLE plain",
        "SELECT name, sql FROM sqlite_schema",
    ] {
        both.same(sql);
    }
    let plan = |sql: &str| format!("EXPLAIN QUERY PLAN SELECT * FROM f WHERE {sql}");
    for (condition, words) in [
        ("id = 1", "SCAN f VIRTUAL TABLE INDEX 1:"),
        ("lo >= 1 AND hi < 2", "SCAN f VIRTUAL TABLE INDEX 2:D0C1"),
    ] {
        let got = ours(&mut both.shoal, &plan(condition)).unwrap();
        assert!(got[0].ends_with(words), "{got:?}");
        assert!(theirs(&both.sqlite, &plan(condition)).unwrap()[0].ends_with(words));
    }
}

#[test]
fn statements_and_transactions_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut db = shoal(&path);
    let all = |db: &mut Connection, list: &[&str]| {
        for sql in list {
            ours(db, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    };
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) ";
    let insert =
        format!("{numbers} INSERT INTO r SELECT i, i % 37, i % 37 + 1, i % 11, i % 11 + 2 FROM n");
    let again = format!("{numbers} INSERT INTO r SELECT 1000 - i, i, i + 1, i, i + 1 FROM n");
    all(&mut db, &["CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1)", &insert, "BEGIN"]);
    let before = ours(&mut db, "SELECT * FROM r ORDER BY id").unwrap();
    // The last row is there already: 500 = 1000 - 500.
    let error = ours(&mut db, &again).unwrap_err();
    assert_eq!(error.to_string(), "UNIQUE constraint failed: r.id");
    assert_eq!(ours(&mut db, "SELECT * FROM r ORDER BY id").unwrap(), before);
    all(&mut db, &["SAVEPOINT s", "DELETE FROM r WHERE id % 2", "ROLLBACK TO s"]);
    assert_eq!(ours(&mut db, "SELECT * FROM r ORDER BY id").unwrap(), before);
    all(&mut db, &["DELETE FROM r WHERE id > 20", "ROLLBACK"]);
    assert_eq!(ours(&mut db, "SELECT * FROM r ORDER BY id").unwrap(), before);
    all(&mut db, &["DELETE FROM r WHERE id > 3"]);
    assert_eq!(ours(&mut db, "SELECT * FROM rtreecheck('r')").unwrap(), ["ok"]);
    all(&mut db, &["DELETE FROM r"]);
    assert_eq!(ours(&mut db, "SELECT count(*) FROM r_rowid").unwrap(), ["0"]);
    drop(db);
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(theirs(&sqlite, "SELECT rtreecheck('r')").unwrap(), ["ok"]);
    assert_eq!(theirs(&sqlite, "SELECT count(*) FROM r").unwrap(), ["0"]);
}

/// Many statements behind one savepoint are taken back as a whole, and the largest id is met.
#[test]
fn a_long_savepoint_is_taken_back() {
    let mut both = Both::new();
    both.same("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)");
    both.same("BEGIN");
    for id in 0..200 {
        both.same(&format!("INSERT INTO r VALUES ({id}, {}, {} + 2)", id % 13, id % 13));
    }
    both.same("SAVEPOINT outer_one");
    for round in 0..3 {
        for id in 0..400 {
            let at = id * 7 % 100 + round;
            both.same(&format!("INSERT OR REPLACE INTO r VALUES ({}, {at}, {at} + 3)", id + 100));
            if id == 250 {
                both.same("SAVEPOINT inner_one");
                both.same("DELETE FROM r WHERE id % 3 = 0");
            }
        }
        both.same("ROLLBACK TO inner_one");
        both.same("RELEASE inner_one");
        both.same("SELECT * FROM r");
    }
    both.same("ROLLBACK TO outer_one");
    both.same("SELECT * FROM r");
    both.same("SELECT nodeno, length(data) FROM r_node");
    both.same("INSERT INTO r VALUES (9223372036854775807, 1, 2)");
    both.same("INSERT OR IGNORE INTO r VALUES (9223372036854775807, 3, 4)");
    both.same("SELECT * FROM r WHERE id > 100");
    both.same("COMMIT");
    both.check_ours();
}

/// Queries of `%_node` see the nodes kept in memory by their own transaction.
#[test]
fn shadow_tables_are_current_within_a_transaction() {
    let mut both = Both::new();
    both.same("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)");
    both.same("BEGIN");
    for id in 0..40 {
        both.same(&format!("INSERT INTO r VALUES ({id}, {id}, {id} + 2)"));
        both.same("SELECT n.nodeno, hex(n.data), (SELECT count(*) FROM r_rowid) FROM r_node n");
    }
    both.same("COMMIT");
    both.same("SELECT nodeno, hex(data) FROM r_node");
}

#[test]
fn forged_nodes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for (number, (forge, fault)) in [
        ("UPDATE r_node SET data = zeroblob(3) WHERE nodeno = 1", "too short"),
        ("UPDATE r_node SET data = 'text' WHERE nodeno = 1", "missing"),
        ("DELETE FROM r_node WHERE nodeno > 1", "missing"),
        // More cells than fit.
        ("UPDATE r_node SET data = CAST(x'0001ffff' || substr(data, 5) AS BLOB) WHERE nodeno = 1", "too short"),
        // A depth without end.
        ("UPDATE r_node SET data = CAST(x'ffff' || substr(data, 3) AS BLOB) WHERE nodeno = 1", "depth"),
        // The root below itself.
        ("UPDATE r_node SET data = CAST(substr(data, 1, 4) || x'0000000000000001' || substr(data, 13) AS BLOB) WHERE nodeno = 1", "parents"),
        // A child in two places.
        ("UPDATE r_node SET data = CAST(substr(data, 1, 4) || substr(data, 29, 24) || substr(data, 29) AS BLOB) WHERE nodeno = 1", "parents"),
    ].into_iter().enumerate() {
        let path = path.with_extension(number.to_string());
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite.execute_batch(&format!(
            "CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO r SELECT i, i, i + 1, i % 9, i % 9 + 1 FROM n; {forge};"
        )).unwrap();
        drop(sqlite);
        let mut db = shoal(&path);
        let error = ours(&mut db, "SELECT count(*) FROM r WHERE x0 > -1").unwrap_err();
        assert_eq!(error.result_code().name(), "SQLITE_CORRUPT_VTAB", "{forge}: {error}");
        assert!(error.to_string().contains(fault), "{forge}: {error}");
        let report = ours(&mut db, "SELECT * FROM rtreecheck('r')").unwrap();
        assert_ne!(report, ["ok"], "{forge}");
        // Writers end, too: with an error, or with a tree that is as wrong as before.
        for sql in ["INSERT INTO r VALUES (9999, 1, 2, 3, 4)", "DELETE FROM r WHERE id = 200", "DELETE FROM r WHERE id = 1"] {
            match ours(&mut db, sql) {
                Ok(_) | Err(Error::CorruptVirtual { .. }) => {}
                Err(other) => panic!("{forge}: {sql}: {other}"),
            }
        }
    }
}
