//! `shoal doc`: documents in files and in databases.

use std::path::Path;

use crate::{copy, shoal, shoal_with};

fn show(dir: &Path, doc: &str) -> String {
    shoal(dir, &["doc", "show", doc, "--format", "json"]).ok().trim_end().to_owned()
}

fn heads(dir: &Path, doc: &str) -> String {
    let info = shoal(dir, &["doc", "info", doc, "--format", "json"]).ok();
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    info["heads"].to_string()
}

#[test]
fn the_exemplar_as_the_reference_exports_it() {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path(), "automerge/exemplar", "e.automerge");
    let json: serde_json::Value = serde_json::from_str(&show(dir.path(), "e.automerge")).unwrap();
    assert_eq!(json["timestamp"], -905_182_979_000_i64);
    assert_eq!(json["counter"], 5);
    assert_eq!(json["uint"], u64::MAX);
    assert_eq!(json["bytes"], serde_json::json!([0x85, 0x6f, 0x4a, 0x83]));
    assert_eq!(json["bool"], true);
}

#[test]
fn stdin_is_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(shoal_testkit::testdata("automerge/exemplar")).unwrap();
    let told = shoal_with(dir.path(), &["doc", "show", "-", "/counter"], &bytes).ok();
    assert_eq!(told, "5\n");
}

#[test]
fn edits_in_files_and_databases_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let json = r#"{"n": 1, "list": ["a", {"b": null}], "big": 18446744073709551615, "é/~": 1.5}"#;
    for doc in ["x.automerge", "x.db::notes"] {
        shoal_with(dir, &["doc", "import", "-", doc], json.as_bytes()).ok();
        let edit = |args: &[&str]| {
            let mut all = vec!["doc", args[0], doc];
            all.extend(&args[1..]);
            shoal(dir, &all).ok();
        };
        edit(&["put", "/n", "-2"]);
        edit(&["put", "/list/-", "[true]"]);
        edit(&["put", "/list/1/b", "{\"c\": \"d\"}"]);
        edit(&["put", "/é~1~0", "\"text\""]);
        edit(&["splice", "/é~1~0", "1", "2", "éé"]);
        edit(&["splice", "/list", "0", "1", "[1, 2]"]);
        edit(&["splice", "/list/2/b/c", "1", "0", "-x"]);
        assert_eq!(
            show(dir, doc),
            r#"{"big":18446744073709551615,"list":[1,2,{"b":{"c":"d-x"}},[true]],"n":-2,"é/~":"téét"}"#
        );
        let history = shoal(dir, &["doc", "history", doc]).ok();
        assert_eq!(history.lines().count(), 8);
    }
}

#[test]
fn two_actors_diverge_and_merge() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.db::d"], br#"{"t": "abc"}"#).ok();
    shoal(dir, &["doc", "export", "a.db::d", "-o", "phone.automerge"]).ok();
    shoal(dir, &["doc", "splice", "a.db::d", "/t", "0", "0", "1"]).ok();
    shoal(dir, &["doc", "splice", "phone.automerge", "/t", "3", "0", "2"]).ok();
    shoal(dir, &["doc", "merge", "a.db::d", "phone.automerge", "-o", "a.db::d"]).ok();
    assert_eq!(show(dir, "a.db::d"), r#"{"t":"1abc2"}"#);
    shoal(dir, &["doc", "merge", "phone.automerge", "a.db::d", "-o", "both.automerge"]).ok();
    assert_eq!(heads(dir, "both.automerge"), heads(dir, "a.db::d"));
    let ls = shoal(dir, &["doc", "ls", "a.db"]).ok();
    assert!(ls.starts_with("d\t3 changes\t"), "{ls}");
}

