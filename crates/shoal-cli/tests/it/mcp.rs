//! `shoal mcp`: the command with its protocol on stdin and stdout, and the official JavaScript
//! client. Builds without the feature `mcp` say so.

use std::path::Path;

use super::shoal;

fn sample(dir: &Path) {
    shoal(
        dir,
        &[
            "sql",
            "t.db",
            "CREATE TABLE t (n INTEGER PRIMARY KEY)",
            "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000) \
             INSERT INTO t SELECT x FROM c",
        ],
    )
    .ok();
}

#[cfg(not(feature = "mcp"))]
#[test]
fn a_build_without_the_server_says_so() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let said = shoal(folder.path(), &["mcp", "t.db"]).error();
    assert!(said.contains("built without its MCP server") && said.contains("--features mcp"));
}

#[cfg(feature = "mcp")]
mod with {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use serde_json::{Value as Json, json};
    use tempfile::tempdir;

    use super::sample;
    use crate::serve::installed;
    use crate::{shoal, shoal_with};

    /// Messages as a client sends them, one a line.
    fn messages(calls: &[Json]) -> String {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bytes", "version": "1"}
        });
        let mut lines = vec![
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ];
        for (place, call) in calls.iter().enumerate() {
            lines.push(json!({
                "jsonrpc": "2.0", "id": place + 1, "method": "tools/call", "params": call
            }));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn query(sql: &str) -> Json {
        json!({"name": "query", "arguments": {"sql": sql}})
    }

    /// The answers on stdout by their ids, which is all that may be there.
    fn answers(stdout: &str) -> Vec<Json> {
        let lines = stdout.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        let mut all: Vec<Json> = lines.filter(|line| !line["id"].is_null()).collect();
        all.sort_by_key(|answer| answer["id"].as_u64());
        all
    }

    #[test]
    fn a_principal_sees_what_rules_grant() {
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        shoal(dir, &["sql", "t.db", "CREATE TABLE hidden (n)"]).ok();
        let rules = r#"{ "principals": { "ada": { "t": { "rows": "n <= 10" } } } }"#;
        fs::write(dir.join("rules.json"), rules).unwrap();
        let calls = [
            query("SELECT count(*) FROM t"),
            query("SELECT * FROM hidden"),
            json!({"name": "edit_document", "arguments": {"name": "plan", "path": "/title", "value": 1}}),
            json!({"name": "schema", "arguments": {}}),
            json!({"name": "documents", "arguments": {}}),
        ];
        let given = ["mcp", "t.db", "--as", "ada", "--rules", "rules.json"];
        let finished = shoal_with(dir, &given, messages(&calls).as_bytes());
        assert_eq!(finished.code, 0, "{finished:?}");
        let answers = answers(&finished.stdout);
        assert_eq!(answers[1]["result"]["structuredContent"]["rows"], json!([[10]]));
        let why = answers[2]["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(why, "no such table: hidden (at character 15: hidden). Tables and views: t");
        let why = answers[3]["error"]["message"].as_str().unwrap();
        assert!(why.contains("the tool edit_document is refused under the rules"), "{why}");
        let schema = answers[4]["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(schema, "table t(n INTEGER PRIMARY KEY) 10 rows");
        assert_eq!(answers[5]["result"]["structuredContent"], json!({"documents": []}));
        let error = shoal(dir, &["mcp", "t.db", "--as", "eve", "--rules", "rules.json"]).error();
        assert!(error.contains("rules.json: nothing is granted to eve"), "{error}");
        assert_eq!(shoal(dir, &["mcp", "t.db", "--as", "ada"]).code, 2);
        let both = ["mcp", "t.db", "--as", "ada", "--rules", "rules.json", "--tokens", "x"];
        assert_eq!(shoal(dir, &both).code, 2);
        assert_eq!(shoal(dir, &["mcp", "t.db", "--rules", "rules.json"]).code, 2);
        let rules = r#"{"principals": {"ada": {"t": {"rows": "n > 5000", "insert": true}}}}"#;
        fs::write(dir.join("rules.json"), rules).unwrap();
        let calls = [query("INSERT INTO t VALUES (5001)"), query("INSERT INTO t VALUES (0)")];
        let written = ["mcp", "t.db", "--as", "ada", "--rules", "rules.json", "--write"];
        let finished = shoal_with(dir, &written, messages(&calls).as_bytes());
        let answers = self::answers(&finished.stdout);
        assert_eq!(answers[1]["result"]["structuredContent"]["changes"], 1);
        let why = answers[2]["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(why, "the rule of t does not grant a row of these values");
    }

    #[test]
    fn stdout_holds_the_protocol_alone() {
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        let calls = [query("SELECT count(*) FROM t"), query("DELETE FROM t"), query("SELEC")];
        let said = shoal_with(dir, &["mcp", "t.db"], messages(&calls).as_bytes());
        assert_eq!((said.code, &*said.stderr), (0, ""), "{said:?}");
        let answers = answers(&said.stdout);
        assert_eq!(answers.len(), 4, "{}", said.stdout);
        assert_eq!(answers[0]["result"]["serverInfo"]["name"], "shoal");
        assert_eq!(answers[1]["result"]["structuredContent"]["rows"], json!([[5000]]));
        assert_eq!(answers[2]["result"]["isError"], true);
        assert_eq!(answers[3]["result"]["isError"], true);
        let calls = [query("DELETE FROM t WHERE n > 10")];
        let said = shoal_with(dir, &["mcp", "t.db", "--write"], messages(&calls).as_bytes());
        let answers = self::answers(&said.stdout);
        assert_eq!(answers[1]["result"]["structuredContent"]["changes"], 4990);
        let count = shoal(dir, &["sql", "t.db", "--format", "list", "SELECT count(*) FROM t"]);
        assert_eq!(count.ok(), "10\n");
    }

    #[test]
    fn sealed_databases_take_their_key() {
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        fs::write(dir.join("key"), "a key of the tests\n").unwrap();
        fs::write(dir.join("other"), "another key\n").unwrap();
        let kdf = ["encrypt", "t.db", "--new-key-file", "key", "--kdf-time", "0"];
        shoal(dir, &kdf).ok();
        let calls = messages(&[query("SELECT max(n) FROM t")]);
        let said = shoal_with(dir, &["mcp", "t.db", "--key-file", "key"], calls.as_bytes());
        let rows = &answers(&said.stdout)[1]["result"]["structuredContent"]["rows"];
        assert_eq!(*rows, json!([[5000]]), "{said:?}");
        let said = shoal_with(dir, &["mcp", "t.db", "--key-file", "other"], calls.as_bytes());
        assert_eq!((said.code, &*said.stdout), (11, ""), "{said:?}");
        let said = shoal_with(dir, &["mcp", "t.db"], calls.as_bytes());
        assert_eq!((said.code, &*said.stdout), (10, ""), "{said:?}");
    }

    #[test]
    fn a_command_line_that_is_wrong_is_refused() {
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        let said = shoal(dir, &["mcp", "none.db"]).error();
        assert!(said.contains("none.db: no such file"), "{said}");
        let said = shoal(dir, &["mcp", "t.db", "--listen", "0.0.0.0:0"]).error();
        assert!(said.contains("other machines") && said.contains("--token-file"), "{said}");
        fs::write(dir.join("token"), "short\n").unwrap();
        let listen = ["mcp", "t.db", "--listen", "127.0.0.1:0", "--token-file", "token"];
        let said = shoal(dir, &listen).error();
        assert!(said.contains("at least 16"), "{said}");
        assert_eq!(shoal(dir, &["mcp", "t.db", "--timeout", "0"]).code, 2);
        assert_eq!(shoal(dir, &["mcp", "t.db", "--token-file", "token"]).code, 2);
        fs::write(dir.join("no.db"), "not a database, and longer than a header".repeat(9)).unwrap();
        assert!(!shoal(dir, &["mcp", "no.db"]).error().is_empty());
    }

    /// The client that agents' programs are made with.
    #[test]
    fn the_official_javascript_client_uses_it() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp");
        let Some(folder) = installed(&sources) else { return };
        let dir = tempdir().unwrap();
        sample(dir.path());
        let output = Command::new("node")
            .arg("client.mjs")
            .arg(env!("CARGO_BIN_EXE_shoal"))
            .arg(dir.path().join("t.db"))
            .current_dir(&folder)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("both transports: all well"));
    }
}
