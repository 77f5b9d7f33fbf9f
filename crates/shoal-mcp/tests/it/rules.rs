//! Under rules: each tool beside the same tool on a file without the hidden parts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value as Json, json};
use shoal::{Access, Database, Document, Environment};
use shoal_mcp::{AnswerLimits, Error, HttpOptions, Options, RulesFor, serve_http, serve_streams};
use tempfile::TempDir;

use super::sample::{edit, run};
use super::{Client, call, object};

/// Tables in sight of ada, as a file has them without anything else.
const VISIBLE: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, title TEXT COLLATE NOCASE);
    INSERT INTO note VALUES (1, 'ada', 'Engines'), (3, 'ada', 'Notes'), (5, 'ada', NULL);
    CREATE TABLE city (name TEXT, people INTEGER);
    INSERT INTO city VALUES ('Bern', 130000), ('Oslo', 700000);
    CREATE VIEW long AS SELECT title FROM note WHERE length(title) > 5;
";
/// The same tables among hidden columns, rows, indexes, tables, documents and a graph. Every hidden
/// name and value begins with `zz`.
const HIDDEN: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, zz_pay INTEGER DEFAULT 7 CHECK (zz_pay < 99),
                       title TEXT COLLATE NOCASE, zz_boss INTEGER REFERENCES zz_person (id));
    CREATE UNIQUE INDEX zz_by_pay ON note (zz_pay);
    CREATE TABLE zz_person (id INTEGER PRIMARY KEY, zz_name TEXT);
    INSERT INTO zz_person VALUES (1, 'zz Grace'), (2, 'zz Emmy');
    INSERT INTO note VALUES (1, 'ada', 30, 'Engines', 1), (2, 'zz bob', 40, 'zz Plans', 1),
                            (3, 'ada', 50, 'Notes', 2), (4, 'zz eve', 60, 'zz Rings', 2),
                            (5, 'ada', 70, NULL, NULL);
    CREATE TABLE city (name TEXT, people INTEGER);
    INSERT INTO city VALUES ('Bern', 130000), ('Oslo', 700000);
    CREATE INDEX zz_city ON city (people);
    CREATE VIEW long AS SELECT title FROM note WHERE length(title) > 5;
    CREATE VIEW zz_view AS SELECT zz_name FROM zz_person;
    CREATE VIRTUAL TABLE zz_text USING fts5 (zz_body);
    INSERT INTO zz_text VALUES ('zz a secret engine');
    CREATE VIRTUAL TABLE zz_near USING vec0 (place float[2]);
    INSERT INTO zz_near (rowid, place) VALUES (1, '[0, 0]');
    CREATE TRIGGER zz_trigger AFTER DELETE ON city BEGIN DELETE FROM zz_person; END;
    ANALYZE;
";
const RULES: &str = r#"{ "principals": { "ada": {
    "note": { "columns": ["id", "owner", "title"], "rows": "owner = :principal" },
    "city": {}, "long": {} } } }"#;

struct File {
    folder: TempDir,
}

impl File {
    fn new(tables: &str, rules: &str) -> File {
        let file = File { folder: tempfile::tempdir().unwrap() };
        let path = file.path("t.db");
        let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
        for range in shoal_sql::Statements::new(tables) {
            run(&mut database, &tables[range]);
        }
        fs::write(file.path("rules.json"), rules).unwrap();
        file
    }

