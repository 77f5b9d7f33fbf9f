//! The messages of automerge-repo's network protocol, version 1.

use std::borrow::Cow;

use crate::cbor::{Reader, Writer};
use crate::{DocumentId, Fault, Limits};

/// The one version of the protocol.
const VERSION: &str = "1";
/// More versions in a join are not looked at.
const MAX_VERSIONS: usize = 16;

/// A peer's word about its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The id of its storage, for a peer with one.
    pub storage_id: Option<String>,
    /// True for storage as short-lived as the peer.
    pub is_ephemeral: bool,
}

/// A message handed on and never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ephemeral {
    /// The subject.
    pub document: DocumentId,
    /// Grows with every message of a session.
    pub count: u64,
    /// The process of the sender.
    pub session: String,
    /// CBOR of any value.
    pub data: Vec<u8>,
}

/// A message, without its sender and target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message, of the dialling end.
    Join {
        /// The sender's storage.
        metadata: Metadata,
        /// False when its versions leave out the only one.
        speaks_version_1: bool,
    },
    /// The answer to a join.
    Peer {
        /// The sender's storage.
        metadata: Metadata,
    },
    /// Words for developers.
    Error {
        /// The words.
        message: String,
    },
    /// A sync message.
    Sync {
        /// The document.
        document: DocumentId,
        /// Bytes of a [`shoal_history::SyncMessage`].
        data: Vec<u8>,
        /// True for `request`: the sender has nothing of the document, and asks.
        is_request: bool,
    },
    /// The sender does not have a document.
    Unavailable {
        /// The document.
        document: DocumentId,
    },
    /// A message handed on and never stored.
    Ephemeral(Ephemeral),
    /// Gossip of others' heads: subscriptions and news. Not looked at.
    Gossip,
}

/// A message with its sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The id of the sender.
    pub sender: String,
    /// The id of the receiver; empty in a join.
    pub target: String,
    /// The message.
    pub message: Message,
}

/// The members of a message as they come.
#[derive(Default)]
struct Members<'a> {
    kind: Option<Cow<'a, str>>,
    sender: Option<Cow<'a, str>>,
    target: Option<Cow<'a, str>>,
    document: Option<DocumentId>,
    data: Option<Cow<'a, [u8]>>,
    count: Option<u64>,
    session: Option<Cow<'a, str>>,
    message: Option<Cow<'a, str>>,
    metadata: Option<Metadata>,
    speaks_version_1: Option<bool>,
}

/// Puts a member where none of its name was.
fn once<T>(place: &mut Option<T>, name: &'static str, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::Twice(name)),
    }
}

