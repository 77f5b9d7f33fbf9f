//! Servers: over two streams, and over HTTP.

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::desk::Desk;
use crate::handler::Handler;
use crate::http::{self, HttpOptions, HttpServer};
use crate::{Error, Options};

/// Bytes of one message: longer lines are dropped without an answer.
const MESSAGE_MAX: usize = 4 << 20;

/// Serves one client over two streams, stdin and stdout most often, until the first one ends. Only
/// messages of the protocol are written.
///
/// # Errors
/// [`Error::Database`], [`Error::Rules`] and [`Error::Principals`] before the first message is
/// read; [`Error::Protocol`] for a first message outside the protocol.
pub async fn serve_streams(
    options: Options,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error> {
    if options.rules.as_ref().is_some_and(|rules| rules.principal.is_none()) {
        return Err(Error::Principals("rules over two streams are for one principal: name it"));
    }
    let desk = Desk::open(options).await?;
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_MAX);
    match (Handler { desk }).serve(transport).await {
        Ok(running) => {
            running.waiting().await.map_err(|error| Error::Protocol(error.to_string()))?;
            Ok(())
        }
        // A client gone before its first message asked for nothing.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(Error::Protocol(error.to_string())),
    }
}

/// Serves any number of clients over HTTP, at the path `/mcp`, until the server is stopped.
///
/// # Errors
/// [`Error::Open`] for an address of other machines without a token; [`Error::Principals`] for a
/// policy without rules of its principals; [`Error::Database`], [`Error::Io`].
pub async fn serve_http(options: Options, http: HttpOptions) -> Result<HttpServer, Error> {
    http.check(&options)?;
    let desk = Desk::open(options).await?;
    http::start(desk, http, MESSAGE_MAX).await
}
