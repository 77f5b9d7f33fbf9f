//! Single rows by parameters within a transaction, the short way to the pages: against SQLite, with
//! values that have to be converted, rows in the way, constraints not met, savepoints taken back.

use crate::write_support::{Random, contents, contents_of, run_shoal, run_sqlite, shoal, sqlite};
use rusqlite::types::Value as Theirs;
use shoal_sql::{Statement, Value};
use shoal_store::vfs::SimVfs;

const TABLES: &[&str] = &[
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT, c REAL)",
    "CREATE TABLE t (a INT, b TEXT COLLATE NOCASE, c, id INTEGER PRIMARY KEY)",
    "CREATE TABLE t (a NUMERIC DEFAULT 5, b TEXT NOT NULL DEFAULT 'x', c REAL DEFAULT 2, id INTEGER)",
    "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a, b TEXT, c BLOB)",
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT CHECK (a <> 3), b TEXT, c REAL) STRICT",
    "CREATE TABLE t (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, a, b TEXT UNIQUE ON CONFLICT IGNORE, c)",
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b TEXT, c, d AS (a + 1))",
    "CREATE TABLE t (id TEXT PRIMARY KEY, a, b TEXT, c) WITHOUT ROWID",
];

const INDEXES: &[&str] = &[
    "CREATE INDEX i ON t (a)",
    "CREATE INDEX i ON t (c DESC, a)",
    "CREATE UNIQUE INDEX i ON t (a, b)",
    "CREATE UNIQUE INDEX j ON t (b COLLATE NOCASE)",
    "CREATE INDEX j ON t (b, id)",
    "CREATE INDEX j ON t (a) WHERE b > 'c'",
    "CREATE INDEX j ON t (a + 1)",
];

const STATEMENTS: &[&str] = &[
    "INSERT INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4)",
    "INSERT INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4)",
    "INSERT INTO t (a, b, c) VALUES (?2, ?3, ?4)",
    "INSERT INTO t (b, id) VALUES (?3, ?1)",
    "INSERT INTO t (rowid, a) VALUES (?1, ?2)",
    "INSERT OR IGNORE INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4)",
    "INSERT OR REPLACE INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4)",
    "INSERT INTO t (id, a, b) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET a = 1000 + ?1",
    "INSERT INTO t DEFAULT VALUES",
    "UPDATE t SET a = ?2 WHERE id = ?1",
    "UPDATE t SET b = ?3, c = ?4 WHERE id = ?1",
    "UPDATE t SET a = a + 1, c = NULL WHERE ?1 = rowid",
    "UPDATE t AS u SET b = b || ?3 WHERE u.id = ?1",
    "UPDATE t SET a = a + 1, b = lower(b) WHERE id = ?1",
    "UPDATE OR REPLACE t SET b = ?3 WHERE id = ?1",
    "UPDATE OR IGNORE t SET a = ?2, b = ?3 WHERE id = ?1",
    "UPDATE t SET c = a + c WHERE id = ?1",
    "UPDATE t SET a = ?2 WHERE id = ?1 AND b = ?3",
    "UPDATE t SET c = c + 1 WHERE a = ?2",
    "DELETE FROM t WHERE id = ?1",
    "DELETE FROM t WHERE rowid = ?1",
    "DELETE FROM t WHERE a = ?2 AND b > ?3",
];

fn parameter(random: &mut Random, place: usize) -> Value {
    let word = |random: &mut Random| {
        let word = random.pick(&["", "a", "A", "b", "c", "ten", "12", "1e1", " 7 "]);
        match random.below(30) {
            0 => word.repeat(900),
            1..8 => format!("{word}{}", random.below(60)),
            _ => word.to_owned(),
        }
    };
    match (place, random.below(20)) {
        (1, 0..14) => Value::Int(random.below(60).cast_signed() - 5),
        (1, 14) => Value::Int(-(1 << 40) - random.below(2).cast_signed()),
        (1 | 2, 15) => Value::Real(random.below(9) as f64),
        (1 | 2, 16) => Value::Real(random.below(9) as f64 + 0.5),
        (3, 0..14) | (1..3, 17) => Value::text(word(random)),
        (4, 0..9) => Value::Real(random.below(40) as f64 / 4.0),
        (_, 18) => Value::Null,
        (_, 19) => Value::Blob(word(random).into_bytes()),
        (4, 14) => Value::Real(f64::NAN),
        _ => Value::Int(random.below(if place == 2 { 40 } else { 1 << 40 }).cast_signed()),
    }
}

