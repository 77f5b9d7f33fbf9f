//! The server: a socket, and the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use shoal_server::{Bearers, SharePolicy};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::desk::Desk;
use crate::door::Door;
use crate::service::Service;
use crate::{Error, Options};

/// Bytes of one message from a client.
const MESSAGE_MAX: usize = 16 << 20;
/// Requests of one connection at a time.
const REQUESTS: u32 = 64;
/// Bytes of the headers of one request.
const HEADERS: u32 = 32 << 10;
/// The time between two signs of life asked of a connection, and the wait for one.
const ALIVE: Duration = Duration::from_secs(30);
/// The wait for open answers when the server stops.
const STOPPING: Duration = Duration::from_secs(2);

/// Who may reach a server.
#[derive(Clone)]
pub struct DoorOptions {
    /// The address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The token asked of every request; `None` for addresses of this machine alone.
    pub token: Option<String>,
    /// The judge of each request's token, in the place of one token: a request is answered as the
    /// principal of the verdict.
    pub policy: Option<Arc<dyn SharePolicy>>,
    /// The files of a certificate and of its key, in PEM: the server speaks TLS.
    pub tls: Option<(std::path::PathBuf, std::path::PathBuf)>,
}

/// A running server.
#[derive(Debug)]
pub struct FlightServer {
    address: SocketAddr,
    /// True ends the taking of connections.
    closing: watch::Sender<bool>,
    /// True ends statements.
    stopping: watch::Sender<bool>,
    task: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl FlightServer {
    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, waits up to two seconds for answers under way, and then ends their
    /// statements.
    pub async fn stop(mut self) {
        self.closing.send_replace(true);
        if tokio::time::timeout(STOPPING, &mut self.task).await.is_ok() {
            return;
        }
        self.stopping.send_replace(true);
        if tokio::time::timeout(STOPPING, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Serves any number of clients until the server is stopped.
///
/// # Errors
/// [`Error::Unguarded`] for an address of other machines without a token, and for principals
/// without rules or the other way about; [`Error::Database`], [`Error::Rules`], [`Error::Tls`],
/// [`Error::Io`].
pub async fn serve(options: Options, door: DoorOptions) -> Result<FlightServer, Error> {
    let bearers = Bearers { token: door.token, policy: door.policy };
    let principal = options.rules.as_ref().map(|rules| rules.principal.is_some());
    bearers.check(door.listen, principal)?;
    let mut server = Server::builder()
        .max_concurrent_streams(REQUESTS)
        .http2_max_header_list_size(HEADERS)
        .http2_keepalive_interval(Some(ALIVE))
        .http2_keepalive_timeout(Some(ALIVE));
    if let Some((certificate, key)) = &door.tls {
        server = tls::with(server, certificate, key)?;
    }
    let (stopping, stops) = watch::channel(false);
    let opened = tokio::task::spawn_blocking(move || Desk::open(&options, stops)).await;
    let desk = opened.map_err(|error| Error::Database(error.to_string()))??;
    let listener = TcpListener::bind(door.listen).await?;
    let address = listener.local_addr()?;
    let door = Door { service: Service(Arc::new(desk)), bearers };
    let service = FlightServiceServer::new(door).max_decoding_message_size(MESSAGE_MAX);
    let (closing, mut closes) = watch::channel(false);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = server.add_service(service).serve_with_incoming_shutdown(incoming, async move {
        let _ = closes.wait_for(|closes| *closes).await;
    });
    let task = tokio::spawn(serving);
    Ok(FlightServer { address, closing, stopping, task })
}

#[cfg(feature = "tls")]
mod tls {
    use std::fs;
    use std::path::Path;

    use tonic::transport::{Identity, Server, ServerTlsConfig};

    use crate::Error;

    /// A server that speaks TLS.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub(super) fn with(server: Server, certificate: &Path, key: &Path) -> Result<Server, Error> {
        let read = |path: &Path| {
            fs::read(path).map_err(|error| Error::Tls(format!("{}: {error}", path.display())))
        };
        let identity = Identity::from_pem(read(certificate)?, read(key)?);
        let config = ServerTlsConfig::new().identity(identity);
        server.tls_config(config).map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = why.unwrap_or_else(|| error.to_string());
            Error::Tls(format!("{}, {}: {why}", certificate.display(), key.display()))
        })
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use std::path::Path;

    use tonic::transport::Server;

    use crate::Error;

    pub(super) fn with(_: Server, _: &Path, _: &Path) -> Result<Server, Error> {
        let why = "TLS is not built in: cargo build --features tls, or a proxy before the port";
        Err(Error::Tls(why.to_owned()))
    }
}
