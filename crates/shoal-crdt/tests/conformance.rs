//! Random edit sessions by several actors, made with Shoal and with the reference side by side:
//! the same changes to the byte, the same values, the same conflicts.

#![allow(clippy::unwrap_used)]

#[path = "conformance/session.rs"]
mod session;

use proptest::prelude::*;
use session::{Pair, Reference, Step, step};

fn run(steps: &[Step], replicas: u8) {
    let mut pairs: Vec<Pair> = vec![Pair::new(0)];
    for number in 1..replicas {
        let fork = pairs[0].fork(number);
        pairs.push(fork);
    }
    for step in steps {
        if Pair::perform(&mut pairs, step) == Reference::Panicked {
            return;
        }
    }
    // Everyone meets everyone; then all are equal.
    for target in 0..pairs.len() {
        for source in 0..pairs.len() {
            if Pair::merge(&mut pairs, target, source) == Reference::Panicked {
                return;
            }
        }
    }
    for pair in &pairs {
        pair.check();
        assert_eq!(pair.ours.heads(), pairs[pairs.len() - 1].ours.heads());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sessions_of_two_give_what_the_reference_gives(
        steps in prop::collection::vec(step(2), 1..60),
    ) {
        run(&steps, 2);
    }

    #[test]
    fn sessions_of_three_give_what_the_reference_gives(
        steps in prop::collection::vec(step(3), 1..80),
    ) {
        run(&steps, 3);
    }
}
