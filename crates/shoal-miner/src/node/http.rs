//! Requests to a node: one connection each, bounded in time and size. No TLS: nodes listen on their
//! own machine.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::host_port::HostPort;
use crate::secret::Secret;
use crate::source::{SourceError, clean};

/// Where a node is: `http://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUrl(HostPort);

/// Why a text is no node's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeUrlError {
    /// Another scheme, or none.
    #[error("a node's URL is http://HOST:PORT, and TLS is not offered")]
    Scheme,
    /// An impossible host or port, or more than these.
    #[error("a node's URL is a host and a port, as in http://127.0.0.1:8332")]
    Host,
}

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    fn from_str(text: &str) -> Result<Self, NodeUrlError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(NodeUrlError::Scheme)?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(NodeUrlError::Scheme);
        }
        HostPort::read(rest, Some(DEFAULT_PORT)).map(Self).map_err(|_| NodeUrlError::Host)
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

impl NodeUrl {
    /// `true` for requests within this machine, judged by the host's name.
    pub fn is_local(&self) -> bool {
        let address = self.0.host.parse::<std::net::IpAddr>();
        self.0.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Our credentials at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Nothing.
    None,
    /// Always this.
    Fixed(Secret),
    /// The contents of this file, written anew at each start of the node.
    Cookie(PathBuf),
}

impl Token {
    /// Advice for people whom a node does not let in.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::None => "show its token: --cookie FILE, which is api.cookie in the node's data \
                           folder, or --token TOKEN"
                .to_owned(),
            Self::Fixed(_) => "--token is not the node's; it makes another at each start, and \
                               --cookie FILE reads it anew"
                .to_owned(),
            Self::Cookie(path) => {
                format!("is --cookie {} the file of this node?", path.display())
            }
        }
    }

    /// Reads the token. Of a file's failure only the file and the kind are told.
    pub(crate) fn read(&self) -> Result<Option<Secret>, SourceError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(secret) => Ok(Some(secret.clone())),
            Self::Cookie(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| SourceError::Cookie(format!("{}: {error}", path.display())))?;
                let token = text.trim();
                let visible = |c: char| c.is_ascii_graphic();
                if token.is_empty() || token.len() > TOKEN_MAX || !token.chars().all(visible) {
                    let why = format!("{}: this is no token", path.display());
                    return Err(SourceError::Cookie(why));
                }
                Ok(Some(Secret::new(token.to_owned())))
            }
        }
    }
}

/// Asks a node.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) url: NodeUrl,
    pub(crate) token: Token,
    pub(crate) timeout: Duration,
    secret: Option<Secret>,
}

/// An answer of a node.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The node's words about a failure.
    pub(crate) fn words(&self) -> String {
        let value: Option<Value> = serde_json::from_slice(&self.body).ok();
        let said = value.as_ref().and_then(|value| {
            ["error", "message", "code"].iter().find_map(|name| value[*name].as_str())
        });
        match said {
            Some(words) => clean(words),
            None => format!("status {}", self.status),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the request failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("no answer in time")]
    Timeout,
    #[error("the answer is longer than allowed: {max} bytes")]
    TooLong { max: usize },
    #[error("the answer broke off")]
    Broken,
    #[error(transparent)]
    Token(#[from] SourceError),
}

/// A question to a node.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) body: Option<Value>,
    pub(crate) request_id: Option<&'a str>,
}

/// A connection, ended by a drop.
pub(crate) struct Opened {
    pub(crate) response: Response<Incoming>,
    pub(crate) connection: AbortOnDrop,
}

