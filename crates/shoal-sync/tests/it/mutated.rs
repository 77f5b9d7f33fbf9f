//! Frames of real conversations, damaged: bits flipped, ranges cut, doubled and spliced, lengths
//! forged, alone and within the sync message. The hub goes on, and an honest peer beside loses
//! nothing.
//!
//! `SHOAL_MUTATED_FRAMES` for more than the 20,000 of a usual run, `SHOAL_MUTATED_SEED` for others.

use std::env;

use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SyncState};
use shoal_sync::{
    Access, ConnectionId, Ephemeral, Event, Frame, Limits, Message, Metadata, Purse, Rights,
};

use crate::abuse::{Server, exchange, id, note};

/// Damaged frames of one hub, before the honest peer is looked at.
const BATCH: u64 = 50;

/// Numbers by a seed (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % bound.max(1)
    }
}

fn edit(document: &mut Document, key: &str, value: i64) {
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).expect("a put at the root");
    transaction.commit(CommitOptions::default());
}

/// The frames that a client sends: every message of the protocol, sync messages of many states.
fn conversation() -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut say = |message: Message| {
        frames.push(Frame { sender: "bad".into(), target: "server".into(), message });
    };
    let metadata = Metadata { storage_id: Some("b".into()), is_ephemeral: false };
    say(Message::Join { metadata: metadata.clone(), speaks_version_1: true });
    say(Message::Peer { metadata });
    say(Message::Error { message: "words".into() });
    say(Message::Unavailable { document: id(1) });
    say(Message::Gossip);
    let data = vec![0xa1, 0x61, b'x', 1];
    say(Message::Ephemeral(Ephemeral { document: id(1), count: 1, session: "s".into(), data }));
    // Two clients over a server between them, from nothing to hundreds of changes.
    let (mut one, mut other) = (note(3), Document::new(ActorId::new(&[4])));
    let (mut to_other, mut to_one) = (SyncState::new(), SyncState::new());
    for round in 0..6 {
        for _ in 0..10 {
            let first = one.generate_sync_message(&mut to_other);
            let second = other.generate_sync_message(&mut to_one);
            if first.is_none() && second.is_none() {
                break;
            }
            for message in [&first, &second].into_iter().flatten() {
                let (document, data) = (id(1 + round % 2), message.encode());
                say(Message::Sync { document, data, is_request: message.heads.is_empty() });
            }
            if let Some(message) = first {
                other.receive_sync_message(&mut to_one, message).expect("taken");
            }
            if let Some(message) = second {
                one.receive_sync_message(&mut to_other, message).expect("taken");
            }
        }
        for value in 0..i64::from(round) * 12 + 1 {
            edit(&mut one, &format!("k{value}"), value);
            edit(&mut other, "x", value);
        }
    }
    frames
}

/// Damages bytes in one to four places.
fn damage(numbers: &mut Numbers, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let length = numbers.below(24).min(bytes.len() - at.min(bytes.len()));
        match numbers.below(8) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            2 if !bytes.is_empty() => {
                bytes[at] =
                    [0, 1, 0x7f, 0x80, 0xff, 0x5f, 0x9f, 0xbf, 0x1b, 0x9b, 0xbb][numbers.below(11)];
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..at + length)),
            5 => {
                let doubled = bytes[at..at + length].to_vec();
                bytes.splice(at..at, doubled);
            }
            6 => {
                // The length or count of something, as large as it can be written.
                let forged: &[u8] = [
                    &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
                    &[0x9a, 0xff, 0xff, 0xff, 0xff],
                    &[0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                ][numbers.below(4)];
                bytes.splice(at..at + length.min(2), forged.iter().copied());
            }
            _ => {
                let other = &corpus[numbers.below(corpus.len())];
                let from = numbers.below(other.len());
                let some = numbers.below(64).min(other.len() - from);
                bytes.splice(at..at + length, other[from..from + some].iter().copied());
            }
        }
    }
}

/// The rights of an attacker: everything, reading, asked about, an allowance.
fn access(numbers: &mut Numbers) -> Access {
    match numbers.below(5) {
        0 => Access::every(Rights::Read),
        1 => Access { asks: true, ..Access::default() },
        2 => {
            let purse = Purse { id: [3; 16], bytes: 2_000, documents: 1, ms: 1_000 };
            Access { purse: Some(purse), ..Access::all() }
        }
        _ => Access::all(),
    }
}

