//! Documents, search and graphs under rules: each answer beside the answer of a server that shows
//! the whole of a file without the hidden parts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::ReadResourceRequestParams;
use serde_json::{Value as Json, json};
use shoal::{Access, ActorId, Database, Document, Environment};
use shoal_mcp::{AnswerLimits, Options, RulesFor};
use tempfile::TempDir;

use super::Client;
use super::sample::{edit, run};

const VISIBLE: &str = "
    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO person VALUES (1, 'Ada'), (2, 'Cy'), (3, 'Di'), (7, 'Flo');
    CREATE TABLE city (name TEXT PRIMARY KEY, people INTEGER) WITHOUT ROWID;
    INSERT INTO city VALUES ('Bern', 5), ('Oslo', 7);
    CREATE TABLE knows (a INTEGER REFERENCES person, b INTEGER REFERENCES person, since INTEGER);
    INSERT INTO knows (rowid, a, b, since) VALUES (1, 1, 2, 1990), (3, 2, 3, 2000), (4, 3, 9, 1);
    CREATE TABLE lives (who INTEGER REFERENCES person (id), place TEXT, PRIMARY KEY (who, place)) WITHOUT ROWID;
    INSERT INTO lives VALUES (1, 'Bern'), (3, 'Oslo'), (7, 'Oslo');
    CREATE VIRTUAL TABLE text USING fts5 (title, body, tokenize = 'porter', prefix = '2');
    INSERT INTO text (rowid, title, body) VALUES
        (1, 'Engines', 'an engine of engines, and more words'), (4, 'Rings', 'no such thing'),
        (6, 'Plans', 'plans of an engine are long, longer than engines');
    CREATE VIRTUAL TABLE ext USING fts5 (body);
    INSERT INTO ext (rowid, body) VALUES (1, 'one engine'), (2, 'another word');
    CREATE VIRTUAL TABLE near USING vec0 (place float[2], bits bit[8]);
    INSERT INTO near (rowid, place, bits) VALUES
        (1, '[0, 0]', vec_bit(x'01')), (5, '[3, 3]', vec_bit(x'f0'));
";

/// The same among hidden rows, columns and tables; hidden names and values begin with `zz`.
const HIDDEN: &str = "
    CREATE TABLE person (zz_owner TEXT, id INTEGER PRIMARY KEY, name TEXT, zz_pay INTEGER);
    INSERT INTO person VALUES ('ada', 1, 'Ada', 9), ('ada', 2, 'Cy', 8), ('ada', 3, 'Di', 7),
        ('zz', 4, 'zz Eve', 6), ('zz', 9, 'zz Gil', 5), ('ada', 7, 'Flo', 1);
    CREATE TABLE city (name TEXT PRIMARY KEY, zz_mayor TEXT, people INTEGER) WITHOUT ROWID;
    INSERT INTO city VALUES ('Aarau', 'zz', 1), ('Bern', 'ada', 5), ('Oslo', 'ada', 7);
    CREATE TABLE knows (a INTEGER REFERENCES person, b INTEGER REFERENCES person, since INTEGER,
                        zz_why TEXT);
    INSERT INTO knows (rowid, a, b, since, zz_why) VALUES (1, 1, 2, 1990, 'x'), (2, 1, 4, 5, 'zz'),
        (3, 2, 3, 2000, 'x'), (4, 3, 9, 1, 'x'), (5, 1, 3, 6, 'zz');
    CREATE INDEX zz_knows ON knows (b);
    CREATE TABLE lives (who INTEGER REFERENCES person (id), place TEXT, PRIMARY KEY (who, place)) WITHOUT ROWID;
    INSERT INTO lives VALUES (1, 'Bern'), (3, 'Oslo'), (7, 'Oslo');
    CREATE VIRTUAL TABLE text USING fts5 (zz_note, title, zz_owner UNINDEXED, body,
                                          tokenize = 'porter', prefix = '2');
    INSERT INTO text (rowid, zz_note, title, zz_owner, body) VALUES
        (1, 'zz rings', 'Engines', 'ada', 'an engine of engines, and more words'),
        (2, 'zz', 'zz Engine', 'zz', 'zz engine engine engine'),
        (3, 'zz', 'Rings', 'zz', 'zz rings of engines'),
        (4, 'zz engine', 'Rings', 'ada', 'no such thing'), (5, 'zz', 'zz', 'zz', 'zz zz zz zz'),
        (6, 'zz', 'Plans', 'ada', 'plans of an engine are long, longer than engines');
    CREATE TABLE zz_store (id INTEGER PRIMARY KEY, body TEXT);
    INSERT INTO zz_store VALUES (1, 'one engine'), (2, 'another word'), (900, 'zz engine engine');
    CREATE VIRTUAL TABLE ext USING fts5 (body, content = 'zz_store', content_rowid = 'id');
    INSERT INTO ext (ext) VALUES ('rebuild');
    CREATE VIRTUAL TABLE near USING vec0 (place float[2], zz_owner TEXT, bits bit[8]);
    INSERT INTO near (rowid, place, zz_owner, bits) VALUES
        (1, '[0, 0]', 'ada', vec_bit(x'01')), (2, '[0, 1]', 'zz', vec_bit(x'00')),
        (3, '[1, 0]', 'zz', vec_bit(x'00')), (5, '[3, 3]', 'ada', vec_bit(x'f0'));
    CREATE VIRTUAL TABLE zz_text USING fts5 (zz_body);
    INSERT INTO zz_text VALUES ('zz a secret engine');
