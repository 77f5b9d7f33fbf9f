//! Differences and changesets exchanged with SQLite's session extension, both ways, at random.

#![allow(clippy::unwrap_used)]

mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use session::oracle;
use shoal_diff::{
    Answer, ApplyOptions, Changes, Conflict, ConflictKind, DiffOptions, Form, Op, Reader, Recorder,
    SqlText, Summary,
};
use shoal_sql::{Connection, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Mode, Store};
use shoal_testkit::Random;

const TABLES: &str = "
    CREATE TABLE one (id INTEGER PRIMARY KEY, a, b TEXT, c REAL);
    CREATE TABLE two (b, a, c INT, d BLOB, PRIMARY KEY (c, a)) WITHOUT ROWID;
    CREATE TABLE three (a TEXT, b INT, c, PRIMARY KEY (b, a));
    CREATE TABLE four (x, y);
    CREATE TABLE five (k TEXT COLLATE NOCASE PRIMARY KEY, u INT UNIQUE, g AS (u + 1), v DEFAULT 'd');
    CREATE INDEX one_a ON one (a);";

fn value(random: &mut Random) -> String {
    match random.below(9) {
        0 => "NULL".to_owned(),
        1 => random.below(5).to_string(),
        2 => format!("{}.5", random.below(5)),
        3 => format!("{}.0", random.below(5)),
        4 => format!("x'{:02x}'", random.below(256)),
        5 => format!("'{}'", "long ".repeat(random.place(2000))),
        6 => format!("-{}", random.below(u64::MAX >> 2)),
        7 => "'it''s\n\"so\"'".to_owned(),
        _ => format!("'t{}'", random.below(9)),
    }
}

/// A statement; some are refused by a constraint, and leave no change behind.
fn statement(random: &mut Random) -> String {
    let (v, w) = (value(random), value(random));
    let (id, key) = (random.below(60), random.below(12));
    let (small, letter) = (random.below(6), random.pick(&["a", "A", "b", "B", "c"]));
    match random.below(16) {
        0 | 1 => format!("INSERT OR IGNORE INTO one VALUES ({id}, {v}, {w}, {key})"),
        2 => format!("UPDATE one SET a = {v} WHERE id % 7 = {small}"),
        3 => format!("DELETE FROM one WHERE id = {id}"),
        4 => format!("INSERT OR REPLACE INTO two VALUES ({v}, '{letter}', {small}, {w})"),
        5 => format!("UPDATE two SET d = {v}, b = {w} WHERE c = {small}"),
        6 => format!("DELETE FROM two WHERE c = {small} AND a = '{letter}'"),
        7 => format!("INSERT OR IGNORE INTO three VALUES ('{letter}', {small}, {v})"),
        8 => format!("UPDATE OR IGNORE three SET b = {small}, c = {v} WHERE b = {key}"),
        9 => format!("DELETE FROM three WHERE b = {small}"),
        10 => format!("INSERT INTO four VALUES ({v}, {w})"),
        11 => format!("DELETE FROM four WHERE rowid % 5 = {small}"),
        12 => {
            format!("INSERT OR REPLACE INTO five (k, u, v) VALUES ('k{small}', {key}, {v})")
        }
        13 => format!("UPDATE OR IGNORE five SET u = {key} WHERE k = 'k{small}'"),
        14 => format!("UPDATE one SET c = {key}, b = {v} WHERE id BETWEEN {id} AND {id} + 3"),
        _ => format!("DELETE FROM five WHERE u = {key}"),
    }
}

fn script(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| statement(random) + ";\n").collect()
}

fn run_in_sqlite(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
}

/// Every row of every table, as SQLite quotes it.
fn content(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let lines = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut all = lines(
        "SELECT type || name || sql FROM sqlite_schema WHERE sql NOT NULL AND name <> 'sqlite_sequence' ORDER BY 1",
    );
    let quoted =
        |columns: &str| columns.split(' ').map(|it| format!("quote({it})")).collect::<Vec<_>>();
    for (table, columns) in [
        ("one", "id a b c"),
        ("two", "b a c d"),
        ("three", "a b c"),
        ("four", "rowid x y"),
        ("five", "k u g v"),
    ] {
        let row = quoted(columns).join("||','||");
        all.extend(lines(&format!("SELECT '{table} ' || {row} FROM {table} ORDER BY 1")));
    }
    all.extend(lines("PRAGMA integrity_check"));
    all
}