#[test]
fn damaged_frames_harm_nobody() {
    let given = |name, usual| env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual);
    let (count, seed): (u64, u64) =
        (given("SHOAL_MUTATED_FRAMES", 20_000), given("SHOAL_MUTATED_SEED", 1));
    let frames = conversation();
    let whole: Vec<Vec<u8>> = frames.iter().map(Frame::encode).collect();
    let inner: Vec<Vec<u8>> = frames
        .iter()
        .filter_map(|frame| match &frame.message {
            Message::Sync { data, .. } => Some(data.clone()),
            _ => None,
        })
        .collect();
    assert!(inner.len() > 20, "{} sync messages", inner.len());
    let (mut taken, mut faults, mut stored) = (0, 0, 0);
    for batch in 0..count / BATCH {
        let mut numbers = Numbers((seed << 32) ^ (batch + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut server = Server::new(Limits { pending_bytes: 1 << 20, ..Limits::default() });
        let good = server.join(1, "good");
        let (mut document, mut state) = (note(1), SyncState::new());
        exchange(&mut server, good, "good", &mut document, &mut state);
        let mut next = 2;
        let mut bad = None;
        for _ in 0..BATCH {
            let connection = match bad {
                Some(connection) if numbers.below(8) > 0 => connection,
                _ => {
                    if let Some(connection) = bad {
                        server.run(Event::Closed { connection });
                    }
                    let rights = access(&mut numbers);
                    next += 1;
                    server.join_with(next, "bad", rights)
                }
            };
            let bytes = match numbers.below(3) {
                // Within a frame that is whole.
                0 => {
                    let mut data = inner[numbers.below(inner.len())].clone();
                    damage(&mut numbers, &mut data, &inner);
                    let document = id(1 + u8::try_from(numbers.below(2)).unwrap_or(0));
                    let message = Message::Sync { document, data, is_request: false };
                    Frame { sender: "bad".into(), target: "server".into(), message }.encode()
                }
                1 => whole[numbers.below(whole.len())].clone(),
                _ => {
                    let mut bytes = whole[numbers.below(whole.len())].clone();
                    damage(&mut numbers, &mut bytes, &whole);
                    bytes
                }
            };
            taken += 1;
            server.run(Event::Frame { connection, bytes });
            server.now_ms += u64::try_from(numbers.below(300)).unwrap_or(0);
            if numbers.below(6) == 0 {
                server.run(Event::Tick);
            }
            let is_closed = server.closed.iter().any(|(closed, _)| *closed == connection);
            bad = (!is_closed).then_some(connection);
            let totals = server.hub.totals();
            assert!(totals.documents <= 8 && totals.queued_bytes < 64 << 20, "{totals:?}");
        }
        // The honest peer was not closed, writes on, and a stranger reads its work.
        assert!(server.closed.iter().all(|(closed, _)| *closed != good), "batch {batch}");
        edit(&mut document, "later", 1);
        for _ in 0..4 {
            exchange(&mut server, good, "good", &mut document, &mut state);
        }
        let mine: Vec<_> = document.changes().map(shoal_history::Change::hash).collect();
        let durable = server.disk.durable(&id(1));
        let reader = server.join(next + 1, "reader");
        let (mut read, mut to_server) = (Document::new(ActorId::new(&[9])), SyncState::new());
        for _ in 0..4 {
            exchange(&mut server, reader, "reader", &mut read, &mut to_server);
        }
        for hash in mine {
            assert!(durable.change_by_hash(&hash).is_some(), "batch {batch}: durable");
            assert!(read.change_by_hash(&hash).is_some(), "batch {batch}: handed on");
        }
        faults += server.hub.counters().faults.values().sum::<u64>();
        stored += server.hub.counters().stored;
        for number in 1..=next + 1 {
            server.run(Event::Closed { connection: ConnectionId(number) });
        }
        let totals = server.hub.totals();
        let left = (totals.connections, totals.joined, totals.queued_bytes, totals.pending_bytes);
        assert_eq!(left, (0, 0, 0, 0), "batch {batch}: nothing of a closed connection is left");
    }
    // Most are refused, and some get through to the documents.
    assert!(faults > taken / 10 && stored > taken / 50, "{taken} {faults} {stored}");
    println!("{taken} frames, {faults} faults, {stored} changes stored, seed {seed}");
}
