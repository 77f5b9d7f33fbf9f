//! A conversation with the MCP server: lines of any bytes, every request among them answered. Also
//! part of a fuzz target.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shoal_mcp::{Options, serve_streams};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// The wait for all answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// The id of the last request, which no line has.
const LAST: &str = "the last request of all";

/// The id of a well-formed request, as a text. Ids are texts, or integers below 2^31, which every
/// JSON reader keeps.
fn request_id(line: &[u8]) -> Option<String> {
    // JSON readers differ on a name given twice.
    let text = std::str::from_utf8(line).ok()?;
    let names = ["\"id\"", "\"method\"", "\"jsonrpc\"", "\"params\""];
    if names.iter().any(|name| text.matches(name).count() > 1) {
        return None;
    }
    let message: Value = serde_json::from_slice(line).ok()?;
    let message = message.as_object()?;
    let is_known = |name: &String| ["jsonrpc", "id", "method", "params"].contains(&name.as_str());
    let has_params = message.get("params").is_none_or(Value::is_object);
    let has_meta = message.get("params").is_some_and(|params| params.get("_meta").is_some());
    let is_request = message.get("jsonrpc")? == "2.0"
        && message.get("method")?.is_string()
        && has_params
        && !has_meta
        && message.keys().all(is_known);
    match message.get("id").filter(|_| is_request)? {
        Value::String(id) => Some(format!("{id:?}")),
        Value::Number(id) => id.as_u64().filter(|id| *id < 1 << 31).map(|id| id.to_string()),
        _ => None,
    }
}

/// The server's part of a conversation.
pub(crate) struct Heard {
    /// Requests among the lines, each answered.
    pub(crate) requests: usize,
    /// The server's lines.
    pub(crate) lines: Vec<u8>,
}

/// Sends lines to a server, and hears the answers. The server's lines are messages of the protocol.
///
/// # Panics
/// For a request without an answer, a server that ends, and bytes that are no message.
pub(crate) async fn converse(options: Options, lines: &[u8]) -> Heard {
    let mut heard = Vec::new();
    let (client, server) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(server);
    let server = tokio::spawn(serve_streams(options, read, write));
    let (mut read, mut write) = tokio::io::split(client);
    let requests = lines.split(|byte| *byte == b'\n').filter_map(request_id);
    let mut open: BTreeSet<String> = requests.collect();
    // A cancelled request may go without an answer.
    let cancels = String::from_utf8_lossy(lines).contains("cancelled");
    if cancels {
        open.clear();
    }
    let sent = open.len();
    open.insert(format!("{LAST:?}"));
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bytes", "version": "1"}
    });
    let begin = json!({"jsonrpc": "2.0", "id": LAST, "method": "initialize", "params": params});
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let last = json!({"jsonrpc": "2.0", "id": LAST, "method": "ping"});
    let (begin, last) = (format!("{begin}\n{begun}\n"), format!("\n{last}\n"));
    let said = [begin.as_bytes(), lines, last.as_bytes()].concat();
    let say = async {
        let said = write.write_all(&said).await;
        said.expect("the server reads every message");
    };
    let hear = async {
        let mut lines = BufReader::new(&mut read).split(b'\n');
        let mut is_begun = false;
        while !open.is_empty() {
            let line = lines.next_segment().await.expect("a stream in memory");
            let line = line.expect("a server goes on until its client ends");
            heard.extend_from_slice(&line);
            heard.push(b'\n');
            let message: Value = serde_json::from_slice(&line).expect("lines are JSON");
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            let id = match &message["id"] {
                Value::String(id) => format!("{id:?}"),
                other => other.to_string(),
            };
            let is_last = id == format!("{LAST:?}");
            if is_last && !is_begun {
                is_begun = true;
                continue;
            }
            open.remove(&id);
        }
    };
    let both = async { tokio::join!(say, hear) };
    let ended = tokio::time::timeout(PATIENCE, both).await;
    let is_open = |line: &&[u8]| request_id(line).is_some_and(|id| open.contains(&id));
    let unanswered = lines.split(|byte| *byte == b'\n').filter(is_open);
    let unanswered: Vec<_> = unanswered.map(String::from_utf8_lossy).collect();
    assert!(ended.is_ok(), "requests without an answer: {unanswered:?}");
    drop((read, write));
    let stopped = tokio::time::timeout(PATIENCE, server).await;
    let stopped = stopped.expect("a server ends with its client");
    stopped.expect("a server does not panic").expect("a conversation that began ends well");
    Heard { requests: sent, lines: heard }
}
