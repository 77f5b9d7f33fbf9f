//! Bad input: one clear sentence on stderr, exit code 1, and nothing changed on disk.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{copy, shoal, shoal_with};

/// Every file of the folder with its content.
fn disk(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    copy(path, "sqlite/chinook.sqlite", "c.db");
    copy(path, "automerge/exemplar", "e.automerge");
    std::fs::write(path.join("text"), "this is neither a database nor a document\n".repeat(40))
        .unwrap();
    let database = std::fs::read(path.join("c.db")).unwrap();
    std::fs::write(path.join("short.db"), &database[..50]).unwrap();
    std::fs::write(path.join("cut.db"), &database[..5000]).unwrap();
    let document = std::fs::read(path.join("e.automerge")).unwrap();
    std::fs::write(path.join("cut.automerge"), &document[..document.len() / 2]).unwrap();
    std::fs::create_dir(path.join("folder")).unwrap();
    shoal_with(path, &["doc", "import", "-", "d.db::d"], b"{\"a\": {\"b\": [1]}, \"t\": \"x\"}")
        .ok();
    dir
}

/// Runs a call that must fail with an error containing `expect`, and leave the disk unchanged.
#[track_caller]
fn refused(dir: &Path, args: &[&str], input: &[u8], expect: &str) {
    let before = disk(dir);
    let error = shoal_with(dir, args, input).error();
    assert!(error.contains(expect), "{args:?}: {error}");
    assert_eq!(disk(dir), before, "{args:?}: the disk changed");
}

#[test]
fn files_that_are_no_database() {
    let dir = folder();
    let sql = |file: &str, expect: &str| {
        refused(dir.path(), &["sql", file, "SELECT * FROM Album"], b"", expect);
        refused(dir.path(), &["doc", "ls", file], b"", expect);
        refused(dir.path(), &["doc", "show", &format!("{file}::d")], b"", expect);
        refused(dir.path(), &["dump", file], b"", expect);
    };
    sql("text", "not a database");
    sql("short.db", "short.db");
    sql("folder", "is a directory: folder");
    sql("missing.db", "no such file");
    sql("folder/deeper/missing.db", "no such file");
    let schema = "SELECT count(*) FROM sqlite_schema";
    refused(dir.path(), &["sql", "missing.db", schema], b"", "no such file");
    // A truncated database opens; a missing page is found by the read of the page.
    refused(dir.path(), &["sql", "cut.db", "SELECT * FROM Track"], b"", "page");
    refused(dir.path(), &["dump", "cut.db"], b"", "page");
}

#[test]
fn files_that_are_no_document() {
    let dir = folder();
    let path = dir.path();
    for verb in ["show", "info", "history"] {
        refused(path, &["doc", verb, "text"], b"", "text: ");
        refused(path, &["doc", verb, "cut.automerge"], b"", "cut.automerge: ");
        refused(path, &["doc", verb, "folder"], b"", "is a directory: folder");
        refused(path, &["doc", verb, "missing"], b"", "no such file: missing");
        refused(path, &["doc", verb, "-"], b"\x85\x6f\x4a", "-: ");
        refused(path, &["doc", verb, "d.db::other"], b"", "no such document: other");
        refused(path, &["doc", verb, "c.db::other"], b"", "no such document: other");
    }
    refused(path, &["doc", "merge", "e.automerge", "text", "-o", "out"], b"", "text: ");
    refused(path, &["doc", "merge", "e.automerge", "d.db::d", "-o", "folder"], b"", "directory");
    refused(path, &["doc", "export", "d.db::d", "-o", "nowhere/out"], b"", "no such file");
    refused(path, &["doc", "export", "d.db::d", "-o", "c.db"], b"", "c.db");
    refused(path, &["doc", "import", "e.automerge", "text::x"], b"", "not a database");
}

