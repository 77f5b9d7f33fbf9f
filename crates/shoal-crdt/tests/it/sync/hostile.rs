//! Messages from strangers: errors, and no harm.

use proptest::prelude::*;
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, Error, LoadOptions, ROOT, ScalarRef, SyncMessage,
    SyncState,
};
use shoal_history::{
    Action, ActorIdx, ChangeData, ChangeHeader, ChangeWriter, Have, Key, ObjId, Op, OpId,
};

use super::peer::{Edit, Peer};

fn doc() -> Document {
    let mut peer = Peer::seed(true);
    for at in 0..30 {
        peer.edit(Edit::Type { at, letter: at });
    }
    match peer {
        Peer::Ours(doc) => *doc,
        Peer::Theirs(_) => panic!("not ours"),
    }
}

/// A message of a peer without anything.
fn message() -> SyncMessage {
    Document::new(ActorId::new(&[9])).generate_sync_message(&mut SyncState::new()).unwrap()
}

#[test]
fn asking_often_gives_a_change_once() {
    let doc = doc();
    let change = doc.changes().next().unwrap();
    let mut hostile = message();
    hostile.heads = doc.heads();
    hostile.need = vec![change.hash(); 10_000];
    for have in [Vec::new(), vec![Have { last_sync: doc.heads(), ..Have::default() }]] {
        hostile.have = have;
        let mut state = SyncState::new();
        doc.clone().receive_sync_message(&mut state, hostile.clone()).unwrap();
        let answer = doc.generate_sync_message(&mut state).unwrap();
        assert_eq!(answer.changes.as_bytes(), change.raw_bytes());
    }
}

#[test]
fn bad_changes_are_errors_and_leave_everything_as_it_was() {
    let mut doc = doc();
    let mut state = SyncState::new();
    let (heads, saved) = (doc.heads(), state.encode());
    let last = doc.changes().last().unwrap().raw_bytes().to_vec();
    let mut broken = last.clone();
    broken[20] ^= 1;
    for bytes in [&b"nonsense"[..], &last[..5], &broken] {
        let mut hostile = message();
        hostile.heads = vec![];
        hostile.changes = ChangeData::whole(bytes.to_vec());
        let result = doc.receive_sync_message(&mut state, hostile.clone());
        assert!(matches!(result, Err(Error::History(_))), "{result:?}");
        assert_eq!((doc.heads(), state.encode()), (heads.clone(), saved.clone()));
        let mut empty = Document::new(ActorId::new(&[4]));
        assert!(empty.receive_sync_message(&mut SyncState::new(), hostile).is_err());
        assert!(empty.is_empty());
    }
    // The same author, the same number, another change.
    let mut fork = Document::new(doc.actor().clone());
    let mut tx = fork.transaction();
    tx.put(&ROOT, "other", 1).unwrap();
    tx.commit(CommitOptions::default());
    let mut hostile = message();
    hostile.changes = ChangeData::whole(fork.save());
    let result = doc.receive_sync_message(&mut state, hostile);
    assert!(matches!(result, Err(Error::DuplicateSeq { .. })), "{result:?}");
    assert_eq!(doc.heads(), heads);
    // A good message is taken after all that.
    doc.receive_sync_message(&mut state, message()).unwrap();
    assert!(doc.generate_sync_message(&mut state).is_some());
}

/// A change by `actor` that sets a key to its own number.
fn change(actor: u8, seq: u32, deps: &[&Change]) -> Change {
    let actors = [ActorId::new(&[actor])];
    let start_op = 10 * seq;
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq,
        start_op,
        time: 0,
        message: None,
        deps: deps.iter().map(|dep| dep.hash()).collect(),
        extra_bytes: &[],
    };
    let mut writer = ChangeWriter::new(header, &actors);
    writer.push(&Op {
        id: OpId { counter: start_op, actor: ActorIdx(0) },
        obj: ObjId::Root,
        key: Key::Map("k"),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Int(i64::from(seq)),
        expand: false,
        mark_name: None,
        links: &[],
    });
    writer.finish().unwrap()
}

