//! The SQL shell: dot commands print as `sqlite3`'s do; scripts, files, exit codes.

use std::path::Path;

use crate::{copy, shoal, shoal_with, sqlite3};

/// Versions of sqlite3 to compare with: between them the shell prints alike.
const ORACLES: std::ops::RangeInclusive<u32> = 38..=46;

fn tables() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d BLOB);
        INSERT INTO t VALUES (1, 'hello', 1.5, x'00ff'), (2, NULL, -2.0, NULL),
          (3, 'multi' || char(10) || 'line' || char(9) || 'tab', 3e10, x'41'),
          (4, 'it''s \"q\", <b>&amp;', 0.25, 'x'), (5, '', 8.5, x'');
        CREATE VIEW v AS SELECT a, b FROM t;
        CREATE INDEX ti ON t(b);
        CREATE TABLE \"weird name\"(\"a b\" INT, \"c\"\"d\" TEXT);
        CREATE TABLE wide(id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT, \
          CHECK (length(first_name) > 0), UNIQUE (first_name, last_name));
    ";
    shoal_with(dir.path(), &["sql", "t.db"], script.as_bytes()).ok();
    dir
}

/// True where the `sqlite3` installed here prints as the shell does.
fn has_oracle(dir: &Path) -> bool {
    let version = sqlite3(dir, &["--version"], b"").map(|told| told.ok()).unwrap_or_default();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    let is_known = minor.is_some_and(|minor| ORACLES.contains(&minor));
    if !is_known {
        println!("skipped: no sqlite3 command of a known version here: {version}");
    }
    is_known
}

/// Runs a script in both shells, where `sqlite3` is installed, and gives our output.
#[track_caller]
fn same(dir: &Path, file: &str, script: &str) -> String {
    let ours = shoal_with(dir, &["sql", file], script.as_bytes());
    if has_oracle(dir) {
        let theirs = sqlite3(dir, &[file], script.as_bytes()).unwrap();
        assert_eq!(ours.stdout, theirs.stdout, "{script}\n{}", ours.stderr);
    }
    ours.stdout
}

