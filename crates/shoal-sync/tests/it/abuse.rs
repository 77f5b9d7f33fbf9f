//! A hub under abuse: each fault has its word, and nobody else is touched.

use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SyncState};
use shoal_history::{ChangeHash, SyncMessage};
use shoal_sync::{
    Access, Config, ConnectionId, DocumentId, Effect, Ephemeral, Event, Fault, Frame, Hub, Limits,
    Message, Metadata, Rights, Role, Stored,
};

use crate::disk::Disk;

pub(crate) struct Server {
    pub(crate) hub: Hub,
    pub(crate) disk: Disk,
    pub(crate) now_ms: u64,
    pub(crate) sent: Vec<(ConnectionId, Frame)>,
    pub(crate) closed: Vec<(ConnectionId, Fault)>,
}

impl Server {
    pub(crate) fn new(limits: Limits) -> Self {
        let metadata = Metadata { storage_id: Some("s".into()), is_ephemeral: false };
        let hub = Hub::new(Config { peer_id: "server".into(), metadata, limits });
        Self { hub, disk: Disk::default(), now_ms: 0, sent: Vec::new(), closed: Vec::new() }
    }

    pub(crate) fn run(&mut self, event: Event) {
        self.hub.handle(self.now_ms, event);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            for effect in self.hub.take_effects() {
                match self.disk.take(effect) {
                    Some(Effect::Send { connection, bytes }) => {
                        let frame = Frame::decode(&bytes, &Limits::default())
                            .expect("a frame of a hub is whole");
                        self.sent.push((connection, frame));
                    }
                    Some(Effect::Close { connection, fault }) => {
                        self.closed.push((connection, fault));
                    }
                    _ => {}
                }
            }
            if !self.disk.has_work() {
                return;
            }
            for event in self.disk.work() {
                self.hub.handle(self.now_ms, event);
            }
        }
    }

    pub(crate) fn connect(&mut self, number: u64, access: Access) -> ConnectionId {
        let connection = ConnectionId(number);
        self.run(Event::Connected { connection, role: Role::Accepting, access });
        connection
    }

    pub(crate) fn join(&mut self, number: u64, name: &str) -> ConnectionId {
        self.join_with(number, name, Access::all())
    }

    pub(crate) fn join_with(&mut self, number: u64, name: &str, access: Access) -> ConnectionId {
        let connection = self.connect(number, access);
        self.send(
            connection,
            name,
            Message::Join { metadata: Metadata::default(), speaks_version_1: true },
        );
        connection
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, sender: &str, message: Message) {
        self.hear(connection, sender, message);
        self.settle();
    }

    /// Takes a message in, and leaves the disk alone.
    fn hear(&mut self, connection: ConnectionId, sender: &str, message: Message) {
        let frame = Frame { sender: sender.into(), target: "server".into(), message };
        self.hub.handle(self.now_ms, Event::Frame { connection, bytes: frame.encode() });
    }

    pub(crate) fn faults(&self, word: &str) -> u64 {
        self.hub.counters().faults.get(word).copied().unwrap_or(0)
    }

    /// Everything sent to a connection since the last call.
    pub(crate) fn take(&mut self, connection: ConnectionId) -> Vec<Message> {
        let (to, others) =
            std::mem::take(&mut self.sent).into_iter().partition(|(to, _)| *to == connection);
        self.sent = others;
        let to: Vec<(ConnectionId, Frame)> = to;
        to.into_iter().map(|(_, frame)| frame.message).collect()
    }
}

pub(crate) fn id(byte: u8) -> DocumentId {
    DocumentId::from_bytes([byte; 16])
}

pub(crate) fn note(actor: u8) -> Document {
    let mut document = Document::new(ActorId::new(&[actor]));
    let mut transaction = document.transaction();
    transaction.put(&ROOT, "by", i64::from(actor)).expect("a put at the root");
    transaction.commit(CommitOptions::default());
    document
}

/// Exchanges messages of a document with the server until neither has more to say.
pub(crate) fn exchange(
    server: &mut Server,
    connection: ConnectionId,
    name: &str,
    document: &mut Document,
    state: &mut SyncState,
) {
    for _ in 0..20 {
        let Some(message) = document.generate_sync_message(state) else { break };
        let data = message.encode();
        server.send(connection, name, Message::Sync { document: id(1), data, is_request: false });
        for message in server.take(connection) {
            let Message::Sync { data, .. } = message else { continue };
            let message =
                shoal_history::SyncMessage::decode(&data).expect("a message of a hub is whole");
            document.receive_sync_message(state, message).expect("a document takes a message");
        }
    }
}

