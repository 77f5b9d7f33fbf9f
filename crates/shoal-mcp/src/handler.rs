//! The service driven by the SDK: tools and resources of one database.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value as Json;

use crate::desk::{Caller, Desk, Principal};
use crate::refusal::Refusal;
use crate::tools::{self, Answer, Kind, UnderRules};
use crate::{instructions, resources};

/// The service of one client, or of all of them.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) desk: Desk,
}

fn told(kind: &Kind, is_narrowed: bool) -> Tool {
    let Json::Object(schema) = (kind.arguments)() else { unreachable!("a schema is an object") };
    let annotations = ToolAnnotations::with_title(kind.title).open_world(false);
    let words = match kind.under_rules {
        UnderRules::Narrowed(words) if is_narrowed => words,
        _ => kind.words,
    };
    Tool::new(kind.name, words, Arc::new(schema)).with_annotations(annotations)
}

fn result(answer: Result<Answer, Refusal>) -> CallToolResult {
    match answer {
        Ok(Answer::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Ok(Answer::Object(object)) => CallToolResult::structured(Json::Object(object)),
        Err(Refusal(words)) => CallToolResult::error(vec![ContentBlock::text(words)]),
    }
}

impl Handler {
    /// Runs a tool, until the client cancels the call.
    async fn call(
        &self,
        caller: Caller,
        kind: &'static Kind,
        request: CallToolRequestParams,
    ) -> CallToolResult {
        let arguments = request.arguments.unwrap_or_default();
        result(self.desk.ask(caller, move |work| (kind.call)(work, arguments)).await)
    }
}

/// The principal in a request's extensions, as the gate over HTTP put one there; none over streams.
fn caller(context: &RequestContext<RoleServer>) -> Caller {
    let parts = context.extensions.get::<axum::http::request::Parts>()?;
    parts.extensions.get::<Principal>().map(|principal| Arc::clone(&principal.0))
}

/// The end of a cancelled request: nobody reads the answer.
fn cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("shoal", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions::of(self.desk.is_writable, self.desk.is_narrowed()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_writable = self.desk.is_writable;
        let tools = tools::of(is_writable, self.desk.is_narrowed()).map(|kind| {
            let writes = kind.writes || is_writable && kind.name == "query";
            let mut tool = told(kind, self.desk.is_narrowed());
            tool.annotations = tool.annotations.map(|told| told.read_only(!writes));
            tool
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let known = || tools::of(self.desk.is_writable, self.desk.is_narrowed());
        let Some(kind) = known().find(|kind| kind.name == request.name) else {
            let name = &request.name;
            let names: Vec<&str> = known().map(|kind| kind.name).collect();
            let absent = tools::ALL.iter().find(|kind| kind.name == *name);
            let why = match absent.map(|kind| kind.under_rules) {
                Some(UnderRules::Refused(words)) if self.desk.is_narrowed() => {
                    format!("the tool {name} is refused under the rules of this server: {words}")
                }
                Some(_) => format!("the tool {name} is there only with shoal mcp --write"),
                None => format!("there is no tool {name}: {}", names.join(", ")),
            };
            return Err(ErrorData::invalid_params(why, None));
        };
        // A dropped call stops its statement.
        tokio::select! {
            result = self.call(caller(&context), kind, request) => Ok(result.into()),
            () = context.ct.cancelled() => Err(cancelled()),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let asked =
            self.desk.ask(caller(&context), move |work| resources::list(work, cursor.as_deref()));
        let (resources, next) = tokio::select! {
            listed = asked => listed.map_err(|refusal| ErrorData::internal_error(refusal.0, None))?,
            () = context.ct.cancelled() => return Err(cancelled()),
        };
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        if !resources::is_known(&uri) {
            let why = format!("there is no resource {uri}: shoal://schema, shoal://document/NAME");
            return Err(ErrorData::resource_not_found(why, None));
        }
        let asked = self.desk.ask(caller(&context), move |work| resources::contents(work, &uri));
        let contents = tokio::select! {
            read = asked => read.map_err(|refusal| ErrorData::resource_not_found(refusal.0, None))?,
            () = context.ct.cancelled() => return Err(cancelled()),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}
