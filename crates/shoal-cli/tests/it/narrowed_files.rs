//! `shoal export`, `dump` and `diff` under rules: the output is that of files without what is
//! hidden, and no hidden value is anywhere in it. Hidden names and values hold `zz`.

use std::path::Path;

use crate::{Finished, shoal, shoal_with};

const RULES: &str = r#"{ "principals": { "ada": {
    "note": { "columns": ["id", "title", "pay"], "rows": "zz_owner = :principal",
              "mask": { "pay": "pay / 20 * 20" } },
    "place": { "rows": "name NOT LIKE 'zz%'" },
    "city": { "columns": ["name", "country", "people"], "rows": "zz_owner = :principal" },
    "word": { "columns": ["text"] },
    "log": { "columns": ["rowid", "what"], "rows": "what NOT LIKE 'zz%'" },
    "text": { "columns": ["rowid", "body"], "rows": "zz_owner = :principal" },
    "seen": {} } } }"#;

const TABLES: &str = "
    CREATE TABLE note(zz_owner TEXT, id INTEGER PRIMARY KEY, title TEXT, pay INT, zz_size AS (pay + 1));
    CREATE TABLE place(name TEXT PRIMARY KEY, people INT) WITHOUT ROWID;
    CREATE TABLE city(name TEXT, zz_owner TEXT, country TEXT, people INT, PRIMARY KEY(country, name));
    CREATE TABLE word(zz_id INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE log(what, zz_who);
    CREATE VIRTUAL TABLE text USING fts5(body, zz_owner);
    CREATE TABLE zz_secret(a);
    CREATE INDEX zz_index ON note(zz_owner);
    CREATE VIEW seen AS SELECT title, 'zz' AS zz_none FROM note;
    INSERT INTO word VALUES (1, 'plain');";

/// The same as ada sees them.
const VISIBLE: &str = "
    CREATE TABLE note(id INTEGER PRIMARY KEY, title TEXT, pay INT);
    CREATE TABLE place(name TEXT, people INT);
    CREATE TABLE city(name TEXT, country TEXT, people INT);
    CREATE TABLE word(text TEXT);
    CREATE TABLE log(what);
    CREATE TABLE text(body);
    INSERT INTO word VALUES ('plain');";

const FIRST: &str = "
    INSERT INTO note VALUES ('ada', 1, 'Engines', 30), ('zz', 2, 'zz Plans', 40), ('ada', 3, 'Notes', 50);
    INSERT INTO place VALUES ('Bern', 1), ('zz', 2), ('Oslo', 3);
    INSERT INTO city VALUES ('Bern', 'ada', 'CH', 1), ('zz', 'zz', 'CH', 2), ('Oslo', 'ada', 'NO', 3),
        ('nowhere', 'ada', NULL, 5);
    INSERT INTO log VALUES ('a', 'zz'), ('zz', 'zz'), ('b', 'zz');
    INSERT INTO text(body, zz_owner) VALUES ('one engine', 'ada'), ('zz', 'zz');
    INSERT INTO zz_secret VALUES ('zz');";

const FIRST_VISIBLE: &str = "
    INSERT INTO note VALUES (1, 'Engines', 20), (3, 'Notes', 40);
    INSERT INTO place VALUES ('Bern', 1), ('Oslo', 3);
    INSERT INTO city VALUES ('Bern', 'CH', 1), ('Oslo', 'NO', 3), ('nowhere', NULL, 5);
    INSERT INTO log(rowid, what) VALUES (1, 'a'), (3, 'b');
    INSERT INTO text(rowid, body) VALUES (1, 'one engine');";

const SECOND: &str = "
    INSERT INTO note VALUES ('ada', 1, 'Engines', 39), ('zz', 2, 'zz More', 41), ('ada', 4, 'New', 9);
    INSERT INTO place VALUES ('Bern', 7), ('zz', 3), ('zz2', 3), ('Rome', 3);
    INSERT INTO city VALUES ('Bern', 'ada', 'CH', 9), ('zz', 'ada', 'CH', 2), ('Oslo', 'zz', 'NO', 3);
    INSERT INTO log VALUES ('a', 'zz other'), ('zz', 'zz'), ('c', 'zz');
    INSERT INTO text(body, zz_owner) VALUES ('two engines', 'ada'), ('zz other', 'zz');
    INSERT INTO zz_secret VALUES ('zz other');
    CREATE TABLE zz_more(a);";

const SECOND_VISIBLE: &str = "
    INSERT INTO note VALUES (1, 'Engines', 20), (4, 'New', 0);
    INSERT INTO place VALUES ('Bern', 7), ('Rome', 3);
    INSERT INTO city VALUES ('Bern', 'CH', 9), ('zz', 'CH', 2);
    INSERT INTO log(rowid, what) VALUES (1, 'a'), (3, 'c');
    INSERT INTO text(rowid, body) VALUES (1, 'two engines');";

fn made(dir: &Path) {
    for (file, script) in [
        ("a.db", [TABLES, FIRST]),
        ("b.db", [TABLES, SECOND]),
        ("a-seen.db", [VISIBLE, FIRST_VISIBLE]),
        ("b-seen.db", [VISIBLE, SECOND_VISIBLE]),
    ] {
        shoal(dir, &["sql", file, &script.concat()]).ok();
    }
    std::fs::write(dir.join("rules.json"), RULES).unwrap();
}

fn as_ada(dir: &Path, args: &[&str]) -> Finished {
    let all = [args, &["--as", "ada", "--rules", "rules.json"]].concat();
    shoal(dir, &all)
}

/// What a call as ada writes, which holds nothing hidden.
#[track_caller]
fn seen(dir: &Path, args: &[&str]) -> Finished {
    let finished = as_ada(dir, args);
    let told = format!("{}{}", finished.stdout, finished.stderr);
    // A city of this name is ada's in the second file.
    let told = told.replace("'zz'", "").replace("\"zz\"", "").replace("zz,CH", "");
    let asked = args.iter().any(|arg| arg.contains("zz"));
    assert!(asked || !told.contains("zz"), "{args:?}: {told}");
    finished
}

const ROWS: &[(&str, &str)] = &[
    ("note", "SELECT * FROM note"),
    ("place", "SELECT * FROM place"),
    ("city", "SELECT * FROM city ORDER BY country, name"),
    ("word", "SELECT * FROM word"),
    ("log", "SELECT rowid, * FROM log"),
    ("text", "SELECT rowid, * FROM text"),
];

#[test]
fn an_export_has_what_is_visible() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    for (_, query) in ROWS {
        for format in ["csv", "tsv", "ndjson", "json", "sql"] {
            let [whole, ours] = ["a-seen.db", "a.db"]
                .map(|file| ["export", file, "--query", query, "--format", format]);
            assert_eq!(seen(dir, &ours).ok(), shoal(dir, &whole).ok(), "{query} {format}");
        }
    }
    assert_eq!(
        seen(dir, &["export", "a.db", "note"]).ok(),
        "id,title,pay\n1,Engines,20\n3,Notes,40\n"
    );
    let sql = seen(dir, &["export", "a.db", "note", "--format", "sql"]).ok();
    shoal_with(dir, &["sql", "note.db"], sql.as_bytes()).ok();
    assert_eq!(
        shoal(dir, &["sql", "note.db", "SELECT * FROM note"]).ok(),
        "1|Engines|20\n3|Notes|40\n"
    );
    seen(dir, &["export", "a.db", "note", "-o", "note.csv.gz"]).ok();
    for (args, why) in [
        (["--query", "SELECT zz_owner FROM note"], "no such column: zz_owner"),
        (["--query", "SELECT * FROM zz_secret"], "no such table: zz_secret"),
        (["--query", "DELETE FROM note"], "DELETE"),
        (["zz_secret", "--format=sql"], "no such table: zz_secret"),
    ] {
        let told = as_ada(dir, &[&["export", "a.db"][..], &args].concat()).error();
        assert!(told.contains(why), "{told}");
    }
    let told =
        shoal(dir, &["export", "a.db", "note", "--as", "eve", "--rules", "rules.json"]).error();
    assert!(told.contains("nothing is granted to eve"), "{told}");
}