#[test]
fn a_document_goes_from_one_to_another() {
    let mut server = Server::new(Limits::default());
    let (one, two) = (server.join(1, "one"), server.join(2, "two"));
    let (mut first, mut second) = (note(1), Document::new(ActorId::new(&[2])));
    let (mut to_one, mut to_two) = (SyncState::new(), SyncState::new());
    exchange(&mut server, one, "one", &mut first, &mut to_one);
    exchange(&mut server, two, "two", &mut second, &mut to_two);
    assert_eq!(first.heads(), second.heads());
    assert_eq!(server.hub.counters().stored, 1);
    assert!(server.hub.counters().faults.is_empty());
}

#[test]
fn changes_are_acknowledged_though_their_author_speaks_before_they_are_stored() {
    let mut server = Server::new(Limits::default());
    let connection = server.join(1, "one");
    let (mut document, mut state) = (note(1), SyncState::new());
    let about = |message: &SyncMessage| Message::Sync {
        document: id(1),
        data: message.encode(),
        is_request: false,
    };
    let greeting = document.generate_sync_message(&mut state).expect("a first message");
    server.send(connection, "one", about(&greeting));
    for message in server.take(connection) {
        let Message::Sync { data, .. } = message else { continue };
        let message = SyncMessage::decode(&data).expect("a message of a hub is whole");
        document.receive_sync_message(&mut state, message).expect("a document takes a message");
    }
    let changes = document.generate_sync_message(&mut state).expect("the change");
    assert!(!changes.changes.is_empty());
    let answer = SyncMessage { changes: shoal_history::ChangeData::new(), ..changes.clone() };
    server.hear(connection, "one", about(&changes));
    server.hear(connection, "one", about(&answer));
    server.settle();
    let told = server.take(connection).into_iter().filter_map(|message| match message {
        Message::Sync { data, .. } => SyncMessage::decode(&data).ok(),
        _ => None,
    });
    assert_eq!(told.last().expect("a receipt").heads, document.heads());
}

#[test]
fn frames_that_are_no_messages_end_nobody() {
    let mut server = Server::new(Limits::default());
    let (bad, good) = (server.join(1, "bad"), server.join(2, "good"));
    for bytes in [&[][..], &[0xf6], &[0x01], &[0x61, b'1'], &[0xff; 50], &[0xbf], &[0x9f; 40]] {
        server.run(Event::Frame { connection: bad, bytes: bytes.to_vec() });
    }
    assert_eq!(server.faults("cbor"), 7);
    server.run(Event::Bad { connection: bad, fault: Fault::NotBinary });
    server.send(bad, "bad", Message::Sync { document: id(1), data: vec![9], is_request: false });
    assert_eq!((server.faults("not_binary"), server.faults("sync_message")), (1, 1));
    assert!(server.closed.is_empty());
    let (mut document, mut state) = (note(1), SyncState::new());
    exchange(&mut server, good, "good", &mut document, &mut state);
    assert_eq!(server.hub.counters().stored, 1);
}

#[test]
fn whoever_is_not_joined_is_not_heard() {
    let mut server = Server::new(Limits::default());
    let silent = server.connect(1, Access::all());
    server.send(silent, "x", Message::Unavailable { document: id(1) });
    assert_eq!(server.faults("before_join"), 1);
    server.now_ms = 6_000;
    server.run(Event::Tick);
    assert_eq!(server.closed, [(silent, Fault::NoJoin)]);

    let other = server.connect(2, Access::all());
    let join = Message::Join { metadata: Metadata::default(), speaks_version_1: true };
    let mut bytes = Frame { sender: "y".into(), target: String::new(), message: join }.encode();
    // The last byte is the version.
    *bytes.last_mut().unwrap() = b'7';
    server.run(Event::Frame { connection: other, bytes });
    assert_eq!(server.closed.last(), Some(&(other, Fault::Version)));
}

#[test]
fn nobody_speaks_for_others() {
    let mut server = Server::new(Limits::default());
    let one = server.join(1, "one");
    server.send(one, "two", Message::Unavailable { document: id(1) });
    assert_eq!(server.faults("impersonation"), 1);
    let message = Message::Unavailable { document: id(1) };
    let frame = Frame { sender: "one".into(), target: "else".into(), message };
    server.run(Event::Frame { connection: one, bytes: frame.encode() });
    assert_eq!(server.faults("wrong_target"), 1);
    // A newer connection under the same id takes over; two ids on one connection are refused.
    let newer = server.join(2, "one");
    assert_eq!(server.closed, [(one, Fault::Replaced)]);
    let join = Message::Join { metadata: Metadata::default(), speaks_version_1: true };
    server.send(newer, "three", join);
    assert_eq!(server.closed.last(), Some(&(newer, Fault::SecondJoin)));
    assert_eq!(server.hub.totals().connections, 0);
}

