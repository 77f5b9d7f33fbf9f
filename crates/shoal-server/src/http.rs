//! Everything on the port: the WebSocket on any path, the page, health and metrics; the API and
//! admission by work in modules below.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value as Json, json};
use shoal_sync::{ConnectionId, Limits, Role};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::accept::From;
use crate::admission::Admission;
use crate::doorman::Doorman;
use crate::engine::Engine;
use crate::queries::Queries;
use crate::socket::{self, Peer};
use crate::storage::Figures;
use crate::{metrics, upgrade};

mod admission;
mod api;
mod who;

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/app.js");
const STYLE: &str = include_str!("page/app.css");
const PAYING: &str = include_str!("page/admission.js");

/// Open WebSockets; further ones are closed at once.
pub(crate) const CONNECTIONS: usize = 10_000;
/// The longest body of a request.
const BODY_MAX: usize = 64 << 10;
/// The longest time of a request, its body included; statements and stamps take less.
const REQUEST: Duration = Duration::from_secs(60);
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The state behind the requests.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) queries: Queries,
    pub(crate) figures: Arc<Figures>,
    pub(crate) limits: Limits,
    pub(crate) admin_token: String,
    /// Origins of web pages allowed to open sockets, besides this machine's; `*` is any.
    pub(crate) origins: Vec<String>,
    /// Names of this server beyond this machine.
    pub(crate) hosts: Vec<String>,
    /// Listens on a loopback address.
    pub(crate) is_local: bool,
    /// Metrics are answered elsewhere.
    pub(crate) has_own_metrics: bool,
    pub(crate) next_connection: AtomicU64,
    /// One permit for each WebSocket that may be open.
    pub(crate) places: Arc<Semaphore>,
    /// Kibibytes of long messages under way.
    pub(crate) incoming: Arc<Semaphore>,
    pub(crate) doorman: Arc<Doorman>,
    pub(crate) admission: Option<Arc<Admission>>,
    /// True where rules say what principals read of tables.
    pub(crate) has_rules: bool,
    /// The relay, for its metrics.
    pub(crate) relay: Option<Arc<crate::relay::Relay>>,
}

type Shared = Arc<Site>;

pub(crate) fn router(site: Shared) -> Router {
    let mut router = Router::new()
        .route("/", get(page))
        .route("/app.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/app.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/admission.js", get(admission::script));
    if !site.has_own_metrics {
        router = router.route("/metrics", get(numbers));
    }
    router
        .route("/healthz", get(health))
        .route("/admission", admission::route())
        .nest("/api", api::router(Arc::clone(&site)))
        .fallback(anywhere)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// Health and metrics alone.
pub(crate) fn metrics_router(site: Shared) -> Router {
    Router::new().route("/metrics", get(numbers)).route("/healthz", get(health)).with_state(site)
}

/// Refuses requests for other hosts, and requests of pages of other origins; ends late ones.
async fn guard(State(site): State<Shared>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !who::names_this_server(&site, headers) {
        let why = "the request is for another host: shoal serve --host NAME lets a name in";
        return refusal(StatusCode::FORBIDDEN, why);
    }
    let is_admission = request.uri().path().starts_with("/admission");
    let is_upgrade = headers.contains_key(header::UPGRADE);
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // Pages of apps pay for their sockets, and so may send the stamps.
    let is_app = is_upgrade || is_admission;
    let may = match (is_app, reads) {
        (true, _) => who::may_open_sockets(&site, headers),
        (false, true) => true,
        (false, false) => who::is_same_origin(headers),
    };
    if !may {
        let why = "the request comes from a page of another origin: --allow-origin lets one in";
        return refusal(StatusCode::FORBIDDEN, why);
    }
    let origin = headers.get(header::ORIGIN).filter(|_| is_admission).cloned();
    let answered = timeout(REQUEST, next.run(request)).await;
    let mut response = answered
        .unwrap_or_else(|_| refusal(StatusCode::REQUEST_TIMEOUT, "the request took too long"));
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        let names = HeaderValue::from_static("content-type");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    response
}

async fn page(State(site): State<Shared>, request: Request) -> Response {
    match upgrade::is_asked(&request) {
        true => open_socket(site, request),
        false => asset("text/html; charset=utf-8", PAGE),
    }
}

async fn anywhere(State(site): State<Shared>, request: Request) -> Response {
    match upgrade::is_asked(&request) {
        true => open_socket(site, request),
        false => refusal(StatusCode::NOT_FOUND, "there is no such path"),
    }
}

fn open_socket(site: Shared, request: Request) -> Response {
    let connection = ConnectionId(site.next_connection.fetch_add(1, Ordering::Relaxed));
    let visit = who::visit(request.headers(), request.uri().query(), request.extensions());
    let (longest, room) = (site.limits.frame_bytes, Arc::clone(&site.incoming));
    upgrade::accept(request, longest, room, move |mut socket, meter| async move {
        // An answer in HTTP instead of the upgrade ends clients under Node.
        let Ok(_place) = Arc::clone(&site.places).try_acquire_owned() else {
            site.figures.turned_away.fetch_add(1, Ordering::Relaxed);
            socket::close(&mut socket, 1013, "too many connections".to_owned()).await;
            return;
        };
        let mut guest = site.doorman.receive(visit);
        let access = std::mem::take(&mut guest.access);
        let peer = Peer { connection, role: Role::Accepting, access, refusal: guest.refusal };
        let enter = || site.doorman.enter(connection, guest);
        socket::run(site.engine.clone(), peer, socket, meter, enter).await;
        site.doorman.close(connection);
    })
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn answer(status: StatusCode, body: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn refusal(status: StatusCode, message: &str) -> Response {
    answer(status, &json!({ "error": message }))
}

async fn health(State(site): State<Shared>) -> Response {
    if site.figures.has_failed.load(Ordering::Relaxed) {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the file refuses to be written");
    }
    // The engine answers within a moment, or is stuck.
    let asked = site.engine.ask(|hub| hub.totals().joined);
    match timeout(Duration::from_secs(2), asked).await {
        Ok(Ok(peers)) => answer(StatusCode::OK, &json!({ "status": "ok", "peers": peers })),
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "the engine does not answer"),
    }
}

async fn numbers(State(site): State<Shared>) -> Response {
    match site.engine.ask(|hub| (hub.counters().clone(), hub.totals())).await {
        Ok((counters, totals)) => {
            let admission = site.admission.as_ref().map(|admission| admission.figures());
            let incoming = crate::wire::INCOMING_KIB - site.incoming.available_permits();
            let figures = (&*site.figures, admission.as_ref(), incoming);
            let mut text = metrics::render(&counters, totals, figures);
            text.extend(site.relay.as_ref().map(|relay| relay.render()));
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
        }
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

/// The other end of a request's connection.
fn address(extensions: &axum::http::Extensions) -> SocketAddr {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    extensions.get::<From>().map_or(nowhere, |From(address)| *address)
}

/// True for an address within reach of this machine only.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}