#[test]
fn json_and_paths() {
    let dir = folder();
    let path = dir.path();
    refused(
        path,
        &["doc", "import", "-", "new"],
        b"{\"a\": ",
        "-: neither an Automerge file nor JSON",
    );
    refused(path, &["doc", "import", "-", "new"], b"[1]", "takes a JSON object only");
    refused(path, &["doc", "import", "-", "new.db::x"], b"nonsense", "nor JSON");
    let deep = "[".repeat(100_000);
    refused(path, &["doc", "import", "-", "new"], format!("{{\"a\": {deep}").as_bytes(), "JSON");
    for doc in ["d.db::d", "e.automerge"] {
        refused(path, &["doc", "put", doc, "/x", "{"], b"", "VALUE");
        refused(path, &["doc", "put", doc, "x", "1"], b"", "begins with a slash: x");
        refused(path, &["doc", "put", doc, "/no/such/path", "1"], b"", "no");
        refused(path, &["doc", "put", doc, "", "1"], b"", "root");
        refused(path, &["doc", "splice", doc, "/missing", "0", "0", "x"], b"", "missing");
    }
    refused(path, &["doc", "put", "d.db::d", "/a/b/7", "1"], b"", "7");
    refused(path, &["doc", "put", "d.db::d", "/a/b/x", "1"], b"", "x");
    refused(path, &["doc", "splice", "d.db::d", "/t", "2", "0", "x"], b"", "2");
    refused(path, &["doc", "splice", "d.db::d", "/t", "0", "2", "x"], b"", "2");
    refused(path, &["doc", "splice", "d.db::d", "/a", "0", "0", "x"], b"", "/a");
    refused(path, &["doc", "splice", "d.db::d", "/a/b", "0", "0", "x"], b"", "JSON");
    refused(path, &["doc", "put", "d.db::d", "/t", "1", "--actor", "xyz"], b"", "--actor");
    refused(path, &["doc", "show", "d.db::d", "/a/c"], b"", "c");
}

#[test]
fn sql_that_cannot_run() {
    let dir = folder();
    let path = dir.path();
    let sql = |text: &str, expect: &str| refused(path, &["sql", "c.db", text], b"", expect);
    sql("SELEC 1", "near \"SELEC\": syntax error");
    sql("SELECT #4 + 1", "near \"#4\": syntax error");
    sql("SELECT * FROM nowhere", "no such table: nowhere");
    sql("SELECT missing FROM Album", "no such column: missing");
    sql("SELECT nonsense(1)", "no such function: nonsense");
    sql("INSERT INTO Genre VALUES (1, 'again')", "UNIQUE constraint failed: Genre.GenreId");
    sql("CREATE TABLE Album(x)", "already exists");
    sql("CREATE VIRTUAL TABLE v USING fts9(a)", "no such module: fts9");
    for text in [
        "DELETE FROM _shoal_chunk",
        "UPDATE _Shoal_doc SET name = 'x'",
        "INSERT INTO _shoal_doc VALUES (9, 'x', x'', '{}')",
        "DROP TABLE _shoal_doc",
        "CREATE INDEX i ON _shoal_chunk(heads)",
        "CREATE TABLE _shoal_x(a)",
    ] {
        refused(path, &["sql", "d.db", text], b"", "may only be read with SQL");
    }
    refused(path, &["sql", "new.db", "CREATE TABLE t(a, a)"], b"", "duplicate column name: a");
    refused(path, &["sql", "new.db", "CREATE TABLE t(a"], b"", "incomplete input");
    refused(path, &["sql", "c.db", "--read-only", "CREATE TABLE x(y)"], b"", "read");
    refused(path, &["sql", "c.db", "--param", "x", "SELECT 1"], b"", "NAME=VALUE");
    refused(path, &["sql", "c.db"], b"SELECT '\xff';", "not UTF-8");
}

#[cfg(unix)]
#[test]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    let path = dir.path();
    for name in ["c.db", "e.automerge"] {
        std::fs::set_permissions(path.join(name), PermissionsExt::from_mode(0o000)).unwrap();
    }
    if std::fs::read(path.join("c.db")).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    for args in [
        &["sql", "c.db", "SELECT 1"][..],
        &["doc", "ls", "c.db"],
        &["doc", "show", "e.automerge"],
        &["doc", "put", "e.automerge", "/x", "1"],
    ] {
        let error = shoal(path, args).error();
        assert!(error.contains("permission denied"), "{args:?}: {error}");
    }
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["nonsense"][..],
        &["sql", "-frob"],
        &["doc"],
        &["doc", "put", "x"],
        &["sql", "--format", "xml", "x"],
    ] {
        assert_eq!(shoal(dir.path(), args).code, 2, "{args:?}");
    }
    assert!(shoal(dir.path(), &["--version"]).ok().starts_with("shoal 0."));
    assert!(shoal(dir.path(), &["help", "sql"]).ok().contains("--param"));
    for name in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(shoal(dir.path(), &["completions", name]).ok().contains("shoal"));
    }
}
