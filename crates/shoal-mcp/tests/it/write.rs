//! Writing: refused unless it is on, and then bounded to the file.

use std::fs;

use serde_json::json;

use super::Client;
use super::sample::Sample;

/// Statements that must not run on a read-only server, with words of their refusals.
const WRITES: [(&str, &str); 24] = [
    ("INSERT INTO person VALUES (9, 'X', 1)", "only reads"),
    ("WITH c AS (SELECT 1) INSERT INTO person SELECT 9, 'X', 1", "only reads"),
    ("REPLACE INTO person VALUES (1, 'X', 1)", "only reads"),
    ("INSERT INTO person VALUES (9, 'X', 1) RETURNING id", "only reads"),
    ("UPDATE person SET born = 0", "only reads"),
    ("DELETE FROM person", "only reads"),
    ("DROP TABLE person", "only reads"),
    ("CREATE TABLE t (a)", "only reads"),
    ("CREATE TEMP TABLE t (a)", "only reads"),
    ("CREATE VIRTUAL TABLE t USING fts5 (a)", "only reads"),
    ("INSERT INTO note (note) VALUES ('optimize')", "only reads"),
    ("ALTER TABLE person ADD COLUMN x", "only reads"),
    ("CREATE PROPERTY GRAPH g VERTEX TABLES (person)", "only reads"),
    ("CREATE PROJECTION p FROM DOCUMENTS ROWS '$' COLUMNS (title TEXT)", "only reads"),
    ("ANALYZE", "only reads"),
    ("REINDEX", "only reads"),
    ("VACUUM", "VACUUM is refused"),
    ("VACUUM INTO 'copy.db'", "VACUUM is refused"),
    ("ATTACH 'other.db' AS other", "ATTACH is refused"),
    ("DETACH other", "DETACH is refused"),
    ("PRAGMA user_version = 7", "PRAGMA user_version is refused with a value"),
    ("PRAGMA journal_mode = DELETE", "is refused with a value"),
    ("PRAGMA wal_checkpoint", "PRAGMA wal_checkpoint is refused"),
    ("BEGIN IMMEDIATE", "BEGIN is refused"),
];

#[tokio::test]
async fn a_read_only_server_changes_nothing() {
    let sample = Sample::new();
    let client = Client::of(sample.options()).await;
    let before = fs::read(sample.path()).unwrap();
    for (sql, words) in WRITES {
        let why = client.refusal("query", json!({"sql": sql})).await;
        assert!(why.contains(words), "{sql}: {why}");
    }
    // Whatever the way around: no function opens files, and plans are no loophole.
    for sql in [
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "SELECT readfile('/etc/passwd')",
        "EXPLAIN DELETE FROM person",
        "SELECT * FROM pragma_user_version(7)",
    ] {
        let result = client.call("query", json!({"sql": sql})).await;
        assert_eq!(result.is_error, Some(true), "{sql}: {result:?}");
    }
    assert_eq!(fs::read(sample.path()).unwrap(), before);
    let files: Vec<String> = fs::read_dir(sample.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(files.iter().all(|name| name.starts_with("sample.db")), "{files:?}");
}

#[tokio::test]
async fn a_writing_server_writes_to_its_file_alone() {
    let sample = Sample::new();
    let client = Client::of(sample.writable()).await;
    let tools = client.0.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "edit_document"));
    let query = tools.iter().find(|tool| tool.name == "query").unwrap();
    assert_eq!(query.annotations.as_ref().unwrap().read_only_hint, Some(false));

    let sql = "INSERT INTO person (name, born) VALUES (?1, ?2)";
    let answer = client.object("query", json!({"sql": sql, "params": ["Lise", 1878]})).await;
    assert_eq!(answer, json!({"changes": 1, "last_insert_rowid": 4}));
    let sql = "UPDATE person SET born = born + 1 RETURNING id, born";
    let answer = client.object("query", json!({"sql": sql, "rows": 2})).await;
    assert_eq!(answer["changes"], 4);
    assert_eq!(answer["rows"].as_array().unwrap().len(), 2);
    assert!(answer["note"].as_str().unwrap().contains("More rows were written"));
    assert_eq!(answer.get("next_cursor"), None);

    let sql = "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2); SELECT a FROM t";
    let answer = client.object("query", json!({"sql": sql})).await;
    assert_eq!((&answer["rows"], &answer["changes"]), (&json!([[1], [2]]), &json!(2)));
    let sql = "INSERT INTO t VALUES (3); INSERT INTO nowhere VALUES (1)";
    let why = client.refusal("query", json!({"sql": sql})).await;
    assert!(why.contains("statement 2 of 2, and nothing was changed: no such table"), "{why}");
    let answer = client.object("query", json!({"sql": "SELECT count(*) FROM t"})).await;
    assert_eq!(answer["rows"], json!([[2]]));
    let why =
        client.refusal("query", json!({"sql": "INSERT INTO person VALUES (1, 'x', 1)"})).await;
    assert!(why.contains("UNIQUE constraint failed"), "{why}");
    let why = client.refusal("query", json!({"sql": "DELETE FROM _shoal_doc"})).await;
    assert!(why.contains("may only be read with SQL") && why.contains("edit_document"), "{why}");

    for (sql, words) in [
        ("ATTACH 'other.db' AS other", "reaches one file"),
        ("VACUUM INTO 'copy.db'", "reaches one file"),
        ("PRAGMA journal_mode = DELETE", "is refused with a value"),
        ("BEGIN", "every call is a transaction of its own"),
        ("SAVEPOINT s", "every call is a transaction of its own"),
        ("SELECT 1; COMMIT", "every call is a transaction of its own"),
    ] {
        let why = client.refusal("query", json!({"sql": sql})).await;
        assert!(why.contains(words), "{sql}: {why}");
    }
    assert!(!sample.folder().join("other.db").exists());

    client.object("query", json!({"sql": "PRAGMA user_version = 7"})).await;
    let answer = client.object("query", json!({"sql": "PRAGMA user_version"})).await;
    assert_eq!(answer["rows"], json!([[7]]));
    for sql in [
        "CREATE PROPERTY GRAPH g VERTEX TABLES (person)",
        "DROP PROPERTY GRAPH g",
        "CREATE PROJECTION plans FROM DOCUMENTS WHERE name = 'plan' ROWS '$' COLUMNS (title TEXT)",
        "UPDATE plans SET title = 'By SQL' WHERE title = 'Second'",
    ] {
        client.object("query", json!({"sql": sql})).await;
    }
    let plan = client.object("documents", json!({"name": "plan"})).await;
    assert_eq!(plan["value"]["title"], "By SQL");
    let told = client.text("schema", json!({"tables": ["plans"]})).await;
    assert!(told.contains("projection: CREATE PROJECTION plans"), "{told}");
}

