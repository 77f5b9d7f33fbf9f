//! Virtual tables in the command: dumped, imported into, recovered, checked.

use std::path::Path;

use crate::{shoal, shoal_with, sqlite3};

/// A database with tables of FTS5 and R-Tree, of its own content and of a view's.
fn searchable() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = b"
        CREATE VIRTUAL TABLE notes USING fts5(day, text, tokenize = 'porter', prefix = '2');
        INSERT INTO notes VALUES ('monday', 'Booked the night train'), ('friday', 'Trains ''were'' late');
        CREATE VIRTUAL TABLE \"odd name\" USING fts5(x, detail = column);
        INSERT INTO \"odd name\" VALUES ('one
two'), ('two');
        CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, +label);
        INSERT INTO boxes VALUES (1, 0, 2, 'a'), (2, 5, 6, 'b');
        CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
        INSERT INTO t VALUES (1, 'a night'), (2, 'a day');
        CREATE VIRTUAL TABLE u USING fts5(b, content = 't', content_rowid = 'a');
        INSERT INTO u(u) VALUES ('rebuild');
        CREATE TRIGGER t_ai AFTER INSERT ON t BEGIN INSERT INTO u(rowid, b) VALUES (new.a, new.b); END;
        CREATE VIEW found AS SELECT rowid, text FROM notes('train');";
    shoal_with(dir.path(), &["sql", "s.db"], script).ok();
    dir
}

const QUESTIONS: &str =
    "SELECT day FROM notes('train') ORDER BY rowid; SELECT day FROM notes('tra*');
    SELECT rowid FROM \"odd name\"('two'); SELECT id, label FROM boxes WHERE x0 > 1;
    SELECT rowid FROM u('night'); SELECT count(*) FROM found; PRAGMA integrity_check";
const ANSWERS: &str = "monday\nfriday\nmonday\nfriday\n1\n2\n2|b\n1\n2\nok\n";

/// Asks a database by Shoal and, where it is installed, by `sqlite3`.
fn answers(dir: &Path, file: &str) {
    let told = shoal(dir, &["sql", "--format", "list", file, QUESTIONS]).ok();
    assert_eq!(told, ANSWERS, "{file}");
    if let Some(theirs) = sqlite3(dir, &[file, QUESTIONS], b"") {
        assert_eq!(theirs.ok(), ANSWERS, "{file} by sqlite3");
    }
}

#[test]
fn a_dump_with_virtual_tables_is_read_by_both() {
    let dir = searchable();
    let path = dir.path();
    answers(path, "s.db");
    let dump = shoal(path, &["dump", "s.db"]).ok();
    shoal_with(path, &["sql", "--bail", "ours.db"], dump.as_bytes()).ok();
    answers(path, "ours.db");
    assert_eq!(shoal(path, &["dump", "ours.db"]).ok(), dump);
    if let Some(made) = sqlite3(path, &["theirs.db"], dump.as_bytes()) {
        made.ok();
        answers(path, "theirs.db");
    }
    // A dump by `sqlite3` is read here.
    if let Some(theirs) = sqlite3(path, &["s.db", ".dump"], b"") {
        shoal_with(path, &["sql", "--bail", "read.db"], theirs.ok().as_bytes()).ok();
        answers(path, "read.db");
    }
    // Rows are still written.
    let sql = "INSERT INTO notes VALUES ('sunday', 'no trains'); INSERT INTO t VALUES (3, 'night')";
    shoal(path, &["sql", "ours.db", sql]).ok();
    let sql = "SELECT count(*) FROM notes('train'); SELECT count(*) FROM u('night'); PRAGMA integrity_check";
    let told = shoal(path, &["sql", "--format", "list", "ours.db", sql]).ok();
    assert_eq!(told, "3\n2\nok\n");
}

#[test]
fn a_virtual_table_is_dumped_with_its_parts() {
    let dir = searchable();
    let path = dir.path();
    let dump = shoal(path, &["dump", "s.db", "boxes"]).ok();
    assert!(dump.contains("boxes_node") && !dump.contains("notes"), "{dump}");
    shoal_with(path, &["sql", "--bail", "one.db"], dump.as_bytes()).ok();
    let sql = "SELECT id, label FROM boxes WHERE x0 > 1; PRAGMA integrity_check";
    assert_eq!(shoal(path, &["sql", "--format", "list", "one.db", sql]).ok(), "2|b\nok\n");
}

