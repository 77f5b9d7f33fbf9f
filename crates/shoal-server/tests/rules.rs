//! Tables over the API: a principal's token reads what the rules of the server grant.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal::{Access, Database, Environment};
use shoal_server::token::{Grant, SecretKey, Tokens};
use shoal_server::{Limits, ServeOptions, Server, TokenFile};

const ADMIN: &str = "a token of some length";
const TABLES: &str = "
    CREATE TABLE note(id INTEGER PRIMARY KEY, owner TEXT, title TEXT, secret TEXT);
    INSERT INTO note VALUES (1, 'ada', 'Engines', 'SECRET'), (2, 'bob', 'Plans', 'SECRET');
    CREATE TABLE vault(secret);
    INSERT INTO vault VALUES ('SECRET');";
const RULES: &str = r#"{"principals": {
    "ada": {"note": {"columns": ["id", "title"], "rows": "owner = :principal"}},
    "bob": {"note": {"rows": "owner = :principal", "mask": {"secret": "'***'"}}},
    "odd": {"note": {"rows": "nosuch = 1"}}}}"#;

fn grant(id: &str, principal: Option<&str>) -> Grant {
    let principal = principal.map(str::to_owned);
    Grant { id: id.to_owned(), read: vec!["*".to_owned()], principal, ..Grant::default() }
}

/// The status and the body of an answer.
fn ask(address: SocketAddr, token: &str, path: &str, body: &str) -> (u16, String) {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let mut socket = TcpStream::connect(address).unwrap();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn options(folder: &Path, has_rules: bool) -> ServeOptions {
    let environment = Environment::os();
    let policy = TokenFile::open(environment.clone(), &folder.join("tokens.json")).unwrap();
    ServeOptions {
        environment,
        path: folder.join("served.db"),
        listen: "127.0.0.1:0".parse().unwrap(),
        admin_token: ADMIN.to_owned(),
        origins: Vec::new(),
        hosts: Vec::new(),
        tls: None,
        metrics: None,
        policy: Arc::new(policy),
        rules: has_rules.then(|| folder.join("rules.json")),
        admission: None,
        relay: None,
        limits: Limits::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn principals_read_what_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut database =
        Database::open(Environment::os(), &path("served.db"), Access::Create).unwrap();
    for range in shoal_sql::Statements::new(TABLES) {
        let connection = database.sql();
        let mut statement = connection.prepare(&TABLES[range]).unwrap();
        connection.execute(&mut statement).unwrap();
    }
    drop(database);
    fs::write(path("rules.json"), RULES).unwrap();
    let key = SecretKey::from_bytes(&[7; 32]);
    let keys = vec![key.public_text()];
    let revoked = vec!["gone".to_owned()];
    let tokens = Tokens { keys, revoked, ..Tokens::default() };
    fs::write(path("tokens.json"), tokens.to_text()).unwrap();
    let token = |id: &str, principal| key.sign(&grant(id, principal)).unwrap();
    let (ada, bob) = (token("a", Some("ada")), token("b", Some("bob")));

    let server = Server::start(options(folder.path(), true)).await.unwrap();
    let address = server.address();
    let sql = |token: &str, sql: &str| ask(address, token, "/api/sql", sql);
    let rows = |token: &str, text: &str| {
        let (status, body) = sql(token, text);
        assert_eq!(status, 200, "{text}: {body}");
        body
    };
    assert!(rows(ADMIN, "SELECT secret FROM vault").contains("SECRET"));
    for (token, text, expect) in [
        (&ada, "SELECT * FROM note", r#""rows":[[1,"Engines"]]"#),
        (&ada, "SELECT count(*) FROM note", r#""rows":[[1]]"#),
        (&bob, "SELECT * FROM note", r#""rows":[[2,"bob","Plans","***"]]"#),
        (&bob, "SELECT count(*) FROM note WHERE secret LIKE 'S%'", r#""rows":[[0]]"#),
        (&ada, "SELECT name FROM sqlite_schema", r#""rows":[["note"]]"#),
    ] {
        let body = rows(token, text);
        assert!(body.contains(expect), "{text}: {body}");
    }
    let tables = ask(address, &ada, "/api/tables", "");
    assert!(tables.0 == 200 && tables.1.contains(r#""rows":[["note","table"]]"#), "{tables:?}");
    for text in [
        "SELECT * FROM vault",
        "SELECT secret FROM note",
        "SELECT * FROM _shoal_doc",
        "SELECT * FROM _shoal_chunk",
        "SELECT * FROM document_changes('x')",
        "SELECT * FROM pragma_database_list",
        "EXPLAIN SELECT * FROM note",
        "DELETE FROM note",
        "WITH x AS (SELECT 1) DELETE FROM note",
    ] {
        let (status, body) = sql(&ada, text);
        let is_told = body.contains("SECRET") || body.contains("served.db");
        assert!(status == 400 && !is_told, "{text}: {status} {body}");
    }
    // Whoever is no principal, has no rule, or has a rule that does not fit.
    for (token, status) in [
        (token("c", None), 403),
        (token("d", Some("eve")), 403),
        (token("gone", Some("ada")), 401),
        (format!("{ada}x"), 401),
        (token("e", Some("odd")), 400),
    ] {
        let answer = sql(&token, "SELECT * FROM note");
        assert!(answer.0 == status && !answer.1.contains("nosuch"), "{status}: {answer:?}");
    }
    // The rest of the API asks for an admin, as before.
    assert_eq!(ask(address, &ada, "/api/status", "").0, 403);

    // Rules are those of now; without a file that can be read there are none.
    let until = |text: &str, wanted: u16, expect: &str| {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let (status, body) = sql(&ada, text);
            if status == wanted && body.contains(expect) {
                return;
            }
            assert!(Instant::now() < end, "{text}: {status} {body}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    fs::write(path("rules.json"), r#"{"principals": {"ada": {"vault": {}}}}"#).unwrap();
    until("SELECT * FROM vault", 200, "SECRET");
    until("SELECT * FROM note", 400, "no such table");
    fs::write(path("rules.json"), "{").unwrap();
    until("SELECT * FROM vault", 403, "no rule");
    server.stop().await;

    let error = Server::start(options(folder.path(), true)).await.err().unwrap().to_string();
    assert!(error.contains("rules.json: "), "{error}");
    let server = Server::start(options(folder.path(), false)).await.unwrap();
    let (status, body) = ask(server.address(), &ada, "/api/sql", "SELECT * FROM note");
    assert!(status == 403 && body.contains("--rules"), "{status} {body}");
    server.stop().await;
}
