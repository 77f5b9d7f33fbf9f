//! Principals of tokens over HTTP: each request is answered as its own principal, and nobody meets
//! a trace of another.

use std::fs;
use std::sync::Arc;

use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value as Json, json};
use shoal::{Access, Database, Environment};
use shoal_mcp::{AnswerLimits, Error, HttpOptions, HttpServer, Options, RulesFor};
use shoal_mcp::{serve_http, serve_streams};
use shoal_server::TokenFile;
use shoal_server::token::{Grant, SecretKey, Tokens};
use tempfile::TempDir;

use super::http::raw;
use super::sample::run;
use super::{call, object, refusal};

const TABLES: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT, title TEXT, secret TEXT DEFAULT 's');
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 60)
    INSERT INTO note SELECT x, iif(x % 3, 'ada', 'bob'),
                            iif(x % 3, 'ada', 'bob') || ' wrote ' || x, 'secret' FROM c;
    CREATE TABLE ada_only (n);
    INSERT INTO ada_only VALUES ('ada 1');
    CREATE TABLE bob_only (n);
    INSERT INTO bob_only VALUES ('bob 1'), ('bob 2');
";
const RULES: &str = r#"{ "principals": {
    "ada": { "ada_only": {} },
    "bob": { "bob_only": {} },
    "*": { "note": { "columns": ["id", "owner", "title"], "rows": "owner = :principal",
                     "insert": true, "update": ["title"], "delete": true } } } }"#;

type Session = RunningService<RoleClient, ()>;

struct Site {
    folder: TempDir,
    key: SecretKey,
}

impl Site {
    fn new() -> Site {
        let site =
            Site { folder: tempfile::tempdir().unwrap(), key: SecretKey::from_bytes(&[7; 32]) };
        let path = site.folder.path().join("t.db");
        let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
        for range in shoal_sql::Statements::new(TABLES) {
            run(&mut database, &TABLES[range]);
        }
        fs::write(site.folder.path().join("rules.json"), RULES).unwrap();
        site.revoke(&[]);
        site
    }

    /// Writes the file of tokens, with these ids revoked.
    fn revoke(&self, ids: &[&str]) {
        let revoked = ids.iter().map(|id| (*id).to_owned()).collect();
        let tokens = Tokens { keys: vec![self.key.public_text()], revoked, ..Tokens::default() };
        fs::write(self.folder.path().join("tokens.json"), tokens.to_text()).unwrap();
    }

    fn token(&self, principal: Option<&str>) -> String {
        let id = principal.unwrap_or("nobody").to_owned();
        let grant = Grant { id, principal: principal.map(str::to_owned), ..Grant::default() };
        self.key.sign(&grant).unwrap()
    }

    fn options(&self, is_writable: bool) -> Options {
        Options {
            environment: Environment::os(),
            path: self.folder.path().join("t.db"),
            is_writable,
            limits: AnswerLimits::default(),
            rules: Some(RulesFor { file: self.folder.path().join("rules.json"), principal: None }),
        }
    }

    fn http(&self) -> HttpOptions {
        let path = self.folder.path().join("tokens.json");
        let policy = TokenFile::open(Environment::os(), &path).unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        HttpOptions { listen, token: None, policy: Some(Arc::new(policy)), hosts: Vec::new() }
    }

    async fn server(&self, is_writable: bool) -> HttpServer {
        serve_http(self.options(is_writable), self.http()).await.unwrap()
    }

    /// A server, and a client of each principal.
    async fn served(&self, is_writable: bool) -> (HttpServer, Session, Session) {
        let server = self.server(is_writable).await;
        let ada = self.client(&server, "ada").await;
        let bob = self.client(&server, "bob").await;
        (server, ada, bob)
    }

    async fn client(&self, server: &HttpServer, principal: &str) -> Session {
        let url = format!("http://{}/mcp", server.address());
        let token = self.token(Some(principal));
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
        ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap()
    }
}

