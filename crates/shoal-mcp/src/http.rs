//! MCP over HTTP: who may send a request to the SDK's service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use shoal_server::{Bearers, NotAdmitted, SharePolicy, Unguarded};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::desk::{Desk, Principal};
use crate::handler::Handler;
use crate::{Error, Options};

/// The header with the name of a session.
const SESSION: &str = "mcp-session-id";
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
    /// The judge of each request by its `Authorization: Bearer`, in the place of one token: a
    /// request is answered as the principal of the verdict.
    pub policy: Option<Arc<dyn SharePolicy>>,
    /// Names that requests may give as their host, beside this machine's.
    pub hosts: Vec<String>,
}

impl HttpOptions {
    /// Refuses an address of other machines without a token, and principals without rules.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Principals`].
    pub(crate) fn check(&self, options: &Options) -> Result<(), Error> {
        let principal = options.rules.as_ref().map(|rules| rules.principal.is_some());
        self.bearers().check(self.listen, principal).map_err(|error| match error {
            Unguarded::Open(listen) => Error::Open(listen),
            Unguarded::Principals(why) => Error::Principals(why),
        })
    }

    fn bearers(&self) -> Bearers {
        Bearers { token: self.token.clone(), policy: self.policy.clone() }
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
    bearers: Bearers,
    sessions: Arc<LocalSessionManager>,
    /// The principal who began a session, by the session's name: events of a session can be read
    /// again by its name, and answers are among them.
    owners: Mutex<HashMap<String, Arc<str>>>,
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
    let bearers = options.bearers();
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
    let gate = Arc::new(Gate { bearers, sessions, owners: Mutex::default() });
    let router = Router::new()
        .route_service("/mcp", service)
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "the path of this server is /mcp") })
        .layer(middleware::from_fn_with_state(gate, admit));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(async move {
        let _ = stopped.await;
        ending.cancel();
    });
    let task = tokio::spawn(serving.into_future());
    Ok(HttpServer { address, stop, task })
}

/// The text behind `Authorization: Bearer`.
fn bearer(request: &Request) -> Option<&[u8]> {
    request.headers().get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

impl Gate {
    /// The principal of a request, `None` where everybody is the same.
    ///
    /// # Errors
    /// The refusal of a sender without a right to the request.
    fn judge(
        &self,
        request: &Request,
        from: SocketAddr,
    ) -> Result<Option<Principal>, Box<Response>> {
        match self.bearers.judge(bearer(request), from.ip()) {
            Ok(principal) => Ok(principal.map(|principal| Principal(Arc::from(principal)))),
            Err(NotAdmitted::NoToken(why)) => Err(Box::new(unauthorized(&why))),
            Err(NotAdmitted::NoPrincipal(why)) => {
                Err(Box::new(refusal(StatusCode::FORBIDDEN, why)))
            }
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True for a session begun by this principal.
    fn is_owner(&self, session: &HeaderValue, principal: &Principal) -> bool {
        let owner = session.to_str().ok().and_then(|name| self.owners().get(name).cloned());
        owner.is_some_and(|owner| owner == principal.0)
    }

    /// Notes the owner of a new session, and forgets ended sessions.
    async fn own(&self, session: &HeaderValue, principal: Principal) {
        let Ok(name) = session.to_str() else { return };
        let sessions = self.sessions.sessions.read().await;
        let mut owners = self.owners();
        owners.retain(|name, _| sessions.contains_key(name.as_str()));
        owners.insert(name.to_owned(), principal.0);
    }
}

/// Judges a request by its token, keeps principals to their own sessions, and bounds the number of
/// sessions.
async fn admit(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let principal = match gate.judge(&request, from) {
        Ok(principal) => principal,
        Err(refused) => return *refused,
    };
    let session = request.headers().get(SESSION);
    if let (Some(session), Some(principal)) = (session, &principal)
        && !gate.is_owner(session, principal)
    {
        // Sessions of others and unknown sessions are refused in the same words.
        return refusal(StatusCode::NOT_FOUND, "there is no such session: begin another");
    }
    let is_new = request.method() == Method::POST && session.is_none();
    if is_new && gate.sessions.sessions.read().await.len() >= SESSIONS_MAX {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions: come back later");
    }
    let Some(principal) = principal else { return next.run(request).await };
    request.extensions_mut().insert(principal.clone());
    let response = next.run(request).await;
    let begun = response.headers().get(SESSION).filter(|_| is_new).cloned();
    if let Some(session) = begun {
        gate.own(&session, principal).await;
    }
    response
}

fn unauthorized(why: &str) -> Response {
    let mut response = refusal(StatusCode::UNAUTHORIZED, why);
    let asks = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, asks);
    response
}

fn refusal(status: StatusCode, why: &str) -> Response {
    let body = serde_json::json!({ "error": why }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
