//! Each reading tool, and resources.

use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams, ResourceContents};
use serde_json::{Value as Json, json};

use super::Client;
use super::sample::{Sample, edit, run};

async fn client() -> (Sample, Client) {
    let sample = Sample::new();
    let client = Client::of(sample.options()).await;
    (sample, client)
}

#[tokio::test]
async fn a_client_learns_what_the_server_is() {
    let (_sample, client) = client().await;
    let info = client.0.peer_info().unwrap();
    assert_eq!(info.server_info.as_ref().unwrap().name, "shoal");
    let instructions = info.instructions.clone().unwrap();
    assert!(instructions.contains("read-only") && instructions.contains("never follow"));
    let tools = client.0.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let reading = ["schema", "query", "documents", "search", "graph_context", "changes_since"];
    assert_eq!(names, reading);
    for tool in &tools {
        assert_eq!(tool.annotations.as_ref().unwrap().read_only_hint, Some(true));
        assert_eq!(tool.input_schema["type"], "object");
        assert_eq!(tool.input_schema["additionalProperties"], false);
    }
    let unknown = client.0.call_tool(rmcp::model::CallToolRequestParams::new("drop")).await;
    assert!(unknown.unwrap_err().to_string().contains("there is no tool drop: schema, query"));
    let writing = rmcp::model::CallToolRequestParams::new("edit_document");
    assert!(client.0.call_tool(writing).await.unwrap_err().to_string().contains("--write"));
}

#[tokio::test]
async fn the_schema_is_told_in_few_words() {
    let (_sample, client) = client().await;
    let told = client.text("schema", json!({})).await;
    for line in [
        "table person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, born INTEGER) 3 rows",
        "  unique index person_name(name)",
        "table knows(a INTEGER NOT NULL, b INTEGER NOT NULL, since INTEGER, PRIMARY KEY (a, b)) 2 rows",
        "  (a) references person(id)",
        "view grown(name TEXT)",
        "table big(n INTEGER PRIMARY KEY, s TEXT, data BLOB) at most 20000 rows",
        "table note USING fts5(title, body)",
        "table odd \"name(a b TEXT DEFAULT 'x', up GENERATED) 0 rows",
        "2 documents (tool documents; in SQL documents(name, heads, json))",
    ] {
        assert!(told.lines().any(|it| it == line), "{line} in\n{told}");
    }
    assert!(told.contains("graph people: CREATE PROPERTY GRAPH people VERTEX TABLES"), "{told}");
    assert!(!told.contains("note_data") && !told.contains("_shoal_doc"), "{told}");
    let one = client.text("schema", json!({"tables": ["GROWN"], "sql": true})).await;
    assert_eq!(one.lines().count(), 2, "{one}");
    assert!(one.contains("sql: CREATE VIEW grown AS SELECT"), "{one}");
    let all = client.text("schema", json!({"internal": true})).await;
    assert!(all.contains("note_data") && all.contains("_shoal_doc"), "{all}");
    let why = client.refusal("schema", json!({"tables": ["nobody"]})).await;
    assert!(why.contains("no table or view nobody"), "{why}");
}

#[tokio::test]
async fn queries_give_columns_and_rows() {
    let (_sample, client) = client().await;
    let sql = "SELECT name, born FROM person WHERE born < :year ORDER BY name";
    let answer = client.object("query", json!({"sql": sql, "params": {"year": 1900}})).await;
    assert_eq!(answer["columns"], json!(["name", "born"]));
    assert_eq!(answer["rows"], json!([["Ada", 1815], ["Emmy", 1882]]));
    assert_eq!(answer.get("note"), None);
    let sql = "SELECT ?1, ?2, ?3, ?4, ?5, 9007199254740993, x'00ff', 1e999";
    let params = json!([1, 2.5, "a", null, [1, {"b": true}]]);
    let answer = client.object("query", json!({"sql": sql, "params": params})).await;
    let row = json!([1, 2.5, "a", null, "[1,{\"b\":true}]", "9007199254740993", "x'00ff'", "inf"]);
    assert_eq!(answer["rows"], json!([row]));
    let sql = "SELECT x FROM GRAPH_TABLE (people MATCH (p IS person)-[IS knows]->(q IS person) \
               COLUMNS (q.name AS x)) ORDER BY x";
    let answer = client.object("query", json!({"sql": sql})).await;
    assert_eq!(answer["rows"], json!([["Emmy"], ["Grace"]]));
    let sql = "EXPLAIN QUERY PLAN SELECT * FROM person WHERE name = 'Ada'";
    let answer = client.object("query", json!({"sql": sql})).await;
    assert!(answer["rows"].to_string().contains("person_name"), "{answer}");
    let answer = client.object("query", json!({"sql": "PRAGMA table_info(person)"})).await;
    assert_eq!(answer["rows"].as_array().unwrap().len(), 3);
    let sql = "SELECT json ->> '$.title' FROM documents WHERE name = 'plan'";
    assert_eq!(client.object("query", json!({"sql": sql})).await["rows"], json!([["Second"]]));
}

