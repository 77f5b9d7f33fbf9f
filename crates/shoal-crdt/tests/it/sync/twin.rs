//! Two peers, each kept by both engines at once: whatever happens, both engines write the same
//! messages, byte for byte.

use std::collections::VecDeque;

use proptest::prelude::*;
use shoal_crdt::{ActorId, Document, Limits, LoadOptions, SyncMessage};
use shoal_history::{Chunk, chunks};

use super::peer::{Edit, Peer, State, without_flags};

/// One peer, in both engines.
struct Side {
    ours: (Peer, State),
    theirs: (Peer, State),
    /// Messages on their way here.
    inbox: VecDeque<Vec<u8>>,
    has_lost: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Edit {
        side: bool,
        edit: Edit,
    },
    Send {
        side: bool,
        engine: bool,
    },
    Receive {
        side: bool,
    },
    /// Send and receive both ways.
    Exchange {
        engine: bool,
    },
    /// The connection is lost with all that is under way.
    Reconnect,
    ReadOnly {
        side: bool,
        read_only: bool,
    },
    /// A side forgets the document, and the other one does not know.
    Lose {
        side: bool,
    },
}

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<u8>(), -2_i8..3).prop_map(|(key, value)| Edit::Put { key, value }),
        (any::<u8>(), any::<u8>()).prop_map(|(at, letter)| Edit::Type { at, letter }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), edit()).prop_map(|(side, edit)| Step::Edit { side, edit }),
        4 => any::<(bool, bool)>().prop_map(|(side, engine)| Step::Send { side, engine }),
        4 => any::<bool>().prop_map(|side| Step::Receive { side }),
        4 => any::<bool>().prop_map(|engine| Step::Exchange { engine }),
        1 => Just(Step::Reconnect),
        1 => any::<(bool, bool)>()
            .prop_map(|(side, read_only)| Step::ReadOnly { side, read_only }),
        1 => any::<bool>().prop_map(|side| Step::Lose { side }),
    ]
}

impl Side {
    fn new(number: u8) -> Self {
        Self::of(|ours| Peer::seed(ours).fork(number))
    }

    fn of(make: impl Fn(bool) -> Peer) -> Self {
        let with_state = |peer: Peer| {
            let state = peer.new_state();
            (peer, state)
        };
        let inbox = VecDeque::new();
        Self {
            ours: with_state(make(true)),
            theirs: with_state(make(false)),
            inbox,
            has_lost: false,
        }
    }

    fn generate(&mut self, engine: bool) -> Option<Vec<u8>> {
        let ours = self.ours.0.generate(&mut self.ours.1);
        let theirs = self.theirs.0.generate(&mut self.theirs.1);
        assert_alike(ours.as_deref(), theirs.as_deref());
        if engine { ours } else { theirs }
    }

    fn receive(&mut self) {
        if let Some(bytes) = self.inbox.pop_front() {
            self.ours.0.receive(&mut self.ours.1, &bytes);
            self.theirs.0.receive(&mut self.theirs.1, &bytes);
            assert_eq!(self.ours.0.heads(), self.theirs.0.heads());
            assert_eq!(self.ours.1.encode(), self.theirs.1.encode());
            let known = self.ours.0.has_our_changes(&self.ours.1);
            assert_eq!(known, self.theirs.0.has_our_changes(&self.theirs.1));
        }
    }
}