#[test]
fn absent_documents_leave_nothing_behind() {
    let mut server = Server::new(Limits::default());
    let one = server.join(1, "one");
    server.take(one);
    let mut nothing = Document::new(ActorId::new(&[1]));
    let data = nothing.generate_sync_message(&mut SyncState::new()).unwrap().encode();
    for byte in 1..=200 {
        let data = data.clone();
        server.send(one, "one", Message::Sync { document: id(byte), data, is_request: true });
    }
    assert_eq!(server.take(one), []);
    server.now_ms = 600;
    server.run(Event::Tick);
    let answers = server.take(one);
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|answer| matches!(answer, Message::Unavailable { .. })));
    // It comes when somebody makes it.
    let two = server.join(2, "two");
    let (mut document, mut state) = (note(2), SyncState::new());
    exchange(&mut server, two, "two", &mut document, &mut state);
    let came = server.take(one);
    let [Message::Sync { document, data, .. }] = &came[..] else { panic!("{came:?}") };
    assert_eq!(*document, id(1));
    let message = shoal_history::SyncMessage::decode(data).unwrap();
    nothing.receive_sync_message(&mut SyncState::new(), message).unwrap();
    assert!(!nothing.is_empty());
    server.run(Event::Closed { connection: one });
    server.run(Event::Closed { connection: two });
    server.now_ms = 20_000;
    server.run(Event::Tick);
    assert_eq!(server.hub.totals().documents, 0);
    assert!(!server.disk.is_open(&id(1)));
}

#[test]
fn refused_changes_end_one_exchange_and_no_other() {
    let mut server = Server::new(Limits::default());
    let (bad, good) = (server.join(1, "bad"), server.join(2, "good"));
    let (mut first, mut state) = (note(1), SyncState::new());
    exchange(&mut server, good, "good", &mut first, &mut state);
    let mut message = note(7).generate_sync_message(&mut SyncState::new()).unwrap();
    let mut chunk = note(7).changes().next().unwrap().raw_bytes().to_vec();
    *chunk.last_mut().unwrap() ^= 1;
    message.changes.push(&chunk);
    let data = message.encode();
    server.take(bad);
    server.send(
        bad,
        "bad",
        Message::Sync { document: id(1), data: data.clone(), is_request: false },
    );
    assert_eq!(server.faults("changes"), 1);
    assert!(matches!(&server.take(bad)[..], [Message::Error { .. }]));
    server.send(bad, "bad", Message::Sync { document: id(1), data, is_request: false });
    assert_eq!((server.faults("changes"), server.take(bad).len()), (2, 0));
    let (mut second, mut state) = (note(3), SyncState::new());
    let other = server.join(3, "other");
    exchange(&mut server, other, "other", &mut second, &mut state);
    assert_eq!(second.changes().count(), 2);
    assert_eq!(server.hub.counters().stored, 2);
}

#[test]
fn rights_are_kept_and_taken_away() {
    let mut server = Server::new(Limits::default());
    let writer = server.join(1, "writer");
    let (mut first, mut state) = (note(1), SyncState::new());
    exchange(&mut server, writer, "writer", &mut first, &mut state);

    let mut access = Access::default();
    access.documents.insert(id(1), Rights::Read);
    let reader = server.join_with(2, "reader", access);
    let (mut second, mut state) = (note(2), SyncState::new());
    exchange(&mut server, reader, "reader", &mut second, &mut state);
    assert_eq!(second.changes().count(), 2, "a reader reads");
    assert_eq!(server.hub.counters().stored, 1, "a reader's changes are not stored");

    // To a stranger the document seems absent.
    let stranger = server.join_with(3, "stranger", Access::default());
    server.take(stranger);
    let data = note(3).generate_sync_message(&mut SyncState::new()).unwrap().encode();
    server.send(stranger, "stranger", Message::Sync { document: id(1), data, is_request: false });
    assert_eq!(server.take(stranger), []);
    server.now_ms = 600;
    server.run(Event::Tick);
    assert_eq!(server.take(stranger), [Message::Unavailable { document: id(1) }]);

    server.take(reader);
    server.run(Event::Admit { connection: reader, access: Access::default() });
    assert_eq!(server.take(reader), [Message::Unavailable { document: id(1) }]);
    let mut transaction = first.transaction();
    transaction.put(&ROOT, "more", 1).unwrap();
    transaction.commit(CommitOptions::default());
    let mut state = SyncState::new();
    exchange(&mut server, writer, "writer", &mut first, &mut state);
    assert_eq!(server.hub.counters().stored, 2);
    assert_eq!(server.take(reader), []);
}

