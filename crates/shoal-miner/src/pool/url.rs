//! Where a pool is: `stratum+tcp://HOST:PORT` or `HOST:PORT`.

use std::fmt;
use std::str::FromStr;

use crate::host_port::{HostPort, Wrong};

/// The host and the port of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolUrl(pub(crate) HostPort);

/// Why a text is no pool's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Another scheme.
    #[error("a pool's URL is stratum+tcp://HOST:PORT, and TLS is not offered")]
    Scheme,
    /// No port, or an impossible one.
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
        HostPort::read(rest, None).map(Self).map_err(|wrong| match wrong {
            Wrong::Host => UrlError::Host,
            Wrong::Port => UrlError::Port,
        })
    }
}

impl fmt::Display for PoolUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stratum+tcp://{}", self.0)
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
