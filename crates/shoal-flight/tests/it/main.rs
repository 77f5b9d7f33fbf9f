//! A server over a socket, and `arrow-flight`'s own client of Flight SQL.

#![allow(clippy::unwrap_used)]

mod catalog;
mod ends;
mod prepared;
mod queries;
mod rights;
mod sample;
#[cfg(feature = "tls")]
mod tls;