/// The words of an answer or a refusal.
async fn told(client: &Session, tool: &'static str, arguments: Json) -> String {
    let result = call(client, tool, arguments).await;
    format!("{:?} {:?} {}", result.is_error, result.structured_content, super::text(&result))
}

#[tokio::test]
async fn each_request_is_answered_as_the_principal_of_its_token() {
    let site = Site::new();
    let (server, ada, bob) = site.served(false).await;
    let count = json!({"sql": "SELECT count(*), min(id), max(id) FROM note"});
    for _ in 0..3 {
        let counted = object(call(&ada, "query", count.clone()).await);
        assert_eq!(counted["rows"], json!([[40, 1, 59]]));
        let counted = object(call(&bob, "query", count.clone()).await);
        assert_eq!(counted["rows"], json!([[20, 3, 60]]));
    }
    for (client, own, other) in [(&ada, "ada", "bob"), (&bob, "bob", "ada")] {
        for (tool, arguments) in [
            ("schema", json!({"sql": true, "internal": true})),
            ("query", json!({"sql": "SELECT * FROM note ORDER BY id"})),
            ("query", json!({"sql": "SELECT * FROM sqlite_schema"})),
            ("query", json!({"sql": "SELECT nosuch FROM note"})),
            ("query", json!({"sql": "SELECT * FROM nosuch"})),
            ("query", json!({"sql": "DELETE FROM note"})),
            ("changes_since", json!({})),
            ("changes_since", json!({"version": "nosuch"})),
        ] {
            let said = told(client, tool, arguments.clone()).await;
            assert!(!said.contains(other) && !said.contains("secret"), "{arguments}: {said}");
        }
        let said = told(client, "schema", json!({})).await;
        assert!(said.contains(&format!("table {own}_only(n)")), "{said}");
        let sql = format!("SELECT * FROM {other}_only");
        let why = refusal(&call(client, "query", json!({"sql": sql})).await);
        assert!(why.starts_with(&format!("no such table: {other}_only")), "{why}");
    }
    ada.cancel().await.unwrap();
    bob.cancel().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn cursors_and_versions_are_of_one_principal() {
    let site = Site::new();
    let (server, ada, bob) = site.served(false).await;
    let sql = json!({"sql": "SELECT id FROM note ORDER BY id", "rows": 3});
    let first = object(call(&ada, "query", sql.clone()).await);
    let cursor = json!({"cursor": first["next_cursor"], "rows": 2});
    let unknown = json!({"cursor": "0123456789abcdef01234567", "rows": 2});
    let version = object(call(&ada, "changes_since", json!({})).await)["version"].clone();
    let version = json!({"version": version});
    // A name told to another principal is refused as one never told.
    let refused = refusal(&call(&bob, "query", cursor.clone()).await);
    assert_eq!(refused, refusal(&call(&bob, "query", unknown).await));
    let refused = refusal(&call(&bob, "changes_since", version.clone()).await);
    let nosuch = json!({"version": "nosuch"});
    assert_eq!(refused, refusal(&call(&bob, "changes_since", nosuch).await));
    // Nor are names pushed out by another principal.
    for _ in 0..70 {
        object(call(&bob, "query", sql.clone()).await);
        object(call(&bob, "changes_since", json!({})).await);
    }
    // Another session of the same principal goes on.
    let again = site.client(&server, "ada").await;
    let next = object(call(&again, "query", cursor).await);
    assert_eq!(next["rows"], json!([[5], [7]]));
    let mut database =
        Database::open(Environment::os(), &site.folder.path().join("t.db"), Access::ReadWrite)
            .unwrap();
    run(&mut database, "UPDATE note SET title = 'x' WHERE owner = 'bob'");
    run(&mut database, "INSERT INTO bob_only VALUES ('bob 3')");
    let changed = object(call(&again, "changes_since", version).await);
    assert_eq!(changed["tables"], json!([]));
    let changed = object(call(&bob, "changes_since", json!({})).await);
    run(&mut database, "DELETE FROM note WHERE id = 60");
    let changed = json!({"version": changed["version"]});
    assert_eq!(object(call(&bob, "changes_since", changed).await)["tables"], json!(["note"]));
    server.stop().await;
}

/// A message with the headers of a principal, and of a session.
async fn send(server: &HttpServer, token: &str, session: &str, message: &Json) -> (u16, String) {
    let address = server.address();
    let session = match session {
        "" => String::new(),
        session => format!("Mcp-Session-Id: {session}\r\n"),
    };
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n{session}");
    raw(address, &headers, &message.to_string()).await
}

fn begin() -> Json {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bytes", "version": "1"}
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn count() -> Json {
    let arguments = json!({"sql": "SELECT count(*) AS n FROM note"});
    let params = json!({"name": "query", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
}

/// The name of a new session, past its first two messages.
async fn session(server: &HttpServer, token: &str) -> String {
    let (status, answer) = send(server, token, "", &begin()).await;
    assert_eq!(status, 200, "{answer}");
    let mut lines = answer.lines();
    let line = lines.find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:")).unwrap();
    let session = line.split_once(':').unwrap().1.trim().to_owned();
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(server, token, &session, &begun).await.0, 202);
    session
}

#[tokio::test]
async fn a_session_is_its_owners() {
    let site = Site::new();
    let server = site.server(false).await;
    let (ada, bob) = (site.token(Some("ada")), site.token(Some("bob")));
    let session = session(&server, &ada).await;
    let (status, answer) = send(&server, &ada, &session, &count()).await;
    assert!(status == 200 && answer.contains("[[40]]"), "{answer}");
    // Whoever learnt the session's name neither asks in the session, nor reads along, nor ends it.
    let refused = send(&server, &bob, &session, &count()).await;
    let unknown = send(&server, &bob, "nosuch", &count()).await;
    assert_eq!(refused.0, 404);
    let body = |answer: &str| answer.split("\r\n\r\n").nth(1).unwrap().to_owned();
    assert_eq!(body(&refused.1), body(&unknown.1));
    for method in ["GET", "DELETE"] {
        let (status, answer) = bare(&server, method, &bob, &session).await;
        assert_eq!(status, 404, "{method}: {answer}");
    }
    assert_eq!(send(&server, &ada, &session, &count()).await.0, 200);
    let ended = bare(&server, "DELETE", &ada, &session).await.0;
    assert!((200..300).contains(&ended), "{ended}");
    server.stop().await;
}

/// A request without a body.
async fn bare(server: &HttpServer, method: &str, token: &str, session: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = server.address();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Mcp-Session-Id: {session}\r\nLast-Event-ID: 0\r\nAccept: text/event-stream\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[tokio::test]
async fn a_revoked_token_is_refused_by_the_next_request() {
    let site = Site::new();
    let server = site.server(false).await;
    let (ada, bob) = (site.token(Some("ada")), site.token(Some("bob")));
    let session = session(&server, &ada).await;
    assert_eq!(send(&server, &ada, &session, &count()).await.0, 200);
    site.revoke(&["ada"]);
    let (status, answer) = send(&server, &ada, &session, &count()).await;
    assert!(status == 401 && answer.contains("revoked"), "{answer}");
    assert_eq!(send(&server, &ada, "", &begin()).await.0, 401);
    assert_eq!(send(&server, &bob, "", &begin()).await.0, 200);
    // Tokens without a principal, forged and absent ones.
    let (status, answer) = send(&server, &site.token(None), "", &begin()).await;
    assert!(status == 403 && answer.contains("names no principal"), "{answer}");
    let other = SecretKey::from_bytes(&[8; 32]);
    let principal = Some("bob".to_owned());
    let grant = Grant { id: "x".to_owned(), principal, ..Grant::default() };
    assert_eq!(send(&server, &other.sign(&grant).unwrap(), "", &begin()).await.0, 401);
    let expired = Grant { expires: Some(1), ..grant };
    let (status, answer) = send(&server, &site.key.sign(&expired).unwrap(), "", &begin()).await;
    assert!(status == 401 && answer.contains("expired"), "{answer}");
    let host = format!("Host: {}\r\n", server.address());
    assert_eq!(raw(server.address(), &host, &begin().to_string()).await.0, 401);
    // A principal without a grant is told so, and nothing else.
    fs::write(site.folder.path().join("rules.json"), r#"{"principals": {"ada": {}}}"#).unwrap();
    let client = site.client(&server, "bob").await;
    let why = refusal(&call(&client, "query", json!({"sql": "SELECT 1"})).await);
    assert_eq!(why, "no rule of this server grants you tables");
    server.stop().await;
}

#[tokio::test]
async fn principals_write_their_own_rows() {
    let site = Site::new();
    let (server, ada, bob) = site.served(true).await;
    let write = |sql: &str| json!({"sql": sql});
    let done = object(call(&ada, "query", write("UPDATE note SET title = 'x'")).await);
    assert_eq!(done["changes"], 40);
    let sql = "INSERT INTO note (id, owner, title) VALUES (100, 'ada', 'new'); \
               DELETE FROM note WHERE id < 50";
    assert_eq!(object(call(&ada, "query", write(sql)).await)["changes"], 34);
    // A refused row takes all of the call back.
    let sql = "DELETE FROM note; INSERT INTO note (id, owner, title) VALUES (101, 'bob', 'x')";
    let why = refusal(&call(&ada, "query", write(sql)).await);
    assert!(why.contains("statement 2 of 2") && why.contains("does not grant a row"), "{why}");
    let left = object(call(&ada, "query", write("SELECT count(*) FROM note")).await);
    assert_eq!(left["rows"], json!([[8]]));
    let read = write("SELECT count(*), min(title), max(title) FROM note");
    let of_bob = object(call(&bob, "query", read).await);
    assert_eq!(of_bob["rows"], json!([[20, "bob wrote 12", "bob wrote 9"]]));
    for sql in [
        "UPDATE note SET owner = 'bob'",
        "INSERT INTO note (id, owner, title) VALUES (102, 'bob', 'x')",
        "REPLACE INTO note (id, owner, title) VALUES (3, 'ada', 'x')",
        "DELETE FROM bob_only",
        "DELETE FROM ada_only",
        "CREATE TABLE x (n)",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "CREATE PROJECTION p FROM DOCUMENTS ROWS '$' COLUMNS (x)",
    ] {
        refusal(&call(&ada, "query", write(sql)).await);
    }
    let tools = ada.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let granted = ["schema", "query", "documents", "search", "graph_context", "changes_since"];
    assert_eq!(names, granted);
    server.stop().await;
}

#[tokio::test]
async fn principals_and_rules_go_together() {
    let site = Site::new();
    let named = |principal: Option<&str>| {
        let rules = RulesFor {
            file: site.folder.path().join("rules.json"),
            principal: principal.map(str::to_owned),
        };
        Options { rules: Some(rules), ..site.options(false) }
    };
    let whole = Options { rules: None, ..site.options(false) };
    let open = HttpOptions { policy: None, ..site.http() };
    let both = HttpOptions { token: Some("x".repeat(20)), ..site.http() };
    for (options, http) in [
        (whole, site.http()),
        (named(Some("ada")), site.http()),
        (named(None), open),
        (named(None), both),
    ] {
        let refused = serve_http(options, http).await.unwrap_err();
        assert!(matches!(refused, Error::Principals(_)), "{refused}");
    }
    let streams = serve_streams(named(None), tokio::io::empty(), tokio::io::sink()).await;
    assert!(matches!(streams, Err(Error::Principals(_))));
    // Rules of any principal that do not fit are found at the start.
    let unfit = r#"{"principals": {"ada": {"note": {}}, "eve": {"note": {"columns": ["x"]}}}}"#;
    fs::write(site.folder.path().join("rules.json"), unfit).unwrap();
    let refused = serve_http(site.options(false), site.http()).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Rules(why) if why.contains("no such column: x")),
        "{refused}"
    );
}