#[test]
fn plain_sqlite_reads_documents() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    shoal_with(path, &["doc", "import", "-", "a.db::d"], br#"{"title": "T", "n": [1, 2]}"#).ok();
    shoal(path, &["doc", "put", "a.db::d", "/n/0", "7"]).ok();
    let sqlite = rusqlite::Connection::open(path.join("a.db")).unwrap();
    let json: String = sqlite
        .query_row("SELECT json FROM _shoal_doc WHERE name = 'd'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(json, r#"{"n":[7,2],"title":"T"}"#);
    let changes: i64 =
        sqlite.query_row("SELECT sum(changes) FROM _shoal_chunk", [], |row| row.get(0)).unwrap();
    assert_eq!(changes, 2);
    let verdict: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let told = shoal(
        path,
        &["sql", "--format", "list", "a.db", "SELECT name, json ->> '$.title' FROM _shoal_doc"],
    );
    assert_eq!(told.ok(), "d|T\n");
}

#[test]
fn no_change_is_ever_lost_by_an_output() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["a", "b", "c"] {
        let json = format!("{{\"{name}\": 1}}");
        shoal_with(dir, &["doc", "import", "-", &format!("{name}.automerge")], json.as_bytes())
            .ok();
    }
    let before = std::fs::read(dir.join("c.automerge")).unwrap();
    let args = ["doc", "merge", "a.automerge", "b.automerge", "-o", "c.automerge"];
    let error = shoal(dir, &args).error();
    assert!(error.contains("c.automerge: not replaced: it holds 1 changes"), "{error}");
    assert_eq!(std::fs::read(dir.join("c.automerge")).unwrap(), before);
    shoal(dir, &["doc", "merge", "a.automerge", "b.automerge", "-o", "a.automerge"]).ok();
    assert_eq!(show(dir, "a.automerge"), r#"{"a":1,"b":1}"#);
    let error = shoal_with(dir, &["doc", "import", "-", "a.automerge"], b"{}").error();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn a_real_document_survives_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    copy(path, "automerge/documents/monday-meeting-notes.automerge", "m.automerge");
    shoal(path, &["doc", "import", "m.automerge", "a.db::minutes"]).ok();
    assert_eq!(heads(path, "m.automerge"), heads(path, "a.db::minutes"));
    assert_eq!(show(path, "m.automerge"), show(path, "a.db::minutes"));
    shoal(path, &["doc", "export", "a.db::minutes", "-o", "n.automerge"]).ok();
    assert_eq!(heads(path, "m.automerge"), heads(path, "n.automerge"));
}

/// The hash of each change, oldest first.
fn hashes(dir: &Path, doc: &str) -> Vec<String> {
    let history = shoal(dir, &["doc", "history", doc, "--format", "json"]).ok();
    let change = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    history.lines().map(|line| change(line)["hash"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_document_is_shown_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.automerge"], br#"{"t": "abc", "n": [1]}"#).ok();
    shoal(dir, &["doc", "put", "a.automerge", "/n/0", "2"]).ok();
    shoal(dir, &["doc", "splice", "a.automerge", "/t", "0", "1", "x"]).ok();
    let hashes = hashes(dir, "a.automerge");
    let show = |args: &[&str]| {
        let mut all = vec!["doc", "show", "a.automerge", "--format", "json"];
        all.extend(args);
        shoal(dir, &all)
    };
    assert_eq!(show(&["--at", &hashes[0]]).ok(), "{\"n\":[1],\"t\":\"abc\"}\n");
    assert_eq!(show(&["--at", &hashes[1][..12], "/n/0"]).ok(), "2\n");
    assert_eq!(show(&["--at", &hashes[2].to_uppercase()]).ok(), "{\"n\":[2],\"t\":\"xbc\"}\n");
    assert_eq!(show(&["--at", ""]).ok(), "{}\n");
    let error = show(&["--at", "ffffffffffff"]).error();
    assert!(error.contains("a.automerge: no such change: ffffffffffff"), "{error}");
    let refused = show(&["--at", "xyz"]);
    assert_eq!(refused.code, 2);
    let reason = "not a hash, nor 4 or more of its first digits: xyz";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
}

#[test]
fn a_difference_that_is_applied_makes_the_other_state() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.automerge"], br#"{"t": "abc", "n": [1], "o": 1}"#)
        .ok();
    shoal(dir, &["doc", "export", "a.automerge", "-o", "b.automerge"]).ok();
    shoal(dir, &["doc", "splice", "a.automerge", "/n", "1", "0", "[{\"k\": null}]"]).ok();
    shoal(dir, &["doc", "splice", "a.automerge", "/t", "3", "0", "d"]).ok();
    let first = &hashes(dir, "a.automerge")[0];
    let patch = shoal(dir, &["doc", "diff", "a.automerge", "--from", first, "--format", "json"]);
    let patch = patch.ok();
    assert_eq!(
        patch,
        "[{\"op\":\"add\",\"path\":\"/n/1\",\"value\":{\"k\":null}},\
         {\"op\":\"replace\",\"path\":\"/t\",\"value\":\"abcd\"}]\n"
    );
    assert_eq!(
        shoal(dir, &["doc", "diff", "b.automerge", "a.automerge", "--format", "json"]).ok(),
        patch
    );
    let told = shoal_with(
        dir,
        &["doc", "patch", "b.automerge", "-", "--format", "json", "-m", "from a"],
        patch.as_bytes(),
    );
    let told: serde_json::Value = serde_json::from_str(&told.ok()).unwrap();
    assert_eq!(told["change"], serde_json::json!(hashes(dir, "b.automerge")[1]));
    assert_eq!(show(dir, "b.automerge"), show(dir, "a.automerge"));
    // The string was edited, not replaced: edits made by others survive.
    shoal(dir, &["doc", "merge", "a.automerge", "b.automerge", "-o", "c.automerge"]).ok();
    assert_eq!(shoal(dir, &["doc", "show", "c.automerge", "/t"]).ok(), "\"abcdd\"\n");

    shoal_with(dir, &["doc", "import", "-", "d.automerge"], br#"{"t": "abc", "o": 1}"#).ok();
    let merge = shoal(dir, &["doc", "diff", "d.automerge", "a.automerge", "--as", "merge"]).ok();
    std::fs::write(dir.join("merge.json"), &merge).unwrap();
    shoal(dir, &["doc", "patch", "d.automerge", "merge.json"]).ok();
    assert_eq!(show(dir, "d.automerge"), r#"{"n":[1,{"k":null}],"o":1,"t":"abcd"}"#);
    // Nothing to change is no change.
    let told = shoal_with(dir, &["doc", "patch", "d.automerge", "-", "--format", "json"], b"[]");
    assert_eq!(told.ok(), "{\"change\":null}\n");
}

#[test]
fn a_patch_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.db::d"], br#"{"a": 1}"#).ok();
    let patch = br#"[{"op": "add", "path": "/b", "value": 2}, {"op": "remove", "path": "/c"}]"#;
    let error = shoal_with(dir, &["doc", "patch", "a.db::d", "-"], patch).error();
    assert!(error.contains("a.db::d: operation 1:"), "{error}");
    assert_eq!(show(dir, "a.db::d"), r#"{"a":1}"#);
    let error = shoal_with(dir, &["doc", "patch", "a.db::d", "-"], b"7").error();
    assert!(error.contains("a patch is a JSON array or a JSON object"), "{error}");
    let error = shoal_with(dir, &["doc", "patch", "a.db::d", "-"], b"{").error();
    assert!(error.contains("-: not JSON:"), "{error}");
}

#[test]
fn steps_are_told_as_automerge_knows_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.automerge"], br#"{"t": "abc", "l": [1, 2]}"#).ok();
    shoal(dir, &["doc", "splice", "a.automerge", "/t", "1", "1", "xyz"]).ok();
    shoal(dir, &["doc", "put", "a.automerge", "/l/1", "{}"]).ok();
    let first = &hashes(dir, "a.automerge")[0][..12];
    let args = ["doc", "diff", "a.automerge", "--from", first, "--as", "steps"];
    assert_eq!(
        shoal(dir, &args).ok(),
        "put       /l/1  {}\nsplice    /t/1  \"xyz\"\ndelete    /t/4  1\n"
    );
    let json = shoal(dir, &[&args[..], &["--format", "json"]].concat()).ok();
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1], serde_json::json!({"action": "splice", "path": "/t/1", "text": "xyz"}));
    let refused = shoal(dir, &["doc", "diff", "a.automerge", "a.automerge", "--as", "steps"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("from one state of a document to another state of it"));
}

#[test]
fn what_is_left_of_a_damaged_file_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.automerge"], br#"{"a": 1}"#).ok();
    let mut bytes = std::fs::read(dir.join("a.automerge")).unwrap();
    bytes.extend_from_slice(b"more");
    std::fs::write(dir.join("bad.automerge"), &bytes).unwrap();
    let args = ["doc", "rescue", "bad.automerge", "-o", "good.automerge"];
    let error = shoal(dir, &args).error();
    assert!(error.contains("lost: bytes "), "{error}");
    assert_eq!(show(dir, "good.automerge"), r#"{"a":1}"#);
    shoal(dir, &["doc", "rescue", "good.automerge", "-o", "same.automerge"]).ok();
    assert_eq!(heads(dir, "same.automerge"), heads(dir, "a.automerge"));
}

#[test]
fn a_failure_says_what_to_try_next() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    copy(dir, "automerge/exemplar", "e.automerge");
    let document = std::fs::read(dir.join("e.automerge")).unwrap();
    std::fs::write(dir.join("cut.automerge"), &document[..document.len() / 2]).unwrap();
    std::fs::write(dir.join("notes.json"), b" {\"a\": 1}").unwrap();
    std::fs::write(dir.join("text"), b"neither").unwrap();
    shoal(dir, &["doc", "import", "e.automerge", "d.db::e"]).ok();
    for (doc, reason, hint) in [
        ("cut.automerge", "ends too early", "shoal doc rescue cut.automerge -o FILE"),
        ("notes.json", "not an Automerge file", "shoal doc import makes a document"),
        ("d.db", "not an Automerge file", "d.db::NAME is a document in it"),
        ("text", "not an Automerge file", "shoal doc rescue"),
    ] {
        let error = shoal(dir, &["doc", "show", doc]).error();
        assert!(error.contains(reason) && error.contains(hint), "{doc}: {error}");
    }
    let error = shoal(dir, &["doc", "put", "e.automerge", "/title", "Draft"]).error();
    assert!(error.contains("hint: a string is written as '\"Draft\"'"), "{error}");
}

#[test]
fn a_copy_to_show_has_the_shape_and_not_the_content() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    copy(dir, "automerge/exemplar", "e.automerge");
    shoal(dir, &["doc", "anonymize", "e.automerge", "-o", "copy.automerge"]).ok();
    let info = |doc: &str| -> serde_json::Value {
        serde_json::from_str(&shoal(dir, &["doc", "info", doc, "--format", "json"]).ok()).unwrap()
    };
    let (original, made) = (info("e.automerge"), info("copy.automerge"));
    assert_eq!((&original["ops"], &original["changes"]), (&made["ops"], &made["changes"]));
    assert_ne!(original["actors"], made["actors"]);
    let shown = show(dir, "copy.automerge");
    for word in ["title", "Hello", "location", "automerge.org", "3.14159267"] {
        assert!(!shown.contains(word), "{word} in {shown}");
    }
    let error = shoal(dir, &["doc", "anonymize", "e.automerge", "-o", "copy.automerge"]).error();
    assert!(error.contains("copy.automerge: the document exists already"), "{error}");
}

