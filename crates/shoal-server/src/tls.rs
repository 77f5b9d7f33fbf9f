//! TLS by rustls, in builds with the feature `tls`; without it, an error that says so.

#[cfg(feature = "tls")]
mod rustls;
#[cfg(not(feature = "tls"))]
mod without;

#[cfg(feature = "tls")]
pub(crate) use rustls::{Client, Server};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Client, Server};
