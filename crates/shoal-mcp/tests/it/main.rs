//! The server as clients see it: the SDK's own client over streams and over HTTP, and bytes that no
//! client would send.

#![allow(clippy::unwrap_used)]

mod conversation;
mod granted;
mod http;
mod limits;
mod mutated;
mod principals;
mod rules;
mod sample;
mod tools;
mod wire;
mod write;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value as Json;
use shoal_mcp::{Options, serve_streams};

/// A client over streams, with the server behind it.
struct Client(RunningService<RoleClient, ()>);

impl Client {
    /// Starts a server, and the SDK's client on it.
    async fn of(options: Options) -> Client {
        let (client, server) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(server);
        tokio::spawn(serve_streams(options, read, write));
        Client(().serve(client).await.unwrap())
    }

    async fn call(&self, tool: &'static str, arguments: Json) -> CallToolResult {
        call(&self.0, tool, arguments).await
    }

    /// The object of an answer that must be one.
    async fn object(&self, tool: &'static str, arguments: Json) -> Json {
        object(self.call(tool, arguments).await)
    }

    /// The text of an answer that must be one.
    async fn text(&self, tool: &'static str, arguments: Json) -> String {
        let result = self.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{result:?}");
        text(&result)
    }

    /// The sentence of a call that must be refused.
    async fn refusal(&self, tool: &'static str, arguments: Json) -> String {
        refusal(&self.call(tool, arguments).await)
    }
}

async fn call(
    client: &RunningService<RoleClient, ()>,
    tool: &'static str,
    arguments: Json,
) -> CallToolResult {
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    let request = CallToolRequestParams::new(tool).with_arguments(arguments);
    client.call_tool(request).await.unwrap()
}

#[track_caller]
fn object(result: CallToolResult) -> Json {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let object = result.structured_content.clone().unwrap();
    // Clients without structured content read the same from the text.
    assert_eq!(serde_json::from_str::<Json>(&text(&result)).unwrap(), object);
    object
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|part| part.as_text()).map(|part| part.text.clone()).collect()
}

#[track_caller]
fn refusal(result: &CallToolResult) -> String {
    assert_eq!(result.is_error, Some(true), "{result:?}");
    text(result)
}
