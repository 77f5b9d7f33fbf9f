//! Statements that change many rows leaf by leaf, beside SQLite: rows of many pages, each
//! definition with another reason to leave the short way.

use crate::write_support::{Random, contents, contents_of, run_shoal, run_sqlite, shoal, sqlite};
use shoal_store::vfs::SimVfs;

/// Tables `t` of columns `a`, `b`, `c`, `d`, with their indexes.
const DEFINITIONS: &[&[&str]] = &[
    &["CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d)"],
    &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL, c REAL, d)",
        "CREATE INDEX i ON t (b)",
        "CREATE INDEX j ON t (c DESC, b COLLATE NOCASE)",
    ],
    &[
        "CREATE TABLE t (a, b, c UNIQUE, d)",
        "CREATE INDEX i ON t (d, b, a, c)",
        "CREATE INDEX j ON t (a)",
    ],
    &["CREATE TABLE t (a, b, c, d, PRIMARY KEY (a)) WITHOUT ROWID"],
    &[
        "CREATE TABLE t (b, d REAL, c, a INTEGER, PRIMARY KEY (a DESC, b)) WITHOUT ROWID",
        "CREATE INDEX i ON t (c)",
    ],
    &[
        "CREATE TABLE t (a INT, b TEXT COLLATE NOCASE, c, d, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "CREATE UNIQUE INDEX i ON t (a, d)",
    ],
    &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d)",
        "CREATE INDEX i ON t (b) WHERE c > 10",
        "CREATE INDEX j ON t (a + length(b))",
    ],
    &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c CHECK (c IS NULL OR c <> 77), d NOT NULL \
         ON CONFLICT IGNORE)",
        "CREATE INDEX i ON t (c)",
    ],
    &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b, c, d, e AS (b || c) STORED)",
        "CREATE INDEX i ON t (e)",
    ],
    &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d)",
        "CREATE INDEX i ON t (b)",
        "CREATE TABLE log (a, b)",
        "CREATE TRIGGER r AFTER UPDATE ON t WHEN old.a % 50 = 0 BEGIN INSERT INTO log \
         VALUES (new.a, old.b); DELETE FROM t WHERE a = new.a + 1; END",
    ],
    &[
        "PRAGMA foreign_keys = on",
        "CREATE TABLE p (k INTEGER PRIMARY KEY)",
        "INSERT INTO p VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8)",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d REFERENCES p (k))",
    ],
];

/// Rows from a number on; `t` takes them by `INSERT`.
fn rows(random: &mut Random) -> String {
    let first = random.below(900) as i64 - 100;
    let count = 1 + random.below(700);
    let stride = 1 + random.below(3);
    let texts =
        ["'x' || i % 7", "printf('%.*c', i % 90, 'y')", "i % 13", "upper(hex(i * 7919 % 997))"];
    let others = ["i % 100", "i * 0.5", "NULL", "i % 10 || 'z'", "-i", "i / 3 * 1.0", "x'00'"];
    let long = if random.below(6) == 0 { "printf('%.*c', i % 40 * 60, 'w')" } else { "i % 9" };
    let order = random.pick(&["", " ORDER BY i DESC", " ORDER BY i % 17"]);
    format!(
        "SELECT i, {}, {}, {long} FROM (WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT \
         i + {stride} FROM n LIMIT {count}) SELECT i FROM n){order}",
        random.pick(&texts),
        random.pick(&others),
    )
}

fn condition(random: &mut Random) -> String {
    let low = random.below(900) as i64 - 100;
    match random.below(7) {
        0 => String::new(),
        1 => format!(" WHERE a BETWEEN {low} AND {}", low + random.below(500) as i64),
        2 => format!(" WHERE a % {} = 0", 2 + random.below(40)),
        3 => format!(" WHERE c > {}", random.below(100)),
        4 => format!(" WHERE b = 'x{}'", random.below(8)),
        5 => format!(" WHERE +a IN (SELECT a + 1 FROM t WHERE a % {} = 1)", 2 + random.below(4)),
        _ => format!(" WHERE a > {low}"),
    }
}