impl Frame {
    /// Reads a frame. Memory: the frame's data once.
    ///
    /// # Errors
    /// [`Fault`] with the place or the member at fault.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, Fault> {
        if bytes.len() > limits.frame_bytes {
            return Err(Fault::TooLarge { what: "bytes of a frame", max: limits.frame_bytes });
        }
        let members = Members::read(&mut Reader::new(bytes), limits)?;
        let kind = members.kind.as_deref().ok_or(Fault::Missing("type"))?;
        let sender = members.sender.as_deref().ok_or(Fault::Missing("senderId"))?;
        let ids = [sender, members.target.as_deref().unwrap_or("-")];
        if ids.iter().any(|id| id.is_empty() || id.len() > limits.id_bytes) {
            return Err(Fault::PeerId(limits.id_bytes));
        }
        let sender = sender.to_owned();
        let target = members.target.as_deref().unwrap_or_default().to_owned();
        let document = members.document.clone().ok_or(Fault::Missing("documentId"));
        let data = |data: Option<Cow<'_, [u8]>>| match data {
            Some(data) if !data.is_empty() => Ok(data.into_owned()),
            _ => Err(Fault::Missing("data")),
        };
        let message = match kind {
            "join" => Message::Join {
                metadata: members.metadata.unwrap_or_default(),
                speaks_version_1: members.speaks_version_1.unwrap_or(true),
            },
            "peer" => Message::Peer { metadata: members.metadata.unwrap_or_default() },
            "error" => Message::Error {
                message: members.message.as_deref().unwrap_or_default().to_owned(),
            },
            "sync" | "request" => Message::Sync {
                document: document?,
                is_request: kind == "request",
                data: data(members.data)?,
            },
            "doc-unavailable" => Message::Unavailable { document: document? },
            "ephemeral" => {
                let session = members.session.as_deref().ok_or(Fault::Missing("sessionId"))?;
                if session.len() > limits.id_bytes {
                    return Err(Fault::PeerId(limits.id_bytes));
                }
                let session = session.to_owned();
                let data = data(members.data)?;
                if data.len() > limits.ephemeral_bytes {
                    let max = limits.ephemeral_bytes;
                    return Err(Fault::TooLarge { what: "bytes of an ephemeral message", max });
                }
                let count = members.count.ok_or(Fault::Missing("count"))?;
                Message::Ephemeral(Ephemeral { document: document?, count, session, data })
            }
            "remote-subscription-change" | "remote-heads-changed" | "leave" => Message::Gossip,
            _ => return Err(Fault::UnknownType),
        };
        Ok(Self { sender, target, message })
    }

    /// The bytes of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let data_bytes = match &self.message {
            Message::Sync { data, .. } => data.len(),
            Message::Ephemeral(ephemeral) => ephemeral.data.len(),
            _ => 0,
        };
        let mut out = Writer::with_capacity(data_bytes + 192);
        let (kind, members) = match &self.message {
            Message::Join { .. } => ("join", 4),
            Message::Peer { .. } => ("peer", 5),
            Message::Error { .. } => ("error", 4),
            Message::Sync { is_request: true, .. } => ("request", 5),
            Message::Sync { is_request: false, .. } => ("sync", 5),
            Message::Unavailable { .. } => ("doc-unavailable", 4),
            Message::Ephemeral(_) => ("ephemeral", 7),
            Message::Gossip => ("leave", 3),
        };
        out.map(members);
        let mut text = |name: &str, value: &str| {
            out.text(name);
            out.text(value);
        };
        text("type", kind);
        text("senderId", &self.sender);
        if !matches!(self.message, Message::Join { .. }) {
            text("targetId", &self.target);
        }
        match &self.message {
            Message::Join { metadata, .. } => {
                metadata.write(&mut out);
                out.text("supportedProtocolVersions");
                out.array(1);
                out.text(VERSION);
            }
            Message::Peer { metadata } => {
                metadata.write(&mut out);
                out.text("selectedProtocolVersion");
                out.text(VERSION);
            }
            Message::Error { message } => {
                out.text("message");
                out.text(message);
            }
            Message::Sync { document, data, .. } => {
                out.text("documentId");
                out.text(document.as_str());
                out.text("data");
                out.byte_string(data);
            }
            Message::Unavailable { document } => {
                out.text("documentId");
                out.text(document.as_str());
            }
            Message::Ephemeral(ephemeral) => {
                out.text("count");
                out.number(ephemeral.count);
                out.text("sessionId");
                out.text(&ephemeral.session);
                out.text("documentId");
                out.text(ephemeral.document.as_str());
                out.text("data");
                out.byte_string(&ephemeral.data);
            }
            Message::Gossip => {}
        }
        out.into_bytes()
    }
}

impl<'a> Members<'a> {
    fn read(reader: &mut Reader<'a>, limits: &Limits) -> Result<Self, Fault> {
        let mut members = Self::default();
        let mut items = reader.map()?;
        while reader.has_next(&mut items) {
            let name = reader.text()?;
            match name.as_ref() {
                "type" => once(&mut members.kind, "type", reader.text()?)?,
                "senderId" => once(&mut members.sender, "senderId", reader.text()?)?,
                "targetId" => once(&mut members.target, "targetId", reader.text()?)?,
                "documentId" => {
                    once(&mut members.document, "documentId", document_id(reader)?)?;
                }
                "data" => once(&mut members.data, "data", reader.bytes()?)?,
                "count" => once(&mut members.count, "count", reader.number()?)?,
                "sessionId" => once(&mut members.session, "sessionId", reader.text()?)?,
                "message" => once(&mut members.message, "message", reader.text()?)?,
                "peerMetadata" | "metadata" => {
                    if let Some(metadata) = Metadata::read(reader, limits)? {
                        once(&mut members.metadata, "peerMetadata", metadata)?;
                    }
                }
                "supportedProtocolVersions" => {
                    if let Some(speaks) = versions(reader)? {
                        once(&mut members.speaks_version_1, "supportedProtocolVersions", speaks)?;
                    }
                }
                _ => reader.skip()?,
            }
        }
        match reader.is_at_end() {
            true => Ok(members),
            false => Err(Fault::Missing("an end: bytes follow the message")),
        }
    }
}

/// A document id: text, or the bytes themselves.
fn document_id(reader: &mut Reader<'_>) -> Result<DocumentId, Fault> {
    if reader.is_bytes() {
        let bytes = reader.bytes()?;
        let bytes = <[u8; 16]>::try_from(bytes.as_ref()).map_err(|_| Fault::DocumentId)?;
        return Ok(DocumentId::from_bytes(bytes));
    }
    DocumentId::parse(&reader.text()?)
}

/// True when the list has the only version.
fn versions(reader: &mut Reader<'_>) -> Result<Option<bool>, Fault> {
    let Some(mut items) = reader.array()? else { return Ok(None) };
    let (mut speaks, mut count) = (false, 0);
    while reader.has_next(&mut items) {
        count += 1;
        if count > MAX_VERSIONS {
            return Err(Fault::TooMany("protocol versions"));
        }
        speaks |= reader.text()? == VERSION;
    }
    Ok(Some(speaks))
}

