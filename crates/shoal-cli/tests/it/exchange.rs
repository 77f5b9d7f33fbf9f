//! `shoal diff`, `apply`, `changeset`, `merge`, and git with the drivers of `git-install`.

use std::path::Path;
use std::process::Command;

use crate::shoal;

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INT);
    INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);";

fn sql(folder: &Path, file: &str, text: &str) -> String {
    shoal(folder, &["sql", file, "--format", "list", text]).ok()
}

#[test]
fn a_difference_travels_as_sql_and_as_a_changeset() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sql(folder, "a.db", TABLES);
    std::fs::copy(folder.join("a.db"), folder.join("b.db")).unwrap();
    std::fs::copy(folder.join("a.db"), folder.join("c.db")).unwrap();
    sql(folder, "b.db", "DELETE FROM t WHERE id = 1; UPDATE t SET a = 'x' WHERE id = 2");
    sql(folder, "b.db", "INSERT INTO t VALUES (4, 'four', NULL); CREATE VIEW v AS SELECT 1");
    assert_eq!(shoal(folder, &["diff", "a.db", "a.db"]).ok(), "");
    let script = shoal(folder, &["diff", "a.db", "b.db"]).ok();
    assert!(script.contains("UPDATE t SET \"a\"='x' WHERE \"id\"=2;\n"), "{script}");
    assert!(script.contains("CREATE VIEW v AS SELECT 1;\n"), "{script}");
    sql(folder, "c.db", &script);
    assert_eq!(shoal(folder, &["diff", "c.db", "b.db"]).ok(), "");
    let lines = shoal(folder, &["diff", "a.db", "b.db", "--format", "ndjson", "--rows"]).ok();
    let update = r#"{"op":"update","table":"t","key":{"id":2},"old":{"a":"two"},"new":{"a":"x"}}"#;
    assert!(lines.lines().any(|line| line == update), "{lines}");
    let counts = shoal(folder, &["diff", "a.db", "b.db", "--format", "summary", "--rows"]).ok();
    assert_eq!(counts, "t: 1 inserted, 1 updated, 1 deleted\n");

    shoal(folder, &["diff", "a.db", "b.db", "--format", "changeset", "-o", "ab"]).ok();
    let shown = shoal(folder, &["changeset", "show", "ab"]).ok();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    shoal(folder, &["apply", "a.db", "ab"]).ok();
    assert_eq!(shoal(folder, &["diff", "a.db", "b.db", "--rows"]).ok(), "");
    // A second time nothing fits, and nothing is changed.
    let error = shoal(folder, &["apply", "a.db", "ab"]).error();
    assert!(error.contains("nothing was applied"), "{error}");
    shoal(folder, &["apply", "a.db", "ab", "--on-conflict", "omit"]).ok();
    shoal(folder, &["apply", "a.db", "ab", "--invert"]).ok();
    assert_eq!(sql(folder, "a.db", "SELECT group_concat(a) FROM t"), "one,two,three\n");
    let error = shoal(folder, &["apply", "a.db", "b.db"]).error();
    assert!(error.contains("changeset, byte 0"), "{error}");
}