/// A statement with one outcome, by whichever index rows are found.
fn statement(random: &mut Random) -> String {
    let or = random.pick(&["", "", "", "OR REPLACE ", "OR IGNORE ", "OR FAIL ", "OR ABORT "]);
    match random.below(12) {
        0..=3 => {
            format!("INSERT {or}INTO t (a, b, c, d) {}", rows(random))
        }
        4 => format!(
            "INSERT {or}INTO t (a, b, c, d) SELECT a + 1000, c, b, d FROM t NOT INDEXED{} ORDER BY a, b, c, d",
            condition(random)
        ),
        5 if random.below(3) == 0 => format!(
            "ALTER TABLE t ADD COLUMN e{} {}",
            random.below(3),
            random.pick(&["", "DEFAULT 5", "REAL DEFAULT 7", "TEXT NOT NULL DEFAULT 'k'"]),
        ),
        5 => "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t NOT INDEXED".to_owned(),
        6 | 7 => format!("DELETE FROM t{}", condition(random)),
        8 => {
            random.pick(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "DELETE FROM t"]).to_owned()
        }
        _ => {
            let sets = [
                "c = c + 1",
                "b = b || 'k'",
                "d = a % 5, c = NULL",
                "c = a",
                "b = 'x' || a % 3",
                "d = printf('%.*c', a % 60, 'v')",
                "a = a + 5000",
                "c = a % 78, d = 1.0",
                "b = NULL",
                "c = 7",
                "d = c",
            ];
            format!("UPDATE {or}t NOT INDEXED SET {}{}", random.pick(&sets), condition(random))
        }
    }
}

fn sequence(seed: u64) {
    let mut random = Random::seeded(seed);
    let vfs = SimVfs::new();
    let (mut ours, theirs) = (shoal(&vfs), sqlite(None));
    // Pages of 512 bytes have no room for the bytes of the codec of the store's tests.
    let least = if std::env::var_os("SHOAL_TEST_CODEC").is_some() { 1024 } else { 512 };
    let size = random.pick(&[512, 1024, 4096]).max(least);
    let mut log = vec![format!("PRAGMA page_size = {size}")];
    if random.below(3) == 0 {
        log.push("PRAGMA auto_vacuum = full".to_owned());
    }
    log.extend(random.pick(DEFINITIONS).iter().map(|&sql| sql.to_owned()));
    for sql in &log {
        let _ = run_sqlite(&theirs, sql);
        run_shoal(&mut ours, sql).unwrap();
    }
    for _ in 0..14 {
        let sql = statement(&mut random);
        log.push(sql);
        let sql = &log[log.len() - 1];
        let (got, expect) = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
        assert_eq!(got, expect, "seed {seed}:\n{}", log.join(";\n"));
        let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
        let (got, expect) = (run_shoal(&mut ours, counts), run_sqlite(&theirs, counts));
        assert_eq!(got, expect, "seed {seed}:\n{}", log.join(";\n"));
    }
    // Savepoints may be open; without any both refuse.
    assert_eq!(run_shoal(&mut ours, "COMMIT").is_ok(), run_sqlite(&theirs, "COMMIT").is_ok());
    let check = run_shoal(&mut ours, "PRAGMA integrity_check").unwrap();
    let expect = run_sqlite(&theirs, "PRAGMA integrity_check").unwrap();
    assert_eq!(check, expect, "seed {seed}:\n{}", log.join(";\n"));
    drop(ours);
    let (got, expect) = (contents_of(&vfs.image()), contents(&theirs));
    assert!(got == expect, "seed {seed}:\n{}", log.join(";\n"));
}

/// More of them with `SHOAL_SEQUENCES`, from another seed on with `SHOAL_SEQUENCES_FROM`.
#[test]
fn random_statements_over_many_rows_agree() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("SHOAL_SEQUENCES_FROM").unwrap_or(0);
    for seed in from..from + number("SHOAL_SEQUENCES").unwrap_or(120) {
        sequence(seed);
    }
}

