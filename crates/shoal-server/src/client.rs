//! A client of a sync server: follows documents over one connection, made again when lost.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt, future};
use shoal::{Access as FileAccess, Database, Environment};
use shoal_sync::{Access, ConnectionId, DocumentId, Effect, Event, Limits, Role};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::Error;
use crate::engine::Input;
use crate::server::Running;
use crate::socket::{self, Packet};

/// The first pause before dialling again; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A server silent for this time after the dialling is away.
const DIALLING: Duration = Duration::from_secs(15);
const READ_BUFFER: usize = 64 << 10;

/// The settings of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The world of the database.
    pub environment: Environment,
    /// The database file; a missing one is created.
    pub path: PathBuf,
    /// `ws://HOST[:PORT][/PATH]`.
    pub url: String,
    /// The documents, by id or URL; empty for every one of the database named by an id.
    pub documents: Vec<String>,
    /// The bounds of the server.
    pub limits: Limits,
}

/// News of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientNews {
    /// A server has answered.
    Connected {
        /// Its id.
        server: String,
    },
    /// The connection ended, or could not be made.
    Disconnected {
        /// Why.
        why: String,
    },
    /// Both ends have the same changes of a document.
    InSync {
        /// The document.
        document: DocumentId,
    },
    /// The server does not have a document.
    Unavailable {
        /// The document.
        document: DocumentId,
    },
}

/// A client, running.
pub struct Client {
    running: Running,
    dialling: tokio::task::JoinHandle<()>,
    news: mpsc::UnboundedReceiver<ClientNews>,
    documents: BTreeSet<DocumentId>,
}

impl Client {
    /// Opens the database, and dials. Within a tokio runtime.
    ///
    /// # Errors
    /// When the database cannot be opened, a document's name is no id, or the URL no WebSocket's.
    pub async fn start(options: ClientOptions) -> Result<Self, Error> {
        let ClientOptions { environment, path, url, documents, limits } = options;
        check(&url)?;
        let documents = chosen(&environment, &path, &documents)?;
        let (tell, news) = mpsc::unbounded_channel();
        let told = tell.clone();
        let effects = Box::new(move |effect| {
            let news = match effect {
                Effect::Joined { peer, .. } => ClientNews::Connected { server: peer },
                Effect::InSync { document, .. } => ClientNews::InSync { document },
                Effect::Unavailable { document } => ClientNews::Unavailable { document },
                _ => return,
            };
            let _ = told.send(news);
        });
        let running = Running::start(&environment, &path, limits, effects)?;
        for document in documents.clone() {
            let _ = running.engine.send(Input::Event(Event::Follow { document })).await;
        }
        let engine = running.engine.clone();
        let dialling = tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            for number in 1.. {
                let config = WebSocketConfig::default()
                    .read_buffer_size(READ_BUFFER)
                    .max_message_size(Some(limits.frame_bytes))
                    .max_frame_size(Some(limits.frame_bytes));
                let dialled =
                    tokio_tungstenite::connect_async_with_config(&url, Some(config), true);
                let why = match timeout(DIALLING, dialled).await {
                    Ok(Ok((socket, _))) => {
                        pause = FIRST_PAUSE;
                        let packets = socket.map(|message| message.map(packet)).with(|packet| {
                            future::ready(Ok::<_, tungstenite::Error>(message(packet)))
                        });
                        let peer = (ConnectionId(number), Role::Dialing, Access::all());
                        socket::run(engine.clone(), peer, packets).await;
                        "the connection ended".to_owned()
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".to_owned(),
                };
                if tell.send(ClientNews::Disconnected { why }).is_err() {
                    return;
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
        Ok(Self { running, dialling, news, documents })
    }

    /// The followed documents.
    pub const fn documents(&self) -> &BTreeSet<DocumentId> {
        &self.documents
    }

    /// The next news; waits for them.
    pub async fn next(&mut self) -> Option<ClientNews> {
        self.news.recv().await
    }

    /// Ends the connection, stores pending changes, and closes the database.
    pub async fn stop(self) {
        self.dialling.abort();
        self.running.stop().await;
    }
}

fn check(url: &str) -> Result<(), Error> {
    let why = match url.split_once("://") {
        Some(("ws", rest)) if !rest.is_empty() => return Ok(()),
        Some(("wss", _)) => "TLS is not built in: ws:// to a proxy or tunnel on this machine",
        _ => "not the URL of a WebSocket: ws://HOST[:PORT][/PATH]",
    };
    Err(Error::Url { url: url.to_owned(), why })
}

/// The documents to follow.
fn chosen(
    environment: &Environment,
    path: &std::path::Path,
    names: &[String],
) -> Result<BTreeSet<DocumentId>, Error> {
    if !names.is_empty() {
        let ids = names.iter().map(|name| {
            DocumentId::parse(name).map_err(|fault| Error::Name { name: name.clone(), fault })
        });
        return ids.collect();
    }
    let mut database = Database::open(environment.clone(), path, FileAccess::Create)?;
    let documents = database.documents()?;
    Ok(documents.iter().filter_map(|document| DocumentId::parse(&document.name).ok()).collect())
}

fn packet(message: Message) -> Packet {
    match message {
        Message::Binary(bytes) => Packet::Binary(bytes.into()),
        Message::Text(_) => Packet::Text,
        Message::Ping(_) => Packet::Ping,
        Message::Pong(_) | Message::Frame(_) => Packet::Alive,
        Message::Close(_) => Packet::Close(1000, String::new()),
    }
}

fn message(packet: Packet) -> Message {
    match packet {
        Packet::Binary(bytes) => Message::Binary(bytes.into()),
        Packet::Text => Message::Text("".into()),
        Packet::Ping => Message::Ping(Vec::new().into()),
        Packet::Alive => Message::Pong(Vec::new().into()),
        Packet::Close(code, reason) => {
            Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
        }
    }
}
