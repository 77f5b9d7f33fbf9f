//! MCP over HTTP: who may send a request to the SDK's service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Error;
use crate::desk::Desk;
use crate::handler::Handler;

/// Sessions at a time; further clients are told to come later.
const SESSIONS_MAX: usize = 64;
/// The wait for open answers when the server stops.
const STOPPING: Duration = Duration::from_secs(2);

/// Who may reach a server over HTTP.
#[derive(Clone)]
pub struct HttpOptions {
    /// The address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The token behind `Authorization: Bearer`, asked of every request; `None` for addresses of
    /// this machine alone.
    pub token: Option<String>,
    /// Names that requests may give as their host, beside this machine's.
    pub hosts: Vec<String>,
}

impl HttpOptions {
    /// Refuses an address of other machines without a token.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.token.is_none() && !self.listen.ip().is_loopback() {
            true => Err(Error::Open(self.listen)),
            false => Ok(()),
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl HttpServer {
    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every session, and waits up to two seconds for answers under way.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let abort = self.task.abort_handle();
        if tokio::time::timeout(STOPPING, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// The judge of requests.
struct Gate {
    token: Option<String>,
    sessions: Arc<LocalSessionManager>,
}

/// Starts a server.
///
/// # Errors
/// [`Error::Io`].
pub(crate) async fn start(
    desk: Desk,
    options: HttpOptions,
    longest: usize,
) -> Result<HttpServer, Error> {
    let listener = TcpListener::bind(options.listen).await?;
    let address = listener.local_addr()?;
    let mut config = StreamableHttpServerConfig::default()
        .with_max_request_body_bytes(longest)
        // A web page sends its origin, and no page is a client.
        .enforce_origin_validation();
    config = match (address.ip().is_loopback(), options.hosts.is_empty()) {
        // Beyond this machine the token keeps out pages of names made to point here.
        (false, true) => config.disable_allowed_hosts(),
        _ => {
            let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter();
            let own = [address.ip().to_string()];
            config.with_allowed_hosts(names.chain(own).chain(options.hosts))
        }
    };
    let ending = config.cancellation_token.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let handler = Handler { desk };
    let service =
        StreamableHttpService::new(move || Ok(handler.clone()), Arc::clone(&sessions), config);
    let gate = Arc::new(Gate { token: options.token, sessions });
    let router = Router::new()
        .route_service("/mcp", service)
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "the path of this server is /mcp") })
        .layer(middleware::from_fn_with_state(gate, admit));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        let _ = stopped.await;
        ending.cancel();
    });
    let task = tokio::spawn(serving.into_future());
    Ok(HttpServer { address, stop, task })
}

/// Asks for the token, and bounds the number of sessions.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if let Some(token) = &gate.token {
        let given = request.headers().get(header::AUTHORIZATION);
        let given = given.and_then(|given| given.as_bytes().strip_prefix(b"Bearer "));
        let is_right = given.is_some_and(|given| bool::from(given.ct_eq(token.as_bytes())));
        if !is_right {
            let mut response = refusal(
                StatusCode::UNAUTHORIZED,
                "a token is missing or another: Authorization: Bearer TOKEN",
            );
            let asks = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
            return response;
        }
    }
    let is_new =
        request.method() == Method::POST && !request.headers().contains_key("mcp-session-id");
    if is_new && gate.sessions.sessions.read().await.len() >= SESSIONS_MAX {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions: come back later");
    }
    next.run(request).await
}

fn refusal(status: StatusCode, why: &str) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
