//! Who may: credentials refused, rights asked for, documents denied, allowances, queues of all.

use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SyncState};
use shoal_sync::{Access, ConnectionId, Event, Fault, Limits, Message, Metadata, Purse, Rights};

use crate::abuse::{Server, exchange, id, note};

fn hello(actor: u8) -> Vec<u8> {
    note(actor).generate_sync_message(&mut SyncState::new()).expect("a first message").encode()
}

fn about(byte: u8, data: Vec<u8>) -> Message {
    Message::Sync { document: id(byte), data, is_request: false }
}

fn owned(byte: u8) -> Access {
    Access { owner: Some([byte; 16]), ..Access::all() }
}

/// A server with a document that `first` wrote.
fn with_document(limits: Limits) -> (Server, ConnectionId, Document) {
    let mut server = Server::new(limits);
    let writer = server.join_with(1, "writer", owned(1));
    let (mut document, mut state) = (note(1), SyncState::new());
    exchange(&mut server, writer, "writer", &mut document, &mut state);
    (server, writer, document)
}

#[test]
fn whoever_is_refused_is_answered_first() {
    let (mut server, writer, _) = with_document(Limits::default());
    // Under the name of a joined peer, whose connection stays.
    let stranger = server.connect(2, Access::default());
    server.run(Event::Refuse { connection: stranger, fault: Fault::NoToken });
    assert_eq!(server.closed, []);
    let join = Message::Join { metadata: Metadata::default(), speaks_version_1: true };
    server.send(stranger, "writer", join);
    let told = server.take(stranger);
    assert!(matches!(&told[..], [Message::Peer { .. }, Message::Error { .. }]), "{told:?}");
    assert_eq!(server.closed, [(stranger, Fault::NoToken)]);
    // A token that ends in the midst of a session ends the session.
    server.take(writer);
    server.run(Event::Refuse { connection: writer, fault: Fault::Expired });
    assert!(matches!(&server.take(writer)[..], [Message::Error { .. }]));
    assert_eq!(server.closed.last(), Some(&(writer, Fault::Expired)));
    assert_eq!((server.faults("no_token"), server.faults("expired")), (1, 1));
}

#[test]
fn a_peer_id_is_taken_over_by_its_owner_only() {
    let (mut server, writer, _) = with_document(Limits::default());
    for access in [Access::all(), owned(2)] {
        let number = server.hub.counters().connected + 1;
        let other = server.join_with(number, "writer", access);
        assert_eq!(server.closed.last(), Some(&(other, Fault::NameInUse)));
    }
    server.join_with(9, "writer", owned(1));
    assert_eq!(server.closed.last(), Some(&(writer, Fault::Replaced)));
}

#[test]
fn rights_are_asked_for_and_messages_wait() {
    let (mut server, _, document) = with_document(Limits { asking: 2, ..Limits::default() });
    let guest = server.join_with(2, "guest", Access { asks: true, ..Access::default() });
    server.take(guest);
    server.send(guest, "guest", about(1, hello(2)));
    server.send(guest, "guest", about(1, hello(2)));
    assert_eq!(server.take(guest), []);
    server.send(guest, "guest", about(1, hello(2)));
    assert_eq!(server.faults("too_many"), 1, "a third message does not wait");
    assert!(server.hub.totals().pending_bytes > 0);
    let answer = |rights| Event::Answered { connection: guest, document: id(1), rights };
    server.run(answer(Rights::Read));
    assert_eq!(server.hub.totals().pending_bytes, 0);
    let told = server.take(guest);
    let [Message::Sync { data, .. }, ..] = &told[..] else { panic!("{told:?}") };
    let (mut copy, mut state) = (note(2), SyncState::new());
    copy.generate_sync_message(&mut state).expect("a first message");
    let message = shoal_history::SyncMessage::decode(data).expect("whole");
    copy.receive_sync_message(&mut state, message).expect("taken");
    exchange(&mut server, guest, "guest", &mut copy, &mut state);
    assert_eq!((copy.changes().count(), server.hub.counters().stored), (2, 1));
    // Told so, clients send none; whoever does all the same is told once more.
    let mut message = copy.generate_sync_message(&mut SyncState::new()).expect("a message");
    message.changes.push(note(2).changes().next().expect("a change").raw_bytes());
    for times in 1..=2 {
        server.send(guest, "guest", about(1, message.encode()));
        assert_eq!((server.faults("read_only"), server.hub.counters().stored), (times, 1));
        let errors =
            server.take(guest).into_iter().filter(|told| matches!(told, Message::Error { .. }));
        assert_eq!(errors.count() as u64, 2 - times);
    }
    // A later answer takes the right away, and the document is absent.
    server.run(answer(Rights::None));
    assert_eq!(server.take(guest).last(), Some(&Message::Unavailable { document: id(1) }));
    server.send(guest, "guest", about(1, hello(2)));
    server.run(answer(Rights::None));
    server.now_ms += 600;
    server.run(Event::Tick);
    assert_eq!(server.take(guest), [Message::Unavailable { document: id(1) }]);
    drop(document);
}

