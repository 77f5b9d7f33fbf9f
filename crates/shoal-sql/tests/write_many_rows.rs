//! Statements that change many rows leaf by leaf, beside SQLite: rows of many pages, each
//! definition with another reason to leave the short way.

#![allow(clippy::unwrap_used)]

mod write_support;

use shoal_store::vfs::SimVfs;
use write_support::{Random, contents, contents_of, run_shoal, run_sqlite, shoal, sqlite};

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

/// A statement whose outcome does not depend on the index that finds rows.
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
    // Pages of 512 bytes have no room for what the codec of the store's tests adds.
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