#[test]
fn ephemera_are_counted_once_and_bounded() {
    let limits = Limits { ephemeral_burst: 10, ephemeral_queue_bytes: 300, ..Limits::default() };
    let mut server = Server::new(limits);
    let (one, two) = (server.join(1, "one"), server.join(2, "two"));
    let data = note(1).generate_sync_message(&mut SyncState::new()).unwrap().encode();
    for (connection, name) in [(one, "one"), (two, "two")] {
        let data = data.clone();
        let message = Message::Sync { document: id(1), data, is_request: false };
        server.send(connection, name, message);
    }
    // The handshake's frames have left.
    server.run(Event::Sent { connection: two, bytes: 1 << 20 });
    server.take(two);
    let ephemeral = |count| {
        let session = "session".to_owned();
        Message::Ephemeral(Ephemeral { document: id(1), count, session, data: vec![1; 100] })
    };
    server.send(one, "one", ephemeral(1));
    server.send(one, "one", ephemeral(1));
    assert_eq!(server.take(two), [ephemeral(1)]);
    // Back from its receiver, in the sender's name.
    server.send(two, "one", ephemeral(1));
    assert_eq!(server.hub.counters().bounced, 1);
    for count in 2..20 {
        server.send(one, "one", ephemeral(count));
    }
    assert_eq!(server.faults("too_many"), 10);
    assert_eq!(server.take(two).len(), 1, "a slow reader is spared");
    assert_eq!(server.hub.counters().dropped, 7);
    let huge =
        Ephemeral { document: id(1), count: 99, session: "x".into(), data: vec![0; 1 << 17] };
    server.send(one, "one", Message::Ephemeral(huge));
    assert_eq!(server.closed.last().unwrap().0, one);
    assert_eq!(server.faults("too_large"), 1);
}

#[test]
fn slow_readers_are_dropped_and_floods_paused() {
    let limits = Limits { message_burst: 5, messages_per_second: 10, ..Limits::default() };
    let mut server = Server::new(limits);
    let one = server.join(1, "one");
    for _ in 0..6 {
        server.send(one, "one", Message::Unavailable { document: id(1) });
    }
    assert_eq!(server.hub.counters().paused, 1);
    server.now_ms = 61_000;
    server.run(Event::Tick);
    assert_eq!(server.closed, [(one, Fault::Slow)]);
}

/// A document left the memory and is read anew: news of its earlier stay come late, and their
/// dependencies are not here yet.
#[test]
fn news_of_an_earlier_stay_do_not_count() {
    let mut server = Server::new(Limits::default());
    let id = DocumentId::from_bytes([4; 16]);
    server.hub.handle(0, Event::Follow { document: id.clone() });
    let mut document = Document::new(ActorId::new(&[1]));
    for value in 0..2 {
        let mut transaction = document.transaction();
        transaction.put(&ROOT, "a", value).unwrap();
        transaction.commit(CommitOptions::default());
    }
    let changes = document.changes().skip(1).cloned().collect();
    let stored = Stored { changes, waiting: Vec::new() };
    server.hub.handle(0, Event::Changed { document: id, stored });
    assert_eq!(server.hub.documents().count(), 0);
}

/// Changes to a document that cannot be read are counted as on their way no longer: their sender
/// would be paused for good.
#[test]
fn an_unreadable_document_lets_go_of_its_changes() {
    let mut server = Server::new(Limits::default());
    let connection = server.join(1, "a");
    let id = DocumentId::from_bytes([5; 16]);
    let mut message = SyncMessage::decode(&[0x42, 0, 0, 0, 0]).unwrap();
    message.changes.push(&[0; 100]);
    let data = message.encode();
    let message = Message::Sync { document: id.clone(), data, is_request: false };
    let frame = Frame { sender: "a".into(), target: "server".into(), message };
    server.hub.handle(0, Event::Frame { connection, bytes: frame.encode() });
    assert!(server.hub.totals().pending_bytes >= 100);
    server.hub.handle(0, Event::Opened { document: id, contents: Err(Fault::Unreadable) });
    assert_eq!(server.hub.totals().pending_bytes, 0);
    assert_eq!(server.hub.totals().documents, 0);
}

/// Heads of documents that nobody has are kept until the connection ends, so their sum is bounded;
/// a later message of a document takes the place of the one before.
#[test]
fn kept_hashes_are_bounded() {
    let mut server = Server::new(Limits { told_bytes: 800, ..Limits::default() });
    let connection = server.join(1, "a");
    let tell = |server: &mut Server, document: u8| {
        let mut message = SyncMessage::decode(&[0x42, 0, 0, 0, 0]).unwrap();
        message.heads = vec![ChangeHash([document; 32]); 10];
        let document = DocumentId::from_bytes([document; 16]);
        let message = Message::Sync { document, data: message.encode(), is_request: false };
        server.send(connection, "a", message);
        server.hub.counters().faults.get("too_many").copied().unwrap_or(0)
    };
    for _ in 0..20 {
        assert_eq!(tell(&mut server, 1), 0);
    }
    assert_eq!(tell(&mut server, 2), 0);
    assert_eq!(tell(&mut server, 3), 1);
    server.run(Event::Closed { connection });
    assert_eq!(server.hub.totals().connections, 0);
}