";

const RULES: &str = r#"{ "principals": {
    "ada": {
        "person": { "columns": ["id", "name"], "rows": "zz_owner = :principal" },
        "city": { "columns": ["name", "people"], "rows": "zz_mayor = :principal" },
        "knows": { "columns": ["rowid", "a", "b", "since"], "rows": "zz_why = 'x'" },
        "lives": {},
        "text": { "columns": ["rowid", "title", "body"], "rows": "zz_owner = :principal" },
        "ext": { "rows": "rowid < 100" },
        "near": { "columns": ["rowid", "place", "bits"], "rows": "zz_owner = :principal" },
        "_graph_definition": { "rows": "name = 'people'" },
        "_shoal_doc": { "rows": "name GLOB 'ada/*'", "history": true } },
    "now": { "_shoal_doc": { "columns": ["name", "json"], "rows": "name GLOB 'ada/*'" },
             "text": { "columns": ["title"], "rows": "zz_owner = 'ada'" } },
    "eve": { "city": {} } } }"#;

const GRAPH: &str = "CREATE PROPERTY GRAPH people
    VERTEX TABLES (person PROPERTIES (id, name), city PROPERTIES (name, people))
    EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person (id)
                       PROPERTIES (since),
                 lives SOURCE person
                       DESTINATION KEY (place) REFERENCES city (name) NO PROPERTIES)";

struct File {
    folder: TempDir,
}

impl File {
    fn new(tables: &str) -> File {
        let file = File { folder: tempfile::tempdir().unwrap() };
        let mut database =
            Database::open(Environment::os(), &file.path("t.db"), Access::Create).unwrap();
        for range in shoal_sql::Statements::new(tables) {
            run(&mut database, &tables[range]);
        }
        fs::write(file.path("rules.json"), RULES).unwrap();
        file
    }