    /// The file with everything that ada may not see.
    fn hidden() -> File {
        let file = File::new(HIDDEN, RULES);
        let mut database = file.beside();
        let graph = "CREATE PROPERTY GRAPH zz_graph VERTEX TABLES (zz_person)";
        assert!(database.define(graph).unwrap());
        let mut plan = Document::new(Environment::os().new_actor());
        edit(&mut plan, "zz_title", "zz First");
        database.store("zz_plan", &mut plan).unwrap();
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn beside(&self) -> Database {
        Database::open(Environment::os(), &self.path("t.db"), Access::ReadWrite).unwrap()
    }

    fn options(&self) -> Options {
        Options {
            environment: Environment::os(),
            path: self.path("t.db"),
            is_writable: false,
            limits: AnswerLimits { time: Duration::from_secs(60), ..AnswerLimits::default() },
            rules: Some(RulesFor {
                file: self.path("rules.json"),
                principal: Some("ada".to_owned()),
            }),
        }
    }

    /// Runs a statement of another program.
    fn change(&self, sql: &str) {
        run(&mut self.beside(), sql);
    }
}

/// The text of an answer or refusal, with names given by chance taken out.
async fn told(client: &Client, tool: &'static str, arguments: Json) -> String {
    let result = client.call(tool, arguments).await;
    let words = format!("{:?} {}", result.is_error, super::text(&result));
    match result.structured_content {
        Some(Json::Object(mut object)) => {
            for name in ["next_cursor", "version"] {
                if object.contains_key(name) {
                    object.insert(name.to_owned(), json!("by chance"));
                }
            }
            format!("{:?} {}", result.is_error, Json::Object(object))
        }
        _ => words,
    }
}

#[tokio::test]
async fn every_answer_is_as_of_a_file_without_what_is_hidden() {
    let (hidden, visible) = (File::hidden(), File::new(VISIBLE, RULES));
    let (narrowed, reference) =
        (Client::of(hidden.options()).await, Client::of(visible.options()).await);
    let whole = Client::of(Options { rules: None, ..visible.options() }).await;
    for sql in [
        "SELECT * FROM note ORDER BY id",
        "SELECT count(*), max(id), group_concat(title) FROM note",
        "SELECT * FROM city ORDER BY name",
        "SELECT * FROM long",
        "SELECT n.title, c.name FROM note AS n JOIN city AS c ON n.id < c.people ORDER BY 1, 2",
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT x FROM c",
        "VALUES (1), (2)",
        // Errors, and their hints.
        "SELECT",
        "SELECT nosuch FROM note",
        "SELECT * FROM nosuch",
        "SELECT abs(-9223372036854775808)",
    ] {
        let answer = told(&narrowed, "query", json!({"sql": sql})).await;
        assert!(!answer.contains("zz"), "{sql}: {answer}");
        assert_eq!(answer, told(&reference, "query", json!({"sql": sql})).await, "{sql}");
        assert_eq!(answer, told(&whole, "query", json!({"sql": sql})).await, "{sql}");
    }
    for sql in [
        "SELECT zz_pay FROM note",
        "SELECT count(*) FROM zz_person",
        "SELECT * FROM zz_view",
        "SELECT * FROM zz_text('engine')",
        "SELECT rowid FROM zz_near WHERE place MATCH '[0, 0]' AND k = 1",
        "SELECT * FROM _shoal_doc",
        "SELECT * FROM documents",
        "SELECT * FROM document_json('zz_plan')",
        "SELECT * FROM graph_context('zz_graph', 1)",
        "SELECT * FROM GRAPH_TABLE (zz_graph MATCH (a) COLUMNS (a.id))",
        "SELECT * FROM note AS OF '00'",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM sqlite_stat1",
        "SELECT * FROM dbstat",
        "SELECT * FROM pragma_table_info('note')",
        "SELECT * FROM pragma_index_list('note')",
        "SELECT * FROM note INDEXED BY zz_by_pay",
        "PRAGMA table_list",
        "PRAGMA table_xinfo(zz_person)",
        "PRAGMA page_count",
        "PRAGMA integrity_check",
        "EXPLAIN QUERY PLAN SELECT * FROM note",
        "EXPLAIN SELECT * FROM zz_person",
        "INSERT INTO note (id, zz_pay) VALUES (9, 30)",
        "UPDATE zz_person SET id = 1",
        "DELETE FROM city",
        "CREATE PROJECTION p FROM DOCUMENTS ROWS '$' COLUMNS (x)",
        "ATTACH 'other.db' AS zz",
        "VACUUM INTO 'copy.db'",
        "BEGIN",
        "SAVEPOINT a",
        "SELECT 1; SELECT 2",
    ] {
        let answer = told(&narrowed, "query", json!({"sql": sql})).await;
        assert_eq!(answer, told(&reference, "query", json!({"sql": sql})).await, "{sql}");
    }
    assert!(!hidden.path("copy.db").exists());
    for arguments in [
        json!({}),
        json!({"sql": true, "internal": true}),
        json!({"tables": ["note", "long"], "sql": true}),
        json!({"tables": ["zz_person"]}),
        json!({"tables": ["zz_text"]}),
        json!({"tables": ["sqlite_stat1"]}),
    ] {
        let answer = told(&narrowed, "schema", arguments.clone()).await;
        let is_asked = arguments.to_string().contains("zz");
        assert!(is_asked || !answer.contains("zz"), "{arguments}: {answer}");
        assert_eq!(answer, told(&reference, "schema", arguments.clone()).await, "{arguments}");
    }
    let schema = narrowed.text("schema", json!({})).await;
    let lines = [
        "table city(name TEXT, people INTEGER) 2 rows",
        "view long(title TEXT)",
        "table note(id INTEGER PRIMARY KEY, owner TEXT, title TEXT) 3 rows",
    ];
    assert_eq!(schema.lines().collect::<Vec<_>>(), lines);
    let read = narrowed.0.read_resource(ReadResourceRequestParams::new("shoal://schema"));
    let read = read.await.unwrap();
    let [ResourceContents::TextResourceContents { text, .. }] = read.contents.as_slice() else {
        panic!("{read:?}")
    };
    assert_eq!(*text, schema);
}

#[tokio::test]
async fn tools_without_a_narrowed_answer_are_refused_by_name() {
    let file = File::hidden();
    let client = Client::of(file.options()).await;
    let tools = client.0.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let granted = ["schema", "query", "documents", "search", "graph_context", "changes_since"];
    assert_eq!(names, granted);
    for tool in &tools {
        let words = tool.description.as_deref().unwrap();
        assert!(words.contains("granted"), "{words}");
    }
    let why = client.0.call_tool(CallToolRequestParams::new("edit_document")).await;
    let why = why.unwrap_err().to_string();
    assert!(why.contains("the tool edit_document is refused under the rules"), "{why}");
    assert!(why.contains("--write, without --as") && !why.contains("zz"), "{why}");
    let instructions = client.0.peer_info().unwrap().instructions.clone().unwrap();
    assert!(instructions.contains("rules of this server"));
    let resources = client.0.list_all_resources().await.unwrap();
    let uris: Vec<&str> = resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["shoal://schema"]);
    // Present and absent documents are refused alike.
    for name in ["zz_plan", "nosuch"] {
        let uri = format!("shoal://document/{name}");
        let read = client.0.read_resource(ReadResourceRequestParams::new(uri)).await;
        let why = read.unwrap_err().to_string();
        assert!(why.contains(&format!("no such document: {name}")), "{why}");
    }
}

