//! Bytes that no client would send: the server answers what it can, and goes on.

use std::time::Duration;

use serde_json::{Value as Json, json};
use shoal_mcp::{Error, serve_streams};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::sample::Sample;

/// Two streams and the server behind them.
struct Wire {
    write: WriteHalf<DuplexStream>,
    read: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<Result<(), Error>>,
    _sample: Sample,
}

impl Wire {
    fn new() -> Wire {
        let sample = Sample::new();
        let (client, server) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(server);
        let server = tokio::spawn(serve_streams(sample.options(), read, write));
        let (read, write) = tokio::io::split(client);
        Wire { write, read: BufReader::new(read), server, _sample: sample }
    }

    /// A wire behind the first messages.
    async fn begun() -> Wire {
        let mut wire = Wire::new();
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bytes", "version": "1"}
        });
        wire.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
            .await;
        let answer = wire.next().await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "shoal");
        wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        wire
    }

    async fn send(&mut self, message: &Json) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    /// The next message; each line must be one.
    async fn next(&mut self) -> Json {
        let mut line = String::new();
        let read = self.read.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(30), read).await.unwrap().unwrap();
        let message: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// The answer to a request that goes well, of this id.
    async fn is_alive(&mut self, id: u32) {
        let params = json!({"name": "query", "arguments": {"sql": "SELECT 1"}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .await;
        loop {
            let answer = self.next().await;
            if answer["id"] == id {
                assert_eq!(answer["result"]["structuredContent"]["rows"], json!([[1]]));
                return;
            }
        }
    }
}

#[tokio::test]
async fn malformed_messages_end_nothing() {
    let mut wire = Wire::begun().await;
    let deep = "[".repeat(200_000);
    for (number, bytes) in [
        &b"not json\n"[..],
        b"\n\n\r\n",
        b"{\"jsonrpc\": \"2.0\"}\n",
        b"{\"jsonrpc\": \"1.0\", \"id\": 5, \"method\": \"ping\"}\n",
        b"[]\n",
        b"[1, 2]\n",
        b"null\n",
        b"\xff\xfe\x00\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": {\"requestId\": 99}}\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/unheard\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": 7, \"result\": {}}\n",
        deep.as_bytes(),
        b"\n",
    ]
    .into_iter()
    .enumerate()
    {
        wire.raw(bytes).await;
        if bytes.ends_with(b"\n") {
            wire.is_alive(1000 + number as u32).await;
        }
    }
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused_by_their_id() {
    let mut wire = Wire::begun().await;
    for (id, method, params) in [
        (2, "tools/call", json!({"name": "nothing"})),
        (3, "no/such/method", json!({})),
        (4, "resources/read", json!({"uri": "x"})),
        (5, "prompts/get", json!({"name": "x"})),
    ] {
        wire.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let answer = wire.next().await;
        assert_eq!(answer["id"], id);
        assert!(answer["error"]["code"].as_i64().unwrap() < -32000, "{answer}");
    }
    wire.is_alive(9).await;
}

/// A message over the bound is dropped, however long it is, and those behind it are answered.
#[tokio::test]
async fn a_message_without_end_takes_no_memory() {
    let mut wire = Wire::begun().await;
    let piece = vec![b'x'; 1 << 16];
    wire.raw(b"{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"").await;
    for _ in 0..(20 << 20) / piece.len() {
        wire.raw(&piece).await;
    }
    wire.raw(b"\"}\n").await;
    wire.is_alive(3).await;
    // A long message within the bound is answered.
    let sql = format!("SELECT length('{}')", "y".repeat(900_000));
    let params = json!({"name": "query", "arguments": {"sql": sql}});
    let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params});
    wire.send(&call).await;
    let answer = wire.next().await;
    assert_eq!(answer["result"]["structuredContent"]["rows"], json!([[900_000]]));
}

#[tokio::test]
async fn a_server_ends_with_its_stream() {
    let mut wire = Wire::begun().await;
    wire.is_alive(2).await;
    wire.write.shutdown().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), wire.server).await.unwrap();
    assert!(ended.unwrap().is_ok());
    // So does one that nobody spoke to.
    let Wire { write, read, server, _sample } = Wire::new();
    drop((write, read));
    let ended = tokio::time::timeout(Duration::from_secs(30), server).await.unwrap();
    assert!(ended.unwrap().is_ok());
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_told_before_the_first_message() {
    let sample = Sample::new();
    let mut options = sample.options();
    options.path = sample.folder().join("missing.db");
    let (_client, server) = tokio::io::duplex(1 << 10);
    let (read, write) = tokio::io::split(server);
    let Err(Error::Database(why)) = serve_streams(options, read, write).await else {
        panic!("a missing database is served")
    };
    assert!(why.contains("missing.db"), "{why}");
}