pub(crate) struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Api {
    pub(crate) fn new(url: NodeUrl, token: Token, timeout: Duration) -> Self {
        Self { url, token, timeout, secret: None }
    }

    /// Asks, and once more with a fresh token when the node does not know the first.
    pub(crate) async fn ask(&mut self, question: &Question<'_>) -> Result<Answer, AskError> {
        let answer = self.ask_once(question).await?;
        if answer.status == UNAUTHORIZED && matches!(self.token, Token::Cookie(_)) {
            self.secret = None;
            return self.ask_once(question).await;
        }
        Ok(answer)
    }

    async fn ask_once(&mut self, question: &Question<'_>) -> Result<Answer, AskError> {
        let time = self.timeout;
        let asked = async {
            let Opened { response, connection: _connection } = self.open(question).await?;
            let status = response.status().as_u16();
            let retry_after = response
                .headers()
                .get(header::RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok())
                .map(Duration::from_secs);
            let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    AskError::TooLong { max: BODY_MAX }
                } else {
                    AskError::Broken
                }
            })?;
            Ok(Answer { status, retry_after, body: body.to_bytes().to_vec() })
        };
        timeout(time, asked).await.map_err(|_| AskError::Timeout)?
    }

    /// Sends a question and waits for the head of its answer, without a time limit.
    pub(crate) async fn open(&mut self, question: &Question<'_>) -> Result<Opened, AskError> {
        if self.secret.is_none() {
            self.secret = self.token.read()?;
        }
        let address = (self.url.0.host.as_str(), self.url.0.port);
        let stream = TcpStream::connect(address).await.map_err(AskError::Connect)?;
        stream.set_nodelay(true).map_err(AskError::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = AbortOnDrop(tokio::spawn(async move {
            // Its failure is the request's, and told there.
            let _ = connection.await;
        }));
        let mut request = Request::builder()
            .method(question.method.clone())
            .uri(question.target)
            .header(header::HOST, self.url.0.to_string())
            .header(header::ACCEPT, "*/*")
            .header(header::CONNECTION, "close");
        if let Some(secret) = &self.secret {
            let mut value = header::HeaderValue::from_str(&format!("Bearer {}", secret.reveal()))
                .map_err(|_| SourceError::Cookie("this is no token".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if let Some(id) = question.request_id {
            request = request.header("x-request-id", id);
        }
        let body = match &question.body {
            Some(json) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(json.to_string())
            }
            None => Bytes::new(),
        };
        let request = request.body(Full::new(body)).expect("every part of the request is valid");
        let response = sender.send_request(request).await?;
        Ok(Opened { response, connection })
    }

    /// Forgets the token; the next question reads it again.
    pub(crate) fn forget_token(&mut self) {
        self.secret = None;
    }
}

pub(crate) const UNAUTHORIZED: u16 = 401;
const DEFAULT_PORT: u16 = 8332;
const TOKEN_MAX: usize = 4096;
/// Templates carry whole blocks, at most 1 MiB of them, as JSON.
const BODY_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_in_every_form() {
        let check = |text: &str, expect: Result<&str, NodeUrlError>| {
            let parsed = text.parse::<NodeUrl>().map(|url| url.to_string());
            assert_eq!(parsed, expect.map(str::to_owned), "{text}");
        };
        check("http://127.0.0.1:8332", Ok("http://127.0.0.1:8332"));
        check("HTTP://localhost/", Ok("http://localhost:8332"));
        check("http://[::1]:99", Ok("http://[::1]:99"));
        check("http://[::1]", Ok("http://[::1]:8332"));
        check("https://node:8332", Err(NodeUrlError::Scheme));
        check("node:8332", Err(NodeUrlError::Scheme));
        check("http://", Err(NodeUrlError::Host));
        check("http://:8332", Err(NodeUrlError::Host));
        check("http://node:0", Err(NodeUrlError::Host));
        check("http://node:70000", Err(NodeUrlError::Host));
        check("http://user:password@node", Err(NodeUrlError::Host));
        check("http://node/api", Err(NodeUrlError::Host));
        check("http://::1", Err(NodeUrlError::Host));
        check("http://nöde", Err(NodeUrlError::Host));
        assert!("http://localhost".parse::<NodeUrl>().unwrap().is_local());
        assert!("http://[::1]".parse::<NodeUrl>().unwrap().is_local());
        assert!(!"http://10.0.0.1".parse::<NodeUrl>().unwrap().is_local());
    }

    #[test]
    fn a_cookie_that_is_none_is_named_and_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.cookie");
        let token = Token::Cookie(path.clone());
        let missing = token.read().unwrap_err().to_string();
        assert!(missing.contains("api.cookie"), "{missing}");
        fs::write(&path, "  tok3n\n").unwrap();
        assert_eq!(token.read().unwrap().unwrap().reveal(), "tok3n");
        for bad in ["", "two words", "line\nbreak", &"x".repeat(5000)] {
            fs::write(&path, bad).unwrap();
            let error = token.read().unwrap_err().to_string();
            assert!(error.ends_with("this is no token"), "{error}");
        }
    }
}