#[test]
fn a_dump_makes_the_visible_part() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let dump = seen(dir, &["dump", "a.db"]).ok();
    shoal_with(dir, &["sql", "hers.db"], dump.as_bytes()).ok();
    for (_, query) in &ROWS[..4] {
        let ask = |file| shoal(dir, &["sql", file, query]).ok();
        assert_eq!(ask("hers.db"), ask("a-seen.db"), "{query}");
    }
    let tables = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)";
    assert_eq!(shoal(dir, &["sql", "hers.db", tables]).ok(), "city,log,note,place,text,word\n");
}

#[test]
fn a_difference_is_that_of_the_visible_parts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let told = seen(dir, &["diff", "a.db", "b.db", "--format", "summary"]);
    assert!(told.stderr.contains("left out: table word shows neither"), "{told:?}");
    assert_eq!(
        told.ok(),
        "city: 1 inserted, 1 updated, 1 deleted\nlog: 0 inserted, 1 updated, 0 deleted\n\
         note: 1 inserted, 0 updated, 1 deleted\nplace: 1 inserted, 1 updated, 1 deleted\n\
         text: 0 inserted, 1 updated, 0 deleted\n"
    );
    // The script makes the second file's visible part of the first's.
    let script = seen(dir, &["diff", "a.db", "b.db"]).ok();
    shoal_with(dir, &["sql", "a-seen.db"], script.as_bytes()).ok();
    for (table, query) in ROWS {
        let ask = |file| shoal(dir, &["sql", file, query]).ok();
        let rows = (ask("a-seen.db"), ask("b-seen.db"));
        match *table {
            // Nothing visible tells which row of the first file has no country.
            "city" => assert_eq!(rows.0, format!("nowhere||5\n{}", rows.1)),
            _ => assert_eq!(rows.0, rows.1, "{query}"),
        }
    }
    let lines = seen(dir, &["diff", "a.db", "b.db", "--format", "ndjson", "--table", "note"]).ok();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("\"op\":\"delete\",\"table\":\"note\",\"key\":{\"id\":3}"), "{lines}");
    assert_eq!(seen(dir, &["diff", "a.db", "a.db"]).ok(), "");
    let told = as_ada(dir, &["diff", "a.db", "b.db", "--table", "zz_secret"]).error();
    assert!(told.contains("zz_secret: is in neither file"), "{told}");
}

#[test]
fn a_changeset_is_of_whole_columns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    for form in ["changeset", "patchset"] {
        let args = ["diff", "a.db", "b.db", "--table", "note", "--format", form];
        let told = seen(dir, &args).error();
        assert!(told.contains("table note: a changeset names columns by their places"), "{told}");
    }
    // All columns of the table are visible: the bytes change the whole file's visible rows.
    let changes = ["diff", "a.db", "b.db", "--table", "place", "--format", "changeset", "-o", "c"];
    seen(dir, &changes).ok();
    let bytes = std::fs::read(dir.join("c")).unwrap();
    assert!(!bytes.windows(2).any(|two| two == b"zz"));
    shoal(dir, &["apply", "a.db", "c"]).ok();
    let rows = shoal(dir, &["sql", "a.db", "SELECT * FROM place ORDER BY name"]).ok();
    assert_eq!(rows, "Bern|7\nRome|3\nzz|2\n");
}
