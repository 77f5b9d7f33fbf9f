//! Random sequences of definitions and changes, run by Shoal and by SQLite: the same errors, the
//! same rows, and a file SQLite finds whole.

use crate::write_support::{
    Outcome, Random, contents, contents_of, run_shoal, run_sqlite, shoal, sqlite,
};
use shoal_sql::Value;
use shoal_store::vfs::SimVfs;

const TABLES: &[&str] = &["t0", "t1", "t2"];
const COLUMNS: &[&str] = &["a", "b", "c"];

const DEFINITIONS: &[&str] = &[
    "(a, b, c)",
    "(a INTEGER PRIMARY KEY, b TEXT, c REAL)",
    "(a INTEGER PRIMARY KEY, b UNIQUE, c UNIQUE)",
    "(a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT NOT NULL, c DEFAULT 7)",
    "(a INT PRIMARY KEY, b TEXT COLLATE NOCASE UNIQUE, c NUMERIC)",
    "(a TEXT, b INTEGER, c BLOB, PRIMARY KEY (a, b DESC), UNIQUE (c))",
    "(a TEXT PRIMARY KEY, b, c UNIQUE) WITHOUT ROWID",
    "(a INTEGER, b TEXT COLLATE NOCASE, c, PRIMARY KEY (b, a)) WITHOUT ROWID",
    "(a INTEGER PRIMARY KEY DESC, b DEFAULT (1 + 2), c DEFAULT 'x y')",
    "(a CHECK (a > 0), b CONSTRAINT small CHECK (length(b) < 5), c NOT NULL DEFAULT -1.5)",
    "(a UNIQUE ON CONFLICT REPLACE, b UNIQUE ON CONFLICT IGNORE, c NOT NULL ON CONFLICT IGNORE)",
    "(a INTEGER PRIMARY KEY ON CONFLICT REPLACE, b UNIQUE, c UNIQUE ON CONFLICT REPLACE)",
    "(a REFERENCES t1(a), b, c, FOREIGN KEY (b, c) REFERENCES t2)",
    "(a PRIMARY KEY, b UNIQUE, c, UNIQUE (b), UNIQUE (a, b))",
    "(a, b AS (a || 'x'), c AS (length(a)) STORED)",
    "(a INTEGER PRIMARY KEY, b UNIQUE ON CONFLICT FAIL, c UNIQUE ON CONFLICT ROLLBACK)",
    "(a UNIQUE, a2, b)",
    "(a, rowid, b AS (rowid))",
    "(a UNIQUE ON CONFLICT FAIL, b, c, UNIQUE (a))",
];

/// Not among the random sequences: where a type is refused within a transaction, SQLite leaves the
/// statement's earlier rows behind, and Shoal takes them back.
const STRICT: &[&str] = &[
    "(a INT, b TEXT, c ANY) STRICT",
    "(a REAL, b INTEGER, c BLOB) STRICT",
    "(a INTEGER PRIMARY KEY, b REAL, c TEXT NOT NULL) STRICT, WITHOUT ROWID",
];

/// Definitions no table can have.
const CONTRADICTIONS: &[&str] = &[
    "(a, b, b)",
    "(a PRIMARY KEY, b PRIMARY KEY)",
    "(a TEXT) WITHOUT ROWID",
    "(a TEXT PRIMARY KEY AUTOINCREMENT)",
    "(a INTEGER PRIMARY KEY AUTOINCREMENT) WITHOUT ROWID",
    "(a, CHECK (nosuch > 1))",
    "(a CHECK (a > (SELECT 1)))",
    "(a CHECK (a > ?))",
    "(a DEFAULT (a))",
    "(a DEFAULT (abs(?)))",
    "(a COLLATE nosuch)",
    "(a FANCY) STRICT",
    "(a) STRICT",
    "(a, PRIMARY KEY (a || 'x'))",
    "(a, FOREIGN KEY (b) REFERENCES t2)",
    "(a, b, FOREIGN KEY (a, b) REFERENCES t2 (x))",
    "(a AS (1))",
    "(a AS (random()), b)",
    "(a AS (b), b AS (a), c)",
    "(a PRIMARY KEY AS (1), b)",
    "(a CHECK (nosuch(a)))",
    "(a, b AS (a) DEFAULT 3, c)",
    "(a, b DEFAULT 3 AS (a), c)",
    "(a, b AS (rowid), c)",
    "(a, b AS (oid + 1), c)",
    "(a, b AS (t1.a), c)",
    "(a, b AS (abs(main.t1.a)), c)",
    "(a, b AS (sum(a)), c)",
    "(a, b CHECK (count(*) > 1), c)",
    "(a UNIQUE ON CONFLICT FAIL, b, c, UNIQUE (a) ON CONFLICT IGNORE)",
    "(a, b, c, UNIQUE (a, b) ON CONFLICT FAIL, UNIQUE (a, b) ON CONFLICT ABORT)",
    "(a PRIMARY KEY ON CONFLICT FAIL, b, c, UNIQUE (a) ON CONFLICT IGNORE)",
];

