//! The port: connections taken, with TLS where asked for, and served over HTTP within bounds of
//! number and time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use crate::storage::Figures;
use crate::tls;

/// Connections that have not become WebSockets, at a time; further ones wait in the system's queue.
pub(crate) const REQUESTING: usize = 4_096;
/// The longest wait for a request's headers, and for a TLS handshake.
pub(crate) const HEADERS: Duration = Duration::from_secs(5);
/// The longest headers of a request, in bytes, and the most of them.
const HEADER_BYTES: usize = 32 << 10;
const HEADER_COUNT: usize = 64;
/// The system lacks something, descriptors perhaps: it is asked again after this pause.
const PAUSE: Duration = Duration::from_millis(50);

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From(pub(crate) SocketAddr);

/// What connections are served with.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) router: Router,
    pub(crate) tls: Option<tls::Server>,
    pub(crate) figures: Arc<Figures>,
}

/// Takes connections until told to stop; ends when requests under way have ended.
pub(crate) async fn serve(listener: TcpListener, serving: Serving, stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(REQUESTING));
    let mut connections = JoinSet::new();
    let mut stopped = stop.clone();
    loop {
        let taken = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            loop {
                match listener.accept().await {
                    Ok((socket, address)) => return Some((socket, address, place)),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        let taken = tokio::select! {
            taken = taken => taken,
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(_) = connections.join_next() => continue,
        };
        let Some((socket, address, place)) = taken else { break };
        let (serving, stop) = (serving.clone(), stop.clone());
        connections.spawn(async move {
            if connection(socket, address, &serving, stop).await.is_err() {
                serving.figures.broken.fetch_add(1, Ordering::Relaxed);
            }
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    socket: TcpStream,
    address: SocketAddr,
    serving: &Serving,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    // Small messages, each of them waited for.
    let _ = socket.set_nodelay(true);
    match &serving.tls {
        None => requests(TokioIo::new(socket), address, serving, &mut stop).await,
        Some(tls) => {
            let accepted = timeout(HEADERS, tls.accept(socket)).await;
            let stream = accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            requests(TokioIo::new(stream), address, serving, &mut stop).await
        }
    }
}

/// The length of a request's line and headers as HTTP/1.1 writes them, nearly. The bound of the
/// buffer refuses headers that are still incomplete at that length: whole ones may be longer.
fn header_bytes(parts: &axum::http::request::Parts) -> usize {
    let pairs = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    target + pairs.sum::<usize>()
}

async fn requests<I>(
    io: I,
    address: SocketAddr,
    serving: &Serving,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<()>
where
    I: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let mut router = serving.router.clone();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(From(address));
        let is_long = header_bytes(&parts) > HEADER_BYTES;
        async move {
            if is_long {
                return Ok(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response());
            }
            router.call(Request::from_parts(parts, axum::body::Body::new(body))).await
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(HEADER_COUNT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(io, service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended.map_err(io::Error::other),
        _ = stop.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(io::Error::other)
}