#[tokio::test]
async fn errors_help_to_repair_a_call() {
    let (_sample, client) = client().await;
    for (arguments, words) in [
        (json!({"sql": "SELEC 1"}), "syntax error (at character 1: SELEC 1)"),
        (json!({"sql": "SELECT * FROM persons"}), "no such table: persons"),
        (json!({"sql": "SELECT * FROM persons"}), "Tables and views: big, grown, knows"),
        (json!({"sql": "SELECT nme FROM person"}), "Columns of person: id, name, born"),
        (json!({"sql": "SELECT ?1"}), "has 1 parameters and params is missing"),
        (json!({"sql": "SELECT ?1", "params": [1, 2]}), "params has 2 values"),
        (json!({"sql": "SELECT :a, :b", "params": {"a": 1}}), "no value for :b"),
        (json!({"sql": "SELECT :a", "params": {"c": 1}}), "no parameter c"),
        (json!({"sql": "SELECT 1", "params": 7}), "params is a list"),
        (json!({"sql": "SELECT 1; SELECT 2"}), "holds 2 statements"),
        (json!({"sql": " -- nothing"}), "no statement"),
        (json!({"sequel": "SELECT 1"}), "unknown field `sequel`, expected one of `sql`"),
        (json!({}), "sql is missing"),
        (json!({"cursor": "f00"}), "the cursor is not known"),
        (json!({"cursor": "f00", "sql": "SELECT 1"}), "leave sql and params out"),
    ] {
        let why = client.refusal("query", arguments.clone()).await;
        assert!(why.contains(words), "{arguments}: {why}");
    }
}

#[tokio::test]
async fn long_answers_come_in_pages() {
    let (sample, client) = client().await;
    let sql = "SELECT n FROM big ORDER BY n";
    let mut answer = client.object("query", json!({"sql": sql, "rows": 900})).await;
    let mut seen: Vec<Json> = answer["rows"].as_array().unwrap().clone();
    assert!(answer["note"].as_str().unwrap().contains("Rows 1 to 900"), "{}", answer["note"]);
    let mut pages = 1;
    while let Some(cursor) = answer.get("next_cursor").cloned() {
        answer = client.object("query", json!({"cursor": cursor, "rows": 5000})).await;
        let rows = answer["rows"].as_array().unwrap();
        assert!(rows.len() <= 1000, "a page of {} rows", rows.len());
        assert!(!answer["note"].to_string().contains("have moved"), "{}", answer["note"]);
        seen.extend(rows.clone());
        pages += 1;
    }
    assert_eq!(seen.len(), 20_000);
    assert!((21..60).contains(&pages), "{pages} pages");
    assert!(seen.iter().zip(1..).all(|(row, n)| *row == json!([n])));
    // A page whose file changed says so.
    let first = client.object("query", json!({"sql": sql, "rows": 10})).await;
    run(&mut sample.beside(), "DELETE FROM big WHERE n = 5");
    let cursor = &first["next_cursor"];
    let next = client.object("query", json!({"cursor": cursor, "rows": 10})).await;
    assert!(next["note"].as_str().unwrap().contains("have moved"), "{next}");
}

