//! `HOST:PORT`, as in URLs of pools and nodes.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A host, or only one; or there is more than host and port.
    Host,
    /// A possible port.
    Port,
}

impl HostPort {
    /// Reads the part of a URL behind its scheme; one `/` at its end is nothing. Names and
    /// passwords are refused: with them, the URL would be a secret.
    pub(crate) fn read(text: &str, default_port: Option<u16>) -> Result<Self, Wrong> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = match text.rsplit_once(':') {
            // The last colon is inside of the brackets.
            Some((host, _)) if host.starts_with('[') && !host.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = match (port, default_port) {
            (None, None) => return Err(Wrong::Port),
            (None, Some(port)) => port,
            (Some(port), _) => port.parse().ok().filter(|&port| port != 0).ok_or(Wrong::Port)?,
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let strange = |c: char| !c.is_ascii_graphic() || "/@?#[]".contains(c);
        let host = match bare {
            Some(inner) => inner,
            None if host.contains(':') => return Err(Wrong::Host),
            None => host,
        };
        if host.is_empty() || host.contains(strange) {
            return Err(Wrong::Host);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
