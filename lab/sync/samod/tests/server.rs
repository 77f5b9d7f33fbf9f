//! samod, unmodified, and `shoal serve`: both directions, with another client and with the file
//! itself, through a SIGKILL of the server in the middle.
//!
//! `SHOAL` names the program; the debug build of the source tree otherwise.

use std::convert::Infallible;
use std::env;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use automerge::transaction::Transactable;
use automerge::{Automerge, ReadDoc, ROOT};
use futures_util::{SinkExt, StreamExt, future};
use samod::{BackoffConfig, DialError, Dialer, DialerHandle, DocHandle, Repo, Transport};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};
use url::Url;

fn shoal() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/debug/shoal");
    env::var_os("SHOAL").map_or(built, PathBuf::from)
}

/// A server, killed when dropped.
struct Server(Child);

impl Server {
    fn start(folder: &Path, port: u16) -> Self {
        let program = shoal();
        let child = Command::new(&program)
            .args(["serve", "served.db", "--listen", &format!("127.0.0.1:{port}")])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn();
        let hint = "cargo build -p shoal-cli makes it, SHOAL names another one";
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}; {hint}", program.display()));
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("page: ")), "the server does not start");
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// WebSockets for samod; its own ones bring a TLS library of C along.
struct Plain(Url);

impl Dialer for Plain {
    type Error = Infallible;

    fn url(&self) -> Url {
        self.0.clone()
    }

    fn connect(
        &self,
    ) -> Pin<Box<dyn Future<Output = Result<Transport, DialError<Infallible>>> + Send>> {
        let url = self.0.clone();
        Box::pin(async move {
            let (socket, _) = connect_async(url.as_str()).await.map_err(DialError::transient)?;
            let (sink, stream) = socket.split();
            let stream = stream.filter_map(|message| {
                future::ready(match message {
                    Ok(Message::Binary(bytes)) => Some(Ok(bytes.to_vec())),
                    Ok(_) => None,
                    Err(error) => Some(Err(error)),
                })
            });
            let sink = sink.with(|bytes: Vec<u8>| {
                future::ready(Ok::<Message, Error>(Message::Binary(bytes.into())))
            });
            Ok(Transport::new(stream, sink))
        })
    }
}

async fn client(port: u16) -> (Repo, DialerHandle) {
    let repo = Repo::build_tokio().load().await;
    let url = Url::parse(&format!("ws://127.0.0.1:{port}")).expect("a URL");
    let dialled = repo.dial(BackoffConfig::default(), Arc::new(Plain(url))).expect("it runs");
    timeout(Duration::from_secs(20), dialled.established()).await.expect("in time").expect("joined");
    (repo, dialled)
}

fn put(handle: &DocHandle, key: &str, value: i64) {
    handle.with_document(|document| {
        document
            .transact(|transaction| transaction.put(ROOT, key, value))
            .expect("a put at the root")
    });
}

fn keys(handle: &DocHandle) -> Vec<String> {
    handle.with_document(|document| document.keys(ROOT).collect())
}

/// Waits until the server has acknowledged every change of a document as durable.
async fn acknowledged(handle: &DocHandle, dialled: &DialerHandle) {
    let connection = async {
        while dialled.connection_id().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
        dialled.connection_id().expect("a connection")
    };
    let connection = timeout(Duration::from_secs(30), connection).await.expect("in time");
    let told = handle.they_have_our_changes(connection);
    timeout(Duration::from_secs(30), told).await.expect("acknowledged in time");
}

async fn has(handle: &DocHandle, key: &str) {
    let there = async {
        while !keys(handle).iter().any(|it| it == key) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), there).await.unwrap_or_else(|_| panic!("{key} in time"));
}

/// Runs `shoal` on the served file, and gives its stdout.
fn run(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(shoal()).args(args).current_dir(folder).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_directions_through_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let server = Server::start(folder, port);
    let (one, one_dialled) = client(port).await;
    let (other, other_dialled) = client(port).await;

    // One client makes a document, the other one finds the document, and both write.
    let ours = one.create(Automerge::new()).await.expect("it runs");
    put(&ours, "by one", 1);
    acknowledged(&ours, &one_dialled).await;
    let id = ours.document_id().clone();
    let found = timeout(Duration::from_secs(30), other.find(id.clone())).await.expect("in time");
    let theirs = found.expect("it runs").expect("the server has it");
    has(&theirs, "by one").await;
    put(&theirs, "by the other", 2);
    has(&ours, "by the other").await;
    acknowledged(&theirs, &other_dialled).await;

    // The file is a database meanwhile: read by SQL, written by a third program.
    let sql = format!("SELECT json ->> '$.by one' FROM _shoal_doc WHERE name = '{id}'");
    assert_eq!(run(folder, &["sql", "--format", "list", "served.db", &sql]), "1\n");
    run(folder, &["doc", "put", &format!("served.db::{id}"), "/by shoal", "3"]);
    has(&ours, "by shoal").await;
    has(&theirs, "by shoal").await;

    // The server is killed; both clients write meanwhile; the server comes back, and a stranger
    // reads everything.
    drop(server);
    put(&ours, "while away: one", 4);
    put(&theirs, "while away: the other", 5);
    sleep(Duration::from_millis(300)).await;
    let _server = Server::start(folder, port);
    has(&ours, "while away: the other").await;
    has(&theirs, "while away: one").await;
    acknowledged(&ours, &one_dialled).await;
    let (stranger, _dialled) = client(port).await;
    let found = timeout(Duration::from_secs(30), stranger.find(id.clone())).await.expect("in time");
    let read = found.expect("it runs").expect("the server has it");
    for key in ["by one", "by the other", "by shoal", "while away: one", "while away: the other"] {
        has(&read, key).await;
    }
    assert_eq!(keys(&read), keys(&ours));
    // Unknown documents are said to be absent.
    let apart = Repo::build_tokio().load().await;
    let absent = apart.create(Automerge::new()).await.expect("it runs").document_id().clone();
    let found = timeout(Duration::from_secs(30), stranger.find(absent)).await.expect("in time");
    assert!(found.expect("it runs").is_none());
    for repo in [one, other, stranger] {
        repo.stop().await;
    }
}
