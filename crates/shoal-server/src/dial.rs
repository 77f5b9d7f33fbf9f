//! Dialling other machines: a stream of bytes, with TLS where it is built in; requests of JSON.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Error;
use crate::tls::Client;

/// The longest answer to a request.
const ANSWER_MAX: usize = 64 << 10;
/// The longest wait for a connection.
const DIALLING: Duration = Duration::from_secs(10);

/// A stream of bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where a URL points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    is_secure: bool,
    /// The host's name or address, without brackets.
    host: String,
    port: u16,
    /// Path and query.
    path: String,
}

impl Remote {
    /// Reads a URL of one of two schemes, the plain and the encrypted one.
    pub(crate) fn parse(url: &str, [plain, secure]: [&str; 2]) -> Result<Self, Error> {
        let fault = |why| Error::Url { url: without_query(url).to_owned(), why };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| fault("the URL has no scheme"))?;
        let is_secure = scheme.eq_ignore_ascii_case(secure);
        if !is_secure && !scheme.eq_ignore_ascii_case(plain) {
            return Err(fault(match plain {
                "ws" => "not the URL of a WebSocket: ws://HOST[:PORT][/PATH]",
                _ => "not the URL of a server: http://HOST[:PORT][/PATH]",
            }));
        }
        if is_secure && !Client::IS_BUILT_IN {
            return Err(fault("TLS is not built in: cargo build --features tls"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| fault("the port is no number up to 65535"))?;
                (host, port)
            }
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['@', ' ']) {
            return Err(fault("the URL has no host"));
        }
        Ok(Self { is_secure, host: host.to_owned(), port, path })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value of `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match (self.is_secure, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// The URL of a WebSocket here, with a member more in its query.
    pub(crate) fn socket_url(&self, member: Option<(&str, &str)>) -> String {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        let mark = if self.path.contains('?') { '&' } else { '?' };
        let member =
            member.map_or_else(String::new, |(name, value)| format!("{mark}{name}={value}"));
        format!("{scheme}://{}{}{member}", self.authority(), self.path)
    }
}

/// A URL as it may be shown: credentials are in its query.
pub(crate) fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Dialler {
    tls: Client,
}

impl Dialler {
    /// A dialler that trusts the certificates of a PEM file, or those of this machine.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, Error> {
        Ok(Self { tls: Client::new(authorities)? })
    }

    pub(crate) async fn dial(&self, remote: &Remote) -> io::Result<Box<dyn Stream>> {
        let dialling = async {
            let socket = TcpStream::connect((remote.host.as_str(), remote.port)).await?;
            let _ = socket.set_nodelay(true);
            match remote.is_secure {
                true => self.tls.connect(&remote.host, socket).await,
                false => Ok(Box::new(socket) as Box<dyn Stream>),
            }
        };
        timeout(DIALLING, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends JSON, and gives the status and the JSON of the answer.
    pub(crate) async fn post(
        &self,
        remote: &Remote,
        path: &str,
        body: &Json,
    ) -> io::Result<(u16, Json)> {
        let stream = TokioIo::new(self.dial(remote).await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(io::Error::other)?;
        let driving = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, remote.authority())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(io::Error::other)?;
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        driving.abort();
        let body = body.map_err(io::Error::other)?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or(Json::Null)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let of = |url| Remote::parse(url, ["ws", "wss"]);
        for (url, authority, path) in [
            ("ws://a", "a", "/"),
            ("ws://a:80/x?y=1#z", "a", "/x?y=1"),
            ("ws://127.0.0.1:3030", "127.0.0.1:3030", "/"),
            ("ws://[::1]:3030/p", "[::1]:3030", "/p"),
            ("ws://[::1]", "[::1]", "/"),
            ("ws://h?token=t", "h", "/?token=t"),
        ] {
            let remote = of(url).unwrap();
            assert_eq!((remote.authority().as_str(), remote.path()), (authority, path), "{url}");
        }
        let ticket = of("ws://h?token=t").unwrap().socket_url(Some(("ticket", "u")));
        assert_eq!(ticket, "ws://h/?token=t&ticket=u");
        for url in ["", "h", "http://h", "ws://", "ws://:80", "ws://h:99999", "ws://u@h"] {
            assert!(of(url).is_err(), "{url}");
        }
        let shown = of("ws://h:x?token=secret").unwrap_err().to_string();
        assert!(!shown.contains("secret"), "{shown}");
    }
}