const VALUES: &[&str] = &[
    "NULL",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "5",
    "1.5",
    "2.0",
    "'a'",
    "'B'",
    "'b'",
    "'2'",
    "'1.0'",
    "''",
    "x'61'",
    "x''",
    "'longer text'",
    "1e10",
    "'A '",
    "'3x'",
    "-0.0",
    "4 + 3",
    "zeroblob(3000)",
    "abs(-9)",
];

const CONDITIONS: &[&str] = &[
    "",
    "WHERE a = 1",
    "WHERE b > 'a'",
    "WHERE a IS NULL",
    "WHERE c IN (1, 2, 'b')",
    "WHERE a < 3 OR b = 2",
    "WHERE rowid = 2",
    "WHERE a BETWEEN 1 AND 5 AND b IS NOT NULL",
    "WHERE length(b) = 1",
    "WHERE nosuch = 1",
];

/// The conditions of an UPDATE: none that an index serves in another order than the rows'. SQL
/// leaves open the order of the rows, and with `OR IGNORE` or `OR REPLACE` the rows met first win.
const CONDITIONS_OF_UPDATES: &[&str] = &[
    "",
    "WHERE a = 1",
    "WHERE +b > 'a'",
    "WHERE a IS NULL",
    "WHERE +c IN (1, 2, 'b')",
    "WHERE +a < 3 OR +b = 2",
    "WHERE rowid = 2",
    "WHERE +a BETWEEN 1 AND 5 AND +b IS NOT NULL",
    "WHERE length(b) = 1",
    "WHERE nosuch = 1",
];

const OR: &[&str] = &["", "", "", "OR IGNORE", "OR REPLACE", "OR ABORT", "OR FAIL", "OR ROLLBACK"];