fn theirs(value: &Value) -> Theirs {
    match value {
        Value::Null => Theirs::Null,
        Value::Int(int) => Theirs::Integer(*int),
        Value::Real(real) => Theirs::Real(*real),
        Value::Text(text) => Theirs::Text(String::from_utf8(text.clone()).unwrap()),
        Value::Blob(bytes) => Theirs::Blob(bytes.clone()),
    }
}

/// A statement with its parameters' values in their places, as programs write them.
fn written(sql: &str, values: &[Value]) -> String {
    let literal = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Real(real) if real.is_nan() => "NULL".to_owned(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => {
            format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''"))
        }
        Value::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        }
    };
    let places = (1..).map(|place| format!("?{place}"));
    let values = values.iter().map(literal);
    places.zip(values).fold(sql.to_owned(), |sql, (place, value)| sql.replace(&place, &value))
}

/// Runs random texts, which differ in their literals, in both; most have the plan of their shape.
fn compare_texts(seed: u64) -> usize {
    const OTHERS: &[&str] = &[
        "INSERT INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4), (100 + ?1, ?2, ?3, -?1)",
        "INSERT INTO t (id, a, b, c) VALUES (?1, ?2, ?3, ?4) RETURNING b, 5, id",
        "REPLACE INTO \"t\" ([id], `a`) VALUES (?1, -7)",
        "INSERT INTO t (id, a) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET a = excluded.a + 1",
        "UPDATE t SET a = ?2, b = lower(b), c = -2.5 WHERE a = ?2 RETURNING a, 'x'",
        "UPDATE t SET (a, b) = (?2, ?3) WHERE id = ?1 AND (a <> 1 OR b IN ('a', 'b'))",
        "DELETE FROM t WHERE a = ?2 AND b = ?3 RETURNING *",
        "SELECT count(*), max(a), total(c) FROM t WHERE a = ?2",
        "SELECT b, ?2 FROM t WHERE (SELECT 1 WHERE 1 = 1) AND id = ?1",
    ];
    const TRIGGERS: &[&str] = &[
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO told VALUES (new.a, 7); END",
        "CREATE TRIGGER g BEFORE UPDATE OF a ON t WHEN new.a = 5 BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER g AFTER DELETE ON t BEGIN DELETE FROM told WHERE a = old.a; END",
    ];
    let mut random = Random::new(seed);
    let (vfs, peer) = (SimVfs::new(), sqlite(None));
    let mut ours = shoal(&vfs);
    let mut log = Vec::new();
    let mut both = |sql: &str| {
        log.push(sql.to_owned());
        let (got, expect) = (run_shoal(&mut ours, sql), run_sqlite(&peer, sql));
        let is_taken = expect.is_ok();
        assert_eq!(got, expect, "seed {seed}:\n{}", log.join("\n"));
        is_taken
    };
    both("CREATE TABLE told (a, b)");
    both(random.pick(TABLES));
    for _ in 0..random.below(4) {
        both(random.pick(INDEXES));
    }
    if random.below(2) == 0 {
        both(random.pick(TRIGGERS));
    }
    both("BEGIN");
    let mut taken = 0;
    for _ in 0..250 {
        let number = usize::try_from(random.below(60)).unwrap();
        match number {
            0 => both("COMMIT") && both("BEGIN"),
            // Another schema ends all plans.
            1 => both("ALTER TABLE told ADD COLUMN c") && both("ALTER TABLE told DROP COLUMN c"),
            _ => true,
        };
        let statements = if number < 30 { STATEMENTS } else { OTHERS };
        let values: Vec<Value> = (1..=4).map(|place| parameter(&mut random, place)).collect();
        taken += usize::from(both(&written(random.pick(statements), &values)));
        both("SELECT changes(), total_changes(), last_insert_rowid()");
    }
    both("COMMIT");
    drop(ours);
    assert_eq!(contents_of(&vfs.image()), contents(&peer), "seed {seed}:\n{}", log.join("\n"));
    taken
}

