//! One document and what it knows of each peer, kept by Shoal or by the reference. Messages pass as
//! bytes.

use automerge::sync::SyncDoc as _;
use automerge::transaction::{CommitOptions as TheirOptions, Transactable};
use automerge::{AutoSerde, Automerge, ReadDoc};
use shoal_crdt::{ActorId, CommitOptions, Document, ObjType, ROOT, SyncMessage, SyncState, Value};

/// A document of one engine.
#[derive(Clone)]
pub(crate) enum Peer {
    Ours(Box<Document>),
    Theirs(Box<Automerge>),
}

/// What a document's engine knows of one peer.
#[derive(Clone)]
pub(crate) enum State {
    Ours(SyncState),
    Theirs(automerge::sync::State),
}

/// An edit that both engines make alike.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// Under one of a few keys, so that there are conflicts.
    Put { key: u8, value: i8 },
    /// Into the one text.
    Type { at: u8, letter: u8 },
}

fn actor(number: u8) -> [u8; 3] {
    [7, number, 9]
}

impl Peer {
    /// A document with a text and a number in it; the same bytes in both engines.
    pub(crate) fn seed(ours: bool) -> Self {
        let mut peer = Self::empty(ours, 0);
        match &mut peer {
            Self::Ours(doc) => {
                let mut tx = doc.transaction();
                tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
                tx.commit(CommitOptions::default());
            }
            Self::Theirs(doc) => {
                let mut tx = doc.transaction();
                tx.put_object(automerge::ROOT, "text", automerge::ObjType::Text).unwrap();
                tx.commit_with(TheirOptions::default().with_time(0));
            }
        }
        peer
    }

    pub(crate) fn empty(ours: bool, number: u8) -> Self {
        if ours {
            Self::Ours(Box::new(Document::new(ActorId::new(&actor(number)))))
        } else {
            let actor = automerge::ActorId::from(&actor(number)[..]);
            Self::Theirs(Box::new(Automerge::new().with_actor(actor)))
        }
    }

    pub(crate) fn fork(&self, number: u8) -> Self {
        match self {
            Self::Ours(doc) => Self::Ours(Box::new(doc.fork(ActorId::new(&actor(number))))),
            Self::Theirs(doc) => {
                let actor = automerge::ActorId::from(&actor(number)[..]);
                Self::Theirs(Box::new(doc.fork().with_actor(actor)))
            }
        }
    }

    pub(crate) fn edit(&mut self, edit: Edit) {
        match (self, edit) {
            (Self::Ours(doc), Edit::Put { key, value }) => {
                let mut tx = doc.transaction();
                tx.put(&ROOT, format!("key {}", key % 3).as_str(), i64::from(value)).unwrap();
                tx.commit_empty(CommitOptions::default());
            }
            (Self::Ours(doc), Edit::Type { at, letter }) => {
                let text = match doc.get(&ROOT, "text").unwrap() {
                    Some((Value::Object(ObjType::Text), text)) => text,
                    _ => return self::put_letter(doc, letter),
                };
                let at = usize::from(at) % (doc.length(&text).unwrap() + 1);
                let mut tx = doc.transaction();
                tx.splice_text(&text, at, 0, letter_of(letter)).unwrap();
                tx.commit(CommitOptions::default());
            }
            (Self::Theirs(doc), Edit::Put { key, value }) => {
                let mut tx = doc.transaction();
                let key = format!("key {}", key % 3);
                tx.put(automerge::ROOT, key, i64::from(value)).unwrap();
                if tx.pending_ops() > 0 {
                    tx.commit_with(TheirOptions::default().with_time(0));
                } else {
                    drop(tx);
                    doc.empty_commit(TheirOptions::default().with_time(0));
                }
            }
            (Self::Theirs(doc), Edit::Type { at, letter }) => {
                let found = doc.get(automerge::ROOT, "text").unwrap();
                let text = found.filter(|(value, _)| value.is_object()).map(|(_, text)| text);
                let mut tx = doc.transaction();
                if let Some(text) = text {
                    let at = usize::from(at) % (tx.length(&text) + 1);
                    tx.splice_text(&text, at, 0, letter_of(letter)).unwrap();
                } else {
                    tx.put(automerge::ROOT, "letter", letter_of(letter)).unwrap();
                }
                if tx.pending_ops() > 0 {
                    tx.commit_with(TheirOptions::default().with_time(0));
                }
            }
        }
    }

    pub(crate) fn heads(&self) -> Vec<[u8; 32]> {
        match self {
            Self::Ours(doc) => doc.heads().into_iter().map(|head| head.0).collect(),
            Self::Theirs(doc) => doc.get_heads().into_iter().map(|head| head.0).collect(),
        }
    }