#[tokio::test]
async fn documents_are_edited_as_one_change() {
    let sample = Sample::new();
    let client = Client::of(sample.writable()).await;
    let patch = json!([{"op": "add", "path": "/todos", "value": ["a", "b"]}]);
    let arguments = json!({"name": "plan", "patch": patch, "message": "todos"});
    let edited = client.object("edit_document", arguments).await;
    assert_eq!(edited["heads"], json!([edited["change"]]));
    let splice = json!({"path": "/todos", "position": 1, "delete": 1, "items": ["c", "d"]});
    client.object("edit_document", json!({"name": "plan", "splice": splice})).await;
    let splice = json!({"path": "/todos/0", "position": 1, "text": " try"});
    client.object("edit_document", json!({"name": "plan", "splice": splice})).await;
    let plan = client.object("documents", json!({"name": "plan"})).await;
    assert_eq!(plan["value"], json!({"title": "Second", "todos": ["a try", "c", "d"]}));
    let history = client.object("documents", json!({"name": "plan", "action": "history"})).await;
    assert_eq!(history["rows"].as_array().unwrap().len(), 5);
    // Nothing changed is no change.
    let same = json!({"name": "plan", "patch": []});
    let same = client.object("edit_document", same).await;
    assert_eq!((&same["change"], &same["heads"]), (&json!(null), &plan["heads"]));

    let held = json!({"name": "plan", "merge": {"x": 1}, "if_heads": edited["heads"]});
    let why = client.refusal("edit_document", held).await;
    assert!(why.contains("at other heads by now"), "{why}");
    let held = json!({"name": "plan", "merge": {"x": 1}, "if_heads": plan["heads"]});
    client.object("edit_document", held).await;

    let new = json!({"name": "new", "merge": {"a": {"b": [1]}}});
    let why = client.refusal("edit_document", new.clone()).await;
    assert!(why.contains("no such document: new") && why.contains("create true"), "{why}");
    let mut new = new;
    new["create"] = json!(true);
    client.object("edit_document", new).await;
    let new = client.object("documents", json!({"name": "new", "path": "/a/b/0"})).await;
    assert_eq!(new["value"], 1);
    for (arguments, words) in [
        (json!({"name": "plan"}), "exactly one of patch, merge and splice"),
        (json!({"name": "plan", "patch": [], "merge": {}}), "exactly one"),
        (json!({"name": "plan", "patch": {"op": "add"}}), "a patch is an array"),
        (json!({"name": "plan", "patch": [{"op": "remove", "path": "/none"}]}), "operation 0"),
        (json!({"name": "plan", "merge": [1]}), "nothing was changed"),
        (json!({"name": "plan", "splice": {"path": "/todos", "position": 9}}), "has length 3"),
        (
            json!({"name": "plan", "splice": {"path": "/todos", "position": 0, "text": "x"}}),
            "a list takes items",
        ),
        (
            json!({"name": "plan", "splice": {"path": "/none", "position": 0}}),
            "nothing was changed",
        ),
    ] {
        let why = client.refusal("edit_document", arguments.clone()).await;
        assert!(why.contains(words), "{arguments}: {why}");
    }
}
