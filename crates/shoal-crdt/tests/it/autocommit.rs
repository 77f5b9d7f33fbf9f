//! The document with an implicit transaction, beside the reference's.

use automerge::ReadDoc as _;
use automerge::transaction::Transactable as _;
use proptest::prelude::*;
use shoal_crdt::{ActorId, AutoCommit, CommitOptions, ObjType, ROOT, ReadDoc, Transactable};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, i64),
    Increment(u8),
    Text(u8, i8, String),
    Commit,
    Rollback,
    Heads,
    Empty,
    Merge,
    Save,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, 0..3_i64).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..4_u8).prop_map(Step::Increment),
        4 => (any::<u8>(), -3..4_i8, "[ab😀]{0,3}")
            .prop_map(|(at, delete, text)| Step::Text(at, delete, text)),
        1 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Heads),
        1 => Just(Step::Empty),
        1 => Just(Step::Merge),
        1 => Just(Step::Save),
    ]
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

struct Pair {
    ours: AutoCommit,
    theirs: automerge::AutoCommit,
}

impl Pair {
    fn heads(&mut self) {
        let ours: Vec<[u8; 32]> = self.ours.heads().iter().map(|hash| hash.0).collect();
        let mut theirs: Vec<[u8; 32]> = self.theirs.get_heads().iter().map(|hash| hash.0).collect();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }

    fn apply(&mut self, step: &Step, other: &mut Self) {
        let (ours, theirs) = (&mut self.ours, &mut self.theirs);
        match step {
            Step::Put(key, value) => {
                let key = KEYS[usize::from(*key)];
                ours.put(&ROOT, key, *value).unwrap();
                theirs.put(automerge::ROOT, key, *value).unwrap();
            }
            Step::Increment(key) => {
                let key = KEYS[usize::from(*key)];
                let ok = ours.increment(&ROOT, key, 1).is_ok();
                assert_eq!(ok, theirs.increment(automerge::ROOT, key, 1).is_ok());
            }
            Step::Text(at, delete, text) => {
                let (_, obj) = ours.get(&ROOT, "text").unwrap().unwrap();
                let (_, their_obj) = theirs.get(automerge::ROOT, "text").unwrap().unwrap();
                let at = usize::from(*at) % (ours.length(&obj).unwrap() + 1);
                let ok = ours.splice_text(&obj, at, (*delete).into(), text).is_ok();
                let their_ok = theirs.splice_text(&their_obj, at, (*delete).into(), text).is_ok();
                assert_eq!(ok, their_ok);
                assert_eq!(ours.text(&obj).unwrap(), theirs.text(&their_obj).unwrap());
            }
            Step::Commit => {
                let hash = ours.commit().map(|hash| hash.0);
                assert_eq!(hash, theirs.commit().map(|hash| hash.0));
            }
            Step::Rollback => assert_eq!(ours.rollback(), theirs.rollback()),
            Step::Heads => self.heads(),
            Step::Empty => {
                let hash = ours.commit_empty(CommitOptions::default());
                let options = automerge::transaction::CommitOptions::default();
                assert_eq!(hash.0, theirs.empty_change(options).0);
            }
            Step::Merge => {
                ours.merge(&mut other.ours).unwrap();
                theirs.merge(&mut other.theirs).unwrap();
                self.heads();
            }
            Step::Save => {
                let bytes = ours.save();
                theirs.save();
                let mut loaded = automerge::AutoCommit::load(&bytes).unwrap();
                let heads: Vec<[u8; 32]> = ours.heads().iter().map(|hash| hash.0).collect();
                assert_eq!(loaded.get_heads().iter().map(|h| h.0).collect::<Vec<_>>(), heads);
                assert_eq!(ours.pending_ops(), 0);
            }
        }
        assert_eq!(self.ours.pending_ops(), self.theirs.pending_ops());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sessions_give_what_the_reference_gives(
        steps in prop::collection::vec((any::<bool>(), step()), 1..60),
    ) {
        let actor = |byte: u8| ActorId::new(&[byte; 4]);
        let mut first = Pair {
            ours: AutoCommit::new(actor(1)),
            theirs: automerge::AutoCommit::new()
                .with_actor(automerge::ActorId::from(actor(1).as_bytes())),
        };
        first.ours.put_object(&ROOT, "text", ObjType::Text).unwrap();
        first.theirs.put_object(automerge::ROOT, "text", automerge::ObjType::Text).unwrap();
        first.ours.put(&ROOT, "d", shoal_crdt::Scalar::Counter(5)).unwrap();
        first.theirs.put(automerge::ROOT, "d", automerge::ScalarValue::counter(5)).unwrap();
        let mut second = Pair {
            ours: first.ours.fork(actor(2)),
            theirs: first.theirs.fork()
                .with_actor(automerge::ActorId::from(actor(2).as_bytes())),
        };
        for (which, step) in &steps {
            if *which {
                first.apply(step, &mut second);
            } else {
                second.apply(step, &mut first);
            }
        }
        first.heads();
        second.heads();
    }
}

/// What a save must not contain: it would name ops that are in no change.
#[test]
fn saving_commits_what_is_pending() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    assert_eq!(doc.pending_ops(), 1);
    let bytes = doc.save();
    assert_eq!(doc.pending_ops(), 0);
    let loaded =
        AutoCommit::load(&bytes, ActorId::new(&[2]), &shoal_crdt::LoadOptions::default()).unwrap();
    assert_eq!(loaded.length(&ROOT).unwrap(), 1);
}