#[test]
fn a_history_tells_every_op() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shoal_with(dir, &["doc", "import", "-", "a.automerge"], br#"{"n": 1.5, "t": "ab"}"#).ok();
    let told = shoal(dir, &["doc", "history", "a.automerge", "--ops", "--format", "json"]).ok();
    let changes: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(changes.len(), 1);
    let ops = changes[0]["ops"].as_array().unwrap();
    assert_eq!(ops.len(), 4);
    assert_eq!(ops[0]["value"], 1.5);
    assert_eq!(ops[3]["insert"], true);
    assert_eq!(changes[0]["hash"], hashes(dir, "a.automerge")[0]);
}

/// Whoever reads the notes may stop listening.
#[test]
fn notes_to_nobody_are_no_failure() {
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    let mut damaged = std::fs::read(shoal_testkit::testdata("automerge/exemplar")).unwrap();
    damaged.extend(b"junk");
    std::fs::write(dir.path().join("d.automerge"), damaged).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["doc", "rescue", "d.automerge", "-o", "r.automerge"])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(dir.path().join("r.automerge").exists());
}

#[test]
fn documents_are_renamed_copied_compacted_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    shoal_with(path, &["doc", "import", "-", "a.db::d"], br#"{"title": "T"}"#).ok();
    for n in 0..8 {
        shoal(path, &["doc", "put", "a.db::d", "/n", &n.to_string()]).ok();
    }
    shoal(path, &["doc", "rename", "a.db::d", "e"]).ok();
    shoal(path, &["doc", "copy", "a.db::e", "a.db::f"]).ok();
    shoal(path, &["doc", "copy", "a.db::e", "b.db::e"]).ok();
    assert_eq!(heads(path, "a.db::e"), heads(path, "b.db::e"));
    let told = shoal(path, &["doc", "copy", "a.db::e", "b.db::e"]).error();
    assert!(told.contains("a document of this name already: e"), "{told}");
    let told = shoal(path, &["doc", "rm", "a.db"]).error();
    assert!(told.contains("a.db: no document of a database"), "{told}");

    let before = heads(path, "a.db::e");
    let told = shoal(path, &["doc", "compact", "a.db", "--format", "json"]).ok();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told[0]["name"], &told[0]["changes"]), (&"e".into(), &9.into()));
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert!(number(&told[0]["bytes_after"]) < number(&told[0]["bytes_before"]), "{told}");
    assert_eq!(heads(path, "a.db::e"), before);

    shoal(path, &["doc", "rm", "a.db::e"]).ok();
    assert!(shoal(path, &["doc", "ls", "a.db"]).ok().starts_with("f\t9 changes"));
    assert_eq!(shoal(path, &["doc", "ls", "a.db", "--removed"]).ok(), "e\n");
}

