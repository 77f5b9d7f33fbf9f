//! The beginning of a meeting: greetings, the documents of each end, refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shoal::{Database, StoredDocument};
use shoal_sync::DocumentId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{self, Message};

use super::{Differing, LeftAlone, PairError, Socket};
use crate::Error;
use crate::wire::Meter;

const GREETING: &[u8] = b"shoal-sync 1\n";
/// Bytes shown of a wrong greeting, and the wait for them.
const HEARD_BYTES: usize = 200;
const HEARD: Duration = Duration::from_millis(300);
/// The longest silence behind the greeting.
const SILENCE: Duration = Duration::from_secs(30);
/// The longest name, in bytes.
const NAME_BYTES: usize = 4 << 10;
/// The domain of hashed names.
const NAME_DOMAIN: &[u8] = b"shoal-sync name\0";

/// Why an end does not take a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Refusal {
    /// The document was removed there.
    Removed,
    /// Its name is on the list of denied ones.
    Denied,
}

/// A document of an end: the digest of its heads, and its changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Offered(String, u64);

type Documents = BTreeMap<String, Offered>;

/// The first message of the dialling end.
#[derive(Serialize, Deserialize)]
struct Offer {
    documents: Documents,
    /// The names to exchange; empty for all.
    wanted: Vec<String>,
    /// Documents begun apart are merged.
    takes_unrelated: bool,
}

/// The answer.
#[derive(Serialize, Deserialize)]
struct Answer {
    documents: Documents,
    refused: BTreeMap<String, Refusal>,
}

/// The last message before the exchange.
#[derive(Serialize, Deserialize)]
struct Refusals {
    refused: BTreeMap<String, Refusal>,
}

/// The documents of this end.
pub(super) struct Local {
    documents: Documents,
    refused: BTreeMap<String, Refusal>,
}

/// A differing document: its name, and the number of changes at either end before.
#[derive(Clone, Debug)]
pub(super) struct Differs {
    pub(super) name: String,
    pub(super) ours: u64,
    pub(super) theirs: u64,
}

/// The subjects of the exchange.
pub(super) struct Meeting {
    pub(super) differing: Differing,
    pub(super) same: usize,
    pub(super) left_alone: Vec<LeftAlone>,
    pub(super) takes_unrelated: bool,
}

impl Local {
    /// Lists the documents of a database, and the refused names.
    pub(super) fn of(database: &mut Database) -> Result<Self, Error> {
        let stored = database.documents()?;
        let refused = refused_names(database, &stored)?;
        let mut documents = Documents::new();
        for document in stored {
            if refused.contains_key(&document.name) {
                continue;
            }
            if document.heads.is_empty() || !is_name(&document.name) {
                continue;
            }
            let mut digest = Sha256::new();
            document.heads.iter().for_each(|head| digest.update(head.0));
            let digest: [u8; 32] = digest.finalize().into();
            let digest = shoal_stdx::hex::encode(&digest[..16]);
            documents.insert(document.name, Offered(digest, document.changes));
        }
        Ok(Self { documents, refused })
    }

    /// The refusals of what the other end has, its secrets apart: names that it did not say are not
    /// told.
    fn refusals(&self, theirs: &Documents) -> BTreeMap<String, Refusal> {
        let refused =
            theirs.keys().filter_map(|name| Some((name.clone(), *self.refused.get(name)?)));
        refused.collect()
    }
}

/// The names refused by a database with these documents.
pub(crate) fn refused_names(
    database: &mut Database,
    stored: &[StoredDocument],
) -> Result<BTreeMap<String, Refusal>, Error> {
    let removed = database.removed()?.into_iter().map(|it| (it.name, Refusal::Removed));
    let mut refused: BTreeMap<String, Refusal> = removed.collect();
    for document in stored {
        // A name in use again is no longer a removed one's.
        refused.remove(&document.name);
    }
    refused.extend(database.denied()?.into_iter().map(|name| (name, Refusal::Denied)));
    Ok(refused)
}

/// A document as a user names it: an `automerge:` URL stands for its id.
pub(crate) fn named(name: &str) -> String {
    match DocumentId::parse(name) {
        Ok(id) if name.starts_with("automerge:") => id.to_string(),
        _ => name.to_owned(),
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len())
}

/// The id of a name on the wire: the name where the name is an id, otherwise a hash.
fn wire_id(name: &str) -> DocumentId {
    if let Ok(id) = DocumentId::parse(name)
        && id.as_str() == name
    {
        return id;
    }
    let digest = Sha256::new().chain_update(NAME_DOMAIN).chain_update(name).finalize();
    DocumentId::from_bytes(std::array::from_fn(|at| digest[at]))
}

impl Meeting {
    /// Compares the ends.
    fn of(
        ours: &Documents,
        theirs: &Documents,
        wanted: &[String],
        (refused_here, refused_there): (&BTreeMap<String, Refusal>, &BTreeMap<String, Refusal>),
    ) -> Result<Self, PairError> {
        let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
        let mut meeting = Self {
            differing: Differing::new(),
            same: 0,
            left_alone: Vec::new(),
            takes_unrelated: false,
        };
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            if !wanted.is_empty() && !wanted.contains(name.as_str()) {
                continue;
            }
            let [our, their] = [ours, theirs].map(|documents| documents.get(name));
            let here = refused_here.get(name).map(|why| (true, *why));
            let there = refused_there.get(name).map(|why| (false, *why));
            if let Some((is_ours, why)) = here.or(there) {
                meeting.left_alone.push(LeftAlone { name: name.clone(), is_ours, why });
                continue;
            }
            if our.is_some() && our.map(|it| &it.0) == their.map(|it| &it.0) {
                meeting.same += 1;
                continue;
            }
            let [ours, theirs] = [our, their].map(|it| it.map_or(0, |it| it.1));
            let differs = Differs { name: name.clone(), ours, theirs };
            if let Some(other) = meeting.differing.insert(wire_id(name), differs) {
                let why = format!("{name} and {} have one id", other.name);
                return Err(PairError::Unreadable { what: "offer", why });
            }
        }
        Ok(meeting)
    }
}