fn statement(random: &mut Random) -> String {
    let table = random.pick(TABLES);
    match random.below(36) {
        30 => format!(
            "INSERT INTO {table} VALUES ({}, {}, {}) ON CONFLICT {} RETURNING *",
            random.pick(VALUES),
            random.pick(VALUES),
            random.pick(VALUES),
            random.pick(&[
                "DO NOTHING",
                "(a) DO UPDATE SET b = excluded.b || 'u'",
                "(b) DO UPDATE SET c = excluded.c, a = a + 50 WHERE c IS NOT excluded.c",
                "(c) DO UPDATE SET (a, b) = (SELECT excluded.a, 'v') ON CONFLICT DO NOTHING",
            ])
        ),
        31 => format!(
            "UPDATE {} {table} SET c = o.a FROM (SELECT a, b FROM {} ORDER BY a) AS o WHERE o.b IS {table}.b AND o.a = 2 RETURNING b",
            random.pick(OR),
            random.pick(TABLES)
        ),
        32 => format!("DELETE FROM {table} {} RETURNING a, c", random.pick(CONDITIONS)),
        33 => {
            let when = random.pick(&["BEFORE", "AFTER"]);
            let what = random.pick(&["INSERT", "UPDATE", "DELETE", "UPDATE OF a, c"]);
            let row = if what == "INSERT" { "new" } else { "old" };
            let other = random.pick(TABLES);
            let step = match random.below(5) {
                0 => format!("INSERT OR IGNORE INTO {other} (a, b) VALUES ({row}.a, 'fired')"),
                1 => format!("UPDATE {other} SET c = {row}.b WHERE a = 3"),
                2 => format!("DELETE FROM {other} WHERE b = {row}.c"),
                3 => format!("SELECT RAISE(IGNORE) WHERE {row}.a = 5"),
                _ => format!("SELECT RAISE(ABORT, 'no') WHERE {row}.a = 'B'"),
            };
            let name = random.pick(&["r0", "r1"]);
            format!("CREATE TRIGGER {name} {when} {what} ON {table} BEGIN {step}; END")
        }
        34 => format!("DROP TRIGGER IF EXISTS {}", random.pick(&["r0", "r1"])),
        35 => format!(
            "WITH w (x) AS (SELECT 3) UPDATE {table} SET b = (SELECT x FROM w) WHERE a IN w"
        ),
        0 | 1 => format!("CREATE TABLE {table} {}", random.pick(DEFINITIONS)),
        2 => format!(
            "create table IF NOT EXISTS  \"{table}\" /* c */ {} ;",
            random.pick(DEFINITIONS)
        ),
        3 | 4 => {
            let unique = random.pick(&["", "UNIQUE "]);
            let name = random.pick(&["i0", "i1", "t1"]);
            let columns = match random.below(8) {
                5 => "length(b), a".to_owned(),
                6 => "a || c COLLATE NOCASE DESC".to_owned(),
                7 => "b) WHERE (a IS NOT NULL".to_owned(),
                0 => "a".to_owned(),
                1 => "b DESC, a".to_owned(),
                2 => "c COLLATE NOCASE".to_owned(),
                3 => "c, b COLLATE RTRIM DESC".to_owned(),
                _ => random.pick(COLUMNS).to_owned(),
            };
            format!("CREATE {unique}INDEX {name} ON {table} ({columns}) ; ")
        }
        5 => format!("DROP TABLE {}{table}", random.pick(&["", "IF EXISTS "])),
        6 => {
            format!("DROP INDEX {}{}", random.pick(&["", "IF EXISTS "]), random.pick(&["i0", "i1"]))
        }
        7 => random
            .pick(&[
                "BEGIN",
                "COMMIT",
                "ROLLBACK",
                "BEGIN IMMEDIATE",
                "SAVEPOINT s",
                "RELEASE s",
                "ROLLBACK TO s",
            ])
            .to_owned(),
        8..=11 => {
            let set = match random.below(4) {
                0 => format!("a = a + {}", random.pick(&["1", "-1", "10"])),
                1 => format!("b = {}, c = a", random.pick(VALUES)),
                2 => format!("(a, c) = ({}, b)", random.pick(VALUES)),
                _ => format!("{} = {}", random.pick(COLUMNS), random.pick(VALUES)),
            };
            let (or, condition) = (random.pick(OR), random.pick(CONDITIONS_OF_UPDATES));
            format!("UPDATE {or} {table} SET {set} {condition}")
        }
        12 | 13 => format!("DELETE FROM {table} {}", random.pick(CONDITIONS)),
        14 => {
            let other = random.pick(TABLES);
            format!(
                "INSERT {} INTO {table} SELECT * FROM {other} ORDER BY 1, 2, 3",
                random.pick(OR)
            )
        }
        15 if random.below(2) == 0 => format!("INSERT INTO {table} DEFAULT VALUES RETURNING *"),
        15 => format!("REINDEX {}", random.pick(&["", "i0", "t1", "NOCASE", "t0"])),
        16 => format!(
            "INSERT INTO {table} (b, a) SELECT c, a FROM {} {} ORDER BY 1, 2",
            random.pick(TABLES),
            random.pick(CONDITIONS)
        ),
        17 => format!(
            "REPLACE INTO {table} VALUES ({}, {}, {})",
            random.pick(VALUES),
            random.pick(VALUES),
            random.pick(VALUES)
        ),
        _ => {
            let rows = random.below(3) + 1;
            let three = random.below(8) > 0;
            let columns = if three {
                random.pick(&["", "", "(c, b, a)", "(a, b, nosuch)"])
            } else {
                random.pick(&["(b)", "(rowid)", "(c, oid)"])
            };
            let width = columns.split(',').count();
            let width = if columns.is_empty() { 3 } else { width };
            let rows: Vec<String> = (0..rows)
                .map(|_| {
                    let values: Vec<&str> = (0..width).map(|_| random.pick(VALUES)).collect();
                    format!("({})", values.join(", "))
                })
                .collect();
            format!("INSERT {} INTO {table} {columns} VALUES {}", random.pick(OR), rows.join(", "))
        }
    }
}

/// True for a message Shoal may give where SQLite succeeds.
fn is_refusal(message: &str) -> bool {
    message.starts_with("not supported")
}

