//! WebSockets: a request's upgrade, and the settings of sockets at either end.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::wire::{Meter, Wire};

/// Buffers of a socket: each idle one keeps the first.
const READ_BUFFER: usize = 2 << 10;
const WRITE_BUFFER: usize = 64 << 10;

/// A server's socket.
pub(crate) type Socket = WebSocketStream<Wire<TokioIo<hyper::upgrade::Upgraded>>>;

/// The settings of a WebSocket with messages up to a length.
pub(crate) fn config(longest: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest))
}

/// True when one of the words of a header is this one.
fn says(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|said| said.trim().eq_ignore_ascii_case(word))
}

/// True for a request to become a WebSocket.
pub(crate) fn is_asked(request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::GET
        && says(headers, header::UPGRADE, "websocket")
        && says(headers, header::CONNECTION, "upgrade")
        && says(headers, header::SEC_WEBSOCKET_VERSION, "13")
        && headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

/// The answer to such a request. `then` gets the socket once the answer has gone.
pub(crate) fn accept<F>(
    mut request: Request,
    longest: usize,
    room: Arc<Semaphore>,
    then: impl FnOnce(Socket, Arc<Meter>) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let accepted = derive_accept_key(key.map_or(&[], HeaderValue::as_bytes));
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let meter = Arc::new(Meter::default());
        let wire = Wire::new(TokioIo::new(upgraded), Arc::clone(&meter), longest, room);
        let config = Some(config(longest));
        then(WebSocketStream::from_raw_socket(wire, Role::Server, config).await, meter).await;
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accepted)
        .body(Body::empty())
        .expect("a hash in Base64 is a header's value")
}
