//! Two databases meet over a stream of bytes: a pipe, a socket, the two ends of one process.
//!
//! | step | dialling end | accepting end |
//! | --- | --- | --- |
//! | greeting | `shoal-sync 1`, newline | the same |
//! | offer | name, digest of heads, changes of each document | the same, and names refused |
//! | refusals | names refused | |
//! | exchange | frames of a [`shoal_sync::Hub`] about differing documents | the same |
//!
//! Behind the greeting come WebSocket frames without the handshake of HTTP: pings, closing words
//! and the bounds of a socket are those of the server. Documents are known by their names; a name
//! other than an automerge-repo id goes over the wire as a hash in the form of an id. A document
//! removed or denied at one end is left alone at the other.

mod offer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shoal::{Access as FileAccess, Database, Environment};
use shoal_sync::{Access, ConnectionId, DocumentId, Effect, Event, Limits, Rights, Role};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol;

use crate::engine::{Engine, Input};
use crate::server::Running;
use crate::socket::{self, Peer};
use crate::storage::Naming;
use crate::wire::{INCOMING_KIB, Meter, Wire};
use crate::{Error, upgrade};

pub use offer::Refusal;
use offer::{Local, Meeting};
pub(crate) use offer::{named, refused_names};

/// Each end has this time to open its database before its first frame.
const OPENING_MS: u64 = 600_000;

/// The settings of one end.
#[derive(Clone)]
pub struct PairOptions {
    /// The world of the database.
    pub environment: Environment,
    /// The database file; a missing one is created.
    pub path: PathBuf,
    /// Names, ids or `automerge:` URLs of documents; empty for all of both ends. The end that dials
    /// decides.
    pub documents: Vec<String>,
    /// Merges documents of one name that were begun apart. Refused otherwise: Automerge keeps one
    /// of two values at each place, and hides the other one. The end that dials decides.
    pub takes_unrelated: bool,
    /// The bounds of the other end.
    pub limits: Limits,
}

/// A document with differences, exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedDocument {
    /// Its name.
    pub name: String,
    /// Changes of the other end, durable here.
    pub received: u64,
    /// Changes lacking at the other end, durable there.
    pub sent: u64,
}

/// A document left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Its name.
    pub name: String,
    /// True where this end refuses it, false where the other one does.
    pub is_ours: bool,
    /// Why.
    pub why: Refusal,
}

/// The outcome of a meeting, at the dialling end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairReport {
    /// Documents made the same at both ends, by name.
    pub documents: Vec<PairedDocument>,
    /// The number of documents with equal heads before.
    pub same: usize,
    /// Documents removed or denied at one end, by name.
    pub left_alone: Vec<LeftAlone>,
    /// Conflicted copies in a folder.
    pub copies: Vec<ConflictedCopy>,
    /// Documents and files not exchanged, and why.
    pub failed: Vec<(String, String)>,
    /// Bytes read from the other end, or from files.
    pub bytes_in: u64,
    /// Bytes written there.
    pub bytes_out: u64,
}

/// A conflicted copy beside a file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictedCopy {
    /// The copy.
    pub file: PathBuf,
    /// The document.
    pub name: String,
    /// Changes that only the copy had. It holds nothing of its own afterwards.
    pub brought: u64,
}

/// Why two databases could not meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// Something else answers: a shell's complaint, a banner, another program.
    #[error("the other end is not shoal sync: it says {heard:?}")]
    Greeting {
        /// The beginning of its words.
        heard: String,
    },
    /// The stream ended.
    #[error("the other end went away {when}")]
    Gone {
        /// The step.
        when: &'static str,
    },
    /// The other end's words about its documents cannot be read.
    #[error("the other end's {what} cannot be read: {why}")]
    Unreadable {
        /// The message.
        what: &'static str,
        /// The fault.
        why: String,
    },
    /// A document asked for is nowhere.
    #[error("no document is named {name} at either end")]
    NoDocument {
        /// Its name.
        name: String,
    },
    /// The exchange ended before all documents were the same. Those told of as exchanged are
    /// durable at both ends; the next meeting goes on from there.
    #[error("the exchange ended with {left} documents to go: {why}")]
    Early {
        /// The number of documents not known to be equal.
        left: usize,
        /// Why.
        why: String,
    },
    /// Both paths are one file.
    #[error("both ends are the same file")]
    SameFile,
}