/// A second change that does not build on its author's first is refused, whatever comes first: what
/// is taken must not depend on the order of arrival.
#[test]
fn the_order_of_arrival_does_not_decide_what_is_refused() {
    let (first, other) = (change(1, 1, &[]), change(2, 1, &[]));
    let detached = change(1, 2, &[&other]);
    let follower = change(3, 3, &[&detached]);
    let all = [&first, &other, &detached, &follower];
    let mut expect = Document::new(ActorId::new(&[9]));
    expect.apply_changes([first.clone(), other.clone()]).unwrap();
    let expect = expect.heads();
    for order in 0..24 {
        let mut left = all.to_vec();
        let mut doc = Document::new(ActorId::new(&[9]));
        let mut choice = order;
        while !left.is_empty() {
            let next = left.remove(choice % left.len());
            choice /= left.len() + 1;
            let before = (doc.heads(), doc.stats());
            if doc.apply_changes([next.clone()]).is_err() {
                assert!(next == &detached || next == &follower);
                assert_eq!((doc.heads(), doc.stats()), before);
            }
        }
        assert_eq!(doc.heads(), expect, "{order}");
        assert!(doc.get(&ROOT, "k").unwrap().is_some());
        // Its bytes tell of no one who has no change.
        let again = Document::load(&doc.save(), ActorId::new(&[8]), &LoadOptions::default());
        assert_eq!(again.unwrap().heads(), expect);
        // A change that is refused in one batch with good ones takes these with it, once.
        let mut doc = Document::new(ActorId::new(&[9]));
        assert!(doc.apply_changes([first.clone(), other.clone(), detached.clone()]).is_err());
        assert!(doc.is_empty());
        doc.apply_changes([other.clone(), first.clone()]).unwrap();
        assert_eq!(doc.heads(), expect);
    }
}

/// Hashes that the message makes up, or that are those of the document.
fn hashes(doc: &Document, choices: &[u8]) -> Vec<shoal_crdt::ChangeHash> {
    let known: Vec<_> = doc.changes().map(|change| change.hash()).collect();
    let made_up = |choice: u8| shoal_crdt::ChangeHash([choice; 32]);
    let hash = |&choice: &u8| known.get(usize::from(choice)).copied().unwrap_or(made_up(choice));
    choices.iter().map(hash).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_taken_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        at in any::<prop::sample::Index>(),
        is_whole: bool,
    ) {
        let mut doc = doc();
        // A sound message, a stretch of it overwritten.
        let mut state = SyncState::new();
        let mut sound = message();
        if is_whole {
            sound.changes = ChangeData::whole(doc.clone().save());
        }
        let mut changed = sound.encode();
        let start = at.index(changed.len());
        for (target, source) in changed[start..].iter_mut().zip(&bytes) {
            *target = *source;
        }
        for bytes in [changed, bytes] {
            if let Ok(message) = SyncMessage::decode(&bytes) {
                let _ = doc.receive_sync_message(&mut state, message);
            }
            let _ = doc.generate_sync_message(&mut state);
            if let Ok(mut state) = SyncState::decode(&bytes) {
                let _ = doc.generate_sync_message(&mut state);
            }
        }
    }

    #[test]
    fn any_message_is_taken(
        lists in prop::collection::vec(prop::collection::vec(0_u8..60, 0..5), 4),
        with_have: bool,
        max_bytes in prop::option::of(0_usize..1000),
        rounds in 1_usize..4,
    ) {
        let mut doc = doc();
        let mut state = SyncState::new();
        state.set_max_message_bytes(max_bytes);
        let [heads, need, last_sync, held] = [0, 1, 2, 3].map(|at| hashes(&doc, &lists[at]));
        let bloom = shoal_history::BloomFilter::from_hashes(held.iter());
        let mut hostile = message();
        hostile.heads = heads;
        hostile.need = need;
        hostile.have = if with_have { vec![Have { last_sync, bloom }] } else { Vec::new() };
        for _ in 0..rounds {
            let hostile = SyncMessage::decode(&hostile.encode()).unwrap();
            doc.receive_sync_message(&mut state, hostile).unwrap();
            let _ = doc.generate_sync_message(&mut state);
            let _ = doc.has_our_changes(&state);
            state = SyncState::decode(&state.encode()).unwrap();
        }
    }
}
