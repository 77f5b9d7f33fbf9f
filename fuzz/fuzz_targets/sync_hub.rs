//! A `shoal_sync::Hub` under a script: frames of any bytes, and well-formed messages of all kinds,
//! from several connections with several rights. Nobody's rights are overstepped, and with the last
//! connection everything of it is gone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::bounded;
use shoal_sync::{
    Access, Config, ConnectionId, Contents, DocumentId, Effect, Ephemeral, Event, Fault, Frame,
    Hub, Limits, Message, Metadata, Purse, Rights, Role, Stored,
};

const BUDGET: usize = 64 << 20;
const CONNECTIONS: u8 = 4;
const DOCUMENTS: u8 = 3;

fn id(byte: u8) -> DocumentId {
    DocumentId::from_bytes([byte % DOCUMENTS; 16])
}

/// The rights of a connection: everything, reading, a document that is asked about, an allowance.
fn access(byte: u8) -> Access {
    match byte % CONNECTIONS {
        0 => Access::all(),
        1 => Access { documents: [(id(0), Rights::Read)].into(), ..Access::default() },
        2 => Access { asks: true, owner: Some([2; 16]), ..Access::default() },
        _ => {
            let purse = Purse { id: [3; 16], bytes: 100, documents: 1, ms: 1_000 };
            Access { purse: Some(purse), ..Access::all() }
        }
    }
}

/// The message of a kind about a document.
fn message(kind: u8, document: DocumentId, data: &[u8]) -> Message {
    let data = data.to_vec();
    match kind % 8 {
        0 => Message::Join { metadata: Metadata::default(), speaks_version_1: true },
        1 => Message::Peer { metadata: Metadata::default() },
        2 => Message::Error { message: String::from_utf8_lossy(&data).into_owned() },
        3 => Message::Sync { document, data, is_request: true },
        4 => Message::Sync { document, data, is_request: false },
        5 => Message::Unavailable { document },
        6 => {
            let count = data.len() as u64;
            Message::Ephemeral(Ephemeral { document, count, session: "s".to_owned(), data })
        }
        _ => Message::Gossip,
    }
}

/// Carries effects out, on a disk that has nothing and refuses what it is given.
fn carry_out(hub: &mut Hub, now_ms: u64) {
    for _ in 0..16 {
        let effects = hub.take_effects();
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            let event = match effect {
                Effect::Open { document } => {
                    Event::Opened { document, contents: Ok(None::<Contents>) }
                }
                Effect::Store { document, job, chunks } => {
                    let is_taken = chunks.len() % 2 == 0;
                    let outcome =
                        if is_taken { Ok(Stored::default()) } else { Err(Fault::Changes) };
                    Event::Stored { document, job, outcome }
                }
                Effect::Save { document } => Event::Saved { document, snapshot: None },
                Effect::Ask { connection, document } => {
                    let rights = if document == id(0) { Rights::Read } else { Rights::None };
                    Event::Answered { connection, document, rights }
                }
                Effect::Send { connection, bytes } => {
                    let frame = Frame::decode(&bytes, &Limits::default());
                    let frame = frame.expect("a frame of a hub is whole");
                    if let Message::Sync { document, .. } = &frame.message {
                        let is_hidden = connection.0 % 4 == 1 && *document != id(0);
                        assert!(!is_hidden, "nothing is told of a document without rights");
                    }
                    Event::Sent { connection, bytes: bytes.len() }
                }
                Effect::Close { connection, .. } => Event::Closed { connection },
                _ => continue,
            };
            hub.handle(now_ms, event);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    bounded(BUDGET, || {
        let config = Config {
            peer_id: "server".to_owned(),
            metadata: Metadata::default(),
            limits: Limits { frame_bytes: 1 << 16, message_burst: 50, ..Limits::default() },
        };
        let mut hub = Hub::new(config);
        for byte in 0..CONNECTIONS {
            let connection = ConnectionId(byte.into());
            let (role, access) = (Role::Accepting, access(byte));
            hub.handle(0, Event::Connected { connection, role, access });
            let join = message(0, id(0), &[]);
            let frame = Frame { sender: format!("p{byte}"), target: String::new(), message: join };
            hub.handle(0, Event::Frame { connection, bytes: frame.encode() });
        }
        let mut now_ms = 0;
        let mut rest = data;
        while let [who, kind, subject, length, behind @ ..] = rest {
            let length = usize::from(*length).min(behind.len());
            let (bytes, behind) = behind.split_at(length);
            rest = behind;
            let connection = ConnectionId((who % CONNECTIONS).into());
            let event = match kind {
                0..200 => {
                    let sender = format!("p{}", who % CONNECTIONS);
                    let message = message(*kind, id(*subject), bytes);
                    let target = "server".to_owned();
                    Event::Frame { connection, bytes: Frame { sender, target, message }.encode() }
                }
                200..220 => Event::Frame { connection, bytes: bytes.to_vec() },
                220..228 => Event::Deny { document: id(*subject), is_denied: kind % 2 == 0 },
                228..232 => Event::Expel { document: id(*subject) },
                232..236 => Event::Admit { connection, access: access(*who) },
                236..240 => Event::Progress { connection, bytes: length },
                240 => Event::Refuse { connection, fault: Fault::Revoked },
                241 => Event::Closed { connection },
                _ => {
                    now_ms += u64::from(*subject) * 100;
                    Event::Tick
                }
            };
            hub.handle(now_ms, event);
            carry_out(&mut hub, now_ms);
        }
        for byte in 0..CONNECTIONS {
            hub.handle(now_ms, Event::Closed { connection: ConnectionId(byte.into()) });
        }
        carry_out(&mut hub, now_ms);
        let totals = hub.totals();
        let left = (totals.connections, totals.joined, totals.queued_bytes, totals.pending_bytes);
        assert_eq!(left, (0, 0, 0, 0), "nothing of a closed connection is left");
    });
});