#[test]
fn the_options_of_sqlite3_are_taken_as_sqlite3_takes_them() {
    let dir = tables();
    std::fs::write(dir.path().join("init.sql"), "SELECT 'first';").unwrap();
    let query = "SELECT a, b FROM t ORDER BY a";
    let options: &[&[&str]] = &[
        &["-header", "-csv"],
        &["--header", "--csv"],
        &["-json"],
        &["-box"],
        &["-column"],
        &["-header", "-column"],
        &["-line"],
        &["-list"],
        &["-markdown"],
        &["-table"],
        &["-html"],
        &["-quote"],
        &["-tabs"],
        &["-ascii"],
        &["-box", "-noheader"],
        &["-separator", "|'|"],
        &["-separator", "\\t\""],
        &["-nullvalue", "it's"],
        &["-readonly", "-batch", "-bail"],
        &["-echo"],
        &["-cmd", ".mode csv", "-cmd", "SELECT 1"],
        &["-init", "init.sql"],
    ];
    for given in options {
        let arguments = [*given, &["t.db", query]].concat();
        let ours = shoal(dir.path(), &[&["sql"], &arguments[..]].concat()).ok();
        assert_eq!(ours, shoal(dir.path(), &arguments).ok(), "without its verb: {given:?}");
        assert!(!ours.is_empty(), "{given:?}");
        if has_oracle(dir.path()) {
            assert_eq!(ours, sqlite3(dir.path(), &arguments, b"").unwrap().ok(), "{given:?}");
        }
    }
    // A file that must not be written, the missing name of a file, and options of neither.
    let refused = shoal(dir.path(), &["-readonly", "t.db", "DELETE FROM t"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert_eq!(shoal(dir.path(), &["sql", "-cmd", "SELECT 7"]).ok(), "7\n");
    let unknown = shoal(dir.path(), &["sql", "-frob", "t.db"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("'--frob'"), "{}", unknown.stderr);
}

#[test]
fn a_timeout_is_set_and_files_are_named_by_their_whole_paths() {
    let dir = tables();
    let script = ".timeout 1500\nPRAGMA busy_timeout;\nPRAGMA database_list;\n.databases\n";
    let told = same(dir.path(), "t.db", script);
    let whole = std::fs::canonicalize(dir.path().join("t.db")).unwrap();
    let expected = format!("1500\n0|main|{0}\nmain: {0} r/w\n", whole.display());
    assert_eq!(told, expected);
    let misused = shoal(dir.path(), &["sql", "t.db", ".timeout soon"]);
    assert!(misused.stderr.contains("usage: .timeout MS"), "{}", misused.stderr);
}

#[test]
fn every_mode_prints_as_sqlite3_does() {
    let dir = tables();
    for mode in [
        "ascii",
        "box",
        "column",
        "csv",
        "html",
        "insert",
        "insert foo",
        "insert \"a b\"",
        "line",
        "list",
        "markdown",
        "quote",
        "table",
        "tabs",
        "tcl",
        "qbox",
        "json",
        "box --wrap 10",
        "column --wordwrap on --wrap 5",
        "table --quote",
        "markdown --wrap 7",
    ] {
        for headers in ["", ".headers on\n", ".headers off\n"] {
            let script = format!(
                ".mode {mode}\n{headers}SELECT * FROM t;\nSELECT 1 AS x WHERE 0;\n\
                 SELECT 1 AS \"a b\", 'x y' AS c, 7 AS averylongheadingindeed;\n"
            );
            same(dir.path(), "t.db", &script);
        }
    }
}

#[test]
fn settings_change_what_is_printed() {
    let dir = tables();
    for script in [
        ".nullvalue NIL\nSELECT NULL, '';\n.mode box\nSELECT NULL AS a;\n",
        ".separator , ;\nSELECT 1, 2;\nSELECT 3, 4;\n",
        ".separator \"\\t\"\nSELECT 1, 2;\n.mode csv\n.separator ;\nSELECT 'a;b', 'a,b';\n",
        ".width 3 -5\n.mode column\nSELECT 1234567 AS a, 22 AS b, 3 AS c;\n",
        ".mode table\n.width 4 -6\nSELECT 'abcdef' AS a, 123456789 AS b;\n",
        ".print hi \"a b\" 'c\\td' \"e\\tf\"\n.print\n",
        ".echo on\nSELECT 1;\n.print x\n-- a comment\nSELECT\n 2;\n",
        ".changes on\nCREATE TABLE n(a);\nINSERT INTO n VALUES (1), (2);\nDELETE FROM n;\n\
         DROP TABLE n;\n",
        ".eqp on\nSELECT * FROM t WHERE a = 1;\n",
        ".mode csv\n.show\n.mode box\n.nullvalue x\n.headers on\n.width 1 -2\n.show\n",
        ".headers on\nSELECT 1 AS a WHERE 0;\nSELECT 1 AS a;\n",
        ".parameter set :a 3\n.parameter set @b \"hello x\"\n.parameter set $c \"'q'\"\n\
         .parameter set :longer 1+1\n.parameter list\nSELECT :a, @b, $c, :longer;\n\
         .parameter unset :a\n.parameter list\n.parameter clear\n.parameter list\nSELECT @b;\n",
    ] {
        same(dir.path(), "t.db", script);
    }
}

#[test]
fn the_schema_is_told_as_sqlite3_tells_it() {
    let dir = tables();
    copy(dir.path(), "sqlite/chinook.sqlite", "c.db");
    for file in ["t.db", "c.db"] {
        for script in [
            ".tables\n",
            ".tables t%\n.tables A%\n.tables nothing\n",
            ".schema\n",
            ".schema t\n.schema %name\n.schema nothing\n.schema Album\n",
            ".schema --indent\n",
            ".schema --nosys\n.schema sqlite_schema\n",
            ".fullschema\n",
            ".indexes\n.indexes t\n.indexes Track\n",
            ".indices\n",
            "ATTACH 't.db' AS other;\n.tables\n.schema t\n.schema other.t\n",
        ] {
            same(dir.path(), file, script);
        }
    }
    let tables = same(dir.path(), "t.db", ".tables\n");
    assert_eq!(tables, "t           v           weird name  wide      \n");
}

#[test]
fn a_dump_is_that_of_sqlite3() {
    let dir = tables();
    copy(dir.path(), "sqlite/chinook.sqlite", "c.db");
    for script in [".dump\n", ".dump t\n", ".dump t w%\n"] {
        same(dir.path(), "t.db", script);
    }
    // Reals have other digits in versions of sqlite3 before 3.43.
    same(dir.path(), "c.db", ".dump Album Gen% Playlist%\n");
}

#[test]
fn a_script_mixes_statements_and_commands() {
    let dir = tables();
    for script in [
        "-- comment\n.tables\n",
        "# comment\nSELECT 2;\n",
        "SELECT 1\ngo\nSELECT 2\n/\nSELECT 3\n;\n",
        "SELECT\n'a\n.tables\n';\n",
        "SELECT 1;\n.quit\nSELECT 2;\n",
        "SELECT 1; SELECT 2;\n",
    ] {
        same(dir.path(), "t.db", script);
    }
}

#[test]
fn commands_come_as_arguments_too() {
    let dir = tables();
    let told = shoal(dir.path(), &["sql", "t.db", ".mode csv", "SELECT 1, 'a b'", ".print x"]);
    assert_eq!(told.ok(), "1,\"a b\"\r\nx\n");
    // A name other than a verb's is a database.
    let told = shoal(dir.path(), &["t.db", ".tables w%"]);
    assert_eq!(told.ok(), "weird name  wide      \n");
    assert_eq!(shoal(dir.path(), &["t.db", ".exit 3", "SELECT 1"]).code, 3);
    assert_eq!(shoal(dir.path(), &["sql", "new.db", ".tables"]).ok(), "");
    assert!(!dir.path().join("new.db").exists());
}

#[test]
fn what_is_no_command_is_told_with_help() {
    let dir = tables();
    let wrong = |line: &str, expect: &str| {
        let error = shoal(dir.path(), &["sql", "t.db", line]).error();
        assert!(error.contains(expect), "{line}: {error}");
    };
    wrong(".nosuch", "hint: .help");
    wrong(".", "hint: .help");
    wrong(".mode nosuch", "the modes are");
    wrong(".mode box --wrap x", "--wrap");
    wrong(".width a", "not a number");
    wrong(".headers maybe", "neither on nor off");
    wrong(".tables a b c", "usage: .tables");
    wrong(".load x", "not supported: .load");
    wrong(".read nosuch", "nosuch");
    wrong(".output no/such/file", "no/such/file");
    wrong(".cd nosuch", "nosuch");
    wrong(".open --readonly nosuch", "no such file");
    // A script goes on after a failure, and its exit code tells of the failure.
    let told = shoal_with(dir.path(), &["sql", "t.db"], b".nosuch\nSELECT 1;\n");
    assert_eq!((told.code, told.stdout.as_str()), (1, "1\n"));
    let told = shoal_with(dir.path(), &["sql", "t.db"], b".bail on\n.nosuch\nSELECT 1;\n");
    assert_eq!((told.code, told.stdout.as_str()), (1, ""));
    assert!(shoal(dir.path(), &["t.db", ".help"]).ok().contains(".tables ?PATTERN?"));
    assert!(shoal(dir.path(), &["t.db", ".help mode"]).ok().contains("--wordwrap"));
}

#[test]
fn output_goes_to_files_and_commands() {
    let dir = tables();
    let script = ".output out.txt\nSELECT 1;\n.output\nSELECT 2;\n.once once.txt\nSELECT 3;\n\
                  SELECT 4;\n.once |tr 5 6\nSELECT 5;\n.shell cat out.txt once.txt\n\
                  .read more.sql\n.read \"|echo 'SELECT 8;'\"\n";
    std::fs::write(dir.path().join("more.sql"), "SELECT 7;\n.print read\n").unwrap();
    assert_eq!(same(dir.path(), "t.db", script), "2\n4\n6\n1\n3\n7\nread\n8\n");
    // A script reading itself ends with an error.
    std::fs::write(dir.path().join("loop.sql"), ".read loop.sql\n").unwrap();
    let told = shoal(dir.path(), &["sql", "t.db", ".read loop.sql"]);
    assert!(told.error().contains("more than 25 scripts"));
}

#[test]
fn another_database_is_opened() {
    let dir = tables();
    let script = ".open other.db\nCREATE TABLE x(a);\n.tables\n.open t.db\n.tables x\n\
                  .open --readonly other.db\n.tables\nINSERT INTO x VALUES (1);\n\
                  .open --new other.db\n.tables\n.open\n.databases\n";
    let told = shoal_with(dir.path(), &["sql", ":memory:"], script.as_bytes());
    assert_eq!(told.stdout, "x\nx\nmain: \"\" r/w\n");
    assert!(told.stderr.contains("read"), "{}", told.stderr);
}
