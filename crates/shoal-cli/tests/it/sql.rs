//! `shoal sql`: forms of output, parameters, scripts, errors; `shoal dump`.

use std::path::Path;

use crate::{copy, shoal, shoal_with, sqlite3};

fn chinook() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path(), "sqlite/chinook.sqlite", "c.db");
    dir
}

/// `list` must print the same bytes as `sqlite3`.
#[track_caller]
fn same_list(dir: &Path, file: &str, sql: &str) {
    let ours = shoal(dir, &["sql", "--format", "list", file, sql]).ok();
    if let Some(theirs) = sqlite3(dir, &[file, sql], b"") {
        assert_eq!(ours, theirs.ok(), "{sql}");
    }
}

#[test]
fn list_is_that_of_sqlite3() {
    let dir = chinook();
    for sql in [
        "SELECT * FROM Track ORDER BY TrackId LIMIT 50",
        "SELECT * FROM Invoice WHERE Total > 10 ORDER BY Total DESC, InvoiceId",
        "SELECT BillingCountry, sum(Total), avg(Total) FROM Invoice GROUP BY 1 ORDER BY 1",
        "SELECT * FROM Customer WHERE Company IS NULL ORDER BY CustomerId",
        "SELECT 1.0, 0.1, 1e21, 1e-7, 123456789.125, 1e15, 1e16, -0.0, 100.0, 3.0e300, 2.5e-300",
        "SELECT 9e999, -9e999, 1.0/3, 2.0/3, 1e100/3, 0.1+0.2, 1234567.891, 5e-324",
        "SELECT NULL, '', 'a|b', 'x' || char(10) || 'y', x'414243', typeof(1.0)",
    ] {
        same_list(dir.path(), "c.db", sql);
    }
}

#[test]
fn json_and_nothing_else() {
    let dir = chinook();
    let sql = "SELECT GenreId, Name, 0.5 AS half, x'0aFF' AS b, NULL AS n FROM Genre LIMIT 2";
    let call = |args: &[&str]| {
        let mut all = vec!["sql", "c.db", sql];
        all.extend(args);
        shoal(dir.path(), &all).ok()
    };
    let first = r#"{"GenreId":1,"Name":"Rock","half":0.5,"b":"0aff","n":null}"#;
    let second = r#"{"GenreId":2,"Name":"Jazz","half":0.5,"b":"0aff","n":null}"#;
    assert_eq!(call(&["--format", "json"]), format!("[\n{first},\n{second}\n]\n"));
    assert_eq!(call(&["--format", "ndjson"]), format!("{first}\n{second}\n"));
    assert_eq!(
        call(&["--format", "ndjson", "--arrays"]),
        "[1,\"Rock\",0.5,\"0aff\",null]\n[2,\"Jazz\",0.5,\"0aff\",null]\n"
    );
}

#[test]
fn csv_and_table() {
    let dir = chinook();
    let sql = "SELECT TrackId, Name FROM Track WHERE TrackId IN (1, 2)";
    assert_eq!(
        shoal(dir.path(), &["sql", "c.db", sql, "--format", "csv"]).ok(),
        "TrackId,Name\n1,For Those About To Rock (We Salute You)\n2,Balls to the Wall\n"
    );
    assert_eq!(
        shoal(dir.path(), &["sql", "c.db", sql, "--format", "table"]).ok(),
        concat!(
            "TrackId  Name\n",
            "───────  ───────────────────────────────────────\n",
            "      1  For Those About To Rock (We Salute You)\n",
            "      2  Balls to the Wall\n",
        )
    );
}

#[test]
fn parameters_of_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let sql = "SELECT ?1, :a, @b, $c, typeof(?1), typeof(:a), typeof(@b), :missing";
    let args = [
        "sql", ":memory:", sql, "--format", "list", "--param", "1=7", "--param", "a=7.5",
        "--param", "@b='7'", "--param", "$c=x'41'",
    ];
    assert_eq!(shoal(dir.path(), &args).ok(), "7|7.5|7|A|integer|real|text|\n");
}

#[test]
fn a_database_of_our_own() {
    let dir = tempfile::tempdir().unwrap();
    let script = b"
        CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL);
        BEGIN;
        INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2.5);
        COMMIT;
        BEGIN;
        INSERT INTO t VALUES (3, 'three', 3);
        ROLLBACK;
        SELECT * FROM t;
    ";
    let told = shoal_with(dir.path(), &["sql", "--format", "list", "new.db"], script).ok();
    assert_eq!(told, "1|one|1.0\n2|two|2.5\n");
    same_list(dir.path(), "new.db", "SELECT * FROM t");
    same_list(dir.path(), "new.db", "SELECT sql FROM sqlite_schema");
    if let Some(verdict) = sqlite3(dir.path(), &["new.db", "PRAGMA integrity_check"], b"") {
        assert_eq!(verdict.ok(), "ok\n");
    }
}