/// Contents without the counters of `AUTOINCREMENT` at 0, and without the rowids of the other
/// counters: SQLite makes a counter for every table a trigger could insert into, even without an
/// insert.
fn without_idle_counters(contents: &str) -> String {
    let mut out = String::new();
    let mut counters = false;
    for line in contents.lines() {
        if line.starts_with("SELECT ") {
            counters = line.contains("sqlite_sequence");
        } else if counters {
            match line.split_once(" | ") {
                Some((_, counter)) if !counter.ends_with("Int(0)") => out.push_str(counter),
                _ => continue,
            }
            out.push('\n');
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn sequence(seed: u64) {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    let mut random = Random::seeded(seed);
    let mut log = Vec::new();
    for _ in 0..60 {
        let sql = statement(&mut random);
        let mut got = run_shoal(&mut ours, &sql);
        if got.as_ref().is_err_and(|message| is_refusal(message)) {
            break;
        }
        let mut expect = run_sqlite(&theirs, &sql);
        // SQL leaves open the order of changed rows, and so of returned ones.
        for rows in [&mut got, &mut expect].into_iter().flatten() {
            rows.sort_by_key(|row| format!("{row:?}"));
        }
        log.push(sql);
        let unknown = |outcome: &Outcome| {
            outcome.as_ref().is_err_and(|message| message.starts_with("no such column"))
        };
        // Of two unknown columns either may be named.
        let same = got == expect || (unknown(&got) && unknown(&expect));
        assert!(same, "seed {seed}: {got:?}, sqlite {expect:?}:\n{}", log.join("\n"));
        let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
        let (got, expect) = (run_shoal(&mut ours, counts), run_sqlite(&theirs, counts));
        assert_eq!(got, expect, "seed {seed}:\n{}", log.join("\n"));
    }
    // An open transaction counts for neither.
    let _ = run_sqlite(&theirs, "ROLLBACK");
    drop(ours);
    let (got, expect) = (contents_of(&vfs.image()), contents(&theirs));
    let (got, expect) = (without_idle_counters(&got), without_idle_counters(&expect));
    assert!(got == expect, "seed {seed}:\n{}\n\n{got}\nsqlite:\n{expect}", log.join("\n"));
}

/// Hours of it: `SHOAL_SEQUENCES=1000000 cargo test -p shoal-sql --test it
/// write_sequences::random -- --nocapture`; with `SHOAL_SEQUENCES_FROM` from another seed on.
#[test]
fn random_sequences_agree() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("SHOAL_SEQUENCES_FROM").unwrap_or(0);
    let count = number("SHOAL_SEQUENCES").unwrap_or(150);
    for seed in from..from + count {
        if seed % 1000 == 999 {
            println!("{} sequences agree", seed + 1 - from);
        }
        sequence(seed);
    }
}

/// A table of every definition, filled, indexed and changed.
#[test]
fn each_definition_agrees() {
    for (number, definition) in DEFINITIONS.iter().chain(STRICT).chain(CONTRADICTIONS).enumerate() {
        let vfs = SimVfs::new();
        let mut ours = shoal(&vfs);
        let theirs = sqlite(None);
        let mut random = Random::seeded(number as u64);
        let mut statements = vec![format!("CREATE TABLE t1 {definition}")];
        for _ in 0..40 {
            let or = random.pick(OR);
            let value = |random: &mut Random| random.pick(VALUES);
            statements.push(format!(
                "INSERT {or} INTO t1 VALUES ({}, {}, {})",
                value(&mut random),
                value(&mut random),
                value(&mut random)
            ));
        }
        statements.push("CREATE INDEX i1 ON t1 (b, c DESC)".to_owned());
        statements.push("UPDATE t1 SET c = 'z' WHERE a > 1".to_owned());
        statements.push("DELETE FROM t1 WHERE b IS NULL".to_owned());
        for sql in &statements {
            assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{definition}: {sql}");
        }
        drop(ours);
        assert_eq!(contents_of(&vfs.image()), contents(&theirs), "{definition}");
    }
}

/// Rowids given by two names, counters set, views naming a common table twice: findings of other
/// people's test files.
#[test]
fn odd_statements_agree() {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    for sql in [
        "CREATE TABLE u (x, y INTEGER PRIMARY KEY, z)",
        "INSERT INTO u (z, x, y, rowid) VALUES (1, 2, 3, 4), (5, 6, 7, 8)",
        "INSERT INTO u (z, x, rowid, y) VALUES (-1, -2, -3, -4)",
        "INSERT INTO u (oid, rowid, _rowid_) VALUES (60, 61, NULL), (70, 71, 72)",
        "SELECT rowid, * FROM u",
        "CREATE TABLE s (x INTEGER PRIMARY KEY AUTOINCREMENT, y)",
        "INSERT INTO s (y) VALUES ('a'), ('b')",
        "UPDATE sqlite_sequence SET seq = '5abc' WHERE name = 's'",
        "INSERT INTO s VALUES (3, 'below')",
        "SELECT typeof(seq), seq FROM sqlite_sequence",
        "INSERT INTO s (y) VALUES ('c')",
        "SELECT typeof(seq), seq FROM sqlite_sequence",
        "DELETE FROM sqlite_sequence",
        "INSERT INTO s (y) VALUES ('d')",
        "INSERT INTO sqlite_sequence VALUES ('s', 70), ('gone', 7)",
        "INSERT INTO s (y) VALUES ('e')",
        "SELECT * FROM s",
        "SELECT rowid, * FROM sqlite_sequence",
        "CREATE INDEX i ON sqlite_sequence (seq)",
        "DROP TABLE sqlite_sequence",
        "CREATE VIEW v AS WITH c AS (SELECT 1), C AS (SELECT 2) SELECT 3",
        "CREATE VIEW v AS SELECT (WITH c AS (SELECT 1), c AS (SELECT 2) SELECT 3)",
        "SELECT lower(*) OVER () FROM s",
        "SELECT lower(1, 2, 3) OVER () FROM s",
        "SELECT count(1, 2) OVER () FROM s",
        "SELECT nosuch(*) OVER () FROM s",
        // Dates of constants are the same for every row.
        "CREATE TABLE g (a, b AS (date('2020-01-02')), c AS (strftime('%Y', 2460000.5, '+1 month')) STORED)",
        "INSERT INTO g VALUES (1)",
        "SELECT * FROM g",
    ] {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    }
    drop(ours);
    assert_eq!(contents_of(&vfs.image()), contents(&theirs));
}

/// Enough rows for every b-tree to split, deleted in another order than inserted.
#[test]
fn many_rows_agree() {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    let mut both = |sql: &str| {
        assert_eq!(run_shoal(&mut ours, sql), run_sqlite(&theirs, sql), "{sql}");
    };
    both("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c REAL)");
    both("CREATE TABLE w (a TEXT PRIMARY KEY, b, c UNIQUE) WITHOUT ROWID");
    both("CREATE INDEX tc ON t (c DESC, b COLLATE NOCASE)");
    both("BEGIN");
    for row in 0..3000u64 {
        let key = row.wrapping_mul(7919) % 3001;
        both(&format!("INSERT INTO t VALUES ({key}, 'text {}', {})", key * 3, key % 17));
        both(&format!("INSERT INTO w VALUES ('{key:x}', zeroblob({}), {row})", row % 90));
    }
    both("COMMIT");
    both("CREATE INDEX wb ON w (b)");
    both("UPDATE t SET b = b || '!', c = c / 2 WHERE a % 3 = 0");
    both("DELETE FROM t WHERE a % 2 = 1");
    both("DELETE FROM w WHERE c % 5 <> 0");
    both("SELECT count(*), sum(a), max(b) FROM t");
    drop(ours);
    assert_eq!(contents_of(&vfs.image()), contents(&theirs));
}

#[test]
fn values_survive_exactly() {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    run_shoal(&mut ours, "CREATE TABLE t (a, b REAL)").unwrap();
    let mut insert = ours.prepare("INSERT INTO t VALUES (?1, ?2)").unwrap();
    let values = [
        Value::Text(vec![0xff, 0, b'x']),
        Value::Int(i64::MIN),
        Value::Real(1e300),
        Value::Blob(vec![0; 100_000]),
        Value::Null,
    ];
    for value in &values {
        insert.bind(1, value.clone()).unwrap();
        insert.bind(2, Value::Int(3)).unwrap();
        ours.execute(&mut insert).unwrap();
    }
    let rows = run_shoal(&mut ours, "SELECT a, b FROM t").unwrap();
    let expect: Vec<Vec<Value>> =
        values.iter().map(|value| vec![value.clone(), Value::Real(3.0)]).collect();
    assert_eq!(rows, expect);
}
