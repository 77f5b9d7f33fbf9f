//! TLS of the port and of the client, with a certificate of this folder's own.
//!
//! `tls/cert.pem` is self-signed, for `localhost` and 127.0.0.1, until 2126; `tls/key.pem` is its
//! key, `tls/other.pem` another one. They protect nothing.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shoal::{Access, Database, Environment};
use shoal_crdt::{ActorId, CommitOptions, Document, ROOT};
use shoal_server::{
    Client, ClientNews, ClientOptions, DocumentId, Limits, Open, Rights, ServeOptions, Server,
};
use tokio::time::timeout;

fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

fn options(folder: &Path, tls: (PathBuf, PathBuf)) -> ServeOptions {
    ServeOptions {
        environment: Environment::os(),
        path: folder.join("served.db"),
        listen: "127.0.0.1:0".parse().unwrap(),
        admin_token: "a token of some length".to_owned(),
        origins: Vec::new(),
        hosts: Vec::new(),
        tls: Some(tls),
        metrics: None,
        policy: Arc::new(Open(Rights::Write)),
        rules: None,
        admission: None,
        relay: None,
        limits: Limits::default(),
    }
}

fn client(folder: &Path, url: String, authorities: Option<PathBuf>) -> ClientOptions {
    ClientOptions {
        environment: Environment::os(),
        path: folder.join("mine.db"),
        url,
        documents: Vec::new(),
        authorities,
        pays: false,
        limits: Limits::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_exchanged_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(options(folder.path(), (pem("cert.pem"), pem("key.pem"))));
    let server = server.await.unwrap();
    let id = DocumentId::from_bytes([1; 16]);
    let mut document = Document::new(ActorId::new(&[1]));
    let mut transaction = document.transaction();
    transaction.put(&ROOT, "title", "secret on the way").unwrap();
    transaction.commit(CommitOptions::default());
    let path = folder.path().join("mine.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    database.store(id.as_str(), &mut document).unwrap();
    drop(database);
    let port = server.address().port();
    for (host, authority, is_good) in [
        ("localhost", Some(pem("cert.pem")), true),
        ("127.0.0.1", Some(pem("cert.pem")), true),
        // The certificates of this machine are not of whoever made this one.
        ("localhost", None, false),
    ] {
        let url = format!("wss://{host}:{port}");
        let mut client = Client::start(client(folder.path(), url, authority)).await.unwrap();
        let news = async {
            loop {
                match client.next().await.unwrap() {
                    ClientNews::InSync { document } => break Ok(document),
                    ClientNews::Disconnected { why } => break Err(why),
                    _ => {}
                }
            }
        };
        let news = timeout(Duration::from_secs(20), news).await.unwrap();
        assert_eq!(news.as_ref().ok(), is_good.then_some(&id), "{news:?}");
        client.stop().await;
    }
    // A plain client gets no answer, and nobody else is hurt.
    let plain = format!("ws://localhost:{port}");
    let mut plain = Client::start(client(folder.path(), plain, None)).await.unwrap();
    let news = timeout(Duration::from_secs(20), plain.next()).await.unwrap();
    assert!(matches!(news, Some(ClientNews::Disconnected { .. })), "{news:?}");
    plain.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (chain, key, why) in [
        ("absent.pem", "key.pem", "absent.pem"),
        ("key.pem", "key.pem", "no certificate: it has to be PEM"),
        ("cert.pem", "cert.pem", "no private key in PEM"),
        ("cert.pem", "other.pem", "not the key of"),
    ] {
        let started = Server::start(options(folder.path(), (pem(chain), pem(key)))).await;
        let error = started.err().expect("the server does not start").to_string();
        assert!(error.contains(why), "{chain} {key}: {error}");
    }
}