/// Says the greeting, and hears the other end's.
pub(super) async fn greet<S>(stream: &mut S) -> Result<(), PairError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let gone = PairError::Gone { when: "before its greeting" };
    let said = async {
        stream.write_all(GREETING).await?;
        stream.flush().await
    };
    // Another program at the other end may have closed its stdin; its words say more.
    let _ = said.await;
    let mut heard = Vec::new();
    while heard.len() < GREETING.len() {
        match stream.read_u8().await {
            Ok(byte) => heard.push(byte),
            Err(_) if heard.is_empty() => return Err(gone),
            Err(_) => break,
        }
        if !GREETING.starts_with(&heard) {
            break;
        }
    }
    if heard == GREETING {
        return Ok(());
    }
    let rest = async {
        while heard.len() < HEARD_BYTES
            && let Ok(byte) = stream.read_u8().await
        {
            heard.push(byte);
        }
    };
    let _ = timeout(HEARD, rest).await;
    let heard = String::from_utf8_lossy(&heard).trim_end().to_owned();
    Err(PairError::Greeting { heard })
}

/// The beginning at the dialling end.
pub(super) async fn dial<S>(
    (socket, meter): (&mut Socket<S>, &Meter),
    local: &Local,
    wanted: Vec<String>,
    takes_unrelated: bool,
) -> Result<Meeting, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let offer = Offer { documents: local.documents.clone(), wanted, takes_unrelated };
    send(socket, &offer).await?;
    let answer: Answer = receive((socket, meter), "offer").await?;
    check(&answer.documents)?;
    let refused = local.refusals(&answer.documents);
    let meeting = Meeting::of(
        &local.documents,
        &answer.documents,
        &offer.wanted,
        (&refused, &answer.refused),
    )?;
    for name in offer.wanted {
        let is_somewhere =
            local.documents.contains_key(&name) || answer.documents.contains_key(&name);
        if !is_somewhere {
            return Err(PairError::NoDocument { name }.into());
        }
    }
    send(socket, &Refusals { refused }).await?;
    Ok(Meeting { takes_unrelated, ..meeting })
}

/// The beginning at the other end.
pub(super) async fn accept<S>(
    (socket, meter): (&mut Socket<S>, &Meter),
    local: &Local,
) -> Result<Meeting, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let offer: Offer = receive((socket, meter), "offer").await?;
    check(&offer.documents)?;
    let refused = local.refusals(&offer.documents);
    let answer = Answer { documents: local.documents.clone(), refused };
    send(socket, &answer).await?;
    let refusals: Refusals = receive((socket, meter), "refusals").await?;
    let (ours, theirs) = (&answer.documents, &offer.documents);
    let refused = (&answer.refused, &refusals.refused);
    let meeting = Meeting::of(ours, theirs, &offer.wanted, refused)?;
    Ok(Meeting { takes_unrelated: offer.takes_unrelated, ..meeting })
}

/// The next message; an end silent for a while is gone.
async fn next<S>(
    socket: &mut Socket<S>,
    meter: &Meter,
) -> Option<Result<Message, tungstenite::Error>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let before = meter.read.load(Ordering::Relaxed);
        match timeout(SILENCE, socket.next()).await {
            Ok(message) => return message,
            // A long offer comes slowly.
            Err(_) if meter.read.load(Ordering::Relaxed) > before => {}
            Err(_) => return None,
        }
    }
}

/// Waits until the other end closes.
pub(super) async fn closed<S>((socket, meter): (&mut Socket<S>, &Meter)) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match next(socket, meter).await {
            Some(Ok(Message::Close(_))) => return Ok(()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Err(PairError::Gone { when: "at the end" }.into()),
        }
    }
}

fn check(documents: &Documents) -> Result<(), PairError> {
    match documents.keys().find(|name| !is_name(name)) {
        Some(_) => {
            let why = format!("a name is empty, or longer than {NAME_BYTES} bytes");
            Err(PairError::Unreadable { what: "offer", why })
        }
        None => Ok(()),
    }
}

async fn send<S, T>(socket: &mut Socket<S>, message: &T) -> Result<(), PairError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: Serialize,
{
    let bytes = serde_json::to_vec(message).expect("names, digests and numbers are JSON");
    let sent = socket.send(Message::Binary(bytes.into())).await;
    sent.map_err(|_| PairError::Gone { when: "while documents were compared" })
}

async fn receive<S, T>(
    (socket, meter): (&mut Socket<S>, &Meter),
    what: &'static str,
) -> Result<T, PairError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: DeserializeOwned,
{
    let unreadable = |why: String| PairError::Unreadable { what, why };
    loop {
        match next(socket, meter).await {
            Some(Ok(Message::Binary(bytes))) => {
                let read = serde_json::from_slice(&bytes);
                return read.map_err(|error| unreadable(error.to_string()));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(
                Ok(Message::Close(_))
                | Err(
                    tungstenite::Error::Io(_)
                    | tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ),
            )
            | None => {
                return Err(PairError::Gone { when: "while documents were compared" });
            }
            Some(Ok(_)) => return Err(unreadable("a text".to_owned())),
            Some(Err(error)) => return Err(unreadable(error.to_string())),
        }
    }
}