#[tokio::test]
async fn changes_of_what_is_hidden_are_not_told() {
    let file = File::hidden();
    let client = Client::of(file.options()).await;
    let mut version = client.object("changes_since", json!({})).await["version"].clone();
    let everything = r#""zz_person": {}, "city": {}"#;
    for (sql, tables) in [
        ("UPDATE note SET zz_pay = zz_pay + 1 WHERE id = 1", json!([])),
        ("UPDATE note SET title = 'zz other' WHERE id = 2", json!([])),
        ("INSERT INTO zz_person VALUES (9, 'zz new')", json!([])),
        ("CREATE TABLE zz_more (n)", json!([])),
        ("DELETE FROM note WHERE id = 4", json!([])),
        ("UPDATE note SET title = 'Machines' WHERE id = 1", json!(["note"])),
        ("UPDATE city SET name = 'Rome' WHERE name = 'Bern'", json!(["city"])),
        ("INSERT INTO city VALUES ('Rome', 130000)", json!(["city"])),
        ("UPDATE note SET owner = 'zz eve' WHERE id = 3", json!(["note"])),
    ] {
        file.change(sql);
        let arguments = json!({"version": version});
        let answer = client.object("changes_since", arguments.clone()).await;
        assert_eq!(answer["tables"], tables, "{sql}: {answer}");
        let more = ["documents", "tables", "version"];
        assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), more, "{sql}");
        assert_eq!(answer["documents"], json!([]));
        assert_eq!(client.object("changes_since", arguments).await, answer, "told again: {sql}");
        version = answer["version"].clone();
    }
    // Rules that change are tables that come and go.
    let rules = format!("{{ \"principals\": {{ \"ada\": {{ {everything} }} }} }}");
    fs::write(file.path("rules.json"), rules).unwrap();
    let answer = client.object("changes_since", json!({"version": version})).await;
    assert_eq!(answer["created"], json!(["zz_person"]));
    assert_eq!(answer["dropped"], json!(["long", "note"]));
    // Rules that cannot be read grant nothing any more.
    fs::write(file.path("rules.json"), "{").unwrap();
    let why = client.refusal("query", json!({"sql": "SELECT * FROM city"})).await;
    assert_eq!(why, "no rule of this server grants you tables");
    // Rules that do not fit say so to whoever started the server, not to the client.
    let unfit = r#"{ "principals": { "ada": { "city": { "columns": ["zz"] } } } }"#;
    fs::write(file.path("rules.json"), unfit).unwrap();
    let why = client.refusal("schema", json!({})).await;
    assert!(why.contains("do not fit its tables") && !why.contains("zz"), "{why}");
    assert!(matches!(started(file.options()).await, Err(Error::Rules(why)) if why.contains("zz")));
}

