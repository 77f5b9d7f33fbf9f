//! TLS 1.2 and 1.3 by rustls, certificates and keys in PEM files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::Error;
use crate::dial::Stream;

fn fault(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Tls(format!("{}: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| fault(path, error))?;
    let certificates: Result<Vec<_>, _> = read.collect();
    let certificates = certificates.map_err(|error| fault(path, error))?;
    match certificates.is_empty() {
        true => Err(fault(path, "no certificate: it has to be PEM, -----BEGIN CERTIFICATE-----")),
        false => Ok(certificates),
    }
}

/// Takes connections.
#[derive(Clone)]
pub(crate) struct Server(TlsAcceptor);

impl Server {
    /// With a chain of certificates, the server's own first, and its private key.
    pub(crate) fn new(chain: &Path, key: &Path) -> Result<Self, Error> {
        let chain_read = certificates(chain)?;
        let key_read = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            fault(key, format_args!("no private key in PEM, -----BEGIN PRIVATE KEY-----: {error}"))
        })?;
        let builder =
            ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| fault(chain, error))?
                .with_no_client_auth();
        let mut config = builder.with_single_cert(chain_read, key_read).map_err(|error| {
            fault(key, format_args!("not the key of {}: {error}", chain.display()))
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.0.accept(socket).await?))
    }
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Client(TlsConnector);

impl Client {
    pub(crate) const IS_BUILT_IN: bool = true;

    /// Trusts the certificates of a PEM file, or those of this machine.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| fault(path, error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let config =
            ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| Error::Tls(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        socket: TcpStream,
    ) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.0.connect(name, socket).await?))
    }
}