impl Metadata {
    fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<Option<Self>, Fault> {
        if reader.nothing() {
            return Ok(None);
        }
        let mut metadata = Self::default();
        let mut items = reader.map()?;
        while reader.has_next(&mut items) {
            match reader.text()?.as_ref() {
                "storageId" if reader.nothing() => {}
                "storageId" => {
                    let id = reader.text()?;
                    if id.len() > limits.id_bytes {
                        return Err(Fault::PeerId(limits.id_bytes));
                    }
                    metadata.storage_id = Some(id.into_owned());
                }
                "isEphemeral" => metadata.is_ephemeral = reader.truth()?,
                _ => reader.skip()?,
            }
        }
        Ok(Some(metadata))
    }

    fn write(&self, out: &mut Writer) {
        out.text("peerMetadata");
        out.map(1 + u64::from(self.storage_id.is_some()));
        if let Some(id) = &self.storage_id {
            out.text("storageId");
            out.text(id);
        }
        out.text("isEphemeral");
        out.truth(self.is_ephemeral);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> Vec<Frame> {
        let document = DocumentId::from_bytes([3; 16]);
        let metadata = Metadata { storage_id: Some("s".to_owned()), is_ephemeral: false };
        let data = vec![1, 2, 3];
        [
            Message::Join { metadata: metadata.clone(), speaks_version_1: true },
            Message::Peer { metadata },
            Message::Error { message: "no".to_owned() },
            Message::Sync { document: document.clone(), data: data.clone(), is_request: true },
            Message::Sync { document: document.clone(), data: data.clone(), is_request: false },
            Message::Unavailable { document: document.clone() },
            Message::Ephemeral(Ephemeral { document, count: 1 << 40, session: "x".into(), data }),
        ]
        .into_iter()
        .map(|message| {
            let is_join = matches!(message, Message::Join { .. });
            let target = if is_join { String::new() } else { "you".to_owned() };
            Frame { sender: "me".to_owned(), target, message }
        })
        .collect()
    }

    #[test]
    fn written_frames_are_read() {
        for frame in frames() {
            assert_eq!(Frame::decode(&frame.encode(), &Limits::default()).unwrap(), frame);
        }
    }

    /// A join as a JavaScript client without storage writes it.
    #[test]
    fn a_join_of_a_javascript_client() {
        let mut bytes = vec![0xb9, 0, 4];
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend_from_slice(&[0x78, u8::try_from(text.len()).unwrap()]);
            bytes.extend_from_slice(text.as_bytes());
        };
        for word in ["type", "join", "senderId", "peer-1"] {
            text(&mut bytes, word);
        }
        text(&mut bytes, "peerMetadata");
        bytes.extend_from_slice(&[0xb9, 0, 2]);
        text(&mut bytes, "storageId");
        bytes.push(0xf7);
        text(&mut bytes, "isEphemeral");
        bytes.push(0xf5);
        text(&mut bytes, "supportedProtocolVersions");
        bytes.push(0x81);
        text(&mut bytes, "1");
        let metadata = Metadata { storage_id: None, is_ephemeral: true };
        let frame = Frame::decode(&bytes, &Limits::default()).unwrap();
        assert_eq!(frame.message, Message::Join { metadata, speaks_version_1: true });
        bytes.pop();
        bytes.push(b'2');
        let frame = Frame::decode(&bytes, &Limits::default()).unwrap();
        assert!(matches!(frame.message, Message::Join { speaks_version_1: false, .. }));
    }

    /// Every value that is no map, and names that end the reference server.
    #[test]
    fn hostile_frames() {
        let limits = Limits::default();
        for bytes in [&[][..], &[0xf6], &[0xf7], &[0x01], &[0x61, b'1'], &[0xf5], &[0xfb], &[0x80]]
        {
            assert!(Frame::decode(bytes, &limits).is_err());
        }
        let mut proto = Writer::default();
        proto.map(1);
        proto.text("__proto__");
        proto.map(0);
        let decoded = Frame::decode(&proto.into_bytes(), &limits);
        assert_eq!(decoded, Err(Fault::Missing("type")));
        let long =
            Frame { sender: "x".repeat(300), target: String::new(), message: Message::Gossip };
        assert_eq!(Frame::decode(&long.encode(), &limits), Err(Fault::PeerId(256)));
        let small = Limits { frame_bytes: 10, ..limits };
        let frame = frames().remove(0).encode();
        let what = "bytes of a frame";
        assert_eq!(Frame::decode(&frame, &small), Err(Fault::TooLarge { what, max: 10 }));
    }

    proptest! {
        #[test]
        fn any_damage(at in 0..7_usize, place in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = frames()[at].encode();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = Frame::decode(&bytes, &Limits::default());
            let _ = Frame::decode(&bytes[..place], &Limits::default());
        }
    }
}
