//! Changes of many rows, made together: the same rows, rowids, conflicts and notes as one by one,
//! and as SQLite's session extension.

#![allow(clippy::unwrap_used)]

mod session;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use session::oracle;
use shoal_diff::{Answer, ApplyOptions, Conflict, ConflictKind, apply};
use shoal_sql::Connection;
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};
use shoal_testkit::Random;

/// Tables with the columns `k`, `j`, `a`, `b`, `c`; the key of a row is made of its number.
const TABLES: &[&str] = &[
    "CREATE TABLE t (k INTEGER PRIMARY KEY, j, a INT, b TEXT, c REAL);
     CREATE INDEX t_a ON t (a, c)",
    "CREATE TABLE t (k INT, j TEXT, a, b, c, PRIMARY KEY (j, k))",
    "CREATE TABLE t (k TEXT PRIMARY KEY, j, a INT, b TEXT, c REAL); CREATE INDEX t_a ON t (b DESC)",
    "CREATE TABLE t (k INT, j TEXT, a, b, c, PRIMARY KEY (k DESC, j)) WITHOUT ROWID;
     CREATE INDEX t_a ON t (a); CREATE INDEX t_c ON t (c, b)",
    "CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY, j, a NOT NULL, b, c)",
    "CREATE TABLE t (k TEXT COLLATE NOCASE, j, a, b, c, PRIMARY KEY (k COLLATE BINARY))",
    "CREATE TABLE t (k INTEGER PRIMARY KEY, j, a INT UNIQUE, b TEXT, c REAL)",
    "CREATE TABLE t (k TEXT PRIMARY KEY, j, a INT UNIQUE, b TEXT, c REAL) WITHOUT ROWID",
    "CREATE TABLE t (k REAL PRIMARY KEY, j, a UNIQUE ON CONFLICT REPLACE, b TEXT, c REAL)",
    "CREATE TABLE t (k INTEGER PRIMARY KEY AUTOINCREMENT, j, a, b CHECK (b IS NOT 'b3'), c)",
    "CREATE TABLE t (k BLOB PRIMARY KEY, j, a, b, c); CREATE INDEX t_a ON t (a) WHERE a > 3",
];

/// Nothing happens in them, and rows are changed one by one.
const TRIGGERS: &str = "CREATE TRIGGER i AFTER INSERT ON t WHEN 0 BEGIN SELECT 1; END;
    CREATE TRIGGER u AFTER UPDATE ON t WHEN 0 BEGIN SELECT 1; END;
    CREATE TRIGGER d AFTER DELETE ON t WHEN 0 BEGIN SELECT 1; END;";

fn value(random: &mut Random) -> String {
    match random.below(12) {
        0 => "NULL".to_owned(),
        1 | 2 => random.below(9).to_string(),
        3 => format!("{}.0", random.below(9)),
        4 => format!("{}.5", random.below(9)),
        5 => format!("'{}'", random.below(9)),
        6 => format!("'{}'", "long ".repeat(random.place(300))),
        7 => format!("x'{:02x}'", random.below(256)),
        8 if random.below(4) == 0 => format!("'{}'", "very long ".repeat(random.place(900))),
        8 => random.below(1 << 40).to_string(),
        _ => format!("'b{}'", random.below(9)),
    }
}

/// The key of a number as its two columns; letters of both cases are the same key for `NOCASE`.
fn key(random: &mut Random, table: usize, number: u64) -> (String, String) {
    let letter = random.pick(&["k", "k", "K"]);
    match table {
        0 | 6 | 9 => (number.to_string(), "NULL".to_owned()),
        1 | 3 => ((number / 3).to_string(), format!("'j{}'", number % 3)),
        4 | 5 => (format!("'{letter}{number}'"), "NULL".to_owned()),
        8 => (format!("{number}.25"), "NULL".to_owned()),
        _ => (format!("'{number:04}'"), "NULL".to_owned()),
    }
}

fn statement(random: &mut Random, table: usize, numbers: u64) -> String {
    let number = random.below(numbers);
    let (k, j) = key(random, table, number);
    let (a, b, c) = (value(random), value(random), value(random));
    let is = format!("k = {k} AND j IS {j}");
    match random.below(8) {
        0..=2 => format!("INSERT OR IGNORE INTO t VALUES ({k}, {j}, {a}, {b}, {c})"),
        3 => format!("UPDATE OR IGNORE t SET a = {a} WHERE {is}"),
        4 => format!("UPDATE OR IGNORE t SET b = {b}, c = {c} WHERE {is}"),
        5 => format!("UPDATE OR IGNORE t SET c = {c} WHERE {is}"),
        6 => format!("DELETE FROM t WHERE {is}"),
        _ => format!("DELETE FROM t WHERE k = {k}"),
    }
}

fn script(random: &mut Random, table: usize, numbers: u64, length: usize) -> String {
    let mut all = "BEGIN;".to_owned();
    for _ in 0..length {
        all += &statement(random, table, numbers);
        all += ";\n";
    }
    all + "COMMIT;"
}

fn run(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
}

/// Every row with its rowid, and the checks of the file.
fn content(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let lines = |sql: &str| -> Result<Vec<String>, rusqlite::Error> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let columns = "quote(k) || ' ' || quote(j) || ' ' || quote(a) || ' ' || quote(b) || quote(c)";
    let rows = lines(&format!("SELECT rowid || ': ' || {columns} FROM t ORDER BY rowid"))
        .or_else(|_| lines(&format!("SELECT {columns} FROM t ORDER BY k, j")));
    let mut all = rows.unwrap();
    all.extend(lines("PRAGMA integrity_check").unwrap());
    all
}

