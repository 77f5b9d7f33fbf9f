//! TLS, with the certificate of `shoal-server`'s tests: for `localhost` and 127.0.0.1, and worth
//! nothing.

use std::path::{Path, PathBuf};

use arrow_flight::sql::client::FlightSqlServiceClient;
use shoal_flight::{DoorOptions, Error, serve};
use shoal_sql::Value;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::sample::{Sample, ask, door};

fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shoal-server/tests/tls").join(name)
}

fn door_of(key: &str) -> DoorOptions {
    DoorOptions { tls: Some((pem("cert.pem"), pem(key))), ..door() }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_travel_over_tls() {
    let sample = Sample::new();
    let server = serve(sample.options(), door_of("key.pem")).await.unwrap();
    let trusted = Certificate::from_pem(std::fs::read(pem("cert.pem")).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(trusted).domain_name("localhost");
    let url = format!("https://{}", server.address());
    let endpoint = Endpoint::from_shared(url.clone()).unwrap().tls_config(tls).unwrap();
    let mut client = FlightSqlServiceClient::new(endpoint.connect().await.unwrap());
    let (_, rows) = ask(&mut client, "SELECT count(*) FROM big").await.unwrap();
    assert_eq!(rows, [[Value::Int(30_000)]]);
    // Without trust in the certificate, and without TLS, there is no connection.
    let tls = ClientTlsConfig::new().domain_name("localhost");
    let endpoint = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
    assert!(endpoint.connect().await.is_err());
    let plain = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let asked = match plain.connect().await {
        Ok(channel) => ask(&mut FlightSqlServiceClient::new(channel), "SELECT 1").await.is_ok(),
        Err(_) => false,
    };
    assert!(!asked, "rows were sent without TLS");
    server.stop().await;
    for (key, words) in [("other.pem", "other.pem"), ("none.pem", "none.pem")] {
        let error = serve(sample.options(), door_of(key)).await.expect_err(key);
        assert!(matches!(&error, Error::Tls(why) if why.contains(words)), "{error}");
    }
}
