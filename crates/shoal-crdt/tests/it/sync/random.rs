//! Several peers of either engine, each linked to each: messages arrive in order or the connection
//! is lost with all that is under way. In the end all have everything.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::peer::{Edit, Peer, State, assert_equal, without_flags};
use super::twin::edit;

const PEERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Edit { peer: usize, edit: Edit },
    Send { from: usize, to: usize },
    Receive { from: usize, to: usize },
    Reconnect { a: usize, b: usize },
}

/// What one peer knows of another, and the messages on their way from it.
struct Link {
    state: State,
    messages: VecDeque<Vec<u8>>,
}

struct Net {
    peers: Vec<Peer>,
    /// By peer, then by the other one.
    links: Vec<Vec<Link>>,
    max_bytes: Option<usize>,
    /// Of each peer, whether it writes and reads flags.
    has_flags: Vec<bool>,
}

fn step() -> impl Strategy<Value = Step> {
    let pair = || (0..PEERS, 1..PEERS).prop_map(|(from, by)| (from, (from + by) % PEERS));
    prop_oneof![
        5 => (0..PEERS, edit()).prop_map(|(peer, edit)| Step::Edit { peer, edit }),
        6 => pair().prop_map(|(from, to)| Step::Send { from, to }),
        6 => pair().prop_map(|(from, to)| Step::Receive { from, to }),
        1 => pair().prop_map(|(a, b)| Step::Reconnect { a, b }),
    ]
}

impl Net {
    fn new(
        engines: &[bool],
        has_flags: &[bool],
        max_bytes: Option<usize>,
        is_seeded: bool,
    ) -> Self {
        let peers: Vec<Peer> = (1_u8..)
            .zip(engines)
            .map(|(number, &ours)| {
                // The last one may begin with nothing.
                if is_seeded || usize::from(number) < engines.len() {
                    Peer::seed(ours).fork(number)
                } else {
                    Peer::empty(ours, number)
                }
            })
            .collect();
        let link = |peer: &Peer| {
            let mut state = peer.new_state();
            if let Some(max_bytes) = max_bytes {
                state.bound(max_bytes);
            }
            Link { state, messages: VecDeque::new() }
        };
        let links = peers.iter().map(|peer| (0..PEERS).map(|_| link(peer)).collect()).collect();
        Self { peers, links, max_bytes, has_flags: has_flags.to_vec() }
    }

    fn send(&mut self, from: usize, to: usize) -> bool {
        let message = self.peers[from].generate(&mut self.links[from][to].state);
        let is_some = message.is_some();
        if let Some(bytes) = message {
            let bytes = if self.has_flags[from] && self.has_flags[to] {
                bytes
            } else {
                without_flags(&bytes)
            };
            self.links[to][from].messages.push_back(bytes);
        }
        is_some
    }

    fn receive(&mut self, from: usize, to: usize) {
        let link = &mut self.links[to][from];
        if let Some(bytes) = link.messages.pop_front() {
            self.peers[to].receive(&mut link.state, &bytes);
        }
    }

    fn reconnect(&mut self, a: usize, b: usize) {
        for (at, other) in [(a, b), (b, a)] {
            let link = &mut self.links[at][other];
            link.messages.clear();
            link.state.reconnect();
            if let Some(max_bytes) = self.max_bytes {
                link.state.bound(max_bytes);
            }
        }
    }

    /// Passes messages until there are none.
    fn settle(&mut self) {
        for round in 0.. {
            let mut is_quiet = true;
            for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)] {
                is_quiet &= !self.send(from, to) && self.links[to][from].messages.is_empty();
                while !self.links[to][from].messages.is_empty() {
                    self.receive(from, to);
                }
            }
            if is_quiet {
                return;
            }
            assert!(round < 1000, "the peers do not come to rest");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_mix_of_engines_agrees_in_the_end(
        engines in prop::collection::vec(prop::bool::weighted(0.6), PEERS),
        has_flags in prop::collection::vec(prop::bool::weighted(0.8), PEERS),
        max_bytes in prop::option::of(prop_oneof![Just(0_usize), 100..2000_usize]),
        is_seeded: bool,
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut net = Net::new(&engines, &has_flags, max_bytes, is_seeded);
        for step in &steps {
            match *step {
                Step::Edit { peer, edit } => net.peers[peer].edit(edit),
                Step::Send { from, to } => drop(net.send(from, to)),
                Step::Receive { from, to } => net.receive(from, to),
                Step::Reconnect { a, b } => net.reconnect(a, b),
            }
        }
        net.settle();
        assert_equal(&net.peers[0], &net.peers[1]);
        assert_equal(&net.peers[1], &net.peers[2]);
    }
}