/// Compares lines, and shows the first of each side that the other lacks.
#[track_caller]
fn assert_same(found: &[String], expect: &[String], context: &str) {
    let only = |a: &[String], b: &[String]| -> Vec<String> {
        let missing = a.iter().filter(|line| !b.contains(line)).take(5);
        missing.map(|line| line.chars().take(100).collect()).collect()
    };
    let (more, less) = (only(found, expect), only(expect, found));
    if found != expect {
        let cut = |l: &[String]| {
            l.iter()
                .map(|l| format!("{} {}\n", l.chars().take(60).collect::<String>(), l.len()))
                .collect::<String>()
        };
        std::fs::write("/tmp/tr/f.txt", cut(found)).unwrap();
        std::fs::write("/tmp/tr/e.txt", cut(expect)).unwrap();
    }
    assert!(found == expect, "{context}: too much {more:#?}, missing {less:#?}");
}

#[derive(Debug, PartialEq)]
struct Outcome {
    /// As the oracle prints them.
    conflicts: String,
    /// With all values.
    details: String,
    notes: Vec<u8>,
    counts: String,
}

fn applied(path: &Path, changes: &[u8], policy: Answer) -> Outcome {
    let (mut conflicts, mut details) = (String::new(), String::new());
    let mut answer = |conflict: &Conflict<'_>| {
        let kind = match conflict.kind {
            ConflictKind::Data => 1,
            ConflictKind::NotFound => 2,
            ConflictKind::Conflict => 3,
            ConflictKind::Constraint => 4,
        };
        let change = conflict.change;
        writeln!(conflicts, "{kind} {} {}", change.head.table, change.op.byte()).unwrap();
        writeln!(details, "{conflict:?}").unwrap();
        let is_row = matches!(conflict.kind, ConflictKind::Data | ConflictKind::Conflict);
        if is_row || policy != Answer::Replace { policy } else { Answer::Omit }
    };
    let store = Store::open(Arc::new(OsVfs::new()), path, Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    let done = apply(&mut connection, changes, &ApplyOptions::default(), &mut answer);
    let (notes, counts) = match done {
        Ok(done) => {
            let counts = format!("{:?} {} {}", done.counts, done.omitted, done.replaced);
            (done.rebase, counts)
        }
        Err(error) => (Vec::new(), error.to_string()),
    };
    Outcome { conflicts, details, notes, counts }
}

/// Seeds: `SHOAL_MANY_CHANGES` has their number.
fn seeds() -> u64 {
    std::env::var("SHOAL_MANY_CHANGES").map_or(22, |count| count.parse().unwrap())
}

#[test]
fn changes_made_together_are_those_made_one_by_one() {
    let mut conflicts_seen = 0;
    for seed in 0..seeds() {
        let random = &mut Random::seeded(seed);
        let table = (seed % TABLES.len() as u64) as usize;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |name: &str| path(name).to_str().unwrap().to_owned();
        let page_size = random.pick(&[512, 1024, 4096]);
        let numbers = random.pick(&[60, 600, 2000]);
        let base = format!("PRAGMA page_size = {page_size}; {};", TABLES[table])
            + &script(random, table, numbers, numbers as usize);
        run(&path("base"), &base);

        // Recorded against one state, applied to this state and to another.
        let length = numbers as usize / 2;
        let (theirs, ours) =
            (script(random, table, numbers, length), script(random, table, numbers, length / 4));
        std::fs::write(path("script"), &theirs).unwrap();
        let form = random.pick(&["changeset", "changeset", "patchset"]);
        std::fs::copy(path("base"), path("recorded")).unwrap();
        let done =
            oracle(&["record", &text("recorded"), &text("script"), &text("changes"), form, "0"]);
        assert!(done.status.success(), "{done:?}");
        let mut changes = std::fs::read(path("changes")).unwrap();
        std::fs::copy(path("base"), path("other")).unwrap();
        run(&path("other"), &ours);

        for (start, name, policy) in [
            ("base", "omit", Answer::Omit),
            ("other", "omit", Answer::Omit),
            ("other", "replace", Answer::Replace),
        ] {
            let context = format!("seed {seed}, table {table}, {form}, {start}, {name}");
            for copy in ["together", "alone", "sqlite"] {
                std::fs::copy(path(start), path(copy)).unwrap();
            }
            run(&path("alone"), TRIGGERS);
            let together = applied(&path("together"), &changes, policy);
            let alone = applied(&path("alone"), &changes, policy);
            assert_eq!(together, alone, "{context}");
            let found = content(&path("together"));
            assert_same(&found, &content(&path("alone")), &context);
            let done = oracle(&["apply", &text("sqlite"), &text("changes"), name, &text("notes")]);
            assert!(done.status.success(), "{context}: {done:?}");
            assert_eq!(together.conflicts, String::from_utf8(done.stdout).unwrap(), "{context}");
            if form == "changeset" {
                // SQLite notes nothing about patchsets.
                assert_eq!(together.notes, std::fs::read(path("notes")).unwrap(), "{context}");
            }
            assert_same(&found, &content(&path("sqlite")), &context);
            conflicts_seen += together.conflicts.lines().count();
        }

        // Cut off: what comes before the fault is told alike, and nothing is applied.
        changes.truncate(changes.len() - 1 - random.place(changes.len() / 2));
        for copy in ["together", "alone"] {
            std::fs::copy(path("other"), path(copy)).unwrap();
        }
        run(&path("alone"), TRIGGERS);
        let together = applied(&path("together"), &changes, Answer::Omit);
        assert_eq!(together, applied(&path("alone"), &changes, Answer::Omit), "seed {seed}");
        let context = format!("seed {seed}, cut off");
        assert_same(&content(&path("together")), &content(&path("other")), &context);
    }
    assert!(conflicts_seen > 100, "the changes have conflicts: {conflicts_seen}");
}