#[test]
fn a_script_goes_on_after_an_error_unless_told_to_bail() {
    let dir = tempfile::tempdir().unwrap();
    let script = b"SELECT 1;\nSELECT x FROM nowhere;\nSELECT\n  2 +;\nSELECT 3;";
    let told = shoal_with(dir.path(), &["sql", ":memory:", "--format", "list"], script);
    assert_eq!(told.code, 1);
    assert_eq!(told.stdout, "1\n3\n");
    assert!(told.stderr.contains("error: statement 2: no such table: nowhere"), "{}", told.stderr);
    assert!(told.stderr.contains("  1 | SELECT x FROM nowhere\n"), "{}", told.stderr);
    assert!(told.stderr.contains("error: statement 3: incomplete input"), "{}", told.stderr);
    let bail = shoal_with(dir.path(), &["sql", ":memory:", "--format", "list", "--bail"], script);
    assert_eq!((bail.code, bail.stdout.as_str()), (1, "1\n"));
    // As arguments, statements after an error do not run.
    let args = shoal(dir.path(), &["sql", ":memory:", "--format", "list", "SELECT x", "SELECT 1"]);
    assert_eq!((args.code, args.stdout.as_str()), (1, ""));
}

#[test]
fn the_caret_is_below_the_place() {
    let dir = chinook();
    let told = shoal(dir.path(), &["sql", "c.db", "SELECT Name, Titel\nFROM Album"]);
    assert_eq!(told.code, 1);
    let lines: Vec<&str> = told.stderr.lines().collect();
    assert_eq!(lines[0], "error: statement 1: no such column: Name");
    assert_eq!(lines[1], "  1 | SELECT Name, Titel");
    assert_eq!(lines[2], "             ^");
}

#[test]
fn a_dump_makes_the_database_again() {
    let dir = chinook();
    let dump = shoal(dir.path(), &["dump", "c.db"]).ok();
    shoal_with(dir.path(), &["sql", "copy.db"], dump.as_bytes()).ok();
    assert_eq!(shoal(dir.path(), &["dump", "copy.db"]).ok(), dump);
    let sqlite = rusqlite::Connection::open(dir.path().join("copy.db")).unwrap();
    let verdict: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    for table in ["Album", "Track", "PlaylistTrack", "InvoiceLine", "Customer"] {
        same_list(dir.path(), "copy.db", &format!("SELECT * FROM {table}"));
        let count = |file: &str| {
            shoal(dir.path(), &["sql", file, &format!("SELECT count(*) FROM {table}")]).ok()
        };
        assert_eq!(count("c.db"), count("copy.db"));
    }
}

/// People choose the mode of a journal before there is anything in the file.
#[test]
fn a_journal_mode_may_be_the_first_statement() {
    let dir = tempfile::tempdir().unwrap();
    let first = ["sql", "new.db", "PRAGMA journal_mode = wal", "CREATE TABLE t(a)"];
    assert_eq!(shoal(dir.path(), &first).ok(), "wal\n");
    let insert = ["sql", "new.db", "INSERT INTO t VALUES (1), (2) RETURNING a"];
    assert_eq!(shoal(dir.path(), &insert).ok(), "1\n2\n");
    same_list(dir.path(), "new.db", "PRAGMA journal_mode; SELECT * FROM t");
}

#[test]
fn a_query_without_tables_needs_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(shoal(dir, &["sql", "new.db", "SELECT 1 + 1", "SELECT upper('x')"]).ok(), "2\nX\n");
    assert!(!dir.join("new.db").exists());
    let script = b".headers on\nSELECT 1 AS one;\nCREATE TABLE t(a);\nINSERT INTO t VALUES (5);\n\
        SELECT a FROM t;\n";
    assert_eq!(shoal_with(dir, &["new.db"], script).ok(), "one\n1\na\n5\n");
    assert!(dir.join("new.db").exists());
}

/// Settings giving a row make a missing file, as settings without rows do.
#[test]
fn a_missing_file_is_made_by_settings_before_its_tables() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["secure_delete = on", "busy_timeout = 100", "cache_size = -2000"];
    for (number, setting) in settings.iter().enumerate() {
        let file = format!("{number}.db");
        let sql = format!("PRAGMA {setting}; CREATE TABLE t(a); INSERT INTO t VALUES (5)");
        shoal(dir.path(), &["sql", &file, &sql]).ok();
        assert_eq!(shoal(dir.path(), &["sql", &file, "SELECT a FROM t"]).ok(), "5\n");
    }
    let told = shoal(dir.path(), &["sql", "none.db", "PRAGMA secure_delete"]);
    assert!(told.error().contains("no such file"));
}

#[test]
fn a_missing_file_that_is_attached_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    shoal(path, &["sql", "a.db", "CREATE TABLE t(x); INSERT INTO t VALUES (1)"]).ok();
    let sql = "ATTACH 'b.db' AS b; CREATE TABLE b.u(x); INSERT INTO b.u SELECT x + 1 FROM t";
    shoal(path, &["sql", "a.db", sql]).ok();
    let told = shoal(path, &["sql", "--format", "list", "b.db", "SELECT x FROM u"]);
    assert_eq!(told.ok(), "2\n");
}