type Socket<S> = WebSocketStream<Wire<S>>;

/// Meets the other end of a stream, which [`accept`]s. Ends once every document that differed is
/// the same and durable at both ends, refused, or unreadable.
///
/// Cost: the documents that differ are in memory at both ends; the others are a line each on the
/// wire.
///
/// # Errors
/// [`Error::Pair`] where the other end is something else, goes away, or has no such document;
/// [`Error::Database`] where the database cannot be read.
pub async fn dial<S>(options: PairOptions, stream: S) -> Result<PairReport, Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (database, local) = opened(&options)?;
    let (mut socket, meter) = greeted(stream, &options, protocol::Role::Client).await?;
    let wanted: Vec<String> = options.documents.iter().map(|name| named(name)).collect();
    let meeting =
        offer::dial((&mut socket, &meter), &local, wanted, options.takes_unrelated).await?;
    let mut report = PairReport {
        same: meeting.same,
        left_alone: meeting.left_alone.clone(),
        ..PairReport::default()
    };
    let outcome = if meeting.differing.is_empty() {
        socket::close(&mut socket, 1000, String::new()).await;
        Ok(())
    } else {
        let (tell, news) = mpsc::unbounded_channel();
        let tell = Box::new(move |effect| {
            let _ = tell.send(effect);
        });
        let running = started(database, &options, &meeting, tell)?;
        let peer = Peer {
            connection: ConnectionId(1),
            role: Role::Dialing,
            access: Access::all(),
            refusal: None,
        };
        let engine = running.engine.clone();
        for document in meeting.differing.keys().cloned() {
            let _ = engine.send(Input::Event(Event::Follow { document })).await;
        }
        let exchange = socket::run(engine.clone(), peer, socket, Arc::clone(&meter), || ());
        let exchange = tokio::spawn(exchange);
        let outcome = followed(&engine, &meeting, exchange, news, &mut report).await;
        running.stop().await;
        outcome
    };
    report.bytes_in = meter.read.load(Ordering::Relaxed);
    report.bytes_out = meter.written.load(Ordering::Relaxed);
    report.documents.sort_by(|one, other| one.name.cmp(&other.name));
    report.failed.sort();
    outcome.map(|()| report)
}

/// Meets the other end of a stream, which [`dial`]s. Ends once the other end is through.
///
/// # Errors
/// As [`dial`].
pub async fn accept<S>(options: PairOptions, stream: S) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (database, local) = opened(&options)?;
    let (mut socket, meter) = greeted(stream, &options, protocol::Role::Server).await?;
    let meeting = offer::accept((&mut socket, &meter), &local).await?;
    if meeting.differing.is_empty() {
        return offer::closed((&mut socket, &meter)).await;
    }
    let running = started(database, &options, &meeting, Box::new(|_| ()))?;
    let documents = meeting.differing.keys().map(|id| (id.clone(), Rights::Write)).collect();
    let peer = Peer {
        connection: ConnectionId(1),
        role: Role::Accepting,
        access: Access { documents, ..Access::default() },
        refusal: None,
    };
    let is_closed = socket::run(running.engine.clone(), peer, socket, meter, || ()).await;
    running.stop().await;
    if is_closed { Ok(()) } else { Err(PairError::Gone { when: "during the exchange" }.into()) }
}

/// Lets two files of this machine meet, both ends in this process.
///
/// # Errors
/// [`PairError::SameFile`]; as [`dial`].
pub async fn files(options: PairOptions, other: PathBuf) -> Result<PairReport, Error> {
    /// Bytes between the ends.
    const PIPE: usize = 256 << 10;
    let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
    if real(&options.path).is_some_and(|path| real(&other) == Some(path)) {
        return Err(PairError::SameFile.into());
    }
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let accepting = PairOptions { path: other, ..options.clone() };
    let accepting = tokio::spawn(accept(accepting, theirs));
    let dialled = dial(options, ours).await;
    let accepted = accepting.await.map_err(std::io::Error::other)?;
    match (dialled, accepted) {
        // The end without its database is the reason for the other's complaint.
        (Err(Error::Pair(_)), Err(error @ Error::Database(_))) => Err(error),
        (dialled, _) => dialled,
    }
}