/// Whole documents may be laid out in different ways; all else is equal.
fn assert_alike(ours: Option<&[u8]>, theirs: Option<&[u8]>) {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        assert_eq!(ours, theirs);
        return;
    };
    let [mut ours, mut theirs] = [ours, theirs].map(|bytes| SyncMessage::decode(bytes).unwrap());
    let is_document = |message: &SyncMessage| {
        message.changes.len() == 1 && message.changes.as_bytes().get(8) == Some(&0)
    };
    if is_document(&ours) && is_document(&theirs) {
        let [ours, theirs] = [&mut ours, &mut theirs].map(|message| {
            let bytes = std::mem::take(&mut message.changes);
            Document::load(bytes.as_bytes(), ActorId::new(&[1]), &LoadOptions::default()).unwrap()
        });
        assert_eq!(ours.heads(), theirs.heads());
        let waiting = |doc: &Document| {
            let mut hashes: Vec<_> =
                doc.queued_changes().iter().map(|change| change.hash()).collect();
            hashes.sort_unstable();
            hashes
        };
        assert_eq!(waiting(&ours), waiting(&theirs));
    }
    let [our_order, their_order] = [&ours, &theirs].map(order);
    assert_eq!(our_order, their_order);
    assert!(ours == theirs, "alike but for what they are made of");
}

/// The changes of a message, named by their first bytes.
fn order(message: &SyncMessage) -> Vec<String> {
    chunks(message.changes.as_bytes(), &Limits::default())
        .map(|chunk| match chunk.unwrap() {
            Chunk::Change(change) => change.hash().to_string()[..8].to_string(),
            _ => "document".to_string(),
        })
        .collect()
}

fn run(steps: &[Step], has_flags: bool) {
    let mut sides = [Side::new(1), Side::new(2)];
    let mut next_number = 3;
    let send = |sides: &mut [Side; 2], from: usize, engine: bool| {
        if let Some(bytes) = sides[from].generate(engine) {
            let bytes = if has_flags { bytes } else { without_flags(&bytes) };
            sides[1 - from].inbox.push_back(bytes);
        }
    };
    let reconnect = |sides: &mut [Side; 2]| {
        for side in sides {
            side.inbox.clear();
            side.ours.1.reconnect();
            side.theirs.1.reconnect();
        }
    };
    for step in steps {
        match *step {
            Step::Edit { side, edit } => {
                let side = &mut sides[usize::from(side)];
                side.ours.0.edit(edit);
                side.theirs.0.edit(edit);
                assert_eq!(side.ours.0.heads(), side.theirs.0.heads());
            }
            Step::Send { side, engine } => send(&mut sides, usize::from(side), engine),
            Step::Receive { side } => sides[usize::from(side)].receive(),
            Step::Exchange { engine } => {
                for from in [0, 1] {
                    send(&mut sides, from, engine);
                }
                for side in &mut sides {
                    side.receive();
                }
            }
            Step::Reconnect => reconnect(&mut sides),
            Step::ReadOnly { side, read_only } => {
                let side = &mut sides[usize::from(side)];
                // The reference and its peer would go on for ever.
                let read_only = read_only && !side.has_lost;
                side.ours.1.set_read_only(read_only);
                side.theirs.1.set_read_only(read_only);
            }
            Step::Lose { side } => {
                reconnect(&mut sides);
                sides[usize::from(side)] = Side::of(|ours| Peer::empty(ours, next_number));
                sides[usize::from(side)].has_lost = true;
                next_number += 1;
            }
        }
    }
    // Without further edits both come to rest, and are equal unless one ignores the other.
    for round in 0.. {
        let mut is_quiet = true;
        for from in [0, 1] {
            send(&mut sides, from, round % 2 == 0);
            while !sides[1 - from].inbox.is_empty() {
                is_quiet = false;
                sides[1 - from].receive();
            }
        }
        if is_quiet {
            break;
        }
        assert!(round < 100, "the peers do not come to rest");
    }
    for side in &sides {
        assert_eq!(side.ours.0.json(), side.theirs.0.json());
    }
    let ignores = |side: &Side| match &side.ours.1 {
        State::Ours(state) => state.is_read_only(),
        State::Theirs(_) => false,
    };
    if !sides.iter().any(ignores) {
        assert_eq!(sides[0].ours.0.heads(), sides[1].ours.0.heads());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_engines_write_the_same_messages(
        steps in prop::collection::vec(step(), 1..70),
        has_flags in prop::bool::weighted(0.8),
    ) {
        run(&steps, has_flags);
    }
}