/// A storage folder as automerge-repo's file system adapter writes it, and one of plain files.
#[test]
fn folders_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    shoal_with(path, &["doc", "import", "-", "one.automerge"], br#"{"title": "T"}"#).ok();
    std::fs::copy(path.join("one.automerge"), path.join("two.automerge")).unwrap();
    shoal(path, &["doc", "put", "two.automerge", "/n", "7"]).ok();
    let repo = path.join("repo");
    let folder = repo.join("4N/abcdefghijk");
    std::fs::create_dir_all(folder.join("snapshot")).unwrap();
    std::fs::create_dir_all(folder.join("incremental")).unwrap();
    std::fs::create_dir_all(repo.join("st")).unwrap();
    std::fs::write(repo.join("st/orage-adapter-id"), b"an-id").unwrap();
    std::fs::copy(path.join("two.automerge"), folder.join("incremental/00ff")).unwrap();
    std::fs::copy(path.join("one.automerge"), folder.join("snapshot/ff00")).unwrap();
    shoal(path, &["doc", "import", "repo", "a.db"]).ok();
    assert_eq!(heads(path, "a.db::4Nabcdefghijk"), heads(path, "two.automerge"));
    shoal(path, &["doc", "import", "repo", "a.db"]).ok();

    std::fs::create_dir(path.join("plain")).unwrap();
    std::fs::rename(path.join("one.automerge"), path.join("plain/one.automerge")).unwrap();
    let mut broken = std::fs::read(path.join("two.automerge")).unwrap();
    broken.truncate(40);
    std::fs::write(path.join("plain/broken.automerge"), broken).unwrap();
    let told = shoal(path, &["doc", "import", "plain", "a.db"]).error();
    assert!(told.contains("1 of 2 documents were not imported"), "{told}");
    let ls = shoal(path, &["doc", "ls", "a.db"]).ok();
    assert_eq!(ls.lines().count(), 2, "{ls}");
    let told = shoal(path, &["doc", "import", "plain", "a.db::x"]).error();
    assert!(told.contains("a folder is imported into a database"), "{told}");
}