#[test]
fn a_merge_takes_both_sides_and_tells_of_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sql(folder, "base.db", TABLES);
    for side in ["ours.db", "theirs.db"] {
        std::fs::copy(folder.join("base.db"), folder.join(side)).unwrap();
    }
    let ours = "UPDATE t SET a = 'ours' WHERE id = 1; UPDATE t SET b = 20 WHERE id = 2;
        DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (5, 'five', 5)";
    let theirs = "UPDATE t SET a = 'theirs' WHERE id = 1; UPDATE t SET a = 'zwei' WHERE id = 2;
        UPDATE t SET b = 30 WHERE id = 3; INSERT INTO t VALUES (6, 'six', 6);
        CREATE TABLE u (x); INSERT INTO u VALUES (1); CREATE INDEX i ON t (a)";
    sql(folder, "ours.db", ours);
    sql(folder, "theirs.db", theirs);
    let merged = shoal(folder, &["merge", "base.db", "ours.db", "theirs.db", "-o", "m.db"]);
    assert_eq!(merged.code, 1);
    assert!(merged.stderr.contains("2 conflicts"), "{}", merged.stderr);
    let rows = sql(folder, "m.db", "SELECT * FROM t; SELECT * FROM u; PRAGMA integrity_check");
    assert_eq!(rows, "1|ours|1\n2|zwei|20\n5|five|5\n6|six|6\n1\nok\n");
    let conflicts =
        sql(folder, "m.db", "SELECT tbl, kind, row, col, base, ours, theirs FROM merge_conflict");
    assert_eq!(conflicts, "t|cell|\"id\" IS 1|a|one|ours|theirs\nt|update|\"id\" IS 3|b|3||30\n");
    // Without a conflict, the table goes.
    let again = shoal(folder, &["merge", "theirs.db", "m.db", "theirs.db"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(
        sql(folder, "m.db", "SELECT count(*) FROM sqlite_schema WHERE name = 'merge_conflict'"),
        "0\n"
    );
}

fn git(folder: &Path, words: &[&str]) -> (bool, String) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .output()
        .expect("git runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    (done.status.success(), text + &String::from_utf8_lossy(&done.stderr))
}

#[test]
fn git_diffs_and_merges_databases_and_documents() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ok = |words: &[&str]| {
        let (done, text) = git(folder, words);
        assert!(done, "git {words:?}: {text}");
        text
    };
    ok(&["init", "-q", "-b", "main"]);
    shoal(folder, &["git-install", "*.db", "*.automerge"]).ok();
    // The second time nothing is written twice.
    shoal(folder, &["git-install", "*.db", "*.automerge"]).ok();
    let attributes = std::fs::read_to_string(folder.join(".gitattributes")).unwrap();
    assert_eq!(attributes.lines().count(), 2);
    sql(folder, "a.db", "PRAGMA journal_mode = delete");
    sql(folder, "a.db", TABLES);
    std::fs::write(folder.join("d.json"), r#"{"title": "x", "list": [1]}"#).unwrap();
    shoal(folder, &["doc", "import", "d.json", "d.automerge"]).ok();
    shoal(folder, &["doc", "import", "d.json", "a.db::note"]).ok();
    ok(&["add", "-A"]);
    ok(&["commit", "-qm", "base"]);
    ok(&["checkout", "-qb", "side"]);
    sql(folder, "a.db", "UPDATE t SET a = 'side' WHERE id = 1");
    shoal(folder, &["doc", "put", "d.automerge", "/side", "1"]).ok();
    shoal(folder, &["doc", "put", "a.db::note", "/side", "1"]).ok();
    let diff = ok(&["diff"]);
    assert!(diff.contains("VALUES(1,'side',1);"), "{diff}");
    assert!(diff.contains("+  \"side\": 1,"), "{diff}");
    ok(&["commit", "-qam", "side"]);
    ok(&["checkout", "-q", "main"]);
    sql(folder, "a.db", "UPDATE t SET b = 10 WHERE id = 1");
    shoal(folder, &["doc", "put", "d.automerge", "/main", "2"]).ok();
    shoal(folder, &["doc", "put", "a.db::note", "/main", "2"]).ok();
    ok(&["commit", "-qam", "main"]);
    ok(&["merge", "-q", "-m", "both", "side"]);
    assert_eq!(sql(folder, "a.db", "SELECT * FROM t WHERE id = 1"), "1|side|10\n");
    for document in ["d.automerge", "a.db::note"] {
        let json = shoal(folder, &["doc", "show", document, "--format", "json"]).ok();
        assert!(json.contains("\"main\":2") && json.contains("\"side\":1"), "{json}");
    }
    // Both sides change one cell: git reports the conflict, the file tells where.
    ok(&["checkout", "-qb", "other"]);
    sql(folder, "a.db", "UPDATE t SET a = 'other' WHERE id = 2");
    ok(&["commit", "-qam", "other"]);
    ok(&["checkout", "-q", "main"]);
    sql(folder, "a.db", "UPDATE t SET a = 'main' WHERE id = 2");
    ok(&["commit", "-qam", "main again"]);
    let (done, text) = git(folder, &["merge", "-m", "conflict", "other"]);
    assert!(!done && text.contains("CONFLICT"), "{text}");
    let conflict = sql(folder, "a.db", "SELECT ours, theirs FROM merge_conflict");
    assert_eq!(conflict, "main|other\n");
}

#[test]
fn tables_behind_virtual_tables_are_told_by_their_modules() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sql(folder, "a.db", "CREATE TABLE f_notes (x)");
    std::fs::copy(folder.join("a.db"), folder.join("b.db")).unwrap();
    let tables = "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('word');
        CREATE VIRTUAL TABLE r USING rtree(id, a, b); INSERT INTO r VALUES (1, 2, 3);
        CREATE VIRTUAL TABLE v USING vec0(e float[2], kind text, +note text);
        INSERT INTO v (e, kind, note) VALUES ('[1, 2]', 'a kind of many letters', 'n')";
    sql(folder, "b.db", tables);
    // A name alone makes no part of a virtual table; parts are written by the module alone.
    sql(folder, "b.db", "INSERT INTO f_notes VALUES (7)");
    for part in ["f_data", "r_node", "v_vector_chunks00", "v_metadatachunks00"] {
        let error = shoal(folder, &["sql", "b.db", &format!("DELETE FROM {part}")]).error();
        assert!(error.contains("part of virtual table"), "{part}: {error}");
    }
    let found = shoal(folder, &["diff", "a.db", "b.db"]);
    for table in ["f", "r", "v"] {
        let said = format!("left out: table {table} is a virtual table");
        assert!(found.stderr.contains(&said), "{}", found.stderr);
    }
    sql(folder, "a.db", &found.ok());
    assert_eq!(sql(folder, "a.db", "SELECT x FROM f_notes; SELECT count(*) FROM f"), "7\n0\n");
    assert_eq!(shoal(folder, &["diff", "a.db", "b.db", "--schema"]).ok(), "");
    let left = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    assert_eq!(sql(folder, "a.db", left), sql(folder, "b.db", left));
}