#[test]
fn rows_by_texts_that_differ_in_their_literals() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let from = variable("SHOAL_DIRECT_FROM").unwrap_or(1);
    let seeds = from..from + variable("SHOAL_DIRECT").unwrap_or(60);
    let taken: usize = seeds.map(compare_texts).sum();
    assert!(taken > 1_000, "{taken} statements were taken");
}

/// Runs random statements on a random table in both; gives the number of statements that both took.
fn compare(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let (vfs, peer) = (SimVfs::new(), sqlite(None));
    let mut ours = shoal(&vfs);
    let mut log = Vec::new();
    let both = |ours: &mut shoal_sql::Connection, log: &mut Vec<String>, sql: &str| {
        log.push(sql.to_owned());
        let (got, expect) = (run_shoal(ours, sql), run_sqlite(&peer, sql));
        assert_eq!(got, expect, "seed {seed}:\n{}", log.join("\n"));
    };
    both(&mut ours, &mut log, random.pick(TABLES));
    for _ in 0..random.below(4) {
        both(&mut ours, &mut log, random.pick(INDEXES));
    }
    let prepare = |ours: &mut shoal_sql::Connection, sql: &&str| ours.prepare(sql).ok();
    let mut prepared: Vec<Option<Statement>> =
        STATEMENTS.iter().map(|sql| prepare(&mut ours, sql)).collect();
    both(&mut ours, &mut log, "BEGIN");
    let mut taken = 0;
    for _ in 0..250 {
        match random.below(60) {
            0 => both(&mut ours, &mut log, "SAVEPOINT s"),
            1 => both(&mut ours, &mut log, "ROLLBACK TO s"),
            2 => both(&mut ours, &mut log, "RELEASE s"),
            3 => {
                both(&mut ours, &mut log, "COMMIT");
                both(&mut ours, &mut log, "BEGIN");
            }
            _ => {}
        }
        let number = usize::try_from(random.below(STATEMENTS.len() as u64)).unwrap();
        let sql = STATEMENTS[number];
        let values: Vec<Value> = (1..=4).map(|place| parameter(&mut random, place)).collect();
        log.push(format!("{sql} -- {values:?}"));
        let told = |error: String| (error, log.join("\n"));
        let Ok(mut statement) = peer.prepare_cached(sql) else {
            assert!(prepared[number].is_none(), "seed {seed}: {:?}", told(String::new()));
            continue;
        };
        let count = statement.parameter_count();
        for (place, value) in (1..=count).zip(&values) {
            statement.raw_bind_parameter(place, theirs(value)).unwrap();
        }
        let expect = statement.raw_execute().map_err(|error| match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message,
            other => other.to_string(),
        });
        let mine = prepared[number].as_mut().unwrap();
        for (place, value) in (1..=mine.parameter_count()).zip(&values) {
            mine.bind(place, value.clone()).unwrap();
        }
        let got = ours.execute(mine).map_err(|error| error.to_string());
        let got = got.map(|changes| usize::try_from(changes).unwrap());
        assert_eq!(got, expect, "seed {seed}: {:?}", told(String::new()));
        taken += usize::from(expect.is_ok_and(|changes| changes > 0));
        let counts = "SELECT changes(), total_changes(), last_insert_rowid()";
        let (got, expect) = (run_shoal(&mut ours, counts), run_sqlite(&peer, counts));
        assert_eq!(got, expect, "seed {seed}: {:?}", told(String::new()));
    }
    both(&mut ours, &mut log, "COMMIT");
    drop(prepared);
    drop(ours);
    assert_eq!(contents_of(&vfs.image()), contents(&peer), "seed {seed}:\n{}", log.join("\n"));
    taken
}

#[test]
fn rows_by_parameters() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let from = variable("SHOAL_DIRECT_FROM").unwrap_or(1);
    let taken: usize = (from..from + variable("SHOAL_DIRECT").unwrap_or(60)).map(compare).sum();
    assert!(taken > 1_000, "{taken} statements changed rows");
}