/// `writable_schema` opens the door for virtual tables alone.
#[test]
fn the_schema_takes_rows_of_virtual_tables_alone() {
    let dir = tempfile::tempdir().unwrap();
    let sql = |sql: &str| shoal(dir.path(), &["sql", "w.db", sql]);
    sql("CREATE TABLE t(a)").ok();
    let row = "INSERT INTO sqlite_schema VALUES('table','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(a)')";
    let error = sql(row).error();
    assert!(error.contains("may not be modified"), "{error}");
    for wrong in [
        "'table','f','f',2,'CREATE VIRTUAL TABLE f USING fts5(a)'",
        "'table','g','g',0,'CREATE VIRTUAL TABLE f USING fts5(a)'",
        "'table','f','f',0,'CREATE TABLE f(a)'",
        "'view','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(a)'",
        "'table','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(a)'), ('table','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(a)'",
    ] {
        let error =
            sql(&format!("PRAGMA writable_schema=ON; INSERT INTO sqlite_schema VALUES({wrong})"));
        assert!(!error.error().is_empty(), "{wrong}");
    }
    sql(&format!("PRAGMA writable_schema=ON; {row}; PRAGMA writable_schema=OFF")).ok();
    // Nothing is below the table: told, not refused as a file.
    let told = sql("PRAGMA integrity_check").ok();
    assert!(told.contains("no such table: f_"), "{told}");
}

#[test]
fn rows_are_imported_into_virtual_tables() {
    let dir = searchable();
    let path = dir.path();
    std::fs::write(path.join("n.csv"), "day,text\nsunday,a train\n").unwrap();
    shoal(path, &["import", "n.csv", "s.db", "notes", "--header", "yes"]).ok();
    std::fs::write(path.join("b.csv"), "7,1.5,2.5,c\n").unwrap();
    shoal(path, &["sql", "s.db", ".mode csv", ".import b.csv boxes"]).ok();
    let sql = "SELECT day FROM notes('train') WHERE day = 'sunday'; SELECT x1, label FROM boxes WHERE id = 7;
        PRAGMA integrity_check";
    let told = shoal(path, &["sql", "--format", "list", "s.db", sql]).ok();
    assert_eq!(told, "sunday\n2.5|c\nok\n");
}

#[test]
fn types_make_numbers_for_a_virtual_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let make = "CREATE VIRTUAL TABLE page USING vec0(meaning float[2], year integer, lang text)";
    shoal(path, &["sql", "v.db", make]).ok();
    std::fs::write(path.join("p.csv"), "meaning,year,lang\n\"[1,2]\",2024,7\n").unwrap();
    let error = shoal(path, &["import", "p.csv", "v.db", "page", "--header", "yes"]).error();
    assert!(error.contains("Expected integer"), "{error}");
    let types = ["import", "p.csv", "v.db", "page", "--header", "yes", "--types", "year=integer"];
    shoal(path, &types).ok();
    let asked = "SELECT year, typeof(lang) FROM page WHERE meaning MATCH '[1,2]' AND k = 1";
    assert_eq!(shoal(path, &["sql", "--format", "list", "v.db", asked]).ok(), "2024|text\n");
    let error = shoal(path, &["import", "p.csv", "v.db", "page", "--types", "age=integer"]).error();
    assert!(error.contains("a column that is not there: age"), "{error}");
}

#[test]
fn virtual_tables_are_recovered() {
    let dir = searchable();
    let path = dir.path();
    shoal(path, &["recover", "s.db", "saved.db"]).ok();
    answers(path, "saved.db");
    let script = shoal(path, &["recover", "s.db"]).ok();
    shoal_with(path, &["sql", "--bail", "script.db"], script.as_bytes()).ok();
    answers(path, "script.db");
}

#[test]
fn integrity_check_asks_virtual_tables() {
    let dir = searchable();
    let path = dir.path();
    let damage = "PRAGMA writable_schema=ON; DELETE FROM notes_docsize WHERE id = 1;
        UPDATE boxes_rowid SET nodeno = 9 WHERE rowid = 2";
    shoal(path, &["sql", "s.db", damage]).ok();
    let told = shoal(path, &["sql", "--format", "list", "s.db", "PRAGMA integrity_check"]).ok();
    assert!(told.contains("FTS5 table notes") && told.contains("boxes"), "{told}");
}