/// Compares lists of lines, and shows lines of one list alone.
#[track_caller]
fn assert_same(found: &[String], expect: &[String], context: &str) {
    let only = |a: &[String], b: &[String]| -> Vec<String> {
        let missing = a.iter().filter(|line| !b.contains(line));
        missing.map(|line| line.chars().take(200).collect()).collect()
    };
    let (more, less) = (only(found, expect), only(expect, found));
    assert!(found == expect, "{context}: too much {more:#?}, missing {less:#?}");
}

/// Without the tables left out of changesets.
fn keyed(content: Vec<String>) -> Vec<String> {
    content.into_iter().filter(|line| !line.starts_with("four ")).collect()
}

fn open(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs::new()), path, Access::Create).unwrap();
    Connection::open(store).unwrap()
}

struct Case {
    folder: tempfile::TempDir,
    random: Random,
}

impl Case {
    fn new(seed: u64) -> Case {
        Case { folder: tempfile::tempdir().unwrap(), random: Random::seeded(seed) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn base(&mut self, name: &str) {
        let sql = TABLES.to_owned() + &script(&mut self.random, 120);
        run_in_sqlite(&self.path(name), &sql);
    }

    fn copy(&self, from: &str, to: &str) -> PathBuf {
        std::fs::copy(self.path(from), self.path(to)).unwrap();
        self.path(to)
    }

    /// SQLite runs a script in a copy, and records.
    fn recorded(&self, from: &str, to: &str, sql: &str, form: &str) -> Vec<u8> {
        self.copy(from, to);
        std::fs::write(self.path("script"), sql).unwrap();
        let words = ["record", &self.text(to), &self.text("script"), &self.text("out"), form, "0"];
        let done = oracle(&words);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read(self.path("out")).unwrap()
    }

    /// SQLite applies; gives the conflicts and the notes.
    fn sqlite_applies(&self, name: &str, changes: &[u8], policy: &str) -> (String, Vec<u8>) {
        std::fs::write(self.path("in"), changes).unwrap();
        let words = ["apply", &self.text(name), &self.text("in"), policy, &self.text("notes")];
        let done = oracle(&words);
        assert!(done.status.success(), "{:?}", done);
        let conflicts = String::from_utf8(done.stdout).unwrap();
        (conflicts, std::fs::read(self.path("notes")).unwrap())
    }

    fn sqlite_converts(&self, verb: &str, inputs: &[&[u8]]) -> Vec<u8> {
        let mut words = vec![verb.to_owned()];
        for (number, input) in inputs.iter().enumerate() {
            let name = format!("in{number}");
            std::fs::write(self.path(&name), input).unwrap();
            words.push(self.text(&name));
        }
        words.push(self.text("out"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = oracle(&words);
        assert!(done.status.success(), "{verb}: {:?}", done);
        std::fs::read(self.path("out")).unwrap()
    }

    fn differences(&self, a: &str, b: &str, form: Form) -> Vec<u8> {
        let mut changes = Changes::new(form, false);
        let (mut a, mut b) = (open(&self.path(a)), open(&self.path(b)));
        shoal_diff::diff(&mut a, &mut b, &DiffOptions::default(), &mut changes).unwrap();
        changes.finish()
    }
}

/// The changes, sorted: their order within a table is free.
fn sorted(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes);
    let mut all = Vec::new();
    while let Some(change) = reader.next().unwrap() {
        let record = |values: &[Option<shoal_sql::ValueRef<'_>>]| {
            values.iter().map(|value| value.map(Value::from)).collect::<Vec<_>>()
        };
        let (old, new) = (record(change.old), record(change.new));
        all.push(format!("{} {:?} {old:?} {new:?}", change.head.table, change.op));
    }
    all.sort();
    all
}

fn shoal_applies(path: &Path, changes: &[u8], policy: Answer) -> (String, Vec<u8>) {
    let mut conflicts = String::new();
    let mut answer = |conflict: &Conflict<'_>| {
        let kind = match conflict.kind {
            ConflictKind::Data => 1,
            ConflictKind::NotFound => 2,
            ConflictKind::Conflict => 3,
            ConflictKind::Constraint => 4,
        };
        let (table, op) = (&conflict.change.head.table, conflict.change.op.byte());
        conflicts += &format!("{kind} {table} {op}\n");
        let is_row = matches!(conflict.kind, ConflictKind::Data | ConflictKind::Conflict);
        if is_row || policy != Answer::Replace { policy } else { Answer::Omit }
    };
    let mut connection = open(path);
    let done = shoal_diff::apply(&mut connection, changes, &ApplyOptions::default(), &mut answer);
    let done = done.unwrap();
    drop(connection);
    (conflicts, done.rebase)
}

fn rounds() -> u64 {
    std::env::var("SHOAL_EXCHANGES").map_or(5, |count| count.parse().unwrap())
}

#[test]
fn what_sqlite_records_shoal_applies_and_the_other_way_around() {
    for seed in 0..rounds() {
        let mut case = Case::new(seed);
        case.base("a");
        let sql = script(&mut case.random, 80);
        for (name, form) in [("changeset", Form::Changeset), ("patchset", Form::Patchset)] {
            let recorded = case.recorded("a", "b", &sql, name);
            let expect = keyed(content(&case.path("b")));
            let target = case.copy("a", "c");
            assert_eq!(shoal_applies(&target, &recorded, Answer::Abort).0, "");
            assert_same(
                &keyed(content(&target)),
                &expect,
                &format!("seed {seed}, {name} of SQLite"),
            );

            let ours = case.differences("a", "b", form);
            assert_same(&sorted(&ours), &sorted(&recorded), &format!("seed {seed}, {name}"));
            let target = case.copy("a", "c");
            assert_eq!(case.sqlite_applies("c", &ours, "abort").0, "");
            assert_same(
                &keyed(content(&target)),
                &expect,
                &format!("seed {seed}, {name} of Shoal"),
            );
        }
    }
}

#[test]
fn a_difference_as_sql_makes_the_second_file_of_the_first() {
    for seed in 100..100 + rounds() {
        let mut case = Case::new(seed);
        case.base("a");
        case.copy("a", "b");
        let mut sql = script(&mut case.random, 80);
        sql += "CREATE VIEW v AS SELECT * FROM one; DROP INDEX one_a;
            CREATE TRIGGER t AFTER INSERT ON one BEGIN DELETE FROM three; END;
            CREATE TABLE six (id INTEGER PRIMARY KEY AUTOINCREMENT, x);
            INSERT INTO six (x) VALUES (1), (2); DELETE FROM six WHERE id = 2; PRAGMA user_version = 7;";
        run_in_sqlite(&case.path("b"), &sql);
        for (from, to) in [("a", "b"), ("b", "a")] {
            let (mut a, mut b) = (open(&case.path(from)), open(&case.path(to)));
            let mut text = SqlText::new(Vec::new());
            shoal_diff::diff(&mut a, &mut b, &DiffOptions::default(), &mut text).unwrap();
            let text = String::from_utf8(text.finish().unwrap()).unwrap();
            drop(a);
            let target = case.copy(from, "c");
            run_in_sqlite(&target, &text);
            assert_same(&content(&target), &content(&case.path(to)), &format!("seed {seed}"));
            let mut rest = Summary::default();
            let mut c = open(&target);
            shoal_diff::diff(&mut c, &mut b, &DiffOptions::default(), &mut rest).unwrap();
            assert!(rest.tables.is_empty() && rest.schema.is_empty(), "seed {seed}: {rest:?}");
        }
    }
}

#[test]
fn a_text_with_a_nul_is_the_same_text_in_every_encoding() {
    for encoding in ["UTF-8", "UTF-16le", "UTF-16be"] {
        let case = Case::new(0);
        let table = format!("PRAGMA encoding = '{encoding}'; CREATE TABLE four (x, y);");
        run_in_sqlite(&case.path("a"), &(table + "INSERT INTO four VALUES ('old' || char(0), 1);"));
        case.copy("a", "b");
        let sql = "UPDATE four SET x = char(0) || 'é\\0' || char(0, 10, 0);
            INSERT INTO four VALUES (char(0), 'it''s' || char(0));";
        run_in_sqlite(&case.path("b"), sql);
        let (mut a, mut b) = (open(&case.path("a")), open(&case.path("b")));
        let mut text = SqlText::new(Vec::new());
        shoal_diff::diff(&mut a, &mut b, &DiffOptions::default(), &mut text).unwrap();
        let text = String::from_utf8(text.finish().unwrap()).unwrap();
        drop((a, b));
        run_in_sqlite(&case.path("a"), &text);
        let hex = |name: &str| -> Vec<String> {
            let connection = rusqlite::Connection::open(case.path(name)).unwrap();
            let sql = "SELECT typeof(x) || hex(x) || hex(y) FROM four ORDER BY rowid";
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(hex("a"), hex("b"), "{encoding}: {text}");
    }
}

#[test]
fn a_recorder_gives_what_a_session_gives() {
    for seed in 200..200 + rounds() {
        let mut case = Case::new(seed);
        case.base("a");
        let mut sql = script(&mut case.random, 20);
        sql += "SAVEPOINT s;\n";
        sql += &script(&mut case.random, 10);
        sql += "ROLLBACK TO s; RELEASE s;\n";
        sql += &script(&mut case.random, 20);
        for (name, form) in [("changeset", Form::Changeset), ("patchset", Form::Patchset)] {
            let expect = case.recorded("a", "b", &sql, name);
            let mut connection = open(&case.copy("a", "c"));
            let recorder = Recorder::start(&mut connection).unwrap();
            for text in sql.split_inclusive(";\n") {
                for place in shoal_sql::Statements::new(text) {
                    let mut statement = connection.prepare(&text[place]).unwrap();
                    connection.execute(&mut statement).unwrap();
                }
            }
            let ours = recorder.changes(&mut connection, form).unwrap();
            recorder.stop(&mut connection);
            assert_same(&sorted(&ours), &sorted(&expect), &format!("seed {seed}, {name}"));
        }
    }
}

#[test]
fn inverted_and_joined_changesets_are_sqlites() {
    for seed in 300..300 + rounds() {
        let mut case = Case::new(seed);
        case.base("a");
        let (first, second) = (script(&mut case.random, 40), script(&mut case.random, 40));
        let one = case.recorded("a", "b", &first, "changeset");
        let two = case.recorded("b", "c", &second, "changeset");
        let inverted = shoal_diff::invert(&one).unwrap();
        assert_eq!(inverted, case.sqlite_converts("invert", &[&one]), "seed {seed}");
        let target = case.copy("b", "d");
        assert_eq!(shoal_applies(&target, &inverted, Answer::Abort).0, "");
        assert_same(
            &keyed(content(&target)),
            &keyed(content(&case.path("a"))),
            &format!("seed {seed}"),
        );

        let both = shoal_diff::concat(&one, &two).unwrap();
        let expect = case.sqlite_converts("concat", &[&one, &two]);
        assert_same(&sorted(&both), &sorted(&expect), &format!("seed {seed}"));
        let target = case.copy("a", "d");
        assert_eq!(shoal_applies(&target, &both, Answer::Abort).0, "");
        assert_same(
            &keyed(content(&target)),
            &keyed(content(&case.path("c"))),
            &format!("seed {seed}"),
        );
        let one = case.recorded("a", "b", &first, "patchset");
        let two = case.recorded("b", "c", &second, "patchset");
        let expect = case.sqlite_converts("concat", &[&one, &two]);
        assert_eq!(sorted(&shoal_diff::concat(&one, &two).unwrap()), sorted(&expect));
    }
}

#[test]
fn conflicts_are_sqlites_and_so_is_a_rebase() {
    for seed in 400..400 + rounds() {
        let mut case = Case::new(seed);
        case.base("a");
        let (theirs, ours) = (script(&mut case.random, 40), script(&mut case.random, 40));
        let remote = case.recorded("a", "b", &theirs, "changeset");
        let local = case.recorded("a", "c", &ours, "changeset");
        for (name, policy) in [("omit", Answer::Omit), ("replace", Answer::Replace)] {
            let (sqlites, shoals) = (case.copy("c", "d"), case.copy("c", "e"));
            let (expect, expect_notes) = case.sqlite_applies("d", &remote, name);
            let (conflicts, notes) = shoal_applies(&shoals, &remote, policy);
            assert_eq!(conflicts, expect, "seed {seed}, {name}");
            assert_same(&content(&shoals), &content(&sqlites), &format!("seed {seed}, {name}"));
            assert_eq!(notes, expect_notes, "seed {seed}, {name}");
            let rebased = shoal_diff::rebase(&local, &notes).unwrap();
            let expect = case.sqlite_converts("rebase", &[&notes, &local]);
            assert_same(&sorted(&rebased), &sorted(&expect), &format!("seed {seed}, {name}"));
        }
    }
}

#[test]
fn an_aborted_application_leaves_nothing() {
    let mut case = Case::new(7);
    case.base("a");
    let sql = "INSERT INTO one VALUES (1000, 1, 1, 1); UPDATE one SET c = 9 WHERE id = 1000;
        INSERT INTO one VALUES (1001, 1, 1, 1);";
    let changes = case.recorded("a", "b", sql, "changeset");
    run_in_sqlite(&case.path("a"), "INSERT INTO one VALUES (1001, 2, 2, 2)");
    let before = content(&case.path("a"));
    let mut connection = open(&case.path("a"));
    for nested in [false, true] {
        if nested {
            connection.begin(Mode::Write).unwrap();
        }
        let error =
            shoal_diff::apply(&mut connection, &changes, &ApplyOptions::default(), &mut |_| {
                Answer::Abort
            });
        assert!(matches!(error, Err(shoal_diff::Error::Aborted { .. })));
        assert_eq!(connection.in_transaction(), nested);
    }
    connection.commit().unwrap();
    drop(connection);
    assert_eq!(content(&case.path("a")), before);
}

#[test]
fn foreign_keys_are_checked_behind_the_last_change() {
    let case = Case::new(8);
    let tables = "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id));
        CREATE TABLE parent (id INTEGER PRIMARY KEY);";
    run_in_sqlite(&case.path("a"), tables);
    let both = "INSERT INTO child VALUES (1, 1); INSERT INTO parent VALUES (1);";
    let whole = case.recorded("a", "b", both, "changeset");
    let orphan = case.recorded("a", "c", "INSERT INTO child VALUES (2, 2)", "changeset");
    let mut connection = open(&case.path("a"));
    let mut pragma = connection.prepare("PRAGMA foreign_keys=ON").unwrap();
    connection.execute(&mut pragma).unwrap();
    let mut apply = |changes: &[u8]| {
        let options = ApplyOptions::default();
        shoal_diff::apply(&mut connection, changes, &options, &mut |_| Answer::Abort)
    };
    assert_eq!(apply(&whole).unwrap().counts.inserted, 2);
    assert!(matches!(apply(&orphan), Err(shoal_diff::Error::ForeignKeys)));
}

#[test]
fn a_changeset_for_another_table_is_skipped_by_name() {
    let case = Case::new(9);
    run_in_sqlite(
        &case.path("a"),
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b); CREATE TABLE u (a PRIMARY KEY)",
    );
    let sql = "INSERT INTO t VALUES (1, 2); INSERT INTO u VALUES (1)";
    let changes = case.recorded("a", "b", sql, "changeset");
    run_in_sqlite(&case.path("c"), "CREATE TABLE t (a, b PRIMARY KEY)");
    let mut connection = open(&case.path("c"));
    let options = ApplyOptions::default();
    let done = shoal_diff::apply(&mut connection, &changes, &options, &mut |_| Answer::Abort);
    let skipped = done.unwrap().skipped;
    let names: Vec<&str> = skipped.iter().map(|(table, _)| table.as_str()).collect();
    assert_eq!(names, ["t", "u"]);
    assert!(sorted(&changes).iter().all(|line| line.contains(&format!("{:?}", Op::Insert))));
}
