//! As much of HTTP/1.1 as a node on this machine needs: one request a connection.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A request, read whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// A header's value; names are compared without case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Reads a request, or `None` when the peer goes, stalls, or sends something else.
pub(crate) fn read(stream: &mut TcpStream, stopping: impl Fn() -> bool) -> Option<Request> {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>| -> Option<()> {
        let mut buffer = [0; 4096];
        loop {
            if stopping() || begun.elapsed() > REQUEST_TIMEOUT {
                return None;
            }
            match stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => {
                    bytes.extend(&buffer[..count]);
                    return Some(());
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => return None,
            }
        }
    };
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > HEAD_MAX {
            return None;
        }
        more(&mut bytes)?;
    };
    let head = std::str::from_utf8(&bytes[..end]).ok()?.to_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut request =
        Request { method, path: path.to_owned(), query, headers, body: bytes.split_off(end + 4) };
    let length: usize = request.header("content-length").unwrap_or("0").parse().ok()?;
    if length > BODY_MAX {
        return None;
    }
    while request.body.len() < length {
        more(&mut request.body)?;
    }
    Some(request)
}

/// Answers with a status, headers and JSON, and announces the end of the connection.
pub(crate) fn write(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(
        head,
        "Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

/// Begins a stream of events.
pub(crate) fn begin_events(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
          Connection: close\r\n\r\n",
    )
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        409 => "Conflict",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

const HEAD_MAX: usize = 16 * 1024;
const BODY_MAX: usize = 1 << 20;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