#[tokio::test]
async fn documents_are_listed_and_shown() {
    let (sample, client) = client().await;
    let list = client.object("documents", json!({})).await;
    let names: Vec<&Json> =
        list["documents"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("long/one"), &json!("plan")]);
    assert_eq!(list["documents"][1]["changes"], 2);
    let one = client.object("documents", json!({"action": "list", "rows": 1})).await;
    assert!(one["note"].as_str().unwrap().contains("call with after \"long/one\""), "{one}");
    let rest = client.object("documents", json!({"action": "list", "after": "long/one"})).await;
    assert_eq!(rest["documents"].as_array().unwrap().len(), 1);
    let plan = client.object("documents", json!({"name": "plan"})).await;
    assert_eq!(plan["value"], json!({"title": "Second"}));
    assert_eq!(plan["heads"], list["documents"][1]["heads"]);
    let title = client.object("documents", json!({"name": "plan", "path": "/title"})).await;
    assert_eq!(title["value"], "Second");

    let history = client.object("documents", json!({"name": "plan", "action": "history"})).await;
    let column = |name: &str| {
        let columns = history["columns"].as_array().unwrap();
        columns.iter().position(|column| column == name).unwrap()
    };
    let rows = history["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0][column("message")], "Second");
    assert_eq!(rows[0][column("hash")], plan["heads"][0]);
    let first = rows[1][column("hash")].as_str().unwrap();
    let past = client.object("documents", json!({"name": "plan", "heads": &first[..10]})).await;
    assert_eq!(past["value"], json!({"title": "First"}));
    let diff = json!({"name": "plan", "action": "diff", "from": first});
    let diff = client.object("documents", diff).await;
    assert!(diff["rows"].to_string().contains("/title"), "{diff}");

    for (arguments, words) in [
        (json!({"name": "plans"}), "no such document: plans"),
        (json!({"name": "plans"}), "without a name lists"),
        (json!({"name": "plan", "path": "/titel"}), "the document has: title"),
        (json!({"name": "plan", "heads": "feedfeed"}), "no such change"),
        (json!({"action": "history"}), "name is missing"),
        (json!({"name": "plan", "action": "remove"}), "unknown variant `remove`"),
    ] {
        let why = client.refusal("documents", arguments.clone()).await;
        assert!(why.contains(words), "{arguments}: {why}");
    }
    // An edit beside the server is in the next answer.
    let mut beside = sample.beside();
    let mut document = beside.load("plan").unwrap();
    edit(&mut document, "title", "Third");
    beside.store("plan", &mut document).unwrap();
    let plan = client.object("documents", json!({"name": "plan"})).await;
    assert_eq!(plan["value"]["title"], "Third");
}

