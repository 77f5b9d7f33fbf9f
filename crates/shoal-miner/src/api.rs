//! The HTTP API: the miner's state as JSON, events and metrics; start, stop and changes.
//!
//! Nobody is asked for a password, so the API listens on this machine only unless the settings say
//! otherwise. Web pages must not reach it either: a request sent by a browser for another
//! origin is refused, and so is one for a name other than this machine's.

mod metrics;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::board::{Announcement, Board, unix_ms};
use crate::config::{Settings, read_object};
use crate::miner::{self, Control, Outcome, RequestError};
use crate::pool::finished;

/// The API of a process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens at an address, whose safety the settings have checked.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(
        bind: SocketAddr,
        board: Arc<Board>,
        control: Control,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(bind).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let api = Api {
            board,
            control,
            stop: stopped.clone(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            local_only: address.ip().is_loopback(),
        };
        let router = router(api);
        let task = tokio::spawn(async move {
            let mut stopped = stopped;
            let ended = async move { finished(&mut stopped).await };
            // Errors concern single connections only.
            let _ = axum::serve(listener, router).with_graceful_shutdown(ended).await;
        });
        Ok(Self { address, stop, task })
    }

    /// The address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server. Requests under way get a moment.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        if timeout(FAREWELL, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// A body, unless too long.
type Body = Result<Bytes, BytesRejection>;

#[derive(Clone)]
struct Api {
    board: Arc<Board>,
    control: Control,
    stop: watch::Receiver<bool>,
    streams: Arc<Semaphore>,
    local_only: bool,
}

fn router(api: Api) -> Router {
    Router::new()
        .route("/v1/health", get(health))
        .route("/v1/runtime/state", get(state))
        .route("/v1/runtime/config/defaults", get(config_defaults))
        .route("/v1/runtime/config/effective", get(config_effective))
        .route("/v1/backends", get(backends))
        .route("/v1/miner/start", post(start))
        .route("/v1/miner/stop", post(stop))
        .route("/v1/miner/restart", post(restart))
        .route("/v1/miner/live-config", patch(live_config))
        .route("/v1/events/stream", get(events))
        .route("/metrics", get(metrics))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "not_found", "there is no such path") })
        .method_not_allowed_fallback(|| async {
            let words = "the path knows other methods";
            refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", words)
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), guard))
        .with_state(api)
}

/// Keeps web pages out.
async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && headers.contains_key(header::ORIGIN) {
        let words = "web pages may not change anything";
        return refusal(StatusCode::FORBIDDEN, "foreign_origin", words);
    }
    if api.local_only && !names_this_machine(headers) {
        let words = "the request is for another host";
        return refusal(StatusCode::FORBIDDEN, "foreign_host", words);
    }
    next.run(request).await
}

/// `true` for a request to this machine by name. A page on a name made to point
/// here would be let in by the browser otherwise.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn health(State(api): State<Api>) -> Response {
    answer(
        StatusCode::OK,
        &json!({
            "status": "ok",
            "version": env!("CARGO_PKG_VERSION"),
            "started_unix_ms": api.board.begun_unix_ms(),
            "now_unix_ms": unix_ms(),
        }),
    )
}

async fn state(State(api): State<Api>) -> Response {
    answer(StatusCode::OK, &api.board.state())
}

async fn config_defaults() -> Response {
    match Settings::default().resolve() {
        Ok(config) => answer(StatusCode::OK, &json!({ "config": config })),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string()),
    }
}

async fn config_effective(State(api): State<Api>) -> Response {
    answer(StatusCode::OK, &json!({ "config": api.board.state().effective_config }))
}

async fn backends(State(api): State<Api>) -> Response {
    let engine = api.board.state().engine;
    let backends = engine.map(|engine| engine.backends).unwrap_or_default();
    answer(StatusCode::OK, &json!({ "backends": backends }))
}

