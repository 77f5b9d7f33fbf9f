//! A client of a sync server: follows documents over one connection, made again when lost.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use shoal::{Access as FileAccess, Database, Environment};
use shoal_pow::{Options, Search, Target};
use shoal_sync::{Access, ConnectionId, DocumentId, Effect, Event, Fault, Limits, Role};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::{WebSocketStream, client_async_with_config, tungstenite};

use crate::dial::{Dialler, Remote, Stream};
use crate::engine::Input;
use crate::server::Running;
use crate::socket::{self, Peer};
use crate::wire::{INCOMING_KIB, Meter, Wire};
use crate::{Error, upgrade};

/// The first pause before dialling again; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A connection of this age was not refused: the pauses begin again.
const LASTING: Duration = Duration::from_secs(5);
/// A server silent for this time after the dialling is away.
const DIALLING: Duration = Duration::from_secs(15);
/// The dearest stamp that is made for a server: in memory of each core, and in hashes.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const DIFFICULTY_MAX: u64 = 10_000;

/// The settings of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The world of the database.
    pub environment: Environment,
    /// The database file; a missing one is created.
    pub path: PathBuf,
    /// `ws://HOST[:PORT][/PATH]`, or `wss://` where TLS is built in. A token or ticket may be in
    /// its query.
    pub url: String,
    /// The documents, by id or URL; empty for every one of the database named by an id.
    pub documents: Vec<String>,
    /// Certificates to trust, in PEM; those of this machine otherwise.
    pub authorities: Option<PathBuf>,
    /// Pays for admission by work where the server asks for that.
    pub pays: bool,
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
    /// The server asks for work; a stamp is being made.
    Paying {
        /// Hashes to find it, on average.
        difficulty: u64,
        /// Memory of each, in KiB.
        memory_kib: u32,
    },
    /// The server has something to say, before it ends the connection perhaps.
    Told {
        /// Its words.
        message: String,
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
    /// What the server has of a document is not taken in.
    Refused {
        /// The document.
        document: DocumentId,
        /// Why.
        fault: Fault,
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
        let ClientOptions { environment, path, url, documents, limits, .. } = options;
        let remote = Remote::parse(&url, ["ws", "wss"])?;
        let dialler = Dialler::new(options.authorities.as_deref())?;
        let documents = chosen(&environment, &path, &documents)?;
        let (tell, news) = mpsc::unbounded_channel();
        let told = tell.clone();
        let refused = Arc::new(AtomicBool::new(false));
        let must_pay = Arc::clone(&refused);
        let effects = Box::new(move |effect| {
            let news = match effect {
                Effect::Joined { peer, .. } => ClientNews::Connected { server: peer },
                Effect::InSync { document, .. } => ClientNews::InSync { document },
                Effect::Unavailable { document } => ClientNews::Unavailable { document },
                Effect::Refused { document, fault, .. } => ClientNews::Refused { document, fault },
                Effect::Told { message, .. } => {
                    // The words of these faults ask for a ticket, or for another one.
                    let faults = [Fault::Unpaid, Fault::Expired, Fault::Allowance("bytes")];
                    let faults = faults.into_iter().chain([Fault::Allowance("documents")]);
                    if faults.into_iter().any(|fault| fault.to_string() == message) {
                        must_pay.store(true, Ordering::Relaxed);
                    }
                    ClientNews::Told { message }
                }
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
            let mut ticket: Option<String> = None;
            for number in 1.. {
                if options.pays && refused.swap(false, Ordering::Relaxed) {
                    let secret = environment.clone();
                    match pay(&dialler, &remote, &secret, &tell).await {
                        Ok(bought) => ticket = Some(bought),
                        Err(why) => {
                            refused.store(true, Ordering::Relaxed);
                            if tell.send(ClientNews::Disconnected { why }).is_err() {
                                return;
                            }
                            sleep(pause).await;
                            pause = (pause * 2).min(LONGEST_PAUSE);
                            continue;
                        }
                    }
                }
                let url = remote.socket_url(ticket.as_deref().map(|ticket| ("ticket", ticket)));
                let why = match timeout(DIALLING, open(&dialler, &remote, &url, limits)).await {
                    Ok(Ok((socket, meter))) => {
                        let began = Instant::now();
                        let peer = Peer {
                            connection: ConnectionId(number),
                            role: Role::Dialing,
                            access: Access::all(),
                            refusal: None,
                        };
                        socket::run(engine.clone(), peer, socket, meter, || ()).await;
                        if began.elapsed() >= LASTING {
                            pause = FIRST_PAUSE;
                        }
                        // The last words come before the end.
                        let _ = engine.ask(|_| ()).await;
                        "the connection ended".to_owned()
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".to_owned(),
                };
                let is_to_pay = options.pays && refused.load(Ordering::Relaxed);
                if !is_to_pay && tell.send(ClientNews::Disconnected { why }).is_err() {
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

type Socket = WebSocketStream<Wire<Box<dyn Stream>>>;

/// Dials, and opens a WebSocket.
async fn open(
    dialler: &Dialler,
    remote: &Remote,
    url: &str,
    limits: Limits,
) -> Result<(Socket, Arc<Meter>), tungstenite::Error> {
    let stream = dialler.dial(remote).await?;
    let meter = Arc::new(Meter::default());
    // Whoever was dialled may send what it likes.
    meter.has_joined.store(true, Ordering::Relaxed);
    let room = Arc::new(Semaphore::new(INCOMING_KIB));
    let wire = Wire::new(stream, Arc::clone(&meter), limits.frame_bytes, room);
    // The answer's headers pass before the frames: nothing of it is looked at.
    let config = upgrade::config(limits.frame_bytes);
    let (socket, _) = client_async_with_config(url, wire.unread(), Some(config)).await?;
    Ok((socket, meter))
}

/// Buys a ticket, for some seconds of all cores.
async fn pay(
    dialler: &Dialler,
    remote: &Remote,
    environment: &Environment,
    tell: &mpsc::UnboundedSender<ClientNews>,
) -> Result<String, String> {
    let mut secret = [0; 32];
    environment.fill(&mut secret);
    let claim: [u8; 32] = Sha256::digest(secret).into();
    let ask = json!({ "claim": shoal_stdx::hex::encode(&claim) });
    let body = posted(dialler, remote, &ask).await?;
    let odd = || "the server's challenge cannot be read".to_owned();
    let text = body["challenge"].as_str().ok_or_else(odd)?.to_owned();
    let sealed = Base64UrlUnpadded::decode_vec(&text).map_err(|_| odd())?;
    let memory_kib = body["memory_kib"].as_u64().and_then(|it| u32::try_from(it).ok());
    let memory_kib = memory_kib.filter(|it| *it <= MEMORY_KIB_MAX).ok_or_else(odd)?;
    let difficulty = body["difficulty"].as_u64().ok_or_else(odd)?;
    if difficulty > DIFFICULTY_MAX {
        return Err(format!("the server asks for {difficulty} hashes, which is too much"));
    }
    let _ = tell.send(ClientNews::Paying { difficulty, memory_kib });
    let target = Target::from_difficulty(difficulty);
    let puzzle = shoal_pow::Challenge::new(&sealed, memory_kib, target);
    let puzzle = puzzle.map_err(|error| error.to_string())?;
    let solving = tokio::task::spawn_blocking(move || solve(&puzzle));
    let nonce = solving.await.map_err(|error| error.to_string())??;
    let secret = shoal_stdx::hex::encode(&secret);
    let stamp = json!({ "challenge": text, "secret": secret, "nonce": nonce });
    let body = posted(dialler, remote, &stamp).await?;
    body["ticket"].as_str().map(str::to_owned).ok_or_else(odd)
}

/// Posts to the server's desk of admission.
async fn posted(dialler: &Dialler, remote: &Remote, body: &Json) -> Result<Json, String> {
    let (status, body) =
        dialler.post(remote, "/admission", body).await.map_err(|error| error.to_string())?;
    match (status, body["error"].as_str()) {
        (200, _) => Ok(body),
        (_, Some(error)) => Err(error.to_owned()),
        (status, None) => Err(format!("the server does not sell admission: status {status}")),
    }
}

/// Searches on all cores; the least number of nonces is tried beyond the first that solves.
fn solve(puzzle: &shoal_pow::Challenge) -> Result<u64, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let next = AtomicU64::new(0);
    let found = AtomicU64::new(u64::MAX);
    let work = || {
        let mut search = Search::new(puzzle.block_count(), 1).map_err(|error| error.to_string())?;
        while found.load(Ordering::Relaxed) == u64::MAX {
            let nonce = next.fetch_add(1, Ordering::Relaxed);
            let tried = search.run(puzzle, nonce..nonce + 1, &Options::default());
            if let Some(solution) = tried.map_err(|error| error.to_string())?.solution {
                found.fetch_min(solution.nonce, Ordering::Relaxed);
            }
        }
        Ok::<(), String>(())
    };
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    match found.into_inner() {
        u64::MAX => Err(outcomes.into_iter().find_map(Result::err).unwrap_or_default()),
        nonce => Ok(nonce),
    }
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