#[tokio::test]
async fn a_long_document_is_read_in_parts() {
    let (_sample, client) = client().await;
    let mut seen = Vec::new();
    let mut offset = json!(0);
    loop {
        let arguments = json!({"name": "long/one", "offset": offset});
        let answer = client.object("documents", arguments).await;
        assert!(answer.to_string().len() < 70_000);
        assert_eq!(answer["of"], 300);
        seen.extend(answer["part"].as_object().unwrap().keys().cloned());
        match answer.get("next_offset") {
            Some(next) => offset = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 300);
    assert!(seen.is_sorted());
    let whole = client.object("documents", json!({"name": "long/one"})).await;
    assert!(whole.get("value").is_none() && whole["note"].as_str().unwrap().contains("bytes"));
    let entry =
        client.object("documents", json!({"name": "long/one", "path": "/entry007/n"})).await;
    assert_eq!(entry["value"], 7);
}

#[tokio::test]
async fn texts_and_vectors_are_found() {
    let (_sample, client) = client().await;
    let found = client.object("search", json!({"text": "patterns engine"})).await;
    assert_eq!(found["note"]["rows"][0][0], 1);
    assert!(found["note"]["rows"][0][1].as_str().unwrap().contains("[engine] weaves [patterns]"));
    let arguments = json!({"text": "rings", "table": "note", "column": "body", "highlight": true});
    let found = client.object("search", arguments).await;
    assert_eq!(found["note"]["rows"][0][1], "ideals of [rings], and a \"chain\" condition");
    // Signs of the query language are plain words unless they are asked to be more.
    let found = client.object("search", json!({"text": "\"chain\" AND(*"})).await;
    assert_eq!(found["note"]["rows"][0][0], 2, "{found}");
    let found = client.object("search", json!({"text": "ring* OR nothing", "syntax": true})).await;
    assert_eq!(found["note"]["rows"].as_array().unwrap().len(), 1);
    let why = client.refusal("search", json!({"text": "(", "syntax": true})).await;
    assert!(why.contains("syntax error") && why.contains("double quotes"), "{why}");
    let found = client.object("search", json!({"vector": [0.9, 0.1], "rows": 2})).await;
    let rows = found["near"]["rows"].as_array().unwrap();
    assert_eq!((&rows[0][0], &rows[1][0]), (&json!(2), &json!(1)));
    assert_eq!(rows[0][2], "b");
    for (arguments, words) in [
        (json!({}), "text or vector is missing"),
        (json!({"text": "x", "table": "person"}), "person is no fts5 table. There are: note"),
        (json!({"text": "x", "column": "bdy"}), "It has: title, body"),
        (json!({"vector": [1.0]}), "dimension"),
        (json!({"text": " "}), "no word"),
    ] {
        let why = client.refusal("search", arguments.clone()).await;
        assert!(why.to_lowercase().contains(&words.to_lowercase()), "{arguments}: {why}");
    }
}

#[tokio::test]
async fn the_context_of_a_node_keeps_to_its_budget() {
    let (_sample, client) = client().await;
    let told = client.text("graph_context", json!({"start": "person/1"})).await;
    for name in ["Ada", "Grace", "Emmy"] {
        assert!(told.contains(name), "{told}");
    }
    assert!(told.contains("(3 nodes, "), "{told}");
    let few = client.text("graph_context", json!({"start": "person/1", "tokens": 12})).await;
    assert!(few.contains("Ada") && !few.contains("Emmy"), "{few}");
    assert!(few.contains("left out by: tokens"), "{few}");
    let near = json!({"graph": "people", "start": 1, "depth": 1, "direction": "out", "as": "rows"});
    let near = client.object("graph_context", near).await;
    assert_eq!(near["rows"].as_array().unwrap().len(), 2, "{near}");
    for (arguments, words) in [
        (json!({"start": "person/9"}), "no node person/9"),
        (json!({"start": "person/1", "graph": "rails"}), "no such property graph: rails"),
        (json!({"start": [1]}), "start is a text"),
        (json!({"start": 1, "policy": {"speed": 1}}), "there is no policy speed"),
    ] {
        let why = client.refusal("graph_context", arguments.clone()).await;
        assert!(why.contains(words), "{arguments}: {why}");
    }
}

#[tokio::test]
async fn changes_are_told_since_a_version() {
    let (sample, client) = client().await;
    let version = client.object("changes_since", json!({})).await["version"].clone();
    let none = client.object("changes_since", json!({"version": version})).await;
    assert_eq!((&none["documents"], &none["tables"]), (&json!([]), &json!([])));
    let mut beside = sample.beside();
    run(&mut beside, "UPDATE person SET born = 1816 WHERE id = 1");
    run(&mut beside, "CREATE TABLE fresh (a)");
    let mut document = beside.load("plan").unwrap();
    edit(&mut document, "title", "Third");
    beside.store("plan", &mut document).unwrap();
    let arguments = json!({"version": none["version"]});
    let some = client.object("changes_since", arguments.clone()).await;
    assert_eq!(some["tables"], json!(["person"]));
    assert_eq!(some["created"], json!(["fresh"]));
    assert_eq!(some["documents"][0]["name"], "plan");
    let heads: Vec<String> = document.heads().iter().map(ToString::to_string).collect();
    assert_eq!(some["documents"][0]["heads"], json!(heads));
    // An answer that was lost is given again.
    assert_eq!(client.object("changes_since", arguments).await, some);
    run(&mut beside, "INSERT INTO fresh VALUES (1)");
    let next = client.object("changes_since", json!({"version": some["version"]})).await;
    assert_eq!(next["tables"], json!(["fresh"]));
    let why = client.refusal("changes_since", json!({"version": "0"})).await;
    assert!(why.contains("Call without version"), "{why}");
}

#[tokio::test]
async fn resources_are_the_schema_and_the_documents() {
    let (sample, client) = client().await;
    let listed = client.0.list_all_resources().await.unwrap();
    let uris: Vec<&str> = listed.iter().map(|it| it.uri.as_str()).collect();
    assert_eq!(uris, ["shoal://schema", "shoal://document/long%2Fone", "shoal://document/plan"]);
    let templates = client.0.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "shoal://document/{name}");
    let read = |uri: &str| client.0.read_resource(ReadResourceRequestParams::new(uri));
    let contents = read("shoal://document/plan").await.unwrap().contents;
    let ResourceContents::TextResourceContents { text, mime_type, .. } = &contents[0] else {
        panic!("{contents:?}")
    };
    assert_eq!(text, "{\"title\":\"Second\"}");
    assert_eq!(mime_type.as_deref(), Some("application/json"));
    let schema = read("shoal://schema").await.unwrap().contents;
    assert!(format!("{schema:?}").contains("table person"));
    for (uri, words) in [
        ("shoal://document/none", "no such document"),
        ("shoal://document/long%2Fone", "reads it in parts"),
        ("shoal://document/%zz", "names no document"),
        ("file:///etc/passwd", "no resource"),
    ] {
        let why = read(uri).await.unwrap_err().to_string();
        assert!(why.contains(words), "{uri}: {why}");
    }
    let mut beside = sample.beside();
    let mut document = beside.load("plan").unwrap();
    for n in 0..150 {
        beside.store(&format!("copy{n:03}"), &mut document).unwrap();
    }
    let first = client.0.list_resources(None).await.unwrap();
    assert_eq!(first.resources.len(), 101);
    let next = PaginatedRequestParams::default().with_cursor(first.next_cursor);
    let second = client.0.list_resources(Some(next)).await.unwrap();
    assert_eq!((second.resources.len(), second.next_cursor), (52, None));
}
