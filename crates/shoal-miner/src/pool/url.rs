//! Where a pool is: `stratum+tcp://HOST:PORT` or `HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// The host and the port of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolUrl {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a text is no pool's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Another scheme.
    #[error("a pool's URL is stratum+tcp://HOST:PORT, and TLS is not offered")]
    Scheme,
    /// No port, or none that can be.
    #[error("a pool's URL needs a port, as in stratum+tcp://HOST:3333")]
    Port,
    /// No host, or more than one.
    #[error("a pool's URL needs a host, as in stratum+tcp://HOST:3333")]
    Host,
}

impl FromStr for PoolUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("stratum+tcp") => rest,
            Some(_) => return Err(UrlError::Scheme),
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or(UrlError::Port)?;
        let port = port.parse().ok().filter(|&port| port != 0).ok_or(UrlError::Port)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or(UrlError::Host)?,
            None if host.contains(':') => return Err(UrlError::Host),
            None => host,
        };
        let strange = |c: char| c.is_control() || c.is_whitespace() || "/@?#".contains(c);
        if host.is_empty() || host.contains(strange) {
            return Err(UrlError::Host);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for PoolUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "stratum+tcp://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "stratum+tcp://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_in_every_form() {
        let check = |text: &str, expect: Result<&str, UrlError>| {
            let parsed = text.parse::<PoolUrl>().map(|url| url.to_string());
            assert_eq!(parsed, expect.map(str::to_owned), "{text}");
        };
        check("pool.example:3333", Ok("stratum+tcp://pool.example:3333"));
        check("stratum+tcp://127.0.0.1:3333", Ok("stratum+tcp://127.0.0.1:3333"));
        check("STRATUM+TCP://pool:1/", Ok("stratum+tcp://pool:1"));
        check("[::1]:3333", Ok("stratum+tcp://[::1]:3333"));
        check("stratum+ssl://pool:3333", Err(UrlError::Scheme));
        check("http://pool:3333", Err(UrlError::Scheme));
        check("pool", Err(UrlError::Port));
        check("pool:", Err(UrlError::Port));
        check("pool:0", Err(UrlError::Port));
        check("pool:65536", Err(UrlError::Port));
        check(":3333", Err(UrlError::Host));
        check("::1:3333", Err(UrlError::Host));
        check("user@pool:3333", Err(UrlError::Host));
        check("", Err(UrlError::Port));
    }
}