/// Opens a database, and looks at its documents.
fn opened(options: &PairOptions) -> Result<(Database, Local), Error> {
    let environment = options.environment.clone();
    let mut database = Database::open(environment, &options.path, FileAccess::Create)?;
    let local = Local::of(&mut database)?;
    Ok((database, local))
}

/// Says who is here, and makes a socket of the stream.
async fn greeted<S>(
    mut stream: S,
    options: &PairOptions,
    role: protocol::Role,
) -> Result<(Socket<S>, Arc<Meter>), Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    offer::greet(&mut stream).await?;
    let meter = Arc::new(Meter::default());
    // An offer is longer than a join.
    meter.has_joined.store(true, Ordering::Relaxed);
    let room = Arc::new(Semaphore::new(INCOMING_KIB));
    let longest = options.limits.frame_bytes;
    let wire = Wire::new(stream, Arc::clone(&meter), longest, room);
    let config = Some(upgrade::config(longest));
    Ok((WebSocketStream::from_raw_socket(wire, role, config).await, meter))
}

/// Starts the threads of an end, for the differing documents.
fn started(
    database: Database,
    options: &PairOptions,
    meeting: &Meeting,
    news: crate::engine::News,
) -> Result<Running, Error> {
    let count = meeting.differing.len();
    let limits = Limits {
        documents: count,
        documents_per_peer: count,
        join_ms: OPENING_MS,
        // Every document is a few messages, and nobody else waits.
        message_burst: u64::from(u32::MAX),
        ..options.limits
    };
    let names = meeting.differing.iter().map(|(id, it)| (id.clone(), it.name.clone())).collect();
    let naming = Naming { names, needs_kin: !meeting.takes_unrelated };
    Running::over(database, (&options.environment, &options.path), (limits, naming), news)
}

/// Waits until the ends agree about every document.
async fn followed(
    engine: &Engine,
    meeting: &Meeting,
    mut exchange: JoinHandle<bool>,
    mut news: mpsc::UnboundedReceiver<Effect>,
    report: &mut PairReport,
) -> Result<(), Error> {
    let mut waited_for = meeting.differing.clone();
    let mut said = None;
    let mut is_over = false;
    let name = |id: &DocumentId| meeting.differing[id].name.clone();
    while !waited_for.is_empty() {
        let effect = if is_over {
            news.try_recv().ok()
        } else {
            tokio::select! {
                effect = news.recv() => effect,
                _ = &mut exchange => {
                    // News from before the end are told of first.
                    is_over = true;
                    let _ = engine.ask(|_| ()).await;
                    continue;
                }
            }
        };
        match effect {
            Some(Effect::InSync { document, .. }) => {
                if let Some(before) = waited_for.remove(&document) {
                    let now = changes_of(engine, &document).await;
                    report.documents.push(PairedDocument {
                        name: before.name,
                        received: now.saturating_sub(before.ours),
                        sent: now.saturating_sub(before.theirs),
                    });
                }
            }
            Some(Effect::Refused { document, fault, .. }) => {
                if waited_for.remove(&document).is_some() {
                    report.failed.push((name(&document), fault.to_string()));
                }
            }
            Some(Effect::Unavailable { document }) => {
                if waited_for.remove(&document).is_some() {
                    let why = "the other end cannot read it, or removed it meanwhile";
                    report.failed.push((name(&document), why.to_owned()));
                }
            }
            Some(Effect::Told { message, .. }) => match about(&message) {
                Some((document, why)) => {
                    if waited_for.remove(&document).is_some() {
                        report.failed.push((name(&document), why.to_owned()));
                    }
                }
                None => said = Some(message),
            },
            Some(_) => {}
            None => {
                let why = said.unwrap_or_else(|| "the other end went away".to_owned());
                return Err(PairError::Early { left: waited_for.len(), why }.into());
            }
        }
    }
    Ok(())
}

/// The document in a hub's words, and the words about the document.
fn about(message: &str) -> Option<(DocumentId, &str)> {
    let (id, why) = message.strip_prefix("document ")?.split_once(": ")?;
    Some((DocumentId::parse(id).ok()?, why))
}

/// The number of durable changes of a document.
async fn changes_of(engine: &Engine, id: &DocumentId) -> u64 {
    let id = id.clone();
    let asked = engine.ask(move |hub| hub.changes_of(&id)).await;
    asked.map_or(0, |count| count as u64)
}

/// The differing documents, by their ids on the wire.
type Differing = BTreeMap<DocumentId, offer::Differs>;