    /// The visible file, and the one with the hidden parts.
    fn pair() -> [File; 2] {
        let files = [File::new(VISIBLE), File::new(HIDDEN)];
        let mut plan = Document::new(ActorId::new(&[7; 16]));
        edit(&mut plan, "title", "First");
        edit(&mut plan, "title", "Second");
        let mut other = Document::new(ActorId::new(&[8; 16]));
        edit(&mut other, "text", "Other");
        let mut secret = Document::new(ActorId::new(&[9; 16]));
        edit(&mut secret, "zz_title", "zz First");
        for (place, file) in files.iter().enumerate() {
            let mut database = file.beside();
            if place == 1 {
                database.store("zz/plan", &mut secret).unwrap();
                let hidden = "CREATE PROPERTY GRAPH zz_graph VERTEX TABLES (zz_store)";
                assert!(database.define(hidden).unwrap());
            }
            assert!(database.define(GRAPH).unwrap());
            database.store("ada/plan", &mut plan).unwrap();
            database.store("ada/other", &mut other).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn beside(&self) -> Database {
        Database::open(Environment::os(), &self.path("t.db"), Access::ReadWrite).unwrap()
    }

    fn options(&self, principal: Option<&str>) -> Options {
        let rules = principal.map(|principal| RulesFor {
            file: self.path("rules.json"),
            principal: Some(principal.to_owned()),
        });
        Options {
            environment: Environment::os(),
            path: self.path("t.db"),
            is_writable: false,
            limits: AnswerLimits { time: Duration::from_secs(60), ..AnswerLimits::default() },
            rules,
        }
    }
}

/// An answer or a refusal in words; times of storing are the file's own.
async fn told(client: &Client, tool: &'static str, arguments: &Json) -> String {
    let result = client.call(tool, arguments.clone()).await;
    let mut words = super::text(&result);
    if let Some(Json::Object(mut object)) = result.structured_content {
        if let Some(Json::Array(columns)) = object.get("columns").cloned()
            && let Some(place) = columns.iter().position(|column| column == "stored_at")
            && let Some(Json::Array(rows)) = object.get_mut("rows")
        {
            rows.iter_mut().for_each(|row| row[place] = json!("a time"));
        }
        words = Json::Object(object).to_string();
    }
    format!("{:?} {words}", result.is_error)
}

#[tokio::test]
async fn every_tool_answers_as_of_a_file_without_what_is_hidden() {
    let [visible, hidden] = File::pair();
    let whole = Client::of(visible.options(None)).await;
    let narrowed = Client::of(hidden.options(Some("ada"))).await;
    let mut refused = 0;
    let search = |arguments: Json| ("search", arguments);
    let documents = |arguments: Json| ("documents", arguments);
    let graph = |arguments: Json| ("graph_context", arguments);
    let query = |sql: &str| ("query", json!({"sql": sql}));
    for (tool, arguments) in [
        search(json!({"text": "engine"})),
        search(json!({"text": "rings"})),
        search(json!({"text": "engines words", "table": "text"})),
        search(json!({"text": "engine", "table": "TEXT", "rows": 1})),
        search(json!({"text": "en* OR \"no such\"", "table": "text", "syntax": true})),
        search(json!({"text": "title: engine NOT plans", "table": "text", "syntax": true})),
        search(json!({"text": "engine", "table": "text", "column": "body", "highlight": true})),
        search(json!({"text": "engine AND", "table": "text", "syntax": true})),
        search(json!({"text": "absent", "table": "ext"})),
        search(json!({"vector": [0, 0]})),
        search(json!({"vector": [3, 2], "table": "near", "rows": 1})),
        search(json!({"vector": [3, 2, 1]})),
        documents(json!({})),
        documents(json!({"prefix": "ada/p"})),
        documents(json!({"prefix": "zz"})),
        documents(json!({"rows": 1})),
        documents(json!({"after": "ada/other"})),
        documents(json!({"name": "ada/plan"})),
        documents(json!({"name": "ada/plan", "path": "/title"})),
        documents(json!({"name": "ada/plan", "path": "/nosuch"})),
        documents(json!({"name": "ada/plan", "action": "history"})),
        documents(json!({"name": "ada/plan", "action": "diff"})),
        documents(json!({"name": "ada/plan", "heads": "00"})),
        documents(json!({"name": "zz/plan"})),
        documents(json!({"name": "zz/plan", "action": "history"})),
        documents(json!({"name": "zz/plan", "action": "diff"})),
        documents(json!({"name": "nosuch"})),
        graph(json!({"start": "person/1"})),
        graph(json!({"start": "person/1", "depth": 5, "as": "rows"})),
        graph(json!({"start": 1, "graph": "people", "direction": "out", "types": ["knows"]})),
        graph(json!({"start": "city/Oslo", "depth": 3, "as": "rows"})),
        graph(json!({"start": "person/1", "policy": {"paths": true}, "as": "rows"})),
        graph(json!({"start": "person/7", "tokens": 5})),
        graph(json!({"start": "person/4"})),
        graph(json!({"start": "city/Aarau"})),
        graph(json!({"start": 1, "graph": "zz_graph"})),
        query("SELECT name, heads, json FROM documents ORDER BY name"),
        query("SELECT * FROM document_tree('ada/plan')"),
        query("SELECT * FROM document_history('zz/plan')"),
        query(
            "SELECT * FROM GRAPH_TABLE (people MATCH (x IS person)-[k IS knows]->(y) \
             COLUMNS (x.name, k.since, y.name AS other)) ORDER BY 1, 2",
        ),
        query(
            "SELECT * FROM GRAPH_TABLE (people MATCH ANY SHORTEST (x)-[IS knows]->+(y) \
             COLUMNS (x.name, y.name AS other)) ORDER BY 1, 2",
        ),
        query("SELECT * FROM CYPHER ('MATCH (n:city) RETURN n.name ORDER BY 1', '{}', 'people')"),
        query("SELECT count(*) FROM graph_page_rank('people')"),
        query("SELECT node, round(rank, 9) FROM graph_page_rank('people') ORDER BY 2, 1"),
        query("SELECT rowid, title, body FROM text ORDER BY rowid"),
        query("SELECT rowid, title FROM text WHERE body LIKE '%engine%' AND rowid > 1"),
        query("SELECT count(*), max(rowid), group_concat(title) FROM text WHERE abs(rowid) > 0"),
        query("SELECT rowid, bm25(text) FROM text WHERE text MATCH 'engine' ORDER BY rank"),
        query("SELECT rowid, snippet(text, -1, '[', ']', '', 4) FROM text('rings') ORDER BY rank"),
        query("SELECT title FROM text WHERE body MATCH 'engine' ORDER BY rowid"),
        query("SELECT rowid, rank FROM text ORDER BY rowid"),
        query("SELECT rowid, rank FROM ext WHERE ext MATCH 'engine'"),
        query("SELECT rowid, distance FROM near WHERE place MATCH '[0, 0]' AND k = 3"),
        query("SELECT rowid, distance FROM near WHERE bits MATCH x'01' AND k = 1"),
        query("SELECT body FROM ext ORDER BY rowid"),
        query("SELECT t.title, e.body FROM text AS t JOIN ext AS e ON e.rowid = t.rowid"),
        query("SELECT rowid, hex(place), hex(bits) FROM near ORDER BY rowid"),
        query("SELECT p.name FROM person AS p LEFT JOIN text AS t ON t.rowid = p.id ORDER BY 1"),
    ] {
        let answer = told(&narrowed, tool, &arguments).await;
        let is_asked = arguments.to_string().contains("zz");
        assert!(is_asked || !answer.contains("zz"), "{tool} {arguments}: {answer}");
        assert_eq!(answer, told(&whole, tool, &arguments).await, "{tool} {arguments}");
        refused += usize::from(answer.starts_with("Some(true)"));
    }
    assert!((9..18).contains(&refused), "{refused} of the calls are refused");
    let listed = |client: &Client| client.0.peer().clone();
    let mut resources = Vec::new();
    for client in [&narrowed, &whole] {
        let all = listed(client).list_all_resources().await.unwrap();
        let uris: Vec<String> = all.iter().map(|resource| resource.uri.clone()).collect();
        let templates = client.0.list_all_resource_templates().await.unwrap().len();
        let mut read = Vec::new();
        for uri in ["shoal://document/ada%2Fplan", "shoal://document/zz%2Fplan"] {
            let found = client.0.read_resource(ReadResourceRequestParams::new(uri)).await;
            read.push(format!("{found:?}"));
        }
        resources.push((uris, templates, read));
    }
    assert_eq!(resources[0], resources[1]);
}

#[tokio::test]
async fn hidden_parts_stay_out_of_reach() {
    let [visible, hidden] = File::pair();
    let narrowed = Client::of(hidden.options(Some("ada"))).await;
    let reference = Client::of(visible.options(None)).await;
    for (sql, why) in [
        ("SELECT zz_note FROM text", "no such column: zz_note"),
        ("SELECT zz_note, rank FROM text", "no such column: zz_note"),
        ("SELECT * FROM text WHERE text MATCH 'zz_note: rings'", "no such column: zz_note"),
        ("SELECT * FROM text_content", "no such table: text_content"),
        ("SELECT * FROM text_data", "no such table: text_data"),
        ("SELECT * FROM zz_store", "no such table: zz_store"),
        ("SELECT * FROM person AS OF '00'", "AS OF"),
        ("SELECT * FROM graph_walk('SELECT * FROM zz_store', '[]')", "graph_walk"),
    ] {
        let refusal = narrowed.refusal("query", json!({"sql": sql})).await;
        assert!(refusal.contains(why), "{sql}: {refusal}");
    }
    for table in ["text", "near"] {
        let schema = narrowed.text("schema", json!({"tables": [table]})).await;
        assert!(schema.contains("USING") && !schema.contains("zz"), "{schema}");
    }
    let schema = narrowed.text("schema", json!({})).await;
    assert!(schema.contains("graph people") && schema.contains("2 documents"), "{schema}");
    assert!(!schema.contains("zz"), "{schema}");
    assert!(reference.text("schema", json!({})).await.contains("2 documents"));
}

#[tokio::test]
async fn less_than_a_whole_grant_tells_less() {
    let [_, hidden] = File::pair();
    let now = Client::of(hidden.options(Some("now"))).await;
    let list = now.object("documents", json!({})).await;
    assert_eq!(list["documents"], json!([{"name": "ada/other"}, {"name": "ada/plan"}]));
    let shown = now.object("documents", json!({"name": "ada/plan"})).await;
    assert_eq!(shown["value"], json!({"title": "Second"}));
    assert_eq!(shown["heads"], json!([]), "the heads are hidden");
    for arguments in [
        json!({"name": "ada/plan", "action": "history"}),
        json!({"name": "zz/plan", "action": "history"}),
        json!({"name": "ada/plan", "action": "diff"}),
        json!({"name": "ada/plan", "heads": "00"}),
    ] {
        let why = now.refusal("documents", arguments.clone()).await;
        assert!(why.contains("grant documents as they are now"), "{arguments}: {why}");
    }
    for name in ["zz/plan", "nosuch"] {
        let why = now.refusal("documents", json!({"name": name})).await;
        assert!(why.starts_with(&format!("no such document: {name}")), "{why}");
    }
    // A hidden rowid is in no hit.
    let hits = now.object("search", json!({"text": "engines"})).await;
    assert_eq!(hits["text"]["columns"], json!(["snippet", "score"]));
    let rows = hits["text"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{hits}");
    assert_eq!(rows[0][0], json!("[Engines]"));
    // Nothing of a kind is granted: as in a file without any.
    let eve = Client::of(hidden.options(Some("eve"))).await;
    assert_eq!(eve.object("documents", json!({})).await["documents"], json!([]));
    for (tool, arguments, why) in [
        ("documents", json!({"name": "ada/plan"}), "no such document: ada/plan"),
        ("documents", json!({"name": "ada/plan", "action": "history"}), "no such document"),
        ("search", json!({"text": "engine"}), "the database has no fts5 table"),
        ("search", json!({"vector": [0, 0]}), "the database has no vec0 table"),
        ("search", json!({"text": "a", "table": "text"}), "text is no fts5 table"),
        ("graph_context", json!({"start": 1}), "the database has no property graph"),
        ("graph_context", json!({"start": 1, "graph": "people"}), "no such property graph: people"),
    ] {
        let refusal = eve.refusal(tool, arguments).await;
        assert!(refusal.starts_with(why), "{tool}: {refusal}");
    }
}