/// A server with a client that is gone at once.
async fn started(options: Options) -> Result<(), Error> {
    serve_streams(options, tokio::io::empty(), tokio::io::sink()).await
}

#[tokio::test]
async fn a_server_begins_with_rules_that_grant_something() {
    let file = File::hidden();
    started(file.options()).await.unwrap();
    let rules = |file: PathBuf, principal: &str| {
        Some(RulesFor { file, principal: Some(principal.to_owned()) })
    };
    let eve = Options { rules: rules(file.path("rules.json"), "eve"), ..file.options() };
    assert!(matches!(started(eve).await, Err(Error::Rules(why)) if why.contains("granted to eve")));
    let none = Options { rules: rules(file.path("nosuch.json"), "ada"), ..file.options() };
    assert!(matches!(started(none).await, Err(Error::Rules(_))));
    // Narrowed connections only read, whatever a program says.
    let client = Client::of(Options { is_writable: true, ..file.options() }).await;
    let why = client.refusal("query", json!({"sql": "DELETE FROM city"})).await;
    assert!(why.contains("DELETE is not for"), "{why}");
}

#[tokio::test]
async fn pages_and_the_time_of_a_call_hold_under_rules() {
    let file = File::hidden();
    let limits = AnswerLimits { time: Duration::from_millis(300), ..AnswerLimits::default() };
    let client = Client::of(Options { limits, ..file.options() }).await;
    let sql = "SELECT id FROM note ORDER BY id";
    let first = client.object("query", json!({"sql": sql, "rows": 2})).await;
    assert_eq!(first["rows"], json!([[1], [3]]));
    let cursor = json!({"cursor": first["next_cursor"]});
    assert_eq!(client.object("query", cursor).await["rows"], json!([[5]]));
    let endless = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                   SELECT count(*) FROM c";
    let why = client.refusal("query", json!({"sql": endless})).await;
    assert!(why.contains("stopped after 0.3 seconds"), "{why}");
    assert_eq!(client.object("query", json!({"sql": "SELECT 1"})).await["rows"], json!([[1]]));
}

#[tokio::test]
async fn rules_hold_over_http() {
    let file = File::hidden();
    let http = HttpOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        token: None,
        policy: None,
        hosts: Vec::new(),
    };
    let server = serve_http(file.options(), http).await.unwrap();
    let transport =
        StreamableHttpClientTransport::from_uri(format!("http://{}/mcp", server.address()));
    let client = ().serve(transport).await.unwrap();
    let sql = json!({"sql": "SELECT count(*) FROM note"});
    assert_eq!(object(call(&client, "query", sql).await)["rows"], json!([[3]]));
    let sql = json!({"sql": "SELECT count(*) FROM zz_person"});
    let why = super::refusal(&call(&client, "query", sql).await);
    let hint = ". Tables and views: city, long, note";
    assert!(why.starts_with("no such table: zz_person") && why.ends_with(hint), "{why}");
    client.cancel().await.unwrap();
    server.stop().await;
}
