//! The place of TLS in a build without it.

use std::io;
use std::path::Path;

use tokio::net::TcpStream;

use crate::Error;
use crate::dial::Stream;

const WHY: &str = "TLS is not built in: cargo build --features tls, or a proxy before the port";

/// Would take connections.
#[derive(Clone)]
pub(crate) enum Server {}

impl Server {
    pub(crate) fn new(_certificates: &Path, _key: &Path) -> Result<Self, Error> {
        Err(Error::Tls(WHY.to_owned()))
    }

    #[expect(clippy::unused_async, reason = "the same shape as with TLS")]
    pub(crate) async fn accept(&self, _socket: TcpStream) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}

/// Would make connections.
#[derive(Clone)]
pub(crate) struct Client;

impl Client {
    pub(crate) const IS_BUILT_IN: bool = false;

    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, Error> {
        match authorities {
            Some(_) => Err(Error::Tls(WHY.to_owned())),
            None => Ok(Self),
        }
    }

    #[expect(clippy::unused_async, reason = "the same shape as with TLS")]
    pub(crate) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<Box<dyn Stream>> {
        Err(io::Error::other(WHY))
    }
}