/// A document absent, forbidden or denied gets the same answer at the same time.
#[test]
fn forbidden_denied_and_absent_look_alike() {
    let (mut server, writer, _) = with_document(Limits::default());
    let one = Access { documents: [(id(1), Rights::None)].into(), ..Access::all() };
    let guest = server.join_with(2, "guest", one);
    server.take(guest);
    server.take(writer);
    server.run(Event::Deny { document: id(2), is_denied: true });
    for byte in 1..=3 {
        let nothing = Document::new(ActorId::new(&[2]));
        let data = { nothing }.generate_sync_message(&mut SyncState::new()).unwrap().encode();
        server.send(guest, "guest", about(byte, data));
    }
    server.now_ms += 499;
    server.run(Event::Tick);
    assert_eq!(server.take(guest), []);
    server.now_ms += 1;
    server.run(Event::Tick);
    let mut told = server.take(guest);
    told.sort_by_key(|message| format!("{message:?}"));
    let unavailable = |byte| Message::Unavailable { document: id(byte) };
    let mut expected: Vec<Message> = (1..=3).map(unavailable).collect();
    expected.sort_by_key(|message| format!("{message:?}"));
    assert_eq!(told, expected);
    // Denied while it is open: closed for all, and served again later.
    server.run(Event::Deny { document: id(1), is_denied: true });
    assert_eq!(server.take(writer), [unavailable(1)]);
    server.run(Event::Deny { document: id(1), is_denied: false });
    server.send(writer, "writer", about(1, hello(1)));
    assert!(matches!(&server.take(writer)[..], [Message::Sync { .. }]));
}

#[test]
fn an_allowance_is_one_for_all_connections() {
    let mut server = Server::new(Limits::default());
    let purse = Purse { id: [7; 16], bytes: 10_000, documents: 2, ms: 10_000 };
    let access = Access { purse: Some(purse), ..Access::all() };
    let write = |server: &mut Server, connection, name: &str, byte: u8| {
        let (mut document, mut state) = (note(byte), SyncState::new());
        for _ in 0..3 {
            let Some(message) = document.generate_sync_message(&mut state) else { return };
            server.send(connection, name, about(byte, message.encode()));
            for message in server.take(connection) {
                let Message::Sync { data, .. } = message else { continue };
                let message = shoal_history::SyncMessage::decode(&data).expect("whole");
                document.receive_sync_message(&mut state, message).expect("taken");
            }
        }
    };
    let one = server.join_with(1, "one", access.clone());
    write(&mut server, one, "one", 1);
    let two = server.join_with(2, "two", access.clone());
    write(&mut server, two, "two", 2);
    assert_eq!((server.hub.counters().stored, server.closed.len()), (2, 0));
    write(&mut server, two, "two", 3);
    assert_eq!(server.closed.last(), Some(&(two, Fault::Allowance("documents"))));
    // The ticket has ended: nobody shows it any more, and nothing of it is kept.
    server.now_ms = 20_000;
    server.run(Event::Tick);
    write(&mut server, one, "one", 4);
    assert_eq!(server.closed.last(), Some(&(one, Fault::Expired)));
    assert_eq!(server.hub.counters().stored, 2);
}

#[test]
fn the_queues_of_all_are_bounded() {
    let limits = Limits { total_queue_bytes: 40_000, queue_bytes: 20_000, ..Limits::default() };
    let (mut server, writer, mut document) = with_document(limits);
    server.run(Event::Sent { connection: writer, bytes: 1 << 20 });
    let mut transaction = document.transaction();
    transaction.put(&ROOT, "long", "x1y2z3".repeat(5_000)).unwrap();
    transaction.commit(CommitOptions::default());
    let mut state = SyncState::new();
    exchange(&mut server, writer, "writer", &mut document, &mut state);
    server.run(Event::Sent { connection: writer, bytes: 1 << 20 });
    let reading = |server: &mut Server, number: u64| {
        let name = format!("reader {number}");
        let reader = server.join_with(number, &name, Access::all());
        let nothing = &mut Document::new(ActorId::new(&[9]));
        let data = nothing.generate_sync_message(&mut SyncState::new()).unwrap().encode();
        server.send(reader, &name, about(1, data));
        reader
    };
    let slow: Vec<ConnectionId> = (10..200).map(|number| reading(&mut server, number)).collect();
    assert!(server.hub.totals().queued_bytes < 200_000, "{:?}", server.hub.totals());
    let good = reading(&mut server, 300);
    server.run(Event::Sent { connection: good, bytes: 1 << 20 });
    server.take(good);
    server.now_ms += 2_500;
    server.run(Event::Tick);
    assert!(server.faults("crowded") > 0);
    assert!(server.closed.iter().all(|(connection, _)| slow.contains(connection)));
    let came = |server: &mut Server| {
        server.take(good).iter().any(|message| matches!(message, Message::Sync { .. }))
    };
    let mut has_come = came(&mut server);
    // Each round sends what is free, to those who do not read as well, until they are gone.
    for _ in 0..200 {
        server.now_ms += 2_500;
        server.run(Event::Sent { connection: good, bytes: 1 << 20 });
        server.run(Event::Tick);
        has_come |= came(&mut server);
    }
    assert!(has_come, "a reader that reads gets the document");
    assert!(server.closed.iter().all(|(connection, _)| slow.contains(connection)));
}

#[test]
fn progress_counts_by_bytes() {
    let limits = Limits::default();
    let mut server = Server::new(limits);
    let (slow, slower) = (server.join(1, "slow"), server.join(2, "slower"));
    for round in 1..=5 {
        server.now_ms = round * 50_000;
        for (connection, bytes) in [(slow, limits.stall_bytes), (slower, 100)] {
            server.run(Event::Progress { connection, bytes });
        }
        server.run(Event::Tick);
    }
    assert_eq!(server.closed, [(slower, Fault::Slow)]);
}
