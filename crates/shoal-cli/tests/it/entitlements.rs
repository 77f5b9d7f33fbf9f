//! `shoal sql --as` and `shoal serve --rules`: what a principal reads, as docs/entitlements.md has
//! it.

use std::fs;

use tempfile::tempdir;

use super::serve::Server;
use super::{shoal, shoal_with};

const RULES: &str = r#"{ "principals": {
    "ada": { "note": { "columns": ["id", "title"], "rows": "owner = :principal",
                       "mask": { "pay": "pay / 20 * 20" } } },
    "*":   { "note": { "columns": ["id", "title"], "rows": "pay < 50" } } } }"#;

#[test]
fn rules_are_tried_and_served() {
    let dir = tempdir().unwrap();
    let run = |args: &[&str]| shoal(dir.path(), args);
    run(&[
        "sql",
        "served.db",
        "CREATE TABLE note(id INTEGER PRIMARY KEY, owner TEXT, title TEXT, pay INT)",
        "INSERT INTO note VALUES (1, 'ada', 'Engines', 30), (2, 'bob', 'Plans', 40), \
         (3, 'ada', 'Notes', 50)",
    ])
    .ok();
    fs::write(dir.path().join("rules.json"), RULES).unwrap();
    let by = |name: &'static str, sql: &str| {
        run(&["sql", "served.db", "--as", name, "--rules", "rules.json", sql])
    };
    assert_eq!(by("ada", "SELECT * FROM note").ok(), "1|Engines|20\n3|Notes|40\n");
    assert_eq!(by("eve", "SELECT * FROM note").ok(), "1|Engines\n2|Plans\n");
    let error = by("eve", "SELECT count(*), sum(pay) FROM note").error();
    assert!(error.contains("statement 1: no such column: pay") && error.contains('^'), "{error}");
    let error = by("ada", "DELETE FROM note").error();
    assert!(error.contains("DELETE is not for a connection"), "{error}");
    let error = by("ada", ".dump").error();
    assert!(error.contains("whole file"), "{error}");
    let grown = RULES.replace("\"rows\": \"owner", "\"update\": [\"title\"], \"rows\": \"owner");
    fs::write(dir.path().join("rules.json"), &grown).unwrap();
    by("ada", "UPDATE note SET title = 'Motors' WHERE title = 'Engines' OR id = 2").ok();
    let error = by("ada", "UPDATE note SET title = owner").error();
    assert!(error.contains("no such column: owner"), "{error}");
    let error = by("eve", "UPDATE note SET title = 'x'").error();
    assert!(error.contains("UPDATE is not for a connection"), "{error}");
    let only_read = ["sql", "served.db", "--as", "ada", "--rules", "rules.json", "--read-only"];
    let error = run(&[&only_read[..], &["UPDATE note SET title = 'x'"]].concat()).error();
    assert!(error.contains("UPDATE is not for a connection"), "{error}");
    let titles = run(&["sql", "served.db", "SELECT title FROM note"]).ok();
    assert_eq!(titles, "Motors\nPlans\nNotes\n");
    by("ada", "UPDATE note SET title = 'Engines' WHERE id = 1").ok();
    fs::write(dir.path().join("rules.json"), RULES).unwrap();
    let more = ["sql", "served.db", "--as", "ada", "--rules", "rules.json", "--param", "n=2"];
    let script = b"SELECT title FROM note\nWHERE id > :n;\nSELECT nosuch; BEGIN; SELECT 1 AS one";
    let finished = shoal_with(dir.path(), &[&more[..], &["--format", "ndjson"]].concat(), script);
    assert_eq!(finished.stdout, "{\"title\":\"Notes\"}\n{\"one\":1}\n");
    assert!(finished.code == 1 && finished.stderr.contains("statement 2: "), "{finished:?}");

    fs::write(dir.path().join("odd.json"), RULES.replace("owner =", "nosuch =")).unwrap();
    let odd = ["sql", "served.db", "--rules", "odd.json", "--as"];
    let error = run(&[&odd[..], &["ada", "SELECT 1"]].concat()).error();
    assert!(error.contains("odd.json: the rule of note: no such column: nosuch"), "{error}");
    assert_eq!(run(&["sql", "served.db", "--as", "ada", "SELECT 1"]).code, 2);

    let token = run(&["token", "new", "tokens.json", "--as", "ada", "--note", "Ada"]).ok();
    assert!(run(&["token", "ls", "tokens.json"]).ok().contains("as ada"));
    let server = Server::with(dir.path(), &["--tokens", "tokens.json", "--rules", "rules.json"]);
    let host = format!("Host: {}", server.address);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let answer =
        server.ask(&["POST /api/sql HTTP/1.1", &host, &bearer], "SELECT * FROM note ORDER BY id");
    assert!(answer.contains(r#""rows":[[1,"Engines",20],[3,"Notes",40]]"#), "{answer}");
}
