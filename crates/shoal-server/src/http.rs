//! Everything on the port: the WebSocket on any path, the page and its API, health and metrics.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{SinkExt, StreamExt, future};
use serde_json::{Value as Json, json};
use shoal_sync::{Access, ConnectionId, DocumentId, Limits, Role};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::metrics;
use crate::queries::{self, Queries, QueryError};
use crate::socket::{self, Packet};
use crate::storage::Figures;

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/app.js");
const STYLE: &str = include_str!("page/app.css");

/// Open WebSockets; further ones are closed at once.
pub(crate) const CONNECTIONS: usize = 10_000;
/// A socket without a place has this time for its close frame.
const TURNING_AWAY: Duration = Duration::from_secs(1);
/// The longest SQL of the console.
const BODY_MAX: usize = 64 << 10;
/// Buffers of a socket: each idle one keeps the first.
const READ_BUFFER: usize = 4 << 10;
const WRITE_BUFFER: usize = 64 << 10;
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
    /// Listens on a loopback address.
    pub(crate) is_local: bool,
    pub(crate) next_connection: AtomicU64,
    /// One permit for each WebSocket that may be open.
    pub(crate) places: Arc<Semaphore>,
}

type Shared = Arc<Site>;

pub(crate) fn router(site: Shared) -> Router {
    let api = Router::new()
        .route("/status", get(status))
        .route("/documents", get(documents))
        .route("/documents/{name}", get(document))
        .route("/documents/{name}/history", get(history))
        .route("/tables", get(tables))
        .route("/sql", post(sql))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), admin));
    Router::new()
        .route("/", get(page))
        .route("/app.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/app.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/healthz", get(health))
        .route("/metrics", get(numbers))
        .nest("/api", api)
        .fallback(anywhere)
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// Refuses requests for other hosts, and requests of pages of other origins.
async fn guard(State(site): State<Shared>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if site.is_local && !names_this_machine(headers) {
        return refusal(StatusCode::FORBIDDEN, "the request is for another host");
    }
    let is_upgrade = headers.contains_key(header::UPGRADE);
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let may = match (is_upgrade, reads) {
        (true, _) => may_open_sockets(&site, headers),
        (false, true) => true,
        (false, false) => is_same_origin(headers),
    };
    if !may {
        return refusal(StatusCode::FORBIDDEN, "the request comes from a page of another origin");
    }
    let mut response = next.run(request).await;
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The host of a request, without its port.
fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    // An IPv6 address without brackets has colons, and no port.
    let bare = host.parse::<IpAddr>().map_or_else(|_| without_port(host), |_| host);
    let name = bare.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// False for a request by another name: a page on a name made to point here would be let in by the
/// browser otherwise.
fn names_this_machine(headers: &HeaderMap) -> bool {
    host(headers).is_none_or(is_loopback)
}

/// The host in the origin of a page; `None` without an origin, as programs send requests.
fn origin(headers: &HeaderMap) -> Option<(&str, &str)> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or("?");
    Some((origin, origin.split_once("://").map_or("?", |(_, host)| host)))
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    origin(headers).is_none_or(|(_, from)| host(headers) == Some(from))
}