    pub(crate) fn json(&self) -> String {
        match self {
            Self::Ours(doc) => serde_json::to_string(&doc.to_json()).unwrap(),
            Self::Theirs(doc) => serde_json::to_string(&AutoSerde::from(&**doc)).unwrap(),
        }
    }

    pub(crate) fn generate(&self, state: &mut State) -> Option<Vec<u8>> {
        match (self, state) {
            (Self::Ours(doc), State::Ours(state)) => {
                doc.generate_sync_message(state).map(|message| message.encode())
            }
            (Self::Theirs(doc), State::Theirs(state)) => {
                doc.generate_sync_message(state).map(automerge::sync::Message::encode)
            }
            _ => panic!("a state of the other engine"),
        }
    }

    pub(crate) fn receive(&mut self, state: &mut State, bytes: &[u8]) {
        match (self, state) {
            (Self::Ours(doc), State::Ours(state)) => {
                let message = SyncMessage::decode(bytes).unwrap();
                assert_eq!(message.encode(), bytes, "the engines write messages alike");
                doc.receive_sync_message(state, message).unwrap();
            }
            (Self::Theirs(doc), State::Theirs(state)) => {
                let message = automerge::sync::Message::decode(bytes).unwrap();
                doc.receive_sync_message(state, message).unwrap();
            }
            _ => panic!("a state of the other engine"),
        }
    }

    pub(crate) fn has_our_changes(&self, state: &State) -> bool {
        match (self, state) {
            (Self::Ours(doc), State::Ours(state)) => doc.has_our_changes(state),
            (Self::Theirs(doc), State::Theirs(state)) => doc.has_our_changes(state),
            _ => panic!("a state of the other engine"),
        }
    }

    pub(crate) fn new_state(&self) -> State {
        match self {
            Self::Ours(_) => State::Ours(SyncState::new()),
            Self::Theirs(_) => State::Theirs(automerge::sync::State::new()),
        }
    }

    pub(crate) fn has_queue(&self) -> bool {
        match self {
            Self::Ours(doc) => !doc.missing_deps(&[]).is_empty(),
            Self::Theirs(doc) => !doc.get_missing_deps(&[]).is_empty(),
        }
    }
}

impl State {
    /// The state on a new connection.
    pub(crate) fn reconnect(&mut self) {
        match self {
            Self::Ours(state) => *state = SyncState::decode(&state.encode()).unwrap(),
            Self::Theirs(state) => {
                *state = automerge::sync::State::decode(&state.encode()).unwrap();
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ours(state) => state.encode(),
            Self::Theirs(state) => state.encode(),
        }
    }

    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        match self {
            Self::Ours(state) => state.set_read_only(read_only),
            Self::Theirs(state) => state.set_read_only(read_only),
        }
    }

    /// Bounds the messages, where the engine can.
    pub(crate) fn bound(&mut self, max_bytes: usize) {
        if let Self::Ours(state) = self {
            state.set_max_message_bytes(Some(max_bytes));
        }
    }
}

fn put_letter(doc: &mut Document, letter: u8) {
    let mut tx = doc.transaction();
    tx.put(&ROOT, "letter", letter_of(letter)).unwrap();
    tx.commit(CommitOptions::default());
}

fn letter_of(letter: u8) -> &'static str {
    ["a", "b", "é", "😀"][usize::from(letter % 4)]
}

/// The message as a peer from before version 2 would have written it: without flags.
pub(crate) fn without_flags(bytes: &[u8]) -> Vec<u8> {
    let mut message = SyncMessage::decode(bytes).unwrap();
    message.flags = None;
    message.encode()
}

/// Passes messages both ways until both peers are quiet; returns all messages, in order.
pub(crate) fn run(peers: [&mut Peer; 2], states: [&mut State; 2]) -> Vec<Vec<u8>> {
    run_with(peers, states, <[u8]>::to_vec)
}

/// Like [`run`], with messages changed on their way.
pub(crate) fn run_with(
    [a, b]: [&mut Peer; 2],
    [a_state, b_state]: [&mut State; 2],
    pass: impl Fn(&[u8]) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    loop {
        let to_b = a.generate(a_state).map(|bytes| pass(&bytes));
        if let Some(bytes) = &to_b {
            b.receive(b_state, bytes);
        }
        let to_a = b.generate(b_state).map(|bytes| pass(&bytes));
        if let Some(bytes) = &to_a {
            a.receive(a_state, bytes);
        }
        if to_a.is_none() && to_b.is_none() {
            return messages;
        }
        messages.extend(to_b.into_iter().chain(to_a));
        assert!(messages.len() < 10_000, "the peers do not come to rest");
    }
}

pub(crate) fn assert_equal(a: &Peer, b: &Peer) {
    assert_eq!(a.heads(), b.heads());
    assert_eq!(a.json(), b.json());
    assert!(!a.has_queue() && !b.has_queue());
}
