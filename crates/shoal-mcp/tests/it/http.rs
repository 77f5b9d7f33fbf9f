//! Over HTTP: the SDK's client, and requests that are not let in.

use std::net::SocketAddr;

use rmcp::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;
use shoal_mcp::{Error, HttpOptions, HttpServer, serve_http};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::sample::Sample;
use super::{call, object, refusal};

const TOKEN: &str = "a-token-of-the-tests";

async fn server(sample: &Sample, token: Option<&str>) -> HttpServer {
    let http = HttpOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: token.map(str::to_owned),
        policy: None,
        hosts: vec!["database.example".to_owned()],
    };
    serve_http(sample.options(), http).await.unwrap()
}

/// A request as bytes, and the answer's status and body.
pub(crate) async fn raw(address: SocketAddr, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\n{headers}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The server may close before a long body is read.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), answer)
}

fn first_message() -> String {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bytes", "version": "1"}
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

#[tokio::test]
async fn the_sdks_client_speaks_over_http() {
    let sample = Sample::new();
    let server = server(&sample, Some(TOKEN)).await;
    let url = format!("http://{}/mcp", server.address());
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(TOKEN);
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = ().serve(transport).await.unwrap();
    let sql = "SELECT n FROM big ORDER BY n";
    let first = object(call(&client, "query", json!({"sql": sql, "rows": 3})).await);
    let cursor = json!({"cursor": first["next_cursor"], "rows": 2});
    let next = object(call(&client, "query", cursor).await);
    assert_eq!(next["rows"], json!([[4], [5]]));
    let why = refusal(&call(&client, "query", json!({"sql": "DELETE FROM big"})).await);
    assert!(why.contains("only reads"), "{why}");
    // A cursor is anybody's who knows its name: another session goes on with it.
    let url = format!("http://{}/mcp", server.address());
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(TOKEN);
    let other = ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let cursor = json!({"cursor": next["next_cursor"], "rows": 1});
    assert_eq!(object(call(&other, "query", cursor).await)["rows"], json!([[6]]));
    client.cancel().await.unwrap();
    other.cancel().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn requests_of_strangers_are_not_let_in() {
    let sample = Sample::new();
    let server = server(&sample, Some(TOKEN)).await;
    let address = server.address();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let host = format!("Host: {address}\r\n");
    let first = first_message();
    for (headers, status) in [
        (format!("{host}{bearer}"), 200),
        (format!("Host: localhost\r\n{bearer}"), 200),
        (format!("Host: database.example\r\n{bearer}"), 200),
        (host.clone(), 401),
        (format!("{host}Authorization: Bearer {TOKEN}x\r\n"), 401),
        (format!("{host}Authorization: Bearer \r\n"), 401),
        (format!("{host}Authorization: Basic {TOKEN}\r\n"), 401),
        (format!("Host: evil.example\r\n{bearer}"), 403),
        (format!("{host}{bearer}Origin: http://evil.example\r\n"), 403),
        (format!("{host}{bearer}Origin: null\r\n"), 403),
    ] {
        let (got, answer) = raw(address, &headers, &first).await;
        assert_eq!(got, status, "{headers}: {answer}");
    }
    let (status, answer) = raw(address, &format!("{host}{bearer}"), "{\"jsonrpc\": ").await;
    assert!((400..500).contains(&status), "{answer}");
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(5 << 20));
    let (status, answer) = raw(address, &format!("{host}{bearer}"), &long).await;
    assert!(status == 413 || status == 0, "{status} {answer}");
    server.stop().await;
}

#[tokio::test]
async fn sessions_are_bounded() {
    let sample = Sample::new();
    let server = server(&sample, None).await;
    let host = format!("Host: {}\r\n", server.address());
    let first = first_message();
    let mut statuses = Vec::new();
    for _ in 0..66 {
        statuses.push(raw(server.address(), &host, &first).await.0);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 64);
    assert_eq!(statuses[65], 503);
    server.stop().await;
}

#[tokio::test]
async fn other_machines_need_a_token() {
    let sample = Sample::new();
    let http = HttpOptions {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        token: None,
        policy: None,
        hosts: Vec::new(),
    };
    let refused = serve_http(sample.options(), http.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::Open(_)), "{refused}");
    let http = HttpOptions { token: Some(TOKEN.to_owned()), ..http };
    let server = serve_http(sample.options(), http).await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    let headers = format!("Host: some.name\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(raw(address, &headers, &first_message()).await.0, 200);
    server.stop().await;
}