/// A query reading other tables than the written one gives its rows in parts.
#[test]
fn rows_of_a_query_on_its_way_are_put_in_parts() {
    let definitions = [
        "CREATE TABLE s (id INTEGER PRIMARY KEY, k INT, v TEXT)",
        "CREATE INDEX s_k ON s (k)",
        "WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 6000)
            INSERT INTO s SELECT i, i * 7919 % 500, printf('%.*c', i % 50, 'v') FROM i",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k INT, v TEXT)",
        "CREATE INDEX t_v ON t (v, k)",
        "CREATE TABLE w (k INT, id INT, v, PRIMARY KEY (k, id)) WITHOUT ROWID",
        "CREATE TABLE x (k INT PRIMARY KEY, n INT, v TEXT) WITHOUT ROWID",
        "CREATE INDEX x_n ON x (n, v)",
        "CREATE TABLE u (k INT, v TEXT UNIQUE)",
        "CREATE TABLE log (n INT)",
        "CREATE TABLE g (k INT, v TEXT)",
        "CREATE TRIGGER g_log AFTER INSERT ON g BEGIN INSERT INTO s VALUES (NULL, -1, new.v); END",
    ];
    let statements = [
        "INSERT INTO t SELECT * FROM s",
        "INSERT INTO t (k, v) SELECT k, v || 'x' FROM s WHERE k % 3 = 1 ORDER BY v, id",
        "INSERT OR REPLACE INTO t SELECT a.id + 3000, b.k, a.v FROM s a JOIN s b ON b.k = a.k AND b.id < 900 ORDER BY a.id, b.id",
        "INSERT INTO w SELECT k, id, v FROM s ORDER BY k, id",
        "INSERT OR REPLACE INTO w SELECT k, id, v || 'y' FROM s WHERE id > 2000",
        // The first parts come in the order of the keys, the last ones replace rows out of order.
        "INSERT OR REPLACE INTO x SELECT id, k, v FROM s UNION ALL SELECT 6001 - id, k + 1, v FROM s",
        "INSERT OR IGNORE INTO u SELECT k, v FROM s",
        "INSERT INTO log SELECT count(*) OVER (PARTITION BY k) FROM s ORDER BY 1",
        "INSERT INTO log SELECT k FROM s UNION SELECT -id FROM s UNION ALL SELECT length(v) FROM s
            ORDER BY 1",
        "INSERT INTO log WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 9000)
            SELECT i FROM i",
        "INSERT INTO t SELECT id + 100000, k, v FROM t",
        // By the index the rows would come in another order, and have other rowids.
        "INSERT INTO s SELECT NULL, k, v FROM s WHERE +k < 300",
        "INSERT INTO g SELECT k, v FROM s WHERE id < 3000",
        "INSERT INTO u SELECT k, v || id FROM s WHERE id < 5000 UNION ALL SELECT 1, 'v' || 2 FROM s",
        "CREATE TABLE c AS SELECT s.*, (SELECT count(*) FROM s z WHERE z.k = s.k) n FROM s",
        "CREATE TABLE d AS SELECT k, v, id FROM s WHERE id < 3000",
        "CREATE TABLE e AS SELECT k, group_concat(v) all_of FROM (SELECT * FROM s ORDER BY id) GROUP BY k",
        "INSERT INTO t SELECT id + 400000, k, CASE WHEN id > 5500 THEN abs(-9223372036854775807 - 1) ELSE v END FROM s",
    ];
    for size in [512, 4096] {
        let vfs = SimVfs::new();
        let (mut ours, theirs) = (shoal(&vfs), sqlite(None));
        let page = format!("PRAGMA page_size = {size}");
        let before = [page.as_str(), "PRAGMA auto_vacuum = full"];
        for sql in before.iter().chain(&definitions).chain(&statements) {
            let (got, expect) = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
            assert_eq!(got.is_ok(), expect.is_ok(), "{sql}: {got:?} {expect:?}");
            if got.is_err() {
                // SQLite keeps the last rowid of the rows taken back.
                continue;
            }
            let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
            let (got, expect) = (run_shoal(&mut ours, counts), run_sqlite(&theirs, counts));
            assert_eq!(got, expect, "{sql}");
        }
        let check = run_shoal(&mut ours, "PRAGMA integrity_check").unwrap();
        assert_eq!(check, run_sqlite(&theirs, "PRAGMA integrity_check").unwrap());
        drop(ours);
        let (got, expect) = (contents_of(&vfs.image()), contents(&theirs));
        let other = got.lines().zip(expect.lines()).find(|(got, expect)| got != expect);
        assert!(got == expect, "pages of {size} bytes: {other:?}");
    }
}