fn may_open_sockets(site: &Site, headers: &HeaderMap) -> bool {
    let Some((origin, from)) = origin(headers) else { return true };
    // Apps under development are served by another port of this machine.
    host(headers) == Some(from)
        || site.is_local && is_loopback(from)
        || site.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn page(State(site): State<Shared>, upgrade: Upgrade) -> Response {
    match upgrade {
        Ok(upgrade) => open_socket(site, upgrade),
        Err(_) => asset("text/html; charset=utf-8", PAGE),
    }
}

async fn anywhere(State(site): State<Shared>, upgrade: Upgrade) -> Response {
    match upgrade {
        Ok(upgrade) => open_socket(site, upgrade),
        Err(_) => refusal(StatusCode::NOT_FOUND, "there is no such path"),
    }
}

fn open_socket(site: Shared, upgrade: WebSocketUpgrade) -> Response {
    let connection = ConnectionId(site.next_connection.fetch_add(1, Ordering::Relaxed));
    let limit = site.limits.frame_bytes;
    let engine = site.engine.clone();
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(limit)
        .max_frame_size(limit)
        .on_upgrade(move |mut socket| async move {
            // An answer in HTTP instead of the upgrade ends clients under Node.
            let Ok(_place) = Arc::clone(&site.places).try_acquire_owned() else {
                site.figures.turned_away.fetch_add(1, Ordering::Relaxed);
                let close = message(Packet::Close(1013, "too many connections".to_owned()));
                let _ = timeout(TURNING_AWAY, socket.send(close)).await;
                return;
            };
            let packets = socket
                .map(|message| message.map(packet))
                .with(|packet| future::ready(Ok::<_, axum::Error>(message(packet))));
            let peer = (connection, Role::Accepting, Access::all());
            socket::run(engine, peer, packets).await;
        })
}

fn packet(message: Message) -> Packet {
    match message {
        Message::Binary(bytes) => Packet::Binary(bytes.into()),
        Message::Text(_) => Packet::Text,
        Message::Ping(_) => Packet::Ping,
        Message::Pong(_) => Packet::Alive,
        Message::Close(_) => Packet::Close(1000, String::new()),
    }
}

fn message(packet: Packet) -> Message {
    match packet {
        Packet::Binary(bytes) => Message::Binary(bytes.into()),
        Packet::Text => Message::Text("".into()),
        Packet::Ping => Message::Ping(Bytes::new()),
        Packet::Alive => Message::Pong(Bytes::new()),
        Packet::Close(code, reason) => {
            Message::Close(Some(CloseFrame { code, reason: reason.into() }))
        }
    }
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
            let text = metrics::render(&counters, totals, &site.figures);
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
        }
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

/// Lets in whoever has the admin token.
async fn admin(State(site): State<Shared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let is_admin =
        given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(site.admin_token.as_bytes())));
    match is_admin {
        true => next.run(request).await,
        false => refusal(StatusCode::UNAUTHORIZED, "the API asks for the admin token"),
    }
}

fn reply(result: Result<Json, QueryError>) -> Response {
    match result {
        Ok(body) => answer(StatusCode::OK, &body),
        Err(QueryError::Busy) => refusal(StatusCode::TOO_MANY_REQUESTS, "too many questions wait"),
        Err(QueryError::Missing) => refusal(StatusCode::NOT_FOUND, "there is no such document"),
        Err(QueryError::Failed(why)) => refusal(StatusCode::BAD_REQUEST, &why),
    }
}

async fn status(State(site): State<Shared>) -> Response {
    match site.engine.ask(|hub| (hub.counters().clone(), hub.totals())).await {
        Ok((counters, totals)) => answer(
            StatusCode::OK,
            &json!({
                "version": env!("CARGO_PKG_VERSION"),
                "connections": totals.connections,
                "peers": totals.joined,
                "documents_in_memory": totals.documents,
                "queued_bytes": totals.queued_bytes,
                "pending_bytes": totals.pending_bytes,
                "received": counters.received,
                "sent": counters.sent,
                "changes": counters.stored,
                "faults": counters.faults,
                "commits": site.figures.commits.load(Ordering::Relaxed),
                "commit_us": site.figures.commit_us.load(Ordering::Relaxed),
            }),
        ),
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

async fn documents(State(site): State<Shared>) -> Response {
    let open = site.engine.ask(|hub| hub.documents().collect::<Vec<_>>()).await;
    let open = open.unwrap_or_default();
    let stored = site.queries.ask(queries::documents).await;
    reply(stored.map(|mut stored| {
        for document in &mut stored {
            let name = document["name"].as_str().unwrap_or_default().to_owned();
            let open = open.iter().find(|open| open.id.as_str() == name);
            document["peers"] = json!(open.map_or(0, |open| open.peers));
            // Documents are shared by their ids; others are here for SQL and the command line.
            document["is_shared"] = json!(DocumentId::parse(&name).is_ok());
        }
        json!({ "documents": stored })
    }))
}

async fn document(
    State(site): State<Shared>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let at = query.split('&').find_map(|member| member.strip_prefix("at=")?.parse().ok());
    reply(site.queries.ask(move |database| queries::document(database, &name, at)).await)
}

async fn history(State(site): State<Shared>, Path(name): Path<String>) -> Response {
    reply(site.queries.ask(move |database| queries::history(database, &name)).await)
}

async fn tables(State(site): State<Shared>) -> Response {
    reply(site.queries.ask(queries::tables).await)
}

async fn sql(State(site): State<Shared>, body: Bytes) -> Response {
    let Ok(sql) = String::from_utf8(body.into()) else {
        return refusal(StatusCode::BAD_REQUEST, "the statement is not UTF-8");
    };
    reply(site.queries.ask(move |database| queries::query(database, &sql)).await)
}

/// True for an address within reach of this machine only.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine() {
        for host in ["localhost", "localhost:3030", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:80", "10.0.0.1", "?", "", "127.0.0.1.x"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