#[test]
fn projections_are_tables_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let list = br#"{"items": [{"title": "book", "done": false}, {"title": "pack", "done": true}]}"#;
    shoal_with(path, &["doc", "import", "-", "a.db::list/trip"], list).ok();
    let sql = "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' ROWS '$.items[*]' \
               COLUMNS (title TEXT, done BOOLEAN)";
    shoal(path, &["sql", "a.db", sql]).ok();
    let open = ["sql", "--format", "list", "a.db", "SELECT title, done FROM todo ORDER BY title"];
    assert_eq!(shoal(path, &open).ok(), "book|0\npack|1\n");
    shoal(path, &["doc", "put", "a.db::list/trip", "/items/0/done", "true"]).ok();
    shoal(path, &["doc", "put", "a.db::list/trip", "/items/-", r#"{"title": "leave"}"#]).ok();
    assert_eq!(shoal(path, &open).ok(), "book|1\nleave|NULL\npack|1\n".replace("NULL", ""));
    shoal(path, &["sql", "a.db", "UPDATE todo SET done = 0 WHERE title = 'pack'"]).ok();
    let pack = shoal(path, &["doc", "show", "a.db::list/trip", "/items/1/done"]).ok();
    assert_eq!(pack.trim(), "false");
    let told = shoal(path, &["sql", "a.db", "UPDATE todo SET _doc = 9"]).error();
    assert!(told.contains("_doc and _id are the row's key"), "{told}");
    let told = shoal(path, &["sql", "a.db", "CREATE PROJECTION x FROM y z"]).error();
    assert!(told.contains("near z: syntax error"), "{told}");
    let told = shoal(path, &["sql", "a.db", sql]).error();
    assert!(told.contains("projection todo already exists"), "{told}");
    let dump = shoal(path, &["dump", "a.db", "todo"]).ok();
    assert!(dump.contains("INSERT INTO todo") && !dump.contains("_guard_"), "{dump}");
    shoal(path, &["sql", "a.db", "DROP PROJECTION todo"]).ok();
    let told = shoal(path, &open).error();
    assert!(told.contains("no such table: todo"), "{told}");
}

/// A watcher in another process is told of commits and rows as they come.
#[test]
fn watch_tells_of_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    shoal_with(dir, &["doc", "import", "-", "a.db::note"], br#"{"n": 1}"#).ok();
    shoal(dir, &["sql", "a.db", "CREATE TABLE t (a)"]).ok();
    let watching = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_shoal"))
            .args(["watch", "a.db"])
            .args(arguments)
            .args(["--timeout", "60"])
            .current_dir(dir)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut query = watching(&["--query", "SELECT sum(a) AS s FROM t", "--count", "2"]);
    let documents = watching(&["--count", "1"]);
    // The query's first line says that its watcher is ready.
    use std::io::BufRead;
    let mut lines = std::io::BufReader::new(query.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(r#""rows":[[null]]"#), "{first}");
    shoal(dir, &["sql", "a.db", "INSERT INTO t VALUES (3), (4)"]).ok();
    let second = lines.next().unwrap().unwrap();
    assert!(
        second.contains(r#""columns":["s"]"#) && second.contains(r#""rows":[[7]]"#),
        "{second}"
    );
    assert!(query.wait().unwrap().success());
    // The other watcher may be slower to begin: something changes until it has seen a change.
    let mut documents = documents;
    let mut n = 2;
    while documents.try_wait().unwrap().is_none() {
        shoal(dir, &["doc", "put", "a.db::note", "/n", &n.to_string()]).ok();
        n += 1;
    }
    let told = documents.wait_with_output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains(r#""event":"document""#) && told.contains(r#""name":"note""#), "{told}");
    let none = shoal(dir, &["watch", "a.db", "--table", "nowhere", "--timeout", "1"]).error();
    assert!(none.contains("no such table: nowhere"), "{none}");
    assert_eq!(shoal(dir, &["watch", "a.db", "note", "--timeout", "0.05"]).ok(), "");
}

/// The README's tour: a projection as it was, the history and the difference of a document.
#[test]
fn sql_reads_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let items = br#"{"items": [{"what": "boots", "packed": false}]}"#;
    shoal_with(dir, &["doc", "import", "-", "a.db::list/bag"], items).ok();
    let sql = |text: &str| shoal(dir, &["sql", "a.db", "--format", "list", text]).ok();
    sql(
        "CREATE PROJECTION bag FROM DOCUMENTS ROWS '$.items[*]' COLUMNS (what TEXT, packed BOOLEAN)",
    );
    let before = sql("SELECT heads FROM documents WHERE name = 'list/bag'");
    let before = before.trim();
    shoal(dir, &["doc", "put", "a.db::list/bag", "/items/0/packed", "true"]).ok();
    assert_eq!(sql("SELECT what, packed FROM bag"), "boots|1\n");
    assert_eq!(sql(&format!("SELECT what, packed FROM bag AS OF '{before}'")), "boots|0\n");
    let diff = sql(&format!("SELECT * FROM document_diff('list/bag', '{before}')"));
    assert_eq!(diff, "/items/0/packed|put|0|1\n");
    assert_eq!(sql("SELECT seq, ops > 0 FROM document_history('list/bag')").lines().count(), 2);
    let update =
        format!("UPDATE bag AT '{before}' SET what = 'warm ' || what RETURNING what, packed");
    assert_eq!(sql(&update), "warm boots|1\n");
    let wrong = shoal(dir, &["sql", "a.db", "SELECT * FROM bag AS OF 'abcdef0123'"]).error();
    assert!(wrong.contains("no document has such a change"), "{wrong}");
}

/// A dump has the documents: restored by `sqlite3` and by Shoal, they open, their projections are
/// kept on, and nobody else writes to these.
#[test]
fn dumps_copies_and_vacuum_into_have_the_documents() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let items = br#"{"items": [{"what": "it's", "n": 1}, {"what": "b"}]}"#;
    shoal_with(dir, &["doc", "import", "-", "a.db::list/bag"], items).ok();
    shoal_with(dir, &["doc", "import", "-", "a.db::gone"], br#"{"x": 1}"#).ok();
    shoal(dir, &["doc", "rm", "a.db::gone"]).ok();
    let define =
        "CREATE PROJECTION bag FROM DOCUMENTS ROWS '$.items[*]' COLUMNS (what TEXT, n INT)";
    shoal(dir, &["sql", "a.db", define, "CREATE INDEX bag_n ON bag (n)"]).ok();
    shoal(dir, &["sql", "a.db", "CREATE TABLE t (a UNIQUE, b)", "INSERT INTO t VALUES (1, x'00')"])
        .ok();
    shoal(dir, &["doc", "put", "a.db::list/bag", "/items/0/n", "2"]).ok();
    let heads_before = heads(dir, "a.db::list/bag");
    let dump = shoal(dir, &["dump", "a.db"]).ok();
    shoal_with(dir, &["sql", "shoal.db"], dump.as_bytes()).ok();
    shoal(dir, &["sql", "a.db", "VACUUM INTO 'vacuum.db'"]).ok();
    shoal(dir, &["backup", "a.db", "backup.db"]).ok();
    let mut copies = vec!["shoal.db", "vacuum.db", "backup.db"];
    if let Some(made) = crate::sqlite3(dir, &["sqlite.db"], dump.as_bytes()) {
        made.ok();
        copies.push("sqlite.db");
    }
    for copy in copies {
        let doc = format!("{copy}::list/bag");
        assert_eq!(heads(dir, &doc), heads_before, "{copy}");
        assert_eq!(shoal(dir, &["doc", "history", &doc]).ok().lines().count(), 2, "{copy}");
        assert!(shoal(dir, &["doc", "ls", copy, "--removed"]).ok().contains("gone"), "{copy}");
        shoal(dir, &["doc", "put", &doc, "/items/1/n", "7"]).ok();
        let sqlite = rusqlite::Connection::open(dir.join(copy)).unwrap();
        let sum: i64 = sqlite.query_row("SELECT sum(n) FROM bag", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 9, "{copy}");
        assert!(sqlite.execute("DELETE FROM bag", []).is_err(), "{copy}");
        let check: String =
            sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{copy}");
        let told = shoal(dir, &["sql", copy, "DELETE FROM _shoal_chunk"]).error();
        assert!(told.contains("_shoal_chunk"), "{told}");
    }
    // A dump is restored where there are no documents.
    let told = shoal_with(dir, &["sql", "--bail", "a.db"], dump.as_bytes());
    assert_eq!(told.code, 1);
    shoal(dir, &["doc", "copy", "a.db::list/bag", "other.db::bag"]).ok();
    assert_eq!(heads(dir, "other.db::bag"), heads_before);
}