async fn metrics(State(api): State<Api>) -> Response {
    let text = metrics::render(&api.board.state());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn start(State(api): State<Api>, body: Body) -> Response {
    match read::<Settings>(body) {
        Ok(settings) => act(&api, miner::Request::Start(Box::new(settings))).await,
        Err(refused) => *refused,
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StopRequest {
    wait_ms: Option<u64>,
}

async fn stop(State(api): State<Api>, body: Body) -> Response {
    match read::<StopRequest>(body) {
        Ok(request) => {
            let wait = Duration::from_millis(request.wait_ms.unwrap_or(STOP_WAIT_MS));
            act(&api, miner::Request::Stop(wait.min(STOP_WAIT_MAX))).await
        }
        Err(refused) => *refused,
    }
}

async fn restart(State(api): State<Api>, body: Body) -> Response {
    match read::<Settings>(body) {
        Ok(settings) => act(&api, miner::Request::Restart(Box::new(settings))).await,
        Err(refused) => *refused,
    }
}

async fn live_config(State(api): State<Api>, body: Body) -> Response {
    match read::<Settings>(body) {
        Ok(settings) => act(&api, miner::Request::Change(Box::new(settings))).await,
        Err(refused) => *refused,
    }
}

async fn act(api: &Api, request: miner::Request) -> Response {
    match api.control.ask(request).await {
        Ok(Outcome { message }) => answer(
            StatusCode::OK,
            &json!({
                "ok": true,
                "message": message,
                "state": api.board.state(),
            }),
        ),
        Err(error) => {
            let words = error.to_string();
            match error {
                RequestError::Config(_) | RequestError::NoSource => {
                    refusal(StatusCode::BAD_REQUEST, "bad_settings", &words)
                }
                RequestError::Conflict(_) => refusal(StatusCode::CONFLICT, "conflict", &words),
                RequestError::RestartNeeded(_) => {
                    refusal(StatusCode::CONFLICT, "restart_needed", &words)
                }
                RequestError::Ending => refusal(StatusCode::SERVICE_UNAVAILABLE, "ending", &words),
            }
        }
    }
}

/// A JSON body; an empty one asks for nothing in particular.
fn read<T: Default + for<'de> Deserialize<'de>>(body: Body) -> Result<T, Box<Response>> {
    let refused = |status, words: &str| Box::new(refusal(status, "bad_request", words));
    let body = body.map_err(|error| refused(error.status(), &error.body_text()))?;
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    read_object(&body).map_err(|error| refused(StatusCode::BAD_REQUEST, &error))
}

/// Somebody who listens.
struct Feed {
    heard: broadcast::Receiver<Arc<Announcement>>,
    stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

async fn events(State(api): State<Api>) -> Response {
    let Ok(permit) = Arc::clone(&api.streams).try_acquire_owned() else {
        let words = "too many listen already";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", words);
    };
    let feed = Feed { heard: api.board.subscribe(), stop: api.stop.clone(), _permit: permit };
    let stream = stream::unfold(feed, |mut feed| async move {
        loop {
            let next = tokio::select! {
                () = finished(&mut feed.stop) => return None,
                next = feed.heard.recv() => next,
            };
            match next {
                Ok(news) => {
                    let event = sse::Event::default()
                        .id(news.id.to_string())
                        .event(news.name)
                        .data(news.data.to_string());
                    return Some((Ok::<_, Infallible>(event), feed));
                }
                // Who is too slow misses some.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string()),
    }
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let body: Value = json!({ "code": code, "message": message });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

const STREAMS_MAX: usize = 32;
const BODY_MAX: usize = 64 * 1024;
const STOP_WAIT_MS: u64 = 5000;
const STOP_WAIT_MAX: Duration = Duration::from_secs(60);
const FAREWELL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_let_in() {
        let check = |host: Option<&str>, expect| {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(header::HOST, host.parse().unwrap());
            }
            assert_eq!(names_this_machine(&headers), expect, "{host:?}");
        };
        check(None, true);
        check(Some("127.0.0.1:9977"), true);
        check(Some("127.0.0.1"), true);
        check(Some("localhost:1"), true);
        check(Some("[::1]:9977"), true);
        check(Some("[::1]"), true);
        check(Some("evil.example:9977"), false);
        check(Some("10.0.0.1:9977"), false);
        check(Some("localhost.evil.example"), false);
    }
}
